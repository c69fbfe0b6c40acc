"""A graph of nodes as steps on numbered slots, and how they run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyframe.core.packages import PLACES
from pyframe.onnx import table, values
from pyframe.onnx.files import Reader
from pyframe.tensor import Tensor

DEPTH = 64  # graphs within graphs, and functions that call functions
STEPS = 1_000_000  # nodes of a model whose functions are written out
WRITTEN = 4_000  # functions with what their nodes say of them
RUN = 20_000_000  # nodes that one call runs
MAX_HOST_CONSTANT = 4096  # elements of a constant that is kept on the host too
FOLDED = 1 << 26  # bytes that are read and made where nodes are computed at load
IGNORED = {"consumed_inputs", "spatial", "seed"}  # of old versions; a seed comes from manual_seed


class RunContext:
    """One call of a module: its constants, whether it trains, and where."""

    def __init__(self, constants: list[Tensor], training: bool, device: Any) -> None:
        self.constants, self.training, self.device = constants, training, device
        self.left = RUN

    def tensor(self, value: Any) -> Any:
        """A value as a tensor on the run's device."""
        return values.tensor(value, self.device) if isinstance(value, np.ndarray) else value


class Constants:
    """Where a loaded model's constants go: `keep` gives each a number."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arrays: list[np.ndarray] = []
        self.trained: list[bool] = []

    def keep(self, name: str, array: np.ndarray, trained: bool) -> int:
        """Keep a constant; the float ones that come from initializers are trained."""
        self.names.append(name)
        self.arrays.append(array)
        self.trained.append(trained)
        return len(self.names) - 1


class Build:
    """What all graphs of a model share while steps are made of them."""

    def __init__(self, model: Any, reader: Reader, constants: Constants | None) -> None:
        self.reader = reader
        self.constants = constants  # None: they stay on the host
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.plans: dict[Any, GraphPlan] = {}  # of functions
        self.depth = 0
        self.left = FOLDED


class Constant:
    """A value that is known: on the host unless `array` is None, or as a tensor of this number."""

    def __init__(self, name: str, array: np.ndarray | None, number: int = -1) -> None:
        self.name, self.array, self.number = name, array, number


class NameScope:
    """The names of a graph and their slots; slot 0 is what is absent."""

    def __init__(self, outer: NameScope | None) -> None:
        self.outer = outer
        self.slots: dict[str, int] = {"": 0}
        self.size = 1
        self.captured: list[tuple[int, int]] = []  # (slot outside, slot here)
        self.constants: dict[int, Constant] = {}  # by their slots

    def new(self, name: str) -> int:
        """The slot of a value that is made here."""
        if not name:
            return 0
        if name in self.slots:
            raise ValueError(f"{name!r} is computed twice")
        self.slots[name] = self.size
        self.size += 1
        return self.size - 1

    def find(self, name: str) -> int | None:
        """The slot of a name, here or taken from outside; None if there is none."""
        scopes: list[NameScope] = [self]
        while name not in scopes[-1].slots:
            outer = scopes[-1].outer
            if outer is None:
                return None
            scopes.append(outer)
        slot = scopes.pop().slots[name]
        while scopes:
            scope = scopes.pop()
            outer = scope.outer
            assert outer is not None
            mine = scope.new(name)
            scope.captured.append((slot, mine))
            if slot in outer.constants:
                scope.constants[mine] = outer.constants[slot]
            slot = mine
        return slot


def opsets_of(proto: Any) -> dict[str, int]:
    """The versions of the operator sets that a model or function names."""
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}


def title(node: Any) -> str:
    """A node for a message."""
    return f"node {node.name!r} ({node.op_type})" if node.name else f"a node {node.op_type}"


class GraphPlan:
    """A graph, or a function's body, as steps."""

    def __init__(
        self, build: Build, graph: Any, opsets: dict[str, int], outer: NameScope | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.steps: list[NodeStep] = []
        self.made: list[tuple[int, int]] = []  # (slot, number of a constant)
        self.known: list[tuple[int, np.ndarray]] = []  # (slot, array)
        self.scope = scope = NameScope(outer)
        build.depth += 1
        if build.depth > DEPTH:
            raise ValueError(f"graphs and functions lie in each other more than {DEPTH} deep")
        is_graph = attributes is None
        given = {t.name: t for t in graph.initializer} if is_graph else {}
        inputs = [v.name for v in graph.input] if is_graph else list(graph.input)
        self.input_names = [name for name in inputs if name not in given]
        self.inputs = [scope.new(name) for name in self.input_names]
        deciding = _deciding(graph, opsets)
        self.deciding = [n for n in self.input_names if n in deciding]  # inputs read on the host
        if is_graph:
            read = set(graph_outputs(graph))
            for node in graph.node:
                read.update(node.input)
            for name, proto in given.items():
                within = outer is not None or name in read
                array = build.reader.array(proto)
                self._constant(build, name, array, name not in deciding, within)
            for sparse in graph.sparse_initializer:
                name = sparse.values.name
                array = build.reader.dense(sparse, f"the sparse constant {name!r}")
                self._constant(build, name, array, True, True)
        for node in graph.node:
            self._add(build, node, opsets, attributes, deciding)
        self.output_names = list(graph_outputs(graph))
        # a function may leave out what the node does not ask for
        self.outputs = [
            self._of(name, "the graph's outputs") if is_graph or name in scope.slots else 0
            for name in self.output_names
        ]
        self.captured = scope.captured
        self.size = scope.size
        self._release()
        self.total = len(self.steps) + sum(step.total() for step in self.steps)
        if self.total > STEPS:
            raise ValueError(f"the model has more than {STEPS} nodes, its functions written out")
        build.depth -= 1

    def _of(self, name: str, reader: str) -> int:
        slot = self.scope.find(name)
        if slot is None:
            raise ValueError(
                f"{reader} reads {name!r}, which is no input and which no earlier node computes"
            )
        return slot

    def _constant(
        self, build: Build, name: str, array: np.ndarray, trained: bool, used: bool
    ) -> None:
        """A constant is known on the host where it is small and decides something or is no float;
        a tensor of it is kept where a device can have it."""
        slot = self.scope.new(name)
        dtype = values.dtype_of(array)
        trained = trained and dtype is not None and dtype.is_floating_point
        trained = trained and build.constants is not None
        if (
            used
            and dtype is not None
            and build.constants
            and (trained or array.size > MAX_HOST_CONSTANT)
        ):
            number = build.constants.keep(name, array, trained)
            self.made.append((slot, number))
            constant = Constant(name, None, number)
        else:
            self.known.append((slot, array))
            constant = Constant(name, array)
        self.scope.constants[slot] = constant

    def _add(
        self, build: Build, node: Any, opsets: dict[str, int], outside: Any, deciding: set[str]
    ) -> None:  # fmt: skip
        ins = [self._of(name, title(node)) for name in node.input]
        attributes = {}
        for a in node.attribute:
            if a.ref_attr_name:
                if a.ref_attr_name in (outside or {}):
                    attributes[a.name] = outside[a.ref_attr_name]
            else:
                attributes[a.name] = a
        try:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                array, name = _value(build, attributes), node.output[0]
                self._constant(build, name, array, array.size > 1 and name not in deciding, True)
                return
            step = NodeStep(build, node, attributes, ins, opsets, self.scope)
        except PlacedError:
            raise
        except MemoryError as error:
            raise MemoryError(f"{title(node)}: {error}") from None
        except (NotImplementedError, *FAULTS) as error:
            kind = OperatorError if isinstance(error, NotImplementedError) else ModelError
            raise kind(f"{title(node)}: {error}") from None
        step.outs = [self.scope.new(name) for name in node.output]
        known = [self.scope.constants.get(i) for i in ins]
        arrays = [None if c is None else c.array for c in known]
        if (
            step.host is not None
            and node.output
            and all(i == 0 or a is not None for i, a in zip(ins, arrays, strict=True))
        ):
            found = _folded(build, step, arrays)
            if found is not NotImplemented:
                for slot, name, array in zip(step.outs, node.output, found, strict=False):
                    if name:
                        self.known.append((slot, array))
                        self.scope.constants[slot] = Constant(name, array)
                return
        step.numbers = [-1] * len(ins)
        for i, constant in enumerate(known):
            if constant is None or step.row is None or build.constants is None:
                continue
            if constant.number < 0 and step.kinds[i] in (table.TENSOR, table.STATE):
                assert constant.array is not None
                if values.has_dtype(constant.array):
                    constant.number = build.constants.keep(constant.name, constant.array, False)
            step.numbers[i] = constant.number
        self.steps.append(step)

    def _release(self) -> None:
        """Each step says whose values nobody needs after it."""
        kept = {0, *self.outputs}
        for step in reversed(self.steps):
            used = {*step.ins, *step.outs}
            for plan in step.graphs.values():
                used.update(slot for slot, _ in plan.captured)
            step.frees = [slot for slot in used if slot not in kept]
            kept |= used

    def run(self, run: RunContext, outer: list[Any], args: Sequence[Any]) -> list[Any]:
        """The outputs for these inputs; `outer` has the values of the graph around."""
        env: list[Any] = [None] * self.size
        for slot, number in self.made:
            env[slot] = run.constants[number]
        for slot, array in self.known:
            env[slot] = array
        for slot, mine in self.captured:
            env[mine] = outer[slot]
        for slot, value in zip(self.inputs, args, strict=False):
            env[slot] = value
        run.left -= len(self.steps)
        if run.left < 0:
            raise RuntimeError(f"the ONNX model is not over after {RUN} nodes")
        for step in self.steps:
            try:
                results = step.call(run, env)
            except Exception as error:
                if type(error) in UNFIT:
                    said = f"{type(error).__name__}: {error}"
                    raise ModelError(f"{step.title} does not fit its inputs: {said}") from error
                note = f"in {step.title} of the ONNX model"
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
                raise
            for slot, value in zip(step.outs, results, strict=False):
                if slot:
                    env[slot] = value
            for slot in step.frees:
                env[slot] = None
        return [env[slot] for slot in self.outputs]

    def __iter__(self) -> Iterator[NodeStep]:
        """All steps, those of inner graphs too."""
        for step in self.steps:
            yield step
            for plan in step.graphs.values():
                yield from plan


PLACES[GraphPlan.run.__code__] = lambda frame: frame.f_locals["step"].title


class PlacedError(Exception):
    """Says where in the model it is."""


class ModelError(PlacedError, ValueError):
    pass


class OperatorError(PlacedError, NotImplementedError):
    pass


# What a damaged file makes Python say: where a node is read, and where it runs.
UNFIT = (TypeError, IndexError, KeyError, AttributeError, AssertionError, ZeroDivisionError,
         OverflowError)  # fmt: skip
FAULTS = (ValueError, *UNFIT)


def graph_outputs(graph: Any) -> list[str]:
    """The names of what a graph or a function gives."""
    return [v if isinstance(v, str) else v.name for v in graph.output]


def _value(build: Build, attributes: dict[str, Any]) -> np.ndarray:
    """The array of a Constant."""
    if len(attributes) != 1:
        raise ValueError("expected one of the attributes that say a Constant's value")
    ((name, a),) = attributes.items()
    if name == "sparse_value":
        return build.reader.dense(a.sparse_tensor, "its value")
    kinds = {"value_float": np.float32, "value_int": np.int64, "value_string": str, "value": None}
    if name.removesuffix("s") not in kinds:
        raise NotImplementedError(f"its attribute {name!r} is not known here")
    value = _attribute(build, a)
    if name == "value_strings":
        made = values.strings(value, len(value))
        build.reader.count(made.nbytes, "its value")
        return made
    return np.asarray(value, kinds[name.removesuffix("s")])


def _folded(build: Build, step: NodeStep, arrays: list[Any]) -> Any:
    """What a step gives of constants, if that is little; what fails does so when it runs."""
    build.left -= sum(a.nbytes for a in arrays if a is not None)
    if build.left < 0:
        return NotImplemented
    try:
        found = step.on_host(arrays)
    except Exception:
        return NotImplemented
    if found is NotImplemented:
        return found
    build.left -= 2 * sum(a.nbytes for a in found)  # as tensors too
    few = sum(a.size for a in found) <= MAX_HOST_CONSTANT and build.left >= 0
    return found if few else NotImplemented


def _deciding(graph: Any, opsets: dict[str, int]) -> set[str]:
    """The values that the host must know (shapes, axes) and all that they are computed from. Such
    constants are no parameters."""
    deciding: set[str] = set()
    for node in reversed(graph.node):
        domain = "" if node.domain == "ai.onnx" else node.domain
        row = table.ROWS.get((domain, node.op_type))
        for i, name in enumerate(node.input):
            if row is not None and row.kind(i) in (table.HOST, table.STATE):
                deciding.add(name)
        known = (domain, node.op_type) in table.ON_HOST and node.op_type not in ("Shape", "Size")
        if known and not deciding.isdisjoint(node.output):
            deciding.update(node.input)
        for a in node.attribute:
            for inner in (a.g, *a.graphs) if a.HasField("g") or a.graphs else ():
                deciding |= _deciding(inner, opsets)
    return deciding


class NodeStep:
    """A node: what computes it, and the slots that it reads and writes."""

    def __init__(
        self, build: Build, node: Any, attributes: dict[str, Any], ins: list[int],
        opsets: dict[str, int], scope: NameScope,
    ) -> None:  # fmt: skip
        self.title, self.ins = title(node), ins
        self.outs: list[int] = []
        self.frees: list[int] = []
        self.numbers: list[int] = []
        self.host: Callable[..., Any] | None = None
        self.row: table.OperatorImpl | None = None
        self.plan: GraphPlan | None = None
        domain = "" if node.domain == "ai.onnx" else node.domain
        key = (domain, node.op_type)
        self.graphs = {
            name: GraphPlan(build, a.g, opsets, scope)
            for name, a in attributes.items()
            if a.type == a.GRAPH
        }
        local = build.functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            said = {a.name: a for a in local.attribute_proto} | attributes
            name = (*key, node.overload, *(said[n].SerializeToString() for n in sorted(said)))
            if name not in build.plans:
                if len(build.plans) >= WRITTEN:
                    raise ValueError(f"functions are called in more than {WRITTEN} ways")
                build.plans[name] = GraphPlan(build, local, opsets | opsets_of(local), None, said)
            self.plan = build.plans[name]
            return
        version = opsets.get(domain)
        if version is None and domain != table.CONTRIB:
            raise ValueError(f"the model imports no operator set {domain or 'ai.onnx'!r}")
        schema = _schema(domain, node.op_type, version)
        self.row = table.ROWS.get(key)
        if schema is not None and not schema.min_input <= len(ins) <= schema.max_input:
            few, many = schema.min_input, schema.max_input
            expected = "1 input" if few == many == 1 else f"{few} to {many} inputs"
            raise ValueError(f"expected {expected}, got {len(ins)}")
        if self.row is None:
            if schema is None or not (
                schema.has_function or schema.has_context_dependent_function
            ):  # fmt: skip
                known = "" if schema else ", which the onnx package does not know"
                where = f"{domain or 'ai.onnx'} {version or 1}"
                raise NotImplementedError(f"no operator {node.op_type} of {where} here{known}")
            self._body(build, node, schema, attributes, opsets)
            return
        said = {name: _attribute(build, a) for name, a in attributes.items() if a.type != a.GRAPH}
        for name, a in schema.attributes.items() if schema else ():
            if a.default_value.type:
                said.setdefault(name, _attribute(build, a.default_value))
        said.update(version=schema.since_version if schema else 1, outputs=len(node.output))
        unknown = attributes.keys() - self.row.attributes - self.row.prepared - IGNORED
        if unknown and (said["version"] >= 7 or unknown - {"axis", "broadcast"}):
            raise NotImplementedError(f"its attribute {min(unknown)!r} is not known here")
        self.aligned = said.get("axis") if unknown and said.get("broadcast") else None
        self.run = "run" in self.row.attributes
        self.keywords = self._keywords(self.row, said)
        self.kept: dict[str, int] = {}  # the numbers of constants that come as keywords
        if self.row.prepare is not None:
            taken = {name: value for name, value in said.items() if name in self.row.prepared}
            for name, value in self.row.prepare(**taken).items():
                if build.constants and isinstance(value, np.ndarray) and values.has_dtype(value):
                    self.kept[name] = build.constants.keep(f"{node.op_type}.{name}", value, False)
                self.keywords[name] = value
        on_host = table.ON_HOST.get(key)
        if on_host is not None and attributes.keys() <= on_host.attributes:
            self.host = functools.partial(on_host.function, **self._keywords(on_host, said))
        self.kinds = [self.row.kind(i) for i in range(len(ins))]
        if "" in self.kinds:
            raise ValueError(f"expected at most {len(self.row.kinds)} inputs, got {len(ins)}")

    def _keywords(self, row: table.OperatorImpl, said: dict[str, Any]) -> dict[str, Any]:
        """What a function takes of what is said; an attribute may have become an input later."""
        return {name: value for name, value in said.items() if name in row.attributes}

    def _body(
        self, build: Build, node: Any, schema: Any, attributes: dict[str, Any],
        opsets: dict[str, int],
    ) -> None:  # fmt: skip
        """The function that the operator's schema has; some depend on the inputs' types."""
        import onnx

        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        del copied.attribute[:]
        copied.attribute.extend(attributes.values())
        for name, a in schema.attributes.items():
            if a.default_value.type and name not in attributes:
                attributes[name] = a.default_value
        if schema.has_function:
            body = schema.function_body
            self.plan = GraphPlan(build, body, opsets | opsets_of(body), None, attributes)
            return
        version = opsets.get(schema.domain, 1)
        asked = copied.SerializeToString()
        plans: dict[Any, GraphPlan] = {}

        def written(types: list[bytes]) -> Any:
            made = onnx.FunctionProto()
            if version in schema.context_dependent_function_opset_versions:
                found = schema.get_context_dependent_function_with_opset_version(
                    version, asked, types
                )
            else:
                found = schema.get_context_dependent_function(asked, types)
            made.ParseFromString(found)
            return made

        def plan(args: list[Any]) -> GraphPlan:
            key: Any = tuple(None if a is None else (values.type_of(a), a.ndim) for a in args)
            if (found := plans.get(key)) is not None:
                return found
            body = written([_type_proto(a, False) for a in args])
            if not body.node:  # it needs the sizes
                key = tuple(None if a is None else (values.type_of(a), *a.shape) for a in args)
                if (found := plans.get(key)) is not None:
                    return found
                body = written([_type_proto(a, True) for a in args])
            if not body.node:
                raise ValueError(f"{schema.name} does not take inputs such as these")
            own = Build(onnx.ModelProto(), build.reader, None)
            plans[key] = GraphPlan(own, body, opsets | opsets_of(body), None, attributes)
            return plans[key]

        self.typed = plan

    def total(self) -> int:
        """The nodes within it."""
        plans = [*self.graphs.values(), *([self.plan] if self.plan else [])]
        return sum(plan.total for plan in plans)

    def on_host(self, args: list[Any]) -> Any:
        """The results as arrays, or NotImplemented."""
        assert self.host is not None
        try:
            with np.errstate(all="ignore"):
                found = self.host(*args)
        except ArithmeticError:  # of sizes as floats, which may be divided by 0 elsewhere
            return NotImplemented
        if found is NotImplemented:
            return found
        found = found if isinstance(found, tuple | list) else (found,)
        first = next((a for a in args if a is not None and a.dtype != bool), None)
        to = self.keywords.get("to", 0 if first is None else values.type_of(first))
        return [values.typed(values.boxed(a), to) for a in found]

    def call(self, run: RunContext, env: list[Any]) -> Any:
        """The values of the outputs."""
        args = [env[i] for i in self.ins]
        if self.row is None:
            plan = self.plan if self.plan is not None else self.typed(args)
            args += [None] * (len(plan.inputs) - len(args))
            return plan.run(run, [], args)
        if self.host is not None and all(map(values.is_host, args)):
            found = self.on_host(args)
            if found is not NotImplemented:
                return found
        for i, (value, kind) in enumerate(zip(args, self.kinds, strict=True)):
            if value is None:
                continue
            if kind in (table.TENSOR, table.STATE):
                if not isinstance(value, Tensor):
                    number = self.numbers[i]
                    args[i] = run.constants[number] if number >= 0 else run.tensor(value)
            elif kind == table.HOST:
                args[i] = values.array(value)
        if self.aligned is not None and args[1].ndim < args[0].ndim:
            axis = self.aligned % args[0].ndim
            args[1] = args[1][(..., *[None] * (args[0].ndim - axis - args[1].ndim))]
        keywords = self.keywords
        if self.run or self.graphs:
            keywords = {**keywords}
            for name, inner in self.graphs.items():
                keywords[name] = functools.partial(inner.run, run, env)
            if self.run:
                keywords["run"] = run
        if self.kept:
            keywords = {**keywords, **{k: run.constants[n] for k, n in self.kept.items()}}
        found = self.row.function(*args, **keywords)
        return found if isinstance(found, tuple) else (found,)


def _schema(domain: str, name: str, version: int | None) -> Any:
    from onnx import defs

    try:
        return defs.get_schema(name, version or 1, domain)
    except defs.SchemaError:
        return None


def _attribute(build: Build, a: Any) -> Any:
    """An attribute's value in Python."""
    from onnx import helper

    if a.type == a.TENSOR:
        return build.reader.array(a.t)
    if a.type in (a.GRAPHS, a.SPARSE_TENSOR, a.SPARSE_TENSORS, a.TYPE_PROTOS, a.TENSORS):
        raise NotImplementedError(
            f"its attribute {a.name!r} is of a kind that no operator here has"
        )
    value = helper.get_attribute_value(a)
    if a.type == a.STRING:
        return value.decode()
    if a.type == a.STRINGS:
        return [s.decode() for s in value]
    return list(value) if a.type in (a.INTS, a.FLOATS) else value


def _type_proto(value: Any, sized: bool) -> bytes:
    """What a schema's function is asked with."""
    from onnx import TypeProto, helper

    if value is None:
        return bytes(TypeProto().SerializeToString())
    shape = [int(n) if sized else None for n in value.shape]
    found = helper.make_tensor_type_proto(values.type_of(value), shape)
    return bytes(found.SerializeToString())
