"""Parameters as one vector, as torch.nn.utils.convert_parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyframe as pf
from pyframe.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _of_one_device(name: str, parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    device = None
    for p in parameters:
        device = p.device if device is None else device
        if p.device != device:
            raise TypeError(
                f"{name}: found two parameters on different devices, {device} and {p.device}; "
                "expected all on one"
            )
        yield p


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one parameter after the other. TypeError for parameters on two devices."""
    return pf.cat([p.view(-1) for p in _of_one_device("parameters_to_vector", parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be the parts of a vector. TypeError for anything else, or two devices."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec).__name__}")
    start = 0
    for p in _of_one_device("vector_to_parameters", parameters):
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
