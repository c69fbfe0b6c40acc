"""Normalization of each sample by itself, as torch.nn.modules.instancenorm."""

from __future__ import annotations

import warnings
from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.batchnorm import _LazyNormBase, _NormBase
from pyframe.tensor import Tensor

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Each channel of each sample normalized by its own mean and variance (arXiv 1607.08022);
    with `track_running_stats` by the running ones in evaluation."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) or (C, *) -> the same shape. ValueError for another number of dims, and where
        C is not num_features (a warning without weights)."""
        self._check_input_dim(input)
        alone = input.ndim == self._dims[0]
        dim = 0 if alone else 1
        if input.shape[dim] != self.num_features:
            seen = f"size {input.shape[dim]} at dim={dim}, num_features is {self.num_features}"
            if self.affine:
                raise ValueError(
                    f"{type(self).__name__}: expected input's size at dim={dim} to match "
                    f"num_features: got {seen}"
                )
            warnings.warn(
                f"{type(self).__name__}: input's size at dim={dim} does not match num_features, "
                f"which is not used because affine=False: got {seen}",
                stacklevel=3,
            )
        out = F.instance_norm(
            input.unsqueeze(0) if alone else input, self.running_mean, self.running_var,
            self.weight, self.bias, self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample of (N, C, L) or (C, L) normalized by itself
    (arXiv 1607.08022); with track_running_stats by the running statistics in evaluation."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample of (N, C, H, W) or (C, H, W) normalized by itself
    (arXiv 1607.08022); with track_running_stats by the running statistics in evaluation."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample of (N, C, D, H, W) or (C, D, H, W) normalized by itself
    (arXiv 1607.08022); with track_running_stats by the running statistics in evaluation."""

    _dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that learns num_features from its first input."""

    cls_to_become, _dims = InstanceNorm1d, (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that learns num_features from its first input."""

    cls_to_become, _dims = InstanceNorm2d, (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that learns num_features from its first input."""

    cls_to_become, _dims = InstanceNorm3d, (4, 5)
