"""What a net is made of: its layers, what they give, hold and compute."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pyframe as pf
from pyframe import nn
from pyframe.core.op import MOVEMENT
from pyframe.core.words import columns
from pyframe.nn.parameter import is_lazy
from pyframe.tools.cost import op_flops, si
from pyframe.tools.flow import watched
from pyframe.train import check, data
from pyframe.train.history import table
from pyframe.train.words import seen

HEAD = ("layer", "output", "parameters", "FLOPs")


class SummaryRow(NamedTuple):
    """A row of a Summary."""

    name: str  # as in the state_dict; "" is the net itself
    type: str
    output: Any  # shapes, nested as the output is
    parameters: int  # its own, and not those of a layer before that shares them
    trained: int  # of these
    flops: int  # for a sample, by its own ops and not by layers in it
    calls: int
    shares: bool = False  # whether it has parameters that a layer before has too

    @property
    def title(self) -> str:
        """'0.conv: Conv2d', and how often it is called if more than once."""
        times = f" ×{self.calls}" if self.calls > 1 else ""
        return f"{self.name}: {self.type}{times}" if self.name else self.type + times

    def cells(self) -> tuple[str, str, str, str]:
        """What stands in the columns of HEAD."""
        count = "shared" if self.shares and not self.parameters else f"{self.parameters:,}"
        ran = self.calls > 0
        output, flops = (_shapes(self.output), si(self.flops)) if ran else ("", "")
        return self.title, output, count, flops


class Summary(str):
    """The table as text, which notebooks show as one; its numbers are attributes."""

    layers: list[SummaryRow]
    parameters: int  # each counted once
    trained: int
    bytes: int  # of the parameters
    buffer_bytes: int  # of what else the net holds, such as running means
    flops: int | None  # for a sample, in forward; None without an input
    activation_bytes: int | None  # for a sample: the outputs of the layers
    _rows: list[tuple[str, ...]]
    _foot: list[str]

    def __new__(
        cls, layers: list[SummaryRow], net: nn.Module, flops: int | None, activations: int | None
    ) -> Self:
        """From the layers, the net and what a sample costs."""
        params = [p for p in net.parameters() if not is_lazy(p)]
        total = sum(p.numel() for p in params)
        trained = sum(p.numel() for p in params if p.requires_grad)
        size = sum(p.nbytes for p in params)
        buffers = sum(b.nbytes for b in net.buffers() if not is_lazy(b))
        shown = 3 if flops is None else 4
        rows = [HEAD[:shown], *[layer.cells()[:shown] for layer in layers]]
        foot = [f"{total:,} parameters ({trained:,} trained), {_size(size)}"]
        if buffers:
            foot.insert(0, f"{_size(buffers)} of buffers")
        if flops is not None and activations is not None:
            foot.insert(0, f"for a sample: {si(flops)} FLOPs, {_size(activations)} of outputs")
        self = super().__new__(cls, "\n".join([columns(rows, (1, len(rows)), left=2), *foot]))
        self.layers, self.parameters, self.trained, self.bytes = layers, total, trained, size
        self.buffer_bytes, self.flops, self.activation_bytes = buffers, flops, activations
        self._rows, self._foot = rows, foot
        return self

    def __repr__(self) -> str:  # a prompt shows it after the table was printed
        return f"<Summary of {len(self.layers)} layers, {self.parameters:,} parameters>"

    def _repr_html_(self) -> str:
        head, *body = self._rows
        foot = "<br>".join(map(html.escape, self._foot))
        return f"{table(head, body, ('left', 'left', 'right', 'right'))}<p>{foot}</p>"


def _size(n: int) -> str:
    """Bytes as '0.5 KiB'."""
    if n < 100:
        return f"{n} B"
    size = n / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:,.1f} {unit}"


def _shapes(tree: Any) -> str:
    """Shapes as they are nested; 'N' stands for the number of samples."""
    if isinstance(tree, _Shape):
        return f"[{', '.join(map(str, tree))}]"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k}: {_shapes(v)}" for k, v in tree.items()) + "}"
    return f"({', '.join(map(_shapes, tree))})" if isinstance(tree, list) else str(tree)


class _Shape(tuple[Any, ...]):
    """The shape of a tensor, told apart from a tuple of several."""


# --- running it


class _Call:
    """What a module did."""

    def __init__(self) -> None:
        self.flops = self.count = 0
        self.output: Any = None


class _Costs:
    """Is told of modules and ops as they run: see `Watch` of tools/flow.py."""

    def __init__(self, net: nn.Module, samples: int) -> None:
        self.samples = samples
        self.calls = {id(m): _Call() for m in net.modules()}
        self.stack = [_Call()]  # the modules that run
        self.outputs: dict[int, Any] = {}  # the memory that leaves write to, kept alive

    def begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.stack.append(self.calls[id(module)])

    def end(self, module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        call = self.stack.pop()
        call.count += 1
        call.output = self.shapes(out)
        if next(module.children(), None) is None or call.flops:
            for x in data.tensors(out):
                self.outputs.setdefault(id(x._storage), x)

    def op(self, op: Any, inputs: Sequence[pf.Tensor], out: pf.Tensor) -> None:
        if op.kind != MOVEMENT and any(x.is_floating_point() or x.is_complex() for x in inputs):
            shapes = [tuple(x.shape) for x in inputs]
            self.stack[-1].flops += op_flops(op, shapes, tuple(out.shape))

    def write(self, x: pf.Tensor, value: pf.Tensor) -> None:
        """It computes nothing."""

    def shapes(self, out: Any) -> Any:
        """The shapes of an output; of what has none its type."""
        if isinstance(out, pf.Tensor):
            first = ["N"] if out.ndim and out.shape[0] == self.samples else out.shape[:1]
            return _Shape((*first, *out.shape[1:]))
        if isinstance(out, Mapping):
            return {k: self.shapes(v) for k, v in out.items()}
        if isinstance(out, list | tuple):
            return [self.shapes(v) for v in out]
        return None if out is None else type(out).__name__


def _zeros(size: Any, dtype: Any, floats: Any, device: Any) -> Any:
    """Zeros for the shape of a sample, or for several, nested as they are."""
    if isinstance(size, Mapping):
        of = dtype if isinstance(dtype, Mapping) else dict.fromkeys(size, dtype)
        return {k: _zeros(v, of.get(k), floats, device) for k, v in size.items()}
    several = isinstance(size, tuple | list) and bool(size)
    if several and all(isinstance(s, tuple | list | Mapping) for s in size):
        kinds = dtype if isinstance(dtype, tuple | list) else [dtype] * len(size)
        return tuple(_zeros(s, k, floats, device) for s, k in zip(size, kinds, strict=True))
    size = check.sample_shape(size)
    return pf.zeros(1, *size, dtype=dtype or floats, device=device)


def summarize(
    net: nn.Module, input_size: Any = None, dtype: Any = None, input_data: Any = None
) -> Summary:
    """The Summary of a net: its layers and, for an input, the shapes of what they give, FLOPs and
    memory. Layers that hold no others are listed, and others that compute or learn by themselves.

    `input_size` is the shape of one sample, without its batch dim, or a tuple or dict of shapes for
    several inputs; `dtype`, one or nested likewise, is the inputs' (that of the parameters).
    `input_data` is a batch instead: a tensor, array, tuple or dict. The net runs on it once, in
    evaluation mode and without gradients. A product of (N, K) and (K, M) counts 2NKM FLOPs.

    ValueError where both are given; what forward raises has a note of what it was given.
    """
    if input_size is not None and input_data is not None:
        raise ValueError("summary: give input_size or input_data, not both")
    first = next((p for p in net.parameters() if not is_lazy(p)), None)
    floats = next((p.dtype for p in net.parameters() if p.is_floating_point()), None)
    device = pf.get_default_device() if first is None else first.device
    if input_data is not None:
        inputs = data.to_device("summary", data.tree("summary", "x", input_data), device, floats)
    elif input_size is not None:
        inputs = _zeros(input_size, dtype, floats, device)
    else:
        return Summary(list(_layers(net, {})), net, None, None)
    costs = _run(net, inputs)
    n = costs.samples
    layers = list(_layers(net, costs.calls, n))
    flops = sum(call.flops for call in (*costs.calls.values(), costs.stack[0]))
    memory = sum(x.nbytes for x in costs.outputs.values())
    return Summary(layers, net, round(flops / n), round(memory / n))


def _run(net: nn.Module, inputs: Any) -> _Costs:
    tensors = data.tensors(inputs)
    if not tensors or any(not x.ndim for x in tensors):
        raise ValueError(f"summary: expected a batch of inputs, got {seen(inputs)}")
    costs = _Costs(net, max(1, len(tensors[0])))
    try:
        watched(costs, net, data.call, net, inputs)
    except Exception as e:
        given = ", ".join(f"{[*x.shape]} of {x.dtype}" for x in tensors)
        e.add_note(
            f"summary ran the net on {given}; input_size is the shape of one sample, dtype its "
            "type, and input_data takes a batch"
        )
        raise
    return costs


def _layers(net: nn.Module, calls: Mapping[int, _Call], samples: int = 1) -> Iterator[SummaryRow]:
    known: set[int] = set()
    for name, m in net.named_modules():
        call = calls.get(id(m)) or _Call()
        own = list(m.parameters(recurse=False))
        if next(m.children(), None) is not None and not own and not call.flops:
            continue
        new = [p for p in own if id(p) not in known and not is_lazy(p)]
        shares = any(id(p) in known for p in own)
        known.update(map(id, own))
        yield SummaryRow(
            name, type(m).__name__, call.output, sum(p.numel() for p in new),
            sum(p.numel() for p in new if p.requires_grad), round(call.flops / samples),
            call.count, shares,
        )  # fmt: skip
