"""What programs of before PyTorch 0.4 ask of torch.autograd."""

from __future__ import annotations

from typing import Any

from pyframe.tensor import Tensor


class _Tensors(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)


class Variable(metaclass=_Tensors):
    """A tensor: `Variable(x)` is x, apart from its history."""

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        """`data` as a leaf."""
        return data.detach().requires_grad_(requires_grad)
