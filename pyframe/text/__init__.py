"""Language models of published families: read from their files, trained, and writing.

>>> model = pf.text.AutoModel.from_pretrained("HuggingFaceTB/SmolLM2-135M", device="gpu")
>>> model.generate(prompt, max_new_tokens=50, do_sample=True, top_p=0.9)
"""

from __future__ import annotations

import os
from typing import Any

from pyframe.text.chat import Chat
from pyframe.text.config import Config
from pyframe.text.decoder import CausalLM
from pyframe.text.encoder import TextEncoder
from pyframe.text.generate import Cache, Sampling, Stream, Writer
from pyframe.text.loading import from_pretrained
from pyframe.text.tokenizer import Tokenizer
from pyframe.text.training import NextToken, pack

__all__ = [
    "AutoModel",
    "Cache",
    "CausalLM",
    "Chat",
    "Config",
    "NextToken",
    "Sampling",
    "Stream",
    "TextEncoder",
    "Tokenizer",
    "Writer",
    "pack",
]


class AutoModel:
    """The model that a folder holds, whatever it is."""

    @staticmethod
    def from_pretrained(
        source: str | os.PathLike[str], device: Any = None, dtype: Any = None,
        revision: str = "main", packed: bool = False,
    ) -> CausalLM | TextEncoder:  # fmt: skip
        """See `CausalLM.from_pretrained`.

        Args:
            source, device, dtype, revision, packed: as there.
        """

        def make(c: Config) -> CausalLM | TextEncoder:
            return TextEncoder(c) if c.encoder else CausalLM(c)

        return from_pretrained(make, source, device, dtype, revision, packed)
