"""Mixed precision: in which dtype a function computes within `pf.autocast`.

A family says so in `public(…)`, nn.functional with `autocast`: in the context's float16 or bfloat16
(products of matrices, convolutions), in float32 (sums, norms, losses), or in the widest dtype of
its arguments. What has no rule computes in the dtypes of its operands. PyTorch's lists differ
between CPU and CUDA, and so do these between 'cpu' and 'gpu':
https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any

from pyframe.core import dtypes as dt, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode
from pyframe.tensor import Tensor

LOWER, FLOAT32, WIDEST, REFUSED = "lower", "float32", "widest", "refused"
DTYPES = {"cpu": dt.bfloat16, "gpu": dt.float16}  # what contexts take by default
NARROW = frozenset((dt.float16, dt.bfloat16))


class AutocastState:
    """What `mode.autocast` is within an autocast context: the dtype of each device type for which
    it is on, those that a context said last, and the casts of parameters that were made so far."""

    __slots__ = ("cache", "capture", "dtypes", "key", "known")

    def __init__(
        self, dtypes: dict[str, dt.dtype], known: dict[str, dt.dtype], cache: dict[Any, Any] | None
    ) -> None:
        self.dtypes, self.known = dtypes, known
        self.cache = cache
        self.capture = mode.capture  # casts that are recorded in another one are not kept
        self.key = (*sorted((k, d.name) for k, d in known.items()), *sorted(dtypes))

    def dtype_on(self, device: Device) -> dt.dtype | None:
        """The narrow dtype of a device; None where autocast is off."""
        d = self.dtypes.get(device.kind)
        if d is dt.float16 and not device.backend.limits.float16:
            _warn_of(str(device), device.backend.adapter)
            return dt.bfloat16
        return d

    def lowered(self, x: Tensor, dtype: dt.dtype) -> Tensor:
        """`x` in a narrow dtype; a parameter is cast once within the context."""
        if (
            self.cache is None or not x._needs_grad or x._base is not None
            or mode.capture is not self.capture or mode.inference
        ):  # fmt: skip
            return _op.CAST(x, dtype)
        key = id(x), dtype, mode.grad
        kept, version, out = self.cache.get(key, (None, 0, None))
        if kept is not x or version != x._storage.writes:
            out = _op.CAST(x, dtype)
            self.cache[key] = x, x._storage.writes, out
        return out


@contextlib.contextmanager
def as_in(casting: AutocastState | None) -> Iterator[None]:
    """With the dtypes of an earlier context, whose casts are made anew."""
    before = mode.autocast
    mode.autocast = casting and AutocastState(
        casting.dtypes, casting.known, None if casting.cache is None else {}
    )
    try:
        yield
    finally:
        mode.autocast = before


@functools.cache
def _warn_of(device: str, adapter: str) -> None:
    warnings.warn(
        f"autocast: device '{device}' ({adapter}) has no float16; bfloat16 is used instead, which "
        "is rounded and saves no memory there. pf.autocast(enabled=False) stays in float32",
        stacklevel=2,
    )


def autocast(scope: dict[str, Any], **rules: str) -> None:
    """Give functions of a family their rules: `lower=`, `float32=` and `widest=` name those of all
    devices, `cpu_lower=`, `gpu_float32=` and so on those of one."""
    for what, names in rules.items():
        where, _, rule = what.rpartition("_")
        for name in names.split():
            fn = scope[name]
            of = {kind: rule for kind in ("cpu", "gpu") if where in ("", kind)}
            fn.autocast = {**(getattr(fn, "autocast", None) or {}), **of}
            if hasattr(fn, "plain"):
                fn.plain -= NARROW  # they go the way that asks for the rule


def casted(rules: dict[str, str], args: Any, kwargs: Any) -> Any:
    """(args, kwargs) of a function with these rules, by device type, in the dtypes that they have
    within the context that is on; None where it has none for their devices."""
    casting: AutocastState = mode.autocast
    xs = [x for x in _tensors((*args, *kwargs.values())) if x.device.kind in casting.dtypes]
    rule = next((rules[x.device.kind] for x in xs if x.device.kind in rules), None)
    if rule is None:
        return None
    if rule == REFUSED:
        raise RuntimeError(
            "binary_cross_entropy (nn.BCELoss) is unsafe to autocast: the logarithm of a "
            "probability in float16 overflows. Use binary_cross_entropy_with_logits "
            "(nn.BCEWithLogitsLoss) without the sigmoid before it, or compute the loss within "
            "pf.autocast(enabled=False), in float32"
        )
    wide = dt.float32
    if rule == WIDEST:
        dtypes = {x.dtype for x in xs if _is_cast(x.dtype)}
        wide = functools.reduce(dt.promote_types, dtypes) if dtypes else wide

    made: dict[int, Tensor] = {}  # an argument that is given twice is cast once

    def one(x: Any) -> Any:
        if isinstance(x, Tensor):
            if id(x) in made:
                return made[id(x)]
            node = x._node
            if not _is_cast(node.dtype):
                return x
            to = casting.dtype_on(node.device) if rule == LOWER else wide
            if to is None or to is node.dtype or node.device.kind not in casting.dtypes:
                return x
            out = casting.lowered(x, to) if rule == LOWER else _op.CAST(x, to)
            made[id(x)] = out
            return out
        return type(x)([one(y) for y in x]) if type(x) in (list, tuple) else x

    return tuple([one(x) for x in args]), {k: one(v) for k, v in kwargs.items()}


def _is_cast(d: dt.dtype) -> bool:
    return d.category == dt.FLOAT and d is not dt.float64


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, (list, tuple)):
        return [x for part in given for x in _tensors(part)]
    return []
