"""torch.__config__: what this build is made of."""

from __future__ import annotations

import sys

import numpy as np

import pyframe as pf


def show() -> str:
    """The versions of pyframe, NumPy and Python, as lines."""
    parts = {"pyframe": pf.__version__, "NumPy": np.__version__, "Python": sys.version.split()[0]}
    return "pyframe built with:\n" + "".join(f"  - {k} {v}\n" for k, v in parts.items())


def parallel_info() -> str:
    """The number of threads, as lines."""
    return f"pyframe parallel info:\n\ttorch.get_num_threads() : {pf.get_num_threads()}\n"
