"""Files of jit.save that somebody wrote by hand: what is refused, and at which node."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from refused import rows

import pyframe as pf
from pyframe import nn
from pyframe.core import dtypes, host_memory
from pyframe.jit.calls import GraphError

X, Y = {"ref": "x"}, {"ref": "y"}


def node(call: str, *args: Any, out: Any = Y, **more: Any) -> dict[str, Any]:
    return {"call": call, "args": list(args), "out": out, **more}


def shape(*sizes: Any) -> dict[str, Any]:
    return {"tuple": list(sizes)}


def packed(text: Any) -> Any:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", json.dumps(text))
        archive.writestr("weights.safetensors", pf.io.safetensors.save({"w": pf.ones(2)}))
    file.seek(0)
    return file


def document(*nodes: Any, state: Any = None, **more: Any) -> dict[str, Any]:
    graph = {"version": 1, "names": ["x"], "defaults": {"dict": []}, "rest": "",
             "inputs": shape(shape(X), {"dict": []}), "outputs": Y, "ranges": {},
             "state": state or {}, "sizes": {}, "guards": [], "specs": {},
             "nodes": list(nodes)}  # fmt: skip
    top = {"name": "\nMine\n", "graphs": {"forward": graph | more}, "attributes": {"k": 3},
           "training": False, "parameters": {"w": True}, "buffers": {}, "children": []}  # fmt: skip
    return {"format": "pyframe.jit", "version": 1, "function": False, "same": {},
            "modules": {"": top}}  # fmt: skip


def loaded(*nodes: Any, **more: Any) -> Any:
    return pf.jit.load(packed(document(*nodes, **more)))


# --- state


@pytest.mark.parametrize(
    "name", ["save", "__class__", "__dict__", "load_state_dict", "_parameters", "forward", "graph",
             "original_name", "w.data", "w.__class__", "k.__class__", "nothing", "a.b", "_graphs",
             "." * 50, "training.real"]
)  # fmt: skip
def test_state_is_what_a_module_holds(name: str) -> None:
    with pytest.raises(GraphError, match="forward, node 1 .code.value.: a graph takes"):
        loaded(node("code.value", 1, out={"ref": "z"}), node("code.value", {"ref": "s"}),
               state={name: "s"})  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [("k", 3), ("training", False), ("w", [1.0, 1.0])])
def test_state_of_its_own(name: str, value: Any) -> None:
    found = loaded(node("code.value", {"ref": "s"}), state={name: "s"})(pf.ones(1))
    assert (found.tolist() if isinstance(found, pf.Tensor) else found) == value


def test_no_file_of_a_user_is_written(tmp_path: Path) -> None:
    """What a graph can hold and call, a module, is called as a module alone."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    state = {"": "s"}
    for call, args, kwargs in (
        ("code.sorted", [[str(mine)]], {"key": {"ref": "s"}}),
        ("code.max", [[str(mine)]], {"key": {"ref": "s"}}),
        ("code.min", [[], 1], {"default": {"ref": "s"}}),
        ("code.print", ["x"], {"file": {"ref": "s"}}),
        ("Tensor.apply_", [X, {"ref": "s"}], {}),
        ("Tensor.map_", [X, X, {"ref": "s"}], {}),
        ("method.apply_", [X, {"ref": "s"}], {}),
        ("set_rng_state", [X], {}),
    ):
        with pytest.raises(GraphError, match="node 0"):
            loaded(node(call, *args, kwargs=kwargs), state=state)
    for call, args, kwargs in (
        ("code.apply", ["code.sorted", [[str(mine)]]], {"key": {"ref": "s"}}),
        ("code.apply", ["Tensor.apply_", [X, {"ref": "s"}]], {}),
        ("code.getattr_", [{"ref": "s"}, "save"], {}),
        ("code.getattr_", [{"ref": "s"}, "forward"], {}),
        ("code.setattr_", [{"ref": "s"}, "other", {"ref": "s"}], {}),
        ("code.getitem", [{"ref": "s"}, "save"], {}),
        ("code.setitem", [{"ref": "s"}, "__dict__", {"dict": []}], {}),
        ("code.str", [{"ref": "s"}], {}),
        ("nn.functional.triplet_margin_with_distance_loss", [X, X, X],
         {"distance_function": {"ref": "s"}}),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=f"node 0 of a graph, {call}"):
            loaded(node(call, *args, kwargs=kwargs), state=state)(pf.ones(1))
    assert mine.read_text() == "mine"


def test_a_tuple_with_names_has_methods_of_tuples() -> None:
    """What a file puts under the name of a method is not called."""
    made = node("code.record", "R", ["index", "data"], 5, 2, out={"ref": "r"})
    assert loaded(made, node("method.index", {"ref": "r"}, 2))(pf.ones(1)) == 1
    assert loaded(made, node("attr.data", {"ref": "r"}))(pf.ones(1)) == 2


# --- ops


@pytest.mark.parametrize(
    "args",
    """op.expand: X, (16777216,); X, (-1, 4); X, (4, 3); X, (8,); X, "4"; X, (4.0,); X; X, (4,), 1
    op.reshape: X, (16777216,); X, (-2, -2); X, (5,); X, None
    op.permute: X, (0, 0, 0, 0); X, (); X, (1,); X, (0.0,); M, (0, 0); M, (0, -3)
    op.sum: X, (1,), False; X, (-1,), False; X, (0, 0), False; X, 0, False; X, (0,), 1
    op.sum: B, (0,), False
    op.argmax: X, (7,), False; E, (0,), False; C, (0,), False
    op.amax: E, (0,), True; X, ("0",), True
    op.softmax: X, 1; X, -1; X, None; I, 0
    op.matmul: X, X; M, X; M, I; B, B
    op.iota: 0, (4,); X, (4,)
    op.random_bits: X, X, X, (4,); I, I, I, (4,)
    op.cast: X, "float64"; X, 3; X, None
    op.add: X, D; X, 1; X; X, X, X; X, "x"; X, (4,); X, [X]; I, F
    op.bitwise_and: X, X; C, C
    op.where: X, X, X; I, I, I; X, X
    op.sin: I; B; S
    op.floor_divide: I, Z; B, B
    op.sub: B, B
    op.complex: I, I; X, D; C, C
    op.real: X
    op.conj: X
    op.uniform_from_bits: X; I
    op.bfloat16_from_bits: X; I; D
    op.bits_from_bfloat16: X; D
    op.sort_key: B; C
    op.exponent_of: I""".split("\n"),
)  # fmt: skip
def test_ops_ask_what_fits(args: str) -> None:
    call, _, given_rows = args.strip().partition(": ")
    tensors = {
        "X": pf.tensor([1.0, 2, 3, 4]), "M": pf.ones(2, 3), "B": pf.tensor([True, False]),
        "E": pf.ones(0), "C": pf.ones(2, dtype=pf.complex64), "D": pf.ones(4, dtype=pf.float64),
        "I": pf.tensor([3, 4]), "F": pf.tensor(1.5), "Z": pf.tensor([0, 1]), "S": pf.tensor(3),
    }  # fmt: skip
    names = {k: {"ref": k} for k in tensors}
    inputs = shape(shape(*names.values()), {"dict": []})
    for row in given_rows.split("; "):
        given = eval(f"[{row}]", {**names, "X": {"ref": "X"}})
        given = [shape(*a) if isinstance(a, tuple) else a for a in given]
        try:
            module = loaded(node(call, *given), inputs=inputs, names=[*names])
        except GraphError as error:
            if "node 0" not in str(error):
                raise
            continue
        for fn in (module, pf.compile(lambda *xs: module(*xs))):  # noqa: B023
            with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)) as refused:
                fn(*tensors.values()).tolist()
            told = [str(refused.value), *getattr(refused.value, "__notes__", ())]
            assert fn is not module or any("node 0 of a graph, op." in t for t in told), row


def test_ops_that_fit() -> None:
    two = {"const": [2.0, "float32"]}
    module = loaded(
        node("op.mul", X, two, out={"ref": "a"}), node("op.reshape", {"ref": "a"}, shape(2, 2)),
    )  # fmt: skip
    assert module(pf.arange(4.0)).tolist() == [[0, 2], [4, 6]]
    assert pf.compile(module)(pf.arange(4.0)).tolist() == [[0, 2], [4, 6]]


# --- what a file sizes


# calls with arguments; I, U, E and RANGE are such tensors, and a range, that nodes before them make
MADE = """
code.mul "a", 10**10 | code.mul [0], 1 << 40 | code.imul 1 << 40, "a" | code.pow 10, 10**10
code.ipow -3, 10**9 | code.lshift 1, 10**12 | code.formatted 3, "99999999999d"
code.formatted 3.5, ".999999999f" | code.mod "%1000000000d", 3 | code.mod "%*d", shape(1 << 40, 3)
code.list RANGE | code.tuple RANGE | code.sorted RANGE | code.round 3, -(10**10)
method.zfill "3", 10**12 | method.ljust "3", 10**12, "x" | method.extend [], RANGE
method.join "x" * 1000, RANGE | method.replace "a" * 9999, "a", "b" * 9999 | zeros 10**7, 10**7
Tensor.repeat X, 10**13 | arange 10**13 | rand shape(10**6, 10**7) | eye 10**7
op.iota {"const": [0, "int32"]}, shape(10**13) | nn.functional.pad X, shape(0, 10**13)
full shape(10**13), 1 | nn.functional.one_hot I, 10**13 | linspace 0, 1, 10**13 | randperm 10**13
hann_window 10**13 | tril_indices 10**7, 10**7 | bincount I, None, 10**13 | fft.fft X, 10**13
nn.functional.interpolate U, 10**13 | randint 5, shape(10**13) | Tensor.resize_ X, 10**13
Tensor.new_zeros X, 10**13 | repeat_interleave X, 10**13 | tile X, shape(10**13)
logspace 0, 1, 10**13 | empty 10**13 | empty_strided shape(4), shape(10**13) | vander X, 10**13
nn.functional.adaptive_avg_pool1d U, 10**13 | randn 10**13 | Tensor.new_full X, shape(10**13), 2.0
diag_embed X, 10**13 | diagflat X, 10**7 | kron E, E | outer E, E | Tensor.clone E | cumsum E, 0
method.tolist E | stft X, 2, 1, 10**13 | histc X, 10**13 | broadcast_tensors X | scalar_tensor 3
"""


@pytest.mark.parametrize("row", re.split(r" \| |\n", MADE.strip()))
def test_what_is_made_is_counted(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of 10 TB is tried; the machine's memory does not matter."""
    call, _, given = row.partition(" ")
    refs = {n: {"ref": n} for n in ("RANGE", "I", "U", "E")}
    args = eval(f"[{given}]", {"X": X, "shape": shape, **refs})
    monkeypatch.setattr(host_memory, "available", lambda: 1 << 30)
    before = [
        node("code.range", 10**10, out=refs["RANGE"]), node("ones", 1, out={"ref": "one"}),
        node("Tensor.long", {"ref": "one"}, out=refs["I"]),
        node("Tensor.reshape", {"ref": "one"}, 1, 1, 1, out=refs["U"]),
        node("Tensor.expand", {"ref": "one"}, 10**9, out=refs["E"]),
    ]  # fmt: skip
    module = loaded(*before, node(call, *args))
    if call in ("broadcast_tensors", "scalar_tensor"):  # which are small
        module(pf.ones(4))
        return
    with pytest.raises((GraphError, RuntimeError, ValueError, IndexError, TypeError)) as refused:
        module(pf.ones(4))
    told = [str(refused.value), *getattr(refused.value, "__notes__", ())]
    assert any("node 5 of a graph" in t for t in told)


def test_a_graph_of_ones_own_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "available", lambda: 1 << 20)
    dtypes.check_room(1 << 40)
    with pytest.raises(RuntimeError, match="allocate"):
        loaded(node("empty", 1 << 25))(pf.ones(1))


# --- damage


DAMAGE = """
call=None -> node 0 .* a function, got 'None'
args=None -> node 0 .*arguments
out=3 | out={"float": "nan"} -> node 0 .*results
blocks=[1] -> node 0 .*block
blocks=[[[], None]] -> node 0 .*blocks
args=[{"ref": "none"}] -> node 0 .relu.: 'none' has no value
args=[{"ref": "y"}] -> node 0 .relu.: 'y' has no value
args=[{"size": "s9"}] -> node 0 .*size
args=[{"size": ["+", 1]}] -> node 0 .*a size
args=[{"format": "load"}] -> node 0 .*format
args=[] -> node 0 .*missing
args=[{"const": ["x", "int8"]}] -> node 0 .*number
specs={"y": 3} -> node 0 .*shape
call="op.conv" -> node 0 .*may not call
call="nn.functional.nothing" -> node 0 .*which this version
call=3 | call="x" * 999 | args={} | kwargs=[] | module=3 | args=[{"ref": None}] -> node 0
args=[{"what": 1}] | args=[{"size": ["pow", 2, 3]}] | args=[{"dtype": "save"}] -> node 0
args=[{"dtype": ["int8"]}] | args=[{"device": "../x"}] | args=[X, X, X] -> node 0
args=[{"complex": ["x", "1"]}] | args=[{"tuple": 3}] | args=[{"slice": [1]}] -> node 0
args=[{"dict": [1]}] | args=[{"dict": [[[1], 2]]}] | call="control.loop" -> node 0
call="control.stop", args=["break"] | call="control.fail", args=["SystemExit", shape()] -> node 0
call="control.branch", args=[] | call="control.nodes" | call="op.as_strided" -> node 0
call="op.put" | call="op.const", args=[3] | call="code.python_" | call="method.data_ptr" -> node 0
call="method.format", args=["{0.__class__}", X] | call="method.numpy" | call="hub.load" -> node 0
call="method.register_hook" | call="Tensor.tofile" | call="save" | call="attr.__class__" -> node 0
call="nn.functional.__loader__" | call="method.__class__" | call="attr.__dict__" -> node 0
call="code.eval" | call="code.__import__" | call="code.getattr" | call="attr.grad_fn" -> node 0
"""


@pytest.mark.parametrize(
    ("damage", "why"), [(d, why) for some, why in rows(DAMAGE) for d in some.split(" | ")]
)
def test_damage_names_its_node(damage: str, why: str) -> None:
    with pytest.raises(GraphError, match=f"(?s){why}"):
        loaded(node("relu", X) | eval(f"dict({damage})", {"X": X, "shape": shape}))


AROUND = """
file format "x" -> x of version 1
file version 7 -> version 7
file modules 3 -> modules
file same [] -> names
file modules {} -> no module ''
file modules {"a": {}} -> module 'a'
top graphs None | top name 3 -> module ''
top parameters {"v": True} -> no weights 'v'
top class "Sequentia" -> no|not
top children [""] | top children [None] -> no module
top children ["b"] -> no module 'b'
top attributes {"save": 1} -> attribute 'save'
top attributes {"__class__": 1} -> attribute '__class__'
top attributes {"a": {"ref": "x"}} -> a part of graphs
graph version 2 -> version 2; this pyframe reads 1
graph nodes {} -> nodes
graph inputs {"tuple": [1, 2]} | graph rest "z" -> inputs
graph outputs {"ref": "q"} -> 'q'
graph sizes {"s": ["x", -1]} | graph sizes {"s": ["q", 0]} | graph ranges {"s": [0]} -> size
graph guards [["s", ">", True]] | graph specs {"x": [["s"], "float32"]} -> size
graph guards [[1, "?", True]] -> guard
graph state {"w": 3} | graph names [3] -> name of a value
graph defaults [] -> defaults
"""


@pytest.mark.parametrize(
    ("damage", "why"), [(d, why) for some, why in rows(AROUND) for d in some.split(" | ")]
)
def test_damage_of_what_is_around(damage: str, why: str) -> None:
    text = document(node("relu", X))
    top, (place, key, value) = text["modules"][""], damage.split(" ", 2)
    {"file": text, "top": top, "graph": top["graphs"]["forward"]}[place][key] = eval(value)
    with pytest.raises(GraphError, match=f"(?s)the file.*{why}"):
        pf.jit.load(packed(text))
    for gone in ("modules", "same"):
        with pytest.raises(GraphError, match="the file"):
            pf.jit.load(packed({k: v for k, v in text.items() if k != gone}))


def test_what_calls_itself_ends() -> None:
    module = loaded(node("code.module_", {"ref": "s"}, X), state={"": "s"})
    with pytest.raises(GraphError, match="node 0 of a graph, code.module_: calls are nested"):
        module(pf.ones(1))


def test_names_in_a_layer_are_tensors() -> None:
    """A recurrent layer finds its weights by names, which are attributes."""
    scripted = pf.jit.script(nn.Sequential(nn.GRU(2, 2)))
    scripted._layer[0]._all_weights = [["save", "__class__", "register_forward_hook", "train"]]
    file = io.BytesIO()
    pf.jit.save(scripted, file)
    with pytest.raises((TypeError, AttributeError)):
        pf.jit.load(file)(pf.ones(1, 1, 2))
