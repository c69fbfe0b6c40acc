// Python beside the page, never in its way: boots Pyodide, gives it the GPU, and runs demo.py.
//
// The page sends {id, call, args} and gets {id, result} or {id, error}; while something goes on it
// gets {event, ...} (see demo.py for the events). `boot` comes first, with the server's config.json.

import { boot as bootPython, bytes } from "./boot.js";

const HOME = "/home/pyodide/";

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
  ({ python } = await bootPython({ config, base }, (_, progress) => post("status", progress)));

  post("status", { text: "Loading the digits", fraction: 1 });
  for (const path of [config.source, ...(config.data ?? [])]) {
    const name = HOME + path;
    python.FS.mkdirTree(name.slice(0, name.lastIndexOf("/")));
    python.FS.writeFile(name, await bytes(at(path)));
  }
  python.FS.writeFile(`${HOME}demo.py`, await bytes(new URL("demo.py", import.meta.url)));

  post("status", { text: "Starting pyframe", fraction: 1 });
  self.pyframePost = post;
  demo = python.pyimport("demo");
  return await ask("describe", { device });
}
