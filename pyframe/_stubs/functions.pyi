# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe` and written nowhere."""

import builtins
from collections.abc import Sequence
from typing import Any, Literal, overload

from pyframe import (
    amp as amp,
    data as data,
    distributions as distributions,
    fft as fft,
    func as func,
    gpu as gpu,
    graph as graph,
    io as io,
    linalg as linalg,
    masked as masked,
    metrics as metrics,
    nn as nn,
    optim as optim,
    plot as plot,
    profiler as profiler,
    random as random,
    signal as signal,
    special as special,
    train as train,
    utils as utils,
    vision as vision,
    web as web,
)
from pyframe.amp import (
    GradScaler as GradScaler,
    autocast as autocast,
    clear_autocast_cache as clear_autocast_cache,
    get_autocast_dtype as get_autocast_dtype,
    is_autocast_cache_enabled as is_autocast_cache_enabled,
    is_autocast_enabled as is_autocast_enabled,
    set_autocast_dtype as set_autocast_dtype,
)
from pyframe.core.devices import device
from pyframe.core.dtypes import dtype
from pyframe.func import vmap as vmap
from pyframe.io import load as load, save as save
from pyframe.ops.random import Generator
from pyframe.ops.results import (
    AminmaxResult,
    CummaxResult,
    CumminResult,
    FrexpResult,
    Geqrf,
    HistogramddResult,
    HistogramResult,
    KthvalueResult,
    LUFactor,
    LUFactorEx,
    LUUnpack,
    MaxResult,
    MedianResult,
    MinResult,
    ModeResult,
    NanmedianResult,
    OldQR,
    OldSVD,
    Slogdet,
    SortResult,
    TopkResult,
    TriangularSolve,
)
from pyframe.runtime.compile import compile as compile
from pyframe.tensor import Size, Tensor
from pyframe.tools import bench as bench
from pyframe.tools.draw_model import draw as draw
from pyframe.train import Callback as Callback, History as History, Model as Model

class BFloat16Tensor(Tensor):
    """Tensors of bfloat16, which isinstance asks for: `pf.BFloat16Tensor([1, 0])`."""

class BoolTensor(Tensor):
    """Tensors of bool, which isinstance asks for: `pf.BoolTensor([1, 0])`."""

class ByteTensor(Tensor):
    """Tensors of uint8, which isinstance asks for: `pf.ByteTensor([1, 0])`."""

class CharTensor(Tensor):
    """Tensors of int8, which isinstance asks for: `pf.CharTensor([1, 0])`."""

class ComplexDoubleTensor(Tensor):
    """Tensors of complex128, which isinstance asks for: `pf.ComplexDoubleTensor([1, 0])`."""

class ComplexFloatTensor(Tensor):
    """Tensors of complex64, which isinstance asks for: `pf.ComplexFloatTensor([1, 0])`."""

class DoubleTensor(Tensor):
    """Tensors of float64, which isinstance asks for: `pf.DoubleTensor([1, 0])`."""

class FloatTensor(Tensor):
    """Tensors of float32, which isinstance asks for: `pf.FloatTensor([1, 0])`."""

class HalfTensor(Tensor):
    """Tensors of float16, which isinstance asks for: `pf.HalfTensor([1, 0])`."""

class IntTensor(Tensor):
    """Tensors of int32, which isinstance asks for: `pf.IntTensor([1, 0])`."""

class LongTensor(Tensor):
    """Tensors of int64, which isinstance asks for: `pf.LongTensor([1, 0])`."""

class ShortTensor(Tensor):
    """Tensors of int16, which isinstance asks for: `pf.ShortTensor([1, 0])`."""

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs(input), of each element, broadcast; torch.abs."""

def abs_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `abs`; returns self."""

def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs(input), of each element, broadcast; torch.abs."""

def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """acos(input), of each element, broadcast; torch.acos."""

def acos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `acos`; returns self."""

def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """acosh(input), of each element, broadcast; torch.acosh."""

def acosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `acosh`; returns self."""

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` bins over the last 1 dim(s)."""

def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: bool = True
) -> tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` bins over the last 1 dim(s)
    and its int64 flat index in each plane.
    """

def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """add(input, alpha * other), broadcast."""

def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * the sum over the batch of batch1[i] @ batch2[i]: one product."""

def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 / tensor2. RuntimeError for two ints."""

def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """input + value * tensor1 * tensor2; for ints `value` is cut to an int."""

def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""

def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * mat @ vec."""

def addmv_(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """In-place version of `addmv`; returns self."""

def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2), promoted; of bools with `and` and `or`."""

def adjoint(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate transpose of the last two dims."""

def affine_grid_generator(
    theta: Tensor, size: Any, align_corners: bool, *, out: Tensor | None = None
) -> Tensor:
    """(N, k, k + 1) affine maps as grids (N, *spatial, k) of what grid_sampler reads."""

def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy."""

def all(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether all elements over dims are nonzero; bool, of uint8 uint8."""

def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`), as a bool: reads the values."""

def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout that keeps mean and variance of what SELU gives, if `train`."""

def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` that writes to its input; returns it."""

def amax(
    input: Tensor, dim: Any = ..., keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The largest element over dims; ties share the gradient."""

def amin(
    input: Tensor, dim: Any = ..., keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The smallest element over dims; ties share the gradient."""

def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None
) -> AminmaxResult:
    """(min, max) over one dim, or of all elements; ties share the gradient."""

def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of a complex number; of a real one 0, or pi where it is negative."""

def any(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether any element over dims is nonzero; bool, of uint8 uint8."""

def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """start, start + step, … below end; int64 unless a float is given."""

def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """acos(input), of each element, broadcast; torch.acos."""

def arccos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arccos`; returns self."""

def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """acosh(input), of each element, broadcast; torch.acosh."""

def arccosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arccosh`; returns self."""

def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """asin(input), of each element, broadcast; torch.asin."""

def arcsin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arcsin`; returns self."""

def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """asinh(input), of each element, broadcast; torch.asinh."""

def arcsinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arcsinh`; returns self."""

def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atan(input), of each element, broadcast; torch.atan."""

def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atan2(input, other), of each element, broadcast; torch.atan2."""

def arctan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arctan`; returns self."""

def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atanh(input), of each element, broadcast; torch.atanh."""

def arctanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `arctanh`; returns self."""

def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The int64 index of the largest element, the first of equals; NaN counts as largest."""

def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The int64 index of the smallest element, the first of equals; NaN counts as smallest."""

def argsort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The int64 indices that sort a dim; always stable, NaN counts as largest."""

def argwhere(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`nonzero` under NumPy's name."""

def as_strided(
    input: Tensor,
    size: Any,
    stride: Any,
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A view of the whole memory behind `input`, by strides and offset in elements."""

def as_strided_(
    self: Tensor,
    size: Any,
    stride: Any,
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Be from now on what `as_strided` gives; returns self."""

def as_strided_copy(
    input: Tensor,
    size: Any,
    stride: Any,
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`as_strided` that copies."""

def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Any,
    stride: Any,
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` where the view `as_strided` would be."""

def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """asin(input), of each element, broadcast; torch.asin."""

def asin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `asin`; returns self."""

def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """asinh(input), of each element, broadcast; torch.asinh."""

def asinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `asinh`; returns self."""

def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atan(input), of each element, broadcast; torch.atan."""

def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atan2(input, other), of each element, broadcast; torch.atan2."""

def atan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `atan`; returns self."""

def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """atanh(input), of each element, broadcast; torch.atanh."""

def atanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `atanh`; returns self."""

@overload
def atleast_1d(tensor: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    """A view with at least 1 dims; of several tensors a tuple."""

@overload
def atleast_1d(
    first: Tensor, second: Tensor, /, *tensors: Tensor, out: Any = None
) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /, *, out: Any = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensor: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    """A view with at least 2 dims; of several tensors a tuple."""

@overload
def atleast_2d(
    first: Tensor, second: Tensor, /, *tensors: Tensor, out: Any = None
) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /, *, out: Any = None) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensor: Tensor, /, *, out: Tensor | None = None) -> Tensor:
    """A view with at least 3 dims; of several tensors a tuple."""

@overload
def atleast_3d(
    first: Tensor, second: Tensor, /, *tensors: Tensor, out: Any = None
) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /, *, out: Any = None) -> tuple[Tensor, ...]: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last 1 dim(s)."""

def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""

def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
) -> Tensor:
    """signal.windows.bartlett, of one period unless `periodic=False`."""

def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Normalize each channel over the batch; see nn.functional.batch_norm."""

def bernoulli(
    input: Tensor, p: Any = None, *, generator: Any = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability that each element (or `p`) gives, else 0; no gradient."""

def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o]: (*, a), (*, b), (out, a, b) -> (*, out)."""

def bincount(
    input: Tensor, weights: Tensor | None = None, minlength: int = 0, *, out: Tensor | None = None
) -> Tensor:
    """How often (or with which weight) each of 0..max occurs in a vector of ints. Reads them."""

def binomial(
    count: Tensor, prob: Tensor, generator: Generator | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Successes of `count` trials of probability `prob`; drawn on the host, on each device."""

def bitwise_and(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """bitwise_and(input, other), of each element, broadcast; torch.bitwise_and."""

def bitwise_left_shift(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """bitwise_left_shift(input, other), of each element, broadcast; torch.bitwise_left_shift."""

def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """bitwise_not(input), of each element, broadcast; torch.bitwise_not."""

def bitwise_or(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """bitwise_or(input, other), of each element, broadcast; torch.bitwise_or."""

def bitwise_right_shift(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """bitwise_right_shift(input, other), of each element, broadcast; torch.bitwise_right_shift."""

def bitwise_xor(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """bitwise_xor(input, other), of each element, broadcast; torch.bitwise_xor."""

def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
) -> Tensor:
    """signal.windows.blackman, of one period unless `periodic=False`."""

def block_diag(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """Matrices (or vectors, as rows) along the diagonal of one; zeros elsewhere."""

def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices of equal length."""

def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have together; an int counts as a shape."""

def broadcast_tensors(*tensors: Any, out: Any = None) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""

def broadcast_to(input: Tensor, size: Any, *, out: Tensor | None = None) -> Tensor:
    """`expand` under NumPy's name."""

def bucketize(
    input: Any,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Which bucket between the sorted 1-d `boundaries` each element falls into."""

def cartesian_prod(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """All combinations of one element from each vector: (n0 n1 …, number of vectors)."""

def cat(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along an existing dim."""

def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary",
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The p-norms of the differences of all rows: (…, P, M) and (…, R, M) -> (…, P, R). For p = 2,
    as `compute_mode` says, by a matrix product (by default for more than 25 rows).
    """

def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """ceil(input), of each element, broadcast; torch.ceil."""

def ceil_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `ceil`; returns self."""

def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x / alpha) - 1) (arXiv 1704.07483)."""

def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `celu`; returns input."""

def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """`linalg.multi_dot` of matrices given one by one."""

def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """`linalg.cholesky` under its old name."""

def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """(L L^H)^-1 (`upper`: (L^H L)^-1)."""

def cholesky_solve(
    B: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """X with L L^H X = B (`upper`: L^H L X = B)."""

def chunk(input: Tensor, chunks: int, dim: int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dim."""

def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """`input` limited to [min, max]; each a number, a tensor or None (not both). NaN stays.

    RuntimeError of a number that the ints' dtype does not hold.
    """

def clamp_(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `clamp`; returns self."""

def clamp_max(
    input: Tensor, max: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """clamp_max(input, max), of each element, broadcast; torch.clamp_max.

    RuntimeError of a number that the ints' dtype does not hold.
    """

def clamp_max_(
    input: Tensor, max: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """In-place version of `clamp_max`; returns self."""

def clamp_min(
    input: Tensor, min: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """clamp_min(input, min), of each element, broadcast; torch.clamp_min.

    RuntimeError of a number that the ints' dtype does not hold.
    """

def clamp_min_(
    input: Tensor, min: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """In-place version of `clamp_min`; returns self."""

def clip(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """`input` limited to [min, max]; each a number, a tensor or None (not both). NaN stays.

    RuntimeError of a number that the ints' dtype does not hold.
    """

def clip_(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `clip`; returns self."""

def clone(input: Tensor, *, memory_format: Any = None, out: Tensor | None = None) -> Tensor:
    """A copy with its own memory, in which the dims keep their order; gradients flow through."""

def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joined along dim 1, vectors as columns."""

def combinations(
    input: Tensor, r: int = 2, with_replacement: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """All subsets of `r` elements of a vector, in order: (number of subsets, r)."""

def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + 1j * imag, of two float32 or float64 tensors; on the CPU."""

def concat(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along an existing dim."""

def concatenate(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along an existing dim."""

@overload
def conj(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate, computed at once; a real tensor itself."""

@overload
def conj(input: builtins.complex, *, out: Any = None) -> builtins.complex: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate (of a real tensor a copy)."""

def conj_physical_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `conj_physical`; returns self."""

def constant_pad_nd(
    input: Tensor, pad: Any, value: Any = 0, *, out: Tensor | None = None
) -> Tensor:
    """`pad` elements of `value` at both ends of the last dims; negative ones cut. A copy."""

def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over one spatial dim: (N, C, L) with (O, C/groups, k)."""

def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over two spatial dims: (N, C, H, W) with (O, C/groups, kh, kw)."""

def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over three spatial dims."""

def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of (T, N, C) with a weight (k, C, O) over time."""

def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution: (N, C, L) with (C, O/groups, k), to stride * (L - 1) + k or more."""

def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over two spatial dims: (N, C, H, W) with (C, O/groups, kh, kw)."""

def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over three spatial dims."""

def copysign(
    input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """copysign(input, other), of each element, broadcast; torch.copysign."""

def corrcoef(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix of correlation coefficients of the rows of (variables, observations)."""

def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """cos(input), of each element, broadcast; torch.cos."""

def cos_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `cos`; returns self."""

def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """cosh(input), of each element, broadcast; torch.cosh."""

def cosh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `cosh`; returns self."""

def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between two tensors over a dim, norms no less than eps."""

def count_nonzero(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The int64 number of nonzero elements over dims."""

def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of the rows of (variables, observations), or the variance of a vector.

    `fweights` (int) says how often an observation counts, `aweights` how much. Negative weights
    are an error (of a lazy device at the next read).
    """

def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Cross products along `dim` (by default the first of size 3), broadcast."""

def cummax(input: Tensor, dim: int, *, out: Any = None) -> CummaxResult:
    """(values, indices) of the largest element so far along a dim, the last of equals."""

def cummin(input: Tensor, dim: int, *, out: Any = None) -> CumminResult:
    """(values, indices) of the smallest element so far along a dim, the last of equals."""

def cumprod(
    input: Tensor, dim: int, *, dtype: dtype | type | None = None, out: Tensor | None = None
) -> Tensor:
    """y[i] = x[0] * … * x[i] along a dim; ints and bools give int64."""

def cumsum(
    input: Tensor, dim: int, *, dtype: dtype | type | None = None, out: Tensor | None = None
) -> Tensor:
    """y[i] = x[0] + … + x[i] along a dim; ints and bools give int64."""

def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The running integral along a dim by trapezoids, at places `x` or `dx` (1) apart."""

def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees as radians."""

def deg2rad_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `deg2rad`; returns self."""

def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants of matrices (…, n, n). On the GPU the host computes them.

    The second derivative needs an invertible A.
    """

def detach(self: Tensor) -> Tensor:
    """The same memory, with no history."""

def detach_(self: Tensor) -> Tensor:
    """Forget the history, in place."""

def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with no history."""

def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector on the diagonal of a matrix; of a matrix a copy of its diagonal."""

def diag_embed(
    input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1, *, out: Tensor | None = None
) -> Tensor:
    """(..., n) on a diagonal of two new dims of size n + |offset|, 0 elsewhere."""

def diagflat(input: Tensor, offset: int = 0, *, out: Tensor | None = None) -> Tensor:
    """All elements on a diagonal of a matrix."""

def diagonal(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A diagonal of two dims as the last dim, a view; `offset` counts up and to the right."""

def diagonal_copy(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """`diagonal` that copies."""

def diagonal_scatter(
    input: Tensor,
    src: Tensor,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` as that diagonal."""

def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The n-th difference x[i + 1] - x[i] along a dim; of bools whether they differ."""

def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """digamma(input), of each element, broadcast; torch.digamma."""

def dist(input: Tensor, other: Tensor, p: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """The p-norm of input - other, broadcast."""

def div(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """input / other, rounded as `rounding_mode` says: None, 'floor' or 'trunc'."""

def divide(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """input / other, rounded as `rounding_mode` says: None, 'floor' or 'trunc'."""

def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors of equal length, without conjugation."""

def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero elements with the probability `p` if `train`, and scale the others by 1 / (1 - p)."""

def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` that writes to its input; returns it."""

def dsplit(
    input: Tensor,
    indices_or_sections: Any = None,
    *,
    indices: Any = None,
    sections: Any = None,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 2 (a number of sections must divide it)."""

def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joined along dim 2."""

def einsum(*args: Any, out: Tensor | None = None) -> Tensor:
    """Sums of products in Einstein's notation: einsum("bij,bjk->bik", x, y), or with a list of
    dims behind each operand; torch.einsum. Operands are joined from left to right.
    """

def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of the table `weight` that `indices` name. The row `padding_idx` gets no gradient,
    if it is not -1.
    """

def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten the rows of `input` that `indices` name to the norm `max_norm`, in place."""

def empty(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of zeros; dtype, device and requires_grad as given.

    layout, memory_format and pin_memory are accepted. RuntimeError for negative sizes.
    """

def empty_like(
    input: Tensor,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Zeros of the shape, dtype and device of `input`."""

def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of zeros whose dims lie in memory in the order `physical_layout`."""

def empty_strided(
    size: Any,
    stride: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of zeros whose memory has these strides."""

def eq(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """eq(input, other), of each element, broadcast; torch.eq."""

def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and equal elements, as a bool: reads the values."""

def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erf(input), of each element, broadcast; torch.erf."""

def erf_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `erf`; returns self."""

def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erfc(input), of each element, broadcast; torch.erfc."""

def erfc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `erfc`; returns self."""

def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """erfinv(input), of each element, broadcast; torch.erfinv."""

def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(input), of each element, broadcast; torch.exp."""

def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp2(input), of each element, broadcast; torch.exp2."""

def exp2_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `exp2`; returns self."""

def exp_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `exp`; returns self."""

def expand_copy(input: Tensor, *sizes: Any, size: Any = None, out: Tensor | None = None) -> Tensor:
    """`expand` that copies."""

def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """expm1(input), of each element, broadcast; torch.expm1."""

def expm1_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `expm1`; returns self."""

def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """The identity matrix (n, m)."""

def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *)."""

def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` that writes to its input; returns it."""

def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (N, C, *), if `train`."""

def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` that writes to its input; returns it."""

def fill(input: Tensor, value: Any, *, out: Tensor | None = None) -> Tensor:
    """One number (or a 0-d tensor, with its gradient) in the shape and dtype of `input`."""

def fill_(input: Tensor, value: Any, *, out: Tensor | None = None) -> Tensor:
    """Fill with one number (or a 0-d tensor), in place."""

def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """trunc(input), of each element, broadcast; torch.trunc."""

def fix_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `fix`; returns self."""

def flatten(
    input: Tensor, start_dim: int = 0, end_dim: int = -1, *, out: Tensor | None = None
) -> Tensor:
    """Dims start_dim..end_dim joined into one."""

def flip(input: Tensor, *axes: Any, dims: Any = None, out: Tensor | None = None) -> Tensor:
    """The order of elements reversed along dims (a copy, as PyTorch's)."""

def fliplr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The order of columns reversed."""

def flipud(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The order of rows reversed."""

def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent in float64 (complex128 for complex), so on the CPU; either is a tensor."""

def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """floor(input), of each element, broadcast; torch.floor."""

def floor_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `floor`; returns self."""

def floor_divide(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """floor_divide(input, other), of each element, broadcast; torch.floor_divide.

    RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
    """

def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of both; of a NaN and a number, the number."""

def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of both; of a NaN and a number, the number."""

def fmod(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """fmod(input, other), of each element, broadcast; torch.fmod.

    RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
    """

def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The part after the point, with the sign of the number."""

def frac_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `frac`; returns self."""

def frexp(input: Tensor, *, out: Any = None) -> FrexpResult:
    """(mantissa, exponent) of x = mantissa * 2**exponent, 0.5 <= |mantissa| < 1; ints are int32."""

def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of `size` filled with one number; options as of `empty`."""

def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """One number in the shape, dtype and device of `input`, laid out as `clone` would."""

def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on; torch.gather.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """

def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """gcd(input, other), of each element, broadcast; torch.gcd."""

def gcd_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `gcd`; returns self."""

def ge(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """ge(input, other), of each element, broadcast; torch.ge."""

def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x * Phi(x) (https://arxiv.org/abs/1606.08415); approximate='tanh' for its approximation."""

def geqrf(input: Tensor, *, out: Any = None) -> Geqrf:
    """LAPACK's form of QR: R above, Householder vectors below the diagonal, and their factors; for
    `householder_product` and `ormqr`. Not differentiable. On the GPU the host computes it.
    """

def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def get_device(self: Tensor) -> int:
    """The index of the GPU, -1 on the CPU."""

def get_rng_state() -> Tensor:
    """The state of the default generator: see `Generator.get_state`."""

def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1, out: Any = None
) -> list[Tensor]:
    """The derivative along dims by second-order differences, one tensor for each dim.

    `spacing` (1) is a number for all dims, or a number or a vector of places for each. At the edges
    the difference is of first or second order (Fornberg 1988).
    """

def greater(
    input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """gt(input, other), of each element, broadcast; torch.gt."""

def greater_equal(
    input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """ge(input, other), of each element, broadcast; torch.ge."""

def grid_sampler(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`input` (N, C, *spatial) at `grid` (N, *out, k), in -1..1 with x first: (N, C, *out).

    interpolation_mode: 0 linear, 1 nearest, 2 cubic (2-d only); padding_mode: 0 zeros, 1 border,
    2 reflection.
    """

def grid_sampler_2d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """grid_sampler of (N, C, H, W) at (N, H', W', 2)."""

def grid_sampler_3d(
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """grid_sampler of (N, C, D, H, W) at (N, D', H', W', 3)."""

def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Normalize over groups of channels; see nn.functional.group_norm."""

@overload
def gru(
    input: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """(output, h) of layers of GRU: see nn.GRU. Arguments as of `lstm`, with h alone."""

@overload
def gru(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]: ...
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """The next h: see nn.GRUCell. (N, in) and (N, H)."""

def gt(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """gt(input, other), of each element, broadcast; torch.gt."""

def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
) -> Tensor:
    """alpha - beta cos(2 pi k / period), of one period unless `periodic=False`."""

def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
) -> Tensor:
    """signal.windows.hann, of one period unless `periodic=False`."""

def hardshrink(input: Tensor, lambd: Any = 0.5, *, out: Tensor | None = None) -> Tensor:
    """0 where |x| <= lambd, else x."""

def hash_tensor(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    mode: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """uint64: xor of the bits of all elements, as int64 or float64, over dims; on the host."""

def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, `values` at 0, 1 above."""

def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """How many elements fall into each of `bins` equal parts of [min, max].

    Equal min and max stand for those of the values. Elements outside count nowhere.
    """

def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> HistogramResult:
    """(hist, bin_edges): counts between edges, which are given or cut `range` into `bins` parts."""

def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> HistogramddResult:
    """(hist, bin_edges) of points (*, D); bins for each of D dims, range 2 D numbers."""

def hsplit(
    input: Tensor,
    indices_or_sections: Any = None,
    *,
    indices: Any = None,
    sections: Any = None,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 1 (a number of sections must divide it)."""

def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joined along dim 1 (vectors along dim 0)."""

def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """hypot(input, other), of each element, broadcast; torch.hypot."""

def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind and order 0."""

def i0_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `i0`; returns self."""

def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function; differentiable by `other`. The
    host computes it, of values on the GPU too.
    """

def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function: 1 - igamma, see there."""

def imag(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The imaginary part, a view. RuntimeError for a real tensor."""

def index_add(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:
    """`input` with alpha * source's slices added at the places that `index` names.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """`input` with source's slices at the places that `index` names; the last of equals wins.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def index_fill(
    input: Tensor, dim: int, index: Tensor, value: Any, *, out: Tensor | None = None
) -> Tensor:
    """`input` with a number (or 0-d tensor) in the slices that `index` names.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def index_put(
    input: Tensor,
    indices: Any,
    values: Tensor,
    accumulate: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `values` at `indices` (added to what is there if `accumulate`).

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def index_put_(
    input: Tensor,
    indices: Any,
    values: Tensor,
    accumulate: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """In-place version of `index_put`; returns self."""

def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """`input` joined with source's slices at the places that `index` names, as `scatter_reduce`;
    reduce: 'prod', 'mean', 'amax' or 'amin'.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices of a dim that the 1-d `index` names, in its order.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products over the last dim of both: (*a, n) and (*b, n) -> (*a, *b)."""

def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Normalize each channel of each example; see nn.functional.instance_norm."""

def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`linalg.inv` under its old name."""

def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""

def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is still to be done: never."""

def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a float."""

def is_inference(self: Tensor) -> bool:
    """Whether it was made in inference mode: such tensors (and views of them) take no part in
    autograd, and are written to in that mode only; `clone()` gives a normal one.
    """

def is_neg(input: Tensor) -> bool:
    """Whether a conjugation is still to be done: never."""

def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0: reads it. RuntimeError for none, or several."""

def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""

def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""

def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; of one dtype."""

def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is neither infinite nor NaN."""

def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element is one of `test_elements`."""

def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """isinf(input), of each element, broadcast; torch.isinf."""

def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """isnan(input), of each element, broadcast; torch.isnan."""

def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is -inf."""

def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is +inf."""

def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element has no imaginary part."""

def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `stft`: frames overlap and are added, divided by the windows' squares.

    See https://docs.pytorch.org/docs/stable/generated/torch.istft.html; on the CPU.
    """

def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
) -> Tensor:
    """signal.windows.kaiser, of one period unless `periodic=False`."""

def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker's product: (a0, a1, …) and (b0, b1, …) -> (a0 b0, a1 b1, …)."""

def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None
) -> KthvalueResult:
    """(values, indices) of the k-th smallest element along a dim, k from 1."""

def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """Normalize over the last dims, `normalized_shape`; see nn.functional.layer_norm."""

def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of ints."""

def lcm_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `lcm`; returns self."""

def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * 2**other; of floats and ints it has the dtype of `input`, and no power overflows."""

def ldexp_(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `ldexp`; returns self."""

def le(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """le(input, other), of each element, broadcast; torch.le."""

def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """input + weight * (end - input), of one dtype; `weight` is a number or a tensor. At a weight
    of 1 it is exactly `end`.
    """

def less(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """lt(input, other), of each element, broadcast; torch.lt."""

def less_equal(
    input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """le(input, other), of each element, broadcast; torch.le."""

def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """lgamma(input), of each element, broadcast; torch.lgamma."""

def linspace(
    start: Any,
    end: Any,
    steps: Any = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """`steps` numbers from start to end, both included, evenly spaced."""

def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(input), of each element, broadcast; torch.log."""

def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log10(input), of each element, broadcast; torch.log10."""

def log10_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `log10`; returns self."""

def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log1p(input), of each element, broadcast; torch.log1p."""

def log1p_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `log1p`; returns self."""

def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(input), of each element, broadcast; torch.log2."""

def log2_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `log2`; returns self."""

def log_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `log`; returns self."""

def log_softmax(
    input: Tensor,
    dim: int | None = None,
    dtype: dtype | type | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""

def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), without overflow."""

def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(2^input + 2^other), without overflow."""

def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """log(exp(x[0]) + … + exp(x[i])) along a dim, without overflow."""

def logdet(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The log of the determinant: nan where that is negative."""

def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """logical_and(input, other), of each element, broadcast; torch.logical_and."""

def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """logical_not(input), of each element, broadcast; torch.logical_not."""

def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """logical_or(input, other), of each element, broadcast; torch.logical_or."""

def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of both is nonzero."""

def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), of x limited to [eps, 1 - eps] if `eps` is given."""

def logit_(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `logit`; returns self."""

def logspace(
    start: Any,
    end: Any,
    steps: Any = None,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """base ** x for `steps` evenly spaced x from start to end, both included."""

def logsumexp(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) over dims, without overflow; ints give floats."""

@overload
def lstm(
    input: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """(output, h, c) of layers of LSTM: see nn.LSTM.

    Takes (input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or for packed sequences (data, batch_sizes, (h, c), params, has_biases,
    num_layers, dropout, train, bidirectional).
    """

@overload
def lstm(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The next (h, c): see nn.LSTMCell. (N, in) and (N, H) twice."""

def lt(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """lt(input, other), of each element, broadcast; torch.lt."""

@overload
def lu(
    A: Tensor, pivot: bool = True, get_infos: Literal[False] = False, *, out: Any = None
) -> LUFactor:
    """(LU, pivots), and info with `get_infos`: see `linalg.lu_factor_ex`."""

@overload
def lu(
    A: Tensor, pivot: bool = True, *, get_infos: Literal[True], out: Any = None
) -> LUFactorEx: ...
@overload
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, *, out: Any = None
) -> LUFactor | LUFactorEx: ...
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`linalg.lu_solve` under its old name."""

def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Any = None,
) -> LUUnpack:
    """P, L and U from what `lu_factor` gives; what is not asked for is empty."""

def masked_fill(input: Tensor, mask: Tensor, value: Any, *, out: Tensor | None = None) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor) where the bool `mask` holds."""

def masked_scatter(
    input: Tensor, mask: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """`input` with source's elements, in order, where the bool `mask` holds."""

def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where `mask` holds, as a vector. Reads the mask."""

def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, batched and broadcast over leading dims; vectors as in torch.matmul."""

def matrix_exp(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The exponentials of matrices (…, n, n), in double precision inside. On the GPU the host
    computes them.
    """

def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """A @ A @ … (n times); the inverse of that for a negative n."""

@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest element; with `dim`, (values, indices); with a tensor, `maximum`."""

@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> MaxResult: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 1 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window over the last 1 dim(s)
    and its int64 flat index in each plane.
    """

@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 2 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor:
    """The largest element of each window over the last 3 dim(s);
    return_indices: (values, int64 flat index in each plane).
    """

@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any: ...
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """maximum(input, other), of each element, broadcast; torch.maximum."""

def mean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean over dims. RuntimeError for ints, which have no mean of their dtype."""

@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The lower median of all elements, or with `dim` (values, indices). NaN wins."""

@overload
def median(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> MedianResult: ...
def meshgrid(*tensors: Any, indexing: str | None = None, out: Any = None) -> tuple[Tensor, ...]:
    """Each vector expanded over the grid of all, as views; 'xy' swaps the first two dims."""

@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest element; with `dim`, (values, indices); with a tensor, `minimum`."""

@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> MinResult: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """minimum(input, other), of each element, broadcast; torch.minimum."""

def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices."""

def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> ModeResult:
    """(values, indices) of the most frequent element along a dim, the smallest of equals."""

def moveaxis(input: Tensor, source: Any, destination: Any, *, out: Tensor | None = None) -> Tensor:
    """Dims moved to other positions, the others keeping their order."""

def movedim(input: Tensor, source: Any, destination: Any, *, out: Tensor | None = None) -> Tensor:
    """Dims moved to other positions, the others keeping their order."""

def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in order along the first dim."""

def mul(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """mul(input, other), of each element, broadcast; torch.mul."""

def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """int64 (…, num_samples): categories drawn with the weights of the last dim, (n) or (m, n).

    Each draw is the largest of weight / exponential number, which needs no look at the weights
    (Efraimidis and Spirakis, 2006).
    """

def multiply(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """mul(input, other), of each element, broadcast; torch.mul."""

def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector."""

def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """log of the multivariate gamma function of dimension p; torch.mvlgamma."""

def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN and infinities replaced: by 0 and the largest and lowest finite number by default."""

def nan_to_num_(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """In-place version of `nan_to_num`; returns self."""

def nanmean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean over dims of what is not NaN."""

@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`median` of what is not NaN."""

@overload
def nanmedian(
    input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None
) -> NanmedianResult: ...
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """`quantile` of what is not NaN."""

def nansum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over dims with NaN counted as 0. RuntimeError for complex."""

def narrow(
    input: Tensor, dim: int, start: int | Tensor, length: int, *, out: Tensor | None = None
) -> Tensor:
    """Elements start..start+length of a dim, as a view."""

def narrow_copy(
    input: Tensor, dim: int, start: int | Tensor, length: int, *, out: Tensor | None = None
) -> Tensor:
    """`narrow` that copies."""

def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(batch_norm, mean (C,), 1 / sqrt(var + eps) (C,)); empty statistics unless in training."""

def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(dropout, the bool mask of what was kept)."""

def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(group_norm, mean (N, group), 1 / sqrt(var + eps) (N, group)) of an input (N, C, *)."""

def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, mean, 1 / sqrt(var + eps)), statistics with the normalized dims as 1."""

def ne(input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None) -> Tensor:
    """ne(input, other), of each element, broadcast; torch.ne."""

def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """neg(input), of each element, broadcast; torch.neg."""

def neg_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `neg`; returns self."""

def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """neg(input), of each element, broadcast; torch.neg."""

def negative_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `negative`; returns self."""

def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """nextafter(input, other), of each element, broadcast; torch.nextafter."""

@overload
def nonzero(
    input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None
) -> Tensor:
    """The indices of nonzero elements: int64 (n, ndim), or one tensor a dim. Reads the values."""

@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: Any = None) -> tuple[Tensor, ...]: ...
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """The first `size` rows of `nonzero`, filled up with `fill_value`."""

def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The p-norm over dims (all by default), or the matrix norm 'fro' or 'nuc' over two.

    A norm of 0 has the gradient 0. RuntimeError for ints.
    """

def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The norms of the slices along one dim, which keeps its place, the others being 1; of all
    elements for dim=-1.
    """

def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Normal numbers with means and deviations that are tensors or numbers (these: of `size`)."""

def not_equal(
    input: Tensor, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """ne(input, other), of each element, broadcast; torch.ne."""

def ones(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of ones; dtype, device and requires_grad as given.

    layout, memory_format and pin_memory are accepted. RuntimeError for negative sizes.
    """

def ones_like(
    input: Tensor,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Ones of the shape, dtype and device of `input`."""

def orgqr(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of the product of k reflectors, whose vectors stand below the diagonal
    of A (…, m, n) and whose factors are tau (…, k).
    """

def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Q other, or other Q (`left=False`), with the whole Q of `geqrf` or (`transpose`) its
    adjoint.
    """

def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim."""

def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2, *, out: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`svd_lowrank` of A, its columns centered to mean 0 if `center`; q is 6, m or n by
    default, whichever is least.
    """

def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (N, M) -> (N * (N - 1) / 2,)."""

def permute(input: Tensor, *order_: Any, dims: Any = None, out: Tensor | None = None) -> Tensor:
    """The dims in another order; torch.permute."""

def permute_copy(
    input: Tensor, *order_: Any, dims: Any = None, out: Tensor | None = None
) -> Tensor:
    """`permute` that copies."""

def pinverse(input: Tensor, rcond: float = 1e-15, *, out: Tensor | None = None) -> Tensor:
    """`linalg.pinv` under its old name."""

def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C * r^2, H, W) -> (*, C, H * r, W * r) (https://arxiv.org/abs/1609.05158)."""

def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H * r, W * r) -> (*, C * r^2, H, W): pixel_shuffle undone."""

def poisson(
    input: Tensor, generator: Generator | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Poisson numbers of these rates; drawn on the host, on each device."""

def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * exp(1j * angle), of two float32 or float64 tensors; on the CPU."""

def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma (DLMF 5.15): (-1)^(n+1) n! zeta(n + 1, x)."""

def positive(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input` itself; RuntimeError for bools."""

def pow(
    input: Tensor | builtins.complex,
    exponent: Tensor | builtins.complex,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """pow(input, exponent), of each element, broadcast; torch.pow.

    RuntimeError of an int to a negative power.
    """

def prelu(input: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x where x > 0, else weight * x; weight () or (1,), or (C,) for the channels of dim 1
    (arXiv 1502.01852). RuntimeError for other sizes or dtypes.
    """

def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product over one dim, or of all elements; ints and bools give int64."""

def put(
    input: Tensor,
    index: Tensor,
    source: Tensor,
    accumulate: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`input` with source's elements at flat positions (added if `accumulate`).

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def qr(input: Tensor, some: bool = True, *, out: Any = None) -> OldQR:
    """`linalg.qr` under its old name; `some=False` is mode 'complete'."""

def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-quantiles (q in 0..1, a number or a vector) of all elements or along a dim.

    A vector q gives a first dim of its size. A row with NaN gives NaN.
    """

def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians as degrees."""

def rad2deg_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `rad2deg`; returns self."""

def rand(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Uniform random numbers in [0, 1); generator=, size= and the options of `empty`."""

def rand_like(
    input: Tensor,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """`rand` of the shape, dtype and device of `input`."""

def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Random ints in [low, high), int64 by default; randint(high, size) starts at 0."""

def randint_like(
    input: Tensor,
    low: Any,
    high: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """`randint` of the shape, dtype and device of `input`."""

def randn(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Standard normal random numbers; options as of `rand`."""

def randn_like(
    input: Tensor,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """`randn` of the shape, dtype and device of `input`."""

def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """0..n-1 in random order (drawn on the host)."""

def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """start, start + step, … up to end, which is included (PyTorch's old `range`)."""

def ravel(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All elements as a vector: a view of a contiguous tensor."""

def real(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The real part, a view; a real tensor itself."""

def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """reciprocal(input), of each element, broadcast; torch.reciprocal."""

def reciprocal_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `reciprocal`; returns self."""

def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """relu(input), of each element, broadcast; torch.relu."""

def relu_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `relu`; returns self."""

def remainder(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """remainder(input, other), of each element, broadcast; torch.remainder.

    RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
    """

def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """`input` with each slice of `dim` scaled down to a p-norm of at most `maxnorm`."""

def repeat_interleave(
    input: Tensor,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Each element of a dim (of all, flattened) `repeats` times; a tensor says it for each
    (and is read). Without `repeats`: index i as often as input[i] says.
    """

def reshape(input: Tensor, *sizes: Any, shape: Any = None, out: Tensor | None = None) -> Tensor:
    """The same elements in another shape (one size may be -1): a view where that is possible."""

def resize_as_(
    input: Tensor, other: Tensor, *, memory_format: Any = None, out: Tensor | None = None
) -> Tensor:
    """`resize_` to the shape of `other`."""

def resolve_conj(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input` itself: conjugates are computed at once."""

def resolve_neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`input` itself: conjugates are computed at once."""

def result_type(*operands: Any) -> dtype:
    """The dtype of an operation on tensors and numbers, as torch.result_type."""

def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (arXiv 1910.07467); eps is the
    machine epsilon of what is computed with by default, float32's for less.
    """

@overload
def rnn_relu(
    input: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """(output, h) of layers of RNN with relu: see nn.RNN. Arguments as of `lstm`, with h alone."""

@overload
def rnn_relu(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]: ...
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """The next h: see nn.RNNCell. (N, in) and (N, H)."""

@overload
def rnn_tanh(
    input: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """(output, h) of layers of RNN: see nn.RNN. Arguments as of `lstm`, with h alone."""

@overload
def rnn_tanh(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]: ...
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """The next h: see nn.RNNCell. (N, in) and (N, H)."""

def roll(input: Tensor, shifts: Any, dims: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Elements moved along dims, those that fall off the end coming in at the start."""

def rot90(input: Tensor, k: int = 1, dims: Any = ..., *, out: Tensor | None = None) -> Tensor:
    """Turned k times by 90 degrees, from the first of two dims to the second."""

def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest number with `decimals` digits after the point (before it if negative)."""

def round_(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """In-place version of `round`; returns self."""

def row_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joined along dim 0, vectors as rows."""

def rrelu(
    input: Tensor,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """leaky_relu whose slope is drawn from [lower, upper) for each element in training, and their
    mean otherwise (arXiv 1505.00853). RuntimeError unless lower <= upper, both finite.
    """

def rrelu_(
    input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False
) -> Tensor:
    """In-place version of `rrelu`; returns input."""

def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """rsqrt(input), of each element, broadcast; torch.rsqrt."""

def rsqrt_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `rsqrt`; returns self."""

def rsub(input: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """other - alpha * input."""

def scalar_tensor(
    s: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A 0-d tensor of a number, of the default dtype."""

def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`input` with src[i][j] (or a number) put at [index[i][j]][j] (dim 0), and so on; of equal
    places the last wins. `reduce`: 'add' or 'multiply'.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """

def scatter_add(
    input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """`input` with src[i][j] added at [index[i][j]][j] (dim 0), and so on; deterministic.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """

def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """`scatter` that joins what meets at a place, with what `input` has there unless
    `include_self=False`; reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'.

    RuntimeError for an index out of range; on the GPU when a value is next read.
    """

def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where `input` belongs in the sorted last dim: how many elements are < (right: <=) it.

    A 1-d sequence serves values of any shape, (*, n) values (*, m).
    """

def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Each run of elements along an axis joined into one, of the `lengths` (*, S) given, or from
    each of `offsets` (*, S + 1) to the next; reduce: 'sum', 'mean', 'prod', 'max' or 'min'.
    `axis` must be the last dim of either. An empty run gives `initial`, or what changes nothing
    (of a mean NaN). RuntimeError where lengths don't sum to the size, unless `unsafe`.
    """

def select(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """The slice at `index` of a dim, without that dim."""

def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """`select` that copies."""

def select_scatter(
    input: Tensor, src: Tensor, dim: int, index: int, *, out: Tensor | None = None
) -> Tensor:
    """A copy of `input` with `src` at `index` of a dim."""

def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the two constants that keep mean 0 and variance 1 (arXiv 1706.02515)."""

def selu_(input: Tensor) -> Tensor:
    """In-place version of `selu`; returns input."""

def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator back into a state of `get_rng_state`."""

def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """x / |x|, 0 for 0: the sign of a real number, the direction of a complex one."""

def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sigmoid(input), of each element, broadcast; torch.sigmoid."""

def sigmoid_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `sigmoid`; returns self."""

def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sign(input), of each element, broadcast; torch.sign."""

def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """signbit(input), of each element, broadcast; torch.signbit."""

def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(input), of each element, broadcast; torch.sin."""

def sin_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `sin`; returns self."""

def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""

def sinc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `sinc`; returns self."""

def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sinh(input), of each element, broadcast; torch.sinh."""

def sinh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `sinh`; returns self."""

def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` at start:end:step of a dim."""

def slogdet(A: Tensor, *, out: Any = None) -> Slogdet:
    """The sign of the determinant (for complex A a number on the unit circle) and the log of its
    absolute value. On the GPU the host computes them.
    """

def softmax(
    input: Tensor,
    dim: int | None = None,
    dtype: dtype | type | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""

def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = None,
    *,
    out: Any = None,
) -> SortResult:
    """(values, indices) in order along a dim; always stable, NaN counts as largest."""

def split(
    tensor: Tensor, split_size_or_sections: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""

def split_copy(
    tensor: Tensor, split_size_or_sections: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """`split` that copies."""

def split_with_sizes(
    input: Tensor, split_sizes: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """Views of the sizes given, one after the other along a dim."""

def split_with_sizes_copy(
    input: Tensor, split_sizes: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """`split_with_sizes` that copies."""

def spmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices."""

def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sqrt(input), of each element, broadcast; torch.sqrt."""

def sqrt_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `sqrt`; returns self."""

def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """square(input), of each element, broadcast; torch.square."""

def square_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `square`; returns self."""

def squeeze(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Dims of size 1 removed: all, or those named."""

def squeeze_copy(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """`squeeze` that copies."""

def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors, all of one shape, along a new dim."""

def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation over dims: sqrt(var), with gradient 0 where it is 0."""

def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]:
    """(std, mean) over dims."""

def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Short-time Fourier transform: (B?, time) -> (B?, frequency, frame), complex.

    See https://docs.pytorch.org/docs/stable/generated/torch.stft.html; on the CPU.
    """

def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """sub(input, alpha * other), broadcast."""

def subtract(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """sub(input, alpha * other), broadcast."""

def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | type | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over dims (all by default); ints and bools give int64."""

def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> OldSVD:
    """U, S, V with input = U S V^H; without `compute_uv` U and V are zeros."""

def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None, *, out: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V with U S V^H close to A (or A - M), of rank q at most, by random projection."""

def swapaxes(input: Tensor, axis0: int, axis1: int, *, out: Tensor | None = None) -> Tensor:
    """`transpose` under NumPy's name."""

def swapdims(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """Two dims swapped."""

def t(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The transpose of a matrix (at most 2 dims)."""

def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`t` that copies."""

def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements at flat positions, in the shape of `index`.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`gather` whose index is broadcast against the other dims; without a dim, of all elements.

    IndexError for an index out of range; on the GPU when a value is next read.
    """

def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """tan(input), of each element, broadcast; torch.tan."""

def tan_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `tan`; returns self."""

def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """tanh(input), of each element, broadcast; torch.tanh."""

def tanh_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `tanh`; returns self."""

def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """Views: as many as said, of sizes that differ by at most 1, or cut at the indices given."""

def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """The products summed over pairs of dims: `dims` counts the last of `a` and first of `b`, or
    names them in two lists.
    """

def threshold(input: Tensor, threshold: Any, value: Any, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value."""

def threshold_(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """In-place version of `threshold`; returns input."""

def tile(input: Tensor, *counts: Any, dims: Any = None, out: Tensor | None = None) -> Tensor:
    """`repeat` that takes missing leading counts as 1."""

def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: Any = None,
) -> TopkResult:
    """(values, indices) of the k largest (or smallest) along a dim, in order."""

def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of a matrix's diagonal."""

def transpose(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """Two dims swapped."""

def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """`transpose` that copies."""

def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The integral along a dim by trapezoids, at places `x` or `dx` (1) apart."""

def trapz(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The integral along a dim by trapezoids, at places `x` or `dx` (1) apart."""

def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> TriangularSolve:
    """`linalg.solve_triangular` under its old name: (solution, a copy of A)."""

def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices; zeros above `diagonal`."""

def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = ...,
    device: Any = "cpu",
    layout: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """(2, n): the rows and columns of the elements that tril keeps."""

def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices; zeros below `diagonal`."""

def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = ...,
    device: Any = "cpu",
    layout: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """(2, n): the rows and columns of the elements that triu keeps."""

def true_divide(
    input: Tensor | builtins.complex, other: Tensor | builtins.complex, *, out: Tensor | None = None
) -> Tensor:
    """div(input, other), of each element, broadcast; torch.div."""

def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """trunc(input), of each element, broadcast; torch.trunc."""

def trunc_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `trunc`; returns self."""

def unbind(input: Tensor, dim: int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """The slices along a dim, without it."""

def unbind_copy(input: Tensor, dim: int = 0, *, out: Any = None) -> tuple[Tensor, ...]:
    """`unbind` that copies."""

def unflatten(input: Tensor, dim: int, sizes: Any, *, out: Tensor | None = None) -> Tensor:
    """One dim split into several (one size may be -1)."""

def unfold_copy(
    self: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None
) -> Tensor:
    """`unfold` that copies."""

@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The different elements (or slices of a dim), always in order; reads the values.

    With `return_inverse` and `return_counts` a tuple: also which of them each element is, and how
    often each occurs.
    """

@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[True],
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    out: Any = None,
) -> Any: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`unique` of neighbours only: the first of each run of equal elements; reads the values."""

@overload
def unique_consecutive(
    input: Tensor,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[True],
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    *,
    out: Any = None,
) -> Any: ...
def unravel_index(indices: Tensor, shape: Any, *, out: Any = None) -> tuple[Tensor, ...]:
    """The index of each dim of `shape`, of flat positions."""

def unsafe_chunk(
    input: Tensor, chunks: int, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dim."""

def unsafe_split(
    tensor: Tensor, split_size_or_sections: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""

def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Any, dim: int = 0, *, out: Any = None
) -> tuple[Tensor, ...]:
    """Views of the sizes given, one after the other along a dim."""

def unsqueeze(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """A dim of size 1 inserted at `dim`."""

def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """`unsqueeze` that copies."""

def vander(
    x: Tensor, N: int | None = None, increasing: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """(n,) -> (n, N): powers as `linalg.vander`, from N - 1 down to 0 unless `increasing`."""

def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance over dims, divided by n - correction (1 unless `unbiased=False`)."""

def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> tuple[Tensor, Tensor]:
    """(var, mean) over dims."""

def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`dot` with the first vector conjugated."""

def view_as_complex(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A float32 or float64 tensor (..., 2) as a complex view (...)."""

def view_as_real(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A complex tensor (...) as a real view (..., 2)."""

def view_copy(
    input: Tensor, *shape: Any, dtype: Any = None, size: Any = None, out: Tensor | None = None
) -> Tensor:
    """`view` that copies, also where the memory layout allows no view."""

def vsplit(
    input: Tensor,
    indices_or_sections: Any = None,
    *,
    indices: Any = None,
    sections: Any = None,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 0 (a number of sections must divide it)."""

def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joined along dim 0, vectors as rows."""

@overload
def where(condition: Tensor, *, out: Any = None) -> tuple[Tensor, ...]:
    """`input` where `condition` (bool) holds, else `other`, broadcast; torch.where."""

@overload
def where(condition: Tensor, input: Any, other: Any, *, out: Tensor | None = None) -> Tensor: ...
def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), 0 where input is 0 and other is no NaN; either may be a number."""

def xlogy_(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """In-place version of `xlogy`; returns self."""

def zero_(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Fill with zeros, in place."""

def zeros(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """A tensor of zeros; dtype, device and requires_grad as given.

    layout, memory_format and pin_memory are accepted. RuntimeError for negative sizes.
    """

def zeros_like(
    input: Tensor,
    *,
    out: Tensor | None = None,
    dtype: dtype | type | None = ...,
    layout: Any = ...,
    device: device | str | None = ...,
    requires_grad: bool = ...,
    pin_memory: bool | None = ...,
    memory_format: Any = ...,
) -> Tensor:
    """Zeros of the shape, dtype and device of `input`."""
