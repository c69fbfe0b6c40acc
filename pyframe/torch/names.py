"""What `torch` has at its top level beside tensors: versions, settings, and what is accepted."""

from __future__ import annotations

from typing import Any, NoReturn

import pyframe as pf
from pyframe.core.dtypes import FLOAT, dtype
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
    """A dtype that programs name, compare and ask `finfo` of; there are no tensors of it."""

    __slots__ = ("limits",)

    def __init__(self, name: str, eps: float, largest: float, tiny: float) -> None:
        self.name, self.category, self.itemsize, self.narrow = name, FLOAT, 1, None
        self.storage = self.compute = None
        self.limits = {"eps": eps, "max": largest, "tiny": tiny, "resolution": 1.0}

    @property
    def numpy(self) -> Any:
        raise TypeError(
            f"{self}: pyframe has no tensors of 8-bit floats; use torch.bfloat16 or torch.float16"
        )


float8_e4m3fn = _Described("float8_e4m3fn", 2.0**-3, 448.0, 2.0**-6)
float8_e4m3fnuz = _Described("float8_e4m3fnuz", 2.0**-3, 240.0, 2.0**-7)
float8_e5m2 = _Described("float8_e5m2", 2.0**-2, 57344.0, 2.0**-14)
float8_e5m2fnuz = _Described("float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15)
float8_e8m0fnu = _Described("float8_e8m0fnu", 1.0, 2.0**127, 2.0**-127)


class finfo(pf.finfo):  # noqa: N801  (PyTorch's name)
    """`pf.finfo`, of 8-bit floats too."""

    def __init__(self, type: Any = None) -> None:
        if not isinstance(type, _Described):
            super().__init__(type)
            return
        self.bits, self.dtype, self.min = 8, type.name, -type.limits["max"]
        self.__dict__.update(type.limits, smallest_normal=type.limits["tiny"])


class _Devices(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (pf.device, _Meta))


class device(metaclass=_Devices):  # noqa: N801  (PyTorch's name)
    """`pf.device`; "meta" can be named."""

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Any:
        """A device of pyframe's, or what stands for "meta"."""
        return META if type in ("meta", META) else pf.device(type, index)


class _Meta:
    """The device "meta", of tensors without memory: there are none; programs compare with it."""

    type, index = "meta", None

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            'torch.device("meta"): pyframe has no tensors without memory; make the module on the '
            "CPU, of its configuration, and give it weights with load_state_dict"
        )

    def __exit__(self, *exc: object) -> None:
        """Nothing was entered."""

    def __repr__(self) -> str:
        return "device(type='meta')"

    def __str__(self) -> str:
        return "meta"


META = _Meta()
