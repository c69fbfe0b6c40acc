"""MNIST and the data sets that share its files' form."""

from __future__ import annotations

import os
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pyframe.io.download import download as fetch
from pyframe.io.idx import read_idx
from pyframe.tensor import Tensor, from_numpy
from pyframe.vision.datasets.vision import ImagesInMemory, scaled


class MNIST(ImagesInMemory):
    """Handwritten digits: 60,000 to train on and 10,000 to test with, 28 x 28 pixels each.

    A sample is (image, label): a float32 Tensor (1, 28, 28) from 0 to 1, and an int. `transform` is
    called with that tensor (torchvision's with a PIL image: see `vision.datasets`),
    `target_transform` with the int. `data` (uint8 (N, 28, 28)) and `targets` (int64 (N,)) are as
    torchvision's.

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
        self, root: str | os.PathLike[str], train: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None, download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
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
        return Path(self.root) / type(self).__name__ / "raw"

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    @property
    def images(self) -> Tensor:
        """All images as samples have them: float32 (N, 1, 28, 28) from 0 to 1, a new tensor."""
        return scaled(self._pixels(slice(None)))

    @property
    def labels(self) -> Tensor:
        """All labels: int64 (N,)."""
        return self.targets

    def _pixels(self, rows: Any) -> np.ndarray:
        return self.data.numpy()[rows][..., None, :, :]

    @property
    def _names(self) -> list[str]:
        """The files of this split's images and labels, without .gz."""
        split = "train" if self.train else "t10k"
        return [f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte"]

    def _files(self, download: bool) -> list[Path]:
        """The paths of `_names`, both of one folder."""
        names, folders = self._names, [self.raw_folder, Path(self.root)]
        found = _found(names, folders)
        if found:
            return found
        if not download:
            raise RuntimeError(
                f"{type(self).__name__}: Dataset not found: no {' and '.join(names)} (or .gz) in "
                f"{' or '.join(map(str, folders))}. You can use download=True to download it."
            )
        self._fetch(names)
        return _found(names, [self.raw_folder]) or [self.raw_folder / name for name in names]

    def _fetch(self, names: list[str]) -> None:
        for name in names:
            path = self.raw_folder / f"{name}.gz"
            if not path.is_file():
                fetch([mirror + path.name for mirror in self.mirrors], path, self.md5[name])


def _found(names: list[str], folders: list[Path]) -> list[Path]:
    """Where all `names`, plain or .gz, lie in one of `folders`; nothing if in none."""
    for folder in folders:
        paths = [
            next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
            for name in names
        ]
        if all(paths):
            return [path for path in paths if path is not None]
    return []


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


class KMNIST(MNIST):
    """Kuzushiji-MNIST: ten hiragana in cursive hand, in MNIST's form and number."""

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)
    md5 = {  # noqa: RUF012
        "train-images-idx3-ubyte": "bdb82020997e1d708af4cf47b453dcf7",
        "train-labels-idx1-ubyte": "e144d726b3acfaa3e44228e80efcd344",
        "t10k-images-idx3-ubyte": "5c965bf0a639b31b8f53240b1b52f4d7",
        "t10k-labels-idx1-ubyte": "7320c461ea6c1c855c0b718fb2a4b134",
    }
    classes = "o ki su tsu na ha ma ya re wo".split()


_ALIKE = set("cijklmopsuvwxyz")  # letters that are written alike in both cases
_CHARACTERS = sorted(string.digits + string.ascii_letters)
_MERGED = [c for c in _CHARACTERS if c not in _ALIKE]


class EMNIST(MNIST):
    """NIST's handwritten letters and digits in MNIST's form, in six splits (arXiv 1702.05373).

    "byclass" has 62 classes, "bymerge" and "balanced" 47, "letters" 26 (from 1 on), "digits" and
    "mnist" 10. The pictures lie on their side, as in the files. `download=True` fetches all
    splits at once (560 MB).

    Args:
        split: One of the six; ValueError for another.
        kwargs: `train`, `transform`, `target_transform` and `download`, as MNIST takes them.
    """

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    archive_md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict: dict[str, list[str]] = {  # noqa: RUF012
        "byclass": _CHARACTERS,
        "bymerge": _MERGED,
        "balanced": _MERGED,
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        from pyframe.vision.datasets.utils import verify_str_arg

        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    @property
    def _names(self) -> list[str]:
        start = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return [f"{start}-images-idx3-ubyte", f"{start}-labels-idx1-ubyte"]

    def _fetch(self, names: list[str]) -> None:
        raw = self.raw_folder
        from pyframe.vision.datasets.utils import download_and_extract_archive

        download_and_extract_archive(self.url, raw, md5=self.archive_md5)
        for path in (raw / "gzip").glob("*.gz"):
            path.replace(raw / path.name)
        shutil.rmtree(raw / "gzip")
