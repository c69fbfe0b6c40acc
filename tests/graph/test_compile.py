"""pf.compile: what it replays is what the function does, whatever changes between the calls."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compared import alike
from steps import training_step

import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F
from pyframe.tools import cost
from pyframe.watch import Observer


def eager(fn: Any) -> Any:
    return fn


def captures(fn: Any) -> int:
    return sum(map(len, fn.replays.values()))


def same(a: Any, b: Any, what: str = "") -> None:
    alike(a, b, 2e-5, 2e-6, what)


def tensor(device: str, *shape: int, seed: int = 0) -> pf.Tensor:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return pf.from_numpy(np.asarray(data)).to(device)


# --- training


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # a bias of keys has no gradient but rounding, which Adam makes as large as any other
        self.qkv = nn.Linear(6, 18, bias=False)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).split(6, 2)
        weights = F.softmax(q @ k.mT / math.sqrt(6), dim=-1)
        return self.head(x + self.drop(weights) @ v).mean(1)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip


SHAPES = {mlp: (5, 6), cnn: (4, 1, 4, 4), Attention: (2, 4, 6)}


class Trainer:
    """A net that learns to tell three classes apart; all begin alike."""

    def __init__(
        self, device: str, wrap: Callable[[Any], Any], net: Any = mlp, kind: str = "SGD",
        **options: Any,
    ) -> None:  # fmt: skip
        pf.manual_seed(1)
        self.device, self.shape = device, SHAPES[net]
        self.net = net().to(device)
        self.opt = getattr(optim, kind)(self.net.parameters(), **{"lr": 0.05, **options})
        self.step = wrap(self.train)

    def train(self, x: Any, y: Any) -> Any:
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def batch(self, i: int, n: int | None = None) -> tuple[Any, Any]:
        rng = np.random.default_rng(i)
        x = rng.standard_normal((n or self.shape[0], *self.shape[1:])).astype(np.float32)
        y = rng.integers(0, 3, len(x))
        return pf.from_numpy(x).to(self.device), pf.from_numpy(y).to(self.device)

    def run(self, steps: int = 4) -> list[Any]:
        """The losses of some steps."""
        return [self.step(*self.batch(i)).numpy(force=True) for i in range(steps)]

    def state(self) -> dict[str, Any]:
        out = dict(self.net.state_dict())
        for i, some in self.opt.state_dict()["state"].items():
            out.update({f"{i}.{k}": v for k, v in some.items()})
        return {k: v.numpy(force=True) if pf.is_tensor(v) else v for k, v in out.items()}


@pytest.mark.parametrize("net", [cnn, Attention])
def test_a_step_learns_what_it_learns_eagerly(device: str, net: Any) -> None:
    found = []
    for wrap in (eager, pf.compile):
        t = Trainer(device, wrap, net, "Adam")
        found.append((t.run(), t.state()))
    same(found[1], found[0])
    assert captures(t.step) <= 2  # the first call makes gradients and moments


def test_it_is_bit_equal_from_run_to_run(device: str) -> None:
    runs = []
    for _ in range(2):
        t = Trainer(device, pf.compile, Attention, "Adam")
        runs.append([*t.run(), *t.state().values()])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


# --- writes


def test_numpy_arrays_that_share_memory_see_the_writes() -> None:
    given, outside = np.zeros(3, np.float32), np.zeros((2, 3), np.float32)
    x, w = pf.from_numpy(given), pf.from_numpy(outside)

    @pf.compile
    def f(x: Any) -> None:
        x.add_(1)
        w[1] += x
        w.T[2].sub_(1)

    for i in range(1, 4):
        f(x)
        assert (given == i).all()
        assert w.numpy(force=True).ctypes.data == outside.ctypes.data
        assert outside[0].tolist() == [0, 0, -i]
    outside += 10  # and the other way round
    f(x)
    assert w[0].tolist() == [10, 10, 6]


# --- when it cannot be replayed


class _OopsError(Exception):
    pass


@pytest.mark.parametrize("where", ["forward", "backward", "step"])
def test_an_exception_in_a_capture(device: str, where: str) -> None:
    def run(wrap: Any) -> list[Any]:
        t = Trainer(device, eager, mlp, "Adam")
        fail = [True]

        def step(x: Any, y: Any) -> Any:
            def raise_at(here: str) -> None:
                if here == where and fail[0]:
                    raise _OopsError

            t.opt.zero_grad()
            loss = F.cross_entropy(t.net(x), y)
            raise_at("forward")
            loss.backward()
            raise_at("backward")
            t.opt.step()
            raise_at("step")
            return loss.detach()

        fn = wrap(step)
        with pytest.raises(_OopsError):
            fn(*t.batch(0))
        seen = list(t.state().values())
        seen += [p.grad.numpy(force=True) for p in t.net.parameters() if p.grad is not None]
        fail[0] = False
        seen += [fn(*t.batch(i)).numpy(force=True) for i in range(1, 4)]
        return [*seen, *t.state().values()]

    same(run(pf.compile), run(eager))


def test_an_index_out_of_range_in_a_replay(device: str) -> None:
    def make() -> tuple[Any, Any, Any]:
        pf.manual_seed(0)
        table = nn.Embedding(4, 2).to(device)
        opt = optim.SGD(table.parameters(), lr=0.1)
        step = training_step(opt, lambda i: table(i).square().sum())
        return table, step, pf.compile(step)

    good = [pf.tensor([k, 3], device=device) for k in range(3)]
    bad = pf.tensor([1, 4], device=device)
    table, _, run = make()
    for i in good:
        run(i)
    before = table.weight.numpy(force=True).copy()
    with pytest.raises(IndexError):
        run(bad).item()
    if device == "cpu":
        np.testing.assert_array_equal(table.weight.numpy(force=True), before)
        same_table, step, _ = make()
        for i in [*good, *good]:
            step(i)
        for i in good:
            run(i).item()
        same(table.weight, same_table.weight)
    assert math.isfinite(run(good[0]).item())


def test_an_int_divided_by_zero_in_a_replay(device: str) -> None:
    f, x = pf.compile(lambda a, b: a // b), pf.tensor([4, 6], device=device)
    for _ in range(2):
        assert f(x, pf.tensor([2, 3], device=device)).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="integer division by zero"):
            f(x, pf.tensor([1, 0], device=device)).tolist()
    assert (f.captured, f.eager) == (1, "")


def test_constants_of_c_code_are_fixed(torch: Any) -> None:
    """A dtype of PyTorch's has no state that could change; which one it is is looked at."""
    kinds = {"kind": torch.float32}
    f = pf.compile(lambda x: x * 2 if kinds["kind"] is torch.float32 else x)
    x = pf.ones(2)
    assert [f(x).tolist() for _ in range(3)] == [[2, 2]] * 3
    assert (f.captured, f.replayed) == (1, 2)
    kinds["kind"] = torch.float16
    assert f(x).tolist() == [1, 1]


# what is written, at an int or at what a tensor says
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a row": lambda c, i, r: operator.setitem(c, (slice(None), i), r[:, 0]),
    "of the last dim": lambda c, i, r: operator.setitem(c, (..., i), r[..., 0]),
    "from behind": lambda c, i, r: operator.setitem(c, (0, -1 - i), r[0, 0]),
    "two": lambda c, i, r: operator.setitem(c, (i % 2, None, i), r[:1, 0]),
    "between": lambda c, i, r: operator.setitem(c, (1, i, slice(1, 3)), 2.5),
    "a view": lambda c, i, r: operator.setitem(c[1:].transpose(1, 2), (0, slice(None), i), r[1, 0]),
    "by a tensor too": lambda c, i, r: operator.setitem(c, (pf.arange(2).to(c.device), i), r[:, 0]),
    "a tensor": lambda c, i, r: operator.setitem(c, (slice(None), i), r[None, :, 0]),
    "two tensors": lambda c, i, r: operator.setitem(c, (i * 0 - 1, i), r[0, 0]),
    "a number at a tensor": lambda c, i, r: operator.setitem(c, (0, i), 2),
    "index_copy_ of a tensor": lambda c, i, r: c.index_copy_(1, i, r),
}


WHOLE = ("two", "between", "a view", "two tensors")  # what a kernel of the CPU writes all of


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRITES)
def test_a_place_that_moves(device: str, name: str) -> None:
    """What is written at an int that is another in each call, or where a tensor says, is written in
    place by one replay; a kernel more checks a tensor."""
    stats = pf.device(device).executor.stats if device == "gpu" else None
    found, told = [], name.endswith(("a tensor", "two tensors"))
    for compiled in (False, True):
        cache = pf.zeros(2, 12, 12, device=device)
        step = functools.partial(WRITES[name], cache)
        if compiled:
            step = pf.compile(lambda i, r, cache=cache: WRITES[name](cache, i, r))
        pf.manual_seed(0)
        places: list[Any] = [0, 1, 2, 3, 5, 4, 9, 11, 7]
        if told:
            places = [pf.tensor(i, device=device) for i in places]
        made = [pf.randn(2, 1, 12, device=device) for _ in places]
        pf.flush()
        for k, (i, rows) in enumerate(zip(places, made, strict=True)):
            if k == 6 and stats is not None:
                stats.reset()
                stats.reset_peaks()
            step(i, rows)
        pf.flush()
        found.append(cache.tolist())
    assert found[0] == found[1]
    if name != "by a tensor too":
        assert (step.captured, step.replayed) == ((1, 8) if told else (3, 6))
        (*_, program) = step.programs
        if stats is None:
            most = max(n for _, written in cost.traffic(program) for n in written.values())
            assert name in WHOLE or most <= rows.nbytes
        else:
            assert (stats.pipelines, stats.dispatches) == (0, 3 * (1 + told))
            assert stats.peak_live - stats.bytes_live < max(cache.nbytes * told, 1)  # no copy
    with pytest.raises(IndexError, match="12"):  # noqa: PT012  on a GPU when a value is read
        step(pf.tensor(12, device=device) if told else 12, rows)
        cache.tolist()


def test_an_argument_that_is_written_over(device: str) -> None:
    """In its own memory, as eagerly; not where others hold its value or two arguments share it."""

    def add(x: Any, y: Any) -> Any:
        x += y
        return x[7] * 1

    f = pf.compile(add)
    x, y = pf.zeros(70_000, device=device), pf.ones(70_000, device=device)
    for k in range(4):
        assert f(x, y).item() == k + 1
    copy, seen = x.clone(), x.detach()
    x.copy_(y)  # they hold one value
    assert f(x, pf.ones(70_000, device=device)).item() == 2
    assert (seen.sum().item(), y.sum().item()) == (140_000, 70_000)
    assert copy.sum().item() == 280_000
    assert f(x, x).item() == 4
    assert f(x[::2], y[1::2]).item() == 5
    assert x.sum().item() == 35_000 * 9
    program = f.programs[0]
    assert "input" in {program.slots[s].kind for s in program.outputs}


def test_a_cache_of_its_whole_length_stays_compiled(device: str) -> None:
    """As the warning about one that grows says."""

    def grown(cache: pf.Tensor, new: pf.Tensor) -> pf.Tensor:
        return pf.cat([cache, new], 1)

    cache = pf.zeros(1, 1, 2, device=device)
    grow = pf.compile(grown, dynamic=False)

    def calls(cache: pf.Tensor) -> pf.Tensor:
        for n in range(40):
            cache = grow(cache, pf.full((1, 1, 2), float(n), device=device))
        return cache

    with pytest.warns(RuntimeWarning, match=r"grows by cat .* cache.index_copy_\(1, position, new"):
        cache = calls(cache)
    whole = pf.zeros(1, 40, 2, device=device)

    @pf.compile
    def write(position: pf.Tensor, new: pf.Tensor) -> pf.Tensor:
        whole.index_copy_(1, position, new)
        known = pf.arange(40, device=device) <= position
        return (whole * known[:, None]).sum()

    for n in range(40):
        new = pf.full((1, 1, 2), float(n), device=device)
        assert write(pf.tensor([n], device=device), new).item() == n * (n + 1)
    assert whole.equal(cache[:, 1:])
    assert (write.captured, write.replayed) == (1, 39)


def test_an_argument_that_always_changes_ends_in_eager_runs(device: str) -> None:
    f = pf.compile(lambda x, name: x * len(name))
    x = pf.ones(2, device=device)

    def calls() -> None:
        for n in range(40):
            assert f(x, "a" * n).tolist() == [n, n]

    with pytest.warns(RuntimeWarning, match="none could be replayed"):
        calls()
    assert f.eager
    calls()  # no second warning


def test_an_unhashable_argument_runs_eagerly(device: str) -> None:
    f = pf.compile(lambda x, a: x + float(a.sum()))
    x = pf.ones(2, device=device)
    with pytest.warns(RuntimeWarning, match="ndarray"):
        assert f(x, np.ones(2)).tolist() == [3, 3]
    assert f(x, np.ones(3)).tolist() == [4, 4]


# --- what is compiled


def test_what_was_recorded_before_sees_the_old_value(device: str) -> None:
    """A replay writes over its state, also where no argument tells of its device."""
    w = pf.ones(3).to(device)

    @pf.compile
    def double() -> None:
        w.mul_(2)

    double()
    for n in (2, 4):
        before = w + 1  # on a GPU: only recorded when the replay comes
        double()
        assert before.tolist() == [n + 1] * 3
        assert w.tolist() == [2 * n] * 3
    w.add_(1)
    double()
    assert w.tolist() == [18] * 3
    assert len(double.programs) == 1


def test_an_interrupt_after_a_captured_run(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    total = pf.zeros(3, device=device)

    @pf.compile
    def step(x: Any) -> Any:
        total.add_(x)
        total.mul_(2)
        return x * 2

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    x = pf.ones(3, device=device)
    with monkeypatch.context() as patch:
        patch.setattr(Observer, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(x)
    assert total.tolist() == [2, 2, 2]
    total.copy_(x)
    assert step(x).tolist() == [2, 2, 2]
    assert total.tolist() == [4, 4, 4]
