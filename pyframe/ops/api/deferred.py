"""Errors that only the values show, where a value is not looked at when the op is called.

Ops are called as methods here: all families of ops check with this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import suspend_capture, tensor_from_node
from pyframe.core.modes import no_grad
from pyframe.core.op import const

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


_CODES = 1 << 14  # how many checks a flag can tell apart
_GOT_VALUE = "; got {}"  # ends the message of a check that tells a value
_FAR = 1 << 17  # values beyond it are told as this one
_NONE = -(2**31) + 1  # stands for values that did not fail


class DeferredAsserts:
    """A flag: 0, or the number of the first check that failed in its low 14 bits, and above them
    the value at which it did where its message ends with one. On a GPU each thread has its own, so
    that an error is raised where it was made; on the CPU each capture has one."""

    def __init__(self, device: Device) -> None:
        self.flag: Tensor = tensor_from_node(const(0, dt.int32, device)).clone()
        self.errors: list[tuple[type[Exception], str]] = device.executor.errors

    def check(
        self, bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
    ) -> None:
        """Note `error(message)` for the next look if any element of `bad` is true by then; with
        `values`, ints, the message ends with the one at which it is."""
        with no_grad():
            message += "" if values is None else _GOT_VALUE
            if (error, message) not in self.errors:
                self.errors.append((error, message))
            code: Any = self.errors.index((error, message)) + 1
            if values is None:
                hit = bad.any()
            else:
                worst = values.to(dt.int32).where(bad, _NONE).amax()
                hit = worst.ne(_NONE)
                code = worst.clamp(-_FAR, _FAR - 1) * _CODES + code
            hit = self.flag.eq(0).logical_and(hit)
            self.flag._overwrite(self.flag.masked_fill(hit, code).to(dt.int32))

    def look(self, failed: int) -> None:
        """Raise the error of the check that `failed`, the flag's value, names; start over then."""
        if failed:
            self.flag.zero_()
            error, message = self.errors[failed % _CODES - 1]
            value = failed // _CODES
            far = " or beyond" if value in (-_FAR, _FAR - 1) else ""
            raise error(message.replace(_GOT_VALUE, _GOT_VALUE.format(f"{value}{far}")))


def on(device: Device) -> DeferredAsserts:
    """The checks of this thread on a GPU."""
    return of(device.executor.local, device)


def of(owner: Any, device: Device) -> DeferredAsserts:
    """The checks on `device` that `owner` keeps; made when they are first needed."""
    if owner.checks is None:
        with suspend_capture():
            owner.checks = DeferredAsserts(device)
    checks: DeferredAsserts = owner.checks
    return checks
