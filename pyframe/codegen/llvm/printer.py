"""From a lane program to the text of an LLVM module with one function.

    void @kernel(ptr bindings, ptr params, i64 begin, i64 end)

runs the units from `begin` to `end`; `bindings` is an array of the buffers' addresses. The text
needs no symbol of any library. What LLVM leaves undefined is avoided: a division by 0, and a float
that the int it is cast to cannot hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from pyframe.codegen.cpu import primitives
from pyframe.codegen.lanes import program as lanes
from pyframe.codegen.lanes.program import INDEX, MEMORY, UnsupportedKernelError
from pyframe.codegen.llvm.assembler import LlvmAssembler, LlvmValue, LlvmVariable, module, vector_of

NAME = "kernel"

# element types in registers, and in memory
TYPES = {"f32": "float", "f64": "double", "bool": "i1", INDEX: "i64"} | {
    f"{sign}{bits}": f"i{bits}" for sign in "iu" for bits in (8, 16, 32, 64)
}
STORED = TYPES | {"f16": "half", "bool": "i8"}
PART = 32  # the bit of a value's number where that of a vector of it begins
NAMES = ("out", "arg", "start", "var", "valid", "at")  # fields that are values' numbers
# Up to this distance of elements vectors are loaded and shuffled, above they are gathered
MAX_SHUFFLE_STRIDE = 4

# primitives that the assembler has under this name, and those that it has under another one for
# signed ints and for unsigned ones (bools are these)
PLAIN = "add sub mul and or xor shl shr eq ne lt le".split()
SIGNED = {"div": "div_s", "rem": "rem_s", "shr": "shr_s"}
UNSIGNED = {"shr": "shr_u", "lt": "lt_u", "le": "le_u"}
INTRINSICS = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven", "sqrt": "sqrt",
    "muladd": "fmuladd",
}  # fmt: skip


def generate(function: lanes.LaneProgram, bits: int) -> str:
    """The module of a function, for a CPU with vectors of so many bits."""
    f = LlvmAssembler(NAME, "ptr ptr i64 i64", linkage="", bits=bits)
    LlvmPrinter(f).print_function(function)
    return module([f], bits)


def _part(id: int, k: int) -> int:
    """The number of vector number k of a wide value."""
    return id if id < 0 else id + (k << PART)


def _bits(type: str) -> int:
    return 64 if type == INDEX else 1 if type == "bool" else int(type[1:])


class LlvmPrinter:
    """Prints statements of lane programs into the function `f`."""

    def __init__(self, f: LlvmAssembler) -> None:
        self.f = f
        self.values: dict[int, LlvmValue] = {}
        self.variables: dict[int, LlvmVariable] = {}
        self.known: dict[int, Any] = {}  # the numbers of constants
        self.width = 1 << PART  # lanes of the vectors that wider ones are cut into
        self.wide: dict[int, int] = {}  # the lanes of variables that are cut

    def print_function(self, function: lanes.LaneProgram) -> None:
        """All of a program, of which the function runs some units."""
        bindings, self.params, self.values[-1], self.values[-2] = self.f.params
        self.buffers = [
            self.f.load_fixed("ptr", bindings + 8 * n) for n in range(function.bindings)
        ]
        if self.f.bits < 512 and function.width:
            self.width = function.width
        self.print_for(lanes.For(-3, -1, -2, 1, function.body))

    def statements(self, body: Iterable[Any]) -> None:
        for i in body:
            for part in self.parts(i):
                PRINT[type(part)](self, part)

    def parts(self, i: Any) -> Iterable[Any]:
        """A statement on wide vectors as one on each that the processor has: LLVM would pack the
        masks of several into one vector, and unpack it for each use."""
        n = self.wide.get(i.var, 1) if isinstance(i, lanes.Set) else getattr(i, "lanes", 1)
        if n <= self.width:
            return (i,)
        if isinstance(i, lanes.Var):
            self.wide[i.out] = n
        if isinstance(i, lanes.Lane):
            k, at = divmod(i.at, self.width)
            return (i._replace(arg=_part(i.arg, k), at=at, lanes=self.width),)
        return (self.part(i, k) for k in range(n // self.width))

    def part(self, i: Any, k: int) -> Any:
        """Vector number k of a statement on wide ones."""
        names = [x for x in i._fields if x in NAMES]
        if isinstance(i, lanes.Splat):
            names.remove("arg")
        elif getattr(i, "stride", None) is not None:
            self.values[_part(i.at, k)] = self.values[i.at] + k * self.width * i.stride
        moved: dict[str, Any] = {x: _part(getattr(i, x), k) for x in names}
        if isinstance(i, lanes.LaneOp):
            moved["args"] = tuple([_part(x, k) for x in i.args])
        if not isinstance(i, lanes.Set):
            moved["lanes"] = self.width
        return i._replace(**moved)

    # --- values

    def print_const(self, i: lanes.LaneConst) -> None:
        self.values[i.out] = self.f.value(i.value, vector_of(TYPES[i.type], i.lanes))
        self.known[i.out] = i.value

    def print_param(self, i: lanes.LaneParam) -> None:
        raw = self.f.load_fixed(STORED[i.memory], self.params + 8 * i.word)
        self.values[i.out] = self.from_memory(raw, i.memory)

    def print_unit(self, i: lanes.Unit) -> None:
        self.values[i.out] = self.values[-3]

    def print_iota(self, i: lanes.Iota) -> None:
        first = (i.out >> PART) * i.lanes
        self.values[i.out] = self.f.numbers(range(first, first + i.lanes), TYPES[i.type])

    def print_splat(self, i: lanes.Splat) -> None:
        self.values[i.out] = self.values[i.arg].splat(i.lanes)
        if i.arg in self.known:
            self.known[i.out] = self.known[i.arg]

    def print_rotate(self, i: lanes.Rotate) -> None:
        order = [(n + i.by) % i.lanes for n in range(i.lanes)]
        self.values[i.out] = self.values[i.arg].shuffle(order)

    def print_lane(self, i: lanes.Lane) -> None:
        self.values[i.out] = self.values[i.arg].lane(i.at)

    # --- variables and loops

    def print_var(self, i: lanes.Var) -> None:
        self.variables[i.out] = self.f.local(self.values[i.start])

    def print_get(self, i: lanes.Get) -> None:
        self.values[i.out] = self.variables[i.var].now()

    def print_set(self, i: lanes.Set) -> None:
        self.variables[i.var].set(self.values[i.arg])

    def print_for(self, i: lanes.For) -> None:
        f, stop = self.f, self.values[i.stop]
        at = f.local(self.values[i.start])
        with f.during(lambda: at < stop):
            self.values[i.out] = now = at.now()
            self.statements(i.body)
            at.set(f.new("i64", f"add nsw i64 {now.name}, {i.step}"))

    # --- memory

    def from_memory(self, raw: LlvmValue, memory: str) -> LlvmValue:
        """What was loaded as it is in registers."""
        if memory == "bool":
            return raw.differs(0)
        return raw.to("fpext", "float") if memory == "f16" else raw

    def to_memory(self, x: LlvmValue, memory: str) -> LlvmValue:
        """What is to be stored as it is in memory."""
        if memory == "bool":
            return x.to("zext", "i8")
        return x.to("fptrunc", "half") if memory == "f16" else x

    def address(
        self, i: lanes.LaneLoad | lanes.LaneStore, at: LlvmValue | None = None
    ) -> LlvmValue:
        """Of the element `at`, or of the one where `i` begins."""
        index = self.values[i.at] if at is None else at
        return self.f.element(STORED[i.memory], self.buffers[i.binding], index)

    def addresses(self, i: lanes.LaneLoad | lanes.LaneStore) -> LlvmValue:
        """Of all lanes: where they can be, as steps of 32 bits from one address, of which
        processors gather more at once."""
        if i.stride is None:
            return self.address(i)
        size = "i32" if abs(i.stride) * i.lanes * MEMORY[i.memory] < 1 << 31 else "i64"
        steps = self.f.numbers([n * i.stride for n in range(i.lanes)], size)
        return self.f.element(STORED[i.memory], self.address(i), steps)

    def print_load(self, i: lanes.LaneLoad) -> None:
        valid = self.values[i.valid] if i.valid >= 0 else None
        if i.lanes == 1:
            raw = self.load_scalar(i, self.address(i), valid)
        elif i.stride == 0 and valid is None:
            raw = self.load_scalar(i, self.address(i)).splat(i.lanes)
        elif i.stride and abs(i.stride) <= (1 if valid else MAX_SHUFFLE_STRIDE):
            raw = self.load_masked(i, valid) if valid else self.load_row(i)
        else:
            raw = self.gather(i, valid)
        self.values[i.out] = self.from_memory(raw, i.memory)

    def load_scalar(
        self, i: lanes.LaneLoad, at: LlvmValue, valid: LlvmValue | None = None
    ) -> LlvmValue:
        """One element; where it is not valid, a 0 of ours."""
        if valid:
            self.f.declared.add("@zero = private constant i64 0")
            at = at.where(valid, LlvmValue(self.f, "ptr", "@zero"))
        return self.f.load(STORED[i.memory], at)

    def load_row(self, i: lanes.LaneLoad) -> LlvmValue:
        """Every n-th element: whole vectors are loaded, the last of which ends with the last one
        that is needed, and what is needed of them is shuffled together."""
        count, stride, kind = i.lanes, i.stride or 1, vector_of(STORED[i.memory], i.lanes)
        step = abs(stride)
        size = (count - 1) * step + 1
        first = self.values[i.at]
        if stride < 0:
            first = first + (1 - size)
        found, begins = LlvmValue(self.f, kind, "poison"), 0
        for n in range(step):
            begin = min(n * count, size - count)
            part = self.f.load(kind, self.address(i, first + begin if begin else first))
            if step == 1:
                found = part
                break
            order = list(range(count))  # of `found`, but where the element is in this part
            for k in range(count):
                if begins <= k * step < begin + count:
                    order[k] = count + k * step - begin
            found, begins = found.shuffle(order, part), begin + count
        return found.reversed() if stride < 0 else found

    def load_masked(self, i: lanes.LaneLoad, valid: LlvmValue) -> LlvmValue:
        """Elements beside each other, where they are valid."""
        base = "i16" if i.memory == "f16" else STORED[i.memory]
        at = self.values[i.at]
        if i.stride == -1:
            at, valid = at + (1 - i.lanes), valid.reversed()
        kind = vector_of(base, i.lanes)
        raw = self.f.load_some(kind, self.address(i, at), valid, MEMORY[i.memory])
        if i.memory == "f16":
            raw = raw.to("bitcast", "half")
        return raw.reversed() if i.stride == -1 else raw

    def gather(self, i: lanes.LaneLoad, valid: LlvmValue | None) -> LlvmValue:
        """Elements that lie anywhere."""
        kind, at = vector_of(STORED[i.memory], i.lanes), self.addresses(i)
        if MEMORY[i.memory] >= 4:  # as some processors can
            valid = valid or self.f.value(True, vector_of("i1", i.lanes))
            return self.f.gather(kind, at, valid, MEMORY[i.memory])
        found = LlvmValue(self.f, kind, "poison")
        for n in range(i.lanes):
            element = self.load_scalar(i, at.lane(n), valid and valid.lane(n))
            found = found.with_lane(n, element)
        return found

    def print_store(self, i: lanes.LaneStore) -> None:
        x = self.to_memory(self.values[i.arg], i.memory)
        align = MEMORY[i.memory]
        if i.lanes == 1 or i.stride in (1, -1):
            at = self.values[i.at]
            if i.lanes > 1 and i.stride == -1:
                at, x = at + (1 - i.lanes), x.reversed()
            self.f.store(self.address(i, at), x)
            return
        places = self.addresses(i)
        if align >= 4:  # as some processors can
            every = self.f.value(True, vector_of("i1", i.lanes))
            self.f.scatter(places, x, every, align)
            return
        for n in range(i.lanes):
            element = x.lane(n)
            self.f.store(places.lane(n), element)

    # --- primitives

    def print_op(self, i: lanes.LaneOp) -> None:
        self.values[i.out] = OPS[i.op](self, i, *[self.values[a] for a in i.args])

    def plain(self, i: lanes.LaneOp, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """One instruction."""
        names = {"f": {}, "i": SIGNED}.get(i.from_[0], UNSIGNED)
        return a.op(names.get(i.op, i.op), b)

    def intrinsic(self, i: lanes.LaneOp, *xs: LlvmValue) -> LlvmValue:
        return self.f.call_intrinsic(INTRINSICS[i.op], *xs)

    def neg(self, i: lanes.LaneOp, x: LlvmValue) -> LlvmValue:
        if x.is_float:
            return self.f.new(x.type, f"fneg {x.type} {x.name}")
        return self.f.value(0, x.type) - x

    def abs(self, i: lanes.LaneOp, x: LlvmValue) -> LlvmValue:
        if x.is_float:
            return self.f.call_intrinsic("fabs", x)
        return self.f.call_intrinsic("abs", x, LlvmValue(self.f, "i1", "false"))

    def division(self, i: lanes.LaneOp, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        if a.is_float and i.op == "rem":
            raise UnsupportedKernelError("the remainder of floats is computed in a loop")
        if a.is_float or self.known.get(i.args[1]) not in (None, 0, -1):
            return self.plain(i, a, b)
        signed = i.from_[0] == "i"
        least = -(1 << (_bits(i.from_) - 1)) if signed else None
        name = SIGNED[i.op] if signed else i.op
        return primitives.division(name, a, b, functools.partial(self.f.value, type=b.type), least)

    def extreme(self, i: lanes.LaneOp, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        if a.is_float:  # either zero is the least of both
            return self.f.call_intrinsic(f"{i.op}imum", a, b, fast="nsz ")
        return self.f.call_intrinsic(f"{'s' if i.from_[0] == 'i' else 'u'}{i.op}", a, b)

    def cast(self, i: lanes.LaneOp, x: LlvmValue) -> LlvmValue:
        from_, to, signed = i.from_, i.type, i.from_[0] == "i"
        if to == "bool":
            return x.differs(0)
        if x.is_float and to[0] != "f":
            return self.to_int(x, to)
        if x.is_float:
            word = "fpext" if to == "f64" else "fptrunc"
        elif to[0] == "f":
            word = "sitofp" if signed else "uitofp"
        elif _bits(to) < _bits(from_):
            word = "trunc"
        else:
            word = "sext" if signed else "zext"
        return x.to(word, TYPES[to])

    def to_int(self, x: LlvmValue, to: str) -> LlvmValue:
        """As i64, with -2^63 for what that can't hold, of which the low bits are taken; with 32
        bits and less by arithmetic on floats, as few processors convert vectors to i64."""
        size = self.f.call_intrinsic("fabs", x)
        holds = size < 2.0**63
        if _bits(to) == 64:
            return x.where(holds, -(2.0**63)).to("fptosi", "i64")
        if "double" in x.type:  # floats of 2^31 and more are whole
            x = self.f.call_intrinsic("trunc", x)
        near = size < 2.0**31
        turns = self.f.call_intrinsic("floor", x * 2.0**-32 + 0.5) * 2.0**32
        far = (x - turns).where(holds, 0.0)
        return x.where(near, far).to("fptosi", "i32").to("trunc", TYPES[to])

    def narrow(self, i: lanes.LaneOp, x: LlvmValue) -> LlvmValue:
        """To float16 by the processor, to bfloat16 on the bits; a NaN stays as it is."""
        if i.value == "float16":
            return self.from_memory(self.to_memory(x, "f16"), "f16")
        return primitives.bfloat16(x)


PRINT = lanes.methods(LlvmPrinter, "print_")
OPS: dict[str, Callable[..., LlvmValue]] = {
    **dict.fromkeys(PLAIN, LlvmPrinter.plain),
    **dict.fromkeys(INTRINSICS, LlvmPrinter.intrinsic),
    "not": lambda _, i, x: x.op("xor", True if i.from_ == "bool" else -1),
    "select": lambda _, i, c, a, b: a.where(c, b), "bitcast": lambda _, i, x: x.bits(TYPES[i.type]),
    "neg": LlvmPrinter.neg, "abs": LlvmPrinter.abs, "cast": LlvmPrinter.cast,
    "narrow": LlvmPrinter.narrow, "min": LlvmPrinter.extreme, "max": LlvmPrinter.extreme,
    "div": LlvmPrinter.division, "rem": LlvmPrinter.division,
}  # fmt: skip
