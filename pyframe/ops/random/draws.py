"""Random numbers: one Philox counter generator, the same bits on every device.

A device's state is a uint32 tensor (key low, key high, draw): each draw takes element i from
counter (i, draw), then adds 1 to draw. The host's state fixes initial weights and shuffling.
"""

from __future__ import annotations

import contextlib
import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

import numpy as np

from pyframe.core import devices as _device, dispatch as _dispatch, dtypes as dt
from pyframe.core.devices import device as Device, resolve
from pyframe.core.dispatch import apply, is_eager, suspend_capture
from pyframe.core.locks import lock
from pyframe.core.modes import mark_uncacheable, mode, no_grad
from pyframe.core.node import Node
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.index import bins, sort
from pyframe.ops.math import complex as cx, elementwise as el, mathfn, promotion
from pyframe.ops.random import creation, draws as random
from pyframe.ops.random.creation import FactoryOptions, finish, numbers, options_of, sizes_of
from pyframe.ops.reduce import reductions as reduce, scan
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, upload

_DRAWING = lock()


def _alone() -> Any:
    """The lock of all states, which a draw reads and moves on. A capture keeps it, as its run
    leaves them without values until it ends."""
    if mode.capture is not None:
        mode.capture.hold(_DRAWING)
    return _DRAWING


def _eagerly(what: str) -> None:
    """End a capture, whose replays would not do `what` to the part of a state that the host has."""
    mark_uncacheable()
    if mode.capture is not None and mode.capture.replays:
        mode.capture.graph_break(what)


_alive: weakref.WeakSet[Generator] = weakref.WeakSet()
# of a GPU that is lost the stream starts over
_device.gone.append(lambda d: [g._states.pop(d, None) for g in list(_alive)])


class Generator:
    """A seeded stream of random numbers, with one counter per device.

    Args:
        device: Where numbers are drawn; any device may ask for them.

    >>> g = pf.Generator().manual_seed(0)
    >>> first = pf.rand(2, generator=g)
    >>> pf.equal(first, pf.rand(2, generator=g.manual_seed(0)))
    True
    """

    apart = 0  # what the keys of devices' draws differ by in processes that draw alike else

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self._states: dict[Device, Tensor] = {}
        # (seed, draw) that devices begin with which have not the generator's seed, and 0
        self._begins: dict[Device, tuple[int, int]] = {}
        _alive.add(self)
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _alive.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed` (any int, taken modulo 2**64)."""
        _eagerly("seeds random numbers")
        with _alone():
            self._seed = int(seed) & (2**64 - 1)
            self._host_draws = 0
            self._begins.clear()
            for device in list(self._states):
                self._restart(device)
        return self

    def seed_device(self, seed: int, device: Device, draw: int = 0) -> None:
        """Start the stream of one device over from a seed of its own, until the next manual_seed.
        It is not opened for that.

        Args:
            seed: any int, taken modulo 2**64.
            draw: how often was drawn already.
        """
        _eagerly("seeds random numbers")
        with _alone():
            self._begins[device] = int(seed) & (2**64 - 1), draw
            if device in self._states:
                self._restart(device)

    def device_seed(self, device: Device) -> int:
        """The seed that the stream of a device started from."""
        return self._begin(device)[0]

    def _begin(self, device: Device) -> tuple[int, int]:
        return self._begins.get(device, (self._seed, 0))

    def _restart(self, device: Device) -> None:
        with contextlib.suppress(_device.DeviceLostError):  # a lost GPU's starts over
            # the same tensor, as replays know it
            self._states[device]._overwrite(upload(self._start(device), device))

    def _start(self, device: Device = _device.cpu) -> np.ndarray:
        seed, draw = self._begin(device)
        return np.array([seed & 0xFFFFFFFF, seed >> 32, draw], np.uint32)

    def seed(self) -> int:
        """Start over from a seed of the operating system's; returns it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little"))._seed

    def initial_seed(self) -> int:
        """The seed that the stream started from."""
        return self._seed

    def get_state(self) -> Tensor:
        """Where the streams are: uint8, on the CPU, as torch.Generator's. One on a GPU is read."""
        return self._state_on(dict.fromkeys([*self._begins, *self._states]))

    def get_host_state(self) -> Tensor:
        """`get_state` of the host's and the CPU's streams alone; nothing is read from a GPU."""
        return self._state_on({})

    def _state_on(self, devices: Iterable[Device]) -> Tensor:
        _eagerly("reads the state of random numbers")
        with _alone():
            numbers = [self._seed, self._host_draws, self.device_state(_device.cpu)[1]]
            for d in devices:
                if d is not _device.cpu:
                    numbers += [d.index, *self.device_state(d)]
        return upload(np.array(numbers, np.uint64).view(np.uint8), _device.cpu)

    def device_state(self, device: Device) -> tuple[int, int]:
        """The seed of the stream on a device, and how often was drawn from it."""
        if device not in self._states:
            return self._begin(device)
        low, high, draw = self._states[device]._host().tolist()
        return low | high << 32, draw

    def set_state(self, state: Tensor) -> Generator:
        """Go back to a state of `get_state`, on each device.

        Args:
            state: a uint8 tensor of `get_state`; TypeError for anything else.
        """
        taken = isinstance(state, Tensor) and state.dtype is dt.uint8 and state.ndim == 1
        if not taken or not state.numel() or state.numel() % 24:
            raise TypeError("set_state: expected the uint8 tensor that get_state gave")
        _eagerly("sets the state of random numbers")
        rows = state.cpu().contiguous().numpy().view(np.uint64).reshape(-1, 3).tolist()
        with _alone():
            self._seed, self._host_draws, draw = rows[0]
            self._begins = {Device("gpu", i): (seed, n) for i, seed, n in rows[1:]}
            self._begins[_device.cpu] = self._seed, draw
            for device in list(self._states):
                self._restart(device)
        return self

    def clone_state(self) -> Generator:
        """A generator that goes on as this one would."""
        return type(self)(self.device).set_state(self.get_state())

    def _put(self, words: np.ndarray, device: Device) -> None:
        """Let the stream of a device be where `words`, a value of its state, say."""
        with no_grad(), suspend_capture():
            new = upload(words, device)
            if device in self._states:
                self._states[device]._overwrite(new)
            else:
                self._states[device] = new

    def bits(self, shape: tuple[int, ...], device: Device) -> Tensor:
        """uint32 random bits on `device`.

        Args:
            shape: the sizes.
        """
        with _alone():
            return self._bits(shape, device)

    def _bits(self, shape: tuple[int, ...], device: Device) -> Tensor:
        if device.kind == "meta":  # there is nothing to draw, and no stream that goes on
            return creation.empty(shape, dtype=dt.uint32, device=device)
        state = self._state(device)
        if is_eager(device):  # the same, without an op for each step
            mark_uncacheable()
            words = state._node.data
            bits = mathfn.philox_bits(words[0] ^ self.apart, words[1], words[2], shape)
            words[2] += 1
            state._wrote()
            return _dispatch.tensor_from_node(Node(None, (), (), shape, dt.uint32, device, bits))
        with no_grad():
            words = [mv.select(self._own(state), 0, i) for i in range(3)]
            out = apply(el.random_bits_op, tuple(words), (shape,))
            self._next(state)
        return out

    def words(self, device: Device) -> Tensor:
        """uint32 (3,): what the next `bits` would be made of, for a kernel that makes them."""
        with _alone(), no_grad():
            state = self._state(device)
            out = self._own(state).clone()
            self._next(state)
        return out

    def _own(self, state: Tensor) -> Tensor:
        """The state with the key of this process."""
        if not self.apart:
            return state
        return state ^ el.eq(el.iota((3,), state.device), 0).to(dt.uint32) * self.apart

    def _next(self, state: Tensor) -> None:
        step = el.eq(el.iota((3,), state.device), 2).to(dt.uint32)
        state._overwrite(state + step)

    def _state(self, device: Device) -> Tensor:
        state = self._states.get(device)
        if state is None:
            with suspend_capture():
                state = self._states[device] = upload(self._start(device), device)
            if mode.capture is not None and self is default_generator:
                for before in list(_kept):  # a replay goes back to where it finds the stream
                    if before.capture is mode.capture:
                        before.states[device] = state.clone()
        return state

    def drawn(self, how: str, device: Device | None, *args: Any) -> Any:
        """What an engine beside Philox draws, as `pyframe.torch`'s does; None without one.

        Args:
            how: what is drawn.
            device: where it is needed; None for what the host draws on each device.
            args: what it depends on.
        """
        return None

    def host_bits(self, n: int) -> np.ndarray:
        """uint32 (n,) random bits on the host, of a stream of their own.

        Args:
            n: how many.
        """
        if n <= 4:
            return np.array(self.host_block()[:n], np.uint32)
        k0, k1, draw = self._drawn_on_host()
        return mathfn.philox(k0, k1, draw, 0, (n + 3) // 4).reshape(-1)[:n]

    def host_block(self) -> tuple[int, int, int, int]:
        """What `host_bits(4)` gives, as ints."""
        return mathfn.philox_block(*self._drawn_on_host())

    def _drawn_on_host(self) -> tuple[int, int, int]:
        mark_uncacheable()
        if mode.capture is not None:
            mode.capture.on_host_random()
        with _DRAWING:
            draw = self._host_draws
            self._host_draws += 1
        key = self._seed ^ 0x9E3779B97F4A7C15  # not the devices' stream
        return key & 0xFFFFFFFF, key >> 32, draw & 0xFFFFFFFF


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Fix all random numbers from here on: weights, shuffling, dropout, on every device.

    Args:
        seed: An int.

    >>> _ = pf.manual_seed(0)
    >>> first = pf.rand(2)
    >>> _ = pf.manual_seed(0)
    >>> pf.equal(first, pf.rand(2))
    True
    """
    return default_generator.manual_seed(seed)


def drawn(generator: Generator | None, how: str, device: Device | None, *args: Any) -> Any:
    """`Generator.drawn` of a generator, by default the common one."""
    return (generator or default_generator).drawn(how, device, *args)


def seed() -> int:
    """Start over from a seed of the operating system's; returns it.

    >>> pf.seed() == pf.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    >>> _ = pf.manual_seed(3)
    >>> pf.initial_seed()
    3
    """
    return default_generator.initial_seed()


def rewind() -> Callable[[], None]:
    """What takes all generators' streams of the host and the CPU back to where they are now."""
    with _alone():
        streams = [(g, g._seed, g._host_draws, g._states.get(_device.cpu)) for g in list(_alive)]
        drawn = [None if x is None else x._host().copy() for *_, x in streams]

    def back() -> None:
        with _alone():
            for (g, seed, draws, _), words in zip(streams, drawn, strict=True):
                g._seed, g._host_draws = seed, draws
                if _device.cpu in g._states:
                    g._put(g._start() if words is None else words, _device.cpu)

    return back


def go_on(generator: Generator, words: np.ndarray, device: Device) -> None:
    """Let a generator go on on `device` where its stream on a GPU was. It does not take the place
    of the CPU's where numbers were drawn, for data as it may be."""
    with _alone():
        drawn = generator._states.get(_device.cpu)
        if device.kind != "cpu" or drawn is None or not drawn._host()[2]:
            generator._put(words, device)


def gpu_streams() -> list[tuple[Generator, Tensor]]:
    """The streams on GPUs: whose, and where they are."""
    return [(g, x) for g in list(_alive) for d, x in list(g._states.items()) if d.kind == "gpu"]


def host_uniform(n: int, generator: Generator | None = None) -> np.ndarray:
    """float32 (n,) uniform in [0, 1), the same bits on every machine."""
    bits = (generator or default_generator).host_bits(n)
    return (bits >> 8).astype(np.float32) * np.float32(2**-24)


def host_normal(n: int, generator: Generator | None = None) -> np.ndarray:
    """float32 (n,) standard normal, the same bits on every machine."""
    return mathfn.normal_from_bits((generator or default_generator).host_bits(n))


def permutation(n: int, generator: Generator | None = None) -> np.ndarray:
    """int64 (n,): 0..n-1 in random order, the same on every machine.

    Args:
        n: How many.
        generator: The `Generator` to draw from; the default one by default.

    >>> sorted(pf.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    if (found := drawn(generator, "permutation", None, n)) is not None:
        return found
    bits = (generator or default_generator).host_bits(2 * n).astype(np.uint64)
    keys = bits[:n] << np.uint64(32) | bits[n:]
    return np.argsort(keys, kind="stable").astype(np.int64)


def uniform_bits(shape: tuple[int, ...], device: Device, generator: Generator | None) -> Tensor:
    """uint32 random bits of the generator, by default the common one."""
    dt.check_room(*shape, itemsize=4)
    return (generator or default_generator).bits(shape, device)


def get_rng_state() -> Tensor:
    """The state of the default generator: see `Generator.get_state`.

    >>> state = pf.get_rng_state()
    >>> first = pf.rand(2)
    >>> pf.set_rng_state(state)
    >>> pf.equal(first, pf.rand(2))
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator back into a state of `get_rng_state`.

    Args:
        new_state: A uint8 tensor.

    >>> state = pf.get_rng_state()
    >>> first = pf.rand(2)
    >>> pf.set_rng_state(state)
    >>> pf.equal(first, pf.rand(2))
    True
    """
    default_generator.set_state(new_state)


class RandomState:
    """Where the default generator stands, on the host and on each device."""

    def __init__(self) -> None:
        g = default_generator
        self.host = g._seed, g._host_draws, dict(g._begins)
        self.capture = mode.capture
        with no_grad():
            self.states = {d: s.clone() for d, s in g._states.items()}
        _kept.add(self)

    def restore(self) -> None:
        """Go back there."""
        g = default_generator
        g._seed, g._host_draws, begins = self.host
        g._begins = dict(begins)
        with no_grad():
            for d, state in g._states.items():
                saved = self.states.get(d)
                state._overwrite(upload(g._start(d), d) if saved is None else saved.clone())


_kept: weakref.WeakSet[RandomState] = weakref.WeakSet()


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **kwargs: Any) -> Iterator[None]:
    """Within it random numbers are drawn; after it all streams go on as if they had not been.

    Args:
        devices: Allowed, and not needed.
        enabled: Whether it does anything.
        kwargs: Allowed, and not needed.

    >>> with pf.random.fork_rng():
    ...     x = pf.rand(2)
    >>> pf.equal(x, pf.rand(2))
    True
    """
    if not enabled:
        yield
        return
    before = RandomState()
    try:
        yield
    finally:
        before.restore()


# --- draws in place


def _set(x: Tensor, values: np.ndarray) -> Tensor:
    return x._overwrite(upload(values.astype(x.dtype.numpy, copy=False).reshape(x.shape), x.device))


def _expect(name: str, what: str, value: Any, holds: bool) -> None:
    if not holds:
        raise RuntimeError(f"{name} expects {what}, but found {value}")


def uniform_(
    self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None, **kw: Any
) -> Tensor:
    """Fill with uniform numbers of [from, to), drawn on the host."""
    from_ = kw.pop("from", from_)
    if kw:
        raise TypeError(f"uniform_() got unexpected arguments {sorted(kw)}")
    check.floats_or_complex("uniform_", self)
    most = dt.finfo(self.dtype).max
    if not -most <= from_ <= to <= most:
        raise RuntimeError(
            f"uniform_ expects a range [from, to) within {self.dtype.name}, got {from_} to {to}"
        )
    if drawn(generator, "uniform", None, self, from_, to):
        return self
    u = host_uniform(self.numel(), generator)
    return _set(self, u * np.float32(to - from_) + np.float32(from_))


def normal_(
    self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers, drawn on the host."""
    _expect("normal_", "std >= 0.0", f"std {std}", std >= 0)
    check.floats_or_complex("normal_", self)
    if drawn(generator, "normal", None, self, mean, std):
        return self
    if self.is_complex():  # of unit variance together
        half = self.dtype.to_real()
        parts = host_normal(2 * self.numel(), generator).astype(half.numpy) * math.sqrt(0.5)
        return _set(self, parts.view(self.dtype.numpy) * std + mean)
    z = host_normal(self.numel(), generator)
    z *= np.float32(std)
    z += np.float32(mean)
    return _set(self, z)


def fractions(
    x: Tensor, generator: Generator | None = None, by: Any = None, shape: Any = None
) -> Tensor:
    """Uniform numbers of [0, 1) in the shape of `x`, or another, drawn where it is. Of a generator
    that draws as PyTorch they have the digits that it compares with `by`, a tensor; where `by` is
    True they are 1 minus what it draws."""
    if (found := drawn(generator, "fractions", x.device, shape or x, by)) is not None:
        return found
    return apply(el.uniform_from_bits, (uniform_bits(shape or x.shape, x.device, generator),))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`."""
    _expect("exponential_", "lambda > 0.0", f"lambda={lambd}", lambd > 0)
    check.floats_or_complex("exponential_", self)
    u = fractions(self, generator)
    return self._overwrite(el.log1p(-u) * (-1.0 / lambd))


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with how many trials of probability `p` it takes until the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    u = fractions(self, generator, True)
    trials = el.ceil(el.log1p(-u) / math.log1p(-p))
    return self._overwrite(el.clamp(trials, min=1.0))


def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with Cauchy numbers."""
    _expect("cauchy_", "sigma > 0.0", f"sigma={sigma}", sigma > 0)
    check.floats_or_complex("cauchy_", self)
    u = fractions(self, generator)
    return self._overwrite(el.tan((u - 0.5) * math.pi) * sigma + median)


def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Fill with exp of normal numbers of this mean and deviation."""
    _expect("log_normal_", "std > 0.0", f"std={std}", std > 0)
    check.floats_or_complex("log_normal_", self)
    bits = uniform_bits(self.shape, self.device, generator)
    return self._overwrite(el.exp(apply(el.normal_from_bits, (bits,)) * std + mean))


def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *,
    generator: Generator | None = None, **kw: Any,
) -> Tensor:  # fmt: skip
    """Fill with ints of [from, to); by default of all that the dtype holds from 0 on."""
    from_ = kw.pop("from", from_)
    if kw:
        raise TypeError(f"random_() got unexpected arguments {sorted(kw)}")
    if drawn(generator, "random", self.device, self, from_, to):
        return self
    d = self.dtype
    if to is None:
        from_, to = 0, from_
    if to is None:
        bits = {dt.float16: 11, dt.float32: 24, dt.float64: 53, dt.bfloat16: 8, dt.bool_: 1}
        wide = 63 if self.device.wide else 31
        to = 2 ** bits[d] + (d.category == dt.FLOAT) if d in bits else (
            min(int(np.iinfo(d.numpy).max), 2**wide - 1) + (d.itemsize < 4))  # fmt: skip
    found = random.ints_between(
        "random_", self.shape, int(from_ or 0), int(to), dt.int64, self.device, generator
    )
    return self._overwrite(found)


# --- distributions


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    **kw: Unpack[creation.FactoryOptions],
) -> Tensor:  # fmt: skip
    """Normal numbers with means and deviations that are tensors or numbers (these: of `size`)."""
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    if not tensors:
        if size is None:
            raise TypeError("normal(): two numbers need a size")
        _expect("normal", "std >= 0.0", f"std {std}", std >= 0)
        requires_grad = kw.pop("requires_grad", False)
        out = random.randn(size, generator=generator, **kw) * std + mean
        return out.requires_grad_() if requires_grad else out
    if size is not None or kw:
        raise TypeError(f"normal(): a tensor says size, dtype and device; got {size} and {kw}")
    check.floats("normal", *tensors)
    if isinstance(std, Tensor):
        check.assert_not(el.lt(std.detach(), 0), "normal expects all elements of std >= 0.0")
    else:
        _expect("normal", "std >= 0.0", f"std {std}", std >= 0)
    shape = promotion.broadcast("normal", *[t.shape for t in tensors])
    z = random.randn(shape, generator=generator, dtype=tensors[0].dtype,
                       device=tensors[0].device)  # fmt: skip
    mean_, std_ = (v.detach() if isinstance(v, Tensor) else v for v in (mean, std))
    return creation.without_gradient(z * std_ + mean_, mean, std)


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """int64 (…, num_samples): categories drawn with the weights of the last dim, (n) or (m, n).

    Each draw is the largest of weight / exponential number, which needs no look at the weights
    (Efraimidis and Spirakis, 2006).
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {input.ndim}")
    check.floats_or_complex("multinomial", input)
    n = input.shape[-1]
    if n > 1 << 24:
        raise RuntimeError(f"multinomial: number of categories cannot exceed 2^24, got {n}")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > n:
        raise RuntimeError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without "
            f"replacement, got {num_samples} of {n}"
        )
    weights = input.detach()
    bad = el.logical_not(el.logical_and(el.ge(weights, 0), el.lt(weights, math.inf)))
    check.assert_not(
        bad, "multinomial: probability tensor contains either `inf`, `nan` or element < 0"
    )
    some = el.gt(weights, 0).to(dt.int32).sum(-1)
    short = el.lt(some, 1 if replacement else num_samples)
    check.assert_not(
        short,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0, or too few > 0)",
    )
    how = weights, num_samples, replacement
    if (found := drawn(generator, "multinomial", input.device, *how)) is not None:
        return found
    shape = (*input.shape[:-1], num_samples)
    weights = weights.to(dt.float32)
    if not replacement:
        u = random.rand(input.shape, device=input.device, generator=generator)
        return sort.topk(weights / _clocks(u), num_samples).indices
    if math.prod(shape) * n <= MOST_CLOCKS:
        u = random.rand((*shape, n), device=input.device, generator=generator)
        return reduce.argmax(mv.unsqueeze(weights, -2) / _clocks(u), -1)
    ends = scan.cumsum(weights, -1)
    u = random.rand(shape, device=input.device, generator=generator)
    found = bins.searchsorted(ends, u * mv.narrow(ends, -1, n - 1, 1), right=True)
    return el.clamp(found, max=n - 1)


MOST_CLOCKS = 1 << 22  # exponential numbers to draw where sums of the weights would do


def _clocks(u: Tensor) -> Tensor:
    """Exponential numbers, none of them 0."""
    return el.maximum(-el.log1p(-u), 1e-12)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of these rates; drawn on the host, on each device."""
    check.floats_or_complex("poisson", input)

    def draw(rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
        if rate.size and not rate.min() >= 0:
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
        return rng.poisson(rate)

    return _on_host(draw, generator, input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Successes of `count` trials of probability `prob`; drawn on the host, on each device."""
    check.same_dtype("binomial", count, prob)
    check.floats_or_complex("binomial", count)
    count, prob = mv.broadcast_tensors(count, prob)

    def draw(rng: np.random.Generator, n: np.ndarray, p: np.ndarray) -> np.ndarray:
        if n.size and not (n.min() >= 0 and p.min() >= 0 and p.max() <= 1):
            raise RuntimeError("binomial: expected counts >= 0 and probabilities of 0 to 1")
        return rng.binomial(n.astype(np.int64), p)

    return _on_host(draw, generator, count, prob)


def _on_host(draw: Any, generator: Generator | None, *inputs: Tensor) -> Tensor:
    words = (generator or default_generator).host_bits(4)
    rng = np.random.Generator(np.random.Philox(int.from_bytes(words.tobytes(), "little") >> 1))
    arrays = [x.detach()._host() for x in inputs]
    values = np.asarray(draw(rng, *arrays)).astype(inputs[0].dtype.numpy)
    return creation.without_gradient(upload(values, inputs[0].device, inputs[0].dtype), *inputs)


def _random(name: str, shape: tuple[int, ...], kw: Any, generator: Any, from_bits: Any) -> Tensor:
    options = options_of(name, kw)
    d, target = options.get("dtype") or dt.get_default_dtype(), resolve(options.get("device"))
    creation.check_dtype(name, d, target)
    if d.category < dt.FLOAT:
        raise RuntimeError(f"{name}: expected a float dtype, got {d.name}; see randint")

    def draw() -> Tensor:
        return apply(from_bits, (uniform_bits(shape, target, generator),))

    if (found := drawn(generator, name, target, shape, d)) is not None:
        out = found.to(d)
    elif d.category == dt.COMPLEX:
        scale = math.sqrt(0.5) if name == "randn" else 1
        part = d.to_real()
        out = cx.complex((draw() * scale).to(part), (draw() * scale).to(part))
    else:
        out = draw().to(d)
    return finish(out, options.get("requires_grad", False))


def rand(
    *sizes: Any, size: Any = None, generator: Any = None, **kw: Unpack[FactoryOptions]
) -> Tensor:
    """Uniform random numbers in [0, 1); generator=, size= and the options of `empty`."""
    return _random("rand", sizes_of("rand", sizes, size), kw, generator, el.uniform_from_bits)


def randn(
    *sizes: Any, size: Any = None, generator: Any = None, **kw: Unpack[FactoryOptions]
) -> Tensor:
    """Standard normal random numbers; options as of `rand`."""
    return _random("randn", sizes_of("randn", sizes, size), kw, generator, el.normal_from_bits)


def rand_like(input: Tensor, *, generator: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
    """`rand` of the shape, dtype and device of `input`, laid out as `clone` would."""
    return _like(rand, uniform_, input, generator, kw)


def randn_like(input: Tensor, *, generator: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
    """`randn` of the shape, dtype and device of `input`, laid out as `clone` would."""
    return _like(randn, normal_, input, generator, kw)


def _like(make: Any, fill: Any, input: Tensor, generator: Any, kw: Any) -> Tensor:
    on_cpu = resolve(kw.get("device") or input.device) is _device.cpu
    if on_cpu and el.order_for(input, kw.get("memory_format"), make.__name__) is not None:
        needs = kw.pop("requires_grad", False)  # an engine may draw one by one then, as PyTorch's
        return finish(fill(creation.empty_like(input, **kw), generator=generator), needs)
    return creation.made_like(make, make.__name__, input, {**kw, "generator": generator})


def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None,
            **kw: Unpack[FactoryOptions]) -> Tensor:  # fmt: skip
    """Random ints in [low, high), int64 by default; randint(high, size) starts at 0."""
    if size is None and low is not None and not isinstance(high, int):
        low, high, size = None, low, high  # (high, size)
    if high is None:
        low, high = None, low
    if size is None or high is None:
        raise TypeError(f"randint(): missing {'high' if high is None else 'size'}")
    low = 0 if low is None else low
    low, high = numbers("randint", low=low, high=high)
    options = options_of("randint", kw)
    d, target = options.get("dtype") or dt.int64, resolve(options.get("device"))
    drawn = ints_between("randint", sizes_of("randint", (size,)), low, high, d, target, generator)
    return finish(drawn, options.get("requires_grad", False))


def ints_between(
    name: str, shape: tuple[int, ...], low: int, high: int, d: dt.dtype, target: Device,
    generator: Any,
) -> Tensor:  # fmt: skip
    """Random ints in [low, high): 32 random bits modulo the range (64 for a wider one)."""
    if high <= low:
        raise RuntimeError(
            f"{name}: random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    span = high - low
    if (found := drawn(generator, "ints", target, shape, low, span)) is not None:
        return found.to(d)
    bits = uniform_bits(shape, target, generator)
    if not target.wide:
        if span >= 1 << 32:
            raise RuntimeError(f"{name}: a range of {span} is too wide for the GPU's 32-bit ints")
        return el.remainder(bits, span).to(dt.int32).add(low).to(d)
    wide = bits.to(dt.int64)
    if span > 1 << 31:
        more = uniform_bits(shape, target, generator).to(dt.int64)
        wide = el.bitwise_and(wide * (1 << 31) + el.floor_divide(more, 2), (1 << 63) - 1)
    return (el.remainder(wide, span) if span < 1 << 63 else wide).add(low).to(d)


def randint_like(
    input: Tensor,
    low: Any,
    high: Any = None,
    *,
    generator: Any = None,
    **kw: Unpack[FactoryOptions],
) -> Tensor:
    """`randint` of the shape, dtype and device of `input`, laid out as `clone` would."""
    low, high = (0, low) if high is None else (low, high)

    def make(shape: Any, **options: Any) -> Tensor:
        return randint(low, high, shape, generator=generator, **options)

    return creation.made_like(make, "randint_like", input, kw)


def randperm(n: int, *, generator: Any = None, **kw: Unpack[FactoryOptions]) -> Tensor:
    """0..n-1 in random order (drawn on the host)."""
    options = options_of("randperm", kw)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    return creation.made(permutation(n, generator), options, dt.int64)


def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that each element (or `p`) gives, else 0; no gradient."""
    if input.dtype.category < dt.FLOAT and p is None:
        raise NotImplementedError(
            f"bernoulli: expected float probabilities, got {input.dtype.name}; use .float() first"
        )
    chance = input.detach() if p is None else p
    if isinstance(chance, (int, float)) and not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")
    u = fractions(input, generator, chance)
    if isinstance(chance, Tensor):
        chance = chance.detach().to(input.device)
        bad = el.logical_not(el.logical_and(el.ge(chance, 0), el.le(chance, 1)))
        check.assert_not(bad, "bernoulli: Expected p_in >= 0 && p_in <= 1")
    return creation.without_gradient(el.lt(u, chance).to(input.dtype), input)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with 1 with the probability `p`, or those that a tensor gives, else with 0."""
    return self._overwrite(bernoulli(self, p, generator=generator))


public(
    globals(), both="multinomial bernoulli", out_exact="multinomial",
    methods="bernoulli_ uniform_ normal_ exponential_ geometric_ cauchy_ log_normal_ random_",
    functions="""normal poisson binomial get_rng_state set_rng_state rand randn rand_like randn_like
    randint randint_like randperm""",
)  # fmt: skip
