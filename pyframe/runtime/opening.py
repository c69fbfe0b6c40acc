"""The backend of each device: the functions that open them, which a device's first use loads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from pyframe.core import devices, dispatch
from pyframe.core.devices import DeviceFactory, device as Device
from pyframe.runtime import cpu

if TYPE_CHECKING:
    from pyframe.backend.base import GPUBackend
    from pyframe.runtime.executor import Executor


def gpu_backend() -> type[GPUBackend]:
    """The class of GPUs here: BrowserGPU in a page, else NativeGPU. ImportError where its library
    is missing."""
    if devices.in_browser():
        from pyframe.backend.browser import BrowserGPU

        return BrowserGPU
    from pyframe.backend.native import NativeGPU

    return NativeGPU


def _over(backend: Any) -> Executor:
    from pyframe.runtime import tuned
    from pyframe.runtime.executor import Executor

    tuned.apply_tuning(backend, tuned.kept(backend))
    return Executor(backend)


class _CPU(DeviceFactory):
    def open(self, d: Device) -> Executor:
        from pyframe.runtime.host import CpuBackend, CpuExecutor

        return CpuExecutor(CpuBackend())


class _Meta(DeviceFactory):
    def open(self, d: Device) -> Any:
        from pyframe.runtime.meta import Meta

        return Meta()


class _GPU(DeviceFactory):
    def open(self, d: Device) -> Executor:
        backend = gpu_backend()(d.index, os.environ.get("PYFRAME_ADAPTER", ""))
        if backend.software and not devices.in_browser() and not devices.software_wanted():
            warnings.warn(
                f"device 'gpu' is {backend.adapter}, a software adapter: device 'cpu' is "
                "faster. PYFRAME_ADAPTER=software silences this.",
                stacklevel=3,
            )
        return _over(backend)

    def available(self) -> bool:
        return gpu_backend().available()


class _PageGPU(_GPU):
    """In a page, where waiting and opening take promises."""

    def can_wait(self) -> bool:
        from pyframe.backend import browser

        return browser.can_wait()

    def wait(self, coroutine: Coroutine[Any, Any, Any], twin: str) -> Any:
        from pyframe.backend import browser

        return browser.wait(coroutine, twin)

    async def reopen(self) -> None:
        await gpu_backend().reopen()


dispatch.install_callbacks(has_cpu_compiler=cpu.can_record)
devices.register("cpu", _CPU())
devices.register("meta", _Meta())
devices.register("gpu", _PageGPU() if devices.in_browser() else _GPU())
if devices.in_browser():
    cpu.accelerate()
