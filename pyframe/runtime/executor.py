"""The executor of a device: it flushes recorded nodes, keeps Programs, and reads values."""

from __future__ import annotations

import functools
import math
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyframe.backend.base import Backend, RefusedError
from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.devices import DeviceLostError, run_sync
from pyframe.core.dtypes import from_storage, storage_dtype
from pyframe.core.lru import LruCache
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST, MOVEMENT
from pyframe.core.view import IndexMap, View, is_contiguous
from pyframe.graph.program import OUTPUT, TEMP, Program
from pyframe.graph.schedule import graph_key, schedule
from pyframe.ops.api.deferred import DeferredAsserts
from pyframe.ops.shape.strided import elements
from pyframe.runtime import debug, tuned
from pyframe.runtime.buffers import BufferPool, PooledBuffer
from pyframe.runtime.code import (
    encode_params,
    generate_replacement,
    program_code,
    replaceable,
    sized,
)
from pyframe.runtime.kinds import GraphFamilies, PlannedProgram
from pyframe.runtime.slices import Slices

if TYPE_CHECKING:
    from pyframe.tensor import Tensor

AHEAD = 2  # pieces that are read meanwhile
MAX_PROGRAMS = 512  # kept for work that is recorded again
MAX_KERNELS = 512  # of them all
_ALONE = next(map(sys.getrefcount, [object()]))  # as `_free` counts it


class _Cached(NamedTuple):
    """A Program kept for work that is recorded again, and where in it each slot's node stands."""

    plan: PlannedProgram
    outputs: list[int]
    sizes: list[int]  # bytes of the buffers that a run makes
    scratch: list[PooledBuffer]  # of the temporaries
    used: list[list[Any]]  # handles that the last runs wrote to, the latest last
    kernels: int  # that go with it: those of a Program for many graphs are its family's


class _Local(threading.local):
    """What each thread has for itself."""

    checks: DeferredAsserts | None = None  # what they found is raised by the next read


class Executor(BufferPool):
    """Runs what was recorded on a device: it plans a Program, has it loaded, and keeps it for the
    next time. Reads values, and raises what checks of them have found."""

    fixed: Collection[int] = ()  # handles of what no Program may move beside other tensors
    piece = 4 << 20  # bytes of a large value that go to the host and back at once

    def __init__(self, backend: Backend) -> None:
        def unload(program: Program) -> None:  # no method, which would keep the executor alive
            loaded = program.loaded.pop(backend.name, None)
            if loaded is not None:
                backend.unload(loaded)

        def evicted(cached: _Cached) -> None:
            if not cached.plan.grids:  # else its family has it
                unload(cached.plan.program)

        super().__init__(backend)
        self.pending: list[weakref.ref[Any]] = []  # storages with recorded values, all threads'
        self._homes: dict[int, Node] = {}  # by id of a storage: the value that it had before
        self._programs: LruCache[Any, _Cached] = LruCache(
            MAX_PROGRAMS, MAX_KERNELS, attrgetter("kernels"), evicted
        )
        self._kinds = GraphFamilies(unload)
        self._slices = Slices()
        self._scratch: dict[int, list[PooledBuffer]] = {}
        self.local = _Local()
        self.errors: list[tuple[type[Exception], str]] = []  # of all threads' checks
        # what was loaded, by the id of what the backend's `run` takes, for profiles
        self.programs: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()
        self.dead: list[Any] = []  # what was loaded for Programs that are gone

    # --- Programs

    def run(
        self,
        program: Program,
        buffers: Sequence[PooledBuffer],
        params: bytes,
        grids: Sequence[int] = (),
    ) -> None:
        """Run a Program with a buffer for each of its slots.

        `params` holds the scalars that it was recorded with (see `encode_params`), `grids` is for
        one whose sizes change."""
        loaded = self.loaded(program)
        if grids:
            self.programs[id(loaded)] = program  # that it is at the moment, for profiles
        self.backend.run(loaded, [b.handle for b in buffers], params, grids)

    def loaded(self, program: Program) -> Any:
        """What the backend's `run` takes for `program`, made once."""
        loaded = program.loaded.get(self.backend.name)
        if loaded is None:
            while self.dead:
                self.backend.unload(self.dead.pop())
            debug.kernels(program)
            code = program_code(program, self.backend.language, self.backend.limits)
            debug.code(code)
            loaded = program.loaded[self.backend.name] = self.backend.load(code)
            self.programs[id(loaded)] = program
        return loaded

    def fitted(
        self, program: Program, check: Callable[[], None] = lambda: None
    ) -> tuple[Program, list[Any], list[Any]]:
        """What `sized` makes of a Program, loaded. Where the driver refuses a kernel, another
        variant takes its place. `check` may refuse what was made, before it is loaded."""
        while True:
            limits = self.backend.limits
            found = sized(program, self.backend.language, limits)
            check()
            try:
                self.loaded(found[0])
            except RefusedError as error:
                texts = [s.code for s in found[0].texts[self.backend.language]]
                tuned.exclude_variant(self.backend, program.kernels[texts.index(error.code)], error)
            else:
                return found

    def reprint(self, error: RefusedError) -> list[tuple[Any, dict[int, Any]]]:
        """What takes the place of a kernel that turned out to be refused, as Backend says."""
        backend, found = self.backend, []
        for program in list(self.programs.values()):
            made, loaded = program.texts.get(backend.language, []), program.loaded.get(backend.name)
            which = [i for i, s in enumerate(made) if s.code == error.code]
            if loaded is None or not which or not replaceable(program, backend.language):
                continue
            while error.code in [s.code for s in generate_replacement(program, which[0], backend)]:
                tuned.exclude_variant(backend, program.kernels[which[0]], error)
            for i in which:
                made[i] = generate_replacement(program, i, backend)[0]
            found.append((loaded, {i: made[i] for i in which}))
        return found

    def forget_programs(self) -> None:
        """Unload what recorded work became; it is planned again where it is recorded again."""
        self._programs.shrink(0)
        self._kinds.known.shrink(0)
        self._scratch.clear()

    # --- recorded work

    def replaces(self, storage: Storage, old: Node) -> None:
        """The storage holds another value now, which may be written over the one before."""
        if storage.node.data is None:
            self._homes[id(storage)] = old

    def flush(self, extra: Sequence[Node] = ()) -> None:
        """Run all recorded work that a live tensor (or `extra`) still needs."""
        with self.lock:  # who finds nothing to run may need what another thread runs now
            if self.pending or extra:
                self._flush(extra)

    def _flush(self, extra: Sequence[Node]) -> None:
        pending, homes = self.pending[:], self._homes
        del self.pending[: len(pending)]  # other threads go on adding to it
        self._homes = {}
        roots: dict[int, Node] = {}
        over: dict[int, Node] = {}
        for ref in pending:
            storage = ref()
            if storage is not None and storage.node.data is None:
                roots[id(storage.node)] = storage.node
                if id(storage) in homes:
                    over[id(storage.node)] = homes[id(storage)]
        homes.clear()
        for n in extra:
            if n.data is None:
                roots[id(n)] = n
        if roots:
            try:
                self._execute(list(roots.values()), over)
            except DeviceLostError:  # maybe of some other value: what can be had is
                had = [n for n in roots.values() if all(self._has(i) for i in toposort([n]))]
                if self.backend.lost or any(n.data is None for n in extra if n not in had):
                    raise
                self._execute(had)

    def _has(self, n: Node) -> bool:
        """Whether the value of `n` is no lost device's."""
        return n.data is None or n.data.pool is self

    def _execute(self, roots: list[Node], over: Mapping[int, Node] = MappingProxyType({})) -> None:
        """Compute the roots; `over` gives, by id, the values that they replace."""
        roots = [n for n in roots if not self._is_fresh(n)]
        if not roots:
            return
        order = toposort(roots)
        cut = self._slices.cut(order, roots, self._copied)
        if cut:
            order = toposort(roots)
        try:
            self._execute_in(order, roots, over)
        finally:
            for n, inputs in cut:
                n.data, n.inputs = None, inputs

    def _is_fresh(self, n: Node) -> bool:
        """Whether a node is zeros, and has become a new buffer, which holds such."""
        x = n
        while x.data is None and x.op is not None and x.op.name in ("copy", "expand"):
            x = x.inputs[0]
        value = x.attrs[0] if x.op is CONST and x is not n else None
        if type(value) not in (int, float, bool) or str(value) not in ("0", "0.0", "False"):
            return False
        n.data = self.zeros(math.prod(n.shape) * n.dtype.device_itemsize)
        if n.data is not None:
            n.inputs = ()
        return n.data is not None

    def apart(self, x: Tensor) -> PooledBuffer:
        """The elements of a view without padding, in a buffer of their own."""
        base = x._storage.node
        if base.data is None:
            self.flush([base])
        (view,) = x._index_map()
        return self._copied(base, view)

    def _copied(self, base: Node, view: View) -> PooledBuffer:
        """What a view of a computed node shows, in a buffer of its own."""
        start = _start((view,), base.dtype)
        if start is not None:
            nbytes = math.prod(view.shape) * base.dtype.device_itemsize
            out = self.alloc(nbytes)
            self.copy(out, self.slice(base.data, start, nbytes), nbytes)
            return out
        node = elements(base, *view[:3])  # no kernel depends on the offset
        self.flush([node])
        found: PooledBuffer = node.data
        return found

    def _execute_in(self, order: list[Node], roots: list[Node], over: Mapping[int, Node]) -> None:
        """Run the Program of this graph: one that an equal graph left, or a new one."""
        in_place = _free(order, over)
        key = graph_key(order, roots), in_place
        cached = self._programs.get(key)
        if cached is not None and cached.plan.grids and not cached.plan.program.loaded:
            cached = None  # its family was forgotten
        if cached is None:
            cached = self._plan(key[0], order, roots, in_place)
            self._programs.put(key, cached)
        else:
            self._programs.move_to_end(key)
        (program, inputs, constants, numbers, grids), outputs, sizes, scratch, used, _ = cached
        values = [(order[c] if isinstance(c, int) else c).attrs[0] for c in constants]
        params = encode_params(program.params, [*values, *numbers], program.param_bytes)
        made = self.alloc_as_before(sizes, used)
        buffers = [*[order[i].data for i in inputs], *made]
        self.run(program, [*buffers, *scratch], params, grids)
        for position, slot in zip(outputs, program.outputs, strict=True):
            node = order[position]
            node.data = buffers[slot]
            node.inputs = ()  # what it was computed from may go now

    def _plan(
        self, graph: Any, order: list[Node], roots: list[Node],
        in_place: tuple[tuple[int, int], ...],
    ) -> _Cached:  # fmt: skip
        """Find a Program for graphs like this one; `graph` is their `graph_key`, `in_place` are the
        positions of roots, and of the inputs that each may be written over."""
        limits, found = self.backend.limits, None
        if self.backend.language == "wgsl":  # one for many that differ in sizes, if there is one
            found = self._kinds.planned(graph, order, roots, self.fitted, limits)
        if found is None:
            over = {id(order[old]): order[new] for new, old in in_place}
            program, inputs, constants = schedule(order, roots, limits, over)
            program, numbers, _ = self.fitted(program)
            debug.graph(roots, limits)
            found = PlannedProgram.of(order, program, inputs, constants)
            found = found._replace(numbers=tuple(numbers))
        slots, general = found.program.slots, bool(found.grids)
        temps = [s.nbytes for s in slots if s.kind == TEMP]
        at = {id(n): i for i, n in enumerate(order)}
        return _Cached(
            found,
            [at[id(n)] for n in roots if n.data is None],
            [s.nbytes for s in slots if s.kind == OUTPUT],
            self.scratch([self.grown(n) for n in temps] if general else temps),
            [],
            0 if general else len(found.program.kernels),
        )

    @property
    def scratch_bytes(self) -> int:
        """What the temporaries take that all Programs share."""
        return sum(size * len(shelf) for size, shelf in list(self._scratch.items()))

    def scratch(self, sizes: Sequence[int]) -> list[PooledBuffer]:
        """Buffers for the temporaries of a Program. All Programs have the same ones, as what one
        leaves there is of no use to the next."""
        out = []
        count: dict[int, int] = {}
        for size in map(self.bucket, sizes):
            shelf = self._scratch.setdefault(size, [])
            k = count[size] = count.get(size, 0) + 1
            if len(shelf) < k:
                shelf.append(self.alloc(size))
            out.append(shelf[k - 1])
        return out

    # --- observing values

    def _stored_nodes(self, tensors: Sequence[Tensor]) -> list[Node]:
        """The tensors' nodes, all computed, each in a buffer in its own order."""
        nodes: list[Node] = []
        views = []
        for t in tensors:
            node = t._value()
            # a view of elements, not of the parts of complex ones
            view = node.data is None and t._view_chain and node.dtype is t._storage.node.dtype
            if view and is_contiguous(t._index_map()):
                node = t._storage.node  # its first elements are the view's
            elif view and _start(t._index_map(), node.dtype) is not None:
                views.append((len(nodes), t))
                node = t._storage.node
            elif node.data is None and (node.op is CONST or node.op.kind == MOVEMENT):  # type: ignore[union-attr]
                # a view's own elements, in a buffer that only this read sees
                node = Node(node.op, node.inputs, node.attrs, node.shape, node.dtype, node.device)
                if view and self._slices.has_dynamic_offset(t._storage.node, t._index_map()):
                    node.data = self.apart(t)
            nodes.append(node)
        checks = self.local.checks
        flags = [] if checks is None else [checks.flag._value()]
        self.flush([*nodes, *flags])
        for i, t in views:
            base, shape, start = nodes[i], t.shape, _start(t._index_map(), t.dtype)
            nodes[i] = Node(None, (), (), shape, base.dtype, base.device)
            nodes[i].data = self.slice(base.data, start, _read_bytes(nodes[i]))  # type: ignore[arg-type]
        return [*nodes, *flags]

    def fetch(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """The tensors' values on the host: one wait for all. Raises what a check found."""
        nodes, checks = self._stored_nodes(tensors), self.local.checks
        raw = self.read([(n.data, _read_bytes(n)) for n in nodes])
        return self._arrays(tensors, nodes, raw, checks)

    async def fetch_async(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """`fetch` that gives the thread back while it waits."""
        return await self.fetch_begin(tensors)()

    def fetch_begin(self, tensors: Sequence[Tensor]) -> Callable[[], Awaitable[list[np.ndarray]]]:
        """Queue a `fetch` of what the tensors are now; what it returns waits for it."""
        nodes, checks = self._stored_nodes(tensors), self.local.checks
        self.stats.reads += 1
        with self.lock:
            finish = self.backend.read_begin([(n.data.handle, _read_bytes(n)) for n in nodes])

        async def arrays() -> list[np.ndarray]:
            return self._arrays(tensors, nodes, await finish(), checks)

        return arrays

    def pieces(
        self, x: Tensor, out: PooledBuffer
    ) -> Iterator[tuple[np.ndarray, Callable[..., None]]]:
        """A large value a piece at a time, each with what puts its result at its place in `out`:
        while one is worked with the next ones are read, and the last is on its way back."""
        (node, *_), size, n = self._stored_nodes([x]), x.dtype.device_itemsize, x.numel()
        step = self.piece // size
        starts, begun = deque(range(0, n, step)), deque[Any]()
        while starts or begun:
            while starts and len(begun) <= AHEAD:
                at = starts.popleft()
                count = min(step, n - at)
                nbytes = -(-count * size // 4) * 4
                data = self.slice(node.data, at * size, nbytes)
                piece = _dispatch.tensor_from_node(
                    Node(None, (), (), (count,), x.dtype, x.device, data)
                )
                begun.append((self.slice(out, at * size, nbytes), self.fetch_begin([piece])))
            part, read = begun.popleft()
            (array,) = run_sync(read())
            yield array, functools.partial(self.put, part, x.dtype)

    def _arrays(
        self,
        tensors: Sequence[Tensor],
        nodes: list[Node],
        raw: list[bytes],
        checks: DeferredAsserts | None,
    ) -> list[np.ndarray]:
        shapes = [*[t.shape for t in tensors], ()]
        arrays = []
        for n, shape, data in zip(nodes, shapes, raw, strict=False):
            flat = np.frombuffer(data, storage_dtype(n.dtype), math.prod(shape))
            arrays.append(from_storage(flat, n.dtype).reshape(shape))
        if len(nodes) > len(tensors):  # the flag of the checks of the thread that asked
            assert checks is not None  # in a page another one may be told
            checks.look(int(arrays.pop()))
        return arrays


def _free(order: list[Node], over: Mapping[int, Node]) -> tuple[tuple[int, int], ...]:
    """Of the values that are replaced those that nothing but this graph holds: their positions in
    it, after those of the values that replace them."""
    at = {id(n): i for i, n in enumerate(order)} if over else {}
    some = [(new, old) for new, old in over.items() if id(old) in at]
    used = Counter([id(i) for n in order if n.data is None for i in n.inputs]) if some else {}
    olds = [old for _, old in some]
    held, shown = map(sys.getrefcount, olds), map(sys.getrefcount, [n.data for n in olds])
    lists = 4  # `order`, `over`, `some` and `olds`, of which `_ALONE` counts one; a loop's variable
    found = []
    for (new, old), a, b in zip(some, held, shown, strict=True):
        n = order[at[new]]
        alone = a == _ALONE - 1 + lists + used[id(old)] and b == _ALONE + 1
        if alone and (n.shape, n.dtype) == (old.shape, old.dtype):
            found.append((at[new], at[id(old)]))
    return tuple(found)


def _start(index_map: IndexMap, d: dt.dtype) -> int | None:
    """At which byte the elements of a view begin, if they lie beside each other and can be copied
    from there."""
    v = index_map[-1]
    start = v.offset * d.device_itemsize
    beside = is_contiguous((*index_map[:-1], v._replace(offset=0)))
    return start if beside and not start % 4 else None


def _read_bytes(n: Node) -> int:
    return int(-(-np.prod(n.shape, dtype=np.int64) * n.dtype.device_itemsize // 4) * 4)
