"""The input and the output that fit an exported network's samples and results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyframe as pf
from pyframe.web import demo as parts
from pyframe.web.demo import Input
from pyframe.web.guess import VALUES, for_pictures

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
    return for_pictures(x.shape[1:])
