"""Whether a browser comes to the end of a regex: where a text can be read in several ways it tries
them all, in a time that doubles with each character if a loop has two for what it repeats.

A regex is made an automaton whose states are its signs (Glushkov's); two ways are two walks with
the same letters that part and meet again.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from itertools import combinations, product
from typing import Any, NamedTuple

__all__ = ["see_that_it_ends"]

_SIGN = re.compile(
    r"""\\[pP]\{[^}]*\}|\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[pP]\w|\\.
    |\(\?\#[^)]*\)|\(\?[a-zA-Z-]+\)|\(\?<?[=!]|\((?:\?(?:P?<\w+>|>|[a-zA-Z-]*:))?
    |\[\^?\]?(?>(?:\[(?:\\.|[^\]\\\[])*\]|\\.|[^\]\\])*)\]|(?:[*+?]|\{\d+,?\d*\}|\{,\d+\})[?+]?|.""",
    re.DOTALL | re.VERBOSE,
)
_COPIES = 8  # what comes more often is a loop
_SIGNS, _WAYS, _STEPS = 2000, 10**6, 10**6  # the most of a regex, and of what is looked at
_LOOPS = 3  # for one letter, in a row
_KINDS = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn"
_CONTROLS = dict(zip("nrtfv0ae", "\n\r\t\f\v\0\a\x1b", strict=True))

_PLAIN = frozenset([*map(chr, range(128)), "\x85"])  # the one space that is of no kind of them

Set = tuple[frozenset[str], frozenset[str]]


@functools.cache
def _of(kinds: str) -> frozenset[str]:
    """Letters of kinds, such as "L Nd": plain ones, and the kinds themselves for others."""
    names = tuple(kinds.split())
    plain = (c for c in _PLAIN if unicodedata.category(c).startswith(names))
    return frozenset([*plain, *(k for k in _KINDS.split() if k.startswith(names))])


_ALL = _of("L M N P S Z C")
_ANY: Set = (_ALL, frozenset())
_SPACES = _of("Z") | {*"\t\n\v\f\r\x85 "}
_NAMED: dict[str, Set] = {
    "s": (_SPACES, _SPACES), "d": (_of("Nd"), _of("Nd")),
    "w": (_of("L M N Pc So"), _of("L M Nd Pc")),
}  # fmt: skip


def _not(one: Set) -> Set:
    return _ALL - one[1], _ALL - one[0]


def _letter(sign: str) -> str | None:
    """The one that a sign is, if it is one."""
    if sign[0] != "\\":
        return sign if len(sign) == 1 else None
    if len(sign) > 2 and sign[1] in "xu":
        return chr(min(int(sign[2:].strip("{}"), 16), 0x10FFFF))
    return _CONTROLS.get(sign[1], None if sign[1].isalnum() else sign[1])


def _between(first: str, last: str, any_case: bool) -> Set:
    """The letters from one to another."""
    plain = {chr(i) for i in range(ord(first), min(ord(last), 127) + 1)}
    if any_case:
        plain |= {x for c in plain for x in (c.lower(), c.upper())}
    plain |= {"\x85"} if first <= "\x85" <= last else set()
    beyond = range(max(ord(first), 128), ord(last) + 1)
    kinds = {unicodedata.category(chr(i)) for i in beyond} if len(beyond) < 5000 else _ALL - _PLAIN
    return frozenset(plain | kinds), frozenset(plain)


def _set(sign: str, any_case: bool) -> Set:
    """Letters that a sign may be, and those that it surely may be: of a kind all."""
    if sign == ".":
        return _ANY
    if sign[0] == "[" and len(sign) > 1:
        inner = sign.removeprefix("[").removeprefix("^").removesuffix("]")
        if "&&" in inner or re.search(r"(?<!\\)\[", inner):  # of sets
            return _ANY
        parts, sets = re.findall(r"\\[pPxu]\{[^}]*\}|\\x..|\\u....|\\[pP]\w|\\.|.", inner, 16), []
        while parts:
            first, last = _letter(parts[0]), _letter(parts[2]) if len(parts) > 2 else None
            if first and last and parts[1] == "-":
                sets.append(_between(first, last, any_case))
                del parts[:2]
            else:
                sets.append(_set("\\." if parts[0] == "." else parts[0], any_case))
            del parts[0]
        touched, whole = (frozenset[str]().union(*side) for side in zip(*sets, strict=True))
        return _not((touched, whole)) if sign[1] == "^" else (touched, whole)
    letter = _letter(sign)
    if letter is not None:
        return _between(letter, letter, any_case)
    name = sign[1].lower()
    one = _NAMED.get(name, _ANY)
    if name == "p" and (kinds := _of(sign[2:].strip("{}") or "?")):
        one = kinds, kinds
    return _not(one) if sign[1].isupper() and one != _ANY else one


class _Part(NamedTuple):
    """Of a regex: whether it may be nothing, the signs that it begins and ends with, and how many
    ways it has, loops apart."""

    empty: bool
    first: list[int]
    last: list[int]
    ways: int


_NOTHING = _Part(True, [], [], 1)


class _Automaton:
    def __init__(self, pattern: str) -> None:
        self.signs = _SIGN.findall(pattern)[::-1]  # those that are left, the next one last
        self.any_case = re.search(r"\(\?[a-zA-Z]*i", pattern) is not None
        self.sets: list[Set] = []
        self.after: list[list[int]] = []  # of each sign; twice where it is so in two ways
        self.steps = 0
        self.made(self.choice(0))
        self.see_rows()

    # --- reading: ("set", Set), ("row", parts), ("choice", rows), ("often", part, least, most)

    def choice(self, depth: int) -> Any:
        if depth > 50:
            raise ValueError("its groups are too deep")
        rows: list[Any] = [[]]
        while self.signs and not (self.signs[-1] == ")" and depth):
            sign = self.signs.pop()
            often = re.fullmatch(r"([*+?])[?+]?|\{(\d*)(,?)(\d*)\}[?+]?", sign)
            if sign == "|":
                rows.append([])
            elif often and rows[-1]:
                how, least, comma, most = often.groups()
                many = (int(most) if most else None) if comma else int(least or 1)
                known = {"*": (0, None), "+": (1, None), "?": (0, 1)}
                bounds = known.get(how, (int(least or 0), many))
                rows[-1].append(("often", rows[-1].pop(), *bounds))
            elif sign[0] == "(" and not (sign[:2] == "(?" and sign[-1] == ")"):
                inner = self.choice(depth + 1)
                self.signs = self.signs[:-1]
                rows[-1].append(("look", inner) if sign[-1] in "=!" else inner)
            elif sign in ("^", "$") or sign[-1] == ")" or re.fullmatch(r"\\[bBAzZG]", sign):
                continue
            elif re.fullmatch(r"\\[1-9k]", sign):  # the same text once more
                rows[-1].append(("often", ("set", _ANY), 0, None))
            else:
                rows[-1].append(("set", _set(sign, self.any_case)))
        return "choice", [("row", row) for row in rows]

    # --- the automaton

    def made(self, node: Any) -> _Part:
        kind, inner = node[:2]
        self.step()
        if kind == "set":
            self.sets.append(inner)
            self.after.append([])
            if len(self.sets) > _SIGNS:
                raise ValueError("it is too long")
            here = [len(self.sets) - 1]
            return _Part(False, here, here, 1)
        if kind == "look":  # which is read apart
            self.made(inner)
            return _NOTHING
        if kind == "often":
            return self.often(*node[1:])
        parts = [self.made(x) for x in inner]
        if kind == "row":
            return functools.reduce(self.joined, parts, _NOTHING)
        first, last = [i for p in parts for i in p.first], [i for p in parts for i in p.last]
        return _Part(any(p.empty for p in parts), first, last, sum(p.ways for p in parts))

    def joined(self, a: _Part, b: _Part) -> _Part:
        for i in a.last:
            self.after[i] += b.first
        if a.ways * b.ways > _WAYS:
            raise ValueError("it has too many ways for a text")
        return _Part(
            a.empty and b.empty, a.first + (b.first if a.empty else []),
            b.last + (a.last if b.empty else []), a.ways * b.ways,
        )  # fmt: skip

    def often(self, inner: Any, least: int, most: int | None) -> _Part:
        if most == 1:
            part = self.made(inner)
            return part._replace(empty=part.empty or not least, ways=part.ways + 1 - least)
        begin = len(self.sets)
        loop = self.made(inner)
        for i in loop.last:
            self.after[i] += loop.first
        self.see_loop(begin)
        if least > _COPIES and loop.empty:
            raise ValueError(f"it repeats {least} times what may be nothing")
        if most is None or most > _COPIES:
            return loop._replace(empty=loop.empty or not least, ways=1)
        copies = [self.made(inner) for _ in range(most)]
        found = functools.reduce(
            self.joined, [c._replace(empty=c.empty or k >= least) for k, c in enumerate(copies)]
        )
        return found._replace(ways=found.ways * (most - least + 1))

    # --- ways

    def step(self) -> None:
        """Take one of the steps, of which there are so many."""
        self.steps += 1
        if self.steps > _STEPS:
            raise ValueError("it is too long")

    def both(self, i: int, j: int) -> bool:
        """Whether a letter may be either sign."""
        self.step()
        return not self.sets[i][0].isdisjoint(self.sets[j][0])

    def see_loop(self, begin: int) -> None:
        """See that no two walks through a loop, of the signs from `begin` on, part and meet."""
        for start in range(begin, len(self.sets)):
            todo = [p for p in combinations(self.after[start], 2) if self.both(*p)]
            seen = set(todo)
            while todo:
                pair = todo.pop()
                if pair == (start, start):
                    raise ValueError("it repeats what is read in several ways")
                for i, j in product(self.after[pair[0]], self.after[pair[1]]):
                    if (i, j) not in seen and self.both(i, j):
                        seen.add((i, j))
                        todo.append((i, j))

    def see_rows(self) -> None:
        """See that few loops in a row take the same letter: each of them takes time in proportion
        to a text."""
        loops = {i for i, after in enumerate(self.after) if i in after}
        for letter in frozenset[str]().union(*(self.sets[i][0] for i in loops)):
            most = dict.fromkeys((i for i, (some, _) in enumerate(self.sets) if letter in some), 0)
            for i in most:  # what comes later has a higher number
                most[i] += i in loops
                if most[i] > _LOOPS:
                    raise ValueError(f"more than {_LOOPS} loops in a row take {letter!r}")
                for j in self.after[i]:
                    if j > i and j in most:
                        most[j] = max(most[j], most[i])


def see_that_it_ends(pattern: str) -> None:
    """ValueError for a regex that takes a browser a time without bounds, with the reason."""
    try:
        _Automaton(pattern)
    except ValueError as error:
        raise ValueError(f"the regex {pattern!r:.80} may take for ever: {error}") from None
