"""scripts/soak, a minute of it: each attack with a few tries that are the same in every run."""

from __future__ import annotations

import random
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

SOAK = Path(__file__).parent.parent / "scripts" / "soak"
sys.path.insert(0, str(SOAK))
try:
    import attacks
    import disturb
    import training
finally:
    sys.path.remove(str(SOAK))

# Seeds of the tries: of jobs that differ, and that are disturbed; a GPU gets a third of them where
# the CPU is attacked as well
SEEDS = {"threads": [1, 2], "shapes": range(3), "compiled": range(6), "interrupts": [2, 3],
         "faults": range(3), "kills": [0], "cache": range(12), "lost": [0, 1, 3],
         "numbers": range(9), "serve": range(5), "mistakes": range(5), "fit": [0],
         "resume": range(2)}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "device"), [(n, d) for n, a in attacks.ATTACKS.items() for d in a.devices]
)
def test_attack(
    name: str, device: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "gpu":
        request.getfixturevalue("gpu")
    monkeypatch.setattr(disturb, "TIMED", False)
    monkeypatch.setattr(disturb, "KINDS", 1)  # so that one run tells what a job gives undisturbed
    monkeypatch.setattr(training, "KILLS", False)
    again = device == "gpu" and "cpu" in attacks.ATTACKS[name].devices
    for seed in SEEDS[name][:: 3 if again else 1]:
        attacks.one_try(name, device, seed)


def test_what_fails_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(rng: random.Random, device: str) -> None:
        if rng.random() < 0.5:
            raise ValueError("it is little")

    monkeypatch.setitem(attacks.ATTACKS, "odd", attacks.Attack(odd, ("cpu",)))
    main = runpy.run_path(str(SOAK))["main"]

    def soak(*args: str) -> tuple[int, list[str], str]:
        status: Any = main(["--only=odd", *args])
        out, err = capsys.readouterr()
        return status, [cell.strip() for cell in out.splitlines()[-1].split("|")[3:7]], err

    status, (tries, held, failed, first), err = soak("--tries=20")
    assert (status, int(tries), int(held) + int(failed)) == (1, 20, 20)
    assert 0 < int(failed) < 20
    assert "ValueError: it is little" in err
    again = first.partition(":")[0].split()
    assert soak(*again)[:2] == (1, ["1", "0", "1", first])
    with pytest.raises(SystemExit, match="2"):
        soak("--device=gpu", "--tries=1")
    assert "nothing to do" in capsys.readouterr().err
