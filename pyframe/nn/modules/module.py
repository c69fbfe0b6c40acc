"""Module, the base of every layer, as torch.nn.modules.module."""

from __future__ import annotations

import difflib
import functools
import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar

from pyframe.autograd import Function
from pyframe.autograd.walk import zero_grads
from pyframe.core.devices import device as Device
from pyframe.core.dtypes import dtype as DType
from pyframe.core.modes import mode, no_grad
from pyframe.core.packages import HOOKS_ON_ALL, DictBackedProperty
from pyframe.nn.parameter import Buffer, Parameter, is_lazy
from pyframe.ops.random.creation import empty_like, zeros
from pyframe.tensor import Tensor
from pyframe.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class Forward(Protocol[P, R]):
        """A module whose call takes what its forward takes, and gives what it gives."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """What the module computes."""

        def _call_hooked(self, own: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any: ...


__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]  # fmt: skip


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` left aside."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        said = ", ".join(f"{k}={v}" for k, v in self._asdict().items())
        return f"{type(self).__name__}({said})"


# --- hooks on all modules


# (kind, hook), the kind one of forward_pre, forward, backward_pre, full_backward and backward
_everywhere: OrderedDict[int, tuple[str, Any]] = OrderedDict()
HOOKS_ON_ALL.append((globals(), "_everywhere"))  # a compiled function is captured anew for others
_with_kwargs: OrderedDict[int, bool] = OrderedDict()  # of those
_always_called: OrderedDict[int, bool] = OrderedDict()
_on_parameter: OrderedDict[int, Any] = OrderedDict()
_on_buffer: OrderedDict[int, Any] = OrderedDict()
_on_module: OrderedDict[int, Any] = OrderedDict()


def _put(hooks: OrderedDict[int, Any], hook: Any) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _of_kind(kind: str) -> list[tuple[int, Any]]:
    return [(i, hook) for i, (k, hook) in _everywhere.items() if k == kind]


def _joined(kind: str, own: OrderedDict[int, Any]) -> list[tuple[int, Any]]:
    """(id, hook) of the hooks on all modules and then of a module's own, which may change."""
    return _of_kind(kind) + list(own.items()) if _everywhere else list(own.items())


def _refuse_both(kind: str, other: str, present: bool, where: str) -> None:
    if present:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks "
            f"{where}. Please use only one of them: {kind} was asked for, {other} is there"
        )


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` before any module registers a parameter; what it returns
    is registered instead."""
    return _put(_on_parameter, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` before any module registers a buffer; what it returns is
    registered instead."""
    return _put(_on_buffer, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, child)` before any module registers a child; what it returns is
    registered instead."""
    return _put(_on_module, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Module.register_forward_pre_hook, on all modules and before the hooks of each."""
    return _put(_everywhere, ("forward_pre", hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """As Module.register_forward_hook, on all modules and before the hooks of each."""
    handle = RemovableHandle(_everywhere, extra_dict=[_with_kwargs, _always_called])
    _everywhere[handle.id] = "forward", hook
    _with_kwargs.update({handle.id: True} if with_kwargs else {})
    _always_called.update({handle.id: True} if always_call else {})
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Module.register_full_backward_pre_hook, on all modules and before the hooks of each."""
    return _put(_everywhere, ("backward_pre", hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Module.register_full_backward_hook, on all modules and before the hooks of each."""
    _refuse_both("a full one", "a regular one", bool(_of_kind("backward")), "on all modules")
    return _put(_everywhere, ("full_backward", hook))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As Module.register_backward_hook, on all modules and before the hooks of each."""
    _refuse_both("a regular one", "a full one", bool(_of_kind("full_backward")), "on all modules")
    return _put(_everywhere, ("backward", hook))


class _Bound:
    """A hook whose first argument is its module, which it does not keep alive."""

    def __init__(self, hook: Callable[..., Any], module: Module) -> None:
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __reduce__(self) -> Any:
        return _Bound, (self.hook, self.module())


class _Tap(Function):
    """Passes tensors on; backward gives their gradients to `meet`, whose answer replaces them."""

    @staticmethod
    def forward(ctx: Any, meet: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors themselves."""
        ctx.meet = meet
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """What `meet` makes of the gradients."""
        return None, *ctx.meet(grads)


class _BackwardHooks:
    """The full backward hooks of one call, which stands between two taps: one on the gradients of
    its results, which backward meets first, and one on those of its arguments."""

    def __init__(self, module: Module, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.arrived: Any = None  # the gradients of the results
        self.nothing: tuple[None, ...] | None = None  # stands for those of the arguments, if none
        self.specs: list[Any] = []  # of the arguments that are tensors; None for others

    def tap_args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.specs = [(x.shape, x.dtype, x.device) if isinstance(x, Tensor) else None for x in args]
        out = self._tap(args, self._leave)
        self.nothing = (None,) * len(args) if out is args else None
        return tuple(out)

    def tap_result(self, out: Any) -> Any:
        if isinstance(out, Tensor):
            return self._tap((out,), self._arrive)[0]
        if not isinstance(out, (tuple, list)):
            raise TypeError(
                f"{type(self.module).__name__}: backward hooks need a result that is a Tensor or a "
                f"tuple of Tensors, got {type(out).__name__}; return the tensors in a tuple"
            )
        parts = self._tap(out, self._arrive)
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)

    def _tap(self, values: Any, meet: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
        indices = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
        if not indices or not mode.grad:
            return values

        def all_of(grads: tuple[Any, ...]) -> list[Any]:
            whole = [None] * len(values)
            for i, g in zip(indices, grads, strict=True):
                whole[i] = g
            found = meet(tuple(whole))
            return [found[i] for i in indices]

        out = list(values)
        for i, x in zip(indices, _Tap.apply(all_of, *[values[i] for i in indices]), strict=True):
            out[i] = x
        return out

    def _arrive(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            grads = self._answer(hook(self.module, grads), grads, "pre hook", "grad_output")
        if self.nothing is None:
            self.arrived = grads
            return grads
        for hook in self.hooks:
            changed = hook(self.module, self.nothing, grads)
            if changed is not None and any(x is not None for x in changed):
                raise RuntimeError(
                    f"{type(self.module).__name__}: a backward hook should return None where no "
                    f"input of the module requires grad, got {type(changed).__name__}"
                )
        return grads

    def _leave(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.arrived is None:  # not by way of the results, as in a second derivative
            return grads
        grads = tuple([
            zeros(spec[0], dtype=spec[1], device=spec[2]) if g is None and spec is not None else g
            for g, spec in zip(grads, self.specs, strict=True)
        ])  # fmt: skip
        for hook in self.hooks:
            grads = self._answer(
                hook(self.module, grads, self.arrived), grads, "hook", "grad_input"
            )
        self.arrived = None
        return grads

    def _answer(self, found: Any, grads: tuple[Any, ...], what: str, of: str) -> tuple[Any, ...]:
        if found is None:
            return grads
        found = (found,) if isinstance(found, Tensor) else tuple(found)
        if len(found) != len(grads):
            raise RuntimeError(
                f"Backward {what} returned an invalid number of {of}, got {len(found)}, but "
                f"expected {len(grads)} (of {type(self.module).__name__})"
            )
        return found


def _hook_node(hooks: list[Any], module: Module, args: Any, out: Any) -> None:
    """Put regular backward hooks on the step that made the first result, which is all they see."""
    first = out
    while not isinstance(first, Tensor):
        first = (
            next(x for x in first.values() if isinstance(x, Tensor))
            if isinstance(first, dict)
            else first[0]
        )
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.partial(hook, module))
    results = (out,) if isinstance(out, Tensor) else out
    kinds = (("return", results), ("take as input", args))
    missing = ""
    for verb, values in kinds:
        if not isinstance(values, tuple) or not all(isinstance(x, Tensor) for x in values):
            missing = missing or f"a Module that does not {verb} Tensors alone"
    if not missing and {x.grad_fn for x in results} - {None, node}:
        missing = "a Module whose outputs are generated by different autograd Nodes"
    if not missing and {x.grad_fn for x in args} - {None} != {
        f for f, _ in node.next_functions if f is not None and f.next_functions
    }:
        missing = "a Module whose forward contains multiple autograd Nodes"
    if missing:
        warnings.warn(
            f"Using a non-full backward hook on {missing} ({type(module).__name__}) is deprecated: "
            "the hook misses some of the gradients. Please use register_full_backward_hook to get "
            "the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _flag(module: Any) -> bool:
    found = mode.training.get(id(module))
    return module.__dict__["training"] if found is None else found


def _training(module: Module) -> bool:
    try:
        if mode.training is None:
            return module.__dict__["training"]
        if mode.capture is None:
            return _flag(module)
    except KeyError:  # Module.__init__() was not called yet
        raise AttributeError("training") from None
    ref = weakref.ref(module)
    return bool(mode.capture.watch(lambda: _flag(ref())))


def _set_training(module: Module, training: bool) -> None:
    if mode.training is not None and id(module) in mode.training:
        mode.training[id(module)] = training
    else:
        module.__dict__["training"] = training


class Evaluation:
    """Calls functions with `net` in evaluation mode and without gradients, in this thread alone.

    What the modules hold stays as it is, so that other threads may train the net meanwhile.
    """

    def __init__(self, net: Module) -> None:
        self._modules = list(net.modules())  # while they live, no other module has their ids
        self._flags = {**(mode.training or {}), **{id(m): m.training for m in self._modules}}
        self(net.eval)  # which may be the user's own

    def __call__(self, fn: Callable[..., Any], *args: Any) -> Any:
        """What `fn(*args)` gives. It must not wait for others: they would be in this mode too."""
        before = mode.training, mode.grad
        mode.training, mode.grad = self._flags, False
        try:  # no context manager: an interrupt at its own first line would leave the mode on
            return fn(*args)
        finally:
            mode.training, mode.grad = before


class _Converted:
    """A function that has been called on some tensors already, all of them before any is changed:
    where one can't be converted, none is."""

    def __init__(self, fn: Callable[[Tensor], Tensor], tensors: Iterable[Tensor]) -> None:
        self.fn = fn
        self.known = {id(x): (x, fn(x)) for x in tensors}  # which keeps the ids theirs

    def __call__(self, x: Tensor) -> Tensor:
        found = self.known.get(id(x))
        return self.fn(x) if found is None else found[1]


_HOOKS = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_backward_hooks",
    "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _prefix(keys: list[str], wanted: list[str]) -> str:
    """With what all of some keys begin, if these are others that are wanted behind it; else ''."""
    begin = keys[0].removesuffix(wanted[0])
    return (
        begin if begin.endswith(".") and {k.removeprefix(begin) for k in keys} == {*wanted} else ""
    )


_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class Module:
    """A layer or a model: fields that are Parameters, buffers and Modules, and `forward`.

    A subclass calls `super().__init__()`, and then sets its fields. What is called is the module
    itself, which runs hooks around `forward`. `parameters()` are those of all modules in it,
    `state_dict()` has them and the buffers by names, `to(device)` moves them, and `train()` and
    `eval()` set `training`.

    Attributes:
        training: whether layers such as Dropout and BatchNorm2d behave as in training.

    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(3, 3)
    ...     def forward(self, x):
    ...         return self.linear(self.linear(x))
    >>> net = Twice()
    >>> net(pf.randn(5, 3)).shape, [name for name, _ in net.named_parameters()]
    (pyframe.Size([5, 3]), ['linear.weight', 'linear.bias'])
    """

    training = DictBackedProperty(_training, _set_training)
    dump_patches: bool = False
    call_super_init: bool = False  # whether `__init__` goes on with the next class's
    _version: int = 1  # of the layout of its state_dict, which is saved with it
    _takes_children: bool = False  # whether its arguments are modules, as Sequential's
    T_destination = TypeVar("T_destination", bound=dict[str, Any])

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]  # buffers that state_dict leaves out
    _is_full_backward_hook: bool | None
    _forward_pre_hooks: OrderedDict[int, Any]  # these are read in each call: see watch/tracked.py
    _forward_hooks: OrderedDict[int, Any]
    _backward_hooks: OrderedDict[int, Any]
    _backward_pre_hooks: OrderedDict[int, Any]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _state_dict_hooks: OrderedDict[int, Any]
    _state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_post_hooks: OrderedDict[int, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {what}")
        fields = self.__dict__
        fields["training"] = True
        fields.update(_parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set())
        fields.update({name: OrderedDict() for name in _HOOKS}, _is_full_backward_hook=None)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass has its own.

        Args:
            args, kwargs: what the module is called with.
        """
        own = {n.strip("_").lower(): n for n in dir(type(self)) if not hasattr(Module, n)}
        near = ["call"] * ("call" in own) or difflib.get_close_matches("forward", own, 1)
        hint = f"; it has {own[near[0]]}: call that forward" if near else ""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function{hint}'
        )

    def __call__(self: Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        own = self.__dict__  # faster than attributes; a capture notes them when it sees `forward`
        try:
            hooked = (
                own["_forward_pre_hooks"]
                or own["_forward_hooks"]
                or own["_backward_hooks"]
                or own["_backward_pre_hooks"]
                or _everywhere
            )
        except KeyError as e:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute {e}; super().__init__() was not "
                "called"
            ) from None
        if hooked:
            return self._call_hooked(own, args, kwargs)
        return self.forward(*args, **kwargs) if kwargs else self.forward(*args)  # type: ignore[call-arg]

    def _call_hooked(self, own: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        out = taps = after = None
        regular: Any = ()
        begun = 0  # of the hooks after forward
        try:
            before: Any = own["_forward_pre_hooks"]
            if before or _everywhere:
                before = _joined("forward_pre", before)
            for i, hook in before:
                if i in own["_forward_pre_hooks_with_kwargs"]:
                    changed = hook(self, args, kwargs)
                    if changed is None:
                        continue
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, "
                            f"new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            if own["_backward_hooks"] or own["_backward_pre_hooks"] or _everywhere:
                full, regular = self._get_backward_hooks()
                pre = self._get_backward_pre_hooks()
                if full or pre:
                    taps = _BackwardHooks(self, full, pre)
                    args = taps.tap_args(args)
            out = self.forward(*args, **kwargs)
            after = own["_forward_hooks"]
            if after or _everywhere:
                after = _joined("forward", after)
            for i, hook in after:
                begun += 1
                if i in own["_forward_hooks_with_kwargs"] or i in _with_kwargs:
                    changed = hook(self, args, kwargs, out)
                else:
                    changed = hook(self, args, out)
                out = out if changed is None else changed
            if taps is not None:
                out = taps.tap_result(out)
            if regular:
                _hook_node(regular, self, args, out)
            return out
        except Exception:
            always = {**_always_called, **own["_forward_hooks_always_called"]}
            kw = {**_with_kwargs, **own["_forward_hooks_with_kwargs"]}
            if after is None:
                after = _joined("forward", own["_forward_hooks"])
            for i, hook in list(after)[begun:]:
                if i not in always:
                    continue
                try:
                    changed = hook(self, *((args, kwargs, out) if i in kw else (args, out)))
                    out = out if changed is None else changed
                except Exception as e:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {e}",
                        stacklevel=3,
                    )
            raise

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The full backward hooks, and the regular ones."""
        full = [h for _, h in _of_kind("full_backward")]
        regular = [h for _, h in _of_kind("backward")]
        (full if self._is_full_backward_hook else regular).extend(self._backward_hooks.values())
        return full, regular

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*(h for _, h in _of_kind("backward_pre")), *self._backward_pre_hooks.values()]

    # --- fields

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        parameters = fields.get("_parameters")
        if parameters is None:
            for kind, what in ((Parameter, "parameters"), (Module, "module"), (Buffer, "buffer")):
                if isinstance(value, kind):
                    raise AttributeError(
                        f"cannot assign {what} before Module.__init__() call: call "
                        "super().__init__() first"
                    )
            super().__setattr__(name, value)
        elif isinstance(value, Parameter):
            if name not in parameters:  # one that is replaced keeps its place in the order
                self._forget(name)
            self.register_parameter(name, value)
        elif name in parameters:
            if value is not None:
                raise _not_assigned(value, f"as parameter '{name}'", "pyframe.nn.Parameter")
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if name not in fields["_modules"]:
                self._forget(name)
            self._put_module(name, value)
        elif name in fields["_modules"]:
            if value is not None:
                raise _not_assigned(value, f"as child module '{name}'", "pyframe.nn.Module")
            self._put_module(name, None)
        elif isinstance(value, Buffer) or name in fields["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                expected = "pyframe.nn.Buffer, pyframe.Tensor"
                raise _not_assigned(value, f"as buffer '{name}'", expected)
            if isinstance(value, Buffer):
                persistent = value.persistent
            else:
                persistent = name not in fields["_non_persistent_buffers_set"]
            if persistent:  # subclasses may have a register_buffer that takes no more
                self.register_buffer(name, value)
            else:
                self.register_buffer(name, value, False)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        hint = "" if "_modules" in self.__dict__ else "; super().__init__() was not called"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    def _forget(self, name: str) -> bool:
        found = [d.pop(name, self) is not self for d in (self._parameters, self._buffers,
                                                         self._modules)]  # fmt: skip
        self._non_persistent_buffers_set.discard(name)
        if self.__dict__.pop(name, self) is not self:
            return True
        return any(found)

    def _check_name(self, kind: str, name: str) -> dict[str, Any]:
        """The dict that `name` goes to, once it may."""
        own: Any = self.__dict__.get({"module": "_modules"}.get(kind, f"_{kind}s"))
        if own is None:
            raise AttributeError(
                f"cannot assign {kind} before Module.__init__() call: call super().__init__() first"
            )
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in own and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")
        return own

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name that may be computed.

        Args:
            name: the attribute's name, without a dot.
            param: a leaf; None keeps the name free.
        """
        own = self._check_name("parameter", name)
        if param is not None and not isinstance(param, Parameter):
            to = f"object to parameter '{name}'"
            raise _not_assigned(param, to, "pyframe.nn.Parameter", "required")
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly. To express it as a function of another Tensor, compute the "
                "value in the forward() method."
            )
        own[name] = None if param is None else _after(_on_parameter, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; unless persistent, it is not saved.

        Args:
            name: the attribute's name, without a dot.
            tensor: the buffer; None keeps the name free.
            persistent: whether state_dict has it.
        """
        own = self._check_name("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            to = f"object to buffer '{name}'"
            raise _not_assigned(tensor, to, "pyframe Tensor", "required")
        own[name] = _after(_on_buffer, self, name, tensor)
        left_out = self._non_persistent_buffers_set
        (left_out.discard if persistent else left_out.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under a name that may be computed.

        Args:
            name: the attribute's name, without a dot.
            module: the child; None keeps the name free.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(_not_a_module(self, module))
        self._check_name("module", name)
        self._put_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """As add_module.

        Args:
            name, module: as add_module's.
        """
        self.add_module(name, module)

    def _put_module(self, name: str, module: Module | None) -> None:
        self._modules[name] = _after(_on_module, self, name, module)

    # --- walking

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of the direct children."""
        seen: set[Module] = set()
        for name, m in self._modules.items():
            if m is not None and m not in seen:
                seen.add(m)
                yield name, m

    def children(self) -> Iterator[Module]:
        """The direct children."""
        return (m for _, m in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module and all below it.

        Args:
            memo: modules to leave out; a set to which those that were met are added.
            prefix: what stands before each name, and a dot.
            remove_duplicate: whether a module that stands at two places comes once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, m in self._modules.items():
            if m is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from m.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it.

        Args:
            remove_duplicate: whether a module that stands at two places comes once.
        """
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def _named_members(
        self, get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]], prefix: str = "",
        recurse: bool = True, remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, m in modules:
            for name, x in get_members_fn(m):
                if x is None or id(x) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(x))
                yield (f"{path}.{name}" if path else name), x

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter), each parameter once.

        Args:
            prefix: what stands before each name, and a dot.
            recurse: False leaves out those of modules below.
            remove_duplicate: False gives those at two places twice.
        """
        return self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once.

        Args:
            recurse: False leaves out those of modules below.
        """
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer), each buffer once.

        Args:
            prefix: what stands before each name, and a dot.
            recurse: False leaves out those of modules below.
            remove_duplicate: False gives those at two places twice.
        """
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once.

        Args:
            recurse: False leaves out those of modules below.
        """
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name. AttributeError where there is none.

        Args:
            target: the name; "" is this module.
        """
        m: Module = self
        for part in target.split(".") if target else ():
            m = m._get(part, Module, "an nn.Module")
        return m

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted name, where one must be already if `strict`. AttributeError
        where there is no parent, or no module to replace; ValueError unless it is a module.

        Args:
            target: the name, not "".
            module: what is put there.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            parent._get(name, Module, "an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name. AttributeError where there is none.

        Args:
            target: the name.
        """
        path, _, name = target.rpartition(".")
        found: Parameter = self.get_submodule(path)._get(name, Parameter, "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name. AttributeError where there is none.

        Args:
            target: the name.
        """
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found: Tensor = owner._get(name, object, "")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _get(self, name: str, kind: type, what: str) -> Any:
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        found = getattr(self, name)
        if not isinstance(found, kind):
            raise AttributeError(f"`{name}` is not {what}")
        return found

    # --- state

    def get_extra_state(self) -> Any:
        """What state_dict saves beside the tensors; of a subclass that also has
        `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it has no get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave.

        Args:
            state: what was saved.
        """
        raise RuntimeError(f"{type(self).__name__} has no extra state: it has no set_extra_state")

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of what this module itself saves."""
        left_out = self._non_persistent_buffers_set
        for name, x in itertools.chain(self._parameters.items(), self._buffers.items()):
            if x is not None and (name not in left_out or name in self._parameters):
                yield name, x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put what this module itself saves into `destination`."""
        for name, x in self._own_state():
            destination[prefix + name] = x if keep_vars or is_lazy(x) else x.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by dotted name, sharing memory with the model.

        Args:
            destination: the dict to add to; None for a new one.
            prefix: what stands before each name.
            keep_vars: whether values keep their gradients' history, else they are detached.
            args: these three in order, which is deprecated.
        """
        if args:
            warnings.warn(
                "state_dict: positional arguments are deprecated; name them (destination, prefix, "
                "keep_vars)",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination") if destination is None else destination
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, m in self._modules.items():
            if m is not None:
                m.state_dict(destination=destination, prefix=f"{prefix}{name}.",
                             keep_vars=keep_vars)  # fmt: skip
        for hook in self._state_dict_hooks.values():
            found = hook(self, destination, prefix, metadata)
            if found is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = found
        return destination

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Copy what this module itself saves out of `state_dict`, a dict of its own that it may
        change. `local_metadata` has the `version` that saved it."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)  # fmt: skip
        own = dict(self._own_state())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, x in own.items():
            key = prefix + name
            if key in state_dict:
                error = _load(key, x, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, _, below = key[len(prefix) :].partition(".")
                    if name not in (self._modules if below else own):
                        unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a state_dict into the model, or let the model take its memory (`assign`).

        RuntimeError that lists every missing, unexpected or mis-shaped key, and then the tensors
        are as before; TypeError unless it is a mapping.

        Args:
            state_dict: a mapping of dotted names to tensors.
            strict: whether missing and unexpected keys are errors.
        """
        if not isinstance(state_dict, Mapping):
            hint = " Of a file give pf.load(path)." if isinstance(state_dict, str) else ""
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.{hint}")
        metadata = getattr(state_dict, "_metadata", None)
        given: Any = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            given._metadata = metadata
        before = self._before(given, strict)
        found, errors = _IncompatibleKeys([], []), list[str]()

        _load_below(self, given, "", metadata, assign, found, errors)
        for kind, keys in (("Unexpected", found[1]), ("Missing", found[0])):
            if strict and keys:
                listed = ", ".join(f'"{k}"' for k in keys)
                errors.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if strict and all(found) and (prefix := _prefix(found.unexpected_keys, found.missing_keys)):
            errors.append(
                f"All keys begin with {prefix!r}, as of a module within another one: load "
                f"{{k.removeprefix({prefix!r}): v for k, v in state_dict.items()}}"
            )
        if errors:
            with no_grad():
                for x, data, value in before:
                    x.data = data
                    x.copy_(value)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return found

    def _before(self, state_dict: Any, strict: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Each tensor, its memory and a copy of it, where the keys or shapes of a state_dict may
        lead to errors; else nothing."""
        own = {
            f"{path}.{name}" if path else name: x
            for path, m in self.named_modules(remove_duplicate=False)
            for name, x in m._own_state()
        }
        fits = not strict or own.keys() == state_dict.keys()
        for key in own.keys() & state_dict.keys():
            x, new = own[key], state_dict[key]
            if not fits or is_lazy(x) or not isinstance(new, Tensor) or is_lazy(new):
                fits = False
                break
            fits = new.shape == x.shape and new.dtype.category == x.dtype.category
        if fits:
            return []
        return [(x, x.data, x.detach().clone()) for x in own.values() if not is_lazy(x)]

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after state_dict; a dict that it
        returns is the result, where state_dict was called on this very module."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _put(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after state_dict, which it may
        change in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _put(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before state_dict."""
        return _put(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """As register_load_state_dict_pre_hook, but the module is given only if asked for."""
        return _put(self._load_state_dict_pre_hooks, _Bound(hook, self) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before this module's part is loaded; it may change each."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` once this module and all below it are loaded; it
        may change the two lists in place."""
        return _put(self._load_state_dict_post_hooks, hook)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if "forward" in state:
            from pyframe.capture.compile import CompiledFunction

            if isinstance(state["forward"], CompiledFunction):  # `compile` is for this object alone
                del state["forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields = self.__dict__
        fields.update({name: OrderedDict() for name in _HOOKS}, _is_full_backward_hook=None)
        fields["_non_persistent_buffers_set"] = set()
        fields.update(state)

    # --- modes and moving

    def train(self, mode: bool = True) -> Self:
        """Training mode, for this module and all below it.

        Args:
            mode: False for evaluation.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self) -> Self:
        """Evaluation mode: dropout and the like are off."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters record gradients.

        Args:
            requires_grad: whether they do.
        """
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero.

        Args:
            set_to_none: False sets them to zero.
        """
        zero_grads(self.parameters(), set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on `forward` runs through `pf.compile`, which takes these arguments.

        Args:
            args, kwargs: options of `pf.compile`.
        """
        from pyframe.capture.compile import compile

        self.forward = compile(type(self).forward.__get__(self), *args, **kwargs)  # type: ignore[method-assign]

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace each tensor's value by what `fn` gives, where it stands, so that optimizers keep
        holding it. Where one can't be converted, none is."""
        with no_grad():
            if not isinstance(fn, _Converted):
                own = itertools.chain(self.parameters(recurse), self.buffers(recurse))
                fn = _Converted(fn, [y for x in own for y in (x, x.grad) if y is not None])
            for m in self.children() if recurse else ():
                m._apply(fn)
            for x in (*self._parameters.values(), *self._buffers.values()):
                for y in () if x is None else (x, x.grad):
                    if y is not None and (new := fn(y)) is not y:
                        y.data = new
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and/or convert the float and complex tensors to a dtype, in place:
        `to(device, dtype)`, `to(dtype)`, `to(tensor)`, `to(memory_format=...)`.

        Args:
            args: a device, a dtype, both, or a tensor that has them.
            kwargs: `device`, `dtype` and `memory_format` by name.
        """
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        layout, like = kwargs.pop("memory_format", None), kwargs.pop("tensor", None)
        kwargs.pop("non_blocking", None)
        if kwargs:
            raise TypeError(f"Module.to got unexpected arguments {sorted(kwargs)}")
        for a in (*args, like):
            if isinstance(a, DType):
                dtype = a
            elif isinstance(a, Tensor):
                device, dtype = a.device, a.dtype
            elif isinstance(a, (str, Device, int)):
                device = device if isinstance(a, bool) else a  # a bool is PyTorch's non_blocking
            elif a is not None:
                raise TypeError(f"Module.to takes a device or a dtype, got {type(a).__name__}")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(x: Tensor) -> Tensor:
            floats = x.is_floating_point() or x.is_complex()
            kind = dtype if dtype is not None and floats else x.dtype
            target = x.device if device is None else device
            if layout is not None and x.ndim in (4, 5):
                return x.to(device=target, dtype=kind, memory_format=layout)
            return x.to(device=target, dtype=kind)

        return self._apply(convert)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda x: x.cpu())

    def gpu(self, device: Any = None) -> Self:
        """Move to the GPU, or to the one of this number or name.

        Args:
            device: a number or a name; None is the current GPU.
        """
        return self.to("gpu" if device is None else device)

    def cuda(self, device: Any = None) -> Self:
        """As gpu.

        Args:
            device: as of gpu.
        """
        return self.gpu(device)

    def type(self, dst_type: Any) -> Self:
        """All tensors to a dtype, or to the one of a name such as "pyframe.FloatTensor".

        Args:
            dst_type: a dtype or its name.
        """
        return self._apply(lambda x: x.type(dst_type))

    def float(self) -> Self:
        """Float tensors to float32."""
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Self:
        """Float tensors to float64."""
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    def half(self) -> Self:
        """Float tensors to float16."""
        return self._apply(lambda x: x.half() if x.is_floating_point() else x)

    def bfloat16(self) -> Self:
        """Float tensors to bfloat16."""
        return self._apply(lambda x: x.bfloat16() if x.is_floating_point() else x)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without the values, which are to be written next.

        Args:
            device: where to.
            recurse: False leaves modules below where they are.
        """
        return self._apply(lambda x: empty_like(x, device=device), recurse)

    def share_memory(self) -> Self:
        """As Tensor.share_memory_, of all tensors."""
        from pyframe.tensor.sharing import share

        own = [*self.parameters(), *self.buffers()]
        for x in filter(is_lazy, own):
            x.share_memory_()  # says that it can't
        share([y for x in own for y in (x, x.grad) if y is not None])
        return self

    # --- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments.

        With `with_kwargs`, `hook(module, args, kwargs)`, which returns both or None.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._hook(
            "_forward_pre_hooks", hook, prepend, _forward_pre_hooks_with_kwargs=with_kwargs
        )

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:  # fmt: skip
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        With `with_kwargs`, `hook(module, args, kwargs, output)`. With `always_call` it is called
        where forward or another hook raises, too.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._hook(
            "_forward_hooks", hook, prepend, _forward_hooks_with_kwargs=with_kwargs,
            _forward_hooks_always_called=always_call,
        )  # fmt: skip

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` in backward, before the gradients of the arguments are
        computed; what it returns replaces `grad_output`.

        Args:
            prepend: whether it is called before those that are there.
        """
        return self._hook("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` in backward, with tuples of the gradients of
        the positional arguments and of the results; what it returns replaces `grad_input`.

        Args:
            prepend: whether it is called before those that are there.
        """
        regular = self._is_full_backward_hook is False
        _refuse_both("a full one", "a regular one", regular, "on a single Module")
        self._is_full_backward_hook = True
        return self._hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the last step of
        forward alone. Deprecated: register_full_backward_hook has those of the module."""
        full = self._is_full_backward_hook is True
        _refuse_both("a regular one", "a full one", full, "on a single Module")
        self._is_full_backward_hook = False
        return self._hook("_backward_hooks", hook, False)

    def _hook(
        self, where: str, hook: Callable[..., Any], prepend: bool, **flags: bool
    ) -> RemovableHandle:
        hooks = getattr(self, where)
        handle = RemovableHandle(hooks, extra_dict=[getattr(self, name) for name in flags])
        hooks[handle.id] = hook
        for name, on in flags.items():
            if on:
                getattr(self, name)[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    # --- printing

    def extra_repr(self) -> str:
        """What stands in the brackets of a layer's repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [f"({name}): {indented(repr(m))}" for name, m in self._modules.items()]
        if not children and len(extra) <= 1:
            return f"{self._get_name()}({''.join(extra)})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra + children) + "\n)"

    def _repr_html_(self) -> str:
        return _tree(self, "", True)


def _tree(m: Module, name: str, opened: bool) -> str:
    """For notebooks: a module with the number of its parameters; what is in it opens by a click."""
    from html import escape

    count = sum(p.numel() for p in m.parameters() if not is_lazy(p))
    title = f"{name}{m._get_name()}({', '.join(m.extra_repr().splitlines())})"
    title = f"{escape(title)} <small>{count:,} parameters</small>"
    children = [_tree(c, f"({k}): ", False) for k, c in m._modules.items() if c is not None]
    if not children:
        return f"<div>{title}</div>"
    inner = f'<div style="margin-left: 1.5em">{"".join(children)}</div>'
    return f"<details{' open' * opened}><summary>{title}</summary>{inner}</details>"


def indented(text: str) -> str:
    """A text whose lines after the first stand two columns further in."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def _after(hooks: OrderedDict[int, Any], module: Module, name: str, value: Any) -> Any:
    """What is registered once the hooks on that have been called."""
    if mode.capture is not None:
        mode.capture.watch(lambda: [*hooks])
    for hook in hooks.values():
        found = hook(module, name, value)
        value = value if found is None else found
    return value


def _load_below(
    m: Module, state_dict: Any, prefix: str, metadata: Any, assign: bool,
    found: _IncompatibleKeys, errors: list[str],
) -> None:  # fmt: skip
    """Load a module's own part of a state_dict and then those of all modules below it."""
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local = {**local, "assign_to_params_buffers": True}
    m._load_from_state_dict(state_dict, prefix, local, True, *found, errors)
    for name, child in m._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            part = {k: v for k, v in state_dict.items() if k.startswith(path)}
            _load_below(child, part, path, metadata, assign, found, errors)
    for hook in m._load_state_dict_post_hooks.values():
        if hook(m, found) is not None:
            raise AssertionError(
                "Hooks registered with register_load_state_dict_post_hook are not expected to "
                "return new values; change the lists of incompatible_keys in place"
            )


def _load(key: str, x: Tensor, new: Any, assign: bool) -> str:
    """Copy what a state_dict has under `key` to `x`; what is wrong with it, if it can't be."""
    if not isinstance(new, Tensor):
        return (
            f'While copying the parameter named "{key}", expected pyframe.Tensor from '
            f"checkpoint but received {type(new)}"
        )
    if is_lazy(x) and is_lazy(new):
        return ""
    if not is_lazy(x):
        if x.shape == () and new.shape == (1,):  # as old files have numbers
            new = new[0]
        if new.shape != x.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {new.shape!r} from "
                f"checkpoint, the shape in current model is {x.shape!r}."
            )
    if assign and x.requires_grad and not (new.is_floating_point() or new.is_complex()):
        return f"{key}: {new.dtype} can't take the place of a parameter that trains"
    if not assign and not is_lazy(x) and x.is_meta and not new.is_meta:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module?)",
            stacklevel=4,
        )
    try:
        with no_grad():
            if assign:
                x.data = new.detach()
            else:
                x.copy_(new)
    except Exception as e:
        return (
            f'While copying the parameter named "{key}", of {new.dtype} in the checkpoint and '
            f"{x.dtype} in the model, an exception occurred: {e}"
        )
    return ""


def _not_assigned(value: Any, to: str, kind: str, verb: str = "expected") -> TypeError:
    return TypeError(f"cannot assign '{type_name(value)}' {to} ({kind} or None {verb})")


def _not_a_module(owner: Module, value: Any) -> str:
    """What to say of a child that is no module."""
    if isinstance(value, type) and issubclass(value, Module):
        return (
            f"the class {value.__name__} is not a Module subclass instance; {value.__name__}() is"
        )
    said = f"{type_name(value)} is not a Module subclass"
    if isinstance(value, (list, tuple)) and owner._takes_children:
        return f"{said}; give the modules one by one: {type(owner).__name__}(*modules)"
    if callable(value):
        return f"{said}; call a function in the forward of a module of your own"
    return said


def type_name(value: object) -> str:
    """The name of a value's type, with its module unless it is built in."""
    kind = type(value)
    if kind is Tensor:
        return "pyframe.Tensor"
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
