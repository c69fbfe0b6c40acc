"""The reference: pages of Markdown about every public name, out of its signature and docstring."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The modules that are public, each with what it is.
NAMESPACES = {
    "pyframe": "Tensors and what is computed with them",
    "pyframe.Tensor": "The methods of a tensor",
    "pyframe.nn": "Layers and losses",
    "pyframe.nn.functional": "Layers without parameters, as functions",
    "pyframe.nn.init": "Initial weights",
    "pyframe.nn.utils": "Clipping, and parameters as a vector",
    "pyframe.nn.utils.parametrizations": "Parametrizations that are there",
    "pyframe.nn.utils.parametrize": "Parameters that are computed",
    "pyframe.nn.utils.prune": "Pruning",
    "pyframe.nn.utils.rnn": "Sequences of several lengths",
    "pyframe.optim": "Optimizers",
    "pyframe.optim.lr_scheduler": "Learning rates that change",
    "pyframe.optim.swa_utils": "Averaged weights",
    "pyframe.train": "`Model` and callbacks",
    "pyframe.metrics": "Metrics",
    "pyframe.data": "Data sets and loaders",
    "pyframe.amp": "Mixed precision",
    "pyframe.autograd": "Gradients",
    "pyframe.func": "Functions that make functions",
    "pyframe.linalg": "Linear algebra",
    "pyframe.fft": "Fourier transforms",
    "pyframe.special": "Special functions",
    "pyframe.signal.windows": "Windows",
    "pyframe.masked": "Reductions of what a mask leaves",
    "pyframe.random": "Random state",
    "pyframe.distributions": "Distributions",
    "pyframe.vision": "Images",
    "pyframe.vision.models": "Networks for images",
    "pyframe.vision.datasets": "Data sets of images",
    "pyframe.vision.transforms": "Transforms of images",
    "pyframe.vision.transforms.functional": "Transforms of images, as functions",
    "pyframe.vision.transforms.v2": "Transforms of images, boxes and masks",
    "pyframe.vision.transforms.v2.functional": "The same, as functions",
    "pyframe.vision.ops": "Boxes, and layers for images",
    "pyframe.vision.utils": "Grids of images",
    "pyframe.text": "Language models",
    "pyframe.lora": "Adapters",
    "pyframe.web": "Pages, demos and widgets",
    "pyframe.onnx": "Models of other frameworks",
    "pyframe.jit": "Graphs that need no source",
    "pyframe.export": "Exported programs",
    "pyframe.hub": "Files that are fetched",
    "pyframe.io": "Files of weights",
    "pyframe.graph": "What was compiled, to look at",
    "pyframe.profiler": "Where time goes",
    "pyframe.gpu": "The GPU",
    "pyframe.distributed": "Several computers",
    "pyframe.multiprocessing": "Several processes",
    "pyframe.plot": "Pictures",
    "pyframe.utils": "Checkpoints of activations, and other tools",
    "pyframe.utils.checkpoint": "Gradients that take less memory",
    "pyframe.utils.tensorboard": "Logs that TensorBoard reads",
    "pyframe.array_api": "The array API standard",
    "pyframe.array_api.fft": "Its Fourier transforms",
    "pyframe.array_api.linalg": "Its linear algebra",
}
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Example|Examples|Note):\s*$")
ENTRY = re.compile(r"((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*): (.*)")


def public(name: str) -> dict[str, Any]:
    """The public members of a namespace, by name."""
    owner, _, last = name.rpartition(".")
    if last == "Tensor":
        found = importlib.import_module(owner).Tensor
        names = [n for n in vars(found) if not n.startswith("_")]
    else:
        found = importlib.import_module(name)
        names = list(getattr(found, "__all__", ())) or [
            n for n, value in vars(found).items()
            if not n.startswith("_") and str(getattr(value, "__module__", "")).startswith("pyframe")
        ]  # fmt: skip
        names += late() if name == "pyframe" else ()
    members = {n: inspect.getattr_static(found, n, None) for n in sorted({*names})}
    members = {n: getattr(found, n) if v is None else v for n, v in members.items()}
    return {n: v for n, v in members.items() if not isinstance(v, types.ModuleType)}


def late() -> list[str]:
    """The names of pyframe that load when they are first used: most stand elsewhere too."""
    from pyframe import _ELSEWHERE
    from pyframe.nn.functional.toplevel import FUNCTIONS

    return [*_ELSEWHERE, *FUNCTIONS]


def homes() -> dict[int, str]:
    """Under which full name each object is told of; elsewhere a link leads there."""
    found: dict[int, str] = {}
    last = {f"pyframe.{name}" for name in late()}
    full = {
        f"{namespace}.{name}": value
        for namespace in NAMESPACES
        for name, value in public(namespace).items()
        if callable(value) and not isinstance(value, staticmethod | classmethod)
    }
    for name in sorted(full, key=lambda name: name in last):  # the others in their order
        found.setdefault(id(full[name]), name)
    return found


def escaped(text: str) -> str:
    """A line of a docstring as Markdown: what is not code in backticks stands for itself."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\\*_<>|\[\]~$#])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def markdown(doc: str) -> str:
    """A docstring as Markdown: its sections as lists, its examples as code."""
    lines = inspect.cleandoc(doc).splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        indented = line[: len(line) - len(line.lstrip())]
        if match := SECTION.match(line):
            out += ["", f"**{match[1]}**", ""]
            at += 1
            while at < len(lines) and (not lines[at] or lines[at].startswith("    ")):
                entry = ENTRY.match(lines[at][4:])
                if entry:
                    names = ", ".join(f"`{n}`" for n in entry[1].split(", "))
                    out.append(f"- {names}: {escaped(entry[2])}")
                else:
                    out.append(escaped(lines[at].strip()) and f"  {escaped(lines[at].strip())}")
                at += 1
            out.append("")
        elif line.lstrip().startswith((">>> ", "... ")) or indented:
            code = [line.removeprefix(indented)]
            at += 1
            while at < len(lines) and lines[at] and (indented or not lines[at][0].isspace()):
                code.append(lines[at].removeprefix(indented))
                at += 1
            kind = "pycon" if code[0].startswith(">>>") else "text"
            out += ["", f"```{kind}", *code, "```", ""]
        else:
            out.append(escaped(line))
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def signature(value: Any, drop: int = 0) -> str:
    """The arguments of a callable, with types as stubs write them."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(found.parameters.values())[drop:]
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"(?<=[:>]) '([^']*)'", r" \1", text)
    text = re.sub(r"\b(dt|pf)\.(?=dtype|Tensor)", "", text)
    return re.sub(r"<[^>]*>|\bAny\b", "...", text).replace(": ...", "").replace(" -> ...", "")


def parameters(value: Any) -> list[str] | None:
    """The names that a function of PyTorch's takes: of its signature, or of its docstring's."""
    try:
        return list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        head = re.search(r"\w+\(([^\n]*?)\) ->", inspect.getdoc(value) or "")
        return None if head is None else re.findall(r"(?:^|,)\s*\*{0,2}(\w+)", head[1])


def beside_torch(name: str, value: Any) -> str:
    """How a name's arguments differ from those of PyTorch's of the same name; '' where there is no
    PyTorch to ask, or no such name in it."""
    if "torch" not in sys.modules:
        return ""
    path = name.replace("pyframe.data", "pyframe.utils.data").split(".")[1:]
    theirs: Any = sys.modules["torch"]
    for part in path:
        theirs = getattr(theirs, part, None)
    if not callable(theirs):
        return ""
    mine, others = parameters(value), parameters(theirs)
    if mine is None or others is None or {"args", "kwargs"} & {*mine, *others}:
        return ""
    without = [n for n in others if n not in mine and n not in ("self", "input")]
    more = [n for n in mine if n not in others and n not in ("self", "input")]
    told = [
        f"{what} {', '.join(f'`{n}`' for n in names)}"
        for what, names in (("without", without), ("with", more)) if names
    ]  # fmt: skip
    return f"As `torch.{'.'.join(path)}`" + (f", {' and '.join(told)}." if told else ".")


def entry(kind: str, name: str, value: Any, full: str = "") -> Iterator[str]:
    """The lines of Markdown about one name; `full` is that of a namespace's own members."""
    fence = "`" * (5 if full else 4)
    shown = "" if kind in ("property", "data") else signature(value, int(kind == "method"))
    yield f"{fence}{{py:{kind}}} {name}{shown}\n"
    of_python = getattr(value, "__module__", "").startswith("multiprocessing")
    if doc := "Python's own." if of_python else value.__doc__ if kind != "data" else "":
        yield f"{markdown(doc)}\n"
    if full and (note := beside_torch(full, value)):
        yield f"{note}\n"
    for member, inner in sorted(vars(value).items()) if kind == "class" else ():
        method = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
        is_property = isinstance(inner, property)
        if not member.startswith("_") and (is_property or inspect.isfunction(method)):
            yield from entry("property" if is_property else "method", member, method)
    yield f"{fence}\n"


def page(namespace: str, home: dict[int, str]) -> str:
    """The page of a namespace."""
    of_tensor = namespace.endswith(".Tensor")
    module = importlib.import_module(namespace.removesuffix(".Tensor"))
    owner = module.Tensor if of_tensor else module
    lines = [f"# {namespace}", "", f"{NAMESPACES[namespace]}.", ""]
    if of_tensor:
        lines += [f"```{{py:currentmodule}} {module.__name__}", "```", ""]
        lines += [f"````{{py:class}} Tensor\n\n{markdown(owner.__doc__)}\n````", ""]
    else:
        lines += [f"```{{py:module}} {namespace}", "```", ""]
    elsewhere = []
    for name, value in public(namespace).items():
        full = f"{namespace}.{name}"
        plain = isinstance(value, staticmethod | classmethod)
        if home.get(id(value), full) != full:
            elsewhere.append(f"{{py:obj}}`{name} <{home[id(value)]}>`")
        elif of_tensor:
            sort = "method" if callable(value) or plain else "property"
            lines += entry(sort, f"Tensor.{name}", value.__func__ if plain else value, full)
        elif full == "pyframe.Tensor":
            pass  # it has a page
        elif inspect.isclass(value):
            lines += entry("class", name, value, full)
        elif callable(value):
            lines += entry("function", name, value, full)
        elif type(value).__module__.startswith("pyframe"):
            lines += entry("data", name, value, full)
    if elsewhere:
        lines += [f"Also here: {', '.join(elsewhere)}.", ""]
    return "\n".join(lines)


def write(folder: Path, say: Callable[[str], Any] = print) -> None:
    """Write a page for each namespace into a folder."""
    folder.mkdir(exist_ok=True)
    home = homes()
    pages = {f"{name}.md": page(name, home) for name in NAMESPACES}
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    say(f"reference: {sum(text.count('{py:') for text in pages.values())} names")
