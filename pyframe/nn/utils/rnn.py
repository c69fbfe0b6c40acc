"""Sequences of several lengths, as torch.nn.utils.rnn.

Packed, the first steps of all sequences come first, then the second ones, and so on; the longest
sequence stands first. A run is a stretch of steps that equally many sequences have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode
from pyframe.core.sizes import size_hint
from pyframe.nn.functional.resample import pad
from pyframe.ops.index.select import index_select
from pyframe.ops.index.sort import sort
from pyframe.ops.math.elementwise import where
from pyframe.ops.random.creation import arange, empty_like
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor, as_tensor, from_numpy

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _to(dtype: dt.dtype) -> Callable[[PackedSequence], PackedSequence]:
    def run(self: PackedSequence) -> PackedSequence:
        return self.to(dtype)

    run.__doc__ = f"As {dtype.name}."
    return run


class PackedSequence(_Fields):
    """`data` (rows, *), `batch_sizes` (T,) on the CPU: how many sequences have each step, and how
    the sequences were sorted, if they were. Made by `pack_sequence` and `pack_padded_sequence`.

    Args:
        sorted_indices: int64 (B,): which sequence stands at each place after sorting by
            length.
        unsorted_indices: its inverse; None computes it.
    """

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:  # fmt: skip
        if batch_sizes is None:
            data, batch_sizes = data
        if isinstance(batch_sizes, Tensor) and batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU; make a PackedSequence with pack_sequence or "
                "pack_padded_sequence of nn.utils.rnn"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """As Tensor.to; `batch_sizes` stay on the CPU.

        Args:
            args, kwargs: those of Tensor.to.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [
            None if x is None else x.to(data.device)
            for x in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> Self:
        """On the CPU."""
        return self.to("cpu")

    def gpu(self) -> Self:
        """On the GPU."""
        return self.to("gpu")

    cuda = gpu

    double, float, half = _to(dt.float64), _to(dt.float32), _to(dt.float16)
    long, int, short = _to(dt.int64), _to(dt.int32), _to(dt.int16)
    char, byte = _to(dt.int8), _to(dt.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data lie on a GPU."""
        return self.data.is_cuda


class Padded:
    """What a capture has for a PackedSequence, whose size would depend on values: the sequences as
    they were padded, (T, B, *), and their lengths. Recurrent networks walk it as it is; whoever
    wants the rows themselves has it packed."""

    def __init__(self, x: Tensor, lengths: Tensor, in_order: bool) -> None:
        self.x, self.lengths, self.in_order = x, lengths, in_order

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return PackedSequence

    @property
    def inside(self) -> Tensor:
        """(T, B): which steps the sequences have."""
        return mv.unsqueeze(arange(self.x.shape[0]), 1) < self.lengths

    def packed(self) -> PackedSequence:
        """The rows of all steps."""
        if mode.capture is None and self.x._node.data is None:
            raise RuntimeError("a packed sequence leaves what is captured")
        return _packed(self.x, self.lengths, self.in_order)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.packed(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.packed())

    def __getitem__(self, i: Any) -> Any:
        return self.packed()[i]

    def __len__(self) -> int:
        return 4

    def __repr__(self) -> str:
        return repr(self.packed())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one; None of None.

    Args:
        permutation: A vector of ints, or None.
    """
    if permutation is None:
        return None
    positions = arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return empty_like(permutation).scatter_(0, permutation, positions)


def _runs(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first step, number of steps, number of sequences) of each run, of lengths that fall."""
    done = 0
    for count in range(len(lengths), 0, -1):
        if lengths[count - 1] > done:
            yield done, lengths[count - 1] - done, count
            done = lengths[count - 1]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | list[int], batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:  # fmt: skip
    """Pack sequences padded to one length: (T, B, *), or (B, T, *) with `batch_first`.

    RuntimeError for lengths that do not fall, unless `enforce_sorted` is False (the sequences are
    sorted then), that are no 1-d list of B, not positive, or over T.

    Args:
        lengths: The length of each, as a list or a tensor on the CPU.
    """
    name = "pack_padded_sequence"
    given = as_tensor(lengths).to(dt.int64)
    if given.ndim != 1 or given.device.type != "cpu":
        raise RuntimeError(
            f"{name}: 'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{given.ndim}D {given.device} tensor"
        )
    x = mv.transpose(input, 0, 1) if batch_first else input
    if not input.numel():
        raise RuntimeError(f"{name}: Cannot pack empty tensors, got {list(input.shape)}")
    if given.shape[0] != x.shape[1]:
        raise RuntimeError(
            f"{name}: Expected `len(lengths)` to be equal to batch_size, but got {given.shape[0]} "
            f"(batch_size={x.shape[1]})"
        )
    recorder = mode.capture
    if recorder and recorder.replays and isinstance(lengths, Tensor) and x.device.type == "cpu":
        if (stays := _padded(x, given, enforce_sorted)) is not None:
            return stays
        recorder.graph_break(
            "packs sequences: a capture has them packed if their lengths are a tensor among the "
            "arguments, and the longest is as long as the padding (cut the padding to it; the "
            "example of an export needs a sequence that fills it)"
        )
    return _packed(x, given, enforce_sorted)


def _padded(x: Tensor, lengths: Tensor, in_order: bool) -> Any:
    """What a capture packs sequences to. A replay that has others, which it isn't right for, runs
    eagerly. None where these are such ones, or are not known yet."""
    known, steps = lengths._node.data, x.shape[0]
    if known is None or known.max() != size_hint(steps) or known.min() <= 0 or (
        in_order and (np.diff(known) > 0).any()
    ):  # fmt: skip
        return None
    bad = (lengths.max() != steps) | (lengths.min() <= 0)
    if in_order:
        bad = bad | (lengths[1:] > lengths[:-1]).any()
    mode.capture.check(bad, "pack_padded_sequence: other lengths", RuntimeError)  # type: ignore[union-attr]
    return Padded(x, lengths.clamp(1, steps), in_order)


def _packed(x: Tensor, given: Tensor, enforce_sorted: bool) -> PackedSequence:
    """`pack_padded_sequence` of (T, B, *)."""
    name, order = "pack_padded_sequence", None
    if not enforce_sorted:
        given, order = sort(given, descending=True)
        order = order.to(x.device)
    steps = x.shape[0]
    sizes = given.tolist()
    if min(sizes) <= 0:
        raise RuntimeError(
            f"{name}: Length of all samples has to be greater than 0, but found an element in "
            f"'lengths' that is <= 0: {min(sizes)}"
        )
    if any(a < b for a, b in itertools.pairwise(sizes)):
        raise RuntimeError(
            f"{name}: `lengths` array must be sorted in decreasing order when `enforce_sorted` is "
            "True; pass enforce_sorted=False to have the sequences sorted"
        )
    if sizes[0] > steps:
        raise RuntimeError(
            f"{name}: a length of {sizes[0]} exceeds the input's {steps} steps; with the steps "
            f"first its shape is {list(x.shape)}"
        )
    if order is not None:
        x = index_select(x, 1, order)
    runs = list(_runs(sizes))
    rest = x.shape[2:]
    parts = [
        mv.part(mv.part(x, 0, start, n), 1, 0, count).reshape(n * count, *rest)
        for start, n, count in runs
    ]
    batch_sizes = as_tensor([count for _, n, count in runs for _ in range(n)], dtype=dt.int64)
    return PackedSequence(join.cat(parts), batch_sizes, order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(sequences padded with `padding_value`, lengths): what `pack_padded_sequence` was given.

    `total_length` is the T to pad to; ValueError where it is below the longest sequence's.

    Args:
        sequence: A `PackedSequence`.
        batch_first: Whether they are (B, T, *), else (T, B, *).
    """
    longest = sequence.x.shape[0] if isinstance(sequence, Padded) else sequence.batch_sizes.numel()
    total = longest if total_length is None else total_length
    if total < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    if isinstance(sequence, Padded):
        inside = sequence.inside.reshape(*sequence.inside.shape, *[1] * (sequence.x.ndim - 2))
        out = where(inside, sequence.x, padding_value)
        if total_length is not None:
            sides = [0, 0] * (out.ndim - 1) + [0, total - longest]
            out = pad(out, sides, value=padding_value)
        return mv.transpose(out, 0, 1) if batch_first else out, sequence.lengths.clone()
    data, sizes, _, unsorted = sequence
    counts = sizes.tolist()
    batch, rest = counts[0], data.shape[1:]
    parts, row, step = [], 0, 0
    for count, group in itertools.groupby(counts):
        n = len(list(group))
        step += n
        below = total - len(counts) if step == len(counts) else 0
        x = mv.part(data, 0, row, n * count).reshape(n, count, *rest)
        row += n * count
        sides = [0, 0] * len(rest) + [0, batch - count, 0, below]
        parts.append(pad(x, sides, value=padding_value) if any(sides) else x)
    out = join.cat(parts)
    lengths = as_tensor([sum(c > i for c in counts) for i in range(batch)], dtype=dt.int64)
    if unsorted is not None:
        out, lengths = index_select(out, 1, unsorted), lengths[unsorted.cpu()]
    return mv.transpose(out, 0, 1) if batch_first else out, lengths


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Sequences (T_i, *) padded to the longest: (T, B, *), or (B, T, *) with `batch_first`.

    RuntimeError for no sequences, and for another side than 'right' and 'left'.

    Args:
        sequences: A list of tensors.
        padding_value: What to fill with.
        padding_side: 'right' or 'left' of each sequence.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    xs = list(sequences)
    if not xs:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("right", "left"):
        raise RuntimeError(
            f"pad_sequence: padding_side should be either 'right' or 'left', got '{padding_side}'"
        )
    # all rows one after the other, a row of padding behind them, and which row goes where
    lengths = np.array([x.shape[0] for x in xs])[:, None]
    positions = np.arange(lengths.max())
    if padding_side == "left":
        positions = positions + lengths - lengths.max()
    inside = (positions >= 0) & (positions < lengths)
    starts = lengths.cumsum()[:, None] - lengths
    rows = np.where(inside, positions + starts, lengths.sum())
    padding = xs[0].new_full((1, *xs[0].shape[1:]), padding_value)
    flat = join.cat([*xs, padding])
    index = from_numpy(rows if batch_first else np.ascontiguousarray(rows.T)).to(flat.device)
    return flat[index]


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences (T_i, *) that were padded to (T, B, *), or (B, T, *) with `batch_first`.

    Args:
        padded_sequences: The padded sequences.
        lengths: The length of each.
    """
    x = padded_sequences if batch_first else mv.transpose(padded_sequences, 0, 1)
    return [row[:n] for row, n in zip(x, as_tensor(lengths).tolist(), strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (T_i, *). RuntimeError where lengths do not fall, see `enforce_sorted` of
    `pack_padded_sequence`.

    Args:
        sequences: A list of tensors.
    """
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (T_i, *) that `pack_sequence` was given.

    Args:
        packed_sequences: A `PackedSequence`.
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
