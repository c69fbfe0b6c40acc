"""Batches out of samples: tensors are stacked, containers keep their form."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.ops.shape.join import stack
from pyframe.tensor import Tensor, from_numpy, tensor

Collates = dict[type | tuple[type, ...], Callable[..., Any]]


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return stack(batch)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return collate([from_numpy(_numeric(a)) for a in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return from_numpy(_numeric(np.asarray(batch)))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return tensor(batch, dtype=dt.float64, device="cpu")


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return tensor(batch, device="cpu")


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    return batch


# What `default_collate` does with samples of a type; a program may add its own types.
default_collate_fn_map: Collates = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_ORIGINAL = dict(default_collate_fn_map)


def is_default(collate_fn: Any) -> bool:
    """Whether it is `default_collate`, which nobody has changed."""
    return collate_fn is default_collate and default_collate_fn_map == _ORIGINAL


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of a batch as one, with a new first dim; new tensors are on the CPU.

    Tensors and arrays are stacked, ints become int64, floats float64 (as PyTorch has it); texts
    stay a list. Dicts, lists and named tuples are collated part by part, a tuple gives a list.
    TypeError for anything else, RuntimeError for samples of different sizes.

    Args:
        batch: A list of samples.

    >>> pf.data.default_collate([{"x": 1}, {"x": 2}])
    {'x': tensor([1, 2])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Collates | None = None) -> Any:
    """`default_collate` by a map of its own: from types to functions of (batch, *, collate_fn_map),
    which are asked for in this order; containers of other types are collated part by part."""
    try:
        return _collate(batch, collate_fn_map)
    except (RuntimeError, TypeError):
        found = _fault(batch, "batch", tuple(collate_fn_map or ()))
        if found is None:
            raise
        raise found from None


def _collate(batch: Sequence[Any], functions: Collates | None) -> Any:
    first = batch[0]
    if functions is not None:
        fn = functions.get(type(first))
        if fn is None:
            fn = next((f for kind, f in functions.items() if isinstance(first, kind)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=functions)
    if isinstance(first, Mapping):
        return _like(first, {key: _collate([s[key] for s in batch], functions) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("default_collate: each sample of a batch should be of equal size")
        return _like(first, [_collate(part, functions) for part in zip(*batch, strict=True)])
    raise _unknown(type(first))


def _unknown(kind: Any, where: str = "") -> TypeError:
    image = getattr(kind, "__module__", "").partition(".")[0] == "PIL"
    fix = "let the data set give tensors: vision.transforms.ToTensor() makes one of an image, or "
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{kind}{where}; {fix if image else ''}pass DataLoader a collate_fn"
    )


def _fault(batch: Sequence[Any], name: str, known: tuple[Any, ...]) -> Exception | None:
    """Where the samples of a batch don't fit each other: looked for once collating failed."""
    first = batch[0]
    if isinstance(first, Tensor | np.ndarray):
        for i, x in enumerate(batch):
            if isinstance(x, Tensor | np.ndarray) and x.shape != first.shape:
                return _unequal("tensors", name, [*first.shape], [*x.shape], i)
        return None
    parts: Iterator[tuple[Any, Sequence[Any]]]
    if isinstance(first, known):
        return None
    if isinstance(first, Mapping):
        parts = ((key, [s[key] for s in batch]) for key in first)
    elif isinstance(first, Sequence):
        for i, sample in enumerate(batch):
            if len(sample) != len(first):
                return _unequal("lists", name, len(first), len(sample), i)
        parts = enumerate(zip(*batch, strict=True))
    else:
        return _unknown(type(first), f" at {name}")
    found = (_fault(part, f"{name}[{key!r}]", known) for key, part in parts)
    return next((fault for fault in found if fault), None)


def _unequal(what: str, name: str, one: Any, other: Any, i: int) -> RuntimeError:
    return RuntimeError(
        f"default_collate: {what} of a batch should be of equal size, got {one} in sample 0 and "
        f"{other} in sample {i} at {name}; pad them, or pass DataLoader a collate_fn (the rows of "
        "several tensors are the samples of TensorDataset(x, y))"
    )


def default_convert(data: Any) -> Any:
    """A sample with its arrays as tensors and all else as it is: for `batch_size=None`.

    Args:
        data: A sample.

    >>> import numpy as np
    >>> pf.data.default_convert({"x": np.array([1, 2])})
    {'x': tensor([1, 2])}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else from_numpy(np.asarray(data))
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(value) for value in data])
    return data


def _numeric(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "SUO":
        raise _unknown(f"an array of {array.dtype}")
    return array


def _like(container: Any, parts: Any) -> Any:
    """`parts` in a container of the same type; a tuple becomes a list, as PyTorch has it."""
    kind: Callable[..., Any] = type(container)
    if kind is dict or kind is list or kind is tuple:
        return parts
    if isinstance(container, tuple):
        return kind(*parts) if hasattr(container, "_fields") else parts
    try:
        if not isinstance(container, MutableMapping | MutableSequence):
            return kind(parts)
        out: Any = copy.copy(container)  # what else it holds is kept
        for key, value in parts.items() if isinstance(parts, dict) else enumerate(parts):
            out[key] = value
        return out
    except TypeError:  # the type is not made of its parts
        return parts
