"""Data sets and the batches made of them, as torch.utils.data."""

from __future__ import annotations

from pyframe.core import also_named as _also_named
from pyframe.data.collate import default_collate, default_convert
from pyframe.data.dataloader import DataLoader
from pyframe.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from pyframe.data.fetch import get_worker_info
from pyframe.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

_also_named(__name__, "sampler", "distributed")  # PyTorch's name
