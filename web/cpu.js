// Runs an exported program's WebAssembly where there is no WebGPU: what runtime.js is on a GPU, as far as
// player.js asks. Buffers are numbers here too, all in one memory; a run is done when it returns.
// pyframe/web/cpu.py writes the module and says what stands in it.

import { named } from "./runtime.js";

const PAGE = 1 << 16;
const LINE = 64; // bytes to a multiple of which buffers begin
const PARAM = 8; // bytes of a scalar
const [SHARED, TABLE, PARAMS] = [-1, -2, -3]; // what a word counts from, if not from a slot; -4 is none

/** What runs the programs of a module. */
export async function createCpu(code) {
  if (!globalThis.WebAssembly) throw named("NoGPUError", "This browser has neither WebGPU nor WebAssembly.");
  if (!WebAssembly.validate(code)) {
    throw named("NoGPUError", "This browser has neither WebGPU nor SIMD in WebAssembly, one of which this " +
      "program needs: the newest Chrome, Edge, Firefox and Safari have them.");
  }
  const module = await WebAssembly.compile(code).catch((error) => {
    throw named("NoGPUError", "WebAssembly, which this program needs where there is no WebGPU, is refused here; a " +
      `policy of the page must have script-src 'wasm-unsafe-eval': ${error.message}`);
  });
  const memory = new WebAssembly.Memory({ initial: 1 });
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  const [words, tables] = ["words", "tables"].map((name) => WebAssembly.Module.customSections(module, name)[0]);
  return new Cpu(exports.run, memory, new Int32Array(words), new Uint8Array(tables));
}

class Cpu {
  kind = "cpu";
  info = { description: "WebAssembly on 1 core", software: false };
  lost = null; // it never is
  #run;
  #memory;
  #words; // of all launches: pairs of a base and the bytes past it
  #addresses; // where the module reads what these come to
  #tables;
  #end = LINE;
  #free = new Map(); // by size: addresses
  #buffers = new Map(); // by number: { at, size }; a part of one has no size
  #shared = 0; // the buffer of what holds nothing between launches
  #room = 0; // its bytes
  #programs = new Map();
  #next = 1;

  constructor(run, memory, words, tables) {
    [this.#run, this.#memory, this.#words] = [run, memory, words];
    this.#addresses = this.#take(2 * words.length);
    this.#tables = this.#take(tables.length);
    this.#bytes(this.#tables, tables.length).set(tables);
  }

  alloc(nbytes) {
    const size = Math.ceil(nbytes / LINE) * LINE;
    return this.#number({ at: this.#free.get(size)?.pop() ?? this.#take(size), size });
  }

  slice(id, offset) {
    return this.#number({ at: this.#at(id) + offset, size: 0 });
  }

  free(id) {
    const { at, size } = this.#buffers.get(id) ?? {};
    this.#buffers.delete(id);
    if (size) this.#free.set(size, [...this.#free.get(size) ?? [], at]);
  }

  write(id, data) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#bytes(this.#at(id), bytes.length).set(bytes);
  }

  copy(target, source, nbytes) {
    this.#bytes(this.#at(target), nbytes).set(this.#bytes(this.#at(source), nbytes));
  }

  /** The bytes as they are now, after the page has had a turn. */
  async read(ids, sizes) {
    const found = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
    let to = 0;
    ids.forEach((id, i) => {
      found.set(this.#bytes(this.#at(id), sizes[i]), to);
      to += sizes[i];
    });
    await turn();
    return found;
  }

  /** A program: which launches and words it has, what it needs of the shared memory, where its scalars lie. */
  load({ launches, words, shared, params }) {
    if (!this.#shared || shared > this.#room) {
      this.free(this.#shared);
      [this.#shared, this.#room] = [this.alloc(shared), shared];
      for (const program of this.#programs.values()) program.ids = null; // which know the one before
    }
    const program = { launches, words, ids: null, offsets: params, params: this.alloc(PARAM * params.length) };
    this.#programs.set(this.#next, program);
    return this.#next++;
  }

  unload(id) {
    const program = this.#programs.get(id);
    if (program) this.free(program.params);
    this.#programs.delete(id);
  }

  run(id, ids, params) {
    const program = this.#programs.get(id);
    if (program.ids !== ids) this.#bind(program, ids);
    if (params) {
      const { buffer } = this.#memory;
      const from = new DataView(params.buffer, params.byteOffset, params.byteLength);
      const to = new DataView(buffer, this.#at(program.params), PARAM * program.offsets.length);
      program.offsets.forEach((offset, i) => to.setUint32(PARAM * i, from.getUint32(offset)));
    }
    try {
      this.#run(this.#addresses, ...program.launches);
    } catch (error) {
      throw new Error(`A step failed (${error.message}): maybe an index, such as a class, is out of range.`);
    }
  }

  /** Writes down where the words of a program lie. */
  #bind(program, ids) {
    const bases = { [SHARED]: this.#at(this.#shared), [TABLE]: this.#tables, [PARAMS]: this.#at(program.params) };
    const [first, last] = program.words;
    const addresses = new Int32Array(this.#memory.buffer, this.#addresses, this.#words.length / 2);
    for (let k = first; k < last; k++) {
      const [base, more] = this.#words.subarray(2 * k, 2 * k + 2);
      addresses[k] = (base < 0 ? bases[base] ?? 0 : this.#at(ids[base])) + more;
    }
    program.ids = ids;
  }

  #number(buffer) {
    this.#buffers.set(this.#next, buffer);
    return this.#next++;
  }

  #at(id) {
    return this.#buffers.get(id).at;
  }

  #bytes(at, nbytes) { // which memory that grows leaves without
    return new Uint8Array(this.#memory.buffer, at, nbytes);
  }

  /** New memory: its address. */
  #take(nbytes) {
    const at = this.#end;
    const end = at + Math.ceil(nbytes / LINE) * LINE;
    const missing = Math.ceil(end / PAGE) - this.#memory.buffer.byteLength / PAGE;
    try {
      if (missing > 0) this.#memory.grow(missing);
    } catch {
      throw named("OutOfMemoryError", `the browser has no ${nbytes} bytes more for WebAssembly`, nbytes);
    }
    this.#end = end;
    return at;
  }
}

/** Lets the page draw and hear clicks. A timeout would wait for 4 ms. */
function turn() {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      done();
    };
    port2.postMessage(null);
  });
}
