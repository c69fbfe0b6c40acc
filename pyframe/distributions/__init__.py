"""Distributions with PyTorch's names: samples, densities, entropies and divergences.

`log_prob` and `rsample` have gradients; `transforms` make distributions of others, and lead to what
`constraints` say.
"""

from __future__ import annotations

import sys
from types import ModuleType

from pyframe.distributions import constraints, distribution, families, kl, transforms
from pyframe.distributions.distribution import Distribution, ExponentialFamily
from pyframe.distributions.families import *
from pyframe.distributions.kl import kl_divergence, register_kl
from pyframe.distributions.transforms import *
from pyframe.distributions.transforms import ConstraintRegistry, biject_to, transform_to

__all__ = [
    "ConstraintRegistry", "Distribution", "ExponentialFamily", "biject_to", "kl_divergence",
    "register_kl", "transform_to", *families.__all__, *transforms.__all__,
]  # fmt: skip

# PyTorch has a module for each: here these are one.
for _name in """bernoulli beta binomial categorical cauchy chi2 constraint_registry
continuous_bernoulli dirichlet exp_family exponential fishersnedecor gamma generalized_pareto
geometric gumbel half_cauchy half_normal independent inverse_gamma kumaraswamy laplace lkj_cholesky
log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial
multivariate_normal negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli
relaxed_categorical studentT transformed_distribution uniform utils von_mises weibull
wishart""".split():
    _module = sys.modules[f"{__name__}.{_name}"] = ModuleType(f"{__name__}.{_name}", __doc__)
    _found = vars(distribution) if _name == "utils" else vars(families)
    vars(_module).update({n: v for n, v in {**vars(transforms), **_found}.items() if n[0] != "_"})
    globals()[_name] = _module
