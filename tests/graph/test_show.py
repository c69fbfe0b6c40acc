"""pf.graph.show: every op and kernel is drawn, nothing overlaps, and nothing is computed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.tools.layout import arrange

SVG = "{http://www.w3.org/2000/svg}"


def words(drawing: Any) -> list[str]:
    """The texts of a picture, which must be well-formed."""
    root = ElementTree.fromstring(drawing.svg)
    return ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]


def ops(dot: str) -> list[str]:
    """The names of the ops in a DOT text, whose braces and quotes must pair."""
    assert dot.count("{") == dot.count("}") == 1 + dot.count("subgraph")
    assert dot.count('"') % 2 == 0
    nodes = set(re.findall(r"^\s*(\w+) \[label", dot, re.M))
    for a, b in re.findall(r"(\w+) -> (\w+)", dot):
        assert {a, b} <= nodes
    return re.findall(r'^ *op\d+_\d+ \[label="(\w+)', dot, re.M)


def test_a_function(device: str) -> None:
    x, w, b = (pf.ones(*s, device=device) for s in ((6, 8), (8, 4), (4,)))

    def layer(x: pf.Tensor) -> pf.Tensor:
        return (x @ w + b).relu() * 2.5

    drawing = pf.graph.show(layer, x)
    names = ops(drawing.dot)
    assert [n for n in names if n != "reshape"] == ["matmul", "add", "relu", "mul"]
    assert drawing.dot.count("subgraph cluster_") == 1
    assert "mul\\n2.5" in drawing.dot
    seen = words(drawing)
    assert {"matmul", "add", "relu", "mul", "2.5", "x", "w", "b", "result"} <= set(seen)
    assert "f32 6×8 · 192 B" in seen
    assert "f32 6×4" in seen
    assert '[label="f32 6×4"]' in drawing.dot
    assert drawing._repr_svg_() == drawing.svg == str(drawing)


def test_a_training_step_leaves_no_trace(device: str) -> None:
    pf.manual_seed(3)
    net = pf.nn.Sequential(pf.nn.Linear(8, 5), pf.nn.ReLU(), pf.nn.Dropout(), pf.nn.Linear(5, 3))
    net = net.to(device)
    optimizer = pf.optim.Adam(net.parameters())

    def step(x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = pf.randn(4, 8, device=device), pf.tensor([0, 1, 2, 0], device=device)
    state = {k: v.detach().cpu().numpy().copy() for k, v in net.state_dict().items()}
    random = pf.default_generator.get_state().numpy().copy()
    drawing = pf.graph.show(step, x, y)
    for k, v in net.state_dict().items():
        np.testing.assert_array_equal(v.detach().cpu().numpy(), state[k])
    np.testing.assert_array_equal(pf.default_generator.get_state().numpy(), random)
    assert all(p.grad is None for p in net.parameters())
    assert {"x", "y", "net.0.weight", "net.0.weight (new)", "net.3.bias.grad",
            "net.0.weight.exp_avg", "result"} <= set(words(drawing))  # fmt: skip
    assert {"matmul", "relu", "sqrt"} <= set(ops(drawing.dot))

    def rerun() -> list[float]:
        pf.manual_seed(4)
        return [step(x, y).item() for _ in range(2)]

    with_show = rerun()
    net.load_state_dict({k: pf.tensor(v, device=device) for k, v in state.items()})
    optimizer.state.clear()
    assert rerun() == with_show


def test_a_lazy_tensor(gpu: str) -> None:
    x = pf.ones(100, 70, device=gpu)
    pf.flush()
    total = (x.exp() + 1).sum()
    drawing = pf.graph.show(total)
    assert {"exp", "add", "sum"} <= set(ops(drawing.dot))
    assert total.item() == pytest.approx(7000 * (1 + np.e), rel=1e-5)
    with pytest.raises(ValueError, match="has its value"):
        pf.graph.show(x)


def test_modules_compiled_functions_and_nested_arguments(device: str) -> None:
    net = pf.nn.Linear(3, 2).to(device)
    assert {"weight", "bias", "input"} <= set(
        words(pf.graph.show(net, pf.ones(1, 3, device=device)))
    )
    compiled = pf.compile(lambda pair, scale: pair["a"][0] * scale)
    given = {"a": [pf.ones(2, device=device)]}
    drawing = pf.graph.show(compiled, given, scale=2.0)
    assert "pair['a'][0]" in words(drawing)
    assert ops(drawing.dot) == ["mul"]


def test_what_lives_on_gets_its_value(device: str) -> None:
    kept: list[pf.Tensor] = []
    x = pf.ones(3, device=device)
    whole = pf.zeros(3, device=device)
    part = whole[1:]

    def keeps() -> None:
        kept.append(x + 1)
        part.add_(5)

    pf.graph.show(keeps)
    np.testing.assert_array_equal(kept[0].cpu().numpy(), [2, 2, 2])
    np.testing.assert_array_equal(whole.cpu().numpy(), [0, 0, 0])
    np.testing.assert_array_equal(part.cpu().numpy(), [0, 0])


def test_errors() -> None:
    x = pf.ones(3)
    with pytest.raises(RuntimeError, match=r"test_show.py:\d+ reads the value"):
        pf.graph.show(lambda: (x * 2).sum().item())
    assert (x + 1).tolist() == [2, 2, 2]  # nothing is recorded any more
    with pytest.raises(ZeroDivisionError):
        pf.graph.show(lambda: (x.mul_(2), 1 / 0))
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="unknown format 'png'"):
        pf.graph.show(x.exp, format="png")
    with pytest.raises(TypeError, match="expected a function or a Tensor"):
        pf.graph.show(3)
    with pytest.raises(AttributeError):
        pf.graph.no_such


def test_files(tmp_path: Path) -> None:
    x = pf.ones(3)
    drawing = pf.graph.show(x.exp, path=tmp_path / "a.svg")
    drawing.save(tmp_path / "b.dot")
    pf.graph.show(x.exp, format="dot", path=tmp_path / "c.txt")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg
    assert (tmp_path / "b.dot").read_text(encoding="utf-8") == drawing.dot
    assert (tmp_path / "c.txt").read_text(encoding="utf-8").startswith("digraph")


def test_a_layout_has_no_overlaps_and_points_down() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 30):
        sizes = [(float(w), float(h)) for w, h in rng.integers(10, 200, (n, 2))]
        edges = [(u, v, 0.0, 0.0) for v in range(n) for u in range(v) if rng.random() < 2 / n]
        out = arrange(sizes, edges, (10, 20), first={0})
        boxes = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2)
                 for (x, y), (w, h) in zip(out.centres, sizes, strict=True)]  # fmt: skip
        for i, (l, t, r, b) in enumerate(boxes):
            assert -1e-6 <= l <= r <= out.width + 1e-6
            assert -1e-6 <= t <= b <= out.height + 1e-6
            for l2, t2, r2, b2 in boxes[:i]:
                assert r <= l2 + 1e-6 or r2 <= l + 1e-6 or b <= t2 or b2 <= t
        for (u, v, *_), route in zip(edges, out.routes, strict=True):
            assert route[0] == (out.centres[u][0], boxes[u][3])
            assert route[-1] == (out.centres[v][0], boxes[v][1])
            assert all(a[1] <= b[1] for a, b in pairwise(route))
    assert arrange([], [], (1, 1)).routes == []
