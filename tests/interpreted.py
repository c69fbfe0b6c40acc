"""A compiler for the CPU's plans that compiles nothing: lane programs are interpreted."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.interpret import run
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import LaneProgram
from pyframe.graph.program import Kernel


class Interpreted:
    """The compiler; `threads` are so many that take turns at the units."""

    name = "interpreted"
    adapter = "lane programs, interpreted"

    def __init__(self, lanes: int = 4, threads: int = 1) -> None:
        self.width, self.threads = lanes, threads
        self.launches = 0

    def lanes(self, types: set[str]) -> int:
        return self.width

    alone = False

    def routine(self, op: Any, inputs: Any, attrs: Any, out: Any) -> None:
        return None

    def printed(self, kernel: Kernel) -> LaneProgram:
        return lower(kernel, self.lanes)

    def load(self, functions: Sequence[LaneProgram], launches: Sequence[Launch]) -> Code:
        return Code(self, functions, launches)


class Code:
    def __init__(
        self, compiler: Interpreted, functions: Sequence[LaneProgram], launches: Sequence[Launch]
    ) -> None:
        self.compiler = compiler
        self.functions = [functions[launch.function] for launch in launches]
        sizes = [f.bindings + 1 for f in self.functions]
        self.starts = [sum(sizes[:n]) for n in range(len(sizes))]
        self.table = np.zeros(sum(sizes), np.uint64)

    def run(self, first: int, last: int) -> None:
        for k in range(first, last):
            f, start = self.functions[k], self.starts[k]
            *buffers, params = [memory(int(n)) for n in self.table[start:][: f.bindings + 1]]
            threads = self.compiler.threads
            for worker in reversed(range(threads)):
                begin, end = (f.units * w // threads for w in (worker, worker + 1))
                run(f, buffers, params, begin, end)
            self.compiler.launches += 1


def memory(address: int) -> np.ndarray:
    """The bytes at an address and behind it."""
    if not address:
        return np.zeros(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * (1 << 30)).from_address(address), np.uint8)
