"""Language models of published families, against the package transformers; and what they write."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
from families import LLAMA, small

import pyframe as pf
from pyframe.core.limits import Limits
from pyframe.io import safetensors
from pyframe.runtime.offline import offline_device
from pyframe.text import AutoModel, CausalLM, Config
from pyframe.text.generate import Writer
from pyframe.text.loading import TURNED, ours, theirs
from pyframe.tools.cost import table
from pyframe.watch import GuardSet

IDS = np.random.default_rng(0).integers(1, 97, (2, 9))
MASK = np.ones((2, 9), np.int64)
MASK[0, :4] = 0


@pytest.mark.parametrize("name", families.FAMILIES)
def test_a_family_is_as_in_transformers(
    transformers: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Scores, features, gradients, and what it writes of texts of different lengths."""
    monkeypatch.setattr("pyframe.text.generate.SPAN", 16)
    theirs = families.made(transformers, torch, name)
    theirs.save_pretrained(tmp_path)
    model = CausalLM.from_pretrained(tmp_path)
    ids, mask = pf.tensor(IDS), pf.tensor(MASK)
    want = theirs(torch.tensor(IDS), output_hidden_states=True)
    features: list[pf.Tensor] = []
    model.model(ids, hidden_states=features)
    for a, b in zip(want.hidden_states, features, strict=True):
        np.testing.assert_allclose(b.detach(), a.detach(), 1e-4, 1e-4)
    scores = model(ids)
    np.testing.assert_allclose(scores.detach(), want.logits.detach(), 1e-4, 1e-4)
    model.save_pretrained(tmp_path / "saved", 30_000 if name == "llama" else "5GB")
    kind = model.config.model_type
    plain = Config.from_dict({"model_type": kind, **families.BASE, **families.GPT2})
    assert plain.to_dict()["architectures"] == [type(theirs).__name__]
    again = type(theirs).from_pretrained(tmp_path / "saved", attn_implementation="eager")
    again = again(torch.tensor(IDS)).logits
    np.testing.assert_allclose(again.detach(), want.logits.detach(), 1e-5, 1e-5)
    assert CausalLM.from_pretrained(tmp_path / "saved")(ids).equal(scores)

    want.logits.log_softmax(-1)[:, :, 3].sum().backward()
    scores.log_softmax(-1)[:, :, 3].sum().backward()
    own = dict(model.named_parameters())
    for n, p in theirs.named_parameters():
        grad, mine = p.grad.numpy(), ours(n, kind)
        turned = mine.endswith("weight") and mine.split(".")[-2] in TURNED.get(kind, ())
        size = max(1.0, np.abs(grad).max())
        np.testing.assert_allclose(own[mine].grad, grad.T if turned else grad, 1e-4, 1e-4 * size)

    if name not in ("gpt2", "llama", "gemma3"):
        return  # scripts/fuzz sees that what is written is what was read at once says
    new = 50 if name == "llama" else 20  # attention looks at four sizes, or at two
    how: dict[str, Any] = {"max_new_tokens": new, "do_sample": False, "pad_token_id": 0}
    expected = theirs.generate(
        torch.tensor(IDS), attention_mask=torch.tensor(MASK), eos_token_id=None, **how
    )
    found = model.generate(ids, new, attention_mask=mask, eos_token_id=())
    assert found.tolist() == expected.tolist()


def test_what_is_written_is_what_follows(device: str) -> None:
    """Each token is the likeliest one after all before it, and nothing is compiled for it."""
    model = small().to(device)
    prompt = [3, 1, 4, 1, 5]
    text = model.generate(prompt, 20, eos_token_id=())[0].tolist()
    with pf.no_grad():
        for n in range(5, 25):
            assert text[n] == model(pf.tensor([text[:n]], device=device))[0, -1].argmax().item()
    with model.writer(1, 64) as writer:
        captures = [writer.reads[16].captured, writer.write.captured, writer.write.eager]
    assert captures == [1, 1, ""]
    assert model.generate([3, 1, 4, 1, 5, 9], 30, eos_token_id=()).shape == (1, 36)
    assert (writer.reads[16].captured, writer.write.captured) == (1, 1)


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
@pytest.mark.parametrize("portable", [False, True])
def test_a_token_takes_few_dispatches(mode: str | None, portable: bool) -> None:
    """A layer of a Llama: a norm, queries with keys and values, those into the cache, attention,
    what it gives, a norm, the two halves of the MLP, and the way back; in a page, whose CPU may run
    them, attention is two products and a softmax."""
    model = small(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, max_position_embeddings=256
    )
    if mode:
        pf.quantize_(model, mode, group=32)
    with offline_device(Limits(portable=portable)) as device, pf.no_grad():
        model.to(device)
        writer = Writer(model, 1, 256)
        how = (False, 1.0, None, None, None, None, None, False, False)
        writer.write(pf.zeros(1, dtype=pf.int64, device=device), writer.span(1), False, how)
        (program,) = writer.write.programs
    each, rest = 8 + 2 * portable, 6 + (mode is not None)
    assert len(program.steps) <= each * len(model.model.layers) + rest


def test_streams_ends_and_seeds() -> None:
    model = small()
    whole = model.generate([[5, 6], [7, 8]], 12, eos_token_id=())
    rows = list(model.stream([[5, 6], [7, 8]], 12, eos_token_id=()))
    assert pf.tensor(rows).t().tolist() == whole[:, 2:].tolist()

    async def streamed() -> list[list[int]]:
        assert (await model.generate_async([5, 6], 3)).shape == (1, 5)
        return [row async for row in model.stream([[5, 6], [7, 8]], 12, eos_token_id=())]

    assert asyncio.run(streamed()) == rows
    end = rows[2][0]
    stopped = model.generate([[5, 6], [7, 8]], 12, eos_token_id=end)
    first = next(n for n, row in enumerate(rows) if row[0] == end)
    assert stopped[0, 2 : first + 3].tolist() == whole[0, 2 : first + 3].tolist()
    assert set(stopped[0, first + 3 :].tolist()) <= {end}

    drawn = [
        model.generate([5, 6], 12, seed=s, do_sample=True, num_return_sequences=3).tolist()
        for s in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({tuple(row) for row in drawn[0]}) == 3


def test_a_token_looks_at_the_slots_that_are_taken() -> None:
    """In a cache of any length it reads no more, and writes the same."""
    model = small(max_position_embeddings=4096)
    expected, moved = model.generate([5, 6], 300, eos_token_id=()), []
    for length in (384, 4096):
        writer = Writer(model, 1, length)
        found = [row[0] for row in model.stream([5, 6], 300, eos_token_id=(), writer=writer)]
        assert found == expected[0, 2:].tolist()
        assert writer.write.captured == 1
        moved.append([table(p).bytes_moved for p in writer.write.programs if len(p.steps) > 1])
    assert moved[0] == moved[1]
    assert moved[0][0] < moved[0][1] < moved[0][2]


@pytest.mark.parametrize("where", ["on two modules", "on all modules"])
def test_a_model_that_reads_values_runs_as_it_is(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyframe.text.generate.SPAN", 16)
    expected, model = small().generate([5, 6], 40, eos_token_id=()), small()
    shapes, sums = [], []
    first, then = model.model.embed_tokens, model.model.layers[0]

    def hook(module: pf.nn.Module, inputs: Any, y: pf.Tensor) -> None:
        if module is first:
            shapes.append(y.shape)
        if module is then:
            sums.append(float(y.sum()))

    if where == "on two modules":
        handles = [first.register_forward_hook(hook), then.register_forward_hook(hook)]
    else:
        handles = [pf.nn.modules.module.register_module_forward_hook(hook)]
    try:
        with pytest.warns(RuntimeWarning, match="runs eagerly"):
            assert model.generate([5, 6], 40, eos_token_id=()).equal(expected)
    finally:
        for handle in handles:
            handle.remove()
    assert len(sums) == len(shapes) == 40


def test_a_stream_looks_at_its_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step relies on is looked at for the first ones; what a tensor holds is always seen,
    and what dies as well; another stream sees all."""
    model, looks, holds = small(tie_word_embeddings=False), [], GuardSet.holds
    monkeypatch.setattr(GuardSet, "holds", lambda guard: looks.append(guard) or holds(guard))

    def likeliest(ids: list[int]) -> int:
        with pf.no_grad():
            return int(model(pf.tensor([ids]))[0, -1].argmax())

    ids = [5, 6]
    for n, (token,) in enumerate(model.stream(ids, 30, eos_token_id=())):
        assert token == likeliest(ids)
        ids.append(token)
        if n == 9:
            assert len(looks) < 4
            with pf.no_grad():
                model.lm_head.weight.neg_()
        if n == 19:
            model.lm_head.weight = pf.nn.Parameter(pf.randn(model.lm_head.weight.shape))
    model.model.layers[0].mlp.activation = pf.nn.functional.relu
    (token,) = next(iter(model.stream(ids[:5], 1)))
    assert token == likeliest(ids[:5])


def test_a_long_text_takes_no_more_memory() -> None:
    """What is held after a token is what was held after the one before, but for its number."""
    model = small(max_position_embeddings=4096)
    writer, held = Writer(model, 1, 1536), []
    stream = iter(model.stream([5, 6], 1500, eos_token_id=(), writer=writer))
    gc.collect()
    for count in (300, 400, 600):
        for _ in range(count):
            next(stream)
        gc.collect()
        held.append(sys.getallocatedblocks())
    assert (writer.reads[16].captured, writer.write.captured) == (1, 1)
    assert max(held[1:]) - held[0] < 2 * 1000 + 500, held


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({"top_k": 2}, {0, 1}), ({"top_p": 0.6}, {0, 1}), ({"top_p": 0.4}, {0}),
        ({"min_p": 0.5}, {0, 1}), ({"top_k": 3, "min_p": 0.9}, {0}), ({"temperature": 0.01}, {0}),
        ({}, {0, 1, 2, 3}),
    ],
)  # fmt: skip
def test_what_may_be_drawn(how: dict[str, Any], kept: set[int]) -> None:
    from pyframe.text.generate import filtered

    chances = pf.tensor([[0.5, 0.3, 0.15, 0.05]])
    given = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None, **how}
    left = filtered(chances.log(), **given).softmax(-1)[0]
    assert {i for i, p in enumerate(left.tolist()) if p > 1e-6} == kept


@pytest.mark.parametrize(
    ("ids", "how", "message"),
    [
        ([1.0, 2.0], {}, "input_ids are ints, got float32"),
        ([True], {}, "input_ids are ints, got bool"),
        ([[1, 2], [3]], {}, "fill up shorter texts on their left, and say so by attention_mask"),
        ([], {}, r"with a token at least, got \[1, 0\]"),
        ([[[1]]], {}, r"input_ids are \(texts, tokens\) with a token at least, got \[1, 1, 1\]"),
        ([97], {}, "the model's tokens are from 0 to 96, got 97"),
        ([3, -1], {}, "the model's tokens are from 0 to 96, got -1"),
        ("text", {}, r"got a str; tokenizer\.encode\(text\) makes them"),
        ({"input_ids": [1]}, {}, 'got a dict; give its "input_ids"'),
        ([1], {"num_beams": 4}, "no argument 'num_beams': beam search is not here"),
        ([1], {"tempersture": 1}, r"'tempersture': do you mean temperature\?"),
        ([1], {"x": 1}, "no argument 'x'; of how it chooses it takes do_sample, temperature,"),
        ([1], {"output_scores": True}, r"'output_scores': scores=\[\]"),
        ([1, 2], {"max_length": 2}, "the prompt has 2 tokens, max_length=2 leaves none"),
        ([1], {"max_length": 9, "max_new_tokens": 3}, "give one of them"),
        ([1], {"max_new_tokens": 2.5}, "max_new_tokens is an int, got 2.5"),
        ([1], {"max_new_tokens": -1}, "max_new_tokens is 0 or more, got -1"),
        ([1], {"eos_token_id": 1.5}, "eos_token_id is an int, got 1.5"),
        ([1], {"seed": "a"}, "seed is an int, got 'a'"),
        ([1], {"num_return_sequences": 0}, "num_return_sequences is 1 or more"),
        ([1, 2], {"attention_mask": [1]}, r"attention_mask is of input_ids' shape \[1, 2\], got"),
        ([1], {"suppress_tokens": range(97)}, "suppress_tokens is a list of ints, got range"),
        ([1], {"suppress_tokens": [*range(97)]}, "leave none of 97 tokens to come next"),
        ([1], {"bad_words_ids": [7]}, "bad_words_ids is a list of ints, got 7"),
        ([1], {"bad_words_ids": [[]]}, "lists that have a token each"),
        ([1], {"bad_words_ids": [[97]]}, "bad_words_ids are tokens from 0 to 96, got 97"),
        ([1], {"do_sample": 1}, "do_sample is true or false, got 1"),
        ([1], {"temperature": -1}, "temperature is 0, which takes .* or more, got -1"),
        ([1], {"top_k": -2}, "top_k is 0, which is all tokens, or more, got -2"),
        ([1], {"top_p": 1.5}, "top_p is from 0 to 1, got 1.5"),
        ([1] * 5, {"max_new_tokens": 60}, "5 tokens and 60 new ones are more than the 64"),
        ([1, 1], {"attention_mask": pf.tensor([[1, 0]])}, "fill up shorter prompts on their left"),
    ],
)  # fmt: skip
def test_what_are_no_arguments(ids: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"generate: .*{message}"):
        small().generate(ids, **how)


def test_arguments_of_transformers() -> None:
    """Those that change nothing are none; max_length counts the prompt."""
    model = small()
    want = model.generate([1, 2], 5, eos_token_id=())
    how: dict[str, Any] = {"num_beams": 1, "use_cache": True, "temperature": None, "top_p": None,
                           "early_stopping": False, "length_penalty": 1.0}  # fmt: skip
    assert model.generate([1, 2], max_length=7, eos_token_id=(), **how).equal(want)
    assert (
        model.generate(np.array([[1, 2]], np.uint8), 5, eos_token_id=()).tolist() == want.tolist()
    )
    for how in ({"temperature": 0}, {"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0, "top_k": 0}):
        assert model.generate([1, 2], 5, do_sample=True, eos_token_id=(), **how).equal(want)
    with pytest.raises(ValueError, match=r"got \[2\]; unsqueeze\(0\) makes a row"):
        model(pf.tensor([1, 2]))


def test_rules_on_a_device(device: str) -> None:
    """Drawn or not, also of a text that goes on."""
    model = small().to(device)
    plain = model.generate([5, 6], 6, eos_token_id=())[0, 2:].tolist()
    how: dict[str, Any] = {"eos_token_id": (), "suppress_tokens": plain[:1],
                           "bad_words_ids": [plain[1:2]], "no_repeat_ngram_size": 1}  # fmt: skip
    writer = Writer(model, 1, 64)
    for drawn in (False, True):
        scores: list[pf.Tensor] = []
        text = model.generate([5, 6], 8, do_sample=drawn, seed=1, writer=writer, scores=scores,
                              **how)[0].tolist()  # fmt: skip
        assert len({*text, *plain[:2]}) == len(text) + 2
        for n, found in enumerate(scores):
            never = {*text[: 2 + n], *plain[:2]}
            assert {i for i, x in enumerate(found[0].tolist()) if x < -1e30} == never
    more = model.generate([*text, 9], 3, writer=writer, **how)[0, len(text) + 1 :].tolist()
    assert not {*more} & {*text, *plain[:2], 9}
    for rule in ({"min_new_tokens": 6}, {"min_length": 8}, {"begin_suppress_tokens": plain[:1]}):
        text = model.generate([5, 6], 6, eos_token_id=plain[0], writer=writer, **rule)[0].tolist()  # type: ignore[arg-type]
        assert text[2] != plain[0]
    text = model.generate([5, 6], 6, eos_token_id=(), repetition_penalty=1e9)[0].tolist()
    assert len({*text}) == len(text)
    assert (writer.write.captured, writer.write.eager) == (3, "")  # drawn or not, scores or not


def test_what_a_file_says_of_writing(tmp_path: Path) -> None:
    """It is done, or named once; what changes nothing is not; what is not drawn may be out of its
    range."""
    path = tmp_path / "generation_config.json"
    small().save_pretrained(tmp_path)
    model = CausalLM.from_pretrained(tmp_path)
    plain = model.generate([1, 2, 3], 20, eos_token_id=())

    def said(**what: Any) -> CausalLM:
        """The model, which keeps what it compiled, as one that is read beside such a file."""
        path.write_text(json.dumps(what))
        model.config.generation = Config.from_file(tmp_path).generation
        return model

    quiet = {"top_k": 0, "temperature": 0.0, "num_beams": 1, "length_penalty": 2.0, "use_cache": 3,
             "typical_p": 1.0, "transformers_version": "4", "renormalize_logits": True,
             "num_return_sequences": 1, "min_length": 0, "forced_eos_token_id": None}  # fmt: skip
    assert said(**quiet).generate([1, 2, 3]).equal(plain)
    drawn = said(**quiet, do_sample=True)
    assert drawn.generate([1, 2, 3]).equal(plain)
    assert not drawn.generate([1, 2, 3], do_sample=True, seed=1).equal(plain)  # of all tokens
    for what, count in (
        ({"max_new_tokens": 4}, 4), ({"max_length": 9}, 6), ({"max_length": 2}, 20),
        ({"max_length": 9999}, 61), ({"max_new_tokens": 5, "max_length": 9}, 5),
    ):  # fmt: skip
        assert said(**what).generate([1, 2, 3], eos_token_id=()).shape == (1, 3 + count)
    assert said(pad_token_id=-1).generate([1, 2, 3]).equal(plain)
    with pytest.warns(UserWarning, match="says num_beams, length_penalty, typical_p, odd, which"):
        found = said(num_beams=4, length_penalty=2.0, typical_p=0.9, odd=[{}], top_k=5)
    assert found.generate([1, 2, 3]).equal(plain)
    found.save_pretrained(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert again == json.loads(path.read_text())
    with pytest.warns(UserWarning, match=r"generation_config\.json says top_p, top_k, which"):
        assert said(top_p=1.5, top_k=-1).generate([1, 2, 3]).equal(plain)
    for wrong, why in (
        ({"top_p": 1.5, "do_sample": True}, "top_p is from 0 to 1, got 1.5"),
        ({"temperature": float("nan")}, "temperature is a number, got nan"),
        ({"suppress_tokens": [1, "x"]}, "suppress_tokens is an int from 0 to .*, got 'x'"),
        ({"bad_words_ids": {"a": 1}}, "bad_words_ids is a list of lists of ints, got {'a': 1}"),
        ({"bad_words_ids": [[[1]]]}, r"bad_words_ids is an int from 0 to .*, got \[1\]"),
        ({"no_repeat_ngram_size": 1 << 40}, "no_repeat_ngram_size is an int from 0 to 2147483647"),
        ({"repetition_penalty": 0}, "repetition_penalty is more than 0, got 0"),
        ({"max_length": -1}, "max_length is an int from 0 to .*, got -1"),
        ({"temperature": "hot"}, "temperature is "), ({"top_k": 1.5}, "top_k is "),
        ({"eos_token_id": [{}]}, "eos_token_id is "), ({"do_sample": 1}, "do_sample is "),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"Config: {why}.* \(.*generation_config\.json\)"):
            said(**wrong)


def test_the_loss_of_labels(transformers: Any, torch: Any, tmp_path: Path) -> None:
    """It is transformers': a mean over the next tokens that count."""
    theirs = families.made(transformers, torch, "gemma2")
    theirs.save_pretrained(tmp_path)
    model = CausalLM.from_pretrained(tmp_path)
    labels = IDS.copy()
    labels[0, 2:6], labels[1, 7] = -100, -100
    want = theirs(torch.tensor(IDS), labels=torch.tensor(labels)).loss
    want.backward()
    y = pf.tensor(labels)
    loss = model(pf.tensor(IDS), labels=y)
    loss.backward()
    assert loss.shape == ()
    np.testing.assert_allclose(loss.item(), want.item(), 1e-5)
    grad = theirs.model.norm.weight.grad.numpy()
    np.testing.assert_allclose(model.model.norm.weight.grad, grad, 1e-3, 1e-5)
    each = model(pf.tensor(IDS), labels=y, reduction="none")
    assert each.shape == (2, 8)
    for found in (loss, each, model(pf.tensor(IDS))):
        np.testing.assert_allclose(pf.text.NextToken()(found, y).item(), want.item(), 1e-5)
    model.zero_grad()
    loss = model(pf.tensor(IDS), labels=pf.full_like(y, -100))
    loss.backward()
    assert np.isnan(loss.item())
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())
    with pytest.raises(IndexError, match="labels out of range: expected 0 to 96, got 97"):
        model(pf.tensor(IDS), labels=pf.full_like(y, 97))
    with pytest.raises(ValueError, match=r"labels are of input_ids' shape \[2, 9\], got \[2, 8\]"):
        model(pf.tensor(IDS), labels=y[:, 1:])


GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 512, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", ["embd_pdrop", "attn_pdrop", "resid_pdrop"])
def test_what_gpt2_drops(name: str) -> None:
    """In training alone."""

    def gpt2(p: float) -> CausalLM:
        pf.manual_seed(0)
        return CausalLM(Config.from_dict(GPT2 | {name: p}))

    plain, model = gpt2(0.0), gpt2(0.25)
    ids = pf.tensor(np.random.default_rng(0).integers(0, 97, (2, 400)))
    whole = plain.eval()(ids).detach()
    np.testing.assert_array_equal(plain.train()(ids).detach(), whole)
    np.testing.assert_array_equal(model.eval()(ids).detach(), whole)
    assert float(abs(model.train()(ids) - whole).max()) > 1e-4


def test_folders_that_are_none(tmp_path: Path) -> None:
    def refused(words: str, kind: type[Exception] = ValueError, **how: Any) -> None:
        with pytest.raises(kind, match=words):
            CausalLM.from_pretrained(tmp_path, **how)

    refused("config.json is not there", FileNotFoundError)
    refused(r"is a folder; pf.quantize_\(model\) packs its weights", packed=True)
    for text, words in (
        ("{", "is no JSON"),
        ('{"model_type": "lama"}', r"no family 'lama' \(do you mean 'llama'\?\); there are"),
        ('{"model_type": "llama", "vocab_size": 7}',
         "a llama file says its hidden_size, num_hidden_layers"),
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(text)
        refused(words)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    refused("holds none of model.safetensors", FileNotFoundError)
    weights = dict(small().state_dict())
    del weights["model.norm.weight"]
    weights["lm_head.weight"] = pf.zeros(3, 4)
    weights["model.more"] = pf.zeros(1)
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = pf.zeros(1)  # older files have it
    safetensors.save_file(weights, tmp_path / "model.safetensors")
    refused(r"missing model.norm.weight; superfluous model.more; of another shape lm_head.weight "
            r"\[3, 4\] for \[97, 32\]")  # fmt: skip
    state = enumerate(small().state_dict().items())
    odd = {f"{n}.more" if i % 2 else n: v for i, (n, v) in state}
    safetensors.save_file(odd, tmp_path / "model.safetensors")
    ten = r"(\S+, ){9}\S+ and"
    refused(f"missing {ten} 5 more; superfluous {ten} ")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"model_type": ["llama"]}, "no family .'llama'. .*there are gpt2"),
        ({"vocab_size": 1 << 31}, "vocab_size is an int from 1 to 2147483647, got 2147483648"),
        ({"vocab_size": 2**30}, "by its sizes the model has 34,3.* parameters in 3 layers, its"),
        ({"num_hidden_layers": 2**30}, "num_hidden_layers is 16384 at most, got 1073741824"),
        ({"num_hidden_layers": 16000}, "in 16,000 layers, its files have"),
        ({"hidden_size": True}, "hidden_size is an int from 1 to .*, got True"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps is a number, got 'small'"),
        ({"rope_theta": 1e400}, "rope_theta is a number, got inf"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is true or false, got 'no'"),
        ({"layer_types": ["full_attention"] * 2 + ["linear_attention"]}, "got 'linear_attention'"),
        ({"layer_types": ["full_attention"]}, "1 layer_types for 3 layers"),
        ({"layer_types": {"0": "full"}}, "layer_types is a list, got"),
        ({"rope_scaling": [1]}, "rope_scaling are fields by name"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor is a number above 0, got 0"),
        ({"rope_scaling": {"type": {}, "factor": 2}}, "rope_type is one of default"),
        ({"rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": "x"}},
         "longrope' can't be of these numbers|have 4 numbers each"),
        ({"head_dim": 7}, "pairs of numbers are turned, and 7 are none"),
        ({"eos_token_id": ["</s>"]}, "eos_token_id is an int from 0 to .*, got '</s>'"),
        ({"query_pre_attn_scalar": -4}, "query_pre_attn_scalar is above 0"),
        ({"scores_cap": 0}, "scores_cap is above 0, got 0"),
        ({"rms_norm_eps": -1e-5}, "rms_norm_eps is from 0 to 1, got -1e-05"),
        ({"attention_dropout": 2}, "attention_dropout is from 0 to 1, got 2"),
        ({"initializer_range": [1]}, r"initializer_range is a number, got \[1\]"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
          "high_freq_factor": 4.0}}, "'llama3' can't be of these numbers: divide by zero"),
    ],
)  # fmt: skip
def test_configurations_that_lie(tmp_path: Path, said: dict[str, Any], message: str) -> None:
    """Nothing of the sizes that they tell of is made."""
    safetensors.save_file(small().state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **said}))
    with pytest.raises(ValueError, match=message) as found:
        AutoModel.from_pretrained(tmp_path)
    assert str(tmp_path) in str(found.value)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([1, 2], "holds a list, not tensors by name"), ({"w": 3}, "'w' of type int, not tensors"),
        ({1: pf.ones(2)}, "1 of type Tensor, not tensors by name"),
    ],
)  # fmt: skip
def test_what_is_no_state(tmp_path: Path, saved: Any, message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    pf.save(saved, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=message):
        CausalLM.from_pretrained(tmp_path)


def test_files_as_they_are_published(tmp_path: Path) -> None:
    """Several files with an index, how to write beside them, and GPT-2's buffers of old."""
    model = small()
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    end = model.generate([[5, 6, 7]], 4, eos_token_id=())[0, 5].item()
    says = {"eos_token_id": [end, 96], "pad_token_id": 0, "max_length": 20, "top_k": None}
    (tmp_path / "generation_config.json").write_text(json.dumps(says))
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors", max_shard_size=20_000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    found = AutoModel.from_pretrained(tmp_path)
    assert isinstance(found, CausalLM)
    assert found.generate([[5, 6, 7]], 4).tolist() == model.generate(
        [[5, 6, 7]], 4, eos_token_id=(end, 96)).tolist()  # fmt: skip
    assert not found.training

    for path in tmp_path.glob("model*"):
        path.unlink()
    parts: list[dict[str, Any]] = [{}, {}]
    for i, (name, value) in enumerate(model.state_dict().items()):
        parts[i % 2][name] = value
    for i, part in enumerate(parts):
        pf.save(part, tmp_path / f"pytorch_model-{i}.bin")
    index = tmp_path / "pytorch_model.bin.index.json"
    where = {n: f"pytorch_model-{i}.bin" for i, part in enumerate(parts) for n in part}
    index.write_text(json.dumps({"weight_map": where}))
    x = pf.tensor([[1, 2, 3]])
    again = CausalLM.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again(x).detach(), model(x).detach())
    for bad, why in (({"w": "../x.bin"}, "names files that don't lie"), ([], "is no index")):
        index.write_text(json.dumps({"weight_map": bad}))
        with pytest.raises(ValueError, match=why):
            CausalLM.from_pretrained(tmp_path)

    folder = tmp_path / "gpt2"
    folder.mkdir()
    sizes = {"vocab_size": 97, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
    old = CausalLM(Config.from_file(folder))
    weights = {theirs(n, "gpt2").removeprefix("transformer."): p.t() if "proj.weight" in n else p
               for n, p in old.named_parameters()}  # fmt: skip
    weights["h.0.attn.bias"] = pf.ones(1, 1, 64, 64).tril()
    weights["h.0.attn.masked_bias"] = pf.tensor(-1e4)
    safetensors.save_file(weights, folder / "model.safetensors")
    new = AutoModel.from_pretrained(folder, dtype=pf.float64)
    x = pf.tensor([[1, 2, 3]])
    np.testing.assert_allclose(new(x).detach(), old.eval()(x).detach(), 1e-5, 1e-5)


def test_files_of_older_versions() -> None:
    """Their rotary parameters stand elsewhere."""
    old = Config.from_dict({**LLAMA, "rope_theta": 5e5, "rope_scaling": {
        "type": "linear", "factor": 2.0}})  # fmt: skip
    assert old.rotary["full_attention"]["rope_theta"] == 5e5
    assert old.rotary["full_attention"]["rope_type"] == "linear"
    with pytest.raises(ValueError, match="'linear' needs 'factor'"):
        CausalLM(Config.from_dict({**LLAMA, "rope_scaling": {"rope_type": "linear"}}))
    with pytest.raises(ValueError, match="rope_type is one of default, linear"):
        CausalLM(Config.from_dict({**LLAMA, "rope_scaling": {"rope_type": "spiral"}}))
    with pytest.raises(ValueError, match="hidden_act is one of silu"):
        CausalLM(Config.from_dict({**LLAMA, "hidden_act": "tan"}))
