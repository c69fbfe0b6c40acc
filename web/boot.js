// Brings Python into a worker: Pyodide, NumPy, pyframe and the GPU, all fetched and compiled at the same time.
// What came is kept, and after the first start Python's memory too (see snapshot.js): the next start takes that.
//
//   const { python } = await boot({ config, base }, (event, detail) => …);   // "progress" { text, fraction }
//
// `config` is the server's config.json, `base` the URL that its paths are relative to. Afterwards NumPy and
// pyframe can be imported, and self.pyframeRuntime is the GPU's runtime where the browser has WebGPU. Nothing that
// is kept can break a start: if one with it fails, it is forgotten, and the start is made without it.

import { createRuntimeFor } from "./remote.js";
import { VERSIONS, deserialize, freeze, read, store, thaw } from "./snapshot.js";
import { Files, canKeep, digestOf, forget, fromHex, keep, kept, newest } from "./store.js";
import { gunzip, unpack } from "./tar.js";

const FORMAT = 2; // of what is kept; another one makes older ones void
const IMPORT = 120_000; // ms for a script
const EMPTY = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0); // the smallest WebAssembly module
const PARTS = ["pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"]; // of Pyodide
// What every start imports, and a snapshot has.
const MODULES = ["numpy", "pyframe", "pyframe.nn", "pyframe.optim", "pyframe.data", "pyframe.vision", "pyframe.web.worker"];
const FOR_GPUS = ["pyframe.codegen.wgsl.sharing", "pyframe.runtime.host"]; // the same, where there is one
// What must not be the same at each visit, and what Python knows of the files' times.
const AWAKE = `
import random, sys
from importlib.machinery import FileFinder
import numpy, pyframe
random.seed()
numpy.random.seed()
pyframe.seed()
for finder in sys.path_importer_cache.values():
    if isinstance(finder, FileFinder):
        finder.invalidate_caches()
`;

/** A promise whose failure is told where it is awaited, later. */
const quiet = (promise) => {
  promise.catch(() => {});
  return promise;
};

let gpu = null; // promise of the Runtime
let digest = null; // promise of that of pyframe's package
let tries = 0;

/**
 * Loads Python: resolves to { python, report }, with Pyodide's API. The report says which files came over the
 * network and which were kept, and of the snapshot "used", "made", or why there is none; `stored` is a promise of
 * whether it was kept for the next time. After an error it can be called again.
 */
export async function boot(options, hear = () => {}) {
  try {
    new WebAssembly.Instance(new WebAssembly.Module(EMPTY)); // WebKit refuses the one, others the other
  } catch {
    throw new Error("This page's Content-Security-Policy forbids WebAssembly, and Python needs it: add " +
      "'wasm-unsafe-eval' to script-src.");
  }
  for (let without = ""; ;) {
    const start = new Start(options, hear, without);
    try {
      return await start.run();
    } catch (error) {
      if (/^(Load|Integrity)Error$/.test(error.name) || !await start.forget()) throw start.told(error);
      without = `failed: ${error.message}`;
    }
  }
}

/** One try to start Python. */
class Start {
  #at;
  #config;
  #hear;
  #files;
  #index; // Pyodide's folder
  #frozen; // the snapshot's address
  #trial; // that of a note that a start with it is under way
  #early; // promise of the snapshot that is there, which may be too old
  #told = -1;
  #version = ""; // of Pyodide
  #report;

  /** `without` says why no snapshot is to be used. */
  constructor({ config, base }, hear, without = "") {
    this.#at = (path) => new URL(path, base).href;
    this.#config = config;
    this.#hear = hear;
    this.#index = this.#at(config.pyodide);
    // Pages of a site may differ in how Python waits there: each way has a snapshot, so that none replaces another's.
    const way = [config.reading ?? "auto", "Suspending" in WebAssembly, self.crossOriginIsolated].join("-");
    this.#frozen = this.#at(`pyframe-snapshot-${way}`);
    this.#trial = this.#at(`pyframe-trial-${way}`);
    this.#files = new Files(config.integrity, base, (received, total) => this.#received(received, total));
    const { network, kept } = this.#files;
    this.#report = { network, kept, snapshot: without, stored: Promise.resolve(false) };
  }

  /** Forgets the snapshot, or without one the files, if this start took them from what is kept; whether it did. */
  async forget() {
    const used = this.#report.snapshot === "used" ? [this.#frozen, this.#trial] : this.#files.kept;
    await Promise.all(used.map(forget));
    return used.length > 0;
  }

  /** An error, which tells too where Pyodide is another than these pages are made for. */
  told(error) {
    if (!this.#version || VERSIONS.includes(this.#version)) return error;
    const made = `This page is made for Pyodide ${VERSIONS.at(-1)}, and what lies there is ${this.#version}.`;
    return Object.assign(new Error(`${error.message} ${made}`, { cause: error }), { name: error.name });
  }

  async run() {
    this.#say("Loading Python", 0);
    for (const name of PARTS) this.#files.expect(this.#index + name);
    gpu = quiet(this.#openGPU());
    this.#early = quiet(this.#read());
    const pyframe = quiet(this.#package());
    digest = quiet(pyframe.then((found) => found.digest));
    const pyodide = quiet(this.#import("pyodide.mjs"));
    const script = quiet(this.#script(pyodide));
    const { loadPyodide, version } = await pyodide;
    this.#version = version;
    const compiled = quiet(this.#compile(version));
    const [stdlib, lock] = PARTS.slice(1).map((name) => quiet(this.#part(name, version)));

    const { info, numpy: { file_name: wheel, sha256 } } = this.#locked(await lock, version);
    const site = `/lib/python${info.python.split(".", 2).join(".")}/site-packages`;
    const mark = await this.#mark(version, sha256, await digest);
    const snapshot = mark && !this.#report.snapshot ? await this.#thawed(mark) : null;
    const numpy = snapshot ? null : quiet(this.#files.get(new URL(wheel, this.#index).href, { digest: fromHex(sha256) }));
    const files = snapshot ? null : quiet(pyframe.then(({ bytes }) => gunzip(bytes)));
    const [create, code, ...given] = await Promise.all([script, compiled, stdlib, lock, numpy, pyframe]);

    this.#say("Starting Python");
    const python = await this.#load(loadPyodide, create, code, given, snapshot);
    if (snapshot) {
      python.runPython(AWAKE);
      await forget(this.#trial);
    } else {
      this.#say("Starting pyframe");
      unpack(await files, python.FS, site);
      python.unpackArchive(await numpy, "wheel", { extractDir: site });
      for (const name of await gpu ? [...MODULES, ...FOR_GPUS] : MODULES) python.pyimport(name).destroy();
      if (mark) this.#freeze(python, mark);
    }
    Object.assign(python.loadedPackages, { numpy: "default channel", pyframe: "default channel" });
    const { late, integrity } = this.#config; // what few programs need comes when it is imported
    if (late) python.pyimport("pyframe.web.late").install(this.#at(late), integrity?.[late]);
    this.#say("Looking for a GPU");
    await gpu;
    return { python, report: this.#report };
  }

  // --- parts

  async #openGPU() {
    if (self.pyframeRuntime && !self.pyframeRuntime.lost) return self.pyframeRuntime; // of a try before
    const runtime = await createRuntimeFor({ reading: this.#config.reading });
    if (runtime) self.pyframeRuntime = runtime;
    return runtime;
  }

  /** A script of Pyodide's. A second try has another address, as modules that failed stay failed. */
  async #import(name) {
    const url = this.#index + name;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came for ${IMPORT / 1000} seconds`)), IMPORT);
    });
    try {
      return await Promise.race([import(/* webpackIgnore: true */ /* @vite-ignore */ tries ? `${url}#${tries}` : url), late]);
    } catch (error) {
      tries += 1;
      throw Object.assign(new Error(`Python can't be had from ${this.#index}: ${name} is missing there, or the page's ` +
        "Content-Security-Policy forbids it (script-src). Without internet, scripts/get_pyodide puts a copy beside " +
        `the page once and for all. (${error.message})`), { name: "LoadError" });
    } finally {
      clearTimeout(timer);
    }
  }

  /** The code around Pyodide's: what makes its module, from version 314 on; before that a global does. */
  async #script(pyodide) {
    const old = this.#files.digest(`${this.#index}pyodide.asm.mjs`) ? null : quiet(this.#import("pyodide.asm.js"));
    const { version } = await pyodide;
    return (parseInt(version) < 314 ? await old : await this.#import("pyodide.asm.mjs"))?.default;
  }

  /** A file of Pyodide's folder, which is the same for a version. */
  #part(name, version, arrives = null) {
    const url = this.#index + name;
    return this.#files.get(url, { mark: this.#files.digest(url) ?? version, arrives });
  }

  /** Pyodide's code, compiled while it comes. */
  #compile(version) {
    return new Promise((resolve, reject) => {
      const refuse = ({ message }) => reject(this.#broken(PARTS[0], message));
      const arrives = (response) => WebAssembly.compileStreaming(response).then(resolve, refuse);
      this.#part(PARTS[0], version, arrives).catch(reject);
    });
  }

  /** What a lock file says of Pyodide and of its NumPy. */
  #locked(bytes, version) {
    try {
      const { info, packages: { numpy } } = JSON.parse(new TextDecoder().decode(bytes));
      if (VERSIONS.includes(version) && info.version !== version) throw new Error(`it is of ${info.version}`);
      if (!numpy) throw new Error("it names no NumPy");
      return { info, numpy };
    } catch ({ message }) {
      throw this.#broken(PARTS[2], message);
    }
  }

  /** An error about files of Pyodide's that are not what they are to be. */
  #broken(name, why) {
    return new Error(`${name} in ${this.#index} is damaged, or of another Pyodide (${why}). All files there are to be ` +
      "of one version: scripts/get_pyodide gets them.");
  }

  /** pyframe's package, and its digest. */
  async #package() {
    const url = this.#at(this.#config.early);
    const bytes = await this.#files.get(url);
    return { bytes, digest: this.#files.digest(url) ?? await digestOf(bytes) };
  }

  #received(received, total) {
    const fraction = total ? received / total : 0;
    if (fraction < 1 && fraction - this.#told < 0.005) return;
    this.#say(`Loading Python, ${(total / 1e6).toFixed(0)} MB`, fraction);
    this.#told = fraction;
  }

  #say(text, fraction = null) {
    this.#hear("progress", { text, fraction });
  }

  // --- Pyodide

  /** Pyodide's own start, with what was fetched and compiled already. */
  async #load(loadPyodide, createPyodideModule, code, given, snapshot) {
    const files = new Map(PARTS.slice(1).map((name, i) => [this.#index + name, given[i]]));
    const plain = self.fetch;
    const create = self._createPyodideModule;
    const { instantiateStreaming } = WebAssembly;
    let refuse;
    const refused = new Promise((_, reject) => { refuse = reject; });
    self.fetch = async (resource, options) => {
      const url = new URL(resource.url ?? resource, self.location.href).href;
      if (url === this.#index + PARTS[0]) return new Response(); // it is compiled already
      return files.has(url) ? new Response(files.get(url)) : plain(resource, options);
    };
    WebAssembly.instantiateStreaming = async (_, imports) => {
      const instance = await WebAssembly.instantiate(code, imports).catch(refuse);
      return { instance, module: code };
    };
    const env = { PYTHONDONTWRITEBYTECODE: "1" }; // to files that nobody reads again
    const options = { indexURL: this.#index, env, createPyodideModule };
    if (snapshot) {
      self._createPyodideModule = async (settings) => {
        const module = await create(settings);
        thaw(module, snapshot);
        return module;
      };
      Object.assign(options, { _loadSnapshot: snapshot.memory, _snapshotDeserializer: deserialize });
    }
    try {
      const python = await Promise.race([loadPyodide(options), refused])
        .catch(({ message }) => { throw this.#broken("Python's code", message); });
      delete python._api?.config._loadSnapshot; // megabytes that nobody needs any more
      return python;
    } finally {
      self.fetch = plain;
      self._createPyodideModule = create;
      Object.assign(WebAssembly, { instantiateStreaming });
    }
  }

  // --- the snapshot

  /** What a snapshot depends on; null where none can be kept. */
  async #mark(version, numpy, pyframe) {
    if (!VERSIONS.includes(version)) this.#report.snapshot ||= `not for Pyodide ${version}`;
    else if (!pyframe || !await canKeep()) this.#report.snapshot ||= "this page can't keep anything";
    else {
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const parts = [FORMAT, version, numpy, pyframe, MODULES, FOR_GPUS, AWAKE, this.#frozen, navigator.userAgent,
        navigator.language, timeZone, this.#index];
      return digestOf(new TextEncoder().encode(JSON.stringify(parts)));
    }
    return null;
  }

  /** What is kept as a snapshot: { mark, parts }, or { mark, damage }; null where there is nothing. */
  async #read() {
    const found = this.#report.snapshot ? null : await newest(this.#frozen);
    if (!found) return null;
    const { mark, response } = found;
    return read(response).then((parts) => ({ mark, parts }), ({ message }) => ({ mark, damage: message }));
  }

  /** The snapshot that fits; null if there is none, or it can't be used. */
  async #thawed(mark) {
    const found = await this.#early;
    if (found?.mark !== mark) return null;
    if (await kept(this.#trial, mark)) { // a browser may have crashed over it
      this.#report.snapshot = "skipped: the last start with it did not end";
      await forget(this.#trial);
      return null;
    }
    if (!found.parts) {
      this.#report.snapshot = `damaged: ${found.damage}`;
      await forget(this.#frozen);
      return null;
    }
    await keep(this.#trial, mark, "");
    this.#report.snapshot = "used";
    return found.parts;
  }

  /** Keeps Python as it is now for the next start. */
  #freeze(python, mark) {
    try {
      const frozen = freeze(python);
      this.#report.stored = store(frozen, this.#frozen, mark);
      this.#report.snapshot ||= "made";
    } catch (error) {
      this.#report.snapshot = `none: ${error.message}`;
    }
  }
}

// --- the kernels of a program --------------------------------------------------------------------

const remembered = new Map(); // program -> the number of its kernels that are kept

/** Keeps the kernels that a program (its URL) has made, for `prepare` at the next visit. */
export async function remember(program) {
  const mark = await kernelsOf();
  if (!program || !mark) return false;
  const { codes, labels } = self.pyframeRuntime.codes();
  if (codes.length === (remembered.get(program) ?? 0)) return true;
  remembered.set(program, codes.length);
  return keep(program, mark, JSON.stringify({ codes, labels }));
}

/** Begins to compile the kernels that a program made at the last visit; resolves to their number. */
export async function prepare(program) {
  const mark = await kernelsOf();
  const response = mark && await kept(program, mark);
  if (!response) return 0;
  const { codes, labels } = await response.json();
  await self.pyframeRuntime.compile(codes, labels);
  return codes.length;
}

/** What kernels depend on beside the program; null without a GPU, or where nothing can be kept. */
async function kernelsOf() {
  const [runtime, pyframe] = await Promise.all([gpu, digest]);
  if (!runtime?.codes || self.pyframeRuntime.lost) return null;
  const { info: { vendor, architecture, device, description }, features } = self.pyframeRuntime;
  const parts = [FORMAT, pyframe, vendor, architecture, device, description, features, navigator.userAgent];
  return digestOf(new TextEncoder().encode(JSON.stringify(parts)));
}

/** What a URL gives, as bytes. */
export async function bytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server says ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}
