// Python beside the page, never in its way: boots Pyodide, gives it the GPU, and runs demo.py.
//
// The page sends {id, call, args} and gets {id, result} or {id, error}; while something goes on it
// gets {event, ...} (see demo.py for the events). `boot` comes first, with the server's config.json.

import { createRuntime } from "./runtime.js";

const HOME = "/home/pyodide/";
const BOOT_BYTES = 18e6; // about what Pyodide 0.27, NumPy, pyframe and the digits come to

let python;
let demo;

const post = (event, details) => self.postMessage({ event, ...details });

const calls = {
  boot,
  /** Runs Python text; what its last line gives must be JSON's kind of data. */
  python: async ({ code }) => {
    return plain(await python.runPythonAsync(code));
  },
};

self.onmessage = async ({ data: { id, call, args = {} } }) => {
  try {
    const run = calls[call] ?? ((values) => ask(call, values));
    self.postMessage({ id, result: await run(args) });
  } catch (error) {
    self.postMessage({ id, error: error.message });
  }
};

/** Calls a function of demo.py: a JavaScript object goes in as its arguments, JSON data comes out. */
async function ask(name, values) {
  return plain(await demo.call(name, python.toPy(values)));
}

/** What Python gave, as JavaScript's own kind of data. */
function plain(result) {
  const data = result?.toJs?.({ dict_converter: Object.fromEntries }) ?? result;
  result?.destroy?.();
  return data;
}

async function boot({ config, base, device = null }) {
  const at = (path) => new URL(path, base).href;
  const plainFetch = self.fetch;
  self.fetch = countingFetch(plainFetch);
  try {
    status("Looking for a GPU");
    const runtime = await createRuntime().catch(() => null);
    if (runtime) self.pyframeRuntime = runtime;

    status("Loading Python");
    const indexURL = at(config.pyodide);
    const { loadPyodide } = await import(`${indexURL}pyodide.mjs`).catch(() => {
      throw new Error(`Python can't be had from ${indexURL}. Without internet, ` +
        "scripts/get_pyodide puts a copy beside the page once and for all.");
    });
    const lockFileURL = config.lock ? await lockFile(at(config.lock)) : undefined;
    python = await loadPyodide({ indexURL, ...(lockFileURL && { lockFileURL }) });

    status("Loading NumPy and pyframe");
    const quiet = { messageCallback: () => {} };
    await python.loadPackage("numpy", quiet);
    if (config.lock) await python.loadPackage("pyframe", quiet);
    else python.unpackArchive(await bytes(at(config.package)), "zip", { extractDir: sitePackages() });

    status("Loading the digits");
    for (const path of [config.source, ...(config.data ?? [])]) {
      const name = HOME + path;
      python.FS.mkdirTree(name.slice(0, name.lastIndexOf("/")));
      python.FS.writeFile(name, await bytes(at(path)));
    }
    python.FS.writeFile(`${HOME}demo.py`, await bytes(new URL("demo.py", import.meta.url)));

    status("Starting pyframe");
    self.pyframePost = post;
    demo = python.pyimport("demo");
    return await ask("describe", { device });
  } finally {
    self.fetch = plainFetch;
  }
}

let received = 0;
let stage = "";

function status(text) {
  stage = text;
  post("status", { text, fraction: Math.min(received / BOOT_BYTES, 1) });
}

/** `fetch` that tells the page how many bytes have come. */
function countingFetch(plain) {
  return async (...request) => {
    const response = await plain(...request);
    if (!response.ok || !response.body) return response;
    const counter = new TransformStream({
      transform(chunk, controller) {
        received += chunk.byteLength;
        status(stage);
        controller.enqueue(chunk);
      },
    });
    const { status: code, statusText, headers } = response;
    return new Response(response.body.pipeThrough(counter), { status: code, statusText, headers });
  };
}

async function bytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server says ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** The lock file with pyframe's wheel looked up beside it, wherever Pyodide itself comes from. */
async function lockFile(url) {
  const lock = JSON.parse(new TextDecoder().decode(await bytes(url)));
  const { pyframe } = lock.packages;
  pyframe.file_name = new URL(pyframe.file_name, url).href;
  return URL.createObjectURL(new Blob([JSON.stringify(lock)], { type: "application/json" }));
}

function sitePackages() {
  return python.runPython("import sysconfig; sysconfig.get_path('purelib')");
}
