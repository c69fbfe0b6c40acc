"""Limits: what a device can do, as far as the planning of Programs depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What a device can take. Sizes are in bytes."""

    storage_buffers: int = 8  # storage buffers one kernel may bind, outputs included
    binding_bytes: int = 128 << 20
    buffer_bytes: int = 256 << 20
    workgroup_size: int = 256  # invocations
    workgroup_bytes: int = 16384
    float16: bool = False
    subgroups: bool = False  # whether threads of a subgroup can hand each other values
    dots: bool = False  # whether the language has products of words of four ints
    portable: bool = False  # it is for exports: for CPUs too, where compiled code is all there is
    host: bool = False  # kernels work on host memory, where dtypes have their own sizes
    kind: str = ""  # "software" (a CPU that plays a GPU) or a vendor: which kernels are fast
    calls: bool = False  # kernels are NumPy calls, of which each goes through memory
    # of kernels that have variants: which one was the fastest here (the kernel's key, the variant),
    # and which ones the driver refuses (the op, the variant)
    tuned: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)
    refused: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)

    @property
    def alone(self) -> bool:
        """Whether threads that wait for each other cost more than they save."""
        return self.kind == "software"


WEBGPU_LIMITS = Limits()  # what WebGPU promises anywhere
