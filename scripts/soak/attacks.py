"""The attacks by name, and one try of one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import NamedTuple

import compute
import disturb
import numpy as np
import outside
import training

import pyframe as pf

BOTH = ("cpu", "gpu")


class Attack(NamedTuple):
    """One try does its worst with what `rng` says, and raises where pyframe did not hold."""

    run: Callable[[random.Random, str], None]
    devices: tuple[str, ...] = BOTH


ATTACKS = {
    "threads": Attack(disturb.threads),
    "shapes": Attack(compute.shapes),
    "compiled": Attack(compute.compiled),
    "interrupts": Attack(disturb.interrupts),
    "faults": Attack(disturb.faults),
    "kills": Attack(disturb.kills, ("cpu",)),
    "cache": Attack(outside.cache, ("cpu",)),
    "lost": Attack(disturb.lost, ("gpu",)),
    "numbers": Attack(compute.numbers),
    "serve": Attack(outside.serve, ("cpu",)),
    "mistakes": Attack(outside.mistakes),
    "fit": Attack(training.fit),
    "resume": Attack(training.resume, ("cpu",)),
}


def one_try(name: str, device: str, seed: int) -> None:
    """The same try for the same seed."""
    random.seed(seed)
    np.random.seed(seed)
    pf.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ATTACKS[name].run(random.Random(f"{name} {device} {seed}"), device)
