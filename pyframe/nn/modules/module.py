"""Module, the base of every layer, as torch.nn.modules.module."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from pyframe.autograd import Function
from pyframe.devices import device as Device, mode
from pyframe.dtypes import dtype as DType
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor, no_grad


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` left aside."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in self._asdict().items())})"


class HookHandle:
    """What registering a hook returns: `remove()` takes it off again."""

    _ids = itertools.count()

    def __init__(self, hooks: OrderedDict[int, Any], hook: Any, first: bool = False) -> None:
        self._hooks, self._id = hooks, next(HookHandle._ids)
        hooks[self._id] = hook
        if first:
            hooks.move_to_end(self._id, last=False)

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        self._hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _Tap(Function):
    """Passes tensors on; backward gives their gradients to `meet`, whose answer replaces them."""

    @staticmethod
    def forward(ctx: Any, meet: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors themselves."""
        ctx.meet = meet
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """What `meet` makes of the gradients."""
        return None, *ctx.meet(grads)


class _InDict(property):
    """What lies in an object's dict under its own name: graph/observe.py looks for it there."""


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


class Module:
    """A layer or a model: fields that are Parameters, buffers and Modules, and `forward`."""

    training = _InDict(_training, _set_training)

    def __init__(self) -> None:
        set_ = object.__setattr__
        self.__dict__["training"] = True
        for name in ("_parameters", "_buffers", "_modules"):
            set_(self, name, {})
        for name in ("_pre_hooks", "_forward_hooks", "_backward_hooks"):
            set_(self, name, OrderedDict())
        set_(self, "_transient", set())

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _pre_hooks: OrderedDict[int, tuple[Any, bool]]  # (hook, with_kwargs)
    _forward_hooks: OrderedDict[int, tuple[Any, bool]]
    _backward_hooks: OrderedDict[int, Any]
    _transient: set[str]  # buffers that state_dict leaves out

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass has its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._pre_hooks and not self._forward_hooks and not self._backward_hooks:
            return self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._pre_hooks.values()):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is None:
                continue
            if with_kwargs:
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        tap = None
        if self._backward_hooks:
            args, tap = self._tapped(args)
        out = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, out) if with_kwargs else hook(self, args, out)
            out = out if changed is None else changed
        return out if tap is None else tap(out)

    def _tapped(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Callable[[Any], Any]]:
        """The arguments with a tap on their gradients, and what puts one on those of the results:
        between both stands one call, of which the backward hooks are told."""
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        arriving: tuple[Any, ...] = ()  # the gradients of the results: backward meets them first

        def call_hooks(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            grad_input: list[Any] = [None] * len(args)
            for i, g in zip(places, grads, strict=True):
                grad_input[i] = g
            for hook in list(self._backward_hooks.values()):
                changed = hook(self, tuple(grad_input), arriving)
                if changed is not None:
                    grad_input = [changed] if isinstance(changed, Tensor) else list(changed)
            return tuple(grad_input[i] for i in places)

        def meet_outputs(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            nonlocal arriving
            arriving = grads
            if not any(args[i].requires_grad for i in places):
                call_hooks((None,) * len(places))
            return grads

        def tap(out: Any) -> Any:
            if isinstance(out, Tensor):
                return _Tap.apply(meet_outputs, out)[0]
            if isinstance(out, tuple | list) and all(isinstance(x, Tensor) for x in out):
                return type(out)(_Tap.apply(meet_outputs, *out))
            raise TypeError(
                f"{type(self).__name__}: backward hooks need a result that is a Tensor or a tuple "
                f"of Tensors, got {type(out).__name__}"
            )

        tapped = list(args)
        for i, x in zip(places, _Tap.apply(call_hooks, *[args[i] for i in places]), strict=True):
            tapped[i] = x
        return tuple(tapped), tap

    # --- fields

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if "_parameters" not in fields:
            if isinstance(value, (Parameter, Module)):
                kind = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            object.__setattr__(self, name, value)
            return
        if isinstance(value, (Parameter, Module)):
            own: Any = self._parameters if isinstance(value, Parameter) else self._modules
            if name not in own:  # a field that is replaced keeps its place in the order
                self._forget(name)
            own[name] = value
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as parameter '{name}' "
                    "(pyframe.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as child module '{name}' "
                    "(pyframe.nn.Module or None expected)"
                )
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type_name(value)}' as buffer '{name}' "
                    "(pyframe.Tensor or None expected)"
                )
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        hint = "" if "_modules" in self.__dict__ else "; super().__init__() was not called"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def _forget(self, name: str) -> bool:
        found = [d.pop(name, self) is not self for d in (self._parameters, self._buffers,
                                                         self._modules)]  # fmt: skip
        self._transient.discard(name)
        if self.__dict__.pop(name, self) is not self:
            return True
        return any(found)

    def _check_name(self, kind: str, name: str, own: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name that may be computed."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(pyframe.nn.Parameter or None required)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; unless persistent, it is not saved."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                "(pyframe Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under a name that may be computed."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(_not_a_module(self, module))
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    # --- walking

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of the direct children."""
        seen: set[int] = set()
        for name, m in self._modules.items():
            if m is not None and id(m) not in seen:
                seen.add(id(m))
                yield name, m

    def children(self) -> Iterator[Module]:
        """The direct children."""
        return (m for _, m in self.named_children())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of this module and all below it."""
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, m in self._modules.items():
            if m is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from m.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (m for _, m in self.named_modules())

    def _named(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        places = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, m in places:
            for name, x in getattr(m, kind).items():
                if x is None or (remove_duplicate and id(x) in seen):
                    continue
                seen.add(id(x))
                yield (f"{path}.{name}" if path else name), x

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter), each parameter once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer), each buffer once."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name. AttributeError where there is none."""
        m: Module = self
        for part in target.split(".") if target else ():
            m = m._get(part, Module, "an nn.Module")
        return m

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        found: Parameter = self.get_submodule(path)._get(name, Parameter, "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found: Tensor = owner._get(name, Tensor, "a buffer")
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

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        """All parameters and persistent buffers by dotted name, sharing memory with the model."""
        out: OrderedDict[str, Tensor] = OrderedDict()
        for key, x in self._state(prefix):
            out[key] = x if keep_vars else x.detach()
        return out

    def _state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        for name, p in self._parameters.items():
            if p is not None:
                yield prefix + name, p
        for name, b in self._buffers.items():
            if b is not None and name not in self._transient:
                yield prefix + name, b
        for name, m in self._modules.items():
            if m is not None:
                yield from m._state(f"{prefix}{name}.")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a state_dict into the model. RuntimeError that lists every missing, unexpected or
        mis-shaped key, and then nothing at all is loaded; TypeError for what is no mapping."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = dict(self._state())
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        errors = []
        for kind, keys in (("Missing", missing), ("Unexpected", unexpected)):
            if strict and keys:
                listed = ", ".join(f'"{k}"' for k in keys)
                errors.append(f"{kind} key(s) in state_dict: {listed}. ")
        for key, x in own.items():
            if key not in state_dict:
                continue
            new = state_dict[key]
            if not isinstance(new, Tensor):
                errors.append(
                    f'While copying the parameter named "{key}", expected pyframe.Tensor from '
                    f"checkpoint but received {type(new)}"
                )
            elif new.shape != x.shape:
                errors.append(
                    f"size mismatch for {key}: copying a param with shape {new.shape!r} from "
                    f"checkpoint, the shape in current model is {x.shape!r}."
                )
            elif assign and x.requires_grad and not new.is_floating_point():
                errors.append(f"{key}: {new.dtype} can't take the place of a parameter that trains")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        with no_grad():
            for key, x in own.items():
                if key in state_dict:
                    if assign:
                        x.data = state_dict[key].detach()
                    else:
                        x.copy_(state_dict[key])
        return _IncompatibleKeys(missing, unexpected)

    # --- modes and moving

    def train(self, mode: bool = True) -> Self:
        """Training mode, for this module and all below it."""
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
        """Whether the parameters record gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for p in self.parameters():
            if mode.capture is not None:
                mode.capture.touch_grad(p, not set_to_none)
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.detach_().zero_()

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Replace each tensor's value where it stands, so that optimizers keep holding it. Where
        one can't be converted, none is."""
        own = itertools.chain(self.parameters(), self.buffers())
        tensors = [x for owner in own for x in (owner, owner.grad) if x is not None]
        with no_grad():
            for x, new in zip(tensors, [fn(x.detach()) for x in tensors], strict=True):
                x.data = new
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and/or convert the float tensors to a dtype, in place."""
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        kwargs.pop("non_blocking", None)
        if kwargs:
            raise TypeError(f"Module.to got unexpected arguments {sorted(kwargs)}")
        for a in args:
            if isinstance(a, DType):
                dtype = a
            elif isinstance(a, Tensor):
                device, dtype = a.device, a.dtype
            elif isinstance(a, (str, Device)):
                device = a
            elif a is not None and not isinstance(a, bool):
                raise TypeError(f"Module.to takes a device or a dtype, got {type(a).__name__}")
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}"
            )
        return self._convert(
            lambda x: x.to(
                device=x.device if device is None else device,
                dtype=dtype if dtype is not None and x.is_floating_point() else x.dtype,
            )
        )

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def gpu(self) -> Self:
        """Move to the GPU."""
        return self.to("gpu")

    cuda = gpu

    def float(self) -> Self:
        """Float tensors to float32."""
        from pyframe.dtypes import float32

        return self.to(float32)

    def double(self) -> Self:
        """Float tensors to float64."""
        from pyframe.dtypes import float64

        return self.to(float64)

    def half(self) -> Self:
        """Float tensors to float16."""
        from pyframe.dtypes import float16

        return self.to(float16)

    # --- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call hook(module, args) before forward; what it returns replaces the arguments.

        With `with_kwargs`, hook(module, args, kwargs), which returns both or None.
        """
        return HookHandle(self._pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call hook(module, args, output) after forward; what it returns replaces the output.

        With `with_kwargs`, hook(module, args, kwargs, output).
        """
        return HookHandle(self._forward_hooks, (hook, with_kwargs), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> HookHandle:
        """Call hook(module, grad_input, grad_output) in backward, with tuples of the gradients of
        the positional arguments and of the results; what it returns replaces `grad_input`."""
        return HookHandle(self._backward_hooks, hook, prepend)

    # --- printing

    def extra_repr(self) -> str:
        """What stands in the brackets of a layer's repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [
            f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()
        ]
        if not children and len(extra) <= 1:
            return f"{self._get_name()}({''.join(extra)})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra + children) + "\n)"


def _not_a_module(owner: Module, value: Any) -> str:
    """What to say of a child that is no module."""
    from pyframe.nn.modules.container import Sequential

    if isinstance(value, type) and issubclass(value, Module):
        return (
            f"the class {value.__name__} is not a Module subclass instance; {value.__name__}() is"
        )
    said = f"{type_name(value)} is not a Module subclass"
    if isinstance(value, (list, tuple)) and isinstance(owner, Sequential):
        return f"{said}; give the modules one by one: {type(owner).__name__}(*modules)"
    if callable(value):
        return f"{said}; call a function in the forward of a module of your own"
    return said


def type_name(value: object) -> str:
    kind = type(value)
    if kind is Tensor:
        return "pyframe.Tensor"
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
