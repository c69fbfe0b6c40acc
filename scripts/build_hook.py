"""Steps of hatchling's build: a wheel has the stubs, which git does not keep, and is small."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make them beside the sources, for an editable install as for a wheel."""
        make = Path(self.root, "scripts", "make_stubs")
        subprocess.run([sys.executable, make], check=True, stdout=subprocess.DEVNULL)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Write a wheel anew: but for examples without comments and private docstrings, which the
        source distribution has; pages load its scripts and modules, drivers compile its shaders. A
        release is deflated with zopfli (extra `dev`), which is 3 % smaller and takes most of a
        minute."""
        if version == "editable":
            return
        zlib = None
        if os.environ.get("PYFRAME_RELEASE"):
            from zopfli import zlib
        path = Path(artifact_path)
        with ZipFile(path) as wheel:
            files = {info: wheel.read(info) for info in wheel.infolist()}
        changed = {
            info.filename: _BEHIND.sub(rb"\1", _COMMENT.sub(b"", data))
            for info, data in files.items()
            if re.match(r"pyframe/(web/static/.*\.js|shaders/.*\.wgsl)$", info.filename)
        }
        changed |= {
            info.filename: _bare(data)
            for info, data in files.items()
            if re.match(r"pyframe/(?!examples/).*\.py$", info.filename)
        }
        with ZipFile(path, "w", ZIP_DEFLATED) as wheel:
            for info, data in files.items():
                if info.filename.endswith(".dist-info/RECORD"):
                    data = _recorded(data, changed)
                with wheel.open(info, "w") as file:
                    if zlib is not None:
                        file._compressor = _Zopfli(zlib)  # type: ignore[attr-defined]
                    file.write(changed.get(info.filename, data))


# Lines that hold nothing but a comment, and comments behind code that has no quote: none is within
# a text of these files.
_COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/[ \t]*)\n", re.MULTILINE)
_BEHIND = re.compile(rb"^([^`\"'/\n]*[;,{}()\]]) //[^\n]*$", re.MULTILINE)


def _bare(data: bytes) -> bytes:
    """Python text without comments and private docstrings; the rest stays in its lines, for
    tracebacks."""
    lines = data.split(b"\n")
    for token in tokenize.tokenize(io.BytesIO(data).readline):
        if token.type == tokenize.COMMENT:
            row = token.start[0] - 1
            lines[row] = lines[row].removesuffix(token.string.encode()).rstrip()
    for doc in private_docstrings(ast.parse(data)):
        lines[doc.lineno - 1 : doc.end_lineno] = [b""] * len(lines[doc.lineno - 1 : doc.end_lineno])
    return b"\n".join(lines)


def private_docstrings(tree: ast.Module | ast.ClassDef) -> Iterator[ast.Expr]:
    """Those of functions, classes and methods whose name begins with _."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            private = node.name[0] == "_" and not node.name.endswith("__")
            if private and len(node.body) > 1 and ast.get_docstring(node) is not None:
                yield node.body[0]  # type: ignore[misc]
            if isinstance(node, ast.ClassDef):
                yield from private_docstrings(node)


def _recorded(record: bytes, changed: dict[str, bytes]) -> bytes:
    """A wheel's list of its files, with the hashes and sizes of those that were changed."""
    rows = []
    for row in record.decode().splitlines():
        name = row.partition(",")[0]
        if name in changed:
            digest = urlsafe_b64encode(sha256(changed[name]).digest()).decode().rstrip("=")
            row = f"{name},sha256={digest},{len(changed[name])}"
        rows.append(row)
    return ("\n".join(rows) + "\n").encode()


class _Zopfli:
    """In the place of zipfile's compressor."""

    def __init__(self, zlib: Any) -> None:
        self.zlib, self.data = zlib, b""

    def compress(self, data: bytes) -> bytes:
        self.data += data
        return b""

    def flush(self) -> bytes:
        out: bytes = self.zlib.compress(self.data, numiterations=15)
        return out[2:-4]  # without zlib's head and checksum
