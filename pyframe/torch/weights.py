"""safetensors.torch and `safetensors.safe_open` for programs on pyframe: its own reader and writer,
as the package's go by addresses in memory, where a bfloat16 of pyframe has four bytes."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.io.safetensors import (
    load_file as _load_file,
    safe_open as _safe_open,
    save as save,
    save_file as save_file,
)
from pyframe.tensor.storage import address

__all__ = [
    "load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr",
    "storage_size",
]  # fmt: skip


def load(data: bytes) -> dict[str, pf.Tensor]:
    """The tensors in the bytes of a file."""
    return pf.io.safetensors.load(data)


def load_file(filename: Any, device: Any = "cpu", backend: str = "mmap") -> dict[str, pf.Tensor]:
    """The tensors of a file."""
    return _load_file(filename, device)


def save_model(
    model: pf.nn.Module, filename: Any, metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:  # fmt: skip
    """Save a module's state_dict; of tied tensors one, and the names of the others as metadata."""
    state, other = model.state_dict(), _ties(model)
    kept = {name: x for name, x in state.items() if name not in other}
    save_file(kept, filename, {**other, **(metadata or {})} or None)


def load_model(
    model: pf.nn.Module, filename: Any, strict: bool = True, device: Any = "cpu"
) -> tuple[set[str], list[str]]:
    """Load what `save_model` saved; gives the names that are missing and those too many."""
    state = load_file(filename, device)
    ties = _ties(model)
    for name, of in ties.items():
        found = next(
            (n for n in (of, *(k for k, v in ties.items() if v == of)) if n in state), None
        )
        if found:
            state.setdefault(of, state[found])
            state[name] = state[of]
    missing, unexpected = model.load_state_dict(state, strict=strict)
    return set(missing), list(unexpected)


def _ties(model: pf.nn.Module) -> dict[str, str]:
    """The names of a state_dict's tensors that are another one's too, and the first one's name."""
    first: dict[Any, str] = {}
    found = {}
    for name, x in sorted(model.state_dict().items()):
        if (
            x.numel()
            and (kept := first.setdefault((address(x), x.shape, x.stride()), name)) != name
        ):
            found[name] = kept
    return found


data_ptr = pf.Tensor.data_ptr


def storage_ptr(tensor: pf.Tensor) -> int:
    """The address of the memory that a tensor shares with its views."""
    return tensor.untyped_storage().place()


def storage_size(tensor: pf.Tensor) -> int:
    """Bytes of that memory."""
    return tensor.untyped_storage().nbytes()


def opened_by(real: Any) -> Any:
    """`safetensors.safe_open` that gives pyframe's tensors to who asks for PyTorch's."""

    def safe_open(filename: Any, framework: str = "pt", device: Any = "cpu", **kwargs: Any) -> Any:
        if framework in ("pt", "torch", "pytorch"):
            return _safe_open(filename, device=device)
        return real(filename, framework, device, **kwargs)

    return safe_open
