"""Devices: 'cpu', 'gpu' and 'meta', what 'auto' picks, and the backend behind each."""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from pyframe.core import locks
from pyframe.core.modes import mode

GPU_ALIASES = ("gpu", "webgpu", "cuda", "mps", "xpu")


class DeviceLostError(RuntimeError):
    """A GPU was lost, or a value is needed that was on one. The next use opens the GPU anew.

    >>> issubclass(pf.DeviceLostError, RuntimeError)
    True
    """

    what = "a GPU was lost"  # the message without the advice


class OutOfMemoryError(RuntimeError, MemoryError):
    """A GPU has no memory left for a tensor.

    >>> issubclass(pf.OutOfMemoryError, RuntimeError)
    True
    """


_opening = locks.lock()


class DeviceFactory:
    """How the devices of one type are opened, and what that takes where Python can't block.
    `register` takes one: this module knows no backend."""

    def open(self, d: device) -> Any:
        """The Executor of a device, with its Backend. RuntimeError where there is none."""
        raise NotImplementedError

    def available(self) -> bool:
        """Whether there is real hardware. ImportError or RuntimeError where none can be had."""
        return False

    def can_wait(self) -> bool:
        """Whether blocking code can wait for what takes time."""
        return True

    def wait(self, coroutine: Coroutine[Any, Any, Any], twin: str) -> Any:
        """Run a coroutine that reads values to its end from blocking code."""
        return run_sync(coroutine, twin)

    async def reopen(self) -> None:
        """Prepare to open a device that was lost, where that has to be awaited."""


_openers: dict[str, DeviceFactory] = {}


def register(kind: str, opener: DeviceFactory) -> None:
    """Have the devices of type `kind`, 'cpu', 'gpu' or 'meta', opened by `opener`."""
    _openers[kind] = opener


class _Opened:
    """`backend` or `executor` of a device, made when one of them is first used and again after a
    loss. A cached property, but for one lock that a fork leaves free."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, d: Any, owner: Any) -> Any:
        if d is None:
            return self
        with _opening:
            if d.opened is None:
                made = _open(d)
                if d.opened is None:  # in a page another task may have opened it meanwhile
                    d.attach(made)
            return d.__dict__[self.name]


class device:  # noqa: N801  (PyTorch's name)
    """Where a tensor lives: `device("cpu")`, `device("gpu")`, `device("gpu:1")` or `device(1)`.

    "webgpu", "cuda", "mps" and "xpu" are aliases of "gpu", for ported scripts; "auto" is a real
    GPU if there is one (never a software adapter), else the CPU. Tensors of "meta" have a shape
    and a dtype, and no memory. Raises RuntimeError for an unknown name. "gpu" is the first GPU, or
    the one that `pf.gpu.set_device` says.

    Args:
        type: "cpu", "gpu", "gpu:1", "meta", an alias, the number of a GPU, or a device.
        index: the number of a GPU, which `type` doesn't name.

    >>> pf.device("cpu").type
    'cpu'
    """

    home = "pyframe"  # or "torch", where programs see GPUs under PyTorch's name
    kind: str  # "cpu", "gpu" or "meta"
    index: int
    is_lazy: bool  # ops record and run later, instead of at once
    wide: bool  # ints have 64 bits and there is float64
    current = 0  # the index of "gpu"
    _known: dict[tuple[str, int], device] = {}  # noqa: RUF012

    def __new__(cls, type: str | int | device = "cpu", index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        kind, _, number = str(type).partition(":")
        if kind == "auto" and not number:
            kind = "gpu" if _auto() else "cpu"
        if (number and not number.isdigit()) or kind not in ("cpu", "meta", *GPU_ALIASES):
            if kind.isdigit() and isinstance(type, int):
                return cls("gpu", type)
            raise RuntimeError(
                f"device: unknown device {type!r}; expected 'cpu', 'gpu', 'gpu:1', 'meta' or 'auto'"
            )
        kind = "gpu" if kind in GPU_ALIASES else kind
        if number:
            index = int(number)
        elif index is None and kind == "gpu":
            index = cls.current
        key = kind, index or 0
        if key not in cls._known:
            self = super().__new__(cls)
            self.kind, self.index = key
            self.is_lazy, self.wide = kind != "cpu", kind != "gpu"
            cls._known[key] = self
        return cls._known[key]

    @property
    def type(self) -> str:
        """'cpu', 'gpu' or 'meta'; a program written for PyTorch sees 'cuda' for a GPU."""
        return "cuda" if self.kind == "gpu" and self.home == "torch" else self.kind

    @property
    def lazy(self) -> bool:
        """Whether ops on this device are only recorded now: the CPU's are within a capture."""
        return self.is_lazy or mode.capture is not None

    backend: Any = _Opened()  # the hardware: see backend/base.py
    executor: Any = _Opened()  # what runs recorded work on it: see runtime/executor.py

    @property
    def opened(self) -> Any:
        """The Executor if the device has been used, else None."""
        return self.__dict__.get("executor")

    def attach(self, executor: Any) -> None:
        """Let this device be what `executor` runs on."""
        self.__dict__.update(executor=executor, backend=executor.backend)

    def detach(self) -> None:
        """Forget what the device is, and all that it holds; its next use opens it anew."""
        self.__dict__.pop("executor", None)
        self.__dict__.pop("backend", None)
        for tell in gone:
            tell(self)

    def __enter__(self) -> device:
        """Within `with device("gpu"):` it is the default device."""
        _outer.append(_DEFAULT[0])
        set_default_device(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _DEFAULT[0] = _outer.pop()

    def __str__(self) -> str:
        numbered = self.index or device.current or self.home == "torch"
        return f"{self.type}:{self.index}" if numbered and self.kind == "gpu" else self.kind

    def __repr__(self) -> str:
        index = "" if self.home == "torch" and self.kind != "gpu" else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.kind, self.index)


cpu = device("cpu")


def in_browser() -> bool:
    """Whether this Python runs under Pyodide in a page."""
    return sys.platform == "emscripten"


def _open(d: device) -> Any:
    try:
        return _openers[d.kind].open(d)
    except RuntimeError as error:
        if d not in _lost or isinstance(error, DeviceLostError):
            raise
        raise lost_error(f"{_lost[d]}, and it can't be opened again ({error})") from error


def software_wanted() -> bool:
    """Whether PYFRAME_ADAPTER=software asks for a CPU that plays a GPU."""
    return os.environ.get("PYFRAME_ADAPTER") == "software"


def no_such_gpu(index: int, there: Sequence[str], none: str) -> RuntimeError:
    """The error for a GPU that is not among those that are there; `none` says what to do where
    there is none at all."""
    what = f"device 'gpu{f':{index}' if index else ''}': no such GPU"
    if not there:
        return RuntimeError(f"{what}; {none}, or use device='cpu'")
    listed = ", ".join(f"'gpu:{i}' ({name})" for i, name in enumerate(there))
    return RuntimeError(f"{what}; there {'is' if len(there) == 1 else 'are'} {listed}")


def opened_gpus() -> list[device]:
    """The GPUs that have been used."""
    return [d for d in list(device._known.values()) if d.kind == "gpu" and d.opened is not None]


# --- the end of a GPU

gone: list[Callable[[device], Any]] = []  # told of a device whose memory is gone
_lost: dict[device, str] = {}  # what became of the GPUs that were lost


def lose(backend: Any, why: str) -> DeviceLostError:
    """Note that a GPU is gone, so that its next use opens it anew: the error to raise."""
    with _opening:
        if not backend.lost:
            backend.lost = f"the GPU ({backend.adapter}) was lost: {why.rstrip('.')}"
            for d in opened_gpus():
                if d.opened.backend is not backend:
                    continue
                _lost[d] = backend.lost
                _forget(d)
    return lost_error(backend.lost)


def lost_error(what: str = "") -> DeviceLostError:
    """The error for a loss; by default for a value that was on a GPU lost before."""
    if not what:
        what = f"a value is needed that is gone: {'; '.join(_lost.values()) or 'its GPU was lost'}"
    error = DeviceLostError(
        f"{what}. What its tensors held is gone; new ones are made on the GPU opened anew. Give "
        "networks and optimizers their values again (load_state_dict); Model.fit goes on by itself"
    )
    error.what = what
    return error


def _forget(d: device) -> None:
    d.detach()


async def reopen(d: device) -> None:
    """Open a GPU that was lost: in a page that can't wait inside Python, no use of it does."""
    await _openers[d.kind].reopen()
    d.executor  # noqa: B018


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Let an event loop do other things: asyncio.sleep(0), without its import, which takes long."""
    yield


def run_sync(coroutine: Coroutine[Any, Any, Any], twin: str = "") -> Any:
    """Run a coroutine to its end without an event loop; RuntimeError if it waits for one."""
    try:
        while coroutine.send(None) is None:  # `pause` gives None
            pass
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError(f"a callback waited for an event loop: use `await {twin}`")


def wait(coroutine: Coroutine[Any, Any, Any], d: device, twin: str) -> Any:
    """Run a coroutine that reads from `d` to its end from blocking code: natively a read is done at
    once. RuntimeError that names its twin where it can't be waited for."""
    gpu = _openers["gpu"]
    if d.kind != "gpu" or gpu.can_wait():
        return gpu.wait(coroutine, twin)
    coroutine.close()
    raise RuntimeError(f"this browser can't wait inside Python (it lacks JSPI): use `await {twin}`")


after_fork: list[Callable[[], None]] = []  # what a forked process does before all else


def _after_fork() -> None:
    """In a forked process: no other thread holds a lock, and its parent's GPUs are not its own."""
    for leave in after_fork:
        leave()
    _auto.cache_clear()  # it is the CPU here
    for one in list(locks.made):
        if not one._is_owned():
            one._at_fork_reinit()
    for d in opened_gpus():
        _forget(d)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _auto() -> bool:
    try:
        return _openers["gpu"].available()
    except (ImportError, RuntimeError):
        return False


def is_available() -> bool:
    """Whether there is a real GPU (what `device("auto")` would pick).

    >>> device = pf.device("gpu" if pf.is_available() else "cpu")
    >>> pf.zeros(2).to(device).device == device
    True
    """
    return _auto()


def device_name(d: str | device | None = None) -> str:
    """The hardware behind a device, for people.

    Args:
        d: A device or its name; the default one if None.

    >>> isinstance(pf.device_name("cpu"), str)
    True
    """
    return str(resolve(d).backend.adapter)


_DEFAULT: list[device | None] = [None]
_outer: list[device | None] = []  # the defaults around the `with device(…)` that run


def get_default_device() -> device:
    """The device of new tensors: 'cpu' unless set here or in PYFRAME_DEVICE.

    >>> isinstance(pf.get_default_device(), pf.device)
    True
    """
    d = _DEFAULT[0]
    if d is None:
        d = _DEFAULT[0] = device(os.environ.get("PYFRAME_DEVICE", "cpu"))
    return d


def resolve(d: str | device | None) -> device:
    """The device `d`; the default one for None."""
    return get_default_device() if d is None else device(d)


def set_default_device(d: str | device | None) -> None:
    """Set the device of new tensors; None goes back to PYFRAME_DEVICE or 'cpu'.

    Args:
        d: A device or its name.

    >>> pf.set_default_device("cpu")
    >>> pf.zeros(2).device.type
    'cpu'
    >>> pf.set_default_device(None)
    """
    _DEFAULT[0] = None if d is None else device(d)


def flush() -> None:
    """Run what devices have recorded and not run yet.

    >>> pf.flush()
    """
    for d in list(device._known.values()):  # each compiled step asks: no call but for those in use
        if "executor" in d.__dict__ and (d.is_lazy or d.executor.pending):
            d.executor.flush()
