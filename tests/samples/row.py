"""The row of an op: its inputs, and the same call on pyframe and on PyTorch (`t` is either module).

A row's name is that of the op in the registry, so that an op without a row fails the suite;
further rows of an op add a colon and a word. `F` is nn.functional of the same module. From a row
come the tests of values, dtypes and gradients on each device (ops/test_ops.py), of what is compiled
(ops/test_compiled_rows.py, by each code generator backend/test_generators.py), of how results lie
in memory (ops/test_layouts.py), of the page (web/test_ops_in_page.py), the mutants of
scripts/mutate.py, and by its columns `edges` and `kernel` those of ops/test_extremes.py and
ops/test_kernel_ops.py. What an op refuses is in REFUSED beside the rows of its family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """`call(t, F, *inputs)`; inputs are made from `specs` (see `make`)."""

    name: str
    call: Callable[..., Any]
    specs: tuple[Any, ...] = (("normal", (4, 5)),)
    grad: bool = True  # compare gradients with PyTorch's
    second: bool = True  # check second derivatives too
    tol: float = 1.0
    cpu: bool = False  # the CPU alone: the GPU has no float64
    edges: bool = False  # exact of NaN, infinities, the largest and the smallest numbers, too
    kernel: tuple[Any, ...] = ()  # specs of the operands of the op's own kernel, and its attributes

    @property
    def scipy(self) -> bool:
        """Whether the op needs SciPy, which a page does not load."""
        return self.name.partition(":")[0] == "scipy"

    @property
    def size(self) -> int:
        """The number of elements of all inputs."""
        return sum(math.prod(s[1]) for s in self.specs)

    def arrays(self, call: int = 0, dtype: Any = np.float32) -> list[np.ndarray]:
        """Its inputs; each call has others."""
        rng = np.random.default_rng(sum(map(ord, self.name)) + call)
        return [make(s, rng, dtype) for s in self.specs]

    def tensors(
        self, t: Any, device: str = "cpu", call: int = 0, dtype: Any = np.float32
    ) -> list[Any]:
        """The same as tensors of a module, which require the gradients that are compared."""
        xs = [t.from_numpy(a).to(device) for a in self.arrays(call, dtype)]
        return [x.requires_grad_(self.grad and x.is_floating_point()) for x in xs]

    def results(self, t: Any, *xs: Any, seed: Any = None) -> tuple[Any, ...]:
        """The value, and the gradients of its sum with the weights `seed`."""
        y = self.call(t, t.nn.functional, *xs)
        if not self.grad:
            return (y,)
        seed = weights(t, y) if seed is None else seed
        wanted = [x for x in xs if x.requires_grad]
        return y, *t.autograd.grad(y, wanted, seed, allow_unused=True)


def weights(t: Any, y: Any) -> Any:
    """Of a sum that treats no two elements of `y` alike."""
    return t.from_numpy(np.cos(np.arange(y.numel())).reshape(y.shape)).to(y.dtype).to(y.device)


def normal(*shape: int) -> Any:
    return ("normal", shape)


def positive(*shape: int) -> Any:
    return ("positive", shape)


def distinct(*shape: int) -> Any:
    """Floats with gaps between them, for max and sort."""
    return ("distinct", shape)


def ints(low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
    return ("ints", shape, low, high, dtype)


def indices(high: int, *shape: int) -> Any:
    """As kernels take them."""
    return ints(0, high, *shape, dtype="int32")


def bools(*shape: int) -> Any:
    return ("bools", shape)


def given(values: Any, dtype: str = "int32") -> Any:
    """These numbers, as tuples, so that a row can be looked up."""
    return ("given", _fixed(values), dtype)


def _fixed(values: Any) -> Any:
    return tuple(map(_fixed, values)) if isinstance(values, list) else values


def edges(*shape: int) -> Any:
    """The eight numbers at the edges."""
    return ("edges", shape)


EDGES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 3e38)


def make(spec: Any, rng: np.random.Generator, dtype: Any = np.float32) -> np.ndarray:
    kind, shape = spec[0], spec[1]
    if kind == "given":
        return np.array(shape, spec[2])
    if kind == "normal":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "positive":
        return (rng.random(shape) * 2 + 0.3).astype(dtype)
    if kind == "distinct":
        n = math.prod(shape)
        return (rng.permutation(n).reshape(shape) * 0.1 - n * 0.04).astype(dtype)
    if kind == "edges":
        return np.array(EDGES, dtype).reshape(shape)
    if kind == "bools":
        return rng.random(shape) > 0.5
    return rng.integers(spec[2], spec[3], shape).astype(spec[4])


def value(name: str, call: Callable[..., Any], *specs: Any, **kw: Any) -> Row:
    """A row of values alone: they have steps, or no gradient worth a look."""
    return Row(name, call, specs or (normal(4, 5),), grad=False, **kw)


def unary(name: str, spec: Any = None, **kw: Any) -> Row:
    return Row(name, lambda t, F, x: getattr(t, name)(x), (spec or normal(4, 5),), **kw)


def binary(name: str, a: Any = None, b: Any = None, **kw: Any) -> Row:
    specs = (a or normal(4, 5), b or normal(5))
    return Row(name, lambda t, F, x, y: getattr(t, name)(x, y), specs, **kw)


def compare(name: str) -> Row:
    return binary(name, ints(0, 3, 4, 5), ints(0, 3, 5), grad=False)
