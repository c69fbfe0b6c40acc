"""PyTorch's own table of optimizers, optim_db: every entry, option and wrong input."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, optim

NAMES = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam",
    "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam",
]  # fmt: skip
SHAPES = {
    "Muon": [(3, 4), (4, 2)], "SparseAdam": [(5, 3), (4,), (4, 2, 2)], "LBFGS": [(3,), (2, 2)],
}  # fmt: skip
STEPS = {name: {"LBFGS": 2, "Muon": 4}.get(name, 6) for name in NAMES}  # of LBFGS many in one


@pytest.fixture(scope="module")
def db(torch: Any) -> dict[str, Any]:
    with warnings.catch_warnings(action="ignore"):
        module = pytest.importorskip("torch.testing._internal.common_optimizers")
    return {info.name: info for info in module.optim_db}


def test_the_table_is_complete(db: Any) -> None:
    assert sorted(db) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_options_stand_in_the_same_order(name: str, torch: Any) -> None:
    """As who prints or saves a group sees them."""
    given: dict[str, Any] = {"lr": 0.1} if name == "SGD" else {}
    theirs = getattr(torch.optim, name)([torch.ones(2, 2)], **given)
    ours = getattr(optim, name)([pf.ones(2, 2)], **given)
    assert list(ours.param_groups[0]) == list(theirs.param_groups[0])
    assert list(ours.defaults) == list(theirs.defaults)
    module = importlib.import_module(type(theirs).__module__.replace("torch", "pyframe"))
    assert getattr(module, name) is type(ours)


def starts(info: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = SHAPES.get(info.name, [(3, 4), (5,), (), (2, 3, 2)])
    out = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    if info.supports_complex:
        out.append((rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))).astype("c8"))
    if info.step_requires_closure:  # its searches make differences in the last digit large
        out = [x.astype("c16" if x.dtype.kind == "c" else "f8") for x in out]
    return out


class Run:
    """An optimizer of either library over some parameters, with gradients told for each step."""

    def __init__(self, lib: Any, info: Any, kwargs: Any, device: str = "cpu", values: Any = None):
        self.lib, self.sparse = lib, info.only_supports_sparse_grads
        where = {"device": device} if lib is pf else {}
        values = starts(info) if values is None else values
        self.params = [lib.tensor(v, **where).requires_grad_() for v in values]
        self.closure = self.loss if info.step_requires_closure else None
        self.optimizer = getattr(lib.optim, info.name)(self.params, **kwargs)

    def loss(self) -> Any:
        self.optimizer.zero_grad()
        parts = [(p.abs() ** 2 - i).abs() ** 2 for i, p in enumerate(self.params)]
        loss = sum(x.sum() for x in parts)
        loss.backward()
        return loss

    def step(self, i: int) -> None:
        rng = np.random.default_rng(100 + i)
        for k, p in enumerate(self.params):
            g: Any = rng.standard_normal(tuple(p.shape)) + 0 * p.detach().cpu().numpy()
            rows = rng.random(len(g)) < 0.6 if g.ndim else None
            if g.dtype.kind == "c":
                g = g * (1 - 0.5j)
            g = g.astype("c8" if g.dtype.kind == "c" else "f4")
            if self.closure is not None:
                continue
            if k < 2 and i == 2 * k + 2:  # one without a gradient now and then
                p.grad = None
            elif not self.sparse:
                p.grad = self.lib.from_numpy(np.asarray(g)).to(p.device)
            elif self.lib is pf:
                g[~rows] = 0
                p.grad = pf.from_numpy(g).to(p.device)
            else:
                at = self.lib.from_numpy(np.flatnonzero(rows)[None])
                p.grad = self.lib.sparse_coo_tensor(at, self.lib.from_numpy(g[rows]), g.shape)
        self.optimizer.step(*[self.closure] * (self.closure is not None))

    def values(self) -> list[np.ndarray]:
        return [p.detach().cpu().numpy() for p in self.params]

    def state(self) -> dict[str, Any]:
        """The entries of all parameters that are tensors or numbers, by name."""
        out = {}
        for i, s in self.optimizer.state_dict()["state"].items():
            for k, v in s.items():
                if v is not None and k not in ("al", "ro", "old_dirs", "old_stps"):
                    out[f"{i}.{k}"] = v.detach().cpu().numpy() if hasattr(v, "detach") else v
        return out


def configurations(info: Any) -> list[tuple[str, dict[str, Any]]]:
    """Options with a word about them; those of a GPU, which have `capturable`, are in it."""
    return [(x.desc, dict(x.kwargs)) for x in info.optim_inputs_func("cuda")]


def ours(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Options whose tensors are pyframe's."""

    def own(v: Any) -> Any:
        if isinstance(v, tuple):
            return tuple(map(own, v))
        return pf.tensor(v.numpy()) if hasattr(v, "numpy") else v

    return {k: own(v) for k, v in kwargs.items()}


def theirs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """On a CPU PyTorch refuses `capturable`."""
    return {k: v for k, v in copy.deepcopy(kwargs).items() if k != "capturable"}


def close(a: Run, b: Run, what: str, on_cpu: bool = True) -> None:
    """Values and states agree. Muon rounds its products to eight bits."""
    rough = isinstance(a.optimizer, optim.Muon)
    rtol, atol = (0.02, 2e-4) if rough else (1e-5, 2e-6) if on_cpu else (1e-4, 2e-5)
    for x, y in zip(a.values(), b.values(), strict=True):
        np.testing.assert_allclose(x, y, rtol, atol, err_msg=what)
    mine, its = a.state(), b.state()
    assert set(mine) == set(its), what
    for k, v in mine.items():
        np.testing.assert_allclose(v, its[k], 1e-3, 1e-5, err_msg=f"{what}: {k}")


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch
@pytest.mark.parametrize("name", NAMES)
def test_trajectories(db: Any, torch: Any, name: str) -> None:
    info = db[name]
    for desc, kwargs in configurations(info):
        a, b = Run(pf, info, ours(kwargs)), Run(torch, info, theirs(kwargs))
        for i in range(STEPS[name]):
            a.step(i), b.step(i)
            if i in (0, STEPS[name] - 1):  # the first error, and what has come of all
                close(a, b, f"{desc}, step {i}")
        if "capturable" not in kwargs:
            assert repr(a.optimizer) == repr(b.optimizer)
            assert list(map(set, a.optimizer.param_groups)) == list(
                map(set, b.optimizer.param_groups)
            )


@pytest.mark.parametrize("name", NAMES)
def test_flags_that_change_no_number(db: Any, torch: Any, name: str) -> None:
    """foreach and fused, each with PyTorch's where it has them."""
    info = db[name]
    for flag in {"foreach", "fused"} & set(info.supported_impls):
        desc, kwargs = configurations(info)[3]
        start = [x for x in starts(info) if x.dtype.kind != "c" and x.ndim]
        kwargs = {**theirs(kwargs), flag: True}
        a, b = Run(pf, info, ours(kwargs), values=start), Run(torch, info, kwargs, values=start)
        for i in range(STEPS[name]):
            a.step(i), b.step(i)
        close(a, b, f"{desc}, {flag}")
    if "fused" in info.supported_impls:
        for lib in (pf, torch):
            for other in ("foreach", "differentiable"):
                with pytest.raises(RuntimeError):
                    Run(lib, info, {"fused": True, other: True})
            a = Run(lib, info, {"fused": True, "lr": 0.1})
            with pytest.raises(RuntimeError):  # one parameter is complex
                a.step(0)


def converted(x: Any, from_numpy: Any) -> Any:
    """A state_dict with its tensors made those of the other library."""
    if isinstance(x, dict):
        return {k: converted(v, from_numpy) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(converted(v, from_numpy) for v in x)
    return from_numpy(np.array(x.numpy())) if hasattr(x, "numpy") else copy.deepcopy(x)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch
@pytest.mark.parametrize("name", NAMES)
def test_states_go_to_pytorch_and_back(db: Any, torch: Any, name: str) -> None:
    info = db[name]
    for desc, kwargs in configurations(info)[2:9:3]:
        a, b = Run(pf, info, ours(kwargs)), Run(torch, info, theirs(kwargs))
        for i in range(STEPS[name] // 2):
            a.step(i), b.step(i)
        mine = converted(a.optimizer.state_dict(), torch.from_numpy)
        for group in mine["param_groups"]:
            group.pop("capturable", None)
        a2 = Run(pf, info, ours(kwargs), values=b.values())
        b2 = Run(torch, info, theirs(kwargs), values=a.values())
        a2.optimizer.load_state_dict(converted(b.optimizer.state_dict(), pf.from_numpy))
        b2.optimizer.load_state_dict(mine)
        for i in range(STEPS[name] // 2, STEPS[name]):
            for run in (a2, b2, b):
                run.step(i)
        close(a2, b, f"{desc}: PyTorch's state goes on here")
        close(a2, b2, f"{desc}: our state goes on in PyTorch")


def own_params(params: Any, torch: Any) -> Any:
    """Parameters of PyTorch, in whatever they lie, as pyframe's."""
    if isinstance(params, torch.Tensor):
        out = pf.tensor(params.detach().numpy())
        if isinstance(params, torch.nn.Parameter):
            out = nn.Parameter(out)
        out.grad = None if params.grad is None else pf.tensor(params.grad.numpy())
        return out
    if isinstance(params, dict):
        return {k: own_params(v, torch) for k, v in params.items()}
    if isinstance(params, (list, tuple)):
        return type(params)(own_params(v, torch) for v in params)
    return params


@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_refuses(db: Any, torch: Any, name: str) -> None:
    """With its type of error, and words that name the optimizer."""
    info = db[name]
    for wrong in info.optim_error_inputs_func("cpu", torch.float32):
        x = wrong.optimizer_error_input
        if x.desc.startswith("dense params required"):
            continue  # pyframe has no sparse tensors
        params = [pf.ones(2, 2).requires_grad_()]
        if x.params is not None:
            params = own_params(x.params, torch)
            if isinstance(x.params, list) and x.params[0] is x.params[-1]:
                params = [params[0]] * len(x.params)
            elif isinstance(x.params, list) and x.desc.startswith("duplicate"):
                params = [dict(params[0]), dict(params[0])]

        def run(params: Any = params, x: Any = x, wrong: Any = wrong) -> None:
            optimizer = getattr(optim, name)(params, **ours(x.kwargs))
            assert wrong.error_on.name == "STEP_ERROR"
            optimizer.step()

        with pytest.raises(wrong.error_type) as seen:
            run()
        assert type(seen.value) is wrong.error_type, x.desc
        assert name in str(seen.value), x.desc
