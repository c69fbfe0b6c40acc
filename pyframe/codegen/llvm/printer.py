"""From a lane program to the text of an LLVM module with one function.

    void @kernel(ptr bindings, ptr params, i64 begin, i64 end)

runs the units from `begin` to `end`; `bindings` is an array of the buffers' addresses. The text
needs no symbol of any library. What LLVM leaves undefined is avoided: a division by 0, and a float
that the int it is cast to cannot hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from pyframe.codegen.lanes.program import (
    INDEX,
    MEMORY,
    Const,
    For,
    Function,
    Get,
    Iota,
    Lane,
    Load,
    Op,
    Param,
    Rotate,
    Set,
    Splat,
    Store,
    Unit,
    UnsupportedKernelError,
    Var,
)

NAME = "kernel"

# element types in registers, and in memory
TYPES = {"f32": "float", "f64": "double", "bool": "i1", INDEX: "i64"} | {
    f"{sign}{bits}": f"i{bits}" for sign in "iu" for bits in (8, 16, 32, 64)
}
STORED = TYPES | {"f16": "half", "bool": "i8"}
SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}  # in the names of intrinsics
NEAR = 4  # up to this distance of elements vectors are loaded and shuffled, above they are gathered

# instructions of primitives for floats, signed and unsigned ints (bools are these)
ARITHMETIC = {
    "add": "fadd add add", "sub": "fsub sub sub", "mul": "fmul mul mul", "div": "fdiv sdiv udiv",
    "rem": "- srem urem", "and": "- and and", "or": "- or or", "xor": "- xor xor",
    "shl": "- shl shl", "shr": "- ashr lshr",
}  # fmt: skip
COMPARES = {
    "eq": "oeq eq eq", "ne": "une ne ne", "lt": "olt slt ult", "le": "ole sle ule",
}  # fmt: skip
INTRINSICS = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven", "sqrt": "sqrt",
}  # fmt: skip


def generate(function: Function, bits: int) -> str:
    """The module of a function, for a CPU with vectors of so many bits."""
    return _Printer(function, bits).module()


def _kind(type: str) -> int:
    """0 for floats, 1 for signed ints, 2 for unsigned ones and bools."""
    return 0 if type[0] == "f" else 1 if type[0] == "i" else 2


def _bits(type: str) -> int:
    return 64 if type == INDEX else 1 if type == "bool" else int(type[1:])


def _of(base: str, lanes: int) -> str:
    return base if lanes == 1 else f"<{lanes} x {base}>"


def _number(value: Any, type: str, lanes: int = 1) -> str:
    """A constant as LLVM writes it: floats by the bits of a double."""
    base = TYPES[type]
    if type[0] == "f":
        number = float(value)
        if type == "f32":
            number = _rounded(number)
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    else:
        text = str(int(value)) if type != "bool" else "true" if value else "false"
    return text if lanes == 1 else f"splat ({base} {text})"


def _rounded(value: float) -> float:
    """A number as float32 holds it."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _list(base: str, values: Iterable[Any]) -> str:
    """A constant vector."""
    return f"<{', '.join(f'{base} {v}' for v in values)}>"


class _Printer:
    def __init__(self, function: Function, bits: int) -> None:
        self.function, self.bits = function, bits
        self.lines: list[str] = []
        self.variables: list[str] = []  # one alloca each; LLVM makes registers of them
        self.declared: set[str] = set()
        self.values: dict[int, str] = {}  # what stands for each value: a register or a constant
        self.known: dict[int, Any] = {}  # the numbers of constants
        self.names = 0
        self.block = "entry"

    def module(self) -> str:
        function = self.function
        for n in range(function.bindings):
            at = self.new(f"getelementptr ptr, ptr %bindings, i64 {n}")
            self.lines.append(f"%b{n} = load ptr, ptr {at}, !invariant.load !0")
        self.values |= {-1: "%begin", -2: "%end"}
        self.print_for(For(-3, -1, -2, 1, function.body))
        # no-builtins: a loop that copies is no call of memcpy
        attributes = 'nounwind "no-builtins"'
        for width in ("prefer-vector-width", "min-legal-vector-width"):
            attributes += f' "{width}"="{self.bits}"'
        text = [
            f"define void @{NAME}(ptr %bindings, ptr %params, i64 %begin, i64 %end) #0 {{",
            "entry:", *self.variables, *self.lines, "ret void", "}", *sorted(self.declared),
            f"attributes #0 = {{ {attributes} }}", "!0 = !{}", "",
        ]  # fmt: skip
        return "\n".join(text)

    def new(self, text: str) -> str:
        """An instruction; gives the register of its result."""
        self.names += 1
        self.lines.append(f"%t{self.names} = {text}")
        return f"%t{self.names}"

    def call(self, name: str, result: str, *operands: tuple[str, str], fast: str = "") -> str:
        """A call of an intrinsic on operands (type, text), with flags of fast arithmetic; '' if it
        gives nothing."""
        kinds = ", ".join([kind for kind, _ in operands])
        self.declared.add(f"declare {result} @llvm.{name}({kinds})")
        args = ", ".join([" ".join(x) for x in operands])
        text = f"call {fast}{result} @llvm.{name}({args})"
        if result != "void":
            return self.new(text)
        self.lines.append(text)
        return ""

    def mangled(
        self, name: str, base: str, lanes: int, *operands: str, flag: str = "", fast: str = ""
    ) -> str:
        """A call of an intrinsic of one type; `flag` is its last operand."""
        kind, count = _of(base, lanes), "" if lanes == 1 else f"v{lanes}"
        more = [("i1", flag)] if flag else []
        full = f"{name}.{count}{SUFFIX.get(base, base)}"
        return self.call(full, kind, *[(kind, x) for x in operands], *more, fast=fast)

    def statements(self, body: Iterable[Any]) -> None:
        for i in body:
            PRINT[type(i)](self, i)

    # --- values

    def print_const(self, i: Const) -> None:
        self.values[i.out] = _number(i.value, i.type, i.lanes)
        self.known[i.out] = i.value

    def print_param(self, i: Param) -> None:
        at = self.new(f"getelementptr i64, ptr %params, i64 {i.word}")
        raw = self.new(f"load {STORED[i.memory]}, ptr {at}, !invariant.load !0")
        self.values[i.out] = self.from_memory(raw, i.memory, 1)

    def print_unit(self, i: Unit) -> None:
        self.values[i.out] = self.values[-3]

    def print_iota(self, i: Iota) -> None:
        self.values[i.out] = _list(TYPES[i.type], range(i.lanes)) if i.lanes > 1 else "0"

    def print_splat(self, i: Splat) -> None:
        self.values[i.out] = self.splat(self.values[i.arg], TYPES[i.type], i.lanes)
        if i.arg in self.known:
            self.known[i.out] = self.known[i.arg]

    def splat(self, scalar: str, base: str, lanes: int) -> str:
        if lanes == 1:
            return scalar
        if scalar[0] != "%":
            return f"splat ({base} {scalar})"
        kind = f"<{lanes} x {base}>"
        first = self.new(f"insertelement {kind} poison, {base} {scalar}, i64 0")
        return self.shuffle(first, base, lanes, [0] * lanes)

    def shuffle(self, x: str, base: str, lanes: int, order: list[int], more: str = "poison") -> str:
        """Lane i is lane order[i] of the vector `x`; those of `more` come after its own."""
        kind, mask = f"<{lanes} x {base}>", _list("i32", order)
        return self.new(f"shufflevector {kind} {x}, {kind} {more}, <{lanes} x i32> {mask}")

    def print_rotate(self, i: Rotate) -> None:
        order = [(n + i.by) % i.lanes for n in range(i.lanes)]
        x = self.values[i.arg]
        self.values[i.out] = self.shuffle(x, TYPES[i.type], i.lanes, order) if i.lanes > 1 else x

    def print_lane(self, i: Lane) -> None:
        self.values[i.out] = self.lane(self.values[i.arg], TYPES[i.type], i.lanes, i.at)

    def lane(self, x: str, base: str, lanes: int, at: int) -> str:
        return self.new(f"extractelement <{lanes} x {base}> {x}, i64 {at}") if lanes > 1 else x

    # --- variables and loops

    def print_var(self, i: Var) -> None:
        kind = _of(TYPES[i.type], i.lanes)
        self.variables.append(f"%v{i.out} = alloca {kind}")
        self.lines.append(f"store {kind} {self.values[i.start]}, ptr %v{i.out}")
        self.values[i.out] = kind

    def print_get(self, i: Get) -> None:
        self.values[i.out] = self.new(f"load {self.values[i.var]}, ptr %v{i.var}")

    def print_set(self, i: Set) -> None:
        self.lines.append(f"store {self.values[i.var]} {self.values[i.arg]}, ptr %v{i.var}")

    def print_for(self, i: For) -> None:
        self.names += 1
        n, start, stop = self.names, self.values[i.start], self.values[i.stop]
        self.lines += [
            f"%any{n} = icmp slt i64 {start}, {stop}",
            f"br i1 %any{n}, label %loop{n}, label %end{n}",
            f"loop{n}:",
            "",  # the phi, when it is known which block ends the body
        ]
        phi, before = len(self.lines) - 1, self.block
        self.block, self.values[i.out] = f"loop{n}", f"%i{n}"
        self.statements(i.body)
        self.lines[phi] = f"%i{n} = phi i64 [ {start}, %{before} ], [ %next{n}, %{self.block} ]"
        self.lines += [
            f"%next{n} = add nsw i64 %i{n}, {i.step}",
            f"%more{n} = icmp slt i64 %next{n}, {stop}",
            f"br i1 %more{n}, label %loop{n}, label %end{n}",
            f"end{n}:",
        ]
        self.block = f"end{n}"

    # --- memory

    def from_memory(self, raw: str, memory: str, lanes: int) -> str:
        """The register of what was loaded."""
        if memory == "bool":
            return self.new(f"icmp ne {_of('i8', lanes)} {raw}, {_number(0, 'i8', lanes)}")
        if memory == "f16":
            return self.new(f"fpext {_of('half', lanes)} {raw} to {_of('float', lanes)}")
        return raw

    def to_memory(self, x: str, memory: str, lanes: int) -> str:
        if memory == "bool":
            return self.new(f"zext {_of('i1', lanes)} {x} to {_of('i8', lanes)}")
        if memory == "f16":
            return self.new(f"fptrunc {_of('float', lanes)} {x} to {_of('half', lanes)}")
        return x

    def address(self, i: Load | Store, at: str = "") -> str:
        """Of the element `at`, or of the one where `i` begins."""
        index = at or self.values[i.at]
        return self.new(f"getelementptr {STORED[i.memory]}, ptr %b{i.binding}, i64 {index}")

    def addresses(self, i: Load | Store) -> str:
        """Of all lanes: where they can be, as steps of 32 bits from one address, of which
        processors gather more at once."""
        base, count = STORED[i.memory], i.lanes
        if i.stride is None:
            at = f"<{count} x i64> {self.values[i.at]}"
            return self.new(f"getelementptr {base}, ptr %b{i.binding}, {at}")
        size = "i32" if abs(i.stride) * count * MEMORY[i.memory] < 1 << 31 else "i64"
        steps = f"<{count} x {size}> {_list(size, [n * i.stride for n in range(count)])}"
        return self.new(f"getelementptr {base}, ptr {self.address(i)}, {steps}")

    def print_load(self, i: Load) -> None:
        valid = self.values[i.valid] if i.valid >= 0 else ""
        if i.lanes == 1:
            raw = self.load_scalar(i, self.address(i), valid)
        elif i.stride == 0 and not valid:
            raw = self.splat(self.load_scalar(i, self.address(i)), STORED[i.memory], i.lanes)
        elif i.stride and abs(i.stride) <= (1 if valid else NEAR):
            raw = self.load_masked(i, valid) if valid else self.load_row(i)
        else:
            raw = self.gather(i, valid)
        self.values[i.out] = self.from_memory(raw, i.memory, i.lanes)

    def load_scalar(self, i: Load, at: str, valid: str = "") -> str:
        """One element; where it is not valid, a 0 of ours."""
        if valid:
            self.declared.add("@zero = private constant i64 0")
            at = self.new(f"select i1 {valid}, ptr {at}, ptr @zero")
        return self.new(f"load {STORED[i.memory]}, ptr {at}, align {MEMORY[i.memory]}")

    def load_row(self, i: Load) -> str:
        """Every n-th element: whole vectors are loaded, the last of which ends with the last one
        that is needed, and what is needed of them is shuffled together."""
        base, lanes, stride = STORED[i.memory], i.lanes, i.stride or 1
        step, kind = abs(stride), f"<{i.lanes} x {STORED[i.memory]}>"
        size = (lanes - 1) * step + 1
        first = self.values[i.at]
        if stride < 0:
            first = self.new(f"add i64 {first}, {1 - size}")
        found, begins = "poison", 0
        for n in range(step):
            begin = min(n * lanes, size - lanes)
            at = self.address(i, self.new(f"add i64 {first}, {begin}") if begin else first)
            part = self.new(f"load {kind}, ptr {at}, align {MEMORY[i.memory]}")
            if step == 1:
                found = part
                break
            order = list(range(lanes))  # of `found`, but where the element is in this part
            for k in range(lanes):
                if begins <= k * step < begin + lanes:
                    order[k] = lanes + k * step - begin
            found, begins = self.shuffle(found, base, lanes, order, part), begin + lanes
        return self.shuffle(found, base, lanes, list(range(lanes))[::-1]) if stride < 0 else found

    def load_masked(self, i: Load, valid: str) -> str:
        """Elements beside each other, where they are valid."""
        lanes, back = i.lanes, list(range(i.lanes))[::-1]
        base = "i16" if i.memory == "f16" else STORED[i.memory]
        at = ""
        if i.stride == -1:
            at = self.new(f"add i64 {self.values[i.at]}, {1 - lanes}")
            valid = self.shuffle(valid, "i1", lanes, back)
        kind = f"<{lanes} x {base}>"
        raw = self.call(
            f"masked.load.v{lanes}{SUFFIX.get(base, base)}.p0", kind, ("ptr", self.address(i, at)),
            ("i32", str(MEMORY[i.memory])), (f"<{lanes} x i1>", valid), (kind, "zeroinitializer"),
        )  # fmt: skip
        if i.memory == "f16":
            raw = self.new(f"bitcast {kind} {raw} to <{lanes} x half>")
        return self.shuffle(raw, STORED[i.memory], lanes, back) if i.stride == -1 else raw

    def gather(self, i: Load, valid: str) -> str:
        base, lanes = STORED[i.memory], i.lanes
        kind, at = f"<{lanes} x {base}>", self.addresses(i)
        if MEMORY[i.memory] >= 4:  # as some processors can
            return self.call(
                f"masked.gather.v{lanes}{SUFFIX.get(base, base)}.v{lanes}p0", kind,
                (f"<{lanes} x ptr>", at), ("i32", str(MEMORY[i.memory])),
                (f"<{lanes} x i1>", valid or "splat (i1 true)"), (kind, "zeroinitializer"),
            )  # fmt: skip
        found = "poison"
        for n in range(lanes):
            one = self.lane(at, "ptr", lanes, n)
            inside = self.lane(valid, "i1", lanes, n) if valid else ""
            element = self.load_scalar(i, one, inside)
            found = self.new(f"insertelement {kind} {found}, {base} {element}, i64 {n}")
        return found

    def print_store(self, i: Store) -> None:
        base, lanes = STORED[i.memory], i.lanes
        x = self.to_memory(self.values[i.arg], i.memory, lanes)
        align = MEMORY[i.memory]
        if lanes == 1 or i.stride in (1, -1):
            at = ""
            if lanes > 1 and i.stride == -1:
                at = self.new(f"add i64 {self.values[i.at]}, {1 - lanes}")
                x = self.shuffle(x, base, lanes, list(range(lanes))[::-1])
            kind = _of(base, lanes)
            self.lines.append(f"store {kind} {x}, ptr {self.address(i, at)}, align {align}")
            return
        at = self.addresses(i)
        if align >= 4:  # as some processors can
            self.call(
                f"masked.scatter.v{lanes}{SUFFIX.get(base, base)}.v{lanes}p0", "void",
                (f"<{lanes} x {base}>", x), (f"<{lanes} x ptr>", at), ("i32", str(align)),
                (f"<{lanes} x i1>", "splat (i1 true)"),
            )  # fmt: skip
            return
        for n in range(lanes):
            element, one = self.lane(x, base, lanes, n), self.lane(at, "ptr", lanes, n)
            self.lines.append(f"store {base} {element}, ptr {one}, align {align}")

    # --- primitives

    def print_op(self, i: Op) -> None:
        self.values[i.out] = OPS[i.op](self, i, [self.values[a] for a in i.args])

    def kind(self, i: Op) -> str:
        """The type of the operands."""
        return _of(TYPES[i.from_], i.lanes)

    def neg(self, i: Op, xs: list[str]) -> str:
        if i.from_[0] == "f":
            return self.new(f"fneg {self.kind(i)} {xs[0]}")
        return self.new(f"sub {self.kind(i)} zeroinitializer, {xs[0]}")

    def abs(self, i: Op, xs: list[str]) -> str:
        name, flag = ("fabs", "") if i.from_[0] == "f" else ("abs", "false")
        return self.intrinsic(name, i, xs, flag)

    def rounding(self, i: Op, xs: list[str]) -> str:
        return self.intrinsic(INTRINSICS[i.op], i, xs)

    def not_(self, i: Op, xs: list[str]) -> str:
        ones = (
            _number(True, "bool", i.lanes) if i.from_ == "bool" else _number(-1, i.from_, i.lanes)
        )
        return self.new(f"xor {self.kind(i)} {xs[0]}, {ones}")

    def arithmetic(self, i: Op, xs: list[str]) -> str:
        name = ARITHMETIC[i.op].split()[_kind(i.from_)]
        return self.new(f"{name} {self.kind(i)} {', '.join(xs)}")

    def division(self, i: Op, xs: list[str]) -> str:
        """Of ints with what LLVM leaves undefined: 0 where the divisor is, and least / -1 wraps."""
        a, b = xs
        if i.from_[0] == "f":
            if i.op == "rem":
                raise UnsupportedKernelError("the remainder of floats is computed in a loop")
            return self.arithmetic(i, xs)
        if self.known.get(i.args[1]) not in (None, 0, -1):
            return self.arithmetic(i, xs)
        kind, flags = self.kind(i), _of("i1", i.lanes)
        zero, one = (_number(n, i.from_, i.lanes) for n in (0, 1))
        is_zero = odd = self.new(f"icmp eq {kind} {b}, {zero}")
        if _kind(i.from_) == 1:
            least = _number(-(1 << (_bits(i.from_) - 1)), i.from_, i.lanes)
            is_least = self.new(f"icmp eq {kind} {a}, {least}")
            by_minus = self.new(f"icmp eq {kind} {b}, {_number(-1, i.from_, i.lanes)}")
            wraps = self.new(f"and {flags} {is_least}, {by_minus}")
            odd = self.new(f"or {flags} {is_zero}, {wraps}")
        safe = self.new(f"select {flags} {odd}, {kind} {one}, {kind} {b}")
        found = self.arithmetic(i, [a, safe])
        return self.new(f"select {flags} {is_zero}, {kind} {zero}, {kind} {found}")

    def extreme(self, i: Op, xs: list[str]) -> str:
        if i.from_[0] == "f":  # either zero is the least of both
            return self.intrinsic(f"{i.op}imum", i, xs, fast="nsz ")
        return self.intrinsic(f"{'su'[_kind(i.from_) - 1]}{i.op}", i, xs)

    def compare(self, i: Op, xs: list[str]) -> str:
        name = COMPARES[i.op].split()[_kind(i.from_)]
        word = "fcmp" if i.from_[0] == "f" else "icmp"
        return self.new(f"{word} {name} {self.kind(i)} {', '.join(xs)}")

    def select(self, i: Op, xs: list[str]) -> str:
        kind = self.kind(i)
        c, a, b = xs
        return self.new(f"select {_of('i1', i.lanes)} {c}, {kind} {a}, {kind} {b}")

    def bitcast(self, i: Op, xs: list[str]) -> str:
        return self.convert("bitcast", xs[0], i.from_, i.type, i.lanes)

    def convert(self, word: str, x: str, from_: str, to: str, lanes: int) -> str:
        a, b = TYPES[from_], TYPES[to]
        return x if a == b else self.new(f"{word} {_of(a, lanes)} {x} to {_of(b, lanes)}")

    def cast(self, i: Op, xs: list[str]) -> str:
        (x,), from_, to = xs, i.from_, i.type
        if to == "bool":
            word = "fcmp une" if from_[0] == "f" else "icmp ne"
            return self.new(f"{word} {self.kind(i)} {x}, {_number(0, from_, i.lanes)}")
        if from_[0] == "f":
            if to[0] != "f":
                return self.to_int(x, from_, to, i.lanes)
            return self.convert("fpext" if to == "f64" else "fptrunc", x, from_, to, i.lanes)
        if to[0] == "f":
            word = "sitofp" if _kind(from_) == 1 else "uitofp"
        elif _bits(to) < _bits(from_):
            word = "trunc"
        else:
            word = "sext" if _kind(from_) == 1 else "zext"
        return self.convert(word, x, from_, to, i.lanes)

    def to_int(self, x: str, from_: str, to: str, lanes: int) -> str:
        """As i64, with -2^63 for what that can't hold, of which the low bits are taken; with 32
        bits and less by arithmetic on floats, as few processors convert vectors to i64."""
        kind, flags = _of(TYPES[from_], lanes), _of("i1", lanes)

        def number(value: float) -> str:
            return _number(value, from_, lanes)

        size = self.mangled("fabs", TYPES[from_], lanes, x)
        holds = self.new(f"fcmp olt {kind} {size}, {number(2.0**63)}")
        if _bits(to) == 64:
            x = self.new(f"select {flags} {holds}, {kind} {x}, {kind} {number(-(2.0**63))}")
            return self.new(f"fptosi {kind} {x} to {_of('i64', lanes)}")
        if from_ == "f64":  # floats of 2^31 and more are whole
            x = self.mangled("trunc", TYPES[from_], lanes, x)
        near = self.new(f"fcmp olt {kind} {size}, {number(2.0**31)}")
        turns = self.new(f"fmul {kind} {x}, {number(2.0**-32)}")
        turns = self.new(f"fadd {kind} {turns}, {number(0.5)}")
        turns = self.mangled("floor", TYPES[from_], lanes, turns)
        turns = self.new(f"fmul {kind} {turns}, {number(2.0**32)}")
        far = self.new(f"fsub {kind} {x}, {turns}")
        far = self.new(f"select {flags} {holds}, {kind} {far}, {kind} {number(0.0)}")
        x = self.new(f"select {flags} {near}, {kind} {x}, {kind} {far}")
        whole = self.new(f"fptosi {kind} {x} to {_of('i32', lanes)}")
        return self.convert("trunc", whole, "i32", to, lanes)

    def narrow(self, i: Op, xs: list[str]) -> str:
        """To float16 by the processor, to bfloat16 on the bits; a NaN stays as it is."""
        (x,), kind = xs, self.kind(i)
        if i.value == "float16":
            return self.from_memory(self.to_memory(x, "f16", i.lanes), "f16", i.lanes)
        ints, flags = _of("i32", i.lanes), _of("i1", i.lanes)

        def number(value: int) -> str:
            return _number(value, "u32", i.lanes)

        bits = self.new(f"bitcast {kind} {x} to {ints}")
        odd = self.new(f"lshr {ints} {bits}, {number(16)}")
        odd = self.new(f"and {ints} {odd}, {number(1)}")
        bits = self.new(f"add {ints} {bits}, {odd}")
        bits = self.new(f"add {ints} {bits}, {number(0x7FFF)}")
        bits = self.new(f"and {ints} {bits}, {number(-0x10000)}")
        rounded = self.new(f"bitcast {ints} {bits} to {kind}")
        nan = self.new(f"fcmp uno {kind} {x}, {x}")
        return self.new(f"select {flags} {nan}, {kind} {x}, {kind} {rounded}")

    def muladd(self, i: Op, xs: list[str]) -> str:
        return self.intrinsic("fmuladd", i, xs)

    def intrinsic(self, name: str, i: Op, xs: list[str], flag: str = "", fast: str = "") -> str:
        return self.mangled(name, TYPES[i.from_], i.lanes, *xs, flag=flag, fast=fast)


PRINT: dict[type, Callable[[_Printer, Any], None]] = {
    Const: _Printer.print_const, Param: _Printer.print_param, Unit: _Printer.print_unit,
    Iota: _Printer.print_iota, Splat: _Printer.print_splat, Rotate: _Printer.print_rotate,
    Lane: _Printer.print_lane, Op: _Printer.print_op, Load: _Printer.print_load,
    Store: _Printer.print_store, Var: _Printer.print_var, Get: _Printer.print_get,
    Set: _Printer.print_set, For: _Printer.print_for,
}  # fmt: skip
OPS: dict[str, Callable[[_Printer, Op, list[str]], str]] = {
    "neg": _Printer.neg, "abs": _Printer.abs, "not": _Printer.not_, "cast": _Printer.cast,
    "bitcast": _Printer.bitcast, "narrow": _Printer.narrow, "select": _Printer.select,
    "muladd": _Printer.muladd, "min": _Printer.extreme, "max": _Printer.extreme,
    **dict.fromkeys(INTRINSICS, _Printer.rounding),
    **dict.fromkeys(ARITHMETIC, _Printer.arithmetic),
    **dict.fromkeys(("div", "rem"), _Printer.division),
    **dict.fromkeys(COMPARES, _Printer.compare),
}  # fmt: skip
