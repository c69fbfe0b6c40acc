"""PyTorch's file format, both ways with `torch.save` and `torch.load`: a zip of a pickle and bytes.

    archive/data.pkl   the object; a tensor is (its storage's number, offset, sizes, strides)
    archive/data/0 …   the storages, as raw bytes
    archive/byteorder  little
    archive/version    3

Before PyTorch 1.6 a file was pickles one after the other (a magic number, the protocol, the system,
the object, the storages' names), and then the storages: how many elements, and raw bytes.

The pickle is read by an unpickler that finds no functions but its own: a file can run nothing.
https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import pickle
import struct
import sys
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple, cast

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device, is_available
from pyframe.core.node import Storage
from pyframe.io import raw
from pyframe.io.files import Bounded, is_damage, opened, replacing
from pyframe.io.kinds import check_name, mistaken
from pyframe.io.unpickler import Unpickler, check_attribute, refusal, shown
from pyframe.tensor import Size, Tensor, fetch_all, from_host
from pyframe.tensor.copying import without_memory
from pyframe.tensor.memory_format import strided

_STORAGES = {
    "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16,
    "Long": dt.int64, "Int": dt.int32, "Short": dt.int16, "Char": dt.int8, "Byte": dt.uint8,
    "Bool": dt.bool_, "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
}  # fmt: skip
_KINDS = {dtype: f"{kind}Storage" for kind, dtype in _STORAGES.items()}
_LATE = (dt.uint16, dt.uint32, dt.uint64)  # dtypes without a storage type: theirs is untyped
_FOREIGN = (  # dtypes of PyTorch's that pyframe lacks
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2", "complex32",
)  # fmt: skip
_VERSION = 10  # the newest that PyTorch's own reader takes; it writes 3
_ALIGN = 64  # of a storage in a file, as PyTorch's: its pages can be used as they are
_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of the files before 1.6
_MAX_DIMS = 64
_NAME = 1000  # characters of what a storage is called
_DEVICES = 128  # as many as PyTorch can tell apart; each that is named is remembered
_TENSOR = 64  # what a tensor costs of a file's budget, as so many elements
_ERRORS = (
    zipfile.BadZipFile, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError,
    OverflowError, NotImplementedError, RecursionError, struct.error,
)  # fmt: skip
_YES = ("1", "y", "yes", "true")  # in the environment, as PyTorch reads it
_ALLOW = (
    "weights_only=False reads it, and runs whatever it says: only for files that you trust; "
    "pf.io.pt.add_safe_globals (torch.serialization's) lets single classes through"
)


_WHOLE = (
    "Of a whole module, as torch.save(net) writes it, save the weights where it can be loaded: "
    "torch.save(net.state_dict(), path)"
)


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
_REBUILD_LATE = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")


class _Stored:
    """The memory of some tensors, as a pickle refers to it."""

    def __init__(self, key: str, kind: _Global, location: str, count: int) -> None:
        self.id = "storage", kind, key, location, count


def _all_of(storage: Storage) -> Tensor:
    """The memory of some tensors as one."""
    out = Tensor.__new__(Tensor)
    out._node, out._storage = storage.node, storage
    return out


_PurePickler: Any = pickle._Pickler  # the C one takes no names of modules that are not there


class _Pickler(_PurePickler):
    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.stored: dict[Any, tuple[_Stored, Tensor, Any]] = {}
        self.globals: dict[tuple[str, str], _Global] = {}

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) is dt.dtype:
            obj = self._global("torch", obj.name)
        elif type(obj) is Size:
            self.save_reduce(self._global("torch", "Size"), (tuple(obj),), obj=obj)
            return
        elif type(obj) is Device:
            args = ("cpu",) if obj.type == "cpu" else ("cuda", obj.index)
            self.save_reduce(self._global("torch", "device"), args, obj=obj)
            return
        elif obj is strided:
            made = self._global("torch.serialization", "_get_layout")
            self.save_reduce(made, ("torch.strided",), obj=obj)
            return
        if type(obj) is Storage:
            obj = self._storage(_all_of(obj))[0]
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
        if obj.is_meta:
            return _REBUILD_META, (obj.dtype, tuple(obj.shape), obj.stride(), obj.requires_grad)
        stored, offset, strides = self._storage(obj.detach())
        hooks: dict[str, Any] = OrderedDict()
        how = stored, offset, tuple(obj.shape), strides, obj.requires_grad, hooks
        return (_REBUILD_LATE, (*how, obj.dtype)) if obj.dtype in _LATE else (_REBUILD, how)

    def _storage(self, x: Tensor) -> tuple[_Stored, int, tuple[int, ...]]:
        """The memory of `x`, once for all tensors of one dtype that share it, and how `x` lies in
        it."""
        memory = x._storage.node
        array = memory.data
        whole = not isinstance(array, np.ndarray) or array.flags.c_contiguous
        key: Any = (id(x._storage), x.dtype) if whole else (id(x), "alone")
        if key not in self.stored:
            base = _all_of(x._storage) if whole else x
            location = "cpu" if x.device.kind == "cpu" else f"cuda:{x.device.index}"
            size = base.nbytes
            if x.dtype in _LATE:
                kind = self._global("torch.storage", "UntypedStorage")
            else:
                kind, size = self._global("torch", _KINDS[x.dtype]), size // x.dtype.itemsize
            found = _Stored(str(len(self.stored)), kind, location, size)
            self.stored[key] = found, base, x  # x keeps the ids its own
        strides = x.stride() if whole else x.contiguous().stride()
        return self.stored[key][0], x.storage_offset() if whole else 0, tuple(strides)


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_protocol: int = 2) -> None:
    """Write an object with the tensors in it to a file, as `torch.save`, which can read it.

    Tensors that share memory share it after loading. Classes are written by their names.
    """
    if isinstance(f, (str, os.PathLike)):
        check_name(f)
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
    stored = list(pickler.stored.values())
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), text.getvalue())
        archive.writestr(zipfile.ZipInfo("archive/byteorder"), "little")
        arrays = raw.hosts(base for _, base, _ in stored)
        for (found, base, _), array in zip(stored, arrays, strict=True):
            info = zipfile.ZipInfo(f"archive/data/{found.id[2]}")
            # after the fixed header, the name, zip64's 20 bytes and the head of this field
            start = archive.start_dir + 30 + len(info.filename) + 20 + 4
            info.extra = struct.pack("<2sH", b"FB", -start % _ALIGN) + b"Z" * (-start % _ALIGN)
            with archive.open(info, "w", force_zip64=True) as part:
                for piece in raw.pieces(array, base.dtype):
                    part.write(piece)
        archive.writestr(zipfile.ZipInfo("archive/version"), "3\n")


# --- reading


class _Foreign:
    """What stands for a tensor of a dtype that pyframe lacks, until its name is known."""

    def __init__(self, name: str) -> None:
        self.name = name


class _LoadRequest(NamedTuple):
    """What a call asks for."""

    name: str  # of the file, in errors
    where: Any = "cpu"  # `map_location`
    weights_only: bool = True
    encoding: str = "utf-8"
    mmap: bool = False
    values: bool = True  # without them tensors have shapes and dtypes alone

    def error(self, why: str) -> RuntimeError:
        """The error of a file of another kind, or a damaged one."""
        return RuntimeError(f"load: {self.name} {why}")


class _Reading:
    """What one file may name and call, and the storages that it has.

    `fetch(key, dtype, count)` gives the elements of a storage on the CPU.
    """

    def __init__(self, where: Any, fetch: Callable[[str, dt.dtype, int], Tensor]) -> None:
        self.where, self.fetch = where, fetch
        self.read: dict[str, tuple[dt.dtype, Tensor]] = {}
        self.untyped: dict[int, tuple[Tensor, str, dict[str, Tensor]]] = {}
        self.stored: dict[int, Tensor] = {}  # by ids: of these tensors are made, of no others
        self.changed: dict[tuple[int, bool, bool], Tensor] = {}  # conjugated and negated ones
        self.spend: Callable[[int], None] = lambda n: None
        self.foreign: _Foreign | None = None  # one that was asked for
        rebuild = {
            "_rebuild_tensor": self.tensor, "_rebuild_tensor_v2": self.tensor,
            "_rebuild_tensor_v3": self.late, "_rebuild_parameter": self.parameter,
            "_rebuild_parameter_with_state": self.parameter_with_state,
            "_rebuild_meta_tensor_no_storage": self.meta,
        }  # fmt: skip
        functions = {("torch._utils", name): make for name, make in rebuild.items()} | {
            ("torch._tensor", "_rebuild_from_type_v2"): self.of_type,
            ("torch", "device"): self.device, ("torch.serialization", "_get_layout"): self.layout,
            ("torch", "Size"): Size,
        }  # fmt: skip
        self.calls: dict[int, Any] = {id(make): make for make in functions.values()} | {
            id(Size): self.size
        }
        self.rebuild = [functions["torch._utils", name] for name in rebuild]
        kinds: dict[tuple[str, str], Any] = {
            ("torch", f"{kind}Storage"): dtype for kind, dtype in _STORAGES.items()
        }
        dtypes: dict[tuple[str, str], Any] = {
            ("torch", d.name): d for d in (*_STORAGES.values(), *_LATE)
        }
        foreign: dict[tuple[str, str], Any] = {("torch", n): _Foreign(n) for n in _FOREIGN}
        self.names = {
            **kinds, **dtypes, **foreign, **functions, ("torch", "Tensor"): Tensor,
            ("torch.nn.parameter", "Parameter"): _parameter(), ("torch", "UntypedStorage"): None,
            ("torch.storage", "UntypedStorage"): None,
        }  # fmt: skip

    def storage(self, saved: Any) -> Tensor:
        """The memory that a pickle refers to: ("storage", kind, key, location, count)."""
        if type(saved) is not tuple or len(saved) not in (5, 6) or _text(saved[0]) != "storage":
            raise refusal(f"a reference to a {type(saved).__name__} that is no storage")
        kind, key, location, count = saved[1], _text(saved[2]), _text(saved[3]), saved[4]
        typed = type(kind) is dt.dtype or kind is None
        if not typed or type(count) is not int or count < 0 or any(saved[5:]):
            raise refusal(f"storage {key!r:.80} is of no known kind and size")
        dtype = dt.uint8 if kind is None else kind
        if key not in self.read:
            memory = self.fetch(key, dtype, count)
            if kind is not None:
                memory = memory.to(_place(self.where, location, memory))
            self.read[key] = dtype, memory
            self.stored[id(memory)] = memory
            if kind is None:
                self.untyped[id(memory)] = memory, location, {}
        known, memory = self.read[key]
        if known is not dtype:
            raise refusal(f"storage {key!r:.80} is of {known.name} and of {dtype.name}")
        return memory

    def meta(self, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
        self.spend(_TENSOR)
        fits = type(dtype) is dt.dtype and type(size) in (tuple, Size) and type(stride) is tuple
        if not fits or len(size) != len(stride) or len(size) > _MAX_DIMS:
            raise refusal("a meta tensor of no dtype, sizes and strides")
        fits = all(type(n) is int and 0 <= n <= sys.maxsize for n in (*size, *stride))
        reach = fits and sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
        if not fits or max(math.prod(n or 1 for n in size), reach) * dtype.itemsize > sys.maxsize:
            how = f"{size!s:.80} and strides {stride!s:.80}" if fits else "none"
            raise refusal(f"a meta tensor of sizes {how}")
        wants = requires_grad is True and dtype.category >= dt.FLOAT
        return without_memory(Tensor, tuple(size), stride, dtype, wants)

    def tensor(
        self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False,
        hooks: Any = None, metadata: Any = None,
    ) -> Tensor:  # fmt: skip
        self.spend(_TENSOR)
        sizes = type(size) in (tuple, Size, list) and type(stride) in (tuple, list)
        if id(memory) not in self.stored or not sizes or len(size) > _MAX_DIMS:
            raise refusal("a tensor of no storage, sizes and strides")
        fits = len(size) == len(stride) and all(
            type(n) is int and 0 <= n <= sys.maxsize for n in (offset, *size, *stride)
        )
        empty = fits and 0 in size
        reach = fits and offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        huge = fits and math.prod(n or 1 for n in size) * memory.itemsize > sys.maxsize
        if not fits or huge or (not empty and reach >= memory.numel()):
            how = f"{size!s:.80} and strides {stride!s:.80} at {offset!s:.40}" if fits else "none"
            raise refusal(
                f"a tensor of sizes {how} does not fit its storage of {memory.numel()} elements"
            )
        if metadata is not None:
            if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
                raise refusal("a tensor with unknown metadata")
            memory = self._changed(memory, *(metadata.get(k) is True for k in ("conj", "neg")))
        x = memory.as_strided(tuple(size), tuple(stride), 0 if empty else offset)
        return x.requires_grad_(requires_grad is True)

    def _changed(self, memory: Tensor, conj: bool, neg: bool) -> Tensor:
        """A storage with its values conjugated or negated: of it and not of a view, which may show
        one element any number of times."""
        key = id(memory), conj, neg
        if key not in self.changed:
            x = memory.conj() if conj else memory
            self.changed[key] = -x if neg else x
        return self.changed[key]

    def late(
        self, memory: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
        dtype: Any, metadata: Any = None,
    ) -> Any:  # fmt: skip
        """A tensor of a dtype that has no storage type of its own: of the bytes of an untyped."""
        if type(dtype) is _Foreign:
            self.foreign = dtype
            return dtype
        if type(dtype) is not dt.dtype or id(memory) not in self.untyped or dtype.narrow:
            raise refusal("a tensor of no untyped storage and a dtype")
        memory, location, made = self.untyped[id(memory)]
        if dtype.name not in made:
            data = fetch_all([memory])[0]
            data = data[: data.size // dtype.itemsize * dtype.itemsize]
            x = raw.mapped(data, dtype, (data.size // dtype.itemsize,))
            made[dtype.name] = x = x.to(_place(self.where, location, x))
            self.stored[id(x)] = x
        return self.tensor(made[dtype.name], offset, size, stride, requires_grad, hooks, metadata)

    def parameter(self, data: Any, requires_grad: Any = True, hooks: Any = None) -> Any:
        self.spend(_TENSOR)
        if type(data) is _Foreign:
            return data
        if not isinstance(data, Tensor):
            raise refusal("a parameter of no tensor")
        made: Tensor = _parameter()(data, requires_grad is True)
        return made

    def parameter_with_state(self, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
        return self._with_attributes(self.parameter(data, requires_grad), state)

    def of_type(self, make: Any, kind: Any, args: Any, state: Any) -> Tensor:
        """A tensor with attributes of the user's."""
        named = any(make is one for one in self.rebuild)
        typed = kind is Tensor or kind is _parameter()
        if not named or not typed or type(args) is not tuple:
            raise refusal("a tensor that is made by no function of PyTorch's")
        return self._with_attributes(make(*args), state)

    def _with_attributes(self, x: Tensor, state: Any) -> Tensor:
        """`x` with attributes of a file, which are none that a tensor has."""
        for part in state if type(state) is tuple else (state,):
            if part is None:
                continue
            if type(part) not in (dict, OrderedDict):
                raise refusal("a tensor whose attributes are no dict")
            self.spend(len(part))
            for name, value in part.items():
                check_attribute("a tensor", type(x), name)
                setattr(x, name, value)
        return x

    def device(self, kind: Any, index: Any = None) -> Device:
        known = index is None or (type(index) is int and 0 <= index < _DEVICES)
        if type(kind) is not str or not known:
            raise refusal("a device without a name and an index")
        return Device("cpu" if kind == "cpu" else "gpu", index or 0)

    def layout(self, name: Any) -> Any:
        if type(name) is not str or name != "torch.strided":
            raise refusal(f"layout {shown(name)}: tensors are strided here")
        return strided

    def size(self, sizes: Any = ()) -> Size:
        if type(sizes) not in (tuple, list) or len(sizes) > _MAX_DIMS or not all(
            type(n) is int and 0 <= n <= sys.maxsize for n in sizes
        ):  # fmt: skip
            raise refusal("a torch.Size of no sizes")
        return Size(sizes)

    def unpickle(self, file: Any, room: int, asked: _LoadRequest) -> Any:
        if not asked.weights_only:
            return self._known(_Anything(file, self, asked.encoding).load())
        unpickler = Unpickler(
            file, names=self.names, calls=self.calls, trusted=_allowed(), storage=self.storage,
            room=room, encoding=asked.encoding, refused=_ALLOW,
        )  # fmt: skip
        self.spend = unpickler.spend
        return self._known(unpickler.load())

    def _known(self, found: Any) -> Any:
        """`found`, unless a tensor in it has a dtype that pyframe lacks."""
        if self.foreign is None:
            return found
        rest: list[tuple[str, Any]] = [("", found)]
        name, seen = "", set()
        while rest and not name:
            path, x = rest.pop()
            name = path if type(x) is _Foreign else ""
            if id(x) in seen:
                continue
            seen.add(id(x))
            if isinstance(x, Mapping):
                rest += [(f"{path}.{key!s:.80}".lstrip("."), value) for key, value in x.items()]
            elif type(x) in (list, tuple):
                rest += [(f"{path}[{i}]", value) for i, value in enumerate(x)]
        d = self.foreign.name
        how = "x.to(torch.complex64)" if d == "complex32" else "x.bfloat16(), and mind its scale"
        raise refusal(
            f"{name or 'a tensor'} has dtype {d}, which pyframe lacks; convert it where PyTorch "
            f"is: {how}"
        )


def _parameter() -> Any:
    from pyframe.nn.parameter import Parameter

    return Parameter


def _text(x: Any) -> str:
    """A text, which Python 2 wrote as bytes."""
    if type(x) in (str, bytes) and len(x) > _NAME:
        raise refusal(f"a storage is known by over {_NAME} characters")
    if type(x) is bytes:
        x = x.decode("latin1")
    if type(x) is not str:
        raise refusal(f"a storage is known by a {type(x).__name__}, no text")
    return x


def _allowed() -> dict[tuple[str, str], Any]:
    return {k: v[0] if isinstance(v, tuple) else v for k, v in _trusted.items()}


class _Anything(pickle.Unpickler):
    """Reads whatever Python can pickle, and runs what it says."""

    def __init__(self, file: IO[bytes], reading: _Reading, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.reading = reading

    def find_class(self, module: str, name: str) -> Any:
        found = _allowed() | self.reading.names
        if (module, name) in found:
            return found[module, name]
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise type(error)(
                f"load: the file needs {module:.100}.{name:.100}, which is not there ({error}). "
                + _WHOLE
            ) from None

    def persistent_load(self, saved: Any) -> Any:
        if type(saved) is tuple and saved[:1] == ("module",):  # of before 1.6: a class, its source
            return saved[1]
        return self.reading.storage(saved)


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool | None = None, mmap: bool | None = None, encoding: str = "utf-8",
) -> Any:  # fmt: skip
    """Read what `save` or `torch.save` wrote: the same object, with tensors of pyframe.

    Args:
        map_location: the device of the tensors, or where to put what was where: a dict by name, or
            a function of (elements on the CPU, name) that gives a tensor or None. None is where
            they were, or the CPU without a GPU.
        weights_only: tensors, numbers, texts and containers alone; a file can run nothing. False
            reads whatever Python can pickle and runs what it says. None is True, unless the
            environment has TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1; TORCH_FORCE_WEIGHTS_ONLY_LOAD=1
            makes it True in any case, as in PyTorch.
        mmap: tensors on the CPU are the file's own pages, which are read when they are used and
            copied when they are written to: loading takes neither time nor memory, and nothing is
            checked for damage (bfloat16, bools and what is not aligned are read). Replacing the
            file, as `save` does, is harmless; a file that another program shortens in its place
            ends this one when missing pages are used.
        pickle_module: accepted, without effect.

    Raises RuntimeError for a file of another kind or a damaged one, pickle.UnpicklingError for
    objects that weights don't have.
    """
    only = _decided(weights_only)
    if isinstance(f, (str, os.PathLike)):
        with opened(f) as file:
            return _read(file, _LoadRequest(os.fspath(f), map_location, only, encoding, bool(mmap)))
    if not hasattr(f, "read"):
        raise AttributeError(f"load: expected a path or a file open for reading, got {f!r}")
    if mmap:
        raise ValueError("load: mmap is for files on the disk: give the path, not an open file")
    return _read(f, _LoadRequest("the file", map_location, only, encoding))


def _decided(weights_only: bool | None) -> bool:
    """Whether weights alone are read, as PyTorch decides it."""
    always, never = (
        os.environ.get(f"TORCH_FORCE_{no}WEIGHTS_ONLY_LOAD", "0").lower() in _YES
        for no in ("", "NO_")
    )
    if always and never:
        raise RuntimeError(
            "load: TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set "
            "in the environment: unset one of them"
        )
    if never and weights_only is None:
        warnings.warn(
            "load: TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set in the environment: the file may run "
            "what it says, since weights_only was not given",
            UserWarning, stacklevel=3,
        )  # fmt: skip
        return False
    return always or weights_only is None or bool(weights_only)


def outline(path: str | os.PathLike[str]) -> Any:
    """What `load` gives, with tensors that have shapes and dtypes and no values: none is read."""
    with opened(path) as file:
        return _read(file, _LoadRequest(os.fspath(path), values=False))


def _read(file: IO[bytes], asked: _LoadRequest) -> Any:
    begin = file.tell()
    length = file.seek(0, os.SEEK_END)
    file.seek(begin)
    start = file.read(4)
    file.seek(begin)
    try:
        if start[:1] == b"\x80":
            if asked.mmap:
                raise asked.error(
                    "is of before PyTorch 1.6, whose files are not mapped: save it once more, or "
                    "leave mmap out"
                )
            return _read_old(file, length, asked)
        with zipfile.ZipFile(cast(IO[bytes], Bounded(file))) as archive:
            return _read_zip(archive, raw.pages(file) if asked.mmap else None, length, asked)
    except pickle.UnpicklingError as error:
        if "no part of weights" in str(error) and _is_module(file, begin):
            raise pickle.UnpicklingError(f"{error}. {_WHOLE}") from None
        raise
    except (*_ERRORS, OSError) as error:
        if isinstance(error, OSError) and not is_damage(error):
            raise
        if not asked.weights_only and isinstance(error, (TypeError, AttributeError)):
            raise  # of a class of the user's
        if start[:2] == b"PK" or start[:1] == b"\x80":
            said = str(error) or type(error).__name__
            raise asked.error(f"is damaged: {said:.200}") from error
        file.seek(begin)
        more = file.read(512)
        if more[257:262] == b"ustar":
            raise asked.error(
                "is a tar, as PyTorch wrote before 0.2: if you trust it, load and save it once "
                "more with PyTorch: torch.save(torch.load(old, weights_only=False), new)"
            ) from None
        if wrong := mistaken(more):
            raise asked.error(f"is {wrong}") from None
        raise asked.error(
            "is no file of torch.save's; weights as .safetensors are read by pf.load"
        ) from None


def _is_module(file: IO[bytes], begin: int) -> bool:
    """Whether the pickle at the start of a file is a module's: it has what all of them have."""
    file.seek(begin)
    text = file.read(1 << 20)
    return b"_parameters" in text and b"_buffers" in text


def _read_zip(
    archive: zipfile.ZipFile, pages: np.ndarray | None, length: int, asked: _LoadRequest
) -> Any:
    entries = {i.filename: i for i in archive.infolist()}
    folder = next((n.partition("/")[0] for n in entries if n.endswith("/data.pkl")), None)
    if folder is None:
        hint = " but NumPy's: name it .npz" if any(n.endswith(".npy") for n in entries) else ""
        raise asked.error(f"has no data.pkl: it is no file of torch.save's{hint}")
    if f"{folder}/constants.pkl" in entries:
        raise asked.error(
            "is a program of TorchScript; save its weights where PyTorch is: "
            "torch.save(torch.jit.load(old).state_dict(), new)"
        )
    if sum(i.file_size for i in entries.values()) > length:
        raise asked.error("is damaged: its parts are larger than the file")

    def entry(part: str) -> zipfile.ZipInfo:
        found = entries[f"{folder}/{part}"]
        if found.compress_type != zipfile.ZIP_STORED:
            raise asked.error(
                f"has a compressed {part!r:.80}, as torch.save writes none: load and save it once "
                "more with PyTorch"
            )
        return found

    def small(part: str, default: bytes) -> bytes:
        return archive.read(entry(part)) if f"{folder}/{part}" in entries else default

    version = small("version", b"3").strip()
    if not version.isdigit() or int(version) > _VERSION:
        raise asked.error(
            f"has version {version!r:.40} of the format, expected at most {_VERSION}: it is of a "
            "newer PyTorch. Save its weights as .safetensors there"
        )
    order = small("byteorder", b"little")
    if order not in (b"little", b"big"):
        raise asked.error(f"is damaged: byte order {order!r:.40}")
    sign = ">" if order == b"big" else "<"

    def fetch(key: str, dtype: dt.dtype, count: int) -> Tensor:
        found = entries.get(f"{folder}/data/{key}")
        size = count * dtype.itemsize
        if found is None or entry(f"data/{key}").file_size != size:
            there = "no" if found is None else found.file_size
            raise asked.error(f"is damaged: storage {key:.80} of {count} {dtype} has {there} bytes")
        if not asked.values:
            return _blank(dtype, count)
        if pages is not None:
            return raw.mapped(_bytes_of(found, pages, asked), dtype, (count,), sign)
        with archive.open(found) as part:
            x = raw.read(part, dtype, (count,), sign)
            if part.read(1):  # at the end the checksum is compared
                raise EOFError(f"storage {key:.80} is longer than {size} bytes")
            return x

    text = archive.read(entry("data.pkl"))
    return _Reading(asked.where, fetch).unpickle(io.BytesIO(text), len(text), asked)


def _bytes_of(info: zipfile.ZipInfo, pages: np.ndarray, asked: _LoadRequest) -> np.ndarray:
    """The bytes of an entry of a zip."""
    head = pages[info.header_offset : info.header_offset + 30].tobytes()
    if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
        raise asked.error(f"is damaged: no {info.filename:.80} where it is to be")
    start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:]))
    part = pages[start : start + info.file_size]
    if part.size != info.file_size:
        raise asked.error(f"is damaged: {info.filename:.80} is cut off")
    return part


def _blank(dtype: dt.dtype, count: int) -> Tensor:
    """Elements that take no memory as long as nobody looks at them."""
    return from_host(np.empty(count, dtype.numpy), dtype)


def _read_old(file: IO[bytes], length: int, asked: _LoadRequest) -> Any:
    """A file of before 1.6. Its storages come last, so the object is read twice: first to find
    what they are, then with them."""
    bounded: Any = Bounded(file)

    def no_storage(saved: Any) -> Any:
        raise refusal("a storage where there is none")

    def plain() -> Any:
        return Unpickler(
            bounded, names={}, calls={}, trusted={}, storage=no_storage,
            room=length, encoding=asked.encoding, refused=_ALLOW,
        ).load()  # fmt: skip

    magic = plain()
    if magic != _MAGIC or type(magic) is not int:
        raise asked.error("is a pickle, and no file of torch.save's: nothing was run")
    protocol = plain()
    if protocol != _PROTOCOL:
        raise asked.error(f"has protocol {shown(protocol)}, expected {_PROTOCOL}")
    plain()  # the system; numbers are little-endian on all
    start, claimed = file.tell(), 0
    kinds: dict[str, tuple[dt.dtype, int]] = {}

    def announced(key: str, dtype: dt.dtype, count: int) -> Tensor:
        nonlocal claimed
        claimed += count * dtype.itemsize
        if claimed > length:
            raise EOFError(f"storages of {claimed} bytes in a file of {length}")
        kinds[key] = dtype, count
        return _blank(dtype, count)

    found = _Reading("cpu", announced).unpickle(bounded, length, asked)
    if not asked.values:
        return found
    read: dict[str, Tensor] = {}
    for key in plain():
        dtype, count = kinds[_text(key)]
        (size,) = struct.unpack("<q", file.read(8))
        if size != count:
            raise EOFError(f"storage {key!r:.80} has {size} elements, expected {count}")
        read[_text(key)] = raw.read(file, dtype, (count,))
    file.seek(start)
    reading = _Reading(asked.where, lambda key, dtype, count: read[key])
    return reading.unpickle(bounded, length, asked)


def _place(where: Any, location: str, memory: Tensor) -> Device:
    """The device for what was saved at `location`, as PyTorch names it."""
    if isinstance(where, dict):
        where = where.get(location)
    elif callable(where):
        found = where(memory, location)
        where = None if found is None else found.device
    if where is not None:
        return Device(where)
    return Device("cpu" if location == "cpu" or not is_available() else "gpu")
