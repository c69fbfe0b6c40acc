"""Learning rate schedulers: their sequences beside PyTorch's, their state, what a step costs."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
from refused import calls, check_refused, rows

import pyframe as pf
from pyframe import nn, optim


class Halving:
    """A function of the epoch with a state."""

    def __init__(self) -> None:
        self.rate = 0.5

    def __call__(self, t: int) -> float:
        return self.rate**t


def several(s: Any, o: Any) -> list[Any]:
    return [s.LinearLR(o, 0.2, 0.9, 6), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 5, 0.01)]


# Calls that make schedulers for `o`, an optimizer with two groups; `s` has them all.
TABLE = """
s.LambdaLR(o, lambda t: 0.9**t) | s.LambdaLR(o, [lambda t: 1 / (t + 1), Halving()])
s.MultiplicativeLR(o, lambda t: 0.8 + t % 2 * 0.1)
s.MultiplicativeLR(o, (Halving(), lambda t: 0.99)) | s.StepLR(o, 4, gamma=0.5)
s.MultiStepLR(o, [3, 8, 8, 20]) | s.ConstantLR(o, 0.25, total_iters=7) | s.ConstantLR(o)
s.LinearLR(o, 0.1, 0.8, total_iters=12) | s.LinearLR(o) | s.ExponentialLR(o, 0.93)
s.PolynomialLR(o, 20, power=2.5) | s.PolynomialLR(o, 6) | s.CosineAnnealingLR(o, 7, eta_min=0.001)
s.CosineAnnealingWarmRestarts(o, 5, 2, eta_min=0.01) | s.CosineAnnealingWarmRestarts(o, 4)
s.CyclicLR(o, 0.01, [0.1, 0.5], 4, 6) | s.CyclicLR(o, [0.01, 0.02], 1.0, 3, mode="triangular2")
s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9, base_momentum=0.5, max_momentum=0.6)
s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / (5**x), cycle_momentum=False)
s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=Halving(), scale_mode="iterations")
s.OneCycleLR(o, [0.1, 1.0], total_steps=30)
s.OneCycleLR(o, 0.3, epochs=6, steps_per_epoch=5, anneal_strategy="linear", pct_start=0.4, \
    div_factor=9.0)
s.OneCycleLR(o, 0.3, 30, three_phase=True, base_momentum=[0.1, 0.2], final_div_factor=5)
s.OneCycleLR(o, 0.3, 30, cycle_momentum=False) | s.ChainedScheduler(several(s, o))
s.ChainedScheduler([s.StepLR(o, 3)], optimizer=o) | s.SequentialLR(o, several(s, o), [5, 14])
s.SequentialLR(o, [s.SequentialLR(o, several(s, o), [3, 6]), s.StepLR(o, 2)], milestones=[12])
s.SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.CosineAnnealingWarmRestarts(o, 4), \
    s.ExponentialLR(o, 0.5)], milestones=[3, 10])
s.SWALR(o, [0.5, 0.05], anneal_epochs=6) | s.SWALR(o, 0.5, 8, anneal_strategy="linear")
s.SWALR(o, 0.5, 0)
"""
CALLS = calls(TABLE)
CYCLES = [call for call in CALLS if call.startswith(("s.CyclicLR", "s.OneCycleLR"))]
ALL = [
    *((c, "SGD") for c in CALLS),
    ("s.PolynomialLR(o, 6)", "Adam"),
    *((c, "Adam") for c in CYCLES),
]


def make(call: str, s: Any, o: Any) -> Any:
    return eval(call, {"s": s, "o": o, "several": several, "Halving": Halving})


def test_every_scheduler_has_a_row() -> None:
    for name in {*vars(schedulers(pf))} - {"LRScheduler", "ReduceLROnPlateau"}:  # see PLATEAUS
        assert name[0] == "_" or f"s.{name}(" in TABLE, (
            f"no row in tests/optim/test_lr_scheduler.py for {name}: add one beside StepLR's"
        )


PLATEAUS: list[dict[str, Any]] = [
    {"patience": 1},
    {"mode": "max", "factor": 0.5, "patience": 0, "cooldown": 2},
    {"threshold_mode": "abs", "threshold": 0.2, "patience": 2, "min_lr": 0.005},
    {"mode": "max", "threshold_mode": "abs", "patience": 3, "min_lr": [0.01, 0.001], "eps": 0.01},
]
METRICS = [5.0, 4.0, 4.1, 3.9, 3.9, 3.95, 3.0, 3.0, 3.1, 3.2, 2.9, 2.9, 2.95, 2.8, 4.0] * 2


def schedulers(lib: Any) -> Any:
    """The module, with SWALR among the others."""
    module = lib.optim.lr_scheduler
    names = {name: getattr(module, name) for name in module.__all__}
    return type("module", (), {**names, "SWALR": lib.optim.swa_utils.SWALR})


def optimizer_of(lib: Any, name: str = "SGD", tensor: bool = False) -> Any:
    """Of two parameters, each in a group of its own."""
    a, b = (lib.ones(2).requires_grad_() for _ in range(2))
    lrs = [lib.tensor(0.1), lib.tensor(0.4)] if tensor else [0.1, 0.4]
    more = {"momentum": 0.9} if name == "SGD" else {}
    groups = [{"params": [a], "lr": lrs[0]}, {"params": [b], "lr": lrs[1]}]
    optimizer = getattr(lib.optim, name)(groups, **more)
    optimizer.step()
    return optimizer


def shown(optimizer: Any) -> list[Any]:
    """What schedulers change of the groups."""
    keys = "lr initial_lr momentum betas max_lr min_lr max_momentum base_momentum".split()
    return [float(v) for g in optimizer.param_groups for k in keys if k in g for v in flat(g[k])]


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def near(value: Any) -> Any:
    """A state_dict whose floats may differ in the last digits."""
    if isinstance(value, dict):
        return {k: near(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [near(v) for v in value]
    return pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value


def same(ours: Any, theirs: Any) -> None:
    assert shown(ours) == pytest.approx(shown(theirs), rel=1e-6, abs=1e-12)


def pair(torch: Any, key: str, name: str = "SGD", **how: Any) -> Any:
    out: list[Any] = []
    for lib in (pf, torch):
        optimizer = optimizer_of(lib, name, **how)
        with warnings.catch_warnings():  # PyTorch's warns where sequences are nested
            warnings.simplefilter("ignore" if lib is torch else "error")
            out += [optimizer, make(key, schedulers(lib), optimizer)]
        optimizer.step()
    return out


def together(made: Any, *epochs: Any) -> None:
    """A step of both for each of the epochs, of which None is the next."""
    a, ours, b, theirs = made
    for epoch in epochs:
        for scheduler in (ours, theirs):
            scheduler.step(*[epoch] * (epoch is not None))
        same(a, b)


@pytest.mark.parametrize(("key", "name"), ALL)
def test_steps_and_states(torch: Any, key: str, name: str) -> None:
    """Twenty steps; then new ones go on to the thirtieth, each with the state of the other's."""
    a, ours, b, theirs = pair(torch, key, name)
    same(a, b)
    for _ in range(20):
        together((a, ours, b, theirs), None)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9)
        assert ours.last_epoch == theirs.last_epoch if hasattr(theirs, "last_epoch") else True
    mine, its = (copy.deepcopy(x.state_dict()) for x in (ours, theirs))
    assert set(mine) == set(its)
    assert mine == near(its)
    c, again, d, their_again = pair(torch, key, name)
    again.load_state_dict(its)
    their_again.load_state_dict(mine)
    for old, new in zip([*a.param_groups, *b.param_groups], [*c.param_groups, *d.param_groups],
                        strict=True):  # fmt: skip
        new.update({k: v for k, v in old.items() if k != "params" and k in new})
    together((c, again, d, their_again), *[None] * 10)


@pytest.mark.parametrize("key", CALLS)
def test_a_rate_that_is_a_tensor_stays_it(torch: Any, key: str) -> None:
    a, ours, b, theirs = pair(torch, key, tensor=True)
    rates = [g["lr"] for g in a.param_groups]
    together((a, ours, b, theirs), *[None] * 12)
    kept = [g["lr"] is rate for g, rate in zip(a.param_groups, rates, strict=True)]
    assert kept == [isinstance(g["lr"], torch.Tensor) for g in b.param_groups]
    assert [type(x).__name__ for x in ours.get_last_lr()] == [
        type(x).__name__ for x in theirs.get_last_lr()
    ]


@pytest.mark.parametrize("kw", PLATEAUS)
@pytest.mark.parametrize("tensor", [False, True])
def test_plateaus(torch: Any, kw: dict[str, Any], tensor: bool) -> None:
    a, b = (optimizer_of(lib, tensor=tensor) for lib in (pf, torch))
    ours = optim.lr_scheduler.ReduceLROnPlateau(a, **kw)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **kw)
    for i, metric in enumerate(METRICS):
        ours.step(pf.tensor(metric) if i % 2 else metric)
        theirs.step(torch.tensor(metric) if i % 2 else metric)
        same(a, b)
        assert ours.num_bad_epochs == theirs.num_bad_epochs
        assert ours.in_cooldown == theirs.in_cooldown
        if i == 12 and not tensor:
            assert ours.state_dict() == near(theirs.state_dict())
            ours.load_state_dict(theirs.state_dict())
            theirs.load_state_dict(ours.state_dict())


EPOCHS = (
    "StepLR MultiStepLR ConstantLR LinearLR ExponentialLR PolynomialLR CosineAnnealingLR LambdaLR"
)
RESTARTS = [call for call in CALLS if call.startswith("s.CosineAnnealingWarm")]


@pytest.mark.parametrize("key", [
    *(next(c for c in CALLS if f"s.{name}(o" in c) for name in EPOCHS.split()), CYCLES[0], *RESTARTS
])  # fmt: skip
def test_epochs_may_be_given(torch: Any, key: str) -> None:
    a, ours, b, theirs = pair(torch, key)
    for epoch in (3, 9, 4, 4, 23, 8):
        with warnings.catch_warnings(record=True, action="always") as seen:
            ours.step(epoch)
        assert len(seen) == (key not in RESTARTS)
        with warnings.catch_warnings(action="ignore"):
            theirs.step(epoch)
        same(a, b)
    together((a, ours, b, theirs), None, *[i * 0.75 for i in range(40) if key in RESTARTS])


@pytest.mark.parametrize("key", [c for c in CALLS if "Chained" not in c and "Sequential" not in c])
def test_training_goes_on_after_an_epoch(torch: Any, key: str, monkeypatch: Any) -> None:
    """`last_epoch` with the groups' "initial_lr" from before."""
    out = []
    for lib in (pf, torch):
        optimizer = optimizer_of(lib)
        module = schedulers(lib)
        scheduler = make(key, module, optimizer)
        optimizer.step()
        for _ in range(7):
            scheduler.step()
        again = type(scheduler)

        def resumed(o: Any, *args: Any, again: Any = again, **kw: Any) -> Any:
            return again(o, *args, last_epoch=6, **kw)

        fields = {n: resumed for n in vars(module) if n[0] != "_"}
        fake = type("module", (), {k: staticmethod(v) for k, v in fields.items()})
        scheduler = make(key, fake, optimizer)
        for _ in range(5):
            scheduler.step()
        out.append(optimizer)
    same(*out)


# --- what is refused, with PyTorch's types

MISUSED = """
s.StepLR(nn.Linear(1, 1), 3) | s.CyclicLR(3, 0.1, 1.0) | s.OneCycleLR([], 0.1, 10)
s.ReduceLROnPlateau("SGD") | s.StepLR(o, 3, last_epoch=4) | s.LambdaLR(o, [lambda t: 1.0] * 3)
s.MultiplicativeLR(o, (lambda t: 1.0,)) | s.MultiplicativeLR(o, 0.1) | s.ConstantLR(o, 1.5)
s.ConstantLR(o, -0.1) | s.LinearLR(o, 0) | s.LinearLR(o, 1.1) | s.LinearLR(o, 0.1, -1)
s.CosineAnnealingWarmRestarts(o, 0) | s.CosineAnnealingWarmRestarts(o, 2.5)
s.CosineAnnealingWarmRestarts(o, 2, 0) | s.CosineAnnealingWarmRestarts(o, 2, eta_min="0")
s.CosineAnnealingWarmRestarts(o, 2).step(-1) | s.CyclicLR(o, [0.1] * 3, 1.0)
s.CyclicLR(o, 0.1, [1.0]) | s.CyclicLR(o, 0.1, 1.0, mode="square")
s.CyclicLR(o, 0.1, 1.0, base_momentum=[0.5]) | s.OneCycleLR(o, 0.1, epochs=3)
s.OneCycleLR(o, 0.1, total_steps=0) | s.OneCycleLR(o, 0.1, total_steps=1.5)
s.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=4)
s.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=4.0) | s.OneCycleLR(o, 0.1, 10, pct_start=1.5)
s.OneCycleLR(o, 0.1, 10, anneal_strategy="step") | s.OneCycleLR(o, [0.1] * 3, 10)
s.ReduceLROnPlateau(o, factor=1.0) | s.ReduceLROnPlateau(o, "least")
s.ReduceLROnPlateau(o, threshold_mode="x") | s.ReduceLROnPlateau(o, min_lr=[0.1])
s.SequentialLR(o, [], []) | s.SequentialLR(o, several(s, o), [1])
s.SequentialLR(o, [s.StepLR(o, 2), s.ReduceLROnPlateau(o)], [1])
s.SequentialLR(o, [s.StepLR(o, 2), 3], [1]) | s.ChainedScheduler([])
s.ChainedScheduler([s.ReduceLROnPlateau(o)])
s.ChainedScheduler([s.StepLR(o, 2), s.StepLR(copy.copy(o), 2)]) | s.LRScheduler(o)
s.SWALR(o, [0.1] * 3) | s.SWALR(o, 0.1, 3, "step") | s.SWALR(o, 0.1, -3)
"""  # `s` has the schedulers, `o` is an optimizer of two groups


WITH_TEXTS = """
s.CyclicLR(plain, 0.1, 1.0) -> cycle_momentum=False
s.OneCycleLR(plain, 1.0, 9) -> cycle_momentum=False
after(5, s.OneCycleLR(o, 0.1, total_steps=4)) -> total steps is 4
"""


@pytest.mark.parametrize(("call", "text"), [*rows(WITH_TEXTS), *((c, "") for c in calls(MISUSED))])
def test_misuse(torch: Any, call: str, text: str) -> None:
    def names(lib: Any) -> dict[str, Any]:
        class Plain(lib.optim.Optimizer):  # type: ignore[misc, name-defined]
            """Without a momentum to cycle."""

        def after(n: int, scheduler: Any) -> None:
            for _ in range(n):
                scheduler.step()

        plain = Plain([lib.ones(1).requires_grad_()], {"lr": 0.1})
        schedulers(lib).CyclicLR(plain, 0.1, 1.0, cycle_momentum=False)
        return {"s": schedulers(lib), "o": optimizer_of(lib), "several": several, "nn": nn,
                "copy": copy, "plain": plain, "after": after}  # fmt: skip

    check_refused(call, text, names, torch)


def test_the_order_is_warned_of() -> None:
    p = pf.ones(2).requires_grad_()
    for stepped in (False, True):
        optimizer = optim.SGD([p], lr=0.1)
        scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
        if stepped:
            optimizer.step()
            scheduler.step()
        else:
            with pytest.warns(UserWarning, match=r"before\s+`optimizer.step\(\)`"):
                scheduler.step()
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()
