"""What a Module counts among its parameters and buffers, as torch.nn.parameter."""

from __future__ import annotations

from pyframe.ops.creation import zeros
from pyframe.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a Module counts among its parameters; requires grad unless told not to."""

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a Tensor, got {type(data).__name__}")
        source = (zeros(0) if data is None else data).detach()
        self._node, self._storage = source._node, source._storage
        self._steps, self._stamp = source._steps, source._storage.version
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
