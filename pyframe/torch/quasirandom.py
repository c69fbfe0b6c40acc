"""torch.quasirandom: Sobol's points, which SciPy makes (the extra `special`)."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.tensor import Tensor


class SobolEngine:
    """Points that fill the unit cube more evenly than random ones (Joe and Kuo's directions).

    Scrambled ones are SciPy's, not PyTorch's.

    Args:
        dimension: how many numbers a point has.
        scramble: whether the points are shuffled at random (Owen's scrambling).
        seed: of that.

    Raises:
        ValueError: `dimension` is not from 1 to 21201.

    >>> SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"SobolEngine: expected a dimension from 1 to {self.MAXDIM}, got {dimension}"
            )
        from scipy.stats import qmc

        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        if scramble and seed is None:
            seed = int(pf.randint(1 << 31, (1,)).item())
        self._points = qmc.Sobol(dimension, scramble=scramble, rng=seed)

    num_generated = property(lambda self: self._points.num_generated)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, (n, dimension), written to `out` if it is given."""
        import warnings

        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of no powers of 2
            found = pf.from_numpy(self._points.random(n)).to(dtype or pf.get_default_dtype())
        return found if out is None else out.resize_as_(found).copy_(found)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points."""
        n = 1 << m
        if self.num_generated & (self.num_generated - 1) or 0 < self.num_generated != n:
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n="
                f"{self.num_generated}+2**{m}={self.num_generated + n}. If you still want to do "
                "this, the method 'draw()' can be used."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point."""
        self._points.reset()
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        self._points.fast_forward(n)
        return self

    def __repr__(self) -> str:
        said = "".join(f", {name}=True" for name in ("scramble",) if self.scramble)
        seeded = f", seed={self.seed}" if self.seed is not None else ""
        return f"SobolEngine(dimension={self.dimension}{said}{seeded})"
