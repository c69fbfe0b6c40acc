"""A loaded model as a Module."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.onnx import operators as operators, values
from pyframe.onnx.files import Reader
from pyframe.onnx.graph import Build, Constants, GraphPlan, RunContext, opsets_of
from pyframe.tensor import Tensor

KINDS = {"float": "fc", "int": "iu", "bool": "b"}
MAX_NAME_PARTS = 32  # of a name, which are modules within each other


class _ParameterPath(nn.Module):
    """A part of the parameters' names, which have dots."""


class OnnxModule(nn.Module):
    """A model of others: `load` makes it.

    Its inputs come by position or by their names, as tensors, or as NumPy arrays and numbers; ints
    and bools that come so are known on the host, where they decide sizes and branches. One output
    is a Tensor, several are a tuple. float constants of the file are parameters, whose names are
    those of the file; it begins in evaluation mode.

    Args:
        source: As of `load`.
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        reader = Reader(source)
        constants = Constants()
        build = Build(reader.model, reader, constants)
        model = reader.model
        self.opsets = opsets_of(model)
        self.name = str(model.graph.name)
        self._plan = GraphPlan(build, model.graph, self.opsets)
        self.input_names, self.output_names = self._plan.input_names, self._plan.output_names
        self._declared = [_declared(v) for v in model.graph.input if v.name in self.input_names]
        self._places: list[tuple[nn.Module, str]] = []
        self._keep(constants, {t.name for t in model.graph.initializer})
        self.eval()

    def _keep(self, constants: Constants, lasting: set[str]) -> None:
        taken: dict[Any, int] = {}  # how often a name was there already
        for name, array, trained in zip(
            constants.names, constants.arrays, constants.trained, strict=True
        ):
            holder: nn.Module = self
            *parts, last = name.split(".")
            if len(parts) >= MAX_NAME_PARTS or not all((*parts, last)):
                parts, last = [], name.replace(".", "_")
            for i, part in enumerate(parts):
                inner = holder._modules.get(part)
                if inner is None and hasattr(holder, part):  # another's name begins like this one
                    parts, last = [], "_".join([*parts[i:], last])
                    break
                if inner is None:
                    holder.add_module(part, inner := _ParameterPath())
                holder = inner
            if hasattr(holder, last):
                key, last = (holder, last), last + "_"
                taken[key] = taken.get(key, 0) + 1
                last += str(taken[key]) if taken[key] > 1 else ""
            while hasattr(holder, last):
                last += "_"
            tensor = values.tensor(array)
            if trained:
                holder.register_parameter(last, nn.Parameter(tensor))
            else:
                holder.register_buffer(last, tensor, persistent=name in lasting)
            self._places.append((holder, last))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's outputs.

        Args:
            args, kwargs: Its inputs, in order or by name.
        """
        if len(args) > len(self.input_names):
            raise TypeError(f"expected {len(self.input_names)} inputs, got {len(args)}")
        said = dict(zip(self.input_names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.input_names or name in said:
                raise TypeError(f"{name!r} is no input, or comes twice; it has {self.input_names}")
            said[name] = value
        constants: list[Any] = [getattr(holder, name) for holder, name in self._places]
        given = [said.get(name) for name in self.input_names]
        tensors = [v for v in (*constants, *given) if isinstance(v, Tensor)]
        device = tensors[0].device if tensors else None
        for i, (name, declared) in enumerate(zip(self.input_names, self._declared, strict=True)):
            given[i] = _checked(name, given[i], declared, device)
        run = RunContext(constants, self.training, device)
        found = [run.tensor(v) if _fits(v) else v for v in self._plan.run(run, [], given)]
        return found[0] if len(found) == 1 else tuple(found)

    def extra_repr(self) -> str:
        sets = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in self.opsets.items())
        said = [f"{self.name!r}", f"opset={sets}", f"nodes={sum(1 for _ in self._plan)}"]
        said.append(f"inputs={self.input_names}")
        said.append(f"outputs={self.output_names}")
        return ", ".join(said)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _declared(value: Any) -> tuple[Any, int | None, bool] | None:
    """dtype and number of dims of an input, and whether it may be absent; None where it is no
    tensor."""
    kind = value.type
    optional = kind.HasField("optional_type")
    if optional:
        kind = kind.optional_type.elem_type
    if not kind.HasField("tensor_type"):
        return (None, None, True) if optional else None
    tensor = kind.tensor_type
    ndim = len(tensor.shape.dim) if tensor.HasField("shape") else None
    try:
        dtype = values.numpy_dtype(tensor.elem_type) if tensor.elem_type else None
    except KeyError:
        raise ValueError(
            f"the input {value.name!r} is of the unknown type {tensor.elem_type}"
        ) from None
    return dtype, ndim, optional


def _fits(value: Any) -> bool:
    return isinstance(value, np.ndarray) and values.dtype_of(value) is not None


def _checked(name: str, value: Any, declared: Any, device: Any) -> Any:
    """An input as the graph takes it."""
    if isinstance(value, list | tuple):
        return [v if isinstance(v, Tensor | None) else np.asarray(v) for v in value]
    if value is None:
        if declared is not None and not declared[2]:
            raise TypeError(f"the input {name!r} is missing")
        return None
    if declared is None:
        return value
    dtype, ndim, _ = declared
    if not isinstance(value, Tensor):
        value = np.asarray(value)
        if value.dtype.kind == "O":
            value = value.astype(str)
        kinds = (value.dtype.kind, dtype.kind if dtype is not None else value.dtype.kind)
        if kinds in (("f", "f"), ("i", "i"), ("i", "f"), ("b", "i"), ("i", "u"), ("u", "i")):
            value = value.astype(dtype)  # numbers of Python's
        if value.dtype.kind in "fc" and _fits(value):
            value = values.tensor(value, device)
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"the input {name!r} has {ndim} dims, got {value.ndim}")
    kind = _kind(value)
    if dtype is not None and kind != _kind(np.empty(0, dtype)):
        raise TypeError(f"the input {name!r} is of {dtype}, got {value.dtype}")
    return value


def _kind(value: Any) -> str:
    """Whether numbers are float, int and so on: of which width they are the operators decide."""
    dtype = value.dtype if isinstance(value, Tensor) else values.dtype_of(value)
    if dtype is None:
        return "str" if value.dtype.kind == "U" else str(value.dtype)
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "bool" if dtype is pf.bool else "int"
