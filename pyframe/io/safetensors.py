"""The safetensors format: tensors by name, as a JSON header and raw little-endian bytes.

    uint64 n | n bytes of JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}} | the data

A set of such files has an index, NAME.safetensors.index.json, as Hugging Face's:
{"metadata": {"total_size": bytes}, "weight_map": {tensor: file beside the index}}.

A reader and writer of our own, because a web page has no compiled wheel of the reference package.
The files are the reference's, byte for byte: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple, Self

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.io import raw
from pyframe.io.files import opened, replacing
from pyframe.tensor import Tensor, from_host, gather_async

_FORMATS = {  # what a file calls our dtypes, in the order of the tensors in a file
    "U64": dt.uint64, "I64": dt.int64, "F64": dt.float64, "C64": dt.complex64, "F32": dt.float32,
    "U32": dt.uint32, "I32": dt.int32, "BF16": dt.bfloat16, "F16": dt.float16, "U16": dt.uint16,
    "I16": dt.int16, "I8": dt.int8, "U8": dt.uint8, "BOOL": dt.bool_,
}  # fmt: skip
_FOREIGN = dict.fromkeys(  # of one byte each; their tensors are described and not loaded
    ["F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"], 1
)
_NAMES = {d: name for name, d in _FORMATS.items()}
_ORDER = {name: i for i, name in enumerate(_FORMATS)}
_MAX_HEADER = 100_000_000  # the reference's bound
_MAX_DIMS = 32  # NumPy 1's bound
# All but brackets: strings (the last may lack its end), and what is between; in linear time.
_NO_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[^][{}"]++', re.DOTALL)
_INDEX = ".index.json"
_UNITS = {"B": 1, **{f"{p}B": 1000**i for i, p in enumerate("KMGT", 1)},
          **{f"{p}IB": 1024**i for i, p in enumerate("KMGT", 1)}}  # fmt: skip


class SafetensorError(ValueError):
    """A file (or bytes) that is not whole and valid safetensors; the text says what was seen."""


class _Entry(NamedTuple):
    format: str
    shape: tuple[int, ...]
    begin: int
    end: int


class _File(NamedTuple):
    """A file whose header was read and checked."""

    file: IO[bytes]  # open, so that its bytes are the header's though it be replaced
    path: str
    data: int  # where the bytes of the tensors begin
    entries: dict[str, _Entry]
    metadata: dict[str, str]


class TensorInfo(NamedTuple):
    """What a header says about one tensor."""

    dtype: str  # as the file calls it: "F32", "BF16"
    shape: tuple[int, ...]
    nbytes: int
    file: str  # its name


class Description(NamedTuple):
    """What the headers of a file, or of a set of files, say."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    files: dict[str, int]  # bytes of each

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(info.nbytes for info in self.tensors.values())

    @property
    def numel(self) -> int:
        """The number of all tensors' elements."""
        return sum(math.prod(info.shape) for info in self.tensors.values())


def save_file(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None, max_shard_size: int | str | None = None,
) -> None:  # fmt: skip
    """Write tensors (a state dict) to `path`, which holds all of them or what it held before.

    Views and tied weights are written out in full. With `max_shard_size` (bytes, or "2GB") more
    than that becomes files NAME-00001-of-00003.safetensors, each of at least one tensor, and then
    their index, NAME.safetensors.index.json: until it is there, what was saved before is whole;
    other files NAME-…-of-… are removed afterwards. TypeError for anything but a tensor.
    """
    _write_set(path, tensors, _values(tensors), metadata, max_shard_size)


async def save_file_async(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None, max_shard_size: int | str | None = None,
) -> None:  # fmt: skip
    """`save_file` of the values of this moment that gives the thread back while it waits for the
    GPU.

    Args:
        tensors, path, metadata, max_shard_size: As `save_file` takes them.
    """
    _write_set(path, tensors, await _values_async(tensors), metadata, max_shard_size)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes that `save_file` writes."""
    return _joined(_chunks(tensors, _values(tensors), metadata))


async def save_async(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """`save` that gives the thread back while it waits for the GPU."""
    return _joined(_chunks(tensors, await _values_async(tensors), metadata))


def save_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """`save` of NumPy arrays."""
    return save({name: from_host(a, dt.dtype.from_numpy(a.dtype)) for name, a in arrays.items()})


def load_file(
    path: str | os.PathLike[str], device: str | Device = "cpu", mmap: bool = False
) -> dict[str, Tensor]:
    """All tensors of a file, of a set of files by its index, or of a folder with one of them, on
    `device`. Where there is no NAME.safetensors but NAME.safetensors.index.json, it is read.

    With `mmap` tensors of the CPU are the file's own pages, which are read when they are used and
    copied when they are written to, so that loading takes neither time nor memory (BF16, BOOL and
    what is not aligned are read). Replacing the file, as `save_file` does, is harmless; a file
    that another program shortens in its place ends this one when missing pages are used.

    Raises SafetensorError, before any tensor is made, for a file that is truncated or corrupt.
    """
    target = Device(device)
    with safe_open(path, mmap=mmap) as file:
        file.check()
        return {name: file.get_tensor(name).to(target) for name in file.offset_keys()}


def load(data: bytes, device: str | Device = "cpu") -> dict[str, Tensor]:
    """`load_file` from the bytes of a file."""
    target = Device(device)
    file = io.BytesIO(data)
    header = _read_header(file, "the data")
    _check_known(header)
    return {name: _read(header, name).to(target) for name in header.entries}


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that were given to `save_file` as `metadata`."""
    with safe_open(path) as file:
        return file.metadata() or {}


def describe(path: str | os.PathLike[str]) -> Description:
    """What a file, a set of files or a folder with one holds, from its headers alone: `path` as
    `load_file` takes it. SafetensorError for a file that is truncated or corrupt."""
    with contextlib.ExitStack() as stack:
        files, metadata = _found(path, stack)
        tensors = {
            name: TensorInfo(e.format, e.shape, e.end - e.begin, os.path.basename(file.path))
            for file in files
            for name, e in file.entries.items()
        }
        sizes = {os.path.basename(f.path): os.fstat(f.file.fileno()).st_size for f in files}
        return Description(tensors, metadata, sizes)


class safe_open:  # noqa: N801  (the reference's name)
    """A file, or a set of files, whose tensors are read one by one, in a `with` block.

    Args:
        filename: as `load_file` takes it.
        framework: accepted for the reference's programs; tensors are pyframe's.
        device: where the tensors go.
        mmap: tensors of the CPU are the file's own pages, see `load_file`.
    """

    def __init__(
        self, filename: str | os.PathLike[str], framework: str = "pt",
        device: str | Device = "cpu", *, mmap: bool = False,
    ) -> None:  # fmt: skip
        self._device, self._mmap = Device(device), mmap
        with contextlib.ExitStack() as stack:
            self._all, self._metadata = _found(filename, stack)
            self._stack = stack.pop_all()
        self._home = {name: file for file in self._all for name in file.entries}
        self._memory: dict[str, np.ndarray] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files; tensors of mapped files keep their pages."""
        self._stack.close()
        self._memory.clear()

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._home)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their bytes."""
        return list(self._home)

    def metadata(self) -> dict[str, str] | None:
        """The texts that were saved with the tensors."""
        return self._metadata or None

    def check(self) -> None:
        """SafetensorError where a tensor has a dtype that pyframe lacks."""
        for file in self._all:
            _check_known(file)

    def get_tensor(self, name: str) -> Tensor:
        """One tensor. SafetensorError for a name that is not there.

        Args:
            name: Its name.
        """
        file, entry = self._entry(name)
        _check_known(file, name)
        if self._mmap:
            part = self._mapped(file, entry)
            return raw.mapped(part, _FORMATS[entry.format], entry.shape).to(self._device)
        return _read(file, name).to(self._device)

    def get_slice(self, name: str) -> TensorSlice:
        """One tensor, of which only the part that is asked for is read: `get_slice("w")[:10]`.

        Args:
            name: Its name.
        """
        file, entry = self._entry(name)
        _check_known(file, name)
        return TensorSlice(self._mapped(file, entry), entry, self._device)

    def _entry(self, name: str) -> tuple[_File, _Entry]:
        if name not in self._home:
            known = ", ".join(itertools.islice(self._home, 8))
            raise SafetensorError(
                f"{self._all[0].path if self._all else 'the set'}: there is no {_short(name)}, "
                f"but {known}{', …' if len(self._home) > 8 else ''}"
            )
        return self._home[name], self._home[name].entries[name]

    def _mapped(self, file: _File, entry: _Entry) -> np.ndarray:
        """The bytes of a tensor, as the file has them: written to, they are a copy."""
        if file.path not in self._memory:
            self._memory[file.path] = raw.pages(file.file)
        part = self._memory[file.path][file.data + entry.begin : file.data + entry.end]
        if part.size != entry.end - entry.begin:
            raise SafetensorError(
                f"{file.path}: cut to {part.size} of {entry.end - entry.begin} bytes"
            )
        return part


class TensorSlice:
    """A tensor in a file: index it, and that part is read."""

    def __init__(self, memory: np.ndarray, entry: _Entry, device: Device) -> None:
        self._memory, self._info, self._device = memory, entry, device

    def get_shape(self) -> list[int]:
        """The sizes of its dims."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Its dtype as the file calls it."""
        return self._info.format

    def __getitem__(self, key: Any) -> Tensor:
        d = _FORMATS[self._info.format]
        stored = np.dtype("<u2" if d.narrow else "u1" if d is dt.bool_ else d.numpy)
        whole = self._memory.view(stored.newbyteorder("<")).reshape(self._info.shape)
        part = np.array(whole[key], order="C")
        return raw.mapped(part.reshape(-1).view(np.uint8), d, part.shape).to(self._device)


# --- writing


_Values = Callable[[list[str]], Iterable[np.ndarray]]  # the values of tensors, by their names


def _values(tensors: Mapping[str, Tensor]) -> _Values:
    _check_tensors(tensors)
    return lambda names: raw.hosts(tensors[n] for n in names)


async def _values_async(tensors: Mapping[str, Tensor]) -> _Values:
    _check_tensors(tensors)
    arrays = await gather_async(list(tensors.values()))
    named = dict(zip(tensors, arrays, strict=True))
    return lambda names: (named[n] for n in names)


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
        if tensor.dtype not in _NAMES:
            raise TypeError(
                f"save: safetensors has no {tensor.dtype.name}, the dtype of {name!r}; save it as "
                "pf.view_as_real(x), or with pf.save under another name than .safetensors"
            )


def _chunks(
    tensors: Mapping[str, Tensor], values: _Values, metadata: Mapping[str, str] | None
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
    names = sorted(tensors, key=lambda name: (_ORDER[_NAMES[tensors[name].dtype]], name))
    begin = 0
    for name in names:
        x = tensors[name]
        end = begin + x.nbytes
        header[name] = {
            "dtype": _NAMES[x.dtype],
            "shape": list(x.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    packed = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    packed += b" " * (-len(packed) % 8)
    yield len(packed).to_bytes(8, "little") + packed
    for name, array in zip(names, values(names), strict=True):
        yield from raw.pieces(array, tensors[name].dtype)


def _joined(chunks: Iterator[bytes]) -> bytes:
    file = io.BytesIO()
    file.writelines(chunks)
    return file.getvalue()


def _write_set(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], values: _Values,
    metadata: Mapping[str, str] | None, max_shard_size: int | str | None,
) -> None:  # fmt: skip
    if not os.fspath(path).endswith(".safetensors"):
        from pyframe.io.kinds import check_name

        check_name(path)
    if max_shard_size is None:
        with replacing(path) as file:
            file.writelines(_chunks(tensors, values, metadata))
        return
    sizes = ((name, x.nbytes) for name, x in tensors.items())
    shards = raw.groups(sizes, _bytes_of(max_shard_size))
    whole = os.fspath(path)
    if not whole.endswith(".safetensors"):
        raise ValueError(f"save: files of a set end in .safetensors, got {whole!r}")
    folder, stem = os.path.split(whole.removesuffix(".safetensors"))
    index = whole + _INDEX
    of_model = re.compile(re.escape(stem) + r"(-\d+)?-\d{5}-of-\d{5}\.safetensors")

    def remove(*names: str) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))

    def tidy(*keep: str) -> None:
        there = (name for name in os.listdir(folder or ".") if of_model.fullmatch(name))
        remove(*sorted(set(there).difference(keep)))

    if len(shards) == 1:
        with replacing(path) as file:
            file.writelines(_chunks(tensors, values, metadata))
        remove(os.path.basename(index))
        tidy()
        return
    before: set[str] = set()
    with contextlib.suppress(FileNotFoundError, SafetensorError):  # a damaged index has no files
        before = set(_read_index(index)[0].values())
    # No file of the set that the present index names is touched: its successors have other names.
    marks = itertools.chain([""], (f"-{i}" for i in itertools.count(2)))
    of_set = f"-of-{len(shards):05}.safetensors"
    sets = ([f"{stem}{mark}-{i:05}{of_set}" for i in range(1, len(shards) + 1)] for mark in marks)
    names = next(names for names in sets if before.isdisjoint(names))
    weight_map: dict[str, str] = {}
    try:
        for name, shard in zip(names, shards, strict=True):
            with replacing(os.path.join(folder, name)) as file:
                file.writelines(_chunks({n: tensors[n] for n in shard}, values, metadata))
            weight_map.update(dict.fromkeys(shard, name))
        total = sum(x.nbytes for x in tensors.values())
        content = {"metadata": {**(metadata or {}), "total_size": total}, "weight_map": weight_map}
        with replacing(index) as file:
            file.write((json.dumps(content, indent=2, sort_keys=True) + "\n").encode())
    except BaseException:
        remove(*set(weight_map.values()))
        raise
    remove(os.path.basename(whole))
    tidy(*names)


def _bytes_of(size: int | str) -> int:
    """2_000_000_000 of "2GB", as Hugging Face's max_shard_size."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)\s*", str(size).upper())
    n = size if isinstance(size, int) else 0
    if found and found[2] in _UNITS:
        n = int(float(found[1]) * _UNITS[found[2]])
    if isinstance(n, bool) or n < 1:
        raise ValueError(f"save: max_shard_size is bytes or a text such as '2GB', got {size!r}")
    return n


# --- reading


def _found(
    path: str | os.PathLike[str], stack: contextlib.ExitStack
) -> tuple[list[_File], dict[str, str]]:
    """The files behind a path, open and their headers checked, and the metadata of all."""
    name = os.fspath(path)
    if os.path.isdir(name):
        name = _only_one(name)
    if not name.endswith(_INDEX) and not os.path.exists(name) and os.path.exists(name + _INDEX):
        name += _INDEX
    if not name.endswith(_INDEX):
        header = _read_header(stack.enter_context(opened(name)), name)
        return [header], header.metadata
    while True:
        index = _read_index(name)
        try:
            return _of_index(name, *index, stack)
        except FileNotFoundError:
            if _read_index(name) == index:  # else another set took its place meanwhile
                raise


def _of_index(
    name: str, where: dict[str, str], texts: dict[str, str], stack: contextlib.ExitStack
) -> tuple[list[_File], dict[str, str]]:
    wanted: dict[str, list[str]] = {}
    for key, part in where.items():
        wanted.setdefault(part, []).append(key)
    files = []
    for part, keys in wanted.items():
        path = os.path.join(os.path.dirname(name), part)
        try:
            file = stack.enter_context(opened(path))
            header = _read_header(file, path)
        except FileNotFoundError:
            raise FileNotFoundError(
                2, f"{name} names it and it is missing: get the whole set", path
            ) from None
        missing = next((key for key in keys if key not in header.entries), None)
        if missing is not None:
            raise SafetensorError(
                f"{name}: {_short(missing)} is to be in {part}, which does not have it: the files "
                "are not of one set"
            )
        named = set(keys)
        entries = {key: entry for key, entry in header.entries.items() if key in named}
        files.append(header._replace(entries=entries))
    for header in reversed(files):
        texts = {**header.metadata, **texts}
    return files, texts


def _only_one(folder: str) -> str:
    """The file of weights in a folder, or the index of a set of them."""
    names = sorted(os.listdir(folder))
    found = {n.removesuffix(_INDEX) for n in names if n.endswith(f".safetensors{_INDEX}")}
    found |= {
        n for n in names
        if n.endswith(".safetensors") and not re.search(r"-\d{5}-of-\d{5}\.safetensors$", n)
    }  # fmt: skip
    if len(found) != 1:
        raise FileNotFoundError(
            2, f"expected one .safetensors or .safetensors.index.json here, found "
            f"{', '.join(sorted(found)) or 'none'}: give its path", folder
        )  # fmt: skip
    return os.path.join(folder, found.pop())


def _read_index(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each tensor, and the texts of the metadata."""
    with opened(path) as file:
        text = file.read(_MAX_HEADER + 1)
    if len(text) > _MAX_HEADER:
        raise SafetensorError(f"{path}: an index of more than {_MAX_HEADER} bytes")
    found = _parse(text, path, "the index")
    where, metadata = found.get("weight_map"), found.get("metadata", {})
    if not isinstance(where, dict) or not isinstance(metadata, dict):
        raise SafetensorError(
            f"{path}: expected an object with weight_map (and metadata), got {_short(found)}"
        )
    for key, name in where.items():
        plain = isinstance(name, str) and not re.search(r"[/\\:\0]|^\.*$", name)
        if not plain or not name.endswith(".safetensors"):
            raise SafetensorError(
                f"{path}: {_short(key)} is to be in {_short(name)}: expected the name of a "
                ".safetensors beside the index; nothing was read"
            )
    return where, {k: v for k, v in metadata.items() if isinstance(v, str)}


def _read(header: _File, name: str) -> Tensor:
    entry = header.entries[name]
    header.file.seek(header.data + entry.begin)
    try:
        return raw.read(header.file, _FORMATS[entry.format], entry.shape)
    except EOFError as error:  # the file was cut after its size was looked up
        raise SafetensorError(f"{header.path}: {_short(name)}: {error}") from None


def _check_known(header: _File, name: str | None = None) -> None:
    for key in header.entries if name is None else (name,):
        if header.entries[key].format not in _FORMATS:
            raise SafetensorError(
                f"{header.path}: {_short(key)} has dtype {header.entries[key].format}, which "
                "pyframe lacks; convert it to BF16 where PyTorch is: x.bfloat16()"
            )


def _read_header(file: IO[bytes], name: str) -> _File:
    """The entries in the order of their bytes, each checked, and the metadata."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(8)
    if len(start) < 8:
        got = f"truncated: {len(start)} bytes" if start else "the file is empty"
        raise SafetensorError(f"{name}: {got}, expected the 8 bytes of the header's length")
    more = start + file.read(504)
    if more[8:9] != b"{":
        from pyframe.io.kinds import mistaken, not_ours

        if wrong := mistaken(more) or not_ours("", more):
            raise SafetensorError(f"{name}: expected safetensors, this is {wrong}")
    file.seek(8)
    if start.startswith(b"PK\x03\x04"):
        raise SafetensorError(
            f"{name}: a zip file, as torch.save writes, expected safetensors; pf.io.pt.load(path) "
            "reads it, and pf.load under a name that ends in .pt"
        )
    length = int.from_bytes(start, "little")
    if length > min(size - 8, _MAX_HEADER):
        raise SafetensorError(
            f"{name}: a header of {length} bytes is announced, expected at most "
            f"{min(size - 8, _MAX_HEADER)} in {size} bytes: the file is truncated or is not "
            "safetensors"
        )
    header = _parse(file.read(length), name, "the header")
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
    return _File(file, name, 8 + length, entries, metadata)


def _parse(text: bytes, name: str, what: str) -> dict[str, Any]:
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
            from pyframe.io.kinds import mistaken

            wrong = mistaken(text[:100])
            raise ValueError(
                f"it {f'is {wrong}' if wrong else f'starts with {text[:8]!r}'}, expected {{"
            )
        # Python under Pyodide dies of JSON that is nested deeply; ours is {name: {shape: [size]}}.
        depths = itertools.accumulate(1 if b in b"[{" else -1 for b in _NO_BRACKETS.sub(b"", text))
        if any(depth > 3 for depth in depths):
            raise ValueError("it is nested more than 3 levels deep")
        return json.loads(text.decode(), object_pairs_hook=unique, parse_constant=no_constant)
    except ValueError as error:
        raise SafetensorError(f"{name}: {what} is not valid JSON: {error}") from None


def _entry(info: Any, what: str) -> _Entry:
    expected = {"dtype", "shape", "data_offsets"}
    if not isinstance(info, dict) or set(info) != expected:
        raise SafetensorError(
            f"{what}: expected an object with dtype, shape and data_offsets, got {_short(info)}"
        )
    name, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
    if not isinstance(name, str) or (name not in _FORMATS and name not in _FOREIGN):
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
    itemsize = _FORMATS[name].itemsize if name in _FORMATS else _FOREIGN[name]
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
