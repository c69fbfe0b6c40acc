"""Numbers at the edges: NaN and infinities, the largest and the smallest, far angles, long rows.

WGSL lets a compiler take it that no number is NaN, so rows of tests/samples with `edges=True` run
on each device, eagerly of numbers that the kernel gets, and compiled of such as it makes itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row

import pyframe as pf
import pyframe.nn.functional as F

nan, inf = math.nan, math.inf
TINY, MOST = 1e-40, 3.4e38  # a GPU may take the first for 0
EDGES = np.array([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, TINY, -TINY, MOST, -MOST], np.float32)
PAIRS = [x.ravel() for x in np.meshgrid(EDGES, EDGES)]
MIXED = [*PAIRS, *np.random.default_rng(3).choice(EDGES, (3, 121))]
AT_EDGES = [r for r in ROWS if r.edges]
ONE_BY_ONE = "amax any cummax sort_key kth_index searchsorted max_pool".split()  # rows of numbers


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
    seen = [(*i, *[s[i[-1]] for s in shown], got[tuple(i)], wants[0][tuple(i)]) for i in at]
    assert not len(at), f"(place, operands…, got, wanted): {seen}"


def both(fn: Any, torch: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """PyTorch's results of the numbers, and of those with 0 for what a GPU may take for 0."""
    flat = [flushed(a) for a in arrays]
    calls = [arrays, flat, [arrays[0], *flat[1:]], [flat[0], *arrays[1:]]]
    out = [fn(torch, torch.nn.functional, *map(torch.from_numpy, xs)).numpy() for xs in calls]
    return out + [flushed(o) for o in out if o.dtype.kind == "f"]


@pytest.mark.parametrize("row", AT_EDGES, ids=lambda r: r.name)
def test_rows_at_the_edges(row: Row, device: str, torch: Any) -> None:
    folds = row.name.partition(":")[0] in ONE_BY_ONE
    arrays = MIXED[:3] if folds else PAIRS[: len(row.specs)]
    shown = () if folds else arrays
    wants = both(row.call, torch, *arrays)
    given = [pf.from_numpy(v).to(device) for v in arrays]
    agree(row.call(pf, F, *given).cpu().numpy(), wants, *shown)
    parts = [pf.from_numpy(v).to(device) for a in arrays for v in made(a)]
    compiled = pf.compile(lambda *ps: row.call(pf, F, *map(pf.div, ps[::2], ps[1::2])))
    for _ in range(2):
        agree(compiled(*parts).cpu().numpy(), wants, *shown)


@pytest.mark.parametrize("name", ["eq:edges", "isnan:edges", "isfinite:edges"])
def test_questions_of_float16(name: str, gpu: str, torch: Any) -> None:
    if not pf.device(gpu).backend.limits.float16:
        pytest.skip("this GPU has no float16")
    (row,) = (r for r in AT_EDGES if r.name == name)
    with np.errstate(over="ignore"):
        x, y = (np.clip(v, -65504, 65504, where=np.isfinite(v), out=v.copy()).astype(np.float16)
                for v in PAIRS)  # fmt: skip
    got = row.call(pf, F, *(pf.from_numpy(v).to(gpu) for v in (x, y)))
    agree(got.cpu().numpy(), both(row.call, torch, x, y), x, y)


# NaN that a kernel makes: of what, and how
MADE: dict[str, tuple[float, Callable[..., Any]]] = {
    "0 / 0": (0.0, lambda z: z / z), "inf / inf": (inf, lambda z: z / z),
    "inf - inf": (inf, lambda z: z - z), "inf + -inf": (inf, lambda z: z + -z),
    "inf + 1 - inf": (inf, lambda z: z + 1 - z), "0 * inf": (inf, lambda z: z * 0),
    "log": (-1.0, pf.log), "sqrt": (-1.0, pf.sqrt), "rsqrt": (-1.0, pf.rsqrt),
    "asin": (2.0, pf.asin), "pow": (-1.0, lambda z: z**0.5), "fmod": (inf, lambda z: z % 2),
    "sin": (inf, pf.sin), "max": (nan, lambda z: pf.maximum(z, z * 0 + 1)),
    "sigmoid": (nan, pf.sigmoid), "tanh": (nan, pf.tanh),
}  # fmt: skip


def test_nan_that_a_kernel_makes(gpu: str) -> None:
    def holds(z: pf.Tensor, make: Callable[..., Any]) -> pf.Tensor:
        x = make(z)
        yes = [x != x, x != 1, x.isnan(), x.bool(), ~(x == x), ~(x < 1), ~(x >= 1), (x != 0)]
        kept = [pf.maximum(x, z * 0), x.clamp(0, 1), pf.relu(x), x.abs(), -x, pf.where(x < 1, 1, x)]
        count = pf.stack([x, x, x]).count_nonzero(0) == 3
        return pf.stack([*yes, *[k.isnan() for k in kept], count, pf.stack([x, z]).any(0)])

    def all_of(*starts: pf.Tensor) -> list[pf.Tensor]:
        return [holds(z, make) for z, (_, make) in zip(starts, MADE.values(), strict=True)]

    starts = [pf.full((3,), start, device=gpu) for start, _ in MADE.values()]
    for run in (all_of, compiled := pf.compile(all_of), compiled):
        found = dict(zip(MADE, run(*starts), strict=True))
        assert [name for name, kept in found.items() if not kept.all().item()] == []


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


@pytest.mark.sampled(3)
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
    cut = pf.div(x, minus, rounding_mode="trunc")
    for y in (x // minus, x * minus, -x, x.abs(), cut, x - 1 + 1):
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
    "pow atan2 hypot xlogy special.xlog1py": (8, 0),
    "logaddexp logaddexp2": (8, 1),
}
PAIRED = "pow atan2 hypot xlogy special.xlog1py logaddexp logaddexp2".split()
POWERS = np.float32(
    [0.5, -0.5, 1.5, 2.5, -3, 4, 7, 10, 0.1, 30, -64, 1000, 1e5, -1e7, 0, 1, inf, -inf]
)
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


def operands(name: str) -> list[np.ndarray]:
    """From the smallest to the largest numbers, and near 1 and the zeros of sine and cosine; of a
    function of two the pairs of fewer."""
    step, least, most = 3 if name in PAIRED else 1, math.log(1.2e-38), math.log(3e38)
    x = [
        np.exp(np.linspace(least, most, 2000 // step**3)), [0.0, 1, 2, 3, 10, inf, nan],
        1 + 2.0 ** np.arange(-23, 0, step), 1 - 2.0 ** np.arange(-24, -1, step),
    ]  # fmt: skip
    if name not in PAIRED:
        x += [np.linspace(0.01, 8, 800), np.arange(1, 60) * math.pi / 4, 10.0 ** np.arange(1, 39)]
    both = np.unique(np.concatenate([*x, *(-np.asarray(v) for v in x)]).astype(np.float32))
    if name not in PAIRED:
        return [both]
    return [v.ravel() for v in np.meshgrid(both, POWERS if name == "pow" else both)]


@pytest.mark.parametrize(("name", "most", "floor"), ULPS, ids=[u[0] for u in ULPS])
def test_accuracy(name: str, most: float, floor: float, device: str, torch: Any) -> None:
    xs = operands(name)
    got = function(pf, name)(*(pf.from_numpy(v).to(device) for v in xs)).cpu().numpy()
    want = function(torch, name)(*(torch.from_numpy(v).double() for v in xs)).numpy()
    ok = np.ones(got.shape, bool)
    if name == "gelu":  # as PyTorch's of float32, the largest overflow on the way
        ok = ~(np.abs(xs[0]) > 1e38)
    if name in ("sinc", "special.ndtr"):  # pi x is inf, and PyTorch's float64 gives up
        ok = (np.abs(xs[0]) < 1e5) & (xs[0] > -6)
    off = np.where(ok, ulps_off(got, want, floor), 0)
    worst = np.argsort(-off)[:5]
    assert off.max() <= most, [(*[x[i] for x in xs], got[i], want[i], off[i]) for i in worst]


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
    "complex": (np.exp(1j * np.arange(6)) * np.arange(1, 7) / 4, 1e-9),
    "of NaN": (np.float32([1, nan, 2, nan, inf]), 1e-6),
}
SLOPES = {
    "at the edges": "elu selu celu relu leaky_relu softplus silu",
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
    assert [x.argmax().item(), x.sum().item()] == [n - 5, 3]


def test_long_columns(gpu: str) -> None:
    n = 65_600
    rows = pf.arange(n, device=gpu).reshape(-1, 1).expand(n, 8192)  # a thread has a column
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
    for n in (262_144 + 3,):
        w = pf.zeros(10, 2, device=gpu, requires_grad=True)
        F.embedding(pf.full((n,), 3, device=gpu), w).sum().backward()
        assert w.grad.sum(1).tolist() == [0, 0, 0, 2 * n, *[0] * 6]
