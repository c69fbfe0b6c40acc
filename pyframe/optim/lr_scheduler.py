"""Learning rates that change as training goes on, as torch.optim.lr_scheduler.

A scheduler computes with Python's numbers on the host and writes `param_groups[i]["lr"]`, a
dynamic input of a compiled step: it never causes a capture. Where the lr is a tensor, that tensor
is filled.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsFloat

from pyframe.optim.optimizer import Optimizer
from pyframe.tensor import Tensor

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

Rate = float | Tensor
Schedule = Callable[[int], float]


def _own(value: Any) -> Any:
    """`value`, or a copy where it is a tensor, which would change with the group's."""
    return value.clone() if isinstance(value, Tensor) else value


def _values(optimizer: Optimizer, key: str) -> list[Any]:
    return [_own(group[key]) for group in optimizer.param_groups]


def _put(group: dict[str, Any], value: Any) -> None:
    """Set a group's lr; a tensor stays the tensor that it is."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group["lr"] = value


class LRScheduler:
    """Base of all schedulers: `get_lr` says what each group's lr becomes, `step` sets it.

    A subclass may also have `_get_closed_form_lr`, which gives it for `last_epoch` at once.
    `step()` is called after the optimizer's, once an epoch or a batch; below t counts its calls,
    and lr_0 is the "initial_lr" of a group, the lr that it had at first.

    Args:
        optimizer: whose groups' rates are set.
        last_epoch: the t to go on after; -1 begins anew. The groups must have their "initial_lr"
            then.

    Raises:
        TypeError: `optimizer` is none.
        KeyError: it goes on, and a group has no "initial_lr".

    >>> scheduler = optim.lr_scheduler.ExponentialLR(optim.SGD([pf.zeros(1)], lr=0.1), gamma=0.9)
    >>> isinstance(scheduler, optim.lr_scheduler.LRScheduler), scheduler.get_last_lr()
    (True, [0.1])
    """

    _is_initial = False
    _get_lr_called_within_step = False
    _held = ""  # the field with functions or schedulers: they stay, what is in them is saved

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self._take(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in "
                    f"param_groups[{i}] when resuming with last_epoch={last_epoch}; load the "
                    "optimizer's state_dict first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Rate] = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _take(self, optimizer: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(self).__name__}: {type(optimizer).__name__} is not an Optimizer; expected "
                "one of pyframe.optim"
            )
        self.optimizer = optimizer

    def _each(self, name: str, value: Any) -> list[Any]:
        """An option for each group. ValueError for a list of another length."""
        count = len(self.optimizer.param_groups)
        values = value if isinstance(value, (list, tuple)) else [value] * count
        if len(values) != count:
            raise ValueError(
                f"{type(self).__name__}: {name} must have the same length as "
                f"optimizer.param_groups: got {len(values)} values for {count} groups"
            )
        return [_own(v) for v in values]

    def _check_strategy(self, given: str) -> None:
        if given not in ("cos", "linear"):
            raise ValueError(
                f"{type(self).__name__}: anneal_strategy must be one of 'cos' or 'linear', got "
                f"{given!r}"
            )

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Rate]:
        """What the lr of each group becomes at `last_epoch`; see `get_last_lr` for what it is."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                f"{type(self).__name__}: get_lr() computes the next learning rate; to get the last "
                "one, please use `get_last_lr()`",
                UserWarning,
                stacklevel=2,
            )
        return self._rates(self.last_epoch)

    def _rates(self, t: int) -> list[Rate]:
        """What `get_lr` gives at epoch `t`."""
        raise NotImplementedError(f"{type(self).__name__} is missing the required get_lr")

    def get_last_lr(self) -> list[Rate]:
        """The lr of each group that this scheduler set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the next lr; call it after the optimizer's step. An `epoch` is deprecated."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                f"{type(self).__name__}: detected call of `lr_scheduler.step()` before "
                "`optimizer.step()`, which skips the first value of the schedule; call "
                "`optimizer.step()` first",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._deprecate(epoch)
        self._update_lr(epoch)

    def _deprecate(self, epoch: Any) -> None:
        if epoch is not None:
            warnings.warn(
                f"{type(self).__name__}: the epoch parameter in `scheduler.step()` is deprecated, "
                f"got {epoch}; call `scheduler.step()` once an epoch",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        with self._within_step():
            self._set_lr(self.get_lr() if epoch is None or closed is None else closed())

    def _set_lr(self, lrs: Sequence[Rate]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            _put(group, lr)
        self._last_lr = _values(self.optimizer, "lr")

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def state_dict(self) -> dict[str, Any]:
        """All fields but the optimizer, by name; of schedulers in them their own state_dicts, of
        callable objects their fields, and None of functions."""
        fields = {key: value for key, value in self.__dict__.items() if key != "optimizer"}
        return {k: _saved(v) if k == self._held else v for k, v in fields.items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, here or in PyTorch; functions stay."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != self._held})
        if self._held:
            _load(getattr(self, self._held), state_dict[self._held])


class _LRScheduler(LRScheduler):
    """The base's former name."""


def _saved(held: Any) -> Any:
    """What is saved of schedulers, of a user's functions, or of lists of them."""
    if isinstance(held, (list, tuple)):
        return [_saved(one) for one in held]
    if hasattr(held, "get_last_lr"):
        return held.state_dict()
    return None if isinstance(held, (types.FunctionType, type(None))) else held.__dict__.copy()


def _load(held: Any, state: Any) -> None:
    """Give schedulers and functions what `_saved` gave of them."""
    if isinstance(held, (list, tuple)):
        for one, its in zip(held, state, strict=False):
            _load(one, its)
    elif hasattr(held, "get_last_lr"):
        held.load_state_dict(state)
    elif state is not None:
        held.__dict__.update(state)


class _Lambdas(LRScheduler):
    """With a function for each group, or one for all; functions proper are not saved."""

    _held = "lr_lambdas"

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Schedule | Sequence[Schedule], last_epoch: int = -1
    ) -> None:
        self._take(optimizer)
        self.lr_lambdas: list[Schedule] = self._each("lr_lambda", lr_lambda)
        for fn in self.lr_lambdas:
            if not callable(fn):
                raise TypeError(
                    f"{type(self).__name__}: lr_lambda should be a function of the epoch, but got "
                    f"{type(fn).__name__}"
                )
        super().__init__(optimizer, last_epoch)


class LambdaLR(_Lambdas):
    """lr_t = lr_0 * lr_lambda(t).

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t))
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.5 0.333 0.25 0.2
    """

    def _rates(self, t: int) -> list[Rate]:
        return [base * fn(t) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_Lambdas):
    """lr_t = lr_{t-1} * lr_lambda(t), from t = 1 on.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.MultiplicativeLR(optimizer, lambda t: 0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.5 0.25 0.125 0.062
    """

    def _rates(self, t: int) -> list[Rate]:
        lrs = _values(self.optimizer, "lr")
        if self._is_initial:
            return lrs
        return [lr * fn(t) for fn, lr in zip(self.lr_lambdas, lrs, strict=True)]


class _Factor(LRScheduler):
    """lr_t = lr_{t-1} * `_factor(t)`, in closed form lr_0 * `_product(t)`."""

    def _factor(self, t: int) -> float:
        raise NotImplementedError

    def _product(self, t: int) -> float:
        raise NotImplementedError

    def _rates(self, t: int) -> list[Rate]:
        factor = self._factor(t)
        return [lr * factor for lr in _values(self.optimizer, "lr")]

    def _get_closed_form_lr(self) -> list[Rate]:
        product = self._product(self.last_epoch)
        return [base * product for base in self.base_lrs]


class StepLR(_Factor):
    """lr_t = lr_0 * gamma^⌊t / step_size⌋: the lr falls once in `step_size` steps.

    Args:
        step_size: after how many steps the lr falls.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for epoch in range(5):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    1.0 0.5 0.5 0.25 0.25
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        return 1.0 if t == 0 or t % self.step_size else self.gamma

    def _product(self, t: int) -> float:
        return self.gamma ** (t // self.step_size)


class MultiStepLR(_Factor):
    """lr_t = lr_0 * gamma^(how many milestones are <= t): the lr falls at each of them.

    Args:
        milestones: the values of t; one that stands there twice counts twice.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], gamma=0.5)
    >>> for epoch in range(5):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    1.0 0.5 0.5 0.25 0.25
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        return self.gamma ** self.milestones[t]

    def _product(self, t: int) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), t)


def _part(owner: LRScheduler, name: str, value: float, above: bool = False) -> float:
    """A factor from 0 (or above it) to 1, or ValueError."""
    if value > 1.0 or value < 0 or (above and value == 0):
        expected = "greater than 0 and less or equal to 1" if above else "between 0 and 1"
        raise ValueError(f"{type(owner).__name__}: {name} expected to be {expected}, got {value}")
    return value


class ConstantLR(_Factor):
    """lr_t = lr_0 * factor while t < total_iters, then lr_0.

    Args:
        factor: from 0 to 1.

    Raises:
        ValueError: `factor` is out of range.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.5 1.0 1.0 1.0
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.factor, self.total_iters = _part(self, "factor", factor), total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        if t == 0:
            return self.factor
        return 1.0 / self.factor if t == self.total_iters else 1.0

    def _product(self, t: int) -> float:
        return self.factor if t < self.total_iters else 1.0


class LinearLR(_Factor):
    """lr_t = lr_0 * f_t, where f goes from start_factor to end_factor in total_iters steps, by as
    much each, and stays there. It warms up.

    Args:
        start_factor: from above 0 to 1.
        end_factor: from 0 to 1.

    Raises:
        ValueError: a factor is out of range.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.75 1.0 1.0 1.0
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.start_factor = _part(self, "start_factor", start_factor, above=True)
        self.end_factor, self.total_iters = _part(self, "end_factor", end_factor), total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        if t == 0:
            return self.start_factor
        if self._is_initial or t > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (t - 1) * rise)

    def _product(self, t: int) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, t) / self.total_iters


class ExponentialLR(_Factor):
    """lr_t = lr_0 * gamma^t: the lr falls by the same factor in each step.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.5 0.25 0.125 0.062
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _product(self, t: int) -> float:
        return self.gamma**t


class PolynomialLR(_Factor):
    """lr_t = lr_0 * (1 - min(t, total_iters) / total_iters)^power: down to 0 in total_iters steps.

    Args:
        power: 1 for a line.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> for epoch in range(5):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.75 0.5 0.25 0.0 0.0
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self, t: int) -> float:
        if self._is_initial or t > self.total_iters:
            return 1.0
        n = self.total_iters
        return ((1.0 - t / n) / (1.0 - (t - 1) / n)) ** self.power

    def _product(self, t: int) -> float:
        return (1.0 - min(self.total_iters, t) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """lr_t = eta_min + (lr_0 - eta_min) * (1 + cos(π t / T_max)) / 2: half a wave down in T_max
    steps (arXiv 1608.03983), and up again after them.

    It is computed from the last lr, so that schedulers can be chained.

    Args:
        T_max: the number of steps from lr_0 to eta_min.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.854 0.5 0.146 0.0
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _rates(self, t: int) -> list[Rate]:
        n, low, lrs = self.T_max, self.eta_min, _values(self.optimizer, "lr")
        if self._is_initial:
            return lrs
        if self._step_count == 1 and t > 0:
            return self._get_closed_form_lr()
        if (t - 1 - n) % (2 * n) == 0:  # the last one was eta_min: no ratio leads away from it
            rise = (1 - math.cos(math.pi / n)) / 2
            return [lr + (base - low) * rise for base, lr in zip(self.base_lrs, lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * t / n)) / (1 + math.cos(math.pi * (t - 1) / n))
        return [ratio * (lr - low) + low for lr in lrs]

    def _get_closed_form_lr(self) -> list[Rate]:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after T_0 epochs, then after T_mult times as many, and so
    on (SGDR, arXiv 1608.03983): lr_t = eta_min + (lr_0 - eta_min) * (1 + cos(π T_cur / T_i)) / 2.

    Args:
        T_0: the number of steps until the first start again, above 0.
        T_mult: by which factor each time is longer than the one before, at least 1.

    Attributes:
        T_cur: how many steps have passed since it started; `step(epoch)` takes a fraction of an
            epoch too.
        T_i: after how many it starts again.

    Raises:
        ValueError: `T_0` or `T_mult` is out of range, or an epoch is negative.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.5 1.0 0.5 1.0
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for name, value, low in (("T_0", T_0, "> 0"), ("T_mult", T_mult, ">= 1")):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"{type(self).__name__}: expected an int {name} {low}, got {value}"
                )
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"{type(self).__name__}: expected float or int eta_min, got {eta_min} of type "
                f"{type(eta_min).__name__}"
            )
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _rates(self, t: int) -> list[Rate]:
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the next lr, or that of an epoch, which need not be whole."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"{type(self).__name__}: expected non-negative epoch, got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:  # after n restarts T_0 (T_mult^n - 1) / (T_mult - 1) epochs have passed
            ratio = self.T_mult
            n = int(math.log(epoch / self.T_0 * (ratio - 1) + 1, ratio))
            self.T_cur = epoch - self.T_0 * (ratio**n - 1) / (ratio - 1)
            self.T_i = self.T_0 * ratio**n
        self.last_epoch = math.floor(epoch)
        with self._within_step():
            self._set_lr(self.get_lr())


class _Cycle(LRScheduler):
    """With bounds for each group, and momentum (or Adam's beta1) going against the lr."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base: Any, top: Any, fresh: bool) -> tuple[list[Any], list[Any]]:
        """Whether the optimizer has a momentum (else ValueError), and its bounds by group."""
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                f"{type(self).__name__}: optimizer must support momentum or beta1 with the "
                f"`cycle_momentum` option enabled, and {type(self.optimizer).__name__} does not; "
                "give cycle_momentum=False"
            )
        self.use_beta1 = "betas" in defaults
        bases, tops = self._each("base_momentum", base), self._each("max_momentum", top)
        if fresh:
            for low, high, group in zip(bases, tops, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return bases, tops

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycle):
    """lr goes up from base_lr to max_lr in step_size_up steps and down again, and so on
    (arXiv 1506.01186). It counts batches. `get_lr` sets the momentum.

    The height of a cycle is scaled by 1 ("triangular"), 1 / 2^(cycle - 1) ("triangular2"), gamma^t
    ("exp_range"), or `scale_fn`.

    Args:
        base_lr, max_lr: the lowest and the highest lr, numbers, or lists with one for each group.
        step_size_up, step_size_down: the steps of each half of a cycle; None is as many down as up.
        mode: one of the names above.
        gamma: the base of "exp_range".
        scale_fn: a function that gives the scale, instead of `mode`.
        scale_mode: what it is given: "cycle", which counts from 1, or "iterations", t.
        base_momentum, max_momentum: its bounds, as those of the lr.

    Raises:
        ValueError: `mode` is unknown, a list isn't as long as the groups are many, or the optimizer
            has no momentum.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=0.1, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, step_size_up=3)
    >>> for epoch in range(7):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.4 0.7 1.0 0.7 0.4 0.1 0.4
    """

    _held = "_scale_fn_custom"

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self._take(optimizer)
        base_lrs = self._each("base_lr", base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                _put(group, lr)
        self.max_lrs = self._each("max_lr", max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"CyclicLR: mode {mode!r} is invalid and scale_fn is None; expected 'triangular', "
                "'triangular2' or 'exp_range'"
            )
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(
                base_momentum, max_momentum, last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The scale of the height at a cycle (from 1) or a step (from 0).

        Args:
            x: the number of a cycle or of a step, as `scale_mode` says.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def _rates(self, t: int) -> list[Rate]:
        cycle = math.floor(1 + t / self.total_size)
        x = 1.0 + t / self.total_size - cycle  # how much of the cycle is done
        up = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        up *= self.scale_fn(cycle if self.scale_mode == "cycle" else t)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                self._set_momentum(group, high - (high - low) * up)
        return [
            low + (high - low) * up for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]


class OneCycleLR(_Cycle):
    """lr goes from max_lr / div_factor up to max_lr, and then far below where it began, in
    total_steps (arXiv 1708.07120). It counts batches. `get_lr` sets the momentum.

    Args:
        max_lr: the highest lr, or a list with one for each group.
        total_steps: the number of steps, or None for epochs * steps_per_epoch.
        pct_start: the share of the steps in which the lr goes up, a float from 0 to 1.
        anneal_strategy: 'cos' or 'linear', the form of the way up and down.
        base_momentum, max_momentum: its bounds, numbers, or lists with one for each group.
        div_factor: max_lr divided by the lr at the beginning.
        final_div_factor: the lr at the beginning divided by that at the end.
        three_phase: whether the way down is as long as that up, and a third phase leads to the end,
            as in the paper.
        epochs, steps_per_epoch: both together in place of `total_steps`.

    Raises:
        ValueError: an option is out of range, the optimizer has no momentum, or a step is beyond
            the last one.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=0.1, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.95 0.611 0.188 0.0
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self._take(optimizer)
        if total_steps is not None:
            self.total_steps = _count("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _count("epochs", epochs) * _count("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError(
                "OneCycleLR: you must define either total_steps or both epochs and "
                f"steps_per_epoch, got epochs={epochs} and steps_per_epoch={steps_per_epoch}"
            )
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"OneCycleLR: expected a float pct_start from 0 to 1, got {pct_start}")
        self._check_strategy(anneal_strategy)
        rise, end = float(pct_start * self.total_steps), self.total_steps - 1
        phases = [(rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            phases += [
                (2 * rise - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases.append((end, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [
            dict(zip(keys, phase, strict=True)) for phase in phases
        ]
        self._anneal_func_type = anneal_strategy
        max_lrs = self._each("max_lr", max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, pct: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)
        return (end - start) * pct + start

    def _rates(self, t: int) -> list[Rate]:
        if t > self.total_steps:
            raise ValueError(
                f"OneCycleLR: tried to step {t} times, and the specified number of total steps is "
                f"{self.total_steps}"
            )
        start: Any = 0.0
        for phase in self._schedule_phases:
            if t <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        pct = (t - start) / (phase["end_step"] - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            ends: Any = phase["start_momentum"], phase["end_momentum"]
            for g in groups:
                self._set_momentum(g, self._anneal(g[ends[0]], g[ends[1]], pct))
        return [self._anneal(g[phase["start_lr"]], g[phase["end_lr"]], pct) for g in groups]


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"OneCycleLR: expected positive integer {name}, got {value}")
    return value


class ReduceLROnPlateau(LRScheduler):
    """lr *= factor after `patience` epochs in which a metric got no better. `step(metric)` is
    called once an epoch.

    Args:
        mode: "min" where less is better, "max" where more is.
        factor: below 1.
        patience: how many epochs without progress are borne.
        threshold: by how much better than the best a metric has to be to count.
        threshold_mode: "rel" for that share of the best, "abs" for the number itself.
        cooldown: how many epochs are not counted after the lr fell.
        min_lr: below which the lr doesn't go, a number, or a list with one for each group.
        eps: changes by this or less are not made.

    Raises:
        ValueError: `factor` is not below 1, or a mode is unknown.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for epoch in range(5):
    ...     optimizer.step()
    ...     scheduler.step(1.0)
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    1.0 1.0 0.5 0.5 0.25
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor should be < 1.0, got {factor}")
        self.factor = factor
        self._take(optimizer)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = self._each("min_lr", min_lr)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = _values(optimizer, "lr")
        for name, value, known in (
            ("mode", mode, ("min", "max")), ("threshold mode", threshold_mode, ("rel", "abs")),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(
                    f"ReduceLROnPlateau: {name} {value} is unknown; expected one of {known}"
                )
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        """Forget the epochs so far."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted now."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at an epoch's metric, and reduce the lr if that is due.

        Args:
            metrics: the number, a float or a 0-d tensor.
        """
        current = float(metrics)
        self._deprecate(epoch)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = _values(self.optimizer, "lr")

    def _is_better(self, a: float, best: float) -> bool:
        down = self.mode == "min"
        slack = -self.threshold if down else self.threshold
        bound = best * (1.0 + slack) if self.threshold_mode == "rel" else best + slack
        return a < bound if down else a > bound

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # a group was added
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: the optimizer has {len(groups)} param groups now, and "
                    f"min_lrs are {len(self.min_lrs)}; set `min_lrs` to one for each"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                _put(group, new)


class _Several(LRScheduler):
    """Steps others, all of one optimizer."""

    _schedulers: Sequence[LRScheduler]
    _held = "_schedulers"

    def _join(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        """Take over the schedulers. ValueError/TypeError for those that can't be stepped so."""
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got none")
        for i, s in enumerate(schedulers):
            own = getattr(s, "optimizer", None)
            if own is None:
                raise TypeError(
                    f"{name}: expected a scheduler at index {i}, got {type(s).__name__}"
                )
            if isinstance(s, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support ReduceLROnPlateau, whose step() needs a metric, but "
                    f"got one at index {i}; step it by itself"
                )
            optimizer = own if optimizer is None else optimizer
            if own is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but that at "
                    f"index {i}, {type(s).__name__}, has another one"
                )
        assert optimizer is not None
        self._schedulers, self.optimizer = schedulers, optimizer


class SequentialLR(_Several):
    """One scheduler after the other: the next one begins, with its t = 0, at each of the
    milestones.

    Args:
        schedulers: of this optimizer, one more than there are milestones.
        milestones: rising values of t.

    Raises:
        ValueError: there are too few or too many of them, one is of another optimizer, or a
            ReduceLROnPlateau.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> warmup = optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    >>> down = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> scheduler = optim.lr_scheduler.SequentialLR(optimizer, [warmup, down], [2])
    >>> for epoch in range(5):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.75 1.0 0.5 0.25 0.125
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: list[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self._join(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR: expected one scheduler more than milestones, got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _put(group, group["initial_lr"])
        self._take_back(self)  # what they did when they were made, but for the first to run
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _take_back(self, scheduler: Any) -> None:
        if hasattr(scheduler, "_schedulers"):
            for s in scheduler._schedulers:
                self._take_back(s)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Step the scheduler whose turn it is."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """All schedulers at each step, one after the other, so that their factors multiply.

    Args:
        schedulers: of one optimizer.
        optimizer: theirs; None takes it from the first.

    Raises:
        ValueError: they are of several optimizers, or one is a ReduceLROnPlateau.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> warmup = optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    >>> down = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> scheduler = optim.lr_scheduler.ChainedScheduler([warmup, down])
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.375 0.25 0.125 0.062
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._join(schedulers, optimizer)
        self._last_lr = _values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step each of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")
