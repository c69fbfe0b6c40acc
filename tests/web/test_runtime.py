"""runtime.js alone: buffers, programs, caches and errors, in a page without Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pyframe as pf
from pyframe.codegen.wgsl import generate
from pyframe.core.limits import Limits
from pyframe.runtime.offline import offline_device
from tests.backend.cases import SCALE
from tests.backend.test_products import VARIANTS, only
from tests.backend.test_wgsl import SMALL_INTS
from tests.nn.test_attention import NAMES

from .conftest import FULL, Tab

# What the snippets of the tests use; `params` packs the struct above.
PRELUDE = """
const { createRuntime } = await import("./runtime.js");
const rt = await createRuntime();
const f32 = (...values) => new Uint8Array(Float32Array.from(values).buffer);
const i32 = (...values) => Int32Array.from(values);
const floats = (bytes) => [...new Float32Array(bytes.buffer)];
const params = (scale, n) => {
  const bytes = new Uint8Array(256);
  new Float32Array(bytes.buffer)[0] = scale;
  new Uint32Array(bytes.buffer)[1] = n;
  return bytes;
};
const caught = async (run, what = "message") => {
  try { await run(); } catch (error) { return error[what]; }
};
const buffer = (...values) => {
  const id = rt.alloc(4 * values.length);
  rt.write(id, f32(...values));
  return id;
};
const step = (from, to) => [0, 1, 1, 1, 0, 8, 2, from, to];
const program = () => rt.load([SCALE], ["scale"], i32(...step(0, 1)), 2, 256);
const wrong = () => {
  const code = "@compute @workgroup_size(1) fn main() {\\n  let a: f32 = 1u;\\n}";
  return rt.load([code], ["half a kernel"], i32(0, 1, 1, 1, -1, 0, 0), 0, 0);
};
const slow = () => {  // from now on pipelines are there when `open` was called
  const { createComputePipelineAsync } = GPUDevice.prototype;
  let open;
  const opened = new Promise((done) => { open = done; });
  GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
    const made = createComputePipelineAsync.call(this, descriptor);
    await opened;
    return made;
  };
  return open;
};
"""


Snippets = Callable[[str], Any]


@pytest.fixture(scope="module")
def blank(visited: Any, server: Any) -> Iterator[Tab]:
    """One page for all tests: each goes to it anew."""
    tab = Tab(visited, server)
    yield tab
    tab.close()


@pytest.fixture
def js(blank: Tab) -> Iterator[Snippets]:
    """Runs JavaScript with a fresh runtime `rt` and the helpers of PRELUDE."""
    page = blank.open("blank")
    yield lambda body: page.evaluate(
        f"async (SCALE) => {{ {PRELUDE} try {{ {body} }} finally {{ rt?.destroy(); }} }}", SCALE
    )
    assert blank.errors == []


class Says:
    """Equal to all texts in which a pattern is found."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __eq__(self, text: object) -> bool:
        return isinstance(text, str) and re.search(self.pattern, text, re.DOTALL) is not None

    def __repr__(self) -> str:
        return f"Says({self.pattern!r})"


GONE = "buffer {} does not exist, or was freed"
FILLED = ["OutOfMemoryError", "no memory for a buffer of 400 bytes"]

# What JavaScript gives, one case after the other.
GIVEN: dict[str, tuple[str, Any]] = {
    "one read gives several buffers of any size": ("""
        const [a, b] = [rt.alloc(7), rt.alloc(4)];
        rt.write(a, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
        rt.write(b, Uint8Array.of(9, 10, 11, 12));
        return [[...await rt.read(i32(a, b, a), i32(6, 4, 1))], rt.stats().reads];
        """, [[1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 1], 1]),
    "a second run builds nothing and uploads only new params": ("""
        const ids = i32(buffer(1, 2), rt.alloc(8));
        const scale = program();
        const seen = [];
        for (const factor of [3, 3, 4]) {
          rt.run(scale, ids, params(factor, 2));
          const { bind_groups, pipelines, buffers, params_uploads } = rt.stats();
          const y = floats(await rt.read(ids.slice(1), i32(8)));
          seen.push({ bind_groups, pipelines, buffers, params_uploads, y });
        }
        return seen;
        """, [
            {"bind_groups": 1, "pipelines": 1, "buffers": 2, "params_uploads": uploads, "y": y}
            for uploads, y in ((1, [3.0, 6.0]), (1, [3.0, 6.0]), (2, [4.0, 8.0]))
        ]),
    "workgroups may be others than at first": ("""
        const ids = i32(buffer(...Array(200).fill(1)), buffer(...Array(200).fill(0)));
        const scale = program();
        const seen = [];
        for (const grids of [null, i32(0, 1, 1), null, i32(4, 1, 1)]) {
          rt.write(ids[1], new Float32Array(200));
          rt.run(scale, ids, params(2, 200), grids);
          seen.push(floats(await rt.read(ids.slice(1), i32(800))).reduce((a, b) => a + b));
        }
        return [...seen, rt.stats().bind_groups];
        """, [128.0, 0, 0, 400.0, 1]),
    # The 17th set pushes out the one that was used least recently
    "a step keeps a few bind groups": ("""
        const scale = program();
        const sets = Array.from({ length: 17 }, () => i32(buffer(1), rt.alloc(4)));
        const use = (set) => { rt.run(scale, set, params(2, 1)); return rt.stats().bind_groups; };
        const first = sets.slice(0, 16).map(use).at(-1);
        return [first, ...[0, 16, 0, 1].map((i) => use(sets[i]))];
        """, [16, 16, 17, 17, 18]),
    # Each step is -x, by one of two pipelines; each read is a submit more
    "a long run is a few submits": ("""
        const step = (_, i) => [i % 3 % 2, 1, 1, 1, 0, 8, 2, i % 2, 1 - i % 2];
        const seen = [];
        for (const n of [32, 33, 200, 1000]) {
          const steps = Array.from({ length: n }, step);
          const codes = [SCALE, SCALE + "// another"];
          const long = rt.load(codes, ["one", "two"], i32(...steps.flat()), 2, 256);
          const ids = i32(buffer(3), buffer(0));
          const [built, given] = rt.run(long, ids, params(-1, 1));
          seen.push([built, given, ...floats(await rt.read(i32(ids[n % 2]), i32(4)))]);
        }
        const { dispatches, submits } = rt.stats();
        return [...seen, dispatches, submits];
        """, [[32, 1, 3], [33, 4, -3], [200, 6, 3], [1000, 8, 3], 1265, 23]),
    "only the steps of a changed slot get new bind groups": ("""
        const steps = i32(...step(0, 1), ...step(1, 2), ...step(2, 3));
        const chain = rt.load([SCALE], ["scale"], steps, 4, 256);
        const first = i32(buffer(1), rt.alloc(4), rt.alloc(4), rt.alloc(4));
        const other = i32(buffer(10), ...first.slice(1));  // the first step's
        const last = i32(...first.slice(0, 3), rt.alloc(4));  // the third one's
        const seen = [];
        for (const ids of [first, other, first, last, other]) {
          const [built, submits] = rt.run(chain, ids, params(2, 1));
          seen.push([built, submits, ...floats(await rt.read(ids.slice(3), i32(4)))]);
        }
        return seen;
        """, [[3, 1, 8], [1, 1, 80], [0, 1, 8], [1, 1, 8], [0, 1, 80]]),
    # Two parts of one buffer are the sources of two steps, a part of a part is a target
    "parts of a buffer stand where buffers do": ("""
        const [whole, target] = [rt.alloc(1024), rt.alloc(1024)];
        const [a, b] = [rt.slice(whole, 256, 256), rt.slice(whole, 512, 512)];
        const c = rt.slice(rt.slice(target, 256, 768), 256, 6);  // 8 bytes
        const d = rt.alloc(8);
        rt.write(a, f32(1, 2));
        rt.write(b, f32(10, 20));
        const two = rt.load([SCALE], ["scale"], i32(...step(0, 2), ...step(1, 3)), 4, 256);
        rt.run(two, i32(a, b, c, d), params(2, 2));
        const all = floats(await rt.read(i32(c, d, target, whole), i32(8, 8, 1024, 1024)));
        return [all.slice(0, 2), all.slice(2, 4), all.slice(130, 136), all.slice(323, 327)];
        """, [[2, 4], [20, 40], [0, 0, 2, 4, 0, 0], [0, 1, 2, 0]]),
    "the end of a part does not end its buffer": ("""
        const whole = rt.alloc(512);
        const [part, other] = [rt.slice(whole, 256, 256), rt.slice(whole, 0, 256)];
        rt.write(part, f32(5));
        rt.free(part);
        const seen = [
          await caught(() => rt.read(i32(part), i32(4))),
          await caught(() => rt.slice(other, 0, 260)),
          await caught(() => rt.write(other, new Uint8Array(260))),
          floats(await rt.read(i32(whole), i32(260))).at(-1),
        ];
        rt.free(whole);
        seen.push(await caught(() => rt.read(i32(other), i32(4))));
        rt.free(other);  // in either order
        return [...seen, rt.stats().buffers, rt.stats().bytes];
        """, [
            GONE.format(2), *["buffer 3 has 256 bytes, fewer than 260"] * 2, 5, GONE.format(3),
            0, 0,
        ]),
    # y is copied before a second run changes it; then within one buffer
    "copies are in order with the runs": ("""
        const [x, y, z] = [buffer(1, 2), rt.alloc(8), rt.alloc(512)];
        const scale = program();
        rt.run(scale, i32(x, y), params(3, 2));
        rt.copy(z, y, 8);
        rt.run(scale, i32(x, y), params(5, 2));
        const upper = rt.slice(z, 256, 256);
        rt.copy(upper, z, 8);
        rt.write(z, f32(0, 0));
        return floats(await rt.read(i32(y, upper, z), i32(8, 8, 8)));
        """, [5, 10, 3, 6, 0, 0]),
    "an unloaded program is gone and its buffers stay": ("""
        const [x, y] = [buffer(1), rt.alloc(4)];
        const [gone, kept] = [program(), program()];
        for (const id of [gone, kept]) rt.run(id, i32(x, y), params(2, 1));
        rt.unload(gone);
        rt.unload(gone);
        const error = await caught(() => rt.run(gone, i32(x, y), null));
        const [built] = rt.run(kept, i32(x, y), params(4, 1));
        rt.free(x);
        const freed = await caught(() => rt.run(kept, i32(x, y), null));
        const { programs, bytes } = rt.stats();
        return [error, built, freed, programs, bytes, floats(await rt.read(i32(y), i32(4)))];
        """, ["run: program 3 is not loaded", 0, GONE.format(1), 1, 4, [4]]),
    # It knows nothing of the buffers before, and says so; no number is used twice
    "another device takes the place of a lost one": ("""
        const x = buffer(1);
        rt.destroy();
        await caught(() => rt.read(i32(x), i32(4)));
        const [next, same] = await Promise.all([rt.reopen(), rt.reopen()]);
        const y = next.alloc(4);
        next.write(y, f32(5));
        const stale = await caught(() => next.read(i32(x), i32(4)), "name");
        const read = floats(await next.read(i32(y), i32(4)));
        const limits = JSON.stringify(rt.limits) === JSON.stringify(next.limits);
        next.destroy();
        return [next === same && next === rt.next && next !== rt, y > x, stale, read, limits];
        """, [True, True, "DeviceLostError", [5.0], True]),
    "a browser that gives no gpu any more": ("""
        rt.destroy();
        const { requestAdapter } = GPU.prototype;
        GPU.prototype.requestAdapter = async () => null;
        try {
          return [await rt.reopen(), rt.next];
        } finally {
          GPU.prototype.requestAdapter = requestAdapter;
        }
        """, [None, None]),
    # The browser tells it later: the next read does, and the buffer can only be freed then
    "no memory left": (FULL + """
        const x = buffer(3);
        const scale = program();
        fill();
        const y = rt.alloc(400);
        const part = rt.slice(y, 256, 4);
        for (const id of [y, part]) rt.run(scale, i32(x, id), params(2, 1));
        const all = [];
        const kinds = async (use) => {
          try { await use(); } catch ({ name, message }) { return [name, message]; }
        };
        all.push(await kinds(() => rt.read(i32(x), i32(4))), rt.failed());
        all.push(floats(await rt.read(i32(x), i32(4))));
        all.push(await kinds(() => rt.run(scale, i32(x, y), params(2, 1))));
        all.push(await kinds(() => rt.read(i32(part), i32(4))));
        rt.free(y);
        all.push(rt.failed());
        const z = rt.alloc(4);
        rt.run(scale, i32(x, z), params(2, 1));
        fill();
        rt.free(rt.alloc(8));  // before it is known
        all.push(await caught(() => rt.read(i32(z), i32(4))));
        all.push(floats(await rt.read(i32(z), i32(4))));
        return [...all, rt.failed()];
        """, [FILLED, [3], [3], FILLED, FILLED, [], "no memory for a buffer of 8 bytes", [6], []]),
    # And what is under way is told: a page can show it
    "the pipelines of a program are made at once": ("""
        const { createComputePipelineAsync } = GPUDevice.prototype;
        const open = slow();
        const told = [];
        rt.oncompile = ({ done, total }) => told.push([done, total]);
        const codes = [SCALE, SCALE + "// 2", "", SCALE + "// 3", SCALE];
        const step = (kernel, from, to) => [kernel, 1, 1, 1, 0, 8, 2, from, to];
        const steps = [step(0, 0, 1), step(1, 1, 2), step(3, 2, 3), step(4, 3, 4)];
        const chain = rt.load(codes, ["a", "b", "", "c", "d"], i32(...steps.flat()), 5, 256);
        const ids = i32(buffer(1), ...[1, 2, 3, 4].map(() => rt.alloc(4)));
        rt.run(chain, ids, params(2, 1));
        const { compiled } = rt.stats();
        open();
        const values = floats(await rt.read(ids, i32(4, 4, 4, 4, 4)));
        rt.load([SCALE + "// 4"], ["e"], i32(), 0, 0);
        await rt.read(ids, i32(0, 0, 0, 0, 0));
        return { compiled, values, told };
        """, {
            "compiled": 3, "values": [1, 2, 4, 8, 16],
            "told": [[0, 3], [1, 3], [2, 3], [3, 3], [0, 1], [1, 1]],
        }),
    # Nothing goes to the device before; then all is as if the pipelines had been there
    "work waits for its pipelines in order": ("""
        const open = slow();
        const { submit } = GPUQueue.prototype;
        let submitted = 0;
        GPUQueue.prototype.submit = function (list) {
          submitted += list.length;
          return submit.call(this, list);
        };
        const [x, y, z, kept] = [buffer(1, 2), rt.alloc(8), rt.alloc(8), rt.alloc(8)];
        const scale = program();
        const given = [rt.run(scale, i32(x, y), params(3, 2)), rt.run(scale, i32(x, y), null)];
        rt.copy(kept, y, 8);
        const data = f32(10, 20);
        rt.write(x, data);
        data.fill(0);
        const early = rt.read(i32(y, kept), i32(8, 8));
        given.push(rt.run(scale, i32(x, z), params(5, 2)));
        rt.free(x);
        rt.unload(scale);
        const error = await caught(() => rt.write(x, data));
        const late = rt.read(i32(y, z), i32(8, 8));
        const { bytes, ...first } = rt.stats();
        const counted = ({ dispatches, submits, bind_groups, compiled, reads, buffers }) =>
          [dispatches, submits, bind_groups, compiled, reads, buffers];
        const before = submitted;
        open();
        const values = [floats(await early), floats(await late)];
        const between = submitted;
        rt.run(program(), i32(y, z), params(2, 2));
        const counts = [counted(first), bytes, counted(rt.stats()), before, between];
        return [given, error, counts, ...values, floats(await rt.read(i32(z), i32(8)))];
        """, [
            [[1, 1], [0, 1], [1, 1]], GONE.format(1),
            [[3, 6, 2, 1, 2, 3], 24, [4, 7, 3, 1, 2, 3], 0, 6],
            [3, 6, 3, 6], [3, 6, 50, 100], [6, 12],
        ]),
    # Code that never lets go of the thread would fill the memory with what waits
    "what waits has a bound": ("""
        const seen = [];
        let writes = 0;
        for (const [proto, name] of [
          [GPUDevice.prototype, "createComputePipeline"], [GPUQueue.prototype, "submit"],
        ]) {
          const method = proto[name];
          proto[name] = function (...args) {
            seen.push([name, writes]);
            return method.apply(this, args);
          };
        }
        const open = slow();
        const [x, y, large] = [buffer(3), rt.alloc(4), rt.alloc(1 << 24)];
        const found = [];
        for (const data of [new Uint8Array(4), new Uint8Array(1 << 24)]) {
          seen.length = writes = 0;
          const code = `${SCALE}// ${data.length}`;
          const scale = rt.load([code], ["scale"], i32(...step(0, 1)), 2, 256);
          rt.run(scale, i32(x, y), params(2, 1));
          while (!seen.length) {
            writes += 1;
            rt.write(large, data);
          }
          found.push(seen.slice(0, 2));
        }
        rt.write(x, f32(0));
        open();
        return [...found, floats(await rt.read(i32(y, x), i32(4, 4)))];
        """, [*[[["createComputePipeline", at], ["submit", at]] for at in (4095, 4)], [6, 0]]),
    "a device is lost while work waits": ("""
        slow();
        const [x, y] = [buffer(1), rt.alloc(4)];
        const scale = program();
        rt.run(scale, i32(x, y), params(2, 1));
        const reads = [rt.read(i32(y), i32(4)), rt.read(i32(x), i32(4))];
        rt.destroy();
        const seen = [];
        for (const read of reads) seen.push(await caught(() => read, "name"));
        seen.push(await caught(() => rt.run(scale, i32(x, y), null), "name"));
        rt.oncompile = () => {};
        const next = await rt.reopen();
        const same = next.oncompile === rt.oncompile;
        next.destroy();
        return [...seen, same];
        """, [*["DeviceLostError"] * 3, True]),
    # One buffer can't be read and written in one step
    "invalid work is reported by the next read only": ("""
        const x = buffer(1);
        rt.run(program(), i32(x, x), params(2, 1));
        const read = () => rt.read(i32(x), i32(4));
        return [await caught(read), floats(await read())];
        """, [Says("scale.*usage|usage.*scale"), [1.0]]),
    "too few buffers and too large ones": ("""
        const scale = program();
        return [
          await caught(() => rt.run(scale, i32(rt.alloc(4)), params(1, 1))),
          await caught(() => rt.run(99, i32(), null)),
          await caught(() => rt.alloc(2 ** 50)),
        ];
        """, [
            "run: the program has 2 slots, and 1 buffers were given",
            "run: program 99 is not loaded",
            Says("a buffer of 1125899906842624 bytes is over the device's"),
        ]),
    "the device asks for all that its adapter has": ("""
        const powerPreference = "high-performance";
        const { limits } = await navigator.gpu.requestAdapter({ powerPreference });
        const offered = Object.keys(rt.limits).map((name) => limits[name]);
        const same = String(Object.values(rt.limits)) === String(offered);
        return [same, rt.limits.maxStorageBufferBindingSize > 0, typeof rt.info.software];
        """, [True, True, "boolean"]),
    # A read finds out; from then on every call throws, as the device would take all work
    "a lost device says so": ("""
        const [x, y] = [buffer(1), rt.alloc(4)];
        const scale = program();
        rt.run(scale, i32(x, y), params(2, 1));
        rt.destroy();
        const seen = [await caught(() => rt.read(i32(x), i32(4)))];
        for (const use of [
          () => rt.read(i32(x), i32(4)), () => rt.run(scale, i32(x, y), null), () => rt.alloc(4),
          () => rt.write(x, f32(1)), () => rt.copy(x, y, 4),
          () => rt.load([SCALE + "//"], ["new"], i32(), 0, 0),
        ]) seen.push(await caught(use, "name"));
        rt.free(x);
        const [first, ...later] = seen;
        return [first === `the GPU device was lost: ${rt.lost}`, ...later];
        """, [True, *["DeviceLostError"] * 6]),
    # A program then finds them, and waits for nothing
    "pipelines can be made before they are asked for": ("""
        program();
        rt.load(["not WGSL"], ["bad"], i32(), 0, 0);
        const known = rt.codes();
        const next = await createRuntime();
        const bad = { codes: [...known.codes, "let x"], labels: [...known.labels, "worse"] };
        await next.compile(bad.codes, bad.labels);
        const [x, y] = [next.alloc(4), next.alloc(4)];
        next.write(x, f32(3));
        await next.read(i32(x), i32(4));  // tells no error of what nobody uses
        const unused = next.codes();
        const open = slow();
        const scale = next.load([SCALE], ["scale"], i32(0, 1, 1, 1, 0, 8, 2, 0, 1), 2, 256);
        next.run(scale, i32(x, y), params(2, 1));
        const value = floats(await next.read(i32(y), i32(4)));
        const { compiled, pipelines } = next.stats();
        const used = next.codes();
        open();
        next.load(["let x"], ["worse"], i32(), 0, 0);
        const error = await caught(() => next.read(i32(y), i32(4)));
        next.destroy();
        await caught(() => next.read(i32(y), i32(4)));
        await next.compile([SCALE + "// new"], ["new"]);  // of a lost device: nothing
        return [known.labels, unused, used.labels, value, compiled, pipelines, error];
        """, [
            ["scale", "bad"],  # of which nothing is known so soon
            {"codes": [], "labels": []}, ["scale"], [6], 3, 1, Says("^WGSL kernel 'worse': "),
        ]),
    # The next read tells; what stands in the queue behind it is done
    "a shader that turns out wrong while work waits": ("""
        const open = slow();
        const [x, y] = [buffer(1), buffer(7)];
        const bad = wrong();
        rt.run(bad, i32(), null);
        const timed = rt.features.includes("timestamp-query") ? rt.profile(bad, i32(), null) : null;
        rt.copy(y, x, 4);
        open();
        const read = await caught(() => timed ?? rt.read(i32(y), i32(4)));
        const run = await caught(() => rt.run(bad, i32(), null));
        return [read, run === read, floats(await rt.read(i32(y), i32(4)))];
        """, [Says("WGSL kernel 'half a kernel': 2:.*let a: f32 = 1u;"), True, [1]]),
    # test_lost_in_page.py has what takes the place of a refused one, and what is lost with it
    "too much waits to put another text in a place": ("""
        const y = buffer(7);
        const bad = rt.load(["let x"], ["bad"], i32(0, 1, 1, 1, -1, 0, 0), 0, 0, true);
        for (let i = 0; i < 4100; i++) rt.run(bad, i32(), null);
        const read = await caught(() => rt.read(i32(y), i32(4)));
        return [read, await caught(() => rt.read(i32(y), i32(4)), "length")];
        """, [Says("^WGSL kernel 'bad': .*; too much waits"), None]),
    "a browser without asynchronous pipelines": ("""
        delete GPUDevice.prototype.createComputePipelineAsync;
        const told = [];
        rt.oncompile = ({ done, total }) => told.push([done, total]);
        const [x, y] = [buffer(1, 2), rt.alloc(8)];
        rt.run(program(), i32(x, y), params(2, 2));
        const y2 = floats(await rt.read(i32(y), i32(8)));
        const bad = rt.load(["let x"], ["bad"], i32(0, 1, 1, 1, -1, 0, 0), 0, 0);
        const read = await caught(() => rt.read(i32(y), i32(8)));
        return [y2, told, read, read === await caught(() => rt.run(bad, i32(), null))];
        """, [[2, 4], [[0, 1], [1, 1], [0, 1], [1, 1]], Says("^WGSL kernel 'bad': "), True]),
}  # fmt: skip


@pytest.mark.parametrize("case", GIVEN)
def test_what_is_given(js: Snippets, case: str) -> None:
    body, expected = GIVEN[case]
    assert js(body) == expected


def texts(run: Any, device: pf.device) -> set[str]:
    """Of the kernels of a compiled function."""
    limits = device.backend.limits
    return {generate(k, limits).code for p in run.programs for k in p.kernels}


def test_texts_of_variants(js: Snippets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tint takes those of products, of attention, forward and backward, and of reductions by
    subgroups; software adapters get none of them. Natively they compute."""
    codes: set[str] = set()
    ops = "attention", "attention_grad"
    for name in NAMES:
        refused = frozenset((op, other) for op in ops for other in NAMES if other != name)
        with offline_device(Limits(refused=refused, subgroups=True)) as device:
            q = pf.zeros(1, 2, 70, 20, device=device, requires_grad=True)

            @pf.compile
            def step(q: pf.Tensor) -> pf.Tensor:
                y = pf.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
                return pf.autograd.grad(y.softmax(-1).square().sum(), q)[0]

            step(q)
            codes |= texts(step, device)
    for v in VARIANTS.values():
        only(monkeypatch, v)
        with offline_device(Limits(subgroups=True)) as device:
            product = pf.compile(lambda x, y: pf.relu(x @ y.T))
            product(pf.zeros(9, 70, device=device), pf.zeros(12, 70, device=device))
            codes |= texts(product, device)
    generate.cache_clear()
    assert len(codes) >= 2 * 4 + len(VARIANTS)
    assert any("subgroup" in code for code in codes)
    assert told(js, codes) == []


def told(js: Snippets, codes: set[str]) -> list[str]:
    """What Tint says of texts."""
    found: list[str] = js(
        f"const codes = {json.dumps(sorted(codes))};"
        """
        const adapter = await navigator.gpu.requestAdapter();
        const device = await adapter.requestDevice({ requiredFeatures: ["subgroups"] });
        const told = codes.map(async (code) => {
          const head = code.includes("subgroup") ? "enable subgroups;\\n" : "";
          const module = device.createShaderModule({ code: head + code });
          return (await module.getCompilationInfo()).messages.map(({ message }) => message);
        });
        return (await Promise.all(told)).flat();
        """
    )
    return found


@pytest.mark.parametrize(("third", "d"), [*enumerate([pf.bfloat16, pf.int8, pf.bool])])
def test_texts_of_whole_words(
    js: Snippets, monkeypatch: pytest.MonkeyPatch, third: int, d: pf.dtype
) -> None:
    """Tint takes those that write such of results, of elements, of rows and of products."""
    codes: set[str] = set()

    def add(*names: str) -> None:
        for shape in ((9, 68), (66, 33)):
            with offline_device(Limits(subgroups=True)) as device:
                x, y = pf.zeros(*shape, device=device), pf.zeros(*shape, device=device)
                for name in names:
                    step: Any = pf.compile(lambda x, y, name=name: SMALL_INTS[name](x, y, d))
                    step(x, y)
                    codes.update(texts(step, device))

    add(*SMALL_INTS)
    for v in [*VARIANTS.values()][third::3]:
        only(monkeypatch, v)
        add("products", "a row")
    generate.cache_clear()
    whole = [c for c in codes if "<private> word" in c or "<workgroup> word" in c]
    assert len(whole) >= 20
    assert told(js, codes) == []


TIMES: dict[str, tuple[str, int, Any]] = {
    "a profile has that of each step": ("""
        const twice = rt.load([SCALE], ["scale"], i32(...step(0, 1), ...step(1, 2)), 3, 256);
        const ids = i32(buffer(2), rt.alloc(4), rt.alloc(4));
        const times = await rt.profile(twice, ids, params(3, 1));
        const z = floats(await rt.read(ids.slice(2), i32(4)));
        const { buffers } = rt.stats();
        rt.features = [];
        return { times, seen: [z, buffers, await rt.profile(twice, ids, null)] };
        """, 2, [[18], 3, None]),
    "marks have that of their place in the work": ("""
        const ids = i32(buffer(2), rt.alloc(4)), marks = i32(rt.alloc(8), rt.alloc(8));
        rt.mark(marks[0]); // waits in order: the pipeline is still made
        rt.run(program(), ids, params(3, 1));
        rt.mark(marks[1]);
        const [from, to] = new BigInt64Array((await rt.read(marks, i32(8, 8))).buffer);
        return { times: [Number(to - from)], seen: floats(await rt.read(ids.slice(1), i32(4))) };
        """, 1, [6]),
    "a profile waits for its pipelines": ("""
        const open = slow();
        const [x, y] = [buffer(4), rt.alloc(4)];
        const times = rt.profile(program(), i32(x, y), params(2, 1));
        rt.write(x, f32(0));
        open();
        return { times: await times, seen: floats(await rt.read(i32(y), i32(4))) };
        """, 1, [8]),
}  # fmt: skip


@pytest.mark.parametrize("case", TIMES)
def test_times(js: Snippets, case: str) -> None:
    """Browsers round them, so that a short step may take none."""
    body, many, seen = TIMES[case]
    out = js(f'if (!rt.features.includes("timestamp-query")) return null; {body}')
    if out is None:
        pytest.skip("this adapter has no timestamp-query")
    assert out["seen"] == seen
    assert len(out["times"]) == many
    assert all(0 <= t < 10**11 for t in out["times"])


def test_without_webgpu_there_is_no_runtime(js: Snippets, blank: Tab) -> None:
    blank.page.evaluate("() => Object.defineProperty(navigator, 'gpu', { value: undefined })")
    assert js("return rt;") is None
