// Plays programs that pyframe exported: a page trains and predicts with no Python. Needs runtime.js.
//
//   const player = await Player.open("digits/");             // a folder that pf.web.export wrote
//   player.run("predict.1", pixels);                         // a Float32Array
//   const { y } = await player.results("predict.1");         // { data, shape }
//
// `open`, below, is the engine that <py-frame program="…"> drives: it trains on data, with events.

import { createRuntime, named } from "./runtime.js";

const FORMAT = "pyframe-program";
const VERSION = 3; // of what it can play
const WORDS = { // what formulas are made of; see pyframe/core/symbolic.py
  "+": (a, b = 0) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
  "**": (a, b) => a ** b, neg: (a) => -a, abs: Math.abs, max: Math.max, min: Math.min, log: Math.log,
  "==": (a, b) => a === b, "!=": (a, b) => a !== b, "<": (a, b) => a < b, "<=": (a, b) => a <= b,
  ">": (a, b) => a > b, ">=": (a, b) => a >= b, bool: Boolean, not: (a) => !a,
  "//": (a, b) => Math.floor(a / b), "%": (a, b) => a - b * Math.floor(a / b),
  trunc: Math.trunc, floor: Math.floor, ceil: Math.ceil,
};
const CPU_CODE = "cpu.wasm";
const STATE = /^state(-\d+)?\.safetensors$/; // files of the values that it begins with
const NUMBERS = ["Infinity", "-Infinity", "NaN"]; // which JSON has as text
const CHANGING = ["parameter", "buffer", "moment", "step", "random"]; // roles of what training changes
const OF_NETWORK = ["parameter", "buffer", "constant"]; // roles of what belongs to the network, not to its training
const IN_FLIGHT = 2; // readings of the loss that are waited for while more steps are given out
const MOST_STEPS = 16; // between two of them
const READ_MS = 50; // what should lie between them
const LOOK_MS = 400; // between two looks at the samples while training
const COPY_STEPS = 100; // between two copies on the host, for the case that the device is lost
const COPY_SHARE = 0.05; // of the time that they may take
const LOSSES = 3; // of the device in one training
const POINTS_EPOCH = 8; // batches of an epoch of points, where there are no data to go by

let shared = null; // promise of the page's Runtime

/** The Runtime of the page, which all players share. */
async function runtimeOfPage() {
  const rt = await (shared ??= createRuntime().catch((error) => {
    shared = null;
    throw error;
  }));
  if (rt?.lost) shared = inPlaceOf(rt);
  const found = rt?.lost ? await shared : rt;
  if (found) return found;
  shared = null;
  throw named("NoGPUError", "This browser offers no WebGPU, which this program needs. Recent versions of " +
    "Chrome, Edge, Safari and Firefox have it, if the system's graphics driver does.");
}

/** What runs a program: the GPU or WebAssembly; for "auto" the GPU, if it fits and is no CPU that plays one. */
async function runtimeFor(device, about, files) {
  const code = about.files[CPU_CODE];
  const gpu = async () => {
    const rt = await runtimeOfPage();
    check(about, rt);
    return rt;
  };
  const cpu = async () => {
    if (!code) {
      throw named("NoGPUError", "This program was exported for WebGPU alone; for device cpu export it again, " +
        "or give the program's Python file.");
    }
    const { createCpu } = await import("./cpu.js");
    return createCpu(await files.read(CPU_CODE, code));
  };
  if (device === "cpu") return cpu();
  if (device === "gpu" || !code) return gpu();
  const rt = await gpu().catch(() => null);
  return rt?.info.software === false ? rt : cpu().catch((error) => {
    if (rt) return rt;
    throw error;
  });
}

/** The Runtime in the place of one whose device was lost, maybe more than once; null where there is none. */
async function inPlaceOf(rt) {
  while (rt?.lost) rt = await rt.reopen();
  return rt;
}

/** The files of an exported program: in a folder, or in an element of the page ("#id"). */
class Files {
  #base = null;
  #parts = null;
  #signal;

  constructor(program, signal) {
    this.#signal = signal;
    const text = String(program);
    if (text.startsWith("#")) {
      const element = document.getElementById(text.slice(1));
      if (!element) throw new Error(`There is no element ${text} with a program in this page.`);
      this.#parts = JSON.parse(element.textContent);
    } else {
      const folder = text.replace(/program\.json$/, "");
      const whole = folder.endsWith("/") || !folder;
      this.#base = new URL(whole ? folder : `${folder}/`, document.baseURI);
    }
  }

  /** The bytes of a file, which must be those that `about`, { bytes, sha256 }, tells of. */
  async read(name, about = null) {
    const raw = this.#parts ? await this.#embedded(name) : await this.#fetched(name);
    if (!about) return raw;
    let changed = raw.length === about.bytes ? "" : `it has ${raw.length} bytes, expected ${about.bytes}`;
    if (!changed && globalThis.crypto?.subtle) { // which only secure pages have
      const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
      const text = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
      if (text !== about.sha256) changed = "its content is another";
    }
    if (changed) {
      throw new Error(`${this.#name(name)} is not the file that was exported with program.json: ` +
        `${changed}. Put all files of one export there.`);
    }
    return raw;
  }

  /** A module that lies beside the program; of one in this page in its script, or beside that. */
  async module(name) {
    if (this.#base) return import(/* @vite-ignore */ /* webpackIgnore: true */ this.#name(name));
    const path = `./${name}`;
    return import(/* @vite-ignore */ /* webpackIgnore: true */ path);
  }

  #name(name) {
    return this.#base ? new URL(name, this.#base).href : name;
  }

  async #fetched(name) {
    const url = this.#name(name);
    const response = await fetch(url, { signal: this.#signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Error(`${url} can't be had: ${error.message}`);
    });
    return took(response, url);
  }

  async #embedded(name) {
    if (!(name in this.#parts)) throw new Error(`This page lacks ${name} of its program.`);
    const packed = Uint8Array.from(atob(this.#parts[name]), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }
}

async function took(response, url) {
  const { ok, status, statusText } = response;
  if (!ok) throw new Error(`${url} can't be had: the server says ${status} ${statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

const closed = () => named("AbortError", "The program was closed.");

/** Programs that run on a device, and the state that they share. After `close` all of its methods throw an AbortError. */
export class Player {
  #rt;
  #document;
  #exported; // the values of the state, as they were exported
  #copy = null; // and as they were last read
  #regions = []; // their buffers
  #tensors = []; // their buffers, by number
  #places = new Map(); // by name: number
  #loaded = new Map(); // by name: what is on the device
  #scratch = new Map(); // by size: buffers for temporaries, which all programs share
  #chosen = new Map(); // by name: the program that its last run took, maybe one for a size of 1
  #options;
  #changes = 0; // of the options
  #closed = false;
  #pending = new Set(); // what rejects the answers that are waited for

  /**
   * Opens what pf.web.export wrote to a folder (a URL), or into an element of the page ("#id").
   * Throws where files are missing or changed, or the device lacks what the program needs.
   */
  static async open(program, { runtime = null, device = "auto", signal = null, progress = () => {} } = {}) {
    const files = new Files(program, signal);
    progress({ text: "Loading the program", fraction: 0 });
    const text = new TextDecoder().decode(await files.read("program.json"));
    const about = parse(text);
    if (runtime) check(about, runtime);
    const rt = runtime ?? await runtimeFor(device, about, files);
    progress({ text: "Loading the weights", fraction: 0.1 });
    const state = Object.keys(about.files).filter((name) => STATE.test(name));
    const parts = await Promise.all(state.map(async (name) => decode(await files.read(name, about.files[name]), name)));
    return new Player(rt, about, new Map(parts.flatMap((part) => [...part])), files);
  }

  constructor(rt, document, values, files = null) {
    this.#rt = rt;
    this.#document = document;
    this.#exported = values;
    this.files = files;
    this.#options = { ...document.options };
    document.tensors.forEach(({ name }, i) => this.#places.set(name, i));
    this.#place();
    this.reset();
  }

  /** program.json. */
  get document() { return this.#document; }

  /** Where it runs: "cpu" or "gpu". */
  get device() { return this.#rt.kind ?? "gpu"; }

  /** The devices that it can be moved to, and its own. */
  get devices() {
    const both = this.#document.files[CPU_CODE] && (this.device === "gpu" || globalThis.navigator?.gpu);
    return both ? ["cpu", "gpu"] : [this.device];
  }

  /** The Runtime that it runs on. */
  get runtime() { return this.#rt; }

  /** The optimizer's options that the programs ask for, by name: "0.lr" is the first group's. */
  get options() { return { ...this.#options }; }

  /** The names of its programs. */
  get programs() { return Object.keys(this.#document.programs); }

  /** Makes the kernels of programs, beside other work; `progress` is called with the share done. */
  async compile(names = this.programs, progress = () => {}) {
    this.#use();
    const { codes, labels, programs } = this.#document;
    const numbers = [...new Set(names.flatMap((name) => programs[name].kernels))];
    let done = 0;
    await this.#open(Promise.all(numbers.map(async (k) => {
      await this.#rt.compile?.([codes[k]], [labels[k]]);
      progress(++done / numbers.length);
    })));
  }

  /**
   * Runs a program once on its inputs: arrays of numbers or, where several dims may have any size,
   * { data, shape }. Nothing is read.
   */
  run(name, ...inputs) {
    this.#use();
    const program = this.#taking(name, inputs);
    const { about } = program;
    about.inputs.forEach((input, i) => {
      const data = inputs[i]?.shape ? inputs[i].data : inputs[i];
      const n = sizeOf(this.#shape(input.shape, program));
      if (data?.length !== n) {
        const seen = data?.length ?? typeof data;
        const shape = input.shape.join(" × ") || "one";
        throw new Error(`${name}: ${input.name} has ${seen} numbers, expected ${n} (${shape})`);
      }
      this.#rt.write(program.inputs[i], stored(data, input.dtype, `${name}: ${input.name}`));
    });
    let grids = null;
    if (program.changes !== this.#changes) {
      program.params = this.#params(about, program.sizes);
      program.changes = this.#changes;
      grids = about.sizes ? Int32Array.from(about.sizes.grids, (n) => evaluate(n, program.sizes)) : null;
    }
    this.#rt.run(program.id, program.ids, program.params, grids);
    for (const [tensor, slot, nbytes] of about.back) {
      this.#rt.copy(this.#tensors[tensor], program.ids[slot], nbytes);
    }
  }

  /** What a program's last run gave: by the names of its outputs { data, shape }. */
  async results(name) {
    this.#use();
    const program = this.#load(this.#chosen.get(name) ?? name);
    const { about, ids } = program;
    const items = about.outputs.map(({ slot, shape, dtype }) => (
      { id: ids[slot], shape: this.#shape(shape, program), dtype }));
    const found = await this.#read(items);
    return Object.fromEntries(about.outputs.map(({ name }, i) => (
      [name, { data: found[i], shape: items[i].shape }])));
  }

  #shape(shape, { sizes }) {
    return shape.map((n) => evaluate(n, sizes));
  }

  /** A program for these inputs, on the device and with room for them: that of the name, or where a size is 1 another one. */
  #taking(name, inputs) {
    const { programs } = this.#document;
    const about = this.#about(name);
    if (inputs.length !== about.inputs.length) {
      const names = about.inputs.map((input) => input.name).join(", ");
      throw new Error(`${name}: expected ${about.inputs.length} inputs (${names}), got ${inputs.length}`);
    }
    for (const each of about.sizes ? [name, ...about.others ?? []] : []) {
      const sizes = sizesOf(programs[each], inputs);
      if (!sizes) continue;
      const program = this.#load(each);
      this.#chosen.set(name, each);
      this.#fit(program, sizes);
      return program;
    }
    if (!about.sizes) return this.#load(name);
    const seen = inputs.map((x, i) => `${about.inputs[i].name} of ${x?.shape?.join(" × ") ?? `${x?.length} numbers`}`);
    const expected = about.inputs.map((x) => `${x.name} of ${x.shape.join(" × ")}`);
    throw new Error(`${name} was not exported for ${seen.join(", ")}; it takes ${expected.join(", ")}, where all of this ` +
      `must hold: ${about.sizes.holds.map(spoken).join(", ")}`);
  }

  /** The values of tensors, by their names in `document.tensors`: typed arrays, in order. */
  async tensors(names) {
    this.#use();
    return this.#read(names.map((name) => {
      const i = this.#number(name);
      return { id: this.#tensors[i], ...this.#document.tensors[i] };
    }));
  }

  /** Writes a tensor. */
  write(name, values) {
    this.#use();
    const i = this.#number(name);
    const { shape, dtype } = this.#document.tensors[i];
    if (values.length !== sizeOf(shape)) {
      throw new Error(`${name} has ${sizeOf(shape)} numbers, got ${values.length}`);
    }
    this.#rt.write(this.#tensors[i], stored(values, dtype, `write: ${name}`));
  }

  /** Gives the tensors whose names begin so the values that they were exported with. */
  restore(prefix) {
    this.#restore(({ name }) => name.startsWith(prefix));
  }

  #restore(chosen) {
    this.#use();
    this.#document.tensors.forEach((tensor, i) => {
      if (chosen(tensor)) this.#fill(i, this.#exported.get(tensor.name)?.data);
    });
  }

  /** Changes an option of the optimizer from the next run on: "lr" in all groups, "0.lr" in one. */
  set(name, value) {
    this.#use();
    const keys = Object.keys(this.#options).filter((key) => key === name || tail(key) === name);
    if (!keys.length) {
      const known = [...new Set(Object.keys(this.#options).map(tail))].join(", ") || "none";
      throw new Error(`The program has no option ${name}; it has ${known}.`);
    }
    if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
      throw new TypeError(`${name}: expected a number, 0 or more, got ${JSON.stringify(value) ?? value}`);
    }
    const options = { ...this.#options, ...Object.fromEntries(keys.map((key) => [key, value])) };
    for (const [question, answer] of this.#document.rules) {
      if (evaluate(question, options) !== answer) {
        throw new Error(`${name} can't be ${value} in this program, which was exported for ` +
          `${this.#options[keys[0]]}: a step would have other parts. Export it with such a value.`);
      }
    }
    this.#options = options;
    this.#changes++;
  }

  /** The weights as a safetensors file, which Model.load reads; `all`: with the optimizer's state. */
  async save({ all = false } = {}) {
    const { weights, tensors } = this.#document;
    const names = Object.entries(weights);
    if (all) {
      const known = new Set(Object.values(weights));
      tensors.forEach(({ name, role }, i) => {
        if (!known.has(i) && CHANGING.includes(role)) names.push([name, i]);
      });
    }
    const values = await this.tensors(names.map(([, i]) => tensors[i].name));
    return encode(names.map(([name, i], k) => {
      const { dtype, shape } = tensors[i];
      return { name, dtype, shape, data: values[k] };
    }));
  }

  /**
   * Takes over what `save` gave, or Model.save wrote; an optimizer's state that is not in it starts
   * over. Nothing is changed where a name or a shape is another model's. `strict` false: what fits by its
   * name is taken, and the rest left. `rename` has the model's names for the file's; see `renamed`.
   */
  load(bytes, name = "The file", { strict = true, rename = {} } = {}) {
    this.#use();
    const { weights, tensors } = this.#document;
    const targets = new Map(Object.entries(weights));
    let given = decode(bytes, name);
    if (!Object.keys(weights).every((key) => given.has(key))) given = renamed(given, rename);
    if (!strict) {
      for (const key of Object.keys(weights)) if (!given.has(key)) targets.delete(key);
    }
    for (const [i, tensor] of tensors.entries()) {
      if (given.has(tensor.name) && CHANGING.includes(tensor.role)) targets.set(tensor.name, i);
    }
    const wrong = [];
    for (const key of strict ? given.keys() : []) if (!targets.has(key)) wrong.push(`${key} is not in it`);
    if (!targets.size) wrong.push(`it has none of its names, such as ${Object.keys(weights)[0]}`);
    for (const [key, i] of targets) {
      const { shape } = tensors[i];
      const found = given.get(key);
      if (!found) wrong.push(`${key} is missing`);
      else if (found.shape.join() !== shape.join()) {
        wrong.push(`${key} has shape [${found.shape}], expected [${shape}]`);
      }
    }
    if (wrong.length) {
      const more = wrong.length > 3 ? `; and ${wrong.length - 3} more` : "";
      throw new Error(`${name} holds the weights of another model: ${wrong.slice(0, 3).join("; ")}${more}.`);
    }
    this.#restore(({ role }) => !OF_NETWORK.includes(role)); // an optimizer, random numbers, sums
    for (const [key, i] of targets) {
      this.#rt.write(this.#tensors[i], stored(given.get(key).data, tensors[i].dtype));
    }
    this.#copy = null;
  }

  /** All as it was exported. */
  reset() {
    this.#copy = null;
    this.#restore(() => true);
  }

  /** Keeps a copy on the host of all that training changes: what `reopen` goes back to. */
  async keep() {
    const changing = this.#document.tensors.filter(({ role }) => CHANGING.includes(role));
    const names = changing.map(({ name }) => name);
    const values = await this.tensors(names);
    this.#copy = new Map(names.map((name, i) => [name, values[i]]));
  }

  /** Opens a lost device anew and goes back to the last copy; false where there was none. */
  async reopen() {
    this.#use();
    const next = await this.#open(inPlaceOf(this.#rt));
    if (!next) {
      throw named("DeviceLostError", "The GPU was lost, and the browser gives none any more. " +
        "Load the page again.");
    }
    this.#goOn(next);
    return this.#copy !== null;
  }

  /** Goes on with another device, "cpu" or "gpu", and all that training has changed. */
  async move(device) {
    this.#use();
    if (device === this.device) return;
    const next = await runtimeFor(device, this.#document, this.files);
    try {
      await this.keep();
      this.#use();
    } catch (error) {
      next.close?.();
      throw error;
    }
    this.#leave();
    this.#goOn(next);
  }

  /** Takes up a device, with the last copy. */
  #goOn(rt) {
    this.#rt = rt;
    this.#loaded.clear();
    this.#scratch.clear();
    this.#place();
    const copy = this.#copy;
    this.reset();
    this.#copy = copy;
    for (const [name, values] of copy ?? []) this.#fill(this.#number(name), values);
  }

  /** Gives back what it holds of the device. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const reject of this.#pending) reject(closed());
    this.#leave();
  }

  #use() {
    if (this.#closed) throw closed();
  }

  /** An answer that `close` rejects, where it has not come by then. */
  #open(answer) {
    return new Promise((resolve, reject) => {
      this.#pending.add(reject);
      answer.then(resolve, reject).finally(() => this.#pending.delete(reject));
    });
  }

  #leave() {
    if (this.#rt.lost) return;
    for (const { id, ids, own } of this.#loaded.values()) {
      this.#rt.unload(id);
      for (const buffer of own.values()) this.#rt.free(buffer.id);
      ids.fill(0);
    }
    for (const buffers of this.#scratch.values()) for (const id of buffers) this.#rt.free(id);
    this.#tensors.forEach((id) => this.#rt.free(id));
    this.#regions.forEach((id) => this.#rt.free(id));
    this.#rt.close?.(); // a worker's; the GPU stays, for other players
  }

  #number(name) {
    const i = this.#places.get(name);
    if (i === undefined) throw new Error(`The program has no tensor ${name}.`);
    return i;
  }

  /** Makes the buffers of the state. */
  #place() {
    const { regions, tensors } = this.#document;
    this.#regions = regions.map((nbytes) => this.#rt.alloc(nbytes));
    this.#tensors = tensors.map(({ region, offset, shape, dtype }) => (region === undefined
      ? this.#rt.alloc(bytesOf(shape, dtype))
      : this.#rt.slice(this.#regions[region], offset, bytesOf(shape, dtype))));
  }

  /** Writes a tensor's values, or zeros. */
  #fill(i, values) {
    const { shape, dtype } = this.#document.tensors[i];
    this.#rt.write(this.#tensors[i], stored(values ?? new (numbersOf(dtype))(sizeOf(shape)), dtype));
  }

  #about(name) {
    const about = this.#document.programs[name];
    if (!about) throw new Error(`There is no program ${name}; there are ${this.programs.join(", ")}.`);
    return about;
  }

  #load(name) {
    const known = this.#loaded.get(name);
    if (known) return known;
    const onCpu = this.device === "cpu";
    const about = { ...this.#about(name), ...onCpu && this.#about(name).cpu }; // planned for it
    const { codes, labels } = this.#document;
    const slots = about.slots.length;
    const id = onCpu ? this.#rt.load(about)
      : this.#rt.load(about.kernels.map((k) => codes[k]), about.kernels.map((k) => labels[k]),
        Int32Array.from(about.steps), slots, about.paramBytes);
    const program = {
      about, id, ids: new Int32Array(slots), inputs: [], own: new Map(), // its buffers, by what they are for
      sizes: null, params: null, changes: -1,
    };
    this.#loaded.set(name, program);
    if (!about.sizes) this.#fit(program, {});
    return program;
  }

  /** Gives a program room for sizes. Where they change its buffers grow by powers of two, and stay. */
  #fit(program, sizes) {
    const { about, own } = program;
    if (program.sizes && Object.keys(sizes).every((name) => sizes[name] === program.sizes[name])) return;
    program.sizes = sizes;
    program.changes = -1;
    const room = (nbytes) => {
      const n = evaluate(nbytes, sizes);
      return about.sizes ? 2 ** Math.ceil(Math.log2(n)) : n;
    };
    const alloc = (key, nbytes, make = (n) => this.#rt.alloc(n)) => {
      const n = room(nbytes);
      const before = own.get(key);
      if (before?.n >= n) return before.id;
      if (before) this.#rt.free(before.id);
      own.set(key, { n, id: make(n) });
      return own.get(key).id;
    };
    program.inputs = about.inputs.map(({ shape, dtype }, i) => (
      alloc(`in ${i}`, bytesOf(this.#shape(shape, program), dtype))));
    program.most ??= [];
    const used = new Map(); // by size: how many temporaries it has taken
    const make = {
      in: (i) => program.inputs[i],
      state: (i) => this.#tensors[i],
      own: (nbytes, slot) => alloc(slot, nbytes),
      part: (region, offset, nbytes, slot) => (
        alloc(slot, nbytes, () => this.#rt.slice(this.#regions[region], offset, nbytes))),
      temp: (nbytes, slot) => {
        const n = program.most[slot] = Math.max(room(nbytes), program.most[slot] ?? 0);
        const k = used.get(n) ?? 0;
        used.set(n, k + 1);
        if (!this.#scratch.has(n)) this.#scratch.set(n, []);
        return (this.#scratch.get(n)[k] ??= this.#rt.alloc(n));
      },
    };
    program.ids = Int32Array.from(about.slots, ([kind, ...rest], slot) => make[kind](...rest, slot));
  }

  /** The scalars of a program, for the options as they are and these sizes. */
  #params({ params, paramBytes }, sizes) {
    if (!paramBytes) return null;
    const view = new DataView(new ArrayBuffer(paramBytes));
    const known = { ...this.#options, ...sizes };
    for (const [offset, kind, formula] of params) {
      const value = evaluate(formula, known);
      const [, word, , , bits = same] = DTYPES[Object.hasOwn(KINDS, kind) ? KINDS[kind] : "I32"];
      view[`set${word}`](offset, bits(Number(kind === "bool" ? Boolean(value) : value)), true);
    }
    return new Uint8Array(view.buffer);
  }

  /** Reads buffers after all work so far; throws what a check of values has found meanwhile. */
  async #read(items) {
    const guard = this.#places.get("guard:");
    const flag = { id: this.#tensors[guard], shape: [], dtype: "int32" };
    const all = guard === undefined ? items : [...items, flag];
    const sizes = all.map(({ shape, dtype }) => bytesOf(shape, dtype));
    const bytes = await this.#open(this.#rt.read(Int32Array.from(all, ({ id }) => id), Int32Array.from(sizes)));
    let at = 0;
    const found = all.map(({ shape, dtype }, i) => {
      const [, , Kind, number] = memoryOf(dtype);
      const raw = new (Kind ?? Uint16Array)(bytes.slice(at, at + sizes[i]).buffer).subarray(0, sizeOf(shape));
      at += sizes[i];
      return Kind ? raw : Float32Array.from(raw, number);
    });
    if (guard !== undefined) {
      const [[failed]] = found.splice(-1);
      if (failed) {
        this.#fill(guard, null);
        const message = this.#document.errors[(failed & 16383) - 1] ?? "a check of values failed";
        throw new Error(message.replace("; got {}", `; got ${failed >> 14}`)); // see ops/api/deferred.py
      }
    }
    return found;
  }
}

// --- numbers

function parse(text) {
  let document = null;
  try {
    document = JSON.parse(text);
  } catch {
    // told below
  }
  if (document?.format !== FORMAT) throw new Error("program.json is no program that pyframe exported.");
  if (document.version !== VERSION) {
    throw new Error(`program.json has format ${document.version}, and this player.js plays format ` +
      `${VERSION}: use the player.js that was exported with it.`);
  }
  let wrong = "parts";
  try {
    wrong = damage(document);
  } catch {
    // what is not there has no parts
  }
  if (wrong) throw new Error(`program.json is damaged: its ${wrong} are none that pyframe exports.`);
  return document;
}

const isWhole = (n) => Number.isSafeInteger(n) && n >= 0;
const isText = (x) => typeof x === "string";
const isPlain = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
const allOf = (x, ok) => Array.isArray(x) && x.every(ok);
const eachOf = (x, ok) => isPlain(x) && Object.values(x).every(ok);
const isShaped = (x, ok = isWhole) => isPlain(x) && isText(x.dtype) && Object.hasOwn(FORMATS, x.dtype) && allOf(x.shape, ok);
const isFormula = (x) => isText(x) || ["number", "boolean"].includes(typeof x) || (allOf(x, isFormula) && Object.hasOwn(WORDS, x[0]));
/** The tensors of what is summed up, and behind them those of what divides each. */
const sumsOf = (kind, names) => ["", "divisor:"].flatMap((of) => names.map((name) => `metric:${kind}.${of}${name}`));
/** The mean of nothing is 0. */
const meansOf = (sums) => sums.slice(sums.length / 2).map((by, i) => (by ? sums[i] / by : sums[i]));
const SIZE = /^#\d+$/; // the name of a size that changes
const SLOTS = { in: 1, state: 1, own: 1, temp: 1, part: 3 }; // of a slot, by its kind

/** What in program.json is not as an export writes it, where that would let the page hang or break; or null. */
function damage(about) {
  const { needs, options, rules, errors, weights, tensors, regions, codes, labels, programs, plan, spec, data, files } = about;
  const takes = (name, n) => Object.hasOwn(programs, name) && programs[name].inputs[0]?.shape[0] === n;
  const batches = (part, name) => part === undefined || (isPlain(part) && allOf(part.sizes, (n) => n > 0 && isWhole(n)) &&
    part.sizes.length && part.sizes.every((n) => takes(`${name}.${n}`, n)));
  const counted = (part) => part === undefined || (allOf(part.metrics, isText) && allOf(part.values ?? [], isText));
  const writes = ({ write }) => write === undefined || (isPlain(write) && isPlain(write.how) && isWhole(write.length) &&
    isWhole(write.vocabulary) && allOf(write.ends, isWhole) && [write.spans, write.parts].every((part) => allOf(part, isWhole) && part.length) &&
    write.spans.every((n) => Object.hasOwn(programs, `write.${n}`) && write.parts.every((k) => k > n || Object.hasOwn(programs, `read.${k}.${n}`))));
  const trained = ({ train }) => train === undefined || (isPlain(train) && train.size > 0 && takes("train", train.size));
  const fits = (columns, name) => !columns || !Object.hasOwn(programs, name) || columns.length === programs[name].inputs.length;
  const steps = ({ steps, kernels, slots }) => {
    for (let at = 0; at < steps.length;) { // kernel, grid, params, how many slots, which
      const n = steps[at + 6];
      const used = steps.slice(at + 7, at + 7 + n);
      if (!(steps[at] in kernels) || !isWhole(n) || used.length < n || !used.every((slot) => slot in slots)) return false;
      at += 7 + n;
    }
    return true;
  };
  const bound = (p) => allOf(p.slots, (s) => Array.isArray(s) && Object.hasOwn(SLOTS, s[0]) && s.length === 1 + SLOTS[s[0]] &&
      s.slice(1).every((n) => isWhole(n) || (p.sizes && s.length === 2 && isFormula(n))) &&
      !(s[0] === "in" && s[1] >= p.inputs.length) && !(s[0] === "state" && s[1] >= tensors.length)) &&
    allOf(p.outputs, (o) => isShaped(o, (n) => isWhole(n) || (p.sizes && isFormula(n))) && isText(o.name) && isWhole(o.slot) && o.slot < p.slots.length) &&
    allOf(p.back, (b) => allOf(b, isWhole) && b[0] < tensors.length && b[1] < p.slots.length) && isWhole(p.paramBytes) &&
    allOf(p.params, (x) => Array.isArray(x) && isWhole(x[0]) && x[0] + 4 <= p.paramBytes && isFormula(x[2]));
  const program = (p) => isPlain(p) && allOf(p.kernels, (k) => isWhole(k) && k < codes.length) && allOf(p.steps, (n) => n === -1 || isWhole(n)) &&
    allOf(p.inputs, (x) => isShaped(x, (n) => isWhole(n) || (p.sizes && SIZE.test(n)))) && sized(p) && bound(p) && steps(p) && onCpu(p);
  const sized = ({ sizes, others = [] }) => allOf(others, (name) => Object.hasOwn(programs, name)) &&
    (sizes === undefined || (isPlain(sizes) && allOf(sizes.holds, isFormula) && allOf(sizes.grids, isFormula)));
  const onCpu = (p) => p.cpu === undefined || (isPlain(p.cpu) && isWhole(p.cpu.shared) && bound({ ...p, ...p.cpu }) &&
    [p.cpu.launches, p.cpu.words].every((part) => allOf(part, isWhole) && part.length === 2));
  const parts = {
    needs: () => isPlain(needs) && allOf(needs.features, isText) && eachOf(needs.limits, Number.isFinite),
    options: () => eachOf(options, (x) => Number.isFinite(x) || NUMBERS.includes(x)),
    rules: () => allOf(rules, (r) => Array.isArray(r) && isFormula(r[0])),
    errors: () => allOf(errors, isText),
    tensors: () => allOf(regions, isWhole) && allOf(tensors, (t) => isShaped(t) && isText(t.name) && (t.region === undefined ||
      (isWhole(t.region) && t.region < regions.length && isWhole(t.offset)))),
    weights: () => eachOf(weights, (i) => isWhole(i) && i < tensors.length),
    kernels: () => allOf(codes, isText) && allOf(labels, isText) && labels.length === codes.length,
    programs: () => eachOf(programs, program),
    batches: () => isPlain(plan) && isWhole(plan.predict?.atOnce ?? 0) && (!plan.predict?.atOnce || Object.hasOwn(programs, "predict")) && trained(plan) && batches(plan.predict, "predict") && batches(plan.evaluate, "evaluate") &&
      counted(plan.train) && counted(plan.evaluate) && writes(plan),
    settings: () => isPlain(spec) && allOf(spec.controls ?? [], isPlain) && isWhole(spec.epochs ?? 0) && isPlain(data) &&
      Object.values(data).every((columns) => allOf(columns, (c) => c === null || (isText(c.tensor) && allOf(c.shape, isWhole)))) &&
      fits(data.train, "train") && fits(data.test, `evaluate.${plan.evaluate?.sizes[0]}`),
    files: () => eachOf(files, (f) => isPlain(f) && isWhole(f.bytes) && isText(f.sha256)) &&
      Object.hasOwn(files, "state.safetensors") && (!files[CPU_CODE] || Object.values(programs).every(({ cpu }) => cpu)),
  };
  return Object.keys(parts).find((name) => !parts[name]()) ?? null;
}

/** Throws where a device lacks what a program needs. */
function check({ needs }, rt) {
  const features = needs.features.filter((name) => !rt.features.includes(name));
  const lacks = features.map((name) => `the feature ${name}`);
  for (const [name, least] of Object.entries(needs.limits)) {
    if (rt.limits[name] < least) lacks.push(`${name} of ${least} (it has ${rt.limits[name]})`);
  }
  if (!lacks.length) return;
  throw named("LimitsError", `This GPU can't run the program, which needs ${lacks.join(", ")}.`);
}

/** The value of a formula: a number, an option's name, or [word, argument, …]. */
function evaluate(formula, options) {
  if (Array.isArray(formula)) {
    const [word, ...args] = formula;
    if (!Object.hasOwn(WORDS, word)) throw new Error(`program.json has a formula with the unknown word ${word}.`);
    return WORDS[word](...args.map((arg) => evaluate(arg, options)));
  }
  if (typeof formula !== "string") return formula;
  return NUMBERS.includes(formula) ? Number(formula) : options[formula];
}

/** A formula for people. */
function spoken(formula) {
  if (!Array.isArray(formula)) return String(formula);
  const [word, ...args] = formula;
  const [first, ...more] = args.map(spoken);
  return !/\W/.test(word) || !more.length ? `${word}(${args.map(spoken).join(", ")})` : `(${first} ${word} ${more.join(`, `)})`;
}

/** What the sizes that change are for these inputs, by their names; null where the program does not take such. */
function sizesOf({ inputs, sizes }, given) {
  const found = {};
  const known = (n) => (typeof n === "string" ? found[n] : n);
  const open = ({ shape }) => shape.filter((n) => known(n) === undefined);
  const told = inputs.map((about, i) => ({ about, x: given[i], order: given[i]?.shape ? 0 : open(about).length }));
  for (const { about, x } of told.sort((a, b) => a.order - b.order)) { // what tells most of them first
    const { name, shape } = about;
    if (x?.shape) {
      if (x.shape.length !== shape.length) return null;
      shape.forEach((n, d) => { if (typeof n === "string") found[n] ??= x.shape[d]; });
      if (shape.some((n, d) => known(n) !== x.shape[d])) return null;
      continue;
    }
    const unknown = open(about);
    if (unknown.length > 1) {
      throw new Error(`${name} of ${shape.join(" × ")}: several dims may have any size; give { data, shape }`);
    }
    for (const n of unknown) found[n] = x?.length / sizeOf(shape.filter((m) => m !== n).map(known));
    if (x?.length !== sizeOf(shape.map(known))) return null;
  }
  if (!Object.values(found).every(isWhole)) return null;
  return (sizes?.holds ?? []).every((question) => evaluate(question, found)) ? found : null;
}

/** "lr" of "0.lr", "betas.0" of "1.0.betas.0". */
function tail(key) {
  return key.replace(/^(\d+\.)+/, "");
}

/** How a buffer has numbers of a dtype: the row of DTYPES. */
function memoryOf(dtype) {
  return DTYPES[dtype === "int64" ? "I32" : FORMATS[dtype]];
}

/** The array that holds the numbers of a dtype. */
function numbersOf(dtype) {
  return memoryOf(dtype)[2] ?? Float32Array;
}

function sizeOf(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

function bytesOf(shape, dtype) {
  return Math.max(4, Math.ceil(sizeOf(shape) * memoryOf(dtype)[0] / 4) * 4);
}

/** Throws where an array, `name` in the error, holds what is no number of a dtype: texts, null, fractions of whole ones. */
function checkNumbers(values, dtype, name) {
  const whole = !/float/.test(dtype) && dtype !== "bool";
  if (ArrayBuffer.isView(values) && !(whole && /^Float/.test(values.constructor.name))) return;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const fits = whole ? Number.isInteger(value) : typeof value === "number";
    if (fits || typeof value === "bigint" || typeof value === "boolean") continue;
    const seen = typeof value === "number" ? value : JSON.stringify(value) ?? String(value);
    throw new TypeError(`${name}[${i}] is ${seen}, expected ${whole ? `a whole number (${dtype})` : "a number"}.`);
  }
}

/** Numbers as a buffer has them, whole words; with a name they are a page's, and checked. */
function stored(values, dtype, name = null) {
  const [width, , Its, , bits] = memoryOf(dtype);
  const Kind = Its ?? Uint16Array;
  if (name && !(values instanceof Kind)) checkNumbers(values, dtype, name);
  if (!bits && values instanceof Kind && values.byteLength % 4 === 0) return values;
  const out = new Kind(Math.ceil(values.length * width / 4) * 4 / width);
  out.set(Kind.from(values, bits ?? Number));
  return out;
}

const F32 = new Float32Array(1);
const BITS = new Uint32Array(F32.buffer);

/** The bits of the nearest bfloat16. */
function toBrain(value) {
  F32[0] = value;
  const [x] = BITS;
  return Number.isNaN(F32[0]) ? 0x7fc0 : (x + 0x7fff + ((x >>> 16) & 1)) >>> 16;
}

/** The bits of the nearest float16. */
function toHalf(value) {
  F32[0] = value;
  const [x] = BITS;
  const sign = (x >>> 16) & 0x8000;
  const rest = x & 0x7fffffff;
  if (rest >= 0x47800000) return sign | (rest > 0x7f800000 ? 0x7e00 : 0x7c00);
  if (rest < 0x38800000) return sign | roundEven(Math.abs(F32[0]) * 2 ** 24);
  const bits = rest - 0x38000000;
  return sign | ((bits + 0xfff + ((bits >>> 13) & 1)) >>> 13);
}

function roundEven(x) {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + low % 2 : Math.round(x);
}

function fromHalf(bits) {
  const sign = (bits & 0x8000) << 16;
  const exponent = (bits >>> 10) & 31;
  const rest = bits & 1023;
  if (!exponent) return (sign ? -1 : 1) * rest / 2 ** 24;
  BITS[0] = sign | ((exponent === 31 ? 255 : exponent + 112) << 23) | (rest << 13);
  return F32[0];
}

// --- safetensors: uint64 n | n bytes of JSON | the data

const same = (x) => x;
const KINDS = { f32: "F32", f16: "F16", u32: "U32", bool: "U32" }; // of a program's scalars, if not ints
// By dtype: bytes, a DataView's word for them, an array that has them as they are, their number and its bits.
const DTYPES = {
  F32: [4, "Float32", Float32Array], F64: [8, "Float64", Float64Array],
  F16: [2, "Uint16", null, fromHalf, toHalf],
  BF16: [2, "Uint16", null, (bits) => { BITS[0] = bits << 16; return F32[0]; }, toBrain],
  I64: [8, "BigInt64", null, Number, BigInt],
  I32: [4, "Int32", Int32Array], U32: [4, "Uint32", Uint32Array],
  I16: [2, "Int16", Int16Array], U16: [2, "Uint16", Uint16Array],
  I8: [1, "Int8", Int8Array], U8: [1, "Uint8", Uint8Array],
  BOOL: [1, "Uint8", Uint8Array, same, (value) => (value ? 1 : 0)],
};

/** The tensors of a file by name: { data, shape }. */
function decode(bytes, name) {
  const bad = (why) => new Error(`${name} is no whole safetensors file: ${why}.`);
  if (!(bytes instanceof Uint8Array)) throw new Error(`${name}: expected the bytes of a file (a Uint8Array)`);
  if (bytes.length < 8) throw bad(`it has ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  if (start > bytes.length) throw bad("it ends within its header");
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, start)));
  } catch {
    throw bad("its header can't be read");
  }
  const tensors = new Map();
  for (const [key, about] of Object.entries(header ?? {})) {
    if (key === "__metadata__") continue;
    const { dtype, shape, data_offsets: offsets } = about ?? {};
    const [width, word, Kind, number = same] = Object.hasOwn(DTYPES, dtype) ? DTYPES[dtype] : [];
    if (!width) throw bad(`${key} has the unknown dtype ${dtype}`);
    if (!allOf(shape, isWhole) || !allOf(offsets, isWhole)) throw bad(`${key} has no shape or no place`);
    const [from, to] = offsets;
    const n = sizeOf(shape);
    if (to - from !== n * width || start + to > bytes.length) throw bad(`${key} is not there in full`);
    const at = bytes.byteOffset + start + from;
    let data;
    if (Kind && at % width === 0) {
      data = new Kind(bytes.buffer, at, n);
    } else {
      const part = new DataView(bytes.buffer, at, n * width);
      const get = `get${word}`;
      data = new Float64Array(n);
      for (let i = 0; i < n; i++) data[i] = number(part[get](width * i, true));
    }
    tensors.set(key, { data, shape });
  }
  return tensors;
}

const FORMATS = {
  float32: "F32", float16: "F16", bfloat16: "BF16", int64: "I64", int32: "I32", int16: "I16", int8: "I8", uint8: "U8",
  uint16: "U16", uint32: "U32", bool: "BOOL",
};

/** A file of tensors { name, dtype, shape, data }: the widest first, so that all are aligned. */
function encode(tensors) {
  const width = ({ dtype }) => DTYPES[FORMATS[dtype]][0];
  const sorted = [...tensors].sort((a, b) => width(b) - width(a) || (a.name < b.name ? -1 : 1));
  const header = {};
  let end = 0;
  for (const t of sorted) {
    const begin = end;
    end += width(t) * t.data.length;
    header[t.name] = { dtype: FORMATS[t.dtype], shape: t.shape, data_offsets: [begin, end] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = 8 + Math.ceil(text.length / 8) * 8;
  const bytes = new Uint8Array(start + end);
  bytes.fill(32, 8, start);
  bytes.set(text, 8);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(start - 8), true);
  let at = start;
  for (const t of sorted) {
    const [size, word, , , bits = same] = DTYPES[FORMATS[t.dtype]];
    const set = `set${word}`;
    for (const v of t.data) {
      view[set](at, bits(v), true);
      at += size;
    }
  }
  return bytes;
}

/** The entries of a file under new names: `rename` has those of old ones. An old one that ends in a dot, or is
 * empty, stands for the beginning of names; the longest counts. */
function renamed(given, rename) {
  const starts = Object.keys(rename).filter((key) => /^$|\.$/.test(key)).sort((a, b) => b.length - a.length);
  return new Map([...given].map(([key, value]) => {
    const start = starts.find((text) => key.startsWith(text));
    return [rename[key] ?? (start === undefined ? key : rename[start] + key.slice(start.length)), value];
  }));
}

// --- the engine of <py-frame program="…">

/**
 * Opens an exported program to train and to predict with: the engine of `<py-frame>`.
 * options: { program (the URL of a folder, or "#id"), weights (a URL), device, signal }. hear(event,
 * detail) is told of "progress", "step", "epoch", "samples", "notice" and "devicelost".
 */
export async function open(options, hear = () => {}) {
  const { program, weights = null, device = "auto", signal = null, runtime = null } = options;
  const progress = (detail) => hear("progress", detail);
  const player = await Player.open(program, { runtime, device, signal, progress });
  try {
    const engine = new Engine(player, hear);
    await engine.begin(weights && new URL(weights, document.baseURI).href, signal, options);
    return engine;
  } catch (error) {
    player.close();
    throw error;
  }
}

class Engine {
  #player;
  #hear;
  #plan;
  #data = null; // promise of { train, test }
  #samples = null; // what is shown of unseen data: a Float32Array
  #feed = null; // where training is in the data
  #given = null; // the visitor's own data: { x, y, length }
  #training = false;
  #stopping = false;
  #closed = false;
  #running = false; // whether steps are given out,
  #pausing = false; // and whether they are to end for a while
  #step = 0; // of the model, in all trainings
  #epochs = 0;
  #mark = null; // what #step, #epochs and the feed were at the last copy
  #evaluating = Promise.resolve(); // evaluations come one after the other
  #mending = null; // promise of the device's being there again
  #writer = null; // of texts: promise of what texts.js makes

  constructor(player, hear) {
    this.#player = player;
    this.#hear = hear;
    this.#plan = player.document.plan;
    this.spec = {
      ...player.document.spec,
      device: deviceOf(player),
      step: 0,
      engine: "program",
    };
  }

  /** Gets what is needed at once; the kernels of all but predictions are made meanwhile. */
  async begin(weights, signal, options) {
    const player = this.#player;
    const { data } = player.document;
    const [bytes] = await Promise.all([
      weights ? fetched(weights, signal) : null,
      data.samples ? this.#takeSamples(data.samples) : null,
    ]);
    if (bytes) {
      player.load(bytes, weights, this.#fit(options));
      this.spec.trained = true;
    }
    const sizes = this.#plan.predict?.sizes ?? [];
    const { write } = this.#plan;
    const choose = write?.how.doSample ? "choose.filtered" : "choose.likeliest";
    const first = write ? [`read.${write.parts[0]}.${write.spans[0]}`, `write.${write.spans[0]}`, choose]
      : sizes.length ? [`predict.${sizes[0]}`] : [];
    const text = `Compiling for this ${player.device.toUpperCase()}`;
    await player.compile(first, (share) => this.#hear("progress", { text, fraction: 0.2 + 0.8 * share }));
    this.#compile(first).catch(() => {}); // what is wrong is told where it is used
    await this.#keep(Boolean(bytes));
  }

  /** Makes the kernels of all other programs: of those first that are needed first. */
  async #compile(done) {
    const order = ["train", ...this.#player.programs];
    for (const name of order) {
      if (!done.includes(name) && this.#player.programs.includes(name)) await this.#player.compile([name]);
    }
  }

  /**
   * Trains for some epochs, or `steps`; of the data's first `limit` samples, or of points. `x` and `y` are data of the
   * visitor's, samples and their targets one after the other, which later calls go on with.
   */
  async train({ epochs = null, steps = null, limit = null, points = null, x = null, y = null, ...odd } = {}) {
    const [unknown] = Object.keys(odd);
    if (unknown) throw new TypeError(`train: unknown option ${unknown}; it takes epochs, steps, limit, points, x and y.`);
    if (!this.#plan.train) throw new Error("This program was exported to predict alone.");
    if (this.#training) throw new Error("The network is being trained already; stop that first.");
    for (const [name, value] of Object.entries({ epochs, steps, limit })) {
      if (value === null || (value > 0 && isWhole(value))) continue;
      throw new TypeError(`train: expected ${name}, a whole number above 0, got ${JSON.stringify(value) ?? value}.`);
    }
    if (x || y) this.#given = givenAs([x, y], this.#player.document.programs.train.inputs);
    this.#training = true;
    this.#stopping = false;
    const begun = performance.now();
    const before = this.#step;
    try {
      const feed = await this.#feedFor(limit, points);
      const end = before + (steps ?? (epochs ?? this.spec.epochs) * feed.length - feed.batch);
      this.spec.trained = true;
      let logs = {};
      for (let lost = 0; this.#step < end && !this.#stopping;) {
        while (this.#pausing) await shortly();
        const { runtime } = this.#player; // which a look at the samples may have mended meanwhile
        this.#running = true;
        try {
          logs = await this.#run(feed, end, steps === null, points === null) ?? logs;
        } catch (error) {
          if (!runtime.lost || ++lost > LOSSES) throw error;
          await this.#mend();
        } finally {
          this.#running = false;
        }
      }
      if (this.#closed) throw closed();
      await this.#look();
      await this.#keep();
      return {
        ...logs, steps: this.#step - before, stopped: this.#stopping,
        seconds: (performance.now() - begun) / 1000,
      };
    } catch (error) {
      if (error.name !== "OutOfMemoryError") throw error;
      const { size } = this.#plan.train;
      const who = this.#player.device === "cpu" ? "The browser" : "The GPU";
      throw named(error.name, `${who} has no memory left to train with batches of ${size} samples: ` +
        `${error.message}. Export it with a smaller batch_size, such as ${Math.max(1, size >> 2)}.`);
    } finally {
      this.#training = false;
    }
  }

  /** Ends training after the step under way, and a text after its token; or only what is named. */
  stop(what) {
    if (this.#training && what !== "writing") this.#stopping = true;
    if (what !== "training") this.#writer?.then((writer) => writer.stop());
  }

  /**
   * What a language model writes after a text, in pieces; after tokens, tokens. Another text ends it, as do stop() and
   * leaving the loop.
   */
  async * generate(prompt, options = {}) {
    if (!this.#plan.write) throw new Error("This program was exported from a model that writes no text.");
    if (this.#player.runtime.lost) await this.#mend();
    this.#writer ??= import("./texts.js").then(({ writerOf }) => writerOf(this.#player));
    this.#writer.catch(() => { this.#writer = null; });
    const writer = await this.#writer;
    let text = prompt;
    for await (const piece of writer.generate(prompt, options)) {
      if (typeof prompt === "string") this.#hear("prediction", { text: text += piece, done: false });
      yield piece;
    }
  }

  /**
   * What the network gives for n samples, one after the other: { data, shape: [n, …] }. Of a program "predict" that takes
   * other things: what it gives for inputs by their names, or for its only one; several outputs by their names.
   */
  async predict(value) {
    const { predict, write } = this.#plan;
    if (write) {
      let text = value;
      for await (const piece of this.generate(String(value))) text += piece;
      return text;
    }
    if (!predict && this.#player.programs.includes("predict")) return this.#whole(() => this.#ask(value));
    if (!predict) throw new Error("This program was exported without a prediction.");
    const { inputs } = this.#player.document.programs[`predict.${predict.sizes[0]}`];
    const shape = inputs[0].shape.slice(1);
    const each = sizeOf(shape);
    if (typeof value === "string" || !value?.length || value.length % each) {
      const seen = typeof value === "string" ? "a text" : value?.length ?? "nothing";
      throw new Error(`predict: expected ${each} numbers a sample, of shape [${shape}], got ${seen}.`);
    }
    checkNumbers(value, inputs[0].dtype, "predict: value");
    return this.#whole(() => this.#predict(value, each));
  }

  /** Loss and metrics on the test data; null where there are none. */
  async evaluate() {
    return this.#whole(() => this.#evaluate(null));
  }

  /** The network as it was exported. */
  async reset() {
    await this.#still();
    this.#player.reset();
    this.#forget();
    this.#step = this.#epochs = 0;
    this.#feed = null;
    this.spec.trained = this.#player.document.spec.trained;
    await this.#keep(false);
    return this.#told();
  }

  /** Changes an option of the optimizer, from the next step on. */
  async set(name, value) {
    const control = this.spec.controls.find((each) => each.name === name);
    if (control && (typeof value !== "number" || !(control.low <= value && value <= control.high))) {
      throw new TypeError(`${name}: expected a number from ${control.low} to ${control.high}, got ${
        JSON.stringify(value) ?? value}.`);
    }
    this.#player.set(name, value);
    if (control) control.value = value;
    return this.#told();
  }

  /** The same network on another device, also between two steps of training. */
  async move(device) {
    this.#pausing = true;
    try {
      while (this.#running) await shortly();
      if (device !== "auto") await this.#player.move(device);
      await this.#keep(false);
    } finally {
      this.#pausing = false;
    }
    this.spec.device = deviceOf(this.#player);
    return this.#told();
  }

  /** The weights as a safetensors file, which Model.load reads. */
  async save() {
    return this.#whole(() => this.#player.save());
  }

  /** Takes over weights of `save`, or of Model.save: the bytes of a file, or its URL. */
  async load(weights, name, options = {}) {
    const url = typeof weights === "string" ? new URL(weights, document.baseURI).href : null;
    const bytes = url ? await fetched(url) : weights instanceof ArrayBuffer ? new Uint8Array(weights) : weights;
    await this.#still();
    this.#player.load(bytes, name ?? url ?? undefined, this.#fit(options));
    this.#forget();
    this.spec.trained = true;
    await this.#keep();
    return this.#told();
  }

  /** How weights must fit: as is said, or else as the program says. */
  #fit({ strict, rename }) {
    return { strict: strict ?? this.spec.strict, rename: rename ?? this.spec.rename };
  }

  /** Stops, and gives back what it holds of the device. */
  async close() {
    this.#closed = true;
    await this.#still();
    this.#player.close();
  }

  /** The Player beneath, for programs that need more. */
  get player() { return this.#player; }

  #told() {
    this.spec.step = this.#step;
    return this.spec;
  }

  /** What a text was read with is another now. */
  #forget() { this.#writer?.then((writer) => writer.forget()); }

  async #still() {
    this.stop();
    while (this.#training) await shortly();
  }

  /** Gives out steps until `end`; the losses are read a few steps later, while the device works. */
  async #run(feed, end, whole, tests) {
    const player = this.#player;
    const { size, metrics } = this.#plan.train;
    const main = Math.max(0, metrics.indexOf("loss")); // which of them is shown as the loss
    const asked = []; // readings on their way, each of the steps since the one before
    const meter = new Meter();
    const rest = metrics.filter((_, i) => i !== main);
    const sums = sumsOf("train", metrics);
    let epoch = { sums: sums.map(() => 0), samples: 0, values: {} };
    const told = () => ({
      ...Object.fromEntries(meansOf(epoch.sums).map((mean, i) => [metrics[i], mean])), ...epoch.values,
    });
    let [logs, since, looked] = [null, 0, performance.now()];
    player.restore("metric:train."); // what failed before may have left something
    const tell = async () => {
      const { totals, values, steps, step, number } = await asked.shift();
      meter.tick(step);
      totals.forEach(([v], i) => { epoch.sums[i] += v; });
      epoch.samples += steps * size;
      epoch.values = values;
      const means = meansOf(totals.map(([v]) => v));
      const [loss] = means.splice(main, 1);
      this.#hear("step", {
        loss, step, steps: end, epoch: number + 1, epochs: this.#epochsOf(feed, end), speed: meter.speed,
        metrics: { ...Object.fromEntries(rest.map((name, i) => [name, means[i]])), ...values },
      });
      if (!Number.isFinite(loss) && !meter.told) {
        meter.told = true;
        this.#hear("notice", { text: `The loss became ${loss} by step ${step}: try a lower learning rate.` });
      }
    };
    try {
      while (this.#step < end && !this.#stopping && !this.#pausing) {
        const number = this.#epochs;
        player.run("train", ...feed.next());
        this.#step++;
        since++;
        const ended = feed.batch === 0;
        if (ended || this.#step === end || since >= meter.every) {
          const [steps, step] = [since, this.#step];
          asked.push(this.#counted("train", sums).then((found) => ({ ...found, steps, step, number })));
          asked.at(-1).catch(() => {}); // it is awaited, or another error tells of it
          if (ended) player.restore("metric:train."); // after the reading
          else for (const name of sums) player.write(name, [0]);
          since = 0;
          while (asked.length > (ended || this.#step === end ? 0 : IN_FLIGHT)) await tell();
          if (performance.now() - looked > LOOK_MS) {
            await this.#look();
            looked = performance.now();
          }
        }
        if (ended) {
          this.#epochs++;
          logs = told();
          epoch = { sums: sums.map(() => 0), samples: 0, values: {} };
          const found = tests && !this.#stopping ? await this.#evaluate(feed.limit) : null;
          for (const [name, v] of Object.entries(found ?? {})) logs[`val_${name}`] = v;
          const lr = Object.entries(player.options).find(([name]) => tail(name) === "lr");
          if (lr) [, logs.lr] = lr;
          this.#hear("epoch", { epoch: this.#epochs, step: this.#step, ...logs });
        }
        if (!since && meter.copies(this.#step - this.#mark.step)) { // all sums are read: it may end here
          const start = performance.now();
          await this.#keep();
          meter.copied(performance.now() - start);
        }
      }
      while (asked.length) await tell();
      if (epoch.samples && !whole) logs = told();
      return logs;
    } catch (error) {
      while (asked.length) await asked.shift().catch(() => {});
      throw error;
    }
  }

  /** What the steps of "train" or "evaluate" came to: sums and what divides them, and metrics by their names. */
  async #counted(program, sums) {
    const player = this.#player;
    const { values = [] } = this.#plan[program];
    const asked = [player.tensors(sums)];
    if (values.length) {
      player.run(`${program}.metrics`);
      asked.push(player.results(`${program}.metrics`));
    }
    const [totals, found] = await Promise.all(asked);
    return { totals, values: Object.fromEntries(values.map((name) => [name, found[name].data[0]])) };
  }

  #epochsOf(feed, end) {
    return this.#epochs + Math.max(1, Math.ceil((end - this.#step + feed.batch) / feed.length));
  }

  /** What `work` gives, once more where the device was lost meanwhile. */
  async #whole(work) {
    const { runtime } = this.#player; // training may mend it before this hears of the loss
    try {
      return await work();
    } catch (error) {
      if (!runtime.lost) throw error;
      if (this.#training) await new Promise((done) => setTimeout(done)); // which mends it
      await this.#mend();
      return work();
    }
  }

  /** Opens a lost device anew, with the last copy of the model. */
  async #mend() {
    this.#mending ??= this.#reopened().finally(() => { this.#mending = null; });
    return this.#mending;
  }

  async #reopened() {
    if (!this.#player.runtime.lost) return;
    await this.#player.reopen();
    this.#forget();
    const { step, epochs, feed, at } = this.#mark;
    const undone = this.#step - step;
    [this.#step, this.#epochs] = [step, epochs];
    this.#feed?.go(this.#feed === feed ? at : undefined); // other data begin anew
    const back = undone ? `, ${undone} step${undone > 1 ? "s" : ""} before` : "";
    this.#hear("devicelost", {
      text: "The GPU was lost and has been opened again: the network goes on from its last copy, after " +
        `step ${step}${back}.`,
    });
  }

  /** Keeps a copy of the model on the host; of one that is as it was exported there is one already. */
  async #keep(changed = true) {
    const mark = { step: this.#step, epochs: this.#epochs, feed: this.#feed, at: this.#feed?.at() };
    if (changed) await this.#player.keep();
    this.#mark = mark;
  }

  async #ask(value) {
    const { inputs, outputs } = this.#player.document.programs.predict;
    const names = inputs.map(({ name }) => name);
    const byName = isPlain(value) && !ArrayBuffer.isView(value) && !(value.data && Array.isArray(value.shape));
    const given = byName ? value : { [names[0]]: value };
    const odd = Object.keys(given).find((name) => !names.includes(name)) ?? names.find((name) => !given[name]);
    if (odd !== undefined) {
      const what = odd in given && given[odd] ? `${odd} is none of them` : `${odd} is missing`;
      throw new Error(`predict: expected the inputs { ${names.join(", ")} }: ${what}.`);
    }
    this.#player.run("predict", ...names.map((name) => given[name]));
    const found = await this.#player.results("predict");
    return outputs.length === 1 ? found[outputs[0].name] : found;
  }

  async #predict(value, each) {
    const { sizes, atOnce } = this.#plan.predict;
    const count = value.length / each;
    const found = [];
    for (let at = 0; at < count;) {
      const left = count - at;
      const up = sizes.find((n) => n >= left); // one that takes all, if that is no waste
      const down = sizes.findLast((n) => n <= left);
      const fitting = up !== undefined && (up <= 8 * left || down === undefined) ? up : down;
      const size = atOnce ? Math.min(left, atOnce) : fitting;
      const take = Math.min(size, left);
      let part = value.slice(at * each, (at + take) * each);
      if (take < size) {
        const filled = new (numbersOf(this.#player.document.programs[`predict.${size}`].inputs[0].dtype))(size * each);
        filled.set(part);
        part = filled;
      }
      const name = atOnce ? "predict" : `predict.${size}`;
      this.#player.run(name, part);
      found.push([take, this.#player.results(name)]);
      at += take;
    }
    const parts = await Promise.all(found.map(async ([take, promise]) => ({ take, y: (await promise).y })));
    const shape = [count, ...parts[0].y.shape.slice(1)];
    const row = sizeOf(shape.slice(1));
    const data = new Float32Array(count * row);
    let to = 0;
    for (const { take, y } of parts) {
      data.set(y.data.subarray(0, take * row), to);
      to += take * row;
    }
    return { data, shape };
  }

  #evaluate(limit) {
    const done = this.#evaluating.then(() => this.#evaluated(limit));
    this.#evaluating = done.catch(() => {});
    return done;
  }

  async #evaluated(limit) {
    const { evaluate } = this.#plan;
    const test = (await this.#takeData())?.test;
    if (!evaluate || !test) return null;
    const player = this.#player;
    player.restore("metric:test.");
    const count = Math.min(limit ?? test.length, test.length);
    const sizes = [...evaluate.sizes].sort((a, b) => b - a);
    let at = 0;
    for (let size; (size = sizes.find((n) => n <= count - at));) {
      const rows = Array.from({ length: size }, (_, i) => at + i);
      player.run(`evaluate.${size}`, test.x.take(rows), test.y.take(rows));
      at += size;
    }
    if (!at) return null; // fewer than it was exported for
    const { totals, values } = await this.#counted("evaluate", sumsOf("test", evaluate.metrics));
    const means = meansOf(totals.map(([v]) => v));
    return { ...Object.fromEntries(means.map((mean, i) => [evaluate.metrics[i], mean])), ...values };
  }

  /** Tells what the network makes of the samples. */
  async #look() {
    if (!this.#samples || !this.#plan.predict) return;
    const { data, shape } = await this.predict(this.#samples);
    const row = sizeOf(shape.slice(1));
    const predictions = Array.from({ length: shape[0] }, (_, i) => (
      Array.from(data.subarray(i * row, (i + 1) * row))));
    this.#hear("samples", { predictions });
  }

  async #takeSamples([x, y]) {
    const file = decode(await this.#file("samples.safetensors"), "samples.safetensors");
    if (!y) {
      this.spec.points = file.get(x.tensor).data;
      return;
    }
    const inputs = new Column(x, file, "float32");
    const labels = y.shape.length ? null : new Column(y, file, "int32");
    const all = Array.from({ length: inputs.length }, (_, i) => i);
    this.#samples = inputs.take(all).slice();
    this.spec.samples = all.map((i) => ({
      data: inputs.take([i]).slice(), label: labels ? labels.take([i])[0] : -1,
    }));
  }

  async #file(name) {
    return this.#player.files.read(name, this.#player.document.files[name]);
  }

  /** The data that were exported too. */
  #takeData() {
    this.#data ??= this.#loadData().catch((error) => {
      this.#data = null;
      throw error;
    });
    return this.#data;
  }

  async #loadData() {
    const { data, programs, files } = this.#player.document;
    if (!files["data.safetensors"]) return null;
    const tensors = decode(await this.#file("data.safetensors"), "data.safetensors");
    const part = (about, program) => {
      if (!about || !program) return null;
      const [x, y] = program.inputs.map(({ dtype }, i) => new Column(about[i], tensors, dtype));
      return { x, y, length: x.length };
    };
    const test = programs[`evaluate.${this.#plan.evaluate?.sizes[0]}`];
    return { train: part(data.train, programs.train), test: part(data.test, test) };
  }

  /** What gives the batches: where it was left, if it is of the same data. */
  async #feedFor(limit, points) {
    const given = points ? null : this.#given;
    const key = points ? `points ${Array.from(points)}` : `data ${limit}`;
    if (this.#feed?.key === key && this.#feed.given === given) return this.#feed;
    const { size } = this.#plan.train;
    const train = given ?? (await this.#takeData())?.train;
    let feed;
    if (points) {
      if (!points.length) throw new Error("There are no points to learn from: put some.");
      const { inputs } = this.#player.document.programs.train;
      feed = new Feed(key, pointsAs(points, inputs), size, train?.length ?? POINTS_EPOCH * size, null);
    } else {
      if (!train) {
        throw new Error("This program was exported without data to learn from: give it some, as train({ x, y }) does.");
      }
      feed = new Feed(key, train, size, Math.min(limit ?? train.length, train.length), limit);
    }
    feed.given = given;
    this.#feed = feed;
    return feed;
  }
}

function shortly() {
  return new Promise((done) => setTimeout(done, 5));
}

/** Of a spec: where a player runs, what that is called, and where else it could. */
function deviceOf({ device, devices, runtime }) {
  const { vendor, architecture, device: model, description, software } = runtime.info;
  const name = description || [vendor, architecture, model].filter(Boolean).join(" ") || "WebGPU";
  return { kind: device, name, software, choices: devices };
}

async function fetched(url, signal) {
  return took(await fetch(url, { signal }), url);
}

/** How fast steps are, which says how often losses are read and the model is copied. */
class Meter {
  every = 1; // steps between two readings
  speed = 0; // steps a second
  told = false; // of a loss that is no number
  #first = null; // reading: before it, kernels were made
  #last = null;
  #due = 0; // before which there is no copy

  /** A reading of `step` has come. */
  tick(step) {
    const now = performance.now();
    if (!this.#first) {
      this.#first = this.#last = { step, now };
      return;
    }
    const each = (now - this.#last.now) / Math.max(1, step - this.#last.step);
    const fitting = Math.round(READ_MS / Math.max(each, 0.01));
    this.every = Math.max(1, Math.min(MOST_STEPS, 2 * this.every, fitting));
    this.#last = { step, now };
    this.speed = (1000 * (step - this.#first.step)) / Math.max(now - this.#first.now, 1);
  }

  /** Whether a copy is due, `steps` after the last one. */
  copies(steps) {
    return steps >= COPY_STEPS && performance.now() >= this.#due;
  }

  copied(ms) {
    this.#due = performance.now() + ms / COPY_SHARE;
  }
}

/** An array of the data, of which batches are taken. */
class Column {
  #data;
  #values; // what its bytes stand for; null: themselves
  #each;
  #batch = null;
  #Kind;

  constructor({ tensor, shape, values }, tensors, dtype) {
    this.#data = tensors.get(tensor).data;
    this.#values = values ? tensors.get(values).data : null;
    this.#each = sizeOf(shape);
    this.length = this.#data.length / this.#each;
    this.#Kind = numbersOf(dtype);
  }

  /** Rows one after the other, in an array that the next call fills again. */
  take(rows) {
    const [data, values, each] = [this.#data, this.#values, this.#each];
    const n = rows.length * each;
    if (this.#batch?.length !== n) this.#batch = new this.#Kind(n);
    const batch = this.#batch;
    let to = 0;
    for (const row of rows) {
      const from = row * each;
      if (values) for (let i = 0; i < each; i++) batch[to++] = values[data[from + i]];
      else for (let i = 0; i < each; i++) batch[to++] = data[from + i];
    }
    return batch;
  }
}

/** (x, y, class) triples as columns, each as the program takes it. */
function pointsAs(points, inputs) {
  const n = points.length / 3;
  const targets = inputs[1].shape;
  const each = sizeOf(targets.slice(1)); // numbers a target: its class, or one for each class
  const x = new Float32Array(2 * n);
  const y = new (numbersOf(inputs[1].dtype))(n * each);
  for (let i = 0; i < n; i++) {
    x.set([points[3 * i], points[3 * i + 1]], 2 * i);
    if (each === 1) y[i] = points[3 * i + 2];
    else y[i * each + points[3 * i + 2]] = 1;
  }
  const tensors = new Map([["x", { data: x }], ["y", { data: y }]]);
  return {
    x: new Column({ tensor: "x", shape: [2] }, tensors, inputs[0].dtype),
    y: new Column({ tensor: "y", shape: targets.slice(1) }, tensors, inputs[1].dtype),
    length: n,
  };
}

/** Samples and targets that a page gives, as columns. */
function givenAs(given, inputs) {
  const [x, y] = given.map((data, i) => {
    const { name, shape, dtype } = inputs[i];
    const each = sizeOf(shape.slice(1));
    if (!data?.length || data.length % each) {
      throw new Error(`train: expected ${each} numbers a sample in ${name}, of shape [${shape.slice(1)}], got ${
        data?.length ?? "nothing"}.`);
    }
    checkNumbers(data, dtype, `train: ${i ? "y" : "x"}`);
    return new Column({ tensor: name, shape: shape.slice(1) }, new Map([[name, { data: numbersOf(dtype).from(data, Number) }]]), dtype);
  });
  if (x.length !== y.length) throw new Error(`train: got ${x.length} samples and ${y.length} targets; expected as many.`);
  return { x, y, length: x.length };
}

/** Batches in an order that is another in each epoch. The last is filled up with the first samples. */
class Feed {
  batch = 0; // of this epoch, that comes next
  #data;
  #size;
  #count; // of samples in an epoch
  #epoch = 0;
  #order = null;

  constructor(key, data, size, count, limit) {
    this.key = key;
    this.limit = limit;
    this.length = Math.ceil(count / size);
    [this.#data, this.#size, this.#count] = [data, size, count];
  }

  /** The inputs of the next step. */
  next() {
    const order = (this.#order ??= shuffled(this.#count, this.#epoch));
    const rows = Array.from({ length: this.#size }, (_, i) => (
      order[(this.batch * this.#size + i) % this.#count] % this.#data.length));
    if (++this.batch === this.length) this.go({ epoch: this.#epoch + 1, batch: 0 });
    return [this.#data.x.take(rows), this.#data.y.take(rows)];
  }

  at() {
    return { epoch: this.#epoch, batch: this.batch };
  }

  go({ epoch, batch } = { epoch: 0, batch: 0 }) {
    if (epoch !== this.#epoch) this.#order = null;
    [this.#epoch, this.batch] = [epoch, batch];
  }
}

/** The numbers below `count` in an order that depends on `seed` alone. */
function shuffled(count, seed) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let state = Math.imul(seed + 1, 0x9e3779b9) >>> 0;
  for (let i = count - 1; i > 0; i--) { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    const k = Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * (i + 1));
    [order[i], order[k]] = [order[k], order[i]];
  }
  return order;
}
