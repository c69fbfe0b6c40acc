"""Distributions with PyTorch's names: samples, densities, entropies and divergences.

`log_prob` and `rsample` have gradients; `transforms` make distributions of others, and lead to what
`constraints` say.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType

from pyframe.distributions import constraints, families, kl, transforms
from pyframe.distributions.families import *
from pyframe.distributions.kl import kl_divergence, register_kl
from pyframe.distributions.transforms import *

_names = {**vars(transforms), **vars(families), **vars(kl)}
__all__ = [
    n for n, v in _names.items()
    if getattr(v, "__module__", "").startswith(__name__) and n[0].isupper()
]  # fmt: skip
__all__ += ["biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to"]

# PyTorch has a module for each: most are called as the class is.
_words = (re.sub("(?!^)(?=[A-Z][a-z])", "_", name).lower() for name in families.__all__)
_others = """constraint_registry distribution exp_family fishersnedecor lowrank_multivariate_normal
relaxed_categorical studentT utils""".split()
for _name in [*_words, *_others]:
    _module = sys.modules[f"{__name__}.{_name}"] = ModuleType(f"{__name__}.{_name}", __doc__)
    vars(_module).update({n: v for n, v in _names.items() if n[0] != "_"})
    globals()[_name] = _module
