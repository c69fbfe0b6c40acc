"""Programs that nobody thought of: eager and compiled, on the CPU and the GPU, they agree."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import pyframe as pf

Array = np.ndarray
FLOATS, KINDS = ("float32",), ("float32", "float32", "float32", "int32", "int64", "bool")
SHAPES = ((2, 3), (3,), (1, 3), (2, 1), (4, 2, 3), (2, 3, 1), (), (1,), (0, 3), (3, 3), (5, 7))
MOST = 1e3  # larger values are left out: they drown the others in rounding


class Step(NamedTuple):
    """A call on earlier values, by number; its result is the next value."""

    text: str
    call: Callable[..., Any]
    args: tuple[int, ...]


class Program:
    """Inputs and steps. The first `given` inputs are arguments, the others lie outside."""

    def __init__(self, rnd: random.Random, kinds: Sequence[str]) -> None:
        steps = rnd.randint(2, 14)
        rng = np.random.default_rng(rnd.randint(0, 10**6))
        self.kinds = kinds
        self.arrays = [array(rng, rnd.choice(SHAPES), rnd.choice(kinds)) for _ in range(4)]
        self.given = rnd.randint(0, 4)
        self.steps: list[Step] = []
        values = [pf.from_numpy(a.copy()) for a in self.arrays]
        for _ in range(steps * 4):
            if len(self.steps) == steps:
                break
            step = random_step(rnd, values)
            try:
                out = step.call(*[values[i] for i in step.args])
            except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
                continue  # shapes or dtypes that do not fit
            if isinstance(out, pf.Tensor) and out.dtype.name in kinds and tame(out):
                self.steps.append(step)
                values.append(out)
        made = range(len(self.arrays), len(values))
        self.kept = [i for i in made if rnd.random() < 0.5] or [len(values) - 1]

    def __repr__(self) -> str:
        names = [f"x{i}" for i in range(len(self.arrays) + len(self.steps))]
        lines = [
            f"{name} = {'argument' if i < self.given else 'outside'} {a.dtype}{list(a.shape)}"
            for i, (name, a) in enumerate(zip(names, self.arrays, strict=False))
        ]
        for name, s in zip(names[len(self.arrays) :], self.steps, strict=True):
            lines.append(f"{name} = {s.text.format(*[names[i] for i in s.args])}")
        return "\n".join([*lines, f"return {[names[i] for i in self.kept]}"])

    def values(self, inputs: Sequence[Any]) -> list[Any]:
        """All values, computed of `inputs`."""
        values = list(inputs)
        for s in self.steps:
            values.append(s.call(*[values[i] for i in s.args]))
        return values

    def tensors(self, device: str) -> list[Any]:
        return [pf.from_numpy(a.copy()).to(device) for a in self.arrays]

    def run(self, device: str, wrap: Callable[[Any], Any]) -> list[Array]:
        """What two calls return and leave behind in the inputs."""
        inputs = self.tensors(device)
        outside = inputs[self.given :]

        def work(*given: Any) -> list[Any]:
            values = self.values([*given, *outside])
            return [values[i] for i in self.kept]

        return calls(wrap(work), inputs[: self.given], inputs)

    def gradients(self, device: str, wrap: Callable[[Any], Any]) -> list[Array]:
        """The gradients by all inputs, after each of two calls that add to them."""
        inputs = [x.requires_grad_(x.dtype.is_floating_point) for x in self.tensors(device)]

        def work() -> list[Any]:
            values = self.values([x * 1 for x in inputs])
            loss = sum(
                (values[i] * 0.3).sum() for i in self.kept if values[i].dtype.is_floating_point
            )
            loss.backward()
            return [loss.detach()]

        return calls(wrap(work), [], [], lambda: [x.grad for x in inputs if x.grad is not None])


def calls(
    work: Callable[..., list[Any]], given: list[Any], inputs: list[Any],
    more: Callable[[], list[Any]] = list,
) -> list[Array]:  # fmt: skip
    """What two calls give; the second one of a compiled function is a replay."""
    got = []
    for _ in range(2):
        out = work(*given)
        got += [np.array(x.detach().cpu().numpy()) for x in [*out, *inputs, *more()]]
    return got


def array(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    if kind == "bool":
        return np.asarray(rng.random(shape) > 0.5)
    if kind == "float32":
        return np.asarray(rng.standard_normal(shape), np.float32)
    return np.asarray(rng.integers(-5, 6, shape), kind)


def tame(x: Any) -> bool:
    a = x.numpy()
    return a.size < 500 and bool(np.isfinite(a).all()) and float(np.abs(a).max(initial=0)) < MOST


# --- single steps


def random_step(rnd: Any, values: list[Any]) -> Step:
    """A call that may or may not fit: what raises is left out."""
    i = rnd.randrange(len(values))
    x = values[i]
    return rnd.choice(MAKERS)(rnd, values, i, x)


def unary(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    name, call = rnd.choice(UNARY)
    return Step(name, call, (i,))


def binary(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    name, call = rnd.choice(BINARY)
    return Step(name, call, (i, rnd.randrange(len(values))))


def choice(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    j, k = rnd.randrange(len(values)), rnd.randrange(len(values))
    return Step("where({} > 0.1, {}, {})", lambda c, a, b: pf.where(c > 0.1, a, b), (i, j, k))


def cast(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    kind = rnd.choice(KINDS)
    if kind == "bool":
        return Step("{} > 0.1", lambda x: x > 0.1, (i,))
    if kind == "float32" or not x.dtype.is_floating_point:
        return Step(f"{{}}.to({kind})", lambda x: x.to(getattr(pf, kind)), (i,))
    text = f"({{}} * 3.7 + 0.13).to({kind})"
    return Step(text, lambda x: (x * 3.7 + 0.13).to(getattr(pf, kind)), (i,))


def movement(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    text, call = random_view(rnd, x)
    return Step(f"{{}}{text}", call, (i,))


def pad(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    widths = [rnd.randint(0, 2) for _ in range(2 * min(x.ndim, 2))]
    fill = rnd.choice([0, 1])
    return Step(
        f"pad({{}}, {widths}, value={fill})",
        lambda x: pf.nn.functional.pad(x, widths, value=fill), (i,),
    )  # fmt: skip


def reduction(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    name = rnd.choice(["sum", "mean", "amax", "amin", "any", "all", "prod", "var"])
    dims = tuple(d - rnd.choice([0, x.ndim]) for d in range(x.ndim) if rnd.random() < 0.5)
    keep = rnd.random() < 0.5
    if not dims:
        return Step(f"{{}}.{name}()", lambda x: getattr(x, name)(), (i,))
    if name in ("any", "all", "prod"):
        dims = dims[0]
    text = f"{{}}.{name}({dims}, keepdim={keep})"
    return Step(text, lambda x: getattr(x, name)(dims, keepdim=keep), (i,))


def rows(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    d = rnd.randrange(max(x.ndim, 1))
    name, call = rnd.choice(ROWS)
    return Step(f"{name}({{}}, {d})", lambda x: call(x, d), (i,))


def product(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    if rnd.random() < 0.5:
        return Step("{0} @ {0}.mT", lambda x: x @ x.mT, (i,))
    return Step("{} @ {}", lambda x, y: x @ y, (i, rnd.randrange(len(values))))


def joined(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    d = rnd.randrange(max(x.ndim, 1))
    f = rnd.choice([pf.cat, pf.stack])
    j = rnd.randrange(len(values))
    return Step(f"{f.__name__}([{{0}}, {{1}}, {{0}}], {d})", lambda x, y: f([x, y, x], d), (i, j))


def written(rnd: Any, values: list[Any], i: int, x: Any) -> Step:
    """A write to a value or to a view of it; gives the whole."""
    text, view = random_view(rnd, x, False) if rnd.random() < 0.6 else ("", lambda x: x)
    name, write = rnd.choice(WRITES)

    def call(x: Any, y: Any) -> Any:
        write(view(x), y)
        return x

    return Step(f"{{0}}{text}{name}", call, (i, rnd.randrange(len(values))))


UNARY: list[tuple[str, Callable[..., Any]]] = [
    ("{}.tanh()", lambda x: x.tanh()),
    ("{}.relu()", lambda x: x.relu()),
    ("{}.sigmoid()", lambda x: x.sigmoid()),
    ("-{}", lambda x: -x),
    ("{}.abs().sqrt()", lambda x: (x.abs() + 0.1).sqrt()),
    ("{} * 0.5 + 2", lambda x: x * 0.5 + 2),
    ("1 - {}", lambda x: 1 - x),
    ("{}.detach()", lambda x: x.detach()),
    ("{0} * {0}", lambda x: x * x),
    ("{}.clone()", lambda x: x.clone()),
    ("{}.square().exp(-)", lambda x: (-x.square()).exp()),
]
BINARY: list[tuple[str, Callable[..., Any]]] = [
    ("{} + {}", lambda x, y: x + y),
    ("{} - {}", lambda x, y: x - y),
    ("{} * {}", lambda x, y: x * y),
    ("{} / (1 + abs({}))", lambda x, y: x / (1 + y.abs())),
    ("maximum({}, {})", lambda x, y: pf.maximum(x, y)),
    ("{} < {} + 0.1", lambda x, y: x < y + 0.1),
    ("({} == {}) * 1.0", lambda x, y: (x == y) * 1.0),
]
ROWS: list[tuple[str, Callable[..., Any]]] = [
    ("softmax", lambda x, d: x.softmax(d)),
    ("log_softmax", lambda x, d: x.log_softmax(d)),
    ("normalised", lambda x, d: (x - x.mean(d, keepdim=True)) / (x.std(d, keepdim=True) + 1)),
    ("centred", lambda x, d: x - x.sum(d, keepdim=True) / x.shape[d]),
    ("logsumexp", lambda x, d: x.logsumexp(d)),
]
WRITES: list[tuple[str, Callable[..., Any]]] = [
    (".mul_(0.5)", lambda v, y: v.mul_(0.5)),
    (".add_({1})", lambda v, y: v.add_(y)),
    (".copy_({1})", lambda v, y: v.copy_(y)),
    (".fill_(1)", lambda v, y: v.fill_(1)),
    (".tanh_()", lambda v, y: v.tanh_()),
    (".sub_({1}.sum())", lambda v, y: v.sub_(y.sum())),
]
MAKERS = [unary, unary, binary, binary, choice, cast, movement, movement, pad, reduction, reduction,
          rows, product, joined, written, written]  # fmt: skip


def random_view(rnd: Any, x: Any, any_kind: bool = True) -> tuple[str, Callable[[Any], Any]]:
    """The text and the call of a movement that fits `x`."""
    kind = rnd.randrange(6 if any_kind else 4)
    if kind == 0:
        dims = list(range(x.ndim))
        rnd.shuffle(dims)
        return f".permute({dims})", lambda x: x.permute(*dims)
    if kind == 1 and x.ndim:
        d = rnd.randrange(x.ndim)
        start = rnd.randint(0, max(x.shape[d] - 1, 0))
        step = rnd.choice([1, 1, 2])
        index = (slice(None),) * d + (slice(start, None, step),)
        return f"[{', '.join(':' for _ in range(d))}, {start}::{step}]", lambda x: x[index]
    if kind == 2 and x.ndim and x.shape[0]:
        k = rnd.randrange(x.shape[0])
        return f"[{k}]", lambda x: x[k]
    if kind == 4:
        d = rnd.randrange(max(x.ndim, 1))
        return f".flip({d})", lambda x: x.flip(d)
    if kind == 5:
        n = rnd.randint(1, 2)
        shape = (n, *x.shape) if rnd.random() < 0.5 else tuple(2 if m == 1 else m for m in x.shape)
        return f".expand({shape})", lambda x: x.expand(*shape)
    size = math.prod(x.shape)
    first = rnd.choice([d for d in range(1, max(size, 1) + 1) if size % d == 0])
    shape = (first, size // first) if any_kind else (size,)
    call = "reshape" if any_kind else "view"
    return f".{call}{shape}", lambda x: getattr(x, call)(*shape)


# --- the tests


def same(want: list[Array], got: list[Array], what: str) -> None:
    assert len(want) == len(got), what
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}, result {k}"
        if a.dtype.kind == "f":
            scale = max(float(np.abs(a).max(initial=0)), 1.0)
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=2e-5 * scale, err_msg=f"{what}, {k}")
        else:
            np.testing.assert_array_equal(b, a, err_msg=f"{what}, {k}")


def eager(fn: Any) -> Any:
    return fn


def agree(run: Callable[[str, Callable[[Any], Any]], list[Array]], devices: list[str]) -> None:
    """All ways to run give what the CPU gives eagerly; where that raises, they raise too."""
    try:
        want = run("cpu", eager)
    except RuntimeError as error:
        for device in devices:
            with pytest.raises(type(error)):
                run(device, pf.compile)
        return
    for device in devices:
        for name, wrap in (("eager", eager), ("compiled", pf.compile)):
            if (device, name) != ("cpu", "eager"):
                same(want, run(device, wrap), f"{name} on the {device}")


seeds = st.integers(0, 10**9).map(random.Random)  # of its own kind, hypothesis chooses alike
once = [HealthCheck.function_scoped_fixture]  # `gpu` only says that there is one


def check(program: Program, what: str, devices: list[str]) -> None:
    try:
        agree(getattr(program, what), devices)
    except BaseException as error:
        if hasattr(error, "add_note"):
            error.add_note(f"{program!r}")
        raise


@settings(max_examples=120, deadline=None, derandomize=True)
@given(seeds)
def test_values(rnd: random.Random) -> None:
    check(Program(rnd, KINDS), "run", ["cpu"])


@settings(max_examples=80, deadline=None, derandomize=True)
@given(seeds)
def test_gradients(rnd: random.Random) -> None:
    check(Program(rnd, FLOATS), "gradients", ["cpu"])


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=once)
@given(seeds)
def test_values_on_the_gpu(gpu: str, rnd: random.Random) -> None:
    check(Program(rnd, KINDS), "run", [gpu])


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=once)
@given(seeds)
def test_gradients_on_the_gpu(gpu: str, rnd: random.Random) -> None:
    check(Program(rnd, FLOATS), "gradients", [gpu])
