"""Strides: each result lies in memory as PyTorch's does, of operands in many layouts, eager and
compiled; and what is a view, and what a copy, is the same."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from samples import ROWS, Row, make

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.core.op import REGISTRY
from pyframe.runtime import cpu

# Rows whose results lie in another way than PyTorch's, and why
LEFT = {
    r"linalg_|matmul:einsum": "LAPACK and einsum leave their own order; ours is row-major",
    r"fft|stft": "PyTorch's FFT leaves the transformed dims in the order of its passes",
    r"pow:base|loss:margins|polynomial|conv:unbatched|conv:3d|conv_input:coprime3d|conv_weight:depthwise|adjoint|conj|copies$":
        "compositions there that are others here",
    r"reduce_along:segment_offsets|fold:columns": "a view of more memory there",
    r"kthvalue:index": "a step of a vector there",
    r"as_strided_scatter": "the operand's memory is another here",
    r"scipy": "needs SciPy",
}  # fmt: skip
CHECKED = [r for r in ROWS if not any(re.match(p, r.name) for p in LEFT)]
EACH = [r for r in CHECKED if r.name in REGISTRY]
LAYOUTS = ("reversed", "rotated", "channels_last", "gaps", "repeated", "mixed", "second")


def order_in(kind: str, number: int, n: int) -> list[int]:
    """The dims of the operand with this number from the longest stride to the shortest."""
    if kind in ("mixed", "second"):
        kinds = ("reversed", "", "rotated") if kind == "mixed" else ("", "reversed", "rotated")
        kind = kinds[number % 3]
    if kind == "reversed":
        return list(range(n))[::-1]
    if kind == "rotated":
        return [n - 1, *range(n - 1)]
    return [0, *range(2, n), 1] if kind == "channels_last" and n > 2 else list(range(n))


def laid_out(t: Any, a: np.ndarray, kind: str, number: int, device: str) -> Any:
    """An operand of module `t` with the values of `a` in a layout."""
    if kind == "gaps" and a.ndim:
        wide = np.repeat(a, 2, -1)
        return t.from_numpy(wide).to(device)[..., ::2]
    if kind == "repeated" and a.ndim > 1 and len(a):
        return t.from_numpy(a[:1].copy()).to(device).expand(*a.shape)
    order = order_in(kind, number, a.ndim)
    lying = np.ascontiguousarray(a.transpose(order)) if a.ndim else a.copy()
    return t.from_numpy(lying).to(device).permute([order.index(d) for d in range(a.ndim)])


def strides(found: Any) -> list[Any]:
    """The strides of all tensors in a result. Dims of size 1, and tensors without elements, have
    no place in memory."""
    if isinstance(found, (tuple, list)):
        return [s for x in found for s in strides(x)]
    if not hasattr(found, "stride") or 0 in found.shape:
        return []
    return [tuple(s for n, s in zip(found.shape, found.stride(), strict=True) if n > 1)]


def check(row: Row, kind: str, device: str, torch: Any, runs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    arrays = [make(s, rng) for s in row.specs]

    def call(*xs: Any) -> Any:
        return row.call(pf, F, *xs)

    try:
        xs = [laid_out(torch, a, kind, i, "cpu") for i, a in enumerate(arrays)]
        with warnings.catch_warnings(action="ignore"):  # PyTorch's own
            want = strides(row.call(torch, torch.nn.functional, *xs))
    except (RuntimeError, ValueError):  # the values that are repeated are none that it takes
        return
    compiled = pf.compile(call)
    # of captures that give up, and of rows that are to warn
    with warnings.catch_warnings(action="ignore"), pf.no_grad():
        for run in runs:
            ys = [laid_out(pf, a, kind, i, device) for i, a in enumerate(arrays)]
            got = strides((call if run == "eager" else compiled)(*ys))
            assert got == want, (row.name, kind, run)


@pytest.mark.parametrize("number", range(len(LAYOUTS)), ids=LAYOUTS)
def test_eager_results(number: int, torch: Any) -> None:
    """Of registered ops in each layout, of the other rows in two."""
    made = [r for r in CHECKED if r.name not in REGISTRY]
    some = [r for i, r in enumerate(made) if (i - number) % len(LAYOUTS) < 2]
    for row in EACH + some:
        check(row, LAYOUTS[number], "cpu", torch, ("eager",))


@pytest.mark.parametrize("part", range(8))
def test_compiled_results(part: int, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "compiler", lambda: None)  # plans lay results out, whoever compiles
    made = [r for r in CHECKED if r.name not in REGISTRY][::2]
    for i, row in enumerate((EACH + made)[part::8]):
        if row.name != "view_as_complex":  # a capture knows no complex numbers
            kind = LAYOUTS[i % len(LAYOUTS)]
            check(row, kind, "cpu", torch, ("captured", "replayed"))


def test_results_on_the_gpu(gpu: str, torch: Any) -> None:
    for i, row in enumerate(r for r in EACH[::6] if not r.cpu):
        check(row, LAYOUTS[i % 6], gpu, torch, ("eager", "captured", "replayed"))


# of x, what becomes y; the last statement writes to it, or to what shares its memory
WRITES = """
y = -x; y.contiguous().clamp_(-1, 1)
y = x * 2; y.reshape(-1)[1:3].fill_(9.0)
y = x.clone(); y.reshape(-1)[0:2].mul_(9.0)
y = (x.t() * 2).t(); y.contiguous().zero_()
y = x + 1; y.flatten()[1] = 9
y = x * 3; y.t().reshape(-1)[2:5] = 7; y.view(*y.shape).add_(y.t().contiguous().t())
y = x * 3; y.as_strided((3,), (2,), 1).fill_(-1); y.add_(1)
"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("program", WRITES.strip().split("\n"))
def test_a_write_shows_where_pytorch_has_one_memory(
    program: str, turned: bool, device: str, torch: Any
) -> None:
    def written(t: Any, device: str, run: Any) -> Any:
        def write(x: Any) -> Any:
            names = {"x": x}
            exec(program, names)
            return names["y"]

        x = t.from_numpy(np.arange(24, dtype=np.float32).reshape(4, 6)).to(device)
        return run(write)(x.t() if turned else x).cpu().numpy()

    want = written(torch, "cpu", lambda f: f)
    for run in (lambda f: f, pf.compile):
        np.testing.assert_array_equal(written(pf, device, run), want)


def test_a_gradient_lies_as_its_leaf(device: str) -> None:
    x = pf.randn(4, 6, device=device)
    for leaf in (x.clone(), x.t().clone()):
        leaf.requires_grad_()
        (leaf.t() * pf.ones(leaf.shape[::-1], device=device)).square().sum().backward()
        assert leaf.grad.stride() == leaf.stride()
