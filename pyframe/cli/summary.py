"""`pyframe summary`: what a file of weights holds."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pickle
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyframe.cli.command import (
    CommandError,
    add_command,
    option,
    positive,
    size_text,
    switch,
    telling,
)
from pyframe.core.words import columns, plural
from pyframe.io.files import beginning

DTYPES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint", "C": "complex"}  # safetensors'

MAX_LISTED = 20  # values that are listed


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "summary", run,
        help="list the tensors in a file: names, shapes, dtypes, sizes",
        description="List the tensors in a file as a tree of their names, with the number of "
        "parameters (buffers, such as running means, count too), bytes and metadata. Tensors are "
        "not read, only what is said about them.\n\n"
        "FILE is a .safetensors, an index or a folder of several, a .pt or .pth of PyTorch or "
        "pyframe, or an .npz of NumPy. Nothing in a file is run.",
        examples={
            "pyframe summary digits.safetensors": "all tensors",
            "pyframe summary gpt2/": "those of a set of files",
            "pyframe summary model.pt --depth 2": "layers, with what is below them in sums",
            "pyframe summary model.pt --json": "for programs",
        },
        arguments={
            "file": option("what to look into", metavar="FILE"),
            "--depth": option("levels of names to show (default: all)", type=positive, metavar="N"),
            "--json": switch("as JSON (default: for people)"),
        },
    )  # fmt: skip


class StoredTensor(NamedTuple):
    """A tensor in a file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    file: str  # the one of several that it is in

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


class Contents(NamedTuple):
    """What a file, or a set of them, holds."""

    format: str
    files: dict[str, int]  # bytes of each
    entries: list[StoredTensor]
    metadata: dict[str, str]
    others: dict[str, str]  # the repr of everything but tensors


def run(args: argparse.Namespace) -> int:
    """Print it."""
    with reading(args.file):
        found = contents(args.file)
    print(json.dumps(as_json(args.file, found), indent=2) if args.json else
          "\n".join(lines(args.file, found, args.depth)))  # fmt: skip
    return 0


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Within it, what is wrong with a file is told in a line."""
    try:
        with telling(ValueError, RuntimeError, TypeError):
            yield
    except pickle.UnpicklingError as error:  # what to do about it is another's than a program's
        what = str(error).removeprefix("load: ").partition(": nothing was run")[0]
        raise CommandError(
            f"{path}: {what}; nothing was run. Save the state_dict() alone where it was made"
        ) from error


def contents(path: str) -> Contents:
    """What is there, from the headers alone. OSError, or ValueError or RuntimeError for a file
    that is damaged or something else."""
    import pyframe as pf
    from pyframe.io import npz, pt, safetensors
    from pyframe.tensor.tree import named

    if kind(path) == "safetensors":
        d = safetensors.describe(path)
        entries = [StoredTensor(name, t.shape, dtype_name(t.dtype), t.nbytes, t.file)
                   for name, t in d.tensors.items()]  # fmt: skip
        return Contents("safetensors", d.files, entries, d.metadata, {})
    name, size = os.path.basename(path), os.path.getsize(path)
    entries, others = [], {}
    read = npz.outline if kind(path) == "npz" else pt.outline
    for key, value in named(read(path)):
        if isinstance(value, pf.Tensor):
            entries.append(
                StoredTensor(key, tuple(value.shape), value.dtype.name, value.nbytes, name)
            )
        else:
            others[key] = f"{value!r:.60}"
    return Contents(kind(path), {name: size}, entries, {}, others)


def kind(path: str) -> str:
    """The format of a file: "safetensors", "npz" or "pt", as `pf.load` sees it."""
    holds = beginning(path)
    return "pt" if holds in ("zip", "pickle", "tar") else holds or "safetensors"


def dtype_name(stored: str) -> str:
    """float32 for safetensors' F32."""
    found = re.fullmatch(r"(BF|[FIUC])(\d+)(.*)", stored)
    return f"{DTYPES[found[1]]}{found[2]}{found[3].lower()}" if found else stored.lower()


def by_dtype(entries: list[StoredTensor]) -> dict[str, dict[str, int]]:
    """Tensors, parameters and bytes of each dtype, the most bytes first."""
    found: dict[str, dict[str, int]] = {}
    for e in entries:
        sums = found.setdefault(e.dtype, {"tensors": 0, "parameters": 0, "bytes": 0})
        for key, value in zip(sums, (1, e.numel, e.nbytes), strict=True):
            sums[key] += value
    return dict(sorted(found.items(), key=lambda item: -item[1]["bytes"]))


def as_json(path: str, found: Contents) -> dict[str, Any]:
    """All of it."""
    return {
        "path": path,
        "format": found.format,
        "files": found.files,
        "parameters": sum(e.numel for e in found.entries),
        "bytes": sum(e.nbytes for e in found.entries),
        "dtypes": by_dtype(found.entries),
        "metadata": found.metadata,
        "others": found.others,
        "tensors": [
            {"name": e.name, "shape": list(e.shape), "dtype": e.dtype, "parameters": e.numel,
             "bytes": e.nbytes, "file": e.file}
            for e in found.entries
        ],
    }  # fmt: skip


# --- for people


class Level(NamedTuple):
    """A level of the names."""

    children: dict[str, Level]
    entries: list[StoredTensor]  # of it and of all below

    @property
    def is_tensor(self) -> bool:
        return not self.children


def tree(entries: list[StoredTensor]) -> Level:
    """The tensors by the parts of their names, each level in the order of the file."""
    root = Level({}, [])
    for e in entries:
        node = root
        node.entries.append(e)
        for part in e.name.split("."):
            node = node.children.setdefault(part, Level({}, []))
            node.entries.append(e)
    return root


def rows(node: Level, depth: int | None, n: int = 0) -> Iterator[tuple[str, str, str, int, int]]:
    """Name, shape, dtype, parameters and bytes of all below a node, which is the n-th level."""
    for name, child in node.children.items():
        es = child.entries
        sums = sum(e.numel for e in es), sum(e.nbytes for e in es)
        shape = str(list(es[0].shape)) if child.is_tensor else ""
        dtypes = ", ".join(dict.fromkeys(e.dtype for e in es))
        yield "  " * n + name, shape, dtypes if shape or n + 1 == depth else "", *sums
        if depth is None or n + 1 < depth:
            yield from rows(child, depth, n + 1)


def lines(path: str, found: Contents, depth: int | None) -> list[str]:
    """The tree, sums, and what else there is."""
    entries = sorted(found.entries, key=lambda e: natural(e.name))
    parts = f" in {len(found.files)} files" if len(found.files) > 1 else ""
    count = f"{len(entries)} {plural(len(entries), 'tensor')}"
    size = size_text(sum(found.files.values()))
    out = [f"{path}: {found.format}, {size}{parts}, {count}", ""]
    total = sum(e.numel for e in entries), sum(e.nbytes for e in entries)
    table = [("name", "shape", "dtype", "parameters", "bytes")]
    table += [(*row[:3], f"{row[3]:,}", size_text(row[4])) for row in rows(tree(entries), depth)]
    sums = [("total", "", "", f"{total[0]:,}", size_text(total[1]))]
    dtypes = by_dtype(entries)
    if len(dtypes) > 1:
        sums += [("", "", name, f"{s['parameters']:,}", size_text(s["bytes"]))
                 for name, s in dtypes.items()]  # fmt: skip
    out.append(columns([*table, *sums], rules=(1, len(table)), left=3))
    if len(found.files) > 1:
        out += ["", "files:", *(f"  {name}  {size_text(s)}" for name, s in found.files.items())]
    for title, texts in (("metadata", found.metadata), ("other values", found.others)):
        if texts:
            shown = [f"  {key}: {text}" for key, text in texts.items()]
            more = f"  … {len(shown) - MAX_LISTED} more, which --json lists"
            out += [
                "",
                f"{title}:",
                *shown[:MAX_LISTED],
                *([more] if len(shown) > MAX_LISTED else []),
            ]
    return out


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts layer 10 behind layer 9."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in name.split(".")]
