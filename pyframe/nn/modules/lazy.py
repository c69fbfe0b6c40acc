"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from pyframe.core.dispatch import outside
from pyframe.core.modes import no_grad
from pyframe.nn.parameter import UninitializedParameter, is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Stands before a Module among the bases of a lazy layer, whose `__init__` makes
    UninitializedParameters and whose `initialize_parameters` materializes them.

    The first call does so from its arguments; then the layer becomes a `cls_to_become`.
    """

    cls_to_become: type[Any] | None = None
    _initialize_hook: Any
    _load_hook: Any
    _parameters: Any
    _buffers: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        me: Any = self
        self._load_hook = me._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = me.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for these arguments of forward."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """What is loaded gives uninitialized parameters their shapes."""
        for name, x in itertools.chain(self._parameters.items(), self._buffers.items()):
            new = state_dict.get(prefix + name)
            if is_lazy(x) and new is not None and not is_lazy(new):
                with no_grad():
                    x.materialize(new.shape)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        with outside():  # what is drawn once for the weights is no part of a capture
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {type(self).__name__} has not been fully initialized: its "
                "initialize_parameters must materialize every parameter and buffer"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLayer(LazyModuleMixin):
    """A lazy layer whose size `_learned` is 0 until its first input tells it."""

    _learned: ClassVar[str]

    def _wait(self, device: Any, dtype: Any, bias: bool) -> None:
        """Begin with a weight, and a bias if there is one, that have no shape yet."""
        for name in ("weight", "bias") if bias else ("weight",):
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    def _materialize(self, weight: tuple[int, ...], others: int) -> None:
        """Give what has no shape yet its shape, and all of it its start."""
        for name, x in (*self._parameters.items(), *self._buffers.items()):
            if is_lazy(x):
                x.materialize(weight if name == "weight" else (others,))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the layer's that it becomes, once the shapes are known."""
        if not self.has_uninitialized_params() and getattr(self, self._learned) != 0:
            super().reset_parameters()  # type: ignore[misc]
