"""An ONNX file as a program for a page: `pyframe export model.onnx`, and `OnnxFile` in Python.

A model of one input and one output whose first dim is a batch is a network to a page, which shows
it and may train it. Any other is a function "predict" of inputs and outputs by the file's names.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn, optim
from pyframe.core.sizes import MIN_SYMBOLIC_SIZE
from pyframe.onnx import values
from pyframe.onnx.files import Reader
from pyframe.onnx.module import OnnxModule
from pyframe.train import Model
from pyframe.web import fitting
from pyframe.web.demo import Slider
from pyframe.web.programs import ExportError, File

OPEN = 0  # a size that the file does not say
BATCH = 16  # samples of a step, by default
OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda p, lr: optim.AdamW(p, lr=lr),
    "adam": lambda p, lr: optim.Adam(p, lr=lr),
    "sgd": lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9),
}
LOSSES = ("cross-entropy", "bce", "mse")
SIZE = re.compile(r"(\d+)(\*?)")


@dataclass
class OnnxFile(File):
    """An ONNX model for `pf.web.export`.

    `shapes`: of inputs whose sizes the file leaves open, by their names: "1x3x48x320"; a size with
    a star may be any, with WebGPU alone. `values`: of inputs that are no inputs of the page.
    `outputs`: those that the page gives (default: all). `labels`: what the classes are called.
    `data`: (x, y) to learn from. `loss` ("cross-entropy", "bce", "mse"; by default what fits the
    output), `optimizer` ("adamw", "adam", "sgd") and `lr` are of training.
    """

    path: str | os.PathLike[str]
    shapes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    data: tuple[Any, Any] | None = None
    loss: str | None = None
    optimizer: str = "adamw"
    lr: float = 1e-3

    def program(self, train: bool, batch_size: int | None) -> tuple[Any, Any, dict[str, Any]]:
        try:
            inputs, made_by, ints = _read(self.path)
            net = _Net(self.path, self.values, self.outputs)
        except (ValueError, NotImplementedError) as error:
            raise ExportError(f"{self.path}: {error}") from error
        about: dict[str, Any] = {"title": Path(self.path).stem, "trained": True}
        for name in net.free:
            self._check_input(name, inputs[name][0], net)
        shapes = {name: self._shape(name, inputs[name][1], net) for name in net.free}
        x = {name: _sample(inputs[name][0], shapes[name]) for name in net.free}
        name, given = next(iter(x.items()), ("", None))
        known = inputs[name][1][:1] if x else []
        known = [n if isinstance(n, int) else OPEN for n in known]
        batch = (
            len(x) == len(net.chosen) == 1
            and not any(any_ for _, any_ in shapes[name][1:])
            and self._takes_batches(net, name, given, known)
        )
        if train:
            self._check_training(net, batch, ints)
        if not batch:
            self._run(net, x)
            about["description"] = _described(net, x)
            return {"predict": net}, {"predict": x}, about
        ((name, given),) = x.items()
        open_batch = inputs[name][1][:1] == [None]
        n = (batch_size or BATCH) if train and open_batch else len(given)
        some = _sample(
            inputs[name][0], [(max(n, 2) if open_batch else n, False), *shapes[name][1:]]
        )
        found = self._run(net, {name: some})
        kind, axis = _kind_of(found, made_by(net.output_names[net.chosen[0]]))
        loss = self.loss or _loss_of(found, kind)
        shape = tuple(found.shape[1:])
        classes = loss == "cross-entropy" if train or self.loss else None
        scores = bool(kind) or len(self.labels) > 0 or classes
        about["input"] = fitting.input_of(some, True if scores is None else scores)
        about["output"] = self._output(shape, kind, scores)
        if about["output"] is None:
            about["input"] = None
        if about["input"] is None:
            about["description"] = _described(net, x)
        if not train:
            return net, given, about
        model, y = self._model(net, found, loss, kind, axis)
        about["controls"] = [
            Slider(
                "lr", self.lr / 100, self.lr * 100, self.lr, log=True, label="Learning rate"
            ).spec()
        ]
        about["batch_size"] = n
        data = (some[:n], y[:n]) if self.data is None else self._data(some, y)
        return model, data, about

    # --- inputs

    def _shape(self, name: str, known: list[Any], net: OnnxModule) -> list[tuple[int, bool]]:
        """Sizes of an input in the sample, and whether each may be another."""
        shape = [(n if isinstance(n, int) else None, False) for n in known]
        said = self.shapes.get(name)
        if said is None and len(net.input_names) == len(self.values) + 1:
            said = self.shapes.get("")
        if said is not None:
            found = [SIZE.fullmatch(part) for part in said.split("x")]
            fits = len(found) == len(shape) and all(
                m is not None and int(m[1]) and n in (None, int(m[1]))
                for m, (n, _) in zip(found, shape, strict=True)
            )
            if not fits:
                raise ExportError(
                    f"--shape {said} does not fit the input {name!r} of {_spelt(known)}: expected "
                    f"{len(shape)} sizes, as in {_spelt([n or 1 for n, _ in shape])}"
                )
            return [
                (max(int(m[1]), MIN_SYMBOLIC_SIZE if m[2] else 1), bool(m[2])) for m in found if m
            ]
        if shape and shape[0][0] is None:
            shape[0] = 1, False
            shape = [(1 if k == known[0] and isinstance(k, str) else n, any_)
                     for k, (n, any_) in zip(known, shape, strict=True)]  # fmt: skip
        if any(n is None for n, _ in shape):
            there = "x".join("?" if n is None else str(n) for n, _ in shape)
            raise ExportError(
                f"the input {name!r} has open sizes, {there}, and a page's programs are for known "
                f"ones: give them, as --shape {name}={there} with numbers for ?; one with a star, "
                "as 320*, may be any in the page, with WebGPU alone"
            )
        return [(n or 1, any_) for n, any_ in shape]

    def _check_input(self, name: str, dtype: Any, net: OnnxModule) -> None:
        if name in net.deciding:
            raise ExportError(
                f"the input {name!r} decides what is computed, which a page's program can't ask: "
                f"give its value, as --value {name}=1"
            )
        if dtype is None or dtype.kind not in "fiub" or dtype == np.float64:
            what = "no tensor" if dtype is None else "of strings" if dtype.kind == "U" else dtype
            raise ExportError(
                f"the input {name!r} is {what}; a page's programs take float32, float16 and ints: "
                "export the model with one of them"
            )

    def _takes_batches(self, net: _Net, name: str, given: Any, known: list[Any]) -> bool:
        """Whether it gives as many results as it takes samples."""
        if not known or known[0] not in (1, OPEN):
            return False
        n = 2 if known[0] == OPEN else 1
        found = self._run(net, {name: given[:1].expand(n, *given.shape[1:])})
        return bool(found.ndim) and found.shape[0] == n

    def _run(self, net: _Net, x: dict[str, Any]) -> Any:
        try:
            with pf.no_grad():
                return net(**x)
        except Exception as error:
            where = "; ".join(getattr(error, "__notes__", ()))
            sizes = ", ".join(f"{name}={_spelt(v.shape)}" for name, v in x.items())
            raise ExportError(
                f"{self.path} can't be computed for {sizes}: {error} ({where}); give other sizes "
                "with --shape"
            ) from error

    # --- training

    def _check_training(self, net: _Net, batch: bool, ints: tuple[str, int]) -> None:
        why = ""
        if len(net.free) != 1:
            why = f"it has the inputs {', '.join(net.free)}: give all but one by --value"
        elif len(net.chosen) != 1:
            why = f"it has the outputs {', '.join(net.output_names)}: pick one by --output"
        elif not batch:
            why = "it gives no result for each sample of its input's first dim: export it so"
        kind, packed = ints
        if sum(p.numel() for p in net.parameters() if p.ndim > 1) <= packed:
            why = "it has no weights to learn"
            if packed:
                why = f"its weights are {kind}: take the file from before it was quantized"
        if why:
            raise ExportError(f"{self.path} can't be trained, as {why}; or leave out --train")

    def _model(self, net: _Net, out: Any, loss: str, kind: str, axis: int) -> tuple[Model, Any]:
        if self.optimizer not in OPTIMIZERS or loss not in LOSSES:
            expected = f"{', '.join(OPTIMIZERS)}, and as a loss {', '.join(LOSSES)}"
            raise ExportError(f"{self.optimizer} and {loss}: expected as an optimizer {expected}")
        if not out.is_floating_point():
            raise ExportError(
                f"{self.path} can't be trained: its output {net.output_names[net.chosen[0]]!r} is "
                "of ints; pick another by --output"
            )
        y = pf.zeros(*out.shape)
        metrics = []
        if loss == "cross-entropy":
            if out.ndim < 2 or out.shape[axis] < 2:
                raise ExportError(
                    f"the output has the shape {_spelt(out.shape)} and no classes for cross-entropy"
                    ": expected --loss bce or mse"
                )
            y = pf.zeros(*[n for d, n in enumerate(out.shape) if d != axis % out.ndim]).long()
            metrics = ["accuracy"] if out.ndim == 2 else []
        optimizer = OPTIMIZERS[self.optimizer](net.parameters(), self.lr)
        return Model(net, _OutputLoss(loss, kind, axis), optimizer, metrics=metrics), y

    def _data(self, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        assert self.data is not None
        given = tuple(np.asarray(a) for a in self.data)
        for name, a, like in zip("xy", given, (x, y), strict=True):
            want = tuple(like.shape[1:])
            if a.shape[1:] != want or not len(a) or len(a) != len(given[0]):
                raise ExportError(
                    f"the data's {name} has the shape {a.shape}; expected {('n', *want)}, with as "
                    "many targets as samples"
                )
        kinds = [np.float32 if like.is_floating_point() else np.int64 for like in (x, y)]
        return given[0].astype(kinds[0]), given[1].astype(kinds[1])

    # --- what is shown

    def _output(self, shape: tuple[int, ...], kind: str, scores: bool | None) -> Any:
        found = fitting.output_of(shape, scores)
        if found is None or found["kind"] != "bars":
            return found
        if self.labels:
            if len(self.labels) != len(found["names"]):
                raise ExportError(
                    f"there are {len(self.labels)} labels, and the model has {len(found['names'])} "
                    "classes"
                )
            found["names"] = list(self.labels)
        found["scores"] = kind not in ("probabilities", "sigmoid")
        return found


class _Net(OnnxModule):
    """A model of which some inputs are given, and some outputs asked for.

    It stays as the file says also while it learns: a visitor's few samples move no batch norm's
    statistics, and the loss is of what the page predicts.
    """

    def __init__(self, path: Any, given: Mapping[str, Any], outputs: tuple[str, ...]) -> None:
        super().__init__(path)
        for what, names, known in (
            ("input", given, self.input_names), ("output", outputs, self.output_names),
        ):  # fmt: skip
            odd = next((name for name in names if name not in known), None)
            if odd is not None:
                raise ValueError(f"{odd!r} is no {what}; it has {', '.join(known)}")
        self.given = {name: np.asarray(value) for name, value in given.items()}
        self.free = [name for name in self.input_names if name not in given]
        self.deciding = self._plan.deciding
        self.chosen = [self.output_names.index(n) for n in outputs or self.output_names]

    def train(self, mode: bool = True) -> Any:
        return super().train(False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        found = super().forward(**dict(zip(self.free, args, strict=False)), **kwargs, **self.given)
        found = found if isinstance(found, tuple) else (found,)
        if len(self.chosen) == 1:
            return found[self.chosen[0]]
        return {self.output_names[i]: found[i] for i in self.chosen}


class _OutputLoss(nn.Module):
    """A loss of scores, or of what the file's last node made of them."""

    def __init__(self, name: str, kind: str, axis: int) -> None:
        super().__init__()
        self.name, self.kind, self.axis = name, kind, axis

    def forward(self, y: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
        if self.name == "mse":
            return nn.functional.mse_loss(y, target)
        if self.name == "bce":
            one = nn.functional.binary_cross_entropy
            return (one if self.kind else nn.functional.binary_cross_entropy_with_logits)(y, target)
        y = y.movedim(self.axis, 1)
        if self.kind == "probabilities":
            return nn.functional.nll_loss(y.clamp(min=1e-30).log(), target)
        return nn.functional.cross_entropy(y, target)  # of logarithms, too


def _read(path: Any) -> tuple[dict[str, tuple[Any, list[Any]]], Any, tuple[str, int]]:
    """dtype and sizes of each input (a name or None where a size is open), what tells which
    operator makes an output, and of what dtype and how many the weights of few bits are."""
    model = Reader(path).model
    inputs: dict[str, tuple[Any, list[Any]]] = {}
    for v in model.graph.input:
        tensor = v.type.tensor_type
        known = v.type.HasField("tensor_type") and tensor.elem_type
        dims = [d.dim_param or (d.dim_value if d.dim_value > 0 else None) for d in tensor.shape.dim]
        inputs[v.name] = values.numpy_dtype(tensor.elem_type) if known else None, dims
    makers = {name: node for node in model.graph.node for name in node.output}

    def made_by(name: str) -> str:
        while name in makers and makers[name].op_type in ("Identity", "Cast"):
            name = makers[name].input[0]
        return str(makers[name].op_type) if name in makers else ""

    dtypes = [(values.numpy_dtype(t.data_type).name, t) for t in model.graph.initializer]
    small = [(name, math.prod(t.dims)) for name, t in dtypes
             if len(t.dims) > 1 and re.fullmatch(r"u?int[248]", name)]  # fmt: skip
    return inputs, made_by, (small[0][0] if small else "", sum(n for _, n in small))


def _sample(dtype: Any, shape: list[tuple[int, bool]]) -> pf.Tensor:
    """Numbers between -1 and 1, or zeros where they are ints."""
    sizes = [n for n, _ in shape]
    x = np.zeros(sizes, dtype)
    if dtype.kind == "f":
        x = np.random.default_rng(0).uniform(-1, 1, sizes).astype(dtype)
        x[:1], x[1:2] = (-1, 1) if len(sizes) > 1 and sizes[0] > 1 else (x[:1], x[1:2])
    found = pf.from_numpy(x)
    pf.mark_dynamic(found, [d for d, (_, any_) in enumerate(shape) if any_])
    return found


def _kind_of(out: Any, maker: str) -> tuple[str, int]:
    """What an output is, as far as it tells, and along which axis its classes lie."""
    axis = -1 if out.ndim == 3 else 1
    if maker == "Sigmoid":
        return "sigmoid", axis
    if out.is_floating_point() and out.ndim > 1:
        for d in dict.fromkeys((axis, 1, out.ndim - 1)):
            if out.shape[d] > 1 and bool((out >= 0).all()) and _is_one(out.sum(d)):
                return "probabilities", d
    return "", axis


def _is_one(x: Any) -> bool:
    return bool(((x - 1).abs() < 1e-3).all())


def _loss_of(out: Any, kind: str) -> str:
    if kind == "sigmoid":
        return "bce"
    return "mse" if out.ndim < 2 or out[0].numel() == 1 else "cross-entropy"


def _spelt(shape: Any) -> str:
    return "x".join("?" if n is None else str(n) for n in shape) or "no dims"


def _described(net: _Net, x: dict[str, Any]) -> str:
    takes = ", ".join(f"{name} ({_spelt(v.shape)})" for name, v in x.items())
    gives = ", ".join(net.output_names[i] for i in net.chosen)
    return (
        f"It takes {takes} and gives {gives}: a script of the page's own asks with "
        "document.querySelector('py-frame').predict(…)."
    )
