"""Adapters: what the package peft computes, writes and reads; and learning with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
from families import small

import pyframe as pf
from pyframe import lora, nn
from pyframe.text import CausalLM, NextToken, decoder, pack

IDS = np.random.default_rng(0).integers(1, 97, (2, 9))
X = pf.tensor(IDS)


def drawn(model: nn.Module) -> None:
    """Give an adapter's matrices some values."""
    with pf.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                nn.init.normal_(p, std=0.2)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, about what peft asks it
@pytest.mark.filterwarnings("ignore::UserWarning")  # of peft
@pytest.mark.parametrize(
    ("family", "targets", "dora"),
    [
        ("llama", ["q_proj", "v_proj", "down_proj"], False), ("llama", "all-linear", False),
        ("llama", r".*\.1\.self_attn\.[qk]_proj", False),
        ("gpt2", ["c_attn", "c_fc"], False),
        ("phi3", ["qkv_proj"], False), ("llama", ["q_proj", "embed_tokens"], False),
        ("llama, biased and tied", ["o_proj", "down_proj"], True),
        ("gpt2", ["c_attn", "wte"], True),
        ("gemma3", ["embed_tokens", "v_proj"], True),
    ],
)  # fmt: skip
def test_adapters_are_those_of_peft(
    transformers: Any, torch: Any, tmp_path: Path, family: str, targets: Any, dora: bool
) -> None:
    """What peft wrote computes the same here, with gradients; and what is written here there."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    base = families.made(transformers, torch, family)
    base.save_pretrained(tmp_path)
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=targets, use_rslora=family == "phi3",
        fan_in_fan_out=family == "gpt2", task_type="CAUSAL_LM", init_lora_weights=False,
        use_dora=dora,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = peft.get_peft_model(base, config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    model = lora.load(CausalLM.from_pretrained(tmp_path), tmp_path / "theirs").eval()
    want = theirs(torch.tensor(IDS)).logits
    scores = model(X)
    np.testing.assert_allclose(scores.detach(), want.detach(), 1e-4, 1e-4)
    want.log_softmax(-1)[:, :, 3].sum().backward()
    scores.log_softmax(-1)[:, :, 3].sum().backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    others = [p.grad for p in theirs.parameters() if p.requires_grad]
    assert len(grads) == len(others)
    assert all("lora_" in n for n in grads)
    sums = [sorted(float(abs(g).sum()) for g in gs) for gs in (grads.values(), others)]
    np.testing.assert_allclose(*sums, 1e-3)

    drawn(model)
    lora.save(model, tmp_path / "mine", base="base")
    fresh = families.made(transformers, torch, family)
    again = peft.PeftModel.from_pretrained(fresh, tmp_path / "mine").eval()
    with torch.no_grad():
        want = again(torch.tensor(IDS)).logits
    np.testing.assert_allclose(model(X).detach(), want, 1e-4, 1e-4)


@pytest.mark.parametrize("dora", [False, True])
def test_what_an_adapter_does_to_a_table(dora: bool, tmp_path: Path) -> None:
    """It begins as nothing, is merged and taken out again, and comes back from its files."""
    model = small()
    before = model(X).detach()
    lora.apply(model, rank=4, targets=["embed_tokens", "k_proj"], dora=dora, dropout=0.5)
    np.testing.assert_allclose(model(X).detach(), before, 1e-4, 1e-4)
    assert len([p for p in model.parameters() if p.requires_grad]) == (3 if dora else 2) * 4
    drawn(model)
    found = model(X).detach()
    assert float(abs(found - before).max()) > 0.01
    lora.save(model, tmp_path)
    again = lora.load(small(), tmp_path)
    np.testing.assert_allclose(again(X).detach(), found, 1e-5, 1e-5)
    lora.merge(model)
    np.testing.assert_allclose(model(X).detach(), found, 1e-3, 1e-3)
    np.testing.assert_allclose(lora.unmerge(model)(X).detach(), found, 1e-3, 1e-3)
    lora.remove(lora.merge(model))
    assert type(model.model.embed_tokens) is nn.Embedding
    np.testing.assert_allclose(model(X).detach(), found, 1e-3, 1e-3)
    tied = lora.apply(small(tie_word_embeddings=True), targets=["embed_tokens"], dora=dora)
    with pytest.raises(ValueError, match=r"model\.embed_tokens is another layer's weight, too"):
        lora.merge(tied)


def test_dropout_drops_what_goes_to_the_matrices() -> None:
    """In training, where the direction of the base is of what is left, too."""
    layer = nn.Sequential(nn.Linear(64, 8))
    lora.apply(layer, rank=2, targets=["0"], dropout=0.5, dora=True)
    x = pf.ones(1000, 64)
    with pf.no_grad():
        layer[0].lora_magnitude_vector.mul_(2)
    whole, some = layer.eval()(x).detach(), layer.train()(x).detach()
    assert float(some.std(0).min()) > 0.05
    np.testing.assert_allclose(some.mean(0), whole[0], atol=0.15)


@pytest.mark.parametrize("mode", [None, "int8", "int4"])
def test_what_an_adapter_does_to_a_model(mode: str | None, tmp_path: Path) -> None:
    model = small()
    if mode is not None:
        pf.quantize_(model, mode, only=lambda name, _: "proj" in name)
    before = model(X).detach()
    root = mode == "int8"
    lora.apply(model, rank=4, targets=["q_proj", "o_proj"], alpha=8, rslora=root)
    assert model.model.layers[0].self_attn.q_proj.lora_scale == (4 if root else 2)
    np.testing.assert_array_equal(model(X).detach(), before)
    learns = [n for n, p in model.named_parameters() if p.requires_grad]
    assert len(learns) == 2 * 2 * 3
    assert all("lora_" in n for n in learns)
    drawn(model)
    found = model(X).detach()
    assert float(abs(found - before).max()) > 0.01

    lora.save(model, tmp_path)
    other = small()
    if mode is not None:
        pf.quantize_(other, mode, only=lambda name, _: "proj" in name)
    np.testing.assert_array_equal(lora.load(other, tmp_path)(X).detach(), found)
    if mode is not None:
        with pytest.raises(ValueError, match="holds its weight as ints"):
            lora.merge(model)
        np.testing.assert_array_equal(lora.remove(model)(X).detach(), before)
        return
    np.testing.assert_allclose(lora.merge(model)(X).detach(), found, 1e-4, 1e-4)
    np.testing.assert_allclose(lora.merge(model)(X).detach(), found, 1e-4, 1e-4)
    np.testing.assert_allclose(lora.unmerge(model)(X).detach(), found, 1e-4, 1e-4)
    with pytest.raises(ValueError, match="the model has an adapter .*or call pf.lora.merge"):
        model.save_pretrained(tmp_path / "merged")
    found = lora.remove(lora.merge(model))(X).detach()
    model.save_pretrained(tmp_path / "merged")
    again = type(model).from_pretrained(tmp_path / "merged")
    np.testing.assert_array_equal(again(X).detach(), found)
    assert set(model.state_dict()) == set(small().state_dict())


def test_a_compiled_model_follows_its_adapter() -> None:
    model = small()
    call = pf.compile(model)
    for _ in range(3):
        for change in (lora.apply, drawn, lora.merge, lora.unmerge, lora.remove):
            change(model)
            np.testing.assert_allclose(call(X).detach(), model(X).detach(), 1e-4, 1e-4)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_models_own_loss_of_labels_trains_as_its_scores_do(accumulate: int) -> None:
    """Also where a batch has nothing to learn, and another less than the others."""
    ids = pf.arange(48).reshape(6, 8) % 31
    labels = ids.clone()
    labels[2:4], labels[4, 3:] = -100, -100
    found = []
    for inputs in ({"input_ids": ids}, {"input_ids": ids, "labels": labels}):
        net = small()
        trainer = pf.train.Model(net, NextToken(), pf.optim.SGD(net.parameters(), lr=0.1))
        options: dict[str, Any] = {"batch_size": 2, "accumulate": accumulate, "shuffle": False}
        history = trainer.fit(inputs, labels, 2, verbose=0, device=None, **options)
        found.append(history["loss"])
    np.testing.assert_allclose(*found, 1e-5)


def test_texts_side_by_side_are_as_alone() -> None:
    """Packed ones see neither each other nor fill, and only answers count."""
    model = small()
    texts: list[Any] = [([5, 6, 7], [8, 9, 10]), [1, 2], ([4], [3, 2, 1, 9]), [7] * 5]
    batch = pack(texts, 8)
    assert batch["input_ids"].shape == (3, 8)
    scores = model(batch["input_ids"], segments=batch["segments"])
    found = NextToken()(scores, batch["labels"]).item()
    losses = []
    for text in texts:
        prompt, answer = text if isinstance(text, tuple) else ([], text)
        row = pf.tensor([prompt + answer])
        chances = model(row).log_softmax(-1)[0]
        first = max(len(prompt), 1)
        losses += [-chances[i - 1, row[0, i]].item() for i in range(first, row.shape[1])]
    np.testing.assert_allclose(found, np.mean(losses), 1e-5)
    assert pack([[1] * 20], 8)["input_ids"].shape == (3, 8), "longer ones go on"
    with pytest.raises(ValueError, match="a text of no tokens"):
        pack([[]], 8)


@pytest.mark.parametrize("mode", [None, "int4"])
def test_losses_in_parts_are_those_at_once(
    mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same gradients, compiled too; and layers that are computed again change nothing."""
    monkeypatch.setattr(decoder, "SCORES", 600)  # of 97 tokens
    model = small(logits_cap=5.0)
    if mode is not None:
        pf.quantize_(model, mode, group=32)
    drawn(lora.apply(model, rank=4, targets="all-linear"))
    labels = X.clone()
    labels[0, 2:5] = -100
    learns = [p for p in model.parameters() if p.requires_grad]

    def found(parts: bool, again: bool) -> list[Any]:
        model.model.gradient_checkpointing = again
        scores = model(X, labels=labels) if parts else model(X)
        assert scores.shape == (() if parts else (2, 9, 97))
        loss = NextToken()(scores, labels)
        return [loss.detach(), *pf.autograd.grad(loss, learns)]

    want = found(False, False)
    for again in (False, True):
        for call in (found, pf.compile(found)):
            for a, b in zip(call(True, again), want, strict=True):
                np.testing.assert_allclose(a, b, 1e-3, 1e-5)


def test_what_is_refused(tmp_path: Path) -> None:
    def refused(words: str, work: Any, *args: Any, **how: Any) -> None:
        with pytest.raises(ValueError, match=words):
            work(*args, **how)

    model = small()
    refused("no Linear layer is meant by targets=", lora.apply, model, targets=["query"])
    refused("rank is 1 or more", lora.apply, model, rank=0)
    for work in (lora.merge, lora.unmerge, lora.remove, lambda m: lora.save(m, tmp_path)):
        refused("the model has no adapter", work, model)
    lora.save(lora.apply(small(), rank=2), tmp_path)
    other = small(num_hidden_layers=1)
    words = r"are not this model's: model\.layers\.1\.self_attn\.q"
    refused(words, lora.load, other, tmp_path)
    assert all(p.requires_grad for p in other.parameters()), "nothing was changed"
    path = tmp_path / "adapter_config.json"
    said = json.loads(path.read_text())
    for more, words in (
        ({"rank_pattern": {"q": 2}}, "of a kind that is unknown: rank_pattern"),
        ({"use_dora": True}, r"are not this model's: model\.layers\.0\.self_attn\.q_proj"),
        ({"lora_alpha": "x"}, "says lora_alpha is 'x', not a number"),
        ({"lora_dropout": 7}, "says lora_dropout is 7, not a number to 1"),
    ):
        path.write_text(json.dumps(said | more))
        refused(words, lora.load, model, tmp_path)
    path.write_text("{")
    refused("is no JSON", lora.load, model, tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="holds no adapter_config.json"):
        lora.load(model, tmp_path)
