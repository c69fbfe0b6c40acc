"""One step of a Program as stages: launches of compiled functions, or bound NumPy calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.numpy.blocks import Blocked, collapsed
from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.instructions import copy_result, narrow
from pyframe.codegen.numpy.memory import Array, Shape, Source
from pyframe.codegen.numpy.threads import CompiledStage, Stage
from pyframe.core import dtypes as dt, view as views
from pyframe.core.op import REGISTRY
from pyframe.graph.program import Expr, Kernel, Load, Param, Result, Step, Store

if TYPE_CHECKING:
    from pyframe.codegen.numpy.plan import Plan


class Lowering:
    """Makes the stages of one step."""

    def __init__(self, plan: Plan, step: Step, stages: list[Stage | CompiledStage]) -> None:
        self.plan, self.step, self.stages = plan, step, stages
        self.kernel: Kernel = plan.program.kernels[step.kernel]
        self.keys = [  # equal for bindings that may share memory
            ("region", plan.program.slots[s].region) if plan.program.slots[s].region >= 0 else s
            for s in step.slots
        ]
        self.wholes = 0
        self.read_views: dict[Any, Array] = {}

    def flat(self, binding: int, dtype: dt.dtype) -> Array:
        """The memory of a binding, for NumPy calls."""
        slot = self.step.slots[binding]
        self.plan.bound.add(slot)
        memory = self.plan.arrays[slot]
        n = memory.nbytes // dtype.itemsize * dtype.itemsize
        if memory.dtype == dtype.numpy:
            return memory
        return memory.view(np.uint8)[:n].view(dtype.numpy)

    def param(self, i: Param) -> Array:
        return self.plan.scalars[self.plan.by_offset[self.step.param_offset + 4 * i.word]]

    def whole(self, shape: Shape, dtype: np.dtype) -> Array:
        """Memory for something that is computed as a whole before the blocks."""
        self.wholes += 1
        return self.plan.registers.get(-1, self.wholes, shape, dtype)

    def source(self, flat: Array, index_map: views.IndexMap, key: Any) -> Source:
        """What the index map shows; all but its last view is copied first, as a whole."""
        for i, v in enumerate(index_map[:-1]):
            found = self.read_views.get((key, index_map[: i + 1]))
            if found is None:
                part = Source(flat, v)
                found = self.whole(v.shape, flat.dtype)
                calls: list[Call] = []
                if part.mask is not None:
                    calls.append((found.fill, (0,)))
                at = [slice(*m) for m in v.mask] if v.mask else []
                calls.append((np.copyto, (found[(..., *at)], part.array)))
                self.stages.append(Stage([calls]))
                self.read_views[key, index_map[: i + 1]] = found
            flat = found.reshape(-1)
        return Source(flat, index_map[-1])

    def build(self) -> None:
        kernel = self.kernel
        if not math.prod(kernel.space) and not any(math.prod(s.shape) for s in kernel.stores):
            return
        if kernel.routine is not None:
            self.routine(kernel)
        elif not self.launched(kernel, self.step.slots):
            Blocked(self, kernel.code, kernel.space, kernel.stores, None).build()

    def launched(self, kernel: Kernel, buffers: Sequence[int | Array]) -> bool:
        """A kernel without a routine as a launch of a compiled function, if it has a form."""
        function = self.plan.compiled(kernel)
        if function < 0:
            return False
        first = self.plan.by_offset.get(self.step.param_offset, 0)
        self.stages.append(CompiledStage(Launch(function), tuple(buffers), first))
        return True

    def routine(self, kernel: Kernel) -> None:
        assert kernel.routine is not None
        name, attrs, operands, dtype = kernel.routine
        op = REGISTRY[name]
        inputs = [self.operand(e) for e in operands]
        shape, _ = op.infer(*operands, *attrs)  # type: ignore[misc]
        target = self.result_store(kernel, dtype)
        if target is None:
            result = self.whole((math.prod(shape),), dtype.numpy)
        else:
            result = self.flat(target.binding, dtype)[target.index_map[0].offset :]
            result = result[: math.prod(shape)]
        found = self.plan.compiler and self.plan.compiler.routine(
            op, inputs, attrs, result.reshape(shape)
        )
        if found and op.numpy is not None:
            check = functools.partial(op.numpy, *inputs, *attrs)
            self.stages += [
                CompiledStage(Launch(-1, r, len(w)), words=tuple(w), check=check) for r, w in found
            ]
        else:
            self.stages += routine_stages(self.plan, op, inputs, attrs, result.reshape(shape))
        if dtype.narrow is not None:
            self.stages.append(Stage([[(narrow, (dtype.narrow, result))]]))
        if target is None or target.value != 0 or len(kernel.stores) > 1:
            self.epilogue(kernel, target, result)

    def epilogue(self, kernel: Kernel, target: Store | None, result: Array) -> None:
        """What follows on a routine's `result`, which lies where `target` belongs."""
        buffers: list[int | Array] = [*self.step.slots]
        if target is None:
            index_map, binding = views.contiguous(kernel.space), len(buffers)
            buffers.append(result)
        else:
            index_map, binding = target.index_map, target.binding
        code = [
            Load(binding, index_map, i.dtype) if isinstance(i, Result) else i for i in kernel.code
        ]
        # where the result is stored as it is, it lies there already
        stores = [w for w in kernel.stores if w is not target or w.value != 0]
        if not self.computed(code, kernel.space, stores, buffers):
            home = None if target is None else self.keys[target.binding]
            Blocked(self, kernel.code, kernel.space, kernel.stores, (result, home)).build()

    def computed(
        self, code: Sequence[Any], space: Shape, stores: Sequence[Store],
        buffers: Sequence[int | Array],
    ) -> bool:  # fmt: skip
        """`launched` for code of a part of the step."""
        if self.plan.compiler is None:
            return False
        code, space, stores = collapsed(code, space, stores)
        words = self.kernel.params
        kernel = Kernel(space, tuple(code), tuple(stores), len(buffers), words)
        return self.launched(kernel, buffers)

    def result_store(self, kernel: Kernel, dtype: dt.dtype) -> Store | None:
        """A store in whose place the routine's result can lie before the epilogue."""
        assert kernel.routine is not None
        exprs = [i for e in kernel.routine.operands for i in e.code]
        read = {self.keys[i.binding] for i in (*kernel.code, *exprs) if isinstance(i, Load)}
        for s in kernel.stores:
            v = s.index_map[0]
            others = [t for t in kernel.stores if t is not s]
            if (
                s.dtype is dtype
                and v.shape == kernel.space
                and views.is_contiguous((v._replace(offset=0),))
                and self.keys[s.binding] not in read
                and all(self.keys[t.binding] != self.keys[s.binding] for t in others)
            ):
                return s
        return None

    def operand(self, e: Expr) -> Array:
        """An operand as an array: a view where it is only loaded, else computed to scratch."""
        i = e.code[0]
        if (
            len(e.code) == 1
            and isinstance(i, Load)
            and not (self.plan.compiler is not None and len(i.index_map) > 1)
        ):
            source = self.source(self.flat(i.binding, i.dtype), i.index_map, (i.binding, i.dtype))
            if source.mask is None:
                return np.broadcast_to(source.array, e.shape)
        out = self.whole(e.shape, e.dtype.numpy)
        slots = self.step.slots
        store = Store(len(slots), len(e.code) - 1, views.contiguous(e.shape), e.dtype)
        if not self.computed(e.code, e.shape, (store,), (*slots, out)):
            Blocked(
                self, e.code, e.shape, (store._replace(binding=-1),), None, out.reshape(-1)
            ).build()
        return out


def routine_stages(
    plan: Plan, op: Any, inputs: list[Array], attrs: tuple[Any, ...], out: Array
) -> list[Stage]:
    """A routine as stages that write to `out`, which is contiguous."""
    found = op.lower_routine and op.lower_routine(inputs, attrs, out, plan.threads)
    if found is None:
        found = [[[(copy_result, (op.numpy, out, *inputs, *attrs))]]]
    wholes = [getattr(work, "whole", None) for work in found]
    return [Stage(work, w, w is not None) for work, w in zip(found, wholes, strict=True)]
