"""What the files of models share: builders by name, their weights, and how layers start."""

from __future__ import annotations

import fnmatch
import re
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
        source: Any = None
        given = dict(fixed or {})
        if weights is not None or pretrained:
            from pyframe.vision.models import _weights

            source = _weights.find(name, "IMAGENET1K_V1" if weights is None else weights)
            if isinstance(source, _weights.WeightsEnum):
                given["num_classes"] = 1000
                if name.startswith("vit_"):
                    given["image_size"] = source.transforms().crop_size[0]
        for key, value in given.items():
            if options.setdefault(key, value) != value:
                raise ValueError(
                    f"The parameter '{key}' expected value {value} but got {options[key]} instead."
                )
        model = make(*args, **{**defaults, **options})
        if source is not None:
            _fill(model, name, *_weights.state_of(source, progress))
        return model

    build.__name__ = build.__qualname__ = name
    build.__module__ = make.__module__
    build.__doc__ = (
        f"{name}: see the class, whose other options can be given. `weights` is a file, a folder "
        "with one, a URL with a digest, or a published file's name such as 'DEFAULT'.\n\nArgs:\n"
        "    progress: Whether a bar shows how far the download is.\n"
        "    pretrained: Whether to take 'IMAGENET1K_V1' where `weights` are not given.\n"
        "    options: Those of the class; ValueError where the file needs others."
    )
    BUILDERS[name] = build
    return build


def filled(model: M, name: str, weights: Any, progress: bool) -> M:
    """A model with the weights of a file, a folder or an address, if they are given."""
    if weights is not None:
        from pyframe.vision.models import _weights

        _fill(model, name, *_weights.state_of(_weights.find(name, weights), progress))
    return model


# Names that files have from before layers were renamed.
_OLD_NAMES = (
    (re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)"), r"\1\2"),  # of DenseNet
    (re.compile(r"(\.mlp)\.linear_1\."), r"\1.0."),  # of VisionTransformer
    (re.compile(r"(\.mlp)\.linear_2\."), r"\1.3."),
)


def _fill(model: Any, name: str, state: Any, path: str) -> None:
    """Load a file's state_dict. RuntimeError, with names and shapes, where it is another's."""
    if not (isinstance(state, Mapping) and all(isinstance(x, Tensor) for x in state.values())):
        raise ValueError(f"{name}: {path} has no state_dict: names and tensors")
    named: dict[str, Tensor] = {}
    for key, value in state.items():
        for old, new in _OLD_NAMES:
            key = old.sub(new, key)
        named[key] = value
    own = model.state_dict()
    fitting = sum(k in named and named[k].shape == x.shape for k, x in own.items())
    try:
        model.load_state_dict(named)
    except RuntimeError as error:
        raise RuntimeError(
            f"{name}: {path} doesn't fit: {fitting} of {len(own)} names and shapes are in "
            f"it. {error}"
        ) from None


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
    """The model of this name, made with the options `config`.

    Args:
        config: Options of the builder, `weights` among them.
    """
    return get_model_builder(name)(**config)


class Classifier(nn.Module):
    """A model of three parts that are called in turn: `features`, `avgpool` and `classifier`."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
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
        draw = linear if isinstance(m, nn.Linear) else None
        if isinstance(m, nn.Conv2d | nn.Conv3d):
            draw = conv
        if draw is not None:
            draw(m.weight)
            if m.bias is not None:
                init.zeros_(m.bias)
