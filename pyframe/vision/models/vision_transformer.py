"""Vision transformer (arXiv 2010.11929), as torchvision.models.vision_transformer."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pyframe.nn.functional as F
from pyframe import cat, empty, nn, zeros
from pyframe.nn import init
from pyframe.tensor import Tensor
from pyframe.vision.models._api import builder
from pyframe.vision.ops.misc import MLP, Conv2dNormActivation, Type

__all__ = ["VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"]

_layer_norm = partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """A convolution of those that may take the place of the patches."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Type = nn.BatchNorm2d
    activation_layer: Type = nn.ReLU


class MLPBlock(MLP):
    """Two linear layers with GELU between."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, dropout=dropout)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                init.xavier_uniform_(m.weight)
                init.normal_(m.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for i in range(2):  # the names that files made before 2022 have
            for name in ("weight", "bias"):
                old = f"{prefix}linear_{i + 1}.{name}"
                if old in state_dict:
                    state_dict[f"{prefix}{3 * i}.{name}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, *args)


class EncoderBlock(nn.Module):
    """Attention and an MLP, each after a norm and with its input beside."""

    def __init__(
        self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float,
        attention_dropout: float, norm_layer: Type = _layer_norm,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(N, L, hidden_dim) to the same shape."""
        x = self.ln_1(input)
        x = self.dropout(self.self_attention(x, x, x, need_weights=False)[0]) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Learned positions, blocks, a norm."""

    def __init__(
        self, seq_length: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int,
        dropout: float, attention_dropout: float, norm_layer: Type = _layer_norm,
    ) -> None:  # fmt: skip
        super().__init__()
        positions = init.normal_(empty(1, seq_length, hidden_dim), std=0.02)
        self.pos_embedding = nn.Parameter(positions)
        self.dropout = nn.Dropout(dropout)
        options = num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{i}", EncoderBlock(*options)) for i in range(num_layers))
        )
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        """(N, seq_length, hidden_dim) to the same shape."""
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """A transformer on the patches of images (N, 3, image_size, image_size).

    `representation_size` puts a layer before the last one, `conv_stem_configs` convolutions in the
    place of the patches.

    Args:
        image_size, patch_size: Pixels of a side; AssertionError unless one is a multiple of the
            other.
        num_layers, num_heads: How many of them the encoder has.
        hidden_dim, mlp_dim: The width of a patch, and within the MLPs.
        dropout, attention_dropout: The probability of a zero, and of one among attention's weights.
        norm_layer: What makes a norm of a number of features.
    """

    def __init__(
        self, image_size: int, patch_size: int, num_layers: int, num_heads: int, hidden_dim: int,
        mlp_dim: int, dropout: float = 0.0, attention_dropout: float = 0.0, num_classes: int = 1000,
        representation_size: int | None = None, norm_layer: Type = _layer_norm,
        conv_stem_configs: Sequence[ConvStemConfig] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if image_size % patch_size:
            raise AssertionError(
                f"VisionTransformer: image_size {image_size} is not a multiple of patch_size "
                f"{patch_size}"
            )
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.mlp_dim = mlp_dim
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.num_classes = num_classes
        self.representation_size = representation_size
        self.norm_layer = norm_layer
        self.conv_proj: nn.Module = (
            nn.Conv2d(3, hidden_dim, patch_size, patch_size)
            if conv_stem_configs is None
            else _stem(conv_stem_configs, hidden_dim)
        )
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout,
            attention_dropout, norm_layer,
        )  # fmt: skip
        heads: OrderedDict[str, nn.Module] = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"] = nn.Linear(hidden_dim, representation_size)
            heads["act"] = nn.Tanh()
            _start(heads["pre_logits"], hidden_dim)
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        init.zeros_(heads["head"].weight)
        init.zeros_(heads["head"].bias)
        self.heads = nn.Sequential(heads)
        if conv_stem_configs is None:
            _start(self.conv_proj, 3 * patch_size**2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, num_classes) of images `x`."""
        size = self.image_size
        if tuple(x.shape[2:]) != (size, size):
            raise AssertionError(
                f"VisionTransformer: Wrong image size! Expected (N, 3, {size}, {size}) but got "
                f"{list(x.shape)}"
            )
        x = self.conv_proj(x).flatten(2).permute(0, 2, 1)  # (N, patches, hidden_dim)
        x = cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])


def _start(layer: Any, fan_in: int) -> None:
    init.trunc_normal_(layer.weight, std=math.sqrt(1 / fan_in))
    init.zeros_(layer.bias)


def _stem(configs: Sequence[ConvStemConfig], hidden_dim: int) -> nn.Sequential:
    stem, before = nn.Sequential(), 3
    for i, (after, kernel, stride, norm, activation) in enumerate(configs):
        conv = Conv2dNormActivation(
            before, after, kernel, stride, norm_layer=norm, activation_layer=activation
        )
        stem.add_module(f"conv_bn_relu_{i}", conv)
        before = after
    last = nn.Conv2d(before, hidden_dim, 1)
    init.normal_(last.weight, std=math.sqrt(2 / hidden_dim))
    init.zeros_(last.bias)
    stem.add_module("conv_last", last)
    return stem


def interpolate_embeddings(
    image_size: int, patch_size: int, model_state: OrderedDict[str, Tensor],
    interpolation_mode: str = "bicubic", reset_heads: bool = False,
) -> OrderedDict[str, Tensor]:  # fmt: skip
    """A state_dict whose positions fit another image size; `reset_heads` leaves the heads out.

    ValueError for positions that are none of a square image.
    """
    positions = model_state["encoder.pos_embedding"]
    n, length, hidden = positions.shape
    old, new = math.isqrt(length - 1), image_size // patch_size
    if n != 1 or old * old != length - 1:
        raise ValueError(
            "interpolate_embeddings: expected positions (1, side * side + 1, hidden_dim), got "
            f"{list(positions.shape)}"
        )
    if old == new:
        return model_state
    patches = positions[:, 1:].permute(0, 2, 1).reshape(1, hidden, old, old)
    patches = F.interpolate(patches, size=new, mode=interpolation_mode, align_corners=True)
    patches = patches.reshape(1, hidden, new * new).permute(0, 2, 1)
    model_state["encoder.pos_embedding"] = cat([positions[:, :1], patches], 1)
    if reset_heads:
        return OrderedDict((k, v) for k, v in model_state.items() if not k.startswith("heads"))
    return model_state


def _vit(patch: int, layers: int, heads: int, hidden: int, mlp: int, **options: Any) -> Any:
    size = options.pop("image_size")
    return VisionTransformer(size, patch, layers, heads, hidden, mlp, **options)


vit_b_16 = builder("vit_b_16", _vit, 16, 12, 12, 768, 3072, image_size=224)
vit_b_32 = builder("vit_b_32", _vit, 32, 12, 12, 768, 3072, image_size=224)
vit_l_16 = builder("vit_l_16", _vit, 16, 24, 16, 1024, 4096, image_size=224)
vit_l_32 = builder("vit_l_32", _vit, 32, 24, 16, 1024, 4096, image_size=224)
vit_h_14 = builder("vit_h_14", _vit, 14, 32, 16, 1280, 5120, image_size=224)
