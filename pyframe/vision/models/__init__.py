"""Models of images, with the names, options and state_dict keys of torchvision.models.

`weights=` of a builder takes what torchvision publishes (`ResNet18_Weights.DEFAULT`, or its name),
a URL with a digest, a file, or a folder with one. LeNet and UNet are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import also_named as _also_named
from pyframe.ops.api.layouts import texts as _texts
from pyframe.vision.models._api import (
    get_model as get_model,
    get_model_builder as get_model_builder,
    list_models as list_models,
)
from pyframe.vision.models.convnext import *
from pyframe.vision.models.densenet import *
from pyframe.vision.models.efficientnet import *
from pyframe.vision.models.mobilenetv2 import *
from pyframe.vision.models.mobilenetv3 import *
from pyframe.vision.models.own import *
from pyframe.vision.models.plain import *
from pyframe.vision.models.resnet import *
from pyframe.vision.models.vision_transformer import *

if TYPE_CHECKING:
    from pyframe.vision.models import segmentation as segmentation, video as video

_also_named(__name__, "plain", "alexnet squeezenet vgg")  # torchvision's names
if _texts:
    _texts.complete_docstrings(globals())


def __getattr__(name: str) -> Any:
    """What loads when it is first used: the enums of published weights, and some modules."""
    if name in ("segmentation", "video"):
        from importlib import import_module

        module = import_module(f"pyframe.vision.models.{name}")
        if _texts:
            _texts.complete_docstrings(vars(module))
        return module
    if name.endswith("_Weights") or name in ("WeightsEnum", "get_weight", "get_model_weights"):
        from pyframe.vision.models import _weights

        if name in _weights.BY_NAME:
            return _weights.BY_NAME[name]
        if not name.endswith("_Weights"):
            return getattr(_weights, name)
    raise AttributeError(f"module 'pyframe.vision.models' has no attribute {name!r}")
