"""A Program's compiled steps as one WebAssembly module, which runs them in a row.

    run(table, first, last)       launches first … last - 1

`table` is the address of the launches' words, i32 numbers in memory that the caller writes: for a
lane program the addresses of its bindings and of its params, for a routine its arguments. So a
module holds for as long as the launches stay what they are, wherever their memory lies. Behind all
words stand the units of launches, which are read there if their function says -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.wasm.encoder import CALL, GET, OP, WasmModule, i32, if_, load
from pyframe.codegen.wasm.library import library_of
from pyframe.codegen.wasm.printer import PARAMS, WasmKernel


def starts(functions: Sequence[WasmKernel], launches: Sequence[Launch]) -> list[int]:
    """Where the words of each launch begin in the table; the last number is how many there are."""
    words = [n.words if n.routine else functions[n.function].bindings + 1 for n in launches]
    return [0, *accumulate(words)]


def module(
    functions: Sequence[WasmKernel], launches: Sequence[Launch], made: WasmModule | None = None
) -> bytes:
    """The module's bytes. Routines are those of `made`, which grows, or imported from libraries;
    functions that are equal become one."""
    if made is not None:
        routines = made.exported
    else:
        made = WasmModule()
        words = {n.routine: n.words for n in launches if n.routine}
        routines = {
            name: made.imported(library_of(name), name, " ".join(["i32"] * count))
            for name, count in words.items()
        }
    numbers: dict[bytes, int] = {}
    for function in functions:
        if function.body not in numbers:
            numbers[function.body] = made.encoded(PARAMS, function.body)
    run = made.function("run", "i32 i32 i32", export=True)
    table, first, last = run.params
    *begins, words_end = starts(functions, launches)
    for n, (launch, start) in enumerate(zip(launches, begins, strict=True)):
        if launch.routine:
            read = [load("i32.load", GET[table], 4 * (start + k)) for k in range(launch.words)]
            call = b"".join(read) + CALL[routines[launch.routine]]
        else:
            function = functions[launch.function]
            units = i32(function.units)
            if function.units < 0:
                units = load("i32.load", GET[table], 4 * (words_end + n))
            call = GET[table] + i32(4 * start) + OP["i32.add"] + i32(0) + units
            call += CALL[numbers[function.body]]
        after = GET[first] + i32(n) + OP["i32.le_s"] + GET[last] + i32(n) + OP["i32.gt_s"]
        run.code += if_(after + OP["i32.and"], call)
    return made.encode()
