"""Captured functions as data that a page runs without Python: what web/player.js reads.

An Exporter captures functions on an offline GPU and writes down what a Program
leaves to its surroundings: which state it uses and by which name, what its inputs and results are,
and the formulas of the scalars that change between runs.
"""

from __future__ import annotations

import math
import operator
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.backend.base import dispatches
from pyframe.capture.compile import CompiledFunction
from pyframe.capture.executable import DeviceExecutable, Executable
from pyframe.capture.lengths import DynamicCapture, marked, named
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.core.devices import OutOfMemoryError
from pyframe.core.dtypes import dtype as DType, float16, from_storage, storage_dtype
from pyframe.core.limits import Limits
from pyframe.core.node import Node, Storage
from pyframe.core.packages import USER
from pyframe.core.sizes import MIN_SYMBOLIC_SIZE, ShapeEnv, SymbolicSize, use_shape_guards
from pyframe.core.symbolic import WORDS, NoWordError, formula
from pyframe.graph.program import Program
from pyframe.ops.math import elementwise as el
from pyframe.ops.random import draws as random
from pyframe.runtime.code import program_code
from pyframe.runtime.offline import OfflineExecutor, offline_device
from pyframe.watch.origin import FILES, PACKAGE_DIR
from pyframe.web.cpu import CpuCode

VERSION = 3  # of the format
MAX_WARMUP_CAPTURES = 3  # captures of a function that makes something when it is first called


class ExportError(RuntimeError):
    """What can't be exported; the text says why."""


class File(ABC):
    """A file that is a program as it is: OnnxFile, of a distribution of its own."""

    data: tuple[Any, Any] | None

    @abstractmethod
    def program(self, train: bool, batch_size: int | None) -> tuple[Any, Any, dict[str, Any]]:
        """What `export` takes, its sample, and what the page is told of it."""


class _UnreadyError(Exception):
    """The next call of a function finds something else, maybe what this one made."""


class _PersistentTensor:
    """A tensor that stays between runs, and where it lies."""

    def __init__(self, number: int, storage: Storage, dtype: DType, shape: Any, data: Any) -> None:
        self.number, self.storage, self.data = number, storage, data
        self.dtype, self.shape = _in_floats(dtype, shape)
        self.nbytes = nbytes_of(self.dtype, self.shape)
        self.name, self.role = f"constant:{number}", "constant"


def nbytes_of(dtype: DType, shape: Sequence[int]) -> int:
    """Bytes of a tensor's buffer."""
    return max(4, -(-math.prod(shape) * dtype.device_itemsize // 4) * 4)


class Exporter:
    """Programs that share kernels, state and memory; see `offline`."""

    def __init__(
        self, device: pf.device, modules: Mapping[str, nn.Module],
        optimizers: Sequence[pf.optim.Optimizer], cpu: bool = True,
    ) -> None:  # fmt: skip
        self.device, self.modules, self.optimizers = device, modules, optimizers
        self.executor: OfflineExecutor = device.executor
        self.cpu = CpuCode() if cpu else None  # all programs once more, where each has a form
        self.left_out: list[str] = []
        self.metrics: dict[str, pf.Tensor] = {}  # the sums of what a step tells
        self.kernels: dict[str, tuple[int, str]] = {}  # numbers and labels by WGSL
        self.states: dict[int, _PersistentTensor] = {}  # by the id of a storage, which they keep
        self.regions: dict[int, tuple[int, Any]] = {}  # by the id of a buffer: number, the buffer
        self.programs: dict[str, dict[str, Any]] = {}
        self.options: dict[str, float] = {}  # of optimizers, as far as programs ask for them
        self.rules: list[list[Any]] = []  # [question about options, the answer relied on]
        self._open: list[tuple[list[Any], int, Storage, Any]] = []  # results not placed yet

    # --- names

    def name_states(self) -> None:
        """Give all state its name and role."""
        for name, owner in self.modules.items():
            for kind, found in (
                ("parameter", owner.named_parameters), ("buffer", owner.named_buffers),
            ):  # fmt: skip
                for key, x in found():
                    self._name(x, f"{name}{key}", kind)
        for i, optimizer in enumerate(self.optimizers):
            prefix = "" if len(self.optimizers) == 1 else f"{i}."
            names = {id(p): f"{name}{key}" for name, owner in self.modules.items()
                     for key, p in owner.named_parameters()}  # fmt: skip
            for n, (p, entries) in enumerate(optimizer.state.items()):
                for key, x in entries.items():
                    if isinstance(x, pf.Tensor):
                        counts = key in optimizer._counters
                        own = names.get(id(p), str(n))
                        role = "step" if counts else "moment"
                        self._name(x, f"{role}:{prefix}{key}.{own}", role)
        for name, x in self.metrics.items():
            self._name(x, f"metric:{name}", "metric")
        state = random.default_generator._states.get(self.device)
        if state is not None:
            self._name(state, "random:", "random")
        if self.executor.local.checks is not None:
            self._name(self.executor.local.checks.flag, "guard:", "guard")

    def _name(self, x: pf.Tensor, name: str, role: str) -> None:
        found = self.states.get(id(x._storage))
        if found is not None and found.role == "constant":
            found.name, found.role = name, role

    def state(self, storage: Storage, node: Node, data: Any) -> int:
        """The number of a tensor that stays."""
        found = self.states.get(id(storage))
        if found is None:
            found = _PersistentTensor(len(self.states), storage, node.dtype, node.shape, data)
            self.states[id(storage)] = found
            self.executor.fixed.add(data.handle)
            if data.whole is not None:
                self._region(data.whole)
        return found.number

    def keep(self, x: pf.Tensor) -> int:
        """The number of a tensor that no program may use, such as a weight of a state_dict."""
        if x._view_chain:
            raise ExportError("a parameter or buffer is a view of other memory; clone() it")
        node = x._storage.node
        if node.data is None:
            self.executor.flush([node])
        return self.state(x._storage, node, node.data)

    def _region(self, whole: Any) -> int:
        return self.regions.setdefault(id(whole), (len(self.regions), whole))[0]

    def _option(self, source: Any) -> str:
        """The name of an optimizer's option, whose value is kept: "0.lr" for the first group's."""
        ref, group, name, *at = source
        optimizer = ref()
        value = optimizer.param_groups[group][name]
        if at:
            value = value[at[0]]
        words = [str(group), name, *map(str, at)]
        if len(self.optimizers) > 1:
            where = [i for i, o in enumerate(self.optimizers) if o is optimizer]
            words.insert(0, str(where[0]))
        key = ".".join(words)
        self.options[key] = float(value.item() if isinstance(value, pf.Tensor) else value)
        return key

    def formula(self, number: Any) -> Any:
        """A scalar as JSON data."""
        if type(number) is SymbolicSize:
            return _size_formula(number.sizes, number, number.sizes.text(number))
        try:
            return plain(formula(number, self._option))
        except (ValueError, TypeError, ReferenceError) as e:
            raise ExportError(
                f"it takes a number that Python gives anew at each call ({e}); keep it in a tensor "
                "or in an optimizer's option"
            ) from None

    # --- capturing

    def add(
        self, name: str, fn: Callable[..., Any], inputs: Mapping[str, pf.Tensor],
        outputs: Sequence[str] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Capture `fn(*inputs)`, which gives a tensor, several ones (by names) or None, as program
        `name`.

        Dims that `mark_dynamic` names may have any size. ExportError with pf.compile's reason where
        it can't be replayed, or not for all sizes."""
        args = list(inputs.values())

        def step(*xs: pf.Tensor) -> Any:
            found = fn(*xs)
            if not isinstance(found, Mapping):
                some = found if isinstance(found, tuple | list) else [found]
                found = dict(enumerate(x for x in some if x is not None))
            # in memory of its own, where a copy is one with the kernel that computes it
            return {k: el.copy(x) if isinstance(x, pf.Tensor) else x for k, x in found.items()}

        compiled = pf.compile(step)
        compiled.proven = bool(marked(args))  # sizes may be symbols in the first capture
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # pf.compile's, told here
            found = compiled(*args)
        keys, results = [k for k in found if isinstance(k, str)], list(found.values())
        if compiled.eager:
            raise ExportError(f"program {name!r} can't be exported: {compiled.eager}")
        replays = [r for some in compiled.replays.values() for r in some]
        if not replays:
            raise _UnreadyError(name, "it changes what it reads from Python")
        if not replays[0].guard.holds():  # the next call would be captured anew
            raise _UnreadyError(name, replays[0].guard.why)
        odd = [type(x).__name__ for x in results if not isinstance(x, pf.Tensor)]
        if odd:
            raise ExportError(f"program {name!r} gives a {odd[0]}; expected tensors")
        (replay,) = replays
        executables = replay.executables
        if len(executables) != 1 or not isinstance(executables[0], DeviceExecutable):
            raise ExportError(
                f"program {name!r} computes on the CPU as well: tensors that it makes must be made "
                "on the device of its inputs (device=x.device)"
                if executables else f"program {name!r} computes nothing"
            )  # fmt: skip
        if replay.reread:
            raise ExportError(f"program {name!r} reads an array of the host's at each call")
        pattern = self._pattern(name, compiled, args)
        names = list(keys or outputs)
        names += [f"output{i}" for i in range(len(names), len(results))]
        named = dict(zip(names, results, strict=True))
        entry = self._describe(executables[0], named, pattern)
        entry["inputs"] = [_described(n, x) for n, x in inputs.items()]
        if pattern is not None:
            self._size(entry, pattern, executables[0], results)
        self._rely(replay)
        if self.cpu is not None and pattern is not None:
            self.cpu = None
            self.left_out.append(
                f"the page needs WebGPU, as program {name!r} takes inputs of any size: what runs "
                "on the CPU is exported for each size"
            )
        if self.cpu is not None:
            try:
                on_cpu: Any = executables[0].on_cpu
                code = self.cpu.add(on_cpu.program)
                entry["cpu"] = code | self._bindings(on_cpu, on_cpu.program, executables[0], named)
            except UnsupportedKernelError as e:
                self.cpu = None
                self.left_out.append(
                    f"the page needs WebGPU, as program {name!r} can't run on the CPU: {e}"
                )
        self.programs[name] = entry
        return entry

    def _pattern(
        self, name: str, compiled: CompiledFunction[Any, Any], args: list[pf.Tensor]
    ) -> DynamicCapture | None:
        """The capture for many sizes, if dims are marked; ExportError where it is not for all that
        are."""
        wanted = marked(args)
        if not wanted:
            return None
        (family,) = compiled.families.values()
        small = [p for p in sorted(wanted) if args[p[0]].shape[p[1]] < MIN_SYMBOLIC_SIZE]
        fixed = [f"{line} asks for its number" for p, line in family.fixed.items() if p in wanted]
        why = [f"{named(p)} is {args[p[0]].shape[p[1]]} in the sample, expected "
               f"{MIN_SYMBOLIC_SIZE} or more"
               for p in small]  # fmt: skip
        if why or fixed or not family.patterns:
            raise ExportError(
                f"program {name!r} can't be exported for any size: "
                f"{[*why, *fixed, family.refused][0] or 'its memory is used in another way'}; "
                "export it for known sizes"
            )
        return family.patterns[0]

    def _size(
        self, entry: dict[str, Any], pattern: DynamicCapture, executable: DeviceExecutable,
        results: Sequence[pf.Tensor],
    ) -> None:  # fmt: skip
        """Describe a program for many sizes: where these are found, what must hold of them, and
        what follows from them."""
        sizes = pattern.sizes
        places = [(i, d, n[0]) for i, shape in enumerate(pattern.shapes)
                  for d, n in enumerate(shape) if type(n) is not int]  # fmt: skip
        made = {id(s): shape for (s, _), (shape, _, _) in
                zip(executable.fresh, pattern.replay.specs, strict=True)}  # fmt: skip
        for i, d, k in places:
            entry["inputs"][i]["shape"][d] = f"#{k}"
        for about, x in zip(entry["outputs"], results, strict=True):
            about["shape"] = [self.formula(n) for n in made[id(x._storage)]]
        asked = [_size_formula(sizes, x, text) for text, (x, _) in sizes.guards.asked.items()]
        least: list[Any] = [[">=", f"#{k}", MIN_SYMBOLIC_SIZE] for k in range(len(sizes.now))]
        entry["sizes"] = {
            "holds": least + asked,
            "grids": [self.formula(n) for n in executable.grid_formulas],
        }

    def _describe(
        self,
        executable: DeviceExecutable,
        results: Mapping[str, pf.Tensor],
        pattern: DynamicCapture | None,
    ) -> dict[str, Any]:
        program = executable.general
        # it is printed already
        with use_shape_guards(None if pattern is None else pattern.sizes.guards):
            wire = program_code(program, "wgsl", self.device.backend.limits)
        numbers = [
            self.kernels.setdefault(code, (len(self.kernels), label))[0]
            for code, label in zip(wire.codes, wire.labels, strict=True)
        ]
        return {
            "kernels": numbers,
            "steps": list(wire.steps),
            **self._bindings(executable, program, executable, results),
            "paramBytes": wire.param_bytes,
        }

    def _bindings(
        self, executable: Executable, program: Program, gpu: DeviceExecutable,
        results: Mapping[str, pf.Tensor],
    ) -> dict[str, Any]:  # fmt: skip
        """What a Program takes and leaves, and where: of the `gpu`, or the same on the CPU, whose
        state it shares."""
        slots: list[Any] = [["temp", self.formula(s.nbytes)] for s in program.slots]
        for i, s in enumerate(program.slots):
            if s.region >= 0:
                slots[i] = ["part", self._region(gpu.regions[s.region]), s.offset, s.nbytes]
        for slot, arg, _, _ in executable.arguments:
            slots[slot] = ["in", arg]
        memory = {st.storage: gpu.buffers[st.slot] for st in gpu.states}
        memory |= {storage: gpu.buffers[slot] for storage, slot in gpu.own}
        for st in executable.states:
            data = memory.get(st.storage, st.node.data)
            slots[st.slot] = ["state", self.state(st.storage, st.node, data)]
        if executable.flag >= 0:
            flag = self.executor.local.checks.flag  # type: ignore[union-attr]
            slots[executable.flag] = ["state", self.keep(flag)]
        made = {id(storage): slot for storage, slot in executable.fresh}
        outputs = [{**_described(n, x), "slot": made[id(x._storage)]} for n, x in results.items()]
        for slot in [about["slot"] for about in outputs]:
            if program.slots[slot].region < 0:  # nothing else may come to lie there
                slots[slot] = ["own", self.formula(program.slots[slot].nbytes)]
        live: dict[int, Any] = dict(executable.live)
        live |= {i: x for i, x in enumerate(executable.numbers) if type(x) is SymbolicSize}
        constants = zip(program.params, executable.values, strict=True)
        owner = {id(storage.node): storage for storage, _ in executable.fixed}
        back = []  # what is copied to where it belongs after the run
        for _, slot, node in executable.back:
            storage = owner[id(node)]
            number = self.state(storage, node, storage.node.data)
            back.append([number, slot, program.slots[slot].nbytes])
        self._open += [(slots, slot, storage, memory[storage]) for storage, slot in executable.own]
        return {
            "slots": slots,
            "params": [
                [
                    offset,
                    "f16" if d is float16 else d.compute,
                    self.formula(live[i]) if i in live else plain(value),
                ]
                for i, ((offset, d), value) in enumerate(constants)
            ],
            "paramBytes": program.param_bytes,
            "back": back,
            "outputs": outputs,
        }

    def _rely(self, replay: Any) -> None:
        """Write down the answers about options that a program relies on."""
        for get, answer, _ in replay.guard.asked:
            question = getattr(get, "question", None)
            if question is None:
                continue
            about: list[str] = []

            def name(source: Any, about: list[str] = about) -> str:
                about.append(self._option(source))
                return about[-1]

            try:
                asked = plain(formula(question, name))
            except ValueError:  # then it holds for the present values alone
                self.rules += [[["==", key, self.options[key]], True] for key in about]
                continue
            # what is there for an option that may be 0 computes the same where it is
            acts = asked[0] == "!=" and asked[2] == 0 and answer is True
            if about and not acts and [asked, answer] not in self.rules:
                self.rules.append([asked, answer])

    # --- the whole

    def document(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All of it as JSON data, and the values of the state that is not zero."""
        weights = {}
        for prefix, owner in self.modules.items():
            for key, x in owner.state_dict().items():
                if isinstance(x, pf.Tensor):
                    weights[prefix + key] = self.keep(x)
        for slots, slot, storage, data in self._open:
            found = self.states.get(id(storage))
            if found is not None and found.data is data:
                slots[slot] = ["state", found.number]
        self.name_states()
        tensors, values = [], {}
        for s in self.states.values():
            about: dict[str, Any] = {
                "name": s.name, "role": s.role, "dtype": s.dtype.name, "shape": s.shape,
            }  # fmt: skip
            if s.data.whole is not None:
                about["region"], about["offset"] = self._region(s.data.whole), s.data.offset
            raw = np.frombuffer(self.executor.read([(s.data, s.nbytes)])[0], np.uint8)
            if raw.any():
                flat = raw.view(storage_dtype(s.dtype))[: math.prod(s.shape)]
                values[s.name] = from_storage(flat, s.dtype).reshape(s.shape)
            tensors.append(about)
        document = {
            "format": "pyframe-program",
            "version": VERSION,
            "pyframe": pf.__version__,
            "needs": self.needs(),
            "options": self.options,
            "rules": self.rules,
            "errors": [message for _, message in self.executor.errors],
            "weights": weights,
            "tensors": tensors,
            "regions": [whole.nbytes for _, whole in self.regions.values()],
            "codes": [*self.kernels],
            "labels": [label for _, label in self.kernels.values()],
            "programs": self.programs,
        }
        return document, values

    def needs(self) -> dict[str, Any]:
        """The features and limits, by WebGPU's names, that a device must have."""
        steps = [s for p in self.programs.values() for s in dispatches(p["steps"])]
        buffers = [s.nbytes for s in self.states.values()]
        buffers += [whole.nbytes for _, whole in self.regions.values()]
        buffers += [s[-1] for p in self.programs.values() for s in p["slots"]
                    if s[0] != "state" and isinstance(s[-1], int)]  # fmt: skip
        largest = max(buffers, default=4)
        limits = {
            "maxStorageBuffersPerShaderStage": max([s[6] for s in steps], default=1),
            "maxStorageBufferBindingSize": largest,
            "maxBufferSize": largest,
            "maxComputeWorkgroupsPerDimension": max([max(s[1:4]) for s in steps], default=1),
            "maxComputeInvocationsPerWorkgroup": self.device.backend.limits.workgroup_size,
            "maxComputeWorkgroupSizeX": self.device.backend.limits.workgroup_size,
        }
        if any("var<workgroup>" in code for code in self.kernels):
            limits["maxComputeWorkgroupStorageSize"] = self.device.backend.limits.workgroup_bytes
        f16 = any("enable f16" in code for code in self.kernels)
        return {"features": ["shader-f16"] if f16 else [], "limits": limits}


# What formulas of sizes are made of beside those of scalars; web/player.js knows all of these
_SIZE_WORDS = WORDS | {
    operator.floordiv: "//", operator.mod: "%", operator.not_: "not", math.trunc: "trunc",
    math.floor: "floor", math.ceil: "ceil",
}  # fmt: skip


def _size_formula(sizes: ShapeEnv, x: Any, text: str) -> Any:
    """A size, or a question about sizes, as JSON data: size k is "#k"."""
    try:
        return plain(formula(x, "#{}".format, _SIZE_WORDS))
    except NoWordError:
        what = sizes.words(text)
        raise ExportError(f"a page can't calculate {what}; export it for each size") from None


def plain(value: Any) -> Any:
    """A number, or a formula, as JSON has it: without an infinity."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _described(name: str, x: pf.Tensor) -> dict[str, Any]:
    dtype, shape = _in_floats(x.dtype, x.shape)
    return {"name": name, "shape": shape, "dtype": dtype.name}


def _in_floats(dtype: DType, shape: Sequence[int]) -> tuple[DType, list[int]]:
    """The dtype and shape that JavaScript knows: complex numbers are pairs of floats."""
    return (dtype.to_real(), [*shape, 2]) if dtype.is_complex else (dtype, list(shape))


@contextmanager
def offline(
    modules: Mapping[str, nn.Module], optimizers: Sequence[pf.optim.Optimizer] = (),
    limits: Limits | None = None, cpu: bool = True,
) -> Iterator[Callable[[Callable[[Exporter], Any]], Any]]:  # fmt: skip
    """Within it modules (by the start of their tensors' names) and optimizers can be captured by
    what it gives, which calls a function with an Exporter. Afterwards all is as it was."""
    limits = replace(limits or Limits(), portable=cpu, subgroups=False, dots=False)
    with offline_device(limits) as device:

        def run(fn: Callable[[Exporter], Any]) -> Any:
            for _ in range(MAX_WARMUP_CAPTURES):
                try:
                    with _moved(modules, optimizers, device):
                        return fn(Exporter(device, modules, optimizers, cpu))
                except _UnreadyError as e:
                    name, why = e.args
                except OutOfMemoryError as e:
                    raise ExportError(_too_large(e, modules, device.backend.limits)) from e
                except (RuntimeError, TypeError) as e:
                    if str(device) not in str(e):
                        raise
                    raise ExportError(_elsewhere(e, str(device))) from e
            raise ExportError(
                f"program {name!r} can't be exported: its calls are not alike, as {why}; Python "
                "would have to run in between"
            )

        yield run


def _too_large(error: Exception, modules: Mapping[str, nn.Module], limits: Limits) -> str:
    """What has no room, and for which GPUs it would."""
    most = min(limits.buffer_bytes, limits.binding_bytes)
    for prefix, owner in modules.items():
        for name, x in owner.state_dict().items():
            size = x.numel() * x.dtype.device_itemsize if isinstance(x, pf.Tensor) else 0
            if size > most:
                return (
                    f"{prefix}{name} of shape {tuple(x.shape)} has {size:,} bytes, and a tensor "
                    f"{most:,} at most on every GPU; make it smaller, or export for GPUs that take "
                    f"it, with limits=pf.web.Limits(binding_bytes={size}, "
                    f"buffer_bytes={max(size, limits.buffer_bytes)})"
                )
    return (
        f"{str(error).partition(';')[0]}; try a smaller batch_size, or export for GPUs that take "
        "more, with limits=pf.web.Limits(binding_bytes=…, buffer_bytes=…)"
    )


def _elsewhere(error: Exception, device: str) -> str:
    """What a program does that a GPU can't, and where."""
    said = str(error).replace(f"device {device!r}", "the page's GPU")
    said = said.replace(device, "the page's GPU")
    where = traceback.extract_tb(error.__traceback__)
    line = next((f"{f.filename}:{f.lineno}: " for f in reversed(where) if FILES[f.filename] == USER
                 and not f.filename.startswith(PACKAGE_DIR)), "")  # fmt: skip
    if "on the same device" not in said:
        return f"{line}{said}"
    return (
        f"{line}{said.partition(';')[0]}. What a module keeps must be its parameter or buffer "
        "(self.register_buffer), what it makes must be made where its inputs are "
        "(device=x.device), and modules that exported functions use go into state="
    )


@contextmanager
def _moved(
    modules: Mapping[str, nn.Module], optimizers: Sequence[pf.optim.Optimizer], device: pf.device
) -> Iterator[None]:
    """Within it all tensors of modules and optimizers are on `device`, in copies."""
    held = [x for m in modules.values() for x in (*m.parameters(), *m.buffers())]
    states = [(o, {p: dict(entries) for p, entries in o.state.items()}) for o in optimizers]
    held += [x for _, state in states for entries in state.values() for x in entries.values()
             if isinstance(x, pf.Tensor)]  # fmt: skip
    before = [(x, x.data, x.grad) for x in {id(x): x for x in held}.values()]
    try:
        with pf.no_grad():
            for x, data, _ in before:
                x.grad = None
                x.data = data.to(device)
        yield
    finally:
        with pf.no_grad():
            for x, data, grad in before:
                x.grad = None
                x.data, x.grad = data, grad
        for optimizer, state in states:
            optimizer.state.clear()
            optimizer.state.update(state)
        random.default_generator._states.pop(device, None)
