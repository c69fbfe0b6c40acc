"""PyTorch's random numbers of the CPU: mt19937, and what each function makes of its words.

A seed gives the numbers that it gives in PyTorch, in the same order: weights, shuffles, masks.
They agree to the last digit or two, as PyTorch's own builds do. GPUs, vmap and compiled
functions draw from the counter generator of `pyframe.ops.random.draws`, which the seed sets too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import cpu
from pyframe.core.dispatch import is_eager
from pyframe.core.modes import mark_uncacheable, mode
from pyframe.ops.random import draws
from pyframe.tensor import Tensor, from_host, upload

_SEED = 67280421310721  # of a generator that nobody seeds
_STATE = np.dtype([
    ("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", 624),
    ("drawn", "<f8"),  # from the counter generator; PyTorch leaves this one out
    ("normal", "<f8"), ("rho", "<f8"), ("has_normal", "<i8"), ("float_normal", "<u8"),
])  # fmt: skip

_DIGITS = {dt.float16: 11, dt.bfloat16: 8, dt.float32: 24, dt.float64: 53}


class Generator(draws.Generator):
    """A seeded stream of random numbers: on the CPU PyTorch's own.

    Args:
        device: Where numbers are drawn; any device may ask for them.

    >>> g = Generator().manual_seed(0)
    >>> pf.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    _engine: Any = None
    _spare: float | None  # normal numbers are made in pairs

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(device)
        self.manual_seed(_SEED)

    @property
    def _host_draws(self) -> Any:
        """Where the stream is, for who goes back to it."""
        return self._engine.state, self._spare

    @_host_draws.setter
    def _host_draws(self, place: Any) -> None:
        if place != 0:
            self._engine.state, self._spare = place
            return
        self._engine, self._spare = self._engine or np.random.MT19937(0), None
        np.random.RandomState(self._engine).seed(self._seed & 0xFFFFFFFF)

    # --- states

    def __reduce__(self) -> Any:
        return type(self), (self.device,), (self._seed, None, self.get_state())

    def __setstate__(self, state: Any) -> None:
        self.set_state(state[2])

    def _state_on(self, devices: Any) -> Tensor:
        draws._eagerly("reads the state of random numbers")
        with draws._alone():
            now, pos = self._engine.state["state"], self._engine.state["state"]["pos"]
            fresh = pos == 624 and now["key"][0] == self._seed & 0xFFFFFFFF
            row = (
                self._seed, 625 - pos, 1, 0 if fresh else pos, now["key"],
                self.device_state(cpu)[1], self._spare or 0.0, 0.0, self._spare is not None, 0,
            )  # fmt: skip
        return upload(np.array([row], _STATE).view(np.uint8), cpu)

    def set_state(self, state: Tensor) -> Generator:
        """Go back to a state of `get_state`, here or in PyTorch.

        Args:
            state: a uint8 tensor of 5056 elements; TypeError for anything else.
        """
        taken = isinstance(state, Tensor) and state.dtype is dt.uint8
        if not taken or state.numel() != _STATE.itemsize:
            raise TypeError(
                f"set_state: expected the uint8 tensor of {_STATE.itemsize} elements that "
                "get_state gave"
            )
        row = state.cpu().contiguous().numpy().view(_STATE)[0]
        left, place = int(row["left"]), int(row["next"])
        if row["seeded"] != 1 or not 0 < left <= 624 or place > 624:
            raise RuntimeError("set_state: the state is of no mt19937 that was seeded")
        draws._eagerly("sets the state of random numbers")
        with draws._alone():
            self._seed = int(row["seed"])
            key, pos = row["words"].astype(np.uint32), 624 if left == 1 else place
            self._engine.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": pos}}
            self._spare = float(row["normal"]) if row["has_normal"] & 0xFFFFFFFF else None
            self._begins[cpu] = self._seed, int(row["drawn"])
            if cpu in self._states:
                self._restart(cpu)
        return self

    # --- what the functions of pyframe.ops.random.draws ask for

    def host_bits(self, n: int) -> np.ndarray:
        """uint32 (n,): words of the engine.

        Args:
            n: how many.
        """
        self._tell()
        return self._engine.random_raw(n).astype(np.uint32)

    def host_block(self) -> tuple[int, int, int, int]:
        """Four words, as ints."""
        a, b, c, d = self.host_bits(4).tolist()
        return a, b, c, d

    def _tell(self) -> None:
        mark_uncacheable()
        if mode.capture is not None:
            mode.capture.on_host_random()

    def drawn(self, how: str, device: Any, *args: Any) -> Any:
        """What the method of the name `how` draws; None where numbers are not drawn at once.

        Args:
            how: what is drawn.
            device: where it is needed; None for what the host draws on each device.
            args: what the method takes.
        """
        if device is None:
            if args and getattr(args[0], "is_meta", False):
                return True  # there is nothing to fill
            self._tell()
        elif is_eager(device):
            mark_uncacheable()
        else:
            return None
        with draws._alone():
            found = getattr(self, f"_{how}")(*args)
        if isinstance(found, np.generic):
            found = np.asarray(found)  # of no dims
        if device is None or not isinstance(found, np.ndarray):
            return found
        return from_host(found, dt.dtype.from_numpy(found.dtype))

    def _long(self, n: int) -> np.ndarray:
        """uint64 (n,) of two words each, the high one first."""
        high, low = self._engine.random_raw(2 * n).reshape(n, 2).T
        high <<= np.uint64(32)
        return np.bitwise_or(high, low)

    def _double(self, n: int) -> np.ndarray:
        words = self._long(n)
        words &= np.uint64(2**53 - 1)
        return words * 2.0**-53

    def _single(self, n: int) -> np.ndarray:
        low = self._engine.random_raw(n).astype(np.uint32) & np.uint32(2**24 - 1)
        return low.astype(np.float32) * np.float32(2**-24)

    def _fractions(self, like: Any, by: Any) -> np.ndarray:
        """Of [0, 1), with as many digits as `by` has; or of (0, 1], what is left to 1."""
        if isinstance(by, Tensor) and by.dtype is not dt.float64:
            return _laid(like, self._single)
        return _laid(like, lambda n: 1 - self._double(n) if by is True else self._double(n))

    def _rand(self, like: Any, d: dt.dtype, low: float = 0, high: float = 1) -> np.ndarray:
        if d.category == dt.COMPLEX:
            return _pairs(self._rand((*_shape(like), 2), d.to_real(), low, high))
        if d is dt.float64:
            return _laid(like, self._double) * (high - low) + low
        low, high = np.float32(low), np.float32(high)
        u = _laid(like, self._single)
        if (low, high) != (0, 1):
            u = (u * np.float64(high - low) + low).astype(np.float32)  # as a fused product
        return u if d is dt.float32 else np.where(_rounded(u, d) >= high, low, u)

    def _randn(self, like: Any, d: dt.dtype, mean: float = 0, std: float = 1) -> np.ndarray:
        if d.category == dt.COMPLEX:
            parts = self._randn((*_shape(like), 2), d.to_real(), 0, math.sqrt(0.5))
            return _pairs(parts) * std + mean
        kind = np.float64 if d is dt.float64 else np.float32
        packed = not isinstance(like, Tensor) or like.is_contiguous()
        if not packed or math.prod(_shape(like)) < 16:
            return (_laid(like, self._one_by_one) * std + mean).astype(kind)
        draw = self._double if d is dt.float64 else self._single
        again = d in (dt.float32, dt.float64)
        return _laid(like, lambda n: _by_sixteen(draw, n, again) * kind(std) + kind(mean))

    def _one_by_one(self, n: int) -> np.ndarray:
        """float64 (n,) by Box and Muller; of a pair of which one is taken the other is kept."""
        kept = [] if self._spare is None or not n else [self._spare]
        u = self._double(2 * ((n - len(kept) + 1) // 2))
        radius, angle = np.sqrt(-2 * np.log1p(-u[1::2])), 2 * np.pi * u[::2]
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        found = np.concatenate([kept, pairs.reshape(-1)])
        if n:
            self._spare = float(found[n]) if len(found) > n else None
        return found[:n]

    def _ints(self, like: Any, low: int, span: int) -> np.ndarray:
        """int64 of [low, low + span)."""
        return self._words(like, span, span >= 1 << 28) + low

    def _words(self, like: Any, span: int, wide: bool) -> np.ndarray:
        found = _laid(like, self._long if wide else self._engine.random_raw)
        if span < 1 << 64:
            found = found % np.uint64(span)
        return found.astype(np.int64)

    def _each(self, counts: Sequence[int]) -> list[int]:
        """An int below each of some numbers."""
        return [int(self._ints((), 0, n)) for n in counts]

    def _uniform(self, x: Tensor, low: float, high: float) -> bool:
        return _fill(x, self._rand(x, x.dtype, low, high))

    def _normal(self, x: Tensor, mean: float, std: float) -> bool:
        return _fill(x, self._randn(x, x.dtype, mean, std))

    def _random(self, x: Tensor, low: int | None, high: int | None) -> bool:
        """Ints of a range, or all from 0 on that the dtype holds one by one."""
        d = x.dtype
        low, high = (0, low) if high is None else (low or 0, high)
        if high is not None:
            return low < high and _fill(x, self._ints(x, low, high - low))
        if d.category == dt.INTEGER:
            span = int(np.iinfo(d.numpy).max) + 1
        else:
            span = 2 ** _DIGITS[d] + 1 if d in _DIGITS else 2
        return _fill(x, self._words(x, span, d in (dt.int64, dt.float64)))

    def _permutation(self, n: int) -> np.ndarray:
        """0..n-1 after step k of each k < n - 1 has swapped places k and to[k] >= k. A place has at
        last what was at place `last`, before its step, if that was the last step to go there."""
        to = np.arange(n, dtype=np.int64)  # in a page ints have 32 bits else
        draw = self._long if n >= (2**32 - 1) // 20 else self._engine.random_raw
        to[:-1] += (draw(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint64)).astype(np.int64)
        pairs = np.sort(to << 32 | np.arange(n, dtype=np.int64))  # quicker than a stable argsort
        places, steps = pairs >> 32, pairs & np.int64(0xFFFFFFFF)
        before = np.full(n, -1, np.int64)  # the step before that went to the same place
        same = places[1:] == places[:-1]
        before[steps[1:][same]] = steps[:-1][same]
        moved = places != steps
        first = np.arange(n, dtype=np.int64)
        first[places[moved]] = steps[moved]
        while (further := first[first]).tobytes() != first.tobytes():
            first = further
        return np.where(before < 0, to, first[before])

    def _multinomial(self, weights: Tensor, k: int, replacement: bool) -> np.ndarray:
        p = weights._host()
        if k == 1 or not replacement:
            clocks = -np.log1p(-self._double(p.size)).reshape(p.shape).astype(p.dtype)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.argsort(-(p / clocks), -1, kind="stable")[..., :k]
        ends = np.cumsum(p, -1, dtype=p.dtype)
        ends /= ends[..., -1:]
        rows = [np.searchsorted(row, self._double(k)) for row in ends.reshape(-1, p.shape[-1])]
        return np.stack(rows).reshape(*p.shape[:-1], k)

    def _order(self, n: int, count: int, replacement: bool, own: Any) -> Iterator[int]:
        """`count` indices below n, as RandomSampler gives them; `own` was given to it."""
        return self._ordered(self if own else self._child(), n, count, replacement)

    @staticmethod
    def _ordered(source: draws.Generator, n: int, count: int, replacement: bool) -> Iterator[int]:
        for at in range(0, count, 32) if replacement else ():
            yield from source.drawn("ints", None, (min(32, count - at),), 0, n).tolist()
        for left in () if replacement else range(count, -1, -n):
            yield from source.drawn("permutation", None, n)[:left].tolist()

    def _child(self) -> draws.Generator:
        return Generator().manual_seed(self._epoch())

    def _epoch(self) -> int:
        """The seed that a DataLoader draws when it begins."""
        return int(self._ints((), 0, 1 << 63))

    def _truncated(self, x: Tensor, mean: float, std: float, a: float, b: float) -> bool:
        """Normal numbers of [a, b]: those outside are drawn anew, or, where the interval has few
        of them, uniform ones are taken as often as the density says."""
        edges = [math.erf((end - mean) / std / math.sqrt(2)) for end in (a, b)]
        d = x.dtype
        kind = np.float64 if d is dt.float64 else np.float32
        if edges[1] - edges[0] > 0.6:
            out = self._randn(x, d, mean, std)
            low, high = kind(a), kind(b)
            while (bad := (out < low) | (out > high)).any():
                out = np.where(bad, self._randn(x, d, mean, std), out)
            return _fill(x, out)
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        out, bad = self._rand(x, d, a, b), np.ones(tuple(x.shape), bool)
        new = out
        while True:
            out = np.where(bad, new, out)
            density = ((new - kind(mean)) / kind(std)) ** 2 * kind(-0.5) - kind(peak)
            with np.errstate(divide="ignore"):
                bad = bad & (np.log(self._rand(x, d)) > density)
            if not bad.any():
                return _fill(x, out)
            new = self._rand(x, d, a, b)


def _fill(x: Tensor, values: np.ndarray) -> bool:
    draws._set(x, values)
    return True


def _shape(like: Any) -> tuple[int, ...]:
    return tuple(like.shape) if isinstance(like, Tensor) else like


def _rounded(x: np.ndarray, d: dt.dtype) -> np.ndarray:
    return x.astype(d.numpy) if d.narrow is None else d.narrow(x)


def _pairs(parts: np.ndarray) -> np.ndarray:
    """Complex numbers of (…, 2) real ones."""
    return parts.view(np.result_type(parts, np.complex64))[..., 0]


def _laid(like: Any, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """draw(how many) in the shape of `like`: a tensor's elements in the order of its memory."""
    shape = _shape(like)
    found = draw(math.prod(shape))
    if not isinstance(like, Tensor) or like.is_contiguous() or 0 in like.stride():
        return found.reshape(shape)
    order = sorted(range(len(shape)), key=lambda d: -like.stride(d))
    return found.reshape([shape[d] for d in order]).transpose(np.argsort(order))


def _by_sixteen(draw: Callable[[int], np.ndarray], n: int, again: bool) -> np.ndarray:
    """n >= 16 normal numbers by Box and Muller: 8 and 8 of a block of 16. The last 16 are drawn
    anew where n is no multiple, of which a rest is drawn before if `again`."""
    whole = n - n % 16
    u = draw(n if again else whole)
    out = np.empty(n, u.dtype)
    blocks = [(out[:whole], u[:whole])]
    if n % 16:
        blocks.append((out[-16:], draw(16)))
    for target, part in blocks:
        first, second = part.reshape(-1, 2, 8).swapaxes(0, 1)
        radius, angle = np.sqrt(-2 * np.log(1 - first)), u.dtype.type(2 * np.pi) * second
        pair = target.reshape(-1, 2, 8)
        np.multiply(radius, np.cos(angle), out=pair[:, 0])
        np.multiply(radius, np.sin(angle), out=pair[:, 1])
    return out


def install() -> None:
    """Let the common generator be one of these."""
    common = draws.default_generator
    if type(common) is draws.Generator:
        common.__class__ = Generator
        common._host_draws = 0
