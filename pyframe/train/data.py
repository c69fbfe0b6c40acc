"""What fit, evaluate and predict take, as batches.

Inputs and targets are trees: a tensor, an array, numbers in lists, a table of pandas or images of
Pillow, or else a tuple, a list or a dict of trees. The first dim of each leaf counts the samples.
"""

from __future__ import annotations

import inspect
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core import module_of
from pyframe.core.extras import is_pil
from pyframe.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from pyframe.tensor import gather_async
from pyframe.train import check
from pyframe.train.words import expected, is_array, is_pandas, seen

_Param = inspect.Parameter
_said: set[str] = set()  # kinds of notices that this process has given


def notice(kind: str, text: str) -> None:
    """Say something of this kind on stderr, once in a process, beside bars of progress."""
    if kind in _said:
        return
    _said.add(kind)
    bars = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if bars is not None:
        bars.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)


# --- trees


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _are_samples(value: Sequence[Any], n: int | None = -1) -> bool:
    """Whether a list or tuple holds the samples of one leaf, and not several trees.

    Numbers, texts and images are samples, and arrays are trees. But where a user's own data is
    taken, arrays of equal shapes in a list are samples if there are `n` of them, the number of
    samples elsewhere (None: not known). Of lists of numbers in a tuple each is a tree too, if it is
    a batch itself."""
    if not value:
        return True
    first = value[0]
    if isinstance(first, Mapping) or is_pandas(first):
        return False
    if is_array(first):
        if not len(first.shape):
            return True
        shapes = {tuple(v.shape) if is_array(v) else None for v in value}
        return isinstance(value, list) and len(shapes) == 1 and n in (None, len(value))
    if _is_list(first):
        if n is not None and n >= 0 and len(value) != n and all(_rows_of(v) == n for v in value):
            return False
        if isinstance(value, tuple) and isinstance(first, list) and first and _is_list(first[0]):
            return len(value) == n
        return _are_samples(first)
    return True


def tree(what: str, name: str, value: Any, n: int | None = None, ints: bool = False) -> Any:
    """`value` with tensors for leaves, which share memory with arrays.

    `n`: how many samples there are elsewhere; `ints`: a table of ints stays one, as of targets.
    TypeError or ValueError, which says `name`, unless it holds numbers."""
    if isinstance(value, pf.Tensor):
        return value
    parts = _parts(value, n)
    if parts is None:
        return leaf(what, name, value, ints)
    return _like(value, [tree(what, f"{name}[{k!r}]", v, n, ints) for k, v in parts])


def _parts(value: Any, n: int | None = -1) -> Iterable[tuple[Any, Any]] | None:
    """The trees that a tree is made of, by their keys; None for a leaf. `n`: see `_are_samples`."""
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if _is_list(value) and not _are_samples(value, n) else None


def _like(container: Any, parts: list[Any]) -> Any:
    """`parts` in a container of the same kind."""
    if isinstance(container, Mapping):
        return dict(zip(container, parts, strict=True))
    if isinstance(container, tuple):
        return type(container)(*parts) if hasattr(container, "_fields") else tuple(parts)
    return parts


def leaf(what: str, name: str, value: Any, ints: bool = False) -> pf.Tensor:
    """What has a sample in each row, as a tensor on the CPU. A table becomes float32."""
    at = f"{what}: {name}" if name else what
    if is_pandas(value):
        return pf.from_numpy(_of_pandas(at, value, ints))
    if is_pil(value) or (_is_list(value) and value and is_pil(value[0])):
        return pf.from_numpy(_of_images(at, value))
    text = value
    while _is_list(text) and text:
        text = text[0]
    kind = getattr(value, "dtype", None)
    if isinstance(text, str | bytes) or getattr(kind, "kind", "") in ("S", "U"):
        of = f"text {text!r}" if isinstance(text, str | bytes) else f"an array of texts ({kind})"
        raise ValueError(
            f"{at}: expected numbers, got {of}; of names make class numbers: "
            "names, numbers = np.unique(names, return_inverse=True)"
        )
    if getattr(kind, "kind", "") == "O":
        raise TypeError(
            f"{at}: expected numbers, got an array of Python objects (dtype=object); "
            "where its rows have different lengths, pad them, else use .astype(np.float32)"
        )
    try:
        if is_array(value) and not isinstance(value, pf.Tensor | np.ndarray | np.generic):
            value = np.asarray(value)
        return pf.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError) as e:
        raise type(e)(f"{at}: got {seen(value)}: {e}") from None


def _of_pandas(at: str, value: Any, ints: bool) -> np.ndarray:
    """A table as float32, a column as it is; TypeError that names columns without numbers."""
    table = value.ndim == 2
    columns = [(c, value.dtypes.iloc[i]) for i, c in enumerate(value.columns)] if table else []
    kinds = columns if table else [(value.name, value.dtype)]
    odd = [f"{c!r} ({d})" for c, d in kinds if getattr(d, "kind", "O") not in "biuf"]
    if odd:
        which, them = ("columns", "them") if len(odd) > 1 else ("the column", "it")
        raise TypeError(
            f"{at}: expected a {type(value).__name__} of numbers, got {which} {', '.join(odd)}; "
            f"make numbers of {them} by pd.get_dummies(…), .cat.codes or .astype(float), or leave "
            f"{'them' if table else 'it'} out"
        )
    whole = all(d.kind in "iu" for _, d in kinds)
    if whole and (ints or not table):
        gaps = int(value.isna().to_numpy().reshape(len(value), -1).any(1).sum())
        if gaps:
            raise ValueError(
                f"{at}: {gaps} of the {len(value)} rows of the {type(value).__name__} have missing "
                "values where ints are expected; use .dropna() or .fillna(…)"
            )
        return np.ascontiguousarray(value.to_numpy(np.int64))
    if not table and kinds[0][1].kind == "b":
        return np.ascontiguousarray(value.to_numpy(bool))
    return np.ascontiguousarray(value.to_numpy(np.float32, na_value=np.nan))


def _of_images(at: str, value: Any) -> np.ndarray:
    """Images of one size as (N, C, H, W) uint8, or whatever dtype their mode has."""
    fix = "vision.transforms.ToTensor() makes a tensor of an image"
    if not _is_list(value):
        raise TypeError(f"{at}: expected a list of images, got one image; {fix}")
    for i, image in enumerate(value):
        if not is_pil(image) or (image.size, image.mode) != (value[0].size, value[0].mode):
            got = f"{image.mode} {image.size}" if is_pil(image) else seen(image)
            raise ValueError(
                f"{at}: expected images of one size and mode, got "
                f"{value[0].mode} {value[0].size} first and {got} as number {i}; use "
                f".convert('RGB') and .resize(…) of each, {fix}"
            )
    if value[0].mode == "P":
        raise TypeError(
            f"{at}: the images are of mode P: numbers of colours in a palette; use "
            f".convert('RGB') of each, {fix}"
        )
    array = np.stack([np.asarray(image) for image in value])
    array = array[:, None] if array.ndim == 3 else np.moveaxis(array, 3, 1)
    return np.ascontiguousarray(array)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a tree with their names, such as inputs['image'] or inputs[0]."""
    parts = _parts(value)
    if parts is None:
        yield name, value
        return
    for k, v in parts:
        yield from leaves(f"{name}[{k!r}]", v)


def map_tree(fn: Callable[..., Any], value: Any, *others: Any) -> Any:
    """The tree with fn(leaf, *leaves of the others at the same keys) for each of its leaves, which
    are tensors."""
    if isinstance(value, pf.Tensor):
        return fn(value, *others)
    if isinstance(value, Mapping):
        return {k: map_tree(fn, v, *[o[k] for o in others]) for k, v in value.items()}
    if _is_list(value):
        return _like(value, [map_tree(fn, *at) for at in zip(value, *others, strict=True)])
    return fn(value, *others)


def tensors(value: Any) -> list[pf.Tensor]:
    """The tensors in a tree."""
    found: list[pf.Tensor] = []
    map_tree(lambda x: found.append(x) if isinstance(x, pf.Tensor) else None, value)
    return found


def _rows_of(value: Any) -> int | None:
    """How many samples a leaf has; None for what has no first dim."""
    if is_array(value):
        return int(value.shape[0]) if len(value.shape) else None
    return len(value) if hasattr(value, "__len__") and not isinstance(value, str | bytes) else None


def _agree(what: str, parts: Sequence[tuple[str, Any]], flat: bool = False) -> int:
    """The samples of all leaves of parts (name, tree); ValueError that names one with others.

    `flat`: targets may have a multiple, as those of sequences do that lie in one row."""
    first, n = "", -1
    for part, value in parts:
        for name, x in leaves(part, value):
            m = _rows_of(x)
            if m is None:
                raise ValueError(
                    f"{what}: {name} has no first dim, which counts the samples; expected a batch "
                    f"of them, got {seen(x)}; of single samples a DataLoader makes batches: "
                    "data.DataLoader(samples, batch_size=64, shuffle=True)"
                )
            if n < 0:
                first, n = name, m
            elif m != n and not (flat and part == "targets" and n and m > n and m % n == 0):
                raise ValueError(
                    f"{what}: {first} has {n} samples, {name} {m}; expected as many in each"
                )
    if n < 0:
        raise ValueError(f"{what}: expected tensors or arrays, got an empty {parts[0][0]}")
    return n


# --- data in memory


class Rows(Dataset[Any]):
    """Samples are the rows of all leaves of a tree."""

    def __init__(self, tree: Any, length: int) -> None:
        self.tree, self.length = tree, length

    def __getitem__(self, index: Any) -> Any:
        return map_tree(lambda t: t[index], self.tree)

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        rows = np.asarray(indices, np.int64)
        return map_tree(lambda t: t[rows], self.tree)

    def __len__(self) -> int:
        return self.length


def _is_pair(data: Any) -> bool:
    """Whether `data` is (x, y) or (x, y, weights), and no list of batches."""
    if isinstance(data, list):
        return len(data) == 2 and all(is_array(d) or is_pandas(d) for d in data)
    return isinstance(data, tuple) and len(data) in (2, 3)


def _known_rows(*values: Any) -> int | None:
    """How many samples the first of some trees has that says so without doubt; None if none does:
    a list of arrays may be samples or several inputs."""
    for value in values:
        n = None
        if is_array(value) or is_pandas(value):
            n = _rows_of(value)
        elif isinstance(value, Mapping):
            n = _known_rows(*value.values())
        elif _is_list(value) and value:
            if isinstance(value[0], int | float | np.number | bool) or is_pil(value[0]):
                n = len(value)
            elif isinstance(value, tuple):
                n = _known_rows(*value)
        if n is not None:
            return n
    return None


def _pair(what: str, data: Any, sample_weight: Any) -> Rows:
    """(x, y) or (x, y, weights) as a data set of their rows."""
    if len(data) == 3 and sample_weight is not None:
        raise ValueError(
            f"{what}: got sample_weight= and weights as third part of the data; give one of them"
        )
    x, y = data[0], data[1]
    weights = data[2] if len(data) == 3 else sample_weight
    n = _known_rows(y, x)
    x, y = tree(what, "inputs", x, n), tree(what, "targets", y, n, ints=True)
    n = _agree(what, (("inputs", x), ("targets", y)))
    if n == 0:
        raise ValueError(f"{what}: the data is empty: inputs and targets have no samples")
    if weights is None:
        return Rows([x, y], n)
    return Rows([x, y, sample_weights(what, weights, n)], n)


def split_off(data: Any, share: Any, given: Any, weight: Any) -> tuple[Any, Any]:
    """What to train on and, of the last samples, what to validate with. ValueError for what has no
    last samples, and for a `share` that leaves one of them none."""
    if given is not None:
        raise ValueError("fit: give validation_data= or validation_split=, not both")
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ValueError(
            f"fit: validation_split is a share of the samples, such as 0.2, got {share!r}"
        )
    rows = _pair("fit", data, weight) if _is_pair(data) else data
    if not isinstance(rows, Dataset) or isinstance(rows, IterableDataset):
        raise ValueError(
            "fit: validation_split splits (x, y) in memory or a Dataset, got "
            f"{seen(data)}; give validation_data="
        )
    n = len(rows)  # type: ignore[arg-type]
    cut = int(n * (1 - share))
    if not 0 < cut < n:
        raise ValueError(
            f"fit: validation_split={share} of {n} samples leaves {cut} to train on and "
            f"{n - cut} to validate with"
        )
    return Subset(rows, range(cut)), Subset(rows, range(cut, n))


def sample_weights(what: str, given: Any, n: int) -> Any:
    """`given` as weights of n samples, floats (n,), or as a tree of them where there are several
    losses; ValueError for what can be none."""
    return map_tree(lambda w: _weights(what, w, n), tree(what, "sample_weight", given, n))


def _weights(what: str, w: pf.Tensor, n: int) -> pf.Tensor:
    if w.ndim == 2 and w.shape[1] == 1:
        w = w[:, 0]
    if w.ndim != 1 or len(w) != n:
        raise ValueError(
            f"{what}: expected as many sample weights as samples, {n}, got shape {list(w.shape)}"
        )
    w = w if w.is_floating_point() else w.float()
    if w.device.kind == "cpu":  # nothing is read from a GPU for a check
        array = w.detach().numpy()
        bad = check.bad_weight(array)
        if bad is not None:
            raise ValueError(
                f"{what}: sample weights must be finite and not negative, got {array[bad]} for "
                f"sample {bad}"
            )
        if n and not array.any():
            raise ValueError(f"{what}: all sample weights are 0, so nothing would be trained")
    return w


# --- what the methods of Model call


def as_loader(
    what: str, data: Any, *, batch_size: Any, shuffle: bool, sample_weight: Any = None,
    labelled: bool = True,
) -> Any:  # fmt: skip
    """`data` as an iterable of batches, with len() where it is known.

    (x, y) and (x, y, weights) of trees become a DataLoader of their rows, a Dataset one of its
    samples; a DataLoader or what gives batches in another way stays as it is. Without `labelled`, a
    tree alone is data too, as for a training_step of one's own. Raises TypeError or ValueError."""
    if _is_pair(data) and labelled:
        data = _pair(what, data, sample_weight)
    elif sample_weight is not None:
        raise ValueError(
            f"{what}: sample_weight goes with (x, y) in memory, got {seen(data)}; let its "
            "batches be (inputs, targets, weights)"
        )
    elif not labelled and _is_tree(data):
        data = tree(what, "data", data, -1 if _is_pair(data) else None)
        data = Rows(data, _agree(what, (("data", data),)))
    check.batches(what, data)
    if isinstance(data, Dataset) or not hasattr(data, "__iter__"):
        shuffle = shuffle and not isinstance(data, IterableDataset)
        data = DataLoader(data, batch_size=check.batch_size(what, batch_size), shuffle=shuffle)
    return data


def _is_tree(data: Any) -> bool:
    """Whether `data` lies in memory, and is no list of batches."""
    if isinstance(data, DataLoader | Dataset):
        return False
    if isinstance(data, list):
        return _is_pair(data) or (_are_samples(data) and bool(data) and not is_array(data[0]))
    return is_array(data) or is_pandas(data) or isinstance(data, Mapping | tuple)


def inputs_of(what: str, data: Any, *, batch_size: Any, net: nn.Module) -> Iterator[Any]:
    """Batches of inputs alone; of batches that are tuples or lists, what stands first.

    A tuple or dict of arrays is several inputs, a list of arrays of equal shape is samples. Of a
    `net` of one input (x, y) is not taken. TypeError or ValueError for what can't be used."""
    size = check.batch_size(what, batch_size)
    in_memory = _is_list(data) or is_array(data) or is_pandas(data) or is_pil(data)
    if not in_memory and not isinstance(data, Mapping | str | bytes | type):
        streams = hasattr(data, "__iter__")
        if isinstance(data, Dataset) or (hasattr(data, "__getitem__") and not streams):
            data = DataLoader(data, size)
        if hasattr(data, "__iter__"):
            check.batches(what, data)
            for batch in data:
                yield batch[0] if _is_list(batch) and not _are_samples(batch) else batch
            return
    if _is_list(data) and not _are_samples(data, None) and _forward(net).takes_one:
        shapes = [list(x.shape) for _, x in leaves("", data) if is_array(x)]
        raise TypeError(
            f"{what}: expected the inputs alone, got {len(data)} tensors of the shapes "
            f"{', '.join(map(str, shapes))}; of (x, y) give x"
        )
    x = tree(what, "" if not isinstance(data, Mapping) else "inputs", data)
    n = 0
    if not isinstance(x, pf.Tensor) or x.ndim:
        n = _agree(what, (("inputs", x),))
    if n == 0:
        raise ValueError(
            f"{what}: expected a batch of samples, got "
            + (f"shape {list(x.shape)}" if isinstance(x, pf.Tensor) else seen(data))
        )
    for i in range(0, n, size):
        yield map_tree(lambda rows, i=i: rows[i : i + size], x)


def split(what: str, batch: Any) -> tuple[Any, Any, Any]:
    """(inputs, targets, weights or None) of (inputs, targets) or (inputs, targets, weights).

    ValueError for another batch, or for leaves that have not as many samples; targets may have a
    multiple of them, as those of sequences do that lie in one row."""
    if not _is_list(batch) or len(batch) not in (2, 3):
        check.pair(what, batch)
    x, y = batch[0], batch[1]
    if len(batch) == 2:
        if isinstance(x, pf.Tensor) and isinstance(y, pf.Tensor):  # nearly always
            shape, other = x.shape, y.shape
            if shape and other and shape[0] == other[0]:
                return x, y, None
        _agree(what, (("inputs", x), ("targets", y)), flat=True)
        return x, y, None
    n = _agree(what, (("inputs", x), ("targets", y)), flat=True)
    for _, w in leaves("", batch[2]):
        floats = is_array(w) and "float" in str(w.dtype)
        if not floats or tuple(w.shape) != (n,):
            got = f"{w.dtype} of shape {list(w.shape)}" if is_array(w) else seen(w)
            check.pair(
                what, batch, f". A third part would be weights, floats of shape [{n}], and is "
                f"{got}; several inputs go as ((a, b), y)",
            )  # fmt: skip
    return x, y, batch[2]


def count(what: str, tree: Any) -> int:
    """The samples of a batch: the first dim of its first leaf. ValueError where it has none."""
    first = tree if isinstance(tree, pf.Tensor) else next((x for _, x in leaves("", tree)), None)
    n = _rows_of(first)
    if n is None:
        raise expected(what, "batches of samples", first, error=ValueError)
    return n


def to_device(what: str, tree: Any, device: Any, dtype: Any, *, images: bool = False) -> Any:
    """The tree with tensors on `device` for leaves; floats take `dtype` (None: they keep theirs),
    as NumPy's own are float64, and with `images` so do uint8 of three dims or more."""
    if isinstance(tree, pf.Tensor):
        image = images and tree.dtype is pf.uint8 and tree.ndim > 2
        taken = dtype is not None and (image or tree.is_floating_point())
        return tree.to(device, dtype) if taken else tree.to(device)
    parts = _parts(tree)
    if parts is None:
        return to_device(what, leaf(what, "", tree), device, dtype, images=images)
    return _like(tree, [to_device(what, v, device, dtype, images=images) for _, v in parts])


def tell_conversions(inputs: Any, dtype: Any) -> None:
    """Say once in a process what `to_device` makes of inputs: float64 and images of uint8."""
    for name, x in leaves("inputs", inputs):
        kind = str(getattr(x, "dtype", "")).rpartition(".")[2]
        if dtype is None or not is_array(x) or kind == str(dtype).rpartition(".")[2]:
            continue
        to = str(dtype).rpartition(".")[2]
        if kind == "float64":
            notice("float64", f"fit: {name} is float64 and becomes {to}, as the network is")
        elif kind == "uint8" and len(x.shape) > 2:
            notice(
                "uint8",
                f"fit: {name} is uint8 and becomes {to} from 0 to 255; networks learn better "
                "from 0 to 1: x / 255, or vision.transforms.ToTensor() in the data set",
            )


# --- how a network takes its inputs


class _Forward:
    """What the signature of a network's forward says, and what was decided from it."""

    def __init__(self, net: nn.Module) -> None:
        self.how: dict[Any, str] = {}  # by the names, or the number, of inputs
        self.name = type(net).__name__
        sequential = type(net) is nn.Sequential
        module: Any = net
        while type(module) is nn.Sequential and len(module):  # it gives its first module one input
            module = module[0]
        self.own = module_of(type(module)).partition(".")[0] != "pyframe"  # is it the user's?
        self.signature = check.signature(module)
        if self.signature is None:
            return
        params = list(self.signature.parameters.values())
        both = _Param.POSITIONAL_OR_KEYWORD
        by_position = [p for p in params if p.kind in (_Param.POSITIONAL_ONLY, both)]
        self.most = len(by_position)  # inputs by position
        stars = (_Param.VAR_POSITIONAL, _Param.VAR_KEYWORD)
        self.needed = [p.name for p in params if p.default is _Param.empty and p.kind not in stars]
        self.known = {p.name for p in params if p.kind in (both, _Param.KEYWORD_ONLY)}
        self.any_number = any(p.kind is _Param.VAR_POSITIONAL for p in params)
        self.any_name = any(p.kind is _Param.VAR_KEYWORD for p in params)
        if sequential:
            self.most, self.needed, self.known = min(self.most, 1), self.needed[:1], set()
            self.any_number = self.any_name = False

    @property
    def takes_one(self) -> bool:
        """Whether the network takes one tensor and no tuple of them."""
        return not (self.signature is None or self.own or self.any_number) and self.most == 1

    def of_names(self, names: tuple[Any, ...]) -> str:
        """How forward takes a dict; TypeError if not at all."""
        if self.signature is None:
            return "names"
        given = set(names)
        missing = [n for n in self.needed if n not in given]
        extra = [] if self.any_name else [n for n in names if n not in self.known]
        if not missing and not extra:
            return "names"
        if self.own and len(self.needed) == 1 and not given & self.known:
            return "whole"
        if self.needed and not self.known:
            raise self._error(f"a dict with the keys {list(names)}", "takes one input by position")
        why = [f"needs {missing}"] if missing else []
        why += [f"does not know {extra}"] if extra else []
        raise self._error(f"a dict with the keys {list(names)}", " and ".join(why))

    def of_parts(self, n: int) -> str:
        """How forward takes n inputs in a tuple or list; TypeError if not at all."""
        if self.signature is None or self.any_number:
            return "parts"
        if self.most == 1:
            if self.own:
                return "whole"
            if n == 1:
                return "parts"
            raise self._error(f"{n} in a row", "takes one; of (x, y) give x")
        positional = [
            p for p in self.needed if self.signature.parameters[p].kind is not _Param.KEYWORD_ONLY
        ]
        if not len(positional) <= n <= self.most:
            few = len(positional)
            wanted = f"{few}" if few == self.most else f"{few} to {self.most}"
            raise self._error(f"{n} in a row", f"takes {wanted}")
        return "parts"

    def _error(self, got: str, why: str) -> TypeError:
        return TypeError(
            f"{self.name}: got inputs that are {got}, but forward{self.signature} {why}"
        )


_forwards: weakref.WeakKeyDictionary[nn.Module, _Forward] = weakref.WeakKeyDictionary()


def _forward(net: nn.Module) -> _Forward:
    found = _forwards.get(net)
    if found is None:
        found = _forwards[net] = _Forward(net)
    return found


def call(net: nn.Module, inputs: Any) -> Any:
    """net(x) of a tensor, net(*inputs) of several, net(**inputs) of a dict with forward's names.

    A forward of one parameter gets a tuple as it is, and a dict whose keys are not its names.
    TypeError for inputs that forward does not take."""
    if isinstance(inputs, pf.Tensor):
        return net(inputs)
    names = isinstance(inputs, Mapping)
    if not names and not _is_list(inputs):
        return net(inputs)
    forward = _forward(net)
    key = tuple(inputs) if names else len(inputs)
    how = forward.how.get(key)
    if how is None:
        how = forward.of_names(key) if names else forward.of_parts(key)  # type: ignore[arg-type]
        forward.how[key] = how
    if how == "names":
        return net(**inputs)
    return net(*inputs) if how == "parts" else net(inputs)


def _rows(dataset: Any) -> list[tuple[str, Any]]:
    """All inputs and targets of a data set that lie in tensors, by name; [] of others."""
    if isinstance(dataset, Subset):
        return [(name, t[dataset.indices]) for name, t in _rows(dataset.dataset)]
    if isinstance(dataset, TensorDataset):
        return list(zip(("inputs", "targets"), dataset.tensors, strict=False))
    return _named(getattr(dataset, "tree", None))


def _named(batch: Any) -> list[tuple[str, Any]]:
    """The tensors of a batch, by the names that errors call them by."""
    if isinstance(batch, tuple | list) and len(batch) in (2, 3):
        parts = zip(("inputs", "targets", "sample weights"), batch, strict=False)
    else:
        parts = zip(("batch",), (batch,), strict=True)
    found = [leaf for name, part in parts for leaf in leaves(name, part)]
    return [(name, t) for name, t in found if isinstance(t, pf.Tensor)]


async def not_finite(loader: Any, batch: Any, step: int) -> str:
    """Why a loss may be nan or inf: looks for such values in the data, as far as it is at hand."""
    rows = _rows(getattr(loader, "dataset", None))
    for of, data in (("data", rows), ("batch at hand", _named(batch))):
        for name, t in data:
            if not t.is_floating_point():
                continue
            (bad,) = await gather_async([~pf.isfinite(t.detach()).reshape(len(t), -1).all(1)])
            if bad.any():
                return (
                    f"the {name} hold nan or inf: {bad.sum()} of the {len(bad)} samples of the "
                    f"{of}, the first is number {bad.argmax()}; clean the data, no learning rate "
                    "mends it"
                )
    known = "the data is" if rows else "the other batches were not looked at, this one is"
    left = "; where a fit before left nan in the weights, begin with new ones" if step == 1 else ""
    return f"{known} finite: a lower learning rate or scaled inputs often help{left}"


def where_class(error: IndexError, loader: Any) -> None:
    """Add to the error of a class out of range which targets of the data have it, where the data
    lies in tensors on the CPU."""
    text = str(error)
    got = re.search(r"target out of range.*got (-?\d+)", text)
    if got is None:
        return
    for name, t in _rows(getattr(loader, "dataset", None)):
        if name.startswith("targets") and t.device.kind == "cpu" and not t.is_floating_point():
            hits = (t.numpy() == int(got[1])).reshape(len(t), -1).any(1)
            if hits.any():
                n, first = int(hits.sum()), int(hits.argmax())
                text += f". {n} of the {len(t)} {name} hold it, the first is number {first}"
                error.args = (text,)
