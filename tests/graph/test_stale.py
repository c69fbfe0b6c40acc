"""pf.compile is never stale: each program gives what it gives without it, call by call."""

from __future__ import annotations

import contextlib
import gc
import operator
import os
import random
import re
import sys
import threading
import weakref
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import anywhere, plain, programs, run, same
from nn.layers import BASIC
from stale_patterns import PATTERNS
from stale_places import TABLE, again_and_again, check, in_turns, one_by_one
from together import Thread, together

import pyframe as pf
from pyframe import nn
from pyframe.core import packages
from pyframe.train.callbacks import Callback
from pyframe.watch import Observer, origin

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


class Config:
    """What a program reads outside."""

    t = 1.0


@pytest.mark.sampled(5)
@anywhere(PATTERNS)
def test_it_is_what_eager_execution_gives(device: str, name: str) -> None:
    run(PATTERNS[name], device)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TABLE)
def test_what_is_read_and_changes_then(device: str, name: str) -> None:
    """Each place, with some of the ways to read it, and all changes one after the other; with
    PYFRAME_STALE=1 each way with each change."""
    every = 11 if device == "cpu" else 34
    for k, row in enumerate(TABLE[name]):  # whose ways are alike: other ones of each
        some = list(in_turns(row, k))[4 * k % min(every, len(row.reads)) :: every]
        for read, changes in one_by_one(row) if os.environ.get("PYFRAME_STALE") else some:
            wrong = check(row, read, changes, device)
            assert not wrong, wrong
        for read, changes in again_and_again(row) if k % 3 == 0 else ():
            wrong = check(row, read, changes, device, most=0)
            assert not wrong, wrong


READS = """y * s.number | y + 1 if s.flag else y | y * 2 if s.number > 2 else y - s.number
y + len(s.name) | sum((y * v for v in s.items), y) | y + s.items[0] | y * number | y + s.tensor
y * s.table["k"] + s.table["deep"]["q"] | y + s.table.get("new", 0.25) | y * 0.9 ** s.count
y if s.child is None else y * s.child.number"""
WRITES = """pass | s.count += 1 | s.kept = y * 2 | s.tensor = s.tensor * 0.5 + y | s.flag = True
s.items.append(1.0) | s.table["out"] = y"""
CHANGES = """pass | s.number = {v} | s.count = int({v}) | s.flag = {v} > 0 | number = {v}
s.name = "a" * int(abs({v})) | s.items.append({v}) | s.items[0] = {v} | s.items = [{v}]
s.items.pop() if len(s.items) > 1 else None | s.table["k"] = {v} | s.table["deep"]["q"] = {v}
s.table["new"] = {v} | s.table = {{"k": {v}, "deep": {{"q": {v}}}}} | s.tensor = s.tensor * 0 + {v}
s.tensor.add_({v}) | s.child = state() | vars(s.child or s).update(number={v}) | s.child = None"""
SEEN = "f(x), s.count, s.flag, len(s.items), s.kept, s.tensor, s.table.get('out')"


def drawn(seed: int) -> str:
    """A row: a function that reads state and writes to it, with changes between its calls."""
    rng = random.Random(seed)
    reads, writes, changes = (re.split(r" \| |\n", some) for some in (READS, WRITES, CHANGES))
    lines = [
        "state = lambda: Plain(number=1.5, count=0, flag=False, name='a', items=[1.0, 2.0],",
        "    table={'k': 3.0, 'deep': {'q': 0.5}}, kept=None, tensor=x[0] * 0, child=None)",
        "s, number = state(), 2.0", "def f(x):", "    y = x[0]",
        *[f"    y = {rng.choice(reads)}" for _ in range(rng.randint(1, 4))],
        f"    {rng.choice(writes)}", "    return y.sum() * 0.1 + y",
    ]  # fmt: skip
    for _ in range(rng.randint(3, 9)):
        for _ in range(rng.randint(0, 2)):
            value = rng.choice([-1.0, 0.0, 1.0, 2.5, 3.0, 0.125])
            lines.append(rng.choice(changes).format(v=value))
        lines.append(f"yield {SEEN}")
    return "\n".join(lines)


@pytest.mark.parametrize("some", range(4))
def test_programs_by_chance(some: int) -> None:
    text = "\n".join(f"== seed {k} (any)\n{drawn(k)}" for k in range(30 * some, 30 * some + 30))
    for program in programs(__file__, text).values():
        try:
            run(program, "cpu")
        except AssertionError as e:
            raise AssertionError(program.source) from e


# --- each layer and optimizer: whichever field is changed, it is noticed


def changed(value: Any) -> Any:
    """Another value of the same kind; None if it can't be told."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 0.5 + 0.125
    if isinstance(value, tuple) and value and isinstance(value[0], (int, float)):
        return tuple(v * 0.5 if isinstance(v, float) else v + 1 for v in value)
    return value + 1 if isinstance(value, int) else None


def outcome(call: Any) -> Any:
    try:
        return plain(call())
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def test_each_field_of_each_layer(device: str) -> None:
    for row in BASIC[:: 1 if device == "cpu" else 6]:
        pf.manual_seed(0)
        name, net = row.text, row.layer(pf).to(device)
        ((x,), _) = row.given(pf)
        x = x.detach().to(device)
        f = pf.compile(lambda x, net=net: net(x))
        same(plain(net(x)), plain(f(x)), name)
        same(plain(net(x)), plain(f(x)), name)
        assert f.replayed, name
        fields = [k for k, v in vars(net).items() if k[0] != "_" and changed(v) is not None]
        for field in fields:
            old = getattr(net, field)
            setattr(net, field, changed(old))
            pf.manual_seed(1)
            want = outcome(lambda net=net, x=x: net(x.clone()))
            pf.manual_seed(1)
            same(want, outcome(lambda f=f, x=x: f(x.clone())), f"{name}.{field}")
            setattr(net, field, old)
        same(plain(net(x)), plain(f(x)), name)


OPTIMIZERS = [
    k for k, v in vars(pf.optim).items() if pf.optim.Optimizer in getattr(v, "__bases__", ())
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", sorted({*OPTIMIZERS, "AdamW"} - {"LBFGS"}))  # that reads values
def test_each_option_of_each_optimizer(device: str, kind: str) -> None:
    def run(wrap: Any, device: str) -> list[Any]:
        pf.manual_seed(0)
        net = nn.Linear(3, 2).to(device)
        params = [net.weight] if kind == "Muon" else net.parameters()
        opt = getattr(pf.optim, kind)(params, lr=0.05)
        x = pf.ones(2, 3, device=device)

        def step() -> Any:
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
            return net.weight.detach().clone()

        step, seen, group = wrap(step), [], opt.param_groups[0]
        for name in [None, *[k for k in group if k != "params"]]:
            old = group.get(name)
            if name is not None and changed(old) is not None:
                group[name] = changed(old)
            seen += [outcome(step), outcome(step)]
            if name is not None:  # maximize for long would make much of the least difference
                group[name] = old
        return seen

    for a, b in zip(run(lambda f: f, "cpu"), run(pf.compile, device), strict=True):
        same(a, b, kind)


# --- Model.fit, which compiles its step by itself


class Weighted(nn.Module):
    """A loss with a weight that users change."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = 1.0

    def forward(self, output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output, target) * self.weight


class Schedule(Callback):
    """Changes what the step reads while it trains."""

    def on_step(self, model: Any, step: int, logs: Any) -> None:
        model.loss.weight = 1.0 / step
        model.net[2].p = 0.5 / step


def layer(m: Any) -> Any:
    pf.manual_seed(5)
    return nn.Linear(4, 8).to(m.device)


FIT_CHANGES: list[Callable[[Any], Any]] = [
    lambda m: None,
    lambda m: setattr(m.loss, "weight", 0.25),
    lambda m: setattr(m.net[2], "p", 0.75),
    lambda m: setattr(m, "schedule", [Schedule()]),
    lambda m: setattr(m, "schedule", []),
    lambda m: m.optimizer.param_groups[0].update(lr=0.001),
    lambda m: m.optimizer.param_groups[0].update(weight_decay=0.5),
    lambda m: m.net[0].register_forward_hook(lambda module, args, out: out * 0.5),
    lambda m: m.net[0].requires_grad_(False),
    lambda m: m.metrics.update(size=lambda out, y: out.square().mean()),
    lambda m: operator.setitem(m.net, 0, layer(m)),
    lambda m: setattr(m, "optimizer", pf.optim.SGD(m.net.parameters(), lr=0.1)),
    lambda m: setattr(m, "net", nn.Sequential(*m.net, nn.Tanh())),
    lambda m: setattr(m, "loss", nn.CrossEntropyLoss()),
]


@pytest.mark.filterwarnings("ignore:fit. no optimizer holds")  # of the layer that was replaced
def test_fit(device: str) -> None:
    """After each change of what its steps read, with batches of which the last is small. On a GPU
    after some: the changes are Python's."""

    def run(compiled: bool) -> list[Any]:
        pf.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 3))
        x, y = pf.randn(20, 4), pf.arange(20) % 3
        adam = pf.optim.Adam(net.parameters(), lr=0.05)
        m: Any = pf.Model(net, Weighted(), adam, metrics=["accuracy"])
        m.schedule = []
        options: dict[str, Any] = {"batch_size": 8, "verbose": 0, "compile": compiled,
                                   "device": device, "shuffle": False, "read_every": 1}  # fmt: skip
        seen = []
        for change in FIT_CHANGES[: None if device == "cpu" else 2]:
            change(m)
            logs = m.fit((x, y), epochs=1, callbacks=m.schedule, **options).history
            logs |= m.evaluate((x, y), compile=compiled)
            seen += [np.asarray(logs[name]) for name in sorted(logs)]
            seen += [plain(p) for p in m.net.parameters()]
        return seen

    for k, (a, b) in enumerate(zip(run(False), run(True), strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4, err_msg=f"value {k}")


# --- what it costs, and what it says


def test_code_that_is_defined_again() -> None:
    """As in a notebook whose cell is run twice: the code is equal, but not the same."""
    text = "def f(x):\n    b = x.shape[0]\n    return sum((x * b for _ in range(b)))\n"
    for _ in range(3):
        space: dict[str, Any] = {}
        exec(text, space)
        f = pf.compile(space["f"])
        assert [f(pf.ones(2)).tolist() for _ in range(4)] == [[4, 4]] * 4
        assert (f.captured, f.replayed) == (1, 3)


def test_the_warning_names_the_line_the_value_and_the_way_out() -> None:
    seen: list[Any] = []
    f = pf.compile(lambda x: seen.append(x) or x)
    with pytest.warns(RuntimeWarning) as told:
        [f(pf.ones(2)) for _ in range(4)]
    text = str(told[0].message)
    assert len(told) == 1
    assert "`seen` (test_stale.py:" in text
    assert "from 0 entries to 1 entry" in text or "from 1 entry to 2 entries" in text
    assert "pass what changes as an argument or a tensor" in text
    assert told[0].filename == __file__


def test_explain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYFRAME_DEBUG", "guards")

    config = Config()
    f = pf.compile(lambda x: x * config.t)
    for t in (1.0, 1.0, 2.0, 2.0, 3.0, 4.0):
        config.t = t
        f(pf.ones(2))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert re.search(r"captured: `config.t` \(test_stale.py:\d+\) was 1.0 and is 2.0", told[1])
    text = f.explain()
    assert capsys.readouterr().out.strip() == text
    assert "3 captures, 3 replays" in text
    assert re.search(r"given to each replay: `config.t` \(test_stale.py:\d+\)", text)
    g = pf.compile(lambda x: x * x.sum().item())
    with pytest.warns(RuntimeWarning):
        g(pf.ones(2))
    assert "runs eagerly" in g.explain()


# --- what it keeps


def test_what_is_let_go_is_gone(device: str) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = pf.nn.Sequential(pf.nn.Linear(3, 3), pf.nn.Linear(3, 3)).to(device)
            self.opt = pf.optim.Adam(self.net.parameters())
            self.net.trainer = self  # a cycle
            self.t, self.cfg = 1.0, {"items": [pf.ones(2, device=device)]}

        def step(self, x: Any) -> Any:
            self.opt.zero_grad()
            loss = (self.net(x) * self.t + self.cfg["items"][0].sum()).square().mean()
            loss.backward()
            self.opt.step()
            self.last = loss.detach()
            return loss

    held = {"trainer": Trainer()}
    step = pf.compile(lambda x: held["trainer"].step(x))
    argued = pf.compile(lambda trainer, x: trainer.net(x))
    x = pf.ones(2, 3, device=device)
    for _ in range(3):
        step(x)
        argued(held["trainer"], x)
    assert step.replayed
    assert argued.replayed
    t = held["trainer"]
    refs = [weakref.ref(o) for o in (t, t.net, t.opt, t.net[0], t.net[0].weight, t.cfg["items"][0],
                                     t.net[0].weight._storage)]  # fmt: skip
    del t
    held["trainer"] = None
    gc.collect()
    assert [r() for r in refs] == [None] * len(refs)
    assert not step.programs, "the capture is gone with what it was of"
    held["trainer"] = Trainer()
    step(x), step(x)
    assert step.captured == 2


def test_a_dead_twin_of_what_ran_ends_no_replay() -> None:
    """Two functions share a code, and one of them is garbage that was not collected yet."""

    def make(k: float) -> Any:
        class Scale:  # a class is garbage in a cycle when it goes
            def __call__(self, x: Any) -> Any:
                return x * k

        return Scale()

    gc.collect()
    gc.disable()
    try:
        make(2.0)
        scale = make(3.0)
        step = pf.compile(lambda x: scale(x))
        x = pf.ones(2)
        step(x)
        gc.collect()
        assert step(x).tolist() == [3, 3]
    finally:
        gc.enable()
    assert (step.captured, step.replayed) == (1, 1)


def test_what_the_runtime_knows_of_packages_above_it_is_there() -> None:
    root = Path(pf.__file__).parent
    folders = [*packages.CODE, packages.OPTIMIZERS_CODE]
    folders += [name.replace(".", "/") for name in packages.OBJECTS]
    for name in folders:
        found = root / name, root / f"{name}.py", EXAMPLES  # which a wheel has in the package
        assert any(p.exists() for p in (found if "examples" in name else found[:2])), name
    for name in packages.NOT_OPTIMIZERS:
        assert (root / packages.OPTIMIZERS_CODE / name).exists()
    assert {pf.optim.Optimizer} == {*packages.OPTIMIZERS}
    assert {*packages.MEMBERS, *packages.HOOKS} <= vars(nn.Module()).keys()
    assert hasattr(nn.UninitializedParameter, packages.SHAPELESS)


def test_classes_are_as_before() -> None:
    class A:
        def __init__(self) -> None:
            self.t = 1.0

    o = A()
    before = dict(vars(A)), dict(vars(pf.nn.Module)), dict(vars(pf.Tensor))
    f = pf.compile(lambda x: x * o.t)
    f(pf.ones(2))

    def bad(x: Any) -> Any:
        return x * o.t / o.missing

    with pytest.raises(AttributeError):
        pf.compile(bad)(pf.ones(2))
    assert (dict(vars(A)), dict(vars(pf.nn.Module)), dict(vars(pf.Tensor))) == before


def test_a_profiler_goes_on() -> None:
    seen: list[str] = []

    def profiler(frame: Any, event: str, arg: Any) -> None:
        seen.append(frame.f_code.co_name)

    def marked(x: Any) -> Any:
        return x * 2

    f = pf.compile(lambda x: marked(x))
    sys.setprofile(profiler)
    try:
        f(pf.ones(2))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert "marked" in seen


# --- threads


def test_two_threads_and_a_number_that_changes(device: str) -> None:
    config, wrong = Config(), []

    def work(x: Any) -> Any:
        y = x * config.t
        return y, y / config.t  # one value throughout a call

    f = pf.compile(work)
    x = pf.ones(3, device=device)

    def run(seed: int) -> None:
        for i in range(40):
            config.t = float(seed * 100 + i + 1)
            _, z = f(x)
            if abs(z.sum().item() - 3) > 1e-4:
                wrong.append((seed, i, z.tolist()))

    together(run)
    config.t = 7.0
    assert f(x)[0].tolist() == [7.0] * 3
    assert len(wrong) <= f.captured, wrong  # a run that is captured may see two values


@pytest.mark.parametrize("when", ["enter", "finish"])
def test_what_another_thread_sets_while_a_call_is_captured(
    device: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is nothing that the function has put there, so that no replay puts it there again."""

    config = Config()
    original = getattr(Observer, when)

    def disturbed(*args: Any) -> Any:
        Thread(lambda: setattr(config, "t", 101.0)).result()
        return original(*args)

    f, x = pf.compile(lambda x: x * config.t), pf.ones(3, device=device)
    for i in range(4):  # until the number is dynamic
        config.t = i + 2.0
        f(x)
    f.replays.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Observer, when, disturbed)
        f(x)
    for t in (7.0, 8.0):
        config.t = t
        assert f(x).tolist() == [t] * 3
        assert config.t == t
    assert not f.eager


def test_another_thread_sees_its_own_values() -> None:
    """While one thread captures, the objects and the globals of another are as they are."""

    config, seen, stop = Config(), [], threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.append(type(config.t))

    other = Thread(watch)
    f = pf.compile(lambda x: x * config.t)
    for i in range(12):
        config.t = 1.0 + i
        f(pf.ones(2))
    stop.set()
    other.result()
    assert set(seen) == {float}


def test_what_dependencies_do_is_not_watched() -> None:
    """Nor what theirs do: a capture on a GPU ran a parser of C within it, all of whose tables each
    replay would have looked at."""
    left, seen = ["llvmlite", "numpy", "scipy", "threadpoolctl", "tqdm", "wgpu"], set()
    while left:
        name = left.pop()
        with contextlib.suppress(metadata.PackageNotFoundError):
            for required in metadata.requires(name) or ():
                if "extra ==" not in required:
                    left.append(re.split(r"[^\w-]", required)[0])
            seen.add(name.partition("-")[0])  # rubicon-objc is imported as rubicon
    assert {"cffi", "pycparser"} <= seen
    assert seen <= origin.DEPENDENCIES
    assert origin.FILES["/lib/site-packages/pycparser/c_lexer.py"] == packages.LIBRARY
