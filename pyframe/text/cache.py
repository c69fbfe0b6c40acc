"""Keys and values of the tokens that a language model has read."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.tensor import Tensor
from pyframe.text.config import Config

__all__ = ["Cache"]


class Cache:
    """The keys and values of each layer, in tensors of one length, of which tokens take slots.

    Args:
        config: of the model.
        batch: texts.
        length: slots; what writes to them goes over those alone, so that nothing is compiled again
            while a text grows.
    """

    def __init__(
        self, config: Config, batch: int, length: int, device: Any = None, dtype: Any = None
    ) -> None:
        shape = batch, config.num_key_value_heads, length, config.head_dim
        self.length = length
        self.keys, self.values = (
            [pf.zeros(shape, device=device, dtype=dtype) for _ in range(config.num_hidden_layers)]
            for _ in "kv"
        )

    def put(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put keys and values (B, heads, T, head_dim) into slots (T,); all of the layer's."""
        keys, values = self.keys[layer], self.values[layer]
        keys.index_copy_(2, slots, k)
        values.index_copy_(2, slots, v)
        return keys, values
