"""Instructions written by hand in Python, for WebAssembly and for LLVM: values with operators,
variables, loops.

    def scale(f, w, first, last, part):
        with f.count(first, last) as i:
            at = f.local(w["x"] + i * 4)
            f.store(at, f.load(F32, at) * w["factor"])

This is the interface; codegen/wasm/assembler.py encodes it as bytes, codegen/llvm/assembler.py as
text. A routine that is written with what stands here runs on both.

- Types are `i32 i64 f32 f64`; WORD, an int as wide as an address; PTR, an address, of which a
  number of bytes is added; and vectors of them, `f32x4`. What is compared gives a BOOL.
- Instructions have WebAssembly's names (`x.op("shr_u", 3)`). An int's `lt le gt ge` are signed, its
  `//` and `%` are of numbers that are not negative.
- A `AsmValue` may be computed where it is written or where it is used, and again for each use. So
  what is used more than once, or after a change of what it reads, is kept in a variable (`local`).
- `f.count`, `f.during`, `f.when` and `f.otherwise` are loops and branches around what is written
  within. The condition of `during` is a function: it is asked before each turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

I32, I64, F32, F64 = "i32", "i64", "f32", "f64"
WORD, PTR, BOOL = "word", "ptr", "bool"

Operand: TypeAlias = Any  # a Value of the encoding at hand, or a number


def _instruction(name: str) -> Callable[[Any, Operand], Any]:
    """The method that is the instruction `name` on a value and another."""
    return lambda self, other: self.op(name, other)


class AsmValue:
    """A number, a vector or an address that instructions give."""

    __slots__ = ("type",)

    type: str

    def op(self, name: str, *others: Operand) -> Any:
        """The instruction `name` of this type on this value and others, mostly one."""
        raise NotImplementedError

    def cast(self, type: str) -> Any:
        """The same number as another type, an int with its sign."""
        raise NotImplementedError

    def bits(self, type: str) -> Any:
        """The same bits as another type of that size, in each lane of a vector."""
        raise NotImplementedError

    def where(self, condition: Any, other: Operand) -> Any:
        """This where the condition holds, else the other."""
        raise NotImplementedError

    __add__ = _instruction("add")
    __sub__ = _instruction("sub")
    __mul__ = _instruction("mul")
    __floordiv__ = _instruction("div")
    __mod__ = _instruction("rem")
    __and__ = _instruction("and")
    __or__ = _instruction("or")
    __lt__ = _instruction("lt")
    __le__ = _instruction("le")
    __gt__ = _instruction("gt")
    __ge__ = _instruction("ge")
    equals = _instruction("eq")
    differs = _instruction("ne")

    def min(self, other: Operand) -> Any:
        """The less of two ints."""
        return self.where(self < other, other)


class AsmVariable(AsmValue):
    """A value that changes."""

    __slots__ = ()

    def set(self, value: Operand) -> None:
        """Let it be a value from now on."""
        raise NotImplementedError

    def add(self, value: Operand) -> None:
        """Let it be so much more."""
        self.set(self + value)


class Assembler(ABC):
    """A function, written statement by statement."""

    below: str  # the comparison by which `count` ends

    @abstractmethod
    def local(self, start: Operand | None = None, type: str = "") -> Any:
        """A new variable, of the start's type or, for a number, a WORD."""

    @abstractmethod
    def value(self, x: Operand, type: str) -> Any:
        """A Python number as a constant, in each lane of a vector."""

    @abstractmethod
    def load(self, type: str, at: Any, offset: int = 0, *, align: int = 0) -> Any:
        """A value in memory, which lies at a multiple of the bytes of an element or `align`."""

    @abstractmethod
    def store(self, at: Any, value: Any, offset: int = 0, *, align: int = 0) -> None:
        """Write a value to memory."""

    def prefetch(self, at: Any, write: int = 1) -> None:
        """Say that what lies there will be written soon, or read, where that can be said."""
        return

    @abstractmethod
    def move(self, to: Any, source: Any, type: str, count: int) -> None:
        """Write so many elements that lie elsewhere, all at once."""

    @abstractmethod
    def call(self, function: Any, *arguments: Operand) -> None:
        """Call a function of the module."""

    @abstractmethod
    def transposed(self, rows: Sequence[Any]) -> list[Any]:
        """The columns of as many vectors, which are variables, as each has lanes."""

    @abstractmethod
    def load_first(self, type: str, at: Any, count: Any) -> Any:
        """A vector in memory, of which what is past its first `count` lanes need not be there."""

    @abstractmethod
    def splat_at(self, type: str, at: Any) -> Any:
        """A vector with what lies in memory in every lane."""

    @abstractmethod
    def bytes_at(self, at: Any, lanes: int, offset: int = 0) -> Any:
        """A vector of ints of 32 bits of as many signed bytes in memory."""

    @abstractmethod
    def floats(self, x: Any, real: str) -> Any:
        """Ints of 32 bits as floats."""

    @abstractmethod
    def multiply_add(self, x: Any, y: Any, total: Any) -> Any:
        """A product and a total, which may be rounded once."""

    parts: int  # operands of `dot` that a word of four ints of 8 bits becomes
    bias: int  # what is added to these ints in its first operand

    @abstractmethod
    def factors(self, words: Any, bias: int = 0) -> list[Any]:
        """Words of four ints of 8 bits as operands of `dot`."""

    @abstractmethod
    def dot(self, total: Any, x: Any, y: Any) -> Any:
        """A total of 32 bits in each lane and the products of ints of x, which have `bias`, and
        of y."""

    @abstractmethod
    def copy(self, to: Any, source: Any, nbytes: Any) -> None:
        """Write bytes that lie elsewhere."""

    @abstractmethod
    def fill(self, to: Any, nbytes: Any) -> None:
        """Write zeros to a multiple of 4 bytes."""

    @abstractmethod
    def lanes(self, type: str) -> int:
        """How many lanes the processor's vectors have."""

    @abstractmethod
    def fail(self) -> None:
        """What the op's NumPy function raises an error for was found."""

    @abstractmethod
    def when(self, condition: Any) -> AbstractContextManager[None]:
        """What follows runs if the condition holds."""

    @abstractmethod
    def otherwise(self) -> None:
        """Within `when`: what follows runs if it doesn't."""

    @abstractmethod
    def during(self, condition: Callable[[], Any]) -> AbstractContextManager[None]:
        """What follows runs again and again while the condition, asked before each time, holds."""

    @contextmanager
    def count(self, start: Operand, stop: Operand, step: Operand = 1) -> Iterator[Any]:
        """What follows runs for start, start + step, … below `stop`, which is asked anew each
        time."""
        i = self.local(start)
        with self.during(lambda: i.op(self.below, stop)):
            yield i
            i.add(step)
