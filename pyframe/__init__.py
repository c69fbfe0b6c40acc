"""pyframe: deep learning with PyTorch's API, on any GPU through WGSL, in Python and in the page."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from pyframe import autograd as autograd, methods as methods, ops as ops
from pyframe.core.devices import (
    DeviceLostError as DeviceLostError,
    OutOfMemoryError as OutOfMemoryError,
    device as device,
    device_name as device_name,
    flush as flush,
    get_default_device as get_default_device,
    in_browser as _in_browser,
    is_available as is_available,
    set_default_device as set_default_device,
)
from pyframe.core.dtypes import (
    bfloat16 as bfloat16,
    bool_ as _bool,
    can_cast as can_cast,
    complex64 as complex64,
    complex128 as complex128,
    dtype as dtype,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    iinfo as iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from pyframe.core.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from pyframe.core.trace import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from pyframe.ops.random.draws import (
    Generator as Generator,
    default_generator as default_generator,
    fork_rng as fork_rng,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
)
from pyframe.ops.shape.conversion import TYPES as _TYPES
from pyframe.runtime import opening as _opening  # noqa: F401  (registers what opens devices)
from pyframe.tensor import (
    Size as Size,
    Tensor as Tensor,
    as_tensor as as_tensor,
    asarray as asarray,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    tensor as tensor,
)
from pyframe.tensor.memory_format import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_coo as sparse_coo,
    strided as strided,
)
from pyframe.tensor.printing import set_printoptions as set_printoptions
from pyframe.tensor.storage import UntypedStorage as UntypedStorage

__version__ = "0.1.0"

float, double, half = float32, float64, float16
long, int, short, bool = int64, int32, int16, _bool
cfloat, cdouble = complex64, complex128
pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None

globals().update(_TYPES)
globals().update(ops.as_functions({**ops.METHODS, **ops.FUNCTIONS}))
globals().update(  # methods of Tensor itself that torch has as functions too
    {name: getattr(Tensor, name) for name in ("detach", "detach_", "get_device", "is_inference")}
)

# Names of the layers above, which load when they are first used: modules, and what is in them.
# Those of nn.functional stand in its modules, as TOPLEVEL.
_MODULES = set(
    """amp nn optim data vision train web io profiler bench linalg fft special masked signal func
    gpu utils distributions distributed metrics overrides plot random graph array_api jit export
    onnx multiprocessing hub text lora torch""".split()
)
_ELSEWHERE = {
    name: module
    for module, names in {
        "tools.draw_model": "draw",
        "tools.autotune": "autotune",
        "train": "Model Callback History",
        "io": "save load",
        "amp": """GradScaler autocast clear_autocast_cache get_autocast_dtype
            is_autocast_cache_enabled is_autocast_enabled set_autocast_dtype""",
        "autograd.anomaly_mode": "is_anomaly_enabled is_anomaly_check_nan_enabled",
        "func": "vmap",
        "nn.quantized": "quantize_",
        "capture.compile": "compile",
        "codegen.numpy.threads": "get_num_threads set_num_threads",
        "capture.lengths": "mark_dynamic",
    }.items()
    for name in names.split()
}


def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """Whether `obj` is a Tensor.

    >>> pf.is_tensor(pf.zeros(2)), pf.is_tensor(3)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> TypeGuard[UntypedStorage]:
    """Whether `obj` is a storage.

    >>> pf.is_storage(pf.zeros(2).untyped_storage())
    True
    """
    return isinstance(obj, UntypedStorage)


def typename(obj: object) -> str:
    """The name of an object's type, with its module.

    Args:
        obj: Anything.

    >>> pf.typename(pf.zeros(1))
    'pyframe.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def numel(input: Tensor) -> builtins.int:
    """The number of elements.

    >>> pf.numel(pf.zeros(2, 3))
    6
    """
    return input.numel()


if _in_browser():
    from pyframe.web.late import find_torch as _find_torch

    _find_torch()

if TYPE_CHECKING:  # what is made in a loop and what loads late, by scripts/make_stubs
    from pyframe._stubs.functions import *
else:

    def __getattr__(name: str) -> Any:
        """Load the upper layers when they are first used."""
        import importlib

        if name in _MODULES:
            from pyframe.core.extras import check_installed

            check_installed(f"pyframe.{name}")
            return importlib.import_module(f"pyframe.{'tools.' if name == 'bench' else ''}{name}")
        if name in _ELSEWHERE:
            return getattr(importlib.import_module(f"pyframe.{_ELSEWHERE[name]}"), name)
        if not name.startswith("_"):
            from pyframe.nn.functional.toplevel import FUNCTIONS

            if name in FUNCTIONS:
                return FUNCTIONS[name]
        raise AttributeError(f"module 'pyframe' has no attribute {name!r}")
