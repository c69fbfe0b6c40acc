"""What a page shows of a program: a few declarative lines that mean nothing natively.

    demo = Demo(make_model, Points(classes=2), Plane(), data=load_data, epochs=30,
                controls=(Slider("lr", 1e-4, 0.1, 0.01, log=True),))

`<py-frame src="this_file.py">` reads `demo`; without one it takes `make_model` and `load_data` (see
`Demo.of`). Nothing here touches a browser, a device or a file.
"""

from __future__ import annotations

import functools
import inspect
import math
import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from types import ModuleType

    from pyframe.tensor import Tensor
    from pyframe.train import Model

__all__ = [
    "Bars", "Chat", "Choice", "Demo", "Image", "Numbers", "Pad", "Picture", "Plane", "Points",
    "Position", "Slider", "Text", "Toggle", "Values",
]  # fmt: skip


def _need(what: str, holds: bool, expected: str, seen: object) -> None:
    if not holds:
        shown = repr(seen)
        if len(shown) > 200 or "\n" in shown:  # tensors, networks
            kind, shown = type(seen).__name__, f"{' '.join(shown.split())[:40]}…"
            shown = shown if shown.startswith(kind) else f"{kind} {shown}"
        raise ValueError(f"{what}: expected {expected}, got {shown}")


def _listed(what: str, expected: str, given: Any) -> tuple[Any, ...]:
    """A list or the like as a tuple; no string, of which each letter would be one."""
    _need(what, not isinstance(given, str) and hasattr(given, "__iter__"), expected, given)
    return tuple(given)


def _finite(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)


@dataclass(frozen=True)
class Part:
    """A declaration of one widget of the page; `spec` is what the page gets of it, as JSON data."""

    kind: ClassVar[str] = ""

    def spec(self) -> dict[str, Any]:
        """{"kind": …, and the fields by their names}."""
        return {"kind": self.kind, **{f.name: _plain(getattr(self, f.name)) for f in fields(self)}}


def _plain(value: Any) -> Any:
    """A field as JSON data."""
    if isinstance(value, Part):
        return value.spec()
    return list(map(_plain, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Input(Part):
    """What the visitor gives: float32 numbers of `shape`, one sample of what the network takes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample, without the batch dim."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """See Part; with the shape."""
        return {**super().spec(), "shape": list(self.shape)}


@dataclass(frozen=True)
class Pad(Input):
    """A drawing pad: (1, height, width), ink is 1 and paper 0. `centered` scales and moves the
    drawing as MNIST's digits are: its longer side 5/7 of the field, its centre of mass in the
    middle.

    Args:
        height, width: Pixels of a sample, from 1 to 512; ValueError otherwise.
    """

    kind = "pad"
    height: int = 28
    width: int = 28
    centered: bool = True

    def __post_init__(self) -> None:
        for side in (self.height, self.width):
            _need("Pad", isinstance(side, int) and 1 <= side <= 512, "1 to 512 pixels", side)

    @property
    def shape(self) -> tuple[int, ...]:
        """(1, height, width)."""
        return 1, self.height, self.width


@dataclass(frozen=True)
class Image(Input):
    """A picture that the visitor drops or chooses: (channels, height, width) from 0 to 1, the
    middle of the photo. What the network wants beyond that (mean, deviation) belongs in it.

    Args:
        height, width: Pixels of a sample, from 1 to 4096; ValueError otherwise.
        channels: 3, or 1 for shades of grey.
    """

    kind = "image"
    height: int = 224
    width: int = 224
    channels: int = 3

    def __post_init__(self) -> None:
        for side in (self.height, self.width):
            _need("Image", isinstance(side, int) and 1 <= side <= 4096, "1 to 4096 pixels", side)
        _need("Image", self.channels in (1, 3), "1 or 3 channels", self.channels)

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return self.channels, self.height, self.width


class _InPlane(Input):
    """A place in a plane whose axes go from `low` to `high`: (2,)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        rises = _finite(self.low) and _finite(self.high) and self.low < self.high
        _need(type(self).__name__, rises, "low < high", (self.low, self.high))

    @property
    def shape(self) -> tuple[int, ...]:
        """(2,)."""
        return (2,)


@dataclass(frozen=True)
class Points(_InPlane):
    """Points of a plane, each of a class: (2,), from `low` to `high`, y upwards. Where the visitor
    puts points, training learns from those.

    Args:
        classes: How many, from 2 to 10.
    """

    kind = "points"
    classes: int = 2
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        known = isinstance(self.classes, int) and 2 <= self.classes <= 10
        _need("Points", known, "2 to 10 classes", self.classes)
        super().__post_init__()


@dataclass(frozen=True)
class Position(_InPlane):
    """A place in a plane that the visitor moves over, such as an autoencoder's latent one: (2,).

    Args:
        low, high: The ends of both axes.
    """

    kind = "position"
    low: float = -3.0
    high: float = 3.0


@dataclass(frozen=True)
class Text(Input):
    """Text, both as what a visitor writes and as what the program writes. A function turns one into
    the other: of a str it returns a str, or yields pieces of it, which the page shows as they come.
    With `names` it writes several texts side by side: a piece is a tuple with one of each.

    With a `name` it is a control as well: a text of the visitor's, an argument of that name.

    Args:
        placeholder: What the field shows while it is empty.
        most: The most characters that it takes.
        value: What a control has at first.
        label: What stands beside it; by default its name.
    """

    kind = "text"
    placeholder: str = ""
    most: int = 10_000
    names: tuple[str, ...] = ()
    name: str = ""
    value: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        names = _listed("Text", "a list of names", self.names)
        object.__setattr__(self, "names", tuple(map(str, names)))
        _need("Text", not self.name or self.name.isidentifier(), "a name", self.name)
        _need(f"Text {self.name!r}", len(self.value) <= self.most,
              f"{self.most} characters at most", self.value)  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(): a string is no numbers."""
        return ()


@dataclass(frozen=True)
class Chat(Text):
    """A conversation. The function takes what the visitor says and, if it has an argument
    `history`, what was said before: {"role": "user" or "assistant", "content": …} each. One that is
    an object's method, such as `pf.text.Chat.say`, keeps that itself: Clear calls the object's
    `clear()`.

    Args:
        placeholder, most, names, name, value, label: As of Text.
    """

    kind = "chat"


@dataclass(frozen=True)
class Picture(Part):
    """What the network gives is a picture: (channels, height, width) from 0 to 1.

    Args:
        height, width: The picture's pixels.
        channels: 1 or 3.
    """

    kind = "picture"
    height: int = 28
    width: int = 28
    channels: int = 1

    def show(self, y: Tensor) -> Tensor:
        """(N, …) -> (N, channels, height, width) between 0 and 1.

        Args:
            y: What the network gives.
        """
        return y.reshape(-1, self.channels, self.height, self.width).clamp(0, 1)


class _Scores(Part):
    """What the network gives are scores of classes."""

    def show(self, y: Tensor) -> Tensor:
        """(N, classes) scores -> (N, classes) probabilities; of one score, sigmoid's."""
        return probabilities(y)


@dataclass(frozen=True)
class Bars(_Scores):
    """What the network gives are scores of classes, shown as probabilities: the `top` highest,
    or all in their order where it is 0. `names` is a list, or a string with a letter for each
    class."""

    kind = "bars"
    names: tuple[str, ...] = ()
    top: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(str, self.names)))


@dataclass(frozen=True)
class Plane(_Scores):
    """The class that the network gives each point of the plane, drawn beneath `Points`.

    Args:
        size: How many places of a side are predicted, from 2 to 256.
    """

    kind = "plane"
    size: int = 40

    def __post_init__(self) -> None:
        _need("Plane", isinstance(self.size, int) and 2 <= self.size <= 256, "a size from 2 to 256",
              self.size)  # fmt: skip


@dataclass(frozen=True)
class Values(Part):
    """What the network gives are numbers, shown as they are with their names and unit.

    Args:
        names: A list, a name for each number.
        unit: What stands behind each.
    """

    kind = "values"
    names: tuple[str, ...] = ()
    unit: str = ""

    def __post_init__(self) -> None:
        names = _listed("Values", "a list of names", self.names)
        object.__setattr__(self, "names", tuple(map(str, names)))

    def show(self, y: Tensor) -> Tensor:
        """(N, …) -> (N, numbers).

        Args:
            y: What the network gives.
        """
        return y.reshape(len(y), -1)


def probabilities(y: Tensor) -> Tensor:
    """(N, classes) scores -> probabilities; one score a sample gives (N, 2), by sigmoid."""
    y = y.reshape(len(y), -1)
    if y.shape[1] > 1:
        return y.softmax(1)
    p = y.sigmoid()
    from pyframe import cat

    return cat([1 - p, p], 1)


@dataclass(frozen=True)
class Slider(Part):
    """A number that the visitor changes: an option of the optimizer (`lr`, `weight_decay`), of the
    data or the model (an argument of that name of `load_data` or `make_model`), or an input.

    Args:
        name: An identifier; ValueError otherwise.
        low, high: The ends.
        value: Where it stands at first; None is the middle.
        step: The least change; None is as fine as can be.
        log: Whether it counts by factors; then `low` is above 0.
        label: What stands beside it; by default its name.
    """

    kind = "slider"
    name: str
    low: float
    high: float
    value: float | None = None
    step: float | None = None
    log: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        _need(
            "Slider", isinstance(self.name, str) and self.name.isidentifier(), "a name", self.name
        )
        _need(f"Slider {self.name!r}",
              _finite(self.low) and _finite(self.high) and self.low < self.high
              and not (self.log and self.low <= 0), "low < high (0 < low for log=True)",
              (self.low, self.high))  # fmt: skip
        if self.value is None:
            middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
            object.__setattr__(self, "value", middle)
        _need(f"Slider {self.name!r}", _finite(self.value) and self.low <= self.value <= self.high,  # type: ignore[operator]
              f"a value from {self.low} to {self.high}", self.value)  # fmt: skip


@dataclass(frozen=True)
class Choice(Part):
    """One of several words or numbers: an argument of that name of `load_data` or `make_model`.

    Args:
        name: An identifier.
        options: A list of them; ValueError if it is empty.
        value: The first one to be chosen; None is the first of the list.
        label: What stands beside it; by default its name.
    """

    kind = "choice"
    name: str
    options: tuple[Any, ...]
    value: Any = None
    label: str = ""

    def __post_init__(self) -> None:
        options = _listed(f"Choice {self.name!r}", "a list of options", self.options)
        object.__setattr__(self, "options", options)
        _need(f"Choice {self.name!r}", len(self.options) > 0, "at least one option", self.options)
        if self.value is None:
            object.__setattr__(self, "value", self.options[0])
        _need(f"Choice {self.name!r}", self.value in self.options, f"one of {self.options}",
              self.value)  # fmt: skip


@dataclass(frozen=True)
class Toggle(Part):
    """Yes or no: an argument of that name of `load_data` or `make_model`.

    Args:
        name: An identifier.
        value: Whether it is on at first.
        label: What stands beside it; by default its name.
    """

    kind = "toggle"
    name: str
    value: bool = False
    label: str = ""


@dataclass(frozen=True)
class Numbers(Input):
    """A list of sliders, whose values are the sample: (sliders,).

    Args:
        sliders: A list of Sliders; ValueError for anything else.
    """

    kind = "numbers"
    sliders: tuple[Slider, ...] = ()

    def __post_init__(self) -> None:
        expected = 'a list of Sliders, such as [Slider("x", -1, 1)]'
        object.__setattr__(self, "sliders", _listed("Numbers", expected, self.sliders))
        _need("Numbers", len(self.sliders) > 0 and all(isinstance(s, Slider) for s in self.sliders),
              expected, self.sliders)  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(sliders,)."""
        return (len(self.sliders),)


Output = Picture | Bars | Plane | Values | Text


def _of_texts(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of texts as one of a model, which it needs none, and texts."""

    @functools.wraps(fn)
    def predict(_: Model, text: str, **more: Any) -> Any:
        return fn(text, **more)

    return predict


def _no_network() -> Model:
    from pyframe import Model, nn

    return Model(nn.Identity())


def _takes_text(fn: Callable[..., Any]) -> bool:
    try:
        found = inspect.signature(fn)
        found.bind("", **{"history": ()} if "history" in found.parameters else {})
    except TypeError:
        return False
    except ValueError:  # it says nothing of its arguments
        pass
    return True


def no_model(program: str) -> str:
    """What is said of a program that defines no model."""
    return (
        f"{program} defines no model: expected `demo = pyframe.web.Demo(...)`, or a function "
        "`make_model()` that returns a pf.Model"
    )


@dataclass
class Demo:
    """A program as a page shows it.

    `model` makes the pf.Model; with Text and Chat it may be the function of texts itself, which
    needs no such model: `Demo(write, Text(), Text())`, `Demo(chat.say, Chat())`. `inputs` and
    `outputs` say what it takes and gives; None: it is only trained. `data` gives what it learns
    from: a data set, (x, y) tensors, or (training, test) data sets. `predict(model, x)` stands in
    place of the network's forward: tensors (N, *shape) in, a tensor out; with Text, a str in, and a
    str or pieces of one out, and it may take controls as arguments of their names. `controls` are
    shown beside Train. `read_every`: steps between two losses that are read. Of files of weights,
    `strict=False` takes what fits by its name and leaves the rest, and `rename` has the model's
    names for the file's: {"fc.weight": "head.weight", "backbone.": ""}, where a dot at the end
    stands for all names that begin so.

    Args:
        epochs, batch_size: How often training goes through the data, and by how many samples.
        title, description: Texts that stand above it.
        extra: JSON data for the page's own scripts.
    """

    model: Callable[..., Model]
    inputs: Input | None = None
    outputs: Output | None = None
    data: Callable[..., Any] | None = None
    controls: Sequence[Slider | Choice | Toggle | Text] = ()
    epochs: int = 5
    batch_size: int = 64
    title: str = ""
    description: str = ""
    predict: Callable[..., Any] | None = None
    read_every: int = 8
    extra: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = True
    rename: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = not isinstance(self.model, type) and (
            hasattr(self.model, "parameters") or hasattr(self.model, "fit")
        )  # a network or a pf.Model, which are callable, too
        _need("Demo: model", callable(self.model) and not made, "a function that makes a pf.Model",
              self.model)  # fmt: skip
        _need("Demo: inputs", self.inputs is None or isinstance(self.inputs, Input),
              "an input such as Pad() or Points()", self.inputs)  # fmt: skip
        _need("Demo: outputs", self.outputs is None or isinstance(self.outputs, Output),
              "an output such as Bars() or Plane()", self.outputs)  # fmt: skip
        _need("Demo: outputs", not (isinstance(self.inputs, Chat) and self.outputs), "none: Chat() "
              "shows the answers", self.outputs)  # fmt: skip
        _need("Demo: data", self.data is None or callable(self.data), "a function", self.data)
        for name in ("epochs", "batch_size", "read_every"):
            value = getattr(self, name)
            _need(f"Demo: {name}", isinstance(value, int) and value >= 1, "at least 1", value)
        _need("Demo: rename", isinstance(self.rename, Mapping)
              and all(isinstance(s, str) for pair in self.rename.items() for s in pair),
              'a dict of names, such as {"old.": "new."}', self.rename)  # fmt: skip
        self.controls = tuple(self.controls)
        for c in self.controls:
            _need("Demo: controls", isinstance(c, (Slider, Choice, Toggle))
                  or (isinstance(c, Text) and c.name != ""),
                  "Slider, Choice, Toggle or a Text with a name", c)  # fmt: skip
        if isinstance(self.inputs, Text) and self.predict is None:
            if not _takes_text(self.model):
                raise ValueError(
                    "Demo: inputs=Text() needs predict=, a function of (model, text) that returns "
                    "text or yields pieces of it; or a function of a text in the model's place"
                )
            self.predict, self.model = _of_texts(self.model), _no_network

    def spec(self) -> dict[str, Any]:
        """What the page gets, as JSON data."""
        return {
            "title": self.title,
            "description": self.description,
            "input": _plain(self.inputs),
            "output": _plain(self.outputs),
            "controls": _plain(tuple(self.controls)),
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "trains": self.data is not None or isinstance(self.inputs, Points),
            "extra": dict(self.extra),
            "strict": self.strict,
            "rename": dict(self.rename),
        }

    @staticmethod
    def of(module: ModuleType) -> Demo:
        """The demo of a program: its `demo`; else one made of `make_model` (or a Model called
        `model`) and `load_data`, with its EPOCHS and BATCH_SIZE, and inputs and outputs as one
        sample of the data has them.

        Raises TypeError for a program that has neither.

        Args:
            module: The program.
        """
        demo = getattr(module, "demo", None)
        if isinstance(demo, Demo):
            return demo
        from pyframe.train import Model

        make = getattr(module, "make_model", None)
        if make is None and isinstance(getattr(module, "model", None), Model):
            found = module.model

            def make() -> Model:
                return found

        if not callable(make):
            name = os.path.basename(getattr(module, "__file__", None) or module.__name__)
            raise TypeError(no_model(name))
        data = getattr(module, "load_data", None)
        title = (module.__doc__ or "").strip().split("\n")[0]
        return Demo(
            make,
            data=data if callable(data) else None,
            epochs=int(getattr(module, "EPOCHS", 5)),
            batch_size=int(getattr(module, "BATCH_SIZE", 64)),
            title=title,
        )
