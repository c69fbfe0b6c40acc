"""What a backend loads: the kernels of a Program as text, and its scalars as bytes."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pyframe.backend.base import Backend, ProgramCode
from pyframe.core import dtypes as dt
from pyframe.core.limits import Limits
from pyframe.core.sizes import is_symbolic, size_hint, statically_equal
from pyframe.graph.program import Kernel, Program
from pyframe.graph.schedule import PARAM_ALIGN


class _Scheduled(NamedTuple):
    """A kernel for a backend that takes it as it was scheduled."""

    code: Kernel
    label: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    sizes: tuple[Any, ...] = ()


def _wgsl(kernels: Sequence[Kernel], limits: Limits) -> list[Any]:
    # what runs on the CPU alone does not load it
    from pyframe.codegen.wgsl.sharing import dedupe_shaders

    return dedupe_shaders(kernels, limits)


# What puts the kernels of a Program into the language of a backend: for each of them something with
# `code`, `label`, `grid`, and with the `sizes` that the code reads after its scalars: those that
# change, and numbers in which kernels of one text differ.
CODEGENS: dict[str, Callable[[Sequence[Kernel], Limits], list[Any]]] = {
    "wgsl": _wgsl,
    "kernels": lambda kernels, limits: [_Scheduled(k) for k in kernels],
}


def program_code(program: Program, language: str, limits: Limits) -> ProgramCode:
    """A Program as a backend loads it."""
    made = program.texts.get(language)
    if made is None:  # then there is no room for what several kernels would share
        made = [s for k in program.kernels for s in CODEGENS[language]([k], limits)]
    steps: array[int] = array("i")
    for step in program.steps:
        one = made[step.kernel]
        if statically_equal(math.prod(one.grid), 0):
            continue  # an empty result
        size = -(-(program.kernels[step.kernel].params + len(one.sizes)) // 4) * 16
        grid, at = map(size_hint, one.grid), step.param_offset if size else -1
        steps.extend((step.kernel, *grid, at, size, len(step.slots), *step.slots))
    codes, labels = [m.code for m in made], [m.label for m in made]
    slots, more = len(program.slots), replaceable(program, language)
    return ProgramCode(codes, labels, steps, slots, program.param_bytes, more)


def replaceable(program: Program, language: str) -> bool:
    """Whether other texts may take the places of some while runs wait for them: the workgroups and
    sizes that these runs give must not be a text's own."""
    made = program.texts.get(language)
    return made is not None and not is_symbolic(tuple([(s.sizes, s.grid) for s in made]))


def generate_replacement(program: Program, i: int, backend: Backend) -> tuple[Any, Any]:
    """What kernel i of a replaceable Program is for a backend now: by itself, where it reads what
    its text read before, and beside the others."""
    from pyframe.codegen.wgsl.sharing import standalone_shader

    kernel, sizes = program.kernels[i], program.texts[backend.language][i].sizes
    beside = CODEGENS[backend.language](program.kernels, backend.limits)[i]
    return standalone_shader(kernel, backend.limits, sizes), beside


def sized(program: Program, language: str, limits: Limits) -> tuple[Program, list[Any], list[Any]]:
    """The Program with room among its scalars for the sizes that its kernels read, these sizes, and
    the workgroups of its dispatches: see `Backend.run`."""
    made = CODEGENS[language](program.kernels, limits)
    known = iter(program.params)
    steps, params, sizes, values, grids = [], [], [], [], []
    end = 0
    for step in program.steps:
        one, n = made[step.kernel], program.kernels[step.kernel].params
        if n + len(one.sizes):
            step = step._replace(param_offset=end)
            params += [(end + 4 * i, next(known)[1]) for i in range(n)]
            sizes += [(end + 4 * (n + i), dt.int32) for i in range(len(one.sizes))]
            values += one.sizes
            end += -(-4 * (n + len(one.sizes)) // PARAM_ALIGN) * PARAM_ALIGN
        steps.append(step)
        if not statically_equal(math.prod(one.grid), 0):
            grids += one.grid
    params += sizes
    texts = {language: made}
    out = replace(program, steps=steps, params=params, param_bytes=end, texts=texts)
    return out, values, grids


def encode_params(
    params: Sequence[tuple[int, dt.dtype]], values: Sequence[Any], size: int
) -> bytes:
    """The scalars in the layout that kernels read: a 32-bit word each."""
    out = bytearray(size)
    for (offset, d), v in zip(params, values, strict=True):
        v = bool(v) if d is dt.bool_ else v  # 0.5 is true
        if d.compute == "f32" and d.storage != "f16":
            struct.pack_into("<f", out, offset, _to_f32(v))
        elif d.storage == "f16":
            out[offset : offset + 2] = np.float16(v).tobytes()
        elif d.compute in ("u32", "bool"):
            struct.pack_into("<I", out, offset, int(v) & 0xFFFFFFFF)
        else:
            struct.pack_into("<i", out, offset, ((int(v) + 2**31) & 0xFFFFFFFF) - 2**31)
    return bytes(out)


def _to_f32(v: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(v))
