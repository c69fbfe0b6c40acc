"""torch.backends: switches of libraries that pyframe does not use; they can be set and read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from pyframe.torch.cuda import is_available as _gpu


def _library(available: Callable[[], bool] = lambda: False, **switches: Any) -> ModuleType:
    """A library with switches, which `flags` keeps within a `with`, and `set_flags` sets."""
    found = ModuleType("library")  # programs say import torch.backends.cudnn
    own = found.__dict__

    def set_flags(*values: Any, **named: Any) -> tuple[Any, ...]:
        given = {**dict(zip(switches, values, strict=False)), **named}
        if unknown := [name for name in given if name.lstrip("_") not in switches]:
            raise TypeError(f"set_flags: there are {', '.join(switches)}; got {unknown[0]}")
        before = tuple(own[name] for name in switches)
        own.update({k.lstrip("_"): v for k, v in given.items() if v is not None})
        return before

    @contextlib.contextmanager
    def flags(*values: Any, **named: Any) -> Iterator[None]:
        before = set_flags(*values, **named)
        try:
            yield
        finally:
            own.update(zip(switches, before, strict=True))

    own.update(
        is_available=available, is_built=available, flags=flags, set_flags=set_flags, **switches
    )
    return found


def _switch(of: ModuleType, name: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    """A setter of a switch that is on, and a function that reads it."""
    kept = f"_{name}"
    setattr(of, kept, True)
    return lambda enabled: setattr(of, kept, enabled), lambda: getattr(of, kept)


cudnn = _library(
    enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=False,
    fp32_precision="none",
)  # fmt: skip
cudnn.__dict__.update(
    version=lambda: None, is_acceptable=lambda tensor: False, CUDNN_TENSOR_DTYPES=set(),
    conv=SimpleNamespace(fp32_precision="none"), rnn=SimpleNamespace(fp32_precision="none"),
)  # fmt: skip


class SDPAParams(NamedTuple):
    """What attention is asked for, when it is asked which of its ways could be taken."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


def _never(params: Any, debug: bool = False) -> bool:
    """False: there is one way for each device, which is taken without being asked."""
    return False


@contextlib.contextmanager
def _sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:  # fmt: skip
    """Accepted: attention takes the way that its device has."""
    yield


cuda = _library()
cuda.__dict__.update(
    is_built=_gpu,
    matmul=SimpleNamespace(
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=False,
        allow_bf16_reduced_precision_reduction=False,
        allow_fp16_accumulation=False,
        fp32_precision="none",
    ),
    SDPAParams=SDPAParams,
    can_use_flash_attention=_never,
    can_use_efficient_attention=_never,
    can_use_cudnn_attention=_never,
    is_flash_attention_available=lambda: False,
    sdp_kernel=_sdp_kernel,
    preferred_linalg_library=lambda backend=None: "default",
    cufft_plan_cache=SimpleNamespace(size=0, max_size=0, clear=lambda: None),
)
for _name in ("flash", "math", "mem_efficient", "cudnn"):
    _set, _get = _switch(cuda, f"{_name}_sdp")
    setattr(cuda, f"enable_{_name}_sdp", _set)
    setattr(cuda, f"{_name}_sdp_enabled", _get)

mps = _library(lambda: sys.platform == "darwin" and _gpu())
mps.__dict__.update(is_macos13_or_newer=lambda minor=0: False, is_macos_or_newer=lambda *v: False)
mkldnn = _library(enabled=False, deterministic=False, allow_tf32=False, fp32_precision="none")
mkldnn.__dict__.update(
    matmul=SimpleNamespace(fp32_precision="none"), conv=SimpleNamespace(fp32_precision="none"),
    rnn=SimpleNamespace(fp32_precision="none"),
)  # fmt: skip
mkl, openmp, xeon, cusparselt = (_library() for _ in range(4))
nnpack = _library(enabled=False)
opt_einsum = _library(enabled=False, strategy=None)
quantized = _library(engine="none")
quantized.__dict__.update(supported_engines=["none"])
cpu = _library()
cpu.__dict__.update(get_cpu_capability=lambda: "DEFAULT")
fp32_precision = "none"


def disable_global_flags() -> None:
    """Accepted: switches are set as before."""


@contextlib.contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    yield
