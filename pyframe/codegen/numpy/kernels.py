"""One step of a Program as stages: launches of compiled functions, or bound NumPy calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.numpy.blocks import TiledKernel
from pyframe.codegen.numpy.elementwise import Call
from pyframe.codegen.numpy.instructions import copy_result, narrow
from pyframe.codegen.numpy.memory import (
    Array,
    LoadView,
    Shape,
    SlotAddress,
    SlotArray,
    SymbolicArrayRef,
    address,
    slots_of,
)
from pyframe.codegen.numpy.threads import CompiledStage, Stage
from pyframe.core import dtypes as dt, view as views
from pyframe.core.op import REGISTRY
from pyframe.graph.program import (
    Dispatch,
    Expr,
    ExternResult,
    Kernel,
    Load,
    ScalarParam,
    Store,
    collapsed,
    kernel_at_present,
)

if TYPE_CHECKING:
    from pyframe.codegen.numpy.plan import CpuPlan


class StepLowering:
    """Makes the stages of one step."""

    def __init__(self, plan: CpuPlan, step: Dispatch, stages: list[Stage | CompiledStage]) -> None:
        self.plan, self.step, self.stages = plan, step, stages
        self.by_numbers = False  # whether a part of it is planned for the sizes that there are now
        self.formula: Kernel | None = None  # where its sizes change and it is compiled
        if plan.formulas is not None and plan.compiler is not None:
            self.formula = plan.formulas.kernels[step.kernel]
        self.parts = 0  # of the kernel that are compiled apart
        self.keys: list[Any] = [  # equal for bindings that may share memory
            ("region", plan.program.slots[s].region) if plan.program.slots[s].region >= 0 else s
            for s in step.slots
        ]
        self.keys.append("more")
        self.more = np.empty(0, np.uint8)  # memory of the binding after those of the step
        self.wholes = 0
        self.read_views: dict[Any, Array] = {}

    def flat(self, binding: int, dtype: dt.dtype, bound: bool = True) -> Array:
        """The memory of a binding, for NumPy calls, or for a routine's that may move."""
        memory = self.more.reshape(-1)
        if binding < len(self.step.slots):
            slot = self.step.slots[binding]
            if bound:
                self.plan.bound.add(slot)
            memory = self.plan.arrays[slot]
        if memory.dtype == dtype.numpy:
            return memory
        n = memory.nbytes // dtype.itemsize * dtype.itemsize
        return memory.view(np.uint8)[:n].view(dtype.numpy)

    def param(self, i: ScalarParam) -> Array:
        return self.plan.scalars[self.plan.by_offset[self.step.param_offset + 4 * i.word]]

    def whole(self, shape: Shape, dtype: np.dtype) -> Array:
        """Memory for something that is computed as a whole before the blocks."""
        self.wholes += 1
        return self.plan.registers.get(-1, self.wholes, shape, dtype)

    def source(self, flat: Array, index_map: views.IndexMap, key: Any) -> LoadView:
        """What the index map shows; all but its last view is copied first, as a whole."""
        for i, v in enumerate(index_map[:-1]):
            found = self.read_views.get((key, index_map[: i + 1]))
            if found is None:
                part = LoadView(flat, v)
                found = self.whole(v.shape, flat.dtype)
                calls: list[Call] = []
                if part.mask is not None:
                    calls.append((found.fill, (0,)))
                at = [slice(*m) for m in v.mask] if v.mask else []
                calls.append((np.copyto, (found[(..., *at)], part.array)))
                self.stages.append(Stage([calls]))
                self.read_views[key, index_map[: i + 1]] = found
            flat = found.reshape(-1)
        return LoadView(flat, index_map[-1])

    @functools.cached_property
    def kernel(self) -> Kernel:
        """What is computed, with numbers for sizes."""
        return self.plan.program.kernels[self.step.kernel]

    def build(self) -> None:
        if self.kernel.has_elements():
            self.lower()

    def lower(self) -> None:
        formula = self.formula
        if formula is not None and formula.routine is not None and self.sized_routine(formula):
            return
        if (formula or self.kernel).routine is not None:
            self.routine(self.kernel)
        elif formula is not None:
            self.compute(None, lambda: formula)
        else:
            self.compute(self.kernel, None)

    def compute(
        self, kernel: Kernel | None, formula: Callable[[], Kernel] | None, more: Array | None = None
    ) -> None:
        """A kernel without a routine, by a compiled function if it has a form, else by NumPy.
        `formula` gives it for other sizes, where they change; `more` is the memory of a binding
        after those of the step."""
        buffers = self.step.slots if more is None else (*self.step.slots, more)
        launch = None
        if formula is not None:
            self.parts += 1
            number, made, units, sizes = self.plan.formulas.function(
                (self.step, self.parts), formula, self.plan.compiler
            )
            if number >= 0:
                launch = Launch(number, units=units)
                buffers = (*buffers, sizes) if sizes else buffers
            else:
                kernel = kernel_at_present(made)
        elif kernel is not None and (function := self.plan.compiled(kernel)) >= 0:
            launch = Launch(function)
        if launch is not None:
            first = self.plan.by_offset.get(self.step.param_offset, 0)
            self.stages.append(CompiledStage(launch, buffers, first))
            return
        if more is not None:
            self.more = more
        assert kernel is not None
        self.by_numbers = True
        TiledKernel(self, kernel).build()

    def part(
        self, parts: Callable[[], tuple[Sequence[Any], Shape, Sequence[Store]]], more: Array | None
    ) -> None:  # fmt: skip
        """`compute` for a part of the step: its code, space and stores, of formulas where sizes
        change."""
        bindings = len(self.step.slots) + (more is not None)
        params = (self.formula or self.kernel).params

        def made() -> Kernel:
            code, space, stores = collapsed(*parts())
            return Kernel(space, tuple(code), tuple(stores), bindings, params)

        if self.formula is None:
            self.compute(made(), None, more)
        else:
            self.compute(None, made, more)

    def sized_routine(self, formula: Kernel) -> bool:
        """The stages of a product whose sizes change, by formulas, where its operands only have to
        be read and the result can lie where it belongs; else False."""
        plan = self.plan
        assert plan.formulas is not None
        assert formula.routine is not None
        name, compiler = REGISTRY[formula.routine.name].routine, plan.compiler
        if name != "gemm.matmul" or compiler is None or compiler.name != "llvm":
            return False
        # whose words are numbers, sizes, `ScratchArg`, or `SymbolicArrayRef` in a slot
        store, calls = plan.formulas.variant(self.step, lambda: self.planned(formula) or (-1, ()))
        if store < 0:
            return False
        for name, words in calls:
            launch = Launch(-1, name, len(words))
            self.stages.append(CompiledStage(launch, words=words))
        if formula.stores[store].value != 0 or len(formula.stores) > 1:
            self.epilogue(store, None)
        return True

    def planned(self, formula: Kernel) -> tuple[int, Any] | None:
        """The store in whose place a routine's result can lie, and the routine's calls."""
        assert formula.routine is not None
        name, attrs, operands, dtype = formula.routine
        op = REGISTRY[name]
        target = self.result_store(formula, dtype)
        if target is None or dtype.narrow is not None:
            return None
        inputs = []
        for e in operands:
            i = e.code[0]
            if len(e.code) > 1 or not isinstance(i, Load) or len(i.index_map) > 1:
                return None
            v, size = i.index_map[0], i.dtype.itemsize
            if v.mask is not None:
                return None
            strides = tuple([s * size for s in v.strides])
            inputs.append(
                SymbolicArrayRef(v.shape, strides, i.dtype.numpy, i.binding, v.offset * size)
            )
        shape, _ = op.infer(*operands, *attrs)  # type: ignore[misc]
        size = dtype.itemsize
        strides = tuple([s * size for s in views.row_major_strides(tuple(shape))])
        at = target.index_map[0].offset * size
        out = SymbolicArrayRef(tuple(shape), strides, dtype.numpy, target.binding, at)
        lying: Any = inputs, out  # as arrays do
        calls = self.plan.compiler.routine(op, lying[0], attrs, lying[1])  # type: ignore[union-attr]
        if calls is None:
            return None
        slots = self.step.slots
        placed = [
            (name, tuple(w._replace(binding=slots[w.binding]) if isinstance(w,
            SymbolicArrayRef) else w
                         for w in words))
            for name, words in calls
        ]  # fmt: skip
        return formula.stores.index(target), placed

    def routine(self, kernel: Kernel) -> None:
        assert kernel.routine is not None
        self.by_numbers = True
        name, attrs, operands, dtype = kernel.routine
        op = REGISTRY[name]
        formula = self.formula
        formulas = (None,) * len(operands) if formula is None else formula.routine.operands  # type: ignore[union-attr]
        inputs = [self.operand(e, f) for e, f in zip(operands, formulas, strict=True)]
        shape, _ = op.infer(*operands, *attrs)  # type: ignore[misc]
        target = self.result_store(kernel, dtype)
        if target is None:
            result = self.whole((math.prod(shape),), dtype.numpy)
        else:
            result = self.flat(target.binding, dtype, False)[target.index_map[0].offset :]
            result = self.in_slot(result[: math.prod(shape)], target.binding)
        out = result.reshape(shape)
        compiler = self.plan.compiler
        if target is not None and self.with_epilogue(op, inputs, attrs, out):
            self.plan.bound |= slots_of((*inputs, out))  # tables say how far these are apart
            return
        found = compiler and compiler.routine(op, inputs, attrs, out)
        lie = all(x.flags.c_contiguous for x in inputs)
        if (
            compiler is not None
            and not found
            and (  # maybe for how operands lie
                compiler.alone or (not lie and op.routine is not None)
            )
        ):
            pairs = zip(operands, formulas, strict=True)
            inputs = [self.operand(e, f, copied=True) for e, f in pairs]
            found = compiler.routine(op, inputs, attrs, out)
        if found and op.numpy is not None:
            check = op.numpy, [*map(self.lying, inputs), *attrs]
            placed = [(r, tuple(map(self.lying, words))) for r, words in found]
            self.stages += [
                CompiledStage(Launch(-1, r, len(w)), words=w, check=check) for r, w in placed
            ]
            words = [w for _, some in placed for w in some]
            moving = {w.binding for w in words if type(w) is SymbolicArrayRef}
            self.plan.bound |= slots_of((*inputs, out)) - moving
            self.plan.bound |= self.within(words, slots_of((*inputs, out)) & moving)
        else:
            self.plan.bound |= slots_of((*inputs, out))
            inputs, result = [x.view(np.ndarray) for x in inputs], result.view(np.ndarray)
            out = result.reshape(shape)
            made = op.lower_extern and op.lower_extern(inputs, attrs, out, self.plan.threads)
            call = (copy_result, (op.numpy, out, *inputs, *attrs))
            if op.write_slice is not None:
                call = (op.write_slice, (out, *inputs, *attrs))
            self.stages += made or [Stage([[call]])]
        if dtype.narrow is not None:
            self.plan.bound |= slots_of((result,))
            self.stages.append(Stage([[(narrow, (dtype.narrow, result))]]))
        if target is None or target.value != 0 or len(kernel.stores) > 1:
            number = -1 if target is None else kernel.stores.index(target)
            self.epilogue(number, result if target is None else None)

    def lying(self, x: Any) -> Any:
        """A word or an operand of a routine: where it lies in a slot, if that may move."""
        if type(x) not in (SlotAddress, SlotArray):
            return x
        kind, at = (x, address(x)) if type(x) is SlotArray else (np.empty((), np.uint8), int(x))
        memory = self.plan.arrays[x.slot]
        offset = at - address(memory)
        if not 0 <= offset <= memory.nbytes:  # a copy of one that does
            return x if type(x) is SlotArray else int(x)
        return SymbolicArrayRef(kind.shape, kind.strides, kind.dtype, x.slot, offset)

    def within(self, words: Sequence[Any], slots: set[int]) -> set[int]:
        """Those of some slots into which plain numbers lead, which would stay when these move."""
        tables = [w for w in words if isinstance(w, np.ndarray) and w.dtype.itemsize == 8]
        tables.append(np.array([w for w in words if type(w) is int], object))
        found = set()
        for slot in slots:
            start, nbytes = address(self.plan.arrays[slot]), self.plan.arrays[slot].nbytes
            if any(((start <= t) & (t < start + nbytes)).any() for t in tables):
                found.add(slot)
        return found

    def in_slot(self, array: Array, binding: int) -> Array:
        """An array that is known to lie in a binding, if that is a slot's and it is anywhere."""
        if binding >= len(self.step.slots) or not array.size:
            return array
        out = array.view(SlotArray)
        out.slot = self.step.slots[binding]
        return out

    def with_epilogue(
        self, op: Any, inputs: Sequence[Array], attrs: tuple[Any, ...], out: Array
    ) -> bool:
        """The stages of a convolution that does what follows to its result, if LLVM has that."""
        compiler, k, (store, *_) = self.plan.compiler, self.kernel, self.kernel.stores
        if op.name != "conv" or compiler is None or compiler.name != "llvm" or not store.value:
            return False
        from pyframe.codegen.llvm.after import epilogue  # which no page needs

        after = None if self.formula is not None else epilogue(k)
        if after is None:
            return False
        values = self.whole((max(len(after.values), 1), k.space[1]), np.dtype(np.float32))
        others = [self.flat(i.binding, i.dtype)[i.index_map[0].offset :] for i in after.loads]
        found = compiler.with_epilogue(op, inputs, attrs, out, after.code, values, others)  # type: ignore[attr-defined]
        if found is None:
            return False
        if after.values:
            self.part(lambda: after.values_of(k.space, len(self.step.slots)), values)
        self.stages += [CompiledStage(Launch(-1, r, len(w)), words=tuple(w)) for r, w in found]
        return True

    def epilogue(self, number: int, result: Array | None) -> None:
        """What follows on a routine's result, which lies where store `number` belongs, or apart."""

        def parts(kernel: Kernel) -> tuple[list[Any], Shape, list[Store]]:
            index_map, binding = views.contiguous(kernel.space), len(self.step.slots)
            if number >= 0:
                store = kernel.stores[number]
                index_map, binding = store.index_map, store.binding
            code = [
                Load(binding, index_map, i.dtype) if isinstance(i, ExternResult) else i
                for i in kernel.code
            ]
            # where the result is stored as it is, it lies there already
            stores = [w for n, w in enumerate(kernel.stores) if n != number or w.value != 0]
            return code, kernel.space, stores

        self.part(lambda: parts(self.formula or self.kernel), result)

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
                and len(s.index_map) == 1
                and v.shape == kernel.space
                and views.is_contiguous((v._replace(offset=0),))
                and self.keys[s.binding] not in read
                and all(self.keys[t.binding] != self.keys[s.binding] for t in others)
            ):
                return s
        return None

    def operand(self, e: Expr, formula: Expr | None, copied: bool = False) -> Array:
        """An operand as an array: a view where it is only loaded, else computed to scratch."""
        i = e.code[0]
        if (
            len(e.code) == 1
            and isinstance(i, Load)
            and not copied
            and not (self.plan.compiler is not None and len(i.index_map) > 1)
        ):
            flat = self.flat(i.binding, i.dtype, False)
            source = self.source(flat, i.index_map, (i.binding, i.dtype))
            if source.mask is None:
                return self.in_slot(np.broadcast_to(source.array, e.shape), i.binding)
        out = self.whole(e.shape, e.dtype.numpy)

        def parts(e: Expr) -> tuple[Sequence[Any], Shape, Sequence[Store]]:
            place = views.contiguous(e.shape)
            return e.code, e.shape, (Store(len(self.step.slots), len(e.code) - 1, place, e.dtype),)

        self.part(lambda: parts(e if formula is None else formula), out)
        return out
