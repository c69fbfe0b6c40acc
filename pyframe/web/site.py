"""Static sites that need nothing from elsewhere.

`pyframe export model.py --python` writes the site of a program:

    index.html                 the page; it knows the digest of config.json
    pyframe-<digest>/          pyframe.js and what belongs to it, pyframe's package, the program,
                               its data and weights, and config.json with the digest of each file
    pyodide-<digest>/          Python for the browser, unless it comes from its CDN
    LICENSES.txt               whose works these are, and under which licences

A folder's name has the digest of what is in it: what a visitor has once loaded is never asked for
again, and never mixed with files of another export. Each file is checked before it is used
(web/start.js, web/guard.js).

`pyframe export --python` without a program writes pyframe.js and what belongs to it into one folder
with names that stay, for pages of one's own. It is checked by the digests in config.json.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gzip
import hashlib
import html
import itertools
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyframe
from pyframe import serve
from pyframe.core.extras import DISTRIBUTION
from pyframe.web.late import integrity
from pyframe.web.source import PageProgram, ProgramError

LICENSES = "LICENSES.txt"
# What a folder may hold of others: the licence, as SPDX names it, and where the source is.
SHIPPED = {
    "pyodide": ("MPL-2.0", "https://github.com/pyodide/pyodide"),
    "python": ("PSF-2.0", "https://github.com/python/cpython"),
    "numpy": ("BSD-3-Clause", "https://github.com/numpy/numpy"),
    "micropip": ("MPL-2.0", "https://github.com/pyodide/micropip"),
    "packaging": ("Apache-2.0 OR BSD-2-Clause", "https://github.com/pypa/packaging"),
    "@huggingface/tokenizers": ("Apache-2.0", "https://github.com/huggingface/tokenizers.js"),
}
# what only those need of web/
OTHER_PAGES = ("demos/", "editor.js", "npm.js", "offline.js", "program.js")
PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <meta name="pyframe-config" content="{config}" data-integrity="{integrity}">
  <title>{title}</title>
  <link rel="icon" href="{folder}/icon.svg">
  <link rel="stylesheet" href="{folder}/style.css" integrity="{style}">
  <link rel="modulepreload" href="{folder}/guard.js" integrity="{guard}">
  <script type="module" src="{folder}/start.js" integrity="{start}"></script>
</head>
<body>
  <main class="single">
    <noscript><p class="notice">This page runs Python in your browser, and needs JavaScript for
      that.</p></noscript>
    <p class="notice" id="checking">This page's files are being checked. Should this stay: one of
      them, start.js, is missing or was changed; export the page again, and upload all of it.</p>
    <py-frame {attributes}></py-frame>
  </main>
</body>
</html>
"""


def export(program: PageProgram, to: Path, cdn: bool = False) -> Path:
    """Write the site of a program into the folder `to`; gives its index.html.

    With `cdn` Python comes from Pyodide's CDN. Raises ProgramError where there is no local Pyodide
    without it, and where `to` holds something else.
    """
    return _replace(to, lambda site: _write(site, program, cdn)) / "index.html"


def embed(to: Path, cdn: bool = False, url: str = "") -> Path:
    """Write what pages with `<py-frame>` need beside them into the folder `to`, the data sets that
    come with pyframe included; gives its pyframe.js. `url` is as of `beside_numpy`. Raises
    ProgramError as `export` does.
    """

    def write(site: Path) -> None:
        parts, own = _pyodide(cdn), beside_numpy(cdn, url)  # it may be missing: before all work
        files, config = _files(serve.datasets())
        _add_config(files, config, site, parts if cdn else parts | own, "" if cdn else "pyodide")
        _put(site, files | {LICENSES: licences({**files, **({} if cdn else parts), **own})})
        _put(site / "pyodide", own)

    return _replace(to, write) / "pyframe.js"


def _pyodide(cdn: bool) -> dict[str, bytes]:
    """The files of the local Pyodide by name, none where there is none and none is needed."""
    pyodide = serve.pyodide_folder()
    if pyodide is None and not cdn:
        raise ProgramError(
            "there is no local Pyodide to put into the site (scripts/get_pyodide makes one); "
            f"with --cdn the page loads it from {serve.PYODIDE_CDN}"
        )
    files = [] if pyodide is None else pyodide.iterdir()
    found = {path.name: path.read_bytes() for path in files if path.is_file()}
    others = serve.installers(pyodide) if pyodide is not None and cdn else {}
    return {name: data for name, data in found.items() if name not in others}


def _replace(to: Path, write: Callable[[Path], None]) -> Path:
    """Put what `write` makes of a new folder in the place of `to`, all at once."""
    if to.exists() and not _is_ours(to):
        raise ProgramError(f"{to} holds something else; name a folder that may be replaced")
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as work:
        site = Path(work) / "site"
        site.mkdir()
        write(site)
        if to.exists():
            shutil.rmtree(to)
        shutil.move(site, to)
    return to


def _is_ours(folder: Path) -> bool:
    page = folder / "index.html"
    if not folder.is_dir() or not any(folder.iterdir()):
        return folder.is_dir()
    if not page.exists():
        return all((folder / name).is_file() for name in ("config.json", "pyframe.js"))
    return page.is_file() and 'name="pyframe-config"' in page.read_text("utf-8", "replace")


def _files(
    datasets: Mapping[str, Mapping[str, Path]], tokens: bool = True
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """pyframe.js and what belongs to it, by name, and what config.json says of it; `tokens` whether
    what makes tokens of texts does."""
    files = {
        name: path.read_bytes()
        for path in sorted(serve.WEB.rglob("*"))
        if path.suffix in (".js", ".css", ".svg")
        and not (name := path.relative_to(serve.WEB).as_posix()).startswith(OTHER_PAGES)
    }
    files |= package(serve.EARLY, serve.LATE)
    for name, path in {k: v for each in datasets.values() for k, v in each.items()}.items():
        files[name] = path.read_bytes()
    if tokens and (tokenizers := serve.tokenizers()):
        files[serve.TOKENIZERS] = tokenizers.read_bytes()
    return files, {
        "version": pyframe.__version__,
        "pyodide": serve.PYODIDE_CDN,
        "early": serve.EARLY,
        "late": serve.LATE,
        "datasets": {name: list(each) for name, each in datasets.items()},
        "editor": None,
        "tokenizers": serve.TOKENIZERS if serve.TOKENIZERS in files else None,
    }


def _add_config(
    files: dict[str, bytes], config: dict[str, Any], site: Path, parts: dict[str, bytes],
    folder: str,
) -> None:  # fmt: skip
    """Add config.json with the digests of all files, of Pyodide's `parts` too, which are put into a
    folder below `site` unless that is ""."""
    digests = {quote(name): as_served(name, data) for name, data in files.items()}
    if parts and folder:
        folder = folder.format(digest=_digest(parts))
        _put(site / folder.removeprefix("../"), parts)
        config["pyodide"] = f"{folder}/"
    at = config["pyodide"]
    digests |= {f"{at}{quote(name)}": integrity(data) for name, data in parts.items()}
    config["integrity"] = digests
    files["config.json"] = json.dumps(config, indent=1).encode()


def as_served(name: str, data: bytes) -> str:
    """The digests of a file as a page may get it, a blank between them: some servers, Vite's for
    one, have the browser unpack .gz files."""
    found = integrity(data)
    if name.endswith(".gz"):
        with contextlib.suppress(OSError, EOFError, zlib.error):  # it is no such file
            found += f" {integrity(gzip.decompress(data))}"
    return found


def _write(site: Path, program: PageProgram, cdn: bool) -> None:
    known = serve.datasets()
    missing = [name for name in program.datasets if name not in known]
    if missing:
        raise ProgramError(
            f"the data set {missing[0]} is not here; it comes with pyframe's examples"
        )
    python = _pyodide(cdn)  # it may be missing: before all work
    own = {f"program/{name}": path.read_bytes() for name, path in program.all_files().items()}
    tokens = any(b"Tokenizer" in data for name, data in own.items() if name.endswith(".py"))
    files, config = _files({name: known[name] for name in program.datasets}, tokens)
    files |= own
    _add_config(files, config, site, python, "" if cdn else "../pyodide-{digest}")
    folder = f"pyframe-{_digest(files)}"
    _put(site / folder, files)

    described = serve.describe(program)
    attributes = {
        "src": f"{folder}/{described['src']}",
        "files": " ".join(f"{folder}/{file}" for file in described["files"]),
        "data": " ".join(described["data"]),
        "weights": f"{folder}/{described['weights']}" if program.weights else "",
    }
    page = PAGE.format(
        folder=folder,
        config=f"{folder}/config.json",
        integrity=integrity(files["config.json"]),
        style=integrity(files["style.css"]),
        guard=integrity(files["guard.js"]),
        start=integrity(files["start.js"]),
        title=html.escape(_title(program.path)),
        attributes=" ".join(f'{k}="{html.escape(v)}"' for k, v in attributes.items() if v),
    )
    (site / "index.html").write_text(page, encoding="utf-8")
    (site / LICENSES).write_bytes(licences({**files, **({} if cdn else python)}))


def licences(files: Mapping[str, bytes]) -> bytes:
    """What LICENSES.txt says of a folder with these files: whose works they are, with the text of
    pyframe's own licence, which asks for that."""
    versions = {"pyframe": pyframe.__version__}
    if "pyodide.asm.wasm" in files:
        info = json.loads(files["pyodide-lock.json"])["info"]
        versions |= {"pyodide": info["version"], "python": info["python"]}
    wheels = (name.split("-") for name in sorted(files) if name.endswith(".whl"))
    versions |= {name: version for name, version, *_ in wheels if name != "pyframe_webgpu"}
    if tokens := files.get(serve.TOKENIZERS):
        named = re.search(rb"npm (\S+) (\S+),", tokens)
        assert named is not None
        versions[named[1].decode()] = named[2].decode()
    of_others = "as its wheel says", "https://pypi.org"
    told = {"pyframe": ("Apache-2.0", "whose text is below")}
    rows = [
        f"{name} {version}: {', '.join(told.get(name) or SHIPPED.get(name, of_others))}\n"
        for name, version in versions.items()
    ]
    own, text = serve.WEB.parent / "LICENSE", None  # a checkout has it
    if own.is_file():
        text = own.read_text("utf-8")
    else:
        with contextlib.suppress(PackageNotFoundError):
            text = distribution(DISTRIBUTION).read_text("licenses/LICENSE")
    text = text or "https://www.apache.org/licenses/LICENSE-2.0\n"
    return (
        "This folder holds parts of the works below, each under its own licence (named as SPDX\n"
        "does). Wheels (.whl), which are zip files, hold the texts of theirs.\n\n"
        f"{''.join(rows)}\n{text}"
    ).encode()


def _title(path: Path) -> str:
    """The first line of a program's docstring, or its name."""
    text = ast.get_docstring(ast.parse(path.read_bytes()))
    return text.split("\n")[0].removesuffix(".") if text else path.name


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _digest(files: Mapping[str, bytes]) -> str:
    """What names a folder: other files give another."""
    whole = hashlib.sha256()
    for name, data in sorted(files.items()):
        whole.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
    return whole.hexdigest()[:16]


def package(*archives: str) -> dict[str, bytes]:
    """pyframe's archives (`serve.archive`); those of pages without docstrings and comments."""
    files = {name: path.read_bytes() for name, path in serve.sources().items()}
    short = {name: plain(data) if name.endswith(".py") else data for name, data in files.items()}
    return {name: serve.archive(name, files if name == serve.WHEEL else short) for name in archives}


def beside_numpy(cdn: bool, url: str = "") -> dict[str, bytes]:
    """What lies in Pyodide's folder so that pages and notebooks can ask Pyodide for the package
    `pyframe`: its wheel and the lock file, by name. Where Pyodide comes from its CDN, which takes
    names in that for its own, the lock file needs the `url` at which the site will lie."""
    found, pyodide = package(serve.WHEEL), serve.pyodide_folder() if url or not cdn else None
    if url and pyodide is None:
        raise ProgramError("a lock file needs the one of a local Pyodide: scripts/get_pyodide")
    if pyodide is not None:
        at = f"{url.rstrip('/')}/pyodide/" if url else ""
        found[serve.LOCK] = serve.lock(pyodide, found[serve.WHEEL], at)
        found |= serve.installers(pyodide) if url else {}
    return {Path(name).name: data for name, data in found.items()}


# A string, which is kept, or a comment and what is before it in its line.
_STRING_OR_COMMENT = re.compile(
    r'''("""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')'''
    r"|[ \t]*#[^\n]*",
    re.DOTALL,
)


@functools.cache  # of the same files for several sites
def plain(source: bytes) -> bytes:
    """Python text without docstrings, what fills them in (`if texts:`), comments and what only
    type checkers read, as annotations of private functions and of local variables; the rest stays
    in its lines, for tracebacks."""
    text = source.decode()
    lines = _STRING_OR_COMMENT.sub(lambda found: found[1] or "", text).split("\n")
    statements = list(_statements(ast.parse(text)))
    for line, start, end, instead in sorted({*_annotations(statements)}, reverse=True):
        code = lines[line - 1].encode()
        lines[line - 1] = (code[:start] + instead + code[end:]).decode()
    for node in statements:
        if isinstance(node, ast.FunctionDef) and any(map(_is_overload, node.decorator_list)):
            _blank(lines, node.decorator_list[0].lineno, node.end_lineno)
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(node, owners) or ast.get_docstring(node, clean=False) is None:
            continue
        doc = node.body[0]
        assert doc.end_lineno is not None
        indent = lines[doc.lineno - 1][: doc.col_offset]
        if indent.strip() or lines[doc.end_lineno - 1].encode()[doc.end_col_offset :].strip():
            continue  # it shares a line with something else
        _blank(lines, doc.lineno, doc.end_lineno)
        if len(node.body) == 1 and not isinstance(node, ast.Module):
            lines[doc.lineno - 1] = f"{indent}pass"
    for node in statements:
        test = getattr(node.test, "id", "") if isinstance(node, ast.If) else ""
        named = node.names[0].asname if isinstance(node, ast.ImportFrom) else ""
        ours = test in ("TYPE_CHECKING", "texts")
        if "_texts" in (test, named) or (ours and not (node.orelse or node.col_offset)):
            _blank(lines, node.lineno, node.end_lineno)  # others stand beside it
        elif ours:
            first = node.body[0]
            _blank(lines, first.lineno, node.body[-1].end_lineno)
            lines[first.lineno - 1] = f"{' ' * first.col_offset}pass"
    return "\n".join(lines).encode()


def _statements(node: Any) -> Iterator[Any]:
    """A module, and all statements in it, the outer ones first."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            yield from _statements(inner)


def _annotations(statements: list[Any]) -> Iterator[tuple[int, int, int, bytes]]:
    """Of each annotation in one line that nobody reads: its line, the bytes from which and up to
    which it stands, and what stands there instead."""
    for f in statements:
        if not isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for x in itertools.islice(_statements(f), 1, None):
            if isinstance(x, ast.ClassDef):
                break  # whose fields are read
            if isinstance(x, ast.AnnAssign) and x.lineno == x.annotation.end_lineno:
                start, instead = (
                    (x.target.end_col_offset, b"") if x.value else (x.col_offset, b"pass")
                )
                yield x.lineno, start or 0, x.annotation.end_col_offset or 0, instead
        if f.name.startswith("_") and not f.name.endswith("__"):
            a = f.args
            for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
                if arg and arg.annotation and arg.lineno == arg.end_lineno:
                    start = arg.col_offset + len(arg.arg.encode())
                    yield arg.lineno, start, arg.end_col_offset or 0, b""


def _blank(lines: list[str], first: int, last: int | None) -> None:
    """Empty lines in the place of some, counted from 1."""
    assert last is not None
    lines[first - 1 : last] = [""] * (last - first + 1)


def _is_overload(decorator: ast.expr) -> bool:
    return "overload" in (getattr(decorator, "id", ""), getattr(decorator, "attr", ""))
