"""Channels of groups taken in turn, as torch.nn.modules.channelshuffle."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import shown
from pyframe.tensor import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return shown(self, "groups")
