// The GPU for Python in a worker, so that Python can read from it by whichever way there is:
//
//   - JSPI lets Python wait for a promise. The GPU is in Python's own worker.
//   - Without JSPI a cross-origin isolated page has shared memory. The GPU is then in another worker,
//     which answers there while Python's worker blocks; this costs a message for each step.
//   - Else Python can't wait, and its user writes `await`.
//
//   self.pyframeRuntime = await createRuntimeFor({ reading: config.reading });   // before Pyodide is loaded

import { createRuntime, named } from "./runtime.js";

const GPU_WORKER = "pyframe-gpu"; // the name of the other worker, which runs this file too; bundlers want it spelt out there
const RUNS = 16; // sets of buffers of a program that are known to have their bind groups
const PENDING = 1 << 24; // bytes of uploads that wait for a run, at most
const KEPT = 1 << 16; // bytes of shared memory that are kept for answers

// What lies in the shared memory that tells what happens: 32-bit words, then a text.
const [STATE, SIZE, LOSSES, LOSS_BYTES] = [0, 1, 2, 3];
const TEXT_AT = 16;
const TEXT_BYTES = 1008;
const [WAITING, BYTES, DATA, ERROR, MORE] = [0, 1, 2, 3, 4]; // states

/**
 * A Runtime (see runtime.js), or what stands for one in another worker; null without a GPU: then
 * `self.pyframeNoGPU` says why. `reading` forces a way: "jspi", "shared" or "await".
 */
export async function createRuntimeFor({ reading = "auto", ...options } = {}) {
  if (reading === "shared" || reading === "await") { // as in a browser that lacks it
    delete WebAssembly.Suspending;
    delete WebAssembly.promising;
  }
  const shared = self.crossOriginIsolated && "WorkerGlobalScope" in self; // a page itself may not block
  const asked = reading === "shared" || (reading === "auto" && !("Suspending" in WebAssembly));
  self.pyframeNoGPU = null;
  const kept = keptOfGPUs();
  try {
    const remote = shared && asked ? await Link.open(options) : null;
    const runtime = remote ?? await createRuntime(options);
    if (!runtime) self.pyframeNoGPU = missing();
    const never = new Promise((done) => setTimeout(done, 1000, null)); // some browsers' database hangs
    self.pyframeTuned = await Promise.race([kept, never]);
    return runtime;
  } catch (error) {
    self.pyframeNoGPU = `the browser refuses its GPU (${error.message}); ` +
      "reload the page, or restart the browser";
    return null;
  }
}

/**
 * What pyframe/backend/browser.py keeps of GPUs by name, in IndexedDB: `recall(name)` and
 * `remember(name, text)`, which resolves when it is there. Null where this origin keeps nothing.
 */
async function keptOfGPUs() {
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  try {
    const open = () => {
      const opening = indexedDB.open("pyframe", 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("tuned");
      return done(opening);
    };
    let db = await open();
    const store = (mode) => db.transaction("tuned", mode).objectStore("tuned");
    const [names, texts] = await Promise.all([done(store("readonly").getAllKeys()), done(store("readonly").getAll())]);
    const kept = new Map(names.map((name, i) => [name, texts[i]]));
    const put = async (name, text) => done(store("readwrite").put(text, name));
    return {
      recall: (name) => kept.get(name) ?? "",
      remember: async (name, text) => {
        kept.set(name, text);
        try {
          await put(name, text).catch(async () => { // the browser closes it where a visitor clears its data
            db = await open();
            await put(name, text);
          });
        } catch {} // the disk is full
      },
    };
  } catch {
    return null;
  }
}

/** Why there is no adapter, and what to do. */
function missing() {
  if (!self.isSecureContext) return "browsers give the GPU to pages from https:// and localhost alone";
  if (!navigator.gpu) {
    return "this browser has no WebGPU; the newest Chrome, Edge, Firefox and Safari have it";
  }
  return "the browser offers no GPU: it may be switched off in its settings (hardware acceleration), " +
    "or its driver is too old";
}

/** The way from Python's worker to the GPU's: what is asked goes in messages, and answers come by
 * messages or, where Python waits for them, through shared memory. */
class Link {
  #worker;
  #control = new Int32Array(new SharedArrayBuffer(TEXT_AT + TEXT_BYTES));
  #answer = new Uint8Array(new SharedArrayBuffer(KEPT));
  #calls = []; // not sent yet: [method, …arguments]
  #pending = 0; // bytes of uploads among them
  #promised = new Map(); // ticket -> { resolve, reject }
  #ticket = 0;
  hear = () => {}; // called with { done, total } as pipelines are made

  /** A Remote in a new worker; null where that can't be had, or has no GPU. */
  static async open(options) {
    let worker;
    try {
      worker = new Worker(new URL("./remote.js", import.meta.url), { type: "module", name: "pyframe-gpu" });
    } catch { // a page from a file, or one without an origin of its own
      return null;
    }
    const link = new Link(worker);
    const broken = new Promise((resolve) => { worker.onerror = () => resolve(null); });
    let what = null;
    try {
      what = await Promise.race([link.promise("open", options, link.#control.buffer), broken]);
    } finally {
      if (!what) worker.terminate();
    }
    return what && new Remote(link, what, 0);
  }

  constructor(worker) {
    this.#worker = worker;
    worker.onmessage = ({ data: { ticket, value, error, progress } }) => {
      if (progress) return this.hear(progress);
      const { resolve, reject } = this.#promised.get(ticket);
      this.#promised.delete(ticket);
      if (error) reject(Object.assign(new Error(error.message), error));
      else resolve(value);
    };
  }

  /** How many devices were lost so far. */
  get losses() {
    return Atomics.load(this.#control, LOSSES);
  }

  /** Why the last one was. */
  get loss() {
    const size = Atomics.load(this.#control, LOSS_BYTES);
    return decode(new Uint8Array(this.#control.buffer, TEXT_AT, size));
  }

  /** Calls a method there, together with the next one that can't wait. */
  later(...call) {
    if (this.#calls.push(call) === 1) queueMicrotask(() => this.send());
  }

  /** `later` for a call with an upload of so many bytes. */
  upload(nbytes, ...call) {
    this.later(...call);
    this.#pending += nbytes;
    if (this.#pending > PENDING) this.send();
  }

  /** Sends what waits, in one message. */
  send(finish = null) {
    if (!this.#calls.length && !finish) return;
    const uploads = this.#calls.filter(([method]) => method === "write").map((call) => call[2].buffer);
    this.#worker.postMessage({ calls: this.#calls, finish }, uploads);
    this.#calls = [];
    this.#pending = 0;
  }

  /** Asks: the promise of an answer. */
  promise(...call) {
    return new Promise((resolve, reject) => {
      this.#promised.set(++this.#ticket, { resolve, reject });
      this.later("promise", this.#ticket, ...call);
      this.send();
    });
  }

  /** Asks: a ticket for `finish`. */
  begin(...call) {
    this.later("begin", ++this.#ticket, ...call);
    return this.#ticket;
  }

  /** Blocks until what was begun is done: the answer. */
  finish(ticket) {
    for (;;) {
      Atomics.store(this.#control, STATE, WAITING);
      this.send({ ticket, into: this.#answer });
      Atomics.wait(this.#control, STATE, WAITING);
      const size = Atomics.load(this.#control, SIZE);
      const state = Atomics.load(this.#control, STATE);
      if (state === MORE) {
        this.#answer = new Uint8Array(new SharedArrayBuffer(size));
        continue;
      }
      const bytes = this.#answer.slice(0, size); // a copy in memory that is not shared
      if (size > KEPT) this.#answer = new Uint8Array(new SharedArrayBuffer(KEPT));
      if (state === BYTES) return bytes;
      const value = JSON.parse(decode(bytes));
      if (state === ERROR) throw Object.assign(new Error(value.message), value);
      return value;
    }
  }

  /** Blocks until a call is answered. */
  ask(...call) {
    return this.finish(this.begin(...call));
  }
}

let nextId = 1; // ids are never used twice, by no Remote

/** What stands in Python's worker for a Runtime in another one; its methods are the Runtime's. What is
 * wrong with a call that gives nothing is told by the next read. */
class Remote {
  #link;
  #index; // of its device among those that were lost
  #programs = new Map(); // id -> { runs, submits }: the buffers of its last runs, and its submits
  #lost = null;

  constructor(link, { info, limits, features }, index) {
    this.#link = link;
    this.#index = index;
    this.info = info;
    this.limits = limits;
    this.features = features;
    this.next = null;
    this.oncompile = null;
    link.hear = (progress) => this.oncompile?.(progress);
  }

  get lost() {
    if (this.#lost === null && this.#link.losses > this.#index) this.#lost = this.#link.loss;
    return this.#lost;
  }

  alloc(nbytes) { return this.#make("alloc", nbytes); }
  slice(id, offset, nbytes) { return this.#make("slice", id, offset, nbytes); }
  free(id) { this.#link.later("free", id); }
  copy(target, source, nbytes) { this.#do("copy", target, source, nbytes); }
  mark(id) { this.#do("mark", id); }

  write(id, data) {
    this.#use();
    const copy = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
    this.#link.upload(copy.byteLength, "write", id, copy);
  }

  load(...program) {
    const id = this.#make("load", ...program);
    this.#programs.set(id, { runs: new Set(), submits: 0 });
    return id;
  }

  replace(id, ...kernels) { this.#do("replace", id, ...kernels); }
  skip(code) { return this.#link.ask("skip", code); }
  again(ticket) { return this.#link.promise("again", ticket); }

  unload(id) {
    this.#programs.delete(id);
    this.#link.later("unload", id);
  }

  /** As Runtime's. Only where bind groups may have to be made it waits, to know how many. */
  run(id, ids, params, grids = null) {
    this.#use();
    const program = this.#programs.get(id);
    const key = ids.join();
    if (program?.runs.delete(key)) {
      program.runs.add(key); // and last again: the first one is the next to go
      this.#link.later("run", id, ids, params, grids);
      this.#link.send();
      return [0, program.submits];
    }
    const [built, submits] = this.#link.ask("run", id, ids, params, grids);
    program.submits = submits;
    if (program.runs.add(key).size > RUNS) program.runs.delete(program.runs.values().next().value);
    return [built, submits];
  }

  read(ids, sizes) { return this.#link.promise("read", ids, sizes); }
  profile(...run) { return this.#link.promise("profile", ...run); }
  compile(codes, labels) { return this.#link.promise("compile", codes, labels); }
  async reopen() { return this.#renew(await this.#link.promise("reopen")); }
  codes() { return this.#link.ask("codes"); }
  stats() { return this.#link.ask("stats"); }
  failed() { return this.#link.ask("failed"); }

  destroy() {
    this.#link.later("destroy");
    this.#link.send();
  }

  /** Begins `read`, `profile`, `again` or `reopen`: a ticket for `finish`, for who can't wait for a promise. */
  begin(name, ...args) {
    const ticket = this.#link.begin(name, ...args);
    this.#link.send();
    return { ticket, name };
  }

  /** Blocks until what was begun is done: what the promise would give. */
  finish({ ticket, name }) {
    const value = this.#link.finish(ticket);
    return name === "reopen" ? this.#renew(value) : value;
  }

  #renew(what) {
    if (!what || this.next) return this.next;
    this.next = new Remote(this.#link, what, this.#index + 1);
    this.next.oncompile = this.oncompile;
    return this.next;
  }

  #do(...call) {
    this.#use();
    this.#link.later(...call);
  }

  /** Has something made there: its number here. */
  #make(method, ...args) {
    this.#do(method, nextId, ...args);
    return nextId++;
  }

  #use() {
    if (this.lost !== null) throw named("DeviceLostError", `the GPU device was lost: ${this.lost}`);
  }
}

/** The other end: a Runtime that does what the messages say, in their order. */
class Host {
  #control;
  #runtime;
  #numbers = new Map(); // what the other side calls a buffer or program -> the Runtime's number
  #newest = 0; // the last of these names
  #gone = 0; // those up to this one were on a lost device
  #begun = new Map(); // ticket -> promise of what `finish` asks for
  #errors = []; // of calls that gave nothing: the next read throws the first

  /** Does what a message says; nothing in it waits. */
  hear({ calls, finish }) {
    for (const [method, ...args] of calls) {
      try {
        this[method](...args);
      } catch (error) {
        this.#errors.push(error);
      }
    }
    this.#look();
    if (finish) this.#finish(finish);
  }

  promise(ticket, ...call) {
    this.#answer(...call).then((value) => {
      self.postMessage({ ticket, value }, value instanceof Uint8Array ? [value.buffer] : []);
    }, (error) => self.postMessage({ ticket, error: plain(error) }));
  }

  begin(ticket, ...call) {
    const answer = this.#answer(...call);
    answer.catch(() => {}); // told by `finish`
    this.#begun.set(ticket, answer);
  }

  alloc(id, nbytes) { this.#name(id, () => this.#runtime.alloc(nbytes)); }
  slice(id, whole, ...part) { this.#name(id, () => this.#runtime.slice(this.#number(whole), ...part)); }
  load(id, ...program) { this.#name(id, () => this.#runtime.load(...program)); }
  free(id) { this.#runtime.free(this.#forget(id)); }
  replace(id, ...kernels) { this.#runtime.replace(this.#number(id), ...kernels); }
  unload(id) { this.#runtime.unload(this.#forget(id)); }
  write(id, data) { this.#runtime.write(this.#number(id), data); }
  mark(id) { this.#runtime.mark(this.#number(id)); }
  copy(target, source, nbytes) { this.#runtime.copy(this.#number(target), this.#number(source), nbytes); }
  run(id, ids, ...rest) { return this.#runtime.run(this.#number(id), this.#those(ids), ...rest); }
  destroy() { this.#runtime.destroy(); }

  /** Has something made that the other side calls `id`, a name that is taken even where this fails. */
  #name(id, made) {
    this.#newest = id;
    this.#numbers.set(id, made());
  }

  #forget(id) {
    const number = this.#numbers.get(id);
    this.#numbers.delete(id);
    return number;
  }

  /** The Runtime's number for what the other side calls `id`. */
  #number(id) {
    const number = this.#numbers.get(id);
    if (number !== undefined) return number;
    if (id <= this.#gone) throw named("DeviceLostError", `buffer ${id} was on a lost device`);
    throw new Error(`buffer ${id} does not exist, or was freed`);
  }

  #those(ids) {
    return Int32Array.from(ids, (id) => this.#number(id));
  }

  #asked = {
    open: async (options, control) => {
      this.#control = new Int32Array(control);
      this.#runtime = await createRuntime(options);
      if (this.#runtime) this.#runtime.oncompile = (progress) => self.postMessage({ progress });
      return this.#runtime && this.#describe();
    },
    read: async (ids, sizes) => {
      this.#told();
      return await this.#runtime.read(this.#those(ids), sizes);
    },
    profile: async (id, ids, ...rest) => {
      this.#told();
      return await this.#runtime.profile(this.#number(id), this.#those(ids), ...rest);
    },
    reopen: async () => {
      const lost = this.#runtime;
      const next = lost.lost ? await lost.reopen() : lost;
      if (!next) return null;
      if (this.#runtime !== next) { // it may have been asked for twice
        this.#runtime = next;
        this.#gone = this.#newest;
        this.#numbers.clear();
        this.#errors = [];
      }
      return this.#describe();
    },
    run: async (...args) => this.run(...args),
    again: async (ticket) => this.#runtime.again(ticket),
    skip: async (code) => this.#runtime.skip(code),
    compile: async (...args) => this.#runtime.compile(...args),
    codes: async () => this.#runtime.codes(),
    stats: async () => this.#runtime.stats(),
    failed: async () => {
      const failed = new Set(this.#runtime.failed());
      return [...this.#numbers].filter(([, number]) => failed.has(number)).map(([id]) => id);
    },
  };

  /** The promise of an answer. The Runtime is asked at once, in the order of the calls. */
  async #answer(method, ...args) {
    try {
      return await this.#asked[method](...args);
    } finally {
      this.#look();
    }
  }

  /** Throws what went wrong since the last read. */
  #told() {
    const [first] = this.#errors; // the others follow from it
    this.#errors = [];
    if (first) throw first;
  }

  #describe() {
    const { info, limits, features } = this.#runtime;
    return { info, limits, features };
  }

  #counted = null; // the Runtime whose loss is told already

  /** Tells the other side of a loss, once. */
  #look() {
    const lost = this.#runtime?.lost;
    if (!lost || this.#counted === this.#runtime) return;
    this.#counted = this.#runtime;
    const text = new TextEncoder().encode(lost).slice(0, TEXT_BYTES);
    new Uint8Array(this.#control.buffer, TEXT_AT).set(text);
    Atomics.store(this.#control, LOSS_BYTES, text.length);
    Atomics.add(this.#control, LOSSES, 1);
  }

  /** Lays the answer into shared memory and wakes who waits for it. */
  async #finish({ ticket, into }) {
    let state = BYTES;
    let bytes;
    try {
      const value = await this.#begun.get(ticket);
      if (!(value instanceof Uint8Array)) state = DATA;
      bytes = state === BYTES ? value : encode(value);
    } catch (error) {
      state = ERROR;
      bytes = encode(plain(error));
    }
    if (bytes.length > into.length) {
      state = MORE; // it asks again
    } else {
      into.set(bytes);
      this.#begun.delete(ticket);
    }
    Atomics.store(this.#control, SIZE, bytes.length);
    Atomics.store(this.#control, STATE, state);
    Atomics.notify(this.#control, STATE);
  }
}

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));
const decode = (shared) => new TextDecoder().decode(shared.slice()); // it takes no shared memory

/** An error as data. */
function plain(error) {
  return { bytes: 0, ...error, name: error.name, message: error.message };
}

if (self.name === GPU_WORKER) {
  const host = new Host();
  self.onmessage = ({ data }) => host.hear(data);
}
