"""Function: an op with a gradient of the user's own, as torch.autograd.Function."""

from __future__ import annotations

from typing import Any

from pyframe.dtypes import FLOAT
from pyframe.ops.op import GradNode, mode, next_seq
from pyframe.tensor import Tensor, no_grad


class _Context:
    """`ctx`: what forward keeps for backward."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: list[tuple[Tensor | None, int]] = []
        self._constant: set[int] = set()
        self._dirty: set[int] = set()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors; a later in-place change of one is an error in backward."""
        self._saved = [(t, -1 if t is None else t._storage.version) for t in tensors]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        for t, version in self._saved:
            if t is not None and t._storage.version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: a saved tensor of shape {list(t.shape)} is at version "
                    f"{t._storage.version}; expected version {version} instead"
                )
        return tuple(t for t, _ in self._saved)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self._constant = {id(t) for t in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were changed in place."""
        self._dirty = {id(t) for t in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Accepted for compatibility: a result without gradient always passes zeros."""


class _FunctionOp:
    """A Function call in the shape of an Op, for GradNode."""

    differentiable = True
    inputs: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name


class Function:
    """Subclass with static `forward(ctx, *args)` and `backward(ctx, *grads)`; call `apply`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the result from tensors and other arguments."""
        raise NotImplementedError("a Function needs a static forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """One gradient (or None) per argument of forward."""
        raise NotImplementedError("a Function needs a static backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record backward if an input requires grad."""
        ctx = _Context()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            result = cls.forward(ctx, *args)
        if not mode.grad or not any(ctx.needs_input_grad):
            return result
        results = list(result) if isinstance(result, tuple) else [result]
        outs = []
        joint = _Joint(cls, ctx, args, results)
        for i, r in enumerate(results):
            if not isinstance(r, Tensor) or r.dtype.category != FLOAT or id(r) in ctx._constant:
                outs.append(r)
                continue
            out = r if id(r) in ctx._dirty else r._alias()
            out._grad_fn = joint.node(i, r)
            outs.append(out)
        return tuple(outs) if isinstance(result, tuple) else outs[0]


class _Joint:
    """The results of one call share one backward: each result's node hands its gradient to a
    common node, which has a lower sequence number and so is visited after all of them."""

    def __init__(self, cls: type[Function], ctx: _Context, args: Any, results: Any) -> None:
        self.cls, self.ctx, self.args = cls, ctx, args
        self.specs = [r._node if isinstance(r, Tensor) else None for r in results]
        self.grads: list[Any] = [None] * len(results)
        self.common: _CommonNode = _CommonNode.__new__(_CommonNode)
        self.common.seq = next_seq()
        self.common.op = _FunctionOp(cls.__name__)
        self.common.edges = [
            (a.grad_fn or a) if isinstance(a, Tensor) and a.requires_grad else None for a in args
        ]
        self.common.hooks = self.common.retained = None
        self.common.saved = []
        self.common.joint = self
        self.common.cached = None

    def node(self, i: int, r: Tensor) -> GradNode:
        out: _ResultNode = _ResultNode.__new__(_ResultNode)
        out.seq = next_seq()
        out.op = self.common.op
        out.edges = [self.common]
        out.hooks = out.retained = None
        out.saved = []
        out.joint, out.index = self, i
        return out


class _ResultNode(GradNode):
    __slots__ = ("index", "joint")
    index: int
    joint: _Joint

    def vjp(self, i: int, g: Tensor) -> Tensor:
        self.joint.grads[self.index] = g
        return g.sum() * 0  # a token: the common node reads the gradients themselves


class _CommonNode(GradNode):
    __slots__ = ("cached", "joint")
    cached: tuple[tuple[Any, ...], int] | None
    joint: _Joint

    def vjp(self, i: int, g: Tensor) -> Any:
        joint = self.joint
        if self.saved is None:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {self.op.name}. Specify "
                "retain_graph=True if you need to backward through the graph a second time"
            )
        if self.cached is None:
            from pyframe.ops.creation import zeros

            grads = [
                zeros(s.shape, dtype=s.dtype, device=s.device) if x is None and s is not None else x
                for x, s in zip(joint.grads, joint.specs, strict=True)
            ]
            found = joint.cls.backward(joint.ctx, *grads)
            found = found if isinstance(found, tuple) else (found,)
            if (
                len(found) != len(joint.args)
                and any(x is not None for x in found[len(joint.args) :])
            ) or len(found) < len(joint.args):
                raise RuntimeError(
                    f"function {self.op.name}Backward returned an incorrect number of gradients "
                    f"(expected {len(joint.args)}, got {len(found)})"
                )
            joint.grads = [None] * len(joint.grads)
            self.cached = (found, [e is not None for e in self.edges].count(True))
        found, left = self.cached
        self.cached = (found, left - 1) if left > 1 else None
        part = found[i]
        want = joint.args[i]
        if part is not None and part._node.shape != want._node.shape:
            raise RuntimeError(
                f"Function {self.op.name}Backward returned an invalid gradient at index {i} - got "
                f"{list(part.shape)} but expected shape compatible with {list(want.shape)}"
            )
        return part


def once_differentiable(fn: Any) -> Any:
    """Mark a backward whose result has no gradient of its own."""

    def wrapped(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            return fn(ctx, *grads)

    return wrapped
