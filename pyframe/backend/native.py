"""The native GPU through wgpu-py: the only file that calls it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import itertools
import logging
import os
import re
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from pyframe.backend.base import (
    GPUBackend,
    ProgramCode,
    RefusedError,
    Stats,
    dispatches,
    retry_after_reclaim,
    translate_errors,
)
from pyframe.backend.cache import DiskCache, cache_folder
from pyframe.backend.properties import DeviceProperties
from pyframe.core import devices
from pyframe.core.limits import Limits

BIND_GROUPS = 16  # kept for a dispatch of a Program
MAX_PIPELINES = 256  # pipelines that are kept, also when no Program has them any more
ONE_SUBMIT = 32  # dispatches that go to the device together; longer runs in 4 to 8 pieces
QUERIES = 4096  # in one set: what WebGPU allows
NOTHING = "@compute @workgroup_size(1) fn main() {}"
_handles = itertools.count(1)  # of all GPUs, so that one of a lost GPU is not another's

_used = False  # the driver, in this process or in one that it was forked from
_forked = False  # since then


def leave() -> None:
    """In a forked process, before all else: let nothing reach for the driver, at the end neither.
    It would wait for ever, as its threads, and those that hold its locks, are the parent's."""
    global _forked
    _forked = _used
    if _used:
        from wgpu.backends.wgpu_native import _api

        _api.libf = None  # objects are not released then
        with contextlib.suppress(AttributeError, OSError):  # glibc's
            libc = ctypes.CDLL(None)
            libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)  # before the driver's own


devices.after_fork.append(leave)


def _finish(ref: weakref.ref[NativeGPU]) -> None:
    """Wait for the GPU's work before the process ends: a software driver's threads crash in what
    the C library takes down meanwhile."""
    backend = ref()
    if backend is not None and not backend.lost and not _forked:
        with contextlib.suppress(Exception):
            last = backend._device.create_buffer(size=4, usage=backend._usage)
            backend._queue.read_buffer(last)  # after all that was given to it


def _parse_names_alone() -> None:
    """Let cffi parse the name of a type with the typedefs that it names, not with all of WebGPU's:
    a process meets some forty names at its first step, which otherwise take 15 ms each."""
    with contextlib.suppress(ImportError, AttributeError):  # another version may have no such parts
        from wgpu.backends.wgpu_native._api import ffi

        parser = ffi._parser
        parse = parser._parse

        def shortened(text: str) -> Any:
            words, declared = set(re.findall(r"\w+", text)), parser._declarations
            kept = {k: v for k, v in declared.items() if k.removeprefix("typedef ") in words}
            parser._declarations = kept
            try:
                return parse(text)
            finally:
                parser._declarations = declared

        parser._parse = shortened


def _adapters() -> list[Any]:
    try:
        import wgpu
    except ImportError as e:
        raise RuntimeError(
            "device 'gpu': wgpu is not installed; run `pip install wgpu`, or use device='cpu'"
        ) from e
    global _used
    if _forked:
        raise RuntimeError(
            "device 'gpu': this process was forked from one that has used the GPU, which does not "
            "outlive a fork. Start it afresh, with multiprocessing.set_start_method('spawn'), or "
            "use device='cpu' in it"
        )
    if not _used:
        _parse_names_alone()
    _used = True
    if sys.platform == "linux":  # Mesa complains where it has none; sockets in /tmp are anyone's
        os.environ.setdefault("XDG_RUNTIME_DIR", os.devnull)
    found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]
    order = {"DiscreteGPU": 0, "IntegratedGPU": 1, "VirtualGPU": 2, "Unknown": 3, "CPU": 9}
    return sorted(found, key=lambda a: order.get(a.info["adapter_type"], 3))


def _choose(software: bool) -> list[Any]:
    """The adapters that 'gpu:0', 'gpu:1', … are, the best first: real GPUs, each through one API
    and driver; those of a CPU where they are asked for or there is nothing else."""
    found = _adapters()
    cpus = [a for a in found if a.info["adapter_type"] == "CPU"]
    real = [a for a in found if a.info["adapter_type"] != "CPU"]
    through: dict[tuple[int, int], tuple[str, str]] = {}
    out = []
    for a in cpus if software else real or cpus:
        way = a.info["backend_type"], a.info["description"]
        if through.setdefault(_ids(a), way) == way:
            out.append(a)
    return out


def _ids(adapter: Any) -> tuple[int, int]:
    return int(adapter.info["vendor_id"]), int(adapter.info["device_id"])


VENDORS = {
    0x1002: "AMD", 0x1010: "Imagination", 0x106B: "Apple", 0x10DE: "NVIDIA", 0x13B5: "Arm",
    0x1414: "Microsoft", 0x5143: "Qualcomm", 0x8086: "Intel", 0x10005: "Mesa",
}  # fmt: skip


def _limits(adapter: Any) -> Limits:
    has = adapter.limits
    # Metal binds 31 buffers of any kind: the params' is one, and wgpu's own of lengths
    most = 29 if adapter.info["backend_type"] == "Metal" else 32
    return Limits(
        storage_buffers=min(has["max-storage-buffers-per-shader-stage"], most),
        # wgpu binds whole words, and has 2^31 - 1 bytes for what is 2 GB
        binding_bytes=has["max-storage-buffer-binding-size"] // 4 * 4,
        buffer_bytes=has["max-buffer-size"] // 4 * 4,
        workgroup_size=has["max-compute-invocations-per-workgroup"],
        workgroup_bytes=has["max-compute-workgroup-storage-size"],
        float16="shader-f16" in adapter.features,
        subgroups="subgroup" in adapter.features,
        dots=True,  # naga translates them for any device
        kind="software" if adapter.info["adapter_type"] == "CPU" else "",
    )


def _describe(adapter: Any) -> DeviceProperties:
    info, ids = adapter.info, _ids(adapter)
    kind = info["adapter_type"]
    driver = dict.fromkeys(t for t in (info["vendor"], info["description"]) if t)
    return DeviceProperties(
        name=info["device"],
        vendor=VENDORS.get(ids[0]) or info["vendor"] or "unknown",
        type="software" if kind == "CPU" else kind.removesuffix("GPU").lower(),
        api=info["backend_type"],
        driver=" ".join(driver),
        limits=_limits(adapter),
        features=tuple(sorted(adapter.features)),
        ids=ids,
        architecture=info.get("architecture", ""),
    )


# Mesa's software driver unrolls loops whose rounds it can count, and compiles each round: in up to
# five times the time that the loop takes.
_LOOP = re.compile(r"(for \(var (\w+) = [^;]*;[^;]*; )\2(?:\+\+| \+= ([^{]*?))\) \{")


def _uncounted(loop: re.Match[str]) -> str:
    """The head of a loop with a step that says the same, and that no compiler follows."""
    head, i, step = loop.groups("1")
    return f"{head}{i} = max({i} + {step}, {i})) {{"


class _Pipeline:
    """A compiled kernel, and the layout of its bind groups."""

    __slots__ = ("__weakref__", "layout", "pipeline")

    def __init__(self, pipeline: Any, layout: Any) -> None:
        self.pipeline, self.layout = pipeline, layout


class _BufferRange:
    """What a handle stands for: a buffer, or a part of one."""

    __slots__ = ("buffer", "dispatches", "nbytes", "offset", "parts")

    def __init__(self, buffer: Any, offset: int, nbytes: int, parts: set[int]) -> None:
        self.buffer, self.offset, self.nbytes = buffer, offset, nbytes
        self.parts = parts  # the handles of the buffer's parts; all of them share this set
        self.dispatches: set[_Dispatch] = set()  # those with a bind group for it


class _Dispatch:
    """One dispatch of a program, and the bind groups it had by the handles that they bind."""

    __slots__ = ("grid", "group", "groups", "layout", "loaded", "params", "pipeline", "slots")

    def __init__(self, loaded: _NativeProgram, kernel: _Pipeline, numbers: Sequence[int]) -> None:
        self.loaded = loaded
        self.pipeline, self.layout = kernel.pipeline, kernel.layout
        self.grid = tuple(numbers[1:4])
        self.params = tuple(numbers[4:6])  # offset (-1: none) and size
        self.slots = tuple(numbers[7:])
        self.groups: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self.group: Any = None  # the one in use


class _NativeProgram:
    """A Program ready to run: its dispatches, prepared for the handles of the last run."""

    __slots__ = (
        "calls", "dispatches", "grids", "handles", "kernels", "params", "pieces", "sent", "starts",
        "users",
    )  # fmt: skip

    def __init__(self, code: ProgramCode, kernels: list[Any], params: Any) -> None:
        self.kernels = kernels
        self.dispatches: list[_Dispatch] = []
        # Dispatches that use a slot
        self.users: list[list[int]] = [[] for _ in range(code.n_slots)]
        for numbers in dispatches(code.steps):
            for slot in set(numbers[7:]):
                self.users[slot].append(len(self.dispatches))
            self.dispatches.append(_Dispatch(self, kernels[numbers[0]], numbers))
        self.pieces = pieces(len(self.dispatches))
        begins = {begin for begin, _ in self.pieces}  # there a pass knows no pipeline yet
        self.starts = [
            i in begins or each.pipeline is not self.dispatches[i - 1].pipeline
            for i, each in enumerate(self.dispatches)
        ]
        self.calls: list[Any] = [None] * len(self.dispatches)
        self.handles: list[int] | None = None
        self.grids: Sequence[int] = ()  # of the last run, if they change
        self.params, self.sent = params, b""

    def resized(self, grids: Sequence[int]) -> list[int]:
        """Let the dispatches have these workgroups; those that had others."""
        self.grids, out = grids, []
        for i, dispatch in enumerate(self.dispatches):
            grid = tuple(grids[3 * i : 3 * i + 3])
            if grid != dispatch.grid:
                dispatch.grid = grid
                out.append(i)
        return out


def pieces(n: int) -> list[tuple[int, int]]:
    """Where a run of `n` dispatches is cut into submits. The first of several is half as long, so
    that the device starts early."""
    if n <= ONE_SUBMIT:
        return [(0, n)]
    k = min(max(4, n // ONE_SUBMIT), 8)
    return list(pairwise([0, *((2 * i + 1) * n // (2 * k - 1) for i in range(k))]))


class _Public:
    """Submits dispatches through wgpu-py's API."""

    def __init__(self, device: Any) -> None:
        self.device, self.queue = device, device.queue

    def call(self, pipeline: Any, group: Any, grid: Sequence[int]) -> tuple[Any, ...]:
        """A dispatch as `submit` takes it; `pipeline` is None where it is the one before."""
        return (pipeline, group, *grid)

    def submit(self, calls: list[tuple[Any, ...]]) -> None:
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for pipeline, group, x, y, z in calls:
            if pipeline is not None:
                compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(x, y, z)
        compute.end()
        self.queue.submit([encoder.finish()])


class _Raw:
    """Submits dispatches through the C functions under wgpu-py, in less than half of the time.
    They are no part of its API: ImportError or AttributeError where a version has other names."""

    def __init__(self, device: Any) -> None:
        from wgpu.backends.wgpu_native._api import ffi, lib, libf

        self.device, self.queue, self.null = device._internal, device.queue._internal, ffi.NULL
        self.commands = ffi.new("WGPUCommandBuffer[1]")
        # libf raises what goes wrong; a pass keeps it until `finish`, so that lib does for these
        self.set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        self.set_group = lib.wgpuComputePassEncoderSetBindGroup
        self.dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        self.encoder = libf.wgpuDeviceCreateCommandEncoder
        self.begin = libf.wgpuCommandEncoderBeginComputePass
        self.end = libf.wgpuComputePassEncoderEnd
        self.finish = libf.wgpuCommandEncoderFinish
        self.run = libf.wgpuQueueSubmit
        self.free_pass = lib.wgpuComputePassEncoderRelease
        self.free_encoder = lib.wgpuCommandEncoderRelease
        self.free_commands = lib.wgpuCommandBufferRelease

    def call(self, pipeline: Any, group: Any, grid: Sequence[int]) -> tuple[Any, ...]:
        return (None if pipeline is None else pipeline._internal, group._internal, *grid)

    def submit(self, calls: list[tuple[Any, ...]]) -> None:
        set_pipeline, set_group, dispatch = self.set_pipeline, self.set_group, self.dispatch
        null = self.null
        encoder = self.encoder(self.device, null)
        compute = self.begin(encoder, null)
        try:
            for pipeline, group, x, y, z in calls:
                if pipeline is not None:
                    set_pipeline(compute, pipeline)
                set_group(compute, 0, group, 0, null)
                dispatch(compute, x, y, z)
            self.end(compute)
            self.commands[0] = self.finish(encoder, null)
        finally:
            self.free_pass(compute)
            self.free_encoder(encoder)
        self.run(self.queue, 1, self.commands)
        self.free_commands(self.commands[0])


def _submitter(device: Any) -> _Raw | _Public:
    try:
        return _Raw(device)
    except (ImportError, AttributeError):
        return _Public(device)


# --- what goes wrong


class _Reason(logging.Filter):
    """Keeps why a device was lost, which wgpu-py tells its log alone, often before calls fail."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        found = re.search(r"device was lost \((\w+)\):\n?(.*)", record.getMessage())
        if found:  # the text comes once; later ones are counted
            reason, text = found.groups()
            self.text = reason if re.fullmatch(r"[ (\d)]*", text) else f"{reason}, {text}"
        return True

    def take(self) -> str:
        """The reason that was told last, once."""
        text, self.text = self.text, ""
        return text or "the driver gives no reason"


_reason = _Reason()


class NativeGPU(GPUBackend):
    """A GPU through Vulkan, Metal or D3D12."""

    name = "native"
    language = "wgsl"
    none = (  # what to say where there is no GPU
        "looked for Vulkan, Metal and D3D12 adapters through wgpu and found none. Install the "
        "GPU's driver (on Debian, mesa-vulkan-drivers has a software one)"
    )

    def __init__(self, index: int = 0, kind: str = "") -> None:
        adapters = _choose(kind == "software")
        if index >= len(adapters):
            raise devices.no_such_gpu(index, [_describe(a).adapter for a in adapters], self.none)
        adapter = adapters[index]
        about, has = _describe(adapter), adapter.limits
        self.software = about.software
        self.adapter = about.adapter
        self._cache = DiskCache(cache_folder())
        self._key = hashlib.sha256(about.key.encode()).hexdigest()
        if self._cache.folder is not None:
            self.kept_in = str(self._cache.folder / self._key)
        wanted = "shader-f16", "subgroup", "timestamp-query"
        features = [f for f in wanted if f in adapter.features]
        names = (
            "max-buffer-size", "max-storage-buffer-binding-size",
            "max-storage-buffers-per-shader-stage", "max-compute-workgroup-storage-size",
            "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
        )  # fmt: skip
        logging.getLogger("wgpu").addFilter(_reason)
        self._device = adapter.request_device_sync(
            required_features=features, required_limits={n: has[n] for n in names}
        )
        self.limits = about.limits
        self.stats = Stats()
        import wgpu

        self._usage = (
            wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        )
        self._uniform = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
        self._staging_usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        self._read_mode = wgpu.MapMode.READ
        self._queue = self._device.queue
        self._submitter = _submitter(self._device)
        atexit.register(_finish, weakref.ref(self))
        self._timestamps = about.timestamps
        self.period = _period(self._queue) if about.timestamps else 1.0
        self._clock: Any = None  # a query, the buffer that it is resolved to, and a kernel
        # by their WGSL: those of loaded Programs, and of the latest ones
        self._pipelines: weakref.WeakValueDictionary[str, _Pipeline] = weakref.WeakValueDictionary()
        self._latest: deque[_Pipeline] = deque(maxlen=MAX_PIPELINES)
        self._staging: list[Any] = []  # mappable buffers that no read uses now
        # Handles are numbers: a wgpu buffer that only a pooled Buffer held could be released by
        # the garbage collector in the same pass that puts it back into the pool.
        self._buffers: dict[int, _BufferRange] = {}
        self._first = next(_handles)
        self._errors = wgpu.GPUError, RuntimeError  # the latter where a read is refused
        self._no_memory = wgpu.GPUOutOfMemoryError

    @staticmethod
    def available() -> bool:
        """Whether there is a real GPU, not a CPU that plays one."""
        return any(a.info["adapter_type"] != "CPU" for a in _adapters())

    @staticmethod
    def adapters(software: bool) -> list[DeviceProperties]:
        """What 'gpu:0', 'gpu:1', … are: real GPUs; software adapters where they are asked for, or
        there is nothing else. RuntimeError where they can't be had."""
        return [_describe(a) for a in _choose(software)]

    def recall(self) -> str:
        found = self._cache.read([self._key])
        if not found and self.kept_in and os.path.exists(self.kept_in):
            raise ValueError("its digest is another")
        return found.get(self._key, b"").decode()

    def remember(self, text: str) -> None:
        self._cache.write({self._key: text.encode()})

    def _fail(self, error: Exception) -> None:
        """Raise what an error of wgpu's means. Every call on a lost device fails."""
        if isinstance(error, (devices.DeviceLostError, MemoryError)):
            raise error
        try:
            self._device.create_command_encoder().finish()
        except self._errors[0] as e:
            if "lost" in str(e):
                raise devices.lose(self, _reason.take()) from error
        if "memory left" in str(error) or isinstance(error, self._no_memory):
            raise MemoryError(str(error)) from error
        raise error

    @translate_errors
    def _buffer(self, nbytes: int, usage: int) -> Any:
        return self._device.create_buffer(size=nbytes, usage=usage)

    def _roomy(self, nbytes: int, usage: int) -> Any:
        """A buffer that no tensor has."""
        return retry_after_reclaim(self, lambda n: self._buffer(n, usage), nbytes)

    def create(self, nbytes: int, usage: int = 0) -> int:
        return self._number(
            _BufferRange(self._buffer(nbytes, self._usage | usage), 0, nbytes, set())
        )

    def trim(self) -> None:
        """What is given back is free once the device is done with it: wait for that."""
        for staging in self._staging[1:]:
            staging.destroy()
        del self._staging[1:]
        for handle in itertools.islice(self._buffers, 1):
            with contextlib.suppress(MemoryError):
                self.read([(handle, 4)])

    def slice(self, handle: int, offset: int, nbytes: int) -> int:
        nbytes = -(-nbytes // 4) * 4
        whole = self._range(handle, offset + nbytes)
        part = self._number(_BufferRange(whole.buffer, whole.offset + offset, nbytes, whole.parts))
        whole.parts.add(part)
        return part

    def _number(self, found: _BufferRange) -> int:
        handle = next(_handles)
        self._buffers[handle] = found
        return handle

    def _range(self, handle: int, nbytes: int = 0) -> _BufferRange:
        """What a handle stands for. Work on a buffer that was destroyed would end the process."""
        found = self._buffers.get(handle)
        if found is None or nbytes > found.nbytes:
            if handle < self._first or self.lost:
                raise devices.lost_error(self.lost)
            raise RuntimeError(
                f"buffer {handle} does not exist, or was freed"
                if found is None
                else f"buffer {handle} has {found.nbytes} bytes, fewer than {nbytes}"
            )
        return found

    def destroy(self, handle: int) -> None:
        """A part goes alone; a buffer goes with its parts, whose own `destroy` is then nothing."""
        found = self._buffers.pop(handle, None)
        if found is None:
            return
        if handle in found.parts:
            found.parts.remove(handle)
        else:
            for part in tuple(found.parts):
                self.destroy(part)
            found.buffer.destroy()
        for dispatch in tuple(found.dispatches):
            dispatch.loaded.handles = None  # it can't be replayed as it is
            for key in [k for k in dispatch.groups if handle in k]:
                self._forget(dispatch, key)

    @translate_errors
    def write(self, handle: int, data: memoryview) -> None:
        found = self._range(handle, len(data))
        self._queue.write_buffer(found.buffer, found.offset, data)

    @translate_errors
    def copy(self, target: int, source: int, nbytes: int) -> None:
        nbytes = -(-nbytes // 4) * 4
        to, of = self._range(target, nbytes), self._range(source, nbytes)
        encoder = self._device.create_command_encoder()
        if to.buffer is of.buffer:  # which WebGPU does not copy directly
            between = self._roomy(nbytes, self._usage)
            encoder.copy_buffer_to_buffer(of.buffer, of.offset, between, 0, nbytes)
            encoder.copy_buffer_to_buffer(between, 0, to.buffer, to.offset, nbytes)
        else:
            encoder.copy_buffer_to_buffer(of.buffer, of.offset, to.buffer, to.offset, nbytes)
        self._queue.submit([encoder.finish()])
        self.stats.submits += 1

    @translate_errors
    def read_begin(self, items: Sequence[tuple[int, int]]) -> Callable[[], Awaitable[list[bytes]]]:
        total = sum(n for _, n in items)
        at = next((i for i, b in enumerate(self._staging) if b.size >= total), None)
        if at is None:
            staging = self._roomy(max(total, 4096), self._staging_usage)
        else:
            staging = self._staging.pop(at)
        encoder = self._device.create_command_encoder()
        at = 0
        for handle, n in items:
            if n:
                found = self._range(handle, n)
                encoder.copy_buffer_to_buffer(found.buffer, found.offset, staging, at, n)
            at += n
        self._queue.submit([encoder.finish()])
        promise = None
        if total:
            try:
                promise = staging.map_async(self._read_mode, 0, total)
            except (*self._errors, AttributeError) as e:  # a device that is gone has no poller
                self._fail(e)

        async def finish() -> list[bytes]:
            out, at = [b""] * len(items), 0
            if promise is not None:
                try:
                    promise.sync_wait()
                    data = staging.read_mapped(0, total, copy=False)  # for as long as it is mapped
                    for i, (_, n) in enumerate(items):
                        out[i] = bytes(data[at : at + n])
                        at += n
                    staging.unmap()
                except self._errors as e:
                    self._fail(e)
            self._staging = [staging, *self._staging[:3]]
            return out

        return finish

    def read(self, items: Sequence[tuple[int, int]]) -> list[bytes]:
        found: list[bytes] = devices.run_sync(self.read_begin(items)())
        return found

    def _pipeline(self, code: str, label: str) -> _Pipeline:
        """The compiled kernel of a text; equal texts share one."""
        found = self._pipelines.get(code)
        if found is None:
            import wgpu

            try:
                text = _LOOP.sub(_uncounted, code) if self.software else code
                module = self._device.create_shader_module(label=label, code=text)
                pipeline = self._device.create_compute_pipeline(
                    label=label, layout="auto", compute={"module": module, "entry_point": "main"}
                )
                found = _Pipeline(pipeline, pipeline.get_bind_group_layout(0))
            except wgpu.GPUError as e:
                raise RefusedError(label, e, code) from e
            self._pipelines[code] = found
            self.stats.pipelines += 1
        self._latest.append(found)
        return found

    @translate_errors
    def load(self, code: ProgramCode) -> _NativeProgram:
        kernels = [
            self._pipeline(c, n) if c else None
            for c, n in zip(code.codes, code.labels, strict=True)
        ]
        params = None
        if code.param_bytes:
            params = self._roomy(code.param_bytes, self._uniform)
        return _NativeProgram(code, kernels, params)

    def unload(self, loaded: _NativeProgram) -> None:
        for dispatch in loaded.dispatches:
            for key in tuple(dispatch.groups):
                self._forget(dispatch, key)
        loaded.dispatches, loaded.calls, loaded.kernels, loaded.handles = [], [], [], None
        if loaded.params is not None:
            loaded.params.destroy()

    def _group(self, dispatch: _Dispatch, key: tuple[int, ...]) -> Any:
        """The dispatch's bind group for these handles."""
        group = dispatch.groups.get(key)
        if group is not None:
            dispatch.groups.move_to_end(key)
            return group
        ranges = [self._range(h) for h in key]
        resources = [{"buffer": r.buffer, "offset": r.offset, "size": r.nbytes} for r in ranges]
        offset, size = dispatch.params
        if offset >= 0:
            resources.append({"buffer": dispatch.loaded.params, "offset": offset, "size": size})
        group = dispatch.groups[key] = self._device.create_bind_group(
            layout=dispatch.layout,
            entries=[{"binding": i, "resource": r} for i, r in enumerate(resources)],
        )
        self.stats.bind_groups += 1
        for r in ranges:
            r.dispatches.add(dispatch)
        if len(dispatch.groups) > BIND_GROUPS:
            self._forget(dispatch, next(iter(dispatch.groups)))
        return group

    def _forget(self, dispatch: _Dispatch, key: tuple[int, ...]) -> None:
        """Drop a bind group of a dispatch."""
        del dispatch.groups[key]
        for handle in key:
            found = self._buffers.get(handle)
            if found is not None and not any(handle in other for other in dispatch.groups):
                found.dispatches.discard(dispatch)

    def _prepare(
        self, loaded: _NativeProgram, handles: Sequence[int], params: bytes, grids: Sequence[int]
    ) -> None:
        """Make the program's dispatches fit `handles` and `grids`, and send the params if they
        changed."""
        last = loaded.handles
        if handles != last or grids != loaded.grids:
            other = [] if grids == loaded.grids else loaded.resized(grids)
            stale: Any = range(len(loaded.dispatches))
            if last is not None:
                stale = set(other)
                for users, now, before in zip(loaded.users, handles, last, strict=True):
                    if now != before:
                        stale.update(users)
            loaded.handles = None  # should this fail, all dispatches are looked up the next time
            for i in stale:
                dispatch = loaded.dispatches[i]
                dispatch.group = self._group(dispatch, tuple([handles[s] for s in dispatch.slots]))
                pipeline = dispatch.pipeline if loaded.starts[i] else None
                loaded.calls[i] = self._submitter.call(pipeline, dispatch.group, dispatch.grid)
            loaded.handles = list(handles)
        if params != loaded.sent:
            self._queue.write_buffer(loaded.params, 0, params)
            self.stats.bytes_uploaded += len(params)
            loaded.sent = params

    @translate_errors
    def run(
        self,
        loaded: _NativeProgram,
        handles: Sequence[int],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> None:
        self._prepare(loaded, handles, params, grids)
        for begin, end in loaded.pieces:
            self._submitter.submit(loaded.calls[begin:end])
        self.stats.dispatches += len(loaded.calls)
        self.stats.submits += len(loaded.pieces)

    @translate_errors
    def profile(
        self,
        loaded: _NativeProgram,
        handles: Sequence[int],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> list[int] | None:
        if not self._timestamps:
            return None
        self._prepare(loaded, handles, params, grids)
        out: list[int] = []
        while len(out) < len(loaded.dispatches):
            out += self._timed(loaded.dispatches[len(out) : len(out) + QUERIES // 2])
        return out

    def _timed(self, dispatches: list[_Dispatch]) -> list[int]:
        """Run these dispatches, each in a pass of its own: the nanoseconds of each."""
        import wgpu

        n = 2 * len(dispatches)
        queries = self._device.create_query_set(type="timestamp", count=n)
        times = self.create(8 * n, wgpu.BufferUsage.QUERY_RESOLVE)
        encoder = self._device.create_command_encoder()
        for i, dispatch in enumerate(dispatches):
            compute = encoder.begin_compute_pass(
                timestamp_writes={
                    "query_set": queries,
                    "beginning_of_pass_write_index": 2 * i,
                    "end_of_pass_write_index": 2 * i + 1,
                }
            )
            compute.set_pipeline(dispatch.pipeline)
            compute.set_bind_group(0, dispatch.group)
            compute.dispatch_workgroups(*dispatch.grid)
            compute.end()
        encoder.resolve_query_set(queries, 0, n, self._buffers[times].buffer, 0)
        self._queue.submit([encoder.finish()])
        self.stats.dispatches += len(dispatches)
        self.stats.submits += 1
        ticks = memoryview(self.read([(times, 8 * n)])[0]).cast("Q")
        self.destroy(times)
        queries.destroy()
        return [max(0, round((ticks[i + 1] - ticks[i]) * self.period)) for i in range(0, n, 2)]

    @translate_errors
    def mark(self, handle: int) -> bool:
        if not self._timestamps:
            return False
        if self._clock is None:
            import wgpu

            usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
            query = self._device.create_query_set(type="timestamp", count=1)
            ticks = self._device.create_buffer(size=8, usage=usage)
            self._clock = query, ticks, self._pipeline(NOTHING, "mark").pipeline
        query, ticks, pipeline = self._clock
        found = self._range(handle, 8)
        encoder = self._device.create_command_encoder()
        when = {"query_set": query, "beginning_of_pass_write_index": 0}
        compute = encoder.begin_compute_pass(timestamp_writes=when)
        compute.set_pipeline(pipeline)  # some drivers pass over what has no work
        compute.dispatch_workgroups(1)
        compute.end()
        encoder.resolve_query_set(query, 0, 1, ticks, 0)
        encoder.copy_buffer_to_buffer(ticks, 0, found.buffer, found.offset, 8)
        self._queue.submit([encoder.finish()])
        self.stats.submits += 1
        return True


def _period(queue: Any) -> float:
    """The nanoseconds of a tick, which wgpu-py's API does not tell."""
    try:
        from wgpu.backends.wgpu_native._api import lib

        return float(lib.wgpuQueueGetTimestampPeriod(queue._internal))
    except (ImportError, AttributeError):
        return 1.0
