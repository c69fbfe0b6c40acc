"""torch.version, and versions that compare with texts and tuples."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyframe as pf
from pyframe.torch.vision import __version__ as vision_version

_PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}


def _key(version: Any) -> tuple[Any, ...]:
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    public, _, local = text.partition("+")
    found = re.fullmatch(r"v?(\d+(?:\.\d+)*)[._-]?(a|b|rc|post|dev)?[._-]?(\d*).*", public)
    if found is None:
        raise ValueError(f"Invalid version: {text!r}")
    numbers = [int(n) for n in re.sub(r"(\.0)+$", "", found[1]).split(".")]
    return numbers, _PHASES[found[2] or ""], int(found[3] or 0), local


def _compared(name: str) -> Any:
    def run(self: Any, other: Any) -> Any:
        known = isinstance(other, (str, tuple, list)) or hasattr(other, "release")
        return getattr(operator, name)(_key(self), _key(other)) if known else NotImplemented

    return run


class TorchVersion(str):
    """A version that compares with others, given as texts or as tuples, as PEP 440 orders them."""

    __lt__, __le__, __gt__, __ge__ = map(_compared, ("lt", "le", "gt", "ge"))
    __eq__, __ne__ = _compared("eq"), _compared("ne")
    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+pyframe")  # of the API
debug, cuda, hip, rocm, xpu = False, None, None, None, None
git_version = pf.__version__

_VERSIONS = {"torch": str(__version__), "torchvision": vision_version}


def found(name: str | None) -> Iterator[Any]:
    """What importlib.metadata says of the packages that pyframe stands for, without files: of the
    one of a name, or of both."""
    from importlib.metadata import Distribution

    class Stand(Distribution):
        def __init__(self, name: str) -> None:
            self._texts = {
                "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {_VERSIONS[name]}\n",
                "top_level.txt": f"{name}\n",
            }

        def read_text(self, filename: str) -> str | None:
            return self._texts.get(filename)

        def locate_file(self, path: Any) -> Any:
            return Path(pf.__file__).parent / path

    for own in _VERSIONS:
        if name is None or name.lower().replace("_", "-") == own:
            yield Stand(own)
