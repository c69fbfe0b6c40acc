"""The native GPU through wgpu-py: the only file that calls it."""

from __future__ import annotations

import os
import sys
import tempfile
from array import array
from collections import OrderedDict
from typing import Any

from pyframe.backend.base import Limits
from pyframe.backend.webgpu import WebGPU, Wire

VARIANTS = 16  # sets of bind groups kept for a program


def _adapters() -> list[Any]:
    try:
        import wgpu
    except ImportError as e:
        raise RuntimeError(
            "device 'gpu': wgpu is not installed; run `pip install wgpu`, or use device='cpu'"
        ) from e
    if sys.platform == "linux":  # without this folder Mesa complains on stderr
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]
    order = {"DiscreteGPU": 0, "IntegratedGPU": 1, "VirtualGPU": 2, "Unknown": 3, "CPU": 9}
    return sorted(found, key=lambda a: order.get(a.info["adapter_type"], 3))


class _Loaded:
    """A Program ready to run: its pipelines, and bind groups by the buffers that they bind."""

    __slots__ = ("last", "params", "pipelines", "steps", "variants")

    def __init__(self, pipelines: list[Any], steps: list[Any], params: Any) -> None:
        self.pipelines, self.steps, self.params = pipelines, steps, params
        self.variants: OrderedDict[tuple[int, ...], list[Any]] = OrderedDict()
        self.last = b""


class NativeGPU(WebGPU):
    """A GPU through Vulkan, Metal or D3D12."""

    name = "native"

    def __init__(self, index: int = 0, kind: str = "") -> None:
        adapters = _adapters()
        if kind == "software":
            adapters = [a for a in adapters if a.info["adapter_type"] == "CPU"]
        if index >= len(adapters):
            seen = ", ".join(a.info["device"] for a in adapters) or "none"
            raise RuntimeError(
                f"device 'gpu{f':{index}' if index else ''}': no such GPU; looked for Vulkan, "
                f"Metal and D3D12 adapters through wgpu and found {seen}. Install the GPU's driver "
                "(on Debian, mesa-vulkan-drivers has a software one), or use device='cpu'"
            )
        adapter = adapters[index]
        info, has = adapter.info, adapter.limits
        self.software = info["adapter_type"] == "CPU"
        self.adapter = f"{info['device']} through {info['backend_type']}"
        features = [f for f in ("shader-f16", "timestamp-query") if f in adapter.features]
        names = (
            "max-buffer-size", "max-storage-buffer-binding-size",
            "max-storage-buffers-per-shader-stage", "max-compute-workgroup-storage-size",
            "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
        )  # fmt: skip
        self._device = adapter.request_device_sync(
            required_features=features, required_limits={n: has[n] for n in names}
        )
        super().__init__(
            Limits(
                storage_buffers=min(has["max-storage-buffers-per-shader-stage"], 32),
                binding_bytes=has["max-storage-buffer-binding-size"],
                buffer_bytes=has["max-buffer-size"],
                workgroup_size=has["max-compute-invocations-per-workgroup"],
                workgroup_bytes=has["max-compute-workgroup-storage-size"],
                float16="shader-f16" in features,
            )
        )
        import wgpu

        self._usage = (
            wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        )
        self._uniform = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
        self._staging_usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        self._read_mode = wgpu.MapMode.READ
        self._pipelines: dict[str, Any] = {}
        self._staging: Any = None
        # Handles are numbers: a wgpu buffer that only a pooled Buffer held could be released by
        # the garbage collector in the same pass that puts it back into the pool.
        self._buffers: dict[int, Any] = {}
        self._count = 0

    @staticmethod
    def available() -> bool:
        """Whether there is a real GPU, not a CPU that plays one."""
        return any(a.info["adapter_type"] != "CPU" for a in _adapters())

    def _create(self, nbytes: int) -> int:
        self._count += 1
        self._buffers[self._count] = self._device.create_buffer(size=nbytes, usage=self._usage)
        return self._count

    def _destroy(self, handle: int) -> None:
        self._buffers.pop(handle).destroy()

    def _write(self, handle: int, data: memoryview) -> None:
        self._device.queue.write_buffer(self._buffers[handle], 0, data)

    def _copy_out(self, items: list[tuple[int, int]]) -> tuple[Any, int]:
        total = sum(n for _, n in items)
        if self._staging is None or self._staging.size < total:
            self._staging = self._device.create_buffer(
                size=max(total, 4096), usage=self._staging_usage
            )
        encoder = self._device.create_command_encoder()
        at = 0
        for handle, n in items:
            if n:
                encoder.copy_buffer_to_buffer(self._buffers[handle], 0, self._staging, at, n)
            at += n
        self._device.queue.submit([encoder.finish()])
        return self._staging, total

    def _read(self, items: list[tuple[int, int]]) -> list[bytes]:
        staging, total = self._copy_out(items)
        if not total:
            return [b"" for _ in items]
        staging.map_sync(self._read_mode, 0, total)
        try:
            data = bytes(staging.read_mapped(0, total))
        finally:
            staging.unmap()
        out, at = [], 0
        for _, n in items:
            out.append(data[at : at + n])
            at += n
        return out

    async def _read_async(self, items: list[tuple[int, int]]) -> list[bytes]:
        return self._read(items)

    def _pipeline(self, code: str, label: str) -> Any:
        found = self._pipelines.get(code)
        if found is None:
            import wgpu

            try:
                module = self._device.create_shader_module(label=label, code=code)
                found = self._device.create_compute_pipeline(
                    label=label, layout="auto", compute={"module": module, "entry_point": "main"}
                )
            except wgpu.GPUError as e:
                raise RuntimeError(f"kernel {label}: {e}\n{code}") from e
            self._pipelines[code] = found
            self.stats.pipelines += 1
        return found

    def _load(self, wire: Wire) -> _Loaded:
        pipelines = [
            self._pipeline(c, n) if c else None
            for c, n in zip(wire.codes, wire.labels, strict=True)
        ]
        params = None
        if wire.param_bytes:
            params = self._device.create_buffer(size=wire.param_bytes, usage=self._uniform)
        return _Loaded(pipelines, _unpack(wire.steps), params)

    def _bind(self, loaded: _Loaded, handles: list[int]) -> list[Any]:
        buffers = [self._buffers[h] for h in handles]
        groups = []
        for kernel, grid, offset, size, slots in loaded.steps:
            pipeline = loaded.pipelines[kernel]
            entries: list[Any] = [
                {
                    "binding": i,
                    "resource": {"buffer": buffers[s], "offset": 0, "size": buffers[s].size},
                }
                for i, s in enumerate(slots)
            ]
            if offset >= 0:
                where = {"buffer": loaded.params, "offset": offset, "size": size}
                entries.append({"binding": len(slots), "resource": where})
            group = self._device.create_bind_group(
                layout=pipeline.get_bind_group_layout(0), entries=entries
            )
            groups.append((pipeline, group, grid))
        self.stats.bind_groups += len(groups)
        return groups

    def _run(self, loaded: _Loaded, handles: list[int], params: bytes) -> None:
        key = tuple(handles)
        groups = loaded.variants.get(key)
        if groups is None:
            groups = loaded.variants[key] = self._bind(loaded, handles)
            if len(loaded.variants) > VARIANTS:
                loaded.variants.popitem(last=False)
        else:
            loaded.variants.move_to_end(key)
        if params != loaded.last:
            self._device.queue.write_buffer(loaded.params, 0, params)
            self.stats.bytes_uploaded += len(params)
            loaded.last = params
        encoder = self._device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for pipeline, group, grid in groups:
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*grid)
        compute.end()
        self._device.queue.submit([encoder.finish()])
        self.stats.dispatches += len(groups)
        self.stats.submits += 1


def _unpack(steps: array[int]) -> list[Any]:
    out, at = [], 0
    while at < len(steps):
        kernel, x, y, z, offset, size, n = steps[at : at + 7]
        out.append((kernel, (x, y, z), offset, size, tuple(steps[at + 7 : at + 7 + n])))
        at += 7 + n
    return out
