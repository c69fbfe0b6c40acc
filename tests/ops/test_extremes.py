"""Numbers at the edges: NaN and infinities, the largest and the smallest, far angles, long rows.

WGSL lets a compiler take it that no number is NaN, so the tables run on each device, eagerly and
compiled, and with numbers that the kernel gets and that it makes itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F

nan, inf = math.nan, math.inf
TINY, MOST = 1e-40, 3.4e38  # a GPU may take the first for 0
EDGES = np.array([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, TINY, -TINY, MOST, -MOST], np.float32)
PAIRS = [x.ravel() for x in np.meshgrid(EDGES, EDGES)]


def minus(t: Any, x: Any) -> Any:
    """Where the sign is set; NaN may have any."""
    return t.logical_and(t.signbit(x), x == x)


# fn(the module, its nn.functional, x, y)
COMPARED: dict[str, Callable[..., Any]] = {
    "eq": lambda t, f, x, y: x == y,
    "ne": lambda t, f, x, y: x != y,
    "lt": lambda t, f, x, y: x < y,
    "le": lambda t, f, x, y: x <= y,
    "gt": lambda t, f, x, y: x > y,
    "ge": lambda t, f, x, y: x >= y,
    "with_itself": lambda t, f, x, y: t.stack([x == x, x != x, x < x, x <= x, x > x, x >= x]),
    "with_zero": lambda t, f, x, y: t.stack([x == 0, x != 0, x < 0, x <= 0, x > 0, x >= 0]),
    "with_nan": lambda t, f, x, y: t.stack([x == nan, x != nan, x < nan, x >= nan]),
    "not": lambda t, f, x, y: t.stack([~(x < y), ~(x >= y), ~(x == y), ~(x != y)]),
    "of_sizes": lambda t, f, x, y: t.stack([x.abs() >= 0, x * x >= 0, x.exp() >= 0, x.sqrt() >= 0]),
    "bool": lambda t, f, x, y: x.bool(),
    "logical_and": lambda t, f, x, y: t.logical_and(x, y),
    "logical_or": lambda t, f, x, y: t.logical_or(x, y),
    "logical_xor": lambda t, f, x, y: t.logical_xor(x, y),
    "logical_not": lambda t, f, x, y: t.logical_not(x),
    "questions": lambda t, f, x, y: t.stack([x.isnan(), x.isinf(), x.isfinite(), t.isreal(x)]),
    "infinities": lambda t, f, x, y: t.stack([t.isposinf(x), t.isneginf(x), minus(t, x)]),
    "isclose": lambda t, f, x, y: t.isclose(x, y),
    "isclose_nan": lambda t, f, x, y: t.isclose(x, y, equal_nan=True),
    "isin": lambda t, f, x, y: t.isin(x, t.tensor([nan, inf, 1.0], dtype=x.dtype, device=x.device)),
}  # fmt: skip
CHOSEN: dict[str, Callable[..., Any]] = {
    "maximum": lambda t, f, x, y: t.maximum(x, y),
    "minimum": lambda t, f, x, y: t.minimum(x, y),
    "fmax": lambda t, f, x, y: t.fmax(x, y),
    "fmin": lambda t, f, x, y: t.fmin(x, y),
    "clamp": lambda t, f, x, y: x.clamp(-0.5, 0.5),
    "clamp_tensors": lambda t, f, x, y: x.clamp(y, t.ones_like(y)),
    "clamp_nan": lambda t, f, x, y: x.clamp(max=nan),
    "where": lambda t, f, x, y: t.where(x > y, x, y),
    "where_same": lambda t, f, x, y: t.where(x == x, x, 7.0),
    "masked_fill": lambda t, f, x, y: x.masked_fill(x != x, 5.0),
    "relu": lambda t, f, x, y: t.relu(x),
    "relu6": lambda t, f, x, y: f.relu6(x),
    "leaky_relu": lambda t, f, x, y: f.leaky_relu(x, 0.5),
    "hardtanh": lambda t, f, x, y: f.hardtanh(x),
    "hardshrink": lambda t, f, x, y: f.hardshrink(x),
    "softshrink": lambda t, f, x, y: f.softshrink(x),
    "threshold": lambda t, f, x, y: f.threshold(x, 0.5, 9.0),
    "hardsigmoid": lambda t, f, x, y: f.hardsigmoid(x),
    "sign": lambda t, f, x, y: t.stack([t.sign(x), t.sgn(x)]),
    "frac": lambda t, f, x, y: t.frac(x),
    "neg": lambda t, f, x, y: minus(t, -x),
    "abs": lambda t, f, x, y: minus(t, x.abs()),
    "nan_to_num": lambda t, f, x, y: t.nan_to_num(x, 3.0),
    "nan_to_num_all": lambda t, f, x, y: t.nan_to_num(x, 3.0, 4.0, 5.0),
    "angle": lambda t, f, x, y: t.angle(x),
    "lerp": lambda t, f, x, y: t.stack([t.lerp(x, y, w) for w in (0.0, 0.5, 1.0)]),
    "lerp_tensor": lambda t, f, x, y: t.lerp(x, y, t.where(x > y, 0.0, 1.0)),
    "heaviside": lambda t, f, x, y: t.heaviside(x, y),
    "copysign": lambda t, f, x, y: t.copysign(x, y.nan_to_num(1.0)),
    "nextafter": lambda t, f, x, y: t.nextafter(x, y),
    "sum": lambda t, f, x, y: x + y,
    "difference": lambda t, f, x, y: x - y,
    "nothing": lambda t, f, x, y: t.stack([x - x, x + (-x), x + 1 - x]),
    "product": lambda t, f, x, y: x * y,
    "quotient": lambda t, f, x, y: x / y,
    "floor_divide": lambda t, f, x, y: x // y,
}  # fmt: skip


def made(v: np.ndarray) -> list[np.ndarray]:
    """Two arrays whose quotient is `v`: NaN is 0 / 0, inf is 1 / 0."""
    top = np.where(np.isnan(v), 0, np.where(np.isinf(v), np.sign(v), v)).astype(v.dtype)
    return [top, np.where(np.isfinite(v), 1, 0).astype(v.dtype)]


def flushed(v: np.ndarray) -> np.ndarray:
    least = 2.0**-14 if v.dtype == np.float16 else 2.0**-126
    return np.where(np.abs(v) < least, np.copysign(v.dtype.type(0), v), v)


def agree(got: np.ndarray, wants: list[np.ndarray], *shown: np.ndarray) -> None:
    """Each number is that of one of `wants`."""
    fits = np.zeros(got.shape, bool)
    for want in wants:
        assert got.dtype == want.dtype
        fits |= (got == want) | ((got != got) & (want != want))
    at = np.argwhere(~fits)[:5]
    seen = [(*[s[i[-1]] for s in shown], got[tuple(i)], wants[0][tuple(i)]) for i in at]
    assert not len(at), f"(operands…, got, wanted): {seen}"


def both(fn: Any, torch: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """PyTorch's results of the numbers, and of those with 0 for what a GPU may take for 0."""
    flat = [flushed(a) for a in arrays]
    calls = [arrays, flat, [arrays[0], *flat[1:]], [flat[0], *arrays[1:]]]
    out = [fn(torch, torch.nn.functional, *map(torch.from_numpy, xs)).numpy() for xs in calls]
    return out + [flushed(o) for o in out if o.dtype.kind == "f"]


@pytest.mark.parametrize("name", [*COMPARED, *CHOSEN])
def test_pairs(name: str, device: str, torch: Any) -> None:
    fn = {**COMPARED, **CHOSEN}[name]
    x, y = PAIRS
    wants = both(fn, torch, x, y)
    p, q, r, s = (pf.from_numpy(v).to(device) for v in (*made(x), *made(y)))
    agree(fn(pf, F, *(pf.from_numpy(v).to(device) for v in PAIRS)).cpu().numpy(), wants, x, y)
    agree(fn(pf, F, p / q, r / s).cpu().numpy(), wants, x, y)
    compiled = pf.compile(lambda p, q, r, s: fn(pf, F, p / q, r / s))
    for _ in range(2):
        agree(compiled(p, q, r, s).cpu().numpy(), wants, x, y)


@pytest.mark.parametrize("name", COMPARED)
def test_pairs_of_float16(name: str, gpu: str, torch: Any) -> None:
    if not pf.device(gpu).backend.limits.float16:
        pytest.skip("this GPU has no float16")
    with np.errstate(over="ignore"):
        x, y = (np.clip(v, -65504, 65504, where=np.isfinite(v), out=v.copy()).astype(np.float16)
                for v in PAIRS)  # fmt: skip
    got = COMPARED[name](pf, F, *(pf.from_numpy(v).to(gpu) for v in (x, y)))
    agree(got.cpu().numpy(), both(COMPARED[name], torch, x, y), x, y)


# NaN that a kernel makes: of what, and how
MADE = {
    "0 / 0": (0.0, lambda z: z / z),
    "inf / inf": (inf, lambda z: z / z),
    "inf - inf": (inf, lambda z: z - z),
    "inf + -inf": (inf, lambda z: z + -z),
    "inf + 1 - inf": (inf, lambda z: z + 1 - z),
    "0 * inf": (inf, lambda z: z * 0),
    "log": (-1.0, pf.log),
    "sqrt": (-1.0, pf.sqrt),
    "rsqrt": (-1.0, pf.rsqrt),
    "asin": (2.0, pf.asin),
    "pow": (-1.0, lambda z: z**0.5),
    "fmod": (inf, lambda z: z % 2),
    "sin": (inf, pf.sin),
    "max": (nan, lambda z: pf.maximum(z, z * 0 + 1)),
    "sigmoid": (nan, pf.sigmoid),
    "tanh": (nan, pf.tanh),
}


@pytest.mark.parametrize("name", MADE)
def test_nan_that_a_kernel_makes(name: str, gpu: str) -> None:
    start, make = MADE[name]

    def holds(z: pf.Tensor) -> pf.Tensor:
        x = make(z)
        yes = [x != x, x != 1, x.isnan(), x.bool(), ~(x == x), ~(x < 1), ~(x >= 1), (x != 0)]
        kept = [pf.maximum(x, z * 0), x.clamp(0, 1), pf.relu(x), x.abs(), -x, pf.where(x < 1, 1, x)]
        count = pf.stack([x, x, x]).count_nonzero(0) == 3
        return pf.stack([*yes, *[k.isnan() for k in kept], count, pf.stack([x, z]).any(0)])

    z = pf.full((3,), start, device=gpu)
    assert holds(z).all().item()
    compiled = pf.compile(holds)
    for _ in range(2):
        assert compiled(z).all().item()


# fn(the module, rows of three numbers)
FOLDED: dict[str, Callable[..., Any]] = {
    "amax": lambda t, x: x.amax(1),
    "amin": lambda t, x: x.amin(1),
    "aminmax": lambda t, x: t.stack(list(x.aminmax(dim=1))),
    "argmax": lambda t, x: x.argmax(1),
    "argmin": lambda t, x: x.argmin(1),
    "max": lambda t, x: t.stack([x.max(1).values, x.max(1).indices.to(x.dtype)]),
    "min": lambda t, x: t.stack([x.min(1).values, x.min(1).indices.to(x.dtype)]),
    "any": lambda t, x: x.any(1),
    "all": lambda t, x: x.all(1),
    "count_nonzero": lambda t, x: x.count_nonzero(1),
    "norm": lambda t, x: t.stack([x.norm(inf, 1), x.norm(-inf, 1), x.norm(0, 1)]),
    "cummax": lambda t, x: x.cummax(1).values,
    "cummin": lambda t, x: x.cummin(1).values,
    "cummax_at": lambda t, x: x.cummax(1).indices,
    "cummin_at": lambda t, x: x.cummin(1).indices,
    "sort": lambda t, x: x.sort(1).values,
    "argsort": lambda t, x: x.argsort(dim=1, stable=True),
    "descending": lambda t, x: x.sort(dim=1, descending=True, stable=True).indices,
    "topk": lambda t, x: x.topk(2, 1).values,
    "bottom": lambda t, x: x.topk(2, 1, largest=False).values,
    "kthvalue": lambda t, x: x.kthvalue(2, 1).values,
    "median": lambda t, x: x.median(1).values,
    "nanmedian": lambda t, x: x.nanmedian(1).values,
    "whole": lambda t, x: t.stack([x.max(), x.min(), x.median(), x.nanmedian()]),
    "searchsorted": lambda t, x: t.searchsorted(t.tensor([-inf, -1.0, 0.0, 1.0]).to(x), x),
    "bucketize": lambda t, x: t.bucketize(x, t.tensor([-1.0, 0.0, 1.0, inf]).to(x), right=True),
    "softmax": lambda t, x: x.softmax(1).isnan(),
    "logsumexp": lambda t, x: x.logsumexp(1).isnan(),
    "nansum": lambda t, x: x.nansum(1).isnan(),
    "max_pool": lambda t, x: t.nn.functional.max_pool1d(x[None], 2, 1),
    "cumsum": lambda t, x: x.cumsum(1).isnan(),
    "logcumsumexp": lambda t, x: x.logcumsumexp(1).isnan(),
    "scatter_reduce": lambda t, x: x[:, :1].scatter_reduce(1, x.argmax(1, True) * 0, x, "amax"),
}  # fmt: skip
ROWS = np.concatenate(
    [np.stack([*PAIRS, PAIRS[0][::-1]], 1), np.random.default_rng(3).choice(EDGES, (60, 3))]
)


@pytest.mark.parametrize("name", FOLDED)
def test_rows(name: str, device: str, torch: Any) -> None:
    def fn(t: Any, f: Any, x: Any) -> Any:
        return FOLDED[name](t, x)

    wants = both(fn, torch, ROWS)
    agree(fn(pf, F, pf.from_numpy(ROWS).to(device)).cpu().numpy(), wants)
    p, q = (pf.from_numpy(v).to(device) for v in made(ROWS))
    agree(fn(pf, F, p / q).cpu().numpy(), wants)
    compiled = pf.compile(lambda p, q: fn(pf, F, p / q))
    for _ in range(2):
        agree(compiled(p, q).cpu().numpy(), wants)


INTS = ("int32", "int16", "int8", "uint8")
# fn(the module, x, y)
OF_INTS: dict[str, Callable[..., Any]] = {
    "divided": lambda t, x, y: t.stack(
        [x // y, x % y, t.fmod(x, y), *(t.div(x, y, rounding_mode=m) for m in ("floor", "trunc"))]
    ),
    "common": lambda t, x, y: t.stack([t.gcd(x, y), t.lcm(x, y)]),
    "arithmetic": lambda t, x, y: t.stack([x + y, x - y, x * y, -x, x.abs(), t.square(x)]),
    "powers": lambda t, x, y: t.stack([x ** (y & 31), x**3, t.sign(x)]),
    "bits": lambda t, x, y: t.stack([x & y, x | y, x ^ y, ~x, x << (y & 63), x >> (y & 63)]),
    "order": lambda t, x, y: t.stack([x < y, x <= y, x > y, x >= y, x == y, x != y]),
    "extremes": lambda t, x, y: t.stack([t.maximum(x, y), t.minimum(x, y), x.clamp(5, 99)]),
    "sort": lambda t, x, y: t.stack([x, y]).sort(0).values,
    "argmax": lambda t, x, y: t.stack([x, y, x - x]).argmax(0),
    "floats": lambda t, x, y: t.stack([x.float(), x.float() / 3]),
    "and_back": lambda t, x, y: t.stack([(x // 2).float().to(x.dtype), x.bool().to(x.dtype)]),
    "narrowed": lambda t, x, y: t.stack([x.to(t.int8), x.to(t.uint8).to(t.int8)]),
    "narrowed_floats": lambda t, x, y: (x // 2).float().to(t.uint8),
    "questions": lambda t, x, y: t.stack([x.bool(), t.logical_not(x), t.signbit(x), x.isnan()]),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_INTS)
@pytest.mark.parametrize("kind", INTS)
def test_ints(kind: str, name: str, gpu: str, torch: Any) -> None:
    info = np.iinfo(kind)
    low, high = info.min, info.max
    near = (0, 1, 2, 3, 7, 16, 31, 32, 33, 100, 127, 128, 129, high // 3 + 1, 16777217)
    seen = {s * v for v in near for s in (1, -1)} | {low, low + 1, low // 2, high // 2, high}
    values = np.array(sorted(v for v in seen if low <= v <= high), kind)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    if name in ("divided", "common"):  # PyTorch ends the process at some of these
        ok = (y != 0) & ((low == 0) | (x != low) & (y != low))
        x, y = x[ok], y[ok]
    fn = OF_INTS[name]
    got = fn(pf, pf.from_numpy(x).to(gpu), pf.from_numpy(y).to(gpu))
    agree(got.cpu().numpy(), [fn(torch, torch.from_numpy(x), torch.from_numpy(y)).numpy()], x, y)


def test_the_lowest_int_wraps(device: str) -> None:
    x = pf.tensor([-(2**31)], dtype=pf.int32, device=device)
    minus = pf.tensor([-1], dtype=pf.int32, device=device)
    for y in (
        x // minus,
        x * minus,
        -x,
        x.abs(),
        pf.div(x, minus, rounding_mode="trunc"),
        x - 1 + 1,
    ):
        assert y.tolist() == [-(2**31)]
    assert [(x % minus).item(), pf.fmod(x, minus).item()] == [0, 0]


def test_floats_wrap_to_ints(device: str) -> None:
    x = pf.tensor([3e9, -3e9, 2.0**31, 2.0**40 + 2.0**20, 300.0, -1.5], device=device)
    assert x.int().tolist() == [-1294967296, 1294967296, -(2**31), 2**20, 300, -1]
    assert x.to(pf.uint8).tolist() == [0, 0, 0, 0, 44, 255]
    assert x.to(pf.int8).tolist() == [0, 0, 0, 0, 44, -1]
    assert x[:3].to(pf.int16).tolist() == [24064, -24064, 0]
    full = pf.compile(lambda: pf.full((2,), -5, dtype=pf.uint8, device=device))
    assert full().tolist() == full().tolist() == [251, 251]


# of each function the most ulps that it may be off; with a floor, of numbers of at least that size
ACCURATE = {
    "square deg2rad reciprocal sqrt rsqrt log log2 log10 log1p special.entr sin cos": (4, 0),
    "tan asin acos atan exp exp2 tanh asinh acosh atanh sigmoid erfinv special.ndtri": (8, 0),
    "expm1 sinh cosh erf erfc special.i0e special.i1e": (16, 0),
    "silu softplus logsigmoid elu selu celu softsign": (8, 0),
    "mish special.erfcx": (64, 0),
    "special.ndtr logit gelu tanhshrink sinc special.spherical_bessel_j0": (8, 1),
    "lgamma digamma special.log_ndtr": (64, 1),
}
ULPS = [(name, *bound) for names, bound in ACCURATE.items() for name in names.split()]


def function(module: Any, name: str) -> Any:
    module = module.nn.functional if hasattr(module.nn.functional, name) else module
    for part in name.split("."):
        module = getattr(module, part)
    return module


def ulps_off(got: np.ndarray, want: np.ndarray, floor: float) -> np.ndarray:
    """How far float32 is from float64; 0 where it is as infinite, or too small or too large."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), max(floor, 2.0**-126))
        off = np.abs(got.astype(np.float64) - want) / 2.0 ** (np.floor(np.log2(size)) - 23)
    small = (np.abs(want) < 2.0**-125) & (np.abs(got) < 2.0**-125)
    large = (np.abs(want) > 3.3e38) & (np.abs(got) > 3.3e38) & (np.sign(got) == np.sign(want))
    same = (got == want) | np.isnan(got) & np.isnan(want)
    return np.where(small | large | same, 0, np.where(np.isnan(off), inf, off))


@pytest.mark.parametrize(("name", "most", "floor"), ULPS, ids=[u[0] for u in ULPS])
def test_accuracy(name: str, most: float, floor: float, device: str, torch: Any) -> None:
    """From the smallest to the largest numbers, and near 1 and the zeros of sine and cosine."""
    x = np.concatenate([
        np.exp(np.linspace(math.log(1.2e-38), math.log(3e38), 2000)), np.linspace(0.01, 8, 800),
        1 + 2.0 ** np.arange(-23, 0), 1 - 2.0 ** np.arange(-24, -1),
        np.arange(1, 60) * math.pi / 4, 10.0 ** np.arange(1, 39), [0.0, inf, nan],
    ])  # fmt: skip
    x = np.unique(np.concatenate([x, -x]).astype(np.float32))
    got = function(pf, name)(pf.from_numpy(x).to(device)).cpu().numpy()
    want = function(torch, name)(torch.from_numpy(x).double()).numpy()
    if name == "gelu":  # as PyTorch's of float32, the largest overflow on the way
        x, got, want = (v[~(np.abs(x) > 1e38)] for v in (x, got, want))
    if name in ("sinc", "special.ndtr"):  # pi x is inf, and PyTorch's float64 gives up
        ok = (np.abs(x) < 1e5) & (x > -6)
        x, got, want = x[ok], got[ok], want[ok]
    off = ulps_off(got, want, floor)
    worst = np.argsort(-off)[:5]
    assert off.max() <= most, [(x[i], got[i], want[i], off[i]) for i in worst]


POWERS = np.array(
    [0.5, -0.5, 1.5, 2.5, -3, 4, 7, 10, 0.1, 30, -64, 1000, 1e5, -1e7, 0, 1, inf, -inf]
)


@pytest.mark.parametrize(
    ("name", "most", "floor"),
    [("pow", 8, 0), ("atan2", 8, 0), ("hypot", 8, 0), ("logaddexp", 8, 1), ("logaddexp2", 8, 1),
     ("xlogy", 8, 0), ("special.xlog1py", 8, 0)],
)  # fmt: skip
def test_accuracy_of_pairs(name: str, most: float, floor: float, device: str, torch: Any) -> None:
    x = np.concatenate([
        np.exp(np.linspace(math.log(1.2e-38), math.log(3e38), 60)), [0.0, 1, 2, 3, 10, inf, nan],
        1 + 2.0 ** np.arange(-23, 0, 3), 1 - 2.0 ** np.arange(-24, -1, 3),
    ])  # fmt: skip
    x = np.concatenate([x, -x]).astype(np.float32)
    y = POWERS.astype(np.float32) if name == "pow" else x
    x, y = (v.ravel() for v in np.meshgrid(x, y))
    got = function(pf, name)(*(pf.from_numpy(v).to(device) for v in (x, y))).cpu().numpy()
    want = function(torch, name)(*(torch.from_numpy(v).double() for v in (x, y))).numpy()
    off = ulps_off(got, want, floor)
    worst = np.argsort(-off)[:5]
    assert off.max() <= most, [(x[i], y[i], got[i], want[i], off[i]) for i in worst]


def test_rests_are_exact(device: str, torch: Any) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 500)) * 10.0 ** rng.integers(-35, 36, (2, 500))
    x[:100] = np.float32(y[:100]) * rng.integers(-9, 9, 100)
    x[100:112] = [100, 7.5, 1e10, -1e10, 3e38, 1e-30, 5, -5, inf, 1, nan, 0]
    y[100:112] = [0.1, 0.1, 3, 3, 7e-30, 3e38, inf, inf, 2, 0, 1, 3]
    normal = ~((np.abs(PAIRS) > 0) & (np.abs(PAIRS) < 1e-38)).any(0)
    x = np.concatenate([x, PAIRS[0][normal]]).astype(np.float32)
    y = np.concatenate([y, PAIRS[1][normal]]).astype(np.float32)
    with np.errstate(invalid="ignore"):
        want = np.fmod(x.astype(np.float64), y.astype(np.float64))  # which has no error
    a, b = (pf.from_numpy(v).to(device) for v in (x, y))
    agree(pf.fmod(a, b).cpu().numpy(), [want.astype(np.float32)])
    other = (want != 0) & ((want < 0) != (y < 0))
    agree((a % b).cpu().numpy(), [(want.astype(np.float32) + np.where(other, y, np.float32(0)))])
    near = np.abs(x) * 1e-7 < np.abs(y)  # PyTorch's own fmod gives up far off
    floor = (torch.from_numpy(x) // torch.from_numpy(y)).numpy()
    agree((a // b).cpu().numpy()[near], [floor[near]])


# functions whose gradients are PyTorch's: of which numbers, and how near
LEAVES = {
    "at the edges": (np.float32([-80, -50, -20, -1, 0, 2, 80, nan]), 1e-5),
    "in float64": (np.linspace(-4, 4, 33), 1e-12),  # with its constants; hardsigmoid has float32's
    "complex": (np.exp(1j * np.arange(6)) * np.arange(1, 7) / 4, 1e-9),
    "of NaN": (np.float32([1, nan, 2, nan, inf]), 1e-6),
}
SLOPES = {
    "at the edges": "elu selu celu relu leaky_relu softplus silu",
    "in float64": "hardsigmoid hardswish gelu softsign selu mish",
    "complex": """exp log sqrt sin cosh tanh asin atanh abs sgn reciprocal square sigmoid
    angle""",
    "of NaN": "max min median nanmedian amax amin",  # the last two's are NaN everywhere
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in SLOPES.items() for name in names.split()]
)
def test_gradients(kind: str, name: str, device: str, torch: Any) -> None:
    data, rtol = LEAVES[kind]
    grads = []
    for lib, where in ((pf, device if data.dtype == np.float32 else "cpu"), (torch, "cpu")):
        x = lib.from_numpy(data).to(where).detach().requires_grad_()
        y = function(lib, name)(x)
        y = lib.view_as_real(y) if y.is_complex() else y
        (y * (lib.arange(y.numel()).to(where).reshape(y.shape) + 1)).sum().backward()
        grads.append(x.grad.cpu().numpy())
    np.testing.assert_allclose(*grads, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round", "trunc"])
def test_steps_have_a_gradient_of_0(name: str, device: str) -> None:
    x = pf.tensor([1.5, -2.0], device=device, requires_grad=True)
    y = getattr(pf, name)(x)
    assert pf.autograd.grad(y, x, pf.full_like(y, inf))[0].tolist() == [0, 0]


# What takes a thread more than 65535 rounds of loops, where Mesa's software driver stops it
def test_long_products(gpu: str) -> None:
    for m, k, n in ((8, 32768, 8), (1, 65537, 3), (70, 33000, 5)):
        assert (pf.ones(m, k, device=gpu) @ pf.ones(k, n, device=gpu)).unique().tolist() == [k]
    if pf.device(gpu).backend.limits.float16:  # each part is 65536, which float16 has not
        half = pf.ones(1, 65536, device=gpu, dtype=pf.float16) * 4
        sign = pf.where(pf.arange(65536, device=gpu) < 32768, 1.0, -1.0).half()
        assert (half @ sign).tolist() == [0]
    x = (pf.arange(40001, device=gpu) % 7).float()
    w = pf.ones(3, 2, device=gpu, requires_grad=True)
    F.linear(x.reshape(-1, 1).expand(40001, 2), w).sum().backward()
    assert w.grad.unique().tolist() == [x.sum().item()]
    a = pf.stack([x, x + 1]).reshape(2, 1, -1)
    b = pf.ones(2, 40001, 3, device=gpu)
    assert (a @ b).unique().tolist() == [x.sum().item(), x.sum().item() + 40001]


@pytest.mark.parametrize("n", [16_777_259, 1 << 24])
def test_long_reductions(n: int, gpu: str) -> None:
    x = pf.zeros(n, device=gpu)
    x[n - 5] = 3.0
    assert x.argmax().item() == n - 5
    assert [x.max().item(), x.sum().item(), x.count_nonzero().item()] == [3, 3, 1]


def test_long_columns(gpu: str) -> None:
    n = 70001
    rows = pf.arange(n, device=gpu).reshape(-1, 1).expand(n, 8192)  # a thread has a column
    assert rows.amax(0).unique().tolist() == [n - 1]
    assert rows.argmax(0).unique().tolist() == [n - 1]


def test_loops_in_long_reductions(gpu: str) -> None:
    n = 2_000_003  # a prime: in one piece
    x = pf.zeros(n, device=gpu) + 1e30
    want = math.fmod(np.float32(1e30), np.float32(0.7))
    assert pf.fmod(x, 0.7).amin().item() == want
    whole = (x * 0).int() + 1836311903  # neighbours among Fibonacci's take gcd the longest
    assert pf.gcd(whole, whole * 0 + 1134903170).sum().item() == n
    rest = pf.fmod(x, 0.7)
    assert ((rest - rest.amax()) % 0.3).amax().item() == 0


def test_many_equal_indices(gpu: str) -> None:
    for n in (300_000, 262_144 + 3):
        w = pf.zeros(10, 2, device=gpu, requires_grad=True)
        F.embedding(pf.full((n,), 3, device=gpu), w).sum().backward()
        assert w.grad.sum(1).tolist() == [0, 0, 0, 2 * n, *[0] * 6]
