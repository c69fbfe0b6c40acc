"""The files of shaders/: found, read once, specialised by rewriting their constants."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyframe.core.sizes import is_symbolic_size

_CALL = re.compile(r"\bpf_\w+")


@functools.cache
def folder() -> Path:
    """shaders/, inside the installed package or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for place in (package / "shaders", package.parent / "shaders"):
        if (place / "sort.wgsl").exists():
            return place
    raise RuntimeError(f"pyframe's shaders/ are missing beside {package}; reinstall pyframe")


@functools.cache
def source(file: str) -> str:
    """The text of one file, without comments."""
    text = (folder() / file).read_text(encoding="utf-8")
    return re.sub(r"^\s*//.*\n", "", text, flags=re.M)


@functools.cache
def functions() -> dict[str, str]:
    """Every function of shaders/lib by name."""
    out: dict[str, str] = {}
    for path in sorted((folder() / "lib").glob("*.wgsl")):
        text = source(f"lib/{path.name}")
        starts = [m.start() for m in re.finditer(r"^fn ", text, re.M)] + [len(text)]
        for a, b in itertools.pairwise(starts):
            body = text[a:b].rstrip()
            out[body[3 : body.index("(")]] = body
    return out


def specialise(file: str, constants: Mapping[str, Any], count: Callable[[Any], str]) -> str:
    """The file with the right-hand sides of its `const NAME = …;` lines replaced. A size that
    changes is no constant: `count` gives the text that reads it, which takes the name's place."""
    sizes = {name: count(n) for name, n in constants.items() if is_symbolic_size(n)}

    def replace(m: re.Match[str]) -> str:
        name = m.group(1)
        if name in sizes:
            return ""
        if name not in constants:
            return m.group(0)
        value = constants[name]
        return f"const {name} = {str(value).lower() if value is True or value is False else value};"

    return named(re.sub(r"^const (\w+) = [^;]*;", replace, source(file), flags=re.M), sizes)


def named(text: str, meanings: Mapping[str, str]) -> str:
    """The text with what names mean in their places."""
    if not meanings:
        return text
    return re.sub(rf"\b({'|'.join(meanings)})\b", lambda m: meanings[m[1]], text)


@functools.lru_cache(1024)
def _calls(function: str) -> frozenset[str]:
    """The functions of the library, or like them, that the text of a function calls."""
    return frozenset(_CALL.findall(function))


def with_includes(text: str, definition: Callable[[str], str]) -> str:
    """`text` after the functions that it calls, and those that they call: of the library, else by
    their `definition`."""
    known = functions()
    needed: dict[str, str] = {}
    todo = set(_CALL.findall(text))
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        needed[name] = known[name] if name in known else definition(name)
        todo |= _calls(needed[name]) - needed.keys()
    return "\n".join([*[needed[k] for k in sorted(needed)], text])
