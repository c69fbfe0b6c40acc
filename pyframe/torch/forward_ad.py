"""torch.autograd.forward_ad: derivatives along directions. pyframe has no forward mode: a tangent
is computed when it is asked for, by two backward passes."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyframe.autograd.functional import push
from pyframe.core.modes import _Mode, enable_grad
from pyframe.tensor import Tensor

_levels: list[list[tuple[Tensor, Tensor]]] = []  # of each the duals, and their tangents


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None if it depends on no dual."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level; gives its number. RuntimeError within another."""
    if _levels:
        raise RuntimeError("forward_ad: levels can't be nested; use torch.func.jvp of a function")
    _levels.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End it: its duals are plain tensors."""
    _levels.pop()


class dual_level(_Mode):  # noqa: N801  (PyTorch's name)
    """Within it there are duals."""

    def __enter__(self) -> int:  # type: ignore[override]  # as PyTorch does
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor that has a tangent. RuntimeError outside of a level, ValueError for other shapes."""
    if not _levels:
        raise RuntimeError("forward_ad.make_dual: call it within `with forward_ad.dual_level():`")
    if tensor.shape != tangent.shape:
        raise ValueError(
            f"forward_ad.make_dual: expected a tangent of shape {tuple(tensor.shape)}, got "
            f"{tuple(tangent.shape)}"
        )
    with enable_grad():
        dual = tensor * 1 if tensor.requires_grad else tensor.detach().requires_grad_()
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor and its tangent."""
    duals: Any = _levels[-1] if _levels else []
    for dual, tangent in duals:
        if dual is tensor:
            return UnpackedDualTensor(_plain(tensor, duals), tangent)
    if not duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    xs, vs = map(tuple, zip(*duals, strict=True))
    with enable_grad():
        (tangent,) = push((tensor,), xs, vs, any(not x.is_leaf for x in xs))
    return UnpackedDualTensor(_plain(tensor, duals), tangent)


def _plain(tensor: Tensor, duals: Any) -> Tensor:
    """Without the history that only its level needs."""
    return tensor.detach() if all(dual.is_leaf for dual, _ in duals) else tensor
