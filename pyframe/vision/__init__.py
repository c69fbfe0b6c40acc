"""Images, with the names of torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyframe.vision import (
        datasets as datasets,
        io as io,
        models as models,
        ops as ops,
        transforms as transforms,
        utils as utils,
    )

_MODULES = {"datasets", "io", "models", "ops", "transforms", "utils"}


if not TYPE_CHECKING:  # a name that is not there is an error for type checkers

    def __getattr__(name: str) -> Any:
        """Load a part when it is first used: a page may need few."""
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"pyframe.vision.{name}")
        raise AttributeError(f"module 'pyframe.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
