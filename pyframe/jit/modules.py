"""ScriptModule and ScriptFunction: graphs with their parameters; traces, files, frozen modules."""

from __future__ import annotations

import copy
import functools
import json
import os
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.core.modes import mode, no_grad
from pyframe.core.sizes import DynamicShapeError
from pyframe.io import safetensors
from pyframe.io.files import replacing
from pyframe.jit.calls import GraphError
from pyframe.jit.graph import (
    CallNode,
    ConstArg,
    Graph,
    GraphDevice,
    Listing,
    Ref,
    SizeExpr,
    code_of,
    decode,
    decoded,
    encode,
    encoded,
    mapped,
    refs,
    value_of,
)
from pyframe.jit.record import TracerWarning, record, warn
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves, tree_map

FORMAT = "pyframe.jit"


class ScriptModule(Module):
    """A module whose methods are graphs: it needs no source, and can be saved as a whole.

    Args:
        original_name: The name of the class that it is made of.
    """

    def __init__(self, original_name: str = "ScriptModule") -> None:
        super().__init__()
        self.original_name = original_name
        self._graphs: dict[str, Graph] = {}
        self.__dict__["_layer"] = None  # of pyframe.nn, that it is

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph of `forward` gives.

        Args:
            args, kwargs: Its inputs.
        """
        return self._run("forward", args, kwargs)

    def _run(self, method: str, args: Any, kwargs: Any) -> Any:
        graph = self._graphs.get(method)
        if graph is None:
            raise NotImplementedError(f"{self.original_name} has no graph of {method!r}")
        tracer = mode.tracer
        traced = tracer is not None and not tracer.pure and method == "forward"
        if traced and any(n.blocks or n.function == "code.setattr_" for n in graph.nodes):
            run = lambda: graph.run(args, kwargs, self._state)  # noqa: E731
            return tracer.script(self, run, args, kwargs)
        return graph.run(args, kwargs, self._state)

    def _state(self, name: str) -> Any:
        """A parameter or a buffer, or whether a module is in training mode."""
        owner: Any = self
        if not name:
            if self._layer is None:
                return self
            self._layer.__dict__["training"] = self.training
            return self._layer
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, "_modules", {}).get(part)
        if isinstance(owner, Module):
            for fields in (owner._parameters, owner._buffers, owner._modules, own(owner)):
                if last in fields:
                    return fields[last]
            if last == "training":
                return owner.training
        raise GraphError(
            f"a graph takes {name[:80]!r} of its module, which has no such parameter, buffer, "
            "module or attribute of its own"
        )

    def __getattr__(self, name: str) -> Any:
        graphs = self.__dict__.get("_graphs", {})
        if name in graphs:
            return lambda *args, **kwargs: self._run(name, args, kwargs)
        return super().__getattr__(name)

    @property
    def graph(self) -> Listing:
        """The graph of `forward`; it prints in TorchScript's style."""
        return Listing(self._graphs["forward"], self.original_name)

    inlined_graph = graph

    @property
    def code(self) -> str:
        """`forward` as Python, of the calls in its graph."""
        return code_of(self._graphs["forward"])

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write it to a file; see `jit.save`.

        Args:
            f, _extra_files: As there.
        """
        save(self, f, _extra_files)

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


class RecursiveScriptModule(ScriptModule):
    """What `script` and `load` make of a module."""


class TracedModule(ScriptModule):
    """A module in what `trace` gives."""

    def _get_name(self) -> str:
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """What `trace` gives."""


class ScriptFunction:
    """A function as a graph.

    Args:
        module: What has the graph, as `forward`.
        doc: Its docstring.
    """

    _function: Any = None  # what it was translated from

    def __init__(self, module: ScriptModule, doc: str | None = None) -> None:
        self._module = module
        self.__name__ = self.name = module.original_name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._module.forward(*args, **kwargs)

    @property
    def graph(self) -> Listing:
        """Its graph; it prints in TorchScript's style."""
        return self._module.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """It as Python, of the calls in its graph."""
        return code_of(self._module._graphs["forward"], self.name)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write it to a file; see `jit.save`.

        Args:
            f, _extra_files: As there.
        """
        save(self, f, _extra_files)


def own(module: Module) -> dict[str, Any]:
    """The attributes that a module has besides tensors, modules and what every module has."""
    plain = ScriptModule() if isinstance(module, ScriptModule) else Module()
    return {k: v for k, v in vars(module).items() if k not in plain.__dict__}


def is_layer(module: Any) -> bool:
    """Whether a module is one of pyframe.nn's own, which files may name."""
    kind = type(module)
    return getattr(nn, kind.__name__, None) is kind


def shell(
    module: Module | None, name: str, script: bool = False, kind: Any = TopLevelTracedModule
) -> Any:
    """A ScriptModule with the parameters, buffers and modules of another, which it shares. In a
    `script` the layers of pyframe.nn stay what they are."""
    if module is None or isinstance(module, ScriptModule):
        return ScriptModule(name) if module is None else module
    if script and is_layer(module):
        out: Any = type(module).__new__(type(module))
        out.__dict__.update({
            k: copy.copy(v) if k in _DICTS else v for k, v in module.__dict__.items()
        })  # fmt: skip
    else:
        out = (RecursiveScriptModule if script else kind)(type(module).__name__)
        out.__dict__["training"] = module.training
        for key in ("_parameters", "_buffers", "_non_persistent_buffers_set"):
            out.__dict__[key] = copy.copy(module.__dict__[key])
        for key, value in vars(module).items():
            with suppress(GraphError):
                if key not in out.__dict__ and not hasattr(ScriptModule, key):
                    out.__dict__[key] = decode(encode(value))
    for key, child in module._modules.items():
        out._modules[key] = None if child is None else shell(child, key, script, TracedModule)
    return out


def as_script(layer: Module) -> ScriptModule:
    """A layer of pyframe.nn, as the whole of a ScriptModule, whose graph may call it."""
    out = RecursiveScriptModule(type(layer).__name__)
    out.__dict__.update({k: layer.__dict__[k] for k in _DICTS})
    out.__dict__.update(_layer=layer, training=layer.training)
    return out


_DICTS = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


def with_constants(out: ScriptModule, graph: Graph, method: str, found: dict[str, Any]) -> None:
    """Give a module a graph, and the tensors of other places that it reads."""
    for name, x in found.items():
        key = name
        while key in out._buffers:
            key = f"{key}_"
        if name in graph.state:
            graph.state[key] = graph.state.pop(name)
            if isinstance(x, Module):
                out._modules[key] = x
            else:
                out.register_buffer(key, x.detach(), persistent=False)
    out._graphs[method] = graph


# --- trace


class TracingCheckError(Exception):
    """A trace can't be run as the function can."""


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
    _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """The graph of one run of a function or a Module, as a ScriptFunction or a ScriptModule.

    What the code calculates of sizes is recorded as formulas, so that other sizes may follow. What
    it decides by values of tensors is decided for good: a TracerWarning says the line. The trace is
    run again beside the function, also on `check_inputs`; a TracerWarning says where they differ.

    Args:
        func: A Module, a function, or a method of a Module.
        example_inputs: The arguments of the run: a tuple or a list, or one of them.
        example_kwarg_inputs: Those by name.
        check_trace: Whether to run the trace again.
        check_inputs: More arguments, a tuple for each run.
        check_tolerance: How far values may differ, relatively and absolutely.
        optimize, strict, _force_outplace, _module_class, _compilation_unit, _store_inputs: Nothing
            is done with them.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    kwargs = dict(example_kwarg_inputs or {})
    if example_inputs is None and not kwargs:
        raise RuntimeError("trace: expected example_inputs or example_kwarg_inputs")
    args = _arguments(example_inputs) if example_inputs is not None else ()
    module = func if isinstance(func, Module) else None
    owner = getattr(func, "__self__", None)
    if module is None and isinstance(owner, Module):
        checks = [args, *map(_arguments, check_inputs or ())] if check_trace else []
        out = shell(owner, "")
        _trace_method(out, owner, func.__name__, args, kwargs, checks, check_tolerance)
        return out
    name = "" if module is not None else getattr(func, "__name__", "function")
    out = shell(module, name)
    _trace(out, "forward", func, module, args, kwargs)
    found = out if module is not None else ScriptFunction(out, func.__doc__)
    if check_trace:
        more = [_arguments(x) for x in check_inputs or ()]
        for example in [args, *more]:
            _check(func, found, module, example, kwargs, check_tolerance)
    return found


def _arguments(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
    check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, **others: Any,
) -> ScriptModule:  # fmt: skip
    """A ScriptModule with the graphs of several methods, of a run with these inputs each.

    Args:
        mod: The Module.
        inputs: The arguments by the name of the method, {"forward": x, …}.
        check_inputs: More of `inputs`, a dict for each run.
        check_trace, check_tolerance: As of `trace`.
        optimize, strict, others: Nothing is done with them.
    """
    out = shell(mod, "")
    for name, example in inputs.items():
        args = _arguments(example)
        more = [_arguments(given[name]) for given in check_inputs or () if name in given]
        _trace_method(out, mod, name, args, {}, [args, *more] * check_trace, check_tolerance)
    return out


def _trace_method(
    out: ScriptModule, mod: Module, name: str, args: Any, kwargs: Any, checks: Any, tolerance: float
) -> None:
    """Give `out` the graph of a method, and run both with each of the arguments to check."""
    fn = mod if name == "forward" else getattr(mod, name)
    _trace(out, name, fn, mod, args, kwargs)
    for example in checks:
        ours = out if name == "forward" else getattr(out, name)
        _check(fn, ours, mod, example, kwargs, tolerance)


def _trace(out: ScriptModule, method: str, fn: Any, module: Any, args: Any, kwargs: Any) -> None:
    given = leaves((args, kwargs))
    dims: dict[tuple[int, int], str] = {}
    hints: dict[str, int] = {}
    for i, x in enumerate(given):
        for d, n in enumerate(x.shape):
            if n >= 2 or d == 0:
                dims[i, d] = f"s{len(dims)}"
                if n < 2:  # which says nothing of others
                    hints[dims[i, d]] = 5
    try:
        graph, constants, guards = record(
            fn, args, kwargs, module=module, dims=dims, hints=hints
        )  # fmt: skip
        if hints:  # is it what the code does with a size of 1, too?
            others = {place: name for place, name in dims.items() if name not in hints}
            as_given = record(fn, args, kwargs, module=module, dims=others)
            now = {name: given[i].shape[d] for (i, d), name in dims.items()}
            if not _alike(_said(graph), _said(as_given[0]), now):
                graph, constants, guards = as_given
    except (Exception, DynamicShapeError):  # it looks at values, or can't do with other sizes
        graph, constants, _ = record(fn, args, kwargs, module=module, values=True)
    else:
        for line in dict.fromkeys(line for _, line in guards.pinned):
            warn(line, "converting a size to a Python integer might cause the trace to be "
                     "incorrect: it is treated as a constant in the future")  # fmt: skip
    with_constants(out, graph, method, constants)


def _said(graph: Graph) -> Any:
    return [graph.outputs, *[(n.function, n.args, n.kwargs, n.out) for n in graph.nodes]]


def _alike(a: Any, b: Any, sizes: dict[str, int]) -> bool:
    """Whether two parts of graphs say the same for these sizes."""
    if isinstance(a, dict) and isinstance(b, dict):
        a, b = list(a.items()), list(b.items())
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_alike(x, y, sizes) for x, y in zip(a, b, strict=True))
    a, b = (value_of(x.formula, sizes) if isinstance(x, SizeExpr) else x for x in (a, b))
    return type(a) is type(b) and bool(a == b)


def _check(fn: Any, ours: Any, module: Any, args: Any, kwargs: Any, tolerance: float) -> None:
    """Run both with the same random numbers, and warn where they differ."""
    buffers = [] if module is None else [(b, b.clone()) for b in module.buffers()]
    grads = [] if module is None else [(p, p.grad) for p in module.parameters()]

    def run(f: Callable[..., Any]) -> list[Tensor]:
        for p, _ in grads:
            p.grad = None
        with pf.fork_rng():
            pf.manual_seed(0)
            found = f(*[_copied(a) for a in args], **{k: _copied(v) for k, v in kwargs.items()})
        with no_grad():
            for b, before in buffers:
                b.copy_(before)
        for p, grad in grads:
            p.grad = grad
        return [x.detach().cpu() for x in leaves(found)]

    expected = run(fn)
    try:
        found = run(ours)
    except Exception as error:
        raise TracingCheckError(f"the trace can't be run as the function can: {error}") from error
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        near = a.shape == b.shape and a.dtype is b.dtype
        if near and a.numel():
            apart = (a.to(pf.complex128) - b.to(pf.complex128)).abs()
            least = tolerance + tolerance * b.to(pf.complex128).abs()
            near = bool(((apart <= least) | (a == b) | ((a != a) & (b != b))).all())
        if not near:
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding "
                f"output of the Python function: {list(a.shape)} {a.dtype} and {list(b.shape)} "
                f"{b.dtype}, or values that differ by more than {tolerance}",
                TracerWarning, stacklevel=4,
            )  # fmt: skip


def _copied(x: Any) -> Any:
    return tree_map(x, lambda t: t.detach().clone().requires_grad_(t.requires_grad))


def is_tracing() -> bool:
    """Whether a graph is being recorded in this thread."""
    return mode.tracer is not None


# --- files


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a ScriptModule or a ScriptFunction to a file (a path, or what has `write`): a zip with
    its graphs as JSON and its tensors as safetensors, and no pickle. `_extra_files` are texts or
    bytes by their names, which `load` gives back.

    Args:
        m: What is written; TypeError for anything else.
        f: The file.
    """
    module = m._module if isinstance(m, ScriptFunction) else m
    if not isinstance(module, ScriptModule):
        raise TypeError(
            f"jit.save: expected a ScriptModule or a ScriptFunction, got {type(m).__name__}; "
            "jit.trace or jit.script makes one"
        )
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    first: dict[int, str] = {}
    modules: dict[str, Any] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        fields: dict[str, Any] = {}
        for kind, held in (("parameters", part._parameters), ("buffers", part._buffers)):
            fields[kind] = {}
            for key, x in held.items():
                unkept = key in part._non_persistent_buffers_set
                fields[kind][key] = None if x is None else x.requires_grad or (unkept and "")
                if x is None:
                    continue
                known = first.setdefault(id(x), prefix + key)
                if known == prefix + key:
                    tensors[known] = x.detach().contiguous().cpu()
                else:
                    same[prefix + key] = known
        about: dict[str, Any] = {"name": getattr(part, "original_name", ""), "graphs": {}}
        if isinstance(part, ScriptModule):
            about["graphs"] = {k: encoded(g) for k, g in part._graphs.items()}
        layer = part._layer if isinstance(part, ScriptModule) else part
        if layer is not None:
            about["class"] = type(layer).__name__
        about["attributes"] = _attributes(part if layer is None else layer)
        modules[path] = {
            **about, "training": part.training, **fields,
            "children": [k for k, v in part._modules.items() if v is not None],
        }  # fmt: skip
    text = {"format": FORMAT, "version": 1, "function": m is not module, "modules": modules,
            "same": same}  # fmt: skip
    parts = {
        "model.json": json.dumps(text).encode(),
        "weights.safetensors": safetensors.save(tensors),
    }
    for name, data in (_extra_files or {}).items():
        parts[f"extra/{name}"] = data.encode() if isinstance(data, str) else bytes(data)
    if isinstance(f, (str, os.PathLike)):
        with replacing(f) as file:
            _write(file, parts)
    else:
        _write(f, parts)


def _attributes(layer: Module) -> dict[str, Any]:
    """What a layer of pyframe.nn, or a ScriptModule, has besides tensors and modules."""
    try:
        return {k: encode(v) for k, v in own(layer).items()}
    except GraphError as error:
        raise GraphError(f"jit.save: {type(layer).__name__}: {error}") from None


def _module(about: dict[str, Any]) -> Module:
    """A layer of pyframe.nn from a file, or a module with graphs."""
    if "class" not in about:
        return RecursiveScriptModule(_the(str, about.get("name"), "a name"))
    name = _the(str, about["class"], "the name of a layer")
    kind = vars(nn).get(name)
    if not (isinstance(kind, type) and issubclass(kind, Module)):
        raise GraphError(f"the file has a layer {name[:40]!r}, which pyframe.nn has not")
    out = kind.__new__(kind)
    Module.__init__(out)
    return out


def _the(kind: type, x: Any, what: str) -> Any:
    """A part of a file, which is of this kind."""
    if not isinstance(x, kind):
        raise GraphError(f"expected {what}, got {str(x)[:40]!r}")
    return x


def _give_attributes(part: Module, found: dict[str, Any]) -> None:
    """Give a module its plain attributes: none that it has, and no method."""
    kind = type(part)
    for key, value in found.items():
        method = getattr(kind, key, None)
        scripted = isinstance(part, ScriptModule)
        known = method is not None if scripted else callable(method)
        if key in part.__dict__ or key.startswith("__") or known:
            raise GraphError(f"a {kind.__name__} in the file has an attribute {str(key)[:40]!r}")
        part.__dict__[key] = decode(value)
        mapped(part.__dict__[key], functools.partial(_plain, key))


def _plain(key: str, x: Any) -> None:
    if isinstance(x, (Ref, SizeExpr, ConstArg, GraphDevice)):
        raise GraphError(
            f"the attribute {key[:40]!r} is {str(x)[:40]!r}, which is a part of graphs"
        )


def _write(file: Any, parts: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> Any:
    """The ScriptModule or ScriptFunction in a file that `save` wrote, on `map_location`.

    GraphError, a ValueError, for a damaged file, one of PyTorch's, or of an unknown version.

    Args:
        f: A path, or what has `read` and `seek`.
        map_location: A device; None is the CPU.
        _extra_files: A dict, whose values become the bytes that were saved under its keys.
        _restore_shapes: Nothing is done with it.
    """
    name = f if isinstance(f, (str, os.PathLike)) else "the file"
    device = None if map_location is None else pf.device(map_location)
    try:
        with zipfile.ZipFile(f) as archive:
            parts = {i.filename: i for i in archive.infolist()}
            if "model.json" not in parts or "weights.safetensors" not in parts:
                of_torch = any(n.endswith(("data.pkl", "constants.pkl")) for n in parts)
                raise GraphError(
                    f"{name}: expected a file of jit.save"
                    + (", got one of PyTorch's: load its state_dict there, and save that"
                       if of_torch else "")
                )  # fmt: skip
            if any(i.compress_type != zipfile.ZIP_STORED for i in parts.values()):
                raise GraphError(f"{name}: its parts are compressed, which jit.save does not do")
            text = json.loads(archive.read("model.json"))
            weights = safetensors.load(archive.read("weights.safetensors"))
            for key in _extra_files if _extra_files is not None else ():
                if f"extra/{key}" in parts:
                    _extra_files[key] = archive.read(f"extra/{key}")
        return _module_of(text, weights, device)
    except GraphError as error:
        told = str(error)
        raise GraphError(told if told.startswith(str(name)) else f"{name}: {told}") from error
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, EOFError,
            RecursionError, NotImplementedError, RuntimeError, OSError) as error:  # fmt: skip
        raise GraphError(f"{name} is damaged, or no file of jit.save: {error}") from error


def _module_of(text: Any, weights: dict[str, Tensor], device: Any) -> Any:
    of, version = (text.get(k) for k in ("format", "version")) if type(text) is dict else (text, "")
    if of != FORMAT or version != 1:
        raise GraphError(
            f"the file is a {str(of)[:40]} of version {str(version)[:20]}; "
            f"this pyframe reads {FORMAT} of version 1"
        )
    modules = _the(dict, text.get("modules"), "modules")
    same = _the(dict, text.get("same"), "names")
    made: dict[str, Any] = {}
    placed: dict[str, Tensor] = {}

    def tensor(key: str, trains: Any) -> Tensor:
        key = same.get(key, key)
        if key not in placed:
            if key not in weights:
                raise GraphError(f"it has no weights {str(key)[:80]!r}")
            x = weights[key] if device is None else weights[key].to(device)
            placed[key] = Parameter(x, bool(trains)) if type(trains) is bool else x
        return placed[key]

    def read(path: str, about: Any) -> None:
        _the(dict, about, "a module")
        part = made[path] = _module(about)
        _give_attributes(part, _the(dict, about.get("attributes", {}), "attributes"))
        part.__dict__["training"] = bool(about.get("training"))
        prefix = f"{path}." if path else ""
        for key, trains in _the(dict, about.get("parameters"), "parameters").items():
            p: Any = None if trains is None else tensor(prefix + key, bool(trains))
            part.register_parameter(key, p)
        for key, trains in _the(dict, about.get("buffers"), "buffers").items():
            x: Any = None if trains is None else tensor(prefix + key, "")
            part.register_buffer(key, x, persistent=trains != "")
        graphs = _the(dict, about.get("graphs"), "graphs")
        if graphs and not isinstance(part, ScriptModule):
            part = made[path] = as_script(part)
        for name, graph in graphs.items():
            part._graphs[name] = decoded(graph, device)

    def joined(path: str, about: Any) -> None:
        for key in _the(list, about.get("children"), "the names of modules"):
            inner = f"{path}.{key}" if path else key
            if not isinstance(key, str) or not key or "." in key or inner not in made:
                raise GraphError(f"it has no module {str(key)[:40]!r}")
            made[path]._modules[key] = made[inner]

    def stated(path: str, about: Any) -> None:
        for method, graph in getattr(made[path], "_graphs", {}).items():
            for key, ref in graph.state.items():
                try:
                    made[path]._state(key)
                except GraphError as error:
                    nodes = enumerate(graph.all_nodes())
                    used = next((f"node {i} ({n.function})" for i, n in nodes
                                 if ref in refs((n.args, n.kwargs))), "its result")  # fmt: skip
                    raise GraphError(f"{method[:40]}, {used}: {error}") from None

    for step in (read, joined, stated):
        for path, about in modules.items():
            try:
                step(path, about)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError,
                    RecursionError) as error:  # fmt: skip
                raise GraphError(f"the module {path[:80]!r}: {error}") from error
    if "" not in made:
        raise GraphError("it has no module ''")
    return ScriptFunction(_the(ScriptModule, made[""], "a graph")) if text.get("function") else (
        made[""]
    )  # fmt: skip


def freeze(
    mod: ScriptModule, preserved_attrs: Any = None, optimize_numerics: bool = True,
    preserve_parameters: bool = False,
) -> ScriptModule:  # fmt: skip
    """A module in evaluation mode as a graph with constants, without parameters and modules.

    Args:
        mod: A ScriptModule in evaluation mode; RuntimeError otherwise.
        preserved_attrs: Names of methods and attributes that stay beside `forward`.
        optimize_numerics, preserve_parameters: Nothing is done with them.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    out = RecursiveScriptModule(mod.original_name)
    out.__dict__["training"] = False
    for method in ["forward", *(preserved_attrs or ())]:
        graph = mod._graphs.get(method)
        if graph is None:
            setattr(out, method, getattr(mod, method))
            continue
        again = decoded(encoded(graph))
        for name in list(again.state):
            value = mod._state(name)
            flat = name.replace(".", "_") or "layer"
            again.state[flat] = again.state.pop(name)
            if isinstance(value, Tensor):
                if flat not in out._buffers:
                    out.register_buffer(flat, value.detach(), persistent=False)
            elif isinstance(value, Module):
                out._modules[flat] = layer = copy.deepcopy(value)
                for part in layer.modules():
                    held = {
                        k: None if p is None else p.detach() for k, p in part._parameters.items()
                    }
                    part.__dict__.update(_parameters={}, _buffers={**part._buffers, **held})
            else:
                ref = again.state.pop(flat)
                again.nodes.insert(0, CallNode("code.value", (value,), {}, ref))
        out._graphs[method] = again
    return out


def optimize_for_inference(mod: ScriptModule, other_methods: Any = None) -> ScriptModule:
    """`freeze`; what is computed together is decided when it runs, by `pf.compile` too.

    Args:
        mod: A ScriptModule, which goes to evaluation mode.
        other_methods: Names of methods that stay beside `forward`.
    """
    return freeze(mod.eval(), other_methods)
