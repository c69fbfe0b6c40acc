"""Channels of groups taken in turn, as torch.nn.modules.channelshuffle."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import OneInput, layer

__all__ = ["ChannelShuffle"]


@layer(F.channel_shuffle)
class ChannelShuffle(OneInput):
    """Channels of (N, C, *), `groups` groups of them, taken from each group in turn."""

    groups: int
