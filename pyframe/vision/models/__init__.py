"""Models of images, with the names, options and state_dict keys of torchvision.models.

No weights are hosted: a model is built with weights=None, and a state_dict of a file, that of
torchvision too, is loaded with `model.load_state_dict(pf.load("FILE"))`. LeNet and UNet are added.
"""

from __future__ import annotations

from typing import Any

from pyframe.vision.models._api import Weights, get_model, get_model_builder, list_models
from pyframe.vision.models.alexnet import AlexNet, alexnet
from pyframe.vision.models.convnext import (
    ConvNeXt,
    convnext_base,
    convnext_large,
    convnext_small,
    convnext_tiny,
)
from pyframe.vision.models.densenet import (
    DenseNet,
    densenet121,
    densenet161,
    densenet169,
    densenet201,
)
from pyframe.vision.models.efficientnet import (
    EfficientNet,
    efficientnet_b0,
    efficientnet_b1,
    efficientnet_b2,
    efficientnet_b3,
    efficientnet_b4,
    efficientnet_b5,
    efficientnet_b6,
    efficientnet_b7,
    efficientnet_v2_l,
    efficientnet_v2_m,
    efficientnet_v2_s,
)
from pyframe.vision.models.lenet import LeNet, lenet
from pyframe.vision.models.mobilenetv2 import MobileNetV2, mobilenet_v2
from pyframe.vision.models.mobilenetv3 import (
    MobileNetV3,
    mobilenet_v3_large,
    mobilenet_v3_small,
)
from pyframe.vision.models.resnet import (
    ResNet,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
    resnext50_32x4d,
    resnext101_32x8d,
    resnext101_64x4d,
    wide_resnet50_2,
    wide_resnet101_2,
)
from pyframe.vision.models.squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from pyframe.vision.models.unet import UNet, unet
from pyframe.vision.models.vgg import (
    VGG,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)
from pyframe.vision.models.vision_transformer import (
    VisionTransformer,
    vit_b_16,
    vit_b_32,
    vit_h_14,
    vit_l_16,
    vit_l_32,
)

__all__ = [
    "VGG",
    "AlexNet",
    "ConvNeXt",
    "DenseNet",
    "EfficientNet",
    "LeNet",
    "MobileNetV2",
    "MobileNetV3",
    "ResNet",
    "SqueezeNet",
    "UNet",
    "VisionTransformer",
    "alexnet",
    "convnext_base",
    "convnext_large",
    "convnext_small",
    "convnext_tiny",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_b3",
    "efficientnet_b4",
    "efficientnet_b5",
    "efficientnet_b6",
    "efficientnet_b7",
    "efficientnet_v2_l",
    "efficientnet_v2_m",
    "efficientnet_v2_s",
    "get_model",
    "get_model_builder",
    "lenet",
    "list_models",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "squeezenet1_0",
    "squeezenet1_1",
    "unet",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
    "wide_resnet50_2",
    "wide_resnet101_2",
]


def __getattr__(name: str) -> Any:
    """The enums of torchvision's weights, as names."""
    if name.endswith("_Weights"):
        return Weights(name)
    raise AttributeError(f"module 'pyframe.vision.models' has no attribute {name!r}")
