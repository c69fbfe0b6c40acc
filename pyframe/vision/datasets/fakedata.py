"""Pictures of noise, as torchvision.datasets.fakedata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.vision.datasets.vision import VisionDataset, scaled


class FakeData(VisionDataset):
    """Noise with random labels, to try things with: a sample depends on its index alone.

    It is (float32 Tensor `image_size` from 0 to 1, int below `num_classes`). The numbers are not
    torchvision's.

    Args:
        size: How many samples.
        random_offset: Another number makes other noise.
    """

    def __init__(
        self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10, transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None, random_offset: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"FakeData: index {index} is out of range for {len(self)} samples")
        noise = np.random.Generator(np.random.PCG64([index % self.size, self.random_offset]))
        image = noise.integers(0, 256, self.image_size, np.uint8)
        return self._transformed(scaled(image), int(noise.integers(self.num_classes)))

    def __len__(self) -> int:
        return self.size
