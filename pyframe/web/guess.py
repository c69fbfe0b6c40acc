"""The input and the output of a page for a program that does not name them, from a sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.web.demo import Bars, Demo, Image, Input, Output, Pad, Plane, Points, Text, Values


def widgets(
    demo: Demo,
    x: pf.Tensor | None,
    y: Any,
    forward: Callable[[pf.Tensor], pf.Tensor],
    far: Callable[[], float],
    names: Any = None,
) -> tuple[Input | None, Output | None]:
    """The input and the output of `demo`; where it has none, what fits a sample (x, y) of its data.

    `forward` is what the network gives for a batch, `far` the largest coordinate of the data,
    `names` what its classes are called, where that is known."""
    inputs, outputs = demo.inputs, demo.outputs
    if x is None or demo.predict is not None or isinstance(inputs, Text):
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
        match tuple(x.shape):
            case (1, h, w) if h <= 512 and w <= 512:
                inputs = Pad(h, w)
            case (3, h, w) if h <= 4096 and w <= 4096:
                inputs = Image(h, w)
            case (2,) if 2 <= classes <= 10:
                inputs = Points(classes, *_bounds(far()))
    if outputs is None and inputs is not None:
        if isinstance(inputs, Points) and classes:
            outputs = Plane()
        elif classes:
            known = isinstance(names, list | tuple) and len(names) == classes
            outputs = Bars(tuple(map(str, names if known else range(classes))))
        elif target.is_floating_point() and target.numel() <= 16:
            outputs = Values()
    return inputs, outputs


def _bounds(far: float) -> tuple[float, float]:
    """Between which round numbers points lie that are `far` at most."""
    far = max(far, 1e-6)
    power = 10.0 ** math.floor(math.log10(far))
    high = power * next(f for f in (1, 2, 5, 10) if f * power >= far)
    return -high, high
