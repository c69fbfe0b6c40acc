"""Attention with several heads and transformers: what rows of layers.py can't say."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from compared import alike, array

import pyframe as pf
from pyframe import nn
from pyframe.nn import functional as F
from pyframe.nn.attention import SDPBackend, sdpa_kernel
from tests.graph.plans import bodies, plan, value
from tests.nn.test_rnn import numbers, recorder as recorder

WIDTH, HEADS = 8, 2


def load(ours: Any, theirs: Any) -> None:
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: pf.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})


def causal(n: int) -> np.ndarray:
    return np.triu(np.full((n, n), -np.inf), 1)


# True is left out; no query is without a key
PADDING = np.array([[False, False, False, True, True], [False, False, False, False, True],
                    [False] * 5])  # fmt: skip


# --- attention


def test_attention_start() -> None:
    """Glorot's for what projects, a Linear's for the way out, no biases."""
    layer = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    bound = math.sqrt(6 / (64 + 3 * 64))
    weight = array(layer.in_proj_weight)
    assert bound * 0.95 < np.abs(weight).max() <= bound
    assert not array(layer.in_proj_bias).any()
    assert not array(layer.out_proj.bias).any()
    assert np.abs(array(layer.out_proj.weight)).max() <= 1 / 8
    apart = nn.MultiheadAttention(64, 4, kdim=32)
    assert apart.in_proj_weight is None
    assert np.abs(array(apart.k_proj_weight)).max() <= math.sqrt(6 / (64 + 32))


def test_attention_on_itself_is_projected_at_once(recorder: Any) -> None:
    """One product forward, and backward one for the input and one for the weight; the attention
    is one kernel, and so are its gradients."""
    params = [value(recorder, *s) for s in ((24, 8), (24,), (8, 8), (8,))]
    x = value(recorder, 4, 2, WIDTH)
    for p in (x, *params):
        p.requires_grad_()

    def heavy(*outs: Any) -> list[int]:
        found = bodies(plan(*outs)[0])
        names = ("matmul", "attention", "attention_grad")
        return [found.count(name) for name in names]

    w, b, w_out, b_out = params
    out, _ = F.multi_head_attention_forward(
        x, x, x, WIDTH, HEADS, w, b, None, None, False, 0.0, w_out, b_out, need_weights=False
    )
    assert heavy(out) == [2, 1, 0]  # projections, and the way out
    out.square().sum().backward()
    assert heavy(x.grad, *[p.grad for p in params]) == [2 + 4, 1, 1]


def test_dropout_of_attention() -> None:
    layer = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.5)
    x = pf.randn(40, 3, WIDTH)
    weights = array(layer(x, x, x, average_attn_weights=False)[1])
    assert abs((weights == 0).mean() - 0.5) < 0.03
    layer.eval()
    alike(layer(x, x, x), layer(x, x, x), 0, 0)
    assert array(layer(x, x, x)[1]).all()


# --- layers


def sequences(batch_first: bool, *lengths: int, batch: tuple[int, ...] = (3,)) -> list[np.ndarray]:
    xs = [numbers(n, *batch, WIDTH, seed=i) for i, n in enumerate(lengths)]
    return [x.swapaxes(0, 1) for x in xs] if batch and batch_first else xs


def test_the_causal_mask(torch: Any) -> None:
    made = [n.Transformer.generate_square_subsequent_mask(4) for n in (nn, torch.nn)]
    alike(*made, 0, 0)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=pf.float64)
    alike(mask, causal(3), 0, 0)


# --- stacks


def encoder(lib: Any, n: int = 2, norm: bool = True, nested: bool = True, **kind: Any) -> Any:
    layer = lib.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, **kind)
    last = lib.nn.LayerNorm(WIDTH) if norm else None
    with warnings.catch_warnings(action="ignore"):
        return lib.nn.TransformerEncoder(layer, n, last, nested).double()


def test_what_is_padded_is_0_in_evaluation(torch: Any) -> None:
    """Where PyTorch leaves it out: without gradients, padded at the ends, layers that may."""
    kinds: list[dict[str, Any]] = [
        {"batch_first": True}, {"batch_first": True, "nested": False},
        {"batch_first": True, "norm_first": True}, {},
    ]  # fmt: skip
    for kind, norm in itertools.product(kinds, (False, True)):
        ours, theirs = (encoder(lib, norm=norm, **kind).eval() for lib in (pf, torch))
        load(ours, theirs)
        (x,) = sequences("batch_first" in kind, 5)
        for padding in (PADDING, np.where(PADDING, -np.inf, 0.0), PADDING[:, ::-1].copy()):
            found = []
            for lib, layer in ((pf, ours), (torch, theirs)):
                with lib.no_grad(), warnings.catch_warnings(action="ignore"):
                    mask = lib.tensor(padding)
                    found.append(layer(lib.tensor(x), src_key_padding_mask=mask))
            alike(*found, 1e-5, 1e-7)
    with pf.no_grad():
        assert not array(encoder(pf, norm=False, batch_first=True).eval()(
            pf.tensor(sequences(True, 5)[0]), src_key_padding_mask=pf.tensor(PADDING)
        ))[PADDING].any()  # fmt: skip


def test_transformer_start_and_custom_parts() -> None:
    """Matrices of all parts as Glorot's, in one's own parts too."""
    own = nn.Linear(64, 200)
    with pf.no_grad():
        own.weight.fill_(7.0)
    net = nn.Transformer(64, 4, 1, 1, 32, custom_encoder=own)
    assert net.encoder is own
    assert np.abs(array(own.weight)).max() <= math.sqrt(6 / 264)
    for p in net.decoder.parameters():
        if p.ndim > 1:
            assert np.abs(array(p)).max() <= math.sqrt(6 / sum(p.shape))


def test_own_blocks_are_called() -> None:
    """Subclasses put what they want in the place of a block, as with PyTorch's."""

    class Quiet(nn.TransformerEncoderLayer):
        def _sa_block(self, x: Any, *args: Any, **kwargs: Any) -> Any:
            return x * 0

        def _ff_block(self, x: Any) -> Any:
            return x * 0

    x = pf.randn(4, 3, WIDTH)
    layer = nn.TransformerEncoder(Quiet(WIDTH, HEADS, norm_first=True), 2)
    alike(layer(x), x, 0, 0)


# --- compiled, and on a GPU


def test_causal_is_detected_without_reading(torch: Any) -> None:
    """A mask that is not said to be causal is used as it is: no value is looked at."""
    ours, theirs = (encoder(lib) for lib in (pf, torch))
    load(ours, theirs)
    (x,) = sequences(False, 5)
    run = pf.compile(lambda x, mask: ours(x, mask).detach())
    for mask in (causal(5), np.zeros((5, 5)), causal(5)):
        want = theirs(torch.tensor(x), torch.tensor(mask)).detach()
        alike(run(pf.tensor(x), pf.tensor(mask)), want, 1e-6, 1e-8)


def test_kernels_by_name() -> None:
    x = pf.randn(1, 2, 3, 4)
    want = F.scaled_dot_product_attention(x, x, x)
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
        with sdpa_kernel(backends, set_priority=True):
            alike(F.scaled_dot_product_attention(x, x, x), want, 0, 0)
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass
    assert nn.attention.sdpa_kernel is sdpa_kernel
