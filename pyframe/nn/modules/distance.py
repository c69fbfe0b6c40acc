"""Distances, as torch.nn.modules.distance."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Layer, layer
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """||x1 - x2 + eps||_p over the last dim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D) and (*, D) -> (*), or (*, 1) with keepdim."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@layer()
class CosineSimilarity(Layer):
    """The cosine of the angle between two tensors over a dim, norms no less than eps."""

    dim: int = 1
    eps: float = 1e-8
    __shown__ = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Shapes that broadcast, D in `dim` -> their shape without it."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
