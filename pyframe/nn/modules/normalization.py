"""Normalization over batches, samples, features and channels."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import pyframe as pf
from pyframe.core.dtypes import int64
from pyframe.core.modes import mode, no_grad
from pyframe.nn import functional as F, init
from pyframe.nn.modules.fields import OneInput, layer
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import Affine, LazyLayer, add_parameters, as_int, check_sizes, shown
from pyframe.nn.parameter import UninitializedBuffer
from pyframe.ops.random.creation import ones, zeros
from pyframe.tensor import Tensor, tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
    "LocalResponseNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Affine):
    """What layers share that normalize channels and may keep running statistics of them."""

    _version = 2  # from here on num_batches_tracked is saved
    _dims: ClassVar[tuple[int, ...]]  # how many dims an input may have

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._add_affine(num_features, affine, bias, device, dtype)
        kw = {"device": device, "dtype": dtype}
        kept = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **kw) if kept else None)
        self.register_buffer("running_var", ones(num_features, **kw) if kept else None)
        count = tensor(0, dtype=int64, device=device) if kept else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics from the start."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._dims:
            expected = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(
                f"{type(self).__name__}: expected {expected} input (got {input.ndim}D input)"
            )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        if local_metadata.get("version") in (None, 1) and self.track_running_stats:
            state_dict.setdefault(f"{prefix}num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def extra_repr(self) -> str:
        names = ("eps", "momentum", "affine", "bias", "track_running_stats")
        return f"{self.num_features}, {shown(self, *names)}"


@contextlib.contextmanager
def shared_statistics() -> Iterator[None]:
    """Within it a BatchNorm in training takes the statistics of the batches of all processes, as
    SyncBatchNorm does."""
    before, mode.shared_statistics = mode.shared_statistics, True
    try:
        yield
    finally:
        mode.shared_statistics = before


class _BatchNorm(_NormBase):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel of (N, C, *), with statistics
    of the batch in training, which move the running ones; else with those (arXiv 1502.03167).

    `momentum` None makes the running statistics the plain mean over all batches.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. ValueError for a number of dims that the layer is not for."""
        self._check_input_dim(input)
        training, mean, var = self.training, self.running_mean, self.running_var
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if training and self.track_running_stats:
            count = self.num_batches_tracked
            if count is not None:
                count.add_(1)
                if self.momentum is None and mean is not None:
                    momentum = 1 / count.to(mean.dtype)  # on the device: nothing is read
        elif training:
            mean = var = None
        by_batch = training or (mean is None and var is None)
        if by_batch and (mode.shared_statistics or self._is_shared()):
            return self._over_all(input, mean, var, momentum)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)

    def _is_shared(self) -> bool:
        """Whether other processes have parts of the batch."""
        return False

    def _over_all(self, input: Tensor, mean: Any, var: Any, momentum: Any) -> Tensor:
        """The layer with the statistics of all processes."""
        from pyframe.nn.distributed import batch_statistics

        here, spread, count = batch_statistics(input, getattr(self, "process_group", None))
        with no_grad():
            unbiased = spread * (count / (count - 1))
            for running, value in ((mean, here), (var, unbiased)):
                if running is not None:
                    running.copy_(running * (1 - momentum) + value * momentum)
        row = (1, -1, *[1] * (input.ndim - 2))
        scale = (spread + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight
        out = (input - here.reshape(row)) * scale.reshape(row)
        out = out if self.bias is None else out + self.bias.reshape(row)
        return out.to(input.dtype)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L). Formula, arguments and attributes are
    BatchNorm2d's.

    >>> nn.BatchNorm1d(3)(pf.randn(20, 3)).shape
    pyframe.Size([20, 3])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization: (x - mean) / √(var + eps) * weight + bias for each channel of
    (N, C, H, W) (arXiv 1502.03167). The shape stays.

    In training, mean and variance are the batch's own, and the running statistics move towards
    them: running = (1 - momentum) * running + momentum * the batch's. In evaluation they are the
    running ones.

    Args:
        num_features: the number C of channels.
        eps: added to the variance, so that no division is by 0.
        momentum: how far the running statistics move in a step, from 0 to 1; None makes them the
            mean over all batches.
        affine: whether there is a weight and a bias.
        track_running_stats: whether there are running statistics; without them evaluation takes the
            batch's too.
        bias: whether there is a bias beside the weight.

    Attributes:
        weight, bias: (C,), at first ones and zeros; None without them.
        running_mean, running_var: buffers (C,), at first zeros and ones.
        num_batches_tracked: how many batches training has seen.

    Raises:
        ValueError: when called with another number of dims, or in training with one value a
            channel.

    >>> layer = nn.BatchNorm2d(3)
    >>> layer(pf.ones(2, 3, 4, 4)).shape, layer.running_mean
    (pyframe.Size([2, 3, 4, 4]), tensor([0.1000, 0.1000, 0.1000]))
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W). Formula, arguments and attributes are BatchNorm2d's.

    >>> nn.BatchNorm3d(3)(pf.randn(2, 3, 4, 4, 4)).shape
    pyframe.Size([2, 3, 4, 4, 4])
    """

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of (N, C, *) with the statistics of the batches of several processes, as
    `pf.distributed` has them. In one process, and in evaluation, it is BatchNorm2d for any number
    of dims. Arguments and attributes are BatchNorm2d's.

    Args:
        process_group: whose batches count; None for those of all processes.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    >>> nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"SyncBatchNorm: expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm: number of input channels should be non-zero")

    def _is_shared(self) -> bool:
        found = sys.modules.get("pyframe.distributed")  # which nobody loads who has one process
        if found is None or not found.is_initialized():
            return False
        return found.get_world_size(self.process_group) > 1

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with each BatchNorm in it (or itself) as a SyncBatchNorm of the same state."""
        out = module
        if isinstance(module, _BatchNorm):
            out = SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            out._parameters.update(module._parameters)
            out._buffers.update(module._buffers)
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


# --- with num_features taken from the first input


class _LazyNormBase(LazyLayer, _NormBase):
    """A layer that learns num_features from its first input."""

    _learned = "num_features"

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, bias=False)
        dtype = check_sizes(self, dtype)
        kw = {"device": device, "dtype": dtype}
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._wait(device, dtype, bias)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kw)
            self.running_var = UninitializedBuffer(**kw)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes for inputs (N, num_features, *)."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            self._materialize((self.num_features,), self.num_features)
        elif self.num_features == 0:  # the statistics or the weight were loaded
            self.num_features = input.shape[1]


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that learns num_features from its first input, and is a BatchNorm1d from then
    on. Arguments are BatchNorm1d's, without `num_features`.

    >>> layer = nn.LazyBatchNorm1d()
    >>> layer(pf.randn(2, 4, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 10]), 4)
    """

    cls_to_become, _dims = BatchNorm1d, (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that learns num_features from its first input, and is a BatchNorm2d from then
    on. Arguments are BatchNorm2d's, without `num_features`.

    >>> layer = nn.LazyBatchNorm2d()
    >>> layer(pf.randn(2, 4, 10, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 10, 10]), 4)
    """

    cls_to_become, _dims = BatchNorm2d, (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that learns num_features from its first input, and is a BatchNorm3d from then
    on. Arguments are BatchNorm3d's, without `num_features`.

    >>> layer = nn.LazyBatchNorm3d()
    >>> layer(pf.randn(2, 4, 4, 10, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 4, 10, 10]), 4)
    """

    cls_to_become, _dims = BatchNorm3d, (5,)


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
    """Instance normalization of (N, C, L) or (C, L). Formula, arguments and attributes are
    InstanceNorm2d's.

    >>> nn.InstanceNorm1d(3)(pf.randn(2, 3, 8)).shape
    pyframe.Size([2, 3, 8])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization: (x - mean) / √(var + eps) for each channel of each sample of
    (N, C, H, W) or (C, H, W), by its own mean and variance (arXiv 1607.08022). The shape stays.

    Args:
        num_features: the number C of channels.
        eps: added to the variance, so that no division is by 0.
        momentum: how far running statistics move in a step, from 0 to 1.
        affine: whether there is a weight and a bias for each channel, after that.
        track_running_stats: whether there are running statistics, which evaluation takes.
        bias: whether there is a bias beside the weight.

    Attributes:
        weight, bias: (C,), at first ones and zeros; None unless `affine`.
        running_mean, running_var: buffers (C,), at first zeros and ones; None unless
            `track_running_stats`.

    Raises:
        ValueError: when called with another number of dims, with one element of space, or, if
            `affine`, with other channels.

    >>> nn.InstanceNorm2d(3)(pf.randn(2, 3, 8, 8)).shape
    pyframe.Size([2, 3, 8, 8])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W). Formula, arguments and attributes
    are InstanceNorm2d's.

    >>> nn.InstanceNorm3d(3)(pf.randn(2, 3, 4, 4, 4)).shape
    pyframe.Size([2, 3, 4, 4, 4])
    """

    _dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that learns num_features from its first input, and is an InstanceNorm1d
    from then on. Arguments are InstanceNorm1d's, without `num_features`.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> layer(pf.randn(2, 4, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 10]), 4)
    """

    cls_to_become, _dims = InstanceNorm1d, (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that learns num_features from its first input, and is an InstanceNorm2d
    from then on. Arguments are InstanceNorm2d's, without `num_features`.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> layer(pf.randn(2, 4, 10, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 10, 10]), 4)
    """

    cls_to_become, _dims = InstanceNorm2d, (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that learns num_features from its first input, and is an InstanceNorm3d
    from then on. Arguments are InstanceNorm3d's, without `num_features`.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> layer(pf.randn(2, 4, 4, 10, 10)).shape, layer.num_features
    (pyframe.Size([2, 4, 4, 10, 10]), 4)
    """

    cls_to_become, _dims = InstanceNorm3d, (4, 5)


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    many = hasattr(normalized_shape, "__iter__")
    return tuple(normalized_shape) if many else (normalized_shape,)


class LayerNorm(Affine):
    """Layer normalization: (x - mean) / √(var + eps) * weight + bias, with mean and variance over
    the last dims of each sample (arXiv 1607.06450). The shape stays.

    Args:
        normalized_shape: the sizes of those dims, an int for the last one alone.
        eps: added to the variance, so that no division is by 0.
        elementwise_affine: whether there is a weight and a bias.
        bias: whether there is a bias beside the weight.

    Attributes:
        weight, bias: of normalized_shape, at first ones and zeros; None without them.

    Raises:
        RuntimeError: when called with other last dims.

    >>> nn.LayerNorm(4)(pf.tensor([1.0, 1.0, 3.0, 3.0]))
    tensor([-1.0000, -1.0000,  1.0000,  1.0000], grad_fn=<AddBackward0>)
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        dtype = check_sizes(self, dtype, normalized_shape=self.normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._add_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine", "bias")


class RMSNorm(Module):
    """Normalization by the root mean square: x / √(mean(x²) + eps) * weight over the last dims
    (arXiv 1910.07467). The shape stays.

    Args:
        normalized_shape: the sizes of those dims, an int for the last one alone.
        eps: added to the mean square; None for the machine epsilon of the dtype.
        elementwise_affine: whether there is a weight.

    Attributes:
        weight: of normalized_shape, at first ones; None without it.

    >>> nn.RMSNorm(2)(pf.tensor([3.0, 3.0]))
    tensor([1., 1.], grad_fn=<MulBackward0>)
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        dtype = check_sizes(self, dtype, normalized_shape=self.normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = self.normalized_shape if elementwise_affine else None
        add_parameters(self, device, dtype, weight=weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape.

        Args:
            x: (*, *normalized_shape).
        """
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine")


class GroupNorm(Affine):
    """Group normalization: (x - mean) / √(var + eps) * weight + bias, with mean and variance over
    each group of channels of each sample of (N, C, *) (arXiv 1803.08494). The shape stays.

    Args:
        num_groups: into how many groups the channels are divided; 1 takes all of them together.
        num_channels: the number C of channels.
        eps: added to the variance, so that no division is by 0.
        affine: whether there is a weight and a bias for each channel.
        bias: whether there is a bias beside the weight.

    Attributes:
        weight, bias: (C,), at first ones and zeros; None without them.

    Raises:
        ValueError: `num_groups` doesn't divide `num_channels`.

    >>> nn.GroupNorm(3, 6)(pf.randn(20, 6, 10, 10)).shape
    pyframe.Size([20, 6, 10, 10])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, num_channels=num_channels)
        if as_int(self, "num_groups", num_groups) <= 0 or num_channels % num_groups:
            raise (ValueError if num_groups else ZeroDivisionError)(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups "
                f"({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._add_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, " + shown(self, "eps", "affine", "bias")


@layer()
class _LRN(OneInput):
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, " + shown(self, "alpha", "beta", "k")


@layer(F.local_response_norm)
class LocalResponseNorm(_LRN):
    """Normalization by neighbouring channels of (N, C, L, *): x / (k + alpha * m)^beta, m being the
    mean of x² over `size` channels around each, zeros beyond the ends. The shape stays. Of AlexNet
    (Krizhevsky et al. 2012).

    Args:
        size: how many channels a window has.
        alpha, beta, k: the numbers of the formula.

    Raises:
        ValueError: when called with fewer than 3 dims.

    >>> nn.LocalResponseNorm(2)(pf.randn(32, 5, 24, 24)).shape
    pyframe.Size([32, 5, 24, 24])
    """


@layer()
class CrossMapLRN2d(_LRN):
    """LocalResponseNorm as PyTorch's first layer of this kind has it: (N, C, H, W), and the shape
    stays.

    Its windows reach (size - 1) // 2 channels to both sides, and those that begin behind the first
    channel contain that one too; the gradient is that of the result. Arguments are
    LocalResponseNorm's.

    >>> nn.CrossMapLRN2d(3)(pf.randn(1, 5, 4, 4)).shape
    pyframe.Size([1, 5, 4, 4])
    """

    k: float = 1

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. ValueError unless it has 4 dims."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead")
        n, c, h, w = input.shape
        reach = (self.size - 1) // 2
        squares = input * input
        padded = F.pad(squares.reshape(n, 1, c, h * w), (0, 0, reach, reach))
        width = 2 * reach + 1
        near = F.avg_pool2d(padded, (width, 1), 1).reshape(n, c, h, w) * width
        if c > reach + 1:
            behind = near[:, reach + 1 :] + squares[:, :1]
            near = pf.cat([near[:, : reach + 1], behind], 1)
        return input / (self.k + near * (self.alpha / self.size)) ** self.beta
