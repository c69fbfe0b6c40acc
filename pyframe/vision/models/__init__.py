"""Models of images, with the names, options and state_dict keys of torchvision.models.

No weights are hosted: a model is built with weights=None, and a state_dict of a file, that of
torchvision too, is loaded with `model.load_state_dict(pf.load("FILE"))`. LeNet and UNet are added.
"""

from __future__ import annotations

from typing import Any

from pyframe.vision.models._api import (
    Weights as _Weights,
    get_model as get_model,
    get_model_builder as get_model_builder,
    list_models as list_models,
)
from pyframe.vision.models.alexnet import *
from pyframe.vision.models.convnext import *
from pyframe.vision.models.densenet import *
from pyframe.vision.models.efficientnet import *
from pyframe.vision.models.lenet import *
from pyframe.vision.models.mobilenetv2 import *
from pyframe.vision.models.mobilenetv3 import *
from pyframe.vision.models.resnet import *
from pyframe.vision.models.squeezenet import *
from pyframe.vision.models.unet import *
from pyframe.vision.models.vgg import *
from pyframe.vision.models.vision_transformer import *


def __getattr__(name: str) -> Any:
    """The enums of torchvision's weights, as names."""
    if name.endswith("_Weights"):
        return _Weights(name)
    raise AttributeError(f"module 'pyframe.vision.models' has no attribute {name!r}")
