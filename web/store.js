// Files for a page's Python: fetched at the same time, checked, counted, and kept in the browser's Cache API.
//
//   const files = new Files(config.integrity, base, (received, total) => …);
//   const bytes = await files.get(url, { mark: "0.27.7" });
//
// A file is kept under its address and its mark: its digest, or what else tells it from other versions.

const CACHE = "pyframe-1";
const STALL = 30_000; // ms in which nothing comes of a file
const SIZES = { // bytes, until the server says how many there are
  "pyodide.asm.wasm": 10_105_545, "python_stdlib.zip": 2_360_737, "pyodide-lock.json": 112_205,
  "numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl": 3_061_133, "pyframe.tar.gz": 480_000,
};

const plain = self.fetch.bind(self); // before anything checks it: a file is checked here, while it comes

/** The page's cache; null where there is none: an insecure or opaque origin, or a browser that refuses. */
const cache = () => Promise.resolve().then(() => caches.open(CACHE)).catch(() => null);

const keyOf = (url, mark) => `${url.split(/[?#]/)[0]}?pyframe=${encodeURIComponent(mark)}`;

/** Whether this page can keep anything. */
export const canKeep = async () => Boolean(await cache());

/** What was kept for an address, as a Response; null if that is nothing, or something else. */
export async function kept(url, mark) {
  const store = await cache();
  return await store?.match(keyOf(url, mark)).catch(() => null) ?? null;
}

/** What is kept for an address, whatever its mark: { mark, response }; null if that is nothing. */
export async function newest(url) {
  const store = await cache();
  const [key] = await store?.keys(keyOf(url, ""), { ignoreSearch: true }).catch(() => []) ?? [];
  const response = key && await store.match(key).catch(() => null);
  return response ? { mark: new URL(key.url).searchParams.get("pyframe"), response } : null;
}

/** Keeps a body in the place of all others for that address; whether that could be done. */
export async function keep(url, mark, body) {
  const store = await cache();
  if (!store) return false;
  try {
    const key = keyOf(url, mark);
    await store.put(key, new Response(body));
    for (const { url: other } of await store.keys()) {
      if (other !== key && other.split("?")[0] === key.split("?")[0]) await store.delete(other);
    }
    return true;
  } catch { // the disk is full, or the address is of a kind that browsers don't keep
    return false;
  }
}

/** Forgets all that is kept for an address. */
export async function forget(url) {
  const store = await cache();
  await store?.delete(keyOf(url, ""), { ignoreSearch: true }).catch(() => false);
}

/** The SHA-256 of bytes as browsers write it; null in an insecure page, which can't know it. */
export async function digestOf(bytes) {
  if (!self.crypto?.subtle) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `sha256-${btoa(String.fromCharCode(...digest))}`;
}

/** The same for a digest in hexadecimal digits, as lock files have it. */
export const fromHex = (hex) => (
  `sha256-${btoa(hex.replace(/../g, (digits) => String.fromCharCode(parseInt(digits, 16))))}`);

/** The files of one start. */
export class Files {
  network = []; // the addresses of those that were asked for
  kept = []; // and of those that were there
  #digests;
  #progress;
  #parts = new Map(); // URL -> { received, size }

  /** `integrity` has digests by path, relative to `base`; `progress` is told of the bytes that come. */
  constructor(integrity, base, progress) {
    this.#digests = new Map(Object.entries(integrity ?? {}).map(([path, digest]) => [new URL(path, base).href, digest]));
    this.#progress = progress;
  }

  /** The digest that a file must have; undefined where none is known. */
  digest(url) {
    return this.#digests.get(url);
  }

  /** That a file will be needed, for the sum of all. */
  expect(url) {
    if (!this.#parts.has(url)) this.#parts.set(url, { received: 0, size: SIZES[nameOf(url)] ?? 0 });
    return this.#parts.get(url);
  }

  /**
   * A file's bytes: those that are kept for its mark, or the server's. `arrives` is given a Response of them
   * while they come. Raises LoadError, which says what to do.
   */
  async get(url, { digest = this.digest(url), mark = digest, arrives = null } = {}) {
    const part = this.expect(url);
    const found = mark ? await kept(url, mark) : null;
    (found ? this.kept : this.network).push(url);
    const watch = new Watch(url);
    const response = found ?? await watch.over(this.#fetch(url, digest, watch.signal));
    if (!found && !response.ok) {
      throw failure(url, `the server says ${`${response.status} ${response.statusText}`.trim()}`);
    }
    const length = response.headers.get("Content-Encoding") ? 0 : Number(response.headers.get("Content-Length"));
    if (length) part.size = length;
    part.received = 0;
    const counted = response.body.pipeThrough(new TransformStream({
      transform: (chunk, controller) => {
        watch.heard();
        part.received += chunk.byteLength;
        this.#tell();
        controller.enqueue(chunk);
      },
    }));
    const [body, copy] = arrives ? counted.tee() : [counted];
    arrives?.(new Response(copy, { headers: { "Content-Type": "application/wasm" } }));
    const bytes = new Uint8Array(await watch.over(new Response(body).arrayBuffer()));
    part.size = part.received = bytes.length;
    this.#tell();
    if (found) return bytes;
    const seen = digest ? await digestOf(bytes) : null;
    if (seen && !digest.split(" ").includes(seen)) { // of a file as it is, or unpacked
      throw Object.assign(new Error(`${nameOf(url)} is not the file that ${this.digest(url) ? "was exported" : "belongs here"}: ` +
        `its SHA-256 is another (${url}). ${this.digest(url) ? "Export the page again, and upload all of it." : "Put the right one there."}`),
      { name: "IntegrityError" });
    }
    if (mark) keep(url, mark, bytes);
    return bytes;
  }

  /** An insecure page has no digests: the browser checks, without telling why it refuses. */
  #fetch(url, digest, signal) {
    return plain(url, { signal, ...(digest && !self.crypto?.subtle && { integrity: digest }) });
  }

  #tell() {
    let [received, total] = [0, 0];
    for (const part of this.#parts.values()) {
      received += part.received;
      total += Math.max(part.size, part.received);
    }
    this.#progress(received, total);
  }
}

/** Ends a download of which nothing comes any more. */
class Watch {
  #url;
  #end = new AbortController();
  #timer;

  constructor(url) {
    this.#url = url;
  }

  get signal() {
    return this.#end.signal;
  }

  heard() {
    clearTimeout(this.#timer);
    const why = failure(this.#url, `nothing has come of it for ${STALL / 1000} seconds`);
    this.#timer = setTimeout(() => this.#end.abort(why), STALL);
  }

  /** Waits for a part of the download. */
  async over(part) {
    this.heard();
    try {
      return await part;
    } catch (error) {
      if (error.name === "LoadError") throw error;
      throw failure(this.#url, "the server can't be reached, does not let this page read it (CORS), or the page's " +
        `Content-Security-Policy forbids it (connect-src) (${error.message})`);
    } finally {
      clearTimeout(this.#timer);
    }
  }
}

const nameOf = (url) => decodeURIComponent(new URL(url).pathname.split("/").pop());

function failure(url, why) {
  return Object.assign(new Error(`${nameOf(url)} can't be had from ${url}: ${why}. Try again.`), { name: "LoadError" });
}
