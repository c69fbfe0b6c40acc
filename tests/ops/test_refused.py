"""What ops refuse: PyTorch's type of error, and a text that says the op, what was seen and what is
expected; the same on each device, and in what is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import pyframe as pf

Case = tuple[Callable[[Any, Any], Any], type[Exception], str]
NAN, INF = math.nan, math.inf

ARGUMENTS: list[Case] = [  # of the wrong type: looked at in one place, `as_public`
    (lambda t, F: t.sum(None), TypeError, r"sum\(\): argument 'input' must be Tensor"),
    (lambda t, F: t.cumsum(t.ones(2), 1.5), TypeError, "'dim' must be int, not float"),
    (lambda t, F: t.ones(2).cumsum("a"), TypeError, "'dim' must be int, not str"),
    (lambda t, F: t.ones(2, 2).tril(NAN), TypeError, "'diagonal' must be int, not float"),
    (lambda t, F: t.ones(2).argmax(0, keepdim="yes"), TypeError, "'keepdim' must be bool, not str"),
    (lambda t, F: F.linear(t.ones(2), [[1.0, 2.0]]), TypeError, "'weight' must be Tensor"),
    (lambda t, F: F.linear(t.ones(2), t.ones(3, 2), 1.0), TypeError, "'bias' must be Tensor"),
    (lambda t, F: F.leaky_relu(t.ones(2), "a"), TypeError, "'negative_slope' must be float"),
    (lambda t, F: t.linalg.svd("a"), TypeError, "'A' must be Tensor, not str"),
    (lambda t, F: t.signal.windows.hann(2.5), TypeError, "'M' must be int, not float"),
    (lambda t, F: t.narrow(t.ones(3), 0, 1.5, 1), TypeError, "'start' must be int or Tensor"),
    (lambda t, F: t.ones(3).fill_("a"), TypeError, "expected a number or a 0-d tensor, got str"),
    (lambda t, F: F.pad(t.ones(3), (1.5, 1)), TypeError, r"pad: expected ints, got \(1.5, 1\)"),
    (lambda t, F: t.rot90(t.ones(2, 2), 1, None), TypeError, r"got input=float32\[2, 2\], k=1"),
    (lambda t, F: t.cat(3), TypeError, r"cat\(\): .*, got int\ncat got tensors=3$"),
    (lambda t, F: t.ones(2, 3).softmax(5), IndexError,
     r"^Dimension out .* got 5\)\nsoftmax got input=float32\[2, 3\], dim=5$"),
    (lambda t, F: t.ones(2, 3).reshape(5, -1), RuntimeError,
     r"^shape '\[5, -1\]' is .*\nreshape got input=float32\[2, 3\], sizes=\[5, -1\]$"),
]  # fmt: skip
SHAPES: list[Case] = [  # and dtypes, and numbers: refused when the op is called
    (lambda t, F: t.ones(2, 3).permute(0), RuntimeError, r"dims \[0\] do not match a tensor of 2"),
    (lambda t, F: t.ones(2, 3).add_(t.ones(1, 2, 3)), RuntimeError, "keeps the shape"),
    (lambda t, F: t.ones(2, 3).copy_(t.ones(1, 2, 3)), RuntimeError, "keeps the shape"),
    (lambda t, F: t.addcmul(t.ones(2), t.ones(2), t.ones(2), value=1j), RuntimeError,
     "1j cannot be converted to float32"),
    (lambda t, F: t.ones(2).scatter(0, t.tensor([0]).to(t.ones(2).device), 1j), RuntimeError,
     "1j cannot be converted to float32"),
    (lambda t, F: ~t.ones(2), TypeError, "~ .*integer and Boolean-type tensors"),
    (lambda t, F: t.ones(2).bool().floor(), NotImplementedError, "floor: not supported for bool"),
    (lambda t, F: t.relu(t.ones(2).bool()), RuntimeError, "relu: not supported for bool"),
    (lambda t, F: F.linear(t.ones(2), t.ones(1, 3, 2)), RuntimeError, "linear: expected a weight"),
    (lambda t, F: F.linear(t.ones(2), t.ones(3, 2), t.ones(3).int()), RuntimeError,
     "dtype float32"),
    (lambda t, F: F.layer_norm(t.ones(2, 3), (3,), t.ones(3).int()), RuntimeError,
     "layer_norm: expected weight of the input's dtype float32, but got int32"),
    (lambda t, F: F.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3).long()), RuntimeError,
     "batch_norm: expected running_var of the input's dtype"),
    (lambda t, F: F.group_norm(t.ones(2, 4, 3), 2, bias=t.ones(4).int()), RuntimeError,
     "group_norm: expected bias of the input's dtype"),
    (lambda t, F: F.binary_cross_entropy_with_logits(t.ones(2), t.ones(2).int()), RuntimeError,
     "the loss, of float32, can't be cast to the dtype of the target, int32; use target.float"),
    (lambda t, F: F.soft_margin_loss(t.ones(2).int(), t.ones(2)), RuntimeError, "the input, int"),
    (lambda t, F: F.hinge_embedding_loss(t.ones(2).int(), t.ones(2)), RuntimeError, "int32"),
    (lambda t, F: F.gaussian_nll_loss(t.ones(2), t.ones(2), t.ones(2).int()), RuntimeError,
     "expected var of a float dtype, got int32"),
    (lambda t, F: F.group_norm(t.ones(1, 3, 1), 2), ValueError, "more than 1 value per channel"),
    (lambda t, F: F.kl_div(t.ones(2).int(), t.ones(2), reduction="sum"), RuntimeError, "kl_div"),
    (lambda t, F: F.huber_loss(t.ones(2), t.ones(2), delta=NAN), RuntimeError, "delta, got nan"),
    (lambda t, F: F.softshrink(t.ones(2), INF), RuntimeError, "lambda must be finite"),
    (lambda t, F: F.binary_cross_entropy(t.ones(2), t.ones(2), t.ones(3, 2)), RuntimeError,
     "binary_cross_entropy: expected a weight that broadcasts to the loss"),
    (lambda t, F: F.soft_margin_loss(t.ones(2), t.ones(3, 2)), RuntimeError, "broadcast to input"),
    (lambda t, F: t.full((2,), 1e300), RuntimeError,
     r"^value 1e\+300 cannot be converted .*\nfull got size=\[2\], fill_value=1e\+300$"),
    (lambda t, F: t.ones(2).masked_fill(t.ones(2) > 0, 1e39), RuntimeError, "without overflow"),
    (lambda t, F: t.tensor(2.0).repeat_interleave(2, 0), IndexError, "dim 0 of a tensor without"),
    *[(fn, RuntimeError, r"^value (300|-129) cannot be converted to u?int8 without overflow")
      for fn in (
          lambda t, F: t.tensor([1], dtype=t.uint8).clamp(0, 300),
          lambda t, F: t.tensor([1], dtype=t.int8).clamp(min=-129),
          lambda t, F: t.tensor([1], dtype=t.uint8).clamp_(max=300),
          lambda t, F: t.where(t.tensor([True]), t.tensor([1], dtype=t.uint8), 300),
          lambda t, F: F.hardtanh(t.tensor([1], dtype=t.uint8), 0, 300),
          lambda t, F: F.threshold(t.tensor([1], dtype=t.uint8), 3, 300),
      )],
    (lambda t, F: t.ones(2).uniform_(0, INF), RuntimeError, "uniform_ expects a range"),
    (lambda t, F: t.ones(2, 2).tensor_split(2**62), RuntimeError, "tensor_split: can't allocate"),
    (lambda t, F: t.unravel_index(t.tensor([1]), (2, 0)), RuntimeError,
     "no index lies in a tensor"),
    (lambda t, F: t.tensor([1, 2]) // 0, RuntimeError, "floor_divide: ZeroDivisionError"),
    (lambda t, F: t.tensor([1, 2]).remainder_(0), RuntimeError, "remainder: ZeroDivisionError"),
    (lambda t, F: t.tensor([1, 2]).fmod(0), RuntimeError, "fmod: ZeroDivisionError"),
    (lambda t, F: t.multinomial(t.ones(2), 0), RuntimeError, "n_sample <= 0 samples, got 0"),
    (lambda t, F: t.multinomial(t.ones(2), 3), RuntimeError, "without replacement, got 3 of 2"),
    (lambda t, F: t.bernoulli(t.tensor([1])), NotImplementedError, "float probabilities"),
]  # fmt: skip
VALUES: list[Case] = [  # at once on the CPU, on the GPU when a value is next read
    (lambda t, F: t.tensor([1, 2]) // t.tensor([1, 0]), RuntimeError, "integer division by zero"),
    (lambda t, F: t.tensor([1, 2]).fmod_(t.tensor([1, 0])), RuntimeError, "fmod: .*by zero"),
    (lambda t, F: 5 % t.tensor([1, 0]), RuntimeError, "remainder: .*integer division by zero"),
    (lambda t, F: t.div(t.tensor([1]), t.tensor([0]), rounding_mode="trunc"), RuntimeError,
     "by zero"),
    (lambda t, F: F.binary_cross_entropy(t.tensor([NAN]), t.ones(1)), RuntimeError, "input should"),
    (lambda t, F: F.binary_cross_entropy(t.ones(1), t.tensor([2.0])), RuntimeError,
     "of target sho"),
    (lambda t, F: t.histc(t.tensor([NAN])), RuntimeError, "histc: .*range of .*not finite"),
    (lambda t, F: t.bernoulli(t.tensor([NAN])), RuntimeError, "bernoulli: Expected p_in >= 0"),
    (lambda t, F: t.multinomial(t.tensor([-1.0, 2]), 1), RuntimeError, "multinomial: probability"),
    (lambda t, F: t.multinomial(t.zeros(2), 1), RuntimeError, "multinomial: invalid multinomial"),
    (lambda t, F: t.normal(t.ones(1), -t.ones(1)), RuntimeError, "std >= 0"),
    (lambda t, F: t.cholesky_inverse(t.zeros(2, 2)), RuntimeError, "matrix is singular"),
    (lambda t, F: t.linalg.cholesky(t.full((2, 2), NAN)), RuntimeError, "leading minor of order 1"),
    (lambda t, F: t.lu_unpack(t.eye(2), t.tensor([5, 1]).int())[0], RuntimeError,
     "between 1 and 2"),
    (lambda t, F: t.linalg.ldl_solve(t.eye(2), t.zeros(2).int(), t.eye(2)), RuntimeError, "Pivots"),
    (lambda t, F: t.searchsorted(t.ones(2), t.ones(1), sorter=t.tensor([0, 5])), RuntimeError,
     "out of range"),
]  # fmt: skip


def read(call: Any, t: Any) -> Any:
    y = call(t, t.nn.functional)
    return y.tolist() if isinstance(y, t.Tensor) else y


@pytest.mark.parametrize(("call", "kind", "words"), [*ARGUMENTS, *SHAPES, *VALUES])
def test_refused(call: Any, kind: Any, words: str, device: str, torch: Any) -> None:
    with pytest.raises(kind) as theirs:
        read(call, torch)
    pf.set_default_device(device)
    with pytest.raises(kind, match=words) as ours:
        read(call, pf)
    names = {e.type.__name__.removeprefix("_") for e in (theirs, ours)}
    assert len(names) == 1
    assert pf.ones(2).tolist() == [1, 1]  # it is said once


@pytest.mark.parametrize(("call", "kind", "words"), [*ARGUMENTS, *SHAPES])
def test_refused_when_called(call: Any, kind: Any, words: str, gpu: str) -> None:
    """On the GPU nothing is read for it, and a compiled function refuses the same."""
    pf.set_default_device(gpu)
    with pytest.raises(kind, match=words):
        call(pf, pf.nn.functional)
    pf.set_default_device("cpu")
    compiled = pf.compile(lambda x: (call(pf, pf.nn.functional), x * 2)[1])
    with pytest.raises(kind, match=words):
        compiled(pf.ones(1))


def test_too_large_for_the_gpu(gpu: str) -> None:
    """Sizes that 32 bits cannot count are refused before anything is allocated."""
    x = pf.ones(3, 1, device=gpu)
    for call in (lambda: pf.zeros(2**40, device=gpu), lambda: x.expand(3, 2**31),
                 lambda: pf.nn.functional.pad(x, (0, 2**62))):  # fmt: skip
        with pytest.raises(
            RuntimeError, match="too large for 'gpu', which counts places in 32 bit"
        ):
            call()


def test_nothing_is_refused_of_no_rows(device: str) -> None:
    x, at = pf.zeros(0, 2, device=device), pf.zeros(0, dtype=pf.int64, device=device)
    assert pf.nn.functional.multi_margin_loss(x, at, reduction="sum").item() == 0
    assert x.gather(1, at[:, None]).shape == (0, 1)


def test_too_large_for_the_cpu() -> None:
    with pytest.raises(RuntimeError, match=r"can't allocate memory.*\[4611.*\nzeros got sizes="):
        pf.zeros(2**62)
    with pytest.raises(RuntimeError, match=r"can't allocate .*\narange got start=461168601842"):
        pf.arange(2**62)
    with pytest.raises(RuntimeError, match="^eye: can't allocate memory for a result so large: "):
        pf.eye(2**24, 2**30)


def test_large_numbers_are_inf_in_arithmetic() -> None:
    assert (pf.ones(1) * 1e300).tolist() == [INF]
    assert pf.tensor([1e300]).tolist() == [INF]
    assert (pf.ones(1).half() * 1e6).tolist() == [INF]


def test_what_the_users_own_code_raises_passes_as_it_is() -> None:
    error: type[Exception]

    def pack(x: pf.Tensor) -> Any:
        raise error("mine")

    x = pf.ones(3, requires_grad=True)
    for error in (ValueError, AttributeError):
        with (
            pf.autograd.graph.saved_tensors_hooks(pack, lambda y: y),
            pytest.raises(error, match=r"^mine$") as seen,
        ):
            pf.softmax(x, 0)
        assert not hasattr(seen.value, "__notes__")
    with pytest.raises(AttributeError, match=r"^'float' object has no attribute 'real_part'$"):
        pf.ones(2).apply_(lambda v: v.real_part)
