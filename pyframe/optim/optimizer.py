"""What all optimizers share: the base class owns the traversal, a subclass writes the formula.

A subclass names its options with the intervals that they lie in, and writes one step of its formula
for the parameters of a group. What changes from step to step reaches the device as scalars of the
recorded program or as tensors, so that equal steps plan nothing.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import pyframe as pf
from pyframe.autograd.walk import zero_grads
from pyframe.core import grad_node, module_of
from pyframe.core.dispatch import is_eager, suspend_capture
from pyframe.core.grad_node import RemovableHandle
from pyframe.core.modes import mode, no_grad
from pyframe.core.packages import OPTIMIZERS
from pyframe.core.symbolic import SymbolicScalar, apply_symbolic, is_number, log
from pyframe.tensor import Tensor
from pyframe.tensor.subgraph import SubgraphInputs, SubgraphRecorder, can_cache_subgraph

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()  # the default of an option that each group has to give

_pre_hooks: list[Callable[..., Any]] = []  # of all optimizers
_post_hooks: list[Callable[..., Any]] = []
_HOOKS = tuple(
    f"_optimizer_{what}_{when}_hooks"
    for what in ("step", "state_dict", "load_state_dict")
    for when in ("pre", "post")
)
USUAL_RANGES = {  # of the options that most optimizers have
    "lr": "[0, inf]", "eps": "[0, inf]", "betas": "[0, 1)", "weight_decay": "[0, inf]",
}  # fmt: skip
_WORDS = {"lr": "learning rate", "eps": "epsilon value", "betas": "beta parameter"}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Before each step of any optimizer call `hook(optimizer, args, kwargs)`; see
    Optimizer.register_step_pre_hook."""
    return RemovableHandle(_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """After each step of any optimizer call `hook(optimizer, args, kwargs)`."""
    return RemovableHandle(_post_hooks, hook)


def _hooked(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` with the hooks around it, those of the class that the object is of."""

    @functools.wraps(fn)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self).step is not step:  # a subclass's step calls this one
            return fn(self, *args, **kwargs)
        if mode.capture is not None:
            mode.capture.watch(lambda: grad_node.changes)
        args = (self, *args)
        for hook in (*_pre_hooks, *self._optimizer_step_pre_hooks):
            result = hook(self, args, kwargs)
            if result is not None:
                if not isinstance(result, tuple) or len(result) != 2:
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a pre-hook must return None or a tuple of "
                        f"(new_args, new_kwargs), got {result!r}"
                    )
                args, kwargs = result
        self._opt_called = True
        out = fn(*args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks, *_post_hooks):
            hook(self, args, kwargs)
        return out

    return step


def _kind(x: Any) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__


def nonzero(option: Any) -> bool:
    """Whether an option acts at all; a tensor, which is not looked at, always does."""
    return isinstance(option, Tensor) or bool(option != 0)


def options(given: dict[str, Any], last: str = "") -> dict[str, Any]:
    """The options among what an optimizer's `__init__` was given, its `locals()`; in PyTorch's
    order, which has some of them last."""
    names = [k for k in given if k not in ("self", "params", "__class__", *last.split())]
    return {name: given[name] for name in (*names, *last.split())}


def scalar(option: Any) -> Any:
    """An option; a tensor of one element has no dims."""
    return option.reshape(()) if isinstance(option, Tensor) and option.ndim else option


def one_minus_power(beta: Any, t: Tensor) -> Tensor:
    """1 - beta^t as -expm1(t log(beta)): the difference would lose most digits."""
    exponent = beta.log() if isinstance(beta, Tensor) else apply_symbolic(log, beta)
    return -pf.expm1(t * exponent)


def _full(value: Any, of: Tensor) -> Tensor:
    """Of the shape of `of`, whose own value may not be known yet; of a complex one both parts."""
    x = float(value)
    return pf.full(
        of.shape, complex(x, x) if of.dtype.is_complex else x, dtype=of.dtype, device=of.device
    )


class State:
    """What an optimizer keeps for a parameter, each entry made when it is first needed.

    Entries of a complex parameter are seen as pairs of real numbers, as the parameter is."""

    __slots__ = ("_at_once", "_before", "_complex", "_entries", "_made", "_rebinds", "of")

    def __init__(
        self, entries: dict[str, Any], of: Tensor, made: Callable[[], Any], rebinds: bool = False,
        before: _StepSnapshot | None = None,
    ) -> None:  # fmt: skip
        """`made`: what entries are made within. `rebinds`: an update makes a new tensor, which
        autograd can follow. `before`: where new entries are kept as they begin."""
        self._before = before
        self._entries = entries
        self.of = of
        self._made = made
        self._rebinds = rebinds
        self._complex = of.dtype.is_complex
        self._at_once = is_eager(of.device)

    def get(self, name: str, make: Callable[[Tensor], Tensor]) -> Tensor:
        """An entry, at first what `make` gives for the parameter."""
        found: Tensor | None = self._entries.get(name)
        if found is None:
            with self._made(), no_grad():
                found = self._entries[name] = make(self.of)
            if self._before is not None:
                self._before.keep(found)
        return pf.view_as_real(found) if self._complex and found.is_complex() else found

    def zeros(self, name: str) -> Tensor:
        """An entry, zeros at first."""
        return self.get(name, functools.partial(_full, 0.0))

    def full(self, name: str, value: Any) -> Tensor:
        """An entry, full of a number at first."""
        return self.get(name, functools.partial(_full, value))

    def put(self, name: str, value: Tensor) -> Tensor:
        """Write to an entry, which was got before; returns it."""
        if self._rebinds:
            self._entries[name] = pf.view_as_complex(value) if self._complex else value
            return value
        return self.zeros(name).copy_(value)

    def follow(self, name: str, x: Tensor, rest: Any) -> Tensor:
        """An entry that follows `x`: entry + rest * (x - entry)."""
        old = self._entries.get(name)
        if old is None or self._complex:
            old = self.zeros(name)
        step = x - old
        if self._rebinds:
            return self.put(name, old + step * rest)
        return old.add_(self._scaled(step, rest))

    def _scaled(self, x: Tensor, by: Any) -> Tensor:
        """x * by, in the memory of `x`, which nobody else needs, where ops run at once; what is
        recorded fuses better without writes."""
        return x.mul_(by) if self._at_once else x * by

    def squares(self, name: str, x: Tensor, keep: Any, rest: Any) -> Tensor:
        """An entry that is the mean square of `x`: keep * entry + rest * x^2."""
        old = self._entries.get(name)
        if old is None or self._complex:
            old = self.zeros(name)
        if self._rebinds:
            return self.put(name, old * keep + x * x * rest)
        return old.mul_(keep).add_(self._scaled(x * x, rest))

    def sum_up(self, name: str, x: Tensor, keep: Any, rest: Any = None) -> Tensor:
        """An entry that sums up `x`: keep * entry + rest * x, or + x alone."""
        old = self._entries.get(name)
        if old is None or self._complex:
            old = self.zeros(name)
        if rest is not None:
            x = x * rest
        return self.put(name, old * keep + x) if self._rebinds else old.mul_(keep).add_(x)


class _StepSnapshot:
    """What a step writes to, with its values before it."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._ids: set[int] = set()
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.keep(p)
                    for value in optimizer.state.get(p, {}).values():
                        self.keep(value)

    def keep(self, x: Any) -> None:
        """Remember a tensor; a counter is shared by many parameters."""
        if isinstance(x, Tensor) and id(x) not in self._ids:
            self._ids.add(id(x))
            self._kept.append((x, x.detach().clone()))

    def again(self, found: Tensor) -> None:
        """Unless `found` is 0, let everything be as it was: computed with the step, not read."""
        skip = found != 0
        at = {found.device: skip}
        for x, old in self._kept:
            d = x.device
            if d not in at:
                at[d] = skip.to(d)
            x.copy_(pf.where(at[d], old, x))


class Optimizer:
    """Base of all optimizers: parameter groups, state, and the walk over them.

    `step()` updates the parameters by their gradients, `zero_grad()` removes these,
    `add_param_group` adds parameters, `state_dict()` has options and state. A subclass writes
    `_update`.

    Args:
        params: parameters, or dicts {"params": …, "lr": …} of groups with options of their own.
        defaults: the options of groups that don't give their own.

    Attributes:
        param_groups: a dict of options for each group, with its "params"; changes hold from the
            next step on.
        state: what is kept for each parameter, as means of gradients, by the parameter.

    Raises:
        TypeError: `params` can't be iterated over.
        ValueError: there are no parameters, or an option is out of range.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> groups = [{"params": net[0].parameters()}, {"params": net[1].parameters(), "lr": 0.01}]
    >>> [group["lr"] for group in optim.SGD(groups, lr=0.1).param_groups]
    [0.1, 0.01]
    """

    _ranges: ClassVar[Mapping[str, str]] = {}  # in which intervals options lie: "[0, 1)"
    _counters: ClassVar[tuple[str, ...]] = ("step",)  # entries that parameters have in common
    _decays = True  # the option weight_decay is taken care of here
    _capture: Callable[[], Any] = staticmethod(lambda: None)  # in which it was made
    _opt_called = False  # whether `step` was called: a scheduler warns where it was not
    _before: _StepSnapshot | None = None  # of the step that runs

    # A tensor, set by GradScaler while `step` runs: unless it is 0 the step changes nothing. It is
    # not read, so this works within pf.compile.
    found_inf: Tensor | None = None

    # Empty for those that never call __init__, such as one that wraps another one.
    _optimizer_step_pre_hooks: Sequence[Any] = ()
    _optimizer_step_post_hooks: Sequence[Any] = ()
    _optimizer_state_dict_pre_hooks: Sequence[Any] = ()
    _optimizer_state_dict_post_hooks: Sequence[Any] = ()
    _optimizer_load_state_dict_pre_hooks: Sequence[Any] = ()
    _optimizer_load_state_dict_post_hooks: Sequence[Any] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        self._check_options(defaults)
        hint = self._hint(params)
        if hint:
            raise TypeError(
                f"{name}: params argument given to the optimizer should be an "
                f"iterable of Tensors or dicts, but got {_kind(params)}{hint}"
            )
        self.defaults = defaults
        for hooks in _HOOKS:
            setattr(self, hooks, [])
        if mode.capture is not None:
            self._capture = weakref.ref(mode.capture)
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError(
                f"{name}: optimizer got an empty parameter list; net.parameters() "
                "gives them once, and finds no layers in a plain list (make it an nn.ModuleList)"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        for other in ("differentiable", "foreach"):
            if defaults.get("fused") and defaults.get(other):
                raise RuntimeError(
                    f"{name}: fused=True goes without {other}=True; give one of them"
                )

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

    def _check(self, what: str, value: Any, interval: str) -> None:
        """TypeError for an option that is no number, ValueError unless it lies in "[low, high)"."""
        invalid = f"{type(self).__name__}: Invalid {what}: "
        expected = f"; expected a number in {interval}"
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(f"{invalid}a tensor of {value.numel()} elements{expected}")
        low, high = map(float, interval[1:-1].split(","))
        try:
            fits = bool(low <= value if interval[0] == "[" else low < value)
            fits = fits and bool(value <= high if interval[-1] == "]" else value < high)
        except (TypeError, RuntimeError, ValueError):
            raise TypeError(f"{invalid}{value!r}{expected}") from None
        if not fits:
            raise ValueError(f"{invalid}{value}{expected}")

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """TypeError or ValueError for options that `_update` can't work with."""
        for name, interval in self._ranges.items():
            if name not in options:
                continue
            value, what = options[name], _WORDS.get(name, f"{name} value")
            if name != "betas":
                self._check(what, value, interval)
                continue
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise (ValueError if isinstance(value, (tuple, list)) else TypeError)(
                    f"{type(self).__name__}: Invalid betas: expected two numbers in {interval}, "
                    f"such as (0.9, 0.999), got {value!r}"
                )
            for i, beta in enumerate(value):
                self._check(f"{what} at index {i}", beta, interval)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, or (name, parameter) pairs, with options of their own.

        TypeError or ValueError for what can't be one; UserWarning if a parameter is there twice.

        Args:
            param_group: a dict: "params" and options, which by default are the optimizer's.
        """
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: param_group must be a dict, but got {_kind(param_group)}")
        group = param_group
        if "params" not in group:
            raise KeyError(f"params: a parameter group needs them beside {sorted(group)}")
        found = group["params"]
        if isinstance(found, set):
            raise TypeError(
                f"{name}: optimizer parameters need an order, and the ordering of tensors in sets "
                "changes between runs; use a list"
            )
        items = [found] if isinstance(found, Tensor) else list(found)
        params = [p[1] if isinstance(p, tuple) else p for p in items]
        names = [p[0] for p in items if isinstance(p, tuple)]
        if names and len(names) < len(items):
            raise ValueError(
                f"{name}: all parameters of an optimizer have names or none has; {len(names)} of "
                f"{len(items)} have one"
            )
        for p in params:
            if not isinstance(p, Tensor):
                hint = "; give net.parameters()" if hasattr(p, "parameters") else ""
                raise TypeError(
                    f"{name}: optimizer can only optimize Tensors, but one of the "
                    f"params is {_kind(p)}{hint}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError(
                    f"{name}: can't optimize a non-leaf Tensor; give what it was computed from, or "
                    "its .detach()"
                )
        for option, value in self.defaults.items():
            if value is required and option not in group:
                raise ValueError(f"{name}: a parameter group has to give the option {option}")
        if len({id(p) for p in params}) < len(params):
            warnings.warn(
                f"{name}: a parameter group with duplicate parameters; each of them is updated "
                "as often as it is there",
                stacklevel=3,
            )
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in known for p in params):
            raise ValueError(f"{name}: some parameters appear in more than one parameter group")
        named = bool(names) or "param_names" in group
        if any(("param_names" in g) != named for g in self.param_groups):
            raise ValueError(
                f"{name}: all groups of an optimizer have parameter names or none has; this one is "
                f"{'with' if named else 'without'} names"
            )
        group["params"] = params
        if names:
            group["param_names"] = names
        for option, value in self.defaults.items():
            group.setdefault(option, value)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero.

        Args:
            set_to_none: False sets them to zero.
        """
        zero_grads(chain.from_iterable(g["params"] for g in self.param_groups), set_to_none)

    @_hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure` returns."""
        loss = None
        if closure is not None:
            with pf.enable_grad():
                loss = closure()
        differentiable = self.defaults.get("differentiable")
        if differentiable and mode.capture is not None and not self._is_made_here():
            mode.capture.graph_break("differentiates through the state of an optimizer")
        with pf.enable_grad() if differentiable else no_grad():
            found = self.found_inf
            if found is not None:
                self._before = _StepSnapshot(self)
            for i, group in enumerate(self.param_groups):
                params = [p for p in group["params"] if p.grad is not None]
                if len(params) < len(group["params"]):
                    self._part(group["params"], params)
                if params:
                    try:
                        if mode.capture is None:
                            self._update_again(i, params)
                        elif self._is_made_here():
                            self._update(group, params)
                        else:
                            options = _DynamicOptions(self, i)
                            self._update(options, params)
                            if mode.capture is not None:  # it ends where a value is read
                                mode.capture.watch(options.kinds())
                    except TypeError:
                        self._check_options(group)
                        raise
            if found is not None and self._before is not None:
                before, self._before = self._before, None
                before.again(found)
        pf.flush()
        return loss

    def _update_again(self, i: int, params: list[Tensor]) -> None:
        """`_update` of a group: on the CPU, once it was done for tensors like these, as one
        subgraph, to which options that are numbers are given anew."""
        group, given = self.param_groups[i], self._given(i, params)
        if given is None:
            self._update(group, params)
            return
        known = self.__dict__.setdefault("_updates", {}).setdefault(tuple(given.kinds), [])
        for graph in known:
            if graph is not None and graph.call(given) is not None:
                return
        if None in known or len(known) >= 8:
            self._update(group, params)
            return
        options, noting = _DynamicOptions(self, i), SubgraphRecorder(given)
        with noting:
            self._update(options, params)
            tell = options.kinds()
            noting.watch(tell, tell())
        after = self._given(i, params)  # its state is made by the first step
        same = after is not None and [*map(id, after.tensors)] == [*map(id, given.tensors)]
        known.append(noting.finish([]) if same else None)

    def _given(self, i: int, params: list[Tensor]) -> SubgraphInputs | None:
        """What an update of parameters of the CPU is given; None where it is not recorded as a
        whole."""
        if mode.trace is None or mode.grad or self._before is not None or not can_cache_subgraph():
            return None
        if not module_of(type(self)).startswith("pyframe.optim."):
            return None
        if any(_has_tensors(v) for k, v in self.param_groups[i].items() if k != "params"):
            return None
        given = SubgraphInputs(i)
        kinds, add = given.kinds, given.add
        for p in params:
            entries = self.state[p]
            kinds.append(tuple(entries))
            for x in (p, p.grad, *entries.values()):
                at = add(x) if isinstance(x, Tensor) and not x._view_chain else None
                if at is None:
                    return None
                kinds.append(at)
        return given if given.wide and not given.exposed else None

    @property
    def skips_on_device(self) -> bool:
        """Whether `step` heeds `found_inf`: a subclass with a step of its own does not."""
        return type(self).step is Optimizer.step and not self.defaults.get("differentiable")

    def _is_made_here(self) -> bool:
        """Whether it was made in the capture that runs: its options are what they are, and a
        replay begins with a new state."""
        return mode.capture is not None and self._capture() is mode.capture

    def _making(self) -> Any:
        """The context to make state in."""
        return contextlib.nullcontext() if self._is_made_here() else suspend_capture()

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        """Write one step of the formula for the parameters of a group. Within pf.compile its
        options are SymbolicScalars, which each replay evaluates again."""
        raise NotImplementedError

    def _each(
        self, group: Mapping[str, Any], params: list[Tensor]
    ) -> Iterator[tuple[Tensor, Tensor, State]]:
        """(parameter, gradient, state), with `maximize` and `weight_decay` taken care of; complex
        ones are pairs of real numbers."""
        maximize, fused, rebinds = group.get("maximize"), group.get("fused"), pf.is_grad_enabled()
        if rebinds and group.get("foreach"):
            raise AssertionError(
                f"{type(self).__name__}: differentiable=True goes without foreach=True"
            )
        own = self.defaults  # a group may name options of other optimizers
        decay = group["weight_decay"] if self._decays and "weight_decay" in own else 0
        decays = nonzero(decay)
        shrink = None
        if decays and "decoupled_weight_decay" in own and group["decoupled_weight_decay"]:
            shrink = 1 - scalar(group["lr"]) * decay
        states, making, before = self.state, self._making, self._before
        for p in params:
            state = State(states[p], p, making, rebinds, before)
            g = p.grad
            assert g is not None
            if state._complex:
                p, g = pf.view_as_real(p), pf.view_as_real(g)
            if fused and (state._complex or not p.is_floating_point()):
                raise RuntimeError(
                    f"{type(self).__name__}: fused=True needs floating point parameters, got one "
                    f"of {p.dtype}"
                )
            if maximize:
                g = -g
            if shrink is not None:
                p.mul_(shrink)
            elif decays:  # a tensor as factor may need the value that p has now
                g = g + (p.clone() if isinstance(decay, Tensor) else p) * decay
            yield p, g, state

    def _has(self, p: Tensor, name: str) -> bool:
        """Whether the state of `p` has an entry: within pf.compile, another answer means another
        capture."""
        me, of = weakref.ref(self), weakref.ref(p)

        def known() -> bool:
            optimizer, param = me(), of()
            return (
                optimizer is not None
                and param is not None
                and optimizer.state[param].get(name) is not None
            )

        if mode.capture is None or self._is_made_here():
            return known()
        return bool(mode.capture.watch(known))

    def _steps(self, params: list[Tensor], **first: Any) -> list[Any]:
        """Count this step: (step, …, the parameters that have taken as many), mostly one row.

        Parameters that are stepped together share the tensors of the class's `_counters`; what the
        others than the step begin with is in `first`."""
        groups: dict[int, tuple[dict[str, Any], list[Tensor]]] = {}
        for p in params:
            state = self.state[p]
            if "step" not in state:
                self._begin(params, **first)
            groups.setdefault(id(state["step"]), (state, []))[1].append(p)
        rows = []
        for state, together in groups.values():
            t = state["step"].add_(1)
            if together[0].dtype is pf.float64:
                t = t.double()
            elif pf.is_grad_enabled():  # what it is now may be needed later
                t = t.clone()
            rows.append((t, *(state[name] for name in self._counters[1:]), together))
        return rows

    def _begin(self, params: list[Tensor], **first: Any) -> None:
        """Make the counters of the parameters that have none yet."""
        fresh: dict[Any, dict[str, Tensor]] = {}
        for p in params:
            if "step" in self.state[p]:
                continue
            kind = p.device, p.dtype is pf.float64
            if kind not in fresh:
                wide = pf.get_default_dtype() is pf.float64 and p.device.kind == "cpu"
                dtype = pf.float64 if wide else pf.float32
                with self._making(), no_grad():
                    fresh[kind] = {
                        name: pf.full((), float(first.get(name, 0)), dtype=dtype, device=p.device)
                        for name in self._counters
                    }
                if self._before is not None:
                    for counter in fresh[kind].values():
                        self._before.keep(counter)
            self.state[p].update(fresh[kind])

    def _part(self, group: list[Tensor], present: list[Tensor]) -> None:
        """Parameters of a group that sit a step out no longer count with those that take it."""
        counting = {id(self.state[p].get("step")) for p in present}
        copies: dict[int, dict[str, Tensor]] = {}
        for p in group:
            state = self.state.get(p, {}) if p.grad is None else {}
            step = state.get("step")
            if step is not None and id(step) in counting:
                if id(step) not in copies:
                    with self._making(), no_grad():
                        copies[id(step)] = {n: state[n].clone() for n in self._counters}
                state.update(copies[id(step)])

    def _after(self, when: str, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
        hooks = getattr(self, f"_optimizer_{when}_hooks")
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.insert(0, hooks.pop())
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Before each step call `hook(optimizer, args, kwargs)`, args with the optimizer; what it
        gives but None, a pair, are the args and kwargs of the step. The handle removes it."""
        return self._after("step_pre", hook, False)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """After each step call `hook(optimizer, args, kwargs)`."""
        return self._after("step_post", hook, False)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Before each state_dict() call `hook(optimizer)`.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._after("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)`; what it gives but None is what state_dict() gives.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._after("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)`; what it gives but None is loaded.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._after("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """After each load_state_dict() call `hook(optimizer)`.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._after("load_state_dict_post", hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """{'state': by parameter number, 'param_groups'}, as PyTorch's."""
        for hook in self._optimizer_state_dict_pre_hooks:
            hook(self)
        number: dict[int, int] = {}
        for i, p in enumerate(chain.from_iterable(g["params"] for g in self.param_groups)):
            number.setdefault(id(p), i)
        groups = [
            {**{k: v for k, v in g.items() if k != "params"},
             "params": [number[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]  # fmt: skip
        state = {
            number[id(p)] if isinstance(p, Tensor) else p: dict(s)
            for p, s in self.state.items()
            if id(p) in number or not isinstance(p, Tensor)
        }
        out: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks:
            result = hook(self, out)
            out = out if result is None else result
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a copy of a state_dict, on the devices and with the dtypes of the parameters.

        ValueError if its groups or its tensors don't fit; then nothing is loaded."""
        state_dict = copy.copy(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks:
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        name = type(self).__name__
        fits = isinstance(state_dict, Mapping)
        if not fits or "param_groups" not in state_dict or "state" not in state_dict:
            seen = f"the keys {list(state_dict)[:5]}" if fits else _kind(state_dict)
            raise (KeyError if fits else TypeError)(
                f"{name}.load_state_dict: expected what an optimizer's state_dict() "
                f"gives, with 'param_groups' and 'state', got {seen}"
            )
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"{name}: loaded state dict has a different number of parameter groups: "
                f"{len(groups)}, expected {len(self.param_groups)}"
            )
        params: dict[Any, tuple[int, Tensor]] = {}
        for i, (own, new) in enumerate(zip(self.param_groups, groups, strict=True)):
            if len(own["params"]) != len(new["params"]):
                raise ValueError(
                    f"{name}: loaded state dict contains a parameter group that doesn't match the "
                    f"size of optimizer's group: {len(new['params'])} parameters, expected "
                    f"{len(own['params'])}"
                )
            params.update(zip(new["params"], ((i, p) for p in own["params"]), strict=True))

        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        shared: dict[Any, dict[str, Any]] = {}  # counters that are alike, for those of a group
        for key, values in state_dict["state"].items():
            if key not in params:
                if isinstance(key, int):
                    raise ValueError(
                        f"{name}: loaded state dict names parameter {key}, which no group has"
                    )
                state[key] = copy.deepcopy(values)
                continue
            i, p = params[key]
            taken = {k: self._taken(f"{k} of parameter {key}", k, v, p) for k, v in values.items()}
            if all(isinstance(taken.get(k), Tensor) for k in self._counters):
                counters = {k: taken[k] for k in self._counters}
                # those of a file lie on the host, where they can be read without waiting
                given = [values[k] for k in self._counters]
                counts = [v.item() if isinstance(v, Tensor) else v for v in given]
                alike = (i, p.device, p.dtype is pf.float64, *counts)
                taken.update(shared.setdefault(alike, counters))
            state[p] = taken
        loaded = [{k: copy.deepcopy(v) for k, v in g.items() if k != "params"} for g in groups]
        for own, options in zip(self.param_groups, loaded, strict=True):
            own.update(options)
        self.__setstate__({"state": state, "param_groups": self.param_groups})
        for hook in self._optimizer_load_state_dict_post_hooks:
            hook(self)

    def _taken(self, what: str, name: str, value: Any, p: Tensor) -> Any:
        """A copy of an entry of a state_dict for the state of `p`."""
        if name in self._counters and is_number(value):
            value = pf.tensor(float(value))  # as PyTorch before 1.12 kept it
        if isinstance(value, dict):
            return {k: self._taken(what, k, v, p) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._taken(what, "", v, p) for v in value)
        if not isinstance(value, Tensor):
            return copy.deepcopy(value)
        if not self._fits(value, p):
            raise ValueError(
                f"{type(self).__name__}: loaded state dict: {what} has shape {list(value.shape)}, "
                f"expected {list(p.shape)}"
            )
        # one of float64 goes on in float64, as in PyTorch; a narrow one would lose digits
        keeps = name == "step" or (name in self._counters and p.dtype is not pf.float64)
        keeps = keeps or not p.is_floating_point()
        return value.detach().to(p.device, value.dtype if keeps else p.dtype).clone()

    def _fits(self, value: Tensor, p: Tensor) -> bool:
        """Whether a tensor may be an entry of the state of `p`: it is as large, or a mean of it."""
        lengths = zip(reversed(value.shape), reversed(p.shape), strict=False)
        return value.ndim <= p.ndim and all(n in (1, m) for n, m in lengths)

    def __getstate__(self) -> dict[str, Any]:
        return {k: self.__dict__[k] for k in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in _HOOKS:
            self.__dict__.setdefault(hooks, [])
        for group in self.param_groups:  # an older one may lack options
            for option, value in self.defaults.items():
                group.setdefault(option, value)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"


OPTIMIZERS.append(Optimizer)


def _has_tensors(option: Any) -> bool:
    if isinstance(option, (tuple, list)):
        return any(map(_has_tensors, option))
    return isinstance(option, Tensor)


def _number(option: Any) -> Any:
    """An option that is a tensor, as a number."""
    if not isinstance(option, Tensor):
        return option
    with suspend_capture():
        return option.item()


def _is_fed(option: Any) -> bool:
    """Whether a capture takes an option for a number that each replay asks for again: also a
    tensor on the host that nobody differentiates for."""
    if not isinstance(option, Tensor):
        return is_number(option)
    return option.numel() == 1 and option.device.kind == "cpu" and not option.requires_grad


class _DynamicOptions(Mapping[str, Any]):
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
            if type(value) is SymbolicScalar:  # it is a dynamic input already
                pass
            elif isinstance(value, (tuple, list)):
                self._tuples.append(name)
                value = type(value)(
                    SymbolicScalar(lambda k=k: _number(get()[k]), source=(ref, i, name, k))
                    if _is_fed(v)
                    else scalar(v)
                    for k, v in enumerate(value)
                )
            elif _is_fed(value):
                self._numbers.append(name)
                ask = (lambda: _number(get())) if isinstance(value, Tensor) else get
                value = SymbolicScalar(ask, source=(ref, i, name))
            else:
                flag = isinstance(value, (bool, str, type(None)))
                (self._flags if flag else self._others).append(name)
                value = scalar(value)
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
                out += [type(v) if _is_fed(v) else id(v) for v in get(name)]
            return [*out, *map(id, map(get, others))]

        return tell

    def __iter__(self) -> Iterator[str]:
        return iter(self._optimizer().param_groups[self._number])  # type: ignore[union-attr]

    def __len__(self) -> int:
        return len(list(iter(self)))
