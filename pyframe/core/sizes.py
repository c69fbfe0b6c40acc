"""Sizes that change from call to call while a function is captured.

In a capture for many lengths a `SymbolicSize` stands for each size of an argument that changes.
It has the value of the present call, its hint, and a formula that gives the value in later calls:
shapes, strides and trip counts are calculated with it as with an int. A comparison is answered for
the hint and noted in the current `ShapeGuards`: the capture holds for all sizes that give the same
answers. Code that needs the number itself, as `range()` does, specializes the size, which is one
more guard.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pyframe.core.locks import lock

Terms: TypeAlias = "dict[tuple[int, ...], int]"  # by atoms, which are multiplied: how often
Bounds: TypeAlias = "tuple[int | None, int | None]"  # the least and the most that it may be


class DynamicShapeError(BaseException):
    """A capture can't be for many sizes. It passes a user's `except Exception`."""


MIN_SYMBOLIC_SIZE = 2  # sizes 0 and 1 broadcast, so they are specialized
_count = itertools.count(1)
_PACKAGE = __name__.partition(".")[0]


class ShapeEnv:
    """The sizes of a capture that change, and all that is calculated of them.

    What is no sum of products is an atom of its own, such as a quotient: `atoms` has them in the
    order in which they can be calculated, the sizes themselves first.
    """

    def __init__(self, now: Sequence[int], names: Sequence[str] = ()) -> None:
        self.now = tuple(now)
        self.names = tuple(names)  # for people
        self.atoms: list[tuple[Any, tuple[Any, ...], str]] = [(None, (), "")] * len(now)
        self.number: dict[Any, int] = {}  # of an atom, by what it is
        self.values: list[Any] = list(now)  # of the atoms, at the present sizes; None: not known
        self.serial = next(_count)
        self.guards = ShapeGuards(self)

    def symbols(self) -> list[SymbolicSize]:
        """The sizes."""
        return [SymbolicSize(self, {(i,): 1}) for i in range(len(self.now))]

    def set(self, now: Sequence[int]) -> None:
        """The sizes of the call at hand."""
        if self.now != tuple(now):
            self.now = tuple(now)
            self.values = [*now, *[None] * (len(self.atoms) - len(now))]

    def value(self, atom: int) -> Any:
        """What an atom is at the present sizes."""
        found = self.values[atom]
        if found is None:
            fn, args, _ = self.atoms[atom]
            found = self.values[atom] = fn(*map(size_hint, args))
        return found

    def atom(self, fn: Callable[..., Any], text: str, *args: Any) -> SymbolicSize:
        """`fn(*args)`, which `text` says in Python, with a {} for each argument."""
        key = text, *[a.key if type(a) is SymbolicSize else (type(a), a) for a in args]
        found = self.number.get(key)
        if found is None:
            found = self.number[key] = len(self.atoms)
            self.atoms.append((fn, args, text))
            self.values.append(None)
        return SymbolicSize(self, {(found,): 1}, type(self.value(found)) is float)

    def function(self, wanted: Iterable[Any]) -> Callable[..., tuple[Any, ...]]:
        """What gives numbers and expressions for other sizes, which are its arguments."""
        return self._compiled([self.text(x) for x in wanted], "({},)", ", ")

    def holds(self, guards: Iterable[str]) -> Callable[..., bool]:
        """What says for other sizes whether all these questions, as texts, are answered by yes."""
        return self._compiled(list(guards) or ["True"], "({})", " and ")

    def text(self, x: Any) -> str:
        """An expression in Python."""
        if type(x) is not SymbolicSize:
            return repr(x)
        parts = ["*".join([str(n)] * (n != 1 or not atoms) + [f"a{i}" for i in atoms])
                 for atoms, n in x.terms.items()]  # fmt: skip
        return f"({' + '.join(parts) or '0'})"

    def words(self, text: str) -> str:
        """The same for people: the sizes by their names."""
        return _NAME.sub(lambda found: self._word(int(found[1])), text)

    def _word(self, atom: int) -> str:
        if atom < len(self.now):
            return self.names[atom] if atom < len(self.names) else f"n{atom}"
        _, args, form = self.atoms[atom]
        return f"({form.format(*[self.words(self.text(a)) for a in args])})"

    def _compiled(self, texts: list[str], around: str, between: str) -> Any:
        lines, done = [], set(range(len(self.now)))

        def calculate(text: str) -> None:
            for name in _names(text):
                if name not in done:
                    done.add(name)
                    _, args, form = self.atoms[name]
                    inner = form.format(*[self.text(a) for a in args])
                    calculate(inner)
                    lines.append(f"    a{name} = {inner}")

        for text in texts:
            calculate(text)
        given = ", ".join(f"a{i}" for i in range(len(self.now)))
        result = around.format(between.join(texts)) if texts else "()"
        source = "\n".join([f"def function({given}):", *lines, f"    return {result}"])
        space: dict[str, Any] = {"math": math, "round": round, "__builtins__": {}}
        space |= {"int": int, "abs": abs, "float": float, "max": max}
        exec(source, space)
        return space["function"]


_NAME = re.compile(r"(?<![\w.])a(\d+)")


def _names(text: str) -> list[int]:
    """The atoms in an expression."""
    return list(map(int, _NAME.findall(text)))


class ShapeGuards:
    """The questions that were asked about sizes, and their answers."""

    def __init__(self, sizes: ShapeEnv, above: ShapeGuards | None = None) -> None:
        """What is known by the guards `above` needs no question."""
        self.sizes = sizes
        self.serial = next(_count)
        self.bounds: dict[int, Bounds] = {} if above is None else above.bounds.copy()
        self.answers: dict[Any, bool] = {} if above is None else above.answers.copy()
        # What has to hold, as a text: the same as data (see symbolic.py), and the line that asks
        self.asked: dict[str, tuple[Any, str]] = {} if above is None else above.asked.copy()
        self.pinned: list[tuple[str, str]] = []  # expressions whose number was asked for, lines
        if above is None:
            self.bounds.update((i, (MIN_SYMBOLIC_SIZE, None)) for i in range(len(sizes.now)))

    def ask(self, kind: str, x: SymbolicSize) -> bool:
        """Whether `x` is more than 0 (">") or is 0 ("==")."""
        known = self.decided(kind, x)
        if known is not None:
            return known
        key = kind, x.key
        found = self.answers.get(key)
        if found is None:
            value = size_hint(x)
            found = self.answers[key] = value > 0 if kind == ">" else value == 0
            fn = operator.gt if kind == ">" else operator.eq
            self.note(found, f"{self.sizes.text(x)} {kind} 0", fn, x, 0)
            self._learn(kind, x, found)
        return found

    def ask_other(self, text: str, fn: Callable[..., Any], *args: Any) -> Any:
        """`fn(*args)`, a bool, of what are no ints."""
        found = bool(fn(*map(size_hint, args)))
        self.note(found, f"({text.format(*[self.sizes.text(a) for a in args])})", fn, *args)
        return found

    def note(self, answer: bool, text: str, *question: Any) -> None:
        """Rely on the answer to a question, which is a function and its arguments."""
        if not answer:
            text, question = f"not {text}", (operator.not_, question)
        self.asked.setdefault(text, (question, _line()))

    def pin(self, x: SymbolicSize) -> Any:
        """The number itself."""
        value = size_hint(x)
        if type(value) is float:
            self.note(True, f"{self.sizes.text(x)} == {value!r}", operator.eq, x, value)
        elif not self.ask("==", x - value):
            raise AssertionError("a size is not what it is")
        self.pinned.append((self.sizes.text(x), _line()))
        return value

    def wanted(self) -> dict[int, str]:
        """The sizes of which a number was asked for, or of what is made of them, and where."""
        out: dict[int, str] = {}
        found = [(atom, line) for text, line in self.pinned for atom in _names(text)]
        for atom, line in found:  # which grows by what they are made of
            if atom not in out:
                out[atom] = line
                parts = [self.sizes.text(x) for x in self.sizes.atoms[atom][1]]
                found += [(inner, line) for text in parts for inner in _names(text)]
        return {k: line for k, line in out.items() if k < len(self.sizes.now)}

    # --- what is known without a question

    def decided(self, kind: str, x: SymbolicSize) -> bool | None:
        """The answer, if it is the same for all sizes that the guards so far let pass."""
        if x.constant is not None:
            return x.constant > 0 if kind == ">" else x.constant == 0
        if x.is_float:
            return None
        least = self.least(x.terms)
        if least is not None and least > 0:
            return kind == ">"
        most = self.least(_negative(x.terms))
        if most is not None and (most > 0 if kind == "==" else most >= 0):
            return False
        if kind == "==" and least == 0 == most:
            return True
        return None

    def least(self, terms: Terms) -> int | None:
        """What a sum is at least. Of each atom what it is more than its own least is put in for
        it: in `n * n - n` terms then cancel."""
        shifted: Terms = {}
        for atoms, n in terms.items():
            product: Terms = {(): n}
            for a in atoms:
                low = self.bound(a)[0]
                if low is None:
                    return None
                new: Terms = {}
                for known, c in product.items():
                    new[known] = new.get(known, 0) + c * low
                    more = tuple(sorted((*known, a)))
                    new[more] = new.get(more, 0) + c
                product = new
            for known, c in product.items():
                shifted[known] = shifted.get(known, 0) + c
        out = shifted.pop((), 0)
        for atoms, n in shifted.items():
            if n >= 0:
                continue
            for a in atoms:
                low, high = self.bound(a)
                if high is None or low is None:
                    return None
                n *= high - low
            out += n
        return out

    def bound(self, atom: int) -> Bounds:
        found = self.bounds.get(atom)
        if found is None:
            found = self.bounds[atom] = self._bound_of(*self.sizes.atoms[atom])
        return found

    def _bound_of(self, fn: Any, args: tuple[Any, ...], text: str) -> Bounds:
        if fn is max:
            lows = [x if type(x) is int else self.least(x.terms) for x in args]
            return max([low for low in lows if low is not None], default=None), None
        if fn not in (operator.floordiv, operator.mod) or type(args[1]) is not int or args[1] <= 0:
            return None, None
        if fn is operator.mod:
            return 0, args[1] - 1
        low, high = self.least(args[0].terms), self.least(_negative(args[0].terms))
        return (None if low is None else low // args[1],
                None if high is None else -high // args[1])  # fmt: skip

    def _learn(self, kind: str, x: SymbolicSize, answer: bool) -> None:
        """Keep what an answer says about a single atom."""
        terms = x.terms if answer or kind == "==" else (1 - x).terms
        rest = [atoms for atoms in terms if atoms]
        if x.is_float or len(rest) != 1 or len(rest[0]) != 1 or (kind == "==" and not answer):
            return
        (atom,), n, more = rest[0], terms[rest[0]], terms.get((), 0)
        low, high = self.bound(atom)
        if kind == "==":
            low = high = -more // n
        elif n > 0:
            least = -more // n + 1
            low = least if low is None else max(low, least)
        else:
            most = -(more // n) - 1 if more % n == 0 else more // -n
            high = most if high is None else min(high, most)
        self.bounds[atom] = low, high


class _Present(threading.local):
    """The guards of a thread that questions are noted in now; None outside a capture."""

    guards: ShapeGuards | None = None


_present = _Present()


class use_shape_guards:  # noqa: N801  read like a function
    """Within it questions about sizes are noted in these guards."""

    def __init__(self, guards: ShapeGuards | None) -> None:
        self.guards = guards

    def __enter__(self) -> ShapeGuards | None:
        global same
        self.before, _present.guards = _present.guards, self.guards
        with _counting:
            _open[0] += 1
            same = statically_equal
        return self.guards

    def __exit__(self, *exc: object) -> None:
        global same
        _present.guards = self.before
        with _counting:
            _open[0] -= 1
            if not _open[0]:
                same = operator.eq


def current_shape_guards() -> ShapeGuards | None:
    """The guards that questions are noted in now."""
    return _present.guards


def _guards(sizes: ShapeEnv) -> ShapeGuards:
    found = _present.guards
    if found is None or found.sizes is not sizes:
        raise DynamicShapeError("a size that changes is used where no capture sees it")
    return found


def is_symbolic_size(x: Any) -> bool:
    """Whether it is a size that changes."""
    return type(x) is SymbolicSize


def size_hint(x: Any) -> Any:
    """What a size is now; a plain number is its own."""
    if type(x) is not SymbolicSize:
        return x
    if x.constant is not None:
        return x.constant
    value, out = x.sizes.value, 0
    for atoms, n in x.terms.items():
        for a in atoms:
            n *= value(a)
        out += n
    return out


def tuning_hint(x: Any, least: int) -> Any:
    """What a size is taken for where that decides nothing but speed: for no less than `least` if it
    changes."""
    return max(size_hint(x), least) if type(x) is SymbolicSize else x


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two sizes, by a formula where it can't be told."""
    x = a - b
    if type(x) is not SymbolicSize:
        return a if x > 0 else b
    guards = _guards(x.sizes)
    for less, more in ((x, a), (-x, b)):
        least = guards.least(less.terms)
        if least is not None and least >= 0:
            return more
    return x.sizes.atom(max, "max({}, {})", a, b)


def statically_equal(a: Any, b: Any) -> bool:
    """Whether two sizes, or sequences of some, are equal, whatever they are: no question."""
    if type(a) is int is type(b) or _present.guards is None:
        return bool(a == b)
    if isinstance(a, (tuple, list)):
        return (
            isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(statically_equal, a, b))
        )
    if type(a) is SymbolicSize or type(b) is SymbolicSize:
        x = a - b
        return type(x) is int and x == 0
    return bool(a == b)


def indices(s: slice, n: Any) -> tuple[Any, Any, Any]:
    """`s.indices(n)` of a slice whose step is positive."""
    if not is_symbolic((n, s.start, s.stop, s.step)):
        return s.indices(n)
    ends = []
    for at, end in ((s.start, 0), (s.stop, n)):
        if at is None:
            at = end
        elif at < 0:
            at = at + n if at + n > 0 else 0
        ends.append(at if at <= n else n)
    return ends[0], ends[1], 1 if s.step is None else s.step


def is_static(x: Any) -> bool:
    """Whether a size is the same for all that the guards let pass."""
    if type(x) is not SymbolicSize:
        return True
    apart: Any = x - size_hint(x)
    return type(apart) is int or _guards(x.sizes).decided("==", apart) is True


# The same, by `sizes.same`, where nobody has symbolic sizes in most of the calls
same: Callable[[Any, Any], bool] = operator.eq
_open = [0]  # how many ask about sizes at the moment, in all threads
_counting = lock()


def statically_divides(a: Any, b: Any) -> bool:
    """Whether `b` is a multiple of `a`, whatever they are: no question."""
    x = b % a
    return type(x) is int and x == 0


def size_hints(x: Any) -> Any:
    """The same of all that is in tuples and lists, which may have names."""
    if type(x) is SymbolicSize:
        return size_hint(x)
    if isinstance(x, tuple):
        items = [size_hints(v) for v in x]
        if all(map(operator.is_, items, x)):
            return x
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, list):
        return [size_hints(v) for v in x]
    return x


class ShapeTemplate:
    """Tuples with formulas in them, to be made with numbers for sizes again and again."""

    def __init__(self, sizes: ShapeEnv, x: Any) -> None:
        self.found: dict[SymbolicSize, int] = {}
        self.make = self._made(x)
        self.numbers = sizes.function(self.found)

    def __call__(self, now: Sequence[int]) -> Any:
        """The same for these sizes."""
        return self.make(self.numbers(*now))

    def _made(self, x: Any) -> Callable[[Any], Any]:
        if type(x) is SymbolicSize:
            return operator.itemgetter(self.found.setdefault(x, len(self.found)))
        if not is_symbolic(x):
            return lambda values: x
        kind = type(x)
        if hasattr(x, "_fields"):
            kind = kind._make
        symbolic = [(k, self._made(v)) for k, v in enumerate(x) if is_symbolic(v)]
        known = list(x)

        def make(values: Any) -> Any:
            out = known[:]
            for k, inner in symbolic:
                out[k] = inner(values)
            return kind(out)

        return make


def is_symbolic(x: Any) -> bool:
    """Whether a size that changes is in it."""
    if type(x) is SymbolicSize:
        return True
    if isinstance(x, (tuple, list)):
        for v in x:
            if is_symbolic(v):
                return True
    return False


# operators of NumPy's ints and floats with a size on their right
_OF_NUMPY: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "floor_divide": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip


def _is_own(frame: Any) -> bool:
    """Whether the package's code runs there."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == _PACKAGE


def _line() -> str:
    """Where the question is asked: the innermost line outside this file, and its caller."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _negative(terms: Terms) -> Terms:
    return {atoms: -n for atoms, n in terms.items()}


def _operator(fn: Callable[..., Any], text: str, turned: bool = False) -> Callable[..., Any]:
    """An operator whose results are no sums; `turned`, of what is on its right."""
    return lambda a, b: _opaque(fn, text, *((b, a) if turned else (a, b)))


class SymbolicSize:
    """An int, or a float that was calculated of one, which is another in other calls."""

    __slots__ = ("_hash", "constant", "is_float", "key", "sizes", "terms")
    __array_priority__ = 1000  # operators of NumPy's numbers leave it to this class

    def __init__(self, sizes: ShapeEnv, terms: Terms, is_float: bool = False) -> None:
        self.sizes, self.terms, self.is_float = sizes, terms, is_float
        self.key = tuple(sorted(terms.items()))
        self.constant: Any = None  # the number, if it is always the same
        if not terms:
            self.constant = 0
        elif len(terms) == 1 and () in terms:
            self.constant = terms[()]
        # -1 and -2 have the same hash, and what has the same one is asked whether it is equal
        self._hash = hash((sizes.serial, *[(atoms, 2 * n + 1) for atoms, n in self.key]))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float if self.is_float else int

    def __hash__(self) -> int:
        """For a user's code that of the number, which is pinned. In the package another one for
        other guards: what was cached while others asked is calculated anew, so that these hear the
        questions too."""
        guards = _present.guards
        if guards is not None and not _is_own(sys._getframe(1)):
            return hash(_guards(self.sizes).pin(self))
        return self._hash if guards is None else hash((self._hash, guards.serial))

    def __copy__(self) -> SymbolicSize:
        return self

    def __deepcopy__(self, memo: Any) -> SymbolicSize:
        return self

    # --- the number itself

    def __index__(self) -> int:
        if self.is_float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        found: int = _guards(self.sizes).pin(self)
        return found

    def __int__(self) -> int:
        return int(_guards(self.sizes).pin(self)) if self.is_float else self.__index__()

    def __float__(self) -> float:
        return float(_guards(self.sizes).pin(self))

    def __complex__(self) -> complex:
        return complex(float(self))

    def __repr__(self) -> str:
        return repr(self._shown())

    def __format__(self, spec: str) -> str:
        return format(self._shown(), spec)

    def _shown(self) -> Any:
        """The number for a text: of the package's own it is a message, which decides nothing."""
        return size_hint(self) if _is_own(sys._getframe(2)) else _guards(self.sizes).pin(self)

    def __reduce__(self) -> Any:
        value = _guards(self.sizes).pin(self)
        return type(value), (value,)

    def __getattr__(self, name: str) -> Any:
        return getattr(_guards(self.sizes).pin(self), name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        import numpy as np

        return np.asarray(_guards(self.sizes).pin(self), *args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **kwargs: Any) -> Any:
        same = _OF_NUMPY.get(ufunc.__name__) if method == "__call__" and not kwargs else None
        if same is not None and all(
            is_symbolic_size(x) or getattr(x, "shape", None) == () for x in xs
        ):
            return same(*[x if is_symbolic_size(x) else x.item() for x in xs])
        pinned = [_guards(x.sizes).pin(x) if is_symbolic_size(x) else x for x in xs]
        return getattr(ufunc, method)(*pinned, **kwargs)

    # --- questions

    def __bool__(self) -> bool:
        return self != 0

    def _asks(self, kind: str, other: Any, text: str, fn: Any, turned: bool = False) -> Any:
        """Whether self - other, or what is `turned`, is 0 ("==") or more than that (">")."""
        terms = _terms(self, other)
        if terms is None:
            return _other(self, other, text, fn)
        x = self._sum(terms, -1)
        x = -x if turned else x
        if type(x) is int:
            return x > 0 if kind == ">" else x == 0
        return _guards(self.sizes).ask(kind, x)

    def __eq__(self, other: object) -> Any:
        if type(other) is SymbolicSize and other.sizes is not self.sizes:
            return False
        return self._asks("==", other, "{} == {}", operator.eq)

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __gt__(self, other: Any) -> Any:
        return self._asks(">", other, "{} > {}", operator.gt)

    def __lt__(self, other: Any) -> Any:
        return self._asks(">", other, "{} < {}", operator.lt, turned=True)

    def __le__(self, other: Any) -> bool:
        more = self.__gt__(other)
        return more if more is NotImplemented else not more

    def __ge__(self, other: Any) -> bool:
        less = self.__lt__(other)
        return less if less is NotImplemented else not less

    # --- arithmetic

    def _sum(self, terms: Terms, sign: int = 1) -> Any:
        out = self.terms.copy()
        for atoms, n in terms.items():
            out[atoms] = out.get(atoms, 0) + sign * n
        return _made(self.sizes, out)

    def __add__(self, other: Any) -> Any:
        terms = _terms(self, other)
        return _opaque(operator.add, "{} + {}", self, other) if terms is None else self._sum(terms)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        terms = _terms(self, other)
        if terms is None:
            return _opaque(operator.sub, "{} - {}", self, other)
        return self._sum(terms, -1)

    def __rsub__(self, other: Any) -> Any:
        if _terms(self, other) is None:
            return _opaque(operator.sub, "{} - {}", other, self)
        return -self + other

    def __mul__(self, other: Any) -> Any:
        terms = _terms(self, other)
        if terms is None:
            return _opaque(operator.mul, "{} * {}", self, other)
        out: Terms = {}
        for a, n in self.terms.items():
            for b, m in terms.items():
                both = tuple(sorted(a + b)) if a and b else a or b
                out[both] = out.get(both, 0) + n * m
        return _made(self.sizes, out)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        if self.is_float:
            return _opaque(operator.neg, "-{}", self)
        return _made(self.sizes, _negative(self.terms))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        terms = _terms(self, other)
        if not terms:
            return _opaque(operator.floordiv, "{} // {}", self, other)
        whole = _quotient(self.terms, terms)
        if whole is not None and other != 0:
            return _made(self.sizes, whole)
        if tuple(terms) == ((),) and terms[()] > 0:
            n = terms[()]
            rest = {atoms: m % n for atoms, m in self.terms.items() if m % n}
            quotient = _made(self.sizes, {atoms: m // n for atoms, m in self.terms.items()})
            part = _made(self.sizes, rest)
            if type(part) is int:
                return quotient + part // n
            return quotient + self.sizes.atom(operator.floordiv, "{} // {}", part, n)
        return _opaque(operator.floordiv, "{} // {}", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if other == 0 and type(other) is int and self > 0:
            return 0
        return _opaque(operator.floordiv, "{} // {}", other, self)

    def __mod__(self, other: Any) -> Any:
        terms = _terms(self, other)
        if not terms:
            return _opaque(operator.mod, "{} % {}", self, other)
        if _quotient(self.terms, terms) is not None and other != 0:
            return 0
        if tuple(terms) == ((),) and terms[()] > 0:
            n = terms[()]
            part = _made(self.sizes, {atoms: m % n for atoms, m in self.terms.items() if m % n})
            if type(part) is int:
                return part % n
            return self.sizes.atom(operator.mod, "{} % {}", part, n)
        if _is_part(self, other):
            return self
        return _opaque(operator.mod, "{} % {}", self, other)

    def __rmod__(self, other: Any) -> Any:
        if _is_part(other, self):
            return other
        return _opaque(operator.mod, "{} % {}", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other <= 8 and not self.is_float:
            return math.prod([self] * other)
        return _opaque(operator.pow, "{} ** {}", self, other)

    __truediv__ = _operator(operator.truediv, "{} / {}")
    __rtruediv__ = _operator(operator.truediv, "{} / {}", turned=True)
    __rpow__ = _operator(operator.pow, "{} ** {}", turned=True)
    __lshift__ = _operator(operator.lshift, "{} << {}")
    __rshift__ = _operator(operator.rshift, "{} >> {}")
    __and__ = _operator(operator.and_, "{} & {}")

    def conjugate(self) -> Any:
        return self

    def __trunc__(self) -> Any:
        return _opaque(math.trunc, "int({})", self) if self.is_float else self

    def __floor__(self) -> Any:
        return _opaque(math.floor, "math.floor({})", self) if self.is_float else self

    def __ceil__(self) -> Any:
        return _opaque(math.ceil, "math.ceil({})", self) if self.is_float else self

    def __round__(self, digits: Any = None) -> Any:
        if not self.is_float:
            return self
        if digits is not None:
            return _opaque(round, "round({}, {})", self, digits)
        return _opaque(round, "round({})", self)


def _made(sizes: ShapeEnv, terms: Terms) -> Any:
    """A sum as a number where it is always the same."""
    terms = {atoms: n for atoms, n in terms.items() if n}
    if not terms:
        return 0
    return terms[()] if len(terms) == 1 and () in terms else SymbolicSize(sizes, terms)


def _terms(x: SymbolicSize, other: Any) -> Terms | None:
    """`other` as a sum, if both are ints of the same capture."""
    if type(other) is SymbolicSize:
        if other.sizes is x.sizes and not (x.is_float or other.is_float):
            return other.terms
        return None
    if x.is_float or isinstance(other, float):
        return None
    if type(other) in (int, bool):
        return {(): int(other)} if other else {}
    index = getattr(type(other), "__index__", None)  # of NumPy's ints
    if index is None or getattr(other, "shape", ()) != ():
        return None
    n = operator.index(other)
    return {(): n} if n else {}


def _is_number(x: Any) -> bool:
    return type(x) in (int, float, bool, SymbolicSize)


def _opaque(fn: Callable[..., Any], text: str, *args: Any) -> Any:
    """What no sum says. NotImplemented for operands that are no numbers."""
    if not all(map(_is_number, args)):
        return NotImplemented
    some = {id(a.sizes): a.sizes for a in args if type(a) is SymbolicSize}
    if len(some) > 1:
        return NotImplemented
    (sizes,) = some.values()
    guards = _guards(sizes)
    values = [size_hint(a) for a in args]
    if fn in (operator.floordiv, operator.mod, operator.truediv) and is_symbolic_size(args[1]):
        args[1] == 0  # noqa: B015  a question, as the answer is an error
    result = fn(*values)  # which may be an error: then nothing of it is kept
    if type(result) not in (int, float):
        for a in args:
            if type(a) is SymbolicSize:
                guards.pin(a)
        return result
    if fn is operator.pow:  # whose type and errors depend on the numbers
        for a in args:
            if type(a) is SymbolicSize:
                a > 0, a >= 0  # noqa: B018  questions
    return sizes.atom(fn, text, *args)


def _other(a: SymbolicSize, b: Any, text: str, fn: Callable[..., Any]) -> Any:
    """A question about what are no ints."""
    if not _is_number(b):
        return NotImplemented
    return _guards(a.sizes).ask_other(text, fn, a, b)


def _is_part(a: Any, b: Any) -> bool:
    """Whether 0 <= a < b for all sizes that the guards let pass."""
    guards = _present.guards
    if guards is None or any(
        type(x) is not int and (not is_symbolic_size(x) or x.is_float) for x in (a, b)
    ):
        return False
    return all(n > 0 if type(n) is int else guards.decided(">", n) for n in (b - a, a + 1))


def _quotient(a: Terms, b: Terms) -> Terms | None:
    """a / b for a product `b` that divides each term of `a`; else None."""
    if len(b) != 1:
        (first, n), *_ = sorted(b.items())
        m = a.get(first, 0)
        if len(a) == len(b) and m and m % n == 0 and all(a.get(k, 0) == v * (m // n)
                                                         for k, v in b.items()):  # fmt: skip
            return {(): m // n}
        return None
    ((factor, n),) = b.items()
    out: Terms = {}
    for atoms, m in a.items():
        if m % n:
            return None
        left = list(atoms)
        for f in factor:
            if f not in left:
                return None
            left.remove(f)
        out[tuple(left)] = m // n
    return out
