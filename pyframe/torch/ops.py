"""torch.ops: what programs declare with torch.library, as torch.ops.namespace.name."""

from __future__ import annotations

import functools
from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.torch.library import namespaces


class _Aten:
    """torch.ops.aten: pyframe's own functions, by the names that PyTorch dispatches on."""

    @functools.cache  # noqa: B019  (there is one)
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for of in (pf, F, pf.linalg, pf.special, pf.Tensor):
            plain = name.removeprefix("linalg_" if of is pf.linalg else "special_")
            if callable(fn := getattr(of, plain, None)):
                return _Op(f"aten::{name}", fn)

        def lacking(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(f"torch.ops.aten.{name} is not in pyframe")

        return _Op(f"aten::{name}", lacking)


class _Op:
    """An op, and each of its overloads."""

    def __init__(self, name: str, fn: Any) -> None:
        self._name, self._fn = name, fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    @functools.cache  # noqa: B019  (as many as a program names)
    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("_"):
            raise AttributeError(overload)
        return _Op(f"{self._name}.{overload}", self._fn)

    def name(self) -> str:
        """Its name, as "aten::add"."""
        return self._name

    def __repr__(self) -> str:
        return f"<op {self._name}>"


aten = _Aten()


def __getattr__(name: str) -> Any:
    if name in namespaces:
        return namespaces[name]
    raise AttributeError(f"torch.ops: no op of the namespace {name!r} was declared")
