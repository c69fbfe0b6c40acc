"""What web/player.js does with an exported program, in a few lines of Python: on the native GPU, or
by the exported module."""

from __future__ import annotations

import json
import math
import operator
import struct
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import natively
import numpy as np

import pyframe as pf
from pyframe.backend.base import ProgramCode
from pyframe.core.devices import device as Device
from pyframe.core.dtypes import from_storage, storage_dtype, to_storage
from pyframe.web.programs import nbytes_of

WORDS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b=0: a + b, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "**": operator.pow, "neg": operator.neg, "abs": abs, "max": max, "min": min,
    "log": lambda x: math.log(x) if x else -math.inf, "!=": operator.ne, ">": operator.gt,
    "==": operator.eq, ">=": operator.ge, "not": operator.not_, "//": operator.floordiv,
    "%": operator.mod, "trunc": int, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
KINDS = {"f32": "<f", "f16": "<e", "i32": "<i", "u32": "<I", "bool": "<?"}


def evaluate(x: Any, options: dict[str, float]) -> Any:
    """A formula's value."""
    if isinstance(x, list):
        return WORDS[x[0]](*[evaluate(a, options) for a in x[1:]])
    if isinstance(x, str):
        return float(x) if x in ("Infinity", "-Infinity", "NaN") else options[x]
    return x


def written(folder: Path) -> Any:
    """What an export says of its program."""
    return json.loads((folder / "program.json").read_text())


class Played:
    """A program that was exported to a folder."""

    def __init__(self, folder: Path, device: str = "gpu") -> None:
        self.document = d = written(folder)
        self.executor: Any = None
        if device == "gpu":
            self.executor = b = Device("gpu").executor
        else:
            self.executor = b = natively.Exported((folder / "cpu.wasm").read_bytes())
        values = pf.io.safetensors.load_file(folder / "state.safetensors")
        self.options = d["options"]
        self.regions = [b.alloc(n) for n in d["regions"]]
        self.places = {t["name"]: i for i, t in enumerate(d["tensors"])}
        self.tensors = []
        for t in d["tensors"]:
            n = _nbytes(t)
            whole = "region" in t
            found = b.slice(self.regions[t["region"]], t["offset"], n) if whole else b.alloc(n)
            given = values.get(t["name"])  # in float16 if it is exact
            b.write(found, np.zeros(n, np.uint8) if given is None else _stored(given.numpy(), t))
            self.tensors.append(found)
        self.loaded: dict[str, Any] = {}

    def load(self, name: str) -> Any:
        """What a program runs on."""
        if name in self.loaded:
            return self.loaded[name]
        d, b = self.document, self.executor
        p = d["programs"][name]
        if isinstance(b, natively.Exported):
            p = p | p["cpu"]
        inputs = [b.alloc(_nbytes(i)) for i in p["inputs"]]
        make = {
            "in": lambda i: inputs[i], "state": lambda i: self.tensors[i], "own": b.alloc,
            "temp": b.alloc, "part": lambda r, at, n: b.slice(self.regions[r], at, n),
        }  # fmt: skip
        buffers = [make[kind](*rest) for kind, *rest in p["slots"]]
        if isinstance(b, natively.Exported):
            self.loaded[name] = p, inputs, buffers, p
            return self.loaded[name]
        codes, labels = ([d[what][k] for k in p["kernels"]] for what in ("codes", "labels"))
        code = ProgramCode(codes, labels, array("i", p["steps"]), len(buffers), p["paramBytes"])
        self.loaded[name] = p, inputs, buffers, b.backend.load(code)
        return self.loaded[name]

    def run(self, name: str, *given: np.ndarray) -> list[np.ndarray]:
        """A program's results; what a check of values has found raises a RuntimeError."""
        p, inputs, buffers, loaded = self.load(name)
        for buffer, x, about in zip(inputs, given, p["inputs"], strict=True):
            assert list(x.shape) == about["shape"]
            self.executor.write(buffer, _stored(x, about))
        params = bytearray(p["paramBytes"])
        for offset, kind, value in p["params"]:
            struct.pack_into(KINDS[kind], params, offset, evaluate(value, self.options))
        self.executor.backend.run(loaded, [buffer.handle for buffer in buffers], bytes(params))
        for tensor, slot, n in p["back"]:
            self.executor.copy(self.tensors[tensor], buffers[slot], n)
        found = [self.read(buffers[o["slot"]], o) for o in p["outputs"]]
        if "guard:" in self.places:
            flag = self.tensors[self.places["guard:"]]
            failed = int(self.read(flag, {"shape": [], "dtype": "int32"}))
            if failed:
                self.executor.write(flag, np.zeros(4, np.uint8))
                raise RuntimeError(self.document["errors"][(failed & 16383) - 1])
        return found

    def read(self, buffer: Any, about: Any) -> np.ndarray:
        """The numbers of a tensor."""
        (raw,) = self.executor.read([(buffer, _nbytes(about))])
        flat = np.frombuffer(raw, _storage(about))[: math.prod(about["shape"])]
        flat = from_storage(flat, getattr(pf, about["dtype"]))
        return flat.reshape(about["shape"])

    def take(self, name: str) -> float:
        """A sum since it was last taken."""
        at = self.places[name]
        found = float(self.read(self.tensors[at], self.document["tensors"][at]))
        self.executor.write(self.tensors[at], np.zeros(4, np.uint8))
        return found

    def mean(self, name: str, kind: str = "train") -> float:
        """A mean over the steps since it was last taken."""
        total, by = (self.take(f"metric:{kind}.{of}{name}") for of in ("", "divisor:"))
        return total / by


def _nbytes(about: Any) -> int:
    return nbytes_of(getattr(pf, about["dtype"]), about["shape"])


def _storage(about: Any) -> np.dtype:
    return storage_dtype(getattr(pf, about["dtype"]))


def _stored(x: np.ndarray, about: Any) -> np.ndarray:
    """Numbers as a buffer has them, whole words."""
    flat = np.zeros(_nbytes(about) // _storage(about).itemsize, _storage(about))
    flat[: x.size] = to_storage(x.reshape(-1), getattr(pf, about["dtype"]))
    return flat
