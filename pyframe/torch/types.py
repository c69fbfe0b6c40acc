"""torch.types: names of types for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Union

import pyframe as pf
from pyframe.core.dtypes import dtype

Number = int | float | bool
FileLike = Any
Tensor, Storage = pf.Tensor, pf.UntypedStorage
_bool, _int, _float, _dtype, _device, _size = bool, int, float, dtype, pf.device, tuple
_TensorOrTensors = pf.Tensor | Sequence[pf.Tensor]
_TensorOrOptionalTensors = _TensorOrTensors | Sequence[pf.Tensor | None]
Device = Union[pf.device, str, int, None]  # noqa: UP007
PathLike = str | os.PathLike[str]
