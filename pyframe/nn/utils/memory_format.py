"""Memory formats of convolutions' weights, as torch.nn.utils.memory_format."""

from __future__ import annotations

from typing import Any, TypeVar

from pyframe.nn.modules import conv
from pyframe.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, memory_format: Any, kinds: tuple[type, ...]) -> M:
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Keep the weights of all Conv2d and ConvTranspose2d in a memory format."""
    return _convert(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Keep the weights of all Conv3d and ConvTranspose3d in a memory format."""
    return _convert(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))
