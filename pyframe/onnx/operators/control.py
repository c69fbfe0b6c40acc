"""Branches, loops, sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyframe as pf
from pyframe.onnx import values
from pyframe.onnx.graph import RunContext
from pyframe.onnx.table import host, op
from pyframe.onnx.values import Host, whole
from pyframe.tensor import Tensor


@op("If")
def if_(condition: Host, *, then_branch: Any, else_branch: Any) -> Any:
    return tuple((then_branch if condition.item() else else_branch)([]))


def _stacked(parts: list[Any], run: RunContext, axis: int = 0) -> Any:
    if all(isinstance(p, np.ndarray) for p in parts):
        return np.stack(parts, axis)
    return pf.stack([run.tensor(p) for p in parts], axis)


@op("Loop")
def loop(
    count: Host | None,
    condition: Host | None,
    *carried: Any,
    body: Any,
    run: RunContext,
    outputs: int,
) -> Any:
    """The body is called as often; what it gives beyond what it carries is stacked."""
    most = None if count is None else whole(count)
    on = True if condition is None else bool(condition.item())
    state = list(carried)
    scanned: list[list[Any]] = [[] for _ in range(max(outputs - len(state), 0))]
    i = kept = 0
    while on and (most is None or i < most):
        go, *found = body([np.array(i, np.int64), np.array(True), *state])
        state = found[: len(state)]
        for made, value in zip(scanned, found[len(state) :], strict=False):
            made.append(value)
            kept += values.size_of(value)
        values.see_room([kept], 1)
        on = bool(values.array(go).item()) if go is not None else True
        i += 1
        if i >= values.ROUNDS:
            raise RuntimeError(f"Loop: not over after {values.ROUNDS} rounds")
    rest = [_stacked(s, run) if s else pf.zeros(0, device=run.device) for s in scanned]
    return (*state, *rest)


@op("Scan")
def scan(
    *inputs: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None, directions: Any = None, run: RunContext, version: int,
) -> Any:  # fmt: skip
    if version < 9:  # over a batch, with lengths
        if inputs[0] is not None:
            raise NotImplementedError("lengths of sequences")
        how = {"body": body, "num_scan_inputs": num_scan_inputs, "run": run, "version": 9}
        values.see_end(inputs[1].shape[0], "sequences")
        each = [
            scan(*(x[i] for x in inputs[1:]), scan_input_directions=directions, **how)
            for i in range(inputs[1].shape[0])
        ]
        return tuple(_stacked(list(parts), run) for parts in zip(*each, strict=True))
    k = num_scan_inputs
    state, walked = list(inputs[: len(inputs) - k]), inputs[len(inputs) - k :]
    axes = scan_input_axes or [0] * k
    backward = scan_input_directions or [0] * k
    n = walked[0].shape[axes[0]]
    values.see_end(n, "rounds")
    scanned: list[list[Any]] = []
    kept = 0
    for i in range(n):
        at = [n - 1 - i if b else i for b in backward]
        parts = [
            x[(*[slice(None)] * (a % x.ndim), j)] for x, a, j in zip(walked, axes, at, strict=True)
        ]
        found = body([*state, *parts])
        state, rest = found[: len(state)], found[len(state) :]
        scanned = scanned or [[] for _ in rest]
        for made, value in zip(scanned, rest, strict=True):
            made.append(value)
            kept += values.size_of(value)
        values.see_room([kept], 1)
    out_axes = scan_output_axes or [0] * len(scanned)
    for i, flipped in enumerate(scan_output_directions or ()):
        if flipped:
            scanned[i].reverse()
    return (*state, *(_stacked(s, run, a) for s, a in zip(scanned, out_axes, strict=True)))


op("SequenceEmpty")(lambda *, dtype=1: [])


@op("SequenceConstruct")
def sequence_construct(*xs: Any) -> Any:
    return list(xs)


@op("SequenceAt")
def sequence_at(sequence: Any, at: Host) -> Any:
    return sequence[whole(at)]


@op("SequenceInsert")
def sequence_insert(sequence: Any, x: Any, at: Host | None = None) -> Any:
    made = list(sequence)
    made.insert(len(made) if at is None else whole(at), x)
    return made


@op("SequenceErase")
def sequence_erase(sequence: Any, at: Host | None = None) -> Any:
    made = list(sequence)
    del made[-1 if at is None else whole(at)]
    return made


@op("SequenceLength")
def sequence_length(sequence: Any) -> Any:
    return np.array(len(sequence), np.int64)


@op("ConcatFromSequence")
def concat_from_sequence(sequence: Any, *, axis: int, new_axis: int, run: RunContext) -> Any:
    if new_axis:
        return _stacked(sequence, run, axis)
    return pf.cat([run.tensor(x) for x in sequence], axis)


@op("SplitToSequence")
def split_to_sequence(x: Tensor, split: Host | None = None, *, axis: int, keepdims: int) -> Any:
    values.see_end(x.shape[axis] if split is None else split.size, "parts")
    if split is None:
        return list(x.split(1, axis)) if keepdims else list(x.unbind(axis))
    sizes: Any = split.tolist()
    if type(sizes) is int:
        values.see_end(x.shape[axis] // max(sizes, 1), "parts")
    return list(x.split(sizes, axis))


@op("SequenceMap")
def sequence_map(sequence: Any, *rest: Any, body: Any) -> Any:
    found = [
        body([x, *(r[i] if isinstance(r, list) else r for r in rest)])
        for i, x in enumerate(sequence)
    ]
    return tuple(list(made) for made in zip(*found, strict=True))


@op("Optional")
def optional(x: Any = None, *, type: Any = None) -> Any:
    return x


@op("OptionalHasElement")
def optional_has_element(x: Any = None) -> Any:
    return np.array(x is not None)


host("OptionalHasElement")(optional_has_element)


@op("OptionalGetElement")
def optional_get_element(x: Any) -> Any:
    if x is None:
        raise ValueError("OptionalGetElement: there is none")
    return x
