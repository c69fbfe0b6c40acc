// Python beside the page, never in its way: one Pyodide and one GPU for all programs of a page.
//
// The page sends {id, app, call, args} and gets {id, result} or {id, error, details}; while something goes on
// it gets {event, app, ...}; without an app it is for all of them. `open` loads a program, and Python before
// the first; pyframe/web/worker.py answers the other calls. `boot` and `python` are for tests.

import { boot, prepare, remember } from "./boot.js";
import { guard } from "./guard.js";
import { gzip, isPacked } from "./tar.js";

const HOME = "/home/pyodide/";
const KEEPING = 5000; // ms that a first program waits at most for the snapshot: its visitor may leave at once

let python;
let host;
let booting;
let keeping = null; // promise of the snapshot for the next visit, while it is written
const sources = new Map(); // app -> the program's URL, under which its kernels are kept
const closed = new Set(); // apps that nobody waits for any more

const post = (event, details, app) => self.postMessage({ event, app, ...details });

const calls = { open, close, load, train };

self.onmessage = async ({ data: { id, app, call, args = {} } }) => {
  if (call !== "open" && call !== "close") self.postMessage({ event: "begun", id }); // if nothing follows, it does not end
  try {
    const result = !app ? apart(call, args) : calls[call] ? calls[call](app, args) : tell(app, call, args);
    self.postMessage({ id, result: await result });
  } catch (error) {
    const { message, name, traceback } = error;
    self.postMessage({ id, error: message, details: { name, traceback } });
    if (error.pyodide_fatal_error) post("end", { message: `Python stopped: ${message}`, name });
  }
};

/** Python, loaded once. */
function ready(options) {
  booting ??= (async () => {
    const booted = await boot(options, post);
    python = booted.python;
    keeping = booted.report.stored.catch(() => false).finally(() => { keeping = null; });
    if (self.pyframeRuntime) self.pyframeRuntime.oncompile = compiling;
    python.setStdout({ batched: (text) => console.log(text) }); // what a program prints is no error
    python.setStderr({ batched: (text) => console.log(text) });
  })();
  return booting;
}

/** A first step waits for its kernels. */
function compiling({ done, total }) {
  post("progress", { text: `Compiling kernels: ${done} of ${total}`, fraction: done / total });
}

// --- programs ------------------------------------------------------------------------------------

/** Loads a program and what it needs: the files come while Python does. */
async function open(app, { config, base, file, source, text: edited, files, packages, device }) {
  guard(config.integrity, base);
  const folder = `${HOME}apps/${app}/`;
  const program = edited === null ? get(source, file).then(checked(file))
    : Promise.resolve(new TextEncoder().encode(edited));
  const parts = files.map(async ([path, url]) => [path, await get(url, path)]);
  const booted = ready({ config, base });
  if (device !== "cpu") prepare(source).catch(() => {}); // while Python starts; what is wrong is told on use
  const started = booted.catch((error) => {
    post("end", { message: error.message, name: error.name }); // the next try starts anew
    throw error;
  });
  const [text, found] = await Promise.all([program, Promise.all(parts), started]); // the first to fail is told
  if (closed.delete(app)) return null;
  await loadPackages(packages, app);
  const programs = [text, ...found.filter(([path]) => path.endsWith(".py")).map(([, data]) => data)]
    .map((data) => new TextDecoder().decode(data));
  if (programs.some((program) => /\bchat\b/i.test(program) && /\b(pf|pyframe)\.text\b|import .*\btext\b|Tokenizer/.test(program))) {
    await loadPackages(["jinja2"], app).catch(() => {}); // of chats' templates, which say if they lack it
  }
  if (config.tokenizers && programs.some((program) => program.includes("Tokenizer"))) {
    const url = new URL(config.tokenizers, base).href; // it can't be had while Python asks for it
    self.pyframeTokenizers ??= await import(/* webpackIgnore: true */ /* @vite-ignore */ url).catch(() => {
      throw new Error(`What makes tokens of texts can't be had from ${url}.`);
    });
  }
  post("progress", { text: `Starting ${file}`, fraction: 1 }, app);
  host ??= python.pyimport("pyframe.web.worker");
  self.pyframeTell = (to, event, details) => post(event, details, to);
  for (const [path, data] of [[file, text], ...found]) put(folder + path, data);
  const spec = await tell(app, "open", { file, device });
  if (keeping) {
    post("progress", { text: "Keeping Python for the next visit", fraction: 1 }, app);
    await Promise.race([keeping, new Promise((done) => setTimeout(done, KEEPING))]);
  }
  if (closed.delete(app)) tell(app, "close", {});
  else sources.set(app, source);
  return { ...spec, source: new TextDecoder().decode(text) };
}

/** Takes over weights, which may lie at a URL. */
async function load(app, { url, data, ...rest }) {
  const { name } = rest;
  return tell(app, "load", { ...rest, data: data ?? await get(url, name) });
}

/** Trains, and keeps the kernels that it made for the next visit. */
async function train(app, args) {
  const result = await tell(app, "train", args);
  remember(sources.get(app)).catch(() => {});
  return result;
}

async function close(app) {
  sources.delete(app);
  if (!host || await tell(app, "close", {}).then(() => false, () => true)) closed.add(app);
}

function put(path, data) {
  python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
  python.FS.writeFile(path, data);
}

/** Calls a program of worker.py. */
async function tell(app, call, args) {
  const given = python.toPy(args); // a browser may never know how much memory this holds
  const { result, error } = await host.call(app, call, given).finally(() => given.destroy());
  if (error) throw Object.assign(new Error(error.message), error);
  return result ?? null;
}

/** What a URL gives, as bytes; an error tells a visitor what is missing. */
async function get(url, name) {
  const response = await fetch(url).catch((error) => {
    if (error.name === "IntegrityError") throw error;
    throw new Error(`${name} can't be had from ${url}: the server can't be reached, is another site's that ` +
      "does not let this one read it (CORS), or the page's Content-Security-Policy forbids it (connect-src).");
  });
  if (response.ok) {
    const data = new Uint8Array(await response.arrayBuffer());
    const unpacked = response.headers.has("Content-Encoding") && name?.endsWith(".gz") && !isPacked(data);
    return unpacked ? gzip(data) : data; // Vite's servers have the browser unpack such files
  }
  const { status, statusText } = response;
  throw new Error(`${name} can't be had from ${url}: the server says ${status} ${statusText}`.trim());
}

/** Some servers answer with a web page where a file is missing. */
const checked = (name) => (data) => {
  const start = new TextDecoder().decode(data.subarray(0, 100)).trimStart().toLowerCase();
  if (!start.startsWith("<!doctype html") && !start.startsWith("<html")) return data;
  throw new Error(`${name} is a web page, not a Python program: is the address right?`);
};

/** Loads packages: those that Pyodide has, pure wheels of PyPI, or wheels at a URL. What they want of torch is pyframe. */
async function loadPackages(packages, app) {
  const plain = (name) => name.toLowerCase().replace(/[-_.]+/g, "-"); // Pyodide says Jinja2 of jinja2
  const lacks = (name) => !Object.keys(python.loadedPackages).some((loaded) => plain(loaded) === plain(name));
  const missing = packages.filter(lacks);
  if (!missing.length) return;
  post("progress", { text: `Loading ${missing.join(", ")}`, fraction: 1 }, app);
  const lock = python.lockfile?.packages ?? python._api.lockfile_packages;
  const known = missing.filter((name) => lock[plain(name)]);
  const others = missing.filter((name) => !known.includes(name));
  const told = [];
  await python.loadPackage(known, { messageCallback() {}, errorCallback: (text) => told.push(text) })
    .catch(({ message }) => told.push(message));
  const still = known.filter(lacks);
  if (others.length) await fromPyPI(others).catch(({ message }) => {
    told.push(message.trim().split("\n").pop());
    still.push(...others);
  });
  if (still.length) {
    throw new Error(`packages="${packages.join(" ")}": ${still.join(", ")} could not be loaded into ` +
      `Pyodide ${python.version}. ${told.join(" ")}`.trim());
  }
}

/** Installs pure wheels by name from PyPI, or by URL; pyframe is the torch that they ask for. */
async function fromPyPI(names) {
  await python.loadPackage("micropip", { messageCallback() {} });
  host ??= python.pyimport("pyframe.web.worker");
  const files = names.map(async (name) => { // micropip takes a web page for a wheel
    if (!name.endsWith(".whl")) return name;
    const path = `/tmp/wheels/${new URL(name).pathname.split("/").at(-1)}`;
    put(path, await get(name, path.split("/").at(-1)));
    return `emfs:${path}`;
  });
  const given = python.toPy(await Promise.all(files));
  await host.install_packages(given).finally(() => given.destroy());
}

// --- for tests -----------------------------------------------------------------------------------

/** Python text, run outside of programs; `boot` comes first, with files as [name, URL]. */
async function apart(call, { config, base, files = [], code }) {
  if (call === "python") return plain(await python.runPythonAsync(code)); // what its last line gives
  await ready({ config, base });
  for (const [name, url] of files) put(HOME + name, await get(new URL(url, base).href, name));
  return null;
}

/** What Python gave, as JavaScript's own kind of data. */
function plain(result) {
  const data = result?.toJs?.({ dict_converter: Object.fromEntries }) ?? result;
  result?.destroy?.();
  return data;
}
