// Python as it was when all was imported: its memory, its files and its dynamic libraries, in one piece that the
// browser keeps. A page that starts from it runs none of Python's start, and unpacks and imports nothing.
//
// Pyodide's own snapshot has the memory alone, which is of use only before any dynamic library is there. A
// library's data lie in the memory too, at places that its handle (a `struct dso`) tells, so that the same
// library can be put where it was; its functions come to stand at the same places of the table if all
// libraries are put there in the same order. Then the memory is written once more over what that has done to it.

import { digestOf, keep } from "./store.js";

export const VERSIONS = ["0.27.7"]; // of Pyodide, whose inside this knows
const FOLDERS = ["/lib/python3.12/site-packages", "/home/pyodide"];
const KEEPER = "pyframe-keep"; // the name of the worker that writes; bundlers want it spelt out there
const DIGEST = 52; // bytes: that of all the rest comes first, as `digestOf` writes it, and a space

/** Python as it is now: { head, files, memory }. Raises Error where it holds what can't be kept. */
export function freeze(python) {
  const { _module: module, _api: api } = python;
  const { FS, LDSO, wasmTable } = module;
  const handles = new Map(Object.entries(LDSO.loadedLibsByHandle).map(([handle, lib]) => [lib, Number(handle)]));
  const libs = Object.values(LDSO.loadedLibsByName).filter(({ name }) => name !== "__main__");
  const places = new Map(); // function -> [library, export]
  libs.forEach((lib, i) => {
    if (!handles.has(lib)) throw new Error(`${lib.name} has no handle`);
    for (const [name, value] of Object.entries(lib.exports)) if (typeof value === "function") places.set(value, [i, name]);
  });
  const slots = [];
  for (let i = 0; i < wasmTable.length; i++) if (places.has(wasmTable.get(i))) slots.push([i, ...places.get(wasmTable.get(i))]);
  const { folders, files } = tree(FS);
  api.config._makeSnapshot = true; // else it refuses
  let memory;
  try {
    memory = api.makeSnapshot(named);
  } finally {
    api.config._makeSnapshot = false;
  }
  const head = {
    libs: libs.map((lib) => ({ name: lib.name, handle: handles.get(lib), global: lib.global })),
    table: wasmTable.length, slots, folders, files: files.map(([path, { length }]) => [path, length]),
  };
  return { head, files: files.map(([, bytes]) => bytes), memory };
}

/** What Python holds of JavaScript must be a global of every page. */
function named(value) {
  const name = Object.getOwnPropertyNames(self).find((name) => /^[A-Z]|^fetch$/.test(name) && self[name] === value);
  if (!name) throw new Error(`Python holds an object of JavaScript: ${value}`);
  return { global: name };
}

/** All folders, and all files with their bytes. */
function tree(FS) {
  const [folders, files] = [[], []];
  const visit = (path) => {
    folders.push(path);
    for (const name of FS.readdir(path)) {
      if (name === "." || name === ".." || name === "__pycache__") continue;
      const inner = `${path}/${name}`;
      if (FS.isDir(FS.stat(inner).mode)) visit(inner);
      else files.push([inner, FS.readFile(inner)]);
    }
  };
  FOLDERS.forEach(visit);
  return { folders, files };
}

/** Keeps what `freeze` gave, in a worker of its own where that can be had; true once it is there. */
export async function store(frozen, url, mark) {
  let worker;
  try {
    worker = new Worker(new URL("./snapshot.js", import.meta.url), { type: "module", name: "pyframe-keep" });
  } catch { // this file is on another site
    return write(frozen, url, mark);
  }
  const done = new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = () => resolve(false);
  });
  worker.postMessage({ frozen, url, mark }, [frozen.memory.buffer]);
  return done.finally(() => worker.terminate());
}

/** Not compressed: that would take longer than the start which it saves, and unpacking a fifth of each later one. */
async function write({ head, files, memory }, url, mark) {
  const text = new TextEncoder().encode(JSON.stringify({ ...head, memory: memory.length }));
  const gap = -text.length & 3; // the memory begins at a word
  const body = new Blob([Uint32Array.of(text.length + gap), text, " ".repeat(gap), memory, ...files]);
  const digest = await digestOf(await body.arrayBuffer());
  return keep(url, mark, new Blob([digest.padEnd(DIGEST), body]));
}

if (self.name === KEEPER) {
  self.onmessage = async ({ data: { frozen, url, mark } }) => self.postMessage(await write(frozen, url, mark));
}

/** What `store` has kept: { head, files, memory, modules }. Raises an error for what is damaged. */
export async function read(response) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const text = new TextDecoder();
  const digest = await digestOf(bytes.subarray(DIGEST));
  if (digest.padEnd(DIGEST) !== text.decode(bytes.subarray(0, DIGEST))) throw new Error("its SHA-256 is another");
  let at = DIGEST + 4;
  const take = (count) => bytes.subarray(at, at += count);
  const head = JSON.parse(text.decode(take(new Uint32Array(bytes.buffer, DIGEST, 1)[0])));
  const memory = take(head.memory);
  const files = head.files.map(([path, length]) => [path, take(length).slice()]); // they stay, the rest goes
  const found = new Map(files);
  const modules = await Promise.all(head.libs.map(({ name }) => WebAssembly.compile(found.get(name))));
  return { head, files, memory, modules };
}

/** Has Pyodide, while it restores a snapshot's memory, put the libraries and the files where they were. */
export function thaw(module, { head, files, modules }) {
  const { API, FS } = module;
  const restore = API.restoreSnapshot;
  const expected = API.getExpectedKeys;
  API.getExpectedKeys = () => expected().with(-1, API.public_api.loadedPackages); // it has an empty object there
  API.restoreSnapshot = (memory) => {
    restore(memory); // the libraries' handles are in it
    const libs = head.libs.map(({ name, handle, global }, i) => {
      const lib = module.newDSO(name, handle, "loading");
      Object.assign(lib, { refcount: Infinity, global });
      const flags = { global, nodelete: true, loadAsync: false };
      lib.exports = module.loadWebAssemblyModule(modules[i], flags, name, global ? null : {}, handle);
      if (global) module.mergeLibSymbols(lib.exports, name);
      return lib;
    });
    const { wasmTable } = module;
    if (wasmTable.length > head.table) throw new Error("the table of functions is another");
    wasmTable.grow(head.table - wasmTable.length);
    for (const [i, lib, name] of head.slots) {
      const value = libs[lib].exports[name];
      const seen = wasmTable.get(i);
      if (seen && seen !== value) throw new Error("a function has another place");
      module.setWasmTableEntry(i, value);
    }
    for (const path of head.folders) FS.mkdirTree(path);
    for (const [path, bytes] of files) FS.writeFile(path, bytes, { canOwn: true });
    return restore(memory);
  };
}

/** What stands for an object of JavaScript that Python held. */
export const deserialize = ({ global }) => self[global];
