"""What data sets of images share, as torchvision.datasets.vision."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyframe.data import Dataset
from pyframe.tensor import Tensor, from_numpy


class VisionDataset(Dataset[Any]):
    """Samples (image, target) that lie in the folder `root`, and what is done to them.

    Either `transforms(image, target)` does both, or `transform(image)` and
    `target_transform(target)` do one each. A subclass has `__getitem__` and `__len__`.
    """

    _repr_indent = 4

    def __init__(
        self, root: str | os.PathLike[str] | None = None,
        transforms: Callable[..., Any] | None = None, transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        if isinstance(root, Path):
            self.root: Any = root.expanduser()
        else:
            self.root = None if root is None else os.path.expanduser(root)
        apart = transform is not None or target_transform is not None
        if transforms is not None and apart:
            raise ValueError(
                f"{type(self).__name__}: only transforms or transform/target_transform can be "
                "passed, got both"
            )
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = StandardTransform(transform, target_transform) if apart else transforms

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} needs a __len__()")

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """What the two transforms, as they are now, make of a sample."""
        return StandardTransform(self.transform, self.target_transform)(image, target)

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        lines += self.extra_repr().splitlines()
        if self.transforms is not None:
            lines.append(repr(self.transforms))  # only its first line is indented, as torchvision's
        indent = "\n" + " " * self._repr_indent
        return f"Dataset {type(self).__name__}{indent}{indent.join(lines)}"

    def extra_repr(self) -> str:
        """Lines of a subclass for its `repr`."""
        return ""


class StandardTransform:
    """A transform of the image and one of the target, as one function of both."""

    def __init__(
        self, transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for head, transform in (
            ("Transform: ", self.transform),
            ("Target transform: ", self.target_transform),
        ):
            if transform is not None:
                lines.append(head + repr(transform).replace("\n", "\n" + " " * len(head)))
        return "\n".join(lines)


class ImagesInMemory(VisionDataset):
    """A data set whose pixels are `data`, uint8, and whose labels are `targets`.

    A sample is (float32 Tensor (C, H, W) from 0 to 1, int). Both fields may be replaced.
    """

    data: Any
    targets: Any
    train: bool

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"

    def _pixels(self, rows: Any) -> np.ndarray:
        """The images of one row or some: uint8 (..., C, H, W)."""
        raise NotImplementedError

    def _labels(self, rows: np.ndarray) -> np.ndarray:
        """The labels of some rows: int64 (N,)."""
        targets = self.targets
        if isinstance(targets, Tensor):
            targets = targets.numpy()
        if isinstance(targets, np.ndarray):
            return targets[rows].astype(np.int64, copy=False)
        return np.array([targets[i] for i in rows], np.int64)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(scaled(self._pixels(index)), int(self.targets[index]))

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        if self.transform is not None or self.target_transform is not None:
            return NotImplemented
        rows = np.asarray(indices, np.int64)
        return [scaled(self._pixels(rows)), from_numpy(self._labels(rows))]

    def __len__(self) -> int:
        return len(self.data)


def scaled(pixels: np.ndarray) -> Tensor:
    """Pixels as float32 from 0 to 1, in a new tensor."""
    most = np.iinfo(pixels.dtype).max if pixels.dtype.kind == "u" else 1
    return from_numpy(np.divide(np.ascontiguousarray(pixels), most, dtype=np.float32))
