"""Weight norm by a hook, as torch.nn.utils.weight_norm; `parametrizations` has a newer one."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import pyframe as pf
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter, UninitializedParameter
from pyframe.tensor import Tensor

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook: sets the weight before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """g v / |v|."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / pf.norm_except_dim(v, 2, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put the hook on a module. RuntimeError for a second one; warns that it is deprecated."""
        warnings.warn(
            "nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm",
            FutureWarning,
            stacklevel=3,
        )
        refuse_second(module, WeightNorm, name)
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        refuse_lazy("weight_norm", weight)
        del module._parameters[name]
        norm = pf.norm_except_dim(weight.detach(), 2, fn.dim)
        module.register_parameter(name + "_g", Parameter(norm))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        for name in (self.name, self.name + "_g", self.name + "_v"):
            delattr(module, name)
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def refuse_second(module: Module, kind: type, name: str) -> None:
    """RuntimeError where a module has a hook of this kind for a tensor already."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"Cannot register two {kind.__name__} hooks on the same parameter {name}"
            )


def refuse_lazy(what: str, weight: Any) -> None:
    """ValueError for a weight that waits for its shape."""
    if isinstance(weight, UninitializedParameter):
        raise ValueError(
            f"{what}: the module can't have uninitialized parameters; call it once before"
        )


def take_off(module: Module, kind: type, name: str) -> None:
    """Remove a hook of this kind. ValueError where there is none."""
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined]
            hook.remove(module)  # type: ignore[attr-defined]
            del module._forward_pre_hooks[k]
            return
    raise ValueError(f"{kind.__name__} of '{name}' not found in {type(module).__name__}")


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """w = g v / |v|, where |v| has a number for each index along `dim`, or one. Deprecated."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo `weight_norm`. ValueError where there is none."""
    take_off(module, WeightNorm, name)
    return module
