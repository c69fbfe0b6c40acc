"""Images with what is seen in them, in the form of MS COCO, as torchvision.datasets.coco."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from pyframe.io.files import opened
from pyframe.vision.datasets.folder import default_loader
from pyframe.vision.datasets.vision import VisionDataset


class CocoDetection(VisionDataset):
    """Images of a folder, and objects in them. pycocotools is not needed.

    A sample is (float32 Tensor (3, H, W) from 0 to 1, a list of what the file says of each object:
    dicts with "bbox", "category_id", …). `ids` are the images' numbers, sorted.

    Args:
        root: The folder of the images.
        annFile: The JSON file with "images" and "annotations".
        transforms: What is done to an image and its target; `transform` and `target_transform` are
            for one of them.
    """

    def __init__(
        self, root: str | os.PathLike[str], annFile: str | os.PathLike[str],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(root, transforms, transform, target_transform)
        with opened(annFile) as file:
            said = json.load(file)
        if not isinstance(said, dict) or "images" not in said:
            raise ValueError(
                f"{type(self).__name__}: {os.fspath(annFile)} is not in the form of COCO: expected "
                'a dict with "images" and "annotations"'
            )
        self._names = {image["id"]: image["file_name"] for image in said["images"]}
        self._objects: dict[int, list[Any]] = {number: [] for number in self._names}
        for one in said.get("annotations", ()):
            self._objects.setdefault(one["image_id"], []).append(one)
        self.ids = sorted(self._names)

    def _load_image(self, id: int) -> Any:
        return default_loader(os.path.join(self.root, self._names[id]))

    def _load_target(self, id: int) -> Any:
        return self._objects[id]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not isinstance(index, int):
            raise ValueError(f"Index must be of type integer, got {type(index)} instead.")
        number = self.ids[index]
        image, target = self._load_image(number), self._load_target(number)
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __len__(self) -> int:
        return len(self.ids)


class CocoCaptions(CocoDetection):
    """The same, of which a target is the list of an image's captions.

    Args:
        root: The folder of the images.
        annFile: The JSON file with "images" and "annotations".
        transforms: What is done to an image and its target; `transform` and `target_transform` are
            for one of them.
    """

    def _load_target(self, id: int) -> list[str]:
        return [one["caption"] for one in super()._load_target(id)]
