"""Convolutions as products with the columns of windows: where all that they read and write lies.

The three products of a convolution multiply with its columns (each window as a column), of which
only what a block needs is made, straight from the images. Tables of byte offsets say where things
lie: an element of the columns is at `taps_at[k] + positions_at[p]` of its image, whatever the dims,
strides, dilation or dims' order. An image with padding is copied into a padded one first. What
computes them, codegen/wasm/conv.py and codegen/llvm/conv.py, gets this as `Products`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray]


class Products(NamedTuple):
    """The products of all images and groups of a convolution. Strides are bytes; tables are arrays
    of int64."""

    images: int
    groups: int
    m: int  # rows of the product, in a group
    c_group: int  # strides of the result
    c_row: int
    a_group: int  # strides of the weight (of the gradient, for that of a weight)
    a_row: int
    image: int  # strides of the images that are convolved
    group: int
    channel: int
    channels: int  # of a group
    taps_at: np.ndarray  # of the elements of a window, in a group
    positions_at: np.ndarray
    c_image: int = 0
    a_image: int = 0
    padded: int = 0  # bytes of a group's padded image, 0: none is made
    padded_channel: int = 0
    rows: int = 0  # of a channel; each is copied
    row_bytes: int = 0
    rows_at: np.ndarray | None = None  # to and from where each row is copied
    a_at: np.ndarray | None = None  # where the elements of a row of the weight lie
    c_at: np.ndarray | None = None  # where the positions of the result lie, if not in line


def conv(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> list[Products] | None:
    """Of `conv`. The images need rows that lie in line if they are padded, else it is None."""
    x, w = inputs
    stride, padding, dilation, groups = attrs
    images = _Images.of(x, groups, padding, padding)
    if images is None or not w.size:
        return None
    o = out.shape[1] // groups
    return [
        Products(
            **images.fields, m=o, c_image=out.strides[0], c_group=o * out.strides[1],
            c_row=out.strides[1], a_group=o * w.strides[0], a_row=w.strides[0],
            a_at=_grid(*_places(w.shape[1:], w.strides[1:])),
            taps_at=_grid(
                *_places(w.shape[1:], (images.channel, *images.apart(dilation)))
            ),
            positions_at=_grid(*_places(out.shape[2:], images.apart(stride))),
        )
    ]  # fmt: skip


def conv_input(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> list[Products] | None:
    """Of `conv_input`: each residue of positions by the stride is a convolution of the gradient
    with the taps that reach it."""
    g, w = inputs
    spatial, stride, padding, dilation, groups = attrs
    o = w.shape[0] // groups
    # of each dim and residue: the positions, the taps, and how far before them these read
    residues: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
    before, after = [], []
    for size, s, p, d, n, m in zip(
        spatial, stride, padding, dilation, w.shape[2:], g.shape[2:], strict=True
    ):
        found = []
        for r in range(min(s, size)):
            taps = np.array([k for k in range(n) if (r + p - k * d) % s == 0], np.int64)
            found.append((np.arange(-(-(size - r) // s)), taps, (r + p - taps * d) // s))
        reads = [(int(e.min()), int(j[-1] + e.max())) for j, _, e in found if len(e)]
        before.append(max(0, -min([low for low, _ in reads], default=0)))
        after.append(max(0, max([high for _, high in reads], default=0) - m + 1))
        residues.append(found)
    images = _Images.of(g, groups, tuple(before), tuple(after))
    if images is None or not w.size:
        return None
    products = []
    for starts in itertools.product(*[range(len(found)) for found in residues]):
        dims = [found[r] for found, r in zip(residues, starts, strict=True)]
        reads_at = [
            (e + b) * s for (_, _, e), b, s in zip(dims, before, images.strides, strict=True)
        ]
        weights = [t * s for (_, t, _), s in zip(dims, w.strides[2:], strict=True)]
        c_at = None
        if math.prod(stride) > 1:
            c_at = _grid(
                *[(r + j * t) * s for r, (j, _, _), t, s
                  in zip(starts, dims, stride, out.strides[2:], strict=True)]
            )  # fmt: skip
        products.append(
            Products(
                **images.fields, m=w.shape[1], c_image=out.strides[0],
                c_group=w.shape[1] * out.strides[1], c_row=out.strides[1],
                a_group=o * w.strides[0], a_row=w.strides[1],
                a_at=_grid(*weights, np.arange(o) * w.strides[0]),
                taps_at=_grid(*reads_at, np.arange(o) * images.channel),
                positions_at=_grid(
                    *[j * s for (j, _, _), s in zip(dims, images.strides, strict=True)]
                ),
                c_at=c_at,
            )
        )  # fmt: skip
    return products


def conv_weight(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> list[Products] | None:
    """Of `conv_weight`; None if a gradient's positions don't lie in line."""
    g, x = inputs
    kernel, stride, padding, dilation, groups = attrs
    images = _Images.of(x, groups, padding, padding)
    if images is None or not g.size or not _lies_in_line(g, 2):
        return None
    o = out.shape[0] // groups
    return [
        Products(
            **images.fields, m=o, c_group=o * out.strides[0], c_row=out.strides[0],
            a_image=g.strides[0], a_group=o * g.strides[1], a_row=g.strides[1],
            taps_at=_grid(
                *_places((out.shape[1], *kernel), (images.channel, *images.apart(dilation)))
            ),
            positions_at=_grid(*_places(g.shape[2:], images.apart(stride))),
        )
    ]  # fmt: skip


def _grid(*axes: Any) -> np.ndarray:
    """The sums of one offset of each axis, in C order."""
    return functools.reduce(np.add.outer, [np.asarray(a, np.int64) for a in axes]).reshape(-1)


def _places(shape: Shape, strides: Shape) -> list[np.ndarray]:
    """The offsets along each dim."""
    return [np.arange(n) * s for n, s in zip(shape, strides, strict=True)]


class _Images(NamedTuple):
    """How images (N, C, *spatial) are read: in place, or padded."""

    strides: Shape  # of a spatial dim
    channel: int  # stride of a channel where it is read
    fields: dict[str, Any]  # of Products

    def apart(self, steps: Shape) -> Shape:
        """The bytes between positions so many elements apart."""
        return tuple(n * s for n, s in zip(steps, self.strides, strict=True))

    @staticmethod
    def of(x: np.ndarray, groups: int, before: Shape, after: Shape) -> _Images | None:
        """With borders of 0; these need rows that lie in line."""
        channels, spatial, size = x.shape[1] // groups, x.shape[2:], x.itemsize
        fields = {
            "images": x.shape[0], "groups": groups, "image": x.strides[0],
            "group": channels * x.strides[1], "channel": x.strides[1], "channels": channels,
        }  # fmt: skip
        if not x.size:
            return None
        if not any(before) and not any(after):
            return _Images(x.strides[2:], x.strides[1], fields)
        if spatial[-1] > 1 and x.strides[-1] != size:
            return None
        sizes = [b + n + a for b, n, a in zip(before, spatial, after, strict=True)]
        strides = tuple(size * math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
        nbytes = size * math.prod(sizes)
        at = [(np.arange(n) + b) * s for n, b, s in zip(spatial, before, strides, strict=True)]
        places = _places(spatial, x.strides[2:])
        rows = np.stack([_grid(*at[:-1], before[-1] * size), _grid(*places[:-1], 0)], 1)
        fields |= {
            "padded": -(-nbytes * channels // 16) * 16, "padded_channel": nbytes,
            "rows": len(rows), "row_bytes": size * spatial[-1], "rows_at": rows,
        }  # fmt: skip
        return _Images(strides, nbytes, fields)


def _lies_in_line(x: np.ndarray, first: int) -> bool:
    """Whether the dims from `first` on are those of elements that follow each other."""
    expected = x.itemsize
    for n, s in zip(x.shape[: first - 1 : -1], x.strides[: first - 1 : -1], strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True
