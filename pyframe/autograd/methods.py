"""The methods that autograd gives to Tensor; pyframe/methods.py attaches them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from pyframe.autograd import walk
from pyframe.core.grad_node import RemovableHandle
from pyframe.tensor import Tensor


def backward(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Add the gradient of this tensor to `.grad` of every leaf that it depends on."""
    walk.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(grad)` when the gradient is computed; a tensor it returns replaces it."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    fn = self.grad_fn
    return RemovableHandle((self._attach() if fn is None else fn.attach()).hooks, hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` each time after a backward has added to this leaf's `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return RemovableHandle(self._attach().accumulated, hook)


def retain_grad(self: Tensor) -> None:
    """Keep `.grad` for this non-leaf tensor too."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.grad_fn is not None:
        self.grad_fn.attach().retained = weakref.ref(self)


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` keeps the gradient of this tensor, no leaf."""
    extra = None if self.grad_fn is None else self.grad_fn.extra
    return extra is not None and extra.retained is not None and extra.retained() is self
