"""Blocks that models of images are made of, as torchvision.ops.misc, and detectors' losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyframe.nn.functional as F
from pyframe import empty, nn, ones, zeros
from pyframe.nn.modules.fields import FieldModule, layer
from pyframe.tensor import Tensor
from pyframe.vision.ops.boxes import _complete_iou, _distance_iou, _hull, _inner_and_union, _wide

__all__ = [
    "MLP", "Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "Permute",
    "SqueezeExcitation", "StochasticDepth", "complete_box_iou_loss", "distance_box_iou_loss",
    "generalized_box_iou_loss", "sigmoid_focal_loss", "stochastic_depth",
]  # fmt: skip


Type = Callable[..., nn.Module]  # of a module: its class, or one with some arguments


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Drop a residual branch with probability p, scale it up else (arXiv 1603.09382).

    `mode` "row" decides for each example (the first dim), "batch" for all at once.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"stochastic_depth: drop probability has to be between 0 and 1, got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"stochastic_depth: mode has to be 'batch' or 'row', got {mode!r}")
    if not training or p == 0.0:
        return input
    rows = input.shape[0] if mode == "row" else 1
    kept = empty(rows, *[1] * (input.ndim - 1), dtype=input.dtype, device=input.device)
    kept = kept.bernoulli_(1 - p)
    return input * (kept / (1 - p) if p < 1 else kept)


@layer()
class StochasticDepth(FieldModule):
    """`stochastic_depth` while training."""

    p: float
    mode: str

    def forward(self, input: Tensor) -> Tensor:
        """The input, or 0 in its place."""
        return stochastic_depth(input, self.p, self.mode, self.training)


class FrozenBatchNorm2d(nn.Module):
    """BatchNorm2d whose statistics, weight and bias are buffers: nothing in it changes.

    Args:
        num_features: The number C of channels.
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", ones(num_features))
        self.register_buffer("bias", zeros(num_features))
        self.register_buffer("running_mean", zeros(num_features))
        self.register_buffer("running_var", ones(num_features))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)  # a BatchNorm2d's has it
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, C, H, W) normalized with the buffers.

        Args:
            x: (N, C, H, W).
        """
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class ConvNormActivation(nn.Sequential):
    """A convolution (without a bias if a norm follows), a norm and an activation.

    Without `padding` odd kernels keep the size. None in place of `norm_layer` or
    `activation_layer` leaves it out.

    Args:
        in_channels, out_channels: How many channels go in and come out.
        kernel_size, stride, padding, dilation, groups: The convolution's.
        norm_layer: What makes a norm of the number of channels.
        activation_layer: What makes the activation.
        inplace: Whether the activation overwrites its input; None for activations that can't.
        bias: Whether the convolution has one; None where no norm follows.
        conv_layer: The convolution's class.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1,
        padding: Any = None, groups: int = 1, norm_layer: Type | None = nn.BatchNorm2d,
        activation_layer: Type | None = nn.ReLU, dilation: Any = 1, inplace: bool | None = True,
        bias: bool | None = None, conv_layer: Type = nn.Conv2d,
    ) -> None:  # fmt: skip
        if padding is None:
            padding = _same(kernel_size, dilation)
        if bias is None:
            bias = norm_layer is None
        layers = [
            conv_layer(
                in_channels, out_channels, kernel_size, stride, padding, dilation=dilation,
                groups=groups, bias=bias,
            )
        ]  # fmt: skip
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**_inplace(inplace)))
        super().__init__(*layers)
        self.out_channels = out_channels


def _same(kernel_size: Any, dilation: Any) -> Any:
    """The padding with which an odd kernel keeps the size, in the form of its arguments."""
    dims = max(len(v) if isinstance(v, Sequence) else 0 for v in (kernel_size, dilation))
    if not dims:
        return (kernel_size - 1) // 2 * dilation
    sizes, steps = (v if isinstance(v, Sequence) else [v] * dims for v in (kernel_size, dilation))
    return tuple((k - 1) // 2 * d for k, d in zip(sizes, steps, strict=True))


def _inplace(inplace: bool | None) -> dict[str, Any]:
    return {} if inplace is None else {"inplace": inplace}


class Conv2dNormActivation(ConvNormActivation):
    """ConvNormActivation of images (N, C, H, W)."""


class Conv3dNormActivation(ConvNormActivation):
    """ConvNormActivation of volumes (N, C, D, H, W)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1,
        padding: Any = None, groups: int = 1, norm_layer: Type | None = nn.BatchNorm3d,
        activation_layer: Type | None = nn.ReLU, dilation: Any = 1, inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
            activation_layer, dilation, inplace, bias, nn.Conv3d,
        )  # fmt: skip


class SqueezeExcitation(nn.Module):
    """Channels scaled by what a small net makes of their means (arXiv 1709.01507, fig. 1).

    Args:
        input_channels: The channels C of the maps.
        squeeze_channels: The channels within the net.
        activation, scale_activation: Classes of its activations: within, and of the scales.
    """

    def __init__(
        self, input_channels: int, squeeze_channels: int, activation: Type = nn.ReLU,
        scale_activation: Type = nn.Sigmoid,
    ) -> None:  # fmt: skip
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W), each channel times its scale."""
        scale = self.fc2(self.activation(self.fc1(self.avgpool(input))))
        return self.scale_activation(scale) * input


class MLP(nn.Sequential):
    """Linear layers of `hidden_channels`, each but the last with norm, activation and dropout.

    Args:
        in_channels: The features that go in.
        norm_layer: What makes a norm of a number of features; None leaves it out.
        activation_layer: What makes an activation.
        inplace: Whether activations and dropouts overwrite their input.
        bias: Whether linear layers have one.
        dropout: The probability of a zero, in training.
    """

    def __init__(
        self, in_channels: int, hidden_channels: Sequence[int], norm_layer: Type | None = None,
        activation_layer: Type = nn.ReLU, inplace: bool | None = None, bias: bool = True,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        options = _inplace(inplace)
        layers: list[nn.Module] = []
        for hidden in hidden_channels[:-1]:
            layers.append(nn.Linear(in_channels, hidden, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(hidden))
            layers += [activation_layer(**options), nn.Dropout(dropout, **options)]
            in_channels = hidden
        layers += [
            nn.Linear(in_channels, hidden_channels[-1], bias=bias),
            nn.Dropout(dropout, **options),
        ]
        super().__init__(*layers)


@layer()
class Permute(FieldModule):
    """`permute` as a layer.

    Args:
        dims: The dims in their new order.
    """

    __shown__ = ()
    dims: Sequence[int]

    def forward(self, x: Tensor) -> Tensor:
        """x with its dims in this order.

        Args:
            x: A tensor.
        """
        return x.permute(*self.dims)


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': {reduction!r}; expected 'none', 'mean' or 'sum'"
    )


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2,
    reduction: str = "none",
) -> Tensor:  # fmt: skip
    """Binary cross entropy of logits in which what is easy counts little (arXiv 1708.02002).

    `targets` are 0 or 1, in the shape of `inputs`. `alpha` weighs the ones, 1 - alpha the zeros;
    -1 weighs nothing.

    Args:
        gamma: How little that counts: the exponent of 1 - p.
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(
            f"sigmoid_focal_loss: invalid alpha {alpha}, expected 0 to 1, or -1 for none"
        )
    p = inputs.sigmoid()
    right = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced(loss, reduction)


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the generalized IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1902.09630)."""
    a, b = _wide(boxes1), _wide(boxes2)
    inner, union = _inner_and_union(a, b)
    hull = _hull(a, b)
    area = hull[..., 0] * hull[..., 1]
    return _reduced(1 - inner / (union + eps) + (area - union) / (area + eps), reduction)


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the distance IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1911.08287)."""
    return _reduced(1 - _distance_iou(_wide(boxes1), _wide(boxes2), eps, eps)[0], reduction)


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the complete IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1911.08287)."""
    a, b = _wide(boxes1), _wide(boxes2)
    return _reduced(1 - _complete_iou(a, b, eps, *_distance_iou(a, b, eps, eps)), reduction)
