"""What users' steps read and change outside: each pattern makes a function with `c` (pf.compile, or
nothing), calls it with changes in between, and yields what it sees. It needs no PyTorch."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import importlib.machinery
import itertools
import math
import operator
import os
import re
import sys
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn, optim
from pyframe.nn import functional as F

REPLAYS, EAGER = "replays", "runs eagerly"
PATTERNS: dict[str, tuple[Callable[..., Iterator[Any]], str]] = {}


def pattern(fn: Any, how: str = REPLAYS) -> Any:
    """List a pattern; at its end the function still replays, without a warning."""
    PATTERNS[fn.__name__] = fn, how
    return fn


def eager(fn: Any) -> Any:
    """List a pattern that no replay can be right for: a warning says so, once."""
    return pattern(fn, EAGER)


def turns(f: Any, *args: Any, change: Any, at: Any = (2, 4), n: int = 7) -> Iterator[Any]:
    """`n` calls with a change before some of them."""
    for i in range(n):
        if i in at:
            change(i)
        yield f(*args)


def config_module(name: str = "user_config", **names: Any) -> Any:
    """A module of the user's, as `import` would find it."""
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


# --- globals

SCALE, OFFSET, FLAG, MODE, NOTHING, BIG = 1.0, 2, False, "add", None, 10**30
LAYERS = [1.0, 2.0]
TABLE = {"a": 1.0, "b": {"c": 2.0}}
TENSOR: Any = None
NET: Any = None
CALLS = 0
LATEST: Any = None
CONFIG: Any = None


def helper(x: Any) -> Any:
    return x * SCALE


@pattern
def a_global_number(c: Any, x: Any) -> Any:
    def change(i: int) -> None:
        global SCALE
        SCALE = 1.0 + i

    change(0)
    yield from turns(c(lambda x: x * SCALE), x, change=change)
    change(0)


@pattern
def a_global_that_a_helper_reads(c: Any, x: Any) -> Any:
    def change(i: int) -> None:
        global SCALE
        SCALE = 1.0 + i

    change(0)
    yield from turns(c(lambda x: helper(x) + 1), x, change=change)
    change(0)


@pattern
def a_global_int_flag_string_and_none(c: Any, x: Any) -> Any:
    global OFFSET, FLAG, MODE, NOTHING

    def f(x: Any) -> Any:
        out = x + OFFSET
        if FLAG:
            out = out * 2
        if MODE == "mul":
            out = out * 3
        return out if NOTHING is None else out - NOTHING

    f = c(f)
    for OFFSET, FLAG, MODE, NOTHING in (  # noqa: B007
        (2, False, "add", None), (2, False, "add", None), (3, False, "add", None),
        (3, True, "add", None), (3, True, "mul", None), (3, True, "mul", 1.5),
        (2, False, "add", None), (2, False, "add", None),
    ):  # fmt: skip
        yield f(x)


@pattern
def a_global_tensor_that_is_rebound(c: Any, x: Any) -> Any:
    global TENSOR
    TENSOR = x * 0 + 2
    f = c(lambda x: x * TENSOR)
    for i in range(8):
        TENSOR = x * 0 + i
        yield f(x)


@pattern
def a_global_net_that_is_rebound(c: Any, x: Any) -> Any:
    global NET
    pf.manual_seed(0)
    nets = [nn.Linear(3, 2).to(x.device) for _ in range(2)]
    f = c(lambda x: NET(x))
    for i in (0, 0, 1, 1, 0, 1):
        NET = nets[i]
        yield f(x)
    NET = None


@pattern
def a_counter_that_the_function_advances(c: Any, x: Any) -> Any:
    global CALLS
    CALLS = 0

    def f(x: Any) -> Any:
        global CALLS
        CALLS += 1
        return x * CALLS

    f = c(f)
    for _ in range(6):
        yield f(x), CALLS


@pattern
def a_global_that_is_only_written(c: Any, x: Any) -> Any:
    global LATEST

    def f(x: Any) -> Any:
        global LATEST
        LATEST = x * 2
        return x + 1

    f = c(f)
    for i in range(4):
        LATEST = None
        yield f(x + i), LATEST


@pattern
def a_function_that_is_replaced(c: Any, x: Any) -> Any:
    global helper
    old = helper
    f = c(lambda x: helper(x) + 1)
    yield from (f(x), f(x))
    helper = lambda x: x - 5  # noqa: E731
    yield from (f(x), f(x))
    helper = old
    yield f(x)


@pattern
def a_module_that_is_imported_inside(c: Any, x: Any) -> Any:
    config = config_module("user_config2", scale=2.0)

    def f(x: Any) -> Any:
        import user_config2

        return x * user_config2.scale

    yield from turns(c(f), x, change=lambda i: setattr(config, "scale", float(i)))


@pattern
def a_name_from_a_module_that_is_imported_inside(c: Any, x: Any) -> Any:
    config = config_module("user_config3", scale=2.0)

    def f(x: Any) -> Any:
        from user_config3 import scale

        return x * scale

    yield from turns(c(f), x, change=lambda i: setattr(config, "scale", float(i)))


# --- closures, defaults, partial functions


@pattern
def a_closure_tensor(c: Any, x: Any) -> Any:
    w = x + 1
    f = c(lambda x: x * w)
    for i in range(7):
        if i % 2:
            w = x + i
        yield f(x)


@pattern
def a_closure_of_a_closure(c: Any, x: Any) -> Any:
    def outer() -> Any:
        k = [1.0]

        def inner(y: Any) -> Any:
            return y * k[0]

        return inner, k

    inner, k = outer()
    yield from turns(c(lambda x: inner(x) + 1), x, change=lambda i: operator.setitem(k, 0, i))


@pattern
def functions_of_one_code(c: Any, x: Any) -> Any:
    def make(k: list[float]) -> Any:
        return lambda x: x * k[0]

    ks = [[1.0], [2.0]]
    o = Plain(a=make(ks[0]), b=make(ks[1]))
    f = c(lambda x: o.a(x) + o.b(x))
    yield from turns(f, x, change=lambda i: operator.setitem(ks[1], 0, float(i)))
    yield from turns(f, x, change=lambda i: operator.setitem(ks[0], 0, float(i)))


@pattern
def attributes_set_behind_the_class(c: Any, x: Any) -> Any:
    o = Plain(a=0.0, b=0.0)

    def f(x: Any) -> Any:
        object.__setattr__(o, "a", 1.0)
        vars(o)["b"] = 2.0
        return x * 2

    f = c(f)
    for i in range(6):
        if i > 2:
            o.a = o.b = float(i)
        yield f(x), o.a, o.b


@pattern
def a_number_as_a_key(c: Any, x: Any) -> Any:
    o, table = Plain(k=0), {i: pf.ones(3, device=x.device) * i for i in range(-2, 3)}
    f = c(lambda x: x * table[o.k])
    for k in (0, 1, 2, -1, -2, 0, 1, 2, -1, -2):
        o.k = k
        yield f(x)


@pattern
def a_rare_number_among_the_arguments(c: Any, x: Any) -> Any:
    f = c(lambda x, t: x * math.exp(-t))
    for i in range(24):
        yield f(x, float(i // 3))


@pattern
def a_parameter_that_is_replaced_by_its_double(c: Any, x: Any) -> Any:
    pf.manual_seed(0)
    net = nn.Linear(3, 3).to(x.device)
    f = c(lambda x: net.weight.sum() + x)
    yield from (f(x), f(x))
    net.weight = nn.Parameter(net.weight * 2)
    yield from (f(x), f(x))


@pattern
def a_counter_in_a_cell(c: Any, x: Any) -> Any:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 2
        return x + n

    f = c(f)
    for _ in range(6):
        yield f(x), n


@pattern
def a_result_in_a_cell(c: Any, x: Any) -> Any:
    last = None

    def f(x: Any) -> Any:
        nonlocal last
        last = x * 3
        return x

    f = c(f)
    for i in range(4):
        f(x + i)
        yield last


@pattern
def a_decorator(c: Any, x: Any) -> Any:
    state = {"on": True}

    def doubled(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            out = fn(*args)
            return out * 2 if state["on"] else out

        return wrapper

    k = 1.0

    @doubled
    def g(x: Any) -> Any:
        return x + k

    f = c(g)
    yield from (f(x), f(x))
    state["on"] = False
    yield from (f(x), f(x))
    k = 4.0
    yield from (f(x), f(x))


@pattern
def no_grad_as_a_decorator(c: Any, x: Any) -> Any:
    k = 1.0

    @pf.no_grad()
    def g(x: Any) -> Any:
        return x * k

    f = c(lambda x: g(x))
    for k in (1.0, 1.0, 2.0, 2.0, 3.0, 4.0):  # noqa: B007
        yield f(x)


@pattern
def a_generator_function(c: Any, x: Any) -> Any:
    scales = [1.0, 2.0]

    def each() -> Any:
        for s in scales:
            yield s * 2

    f = c(lambda x: sum(x * s for s in each()))
    yield from turns(f, x, change=lambda i: scales.append(float(i)))


@pattern
def comprehensions(c: Any, x: Any) -> Any:
    table = {"a": 1.0, "b": 2.0}
    f = c(lambda x: x * sum([v * 2 for v in table.values()]) + len({k + k for k in table}))
    yield from turns(f, x, change=lambda i: table.update({str(i): float(i)}))


@pattern
def a_lambda_in_a_table(c: Any, x: Any) -> Any:
    table = {"act": lambda x: x * 2}
    f = c(lambda x: table["act"](x))
    yield from (f(x), f(x))
    table["act"] = lambda x: x - 1
    yield from (f(x), f(x))


@pattern
def operators_as_functions(c: Any, x: Any) -> Any:
    cfg = types.SimpleNamespace(deep=types.SimpleNamespace(t=1.0), items={"k": 2.0})
    t, k = operator.attrgetter("deep.t"), operator.itemgetter("k")
    f = c(lambda x: x * t(cfg) + k(cfg.items))
    yield from turns(f, x, change=lambda i: setattr(cfg.deep, "t", float(i)))
    cfg.items["k"] = 8.0
    yield from (f(x), f(x))


# --- objects


class Plain:
    """An object with attributes."""

    shared = 1.0

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)

    def scaled(self, x: Any) -> Any:
        return x * self.t


@pattern
def a_dict_with_attributes(c: Any, x: Any) -> Any:
    class Config(dict):  # type: ignore[type-arg]
        def __getattr__(self, name: str) -> Any:
            return self[name]

    o = Config(t=1.0, more=Config(u=2.0))
    f = c(lambda x: x * o.t + o.more.u)
    yield from turns(f, x, change=lambda i: o.more.update(u=float(i)))


@pattern
def inheritance_and_super(c: Any, x: Any) -> Any:
    class A:
        def g(self, x: Any) -> Any:
            return x * self.t

    class B(A):
        def __init__(self) -> None:
            self.t = 1.0

        def g(self, x: Any) -> Any:
            return super().g(x) + 1

    o = B()
    f = c(lambda x: o.g(x))
    yield from turns(f, x, change=lambda i: setattr(o, "t", float(i)))
    A.g = lambda self, x: x * 0  # type: ignore[method-assign]
    yield from (f(x), f(x))


@pattern
def generic_and_protocol(c: Any, x: Any) -> Any:
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value: T) -> None:
            self.value = value

    o = Box(1.0)
    yield from turns(c(lambda x: x * o.value), x, change=lambda i: setattr(o, "value", float(i)))


@pattern
def a_copy_of_a_config(c: Any, x: Any) -> Any:
    o = Plain(t=1.0, deep=[2.0])
    f = c(lambda x: x * copy.deepcopy(o).t + copy.copy(o).deep[0])
    yield from turns(f, x, change=lambda i: setattr(o, "t", float(i)))
    o.deep[0] = 7.0
    yield from (f(x), f(x))


@pattern
def an_object_as_an_argument(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    yield from turns(c(lambda x, o: x * o.t), x, o, change=lambda i: setattr(o, "t", float(i)))


@pattern
def objects_within_an_argument(c: Any, x: Any) -> Any:
    o = {"cfg": [Plain(t=1.0)]}
    f = c(lambda x, o: x * o["cfg"][0].t)
    yield from turns(f, x, o, change=lambda i: setattr(o["cfg"][0], "t", float(i)))


@pattern
def an_attribute_that_is_only_written(c: Any, x: Any) -> Any:
    o = Plain(last=None, status="")

    def f(x: Any) -> Any:
        o.last = x * 2
        o.status = "done"
        return x

    f = c(f)
    for i in range(5):
        o.status = "" if i == 3 else o.status
        f(x + i)
        yield o.last, o.status


@pattern
def results_in_containers_that_are_kept(c: Any, x: Any) -> Any:
    o = Plain()

    def f(x: Any) -> Any:
        o.out = {"a": x * 2, "more": [x + 1, (x, "text")]}
        return x

    f = c(f)
    kept = []
    for i in range(4):
        f(x + i)
        kept.append(o.out)
    for out in kept:
        yield out["a"], out["more"][0], out["more"][1]


@pattern
def a_counter_on_an_object(c: Any, x: Any) -> Any:
    o = Plain(n=0)

    def f(x: Any) -> Any:
        o.n += 1
        return x * o.n

    f = c(f)
    for i in range(7):
        if i == 5:
            o.n = 100
        yield f(x), o.n


@pattern
def every_third_call(c: Any, x: Any) -> Any:
    o = Plain(n=0)

    def f(x: Any) -> Any:
        o.n += 1
        return x * 2 if o.n % 3 == 0 else x + 1

    f = c(f)
    for _ in range(12):
        yield f(x), o.n


@pattern
def a_tensor_that_is_carried(c: Any, x: Any) -> Any:
    o = Plain(h=x * 0)

    def f(x: Any) -> Any:
        o.h = (o.h * 0.5 + x).tanh()
        return o.h * 2

    f = c(f)
    for i in range(7):
        if i == 5:
            o.h = x * 0
        yield f(x + i), o.h


@pattern
def a_tensor_that_is_made_at_first(c: Any, x: Any) -> Any:
    o = Plain(h=None)

    def f(x: Any) -> Any:
        if o.h is None:
            o.h = pf.zeros_like(x)
        o.h = o.h + x
        return o.h

    f = c(f)
    for i in range(7):
        yield f(x + i), o.h


@pattern
def a_moving_average_in_a_dict(c: Any, x: Any) -> Any:
    ema = {"x": x * 0}

    def f(x: Any) -> Any:
        ema["x"] = ema["x"] * 0.9 + x * 0.1
        return ema["x"].sum()

    f = c(f)
    for i in range(6):
        yield f(x + i), ema["x"]


@pattern
def tensors_from_outside_that_change_each_time(c: Any, x: Any) -> Any:
    o = Plain(batch=x)
    f = c(lambda: o.batch * 2)
    for i in range(8):
        o.batch = x + i
        yield f()


@pattern
def an_attribute_that_is_deleted(c: Any, x: Any) -> Any:
    o = Plain()

    def f(x: Any) -> Any:
        o.tmp = x * 2
        y = o.tmp + 1
        del o.tmp
        return y

    f = c(f)
    for i in range(4):
        yield f(x + i), hasattr(o, "tmp")


@pattern
def settings_that_are_restored(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)

    @contextlib.contextmanager
    def scaled(k: float) -> Any:
        before, o.t = o.t, k
        try:
            yield
        finally:
            o.t = before

    def f(x: Any) -> Any:
        with scaled(3.0):
            y = x * o.t
        return y + o.t

    yield from turns(c(f), x, change=lambda i: setattr(o, "t", float(i)))


# --- containers


@pattern
def tensors_in_a_list(c: Any, x: Any) -> Any:
    ws = [x + 1, x + 2]
    f = c(lambda x: sum(x * w for w in ws))
    yield from (f(x), f(x))
    ws[1] = x + 7
    yield from (f(x), f(x))
    ws.append(x)
    yield from (f(x), f(x))
    with pf.no_grad():
        ws[0].mul_(3)
    yield from (f(x), f(x))


@pattern
def a_list_that_moves_between_lists(c: Any, x: Any) -> Any:
    o = Plain(a=[1.0, 2.0], b=[3.0])
    f = c(lambda x: x * sum(o.a) + math.prod(o.b))
    yield from (f(x), f(x))
    o.b.insert(0, o.a.pop())
    yield from (f(x), f(x))


@pattern
def numbers_that_are_equal_but_not_the_same(c: Any, x: Any) -> Any:
    o = Plain(v=1)
    f = c(lambda x: x.int() * o.v if o.v != 0 else x / o.v)
    for v in (1, 1, True, 1.0, 1, 0.0, -0.0, 0.0, -0.0):
        o.v = v
        yield f(x)


@pattern
def a_nan(c: Any, x: Any) -> Any:
    o = Plain(v=math.nan)
    f = c(lambda x: x if o.v != o.v else x * o.v)
    for v in (math.nan, math.nan, float("nan"), 2.0, 2.0):
        o.v = v
        yield f(x)


@pattern
def types_dtypes_and_devices(c: Any, x: Any) -> Any:
    o = Plain(dtype=pf.float32, shape=(2, 3), part=slice(0, 1))
    f = c(lambda x: pf.ones(o.shape, dtype=o.dtype, device=x.device)[o.part] + x[:1])
    yield from (f(x), f(x))
    o.dtype = pf.int32
    yield from (f(x), f(x))
    o.part = slice(0, 2)
    yield from (f(x), f(x))
    o.shape = [1, 3]
    yield from (f(x), f(x))


@pattern
def what_a_shape_is_made_of(c: Any, x: Any) -> Any:
    o = Plain(w=x + 1)
    f = c(lambda x: x.sum() * o.w.shape[0] * o.w.ndim)
    yield from (f(x), f(x))
    o.w = pf.cat([x, x])
    yield from (f(x), f(x))
    o.w = o.w[:1]
    yield from (f(x), f(x))


@pattern
def a_view_that_is_rebound(c: Any, x: Any) -> Any:
    table = pf.arange(12, dtype=pf.float32, device=x.device).reshape(4, 3)
    o = Plain(v=table[0])
    f = c(lambda x: x * o.v)
    for i in (0, 0, 1, 1, 2, 3, 3):
        o.v = table[i]
        yield f(x)


@pattern
def an_attribute_of_a_tensor(c: Any, x: Any) -> Any:
    w = x + 1
    w.scale = 2.0
    f = c(lambda x: x * w * w.scale)
    yield from turns(f, x, change=lambda i: setattr(w, "scale", float(i)))


@pattern
def an_import_that_reads_a_file(c: Any, x: Any) -> Iterator[Any]:
    """As of a page, where some modules are fetched when they are first imported."""

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name != "found_late":
                return None
            with open(os.devnull) as file:
                file.read()
            return importlib.machinery.ModuleSpec(name, None, is_package=True)

    sys.modules.pop("found_late", None)
    sys.meta_path.append(Finder)

    def f(x: Any) -> Any:
        import found_late

        return x * len(found_late.__name__)

    f = c(f)
    for _ in range(4):
        yield f(x)
    sys.meta_path.remove(Finder)


@pattern
def a_view_that_alone_has_its_memory(c: Any, x: Any) -> Iterator[Any]:
    t = pf.arange(6.0, device=x.device).reshape(2, 3)
    f = c(lambda x: x * t)
    yield from turns(f, x, change=lambda i: t.add_(i))


def _a_step_in_parts(c: Any, x: Any, set_to_none: bool) -> Iterator[Any]:
    """Gradients of two batches, or of one, with an update that is a function of its own."""
    pf.manual_seed(0)
    net = nn.Linear(3, 2).to(x.device)  # whose gradients are views
    opt = optim.Adam(net.parameters(), lr=0.1)

    def step(x: Any, first: bool, last: bool) -> Any:
        if first:
            opt.zero_grad(set_to_none)
        net(x).square().mean().backward()
        if last:
            opt.step()

    step, update = c(step), c(lambda: opt.step())
    for i in range(4):
        step(x + i, True, False)
        if i == 2:
            net.weight.grad.mul_(2)
        step(x - i, False, True)
        yield net.weight.grad
        step(x * i, True, False)
        update() if i != 1 else opt.step()
        yield net.weight.detach(), net.bias.grad


@pattern
def new_gradients_for_another_function(c: Any, x: Any) -> Iterator[Any]:
    yield from _a_step_in_parts(c, x, True)


@pattern
def the_same_gradients_for_another_function(c: Any, x: Any) -> Iterator[Any]:
    yield from _a_step_in_parts(c, x, False)


@pattern
def whether_a_tensor_needs_a_gradient(c: Any, x: Any) -> Any:
    w = pf.ones(3, device=x.device)
    f = c(lambda x: x * (2 if w.requires_grad else 3))
    yield from (f(x), f(x))
    w.requires_grad_()
    yield from (f(x), f(x))


@pattern
def the_data_of_a_tensor(c: Any, x: Any) -> Any:
    w = pf.ones(3, device=x.device)
    f = c(lambda x: x * w * w.shape[0])
    yield from (f(x), f(x))
    w.data = pf.ones(1, device=x.device) * 4
    yield from (f(x), f(x))


# --- numbers that change in each call


@pattern
def a_temperature(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: F.softmax(x / o.t, -1))
    for i in range(9):
        o.t = 1.0 + 0.1 * i
        yield f(x)


@pattern
def a_number_as_an_argument(c: Any, x: Any) -> Any:
    f = c(lambda x, t: x * t + (1 - t))
    for i in range(9):
        yield f(x, 0.1 * i)


@pattern
def an_int_as_an_argument(c: Any, x: Any) -> Any:
    f = c(lambda x, n, k=0: x * 0.9**n + k)
    for i in range(9):
        yield f(x, i, k=i)


@pattern
def a_backward_pass_outside(c: Any, x: Any) -> Any:
    o, w = Plain(t=1.0), pf.ones(3, device=x.device, requires_grad=True)
    f = c(lambda x: (x * w * o.t).sum() / (o.t + 1))
    for i in range(8):
        o.t = 1.0 + i
        w.grad = None
        f(x).backward()
        yield w.grad


@pattern
def numbers_that_are_kept_and_returned(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)

    def f(x: Any) -> Any:
        o.kept = {"t": o.t * 2, "deep": [o.t, (o.t, x)]}
        o.note = types.SimpleNamespace(half=o.t / 2)
        return types.SimpleNamespace(y=x * o.t, t=o.t), [o.t + 1], (o.t,)

    f = c(f)
    for i in range(8):
        o.t = 1.0 + i
        a, b, d = f(x)
        parts = [a.t, b[0], d[0], o.kept["t"], o.kept["deep"][0], o.kept["deep"][1][0], o.note.half]
        yield a.y, parts, [type(v).__name__ for v in parts], o.kept["deep"][1][1]


@pattern
def a_list_from_outside_that_is_returned(c: Any, x: Any) -> Any:
    ks = [1.0, 2.0]
    f = c(lambda x: (ks, x * ks[0]))
    for _ in range(4):
        found, y = f(x)
        yield found is ks, y


@eager
def an_argument_that_is_changed_later(c: Any, x: Any) -> Any:
    def f(batch: Any, t: float) -> Any:
        if t > 4:
            batch["y"] = batch["x"] * t
        return batch["x"] * t

    f = c(f)
    for i in range(8):
        batch = {"x": x + i, "k": float(i)}
        yield f(batch, float(i)), sorted(batch), batch.get("y", 0)


@eager
def an_object_that_holds_itself_is_kept(c: Any, x: Any) -> Any:
    o = Plain()

    def f(x: Any) -> Any:
        o.node = Plain(value=x * 2)
        o.node.itself = o.node
        return x

    f = c(f)
    for i in range(4):
        f(x + i)
        yield o.node.value, o.node.itself is o.node


@pattern
def subclasses_of_containers(c: Any, x: Any) -> Any:
    class Named(list):  # type: ignore[type-arg]
        def __init__(self, name: str, *parts: Any) -> None:
            super().__init__(parts)
            self.name = name

    f = c(lambda x: (Named("two", x, x + 1), collections.deque([x], maxlen=3)))
    for i in range(4):
        a, d = f(x + i)
        yield a.name, list(a), len(a), d.maxlen, d[0]


@pattern
def several_numbers_at_once(c: Any, x: Any) -> Any:
    o = Plain(a=1.0, b=2, cfg={"c": 3.0}, deep=[[4.0]])
    f = c(lambda x: x * o.a + o.b * o.cfg["c"] - o.deep[0][0] ** 2)
    for i in range(9):
        o.a, o.b, o.cfg["c"], o.deep[0][0] = 1.0 / (i + 1), i, 0.5 * i, -float(i)
        yield f(x)


@pattern
def a_schedule_with_branches(c: Any, x: Any) -> Any:
    o = Plain(step=0)

    def f(x: Any) -> Any:
        warm = min(1.0, (o.step + 1) / 4)
        scale = warm * 0.5 if o.step < 8 else 0.01
        return x * scale * 0.99**o.step

    f = c(f)
    for i in range(14):
        o.step = i
        yield f(x)


@pattern
def a_number_beyond_float32(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: x * (1e6 * (o.t - 0.9999999)))
    for i in range(7):
        o.t = 1.0 + i * 1e-9
        yield f(x)


@pattern
def a_number_for_ints(c: Any, x: Any) -> Any:
    o = Plain(n=1)
    y = x.int()
    f = c(lambda y: (y + o.n) * 2 - (y < o.n).int())
    for i in range(8):
        o.n = i
        yield f(y)


@pattern
def a_number_in_float16(c: Any, x: Any) -> Any:
    if x.device.type != "cpu":
        return
    y, o = x.half(), Plain(t=1.0)
    f = c(lambda y: y * o.t + 1)
    for i in range(7):
        o.t = 1 + i / 8
        yield f(y)


@pattern
def numbers_of_functions(c: Any, x: Any) -> Any:
    o = Plain(t=0.1)

    def f(x: Any) -> Any:
        y = F.leaky_relu(x, o.t) + pf.where(x > 0, x, o.t) + pf.full_like(x, 2.0).mul_(o.t)
        return pf.lerp(x, y, 0.5).add_(y, alpha=2) + pf.maximum(x, pf.zeros_like(x) + o.t)

    f = c(f)
    for i in range(8):
        o.t = 0.1 * (i + 1)
        yield f(x)


@pattern
def numbers_of_numpy(c: Any, x: Any) -> Any:
    o = Plain(a=np.float64(1.0), b=np.float32(2.0), n=np.int64(1))
    f = c(lambda x: x * o.a + (1 - o.a) * o.b - np.float64(2.0) * o.a + 0.5**o.n)
    for i in range(9):
        o.a, o.b, o.n = np.float64(1.0 + i), np.float32(i), np.int64(i)
        yield f(x)


@eager
def a_number_where_only_a_number_goes(c: Any, x: Any) -> Any:
    import json

    o = Plain(t=1.0, kept=None)

    def f(x: Any) -> Any:
        o.kept = json.dumps({"t": o.t})
        return x * o.t

    f = c(f)
    for i in range(8):
        o.t = 1.0 + i
        yield f(x), o.kept


@pattern
def names_that_a_run_adds(c: Any, x: Any) -> Any:
    config, o, w = config_module("user_config5"), Plain(), x + 1

    def f(x: Any) -> Any:
        config.last = 3.0
        Plain.extra = 4.0
        w.note = "seen"
        return x * config.last

    f = c(f)
    for _ in range(5):
        yield f(x), config.last, o.extra, w.note
    del Plain.extra


@pattern
def a_weak_reference_that_dies(c: Any, x: Any) -> Any:
    o = Plain()
    r, table = weakref.ref(o), weakref.WeakSet([o])
    f = c(lambda x: x * (2 if r() is None else 3) + len(list(table)))
    yield from (f(x), f(x))
    del o
    yield from (f(x), f(x))


@pattern
def abs_round_and_divmod(c: Any, x: Any) -> Any:
    o = Plain(t=0.25)
    f = c(lambda x: x * abs(-o.t) + round(o.t, 1) + (o.t // 0.1) + (o.t % 0.1) + divmod(o.t, 1)[1])
    for i in range(8):
        o.t = 0.25 + i * 0.31
        yield f(x)


@eager
def a_number_that_math_wants(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: x * math.exp(-o.t))
    for i in range(8):
        o.t = float(i)
        yield f(x)


@pattern
def a_number_that_math_wants_and_that_changes_rarely(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: x * math.exp(-o.t))
    for i in range(20):
        o.t = float(i // 4)
        yield f(x)


@pattern
def an_int_that_sizes_are_made_of(c: Any, x: Any) -> Any:
    o = Plain(n=1)
    f = c(lambda x: x.repeat(o.n, 1).sum() + x[: o.n].sum())
    for n in (1, 1, 2, 2, 3, 3, 1, 2, 3):
        o.n = n
        yield f(x)


@eager
def a_string_that_changes_in_each_call(c: Any, x: Any) -> Any:
    o = Plain(name="")
    f = c(lambda x: x * len(o.name))
    for i in range(12):
        o.name = "a" * i
        yield f(x)


@pattern
def one_of_several_modes(c: Any, x: Any) -> Any:
    o = Plain(mode="a", acts={"a": pf.tanh, "b": pf.sin, "c": pf.cos, "d": pf.exp, "e": pf.abs})
    f = c(lambda x: o.acts[o.mode](x))
    for mode in "abcdeabcde":
        o.mode = mode
        yield f(x)


@pattern
def a_loss_scale(c: Any, x: Any) -> Any:
    pf.manual_seed(0)
    net = nn.Linear(3, 2).to(x.device)
    opt = optim.SGD(net.parameters(), lr=0.1)
    o = Plain(scale=1024.0)

    @c
    def step(x: Any) -> Any:
        opt.zero_grad()
        (net(x).square().mean() * o.scale).backward()
        with pf.no_grad():
            for p in net.parameters():
                p.grad.mul_(1 / o.scale)
        opt.step()
        return net.weight.sum()

    for i in range(7):
        o.scale = 1024.0 / 2**i
        yield step(x)


# --- side effects


@eager
def a_list_that_grows(c: Any, x: Any) -> Any:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(x * 2)
        return x

    f = c(f)
    for i in range(4):
        f(x + i)
        yield len(seen), seen[-1]


@eager
def a_dict_that_grows(c: Any, x: Any) -> Any:
    o = Plain(log={}, n=0)

    def f(x: Any) -> Any:
        o.log[len(o.log)] = "call"
        return x

    f = c(f)
    for _ in range(4):
        yield f(x), len(o.log)


@eager
def an_argument_that_is_changed(c: Any, x: Any) -> Any:
    def f(batch: Any, out: Any) -> Any:
        batch["y"] = batch["x"] * 2
        out.append(batch["y"])
        return batch["y"]

    f = c(f)
    for i in range(4):
        batch, out = {"x": x + i}, []
        yield f(batch, out), len(out), sorted(batch)


@eager
def batches_that_are_drawn_inside(c: Any, x: Any) -> Any:
    it = iter([x, x + 1, x + 2, x + 3, x + 4])
    f = c(lambda: next(it) * 2)
    for _ in range(4):
        yield f()


@eager
def a_value_that_is_read(c: Any, x: Any) -> Any:
    f = c(lambda x: x * 2 if x.sum().item() > 0 else x)
    for i in (1, -1, 1):
        yield f(x * i)


@pattern
def printing(c: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        print(end="")
        return x * 2

    f = c(f)
    for i in range(3):
        yield f(x + i)


@pattern
def what_a_function_makes_for_itself(c: Any, x: Any) -> Any:
    class Node:
        def __init__(self, value: Any, parent: Any) -> None:
            self.value, self.parent = value, parent

    def f(x: Any) -> Any:
        n, log, table = Node(x, None), [], {}
        for i in range(3):
            n = Node(n.value * 2, n)
            n.self = n
            log.append(n)
            table[i] = n.value
        return sum(m.value for m in log) + table[1] + n.parent.value

    f = c(f)
    for i in range(4):
        yield f(x + i)


@pattern
def results_of_classes_of_the_users(c: Any, x: Any) -> Any:
    @dataclasses.dataclass
    class Output:
        loss: Any
        parts: dict[str, Any]
        name: str = "output"

    kept = []
    f = c(lambda x: Output(x.sum(), {"double": x * 2}))
    for i in range(4):
        kept.append(f(x + i))
        kept[-1].name += str(i)
    for o in kept:
        yield o.loss, o.parts["double"], o.name


@pattern
def results_with_slots(c: Any, x: Any) -> Any:
    @dataclasses.dataclass(slots=True, frozen=True)
    class Output:
        loss: Any
        n: int = 3

    f = c(lambda x: Output(x.sum()))
    kept = [f(x + i) for i in range(4)]
    for o in kept:
        yield o.loss, o.n


@pattern
def a_list_in_two_places(c: Any, x: Any) -> Any:
    shared = [1.0]
    o = Plain(a=shared, b=shared)
    f = c(lambda x: x * o.a[0] + o.b[0])
    yield from (f(x), f(x))
    o.b = [2.0]
    yield from (f(x), f(x))
    o.a.append(o.a)  # a cycle
    yield from (f(x), f(x))


@pattern
def results_of_many_kinds(c: Any, x: Any) -> Any:
    Pair = collections.namedtuple("Pair", "a b")
    f = c(
        lambda x: (
            Pair(x * 2, None),
            collections.OrderedDict(k=x + 1),
            [x, "text", 3],
            types.SimpleNamespace(y=x - 1),
            {1, 2},
            collections.deque([x * 3]),
        )
    )
    for i in range(4):
        p, d, l, n, s, q = f(x + i)
        yield p.a, p.b, d["k"], l, n.y, sorted(s), q[0], type(d).__name__, type(p).__name__


@pattern
def results_that_lie_outside(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: (o, x * o.t))
    for i in range(5):
        o.t = float(i // 2)
        found, y = f(x)
        yield found is o, y


# --- modules


def mlp(x: Any, *more: Any) -> Any:
    pf.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), *more).to(x.device)


@pattern
def an_attribute_of_a_module(c: Any, x: Any) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.t, self.on = nn.Linear(3, 3), 1.0, True

        def forward(self, x: Any) -> Any:
            return self.lin(x) * self.t if self.on else x

    pf.manual_seed(0)
    net = Net().to(x.device)
    f = c(lambda x: net(x))
    yield from turns(f, x, change=lambda i: setattr(net, "t", float(i)))
    net.on = False
    yield from (f(x), f(x))


@pattern
def a_compiled_module(c: Any, x: Any) -> Any:
    net = mlp(x)
    f = c(net)
    yield from (f(x), f(x))
    net[2] = nn.Linear(4, 2).to(x.device)
    yield from (f(x).shape, f(x).shape)


@pattern
def lazy_layers(c: Any, x: Any) -> Any:
    """Their weights are made, and drawn, in the first call."""
    pf.manual_seed(4)
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU()).to(x.device)
    f = c(lambda x: net(x))
    yield from (f(x), f(x), f(x))
    net[1] = nn.LazyLinear(2).to(x.device)
    yield from (f(x), f(x), f(x))


@pattern
def values_of_parameter_containers(c: Any, x: Any) -> Any:
    d = nn.ParameterDict({"k": 2.0, "w": pf.ones(3, device=x.device)})
    m = nn.ParameterList([pf.ones(3, device=x.device), 0.5])
    f = c(lambda x: (x[..., :3] * d["w"] * d["k"] + m[0] * m[1]) * len(d))
    yield from (f(x), f(x))
    d["k"] = 3.0
    yield from (f(x), f(x))
    m[1] = -1.0
    yield from (f(x), f(x))
    d["w"] = d["w"].detach() * 2
    yield from (f(x), f(x))
    d["more"] = 1
    yield from (f(x), f(x))


@pattern
def layers_replaced_added_and_removed(c: Any, x: Any) -> Any:
    net = mlp(x)
    f = c(lambda x: net(x))
    yield from (f(x), f(x))
    net[1] = nn.ReLU()
    yield from (f(x), f(x))
    net.append(nn.Tanh())
    yield from (f(x), f(x))
    del net[1]
    yield from (f(x), f(x))
    net.insert(0, nn.Flatten())
    yield from (f(x), f(x))


@pattern
def parameters_and_buffers_replaced(c: Any, x: Any) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(pf.ones(3, device=x.device))
            self.register_buffer("b", pf.ones(3, device=x.device))

        def forward(self, x: Any) -> Any:
            return x * self.w + self.b

    net = Net()
    f = c(lambda x: net(x).detach())
    yield from (f(x), f(x))
    net.w = nn.Parameter(pf.ones(3, device=x.device) * 3)
    yield from (f(x), f(x))
    net.b = pf.ones(3, device=x.device) * 5
    yield from (f(x), f(x))
    net.b = None
    net.b = pf.zeros(3, device=x.device)
    yield from (f(x), f(x))


@pattern
def module_containers(c: Any, x: Any) -> Any:
    pf.manual_seed(0)
    new = lambda: nn.Linear(3, 3).to(x.device)  # noqa: E731
    layers, table = nn.ModuleList([new()]), nn.ModuleDict({"a": new()})
    weights = nn.ParameterList([nn.Parameter(pf.ones(3, device=x.device))])

    def f(x: Any) -> Any:
        for m in layers:
            x = m(x)
        for k, m in table.items():
            x = m(x) + len(k)
        for w in weights:
            x = x * w
        return x.detach()

    f = c(f)
    yield from (f(x), f(x))
    layers.append(new())
    yield from (f(x), f(x))
    table["bb"] = new()
    yield from (f(x), f(x))
    weights.append(nn.Parameter(pf.ones(3, device=x.device) * 2))
    yield from (f(x), f(x))
    weights[0] = nn.Parameter(pf.ones(3, device=x.device) * 7)
    yield from (f(x), f(x))


@pattern
def hooks_added_and_removed(c: Any, x: Any) -> Any:
    net = mlp(x)
    f = c(lambda x: net(x))
    yield from (f(x), f(x))
    h = net[0].register_forward_hook(lambda m, a, out: out * 2)
    yield from (f(x), f(x))
    g = net.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
    yield from (f(x), f(x))
    h.remove()
    yield from (f(x), f(x))
    g.remove()
    yield from (f(x), f(x))


@pattern
def hooks_on_all_modules(c: Any, x: Any) -> Any:
    net, of = mlp(x), nn.modules.module

    def f(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = net(x)
        y.square().sum().backward()
        net.zero_grad()
        return y.detach(), x.grad

    f = c(f)
    yield from (f(x), f(x))
    for register, hook in (
        (of.register_module_forward_pre_hook, lambda m, a: (a[0] + 1,)),
        (of.register_module_forward_hook, lambda m, a, out: out * 2),
        (of.register_module_full_backward_hook, lambda m, gi, go: (gi[0] * 3,)),
        (of.register_module_full_backward_pre_hook, lambda m, go: (go[0] * 0.5,)),
    ):
        with register(hook):
            yield from [f(x) for _ in range(2)]
        yield from (f(x), f(x))
    with net[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)):
        yield from [f(x) for _ in range(2)]
    yield from (f(x), f(x))


@pattern
def a_hook_that_reads_outside(c: Any, x: Any) -> Any:
    net, o = mlp(x), Plain(t=1.0)
    net[0].register_forward_hook(lambda m, a, out: out * o.t)
    yield from turns(c(lambda x: net(x)), x, change=lambda i: setattr(o, "t", float(i)))


@eager
def a_hook_that_collects(c: Any, x: Any) -> Any:
    net, seen = mlp(x), []
    net[0].register_forward_hook(lambda m, a, out: seen.append(out.detach()))
    f = c(lambda x: net(x))
    for i in range(4):
        f(x + i)
        yield len(seen), seen[-1]


@pattern
def a_hook_that_keeps_the_latest(c: Any, x: Any) -> Any:
    net, seen = mlp(x), {"out": x}
    net[0].register_forward_hook(lambda m, a, out: seen.update(out=out.detach()))
    f = c(lambda x: net(x).sum())
    for i in range(6):
        yield f(x + i), seen["out"]


@pattern
def backward_hooks(c: Any, x: Any) -> Any:
    net, o = mlp(x), Plain(k=2.0)
    net[0].register_full_backward_hook(lambda m, gi, go: (gi[0] * o.k,))

    def f(x: Any) -> Any:
        net.zero_grad()
        x = x.detach().requires_grad_()
        net(x).square().sum().backward()
        return x.grad

    yield from turns(c(f), x, change=lambda i: setattr(o, "k", float(i)))


@pattern
def training_and_evaluation(c: Any, x: Any) -> Any:
    net = mlp(x, nn.Dropout(0.5))
    f = c(lambda x: net(x))
    for i in range(6):
        net.train(i % 3 == 2)
        pf.manual_seed(3)
        yield f(x)
    net.eval()
    net[3].train()
    pf.manual_seed(3)
    yield f(x)


@pattern
def the_rate_of_dropout(c: Any, x: Any) -> Any:
    drop = nn.Dropout(0.5)
    f = c(lambda x: drop(x))
    for p in (0.5, 0.5, 0.1, 0.1, 0.9, 0.0, 0.0, 1.0, 0.3, 0.4):
        drop.p = p
        pf.manual_seed(3)
        yield f(x)


@pattern
def dropout_as_a_function(c: Any, x: Any) -> Any:
    net = mlp(x)
    p = 0.5
    f = c(lambda x: F.dropout(net(x), p, net.training))
    for i in range(8):
        net.train(i % 2 == 0)
        p = 0.5 if i < 4 else 0.2
        pf.manual_seed(3)
        yield f(x)


@pattern
def hyperparameters_of_layers(c: Any, x: Any) -> Any:
    layers: list[Any] = [nn.Dropout(0.0), nn.LayerNorm(3).to(x.device), nn.Flatten()]
    f = c(lambda x: layers[2](layers[1](layers[0](x))).detach())
    yield from (f(x), f(x))
    layers[0].inplace = True
    yield from (f(x.clone()), f(x.clone()))
    layers[1].eps = 0.5
    yield from (f(x), f(x))
    layers[2].start_dim = 0
    yield from (f(x), f(x))


@pattern
def batch_norm(c: Any, x: Any) -> Any:
    if not hasattr(nn, "BatchNorm1d"):
        return
    bn = nn.BatchNorm1d(3).to(x.device)
    f = c(lambda x: bn(x).detach())
    for i in range(9):
        if i == 4:
            bn.eval()
        if i == 6:
            bn.momentum = 0.5
            bn.train()
        yield f(x + i), bn.running_mean, bn.num_batches_tracked
    bn.reset_running_stats()
    yield f(x), bn.running_mean


@pattern
def a_module_that_sets_itself(c: Any, x: Any) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.cache, self.calls = nn.Linear(3, 3), None, 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.cache = self.lin(x).detach()
            return self.cache * 2

    pf.manual_seed(0)
    net = Net().to(x.device)
    f = c(lambda x: net(x))
    for i in range(6):
        yield f(x + i), net.cache, net.calls


@pattern
def a_state_dict_that_is_loaded(c: Any, x: Any) -> Any:
    net, other = mlp(x), mlp(x)
    with pf.no_grad():
        for p in other.parameters():
            p.add_(1)
    f = c(lambda x: net(x))
    yield from (f(x), f(x))
    net.load_state_dict(other.state_dict())
    yield from (f(x), f(x))
    net.load_state_dict({k: v * 2 for k, v in other.state_dict().items()}, assign=True)
    yield from (f(x), f(x))


@pattern
def frozen_layers(c: Any, x: Any) -> Any:
    net = mlp(x)

    def f(x: Any) -> Any:
        net.zero_grad()
        net(x).square().sum().backward()
        return [p.grad for p in net.parameters()]

    f = c(f)
    yield from (f(x), f(x))
    net[0].requires_grad_(False)
    yield from (f(x), f(x))
    net[0].requires_grad_(True)
    yield from (f(x), f(x))


# --- training


def training(
    c: Any, x: Any, make: Any, change: Any = None, at: Any = (3,), n: int = 7, zero: Any = None
) -> Any:
    net = mlp(x)
    o = Plain(net=net, opt=make(net.parameters()))

    @c
    def step(x: Any) -> Any:
        (zero or o.opt.zero_grad)() if zero is None else zero(o)
        loss = o.net(x).square().mean()
        loss.backward()
        o.opt.step()
        return loss.detach()

    for i in range(n):
        if change is not None and i in at:
            change(o)
        yield step(x)
        yield [p.detach().clone() for p in net.parameters()]


def adam(params: Any) -> Any:
    return optim.Adam(params, lr=0.1)


def sgd(params: Any) -> Any:
    return optim.SGD(params, lr=0.1, momentum=0.9)


@pattern
def zero_grad_of_the_net(c: Any, x: Any) -> Any:
    yield from training(c, x, adam, zero=lambda o: o.net.zero_grad())


@pattern
def zero_grad_that_keeps_the_gradients(c: Any, x: Any) -> Any:
    yield from training(c, x, adam, zero=lambda o: o.net.zero_grad(set_to_none=False))


@pattern
def gradients_set_to_none_by_hand(c: Any, x: Any) -> Any:
    def zero(o: Any) -> None:
        for p in o.net.parameters():
            p.grad = None

    yield from training(c, x, sgd, zero=zero)


@pattern
def gradients_zeroed_by_hand(c: Any, x: Any) -> Any:
    def zero(o: Any) -> None:
        for p in o.net.parameters():
            if p.grad is not None:
                p.grad.zero_()

    yield from training(c, x, sgd, zero=zero)


@pattern
def gradients_that_are_read(c: Any, x: Any) -> Any:
    net = mlp(x)
    opt = optim.SGD(net.parameters(), lr=0.1)

    @c
    def step(x: Any) -> Any:
        net.zero_grad()
        net(x).square().mean().backward()
        norm = sum((p.grad**2).sum() for p in net.parameters() if p.grad is not None)
        opt.step()
        return norm

    for i in range(6):
        if i == 3:
            net[0].requires_grad_(False)
        yield step(x)


@pattern
def gradients_that_are_clipped_by_hand(c: Any, x: Any) -> Any:
    o = Plain(limit=0.1)

    def clip(trainer: Any) -> None:
        trainer.opt.zero_grad()

    net = mlp(x)
    opt = sgd(net.parameters())

    @c
    def step(x: Any) -> Any:
        opt.zero_grad()
        net(x).square().mean().backward()
        with pf.no_grad():
            for p in net.parameters():
                p.grad.clamp_(-o.limit, o.limit)
        opt.step()
        return net[0].weight.sum()

    yield from turns(step, x, change=lambda i: setattr(o, "limit", 0.01 * i))


@pattern
def a_learning_rate(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        o.opt.param_groups[0]["lr"] *= 0.5

    yield from training(c, x, adam, change, at=range(7))


@pattern
def a_learning_rate_that_the_step_sets(c: Any, x: Any) -> Any:
    net = mlp(x)
    o = Plain(n=0, opt=sgd(net.parameters()))

    @c
    def step(x: Any) -> Any:
        o.n += 1
        for g in o.opt.param_groups:
            g["lr"] = 0.1 * min(1.0, o.n / 4) * 0.9**o.n
        o.opt.zero_grad()
        net(x).square().mean().backward()
        o.opt.step()
        return net[0].weight.sum()

    for _ in range(12):
        yield step(x), o.opt.param_groups[0]["lr"], o.n


@pattern
def a_learning_rate_that_the_step_reads(c: Any, x: Any) -> Any:
    net = mlp(x)
    opt = adam(net.parameters())

    @c
    def step(x: Any) -> Any:
        opt.zero_grad()
        (net(x).square().mean() * opt.param_groups[0]["lr"]).backward()
        opt.step()
        return net[0].weight.sum()

    for i in range(9):
        opt.param_groups[0]["lr"] = 0.1 / (i + 1)
        yield step(x)


@eager
def losses_kept_in_an_array_of_places(c: Any, x: Any) -> Any:
    kept, o = [x] * 9, Plain(i=0)

    def f(x: Any) -> Any:
        kept[o.i] = x * 2
        return x

    f = c(f)
    for i in range(9):
        o.i = i
        f(x + i)
        yield kept[i]


@pattern
def many_ways_to_read_a_list(c: Any, x: Any) -> Any:
    ks = [1.0, 3.0, 2.0]

    def f(x: Any) -> Any:
        for i, k in enumerate(ks):
            x = x + i * k
        for a, b in zip(ks, reversed(ks), strict=True):
            x = x * 0.5 + a * b
        first, *rest = ks
        x = x + sorted(ks)[0] + functools.reduce(operator.mul, rest) + max(*ks) + first
        return x + (2.0 in ks) + sum(itertools.chain(ks, ks[1:])) + len(ks)

    yield from turns(c(f), x, change=lambda i: operator.setitem(ks, 1, float(i)))


@pattern
def keyword_arguments_from_outside(c: Any, x: Any) -> Any:
    options = {"k": 2.0, "more": 1.0}

    def scaled(x: Any, *, k: float, more: float) -> Any:
        return x * k + more

    yield from turns(c(lambda x: scaled(x, **options)), x, change=lambda i: options.update(k=i))


@pattern
def recursion(c: Any, x: Any) -> Any:
    o = Plain(depth=2, k=0.5)

    def g(x: Any, n: int) -> Any:
        return x if n == 0 else g(x * o.k + 1, n - 1)

    f = c(lambda x: g(x, o.depth))
    yield from turns(f, x, change=lambda i: setattr(o, "k", float(i)))
    o.depth = 3
    yield from (f(x), f(x))


@pattern
def a_property_with_a_setter(c: Any, x: Any) -> Any:
    class A:
        def __init__(self) -> None:
            self.raw = 1.0

        @property
        def t(self) -> float:
            return self.raw * 2

        @t.setter
        def t(self, value: float) -> None:
            self.raw = value

    o = A()

    def f(x: Any) -> Any:
        y = x * o.t
        o.t = o.t / 4 + 1
        return y

    f = c(f)
    for _ in range(7):
        yield f(x), o.raw


@pattern
def a_default_dict_that_fills(c: Any, x: Any) -> Any:
    d: Any = collections.defaultdict(lambda: 3.0)
    f = c(lambda x: x * d["k"])
    for i in range(6):
        if i == 4:
            d["k"] = 5.0
        yield f(x), len(d)


@pattern
def sizes_of_arguments(c: Any, x: Any) -> Any:
    f = c(lambda x: x.sum() / x.shape[0] + x.ndim)
    for n in (2, 2, 4, 4, 2):
        yield f(pf.ones(n, 3, device=x.device))


@pattern
def a_number_that_becomes_something_else(c: Any, x: Any) -> Any:
    o = Plain(v=1.0)

    def f(x: Any) -> Any:
        if isinstance(o.v, (list, str)):
            return x * len(o.v)
        return x if o.v is None else x + 1 if o.v is True else x - 1 if o.v is False else x * o.v

    f = c(f)
    values = [1.0, 2.0, 3.0, 4.0, None, None, 5.0, True, False, True, "a", "bb", [1], [1, 2], 6.0]
    for v in values:
        o.v = v
        yield f(x)
        if isinstance(v, list):
            v.append(3)
            yield f(x)


@pattern
def a_state_that_is_forgotten(c: Any, x: Any) -> Any:
    o = Plain(h=None)

    def f(x: Any) -> Any:
        o.h = x if o.h is None else o.h * 0.5 + x
        return o.h * 2

    f = c(f)
    for i in range(14):
        if i % 5 == 4:
            o.h = None
        yield f(x + i), o.h


@eager
def the_type_of_a_number(c: Any, x: Any) -> Any:
    o = Plain(v=1.0)
    f = c(lambda x: x * o.v if type(o.v) is float else x + 100)
    for i in range(8):
        o.v = float(i)
        yield f(x)


@pattern
def options_that_change_the_formula(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        g = o.opt.param_groups[0]
        g["weight_decay"] = 0.1 if not g["weight_decay"] else 0
        g["amsgrad"] = not g["amsgrad"]

    yield from training(c, x, adam, change, at=(2, 5), n=8)


@pattern
def betas(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        o.opt.param_groups[0]["betas"] = (0.5, 0.9)

    yield from training(c, x, adam, change)


@pattern
def a_learning_rate_that_is_a_tensor(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        o.opt.param_groups[0]["lr"] = pf.tensor(0.01, device=x.device)

    yield from training(c, x, sgd, change, n=8)


@pattern
def a_group_that_is_added(c: Any, x: Any) -> Any:
    net = mlp(x)
    opt = optim.SGD(net[0].parameters(), lr=0.1)

    @c
    def step(x: Any) -> Any:
        opt.zero_grad()
        net(x).square().mean().backward()
        opt.step()
        return net[2].weight.sum() + net[0].weight.sum()

    yield from turns(step, x, change=lambda i: opt.add_param_group(
        {"params": list(net[2].parameters()), "lr": 0.5}), at=(3,))  # fmt: skip


@pattern
def a_group_that_is_replaced(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        o.opt.param_groups[0] = {**o.opt.param_groups[0], "lr": 0.01}

    yield from training(c, x, adam, change, at=(2, 4))


@pattern
def groups_that_are_replaced(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        g = o.opt.param_groups[0]
        half = len(g["params"]) // 2
        o.opt.param_groups = [{**g, "params": g["params"][:half]},
                              {**g, "params": g["params"][half:], "lr": 0.5}]  # fmt: skip

    yield from training(c, x, adam, change)


@pattern
def a_parameter_that_leaves_its_group(c: Any, x: Any) -> Any:
    yield from training(c, x, sgd, lambda o: o.opt.param_groups[0]["params"].pop())


@pattern
def an_optimizer_that_is_replaced(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        o.opt = sgd(o.net.parameters())

    yield from training(c, x, adam, change)


@pattern
def state_that_is_cleared(c: Any, x: Any) -> Any:
    yield from training(c, x, adam, lambda o: o.opt.state.clear())


@pattern
def state_that_is_replaced(c: Any, x: Any) -> Any:
    kept = []

    def change(o: Any) -> None:
        kept.append(o.opt.state)  # the old moments stay alive
        for s in o.opt.state.values():
            kept.append(s["exp_avg"])
            s["exp_avg"] = pf.zeros_like(s["exp_avg"])

    yield from training(c, x, adam, change)


@pattern
def an_optimizers_state_that_is_loaded(c: Any, x: Any) -> Any:
    def change(o: Any) -> None:
        state = copy.deepcopy(o.opt.state_dict())
        o.opt.load_state_dict(state)

    yield from training(c, x, adam, change)


@pattern
def an_optimizer_of_the_users(c: Any, x: Any) -> Any:
    class Sign(optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def _update(self, group: Any, params: Any) -> None:
            for p in params:
                p.sub_(p.grad.sign() * group["lr"])

    def change(o: Any) -> None:
        o.opt.param_groups[0]["lr"] *= 0.5

    yield from training(c, x, lambda p: Sign(p, 0.1), change, at=range(8), n=8)


@pattern
def updates_by_hand(c: Any, x: Any) -> Any:
    net, o = mlp(x), Plain(lr=0.1, mom=0.9)
    velocity = [pf.zeros_like(p) for p in net.parameters()]

    @c
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        grads = pf.autograd.grad(loss, list(net.parameters()))
        with pf.no_grad():
            for p, v, g in zip(net.parameters(), velocity, grads, strict=True):
                v.mul_(o.mom).add_(g)
                p.sub_(v * o.lr)
        return loss.detach()

    for i in range(8):
        o.lr = 0.1 / (i + 1)
        yield step(x)


@pattern
def two_nets_in_turns(c: Any, x: Any) -> Any:
    nets = [mlp(x), mlp(x)]
    opts = [adam(n.parameters()) for n in nets]
    o = Plain(k=0)

    @c
    def step(x: Any) -> Any:
        opts[o.k].zero_grad()
        loss = nets[o.k](x).square().mean()
        loss.backward()
        opts[o.k].step()
        return loss.detach()

    for i in range(8):
        o.k = i % 2
        yield step(x)


@pattern
def accumulation_every_second_step(c: Any, x: Any) -> Any:
    net = mlp(x)
    o = Plain(n=0, opt=sgd(net.parameters()))

    @c
    def step(x: Any) -> Any:
        net(x).square().mean().backward()
        o.n += 1
        if o.n % 2 == 0:
            o.opt.step()
            o.opt.zero_grad()
        return net[0].weight.sum()

    for i in range(10):
        yield step(x + i), o.n


@pattern
def a_trainer_class(c: Any, x: Any) -> Any:
    class Trainer:
        def __init__(self) -> None:
            self.net, self.step_number, self.smooth = mlp(x), 0, None
            self.opt, self.name = adam(self.net.parameters()), "trainer"
            self.train_step = c(self.train_step)  # type: ignore[method-assign]

        def train_step(self, x: Any) -> Any:
            self.opt.zero_grad()
            loss = self.loss(x)
            loss.backward()
            self.opt.step()
            self.step_number += 1
            detached = loss.detach()
            old = detached if self.smooth is None else self.smooth
            self.smooth = old * 0.9 + detached * 0.1
            return detached

        def loss(self, x: Any) -> Any:
            return self.net(x).square().mean() * self.weight

        weight = 1.0

    t = Trainer()
    for i in range(9):
        if i == 6:
            t.weight = 0.5
        yield t.train_step(x), t.smooth, t.step_number


# --- host data


@pattern
def an_array_that_is_changed(c: Any, x: Any) -> Any:
    a = np.arange(3, dtype=np.float32)
    f = c(lambda x: x + pf.tensor(a, device=x.device))
    for i in range(8):
        a += i
        yield f(x)


@pattern
def an_array_that_shares_memory(c: Any, x: Any) -> Any:
    a = np.arange(3, dtype=np.float32)
    if x.device.type != "cpu":
        return
    f = c(lambda x: x + pf.from_numpy(a))
    for i in range(8):
        a += i
        yield f(x)


@pattern
def an_array_that_is_rebound(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x + pf.tensor(o.a, device=x.device))
    for i in range(8):
        o.a = o.a + i
        yield f(x)


@pattern
def a_part_of_an_array(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(12, dtype=np.float32).reshape(4, 3))
    f = c(lambda x: x + pf.tensor(o.a[1], device=x.device))
    for i in range(8):
        o.a[1] += i
        yield f(x)


@pattern
def a_large_array(c: Any, x: Any) -> Any:
    o = Plain(a=np.zeros((40000, 3), np.float32))
    f = c(lambda x: x + pf.tensor(o.a[:1], device=x.device))
    for i in range(8):
        o.a[0] += i
        yield f(x)


@eager
def an_array_whose_numbers_are_read(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x * float(o.a[1]))
    for i in range(8):
        o.a += i
        yield f(x)


@eager
def an_array_that_is_read_and_made_a_tensor(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: pf.tensor(o.a, device=x.device) + (x if o.a[0] > 3 else -x))
    for i in range(8):
        o.a += i
        yield f(x)


@eager
def a_large_array_whose_numbers_are_read(c: Any, x: Any) -> Any:
    o = Plain(a=np.zeros(40000, np.float32))
    f = c(lambda x: x * float(o.a.sum()))
    for i in range(4):
        o.a[0] += i
        yield f(x)


@eager
def an_array_that_numpy_turns_into_a_plain_one(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x * float(np.asarray(o.a)[1]))
    for i in range(8):
        o.a += i
        yield f(x)


@eager
def arrays_in_a_list_that_is_made_a_tensor(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x + pf.tensor([o.a, o.a], device=x.device))
    for i in range(8):
        o.a += i
        yield f(x)


@eager
def a_buffer_of_an_array(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x * memoryview(o.a)[1])
    for i in range(8):
        o.a += i
        yield f(x)


@eager
def sums_and_comparisons_of_an_array(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x * (2 if (o.a + 1 > 5).any() else 3))
    for i in range(8):
        o.a += i
        yield f(x)


@pattern
def an_array_beside_a_tensor(c: Any, x: Any) -> Any:
    o = Plain(a=np.arange(3, dtype=np.float32))
    f = c(lambda x: x * o.a + pf.as_tensor(o.a[1:], device=x.device).sum())
    for i in range(8):
        o.a += i
        yield f(x)


@pattern
def an_argument_that_is_read_from_outside_too(c: Any, x: Any) -> Any:
    y, o = x + 100, Plain(t=x)
    f = c(lambda a: a.sum() + o.t.mean() * 1000)
    for a in (x, x, y, y, x, y):
        yield f(a)


@pattern
def handles_on_an_argument(c: Any, x: Any) -> Any:
    f = c(lambda a: a.detach() * 2 + a.data.view(-1)[0] + a.reshape(3, 2).sum())
    for i in range(4):
        yield f(x + i)


@pattern
def a_part_of_what_is_read_from_outside(c: Any, x: Any) -> Any:
    big = pf.cat([x + i for i in range(6)])
    f = c(lambda a, b: (a * b + big.mean(), b))
    for i in range(4):
        yield f(big[i : i + 2], big[i + 1 : i + 3])
    other = big * 2
    for i in range(4):
        yield f(other[i : i + 2], big[i + 1 : i + 3])


@pattern
def memory_that_is_written_to_through_another_name(c: Any, x: Any) -> Any:
    y, o = x + 100, Plain(t=x.clone())

    def f(a: Any) -> Any:
        a.mul_(2)
        return o.t.sum()

    f = c(f)
    for a in (y, y, o.t, o.t, y):
        yield f(a), a


@pattern
def views_of_one_tensor_are_told_apart(c: Any, x: Any) -> Any:
    f = c(lambda a, b: (b, a[0], a * b))
    for i in range(4):
        big = x + i
        yield f(big[0], big[1])
        yield f(big[1], big[0])


@pattern
def slices_that_move(c: Any, x: Any) -> Any:
    big = pf.cat([x + i for i in range(6)])
    w = pf.ones(3, device=x.device, requires_grad=True)

    def f(a: Any, b: Any) -> Any:
        out = (a.t() * w[0]).sum() + (b @ w).sum()
        out.backward()
        return out.detach(), a.reshape(-1)[1:], b[:, 1]

    f = c(f)
    for i in range(6):
        yield f(big[i : i + 2], big[i + 3 : i + 6]), w.grad
        yield f(big[i : i + 4 : 2], big[i : i + 3].flip(0)), w.grad
        yield f(big[:, i % 2 : i % 2 + 2][i : i + 2], big[i : i + 3]), w.grad


@pattern
def slices_that_are_written_to(c: Any, x: Any) -> Any:
    big = pf.cat([x + i for i in range(6)])
    f = c(lambda a: a.add_(1).sum() * 2)
    for i in (0, 1, 0, 2, 0):
        yield f(big[i : i + 2]), big


@pattern
def where_a_slice_begins(c: Any, x: Any) -> Any:
    big = pf.cat([x + i for i in range(6)])
    f = c(lambda a: a.sum() * a.storage_offset())
    for i in (0, 1, 0, 2, 0):
        yield f(big[i : i + 2])


@pattern
def a_list_that_is_made_a_tensor(c: Any, x: Any) -> Any:
    weights = [1.0, 2.0, 3.0]
    f = c(lambda x: x * pf.tensor(weights, device=x.device))
    yield from (f(x), f(x))
    weights[1] = 5.0
    yield from (f(x), f(x))
    weights[:] = [7.0, 7.0, 7.0]
    yield from (f(x), f(x))


@pattern
def a_number_that_is_made_a_tensor(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: x * pf.tensor(o.t, device=x.device) + pf.full((3,), o.t, device=x.device))
    for i in range(8):
        o.t = 1.0 + i
        yield f(x)


# --- modes


@pattern
def modes_of_pyframe(c: Any, x: Any) -> Any:
    w = pf.ones(3, device=x.device, requires_grad=True)
    f = c(lambda x: x * w)
    yield f(x).requires_grad, f(x).requires_grad
    with pf.no_grad():
        yield f(x).requires_grad, f(x).requires_grad
    with pf.inference_mode():
        yield f(x).is_inference(), f(x).is_inference()
    yield f(x).requires_grad, f(x).is_inference()


@pattern
def the_default_dtype_and_device(c: Any, x: Any) -> Any:
    if x.device.type != "cpu":
        return
    f = c(lambda x: x + pf.ones(3))
    yield f(x).dtype, f(x).dtype
    pf.set_default_dtype(pf.float64)
    try:
        yield f(x).dtype, f(x).dtype
    finally:
        pf.set_default_dtype(pf.float32)
    yield f(x).dtype


@pattern
def a_compiled_function_within_another(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    inner = c(lambda x: x * o.t)
    f = c(lambda x: inner(x) + 1)
    for t in (1.0, 1.0, 2.0, 2.0, 3.0):
        o.t = t
        yield f(x), inner(x)


@pattern
def vmap_inside(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: pf.vmap(lambda row: row * o.t + row.sum())(x))
    for i in range(8):
        o.t = 1.0 + i
        yield f(x)


@pattern
def grad_inside(c: Any, x: Any) -> Any:
    o = Plain(t=1.0)
    f = c(lambda x: pf.func.grad(lambda y: (y**2).sum() * o.t)(x))
    for i in range(8):
        o.t = 1.0 + i
        yield f(x)


@pattern
def a_function_of_autograd(c: Any, x: Any) -> Any:
    class Scaled(pf.autograd.Function):
        k = 2.0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * Scaled.k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * Scaled.k

    def f(x: Any) -> Any:
        y = x.detach().requires_grad_()
        (g,) = pf.autograd.grad(Scaled.apply(y).sum(), y)
        return g

    yield from turns(c(f), x, change=lambda i: setattr(Scaled, "k", float(i)))


@pattern
def code_that_is_executed(c: Any, x: Any) -> Any:
    space: dict[str, Any] = {"k": 2.0}
    exec("def g(x):\n    return x * k\n", space)
    f = c(lambda x: space["g"](x))
    yield from turns(f, x, change=lambda i: space.update(k=float(i)))


@pattern
def a_history_that_keeps_tensors_of_host_data(c: Any, x: Any) -> Any:
    w = pf.ones(5, 3, device=x.device).requires_grad_()
    o = types.SimpleNamespace(rows=np.array([0, 1]))

    def f(x: Any) -> Any:
        places = pf.arange(2, device=x.device)
        rows = pf.tensor(o.rows, device=x.device)
        return (x * w[places] * w[rows]).sum()

    f = c(f)
    for i in range(5):
        o.rows = np.array([i, (2 * i) % 5])
        w.grad = None
        loss = f(x)
        loss.backward()
        yield loss, w.grad


# --- running them


def plain(value: Any) -> Any:
    """A picture of what a pattern saw, taken at once: later calls may write over it."""
    if isinstance(value, pf.Tensor):
        return np.array(value.numpy(force=True))
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def same(a: Any, b: Any, what: str) -> None:
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray), what
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        tolerance = 2e-3 if a.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance / 10, err_msg=what)
    elif isinstance(a, list):
        assert len(a) == len(b), what
        for x, y in zip(a, b, strict=True):
            same(x, y, what)
    else:
        assert a == b or a is b, (what, a, b)


@eager
def a_tensor_that_is_turned_each_time(wrap: Any, x: Any) -> Iterator[Any]:
    table = x * 1

    def step(x: Any) -> Any:
        table.t_()
        return x * 2

    f = wrap(step)
    for _ in range(4):
        yield f(x), table.clone()


@eager
def a_tensor_that_gains_a_dim_and_is_written(wrap: Any, x: Any) -> Iterator[Any]:
    table = x.sum()

    def step(x: Any) -> Any:
        table[...] = 0.25
        table.unsqueeze_(0)
        return x * 2

    f = wrap(step)
    for _ in range(4):
        yield f(x), table.clone()


OWN_DEVICE = {
    "a_number_in_float16", "an_array_that_shares_memory", "the_default_dtype_and_device",
}  # fmt: skip


def run(name: str, device: str) -> None:
    """AssertionError unless a pattern gives what it gives without pf.compile, call by call. That is
    computed on the CPU where that gives the same: a driver would compile as many kernels again."""
    fn, how = PATTERNS[name]
    x = pf.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.5]], device=device)
    made: list[Any] = []

    def wrap(f: Any) -> Any:
        made.append(pf.compile(f))
        return made[-1]

    want = [plain(v) for v in fn(lambda f: f, x if name in OWN_DEVICE else x.cpu())]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        got = [plain(v) for v in fn(wrap, x)]
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        same(a, b, f"call {i}")
    texts = [str(w.message) for w in told if issubclass(w.category, RuntimeWarning)]
    if how == EAGER:
        assert len(texts) == 1, texts
        assert "runs eagerly" in texts[0]
        assert re.search(r"stale_patterns\.py:\d+", texts[0]), texts[0]
    elif want:
        assert not texts, texts
        assert any(f.replayed for f in made), "no replay"
