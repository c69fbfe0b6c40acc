// Runs an exported program's WebAssembly where there is no WebGPU: what runtime.js is on a GPU, as far as
// player.js asks. Buffers are numbers here too. A worker does what is asked, one after the other, so that the
// page stays free. pyframe/web/cpu.py writes the module and says what stands in it.

import { named } from "./runtime.js";

const PAGE = 1 << 16;
const LINE = 64; // bytes to a multiple of which buffers begin
const PARAM = 8; // bytes of a scalar
const [SHARED, TABLE, PARAMS] = [-1, -2, -3]; // what a word counts from, if not from a slot; -4 is none
const WORKER = "pyframe-cpu"; // its name

/** What runs the programs of a module. */
export async function createCpu(code) {
  if (!globalThis.WebAssembly) throw named("NoGPUError", "This browser has neither WebGPU nor WebAssembly.");
  if (!WebAssembly.validate(code)) {
    throw named("NoGPUError", "This browser has neither WebGPU nor SIMD in WebAssembly, one of which this " +
      "program needs: the newest Chrome, Edge, Firefox and Safari have them.");
  }
  try {
    return await begun(worker(), code);
  } catch (error) {
    if (error.name !== "WorkerError") throw error;
    return begun(inPage(), code);
  }
}

async function begun(port, code) {
  const made = new Cpu(port);
  try {
    await made.begin(code);
    return made;
  } catch (error) {
    made.close();
    throw error;
  }
}

function worker() {
  try {
    if (import.meta.url === document.baseURI) throw new Error("a page in one file has no cpu.js");
    return new Worker(new URL("./cpu.js", import.meta.url), { type: "module", name: WORKER });
  } catch ({ message }) { // from another site, for one
    throw named("WorkerError", message);
  }
}

/** In the place of a worker: the page does what is asked, with a turn for itself in between. */
function inPage() {
  const { port1, port2 } = new MessageChannel();
  serve(port2);
  return port1;
}

class Cpu {
  kind = "cpu";
  info = { description: "WebAssembly on 1 core", software: false };
  lost = null; // it never is
  #port;
  #next = 1; // number, of anything
  #asked = new Map(); // by number: what an answer settles
  #dead = null; // why its worker ended
  #ids = new Map(); // by program: its buffers, as they were last told

  constructor(port) {
    this.#port = port;
    port.onmessage = ({ data: [number, failed, result] }) => {
      const { resolve, reject } = this.#asked.get(number);
      this.#asked.delete(number);
      if (failed) reject(named(failed.name, failed.message, failed.bytes));
      else resolve(result);
    };
    port.onerror = (event) => { // its script can't be had, or a policy forbids it
      event.preventDefault();
      this.#dead = named("WorkerError", event.message ?? "cpu.js can't be run as a worker");
      for (const { reject } of this.#asked.values()) reject(this.#dead);
      this.#asked.clear();
    };
  }

  begin(code) { return this.#ask("begin", code); }

  alloc(nbytes) { return this.#make("alloc", nbytes); }

  slice(id, offset) { return this.#make("slice", id, offset); }

  load(about) { return this.#make("load", about); }

  free(id) { this.#port.postMessage(["free", id]); }

  write(id, data) { // a part of a file would take the whole file along
    const own = data.byteLength < data.buffer.byteLength ? data.slice() : null;
    this.#port.postMessage(["write", id, own ?? data], own ? [own.buffer] : []);
  }

  copy(target, source, nbytes) { this.#port.postMessage(["copy", target, source, nbytes]); }

  run(id, ids, params) {
    this.#port.postMessage(["run", id, this.#ids.get(id) === ids ? null : ids, params]);
    this.#ids.set(id, ids);
  }

  unload(id) {
    this.#ids.delete(id);
    this.#port.postMessage(["unload", id]);
  }

  /** The bytes after all that was asked so far; throws what has failed of it. */
  read(ids, sizes) { return this.#ask("read", ids, sizes); }

  /** Ends it, after all that was asked. */
  close() { this.#port.postMessage(["close"]); }

  #make(...words) {
    const [command, ...rest] = words;
    this.#port.postMessage([command, this.#next, ...rest]);
    return this.#next++;
  }

  #ask(...words) {
    if (this.#dead) return Promise.reject(this.#dead);
    const found = Promise.withResolvers();
    this.#asked.set(this.#make(...words), found);
    return found.promise;
  }
}

// --- in the worker

function serve(port) {
  let machine = null;
  let failed = null; // the first thing that went wrong since the last answer
  port.onmessage = async ({ data: [command, ...words] }) => {
    let result = null;
    if (command === "close") return port.close();
    try {
      if (command === "begin") machine = await machineOf(words[1]);
      else result = machine[command](...words);
    } catch ({ name, message, bytes }) {
      failed ??= { name, message, bytes };
    }
    if (command !== "begin" && command !== "read") return;
    port.postMessage([words[0], failed, result]);
    failed = null;
  };
}

if (globalThis.name === WORKER && globalThis.WorkerGlobalScope) serve(globalThis);

async function machineOf(code) {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const made = WebAssembly.instantiate(code, { env: { memory } }); // WebKit compiles whatever a policy says
  const { module, instance: { exports } } = await made.catch((error) => {
    throw named("NoGPUError", "WebAssembly, which this program needs where there is no WebGPU, is refused here; a " +
      `policy of the page must have script-src 'wasm-unsafe-eval': ${error.message}`);
  });
  const [words, tables] = ["words", "tables"].map((name) => WebAssembly.Module.customSections(module, name)[0]);
  return new Machine(exports.run, memory, new Int32Array(words), new Uint8Array(tables));
}

/** Buffers in one memory, and programs that work on them; their numbers are given. */
class Machine {
  #run;
  #memory;
  #words; // of all launches: pairs of a base and the bytes past it
  #addresses; // where the module reads what these come to
  #tables;
  #end = LINE;
  #free = new Map(); // by size: addresses
  #buffers = new Map(); // by number: { at, size }; a part of one has no size
  #shared = { at: 0, size: 0 }; // what holds nothing between launches
  #programs = new Map();

  constructor(run, memory, words, tables) {
    [this.#run, this.#memory, this.#words] = [run, memory, words];
    this.#addresses = this.#take(2 * words.length).at;
    this.#tables = this.#take(tables.length).at;
    this.#bytes(this.#tables, tables.length).set(tables);
  }

  alloc(id, nbytes) {
    this.#buffers.set(id, this.#take(nbytes));
  }

  slice(id, whole, offset) {
    this.#buffers.set(id, { at: this.#at(whole) + offset, size: 0 });
  }

  free(id) {
    const buffer = this.#buffers.get(id);
    this.#buffers.delete(id);
    if (buffer) this.#give(buffer);
  }

  write(id, data) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#bytes(this.#at(id), bytes.length).set(bytes);
  }

  copy(target, source, nbytes) {
    this.#bytes(this.#at(target), nbytes).set(this.#bytes(this.#at(source), nbytes));
  }

  read(_, ids, sizes) {
    const found = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
    let to = 0;
    ids.forEach((id, i) => {
      found.set(this.#bytes(this.#at(id), sizes[i]), to);
      to += sizes[i];
    });
    return found;
  }

  /** A program: which launches and words it has, what it needs of the shared memory, where its scalars lie. */
  load(id, { launches, words, shared, params }) {
    if (shared > this.#shared.size) {
      this.#give(this.#shared);
      this.#shared = this.#take(shared);
      for (const program of this.#programs.values()) program.bound = false; // it knows the one before
    }
    const own = this.#take(PARAM * params.length);
    const offsets = params.map(([offset]) => offset);
    this.#programs.set(id, { launches, words, offsets, own, ids: null, bound: false });
  }

  unload(id) {
    const program = this.#programs.get(id);
    this.#programs.delete(id);
    if (program) this.#give(program.own);
  }

  run(id, ids, params) {
    const program = this.#programs.get(id);
    if (ids || !program.bound) this.#bind(program, ids ?? program.ids);
    const { launches, offsets, own } = program;
    if (params) {
      const from = new DataView(params.buffer, params.byteOffset, params.byteLength);
      const to = new DataView(this.#memory.buffer, own.at, PARAM * offsets.length);
      offsets.forEach((offset, i) => to.setUint32(PARAM * i, from.getUint32(offset)));
    }
    try {
      this.#run(this.#addresses, ...launches);
    } catch (error) {
      throw new Error(`A step failed (${error.message}): maybe an index, such as a class, is out of range.`);
    }
  }

  /** Writes down where the words of a program lie. */
  #bind(program, ids) {
    const bases = { [SHARED]: this.#shared.at, [TABLE]: this.#tables, [PARAMS]: program.own.at };
    const [first, last] = program.words;
    const addresses = new Int32Array(this.#memory.buffer, this.#addresses, this.#words.length / 2);
    for (let k = first; k < last; k++) {
      const [base, more] = this.#words.subarray(2 * k, 2 * k + 2);
      addresses[k] = (base < 0 ? bases[base] ?? 0 : this.#at(ids[base])) + more;
    }
    [program.ids, program.bound] = [ids, true];
  }

  #at(id) {
    return this.#buffers.get(id).at;
  }

  #bytes(at, nbytes) { // memory that grows takes the arrays on it along
    return new Uint8Array(this.#memory.buffer, at, nbytes);
  }

  #give({ at, size }) {
    if (size) this.#free.set(size, [...this.#free.get(size) ?? [], at]);
  }

  /** Memory: { at, size }. */
  #take(nbytes) {
    const size = Math.ceil(nbytes / LINE) * LINE;
    const kept = this.#free.get(size)?.pop();
    if (kept !== undefined) return { at: kept, size };
    const at = this.#end;
    const missing = Math.ceil((at + size) / PAGE) - this.#memory.buffer.byteLength / PAGE;
    try {
      if (missing > 0) this.#memory.grow(missing);
    } catch {
      throw named("OutOfMemoryError", `the browser has no ${nbytes} bytes more for WebAssembly`, nbytes);
    }
    this.#end += size;
    return { at, size };
  }
}
