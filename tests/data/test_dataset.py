"""Data sets and samplers: rows, parts, and orders of a seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pyframe as pf
from pyframe.data import RandomSampler, random_split


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
    sampler = RandomSampler(range(50))
    pf.manual_seed(3)
    first, second = list(sampler), list(sampler)
    pf.manual_seed(3)
    assert list(sampler) == first
    assert second != first


def test_random_sampler_takes_more_or_fewer_than_there_are() -> None:
    fewer = list(RandomSampler(range(10), num_samples=4))
    assert len(fewer) == len(set(fewer)) == 4
    more = list(RandomSampler(range(10), num_samples=25))
    assert len(more) == len(RandomSampler(range(10), num_samples=25)) == 25
    assert sorted(more[:10]) == sorted(more[10:20]) == list(range(10))


def test_random_sampler_with_replacement() -> None:
    generator = pf.Generator().manual_seed(0)
    drawn = list(RandomSampler(range(10), replacement=True, num_samples=5000, generator=generator))
    counts = np.bincount(drawn, minlength=10)
    assert counts.shape == (10,)
    # chi-squared with 9 degrees of freedom: above 27.9 one seed in a thousand
    assert ((counts - 500) ** 2 / 500).sum() < 27.9


def test_random_sampler_without_end() -> None:
    sampler = RandomSampler(range(10), True, int(1e10), pf.Generator().manual_seed(0))
    first = list(itertools.islice(sampler, 10_000))
    assert len(sampler) == 10**10
    assert set(first) == set(range(10))
    assert first != list(itertools.islice(sampler, 10_000))
    sampler.generator.manual_seed(0)
    assert first == list(itertools.islice(sampler, 10_000))
