"""Language models of published families: read from their files, trained, and writing.

>>> model = pf.text.CausalLM.from_pretrained("SmolLM2-135M", device="gpu")
>>> model.generate(prompt, max_new_tokens=50, do_sample=True, top_p=0.9)
"""

from pyframe.text.cache import Cache
from pyframe.text.config import Config
from pyframe.text.decoder import CausalLM
from pyframe.text.generate import Sampling, Stream

__all__ = ["Cache", "CausalLM", "Config", "Sampling", "Stream"]
