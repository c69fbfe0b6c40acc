"""MNIST and the data sets that share its files' form."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyframe.data import Dataset
from pyframe.io.download import download as fetch
from pyframe.io.idx import read_idx
from pyframe.tensor import Tensor, from_numpy


class MNIST(Dataset[tuple[Any, Any]]):
    """Handwritten digits: 60,000 to train on and 10,000 to test with, 28 x 28 pixels each.

    A sample is (image, label): a float32 Tensor (1, 28, 28) from 0 to 1, and an int. `transform` is
    called with that tensor (torchvision's is called with a PIL image), `target_transform` with the
    int. `data` (uint8 (N, 28, 28)) and `targets` (int64 (N,)) are as torchvision's.

    The IDX files, plain or .gz, are looked for in `root/MNIST/raw` and `root`, in this order;
    `download=True` fetches those of this split (a few MB) into the first. RuntimeError if they are
    in neither or can't be had, ValueError for a file that is no IDX file or does not fit the other.
    """

    mirrors: tuple[str, ...] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    md5: dict[str, str] = {  # noqa: RUF012
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    classes: list[str] = [  # noqa: RUF012
        *("0 - zero", "1 - one", "2 - two", "3 - three", "4 - four"),
        *("5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"),
    ]

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
    ) -> None:
        self.root = Path(root).expanduser()
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        images, labels = self._files(download)
        data, targets = read_idx(images), read_idx(labels)
        if data.dtype != np.uint8 or data.ndim != 3:
            raise ValueError(
                f"{images}: {data.dtype} of shape {list(data.shape)}, expected images: uint8 "
                "(N, 28, 28)"
            )
        if targets.dtype != np.uint8 or targets.shape != data.shape[:1]:
            raise ValueError(
                f"{labels}: {targets.dtype} of shape {list(targets.shape)}, expected a label for "
                f"each image of {images.name}: uint8 ({len(data)},)"
            )
        self.data = from_numpy(data)
        self.targets = from_numpy(targets.astype(np.int64))

    @property
    def raw_folder(self) -> Path:
        """Where `download` puts the files."""
        return self.root / type(self).__name__ / "raw"

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    @property
    def images(self) -> Tensor:
        """All images as samples have them: float32 (N, 1, 28, 28) from 0 to 1, a new tensor."""
        return _scaled(self.data.numpy())

    @property
    def labels(self) -> Tensor:
        """All labels: int64 (N,)."""
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = _scaled(self.data.numpy()[index])
        label: Any = int(self.targets.numpy()[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        if self.transform is not None or self.target_transform is not None:
            return NotImplemented
        rows = np.asarray(indices, np.int64)
        return [_scaled(self.data.numpy()[rows]), from_numpy(self.targets.numpy()[rows])]

    def __len__(self) -> int:
        return len(self.data)

    def _files(self, download: bool) -> list[Path]:
        """The files of this split's images and labels, both of one folder."""
        split = "train" if self.train else "t10k"
        names = [f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte"]
        folders = [self.raw_folder, self.root]
        for folder in folders:
            found = [
                next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
                for name in names
            ]
            if all(found):
                return [path for path in found if path is not None]
        if not download:
            raise RuntimeError(
                f"{type(self).__name__}: Dataset not found: no {' and '.join(names)} (or .gz) in "
                f"{' or '.join(map(str, folders))}. You can use download=True to download it."
            )
        paths = [self.raw_folder / f"{name}.gz" for name in names]
        for name, path in zip(names, paths, strict=True):
            if not path.is_file():
                fetch([mirror + path.name for mirror in self.mirrors], path, self.md5[name])
        return paths


class FashionMNIST(MNIST):
    """Zalando's pictures of clothes, in MNIST's form and number: a harder set."""

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    md5 = {  # noqa: RUF012
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }
    classes = [  # noqa: RUF012
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ]


def _scaled(pixels: np.ndarray) -> Tensor:
    """uint8 (..., 28, 28) as float32 (..., 1, 28, 28) from 0 to 1."""
    return from_numpy(np.divide(pixels, 255, dtype=np.float32)[..., None, :, :])
