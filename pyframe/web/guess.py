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
        inputs = _for_pictures(x.shape)
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


# Losses whose inputs are scores of classes, by their names as classes and as functions.
_OF_CLASSES = {"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss", "cross_entropy", "nll_loss"}
_OF_ONE = {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"}
FIELDS = 32  # sliders of a vector at most
TOP = 5  # classes that are shown of many


def are_scores(y: Any, loss: Any) -> bool | None:
    """Whether what a network gives are scores of classes, as the targets `y` and the loss tell,
    where there are any; None where there are none."""
    if loss is None and y is None:
        return None
    name = getattr(loss, "__name__", type(loss).__name__)
    one = y is not None and pf.as_tensor(y[0]).numel() == 1
    return name in _OF_CLASSES or (one and (name in _OF_ONE or not _is_float(y)))


def output_of(shape: Sequence[int], scores: bool | None) -> Any:
    """The spec of what shows results of a shape, without the batch dim; None where nothing does."""
    size = math.prod(shape)
    match tuple(shape):
        case (1 | 3 as channels, h, w):
            return parts.Picture(h, w, channels).spec()
        case (_,) | () if scores or (scores is None and size > VALUES):
            names = tuple(map(str, range(max(2, size))))
            about = parts.Bars(names, TOP if size > VALUES else 0).spec()
            return {**about, "scores": True}  # of which the page makes probabilities
        case _ if size <= VALUES:
            return parts.Values().spec()
    return None


def input_of(x: pf.Tensor, scores: bool | None) -> Any:
    """The spec of an input for samples such as those of the batch `x`; None where there is none."""
    found = _input(x, scores is not False)
    return None if found is None else found.spec()


def _is_float(x: Any) -> bool:
    return bool(pf.as_tensor(x).is_floating_point())


def _input(x: pf.Tensor, scores: bool) -> Input | None:
    side = math.isqrt(x[0].numel())
    match tuple(x.shape[1:]):
        case (n,) if n <= FIELDS:
            step = None if _is_float(x) else 1
            spans = zip(x.float().amin(0).tolist(), x.float().amax(0).tolist(), strict=True)
            return parts.Numbers(tuple(
                parts.Slider(f"x{i}", low, high if low < high else low + 1, low if step else None,
                             step, label=f"Input {i + 1}") for i, (low, high) in enumerate(spans)
            ))  # fmt: skip
        case _ if not _is_float(x):
            return None
        case (h, w) if scores and h == w and 8 <= h <= 512:
            return parts.Pad(h, w)
        case (n,) if scores and n == side * side and n > FIELDS:  # a picture row by row
            return parts.Pad(side, side)
    return _for_pictures(x.shape[1:])


def _for_pictures(shape: Sequence[int]) -> Input | None:
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
