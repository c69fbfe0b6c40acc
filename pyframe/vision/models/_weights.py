"""The weights that torchvision publishes: their names, files, and what they were trained to see."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyframe as pf
from pyframe import hub, nn
from pyframe.io import load
from pyframe.tensor import Tensor
from pyframe.vision.transforms import functional as F
from pyframe.vision.transforms.functional import InterpolationMode


class ImageClassification(nn.Module):
    """The smaller side resized, the middle cut out, and channels normalized: a PIL image or a
    tensor (..., 3, H, W) becomes (..., 3, crop_size, crop_size) of float32."""

    def __init__(
        self, *, crop_size: int, resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = [*mean], [*std]
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        """See the class."""
        img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img, pf.float32), self.mean, self.std)

    def __repr__(self) -> str:
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        lines = "".join(f"\n    {name}={getattr(self, name)}" for name in names)
        return f"{type(self).__name__}({lines}\n)"


_SITE = "https://download.pytorch.org/models/"
_SWAG = "https://github.com/facebookresearch/SWAG/blob/main/LICENSE"  # not for commercial use
_SUFFIXES = (".safetensors", ".pth", ".pt")
# The enum, the weights (* its default), the file, sizes that images are cropped and resized to and
# how, accuracies on ImageNet-1K, and the mean and standard deviation where they are not its own.
_TABLE = """
AlexNet IMAGENET1K_V1* alexnet-owt-7be5be79 224 256 bilinear 56.522 79.066
ConvNeXt_Base IMAGENET1K_V1* convnext_base-6075fbad 224 232 bilinear 84.062 96.87
ConvNeXt_Large IMAGENET1K_V1* convnext_large-ea097f82 224 232 bilinear 84.414 96.976
ConvNeXt_Small IMAGENET1K_V1* convnext_small-0c510722 224 230 bilinear 83.616 96.65
ConvNeXt_Tiny IMAGENET1K_V1* convnext_tiny-983f1562 224 236 bilinear 82.52 96.146
DenseNet121 IMAGENET1K_V1* densenet121-a639ec97 224 256 bilinear 74.434 91.972
DenseNet161 IMAGENET1K_V1* densenet161-8d451a50 224 256 bilinear 77.138 93.56
DenseNet169 IMAGENET1K_V1* densenet169-b2777c0a 224 256 bilinear 75.6 92.806
DenseNet201 IMAGENET1K_V1* densenet201-c1103571 224 256 bilinear 76.896 93.37
EfficientNet_B0 IMAGENET1K_V1* efficientnet_b0_rwightman-7f5810bc 224 256 bicubic 77.692 93.532
EfficientNet_B1 IMAGENET1K_V1 efficientnet_b1_rwightman-bac287d4 240 256 bicubic 78.642 94.186
EfficientNet_B1 IMAGENET1K_V2* efficientnet_b1-c27df63c 240 255 bilinear 79.838 94.934
EfficientNet_B2 IMAGENET1K_V1* efficientnet_b2_rwightman-c35c1473 288 288 bicubic 80.608 95.31
EfficientNet_B3 IMAGENET1K_V1* efficientnet_b3_rwightman-b3899882 300 320 bicubic 82.008 96.054
EfficientNet_B4 IMAGENET1K_V1* efficientnet_b4_rwightman-23ab8bcd 380 384 bicubic 83.384 96.594
EfficientNet_B5 IMAGENET1K_V1* efficientnet_b5_lukemelas-1a07897c 456 456 bicubic 83.444 96.628
EfficientNet_B6 IMAGENET1K_V1* efficientnet_b6_lukemelas-24a108a5 528 528 bicubic 84.008 96.916
EfficientNet_B7 IMAGENET1K_V1* efficientnet_b7_lukemelas-c5b4e57e 600 600 bicubic 84.122 96.908
EfficientNet_V2_L IMAGENET1K_V1* efficientnet_v2_l-59c71312 480 480 bicubic 85.808 97.788 0.5
EfficientNet_V2_M IMAGENET1K_V1* efficientnet_v2_m-dc08266a 480 480 bilinear 85.112 97.156
EfficientNet_V2_S IMAGENET1K_V1* efficientnet_v2_s-dd5fe13b 384 384 bilinear 84.228 96.878
MobileNet_V2 IMAGENET1K_V1 mobilenet_v2-b0353104 224 256 bilinear 71.878 90.286
MobileNet_V2 IMAGENET1K_V2* mobilenet_v2-7ebf99e0 224 232 bilinear 72.154 90.822
MobileNet_V3_Large IMAGENET1K_V1 mobilenet_v3_large-8738ca79 224 256 bilinear 74.042 91.34
MobileNet_V3_Large IMAGENET1K_V2* mobilenet_v3_large-5c1a4163 224 232 bilinear 75.274 92.566
MobileNet_V3_Small IMAGENET1K_V1* mobilenet_v3_small-047dcff4 224 256 bilinear 67.668 87.402
ResNet101 IMAGENET1K_V1 resnet101-63fe2227 224 256 bilinear 77.374 93.546
ResNet101 IMAGENET1K_V2* resnet101-cd907fc2 224 232 bilinear 81.886 95.78
ResNet152 IMAGENET1K_V1 resnet152-394f9c45 224 256 bilinear 78.312 94.046
ResNet152 IMAGENET1K_V2* resnet152-f82ba261 224 232 bilinear 82.284 96.002
ResNet18 IMAGENET1K_V1* resnet18-f37072fd 224 256 bilinear 69.758 89.078
ResNet34 IMAGENET1K_V1* resnet34-b627a593 224 256 bilinear 73.314 91.42
ResNet50 IMAGENET1K_V1 resnet50-0676ba61 224 256 bilinear 76.13 92.862
ResNet50 IMAGENET1K_V2* resnet50-11ad3fa6 224 232 bilinear 80.858 95.434
ResNeXt101_32X8D IMAGENET1K_V1 resnext101_32x8d-8ba56ff5 224 256 bilinear 79.312 94.526
ResNeXt101_32X8D IMAGENET1K_V2* resnext101_32x8d-110c445d 224 232 bilinear 82.834 96.228
ResNeXt101_64X4D IMAGENET1K_V1* resnext101_64x4d-173b62eb 224 232 bilinear 83.246 96.454
ResNeXt50_32X4D IMAGENET1K_V1 resnext50_32x4d-7cdf4587 224 256 bilinear 77.618 93.698
ResNeXt50_32X4D IMAGENET1K_V2* resnext50_32x4d-1a0047aa 224 232 bilinear 81.198 95.34
SqueezeNet1_0 IMAGENET1K_V1* squeezenet1_0-b66bff10 224 256 bilinear 58.092 80.42
SqueezeNet1_1 IMAGENET1K_V1* squeezenet1_1-b8a52dc0 224 256 bilinear 58.178 80.624
VGG11 IMAGENET1K_V1* vgg11-8a719046 224 256 bilinear 69.02 88.628
VGG11_BN IMAGENET1K_V1* vgg11_bn-6002323d 224 256 bilinear 70.37 89.81
VGG13 IMAGENET1K_V1* vgg13-19584684 224 256 bilinear 69.928 89.246
VGG13_BN IMAGENET1K_V1* vgg13_bn-abd245e5 224 256 bilinear 71.586 90.374
VGG16 IMAGENET1K_V1* vgg16-397923af 224 256 bilinear 71.592 90.382
VGG16_BN IMAGENET1K_V1* vgg16_bn-6c64b313 224 256 bilinear 73.36 91.516
VGG19 IMAGENET1K_V1* vgg19-dcbb9e9d 224 256 bilinear 72.376 90.876
VGG19_BN IMAGENET1K_V1* vgg19_bn-c79401a0 224 256 bilinear 74.218 91.842
ViT_B_16 IMAGENET1K_V1* vit_b_16-c867db91 224 256 bilinear 81.072 95.318
ViT_B_16 IMAGENET1K_SWAG_E2E_V1 vit_b_16_swag-9ac1b537 384 384 bicubic 85.304 97.65
ViT_B_16 IMAGENET1K_SWAG_LINEAR_V1 vit_b_16_lc_swag-4e70ced5 224 224 bicubic 81.886 96.18
ViT_B_32 IMAGENET1K_V1* vit_b_32-d86f8d99 224 256 bilinear 75.912 92.466
ViT_H_14 IMAGENET1K_SWAG_E2E_V1* vit_h_14_swag-80465313 518 518 bicubic 88.552 98.694
ViT_H_14 IMAGENET1K_SWAG_LINEAR_V1 vit_h_14_lc_swag-c1eb923e 224 224 bicubic 85.708 97.73
ViT_L_16 IMAGENET1K_V1* vit_l_16-852ce7e3 224 242 bilinear 79.662 94.638
ViT_L_16 IMAGENET1K_SWAG_E2E_V1 vit_l_16_swag-4f3808c9 512 512 bicubic 88.064 98.512
ViT_L_16 IMAGENET1K_SWAG_LINEAR_V1 vit_l_16_lc_swag-4d563306 224 224 bicubic 85.146 97.422
ViT_L_32 IMAGENET1K_V1* vit_l_32-c7638314 224 256 bilinear 76.972 93.07
Wide_ResNet101_2 IMAGENET1K_V1 wide_resnet101_2-32ee1156 224 256 bilinear 78.848 94.284
Wide_ResNet101_2 IMAGENET1K_V2* wide_resnet101_2-d733dc28 224 232 bilinear 82.51 96.02
Wide_ResNet50_2 IMAGENET1K_V1 wide_resnet50_2-95faca4d 224 256 bilinear 78.468 94.086
Wide_ResNet50_2 IMAGENET1K_V2* wide_resnet50_2-9ba9bcbe 224 232 bilinear 81.602 95.758
"""


class Weights(NamedTuple):
    """What a member of a `WeightsEnum` stands for."""

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any]


class WeightsEnum(Enum):
    """Weights of one model by their names, as torchvision has them.

    Each has `url`, `meta` (accuracies; not the names of the 1000 classes, which a program brings)
    and `transforms()`, which makes a model's input of an image.
    """

    @property
    def url(self) -> str:
        """Where the file is."""
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        """Makes the transform that the weights were evaluated with."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """What is known about them."""
        return self.value.meta

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """See `hub.load_state_dict_from_url`."""
        return hub.load_state_dict_from_url(self.url, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (type(self), self.name)


def _preset(**options: Any) -> Any:
    options["interpolation"] = InterpolationMode(options["interpolation"])
    return ImageClassification(**options)


def _enums() -> dict[str, type[WeightsEnum]]:
    """The enums by the lowercase names of their models."""
    members: dict[str, list[tuple[str, Weights]]] = {}
    for line in _TABLE.strip().splitlines():
        model, name, file, crop, resize, mode, first, fifth, *center = line.split()
        options: dict[str, Any] = {"crop_size": int(crop), "resize_size": int(resize)}
        if center:
            options["mean"] = options["std"] = (float(center[0]),) * 3
        accuracy = {"acc@1": float(first), "acc@5": float(fifth)}
        meta: dict[str, Any] = {"_metrics": {"ImageNet-1K": accuracy}}
        if "SWAG" in name:
            meta["license"] = _SWAG
        transforms = partial(_preset, **options, interpolation=mode)
        published = Weights(f"{_SITE}{file}.pth", transforms, meta)
        of_model = members.setdefault(model, [])
        of_model.append((name.rstrip("*"), published))
        if name.endswith("*"):
            of_model.append(("DEFAULT", published))  # another name of the same member
    make: Any = WeightsEnum
    return {
        model.lower(): make(f"{model}_Weights", some, module="pyframe.vision.models")
        for model, some in members.items()
    }


ENUMS = _enums()
BY_NAME = {enum.__name__: enum for enum in ENUMS.values()}


def get_model_weights(name: str | Callable[..., Any]) -> type[WeightsEnum]:
    """The weights that are published for a model, by its name or builder."""
    key = name if isinstance(name, str) else name.__name__
    if key.lower() not in ENUMS:
        raise ValueError(f"{key}: no weights are published for it; give those of a file")
    return ENUMS[key.lower()]


def get_weight(name: str) -> WeightsEnum:
    """The weights that "ResNet50_Weights.IMAGENET1K_V2" names."""
    enum, _, member = name.partition(".")
    if enum not in BY_NAME or not member:
        raise ValueError(f"get_weight: expected such as 'ResNet18_Weights.DEFAULT', got {name!r}")
    return _member(BY_NAME[enum], member)


def _member(enum: type[WeightsEnum], name: str) -> WeightsEnum:
    if name not in enum.__members__:
        known = ", ".join(enum.__members__)
        raise ValueError(f"{enum.__name__}: no weights are called {name!r}; there are {known}")
    return enum[name]


def find(model: str, weights: Any) -> WeightsEnum | str | Path:
    """What `weights=` of a builder means: published ones, a URL, or a file that is there.

    ValueError for what is none of them, or for another model's.
    """
    if isinstance(weights, WeightsEnum):
        if type(weights) is not ENUMS.get(model):
            raise ValueError(f"{model}: {weights!r} are the weights of another model")
        return weights
    if not isinstance(weights, (str, os.PathLike)):
        raise TypeError(
            f"{model}: weights= takes a file, a folder, a URL, such as ResNet18_Weights.DEFAULT "
            f"or its name, got {type(weights).__name__}"
        )
    text = os.fspath(weights)
    if "://" in text:
        return text
    if Path(text).is_dir():
        return _in_folder(model, Path(text))
    if Path(text).is_file():
        return Path(text)
    enum, _, member = text.rpartition(".")
    if enum in BY_NAME:
        return find(model, get_weight(text))
    if not enum and text.isupper() and model in ENUMS:
        return _member(ENUMS[model], member)
    raise ValueError(f"{model}: weights={text!r} is no file or folder, and no weights' name")


def _in_folder(model: str, folder: Path) -> Path:
    """The one file of weights in a folder, or the one whose name begins with the model's."""
    files = [p for p in sorted(folder.iterdir()) if p.suffix in _SUFFIXES]
    named = [p for p in files if fnmatch.fnmatch(p.stem, f"{model}-*") or p.stem == model]
    found = named or files
    if len(found) != 1:
        seen = ", ".join(p.name for p in found) or "none"
        raise ValueError(
            f"{model}: {folder} has no one file of its weights ({', '.join(_SUFFIXES)}): {seen}; "
            "say which"
        )
    return found[0]


def state_of(source: WeightsEnum | str | Path, progress: bool) -> tuple[Any, str]:
    """The state_dict behind what `find` gave, and what to call it in an error."""
    if isinstance(source, Path):
        return load(source), str(source)
    url, told = hub.split_digest(source.url if isinstance(source, WeightsEnum) else source)
    name = url.partition("?")[0].rpartition("/")[2]
    if not (told or hub.digest_in(name)):
        raise ValueError(
            f"weights={url!r} has no digest: a file is called NAME-0123abcd.pth, by how its "
            "SHA-256 begins, or the address ends in #sha256=0123abcd…"
        )
    return load(hub.fetch(url, None, progress, True, sha256=told)), url
