"""Data sets of images, with the names of torchvision.datasets.

One rule holds for all: the image of a sample, with a transform or without, is a float32 Tensor
(C, H, W) from 0 to 1, which needs no Pillow and is what a net takes. torchvision's are PIL images;
its programs run as they are, because the transforms take tensors: `ToTensor` passes such a tensor
on, `PILToTensor` makes it uint8, and `ToPILImage` gives a PIL image to who wants one.
`ImageFolder(..., loader=pil_loader)` gives PIL images from the start. What a transform takes in
levels from 0 to 255 for a PIL image (`fill`, the threshold of `Solarize`) is from 0 to 1 for such
a tensor, as in torchvision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.ops.api.layouts import texts as _texts
from pyframe.vision.datasets.mnist import EMNIST, KMNIST, MNIST, FashionMNIST
from pyframe.vision.datasets.vision import StandardTransform, VisionDataset

__all__ = [
    "CIFAR10", "CIFAR100", "EMNIST", "KMNIST", "MNIST", "CocoCaptions", "CocoDetection",
    "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder", "StandardTransform",
    "VisionDataset",
]  # fmt: skip

if TYPE_CHECKING:
    from pyframe.vision.datasets import utils as utils
    from pyframe.vision.datasets.cifar import CIFAR10, CIFAR100
    from pyframe.vision.datasets.coco import CocoCaptions, CocoDetection
    from pyframe.vision.datasets.fakedata import FakeData
    from pyframe.vision.datasets.folder import DatasetFolder, ImageFolder
else:
    _LATE = {
        "CIFAR10": "cifar", "CIFAR100": "cifar", "CocoCaptions": "coco",
        "CocoDetection": "coco", "DatasetFolder": "folder",
        "FakeData": "fakedata", "ImageFolder": "folder",
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        """Load what few pages need when it is first used."""
        import importlib

        if name in _LATE:
            module = importlib.import_module(f"pyframe.vision.datasets.{_LATE[name]}")
            if _texts:
                _texts.complete_docstrings(vars(module))
            return module.__dict__[name]
        if name == "utils" or name in _LATE.values():
            return importlib.import_module(f"pyframe.vision.datasets.{name}")
        raise AttributeError(f"module 'pyframe.vision.datasets' has no attribute {name!r}")


if _texts:
    _texts.complete_docstrings(globals())
