"""Of torchvision: what lies within a network, as its result; pyramids of maps; drawn boxes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyframe import nn
from pyframe.tensor import Tensor, from_numpy
from pyframe.vision.models._api import make_divisible as _make_divisible
from pyframe.vision.models.segmentation import IntermediateLayerGetter
from pyframe.vision.ops.misc import Conv2dNormActivation

__all__ = [
    "FeaturePyramidNetwork", "IntermediateLayerGetter", "_make_divisible",
    "create_feature_extractor", "draw_bounding_boxes", "get_graph_node_names",
]  # fmt: skip


def get_graph_node_names(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The names that `create_feature_extractor` takes, those of the modules, for training and for
    evaluation: pyframe has no names for what lies between them."""
    names = [name for name, _ in model.named_modules() if name]
    return names, list(names)


class _Extractor(nn.Module):
    """A network that gives what some of its modules give."""

    def __init__(self, model: nn.Module, wanted: Mapping[str, str]) -> None:
        super().__init__()
        self.model, self.wanted = model, dict(wanted)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The modules' results by their new names."""
        found: dict[str, Any] = {}
        modules = dict(self.model.named_modules())
        hooks = [
            modules[name].register_forward_hook(
                lambda module, args, output, name=name: found.__setitem__(name, output)
            )
            for name in self.wanted
        ]
        try:
            self.model(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        return {new: found[name] for name, new in self.wanted.items()}


def create_feature_extractor(
    model: nn.Module, return_nodes: Any = None, *args: Any, train_return_nodes: Any = None,
    eval_return_nodes: Any = None, **kwargs: Any,
) -> nn.Module:  # fmt: skip
    """A module that runs a network and gives what some of its modules give: by names of modules, or
    a dict from them to others. A name of what holds modules is that of its result. ValueError for
    a name that there is not."""
    wanted = return_nodes if return_nodes is not None else train_return_nodes
    if wanted is None or (eval_return_nodes is not None and eval_return_nodes != wanted):
        raise ValueError(
            "create_feature_extractor: give return_nodes, the same for training and evaluation"
        )
    wanted = wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
    names = get_graph_node_names(model)[0]
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(
            f"create_feature_extractor: {missing[0]!r} is no module of the network; there are "
            f"{', '.join(names[:8])}, …"
        )
    return _Extractor(model, wanted)


class FeaturePyramidNetwork(nn.Module):
    """Maps of several sizes, the finest first, each with what the coarser ones tell: a 1x1
    convolution of each, to which the next coarser one is added, enlarged, and a 3x3 one of the sum.
    `extra_blocks(results, inputs, names)` gives more of them, and the names."""

    def __init__(
        self, in_channels_list: list[int], out_channels: int, extra_blocks: Any = None,
        norm_layer: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        conv: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList(
            [Conv2dNormActivation(n, out_channels, 1, padding=0, **conv) for n in in_channels_list]
        )
        self.layer_blocks = nn.ModuleList(
            [Conv2dNormActivation(out_channels, out_channels, 3, **conv) for _ in in_channels_list]
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.extra_blocks = extra_blocks

    def forward(self, x: dict[str, Tensor]) -> OrderedDict[str, Tensor]:
        """The maps by the same names."""
        names, maps = list(x), list(x.values())
        results: list[Tensor] = []
        above: Any = None
        for i in range(len(maps) - 1, -1, -1):
            here = self.inner_blocks[i](maps[i])
            if above is not None:
                here = here + nn.functional.interpolate(above, size=here.shape[-2:])
            above = here
            results.insert(0, self.layer_blocks[i](here))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=True))


def draw_bounding_boxes(
    image: Tensor, boxes: Tensor, labels: list[str] | None = None, colors: Any = None,
    fill: bool = False, width: int = 1, font: str | None = None, font_size: int | None = None,
    label_colors: Any = None, label_background_colors: Any = None, fill_labels: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of an image of uint8 (or of floats up to 1), (3 or 1, H, W), with boxes (N, 4) of
    corners, and their labels, in colors: one for all or a list of one for each. With `fill_labels`
    labels have a background, by default of their box's color. It needs Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    floats = image.is_floating_point()
    pixels = (image * 255).byte() if floats else image
    if pixels.shape[0] == 1:
        pixels = pixels.expand(3, -1, -1)
    if (boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any():
        raise ValueError("Boxes need to be in (xmin, ymin, xmax, ymax) format")
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().cpu().numpy())
    draw = ImageDraw.Draw(picture, "RGBA" if fill else None)

    def each(given: Any, default: Any) -> list[Any]:
        found = given if isinstance(given, list) else [given] * len(boxes)
        return [default[i] if color is None else color for i, color in enumerate(found)]

    own = each(colors, ["red"] * len(boxes))
    texts, behind = each(label_colors, own), each(label_background_colors, own)
    written = None if font is None else ImageFont.truetype(font, font_size or 10)
    for i, (box, color) in enumerate(zip(boxes.long().tolist(), own, strict=True)):
        inner = None
        if fill:
            rgb = Image.new("RGB", (1, 1), color).getpixel((0, 0))
            inner = (*rgb, 100)
        draw.rectangle(box, fill=inner, outline=color, width=width)
        if labels is not None and labels[i] is not None:
            place = box[0] + width, box[1] + width
            if fill_labels:
                draw.rectangle(draw.textbbox(place, labels[i], font=written), fill=behind[i])
            draw.text(place, labels[i], fill=texts[i], font=written)
    found = from_numpy(np.array(picture)).permute(2, 0, 1)
    return found.to(image.device, image.dtype) / 255 if floats else found.to(image.device)
