"""Data sets that are folders of files, one folder a class, as torchvision.datasets.folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.io.files import opened
from pyframe.tensor import Tensor
from pyframe.vision.datasets.vision import VisionDataset, scaled
from pyframe.vision.io import decode, opened_image, pillow

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | tuple[str, ...]) -> bool:
    """Whether the name ends, in either case, with one of `extensions` (in lower case)."""
    ends = extensions if isinstance(extensions, str) else tuple(extensions)
    return filename.lower().endswith(ends)


def is_image_file(filename: str) -> bool:
    """Whether the name ends as an image's does."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """(the names of the folders in `directory`, sorted; their numbers by name)."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(
            f"Couldn't find any class folder in {directory}; expected a folder for each class"
        )
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike[str], class_to_idx: dict[str, int] | None = None,
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
) -> list[tuple[str, int]]:  # fmt: skip
    """(path, number of the class) of each file below the classes' folders, sorted.

    Either `extensions` or `is_valid_file(path)` says which files count. FileNotFoundError for a
    class without any, unless `allow_empty`.
    """
    directory = os.path.expanduser(directory)
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    elif not class_to_idx:
        raise ValueError("make_dataset: class_to_idx must have at least one entry")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "make_dataset: expected either extensions or is_valid_file, got "
            f"{'none' if extensions is None else 'both'}"
        )
    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(samples)
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            for path in (os.path.join(folder, file) for file in sorted(files)):
                if (
                    is_valid_file(path)
                    if is_valid_file is not None
                    else has_file_allowed_extension(path, extensions or ())
                ):
                    samples.append((path, class_to_idx[name]))
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        ends = extensions if isinstance(extensions, str) else ", ".join(extensions or ())
        supported = f" Supported extensions are: {ends}" if ends else ""
        raise FileNotFoundError(
            f"Found no valid file for the classes {', '.join(empty)}.{supported}"
        )
    return samples


class DatasetFolder(VisionDataset):
    """Files by class: `root/CLASS/…/FILE`. A sample is (loader(path), number of the class).

    `extensions` or `is_valid_file(path)` say which files count. Has `classes`, `class_to_idx`,
    `samples` and `targets`; a subclass may have its own `find_classes` or `make_dataset`.
    """

    def __init__(
        self, root: str | os.PathLike[str], loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None, transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.loader = loader
        self.extensions = extensions
        self.samples = self.make_dataset(
            self.root, class_to_idx=self.class_to_idx, extensions=extensions,
            is_valid_file=is_valid_file, allow_empty=allow_empty,
        )  # fmt: skip
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: str | os.PathLike[str], class_to_idx: dict[str, int],
        extensions: tuple[str, ...] | None = None,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> list[tuple[str, int]]:  # fmt: skip
        """The function of this name, for a subclass to replace.

        Args:
            directory: The folder of the classes' folders.
        """
        if class_to_idx is None:
            raise ValueError("DatasetFolder.make_dataset: class_to_idx cannot be None")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """The function of this name, for a subclass to replace.

        Args:
            directory: The folder of the classes' folders.
        """
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str | os.PathLike[str]) -> Any:
    """The PIL image in a file, in RGB: the `loader` for transforms that want one. It has 8 bits, of
    16 the upper ones."""
    with opened(path) as file, opened_image(file, "pil_loader") as image:
        if image.mode.startswith("I;16"):  # which Pillow would clip at 255
            image = pillow("pil_loader").fromarray((np.array(image) >> 8).astype(np.uint8))
        return image.convert("RGB")


def default_loader(path: str | os.PathLike[str]) -> Tensor:
    """The image in a file: float32 (3, H, W) from 0 to 1, read with Pillow; floats as they are.

    ValueError, which names the file, if there is none in it, or one of 32-bit ints.
    """
    with opened(path) as file:
        pixels = np.moveaxis(decode(file, os.fspath(path), "RGB"), -1, 0)
    if pixels.dtype == np.int32:
        raise ValueError(
            f"{os.fspath(path)}: its ints have 32 bits, of which no number is white: give a "
            "loader= that scales what vision.io.read_image gives"
        )
    return scaled(pixels)


class ImageFolder(DatasetFolder):
    """Images by class: `root/CLASS/…/IMAGE.png`, also .jpg, .bmp, .webp, …

    A sample is (float32 Tensor (3, H, W) from 0 to 1, number of the class), with
    `loader=pil_loader` a PIL image as torchvision's. Reading needs Pillow.
    """

    def __init__(
        self, root: str | os.PathLike[str], transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ) -> None:  # fmt: skip
        ends = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, ends, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples
