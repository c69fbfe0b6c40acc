"""Attacks by computing: shapes, programs with outside state, numbers at the edges."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from jobs import same

import pyframe as pf
from pyframe import nn
from pyframe.capture.compile import MAX_CAPTURES, MAX_SIZES

# --- shapes

FUNCTIONS = [
    "(x * 2 + y).sum(-1)", "x.softmax(-1) - y", "pf.cat([x, y], 0)", "(x @ y.mT).tanh()",
    "x.amax(0) + y.mean(0)", "x.cumsum(-1) * y", "x.sort(-1).values + 0 * y", "x.flip(0) - y.mT.mT",
    "pf.where(x > y, x, y).reshape(-1)", "x[..., ::2] * y[..., ::2]", "(x - x.mean()).square() + y",
    "pf.stack([x, y], -1).flatten(-2)", "x.std(-1, keepdim=True, correction=0) * y",
    "F.layer_norm(x, x.shape[-1:]) + y", "F.pad(x, (1, 2)).sum(0) + F.pad(y, (1, 2)).sum(0)",
    "x.mul_(0.5).add_(y).sum()", "y.copy_(x).exp().sum(-1)",
]  # fmt: skip
SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 17, 33, 64, 130]
KEPT = 32 << 20  # bytes that a device may keep more of than before


def cut(rng: random.Random, x: pf.Tensor) -> str:
    """The text of a view of `x` with two dims at least, which overlaps nowhere."""
    parts = [rng.choice(["", "1:", ":-1", "::2", "1::3", "-1:"]) if n > 3 else "" for n in x.shape]
    text = f"[{', '.join(p or ':' for p in parts)}]"
    if x.ndim == 3 and rng.random() < 0.3:
        text += f"[{rng.randrange(x.shape[0] // 3 + 1)}]" if not parts[0] else ".movedim(0, 1)"
    return text + rng.choice(["", "", ".mT", ".unsqueeze(0)", ".flatten(0, -2)"])


def shapes(rng: random.Random, device: str) -> None:
    """A compiled function of views of all shapes gives what the CPU gives eagerly in float64; what
    is kept for it is bounded."""
    text = rng.choice(FUNCTIONS)
    f = eval(f"lambda x, y: {text}", {"pf": pf, "F": nn.functional})
    fast, stats = pf.compile(f), pf.device(device).backend.stats
    pf.flush()
    gc.collect()
    live, pooled = stats.bytes_live, stats.bytes_pooled
    some = [[rng.choice(SIZES)] * 2, [rng.choice(SIZES) for _ in range(rng.choice([2, 3]))]]
    for _ in range(MAX_CAPTURES + 4):
        data = np.random.default_rng(rng.randrange(1 << 30))
        shape = rng.choice(some)
        bases = [data.standard_normal(shape).astype(np.float32) for _ in "xy"]
        view = cut(rng, pf.empty(shape))
        results = []
        for call, dtype, place in ((f, pf.float64, "cpu"), (fast, pf.float32, device)):
            own = [pf.tensor(b, dtype=dtype, device=place) for b in bases]
            seen = [eval(f"b{view}", {"b": b}) for b in own]
            out = call(*seen)
            results.append([t.cpu().tolist() for t in (out, *own)])
        for got, want in zip(*reversed(results), strict=True):
            same(got, want, f"{text} of {shape}{view}", 1e-4 * math.prod(shape) ** 0.5)
    del own, seen, out, call
    kept = [r.sizes is None for some in fast.replays.values() for r in some]
    fixed, sized = kept.count(True), kept.count(False)
    assert fixed <= MAX_CAPTURES, f"{text}: {fixed} captures are kept"
    assert sized <= MAX_SIZES, f"{text}: {sized} sizes are bound"
    del fast
    gc.collect()
    pf.flush()
    assert stats.bytes_live <= live + (1 << 20), f"{text}: {stats.bytes_live - live} bytes leaked"
    assert stats.bytes_pooled < pooled + KEPT, f"{text}: {stats.bytes_pooled} bytes are pooled"
    loaded = len(getattr(pf.device(device).executor, "programs", ()))
    assert loaded < 1024, f"{loaded} programs are kept"


# --- programs with outside state

LINES = [
    "x = x * s.number", "x = x + len(s.items)", "x = x + s.items[-1]", "x = x * s.named['a']",
    "x = x if s.flag else -x", "x = x + s.tensor", "x = (x @ s.weight).tanh()", "s.count += 1",
    "x = x / (1 + s.count)", "s.tensor.mul_(0.5).add_(x.detach().mean())", "x = s.net(x)",
    "s.kept = x.detach().sum()", "x = x + s.kept", "x = x + pf.tensor(s.array)", "x = s.fn(x)",
    "for v in s.items: x = x + v", "x = x - s.opt.param_groups[0]['lr']", "s.array[0] += 1",
    "x = F.dropout(x, 0.5, s.flag)", "x = x + pf.rand(3, device=x.device)", "x = x + GLOBAL",
    "s.named['a'] = s.named['a'] + 0.5", "x = x * (2 if s.number > 1 else 3)", "x = x + shift",
    "s.items[0] = s.items[0] + 1", "x = x * float(s.word == 'on')", "x = x.relu() + s.net.bias",
    "s.opt.zero_grad(); (x.square().mean() + s.net(x).square().mean()).backward(); s.opt.step()",
    "x = x + (0 if s.net.weight.grad is None else s.net.weight.grad.sum())", "s.word += 'n'",
    "x = x + s.pair[1]", "s.tensor = s.tensor + 1", "x = x * 0.5 + x.mean(0)", "x = x.clone()",
]  # fmt: skip
CHANGES = [
    "s.number = {r}", "s.items.append({r})", "s.items.pop() if len(s.items) > 1 else None",
    "s.named['a'] = {r}", "s.flag = not s.flag", "s.tensor = s.tensor * {r}", "s.array[1] = {r}",
    "s.tensor.add_({r})", "s.weight.data = s.weight.data * 0.9", "s.fn = pf.cos", "s.fn = pf.sin",
    "s.opt.param_groups[0]['lr'] = {r} / 10", "s.net.train(not s.net.training)", "s.word = 'on'",
    "s.net = type(s.net)(3, 3).to(s.net.weight.device)", "x = x[:2]", "x = x0", "s.count = 0",
    "s.net.weight.requires_grad_(not s.net.weight.requires_grad)", "x = x * {r}", "pass", "pass",
    "globals().update(GLOBAL={r})", "s.net.weight.grad = None", "s.pair = (0, {r})",
    "s.array = s.array * 2", "with pf.no_grad(): s.net.bias.fill_({r})", "s.kept = {r}",
]  # fmt: skip


def program(lines: list[str], changes: list[str], device: str, wrap: Any) -> list[Any]:
    """What calls with changes in between give and leave behind, or the type of what they raise."""
    pf.manual_seed(3)
    names: dict[str, Any] = {"pf": pf, "F": nn.functional, "GLOBAL": 0.25}
    exec(compile("\n  ".join(["def make(s, shift):\n  def step(x):", *[f"  {v}" for v in lines],
                              "  return x", "return step"]), "<soak>", "exec"), names)  # fmt: skip
    net = nn.Linear(3, 3).to(device)
    s = SimpleNamespace(
        number=1.5, items=[0.5, 2], named={"a": 0.5}, flag=True, count=0, word="on", pair=(1, 2.0),
        tensor=pf.ones(3, device=device), weight=pf.eye(3, device=device) * 0.5, net=net,
        kept=0.0, array=np.arange(3, dtype=np.float32), fn=pf.tanh,
        opt=pf.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
    )  # fmt: skip
    step = wrap(names["make"](s, 0.75))
    names |= {"s": s, "x0": pf.linspace(-1, 1, 12, device=device).reshape(4, 3)}
    names["x"] = names["x0"]
    got: list[Any] = []
    for change in changes:
        exec(change, names)
        try:
            got.append(step(names["x"]).detach().cpu().numpy().copy())
        except RuntimeError as error:  # what requires no grad has no backward pass
            got.append(type(error).__name__)
        kept = [s.tensor, s.kept, s.net.weight, s.net.bias]
        got += [np.array(v.detach().cpu() if isinstance(v, pf.Tensor) else v) for v in kept]
        numbers = [s.count, len(s.word), *s.named.values()]
        got += [np.array(numbers), np.array(s.items), s.array.copy()]
    return got


def compiled(rng: random.Random, device: str) -> None:
    """Random lines that read and write state outside: compiled is as eager, call by call."""
    lines = rng.choices(LINES, k=rng.randint(2, 7))
    changes = [rng.choice(CHANGES).format(r=round(rng.uniform(0.2, 2), 2)) for _ in range(8)]
    changes = [c for c in changes for _ in range(rng.choice([1, 1, 2]))]
    want, got = (program(lines, changes, device, wrap) for wrap in (lambda f: f, pf.compile))
    assert len(want) == len(got)
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        what = f"value {k % 8} of call {k // 8}: {'; '.join(lines)} // {' | '.join(changes)}"
        if isinstance(a, str) or isinstance(b, str):
            assert str(a) == str(b), f"{what}: eager {a}, compiled {b}"
        else:
            same(b, a, what, 1e-3)


# --- numbers


def double(f: Callable[..., Any]) -> Callable[..., Any]:
    return np.vectorize(f, otypes=[np.float64])


# The oracle in float64, and by how many ulps float32 may be off it
ULPS: dict[str, tuple[Callable[..., Any], int]] = {
    "square": (np.square, 4), "reciprocal": (np.reciprocal, 4), "sqrt": (np.sqrt, 4),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 4), "log": (np.log, 4), "log2": (np.log2, 4),
    "log10": (np.log10, 4), "log1p": (np.log1p, 4), "sin": (np.sin, 4), "cos": (np.cos, 4),
    "tan": (np.tan, 8), "asin": (np.arcsin, 8), "acos": (np.arccos, 8), "atan": (np.arctan, 8),
    "exp": (np.exp, 8), "exp2": (np.exp2, 8), "tanh": (np.tanh, 8), "asinh": (np.arcsinh, 8),
    "acosh": (np.arccosh, 8), "atanh": (np.arctanh, 8),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 8), "expm1": (np.expm1, 16),
    "sinh": (np.sinh, 16), "cosh": (np.cosh, 16),
    "erf": (double(math.erf), 16), "erfc": (double(math.erfc), 16),
    "add": (np.add, 1), "sub": (np.subtract, 1), "mul": (np.multiply, 1), "div": (np.divide, 4),
    "pow": (np.power, 8), "atan2": (np.arctan2, 8), "hypot": (np.hypot, 8), "fmod": (np.fmod, 0),
    "maximum": (np.maximum, 0), "minimum": (np.minimum, 0), "fmax": (np.fmax, 0),
    "fmin": (np.fmin, 0), "abs": (np.abs, 0), "floor": (np.floor, 0), "ceil": (np.ceil, 0),
    "round": (np.round, 0), "trunc": (np.trunc, 0), "sign": (lambda x: 1.0 * (x > 0) - (x < 0), 0),
}  # fmt: skip
EXACT = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "signbit": np.signbit, "logical_and": np.logical_and, "logical_xor": np.logical_xor,
}  # fmt: skip
INTS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod, "sign": np.sign,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert, "maximum": np.maximum, "minimum": np.minimum, "gcd": np.gcd,
    "lt": np.less, "eq": np.equal, "square": np.square,
}  # fmt: skip
# The oracle along dim 1, and how far off it may be, as a share of the size (of the numbers' sum)
FOLDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "sum": (lambda x: x.sum(1), lambda x: np.abs(x).sum(1), 1e-6),
    "mean": (lambda x: x.mean(1), lambda x: np.abs(x).mean(1), 1e-6),
    "var": (lambda x: x.var(1, ddof=1), lambda x: x.var(1, ddof=1), 1e-4),
    "std": (lambda x: x.std(1, ddof=1), lambda x: x.std(1, ddof=1), 1e-4),
    "cumsum": (lambda x: x.cumsum(1), lambda x: np.abs(x).cumsum(1), 1e-5),
    "norm": (lambda x: np.sqrt((x * x).sum(1)), lambda x: np.sqrt((x * x).sum(1)), 1e-5),
    "logsumexp": (lambda x: np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1),
                  lambda x: 1 + np.abs(x).max(1), 1e-6),
    "amax": (lambda x: x.max(1), lambda x: x.max(1), 0),
    "argmax": (lambda x: x.argmax(1), lambda x: x.argmax(1), 0),
}  # fmt: skip
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1.2e-38, -1.2e-38, 3.4e38, -3.4e38, 0.5, 2, 88.7,
     -87.4, 1e-30, 16777216, 16777217, 2147483648, np.pi], np.float32,
)  # fmt: skip


def ulps_off(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far float32 is from float64; 0 where both are too large, or too small for some GPUs."""
    size = np.maximum(np.abs(want), 2.0**-126)
    off = np.abs(got.astype(np.float64) - want) / 2.0 ** (np.floor(np.log2(size)) - 23)
    small = (np.abs(want) < 2.0**-125) & (np.abs(got) < 2.0**-125)
    large = (np.abs(want) > 3.3e38) & (np.abs(got) > 3.3e38) & (np.sign(got) == np.sign(want))
    equal = small | large | (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(equal, 0, np.where(np.isnan(off), np.inf, off))


def both(name: str, arrays: list[np.ndarray], device: str, *args: Any) -> list[np.ndarray]:
    """What a function gives eagerly, captured and replayed."""
    given = [pf.tensor(a, device=device) for a in arrays]
    function = getattr(pf, name)
    replay = pf.compile(lambda *xs: function(*xs, *args))
    calls = (lambda *xs: function(*xs, *args)), replay, replay
    return [call(*given).cpu().numpy() for call in calls]


def floats(rng: random.Random, n: int) -> np.ndarray:
    """Of all sizes alike; what some GPUs take for 0 is left out."""
    data = np.random.default_rng(rng.randrange(1 << 30))
    x = data.integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)
    x = np.where(data.random(n) < 0.5, data.normal(0, 4, n).astype(np.float32), x)
    x = np.where(data.random(n) < 0.1, data.choice(SPECIAL, n), x)
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


def elementwise(rng: random.Random, device: str) -> None:
    name = rng.choice([*ULPS, *EXACT])
    oracle, most = ULPS[name] if name in ULPS else (EXACT[name], 0)
    arrays = [floats(rng, 2000) for _ in range(count(oracle))]
    want = oracle(*[a.astype(np.float64) for a in arrays])
    for got, way in zip(both(name, arrays, device), ("eager", "captured", "replayed"), strict=True):
        off = ulps_off(got, want) if want.dtype == np.float64 else (got != want) * np.inf
        off = np.nan_to_num(off, nan=0.0, posinf=np.inf)  # 0 * inf: it is equal
        i = int(off.argmax())
        at = ", ".join(repr(float(a[i])) for a in arrays)
        seen = f"{got[i]}, wanted {want[i]} ({off[i]:.3g} ulps)"
        assert off[i] <= most, f"{name}({at}), {way}: {seen}"


def count(oracle: Any) -> int:
    """How many operands it takes."""
    return getattr(oracle, "nin", None) or 1


def integers(rng: random.Random, device: str) -> None:
    name, data = rng.choice([*INTS]), np.random.default_rng(rng.randrange(1 << 30))
    ends = np.array([0, 1, -1, 2, -(2**31), 2**31 - 1, 46341, -46341, 65536], np.int32)
    oracle = INTS[name]
    arrays = [np.where(data.random(500) < 0.4, data.choice(ends, 500),
                       data.integers(-(2**31), 2**31, 500)).astype(np.int32)
              for _ in range(count(oracle))]  # fmt: skip
    if name in ("floor_divide", "remainder", "fmod"):
        arrays[1] = np.where(arrays[1] == 0, 3, arrays[1]).astype(np.int32)
    if name == "gcd":  # 2**31 is no int32
        arrays = [np.maximum(a, -(2**31) + 1) for a in arrays]
    want = oracle(*arrays)
    for got in both(name, arrays, device):
        wrong = np.flatnonzero(got != want)[:1]
        seen = [(*[a[i] for a in arrays], got[i], want[i]) for i in wrong]
        assert not seen, f"{name} of int32 (operands, got, wanted): {seen[0]}"


def reductions(rng: random.Random, device: str) -> None:
    data = np.random.default_rng(rng.randrange(1 << 30))
    name, rows = rng.choice([*FOLDS]), rng.choice([1, 3, 40])
    n = rng.choice([1, 2, 31, 257, 1000, 4099, 70001] if rows < 40 else [2, 31, 257, 1000])
    if name in ("var", "std"):
        n = max(n, 31)
    x = data.standard_normal((rows, n)) + rng.choice([0, 1, 1e3, 1e4])
    x = (x * rng.choice([1, 1, 1e-3, 1e3])).astype(np.float32)
    oracle, size, share = FOLDS[name]
    want, scale = oracle(x.astype(np.float64)), size(x.astype(np.float64))
    extra = (2, 1) if name == "norm" else (1,)
    for got in both(name, [x], device, *extra):
        off = np.abs(got - want) / np.maximum(np.abs(scale), 1e-30)
        what = f"{name} of {x.shape}, mean {x.mean():.3g}"
        assert off.max() <= share, f"{what}: off by {off.max():.3g}"


def ones(rng: random.Random, device: str) -> None:
    """More ones than float32 can count one by one."""
    n = (1 << 24) + 2 * rng.randrange(40)
    x = pf.ones(n, device=device)
    sums = [x.sum(), x.mean() * n, pf.compile(pf.sum)(x), (x > 0).sum()]
    found = [v.item() for v in sums]
    assert found == [n] * 4, f"sums of {n} ones: {found}"


KINDS = [elementwise] * 12 + [integers] * 4 + [reductions] * 6


def numbers(rng: random.Random, device: str) -> None:
    """Elementwise in ulps of float64, ints that wrap, reductions over hard data."""
    with np.errstate(all="ignore"):
        for kind in rng.sample(KINDS, 3):
            kind(rng, device)
        if rng.random() < 0.05:
            ones(rng, device)
