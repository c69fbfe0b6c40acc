"""Primitives that neither processor has as one instruction, written once with the assembler's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyframe.codegen.cpu.assembler import F32, I32


def bfloat16(x: Any) -> Any:
    """f32 rounded to its upper 16 bits, ties to even; a NaN stays as it is."""
    bits = x.bits(I32)
    odd = bits.op("shr_u", 16) & 1
    rounded = ((bits + 0x7FFF + odd) & -0x10000).bits(F32)
    return x.where(x.differs(x), rounded)


def division(name: str, a: Any, b: Any, value: Callable[[int], Any], least: int | None) -> Any:
    """The instruction `name` on ints, whose `least` is given if they are signed. By 0 it gives 0,
    and the least number by -1 itself: as they are, both trap or mean nothing."""
    is_zero = odd = b.equals(0)
    if least is not None:
        odd = is_zero | (a.equals(least) & b.equals(-1))
    return value(0).where(is_zero, a.op(name, value(1).where(odd, b)))
