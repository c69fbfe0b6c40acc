"""Weight norm, spectral norm and orthogonal matrices, as torch.nn.utils.parametrizations."""

from __future__ import annotations

from typing import Any, TypeVar

import pyframe as pf
from pyframe.core.modes import no_grad
from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.nn.utils.parametrize import register_parametrization
from pyframe.nn.utils.weight_hooks import matrix_of, output_dim
from pyframe.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def _tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(
            f"{type(module).__name__} has no parameter or buffer with name {name!r}, got "
            f"{type(found).__name__}"
        )
    return found


# --- orthogonal matrices


def _is_orthogonal(Q: Tensor) -> bool:
    n, k = Q.shape[-2:]
    one = pf.eye(k, dtype=Q.dtype, device=Q.device)
    return pf.allclose(Q.mH @ Q, one, atol=10.0 * n * pf.finfo(Q.dtype).eps)


def _make_orthogonal(A: Tensor) -> Tensor:
    """Q of A's QR decomposition with a positive diagonal of R, where A is of full rank."""
    X, tau = pf.geqrf(A)
    Q = pf.linalg.householder_product(X, tau)
    return Q * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, how: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and how == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, how
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """(…, n, k) -> orthogonal columns if n >= k, else orthogonal rows."""
        transposed = X.size(-2) < X.size(-1)
        if transposed:
            X = X.mT
        n, k = X.size(-2), X.size(-1)
        if self.orthogonal_map == "householder":
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = pf.linalg.householder_product(A, tau)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:  # the columns that are missing are 0
                X = pf.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], -1)
            A = X - X.mH  # skew-symmetric
            if self.orthogonal_map == "matrix_exp":
                Q = pf.matrix_exp(A)
            else:  # Cayley: (I - A/2)^-1 (I + A/2)
                one = pf.eye(n, dtype=A.dtype, device=A.device)
                Q = pf.linalg.solve(one - A / 2, one + A / 2)
            if n != k:
                Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What gives Q, or the orthogonal matrix next to it. ValueError for another shape."""
        if Q.shape != self.shape:
            raise ValueError(
                f"orthogonal: expected a matrix or batch of matrices of shape {list(self.shape)}, "
                f"got {list(Q.shape)}"
            )
        like = Q
        transposed = Q.size(-2) < Q.size(-1)
        if transposed:
            Q = Q.mT
        n, k = Q.size(-2), Q.size(-1)
        if hasattr(self, "base"):
            if n == k:
                Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
            else:  # a square one that begins with these columns
                more = pf.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
                Q = _make_orthogonal(pf.cat([Q, more], -1))
            self.base = Q
            return -pf.eye(*like.shape[-2:], dtype=Q.dtype, device=Q.device).expand(like.shape)
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "orthogonal: it is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False"
            )
        # Q is a product of Householder reflections, with a diagonal of signs that geqrf does not
        # keep: R's is that of the signs, and the reflection with tau = 0 is none
        A, tau = pf.geqrf(Q)
        signs = A.diagonal(dim1=-2, dim2=-1)
        signs.copy_(pf.where(tau == 0, -signs.sign(), signs.sign()))
        return A.mT if transposed else A


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> M:  # fmt: skip
    """Keep a matrix (or batch) orthogonal: its columns if it has at least as many rows, else its
    rows; unitary if complex.

    `orthogonal_map` is "matrix_exp", "cayley" or "householder" (of a matrix that is not square);
    `use_trivialization` (arXiv 1909.09501) starts at the matrix, and lets it be set.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"orthogonal: expected a matrix or batch of matrices, got a tensor of {weight.ndim} "
            "dimensions"
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f"orthogonal: orthogonal_map has to be one of {MAPS}, got {orthogonal_map!r}"
        )
    orth = _Orthogonal(weight, orthogonal_map, use_trivialization)
    register_parametrization(module, name, orth, unsafe=True)
    return module


# --- norms


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """g v / |v|."""
        return weight_v * (weight_g / pf.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(|w|, w)."""
        return pf.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """w = g v / |v|, where |v| has a number for each index along `dim`, or one (arXiv 1602.07868).

    The state_dict of the former hook `nn.utils.weight_norm` can be loaded too.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        dim: The dim of the outputs, for which there is a norm each; one for the whole tensor if
            None.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """The keys of the former hook."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"spectral_norm: dim {dim} is out of range for a tensor of {ndim} dims; expected "
                f"one in [{-ndim}, {ndim - 1}]"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: expected n_power_iterations to be positive, got "
                f"{n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = matrix_of(weight.detach(), self.dim)
            for key, n in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(n).normal_()
                self.register_buffer(key, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, rounds: int) -> None:
        """Let u and v come nearer to the singular vectors of the largest singular value."""
        for _ in range(rounds):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """weight / its largest singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # backward needs them as they are now
        return weight / pf.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value: it may be assumed to have norm 1."""
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> M:  # fmt: skip
    """w / (its largest singular value, by the power method), as a matrix with rows along `dim`
    (arXiv 1802.05957). The power method goes on at each use in training mode.

    Args:
        module: The module that has the tensor.
        name: The tensor's name in it.
        n_power_iterations: How many steps of the power method each use in training mode takes.
        eps: What keeps from dividing by 0.
        dim: The dim of the outputs; 1 for transposed convolutions and 0 for others by default.
    """
    weight = _tensor_of(module, name)
    norm = _SpectralNorm(
        weight, n_power_iterations, output_dim(module) if dim is None else dim, eps
    )
    register_parametrization(module, name, norm)
    return module
