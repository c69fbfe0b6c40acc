"""What every metric is: state on the device, and three methods."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyframe as pf
from pyframe.core.dispatch import suspend_capture
from pyframe.nn import Module, functional as F
from pyframe.nn.parameter import UninitializedBuffer, is_lazy
from pyframe.tensor import Tensor

BITS = 30  # of a count that its lower tensor has
MASK = (1 << BITS) - 1
HIGH = "_high"  # what the name of a single count's upper tensor ends in
MANY_SAMPLES = 1 << 14  # samples from which on a kernel more costs nothing
WORK = 1 << 27  # comparisons of a kernel, beyond which index_add counts instead
FEW_SAMPLES = 1 << 13  # on the CPU


class Metric(Module):
    """A quantity over all the batches that it saw since `reset`: the base of every metric.

    `update(output, target)` takes a batch in, `compute()` gives the value so far, and a call does
    both. Its state are registered buffers, so that it moves, is captured by pf.compile and is saved
    as that of a layer. One of your own registers them with the values that they begin with, changes
    them in `update` in place and by device operations alone (no `.item()`, no shape that depends on
    values), and makes its value of them in `compute`.

    Sum and count, and divide in `compute`: means of means are wrong where batches differ in size.
    Neither of the two methods records gradients.

    >>> class Largest(pf.metrics.Metric):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("top", pf.tensor(-float("inf")))
    ...     def update(self, output, target):
    ...         self.top.copy_(pf.maximum(self.top, output.max()))
    ...     def compute(self):
    ...         return self.top
    >>> largest = Largest()
    >>> largest(pf.tensor([1.0, 3.0]), None), largest(pf.tensor([2.0]), None)
    (tensor(3.), tensor(3.))
    """

    higher_is_better: bool | None = None  # None: whoever asks goes by the name

    name: str  # what logs call it: "average_precision" of AveragePrecision, unless it is set

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[str, Tensor] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub("(?<=[a-z0-9])(?=[A-Z][a-z])", "_", cls.__name__).lower()
        for name in ("update", "compute"):
            if name in cls.__dict__:
                setattr(cls, name, pf.no_grad()(cls.__dict__[name]))

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As Module.register_buffer; `reset` puts the value of the first time back."""
        super().register_buffer(name, tensor, persistent)
        known = name in self._first  # `self.total += …` registers it again
        if tensor is not None and not is_lazy(tensor) and not known:
            self._first[name] = tensor.detach().clone()

    def reset(self) -> None:
        """Forget what was seen: every buffer gets its first value back, in place."""
        with pf.no_grad():
            for name, buffer in self._buffers.items():
                if buffer is None or is_lazy(buffer):
                    continue
                if name in self._first:
                    buffer.copy_(self._first[name])
                else:  # of a state whose shape the first batch gave
                    buffer.zero_()
        for child in self.children():
            if isinstance(child, Metric):
                child.reset()

    def update(self, output: Any, target: Any) -> None:
        """Take a batch in. A subclass says how.

        Args:
            output, target: What the model gives and what is wanted, (N, …).
        """
        raise NotImplementedError(f"{type(self).__name__} is missing the method update")

    def compute(self) -> Tensor:
        """The value over all that was seen since `reset`, on the device. A subclass says how."""
        raise NotImplementedError(f"{type(self).__name__} is missing the method compute")

    def forward(self, output: Any, target: Any) -> Tensor:
        """Take a batch in and give the value so far.

        Args:
            output, target: What the model gives and what is wanted, (N, …).
        """
        self.update(output, target)
        return self.compute()


class Streaming(Metric):
    """A Metric whose state gets its shapes and its device from the first batch."""

    def later(self, *names: str) -> None:
        """Register float32 sums, which begin as zeros of the shape that `begin` gives them."""
        for name in names:
            self.register_buffer(name, UninitializedBuffer())

    def later_counts(self, *names: str) -> None:
        """Register counts likewise. They never overflow, though int64 has 32 bits on a GPU: what is
        beyond 30 bits has a tensor of its own, beside the other's or, of a single count, apart."""
        for name in names:
            self.register_buffer(name, UninitializedBuffer(dtype=pf.int64))

    def begin(self, like: Tensor, **shapes: tuple[int, ...]) -> None:
        """Make these buffers, where they are not yet made, on the device of `like`.

        ValueError where one has another shape already: classes or outputs changed in number."""
        for name, shape in shapes.items():
            buffer = getattr(self, name)  # a capture looks at all of _buffers, once that is read
            if is_lazy(buffer):
                with suspend_capture():
                    buffer.materialize(shape, device=like.device)
                    buffer.zero_()
            elif buffer.shape != shape:
                raise ValueError(
                    f"{self.name}: the outputs are of another kind than those before: {name} has "
                    f"the shape {[*buffer.shape]}, these need {[*shape]}; use a new "
                    f"{type(self).__name__} for them"
                )

    def count(self, name: str, more: Tensor | int, like: Tensor) -> None:
        """Add one int below 2**30 to a count, NAME and NAME_high, which are scalars so that this
        joins what a step does with other scalars."""
        self.begin(like, **{name: (), name + HIGH: ()})
        low, high = getattr(self, name), getattr(self, name + HIGH)
        if low.device.type == "cpu":
            low.add_(more)
            return
        new = low + more
        high.add_(new.bitwise_right_shift(BITS))
        low.copy_(new.bitwise_and(MASK))

    def count_each(self, name: str, hits: Tensor) -> None:
        """Add to counts (2, *) how many of `hits` (*, M) are true."""
        self.begin(hits, **{name: (2, *hits.shape[:-1])})
        state = getattr(self, name)
        if hits.device.type == "cpu" or hits.shape[-1] > MANY_SAMPLES:
            self._add(state, hits.sum(-1))
            return
        # what was counted is one more term of the sum, so that one kernel does all
        before = pf.stack([state[0].bitwise_and(MASK), self._carried(state[0], state[1])])
        ones = hits.long()
        terms = pf.stack([ones, pf.zeros_like(ones)])
        state.copy_(pf.cat([terms, before.unsqueeze(-1)], -1).sum(-1))

    def count_bins(self, name: str, bins: Tensor, size: int) -> None:
        """Add to counts (2, K, size) how often each of 0 to size - 1 stands in a row of `bins`
        (K, M); other numbers count nowhere."""
        rows = bins.shape[0]
        if bins.numel() * size <= (FEW_SAMPLES if bins.device.type == "cpu" else WORK):
            self.count_each(name, bins.unsqueeze(1) == pf.arange(size, device=bins.device)[:, None])
            return
        self.begin(bins, **{name: (2, rows, size)})
        index = bins + size * pf.arange(rows, device=bins.device)[:, None]
        index = index.where((bins >= 0) & (bins < size), rows * size).reshape(-1)
        found = pf.zeros(rows * size + 1, dtype=pf.int64, device=bins.device)
        found = found.index_add(0, index, pf.ones_like(index))
        self._add(getattr(self, name), found[:-1].reshape(rows, size))

    @staticmethod
    def _carried(low: Tensor, high: Tensor) -> Tensor:
        return high + low.bitwise_right_shift(BITS)

    @classmethod
    def _add(cls, state: Tensor, more: Tensor) -> None:
        if state.device.type == "cpu":
            state.add_(F.pad(more.unsqueeze(0), (0, 0) * more.ndim + (0, 1)))
            return
        new = state[0] + more
        state.copy_(pf.stack([new.bitwise_and(MASK), cls._carried(new, state[1])]))

    def total(self, name: str, dtype: Any = None) -> Tensor:
        """Counts, as float32. RuntimeError before the first update."""
        high: Any = self._buffers.get(name + HIGH)
        low = self.seen(name)
        low, high = low if high is None else (low, high)
        dtype = dtype or pf.float32
        return high.to(dtype) * (1 << BITS) + low.to(dtype)

    def seen(self, name: str) -> Tensor:
        """The buffer of this name. RuntimeError before the first update."""
        buffer: Any = self._buffers[name]
        if is_lazy(buffer):
            raise RuntimeError(f"{self.name}: there is no value before the first update")
        return buffer

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        for name, buffer in self._buffers.items():
            new = state_dict.get(prefix + name)
            if is_lazy(buffer) and isinstance(new, Tensor) and not is_lazy(new):
                buffer.materialize(new.shape)  # type: ignore[union-attr]
        super()._load_from_state_dict(state_dict, prefix, *rest)


def ratio(a: Tensor, b: Tensor, otherwise: float = 0.0) -> Tensor:
    """a / b of counts, and `otherwise` where b is 0, as a is there too."""
    found = a / b.clamp_min(1)
    return found.masked_fill(b == 0, otherwise) if otherwise != 0 else found


class Sums:
    """Sums by name, each made when it is first asked for. No capture looks at which there are, as
    it does at a dict that code of training reads: so what makes one is replayed the next time."""

    def __init__(self, made: dict[str, Tensor], device: Any) -> None:
        self.made, self.device = made, device

    def __getitem__(self, name: str) -> Tensor:
        total = self.made.get(name)
        if total is None:
            with suspend_capture():
                total = self.made[name] = pf.zeros((), device=self.device)
        return total


def described(value: Any) -> str:
    """A value in an error's text."""
    kind = type(value).__name__
    return f"{kind} of shape {[*value.shape]}" if isinstance(value, Tensor) else kind


def check_tensors(name: str, output: Any, target: Any) -> None:
    """TypeError unless both are tensors."""
    for what, value in (("outputs", output), ("targets", target)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected {what} that are a tensor, got {described(value)}")


def check_choice(name: str, what: str, value: Any, *known: Any) -> None:
    """ValueError unless `value` is one of the `known` ones."""
    if value not in known:
        *some, last = map(repr, known)
        raise ValueError(f"{name}: {what} must be {', '.join(some)} or {last}, got {value!r}")


def first_tensor(value: Any) -> Tensor:
    """The first tensor of a batch of any nesting."""
    while not isinstance(value, Tensor):
        if isinstance(value, Mapping) and value:
            value = next(iter(value.values()))
        elif isinstance(value, list | tuple) and value:
            value = value[0]
        else:
            raise TypeError(f"expected a batch of tensors, got {described(value)}")
    return value


class RunningMean(Streaming):
    """The sum of some numbers by how many they are, of which `counted` is the buffer's name."""

    counted: str

    sum: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.later("sum")
        self.later_counts(self.counted, self.counted + HIGH)

    def add(self, total: Tensor, n: Tensor | int, like: Tensor) -> None:
        """Take the sum of n numbers in, on the device of `like`."""
        self.begin(like, sum=())
        self.sum.add_(total)
        self.count(self.counted, n, like)

    def compute(self) -> Tensor:
        """(): nan where nothing was seen."""
        return self.seen("sum") / self.total(self.counted)


class Mean(RunningMean):
    """The mean of `fn(output, target)`, a number for each batch, weighted by batch size. Its name
    is the function's.

    Raises:
        TypeError: the function gives anything but one number.

    >>> metric = pf.metrics.Mean(F.l1_loss)
    >>> metric.update(pf.tensor([1.0, 2.0, 4.0]), pf.tensor([1.0, 3.0, 6.0]))
    >>> metric.compute()
    tensor(1.)
    """

    counted = "samples"

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.fn = fn
        named = fn.func if isinstance(fn, functools.partial) else fn
        self.name = getattr(named, "__name__", type(named).__name__)

    def update(self, output: Any, target: Any) -> None:
        """Call the function. TypeError if it does not give one number."""
        if isinstance(output, Tensor):  # a training step's has gradients, which NumPy can't take
            output = output.detach()
        value = self.fn(output, target)
        like = first_tensor(output)
        n = like.shape[0] if like.ndim else 1
        try:
            one = pf.as_tensor(value, device=like.device).detach()
            one = one.reshape(()) if one.ndim else one
        except Exception:
            self._refuse(value)
            raise
        self.add(one * n, n, like)

    def _refuse(self, value: Any) -> None:
        """TypeError unless it is one number."""
        hint = "is `return` missing?" if value is None else "give a tensor of one element"
        if isinstance(value, Tensor):
            if value.numel() == 1:
                return
            hint = "reduce it, for example by .mean()"
        raise TypeError(
            f"the metric {self.name!r} must give one number, got {described(value)}; {hint}"
        )
