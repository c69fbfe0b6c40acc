// <py-frame src="model.py">: a Python program that the page's visitor trains and tries, on his own GPU.
// <py-frame program="digits/">: the same of an exported program, without Python.
//
//   <script type="module" src="pyframe.js"></script>
//   <py-frame src="model.py" weights="model.safetensors"></py-frame>
//
//   const el = document.querySelector("py-frame");
//   await el.train({ epochs: 3 });
//   const { data, shape } = await el.predict(numbers);

import { announce, define, isPicture, look, make, percent, pixels, sheet, short, teller } from "./parts.js";
import { lacking } from "./missing.js";
import "./widgets.js";

const HERE = import.meta.url; // by a name: bundlers take what is spelt out in new URL for a file
const BASE = new URL(".", HERE).href; // where all that belongs to pyframe lies
const DEVICES = ["auto", "gpu", "cpu"];
const LOADING = ["lazy", "eager", "click"];
const NAMES = { cpu: "CPU", gpu: "WebGPU" };
const SPEEDS = { "Full speed": 0, "10 a second": 10, "3 a second": 3, "1 a second": 1 }; // steps
const LOOK = 400; // ms between two looks at what the network makes of things, while it is trained
const PICTURES = 10; // of a side, laid beneath a plane of pictures
const NEAR = "200px"; // from the screen, a lazy program loads
const INPUTS = ["pad", "image", "points", "position", "text", "chat", "numbers"];
const OUTPUTS = ["bars", "picture", "values", "text"]; // a plane is drawn beneath the points
const TRAINS = ["epochs", "steps", "limit", "x", "y"]; // what `train` takes

const css = sheet(`
:host { container-type: inline-size; min-height: var(--pf-height, auto); background: var(--_surface); border: 1px solid var(--_border);
  border-radius: calc(var(--_radius) * 1.2); padding: 1.1rem; overflow-wrap: break-word; }
[part=title] { font-size: 1.25em; font-weight: 650; line-height: 1.25; margin: 0; }
[part=description] { margin-top: .25em; color: var(--_muted); max-width: 70ch; }
.before:not(.used) { display: none; }
.head:has(:not([hidden], .said)), .before { margin-bottom: 1em; }
[part=poster]:not(.used), [part=loading] { min-height: calc(var(--pf-height, 24rem) - 2.2rem - 2px); }
[part=poster] { display: grid; place-content: center; gap: .75em; }
[part=poster].used {
  position: relative; place-content: start stretch; width: fit-content; min-width: min(100%, 12em); max-width: 100%;
}
[part=poster].used [part=play] {
  position: absolute; inset: 0; margin: auto; width: fit-content; height: fit-content;
}
::slotted([slot=poster]) { max-width: 100%; height: auto; }
[part=loading] { display: grid; gap: .5em; align-content: center; }
progress {
  appearance: none; display: block; width: 100%; height: 6px; border: 0; border-radius: 3px; overflow: hidden;
  background: var(--_field);
}
progress::-webkit-progress-bar { background: var(--_field); }
progress::-webkit-progress-value { background: var(--_accent); }
progress::-moz-progress-bar { background: var(--_accent); }
[part=error] {
  display: grid; gap: .6em; justify-items: start; padding: .7em .9em; margin-bottom: 1em;
  border: 1px solid var(--_bad);
  border-radius: var(--_radius); background: color-mix(in oklab, var(--_bad) 7%, var(--_surface));
}
[part=error-message] { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 0; max-width: 100%; }
details { width: 100%; min-width: 0; }
summary {
  min-height: var(--_target); display: flex; align-items: center; width: fit-content; cursor: pointer;
  color: var(--_muted);
}
summary::before { content: "▸"; content: "▸" / ""; margin-inline-end: .4em; } /* of no sound */
details[open] > summary::before { content: "▾"; content: "▾" / ""; }
pre {
  direction: ltr; text-align: left; margin: .25em 0 0; padding: .6em .75em; overflow: auto; max-height: 22em; background: var(--_field);
  border-radius: calc(var(--_radius) * .8);
  font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
[part=notices] { display: grid; gap: .4em; margin-bottom: 1em; }
[part=notices]:empty { display: none; }
[part=notice] { padding: .5em .8em; border-radius: calc(var(--_radius) * .8); font-size: .9375em;
  background: light-dark(#fff4d6, #3a3017); color: light-dark(#5c4300, #ffe2a0); }
@media (forced-colors: active) { [part=notice], progress { border: 1px solid; } }
[part=body] { display: grid; gap: 1.25rem 1.75rem; grid-template-columns: minmax(0, 1fr); align-items: start; }
[part=training], [part=model] { display: grid; gap: .9em; min-width: 0; }
[part=unseen] { min-width: 0; }
[part=unseen]:empty, [part=model][hidden] ~ [part=unseen] { display: none; }
.settings {
  display: grid; gap: .5em 1.25em; align-items: end;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 11rem), 1fr));
}
.settings > pf-text { grid-column: 1 / -1; }
.tools > [part=train] { min-width: 6.5em; }
.tools > pf-choice { flex: 0 1 auto; }
[part=status] { min-height: 1.45em; }
.doing { display: grid; gap: .35em; }
.doing progress { visibility: hidden; }
.doing progress.on { visibility: visible; }
[part=numbers] { display: flex; flex-wrap: wrap; gap: .5em 2em; }
dt { color: var(--_muted); font-size: .8125em; }
dd { font-weight: 600; overflow-wrap: anywhere; line-height: 1.3; }
h4 { margin: 0 0 .4em; font-size: 1em; font-weight: 600; }
[part=model] { container-type: inline-size; }
[part=unseen] > p { margin-bottom: .6em; }
.both { display: grid; gap: 1em 1.5em; grid-template-columns: minmax(0, 1fr); }
table { width: 100%; border-collapse: collapse; }
th { overflow-wrap: anywhere; color: var(--_muted); font-weight: 500; font-size: .875em; text-align: start; }
th, td { padding: .3em .5em .3em 0; border-bottom: 1px solid var(--_border); }
@container (min-width: 46rem) {
  [part=body].both-sides {
    grid-template: auto 1fr / minmax(0, 1.15fr) minmax(0, 1fr); /* samples come right below what they are for */
  }
  .both-sides > [part=training] { grid-area: 1 / 1 / span 2; }
  .both-sides > :is([part=model], [part=unseen]), .tried.both-sides > [part=training] { grid-column: 2; }
  .tried.both-sides > :is([part=model], [part=unseen]) { grid-column: 1; }
}
@container (min-width: 27rem) {
  .both.beside { grid-template-columns: minmax(0, 280px) minmax(0, 1fr); }
  .both.beside:has(pf-position) { grid-template-columns: minmax(0, 1.5fr) minmax(0, 1fr); }
}
@container (max-width: 22rem) {
  .tools > button { flex: 1 1 auto; }
  .settings { grid-template-columns: repeat(auto-fit, minmax(min(100%, 8.5rem), 1fr)); }
}
`);

/** Whether a program takes texts. */
const reads = ({ input } = {}) => input?.kind === "text" || input?.kind === "chat";

/** Numbers one after the other, of lists in lists and arrays in them. */
const flat = (value) => (Array.isArray(value)
  ? value.flatMap((each) => (ArrayBuffer.isView(each) ? Array.from(each) : flat(each))) : value);

const closed = () => new DOMException("The program was closed.", "AbortError");

/** What of a part of the page's own, or of the element, is now shown in a slot. */
const shown = (slot) => slot.assignedElements()[0] ?? slot.firstElementChild;

const list = (text) => (text ?? "").split(/[\s,]+/).filter(Boolean);

export class PyFrame extends HTMLElement {
  static observedAttributes = [
    "src", "files", "data", "weights", "program", "packages", "pyodide", "base", "device", "loading", "title",
    "height", "strict", "rename",
  ];
  static config = null; // in place of config.json: where a bundle has the files for Python (npm.js)

  #state = "idle"; // "loading", "ready" or "failed"
  #engine = null;
  #source = null; // what runs in place of `src`
  #abort = null; // an AbortController while an engine is opened or open
  #turn = 0; // counts what was loaded: answers for earlier ones are stale
  #ready;
  #history = [];
  #run = null; // while it is trained: { epochs or steps that are left, stopping, seconds, steps, last }
  #left = 0; // epochs that a pause left
  #changes = Promise.resolve(); // of controls and device, one after the other
  #points = null; // the visitor's
  #shown = { step: 0, loss: 0 }; // of the last news
  #seen = false;
  #size = new CSSStyleSheet(); // with the height that is asked for
  #observer = null;
  #looking = { busy: false, again: false, last: 0, timer: 0 };
  #asking = { busy: false, next: undefined, moved: 0 }; // and how often scripts moved the input
  #writing = null; // the text that is written on now: { given, ending }
  #queued = false;
  #said = new Set(); // notices
  #own = false; // whether the network has what only this element has learnt, or was given
  #lost = false; // whether that has gone, as the element was removed

  constructor() {
    super();
    this.#renew();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [look, css, this.#size];
    this.#build();
  }

  // --- attributes ------------------------------------------------------------------------------

  connectedCallback() {
    for (const name of [...PyFrame.observedAttributes, "epochs", "autotrain"]) {
      if (!Object.hasOwn(this, name)) continue; // set before the element was defined
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    if (!this.hasAttribute("role")) this.setAttribute("role", "group");
    this.#name();
    this.#reserve();
    this.#observer = new IntersectionObserver((entries) => {
      this.#seen = entries.at(-1).isIntersecting;
      if (!this.#seen) return;
      if (this.#state === "idle" && this.loading === "lazy") this.#start();
      else this.#look();
    }, { rootMargin: NEAR });
    this.#observer.observe(this);
    document.addEventListener("visibilitychange", this.#visible);
    if (this.#state === "idle") this.#reload();
  }

  disconnectedCallback() {
    this.#observer?.disconnect();
    this.#observer = null;
    document.removeEventListener("visibilitychange", this.#visible);
    queueMicrotask(() => { // unless it was only moved within the page
      if (this.isConnected) return;
      const lost = this.#lost || this.#own;
      this.#drop();
      this.#lost = lost;
      this.#ready.reject(new DOMException("The element was removed before its program was ready.", "AbortError"));
      this.#renew();
      this.#show("idle");
    });
  }

  attributeChangedCallback(name, before, now) {
    if (before === now || !this.#observer) return; // connectedCallback reads all of them
    if (name === "title") return this.#name();
    if (name === "height" && this.#reserve()) return;
    if (name === "device" && this.#state !== "idle" && this.#state !== "failed") {
      if (!DEVICES.includes(now ?? "auto")) return this.#fail(this.#bad("device", DEVICES));
      this.move(now ?? "auto").catch(() => {}); // told
      return;
    }
    if (name === "loading" && this.#state !== "idle") return;
    if (name === "src") this.#source = null;
    if (this.#queued) return;
    this.#queued = true; // several attributes are one change
    queueMicrotask(() => this.#follow());
  }

  /** Loads what the attributes ask for now, if they have changed. */
  #follow() {
    if (!this.#queued) return;
    this.#queued = false;
    if (this.isConnected) this.#reload();
  }

  /** Shows the poster, or loads, as the attributes say. */
  #reload() {
    const begun = this.#state !== "idle";
    this.#drop();
    this.#show("idle");
    if (begun || this.getAttribute("loading") === "eager" || !this.#correct()) this.#start();
    else if (this.loading === "lazy" && this.#seen) this.#start();
  }

  #correct() {
    try {
      this.#options();
      return true;
    } catch {
      return false;
    }
  }

  /** The attributes as an engine takes them; an error names the one that is wrong. */
  #options() {
    const [src, program] = [this.getAttribute("src"), this.getAttribute("program")];
    if (src && program) throw new Error("<py-frame> has src and program: expected one of them.");
    if (!src && !program) {
      throw new Error("<py-frame> has nothing to run: expected src=\"model.py\", or program=\"model/\" for " +
        "an exported program.");
    }
    if (!this.#reserve()) throw new Error(this.#bad("height", ["pixels", "a length such as 40rem"]));
    const device = this.getAttribute("device") ?? "auto";
    if (!DEVICES.includes(device)) throw new Error(this.#bad("device", DEVICES));
    const loading = this.getAttribute("loading") ?? "lazy";
    if (!LOADING.includes(loading)) throw new Error(this.#bad("loading", LOADING));
    const epochs = this.getAttribute("epochs");
    if (epochs !== null && !(Number.isInteger(Number(epochs)) && Number(epochs) > 0)) {
      throw new Error(this.#bad("epochs", ["a whole number above 0"]));
    }
    return {
      src, program, device, ...this.#place(),
      files: list(this.getAttribute("files")), data: list(this.getAttribute("data")),
      packages: list(this.getAttribute("packages")), weights: this.getAttribute("weights"),
      pyodide: this.getAttribute("pyodide"), text: this.#source, ...this.#fit(),
    };
  }

  /** How weights must fit, as the attributes say it. */
  #fit() {
    const [strict, rename] = [this.getAttribute("strict"), this.getAttribute("rename")];
    if (![null, "", "true", "false"].includes(strict)) throw new Error(this.#bad("strict", ["true", "false"]));
    let names;
    try {
      names = rename ? JSON.parse(rename) : undefined;
      if (names && Object.values(names).some((name) => typeof name !== "string")) throw new TypeError();
    } catch {
      throw new Error(this.#bad("rename", ["JSON such as {\"old.\": \"new.\"}"]));
    }
    return { strict: strict === null ? undefined : strict !== "false", rename: names };
  }

  /** Where the files for Python lie: the folder that `base` names, or what belongs to this file. */
  #place() {
    const { config } = PyFrame;
    const base = this.getAttribute("base");
    if (!base) return config ? { config, base: new URL(".", config.early).href } : { base: BASE };
    const url = new URL(base.endsWith("/") ? base : `${base}/`, document.baseURI);
    return { base: url.href, version: config?.version ?? "" };
  }

  #bad(name, expected) {
    const words = expected.join(", ").replace(/, ([^,]*)$/, " or $1");
    return `<py-frame ${name}="${this.getAttribute(name)}">: expected ${words}.`;
  }

  /** Reserves the height that the attribute asks for; whether it is one. */
  #reserve() {
    const text = this.getAttribute("height")?.trim() ?? "";
    const height = /^\d+(\.\d+)?$/.test(text) ? `${text}px` : text;
    const known = !height || CSS.supports("min-height", height);
    this.#size.replaceSync(known && height ? `:host { --pf-height: ${height}; }` : "");
    return known;
  }

  get epochs() { return Number(this.getAttribute("epochs")) || null; }
  set epochs(value) { this.#reflect("epochs", value); }
  get autotrain() { return this.hasAttribute("autotrain"); }
  set autotrain(value) { this.toggleAttribute("autotrain", Boolean(value)); }

  #reflect(name, value) {
    if (value === null || value === undefined) this.removeAttribute(name);
    else this.setAttribute(name, value);
  }

  static {
    for (const [name, fallback] of Object.entries({
      src: "", files: "", data: "", weights: "", program: "", packages: "", pyodide: "", base: "", height: "", rename: "",
      device: "auto", loading: "lazy",
    })) {
      Object.defineProperty(this.prototype, name, {
        get() { return this.getAttribute(name) ?? fallback; },
        set(value) { this.setAttribute(name, value); },
        enumerable: true, configurable: true,
      });
    }
  }

  // --- for the page's scripts ------------------------------------------------------------------

  /** Resolves to the spec once the program is there. */
  get ready() {
    this.#follow();
    return this.#ready.promise;
  }

  /** What is known of the program; null before. */
  get spec() { return this.#engine?.spec ?? null; }

  /** What was told after each epoch. */
  get history() { return this.#history; }

  /** The program's text, as an editor changes it; null: as it is at `src`. */
  get source() { return this.#source ?? this.spec?.source ?? null; }
  set source(text) {
    this.#source = text;
    if (this.isConnected) this.#reload();
  }

  get engine() { return this.#engine; }

  /** The engine, which is there until the element is removed or gets another program. */
  get #open() {
    if (!this.#engine) throw closed();
    return this.#engine;
  }

  get training() { return this.#run !== null; }

  /** Loads the program, if it is not there yet; after a failure once more. */
  load(weights, options) {
    if (weights !== undefined) return this.#take(weights, options);
    this.#follow();
    if (this.#state === "idle" || this.#state === "failed") this.#start();
    return this.ready;
  }

  /**
   * Trains for some epochs (by default as many as the program says, or a pause left) or steps. An exported program takes
   * the page's own samples `x` and targets `y`, one after the other, and goes on with them from then on.
   */
  async train(options = {}) {
    const odd = Object.keys(options).find((name) => !TRAINS.includes(name));
    if (odd) throw this.#told(new TypeError(`train: there is no option ${odd}; there are ${TRAINS.join(", ")}.`));
    const { epochs, steps, limit } = options;
    let { x, y } = options;
    for (const [name, value] of Object.entries({ epochs, steps, limit })) {
      if (value !== undefined && !(Number.isInteger(value) && value > 0)) {
        const seen = typeof value === "string" ? JSON.stringify(value) : value;
        throw this.#told(new TypeError(`train: expected ${name}, a whole number above 0, got ${seen}.`));
      }
    }
    await this.load();
    if ((x || y) && this.#open.spec.engine !== "program") {
      throw this.#told(new TypeError("train: x and y are for exported programs; this one's data come from load_data()."));
    }
    try {
      [x, y] = await Promise.all([x, y].map((value) => this.#numbers(value)));
    } catch (error) {
      throw this.#told(error);
    }
    if (this.#run) throw new Error("train: it is being trained already.");
    return this.#train({ epochs, steps, limit, x, y });
  }

  /** Trains for one step. */
  step() { return this.train({ steps: 1 }); }

  /** Ends training after the step under way; `train` goes on from there. */
  async pause() {
    if (!this.#run) return;
    this.#run.stopping = true;
    this.#run.wake?.();
    this.#say("Pausing after this step");
    const { done } = this.#run;
    await this.#engine?.stop("training");
    await done.catch(() => {});
  }

  /** Ends the training after its step, and a text that is written after its token. */
  stop() {
    this.#stopped();
    this.#engine?.stop("writing");
    return this.pause();
  }

  /**
   * What an exported language model writes after a text, in pieces, or after tokens; the text box and the output show it.
   * Another text ends it, as do stop() and leaving the loop.
   */
  async * generate(prompt, options = {}) {
    await this.load();
    const end = typeof prompt === "string" ? this.#writes(prompt) : () => {};
    let text = typeof prompt === "string" ? prompt : null;
    try {
      if (!this.#open.generate) throw new Error("generate is for exported language models; predict(text) writes here.");
      for await (const piece of this.#open.generate(prompt, options)) {
        if (text !== null) text += piece;
        yield piece;
      }
    } catch (error) {
      text = null;
      throw this.#told(error);
    } finally {
      end(text);
    }
  }

  /**
   * What the network makes of samples, one after the other in `value`: { data, shape }; of a text, a text. An exported
   * program of several inputs takes them by their names, and gives several outputs so.
   */
  async predict(value) {
    await this.load();
    if (reads(this.spec) && typeof value === "string") return this.#write(value);
    try {
      const given = await this.#numbers(value);
      const found = await this.#open.predict(given);
      if (typeof found !== "string" && !Array.isArray(found.shape)) {
        this.#tell("prediction", { results: found, value });
        return found;
      }
      if (found.shape?.[0] === 1) this.#move(ArrayBuffer.isView(given) ? given : [given].flat());
      this.#output(found, value);
      return found;
    } catch (error) {
      throw this.#told(error);
    }
  }

  /** What a script gives, as numbers one after the other where it is lists of them, or pictures. */
  async #numbers(value) {
    const all = [value].flat();
    if (!all.some(isPicture)) return flat(value);
    const { input } = this.spec;
    if (input?.kind !== "pad" && input?.kind !== "image") {
      throw new TypeError("Pictures are for programs whose input is a Pad or an Image; give this one numbers.");
    }
    const ground = input.kind === "pad" ? "#000" : "#fff"; // as its paper is 0
    const found = await Promise.all(all.map((each) => pixels(each, input, ground)));
    return Float32Array.from(flat(found));
  }

  /** Has the input show what a script asks for, without asking once more. */
  #move(value) {
    const input = shown(this.#slots.input);
    if (!input?.localName.startsWith("pf-")) return; // a part of the page's own
    this.#asking.moved++;
    input.removeEventListener("input", this.#given);
    try {
      input.value = typeof value === "string" ? value : Float32Array.from(value);
    } finally {
      input.addEventListener("input", this.#given);
    }
  }

  /** Begins another conversation. */
  async clear() {
    await this.load();
    this.#writing = null;
    const input = shown(this.#slots.input);
    if (input?.begin) [input.busy, input.messages] = [false, []];
    await this.#open.clear?.().catch((error) => { throw this.#told(error); });
    if (!this.#run) this.#say(this.#rest());
  }

  /** Loss and metrics on the test data; null where there is none. */
  async evaluate() {
    await this.load();
    return this.#open.evaluate().catch((error) => { throw this.#told(error); });
  }

  /** A new network, which knows nothing. */
  async reset() {
    await this.load();
    await this.pause();
    this.#left = 0;
    await this.#change("Starting over", (engine) => engine.reset());
    this.#own = false;
    this.#clearRun();
    this.#say(this.spec.frozen || this.spec.trained ? this.#rest() : "A new network, which knows nothing yet.");
  }

  /** The weights as the bytes of a safetensors file. */
  async save() {
    await this.load();
    return this.#open.save().catch((error) => { throw this.#told(error); });
  }

  /** `save`, and the browser keeps the file. */
  async exportWeights({ name, download = true } = {}) {
    const data = await this.save();
    if (!download) return data;
    const program = (this.src || this.program).split("/").filter(Boolean).at(-1).replace(/\.\w+$/, "");
    const file = /\.\w+$/.test(name ?? "") ? name : `${name ?? program}.safetensors`;
    const url = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" })); // else browsers add ".txt"
    make("a", { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    this.#say(`Saved ${file}: pyframe, PyTorch and others read it.`);
    return data;
  }

  /** Changes a control: an option of the optimizer, or an argument of the program's model or data. */
  async set(name, value) {
    await this.load();
    await this.#change(null, (engine) => engine.set(name, value));
    for (const control of this.#controls.children) if (control.name === name) control.value = value;
  }

  /** The same network on another device. */
  async move(device) {
    if (!DEVICES.includes(device)) {
      throw this.#told(new TypeError(`move: expected ${DEVICES.join(", ")}, got ${device}.`));
    }
    await this.load();
    await this.#change("Moving the network", (engine) => engine.move(device));
    const now = `The network is on ${this.spec.device.name} now.`;
    if (!this.#run) this.#say(this.spec.trains && !this.spec.trained ? `${now} Press Train.` : now);
  }

  async #take(weights, options) {
    await this.load();
    const fit = { ...this.#fit(), ...options };
    const from = typeof weights === "string" ? new URL(weights, document.baseURI).href : weights;
    const name = typeof weights === "string" ? weights.split("/").at(-1) : undefined;
    await this.#change("Loading the weights", (engine) => engine.load(from, name, fit));
    this.#own = true;
    this.#say("The network has the saved weights now.");
    return this.ready;
  }

  /** Something that makes another network of this one; training goes on with it. */
  #change(doing, act) {
    const change = this.#changes.then(async () => {
      const engine = this.#open;
      const before = { ...engine.spec }; // which an engine may change in place
      if (doing && !this.#run) this.#say(doing);
      try {
        await act(engine);
      } catch (error) {
        throw this.#told(error);
      } finally {
        if (engine === this.#engine) this.#settle(before);
      }
      if (engine !== this.#engine) throw closed();
    });
    this.#changes = change.catch(() => {});
    return change;
  }

  // --- loading ---------------------------------------------------------------------------------

  async #start() {
    this.#drop();
    const turn = ++this.#turn;
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#show("loading");
    this.#clearError();
    this.#progress("Loading", 0);
    try {
      const options = this.#options();
      const part = options.program ? import("./player.js") : import("./python.js"); // as bundlers know it
      const { open } = await part.catch(async () => {
        throw new Error(await lacking(options.program ? "player.js" : "python.js"));
      });
      signal.throwIfAborted(); // another program was asked for meanwhile
      const engine = await open({ ...options, signal }, (event, detail) => {
        if (turn === this.#turn) this.#heard(event, detail);
      });
      if (turn !== this.#turn) return await engine.close();
      this.#engine = engine;
      this.#arrive();
    } catch (error) {
      if (turn !== this.#turn || signal.aborted) return;
      this.#show("failed");
      this.#fail(error.message, error, true);
      this.#ready.reject(error);
    }
  }

  /** Forgets the program and all that was seen of it. */
  #drop() {
    this.#turn++;
    const [engine, run] = [this.#engine, this.#run];
    this.#engine = this.#run = null;
    if (run) {
      run.stopping = true;
      run.wake?.();
      this.#training(false);
    }
    this.#own = false;
    this.#abort?.abort();
    this.#abort = null;
    engine?.close();
    if (this.#state === "ready" || this.#state === "failed") this.#renew();
    clearTimeout(this.#looking.timer);
    this.#writing = null;
    this.#history = [];
    this.#left = 0;
    this.#points = null;
    this.#said.clear();
    this.#notices.replaceChildren();
    this.#clearError();
  }

  #renew() {
    this.#ready = Promise.withResolvers();
    this.#ready.promise.catch(() => {}); // told by the event "error"
  }

  /** The program is there. */
  #arrive() {
    const { spec } = this.#engine;
    this.#furnish(spec);
    this.#settle(null);
    this.#show("ready");
    this.#say(this.#rest());
    this.#ready.resolve(spec);
    this.#tell("ready", spec);
    if (this.#lost) this.#notice("The network begins anew: what it had learnt went when this element was removed from the page.");
    this.#lost = false;
    this.#look(true); // an untrained network guesses, too
    if (this.autotrain && spec.trains) this.#train({}).catch(() => {}); // told
  }

  /** What the status says while nothing is done. */
  #rest() {
    const { trains, trained, frozen, step } = this.spec;
    if (!trains) return "Ready.";
    if (!trained && frozen) return "Ready: the network knows what it was made with. Try it, or train it.";
    if (!trained) return "Ready: the network knows nothing yet. Press Train.";
    return `Ready${step ? "" : ": the network has saved weights"}. Try it, or train it further.`;
  }

  #tell(name, detail) {
    return this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  #heard(event, detail) {
    const heard = {
      progress: ({ text, fraction }) => this.#progress(text, fraction),
      notice: ({ text }) => this.#notice(text),
      devicelost: ({ text }) => this.#notice(text, true),
      error: ({ message, traceback, ended }) => {
        if (ended) this.#show("failed");
        this.#fail(message, { message, traceback }, ended);
      },
      step: (step) => this.#step(step),
      epoch: (epoch) => this.#epoch(epoch),
      again: ({ text }) => {
        const lost = this.#own ? " What this network had learnt is gone." : "";
        this.#start();
        this.#notice(text + lost);
      },
      samples: ({ predictions }) => this.#samples?.show(predictions),
      prediction: ({ text, done }) => this.#written(text, done),
    }[event];
    heard?.(detail);
    if (event !== "error" && event !== "again") this.#tell(event, detail);
  }

  // --- training --------------------------------------------------------------------------------

  async #train({ epochs, steps, limit, x, y }) {
    const { spec } = this.#open;
    const run = {
      steps, limit, data: { x, y }, stopping: false, stepped: false, took: 0, seconds: 0, last: {}, wake: null,
      epochs: steps ? 0 : epochs ?? (this.#left || (this.epochs ?? spec.epochs)),
    };
    this.#run = run;
    this.#own = true;
    this.#clearError(); // of what was tried before
    run.done = this.#steps(run);
    this.#training(true);
    this.#say("Preparing the first step");
    try {
      const result = await run.done;
      const after = `after ${short(result.steps)} ${result.steps === 1 ? "step" : "steps"}`;
      const share = result.val_accuracy ?? null;
      const seconds = `in ${result.seconds.toFixed(1)} s`;
      this.#say(!Number.isFinite(this.#shown.loss)
        ? `The loss is no number ${after}, and the network can't learn from that: start over, with a lower learning rate.`
        : result.stopped ? `Paused ${after}. Train goes on from here.`
        : steps ? `Done ${after}.`
          : `Done ${after} ${seconds}${share === null ? "." : `: ${percent(share)} of unseen data are right.`}`);
      this.#tell("trained", result);
      return result;
    } catch (error) {
      throw this.#told(error);
    } finally {
      if (this.#run === run) {
        this.#run = null;
        this.#training(false);
      }
    }
  }

  /** Has the engine train, again where something has changed meanwhile, until nothing is left to do. */
  async #steps(run) {
    const turn = this.#turn;
    const left = () => (run.steps === undefined ? run.epochs : run.steps);
    while (!run.stopping && left() > 0) {
      await this.#changes;
      if (turn !== this.#turn || run.stopping) break;
      const slow = SPEEDS[this.#speed.value] ?? 0;
      const much = slow ? { steps: 1 } : run.steps === undefined ? { epochs: run.epochs } : { steps: run.steps };
      const result = await this.#engine.train({
        ...much, ...run.data, limit: run.limit, points: this.#points ?? undefined,
      });
      run.data = {}; // which it goes on with
      run.took += result.steps;
      run.seconds += result.seconds;
      run.last = result;
      if (run.steps !== undefined) run.steps -= result.steps;
      else if (!slow && !result.stopped) run.epochs = 0; // else the event "epoch" counts them
      if (slow && left() > 0 && !run.stopping) {
        await new Promise((done) => {
          run.wake = done;
          setTimeout(done, 1000 / slow);
        });
      }
    }
    if (turn !== this.#turn) throw closed();
    this.#left = run.steps === undefined ? run.epochs : this.#left;
    return { ...run.last, steps: run.took, seconds: run.seconds, stopped: left() > 0 };
  }

  /** Has training go on with what is now wanted: the speed, or the visitor's points. */
  #again() {
    this.#run?.wake?.();
    if (this.#run) this.#engine?.stop("training");
  }

  #step({ loss, step, steps, epoch, epochs, speed, metrics = {} }) {
    Object.assign(this.#shown, { step, loss });
    const chart = shown(this.#slots.chart);
    if (chart?.add) {
      if (steps > step) chart.planned = steps;
      chart.add(step, { loss, ...metrics });
    }
    this.#number("speed", speed ? `${short(speed)} steps/s` : "–");
    if (this.#run && !this.#run.stopping) {
      this.#run.stepped = true;
      const from = `step ${short(step)}${steps > step ? ` of ${short(steps)}` : ""}`;
      const { epochs: left, steps: some } = this.#run;
      const of = some === undefined ? ` of ${Math.max(epochs, epoch - 1 + left)}` : ""; // slowly, a step is a run
      const doing = this.#points ? "Training on your points" : "Training";
      this.#say(`${doing}: epoch ${epoch}${of}, ${from}`, steps ? step / steps : null);
    }
    this.#look();
  }

  #epoch(detail) {
    this.#history.push(detail);
    if (this.#run?.epochs > 0) this.#run.epochs--;
    const { val_accuracy: unseen, val_loss, accuracy, loss, step = this.#shown.step } = detail;
    const chart = shown(this.#slots.chart);
    chart?.epoch?.(step);
    if (val_loss !== undefined) chart?.add?.(step, { val_loss, val_accuracy: unseen });
    const row = this.#epochs.tBodies[0].insertRow();
    const cells = [detail.epoch, short(loss), accuracy === undefined ? "–" : percent(accuracy),
      unseen === undefined ? short(val_loss) : percent(unseen)];
    for (const text of cells) row.insertCell().textContent = text;
    this.#epochs.closest("details").hidden = false;
  }

  // --- looking at what the network makes of things ----------------------------------------------

  #visible = () => {
    if (document.visibilityState === "visible") this.#look();
  };

  /** Asks what the network makes of the plane, of unseen samples and of the visitor's input. */
  async #look(now = false) {
    const state = this.#looking;
    clearTimeout(state.timer);
    if (this.#state !== "ready" || !this.#seen || document.visibilityState !== "visible") return;
    const wait = state.last + LOOK - performance.now();
    if (state.busy || (!now && wait > 0)) {
      state.again = true;
      if (!state.busy) state.timer = setTimeout(() => this.#look(), wait);
      return;
    }
    [state.busy, state.again] = [true, false];
    const turn = this.#turn;
    try {
      await this.#lookAt(this.#engine, turn);
    } catch (error) {
      if (turn === this.#turn && !this.#run) this.#told(error); // training tells its own
    }
    state.busy = false;
    state.last = performance.now();
    if (state.again) this.#look();
  }

  async #lookAt(engine, turn) {
    const { output, samples } = engine.spec;
    const input = shown(this.#slots.input);
    const side = { plane: output?.size, picture: PICTURES }[output?.kind];
    if (side && input?.surface) {
      const found = await engine.predict(input.grid(side));
      if (turn === this.#turn) input.surface(found, side);
    }
    if (samples?.length && output?.kind === "bars") {
      const size = samples[0].data.length;
      const all = new Float32Array(samples.length * size);
      samples.forEach(({ data }, i) => all.set(data, i * size));
      const found = await engine.predict(all);
      if (turn === this.#turn) this.#samples?.show(found);
    }
    if (turn === this.#turn && !reads(engine.spec)) this.#ask();
  }

  /** Asks what the network makes of the input; while an answer is on its way, once more afterwards. */
  async #ask() {
    const { input, output } = this.spec ?? {};
    const widget = shown(this.#slots.input);
    if (!input || !output || output.kind === "plane" || !widget || reads(this.spec)) return;
    this.#asking.next = true;
    if (this.#asking.busy) return;
    this.#asking.busy = true;
    try {
      while (this.#asking.next && this.#engine) {
        this.#asking.next = false;
        const { value } = widget;
        if (value === null || value === undefined) {
          shown(this.#slots.output)?.clear?.();
        } else {
          const [turn, { moved }] = [this.#turn, this.#asking];
          const found = await this.#engine.predict(value);
          if (moved !== this.#asking.moved) this.#asking.next = true;
          if (turn === this.#turn && !this.#asking.next) this.#output(found, value);
        }
      }
    } catch (error) {
      this.#told(error);
    } finally {
      this.#asking.busy = false;
    }
  }

  #output(found, value) {
    const widget = shown(this.#slots.output);
    const { input } = this.spec;
    if (typeof found === "string") {
      widget?.show?.(found, true);
      this.#tell("prediction", { text: found, done: true });
      return;
    }
    if (this.spec.output?.kind !== "plane" && found.shape[0] === 1) {
      widget?.show?.(found, input?.kind === "position" ? `at ${shown(this.#slots.input).words()}` : "");
    }
    this.#tell("prediction", { ...found, value, kind: input?.kind });
  }

  #written(text, done) {
    const { given, ending } = this.#writing ?? { given: "", ending: false };
    if (text !== undefined) this.#page?.show?.(text, done || ending, given);
  }

  /** The widget that shows what is written: a chat does so itself. */
  get #page() { return shown(this.spec?.input?.kind === "chat" ? this.#slots.input : this.#slots.output); }

  /** What the program writes of a text; another text, or Stop, ends it. */
  async #write(given) {
    const end = this.#writes(given);
    try {
      const text = await this.#engine.predict(given);
      end(text);
      return text;
    } catch (error) {
      end();
      throw this.#told(error);
    }
  }

  /** Shows that a text is being written of another one; what shows its end, unless another has begun meanwhile. */
  #writes(given) {
    const writing = this.#writing = { given, ending: false };
    const [engine, input, output] = [this.#engine, shown(this.#slots.input), this.#page];
    if (input) input.busy = true;
    if (input?.begin) input.begin(given);
    else if (input && input.value !== given) this.#move(given);
    if (!this.#run) {
      this.#clearError(); // of what was tried before
      this.#say("Writing");
    }
    output?.show?.("", false);
    return (text = null) => {
      if (writing !== this.#writing) return;
      this.#writing = null;
      if (text === null && input?.withdraw) input.withdraw();
      else output?.show?.(text ?? output.value ?? "", true, given);
      if (text !== null) this.#tell("prediction", { text, done: true });
      if (input) input.busy = false;
      if (!this.#run && engine === this.#engine) this.#say(this.#rest(), null); // the text is told
    };
  }

  // --- the shadow tree -------------------------------------------------------------------------

  #slots = {};
  #part = {};
  #teller = teller();
  #telling = 0; // what the status has told just now
  #notices;
  #controls;
  #speed;
  #device;
  #samples = null;
  #epochs;

  #build() {
    const part = (name, tag = "div", attributes = {}, ...children) => (
      this.#part[name] = make(tag, { part: name, ...attributes }, ...children));
    const slot = (name, ...children) => (this.#slots[name] = make("slot", { name }, ...children));
    const button = (name, text, act, attributes = {}) => part(name, "button", {
      type: "button", click: ({ currentTarget }) => {
        if (currentTarget.ariaDisabled !== "true") Promise.resolve(act()).catch(() => {}); // told
      }, ...attributes,
    }, text);
    const number = (name, label, first = "–") => (
      make("div", {}, make("dt", {}, label), part(name, "dd", {}, first)));

    this.#notices = part("notices");
    this.#controls = make("div", { class: "settings", part: "settings" });
    this.#speed = make("pf-choice", { name: "speed", label: "Speed", part: "speed", change: (event) => {
      event.stopPropagation();
      this.#again();
    } });
    this.#speed.spec = { name: "speed", label: "Steps", options: Object.keys(SPEEDS) };
    this.#device = make("pf-choice", { name: "device", part: "devices", change: (event) => {
      event.stopPropagation();
      const kind = Object.keys(NAMES).find((key) => NAMES[key] === event.detail.value);
      this.move(kind).catch(() => this.#settle(this.spec));
    } });
    this.#epochs = make("table", { part: "epochs" },
      make("thead", {}, make("tr", {},
        ...["Epoch", "Loss", "Learning", "Unseen"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody"));

    const before = [make("slot", { name: "before" }), make("slot")];
    const around = make("div", { class: "before", part: "before" }, ...before);
    const used = () => around.classList.toggle("used", before.some((s) => s.assignedNodes().some((node) =>
      node.nodeType === Node.ELEMENT_NODE || node.textContent.trim())));
    for (const each of before) each.addEventListener("slotchange", used);

    const poster = part("poster", "div", {},
      slot("poster"), button("play", "Run this program", () => this.load(), { class: "primary" }));
    this.#slots.poster.addEventListener("slotchange", () => (
      poster.classList.toggle("used", this.#slots.poster.assignedElements().length > 0)));

    this.shadowRoot.append(
      this.#teller,
      around,
      make("div", { class: "head", part: "head" },
        part("title", "h3"), part("description", "p", { hidden: true })),
      poster,
      part("loading", "div", { tabindex: -1 },
        part("loading-text", "p", { id: "loading" }),
        part("loading-progress", "progress", { max: 1, value: 0, "aria-labelledby": "loading" })),
      part("error", "div", { hidden: true },
        part("error-message", "p"),
        part("traceback", "details", { hidden: true },
          make("summary", {}, "Traceback"), part("traceback-text", "pre", { tabindex: 0 })),
        button("retry", "Retry", () => this.load())),
      this.#notices,
      part("body", "div", {},
        part("training", "div", { role: "group", "aria-label": "Training" },
          slot("controls", make("div", { class: "tools", part: "controls" },
            button("train", "Train", () => (this.#run ? this.pause() : this.train()), { class: "primary" }),
            button("step-button", "Step", () => this.step()),
            button("reset", "Start over", () => this.reset()),
            button("save", "Save weights", () => this.exportWeights())),
          make("div", { class: "settings" }, this.#device, this.#speed), this.#controls),
          make("div", { class: "doing" },
            slot("status", part("status", "p", { id: "status" })),
            part("progress", "progress", { max: 1, value: 0, "aria-labelledby": "status" })),
          part("numbers", "dl", {}, number("device-name", "Device"), number("speed-now", "Speed")),
          slot("chart", make("pf-chart", { part: "chart" })),
          make("details", { hidden: true, part: "epochs-details" },
            make("summary", {}, "Each epoch"), this.#epochs)),
        part("model", "div", { role: "group", "aria-label": "The network" },
          make("div", { class: "both" }, slot("input"), slot("output"))),
        part("unseen")),
    );
    this.#show("idle");
  }

  #name() {
    const title = this.getAttribute("title") || this.spec?.title || "";
    const place = (this.getAttribute("src") || this.getAttribute("program") || "").split("/").filter(Boolean).at(-1);
    const name = title || `Program ${place ?? ""}`.trim();
    if (!this.hasAttribute("aria-labelledby")) this.setAttribute("aria-label", name);
    this.#part.title.textContent = name;
    this.#part.title.ariaLevel = this.#level();
    this.#part.title.classList.toggle("said", !title); // a heading for those who can't see
  }

  /** Of the element's heading: it belongs below the one that the page has before it. */
  #level() {
    const before = [...document.querySelectorAll("h1, h2, h3, h4, h5")]
      .filter((each) => each.compareDocumentPosition(this) & Node.DOCUMENT_POSITION_FOLLOWING);
    return before.length ? Number(before.at(-1).localName[1]) + 1 : 1;
  }

  /** Which of the views is shown: the poster, loading, what is wrong, or the program. */
  #show(state) {
    this.#state = state;
    const held = this.shadowRoot.activeElement;
    this.#part.poster.hidden = state !== "idle";
    this.#part.loading.hidden = state !== "loading";
    this.#part.body.hidden = state !== "ready";
    this.#part.retry.hidden = state !== "failed";
    if (held?.closest("[hidden]")) { // who came here by the keyboard goes on from here
      const { loading, retry, train, play } = this.#part;
      ({ loading, failed: retry, ready: train, idle: play })[state].focus({ preventScroll: true });
    }
  }

  #progress(text, fraction) {
    if (this.#state === "ready") { // kernels that the first step waits for
      if (this.#run && !this.#run.stepped && !this.#run.stopping) this.#say(text, fraction ?? null);
      return;
    }
    if (text !== this.#part["loading-text"].textContent) announce(this.#teller, text);
    this.#part["loading-text"].textContent = text;
    const { "loading-progress": bar } = this.#part;
    if (fraction === null || fraction === undefined) bar.removeAttribute("value");
    else bar.value = fraction;
  }

  /** The widgets that the program names. */
  #furnish(spec) {
    this.#part.description.textContent = spec.description ?? "";
    this.#part.description.hidden = !spec.description;
    this.#name();
    const widget = (given, known) => (given && known.includes(given.kind) ? make(`pf-${given.kind}`) : null);
    const [input, output] = [widget(spec.input, INPUTS), widget(spec.output, OUTPUTS)];
    if (input) {
      input.setAttribute("part", "input");
      input.spec = spec.input.kind === "text" ? { ...spec.input, mode: "input", button: "Write" } : spec.input;
    }
    if (output) {
      output.setAttribute("part", "output");
      const more = { text: { mode: "output" }, picture: { label: spec.title } }[spec.output.kind];
      output.spec = { ...spec.output, ...more };
    }
    this.#slots.input.replaceChildren(...(input ? [input] : []));
    this.#slots.output.replaceChildren(...(output ? [output] : []));
    const [shownInput, shownOutput] = [shown(this.#slots.input), shown(this.#slots.output)];
    shownInput?.addEventListener("input", this.#given);
    shownInput?.addEventListener("submit", this.#submitted);
    shownInput?.addEventListener("stop", this.#stopped);
    shownInput?.addEventListener("clear", this.#cleared);
    shownInput?.addEventListener("points", this.#put);
    shownInput?.addEventListener("error", this.#refused);
    const beside = shownInput && shownOutput && !reads(spec); // texts want the whole width
    this.#slots.input.parentNode.classList.toggle("beside", Boolean(beside));
    this.#controls.replaceChildren(...(spec.controls ?? []).map((control) => {
      const made = make(`pf-${control.kind}`, { change: (event) => {
        event.stopPropagation();
        this.#change(null, (engine) => engine.set(control.name, event.detail.value)).catch(() => {}); // told
      } });
      made.spec = control.kind === "text" ? { ...control, button: "" } : control;
      return made;
    }));
    this.#controls.hidden = !spec.controls?.length;
    this.#samples = spec.samples?.length && spec.output?.kind === "bars" ? make("pf-samples", {
      part: "samples",
      choose: ({ detail }) => { shown(this.#slots.input).value = Float32Array.from(detail.data); },
    }) : null;
    this.#part.unseen.replaceChildren(...(this.#samples
      ? [make("h4", { "aria-level": this.#level() + this.#part.title.checkVisibility() }, spec.tests ? "Unseen samples" : "Samples"),
        make("p", { class: "quiet" }, "What the network makes of them now. Choose one to try it."),
        this.#samples]
      : []));
    if (this.#samples) {
      const { kind, channels = 1, height, width } = spec.input;
      this.#samples.spec = { kind, channels, height, width, names: spec.output.names ?? [] };
    }
    const { body, model, training, unseen } = this.#part;
    const tried = Boolean(spec.trained || spec.frozen || !spec.trains || spec.input?.kind === "numbers"); // first; sliders are small
    body.append(...(tried ? [model, training, unseen] : [training, model, unseen])); // a phone shows them so
    body.classList.toggle("tried", tried);
    const [trains, shows] = [spec.trains, Boolean(shownInput || shownOutput)];
    for (const name of ["train", "step-button", "reset", "save", "numbers"]) this.#part[name].hidden = !trains;
    this.#speed.hidden = !trains;
    this.#slots.chart.hidden = !trains;
    this.#part.model.hidden = !shows;
    this.#part.body.classList.toggle("both-sides", trains && shows);
    const chart = shown(this.#slots.chart);
    if (chart?.localName === "pf-chart") chart.spec = { metrics: spec.metrics ?? [] };
    this.#clearRun();
  }

  #given = () => { this.#ask(); };

  #submitted = ({ detail }) => { this.predict(detail.value).catch(() => {}); }; // told

  #stopped = () => {
    if (!this.#writing) return;
    this.#writing.ending = true; // training may keep the last piece waiting
    shown(this.#slots.input).busy = false;
    const page = this.#page;
    page?.show?.(page.messages?.at(-1).content ?? page.value, true, this.#writing.given);
    this.#engine.stop("writing");
  };

  #cleared = () => { this.clear().catch(() => {}); }; // told

  /** What the input does not take, such as a file too large, it shows itself. */
  #refused = ({ detail }) => {
    const message = detail?.message;
    if (message) this.#tell("error", { message, traceback: "", error: new Error(message) });
  };

  #put = ({ currentTarget: { points } }) => {
    this.#points = points.length ? points : null;
    this.#again();
  };

  /** Shows what the program is now, after something has changed it. */
  #settle(before) {
    const { spec } = this.#engine;
    const { device } = spec;
    this.#device.spec = {
      name: "device", label: "Arithmetic by", value: NAMES[device.kind],
      options: device.choices.map((kind) => NAMES[kind]),
    };
    this.#device.value = NAMES[device.kind];
    this.#device.hidden = device.choices.length < 2;
    this.#number("device-name", device.name);
    for (const control of this.#controls.children) {
      const [now, was] = [spec, before].map((of) => of?.controls.find(({ name }) => name === control.name));
      if (!now || (now.kind === "text" && now.value === was?.value)) continue; // what one writes stays
      control.value = now.value;
    }
    if (!before || before.samples !== spec.samples) {
      if (this.#samples) this.#samples.samples = spec.samples;
    }
    const input = shown(this.#slots.input);
    if ((!before || before.points !== spec.points) && spec.points && input) input.data = spec.points;
    if (!spec.trained && (!before || before.trained)) {
      this.#own = false;
      this.#clearRun();
    }
    this.#off("reset", !spec.trained);
    this.#look(true);
  }

  #clearRun() {
    this.#history = [];
    this.#shown = { step: 0, loss: 0 };
    shown(this.#slots.chart)?.clear?.();
    this.#epochs.tBodies[0].replaceChildren();
    this.#epochs.closest("details").hidden = true;
    for (const each of this.#notices.querySelectorAll(".passing")) each.remove();
    this.#number("speed", "–");
  }

  #training(on) {
    this.#part.train.textContent = on ? "Pause" : "Train";
    this.#off("step-button", on);
    this.#off("reset", on || !this.spec?.trained);
    this.#off("save", on);
    this.#part.progress.classList.toggle("on", on);
    if (on) this.#part.progress.removeAttribute("value");
    else if (this.spec) this.#settle(this.spec);
  }

  /** Switches a button off, or on. One that has the focus only says so: else who came by the keyboard would be lost. */
  #off(name, off) {
    const button = this.#part[name];
    const held = off && button === this.shadowRoot.activeElement;
    button.disabled = off && !held;
    button.ariaDisabled = held ? "true" : null;
  }

  /** Shows what is done, and tells a screen reader; with a fraction it is of many, which nobody wants to hear. */
  #say(text, fraction) {
    clearTimeout(this.#telling);
    if (text && fraction === undefined) this.#telling = announce(this.#teller, text);
    this.#part.status.textContent = text;
    if (fraction !== null && fraction !== undefined) this.#part.progress.value = fraction;
  }

  #number(name, text) { this.#part[name === "speed" ? "speed-now" : name].textContent = text; }

  /** Shows a notice, once. One about the loss goes with the network. */
  #notice(text, always = false) {
    const passing = /^the loss became /i.test(text);
    if (passing ? this.#notices.querySelector(".passing") : this.#said.has(text) && !always) return;
    if (!passing) this.#said.add(text);
    this.#notices.append(make("p", { part: "notice", class: passing ? "passing" : null }, text));
    announce(this.#teller, text);
  }

  // --- what is wrong ---------------------------------------------------------------------------

  /** Shows an error and tells it, once; gives it back. */
  #told(error) {
    if (error.name === "AbortError" || error.told) return error;
    if (typeof error === "object") error.told = true;
    this.#fail(error.message, error);
    return error;
  }

  #fail(message, error = {}, fatal = false) {
    const { traceback = "" } = error;
    this.#part.error.hidden = false;
    this.#part.retry.hidden = !fatal;
    this.#part["error-message"].textContent = message;
    this.#part.traceback.hidden = !traceback;
    this.#part["traceback-text"].textContent = traceback;
    if (!fatal) this.#say("");
    announce(this.#teller, `Error: ${message}`);
    this.#tell("error", { message, traceback, error });
  }

  #clearError() {
    this.#part.error.hidden = true;
  }
}

define("py-frame", PyFrame);
