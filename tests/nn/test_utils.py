"""nn.utils: scenarios that run in both frameworks, beside each other."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import io
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from beside import programs, run
from compared import alike, plain
from refused import calls

import pyframe as pf
from pyframe import nn, optim

Lib = Any  # pyframe or torch


class Numbers:
    """The same arrays for both frameworks."""

    def __init__(self, lib: Lib) -> None:
        self.lib, self.rng = lib, np.random.default_rng(5)

    def __call__(self, *shape: int) -> Any:
        return self.lib.from_numpy(self.rng.standard_normal(shape).astype(np.float32))


def fill(numbers: Numbers, module: Any) -> Any:
    """Give all parameters and buffers of a module their values."""
    with numbers.lib.no_grad():
        for _, x in [*module.named_parameters(), *module.named_buffers()]:
            if x.dtype.is_floating_point:
                x.copy_(numbers(*x.shape).abs() + 0.1 if "var" in _ else numbers(*x.shape))
    return module


def same(torch: Any, scenario: Callable[[Lib, Numbers], Any], rtol: float = 2e-4) -> None:
    """A scenario gives the same in both."""
    ours, theirs = (scenario(lib, Numbers(lib)) for lib in (pf, torch))
    alike(ours, theirs, rtol, 2e-5)


def in_both(scenario: Callable[..., Any]) -> Callable[..., None]:
    """The test that a scenario of (lib, numbers) and its parameters gives the same in both."""

    def test(torch: Any, **given: Any) -> None:
        same(torch, functools.partial(scenario, **given))

    names = ["torch", *list(inspect.signature(scenario).parameters)[2:]]
    taken = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names]
    functools.update_wrapper(test, scenario)
    test.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return test


def params(lib: Lib, numbers: Numbers, shapes: Any = ((3, 4), (5,), (2, 2, 2))) -> list[Any]:
    """With gradients, but for one."""
    out = [lib.nn.Parameter(numbers(*shape)) for shape in (*shapes, (3,))]
    for p in out[:-1]:
        p.grad = numbers(*p.shape) * 2
    return out


def grads(some: list[Any]) -> list[Any]:
    return [p.grad for p in some]


# --- clipping


@pytest.mark.parametrize(
    "norm_type", ["inf", 2.0, 1, 0.5, 0, float("inf"), -float("inf"), 3.5, -1.5]
)
@pytest.mark.parametrize("max_norm", [1.5, 1000])
@in_both
def test_clip_grad_norm(lib: Lib, numbers: Numbers, norm_type: Any, max_norm: float) -> Any:
    utils, some = lib.nn.utils, params(lib, numbers)
    out = [utils.clip_grad_norm_(some, max_norm, norm_type), grads(some)]
    out += [utils.clip_grad_norm_(iter(some[:2]), 0.5, norm_type, foreach=True), grads(some)]
    out += [utils.clip_grad_norm_(some[0], 0.25, norm_type, foreach=False), grads(some)]
    total = utils.get_total_norm(grads(some[:3]), norm_type)
    utils.clip_grads_with_norm_(some, 0.1, total)
    return [*out, total, grads(some)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_norms_of_other_dtypes(torch: Any, dtype: str) -> None:
    """Squares that float16 has no room for; |z| of complex ones."""

    def scenario(lib: Lib, numbers: Numbers) -> Any:
        kind = getattr(lib, dtype)
        some = [lib.zeros(*shape, dtype=kind).requires_grad_() for shape in ((3, 4), (300,))]
        for p in some:
            p.grad = (numbers(*p.shape) * 50).to(kind)
            if dtype == "complex64":
                p.grad += numbers(*p.shape) * 50j
        norm = lib.nn.utils.clip_grad_norm_(some, 1.0)
        assert norm.dtype == kind.to_real()
        wide = lib.complex128 if dtype == "complex64" else lib.float64
        return [g.to(wide) for g in (norm, *grads(some))]

    same(torch, scenario, rtol=0.02 if "16" in dtype else 2e-4)


# --- vectors, fusion, other small things


def test_parameters_on_two_devices(gpu: str) -> None:
    two = [nn.Parameter(pf.ones(2)), nn.Parameter(pf.ones(2, device=gpu))]
    for call in (lambda: nn.utils.parameters_to_vector(two),
                 lambda: nn.utils.vector_to_parameters(pf.ones(4), two)):  # fmt: skip
        with pytest.raises(TypeError, match="different devices"):
            call()


FUSED: list[tuple[str, str, tuple[Any, ...], int, dict[str, Any]]] = [
    ("Conv1d", "BatchNorm1d", (2, 3, 2), 1, {}),
    ("Conv2d", "BatchNorm2d", (2, 3, 2), 2, {"bias": False}),
    ("Conv3d", "BatchNorm3d", (2, 3, 2), 3, {}),
    ("ConvTranspose2d", "BatchNorm2d", (2, 3, 2), 2, {}),
    ("Linear", "BatchNorm1d", (2, 3), 0, {}),
    ("Linear", "BatchNorm1d", (2, 3), 0, {"bias": False}),
]


@pytest.mark.parametrize(("layer", "norm", "args", "dims", "kw"), FUSED)
def test_fusion(torch: Any, layer: str, norm: str, args: Any, dims: int, kw: Any) -> None:
    def fused(lib: Lib, numbers: Numbers, affine: bool) -> Any:
        first = fill(numbers, getattr(lib.nn, layer)(*args, **kw)).eval()
        second = fill(numbers, getattr(lib.nn, norm)(3, affine=affine)).eval()
        if layer == "Linear":
            fused = lib.nn.utils.fuse_linear_bn_eval(first, second)
        else:
            transposed = "Transpose" in layer
            fused = lib.nn.utils.fuse_conv_bn_eval(first, second, transpose=transposed)
        x = numbers(4, 2, *[5] * dims)
        np.testing.assert_allclose(
            fused(x).detach().numpy(), second(first(x)).detach().numpy(), rtol=1e-4, atol=1e-4
        )
        assert fused is not first
        return [fused.state_dict(), repr(fused), [p.requires_grad for p in fused.parameters()]]

    same(torch, lambda lib, numbers: fused(lib, numbers, True))
    if layer == "Linear":  # PyTorch's takes none without weights
        fused(pf, Numbers(pf), False)
    else:
        same(torch, lambda lib, numbers: fused(lib, numbers, False))


# --- parametrizations


def kinds(lib: Lib) -> Any:
    """Parametrizations of a user's own."""

    class Scaled(lib.nn.Module):  # type: ignore[name-defined]
        def __init__(self, factor: float = 2.0) -> None:
            super().__init__()
            self.factor = lib.nn.Parameter(lib.tensor(factor))

        def forward(self, x: Any) -> Any:
            return x * self.factor

    class Fn(lib.nn.Module):  # type: ignore[name-defined]
        def __init__(self, forward: Any, right_inverse: Any = None) -> None:
            super().__init__()
            self.f = forward
            if right_inverse is not None:
                self.right_inverse = right_inverse

        def forward(self, *xs: Any) -> Any:
            return self.f(*xs)

    class Seen(lib.nn.Module):  # type: ignore[name-defined]
        calls = 0

        def forward(self, x: Any) -> Any:
            Seen.calls += 1
            return x.tanh()

    return SimpleNamespace(
        Symmetric=lambda: Fn(lambda x: x.triu() + x.triu(1).mT, lambda a: a.triu()),
        Rank1=lambda: Fn(
            lambda x, y: x.unsqueeze(-1) @ y.unsqueeze(-2),
            lambda z: (z[:, 0].clone(), z[0].clone()),
        ),
        Sum=lambda: Fn(lambda *xs: sum(xs), lambda z: [z / 4 for _ in range(4)]),
        Scaled=Scaled, Fn=Fn, Seen=Seen,
    )  # fmt: skip


def look(numbers: Numbers, net: Any, *shape: int) -> list[Any]:
    """All that can be seen of a module, a step of training included."""
    x = numbers(*shape)
    for p in net.parameters():
        p.grad = None
    out = net(x)
    (out * numbers(*out.shape)).sum().backward()
    return [
        repr(net), type(net).__name__, out, dict(net.state_dict()),
        [n for n, _ in net.named_modules()],
        {n: p.grad for n, p in net.named_parameters()}, sorted(dict(net.named_buffers())),
    ]  # fmt: skip


# --- programs of the library `t`, its nn, `n`, nn.utils, `u`, parametrize, `p`, and a user's
# parametrizations, `k`

PROGRAMS = programs(r"""
== gradients clipped by value
some = params(t, numbers)
? u.clip_grad_value_(some, 1), grads(some)
? u.clip_grad_value_(some[0], 0.25), grads(some)
== nothing to clip
w = n.Parameter(numbers(2))
? u.clip_grad_norm_([w], 1.0), u.clip_grad_norm_([], 1.0), w.grad
with pytest.warns(UserWarning, match="empty generator"):
    ? u.clip_grad_norm_((x for x in []), 1.0)
with pytest.warns(FutureWarning, match="clip_grad_norm_"):
    ? u.clip_grad_norm([w], 1.0)
== norms that are not finite
for bad in (float("inf"), float("nan")):
    some = params(t, numbers)
    some[1].grad[2] = bad
    with pytest.raises(RuntimeError, match="non-finite"):
        u.clip_grad_norm_(some, 1.0, error_if_nonfinite=True)
    ? grads(some), u.clip_grad_norm_(some, 1.0), grads(some)
== parameters as a vector
net = filled(n.Linear(3, 2))
vector = u.parameters_to_vector(net.parameters())
? vector, vector.requires_grad
u.vector_to_parameters(numbers(8), net.parameters())
(net(numbers(4, 3)) ** 2).sum().backward()
! u.vector_to_parameters([1.0] * 8, net.parameters())
? dict(net.named_parameters()), net.weight.grad, net.weight.is_leaf
== memory formats
net = filled(n.Sequential(n.Conv2d(2, 3, 2), n.Sequential(n.Conv3d(1, 2, 1))))
? u.convert_conv2d_weight_memory_format(net, t.channels_last) is net
u.convert_conv3d_weight_memory_format(net, t.channels_last_3d)
? net.state_dict(), net[0](numbers(1, 2, 3, 3))
== a module that is not initialized
t.manual_seed(3)
before = t.rand(2)
t.manual_seed(3)
net = u.skip_init(n.Linear, 3, out_features=2)
assert t.rand(2).tolist() == before.tolist()
! u.skip_init(dict) | u.skip_init(n.Flatten)
? repr(net), {k: list(v.shape) for k, v in net.state_dict().items()}
== meta tensors
with t.device("meta"):
    x, parts = t.rand(2, 1, 8, 8), (n.Conv2d(1, 2, 3), n.BatchNorm2d(2), n.Flatten())
    net = n.Sequential(*parts, n.Linear(72, 3))
step = t.optim.Adam(net.parameters())
n.functional.cross_entropy(net(x), t.empty(2, dtype=t.int64, device="meta")).backward()
step.step()
net[3].weight.data[0] = 1.0
? [list(y.shape) for y in (net(x), net[0].weight.grad)], net(x).device.type
y = pickle.loads(pickle.dumps(copy.deepcopy(t.empty(4, 6, dtype=t.int8, device="meta").t())))
t.save(y, file := io.BytesIO())
? t.load(io.BytesIO(file.getvalue())).stride()
? y.is_meta, y.stride(), y.is_cpu, y.get_device(), y.data_ptr(), str(y.dtype)
!! x.sum().item() | bool(x[0, 0, 0, 0]) | x.numpy() | repr(x) | repr(x.double()) | repr(x[:0])
! x.cpu() | x.tolist() | x.nonzero() | x[x > 0] | net.to("cpu") | t.zeros(8).copy_(x[0, 0, 0])
! x + t.zeros(8) | (x + t.tensor(1)).shape | t.rand(1 << 45, device="meta").shape
! n.Linear(1 << 30, 1 << 20, device="meta").weight.shape
whole = filled(n.Linear(72, 3))
with pytest.warns(UserWarning, match="no-op"):
    ? net[3].load_state_dict(whole.state_dict()), net[3].weight.is_meta
net[3].load_state_dict(whole.state_dict(), assign=True)
? net[3].weight, net[3].weight.requires_grad, type(net[3].weight) is n.Parameter
? [str(p.device) for p in net.to_empty(device="cpu").parameters()], x.copy_(t.ones(8)) is x
== stateless calls
net, call = filled(n.Sequential(n.Linear(3, 3), n.Linear(3, 2))), u.stateless.functional_call
with pytest.warns(FutureWarning, match="functional_call"):
    ? call(net, {"1.weight": numbers(2, 3)}, numbers(4, 3)), net(numbers(4, 3))
with pytest.warns(FutureWarning):
    ! call(net, {"x": numbers(1)}, (numbers(4, 3),), strict=True)
== parametrized twice
net = filled(n.Linear(3, 3))
p.register_parametrization(net, "weight", k.Symmetric())
p.register_parametrization(net, "weight", k.Scaled())
p.register_parametrization(net, "bias", k.Scaled(0.5))
? look(net, 2, 3)
! setattr(net, "weight", numbers(3, 3))
p.remove_parametrizations(net, "weight", leave_parametrized=False)
? look(net, 2, 3), p.is_parametrized(net)
p.remove_parametrizations(net, "bias")
? type(net) is n.Linear, p.is_parametrized(net), look(net, 2, 3)
== parametrized by several tensors
net = filled(n.Linear(4, 3))
p.register_parametrization(net, "weight", k.Rank1())
p.register_parametrization(net, "bias", k.Sum())
? look(net, 2, 4)
net.weight, net.bias = numbers(3, 4), numbers(3)
? look(net, 2, 4)
with pytest.raises(ValueError, match="leave_parametrized"):
    p.remove_parametrizations(net, "weight", leave_parametrized=False)
p.remove_parametrizations(net, "weight")
p.remove_parametrizations(net, "bias")
? look(net, 2, 4)
== a parametrized buffer
net = filled(n.BatchNorm1d(3)).eval()
p.register_parametrization(net, "running_mean", k.Fn(lambda x: x * 2))
? net(numbers(2, 3)), repr(net), dict(net.state_dict()), net.running_mean.requires_grad
p.remove_parametrizations(net, "running_mean")
? dict(net.state_dict()), dict(net.named_buffers())
== parametrized modules are loaded and copied
nets = [filled(n.Sequential(n.Linear(3, 3))) for _ in range(2)]
for net in nets:
    p.register_parametrization(net[0], "weight", k.Symmetric())
nets[0].load_state_dict(nets[1].state_dict())
twin = copy.deepcopy(nets[0])
with pytest.raises(RuntimeError, match="state_dict"):
    pickle.dumps(twin)
with t.no_grad():
    twin[0].parametrizations.weight.original.fill_(2.0)
? [look(net, 2, 3) for net in (*nets, twin)]
p.remove_parametrizations(nets[1][0], "weight")
? [look(net, 2, 3) for net in (*nets, twin)]
== parametrizations are cached
nets = [filled(n.Linear(3, 3)) for _ in range(2)]
for net in nets:
    p.register_parametrization(net, "weight", k.Seen(), unsafe=True)
k.Seen.calls = 0
with p.cached(), p.cached():
    first = [net.weight for net in nets]
    ? [net.weight is w for net, w in zip(nets, first, strict=True)]
    ? nets[0](numbers(2, 3)), nets[1](numbers(2, 3)), k.Seen.calls
? nets[0].weight is first[0], k.Seen.calls
== parametrizations are transferred
one, two, three, plain_one = (filled(n.Linear(3, 3)) for _ in range(4))
p.register_parametrization(one, "weight", k.Symmetric())
p.register_parametrization(one, "bias", k.Sum())
p.transfer_parametrizations_and_params(one, two)
p.transfer_parametrizations_and_params(one, three, "weight")
? two.parametrizations.weight.original is one.parametrizations.weight.original
p.transfer_parametrizations_and_params(plain_one, three)
? [look(net, 2, 3) for net in (one, two, three)]
== parametrizations that are refused, and change nothing
net = filled(n.Linear(3, 3))
bad = [
    k.Fn(lambda x: x.double()), k.Fn(lambda x: x[:2]), k.Fn(lambda x: [x]),
    k.Fn(lambda x: x, lambda x: x.double()), k.Fn(lambda x: x, lambda x: 3),
    k.Fn(lambda x: x, lambda x: (x, 3)),
]
for one in bad:
    ! p.register_parametrization(net, "weight", one)
! p.register_parametrization(net, "weights", k.Symmetric())
! p.remove_parametrizations(net, "weight") | p.ParametrizationList([], net.weight)
p.register_parametrization(net, "weight", k.Symmetric())
for one in bad[:3]:
    ! p.register_parametrization(net, "weight", one)
? look(net, 2, 3)
== spectral norm of one dim
net = filled(n.BatchNorm1d(3))
u.parametrizations.spectral_norm(net)  # it is normalized
? look(net, 4, 3)
== state of spectral norm before it had a version
net = u.spectral_norm(filled(n.Linear(2, 3)))
v, W = numbers(3), numbers(3, 2)
old = {"weight_orig": W, "weight": W / 3.0, "weight_u": v / v.norm(), "bias": numbers(3)}
net.load_state_dict(dict(old))
? dict(net.state_dict()), net.eval()(numbers(2, 2))
del old["weight"]
with pytest.raises(RuntimeError, match="weight"):
    net.load_state_dict(old)
== pruning of tensors
prune, x = prune_of(t), numbers(3, 4)
l1 = prune.L1Unstructured(amount=4)
? l1.prune(x), l1.prune(x, default_mask=t.ones_like(x)), l1.compute_mask(x, x)
? prune.LnStructured(1, 2, 0).prune(x, importance_scores=-x), x
container, other = prune.PruningContainer(), prune.Identity()
container._tensor_name = l1._tensor_name = "weight"
other._tensor_name = "bias"
container.add_pruning_method(l1)
? len(container), container[0] is l1, [type(m).__name__ for m in container]
! container.add_pruning_method(3) | container.add_pruning_method(other)
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, torch: Any) -> None:
    found = []
    for lib in (pf, torch):
        numbers = Numbers(lib)
        names = {
            "t": lib, "n": lib.nn, "u": lib.nn.utils, "p": lib.nn.utils.parametrize,
            "k": kinds(lib), "numbers": numbers, "filled": functools.partial(fill, numbers),
            "look": functools.partial(look, numbers), "pickle": pickle, "io": io,
        }  # fmt: skip
        found.append(run(PROGRAMS[name], {**globals(), **names}, plain))
    alike(*found, 2e-4, 2e-5)


def test_copies_of_parametrized_modules_have_classes_of_their_own() -> None:
    p, k = nn.utils.parametrize, kinds(pf)
    one = p.register_parametrization(nn.Linear(3, 3), "weight", k.Symmetric())
    two = copy.deepcopy(one)
    p.register_parametrization(two, "bias", k.Scaled())
    before = one.weight.tolist()
    p.remove_parametrizations(two, "weight")
    assert one.weight.tolist() == two.weight.tolist() == before
    assert isinstance(one.bias, nn.Parameter)
    p.remove_parametrizations(one, "weight")
    assert type(one) is nn.Linear
    assert p.type_before_parametrizations(two) is nn.Linear


ORTHOGONAL: list[tuple[Any, dict[str, Any]]] = [
    (shape, {"orthogonal_map": how, "use_trivialization": base})
    for shape in ((3, 3), (4, 2), (2, 4))
    for how in ("matrix_exp", "cayley", "householder")
    for base in (True, False)
] + [((3, 3), {}), ((5, 2), {})]


@pytest.mark.parametrize(("shape", "kw"), ORTHOGONAL)
@in_both
def test_orthogonal(lib: Lib, numbers: Numbers, shape: tuple[int, int], kw: dict[str, Any]) -> Any:
    net = lib.nn.Linear(shape[1], shape[0], bias=False)
    fill(numbers, net)
    lib.nn.utils.parametrizations.orthogonal(net, **kw)
    W = net.weight
    small = W if shape[0] >= shape[1] else W.mT
    np.testing.assert_allclose(
        (small.mT @ small).detach().numpy(), np.eye(min(shape)), rtol=0, atol=1e-5
    )
    square = shape[0] == shape[1]
    if kw.get("use_trivialization", True) and not square:  # it begins with random columns
        state = net.state_dict()
        base = np.linalg.qr(np.random.default_rng(2).standard_normal((max(shape),) * 2))[0]
        state["parametrizations.weight.0.base"] = lib.from_numpy(base.astype(np.float32))
        net.load_state_dict(state)
    out = look(numbers, net, 2, shape[1])
    q = np.linalg.qr(np.random.default_rng(3).standard_normal((max(shape), min(shape))))[0]
    q = lib.from_numpy(np.ascontiguousarray(q if shape[0] >= shape[1] else q.T).astype(np.float32))
    trivial = kw.get("use_trivialization", True)
    if trivial or kw["orthogonal_map"] == "householder":
        net.weight = q
        np.testing.assert_allclose(net.weight.detach().numpy(), q.numpy(), rtol=0, atol=1e-5)
        with pytest.raises(ValueError):
            net.weight = numbers(5, 5)
    else:
        with pytest.raises(NotImplementedError):
            net.weight = q
    return out


LAYERS: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("Linear", (3, 4), (2, 3)),
    ("Conv2d", (2, 3, 2), (1, 2, 3, 3)),
    ("ConvTranspose1d", (2, 3, 2), (1, 2, 3)),
]


@pytest.mark.parametrize(("layer", "args", "shape"), LAYERS)
@pytest.mark.parametrize("dim", [0, 1, None])
@in_both
def test_weight_norm(
    lib: Lib, numbers: Numbers, layer: str, args: Any, shape: Any, dim: int | None
) -> Any:
    net = fill(numbers, getattr(lib.nn, layer)(*args))
    old, new = copy.deepcopy(net), copy.deepcopy(net)
    with pytest.warns(FutureWarning, match="parametrizations"):
        assert lib.nn.utils.weight_norm(old, dim=dim) is old
    assert lib.nn.utils.parametrizations.weight_norm(new, dim=dim) is new
    out = [look(numbers, old, *shape), look(numbers, new, *shape)]
    with lib.no_grad():
        old.weight_g.mul_(2.0)
        old.weight_v.add_(0.25)
    new.load_state_dict(old.state_dict())  # of the hook
    out += [look(numbers, old, *shape), look(numbers, new, *shape)]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError):
        lib.nn.utils.weight_norm(old)
    lib.nn.utils.remove_weight_norm(old)
    lib.nn.utils.parametrize.remove_parametrizations(new, "weight")
    with pytest.raises(ValueError):
        lib.nn.utils.remove_weight_norm(old)
    return [*out, look(numbers, old, *shape), look(numbers, new, *shape)]


def power(lib: Lib, net: Any, names: Any) -> None:
    """Give u and v their values: both frameworks draw their own."""
    rng, state = np.random.default_rng(8), net.state_dict()
    for name in names:
        x = rng.standard_normal(state[name].shape).astype(np.float32)
        state[name] = lib.from_numpy(x / np.linalg.norm(x))
    net.load_state_dict(state)


@pytest.mark.parametrize(("layer", "args", "shape"), LAYERS)
@pytest.mark.parametrize("kw", [{}, {"n_power_iterations": 3, "dim": 1, "eps": 1e-6}])
@in_both
def test_spectral_norm(
    lib: Lib, numbers: Numbers, layer: str, args: Any, shape: Any, kw: Any
) -> Any:
    net = fill(numbers, getattr(lib.nn, layer)(*args))
    old, new = copy.deepcopy(net), copy.deepcopy(net)
    lib.nn.utils.spectral_norm(old, **kw)
    lib.nn.utils.parametrizations.spectral_norm(new, **kw)
    power(lib, old, ["weight_u", "weight_v"])
    power(lib, new, ["parametrizations.weight.0._u", "parametrizations.weight.0._v"])
    out = []
    for net in (old, new):
        out += [look(numbers, net, *shape), look(numbers, net, *shape)]
        net.eval()
        out += [look(numbers, net, *shape), look(numbers, net, *shape)]
    out.append(dict(old.state_dict()._metadata[""]))
    with pytest.raises(RuntimeError):
        lib.nn.utils.spectral_norm(old)
    old.load_state_dict(copy.deepcopy(old.state_dict()))
    lib.nn.utils.remove_spectral_norm(old)
    lib.nn.utils.parametrize.remove_parametrizations(new, "weight")
    with pytest.raises(ValueError):
        lib.nn.utils.remove_spectral_norm(old)
    return [*out, look(numbers, old, *shape), look(numbers, new, *shape)]


def test_spectral_norm_starts_near_the_largest_singular_value() -> None:
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)).eval()
    assert pf.linalg.svdvals(net.weight)[0].item() == pytest.approx(1, abs=0.05)
    for _ in range(40):
        net.train().weight
    assert pf.linalg.svdvals(net.weight)[0].item() == pytest.approx(1, abs=1e-3)


# --- pruning


def prune_of(lib: Lib) -> Any:
    return importlib.import_module(f"{lib.__name__}.nn.utils.prune")


def prune_net(lib: Lib, net: Any, call: str) -> None:
    """What a row says: of the functions of the module and the net `n`."""
    eval(call, {**vars(prune_of(lib)), "n": net})


PRUNED = """
l1_unstructured(n, "weight", 0.3) | l1_unstructured(n, "weight", 1.0)
l1_unstructured(n, "weight", 9, importance_scores=1 / n.weight.detach())
ln_structured(n, "weight", 1, 2, 0) | ln_structured(n, "weight", 0.5, n=1, dim=-1)
ln_structured(n, "weight", 2, float("inf"), dim=1) | ln_structured(n, "weight", 0.0, n=1, dim=1)
l1_unstructured(n, "weight", 5), ln_structured(n, "weight", 1, 2, 0), \
    custom_from_mask(n, "weight", (n.weight.detach() > 0).float()), identity(n, "weight"), \
    ln_structured(n, "weight", 1, 1, -1), l1_unstructured(n, "weight", 0.5)
global_unstructured([(n, "weight"), (n, "bias")], L1Unstructured, amount=0.4)
l1_unstructured(n, "weight", 0.2), global_unstructured(((n, "weight"), (n, "bias")), \
    L1Unstructured, amount=11, importance_scores={(n, "bias"): n.bias.detach() * 3})
"""


@pytest.mark.parametrize("call", calls(PRUNED))
@in_both
def test_pruning(lib: Lib, numbers: Numbers, call: str) -> Any:
    net = fill(numbers, lib.nn.Conv2d(3, 4, 2))
    prune = prune_of(lib)
    prune_net(lib, net, call)
    out = look(numbers, net, 1, 3, 3, 3)
    out += [prune.is_pruned(net), [type(h).__name__ for h in net._forward_pre_hooks.values()]]
    with pytest.raises(RuntimeError):  # the weight is no leaf
        copy.deepcopy(net)
    again = fill(numbers, lib.nn.Conv2d(3, 4, 2))
    prune.identity(again, "weight")
    if again.state_dict().keys() == net.state_dict().keys():
        again.load_state_dict(net.state_dict())
    out.append(dict(again.state_dict()))
    prune.remove(net, "weight")
    out += [look(numbers, net, 1, 3, 3, 3), prune.is_pruned(net)]
    with pytest.raises(ValueError):
        prune.remove(net, "weight")
    return out


def test_random_pruning() -> None:
    prune, net = nn.utils.prune, nn.Conv2d(4, 6, 3)
    prune.random_unstructured(net, "weight", 0.25)
    assert int((net.weight_mask == 0).sum()) == 54
    prune.random_unstructured(net, "weight", 10)
    assert int((net.weight_mask == 0).sum()) == 64
    prune.random_structured(net, "weight", 2, dim=0)
    assert int((net.weight_mask.sum((1, 2, 3)) == 0).sum()) == 2
    prune.random_structured(net, "weight", 0.25, dim=1)
    assert int((net.weight_mask.sum((0, 2, 3)) == 0).sum()) == 1
    assert len(next(iter(net._forward_pre_hooks.values()))) == 4
    masks = set()
    for _ in range(8):
        net = prune.random_unstructured(nn.Linear(4, 4), "weight", 0.5)
        masks.add(str(net.weight_mask.tolist()))
    assert len(masks) > 1


MISUSED = """
l1_unstructured(n, "weight", "0.3") | l1_unstructured(n, "weight", 1.5)
l1_unstructured(n, "weight", -1) | l1_unstructured(n, "weight", 1000)
random_unstructured(n, "weight", -0.1) | ln_structured(n, "bias", 1, 2, 0)
ln_structured(n, "weight", 1, 2, 4) | random_structured(n, "weight", 5, 0)
identity(n, "weights") | custom_from_mask(n, "weight", n.bias.detach()) | BasePruningMethod()
l1_unstructured(n, "weight", 1, n.bias.detach()) | remove(n, "weight")
global_unstructured(3, L1Unstructured, amount=1)
global_unstructured([(n, "weight")], L1Unstructured, 3, amount=1)
global_unstructured([(n, "weight")], LnStructured, amount=1, n=1)
"""


@pytest.mark.parametrize("call", calls(MISUSED))
@in_both
def test_misused_pruning(lib: Lib, numbers: Numbers, call: str) -> Any:
    """The error is of PyTorch's type, and the module is as it was."""
    net = fill(numbers, lib.nn.Conv2d(3, 4, 2))
    with pytest.raises(Exception) as seen:
        prune_net(lib, net, call)
    out = [net(numbers(1, 3, 3, 3)), sorted(net.state_dict()), prune_of(lib).is_pruned(net)]
    return [*out, seen.type.__name__]


# --- within a compiled step

UTILS = nn.utils
NEW, PRUNE = nn.utils.parametrizations, nn.utils.prune


CHANGED: dict[str, Callable[[Any], Any]] = {
    "of two": lambda m: UTILS.parametrize.register_parametrization(m, "weight", kinds(pf).Rank1()),
    "orthogonal": NEW.orthogonal,
    "householder": lambda m: NEW.orthogonal(m, orthogonal_map="householder"),
    "spectral norm's hook": UTILS.spectral_norm,
    "pruned twice": lambda m: PRUNE.ln_structured(
        PRUNE.l1_unstructured(m, "weight", 4), "weight", 1, 2, 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", CHANGED)
def test_training_compiled(key: str) -> None:
    """As eagerly, with one capture; gradients are clipped."""
    runs = []
    for wrap in (lambda f: f, pf.compile):
        pf.manual_seed(2)
        net = nn.Sequential(CHANGED[key](nn.Linear(3, 3)), nn.Tanh(), nn.Linear(3, 2))
        run, x = wrap(step_of(net, momentum=0.9)), pf.randn(4, 3)
        runs.append(([run(x) for _ in range(5)], net.state_dict(), net(pf.ones(2, 3))))
    alike(*runs)
    assert (run.captured, run.replayed) == (1, 4)


def test_clipping_costs_few_dispatches(gpu: str, steady: Any) -> None:
    def counted(clip: Any) -> tuple[float, float, float]:
        net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)]).to(gpu)
        step = pf.compile(step_of(net, clip))
        x = pf.ones(2, 4, device=gpu)
        stats = steady(lambda: step(x))
        assert step.captured == 1
        return stats.dispatches / 4, stats.submits / 4, stats.bytes_uploaded

    without = counted(lambda some: None)
    for clip, more in ((clip_norm, 2), (lambda some: UTILS.clip_grad_value_(some, 0.01), 0)):
        dispatches, submits, uploaded = counted(clip)
        assert dispatches <= without[0] + more
        assert (submits, uploaded) == without[1:]


def clip_norm(some: Any) -> Any:
    return UTILS.clip_grad_norm_(some, 0.01)


def step_of(net: Any, clip: Any = clip_norm, momentum: float = 0) -> Callable[[Any], Any]:
    """A step of training that clips: (loss, what `clip` gives)."""
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=momentum)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        norm = clip(net.parameters())
        opt.step()
        return loss.detach(), norm

    return step


def test_caching_and_compiled_functions() -> None:
    net = nn.utils.parametrize.register_parametrization(
        nn.Linear(3, 3), "weight", kinds(pf).Scaled()
    )
    cached = nn.utils.parametrize.cached

    def twice(x: Any) -> Any:
        with cached():
            assert net.weight is net.weight
            return net(net(x))

    f, x = pf.compile(twice), pf.ones(2, 3)
    outside = pf.compile(lambda x: net(net(x)))
    for factor in (2.0, 3.0, 4.0):
        with pf.no_grad():
            net.parametrizations.weight[0].factor.fill_(factor)
        expected = net(net(x))
        alike(f(x), expected)
        with cached():
            alike(outside(x), expected)
            alike(net(net(x)), expected)
    assert f.captured == outside.captured == 1
