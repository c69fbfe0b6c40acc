"""The GPUs: which there are, their memory, their clocks and their random numbers. Names as
torch.cuda's, whatever the GPU's maker.

'gpu:0', 'gpu:1', … are the real GPUs, the fastest kind first; software adapters count only where
PYFRAME_ADAPTER=software asks for them. `device` is a number, 'gpu:1', a device, or None for the
current one: the one that 'gpu' means. Where there is no GPU all memory is 0, and what waits returns
at once. A compiled function that asks for any of this ends its capture there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyframe.backend.base import GPUBackend, Stats
from pyframe.backend.properties import DeviceProperties
from pyframe.core import devices
from pyframe.core.devices import OutOfMemoryError, device as Device
from pyframe.core.modes import mode
from pyframe.core.words import columns
from pyframe.ops.api.layouts import texts as _texts
from pyframe.ops.random.draws import default_generator
from pyframe.runtime.opening import gpu_backend
from pyframe.tensor import Tensor, upload

__all__ = [
    "DeviceProperties", "Event", "OutOfMemoryError", "Stream", "current_device", "current_stream",
    "default_stream", "device", "device_count", "device_of", "empty_cache",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
    "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize", "synchronize_async",
]  # fmt: skip

# --- which there are


def is_available() -> bool:
    """Whether there is a real GPU, or a software adapter that PYFRAME_ADAPTER=software asks for."""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs: 'gpu:0', 'gpu:1', ….

    0 where wgpu is missing, and where there is nothing but a software adapter that nobody asked
    for, which device 'gpu' opens with a warning."""
    try:
        found = _adapters()
    except (ImportError, RuntimeError):
        return 0
    return len(found) if devices.software_wanted() else sum(not each.software for each in found)


def _adapters() -> list[DeviceProperties]:
    """What can be opened. RuntimeError says why there is nothing."""
    return _described(gpu_backend(), devices.software_wanted(), os.getpid())


@functools.lru_cache(1)
def _described(backend: type[GPUBackend], software: bool, process: int) -> list[DeviceProperties]:
    return backend.adapters(software)


def _device(of: Any, what: str) -> Device:
    """The GPU that the argument of a function means."""
    if of is None:
        return Device("gpu")
    if isinstance(of, int):
        if of < 0:
            raise ValueError(f"{what}: expected the number of a GPU, got {of}")
        return Device("gpu", of)
    d = Device(of)
    if d.kind != "gpu":
        raise ValueError(f"{what}: expected a GPU, as in 'gpu' or 'gpu:1', got {str(d)!r}")
    return d


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a GPU says of itself: name, vendor, type, API, driver, limits, features, memory.

    `total_memory` is None where it is not told: in a page, and where there is no Vulkan.
    RuntimeError where there is no such GPU.
    """
    d = _device(device, "get_device_properties")
    about, nth = _adapter(d)
    memory = _memory(about, nth)
    return replace(about, total_memory=memory and memory[0])


def _adapter(d: Device) -> tuple[DeviceProperties, int]:
    """A GPU, and which one of those that are like it."""
    found = _adapters()
    if d.index >= len(found):
        none = gpu_backend().none
        raise devices.no_such_gpu(d.index, [each.adapter for each in found], none)
    about = found[d.index]
    return about, sum(each.ids == about.ids for each in found[: d.index])


def _memory(about: DeviceProperties, nth: int) -> tuple[int, int | None] | None:
    if about.ids == (0, 0):
        return None
    from pyframe.backend import vulkan

    return vulkan.memory(about.ids, nth)


def get_device_name(device: Any = None) -> str:
    """The name of a GPU. RuntimeError where there is no such one."""
    return _adapter(_device(device, "get_device_name"))[0].name


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors can be bfloat16: they are stored so and computed in float32, which PyTorch
    calls an emulation.

    Args:
        including_emulation: Whether an emulation counts.
    """
    return including_emulation and is_available()


def is_initialized() -> bool:
    """Whether a GPU has been used."""
    return bool(devices.opened_gpus())


def init() -> None:
    """Open the current GPU now, and not when it is first used. RuntimeError where there is none."""
    Device("gpu").executor  # noqa: B018


# --- the current one


def current_device() -> int:
    """The number of the GPU that 'gpu' means: 0, until `set_device` says another."""
    return Device("gpu").index


def set_device(device: Any) -> None:
    """Let 'gpu' mean this GPU from now on, in all threads; for numbers below 0 nothing happens.

    Tensors, and the default device, stay where they are. RuntimeError for a GPU that there is not.

    Args:
        device: A number, a name or a device.
    """
    if isinstance(device, int) and device < 0:
        return
    d = _device(device, "set_device")
    if d.index:
        _adapter(d)
    Device.current = d.index


class device:  # noqa: N801  (PyTorch's name)
    """Within `with pf.gpu.device(1):` 'gpu' means that GPU; None and -1 leave it as it is.

    Args:
        device: A number, a name or a device.
    """

    def __init__(self, device: Any) -> None:
        self.to = -1 if device is None else device
        self.before: list[int] = []

    def __enter__(self) -> device:
        self.before.append(Device.current)
        set_device(self.to)
        return self

    def __exit__(self, *exc: object) -> None:
        Device.current = self.before.pop()


def device_of(obj: Tensor) -> device:
    """`device` for the GPU that a tensor is on; one on the CPU changes nothing.

    Args:
        obj: The tensor.
    """
    return device(obj.device if obj.device.kind == "gpu" else None)


# --- memory


def _asked(d: Device, why: str) -> Any:
    """The Executor of a GPU that has been used, else None."""
    if mode.capture is not None:
        mode.capture.graph_break(why)
    return d.opened


def _stats(device: Any, what: str) -> Stats:
    executor = _asked(_device(device, what), "asks for the memory of a GPU")
    return Stats() if executor is None else executor.stats


def memory_allocated(device: Any = None) -> int:
    """Bytes in use: by tensors that have been computed, and by the temporaries of Programs."""
    return _stats(device, "memory_allocated").bytes_live


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes in use at one time, since the beginning or `reset_peak_memory_stats`."""
    return _stats(device, "max_memory_allocated").peak_live


def memory_reserved(device: Any = None) -> int:
    """Bytes in use or kept for reuse."""
    return _stats(device, "memory_reserved").bytes_reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes in use or kept at one time, since the beginning or
    `reset_peak_memory_stats`."""
    return _stats(device, "max_memory_reserved").peak_reserved


def memory_stats(device: Any = None) -> dict[str, int]:
    """The four numbers by the names that they have in torch.cuda.memory_stats."""
    stats = _stats(device, "memory_stats")
    return {
        "allocated_bytes.all.current": stats.bytes_live,
        "allocated_bytes.all.peak": stats.peak_live,
        "reserved_bytes.all.current": stats.bytes_reserved,
        "reserved_bytes.all.peak": stats.peak_reserved,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of a GPU's memory, for people.

    Args:
        abbreviated: Whether to leave out what is shared, kept for reuse, and the largest tensor.
    """
    d = _device(device, "memory_summary")
    stats, executor = _stats(d, "memory_summary"), d.opened
    if executor is None:
        return f"{d}: not used yet"
    rows = [
        (f"{d}: {d.backend.adapter}", "now", "most"),
        ("in use", _size(stats.bytes_live), _size(stats.peak_live)),
    ]
    if not abbreviated:
        rows += [
            ("  temporaries that Programs share", _size(executor.scratch_bytes), ""),
            ("kept for reuse", _size(stats.bytes_pooled), ""),
        ]
    rows.append(("reserved", _size(stats.bytes_reserved), _size(stats.peak_reserved)))
    if not abbreviated:
        limits = d.backend.limits
        largest = min(limits.buffer_bytes, limits.binding_bytes)
        rows.append(("the largest tensor", "", _size(largest)))
    return columns(rows, rules=(1,))


def _size(nbytes: int) -> str:
    return f"{nbytes} B" if nbytes < 1024 else (
        f"{nbytes / 2**10:.1f} KiB" if nbytes < 2**20 else f"{nbytes / 2**20:.1f} MiB"
    )  # fmt: skip


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start over from what is held now."""
    _stats(device, "reset_peak_memory_stats").reset_peaks()


def empty_cache() -> None:
    """Give the memory that GPUs keep for reuse back to the system."""
    for d in devices.opened_gpus():
        executor = _asked(d, "gives memory back")
        with executor.lock:
            executor.trim()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """About how many bytes this process may still take, and how many the GPU has.

    RuntimeError where the driver does not tell, or there is no such GPU.
    """
    about, nth = _adapter(_device(device, "mem_get_info"))
    memory = _memory(about, nth)
    if memory is None or memory[1] is None:
        raise RuntimeError(
            f"mem_get_info: {about.adapter} does not tell what is free; memory_reserved() says "
            "what this process has taken, get_device_properties() what there is, where it is known"
        )
    return memory[1], memory[0]


# --- waiting, and time


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that was given to it. What a check of its values has found is
    raised here."""
    d = _device(device, "synchronize")
    if _asked(d, "waits for a GPU") is not None:
        _last(d).item()


async def synchronize_async(device: Any = None) -> None:
    """`synchronize` that gives the thread back while it waits."""
    d = _device(device, "synchronize_async")
    if _asked(d, "waits for a GPU") is not None:
        await _last(d).item_async()


def _last(d: Device) -> Tensor:
    """Who reads it waits for all work before: work runs in the order in which it was given."""
    return upload(np.zeros((), np.float32), d)


class Stream:
    """Accepted: all work on a GPU is in one queue and runs in the order in which it was given, so a
    stream has nothing to order. As a context it changes nothing.

    Args:
        priority, kwargs: Nothing is done with them.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = _device(device, "Stream")
        self.priority = priority

    def synchronize(self) -> None:
        """Wait for the GPU's work."""
        synchronize(self.device)

    def query(self) -> bool:
        """True, after waiting for the GPU's work."""
        self.synchronize()
        return True

    def wait_event(self, event: Event) -> None:
        """What follows comes after the event anyway.

        Args:
            event: An Event.
        """

    def wait_stream(self, stream: Stream) -> None:
        """What follows comes after that stream's work anyway.

        Args:
            stream: Another Stream.
        """

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, by default a new one without timing.

        Args:
            event: An Event.
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device is self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<Stream of {self.device}>"


def stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    """`with pf.gpu.stream(s):` is accepted.

    Args:
        stream: A Stream; None changes nothing.
    """
    return contextlib.nullcontext() if stream is None else stream


def current_stream(device: Any = None) -> Stream:
    """The one queue of a GPU."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Stream) -> None:
    """Accepted.

    Args:
        stream: A Stream; nothing is done with it.
    """


class Event:
    """A place in a GPU's work. With `enable_timing` it has the time at which the GPU came there.

    `clock` says by which clock, once it is recorded: "gpu" is the device's own, which is read when
    it gets there; "host" is time.perf_counter_ns, where the device has none: to record the event
    then waits for the work before it (`record_async` in a page that can't wait).

    Args:
        blocking: Nothing is done with it.
        interprocess: RuntimeError if it is true.
    """

    clock: str | None = None
    device: Device | None = None  # where it was recorded

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise RuntimeError("Event: a GPU's work is one process's own; interprocess can't be")
        self.enable_timing = enable_timing
        self._time: Any = None  # a Buffer with the device's ticks, or nanoseconds on the host

    def record(self, stream: Stream | None = None) -> None:
        """Put the event behind all work so far. RuntimeError where there is no GPU.

        Args:
            stream: A Stream of the GPU; by default the current one.
        """
        d = self._mark(stream)
        if self.enable_timing and self._time is None:
            synchronize(d)
            self._time = time.perf_counter_ns()

    async def record_async(self, stream: Stream | None = None) -> None:
        """`record` that gives the thread back where it waits."""
        d = self._mark(stream)
        if self.enable_timing and self._time is None:
            await synchronize_async(d)
            self._time = time.perf_counter_ns()

    def _mark(self, stream: Stream | None) -> Device:
        d = Device("gpu") if stream is None else stream.device
        _asked(d, "records an event")
        executor = d.executor
        executor.flush()
        self.device = d
        self._time = executor.mark() if self.enable_timing else None
        if self.enable_timing:
            self.clock = "host" if self._time is None else "gpu"
        return d

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to that one; waits for both.

        RuntimeError if one of them was not recorded or has no time, or they are of different GPUs.

        Args:
            end_event: The later one.
        """
        executor, marks = self._marks(end_event)
        if not marks:
            return (end_event._time - self._time) / 1e6
        return _between(executor, executor.read(marks))

    async def elapsed_time_async(self, end_event: Event) -> float:
        """`elapsed_time` that gives the thread back while it waits."""
        executor, marks = self._marks(end_event)
        if not marks:
            return (end_event._time - self._time) / 1e6
        return _between(executor, await executor.read_async(marks))

    def _marks(self, end: Event) -> tuple[Any, Sequence[tuple[Any, int]]]:
        """The Executor, and what to read there; nothing where the host's clock told the time."""
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError(
                "Event.elapsed_time: both events must be created with enable_timing=True"
            )
        if self.device is None or end.device is None:
            raise RuntimeError(
                "Event.elapsed_time: both events must be recorded before the time between them is "
                "asked for"
            )
        if self.device is not end.device:
            raise RuntimeError(
                f"Event.elapsed_time: the events are of {self.device} and of {end.device}, whose "
                "clocks differ; record both on one device"
            )
        if self.clock == "host":
            return None, ()
        executor = _asked(self.device, "asks for the time of a GPU's work")
        if executor is not self._time.pool or executor is not end._time.pool:
            raise devices.lost_error()
        return executor, ((self._time, 8), (end._time, 8))

    def query(self) -> bool:
        """True, after waiting for the work before the event."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for the work before the event."""
        if self.device is not None:
            synchronize(self.device)

    async def synchronize_async(self) -> None:
        """`synchronize` that gives the thread back while it waits."""
        if self.device is not None:
            await synchronize_async(self.device)

    def wait(self, stream: Stream | None = None) -> None:
        """What follows comes after the event anyway.

        Args:
            stream: Nothing is done with it.
        """

    def __repr__(self) -> str:
        by = f", by the {self.clock}'s clock" if self.clock else ""
        return f"<Event {'not recorded' if self.device is None else f'on {self.device}'}{by}>"


def _between(executor: Any, raw: Sequence[bytes]) -> float:
    start, end = (int(np.frombuffer(each, np.uint64)[0]) for each in raw)
    return float((end - start) * executor.backend.period / 1e6)


# --- random numbers


def manual_seed(seed: int) -> None:
    """Start the random numbers of the current GPU over from `seed`, and nobody else's."""
    default_generator.seed_device(seed, Device("gpu"))


def manual_seed_all(seed: int) -> None:
    """`manual_seed` for each GPU.

    Args:
        seed: An int.
    """
    there = [Device("gpu", i) for i in range(max(device_count(), 1))]
    for d in dict.fromkeys([*there, *devices.opened_gpus()]):
        default_generator.seed_device(seed, d)


def seed() -> None:
    """Start the random numbers of the current GPU over from a seed of the operating system's."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """`seed` for each GPU, the same for all."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed that the random numbers of the current GPU started from."""
    return default_generator.device_seed(Device("gpu"))


def get_rng_state(device: Any = "gpu") -> Tensor:
    """uint8 (16,), on the CPU: the seed of a GPU's random numbers, and how often was drawn."""
    state = default_generator.device_state(_device(device, "get_rng_state"))
    return upload(np.array(state, np.uint64).view(np.uint8), devices.cpu)


def get_rng_state_all() -> list[Tensor]:
    """`get_rng_state` of each GPU."""
    return [get_rng_state(d) for d in range(device_count())]


def set_rng_state(new_state: Tensor, device: Any = "gpu") -> None:
    """Put a GPU's random numbers back into a state of `get_rng_state`.

    Args:
        new_state: The tensor.
    """
    d = _device(device, "set_rng_state")
    if not isinstance(new_state, Tensor) or tuple(new_state.shape) != (16,):
        raise TypeError("set_rng_state: expected the uint8 tensor (16,) that get_rng_state gave")
    seed, drawn = (int(n) for n in new_state.cpu().contiguous().numpy().view(np.uint64))
    default_generator.seed_device(seed, d, drawn)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """`set_rng_state` of each GPU.

    Args:
        new_states: A tensor for each GPU.
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


if _texts:
    _texts.complete_docstrings(globals())
