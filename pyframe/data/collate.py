"""Batches out of samples: tensors are stacked, containers keep their form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.ops.movement import stack
from pyframe.tensor import Tensor, from_numpy, tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of a batch as one, with a new first dim; new tensors are on the CPU.

    Tensors and arrays are stacked, ints become int64, floats float64 (as PyTorch has it); texts
    stay a list. Dicts, lists and named tuples are collated part by part, a tuple gives a list.
    TypeError for anything else, RuntimeError for samples of different sizes.
    """
    first = batch[0]
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Tensor):
        return _stack(batch)
    if isinstance(first, np.ndarray):
        return _stack([from_numpy(_numeric(array)) for array in batch])
    if isinstance(first, np.generic):
        return from_numpy(_numeric(np.asarray(batch)))
    if isinstance(first, float):
        return tensor(batch, dtype=dt.float64, device="cpu")
    if isinstance(first, int):
        return tensor(batch, device="cpu")
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([s[key] for s in batch]) for key in first})
    if isinstance(first, Sequence):
        sizes = {len(sample) for sample in batch}
        if len(sizes) > 1:
            raise RuntimeError(
                "default_collate: each element in list of batch should be of equal size, got "
                f"lengths {sorted(sizes)}; pad them, or pass DataLoader a collate_fn"
            )
        return _like(first, [default_collate(part) for part in zip(*batch, strict=True)])
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}; pass DataLoader a collate_fn"
    )


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    try:
        return stack(tensors)
    except RuntimeError as e:
        if "equal size" not in str(e):
            raise
        raise RuntimeError(
            f"default_collate: {e}; the samples of a batch need one shape, or DataLoader a "
            "collate_fn; the rows of several tensors are the samples of TensorDataset(x, y)"
        ) from None


def default_convert(data: Any) -> Any:
    """A sample with its arrays as tensors and all else as it is: for `batch_size=None`."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else from_numpy(np.asarray(data))
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(value) for value in data])
    return data


def _numeric(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "SUO":
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found an array of {array.dtype}; pass DataLoader a collate_fn"
        )
    return array


def _like(container: Any, parts: Any) -> Any:
    """`parts` in a container of the same type; a tuple becomes a list, as PyTorch has it."""
    if isinstance(container, tuple) and not hasattr(container, "_fields"):
        return parts
    make: Callable[..., Any] = type(container)
    try:
        return make(*parts) if isinstance(container, tuple) else make(parts)
    except TypeError:  # the type is not made of its parts
        return parts
