"""pf.draw: the boxes, frames and lines of a picture are what the net is and does."""

from __future__ import annotations

import itertools
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.tools.flow import trace

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = Path(__file__).parents[1] / "examples"


def words(drawing: Any) -> list[str]:
    """The texts of a picture, which must be well-formed and need nothing from elsewhere."""
    root = ElementTree.fromstring(drawing.svg)
    tags = {e.tag.removeprefix(SVG) for e in root.iter()}
    assert tags <= {"svg", "style", "defs", "marker", "path", "rect", "text", "g", "title"}
    assert "http" not in drawing.svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    return ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]


def edges(call: Any) -> set[tuple[str, str]]:
    """The lines of a trace, by names."""

    def name(c: Any) -> str:
        return "/".join(c.path)

    return {(name(s), name(b)) for b in call.boxes() for s in b.sources}


def chain(*names: str) -> set[tuple[str, str]]:
    return set(itertools.pairwise(names))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(4, 4, 3, 1, 1), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        out = self.conv2(self.relu(self.bn(self.conv1(x))))
        out += x
        return self.relu(out)


class Two(nn.Module):
    """Two inputs, two outputs, a layer that is used twice, a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Linear(2, 4)
        self.drop, self.head = nn.Dropout(), nn.Linear(8, 2)

    def forward(self, image: pf.Tensor, text: pf.Tensor, scale: float = 1.0) -> Any:
        a = F.relu(self.left(image))
        with pf.no_grad():
            b = self.right(text)
        if b.sum().item() > 1e9:  # reads a value on the way
            return None
        joined = pf.cat([self.drop(a), b], 1).view(-1, 8)
        parts = pf.zeros(len(joined), 2, device=joined.device)
        parts[:, :1] = self.head(joined)[:, :1]
        return {"parts": parts, "again": self.head(joined.flip(1)) * scale}


def test_chain_and_its_picture(device: str) -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(5, 1)).to(device)
    weights = {k: v.numpy(force=True).copy() for k, v in net.state_dict().items()}
    state = pf.default_generator.get_state().numpy().copy()
    assert edges(trace(net, (6,))) == chain("input/input", "0", "1", "2", "3", "output")
    drawing = pf.draw(net, pf.ones(2, 6))
    seen = words(drawing)
    assert seen[:2] == ["Sequential", "41 parameters"]
    assert {"Linear", "0 · 35 parameters", "ReLU", "3 · 6 parameters", "output"} <= set(seen)
    assert Counter(t for t in seen if "×" in t) == {"2×6": 1, "2×5": 3, "2×1": 1}
    assert drawing.svg.count('marker-end="url(#tip)"') == 5
    assert drawing._repr_svg_() == drawing.svg == str(drawing)
    assert repr(drawing) == "<Drawing of Sequential>"
    style = drawing.svg.partition("<style>")[2].partition("</style>")[0]
    assert all(rule.startswith(".pyframe ") for rule in style.split("}")[:-1])
    for k, v in net.state_dict().items():
        np.testing.assert_array_equal(v.numpy(force=True), weights[k])
    np.testing.assert_array_equal(pf.default_generator.get_state().numpy(), state)
    assert net.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_a_skip_connection(device: str) -> None:
    net = Block().to(device)
    assert edges(trace(net, pf.ones(1, 4, 6, 6, device=device))) == {
        *chain("input/x", "conv1", "bn", "relu", "conv2", "add", "relu", "output"),
        ("input/x", "add"),
    }
    tracked = net.bn.running_mean.tolist()
    assert "+" in words(pf.draw(net, (4, 6, 6)))
    assert net.bn.running_mean.tolist() == tracked


def test_several_inputs_and_outputs(device: str) -> None:
    net = Two().to(device)
    want = {
        *chain("input/image", "left", "relu", "drop", "cat", "head", "output/parts"),
        *chain("input/text", "right", "cat", "head", "mul", "output/again"),
    }
    given = (pf.ones(5, 3), pf.ones(5, 2))
    for inputs in (given, [x.numpy() for x in given], {"image": given[0], "text": given[1]}):
        assert edges(trace(net, inputs)) == want
    assert {"image", "text", "parts", "again", "5×3", "5×2"} <= set(words(pf.draw(net, given)))


def test_what_a_layer_hides_and_what_it_passes_on() -> None:
    class Leaf(nn.Module):
        def forward(self, x: pf.Tensor) -> tuple[pf.Tensor, pf.Tensor]:
            self.kept = x.exp()
            return self.kept + 1, x.mean()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaf, self.same = Leaf(), nn.Identity()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: pf.Tensor) -> pf.Tensor:
            y, mean = self.leaf(x)
            z, _ = self.attention(y, y, y)
            return (self.same(z) + z).sum() + mean * self.leaf.kept.sum()

    joined = "add, sum, sum, mul, add"  # functions that hand on to one another are one box
    assert edges(trace(Net(), pf.ones(1, 3, 4))) == {
        *chain("input/x", "leaf", "attention", "same", joined, "output"),
        ("attention", joined),
        ("leaf", joined),
    }


FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "relu": (lambda x: x.relu(), F.relu, lambda x: x.clone().relu_()),
    "add": (lambda x: x + 1, lambda x: pf.add(x, x), lambda x: operator.iadd(x.clone(), 1)),
    "sub": (lambda x: 1 - x,),
    "matmul": (lambda x: x @ x.T,),
    "einsum": (lambda x: pf.einsum("ij,kj->ik", x, x),),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)),),
    "svd": (lambda x: pf.linalg.svd(x)[1],),
    "getitem": (lambda x: x[x > 0],),
    "interpolate": (lambda x: F.interpolate(x[None], scale_factor=2.0),),
    "gt, where, mean": (lambda x: pf.where(x > 0, x, 0).mean(),),
    "": (lambda x: x, lambda x: x.T.reshape(-1)[1:].double().contiguous()),
}


def test_functions_have_their_public_names() -> None:
    class Net(nn.Module):
        def forward(self, x: pf.Tensor, fn: Any) -> Any:
            return fn(self.same(x))

    net = Net()
    net.same = nn.Identity()
    for name, fns in FUNCTIONS.items():
        for fn in fns:
            names = ("input/x", "same", *([name] if name else []), "output")
            assert edges(trace(net, (pf.ones(2, 3), fn))) == chain(*names)


def test_equal_blocks_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "gpt", raising=False)
    import gpt

    model, x = gpt.make_model(), pf.zeros(1, 8, dtype=pf.int64)
    inside = {
        *chain("norm1", "qkv", "scaled_dot_product_attention", "out", "add", "norm2", "mlp/0",
               "mlp/1", "mlp/2", "add"), ("add", "add"),
    }  # fmt: skip
    lines = edges(trace(model, x))
    for i in range(4):
        own = {tuple(n.removeprefix(f"blocks/{i}/") for n in e) for e in lines
               if all(n.startswith(f"blocks/{i}/") for n in e)}  # fmt: skip
        assert own == inside
    assert {("add", "blocks/0/norm1"), ("add", "blocks/0/add"), ("blocks/3/add", "blocks/4"),
            ("blocks/4", "head"), ("place", "add"), ("input/x", "embed")} <= lines  # fmt: skip
    seen = words(pf.draw(model, x))
    assert seen.count("0–3: Block × 4") == 1
    assert seen.count("LayerNorm") == 3
    assert {"blocks: Sequential", "mlp: Sequential", "49,984 parameters each"} <= set(seen)
    assert {"0–3: Block × 4", "49,984 parameters each"} <= set(words(pf.draw(model)))


def test_unequal_blocks_stay_apart() -> None:
    seen = words(pf.draw(nn.Sequential(Block(), Block(), nn.ReLU()), (4, 6, 6)))
    assert "0–1: Block × 2" in seen

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in "abc")

        def forward(self, x: pf.Tensor) -> pf.Tensor:
            y = self.b(self.a(x))
            return self.c(y) + y

    seen = words(pf.draw(Dense(), (4,)))  # what b gives is used twice
    assert seen.count("Linear") == 3
    chain_of_five = nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)])
    assert {"Linear × 5", "0–4 · 20 parameters each"} <= set(words(pf.draw(chain_of_five, (4,))))
    same = nn.Linear(4, 4)
    seen = words(pf.draw(nn.Sequential(same, same, same), (4,)))
    assert {"Linear × 3", "0 · 20 parameters each"} <= set(seen)


def test_large_nets_are_not_opened_all_the_way() -> None:
    def wide(n: int) -> nn.Sequential:
        layers = [nn.Sequential(nn.Linear(k, k + 1), nn.ReLU()) for k in range(1, n)]
        return nn.Sequential(nn.Sequential(*layers), nn.Linear(n, 1))

    assert words(pf.draw(wide(20), (1,))).count("ReLU") == 19
    large = wide(70)
    seen = words(pf.draw(large, (1,)))
    assert seen.count("ReLU") == 0
    assert seen.count("Sequential") == 70  # the title, and each of the inner ones as a box
    assert "1×70" in seen  # what the last of them gives
    assert words(pf.draw(large, (1,), depth=2)).count("ReLU") == 69
    assert "BatchNorm2d" not in " ".join(words(pf.draw(nn.Sequential(Block()), (4, 6, 6), depth=0)))


def test_frames_hold_their_boxes_and_lines_stay_within() -> None:
    root = ElementTree.fromstring(pf.draw(nn.Sequential(Block(), nn.ReLU()), (4, 6, 6)).svg)
    size = [float(root.get(k, "0")) for k in ("width", "height")]
    rects = [[float(r.get(k, "0")) for k in ("x", "y", "width", "height")]
             for r in [*root.iter(f"{SVG}rect")][1:]]  # fmt: skip
    frame = next(r for r in rects if r[2] == max(q[2] for q in rects))
    within = [r for r in rects if frame[1] < r[1] < frame[1] + frame[3]]
    assert len(within) == 6
    for x, y, w, h in within:
        assert frame[0] <= x
        assert x + w <= frame[0] + frame[2]
        assert y + h <= frame[1] + frame[3]
    for path in root.iter(f"{SVG}path"):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d", ""))]
        assert all(-12 <= n <= max(size) for n in numbers)


def test_the_tree_and_texts_from_outside() -> None:
    class Evil(nn.Identity):
        def extra_repr(self) -> str:
            return "<script>alert('&')</script>"

    net = nn.Sequential()
    net.add_module("a<b>&", Evil())
    net.add_module("lin", nn.Linear(2, 3, bias=False))
    seen = words(pf.draw(net))
    assert seen[0] == "Sequential"
    shown = {"a<b>&: Evil", "<script>alert('&')</script>", "lin: Linear", "6 parameters"}
    assert shown <= set(seen)
    assert "<script>" not in pf.draw(net).svg + pf.draw(net, (2,)).svg


def test_files_and_errors(tmp_path: Path) -> None:
    net = nn.Linear(2, 3)
    drawing = pf.draw(net, (2,), tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text(encoding="utf-8") == drawing.svg
    for args, error, said in (
        ((net, None, "a.png"), ValueError, "an SVG file"),
        ((net, None, 3), TypeError, "a path such as"),
        ((3,), TypeError, "draw: expected a Module or a Model, got int"),
        ((net, (5,)), RuntimeError, "linear"),
    ):
        with pytest.raises(error, match=said):
            pf.draw(*args)
    assert not net._forward_hooks  # after an error, too
    assert pf.ones(2).sum().item() == 2
    assert edges(trace(pf.compile(net), (2,))) == chain("input/input", "Linear", "output")
