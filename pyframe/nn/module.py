"""Module, the base of every layer, and the containers, as torch.nn's."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pyframe.devices import device as Device
from pyframe.dtypes import dtype as DType
from pyframe.tensor import Tensor, no_grad


class Parameter(Tensor):
    """A tensor that a Module counts among its parameters; requires grad unless told not to."""

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        from pyframe.ops.creation import zeros

        source = (zeros(0) if data is None else data).detach()
        self._node, self._storage = source._node, source._storage
        self._steps, self._stamp = source._steps, source._storage.version
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(strict=False)` left aside."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys{tuple(self)}"


class HookHandle:
    """What registering a hook returns: `remove()` takes it off again."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._id = hooks, next(HookHandle._ids)
        hooks[self._id] = hook

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        self._hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Module:
    """A layer or a model: fields that are Parameters, buffers and Modules, and `forward`."""

    training: bool

    def __init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "training", True)
        for name in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_pre_hooks"):
            set_(self, name, {})
        set_(self, "_transient", set())

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _forward_hooks: dict[int, Any]
    _pre_hooks: dict[int, Any]
    _transient: set[str]  # buffers that state_dict leaves out

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass has its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._pre_hooks and not self._forward_hooks:
            return self.forward(*args, **kwargs)
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        out = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, out)
            out = out if changed is None else changed
        return out

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
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' "
                    "(pyframe.nn.Parameter or None expected)"
                )
            self._parameters[name] = None
        elif name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' "
                    "(pyframe.nn.Module or None expected)"
                )
            self._modules[name] = None
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' "
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
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

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
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name that may be computed."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                "(pyframe.nn.Parameter or None required)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; unless persistent, it is not saved."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' "
                "(pyframe Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under a name that may be computed."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
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
        m: Any = self
        for part in target.split(".") if target else ():
            m = getattr(m, part)
            if not isinstance(m, Module):
                raise AttributeError(f"`{part}` is not a Module")
        return m

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not a Parameter")
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
    ) -> IncompatibleKeys:
        """Copy a state_dict into the model. RuntimeError that lists every missing, unexpected or
        mis-shaped key, and then nothing at all is loaded; TypeError for what is no mapping."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = dict(self._state())
        missing = [k for k in own if k not in state_dict]
        unexpected = [k for k in state_dict if k not in own]
        errors = []
        if strict and unexpected:
            keys = ", ".join(f'"{k}"' for k in unexpected)
            errors.append(f"Unexpected key(s) in state_dict: {keys}. ")
        if strict and missing:
            keys = ", ".join(f'"{k}"' for k in missing)
            errors.append(f"Missing key(s) in state_dict: {keys}. ")
        for key, x in own.items():
            if key not in state_dict:
                continue
            new = state_dict[key]
            if not isinstance(new, Tensor):
                errors.append(f'While copying the parameter named "{key}", expected a Tensor but '
                              f"got {type(new).__name__}. ")  # fmt: skip
            elif new.shape != x.shape:
                errors.append(
                    f"size mismatch for {key}: copying a param with shape {new.shape!r} from "
                    f"checkpoint, the shape in current model is {x.shape!r}."
                )
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
        return IncompatibleKeys(missing, unexpected)

    # --- modes and moving

    def train(self, mode: bool = True) -> Any:
        """Training mode, for this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for m in self.modules():
            m.training = mode
        return self

    def eval(self) -> Any:
        """Evaluation mode: dropout and the like are off."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Whether the parameters record gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.detach_().zero_()

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call `fn` on every module below, then on this one."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> Any:
        """Replace each tensor's value where it stands, so that optimizers keep holding it."""
        with no_grad():
            for x in itertools.chain(self.parameters(), self.buffers()):
                x.data = fn(x.detach())
                if x.grad is not None:
                    x.grad = fn(x.grad.detach())
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move to a device and/or convert the float tensors to a dtype, in place."""
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        kwargs.pop("non_blocking", None)
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
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, got {dtype}")
        return self._convert(
            lambda x: x.to(
                device=x.device if device is None else device,
                dtype=dtype if dtype is not None and x.is_floating_point() else x.dtype,
            )
        )

    def cpu(self) -> Any:
        """Move to the CPU."""
        return self.to("cpu")

    def gpu(self) -> Any:
        """Move to the GPU."""
        return self.to("gpu")

    cuda = gpu

    def float(self) -> Any:
        """Float tensors to float32."""
        from pyframe.dtypes import float32

        return self.to(float32)

    def double(self) -> Any:
        """Float tensors to float64."""
        from pyframe.dtypes import float64

        return self.to(float64)

    def half(self) -> Any:
        """Float tensors to float16."""
        from pyframe.dtypes import float16

        return self.to(float16)

    # --- hooks

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, args) before forward; what it returns replaces the arguments."""
        return HookHandle(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, args, output) after forward; what it returns replaces the output."""
        return HookHandle(self._forward_hooks, hook)

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


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


class Sequential(Module):
    """Modules one after the other: given in order, or as an OrderedDict of names."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, m in args[0].items():
                self.add_module(name, m)
        else:
            for i, m in enumerate(args):
                self.add_module(str(i), m)

    def forward(self, input: Any) -> Any:
        """Each module on the result of the one before."""
        for m in self._modules.values():
            input = m(input)  # type: ignore[misc]
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[_checked(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_checked(index, len(self))], module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [names[_checked(index, len(self))]]
        _renumber(self, [m for n, m in self._modules.items() if n not in gone])

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for m in modules:
            self.append(m)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position `index`."""
        found = list(self._modules.values())
        found.insert(index, module)
        _renumber(self, found)
        return self


def _checked(index: Any, n: int) -> int:
    i = index.__index__()
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for {n} modules")
    return i % n


def _renumber(owner: Module, modules: list[Any]) -> None:
    owner._modules.clear()
    owner._modules.update({str(i): m for i, m in enumerate(modules)})


class ModuleList(Module):
    """A list of modules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self._modules.values())
        if isinstance(index, slice):
            return type(self)(found[index])  # type: ignore[arg-type]
        return found[_checked(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(_checked(index, len(self))), module)

    def __delitem__(self, index: int) -> None:
        found = list(self._modules.values())
        del found[index]
        _renumber(self, found)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for m in modules:
            self.append(m)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`."""
        found = list(self._modules.values())
        found.insert(index, module)
        _renumber(self, found)


class ModuleDict(Module):
    """A dict of modules."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules by name."""
        for k, m in modules.items():
            self[k] = m

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, module)."""
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        for v in values or ():
            self.append(v)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[_checked(index, len(self))]

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter (a plain tensor becomes one) at the end."""
        p = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), p)
        return self
