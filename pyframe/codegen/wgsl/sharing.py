"""Kernels whose texts differ in whole numbers alone: one text, which reads these after its scalars.

So what begins elsewhere, has more rows or is longer takes no pipeline of its own. What shapes a
text stays in it: sizes of arrays and workgroups, shifts, and divisors, as dividing by a constant is
no division.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyframe.codegen.wgsl import library, scalars
from pyframe.codegen.wgsl.printer import Shader, generate
from pyframe.core.limits import Limits
from pyframe.graph.program import Kernel

MAX_SHARED_NUMBERS = 32  # numbers that a text reads

_FIXED = re.compile(r"^(?:@|(?:alias|const|enable|fn|var)\b).*|^.*array<.*", re.M)
_CONSTANT = re.compile(r"^const (\w+) = (\d+);\n", re.M)
_TILES = re.compile(r"^const (DOWN|ACROSS) = ([^;]*);\n", re.M)  # divisors once a thread
_WHOLE, _UNSIGNED = "\0", "\1"  # the marks of numbers that may be read
# Words and numbers: a whole number, one of u32, and what is neither or may not be read.
_PARTS = re.compile(
    r"params\[\d+\]\[\d+\]|(?:[/%]|<<|>>)=? *\w+|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<whole>\d+)(?![\w.])|(?P<unsigned>\d+)u\b|[\d.]+(?:[eE][-+]?\d+)?\w*"
)


def dedupe_shaders(kernels: Sequence[Kernel], limits: Limits) -> list[Shader]:
    """The shaders of a Program's kernels."""
    out = [generate(k, limits) for k in kernels]
    named: dict[tuple[str, ...], list[int]] = {}  # which may be alike: most of them are not
    for i, (k, s) in enumerate(zip(kernels, out, strict=True)):
        if s.code and not s.sizes:
            name, _, more = s.label.partition("[")
            named.setdefault((name, more.partition("]")[2], str(k.bindings)), []).append(i)
    alike: dict[tuple[str, int], list[int]] = {}
    numbers: dict[int, list[int]] = {}
    for i in [i for some in named.values() if len(some) > 1 for i in some]:
        marked, numbers[i] = _marked(out[i].code)
        alike.setdefault((marked, kernels[i].params), []).append(i)
    for (marked, params), some in alike.items():
        columns = [*zip(*[numbers[i] for i in some], strict=True)]
        read = {c: n for n, c in enumerate({c: None for c in columns if len(set(c)) > 1})}
        if 0 < len(read) <= MAX_SHARED_NUMBERS:
            texts = [f"size{read[c]}()" if c in read else str(c[0]) for c in columns]
            bindings = kernels[some[0]].bindings
            code = _with_room(_filled(marked, texts), bindings, params, len(read))
            for at, i in enumerate(some):
                out[i] = out[i]._replace(code=code, sizes=tuple([c[at] for c in read]))
    return out


def standalone_shader(kernel: Kernel, limits: Limits, sizes: tuple[Any, ...]) -> Shader:
    """A kernel's shader by itself, with room among its parameters for what another one reads."""
    out = generate(kernel, limits)
    if not sizes:
        return out
    code = _with_room(out.code, kernel.bindings, kernel.params, len(sizes))
    return out._replace(code=code, sizes=sizes)


def _marked(code: str) -> tuple[str, list[int]]:
    """A text with marks for the numbers that it may read, and these."""
    tiles = {name: f"({n})" for name, n in _TILES.findall(code)}
    code = library.named(_TILES.sub("", code), tiles)
    known = dict(_CONSTANT.findall(code))
    fixed = "\n".join(_FIXED.findall(_CONSTANT.sub("", code)))
    fixed += "".join(re.findall(r"(?:[/%]|<<|>>)=? *\w+", code))
    free = known.keys() - set(re.findall(r"[A-Za-z_]\w*", fixed))
    numbers: list[int] = []

    def mark(m: re.Match[str]) -> str:
        whole = known[m["word"]] if m["word"] in free else m["whole"]
        if whole is None and m["unsigned"] is None:
            return m[0]
        numbers.append(int(whole or m["unsigned"]))
        return _UNSIGNED if whole is None else _WHOLE

    code = _CONSTANT.sub(lambda m: "" if m[1] in free else m[0], code)
    out, at = [], 0
    for kept in _FIXED.finditer(code):
        out += [_PARTS.sub(mark, code[at : kept.start()]), kept[0]]
        at = kept.end()
    return "".join([*out, _PARTS.sub(mark, code[at:])]), numbers


def _filled(marked: str, texts: Sequence[str]) -> str:
    """The text with others in the places of its marks."""
    each = iter(texts)

    def fill(m: re.Match[str]) -> str:
        text = next(each)
        return text if m[0] == _WHOLE else f"{text}u" if text.isdigit() else f"u32({text})"

    return re.sub(f"[{_WHOLE}{_UNSIGNED}]", fill, marked)


def _with_room(code: str, bindings: int, params: int, sizes: int) -> str:
    """The text with so many sizes after its scalars."""
    kind = f"array<vec4<u32>, {-(-(params + sizes) // 4)}>;\n"
    head = f"@group(0) @binding({bindings}) var<uniform> params: "
    code = re.sub(re.escape(head) + ".*\n", "", code)
    directives = "".join(re.findall(r"^enable .*\n", code, re.M))  # which come first
    return directives + head + kind + scalars.reads(params, sizes) + code.replace(directives, "", 1)
