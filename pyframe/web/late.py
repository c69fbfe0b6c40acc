"""What few programs need comes in a second archive, which is fetched when it is first imported."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

# Modules, with all below them, that no page needs before a program asks for them.
MODULES = (
    "pyframe.__main__", "pyframe.amp", "pyframe.array_api", "pyframe.autograd.differences",
    "pyframe.autograd.functional", "pyframe.backend.cache", "pyframe.backend.cpu",
    "pyframe.backend.llvm", "pyframe.backend.native", "pyframe.backend.vulkan",
    "pyframe.capture.stages", "pyframe.cli", "pyframe.codegen.cpu.packed",
    "pyframe.codegen.lanes.identity", "pyframe.codegen.lanes.interpret", "pyframe.codegen.llvm",
    "pyframe.codegen.numpy.sized", "pyframe.codegen.wasm.beside", "pyframe.codegen.wasm.packed",
    "pyframe.codegen.wgsl.packed", "pyframe.core.processors", "pyframe.data.processes",
    "pyframe.data.share", "pyframe.distributed", "pyframe.distributions", "pyframe.export",
    "pyframe.fft", "pyframe.func", "pyframe.gpu", "pyframe.graph.interpret",
    "pyframe.graph.products", "pyframe.hub", "pyframe.io.npz", "pyframe.io.pt",
    "pyframe.io.unpickler", "pyframe.jit", "pyframe.linalg", "pyframe.lora", "pyframe.masked",
    "pyframe.multiprocessing", "pyframe.nn.distributed", "pyframe.nn.quantized",
    "pyframe.nn.utils.parametrizations", "pyframe.nn.utils.prune", "pyframe.nn.utils.stateless",
    "pyframe.onnx", "pyframe.ops.api.vmap", "pyframe.ops.linalg.attention",
    "pyframe.optim.swa_utils", "pyframe.optim.zero", "pyframe.plot", "pyframe.profiler",
    "pyframe.random", "pyframe.runtime.offline", "pyframe.serve", "pyframe.shaders.attention.wgsl",
    "pyframe.shaders.attention_grad.wgsl", "pyframe.signal", "pyframe.tensor.dlpack",
    "pyframe.tensor.sharing", "pyframe.text", "pyframe.tools", "pyframe.torch",
    "pyframe.train.callbacks.checkpoints", "pyframe.train.callbacks.gradients",
    "pyframe.train.callbacks.loggers", "pyframe.train.checkpoint", "pyframe.train.lr_finder",
    "pyframe.train.processes", "pyframe.train.summary", "pyframe.utils.checkpoint",
    "pyframe.utils.dlpack", "pyframe.utils.tensorboard", "pyframe.vision.datasets.cifar",
    "pyframe.vision.datasets.fakedata", "pyframe.vision.datasets.folder",
    "pyframe.vision.datasets.utils", "pyframe.vision.io", "pyframe.vision.models",
    "pyframe.vision.ops", "pyframe.vision.transforms", "pyframe.vision.utils", "pyframe.web.bundle",
    "pyframe.web.cpu", "pyframe.web.exporter", "pyframe.web.notebook", "pyframe.web.offline",
    "pyframe.web.onnx_file", "pyframe.web.programs", "pyframe.web.site", "pyframe.web.source",
    "pyframe.web.windows",
)  # fmt: skip


def is_late(name: str) -> bool:
    """Whether the module `name` is in the second archive."""
    return any(name == module or name.startswith(f"{module}.") for module in MODULES)


def integrity(data: bytes) -> str:
    """The SHA-256 of a file as browsers write it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}"


def install(url: str, digest: str | None = None) -> None:
    """Have imports of such modules fetch the archive at `url` first; in a page's worker.

    `digest` has the file's `integrity`, unpacked too: another file is refused.
    """
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Finder)]
    sys.meta_path.append(_Finder(url, digest))


class _Finder:
    """Comes after all others: it is asked for what was not found."""

    def __init__(self, url: str, digest: str | None) -> None:
        self._url, self._digest = url, digest
        self._there = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self._there or not is_late(fullname):
            return None
        data = _fetch(self._url, fullname)
        if self._digest and integrity(data) not in self._digest.split():
            raise ImportError(f"{fullname}: {self._url} is not the file that was exported")
        import tarfile  # nothing else here needs it

        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
            archive.extractall(Path(__file__).parents[2], filter="data")
        self._there = True
        importlib.invalidate_caches()
        return PathFinder.find_spec(fullname, path, target)


def _fetch(url: str, module: str) -> bytes:
    """A file, while Python waits: a worker may ask so, and an import can't be awaited."""
    import js

    request = js.XMLHttpRequest.new()
    request.open("GET", url, False)
    request.responseType = "arraybuffer"
    try:
        request.send()
    except js.Error as error:
        raise ImportError(f"{module}: {url} could not be fetched ({error})", name=module) from None
    if request.status != 200:
        raise ImportError(f"{module}: for {url} the server says {request.status}", name=module)
    return bytes(request.response.to_py())
