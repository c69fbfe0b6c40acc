"""The safetensors format: tensors by name, as a JSON header and raw little-endian bytes.

    uint64 n | n bytes of JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}} | the data

A reader and writer of our own, because a web page has no compiled wheel of the reference package.
The files are the reference's, byte for byte: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import device as Device
from pyframe.io.files import replacing
from pyframe.tensor import Tensor, from_numpy, gather_async

# What a file calls a dtype, what its bytes are, and ours. BOOL is a byte; BF16 has its own case.
_FORMATS = {
    "I64": ("<i8", dt.int64),
    "F64": ("<f8", dt.float64),
    "F32": ("<f4", dt.float32),
    "U32": ("<u4", dt.uint32),
    "I32": ("<i4", dt.int32),
    "BF16": ("<u2", dt.float32),
    "F16": ("<f2", dt.float16),
    "I16": ("<i2", dt.int16),
    "I8": ("|i1", dt.int8),
    "U8": ("|u1", dt.uint8),
    "BOOL": ("|u1", dt.bool_),
}
_NAMES = {d: name for name, (_, d) in _FORMATS.items() if name != "BF16"}
_ORDER = {name: i for i, name in enumerate(_FORMATS)}  # of the tensors in a file, as the reference
_MAX_HEADER = 100_000_000  # the reference's bound
_MAX_DIMS = 32  # NumPy 1's bound
# All but brackets: strings (the last may lack its end), and what is between; in linear time.
_NO_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[^][{}"]++', re.DOTALL)


class SafetensorError(ValueError):
    """A file (or bytes) that is not whole and valid safetensors; the text says what was seen."""


class _Entry(NamedTuple):
    format: str
    shape: tuple[int, ...]
    begin: int
    end: int


def save_file(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors (a state dict) to `path`, which holds all of them or what it held before.

    Views and tied weights are written out in full. TypeError for what is no tensor.
    """
    _write(path, _chunks(_hosts(tensors), metadata))


async def save_file_async(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """`save_file` that gives the thread back while it waits for the GPU."""
    _write(path, _chunks(await _hosts_async(tensors), metadata))


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes that `save_file` writes."""
    return b"".join(_chunks(_hosts(tensors), metadata))


async def save_async(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """`save` that gives the thread back while it waits for the GPU."""
    return b"".join(_chunks(await _hosts_async(tensors), metadata))


def load_file(path: str | os.PathLike[str], device: str | Device = "cpu") -> dict[str, Tensor]:
    """All tensors of a file, on `device`; BF16 is widened to float32.

    Raises SafetensorError, before any tensor is made, for a file that is truncated or corrupt.
    """
    target = Device(device)
    with open(path, "rb") as file:
        return {name: t.to(target) for name, t in _read(file, os.fspath(path)).items()}


def load(data: bytes, device: str | Device = "cpu") -> dict[str, Tensor]:
    """`load_file` from the bytes of a file."""
    target = Device(device)
    return {name: t.to(target) for name, t in _read(io.BytesIO(data), "the data").items()}


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that were given to `save_file` as `metadata`."""
    with open(path, "rb") as file:
        return _read_header(file, os.fspath(path))[1]


# --- writing


def _hosts(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    _check_tensors(tensors)
    return {name: t.detach().cpu().numpy() for name, t in tensors.items()}


async def _hosts_async(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    _check_tensors(tensors)
    arrays = await gather_async(list(tensors.values()))
    return dict(zip(tensors, arrays, strict=True))


def _check_tensors(tensors: Mapping[str, Tensor]) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: expected a dict of tensors by name, got {type(tensors).__name__}; of a module, "
            "save its state_dict()"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(
                f"save: expected a dict of tensors by name, got {type(tensor).__name__} at "
                f"{name!r}; make it a tensor, or put text into metadata (save_file)"
            )
        if name == "__metadata__":
            raise ValueError("save: '__metadata__' is the format's own name; rename the tensor")
        _check_text("save: the name", name)


def _chunks(
    arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None
) -> Iterator[bytes]:
    """The header, then the bytes of each tensor: the widest dtypes first, so all are aligned."""
    header: dict[str, Any] = {}
    if metadata is not None:
        for key, text in metadata.items():
            if not isinstance(key, str) or not isinstance(text, str):
                raise TypeError(f"save: metadata is text by name, got {key!r}: {text!r}")
            _check_text("save: the name", key)
            _check_text("save: the metadata", text)
        header["__metadata__"] = dict(metadata)
    formats = {name: _NAMES[dt.dtype.from_numpy(a.dtype)] for name, a in arrays.items()}
    names = sorted(arrays, key=lambda name: (_ORDER[formats[name]], name))
    begin = 0
    for name in names:
        end = begin + arrays[name].nbytes
        header[name] = {
            "dtype": formats[name],
            "shape": list(arrays[name].shape),
            "data_offsets": [begin, end],
        }
        begin = end
    packed = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    packed += b" " * (-len(packed) % 8)
    yield len(packed).to_bytes(8, "little") + packed
    for name in names:
        yield arrays[name].astype(_FORMATS[formats[name]][0], copy=False).tobytes()


def _write(path: str | os.PathLike[str], chunks: Iterator[bytes]) -> None:
    with replacing(path) as file:
        file.writelines(chunks)


# --- reading


def _read(file: BinaryIO, name: str) -> dict[str, Tensor]:
    entries, _ = _read_header(file, name)
    return {
        key: from_numpy(_read_array(file, entry, f"{name}: {_short(key)}"))
        for key, entry in entries.items()
    }


def _read_array(file: BinaryIO, entry: _Entry, what: str) -> np.ndarray:
    stored, d = _FORMATS[entry.format]
    raw = np.empty(entry.end - entry.begin, np.uint8)
    got = file.readinto(raw.data) if raw.size else 0  # type: ignore[attr-defined]
    if got != raw.size:  # the file was cut after its size was looked up
        raise SafetensorError(f"{what}: the data ends after {got} bytes, expected {raw.size}")
    array = raw.view(stored)
    if entry.format == "BF16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(d.numpy, copy=False).reshape(entry.shape)


def _read_header(file: BinaryIO, name: str) -> tuple[dict[str, _Entry], dict[str, str]]:
    """The entries in the order of their bytes, each checked, and the metadata."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8)
    if len(start) < 8:
        raise SafetensorError(
            f"{name}: truncated: {len(start)} bytes, expected the 8 bytes of the header's length"
        )
    if start.startswith(b"PK\x03\x04"):
        raise SafetensorError(
            f"{name}: a zip file, as torch.save writes, expected safetensors; convert it where "
            "PyTorch is: safetensors.torch.save_file(torch.load(old), new)"
        )
    length = int.from_bytes(start, "little")
    if length > min(size - 8, _MAX_HEADER):
        raise SafetensorError(
            f"{name}: a header of {length} bytes is announced, expected at most "
            f"{min(size - 8, _MAX_HEADER)} in {size} bytes: the file is truncated or is not "
            "safetensors"
        )
    header = _parse(file.read(length), name)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorError(f"{name}: __metadata__ is not text by name: {_short(metadata)}")
    entries = {key: _entry(info, f"{name}: {_short(key)}") for key, info in header.items()}
    entries = dict(sorted(entries.items(), key=lambda item: item[1][2:]))
    at = 0
    for key, entry in entries.items():
        if entry.begin != at:
            raise SafetensorError(
                f"{name}: {_short(key)} begins at byte {entry.begin} of the data, expected {at}: "
                f"the tensors {'overlap' if entry.begin < at else 'leave a hole'}"
            )
        at = entry.end
    if at != size - 8 - length:
        raise SafetensorError(
            f"{name}: {size - 8 - length} bytes of data, expected {at}: the file is "
            + ("truncated" if at > size - 8 - length else "longer than its tensors")
        )
    return entries, metadata


def _parse(text: bytes, name: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name that is there twice")
        for text in itertools.chain(found, found.values()):
            if isinstance(text, str):
                _check_text("the text", text)
        return found

    def no_constant(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    try:
        if not text.startswith(b"{"):
            raise ValueError(f"it starts with {text[:8]!r}, expected {{")
        # Python under Pyodide dies of JSON that is nested deeply; ours is {name: {shape: [size]}}.
        depths = itertools.accumulate(1 if b in b"[{" else -1 for b in _NO_BRACKETS.sub(b"", text))
        if any(depth > 3 for depth in depths):
            raise ValueError("it is nested more than 3 levels deep")
        return json.loads(text.decode(), object_pairs_hook=unique, parse_constant=no_constant)
    except ValueError as error:
        raise SafetensorError(f"{name}: the header is not valid JSON: {error}") from None


def _entry(info: Any, what: str) -> _Entry:
    expected = {"dtype", "shape", "data_offsets"}
    if not isinstance(info, dict) or set(info) != expected:
        raise SafetensorError(
            f"{what}: expected an object with dtype, shape and data_offsets, got {_short(info)}"
        )
    name, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
    if not isinstance(name, str) or name not in _FORMATS:
        raise SafetensorError(
            f"{what}: unknown dtype {_short(name)}, expected one of {', '.join(_FORMATS)}"
        )
    if not _is_sizes(shape) or len(shape) > _MAX_DIMS:
        raise SafetensorError(
            f"{what}: shape {_short(shape)}, expected a list of at most {_MAX_DIMS} sizes"
        )
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise SafetensorError(f"{what}: data_offsets {_short(offsets)}, expected [begin, end]")
    begin, end = offsets
    itemsize = np.dtype(_FORMATS[name][0]).itemsize
    if math.prod(n or 1 for n in shape) * itemsize > sys.maxsize:  # NumPy's bound, [0, huge] too
        raise SafetensorError(f"{what}: shape {_short(shape)} is too large for this machine")
    expected_bytes = math.prod(shape) * itemsize
    if end - begin != expected_bytes:
        raise SafetensorError(
            f"{what}: data_offsets {_short(offsets)} hold {_short(end - begin)} bytes, expected "
            f"{_short(expected_bytes)} for {name} of shape {_short(shape)}"
        )
    return _Entry(name, tuple(shape), begin, end)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} {_short(text)} holds a lone surrogate, which is half a character and no text"
        ) from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
