"""torch.ops: what programs declare with torch.library, as torch.ops.namespace.name."""

from __future__ import annotations

from typing import Any

from pyframe.torch.library import namespaces


def __getattr__(name: str) -> Any:
    if name in namespaces:
        return namespaces[name]
    raise AttributeError(f"torch.ops: no op of the namespace {name!r} was declared")
