"""BERT and its kin against the package transformers; and vectors of sentences with real weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import published

import pyframe as pf
from pyframe.text import AutoModel, CausalLM, Config, TextEncoder
from pyframe.text.loading import ours

SIZES = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 40,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", SIZES),
    "distilbert": ("DistilBertConfig", {
        "vocab_size": 97, "dim": 32, "hidden_dim": 56, "n_layers": 2, "n_heads": 4,
        "max_position_embeddings": 40}),
    "roberta": ("RobertaConfig", {**SIZES, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaConfig", {**SIZES, "type_vocab_size": 1}),
}  # fmt: skip
IDS = np.random.default_rng(0).integers(2, 97, (3, 9))
MASK = np.ones((3, 9), np.int64)
MASK[0, 5:] = MASK[1, 8:] = 0


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("head", ["AutoModel", "AutoModelForMaskedLM"])
def test_a_family_is_as_in_transformers(
    transformers: Any, torch: Any, tmp_path: Path, name: str, head: str
) -> None:
    """Features and gradients; of a model with a head too, which is left out."""
    cls, sizes = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, cls)(**sizes)
    theirs = getattr(transformers, head).from_config(config, attn_implementation="eager")
    for p in theirs.parameters():
        torch.nn.init.normal_(p, mean=float(p.ndim == 1), std=0.3)
    theirs.eval().save_pretrained(tmp_path)
    theirs = getattr(theirs, theirs.base_model_prefix, theirs)
    model = AutoModel.from_pretrained(tmp_path)
    assert isinstance(model, TextEncoder)
    ids = np.where(MASK > 0, IDS, config.pad_token_id)
    more = {} if name == "distilbert" else {"token_type_ids": (IDS > 50) * (name == "bert")}
    args = {"attention_mask": MASK, **{k: v.astype(np.int64) for k, v in more.items()}}
    want = theirs(
        torch.tensor(ids), output_hidden_states=True,
        **{k: torch.tensor(v) for k, v in args.items()},
    )  # fmt: skip
    features: list[pf.Tensor] = []
    own = {k: pf.tensor(v) for k, v in args.items()}
    last = model(pf.tensor(ids), hidden_states=features, **own)
    for a, b in zip(want.hidden_states, features, strict=True):
        np.testing.assert_allclose(b.detach(), a.detach(), 1e-4, 1e-4)
    model.save_pretrained(tmp_path / "saved")
    if head == "AutoModel":
        made = Config.from_dict({"model_type": name, **sizes}).to_dict()
        assert made["architectures"] == [type(theirs).__name__]
    again, missing = type(theirs).from_pretrained(
        tmp_path / "saved", attn_implementation="eager", output_loading_info=True
    )
    assert not {n for n in missing["missing_keys"] if not n.startswith("pooler.")}
    again = again(**{k: torch.tensor(v) for k, v in {"input_ids": ids, **args}.items()})
    np.testing.assert_allclose(
        again.last_hidden_state.detach(), want.last_hidden_state.detach(), 1e-5, 1e-5
    )
    want.last_hidden_state[:, 0].square().sum().backward()
    last[:, 0].square().sum().backward()
    parameters = dict(model.named_parameters())
    for n, p in theirs.named_parameters():
        if p.grad is not None and not n.startswith("pooler"):
            size = max(1.0, p.grad.abs().max().item())
            np.testing.assert_allclose(parameters[ours(n, name)].grad, p.grad, 1e-4, 1e-4 * size)


def test_pooling() -> None:
    config = Config.from_dict({"model_type": "bert", **SIZES})
    model = TextEncoder(config)
    x = pf.tensor([[[1.0, 2.0], [3.0, 0.0], [9.0, 9.0]]])
    mask = pf.tensor([[1, 1, 0]])
    assert model.pooled(x, mask).tolist() == [[2.0, 1.0]]
    config.pooling = "cls"
    assert model.pooled(x, mask).tolist() == [[1.0, 2.0]]
    config.pooling, config.normalized = "max", True
    np.testing.assert_allclose(model.pooled(x, mask), [[3 / 13**0.5, 2 / 13**0.5]], 1e-6)
    with pytest.raises(ValueError, match="CausalLM: bert is an encoder; use TextEncoder"):
        CausalLM(config)
    with pytest.raises(RuntimeError, match="was not read from files"):
        model.embed("text")


def test_real_sentences(transformers: Any, torch: Any) -> None:
    """all-MiniLM-L6-v2: vectors are transformers', and close where sentences mean the same."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    folder = published("minilm")
    texts = [
        "It rains all day.", "The weather is wet and grey.", "A cat sleeps on the sofa.",
        "The kitten naps on the couch.", "Stock prices fell sharply.",
        "Shares lost much of their value.", "Naïve café, Ümläute 😀", "long " * 400,
    ]  # fmt: skip
    model = AutoModel.from_pretrained(folder)
    assert isinstance(model, TextEncoder)
    vectors = model.embed(texts, batch_size=3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    own = model.tokenizer(texts, max_length=256)
    assert {k: v.tolist() for k, v in own.items()} == {k: v.tolist() for k, v in batch.items()}
    with torch.no_grad():
        x = transformers.AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    there = batch["attention_mask"].unsqueeze(2)
    want = torch.nn.functional.normalize((x * there).sum(1) / there.sum(1), dim=1)
    np.testing.assert_allclose(vectors, want, 0, 1e-4)
    near = (vectors @ vectors.t()).numpy() - 2 * np.eye(8)
    assert [int(row.argmax()) for row in near[:6]] == [1, 0, 3, 2, 5, 4]
    np.testing.assert_allclose(model.embed(texts[4]), vectors[4], 0, 1e-5)
    assert model.embed([]).shape == (0, 384)
