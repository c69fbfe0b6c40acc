"""Checkpoints: forward keeps no intermediate values, and backward computes them again.

Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from pyframe.autograd import backward
from pyframe.autograd.function import Function
from pyframe.autograd.graph import BackwardTask, saved_tensors_hooks
from pyframe.core.grad_node import PackedSavedTensor
from pyframe.core.modes import enable_grad, mode
from pyframe.ops.api.autocast import AutocastState, as_in
from pyframe.ops.math.elementwise import where
from pyframe.ops.random.draws import RandomState
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves, tree_map, unflatten

__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The function did something else when it was computed again."""


@contextlib.contextmanager
def _again(state: RandomState | None, casting: AutocastState | None) -> Iterator[None]:
    """With autocast as it was, and the random numbers that followed `state`; those drawn meanwhile
    do not count."""
    with as_in(casting):
        if state is None:
            yield
            return
        now = RandomState()
        state.restore()
        try:
            yield
        finally:
            now.restore()


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None, determinism_check: str = "default",
    debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """`function(*args, **kwargs)`, whose intermediate values are computed again in backward.

    `use_reentrant=False` is the better way: it works with `autograd.grad`, keyword arguments and
    tensors that `function` takes from elsewhere. Pass it (PyTorch's default, True, warns).

    Args:
        args, kwargs: What `function` takes; by name only with `use_reentrant=False`.
        context_fn: A function that gives two contexts: one to compute in, one to compute again in.
        determinism_check: "default" compares shapes, dtypes and devices of what is computed again,
            "none" doesn't.
        debug: It changes nothing.
        early_stop: Whether it stops computing again at the last value needed.
        preserve_rng_state: Whether random numbers are the same again.
    """
    if _reentrant("checkpoint", use_reentrant):
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not None or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when "
                             "use_reentrant=False.")  # fmt: skip
        if mode.grad and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None",
                          stacklevel=2)  # fmt: skip
        return _Reentrant.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got {determinism_check}"
        )
    contexts = (contextlib.nullcontext(),) * 2 if context_fn is None else context_fn()
    if not mode.grad:
        with contexts[0]:
            return function(*args, **kwargs)
    early = early_stop if _early_stop is None else _early_stop
    frame = _RecomputeFrame(
        function, args, kwargs, contexts[1], preserve_rng_state, determinism_check == "default",
        early,
    )  # fmt: skip
    with saved_tensors_hooks(frame.pack, frame.unpack), contexts[0]:
        return function(*args, **kwargs)


def _reentrant(what: str, given: bool | None) -> bool:
    """PyTorch's default, with its warning, where nothing is given."""
    if given is None:
        warnings.warn(
            f"{what}: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; True is taken now, as PyTorch does.",
            stacklevel=3,
        )
    return given is None or given


_early_stop: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether a checkpoint made within it stops computing again at the last value needed.

    Args:
        enable: True or False.
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


class _Reentrant(Function):
    """Runs forward without history, and in backward with it, in a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        ctx.function, ctx.casting = function, mode.autocast
        ctx.state = RandomState() if preserve else None
        ctx.args = [None if isinstance(a, Tensor) else a for a in args]
        ctx.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.positions])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if BackwardTask.current().useful is not None:
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an "
                "`inputs` parameter to .backward(). Use checkpoint(use_reentrant=False)."
            )
        args = list(ctx.args)
        after = next((g for g in grads if isinstance(g, Tensor)), None)
        for i, x in zip(ctx.positions, ctx.saved_tensors, strict=True):
            args[i] = _later(x.detach(), after)
            if x.requires_grad:
                args[i].requires_grad_()
        with _again(ctx.state, ctx.casting), enable_grad():
            out = ctx.function(*args)
        outs = out if isinstance(out, tuple) else (out,)
        pairs = [
            (y, g)
            for y, g in zip(outs, grads, strict=True)
            if isinstance(y, Tensor) and y.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return None, None, *[a.grad if isinstance(a, Tensor) else None for a in args]


def _later(x: Tensor, after: Tensor | None) -> Tensor:
    """`x`, where work is recorded as what is there once `after` is: else what is computed of it
    again would be found to be what forward has computed, and be kept from there on."""
    recorded = mode.capture is not None or x.device.is_lazy
    if after is None or not recorded or not x.is_floating_point() or not x.numel():
        return x
    one = after.detach().reshape(-1)[:1]
    return where(one == one, x, x)


class _Stop(Exception):  # noqa: N818
    """All that backward needs is there."""


class _Holder:
    """Stands for one saved tensor; has its value between a recomputation and its use."""

    __slots__ = ("__weakref__", "kind", "value")

    def __init__(self, x: Tensor) -> None:
        self.kind = x.shape, x.dtype, x.device
        self.value: Tensor | None = None


class _RecomputeFrame:
    """A call whose saved tensors are Holders that computing it again fills."""

    def __init__(
        self, function: Any, args: Any, kwargs: Any, context: Any, preserve: bool, check: bool,
        early: bool,
    ) -> None:  # fmt: skip
        self.function, self.context, self.check, self.early = function, context, check, early
        tensors = leaves((args, kwargs))
        self.state = RandomState() if preserve else None
        self.casting: AutocastState | None = mode.autocast
        # arguments are saved tensors too: of a checkpoint around this one, if there is one
        hooks = mode.saved_hooks[-1] if mode.saved_hooks else None
        self.kept: list[tuple[Any, bool]] = [
            (x if hooks is None else PackedSavedTensor(x, lambda y: y, *hooks), x.requires_grad)
            for x in tensors
        ]
        stand_in = Tensor()
        self.tree = tree_map((args, kwargs), lambda _: stand_in)
        self.holders: list[weakref.ref[_Holder]] = []

    def pack(self, x: Tensor) -> _Holder:
        holder = _Holder(x)
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if holder.value is None:
            self.fill()
        value, holder.value = holder.value, None
        if value is None:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation. Number of tensors saved during forward: {len(self.holders)}"
            )
        return value

    def fill(self) -> None:
        """Compute the call again and put what it saves into the Holders that are still wanted."""
        count = 0

        def pack(x: Tensor) -> Tensor:
            nonlocal count
            if count >= len(self.holders):
                raise CheckpointError(
                    "checkpoint: trying to save more tensors during recomputation than during the "
                    "original forward pass."
                )
            holder = self.holders[count]()
            count += 1
            if holder is not None:
                kind = x.shape, x.dtype, x.device
                if self.check and kind != holder.kind:
                    raise CheckpointError(
                        "checkpoint: Recomputed values for the following tensors have different "
                        f"metadata than during the forward pass: saved {holder.kind}, recomputed "
                        f"{kind}"
                    )
                holder.value = x.detach()
            if self.early and count == len(self.holders):
                raise _Stop
            return x

        args, kwargs = unflatten([self.argument(*k) for k in self.kept], self.tree)
        with (
            _again(self.state, self.casting), enable_grad(), self.context,
            saved_tensors_hooks(pack, lambda x: x), contextlib.suppress(_Stop),
        ):  # fmt: skip
            self.function(*args, **kwargs)

    @staticmethod
    def argument(x: Any, needs_grad: bool) -> Tensor:
        """An argument as it was, without history."""
        walk = BackwardTask.latest()
        after = None if walk is None else walk.grad  # before `get`, which may fill another frame
        if type(x) is PackedSavedTensor:
            x, packed = x.get(), x
            packed.found = None
        out: Tensor = _later(x.detach(), after)
        return out.requires_grad_() if needs_grad else out


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """`functions` (a Sequential or a list) one after the other, in `segments` checkpoints; the last
    segment is no checkpoint, as its values are needed first.

    Args:
        use_reentrant: As of `checkpoint`.
        kwargs: `preserve_rng_state`, as of `checkpoint`.
    """
    use_reentrant = _reentrant("checkpoint_sequential", use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions)
    size = len(steps) // segments

    def run(some: list[Any]) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for step in some:
                x = step(x)
            return x

        return forward

    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            run(steps[start : end + 1]), input, use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )  # fmt: skip
    return run(steps[end + 1 :])(input)
