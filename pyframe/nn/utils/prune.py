"""Weights that stay 0, as torch.nn.utils.prune.

A pruned tensor `name` is `name_orig * name_mask`, computed by a hook before each call.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyframe as pf
from pyframe.nn.modules.module import Module
from pyframe.nn.utils.parameters import parameters_to_vector
from pyframe.tensor import Tensor

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """Says which elements stay: `compute_mask`. `apply` puts the method on a module as a hook.

    `PRUNING_TYPE` "unstructured": it is given the elements that are left, "structured": the slices
    along `dim` that are, "global": all."""

    _tensor_name: str
    PRUNING_TYPE = "unstructured"

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where `t` stays, 0 elsewhere and where `default_mask` is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor.

        Args:
            module: what has the tensor.
        """
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"{type(module).__name__} has to be pruned; use apply()")
        original, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:  # fmt: skip
        """Prune a tensor of a module, on top of how it is pruned. Returns the hook.

        AssertionError for scores of another shape.

        Args:
            module, name: what has the tensor, and its name there.
            args, kwargs: arguments of the class.
            importance_scores: what decides in place of the tensor's elements, of its shape.
        """
        original = getattr(module, name)
        _check_scores(importance_scores, original)
        scores = original if importance_scores is None else importance_scores
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        if before is not None:
            key, old = before
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            mask = getattr(module, f"{name}_mask").detach().clone()
            mask = container.compute_mask(scores, mask)
            del module._forward_pre_hooks[key]
            method = container
        else:
            mask = method.compute_mask(scores, pf.ones_like(original))
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """A pruned version of `t`.

        Args:
            default_mask: what is pruned already, 0; None for nothing.
            importance_scores: what decides in place of the elements of `t`, of its shape.
        """
        _check_scores(importance_scores, t)
        mask = pf.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor, as it is, a parameter again.

        Args:
            module: what has the tensor.
        """
        weight, name = self.apply_mask(module), self._tensor_name
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        assert original is not None
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _check_scores(scores: Tensor | None, t: Tensor) -> None:
    if scores is not None and scores.shape != t.shape:
        raise AssertionError(
            "prune: importance_scores should have the shape of the tensor, "
            f"{list(t.shape)}, got {list(scores.shape)}"
        )


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    found = [
        (k, hook)
        for k, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"prune: avoid several pruning hooks on {name} of {type(module).__name__}; use a "
            "PruningContainer"
        )
    return found[0] if found else None


class PruningContainer(BasePruningMethod):
    """Several methods, of which each prunes what the ones before have left.

    Args:
        *args: The methods, in order.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Prune by another method. TypeError unless it is one, ValueError for another tensor's.

        Args:
            method: another one for the same tensor.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "PruningContainer: can only add pruning methods acting on the parameter named "
                f"{self._tensor_name!r}, found {method._tensor_name!r}"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the latest method, on top of `default_mask`, which is that of the others."""
        method: Any = self._pruning_methods[-1]
        kind = method.PRUNING_TYPE
        left: Any
        if kind == "unstructured":
            left = default_mask == 1
        elif kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` '
                    "defined."
                )
            if not -t.ndim <= method.dim:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
            dim = method.dim % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            left = (*[slice(None)] * dim, default_mask.sum(others) != 0)
        elif kind == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        mask = default_mask.to(t.dtype).clone()
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing; the tensor gets its mask of ones."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask`."""
        return default_mask


class _Amount(BasePruningMethod):
    """Prunes a number of elements or slices (an int), or a part of them (a float)."""

    def __init__(self, amount: int | float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount!r}; expected int or float")
        whole: bool = isinstance(amount, numbers.Integral)
        if amount < 0 or (not whole and amount > 1):
            raise ValueError(
                f"amount={amount} should be either a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount: Any = amount

    def _count(self, size: int) -> int:
        """How many of `size` go."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if int(self.amount) > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune, "
                f"{size}"
            )
        return int(self.amount)


class _Unstructured(_Amount):
    def _scores(self, t: Tensor) -> Tensor:
        """The elements with the least of them go."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where `t` stays."""
        count, mask = self._count(t.numel()), default_mask.clone()
        if count:
            least = self._scores(t).reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[least] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Elements drawn at random go.

    Args:
        amount: How many: an int is a number, a float a share from 0 to 1.
    """

    def _scores(self, t: Tensor) -> Tensor:
        return -pf.rand_like(t)


class L1Unstructured(_Unstructured):
    """The elements next to 0 go.

    Args:
        amount: How many: an int is a number, a float a share from 0 to 1.
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t: Tensor, count: int) -> Tensor:
        """Which slices stay, where `count` go: an index along `dim`."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where `t` stays."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors, found one of "
                f"shape {list(t.shape)}"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of shape {list(t.shape)}")
        count = self._count(t.shape[self.dim])
        if not count:
            return default_mask
        mask = pf.zeros_like(t)
        mask[(*[slice(None)] * (self.dim % t.ndim), self._kept(t, count))] = 1
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Slices along `dim` drawn at random go.

    Args:
        amount: How many: an int is a number, a float a share from 0 to 1.
    """

    def _kept(self, t: Tensor, count: int) -> Tensor:
        draws = pf.rand(t.shape[self.dim])
        return (draws > draws.kthvalue(count).values).to(t.device)


class LnStructured(_Structured):
    """The slices along `dim` with the least norm of order n (or "fro", "nuc") go.

    Args:
        amount: How many: an int is a number, a float a share from 0 to 1.
        n: the order of the norm, as `p` of `pf.norm`.
    """

    def __init__(self, amount: int | float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Tensor, count: int) -> Tensor:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return pf.norm(t, self.n, others).topk(t.shape[self.dim] - count).indices


class CustomFromMask(BasePruningMethod):
    """What is 0 in a given mask goes.

    Args:
        mask: 1 for what stays and 0 for what goes, of the tensor's shape.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"prune: the mask's shape must be the tensor's, {list(default_mask.shape)}, got "
                f"{list(self.mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: M, name: str) -> M:
    """Give a tensor a mask of ones.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: int | float) -> M:
    """Prune elements drawn at random: a number of them, or a part.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        amount: How many: an int is a number, a float a share from 0 to 1.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: int | float, importance_scores: Tensor | None = None
) -> M:
    """Prune the elements next to 0 (or those whose scores are): a number of them, or a part.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        amount: How many: an int is a number, a float a share from 0 to 1.
        importance_scores: A tensor that says what matters, in place of the values.
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: int | float, dim: int) -> M:
    """Prune slices along `dim` drawn at random: a number of them, or a part.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        amount: How many: an int is a number, a float a share from 0 to 1.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: int | float, n: Any, dim: int,
    importance_scores: Tensor | None = None,
) -> M:  # fmt: skip
    """Prune the slices along `dim` with the least norm of order `n`: a number of them, or a part.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        amount: How many: an int is a number, a float a share from 0 to 1.
        importance_scores: A tensor that says what matters, in place of the values.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune what is 0 in a mask.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        mask: A tensor of the same shape: what is 0 in it is pruned.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several tensors, (module, name), as if they were one.

    TypeError unless it is an iterable or a dict, or for a method that is not unstructured.

    Args:
        parameters: Pairs (module, name).
        pruning_method: A class of methods, such as `L1Unstructured`.
        importance_scores: For each pair a tensor that says what matters, in place of the values.
        **kwargs: What the class takes, such as `amount`.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    vector = parameters_to_vector(
        [scores.get(pair, x) for pair, x in zip(pairs, tensors, strict=True)]
    )
    masks = parameters_to_vector([
        getattr(module, f"{name}_mask", pf.ones_like(x))
        for (module, name), x in zip(pairs, tensors, strict=True)
    ])  # fmt: skip
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = PruningContainer(method).compute_mask(vector, masks)
    start = 0
    for (module, name), x in zip(pairs, tensors, strict=True):
        custom_from_mask(module, name, mask[start : start + x.numel()].view_as(x))
        start += x.numel()


def remove(module: M, name: str) -> M:
    """Leave a tensor pruned as it is, and a parameter again. ValueError if it is not pruned.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
    """
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of {type(module).__name__} has to be pruned before pruning can be "
            "removed"
        )
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a module or one below it is pruned.

    Args:
        module: The module.
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for m in module.modules()
        for hook in m._forward_pre_hooks.values()
    )
