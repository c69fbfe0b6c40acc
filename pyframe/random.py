"""Random numbers: one Philox counter generator, the same bits on every device.

A device's state is a uint32 tensor (key low, key high, draw): each draw takes element i from
counter (i, draw), then adds 1 to draw. The host's state fixes initial weights and shuffling.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pyframe import devices as _device, dtypes as dt
from pyframe.devices import device as Device, mode
from pyframe.graph.capture import outside
from pyframe.ops import elementwise as el, mathfn, movement as mv
from pyframe.ops.op import apply
from pyframe.ops.public import public
from pyframe.tensor import Tensor, no_grad, upload


class Generator:
    """A seeded stream of random numbers, with one counter per device."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self._states: dict[Device, Tensor] = {}
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed` (any int, taken modulo 2**64)."""
        self._seed = int(seed) & (2**64 - 1)
        self._host_draws = 0
        for state in self._states.values():  # the same tensors, as replays know them
            state._overwrite(upload(self._start(), state.device))
        return self

    def _start(self) -> np.ndarray:
        return np.array([self._seed & 0xFFFFFFFF, self._seed >> 32, 0], np.uint32)

    def seed(self) -> int:
        """Start over from a seed of the operating system's; returns it."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little"))._seed

    def initial_seed(self) -> int:
        """The seed that the stream started from."""
        return self._seed

    def get_state(self) -> Tensor:
        """The host's state: uint8, as torch.Generator's."""
        raw = np.array([self._seed, self._host_draws], np.uint64)
        return upload(raw.view(np.uint8), _device.cpu)

    def set_state(self, state: Tensor) -> None:
        """Go back to a state of `get_state`; device counters start over."""
        seed, draws = state.numpy().view(np.uint64)
        self.manual_seed(int(seed))
        self._host_draws = int(draws)

    def bits(self, shape: tuple[int, ...], device: Device) -> Tensor:
        """uint32 random bits on `device`."""
        state = self._states.get(device)
        if state is None:
            with outside():
                state = self._states[device] = upload(self._start(), device)
        with no_grad():
            words = [mv.select(state, 0, i) for i in range(3)]
            out = apply(el.random_bits_op, tuple(words), (shape,))
            step = el.eq(el.iota((3,), device), 2).to(dt.uint32)
            state._overwrite(state + step)
        return out

    def host_bits(self, n: int) -> np.ndarray:
        """uint32 (n,) random bits on the host, of a stream of their own."""
        if mode.capture is not None:
            mode.capture.give_up("draws random numbers on the host")
        draw = self._host_draws
        self._host_draws += 1
        key = self._seed ^ 0x9E3779B97F4A7C15  # not the devices' stream
        words = mathfn.philox(key & 0xFFFFFFFF, key >> 32, draw & 0xFFFFFFFF, 0, (n + 3) // 4)
        return words.reshape(-1)[:n]


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Fix all random numbers from here on: weights, shuffling, dropout, on every device."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start over from a seed of the operating system's; returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def host_uniform(n: int, generator: Generator | None = None) -> np.ndarray:
    """float32 (n,) uniform in [0, 1), the same bits on every machine."""
    bits = (generator or default_generator).host_bits(n)
    return (bits >> 8).astype(np.float32) * np.float32(2**-24)


def host_normal(n: int, generator: Generator | None = None) -> np.ndarray:
    """float32 (n,) standard normal, the same bits on every machine."""
    return mathfn.normal_from_bits((generator or default_generator).host_bits(n))


def permutation(n: int, generator: Generator | None = None) -> np.ndarray:
    """int64 (n,): 0..n-1 in random order, the same on every machine."""
    bits = (generator or default_generator).host_bits(2 * n).astype(np.uint64)
    keys = bits[:n] << np.uint64(32) | bits[n:]
    return np.argsort(keys, kind="stable").astype(np.int64)


def uniform_bits(shape: tuple[int, ...], device: Device, generator: Generator | None) -> Tensor:
    return (generator or default_generator).bits(shape, device)


def _set(x: Tensor, values: np.ndarray) -> Tensor:
    with no_grad():
        new = upload(values.astype(x.dtype.numpy).reshape(x.shape), x.device)
        return x._overwrite(new)


def uniform_(
    self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None, **kw: Any
) -> Tensor:
    """Fill with uniform numbers of [from, to), drawn on the host."""
    from_ = kw.pop("from", from_)
    if kw:
        raise TypeError(f"uniform_() got unexpected arguments {sorted(kw)}")
    if not from_ <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, got {from_} > {to}")
    u = host_uniform(self.numel(), generator)
    return _set(self, u * np.float32(to - from_) + np.float32(from_))


def normal_(
    self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal numbers, drawn on the host."""
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    z = host_normal(self.numel(), generator)
    return _set(self, z * np.float32(std) + np.float32(mean))


PUBLIC = public(globals(), methods="uniform_ normal_")
