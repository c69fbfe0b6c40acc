"""WebGPU in a page, under Pyodide: the only file that touches JavaScript (see web/runtime.js)."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn

import js
from pyodide import __version__ as VERSION

try:
    from pyodide.ffi import JsException, can_run_sync, run_sync, to_js
except ImportError:
    raise ImportError(f"pyframe needs Pyodide 0.26 or a newer one; this is {VERSION}") from None

from pyframe.backend.base import (
    GPUBackend,
    ProgramCode,
    RefusedError,
    Stats,
    dispatches,
    translate_errors,
)
from pyframe.backend.properties import DeviceProperties
from pyframe.core import devices
from pyframe.core.limits import Limits

SUBGROUPS = "enable subgroups;\n"  # which wgpu does not take


def _runtime() -> Any:
    """The runtime that the page made before Python started, or the one in the place of a lost one;
    None where the page has no WebGPU."""
    runtime = getattr(js, "pyframeRuntime", None)
    while runtime is not None and runtime.lost and runtime.next:
        js.pyframeRuntime = runtime = runtime.next
    return runtime


_by_hand = False  # a coroutine is run without the event loop: nothing may be left to that


def can_wait() -> bool:
    """Whether Python can wait here for the GPU where it can't await: by JSPI, or because the GPU is
    in a worker of its own, which answers in shared memory (see web/remote.js)."""
    return can_run_sync() or hasattr(_runtime(), "finish")


def wait(coroutine: Coroutine[Any, Any, Any], twin: str = "") -> Any:
    """Run a coroutine to its end from code that can't await. Without JSPI it may await a GPU in a
    worker of its own, and nothing else that takes time: RuntimeError names the twin."""
    global _by_hand
    if can_run_sync():
        return run_sync(coroutine)
    outer, _by_hand = _by_hand, True
    try:
        return devices.run_sync(coroutine, twin)
    finally:
        _by_hand = outer


def _ask(runtime: Any, name: str, *args: Any) -> Callable[[], Awaitable[Any]]:
    """Begin what takes the runtime some time; what this gives waits for it."""
    if not _by_hand:
        promise = getattr(runtime, name)(*args)

        async def answer() -> Any:
            return await promise

    elif hasattr(runtime, "finish"):
        begun = runtime.begin(name, *args)

        async def answer() -> Any:
            return runtime.finish(begun)

    else:
        raise RuntimeError(
            "reading a GPU tensor: this browser can't wait inside Python (it has no JSPI, or "
            "Python was entered without it); use the await twin, as in `await t.item_async()`"
        )
    return answer


def _missing() -> str:
    """Why there is no runtime: what createRuntimeFor() in web/remote.js has found."""
    why = getattr(js, "pyframeNoGPU", None)
    if why:
        return f"this page has no GPU: {why}"
    return (
        "this page has not opened its GPU yet; in a notebook `await pf.web.notebook.connect()` does"
    )


def _describe(runtime: Any) -> DeviceProperties:
    info, limits, features = runtime.info, runtime.limits, runtime.features.to_py()
    names = [n for n in (info.vendor, info.architecture, info.description) if n]
    return DeviceProperties(
        name=" ".join(names) or "a GPU",
        vendor=info.vendor or "unknown",
        type="software" if info.software else "unknown",
        api="the browser's WebGPU",
        driver="",
        limits=Limits(
            storage_buffers=limits.maxStorageBuffersPerShaderStage,
            binding_bytes=limits.maxStorageBufferBindingSize,
            buffer_bytes=limits.maxBufferSize,
            workgroup_size=limits.maxComputeInvocationsPerWorkgroup,
            workgroup_bytes=limits.maxComputeWorkgroupStorageSize,
            float16="shader-f16" in features,
            subgroups="subgroups" in features and _language_has("subgroup_id"),
            dots=_language_has("packed_4x8_integer_dot_product"),
            kind="software" if info.software else "",
        ),
        features=tuple(features),
        architecture=f"{info.architecture} {info.device}".strip(),
    )


def _language_has(name: str) -> bool:
    gpu = getattr(js.navigator, "gpu", None)
    return bool(gpu and hasattr(gpu, "wgslLanguageFeatures") and gpu.wgslLanguageFeatures.has(name))


def _text(code: str) -> str:
    return SUBGROUPS + code if "subgroup" in code else code


class _BrowserProgram:
    """A Program that the runtime holds: its number, how many dispatches it is, and the params and
    grids last sent."""

    __slots__ = ("dispatches", "grids", "params", "program")

    def __init__(self, program: int, dispatches: int) -> None:
        self.program, self.dispatches, self.params = program, dispatches, b""
        self.grids: Sequence[int] = ()


class BrowserGPU(GPUBackend):
    """The browser's GPU. Handles are the numbers that the JavaScript runtime gives out."""

    name = "browser"
    language = "wgsl"
    # what calls into JavaScript raise; where Pyodide drops an exception, CPython says so
    _errors = JsException, SystemError

    @staticmethod
    def available() -> bool:
        """Whether the page has WebGPU on real hardware, not on a software adapter."""
        runtime = _runtime()
        return runtime is not None and not runtime.info.software

    @staticmethod
    def adapters(software: bool) -> list[DeviceProperties]:
        """What 'gpu' is: a browser gives one GPU. RuntimeError where the page has none."""
        runtime = _runtime()
        if runtime is None:
            raise RuntimeError(f"device 'gpu': {_missing()}; device 'cpu' works everywhere")
        return [_describe(runtime)]

    def __init__(self, index: int = 0, kind: str = "") -> None:
        about = self.adapters(kind == "software")
        if index >= len(about):
            raise devices.no_such_gpu(index, [about[0].adapter], "")
        runtime = _runtime()
        if runtime.lost:
            if not can_wait():
                runtime.reopen()
                raise RuntimeError(
                    "device 'gpu': the GPU was lost and is opened again, but this browser can't "
                    "wait inside Python; try again after `await asyncio.sleep(1)`"
                )
            wait(self.reopen())
            runtime = _runtime()
            if runtime.lost:
                raise RuntimeError("device 'gpu': the browser gives no GPU; reload the page")
        self._js = runtime
        self.failed: set[int] = set()
        about = self.adapters(False)
        self.adapter, self._key = about[0].adapter, about[0].key
        self._kept = getattr(js, "pyframeTuned", None)
        self.kept_in = "the page's IndexedDB 'pyframe'" if self._kept else ""
        self.software = about[0].software
        self._timestamps = about[0].timestamps
        self.limits = about[0].limits
        self.stats = Stats()

    @staticmethod
    async def reopen() -> None:
        """Open the GPU again if it was lost."""
        runtime = _runtime()
        if runtime is not None and runtime.lost:
            await _ask(runtime, "reopen")()

    def recall(self) -> str:
        return str(self._kept.recall(self._key)) if self._kept else ""

    def remember(self, text: str) -> None:
        if self._kept:
            self._kept.remember(self._key, text)

    def _fail(self, error: Any) -> NoReturn:
        """Raise what an error of the runtime's means."""
        if self._js.lost:
            self._js.reopen()
            raise devices.lose(self, self._js.lost) from None
        if isinstance(error, SystemError):  # Pyodide has lost the error on the way
            error = getattr(self._js, "thrown", None) or error
        if isinstance(error, SystemError):
            raise error
        if error.name == "DeviceLostError":
            raise devices.lost_error() from None
        if error.name == "OutOfMemoryError":  # told after the work that it was for
            self.failed.update(self._js.failed())
            raise self.reclaim(error.bytes) from None
        if error.name == "RefusedError":
            raise self._refusal(error) from None
        raise RuntimeError(error.message) from None

    @staticmethod
    def _refusal(error: Any) -> RefusedError:
        """The error of a text, whose runs are lost if nothing takes its place."""
        refusal = RefusedError(error.label, error.why, error.code.removeprefix(SUBGROUPS))
        refusal.args = (f"{error.message}: what it was to compute is lost",)
        return refusal

    async def _answered(self, answer: Callable[[], Awaitable[Any]]) -> Any:
        """What is awaited, when other texts have taken the places of those that turn out to be
        refused."""
        while True:
            try:
                return await answer()
            except JsException as error:
                ticket = getattr(error, "ticket", None)
                if ticket is None:
                    raise
                others, refusal = [], self._refusal(error)
                try:
                    others = self.reprint(refusal) if self.reprint else []
                finally:  # what can't be replaced must not hold up the rest
                    if not others and self._js.skip(error.code):
                        raise refusal
                for loaded, kernels in others:
                    self._replace(loaded, error.code, kernels)
                answer = _ask(self._js, "again", ticket)

    def _replace(self, loaded: _BrowserProgram, code: str, kernels: dict[int, Any]) -> None:
        """Let kernels take the places of all that have a refused text, also in runs that wait."""
        shaders = list(kernels.values())
        codes, labels = to_js([_text(s.code) for s in shaders]), to_js([s.label for s in shaders])
        grids = to_js(array("i", [n for s in shaders for n in s.grid]))
        self._js.replace(loaded.program, code, to_js(array("i", kernels)), codes, labels, grids)
        self.stats.pipelines += len({s.code for s in shaders})

    @translate_errors
    def create(self, nbytes: int) -> int:
        return self._js.alloc(nbytes)

    @translate_errors
    def slice(self, handle: int, offset: int, nbytes: int) -> int:
        return self._js.slice(handle, offset, nbytes)

    def destroy(self, handle: int) -> None:
        self.failed.discard(handle)
        self._js.free(handle)

    @translate_errors
    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._js.copy(target, source, nbytes)
        self.stats.submits += 1

    @translate_errors
    def mark(self, handle: int) -> bool:
        if self._timestamps:
            self._js.mark(handle)
            self.stats.submits += 1
        return self._timestamps

    @translate_errors
    def write(self, handle: int, data: memoryview) -> None:
        self._js.write(handle, to_js(data))

    def read(self, items: Sequence[tuple[int, int]]) -> list[bytes]:
        async def read() -> list[bytes]:
            return await self.read_begin(items)()

        found: list[bytes] = wait(read())
        return found

    @translate_errors
    def read_begin(self, items: Sequence[tuple[int, int]]) -> Callable[[], Awaitable[list[bytes]]]:
        handles = array("i", [h for h, _ in items])
        sizes = array("i", [n for _, n in items])
        answer = _ask(self._js, "read", to_js(handles), to_js(sizes)) if items else None

        async def finish() -> list[bytes]:
            try:
                data = b"" if answer is None else (await self._answered(answer)).to_bytes()
            except JsException as error:
                self._fail(error)
            out, at = [], 0
            for size in sizes:
                out.append(data[at : at + size])
                at += size
            return out

        return finish

    @translate_errors
    def load(self, code: ProgramCode) -> _BrowserProgram:
        before = self._js.stats().compiled
        kernels = to_js([_text(c) for c in code.codes]), to_js(code.labels)
        rest = code.n_slots, code.param_bytes, code.replaceable
        program = self._js.load(*kernels, to_js(code.steps), *rest)
        self.stats.pipelines += self._js.stats().compiled - before
        return _BrowserProgram(program, sum(1 for _ in dispatches(code.steps)))

    def unload(self, loaded: _BrowserProgram) -> None:
        self._js.unload(loaded.program)

    @translate_errors
    def run(
        self,
        loaded: _BrowserProgram,
        handles: Sequence[int],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> None:
        """One call into JavaScript, however many dispatches the program is."""
        built, submits = self._js.run(*self._arguments(loaded, handles, params, grids)).to_py()
        self._sent(loaded, params, grids)
        self.stats.bind_groups += built
        self.stats.dispatches += loaded.dispatches
        self.stats.submits += submits

    @translate_errors
    def profile(
        self,
        loaded: _BrowserProgram,
        handles: Sequence[int],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> list[int] | None:
        times = wait(self._profile(*self._arguments(loaded, handles, params, grids)))
        if times is None:
            return None
        self._sent(loaded, params, grids)
        self.stats.dispatches += loaded.dispatches
        return [int(t) for t in times.to_py()]

    def trim(self) -> None:
        """The runtime keeps nothing."""

    async def _profile(self, *arguments: Any) -> Any:
        return await self._answered(_ask(self._js, "profile", *arguments))

    def _arguments(
        self, loaded: _BrowserProgram, handles: Sequence[int], params: bytes, grids: Sequence[int]
    ) -> tuple[Any, ...]:
        """What the runtime's `run` takes; the params and grids only where they changed."""
        changed = to_js(params) if params != loaded.params else None
        if grids == loaded.grids:
            return loaded.program, to_js(array("i", handles)), changed
        return loaded.program, to_js(array("i", handles)), changed, to_js(array("i", grids))

    def _sent(self, loaded: _BrowserProgram, params: bytes, grids: Sequence[int]) -> None:
        loaded.grids = grids
        if params != loaded.params:
            loaded.params = params
            self.stats.bytes_uploaded += len(params)
