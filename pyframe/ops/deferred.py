"""Errors that only the values show, where a value is not looked at when the op is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import outside
from pyframe.core.modes import no_grad

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


_CODES = 1 << 14  # how many checks a flag can tell apart
_SEEN = "; got {}"  # ends the message of a check that tells a value
_FAR = 1 << 17  # values beyond it are told as this one
_NONE = -(2**31) + 1  # stands for values that did not fail


class Checks:
    """A flag: 0, or the number of the first check that failed in its low 14 bits, and above them
    the value at which it did where its message ends with one. On a GPU each thread has its own, so
    that an error is raised where it was made; on the CPU each capture has one."""

    def __init__(self, device: Device) -> None:
        from pyframe.ops.creation import zeros

        self.flag = zeros((), dtype=dt.int32, device=device)
        self.errors: list[tuple[type[Exception], str]] = device.executor.errors

    def check(
        self, bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
    ) -> None:
        """Note `error(message)` for the next look if any element of `bad` is true by then; with
        `values`, ints, the message ends with the one at which it is."""
        from pyframe.ops import elementwise as el
        from pyframe.ops.reduce import amax

        with no_grad():
            message += "" if values is None else _SEEN
            if (error, message) not in self.errors:
                self.errors.append((error, message))
            code: Any = self.errors.index((error, message)) + 1
            if values is None:
                hit = bad.any()
            else:
                worst = amax(el.where(bad, values.to(dt.int32), _NONE))
                hit = el.ne(worst, _NONE)
                code = el.clamp(worst, -_FAR, _FAR - 1) * _CODES + code
            hit = el.logical_and(el.eq(self.flag, 0), hit)
            self.flag._overwrite(el.where(hit, code, self.flag).to(dt.int32))

    def look(self, failed: int) -> None:
        """Raise the error of the check that `failed`, the flag's value, names; start over then."""
        if failed:
            self.flag.zero_()
            error, message = self.errors[failed % _CODES - 1]
            value = failed // _CODES
            far = " or beyond" if value in (-_FAR, _FAR - 1) else ""
            raise error(message.replace(_SEEN, _SEEN.format(f"{value}{far}")))


def on(device: Device) -> Checks:
    """The checks of this thread on a GPU."""
    return of(device.executor.local, device)


def of(owner: Any, device: Device) -> Checks:
    """The checks on `device` that `owner` keeps; made when they are first needed."""
    if owner.checks is None:
        with outside():
            owner.checks = Checks(device)
    checks: Checks = owner.checks
    return checks
