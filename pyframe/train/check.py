"""What Model refuses: what was seen, what was expected, and the nearest fix."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core import module_of
from pyframe.core.words import did_you_mean, join_parts, plural
from pyframe.metrics import Metric
from pyframe.train.callbacks.base import Callback, LambdaCallback
from pyframe.train.labels import labels as labels
from pyframe.train.words import expected, is_array, is_pandas, listed, made, must, name_of, seen

EVENTS = ("on_fit_begin", "on_step", "on_epoch", "on_fit_end")
RESERVED = ("loss", "lr")  # quantities that logs have besides the metrics

# What Keras, Lightning and torchkeras call what is called otherwise here.
_OPTIONS = {
    "accumulate_grad_batches": "accumulate=",
    "ckpt_path": "resume=, and callbacks=[pf.train.ModelCheckpoint(path)]",
    "early_stopping": "patience=",
    "gradient_accumulation_steps": "accumulate=",
    "gradient_clip_val": "clip_norm=",
    "initial_epoch": "resume=, which goes on from a checkpoint",
    "lr": "the optimizer: optim.Adam(net.parameters(), lr=…)",
    "max_epochs": "epochs=",
    "precision": "mixed_precision=",
    "sample_weights": "sample_weight=",
    "steps_per_epoch": "a DataLoader with a sampler of fewer samples",
    "train_data": "the first argument",
    "val_data": "validation_data=",
    "val_dataloaders": "validation_data=",
}
_MEMBERS = {
    "compile": "Model(net, loss, optimizer, metrics) is ready, and its steps are compiled",
    "configure_optimizers": "give Model(net, loss, optimizer, lr_scheduler=…)",
    "eval": "evaluate and predict switch the modes of model.net themselves",
    "get_weights": "model.net.state_dict() has them",
    "load_state_dict": "it is model.net.load_state_dict, or model.load(path)",
    "load_weights": "it is model.load(path)",
    "log": "return what is to be logged from the step: {'loss': loss, 'name': number}",
    "log_dict": "return what is to be logged from the step: {'loss': loss, 'name': number}",
    "loss_fn": "it is model.loss",
    "manual_backward": "it is model.minimize(loss, optimizer)",
    "named_parameters": "it is model.net.named_parameters",
    "parameters": "it is model.net.parameters",
    "predict_on_batch": "it is model.predict(x)",
    "save_weights": "it is model.save(path)",
    "set_weights": "it is model.net.load_state_dict",
    "state_dict": "it is model.net.state_dict, or model.save_checkpoint(path) for all of it",
    "test_on_batch": "it is model.evaluate(batch)",
    "train": "fit and train_on_batch switch the modes of model.net themselves",
    "train_step": "it is model.train_on_batch(batch)",
}
_STEPS = {
    "train_step": "training_step",
    "test_step": "validation_step",
    "val_step": "validation_step",
    "configure_optimizers": "the arguments of Model(net, loss, optimizer, lr_scheduler=…)",
}
_EVENTS = {
    r"on_(train|fit)_(begin|start)": "on_fit_begin",
    r"on_(train|fit)_end": "on_fit_end",
    r"on_(\w+_)?epoch_start": "on_epoch_begin",
    r"on_(\w+_)?epoch_end": "on_epoch",
    r"on_(\w+_)?(batch|step)_end": "on_step",
}

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

if TYPE_CHECKING:

    class Method(Protocol[P, R]):
        """A method of (data, …), which takes (x, y, …) too."""

        def __get__(self, obj: Any, owner: Any = None) -> Bound[P, R]: ...

    class Bound(Protocol[P, R]):
        """Such a method of an object."""

        @overload
        def __call__(self, data: Any, *options: P.args, **named: P.kwargs) -> R: ...
        @overload
        def __call__(self, x: Any, y: Any, *options: P.args, **named: P.kwargs) -> R: ...


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the line that called fit, and each time: Python tells a text only once for a line,
    so that of a second fit of a notebook would be left out."""
    frame = found = sys._getframe(1)
    while found.f_back is not None and _is_between(found):
        found = found.f_back
    frame = frame if _is_between(found) else found
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry={})


def _is_between(frame: Any) -> bool:
    """Whether a frame is pyframe's, or of what runs its coroutines."""
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in ("pyframe", "asyncio", "threading", "concurrent")


def signature(fn: Any) -> inspect.Signature | None:
    """How a function, or the forward of a module, is called; None of what is written in C."""
    try:
        return inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn)
    except (TypeError, ValueError):
        return None


def _misfit(signature: inspect.Signature, *args: Any) -> TypeError | None:
    """Why a function can't be called with these arguments; None where it can."""
    try:
        signature.bind(*args)
    except TypeError as error:
        return error
    return None


def bad_weight(weights: np.ndarray) -> int | None:
    """The index of the first weight that is negative or not finite."""
    bad = ~np.isfinite(weights) | (weights < 0)
    return int(bad.argmax()) if bad.any() else None


# --- what a Model is made of


def parts(net: Any, loss: Any, optimizer: Any) -> None:
    """TypeError for what a Model can't be made of."""
    for name, one in (("net", net), *_entries("loss", loss), *_entries("optimizer", optimizer)):
        _of_torch(name, one)
    if not isinstance(net, nn.Module):
        _not_a_net(net)
    for name, one in _entries("loss", loss):
        if isinstance(one, type) or not callable(one):
            fix = made(one, "for example nn.CrossEntropyLoss()")
            if isinstance(one, pf.optim.Optimizer):
                fix = "the order is Model(net, loss, optimizer)"
            raise must(f"Model: {name}", "be a function of (output, target)", one, fix)
        _takes_two(f"the {name}", one)
    for name, one in _entries("optimizer", optimizer):
        if not isinstance(one, pf.optim.Optimizer):
            fix = "for example optim.Adam(net.parameters())"
            raise must(f"Model: {name}", "be an Optimizer", one, fix)


def _entries(name: str, given: Any) -> list[tuple[str, Any]]:
    """What is given as one thing, a dict or a list, with names; ValueError for an empty one."""
    if given is None:
        return []
    if not isinstance(given, Mapping | list | tuple):
        return [(name, given)]
    if not given:
        raise ValueError(f"Model: {name} is an empty {type(given).__name__}; expected at least one")
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    return [(f"{name}[{key!r}]", one) for key, one in pairs]


def _of_torch(name: str, value: Any) -> None:
    """TypeError for what is PyTorch's, or a library's on top of it."""
    kind = value if isinstance(value, type) else type(value)
    if module_of(kind).partition(".")[0] in ("torch", "torchmetrics"):
        raise TypeError(
            f"Model: {name} is {kind.__module__}.{kind.__name__}, which computes with PyTorch's "
            "tensors; pyframe has nn, optim and metrics of its own, by PyTorch's names"
        )


def _takes_two(what: str, fn: Any) -> None:
    """TypeError for a function that can't be called with (output, target)."""
    called = signature(fn)
    wrong = called and _misfit(called, None, None)
    if wrong is not None:
        raise TypeError(
            f"Model: {what} must be a function of (output, target), got one of {called}: {wrong}"
        )


def _not_a_net(value: Any) -> None:
    kind, fix = type(value), made(value)
    if not fix and isinstance(getattr(value, "fn", None), nn.Module):
        fix = "give the module itself, fit and evaluate compile their steps"
    elif isinstance(value, list | tuple):
        fix = "of a list of layers make nn.Sequential(*layers)"
    got = f"{kind.__module__}.{kind.__name__}" if kind.__name__ in dir(nn) else kind.__name__
    got = f"the class {value.__name__}" if isinstance(value, type) else got
    raise TypeError(join_parts(f"Model: net must be an nn.Module, got {got}", fix))


def optimizes(optimizer: Any, net: nn.Module, loss: Any) -> None:
    """ValueError where nothing that the optimizer holds belongs to the net (or to the loss)."""
    modules = [net, loss] if isinstance(loss, nn.Module) else [net]
    own = {id(p) for m in modules for p in m.parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if not any(id(p) in own for p in held):
        raise ValueError(
            f"fit: none of the {len(held)} parameters of the optimizer belongs to the net, so "
            f"nothing would be trained; make it of the net's own: "
            f"optim.{type(optimizer).__name__}(net.parameters())"
        )
    if _misfit(inspect.signature(optimizer.step)):
        raise TypeError(
            f"fit: {type(optimizer).__name__} computes the loss several times in a step, by a "
            "closure, as steps of a Model do not; write a loop of your own with "
            "optimizer.step(closure), or take Adam"
        )


def replaced(optimizers: Sequence[Any], net: nn.Module, losses: Sequence[nn.Module]) -> None:
    """Warn of parameters that no optimizer holds where one holds others that are in no module: a
    layer was replaced after the optimizer was made."""
    held = {id(p) for o in optimizers for group in o.param_groups for p in group["params"]}
    own = {id(p) for m in (net, *losses) for p in m.parameters()}
    left = [n for n, p in net.named_parameters() if p.requires_grad and id(p) not in held]
    if left and not held <= own:
        name = type(optimizers[0]).__name__
        warn(
            f"fit: no optimizer holds {_some(left)} of the net, and one holds "
            f"{len(held - own)} parameters that the net does not have: a layer was replaced after "
            "the optimizer was made, and the new one will not be trained. Make the optimizer after "
            f"that: optim.{name}(net.parameters(), …)",
            UserWarning,
        )


def free(what: str, model: Any) -> None:
    """RuntimeError where a model is in a fit already."""
    if model._loop is not None:
        raise RuntimeError(
            f"{what}: the model is in a fit already, whose callback or another thread calls this; "
            "train a copy (copy.deepcopy(model)), or go on when that fit has ended"
        )


# --- options


def targets_too(method: Callable[Concatenate[Any, Any, P], R]) -> Method[P, R]:
    """Let `method(x, y, …)` be `method((x, y), …)`: of two tuples it is not, which would rather be
    data for training and data for validation."""

    def in_memory(value: Any) -> bool:
        return isinstance(value, list | tuple | dict) or is_array(value) or is_pandas(value)

    @functools.wraps(method)
    def run(self: Any, data: Any, *args: Any, **options: Any) -> Any:
        two = bool(args) and in_memory(data) and in_memory(args[0])
        if two and not (isinstance(data, tuple) and isinstance(args[0], tuple)):
            data, args = (data, args[0]), args[1:]
        return method(self, data, *args, **options)

    return run  # type: ignore[return-value]


def waiting(
    twin: Method[P, Coroutine[Any, Any, R]],
) -> Callable[[Callable[..., R]], Method[P, R]]:
    """Let a method take what its `await` twin takes."""

    def known(method: Any) -> Any:
        method.__signature__ = inspect.signature(twin)  # type: ignore[arg-type]
        return targets_too(method)

    return known


def options(what: str, twin: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """TypeError for an option that the `await` twin does not have."""
    known = inspect.signature(twin).parameters
    wrong = [name for name in given if name not in known]
    if wrong:
        names = [n for n, p in known.items() if p.kind is p.KEYWORD_ONLY]
        fix = did_you_mean(wrong[0], [*names, *(n for n in ("epochs",) if n in known)])
        if wrong[0] in _OPTIONS and what == "fit":
            fix = f"here it is {_OPTIONS[wrong[0]]}"
        there = f"expected {', '.join(names)}"
        raise TypeError(join_parts(f"{what}: unexpected option {wrong[0]!r}", there, fix))


def no_member(model: Any, name: str) -> AttributeError:
    """The error of an attribute that a Model does not have."""
    lacks = f"{type(model).__name__!r} object has no attribute {name!r}"
    return AttributeError(join_parts(lacks, _MEMBERS.get(name, "")))


def steps(cls: type, base: type) -> None:
    """TypeError for a subclass of Model whose steps fit would not call, or not so."""
    own = vars(cls)
    for name, here in _STEPS.items():
        if name in own and getattr(cls, here, None) is getattr(base, here, None):
            raise TypeError(f"{cls.__name__}: Model never calls {name}; here it is {here}")
    for name in ("training_step", "validation_step"):
        step = own.get(name)
        if inspect.isfunction(step) and _misfit(inspect.signature(step), None, None):
            raise TypeError(
                f"{cls.__name__}.{name}{inspect.signature(step)}: it is called with the batch "
                f"alone; expected {name}(self, batch)"
            )


def count(what: str, name: str, value: Any, least: int) -> int:
    """`value` as an int; TypeError for what is none, ValueError if it is less than `least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        n = operator.index(value)
    except (TypeError, RuntimeError):
        data = name == "epochs" and not (isinstance(value, str | int | float) or value is None)
        fix = "what to validate on is given as validation_data=" if data else ""
        raise must(f"{what}: {name}", "be an int", value, fix) from None
    if n < least:
        raise ValueError(f"{what}: {name} must be at least {least}, got {n}")
    return n


def batch_size(what: str, value: Any) -> int:
    """`value`, a positive int; ValueError if not, as of a DataLoader."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"{what}: batch_size should be a positive integer value, but got "
            f"batch_size={seen(value)}"
        )
    return value


def flags(what: str, **given: Any) -> None:
    """TypeError for an option that is neither a bool nor an int."""
    for name, value in given.items():
        if not isinstance(value, int | np.bool_ | np.integer):
            known = "0, 1 or 2" if name == "verbose" else "True or False (1 or 0)"
            raise must(f"{what}: {name}", f"be {known}", value)


def callbacks(given: Any) -> list[Callback]:
    """The callbacks of fit; TypeError for what is none."""
    if given is None:
        return []
    if isinstance(given, Callback | type | str) or not isinstance(given, Iterable):
        one = f"{given.__name__}(…)" if isinstance(given, type) else "callback"
        raise must("fit: callbacks", "be a list", given, f"write callbacks=[{one}]")
    out = list(given)
    for c in out:
        fits = isinstance(c, Callback) or all(callable(getattr(c, e, None)) for e in EVENTS)
        if isinstance(c, type) or not fits:
            write = (
                "write a subclass of pf.train.Callback, with what is to be done in its on_step or "
                "on_epoch"
            )
            raise expected("fit", "instances of Callback", c, made(c, write))
        if isinstance(c, Callback):
            _called(c)
    return out


def _called(callback: Callback) -> None:
    """TypeError for a method that is called as an event of other libraries, which is never told,
    or that takes other arguments than are given."""
    kind = type(callback).__name__
    for name in LambdaCallback.EVENTS:
        given = list(inspect.signature(getattr(Callback, name)).parameters)[1:]
        try:
            own = inspect.signature(getattr(callback, name))
        except ValueError:  # of what is written in C
            continue
        if _misfit(own, *given):
            raise TypeError(f"fit: {kind}.{name}{own}: it is called with ({', '.join(given)})")
    for name in dir(type(callback)):
        if name.startswith("on_") and name not in LambdaCallback.EVENTS:
            here = next((h for other, h in _EVENTS.items() if re.fullmatch(other, name)), "")
            raise TypeError(
                join_parts(
                    f"fit: {kind} has {name}, which is never called",
                    f"expected {', '.join(LambdaCallback.EVENTS)}",
                    f"here it is {here}" if here else did_you_mean(name, LambdaCallback.EVENTS),
                )
            )


def folder(resume: Any, given: Iterable[Any]) -> Any:
    """Where fit goes on from; for True the folder of the ModelCheckpoint among the callbacks.
    ValueError where there is none of whole checkpoints, FileNotFoundError for a file that there
    is not."""
    if resume is not True:
        suffix = os.path.splitext(resume)[1]
        if suffix in (".pt", ".pth", ".ckpt", ".safetensors") and not os.path.exists(resume):
            raise FileNotFoundError(
                f"fit: resume: there is no file {os.fspath(resume)!r}; give one that there is, or "
                "a folder, which is made if there is none"
            )
        return resume
    for c in given:
        if getattr(c, "keeps", False) and not getattr(c, "weights_only", False):
            return c.folder
    raise ValueError(
        "fit: resume=True goes on from the folder of a ModelCheckpoint, and there is none that "
        "writes whole checkpoints among the callbacks; give the folder: resume='runs/first'"
    )


def path(what: str, value: Any) -> Any:
    """`value`, which is a path; TypeError if not."""
    if not isinstance(value, str | os.PathLike):
        raise expected(what, "a path such as 'weights.safetensors'", value)
    return value


def sample_shape(value: Any) -> Sequence[int]:
    """`value`, which is a shape; TypeError if not."""
    if not isinstance(value, tuple | list) or not all(hasattr(n, "__index__") for n in value):
        raise must("summary: input_size", "be the shape of one sample, such as (1, 28, 28)", value)
    return value


def above_zero(name: str, value: Any) -> None:
    """TypeError or ValueError for what is neither a number above 0 nor None."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise must(f"fit: {name}", "be a number above 0 or None", value)
    if not value > 0:  # nor is NaN
        off = "None switches it off"
        raise must(f"fit: {name}", "be above 0", value, off, error=ValueError)


def fit_options(
    *, patience: Any, monitor: Any, mode: Any, clip_norm: Any, clip_value: Any,
    accumulate: Any, resume: Any, known: Sequence[str],
) -> None:  # fmt: skip
    """TypeError or ValueError for options of fit that are of the wrong type or out of range.

    `known`: the names that the logs will have; () where a custom step decides."""
    if patience is not None:
        count("fit", "patience", patience, 1)
    quantity("fit", monitor, mode)
    if monitor is not None and known and monitor not in known:
        fix = did_you_mean(monitor, known)
        if monitor.startswith("val_") and monitor.removeprefix("val_") in known:
            fix = "quantities of validation need validation_data"
        raise no_quantity("fit", monitor, known, fix)
    above_zero("clip_norm", clip_norm)
    above_zero("clip_value", clip_value)
    count("fit", "accumulate", accumulate, 1)
    if not (resume is None or isinstance(resume, bool | str | os.PathLike)):
        raise must("fit: resume", "be the path of a checkpoint, True or None", resume)


def class_weight(given: Any) -> np.ndarray | None:
    """The weights of classes as float32, by class number: of a dict {class: weight}, a list or an
    array. TypeError or ValueError for another thing."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        keys = [k for k in given if isinstance(k, int | np.integer) and not isinstance(k, bool)]
        if len(keys) < len(given) or sorted(keys) != list(range(len(given))):
            raise ValueError(
                "fit: class_weight must have a weight for each class from 0 on, got the keys "
                f"{list(given)}; expected {list(range(max(len(given), 1)))}"
            )
        given = [given[k] for k in range(len(given))]
    try:
        table = np.asarray(given.tolist() if isinstance(given, pf.Tensor) else given, np.float32)
    except (TypeError, ValueError):
        table = np.zeros(())
    if table.ndim != 1:
        rule = "be a dict such as {0: 1.0, 1: 5.0} or a list with a number for each class"
        raise must("fit: class_weight", rule, given)
    bad = bad_weight(table)
    if bad is not None:
        raise ValueError(
            f"fit: weights must be finite and not negative, class_weight has {table[bad]} for "
            f"class {bad}"
        )
    return table


def of_classes(loss: Any, each: Any, weights: Any, output: Any, target: Any) -> pf.Tensor:
    """The weights of the classes of targets, of the shape of `each`, the losses of them all; what
    is no class, as of targets that are ignored, has that of some other one.

    ValueError where they don't fit the classes of an output and its targets, TypeError for a loss
    that does not give a number for each target."""
    if not isinstance(output, pf.Tensor) or not isinstance(target, pf.Tensor):
        raise ValueError(
            "fit: class_weight is for a tensor of outputs and one of class numbers, got "
            f"{seen(output)} and {seen(target)}"
        )
    if target.is_floating_point():
        raise ValueError(
            f"fit: class_weight is for class numbers, which are ints, got {target.dtype.name} "
            f"targets of shape {list(target.shape)}; sample_weight takes a weight for each sample"
        )
    classes = output.shape[1] if output.ndim > 1 else 1
    if target.ndim < output.ndim and len(weights) != classes:
        raise ValueError(
            f"fit: class_weight has {len(weights)} weights, and the net gives {classes} classes; "
            "expected one for each"
        )
    if not isinstance(each, pf.Tensor) or each.shape != target.shape:
        raise TypeError(
            f"Model: with class_weight the loss must give a number for each target: {seen(loss)} "
            f"gave {seen(each)} with reduction='none' for targets of shape {list(target.shape)}"
        )
    return weights[target.long().clamp(0, len(weights) - 1)]


def one_device(what: str, net: nn.Module) -> None:
    """ValueError for a net whose parameters and buffers lie on several devices."""
    devices: dict[str, str] = {}
    for name, x in (*net.named_parameters(), *net.named_buffers()):
        devices.setdefault(str(x.device), name)
    if len(devices) > 1:
        lies = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise ValueError(
            f"{what}: the net lies on several devices, {lies}; model.to({next(iter(devices))!r}) "
            "moves all of it"
        )


def state_dict(what: str, net: nn.Module, state: Any) -> None:
    """RuntimeError that lists the keys that a net lacks or has beside those of `state`, and the
    shapes that differ: before anything is loaded. TypeError unless it is a dict."""
    if not isinstance(state, Mapping):
        raise expected(what, "the dict of a network's tensors", state)
    own = net.state_dict()
    lists = {
        "missing": [k for k in own if k not in state],
        "unexpected": [k for k in state if k not in own],
        "of another shape": [
            f"{k} {list(state[k].shape)}, which is {list(x.shape)} in the net"
            for k, x in own.items()
            if k in state and hasattr(state[k], "shape") and tuple(state[k].shape) != tuple(x.shape)
        ],
    }
    wrong = [f"{kind}: {_some(keys)}" for kind, keys in lists.items() if keys]
    if wrong:
        raise RuntimeError(
            f"{what}: the file is of another architecture than {type(net).__name__}: "
            f"{'; '.join(wrong)}. Nothing was loaded"
        )


def _some(names: list[str]) -> str:
    """Names in an error's text."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if names[8:] else "")


# --- data


def length(data: Any) -> int | None:
    """len(data), None where it has none: a DataLoader has that of its data set, as it may be."""
    try:
        return len(data)
    except TypeError:
        return None


_DATA = "a DataLoader, a Dataset or (x, y) tensors"


def batches(what: str, data: Any) -> None:
    """TypeError for what are no batches of (x, y), ValueError for none."""
    if isinstance(data, pf.Tensor | np.ndarray) or is_pandas(data):
        fix = "; give (table[columns], table[column])" if is_pandas(data) else ""
        raise TypeError(
            f"{what}: expected {_DATA}, got one {seen(data)}: the targets are missing{fix}"
        )
    odd = isinstance(data, str | bytes | dict | type)
    if odd or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
        name = getattr(data, "__name__", "")
        call = inspect.isroutine(data) and name.isidentifier()
        raise expected(what, _DATA, data, f"call it: {name}()" if call else "")
    if isinstance(data, tuple | list) and data:
        arrays = [d for d in data if isinstance(d, pf.Tensor | np.ndarray)]
        if len(arrays) == len(data):
            raise ValueError(
                f"{what}: expected (x, y), got {len(data)} {plural(len(data), 'tensor')}; "
                "where several make an input or a target, let a Dataset give pairs of them"
            )
    if length(data) == 0:
        samples = getattr(data, "dataset", ())
        why = f"{type(data).__name__} has no samples"
        if getattr(data, "drop_last", False) and hasattr(samples, "__len__") and len(samples):
            why = f"{len(samples)} samples give no batch of {data.batch_size} with drop_last=True"
        raise ValueError(f"{what}: the data is empty: {why}")


def pair(what: str, batch: Any, third: str = "") -> None:
    """ValueError for a batch that is not (x, y), or whose `third` part can't be weights."""
    parts = isinstance(batch, tuple | list)
    if parts and len(batch) == 2:
        return
    got = f"{len(batch)} parts" if parts else seen(batch)
    raise ValueError(
        f"{what}: expected batches of (x, y), got {got}; let the Dataset's __getitem__ (or the "
        f"loader's collate_fn) give an input and a target{third}"
    )


# --- what networks, losses and metrics give


def output(net: nn.Module, value: Any) -> Any:
    """`value`, which a net gave; TypeError if it is not an output for each sample, or several."""
    if isinstance(value, pf.Tensor) and value.ndim:
        return value
    if value and isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            output(net, part)
        return value
    fix = "call model.net itself for other results"
    if value is None:
        fix = f"is `return` missing in the forward of {type(net).__name__} or of a part of it?"
    rule = "the net to give tensors, with an output for each sample"
    raise expected("predict", rule, value, fix)


def once(error: Exception) -> None:
    """Tell what to write where a training_step went backward itself and gave its loss, too."""
    if isinstance(error, RuntimeError) and "a second time" in str(error):
        error.add_note(
            "the 'loss' that a training_step returns is minimized by fit; a step that does it "
            "itself calls self.minimize(loss), in place of loss.backward() and optimizer.step()"
        )


def of_one_output(error: TypeError, loss: Any, name: str) -> None:
    """Tell how a metric is given for one of several outputs."""
    if isinstance(loss, Mapping):
        error.add_note(
            f"a metric of a list gets all outputs, {list(loss)}; a dict says of which it is: "
            f"metrics={{{next(iter(loss))!r}: {name!r}}}"
        )


def of_one_tensor(error: TypeError, output: Any, target: Any) -> None:
    """Tell what to do where one loss got several outputs or targets."""
    for what, value in (("the net gave", output), ("the targets are", target)):
        if isinstance(value, Mapping | list | tuple):
            error.add_note(
                f"{what} a {seen(value)}: give a dict or list of losses, one for each, or a loss "
                "of one's own that takes all of them, or let there be one tensor"
            )


def scalar(name: str, value: Any) -> Any:
    """`value`, which is one number; TypeError if not."""
    if isinstance(value, pf.Tensor):
        if value.numel() == 1:
            return value
        fix = "reduce it, for example by .mean()"
    elif isinstance(value, int | float | np.number | np.bool_):
        return value
    else:
        fix = "is `return` missing?" if value is None else "give a tensor of one element"
    raise must(f"Model: {name}", "give one number", value, fix)


def trains(loss: Any, net: nn.Module) -> None:
    """TypeError for a loss that is no tensor, RuntimeError for one without gradients."""
    if not isinstance(loss, pf.Tensor):
        fix = "return it without .item() or float()"
        raise must("fit: the loss", "be a tensor that has gradients", loss, fix)
    if not loss.requires_grad:
        why = (
            "on the way from the parameters to it is something without a gradient, such as argmax, "
            "detach or NumPy"
        )
        if not any(p.requires_grad for p in net.parameters()):
            why = "all parameters of the net are frozen (net.requires_grad_() thaws them)"
        raise RuntimeError(f"fit: the loss does not require grad, so nothing can be trained: {why}")


# --- what a Model with several losses, optimizers and steps of its own is made of


def schedules(given: Any, interval: Any, optimizers: Sequence[Any]) -> None:
    """TypeError or ValueError for learning-rate schedulers that don't fit the optimizers."""
    if interval not in (None, "epoch", "step"):
        raise must("Model: lr_interval", "be 'epoch' or 'step'", interval, error=ValueError)
    for one in listed(given):
        if one is None:
            continue
        if isinstance(one, type) or not (hasattr(one, "step") and hasattr(one, "state_dict")):
            fix = "for example optim.lr_scheduler.StepLR(optimizer, 10)"
            raise must("Model: lr_scheduler", "be a scheduler", one, fix)
        if interval == "step" and isinstance(one, pf.optim.lr_scheduler.ReduceLROnPlateau):
            raise ValueError(
                "Model: ReduceLROnPlateau goes by a number of an epoch, such as the validation's "
                "loss, so it can't step with lr_interval='step'; leave lr_interval out"
            )
        if not any(getattr(one, "optimizer", None) is o for o in optimizers):
            raise ValueError(
                f"Model: {type(one).__name__} is of another optimizer than the model's, so it "
                "would change nothing here; make it of the same one"
            )


def _keys(given: Any, like: Any) -> list[Any]:
    """The names or indices of things that are given as `like` is, in a dict or a list; else []."""
    if isinstance(like, Mapping):
        return list(given) if isinstance(given, Mapping) else []
    both = isinstance(like, list | tuple) and isinstance(given, list | tuple)
    return list(range(len(given))) if both else []


def loss_weights(loss: Any, given: Any) -> None:
    """ValueError for weights of losses that are not as the losses are."""
    if given is None:
        return
    keys, rule = _keys(loss, loss), "several losses: Model(net, loss={…}, loss_weights={…})"
    if keys and set(_keys(given, loss)) == set(keys):
        return
    if keys:
        names = isinstance(loss, Mapping)
        rule = f"numbers by the names {keys}" if names else f"a list of {len(keys)} numbers"
    raise expected("Model: loss_weights", rule, given, error=ValueError)


def metric_list(given: Any, loss: Any) -> list[tuple[str | None, Any]]:
    """(key, metric) of what a user gives; TypeError unless it is a list or a dict, or for functions
    that are not of (output, target)."""
    pairs: list[tuple[str | None, Any]] = []
    if given is None:
        return pairs
    if isinstance(given, Mapping):
        for key, value in given.items():
            if isinstance(loss, Mapping) and key not in loss:
                raise ValueError(
                    f"Model: metrics: {key!r} is no output; the losses are of {list(loss)}"
                )
            pairs += [(key, m) for m in (value if isinstance(value, list | tuple) else [value])]
    elif isinstance(given, list | tuple):
        pairs = [(None, m) for m in given]
    else:
        raise must("Model: metrics", "be a list", given, "for example metrics=['accuracy']")
    for _, metric in pairs:
        _of_torch("a metric", metric)
        if callable(metric) and not isinstance(metric, type | Metric):
            _takes_two(f"the metric {name_of(metric)!r}", metric)
    return pairs


def metric_name(name: str, taken: Iterable[str]) -> str:
    """`name`; ValueError where another metric, or the logs, have it."""
    if name in taken or name in RESERVED:
        why = "two metrics are called" if name in taken else "the logs have another"
        raise ValueError(
            f"Model: {why} {name!r}; a metric is called by the name of its function, so give "
            "it another (def name(output, target): …), or give a dict of metrics by their names"
        )
    return name


def logs(what: str, found: Any) -> dict[str, Any]:
    """What a step returned, as numbers by name; TypeError for what is none."""
    if isinstance(found, Mapping):
        return dict(found)
    if isinstance(found, pf.Tensor | int | float | np.number):
        return {"loss": found}
    fix = "is `return` missing?" if found is None else "return the loss or {'loss': loss}"
    raise expected(what, "the loss, or numbers by name", found, fix)


def minimized(found: Mapping[str, Any]) -> Any:
    """The loss among what a training_step returned that did not call minimize itself."""
    if "loss" not in found:
        raise ValueError(
            f"training_step: it returned {list(found)}, with no 'loss' to minimize; return "
            "{'loss': loss, …}, or call self.minimize(loss) in it"
        )
    return found["loss"]


def minimized_again(accumulate: int) -> None:
    """RuntimeError for two updates of an optimizer in a step of a group that makes one."""
    if accumulate > 1:
        raise RuntimeError(
            f"training_step: minimize was called twice for an optimizer, and accumulate="
            f"{accumulate} makes one update of so many batches; minimize the sum of the losses, or "
            "leave accumulate out"
        )


def several(loss: Any, output: Any, targets: Any) -> list[Any]:
    """The names or indices of several losses; ValueError where outputs or targets lack one."""
    keys = _keys(loss, loss)
    for what, given in (("the net's outputs", output), ("the targets", targets)):
        have = _keys(given, loss)
        lacking = [k for k in keys if k not in have]
        if lacking:
            raise ValueError(
                f"Model: the losses are of {keys}, and {what} lack {lacking}: got {seen(given)}"
            )
    return keys


def reduces(loss: Any) -> None:
    """TypeError for a loss that can't give a number for each sample, as weights need it."""
    called = signature(loss)
    params = called.parameters.values() if called else ()
    if called and not any(p.name == "reduction" or p.kind is p.VAR_KEYWORD for p in params):
        raise TypeError(
            f"Model: with weights of samples or classes the loss must give a number for each "
            f"sample, and {name_of(loss)}{called} has no reduction; write it as (output, "
            "target, reduction='mean'), or take one of pyframe.nn"
        )


def per_sample(loss: Any, each: Any, weights: pf.Tensor) -> None:
    """TypeError for a loss without reduction that is no number for each sample."""
    if not isinstance(each, pf.Tensor) or not each.ndim or len(each) != len(weights):
        raise TypeError(
            f"Model: with weights of samples or classes the loss must give a number for each "
            f"sample: {seen(loss)} gave {seen(each)} with reduction='none' for {len(weights)} "
            "samples"
        )


def quantity(what: str, name: Any, mode: Any) -> None:
    """TypeError for what is no name of a quantity, ValueError for a mode that there is not."""
    if name is not None and not isinstance(name, str):
        raise must(f"{what}: monitor", "be a name such as 'val_loss'", name)
    if mode not in ("auto", "min", "max"):
        raise must(f"{what}: mode", "be 'auto', 'min' or 'max'", mode, error=ValueError)


def direction(what: str, name: Any, higher: bool | None) -> bool:
    """Whether more of a quantity is better; ValueError where nothing tells."""
    if higher is None:
        raise ValueError(
            f"{what}: whether {name!r} is better the higher or the lower it is can't be told by "
            "its name; give mode='max' or mode='min' (or let its Metric have higher_is_better)"
        )
    return higher


def plateaus(name: str, higher: bool | None, schedulers: Sequence[Any]) -> None:
    """ValueError for a ReduceLROnPlateau that would wait for the wrong direction."""
    mode = "max" if direction("fit: monitor", name, higher) else "min"
    for scheduler in schedulers:
        if scheduler.mode != mode:
            raise ValueError(
                f"fit: ReduceLROnPlateau has mode={scheduler.mode!r}, and {name!r} is better the "
                f"{'higher' if higher else 'lower'} it is; make it with mode={mode!r}"
            )


def no_quantity(what: str, name: str, known: Iterable[str], fix: str) -> ValueError:
    """The error of a name that the logs don't have."""
    there = f"expected one of {', '.join(map(repr, known))}"
    return ValueError(join_parts(f"{what}: there is no {name!r} to monitor", there, fix))


def monitored(name: str, found: Mapping[str, float]) -> float:
    """A number of the logs; ValueError lists the known."""
    if name not in found:
        there = f"there is no {name!r} in the logs; they have {', '.join(map(repr, found))}"
        raise ValueError(join_parts(f"ReduceLROnPlateau: {there}", did_you_mean(name, found)))
    return found[name]


def precision(given: Any, device: pf.device) -> Any:
    """The dtype of mixed precision, or None; ValueError for another one."""
    if given is None or given is False:
        return None
    if given is True:
        return pf.float16 if device.kind == "gpu" else pf.bfloat16
    known = {"float16": pf.float16, "fp16": pf.float16, "bfloat16": pf.bfloat16,
             "bf16": pf.bfloat16, pf.float16: pf.float16, pf.bfloat16: pf.bfloat16}  # fmt: skip
    if not isinstance(given, str | pf.dtype) or given not in known:
        rule = "be True, False, 'float16' or 'bfloat16'"
        raise must("fit: mixed_precision", rule, given, error=ValueError)
    return known[given]
