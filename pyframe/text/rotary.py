"""Rotary positions (arXiv 2104.09864): pairs of a head's numbers are turned by angles that grow
with the position; and the ways to stretch them to longer texts."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.tensor import Tensor

Array: TypeAlias = np.ndarray[Any, Any]


def _default(p: dict[str, Any], inv: Array, dim: int, longest: int) -> tuple[Array, float]:
    return inv, 1.0


def _linear(p: dict[str, Any], inv: Array, dim: int, longest: int) -> tuple[Array, float]:
    return inv / p["factor"], 1.0


def _llama3(p: dict[str, Any], inv: Array, dim: int, longest: int) -> tuple[Array, float]:
    """Llama 3.1: long waves are stretched, short ones are not, those between partly."""
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    turns = p["original_max_position_embeddings"] * inv / (2 * math.pi)  # in the first context
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - smooth) * inv / p["factor"] + smooth * inv, 1.0


def _yarn(p: dict[str, Any], inv: Array, dim: int, longest: int) -> tuple[Array, float]:
    """YaRN (arXiv 2309.00071)."""
    original = p["original_max_position_embeddings"]
    factor = p.get("factor") or longest / original

    def magnitude(m: float) -> float:
        return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0

    def where(turns: float) -> float:  # the pair that turns so often in the first context
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(p["rope_theta"]))

    attention = p.get("attention_factor")
    if attention is None:
        m, all_dims = p.get("mscale"), p.get("mscale_all_dim")
        attention = magnitude(m) / magnitude(all_dims) if m and all_dims else magnitude(1)
    low, high = where(p.get("beta_fast") or 32), where(p.get("beta_slow") or 1)
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low or 0.001), 0, 1)
    return inv / factor * ramp + inv * (1 - ramp), float(attention)


def _longrope(p: dict[str, Any], inv: Array, dim: int, longest: int) -> tuple[Array, float]:
    """LongRoPE (arXiv 2402.13753) for texts within the first context; see `Rotary.long`."""
    original = p["original_max_position_embeddings"]
    factor = p.get("factor") or longest / original
    attention = p.get("attention_factor")
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return inv / np.asarray(p["short_factor"]), float(attention)


KINDS = {
    "default": _default, "linear": _linear, "dynamic": _default, "llama3": _llama3, "yarn": _yarn,
    "longrope": _longrope,
}  # fmt: skip


_NUMBERS = {
    "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
    "mscale_all_dim",
}  # fmt: skip


class Rotary(nn.Module):
    """The cosines and sines of positions' angles.

    Args:
        parameters: `rope_type` and what it takes, as in Hugging Face's files.
        head_dim: numbers of a head; `partial_rotary_factor` of them are turned.
        longest: `max_position_embeddings` of the model.

    ValueError for another `rope_type`, and where one of its parameters is missing.
    """

    inverse: Tensor
    longer: Tensor | None

    def __init__(self, parameters: dict[str, Any], head_dim: int, longest: int) -> None:
        super().__init__()
        self.kind, self.longest, self.rope = parameters["rope_type"], longest, parameters
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(
                f"Rotary: rope_type is one of {', '.join(KINDS)}, got {self.kind!r:.80}"
            )
        for name in _NUMBERS & parameters.keys():
            x = parameters[name]
            least = 0.0 if name.startswith(("beta", "mscale", "low")) else 1e-30
            if x is not None and not (type(x) in (int, float) and least <= x < 1e30):
                raise ValueError(f"Rotary: {name} is a number above 0, got {x!r:.80}")
        self.dim = dim = int(head_dim * min(parameters["partial_rotary_factor"], 1))
        if dim % 2 or not dim:
            raise ValueError(f"Rotary: pairs of numbers are turned, and {dim} are none")
        steps = np.arange(0, dim, 2) / dim
        inv = 1 / float(parameters["rope_theta"]) ** steps
        try:
            with np.errstate(divide="raise", invalid="raise"):
                found, self.scale = KINDS[self.kind](parameters, inv, dim, longest)
            longer = (
                inv / np.asarray(parameters["long_factor"]) if self.kind == "longrope" else None
            )
            self.factor = float(parameters["factor"]) if self.kind == "dynamic" else 1.0
        except KeyError as error:
            raise ValueError(f"Rotary: {self.kind!r} needs {error}") from None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"Rotary: {self.kind!r} can't be of these numbers: {error}") from None
        if found.shape != inv.shape or (longer is not None and longer.shape != inv.shape):
            raise ValueError(f"Rotary: short_factor and long_factor have {dim // 2} numbers each")
        self.first = parameters["original_max_position_embeddings"]
        self.register_buffer("inverse", pf.tensor(found.astype(np.float32)), persistent=False)
        longer = None if longer is None else pf.tensor(longer.astype(np.float32))
        self.register_buffer("longer", longer, persistent=False)
        self.register_buffer("steps", pf.tensor(steps.astype(np.float32)), persistent=False)

    def forward(self, positions: Tensor, dtype: pf.dtype) -> tuple[Tensor, Tensor]:
        """(B or 1, T) positions: cosines and sines, (B or 1, 1, T, dim / 2)."""
        inverse = self.inverse
        if self.longer is not None:
            inverse = pf.where(positions.max() >= self.first, self.longer, inverse)
        elif self.kind == "dynamic":  # the base grows with the text, beyond the longest
            length = (positions.max() + 1).clamp(min=self.longest)
            grown = self.factor * length / self.longest - (self.factor - 1)
            base = self.rope["rope_theta"] * grown ** (self.dim / (self.dim - 2))
            inverse = base**-self.steps
        angles = positions.unsqueeze(1).unsqueeze(3).to(pf.float32) * inverse
        return (angles.cos() * self.scale).to(dtype), (angles.sin() * self.scale).to(dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(B, heads, T, head_dim) whose first numbers are turned: i with i + dim / 2."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    parts = [a * cos - b * sin, b * cos + a * sin]
    return pf.cat([*parts, rest] if rest.shape[-1] else parts, -1)
