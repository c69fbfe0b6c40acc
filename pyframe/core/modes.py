"""The modes of a thread: gradients, inference mode, and the Interceptor that its ops go through."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, overload

from pyframe.core.locks import lock

if TYPE_CHECKING:
    from pyframe.core.devices import device as Device
    from pyframe.core.dtypes import dtype as DType
    from pyframe.core.node import Node, Storage
    from pyframe.core.op import Op
    from pyframe.tensor import Tensor


class Interceptor(Protocol):
    """What stands between a thread's ops and their values: a Capture (capture/capture.py), which
    only records, or a VmapLevel (ops/api/vmap.py), which runs each op on all examples at once.

    While one is `mode.capture`, the code that ops are made of tells it what happens and asks it
    what to do. A VmapLevel passes on what concerns a Capture that runs around it.
    """

    @property
    def replays(self) -> bool:
        """Whether what happens now will be run again, with other values."""

    orders: bool  # whether results carry a stride order; under vmap the batch has its own layout

    # --- ops and writes

    def run(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Node, ...],
        shape: tuple[int, ...], dtype: DType, device: Device,
    ) -> Tensor:  # fmt: skip
        """The result of an op, with its history."""

    def write(self, x: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
        """Let the memory of `x` hold `value`, of its shape and dtype, which no one else holds if
        it is `temporary`. `records` says that autograd is to follow."""

    def follow(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """`call(*args, **kwargs)`, which has a gradient of its own, has given `out`."""

    def constant(self, number: Any, dtype: DType, device: Device) -> Node:
        """A SymbolicScalar (see core/symbolic.py) as a node of the graph."""

    # --- tensors

    def on_operand(self, x: Tensor) -> None:
        """`x`, which has its value, is an operand."""

    def made(self, x: Tensor) -> None:
        """`x` was made here, of data that does not come from a tensor."""

    def on_alias_changed(self, x: Tensor) -> None:
        """`x` is a handle on memory that others may see too, and has another node."""

    def due(self, storage: Storage) -> None:
        """`storage` has a node without a value, which is to be computed with the others."""

    def bind_host_array(self, x: Tensor, make: Callable[[], Any], shares: bool) -> None:
        """`x` was made here of the array that `make` gives; `shares` says that the array is to see
        what is written to `x`."""

    def source(self, x: Tensor) -> Callable[[], Any] | None:
        """What gives the array that `x` was made of, if it was told (see `bind_host_array`)."""

    def placed(self) -> None:
        """It was asked where in its memory a view begins."""

    def on_grad_access(self, leaf: Tensor, read: bool) -> None:
        """`leaf.grad` is about to be read or replaced."""

    def accumulate(self, leaf: Tensor) -> None:
        """A backward pass is about to add to `leaf.grad`."""

    # --- what is not of the graph

    def read(self, x: Tensor, op: str = "") -> None:
        """The value of `x` is needed now."""

    def watch(self, get: Callable[[], Any], value: Any = None) -> Any:
        """What `get()` gives, which is `value` if that is told, decides what happens next."""

    def check(
        self, bad: Tensor, message: str, error: type[Exception], values: Tensor | None = None
    ) -> None:
        """Raise error(message), now or once the value is known, if any of `bad` is true. With
        `values`, ints, the message ends with the one at which it is, where it can be kept."""

    def is_first(self, what: tuple[Any, ...]) -> bool:
        """Whether `what`, a node and what is checked of it, was not asked about before."""

    def on_host_random(self) -> None:
        """Random numbers are about to be drawn by the host."""

    def hold(self, lock: Any) -> None:
        """Keep other threads from state that is written to."""

    def graph_break(self, why: str) -> None:
        """What comes next can't be recorded: compute what was, and go on eagerly."""


class _ThreadModes(threading.local):
    """What the ops of this thread do besides computing."""

    grad = True  # record gradients
    records = True  # ops on large tensors of the CPU may be recorded, see core/dispatch.py
    inference = False  # what is made is an inference tensor
    saved_hooks: tuple[Any, ...] = ()  # (pack, unpack), the innermost last
    training: Any = None  # {id of a module: its mode} in this thread alone: nn's Evaluation
    shared_statistics = False  # BatchNorm's are of the batches of all processes
    autocast: Any = None  # within pf.autocast: the dtypes that it casts to, see ops/api/autocast.py
    trace: Any = None  # what was recorded for the CPU, see core/trace.py
    subgraph_recorder: Any = None  # while a subgraph of it is noted, see tensor/subgraph.py
    capture: Interceptor | None = None  # while there is one, every device is lazy
    counts = False  # results are counted before they are made, see `counted` of core/dispatch.py
    overrides_off = False  # classes' __torch_function__ is not asked, see overrides.py
    function_modes: tuple[Any, ...] = ()  # those entered, the innermost last
    tracer: Any = None  # what public functions are called by meanwhile, see jit/record.py


mode = _ThreadModes()


def mark_uncacheable() -> None:
    """The ops that run now depend on values: the subgraph being recorded must not be cached."""
    if mode.subgraph_recorder is not None:
        mode.subgraph_recorder.failed = True


inferring = 0  # threads that are in inference mode; while there are none, nothing else is asked
_count = lock()


P = ParamSpec("P")
R = TypeVar("R")


class _Mode:
    """A context manager that decorates functions and generators too."""

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> _Mode:
        """Another one like it."""
        return type(self)()

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(fn):
            return functools.wraps(fn)(lambda *a, **kw: self._steps(fn(*a, **kw)))

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return wrapped

    def _steps(self, generator: Any) -> Any:
        """A generator whose own code, and not the code that takes from it, runs in the mode."""
        resume: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with self.clone():
                    value = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
            except GeneratorExit:
                with self.clone():
                    generator.close()
                raise
            except BaseException:
                resume = functools.partial(generator.throw, sys.exc_info()[1])
            else:
                resume = functools.partial(generator.send, sent)


class _GradSwitch(_Mode):
    """Gradients are recorded, or not. In inference mode they never are."""

    enabled = True

    @overload
    def __new__(cls, fn: None = None) -> Self: ...
    @overload
    def __new__(cls, fn: Callable[P, R]) -> Callable[P, R]: ...  # type: ignore[misc]
    def __new__(cls, fn: Any = None) -> Any:
        return super().__new__(cls) if fn is None else cls()(fn)

    def __init__(self, fn: Any = None) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(mode.grad)
        mode.grad = self.enabled and not mode.inference

    def __exit__(self, *exc: object) -> None:
        mode.grad = self._before.pop()


class no_grad(_GradSwitch):  # noqa: N801
    """Within it (or in the function that it decorates), ops record no gradients.

    Args:
        fn: the function to decorate, where it stands in front of one without parentheses.

    >>> x = pf.ones(1, requires_grad=True)
    >>> with pf.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class enable_grad(_GradSwitch):  # noqa: N801
    """Within it, ops record gradients again.

    Args:
        fn: the function to decorate, where it stands in front of one without parentheses.

    >>> x = pf.ones(1, requires_grad=True)
    >>> with pf.no_grad(), pf.enable_grad():
    ...     print((x * 2).requires_grad)
    True
    """


class set_grad_enabled(_Mode):  # noqa: N801
    """Switch gradient recording at once; as a context manager, until its end.

    Args:
        mode: Whether ops record gradients.

    >>> with pf.set_grad_enabled(False):
    ...     print(pf.is_grad_enabled())
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._first = _set(self.mode)

    def __enter__(self) -> None:
        _set(self.mode)

    def __exit__(self, *exc: object) -> None:
        _set(self._first)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        _set(self._first)
        return super().__call__(fn)


def _set(enabled: bool) -> bool:
    before, mode.grad = mode.grad, enabled and not mode.inference
    return before


def is_grad_enabled() -> bool:
    """Whether ops record gradients now.

    >>> with pf.no_grad():
    ...     print(pf.is_grad_enabled())
    False
    """
    return mode.grad


class inference_mode(_Mode):  # noqa: N801
    """`no_grad` whose new tensors stay out of autograd for good: see `Tensor.is_inference`.

    `inference_mode(False)` within it is the normal mode again, with gradients.

    Args:
        mode: whether it is on; or the function to decorate.

    >>> with pf.inference_mode():
    ...     x = pf.ones(2) * 2
    >>> x.is_inference()
    True
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: Callable[P, R]) -> Callable[P, R]: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self.mode = bool(mode)
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((mode.grad, mode.inference))
        mode.grad = not self.mode
        set_inference(self.mode)

    def __exit__(self, *exc: object) -> None:
        mode.grad, inference = self._before.pop()
        set_inference(inference)

    def clone(self) -> inference_mode:
        return type(self)(self.mode)


def set_inference(on: bool) -> bool:
    """Switch inference mode alone; returns what it was."""
    global inferring
    before, mode.inference = mode.inference, on
    if on is not before:
        with _count:
            inferring += 1 if on else -1
    return before


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    >>> pf.is_inference_mode_enabled()
    False
    """
    return mode.inference
