"""Complex tensors: their parts as views, and how they are made.

A gradient of a complex input x is PyTorch's, the conjugate Wirtinger derivative: where y = f(x) is
holomorphic it is g * conj(f'(x)). A real input takes the real part (see GradNode.vjp).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import apply, install_callbacks, is_materialized
from pyframe.core.node import Node
from pyframe.core.op import ELEMENTWISE, Op, const
from pyframe.graph import complexes, scalar as s
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.elementwise import conj, conj_op
from pyframe.ops.shape import movement as mv
from pyframe.ops.shape.movement import Movement
from pyframe.tensor import Tensor


def _complex_only(name: str, x: Tensor) -> None:
    if x.dtype.category != dt.COMPLEX:
        raise RuntimeError(f"{name} is only supported for complex tensors, got {x.dtype.name}")


def _interleaved(x: np.ndarray) -> np.ndarray:
    """(...) complex as (..., 2) real, of the same memory whatever its strides."""
    part = x.real
    strides = (*part.strides, part.itemsize)
    return np.lib.stride_tricks.as_strided(part, (*x.shape, 2), strides)


_NO_PAIRS = (
    "Tensor must have a last dimension with stride 1, and strides of the others that are divisible "
    "by 2; got {}: clone() it first"
)


def _joined(x: np.ndarray) -> np.ndarray:
    kind = np.complex64 if x.dtype == np.float32 else np.complex128
    steps = [s for n, s in zip(x.shape[:-1], x.strides[:-1], strict=True) if n > 1]
    if x.strides[-1] != x.itemsize or any(s % (2 * x.itemsize) for s in steps):
        raise RuntimeError(_NO_PAIRS.format([s // x.itemsize for s in x.strides]))
    return x.view(kind)[..., 0]


def _to_real(x: Any) -> Any:
    return x.shape, x.dtype.to_real()


# In memory of the GPU, as on the CPU, the parts of a complex number lie beside each other: index
# maps of parts count floats. Kernels compute the parts of elements that they load.


def _float_map(t: views.IndexMap) -> views.IndexMap:
    """How both parts of what an index map shows lie among floats, as a last dim of size 2."""
    out = []
    for v in t:
        mask = None if v.mask is None else (*v.mask, (0, 2))
        strides = (*[2 * s for s in v.strides], 1)
        out.append(views.View((*v.shape, 2), strides, 2 * v.offset, mask))
    return tuple(out)


def _part_map(n: int) -> Any:
    """That of part n."""

    def view(t: views.IndexMap) -> views.IndexMap:
        *inner, v = _float_map(t)
        mask = v.mask and v.mask[:-1]
        return (*inner, views.View(v.shape[:-1], v.strides[:-1], v.offset + n, mask))

    return view


def _pair_map(t: views.IndexMap) -> views.IndexMap:
    """How pairs of floats lie among complex numbers."""
    v = t[-1]
    if len(t) > 1 or v.strides[-1] != 1 or any(s % 2 for s in v.strides[:-1]):
        raise RuntimeError(_NO_PAIRS.format(list(v.strides)))
    halves = tuple([s // 2 for s in v.strides[:-1]])
    return (views.View(v.shape[:-1], halves, v.offset // 2),)


def _node(op: Op, *inputs: Node, attrs: Any = ()) -> Node:
    shape, dtype = op.infer(*inputs, *attrs)  # type: ignore[misc]
    return Node(op, inputs, attrs, shape, dtype, inputs[0].device)


def _interleaved_nodes(x: Node) -> Node:
    """view_as_real: of the last index 0 the real parts, of 1 the imaginary ones."""
    x = _node(mv.reshape_op, x, attrs=((*x.shape, 1),))
    second = _node(el.iota_op, const(0, dt.int32, x.device), attrs=((2,),))
    second = _node(el.cast_op, second, attrs=(dt.bool_,))
    return _node(el.where3, second, _node(imag_op, x), _node(real_op, x))


def _joined_nodes(x: Node) -> Node:
    """view_as_complex: of pairs along the last dim."""
    shape, zeros, ones = x.shape[:-1], (0,) * (len(x.shape) - 1), (1,) * len(x.shape)
    parts = [_node(mv.slice_op, x, attrs=((*zeros, n), (*shape, 1), ones)) for n in (0, 1)]
    return _node(complex_op, *[_node(mv.reshape_op, p, attrs=(shape,)) for p in parts])


real_op = Movement(
    "real", "x", alias=True, infer=_to_real, numpy=np.real, x=lambda g: g,
    scalar=s.re, view=_part_map(0), put=lambda base, x: complex(x, imag(base)),
)  # fmt: skip
imag_op = Movement(
    "imag", "x", alias=True, infer=_to_real, numpy=np.imag, x=lambda g: g * 1j,
    scalar=s.im, view=_part_map(1), put=lambda base, x: complex(real(base), x),
)  # fmt: skip
view_as_real_op = Movement(
    "view_as_real", "x", alias=True,
    infer=lambda x: ((*x.shape, 2), x.dtype.to_real()), numpy=_interleaved,
    x=lambda g: complex(g[..., 0], g[..., 1]), view=_float_map, lower_view=_interleaved_nodes,
    put=lambda base, x: complex(x[..., 0], x[..., 1]),
)  # fmt: skip
view_as_complex_op = Movement(
    "view_as_complex", "x", alias=True,
    infer=lambda x: (x.shape[:-1], x.dtype.to_complex()), numpy=_joined,
    x=lambda g: view_as_real(g), view=_pair_map, lower_view=_joined_nodes,
    put=lambda base, x: view_as_real(x),
)  # fmt: skip
complex_op = Op(
    "complex", ELEMENTWISE, "a b",
    infer=lambda a, b: (promotion.broadcast("complex", a.shape, b.shape), a.dtype.to_complex()),
    numpy=lambda a, b: _join(a, b), scalar=s.complex, a=lambda g: real(g), b=lambda g: imag(g),
)  # fmt: skip
polar_op = Op(
    "polar", ELEMENTWISE, "a t", infer=complex_op.infer,
    numpy=lambda a, t: _join(a * np.cos(t), a * np.sin(t)), scalar=complexes.polar,
    a=lambda g, y: real(conj(g) * el.sgn(y)), t=lambda g, y: real(conj(g) * (y * 1j)),
)  # fmt: skip
complex_op.preserves_order = polar_op.preserves_order = True


def _join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + 1j * b, where inf and NaN of one part leave the other as it is."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    out = np.empty(shape, np.complex64 if a.dtype == np.float32 else np.complex128)
    out.real, out.imag = a, b
    return out


def _two_parts(name: str, a: Tensor, b: Tensor) -> None:
    check.same_dtype(name, a, b)
    if a.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(f"{name}: Expected float32 or float64, but got {a.dtype.name}")


def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + 1j * imag, of two float32 or float64 tensors."""
    _two_parts("complex", real, imag)
    return apply(complex_op, (real, imag))


def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(1j * angle), of two float32 or float64 tensors."""
    _two_parts("polar", abs, angle)
    return apply(polar_op, (abs, angle))


def real(input: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself."""
    return apply(real_op, (input,)) if input.dtype.category == dt.COMPLEX else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part, a view. RuntimeError for a real tensor."""
    _complex_only("imag", input)
    return apply(imag_op, (input,))


def view_as_real(input: Tensor) -> Tensor:
    """A complex tensor (...) as a real view (..., 2)."""
    _complex_only("view_as_real", input)
    return apply(view_as_real_op, (input,))


def view_as_complex(input: Tensor) -> Tensor:
    """A float32 or float64 tensor (..., 2) as a complex view (...)."""
    if input.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"view_as_complex is only supported for float32 and float64, got {input.dtype.name}"
        )
    if input.ndim == 0 or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, got {list(input.shape)}"
        )
    if input.storage_offset() % 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a storage_offset divisible by 2, got "
            f"{input.storage_offset()}: clone() it first"
        )
    if not is_materialized(input):
        _pair_map(input._index_map())
    return apply(view_as_complex_op, (input,))


def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate (of a real tensor a copy)."""
    return apply(conj_op, (input,)) if input.dtype.category == dt.COMPLEX else input.clone()


def resolve_conj(input: Tensor) -> Tensor:
    """`input` itself: conjugates are computed at once."""
    return input


def is_conj(input: Tensor) -> bool:
    """Whether a conjugation is still to be done: never."""
    return False


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dims."""
    return conj(input.transpose(-1, -2))


install_callbacks(REAL=real)

public(
    globals(), both="conj resolve_conj resolve_neg=resolve_conj is_conj is_neg=is_conj adjoint",
    inplace_functions="conj_physical",
    functions="real imag complex polar view_as_real view_as_complex",
    out_exact="complex conj_physical polar", cpu_float32="polar view_as_complex",
)  # fmt: skip
