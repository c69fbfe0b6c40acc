"""PyTorch's file format, both ways with `torch.save` and `torch.load`: a zip of a pickle and bytes.

    archive/data.pkl   the object; a tensor is (its storage's number, offset, sizes, strides)
    archive/data/0 …   the storages, as raw bytes
    archive/version    3

The pickle is read by an unpickler that finds no functions but its own: a file can run nothing.
https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import collections
import contextlib
import io
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.devices import device as Device, is_available
from pyframe.io.files import replacing
from pyframe.tensor import Size, Tensor, from_numpy

_STORAGES = {
    "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16,
    "Long": dt.int64, "Int": dt.int32, "Short": dt.int16, "Char": dt.int8, "Byte": dt.uint8,
    "Bool": dt.bool_, "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
}  # fmt: skip
_DTYPES = {f"{kind}Storage": dtype for kind, dtype in _STORAGES.items()}
_KINDS = {dtype: name for name, dtype in _DTYPES.items()}
_BY_NAME = {
    d.name: d for d in (*_STORAGES.values(), dt.uint16, dt.uint32, dt.uint64)
}  # as torch.float32
_SAFE = {  # what else a file may make
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "defaultdict"): collections.defaultdict,
    ("torch", "Size"): Size,
    **{("builtins", t.__name__): t for t in (set, frozenset, bytearray, complex, list, dict)},
}


_trusted: dict[tuple[str, str], Any] = {}  # what the program adds


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` with weights_only make these classes and call these functions as well.

    An entry is one, or a pair of it and its full name in the file.
    """
    for entry in safe_globals:
        found, name = entry if isinstance(entry, tuple) else (entry, None)
        module, _, last = (name or f"{found.__module__}.{found.__qualname__}").rpartition(".")
        _trusted[module, last] = entry


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` added."""
    return list(_trusted.values())


def clear_safe_globals() -> None:
    """Take all of it back."""
    _trusted.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for a `with` block."""
    before = _trusted.copy()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        clear_safe_globals()
        _trusted.update(before)


class _Global:
    """A name of PyTorch's in a pickle, which is there whether or not PyTorch is."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """A pickle calls it; pickling wants to see that it could."""


_REBUILD = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")


class _Stored:
    """The memory of some tensors, as a pickle refers to it."""

    def __init__(self, key: str, kind: _Global, location: str, count: int) -> None:
        self.id = "storage", kind, key, location, count


_PurePickler: Any = pickle._Pickler  # the C one takes no names of modules that are not there


class _Pickler(_PurePickler):
    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.stored: dict[Any, tuple[_Stored, np.ndarray, Any]] = {}
        self.globals: dict[tuple[str, str], _Global] = {}

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) is dt.dtype:
            obj = self._global("torch", obj.name)
        elif type(obj) is Size:
            self.save_reduce(self._global("torch", "Size"), (tuple(obj),), obj=obj)
            return
        if type(obj) is not _Global:
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        else:
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            self.memoize(obj)

    def _global(self, module: str, name: str) -> _Global:
        return self.globals.setdefault((module, name), _Global(module, name))

    def persistent_id(self, obj: Any) -> Any:
        return obj.id if type(obj) is _Stored else None

    def reducer_override(self, obj: Any) -> Any:
        """How a tensor is written; all else as always."""
        if not isinstance(obj, Tensor):
            return NotImplemented
        if type(obj).__name__ == "Parameter":
            data = obj.detach()
            return _REBUILD_PARAMETER, (data, obj.requires_grad, OrderedDict())
        if obj.dtype not in _KINDS:
            raise TypeError(f"save: PyTorch's files have no {obj.dtype}; save x.to(pf.int64)")
        stored, offset, strides = self._storage(obj.detach())
        return _REBUILD, (
            stored, offset, tuple(obj.shape), strides, obj.requires_grad, OrderedDict(),
        )  # fmt: skip

    def _storage(self, x: Tensor) -> tuple[_Stored, int, tuple[int, ...]]:
        """The memory of `x`, once for all tensors that share it, and how `x` lies in it."""
        memory = x._storage.node
        array = memory.data
        whole = not isinstance(array, np.ndarray) or array.flags.c_contiguous
        key: Any = id(x._storage) if whole else (id(x), "alone")
        if key not in self.stored:
            base = x
            if whole:
                base = Tensor.__new__(Tensor)
                base._node, base._storage = memory, x._storage
            array = _bytes_of(base)
            location = "cpu" if x.device.type == "cpu" else f"cuda:{x.device.index}"
            kind = self._global("torch", _KINDS[x.dtype])
            count = array.nbytes // x.dtype.itemsize
            found = _Stored(str(len(self.stored)), kind, location, count)
            self.stored[key] = found, array, x  # x keeps the ids its own
        strides = x.stride() if whole else x.contiguous().stride()
        return self.stored[key][0], x.storage_offset() if whole else 0, tuple(strides)


def _bytes_of(x: Tensor) -> np.ndarray:
    """The elements in a row, little-endian, in the dtype's own width."""
    if x.dtype is dt.bfloat16:  # the upper half of a float32
        return (x.float().cpu().numpy().view("<u4") >> np.uint32(16)).astype("<u2")
    array = np.ascontiguousarray(x.cpu().numpy())
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_protocol: int = 2) -> None:
    """Write an object with the tensors in it to a file, as `torch.save`, which can read it.

    Tensors that share memory share it after loading. Classes are written by their names.
    """
    if isinstance(f, (str, os.PathLike)):
        with replacing(f) as file:
            _write(obj, file, pickle_protocol)
    elif hasattr(f, "write"):
        _write(obj, f, pickle_protocol)
    else:
        raise AttributeError(f"save: expected a path or a file open for writing, got {f!r}")


def _write(obj: Any, file: IO[bytes], protocol: int) -> None:
    text = io.BytesIO()
    pickler = _Pickler(text, protocol)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", "little")
        for stored, array, _ in pickler.stored.values():
            with archive.open(f"archive/data/{stored.id[2]}", "w", force_zip64=True) as part:
                part.write(memoryview(array.reshape(-1)).cast("B") if array.size else b"")
        archive.writestr("archive/version", "3\n")


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: IO[bytes], storage: Callable[..., Any], weights_only: bool, encoding: str
    ) -> None:
        super().__init__(file, encoding=encoding)
        self.storage, self.weights_only = storage, weights_only
        self.made = _makers()

    def persistent_load(self, saved: Any) -> Any:
        if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] != "storage":
            raise pickle.UnpicklingError(f"load: a reference that is no storage: {saved!r:.80}")
        return self.storage(*saved[1:])

    def find_class(self, module: str, name: str) -> Any:
        if module == "__builtin__":
            module = "builtins"
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if module == "torch" and name in _BY_NAME:
            return _BY_NAME[name]
        found = self.made.get((module, name)) or _SAFE.get((module, name))
        if found is not None:
            return found
        added = _trusted.get((module, name))
        if added is not None:
            return added[0] if isinstance(added, tuple) else added
        if not self.weights_only:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(
            f"load: the file names {module}.{name}, which is no part of weights: nothing was run. "
            "weights_only=False reads it, and runs whatever it says: only for files that you "
            "trust; torch.serialization.add_safe_globals lets single classes through"
        )


def _makers() -> dict[tuple[str, str], Callable[..., Any]]:
    """What makes tensors: functions of one reading, so that a file can alter no other's."""

    def rebuild(
        memory: Tensor, offset: int, size: Any, stride: Any, requires_grad: bool = False, *_: Any
    ) -> Tensor:
        reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        fits = all(isinstance(n, int) and n >= 0 for n in (offset, *size, *stride))
        if not fits or (math.prod(size) and reach >= memory.numel()):
            raise pickle.UnpicklingError(
                f"load: a tensor of sizes {tuple(size)} and strides {tuple(stride)} at {offset} "
                f"does not fit its storage of {memory.numel()} elements"
            )
        x = memory.as_strided(tuple(size), tuple(stride), offset)
        return x.requires_grad_(requires_grad)

    def rebuild_parameter(data: Tensor, requires_grad: bool = True, *_: Any) -> Any:
        from pyframe.nn.parameter import Parameter

        return Parameter(data, requires_grad)

    def rebuild_with_state(data: Tensor, requires_grad: bool, _: Any, state: Any) -> Any:
        return rebuild_parameter(data, requires_grad)

    def device(kind: str, index: int | None = None) -> Device:
        return Device("cpu" if kind == "cpu" else "gpu", index or 0)

    return {
        ("torch._utils", "_rebuild_tensor_v2"): rebuild,
        ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): rebuild_with_state,
        ("torch", "device"): device,
    }


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool = True, mmap: bool | None = None, encoding: str = "utf-8",
) -> Any:  # fmt: skip
    """Read what `save` or `torch.save` wrote: the same object, with tensors of pyframe.

    Args:
        map_location: the device of the tensors; None is where they were, or the CPU without a GPU.
        weights_only: tensors, numbers, texts and containers alone; a file can run nothing. False
            reads whatever Python can pickle and runs what it says.
        mmap, pickle_module: accepted, without effect.

    Raises RuntimeError for a file that is none or damaged, pickle.UnpicklingError for what weights
    are not.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), map_location, weights_only, encoding)
    if not hasattr(f, "read"):
        raise AttributeError(f"load: expected a path or a file open for reading, got {f!r}")
    return _read(f, "the file", map_location, weights_only, encoding)


def is_pickled(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as PyTorch's do: a zip, or a bare pickle of before 1.6."""
    with open(path, "rb") as file:
        return file.read(4)[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04")


def _read(file: IO[bytes], name: Any, where: Any, weights_only: bool, encoding: str) -> Any:
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        raise RuntimeError(
            f"load: {name} is no file of torch.save's (or of before PyTorch 1.6: load and save it "
            "once more with PyTorch); weights as .safetensors are read by pf.load"
        ) from None
    with archive:
        entries = {i.filename: i for i in archive.infolist()}
        folder = next((n.partition("/")[0] for n in entries if n.endswith("/data.pkl")), None)
        if folder is None:
            raise RuntimeError(f"load: {name} has no data.pkl: it is no file of torch.save's")
        order = f"{folder}/byteorder"
        big = order in entries and archive.read(order) == b"big"
        read: dict[str, Tensor] = {}

        def storage(kind: Any, key: str, location: str, count: int) -> Tensor:
            if key not in read:
                entry = entries.get(f"{folder}/data/{key}")
                dtype = kind if type(kind) is dt.dtype else dt.uint8
                size = -1 if entry is None else entry.file_size
                stored = entry is not None and entry.compress_type == zipfile.ZIP_STORED
                if entry is None or not stored or size != count * dtype.itemsize:
                    raise RuntimeError(
                        f"load: {name} is damaged: storage {key} of {count} {dtype} has "
                        f"{size if stored else 'no'} bytes"
                    )
                made = _tensor(archive.read(entry), dtype, ">" if big else "<")
                read[key] = made.to(_place(where, location))
            return read[key]

        try:
            text = io.BytesIO(archive.read(f"{folder}/data.pkl"))
            return _Unpickler(text, storage, weights_only, encoding).load()
        except (zipfile.BadZipFile, EOFError, ValueError, KeyError, IndexError) as error:
            raise RuntimeError(f"load: {name} is damaged: {error}") from error


def _tensor(data: bytes, dtype: dt.dtype, order: str) -> Tensor:
    if dtype is dt.bfloat16:
        upper = np.frombuffer(data, f"{order}u2").astype(np.uint32) << np.uint32(16)
        return from_numpy(upper.view(np.float32)).to(dtype)
    array = np.frombuffer(bytearray(data), dtype.numpy.newbyteorder(order))
    return from_numpy(array.astype(dtype.numpy, copy=False))


def _place(where: Any, location: str) -> Device:
    """The device for what was saved at `location`, as PyTorch names it."""
    if isinstance(where, dict):
        where = where.get(location)
    if where is not None and not callable(where):
        return Device(where)
    return Device("cpu" if location == "cpu" or not is_available() else "gpu")
