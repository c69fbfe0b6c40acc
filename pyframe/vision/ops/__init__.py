"""What detectors and models of images need beside layers: the names of torchvision.ops."""

from __future__ import annotations

from pyframe.ops.api.layouts import texts as _texts
from pyframe.vision.ops import boxes, misc, roi
from pyframe.vision.ops.boxes import *
from pyframe.vision.ops.misc import *
from pyframe.vision.ops.roi import *

__all__ = [*boxes.__all__, *misc.__all__, *roi.__all__]

if _texts:
    _texts.complete_docstrings(globals())
