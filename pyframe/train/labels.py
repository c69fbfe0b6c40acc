"""Whether targets are of the kind that a loss takes, by shapes and dtypes: nothing is read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.train.words import name_of

_Check = Callable[[pf.Tensor, pf.Tensor], "str | None"]


def labels(loss: Any, output: Any, target: Any, key: Any = None) -> None:
    """ValueError for targets of the wrong kind for a loss of pyframe.nn; it names the fix.

    `key`: the name or index of the output, where there are several.
    Other losses, and outputs or targets that are no tensors, are not looked at."""
    try:
        look = _LOOKS.get(type(loss)) or _LOOKS.get(loss)
    except TypeError:  # what has no hash is none of them
        return
    if look is None or not isinstance(output, pf.Tensor) or not isinstance(target, pf.Tensor):
        return
    wrong = look(output, target)
    if wrong is not None:
        name = name_of(loss) + ("" if key is None else f" of output {key!r}")
        outputs, targets = (f"{x.dtype.name} {list(x.shape)}" for x in (output, target))
        raise ValueError(f"{name}: got outputs {outputs} and targets {targets}; {wrong}")


def _classes(output: pf.Tensor, target: pf.Tensor, probabilities: bool = False) -> str | None:
    """Class numbers, one for each sample, or `probabilities` of the classes."""
    shape, seen = tuple(output.shape), tuple(target.shape)
    if not shape:
        return "expected outputs (N, C, *), a number for each class"
    c = 1 if len(shape) > 1 else 0
    want = shape[:c] + shape[c + 1 :]
    if shape[c] == 1 and c:
        return (
            "one output is one class, which is always right. For two classes give the net two "
            "outputs, or take BCEWithLogitsLoss and targets.float() of the outputs' shape; for "
            "quantities take MSELoss"
        )
    kind = f"class numbers, int64 {list(want)}"
    if probabilities:
        kind += f", or probabilities of the classes, floats {list(shape)}"
    if seen == want:
        if target.dtype in (pf.int64, pf.int32, pf.uint8):
            return None
        return f"expected {kind}; class numbers in another dtype become these by targets.long()"
    if seen == shape:
        if probabilities and target.is_floating_point():
            return None
        fix = "targets.argmax(1)" + (", or targets.float()" if probabilities else "")
        return f"expected {kind}; of one-hot targets take {fix}"
    if seen == (*want[:1], 1, *want[1:]):
        fix = "targets.squeeze(1)" + (".long()" if target.is_floating_point() else "")
        return f"expected {kind}; take {fix}"
    if len(shape) > 2 and seen == shape[:-1]:
        return f"expected {kind}: the classes lie in dim 1, so give outputs.movedim(-1, 1)"
    if seen[:1] != shape[:1] or len(seen) == len(shape):
        return f"expected {kind}"
    return f"expected {kind}; the net gives {shape[c]} classes for each sample"


def _as_many(target: pf.Tensor, output: pf.Tensor) -> str | None:
    """How targets take the shape of outputs, where only dims of 1 differ."""
    shape, seen = tuple(output.shape), tuple(target.shape)
    if shape == (*seen, 1):
        return "targets.unsqueeze(-1), or outputs.squeeze(-1)"
    if seen == (*shape, 1):
        return "targets.squeeze(-1)"
    if target.numel() == output.numel():
        return "targets.view_as(outputs)"
    return None


def _binary(output: pf.Tensor, target: pf.Tensor) -> str | None:
    """A float from 0 to 1 for each output."""
    shape, floats = tuple(output.shape), target.is_floating_point()
    kind = f"expected a float from 0 to 1 for each output, {list(shape)}"
    if tuple(target.shape) == shape:
        return None if floats else f"{kind}; take targets.float()"
    fix = _as_many(target, output)
    if fix is not None:
        more = "" if floats else " and then .float()"
        return f"{kind}; take {fix}{more}"
    if len(shape) > 1 and shape[1] > 1 and tuple(target.shape) == (*shape[:1], *shape[2:]):
        return (
            f"{kind}; class numbers go with CrossEntropyLoss, or become floats by "
            f"F.one_hot(targets, {shape[1]}).float()"
        )
    return kind


def _like(output: pf.Tensor, target: pf.Tensor) -> str | None:
    """A float for each output: what would broadcast to more of them is refused."""
    shape, seen = tuple(output.shape), tuple(target.shape)
    kind, floats = f"expected a float for each output, {list(shape)}", target.is_floating_point()
    if seen == shape:
        return None if floats or target.is_complex() else f"{kind}; take targets.float()"
    fix = _as_many(target, output)
    if fix is not None:
        n = target.numel()
        square = {shape, seen} == {(n,), (n, 1)}
        wide = f" (these would broadcast to {[n, n]})" if square else ""
        return f"{kind}{wide}; take {fix}"
    if len(shape) > 1 and seen == shape[:1] and not floats:
        return f"{kind}; class numbers go with CrossEntropyLoss"
    if len(seen) == len(shape) and all(m in (n, 1) for m, n in zip(seen, shape, strict=True)):
        return None  # the same target for several outputs: the loss itself warns of it
    return kind


def _divergence(output: pf.Tensor, target: pf.Tensor) -> str | None:
    """Probabilities of all classes."""
    floats = target.is_floating_point()
    kind = f"expected probabilities, floats {list(output.shape)}"
    if tuple(target.shape) == tuple(output.shape):
        return None if floats else f"{kind}; take targets.float()"
    if floats:
        return kind
    return f"{kind}; class numbers go with NLLLoss, which takes log-probabilities too"


_LOOKS: dict[Any, _Check] = {
    **dict.fromkeys(
        (nn.CrossEntropyLoss, F.cross_entropy), functools.partial(_classes, probabilities=True)
    ),
    **dict.fromkeys((nn.NLLLoss, nn.MultiMarginLoss, F.nll_loss, F.multi_margin_loss), _classes),
    **dict.fromkeys(
        (nn.BCELoss, nn.BCEWithLogitsLoss, nn.MultiLabelSoftMarginLoss, F.binary_cross_entropy,
         F.binary_cross_entropy_with_logits, F.multilabel_soft_margin_loss),
        _binary,
    ),
    **dict.fromkeys(
        (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss,
         F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss),
        _like,
    ),
    **dict.fromkeys((nn.KLDivLoss, F.kl_div), _divergence),
}  # fmt: skip
