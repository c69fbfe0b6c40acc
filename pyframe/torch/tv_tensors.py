"""torchvision.tv_tensors: tensors that say what they are: images, videos, masks, boxes."""

from __future__ import annotations

import enum
from typing import Any

import pyframe as pf
from pyframe.tensor import Tensor

_KEEPING = ("clone", "to", "detach", "requires_grad_", "__deepcopy__")


class TVTensor(Tensor):
    """A tensor whose functions give plain tensors, but for copies of it."""

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Any:
        return cls._made(data, dtype, device, requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @classmethod
    def _made(cls, data: Any, dtype: Any, device: Any, requires_grad: bool | None) -> Any:
        if type(data).__module__.startswith("PIL."):
            from pyframe.vision.transforms.functional import pil_to_tensor

            data = pil_to_tensor(data)
        if requires_grad is None:
            requires_grad = isinstance(data, Tensor) and data.requires_grad
        made = pf.as_tensor(data, dtype=dtype, device=device).as_subclass(Tensor)
        return made.requires_grad_(requires_grad).as_subclass(cls)

    @classmethod
    def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Any:
        """A tensor as one of the kind of another."""
        made = tensor.as_subclass(cls)
        for name, value in {**vars(like), **kwargs}.items():
            setattr(made, name, value)
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with pf.overrides.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
            if func.__name__ in _KEEPING and isinstance(args[0], cls):
                return cls.wrap(found, args[0])
            return found.as_subclass(Tensor) if isinstance(found, cls) else found


class Image(TVTensor):
    """An image (…, C, H, W); one of (H, W) gets a channel."""

    def __new__(cls, data: Any, **options: Any) -> Any:
        made = super().__new__(cls, data, **options)
        if made.ndim < 2:
            raise ValueError(f"Image: expected at least 2 dims, got shape {list(made.shape)}")
        return cls.wrap(made[None], made) if made.ndim == 2 else made


class Video(TVTensor):
    """A video (…, T, C, H, W)."""

    def __new__(cls, data: Any, **options: Any) -> Any:
        made = super().__new__(cls, data, **options)
        if made.ndim < 4:
            raise ValueError(f"Video: expected at least 4 dims, got shape {list(made.shape)}")
        return made


class Mask(TVTensor):
    """Masks (…, H, W)."""

    moves_with_image = True


class BoundingBoxFormat(enum.Enum):
    """What the four numbers of a box are."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """Boxes (N, 4) in an image of `canvas_size`, (H, W)."""

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    moves_with_image = True

    def __new__(
        cls, data: Any, *, format: BoundingBoxFormat | str, canvas_size: tuple[int, int],
        dtype: Any = None, device: Any = None, requires_grad: bool | None = None,
    ) -> Any:  # fmt: skip
        made = cls._made(data, dtype, device, requires_grad)
        if made.ndim not in (1, 2):
            raise ValueError(f"Expected a 1D or 2D tensor, got {made.ndim}D")
        known = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        wide = made if made.ndim == 2 else made[None]
        return cls.wrap(wide, made, format=known, canvas_size=canvas_size)

    def __repr__(self, **kwargs: Any) -> str:
        plain = repr(self.as_subclass(Tensor)).removeprefix("tensor(").removesuffix(")")
        return f"BoundingBoxes({plain}, format={self.format}, canvas_size={self.canvas_size})"


def wrap(wrappee: Tensor, *, like: Any, **kwargs: Any) -> Any:
    """A tensor as one of the class of `like`, with its format and size, or those given."""
    return type(like).wrap(wrappee, like, **kwargs)
