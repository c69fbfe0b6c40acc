"""Which variant of a kernel is the fastest on a GPU, as measured by pf.autotune and kept for its
adapter and driver; and which ones its driver refuses."""

from __future__ import annotations

import contextlib
import json
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

FORMAT = 1  # of what is kept; another one is not there
NOT_FASTER = 0.95  # of a time: what takes no less is no faster


class Times(NamedTuple):
    """What was measured of a kernel: milliseconds by variant, None of one that was refused."""

    kernel: str  # its name, for people
    times: dict[str, float | None]

    @property
    def winner(self) -> str:
        """The fastest variant, or the first one, which is the cost model's, where that is as fast
        as clocks can tell; "" where all were refused."""
        taken = {name: ms for name, ms in self.times.items() if ms is not None}
        best = min(taken, key=taken.__getitem__, default="")
        first = next(iter(self.times), "")
        return first if first in taken and taken[first] * NOT_FASTER <= taken[best] else best


def kept(backend: Any) -> dict[str, Times]:
    """What is kept for a GPU, by the keys of kernels. What is damaged is not there, which a warning
    tells."""
    try:
        text = backend.recall()
        found: Any = json.loads(text) if text else {"format": None}
        if found["format"] != FORMAT:
            return {}
        out = {
            str(k): Times(str(name), dict(times)) for k, (name, times) in found["kernels"].items()
        }
        for ms in [ms for each in out.values() for ms in each.times.values()]:
            if ms is not None and not ms >= 0:  # a TypeError for what is no number
                raise ValueError(ms)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        warnings.warn(
            f"{backend.kept_in} is damaged ({type(error).__name__}: {error}): what pf.autotune "
            "measured is not taken from there; pf.autotune measures it again and replaces it",
            stacklevel=2,
        )
        return {}
    return out


def keep(backend: Any, found: dict[str, Times]) -> str:
    """Keep what was measured for other processes: where it lies now, "" where it can't."""
    text = json.dumps({"format": FORMAT, "kernels": found})
    backend.remember(text)
    with contextlib.suppress(ValueError):
        if backend.recall() == text:
            return str(backend.kept_in)
    return ""


def apply_tuning(backend: Any, found: dict[str, Times]) -> None:
    """Let kernels that are printed from now on be the fastest ones that were measured."""
    tuned = frozenset((k, each.winner) for k, each in found.items() if each.winner)
    backend.limits = replace(backend.limits, tuned=tuned)


def exclude_variant(backend: Any, kernel: Any, error: Any) -> None:
    """Let another variant take the place of one that the driver refuses, wherever an op would have
    it, and warn. Raises `error` where there is no other one."""
    from pyframe.codegen.wgsl.printer import label, variants

    limits, found = backend.limits, variants(kernel, backend.limits)
    used, other = "subgroups", "workgroup memory"
    if limits.subgroups and "subgroup" in error.code:
        backend.limits = replace(limits, subgroups=False)
    elif not found:
        raise error
    else:
        name, used = kernel.routine.name, next(iter(found))
        backend.limits = replace(limits, refused=limits.refused | {(name, used)})
        other = next(iter(variants(kernel, backend.limits)))
        if (name, other) in backend.limits.refused:
            raise error
    warnings.warn(
        f"the driver of {backend.adapter} refuses kernel {label(kernel)} in the variant {used!r} "
        f"({error.why.partition(chr(10))[0]}): {other!r} takes its place from now on",
        RuntimeWarning,
        stacklevel=2,
    )
