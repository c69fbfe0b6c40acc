"""The Python half of a page's worker: an App for each `<py-frame>` that runs a program.

`web/worker.js` calls `call`; what it takes and gives is JSON's kind of data and typed arrays.
Nothing here blocks: every value is read with `await`, so that the page is heard between two steps,
and no browser needs more than WebAssembly and, for the GPU, WebGPU.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import contextvars
import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import math
import os
import shutil
import sys
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import js
import numpy as np
from pyodide.ffi import can_run_sync, run_sync, to_js

import pyframe as pf
from pyframe import train
from pyframe.core import devices
from pyframe.core.devices import DeviceLostError
from pyframe.core.extras import install
from pyframe.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from pyframe.io import safetensors
from pyframe.nn.modules.module import Evaluation
from pyframe.tensor import gather_async
from pyframe.train import recovery
from pyframe.train.check import length
from pyframe.train.data import to_device
from pyframe.train.steps import numbers
from pyframe.web.demo import Demo, Image, Pad, Points, Text
from pyframe.web.session import Session, drawn, is_pair, parameters, shown

HOME = Path("/home/pyodide/apps")  # a folder for each app
NAMES = "pyframe_page"  # the package in which the modules of apps lie
BATCH = 8192  # samples that go through the network together
BREATH = 0.05  # seconds after which a step lets the page be heard, where the browser can wait

APPS: dict[str, App] = {}
_current: contextvars.ContextVar[App | None] = contextvars.ContextVar("app", default=None)


class TroubleError(Exception):
    """What a visitor is told as it is: the message is a whole sentence."""


def javascript(value: Any) -> Any:
    """JSON's kind of data and NumPy arrays as JavaScript's own."""
    return to_js(value, dict_converter=js.Object.fromEntries)


# --- a program and its modules


class _Loader(importlib.machinery.SourceFileLoader):
    """Lets the modules beside a program import each other, whatever those of others are called."""

    app: App

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code."""
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self.app.find}
        super().exec_module(module)


class _AppFinder:
    """Finds the modules of apps, all of them in one package."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """See importlib's finders."""
        if not name.startswith(f"{NAMES}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            loader = _Loader(spec.loader.name, spec.loader.path)
            loader.app = APPS[name.split(".")[1]]
            spec.loader = loader
        return spec


sys.meta_path.insert(0, _AppFinder)
sys.modules[NAMES] = types.ModuleType(NAMES)
sys.modules[NAMES].__path__ = []


class Feed:
    """The batches of a loader, an epoch a time; one that was `left` in the middle goes on there."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.batch = loader, 0  # batches given in this epoch
        self.leaving = False  # whether what is now gone through is to be gone on with
        self._left: Iterator[Any] | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        left, self._left = self._left or iter(()), None
        more = list(itertools.islice(left, 1))  # it may have been left at its very end
        if more:
            live: Iterator[Any] = itertools.chain(more, left)
        else:
            live, self.batch = iter(self.loader), 0
        self.leaving = False
        heard = time.monotonic()
        try:
            for batch in live:
                self.batch += 1
                yield batch
                if time.monotonic() - heard > BREATH and can_run_sync():
                    run_sync(asyncio.sleep(0))  # slow steps: the page is heard after each
                    heard = time.monotonic()
        except GeneratorExit:
            if self.leaving:
                self._left = live
            raise
        self.batch = 0

    @property
    def whole(self) -> bool:
        """Whether the last batch of an epoch was given."""
        return self.batch == length(self)

    def end(self) -> None:
        """Begin with the next epoch."""
        self._left, self.batch = None, 0

    def some(self, count: int) -> Iterator[Any]:
        """The next `count` batches."""
        while count > 0:
            before = count
            epoch = iter(self)
            for batch in itertools.islice(epoch, count):
                count -= 1
                yield batch
            self.leaving = True
            del epoch
            if count == before and not self.batch:
                return  # there is no data


def as_dataset(data: Any) -> Any:
    """(x, y) tensors as a data set; anything else as it is."""
    if is_pair(data) and len(data[0]) == len(data[1]):
        return TensorDataset(pf.as_tensor(data[0]), pf.as_tensor(data[1]))
    return data


def by_index(data: Any) -> Any:
    """The data as samples by number, those of a loader too; none where they have no numbers."""
    data = data.dataset if isinstance(data, DataLoader) else data
    stream = isinstance(data, IterableDataset) or not hasattr(data, "__getitem__")
    return () if stream else data


def first(data: Any, limit: int | None) -> Any:
    """The first `limit` samples of a data set; all of them for None."""
    if limit is None or not hasattr(data, "__len__") or isinstance(data, DataLoader):
        return data
    return Subset(data, range(min(limit, len(data))))


class App(Session):
    """A program in a page: its demo, its model, its data, and how far training has come."""

    def __init__(self, key: str) -> None:
        self.key, self.folder = key, HOME / key
        self.lacks = ""  # why there are no data, if they could not be read
        self.step = self.epochs = 0  # that the model was trained for
        self.trained = self.training = self.stopping = False
        self.told: set[str] = set()  # the notices so far
        self._feed: tuple[Any, Feed] | None = None
        self._kept: dict[str, np.ndarray] = {}  # the weights as they came, if they are on a GPU
        self._ended = asyncio.Event()
        self._asked = 0
        self.history: list[dict[str, Any]] = []  # what was asked and answered

    def post(self, event: str, **details: Any) -> None:
        """Tell the element about something."""
        js.pyframeTell(self.key, event, javascript(details))

    def notice(self, text: str) -> None:
        """Tell the visitor something, once for a model."""
        if text not in self.told:
            self.told.add(text)
            self.post("notice", text=text)

    # --- opening

    def find(
        self, name: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0
    ) -> Any:
        """`__import__` of the app's modules: what lies beside the program comes first."""
        top, _, rest = name.partition(".")
        beside = self.folder / top
        if level or not (beside.is_dir() or beside.with_suffix(".py").is_file()):
            return builtins.__import__(name, globals, locals, names or (), level)
        own = f"{NAMES}.{self.key}"
        module = importlib.import_module(f"{own}.{name}")
        if not names:
            return sys.modules[f"{own}.{top}"] if rest else module
        for each in names:
            if not hasattr(module, each) and hasattr(module, "__path__") and each != "*":
                importlib.import_module(f"{own}.{name}.{each}")
        return module

    async def open(self, file: str, device: str = "auto") -> dict[str, Any]:
        """Run a program, make its model and load its data; gives the spec."""
        self.file = file
        package = types.ModuleType(f"{NAMES}.{self.key}")
        package.__path__ = [str(self.folder)]
        sys.modules[package.__name__] = package
        importlib.invalidate_caches()
        os.chdir(self.folder)
        module = importlib.import_module(f"{package.__name__}.{Path(file).stem}")
        super().__init__(Demo.of(module))  # the program says only now what it is
        self.make_model()
        await self._to(self._choose(device))
        self.load_data()
        for name in self.values:
            self._acts_on(name)
        x, y = self._sample()
        self.complete(x, y, self._forward, self._far)
        self.shape = self.demo.inputs.shape if self.demo.inputs else None
        if self.shape is None and x is not None:
            self.shape = tuple(x.shape)
        return await self.spec()

    def _choose(self, device: str) -> str:
        """The device for what the element asks for."""
        if device == "auto":
            return str(pf.device("auto"))
        if device == "gpu" and self._gpu() is None:
            self.notice(
                "This browser offers no WebGPU, so the CPU does the arithmetic: the same result, "
                "more slowly. Recent versions of Chrome, Edge, Safari and Firefox have WebGPU, if "
                "the system's graphics driver does."
            )
            return "cpu"
        return device

    @staticmethod
    def _gpu() -> Any:
        try:
            return pf.device("gpu").backend
        except RuntimeError:
            return None

    def make_model(self) -> None:
        """A new model, with the options that the controls have."""
        os.chdir(self.folder)
        super().make_model()
        if not isinstance(self.model, pf.Model):
            hint = " (wrap it: pf.Model(net, loss, optimizer))"
            raise TroubleError(
                f"{self.file}: {getattr(self.demo.model, '__name__', 'the model')}() gave "
                f"{type(self.model).__name__}, expected a pf.Model"
                f"{hint if isinstance(self.model, pf.nn.Module) else ''}."
            )
        self.step = self.epochs = 0
        self.trained, self._feed = False, None
        self.told.clear()
        for name, value in self.values.items():
            if self.is_option(name):
                self.set_option(name, value)

    def _acts_on(self, name: str) -> str:
        """Where a control of this name acts: "optimizer", or "model", "data" and "text"."""
        writes = self.demo.predict if isinstance(self.inputs, Text) else None
        parts = [p for p, fn in (("model", self.demo.model), ("data", self.demo.data),
                                 ("text", writes))
                 if fn is not None and name in parameters(fn)]  # fmt: skip
        if parts:
            return " ".join(parts)
        if self.is_option(name):
            return "optimizer"
        options = [k for group in self.groups[:1] for k in group if k != "params"]
        raise TroubleError(
            f"{self.file}: the control {name!r} sets nothing: expected an argument of "
            "make_model or load_data, or an option of the optimizer "
            f"({', '.join(options) or 'there is none'})."
        )

    def load_data(self) -> None:
        """Load the data, which may be missing, as data sets."""
        self.train_data = self.test_data = self._feed = None
        self.lacks = ""
        if self.demo.data is None:
            return
        os.chdir(self.folder)
        try:
            super().load_data()
        except (OSError, RuntimeError) as error:
            if not _about_files(error):
                raise
            why = f"{error}".strip().rstrip(".")
            self.lacks = (
                f"There is nothing to learn from: {why}. The program's files are "
                'named by the attribute files="…" (or data="…" for pyframe\'s own data sets).'
            )
            self.notice(self.lacks)
        self.train_data, self.test_data = map(as_dataset, (self.train_data, self.test_data))

    def _sample(self) -> tuple[Any, Any]:
        """(x, y) of one sample of the data; (None, None) where there is none at hand."""
        for data in map(by_index, (self.test_data, self.train_data)):
            if len(data) and isinstance(sample := data[0], (tuple, list)) and len(sample) == 2:
                return pf.as_tensor(sample[0]), sample[1]
        return None, None

    def _far(self) -> float:
        """The largest coordinate of the data's points."""
        return float(np.abs(self._points().reshape(-1, 3)[:, :2]).max(initial=0.0))

    def _points(self) -> np.ndarray:
        """(x, y, class) of points of the data, one after the other; what lies on the CPU."""
        data = by_index(self.train_data)
        rows = []
        for i in drawn(len(data)):
            x, y = data[i]
            rows.append(
                [*np.asarray(x, np.float32).reshape(-1)[:2], float(np.asarray(y).reshape(-1)[0])]
            )
        return np.asarray(rows, np.float32).reshape(-1)

    # --- what the page is told

    async def spec(self) -> dict[str, Any]:
        """What the element knows of the program: `json`, and arrays that are no JSON."""
        arrays: dict[str, Any] = {"json": self._json()}
        if isinstance(self.inputs, Points):
            arrays["points"] = self._points()
        elif isinstance(self.inputs, (Pad, Image)):
            arrays["samples"] = self._samples()
        return arrays

    def _json(self) -> str:
        gpu = self._gpu()
        device = self.model.device
        about = self.described()
        spec = {
            **about,
            "trains": self.model.trainable
            and (self.train_data is not None or isinstance(self.inputs, Points)),
            "tests": self.test_data is not None,
            "device": {
                "kind": device.kind,
                "name": pf.device_name(device),
                "software": bool(device.kind == "gpu" and gpu is not None and gpu.software),
                "choices": [
                    kind
                    for kind in ("cpu", "gpu")
                    if kind == device.kind or (gpu is not None and about["parameters"])
                ],
            },
            "steps_per_epoch": self._steps(),
            "trained": self.trained,
            "frozen": not all(p.requires_grad for p in self.model.net.parameters()),
            "step": self.step,
            "engine": "python",
        }
        for control in spec["controls"]:
            control["value"] = self.values[control["name"]]
        return json.dumps(spec, default=str)

    def _steps(self) -> int | None:
        if self.train_data is None:
            return None
        try:
            return len(self._loader(None, None))
        except (TypeError, ValueError):
            return None

    def _samples(self) -> list[dict[str, Any]]:
        """Samples of unseen data, if there are any: their numbers and their classes."""
        data = by_index(self.test_data if self.test_data is not None else self.train_data)
        found: list[dict[str, Any]] = []
        if not self.shape:
            return found
        for i in shown(len(data), self.shape):
            x, y = data[i]
            x = np.ascontiguousarray(x, np.float32)
            if x.shape != self.shape:
                return []
            label = np.asarray(y)
            whole = label.ndim == 0 and np.issubdtype(label.dtype, np.integer)
            found.append({"data": x.reshape(-1), "label": int(label) if whole else -1})
        return found

    # --- training

    def _loader(self, limit: int | None, points: Any) -> Any:
        """What gives the batches: of the data, of its first samples, or of the visitor's points."""
        data = first(self.train_data, limit) if points is None else self._of_points(points)
        if data is None:
            raise TroubleError(
                self.lacks
                or f"{self.file} names no data to learn from: write a function load_data(), and "
                "Demo(…, data=load_data) where there is a Demo."
            )
        if isinstance(data, Dataset) or not hasattr(data, "__iter__"):
            shuffle = not isinstance(data, IterableDataset)
            return DataLoader(data, self.demo.batch_size, shuffle=shuffle)
        return data

    def _of_points(self, points: Any) -> Any:
        """The visitor's points as data, as often as makes an epoch as long as one of the data."""
        a = np.array(points, np.float32).reshape(-1, 3)
        if not len(a):
            raise TroubleError("There are no points to learn from: put some.")
        wanted = 8 * self.demo.batch_size
        if hasattr(self.train_data, "__len__") and not isinstance(self.train_data, DataLoader):
            wanted = len(self.train_data)
        a = np.tile(a, (max(1, wanted // len(a)), 1))
        y = pf.from_numpy(a[:, 2].astype(np.int64))
        like = self._sample()[1]
        if like is not None and (like := pf.as_tensor(like)).is_floating_point():
            y = y.to(like.dtype).reshape(-1, *like.shape)
        return TensorDataset(pf.from_numpy(a[:, :2].copy()), y)

    async def train(
        self, epochs: int | None = None, steps: int | None = None, limit: int | None = None,
        points: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Train for some epochs or steps of the first `limit` samples, or of points; gives the
        last logs and how it went."""
        if self.training:
            raise TroubleError("The network is being trained already; stop that first.")
        marks = (limit, None if points is None else bytes(memoryview(points)))
        if self._feed is None or self._feed[0] != marks:
            self._feed = marks, Feed(self._loader(limit, points))
        feed = self._feed[1]
        test = first(self.test_data, limit) if points is None else None
        self.training, self.stopping = True, False
        self._ended.clear()
        reporter = Reporter(self, feed, epochs or self.demo.epochs, steps)
        start = time.perf_counter()
        try:
            if steps:
                await self._fit(feed.some(steps), 1, reporter)
                if feed.whole and not self.stopping:
                    found = {} if test is None else await self._evaluated(test)
                    reporter.tell_epoch(
                        {**reporter.logs, **{f"val_{k}": v for k, v in found.items()}}
                    )
                    feed.end()
            else:
                await self._fit(feed, epochs or self.demo.epochs, reporter, test)
        except MemoryError as error:
            raise self._too_large(error) from error
        finally:
            self.training = False
            self._ended.set()
        went = {"steps": self.step - reporter.before, "seconds": time.perf_counter() - start}
        return {**reporter.logs, **went, "stopped": self.stopping, "json": self._json()}

    async def _fit(self, data: Any, epochs: int, reporter: Reporter, test: Any = None) -> None:
        self.trained = True
        await self.model.fit_async(
            data, epochs, batch_size=self.demo.batch_size, validation_data=test, device=None,
            callbacks=[reporter], read_every=self.demo.read_every,
        )  # fmt: skip

    def _too_large(self, error: BaseException) -> TroubleError:
        size = self.demo.batch_size
        return TroubleError(
            f"There is no memory left to train with batches of {size} samples: {error}. Try "
            f"batch_size={max(1, size // 4)} in the Demo (or BATCH_SIZE) of {self.file}."
        )

    async def stop(self, what: str | None = None) -> None:
        """End training and writing, or one of them, after what is under way."""
        if what != "training":
            self._asked += 1
        if self.training and what != "writing":
            self.stopping = self.model.stop_training = True
            if self._feed is not None:
                self._feed[1].leaving = True

    async def still(self) -> None:
        """Stop training and wait until it has ended."""
        while self.training:
            await self.stop()
            await self._ended.wait()

    # --- using it

    def _forward(self, x: pf.Tensor) -> pf.Tensor:
        """The network's output, as when it is used. Training may go on before it is read."""
        y = Evaluation(self.model.net)(self.model.net, self._placed(x))
        if not isinstance(y, pf.Tensor):
            raise TroubleError(
                f"{self.file}: the network gave {type(y).__name__}, expected a tensor; Demo(…, "
                "predict=…) can make one of it."
            )
        return y

    async def _output(self, x: pf.Tensor) -> pf.Tensor:
        if self.demo.predict is None:
            y: Any = self._forward(x)
        else:
            os.chdir(self.folder)
            y = Evaluation(self.model.net)(self.demo.predict, self.model, self._placed(x))
            if inspect.isawaitable(y):
                y = await y
        if self.outputs is None or isinstance(self.outputs, Text):
            return y
        return Evaluation(self.model.net)(self.outputs.show, y)

    async def predict(self, value: Any) -> dict[str, Any]:
        """What the program makes of samples, one after the other, or of a text."""
        if isinstance(self.inputs, Text):
            return {"text": await self._write(value)}
        x = self._batch(value)
        parts = []
        for part in x.split(BATCH):
            parts.append(await self._mended(part))
        out = np.concatenate(parts).astype(np.float32, copy=False)
        return {"data": np.ascontiguousarray(out).reshape(-1), "shape": list(out.shape)}

    async def _mended(self, x: pf.Tensor) -> np.ndarray:
        """What the page gets for x, again where the GPU was lost meanwhile."""
        try:
            return np.asarray(await (await self._output(x)).detach().numpy_async())
        except DeviceLostError:
            if self.training:
                raise
            await self._mend()
            return np.asarray(await (await self._output(x)).detach().numpy_async())

    def _placed(self, x: Any) -> Any:
        """Inputs where the network is."""
        return to_device("predict", x, *self.model._device_and_dtype(), images=True)

    async def _mend(self) -> None:
        """Give a model that was on a lost GPU its last values again."""
        safe = self.model._safe
        kind = self.model.device.kind
        if safe is not None and safe.copy is not None:
            gone = await recovery.lost(recovery.tensors_of(self.model))
            await safe.put_back(self.model, gone)
            return
        before = self.step, self.epochs, self.trained
        self.make_model()
        self.model.net.load_state_dict({k: pf.from_numpy(a) for k, a in self._kept.items()})
        self.step, self.epochs, self.trained = before
        await devices.reopen(pf.device(kind))
        await self._to(kind)

    def _batch(self, value: Any) -> pf.Tensor:
        """Numbers as samples (N, …)."""
        if self.shape is None:
            raise TroubleError(
                f"{self.file} does not say what its network takes: give Demo(…, inputs=…) to "
                "predict something."
            )
        if isinstance(value, str):
            raise TroubleError(
                f"predict: expected numbers of shape {list(self.shape)}, got a text."
            )
        a = np.asarray(value, np.float32).reshape(-1)
        size = math.prod(self.shape)
        if not a.size or a.size % size:
            raise TroubleError(
                f"predict: expected {size} numbers a sample, of shape {list(self.shape)}, got "
                f"{a.size}."
            )
        return pf.from_numpy(a.reshape(-1, *self.shape).copy())

    async def _write(self, text: Any) -> str | list[str]:
        """What the program writes; the page is told of each piece."""
        if not isinstance(text, str):
            raise TroubleError(f"predict: expected a text, got {type(text).__name__}.")
        self._asked += 1
        asked = self._asked  # a later question, or stop, ends this answer
        several = isinstance(self.outputs, Text) and self.outputs.names
        question = {"role": "user", "content": text}
        answer = {"role": "assistant", "content": [""] * len(several) if several else ""}
        history, self.history = self.history, [*self.history, question, answer]
        os.chdir(self.folder)
        fn = self.demo.predict
        assert fn is not None
        how = self.arguments(fn)
        if "history" in parameters(fn):
            how["history"] = [dict(said) for said in history]
        try:
            given = fn(self.model, text, **how)
            if inspect.isawaitable(given):
                given = await given
            if isinstance(given, (str, tuple)):
                given = [given]
            async with contextlib.aclosing(_slowly(given)) as pieces:
                async for piece in pieces:
                    if asked != self._asked:
                        break
                    answer["content"] = self._joined(answer["content"], piece)
                    self.post("prediction", text=answer["content"], done=False)
        except BaseException:
            self.history = [s for s in self.history if s is not question and s is not answer]
            raise
        content: str | list[str] = answer["content"]
        return content

    def _joined(self, text: Any, piece: Any) -> Any:
        """A text, or several, with a piece more."""
        if isinstance(text, str):
            return text + str(piece)
        if not isinstance(piece, (tuple, list)) or len(piece) != len(text):
            raise TroubleError(
                f"{self.file}: expected pieces of {len(text)} texts in a tuple, got {piece!r}."
            )
        return [before + str(more) for before, more in zip(text, piece, strict=True)]

    async def clear(self) -> None:
        """Begin another conversation."""
        await self.stop("writing")
        self.history = []
        fn = self.demo.predict
        owner = getattr(getattr(fn, "__wrapped__", fn), "__self__", None)
        if callable(forget := getattr(owner, "clear", None)):
            forget()

    async def evaluate(self) -> dict[str, float] | None:
        """Loss and metrics on the test data, those that are one number each; None without."""
        if self.test_data is None:
            return None
        return await self._evaluated(self.test_data)

    async def _evaluated(self, data: Any) -> dict[str, float]:
        return numbers(await self.model.evaluate_async(data))

    # --- changing it

    async def reset(self) -> dict[str, Any]:
        """A new model, which starts where every model of the program starts."""
        await self.still()
        await self._begin_anew()
        return await self.spec()

    async def _begin_anew(self) -> None:
        """A new model where the last one is."""
        device = str(self.model.device)
        self.make_model()
        await self._to(device)

    async def set(self, name: str, value: Any) -> dict[str, Any]:
        """Change a control: an option of the optimizer, or an argument of the model or the data."""
        if name not in self.values:
            known = ", ".join(map(repr, self.values)) or "none"
            raise TroubleError(f"There is no control {name!r}; {self.file} has {known}.")
        control = next(c for c in self.demo.controls if c.name == name)
        value = _as_control(control, value)
        target = self._acts_on(name)
        if target == "optimizer":
            self.values[name] = value
            self.set_option(name, value)
            return await self.spec() if not self.training else {}
        await self.still()
        self.values[name] = value
        if "model" in target:
            await self._begin_anew()
        if "data" in target:
            try:
                self.load_data()
            except ValueError as error:  # that text or number is none to learn from
                self.lacks = str(error)
                raise TroubleError(self.lacks) from error
        return await self.spec()

    async def move(self, device: str) -> dict[str, Any]:
        """The same model on another device."""
        if device == "gpu" and self._gpu() is None:
            raise TroubleError("This browser offers no WebGPU; the CPU does the arithmetic.")
        await self.still()
        await self._to(device if device != "auto" else str(pf.device("auto")))
        return await self.spec()

    async def _to(self, device: str) -> None:
        """Move the model; what is on a GPU is read with `await`."""
        target = pf.device(device)
        if target.kind == "gpu":
            await devices.reopen(target)
        if self.model.device.kind == "cpu" and target.kind != "cpu":
            self._kept = {k: t.detach().numpy() for k, t in self.model.net.state_dict().items()}
        away = [x for x in recovery.tensors_of(self.model) if x.is_cuda and target.kind == "cpu"]
        with pf.no_grad():
            for x, a in zip(away, await gather_async(away), strict=True):
                x.grad = None
                x.data = pf.tensor(a, dtype=x.dtype)
        self.model.to(target)
        if target.kind == "gpu" and target.backend.software:
            self.notice(
                f"WebGPU runs on a software adapter here ({pf.device_name(target)}): the CPU "
                "is likely faster."
            )

    async def save(self) -> dict[str, Any]:
        """The weights as the bytes of a safetensors file."""
        data = await safetensors.save_async(self.model.net.state_dict())
        return {"data": np.frombuffer(data, np.uint8)}

    async def load(
        self, data: Any, name: str = "The file", strict: bool | None = None, rename: Any = None
    ) -> dict[str, Any]:
        """Take over weights that `save` gave, or `Model.save` wrote; see `take_weights`."""
        await self.still()
        path = self.folder / ".weights"
        path.write_bytes(bytes(data))
        try:
            self.take_weights(path, strict, rename)
        except (RuntimeError, ValueError, OSError) as error:
            why = f"{error}".replace(f"Model.load: {path}: ", "").replace(f"{path}", name)
            if "another architecture" in why:
                raise TroubleError(
                    f"{name} holds the weights of another model than {self.file} makes: {why}"
                ) from error
            raise TroubleError(f"{name} can't be read as weights: {why}") from error
        finally:
            path.unlink()
        self.trained = True
        if self.model.device.kind != "cpu":
            arrays = await gather_async(list(self.model.net.state_dict().values()))
            self._kept = dict(zip(self.model.net.state_dict(), arrays, strict=True))
        return await self.spec()

    async def close(self) -> None:
        """Drop the program with all that it holds."""
        await self.still()
        APPS.pop(self.key, None)
        own = f"{NAMES}.{self.key}"
        for name in [n for n in sys.modules if n == own or n.startswith(f"{own}.")]:
            del sys.modules[name]
        os.chdir(HOME)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.__dict__.clear()
        free()


def free() -> None:
    """Give back what closed apps held."""
    gc.collect()
    for device in devices.device._known.values():
        if device.kind != "cpu" and device.opened is not None:
            device.executor.trim()


def _as_control(control: Any, value: Any) -> Any:
    """A value of the page in the type that the control's own has."""
    if control.kind == "choice":
        for option in control.options:
            if option == value or str(option) == str(value):
                return option
        raise TroubleError(f"{control.name}: expected one of {control.options}, got {value!r}.")
    if control.kind == "toggle":
        if not isinstance(value, bool):
            raise TroubleError(f"{control.name}: expected true or false, got {value!r}.")
        return value
    if control.kind == "text":
        if isinstance(value, str) and len(value) <= control.most:
            return value
        seen = f"{len(value)} of them" if isinstance(value, str) else repr(value)
        raise TroubleError(
            f"{control.label or control.name}: expected a text of {control.most} characters at "
            f"most, got {seen}."
        )
    if type(value) not in (int, float) or not control.low <= value <= control.high:
        raise TroubleError(
            f"{control.name}: expected a number from {control.low} to {control.high}, got "
            f"{value!r}."
        )
    return round(value) if isinstance(control.value, int) else float(value)


async def _slowly(pieces: Any) -> Any:
    """The pieces of a generator, with a breath in between for the page; it is closed in the end."""
    each = aiter(pieces) if hasattr(pieces, "__aiter__") else iter(pieces)
    try:
        if hasattr(each, "__anext__"):
            async for piece in each:
                yield piece
                await asyncio.sleep(0)
        else:
            for piece in each:
                yield piece
                await asyncio.sleep(0)
    finally:
        if hasattr(each, "aclose"):
            await each.aclose()
        elif hasattr(each, "close"):
            each.close()


class Reporter(train.Callback):
    """Posts each loss that was read, and each epoch."""

    def __init__(self, app: App, feed: Feed, epochs: int, steps: int | None) -> None:
        self.app, self.before = app, app.step
        self.logs: dict[str, float] = {}
        self.epoch0, self.one_run = app.epochs, steps is not None
        self.epochs = app.epochs + (0 if steps else epochs)
        self.planned: int | None = None
        if steps:
            self.planned = app.step + steps
        elif (batches := length(feed)) is not None:
            self.planned = app.step + epochs * batches - feed.batch
        self.last, self.epoch = 0, -1  # the step and the epoch of the last news
        self.seen, self.sums = 0, dict[str, float]()  # steps of this epoch, and what they came to
        self.began = 0  # the step before the first of this epoch
        self.since: tuple[float, int] | None = None  # the time of the first news, and its step

    def on_step(self, model: pf.Model, step: int, logs: dict[str, float]) -> None:
        """`logs` has what the epoch came to so far. Of means the page wants those since the last
        time; a metric, which may be no mean, stays what it is of the epoch."""
        if step <= self.last:
            return  # an epoch's last step is told twice, and what a lost GPU did again
        if model.epoch != self.epoch:
            self.epoch, self.seen, self.sums, self.began = model.epoch, 0, {}, self.last
        seen = step - self.began
        sums = {k: v * seen for k, v in logs.items() if k not in model.metrics}
        share = max(seen - self.seen, 1)
        news = logs | {k: (v - self.sums.get(k, 0.0)) / share for k, v in sums.items()}
        self.seen, self.sums, self.last = seen, sums, step
        self.logs = dict(logs)
        self.app.step = self.before + step
        now = time.perf_counter()
        if self.since is None:
            self.since = now, step
        passed = now - self.since[0]
        self.app.post(
            "step",
            loss=news.pop("loss", next(iter(news.values()), math.nan)),  # a GAN's has two
            step=self.app.step,
            steps=self.planned or self.app.step,
            epoch=self.epoch0 + model.epoch,
            epochs=max(self.epochs, self.epoch0 + model.epoch),
            speed=(step - self.since[1]) / passed if passed > 0 else 0.0,
            metrics=news,
        )

    def on_epoch(self, model: pf.Model, epoch: int, logs: dict[str, float]) -> None:
        """An epoch that was stopped gets no news, nor does a run of some steps."""
        self.logs = dict(logs)
        if not model.stop_training and not self.one_run:
            self.tell_epoch(logs)

    def tell_epoch(self, logs: dict[str, float]) -> None:
        """Tell the page of an epoch."""
        self.logs = dict(logs)
        self.app.epochs += 1
        self.app.post("epoch", epoch=self.app.epochs, step=self.app.step, **logs)


# --- what went wrong


def _about_files(error: BaseException) -> bool:
    """Whether an error says that a file is missing, as data sets do that look for theirs."""
    return isinstance(error, FileNotFoundError) or (
        type(error) is RuntimeError and "download" in str(error)
    )


def failure(app: App | None, error: BaseException) -> dict[str, str]:
    """An error as the page shows it: `message`, `name` and Python's `traceback`."""
    name = type(error).__name__
    details = {"name": name, "message": str(error), "traceback": ""}
    if app is None:
        return details
    own = str(app.folder) + "/"
    where = None  # the last line of the program's own
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(own):
            where = f"{frame.filename.removeprefix(own)}, line {frame.lineno}"
    found = traceback.TracebackException.from_exception(error)
    _shorten(found, own)
    message, text = (said.replace(own, "").replace(f"{NAMES}.{app.key}.", "")
                     for said in (str(error), "".join(found.format())))  # fmt: skip
    details["traceback"] = text
    if isinstance(error, TroubleError):
        details["message"] = message
    elif isinstance(error, SyntaxError) and error.filename:
        file = error.filename.removeprefix(own)
        line = (error.text or "").strip()
        details["message"] = f"{file}, line {error.lineno}: {error.msg}\n    {line}"
    elif isinstance(error, ModuleNotFoundError) and error.name:
        details["message"] = _missing(where or app.file, error.name)
    elif "defines no model" in message:
        details["message"] = message
    else:
        said = "\n".join([message, *getattr(error, "__notes__", ())])  # of the call, for one
        details["message"] = f"{where}: {name}: {said}" if where else f"{name}: {said}"
    return details


def _shorten(shown: Any, own: str) -> None:
    """Leave out what the host did, and what came before the program's own lines."""
    out = (__file__, inspect.getfile(Session), "<frozen", "/importlib/")
    frames = [f for f in shown.stack if not any(name in f.filename for name in out)]
    first = next((i for i, f in enumerate(frames) if f.filename.startswith(own)), 0)
    shown.stack = traceback.StackSummary.from_list(frames[first:])
    for other in (shown.__cause__, shown.__context__):
        if other is not None:
            _shorten(other, own)


def _missing(where: str, module: str) -> str:
    """What to do about a module that can't be imported."""
    import pyodide_js

    top = module.removeprefix(f"{NAMES}.").split(".")[0]
    package = pyodide_js._api._import_name_to_package_name.get(top)
    said = f"{where} imports {top!r}, which this page does not have. "
    if top in ("torch", "torchvision"):
        return said + f"The pyframe that made this page has no such part: {install('torch')}."
    if package:
        return said + f'Pyodide has it: add packages="{package}" to the <py-frame> element.'
    return said + (
        f'If it is a file of yours, name it: files="{top}.py". Pyodide has no package of that name.'
    )


# --- called from worker.js


async def install_packages(names: list[str]) -> None:
    """Install wheels by their names on PyPI, or by URL, one after the other, and what they ask for
    that is not there yet: torch is pyframe."""
    import micropip

    if importlib.util.find_spec("pyframe.torch") is not None:
        importlib.import_module("pyframe.torch").install()  # it tells of a distribution `torch`
    for name in names:
        await micropip.install(name)


CALLS = (
    "open", "train", "stop", "predict", "clear", "evaluate", "reset", "set", "move", "save", "load",
    "close",
)  # fmt: skip


async def call(key: str, name: str, values: dict[str, Any]) -> Any:
    """Run one of CALLS for an app: {"result": …}, or {"error": …} as `failure` makes it."""
    app = APPS.get(key)
    if name == "open":
        app = APPS[key] = App(key)
    elif app is None:
        return javascript({"error": failure(None, TroubleError("The program was closed."))})
    _current.set(app)
    try:
        assert name in CALLS
        return javascript({"result": await getattr(app, name)(**values)})
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        found = javascript({"error": failure(app, error)})
        error.__traceback__ = None  # it holds the frames' tensors
        if name == "open":
            await app.close()
        return found


def _warn(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    """Show a warning as a notice in the element whose program it is about."""
    app = _current.get()
    if app is None or not issubclass(category, (UserWarning, RuntimeWarning)):
        print(warnings.formatwarning(message, category, filename, lineno))
        return
    app.notice(f"{message}")


def _gone(device: pf.device) -> None:
    """Tell all elements on a GPU that it is lost."""
    for app in APPS.values():
        if app.model is not None and app.model.device is device:
            goes_on = "training goes on" if app.training else "the network is put back"
            app.post("devicelost", text=(
                f"The browser took the GPU away; {goes_on} from the last copy that was kept of it."
            ))  # fmt: skip


warnings.showwarning = _warn  # type: ignore[assignment]
for _category in (UserWarning, RuntimeWarning):
    warnings.filterwarnings("always", category=_category)
devices.gone.append(_gone)
HOME.mkdir(parents=True, exist_ok=True)
