"""Reading of ONNX files, which nobody vouches for."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from pyframe.core.extras import install
from pyframe.io.files import opened
from pyframe.io.kinds import mistaken
from pyframe.onnx import values


def package() -> Any:
    """The package onnx, which is imported when a model is loaded."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(f"pyframe.onnx needs the package onnx: {install('onnx')}") from error
    values.learn(onnx)
    return onnx


FREE, TIMES = 1 << 27, 16  # bytes that a load makes beyond the file's own: so many, and times it


class Reader:
    """A model, and the arrays of its tensors, some of which may lie in files beside it."""

    def __init__(self, source: Any) -> None:
        self._onnx = onnx = package()
        self.folder: str | None = None
        self._left = values.memory()
        self._files: dict[str, int] = {}  # bytes beside the model that were not read yet
        if isinstance(source, onnx.ModelProto):
            self.model = source
        else:
            self.model = onnx.ModelProto()
            data = source
            if not isinstance(source, bytes | bytearray):
                self.folder = os.path.dirname(os.path.realpath(source))
                with opened(source) as file:
                    data = file.read()
            from google.protobuf.message import DecodeError

            try:
                self.model.ParseFromString(bytes(data))
            except DecodeError as error:
                why = mistaken(bytes(data[:100])) or f"damaged, or nested too deep ({error})"
                raise ValueError(f"no ONNX model: {why}") from None
        self._free = FREE + TIMES * self.model.ByteSize()
        if not self.model.HasField("graph") or not self.model.ir_version:
            raise ValueError("no ONNX model: it has no graph or no version")
        known = onnx.defs.onnx_opset_version()
        for one in self.model.opset_import:
            if one.domain in ("", "ai.onnx") and not 0 < one.version <= known:
                raise ValueError(
                    f"operator set ai.onnx {one.version}: the onnx package here knows it up to "
                    f"{known}"
                )

    def array(self, proto: Any) -> np.ndarray:
        """The array of a TensorProto. ValueError where its data do not fit its shape."""
        name = f"the tensor {proto.name!r}" if proto.name else "a tensor"
        shape = tuple(proto.dims)
        try:
            if proto.HasField("segment"):
                raise ValueError("its data come in segments")
            if any(n < 0 for n in shape):
                raise ValueError("a negative size")
            if proto.data_location == proto.EXTERNAL:
                found = self._outside(proto, shape)
            elif proto.data_type == values.STRING:
                found = values.strings([s.decode() for s in proto.string_data], shape)
                self.count(found.nbytes, name)
            else:
                found = self._onnx.numpy_helper.to_array(proto)
            if found.shape != shape:
                raise ValueError(f"data of the shape {found.shape}")
        except (ValueError, TypeError, KeyError, OSError, OverflowError, AttributeError) as error:
            why = str(error).strip("'\"")
            raise ValueError(f"{name} of the shape {shape} can't be read: {why}") from None
        except MemoryError as error:
            raise MemoryError(f"{name}: {error}") from None
        self._left -= found.nbytes
        if self._left < 0:
            raise MemoryError(f"{name} of {found.nbytes} bytes: this machine has less memory")
        return found

    def count(self, size: int, name: str) -> None:
        """Count bytes that the file asks for without having them. MemoryError if they are many."""
        self._free -= size
        if self._free < 0:
            raise MemoryError(
                f"{name} asks for {size} bytes: all that a file asks for without having it may be "
                f"{FREE} bytes and {TIMES} times its size"
            )

    def dense(self, sparse: Any, name: str) -> np.ndarray:
        """The array of a SparseTensorProto, whose zeros are counted before they are made."""
        entries, places, shape = self.array(sparse.values), self.array(sparse.indices), sparse.dims
        n = math.prod(shape)
        if min(shape, default=0) < 0 or entries.ndim != 1 or len(places) != len(entries):
            raise ValueError(f"{name} of the shape {tuple(shape)} has other places than values")
        self.count(n * entries.itemsize, name)
        if places.ndim == 2:
            places = np.ravel_multi_index(tuple(places.T), tuple(shape))
        if places.ndim != 1 or (places.size and not 0 <= places.min() <= places.max() < n):
            raise ValueError(f"{name} of the shape {tuple(shape)} has places outside of it")
        made = np.zeros(n, entries.dtype)
        made[places] = entries
        return made.reshape(shape)

    def _outside(self, proto: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Of a file in the model's folder; no link is followed and nothing outside is read."""
        said = {e.key: e.value for e in proto.external_data}
        where = said.get("location", "")
        if self.folder is None:
            raise ValueError("its data lie in a file, so load the model by its path")
        path = os.path.join(self.folder, where)
        inside = os.path.normpath(path).startswith(os.path.join(self.folder, ""))
        if not where or os.path.isabs(where) or not inside or os.path.realpath(path) != path:
            raise ValueError(f"{where!r} is not a file in the model's folder")
        onnx = self._onnx
        dtype = values.numpy_dtype(proto.data_type)
        if dtype.kind == "U":
            raise ValueError("strings can't lie in a file")
        n = math.prod(shape)
        name = onnx.TensorProto.DataType.Name(proto.data_type)
        bits = _BITS.get(name, 8 * dtype.itemsize)
        want, offset = (n * bits + 7) // 8, int(said.get("offset", 0))
        length = int(said.get("length", want))
        with opened(path) as file:
            if length != want or offset < 0 or os.fstat(file.fileno()).st_size < offset + want:
                raise ValueError(f"{where!r} does not have its {want} bytes")
            if want > self._left:
                raise ValueError(f"its {want} bytes are more than this machine's memory")
            rest = self._files.setdefault(path, os.fstat(file.fileno()).st_size) - want
            self._files[path] = max(rest, 0)
            self.count(max(-rest, 0), f"the file {where!r}, which several tensors read,")
            file.seek(offset)
            copied = onnx.TensorProto(
                data_type=proto.data_type, dims=shape, raw_data=file.read(want)
            )
        return np.asarray(onnx.numpy_helper.to_array(copied))


_BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}
