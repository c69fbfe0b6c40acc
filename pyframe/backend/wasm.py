"""WebAssembly modules in a page, under Pyodide: the only file that makes functions of their bytes.

Python in a page is itself a WebAssembly program. A module that imports its memory works on NumPy's
arrays where they lie, and its functions are called with the addresses of these.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from pyframe.codegen.lanes.program import NoFormError
from pyframe.codegen.wasm.encoder import OP, Module, f32


@functools.cache
def available() -> bool:
    """Whether modules can be made here: in a page whose Python's memory can be had, by a browser
    that has SIMD. One that has not is told once."""
    if sys.platform != "emscripten" or _memory() is None:
        return False
    if not _has("f32x4.add", 2):
        warnings.warn(
            "this browser has no SIMD in WebAssembly, so that NumPy computes on the CPU what would "
            "be compiled for it; the newest Chrome, Edge, Firefox and Safari have it",
            stacklevel=2,
        )
        return False
    return True


@functools.cache
def relaxed() -> bool:
    """Whether this browser has relaxed SIMD: a product and a sum as one instruction."""
    return _has("f32x4.relaxed_madd", 3)


def library(code: bytes) -> None:
    """Have the module `code` be what later ones import as "lib", which is made once for all."""
    if _libraries.get("code") != code:
        _libraries.update(code=code, exports=_instance(code))


def load(code: bytes) -> Any:
    """The functions that the module `code` exports, as JavaScript's; a look-up of one costs as much
    as a call. It imports Python's memory as env.memory, and what `library` was given as "lib".

    Raises NoFormError where the browser refuses it.
    """
    return _instance(code, lib=_libraries.get("exports"))


_libraries: dict[str, Any] = {}  # the latest: its code and its exports


def _memory() -> Any:
    """Pyodide's memory; None in a Pyodide that does not show it."""
    import pyodide_js

    # Its dynamic linker has all that its main module gives to libraries, which is the memory too.
    found = pyodide_js
    for name in ("_module", "LDSO", "loadedLibsByName", "__main__", "exports", "memory"):
        found = getattr(found, name, None)
        if found is None:
            return None
    return found


def _instance(code: bytes, **more: Any) -> Any:
    """The exports of a module. A page compiles it while Python waits, which all browsers allow for
    so few bytes."""
    import js
    from pyodide.ffi import JsException, to_js

    imports = {"env": {"memory": _memory()}, **{k: v for k, v in more.items() if v is not None}}
    given = to_js(imports, dict_converter=js.Object.fromEntries)
    try:
        return js.WebAssembly.Instance.new(js.WebAssembly.Module.new(to_js(code)), given).exports
    except JsException as error:
        raise NoFormError(f"the browser refuses its module: {error}") from None


def _has(instruction: str, operands: int) -> bool:
    """Whether the browser knows an instruction on vectors of float32."""
    import js
    from pyodide.ffi import to_js

    module = Module()
    module.function("probe", "").code += (
        (f32(0) + OP["f32x4.splat"]) * operands + OP[instruction] + OP["drop"]
    )
    return bool(js.WebAssembly.validate(to_js(module.encode())))
