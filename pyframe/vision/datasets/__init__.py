"""Data sets of images."""

from __future__ import annotations

from pyframe.vision.datasets.mnist import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST"]
