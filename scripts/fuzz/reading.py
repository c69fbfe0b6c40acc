"""Reads files of others in a process that is bounded and watched; `files.py` draws them.

A line of JSON comes in for each try, {"format", "path", "room"}, and one goes out: what was raised,
and what was wrong. More CPU time than SECONDS ends the process.
"""

from __future__ import annotations

import contextlib
import encodings.unicode_escape  # noqa: F401  (what Jinja imports late, as the next)
import io
import json
import os
import pickle
import resource
import signal
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import jinja2.debug  # noqa: F401
import numpy as np

import pyframe as pf
from pyframe import lora, text, vision
from pyframe.core import host_memory
from pyframe.io import files, npz, pt, read_idx, safetensors
from pyframe.tensor.tree import leaves
from pyframe.text import templates
from pyframe.vision.datasets.utils import extract_archive

SECONDS = 8.0
ROOM = 64 << 20  # bytes of memory that a try may take, and more for a larger file:
GROWS = 500  # a byte of a pickle can make an empty set of 216
MESSAGE = 1500  # characters, in which no file's contents are told at length
COPY = 3 << 29  # of address space, beyond which nothing is given


def _load(path: Path, room: Path) -> Any:
    return pf.load(path, map_location="cpu")


def _from_file(path: Path, room: Path) -> Any:
    with open(path, "rb") as file:
        return pf.load(file, map_location="cpu")


def _furnish(room: Path) -> None:
    """A folder in which something is already, some of which leads out of it."""
    target, away = room / "out", room / "away"
    for folder in (target / "folder", away):
        folder.mkdir(parents=True)
    (away / "mine").write_bytes(b"mine")
    (target / "link").symlink_to(away)
    (target / "name").symlink_to(away / "mine")
    os.link(away / "mine", target / "hard")
    os.mkfifo(target / "pipe")


def _look_around(room: Path) -> None:
    """See that all is in the folder, and no link is new."""
    away, made = room / "away", {*os.listdir(room)} - {"out", "away"}
    if made or os.listdir(away) != ["mine"] or (away / "mine").read_bytes() != b"mine":
        WRONG.append("wrote outside of its folder")
    if any(p.is_symlink() and p.name not in ("link", "name") for p in (room / "out").rglob("*")):
        WRONG.append("made a link")


def _gguf(path: Path, room: Path) -> None:
    text.AutoModel.from_pretrained(path)
    _cut(path, room)


def _cut(path: Path, room: Path) -> None:
    """Make tokens of texts, and texts of tokens."""
    made = text.Tokenizer.from_pretrained(path)
    for words in ("ab cd <s> z", "a" * 300 + "!", "é漢 \0"):
        made.decode(made.encode(words))
        made.decode(made.encode(words, "b", add_special_tokens=False), True)
    made.decode([0, 5, 31, 1 << 20])


def _folder(path: Path, room: Path) -> None:
    """A model of several files, and what it is used for."""
    place = room / "out" / "model"
    place.mkdir()
    for name, data in json.loads(path.read_text()).items():
        (place / name).write_bytes(data.encode("latin-1"))
    model = text.AutoModel.from_pretrained(place)
    if isinstance(model, text.CausalLM):
        lora.load(model, place)
        model.stream([1, 2])
    if (place / "tokenizer_config.json").is_file():
        made = text.Tokenizer.from_pretrained(place)
        made(["ab", "b"], max_length=5)


def _template(path: Path, room: Path) -> None:
    """What a chat's template makes of messages."""
    said = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "a\n"}]
    given = {"messages": said, "tools": [{"name": "f"}], "bos_token": "<s>"}
    if " at 0x" in templates.render(path.read_text("utf-8", "replace"), given):
        WRONG.append("wrote a place in memory")


def _jit(path: Path, room: Path) -> Any:
    """A graph is run at once, and compiled, where compilers open files of their own."""
    module = pf.jit.load(path)
    given = [pf.ones(1, 1, 4, 4) + 1, 2][: len(module._graphs["forward"].names)]
    _run(module, given, module)
    watched, _WATCHED[:] = _WATCHED[:], []
    _run(pf.compile(lambda *args: module(*args)), given, module)
    _WATCHED[:] = watched


def _run(fn: Any, given: list[Any], module: Any) -> None:
    """Read what comes of a call, and gradients."""
    pf.manual_seed(0)
    try:
        found = leaves(fn(*given))
    except _OF_RUNS as error:
        told = [str(error), *getattr(error, "__notes__", ())]
        if fn is module and not any("node" in t for t in told):
            WRONG.append(f"names no node: {type(error).__name__} {error}")
        if len(str(error)) > MESSAGE:
            WRONG.append(f"a message of {len(str(error))} characters")
        return
    if fn is module:
        _look(found, set())
    try:
        for x in found:
            x.detach().to(pf.complex128).sum().item()
        wanted = [p for p in module.parameters() if p.requires_grad]
        sums = [x.sum() for x in found if x.is_floating_point() and x.requires_grad]
        for g in pf.autograd.grad(sums, wanted, allow_unused=True) if wanted and sums else ():
            None if g is None else g.sum().item()
    except _OF_RUNS:  # an index is known to be wrong when it is read
        pass


# what functions raise for arguments that they don't take; AttributeError for a layer's attribute
_OF_RUNS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError,
            ArithmeticError, AssertionError)  # fmt: skip


class Format(NamedTuple):
    """How a kind of file is read, and what may be raised for a bad one."""

    read: Callable[[Path, Path], Any]
    raises: tuple[type[BaseException], ...]


_PICKLED = (RuntimeError, pickle.UnpicklingError)
FORMATS = {
    "jit": Format(_jit, (ValueError,)),
    "pt": Format(_load, _PICKLED), "file": Format(_from_file, _PICKLED),
    "mapped": Format(lambda p, _: pf.load(p, mmap=True, map_location="cpu"), _PICKLED),
    "outline": Format(lambda p, _: pt.outline(p), _PICKLED),
    "npz": Format(lambda p, _: npz.load(p), (ValueError,)),
    "safetensors": Format(lambda p, _: safetensors.load_file(p), (pf.io.SafetensorError,)),
    "index": Format(_load, (pf.io.SafetensorError, OSError, RuntimeError)),
    "idx": Format(lambda p, _: read_idx(p), (ValueError,)),
    "image": Format(lambda p, _: vision.io.read_image(p), (ValueError,)),
    "gguf": Format(_gguf, (ValueError,)),
    "folder": Format(_folder, (ValueError, RuntimeError, OSError, pickle.UnpicklingError,
                               pf.io.SafetensorError)),
    "tokenizer": Format(_cut, (ValueError,)), "template": Format(_template, (ValueError,)),
    "archive": Format(lambda p, room: extract_archive(p, room / "out"), (ValueError,)),
}  # fmt: skip

_COMPILES = "compile", "exec", "import", "ctypes.", "marshal."  # NamedTuples, what is late
_SOURCES = "/proc/meminfo", sys.prefix, sys.base_prefix, str(Path(pf.__file__).parent)
WRONG: list[str] = []  # of this try
_WATCHED: list[Path] = []  # what a try may open: its file, its room
_FREE = (  # events of what may be done
    "sys._getframe", "object.__getattr__", "array.__new__", "mmap.__new__", "gc.", "os.listdir",
         "os.scandir", "os.mkdir", "os.remove", "os.chmod", "os.chown", "os.rename", "tempfile.",
         "shutil.", "os.utime", "sys.unraisablehook", "builtins.id", "object.__setattr__",
         "object.__delattr__", "code.__new__", "signal.", "fcntl.", "time.sleep",
)  # fmt: skip


def _watch(event: str, args: tuple[Any, ...]) -> None:
    """What Python tells of what is done: nothing is run, and no other file is opened."""
    if not _WATCHED:
        return
    if _WATCHED[0].suffix == ".jit" and event.startswith(_COMPILES):
        return
    if event == "open":
        path = args[0]
        if (
            _WATCHED[0].suffix == ".jit"
            and str(path).startswith(_SOURCES)
            and args[1] in ("r", "rb")
        ):
            return
        if isinstance(path, (str, bytes, os.PathLike)) and not any(
            Path(os.fsdecode(path)).is_relative_to(p) for p in _WATCHED
        ):
            WRONG.append(f"opened {os.fsdecode(path)}")
    elif event in ("compile", "exec", "import"):
        if event == "compile" and _WATCHED[0].suffix == ".npz":  # a header's literals
            return
        if event != "import" and _WATCHED[0].suffix == ".jinja":  # what Jinja makes of it
            return
        WRONG.append(f"{event} {str(args[0])[:80]}")
    elif event == "os.putenv" and args[0] == b"XDG_RUNTIME_DIR":
        return  # a GPU is asked for
    elif not event.startswith(_FREE):
        WRONG.append(f"{event} {str(args)[:80]}")


def _look(x: Any, seen: set[int]) -> None:
    """See that tensors stay within their memory, and that nothing has a protocol of the file's."""
    todo = [x]
    while todo:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        for name in getattr(x, "__dict__", {}) if isinstance(x, (OrderedDict, pf.Tensor)) else ():
            if name.startswith("__"):
                WRONG.append(f"set {name}")
        if isinstance(x, pf.Tensor):
            array = x.detach().numpy()
            if array.size and array.base is not None:
                owner = array
                while getattr(owner, "base", None) is not None:  # as_strided has one of its own
                    owner = owner.base
                owner = getattr(owner, "memory", owner)
                if not isinstance(owner, np.ndarray):
                    continue
                low, high = np.lib.array_utils.byte_bounds(array)
                first, last = np.lib.array_utils.byte_bounds(owner)
                if owner.flags.c_contiguous and not (first <= low <= high <= last):
                    WRONG.append("a tensor that is larger than its memory")
        elif isinstance(x, dict):
            todo.extend(x.values())
        elif isinstance(x, (list, tuple)):
            todo.extend(x)


def _peak() -> int:
    """The most bytes of memory since `_forget`."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def _forget() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _types() -> Any:
    return [dict(vars(t)) for t in (pf.Tensor, pf.Size, pf.dtype, pf.nn.Parameter, pf.device)]


def tried(format: str, path: Path, room: Path) -> dict[str, Any]:
    """One try."""
    del WRONG[:]
    how, before, error = FORMATS[format], _types(), ""
    size = path.stat().st_size if path.is_file() else 1 << 12
    _furnish(room)
    _forget()
    start = _peak()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    _WATCHED[:] = [path, room, path.parent]
    try:
        found = how.read(path, room)
        del _WATCHED[:]
        _look(found, set())
        del found
    except how.raises as raised:
        error = f"{type(raised).__name__}: {raised}"
        if len(error) > MESSAGE:
            WRONG.append(f"a message of {len(error)} characters")
    except BaseException as raised:
        WRONG.append(f"raised {type(raised).__name__}: {str(raised)[:200]}")
    finally:
        del _WATCHED[:]
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = _peak() - start
    _look_around(room)
    if took > ROOM + GROWS * size + (format == "jit") * (600 << 20):
        WRONG.append(f"took {took >> 20} MB for a file of {size} bytes")
    if _types() != before:
        WRONG.append("changed a type")
    return {"error": error[:MESSAGE], "wrong": sorted(set(WRONG))[:5]}


def _use() -> None:
    """What pyframe makes of itself when it is first used is there from now on."""
    x = pf.tensor([1 + 2j, 2])
    for y in (x.conj(), -x, x.as_strided((2, 2), (0, 1)), pf.ones(3).byte(), -pf.ones(2).t()):
        with contextlib.suppress(RuntimeError):
            y.permute(*range(y.ndim)).requires_grad_(True)
            pf.nn.Parameter(y).detach().note = 1
    with contextlib.suppress(RuntimeError):
        -(pf.ones(2) > 0)


def main() -> None:
    """Answer until the input ends."""
    _use()
    warnings.simplefilter("ignore")
    templates.SECONDS = 2.0
    host_memory.available = lambda: 400 << 20
    files._MIN_UNPACKED_BYTES = 1 << 24  # less to unpack than a real one may
    image = vision.io.pillow("fuzzing")
    image.MAX_IMAGE_PIXELS = 1 << 20
    image.init()
    sys.addaudithook(_watch)
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (now + COPY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26,) * 2)
    answers, sys.stdout = sys.stdout, io.StringIO()  # graphs may print
    for line in sys.stdin:
        ask = json.loads(line)
        found = tried(ask["format"], Path(ask["path"]), Path(ask["room"]))
        print(json.dumps(found), file=answers, flush=True)
        sys.stdout.truncate(0)


if __name__ == "__main__":
    main()
