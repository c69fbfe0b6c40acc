"""What few programs need comes in a second archive, which is fetched when it is first imported."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

# Modules of pyframe, with all below them, that no page needs before a program asks for them.
MODULES = [
    f"pyframe.{name}"
    for name in """
__main__ amp array_api autograd.anomaly_mode autograd.differences autograd.functional backend.cache
backend.cpu backend.llvm backend.native backend.vulkan capture.stages cli codegen.cpu.packed
codegen.lanes.identity codegen.llvm codegen.numpy.sized codegen.wasm.beside
codegen.wasm.packed codegen.wgsl.packed core.processors data.processes data.share data.worker
distributed distributions export fft func gpu graph.interpret graph.products hub io.kinds io.npz
io.pt io.regexes io.transfer io.unpickler jit linalg lora masked multiprocessing nn.distributed
nn.functional.toplevel nn.quantized nn.utils.parametrizations nn.utils.parametrize nn.utils.prune
nn.utils.stateless onnx ops.api.vmap ops.linalg.attention ops.math.incomplete optim.lbfgs
optim.swa_utils optim.zero overrides plot profiler random runtime.meta runtime.offline serve
shaders.attention.wgsl
shaders.attention_grad.wgsl signal tensor.dlpack tensor.sharing text tools torch
train.callbacks.checkpoints train.callbacks.gradients train.callbacks.loggers
train.callbacks.stopping train.checkpoint train.lr_finder train.processes train.summary
utils.checkpoint utils.dlpack utils.tensorboard vision.datasets.cifar vision.datasets.fakedata
vision.datasets.folder vision.datasets.utils vision.io vision.models vision.ops vision.transforms
vision.utils web.bundle web.cpu web.exporter web.fitting web.notebook web.offline web.onnx_file
web.programs web.site web.source
""".split()
]


def is_late(name: str) -> bool:
    """Whether the module `name` is in the second archive."""
    return any(f"{name}.".startswith(f"{module}.") for module in MODULES)


def integrity(data: bytes) -> str:
    """The SHA-256 of a file as browsers write it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}"


def install(url: str, digest: str | None = None) -> None:
    """Have imports of such modules fetch the archive at `url` first; in a page's worker.

    `digest` has the file's `integrity`, unpacked too: another file is refused.
    """
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _LazyArchiveFinder)]
    sys.meta_path.append(_LazyArchiveFinder(url, digest))


def find_torch() -> None:
    """Have `import torch` and `import torchvision` mean pyframe: a page has no PyTorch."""
    if not any(isinstance(f, _Torch) for f in sys.meta_path):
        sys.meta_path.append(_Torch())


class _Torch:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in ("torch", "torchvision") or find_spec("pyframe.torch") is None:
            return None
        importlib.import_module("pyframe.torch").install()
        return find_spec(fullname)


class _LazyArchiveFinder:
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
    """A file, while Python waits, as an import can't be awaited."""
    import js

    request = js.XMLHttpRequest.new()
    request.open("GET", url, False)
    # A page itself may ask so for text alone: a byte is a character, above 127 one from U+F780 on.
    request.overrideMimeType("text/plain; charset=x-user-defined")
    try:
        request.send()
    except js.Error as error:
        raise ImportError(f"{module}: {url} could not be fetched ({error})", name=module) from None
    if request.status != 200:
        raise ImportError(f"{module}: for {url} the server says {request.status}", name=module)
    text: str = request.responseText
    return text.encode("utf-16-le")[::2]
