"""Distributions, transforms and constraints have PyTorch's values, shapes, gradients and errors."""

from __future__ import annotations

import importlib
import math
import pickle
import pkgutil
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import distributions as D

RNG = np.random.default_rng(0)
A, B = RNG.random((2, 3, 4)) * 0.8 + 0.1
L = np.tril(RNG.random((3, 4, 4)) * 0.4, -1) + np.eye(4) * (1 + A[:, :1, None])
V, SPLIT = L @ L.swapaxes(-1, -2), A / A.sum(-1, keepdims=True)
BITS, COUNTS = (A > 0.4) * 1.0, np.floor(A * 5)
CLASSES, HOT, FIFTHS = np.array([3.0, 0.0, 1.0]), np.eye(4)[[3, 0, 1]], np.full((3, 5), 0.2)
CORR = np.linalg.cholesky(np.array([[1, 0.3, 0.1], [0.3, 1, -0.2], [0.1, -0.2, 1]]))

# How it is made, of a and b from 0.1 to 0.9, and of L; a value; what is not compared, or not drawn
ROWS = """
TransformedDistribution(Normal(a, b), [ExpTransform(), AffineTransform(1, -b)]) | 1 - B
MixtureSameFamily(Categorical(a[0, :3]), Independent(Normal(a, b), 1)) | B | draws
TransformedDistribution(Normal(a, b), StickBreakingTransform().inv.inv) | FIFTHS ; Laplace(a, b) | B
relaxed_categorical.ExpRelaxedCategorical(b[0, 0], a) | np.log(SPLIT) ; Multinomial(20, a) | COUNTS
relaxed_bernoulli.LogitRelaxedBernoulli(b[0, 0], a) | B | has_rsample ; ContinuousBernoulli(a) | B
RelaxedOneHotCategorical(b[0, 0], logits=a) | SPLIT ; LogisticNormal(a[..., :3], b[..., :3]) | SPLIT
VonMises(a, 4 * b) | B | variance | log_prob | draws ; Dirichlet(a - a.detach() + 1) | SPLIT | mode
MultivariateNormal(a, precision_matrix=(L @ L.mT)[0]) | B ; Categorical(logits=a) | CLASSES | draws
MixtureSameFamily(Categorical(a), Normal(a, b)) | CLASSES ; GeneralizedPareto(a, b, -0.5) | A + 0.01
Wishart(4.5, precision_matrix=(L @ L.mT)[0]) | V ; LowRankMultivariateNormal(a, L[..., :2], b) | B
Wishart(a[:, 0] + 5, scale_tril=L) | V | perplexity ; GeneralizedPareto(a, b, b) | A + 0.5 | draws
OneHotCategoricalStraightThrough(logits=a) | HOT ; RelaxedBernoulli(b[0, 0], logits=a) | B
ContinuousBernoulli(logits=a / 500) | B ; MultivariateNormal(a[0], L @ L.mT) | B ; HalfNormal(a) | B
Uniform(a, a + b) | A + 0.05 | mode ; MultivariateNormal(a, scale_tril=L) | B ; LogNormal(a, b) | B
FisherSnedecor(a + 2, b + 4) | B | draws ; StudentT(a + 6, a, b) | B | dmean ; Weibull(a, b + 1) | B
InverseGamma(4 * a, b) | B | dcdf | draws ; Kumaraswamy(a + 1, b + 1) | B | mode ; Normal(a, b) | B
Beta(3 * a + 1, 2 * b + 1) | B ; NegativeBinomial(3.5, logits=a) | COUNTS ; Chi2(4 * a) | B | dcdf
GeneralizedPareto(a, b, 0.0) | A + 0.5 ; Independent(Normal(a, b), 1) | B ; Cauchy(a, b) | B | draws
StudentT(5 * a, a, b) | B | draws ; NegativeBinomial(3, a) | COUNTS ; Binomial(5, logits=a) | COUNTS
Pareto(a, 3 * b) | A + 0.5 | draws ; Categorical(a) | CLASSES | draws ; OneHotCategorical(a) | HOT
Bernoulli(logits=a) | BITS ; Gamma(a + 2, b) | B | dcdf ; Gamma(a, b) | B | dcdf ; Gumbel(a, b) | B
HalfCauchy(a) | B | draws ; Poisson(9 * a) | COUNTS ; Dirichlet(a + 0.9) | SPLIT
Binomial(5, a) | COUNTS ; LKJCholesky(3, a) | CORR ; Bernoulli(a) | BITS ; Geometric(a) | COUNTS
Exponential(a) | B ; Beta(a, b) | B | mode
"""
TRANSFORMS = """
ExpTransform() | A - 0.5 ; PowerTransform(b) | A ; PowerTransform(-2.0) | A ; AbsTransform() | A
SigmoidTransform() | A - 0.5 ; SoftplusTransform() | A - 0.5 ; TanhTransform() | A - 0.5
AffineTransform(a, -b) | A ; AffineTransform(1, -2.0, 1) | A ; ReshapeTransform((4,), (2, 2)) | A
IndependentTransform(ExpTransform(), 1) | A ; SoftmaxTransform() | SPLIT ; identity_transform | A
StickBreakingTransform() | A ; CorrCholeskyTransform() | A[:, :3] ; LowerCholeskyTransform() | L
PositiveDefiniteTransform() | L ; CatTransform([ExpTransform(), SigmoidTransform()], -1, [3, 1]) | A
ComposeTransform([SigmoidTransform(), StickBreakingTransform(), ExpTransform()]) | A
ComposeTransform([AffineTransform(a, b), TanhTransform()]).inv.inv | A
StackTransform([ExpTransform(), TanhTransform(), AffineTransform(1, 2)]) | A
StackTransform([AbsTransform(), TanhTransform().inv], -1) | A[:, :2]
CatTransform([IndependentTransform(ExpTransform(), 1), SoftmaxTransform()], 0, [2, 1]) | SPLIT
CumulativeDistributionTransform(Laplace(a, b)) | A
"""
CONSTRAINTS = [n for n, c in vars(D.constraints).items() if "check" in dir(type(c))]
CONSTRAINTS += """greater_than(0.2) greater_than_eq(0.3) less_than(0.4) interval(0.1,0.5)
half_open_interval(0,2) integer_interval(0,2) independent(positive,1) cat([positive,real],0,[1,2])
multinomial(9) stack([positive,real,less_than(0)]) MixtureSameFamilyConstraint(positive)""".split()
WRONG = """
Normal(0.0, -1.0) ; Normal(a, -b) ; Bernoulli(0.5, 0.5) ; Categorical(a - 0.5) ; Normal(0.0)
LKJCholesky(1) ; MultivariateNormal(a) ; MultivariateNormal(a, L @ L.mT - 9) ; Multinomial(a, a)
Wishart(a[:, 0], scale_tril=L) ; Normal("a", 1.0) ; Normal(a, b[:, :3]) ; Poisson(-a)
TransformedDistribution(Normal(a, b), 1) ; Normal(a, b).log_prob(1.0) ; Exponential(a).log_prob(-b)
Normal(a, b).log_prob(a[:, :3]) ; MixtureSameFamily(Categorical(a[:, :3]), Normal(a, b))
Uniform(0 * a, b).cdf(b + 1) ; Poisson(a).rsample() ; Cauchy(a, b).log_prob(a / 0 * 0)
transforms.ExpTransform(2) ; Independent(Bernoulli(a), 1).enumerate_support() ; Distribution().mean
biject_to(constraints.square) ; biject_to.register(3, 4) ; kl_divergence(Normal(a, b), Poisson(a))
Binomial(9 * a - 9 * a % 1, a).entropy() ; utils.vec_to_tril_matrix(a)
CorrCholeskyTransform().forward_shape((2,)) ; CatTransform([ExpTransform()], 0, [1, 2])
"""


def rows(table: str) -> list[str]:
    return [row.strip() for line in table.strip().splitlines() for row in line.split(" ; ")]


def made(t: Any, row: str, **more: Any) -> tuple[Any, list[Any]]:
    leaves = [t.tensor(x.tolist(), dtype=t.float64).requires_grad_() for x in (A, B, L)]
    names = {**vars(t.distributions), **dict(zip("abL", leaves, strict=True)), **more}
    return eval(row, names), leaves


def tried(*asked: Any) -> Any:
    for ask in asked:
        try:
            yield ask()
        except (ValueError, RuntimeError, NotImplementedError, IndexError, AttributeError):
            yield "refused"


def told(t: Any, row: str, value: Any, without: list[str]) -> tuple[list[Any], list[Any]]:
    p, leaves = made(t, row)
    x = t.tensor(value.tolist(), dtype=t.float64)
    shapes = [p.has_rsample or "has_rsample" in without, str(p.support).split("(")[0]]
    given = {"log_prob": (x,), "cdf": (x,), "icdf": (x * 0 + 0.3,)}

    def part(name: str) -> Any:
        found = getattr(p, name)
        return found(*given.get(name, ())) if callable(found) else found

    asked = {*"mean mode variance stddev entropy perplexity enumerate_support".split(), *given}
    asked -= {*without}
    found = tried(*(lambda n=n: (n, part(n)) for n in asked))
    numbers = [pair for pair in found if pair != "refused"]
    smooth = [v for n, v in numbers if v.requires_grad and f"d{n}" not in without]
    total = sum((v * v.sign())[v.isfinite()].sum() for v in smooth)
    grads = t.autograd.grad(total, leaves, allow_unused=True)
    more = p.expand((2, *(p.batch_shape or (3,))))
    asked = p.batch_shape, p.sample((5, 2)).shape, more.batch_shape, more.event_shape
    shapes += [*map(tuple, asked), *more.sample().shape, *sorted(p.arg_constraints)]
    numbers += [("expanded", more.log_prob(x).sum(0)), *zip("abL", grads, strict=True)]
    numbers += [("inside", p.support.check(p.sample((9,))).all())]
    return [(n, v.tolist()) for n, v in numbers if v is not None], shapes


def alike(got: Any, want: Any, of: str = "") -> None:
    assert [n for n, _ in got] == [n for n, _ in want], of
    for (n, x), (_, y) in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8, err_msg=f"{of} {n}")


@pytest.mark.parametrize("row", rows(ROWS))
@pytest.mark.filterwarnings("ignore")
def test_as_pytorch(row: str, torch: Any) -> None:
    """Values, gradients, shapes, what is expanded, and where samples lie."""
    row, value, *without = row.split(" | ")
    torch.set_default_dtype(torch.float64)
    try:
        want, as_shapes = told(torch, row, eval(value), without)
    finally:
        torch.set_default_dtype(torch.float32)
    got, shapes = told(pf, row, eval(value), without)
    assert shapes == as_shapes
    alike(got, want)


KINDS = {  # how those are made that have a divergence to others, if not as above
    "Uniform": "Uniform(0.4 - 0.3 * a, 0.6 + 0.3 * a)", "Pareto": "Pareto(0.1 * b, 3 * a)",
    "ExponentialFamily": "Wishart(a[0, 0] + 5, scale_tril=L[0])", "Binomial": "Binomial(5, a)",
    "TransformedDistribution": "TransformedDistribution(Normal(a, b), ExpTransform())",
}  # fmt: skip


def test_kl_as_pytorch(torch: Any) -> None:
    """Of every pair that PyTorch has a formula for, with gradients."""
    how = {row.partition("(")[0]: row.split(" | ")[0] for row in reversed(rows(ROWS))} | KINDS
    for kinds in torch.distributions.kl._KL_REGISTRY:
        names = [kind.__name__ for kind in kinds]
        out = []
        for t in (pf, torch):
            p, (a, b, c) = made(t, how[names[0]])
            q, _ = made(t, how[names[1]], a=a * 1.1, b=b * 0.9, L=c * 1.2)
            found = t.distributions.kl_divergence(p, q).expand(p.batch_shape)
            out.append([("value", found.tolist())])
            if found.isfinite().any() and "ExponentialFamily" not in names:  # there it is detached
                total = found[found.isfinite()].sum()
                grads = t.autograd.grad(total, [a, b, c], allow_unused=True)
                each = [(n, g) for n, g in zip("abL", grads, strict=True) if g is not None]
                out[-1] += [(n, g.nan_to_num(0.0).tolist()) for n, g in each]
        alike(*out, of=str(names))


@pytest.mark.parametrize("row", rows(TRANSFORMS))
def test_transforms_as_pytorch(row: str, torch: Any) -> None:
    """Values, inverses, log |det J|, shapes, domains; with a cache inverses are what was given."""
    row, value = row.split(" | ")

    def found(t: Any) -> tuple[list[Any], list[Any]]:
        f = made(t, row)[0]
        x = t.tensor(eval(value).tolist(), dtype=t.float64)
        y, kept = f(x), f.with_cache()
        facts = [tuple(f.forward_shape(x.shape)), tuple(f.inverse_shape(y.shape)), f.bijective]
        facts += [type(f.codomain).__name__, f.inv.inv is f, repr(f.domain), kept.inv(kept(x)) is x]
        asked = [lambda: f.sign, lambda: f.log_abs_det_jacobian(x, y)]
        asked += [lambda: f.inv.log_abs_det_jacobian(y, x)] if f.bijective else []
        parts = [y, f.inv(y), f.codomain.check(y), *tried(*asked)]
        assert t is not pf or (f == kept.with_cache(0) and f != D.PowerTransform(3.0))
        return facts, [("", t.as_tensor(v).tolist()) for v in parts if not isinstance(v, str)]

    (facts, got), (as_facts, want) = found(pf), found(torch)
    assert facts == as_facts
    alike(got, want)


@pytest.mark.parametrize("maker", CONSTRAINTS)
def test_constraints_and_registry_as_pytorch(maker: str, torch: Any) -> None:
    """What each has, which values it takes, and where transforms to it lead."""

    def found(t: Any) -> list[Any]:
        d, values = t.distributions, [A, A - 0.5, COUNTS, HOT, SPLIT, V, CORR, -np.eye(3), L]
        xs = [t.tensor(v.tolist(), dtype=t.float64) for v in values]
        c = eval(maker, vars(d.constraints))
        asked = [lambda: c.event_dim, lambda: c.is_discrete]
        asked += [lambda x=x: c.check(x).tolist() for x in xs]
        for to in (d.biject_to, d.transform_to):
            asked += [lambda to=to: type(to(c)).__name__, lambda to=to: to(c)(xs[-1]).tolist()]
        return [*tried(*asked)]

    assert {*torch.distributions.constraints.__all__} == {*D.constraints.__all__}
    for x, y in zip(found(pf), found(torch), strict=True):
        if "refused" in (x, y) or isinstance(x, str):
            assert x == y
        else:
            np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("row", [r for r in rows(ROWS) if "draws" not in r])
def test_samples(row: str, device: str) -> None:
    """Their means and variances, and those of their gradients, are the distribution's."""
    pf.manual_seed(0)
    n, near = (20_000, 0.036) if device == "cpu" else (4000, 0.08)  # five deviations of a mean
    leaves = [pf.tensor(x[:1].tolist(), device=device).requires_grad_() for x in (A, B, L)]
    p = eval(row.split(" | ")[0], {**vars(D), **dict(zip("abL", leaves, strict=True))})
    x = p.rsample((n,)) if p.has_rsample else p.sample((n,))
    assert (x.dtype, x.device.type, p.sample().requires_grad) == (pf.float32, device, False)
    mean, variance = tried(lambda: p.mean, lambda: p.variance)
    if isinstance(mean, str):
        return
    assert ((x.mean(0) - mean).abs() <= near * variance.sqrt() + 1e-5).all(), (x.mean(0), mean)
    fourth = ((x - mean) ** 4).mean(0).sqrt()
    assert ((x.var(0) - variance).abs() <= 2 * near * fourth + 1e-5).all(), (x.var(0), variance)
    if p.has_rsample and "dmean" not in row:
        over = variance.detach().sqrt()
        got, want = (
            pf.autograd.grad((v / over).sum(), leaves, retain_graph=True, allow_unused=True)
            for v in (x.mean(0), mean)
        )
        for g, w in zip(got, want, strict=True):
            if g is not None:
                w = pf.zeros_like(g) if w is None else w
                np.testing.assert_allclose(g.tolist(), w.tolist(), rtol=0.15, atol=60 * near)


def test_gradients_of_gamma_numbers_are_exact() -> None:
    """d x / d a where the probability of less stays, beside differences of SciPy's quantiles."""
    special = pytest.importorskip("scipy.special")
    a, q = (v.ravel() for v in np.meshgrid([1, 1.5, 8, 300, 1e5], [1e-6, 0.01, 0.5, 0.6, 0.9999]))
    x, up, down = (special.gammaincinv(a * (1 + h), q) for h in (0, 1e-5, -1e-5))
    got = D._slope(*(pf.tensor(v.tolist(), dtype=pf.float64) for v in (a, np.log(x))))
    np.testing.assert_allclose(got.tolist(), (up - down) / (2e-5 * a * x), rtol=1e-5)


def test_small_shapes_and_angles(device: str) -> None:
    """What is near the ends of a dtype: gamma numbers of shape 0.001, angles that hardly vary."""
    pf.manual_seed(0)
    a = pf.full((4000,), 0.001, device=device).requires_grad_()
    x = D.Gamma(a, 1.0).rsample()
    assert (x.isfinite() & (x > 0)).all()
    assert pf.autograd.grad(x.log().sum(), a)[0].isfinite().all()
    for k in (1e-4, 3.0, 1e4):
        p = D.VonMises(pf.tensor(3.0, device=device), k)
        spread, want = 1 - (p.sample((4000,)) - 3).cos().mean().item(), p.variance.item()
        assert spread == pytest.approx(want, rel=0.15, abs=0.05 / (1 + k))
    c = D.LKJCholesky(3, pf.tensor([1.0, 4.0], device=device)).sample((4000,))
    off = (c @ c.mT)[..., 0, 2].square().mean(0).tolist()
    assert off == pytest.approx([1 / 4, 1 / 10], rel=0.15)  # of 2 Beta(c + 1/2) - 1


@pytest.mark.parametrize("row", rows(WRONG))
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused(row: str, torch: Any) -> None:
    """As by PyTorch, with its text where that tells of values."""
    errors: list[Any] = []
    for t in (pf, torch):
        with pytest.raises(Exception) as info:
            made(t, row)
        errors.append(info.value)
    got, want = (str(e).replace("torch.", "pyframe.").partition("\n")[0] for e in errors)
    assert type(errors[1]) is not NotImplementedError or type(errors[0]) is NotImplementedError
    if want.startswith(("Expected parameter", "Expected value")) and " of shape " in want:
        assert (type(errors[0]), got) == (ValueError, want)


def test_own_classes_and_copies() -> None:
    D.Distribution.set_default_validate_args(False)
    assert D.Normal(0.0, -1.0).scale.item() == -1
    D.Distribution.set_default_validate_args(True)
    own: Any = {"arg_constraints": {}, "support": D.constraints.real}
    own["rsample"] = lambda self, shape: pf.ones(self._extended_shape(shape))
    p = type("Own", (D.Distribution,), own)((2,))
    assert p.sample((3,)).shape == (3, 2)
    with pytest.raises(ValueError, match="within the support"):
        p._validate_sample(pf.tensor([math.nan, 0]))
    own = {"__init__": lambda self, loc: D.Normal.__init__(self, loc + 1, 1.0)}
    shifted = type("Shifted", (D.Normal,), own)(pf.zeros(2)).expand((3, 2))
    assert (type(shifted).__name__, shifted.mean.tolist()) == ("Shifted", [[1, 1]] * 3)
    assert D.kl_divergence(shifted, D.Normal(1.0, 1.0)).sum().item() == 0
    own = {"_natural_params": property(lambda self: (-self.rate,)), "_mean_carrier_measure": 0}
    own |= {"_log_normalizer": lambda self, x: -(-x).log(), "entropy": D.ExponentialFamily._entropy}
    one, other = map(type("Exact", (D.Exponential,), own), (pf.tensor(2.0), pf.tensor(3.0)))
    assert one.entropy().item() == pytest.approx(1 - math.log(2))
    assert D._family(one, other).item() == pytest.approx(math.log(2 / 3) + 0.5)
    again = pickle.loads(pickle.dumps(D.Independent(D.Gamma(pf.tensor([2.0]), 1.0), 1)))
    assert (again.mean.tolist(), again.log_prob(pf.tensor([1.0])).item()) == ([2], -1)


def test_modules_as_pytorch(torch: Any) -> None:
    """Each has what PyTorch's has, and is found by each way of importing it."""
    for _, name, _ in pkgutil.iter_modules(torch.distributions.__path__):
        ours = importlib.import_module(f"pyframe.distributions.{name}")
        theirs = importlib.import_module(f"torch.distributions.{name}")
        assert getattr(D, name) is ours
        assert [n for n in getattr(theirs, "__all__", ()) if not hasattr(ours, n)] == []
    assert {*torch.distributions.__all__} <= {*D.__all__}


def test_compiled(device: str) -> None:
    a = pf.full((3000,), 2.5, device=device).requires_grad_()

    @pf.compile
    def step() -> Any:
        x = D.Gamma(a, 2.0, validate_args=False).rsample()
        return pf.autograd.grad(x.sum(), a)[0].mean(), x.mean()

    got = [[v.item() for v in step()] for _ in range(4)]
    assert len({x for _, x in got}) == 4
    np.testing.assert_allclose(got, [[0.5, 1.25]] * 4, atol=0.1)
