"""jit.script: a subset of Python as graphs with branches and loops."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from refused import rows
from steps import training_step
from test_trace import saved

import pyframe as pf
from pyframe import nn
from pyframe.jit import NotSupportedError
from pyframe.jit.graph import GraphError
from pyframe.nn import functional as F
from pyframe.vision import models

SCALE = 3


def helper(x: Any, i: int) -> Any:
    if i % 2 == 0:
        return x.max(dim=0).values
    return x.relu() + i


def several(x: Any, *others: Any, k: int = 1) -> Any:
    total = x
    for y in others:
        total = total + y * k
    return total.view(*x.shape[:1], -1), len(others), pf.cat([*others, x], 0)


def ends_early(x: Any) -> Any:
    if SCALE == 3:
        with pf.no_grad():
            raise ValueError("no")
    y = x + 1
    return y * y


def spread(x: Any, n: int = 3) -> Any:
    some = [x] * n
    twice = several(*some, x, k=2)
    return several(x, *some), twice, several(x, x), x.permute(*[1, 0]), max(*[1, n])


def test_any_number_of_arguments() -> None:
    x = pf.ones(2, 3)
    with pytest.raises(ValueError, match="no"):
        pf.jit.script(ends_early)(x)
    for fn, args in ((spread, (x, 2)), (spread, (x, 3)), (several, (x, x, x)), (several, (x,))):
        for f in (pf.jit.script(fn), saved(pf.jit.script(fn))):
            assert repr(f(*args)) == repr(fn(*args))


@pytest.mark.parametrize("name", ["code.apply", "code.python_", "op.as_strided"])
def test_a_star_calls_no_more_than_a_node(name: str) -> None:
    scripted = pf.jit.script(spread)
    for node in scripted._module._graphs["forward"].nodes:
        if node.function == "code.apply":
            node.args = (name, *node.args[1:])
    with pytest.raises(GraphError, match="with \\*, which it may not"):
        saved(scripted)(pf.ones(2, 3))


@pytest.mark.parametrize("name", ["densenet121", "efficientnet_b0", "unet"])
def test_vision_models(name: str) -> None:
    net = getattr(models, name)().eval()
    scripted = pf.jit.script(net)
    x = pf.randn(1, *((1, 32, 32) if name == "unet" else (3, 64, 64)))
    with pf.no_grad():
        assert (scripted(x) == net(x)).all()


class Block(nn.Module):
    def __init__(self, down: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4) if down else None
        self.k = 2
        self.register_buffer("count", pf.zeros(()))

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        if self.down is not None:
            x = self.down(x)
        if self.training:
            self.count += 1
        return self.act(y) + x * self.k

    def act(self, y: Any) -> Any:
        return F.gelu(y)


def test_a_scripted_net_trains_in_a_compiled_step() -> None:
    net = pf.jit.script(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = pf.optim.Adam(net.parameters(), 3e-2)

    step = pf.compile(training_step(optimizer, lambda x, y: (net(x) - y).square().mean()))
    x = pf.randn(32, 3)
    losses = [float(step(x, x.sum(1, keepdim=True))) for _ in range(60)]
    assert losses[-1] < losses[0] / 5


def test_a_scripted_module_is_traced_and_exported() -> None:
    net = Block(True).eval()
    scripted = pf.jit.script(net)
    x, y = pf.randn(2, 4), pf.randn(5, 4)
    traced = pf.jit.trace(scripted, x)
    assert (traced(y) == net(y)).all()
    dims = {"x": {0: pf.export.Dim("b")}}
    assert (pf.export.export(scripted, (x,), dynamic_shapes=dims).module()(y) == net(y)).all()


class Remembers(nn.Module):
    """Its attributes change: a number, a buffer that is another, one that is written in place, a
    tensor that is no buffer, and all that by another method."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.last, self.kept = 0, pf.zeros(2), 7
        self.register_buffer("mean", pf.zeros(2))
        self.register_buffer("total", pf.zeros(2))

    def note(self, x: Any) -> Any:
        self.mean = 0.5 * self.mean + x
        self.total += x
        if self.calls != 2:
            self.last = x
        return self.mean

    def forward(self, x: Any) -> Any:
        before = self.last
        self.calls += 1
        found = self.note(x) * self.calls
        return found + before + self.kept, self.calls, self.mean


def test_attributes_change() -> None:
    """A script has its own from then on, as PyTorch's; a buffer that is written in place is the
    module's."""
    for net in (pf.jit.script(Remembers()), saved(pf.jit.script(Remembers()))):
        plain = Remembers()
        for k in (1, -2, 3, 4):
            x = pf.full((2,), float(k))
            assert repr(net(x)) == repr(plain(x))
        assert (net.calls, net.total.tolist()) == (4, [6, 6])
        assert net.state_dict().keys() == plain.state_dict().keys()
        assert net.mean.tolist() == plain.mean.tolist()
    step, plain = pf.compile(pf.jit.script(Remembers())), Remembers()
    for k in (1, 2, 3, 4, 5):
        x = pf.full((2,), float(k))
        assert repr(step(x)[::2]) == repr(plain(x)[::2])
    inner = pf.jit.script(Remembers())
    traced = pf.jit.trace(nn.Sequential(inner), pf.ones(2), check_trace=False)
    plain.__dict__.update(calls=inner.calls, last=inner.last.clone())
    plain.load_state_dict(inner.state_dict())
    for k in (1, 2, 3):
        x = pf.full((2,), float(k))
        assert traced(x)[0].tolist() == plain(x)[0].tolist()


def test_a_file_changes_no_attribute_of_pyframes_own() -> None:
    scripted = pf.jit.script(Remembers())
    for name in ("_graphs", "forward", "__class__", "_modules", 3):
        for node in scripted._graphs["forward"].nodes:
            if node.function == "code.setattr_":
                node.args = (node.args[0], name, node.args[2])
        with pytest.raises(GraphError, match="a graph has an attribute"):
            saved(scripted)(pf.ones(2))


def test_nodes_are_listed() -> None:
    """As programs/graphs/members.py does; and what it leaves out."""
    scripted, traced = pf.jit.script(Block(True)), pf.jit.trace(nn.Linear(3, 2), pf.ones(4, 3))
    (linear,) = traced.graph.findAllNodes("aten::linear")
    assert [v.node() is None for v in linear.inputs()] == [True, False, False]
    (out,) = traced.graph.outputs()
    assert (out.node().kind(), out.type()) == ("aten::linear", "Float(s0, 2)")
    (branch,) = scripted.graph.findAllNodes("prim::If")
    assert [[n.kind() for n in block.nodes()] for block in branch.blocks()] == [["aten::iadd"], []]
    fx = pf.export.export(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (pf.ones(4, 3),)).graph
    (relu,) = fx.find_nodes(op="call_function", target="nn.functional.relu")
    assert (relu.name, relu.args[1]) == ("relu", False)


def test_public_functions_and_nested_ones() -> None:
    assert (saved(pf.jit.script(F.relu))(pf.ones(2) * -1) == 0).all()
    assert pf.jit.script(pf.jit.script(helper))(pf.ones(2), 1).tolist() == [2.0, 2.0]
    nested = pf.jit.script(use_of_a_scripted_one)
    assert nested(pf.ones(2)).tolist() == [2.0, 2.0]


scripted_helper = pf.jit.script(helper)


def use_of_a_scripted_one(x: Any) -> Any:
    return scripted_helper(x, 1)


@pf.jit.ignore
def left_to_python(x: Any) -> Any:
    return sum(v for v in x.tolist())


def uses_python(x: Any) -> Any:
    return pf.jit.annotate(float, left_to_python(x)) + 1


def test_what_is_left_to_python_is_not_saved() -> None:
    scripted = pf.jit.script(uses_python)
    assert scripted(pf.ones(3)) == 4
    with pytest.raises(GraphError, match="an argument is a function, which a file can't hold"):
        saved(scripted)


LINES = """l.sort(); return l
l.sort(reverse=True); return l
l.remove(i); return l
l.reverse(); l.insert(1, i); l.extend((i, 5)); l.extend(range(i)); return l, l.pop(), l.pop(0), l
l.clear(); return l
return l.index(2), l.count(3), l.copy(), [1, 2].index(2), [3, i].copy(), (1, i).count(2)
l[0:2] = [i]; l[-1] += 1; del l[0]; l += [i]; return l
l.remove(99); return l
return l.index(99)
return l.pop(7)
return ",".join([str(v) for v in l]), "a,b".split(","), "abc".upper(), "x".zfill(3)
return "a-b".replace("-", str(i)), str(i).rjust(5), "ab".partition("b"), "abab".rfind("b")
return "ab".removeprefix("a"), "%d-%s" % (i, "x")
d = {"a": i}; return d.get("a"), d.get("b", 3), d.setdefault("c", 4), d.pop("a"), d, list(d.items())
d = dict(); d["a"] = i; d.update({"b": 2}); d["b"] += 1; del d["a"]; return d, dict(d), "b" in d
return [a * b for a in range(3) for b in range(a) if a], [v for r in [l, l] for v in r]
return {str(v): v * i for v in l if v > 1}, {k: v for k, v in zip("ab", [1, i])}
return sorted(l), sorted(l, reverse=True), list(reversed(l)), sorted([3, 1], reverse=True)
return pow(i, 2), sum(l), sum(l, 10), max(l), min(1, i), list(enumerate(l, 1))
x = pf.ones(2, 3); x[0, 1:] = float(i); x[1] -= i; return [r * j for j, r in enumerate(x) if j != 1]
return [pf.tensor(v) + len(k) for k, v in {"n": i, "s": 2}.items()], f"{i:03}, {i!r}", float("inf")
l = pf.jit.annotate(list[int], []); l.append(i); return [isinstance(v, (int, str)) for v in (i, l)]
assert i > 3, "too little"
raise ValueError("too much", 2)""".split("\n")


def test_lines_are_pythons(tmp_path: Path) -> None:
    path = tmp_path / "lines_of_user.py"
    bodies = ["; ".join(["l = [3, 1, 2]", line]).replace("; ", "\n    ") for line in LINES]
    functions = [f"def f{k}(i: int):\n    {b}" for k, b in enumerate(bodies)]
    path.write_text("\n".join(["import pyframe as pf", *functions]))
    made = runpy.run_path(str(path))

    def outcome(fn: Any) -> str:
        try:
            return repr(fn(2))
        except IndexError as error:
            return type(error).__name__
        except (ValueError, AssertionError) as error:
            return repr(error)

    for k, line in enumerate(LINES):
        plain = made[f"f{k}"]
        scripted = pf.jit.script(plain)
        for fn in (scripted, saved(scripted)):
            assert outcome(fn) == outcome(plain), line


OUTSIDE = r"""
return {*x} -> Set expressions are not in the subset
return undefined(x) -> the name undefined is not defined
return open(x) -> open is not in the subset: no graph may call it
return f(x) -> a function calls itself
return Plain(), x -> Plain is not in the subset: of classes of one's
return (lambda y: y)(x) -> Lambda expressions are not in the subset
return x.__class__ -> the attribute __class__ of a value is not in the subset
return x.no_such() -> the method no_such of a value is not in the subset
x.foo = 1 -> attributes are assigned of modules alone
import os -> Import statements are not in the subset
return x.sum(**x) -> \*\* in a call
raise SystemExit -> expected one of ValueError
return sorted(y, key=len) -> key of sorted is not in the subset
return max(y, default=0) -> default of max is not in the subset
return print(y, file=x) -> file of print is not in the subset
return '{0.__class__}'.format(y) -> the method format of a value is not in the subset
"""


@pytest.mark.parametrize(("line", "why"), rows(OUTSIDE))
def test_what_is_not_in_the_subset(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "code_of_user.py"
    path.write_text(f"class Plain: pass\ndef f(x):\n    y = x + 1\n    {line}\n")
    with pytest.raises(NotSupportedError, match=rf"code_of_user.py:4: .*{why}") as error:
        pf.jit.script(runpy.run_path(str(path))["f"])
    assert line in str(error.value)


def test_a_file_sets_no_method() -> None:
    layer = pf.jit.script(nn.Sequential(nn.Linear(2, 2)))
    assert saved(layer)(pf.ones(1, 2)).tolist() == layer(pf.ones(1, 2)).tolist()
    assert list(saved(layer).state_dict()) == ["0.weight", "0.bias"]
    layer._layer[0].__dict__["forward"] = 3
    with pytest.raises(GraphError, match="attribute 'forward'"):
        saved(layer)
