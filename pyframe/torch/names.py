"""What `torch` has at its top level beside tensors: versions, settings, and what is accepted."""

from __future__ import annotations

import importlib
from typing import Any

import pyframe as pf
from pyframe import gpu as _gpu
from pyframe.core.dtypes import COMPLEX, FLOAT, INTEGER, dtype
from pyframe.gpu import Event as Event, Stream as Stream
from pyframe.jit import ScriptModule as ScriptModule
from pyframe.torch.futures import Future as Future
from pyframe.torch.generator import Generator as Generator
from pyframe.torch.version import __version__ as __version__

_settings: dict[str, Any] = {"precision": "highest"}


def set_default_tensor_type(t: Any) -> None:
    """The dtype of new tensors, by a type such as torch.DoubleTensor; with torch.cuda.FloatTensor
    they are on the GPU."""
    made = pf.ones(0).type(t)
    pf.set_default_dtype(made.dtype)
    if made.is_cuda:
        pf.set_default_device(made.device)


def get_float32_matmul_precision() -> str:
    """What was set; products are float32 whatever it is."""
    return str(_settings["precision"])


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted, without effect. ValueError unless 'highest', 'high' or 'medium'."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision: {precision!r} is not one of 'highest', 'high', 'medium'"
        )
    _settings["precision"] = precision


def set_flush_denormal(mode: bool) -> bool:
    """False: it can't be set."""
    return False


def is_autocast_cpu_enabled() -> bool:
    """pf.is_autocast_enabled of the CPU."""
    return bool(pf.is_autocast_enabled("cpu"))


def get_autocast_gpu_dtype() -> Any:
    """pf.get_autocast_dtype of the GPU."""
    return pf.get_autocast_dtype("gpu")


def get_autocast_cpu_dtype() -> Any:
    """pf.get_autocast_dtype of the CPU."""
    return pf.get_autocast_dtype("cpu")


class _Described(dtype):
    """A dtype that programs name and compare; there are no tensors of it."""

    __slots__ = ("limits",)
    instead = "torch.uint8"

    def __init__(self, name: str, category: int = INTEGER, itemsize: int = 1) -> None:
        self.name, self.category, self.itemsize, self.narrow = name, category, itemsize, None
        self.storage = self.compute = None

    @property
    def numpy(self) -> Any:
        raise TypeError(f"{self}: pyframe has no tensors of this dtype; use {self.instead}")

    @property
    def is_signed(self) -> bool:
        return not self.name.startswith(("uint", "quint"))


class _Float8(_Described):
    """One that `finfo` tells of too."""

    __slots__ = ()
    instead = "torch.bfloat16 or torch.float16"

    def __init__(self, name: str, eps: float, largest: float, tiny: float) -> None:
        super().__init__(name, FLOAT)
        self.limits = {"eps": eps, "max": largest, "tiny": tiny, "resolution": 1.0}


class _Complex32(_Described):
    __slots__ = ()
    instead = "torch.complex64"


complex32 = chalf = _Complex32("complex32", COMPLEX, 4)
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_Described(f"uint{n}") for n in range(1, 8))
int1, int2, int3, int4, int5, int6, int7 = (_Described(f"int{n}") for n in range(1, 8))
quint8, qint8, quint4x2, quint2x4 = map(_Described, ("quint8", "qint8", "quint4x2", "quint2x4"))
qint32 = _Described("qint32", itemsize=4)
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = (
    pf.layout(name) for name in ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
)
legacy_contiguous_format = pf.contiguous_format


float8_e4m3fn = _Float8("float8_e4m3fn", 2.0**-3, 448.0, 2.0**-6)
float8_e4m3fnuz = _Float8("float8_e4m3fnuz", 2.0**-3, 240.0, 2.0**-7)
float8_e5m2 = _Float8("float8_e5m2", 2.0**-2, 57344.0, 2.0**-14)
float8_e5m2fnuz = _Float8("float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15)
float8_e8m0fnu = _Float8("float8_e8m0fnu", 1.0, 2.0**127, 2.0**-127)


class finfo(pf.finfo):  # noqa: N801  (PyTorch's name)
    """`pf.finfo`, of 8-bit floats too."""

    def __init__(self, type: Any = None) -> None:
        if not isinstance(type, _Float8):
            super().__init__(type)
            return
        self.bits, self.dtype, self.min = 8, type.name, -type.limits["max"]
        self.__dict__.update(type.limits, smallest_normal=type.limits["tiny"])


def _softmax_backward_data(
    grad_output: pf.Tensor, output: pf.Tensor, dim: int, input_dtype: dtype
) -> pf.Tensor:
    """The gradient of softmax's input, from its output and that one's gradient."""
    each = grad_output * output
    return (each - output * each.sum(dim, keepdim=True)).to(input_dtype)


# --- what is asserted


def _assert(condition: Any, message: str) -> None:
    """AssertionError unless it is so."""
    assert condition, message


def _assert_async(input: pf.Tensor, assert_msg: str = "") -> None:
    """RuntimeError if a number is zero."""
    if not input:
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check(cond: Any, message: Any = None) -> None:
    """RuntimeError unless it is so."""
    _check_with(RuntimeError, cond, message)


def _check_with(error_type: Any, cond: Any, message: Any = None) -> None:
    """An error unless it is so."""
    if not cond:
        raise error_type("Expected cond to be True" if message is None else message())


def _check_tensor_all_with(error_type: Any, cond: pf.Tensor, message: Any = None) -> None:
    """An error unless all of a tensor are."""
    _check_with(error_type, cond.all(), message)


def _check_tensor_all(cond: pf.Tensor, message: Any = None) -> None:
    """RuntimeError unless all of a tensor are."""
    _check_with(RuntimeError, cond.all(), message)


def _check_index(cond: Any, message: Any = None) -> None:
    """IndexError unless it is so."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    """ValueError unless it is so."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    """TypeError unless it is so."""
    _check_with(TypeError, cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """RuntimeError unless it is a size."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _is_all_true(x: pf.Tensor) -> pf.Tensor:
    """Whether all of a tensor of bools are true, as a tensor."""
    return x.all()


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: nothing is random but what draws."""
    return False


def get_deterministic_debug_mode() -> int:
    """0."""
    return 0


def _shape_as_tensor(x: pf.Tensor) -> pf.Tensor:
    """The shape as a tensor."""
    return pf.tensor(list(x.shape))


def get_device_module(device: Any = None) -> Any:
    """torch.cuda or torch.cpu: the module of a kind of devices, by default of the GPU if there is
    one. RuntimeError where there is none of that name."""
    kind = (
        pf.device(device).type if device is not None else "cuda" if _gpu.is_available() else "cpu"
    )
    return importlib.import_module(f"torch.{kind}")


# --- sizes, which are numbers here

sym_int, sym_float, sym_max, sym_min, sym_sum = int, float, max, min, sum


def sym_not(a: Any) -> bool:
    """Whether it is not so."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if it is so, else `f`."""
    return t if b else f


# --- the same of each tensor of a list


def _foreach(name: str, in_place: bool) -> Any:
    """The method of a name for each tensor of a list, with what belongs to it of other lists; what
    is no list belongs to each."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, (list, tuple)):  # the base of powers
            return [pf.pow(self, x) for x in args[0]]
        given: dict[Any, Any] = dict(enumerate(args))
        given |= {k: v for k, v in kwargs.items() if k != "scalars"}
        if name in ("addcmul", "addcdiv"):
            scalars = kwargs.get("scalars", given.pop(2, given.pop("value", 1)))
            given["value"] = scalars.tolist() if isinstance(scalars, pf.Tensor) else scalars
        for key, value in given.items():
            if isinstance(value, (list, tuple)) and len(value) != len(self):
                raise RuntimeError(
                    f"_foreach_{name}: expected lists of the same length, got {len(self)} tensors "
                    f"and {len(value)} for argument {key}"
                )
        found = []
        for i, x in enumerate(self):
            own = {k: v[i] if isinstance(v, (list, tuple)) else v for k, v in given.items()}
            rest = [own.pop(k) for k in sorted(k for k in own if isinstance(k, int))]
            if name == "norm":
                found.append(pf.linalg.vector_norm(x, *rest, **own))
            elif name in ("maximum", "minimum") and not isinstance(rest[0], pf.Tensor):
                way = f"clamp_{'min' if name == 'maximum' else 'max'}" + "_" * in_place
                found.append(getattr(x, way)(*rest))
            elif in_place and not hasattr(x, f"{name}_"):
                found.append(x.copy_(getattr(x, name)(*rest)))
            else:
                found.append(getattr(x, name + "_" * in_place)(*rest, **own))
        return list(self) if in_place else found

    run.__name__ = f"_foreach_{name}" + "_" * in_place
    run.__doc__ = (
        f"`{name}` of each tensor of a list" + ", in place." * in_place + "." * (not in_place)
    )
    return run


for _name in """abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min copy cos cosh div
    erf erfc exp expm1 floor frac lerp lgamma log log10 log1p log2 max maximum minimum mul neg norm
    pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc zero""".split():
    for _here in (False, True):
        if not (_name in ("copy", "zero") and not _here) and not (
            _name in ("max", "norm") and _here
        ):
            globals()[f"_foreach_{_name}" + "_" * _here] = _foreach(_name, _here)
