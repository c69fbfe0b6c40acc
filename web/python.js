// The engine of <py-frame src="model.py">: Python in a worker, one for all elements of a page.
//
//   const engine = await open({ src: "model.py", base: "https://…/pyframe/" }, (event, detail) => …);
//   await engine.train({ epochs: 3 });
//
// `src`, `files` and `weights` are relative to the page; what belongs to pyframe lies in the folder `base`.

const CDN = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/";
const HERE = import.meta.url; // a bundler may put a file's there
const LINGER = 20_000; // ms that the worker stays while no program is open
const SILENT = 6_000; // ms; after two of them without a word, what the worker does may never end
const DEFAULTS = { // where no config.json says otherwise
  pyodide: CDN,
  early: "pyframe.tar.gz",
  late: "pyframe-late.tar.gz",
  datasets: {
    digits: ["t10k-images", "t10k-labels", "train-images", "train-labels"].map((name) =>
      `data/mnist10k/${name}-idx${name.endsWith("images") ? 3 : 1}-ubyte.gz`),
    names: ["data/names.txt"],
    tinyshakespeare: ["data/tinyshakespeare.txt.gz"],
  },
};

const words = (text) => (Array.isArray(text) ? text : (text ?? "").split(/[\s,]+/).filter(Boolean));
const folder = (url) => (url.endsWith("/") ? url : `${url}/`);

/** Opens a program: resolves to its engine. `hear` is told what goes on. */
export async function open(options, hear) {
  const { src, text, files, data, weights, packages, device = "auto", base, pyodide, signal } = options;
  const page = options.page ?? document.baseURI;
  const config = { ...DEFAULTS, ...(options.config ?? await configOf(base, options.version)) };
  if (pyodide) config.pyodide = folder(new URL(pyodide, page).href);
  const program = new URL(src, page);
  const wanted = [
    ...words(files).map((file) => beside(new URL(file, page), program, page)),
    ...words(data).flatMap((name) => dataset(name, config).map(([path, url]) => [path, new URL(url, base).href])),
  ];
  const file = decodeURIComponent(program.pathname.split("/").at(-1)) || "program.py";
  signal?.throwIfAborted();
  const link = Link.take(options.version === undefined ? null : base);
  const app = link.join(hear);
  const leave = () => link.leave(app);
  signal?.addEventListener("abort", leave, { once: true });
  try {
    const found = await link.ask(app, "open", {
      config, base, file, source: program.href, files: wanted, device,
      packages: words(packages).map((name) => (name.endsWith(".whl") ? new URL(name, page).href : name)),
      text: text ?? null,
    });
    const engine = new PythonEngine(link, app, found);
    if (link.poor) {
      hear("notice", { text: "This frame is closed off from its site (its origin is opaque), so its Python has " +
        "no WebGPU and the CPU does the arithmetic. sandbox=\"allow-scripts allow-same-origin\" opens it." });
    }
    const { strict, rename } = options;
    if (weights) await engine.load(new URL(weights, page).href, weights.split("/").at(-1), { strict, rename });
    return engine;
  } catch (error) {
    leave();
    throw error;
  } finally {
    signal?.removeEventListener("abort", leave);
  }
}

/** What the server says about its pyframe; {} where it says nothing, unless the page has named the folder: then
 * it must be there, with files of that version ("": of any). */
async function configOf(base, version) {
  const url = new URL("config.json", base);
  const response = await fetch(url, { cache: "no-cache" }).catch(() => {
    throw new Error(`${url} can't be reached: is the server still there, and does the page's ` +
      "Content-Security-Policy allow it (connect-src)?");
  });
  const config = response.ok ? await response.json().catch(() => null) : version === undefined ? {} : null;
  if (!config) { // some servers give a web page where a file is missing
    throw new Error(`There is no config.json in ${base}: base="…" is to name the folder that ` +
      "`python -m pyframe export --python` wrote, or a copy of the package pyframe of npm.");
  }
  if (version && config.version !== version) {
    throw new Error(`In ${base} are the files of pyframe ${config.version ?? "of no version"}, and this page has ` +
      `pyframe ${version}: put the files of one version there.`);
  }
  return config;
}

/** [the path beside the program, the URL] of one of its files. */
function beside(url, program, page) {
  for (const root of [new URL(".", program), new URL(".", page)]) {
    if (!url.href.startsWith(root.href)) continue;
    return [decodeURIComponent(url.pathname.slice(root.pathname.length)), url.href];
  }
  return [decodeURIComponent(url.pathname.split("/").at(-1)), url.href];
}

function dataset(name, { datasets }) {
  const found = datasets[name];
  if (found) return Array.isArray(found) ? found.map((path) => [path, path]) : Object.entries(found);
  throw new Error(`data="${name}": there is no such data set here; expected ` +
    `${Object.keys(datasets).join(", ") || "none, as none is there"}. Files of your own: files="…".`);
}

/** The worker that all programs of the page share. */
class Link {
  static #now = null;
  static #count = 0;

  /** The worker that runs, or a new one: of the folder that the page names, if it does. */
  static take(base) { return Link.#now ??= new Link(base); }

  #worker;
  #asked = 0;
  #waiting = new Map(); // id -> { app, call, resolve, reject }, and whether it has begun
  #gone = false; // whether a program was closed while the worker did something for it, and has said nothing since
  #started = false; // whether Python has
  #silence = 0; // a timer while a word of the worker is waited for
  #hearers = new Map(); // app -> hear
  #timer = 0;
  #dead = null; // why the worker ended
  poor = self.origin === "null"; // an opaque origin has no module workers

  constructor(base) {
    const url = new URL("worker.js", base ?? HERE);
    const other = this.poor || (url.origin !== self.origin && url.protocol !== "file:");
    this.#worker = other ? elsewhere(url, this.poor)
      : base ? new Worker(url, { type: "module" }) // bundlers follow no other form than the next
      : new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#heard(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#end(new Error(event.message ? `The page's worker stopped: ${event.message}`
        : `The worker could not start from ${url}: is the file there, and does the page's ` +
          "Content-Security-Policy allow it (worker-src)?"));
    };
  }

  join(hear) {
    clearTimeout(this.#timer);
    const app = `e${++Link.#count}`;
    this.#hearers.set(app, hear);
    return app;
  }

  /** The program is not needed any more. */
  leave(app) {
    if (!this.#hearers.delete(app) || this.#dead) return;
    for (const [id, { app: of, begun, reject }] of this.#waiting) {
      if (of !== app) continue;
      this.#waiting.delete(id);
      if (begun) this.#gone = true;
      reject(left());
    }
    this.#worker.postMessage({ id: 0, app, call: "close", args: {} });
    this.#listen();
    if (this.#hearers.size) return;
    this.#timer = setTimeout(() => this.#end(new Error("The worker has ended.")), LINGER);
  }

  /** Has the worker do something; the promise gives its answer. */
  ask(app, call, args = {}) {
    if (this.#dead) return Promise.reject(this.#dead);
    if (!this.#hearers.has(app)) return Promise.reject(left());
    const id = ++this.#asked;
    this.#worker.postMessage({ id, app, call, args });
    if (!this.#silence || !this.#waiting.size) this.#listen(); // one that nobody waited for says nothing
    return new Promise((resolve, reject) => this.#waiting.set(id, { app, call, begun: false, resolve, reject }));
  }

  #heard({ id, app, event, result, error, details, ...rest }) {
    this.#gone = false;
    this.#started ||= Boolean(app);
    this.#listen();
    if (event === "begun") {
      const asked = this.#waiting.get(id);
      if (asked) asked.begun = true;
      else this.#gone = true; // it was closed meanwhile
      return;
    }
    if (event && app) for (const asked of this.#waiting.values()) if (asked.app === app) asked.begun = true; // to open
    if (event === "end") return this.#end(failure(rest.message, rest));
    if (event) {
      const hearers = app ? [this.#hearers.get(app)] : [...this.#hearers.values()];
      return hearers.forEach((hear) => hear?.(event, rest));
    }
    const asked = this.#waiting.get(id);
    if (!asked) return;
    this.#waiting.delete(id);
    if (error === undefined) asked.resolve(result);
    else asked.reject(failure(error, details));
  }

  /** Waits for the next word of the worker. In two parts: a page that was asleep hears first what came meanwhile. */
  #listen(again = true) {
    clearTimeout(this.#silence);
    if (this.#dead) return;
    this.#silence = setTimeout(() => (again ? this.#listen(false) : this.#silent()), SILENT);
  }

  /** What the worker does may never end. It is ended if that was for a program that is closed; who came later gets another. */
  #silent() {
    this.#silence = 0;
    if (!this.#started) return;
    const gone = this.#gone;
    const opening = new Set([...this.#waiting.values()].filter(({ call, begun }) => call === "open" && !begun)
      .map(({ app }) => app));
    if (!gone && !opening.size) return;
    const others = [...this.#hearers].filter(([app]) => gone || opening.has(app));
    if (Link.#now === this) Link.#now = null;
    for (const [app, hear] of others) {
      this.leave(app);
      hear("again", { text: gone ? "A program that was closed did not end, so Python was started again for all others of this page."
        : "Another program of this page keeps Python busy, so this one has a Python of its own." });
    }
    if (gone) this.#end(left());
  }

  /** Ends the worker: whoever waits for it is told why; the next program starts another one. */
  #end(why) {
    if (this.#dead) return;
    this.#dead = why;
    clearTimeout(this.#silence);
    if (Link.#now === this) Link.#now = null;
    this.#worker.terminate();
    const [waiting, hearers] = [[...this.#waiting.values()], [...this.#hearers]];
    this.#waiting.clear();
    this.#hearers.clear();
    for (const { reject } of waiting) reject(why);
    why.told = true; // by the event; only who still opens a program tells it himself
    const opens = ({ app, call }) => call === "open" && app;
    const opening = new Set(waiting.map(opens));
    for (const [app, hear] of hearers) {
      if (!opening.has(app)) hear("error", { message: why.message, ended: true });
    }
  }
}

const left = () => new DOMException("The program was closed.", "AbortError");

/** A worker whose script lies on another origin: one of this page's own that imports it. */
function elsewhere(url, opaque) {
  const blob = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  if (!opaque) return new Worker(blob(`import ${JSON.stringify(url.href)};`), { type: "module" });
  // An opaque origin can't start a module worker from a blob; a classic one may still import.
  return new Worker(blob(`const early = []; onmessage = (event) => early.push(event);
    import(${JSON.stringify(url.href)}).then(() => early.forEach((event) => onmessage(event)),
      (error) => setTimeout(() => { throw error; }));`));
}

function failure(message, details = {}) {
  const error = new Error(message);
  error.name = details.name ?? "Error";
  error.traceback = details.traceback ?? "";
  return error;
}

function numbers(value) {
  if (typeof value === "string" || value instanceof Float32Array) return value;
  const all = ArrayBuffer.isView(value) ? value : [value].flat(Infinity);
  const odd = all.findIndex((each) => !["number", "bigint", "boolean"].includes(typeof each));
  if (odd < 0) return Float32Array.from(all, Number);
  throw new TypeError(`predict: value[${odd}] is ${JSON.stringify(all[odd]) ?? all[odd]}, expected a number.`);
}

class PythonEngine {
  #link;
  #app;

  constructor(link, app, found) {
    [this.#link, this.#app] = [link, app];
    this.#take(found);
  }

  #ask(call, args) { return this.#link.ask(this.#app, call, args); }

  /** What changed the program also tells what it is now. */
  #take({ json, source, ...arrays }) {
    if (!json) return;
    this.spec = { ...this.spec, ...JSON.parse(json), ...arrays, source: source ?? this.spec?.source ?? null };
    for (const sample of this.spec.samples ?? []) if (sample.label < 0) sample.label = null;
  }

  async train({ epochs, steps, limit, points } = {}) {
    const given = { epochs, steps, limit, points: points && Float32Array.from(points) };
    const asked = Object.fromEntries(Object.entries(given).filter(([, value]) => (value ?? null) !== null));
    const { json, ...result } = await this.#ask("train", asked);
    this.#take({ json });
    return result;
  }

  /** Ends training or writing; `what` is "training" or "writing" where the other goes on. */
  stop(what) { return this.#ask("stop", what ? { what } : {}); }

  async predict(value) {
    const { text, data, shape } = await this.#ask("predict", { value: numbers(value) });
    return text ?? { data, shape };
  }

  clear() { return this.#ask("clear"); }
  async evaluate() { return await this.#ask("evaluate") ?? null; }
  async reset() { this.#take(await this.#ask("reset")); }
  async set(name, value) { this.#take(await this.#ask("set", { name, value })); }
  async move(device) { this.#take(await this.#ask("move", { device })); }
  async save() { return (await this.#ask("save")).data; }

  /** Takes over weights: the bytes of a file, or its URL. */
  async load(weights, name, options = {}) {
    const from = typeof weights === "string" ? { url: weights } : { data: new Uint8Array(weights) };
    const given = Object.entries({ name, ...options }).filter(([, value]) => (value ?? null) !== null);
    this.#take(await this.#ask("load", { ...from, ...Object.fromEntries(given) }));
  }

  async close() { this.#link.leave(this.#app); }
}
