# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe.nn.functional.activation` and written nowhere."""

from typing import Any

from pyframe.tensor import Tensor

def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `celu`; returns input."""

def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `elu`; returns input."""

def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place version of `hardtanh`; returns input."""

def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place version of `leaky_relu`; returns input."""

def relu_(input: Tensor) -> Tensor:
    """In-place version of `relu`; returns input."""

def rrelu_(
    input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False
) -> Tensor:
    """In-place version of `rrelu`; returns input."""

def selu_(input: Tensor) -> Tensor:
    """In-place version of `selu`; returns input."""

def threshold_(input: Tensor, threshold: Any, value: Any) -> Tensor:
    """In-place version of `threshold`; returns input."""
