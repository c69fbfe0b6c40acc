// What the widgets and <py-frame> share: the look as CSS variables, a base class, and small tools.
//
// A page themes all of them from outside, on :root or on one element:
//   --pf-accent  --pf-on-accent  --pf-surface  --pf-text  --pf-muted  --pf-border  --pf-good  --pf-bad
//   --pf-radius  --pf-font  --pf-class-0 … --pf-class-9
// Light or dark is what `color-scheme` is where the element stands; no part sets it.

/** A style sheet for `adoptedStyleSheets`, which a policy of `style-src 'self'` allows. */
export function sheet(css) {
  const made = new CSSStyleSheet();
  made.replaceSync(css);
  return made;
}

// For light and for dark. Classes are told apart by those who see few colours, too.
const COLORS = {
  text: ["#1c2130", "#e8eaf1"], muted: ["#5d6474", "#a2a9ba"], surface: ["#ffffff", "#1b1e27"],
  border: ["#dfe0e6", "#363b49"], accent: ["#4350cf", "#98a3ff"], "on-accent": ["#ffffff", "#12141a"],
  good: ["#137a48", "#62d39b"], bad: ["#b3261e", "#ff8f86"],
  "class-0": ["#2f6fde", "#6ea3ff"], "class-1": ["#e8710a", "#ffa04d"], "class-2": ["#12855d", "#3fcf9a"],
  "class-3": ["#c2337f", "#ff7dbd"], "class-4": ["#a67c00", "#e5c04a"], "class-5": ["#7350cf", "#b399ff"],
  "class-6": ["#8a5a36", "#cf9c74"], "class-7": ["#0d8fad", "#4fd0ec"], "class-8": ["#666d7c", "#a9b1c2"],
  "class-9": ["#c4302b", "#ff8a80"],
};
const colors = (of) => Object.entries(COLORS)
  .map(([name, [light, dark]]) => `--_${name}: var(--pf-${name}, ${of(light, dark)});`).join("\n  ");

/** The shared look: variables with a leading underscore, and the controls that all parts use. */
export const look = sheet(`
:host {
  ${colors((light, dark) => `light-dark(${light}, ${dark})`)}
  --_radius: var(--pf-radius, 10px);
  --_field: color-mix(in oklab, var(--_text) 6%, var(--_surface));
  --_edge: color-mix(in oklab, var(--_text) 45%, var(--_surface));
  --_faint: color-mix(in oklab, var(--_accent) 38%, var(--_surface));
  --_tint: color-mix(in oklab, var(--_accent) 10%, var(--_surface));
  --_target: 36px;
  display: block; position: relative; box-sizing: border-box; min-width: 0; color: var(--_text);
  font: 400 .9375rem/1.45
    var(--pf-font, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif);
  font-variant-numeric: tabular-nums; text-align: start; letter-spacing: normal;
}
:host(:dir(rtl)) { text-align: right; }
p, dd, td, output, textarea, [part=percent], [part=guess] { unicode-bidi: plaintext; } /* each as its words run */
:host([hidden]), [hidden] { display: none !important; }
*, ::before, ::after { box-sizing: border-box; }
:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
p, ol, ul, dl, dd, figure, fieldset { margin: 0; padding: 0; border: 0; min-width: 0; list-style: none; }
canvas, svg { display: block; }
button, input, select, textarea { font: inherit; letter-spacing: inherit; color: inherit; margin: 0; }
.button, button, select {
  display: inline-flex; align-items: center; justify-content: center; gap: .4em; min-height: var(--_target);
  padding: .3em .9em; border: 1px solid var(--_border); border-radius: calc(var(--_radius) * .8);
  background: var(--_field); color: var(--_text); line-height: 1.2; cursor: pointer;
  touch-action: manipulation; user-select: none; -webkit-user-select: none;
}
button.primary {
  background: var(--_accent); border-color: var(--_accent); color: var(--_on-accent); font-weight: 650;
}
@media (hover: hover) {
  .button:hover, button:hover:enabled, select:hover { border-color: var(--_edge); }
  button.primary:hover:enabled { background: color-mix(in oklab, var(--_accent) 88%, var(--_text)); }
}
button:active:enabled { transform: translateY(1px); }
button:disabled, select:disabled, input:disabled, [aria-disabled=true], .off { opacity: .5; cursor: default; }
.tools { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; }
.quiet { color: var(--_muted); font-size: .875em; }
.field { position: relative; }
.field > [part=hint] {
  position: absolute; inset: 0; display: grid; place-items: center; pointer-events: none;
  color: var(--_muted); text-align: center;
}
canvas:focus-visible ~ [part=hint] { display: none; } /* the keys are told below */
[part=keys] {
  position: absolute; inset-inline: 0; z-index: 1; margin-top: 7px; padding: .4em .7em; border: 1px solid var(--_edge);
  border-radius: calc(var(--_radius) * .8); background: var(--_surface); font-size: .875em; pointer-events: none;
}
[role=radiogroup] label { position: relative; cursor: pointer; }
[role=radiogroup] input {
  position: absolute; inset: 0; width: 100%; height: 100%; opacity: 0; cursor: inherit;
}
input:focus-visible + span { outline: 3px solid var(--_accent); outline-offset: 2px; }
.said, .probe {
  position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%);
  white-space: pre; pointer-events: none;
}
[part=message] {
  margin: .5em 0 0; padding: .5em .75em; border-radius: calc(var(--_radius) * .8); color: var(--_bad);
  border: 1px solid currentColor; background: color-mix(in oklab, var(--_bad) 8%, var(--_surface));
  overflow-wrap: anywhere; white-space: pre-wrap;
}
/* The end of this transition tells a canvas that its colours are others now. */
.probe {
  background-color: var(--_surface); outline-color: var(--_text); border-top-color: var(--_accent);
  transition: background-color 1ms, outline-color 1ms, border-top-color 1ms; forced-color-adjust: none;
}
@supports not (color: light-dark(#fff, #000)) { :host { ${colors((light) => light)} } }
@media (any-pointer: coarse) {
  :host { --_target: 44px; }
  textarea, select { font-size: max(1em, 16px); } /* phones would zoom into smaller text */
}
@media (prefers-contrast: more) { :host { --_border: var(--_edge); --_muted: var(--_text); } }
@media (forced-colors: active) {
  :host {
    --_text: CanvasText; --_muted: CanvasText; --_surface: Canvas; --_field: Canvas; --_tint: Canvas;
    --_border: CanvasText; --_edge: CanvasText; --_accent: Highlight; --_on-accent: HighlightText;
    --_faint: color-mix(in oklab, Highlight 40%, Canvas); --_good: CanvasText; --_bad: CanvasText;
  }
  button.primary { forced-color-adjust: none; }
}`);

const SVG = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "polyline", "title"]);

/**
 * An element with attributes and children: true is an empty attribute; false, null and undefined are
 * none; a function is a listener of the event of that name. Strings among the children are text.
 */
export function make(tag, attributes = {}, ...children) {
  const element = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/**
 * A button that does something to a widget, and is disabled while there is nothing to do: whose keyboard pressed
 * it last goes on in the field that it is of.
 */
export function act(part, text, click) {
  const button = make("button", { type: "button", part, disabled: true, click: () => {
    const keyed = button.matches(":focus-visible");
    click();
    if (keyed && button.disabled) button.getRootNode().querySelector("canvas[tabindex], input, textarea").focus();
  } }, text);
  return button;
}

/** Where `announce` tells a screen reader of what happens: it is there, and shown, before it has anything to tell. */
export const teller = () => make("div", { class: "said", "aria-live": "polite" });

/** Tells a screen reader a text, once: who reads on later does not find it there. Gives a timer, to be cleared where it is stale. */
export function announce(teller, text) {
  const said = make("p", {}, text);
  setTimeout(() => said.remove(), HEARD);
  return setTimeout(() => teller.append(said), SOON);
}

/** What keys do in a canvas: a screen reader reads it, and who comes by the keyboard sees it, until Escape. */
export function help(canvas, text) {
  const tip = make("p", { id: "how", part: "keys", role: "tooltip", hidden: true }, text);
  canvas.setAttribute("aria-describedby", "how");
  canvas.addEventListener("focus", () => { tip.hidden = !canvas.matches(":focus-visible"); });
  canvas.addEventListener("blur", () => { tip.hidden = true; });
  canvas.addEventListener("keydown", ({ key }) => { if (key === "Escape") tip.hidden = true; });
  return tip;
}

/** Registers an element, once: two copies of a script on a page agree on the first. */
export function define(name, type) {
  if (!customElements.get(name)) customElements.define(name, type);
}

/** Where the arrow keys lead, across and down. */
export const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const PICTURES = [
  "Blob", "ImageData", "ImageBitmap", "HTMLImageElement", "SVGImageElement", "HTMLCanvasElement", "OffscreenCanvas",
  "HTMLVideoElement", "VideoFrame",
];

/** Whether a value is one of the browser's pictures, which `pixels` takes. */
export const isPicture = (value) => typeof value === "object" &&
  PICTURES.some((name) => globalThis[name] && value instanceof globalThis[name]);

/** A picture as numbers: see `fitted`. */
export async function pixels(picture, size, ground) {
  let bitmap;
  try {
    await picture.decode?.(); // an <img> that still loads
    bitmap = await createImageBitmap(picture, { imageOrientation: "from-image" });
    return fitted(bitmap, size, ground);
  } catch ({ name, message }) {
    throw new TypeError(`This picture can't be read: ${name === "SecurityError"
      ? "it is another site's, which must allow it (CORS, and crossorigin=\"anonymous\" on the element)."
      : `expected one that has been loaded, or a whole file of one (${message}).`}`);
  } finally {
    bitmap?.close();
  }
}

/**
 * The middle of a picture as numbers from 0 to 1, (channels, height, width), halved step by step: each pixel counts.
 * What is transparent lies on `ground`.
 */
export function fitted(bitmap, { width, height, channels = 1 }, ground = "#fff") {
  const scale = Math.min(bitmap.width / width, bitmap.height / height);
  let [w, h] = [Math.max(1, width * scale), Math.max(1, height * scale)]; // of the middle
  let [source, x, y] = [bitmap, (bitmap.width - w) / 2, (bitmap.height - h) / 2];
  for (let last = false; !last;) {
    last = w <= 2 * width || h <= 2 * height;
    const [nextW, nextH] = last ? [width, height] : [Math.ceil(w / 2), Math.ceil(h / 2)];
    const context = Object.assign(document.createElement("canvas"), { width: nextW, height: nextH })
      .getContext("2d", { willReadFrequently: true });
    Object.assign(context, { imageSmoothingQuality: "high", fillStyle: ground });
    context.fillRect(0, 0, nextW, nextH);
    context.drawImage(source, x, y, w, h, 0, 0, nextW, nextH);
    [source, x, y, w, h] = [context.canvas, 0, 0, nextW, nextH];
  }
  const { data } = source.getContext("2d").getImageData(0, 0, width, height);
  const size = width * height;
  const value = new Float32Array(channels * size);
  for (let i = 0; i < size; i++) {
    const [red, green, blue] = [data[4 * i] / 255, data[4 * i + 1] / 255, data[4 * i + 2] / 255];
    if (channels === 3) [value[i], value[size + i], value[2 * size + i]] = [red, green, blue];
    else value[i] = clamp(.299 * red + .587 * green + .114 * blue, 0, 1);
  }
  return value;
}

const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const QUIET = 600; // ms without news before a screen reader is told the last of them
const SOON = 150; // ms: what is told while the focus moves is not heard
const HEARD = 8000; // ms after which a text has been heard of
const SOME = 60; // characters of a growing text that it is told of together at least

/**
 * A widget. A subclass names its `fields` with their defaults: each is an attribute as well as an entry of
 * `spec`, which wins. It builds its shadow tree in the constructor and follows `spec` in `update`.
 * What is wrong is shown, and told by an event "error" with `detail.message`, which does not bubble.
 */
export class Part extends HTMLElement {
  static fields = {};
  static sheets = [];

  /** The reason why a spec can't be, with what was expected; null where it can. */
  static check() { return null; }

  static get observedAttributes() { return ["label", ...Object.keys(this.fields).map(kebab)]; }

  #given = {};
  #spec = null; // what holds now; null: to be read again
  #shown = null; // the spec that `update` was called with
  #wrong = null; // why attributes or spec were not taken
  #frame = 0;
  #watched = new Map(); // element -> whether it is a canvas that is kept sharp
  #sizes = null; // the ResizeObserver, while in a document
  #probe = make("span", { class: "probe", "aria-hidden": "true" });
  #teller = teller();
  #message = make("p", { part: "message", hidden: true });
  #telling = 0;
  #heard = ""; // of a text that grows
  #colors = new Map();

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [look, ...this.constructor.sheets];
    root.append(this.#probe, this.#teller, this.#message);
    this.#probe.addEventListener("transitionend", (event) => {
      event.stopPropagation();
      this.#colors.clear();
      this.redraw();
    });
  }

  /** What the widget is told to be: defaults, then attributes, then what was set here. */
  get spec() { return this.#spec ??= this.#read(); }
  set spec(spec) {
    this.#given = spec ?? {};
    this.#spec = null;
    this.settle();
  }

  attributeChangedCallback(name, before, now) {
    if (before === now) return;
    this.#spec = null;
    if (this.#sizes) this.settle(); // else when it is in a document, with all its attributes
  }

  connectedCallback() {
    // What was set before the element was defined hides the accessors: it is set again.
    for (const name of Object.keys(this)) {
      if (!(name in this.constructor.prototype)) continue;
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#colors.clear();
    this.#sizes = new ResizeObserver((entries) => this.#resized(entries));
    for (const element of this.#watched.keys()) this.#observe(element);
    this.settle();
    this.redraw();
  }

  disconnectedCallback() {
    this.#sizes?.disconnect();
    this.#sizes = null;
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#telling);
    this.#frame = 0;
  }

  #read() {
    const { fields } = this.constructor;
    const read = { ...fields, label: "" };
    this.#wrong = null;
    for (const name of Object.keys(read)) {
      const text = this.getAttribute(kebab(name));
      if (text === null) continue;
      try {
        read[name] = parse(text, read[name]);
      } catch (error) {
        this.#wrong = `<${this.localName} ${kebab(name)}="${text}">: ${error.message}`;
      }
    }
    Object.assign(read, Object.fromEntries(
      Object.entries(this.#given).filter(([, value]) => value !== null && value !== undefined)));
    const wrong = this.constructor.check(read);
    if (!wrong) return read;
    this.#wrong ??= `<${this.localName}>: ${wrong}`;
    return { ...fields, label: read.label };
  }

  /** Has `update` run if the spec has changed since; for subclasses before they take values. */
  settle() {
    const { spec } = this;
    if (spec === this.#shown) return;
    const [first, wrong] = [this.#shown === null, this.#wrong];
    this.#shown = spec;
    if (wrong) this.fail(wrong);
    else if (!first) this.fail(null);
    this.update(spec);
    this.redraw();
  }

  /** Follow a new spec; for subclasses. */
  update() {}

  /** Paint; for subclasses. Called at most once a frame. */
  draw() {}

  /** Has `draw` run before the next frame. */
  redraw() {
    if (!this.isConnected) return;
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.draw();
    });
  }

  /** Calls `draw` when the size of an element changes; a canvas gets as many pixels as the screen shows. */
  watch(element) {
    this.#watched.set(element, element instanceof HTMLCanvasElement);
    if (this.#sizes) this.#observe(element);
  }

  #observe(element) {
    const box = this.#watched.get(element) ? "device-pixel-content-box" : "content-box";
    try {
      this.#sizes.observe(element, { box }); // changes with the screen's pixels, too; Safari has no such box
    } catch {
      this.#sizes.observe(element);
    }
  }

  #resized(entries) {
    for (const { target, devicePixelContentBoxSize: [exact] = [], contentRect } of entries) {
      if (!this.#watched.get(target)) continue;
      // What the browser says is exact, but not where it only plays another screen: then it is far off.
      const pixels = (side, told) => {
        const about = side * devicePixelRatio;
        return Math.max(1, Math.abs(told - about) < 2 ? told : Math.round(about));
      };
      const width = pixels(contentRect.width, exact?.inlineSize);
      const height = pixels(contentRect.height, exact?.blockSize);
      if (target.width !== width || target.height !== height) Object.assign(target, { width, height });
    }
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.draw(); // now, not in the next frame: a canvas is empty once its size has changed
  }

  /** The colour behind a variable of the look (`color("accent")`) as it is here, for a canvas. */
  color(name) {
    if (!this.#colors.has(name)) {
      this.#probe.style.color = `var(--_${name})`;
      this.#colors.set(name, getComputedStyle(this.#probe).color);
    }
    return this.#colors.get(name);
  }

  /** Tells a screen reader, once no other news came for a while; null: what was to be told is stale. */
  say(text) {
    clearTimeout(this.#telling);
    if (text !== null) this.#telling = setTimeout(() => announce(this.#teller, text), QUIET);
  }

  /** Tells a screen reader of a text that grows: of sentences once they are whole, and of each once. */
  read(text, done, before) {
    if (!text.startsWith(this.#heard)) this.#heard = "";
    const more = text.slice(this.#heard.length);
    const whole = done ? more : more.match(/^[^]*[.!?…:;\n]["'”’)]*(?=\s)/)?.[0] ?? "";
    if (!whole.trim() || (!done && whole.length < SOME)) return;
    clearTimeout(this.#telling);
    announce(this.#teller, (this.#heard ? "" : before) + whole.trim());
    this.#heard += whole;
  }

  /** Shows what is wrong and tells it by an event "error"; null takes it away. */
  fail(message) {
    this.shadowRoot.append(this.#message); // below what the widget shows
    this.#message.textContent = message ?? "";
    this.#message.hidden = message === null;
    if (message === null) return;
    announce(this.#teller, `Error: ${message}`);
    this.dispatchEvent(new CustomEvent("error", { detail: { message } }));
  }

  /** Dispatches an event that pages hear from within other elements, too. */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

/** An attribute's text as a value like its default. */
function parse(text, like) {
  if (typeof like === "boolean") {
    if (text === "" || text === "true") return true;
    if (text === "false") return false;
    throw new Error("expected true or false");
  }
  if (typeof like === "number") {
    const number = Number(text);
    if (text.trim() && Number.isFinite(number)) return number;
    throw new Error("expected a number");
  }
  if (!Array.isArray(like)) return text;
  if (!text.trim().startsWith("[")) return text.split(",").map((item) => item.trim()).filter(Boolean);
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("expected a list with commas, or one in JSON");
  }
}

/** Whether `value` is a whole number between two others. */
export const whole = (value, low, high) => Number.isInteger(value) && value >= low && value <= high;

/** Why there can't be a picture with these sides and channels; null where there can. */
export function unfit({ height, width, channels = 1 }, most = 4096) {
  if (channels !== 1 && channels !== 3) return `expected 1 or 3 channels, got ${channels}`;
  const sides = whole(height, 1, most) && whole(width, 1, most);
  return sides ? null : `expected a height and width from 1 to ${most}, got ${height} and ${width}`;
}

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** 0.1234 as "12.3 %"; "–" for none. */
export function percent(share, digits = 1) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–";
}

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });

/** A number in about `digits` digits: "0.0312", "1,234,567", "2.1e−9"; "–" for none. */
export function short(number, digits = 3) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  const text = size >= 1e9 || (size && size < 1e-4) ? number.toExponential(digits - 1)
    : grouped.format(+number.toFixed(clamp(digits - 1 - Math.floor(Math.log10(size || 1)), 0, 8)));
  return text.replaceAll("-", "−");
}

let pixel;

/** [red, green, blue] from 0 to 255 of any CSS colour. */
export function rgb(color) {
  pixel ??= Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  return [...pixel.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
}

/**
 * A picture of values from 0 to 1 as ImageData: `data` from `at` on is (channels, height, width) with
 * one or three channels; one is grey, or lies between the two [red, green, blue] of `shades`.
 */
export function image(data, [channels, height, width], at = 0, shades = [[0, 0, 0], [255, 255, 255]]) {
  const made = new ImageData(width, height);
  const size = width * height;
  const [low, high] = shades;
  for (let i = 0; i < size; i++) {
    for (let c = 0; c < 3; c++) {
      const value = clamp(data[at + i + (channels === 3 ? c * size : 0)], 0, 1);
      made.data[4 * i + c] = channels === 3 ? 255 * value : low[c] + (high[c] - low[c]) * value;
    }
    made.data[4 * i + 3] = 255;
  }
  return made;
}
