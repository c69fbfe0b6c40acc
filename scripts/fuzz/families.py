"""The families by name, and what draws a program."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Callable
from typing import Any

from .check import Case, Compared
from .program import Arg, Program

# where families are declared
MODULES = (
    "spatial",
    "layers",
    "modules",
    "tensors",
    "training",
    "files",
    "language_files",
    "graph_files",
    "database",
    "programs",
    "lengths",
    "places",
    "moments",
    "scripted",
    "quantized",
    "texts",
    "onnx_nodes",
    "pictures",
)

FAMILIES: dict[str, Callable[[Draw], Case | None]] = {}
SIZES = [1, 2, 3, 3, 4, 5, 7, 8, 9, 12, 17]


def family(name: str) -> Callable[[Any], Any]:
    """Declare a family: a function that draws."""

    def declared(function: Any) -> Any:
        if name in FAMILIES:
            raise ValueError(f"there is a family {name!r} already")
        FAMILIES[name] = function
        return function

    return declared


def families() -> dict[str, Callable[[Draw], Case | None]]:
    """All of them."""
    for name in MODULES:
        importlib.import_module(f".{name}", __package__)
    return FAMILIES


def case(name: str, seed: int) -> Case:
    """The same case for the same seed."""
    d = Draw(random.Random(f"{name} {seed}"), seed)
    return families()[name](d) or Compared(d.program())


class Draw:
    """Draws a program: the choices, its arguments and its lines."""

    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng, self.seed = rng, seed
        self.args: list[Arg] = []
        self.setup: list[str] = []
        self.body: list[str] = []
        self.before: list[str] = []
        self.after: list[str] = []
        self.found = "y"
        self.mode = self.pick("inside", "inside", "outside", "backward")
        self.calls = self.pick(2, 3)
        # the dtype of real numbers
        self.real = "float32" if self.maybe(0.9) else self.pick("float64", "float16", "bfloat16")

    def int(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return self.rng.randint(low, high)

    def pick(self, *some: Any) -> Any:
        """One of some."""
        return self.rng.choice(some)

    def one(self, some: str) -> str:
        """One of some texts, which two blanks or lines part."""
        return self.pick(*[t for t in re.split(r"  +|\n *", some.strip()) if t])

    def maybe(self, share: float = 0.5) -> bool:
        """Whether, in a share of the cases."""
        return self.rng.random() < share

    def text(self, template: str) -> str:
        """A template in which {a|b|c} stands for one of its alternatives."""
        inner = re.compile(r"\{([^{}]*)\}")
        while inner.search(template):
            template = inner.sub(lambda m: self.pick(*m[1].split("|")), template)
        return template

    def size(self) -> int:
        """Of a dim; rarely 0."""
        return 0 if self.maybe(0.01) else self.pick(*SIZES)

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """Of a tensor with so many dims."""
        return tuple(self.size() for _ in range(self.int(least, most)))

    def arg(
        self, name: str, shape: Any, kind: str = "normal", dtype: str = "", grad: bool = True,
        view: bool = True,
    ) -> str:  # fmt: skip
        """An argument, in a random layout; its name."""
        if not dtype:
            dtype = "int64" if kind.startswith("int:") else "bool" if kind == "bool" else self.real
        grad = grad and dtype in ("float32", "float64", "float16", "bfloat16")
        base, text = tuple(shape), ""
        if view and self.maybe(0.4):
            base, text = self.layout(base)
        self.args.append(Arg(name, base, kind, dtype, grad, text))
        return name

    def layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        """The shape of a base, and the text of how a view of it gives that shape."""
        if not shape:
            return self.pick(((1,), "[0]"), ((2, 3), "[1, 2]"))
        d = self.rng.randrange(len(shape))
        before, n, after = shape[:d], shape[d], shape[d + 1 :]
        index = ":, " * d
        how = self.rng.randrange(6)
        if how == 0:
            order = self.rng.sample(range(len(shape)), len(shape))
            base = [0] * len(shape)
            for k, o in enumerate(order):
                base[o] = shape[k]
            return tuple(base), f".permute({order})"
        if how == 1 and n:
            return (*before, 2 * n, *after), f"[{index}{self.pick('', '1')}::2]"
        if how == 2:
            return (*before, n + 2, *after), f"[{index}{self.pick('1:-1', '2:', ':-2')}]"
        if how == 3:
            return (*before, 1, *after), f".expand({shape})"
        if how == 4:
            return (*before, 3, n, *after), f"[{index}1]"
        if len(shape) > 1:
            turned = shape[::-1]
            return turned, f".permute({[*range(len(shape))][::-1]})"
        return shape, ""

    def line(self, template: str) -> None:
        """A line of the step."""
        self.body.append(self.text(template))

    def perhaps(self, share: float, some: str, line: Callable[[str], str] = str) -> None:
        """In a share of the cases a line of one of some texts, as `one` parts them."""
        if self.maybe(share):
            self.line(line(self.one(some)))

    def net(self, template: str) -> None:
        """A module in the setup, under the name of `net`."""
        self.setup.append(f"net = fill(T, {self.text(template)}, wide, device)")

    def results(self, found: str) -> None:
        """What is looked at: names between commas."""
        self.found = found

    def program(self) -> Program:
        """What was drawn."""
        return Program(tuple(self.args), tuple(self.body), self.found, tuple(self.setup),
                       self.mode, self.calls, self.seed, tuple(self.before),
                       tuple(self.after))  # fmt: skip
