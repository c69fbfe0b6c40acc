"""What the ops of a thread do besides computing: gradients, inference mode, a capture."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyframe.core.locks import lock


class _State(threading.local):
    """What the ops of this thread do besides computing."""

    grad = True  # record gradients
    inference = False  # what is made is an inference tensor
    saved_hooks: tuple[Any, ...] = ()  # (pack, unpack), the innermost last
    training: Any = None  # {id of a module: its mode} in this thread alone: nn's Evaluation
    autocast: Any = None  # within pf.autocast: the dtypes that it casts to, see ops/autocast.py
    capture: Any = None  # while one runs, every device is lazy and it keeps what is recorded


mode = _State()


inferring = 0  # threads that are in inference mode; while there are none, nothing else is asked
_count = lock()


class _Mode:
    """A context manager that decorates functions and generators too."""

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> _Mode:
        """Another one like it."""
        return type(self)()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
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
    """Within it (or in the function that it decorates), ops record no gradients."""

    enabled = False


class enable_grad(_GradSwitch):  # noqa: N801
    """Within it, ops record gradients again."""


class set_grad_enabled(_Mode):  # noqa: N801
    """Switch gradient recording at once; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._first = _set(self.mode)

    def __enter__(self) -> None:
        _set(self.mode)

    def __exit__(self, *exc: object) -> None:
        _set(self._first)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _set(self._first)
        return super().__call__(fn)


def _set(enabled: bool) -> bool:
    before, mode.grad = mode.grad, enabled and not mode.inference
    return before


def is_grad_enabled() -> bool:
    """Whether ops record gradients now."""
    return mode.grad


class inference_mode(_Mode):  # noqa: N801
    """`no_grad` whose new tensors stay out of autograd for good: see `Tensor.is_inference`.

    `inference_mode(False)` within it is the normal mode again, with gradients.
    """

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
    """Whether this thread is in inference mode."""
    return mode.inference
