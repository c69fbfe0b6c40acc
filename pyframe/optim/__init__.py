"""Optimizers, as torch.optim: the base class owns the traversal, a subclass writes the formula.

The learning rate stays a Python number in `param_groups`; what changes from step to step reaches
the device as scalars of the recorded program or as tensors, so that equal steps plan nothing.
"""

from __future__ import annotations

import copy
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pyframe as pf
from pyframe.devices import mode
from pyframe.graph.capture import outside
from pyframe.tensor import Tensor, no_grad

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


def _check(name: str, value: float, ok: bool) -> None:
    if not ok:
        raise ValueError(f"Invalid {name}: {value}")


class Optimizer:
    """Base of all optimizers: parameter groups, state, and the walk over them."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}; put it in a list"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own. TypeError/ValueError for what can't be one."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        found = group["params"]
        if isinstance(found, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        items = [found] if isinstance(found, Tensor) else list(found)
        params = [p[1] if isinstance(p, tuple) else p for p in items]
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is "
                                f"{type(p).__name__}")  # fmt: skip
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        if len({id(p) for p in params}) < len(params):
            raise ValueError("a parameter group holds the same parameter twice")
        group["params"] = params
        self.param_groups.append({**self.defaults, **group})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if mode.capture is not None:
                    mode.capture.touch_grad(p, not set_to_none)
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        p.grad.detach_().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure` returns."""
        loss = None
        if closure is not None:
            with pf.enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                if mode.capture is not None:
                    for p in group["params"]:
                        mode.capture.touch_grad(p, True)
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    self._update(group, params)
        pf.flush()
        return loss

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """Write one step of the formula for the parameters of a group."""
        raise NotImplementedError

    @staticmethod
    def _number(
        group: dict[str, Any], params: list[Tensor], get: Callable[[dict[str, Any]], float]
    ) -> Any:
        """A number that the options of a group give: within pf.compile one that each replay asks
        for again."""
        capture = mode.capture
        if capture is None:
            return get(group)
        return capture.scalar(lambda: get(group), params[0].dtype, params[0].device)

    @staticmethod
    def _option(get: Callable[[], Any]) -> Any:
        """What a formula branches on: within pf.compile, another value means another capture."""
        return get() if mode.capture is None else mode.capture.watch(get)

    def _zeros(self, p: Tensor, name: str) -> Tensor:
        """An entry of the state of `p`, zeros when it is first needed."""
        state = self.state[p]
        if name not in state:
            with outside(), no_grad():
                state[name] = pf.zeros_like(p)
        found: Tensor = state[name]
        return found

    def _steps(self, params: list[Tensor]) -> list[tuple[Tensor, list[Tensor]]]:
        """Count this step: (step, the parameters that have taken as many), mostly one pair.

        Parameters that are stepped together share one counter tensor."""
        groups: dict[int, tuple[Tensor, list[Tensor]]] = {}
        fresh: dict[Any, Tensor] = {}
        for p in params:
            step = self.state[p].get("step")
            if step is None:
                if p.device not in fresh:
                    with outside():
                        fresh[p.device] = pf.zeros((), device=p.device)
                step = self.state[p]["step"] = fresh[p.device]
            groups.setdefault(id(step), (step, []))[1].append(p)
        for step, _ in groups.values():
            step.add_(1)
        return list(groups.values())

    def state_dict(self) -> dict[str, Any]:
        """{'state': by parameter number, 'param_groups'}, as PyTorch's."""
        number: dict[int, int] = {}
        for group in self.param_groups:
            for p in group["params"]:
                number[id(p)] = len(number)
        groups = [
            {**{k: v for k, v in g.items() if k != "params"},
             "params": [number[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]  # fmt: skip
        state = {number[id(p)]: dict(s) for p, s in self.state.items() if id(p) in number}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state_dict. ValueError if its groups don't fit; then nothing is loaded."""
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        params: dict[int, Tensor] = {}
        for own, new in zip(self.param_groups, groups, strict=True):
            if len(own["params"]) != len(new["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: {len(new['params'])} parameters, expected "
                    f"{len(own['params'])}"
                )
            params.update(zip(new["params"], own["params"], strict=True))
        moved: dict[tuple[int, Any], Tensor] = {}  # a counter that parameters shared stays shared

        def take(name: str, value: Any, p: Tensor) -> Any:
            if name == "step" and isinstance(value, int | float):
                value = pf.tensor(float(value))  # as PyTorch before 1.12 kept it
            if not isinstance(value, Tensor):
                return copy.deepcopy(value)
            key = (id(value), p.device)
            if key not in moved:
                dtype = value.dtype if name == "step" else p.dtype
                moved[key] = value.detach().to(p.device, dtype).clone()
            return moved[key]

        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for key, values in state_dict["state"].items():
            if key not in params:
                raise ValueError(f"loaded state dict names parameter {key}, which no group has")
            p = params[key]
            for name, v in values.items():
                if name != "step" and isinstance(v, Tensor) and v.shape != p.shape:
                    raise ValueError(
                        f"loaded state dict: {name} of parameter {key} has shape {list(v.shape)}, "
                        f"expected {list(p.shape)}"
                    )
            state[p] = {name: take(name, v, p) for name, v in values.items()}
        self.state = state
        for own, new in zip(self.param_groups, groups, strict=True):
            own.update({k: copy.deepcopy(v) for k, v in new.items() if k != "params"})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; p -= lr * v (or lr * (g + momentum * v), nesterov).

    https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        _check("learning rate", lr, lr >= 0)
        _check("momentum value", momentum, momentum >= 0)
        _check("weight_decay value", weight_decay, weight_decay >= 0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        number = functools.partial(self._number, group, params)
        lr, momentum = number(lambda h: h["lr"]), number(lambda h: h["momentum"])
        decay = number(lambda h: h["weight_decay"])
        undamped = number(lambda h: 1 - h["dampening"])
        decays, moves, dampens, nesterov, maximize = self._option(lambda: (
            group["weight_decay"] != 0, group["momentum"] != 0, group["dampening"] != 0,
            group["nesterov"], group["maximize"],
        ))  # fmt: skip
        for p in params:
            assert p.grad is not None
            g = -p.grad if maximize else p.grad
            if decays:
                g = g + p * decay
            if moves:
                state = self.state[p]
                # the first step is not damped: v = g
                if dampens and not self._option(functools.partial(_has, state, "momentum_buffer")):
                    v = state["momentum_buffer"] = g.clone()
                else:
                    v = self._zeros(p, "momentum_buffer")
                    v.mul_(momentum).add_(g * undamped if dampens else g)
                g = g + v * momentum if nesterov else v
            p.sub_(g * lr)


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * m^ / (sqrt(v^) + eps).

    m^ and v^ are m / (1 - b1^t) and v / (1 - b2^t) (Kingma & Ba 2015, arXiv 1412.6980). Weight
    decay is added to the gradient.
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        _check("learning rate", lr, lr >= 0)
        _check("epsilon value", eps, eps >= 0)
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1)
        _check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        number = functools.partial(self._number, group, params)
        lr, eps = number(lambda h: h["lr"]), number(lambda h: h["eps"])
        decay = number(lambda h: h["weight_decay"])
        shrink = number(lambda h: 1 - h["lr"] * h["weight_decay"])
        b1, b2 = number(lambda h: h["betas"][0]), number(lambda h: h["betas"][1])
        rest1, rest2 = number(lambda h: 1 - h["betas"][0]), number(lambda h: 1 - h["betas"][1])
        log1, log2 = number(lambda h: _log(h["betas"][0])), number(lambda h: _log(h["betas"][1]))
        decays, maximize, amsgrad, moves = self._option(lambda: (
            group["weight_decay"] != 0, group["maximize"], group["amsgrad"], group["lr"] != 0
        ))  # fmt: skip
        for step, together in self._steps(params):
            # with c = sqrt(1 - b2^t): lr m^ / (sqrt(v^) + eps) = m / ((sqrt(v) + eps c) / rate)
            c = (-pf.expm1(step * log2)).sqrt()
            rate, eps_c = c / -pf.expm1(step * log1) * lr, c * eps
            for p in together:
                assert p.grad is not None
                g = -p.grad if maximize else p.grad
                if decays:
                    if self.decoupled:
                        p.mul_(shrink)
                    else:
                        g = g + p * decay
                m = self._zeros(p, "exp_avg")
                v = self._zeros(p, "exp_avg_sq")
                m.mul_(b1).add_(g * rest1)
                v.mul_(b2).add_(g * g * rest2)
                if amsgrad:
                    top = self._zeros(p, "max_exp_avg_sq")
                    v = top.copy_(pf.maximum(top, v))
                if moves:
                    p.sub_(m / ((v.sqrt() + eps_c) / rate))


def _has(state: dict[str, Any], name: str) -> bool:
    return name in state


def _log(beta: float) -> float:
    """log(beta), for 1 - beta^t as -expm1(t log(beta)): the difference would lose most digits."""
    return math.log(beta) if beta else -math.inf


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters themselves (arXiv 1711.05101)."""

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
