// Opens programs that pyframe exported, in Node and on a device that computes nothing: files.py draws
// program.json. A line of JSON comes in for each try, { path, room }, and one goes out: what was thrown,
// and what was wrong.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const BASE = "http://localhost/program/";
const MOST = 1 << 26; // bytes of a buffer
const wrong = []; // of this try
let served = {}; // what the server has

globalThis.document = { baseURI: BASE, getElementById: () => null };
globalThis.fetch = async (url) => {
  if (!String(url).startsWith(BASE)) wrong.push(`asked for ${String(url).slice(0, 80)}`);
  const bytes = served[String(url).slice(BASE.length)];
  return bytes ? new Response(bytes) : new Response("", { status: 404 });
};
const { open } = await import(pathToFileURL(join(ROOT, "web", "player.js")).href);

/** What web/runtime.js is to a player, with its checks. */
class Device {
  features = [];
  limits = new Proxy({}, { get: () => MOST });
  info = { vendor: "none" };
  lost = null;
  #sizes = new Map();
  #programs = new Map();
  #next = 1;

  alloc(nbytes) {
    if (!(nbytes >= 0 && nbytes <= MOST)) throw new Error(`no buffer of ${nbytes} bytes`);
    this.#sizes.set(this.#next, nbytes);
    return this.#next++;
  }

  slice(id, offset, nbytes) {
    this.#in(id, offset + nbytes);
    this.#sizes.set(this.#next, nbytes);
    return this.#next++;
  }

  free(id) { this.#sizes.delete(id); }

  write(id, data) { this.#in(id, data.byteLength); }

  copy(target, source, nbytes) {
    this.#in(target, nbytes);
    this.#in(source, nbytes);
  }

  async read(ids, sizes) {
    ids.forEach((id, i) => this.#in(id, sizes[i]));
    return new Uint8Array(sizes.reduce((a, b) => a + b, 0));
  }

  async compile(codes) {
    for (const code of codes) if (typeof code !== "string") wrong.push(`compiled a ${typeof code}`);
  }

  load(codes, labels, steps, slots, paramBytes) { // as web/runtime.js goes over them
    this.alloc(paramBytes);
    for (let at = 0, n = 0; at < steps.length; at += 7 + steps[at + 6]) {
      const used = steps.slice(at + 7, at + 7 + steps[at + 6]);
      if (++n > steps.length) throw wrong.push("goes over its steps without end");
      if (typeof codes[steps[at]] !== "string" || used.some((slot) => !(slot >= 0 && slot < slots))) {
        wrong.push("runs a step of no kernel and slots");
      }
    }
    this.#programs.set(this.#next, slots);
    return this.#next++;
  }

  unload() {}

  run(id, ids) {
    if (ids.length !== this.#programs.get(id)) wrong.push("ran what was not loaded");
    for (const buffer of ids) this.#in(buffer, 0);
  }

  #in(id, nbytes) {
    if (!(this.#sizes.get(id) >= nbytes)) throw new Error(`buffer ${id} has no ${nbytes} bytes`);
  }
}

async function tried(path, room) {
  wrong.length = 0;
  const errors = [];
  const attempt = async (name, work) => {
    try {
      return await work();
    } catch (error) {
      errors.push(`${error?.name}: ${error?.message}`);
      if (!(error instanceof Error) || !error.message || /^(Type|Range|Reference|Syntax)Error/.test(error.name)) {
        wrong.push(`${name} threw ${error?.stack ?? error}`.slice(0, 400));
      }
      if (String(error?.message).length > 1500) wrong.push(`a message of ${error.message.length} characters`);
      return null;
    }
  };
  const folder = dirname(path);
  const beside = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
  served = Object.fromEntries(beside.map((name) => [name, readFileSync(join(folder, name))]));
  served["program.json"] = readFileSync(path);
  const engine = await attempt("open", () => open({ program: "./", runtime: new Device() }));
  if (engine) {
    const numbers = (n) => new Float32Array(n);
    await attempt("predict", () => engine.predict(numbers(6)));
    await attempt("evaluate", () => engine.evaluate());
    await attempt("set", () => engine.set("lr", 0.5));
    await attempt("train", () => engine.train({ steps: 2, points: [0, 0, 0, 1, 1, 1] }));
    const { player } = engine;
    for (const name of player.programs.slice(0, 8)) {
      const inputs = player.document.programs[name].inputs.map(({ shape }) => numbers(shape.reduce((a, b) => a * b, 1)));
      await attempt(`run ${name}`, () => player.run(name, ...inputs));
      await attempt(`results of ${name}`, () => player.results(name));
    }
    await attempt("keep", () => player.keep());
    await attempt("save", async () => engine.load(await engine.save()));
    await attempt("reset", () => engine.reset());
    await attempt("close", () => engine.close());
  }
  if (Object.keys(Object.prototype).length || ({}).x !== undefined) wrong.push("changed what all objects have");
  return { error: errors.join("; ").slice(0, 1500), wrong: [...new Set(wrong)].slice(0, 5) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { path, room } = JSON.parse(line);
  console.log(JSON.stringify(await tried(path, room)));
}
