"""Exports a model so that a page trains it and uses it with no Python: `pf.web.export`.

What is written: program.json (see programs.py), state.safetensors, the data to learn from, and the
page's own scripts, which are copied as they are. No GPU is needed, and what is exported runs on any
WebGPU: it is planned for the limits that WebGPU promises everywhere. cpu.wasm runs the same where
there is none (see cpu.py).

A page's step is the Model's `training_step` in float32, one batch to an update, with all of its
losses, optimizers and metrics. What is asked of `fit` is no part of it: clipping, accumulate, mixed
precision, weights of classes and callbacks; one's own training_step can do such things, as by
nn.utils.clip_grad_norm_ or pf.autocast. Nor are schedulers, which Python steps. A page computes
metrics from their state over a whole epoch, as Python does, whatever kind they are of.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import html
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.capture.lengths import marked
from pyframe.core.limits import Limits
from pyframe.data import DataLoader, Dataset, IterableDataset, TensorDataset
from pyframe.io import safetensors
from pyframe.io.files import replacing
from pyframe.nn.modules.module import Evaluation
from pyframe.nn.parameter import is_lazy
from pyframe.optim import Optimizer
from pyframe.train import Model
from pyframe.train.loop import training_mode
from pyframe.train.steps import PLAIN, CompiledSteps, counted
from pyframe.web import fitting
from pyframe.web.bundle import bundle, modules_of
from pyframe.web.cpu import CpuCode
from pyframe.web.demo import Demo, Image, Pad, Plane, Points, Slider, Text
from pyframe.web.programs import Exporter, ExportError, File, offline
from pyframe.web.session import Session, about, drawn, shown

SCRIPTS = "runtime.js", "player.js", "cpu.js", "player.d.ts"
WRITER = "texts.js"  # what player.js takes only for programs that write texts
ELEMENT = "pyframe.js"
CPU_CODE = "cpu.wasm"
PYTHON = "python.js"  # what the element takes only for programs in Python
FILE_BYTES = 32 << 20  # of state in a file, unless one tensor has more
BATCH = 256  # samples that a page predicts together, where their number may be any
ENGINE = {"source": None, "engine": "program"}  # of the spec: no text that could be edited


@dataclass
class Export:
    """What was written: each file's bytes, by its name, and what the page does without, with the
    reasons."""

    path: Path
    files: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def export(
    program: Any, sample: Any = None, *, to: str | os.PathLike[str], train: bool = True,
    data: bool = True, weights: str | os.PathLike[str] | None = None, single: bool = False,
    element: bool = True, batch_size: int | None = None, sizes: Iterable[int] = (),
    state: Sequence[nn.Module | Optimizer] = (), limits: Limits | None = None,
    cpu: bool = True, tokenizer: Any = None, length: int | None = None,
) -> Export:  # fmt: skip
    """Write `program` to folder `to`, as a page runs it with no Python.

    `program` is a Demo; an OnnxFile; a pf.text.CausalLM, which writes texts as its `generate` does,
    with `tokenizer` and `length` as `pf.text.page.texts` takes them; a pf.Model, with `sample`:
    (x, y) of a batch to train on, or inputs x of any number; an nn.Module, with inputs; or
    functions by their names, with `sample` their arguments by the same names (a dict of them where
    a page calls them otherwise) and `state` the modules and optimizers that they use. Without a
    Demo the page has an input and an output that fit the sample and the loss, and its Train learns
    from the sample. Dims of the sample that `mark_dynamic` names may have any size: a network's
    batch (dim 0), and all dims of what functions take.
    `train`, `data`: whether it can be trained, and with the data; `weights`: a file that
    Model.save wrote; `single`: one HTML file that needs no server; `element`: with the page's
    `<py-frame>`; `sizes`: of batches to predict, beside those that the page needs. `limits`: of the
    GPUs that it must run on, as pf.web.Limits(binding_bytes=512 << 20, buffer_bytes=512 << 20); by
    default what WebGPU promises everywhere. `cpu`: whether WebAssembly runs it where
    there is no WebGPU; what has no form in it leaves it out, which is told.

    Raises ExportError with the reason for what can't run without Python.
    """
    job = _job(program, sample, train, data, weights, batch_size, state, tokenizer, length)
    document, values = job.capture({int(n) for n in sizes}, limits, cpu)
    tensors = {**_in_files(_halved(values)), **job.files}
    files = {name: safetensors.save_arrays(arrays) for name, arrays in tensors.items()}
    files |= job.texts
    if job.cpu is not None:
        files[CPU_CODE] = job.cpu.encode()
    document["files"] = {
        name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        for name, raw in files.items()
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    files["program.json"] = text.encode()
    files |= job.beside
    for why in job.left_out:
        warnings.warn(f"export: {why}", UserWarning, stacklevel=2)
    return _write(Path(to), files, job, single, element)


def load_program(path: str | os.PathLike[str]) -> ModuleType:
    """The module that the file of a program is; what lies beside it can be imported by it.

    Raises ExportError where there is no such file, and where it ends in an error."""
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file():
        raise ExportError(f"{path} is no Python file; expected a program such as my_model.py")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    sys.modules[file.stem] = module
    argv, sys.argv = sys.argv, [str(path)]  # those of this command are none of the program's
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)
        line = getattr(error, "lineno", None) or line  # of a SyntaxError
        hint = ""
        if not isinstance(error, SyntaxError):
            hint = (
                ". The program runs as it is loaded; what is for the command line alone, such as "
                'training, belongs under if __name__ == "__main__":'
            )
        raise ExportError(f"{path}:{line}: {type(error).__name__}: {error}{hint}") from error
    finally:
        sys.argv = argv
        sys.path.remove(str(file.parent))
    return module


# --- what is exported

_BY_NAME = (
    "export a module whose forward takes one tensor and gives one, or functions by their names, "
    'as pf.web.export({"ask": net}, {"ask": (x,)}, state=[net], …), for a script of your own'
)


@dataclass
class _Job:
    """What to capture, and what the page is told of it."""

    modules: dict[str, nn.Module]
    optimizers: list[Optimizer]
    spec: dict[str, Any] = field(default_factory=dict)
    model: Model | None = None
    functions: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = field(default_factory=dict)
    predict: Callable[[Any], Any] | None = None
    output: Callable[[Sequence[int]], Any] | None = None  # what shows results of a shape
    inputs: Any = None  # one sample that `predict` takes, without the batch dim
    sizes: set[int] = field(default_factory=set)  # of batches to predict
    at_once: int = 0  # samples that are predicted together, of batches of any size; 0: of `sizes`
    batch: Any = None  # (x, y) to train on
    tests: list[Any] = field(default_factory=list)  # (x, y), one of each size
    data: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)  # tensors of the data
    texts: dict[str, bytes] = field(default_factory=dict)  # files of other kinds
    beside: dict[str, bytes] = field(default_factory=dict)  # files that program.json doesn't name
    plan: dict[str, Any] = field(default_factory=dict)  # of what a page does with functions
    moving: dict[str, float] = field(default_factory=dict)  # options that must act, if 0 at first
    # what is captured, by "train" and "test"
    steps: dict[str, CompiledSteps] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    cpu: CpuCode | None = None  # of what was captured, if all of it runs there

    def capture(self, sizes: set[int], limits: Limits | None, cpu: bool) -> Any:
        half = any(p.dtype is pf.float16 for m in self.modules.values() for p in m.parameters())
        with offline(
            self.modules, self.optimizers, limits or (Limits(float16=True) if half else None), cpu
        ) as run:
            self.steps = {}
            groups = [g for o in self.optimizers for g in o.param_groups]
            before = [{k: g[k] for k in self.moving if k in g} for g in groups]
            try:
                for group, old in zip(groups, before, strict=True):
                    group.update({k: self.moving[k] for k in old if not old[k]})
                found = run(lambda e: self._capture(e, sizes | self.sizes))
            finally:
                for group, old in zip(groups, before, strict=True):
                    group.update(old)
        document, values = found
        for key in document["options"]:  # those that had to act: a control sets all groups alike
            name = key.rpartition(".")[2]
            if name in self.moving:
                document["options"][key] = float(before[0][name])
        return document, values

    def _capture(self, e: Exporter, sizes: set[int]) -> Any:
        for name, (fn, inputs) in self.functions.items():
            given = {k: _on_device(v, e.device) for k, v in inputs.items()}
            e.add(name, fn, given)
            _also_of_size_1(e, name, fn, given)
        plan: dict[str, Any] = {**self.plan}
        model = self.model
        if model is not None and self.batch is not None:
            x, y = (self._to(v, e.device) for v in self.batch)
            with _training_mode(model, self.optimizers):
                e.add("train", self._step(model, "train"), {"x": x, "y": y})
            plan["train"] = {"size": len(x), **self._told(e, "train", "train")}
        if model is not None and self.tests and model._evaluates():
            for pair in self.tests:
                x, y = (self._to(v, e.device) for v in pair)
                run = self._step(model, "test")
                Evaluation(model.net)(e.add, f"evaluate.{len(x)}", run, {"x": x, "y": y})
            sizes_of = [len(x) for x, _ in self.tests]
            plan["evaluate"] = {"sizes": sizes_of, **self._told(e, "evaluate", "test")}
        if self.predict is not None:
            plan["predict"] = {"sizes": sorted(sizes)}
            net = self.modules[""]
            for n in sorted(sizes):
                x = self._to(np.broadcast_to(self.inputs, (n, *np.shape(self.inputs))), e.device)
                entry = Evaluation(net)(e.add, f"predict.{n}", self.predict, {"x": x}, ["y"])
                given = entry["outputs"]
                if len(given) != 1:
                    raise ExportError(
                        f"the network gives {len(given)} tensors, and a page's predict one: "
                        f"{_BY_NAME}"
                    )
                shape = given[0]["shape"]
                if not shape or shape[0] != n:
                    raise ExportError(
                        f"the prediction for {n} samples has shape {shape}; expected one tensor "
                        f"({n}, …)"
                    )
            if self.at_once:
                x = self._to(np.broadcast_to(self.inputs, (2, *np.shape(self.inputs))), e.device)
                pf.mark_dynamic(x, 0)
                Evaluation(net)(e.add, "predict", self.predict, {"x": x}, ["y"])
                e.programs["predict"]["others"] = ["predict.1"]
                plan["predict"]["atOnce"] = self.at_once
            if self.output is not None:
                self.spec["output"] = self.output(shape[1:])
                if self.spec["output"] is None:
                    self.spec["input"] = None
                    self.spec["description"] = _no_widget("output", "results", shape[1:])
        document, values = e.document()
        self.cpu = e.cpu
        self.left_out += e.left_out
        return {**document, "plan": plan, "spec": self.spec, "data": self.data}, values

    def _step(self, model: Model, kind: str) -> Callable[[pf.Tensor, pf.Tensor], None]:
        """What a batch is given to. It is kept from try to try, as it makes what it counts with."""
        if kind not in self.steps:
            self.steps[kind] = CompiledSteps(model, kind, (), PLAIN, own=False)
        self.steps[kind].start()  # a try that failed may have counted
        run = self.steps[kind].step

        def step(x: pf.Tensor, y: pf.Tensor) -> None:
            run((x, y))

        return step

    def _told(self, e: Exporter, program: str, kind: str) -> dict[str, list[str]]:
        """What a page reads of steps: sums and what divides them, and metrics, which a program of
        their own computes from their state."""
        steps = self.steps[kind]
        e.metrics.update({f"{kind}.{name}": x for name, x in steps.sums.items()})
        e.metrics.update({f"{kind}.divisor:{name}": x for name, x in steps.divisors.items()})
        names = [name for name, metric in steps.metrics.items() if counted(metric)]
        for name in names:
            state = steps.metrics[name].named_buffers()
            e.metrics.update({f"{kind}.{name}.{k}": x for k, x in state if not is_lazy(x)})
        values: list[str] = []
        if names:

            def compute() -> list[pf.Tensor]:
                return [steps.metrics[name].compute() for name in names]

            entry = e.add(f"{program}.metrics", compute, {}, names)
            values = [o["name"] for o in entry["outputs"] if math.prod(o["shape"]) == 1]
            for name in names:
                text = f"the metric {name!r} is left out: a page shows metrics of one number"
                if name not in values and text not in self.left_out:
                    self.left_out.append(text)
        return {"metrics": list(steps.sums), "values": values}

    def _to(self, value: Any, device: pf.device) -> pf.Tensor:
        """A batch where the network is, with its dtype."""
        x = _on_device(value, device)
        p = next(self.modules[""].parameters(), None)
        return x.to(p.dtype) if p is not None and x.is_floating_point() else x


@contextmanager
def _training_mode(model: Model, optimizers: Sequence[Optimizer]) -> Iterator[None]:
    """Within it the net is in training mode, and nothing has a gradient but what is trained: that
    of another parameter would add up in each step, to no use. A scaler is of a fit's precision."""
    scaler, model.scaler = model.scaler, None
    modes = [(m, m.training) for m in model.net.modules()]
    held = {id(p) for o in optimizers for g in o.param_groups for p in g["params"]}
    others = [p for p in model.net.parameters() if p.requires_grad and id(p) not in held]
    try:
        training_mode(model.net)
        for p in others:
            p.requires_grad = False
        yield
    finally:
        model.scaler = scaler
        for m, was in modes:
            m.training = was
        for p in others:
            p.requires_grad = True


def _also_of_size_1(
    e: Exporter, name: str, fn: Callable[..., Any], inputs: dict[str, pf.Tensor]
) -> None:
    """Add the programs that take a size of 1 where a program takes any other, as far as there can
    be some: what is 1 broadcasts, and is computed in another way."""
    places = marked(list(inputs.values()))
    sizes = sorted({list(inputs.values())[i].shape[d] for i, d in places})
    others: list[str] = []
    for k in range(1, 2 ** min(len(sizes), 2)):
        ones = {n for i, n in enumerate(sizes) if k >> i & 1}
        cut = {}
        for i, (key, x) in enumerate(inputs.items()):
            mine = {d for at, d in places if at == i}
            index = tuple(slice(0, 1 if d in mine and n in ones else None)
                          for d, n in enumerate(x.shape))  # fmt: skip
            cut[key] = x[index].clone()
            pf.mark_dynamic(cut[key], [d for d in mine if x.shape[d] not in ones])
        with contextlib.suppress(ExportError, RuntimeError, ValueError, IndexError):
            e.add(f"{name}.{k}", fn, cut)
            others.append(f"{name}.{k}")
    if others:
        e.programs[name]["others"] = others


def _on_device(value: Any, device: pf.device) -> pf.Tensor:
    x = _copied_to(value, device)
    if isinstance(value, pf.Tensor):
        pf.mark_dynamic(x, [d for _, d in marked([value])])
    return x


def _copied_to(value: Any, device: pf.device) -> pf.Tensor:
    # in memory of its own, in order: a page gives the elements one after the other
    if isinstance(value, pf.Tensor):
        x = value.detach().cpu().contiguous().clone()
    else:
        x = pf.from_numpy(np.array(value, order="C"))
    if x.dtype is pf.float64:
        x = x.float()
    return x.to(device)


def _job(
    program: Any, sample: Any, train: bool, data: bool, weights: Any, batch_size: int | None,
    state: Sequence[Any], tokenizer: Any = None, length: int | None = None,
) -> _Job:  # fmt: skip
    if isinstance(program, Demo):
        session = Session(program)
        session.make_model()
        if _writes(session.model):
            return _of_writer(session.model, weights, tokenizer, length, program)
        return _of_demo(session, train, data, weights, batch_size)
    if _writes(program):
        return _of_writer(program, weights, tokenizer, length)
    if tokenizer is not None or length is not None:
        raise TypeError("export: tokenizer= and length= are for a pf.text.CausalLM")
    if isinstance(program, File):
        return _of_file(program, train, data, weights, batch_size)
    if isinstance(program, Model):
        if weights is not None:
            _load(program.load, weights)
        return _of_model(program, sample, train, data, batch_size)
    if isinstance(program, nn.Module):
        if sample is None:
            raise TypeError("export: an nn.Module needs sample=, a batch of its inputs")
        if isinstance(sample, Mapping) or (
            isinstance(sample, tuple) and all(isinstance(x, pf.Tensor) for x in sample)
        ):
            raise ExportError(
                f"sample= is a {type(sample).__name__} of {len(sample)} inputs, and a page's "
                f"predict takes one tensor: {_BY_NAME}"
            )
        job = _Job({"": program}, [], _spec(program), predict=program)
        _with_inputs(job, sample)
        _show(job, sample)
        return job
    if isinstance(program, Mapping):
        return _of_functions(program, sample, state)
    raise TypeError(
        "export: expected a Demo, a pf.Model, an nn.Module or functions by their names, got "
        f"{type(program).__name__}"
    )


def _writes(model: Any) -> bool:
    """Whether it is a CausalLM, which there is none of where pyframe.text was not imported."""
    text = sys.modules.get("pyframe.text")
    return text is not None and isinstance(model, text.CausalLM)


def _of_writer(
    model: Any, weights: Any, tokenizer: Any, length: int | None, demo: Demo | None = None
) -> _Job:  # fmt: skip
    from pyframe.text.page import texts

    if weights is not None:
        _load(Model(model).load, weights)
    made = texts(model.eval(), tokenizer, length)
    spec = {**_spec(model), **(demo.spec() if demo else {}), **ENGINE}
    job = _Job({"": model, "writer.": made.state}, [], {**spec, "trained": True, "trains": False})
    job.texts, job.beside, job.plan = made.files, made.beside, {"write": made.plan}
    job.functions = {name: (pf.no_grad()(fn), made.samples[name])
                     for name, fn in made.functions.items()}  # fmt: skip
    if demo is not None and demo.predict is not None:
        job.left_out.append(
            "the demo's function predict= is left out, as it runs in Python: the page writes what "
            "follows a text"
        )
    if made.plan["tokens"] is not None:
        for part in ("input", "output"):
            job.spec[part] = job.spec[part] or Text().spec()
    else:
        job.spec["description"] = (
            "This model has no tokenizer here: a script of the page's own asks with "
            "document.querySelector('py-frame').generate(tokens)."
        )
    return job


def _of_functions(functions: Mapping[str, Any], sample: Any, state: Sequence[Any]) -> _Job:
    if not isinstance(sample, Mapping) or set(sample) != set(functions):
        raise TypeError("export: sample= must give the arguments of each function by its name")
    modules = [m for m in state if isinstance(m, nn.Module)]
    job = _Job(_numbered("", modules), [o for o in state if isinstance(o, Optimizer)])
    for name, fn in functions.items():
        if isinstance(sample[name], Mapping):
            job.functions[name] = fn, dict(sample[name])
            continue
        args = sample[name] if isinstance(sample[name], tuple | list) else (sample[name],)
        names = list(inspect.signature(fn).parameters)[: len(args)]
        names += [f"input{i}" for i in range(len(names), len(args))]
        job.functions[name] = fn, dict(zip(names, args, strict=True))
    return job


def _of_file(
    file: File, train: bool, with_data: bool, weights: Any, batch_size: int | None
) -> _Job:
    program, sample, about = file.program(train, batch_size)
    net = program.net if isinstance(program, Model) else program
    net = net["predict"] if isinstance(net, dict) else net
    if weights is not None:
        _load(lambda path: Model(net).load(path), weights)
    with_data = with_data and file.data is not None
    job = _job(
        program, sample, train, with_data, None, batch_size or about.get("batch_size"), [net]
    )
    job.spec = {**_spec(net), **job.spec, "description": "", **about}
    job.output = (lambda _: about["output"]) if about.get("output") else None
    return job


def _numbered(start: str, modules: Sequence[nn.Module]) -> dict[str, nn.Module]:
    """Modules by what the names of their tensors begin with: several ones have numbers."""
    return {start if len(modules) == 1 else f"{start}{i}.": m for i, m in enumerate(modules)}


def _with_inputs(job: _Job, x: Any) -> None:
    """Give the job samples like those of a batch, whose size may be marked as any."""
    dims = {d for _, d in marked([x])} if isinstance(x, pf.Tensor) else set()
    if dims - {0}:
        raise ExportError(
            f"dim {max(dims)} of sample= is marked, and a page's predict takes samples of one "
            f"shape: {_BY_NAME}"
        )
    x = _array("sample=", x)
    if not x.ndim or not len(x):
        raise ValueError("export: sample= must be a batch: (samples, …)")
    job.inputs = x[0]
    job.at_once = max(len(x), BATCH) if dims else 0
    job.sizes |= {1} if dims else {1, len(x)}


def _of_model(
    model: Model, sample: Any, train: bool, with_data: bool, batch_size: int | None
) -> _Job:
    if sample is None:
        raise TypeError("export: a Model needs sample=, a batch (x, y), or x to predict from alone")
    pair = isinstance(sample, tuple | list) and len(sample) == 2
    if isinstance(sample, tuple | list) and not pair:
        raise ExportError(
            f"sample= is a {type(sample).__name__} of {len(sample)}; expected a batch (x, y), as a "
            "program takes inputs and targets alone, or x"
        )
    y: Any
    x, y = sample if pair else (sample, None)
    job = _Job(_modules(model), [], _spec(model.net, model), model, predict=model.net)
    _with_inputs(job, x)
    if pair:
        x, y = _arrays_of((x, y))
    _show(job, x, y, model.loss)
    if train and pair and model.trainable:
        n = batch_size or len(x)
        job.sizes = {1}
        job.batch, job.tests = (_filled(x, n), _filled(y, n)), [(x[:n], y[:n]), (x[:1], y[:1])]
        job.tests = job.tests[: 1 if len(x) == 1 else 2]
        _optimizers(job, model)
        job.spec.update(trains=True, batch_size=n)
        if with_data:
            job.spec["steps_per_epoch"] = math.ceil(len(x) / n)
            _ship(job, (x, y), None, True)
    return job


def _show(job: _Job, x: Any, y: Any = None, loss: Any = None) -> None:
    """Let the page show what fits a batch: an input, and for what is captured an output."""
    x = pf.as_tensor(x).detach().cpu()
    scores = fitting.are_scores(y, loss)
    job.spec["input"] = fitting.input_of(x, scores)
    if job.spec["input"] is not None:
        job.output = lambda shape: fitting.output_of(shape, scores)
    else:
        job.spec["description"] = _no_widget("input", x.dtype.name, x.shape[1:])


def _no_widget(part: str, what: str, shape: Sequence[int]) -> str:
    return (
        f"There is no {part} for {what} of shape {tuple(shape)} here: a script of the page's own "
        "asks with document.querySelector('py-frame').predict(numbers)."
    )


def _load(load: Callable[[Any], Any], weights: Any) -> None:
    try:
        load(weights)
    except RuntimeError as e:
        raise ExportError(f"{weights} holds the weights of another model: {e}") from e


def _modules(model: Model) -> dict[str, nn.Module]:
    return {"": model.net, **_numbered("loss.", model.loss_modules())}


def _optimizers(job: _Job, model: Model) -> None:
    """Let the optimizers be part of the program; schedulers are not."""
    job.optimizers += model.optimizers
    for scheduler in model.schedulers:
        job.left_out.append(
            f"the scheduler {type(scheduler).__name__} is left out, as Python steps it: learning "
            "rates stay what they are now, or what the page sets"
        )


def _spec(net: nn.Module, model: Model | None = None) -> dict[str, Any]:
    """What a page is told of a network, or of a model, that has no Demo."""
    return {
        **Demo(Model, title=type(net).__name__).spec(),
        **about(net, model.metrics if model else ()),
        "trained": model is not None and any(o.state for o in model.optimizers),
        **ENGINE,
    }


# --- a Demo


def _of_demo(
    session: Session, train: bool, with_data: bool, weights: Any, batch_size: int | None
) -> _Job:
    demo, model = session.demo, session.model
    if isinstance(demo.inputs, Text) or isinstance(demo.outputs, Text):
        raise ExportError(
            "the demo writes text, which its function predict= does in Python, piece by piece; "
            "pyframe export --python makes a page that has Python"
        )
    if not isinstance(model, Model):
        raise TypeError(f"export: the demo's model is {type(model).__name__}, expected a pf.Model")
    if weights is not None:
        _load(session.take_weights, weights)
    learn = test = None
    if demo.data is not None:
        session.load_data()
        learn = _arrays_of(session.train_data)
        test = None if session.test_data is None else _arrays_of(session.test_data)
        _complete(session, learn, test)
    job = _Job(_modules(model), [], {**session.described(), "trained": weights is not None}, model)
    job.spec.update(ENGINE)
    if batch_size is not None:
        job.spec["batch_size"] = batch_size
    _controls(job, session, train)
    _predictions(job, session, learn)
    if session.inputs is None and demo.data is None:
        job.left_out.append(
            "the page has no input, no output and nothing to learn from: let the program define "
            "load_data(), which gives (x, y), or demo = pf.web.Demo(…)"
        )
    trains = train and model.trainable
    points = isinstance(session.inputs, Points)
    job.spec["tests"] = test is not None
    job.spec["trains"] = trains and ((learn is not None and with_data) or points)
    if trains and (learn is not None or points):
        _training(job, learn, test)
    if with_data and learn is not None:
        _ship(job, learn, test, trains)
    return job


def _complete(session: Session, learn: Any, test: Any) -> None:
    """Have the session take what fits its data where the demo names no input or output."""
    x, y = test or learn
    net, device = session.model.net, session.model.device
    session.complete(
        pf.from_numpy(x[0]), y[0],
        lambda x: Evaluation(net)(net, _on_device(x, device)),
        lambda: float(np.abs(learn[0].reshape(len(learn[0]), -1)[:, :2]).max(initial=0.0)),
    )  # fmt: skip


def _controls(job: _Job, session: Session, train: bool) -> None:
    """Keep the controls of options of the optimizer: others need Python."""
    job.spec["controls"] = []
    for c in session.demo.controls:
        option = session.is_option(c.name)
        if isinstance(c, Slider) and option and train:
            job.spec["controls"].append(c.spec())
            session.set_option(c.name, c.value)
            job.moving[c.name] = float(c.value or c.high)
        elif train or not option:
            job.left_out.append(
                f"the control {c.name!r} is left out: it is an argument of the program's "
                "functions, which run in Python"
            )


def _predictions(job: _Job, session: Session, learn: Any) -> None:
    """What the page predicts, and for how many samples at once."""
    demo, model, outputs = session.demo, session.model, session.outputs
    shape = session.inputs.shape if session.inputs is not None else None
    if shape is None and learn is not None and learn[0].dtype.kind == "f":
        shape = learn[0].shape[1:]
    if shape is None:
        return

    def predict(x: pf.Tensor) -> Any:
        y = demo.predict(model, x) if demo.predict is not None else model.net(x)
        return outputs.show(y) if outputs is not None else y  # type: ignore[union-attr]

    job.predict, job.inputs = predict, np.zeros(shape, np.float32)
    job.sizes.add(1)
    if isinstance(outputs, Plane):
        job.sizes.add(outputs.size**2)


def _training(job: _Job, learn: Any, test: Any) -> None:
    """What a step learns from, and what is evaluated."""
    n = job.spec["batch_size"]
    x, y = learn if learn is not None else (np.zeros((1, 2), np.float32), np.zeros(1, np.int64))
    job.batch = _filled(x, n), _filled(y, n)
    assert job.model is not None
    _optimizers(job, job.model)
    if learn is not None:
        job.spec["steps_per_epoch"] = math.ceil(len(x) / n)
    if test is not None:
        x, y = test
        whole, rest = min(len(x), n), len(x) % min(len(x), n)
        job.tests = [(x[:k], y[:k]) for k in (whole, rest) if k]


def _ship(job: _Job, learn: Any, test: Any, trains: bool) -> None:
    """Put the data beside the program that is trained, and what the page shows of them."""
    tensors: dict[str, np.ndarray] = {}
    for part, pair in (("train", learn), ("test", test)):
        if pair is not None and trains:
            job.data[part] = _packed(part, pair, tensors)
    if trains:
        job.files["data.safetensors"] = tensors
    widget = job.spec["input"] or {}
    x, y = test if test is not None else learn
    tensors = {}
    if widget.get("kind") in (Pad.kind, Image.kind) and list(x.shape[1:]) == widget["shape"]:
        some = shown(len(x), x.shape[1:])
        job.data["samples"] = _packed("samples", (x[some], y[some]), tensors)
        job.sizes.add(len(some))
    elif widget.get("kind") == Points.kind:
        x, y = (a[list(drawn(len(a)))] for a in learn)
        rows = np.concatenate([x.reshape(len(x), -1)[:, :2], y.reshape(len(y), -1)[:, :1]], 1)
        tensors["points"] = rows.astype(np.float32)
        job.data["samples"] = [{"tensor": "points", "shape": [3]}]
    if tensors:
        job.files["samples.safetensors"] = tensors


def _packed(
    name: str, pair: tuple[np.ndarray, np.ndarray], tensors: dict[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Where the page finds x and y."""
    x = _column(f"{name}.x", pair[0], tensors)
    return [x, x if _equal(*pair) else _column(f"{name}.y", pair[1], tensors)]


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    return x is y or (x.shape == y.shape and x.dtype == y.dtype and bool((x == y).all()))


def _column(name: str, array: np.ndarray, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Where the page finds an array: as bytes where each stands for one of 256 numbers."""
    about: dict[str, Any] = {"tensor": name, "shape": list(array.shape[1:])}
    if array.dtype.kind == "f":
        table = _table(array)
        if table is None:
            tensors[name] = array.astype(np.float32)
        else:
            values, indices = table
            tensors[name], tensors[f"{name}.values"] = indices, values
            about["values"] = f"{name}.values"
    elif array.size and array.min() >= 0 and array.max() <= 255:
        tensors[name] = array.astype(np.uint8)
    else:
        tensors[name] = array.astype(np.int32)
    return about


def _table(array: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(numbers, their indices as bytes) of an array of at most 256 different numbers."""
    x = array.astype(np.float32)
    whole = np.rint(x * 255)
    if (x >= 0).all() and (x <= 1).all() and ((whole / np.float32(255)) == x).all():
        return np.arange(256, dtype=np.float32) / np.float32(255), whole.astype(np.uint8)
    if len(np.unique(x.reshape(-1)[:10_000])) > 256:
        return None
    values, indices = np.unique(x, return_inverse=True)
    if len(values) > 256 or np.isnan(values).any():
        return None
    return values, indices.reshape(x.shape).astype(np.uint8)


def _filled(array: np.ndarray, n: int) -> np.ndarray:
    """n samples: the first ones, again from the start where there are fewer."""
    return array[np.arange(n) % len(array)]


def _array(what: str, value: Any) -> np.ndarray:
    """Inputs or targets. ExportError for several ones."""
    if isinstance(value, pf.Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype is pf.bfloat16 else value).numpy()
    if isinstance(value, Mapping | tuple):
        raise ExportError(
            f"{what} have a {type(value).__name__} of {len(value)} in a batch; a program takes one "
            "tensor of inputs and one of targets"
        )
    return np.asarray(value)


def _arrays_of(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """All of a data set: (x, y)."""
    if isinstance(data, DataLoader):
        data = data.dataset
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        data = data.tensors
    if isinstance(data, tuple | list) and len(data) == 2:
        x, y = (_array("the data", v) for v in data)
    elif isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        rows = list(DataLoader(data, 512))
        if len(rows[0]) != 2:
            raise ExportError(
                f"samples of the data are {len(rows[0])} things; a program takes an input and a "
                "target"
            )
        x, y = (np.concatenate([_array("the data", r[i]) for r in rows]) for i in (0, 1))
    else:
        raise ExportError(
            f"the data are a {type(data).__name__}, which Python makes anew in every epoch; "
            "--no-data exports without them"
        )
    if len(x) != len(y) or not len(x):
        raise ExportError(f"the data have {len(x)} samples and {len(y)} targets")
    return tuple(a.astype(np.float32) if a.dtype == np.float64 else a for a in (x, y))


# --- files


def _halved(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """In float16 what it holds exactly, such as weights that were saved in it: half the bytes."""
    found = dict(arrays)
    for name, x in arrays.items():
        if x.dtype == np.float32:
            with np.errstate(over="ignore"):
                half = x.astype(np.float16)
            if np.array_equal(half, x):
                found[name] = half
    return found


def _in_files(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """State in files that a browser's cache takes, and a page loads side by side."""
    files: list[dict[str, np.ndarray]] = [{}]
    room = FILE_BYTES
    for name, x in arrays.items():
        if x.nbytes > room and files[-1]:
            files.append({})
            room = FILE_BYTES
        files[-1][name] = x
        room -= x.nbytes
    return {f"state{f'-{i}' if i else ''}.safetensors": some for i, some in enumerate(files)}


def _write(to: Path, files: dict[str, bytes], job: _Job, single: bool, element: bool) -> Export:
    from pyframe.serve import WEB
    from pyframe.web.site import LICENSES, licences

    title = html.escape(job.spec.get("title") or "pyframe")
    without = [PYTHON] if "write" in job.plan else [PYTHON, WRITER]
    if single:
        path = to if to.suffix in (".html", ".htm") else to / "index.html"
        page = _single(WEB, files, title, element, without)
        _put(path, page)
        return Export(path, {path.name: len(page)}, job.left_out)
    names = [n for n in (*SCRIPTS, WRITER) if (WEB / n).exists() and n not in without]
    if element and (WEB / ELEMENT).exists():
        names += [n for n in (*modules_of(WEB, ELEMENT, without), "pyframe.d.ts")
                  if n not in names and (WEB / n).exists()]  # fmt: skip
        files["index.html"] = PAGE.format(title=title).encode()
        files["page.css"] = STYLE.encode()
    files.update({name: (WEB / name).read_bytes() for name in names})
    files[LICENSES] = licences(files)
    for name in sorted(files, key=lambda n: n == "index.html"):  # what refers to others comes last
        _put(to / name, files[name])
    return Export(to, {n: len(files[n]) for n in sorted(files)}, job.left_out)


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(data)


def _single(
    web: Path, files: Mapping[str, bytes], title: str, element: bool, without: Sequence[str]
) -> bytes:
    """One page with all files in it: those of the program as text that no browser runs."""
    scripts = {name: raw.decode() for name, raw in files.items() if name.endswith(".js")}
    packed = {name: base64.b64encode(gzip.compress(raw, 9, mtime=0)).decode()
              for name, raw in files.items() if name not in scripts}  # fmt: skip
    start = ELEMENT if element and (web / ELEMENT).exists() else "player.js"
    return SINGLE.format(
        title=title,
        style=STYLE,
        files=json.dumps(packed).replace("<", "\\u003c"),
        script=bundle(web, start, ["player.js"], without, scripts),
        body='<main><py-frame program="#program"></py-frame></main>' if start == ELEMENT else "",
    ).encode()


STYLE = """:root { color-scheme: light dark }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font-family: system-ui, sans-serif }
"""

HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
"""

PAGE = f"""{HEAD}<link rel="stylesheet" href="page.css">
<script type="module" src="pyframe.js"></script>
<script type="module" src="missing.js"></script>
<main><py-frame program="./"></py-frame></main>
</html>
"""

SINGLE = f"""{HEAD}<!-- It holds parts of pyframe {pf.__version__}, under the Apache License 2.0:
https://www.apache.org/licenses/LICENSE-2.0 -->
<style>
{{style}}</style>
{{body}}
<script type="application/json" id="program">{{files}}</script>
<script type="module">
{{script}}</script>
</html>
"""
