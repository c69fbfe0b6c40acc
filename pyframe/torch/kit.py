"""Small parts that libraries take from the depths of PyTorch; paths.txt says where each lies."""

from __future__ import annotations

import copy
import functools
import itertools
import random
import re
import time
import timeit
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.core.modes import _Mode as _DecoratorContextManager
from pyframe.data.dataloader import LoaderIterator as _BaseDataLoaderIter
from pyframe.nn import functional as F
from pyframe.tensor import Tensor
from pyframe.tensor.printing import _options

# Names under which libraries have them.
_DecoratorContextManager = _DecoratorContextManager
_BaseDataLoaderIter = _BaseDataLoaderIter
PRINT_OPTS = _options
DEFAULT_PROTOCOL = 2
MAP_LOCATION = Any  # these are for annotations
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # of the name of a file that is fetched
np_str_obj_array_pattern = re.compile(r"[SaUO]")
_size_any_t, _ratio_any_t = int | tuple[int, ...], float | tuple[float, ...]
_size_1_t = _size_2_t = _size_3_t = _size_4_t = _size_5_t = _size_6_t = _size_any_t
_ratio_2_t = _ratio_3_t = _ratio_any_t


# --- torch.nn


def _get_clones(module: nn.Module, N: int) -> nn.ModuleList:
    """N copies of a module."""
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """relu or gelu. RuntimeError for another name."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def get_enum(reduction: str) -> int:
    """The number of a reduction of losses. ValueError for another name."""
    ways = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}
    if reduction not in ways:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ways[reduction]


def _of_conv(conv: Any, needs: int, shape: Any, given: Any, grad: Tensor, *rest: Any) -> Tensor:
    with pf.enable_grad():
        x = pf.zeros(*shape, dtype=grad.dtype, device=grad.device).requires_grad_()
        pair = (x, given.detach()) if needs == 0 else (given.detach(), x)
        stride, padding, dilation, groups = rest
        y = conv(*pair, None, stride, padding, dilation, groups)
        return pf.autograd.grad(y, x, grad)[0]


def _conv_grads(conv: Any) -> tuple[Any, Any]:
    def input_(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """The gradient of a convolution's input."""
        return _of_conv(conv, 0, input_size, weight, grad_output, stride, padding, dilation, groups)

    def weight_(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """The gradient of a convolution's weight."""
        return _of_conv(conv, 1, weight_size, input, grad_output, stride, padding, dilation, groups)

    return input_, weight_


conv1d_input, conv1d_weight = _conv_grads(F.conv1d)
conv2d_input, conv2d_weight = _conv_grads(F.conv2d)
conv3d_input, conv3d_weight = _conv_grads(F.conv3d)


def causal_upper_left(*size: int) -> Tensor:
    """Which keys a query sees: those up to its own place, counted from the first."""
    return pf.ones(*size, dtype=pf.bool).tril()


def causal_lower_right(*size: int) -> Tensor:
    """The same, counted from the last query and the last key."""
    return pf.ones(*size, dtype=pf.bool).tril(size[1] - size[0])


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """nn.init.uniform_."""
    return nn.init.uniform_(tensor, a, b, generator)


# --- torch.optim


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A step that records gradients if the optimizer's option `differentiable` is set."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with pf.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return func(self, *args, **kwargs)

    return step


def _default_to_fused_or_foreach(
    params: Any, differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(False, False): updates are fused without being asked."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """['cuda']."""
    return ["cuda"]


def adam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Any = None, found_inf: Any = None, has_complex: bool = False,
    decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: float, beta2: float, lr: Any,
    weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of some parameters, whose moments and counts are given."""
    for i, (p, g, m, v) in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs, strict=True)):
        state_steps[i] += 1
        t = float(state_steps[i])
        g = -g if maximize else g
        if decoupled_weight_decay:
            p.mul_(1 - lr * weight_decay)
        elif weight_decay:
            g = g + p * weight_decay
        m.lerp_(g, 1 - beta1)
        v.mul_(beta2).addcmul_(g, g.conj(), value=1 - beta2)
        if amsgrad:
            max_exp_avg_sqs[i].copy_(pf.maximum(max_exp_avg_sqs[i], v))
        top = max_exp_avg_sqs[i] if amsgrad else v
        p.sub_(lr / (1 - beta1**t) * m / ((top / (1 - beta2**t)).sqrt() + eps))


def adamw(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None,
    capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    grad_scale: Any = None, found_inf: Any = None, has_complex: bool = False, *, amsgrad: bool,
    beta1: float, beta2: float, lr: Any, weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """The same, whose weights decay by themselves."""
    adam(
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps,
        decoupled_weight_decay=True, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr,
        weight_decay=weight_decay, eps=eps, maximize=maximize,
    )  # fmt: skip


# --- torch._utils and torch.utils


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements of some tensors, one after another."""
    return pf.cat([x.reshape(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What was flattened, in the shapes of these."""
    parts = flat.split([x.numel() for x in tensors])
    return tuple([part.view_as(x) for part, x in zip(parts, tensors, strict=True)])


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[Any, Any]:
    """Parallel lists of tensors, by the device and dtype of those in the first."""
    groups: dict[Any, Any] = {}
    for i, row in enumerate(zip(*tensorlistlist, strict=True)):
        key = row[0].device, row[0].dtype
        lists, numbers = groups.setdefault(key, ([[] for _ in row], []))
        for kept, x in zip(lists, row, strict=True):
            kept.append(x)
        if with_indices:
            numbers.append(i)
    return groups


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    return int(dtype.itemsize)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a GPU: that of the current one where it has none."""
    if isinstance(device, int):
        return device
    device = pf.device("gpu") if device is None and optional else pf.device(device)
    if device.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return pf.gpu.current_device() if device.index is None else int(device.index)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor's class says of which tensors it is made."""
    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__")


def is_fake(x: Any) -> bool:
    """False: each tensor has its values."""
    return False


def has_triton() -> bool:
    """False."""
    return False


fill_uninitialized_memory = True


class WeakTensorKeyDictionary(MutableMapping[Any, Any]):
    """A dict by objects themselves, whatever they are equal to, that keeps none of them."""

    def __init__(self, dict: Any = ()) -> None:
        self._items: dict[int, tuple[Any, Any]] = {}
        self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self._items[id(key)][1]

    def __setitem__(self, key: Any, value: Any) -> None:
        own = id(key)
        gone = weakref.ref(key, lambda _: self._items.pop(own, None))
        self._items[own] = gone, value

    def __delitem__(self, key: Any) -> None:
        del self._items[id(key)]

    def __contains__(self, key: object) -> bool:
        return id(key) in self._items

    def __iter__(self) -> Iterator[Any]:
        for ref, _ in list(self._items.values()):
            if (key := ref()) is not None:
                yield key

    def __len__(self) -> int:
        return len(self._items)


WeakIdKeyDictionary = WeakTensorKeyDictionary


def get_pretty_env_info() -> str:
    """What runs here, as lines: versions, system, GPUs."""
    import platform

    from pyframe.torch import __config__
    from pyframe.torch.version import __version__

    gpus = [pf.gpu.get_device_name(i) for i in range(pf.gpu.device_count())]
    rows = {
        "PyTorch version": __version__, "Is debug build": False, "OS": platform.platform(),
        "Python version": platform.python_version(), "Is CUDA available": bool(gpus),
        "GPU models": ", ".join(gpus) or "none",
    }  # fmt: skip
    return "\n".join(f"{k}: {v}" for k, v in rows.items()) + f"\n\n{__config__.show()}"


def _get_torch_home() -> str:
    """The folder in which that of torch.hub lies."""
    import os

    return os.path.dirname(pf.hub.get_dir())


def _segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor, axis: int = 0, unsafe: bool = False,
    initial: Any = None,
) -> Tensor:  # fmt: skip
    """Reductions of parts of dim 0, of these lengths."""
    parts = data.split(lengths.tolist(), axis)
    return pf.stack([getattr(part, {"max": "amax", "min": "amin"}.get(reduce, reduce))(axis)
                     for part in parts])  # fmt: skip


# --- torch.jit


def _overload(func: Any) -> Any:
    """`func` itself: a script takes the function as it is called."""
    return func


_overload_method = _overload


def _copy_to_script_wrapper(fn: Any) -> Any:
    """`fn` itself."""
    return fn


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, of which List, Dict, Tuple, Optional and Union say of what:
    torch.jit.isinstance."""
    if isinstance(target_type, tuple):
        return any(isinstance_(obj, t) for t in target_type)
    origin: Any = typing.get_origin(target_type)
    args = typing.get_args(target_type)
    if origin is None:
        return isinstance(obj, target_type or type(None))
    if not isinstance(origin, type) or origin.__name__ == "UnionType":
        return any(isinstance_(obj, t) for t in args)
    if not isinstance(obj, origin):
        return False
    obj = typing.cast(Any, obj)
    if origin is dict:
        return all(isinstance_(k, args[0]) and isinstance_(v, args[1]) for k, v in obj.items())
    if origin is tuple and Ellipsis not in args:
        return len(obj) == len(args) and all(map(isinstance_, obj, args))
    return all(isinstance_(x, args[0]) for x in obj)


# --- torch.cuda, torch.onnx and others


def broadcast(tensor: Tensor, devices: Any = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """A copy on each of some devices."""
    if out is not None:
        return tuple([x.copy_(tensor) for x in out])
    return tuple([tensor.to(pf.device("gpu", d) if isinstance(d, int) else d) for d in devices])


_ranges: list[Any] = []


def range_push(msg: str) -> int:
    """Begin what the profiler shows under a name; how many were begun before."""
    _ranges.append(pf.profiler.record_function(msg))
    _ranges[-1].__enter__()
    return len(_ranges) - 1


def range_pop() -> int:
    """End it; how many are left."""
    _ranges.pop().__exit__(None, None, None)
    return len(_ranges)


def parse_args(*arg_descriptors: str) -> Any:
    """A decorator that leaves its function as it is: pyframe's exporter asks for none."""
    return lambda fn: fn


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """One of two functions' result."""
    return true_fn(*operands) if pred else false_fn(*operands)


def is_float_dtype(dtype: Any) -> bool:
    """Whether it is a dtype of floats."""
    return bool(dtype.is_floating_point)


def is_contiguous_or_false(a: Tensor) -> bool:
    """Whether elements lie in order."""
    return a.is_contiguous()


def statically_known_true(x: Any) -> bool:
    """Whether it is true: sizes are known."""
    return bool(x)


def guard_or_false(a: Any) -> bool:
    """The same."""
    return bool(a)


guard_or_true = guard_or_false


def free_symbols(val: Any) -> set[Any]:
    """set(): sizes are known."""
    return set()


def free_unbacked_symbols(x: Any) -> set[Any]:
    """The same."""
    return set()


def record(fn: Any, error_handler: Any = None) -> Any:
    """`fn` itself, whose errors are raised where it is called."""
    return fn


def kineto_available() -> bool:
    """False."""
    return False


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """pf.randn."""
    return pf.randn(shape, dtype=dtype, device=device)


class IterDataPipe(pf.data.IterableDataset[Any]):
    """A data set whose items come one after another, and which others are made of: a class that
    `functional_datapipe` has named is a method too."""

    functions: typing.ClassVar[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in IterDataPipe.functions:
            return functools.partial(IterDataPipe.functions[name], self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Any:
    """A decorator: pipe.NAME(*args) is Class(pipe, *args)."""

    def keep(cls: Any) -> Any:
        IterDataPipe.functions[name] = cls
        return cls

    return keep


class IterableWrapper(IterDataPipe):
    """What something gives when it is iterated; a copy of it by default."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]  # who asks knows


class _DatasetKind:
    """Whether samples have indices or come one after another."""

    Map, Iterable = 0, 1


class _SingleProcessDataLoaderIter:
    """The batches of an object that has a loader's attributes, made in this process."""

    def __init__(self, loader: Any) -> None:
        self._loader, self._indices = loader, iter(loader._index_sampler)
        streams = loader._dataset_kind == _DatasetKind.Iterable
        self._stream = iter(loader.dataset) if streams else None

    def __iter__(self) -> _SingleProcessDataLoaderIter:
        return self

    def __next__(self) -> Any:
        own, index, stream = self._loader, next(self._indices), self._stream
        if not own._auto_collation:
            return own.collate_fn(own.dataset[index] if stream is None else next(stream))
        if stream is None:
            return own.collate_fn([own.dataset[i] for i in index])
        batch = list(itertools.islice(stream, len(index)))
        if not batch or (own.drop_last and len(batch) < len(index)):
            raise StopIteration
        return own.collate_fn(batch)


class _MultiProcessingDataLoaderIter(_SingleProcessDataLoaderIter):
    """The same, without worker processes too: those of a DataLoader are pyframe's own."""


# --- torch.utils.benchmark


class Measurement:
    """Times of runs: `times` are seconds of one each."""

    def __init__(self, times: list[float], number_per_run: int, stmt: str) -> None:
        self.times, self.number_per_run, self.stmt = times, number_per_run, stmt

    @property
    def median(self) -> float:
        return sorted(self.times)[len(self.times) // 2]

    @property
    def mean(self) -> float:
        return sum(self.times) / len(self.times)

    def __repr__(self) -> str:
        return (
            f"<Measurement of {self.stmt!r}: median {self.median * 1e6:.2f} us, "
            f"{len(self.times)} times {self.number_per_run}>"
        )


class Timer:
    """A statement that is timed, as by timeit.Timer, in its `globals`."""

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = None,
        globals: dict[str, Any] | None = None, label: str | None = None,
        sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, language: Any = None,
    ) -> None:  # fmt: skip
        self._stmt = stmt
        self._timer = timeit.Timer(stmt, setup, timer or time.perf_counter, globals or {})

    def timeit(self, number: int = 1000000) -> Measurement:
        """So many runs, after a few."""
        self._timer.timeit(max(1, number // 100))
        return Measurement([self._timer.timeit(number) / number], number, self._stmt)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Blocks of runs until they have taken some time; a block takes a thousandth of it."""
        number, took = 1, self._timer.timeit(1)
        while took < min_run_time / 1000:
            number *= 10
            took = self._timer.timeit(number)
        times = [took]
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement([t / number for t in times], number, self._stmt)


class ExecutionStats:
    """What a ThroughputBenchmark found: how often it ran, and the mean time of one run."""

    def __init__(self, num_iters: int, latency_avg_ms: float, num_calling_threads: int) -> None:
        self.num_iters, self.latency_avg_ms = num_iters, latency_avg_ms
        self.total_time_seconds = num_iters * latency_avg_ms / 1000 / num_calling_threads
        self.iters_per_second = num_iters / self.total_time_seconds

    def __str__(self) -> str:
        return (
            f"Average latency per example: {self.latency_avg_ms:.3f} ms\n"
            f"Total number of iterations: {self.num_iters}\n"
            "Total number of iterations per second (across all threads): "
            f"{self.iters_per_second:.2f}\nTotal time: {self.total_time_seconds:.3f} s"
        )


class ThroughputBenchmark:
    """A module that some threads call, each with one of the inputs that were given, drawn anew."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inputs: list[tuple[Any, Any]] = []

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Keep an input."""
        self._inputs.append((args, kwargs))

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._module(*args, **kwargs)

    def benchmark(
        self, num_calling_threads: int = 1, num_warmup_iters: int = 10, num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:  # fmt: skip
        """Run so often in all, after some runs of each thread that are not counted. RuntimeError
        without an input. Profiles are made by pf.profiler."""
        if not self._inputs or profiler_output_path:
            raise RuntimeError(
                "ThroughputBenchmark: "
                + ("use torch.profiler for profiles" if self._inputs else "call add_input before")
            )
        share = -(-num_iters // num_calling_threads)

        def calls(count: int) -> float:
            def run(_: Any) -> float:
                start = time.perf_counter()
                for args, kwargs in random.choices(self._inputs, k=count):
                    self._module(*args, **kwargs)
                pf.gpu.synchronize() if pf.gpu.is_available() else None
                return time.perf_counter() - start

            with ThreadPoolExecutor(num_calling_threads) as pool:
                return sum(pool.map(run, range(num_calling_threads)))

        calls(num_warmup_iters)
        done = share * num_calling_threads
        return ExecutionStats(done, calls(share) * 1000 / done, num_calling_threads)


def optimize_for_mobile(
    script_module: Any, optimization_blocklist: Any = None, preserved_methods: Any = None,
    backend: str = "CPU",
) -> Any:  # fmt: skip
    """torch.jit.optimize_for_inference. TypeError unless it is a ScriptModule; ValueError for
    another backend than the CPU, and for what is not to be optimized."""
    if not isinstance(script_module, pf.jit.ScriptModule):
        raise TypeError(f"Got {type(script_module)}, but ScriptModule is expected.")
    if backend.upper() != "CPU" or optimization_blocklist:
        raise ValueError(
            f"optimize_for_mobile: expected backend='CPU' and no optimization_blocklist, got "
            f"{backend!r} and {optimization_blocklist}"
        )
    return pf.jit.optimize_for_inference(copy.deepcopy(script_module), preserved_methods)


# --- torch.utils._python_dispatch


class TorchDispatchMode(pf.overrides.TorchFunctionMode):
    """A mode whose `__torch_dispatch__(func, types, args, kwargs)` is asked for each call of a
    public function: pyframe has no smaller ones below."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take a call over."""
        raise NotImplementedError(f"{type(self).__name__}.__torch_dispatch__")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.__torch_dispatch__(func, types, args, kwargs or {})
