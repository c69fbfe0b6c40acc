"""What several tests of code generators and of backends share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import pyframe as pf
from pyframe.codegen.wgsl import generate
from pyframe.core.limits import Limits

# y = scale * x: one kernel with two buffers and a uniform.
SCALE = """
struct Params { scale: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: Params;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.n) { y[id.x] = x[id.x] * p.scale; }
}
"""


@contextlib.contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """The GPU has these limits, and no kernel that was made for others."""
    executor = pf.device("gpu").executor
    has = executor.backend.limits
    executor.forget_programs()
    executor.backend.limits = limits
    generate.cache_clear()
    yield
    executor.backend.limits = has
    executor.forget_programs()
    generate.cache_clear()


def in_rows_of_three(monkeypatch: pytest.MonkeyPatch, module: Any) -> list[int]:
    """How many workgroups each of a module's grids has, which lie in rows as from 65,536 on."""
    grids: list[int] = []
    monkeypatch.setattr(
        module, "grid_1d", lambda groups: (grids.append(groups), (-(-groups // 3), 3, 1))[1]
    )
    return grids


# shapes of the images and of the weight, stride, padding, dilation, groups
CONVOLUTIONS: list[tuple[Any, ...]] = [
    ((2, 1, 28, 28), (32, 1, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 32, 14, 14), (64, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 9, 7), (6, 2, 3, 2), (2, 3), (1, 0), (1, 2), 2),
    ((2, 6, 9, 7), (6, 1, 3, 3), (1, 2), (2, 1), (2, 1), 6),
    ((2, 5, 8, 8), (7, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 9, 15, 14), (7, 9, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    # a position more than vectors take: read in place or not, of deep columns
    ((2, 270, 7, 7), (20, 270, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 40, 5, 13), (130, 20, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((2, 5, 8, 8), (7, 5, 2, 1), (3, 4), (0, 2), (1, 1), 1),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 2, 3, 3), (3, 2, 2, 2), (1, 1), (4, 4), (3, 3), 1),
    ((2, 3, 50), (4, 3, 5), (1,), (2,), (1,), 1),
    ((2, 4, 31), (4, 2, 4), (3,), (3,), (2,), 2),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 1, 2), 1),
    ((5, 70, 7, 7), (40, 70, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    # residues of the stride whose taps follow each other, but do not begin with the first
    ((2, 4, 9), (4, 1, 3), (2,), (1,), (1,), 4),
    ((2, 4, 9, 9), (4, 1, 3, 3), (2, 2), (1, 1), (1, 1), 4),
    ((2, 4, 8, 8), (4, 1, 2, 2), (2, 2), (0, 0), (1, 1), 4),
    ((2, 4, 9, 9), (4, 1, 7, 7), (4, 4), (3, 3), (1, 1), 4),
    ((2, 8, 9, 9), (1, 8, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    # few rows in a group, whose taps are written out: long ones, few planes, edges, large padding
    ((1, 3, 70), (2, 3, 9), (1,), (4,), (1,), 1),
    ((2, 2, 90), (4, 1, 4), (2,), (3,), (3,), 2),
    ((1, 5, 90, 83), (1, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 6, 3, 35), (12, 1, 5, 4), (2, 1), (3, 5), (1, 2), 6),
    ((1, 8, 2, 40), (8, 1, 7, 7), (1, 2), (3, 3), (1, 1), 8),
    ((1, 4, 60, 70), (2, 2, 5, 5), (1, 2), (0, 0), (2, 3), 2),
    # several planes at once from few channels
    ((2, 6, 9, 71), (16, 3, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((1, 4, 30, 150), (8, 4, 2, 3), (2, 2), (0, 1), (2, 1), 1),
    ((2, 1, 7, 66), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    # seven rows at once
    ((2, 5, 14, 19), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1), 5),
    ((1, 6, 14, 13), (6, 1, 5, 5), (2, 2), (2, 2), (1, 1), 6),
    # of one position
    ((2, 20, 1, 1), (9, 20, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((11, 3, 4, 2), (17, 3, 4, 2), (1, 1), (0, 0), (1, 1), 1),
    ((1, 500, 3, 3), (1, 500, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    # of few positions: windows of parts of vectors and padding, several images
    ((1, 3, 40), (9, 3, 17), (9,), (2,), (2,), 1),
    ((2, 20, 2), (7, 20, 3), (2,), (1,), (1,), 1),
    ((3, 6, 2, 2), (33, 6, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((1, 5, 2, 3, 2), (130, 5, 2, 2, 2), (1, 1, 2), (0, 0, 1), (1, 1, 1), 1),
    # small images: several at once, and taps that read nothing but padding
    ((37, 9, 1, 1), (8, 9, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((70, 3, 2, 2), (9, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((11, 20, 4, 5), (18, 10, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    ((19, 6, 3, 3), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((3, 2, 2, 2), (5, 2, 3, 3), (1, 1), (4, 4), (4, 4), 1),
    ((2, 4, 9, 9), (4, 1, 3, 3), (3, 3), (2, 2), (2, 2), 4),
    ((1, 3, 5, 5, 5), (3, 1, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 3),
]
