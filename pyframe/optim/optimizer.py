"""What all optimizers share: the base class owns the traversal, a subclass writes the formula.

The learning rate stays a Python number in `param_groups`; what changes from step to step reaches
the device as scalars of the recorded program or as tensors, so that equal steps plan nothing.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyframe as pf
from pyframe.devices import mode
from pyframe.graph.capture import outside
from pyframe.graph.fed import Number, is_number
from pyframe.tensor import Tensor, no_grad

__all__ = ["Optimizer"]


def _kind(x: Any) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__


class Optimizer:
    """Base of all optimizers: parameter groups, state, and the walk over them."""

    _opt_called = False  # whether `step` was called: a scheduler warns where it was not

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        hint = self._hint(params)
        if hint:
            raise TypeError(
                f"{type(self).__name__}: params argument given to the optimizer should be an "
                f"iterable of Tensors or dicts, but got {_kind(params)}{hint}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError(
                f"{type(self).__name__}: optimizer got an empty parameter list; net.parameters() "
                "gives them once, and finds no layers in a plain list (make it an nn.ModuleList)"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @staticmethod
    def _hint(params: Any) -> str:
        """What to do about `params` that can't be iterated over; empty if they can."""
        if isinstance(params, Tensor):
            return "; put it in a list"
        if isinstance(params, dict):
            return "; put a parameter group in a list, and of a network give net.parameters()"
        if isinstance(params, Iterable) and not isinstance(params, (str, bytes)):
            return ""
        if hasattr(params, "named_parameters"):
            return "; give net.parameters()"
        return "; call it: net.parameters()" if callable(params) else "; give net.parameters()"

    def _check(self, what: str, value: Any, below: float = math.inf, low: float = 0) -> None:
        """TypeError for an option that is no number, ValueError unless low <= it < below."""
        name = type(self).__name__
        bounds = [f"at least {low:g}"] if low > -math.inf else []
        bounds += [f"below {below:g}"] if below < math.inf else []
        expected = f"expected a number {' and '.join(bounds)}".rstrip()
        try:
            fits = bool(low <= value) and (below == math.inf or bool(value < below))
        except (TypeError, RuntimeError, ValueError):
            raise TypeError(f"{name}: Invalid {what}: {value!r}; {expected}") from None
        if not fits:
            raise ValueError(f"{name}: Invalid {what}: {value}; {expected}")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own. TypeError/ValueError for what can't be one."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        if "params" not in group:
            raise KeyError(f"params: a parameter group needs them beside {sorted(group)}")
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
                hint = "; give net.parameters()" if hasattr(p, "parameters") else ""
                raise TypeError(
                    f"{type(self).__name__}: optimizer can only optimize Tensors, but one of the "
                    f"params is {_kind(p)}{hint}"
                )
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
        self._opt_called = True
        if closure is not None:
            with pf.enable_grad():
                loss = closure()
        with no_grad():
            for i, group in enumerate(self.param_groups):
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    try:
                        if mode.capture is None:
                            self._update(group, params)
                        else:
                            options = _Live(self, i)
                            self._update(options, params)
                            if mode.capture is not None:  # it ends where a value is read
                                mode.capture.watch(options.kinds())
                    except TypeError:
                        self._check_options(group)
                        raise
        pf.flush()
        return loss

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """TypeError or ValueError for options that `_update` can't work with."""

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        """Write one step of the formula for the parameters of a group. Within pf.compile its
        options are Numbers, asked for again at each replay."""
        raise NotImplementedError

    def _has(self, p: Tensor, name: str) -> bool:
        """Whether the state of `p` has an entry: within pf.compile, another answer means another
        capture."""
        me, of = weakref.ref(self), weakref.ref(p)

        def known() -> bool:
            optimizer, param = me(), of()
            return optimizer is not None and param is not None and name in optimizer.state[param]

        return known() if mode.capture is None else bool(mode.capture.watch(known))

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
        fits = isinstance(state_dict, Mapping)
        if not fits or "param_groups" not in state_dict or "state" not in state_dict:
            seen = f"the keys {list(state_dict)[:5]}" if fits else _kind(state_dict)
            raise (KeyError if fits else TypeError)(
                f"{type(self).__name__}.load_state_dict: expected what an optimizer's state_dict() "
                f"gives, with 'param_groups' and 'state', got {seen}"
            )
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


def _number(option: Any) -> Any:
    """An option that is a tensor, as a number."""
    with outside():
        return option.item() if isinstance(option, Tensor) else option


class _Live(Mapping[str, Any]):
    """The options of a group for a capture: each replay asks for its numbers again. It keeps no
    optimizer alive."""

    def __init__(self, optimizer: Optimizer, number: int) -> None:
        self._optimizer, self._number = weakref.ref(optimizer), number
        self._read: dict[str, Any] = {}
        self._numbers: list[str] = []
        self._tuples: list[str] = []
        self._flags: list[str] = []
        self._others: list[str] = []

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            ref, i = self._optimizer, self._number
            value = ref().param_groups[i][name]  # type: ignore[union-attr]
            get: Callable[[], Any] = lambda: ref().param_groups[i][name]  # type: ignore[union-attr]  # noqa: E731
            if type(value) is Number:  # it is fed already
                pass
            elif isinstance(value, (tuple, list)):
                self._tuples.append(name)
                value = type(value)(
                    Number(lambda k=k: get()[k]) if is_number(v) else v for k, v in enumerate(value)
                )
            elif is_number(value) or (isinstance(value, Tensor) and value.numel() == 1):
                self._numbers.append(name)
                value = Number(get if is_number(value) else lambda: _number(get()))
            else:
                flag = isinstance(value, (bool, str, type(None)))
                (self._flags if flag else self._others).append(name)
            self._read[name] = value
        return self._read[name]

    def kinds(self) -> Callable[[], Any]:
        """What tells what a replay relies on: of numbers their types, flags, and of all else what
        it is."""
        ref, i = self._optimizer, self._number
        numbers, flags, tuples, others = self._numbers, self._flags, self._tuples, self._others

        def tell() -> list[Any]:
            get = ref().param_groups[i].__getitem__  # type: ignore[union-attr]
            out = [*map(type, map(get, numbers)), *map(get, flags)]
            for name in tuples:
                out += map(type, get(name))
            for name in others:
                out.append(id(get(name)))
            return out

        return tell

    def __iter__(self) -> Iterator[str]:
        return iter(self._optimizer().param_groups[self._number])  # type: ignore[union-attr]

    def __len__(self) -> int:
        return len(list(iter(self)))
