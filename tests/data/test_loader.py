"""DataLoader, samplers and default_collate: what no program of PyTorch's shows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)


def rows(n: int = 10) -> TensorDataset:
    return TensorDataset(pf.arange(2 * n).reshape(n, 2).float(), pf.arange(n))


def test_collate_makes_cpu_tensors(gpu: str) -> None:
    pf.set_default_device(gpu)
    for batch in ([1, 2], [1.0, 2.0], [np.arange(2)], [np.float32(1)]):
        assert str(default_collate(batch).device) == "cpu"


def test_shuffle_is_new_each_epoch_and_the_same_for_a_seed() -> None:
    def epochs(loader: DataLoader) -> list[list[int]]:
        return [[i for _, y in loader for i in y.tolist()] for _ in range(2)]

    pf.manual_seed(0)
    first, second = epochs(DataLoader(rows(50), 8, shuffle=True))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    pf.manual_seed(0)
    assert epochs(DataLoader(rows(50), 8, shuffle=True)) == [first, second]
    generator = pf.Generator().manual_seed(0)
    assert epochs(DataLoader(rows(50), 8, shuffle=True, generator=generator)) == [first, second]


class Counting(Dataset[Any]):
    """Says in which ways it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, index: int) -> int:
        self.asked.append("item")
        return index

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        self.asked.append("items")
        return list(indices)

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        self.asked.append("batch")
        return pf.tensor(indices)

    def __len__(self) -> int:
        return 4


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, [0, 1, 2, 3])])
def test_fastest_way_to_a_batch(wrap: Any) -> None:
    data = Counting()
    assert [b.tolist() for b in DataLoader(wrap(data), 2)] == [[0, 1], [2, 3]]
    assert data.asked == ["batch", "batch"]
    data.asked.clear()
    own = DataLoader(wrap(data), 2, collate_fn=lambda samples: default_collate(samples))
    assert [b.tolist() for b in own] == [[0, 1], [2, 3]]
    assert data.asked == ["items", "items"]


def test_own_items_are_not_bypassed() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            x, y = super().__getitem__(index)
            return 2 * x, y

    class Reversed(Counting):
        def __getitems__(self, indices: Sequence[int]) -> list[int]:
            return [3 - i for i in indices]

    class Shifted(Subset[int]):
        def __getitem__(self, index: Any) -> int:
            return super().__getitem__(index) + 100

    x = pf.arange(4)
    assert [a.tolist() for a, _ in DataLoader(Doubled(x, x), 2)] == [[0, 2], [4, 6]]
    assert [b.tolist() for b in DataLoader(Reversed(), 2)] == [[3, 2], [1, 0]]
    assert [b.tolist() for b in DataLoader(Shifted(Counting(), [2, 3]), 2)] == [[102, 103]]


def test_tensors_on_a_device_stay_there(device: str) -> None:
    x = pf.arange(6, device=device)
    batches = list(DataLoader(TensorDataset(x), 4))
    assert [str(b.device) for (b,) in batches] == [device, device]
    assert [b.tolist() for (b,) in batches] == [[0, 1, 2, 3], [4, 5]]


def test_batches_do_not_share_memory_with_the_dataset() -> None:
    x = pf.zeros(4)
    (batch,) = next(iter(DataLoader(TensorDataset(x), 4)))
    batch += 1
    assert x.tolist() == [0.0] * 4


@pytest.mark.parametrize("batch_size", [2, None])
def test_a_sample_cannot_end_the_data(batch_size: int | None) -> None:
    """A StopIteration from within __getitem__ would end the loop over the batches unseen."""

    class Odd(Dataset[int]):
        def __getitem__(self, i: int) -> int:
            return next(iter([i][i // 3 :]))

        def __len__(self) -> int:
            return 4

    with pytest.raises(RuntimeError, match="__getitem__ of Odd raised StopIteration"):
        list(DataLoader(Odd(), batch_size))


# --- samplers


def test_random_split() -> None:
    one, again = (random_split(range(10), [3, 7], pf.Generator().manual_seed(1)) for _ in "ab")
    assert [p.indices for p in one] == [p.indices for p in again]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


def test_random_sampler_is_a_permutation_of_the_seed() -> None:
    def order(seed: int) -> list[int]:
        return list(RandomSampler(range(100), generator=pf.Generator().manual_seed(seed)))

    expected = pf.random.permutation(100, pf.Generator().manual_seed(0)).tolist()
    assert order(0) == expected != order(1), "the stream that every device and the page share"
    assert sorted(expected) == list(range(100))


def test_random_sampler_with_replacement_and_without_end() -> None:
    sampler = RandomSampler(range(10), True, int(1e10), pf.Generator().manual_seed(0))
    first = list(itertools.islice(sampler, 10_000))
    assert len(sampler) == 10**10
    counts = np.bincount(first, minlength=10)
    assert counts.shape == (10,)
    # chi-squared with 9 degrees of freedom: above 27.9 one seed in a thousand
    assert ((counts - 1000) ** 2 / 1000).sum() < 27.9
    assert first != list(itertools.islice(sampler, 10_000))
    sampler.generator.manual_seed(0)
    assert first == list(itertools.islice(sampler, 10_000))
