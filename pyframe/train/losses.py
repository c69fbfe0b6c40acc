"""What a loss is divided by, of which all means over several batches are made.

A loss of a batch is a sum divided by its divisor: the number of samples or of elements, the tokens
that count, or the sum of their classes' weights. The one of several batches is the sum of their
sums, divided by the sum of their divisors; so are its gradients. Epochs, groups of batches, several
processes and weights of samples go by this alone.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.core import module_of
from pyframe.train import check, data

# A number or a tensor (); None of a loss that is a sum, which nothing divides.
Divisor = pf.Tensor | float | None

_MODULES: dict[Any, Callable[..., nn.Module]] = {
    F.binary_cross_entropy: nn.BCELoss,
    F.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
    F.cross_entropy: nn.CrossEntropyLoss,
    F.huber_loss: nn.HuberLoss,
    F.kl_div: nn.KLDivLoss,
    F.l1_loss: nn.L1Loss,
    F.mse_loss: nn.MSELoss,
    F.multi_margin_loss: nn.MultiMarginLoss,
    F.nll_loss: nn.NLLLoss,
    F.smooth_l1_loss: nn.SmoothL1Loss,
}


def telling(loss: Any) -> Any:
    """The module that tells the divisor of a loss; None where none does, as of a loss of pyframe's
    with a `forward` that is a user's own."""
    if isinstance(loss, nn.Module):
        owner = next(cls for cls in type(loss).__mro__ if "forward" in vars(cls))
        own = module_of(owner).startswith("pyframe.") and "forward" not in vars(loss)
        return loss if own and hasattr(loss, "divisor") else None
    whole = isinstance(loss, functools.partial) and not loss.args
    fn, options = (loss.func, loss.keywords) if whole else (loss, {})
    try:
        return _MODULES[fn](**options)
    except (KeyError, TypeError):  # another function, one without a hash, or other options
        return None


def divided(
    loss: Any, output: Any, target: Any, weights: pf.Tensor | None = None,
    classes: pf.Tensor | None = None,
) -> tuple[pf.Tensor, Divisor, float]:  # fmt: skip
    """A loss, its divisor, and a plain number of about that size. The loss is 0 where the divisor
    is, as of a batch that has nothing to learn.

    `weights` (N,) are factors of the samples, `classes` (C,) of what has a class. They leave the
    divisor as it is, so that factors of 1 change nothing."""
    teller = telling(loss)
    by: Any = math.nan  # not known
    if teller is not None and isinstance(output, pf.Tensor) and isinstance(target, pf.Tensor):
        by = teller.divisor(output, target)
    plain = not isinstance(by, pf.Tensor) or teller.reduction == "none"
    if weights is None and classes is None and plain:
        try:
            found = loss(output, target)
        except TypeError as error:
            check.of_one_tensor(error, output, target)
            raise
        n = rows(output, target)
        if isinstance(found, tuple):
            total, by = found
            return _quotient(total, by, n)
        by = n if by != by else by
        return found, by, 1 if by is None else by
    if teller is loss:
        each = type(loss).forward(_Unreduced(loss), output, target)
    else:
        each = _unreduced(loss)(output, target)
    each, by = each if isinstance(each, tuple) else (each, by)
    if classes is not None:
        each = each * check.of_classes(loss, each, classes, output, target)
    if weights is not None:
        check.per_sample(loss, each, weights)
        each = each * weights.reshape(-1, *[1] * (each.ndim - 1))
    if by is not None and not isinstance(by, pf.Tensor) and by != by:
        by = None if _is_sum(loss) else each.numel()
    total = each.float().sum() if each.dtype.itemsize < 4 else each.sum()
    return _quotient(total, by, each.numel())


class _Unreduced:
    """What the `forward` of a loss of pyframe's sees as `self`, so as to give each number: a copy
    of the module would have a capture look at all that there is in it."""

    reduction = "none"

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loss, name)


def _quotient(total: pf.Tensor, by: Divisor, size: float) -> tuple[pf.Tensor, Divisor, float]:
    if by is None:
        return total, None, 1
    if isinstance(by, pf.Tensor):
        return total / by.where(by != 0, 1), by.detach().float(), size
    return total / by if by else total * 0, by, by or 1


def rows(output: Any, target: Any) -> int:
    """How many samples there are, by what divides a loss that does not tell it."""
    for x in (*data.tensors(target), *data.tensors(output)):
        if x.ndim:
            return x.shape[0]
    return 1


def _is_sum(loss: Any) -> bool:
    options = loss.keywords if isinstance(loss, functools.partial) else {}
    return "sum" in (getattr(loss, "reduction", None), options.get("reduction"))


def _unreduced(loss: Any) -> Any:
    """A loss that gives a number for each sample or element."""
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        twin = copy.copy(loss)
        twin.reduction = "none"
        return twin
    check.reduces(loss)
    return functools.partial(loss, reduction="none")
