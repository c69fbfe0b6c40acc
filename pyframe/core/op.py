"""Op: the one place where an operation is declared; `apply` of core/dispatch.py calls it.

A declaration names the inputs and attributes, says how shapes and dtypes follow (`infer`), how
NumPy computes it (`numpy`), how kernels do (`scalar`, what it means for one element, see
graph/scalar.py; `combine`, `view` or `kernel`), and one gradient per input, as a function of what
it needs, by name: `g` (gradient of the result), `y` (the result), an input, an attribute, or
`<input>_spec` (shape, dtype and device of an input whose value is not needed). What no gradient
names is not saved. `<input>=None` says that the result has no gradient there; that of an input that
is not mentioned is the fallback's, if there is one.

A kernel written by hand (`kernel`) carries its slow definition, `fallback`, in other ops: tests
compare them, and it computes wherever there is neither `numpy` nor a kernel. A GPU's Node says what
was called all the same: graph/lower.py puts the fallback there when its graph is scheduled.

An op may have several results (`results` gives their shapes). They lie one after the other in a
vector, which is what the graph knows of them: so they have one dtype, live as long as each other,
and count writes together. `numpy`, `fallback` and the gradients know nothing of it: they give, and
take as `g` and `y`, one for each result; the kernel stores the vector. `dispatch.results_of` calls
such an op.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import time
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.limits import Limits
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.sizes import SymbolicSize, sym_max
from pyframe.core.symbolic import SymbolicScalar, apply_symbolic, hint

if TYPE_CHECKING:
    from pyframe.tensor import Tensor

REGISTRY: dict[str, Op] = {}
IMPORT_TIME = time.time_ns()  # files modified later are not the code that runs

ELEMENTWISE, REDUCTION, MOVEMENT, EXTERN = "elementwise", "reduction", "movement", "routine"


class KernelSpec(NamedTuple):
    """What a kernel written by hand is planned for."""

    shape: tuple[int, ...]  # of the result
    operands: tuple[tuple[int, ...], ...]  # their shapes
    dtype: dt.dtype  # of the result
    dtypes: tuple[dt.dtype, ...]  # of the operands
    results: tuple[tuple[int, ...], ...]  # the shapes of several results, else that of the one
    attrs: dict[str, Any]  # the op's attributes, by name
    limits: Limits  # of the device
    variant: Any = None  # one of those that the kernel has; None: the plan decides


Constants = dict[str, Any]  # ints, sizes that change, floats and bools
Grid = tuple[int, int, int]


class ShaderTemplate(NamedTuple):
    """A kernel written by hand: its file in shaders/, and `plan(call)`, which gives the constants
    of its text and how many workgroups it takes in x, y and z. Of complex numbers the fallback is
    computed instead, unless `moves` says that it does nothing to numbers but move and add them.
    `variants(call)` gives by name what `plan` may be asked for, the one that it takes first. A file
    without `main` has `element(i)`, which is done for each of SIZE results. NEIGHBOURS, among the
    constants, says that a thread may store EACH results that lie side by side, one after the other,
    if EACH divides all of these sizes."""

    file: str
    plan: Callable[[KernelSpec], tuple[Constants, Grid]]
    moves: bool = False
    variants: Callable[[KernelSpec], dict[str, Any]] | None = None


class Reducer(NamedTuple):
    """How a reduction makes one value of two: what `scalar` and `ufunc` say is the same."""

    start: Callable[[str], Any]  # the number to begin with, of a type of graph/scalar.py
    scalar: Callable[[Any, Any], Any]  # of Scalars, the value so far and the next
    ufunc: np.ufunc | None = None  # the same in NumPy; None: results of parts don't combine
    arg: bool = False  # the result is the index of the winner; `scalar` says whether the next wins
    sums: bool = False  # floats are added in blocks, which bounds the rounding error


def grid_1d(groups: int) -> Grid:
    """Workgroups one after the other: along x, and where those are too many in rows along y."""
    rows = sym_max(-(-groups // 65535), 1)
    return -(-groups // rows), rows, 1


class Op:
    """An operation; `kind` is one of elementwise, reduction, movement (a view) and routine."""

    run: ClassVar[Callable[..., Tensor]]  # `apply`, which core/dispatch.py sets
    autocast: dict[str, str] | None = None  # its dtypes in mixed precision, see ops/api/autocast.py
    preserves_order = False  # the dims of the result lie in memory as those of the operands
    recomputes_operands = False  # its kernel may compute a small operand again at each read
    changes_order = False  # of a view: it may change the order of the dims in memory
    decomposes_when_called = False  # its decomposition needs arrays that the host makes
    # (limits, *operands, *attrs): what a GPU's kernel is better asked for; None: the op as it is
    lowering: Callable[..., Tensor | None] | None = None
    # (nodes of the operands, *attrs): whether it is but a product, which has the smaller code
    is_product: Callable[..., bool] | None = None
    lower_view: Callable[[Node], Node] | None = None  # of a view that no index map says
    # the in-place variant: it updates operand 0's buffer, which is not bound as an input
    over: Op | None = None

    def __init__(
        self, name: str, kind: str, inputs: str, attrs: str = "", *,
        numpy: Callable[..., Any] | None = None,
        infer: Callable[..., tuple[tuple[int, ...], dt.dtype]] | None = None,
        scalar: Callable[..., Any] | None = None, combine: Reducer | None = None,
        view: Callable[..., Any] | None = None, alias: bool = False,
        undo: Callable[..., tuple[Any, ...]] | None = None,
        kernel: ShaderTemplate | str | None = None,
        fallback: Callable[..., Tensor] | None = None, prefers_decomposition: bool = False,
        lower: Callable[..., Any] | None = None, lower_extern: Callable[..., Any] | None = None,
        routine: str | None = None, runs_on_host: Callable[..., bool] | None = None,
        results: Callable[..., tuple[tuple[int, ...], ...]] | None = None,
        batch: Callable[[Any], Tensor] | None = None,
        flops: Callable[[Sequence[tuple[int, ...]], tuple[int, ...]], int] | None = None,
        write_slice: Callable[..., Any] | None = None,
        reads: Callable[..., tuple[int, ...]] | None = None, **vjps: Callable[..., Tensor] | None,
    ) -> None:  # fmt: skip
        if name in REGISTRY:
            raise ValueError(f"op {name} is declared twice")
        if kernel is not None and fallback is None:
            raise TypeError(f"op {name}: a kernel carries its fallback, the same in other ops")
        self.name = self.__name__ = name
        self.kind = kind
        self.inputs = tuple(inputs.split())
        self.attrs = tuple(attrs.split())
        self.results = results  # (shapes of the operands, attributes): the shapes of several
        if results is not None:
            numpy, fallback = _joined(numpy, _in_line), _joined(fallback, _concatenated)
            infer = infer or self._infer_vector
        self.numpy, self.fallback, self.infer = numpy, fallback, infer
        self.scalar = scalar  # elementwise: what it means for one element, a function of Scalars
        self.combine = combine  # of a reduction
        self.view = view  # movement: (index_map, *attrs) -> index_map
        # of a movement that shows all elements: (x, *attrs) -> attrs with which it undoes itself
        self.undo = undo
        self.alias = alias  # the result shares memory with the input, as a PyTorch view
        self.kernel = kernel  # a file, or a KERNEL_GENERATORS name of codegen/wgsl/printer.py
        # where kernels are compiled, `fallback` is better than `numpy`
        self.prefers_decomposition = prefers_decomposition
        self.batch = batch  # how it runs over a batch, see ops/api/batching_rules.py
        self.flops = flops  # (shapes of the operands, shape of the result): its FLOPs
        self.reads = reads  # from the same: how many elements of each operand; without it, all
        # (array, *operands, *attrs): writes a part of the result there, the rest of which stays
        self.write_slice = write_slice
        # for compiled plans on the CPU: bound NumPy calls, see elementwise.py and routines.py
        # of codegen/numpy/
        self.lower, self.lower_extern = lower, lower_extern
        # compiled, "module.function" of codegen/wasm/ and, where it is there, of codegen/llvm/
        self.routine = routine
        # of a GPU's values the host computes it, between two Programs; whether by pieces of a
        # large one, for its attributes
        self.runs_on_host = runs_on_host
        if not vjps.keys() <= {*self.inputs}:
            unknown = sorted(vjps.keys() - {*self.inputs})
            raise TypeError(f"op {name}: gradients for unknown inputs {unknown}")
        rules = [vjps.get(i) for i in self.inputs]
        self.vjps = tuple([None if fn is None else _Vjp(self, fn) for fn in rules])
        self.differentiable = any(self.vjps)
        # the places of inputs whose gradient is the fallback's
        missing = [n for n, i in enumerate(self.inputs) if i not in vjps]
        self.by_fallback = tuple(missing) if fallback is not None else ()
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else types.MethodType(self, obj)

    def __call__(self, *inputs: Any) -> Tensor:
        return Op.run(self, inputs)

    def _infer_vector(self, *args: Any) -> tuple[tuple[int, ...], dt.dtype]:
        """Of several results, in the dtype of the first operand."""
        n = len(self.inputs)
        shapes: Any = self.results(*[x.shape for x in args[:n]], *args[n:])  # type: ignore[misc]
        return (sum(map(math.prod, shapes)),), args[0].dtype


def _joined(fn: Callable[..., Any] | None, join: Callable[[Any], Any]) -> Any:
    """`fn`, whose results are given as one vector."""
    return None if fn is None else lambda *args: join(fn(*args))


def _in_line(arrays: Sequence[Any]) -> Any:
    return np.concatenate([np.ravel(a) for a in arrays])


def _concatenated(tensors: Sequence[Tensor]) -> Any:
    return CAT([x.reshape(-1) for x in tensors])


class _Vjp:
    """A gradient function and where each of its arguments comes from."""

    __slots__ = ("args", "fn", "needs", "needs_y")

    def __init__(self, op: Op, fn: Callable[..., Tensor]) -> None:
        self.fn = fn
        self.args: list[tuple[str, int]] = []
        for name in inspect.signature(fn).parameters:
            if name in ("g", "y"):
                self.args.append((name, 0))
            elif name in op.inputs:
                self.args.append(("input", op.inputs.index(name)))
            elif name.removesuffix("_spec") in op.inputs:
                self.args.append(("spec", op.inputs.index(name.removesuffix("_spec"))))
            elif name in op.attrs:
                self.args.append(("attr", op.attrs.index(name)))
            else:
                raise TypeError(f"op {op.name}: a gradient asks for the unknown {name!r}")
        self.needs = [i for kind, i in self.args if kind == "input"]
        self.needs_y = ("y", 0) in self.args


class ConstOp(Op):
    """A scalar constant. Kernels take it as a parameter, so a new value needs no compilation."""


class PermutedLayout(tuple[Any, ...]):
    """View chain of a result stored in a permuted stride order. For autograd it is no view."""

    __slots__ = ()


def no_flops(shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """The FLOPs of an op that moves values and computes nothing."""
    return 0


CONST = ConstOp("const", ELEMENTWISE, "", "value", flops=no_flops)
_real, _imag = operator.attrgetter("real"), operator.attrgetter("imag")


def const(value: Any, dtype: dt.dtype, device: Device) -> Node:
    """A number in the graph, as a node of this dtype; see `ConstOp`."""
    if dtype is dt.complex64 and not device.wide:  # kernels have scalars of 32 bits
        parts = [const(apply_symbolic(get, value), dt.float32, device) for get in (_real, _imag)]
        return Node(REGISTRY["complex"], tuple(parts), (), (), dtype, device)
    if type(value) is SymbolicScalar:
        if mode.capture is not None:
            return mode.capture.constant(value, dtype, device)
        if mode.subgraph_recorder is not None:
            return mode.subgraph_recorder.constant(value, dtype)
        value = hint(value)
    if type(value) is SymbolicSize:
        return Node(CONST, (), (value,), (), dtype, device)
    data = None
    if not device.lazy:
        data = dt.rounded(value, dtype)
    elif dtype.category == dt.INTEGER:
        fits = int(dt.convert_scalar(value, dtype))
        if not device.wide and dtype is dt.int64:
            dt.check_32_bits(fits, fits)
    return Node(CONST, (), (value,), (), dtype, device, data)


def number_of(n: Node) -> Any:
    """The number that a node of `const` stands for."""
    return n.attrs[0] if n.op is CONST else apply_symbolic(complex, *[x.attrs[0] for x in n.inputs])


def const_for_ufunc(value: float, dtype: dt.dtype, device: Device) -> Node:
    """`const`, kept for the next call: only for an op whose result never is its operand."""
    if not value or device.lazy:  # 0.0 and -0.0 are the same key
        return const(value, dtype, device)
    return _kept_const(value, dtype, device)


@functools.lru_cache(1000, typed=True)
def _kept_const(value: float, dtype: dt.dtype, device: Device) -> Node:
    node = const(value, dtype, device)
    node.data = np.asarray(node.data)  # NumPy takes it faster than a scalar
    node.data.setflags(write=False)
    return node


# what core calls and a module above it declares, see `install_callbacks` of dispatch.py
CAST: Any = None  # (x, dtype): ops/math/elementwise.py
CAT: Any = None  # of tensors along dim 0: ops/shape/join.py
PERMUTE: Any = None  # ops/shape/movement.py
PUT: Any = None  # ops/api/inplace.py
REAL: Any = None  # complex -> its real part: ops/math/complex.py
