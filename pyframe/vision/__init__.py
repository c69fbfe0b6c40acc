"""Images: data sets."""

from __future__ import annotations

from pyframe.vision import datasets as datasets
