"""How weights start: torch.nn.init. Drawn on the host, so equal seeds give equal bits anywhere."""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

from pyframe import special
from pyframe.core.dtypes import float64
from pyframe.core.modes import no_grad
from pyframe.ops.api import check
from pyframe.ops.linalg.spectral import qr
from pyframe.ops.random.creation import empty, eye as identity, zeros
from pyframe.ops.random.draws import drawn
from pyframe.tensor import Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip


class _InitValues(threading.local):
    skipped = False  # nn.utils.skip_init makes a layer whose values don't matter


values = _InitValues()

_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3,
    "relu": math.sqrt(2), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a weight's standard deviation must grow for the variance to stay as it is
    through a nonlinearity: 1 for linear maps, convolutions and 'sigmoid', 5 / 3 for 'tanh', √2 for
    'relu', √(2 / (1 + slope²)) for 'leaky_relu', 3 / 4 for 'selu'.

    Args:
        nonlinearity: The name that it has in nn.functional.
        param: The slope of 'leaky_relu' below 0; 0.01 by default.

    Raises:
        ValueError: the name is not one of these, or the slope is not a number.

    >>> round(nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if not isinstance(slope, (int, float)) or isinstance(slope, bool):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity}; expected leaky_relu or {', '.join(_GAINS)}"
        )
    return _GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """(inputs, outputs) of each element of a weight (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got "
            f"shape {list(tensor.shape)}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]


_calculate_fan_in_and_fan_out, _calculate_correct_fan = fans, _fan  # as programs call them


def _empty(tensor: Tensor) -> bool:
    if tensor.numel():
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor from the uniform distribution U(a, b).

    Args:
        tensor: The tensor to fill; it is returned, too.
        a, b: The bounds: numbers lie in [a, b).
        generator: The `Generator` to draw from; the CPU's default one by default.

    >>> nn.init.uniform_(pf.empty(3, 5), -1.0, 1.0).shape
    pyframe.Size([3, 5])
    """
    if values.skipped or tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a tensor from the normal distribution N(mean, std²).

    Args:
        tensor: The tensor to fill; it is returned, too.
        mean: The mean.
        std: The standard deviation.
        generator: The `Generator` to draw from; the CPU's default one by default.

    >>> nn.init.normal_(pf.empty(3, 5), std=0.02).shape
    pyframe.Size([3, 5])
    """
    if values.skipped or tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fills a tensor from N(mean, std²) truncated to [a, b]: uniform numbers go through the inverse
    of that distribution's cumulative function.

    Args:
        tensor: The tensor to fill; it is returned, too.
        mean: The mean of the normal distribution.
        std: Its standard deviation.
        a, b: The bounds themselves, not multiples of `std`.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        RuntimeError: a > b.

    >>> bool(nn.init.trunc_normal_(pf.empty(3, 5), std=2.0, a=-1.0, b=1.0).abs().max() <= 1)
    True
    """
    check.floats_or_complex("trunc_normal_", tensor)
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    if a > b:
        raise RuntimeError(f"trunc_normal_ expects a <= b, got a={a} and b={b}")
    if tensor.is_meta or drawn(generator, "truncated", None, tensor, mean, std, a, b):
        return tensor
    low, high = (a - mean) / std, (b - mean) / std
    sign = 1.0
    if low > 0:  # near 1 the function has no digits left: take the other tail
        low, high, sign = -high, -low, -1.0
    p, q = (math.erfc(-x / math.sqrt(2)) / 2 for x in (low, high))
    found = empty(tensor.numel(), dtype=tensor.dtype, device="cpu")
    with no_grad():
        for part in found.split(2**16):  # small enough for a core's cache
            u = empty(len(part), dtype=float64, device="cpu").uniform_(generator=generator)
            u.add_(2**-25).mul_(q - p).add_(p)  # in the middle of each step of u
            z = special.ndtri(u).mul_(sign * std).add_(mean).clamp_(a, b)
            part.copy_(z).clamp_(a, b)
        return tensor.copy_(found.view(tensor.shape))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor with one number.

    Args:
        tensor: The tensor to fill; it is returned, too.
        val: That number.

    >>> nn.init.constant_(pf.empty(3), 0.5)
    tensor([0.5000, 0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros.

    Args:
        tensor: The tensor to fill; it is returned, too.

    >>> nn.init.zeros_(pf.empty(3))
    tensor([0., 0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones.

    Args:
        tensor: The tensor to fill; it is returned, too.

    >>> nn.init.ones_(pf.empty(3))
    tensor([1., 1., 1.])
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Makes a matrix the identity: tensor[i, j] is 1 where i = j, else 0.

    Args:
        tensor: The matrix to fill, square or not; it is returned, too.

    Raises:
        ValueError: it doesn't have 2 dims.

    >>> nn.init.eye_(pf.empty(2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    _expect_dims("eye_", tensor, (2,))
    with no_grad():
        return tensor.copy_(identity(*tensor.shape, device="cpu"))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills a convolution's weight so that it passes channels on as they are: output channel i of
    each group has a 1 in the middle of the kernel of input channel i, all else is 0.

    Args:
        tensor: A weight (out, in, *kernel) of 3 to 5 dims; it is returned, too.
        groups: How many groups of output channels there are, as the convolution's.

    Raises:
        ValueError: it doesn't have 3 to 5 dims, or `groups` doesn't divide dim 0.

    >>> nn.init.dirac_(pf.empty(2, 2, 3)).tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    _expect_dims("dirac_", tensor, (3, 4, 5))
    out, given = tensor.shape[:2]
    if out % groups:
        raise ValueError(
            f"dirac_: dim 0 must be divisible by groups, got shape {list(tensor.shape)} and "
            f"groups={groups}"
        )
    middle = tuple(n // 2 for n in tensor.shape[2:])
    value = zeros(tensor.shape, device="cpu")
    for group in range(groups):
        for i in range(min(out // groups, given)):
            value[(group * (out // groups) + i, i, *middle)] = 1
    with no_grad():
        return tensor.copy_(value)


def _expect_dims(name: str, tensor: Tensor, dims: tuple[int, ...]) -> None:
    if tensor.ndim not in dims:
        raise ValueError(
            f"{name}: Only tensors with {', '.join(map(str, dims))} dimensions are supported, got "
            f"shape {list(tensor.shape)}"
        )


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fills a tensor, as the matrix (first dim, all others), with `gain` times a random one whose
    rows, or columns if there are fewer of them, are orthonormal (Saxe et al. 2013, arXiv
    1312.6120).

    Args:
        tensor: The tensor to fill; it is returned, too.
        gain: The factor; see calculate_gain.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it has fewer than 2 dims.

    >>> w = nn.init.orthogonal_(pf.empty(2, 3))
    >>> bool((w @ w.T - pf.eye(2)).abs().max() < 1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(
            "orthogonal_: Only tensors with 2 or more dimensions are supported, got shape "
            f"{list(tensor.shape)}"
        )
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    with no_grad():
        drawn = empty(rows, tensor.numel() // rows, dtype=tensor.dtype, device="cpu")
        drawn.normal_(generator=generator)
        wide = rows < drawn.shape[1]
        q, r = qr(drawn.T if wide else drawn)
        q = q * r.diagonal().sign()  # of uniform distribution (Mezzadri, math-ph/0609050)
        return tensor.copy_((q.T if wide else q).reshape(tensor.shape) * gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a matrix from N(0, std²), and sets a random share of each column to 0 (Martens 2010).

    Args:
        tensor: The tensor to fill; it is returned, too.
        sparsity: That share, from 0 to 1; the number of zeros is rounded up.
        std: The standard deviation of the others.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it doesn't have 2 dims.

    >>> (nn.init.sparse_(pf.empty(10, 3), sparsity=0.3) == 0).sum(0)
    tensor([3, 3, 3])
    """
    _expect_dims("sparse_", tensor, (2,))
    n = math.ceil(sparsity * tensor.shape[0])
    with no_grad():
        value = empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        value.normal_(0, std, generator=generator)
        order = empty(tensor.shape, device="cpu").uniform_(generator=generator).argsort(0)
        return tensor.copy_(value.masked_fill(order < n, 0))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a weight from U(-k, k), k = gain * √(6 / (fan_in + fan_out)), so that variances neither
    grow nor shrink on the way forward and back (Glorot & Bengio 2010).

    Args:
        tensor: A weight (out, in, *kernel), which is returned, too; fan_in is in * prod(kernel),
            fan_out is out * prod(kernel).
        gain: The factor for the nonlinearity that follows; see calculate_gain.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it has fewer than 2 dims.

    >>> bool(nn.init.xavier_uniform_(pf.empty(2, 4)).abs().max() <= 1)
    True
    """
    a = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -a, a, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills a weight from N(0, gain² * 2 / (fan_in + fan_out)), as xavier_uniform_ from a uniform
    distribution (Glorot & Bengio 2010).

    Args:
        tensor: A weight (out, in, *kernel), which is returned, too; fan_in is in * prod(kernel),
            fan_out is out * prod(kernel).
        gain: The factor for the nonlinearity that follows; see calculate_gain.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it has fewer than 2 dims.

    >>> nn.init.xavier_normal_(pf.empty(2, 4)).shape
    pyframe.Size([2, 4])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fills a weight from U(-k, k), k = gain * √(3 / fan), so that variances neither grow nor
    shrink where rectifiers follow (He et al. 2015, arXiv 1502.01852). gain is calculate_gain's, of
    `nonlinearity` and `a`.

    Args:
        tensor: A weight (out, in, *kernel), which is returned, too; fan_in is in * prod(kernel),
            fan_out is out * prod(kernel).
        a: The slope below 0, if `nonlinearity` is 'leaky_relu'.
        mode: 'fan_in' keeps the variance on the way forward, 'fan_out' on the way back.
        nonlinearity: The name of what follows, as calculate_gain knows it.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it has fewer than 2 dims, or a name is unknown.

    >>> bool(nn.init.kaiming_uniform_(pf.empty(2, 6), nonlinearity="relu").abs().max() <= 1)
    True
    """
    if _empty(tensor):
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Fills a weight from N(0, gain² / fan), as kaiming_uniform_ from a uniform distribution (He et
    al. 2015, arXiv 1502.01852).

    Args:
        tensor: A weight (out, in, *kernel), which is returned, too; fan_in is in * prod(kernel),
            fan_out is out * prod(kernel).
        a: The slope below 0, if `nonlinearity` is 'leaky_relu'.
        mode: 'fan_in' keeps the variance on the way forward, 'fan_out' on the way back.
        nonlinearity: The name of what follows, as calculate_gain knows it.
        generator: The `Generator` to draw from; the CPU's default one by default.

    Raises:
        ValueError: it has fewer than 2 dims, or a name is unknown.

    >>> nn.init.kaiming_normal_(pf.empty(2, 6), mode="fan_out").shape
    pyframe.Size([2, 6])
    """
    if _empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def _old(name: str) -> Callable[..., Tensor]:
    """A function under the name that it had before all of them ended in an underscore."""
    new = globals()[f"{name}_"]

    @functools.wraps(new)
    def old(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.",
            FutureWarning,
            stacklevel=2,
        )
        found: Tensor = new(*args, **kwargs)
        return found

    old.__name__ = name
    return old


uniform, normal, constant, eye = map(_old, ("uniform", "normal", "constant", "eye"))
dirac, orthogonal, sparse = map(_old, ("dirac", "orthogonal", "sparse"))
xavier_uniform, xavier_normal = map(_old, ("xavier_uniform", "xavier_normal"))
kaiming_uniform, kaiming_normal = map(_old, ("kaiming_uniform", "kaiming_normal"))
