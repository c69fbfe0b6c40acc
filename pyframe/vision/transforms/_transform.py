"""What all transforms share: which parts of a sample they change, and how they print."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from pyframe.nn import Module
from pyframe.tensor import Tensor
from pyframe.tensor.tree import map_parts
from pyframe.vision.transforms import _draw
from pyframe.vision.transforms._functional_pil import is_pil

Init = TypeVar("Init", bound=Callable[..., None])
PLAIN = ""  # in the place of names in a repr: all attributes that are numbers, texts and the like


def fields(shown: str | None = None, /, **kept: Callable[[Any], Any]) -> Callable[[Init], Init]:
    """For an `__init__` whose arguments are the fields of a transform: they are set before it runs.

    So what it has to do is check them. A function that is given here for a field makes what is kept
    of what is passed. `shown` are the names in the repr: by default all fields.
    """

    def decorate(init: Init) -> Init:
        names = init.__code__.co_varnames[1 : init.__code__.co_argcount]

        @functools.wraps(init)
        def init_fields(self: Transform, *args: Any, **options: Any) -> None:
            Module.__init__(self)
            last = init.__defaults__ or ()
            given = dict(zip(names[len(names) - len(last) :], last, strict=True))
            given.update(zip(names, args, strict=False), **options)
            for name in names:
                setattr(self, name, given.get(name))
            init(self, *args, **options)  # which says what is missing or too much
            for name, form in kept.items():
                setattr(self, name, form(given[name]))

        init_fields.shown = " ".join(names) if shown is None else shown  # type: ignore[attr-defined]
        return init_fields  # type: ignore[return-value]

    return decorate


def parts(sample: Any) -> list[Any]:
    """What lies in nested lists, tuples and dicts, in order."""
    found: list[Any] = []
    map_parts(sample, found.append)
    return found


def first_image(flat_inputs: list[Any]) -> Any:
    """The image that the others are like. TypeError where there is none."""
    if not flat_inputs:
        raise TypeError("No image was found in the sample: expected a Tensor or a PIL image")
    return flat_inputs[0]


class Transform(Module):
    """A transform of images, on their own or within a sample, as (image, label) or a dict.

    A subclass has `transform(inpt, params)`, and `make_params(flat_inputs)` where it draws: what
    that gives goes to each image of the sample. The images are the PIL images, and where there is
    none, the first Tensor; the rest passes through.
    """

    # What `transform` calls where a subclass has none: with the image, with what `make_params` gave
    # (a dict by names, or a tuple of the first), and with the attributes of the other names.
    _function: ClassVar[Callable[..., Any] | None] = None
    _arguments: ClassVar[list[str]] = []  # of it, after the image

    # types, and functions that tell
    _transformed_types: tuple[type | Callable[[Any], bool], ...] = (Tensor, is_pil)
    _shown = PLAIN  # the names that `repr` shows
    _between = ", "

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        init: Any = cls.__dict__.get("__init__")
        if hasattr(init, "shown"):
            cls._shown = init.shown
        if cls._function is not None:
            cls._arguments = list(inspect.signature(cls._function).parameters)[1:]

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raise where the sample does not suit.

        Args:
            flat_inputs: The parts of the sample in order.
        """

    def make_params(self, flat_inputs: list[Any]) -> Any:
        """What is drawn once for all images of a sample, `flat_inputs`."""
        return {}

    def transform(self, inpt: Any, params: Any) -> Any:
        """What becomes of one image; every subclass has its own.

        Args:
            inpt: The image.
            params: What `make_params` gave.
        """
        function = type(self)._function
        if function is None:
            raise NotImplementedError(f"{type(self).__name__} has no transform(inpt, params)")
        given = {name: getattr(self, name) for name in self._arguments if name in vars(self)}
        if isinstance(params, tuple):
            params = dict(zip(self._arguments, params, strict=False))
        return function(inpt, **{**given, **params})

    def forward(self, *inputs: Any) -> Any:
        """The sample with its images transformed: several arguments are a tuple.

        Args:
            inputs: The sample, or its parts.
        """
        sample = inputs[0] if len(inputs) == 1 else inputs
        whole = not isinstance(sample, (list, tuple, dict))
        flat = [sample] if whole else parts(sample)
        self._refuse_others(flat)
        if whole:
            self.check_inputs(flat)
            return self.transform(sample, self.make_params(flat))
        self.check_inputs(flat)
        chosen = self._chosen(flat)
        params = self.make_params([part for part, yes in zip(flat, chosen, strict=True) if yes])
        asked = iter(chosen)
        return map_parts(sample, lambda x: self.transform(x, params) if next(asked) else x)

    def _refuse_others(self, flat: list[Any]) -> None:
        if found := [x for x in flat if getattr(x, "moves_with_image", False)]:
            raise TypeError(
                f"{type(self).__name__}: expected images alone, got {type(found[0]).__name__}, "
                "which would have to move with them; pyframe's transforms move no boxes and masks"
            )

    def _chosen(self, flat: list[Any]) -> list[bool]:
        free = not any(map(is_pil, flat))  # whether a Tensor would be the image
        chosen = []
        for part in flat:
            yes = any(
                isinstance(part, t) if isinstance(t, type) else t(part)
                for t in self._transformed_types
            )
            if yes and isinstance(part, Tensor):
                yes, free = free, False
            chosen.append(yes)
        return chosen

    def extra_repr(self) -> str:
        """The fields that were set, as `name=value`."""
        plain = (bool, int, float, str, tuple, list, enum.Enum)
        names = self._shown.split() or [
            name
            for name, value in self.__dict__.items()
            if not name.startswith("_") and name != "training" and isinstance(value, plain)
        ]
        return self._between.join(f"{n.partition('.')[0]}={attrgetter(n)(self)}" for n in names)


def probability(p: float) -> float:
    """`p`. ValueError for what is none."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"`p` should be a floating point value in the interval [0.0, 1.0]: {p}")
    return p


class RandomlyApplied(Transform):
    """A transform that is done with probability `p`, to all images of a sample or to none."""

    @fields(p=probability)
    def __init__(self, p: float = 0.5) -> None: ...

    def forward(self, *inputs: Any) -> Any:
        """The sample, transformed or as it is."""
        if _draw.uniform() < self.p:
            return super().forward(*inputs)
        self._refuse_others(parts(inputs))
        return inputs[0] if len(inputs) == 1 else inputs
