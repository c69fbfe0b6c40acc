"""What a GPU says of itself before it is opened."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyframe.core.limits import Limits


@dataclass(frozen=True)
class DeviceProperties:
    """A GPU that can be opened, as it describes itself.

    Args:
        name, vendor, driver, architecture: What it and its driver are called.
        type: 'discrete', 'integrated', 'virtual', 'software' or 'unknown'.
        api: 'Vulkan', 'Metal', 'D3D12' or "the browser's WebGPU".
        limits: How large buffers and workgroups may be.
        features: What it can do, as WebGPU calls it.
        ids: Of the vendor and of the device; (0, 0) where they are not told.
        total_memory: Bytes of its own memory; None where they are not told.
    """

    name: str
    vendor: str
    type: str
    api: str
    driver: str
    limits: Limits
    features: tuple[str, ...]
    ids: tuple[int, int] = (0, 0)
    total_memory: int | None = None
    architecture: str = ""

    @property
    def key(self) -> str:
        """What tells this adapter and its driver from others."""
        return json.dumps((self.vendor, self.architecture, self.name, self.driver, self.api))

    @property
    def software(self) -> bool:
        """Whether it is a CPU that plays a GPU."""
        return self.type == "software"

    @property
    def float16(self) -> bool:
        """Whether its kernels compute with float16."""
        return self.limits.float16

    @property
    def subgroups(self) -> bool:
        """Whether the threads of a subgroup can share values."""
        return bool({"subgroups", "subgroup"} & {*self.features})

    @property
    def timestamps(self) -> bool:
        """Whether it has a clock that `pf.gpu.Event` and the profiler read."""
        return "timestamp-query" in self.features

    @property
    def adapter(self) -> str:
        """The hardware and its API, for people: a Backend's `adapter`."""
        return f"{self.name} through {self.api}"

    def __repr__(self) -> str:
        has = ("float16", "subgroups", "timestamps")
        shown: dict[str, Any] = {
            "name": self.name, "vendor": self.vendor, "type": self.type, "api": self.api,
            "driver": self.driver, "total_memory": _mib(self.total_memory),
            "features": [name for name in has if getattr(self, name)],
            "buffer": _mib(self.limits.buffer_bytes), "binding": _mib(self.limits.binding_bytes),
            "bindings": self.limits.storage_buffers, "workgroup": self.limits.workgroup_size,
            "workgroup_memory": self.limits.workgroup_bytes,
        }  # fmt: skip
        return f"DeviceProperties({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


def _mib(nbytes: int | None) -> str | None:
    return None if nbytes is None else f"{nbytes / 2**20:.0f} MiB"
