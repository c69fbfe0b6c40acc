"""Function: an op with a gradient of the user's own, as torch.autograd.Function."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from pyframe.autograd.graph import pack_saved_tensor
from pyframe.core import grad_node as _grad_node
from pyframe.core.dtypes import FLOAT
from pyframe.core.grad_node import GradNode, OutputEdge, PackedSavedTensor, TensorMeta
from pyframe.core.modes import mode, no_grad
from pyframe.ops.random.creation import zeros
from pyframe.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionCtx:
    """`ctx`: what forward keeps for backward; any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    to_save: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None); a later in-place change of one is an error in backward."""
        for i, x in enumerate(tensors):
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(x).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Accepted for compatibility: there is no forward mode."""

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """These results have no gradient."""
        self.non_differentiable = args

    def mark_dirty(self, *args: Tensor) -> None:
        """These inputs were changed in place."""
        self.dirty_tensors = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for a result that has no gradient."""
        self.materialize_grads = value


class _OpAdapter:
    """A Function in the shape of an Op, as far as nodes are asked for it."""

    differentiable = True

    def __init__(self, name: str) -> None:
        self.name = name


def _spec(x: Any) -> TensorMeta | None:
    return TensorMeta(x.shape, x.dtype, x.device) if isinstance(x, Tensor) else None


class BackwardCFunction(GradNode, FunctionCtx):
    """The step of the backward pass that a call of a Function made; it is forward's `ctx` too."""

    _forward_cls: type[Function]

    @property
    def replays(self) -> bool:  # type: ignore[override]
        return self._forward_cls._replays

    @property
    def sized(self) -> bool:  # type: ignore[override]
        return self._forward_cls._sized

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.op = _OpAdapter(self._forward_cls.__name__)
        self.extra = None
        self.saved: list[Any] | None = []
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self.edges = [
            (a.grad_fn or a) if need and mode.grad else None
            for a, need in zip(args, self.needs_input_grad, strict=True)
        ]
        self.specs: list[Any] = [_spec(a) for a in args]
        self.results: list[TensorMeta | None] = []
        self.ports: list[weakref.ref[OutputEdge] | None] = []
        self.seq = 0

    def name(self) -> str:
        return f"{self.op.name}Backward"

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward saved. RuntimeError once backward has freed it, or for a tensor that was
        changed in place since."""
        if not self.results:  # forward still runs
            return self.to_save
        if self.saved is None:
            raise _grad_node.freed_error(self.op.name)
        return tuple([self._unpack(entry) for entry in self.saved])

    def _unpack(self, entry: Any) -> Any:
        if entry is None:
            return None
        x, version, source = entry
        if type(x) is PackedSavedTensor:
            x = x.get()
        else:
            _grad_node.check_version(x, version, f"a saved tensor of {self.op.name}")
        if source is not None:
            x = x._alias()
            x._grad_fn = self.port(source)
        return x

    def port(self, i: int) -> GradNode:
        """Where the walk meets the gradient of result `i`."""
        if len(self.results) == 1:
            return self
        ref = self.ports[i]
        found = None if ref is None else ref()
        if found is None:
            found = OutputEdge(self, i, _grad_node.next_seq())
            self.ports[i] = weakref.ref(found)
        return found

    def run(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradients of the arguments (None where there is none), given those of the results."""
        if self.materialize_grads:
            grads = [
                zeros(s.shape, dtype=s.dtype, device=s.device) if g is None and s is not None else g
                for g, s in zip(grads, self.results, strict=True)
            ]
        found = self._forward_cls.backward(self, *grads)
        found = found if isinstance(found, tuple) else (found,)
        n = len(self.edges)
        if len(found) < n or any(x is not None for x in found[n:]):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {n}, got {len(found)})"
            )
        return tuple([self._checked(i, found[i]) for i in range(n)])

    def _checked(self, i: int, g: Any) -> Any:
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        spec: Any = self.specs[i]
        if spec is None:
            raise RuntimeError(
                f"function {self.name()} returned a gradient different than None at position "
                f"{i + 1}, but the corresponding forward input was not a Variable"
            )
        if self.edges[i] is None:
            return None
        shape, dtype, device = spec
        if g.shape != shape:
            try:
                g = g.sum_to_size(shape)
            except RuntimeError:
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {i} - got "
                    f"{list(g.shape)} but expected shape compatible with {list(shape)}"
                ) from None
        if g.device is not device:
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {i} - expected "
                f"device {device} but got {g.device}"
            )
        return g if g.dtype is dtype else g.to(dtype)

    def settle(self, args: tuple[Any, ...], result: Any) -> Any:
        """Once forward is done: what `apply` returns, with this node as its history."""
        several = isinstance(result, tuple)
        results = list(result) if several else [result]
        given = {id(a) for a in args if isinstance(a, Tensor)}
        dirty = {id(x) for x in self.dirty_tensors}
        constant = {id(x) for x in self.non_differentiable}
        if dirty - {id(r) for r in results}:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        self.results = [_spec(r) for r in results]
        self.ports = [None] * len(results)
        # before its ports, after all that forward may have recorded
        self.seq = _grad_node.next_seq()
        records = any(e is not None for e in self.edges)
        known = {}  # which result a saved tensor is
        outs: list[Any] = []
        for i, r in enumerate(results):
            if not isinstance(r, Tensor):
                outs.append(r)
                continue
            wants = records and r.dtype.category >= FLOAT and id(r) not in constant
            outs.append(self._result(i, r, wants, id(r) in given, id(r) in dirty))
            if wants:
                known[id(r)] = i
        if records:
            self.saved = [self._keep(x, known.get(id(x))) for x in self.to_save]
            _grad_node.notify_node_created(self)
        self.to_save = self.dirty_tensors = self.non_differentiable = ()
        return tuple(outs) if several else outs[0]

    def _result(self, i: int, r: Tensor, wants: bool, given: bool, dirty: bool) -> Tensor:
        if dirty and given:
            if not wants:
                return r
            if r._needs_grad:
                raise RuntimeError(
                    "a leaf Variable that requires grad has been used in an in-place operation."
                )
            if r._base is None:
                r._grad_fn = self.port(i)
            else:
                value = r._alias()
                value._grad_fn = self.port(i)
                r._rebase(value)
            return r
        is_view = given or r._base is not None
        if is_view or r._grad_fn is not None or r._needs_grad:
            r = r._alias()
        if wants:
            r._grad_fn = self.port(i)
            if is_view:
                r._refuse_writes(
                    f"Output {i} of {self.name()} is a view. This view was created inside a custom "
                    "Function (or because an input was returned as-is) and the autograd logic to "
                    "handle view+inplace would override the custom backward associated with the "
                    "custom Function, leading to incorrect gradients"
                )
        return r

    def _keep(self, x: Tensor | None, source: int | None) -> Any:
        if x is None:
            return None
        if x.is_inference():
            raise _grad_node.inference_error()
        if source is not None:
            x = x._alias()  # without history: it would be a cycle
        if mode.saved_hooks:
            self.attach().packed = True
            return pack_saved_tensor(x), 0, source
        return x, x._storage.version, source


class Function:
    """Subclass with static `forward(ctx, *args)` (or `forward(*args)` and
    `setup_context(ctx, inputs, output)`) and `backward(ctx, *grads)`; call `apply`.

    Args:
        args, kwargs: None: RuntimeError, as it is not instantiated.

    >>> class Double(pf.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Double.apply(pf.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """

    _backward_cls: type[BackwardCFunction]
    generate_vmap_rule = False
    # whether forward sets on ctx, besides what it saves, nothing but what is the same in each call
    _replays = False
    _sized = False  # and whether what holds sizes among it has numbers for them by `at_present`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__}: a Function is not instantiated; call "
            f"{type(self).__name__}.apply(...), with static forward and backward"
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._backward_cls = type(
            f"{cls.__name__}Backward", (BackwardCFunction,), {"_forward_cls": cls}
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result from tensors and other arguments.

        Args:
            args, kwargs: `ctx`, if there is no `setup_context`, and what `apply` was called with.
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, where forward takes no ctx.

        Args:
            ctx: What backward gets.
            inputs: What forward got, a tuple.
            output: What it gave.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient (or None) per argument of forward.

        Args:
            ctx: What forward kept.
            grad_outputs: A gradient for each result.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record backward if an input requires grad.

        Args:
            args, kwargs: What forward takes.
        """
        ctx = cls._backward_cls(args)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        out = ctx.settle(args, result)
        if mode.capture is not None and mode.grad:
            mode.capture.follow(cls.apply, args, kwargs, out)
        return out


# `vjp` is another name of `backward`; a subclass may have either
InplaceFunction = NestedIOFunction = Function


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that is not differentiable itself: a second derivative is an error."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            found = fn(ctx, *grads)
        if not mode.grad or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return found
        several = isinstance(found, tuple)
        return _Once.apply(*found) if several else _Once.apply(found)[0]

    return wrapped


class _Once(Function):
    """Passes gradients on, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, *grads: Any) -> Any:
        return grads

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
