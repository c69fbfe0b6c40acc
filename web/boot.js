// Brings Python into a worker: Pyodide, NumPy, pyframe and the GPU.
//
//   const { python } = await boot({ config, base }, (event, detail) => …);   // "progress" { text, fraction }
//
// `config` is the server's config.json, `base` the URL that its paths are relative to. Afterwards NumPy and
// pyframe can be imported, and self.pyframeRuntime is the GPU's runtime where the browser has WebGPU.

import { createRuntimeFor } from "./remote.js";

const BOOT_BYTES = 18e6; // about what Pyodide 0.27, NumPy and pyframe come to

/** Loads Python: resolves to { python }, Pyodide's API. */
export async function boot({ config, base }, hear = () => {}) {
  const at = (path) => new URL(path, base).href;
  let received = 0;
  let stage = "";
  const tell = (text) => {
    stage = text;
    hear("progress", { text, fraction: Math.min(received / BOOT_BYTES, 1) });
  };
  const plainFetch = self.fetch;
  self.fetch = countingFetch(plainFetch, (more) => {
    received += more;
    tell(stage);
  });
  try {
    tell("Looking for a GPU");
    const runtime = await createRuntimeFor({ reading: config.reading });
    if (runtime) self.pyframeRuntime = runtime;

    tell("Loading Python");
    const indexURL = at(config.pyodide);
    const { loadPyodide } = await import(`${indexURL}pyodide.mjs`).catch(() => {
      throw new Error(`Python can't be had from ${indexURL}. Without internet, ` +
        "scripts/get_pyodide puts a copy beside the page once and for all.");
    });
    const lockFileURL = config.lock ? await lockFile(at(config.lock)) : undefined;
    const python = await loadPyodide({ indexURL, ...(lockFileURL && { lockFileURL }) });

    tell("Loading NumPy and pyframe");
    const quiet = { messageCallback: () => {} };
    await python.loadPackage("numpy", quiet);
    if (config.lock) await python.loadPackage("pyframe", quiet);
    else python.unpackArchive(await bytes(at(config.package)), "zip", { extractDir: sitePackages(python) });
    // What few programs need comes when they import it.
    if (config.late) python.pyimport("pyframe.web.late").install(at(config.late), config.integrity?.[config.late]);
    return { python };
  } finally {
    self.fetch = plainFetch;
  }
}

/** What a URL gives, as bytes. */
export async function bytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server says ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** `fetch` that tells how many bytes have come. */
function countingFetch(plain, count) {
  return async (...request) => {
    const response = await plain(...request);
    if (!response.ok || !response.body) return response;
    const counter = new TransformStream({
      transform(chunk, controller) {
        count(chunk.byteLength);
        controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(counter), { status, statusText, headers });
  };
}

/** The lock file with pyframe's wheel looked up beside it, wherever Pyodide itself comes from. */
async function lockFile(url) {
  const lock = JSON.parse(new TextDecoder().decode(await bytes(url)));
  const { pyframe } = lock.packages;
  pyframe.file_name = new URL(pyframe.file_name, url).href;
  return URL.createObjectURL(new Blob([JSON.stringify(lock)], { type: "application/json" }));
}

function sitePackages(python) {
  return python.runPython("import sysconfig; sysconfig.get_path('purelib')");
}
