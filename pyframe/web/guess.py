"""The input and the output of a page for a program that does not name them, from a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyframe as pf
from pyframe.web import demo as parts
from pyframe.web.demo import Demo, Input

VALUES = 16  # numbers that are shown as such at most


def widgets(
    demo: Demo, x: pf.Tensor | None, y: Any, forward: Callable[[pf.Tensor], pf.Tensor],
    far: Callable[[], float], names: Any = None,
) -> tuple[Input | None, parts.Output | None]:  # fmt: skip
    """The input and the output of `demo`; where it has none, what fits a sample (x, y) of its data.

    `forward` is what the network gives for a batch, `far` the largest coordinate of the data,
    `names` what its classes are called, where that is known."""
    inputs, outputs = demo.inputs, demo.outputs
    if x is None or demo.predict is not None or isinstance(inputs, parts.Text):
        return inputs, outputs
    target = pf.as_tensor(y)
    whole = not target.is_floating_point() and not target.ndim
    if whole and not x.is_floating_point():
        return inputs, outputs  # words or the like
    classes = 0
    if whole:
        out = forward(x.reshape(1, *x.shape))
        classes = max(2, out.shape[-1]) if out.ndim == 2 else 0
    if inputs is None and x.is_floating_point():
        inputs = for_pictures(x.shape)
        if x.shape == (2,) and 2 <= classes <= 10:
            inputs = parts.Points(classes, *_bounds(far()))
    if outputs is None and inputs is not None:
        if isinstance(inputs, parts.Points) and classes:
            outputs = parts.Plane()
        elif classes:
            known = isinstance(names, list | tuple) and len(names) == classes
            outputs = parts.Bars(tuple(map(str, names if known else range(classes))))
        elif target.is_floating_point() and target.numel() <= VALUES:
            outputs = parts.Values()
    return inputs, outputs


def for_pictures(shape: Sequence[int]) -> Input | None:
    match tuple(shape):
        case (1, h, w) if h <= 512 and w <= 512:
            return parts.Pad(h, w)
        case (3, h, w) if h <= 4096 and w <= 4096:
            return parts.Image(h, w)
    return None


def _bounds(far: float) -> tuple[float, float]:
    """Between which round numbers points lie that are `far` at most."""
    far = max(far, 1e-6)
    power = 10.0 ** math.floor(math.log10(far))
    high = power * next(f for f in (1, 2, 5, 10) if f * power >= far)
    return -high, high
