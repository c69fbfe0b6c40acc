"""Optimizers: ten steps beside PyTorch's, their state, and their errors."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from beside import programs, run
from compared import alike, plain
from refused import check_refused, rows

import pyframe as pf
from pyframe import optim

# A row an optimizer: a call that makes it for the parameters P with all that its formula has; then
# options that PyTorch's table (test_optim_db.py) lacks.
TABLE = r"""
optim.ASGD(P, lambd=0.1, t0=2, alpha=0.6, weight_decay=0.1)
optim.Adadelta(P, rho=0.8, weight_decay=0.1, maximize=True)
optim.Adafactor(P, weight_decay=0.1, d=1.5, beta2_decay=-0.7)
optim.Adagrad(P, lr_decay=0.5, weight_decay=0.1, initial_accumulator_value=0.2)
optim.Adam(P, amsgrad=True, weight_decay=0.1)
optim.Adam(P, weight_decay=0.1, betas=(0.8, 0.9))
optim.Adam(P, maximize=True, eps=1e-3)
optim.Adam(P, betas=(0.0, 0.9))
optim.AdamW(P, weight_decay=0.3, maximize=True)
optim.AdamW(P, weight_decay=0.3, amsgrad=True)
optim.Adamax(P, weight_decay=0.1, betas=(0.8, 0.9))
optim.Muon(P, adjust_lr_fn="match_rms_adamw", ns_steps=3)
optim.NAdam(P, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.01)
optim.RAdam(P, weight_decay=0.1, betas=(0.8, 0.99))
optim.RMSprop(P, centered=True, momentum=0.9, weight_decay=0.1)
optim.Rprop(P, etas=(0.4, 1.3), step_sizes=(0.01, 0.2))
optim.SGD(P, momentum=0.9, nesterov=True, weight_decay=0.1)
optim.SGD(P, momentum=0.5, dampening=0.2, maximize=True)
optim.SparseAdam(P, maximize=True)
"""
# Calls that are refused, as tests/refused.py has it; `of` makes a state_dict
REFUSED = r"""
optim.SGD(P, lr="0.1") -> SGD.*learning rate.*expected
optim.Adam(P, lr=None) -> Adam.*learning rate.*expected
optim.Adam(P, weight_decay=None) -> Adam.*weight_decay.*expected
optim.SGD(P, momentum="0.9") -> SGD.*momentum.*expected
optim.SGD(P, momentum=-0.5) -> SGD.*momentum.*expected
optim.SGD(P, nesterov=True) -> SGD.*Nesterov.*expected
optim.Adam(P, eps="1e-8") -> Adam.*epsilon.*expected
optim.Adam(P, eps=NAN) -> Adam.*epsilon.*expected
optim.Adam(P, betas=0.9) -> Adam.*beta.*expected
optim.Adam(P, betas=(0.9, 1.0)) -> Adam.*beta.*expected
optim.Adam(P, betas=("0.9", 0.9)) -> Adam.*beta.*expected
optim.Adam(P, betas=(0.9, None)) -> Adam.*beta.*expected
optim.Adam(P, momentum=0.9) -> momentum
optim.Adam([]) -> empty parameter list
optim.Adam(P[0]) -> iterable of Tensors or dicts
optim.Adam([3]) -> can only optimize Tensors
optim.Adam([P[0] * 2]) -> can't optimize a non-leaf
optim.Adam([{"params": P}, {"params": P}]) -> more than one
optim.Adam(P * 2) -> UserWarning: duplicate parameters
optim.Adam([{"params": {*P}}]) -> ordering of tensors in sets
optim.Adam(P).add_param_group(P) -> param_group must be a dict
optim.Adam(P).load_state_dict({"state": {}, "param_groups": []}) -> number of parameter groups
optim.Adam(P).load_state_dict(of({}, 0, 1)) -> doesn't match the size of optimizer's group
optim.Adam(P).load_state_dict(of({0: {"exp_avg": t.ones(3)}}, 0)) ->
    ValueError: exp_avg of parameter 0 has shape \[3\], expected \[2\]
optim.Adam(P).load_state_dict(of({5: {}}, 0)) -> ValueError: names parameter 5, which no group has
stepped(optim.Optimizer(P, {})) -> NotImplementedError: $
type("Own", (optim.Optimizer,), {})(P, {"rate": REQUIRED}) ->
    Own: a parameter group has to give the option rate
optim.LBFGS([{"params": P}, {"params": [t.ones(2)]}]) -> doesn't support parameter groups
optim.SGD([("w", P[0]), t.ones(2)]) -> names
optim.SGD([{"params": [("w", P[0])]}, {"params": [t.ones(2)]}]) -> names
optim.SGD([{"params": [t.ones(2)]}, {"params": [("w", P[0])]}]) -> names
optim.LBFGS(P).step() -> closure
stepped(optim.LBFGS(P, line_search_fn="armijo")) -> expected 'strong_wolfe' or None, got 'armijo'
stepped(optim.Muon([t.ones(2, 2).requires_grad_()], ns_steps=100)) -> ns_steps=100
stepped(optim.Muon([t.ones(2, 2).requires_grad_()], ns_coefficients=(1.0, 2.0))) -> 2 coefficients
stepped(optim.Adam(P, differentiable=True, foreach=True)) ->
    AssertionError: differentiable=True goes without foreach=True
optim.swa_utils.get_ema_avg_fn(-0.1) -> decay
optim.swa_utils.get_ema_multi_avg_fn(1.5) -> decay
optim.swa_utils.AveragedModel(NET, avg_fn=print, multi_avg_fn=print) -> avg_fn
"""


def made_by(row: str) -> tuple[str, dict[str, Any]]:
    """The optimizer of a row and its options."""
    call: Any = ast.parse(row, mode="eval").body
    return call.func.attr, {k.arg: ast.literal_eval(k.value) for k in call.keywords}


ROWS = [made_by(row) for row in TABLE.strip().split("\n")]
RICH = dict(reversed(ROWS))  # the first row of each
START = [np.array([[1.0, -2.0], [0.5, 3.0]], np.float32), np.array([0.3, -0.1], np.float32)]


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyTorch
@pytest.mark.parametrize(("name", "kw"), ROWS)
def test_eager_and_compiled(name: str, kw: dict[str, Any], device: str, torch: Any) -> None:
    """Nine steps, of which each has its own rate, betas and momentum, as schedulers change them: a
    compiled step is captured once."""
    start = [START[0], START[0].T * 0.5 + 0.1] if name == "Muon" else START
    rng = np.random.default_rng(0)
    grads = [[rng.standard_normal(a.shape).astype(np.float32) for a in start] for _ in range(9)]
    for g in grads if name == "SparseAdam" else []:
        g[0][0], g[1][1] = 0, 0

    def make(lib: Any, **where: Any) -> Any:
        params = [lib.tensor(a.copy(), **where).requires_grad_() for a in start]
        return params, getattr(lib.optim, name)(params, **kw)

    def sparse(g: Any) -> Any:
        rows = g.reshape(len(g), -1).any(1)
        at, values = torch.from_numpy(np.flatnonzero(rows)[None]), torch.from_numpy(g[rows])
        return torch.sparse_coo_tensor(at, values, g.shape)

    theirs, oracle = make(torch)
    runs = [(*make(pf, device=device), wrap) for wrap in (pf.compile, lambda f: f)]
    steps = []
    for params, optimizer, wrap in runs:

        def step(*grads: Any, params: Any = params, optimizer: Any = optimizer) -> None:
            for p, g in zip(params, grads, strict=True):
                p.grad = g
            optimizer.step()

        steps.append(wrap(step))
    for i, some in enumerate(grads):
        for optimizer in (oracle, runs[0][1], runs[1][1]):
            (group,) = optimizer.param_groups
            group["lr"] = 0.1 / (i + 1)
            if "betas" in group:
                group["betas"] = group["betas"][0] * 0.97, group["betas"][1]
            if group.get("momentum"):
                group["momentum"] *= 0.97
        for p, g in zip(theirs, some, strict=True):
            p.grad = sparse(g) if name == "SparseAdam" else torch.from_numpy(g)
        oracle.step()
        for step in steps:
            step(*(pf.from_numpy(g).to(device) for g in some))
    rough = {"rtol": 0.02, "atol": 0.02} if name == "Muon" else {"rtol": 1e-4, "atol": 2e-5}
    for params, *_ in runs:
        alike(params, theirs, **rough)
    captures = 2 if "dampening" in kw else 1  # whose first step is another one
    assert (steps[0].captured, steps[0].replayed) == (captures, 9 - captures)
    assert all(p.is_leaf for params, *_ in runs for p in params)


@pytest.mark.parametrize("name", [n for n in RICH if n not in ("Muon", "SparseAdam")])
def test_parameters_of_float64(name: str, torch: Any, request: pytest.FixtureRequest) -> None:
    """All of a step is computed in float64: Muon's product of bfloat16 is not."""
    if name not in ("Adam", "NAdam", "Rprop"):  # what the others add to these is no matter of LLVM
        request.getfixturevalue("by_numpy")
    rng = np.random.default_rng(1)
    grads = [[rng.standard_normal(a.shape) for a in START] for _ in range(4)]

    def trained(lib: Any, wrap: Any = lambda f: f) -> Any:
        params = [lib.tensor(a.astype(np.float64) / 3).requires_grad_() for a in START]
        optimizer = getattr(lib.optim, name)(params, **RICH[name])
        step = wrap(optimizer.step)
        for some in grads:
            for p, g in zip(params, some, strict=True):
                p.grad = lib.tensor(g)
            step()
        return [p.detach() for p in params]

    want = trained(torch)
    for wrap in (lambda f: f, pf.compile):
        for a, b in zip(trained(pf, wrap), want, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-13)


def test_parameters_stepped_together_share_one_counter() -> None:
    params = [pf.ones(2).requires_grad_() for _ in range(3)]
    optimizer = optim.Adam(params)
    for _ in range(2):
        sum((p * p).sum() for p in params).backward()
        optimizer.step()
    assert len({id(optimizer.state[p]["step"]) for p in params}) == 1
    again = optim.Adam(params)
    again.load_state_dict(optimizer.state_dict())
    assert len({id(again.state[p]["step"]) for p in params}) == 1
    assert again.state[params[0]]["step"] is not optimizer.state[params[0]]["step"]
    assert again.state[params[0]]["step"].item() == 2
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad.tolist() == [0, 0]


@pytest.mark.parametrize(("call", "text"), rows(REFUSED))
def test_refused(call: str, text: str, torch: Any) -> None:
    def named(lib: Any) -> dict[str, Any]:
        def stepped(optimizer: Any) -> None:
            def closure() -> Any:
                loss = sum((p**4).sum() for g in optimizer.param_groups for p in g["params"])
                loss.backward()
                return loss

            closure()
            optimizer.step(closure)

        return {
            "optim": lib.optim, "t": lib, "P": [lib.ones(2).requires_grad_()], "stepped": stepped,
            "of": lambda state, *at: {"state": state, "param_groups": [{"params": [*at]}]},
            "NET": lib.nn.Linear(1, 1), "NAN": float("nan"),
            "REQUIRED": importlib.import_module(lib.optim.Optimizer.__module__).required,
        }  # fmt: skip

    check_refused(call, text, named, torch)


def test_every_optimizer_has_a_row() -> None:
    """LBFGS alone has no formula of its own steps: PyTorch's table has what it can do."""
    found = {k: v for k, v in vars(optim).items() if inspect.isclass(v)}
    kinds = {k for k, v in found.items() if issubclass(v, optim.Optimizer)}
    for name in sorted(kinds - {"Optimizer", "LBFGS", *RICH}):
        pytest.fail(f"no row in tests/optim/test_optim.py for optim.{name}: add one beside Adam's, "
                    "and its kernels to KERNELS if a step takes other than two")  # fmt: skip


# dispatches of a compiled step: for all parameters together, and for each one more
KERNELS = {
    **dict.fromkeys(RICH, (2, 0)), "SGD": (1, 0), "ASGD": (3, 0), "SparseAdam": (2, 2),
    "Adafactor": (2, 6), "Muon": (0, 11),
}  # fmt: skip


@pytest.mark.parametrize("name", RICH)
def test_a_compiled_step_is_a_few_kernels(gpu: str, name: str, steady: Any) -> None:
    """However many parameters there are, where the formula is elementwise; a row of SparseAdam,
    a matrix of Adafactor and Muon need kernels of their own."""
    shared, each = KERNELS[name]
    count = 2 if each else 12
    shapes = [(2, 3 + i) if each or i % 3 else (4 + i,) for i in range(count)]
    params = [pf.ones(*s, device=gpu).requires_grad_() for s in shapes]
    for p in params:
        p.grad = pf.ones_like(p)
    optimizer = getattr(optim, name)(params, **RICH[name])
    stats = steady(pf.compile(lambda: optimizer.step()))
    assert stats.dispatches <= 4 * (shared + each * count)
    assert (stats.pipelines, stats.bind_groups, stats.buffers) == (0, 0, 0)
    assert (stats.bytes_uploaded, stats.reads) == (0, 0)


DIFFERENTIABLE = [
    *((name, kw) for name, kw in RICH.items() if name not in ("Adafactor", "Muon", "SparseAdam")),
    ("SGD", {"momentum": 0.9, "dampening": 0.2}), ("Adam", {}), ("RMSprop", {}), ("AdamW", {}),
]  # fmt: skip


def unrolled(lib: Any, name: str, kw: Any, steps: int, start: Any, slopes: Any) -> Any:
    """A loss after some differentiable steps."""
    params = [x.clone() for x in start]
    optimizer = getattr(lib.optim, name)(params, lr=0.1, differentiable=True, **kw)
    for i in range(steps):
        for p, x, s in zip(params, start, slopes, strict=True):
            p.grad = x.detach() * 0.3 + s * (i + 1) + x * x * 0.1
        optimizer.step()
    return sum((p * p * p).sum() for p in params)


def leaves(lib: Any) -> Any:
    start = [lib.tensor(a.astype(np.float64)).requires_grad_() for a in START]
    return start, [lib.full_like(x, 0.5, requires_grad=True) for x in start]


@pytest.mark.parametrize(("name", "kw"), DIFFERENTIABLE)
def test_steps_that_are_differentiated(name: str, kw: dict[str, Any], torch: Any) -> None:
    """The gradients for where it began, and for the gradients that it was given. Some of PyTorch's
    differentiate one step only."""
    one = name in ("Adamax", "RMSprop", "Rprop") or "amsgrad" in kw
    found = []
    for lib in (pf, torch):
        start, slopes = leaves(lib)
        loss = unrolled(lib, name, kw, 1 if one else 3, start, slopes)
        grads = lib.autograd.grad(loss, [*start, *slopes], allow_unused=True)
        found.append([None if g is None else g.numpy() for g in grads])
    alike(*found, 1e-4, 1e-6)  # PyTorch counts in float32 here


@pytest.mark.parametrize(
    ("name", "options", "steps"),
    [
        ("SGD", {"lr": 0.1}, 3), ("SGD", {"lr": 0.1, "weight_decay": 0.2}, 1),
        ("Adam", {"lr": 0.1}, 3),
        ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1}, 1),
    ],
)  # fmt: skip
def test_options_that_are_differentiated_for(
    name: str, options: Any, steps: int, torch: Any
) -> None:
    """Rates, decays and betas may be tensors that need gradients; with all of them PyTorch
    differentiates one step."""
    found = []
    for lib in (pf, torch):
        made, kw = [], {}
        for k, v in options.items():
            some = [lib.tensor(x, dtype=lib.float64) for x in (v if k == "betas" else [v])]
            made += [x.requires_grad_() for x in some]
            kw[k] = tuple(some) if k == "betas" else some[0]
        w = lib.tensor(START[1].astype(np.float64))
        p = w.clone()
        optimizer = getattr(lib.optim, name)([p], differentiable=True, **kw)
        for i in range(steps):
            p.grad = w * (i + 1) + 0.5
            optimizer.step()
        found.append([g.numpy() for g in lib.autograd.grad((p * p).sum(), made)])
    alike(*found, 1e-4, 1e-6)


# Of the library `t`, its `optim` and its `schedulers`
PROGRAMS = programs(r"""
== names of parameters
"They stand in the groups and in the state_dict, which loads with and without them."
net = t.nn.Linear(2, 1)
named, plain = optim.SGD(net.named_parameters(), lr=0.1), optim.SGD(net.parameters(), lr=0.2)
(group,) = named.param_groups
? group["param_names"], group["params"][1] is net.bias
for target, source in ((plain, named), (named, optim.SGD(net.parameters()))):
    target.load_state_dict(source.state_dict())
? repr(plain), repr(named)
== a group is the dict that was given
group = {"params": iter([t.ones(2, requires_grad=True)]), "lr": 0.5}
optimizer = optim.Adam([group], lr=0.1)
? optimizer.param_groups[0] is group, group["lr"], group["eps"], len(group["params"])
other = {"params": t.ones(3, requires_grad=True)}
optimizer.add_param_group(other)
? optimizer.param_groups[1] is other, other["lr"]
class Own(optim.Optimizer):
    pass
module = importlib.import_module(optim.Optimizer.__module__)
? repr(module.required)
rated = [{"params": [t.ones(2)], "rate": 1}]
? Own(rated, {"rate": module.required}).param_groups[0]["rate"]
== hooks
"In PyTorch's order, with its arguments; handles remove them."
log = []
def note(what, gives=None):
    def hook(*args):
        log.append((what, len(args), [len(a) for a in args[1:]]))
        return gives
    return hook
w = t.ones(2, requires_grad=True)
w.grad = t.ones(2)
optimizer = optim.SGD([w], lr=1.0)
start = optimizer.state_dict()
module = importlib.import_module(optim.Optimizer.__module__)
handles = [
    optimizer.register_step_post_hook(note("post")),
    optimizer.register_step_pre_hook(note("pre")),
    module.register_optimizer_step_pre_hook(note("all pre")),
    module.register_optimizer_step_post_hook(note("all post")),
    optimizer.register_state_dict_pre_hook(note("state pre")),
    optimizer.register_state_dict_pre_hook(note("state pre first"), prepend=True),
    optimizer.register_state_dict_post_hook(note("state post", {"mine": 1})),
    optimizer.register_load_state_dict_pre_hook(note("load pre", start)),
    optimizer.register_load_state_dict_post_hook(note("load post")),
    optimizer.register_load_state_dict_post_hook(note("load post first"), prepend=True),
]
optimizer.step()
? optimizer.state_dict()
optimizer.load_state_dict({"any": 1})
copied = copy.deepcopy(optimizer)  # without hooks
? len(log), log
copied.state_dict()
for handle in handles:
    handle.remove()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
? len(log)
optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": lambda: 7}))
? optimizer.step()
optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
with pytest.raises(RuntimeError, match="None or a tuple"):
    optimizer.step()
? w
== a group is added to a scheduler's optimizer
optimizer = optim.SGD([{"params": [t.ones(2).requires_grad_()], "lr": r} for r in (0.1, 0.4)])
plateau, strict = (
    optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, **more)
    for more in ({}, {"min_lr": [0, 0.1]})
)
optimizer.add_param_group({"params": [t.ones(3).requires_grad_()], "lr": 1.0})
plateau.step(1.0)
plateau.step(2.0)
strict.step(1.0)
with pytest.raises(RuntimeError, match="min_lrs"):
    strict.step(2.0)
? [group["lr"] for group in optimizer.param_groups]
== schedulers of a user's own
"With `get_lr` alone, or on top of one that exists."
class Root(optim.lr_scheduler._LRScheduler):
    def get_lr(self):
        return [b / (self.last_epoch + 1) ** 0.5 for b in self.base_lrs]
class Floor(optim.lr_scheduler.ExponentialLR):
    def get_lr(self):
        return [max(lr, 0.05) for lr in super().get_lr()]
optimizer = optim.SGD([{"params": [t.ones(2).requires_grad_()], "lr": r} for r in (0.1, 0.4)])
chain = [Root(optimizer), Floor(optimizer, 0.7)]
optimizer.step()
for _ in range(4):
    for scheduler in chain:
        scheduler.step()
    ? [group["lr"] for group in optimizer.param_groups]
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, torch: Any) -> None:
    theirs, ours = (
        run(PROGRAMS[name], {**globals(), "t": lib, "optim": lib.optim, "copy": copy}, plain)
        for lib in (torch, pf)
    )
    alike(ours, theirs)


def test_hooks_of_a_step_within_a_step() -> None:
    class Twice(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step()
            return super().step(closure)

    w = pf.ones(2, requires_grad=True)
    w.grad = pf.ones(2)
    optimizer, log = Twice([w], lr=1.0), []
    optimizer.register_step_pre_hook(lambda *args: log.append(args))
    assert optimizer.step(lambda: 3) == 3
    assert w.tolist() == [-1, -1]
    assert len(log) == 1


def test_a_differentiable_step_with_a_state_runs_eagerly() -> None:
    runs = []
    for wrap in (lambda f: f, pf.compile):
        p = pf.ones(2)
        optimizer = optim.Adam([p], lr=0.1, differentiable=True)

        def step(x: Any, p: Any = p, optimizer: Any = optimizer) -> Any:
            p.grad = x * 2
            optimizer.step()
            return pf.autograd.grad(p.sum(), x)[0]

        run, seen = wrap(step), []
        for i in range(3):
            with warnings.catch_warnings(record=True, action="always") as told:
                seen.append(run(pf.tensor([0.5 + i, 1.0]).requires_grad_()).tolist())
            if i == 0:
                texts = [str(w.message) for w in told]
            p.detach_()
            for k, v in optimizer.state[p].items():
                optimizer.state[p][k] = v.detach()
        runs.append(seen)
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-6)
    assert any("differentiates through the state of an optimizer" in t for t in texts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("out", [(3, 4), (0, 1, 2)])
def test_who_sits_a_step_out_does_not_count_it(
    out: tuple[int, ...], device: str, torch: Any
) -> None:
    """Also where counters are shared, loaded, and compiled, and where it joins late."""
    found = []
    for lib, wrap in ((torch, lambda f: f), (pf, lambda f: f), (pf, pf.compile)):
        where = {"device": device} if lib is pf else {}
        params = [lib.tensor(a.copy(), **where).requires_grad_() for a in START]
        optimizer = lib.optim.NAdam(params, lr=0.1)

        def step(i: Any, params: Any = params, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            (params[0] ** 2).sum().backward()
            if i:
                (params[1] ** 2).sum().backward()
            optimizer.step()

        run = wrap(step)
        for i in range(8):
            run(i not in out)
            if i == 5:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        counts = [int(optimizer.state[p]["step"].item()) for p in params]
        assert counts == [8, 8 - len(out)]
        found.append([p.detach().cpu().numpy() for p in params])
    for other in found[1:]:
        alike(found[0], other)


@pytest.mark.parametrize("name", ["SGD", "Adam", "ASGD", "Rprop"])
def test_a_rate_on_the_gpu_is_not_read(gpu: str, name: str) -> None:
    """As a tensor there it is an operand, eager and compiled."""
    stats = pf.device(gpu).backend.stats
    for wrap in (lambda f: f, pf.compile):
        w, rate = pf.ones(3, device=gpu).requires_grad_(), pf.tensor([0.1], device=gpu)
        w.grad = pf.ones(3, device=gpu)
        optimizer = getattr(optim, name)([w], lr=rate)
        step = wrap(lambda optimizer=optimizer: optimizer.step())
        for _ in range(3):
            step()
        pf.flush()
        stats.reset()
        before = rate.detach()
        step()
        rate.zero_()
        step()
        pf.flush()
        assert stats.reads == 0
        assert optimizer.param_groups[0]["lr"] is rate is not before
        if name in ("SGD", "Adam"):
            stopped = w.tolist()
            step()
            assert w.tolist() == stopped != [1.0] * 3


def test_old_states_load() -> None:
    """Numbers where there are tensors now, None for what there is none of, options that lack;
    moments take the dtype of their parameter, counters do not."""
    p = pf.ones(2, dtype=pf.float64).requires_grad_()
    optimizer = optim.NAdam([p])
    moments = {k: pf.zeros(2, dtype=pf.float16) for k in ("exp_avg", "exp_avg_sq")}
    groups = [{"params": [0], "lr": 0.5}]
    optimizer.load_state_dict(
        {"state": {0: {"step": 3, "mu_product": 0.2, **moments}}, "param_groups": groups}
    )
    assert {v.dtype for k, v in optimizer.state[p].items() if k in moments} == {pf.float64}
    assert optimizer.state[p]["step"].dtype is pf.float32
    p.grad = pf.ones(2, dtype=pf.float64)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 4
    assert optimizer.state[p]["mu_product"].item() == pytest.approx(0.2 * 0.45, rel=0.01)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["eps"]) == (0.5, 1e-8)

    sgd = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5)
    sgd.load_state_dict({"state": {0: {"momentum_buffer": None}}, "param_groups": groups})
    sgd.step()
    assert sgd.state[p]["momentum_buffer"].tolist() == [1, 1]
    assert sgd.param_groups[0]["lr"] == 0.5

    adamw = optim.AdamW([p])
    adamw.load_state_dict(optim.Adam([p]).state_dict())
    assert adamw.param_groups[0]["decoupled_weight_decay"] is True


def test_complex_parameters_within_a_compiled_step() -> None:
    """Plans of the CPU have no complex numbers: the step goes on eagerly, with its options."""
    runs = []
    for wrap in (lambda f: f, pf.compile):
        z = pf.tensor([1 + 2j, -0.5j]).requires_grad_()
        optimizer = optim.Adam([z], lr=0.1, betas=(0.8, 0.9), amsgrad=True)
        step = wrap(lambda optimizer=optimizer: optimizer.step())
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            for i in range(3):
                z.grad = z.detach() * (1 - 1j * i)
                step()
        runs.append(z.detach().numpy())
    np.testing.assert_allclose(*runs, rtol=1e-5)
