"""The declarations of pyframe.web: what a page gets of them, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from processes import python

import pyframe as pf
from pyframe import nn, optim, web
from pyframe.web import Demo
from pyframe.web.session import Session


def make_model() -> pf.Model:
    net = nn.Linear(2, 2)
    return pf.Model(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1))


def program(**names: Any) -> ModuleType:
    module = ModuleType("program", "What it is about.\n\nAnd more.")
    module.__dict__.update(names)
    return module


def test_a_demo_is_json_data() -> None:
    demo = Demo(
        make_model, web.Points(3), web.Plane(20), data=lambda: None, epochs=7, title="Moons",
        controls=[web.Slider("lr", 1e-4, 1.0, log=True), web.Choice("kind", ("moons", "rings")),
                  web.Toggle("noise")],
    )  # fmt: skip
    spec = demo.spec()
    assert json.loads(json.dumps(spec)) == spec
    assert spec["input"] == {"kind": "points", "classes": 3, "low": -1, "high": 1, "shape": [2]}
    assert spec["output"] == {"kind": "plane", "size": 20}
    assert spec["trains"]
    assert spec["epochs"] == 7
    slider, choice, toggle = spec["controls"]
    assert slider["value"] == pytest.approx(1e-2)  # the middle of a log scale
    assert choice["value"] == "moons"
    assert toggle == {"kind": "toggle", "name": "noise", "value": False, "label": ""}


@pytest.mark.parametrize(
    ("part", "shape"),
    [(web.Pad(20, 30), [1, 20, 30]), (web.Image(8, 9, 3), [3, 8, 9]), (web.Points(), [2]),
     (web.Position(), [2]), (web.Text(), []), (web.Chat(), []),
     (web.Numbers([web.Slider("a", 0, 1), web.Slider("b", 0, 2)]), [2])],
)  # fmt: skip
def test_an_input_has_the_shape_of_a_sample(part: Any, shape: list[int]) -> None:
    assert part.spec()["shape"] == shape
    assert json.loads(json.dumps(part.spec())) == part.spec()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: web.Pad(0), "Pad: expected 1 to 512 pixels, got 0"),
        (lambda: web.Image(5000, 5), "1 to 4096 pixels, got 5000"),
        (lambda: web.Image(5, 5, 4), "1 or 3 channels, got 4"),
        (lambda: web.Points(1), "2 to 10 classes, got 1"),
        (lambda: web.Points(low=1, high=1), "low < high"),
        (lambda: web.Position(2, float("nan")), "low < high"),
        (lambda: web.Plane(1), "a size from 2 to 256, got 1"),
        (lambda: web.Slider("lr", 1, 0), "Slider 'lr': expected low < high"),
        (lambda: web.Slider("lr", 0, 1, log=True), "0 < low for log=True"),
        (lambda: web.Slider("lr", 0, 1, 2), "a value from 0 to 1, got 2"),
        (lambda: web.Slider("a b", 0, 1), "expected a name, got 'a b'"),
        (lambda: web.Choice("kind", ()), "at least one option"),
        (lambda: web.Choice("kind", ("a",), "b"), "one of .*'a'.*, got 'b'"),
        (lambda: web.Choice("kind", "ab"), "expected a list of options, got 'ab'"),
        (lambda: web.Numbers(), "expected a list of Sliders, such as .*, got \\(\\)"),
        (lambda: web.Numbers(web.Slider("a", 0, 1)), "Numbers: expected a list of Sliders"),
        (lambda: web.Values("height"), "Values: expected a list of names, got 'height'"),
        (lambda: Demo(3), "Demo: model: expected a function that makes a pf.Model, got 3"),
        (lambda: Demo(make_model()), "expected a function that makes a pf.Model, got Model\\("),
        (lambda: Demo(nn.Linear(2, 2)), "expected a function that makes a pf.Model, got Linear"),
        (lambda: Demo(make_model, data=pf.rand(50)), "data: expected a .*, got Tensor .{41}$"),
        (lambda: Demo(make_model, web.Bars()), "expected an input such as Pad"),
        (lambda: Demo(make_model, web.Pad(), web.Pad()), "expected an output such as Bars"),
        (lambda: Demo(make_model, epochs=0), "epochs: expected at least 1, got 0"),
        (lambda: Demo(make_model, controls=["lr"]), "Toggle or a Text with a name, got 'lr'"),
        (lambda: Demo(make_model, controls=[web.Text()]), "a Text with a name, got Text"),
        (lambda: web.Text(names="ab"), "Text: expected a list of names, got 'ab'"),
        (lambda: web.Text(name="a b"), "Text: expected a name, got 'a b'"),
        (lambda: web.Text(most=2, value="abc"), "2 characters at most, got 'abc'"),
        (lambda: Demo(make_model, rename={"a": 1}), "rename: expected a dict of names, .*'a': 1"),
        (lambda: Demo(make_model, web.Text()), "needs predict="),
        (lambda: Demo(str, web.Chat(), web.Text()), "none: Chat\\(\\) shows the answers"),
    ],
)
def test_bad_declarations_say_what_is_wrong(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_function_of_texts_stands_for_the_model() -> None:
    demo = Demo(str.upper, web.Text(), web.Text())
    assert demo.predict is not None
    assert demo.predict(demo.model(), "abc") == "ABC"
    assert isinstance(demo.model(), pf.Model)
    assert not demo.spec()["trains"]
    assert Demo(make_model, web.Text(), predict=lambda model, text: text).model is make_model


def test_what_is_shown_of_a_networks_output() -> None:
    scores = pf.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    assert np.allclose(web.Bars().show(scores).sum(1).numpy(), 1)
    one = web.Plane().show(pf.tensor([[0.0], [2.0]]))
    assert one.shape == (2, 2)
    assert one[0].tolist() == [0.5, 0.5]
    assert one[1, 1] == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert web.Picture(2, 3).show(pf.tensor([[-1.0, 0.5, 2, 0, 0, 0]])).max().item() == 1
    assert web.Values().show(pf.zeros(2, 3, 4)).shape == (2, 12)


def test_a_program_without_a_demo_is_shown_by_its_functions() -> None:
    demo = Demo.of(program(make_model=make_model, load_data=lambda: None, EPOCHS=3, BATCH_SIZE=9))
    assert (demo.epochs, demo.batch_size, demo.title) == (3, 9, "What it is about.")
    assert demo.data is not None
    model = make_model()
    assert Demo.of(program(model=model)).model() is model
    own = Demo(make_model)
    assert Demo.of(program(demo=own, make_model=None)) is own


def test_a_program_without_a_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"defines no model: expected `demo = .*make_model"):
        Demo.of(program(model=nn.Linear(1, 1)))


def test_weights_of_other_names(tmp_path: Path) -> None:
    """Renamed, taken in part, or refused, as the demo says; what has the model's names stays."""
    saved = make_model().net.state_dict()
    path = tmp_path / "weights.safetensors"

    def took(state: dict[str, pf.Tensor], **options: Any) -> bool:
        pf.io.save(state, path)
        session = Session(Demo(make_model, **options))
        session.make_model()
        session.take_weights(path)
        return session.model.net.weight.tolist() == saved["weight"].tolist()

    other = {f"net.{k}": v for k, v in saved.items()}
    more = {**other, "head.weight": pf.zeros(1)}
    with pytest.raises(RuntimeError, match=r"unexpected: net\.bias, net\.weight"):
        took(other)
    assert took(other, rename={"net.": ""})
    assert took(other, rename={"net.weight": "weight", "net.bias": "bias", "": "x"})
    assert took(saved, rename={"": "net."})
    with pytest.raises(RuntimeError, match=r"unexpected: head\.weight"):
        took(more, rename={"net.": ""})
    assert took(more, rename={"net.": ""}, strict=False)
    assert took({"weight": saved["weight"]}, strict=False)
    with pytest.raises(RuntimeError, match=r"weight \[3\], which is \[2, 2\] in the net"):
        took({"weight": pf.zeros(3)}, strict=False)
    with pytest.raises(RuntimeError, match="none of the model's names, such as weight"):
        took(more, strict=False)


def test_declarations_load_nothing_but_pyframe() -> None:
    code = (
        "import sys, pyframe as pf; pf.web.Demo; print(*[m for m in sys.modules if m[:3] == 'pyf'])"
    )
    loaded = set(python("-c", code)[0].split())
    assert "pyframe.web" in loaded
    assert not loaded & {"pyframe.nn", "pyframe.train", "pyframe.serve", "pyframe.vision"}


OLD = """
import sys, types
for name in ("js", "pyodide", "pyodide.ffi"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["pyodide"].__version__ = "0.25.1"
try:
    import pyframe.backend.browser
except ImportError as error:
    print(error)
"""


def test_an_old_pyodide_is_told() -> None:
    """One whose Python can't be asked whether it may wait."""
    said, _ = python("-c", OLD)
    assert said.strip() == "pyframe needs Pyodide 0.26 or a newer one; this is 0.25.1"
