"""A kernel's identity in every process: the key by which compiled code is kept in files."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import types
from typing import Any

import numpy as np

from pyframe.core.dtypes import dtype as DType
from pyframe.core.op import IMPORT_TIME, REGISTRY
from pyframe.graph.program import Apply, Kernel, Reduce

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FOLDERS = ("codegen", "core", "graph", "ops")  # of the sources that decide what a kernel becomes


def identity_of(kernel: Kernel) -> str | None:
    """A text that this kernel alone has, with these sources. None where no text can tell: of an op
    that a user declared, and while sources are being changed."""
    known = sources()
    if known is None:
        return None
    for i in kernel.code:
        if isinstance(i, (Apply, Reduce)):
            op = REGISTRY[i.op]
            if not _is_ours((op.scalar, op.combine)):
                return None
    try:
        return known + _text(
            (kernel.space, kernel.code, kernel.stores, kernel.bindings, kernel.params)
        )
    except TypeError:
        return None


def _name(value: Any) -> str:
    if isinstance(value, DType):
        return value.name
    raise TypeError(f"no text tells a {type(value).__name__} from another")


# The kinds of instructions differ in how many fields they have, or in the kinds of these.
_text = json.JSONEncoder(default=_name, check_circular=False, separators=(",", ":")).encode


@functools.cache
def sources() -> str | None:
    """A digest of the sources' names, sizes and times. None if they can't be read, or if one was
    written after pyframe was imported: what runs may then be another."""
    found = []
    folders = [os.path.join(_PACKAGE, name) for name in _FOLDERS]
    try:
        for folder in folders:  # it grows by those within
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        info = entry.stat()
                        found.append((info.st_mtime_ns, info.st_size, entry.path))
                    elif entry.is_dir():
                        folders.append(entry.path)
    except OSError:
        return None
    if not found or max(found)[0] >= IMPORT_TIME:
        return None
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


@functools.lru_cache(1024)
def _is_ours(meaning: tuple[Any, ...]) -> bool:
    """Whether the package's sources say all that functions do, and all that these hold."""
    todo: list[Any] = [meaning]
    seen: set[int] = set()
    for value in todo:  # it grows by what is held
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if value.__globals__["__name__"].partition(".")[0] != "pyframe":
                return False
            todo += [c.cell_contents for c in value.__closure__ or ()]
            todo += value.__defaults__ or ()
        elif isinstance(value, tuple):
            todo += value
        elif not isinstance(
            value, (str, int, float, types.NoneType, np.ufunc, types.BuiltinFunctionType)
        ):
            return False
    return True
