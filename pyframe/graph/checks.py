"""Errors that only the values show, where a value is not looked at when the op is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyframe import dtypes as dt
from pyframe.devices import device as Device, mode

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


class Checks:
    """A flag: 0, or the number of the first check that failed. On a GPU each thread has its own,
    so that an error is raised where it was made; on the CPU each capture has one."""

    def __init__(self, device: Device) -> None:
        from pyframe.ops.creation import zeros

        self.flag = zeros((), dtype=dt.int32, device=device)
        self.errors: list[tuple[type[Exception], str]] = device.backend.errors

    def check(self, bad: Tensor, message: str, error: type[Exception]) -> None:
        """Note `error(message)` for the next look if any element of `bad` is true by then."""
        from pyframe.ops import elementwise as el
        from pyframe.tensor import no_grad

        with no_grad():
            if (error, message) not in self.errors:
                self.errors.append((error, message))
            code = self.errors.index((error, message)) + 1
            hit = el.logical_and(el.eq(self.flag, 0), bad.any())
            self.flag._overwrite(el.where(hit, code, self.flag).to(dt.int32))

    def look(self, failed: int) -> None:
        """Raise the error of the check that `failed`, the flag's value, names; start over then."""
        if failed:
            self.flag.zero_()
            error, message = self.errors[failed - 1]
            raise error(message)


def of(device: Device) -> Checks:
    """The checks on `device` of this thread, or capture; made when they are first needed."""
    owner = device.backend.local if device.always_lazy else mode.capture
    checks: Checks | None = owner.checks
    if checks is None:
        from pyframe.graph.capture import outside

        with outside():
            checks = owner.checks = Checks(device)
    return checks
