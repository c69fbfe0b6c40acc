"""Channels of groups taken in turn, as torch.nn.modules.channelshuffle."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Layer, layer
from pyframe.tensor import Tensor

__all__ = ["ChannelShuffle"]


@layer()
class ChannelShuffle(Layer):
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

    groups: int

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.channel_shuffle(input, self.groups)
