"""What the files of models share: builders by name, their weights, and how layers start."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from pyframe import nn
from pyframe.nn import init
from pyframe.tensor import Tensor

M = TypeVar("M")
BUILDERS: dict[str, Callable[..., Any]] = {}


def builder(
    name: str, make: Callable[..., M], *args: Any, fixed: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Callable[..., M]:  # fmt: skip
    """A function that makes a model as `make(*args, **defaults, **fixed)`, listed under `name`.

    Who calls it may give other options, but not other values for those of `fixed`.
    """

    def build(
        weights: Any = None, progress: bool = True, pretrained: bool = False, **options: Any
    ) -> M:
        if weights or pretrained:
            given = f"weights={weights!r}" if weights else f"pretrained={pretrained!r}"
            raise ValueError(
                f"{name}: got {given}, but no weights are hosted; build it with weights=None and "
                'load the state_dict of a file: model.load_state_dict(pf.load("FILE")), from '
                "safetensors or as torchvision saves it"
            )
        for key, value in (fixed or {}).items():
            if options.setdefault(key, value) != value:
                raise ValueError(
                    f"The parameter '{key}' expected value {value} but got {options[key]} instead."
                )
        return make(*args, **{**defaults, **options})

    build.__name__ = build.__qualname__ = name
    build.__module__ = make.__module__
    build.__doc__ = f"{name}: see the class, whose other options can be given; weights=None."
    BUILDERS[name] = build
    return build


class Weights:
    """What torchvision's enum of this name stands for here: names of weights, that none can load.

    Programs that import it run; a builder refuses `ResNet18_Weights.DEFAULT` and says what to do.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, which: str) -> str:
        if which.startswith("_"):
            raise AttributeError(which)
        return f"{self.__name__}.{which}"


def list_models(
    module: ModuleType | None = None, include: Iterable[str] | str | None = None,
    exclude: Iterable[str] | str | None = None,
) -> list[str]:  # fmt: skip
    """The names that `get_model` knows, sorted: those that match `include` and not `exclude`.

    Both are patterns as of files ("resnet*"), one or some; `module` is pf.vision.models if given.
    """

    def matching(patterns: Iterable[str] | str) -> set[str]:
        patterns = [patterns] if isinstance(patterns, str) else patterns
        return {name for p in patterns for name in fnmatch.filter(names, p)}

    names = {
        name
        for name, build in BUILDERS.items()
        if module is None or build.__module__.rpartition(".")[0] == module.__name__
    }
    if include:
        names = matching(include)
    return sorted(names - matching(exclude) if exclude else names)


def get_model_builder(name: str) -> Callable[..., Any]:
    """The function that makes the model. ValueError for an unknown name."""
    if name.lower() not in BUILDERS:
        raise ValueError(f"Unknown model {name}; list_models() gives those that are known")
    return BUILDERS[name.lower()]


def get_model(name: str, **config: Any) -> Any:
    """The model of this name, made with the options `config`."""
    return get_model_builder(name)(**config)


class Classifier(nn.Module):
    """A model of three parts that are called in turn: `features`, `avgpool` and `classifier`."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def check_setting(name: str, setting: Any, kind: type, shown: str) -> None:
    """ValueError for a list of blocks that is empty, TypeError for one that is not all `kind`."""
    if not setting:
        raise ValueError(f"The {name} should not be empty")
    if not all(isinstance(s, kind) for s in setting):
        raise TypeError(f"The {name} should be List[{shown}]")


def make_divisible(v: float, divisor: int = 8) -> int:
    """The multiple of `divisor` nearest to `v`, at least 0.9 of it and at least one."""
    near = max(divisor, int(v + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * v else near


fan_out = partial(init.kaiming_normal_, mode="fan_out")


def start(
    net: nn.Module, conv: Callable[[Tensor], Any] = fan_out,
    linear: Callable[[Tensor], Any] | None = None,
) -> None:  # fmt: skip
    """Draw the weights of convolutions and linear layers and zero their biases.

    Without `linear` linear layers stay as they are. Norms start at 1 and 0 by themselves.
    """
    for m in net.modules():
        draw = conv if isinstance(m, nn.Conv2d) else linear if isinstance(m, nn.Linear) else None
        if draw is not None:
            draw(m.weight)
            if m.bias is not None:
                init.zeros_(m.bias)
