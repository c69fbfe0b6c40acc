"""NumPy's archives: arrays by name, both ways with `numpy.savez` and `numpy.load`.

NAME.npy in a zip: "\\x93NUMPY", version, a header with dtype and shape, the elements
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.io import raw
from pyframe.io.files import Bounded, is_damage, most_of, opened, replacing
from pyframe.io.kinds import check_name, mistaken
from pyframe.tensor import Tensor, from_host, from_numpy


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write tensors (and NumPy arrays) by name to an .npz file, which holds all of them or what it
    held before. TypeError for what is neither, and for bfloat16, which NumPy lacks."""
    check_name(path)
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save: expected a dict of tensors by name, got {type(tensors).__name__}")
    values = {name: _tensor(name, value) for name, value in tensors.items()}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for (name, x), array in zip(values.items(), raw.hosts(values.values()), strict=True):
            info = {
                "descr": x.dtype.numpy.newbyteorder("<").str, "fortran_order": False,
                "shape": tuple(x.shape),
            }  # fmt: skip
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as part:
                np.lib.format.write_array_header_1_0(part, info)
                for piece in raw.pieces(array, x.dtype):
                    part.write(piece)


def _tensor(name: Any, value: Any) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype != object:
        value = from_numpy(value.astype(value.dtype.newbyteorder("="), copy=False))
    if not isinstance(name, str) or not isinstance(value, Tensor):
        raise TypeError(
            f"save: expected a dict of tensors by name, got {type(value).__name__} at {name!r}; "
            "make it a tensor"
        )
    if value.dtype is dt.bfloat16:
        raise TypeError(
            f"save: NumPy has no bfloat16, the dtype of {name!r}; save x.float(), or under a name "
            "that ends in .safetensors"
        )
    return value


def load(path: str | os.PathLike[str], device: str | Device = "cpu") -> dict[str, Tensor]:
    """All arrays of an .npz file, as tensors on `device`. ValueError for one that is damaged or
    that holds objects: nothing in it is run."""
    target = Device(device)
    return {name: x.to(target) for name, x in _arrays(path, True)}


def outline(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """What `load` gives, with tensors that have shapes and dtypes and no values: none is read."""
    return dict(_arrays(path, False))


def _arrays(path: str | os.PathLike[str], values: bool) -> Iterator[tuple[str, Tensor]]:
    with opened(path) as file:
        if wrong := mistaken(file.read(512)):
            raise ValueError(f"load: {os.fspath(path)} is {wrong}")
        try:
            with zipfile.ZipFile(cast(IO[bytes], Bounded(file))) as archive:
                total = sum(info.file_size for info in archive.infolist())
                most = most_of(os.fstat(file.fileno()).st_size)
                if total > most:
                    raise ValueError(
                        f"{total} bytes would be unpacked, expected at most {most} from a file of "
                        "this size: where that is meant, write it with numpy.savez, which does not "
                        "compress"
                    )
                for info in archive.infolist():
                    yield info.filename.removesuffix(".npy"), _read(archive, info, values)
        except (zipfile.BadZipFile, EOFError, RuntimeError, OverflowError, MemoryError, OSError,
                zlib.error) as error:  # fmt: skip
            if isinstance(error, OSError) and not is_damage(error):
                raise
            raise ValueError(f"load: {os.fspath(path)} is damaged: {error!s:.200}") from error
        except ValueError as error:
            raise ValueError(f"load: {os.fspath(path)}: {error}") from None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, values: bool) -> Tensor:
    name = info.filename
    if not name.endswith(".npy"):
        raise ValueError(f"{name!r:.80} is no array: expected NAME.npy")
    with archive.open(info) as part:
        shape, fortran, stored = _header(part, name)
        if stored.hasobject:
            raise ValueError(
                f"{name!r:.80} holds Python objects, which are a pickle: it was not read. Save "
                "numbers: array.astype(float)"
            )
        try:
            d = dt.dtype.from_numpy(stored.newbyteorder("="))
        except TypeError as error:
            raise ValueError(f"{name!r:.80}: {error}") from None
        size = d.itemsize
        for n in shape:
            size *= n
        # what is announced is read only if the file is long enough to hold it
        if size > info.file_size or (info.file_size and not info.compress_size):
            raise ValueError(
                f"{name!r:.80} announces {size} bytes for {stored} of shape {shape}, and the file "
                f"has {info.compress_size}: it is truncated or not honest"
            )
        if not values:  # memory that nobody looks at is none
            return from_host(np.empty(shape, d.numpy), d)
        order = ">" if stored.str[0] == ">" else "<"
        x = raw.read(part, d, shape[::-1] if fortran else shape, order)
        if part.read(1):
            raise ValueError(f"{name!r:.80} is longer than its array of {size} bytes")
        return x.permute(*range(len(shape))[::-1]) if fortran else x


def _header(part: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(part)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }.get(version)  # fmt: skip
    if read is None:
        raise ValueError(f"{name!r:.80} has format {version}, expected (1, 0) or (2, 0)")
    try:
        shape, fortran, stored = read(part)
    except OSError:
        raise
    except Exception as error:  # Python's parser reads it, and may raise anything
        raise ValueError(f"{name!r:.80} has no header of an array: {error!s:.200}") from None
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{name!r:.80} has shape {shape!r:.80}, expected sizes")
    return shape, fortran, stored
