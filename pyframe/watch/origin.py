"""Whose code and objects these are: a user's, whose reads a capture guards, or a library's."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import sys
import threading
import time
import types
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

import numpy as np

from pyframe.core import module_of, packages as _packages
from pyframe.core.packages import CODE, IMPURE, LIBRARY, USER

# --- code


def _folder(fn: Any, up: int) -> str:
    """Where the file of a function lies, as its code names it: in a page that may be another."""
    return os.sep.join(fn.__code__.co_filename.split(os.sep)[:-up]) + os.sep


PACKAGE_DIR = _folder(_folder, 2)
_STANDARD = _folder(contextlib.contextmanager, 1)
_NUMPY = os.path.dirname(np.__file__) + os.sep
DEPENDENCIES = {  # and theirs: a driver's bindings run wherever a value is first needed
    "numpy", "scipy", "wgpu", "rendercanvas", "cffi", "pycparser", "rubicon", "llvmlite",
    "threadpoolctl", "tqdm", "colorama",
}  # fmt: skip

# Files of the standard library and of ours, and their functions whose results no replay would
# renew; "" are all functions that are public.
_IMPURE = {
    "uuid.py": "", "secrets.py": "", "tempfile.py": "", "subprocess.py": "", "socket.py": "",
    "glob.py": "", "shutil.py": "", "genericpath.py": "", "urllib": "", "http": "", "sqlite3": "",
    "pathlib": "open read_text read_bytes write_text write_bytes exists is_file is_dir stat iterdir"
    " glob rglob unlink mkdir touch cwd home resolve absolute is_symlink lstat samefile walk owner",
    "posixpath.py": "abspath realpath islink ismount lexists relpath expanduser expandvars",
    "ntpath.py": "abspath realpath islink ismount lexists relpath expanduser expandvars",
    "os.py": "walk fwalk", "synchronize.py": "is_set get_value locked",
    "locale.py": "setlocale getlocale localeconv",
    "threading.py": "active_count enumerate",
    "npyio": "load save savez loadtxt savetxt genfromtxt", "random.py": "getrandbits seed",
    "pyframe": _packages.IMPURE_CALLS,
}  # fmt: skip


class _Files(dict[str, str]):
    """Whose code a file holds: USER, LIBRARY or IMPURE."""

    def __missing__(self, name: str) -> str:
        if name.startswith(PACKAGE_DIR):
            inner = name[len(PACKAGE_DIR) :].replace("\\", "/")
            found = next((whose for d, whose in CODE.items() if inner.startswith(d)), LIBRARY)
        elif name.startswith(_NUMPY):
            found = IMPURE if "npyio" in name else LIBRARY
        elif "site-packages" in name or "dist-packages" in name:
            top = re.split(r"[\\/](?:site|dist)-packages[\\/]", name)[-1]
            found = LIBRARY if re.split(r"[\\/.]", top)[0] in DEPENDENCIES else USER
        elif name.startswith(("<frozen", "<__array", _STANDARD)):
            inner = _unfrozen(name)
            parts = inner.removeprefix(_STANDARD.replace("\\", "/")).split("/")
            found = IMPURE if any(p in _IMPURE for p in parts) or "pathlib" in inner else LIBRARY
        else:
            found = USER
        self[name] = found
        return found


FILES = _Files()


def _unfrozen(name: str) -> str:
    """The file of a module, also of one that Python has within itself."""
    return name.replace("\\", "/").removeprefix("<frozen ").replace(">", ".py")


def is_impure(code: types.CodeType) -> bool:
    """Whether a function of a file that is IMPURE gives something else at each call."""
    name = "/" + _unfrozen(code.co_filename)
    for part, functions in _IMPURE.items():
        part = f"/{part}" if part.endswith(".py") else part
        if part in name and not functions:
            return not code.co_name.startswith(("<", "_"))
        if part in name and code.co_name in functions.split():
            return True
    return False


_CALLS: set[str] = {  # functions in C that give something else at each call
    f"{f.__module__}.{f.__name__}"
    for f in (vars(time) | vars(os) | vars(os.path)).values()
    if type(f) is types.BuiltinFunctionType and f.__module__ in ("time", "posix", "nt")
} - {"time.sleep", "posix.fspath", "nt.fspath", "posix.getpid", "nt.getpid"}
_CALLS |= {"_io.open", "io.open", "builtins.input"}
_CALLS |= {f"gc.{name}" for name in vars(gc) if name.startswith(("get", "is"))}


def _levels() -> Any:
    """What decides on whether each logger logs."""
    root = sys.modules["logging"].root
    known = {"": root, **root.manager.loggerDict}
    return root.manager.disable, [(n, getattr(x, "level", 0), getattr(x, "disabled", 0))
                                  for n, x in known.items()]  # fmt: skip


def _precision() -> Any:
    """How numbers of `decimal` are calculated with."""
    c = sys.modules["decimal"].getcontext()
    return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, [*c.traps.values()]


# Functions of libraries that give another thing once a program has set that: they are asked again.
ANSWERS: dict[str, Callable[[], Any]] = {
    "sys.getrecursionlimit": sys.getrecursionlimit, "sys.getswitchinterval": sys.getswitchinterval,
    "_thread.get_ident": threading.get_ident,
    "_thread.get_native_id": getattr(threading, "get_native_id", threading.get_ident),
    "threading.current_thread": threading.current_thread,
    "threading.main_thread": threading.main_thread, "logging.getLogger": _levels,
    "decimal": _precision,
    "numpy.geterr": np.geterr, "numpy.get_printoptions": np.get_printoptions,
    "numpy.getbufsize": np.getbufsize,
}  # fmt: skip


def impure_call(fn: Any) -> str:
    """The name of a function in C whose result no replay would renew, or ''."""
    if type(fn) is not types.BuiltinFunctionType:
        return ""
    owner = fn.__self__
    if isinstance(owner, types.ModuleType) or owner is None:
        name = f"{fn.__module__}.{fn.__name__}"
        return name if name in _CALLS else ""
    if isinstance(owner, type):
        named = owner.__module__ == "datetime" and fn.__name__ in ("now", "today", "utcnow")
        return f"datetime.{fn.__name__}" if named else ""
    if type(owner).__module__ == "_thread" and fn.__name__ == "locked":
        return "locked() of a lock"
    reads = isinstance(owner, io.IOBase) and owner not in (sys.stdout, sys.stderr)
    return f"{fn.__name__}() of a file" if reads and fn.__name__ not in ("fileno", "flush") else ""


def is_for_user(frame: Any) -> bool:
    """Whether a user's code has called, if by way of the standard library."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<frozen", _STANDARD)) or f"{os.sep}logging{os.sep}" in name:
            return FILES[name] == USER
        frame = frame.f_back
    return False


def spot(line: Any) -> str:
    """How a message begins that is about a line."""
    return f"{line[0]}:{line[1]} " if line else "it "


def line_of(frame: Any) -> Any:
    """(file, line) of the user's code that runs, from a frame on."""
    while frame is not None and FILES[frame.f_code.co_filename] != USER:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


_OPTIMIZERS = os.path.join(PACKAGE_DIR, *_packages.OPTIMIZERS_CODE.split("/"))


def is_optimizers(file: str) -> bool:
    """Whether its code is of an optimizer's step, whose reads `GuardSet.watch_optimizer` guards."""
    return file.startswith(_OPTIMIZERS) and not file.endswith(_packages.NOT_OPTIMIZERS)


# --- modules and classes

_OBJECTS = tuple(f"pyframe.{name}." for name in _packages.OBJECTS)
_SILENT = {  # modules of the standard library whose objects don't matter to numbers
    "logging", "io", "typing", "abc", "contextlib", "enum", "warnings", "functools", "_io",
    "asyncio", "unittest", "inspect", "ast", "traceback", "importlib",
}  # fmt: skip


def is_library(module: str | None) -> bool:
    """Whether what a module holds is not replaced while a program runs."""
    top = _top(module or "")
    if top == "pyframe":
        return not (module or "").startswith(_packages.PROGRAMS)
    return top in DEPENDENCIES or top in sys.stdlib_module_names


def is_ours(module: str | None) -> bool:
    return _top(module or "") == "pyframe"


def is_standard(kind: type) -> bool:
    return _top(kind.__module__ or "") in sys.stdlib_module_names


def is_silent(kind: type) -> bool:
    """Whether what is read of its objects makes no difference, or is told in other ways."""
    module = module_of(kind)
    if is_ours(module):
        return not f"{module}.".startswith(_OBJECTS)
    return _top(module) in _SILENT or _top(module) in DEPENDENCIES


# Modules in C whose objects are numbers and their like, or make no difference to numbers.
_FIXED = {
    "builtins", "_thread", "decimal", "datetime", "re", "types", "typing", "_typing", "operator",
    "weakref", "_weakref", "functools", "_functools", "collections", "_collections", "zoneinfo",
    "contextvars", "_contextvars", "abc", "_abc", "array", "_random", "random", "_io", "io", "uuid",
    "_weakrefset", "_collections_abc", "_struct", "itertools", "numpy",
    "sys", "time", "os", "posix", "nt", "cffi", "_cffi_backend",
    "_multiprocessing",
}  # fmt: skip


def is_fixed(kind: type) -> bool:
    """Whether objects of a class have no state that C code keeps, as far as it would be seen."""
    return hasattr(kind, "__get__") or all(
        _top(c.__module__) in _FIXED or is_ours(module_of(c)) or not _is_in_c(c)
        for c in kind.__mro__
    )


def is_constant(x: Any) -> bool:
    """Whether an object is pickled as a name alone, as torch.float32 is: a constant of its module,
    of which there is no other. Only C code is asked: a user's may do what it likes."""
    reduce: Any = type(x).__reduce__
    if reduce is object.__reduce__ or hasattr(reduce, "__code__"):
        return False
    try:
        return isinstance(x.__reduce__(), str)
    except Exception:
        return False  # it can't be pickled


def _is_in_c(kind: type) -> bool:
    """Whether a class is made in C."""
    file = getattr(sys.modules.get(module_of(kind)), "__file__", None) or ""
    return not kind.__flags__ & 1 << 9 or file.endswith(tuple(EXTENSION_SUFFIXES))


def _top(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""  # a property of some classes
