"""torch.distributed.checkpoint: a state in a folder, as one process saves and loads it."""

from __future__ import annotations

import os
from typing import Any

import pyframe as pf
import pyframe.distributed as dist
from pyframe.tensor import Tensor

_FILE = "state.pt"  # of torch.save


def _place(name: str, folder: Any, others: dict[str, Any]) -> str:
    """The file. What has no meaning for one process's file is refused."""
    if given := [key for key, value in others.items() if value]:
        raise ValueError(f"checkpoint.{name}: {given[0]}= is not in pyframe; give checkpoint_id=")
    if folder is None:
        raise ValueError(f"checkpoint.{name}: expected checkpoint_id=, a folder, got None")
    if dist.is_initialized() and dist.get_world_size() > 1:
        raise RuntimeError(
            f"checkpoint.{name}: expected one process, got {dist.get_world_size()}; rank 0 saves "
            "with torch.save"
        )
    return os.path.join(folder, _FILE)


def _plain(value: Any) -> Any:
    """What is saved of a value: the state of an object that has one."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.state_dict() if hasattr(value, "state_dict") else value


def save(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
    use_collectives: bool = True,
) -> None:  # fmt: skip
    """Save a dict of tensors, numbers, dicts, and objects with a state_dict(), to a folder, whose
    one file torch.load reads too."""
    path = _place("save", checkpoint_id, {"storage_writer": storage_writer, "planner": planner})
    os.makedirs(checkpoint_id, exist_ok=True)
    pf.save(_plain(state_dict), path)


def load(
    state_dict: dict[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill a dict of the same form: tensors in place, objects by their load_state_dict, the rest by
    the values of the folder. RuntimeError for what is missing there or has another shape."""
    path = _place("load", checkpoint_id, {"storage_reader": storage_reader, "planner": planner})
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"checkpoint.load: {os.fspath(checkpoint_id)} has no {_FILE}, which checkpoint.save "
            "writes; PyTorch's own folders are not read"
        )
    _fill(state_dict, pf.load(path), "")


def _fill(into: dict[str, Any], found: Any, where: str) -> None:
    if not isinstance(found, dict):
        raise RuntimeError(
            f"checkpoint.load: expected a dict at {where.rstrip('.') or 'the top'}, the folder has "
            f"a {type(found).__name__}"
        )
    for key, value in into.items():
        name = f"{where}{key}"
        if key not in found:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
        new = found[key]
        if isinstance(value, Tensor):
            there = list(new.shape) if isinstance(new, Tensor) else f"a {type(new).__name__}"
            if list(value.shape) != there:
                raise RuntimeError(
                    f"checkpoint.load: {name} has shape {list(value.shape)}, in the folder {there}"
                )
            with pf.no_grad():
                value.copy_(new)
        elif isinstance(value, dict):
            _fill(value, new, f"{name}.")
        elif hasattr(value, "load_state_dict"):
            value.load_state_dict(new)
        else:
            into[key] = new
