# Made by scripts/make_stubs; what it says is changed where the function is written.
"""The methods, operators and attributes of Tensor that ops give it."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np

from pyframe.core.devices import device
from pyframe.core.dtypes import dtype
from pyframe.core.grad_node import RemovableHandle
from pyframe.ops.random import Generator
from pyframe.ops.results import (
    AminmaxResult,
    CummaxResult,
    CumminResult,
    FrexpResult,
    Geqrf,
    HistogramResult,
    KthvalueResult,
    LUFactor,
    LUFactorEx,
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
from pyframe.tensor import Tensor
from pyframe.tensor.memory_format import layout as _layout
from pyframe.tensor.storage import UntypedStorage

class TensorMethods:
    @property
    def H(self) -> Tensor:
        """A matrix's adjoint."""

    @property
    def T(self) -> Tensor:
        """All dims reversed."""

    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __and__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Tensor: ...
    def __div__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __ge__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __gt__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __iadd__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __iand__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __idiv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __ifloordiv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __ilshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __imod__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __imul__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __init__(self, *data: Any, device: Any = None) -> None: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __ipow__(self, exponent: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __irshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __isub__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __itruediv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __ixor__(self, other: Tensor | complex | np.generic | np.ndarray) -> Self: ...
    def __le__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __lshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __lt__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __mod__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __mul__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __radd__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rand__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rdiv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any) -> Any: ...
    def __rfloordiv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rlshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rmul__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __ror__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rpow__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rrshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rshift__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rsub__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rtruediv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __rxor__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __sub__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __truediv__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def __xor__(self, other: Tensor | complex | np.generic | np.ndarray) -> Tensor: ...
    def abs(self) -> Tensor:
        """abs(input), of each element, broadcast; torch.abs."""

    def abs_(self) -> Self:
        """In-place version of `abs`; returns self."""

    def absolute(self) -> Tensor:
        """abs(input), of each element, broadcast; torch.abs."""

    def absolute_(self) -> Self:
        """In-place version of `absolute`; returns self."""

    def acos(self) -> Tensor:
        """acos(input), of each element, broadcast; torch.acos."""

    def acos_(self) -> Self:
        """In-place version of `acos`; returns self."""

    def acosh(self) -> Tensor:
        """acosh(input), of each element, broadcast; torch.acosh."""

    def acosh_(self) -> Self:
        """In-place version of `acosh`; returns self."""

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """add(input, alpha * other), broadcast."""

    def add_(self, other: Any, *, alpha: Any = 1) -> Self:
        """In-place version of `add`; returns self."""

    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * input + alpha * the sum over the batch of batch1[i] @ batch2[i]: one product."""

    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """In-place `addbmm`; a tensor that was broadcast takes the shape of the result."""

    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """input + value * tensor1 / tensor2. RuntimeError for two ints."""

    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Self:
        """In-place version of `addcdiv`; returns self."""

    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """input + value * tensor1 * tensor2; for ints `value` is cut to an int."""

    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Self:
        """In-place version of `addcmul`; returns self."""

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * input + alpha * mat1 @ mat2."""

    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """In-place version of `addmm`; returns self."""

    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * input + alpha * mat @ vec."""

    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """In-place version of `addmv`; returns self."""

    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * input + alpha * outer(vec1, vec2), promoted; of bools with `and` and `or`."""

    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """In-place version of `addr`; returns self."""

    def adjoint(self) -> Tensor:
        """The conjugate transpose of the last two dims."""

    def all(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether all elements over dims are nonzero; bool, of uint8 uint8."""

    def allclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> builtins.bool:
        """Whether all elements are close (see `isclose`), as a bool: reads the values."""

    def amax(self, dim: Any = ..., keepdim: builtins.bool = False) -> Tensor:
        """The largest element over dims; ties share the gradient."""

    def amin(self, dim: Any = ..., keepdim: builtins.bool = False) -> Tensor:
        """The smallest element over dims; ties share the gradient."""

    def aminmax(
        self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False
    ) -> AminmaxResult:
        """(min, max) over one dim, or of all elements; ties share the gradient."""

    def angle(self) -> Tensor:
        """The angle of a complex number; of a real one 0, or pi where it is negative."""

    def any(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether any element over dims is nonzero; bool, of uint8 uint8."""

    def apply_(self, callable: Any) -> Self:
        """Each element replaced by callable(element), in place; CPU tensors only, and slow."""

    def arccos(self) -> Tensor:
        """acos(input), of each element, broadcast; torch.acos."""

    def arccos_(self) -> Self:
        """In-place version of `arccos`; returns self."""

    def arccosh(self) -> Tensor:
        """acosh(input), of each element, broadcast; torch.acosh."""

    def arccosh_(self) -> Self:
        """In-place version of `arccosh`; returns self."""

    def arcsin(self) -> Tensor:
        """asin(input), of each element, broadcast; torch.asin."""

    def arcsin_(self) -> Self:
        """In-place version of `arcsin`; returns self."""

    def arcsinh(self) -> Tensor:
        """asinh(input), of each element, broadcast; torch.asinh."""

    def arcsinh_(self) -> Self:
        """In-place version of `arcsinh`; returns self."""

    def arctan(self) -> Tensor:
        """atan(input), of each element, broadcast; torch.atan."""

    def arctan2(self, other: Tensor) -> Tensor:
        """atan2(input, other), of each element, broadcast; torch.atan2."""

    def arctan2_(self, other: Tensor) -> Self:
        """In-place version of `arctan2`; returns self."""

    def arctan_(self) -> Self:
        """In-place version of `arctan`; returns self."""

    def arctanh(self) -> Tensor:
        """atanh(input), of each element, broadcast; torch.atanh."""

    def arctanh_(self) -> Self:
        """In-place version of `arctanh`; returns self."""

    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The int64 index of the largest element, the first of equals; NaN counts as largest."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The int64 index of the smallest element, the first of equals; NaN counts as smallest."""

    def argsort(
        self,
        dim: builtins.int = -1,
        descending: builtins.bool = False,
        stable: builtins.bool = False,
    ) -> Tensor:
        """The int64 indices that sort a dim; always stable, NaN counts as largest."""

    def argwhere(self) -> Tensor:
        """`nonzero` under NumPy's name."""

    def as_strided(
        self, size: Any, stride: Any, storage_offset: builtins.int | None = None
    ) -> Tensor:
        """A view of the whole memory behind `input`, by strides and offset in elements."""

    def as_strided_(
        self, size: Any, stride: Any, storage_offset: builtins.int | None = None
    ) -> Self:
        """Be from now on what `as_strided` gives; returns self."""

    def as_strided_scatter(
        self, src: Tensor, size: Any, stride: Any, storage_offset: builtins.int | None = None
    ) -> Tensor:
        """A copy of `input` with `src` where the view `as_strided` would be."""

    def asin(self) -> Tensor:
        """asin(input), of each element, broadcast; torch.asin."""

    def asin_(self) -> Self:
        """In-place version of `asin`; returns self."""

    def asinh(self) -> Tensor:
        """asinh(input), of each element, broadcast; torch.asinh."""

    def asinh_(self) -> Self:
        """In-place version of `asinh`; returns self."""

    def atan(self) -> Tensor:
        """atan(input), of each element, broadcast; torch.atan."""

    def atan2(self, other: Tensor) -> Tensor:
        """atan2(input, other), of each element, broadcast; torch.atan2."""

    def atan2_(self, other: Tensor) -> Self:
        """In-place version of `atan2`; returns self."""

    def atan_(self) -> Self:
        """In-place version of `atan`; returns self."""

    def atanh(self) -> Tensor:
        """atanh(input), of each element, broadcast; torch.atanh."""

    def atanh_(self) -> Self:
        """In-place version of `atanh`; returns self."""

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf that it depends on."""

    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * input + alpha * bmm(batch1, batch2)."""

    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Self:
        """In-place version of `baddbmm`; returns self."""

    def bernoulli(self, p: Any = None, *, generator: Any = None) -> Tensor:
        """1 with the probability that each element (or `p`) gives, else 0; no gradient."""

    def bernoulli_(self, p: Any = None, *, generator: Any = None) -> Self:
        """In-place version of `bernoulli`; returns self."""

    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """Converted to bfloat16."""

    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """How often (or with which weight) each of 0..max occurs in a vector of ints. Reads them."""

    def bitwise_and(self, other: Tensor | complex) -> Tensor:
        """bitwise_and(input, other), of each element, broadcast; torch.bitwise_and."""

    def bitwise_and_(self, other: Tensor | complex) -> Self:
        """In-place version of `bitwise_and`; returns self."""

    def bitwise_left_shift(self, other: Tensor | complex) -> Tensor:
        """bitwise_left_shift(input, other), of each element, broadcast; torch.bitwise_left_shift."""

    def bitwise_left_shift_(self, other: Tensor | complex) -> Self:
        """In-place version of `bitwise_left_shift`; returns self."""

    def bitwise_not(self) -> Tensor:
        """bitwise_not(input), of each element, broadcast; torch.bitwise_not."""

    def bitwise_not_(self) -> Self:
        """In-place version of `bitwise_not`; returns self."""

    def bitwise_or(self, other: Tensor | complex) -> Tensor:
        """bitwise_or(input, other), of each element, broadcast; torch.bitwise_or."""

    def bitwise_or_(self, other: Tensor | complex) -> Self:
        """In-place version of `bitwise_or`; returns self."""

    def bitwise_right_shift(self, other: Tensor | complex) -> Tensor:
        """bitwise_right_shift(input, other), of each element, broadcast; torch.bitwise_right_shift."""

    def bitwise_right_shift_(self, other: Tensor | complex) -> Self:
        """In-place version of `bitwise_right_shift`; returns self."""

    def bitwise_xor(self, other: Tensor | complex) -> Tensor:
        """bitwise_xor(input, other), of each element, broadcast; torch.bitwise_xor."""

    def bitwise_xor_(self, other: Tensor | complex) -> Self:
        """In-place version of `bitwise_xor`; returns self."""

    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of two batches of matrices of equal length."""

    def bool(self, memory_format: Any = None) -> Tensor:
        """Converted to bool."""

    def broadcast_to(self, size: Any) -> Tensor:
        """`expand` under NumPy's name."""

    def byte(self, memory_format: Any = None) -> Tensor:
        """Converted to uint8."""

    def cauchy_(
        self,
        median: builtins.float = 0,
        sigma: builtins.float = 1,
        *,
        generator: Generator | None = None,
    ) -> Self:
        """Fill with Cauchy numbers."""

    def cdouble(self, memory_format: Any = None) -> Tensor:
        """Converted to complex128."""

    def ceil(self) -> Tensor:
        """ceil(input), of each element, broadcast; torch.ceil."""

    def ceil_(self) -> Self:
        """In-place version of `ceil`; returns self."""

    def cfloat(self, memory_format: Any = None) -> Tensor:
        """Converted to complex64."""

    def char(self, memory_format: Any = None) -> Tensor:
        """Converted to int8."""

    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """`linalg.cholesky` under its old name."""

    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """(L L^H)^-1 (`upper`: (L^H L)^-1)."""

    def cholesky_solve(self, L: Tensor, upper: builtins.bool = False) -> Tensor:
        """X with L L^H X = B (`upper`: L^H L X = B)."""

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` views of equal size along a dim."""

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """`input` limited to [min, max]; each a number, a tensor or None (not both). NaN stays.

        RuntimeError of a number that the ints' dtype does not hold.
        """

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """In-place version of `clamp`; returns self."""

    def clamp_max(self, max: Tensor | complex) -> Tensor:
        """clamp_max(input, max), of each element, broadcast; torch.clamp_max.

        RuntimeError of a number that the ints' dtype does not hold.
        """

    def clamp_max_(self, max: Tensor | complex) -> Self:
        """In-place version of `clamp_max`; returns self."""

    def clamp_min(self, min: Tensor | complex) -> Tensor:
        """clamp_min(input, min), of each element, broadcast; torch.clamp_min.

        RuntimeError of a number that the ints' dtype does not hold.
        """

    def clamp_min_(self, min: Tensor | complex) -> Self:
        """In-place version of `clamp_min`; returns self."""

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """`input` limited to [min, max]; each a number, a tensor or None (not both). NaN stays.

        RuntimeError of a number that the ints' dtype does not hold.
        """

    def clip_(self, min: Any = None, max: Any = None) -> Self:
        """In-place version of `clip`; returns self."""

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy with its own memory, in which the dims keep their order; gradients flow through."""

    def conj(self) -> Tensor:
        """The complex conjugate, computed at once; a real tensor itself."""

    def conj_physical(self) -> Tensor:
        """The complex conjugate (of a real tensor a copy)."""

    def conj_physical_(self) -> Self:
        """In-place version of `conj_physical`; returns self."""

    def const_data_ptr(self) -> builtins.int:
        """The address of the first element; on the GPU a number that only tells places apart."""

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Itself if its memory is in row-major order (or as `memory_format` says), else a copy."""

    def copy_(self, src: Any, non_blocking: builtins.bool = False) -> Self:
        """Fill with the elements of `src`, broadcast and converted, in place."""

    def copysign(self, other: Tensor | complex) -> Tensor:
        """copysign(input, other), of each element, broadcast; torch.copysign."""

    def copysign_(self, other: Tensor | complex) -> Self:
        """In-place version of `copysign`; returns self."""

    def corrcoef(self) -> Tensor:
        """The matrix of correlation coefficients of the rows of (variables, observations)."""

    def cos(self) -> Tensor:
        """cos(input), of each element, broadcast; torch.cos."""

    def cos_(self) -> Self:
        """In-place version of `cos`; returns self."""

    def cosh(self) -> Tensor:
        """cosh(input), of each element, broadcast; torch.cosh."""

    def cosh_(self) -> Self:
        """In-place version of `cosh`; returns self."""

    def count_nonzero(self, dim: Any = None) -> Tensor:
        """The int64 number of nonzero elements over dims."""

    def cov(
        self,
        *,
        correction: builtins.int = 1,
        fweights: Tensor | None = None,
        aweights: Tensor | None = None,
    ) -> Tensor:
        """The covariance matrix of the rows of (variables, observations), or the variance of a vector.

        `fweights` (int) says how often an observation counts, `aweights` how much. Negative weights
        are an error (of a lazy device at the next read).
        """

    def cpu(self) -> Tensor:
        """On the CPU."""

    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Cross products along `dim` (by default the first of size 3), broadcast."""

    def cuda(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """On the GPU, or on the one of this number or name."""

    def cummax(self, dim: builtins.int) -> CummaxResult:
        """(values, indices) of the largest element so far along a dim, the last of equals."""

    def cummin(self, dim: builtins.int) -> CumminResult:
        """(values, indices) of the smallest element so far along a dim, the last of equals."""

    def cumprod(self, dim: builtins.int, *, dtype: dtype | builtins.type | None = None) -> Tensor:
        """y[i] = x[0] * … * x[i] along a dim; ints and bools give int64."""

    def cumprod_(self, dim: builtins.int, *, dtype: dtype | builtins.type | None = None) -> Self:
        """In-place version of `cumprod`; returns self."""

    def cumsum(self, dim: builtins.int, *, dtype: dtype | builtins.type | None = None) -> Tensor:
        """y[i] = x[0] + … + x[i] along a dim; ints and bools give int64."""

    def cumsum_(self, dim: builtins.int, *, dtype: dtype | builtins.type | None = None) -> Self:
        """In-place version of `cumsum`; returns self."""

    def data_ptr(self) -> builtins.int:
        """The address of the first element; on the GPU a number that only tells places apart."""

    def deg2rad(self) -> Tensor:
        """Degrees as radians."""

    def deg2rad_(self) -> Self:
        """In-place version of `deg2rad`; returns self."""

    def det(self) -> Tensor:
        """The determinants of matrices (…, n, n). On the GPU the host computes them.

        The second derivative needs an invertible A.
        """

    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """A vector on the diagonal of a matrix; of a matrix a copy of its diagonal."""

    def diag_embed(
        self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1
    ) -> Tensor:
        """(..., n) on a diagonal of two new dims of size n + |offset|, 0 elsewhere."""

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """All elements on a diagonal of a matrix."""

    def diagonal(
        self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """A diagonal of two dims as the last dim, a view; `offset` counts up and to the right."""

    def diagonal_scatter(
        self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """A copy of `input` with `src` as that diagonal."""

    def diff(
        self,
        n: builtins.int = 1,
        dim: builtins.int = -1,
        prepend: Tensor | None = None,
        append: Tensor | None = None,
    ) -> Tensor:
        """The n-th difference x[i + 1] - x[i] along a dim; of bools whether they differ."""

    def digamma(self) -> Tensor:
        """digamma(input), of each element, broadcast; torch.digamma."""

    def digamma_(self) -> Self:
        """In-place version of `digamma`; returns self."""

    def dim_order(self) -> tuple[builtins.int, ...]:
        """The dims from the longest stride to the shortest."""

    def dist(self, other: Tensor, p: Any = 2) -> Tensor:
        """The p-norm of input - other, broadcast."""

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """input / other, rounded as `rounding_mode` says: None, 'floor' or 'trunc'."""

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """In-place version of `div`; returns self."""

    def divide(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """input / other, rounded as `rounding_mode` says: None, 'floor' or 'trunc'."""

    def divide_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """In-place version of `divide`; returns self."""

    def dot(self, tensor: Tensor) -> Tensor:
        """The inner product of two vectors of equal length, without conjugation."""

    def double(self, memory_format: Any = None) -> Tensor:
        """Converted to float64."""

    def dsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dim 2 (a number of sections must divide it)."""

    def eq(self, other: Tensor | complex) -> Tensor:
        """eq(input, other), of each element, broadcast; torch.eq."""

    def eq_(self, other: Tensor | complex) -> Self:
        """In-place version of `eq`; returns self."""

    def equal(self, other: Tensor) -> builtins.bool:
        """Whether both have one shape and equal elements, as a bool: reads the values."""

    def erf(self) -> Tensor:
        """erf(input), of each element, broadcast; torch.erf."""

    def erf_(self) -> Self:
        """In-place version of `erf`; returns self."""

    def erfc(self) -> Tensor:
        """erfc(input), of each element, broadcast; torch.erfc."""

    def erfc_(self) -> Self:
        """In-place version of `erfc`; returns self."""

    def erfinv(self) -> Tensor:
        """erfinv(input), of each element, broadcast; torch.erfinv."""

    def erfinv_(self) -> Self:
        """In-place version of `erfinv`; returns self."""

    def exp(self) -> Tensor:
        """exp(input), of each element, broadcast; torch.exp."""

    def exp2(self) -> Tensor:
        """exp2(input), of each element, broadcast; torch.exp2."""

    def exp2_(self) -> Self:
        """In-place version of `exp2`; returns self."""

    def exp_(self) -> Self:
        """In-place version of `exp`; returns self."""

    def expand(self, *sizes: Any, size: Any = None, implicit: builtins.bool = False) -> Tensor:
        """`expand` that gives a view of its own where nothing is repeated too."""

    def expand_as(self, other: Tensor) -> Tensor:
        """`input` expanded to the shape of `other`."""

    def expm1(self) -> Tensor:
        """expm1(input), of each element, broadcast; torch.expm1."""

    def expm1_(self) -> Self:
        """In-place version of `expm1`; returns self."""

    def exponential_(
        self, lambd: builtins.float = 1, *, generator: Generator | None = None
    ) -> Self:
        """Fill with exponential numbers of rate `lambd`."""

    def fill(self, value: Any) -> Tensor:
        """One number (or a 0-d tensor, with its gradient) in the shape and dtype of `input`."""

    def fill_(self, value: Any) -> Self:
        """Fill with one number (or a 0-d tensor), in place."""

    def fill_diagonal_(self, fill_value: Any, wrap: builtins.bool = False) -> Self:
        """Write a number to the main diagonal of a matrix (or of equal dims) in place; `wrap` starts
        anew below the square of a tall matrix.
        """

    def fix(self) -> Tensor:
        """trunc(input), of each element, broadcast; torch.trunc."""

    def fix_(self) -> Self:
        """In-place version of `fix`; returns self."""

    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Dims start_dim..end_dim joined into one."""

    def flip(self, *axes: Any, dims: Any = None) -> Tensor:
        """The order of elements reversed along dims (a copy, as PyTorch's)."""

    def fliplr(self) -> Tensor:
        """The order of columns reversed."""

    def flipud(self) -> Tensor:
        """The order of rows reversed."""

    def float(self, memory_format: Any = None) -> Tensor:
        """Converted to float32."""

    def float_power(self, exponent: Any) -> Tensor:
        """input ** exponent in float64 (complex128 for complex), so on the CPU; either is a tensor."""

    def float_power_(self, exponent: Any) -> Self:
        """In-place version of `float_power`; returns self."""

    def floor(self) -> Tensor:
        """floor(input), of each element, broadcast; torch.floor."""

    def floor_(self) -> Self:
        """In-place version of `floor`; returns self."""

    def floor_divide(self, other: Tensor | complex) -> Tensor:
        """floor_divide(input, other), of each element, broadcast; torch.floor_divide.

        RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
        """

    def floor_divide_(self, other: Tensor | complex) -> Self:
        """In-place version of `floor_divide`; returns self."""

    def fmax(self, other: Tensor) -> Tensor:
        """The larger of both; of a NaN and a number, the number."""

    def fmin(self, other: Tensor) -> Tensor:
        """The smaller of both; of a NaN and a number, the number."""

    def fmod(self, other: Tensor | complex) -> Tensor:
        """fmod(input, other), of each element, broadcast; torch.fmod.

        RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
        """

    def fmod_(self, other: Tensor | complex) -> Self:
        """In-place version of `fmod`; returns self."""

    def frac(self) -> Tensor:
        """The part after the point, with the sign of the number."""

    def frac_(self) -> Self:
        """In-place version of `frac`; returns self."""

    def frexp(self) -> FrexpResult:
        """(mantissa, exponent) of x = mantissa * 2**exponent, 0.5 <= |mantissa| < 1; ints are int32."""

    def gather(
        self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False
    ) -> Tensor:
        """out[i][j] = input[index[i][j]][j] for dim 0, and so on; torch.gather.

        RuntimeError for an index out of range; on the GPU when a value is next read.
        """

    def gcd(self, other: Tensor) -> Tensor:
        """gcd(input, other), of each element, broadcast; torch.gcd."""

    def gcd_(self, other: Tensor) -> Self:
        """In-place version of `gcd`; returns self."""

    def ge(self, other: Tensor | complex) -> Tensor:
        """ge(input, other), of each element, broadcast; torch.ge."""

    def ge_(self, other: Tensor | complex) -> Self:
        """In-place version of `ge`; returns self."""

    def gelu(self, approximate: str = "none") -> Tensor:
        """x * Phi(x) (https://arxiv.org/abs/1606.08415); approximate='tanh' for its approximation."""

    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Self:
        """Fill with how many trials of probability `p` it takes until the first success."""

    def geqrf(self) -> Geqrf:
        """LAPACK's form of QR: R above, Householder vectors below the diagonal, and their factors; for
        `householder_product` and `ormqr`. Not differentiable. On the GPU the host computes it.
        """

    def ger(self, vec2: Tensor) -> Tensor:
        """The outer product of two vectors."""

    def gpu(self, device: Any = None, non_blocking: builtins.bool = False) -> Tensor:
        """On the GPU, or on the one of this number or name."""

    def greater(self, other: Tensor | complex) -> Tensor:
        """gt(input, other), of each element, broadcast; torch.gt."""

    def greater_(self, other: Tensor | complex) -> Self:
        """In-place version of `greater`; returns self."""

    def greater_equal(self, other: Tensor | complex) -> Tensor:
        """ge(input, other), of each element, broadcast; torch.ge."""

    def greater_equal_(self, other: Tensor | complex) -> Self:
        """In-place version of `greater_equal`; returns self."""

    def gt(self, other: Tensor | complex) -> Tensor:
        """gt(input, other), of each element, broadcast; torch.gt."""

    def gt_(self, other: Tensor | complex) -> Self:
        """In-place version of `gt`; returns self."""

    def half(self, memory_format: Any = None) -> Tensor:
        """Converted to float16."""

    def hardshrink(self, lambd: Any = 0.5) -> Tensor:
        """0 where |x| <= lambd, else x."""

    def hash_tensor(
        self, dim: Any = None, *, keepdim: builtins.bool = False, mode: builtins.int = 0
    ) -> Tensor:
        """uint64: xor of the bits of all elements, as int64 or float64, over dims; on the host."""

    def heaviside(self, values: Tensor) -> Tensor:
        """0 below 0, `values` at 0, 1 above."""

    def heaviside_(self, values: Tensor) -> Self:
        """In-place version of `heaviside`; returns self."""

    def histc(
        self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0
    ) -> Tensor:
        """How many elements fall into each of `bins` equal parts of [min, max].

        Equal min and max stand for those of the values. Elements outside count nowhere.
        """

    def histogram(
        self,
        bins: Any,
        *,
        range: Any = None,
        weight: Tensor | None = None,
        density: builtins.bool = False,
    ) -> HistogramResult:
        """(hist, bin_edges): counts between edges, which are given or cut `range` into `bins` parts."""

    def hsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dim 1 (a number of sections must divide it)."""

    def hypot(self, other: Tensor) -> Tensor:
        """hypot(input, other), of each element, broadcast; torch.hypot."""

    def hypot_(self, other: Tensor) -> Self:
        """In-place version of `hypot`; returns self."""

    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind and order 0."""

    def i0_(self) -> Self:
        """In-place version of `i0`; returns self."""

    def igamma(self, other: Tensor) -> Tensor:
        """The regularised lower incomplete gamma function; differentiable by `other`. The
        host computes it, of values on the GPU too.
        """

    def igamma_(self, other: Tensor) -> Self:
        """In-place version of `igamma`; returns self."""

    def igammac(self, other: Tensor) -> Tensor:
        """The regularised upper incomplete gamma function: 1 - igamma, see there."""

    def igammac_(self, other: Tensor) -> Self:
        """In-place version of `igammac`; returns self."""

    @property
    def imag(self) -> Tensor:
        """The imaginary part, a view. RuntimeError for a real tensor."""

    @imag.setter
    def imag(self, value: Any) -> None: ...
    def index_add(
        self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1
    ) -> Tensor:
        """`input` with alpha * source's slices added at the places that `index` names.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def index_add_(
        self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1
    ) -> Self:
        """In-place version of `index_add`; returns self."""

    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """`input` with source's slices at the places that `index` names; the last of equals wins.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Self:
        """In-place version of `index_copy`; returns self."""

    def index_fill(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """`input` with a number (or 0-d tensor) in the slices that `index` names.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def index_fill_(self, dim: builtins.int, index: Tensor, value: Any) -> Self:
        """In-place version of `index_fill`; returns self."""

    def index_put(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy of `input` with `values` at `indices` (added to what is there if `accumulate`).

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def index_put_(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Self:
        """In-place version of `index_put`; returns self."""

    def index_reduce(
        self,
        dim: builtins.int,
        index: Tensor,
        source: Tensor,
        reduce: str,
        *,
        include_self: builtins.bool = True,
    ) -> Tensor:
        """`input` joined with source's slices at the places that `index` names, as `scatter_reduce`;
        reduce: 'prod', 'mean', 'amax' or 'amin'.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def index_reduce_(
        self,
        dim: builtins.int,
        index: Tensor,
        source: Tensor,
        reduce: str,
        *,
        include_self: builtins.bool = True,
    ) -> Self:
        """In-place version of `index_reduce`; returns self."""

    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """The slices of a dim that the 1-d `index` names, in its order.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def inner(self, other: Tensor) -> Tensor:
        """The products over the last dim of both: (*a, n) and (*b, n) -> (*a, *b)."""

    def int(self, memory_format: Any = None) -> Tensor:
        """Converted to int32."""

    def inverse(self) -> Tensor:
        """`linalg.inv` under its old name."""

    def is_conj(self) -> builtins.bool:
        """Whether a conjugation is still to be done: never."""

    @property
    def is_meta(self) -> builtins.bool:
        """False: there are no meta tensors; for PyTorch's code."""

    @property
    def is_mkldnn(self) -> builtins.bool:
        """False: there are no mkldnn tensors; for PyTorch's code."""

    @property
    def is_mps(self) -> builtins.bool:
        """False: there are no mps tensors; for PyTorch's code."""

    def is_neg(self) -> builtins.bool:
        """Whether a conjugation is still to be done: never."""

    @property
    def is_nested(self) -> builtins.bool:
        """False: there are no nested tensors; for PyTorch's code."""

    def is_nonzero(self) -> builtins.bool:
        """Whether the one element is not 0: reads it. RuntimeError for none, or several."""

    def is_pinned(self, *args: Any) -> builtins.bool:
        """False: memory need not be pinned."""

    @property
    def is_quantized(self) -> builtins.bool:
        """False: there are no quantized tensors; for PyTorch's code."""

    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Whether both have one shape."""

    def is_set_to(self, other: Tensor) -> builtins.bool:
        """Whether both are the same view of the same memory."""

    def is_shared(self, *args: Any) -> builtins.bool:
        """False: memory need not be pinned."""

    def is_signed(self) -> builtins.bool:
        """Whether the dtype has negative numbers."""

    @property
    def is_sparse(self) -> builtins.bool:
        """False: there are no sparse tensors; for PyTorch's code."""

    @property
    def is_sparse_csr(self) -> builtins.bool:
        """False: there are no sparse_csr tensors; for PyTorch's code."""

    @property
    def is_xpu(self) -> builtins.bool:
        """False: there are no xpu tensors; for PyTorch's code."""

    def isclose(
        self,
        other: Tensor,
        rtol: builtins.float = 1e-05,
        atol: builtins.float = 1e-08,
        equal_nan: builtins.bool = False,
    ) -> Tensor:
        """Whether |input - other| <= atol + rtol * |other|; of one dtype."""

    def isfinite(self) -> Tensor:
        """Whether each element is neither infinite nor NaN."""

    def isinf(self) -> Tensor:
        """isinf(input), of each element, broadcast; torch.isinf."""

    def isnan(self) -> Tensor:
        """isnan(input), of each element, broadcast; torch.isnan."""

    def isneginf(self) -> Tensor:
        """Whether each element is -inf."""

    def isposinf(self) -> Tensor:
        """Whether each element is +inf."""

    def isreal(self) -> Tensor:
        """Whether each element has no imaginary part."""

    def istft(
        self,
        n_fft: builtins.int,
        hop_length: builtins.int | None = None,
        win_length: builtins.int | None = None,
        window: Tensor | None = None,
        center: builtins.bool = True,
        normalized: builtins.bool = False,
        onesided: builtins.bool | None = None,
        length: builtins.int | None = None,
        return_complex: builtins.bool = False,
    ) -> Tensor:
        """The inverse of `stft`: frames overlap and are added, divided by the windows' squares.

        See https://docs.pytorch.org/docs/stable/generated/torch.istft.html; on the CPU.
        """

    def kron(self, other: Tensor) -> Tensor:
        """Kronecker's product: (a0, a1, …) and (b0, b1, …) -> (a0 b0, a1 b1, …)."""

    def kthvalue(
        self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False
    ) -> KthvalueResult:
        """(values, indices) of the k-th smallest element along a dim, k from 1."""

    @property
    def layout(self) -> _layout:
        """`pf.strided`, always."""

    def lcm(self, other: Tensor) -> Tensor:
        """The least common multiple of ints."""

    def lcm_(self, other: Tensor) -> Self:
        """In-place version of `lcm`; returns self."""

    def ldexp(self, other: Tensor) -> Tensor:
        """input * 2**other; of floats and ints it has the dtype of `input`, and no power overflows."""

    def ldexp_(self, other: Tensor) -> Self:
        """In-place version of `ldexp`; returns self."""

    def le(self, other: Tensor | complex) -> Tensor:
        """le(input, other), of each element, broadcast; torch.le."""

    def le_(self, other: Tensor | complex) -> Self:
        """In-place version of `le`; returns self."""

    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """input + weight * (end - input), of one dtype; `weight` is a number or a tensor. At a weight
        of 1 it is exactly `end`.
        """

    def lerp_(self, end: Tensor, weight: Any) -> Self:
        """In-place version of `lerp`; returns self."""

    def less(self, other: Tensor | complex) -> Tensor:
        """lt(input, other), of each element, broadcast; torch.lt."""

    def less_(self, other: Tensor | complex) -> Self:
        """In-place version of `less`; returns self."""

    def less_equal(self, other: Tensor | complex) -> Tensor:
        """le(input, other), of each element, broadcast; torch.le."""

    def less_equal_(self, other: Tensor | complex) -> Self:
        """In-place version of `less_equal`; returns self."""

    def lgamma(self) -> Tensor:
        """lgamma(input), of each element, broadcast; torch.lgamma."""

    def lgamma_(self) -> Self:
        """In-place version of `lgamma`; returns self."""

    def log(self) -> Tensor:
        """log(input), of each element, broadcast; torch.log."""

    def log10(self) -> Tensor:
        """log10(input), of each element, broadcast; torch.log10."""

    def log10_(self) -> Self:
        """In-place version of `log10`; returns self."""

    def log1p(self) -> Tensor:
        """log1p(input), of each element, broadcast; torch.log1p."""

    def log1p_(self) -> Self:
        """In-place version of `log1p`; returns self."""

    def log2(self) -> Tensor:
        """log2(input), of each element, broadcast; torch.log2."""

    def log2_(self) -> Self:
        """In-place version of `log2`; returns self."""

    def log_(self) -> Self:
        """In-place version of `log`; returns self."""

    def log_normal_(
        self,
        mean: builtins.float = 1,
        std: builtins.float = 2,
        *,
        generator: Generator | None = None,
    ) -> Self:
        """Fill with exp of normal numbers of this mean and deviation."""

    def log_softmax(
        self, dim: builtins.int | None = None, dtype: dtype | builtins.type | None = None
    ) -> Tensor:
        """log(softmax(x)) over a dim, without overflow."""

    def logaddexp(self, other: Tensor) -> Tensor:
        """log(exp(input) + exp(other)), without overflow."""

    def logaddexp2(self, other: Tensor) -> Tensor:
        """log2(2^input + 2^other), without overflow."""

    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """log(exp(x[0]) + … + exp(x[i])) along a dim, without overflow."""

    def logdet(self) -> Tensor:
        """The log of the determinant: nan where that is negative."""

    def logical_and(self, other: Tensor) -> Tensor:
        """logical_and(input, other), of each element, broadcast; torch.logical_and."""

    def logical_and_(self, other: Tensor) -> Self:
        """In-place version of `logical_and`; returns self."""

    def logical_not(self) -> Tensor:
        """logical_not(input), of each element, broadcast; torch.logical_not."""

    def logical_not_(self) -> Self:
        """In-place version of `logical_not`; returns self."""

    def logical_or(self, other: Tensor) -> Tensor:
        """logical_or(input, other), of each element, broadcast; torch.logical_or."""

    def logical_or_(self, other: Tensor) -> Self:
        """In-place version of `logical_or`; returns self."""

    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one of both is nonzero."""

    def logical_xor_(self, other: Tensor) -> Self:
        """In-place version of `logical_xor`; returns self."""

    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """log(x / (1 - x)), of x limited to [eps, 1 - eps] if `eps` is given."""

    def logit_(self, eps: builtins.float | None = None) -> Self:
        """In-place version of `logit`; returns self."""

    def logsumexp(self, dim: Any, keepdim: builtins.bool = False) -> Tensor:
        """log(sum(exp(x))) over dims, without overflow; ints give floats."""

    def long(self, memory_format: Any = None) -> Tensor:
        """Converted to int64."""

    def lt(self, other: Tensor | complex) -> Tensor:
        """lt(input, other), of each element, broadcast; torch.lt."""

    def lt_(self, other: Tensor | complex) -> Self:
        """In-place version of `lt`; returns self."""

    @overload
    def lu(self, pivot: builtins.bool = True, get_infos: Literal[False] = False) -> LUFactor:
        """(LU, pivots), and info with `get_infos`: see `linalg.lu_factor_ex`."""

    @overload
    def lu(self, pivot: builtins.bool = True, *, get_infos: Literal[True]) -> LUFactorEx: ...
    @overload
    def lu(
        self, pivot: builtins.bool = True, get_infos: builtins.bool = False
    ) -> LUFactor | LUFactorEx: ...
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """`linalg.lu_solve` under its old name."""

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two dims."""

    @property
    def mT(self) -> Tensor:
        """The matrices transposed; a 0-d tensor itself; RuntimeError of one dim."""

    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Self:
        """`map_` with two other tensors."""

    def map_(self, tensor: Tensor, callable: Any) -> Self:
        """Each element replaced by callable(element, element of `tensor`); CPU tensors only."""

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """`input` with `value` (a number or a 0-d tensor) where the bool `mask` holds."""

    def masked_fill_(self, mask: Tensor, value: Any) -> Self:
        """In-place version of `masked_fill`; returns self."""

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """`input` with source's elements, in order, where the bool `mask` holds."""

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Self:
        """In-place version of `masked_scatter`; returns self."""

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where `mask` holds, as a vector. Reads the mask."""

    def matmul(self, other: Tensor) -> Tensor:
        """The matrix product, batched and broadcast over leading dims; vectors as in torch.matmul."""

    def matrix_exp(self) -> Tensor:
        """The exponentials of matrices (…, n, n), in double precision inside. On the GPU the host
        computes them.
        """

    def matrix_power(self, n: builtins.int) -> Tensor:
        """A @ A @ … (n times); the inverse of that for a negative n."""

    @overload
    def max(self) -> Tensor:
        """The largest element; with `dim`, (values, indices); with a tensor, `maximum`."""

    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = False) -> MaxResult: ...
    @overload
    def max(self, dim: Tensor) -> Tensor: ...
    @overload
    def max(self, *, other: Tensor) -> Tensor: ...
    def maximum(self, other: Tensor) -> Tensor:
        """maximum(input, other), of each element, broadcast; torch.maximum."""

    def mean(
        self,
        dim: Any = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The mean over dims. RuntimeError for ints, which have no mean of their dtype."""

    @overload
    def median(self) -> Tensor:
        """The lower median of all elements, or with `dim` (values, indices). NaN wins."""

    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = False) -> MedianResult: ...
    @overload
    def min(self) -> Tensor:
        """The smallest element; with `dim`, (values, indices); with a tensor, `minimum`."""

    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = False) -> MinResult: ...
    @overload
    def min(self, dim: Tensor) -> Tensor: ...
    @overload
    def min(self, *, other: Tensor) -> Tensor: ...
    def minimum(self, other: Tensor) -> Tensor:
        """minimum(input, other), of each element, broadcast; torch.minimum."""

    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices."""

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> ModeResult:
        """(values, indices) of the most frequent element along a dim, the smallest of equals."""

    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Dims moved to other positions, the others keeping their order."""

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Dims moved to other positions, the others keeping their order."""

    def msort(self) -> Tensor:
        """The elements in order along the first dim."""

    def mul(self, other: Tensor | complex) -> Tensor:
        """mul(input, other), of each element, broadcast; torch.mul."""

    def mul_(self, other: Tensor | complex) -> Self:
        """In-place version of `mul`; returns self."""

    def multinomial(
        self,
        num_samples: builtins.int,
        replacement: builtins.bool = False,
        *,
        generator: Generator | None = None,
    ) -> Tensor:
        """int64 (…, num_samples): categories drawn with the weights of the last dim, (n) or (m, n).

        Each draw is the largest of weight / exponential number, which needs no look at the weights
        (Efraimidis and Spirakis, 2006).
        """

    def multiply(self, other: Tensor | complex) -> Tensor:
        """mul(input, other), of each element, broadcast; torch.mul."""

    def multiply_(self, other: Tensor | complex) -> Self:
        """In-place version of `multiply`; returns self."""

    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""

    def mvlgamma(self, p: builtins.int) -> Tensor:
        """log of the multivariate gamma function of dimension p; torch.mvlgamma."""

    def mvlgamma_(self, p: builtins.int) -> Self:
        """In-place version of `mvlgamma`; returns self."""

    def nan_to_num(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Tensor:
        """NaN and infinities replaced: by 0 and the largest and lowest finite number by default."""

    def nan_to_num_(
        self,
        nan: builtins.float | None = None,
        posinf: builtins.float | None = None,
        neginf: builtins.float | None = None,
    ) -> Self:
        """In-place version of `nan_to_num`; returns self."""

    def nanmean(
        self,
        dim: Any = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The mean over dims of what is not NaN."""

    @overload
    def nanmedian(self) -> Tensor:
        """`median` of what is not NaN."""

    @overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = False) -> NanmedianResult: ...
    def nanquantile(
        self,
        q: Any,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """`quantile` of what is not NaN."""

    def nansum(
        self,
        dim: Any = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The sum over dims with NaN counted as 0. RuntimeError for complex."""

    def narrow(
        self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int
    ) -> Tensor:
        """Elements start..start+length of a dim, as a view."""

    def narrow_copy(
        self, dim: builtins.int, start: builtins.int | Tensor, length: builtins.int
    ) -> Tensor:
        """`narrow` that copies."""

    def ne(self, other: Tensor | complex) -> Tensor:
        """ne(input, other), of each element, broadcast; torch.ne."""

    def ne_(self, other: Tensor | complex) -> Self:
        """In-place version of `ne`; returns self."""

    def neg(self) -> Tensor:
        """neg(input), of each element, broadcast; torch.neg."""

    def neg_(self) -> Self:
        """In-place version of `neg`; returns self."""

    def negative(self) -> Tensor:
        """neg(input), of each element, broadcast; torch.neg."""

    def negative_(self) -> Self:
        """In-place version of `negative`; returns self."""

    def new(self, *data: Any, device: Any = None) -> Tensor:
        """A tensor of this one's dtype and device, of sizes or of values."""

    def new_empty(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: dtype | builtins.type | None = ...,
        layout: Any = ...,
        device: device | str | None = ...,
        requires_grad: builtins.bool = ...,
        pin_memory: builtins.bool | None = ...,
        memory_format: Any = ...,
    ) -> Tensor:
        """`empty` with the dtype and device of `self`."""

    def new_empty_strided(
        self,
        size: Any,
        stride: Any,
        *,
        dtype: dtype | builtins.type | None = ...,
        layout: Any = ...,
        device: device | str | None = ...,
        requires_grad: builtins.bool = ...,
        pin_memory: builtins.bool | None = ...,
        memory_format: Any = ...,
    ) -> Tensor:
        """`empty_strided` with the dtype and device of `self`."""

    def new_full(
        self,
        size: Any,
        fill_value: Any,
        *,
        dtype: dtype | builtins.type | None = ...,
        layout: Any = ...,
        device: device | str | None = ...,
        requires_grad: builtins.bool = ...,
        pin_memory: builtins.bool | None = ...,
        memory_format: Any = ...,
    ) -> Tensor:
        """One number in a size, with the dtype and device of `self`."""

    def new_ones(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: dtype | builtins.type | None = ...,
        layout: Any = ...,
        device: device | str | None = ...,
        requires_grad: builtins.bool = ...,
        pin_memory: builtins.bool | None = ...,
        memory_format: Any = ...,
    ) -> Tensor:
        """`ones` with the dtype and device of `self`."""

    def new_tensor(self, data: Any, **kw: Any) -> Tensor:
        """A copy of `data`, by default with the dtype and device of this tensor."""

    def new_zeros(
        self,
        *sizes: Any,
        size: Any = None,
        dtype: dtype | builtins.type | None = ...,
        layout: Any = ...,
        device: device | str | None = ...,
        requires_grad: builtins.bool = ...,
        pin_memory: builtins.bool | None = ...,
        memory_format: Any = ...,
    ) -> Tensor:
        """`zeros` with the dtype and device of `self`."""

    def nextafter(self, other: Tensor) -> Tensor:
        """nextafter(input, other), of each element, broadcast; torch.nextafter."""

    def nextafter_(self, other: Tensor) -> Self:
        """In-place version of `nextafter`; returns self."""

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        """The indices of nonzero elements: int64 (n, ndim), or one tensor a dim. Reads the values."""

    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
        """The first `size` rows of `nonzero`, filled up with `fill_value`."""

    def norm(
        self,
        p: Any = "fro",
        dim: Any = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The p-norm over dims (all by default), or the matrix norm 'fro' or 'nuc' over two.

        A norm of 0 has the gradient 0. RuntimeError for ints.
        """

    def normal_(
        self,
        mean: builtins.float = 0,
        std: builtins.float = 1,
        *,
        generator: Generator | None = None,
    ) -> Self:
        """Fill with normal numbers, drawn on the host."""

    def not_equal(self, other: Tensor | complex) -> Tensor:
        """ne(input, other), of each element, broadcast; torch.ne."""

    def not_equal_(self, other: Tensor | complex) -> Self:
        """In-place version of `not_equal`; returns self."""

    def orgqr(self, tau: Tensor) -> Tensor:
        """The first n columns of the product of k reflectors, whose vectors stand below the diagonal
        of A (…, m, n) and whose factors are tau (…, k).
        """

    def ormqr(
        self,
        tau: Tensor,
        other: Tensor,
        left: builtins.bool = True,
        transpose: builtins.bool = False,
    ) -> Tensor:
        """Q other, or other Q (`left=False`), with the whole Q of `geqrf` or (`transpose`) its
        adjoint.
        """

    def outer(self, vec2: Tensor) -> Tensor:
        """The outer product of two vectors."""

    def permute(self, *order_: Any, dims: Any = None) -> Tensor:
        """The dims in another order; torch.permute."""

    def pin_memory(self, *args: Any) -> Tensor:
        """The tensor itself: memory need not be pinned."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """`linalg.pinv` under its old name."""

    def polygamma(self, n: builtins.int) -> Tensor:
        """The n-th derivative of digamma."""

    def polygamma_(self, n: builtins.int) -> Self:
        """In-place version of `polygamma`; returns self."""

    def positive(self) -> Tensor:
        """`input` itself; RuntimeError for bools."""

    def pow(self, exponent: Tensor | complex) -> Tensor:
        """pow(input, exponent), of each element, broadcast; torch.pow.

        RuntimeError of an int to a negative power.
        """

    def pow_(self, exponent: Tensor | complex) -> Self:
        """In-place version of `pow`; returns self."""

    def prelu(self, weight: Tensor) -> Tensor:
        """x where x > 0, else weight * x; weight () or (1,), or (C,) for the channels of dim 1
        (arXiv 1502.01852). RuntimeError for other sizes or dtypes.
        """

    def prod(
        self,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The product over one dim, or of all elements; ints and bools give int64."""

    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """`input` with source's elements at flat positions (added if `accumulate`).

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Self:
        """In-place version of `put`; returns self."""

    def qr(self, some: builtins.bool = True) -> OldQR:
        """`linalg.qr` under its old name; `some=False` is mode 'complete'."""

    def quantile(
        self,
        q: Any,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """The q-quantiles (q in 0..1, a number or a vector) of all elements or along a dim.

        A vector q gives a first dim of its size. A row with NaN gives NaN.
        """

    def rad2deg(self) -> Tensor:
        """Radians as degrees."""

    def rad2deg_(self) -> Self:
        """In-place version of `rad2deg`; returns self."""

    def random_(
        self,
        from_: builtins.int | None = None,
        to: builtins.int | None = None,
        *,
        generator: Generator | None = None,
        **kw: Any,
    ) -> Self:
        """Fill with ints of [from, to); by default of all that the dtype holds from 0 on."""

    def ravel(self) -> Tensor:
        """All elements as a vector: a view of a contiguous tensor."""

    @property
    def real(self) -> Tensor:
        """The real part, a view; a real tensor itself."""

    @real.setter
    def real(self, value: Any) -> None: ...
    def reciprocal(self) -> Tensor:
        """reciprocal(input), of each element, broadcast; torch.reciprocal."""

    def reciprocal_(self) -> Self:
        """In-place version of `reciprocal`; returns self."""

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` when the gradient is computed; a tensor it returns replaces it."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(tensor)` each time after a backward has added to this leaf's `.grad`."""

    def relu(self) -> Tensor:
        """relu(input), of each element, broadcast; torch.relu."""

    def relu_(self) -> Self:
        """In-place version of `relu`; returns self."""

    def remainder(self, other: Tensor | complex) -> Tensor:
        """remainder(input, other), of each element, broadcast; torch.remainder.

        RuntimeError where an int is divided by 0; on the GPU by a tensor's when it is next read.
        """

    def remainder_(self, other: Tensor | complex) -> Self:
        """In-place version of `remainder`; returns self."""

    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """`input` with each slice of `dim` scaled down to a p-norm of at most `maxnorm`."""

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Self:
        """In-place version of `renorm`; returns self."""

    def repeat(self, *sizes: Any, repeats: Any = None) -> Tensor:
        """The tensor copied along each dim as often as `sizes` says."""

    def repeat_interleave(
        self,
        repeats: Any = None,
        dim: builtins.int | None = None,
        *,
        output_size: builtins.int | None = None,
    ) -> Tensor:
        """Each element of a dim (of all, flattened) `repeats` times; a tensor says it for each
        (and is read). Without `repeats`: index i as often as input[i] says.
        """

    def reshape(self, *sizes: Any, shape: Any = None) -> Tensor:
        """The same elements in another shape (one size may be -1): a view where that is possible."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """`reshape` to the shape of `other`."""

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Another shape in place: of the same memory, row-major, as far as it reaches, else of
        more (whose new elements are 0). RuntimeError where a gradient is needed.
        """

    def resize_as_(self, other: Tensor, *, memory_format: Any = None) -> Self:
        """`resize_` to the shape of `other`."""

    def resolve_conj(self) -> Tensor:
        """`input` itself: conjugates are computed at once."""

    def resolve_neg(self) -> Tensor:
        """`input` itself: conjugates are computed at once."""

    def retain_grad(self) -> None:
        """Keep `.grad` for this non-leaf tensor too."""

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether `retain_grad` keeps the gradient of this tensor, no leaf."""

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved along dims, those that fall off the end coming in at the start."""

    def rot90(self, k: builtins.int = 1, dims: Any = ...) -> Tensor:
        """Turned k times by 90 degrees, from the first of two dims to the second."""

    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        """The nearest number with `decimals` digits after the point (before it if negative)."""

    def round_(self, *, decimals: builtins.int = 0) -> Self:
        """In-place version of `round`; returns self."""

    def rsqrt(self) -> Tensor:
        """rsqrt(input), of each element, broadcast; torch.rsqrt."""

    def rsqrt_(self) -> Self:
        """In-place version of `rsqrt`; returns self."""

    def scatter(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Any = None,
        *,
        value: Any = None,
        reduce: str | None = None,
    ) -> Tensor:
        """`input` with src[i][j] (or a number) put at [index[i][j]][j] (dim 0), and so on; of equal
        places the last wins. `reduce`: 'add' or 'multiply'.

        RuntimeError for an index out of range; on the GPU when a value is next read.
        """

    def scatter_(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Any = None,
        *,
        value: Any = None,
        reduce: str | None = None,
    ) -> Self:
        """In-place version of `scatter`; returns self."""

    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """`input` with src[i][j] added at [index[i][j]][j] (dim 0), and so on; deterministic.

        RuntimeError for an index out of range; on the GPU when a value is next read.
        """

    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Self:
        """In-place version of `scatter_add`; returns self."""

    def scatter_reduce(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Tensor,
        reduce: str,
        *,
        include_self: builtins.bool = True,
    ) -> Tensor:
        """`scatter` that joins what meets at a place, with what `input` has there unless
        `include_self=False`; reduce: 'sum', 'prod', 'mean', 'amax' or 'amin'.

        RuntimeError for an index out of range; on the GPU when a value is next read.
        """

    def scatter_reduce_(
        self,
        dim: builtins.int,
        index: Tensor,
        src: Tensor,
        reduce: str,
        *,
        include_self: builtins.bool = True,
    ) -> Self:
        """In-place version of `scatter_reduce`; returns self."""

    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """The slice at `index` of a dim, without that dim."""

    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """A copy of `input` with `src` at `index` of a dim."""

    def set_(
        self,
        source: Any = None,
        storage_offset: builtins.int = 0,
        size: Any = None,
        stride: Any = None,
    ) -> Self:
        """Be from now on a handle on the memory of `source` (a tensor or a storage; None: nothing):
        as the tensor is, or of `size`, `stride` (row-major by default) from `storage_offset` on.
        """

    def sgn(self) -> Tensor:
        """x / |x|, 0 for 0: the sign of a real number, the direction of a complex one."""

    def sgn_(self) -> Self:
        """In-place version of `sgn`; returns self."""

    def share_memory_(self, *args: Any) -> Self:
        """The tensor itself: memory need not be pinned."""

    def short(self, memory_format: Any = None) -> Tensor:
        """Converted to int16."""

    def sigmoid(self) -> Tensor:
        """sigmoid(input), of each element, broadcast; torch.sigmoid."""

    def sigmoid_(self) -> Self:
        """In-place version of `sigmoid`; returns self."""

    def sign(self) -> Tensor:
        """sign(input), of each element, broadcast; torch.sign."""

    def sign_(self) -> Self:
        """In-place version of `sign`; returns self."""

    def signbit(self) -> Tensor:
        """signbit(input), of each element, broadcast; torch.signbit."""

    def sin(self) -> Tensor:
        """sin(input), of each element, broadcast; torch.sin."""

    def sin_(self) -> Self:
        """In-place version of `sin`; returns self."""

    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), 1 at 0."""

    def sinc_(self) -> Self:
        """In-place version of `sinc`; returns self."""

    def sinh(self) -> Tensor:
        """sinh(input), of each element, broadcast; torch.sinh."""

    def sinh_(self) -> Self:
        """In-place version of `sinh`; returns self."""

    def slice_scatter(
        self,
        src: Tensor,
        dim: builtins.int = 0,
        start: builtins.int | None = None,
        end: builtins.int | None = None,
        step: builtins.int = 1,
    ) -> Tensor:
        """A copy of `input` with `src` at start:end:step of a dim."""

    def slogdet(self) -> Slogdet:
        """The sign of the determinant (for complex A a number on the unit circle) and the log of its
        absolute value. On the GPU the host computes them.
        """

    def softmax(
        self, dim: builtins.int | None = None, dtype: dtype | builtins.type | None = None
    ) -> Tensor:
        """exp(x) / sum(exp(x)) over a dim."""

    def sort(
        self,
        dim: builtins.int = -1,
        descending: builtins.bool = False,
        stable: builtins.bool | None = None,
    ) -> SortResult:
        """(values, indices) in order along a dim; always stable, NaN counts as largest."""

    def split(self, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""

    def split_with_sizes(self, split_sizes: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Views of the sizes given, one after the other along a dim."""

    def sqrt(self) -> Tensor:
        """sqrt(input), of each element, broadcast; torch.sqrt."""

    def sqrt_(self) -> Self:
        """In-place version of `sqrt`; returns self."""

    def square(self) -> Tensor:
        """square(input), of each element, broadcast; torch.square."""

    def square_(self) -> Self:
        """In-place version of `square`; returns self."""

    def squeeze(self, dim: Any = None) -> Tensor:
        """Dims of size 1 removed: all, or those named."""

    def squeeze_(self, dim: Any = None) -> Self:
        """Make this tensor what `squeeze` gives, of the same memory; returns self."""

    def std(
        self,
        dim: Any = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The standard deviation over dims: sqrt(var), with gradient 0 where it is 0."""

    def stft(
        self,
        n_fft: builtins.int,
        hop_length: builtins.int | None = None,
        win_length: builtins.int | None = None,
        window: Tensor | None = None,
        center: builtins.bool = True,
        pad_mode: str = "reflect",
        normalized: builtins.bool = False,
        onesided: builtins.bool | None = None,
        return_complex: builtins.bool | None = None,
        align_to_window: builtins.bool | None = None,
    ) -> Tensor:
        """Short-time Fourier transform: (B?, time) -> (B?, frequency, frame), complex.

        See https://docs.pytorch.org/docs/stable/generated/torch.stft.html; on the CPU.
        """

    def storage(self) -> UntypedStorage:
        """The memory behind this tensor: equal for a tensor and its views."""

    def storage_offset(self) -> builtins.int:
        """How many elements of the storage lie before the first one."""

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """sub(input, alpha * other), broadcast."""

    def sub_(self, other: Any, *, alpha: Any = 1) -> Self:
        """In-place version of `sub`; returns self."""

    def subtract(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """sub(input, alpha * other), broadcast."""

    def subtract_(self, other: Any, *, alpha: Any = 1) -> Self:
        """In-place version of `subtract`; returns self."""

    def sum(
        self,
        dim: Any = None,
        keepdim: builtins.bool = False,
        *,
        dtype: dtype | builtins.type | None = None,
    ) -> Tensor:
        """The sum over dims (all by default); ints and bools give int64."""

    def sum_to_size(self, *size: Any) -> Tensor:
        """Summed over the dims in which `size` is smaller, as a gradient of broadcasting."""

    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True) -> OldSVD:
        """U, S, V with input = U S V^H; without `compute_uv` U and V are zeros."""

    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """`transpose` under NumPy's name."""

    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Self:
        """Make this tensor what `swapaxes` gives, of the same memory; returns self."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dims swapped."""

    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Self:
        """Make this tensor what `swapdims` gives, of the same memory; returns self."""

    def t(self) -> Tensor:
        """The transpose of a matrix (at most 2 dims)."""

    def t_(self) -> Self:
        """Make this tensor what `t` gives, of the same memory; returns self."""

    def take(self, index: Tensor) -> Tensor:
        """The elements at flat positions, in the shape of `index`.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """`gather` whose index is broadcast against the other dims; without a dim, of all elements.

        IndexError for an index out of range; on the GPU when a value is next read.
        """

    def tan(self) -> Tensor:
        """tan(input), of each element, broadcast; torch.tan."""

    def tan_(self) -> Self:
        """In-place version of `tan`; returns self."""

    def tanh(self) -> Tensor:
        """tanh(input), of each element, broadcast; torch.tanh."""

    def tanh_(self) -> Self:
        """In-place version of `tanh`; returns self."""

    def tensor_split(
        self,
        indices_or_sections: Any = None,
        dim: builtins.int = 0,
        *,
        indices: Any = None,
        sections: Any = None,
    ) -> tuple[Tensor, ...]:
        """Views: as many as said, of sizes that differ by at most 1, or cut at the indices given."""

    def tile(self, *counts: Any, dims: Any = None) -> Tensor:
        """`repeat` that takes missing leading counts as 1."""

    @overload
    def to(
        self,
        dtype: dtype,
        non_blocking: builtins.bool = False,
        *,
        copy: builtins.bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        """This tensor with another device and/or dtype: `to(dtype)`, `to(device)`, `to(other)`.

        Returns self where nothing changes, unless `copy=True`.
        """

    @overload
    def to(
        self,
        device: device | str | builtins.int | None = None,
        dtype: dtype | builtins.type | None = None,
        non_blocking: builtins.bool = False,
        *,
        copy: builtins.bool = False,
        memory_format: Any = None,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        other: Tensor,
        non_blocking: builtins.bool = False,
        *,
        copy: builtins.bool = False,
        memory_format: Any = None,
    ) -> Tensor: ...
    def topk(
        self,
        k: builtins.int,
        dim: builtins.int = -1,
        largest: builtins.bool = True,
        sorted: builtins.bool = True,
    ) -> TopkResult:
        """(values, indices) of the k largest (or smallest) along a dim, in order."""

    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dims swapped."""

    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Self:
        """Make this tensor what `transpose` gives, of the same memory; returns self."""

    def triangular_solve(
        self,
        A: Tensor,
        upper: builtins.bool = True,
        transpose: builtins.bool = False,
        unitriangular: builtins.bool = False,
    ) -> TriangularSolve:
        """`linalg.solve_triangular` under its old name: (solution, a copy of A)."""

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """The lower triangle of matrices; zeros above `diagonal`."""

    def tril_(self, diagonal: builtins.int = 0) -> Self:
        """In-place version of `tril`; returns self."""

    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """The upper triangle of matrices; zeros below `diagonal`."""

    def triu_(self, diagonal: builtins.int = 0) -> Self:
        """In-place version of `triu`; returns self."""

    def true_divide(self, other: Tensor | complex) -> Tensor:
        """div(input, other), of each element, broadcast; torch.div."""

    def true_divide_(self, other: Tensor | complex) -> Self:
        """In-place version of `true_divide`; returns self."""

    def trunc(self) -> Tensor:
        """trunc(input), of each element, broadcast; torch.trunc."""

    def trunc_(self) -> Self:
        """In-place version of `trunc`; returns self."""

    @overload
    def type(self, dtype: None = None, non_blocking: builtins.bool = False) -> str:
        """The name of this tensor's type; with `dtype` (a dtype, type or name), converted to it. A
        type is of the CPU or of the GPU, and the tensor goes there.
        """

    @overload
    def type(self, dtype: Any, non_blocking: builtins.bool = False) -> Tensor: ...
    def type_as(self, other: Tensor) -> Tensor:
        """Converted to the dtype of `other`."""

    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """The slices along a dim, without it."""

    def unflatten(self, dim: builtins.int, sizes: Any) -> Tensor:
        """One dim split into several (one size may be -1)."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Windows of a dim, `step` apart, as a view: their elements are the last dim."""

    def uniform_(
        self,
        from_: builtins.float = 0,
        to: builtins.float = 1,
        *,
        generator: Generator | None = None,
        **kw: Any,
    ) -> Self:
        """Fill with uniform numbers of [from, to), drawn on the host."""

    @overload
    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> Tensor:
        """The different elements (or slices of a dim), always in order; reads the values.

        With `return_inverse` and `return_counts` a tuple: also which of them each element is, and how
        often each occurs.
        """

    @overload
    def unique(
        self,
        sorted: builtins.bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: builtins.bool = True,
        *,
        return_inverse: Literal[False] = False,
        return_counts: Literal[True],
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: builtins.bool = True,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any: ...
    @overload
    def unique_consecutive(
        self,
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> Tensor:
        """`unique` of neighbours only: the first of each run of equal elements; reads the values."""

    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[False] = False,
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[False] = False,
        return_counts: Literal[True],
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self,
        *,
        return_inverse: Literal[True],
        return_counts: Literal[True],
        dim: builtins.int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(
        self,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any: ...
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` views of equal size along a dim."""

    def unsafe_split(
        self, split_size_or_sections: Any, dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""

    def unsafe_split_with_sizes(
        self, split_sizes: Any, dim: builtins.int = 0
    ) -> tuple[Tensor, ...]:
        """Views of the sizes given, one after the other along a dim."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """A dim of size 1 inserted at `dim`."""

    def unsqueeze_(self, dim: builtins.int) -> Self:
        """Make this tensor what `unsqueeze` gives, of the same memory; returns self."""

    def untyped_storage(self) -> UntypedStorage:
        """The memory behind this tensor: equal for a tensor and its views."""

    def var(
        self,
        dim: Any = None,
        unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Tensor:
        """The variance over dims, divided by n - correction (1 unless `unbiased=False`)."""

    def vdot(self, other: Tensor) -> Tensor:
        """`dot` with the first vector conjugated."""

    def view(self, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
        """`reshape` that never copies; with a dtype, the same bytes read as another dtype (CPU).
        RuntimeError where the memory layout does not allow it.
        """

    def view_as(self, other: Tensor) -> Tensor:
        """`view` in the shape of `other`."""

    def vsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dim 0 (a number of sections must divide it)."""

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """This tensor's elements where `condition` holds, else those of `other`."""

    def xlogy(self, other: Any) -> Tensor:
        """input * log(other), 0 where input is 0 and other is no NaN; either may be a number."""

    def xlogy_(self, other: Any) -> Self:
        """In-place version of `xlogy`; returns self."""

    def zero_(self) -> Self:
        """Fill with zeros, in place."""
