"""Files from which a fit goes on: all that training changes, and how far it has come.

A checkpoint is a file as `pf.save` writes them, of plain values and tensors alone, so that reading
one can run nothing:

    pyframe_checkpoint  the format's number
    net, losses, optimizers, schedulers, scaler    their state_dicts
    kinds               the names of the types of optimizers and schedulers
    place               epoch, batch, step, and what the epoch's means are counted with
    random              the streams of random numbers: now, and when the epoch began
    grads               of batches that wait for their update
    history, callbacks  what they keep of themselves
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random as python_random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.ops.random.draws import go_on, gpu_streams
from pyframe.tensor import gather_async
from pyframe.train import check, data
from pyframe.train.callbacks import Callback
from pyframe.train.recovery import MARK, LoopPosition, Streams, generators
from pyframe.train.steps import trained

if TYPE_CHECKING:
    from pyframe.train.loop import FitLoop
    from pyframe.train.model import Model

FORMAT = 3  # 1 counted epochs from 0, and 2 divided all losses by samples
SECONDS = 300  # between checkpoints within an epoch, at least
CHECKPOINTS_KEPT = 2  # of a folder that fit goes on from: one may be damaged
_NAME = re.compile(r"step-(\d{8,})\.pt")


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or is of something else."""


class NewerFormatError(CheckpointError):
    """A file is a checkpoint of a newer pyframe."""


# --- writing


def _collect(model: Model) -> dict[str, Any]:
    """The tree of a checkpoint, with tensors where they lie."""
    loop, step = model._loop, model.step
    if loop is None:
        position = LoopPosition(model.epochs, step=step, told=step)
    elif loop.ended:
        position = LoopPosition(model.epoch, step=step, told=step, samples=model.samples)
    else:
        position = loop.position(told=0)
    where = {k: v for k, v in asdict(position).items() if k not in ("asked", "later", "logs")}
    if loop is not None and loop.taken is not None:
        where["sums"] = loop.taken.tensors()
    loader = None if loop is None else loop.loader
    words = [[x for g, x in gpu_streams() if g is one] for one in generators(loader)]
    return {
        MARK: FORMAT,
        "net": dict(model.net.state_dict()),
        "losses": [dict(m.state_dict()) for m in model.loss_modules()],
        "optimizers": [o.state_dict() for o in model.optimizers],
        "schedulers": [_plain(s.state_dict()) for s in model.schedulers],
        "kinds": _kinds(model),
        "place": where,
        "steps_per_epoch": model.steps_per_epoch,
        "random": {
            "now": _streams(Streams(loader)),
            "epoch": None if loop is None or loop.ended else _streams(loop.safe.epoch),
            "gpu": words,
        },
        "grads": [p.grad for p in trained(model)] if where["group"] else None,
        "history": model.history.state_dict(),
        "callbacks": [] if loop is None else loop.states(),
    }


def _kinds(model: Model) -> list[str]:
    """Of which types what a state_dict is loaded into is: another one takes it for its own."""
    return [type(x).__name__ for x in (*model.optimizers, *model.schedulers)]


def _streams(streams: Streams) -> dict[str, Any]:
    version, words, gauss = streams.python
    name, keys, *rest = streams.numpy
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, pf.from_numpy(np.asarray(keys).astype(np.int64)), *map(_plain, rest)],
        "pyframe": streams.states,
    }


def _mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with fn(leaf) for each of its leaves, and lists for its tuples."""
    if isinstance(tree, Mapping):
        return {k: _mapped(fn, v) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        return [_mapped(fn, v) for v in tree]
    return fn(tree)


def _plain(tree: Any) -> Any:
    """Values of NumPy's as Python's own, which a file may hold."""
    return _mapped(lambda v: v.item() if isinstance(v, np.generic) else v, tree)


async def write(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint: the file holds all of it, or what it held before."""
    tree = _collect(model)
    tree["scaler"] = None if model.scaler is None else await model.scaler.state_dict_async()
    tensors = list({id(x): x for x in data.tensors(tree)}.values())
    arrays = await gather_async(tensors)
    values = {
        id(x): pf.from_numpy(np.array(a)).to(x.dtype) for x, a in zip(tensors, arrays, strict=True)
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pf.save(_mapped(lambda x: values.get(id(x), x), tree), path)


# --- reading


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A checkpoint's tree, on the CPU. CheckpointError for what is none."""
    try:
        found = pf.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{os.fspath(path)} is damaged or no checkpoint: {error}") from error
    if not isinstance(found, dict) or MARK not in found:
        raise CheckpointError(
            f"{os.fspath(path)} is no checkpoint of a fit, so nothing can be resumed from it; "
            "weights alone are read by model.load(path)"
        )
    if found[MARK] == 1:
        _from_format_1(found)
    if found[MARK] == 2:
        _from_format_2(found)
    if found[MARK] != FORMAT:
        raise NewerFormatError(
            f"{os.fspath(path)} is a checkpoint of format {found[MARK]}, expected {FORMAT}: it "
            "was written by a newer pyframe; update this one"
        )
    return found


def _from_format_1(tree: dict[str, Any]) -> None:
    """Count the epochs of a tree from 1."""
    tree[MARK] = 2
    tree["history"]["epoch"] = [epoch + 1 for epoch in tree["history"]["epoch"]]
    for _, state in tree["callbacks"]:
        if "best_epoch" in state:  # of an EarlyStopping
            best = state["best_epoch"]
            state["best_epoch"] = None if best is None else best + 1
            state["since"] = [epoch + 1 for epoch in state["since"]]


def _from_format_2(tree: dict[str, Any]) -> None:
    """Give what was summed up its divisors."""
    tree[MARK] = 3
    place = tree["place"]
    sums, group, first = place["sums"], place["group"], place.pop("first")
    for key in [key for key in sums if key.startswith("sum:")]:
        sums[f"divisor:{key.removeprefix('sum:')}"] = pf.tensor(float(place["count"]))
    for i, _ in enumerate(tree["optimizers"]):
        sums[f"waiting:{2 * i}"] = pf.tensor(float(sum(group) * first))
        sums[f"waiting:{2 * i + 1}"] = pf.tensor(float(first))
    place["group"] = len(group)


def newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint in a folder that is whole; a damaged one is passed over with a warning.

    Files that are something else, such as weights, are left alone."""

    def age(path: Path) -> tuple[int, int]:
        stat = path.stat()
        return stat.st_mtime_ns, int(m[1]) if (m := _NAME.fullmatch(path.name)) else 0

    paths = [p for p in folder.glob("*.pt") if p.is_file()] if folder.is_dir() else []
    for path in sorted(paths, key=age, reverse=True):
        try:
            return path, read(path)
        except NewerFormatError:
            raise
        except CheckpointError as error:
            if error.__cause__ is not None:  # it can't be read
                check.warn(f"fit: passed over: {error}")
    return None


def restore(model: Model, found: dict[str, Any], path: Any, loop: FitLoop) -> LoopPosition:
    """Let all be as it was, and give the position to go on from. Nothing is changed where anything
    differs."""
    what = f"fit: resume: {os.fspath(path)}"
    check.state_dict(what, model.net, found["net"])
    for name, mine in (("optimizers", model.optimizers), ("schedulers", model.schedulers),
                       ("losses", model.loss_modules())):  # fmt: skip
        if len(found[name]) != len(mine):
            raise CheckpointError(f"{what} has {len(found[name])} {name}, the model {len(mine)}")
    if found.get("kinds", _kinds(model)) != _kinds(model):
        theirs, own = ", ".join(found["kinds"]), ", ".join(_kinds(model))
        raise CheckpointError(f"{what} is of {theirs}, the model has {own}; use the same ones")
    if (found["scaler"] is None) != (model.scaler is None):
        raise CheckpointError(f"{what}: mixed_precision was another one")
    for module, state in zip(model.loss_modules(), found["losses"], strict=True):
        check.state_dict(what, module, state)
    _load_optimizers(model.optimizers, found["optimizers"])
    model.net.load_state_dict(found["net"])
    for module, state in zip(model.loss_modules(), found["losses"], strict=True):
        module.load_state_dict(state)
    for scheduler, state in zip(model.schedulers, found["schedulers"], strict=True):
        scheduler.load_state_dict(state)
    if model.scaler is not None:
        model.scaler.load_state_dict(found["scaler"])
    for p, grad in zip(trained(model), found["grads"] or [], strict=False):
        p.grad = None if grad is None else grad.to(p.device)
    model.history.load_state_dict(found["history"])
    loop.load_states(found["callbacks"])
    _go_on(model, found["random"], loop)
    position, before = LoopPosition(**found["place"]), found.get("steps_per_epoch")
    if position.batch and before != model.steps_per_epoch:
        check.warn(
            f"{what} was written after {position.batch} of {before} batches of an epoch, which has "
            f"{model.steps_per_epoch} now: of data or a batch_size that are others it can't go on "
            "as it would have"
        )
    return position


def _load_optimizers(optimizers: Sequence[Any], states: Sequence[Any]) -> None:
    """Load all of them, or none where one does not fit."""
    before = [o.state_dict() for o in optimizers]
    for i, (optimizer, state) in enumerate(zip(optimizers, states, strict=True)):
        try:
            optimizer.load_state_dict(state)  # which checks it first
        except (ValueError, KeyError, TypeError):
            for loaded, old in zip(optimizers[:i], before, strict=False):
                loaded.load_state_dict(old)
            raise


def _go_on(model: Model, random: dict[str, Any], loop: FitLoop) -> None:
    """Let random numbers go on from where they were."""
    now = _back(random["now"], loop.loader)

    def back() -> None:
        now()
        for generator, words in zip(generators(loop.loader), random["gpu"], strict=False):
            for one in words:
                go_on(generator, one.numpy(), model.device)

    if random["epoch"] is None:
        back()
    else:
        loop.safe.resume_epoch(_back(random["epoch"], loop.loader), back)


def _back(streams: dict[str, Any], loader: Any) -> Callable[[], None]:
    version, words, gauss = streams["python"]
    name, keys, *rest = streams["numpy"]
    # NumPy reads where `rest` says, without a look at how far its words reach
    if name != "MT19937" or not rest or type(rest[0]) is not int or not 0 <= rest[0] <= 624:
        raise CheckpointError("the checkpoint is damaged: NumPy's random stream is at no place")

    def back() -> None:
        python_random.setstate((version, tuple(words), gauss))
        np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
        for generator, state in zip(generators(loader), streams["pyframe"], strict=False):
            generator.set_state(state)

    return back


# --- a folder that fit keeps training in


class Resume(Callback):
    """Keeps a fit in a folder, and goes on from what it finds there; of a file, goes on alone."""

    def __init__(self, path: Any, loop: FitLoop, writes: bool) -> None:
        self.path, self.loop = Path(path), loop
        self.folder = not self.path.is_file()
        self.writes = writes and self.folder
        self.due = time.monotonic() + SECONDS

    async def start(self, position: LoopPosition) -> LoopPosition:
        """Where the fit begins."""
        found = newest(self.path) if self.folder else (self.path, read(self.path))
        if found is None:
            return position
        path, tree = found
        position = restore(self.loop.model, tree, path, self.loop)
        self.loop.model.step = position.step
        return position

    async def on_step(self, model: Model, step: int, logs: Any) -> None:
        """Keep it now and then."""
        if self.writes and time.monotonic() > self.due:
            await self._keep(model)

    async def on_epoch(self, model: Model, epoch: int, logs: Any) -> None:
        """Keep it after each epoch."""
        if self.writes:
            await self._keep(model)

    async def _keep(self, model: Model) -> None:
        path = self.path / f"step-{model.step:08d}.pt"
        await write(model, path)
        self.due = time.monotonic() + SECONDS
        mine = sorted(p for p in self.path.iterdir() if _NAME.fullmatch(p.name))
        for old in mine[:-CHECKPOINTS_KEPT]:
            with contextlib.suppress(PermissionError):  # Windows keeps what is open: the next time
                old.unlink(missing_ok=True)
