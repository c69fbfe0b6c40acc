"""Names that a code object can read, and hooks that see the frames of user code start."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from pyframe.core.packages import IMPURE, LIBRARY, USER
from pyframe.watch.origin import FILES, impure_call, is_for_user, is_impure

# --- what a code object can read


class _Scan(NamedTuple):
    """The names that a code object reads and writes."""

    globals: dict[str, int]  # name: line
    stored: dict[str, int]
    cells: dict[str, int]  # free variables that it, or a function within it, reads
    names: frozenset[str]  # of attributes
    maybe: frozenset[str]  # of those, what may not be there
    catches: bool  # whether an attribute that is not there may be no error
    whole: bool  # whether it may read any attribute, by a name that is not in it
    imports: tuple[str, ...]
    random: int  # the line of the first mention of `random`, or 0


def nested(code: types.CodeType) -> list[types.CodeType]:
    """The code objects within one, which `scan` can't tell of: it has one answer for equal code."""
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


@functools.lru_cache(4096)
def scan(code: types.CodeType) -> _Scan:
    """Look at the instructions of a code object."""
    read: dict[str, int] = {}
    stored: dict[str, int] = {}
    cells: dict[str, int] = {}
    imports = []
    drawn, line = 0, code.co_firstlineno
    steps = list(dis.get_instructions(code))
    for i in steps:
        if i.positions is not None and i.positions.lineno:
            line = i.positions.lineno
        op, name = i.opname, i.argval
        drawn = drawn or (line if name == "random" else 0)
        if op in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            read.setdefault(name, line)
        elif op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            stored.setdefault(name, line)
        elif op in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            cells.setdefault(name, line)
        elif op == "IMPORT_NAME":
            imports.append(name)
    for c in nested(code):
        cells = scan(c).cells | cells
    ops, names = {i.opname for i in steps}, set(code.co_names)
    words: set[Any] = set()
    for c in code.co_consts if names & _ASKING or "MATCH_CLASS" in ops else ():
        words.update(c if type(c) is tuple else (c,))
    maybe = frozenset(w for w in words if isinstance(w, str) and w.isidentifier())
    whole = bool(names & _ALL) or any(_is_put_together(steps, k) for k in range(len(steps)))
    return _Scan(read, stored, cells, frozenset(names) | maybe, maybe,
                 "CHECK_EXC_MATCH" in ops or "suppress" in names, whole, tuple(imports),
                 drawn)  # fmt: skip


_ASKING = {"getattr", "hasattr", "attrgetter", "methodcaller"}  # what takes an attribute's name
_ALL = {"vars", "dir", "__dict__", "__getattribute__", "getmembers"}  # what reads all of them


def _is_put_together(steps: list[dis.Instruction], k: int) -> bool:
    """Whether `getattr` or `hasattr` is read there and called with a name that is no constant."""
    if steps[k].argval not in ("getattr", "hasattr") or not steps[k].opname.startswith("LOAD"):
        return False
    depth, constant = 0, False
    for i in steps[k + 1 :]:
        if depth >= 2 and i.opname in ("PRECALL", "CALL"):
            break
        depth += dis.stack_effect(i.opcode, i.arg, jump=False)
        if depth == 2:  # the name is complete, or its beginning
            constant = i.opname == "LOAD_CONST"
    return not constant


# --- seeing the frames


class Watcher(Protocol):
    """Who is shown what runs."""

    def enter(self, frame: types.FrameType) -> None:
        """A frame of a user's code starts."""

    def impure(self, name: str, frame: types.FrameType) -> None:
        """What is called there gives something else at each call."""


@contextlib.contextmanager
def observe_frames(o: Watcher) -> Iterator[None]:
    """Within it, what this thread runs is shown to `o`."""
    # what runs when garbage is collected is no code of the function's
    with gc_paused(), _monitored(o) if hasattr(sys, "monitoring") else _profiled(o):
        yield


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Within it garbage is not collected of itself."""
    global _paused
    collects, before = gc.isenabled(), _paused
    gc.disable()
    try:
        if collects:
            _paused = threading.get_ident()
        yield
    finally:
        _paused = before
        if collects:
            gc.enable()


_paused = 0  # the thread that has stopped the collection of garbage
_monitors: dict[int, tuple[int, Callable[[], None]]] = {}  # tool -> its thread, what ends it


def _after_fork() -> None:
    """In a forked process the thread that captures may not exist, to undo what it has begun."""
    if _paused not in (0, threading.get_ident()):
        gc.enable()
    for thread, end in list(_monitors.values()):
        if thread != threading.get_ident():
            end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _library(o: Watcher, frame: types.FrameType) -> None:
    """A library's code starts that may not be for replays."""
    if is_impure(frame.f_code) and is_for_user(frame.f_back):
        o.impure(getattr(frame.f_code, "co_qualname", frame.f_code.co_name), frame)


def _called(o: Watcher, fn: Any, frame: types.FrameType) -> None:
    """A function in C is called by a user's code."""
    name = impure_call(fn)
    if name:
        o.impure(name, frame)


@contextlib.contextmanager
def _monitored(o: Watcher) -> Iterator[None]:
    """By sys.monitoring, from Python 3.12 on."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
    tool = next((t for t in (4, 3, 1) if monitoring.get_tool(t) is None), None)
    if tool is None:
        with _profiled(o):
            yield
        return
    me, events = threading.get_ident(), monitoring.events
    codes: dict[int, types.CodeType] = {}

    def started(code: types.CodeType, _: int) -> Any:
        whose = FILES[code.co_filename]
        if whose == LIBRARY:
            return monitoring.DISABLE
        if threading.get_ident() == me:
            frame = sys._getframe(1)
            if whose == IMPURE:
                _library(o, frame)
            else:
                o.enter(frame)
                if id(code) not in codes:
                    codes[id(code)] = code
                    monitoring.set_local_events(tool, code, events.CALL)
        return None

    def called(code: types.CodeType, _: int, fn: Any, first: Any) -> Any:
        if threading.get_ident() != me:
            return
        if type(fn) is types.MethodDescriptorType and isinstance(first, fn.__objclass__):
            fn = fn.__get__(first, type(first))  # it was looked up without making a method
        if type(fn) is types.BuiltinFunctionType:
            _called(o, fn, sys._getframe(1))

    def end() -> None:
        del _monitors[tool]
        monitoring.set_events(tool, 0)
        for code in codes.values():
            monitoring.set_local_events(tool, code, 0)
        monitoring.register_callback(tool, events.PY_START, None)
        monitoring.register_callback(tool, events.CALL, None)
        monitoring.free_tool_id(tool)

    monitoring.use_tool_id(tool, "pyframe")
    _monitors[tool] = me, end
    try:
        monitoring.register_callback(tool, events.PY_START, started)
        monitoring.register_callback(tool, events.CALL, called)
        monitoring.set_events(tool, events.PY_START)
        yield
    finally:
        end()


@contextlib.contextmanager
def _profiled(o: Watcher) -> Iterator[None]:
    """By sys.setprofile; a profiler that was on goes on."""
    before = sys.getprofile()
    chained = before if isinstance(before, (types.FunctionType, types.MethodType)) else None

    files = FILES  # this is called tens of thousands of times

    def profile(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "c_return" or event == "return":
            return
        whose = files[frame.f_code.co_filename]
        if whose == LIBRARY:
            return
        if event == "call":
            if whose == USER:
                o.enter(frame)
            else:
                _library(o, frame)
        elif event == "c_call" and whose == USER:
            _called(o, arg, frame)

    def both(frame: types.FrameType, event: str, arg: Any) -> None:
        profile(frame, event, arg)
        chained(frame, event, arg)  # type: ignore[misc]

    sys.setprofile(profile if chained is None else both)
    try:
        yield
    finally:
        sys.setprofile(None)
        enable = getattr(before, "enable", None)  # cProfile's is no function
        if enable is not None:
            enable()
        elif before is not None:
            sys.setprofile(before)
