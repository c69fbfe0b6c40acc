"""Networks that say what each pixel shows: FCN (arXiv 1411.4038) and DeepLabV3 (1706.05587).

As torchvision.models.segmentation, on ResNets whose last two stages keep the size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from pyframe import cat, nn
from pyframe.nn import functional as F
from pyframe.tensor import Tensor
from pyframe.vision.models import resnet
from pyframe.vision.models._api import filled

__all__ = [
    "FCN", "DeepLabV3", "deeplabv3_resnet50", "deeplabv3_resnet101", "fcn_resnet50",
    "fcn_resnet101",
]  # fmt: skip


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of a network, one after another up to the last that is wanted; the results of
    those in `return_layers`, a dict from their names to others, are what it gives."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if missing := [name for name in return_layers if name not in children]:
            raise ValueError(
                f"IntermediateLayerGetter: there is no child {missing[0]!r}; there are "
                f"{', '.join(children)}"
            )
        last = max(list(children).index(name) for name in return_layers)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = {str(k): str(v) for k, v in return_layers.items()}

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        """The results by their new names."""
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def _conv(inner: int, outer: int, size: int = 1, rate: int = 1) -> list[nn.Module]:
    pad = rate if size == 3 else 0
    conv = nn.Conv2d(inner, outer, size, padding=pad, dilation=rate, bias=False)
    return [conv, nn.BatchNorm2d(outer), nn.ReLU()]


class FCNHead(nn.Sequential):
    """A 3x3 convolution to a quarter of the channels, and a 1x1 one to the classes."""

    def __init__(self, in_channels: int, channels: int) -> None:
        few = in_channels // 4
        super().__init__(*_conv(in_channels, few, 3), nn.Dropout(0.1), nn.Conv2d(few, channels, 1))


class ASPPConv(nn.Sequential):
    """A 3x3 convolution whose taps lie `dilation` apart."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(*_conv(in_channels, out_channels, 3, dilation))


class ASPPPooling(nn.Sequential):
    """The mean of the whole map, through a 1x1 convolution, at each place."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), *_conv(in_channels, out_channels))

    def forward(self, x: Tensor) -> Tensor:
        """(N, out_channels, H, W)."""
        return F.interpolate(
            super().forward(x), size=x.shape[-2:], mode="bilinear", align_corners=False
        )


class ASPP(nn.Module):
    """What is seen around a place at several distances, put together by a 1x1 convolution.

    Args:
        atrous_rates: the distances, as dilations of 3x3 convolutions.
    """

    def __init__(
        self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(*_conv(in_channels, out_channels))]
        parts += [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        self.convs = nn.ModuleList([*parts, ASPPPooling(in_channels, out_channels)])
        wide = len(self.convs) * out_channels
        self.project = nn.Sequential(*_conv(wide, out_channels), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        """(N, out_channels, H, W)."""
        return self.project(cat([conv(x) for conv in self.convs], dim=1))


class DeepLabHead(nn.Sequential):
    """ASPP, a 3x3 convolution, and a 1x1 one to the classes."""

    def __init__(
        self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)
    ) -> None:
        super().__init__(
            ASPP(in_channels, atrous_rates), *_conv(256, 256, 3), nn.Conv2d(256, num_classes, 1)
        )


class FCN(nn.Module):
    """A backbone that gives maps "out" and maybe "aux", and a head for each.

    Args:
        backbone: a module that gives a dict of maps.
        classifier: the head of "out".
        aux_classifier: the head of "aux", an earlier map, whose loss helps training.
    """

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone, self.classifier = backbone, classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        """Logits (N, num_classes, H, W) of images `x`: "out", and "aux" where there is a head."""
        maps = self.backbone(x)
        heads = {"out": self.classifier, "aux": self.aux_classifier}
        return OrderedDict(
            (name, F.interpolate(
                head(maps[name]), size=x.shape[-2:], mode="bilinear", align_corners=False
            ))
            for name, head in heads.items() if head is not None
        )  # fmt: skip


class DeepLabV3(FCN):
    """The same with a `DeepLabHead`."""


def _builder(name: str, make: type[FCN], head: Callable[..., nn.Module]) -> Callable[..., FCN]:
    def build(
        *, weights: Any = None, progress: bool = True, num_classes: int = 21,
        aux_loss: bool = False, weights_backbone: Any = "IMAGENET1K_V1", **options: Any,
    ) -> FCN:  # fmt: skip
        known = None if weights is not None else weights_backbone
        net = getattr(resnet, name.rpartition("_")[2])(
            known, progress, replace_stride_with_dilation=[False, True, True], **options
        )
        wanted = {"layer4": "out"} | ({"layer3": "aux"} if aux_loss else {})
        aux = FCNHead(1024, num_classes) if aux_loss else None
        model = make(IntermediateLayerGetter(net, wanted), head(2048, num_classes), aux)
        return filled(model, name, weights, progress)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{make.__name__} on {name.rpartition('_')[2]}. `weights` is a file, a folder with one, or "
        "a URL with a digest; without, the backbone's are fetched.\n\nArgs:\n"
        "    progress: Whether a bar shows how far the download is.\n"
        "    num_classes: How many things a pixel may be.\n"
        "    aux_loss: Whether there is a second head, on the stage before the last.\n"
        "    weights_backbone: Those of the ResNet, as its builder takes them; None for none.\n"
        "    options: Those of ResNet."
    )
    return build


deeplabv3_resnet50 = _builder("deeplabv3_resnet50", DeepLabV3, DeepLabHead)
deeplabv3_resnet101 = _builder("deeplabv3_resnet101", DeepLabV3, DeepLabHead)
fcn_resnet50 = _builder("fcn_resnet50", FCN, FCNHead)
fcn_resnet101 = _builder("fcn_resnet101", FCN, FCNHead)
