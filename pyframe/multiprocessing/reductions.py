"""How tensors are pickled for another process: by their place in memory that both share."""

from __future__ import annotations

import sys
from multiprocessing import reduction
from typing import Any

import numpy as np

from pyframe.core.devices import device as Device
from pyframe.core.dtypes import dtype as DType
from pyframe.nn.parameter import Buffer, Parameter
from pyframe.tensor import Tensor, copying
from pyframe.tensor.construction import from_host
from pyframe.tensor.sharing import Segment, segment_of, share


def _reduce_segment(segment: Segment) -> Any:
    return _rebuild_segment, (reduction.DupFd(segment.file),)


def _rebuild_segment(handle: Any) -> Segment:
    try:
        return Segment(handle.detach())
    except (OSError, EOFError) as error:
        raise RuntimeError(
            "multiprocessing: the process that sent this tensor has ended before it arrived; let "
            f"it wait until it is told that it has, or send x.tolist() ({error!r})"
        ) from None


def reduce_tensor(x: Tensor) -> Any:
    """For pickle: the segment that it lies in, to which it is moved if it is on the CPU, and where.
    RuntimeError for a tensor with a history."""
    if x.requires_grad and not x.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the "
            "data, call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if sys.platform in ("win32", "emscripten"):
        return x.__reduce_ex__(2)
    here = x.detach().cpu()
    share([here if x.is_cuda else x])
    array = (here if x.is_cuda else x.detach())._host()
    segment: Any = segment_of(array)
    at = array.ctypes.data - segment.address if array.size else 0
    form = array.shape, array.dtype, at, array.strides
    made = (type(x), segment, form, str(x.device), x.requires_grad, x.dtype)
    return _rebuild_tensor, made, x.__dict__ or None


def _rebuild_tensor(
    kind: Any, segment: Segment, form: Any, device: str, needs_grad: bool, dtype: DType
) -> Tensor:
    shape, how, at, strides = form
    here = from_host(np.ndarray(shape, how, segment, at, strides), dtype)
    here._storage.aliased_outside = True  # others write to it
    return copying.leaf_alias(kind, here.to(Device(device)), needs_grad)


def init_reductions() -> None:
    """Let Python's queues, pipes and processes have tensors pickled so."""
    for kind in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(kind, reduce_tensor)
    reduction.ForkingPickler.register(Segment, _reduce_segment)
