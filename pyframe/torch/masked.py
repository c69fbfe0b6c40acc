"""torch.masked: a tensor with a mask of the elements that are there, besides pyframe.masked."""

from __future__ import annotations

import inspect
from typing import Any

import pyframe as pf
from pyframe import masked
from pyframe.ops.math.promotion import Elementwise
from pyframe.tensor import Tensor

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "std", "var")
_ALONG = ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")  # along a dim, of its length
_EACH = "add sub __rsub__ div clamp where".split()  # of each element, by several ops
_MOVES = """reshape view flatten transpose t permute unsqueeze squeeze select narrow clone detach
    contiguous expand flip __getitem__""".split()


class MaskedTensor(Tensor):
    """A tensor and a mask of bools of its shape: what is False in it counts nowhere."""

    _mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> Any:
        if mask.dtype is not pf.bool:
            raise TypeError(f"MaskedTensor: mask must have dtype bool, got {mask.dtype}")
        if data.shape != mask.shape:
            raise ValueError(
                f"MaskedTensor: data.size() must equal mask.size(), got {list(data.shape)} and "
                f"{list(mask.shape)}"
            )
        made = data.as_subclass(cls)
        made._mask = mask.as_subclass(Tensor)
        return made.requires_grad_() if requires_grad else made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def get_data(self) -> Tensor:
        """All elements."""
        return self.as_subclass(Tensor)

    def get_mask(self) -> Tensor:
        """Which are there."""
        return self._mask

    def to_tensor(self, value: Any) -> Tensor:
        """The elements, with a value in place of those that are not there."""
        return self.get_data().masked_fill(~self._mask, value)

    def is_masked_tensor(self) -> bool:
        """True."""
        return True

    def __repr__(self, **kwargs: Any) -> str:
        return f"MaskedTensor({self.get_data()!r}, {self._mask!r})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        first = next(x for x in (*args, *kwargs.values()) if isinstance(x, MaskedTensor))
        with pf.overrides.DisableTorchFunctionSubclass():
            plain = [x.get_data() if isinstance(x, MaskedTensor) else x for x in args]
            mask = first._mask
            if name in ("__get__", "backward", "requires_grad_"):
                found = func(*args, **kwargs)
                if not isinstance(found, Tensor) or found is first:
                    return found
                own = func(mask)  # as of T
                return cls(found.as_subclass(Tensor), mask if own is None else own)
            if name in _REDUCTIONS + _ALONG:
                found = getattr(masked, name)(*plain, **kwargs, mask=mask)
                over = [*plain[1:2], *(kwargs[k] for k in ("dim",) if k in kwargs)]
                keep = {"keepdim": True} if kwargs.get("keepdim") else {}
                if name in _ALONG:
                    return cls(found, mask)
                return cls(found, mask.amax(*over, **keep) if over else mask.any())
            if name in _MOVES:
                rest = plain[1:]
                return cls(func(*plain, **kwargs), func(mask, *rest, **kwargs))
            if not (name in _EACH or isinstance(inspect.unwrap(func), Elementwise)):
                raise TypeError(
                    f"{name} is not there for MaskedTensor; call it on get_data(), or on "
                    "to_tensor(value)"
                )
            for x in (*args, *kwargs.values()):
                if isinstance(x, MaskedTensor) and not bool((x._mask == mask).all()):
                    raise ValueError(f"{name}: the masks of the inputs must match")
            return cls(func(*plain, **kwargs), mask)


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A copy of `data` with a mask."""
    made = data.detach().clone().as_subclass(Tensor)
    return MaskedTensor(made, mask.clone(), requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """`data` with a mask, through which gradients go back to it."""
    return MaskedTensor(data, mask)


def is_masked_tensor(obj: Any) -> bool:
    """Whether it is one."""
    return isinstance(obj, MaskedTensor)
