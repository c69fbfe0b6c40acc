"""What both kinds of page do with a program: worker.py runs it, exporter.py writes it down."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.web import guess
from pyframe.web.demo import Demo

SAMPLES = 21  # of unseen data, whose reading the page shows
SAMPLE_NUMBERS = 1 << 20  # in all of them together at most
POINTS = 500  # of the data that are drawn on a plane at most


class Session:
    """A demo with its model, its data and the values of its controls."""

    model: Any = None
    train_data: Any = None
    test_data: Any = None

    def __init__(self, demo: Demo) -> None:
        self.demo, self.inputs, self.outputs = demo, demo.inputs, demo.outputs
        self.values = {c.name: c.value for c in demo.controls}  # at first

    def arguments(self, fn: Callable[..., Any]) -> dict[str, Any]:
        """The controls' values that `fn` takes."""
        return {n: v for n, v in self.values.items() if n in parameters(fn)}

    def make_model(self) -> None:
        """Have the demo make its model, or what it gives in its place."""
        self.model = self.demo.model(**self.arguments(self.demo.model))

    def load_data(self) -> None:
        """Have the demo load what it learns from and, where it has that, what tests it."""
        assert self.demo.data is not None
        found = self.demo.data(**self.arguments(self.demo.data))
        parts = isinstance(found, (tuple, list)) and len(found) == 2 and not is_pair(found)
        self.train_data, self.test_data = found if parts else (found, None)

    def take_weights(
        self, path: Any, strict: bool | None = None, rename: Mapping[str, str] | None = None
    ) -> None:
        """Give the model the weights of a file; `strict` and `rename` as the demo has them, unless
        they are given. Raises RuntimeError where they do not fit."""
        from pyframe.train.model import weights_of

        strict = self.demo.strict if strict is None else strict
        rename = self.demo.rename if rename is None else rename
        what, state = f"Model.load: {path}", weights_of(path)
        if isinstance(state, Mapping):
            own = self.model.net.state_dict()
            if not own.keys() <= state.keys():
                state = renamed(state, rename)
            if not strict:
                state = {name: value for name, value in state.items() if name in own}
                if not state:
                    raise RuntimeError(
                        f"{what}: the file is of another architecture: it has none of the model's "
                        f"names, such as {next(iter(own), 'none')}"
                    )
        self.model._take(what, state, strict)

    # --- options of the optimizers

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of all optimizers."""
        return [group for o in self.model.optimizers for group in o.param_groups]

    def is_option(self, name: str) -> bool:
        """Whether all groups of the optimizers have an option of that name."""
        groups = self.groups
        return bool(groups) and name != "params" and all(name in group for group in groups)

    def set_option(self, name: str, value: Any) -> None:
        """Give an option its value, in all groups."""
        for group in self.groups:
            group[name] = value

    # --- what the page is told

    def complete(
        self, x: Any, y: Any, forward: Callable[[pf.Tensor], pf.Tensor], far: Callable[[], float]
    ) -> None:
        """Find the inputs and outputs that the demo does not name from one sample (x, y); see
        `guess.widgets`."""
        known = (getattr(data, "classes", None) for data in (self.train_data, self.test_data))
        names = next((found for found in known if found is not None), None)
        self.inputs, self.outputs = guess.widgets(self.demo, x, y, forward, far, names)

    def described(self) -> dict[str, Any]:
        """The demo's spec, with the inputs and outputs that were found and what is known of the
        model."""
        return {
            **self.demo.spec(),
            "input": self.inputs.spec() if self.inputs else None,
            "output": self.outputs.spec() if self.outputs else None,
            **about(self.model.net, self.model.metrics),
        }


def renamed(state: Mapping[str, Any], rename: Mapping[str, str]) -> dict[str, Any]:
    """The entries of a file under new names: `rename` has those of old ones. An old one that ends
    in a dot, or is empty, stands for the beginning of names; the longest counts."""
    starts = sorted((k for k in rename if not k or k.endswith(".")), key=len, reverse=True)

    def new(name: str) -> str:
        if name in rename:
            return rename[name]
        start = next((start for start in starts if name.startswith(start)), None)
        return name if start is None else rename[start] + name[len(start) :]

    return {new(name): value for name, value in state.items()}


def about(net: nn.Module, metrics: Iterable[str]) -> dict[str, Any]:
    """What a page is told of any network."""
    return {"parameters": sum(p.numel() for p in net.parameters()), "metrics": list(metrics)}


def parameters(fn: Callable[..., Any]) -> Any:
    """The parameters of a function by name; none of one that says nothing of them."""
    try:
        return inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return {}


def is_pair(data: Any) -> bool:
    """Whether `data` is (x, y) tensors, and not (training, test) data."""
    arrays = (pf.Tensor, np.ndarray)
    return isinstance(data, (tuple, list)) and len(data) == 2 and all(
        isinstance(d, arrays) for d in data
    )  # fmt: skip


def shown(count: int, shape: Sequence[int]) -> list[int]:
    """Which of `count` samples of a shape the page shows: some of all, as they may be ordered by
    class."""
    n = min(SAMPLES, count, SAMPLE_NUMBERS // math.prod(shape))
    return [i * count // n for i in range(n)]


def drawn(count: int) -> range:
    """Which of `count` points the page draws."""
    return range(0, count, max(1, math.ceil(count / POINTS)))
