"""Anomaly mode: where in the forward pass a step that fails in backward was recorded."""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from pyframe.autograd import walk
from pyframe.core.grad_node import GradNode, watch_nodes

check_nan = True  # besides errors, a gradient with NaN is one
_HERE = str(Path(__file__).resolve().parent.parent)


def here() -> str:
    """The lines outside of pyframe that run now, as a traceback shows them."""
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_HERE)]
    return "".join(traceback.format_list(frames))


class set_detect_anomaly:  # noqa: N801
    """Switch anomaly mode, in which backward tells where a failing step was recorded; as a context
    manager, until its end. `check_nan` makes a NaN in a gradient an error (which reads values).

    Args:
        mode: Whether it is on.

    >>> with pf.autograd.set_detect_anomaly(True):
    ...     print(pf.is_anomaly_enabled())
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _set(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _set(*self._before)


class detect_anomaly(set_detect_anomaly):  # noqa: N801
    """`set_detect_anomaly(True)` as a context manager alone; it warns that it takes time.

    Args:
        check_nan: Whether a NaN in a gradient is an error.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> with pf.autograd.detect_anomaly():
    ...     print(pf.is_anomaly_enabled())
    True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _set(True, self._check_nan)


def _set(on: bool, nan: bool) -> tuple[bool, bool]:
    """Switch both; returns what they were."""
    global check_nan
    before = is_anomaly_enabled(), check_nan
    walk.anomaly, check_nan = sys.modules[__name__] if on else None, nan
    watch_nodes(_note_where, on)
    return before


def _note_where(node: GradNode) -> None:
    node.attach().trace = here()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    >>> pf.is_anomaly_enabled()
    False
    """
    return walk.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, when on, looks for NaN.

    >>> pf.is_anomaly_check_nan_enabled()
    True
    """
    return check_nan


def look(node: Any, i: int, g: Any) -> None:
    """RuntimeError if the gradient that `node` gives its input `i` has a NaN."""
    if g is not None and bool(g.isnan().any()):
        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def explain(node: Any) -> None:
    """Warn where `node`, in which backward fails, was recorded."""
    trace = "" if node.extra is None else node.extra.trace
    if trace:
        text = f"Traceback of forward call that caused the error:\n{trace}"
    else:
        text = "No forward pass information available; enable anomaly mode during the forward pass."
    warnings.warn(f"Error detected in {node.name()}. {text}", stacklevel=5)
