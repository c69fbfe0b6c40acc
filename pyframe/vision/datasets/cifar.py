"""CIFAR-10 and CIFAR-100 in their files' form: pickled batches in a .tar.gz."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pyframe.io.files import head, opened
from pyframe.io.kinds import mistaken
from pyframe.tensor import Tensor
from pyframe.vision.datasets.utils import check_integrity, download_and_extract_archive
from pyframe.vision.datasets.vision import ImagesInMemory


class CIFAR10(ImagesInMemory):
    """Small pictures of ten things: 50,000 to train on, 10,000 to test with, 32 x 32 in color.

    A sample is (image, label): a float32 Tensor (3, 32, 32) from 0 to 1, and an int. The
    transforms are called with these. `data` (uint8 array (N, 32, 32, 3)) and `targets` (a list of
    ints) are as torchvision's.

    The files are looked for in `root/cifar-10-batches-py`; `download=True` fetches them (170 MB).
    RuntimeError if one is missing or has another checksum.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list: list[list[str]] = [  # noqa: RUF012
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list: list[list[str]] = [  # noqa: RUF012
        ["test_batch", "40351d587109b95175f43aff81a1287e"],
    ]
    meta: dict[str, str] = {  # noqa: RUF012
        "filename": "batches.meta",
        "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
    }
    _labels_key = "labels"

    def __init__(
        self, root: str | os.PathLike[str], train: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None, download: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        wrong = self._wrong()
        if wrong:
            raise RuntimeError(
                f"{type(self).__name__}: Dataset not found or corrupted: {self._folder / wrong} is "
                "missing or has another checksum. You can use download=True to download it."
            )
        batches = [self._batch(name) for name, _ in (self.train_list if train else self.test_list)]
        pixels = np.concatenate([pixels for pixels, _ in batches])
        self.data = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets = [label for _, labels in batches for label in labels]
        self.classes = list(_unpickled(self._folder / self.meta["filename"])[self.meta["key"]])
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def download(self) -> None:
        """Fetch and unpack what is not there whole."""
        if self._wrong():
            download_and_extract_archive(
                self.url, self.root, filename=self.filename, md5=self.tgz_md5
            )

    @property
    def _folder(self) -> Path:
        return Path(self.root) / self.base_folder

    def _wrong(self) -> str | None:
        """The first file that is not there as it should be."""
        files = [*self.train_list, *self.test_list, [self.meta["filename"], self.meta["md5"]]]
        return next((n for n, md5 in files if not check_integrity(self._folder / n, md5)), None)

    def _batch(self, name: str) -> tuple[np.ndarray, list[int]]:
        """uint8 (N, 3072) and N labels."""
        path = self._folder / name
        entry = _unpickled(path)
        pixels, labels = entry.get("data"), entry.get(self._labels_key)
        if not isinstance(pixels, np.ndarray) or not isinstance(labels, list) or (
            pixels.shape != (len(labels), 3 * 32 * 32)
        ):  # fmt: skip
            raise ValueError(
                f"{path}: expected 'data', uint8 (N, 3072), and '{self._labels_key}', N ints"
            )
        return pixels, labels

    def _pixels(self, rows: Any) -> np.ndarray:
        return np.moveaxis(self.data[rows], -1, -3)


class CIFAR100(CIFAR10):
    """As CIFAR10, of a hundred things: 500 pictures of each to train on, 100 to test with."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]  # noqa: RUF012
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]  # noqa: RUF012
    meta = {  # noqa: RUF012
        "filename": "meta",
        "key": "fine_label_names",
        "md5": "7973b15100ade9c7d40fb424638fde48",
    }
    _labels_key = "fine_labels"


class _Array:
    """What stands for a pickled array until its state comes."""

    value: np.ndarray

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, data = state
        if not isinstance(dtype, _UInt8):
            raise pickle.UnpicklingError("an array that is not uint8")
        data = data.encode("latin1") if isinstance(data, str) else data
        self.value = np.frombuffer(data, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _UInt8:
    """What stands for a pickled dtype."""

    def __setstate__(self, state: Any) -> None:
        pass


def _dtype(code: str, *_: Any) -> _UInt8:
    if code != "u1":
        raise pickle.UnpicklingError(f"dtype {code!r}, expected 'u1'")
    return _UInt8()


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _dtype,
    ("numpy", "ndarray"): None,  # an argument of _reconstruct, never called
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
}


class _Unpickler(pickle.Unpickler):
    """Reads dicts, lists, strings, numbers and arrays of uint8; calls nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, expected arrays, dicts, lists, strings and numbers"
            )
        return _ADMITTED[module, name]


def _unpickled(path: Path) -> dict[str, Any]:
    """The dict in a pickled batch. ValueError unless it is one, or if it imports anything."""
    try:
        with opened(path) as file:
            found = _Unpickler(file, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # what a damaged pickle raises may be anything
        raise ValueError(f"{path}: not a CIFAR batch: {mistaken(head(path)) or error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not a CIFAR batch: {type(found).__name__}, expected a dict")
    return {k: v.value if isinstance(v, _Array) else v for k, v in found.items()}
