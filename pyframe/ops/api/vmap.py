"""vmap: a function runs once, and each of its ops on a whole batch.

What the function sees are per-example tensors: their shape is that of one example, and in place of
a value their node has the batched tensor that they stand for, with a first dim more. `VmapLevel` is
the thread's Interceptor (`mode.capture`) meanwhile: it runs each op on the batched tensors, as the
op's batching rule says.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pyframe.core import dispatch as _dispatch, dtypes as dt, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import apply, record_grad_node
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import mode
from pyframe.core.node import Node, Storage
from pyframe.core.op import CONST, EXTERN, Op
from pyframe.ops.api import batching_rules as rules
from pyframe.ops.api.check import assert_not
from pyframe.ops.math import elementwise as el
from pyframe.ops.shape.join import cat, stack
from pyframe.ops.shape.movement import expand, movedim
from pyframe.tensor import Tensor, base_tensor
from pyframe.tensor.tree import leaves, unflatten

R = TypeVar("R")

# The op of a per-example tensor's node; it is in no graph that runs.
BATCHED_OP = Op("per_example", EXTERN, "", "batch batched")
del _op.REGISTRY["per_example"]


class _Over:
    """The value of a per-example tensor once its `vmap` is over: asking for it is an error."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "vmap: a tensor of the mapped function is used after it, where an example has no "
            "value; return what you need of it"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.nothing


def _as_around(name: str) -> Any:
    """A method of VmapLevel that only tells the Interceptor around it, or asks it."""

    def run(self: VmapLevel, *args: Any) -> Any:
        return None if self.outer is None else getattr(self.outer, name)(*args)

    return run


def _nothing(self: VmapLevel, *args: Any) -> None:
    """What a batch need not know."""


class VmapLevel:
    """One `vmap` of `size` examples, and the ops on them: see core.modes.Interceptor."""

    orders = False

    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self.outer, self.hooks = mode.capture, mode.saved_hooks
        # storages made within the function: those that may come to be per example, and that are
        self.inner: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.made_here: weakref.WeakSet[Storage] = weakref.WeakSet()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Within it ops run as where `vmap` was called."""
        hooks, mode.capture, mode.saved_hooks = mode.saved_hooks, self.outer, self.hooks
        try:
            yield
        finally:
            self.outer = mode.capture  # none, where a capture around has given up
            mode.capture, mode.saved_hooks = self, hooks

    # --- per-example and batched tensors

    def per_example(self, batched: Tensor) -> Tensor:
        """What the function sees of a batched tensor."""
        out = _dispatch.tensor_from_node(self._node(batched))
        self.made_here.add(out._storage)
        return out

    def _node(self, batched: Tensor) -> Node:
        n = batched._node
        return Node(BATCHED_OP, (), (self, batched), n.shape[1:], n.dtype, n.device)

    def find(self, node: Node) -> Tensor | None:
        """The batched tensor that `node` stands for; None if it is the same for all examples."""
        if node.op is BATCHED_OP and node.attrs[0] is self:
            batched: Tensor = node.attrs[1]
            return batched
        if node.data is None and node.op is not None and node.op.alias:
            base = self.find(node.inputs[0])  # of a view that is made anew after a write
            if base is not None:
                with self.outside():
                    return rules.batched(
                        node.op, [base], [True], node.attrs, node.inputs, node.shape
                    )
        return None

    def batched(self, x: Tensor) -> Tensor | None:
        """`find` for a tensor, with the history that it has."""
        found = self.find(x._value())
        if found is not None and found.requires_grad and not x.requires_grad:
            with self.outside():
                found = found.detach()
        return found

    def repeated(self, x: Tensor) -> Tensor:
        """`batched` of `x`, also where it is the same for all examples."""
        found = self.batched(x)
        if found is None:
            with self.outside():
                found = expand(_plain(x), (self.size, *x.shape))
        return found

    # --- what the recording code tells: see Capture

    def run(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
        shape: tuple[int, ...], dtype: dt.dtype, device: Device,
    ) -> Tensor:  # fmt: skip
        """A per-example tensor of what the batching rule gives, with a history among such; or,
        where no input is per example, what the op gives outside."""
        found = [None if type(x) is Node else self.batched(x) for x in inputs]
        drawn = op is el.random_bits_op and self._draws()
        with self.outside():
            if drawn:
                return self.per_example(apply(op, inputs, ((self.size, *attrs[0]),)))
            xs = [_plain(x) if f is None else f for x, f in zip(inputs, found, strict=True)]
            flags = [f is not None for f in found]
            if not any(flags):
                out = apply(op, tuple(xs), attrs)
                self.inner.add(out._storage)
                return out
            out = self.per_example(rules.batched(op, xs, flags, attrs, nodes, shape))
        if op.alias:
            out._share(inputs[0], op, attrs)
        if op.differentiable and mode.grad:
            record_grad_node(op, inputs, attrs, out)
        return out

    def _draws(self) -> bool:
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )
        return self.randomness == "different"

    def write(self, x: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
        """A per-example tensor's storage stands for another batched tensor then. Without `records`
        the history stays as it was."""
        node = x._storage.node
        base = self.find(node)
        if base is None:
            if self.batched(value) is None:  # the same for all
                with self.outside():
                    x._change(value, temporary, records)
                return
            if x._storage not in self.inner:
                raise RuntimeError(
                    "vmap: inplace arithmetic(self, *extra_args) is not possible because there "
                    "exists a Tensor `other` in extra_args that has more elements than `self`: "
                    "self is a tensor from outside of the mapped function, of which each example "
                    "would write another value. Write to a clone, or use an out-of-place operator"
                )
            owner = x if x._base is None else x._base
            base = self.repeated(base_tensor(x._storage) if owner._view_chain else owner)
        new = self.repeated(value)
        if x._view_chain:
            with self.outside():
                steps = rules.batched_chain(x._view_chain, node, self.size)
                new = apply(_op.PUT, (base.contiguous(), new), (steps,))
        if not records and base.requires_grad:
            new = new._alias()
            new._grad_fn = GradNode(_op.REGISTRY["copy"], (base,), (), new)
        x._storage.node = self._node(new)

    def follow(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """`out` gets the history that it has where `vmap` was called, if an argument has one there:
        one example after the other."""
        batched = [self.batched(a) if isinstance(a, Tensor) else None for a in args]
        parts = [a if b is None else b for a, b in zip(args, batched, strict=True)]
        if not any(isinstance(p, Tensor) and p.requires_grad for p in parts):
            return
        pairs = list(zip(parts, batched, strict=True))
        with self.outside():
            rows = [
                leaves(call(*[p if b is None else p[i] for p, b in pairs],
                            **kwargs))
                for i in range(self.size)
            ]  # fmt: skip
            found = [stack(r) for r in zip(*rows, strict=True)]
        for y, many in zip(leaves(out), found, strict=True):
            y._node = self._node(many)
            if not y._view_chain:
                y._storage.node = y._node

    def check(
        self, bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
    ) -> None:
        """Of all examples at once; which value it was is not told."""
        found = self.batched(bad)
        with self.outside():
            assert_not(bad if found is None else found, message, error)

    def is_first(self, what: tuple[Any, ...]) -> bool:
        """Examples are checked each time."""
        return True

    def read(self, x: Tensor, op: str = "") -> None:
        """A per-example tensor can't be. Others can, as where `vmap` was called."""
        if self.batched(x) is not None:
            raise RuntimeError(
                "vmap: It looks like you're either calling .item() on a Tensor or attempting to "
                "use a Tensor in some data-dependent control flow: an example has no value of its "
                "own. Use pf.where, or a loop in the place of vmap"
            )
        with self.outside():
            if mode.capture is not None:
                mode.capture.read(x, op)

    def on_host_random(self) -> None:
        """The same for all examples, and drawn once."""
        if self._draws():
            raise RuntimeError(
                "vmap: these random numbers are drawn on the host and are the same for all; use "
                "pf.rand_like, pf.randn_like or pf.bernoulli, or randomness='same'"
            )

        with self.outside():
            if mode.capture is not None:
                mode.capture.on_host_random()

    def made(self, x: Tensor) -> None:
        """It may come to hold examples."""
        self.inner.add(x._storage)
        if self.outer is not None:
            self.outer.made(x)

    def accumulate(self, leaf: Tensor) -> None:
        """Refused: the batch of gradients is not what `leaf.grad` is."""
        raise RuntimeError(
            "vmap: backward() within the mapped function would leave gradients of examples in "
            ".grad; use pf.func.grad or pf.autograd.grad"
        )

    # --- what only a capture has to know: ops that are the same for all examples it sees itself

    on_operand = on_alias_changed = due = _nothing  # ops outside say so

    @property
    def replays(self) -> bool:
        """As where `vmap` was called."""
        return self.outer is not None and self.outer.replays

    def graph_break(self, why: str) -> None:
        """The capture around ends; the batch goes on."""
        with self.outside():
            if mode.capture is not None:
                mode.capture.graph_break(why)

    def constant(self, number: Any, dtype: dt.dtype, device: Device) -> Node:
        """As where `vmap` was called."""
        with self.outside():
            return _op.const(number, dtype, device)

    # as where `vmap` was called, if a Interceptor is there
    bind_host_array, source = _as_around("bind_host_array"), _as_around("source")
    placed, on_grad_access, hold = map(_as_around, ("placed", "on_grad_access", "hold"))

    def watch(self, get: Callable[[], Any], value: Any = None) -> Any:
        """As where `vmap` was called."""
        if self.outer is not None:
            return self.outer.watch(get, value)
        return get() if value is None else value


def _plain(x: Any) -> Any:
    """`x`, not per example, with a value: a number has none while ops are only recorded."""
    if type(x) is Node:
        return _op.const(_op.number_of(x), x.dtype, x.device)
    n = x._node
    return _dispatch.tensor_from_node(_plain(n)) if n.op is CONST and n.data is None else x


# --- vmap


def vmap(
    func: Callable[..., R], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
    *, chunk_size: int | None = None,
) -> Callable[..., R]:  # fmt: skip
    """`func` over dim `in_dims` of its arguments (None: all of it, each time), its results stacked
    along `out_dims`. It runs once, each of its ops on the whole batch (or `chunk_size` of it).

    Random numbers are each example's own where `randomness` is "different", "same" for all, and
    else an "error". RuntimeError where it reads a value, or writes to a tensor from outside.
    https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html

    >>> pf.vmap(pf.dot)(pf.ones(4, 3), pf.ones(4, 3))
    tensor([3., 3., 3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0, got {chunk_size}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        dims = _spread(in_dims, args, "in_dims")
        flat = leaves(args)
        if not flat:
            raise ValueError(
                f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
                "you are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        for x, d in zip(flat, dims, strict=True):
            if d is not None and not -x.ndim <= d < x.ndim:
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}): Got in_dim={d} for an input of "
                    f"dimensionality {x.ndim}, so expected in_dim to satisfy {-x.ndim} <= in_dim < "
                    f"{x.ndim}"
                )
        dims += [0] * len(leaves(kwargs))
        pairs = list(zip(flat + leaves(kwargs), dims, strict=True))
        sizes = {x.shape[d] for x, d in pairs if d is not None}
        if len(sizes) != 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)} for the mapped dimension"
            )
        (n,) = sizes
        if not n:
            raise ValueError("vmap: expected a mapped dimension of at least one element, got 0")
        batched = [x if d is None else movedim(x, d, 0) for x, d in pairs]
        tree = (args, kwargs)
        step = chunk_size or n
        parts = []
        for i in range(0, n, step):
            part = batched
            if step < n:
                part = [
                    x if d is None else x[i : i + step]
                    for x, (_, d) in zip(batched, pairs, strict=True)
                ]
            parts.append(_mapped(func, part, dims, tree, out_dims, randomness))
        if len(parts) == 1:
            return parts[0]
        outs = _spread(out_dims, parts[0], "out_dims")
        joined = [
            ys[0] if d is None else cat(ys, d)
            for d, *ys in zip(outs, *map(leaves, parts), strict=True)
        ]
        return unflatten(joined, parts[0])

    return wrapped


def _mapped(
    func: Any, batched: list[Tensor], dims: list[int | None], tree: Any, out_dims: Any,
    randomness: str,
) -> Any:  # fmt: skip
    """What `func` gives, batched, for all examples of `batched` (where the dim is not None)."""
    (size, *_) = [x.shape[0] for x, d in zip(batched, dims, strict=True) if d is not None]
    batch = VmapLevel(size, randomness)
    examples = [
        x if d is None else batch.per_example(x).requires_grad_(x.requires_grad)
        for x, d in zip(batched, dims, strict=True)
    ]
    starts = [x._storage.node for x in examples]
    args, kwargs = unflatten(examples, tree)
    mode.capture = batch
    try:
        found = func(*args, **kwargs)
        _only_tensors(func, found)
        pairs = list(zip(leaves(found), _spread(out_dims, found, "out_dims"), strict=True))
        if any(d is None and batch.batched(y) is not None for y, d in pairs):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        outs = [y if d is None else batch.repeated(y) for y, d in pairs]
    finally:
        mode.capture = batch.outer
    for storage in batch.made_here:
        storage.node.data = _Over()
    for x, start, many in zip(examples, starts, batched, strict=True):
        if x._storage.node is not start:  # written in place
            many.copy_(batch.find(x._storage.node))
    return unflatten(
        [y if not d else movedim(y, 0, d) for y, (_, d) in zip(outs, pairs, strict=True)], found
    )


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _spread(dims: Any, tree: Any, what: str) -> list[int | None]:
    """One dim for each tensor of `tree`, from a tree of dims that may be less deep."""
    if isinstance(tree, Tensor):
        if dims is not None and not isinstance(dims, int):
            raise ValueError(f"vmap: {what} has {dims!r} where one dim (or None) is expected")
        return [dims]
    if not isinstance(tree, (list, tuple, dict)):
        return []
    if isinstance(dims, (list, tuple, dict)):
        if len(dims) != len(tree) or isinstance(dims, dict) != isinstance(tree, dict):
            raise ValueError(
                f"vmap: {what} is not compatible with the structure of inputs: it has {len(dims)} "
                f"entries for {len(tree)}"
            )
        keys: Any = tree if isinstance(tree, dict) else range(len(tree))
        return [d for k in keys for d in _spread(dims[k], tree[k], what)]
    values = tree.values() if isinstance(tree, dict) else tree
    return [d for value in values for d in _spread(dims, value, what)]


def _only_tensors(func: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        return
    if not isinstance(value, (list, tuple, dict)):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
            f"{type(value)} as a return."
        )
    for v in value.values() if isinstance(value, dict) else value:
        _only_tensors(func, v)
