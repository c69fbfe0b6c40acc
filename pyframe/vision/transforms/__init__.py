"""Transforms of images, as torchvision.transforms: of Tensors, and with Pillow of PIL images."""

from __future__ import annotations

from pyframe.ops.api.layouts import texts as _texts
from pyframe.vision.transforms import functional as functional, v2 as v2
from pyframe.vision.transforms.autoaugment import *
from pyframe.vision.transforms.transforms import *

if _texts:
    _texts.complete_docstrings(globals())
    _texts.complete_docstrings(vars(functional))
