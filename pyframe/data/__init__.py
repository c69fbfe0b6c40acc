"""Data sets and the batches made of them, as torch.utils.data."""

from __future__ import annotations

from pyframe.data.collate import default_collate, default_convert
from pyframe.data.dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from pyframe.data.loader import DataLoader
from pyframe.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "default_convert",
    "random_split",
]
