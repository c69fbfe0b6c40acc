"""Programs that nobody thought of, of views, writes in place, gradients and arrays that are shared:
two families of scripts/fuzz, run eagerly beside PyTorch's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is the oracle")

SCRIPTS = str(Path(__file__).parents[2] / "scripts")
sys.path.insert(0, SCRIPTS)
try:
    from fuzz import backends, check, families
finally:
    sys.path.remove(SCRIPTS)


def tried(family: str, backend: str, seeds: range) -> None:
    for seed in seeds:
        found = check.failure(families.case(family, seed), backends.BACKENDS[backend])
        again = f"--only {family} --backend {backend} --seed {seed} --cases 1"
        assert not isinstance(found, str), f"python scripts/fuzz {again}\n{found}"


@pytest.mark.filterwarnings("ignore")  # PyTorch's, and what both say of such programs
@pytest.mark.parametrize("part", range(4))
def test_on_the_cpu(part: int) -> None:
    tried("programs", "eager", range(100 + part, 180, 4))
    tried("moments", "recorded", range(100 + part, 140, 4))


@pytest.mark.filterwarnings("ignore")
def test_on_the_gpu(gpu: str) -> None:
    tried("programs", "lazy", range(100, 110))
