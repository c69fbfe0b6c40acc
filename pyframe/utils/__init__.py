"""Helpers around training, as torch.utils."""

from __future__ import annotations

from pyframe.utils import checkpoint as checkpoint, data as data

__all__ = ["checkpoint", "data"]
