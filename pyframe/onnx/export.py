"""torch.onnx.export: a model's graph as an ONNX file.

The model runs once, with its ops only recorded (jit/record.py), in evaluation mode. Calls that have
a row in table.py are nodes of the graph, all others are looked into, down to ops.
"""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode, no_grad
from pyframe.export import ExportedProgram, named_dims, recorded
from pyframe.io.files import replacing
from pyframe.jit.calls import function
from pyframe.jit.graph import CallNode, ConstArg, Graph, Ref, SizeExpr, mapped, refs
from pyframe.jit.modules import ScriptFunction
from pyframe.jit.record import labels_of, parameters_of
from pyframe.nn.modules.module import Evaluation, Module
from pyframe.onnx import export_table as table
from pyframe.tensor import Tensor, from_numpy
from pyframe.tensor.tree import leaves

NAMES = {"float32": "float", "float64": "double"}  # ONNX's
LARGEST = 2**31 - 2**20  # bytes of a file of protobuf
OPSETS = 13, 24  # of which this writes files
IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12}


class OnnxExporterError(RuntimeError):
    """A model that can't be written as ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """A model calls what has no row, and is made of what has none."""


class TrainingMode(enum.Enum):
    """For PyTorch's code: all is exported in evaluation mode."""

    EVAL, PRESERVE, TRAINING = range(3)


def is_in_onnx_export() -> bool:
    """Whether a model runs to be exported."""
    return bool(getattr(mode.tracer, "pure", False))


class ONNXProgram:
    """An exported model: `model_proto` is the `onnx.ModelProto`, `graph` what it was made of, whose
    `guards` say for which sizes it is."""

    def __init__(self, proto: Any, graph: Graph) -> None:
        self.model_proto, self.graph = proto, graph

    def save(self, destination: Any, *, external_data: bool | None = None, **others: Any) -> None:
        """Write it to a file; its weights to one beside it, with `external_data`, or where they
        would not fit."""
        import onnx

        write(onnx, self.model_proto, destination, external_data)


class _Writer:
    """Writes the nodes of a graph."""

    def __init__(self, onnx: Any, opset: int) -> None:
        self.onnx, self.opset = onnx, opset
        self.nodes: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}  # initializers
        self.names: dict[Ref, str] = {}
        self.shapes: dict[str, tuple[Any, ...]] = {}
        self.dtypes: dict[str, Any] = {}
        self.counts: dict[str, int] = {}
        self.known: dict[Any, str] = {}
        self.sources: dict[str, tuple[str, int]] = {}  # which size of which input a name is
        self.strided: set[str] = set()  # inputs whose memory is in another order than ONNX's
        self.node: CallNode = None  # type: ignore[assignment]  # that is being written
        self.results = 1
        self.where = ""
        self.cast: dict[int, Any] = {}  # dtypes by ONNX's numbers

    # --- what rows ask

    def shape(self, x: str) -> list[Any]:
        """The shape of a value: ints and Dims."""
        return list(self.shapes[x])

    def dtype(self, x: str) -> Any:
        return self.dtypes[x]

    def kind(self, d: dt.dtype) -> int:
        """ONNX's number of a dtype."""
        kinds = self.onnx.TensorProto
        name = NAMES.get(d.name, d.name).upper()
        if d.is_complex or not hasattr(kinds, name):
            raise self.no(f"ONNX has no {d.name} here")
        number = int(getattr(kinds, name))
        self.cast[number] = d
        return number

    def no(self, why: str) -> OnnxExporterError:
        """The error for what this can't write."""
        at = f" in {self.node.module}" if self.node is not None and self.node.module else ""
        what = self.node.function if self.node is not None else "the model"
        return UnsupportedOperatorError(f"onnx.export: {what}{at} can't be written: {why}")

    def out_shape(self) -> list[Any]:
        """The shape of the result that is being written."""
        (ref,) = refs(self.node.out)
        return list(self.node.specs[ref].shape)

    def fresh(self, base: str) -> str:
        n = self.counts.get(base, 0)
        self.counts[base] = n + 1
        return f"{base}_{n}" if n else base

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        """Write a node; the names of its results."""
        given = [x or "" for x in inputs]
        while given and not given[-1]:
            given.pop()
        schema = self.schema(kind, attrs)
        floats = {k for k, a in schema.attributes.items() if a.type == a.type.FLOAT}
        attrs = {k: float(v) if k in floats else list(v) if isinstance(v, tuple) else v
                 for k, v in attrs.items()}  # fmt: skip
        types = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(given))]
        of: dict[str, Any] = {"T2": self.cast[attrs["to"]]} if kind == "Cast" else {}
        narrow: dict[str, Any] = {}
        for i, (x, formal) in enumerate(zip(given, types, strict=True)):
            d = self.dtypes.get(x)
            if d is None:
                continue
            wide = self.widened(d, formal.types)
            if wide is not d:
                narrow[formal.type_str] = d
                given[i] = self.op("Cast", x, to=self.kind(wide))
            of.setdefault(formal.type_str, wide)
        name = self.fresh(f"{self.where}/{kind}")
        outs = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, given, outs, name=name, **attrs))
        for x, formal in zip(outs, schema.outputs, strict=False):
            self.dtypes[x] = of.get(formal.type_str)
            if self.dtypes[x] is None and len(formal.types) == 1:
                self.dtypes[x] = self.of_type(*formal.types)
        if kind == "Transpose" and given[0] in self.shapes:
            self.shapes[outs[0]] = tuple([self.shapes[given[0]][d] for d in attrs["perm"]])
        for i, formal in enumerate(schema.outputs[:outputs]):
            if formal.type_str in narrow:
                outs[i] = self.op("Cast", outs[i], to=self.kind(narrow[formal.type_str]))
        return outs[0] if outputs == 1 else tuple(outs)

    def schema(self, kind: str, attrs: Any) -> Any:
        """What ONNX says of an operator."""
        try:
            found = self.onnx.defs.get_schema(kind, self.opset)
        except self.onnx.defs.SchemaError:
            raise self.no(f"opset {self.opset} has no {kind}") from None
        unknown = attrs.keys() - found.attributes.keys()
        if unknown:
            raise self.no(f"{kind} of opset {self.opset} has no {', '.join(unknown)}")
        return found

    def widened(self, d: Any, types: Any) -> Any:
        """A dtype that an operator takes, in which it computes the same."""
        more = (dt.float32,) if d.is_floating_point else (dt.int32, dt.int64)
        for one in (d, *more):
            if f"tensor({NAMES.get(one.name, one.name)})" in types and one.itemsize >= d.itemsize:
                return one
        raise self.no(f"opset {self.opset} has no {d.name} for it")

    def unlike(self, x: str) -> str:
        """A value that is not of the dtype that the graph's is."""
        self.dtypes[x] = None
        return x

    def of_type(self, text: str) -> Any:
        """The dtype that ONNX calls so."""
        return next(d for d in dt.ALL if text == f"tensor({NAMES.get(d.name, d.name)})")

    def like(self, value: Any, d: dt.dtype) -> str:
        """An initializer of a dtype."""
        array = np.asarray(value, d.numpy)
        if d is dt.bfloat16:
            array = bits_of(from_numpy(array).to(d))
        key = d, array.shape, array.tobytes()
        if key not in self.known:
            self.known[key] = self.array(self.fresh("constant"), array, d)
        return self.known[key]

    def const(self, value: Any) -> str:
        """An initializer, of the dtype of an array."""
        array = np.asarray(value)
        return self.like(array, next(d for d in dt.ALL if d.name == array.dtype.name))

    def array(self, name: str, array: np.ndarray, d: Any) -> str:
        self.arrays[name], self.shapes[name], self.dtypes[name] = array, array.shape, d
        return name

    def folded(self, kind: str, xs: list[str], function: Any, *more: Any, **attrs: Any) -> str:
        """An operator of weights is a weight itself; else a node."""
        if not all(x in self.arrays for x in xs):
            return str(self.op(kind, *xs, *more, **attrs))
        key = kind, *xs, *more, *attrs.items()
        if key not in self.known:
            array = np.ascontiguousarray(function([self.arrays[x] for x in xs]))
            name = self.fresh(f"{xs[0]}_{kind.lower()}")
            self.known[key] = self.array(name, array, self.dtypes[xs[0]])
        return self.known[key]

    def rows(self, x: str, rows: np.ndarray) -> str:
        """Rows of a weight in another order."""
        return self.folded("Gather", [x], lambda a: a[0][rows], self.const(rows), axis=0)

    def turned(self, x: str, dims: tuple[int, ...]) -> str:
        """`x` with its dims in this order."""
        return self.folded("Transpose", [x], lambda a: a[0].transpose(dims), perm=dims)

    def joined(self, xs: list[str], dim: int) -> str:
        """`xs` one after the other along a dim."""
        return self.folded("Concat", xs, lambda a: np.concatenate(a, dim), axis=dim)

    def stacked(self, xs: list[str]) -> str:
        """Weights along a new first dim."""
        first = self.sizes([0])
        parts = [self.folded("Unsqueeze", [x], lambda a: a[0][None], first) for x in xs]
        return self.joined(parts, 0)

    def repeated(self, x: str, n: int) -> str:
        """Each head n times."""
        _, heads, _, width = self.shapes[x]
        more = self.op("Expand", self.op("Unsqueeze", x, self.sizes([2])),
                       self.sizes([1, 1, n, 1, 1]))  # fmt: skip
        return str(self.op("Reshape", more, self.sizes([0, heads * n, -1, width])))

    # --- sizes

    def sum(self, start: Any, size: Any, step: int) -> Any:
        """start + size * step."""
        parts = [f.formula if isinstance(f, SizeExpr) else f for f in (start, size)]
        if all(isinstance(p, int) for p in parts):
            return parts[0] + parts[1] * step
        return SizeExpr(("+", parts[0], ("*", parts[1], step)))

    def sizes(self, items: list[Any]) -> str:
        """A shape as a value."""
        if all(isinstance(i, int) for i in items):
            return self.const(np.array(items, np.int64))
        return str(self.op("Concat", *[self.size(i) for i in items], axis=0))

    def reshape(self, x: str, shape: Any) -> str:
        """`x` in another shape: what it has there stays 0, and one size may be told by the
        others, unless there are no elements."""
        now, given, more = self.shapes.get(x, ()), list(shape), {}
        if 0 in given:
            more["allowzero"] = 1
        else:
            given = [0 if not isinstance(n, int) and d < len(now) and now[d] == n else n
                     for d, n in enumerate(given)]  # fmt: skip
            unknown = [d for d, n in enumerate(given) if not isinstance(n, int)]
            if len(unknown) == 1:
                given[unknown[0]] = -1
        out = str(self.op("Reshape", x, self.sizes(given), **more))
        if -1 not in shape:
            self.shapes[out] = tuple(shape)
        return out

    def size(self, x: Any) -> str:
        """A size as a vector of one."""
        f = x.formula if isinstance(x, SizeExpr) else x
        if isinstance(f, int):
            return self.const(np.array([f], np.int64))
        key = "size", f
        if key not in self.known:
            where, self.where = self.where, ""
            if isinstance(f, str):
                source, d = self.sources[f]
                shape = self.op("Shape", source)
                self.known[key] = self.op("Gather", shape, self.const(np.array([d])), axis=0)
            else:
                word, *args = f
                kinds = {"+": "Add", "*": "Mul", "-": "Sub", "//": "Div", "%": "Mod", "max": "Max"}
                if word not in kinds:
                    raise self.no(f"a size is calculated by {word}")
                self.known[key] = self.op(kinds[word], *map(self.size, args))
            self.where = where
        return self.known[key]

    # --- a graph

    def value(self, x: Any) -> Any:
        """An argument: Refs as names of values, numbers of ops as initializers."""
        if type(x) is Ref:
            return self.names[x]
        if type(x) is ConstArg:
            if isinstance(x.value, SizeExpr):
                return self.reshape(self.op("Cast", self.size(x.value), to=self.kind(x.dtype)), [])
            return self.like(x.value, x.dtype)
        return x

    def write(self, node: CallNode) -> None:
        """The nodes of a call."""
        self.node, self.where = node, "".join(f"/{p}" for p in node.module.split(".") if p)
        outs = refs(node.out)
        self.results = len(outs)
        args = mapped(node.args, self.value)
        if node.function.startswith("op."):
            row = table.row_of(node.function[3:])
            if row is None:
                raise self.no(f"no row of onnx/export_table.py is for the op {node.function[3:]}")
            found = row(self, *args)
        else:
            a = bound(node.function, args, mapped(node.kwargs, self.value))
            found = table.CALLS[short(node.function)].write(self, a)
        given = found if isinstance(found, tuple) else (found,)
        for ref, name in zip(outs, given, strict=False):
            self.names[ref] = name
            spec = node.specs[ref]
            if self.dtypes[name] not in (None, spec.dtype):
                name = self.names[ref] = self.op("Cast", name, to=self.kind(spec.dtype))
            self.shapes[name], self.dtypes[name] = spec.shape, spec.dtype


def bits_of(x: Tensor) -> np.ndarray:
    """The array of a tensor; of bfloat16, which NumPy has not, of the upper halves of floats."""
    if x.dtype is not dt.bfloat16:
        return np.asarray(x.contiguous().numpy())
    return (np.asarray(x.float().contiguous().numpy()).view(np.uint32) >> 16).astype(np.uint16)


def short(name: str) -> str:
    """The name of a function without its space, if that has the same functions as others; that in
    place is the same of values."""
    space, _, last = name.rpartition(".")
    last = last if space != "masked" else name
    return last if last.startswith("__") else last.rstrip("_")


_SIGNATURES: dict[str, inspect.Signature] = {}


def bound(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, with defaults; that of a tensor is `input`."""
    known = _SIGNATURES.get(name)
    if known is None:
        known = _SIGNATURES[name] = inspect.signature(function(name))
    found = known.bind(*args, **kwargs)
    found.apply_defaults()
    out = dict(found.arguments)
    first = next(iter(out), "")
    if first in ("self", "x"):
        out = {"input": out.pop(first), **out}
    return out


def _keeps(opset: int) -> Callable[..., bool]:
    def keep(name: str, args: Any, kwargs: Any) -> bool:
        row = table.CALLS.get(short(name))
        if row is None or row.since > opset:
            return False
        try:
            return row.fits(bound(name, args, kwargs))
        except (TypeError, KeyError, AttributeError, ValueError):
            return False

    return keep


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
    export_params: bool = True, verbose: bool | None = None, input_names: Any = None,
    output_names: Any = None, opset_version: int | None = None, dynamic_axes: Any = None,
    dynamic_shapes: Any = None, external_data: bool | None = None, training: Any = None,
    operator_export_type: Any = None, do_constant_folding: bool = True,
    keep_initializers_as_inputs: bool = False, custom_opsets: Any = None, dynamo: bool = True,
    report: bool = False, optimize: bool = True, verify: bool = False, fallback: bool = False,
    export_modules_as_functions: Any = False, autograd_inlining: bool = True,
) -> ONNXProgram:  # fmt: skip
    """Write a model's graph to the file `f` as ONNX; returns it as an ONNXProgram.

    `model` (a Module, a trace, an ExportedProgram or a function) runs once on `args`, in
    evaluation mode. `dynamic_axes` says by the inputs' names which dims may have other sizes, by
    `{"x": {0: "batch"}}` or `{"x": [0]}`; `dynamic_shapes` says it as for `pf.export.export`.
    Weights over 2 GB go to a file beside it, as do all with `external_data`. Needs the package
    onnx. UnsupportedOperatorError says the module and the op that ONNX has nothing for.

    Args:
        args: Its arguments, a tuple whose last dict is `kwargs`, or one tensor.
        f: A path; None writes none.
        kwargs: Its arguments by name.
        input_names, output_names: What the file calls them, in their order.
        opset_version: From 13 to 24, else ValueError; None for 20.
        export_params, verbose, training, operator_export_type: Nothing is done with these, nor
            with those below.
        do_constant_folding, keep_initializers_as_inputs, custom_opsets, dynamo: See above.
        report, optimize, verify, fallback, export_modules_as_functions: See above.
        autograd_inlining: See above.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "onnx.export needs the package onnx: pip install onnx", name="onnx"
        ) from None
    opset = 20 if opset_version is None else opset_version
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise ValueError(
            f"onnx.export: expected an opset of {OPSETS[0]} to {OPSETS[1]}, got {opset}"
        )
    if isinstance(model, ExportedProgram):
        if not args and not kwargs:
            args, kwargs = model._example()
        graph = model._graph
        if dynamic_shapes is None and dynamic_axes is None:
            dynamic_axes = {
                str(r): {
                    d: n.formula
                    for d, n in enumerate(graph.specs[r].shape)
                    if not isinstance(n, int)
                }
                for r in refs(graph.inputs)
            }
            input_names = input_names or [str(r) for r in refs(graph.inputs)]
        model = model._holder
    if not isinstance(model, Module):
        model = getattr(model, "net", model)  # of a pf.Model
    if isinstance(model, ScriptFunction):
        model = model._module
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if args and isinstance(args[-1], dict) and kwargs is None and len(args) > 1:
        *first, kwargs = args
        args = tuple(first)
    kwargs = kwargs or {}
    graph, constants = _recorded(
        model, args, kwargs, opset, input_names, dynamic_axes, dynamic_shapes
    )
    w = _Writer(onnx, opset)
    strided = [not x.is_contiguous() for x in leaves((args, kwargs))]
    proto = _model(w, graph, model, constants, strided, input_names, output_names)
    program = ONNXProgram(proto, graph)
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _recorded(
    model: Any, args: Any, kwargs: Any, opset: int, names: Any, axes: Any, shapes: Any
) -> tuple[Graph, dict[str, Tensor]]:
    module = model if isinstance(model, Module) else None
    found, ranges, wished = named_dims(parameters_of(model), args, kwargs, shapes)
    given = leaves((args, kwargs))
    labels = list(names or [])
    own = labels_of(model, args, kwargs)
    for name, dims in (axes or {}).items():
        at = labels.index(name) if name in labels else own.index(name) if name in own else None
        if at is None or at >= len(given):
            continue  # of an output: its sizes follow
        pairs = dims.items() if isinstance(dims, dict) else [(d, f"{name}_dim_{d}") for d in dims]
        for d, size in pairs:
            if not -given[at].ndim <= d < given[at].ndim:
                raise ValueError(f"onnx.export: dynamic_axes[{name!r}]: no dim {d}")
            found[at, d % given[at].ndim] = size if isinstance(size, (str, tuple)) else str(size)

    def run() -> Any:
        with no_grad():
            return recorded(
                model, module, args, kwargs, found, ranges, wished, keep=_keeps(opset), pure=True
            )

    return Evaluation(module)(run) if module is not None else run()


def _model(
    w: _Writer, graph: Graph, model: Any, constants: dict[str, Tensor], strided: list[bool],
    inputs: Any, outputs: Any,
) -> Any:  # fmt: skip
    onnx, opset = w.onnx, w.opset
    state = dict(constants)
    if isinstance(model, Module):
        state |= {**dict(model.named_parameters()), **dict(model.named_buffers())}
    given = []
    for i, ref in enumerate(refs(graph.inputs)):
        name = w.fresh(inputs[i] if i < len(inputs or ()) else str(ref))
        spec = graph.specs[ref]
        w.names[ref], w.shapes[name], w.dtypes[name] = name, spec.shape, spec.dtype
        w.strided |= {name} if strided[i] else set()
        shape = [n if isinstance(n, int) else str(n) for n in spec.shape]
        given.append(onnx.helper.make_tensor_value_info(name, w.kind(spec.dtype), shape))
    w.sources = {name: (w.names[ref], d) for name, (ref, d) in graph.sizes.items()}
    for at, ref in graph.state.items():
        name = w.names[ref] = w.fresh(at)
        w.array(name, bits_of(state[at].detach().cpu()), state[at].dtype)
    for node in graph.nodes:
        w.write(node)
    w.where = ""
    results, taken = [], set()
    for i, ref in enumerate(refs(graph.outputs)):
        source = w.names[ref]
        name = outputs[i] if i < len(outputs or ()) else w.fresh(f"output_{i}" if i else "output")
        spec = next((n.specs[ref] for n in graph.nodes if ref in n.specs), None) or graph.specs[ref]
        w.nodes.append(onnx.helper.make_node("Identity", [source], [name], name=f"/{name}"))
        shape = [n if isinstance(n, int) else str(n) for n in spec.shape]
        kind = w.kind(spec.dtype)
        results.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        taken.add(name)
    nodes = _used(w.nodes, taken)
    used = {x for n in nodes for x in n.input}
    held = [
        _tensor(onnx, name, array, w.kind(w.dtypes[name]))
        for name, array in w.arrays.items() if name in used
    ]  # fmt: skip
    title = type(model).__name__ if isinstance(model, Module) else getattr(model, "__name__", "f")
    title = getattr(model, "original_name", title)
    body = onnx.helper.make_graph(nodes, title, given, results, held)
    return onnx.helper.make_model(
        body, producer_name="pyframe", ir_version=IR[opset],
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )  # fmt: skip


def _used(nodes: list[Any], wanted: set[str]) -> list[Any]:
    """The nodes that the outputs ask for."""
    kept = []
    for node in reversed(nodes):
        if wanted & set(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]


def _tensor(onnx: Any, name: str, array: np.ndarray, kind: int) -> Any:
    proto = onnx.TensorProto(name=name, data_type=kind, dims=array.shape)
    proto.raw_data = np.ascontiguousarray(array).tobytes()
    return proto


def write(onnx: Any, proto: Any, f: Any, external: bool | None) -> None:
    """Write a model to a path or to what has `write`; its large tensors to a file beside it, where
    they would not fit."""
    held = proto.graph.initializer
    if external is None:
        external = sum(len(t.raw_data) for t in held) > LARGEST
    if not external:
        data = proto.SerializeToString()
        if hasattr(f, "write"):
            f.write(data)
        else:
            with replacing(f) as file:
                file.write(data)
        return
    if hasattr(f, "write"):
        raise ValueError("onnx.export: weights that lie beside the file need a path, got a file")
    beside = os.fspath(f) + ".data"
    graph = onnx.GraphProto(name=proto.graph.name)
    for field in ("node", "input", "output"):
        getattr(graph, field).extend(getattr(proto.graph, field))
    at = 0
    with replacing(beside) as file:
        for tensor in held:
            one = graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
            size = len(tensor.raw_data)
            if size < 1024:
                one.raw_data = tensor.raw_data
                continue
            space = -at % 4096
            file.write(b"\0" * space)
            file.write(tensor.raw_data)
            one.data_location = onnx.TensorProto.EXTERNAL
            where = {"location": os.path.basename(beside), "offset": at + space, "length": size}
            for key, value in where.items():
                one.external_data.add(key=key, value=str(value))
            at += space + size
    kept = onnx.ModelProto(
        graph=graph, ir_version=proto.ir_version, opset_import=proto.opset_import,
        producer_name=proto.producer_name,
    )  # fmt: skip
    with replacing(f) as file:
        file.write(kept.SerializeToString())
