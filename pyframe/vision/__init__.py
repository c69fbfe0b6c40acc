"""Images, with the names of torchvision."""

from __future__ import annotations

from pyframe.vision import (
    datasets as datasets,
    io as io,
    models as models,
    ops as ops,
    transforms as transforms,
    utils as utils,
)
