"""torch.export: the whole of a Module as one graph, of sizes that may change, without its code."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.core.modes import mode, no_grad
from pyframe.core.sizes import DynamicShapeError
from pyframe.jit import modules as _modules
from pyframe.jit.graph import (
    Graph,
    GraphError,
    Listing,
    Ref,
    SizeExpr as Formula,
    bind,
    code_of,
    mapped,
    refs,
    value_of,
)
from pyframe.jit.modules import ScriptModule
from pyframe.jit.record import NeedsValueError as NeedsValueError, parameters_of, record
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves

__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "save"]


class DimHint(enum.Enum):
    """What a dim of an input is, where it has no name."""

    AUTO = "auto"  # any size, if the code can do with that
    DYNAMIC = "dynamic"  # any size, or an error
    STATIC = "static"  # the size of the example


class Dim:
    """A size of inputs that may change, by its name; dims of one name are as long as each other.

    Args:
        name: An identifier.
        min, max: The least and the largest size; None for 0, and for no bound.
    """

    AUTO, DYNAMIC, STATIC = DimHint.AUTO, DimHint.DYNAMIC, DimHint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name!r}")
        self.__name__, self.min, self.max = name, 0 if min is None else min, max
        self.root = name
        self.formula: Any = name  # of those that are calculated of another
        if max is not None and max <= self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")

    def _than(self, word: str, n: int) -> Dim:
        out = copy.copy(self)
        out.formula = (word, self.formula, n)
        out.__name__ = repr(Formula(out.formula))
        return out

    def __add__(self, n: int) -> Dim:
        return self._than("+", n)

    def __sub__(self, n: int) -> Dim:
        return self._than("-", n)

    def __mul__(self, n: int) -> Dim:
        return self._than("*", n)

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


class SizeRange(NamedTuple):
    """The least and the greatest of a size; None is any."""

    lower: int
    upper: int | None


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name.

    Args:
        names: The names.
        min, max: Bounds of each, as of Dim.
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


class ConstraintViolationError(ValueError):
    """The code can't do with any size where `dynamic_shapes` names one."""


def named_dims(
    names: list[str], args: Any, kwargs: Any, shapes: Any
) -> tuple[dict[tuple[int, int], Any], dict[str, tuple[int, int | None]], set[str]]:
    """(tensor, dim) -> its name, or a formula of names; the ranges of those with bounds; which are
    but wished."""
    found: dict[tuple[int, int], Any] = {}
    ranges: dict[str, tuple[int, int | None]] = {}
    wished: set[str] = set()
    derived: dict[tuple[int, int], Dim] = {}
    count = iter(range(len(leaves((args, kwargs)))))

    def walk(value: Any, spec: Any, where: str) -> None:
        if isinstance(value, Tensor):
            i = next(count)
            pairs = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
            for d, dim in pairs:
                if not isinstance(d, int) or not -value.ndim <= d < value.ndim:
                    raise ValueError(f"dynamic_shapes[{where}]: no dim {d} of {value.ndim}")
                note(i, d % value.ndim, dim, value.shape[d], where)
        elif isinstance(value, (list, tuple)):
            if spec is not None and len(spec) != len(value):
                raise ValueError(f"dynamic_shapes[{where}]: expected {len(value)}, got {len(spec)}")
            for k, v in enumerate(value):
                walk(v, None if spec is None else spec[k], f"{where}[{k}]")
        elif isinstance(value, dict):
            for k, v in value.items():
                walk(v, None if spec is None else spec.get(k), f"{where}[{k!r}]")

    def note(i: int, d: int, dim: Any, n: int, where: str) -> None:
        if isinstance(dim, Dim):
            found[i, d] = dim.formula
            if dim.formula != dim.root:
                derived[i, d] = dim
                return
            ranges[dim.__name__] = dim.min, dim.max
            if n < dim.min or (dim.max is not None and n > dim.max):
                raise ConstraintViolationError(
                    f"dynamic_shapes[{where}]: size {n} is not in {dim.min} … {dim.max}"
                )
        elif isinstance(dim, str):
            found[i, d] = dim
        elif dim in (DimHint.AUTO, DimHint.DYNAMIC):
            found[i, d] = name = f"s{len(found)}"
            if dim is DimHint.AUTO:
                wished.add(name)
        elif dim is not None and dim is not DimHint.STATIC and dim != n:
            raise ValueError(
                f"dynamic_shapes[{where}]: expected a Dim, None or {n} for dim {d}, got {dim!r}"
            )

    if isinstance(shapes, (list, tuple)):
        shapes = dict(zip([*names[: len(args)], *kwargs], shapes, strict=False))
    if shapes is not None and not isinstance(shapes, dict):
        raise ValueError(f"dynamic_shapes: expected a dict, tuple or list, got {type(shapes)}")
    labels = [*names, *[str(k) for k in range(len(names), len(args))]][: len(args)]
    unknown = (shapes or {}).keys() - {*labels, *kwargs}
    if unknown:
        raise ValueError(
            f"dynamic_shapes names {sorted(unknown)}, which are no arguments: those are "
            f"{[*labels, *kwargs]}"
        )
    for label, value in [*zip(labels, args, strict=True), *kwargs.items()]:
        walk(value, (shapes or {}).get(label), label)
    for place, dim in derived.items():
        if dim.root not in found.values():  # no input says it: it is a size by itself
            found[place] = dim.__name__
    return found, ranges, wished


def recorded(
    fn: Any, module: Module | None, args: Any, kwargs: Any, found: dict[tuple[int, int], Any],
    ranges: dict[str, tuple[int, int | None]], wished: set[str], **how: Any,
) -> tuple[Graph, dict[str, Tensor]]:  # fmt: skip
    """The graph of a run, whose sizes may be any but where that is only wished for."""
    tensors = leaves((args, kwargs))
    while True:
        sizes: dict[str, int] = {}
        for (i, d), name in sorted(found.items(), key=lambda item: isinstance(item[1], tuple)):
            n = tensors[i].shape[d]
            expected = sizes.setdefault(name, n) if isinstance(name, str) else value_of(name, sizes)
            if n != expected:
                raise ConstraintViolationError(
                    f"{Formula(name)} is {expected} and {n} in the example"
                )
        hints = {name: max(5, ranges.get(name, (2, None))[0]) for name, n in sizes.items() if n < 2}
        hints = {n: min(h, ranges.get(n, (0, None))[1] or h) for n, h in hints.items()}
        try:
            graph, constants, guards = record(
                fn, args, kwargs, module=module, dims=found, hints=hints, ranges=ranges, **how
            )
        except (Exception, DynamicShapeError) as error:
            if not wished & {*found.values()}:
                if isinstance(error, DynamicShapeError):
                    raise ConstraintViolationError(
                        f"Constraints violated: no size may change, as the code can't do with one "
                        f"that does: {error}"
                    ) from error
                raise
            found = {place: name for place, name in found.items() if name not in wished}
            continue
        fixed = {[*sizes][k]: line for k, line in guards.wanted().items()}
        for x, kind, answer, line in guards.formulas:
            if kind == "==" and answer:
                names = {[*sizes][a] for atoms in x.terms for a in atoms if a < len(sizes)}
                fixed |= dict.fromkeys(names, line)
        if not fixed:
            return graph, constants
        for name, line in fixed.items():
            if name not in wished:
                raise ConstraintViolationError(
                    f"Constraints violated ({name})! Not all values of {name} are valid because "
                    f"your code specialized it to be a constant ({sizes[name]}), or to be equal to "
                    f"another size; {line or 'it'} asks for that. Use None or Dim.STATIC for it"
                )
        found = {place: name for place, name in found.items() if name not in fixed}


def export(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:  # fmt: skip
    """The graph of a Module's run on example inputs, with all that it needs.

    `dynamic_shapes` says by the names of the arguments, or in their order, which dims may have
    other sizes: {"x": {0: Dim("batch")}}. Without it all are as in the example. NeedsValueError
    where the code asks for the value of a tensor; ConstraintViolationError where it is for one
    size alone.

    Args:
        mod: The Module.
        args: The example inputs, a tuple.
        kwargs: Those by name.
        strict, preserve_module_call_signature: Nothing is done with them.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    kwargs = kwargs or {}
    names = parameters_of(mod)
    found, ranges, wished = named_dims(names, args, kwargs, dynamic_shapes)
    graph, constants = recorded(mod, mod, args, kwargs, found, ranges, wished)
    holder = _modules.shell(mod, "")
    _modules.with_constants(holder, graph, "forward", constants)
    return ExportedProgram(holder, (args, kwargs))


class InputKind(enum.Enum):
    USER_INPUT = "user_input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT_TENSOR = "constant_tensor"


class OutputKind(enum.Enum):
    USER_OUTPUT = "user_output"


class TensorArgument(NamedTuple):
    """A tensor, by its name in the graph."""

    name: str


class InputSpec(NamedTuple):
    """What a graph takes: an argument, or what it has of its module's state."""

    kind: InputKind
    arg: TensorArgument
    target: str | None = None
    persistent: bool | None = None


class OutputSpec(NamedTuple):
    """What a graph gives."""

    kind: OutputKind
    arg: TensorArgument
    target: str | None = None


class ExportGraphSignature(NamedTuple):
    """What a graph takes and gives."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _of(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self._of(InputKind.PARAMETER).values())

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(self._of(InputKind.BUFFER).values())

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self._of(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self._of(InputKind.BUFFER)

    @property
    def user_inputs(self) -> tuple[str, ...]:
        return tuple(self._of(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[str, ...]:
        return tuple(s.arg.name for s in self.output_specs)

    def __str__(self) -> str:
        lines = ["# inputs"]
        for s in self.input_specs:
            target = f" target={s.target!r}" if s.target is not None else ""
            kept = f" persistent={s.persistent}" if s.persistent is not None else ""
            lines.append(f"{s.arg.name}: {s.kind.name}{target}{kept}")
        lines += ["", "# outputs", *[f"{s.arg.name}: {s.kind.name}" for s in self.output_specs]]
        return "\n".join(lines)


class ExportedProgram:
    """What `export` gives: a graph, its parameters, and what its inputs may be.

    Args:
        holder: A module with the graph, as `forward`, and what it needs.
        example: (args, kwargs) of the run; None makes some when they are needed.
    """

    def __init__(self, holder: ScriptModule, example: Any = None) -> None:
        self._holder = holder
        self.example_inputs = example

    @property
    def _graph(self) -> Graph:
        return self._holder._graphs["forward"]

    @property
    def graph(self) -> Listing:
        """The graph; it prints in the style of torch.fx."""
        return Listing(self._graph)

    @property
    def graph_module(self) -> ExportedProgram:
        """What has a `graph` and its `code`."""
        return self

    @property
    def code(self) -> str:
        """The graph as Python."""
        return code_of(self._graph)

    @property
    def state_dict(self) -> dict[str, Any]:
        """The parameters and the buffers that are kept, by their names."""
        return dict(self._holder.state_dict(keep_vars=True))

    @property
    def constants(self) -> dict[str, Tensor]:
        """The tensors that come of no parameter and no buffer that is kept."""
        kept = self.state_dict
        return {k: b for k, b in self._holder.named_buffers() if k not in kept}

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters, by their names."""
        return self._holder.named_parameters()

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        return self._holder.parameters()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers, by their names."""
        return self._holder.named_buffers()

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return self._holder.buffers()

    @property
    def range_constraints(self) -> dict[str, SizeRange]:
        """The least and the greatest of each size that may change; None is any."""
        ranges = self._graph.ranges
        return {name: SizeRange(*ranges.get(name, (0, None))) for name in self._graph.sizes}

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the graph takes and gives."""
        parameters, kept = dict(self.named_parameters()), self.state_dict
        specs = []
        for name, ref in self._graph.state.items():
            kind = InputKind.PARAMETER if name in parameters else InputKind.BUFFER
            if name.startswith("_constant") and name not in kept:
                kind = InputKind.CONSTANT_TENSOR
            persistent = name in kept if kind is InputKind.BUFFER else None
            specs.append(InputSpec(kind, TensorArgument(ref), name, persistent))
        given = refs(self._graph.inputs)
        specs += [InputSpec(InputKind.USER_INPUT, TensorArgument(ref)) for ref in given]
        out = refs(self._graph.outputs)
        outs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(ref)) for ref in out]
        return ExportGraphSignature(specs, outs)

    def module(self) -> Module:
        """A Module that runs the graph, for inputs as they were exported for."""
        return _Checked(self._holder)

    def run_decompositions(self, table: Any = None) -> ExportedProgram:
        """The same with ops in the place of public functions, and no writes in place.

        Args:
            table: Nothing is done with it.
        """
        args, kwargs = self._example()
        found, graph = {}, self._graph
        given = refs(graph.inputs)
        for ref, spec in graph.specs.items():
            for d, n in enumerate(spec.shape):
                if ref in given and not isinstance(n, int):
                    found[given.index(ref), d] = n.formula
        how: dict[str, Callable[..., bool]] = {"keep": lambda *args: False}
        with no_grad():
            again, constants = recorded(
                self._holder, self._holder, args, kwargs, found, graph.ranges, set(),
                pure=True, **how,
            )  # fmt: skip
        holder = _modules.shell(self._holder, "")
        _modules.with_constants(holder, again, "forward", constants)
        return ExportedProgram(holder, self.example_inputs)

    def _example(self) -> Any:
        if self.example_inputs is None:  # it was loaded: any will do
            graph = self._graph
            sizes = {n: min(max(low, 5), high or 5) for n, (low, high) in
                     self.range_constraints.items()}  # fmt: skip

            def example(x: Any) -> Any:
                if not isinstance(x, Ref):
                    return x
                shape, dtype = graph.specs[x]
                found = [value_of(n, sizes) for n in shape]
                outer, mode.counts = mode.counts, True  # a file may say any size
                try:
                    return pf.zeros(found, dtype=dtype)
                finally:
                    mode.counts = outer

            self.example_inputs = mapped(graph.inputs, example)
        return self.example_inputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def __str__(self) -> str:
        ranges = {k: f"[{a}, {'inf' if b is None else b}]" for k, (a, b) in
                  self.range_constraints.items()}  # fmt: skip
        return (
            f"ExportedProgram:\n{self.graph}\n\nGraph signature:\n{self.graph_signature}\n\n"
            f"Range constraints: {ranges}\n"
        )


class _Checked(Module):
    """Runs a graph, after a look at the sizes of what it is given."""

    def __init__(self, holder: ScriptModule) -> None:
        super().__init__()
        self.__dict__["_holder"] = holder
        self.__dict__.update({name: holder.__dict__[name] for name in _modules._DICTS})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph gives."""
        check(self._holder._graphs["forward"], args, kwargs)
        return self._holder.forward(*args, **kwargs)


def check(graph: Graph, args: Any, kwargs: Any) -> None:
    """RuntimeError for inputs of other sizes or dtypes than a graph was exported for."""
    values: dict[Any, Any] = {}
    bind(graph.inputs, graph.placed(args, kwargs), values)
    sizes: dict[str, int] = {}
    for name, (ref, d) in graph.sizes.items():
        if isinstance(values[ref], Tensor) and d < values[ref].ndim:
            sizes[name] = values[ref].shape[d]
    for ref in map(Ref, refs(graph.inputs)):
        x, spec = values[ref], graph.specs[ref]
        if not isinstance(x, Tensor) or x.ndim != len(spec.shape):
            got = f"{x.ndim} dims" if isinstance(x, Tensor) else type(x).__name__
            raise RuntimeError(f"Expected input {ref} to have {len(spec.shape)} dims, got {got}")
        if x.dtype is not spec.dtype:
            raise RuntimeError(f"Expected input {ref} to be {spec.dtype}, but got {x.dtype}")
        for d, n in enumerate(spec.shape):
            expected = n if isinstance(n, int) else value_of(n, sizes)
            if x.shape[d] != expected:
                raise RuntimeError(
                    f"Expected input at {ref}.shape[{d}] to be equal to {expected}, but got "
                    f"{x.shape[d]}"
                )
    for name, (low, high) in graph.ranges.items():
        n = sizes.get(name, low)
        if n < low or (high is not None and n > high):
            raise RuntimeError(f"Expected {name} to be in {low} … {high}, but got {n}")
    for formula, kind, answer in graph.guards:
        found = value_of(formula, sizes)
        if (found > 0 if kind == ">" else found == 0) is not answer:
            raise RuntimeError(
                f"Guard failed: the graph is for sizes with {formula} {kind} 0 {answer}, "
                f"and these are {sizes}"
            )


def save(
    ep: ExportedProgram, f: Any, *, extra_files: Any = None, opset_version: Any = None
) -> None:
    """Write a program to a file: its graph as JSON and its tensors as safetensors.

    Args:
        ep: The program; TypeError for anything else.
        f: A path, or what has `write`.
        extra_files: Texts or bytes by names, which are written too.
        opset_version: Nothing is done with it.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    _modules.save(ep._holder, f, extra_files)


def load(f: Any, *, extra_files: Any = None, expected_opset_version: Any = None) -> ExportedProgram:
    """The program in a file that `save` wrote; GraphError for another or a damaged one.

    Args:
        f: A path, or what has `read` and `seek`.
        extra_files: A dict, whose values become the bytes that were saved under its keys.
        expected_opset_version: Nothing is done with it.
    """
    found = _modules.load(f, None, extra_files)
    if not isinstance(found, ScriptModule):
        raise GraphError(f"{f}: expected an exported program, got a function of jit.save")
    graph = found._graphs.get("forward")
    untold = [r for r in refs(graph.inputs) if r not in graph.specs] if graph is not None else []
    if graph is None or untold:
        what = f"no shape of its input {str(untold[0])[:40]!r}" if untold else "no graph of forward"
        raise GraphError(f"{f}: expected an exported program, which has {what}")
    return ExportedProgram(found)
