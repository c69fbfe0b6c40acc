"""Joins the page's ES modules into one script, each in a scope of its own, for pages in one file.

It knows the forms in which those modules import and export, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

_IMPORT = re.compile(
    r"^(import|export)\s+(?:(\*(?:\s+as\s+\w+)?|\{[^}]*\})\s+from\s+)?"
    r'"(\./|\.\./)([^"]+)";[ \t]*\n',
    re.M,
)
_LAZY = re.compile(r"\bimport\(([^()]*)\)")
_PATH = re.compile(r'"(\.\.?/[^"]+)"')
_DECLARED = re.compile(r"^export\s+((?:async\s+)?function\*?|class|const|let)\s+(\w+)", re.M)
_LIST = re.compile(r"(?:^|(?<=;))export\s*\{([^}]*)\};[ \t]*\n", re.M)


def modules_of(folder: Path, start: str, without: Iterable[str] = ()) -> list[str]:
    """The modules that `start` imports, directly or not, and itself, each after those it needs at
    once; also those that it may import later, but for `without`."""
    order: list[str] = []
    seen = set(without)

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        text = (folder / name).read_text("utf-8")
        for found in _IMPORT.finditer(text):
            visit(_beside(name, found.group(3) + found.group(4)))
        order.append(name)
        for found in _LAZY.finditer(text):
            for path in _PATH.findall(found.group(1)):
                visit(_beside(name, path))

    visit(start)
    return order


def bundle(
    folder: Path, start: str, also: Iterable[str] = (), without: Iterable[str] = (),
    texts: Mapping[str, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """A script that is `start` and all that it imports, with `also` and with modules that are no
    files, by their names; what is in `without` can't be had by it."""
    missing = set(without)
    names: list[str] = []
    for first in (*also, start):
        names += [n for n in modules_of(folder, first, missing) if n not in names]
    found = {**texts, **{name: (folder / name).read_text("utf-8") for name in names}}
    parts = [START, *[_scope(name, text) for name, text in found.items()]]
    parts.append(f"globalThis.pyframe = modules[{names[0]!r}];\n".replace("'", '"'))
    return "".join(parts).replace("</script", "<\\/script")


START = """const modules = {};
async function later(name, path) {
  const found = modules[new URL(path, `file:///${name}`).pathname.slice(1)];
  if (!found) throw new Error(`this page has no ${path}`);
  return found;
}
"""


def _beside(name: str, path: str) -> str:
    """The name of the module that `name` calls `path`."""
    parts = name.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _scope(name: str, text: str) -> str:
    """A module as an object in `modules` whose fields are what it exports."""
    exported: list[str] = []

    def resolve(found: re.Match[str]) -> str:
        how, what, up, path = found.groups()
        source = f'modules["{_beside(name, up + path)}"]'
        if how == "export":
            names = [] if what == "*" else _pairs(what)
            exported.extend(
                [f"...{source}"]
                if what == "*"
                else [f"{new}: {source}.{old}" for old, new in names]
            )
            return ""
        if what is None:
            return ""
        if what.startswith("*"):
            return f"const {what.split()[-1]} = {source};\n"
        fields = ", ".join(old if old == new else f"{old}: {new}" for old, new in _pairs(what))
        return f"const {{ {fields} }} = {source};\n"

    def listed(found: re.Match[str]) -> str:
        exported.extend(f"{new}: {old}" for old, new in _pairs(found.group(1)))
        return ""

    text = _IMPORT.sub(resolve, text)
    text = _LIST.sub(listed, text)
    exported += [m.group(2) for m in _DECLARED.finditer(text)]
    text = _LAZY.sub(rf'later("{name}", \1)', _DECLARED.sub(r"\1 \2", text))
    text = text.replace("import.meta.url", "document.baseURI")
    if re.search(r"^(import|export)\b", text, re.M):
        raise ValueError(f"{name} imports or exports in a form that a page in one file can't have")
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exported)} }};\n}})();\n'


def _pairs(names: str) -> list[tuple[str, str]]:
    """The (old, new) names of `{ a, b as c }`."""
    out = []
    for item in names.strip("{} \n").split(","):
        words = item.split()
        if words:
            out.append((words[0], words[-1]))
    return out
