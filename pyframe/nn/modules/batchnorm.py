"""Normalization over the batch, as torch.nn.modules.batchnorm."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from pyframe.core.dtypes import int64
from pyframe.core.modes import no_grad
from pyframe.nn import functional as F
from pyframe.nn.modules.lazy import LazyLayer
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import Affine, check_sizes, shown
from pyframe.nn.parameter import UninitializedBuffer
from pyframe.ops.random.creation import ones, zeros
from pyframe.tensor import Tensor, tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
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
        if by_batch and self._is_shared():
            return self._over_all(input, mean, var, momentum)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)

    def _is_shared(self) -> bool:
        """Whether other processes have parts of the batch."""
        return False


class BatchNorm1d(_BatchNorm):
    """Each channel of (N, C) or (N, C, L) normalized over the batch in training, by the running
    statistics otherwise (arXiv 1502.03167); momentum None makes those the mean over all batches."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of (N, C, H, W) normalized over the batch in training, by the running
    statistics otherwise (arXiv 1502.03167); momentum None makes those the mean over all batches."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of (N, C, D, H, W) normalized over the batch in training, by the running
    statistics otherwise (arXiv 1502.03167); momentum None makes those the mean over all batches."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of inputs (N, C, *), in training with the statistics of the batches of all
    processes of a group (see `pf.distributed`): of all, unless `process_group` says which."""

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

    def _over_all(self, input: Tensor, mean: Any, var: Any, momentum: Any) -> Tensor:
        """The layer with the statistics of all processes."""
        from pyframe.nn.distributed import batch_statistics

        here, spread, count = batch_statistics(input, self.process_group)
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
    """A BatchNorm1d that learns num_features from its first input."""

    cls_to_become, _dims = BatchNorm1d, (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that learns num_features from its first input."""

    cls_to_become, _dims = BatchNorm2d, (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that learns num_features from its first input."""

    cls_to_become, _dims = BatchNorm3d, (5,)
