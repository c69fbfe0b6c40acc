"""The native code that runs launches, alone or with threads, as LLVM IR: text that never changes.

`run` makes launches one after the other. Each stands in an entry of four words: the function,
where the number of its units stands, where its own words stand (the addresses of its bindings, then
that of its params), and how many bindings these are. `work` is what a thread runs to help: it takes
units of the launch at hand until there has been none for so many looks. Both know each other by
the pool's memory, of four cache lines:

    0    units << 40 | units that `run` took << 20 | units that threads took
    64   the entry of the launch
    128  how many units are done by threads
    192  not 0: threads are to stop; the system's function that lets other threads run

`run` takes units from the front, threads from the back: of arrays that several launches read, each
finds its own part in its cache again. Whoever takes a unit knows from the same word whether there
was one left, and `run` goes on only when all are done: so the entry is the right one.
"""

from __future__ import annotations

from pyframe.codegen.cpu.assembler import I64, PTR
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, module

POOL = 256  # bytes of a pool's memory
ENTRY = 4  # words
MAX_UNITS = (1 << 20) - 4096  # units that can be shared out; of more, threads take none
SPINS = 1 << 10  # looks after which who waits lets other threads run, such as the one it waits for

# Where things stand in the pool's memory, beside the counts of units
_LAUNCH, _DONE, _STOP, _YIELD = 64, 128, 192, 200
_FRONT = 1 << 20  # one more unit that `run` took, as 1 is one that a thread took

# how a thread tells its core that it waits, by the first word of the target's name
PAUSE = {
    "x86_64": ("llvm.x86.sse2.pause", "", ""),
    "aarch64": ("llvm.aarch64.hint", "i32", "i32 1"),
    "arm64": ("llvm.aarch64.hint", "i32", "i32 1"),
}


def text(name: str, triple: str) -> str:
    """The function `run` or `work` as a module for a target."""
    some = _some()
    return module([some, (_run if name == "run" else _work)(some, triple)], 128)


def _some() -> LlvmAssembler:
    """Units of an entry's launch."""
    f = LlvmAssembler("some", "ptr word word")
    entry, begin, end = f.params
    function, words = f.load(PTR, entry), f.load(PTR, entry, 16)
    params = f.load(PTR, words + f.load(I64, entry, 24) * 8)
    f.line(
        f"call void {function.name}(ptr {words.name}, ptr {params.name}, i64 {begin.name}, "
        f"i64 {end.name})"
    )
    return f


def _run(some: LlvmAssembler, triple: str) -> LlvmAssembler:
    f = LlvmAssembler("run", "ptr word word ptr", linkage="")
    entries, first, last, pool = f.params
    done = pool + _DONE
    with f.count(first, last) as k:
        entry = entries + k * (8 * ENTRY)
        units = f.load(I64, f.load(PTR, entry, 8))
        alone = pool.equals(0) | units.op("lt_u", 2) | units.op("ge_u", MAX_UNITS + 1)
        with f.when(alone):
            f.call(some, entry, 0, units)
            f.otherwise()
            f.store(pool + _LAUNCH, entry)
            _write(f, done, f.value(0, I64), "monotonic")
            _write(f, pool, units.op("shl", 40), "release")
            mine, taken = f.local(0), f.local(_count(f, pool, _FRONT, "acq_rel"))
            with f.during(lambda: (_front(taken) + _back(taken)).op("lt_u", units)):
                unit = _front(taken)
                f.call(some, entry, unit, unit + 1)
                mine.add(1)
                taken.set(_count(f, pool, _FRONT, "acq_rel"))
            theirs, spins = units - mine, f.local(0)
            with f.during(lambda: _read(f, done, "acquire").op("lt_u", theirs)):
                _pause(f, triple)
                spins.add(1)
                with f.when(spins > SPINS):
                    _let_others_run(f, pool)
    return f


def _work(some: LlvmAssembler, triple: str) -> LlvmAssembler:
    f = LlvmAssembler("work", "ptr word", linkage="")
    pool, looks = f.params
    idle = f.local(0)  # looks since the last unit
    with f.during(lambda: _read(f, pool + _STOP, "monotonic").equals(0) & (idle < looks)):
        now = _read(f, pool, "acquire")
        with f.when((_front(now) + _back(now)).op("lt_u", now.op("shr_u", 40))):
            taken = _count(f, pool, 1, "acq_rel")
            back, units = _back(taken), taken.op("shr_u", 40)
            with f.when((_front(taken) + back).op("lt_u", units)):
                end = units - back
                f.call(some, f.load(PTR, pool, _LAUNCH), end - 1, end)
                _count(f, pool + _DONE, 1, "release")
                idle.set(0)
            f.otherwise()
            _pause(f, triple)
            idle.add(1)
            with f.when((idle % SPINS).equals(0)):
                _let_others_run(f, pool)
    return f


def _front(counts: LlvmValue) -> LlvmValue:
    """The units that `run` took."""
    return counts.op("shr_u", 20) & (_FRONT - 1)


def _back(counts: LlvmValue) -> LlvmValue:
    """The units that threads took."""
    return counts & (_FRONT - 1)


def _read(f: LlvmAssembler, at: LlvmValue, order: str) -> LlvmValue:
    return f.new(I64, f"load atomic i64, ptr {at.name} {order}, align 8")


def _write(f: LlvmAssembler, at: LlvmValue, value: LlvmValue, order: str) -> None:
    f.line(f"store atomic i64 {value.name}, ptr {at.name} {order}, align 8")


def _count(f: LlvmAssembler, at: LlvmValue, more: int, order: str) -> LlvmValue:
    """Add to what many count in; what it was before."""
    return f.new(I64, f"atomicrmw add ptr {at.name}, i64 {more} {order}")


def _pause(f: LlvmAssembler, triple: str) -> None:
    intrinsic, kinds, values = PAUSE.get(triple.partition("-")[0], ("", "", ""))
    if intrinsic:
        f.declared.add(f"declare void @{intrinsic}({kinds})")
        f.line(f"call void @{intrinsic}({values})")


def _let_others_run(f: LlvmAssembler, pool: LlvmValue) -> None:
    f.line(f"call void {f.load(PTR, pool, _YIELD).name}()")
