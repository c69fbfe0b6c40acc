"""PyTorch programs as they are: `python -m pyframe.torch script.py …` runs one on pyframe.

In that process `torch` and `torchvision`, with all modules below them, are pyframe's; no line of
the script changes, and another process still finds PyTorch. `install()` does the same from Python.
"""

from __future__ import annotations

import difflib
import dis
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

import pyframe
from pyframe.core.dtypes import dtype
from pyframe.torch import generator, homes
from pyframe.torch.paths import TABLE, Absent

__all__ = ["install"]

# Where a module of PyTorch's is called otherwise here, or is one of other modules besides. What is
# below follows it: torch.utils.data.sampler is pyframe.data.sampler.
_COUNTERPARTS: dict[str, tuple[str, ...]] = {
    "torch": ("pyframe.torch.names", "pyframe"),
    "torch._dynamo": ("pyframe.torch.compiler",),
    "torch._dynamo._trace_wrapped_higher_order_op": ("pyframe.torch.compiler",),
    "torch._dynamo.eval_frame": ("pyframe.torch.compiler",),
    "torch._jit_internal": ("pyframe.torch.jit", "pyframe.jit"),
    "torch.amp": ("pyframe.amp",),
    "torch._C": ("pyframe.torch._C", "pyframe.torch.natives"),
    "torch._C._nn": ("pyframe.nn.functional",),
    "torch.ao.nn.intrinsic": ("pyframe.torch.intrinsic",),
    "torch.ao.quantization": ("pyframe.torch.quantization",),
    "torch.autograd": ("pyframe.torch.autograd", "pyframe.autograd"),
    "torch.autograd.forward_ad": ("pyframe.torch.forward_ad",),
    "torch.autograd.profiler": ("pyframe.profiler",),
    "torch.cuda.amp": ("pyframe.torch.amp",),
    "torch.mtia": ("pyframe.torch.xpu",),
    "torch.multiprocessing": ("pyframe.multiprocessing",),
    "torch.distributed.checkpoint": ("pyframe.torch.checkpoint",),
    "torch.distributed.optim": ("pyframe.optim.zero",),
    "torch.distributed.tensor": ("pyframe.torch.placements",),
    "torch.jit.annotations": ("typing",),
    "torch.nn.intrinsic": ("pyframe.torch.intrinsic",),
    "torch.nn.qat": ("pyframe.torch.qat",),
    "torch.optim._multi_tensor": ("pyframe.optim",),
    "torch.serialization": ("pyframe.io.pt",),
    "torch.testing._internal.common_utils": ("pyframe.torch.testing",),
    "torch.torch_version": ("pyframe.torch.version",),
    "torch.utils._pytree": ("pyframe.torch.trees",),
    "torch.utils.data": ("pyframe.data",),
    "torch.utils.data._utils.collate": ("pyframe.data.collate",),
    "torch.utils.flop_counter": ("pyframe.torch.flop_counter",),
    "torchvision": ("pyframe.torch.vision", "pyframe.vision"),
    "torchvision.models._utils": ("pyframe.torch.features",),
    "torchvision.models.feature_extraction": ("pyframe.torch.features",),
    "torchvision.tv_tensors": ("pyframe.torch.tv_tensors",),
    "safetensors.torch": ("pyframe.torch.weights",),
}
# Modules that programs import at their top and may never use. What a program imports from them says
# that it is missing when it is called.
_MISSING = {
    "torch.ao": "pf.quantize_ packs weights for inference",
    "torch.distributed": "pf.distributed has collectives, and nn.parallel DistributedDataParallel",
    "torch.distributed.checkpoint": "one process saves the state_dict, with torch.save",
    "torch.distributed.fsdp": "use DistributedDataParallel and optim.ZeroRedundancyOptimizer",
    "torch.fx": "pf.graph.show draws what a function does",
    "torch.hub": "load weights from a file, with torch.load",
    "torch.nested": "pad with nn.utils.rnn.pad_sequence, and mask what was padded",
    "torch.nn.intrinsic": "pf.quantize_ packs weights for inference",
    "torch.nn.qat": "pf.quantize_ packs weights for inference",
    "torch.nn.attention.flex_attention": "use F.scaled_dot_product_attention with a mask",
    "torch.package": "save the state_dict, with torch.save",
    "torch.quantization": "pf.quantize_ packs weights for inference",
    "torch.sparse": "tensors are dense",
    "torch.utils.cpp_extension": "kernels are WGSL",
}
_OURS = ("LeNet", "UNet", "lenet", "unet")  # models that torchvision has not
# What `import torch` alone makes attributes of torch. Set later, within a captured function, it
# would look like something that the function writes.
_AT_ONCE = """nn nn.functional nn.init nn.utils optim optim.lr_scheduler autograd
    autograd.functional linalg fft special amp cuda random backends jit utils utils.data
    distributions __config__""".split()
_PROGRAM = "PYFRAME_TORCH_PROGRAM"  # what worker processes import as their main module
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def install() -> None:
    """Make `import torch` and `import torchvision` mean pyframe from now on, in this process.

    RuntimeError where PyTorch itself was imported before.
    """
    for name in ("torch", "torchvision"):
        found = sys.modules.get(name)
        if found is not None and not isinstance(found, Alias):
            raise RuntimeError(
                f"pyframe.torch.install: {name} was imported before; call install() first, or run "
                "the program as python -m pyframe.torch script.py"
            )
    if not any(isinstance(f, _TorchAliasFinder) for f in sys.meta_path):
        sys.meta_path.insert(0, _TorchAliasFinder())
    # programs print shapes, dtypes and devices, and look at the texts
    dtype.home = pyframe.device.home = "torch"
    generator.install()
    homes.install()


class Alias(ModuleType):
    """A module of PyTorch's name, whose names are looked for in modules of pyframe."""

    def __init__(self, name: str, sources: Sequence[ModuleType]) -> None:
        super().__init__(name, sources[-1].__doc__ if sources else None)
        self.__dict__["_sources"] = sources

    def __setattr__(self, name: str, value: Any) -> None:
        # what is imported below does not hide a function of its name, as multiprocessing.spawn
        found = [getattr(source, name, value) for source in self.__dict__.get("_sources", ())]
        if not isinstance(value, Alias) or all(isinstance(one, ModuleType) for one in found):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        for source in self.__dict__["_sources"]:
            found = getattr(source, name, self)
            if found is not self and not isinstance(found, ModuleType):
                return found
        full = f"{self.__name__}.{name}"
        if (home := TABLE.get(self.__name__, {}).get(name, self)) is not self:
            return _absent(full) if home is None else _at(*home)
        why = _why(full)
        if not name.startswith("__") and (why is None or _is_module(full)):
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as error:
                if not str(error.name).startswith(("torch", "pyframe")):
                    raise
        if not _imports(sys._getframe(1)):
            raise AttributeError(_missing(self, name), name=name)
        if why is None:
            raise ImportError(_missing(self, name), name=name)
        return _absent(full)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} of pyframe>"

    def __dir__(self) -> list[str]:
        own = {n for source in self.__dict__["_sources"] for n in dir(source)}
        return sorted(own | TABLE.get(self.__name__, {}).keys())

    @property
    def __all__(self) -> list[str]:
        hidden = _OURS if self.__name__ == "torchvision.models" else ()
        found = set(TABLE.get(self.__name__, ()))
        for source in self.__dict__["_sources"]:
            found |= {*getattr(source, "__all__", dir(source))}
        return sorted(n for n in found if not n.startswith("_") and n not in hidden)


def _imports(frame: Any) -> bool:
    """Whether a frame is at `from module import name`, whose AttributeError would be swallowed."""
    code: CodeType = frame.f_code
    if code.co_name == "_handle_fromlist":  # which asks first, and would look for a module
        return True
    return frame.f_lasti >= 0 and code.co_code[frame.f_lasti] == _IMPORT_FROM


def _why(name: str) -> str | None:
    """What stands instead of a name of a module that is missing, or of what is below one."""
    found = [m for m in _MISSING if name.startswith(f"{m}.")]
    return _MISSING[max(found, key=len)] if found else None


@functools.cache
def _absent(name: str) -> Absent:
    why = _why(name)
    module, _, last = name.rpartition(".")
    said = f"{name} is not in pyframe" + (f"; {why}" if why else "")
    made = Absent(last, (), {"said": said, "__module__": module})
    for inner in TABLE.get(module, ()):
        if inner.startswith(f"{last}."):
            setattr(made, inner[len(last) + 1 :], _absent(f"{module}.{inner}"))
    return made


def _at(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _missing(module: Alias, name: str) -> str:
    why = _why(f"{module.__name__}.{name}")
    near = difflib.get_close_matches(name, dir(module), 3)
    there = f"there are {', '.join(near)}" if near else None
    hint = "".join(f"; {h}" for h in (why or there,) if h)
    return (
        f"{module.__name__}.{name} is not in pyframe{hint}. A program that can do without "
        f"it asks hasattr({module.__name__}, {name!r})"
    )


class _TorchAliasFinder:
    """Finds the modules of PyTorch's names."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "safetensors":
            return _opens_ours(PathFinder.find_spec(name))
        if name.partition(".")[0] not in ("torch", "torchvision") and name not in _COUNTERPARTS:
            return None
        if _is_module(name) or _why(name):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        parent, _, last = name.rpartition(".")
        module = importlib.import_module(parent)
        assert isinstance(module, Alias)
        raise ModuleNotFoundError(_missing(module, last), name=name)

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """The metadata of `torch` and `torchvision`, which many libraries ask for when they are
        imported."""
        from pyframe.torch.version import found

        return found(getattr(context, "name", None))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Alias(spec.name, _sources(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Functions and classes are set at once: looking one up then takes no Python."""
        assert isinstance(module, Alias)
        late: Sequence[str] = ()
        if module.__name__ == "torch":
            module.__dict__["torch"] = module
            for name in _AT_ONCE:
                importlib.import_module(f"torch.{name}")
            from pyframe.nn.functional.toplevel import FUNCTIONS

            late = *pyframe._ELSEWHERE, *FUNCTIONS
        hidden = "__" if module.__name__ == "torch" else "_"  # torch._assert is for programs
        for source in module.__dict__["_sources"]:
            for name in (*vars(source), *(late if source is pyframe else ())):
                found = None if name.startswith(hidden) else getattr(source, name)
                if home := homes.name_as_pytorch(found, module.__name__):
                    importlib.import_module(home)  # typing looks there for what annotations name
                if callable(found):
                    module.__dict__.setdefault(name, found)


def _opens_ours(spec: ModuleSpec | None) -> ModuleSpec | None:
    """The package safetensors, whose `safe_open` gives pyframe's tensors."""
    loader: Any = spec and spec.loader
    if loader is None:
        return spec
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        execute(module)
        module.safe_open = importlib.import_module("pyframe.torch.weights").opened_by(
            module.safe_open
        )

    loader.exec_module = exec_module
    return spec


def _is_module(name: str) -> bool:
    """Whether PyTorch's name is that of a module here, if only of one that lacks all."""
    below = f"{name}."
    return bool(
        name in _MISSING or name in TABLE or _sources(name)
        or any(n.startswith(below) for n in (*TABLE, *_COUNTERPARTS, *_MISSING))
    )  # fmt: skip


def _sources(name: str) -> list[ModuleType]:
    """The modules that answer to a module of PyTorch's name, the first first."""
    names = _COUNTERPARTS.get(name)
    if names is None:
        head, _, tail = name.rpartition(".")
        while head not in _COUNTERPARTS:
            head, _, more = head.rpartition(".")
            tail = f"{more}.{tail}"
        own = name.removeprefix("torch.") if name.startswith("torch.") else None
        names = (f"pyframe.torch.{own}",) if own else ()
        names += (f"{_COUNTERPARTS[head][-1]}.{tail}",)
    return [m for m in map(_module, names) if m is not None]


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
    parent, _, last = name.rpartition(".")
    found = getattr(_module(parent) if parent else None, last, None)
    return found if isinstance(found, ModuleType) else None


# --- running a program


class _Spec(ModuleSpec):
    """What workers import as their main module; relative imports are those of the program."""

    parent: str = ""


def run(argv: Sequence[str]) -> None:
    """Run a program: [script, *arguments] or ["-m", module, *arguments]."""
    install()
    if any(name.endswith("_RANK") for name in os.environ):  # of an mpiexec
        from pyframe.distributed import environ

        environ()
    program = ["-m", argv[1]] if argv[0] == "-m" else [os.path.abspath(argv[0])]
    os.environ[_PROGRAM] = "\n".join(program)
    sys.argv[:] = argv[len(program) - 1 :]
    sys.path[0] = os.getcwd() if argv[0] == "-m" else os.path.dirname(program[0])
    main = ModuleType("__main__")
    main.__spec__ = _Spec("pyframe.torch.program", None)
    sys.modules["__main__"] = main
    execute(main.__dict__)


def execute(namespace: dict[str, Any]) -> None:
    """Run the program's code in the namespace of a main module."""
    install()
    *module, name = os.environ[_PROGRAM].split("\n")
    spec = None
    if module:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
        if spec is None or spec.origin is None:
            raise SystemExit(f"pyframe.torch: there is no module {name} to run")
        name = sys.argv[0] = spec.origin
    elif namespace["__name__"] != "__main__":
        sys.argv[0] = name  # of a worker, as Python runs its program
    namespace["__package__"] = spec and spec.parent
    if isinstance(own := namespace["__spec__"], _Spec):
        own.parent = (spec and spec.parent) or ""
    else:
        namespace["__spec__"] = spec
    try:
        with open(name, "rb") as file:
            source = file.read()
    except OSError as error:
        raise SystemExit(f"pyframe.torch: can't read the program: {error}") from None
    namespace["__file__"] = name
    exec(compile(source, name, "exec"), namespace)
