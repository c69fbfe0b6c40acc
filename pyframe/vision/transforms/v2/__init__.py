"""torchvision.transforms.v2: the transforms of the first version, which take whole samples here
too, and those that came later."""

from __future__ import annotations

from pyframe.ops.api.layouts import texts as _texts
from pyframe.vision.transforms._transform import Transform as Transform
from pyframe.vision.transforms.autoaugment import *
from pyframe.vision.transforms.transforms import *
from pyframe.vision.transforms.v2 import functional as functional
from pyframe.vision.transforms.v2._misc import *  # type: ignore[assignment]  # another Lambda

if _texts:
    _texts.complete_docstrings(globals())
    _texts.complete_docstrings(vars(functional))
