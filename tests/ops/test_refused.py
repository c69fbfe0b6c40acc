"""What ops refuse: PyTorch's type of error, and a text that says the op, what was seen and what is
expected; the same on each device, and in what is compiled.

The rows are those of tests/refused.py: what concerns one op is in REFUSED beside its family's rows
in tests/samples, here is the rest. `t` is pyframe, or PyTorch, which says of which type the error
must be; F and D are its nn.functional and distributions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from refused import check_refused, rows
from samples import REFUSED

import pyframe as pf

INF = math.inf

ARGUMENTS = r"""
t.sum(None) -> sum\(\): argument 'input' must be Tensor
t.cumsum(t.ones(2), 1.5) -> 'dim' must be int, not float
t.ones(2).cumsum("a") -> 'dim' must be int, not str
t.ones(2, 2).tril(NAN) -> 'diagonal' must be int, not float
t.ones(2).argmax(0, keepdim="yes") -> 'keepdim' must be bool, not str
F.linear(t.ones(2), [[1.0, 2.0]]) -> 'weight' must be Tensor
F.linear(t.ones(2), t.ones(3, 2), 1.0) -> 'bias' must be Tensor
F.leaky_relu(t.ones(2), "a") -> 'negative_slope' must be float
t.linalg.svd("a") -> 'A' must be Tensor, not str
t.signal.windows.hann(2.5) -> 'M' must be int, not float
t.narrow(t.ones(3), 0, 1.5, 1) -> 'start' must be int or Tensor
t.ones(3).fill_("a") -> expected a number or a 0-d tensor, got str
F.pad(t.ones(3), (1.5, 1)) -> pad: expected ints, got \(1.5, 1\)
t.rot90(t.ones(2, 2), 1, None) -> got input=float32\[2, 2\], k=1
t.cat(3) -> cat\(\): .*, got int\ncat got tensors=3$
t.ones(2, 3).softmax(5) -> ^Dimension out .* got 5\)\nsoftmax got input=float32\[2, 3\], dim=5$
t.ones(2, 3).reshape(5, -1) ->
    ^shape '\[5, -1\]' is .*\nreshape got input=float32\[2, 3\], sizes=\[5, -1\]$
"""  # of the wrong type: looked at in one place, `as_public`
SHAPES = r"""
t.ones(2, 3).permute(0) -> dims \[0\] do not match a tensor of 2
t.ones(2, 3).add_(t.ones(1, 2, 3)) -> keeps the shape
t.addcmul(t.ones(2), t.ones(2), t.ones(2), value=1j) -> 1j cannot be converted to float32
~t.ones(2) -> ~ .*integer and Boolean-type tensors
t.ones(2).bool().floor() -> floor: not supported for bool
F.linear(t.ones(2), t.ones(1, 3, 2)) -> linear: expected a weight
F.linear(t.ones(2), t.ones(3, 2), t.ones(3).int()) -> dtype float32
F.layer_norm(t.ones(2, 3), (3,), t.ones(3).int()) -> of the input's dtype float32, but got int32
F.binary_cross_entropy_with_logits(t.ones(2), t.ones(2).int()) -> target, int32; use target.float
F.soft_margin_loss(t.ones(2).int(), t.ones(2)) -> the input, int
F.gaussian_nll_loss(t.ones(2), t.ones(2), t.ones(2).int()) -> var of a float dtype, got int32
F.group_norm(t.ones(1, 3, 1), 2) -> more than 1 value per channel
F.kl_div(t.ones(2).int(), t.ones(2), reduction="sum") -> kl_div
F.huber_loss(t.ones(2), t.ones(2), delta=NAN) -> delta, got nan
F.softshrink(t.ones(2), INF) -> lambda must be finite
F.binary_cross_entropy(t.ones(2), t.ones(2), t.ones(3, 2)) -> a weight that broadcasts to the loss
F.soft_margin_loss(t.ones(2), t.ones(3, 2)) -> broadcast to input
t.full((2,), 1e300) ->
    ^value 1e\+300 cannot be converted .*\nfull got size=\[2\], fill_value=1e\+300$
t.ones(2).masked_fill(t.ones(2) > 0, 1e39) -> without overflow
t.tensor(2.0).repeat_interleave(2, 0) -> dim 0 of a tensor without
t.ones(2).uniform_(0, INF) -> uniform_ expects a range
t.ones(2, 2).tensor_split(2**62) -> tensor_split: can't allocate
t.unravel_index(t.tensor([1]), (2, 0)) -> no index lies in a tensor
t.tensor([1, 2]) // 0 -> floor_divide: ZeroDivisionError
t.tensor([1, 2]).fmod(0) -> fmod: ZeroDivisionError
t.multinomial(t.ones(2), 0) -> n_sample <= 0 samples, got 0
t.multinomial(t.ones(2), 3) -> without replacement, got 3 of 2
t.bernoulli(t.tensor([1])) -> float probabilities
t.ones(2, 3) + t.ones(4) -> shapes \[2, 3\] and \[4\] don't broadcast: sizes 3 and 4 differ at dim 1
t.ones(2, 3) @ t.ones(4, 5) -> matmul: mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)
F.linear(t.ones(2, 3), t.ones(4, 5)) -> \[4, 5\] expects 5; an nn.Linear .* in_features=3
F.conv2d(t.ones(1, 3, 8, 8), t.ones(4, 2, 3, 3)) -> 3, 8, 8\] to have 2 channels, but got 3 channels
t.cat([t.ones(2, 3), t.ones(2, 4)]) -> except in dimension 0. Expected \[2, 3\] but got \[2, 4\]
nn.Conv2d(3, 4, 3)(t.ones(2, 8, 8, 3)) -> where channels come last, give x.permute\(0, 3, 1, 2\)
nn.Conv1d(3, 4, 3)(t.ones(8, 3)) -> where channels come last, give x.permute\(1, 0\)
nn.Conv2d(1, 4, 3)(t.ones(2, 8, 9)) -> for a batch without a dim of channels give x.unsqueeze\(1\)
nn.Sequential(nn.LSTM(4, 3), nn.Linear(3, 2))(t.ones(5, 2, 4)) ->
    ^linear\(\): .* not tuple; it holds 2, as an LSTM, .*: take x\[0\], in nn.Seq
t.add(nn.GRU(4, 3)(t.ones(5, 2, 4)), 1) -> a GRU or attention gives its output and more: take x
t.ones(2, 3).expand(4, 3) -> expand: the expanded size \(4\) must match the existing size at dim 0
t.ones(2, 3).permute(0, 0) -> expected each dim once
t.ones(0, 3).amax(0) -> an empty reduction has no identity
F.layer_norm(t.ones(2, 3), (4,)) -> layer_norm: Given normalized_shape=\[4\]
F.cross_entropy(t.ones(4, 3), t.zeros(5, dtype=t.int64)) -> to match target batch_size
t.ones(2) + "x" -> unsupported operand
t.add(t.ones(2), "x") -> add: expected a Tensor or a number, got str
t.ones(2) & t.ones(2) -> bitwise_and: not implemented for float32; use ints or bool
t.ones(2, dtype=t.bool) - t.ones(2, dtype=t.bool) -> sub: not supported for bool tensors
t.where(t.ones(2), 1.0, 0.0) -> where: expected condition to be a bool tensor, but got float32
t.zeros(2, -1) -> negative dimension
F.dropout(t.ones(2), 1.5) -> between 0 and 1, but got 1.5
t.tensor([1], dtype=t.uint8).clamp(0, 300) -> ^value 300 cannot be converted to uint8 without over
F.threshold(t.tensor([1], dtype=t.uint8), 3, 300) -> ^value 300 cannot be converted to uint8 without
t.mul(X, y=2) -> takes input, other
t.tensor([1]).lgamma_() -> can't be cast
t.tensor([[1, 2], [3]]) -> nested
t.masked.sum(X, mask=X[None] > 0) -> mask
t.ones(3, 4).T.view(12) -> view size is not compatible
t.view_as_complex(t.zeros(4, 6)[:, ::3]) -> stride 1
t.view_as_complex(t.zeros(4, 6).t()[:, :2]) -> stride 1
t.view_as_complex(t.zeros(4, 6)[:, 1:3]) -> offset
X[3] -> index 3 is out of bounds for dimension 0 with size 3; expected -3 to 2
X[0, 0, 0] -> too many indices for tensor of dimension 2: got 3 for shape \[3, 4\]
X[t.tensor([True, False])] -> shape of the mask \[2\] does not match the shape \[3\]
X[t.tensor([0.5])] -> must be long, int, byte or bool tensors, got float32
X[::-1] -> step must be greater than zero; use flip
X.clone().__setitem__(0, t.ones(3)) -> shape mismatch
X.clone().__setitem__([0, 1], t.ones(3)) -> \[3\] cannot be broadcast to indexing result
"""  # and dtypes, and numbers: refused when the op is called
VALUES = r"""
t.tensor([1, 2]) // t.tensor([1, 0]) -> integer division by zero
t.tensor([1, 2]).fmod_(t.tensor([1, 0])) -> fmod: .*by zero
5 % t.tensor([1, 0]) -> remainder: .*integer division by zero
t.div(t.tensor([1]), t.tensor([0]), rounding_mode="trunc") -> by zero
F.binary_cross_entropy(t.tensor([NAN]), t.ones(1)) -> input should
F.binary_cross_entropy(t.ones(1), t.tensor([2.0])) -> of target sho
t.histc(t.tensor([NAN])) -> histc: .*range of .*not finite
t.bernoulli(t.tensor([NAN])) -> bernoulli: Expected p_in >= 0
t.multinomial(t.tensor([-1.0, 2]), 1) -> multinomial: probability
t.multinomial(t.zeros(2), 1) -> multinomial: invalid multinomial
t.normal(t.ones(1), -t.ones(1)) -> std >= 0
t.cholesky_inverse(t.zeros(2, 2)) -> matrix is singular
t.linalg.cholesky(t.full((2, 2), NAN)) -> leading minor of order 1
t.lu_unpack(t.eye(2), t.tensor([5, 1]).int())[0] -> between 1 and 2
t.linalg.ldl_solve(t.eye(2), t.zeros(2).int(), t.eye(2)) -> Pivots
t.searchsorted(t.ones(2), t.ones(1), sorter=t.tensor([0, 5])) -> out of range
t.masked.median(INT, 1, mask=INT < 0) -> fully masked
t.cov(t.ones(2, 2), aweights=t.tensor([1.0, -1.0])) -> cannot be negative
t.quantile(t.ones(2), t.tensor([1.5])) -> range \[0, 1\]
bool(t.ones(2)) -> Boolean value of Tensor
"""  # at once on the CPU, on the GPU when a value is next read
WRITES = r"""
t.gather(X[0], 0, I, out=X.double()) -> Expected out tensor to have dtype
t.abs(X, out=X.double()) -> Expected out tensor to have dtype
t.aminmax(X, out=(X.double(), X.double())) -> Expected out tensor to have dtype
t.multinomial(X, 1, out=X.double()) -> Expected out tensor to have dtype
t.sort(X, out=(X.clone(), X.int())) -> Expected out tensor to have dtype
t.add(X, 0.5, out=X.long()) -> can't be cast
t.add(X.clone().requires_grad_(), 1, out=X) -> automatic differentiation
X.requires_grad_().add_(1) -> leaf Variable that requires grad
X.requires_grad_().__setitem__(0, 1.0) -> view of a leaf
X[:1].expand(3, 4).mul_(2) -> single memory location
X.long().add_(0.5) -> can't be cast to the desired output type int64
t.signal.windows.hann(-1)
t.signal.windows.hann(3, dtype=t.int64)
t.signal.windows.exponential(3, tau=0)
t.signal.windows.general_cosine(3, a=[])
t.finfo(t.int8) -> use pf.iinfo
t.iinfo(t.float32) -> use pf.finfo
t.asarray([1, 2], copy=False) -> alias
t.asarray(np.ones(2), dtype=t.float32, copy=False) -> alias
t.frombuffer(bytearray(4), dtype=t.int32, offset=4) -> offset
np.from_dlpack(X.requires_grad_()) -> require gradient
X.bfloat16().numpy() -> BFloat16
D.Normal(0.0, -1.0) -> parameter scale .* GreaterThan
D.Categorical() -> not both
D.Bernoulli(2.0) -> parameter probs .* Interval
D.Bernoulli(0.5).rsample() -> no gradient
"""  # and what shares memory or a dtype with something else; distributions
OTHERWISE = r"""
X.scatter_reduce(0, I[None], X, "max") -> RuntimeError: sum, prod, mean
X.index_add(0, I, X) -> IndexError: expected source of shape \[1, 4\]
t.cat([]) -> RuntimeError: non-empty
t.binomial(X, X * 2) -> RuntimeError: counts >= 0
t.segment_reduce(X, "sum", lengths=X[0]) -> NotImplementedError: float32
t.segment_reduce(I, "sum", lengths=I) -> NotImplementedError: int64
X.clone().set_(X.untyped_storage(), 9, (4,)) -> RuntimeError: out of bounds
t.ones(2, dtype=t.complex64).sort() -> NotImplementedError: has no order
t.bincount(t.ones(2)) -> RuntimeError: float32
t.searchsorted(t.ones(2), t.ones(2).int()) -> RuntimeError: same dtype
t.ones(2).int().var() -> NotImplementedError: floating point
t.ones(2).int().norm() -> NotImplementedError: floating point
t.ones(2, dtype=t.complex64).nansum() -> NotImplementedError: complex
t.masked.var(t.ones(2), 0, True, correction=1) -> ValueError: only one
t.ones(3, dtype=t.int64).mean() -> NotImplementedError: use .float
t.ones(2).item() -> NotOneError: cannot be converted to Scalar
t.linalg.cholesky(INT) -> NotImplementedError: float
t.linalg.vector_norm(INT) -> NotImplementedError: float
t.linalg.lu_factor(t.zeros(2, 2)) -> LinAlgError: zero
t.linalg.ldl_factor(t.zeros(2, 2)) -> LinAlgError: zero
X[..., 0, ...] -> IndexError: a single ellipsis
X["a"] -> IndexError: valid indices \(got str\)
t.hash_tensor(X, mode=1) -> RuntimeError: mode
D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)) -> NotImplementedError: Normal and Poisson
t.frexp(INT) -> NotImplementedError: frexp
t.maximum(C, C) -> NotImplementedError: complex64
"""  # of another type than PyTorch's, or what it takes: the type stands before the text


CALLED, READ = [*rows(ARGUMENTS), *rows(SHAPES)], rows(VALUES)
ON_THE_CPU = [row for table in (REFUSED, WRITES, OTHERWISE) for row in rows(table)]


def given(t: Any) -> dict[str, Any]:
    """What the rows speak of, on the default device."""
    rng = np.random.default_rng(5)
    return {
        "t": t, "F": t.nn.functional, "nn": t.nn, "D": t.distributions, "np": np,
        "NAN": math.nan, "INF": INF,
        "A33": t.tensor(rng.standard_normal((3, 3)).tolist()),
        "A23": t.tensor(rng.standard_normal((2, 3)).tolist()),
        "FLOAT": t.ones(3), "INT": t.ones(3, 3, dtype=t.int64), "C": t.tensor([1j], device="cpu"),
        "SINGULAR": t.tensor([[1.0, 2], [2, 4]]), "INDEFINITE": t.tensor([[1.0, 2], [2, 1]]),
        "X": t.ones(3, 4), "I": t.tensor([0]),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # PyTorch's
@pytest.mark.parametrize(
    ("call", "text", "device"),
    [(*row, "cpu") for row in [*CALLED, *READ, *ON_THE_CPU]]
    + [(*row, "gpu") for row in [*CALLED, *READ]],
)
def test_refused(
    call: str, text: str, device: str, torch: Any, request: pytest.FixtureRequest
) -> None:
    if device == "gpu":
        pf.set_default_device(request.getfixturevalue("gpu"))
    check_refused(call, text, given, torch)
    assert pf.ones(2).tolist() == [1, 1]  # it is said once


@pytest.mark.parametrize(("call", "words"), CALLED)
def test_refused_when_called(call: str, words: str, gpu: str) -> None:
    """On the GPU nothing is read for it, and a compiled function refuses the same."""
    pf.set_default_device(gpu)
    with pytest.raises(Exception, match=words):
        eval(call, given(pf))
    pf.set_default_device("cpu")
    names = given(pf)
    compiled = pf.compile(lambda x: (eval(call, names), x * 2)[1])
    with pytest.raises(Exception, match=words):
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
