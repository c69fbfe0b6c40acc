"""Attacks by disturbing: threads, interrupts, faults, kills, lost devices."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from jobs import JOBS, STEPS, Thread, Trap, Work, alone, flat, must, same, whole

import pyframe as pf
from pyframe.io import load, save

TIMED = True  # whether to come at moments of time too, which no seed fixes
KINDS = 3  # of each job: other numbers

# --- threads


def threads(rng: random.Random, device: str) -> None:
    """Several jobs at once give what each gives alone."""
    jobs = [(rng.choice(JOBS), rng.randrange(KINDS)) for _ in range(rng.randint(4, 8))]
    want = [alone(job, device, seed) for job, seed in jobs]
    start = threading.Barrier(len(jobs))

    def work(job: str, seed: int) -> list[float]:
        made = Work(device, seed)
        start.wait()
        return getattr(made, job)()  # type: ignore[no-any-return]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(rng.choice([1e-6, 1e-5, 1e-4, interval]))
    try:
        running = [Thread(functools.partial(work, *job)) for job in jobs]
        for thread, numbers, job in zip(running, want, jobs, strict=True):
            same(thread.result(), numbers, f"{job} beside {jobs}")
    finally:
        sys.setswitchinterval(interval)


# --- interrupts


@functools.cache
def seconds(job: str, device: str) -> float:
    """How long a job takes."""
    work = Work(device, 0)
    getattr(work, job)()
    start = time.perf_counter()
    getattr(work, job)()
    return time.perf_counter() - start


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it Ctrl+C raises, which ends it; what `__del__` swallows is not printed."""
    armed = True

    def interrupt(*_: Any) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with contextlib.suppress(KeyboardInterrupt):
            try:
                yield
            finally:
                armed = False
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, before)


def by_signal(work: Callable[[], Any], after: float) -> Any:
    """Ctrl+C."""
    with interruptible():
        timer = threading.Timer(after, _thread.interrupt_main)
        timer.start()
        try:
            return work()
        finally:
            timer.cancel()
            timer.join()
    return None


def into_thread(work: Callable[[], Any], after: float) -> Any:
    """What notebooks do to a thread."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    thread = Thread(work)
    thread.join(after)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
    try:
        return thread.result()
    except KeyboardInterrupt:
        return None
    finally:
        sys.unraisablehook = hook


def names(frame: FrameType) -> Iterator[str]:
    """Of all functions that run."""
    return (f.f_code.co_name for f, _ in traceback.walk_stack(frame))


def by_call(work: Callable[[], Any], n: int) -> Any:
    """As a signal that comes when the n-th Python function is entered, the same one each time.

    Those that enter or leave a `with` are passed by: Python itself has no way to guard these."""
    left, passed = n, {"__enter__", "__exit__", "__del__"}

    def look(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal left
        left -= 1
        if left <= 0 and passed.isdisjoint(names(frame)):
            raise KeyboardInterrupt

    with interruptible():
        sys.settrace(look)
        try:
            return work()
        finally:
            sys.settrace(None)
    return None


def interrupts(rng: random.Random, device: str) -> None:
    """After an interrupt the same work, and all other, goes as if there had been none."""
    job, seed = rng.choice(JOBS), rng.randrange(KINDS)
    want, work = alone(job, device, seed), Work(device, seed)
    if rng.random() < 0.5:
        getattr(work, job)()  # its steps are replayed then
    do = getattr(work, job)
    way = rng.choice([by_signal, into_thread, by_call] if TIMED else [by_call])
    moment = rng.randint(1, 8000) if way is by_call else rng.random() * seconds(job, device)
    got = way(do, moment)  # type: ignore[operator]
    what = f"{job}, interrupted {way.__name__} at {moment:.4g}"
    with contextlib.suppress(IndexError):  # a bad index that was not read yet is told of now
        (pf.ones(2, device=device) + 1).tolist()
    if got is not None:
        same(got, want, f"{what}: it was not kept from going on")
    try:
        whole(device)
        same(do(), want, f"{what}: done again")
    except Exception as error:
        error.add_note(what)
        raise


# --- faults


class FaultError(Exception):
    """What user code raises."""


def faults(rng: random.Random, device: str) -> None:
    """An error in user code comes out as it is; what is done afterwards is as if it had been done
    eagerly."""
    job, where = rng.choice([
        ("fit", "forward"), ("fit", "backward"), ("fit", "loss"), ("fit", "item"),
        ("fit", "callback"), ("fit", "metric"), ("steps", "forward"), ("steps", "backward"),
        ("steps", "loss"),
    ])  # fmt: skip
    kind = rng.choice([FaultError, ValueError, KeyboardInterrupt, StopIteration, MemoryError])
    fault = kind("a fault")
    n, seed = rng.randint(1, STEPS), rng.randrange(KINDS)

    def fail() -> None:
        raise fault

    what = f"{kind.__name__} in {where} {n} of {job}"
    if job == "fit":
        work = Work(device, seed)
        work.set(Trap(where, n, fail))
        try:
            work.fit()
        except BaseException as error:
            told = error.__cause__ if kind is StopIteration else error  # no coroutine raises that
            must(told is fault, f"{what}: came out as {error!r}")
        else:
            assert work.trap.left > 0, f"{what}: was swallowed"
        work.set(None)
        same(work.fit(), alone("fit", device, seed), f"{what}: fit again")
    else:
        same(*[stumble(Work(device, seed), wrap, Trap(where, n, fail), fault, what)
               for wrap in (pf.compile, lambda f: f)], f"{what}: compiled and eager")  # fmt: skip
    whole(device)


def stumble(work: Work, wrap: Any, trap: Trap, fault: BaseException, what: str) -> list[float]:
    """The steps with one fault in them: losses, and the state after each."""
    work.restart()
    work.set(trap)
    step, got = wrap(work.train), []
    for k in range(STEPS):
        try:
            got.append(float(step(*work.batch(k))))
        except BaseException as error:
            must(error is fault, f"{what}: came out as {error!r}")
            got.append(-1.0)
        got += flat(work.net.state_dict().values())
    assert trap.left <= 0, f"{what}: {wrap} never came by"
    return got


# --- kills

SAVES = """
import sys, itertools, pyframe as pf
for n in itertools.count(1):
    pf.io.save({f"part{i}": pf.full((size, 50), float(n)) for i, size in enumerate(SIZES)}, PATH)
    print(n, flush=True)
"""


def kills(rng: random.Random, device: str) -> None:
    """A process that saves is killed: one whole file is there, and the next save leaves no more."""
    sizes = [rng.choice([1, 7, 1000, 20000]) for _ in range(rng.randint(1, 3))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        code = SAVES.replace("SIZES", repr(sizes)).replace("PATH", repr(str(path)))
        env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
        assert child.stdout is not None
        told = int(child.stdout.readline())
        time.sleep(rng.random() * 0.1)
        child.kill()
        told = int((child.stdout.read().split() or [told])[-1])
        child.wait()
        child.stdout.close()
        found = {float(v) for t in load(path).values() for v in t.unique().tolist()}
        assert found in ({float(told)}, {told + 1.0}), f"{told} was saved, {found} is there"
        save({"x": pf.ones(2)}, path)
        assert load(path)["x"].tolist() == [1, 1]
        names = [p.name for p in Path(folder).iterdir()]
        assert names == [path.name], f"beside the file: {names}"


# --- lost devices


def lose() -> None:
    """What a driver does that gives up on its GPU; wgpu cannot stand it within a submit."""
    d = pf.device("gpu")
    with d.executor.lock:
        d.backend._device.destroy()


FITS = ("fit", "options")  # jobs that go on with another GPU


def lost(rng: random.Random, device: str) -> None:
    """`fit` goes on and gives what it gives undisturbed; all else says that the GPU is lost, once,
    and works when it starts over."""
    job, seed = rng.choice([*FITS, "steps", "eager", "predict", "indices"]), rng.randrange(KINDS)
    want, work = alone(job, device, seed), Work(device, seed)
    do, got, timer = getattr(work, job), None, None
    if job in FITS:  # what it moves to the GPU itself it has a copy of from the start
        work.model.to("cpu")
    if rng.random() < 0.5 or not TIMED:
        where, n = rng.choice(["item", "callback"]), rng.randint(1, 12)
        what = f"{job}, lost at {where} {n}"
        work.set(Trap(where, n, lose))
    else:
        after = rng.random() * seconds(job, device)
        what = f"{job}, lost after {after:.3f} s"
        timer = threading.Timer(after, lose)
        timer.start()
    try:
        got = do()
    except pf.DeviceLostError as error:
        must(job not in FITS, f"{what}: fit did not go on: {error}")
    finally:
        if timer is not None:
            timer.join()
    work.set(None)
    with contextlib.suppress(pf.DeviceLostError):
        if timer is not None:
            (pf.ones(2, device=device) + 1).tolist()  # it may have come too late to be told of
    if got is not None:
        same(got, want, what)
    same(do(), want, f"{what}: done again")
    whole(device)
