"""Files of `jit.save` whose graphs nobody recorded: calls of each op and each public function with
other arguments, damaged graphs, and modules with attributes of others. They are read and run in
`reading.py`, at once and compiled, with gradients."""

from __future__ import annotations

import functools
import io
import json
import sys
import warnings
import zipfile
from typing import Any

import pyframe as pf
from pyframe.core.op import REGISTRY
from pyframe.jit import calls, graph as graphs, modules
from pyframe.jit.record import record

from .backends import ROOT
from .families import Draw, family
from .files import File, changes, mutated, node_at, paths, pieces

if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

from samples import ROWS

# What stands in the place of an argument: as JSON has it
NUMBERS = [0, 1, -1, 2, 3, -2, 5, 7, 64, 1000, 1 << 20, 1 << 31, -(1 << 31), 1 << 33, 1 << 40, 1 << 62,
           -(1 << 63), 1 << 63, 10**25, 0.5, -1.5, 1e300, {"float": "nan"}, {"float": "inf"}]  # fmt: skip
OTHERS = [None, True, False, "", "mean", "sum", "reflect", "circular", "bilinear", "x" * 100, "../x",
          "__class__", {"dtype": "int8"}, {"dtype": "float64"}, {"dtype": "complex64"}, {"dtype": "bool"},
          {"device": None}, {"device": "cpu"}, {"ellipsis": None}, {"format": "channels_last"}, [], {"dict": []},
          {"slice": [None, None, -1]}, {"slice": [1 << 40, None, 1 << 40]}, {"complex": ["0", "1"]},
          {"const": [1 << 40, "int64"]}, {"const": [0, "int32"]}, {"size": ["<<", 1, 60]}, {"ref": "self."}]  # fmt: skip
VIEWS = """Tensor.as_strided  Tensor.as_strided_  as_strided_scatter  Tensor.set_  Tensor.resize_  op.expand
    op.reshape  op.permute  Tensor.expand  Tensor.view  Tensor.unfold  Tensor.narrow  diagonal  select
    Tensor.__getitem__  Tensor.__setitem__  empty_strided  Tensor.swapdims_  Tensor.squeeze_  take
    gather  index_select  Tensor.index_put_  Tensor.scatter_  Tensor.put_  nn.functional.embedding
    Tensor.index_add_  Tensor.index_copy_  Tensor.index_fill_  nn.functional.max_unpool1d  split
    slice_scatter  roll  flip  nn.functional.pad  searchsorted  bincount  nn.functional.ctc_loss
    nn.functional.grid_sample  nn.functional.fold  nn.functional.unfold  view_as_complex  Tensor.copy_
    nn.functional.embedding_bag  nn.functional.cross_entropy  nn.functional.nll_loss  kthvalue"""
ODD = {
    "o_float": pf.linspace(-2, 2, 12).reshape(3, 4), "o_double": pf.ones(4, dtype=pf.float64),
    "o_half": pf.ones(2, 3, dtype=pf.float16), "o_int": pf.tensor([-5, 0, 3, 1 << 40]),
    "o_index": pf.tensor([[0, 1], [2, 99]]), "o_bool": pf.tensor([True, False, True]),
    "o_none": pf.zeros(0, 3), "o_scalar": pf.tensor(3), "o_zero": pf.tensor(0.0),
    "o_complex": pf.ones(2, 2, dtype=pf.complex64), "o_byte": pf.arange(8, dtype=pf.uint8),
    "o_deep": pf.ones(2, 1, 2, 1, 2, 1), "o_nan": pf.tensor([float("nan"), 1.0, float("inf")]),
    "o_large": pf.ones(300, 70), "o_minus": pf.tensor(-1, dtype=pf.int32),
}  # fmt: skip


def written(text: Any, tensors: dict[str, Any], parameters: Any = ()) -> bytes:
    """A file of this model.json."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        text = text if isinstance(text, bytes) else json.dumps(text).encode()
        z.writestr(zipfile.ZipInfo("model.json"), text)
        z.writestr(zipfile.ZipInfo("weights.safetensors"), pf.io.safetensors.save(tensors))
    return file.getvalue()


def model(nodes: list[Any], out: Any, tensors: dict[str, Any], trains: bool) -> dict[str, Any]:
    """A model.json of these nodes, which find their tensors among its parameters and buffers."""
    graph = {"version": 1, "names": [], "defaults": {"dict": []}, "rest": "", "ranges": {},
             "inputs": {"tuple": [{"tuple": []}, {"dict": []}]}, "outputs": out,
             "state": {"": "self."} | {k: k for k in tensors}, "sizes": {}, "guards": [], "specs": {},
             "nodes": nodes}  # fmt: skip
    floats = {k for k, x in tensors.items() if trains and x.is_floating_point()}
    top = {"name": "M", "graphs": {"forward": graph}, "attributes": {"note": 3}, "training": False,
           "parameters": dict.fromkeys(sorted(floats), True), "children": [],
           "buffers": {k: False for k in tensors if k not in floats}}  # fmt: skip
    return {
        "format": "pyframe.jit",
        "version": 1,
        "function": False,
        "modules": {"": top},
        "same": {},
    }


@functools.lru_cache(500)
def recorded(at: int, pure: bool) -> tuple[list[Any], Any, dict[str, Any]] | None:
    """The graph of a sample, of public functions or of ops: nodes, what they give, tensors. None
    for what can't be recorded, or what no file may say."""
    row = ROWS[at]
    how: Any = {"pure": True, "keep": lambda *args: False} if pure else {"values": True}
    xs = [pf.from_numpy(a) for a in row.arrays()]
    try:
        with pf.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph, constants, _ = record(lambda *xs: row.call(pf, pf.nn.functional, *xs), xs, **how)
        text = graphs.encoded(graph)
    except Exception:
        return None
    tensors = dict(zip(map(str, graphs.refs(graph.inputs)), xs, strict=True))
    tensors |= {graph.state[k]: x for k, x in constants.items() if k in graph.state}
    if not text["nodes"]:
        return None
    return text["nodes"], text["outputs"], {str(k): x.detach() for k, x in tensors.items()}


@functools.cache
def names() -> list[str]:
    """All that a node may be said to call."""
    ops = [f"op.{n}" for n in REGISTRY]
    methods = {f"method.{n.removeprefix('Tensor.')}" for n in calls.functions() if "Tensor." in n}
    return [*ops, *ops, *calls.functions(), *calls.CODE, *sorted(methods)]


def argument(d: Draw, deep: int = 0) -> Any:
    """One of any kind."""
    how = d.int(0, 9)
    if how < 3:
        return {"ref": d.pick(*ODD)}
    if how < 6:
        return d.pick(*NUMBERS[:10]) if d.maybe(0.6) else d.pick(*NUMBERS)
    if how < 8 and deep < 2:
        some = [
            argument(d, deep + 1) if d.maybe(0.2) else d.pick(*NUMBERS) for _ in range(d.int(0, 4))
        ]
        return {"tuple": some} if d.maybe(0.7) else some
    return d.pick(*OTHERS)


def with_attributes() -> list[str]:
    """The ops of files that have attributes."""
    ops = [f"op.{n}" for n, op in REGISTRY.items() if op.attrs]
    return [n for n in ops if calls.may_call(n)] + 5 * ["op.expand", "op.reshape", "op.permute"]


def attribute(d: Draw, name: str, dims: int) -> Any:
    """An attribute of an op, mostly of its kind."""
    if d.maybe(0.2):
        return argument(d)
    if name == "keepdim":
        return d.maybe()
    if name == "dtype":
        return {"dtype": d.pick("int8", "float64", "bool", "complex64")}
    if name in ("dim", "value"):
        return d.int(-2, 4)
    found = [d.int(0, max(dims, 2)) for _ in range(dims + d.pick(0, 0, 0, 0, 1, -1))]
    if found and d.maybe(0.6):
        found[d.int(0, len(found) - 1)] = d.pick(5, 64, 4096, 1 << 24)
    return {"tuple": sorted(found) if name == "axes" and d.maybe(0.7) else found}


def tried(d: Draw, nodes: list[Any], out: Any, tensors: dict[str, Any]) -> File:
    """The file of a graph."""
    tensors = {k: x for k, x in tensors.items() if f'"{k}"' in json.dumps([nodes, out])}
    text = json.dumps(model(nodes, out, tensors, d.maybe())).encode()
    return File("jit", pieces(text, 1 << 20), functools.partial(written, tensors=tensors))


@family("calls")
def calls_(d: Draw) -> File:
    """A call that some sample makes, with another argument or of another function; or one of any
    function with any arguments, most of all of what shows memory in other ways."""
    if d.maybe():
        name = d.pick(*d.pick(names(), VIEWS.split(), *2 * [with_attributes()]))
        args = [argument(d) for _ in range(d.int(1, 4))]
        if name.startswith("op.") and d.maybe(0.8):
            op = REGISTRY[name[3:]]
            xs = [d.pick(*ODD) for _ in op.inputs]
            args = [{"ref": x} for x in xs] + [attribute(d, n, ODD[xs[0]].ndim) for n in op.attrs]
        elif d.maybe(0.8):
            args[0] = {"ref": d.pick(*ODD)}
        nodes = [{"call": name, "args": args, "out": {"ref": "y"}}]
        if d.maybe(0.3):  # what it shows is read, or written to
            then = d.pick(["Tensor.fill_", 7], ["op.neg"], ["Tensor.cumsum", -1], ["Tensor.sort"])
            then = [then[0], [{"ref": "y"}, *then[1:]]]
            nodes.append({"call": then[0], "args": then[1], "out": {"ref": "z"}})
        return tried(d, nodes, [{"ref": n["out"]["ref"]} for n in nodes], ODD)
    found = None
    while found is None:
        found = recorded(d.int(0, len(ROWS) - 1), d.maybe())
    nodes, out, tensors = found
    nodes = json.loads(json.dumps(nodes))
    for _ in range(d.pick(1, 1, 2)):
        node = d.pick(*nodes)
        which = "kwargs" if node.get("kwargs") and d.maybe() else "args"
        ways = [w for w in paths(node.get(which)) if w and w[-1] not in ("ref", "dtype", "const")]
        if d.maybe(0.05) or not ways:
            node["call"] = d.pick(*names())
            continue
        way = (which, *d.pick(*ways))
        value = argument(d)
        place = node_at(node, way[:-1])
        if d.maybe(0.3) and not isinstance(place[way[-1]], (dict, list)):
            value = d.pick(*NUMBERS)
        place[way[-1]] = json.loads(json.dumps(value))
    return tried(d, nodes, out, ODD | tensors)


class Layers(pf.nn.Module):
    """Layers of many kinds, whose attributes a file says."""

    def __init__(self) -> None:
        super().__init__()
        nn = pf.nn
        self.k, self.seen, self.names = 2, 0, ["a", "b"]
        self.conv, self.pool = nn.Conv2d(1, 2, 3, padding=1), nn.MaxPool2d(2)
        self.up, self.norm = nn.Upsample(scale_factor=2), nn.BatchNorm2d(2)
        self.transposed, self.flat = nn.ConvTranspose2d(2, 2, 2, stride=2), nn.Flatten()
        self.rnn, self.embed = nn.GRU(3, 4), nn.Embedding(5, 3)
        self.attend = nn.MultiheadAttention(4, 2)
        self.parts = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5), nn.LayerNorm(3))

    def forward(self, x: Any, n: int = 2) -> Any:
        found, total = [x], 0
        y = self.norm(self.conv(x))
        for k in range(n):
            if y.sum() > k:
                y = self.pool(self.up(y))
            elif k > 7:
                raise ValueError(f"too many: {k}")
            else:
                y = self.transposed(y)[:, :, :4, :4]
            found.append(y)
        self.seen += 1
        while total < self.k:
            total += 1
            if total > 5:
                break
        z, _ = self.rnn(self.embed(pf.tensor([[0, 1], [2, 4]])))
        z = self.parts(self.attend(z, z, z)[0])
        some = {"z": z.reshape(-1, 3), "y": self.flat(y) * self.seen}
        return [some.get(k, v) for k, v in zip(["y", "z"], found)]  # noqa: B905


@functools.cache
def layers() -> tuple[Any, dict[str, Any]]:
    """model.json of Layers, as a script, and its tensors."""
    pf.manual_seed(0)
    file = io.BytesIO()
    modules.save(pf.jit.script(Layers()), file)
    with zipfile.ZipFile(file) as z:
        return json.loads(z.read("model.json")), pf.io.safetensors.load(
            z.read("weights.safetensors")
        )


@family("graphs")
def graphs_(d: Draw) -> File:
    """A module with branches, loops and layers, of which something is damaged."""
    text, tensors = layers()
    if d.maybe(0.3):
        data = json.dumps(text).encode()
        return File("jit", pieces(data, 64), functools.partial(written, tensors=tensors), "",
                    changes(d, 0.2) if d.maybe(0.1) else ())  # fmt: skip
    if d.maybe(0.5):
        text = mutated(d, text)
    else:  # a part of a layer, or a value of a node
        text = json.loads(json.dumps(text))
        part = d.pick(*text["modules"].values())
        part = part if d.maybe() else text["modules"][""]
        for _ in range(d.pick(1, 1, 2)):
            ways = [w for w in paths(part) if w and w[0] in ("attributes", "graphs", "children")]
            if ways:
                way = d.pick(*ways)
                value = (
                    argument(d)
                    if d.maybe(0.7)
                    else json.loads(json.dumps(node_at(part, d.pick(*ways))))
                )
                node_at(part, way[:-1])[way[-1]] = json.loads(json.dumps(value))
    data = json.dumps(text).encode()
    return File("jit", pieces(data, 64), functools.partial(written, tensors=tensors))
