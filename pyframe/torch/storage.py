"""torch.storage: what pickles of tensors name, and memory as elements of a dtype."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyframe as pf
from pyframe.io import pt
from pyframe.tensor import Tensor
from pyframe.tensor.storage import UntypedStorage as UntypedStorage


def _load_from_bytes(b: bytes) -> Any:
    """What `torch.save` wrote: a tensor, or the elements of a storage."""
    return pt.load(io.BytesIO(b))


_load_from_bytes.__module__ = "torch.storage"  # for pickles


class TypedStorage:
    """The memory of a tensor as elements of its dtype: of `n` new ones, of a sequence, or those of
    `wrap_storage`, an UntypedStorage."""

    def __init__(
        self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        if wrap_storage is not None:
            if args or dtype is None:
                raise RuntimeError("TypedStorage: wrap_storage needs dtype, and nothing else")
            self._flat = pf.empty(0, dtype=dtype, device=wrap_storage.device).set_(wrap_storage)
            return
        made = args or (0,)
        if len(made) > 1 or not isinstance(made[0], (int, Sequence)):
            raise TypeError(f"TypedStorage: expected a number or a sequence, got {args}")
        make = pf.empty if isinstance(made[0], int) else pf.tensor
        self._flat = make(made[0], dtype=dtype, device=device)

    def untyped(self) -> UntypedStorage:
        """The same memory in bytes."""
        return self._flat.untyped_storage()

    def size(self) -> int:
        """The number of elements."""
        return self._flat.numel()

    __len__ = size

    def __getitem__(self, index: Any) -> Any:
        return self._flat[index].item() if isinstance(index, int) else _of(self._flat[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value

    def tolist(self) -> list[Any]:
        """The elements."""
        return self._flat.tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Set all elements."""
        self._flat.fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Take the elements of another."""
        self._flat.copy_(source._flat)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return _of(self._flat.clone())

    def cpu(self) -> TypedStorage:
        """One of the CPU."""
        return _of(self._flat.cpu())

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "device", "element_size", "data_ptr", "is_cuda", "nbytes"):
            found = getattr(self._flat, name)
            return (lambda: found) if name == "nbytes" else found
        raise AttributeError(f"TypedStorage has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self.untyped() == other.untyped()

    def __hash__(self) -> int:
        return hash(self.untyped())

    def __repr__(self) -> str:
        return (
            f"[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size "
            f"{len(self)}]"
        )


def _of(flat: Tensor) -> TypedStorage:
    made = TypedStorage.__new__(TypedStorage)
    made._flat = flat.detach()
    return made


def storage(self: Tensor) -> TypedStorage:
    """The memory behind this tensor, as elements of its dtype."""
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)
