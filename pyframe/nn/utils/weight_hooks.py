"""Weights that a hook norms before each call; parametrizations has newer ones."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import pyframe as pf
from pyframe.core.modes import no_grad
from pyframe.nn import functional as F
from pyframe.nn.modules import conv
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter, UninitializedParameter
from pyframe.tensor import Tensor

__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "WeightNorm",
    "remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm",
]  # fmt: skip


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
    """w = g v / |v|, where |v| has a number for each index along `dim`, or one. Deprecated.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        dim: The dim of the outputs, for which there is a norm each; one for the whole tensor if
            None.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo `weight_norm`. ValueError where there is none.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
    """
    take_off(module, WeightNorm, name)
    return module


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """(rows along `dim`, all else)."""
    return weight.movedim(dim, 0).flatten(1)


def output_dim(module: Module) -> int:
    """Along which dim of a layer's weight its outputs lie."""
    kinds = (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
    return 1 if isinstance(module, kinds) else 0


class SpectralNorm:
    """The hook: sets the weight before each call."""

    _version = 1  # before, no v was saved

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "spectral_norm: expected n_power_iterations to be positive, got "
                f"{n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """(rows along `dim`, all else)."""
        return matrix_of(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight / its largest singular value u W v; u and v are improved if asked for."""
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # backward needs them as they are now
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """The v with u W v = sigma for which W v is next to u."""
        v = pf.linalg.multi_dot([(matrix.t() @ matrix).pinverse(), matrix.t(), u.unsqueeze(1)])
        v = v.squeeze(1)
        return v * (sigma / u.dot(matrix.mv(v)))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put the hook on a module. RuntimeError for a second one."""
        refuse_second(module, SpectralNorm, name)
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm cannot be applied as parameter `{name}` is None")
        refuse_lazy("spectral_norm", weight)
        with no_grad():
            u, v = (
                F.normalize(weight.new_empty(n).normal_(), dim=0, eps=eps)
                for n in fn.reshape_weight_to_matrix(weight).shape
            )
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormStateDictHook:
    """Notes in which version a state_dict was saved."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Computes v where a state_dict has the weight in its place, as PyTorch's before 1.0 have."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        fn, key = self.fn, prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version")
        if version is not None and version >= 1:
            return
        if key not in state_dict and all(key + end in state_dict for end in ("_orig", "_u", "_v")):
            return
        missing = [key + end for end in ("_orig", "", "_u") if key + end not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original, weight = state_dict[key + "_orig"], state_dict.pop(key)
            matrix, sigma = fn.reshape_weight_to_matrix(original), (original / weight).mean()
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> M:  # fmt: skip
    """w / (its largest singular value, by the power method), as a matrix with rows along `dim`.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        n_power_iterations: How many steps of the power method each use in training mode takes.
        eps: What keeps from dividing by 0.
        dim: The dim of the outputs; 1 for transposed convolutions and 0 for others by default.
    """
    dim = output_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`. ValueError where there is none.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
    """
    take_off(module, SpectralNorm, name)
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for k, hook in list(hooks.items()):
            kinds = SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook
            if isinstance(hook, kinds) and hook.fn.name == name:
                del hooks[k]
    return module
