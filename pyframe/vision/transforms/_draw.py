"""What random transforms draw: plain numbers of the host's stream, which pf.manual_seed fixes.

They are the same on every machine, whatever device the images are on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pyframe.core.dtypes import float32
from pyframe.ops.random.draws import (
    default_generator,
    drawn,
    host_normal,
    permutation as permutation,
)


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """A number of [low, high)."""
    if (found := drawn(None, "rand", None, (), float32, low, high)) is not None:
        return float(found)
    return low + (high - low) * (default_generator.host_block()[0] >> 8) * 2.0**-24


def randint(low: int, high: int) -> int:
    """An int of low..high - 1."""
    if (found := drawn(None, "ints", None, (), low, high - low)) is not None:
        return int(found)
    return low + (default_generator.host_block()[0] * (high - low) >> 32)


def randints(*counts: int) -> tuple[int, ...]:
    """An int of 0..count - 1 for each of at most four counts."""
    if (found := drawn(None, "each", None, counts)) is not None:
        return tuple(found)
    bits = default_generator.host_block()
    return tuple(word * count >> 32 for word, count in zip(bits, counts, strict=False))


def choice(weights: Sequence[float]) -> int:
    """An index, as likely as its weight."""
    at = uniform(high=sum(weights))
    for i, weight in enumerate(weights):
        at -= weight
        if at < 0:
            return i
    return len(weights) - 1  # what rounding left over


def gamma(shape: float) -> float:
    """A number of the gamma distribution of scale 1.

    Marsaglia, Tsang, "A Simple Method for Generating Gamma Variables", 2000.
    """
    if shape < 1:
        return gamma(shape + 1) * (1 - uniform()) ** (1 / shape)
    d = shape - 1 / 3
    while True:
        x = float(host_normal(1)[0])
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(1 - uniform()) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v


def dirichlet(concentration: float, parts: int, rows: int) -> np.ndarray:
    """float32 (rows, parts): in each row parts of 1, all of one concentration."""
    drawn = np.array([[gamma(concentration) for _ in range(parts)] for _ in range(rows)])
    return (drawn / drawn.sum(1, keepdims=True)).astype(np.float32)


def beta(concentration: float) -> float:
    """A number of [0, 1] of the beta distribution with both parameters alike."""
    return float(dirichlet(concentration, 2, 1)[0, 0])
