"""The tests of the samples notice what is wrong: a mutant of each op, of `scripts/mutate.py`."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = str(Path(__file__).parents[2] / "scripts")
sys.path.insert(0, SCRIPTS)
try:
    mutate: Any = importlib.import_module("mutate")
finally:
    sys.path.remove(SCRIPTS)

MUTANTS = mutate.mutants()


def test_a_mutant_of_each_op_is_noticed(torch: Any) -> None:
    """`python scripts/mutate.py` tries all of them."""
    some = random.Random(0).sample(MUTANTS, len(MUTANTS))
    each = {m.op: m for m in some if mutate.can_be_noticed(m)}
    survive = [str(m) for m in each.values() if mutate.survives(m, torch)]
    assert survive == []


def test_what_survives_is_told(torch: Any) -> None:
    """Without rows nothing would notice it; after each try the op is as before."""
    mutant = next(m for m in MUTANTS if m.op.name == "exp" and m.how == "scaled")
    was = mutant.op.vjps[0].fn
    assert not mutate.survives(mutant, torch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutate, "rows_of", lambda op: [])
        assert mutate.survives(mutant, torch)
    assert mutant.op.vjps[0].fn is was
