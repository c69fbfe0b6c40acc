"""torch.compiler and torch._dynamo: what programs tell PyTorch's compiler. pyframe's captures what
Python does and guards what it read, so that most of it needs not be said."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pyframe as pf
from pyframe.capture.compile import CompiledFunction
from pyframe.core.modes import mode

compile = pf.compile


class _ModuleClass(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, CompiledFunction) and isinstance(x.fn, pf.nn.Module)


class OptimizedModule(metaclass=_ModuleClass):
    """What torch.compile makes of a module."""


def is_dynamo_supported() -> bool:
    """True: functions are captured everywhere."""
    return True


config = SimpleNamespace(
    cache_size_limit=8, recompile_limit=8, accumulated_cache_size_limit=256, suppress_errors=False,
    verbose=False, capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False,
    optimize_ddp=True, skip_fwd_side_effects_in_bwd_under_checkpoint=False,
    allow_unspec_int_on_nn_module=False, inline_inbuilt_nn_modules=True,
)  # fmt: skip

TransformGetItemToIndex = nullcontext  # vmap indexes by tensors anyway


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """`fn` itself: a capture follows it as any other. Without one, a decorator."""
    return (lambda f: f) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """`fn` itself."""
    return fn


assume_constant_result = forbid_in_graph = allow_in_graph


def is_compiling() -> bool:
    """Whether a function is being captured."""
    return mode.capture is not None


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """False."""
    return False


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accepted: a tensor that lies outside keeps its memory anyway."""


mark_static = mark_static_address
mark_dynamic = maybe_mark_dynamic = pf.mark_dynamic


def reset() -> None:
    """Accepted: compiled functions keep what they have captured."""


def cudagraph_mark_step_begin() -> None:
    """Accepted, without effect."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """['pyframe']."""
    return ["pyframe"]
