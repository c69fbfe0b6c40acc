"""Dropout: of elements, of whole channels, and that which keeps mean and variance (alpha)."""

from __future__ import annotations

import math
import warnings

from pyframe.nn.functional.activation import maybe_inplace
from pyframe.ops.api import check
from pyframe.ops.math import elementwise as el
from pyframe.ops.random.draws import fractions
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "feature_alpha_dropout",
]  # fmt: skip


def dropped(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, features: bool = False,
    alpha: bool = False,
) -> Tensor:  # fmt: skip
    """What all dropouts do: draw a mask (of whole channels with `features`) and apply it."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")
    shape = input.shape
    if features and training and p and len(shape) < 2:
        raise RuntimeError(
            f"{name}: Feature dropout requires at least 2 dimensions in the input, got "
            f"{list(shape)}"
        )
    if not training or p == 0 or 0 in shape:
        return input
    check.floats(name, input)
    if p == 1:
        return maybe_inplace(lambda x: x * 0.0, input, inplace)
    of_channels = (*shape[:2], *(1,) * (len(shape) - 2)) if features else None
    keep = el.ge(fractions(input, None, True, of_channels), p)
    if not alpha:
        return maybe_inplace(lambda x: el.where(keep, x * (1 / (1 - p)), 0.0), input, inplace)
    a = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    b = _ALPHA * a * p  # a, b: mean 0 and variance 1 stay so, see arXiv 1706.02515
    return maybe_inplace(lambda x: el.where(keep, x * a + b, b - _ALPHA * a), input, inplace)


_ALPHA = 1.7580993408473766  # minus the value that selu saturates at


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the rest by 1 / (1 - p); see nn.Dropout."""
    return dropped("dropout", input, p, training, inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to the value that selu saturates at, keeping mean 0 and variance 1 (1706.02515).

    See nn.AlphaDropout for shapes and arguments.
    """
    return dropped("alpha_dropout", input, p, training, inplace, alpha=True)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels: (N, C, *); see nn.FeatureAlphaDropout."""
    return dropped("feature_alpha_dropout", input, p, training, inplace, True, True)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, L) or (C, L); see nn.Dropout1d."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input; "
            "use dropout for other shapes"
        )
    return _channels("dropout1d", input, p, training, inplace, input.ndim == 2)


def _channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, alone: bool
) -> Tensor:
    if not alone:
        return dropped(name, input, p, training, inplace, True)
    out = dropped(name, mv.unsqueeze(input, 0), p, training, inplace, True)
    return input if inplace else mv.squeeze(out, 0)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, H, W); a 3-d input counts as (N, C, L).

    See nn.Dropout2d for shapes and arguments.
    """
    if input.ndim not in (3, 4):
        _deprecated("dropout2d", input, "(N, C, H, W)")
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired, (N, C, L); use dropout1d for that",
            stacklevel=3,
        )
    return dropped("dropout2d", input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels: (N, C, D, H, W) or (C, D, H, W); see nn.Dropout3d."""
    if input.ndim not in (4, 5):
        _deprecated("dropout3d", input, "(N, C, D, H, W)")
    return _channels("dropout3d", input, p, training, inplace, input.ndim != 5)


def _deprecated(name: str, input: Tensor, expected: str) -> None:
    warnings.warn(
        f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated; expected "
        f"{expected}, use dropout for other shapes",
        stacklevel=4,
    )
