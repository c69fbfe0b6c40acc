"""The digits as NumPy arrays: what all four scripts begin with."""

import gzip
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "examples" / "data" / "mnist10k"


def _read(name: str, header: int) -> np.ndarray:
    data = gzip.decompress((FOLDER / f"{name}-ubyte.gz").read_bytes())
    return np.frombuffer(data, np.uint8, offset=header)


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) to train on and to test with: (N, 28, 28) float32 from 0 to 1, (N,) int64"""

    def part(name: str) -> tuple[np.ndarray, np.ndarray]:
        images = _read(f"{name}-images-idx3", 16).reshape(-1, 28, 28)
        return images.astype(np.float32) / 255, _read(f"{name}-labels-idx1", 8).astype(np.int64)

    return part("train"), part("t10k")
