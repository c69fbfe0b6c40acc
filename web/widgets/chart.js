// <pf-chart log>: loss and accuracy by step, of training and of validation.

import { Part, clamp, define, make, percent, sheet, short } from "../parts.js";

const MOST = 1024; // points of a curve that are kept and drawn, however many steps there are
const LINES = 60; // epochs that are marked

const css = sheet(`
.box { container-type: inline-size; }
.head { display: grid; grid-template: "step groups log" auto / auto 1fr auto; gap: 0 1.4em; }
.groups { grid-area: groups; display: flex; flex-wrap: wrap; gap: .1em 1.4em; padding-top: .4em; }
.step { grid-area: step; padding-top: .4em; min-width: 5.5em; }
.group { display: flex; flex-wrap: wrap; gap: 0 .8em; }
.cell { display: flex; gap: .4em; align-items: baseline; white-space: nowrap; }
@container (max-width: 32rem) {
  .head { grid-template: "step log" auto "groups groups" auto / 1fr auto; }
  .groups { padding-top: 0; }
  .group { gap: 0 .6em; }
  .cell { gap: .3em; }
}
dt { color: var(--_muted); font-size: .8125em; }
dd { min-width: 3.3em; font-weight: 600; }
.step dd { min-width: 0; }
.train dt::before, .val dt::before {
  content: ""; display: inline-block; width: 1em; height: 3px; margin-inline-end: .4em; border-radius: 2px;
  vertical-align: .28em; background: var(--_accent);
}
.val dt::before {
  width: .55em; height: .55em; border-radius: 50%; vertical-align: .05em; background: var(--_class-1);
}
[part=log] {
  grid-area: log; align-self: start; min-width: var(--_target); font-size: .875em; padding: .2em .7em;
}
[part=log][aria-pressed=true] {
  background: var(--_tint); border-color: var(--_accent); color: var(--_accent); font-weight: 600;
}
[part=plot] {
  height: var(--pf-chart-height, max(260px, 16rem)); margin-top: .25em; border-radius: 4px; cursor: crosshair;
  touch-action: pan-y;
}
svg { direction: ltr; width: 100%; height: 100%; overflow: visible; font-size: clamp(12px, .75rem, 20px); pointer-events: none; }
text { fill: var(--_muted); }
.title {
  font-weight: 600; paint-order: stroke; stroke: var(--_surface); stroke-width: 4px; stroke-linejoin: round;
}
.grid { stroke: var(--_border); }
.epoch { stroke: var(--_border); stroke-dasharray: 2 4; }
.raw { fill: none; stroke: var(--_faint); stroke-width: 1; stroke-linejoin: round; }
.smooth {
  fill: none; stroke: var(--_accent); stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round;
}
.val-line { fill: none; stroke: var(--_class-1); stroke-width: 1.75; stroke-linejoin: round; }
.val-dot { fill: var(--_class-1); stroke: var(--_surface); stroke-width: 1.5; }
.cursor { stroke: var(--_edge); }
.dot { fill: var(--_accent); stroke: var(--_surface); stroke-width: 2; }
@media (forced-colors: active) {
  svg, dt::before { forced-color-adjust: none; }
  [part=log][aria-pressed=true] { background: Highlight; color: HighlightText; forced-color-adjust: none; }
  .grid, .epoch { stroke: color-mix(in oklab, CanvasText 35%, Canvas); }
}
`);

/** A curve of any length in at most MOST points, each of as many values as need be. */
class Curve {
  points = [];
  #each = 1; // values in a point
  #held = 0; // values in the last one

  add(step, value) {
    if (!Number.isFinite(value)) return;
    const last = this.points.at(-1);
    if (last && step < last.step) step = last.step; // a curve does not go back
    if (last && this.#held < this.#each) {
      this.#held++;
      last.mean += (value - last.mean) / this.#held;
      Object.assign(last, { step, low: Math.min(last.low, value), high: Math.max(last.high, value) });
      return;
    }
    if (this.points.length === MOST) this.#halve();
    this.points.push({ step, low: value, high: value, mean: value });
    this.#held = 1;
  }

  #halve() {
    this.points = Array.from({ length: MOST / 2 }, (_, i) => {
      const [a, b] = [this.points[2 * i], this.points[2 * i + 1]];
      const [low, high] = [Math.min(a.low, b.low), Math.max(a.high, b.high)];
      return { step: b.step, low, high, mean: (a.mean + b.mean) / 2 };
    });
    this.#each *= 2;
  }

  /** The means, each with those around it, the less the farther: there and back, so that nothing lags. */
  smooth() {
    const keep = 1 - 1 / clamp(this.points.length / 40, 1, 12);
    const once = (values) => {
      let [sum, weight] = [0, 0];
      return values.map((value) => {
        [sum, weight] = [keep * sum + value, keep * weight + 1];
        return sum / weight;
      });
    };
    return once(once(this.points.map(({ mean }) => mean)).reverse()).reverse();
  }

  /** The index of the point next to a step; -1 without points. */
  near(step) {
    let [low, high] = [0, this.points.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle].step < step) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && step - this.points[low - 1].step < this.points[low].step - step) low--;
    return this.points.length ? low : -1;
  }
}

const CURVES = ["loss", "val_loss", "accuracy", "val_accuracy"];
const NAMES = {
  step: "Step", loss: "Loss", val_loss: "Validation", accuracy: "Accuracy", val_accuracy: "Validation",
};

/**
 * `add(step, { loss, accuracy, val_loss, val_accuracy })` adds what is known at a step, `epoch(step)` marks
 * one. `planned` is the step at which training will end. `metrics="accuracy"` keeps its room from the start.
 */
export class Chart extends Part {
  static fields = { log: false, metrics: [] };
  static sheets = [css];

  #curves;
  #epochs = [];
  #planned = 0;
  #odd = {}; // by the name of a curve: the last value, where it was none to draw: { step, value }
  #log = false;
  #reading = null; // the step that pointer or keys read; null: the last one
  #scale = null; // how the last drawing laid out steps: { left, width, end }
  #svg = make("svg", { "aria-hidden": "true" });
  #plot = make("div", {
    part: "plot", tabindex: 0, role: "slider", "aria-roledescription": "chart", "aria-valuemin": 0, "aria-valuenow": 0,
    "aria-label": "Loss by step: the arrow keys read it",
    pointermove: (event) => this.#point(event),
    pointerdown: (event) => this.#point(event),
    pointerleave: () => this.#read(null),
    keydown: (event) => this.#key(event),
    blur: () => this.#read(null),
  }, this.#svg);
  #cells = {};
  #button = make("button", {
    type: "button", part: "log", "aria-pressed": "false", title: "Show the loss on a logarithmic scale",
    click: () => {
      this.#log = !this.#log;
      this.redraw();
    },
  }, "log");

  constructor() {
    super();
    for (const name of ["step", ...CURVES]) {
      const kind = name === "step" ? "" : name.startsWith("val_") ? "val" : "train";
      this.#cells[name] = make("div", { class: `cell ${kind}` }, make("dt", {}, NAMES[name]), make("dd"));
    }
    const { step, loss, val_loss, accuracy, val_accuracy } = this.#cells;
    const group = (...cells) => make("dl", { class: "group" }, ...cells);
    this.shadowRoot.append(make("div", { class: "box" },
      make("div", { class: "head", part: "values" },
        make("dl", { class: "step", "aria-hidden": "true" }, step), // the plot tells all of them
        make("div", { class: "groups", "aria-hidden": "true" }, group(loss, val_loss), group(accuracy, val_accuracy)),
        this.#button),
      this.#plot));
    this.watch(this.#plot);
    this.clear();
  }

  update({ log, label }) {
    this.#log = log;
    this.#plot.setAttribute("aria-label", label || "Loss by step: the arrow keys read it");
  }

  get planned() { return this.#planned; }

  set planned(steps) {
    this.#planned = Number(steps) || 0;
    this.redraw();
  }

  add(step, values) {
    for (const name of CURVES) {
      const value = values[name] ?? null;
      if (value === null) continue;
      this.#curves[name].add(step, value);
      this.#odd[name] = Number.isFinite(value) ? null : { step, value };
    }
    this.redraw();
  }

  /** Marks the end of an epoch, with what is known then; the loss is that of all its steps, and left out. */
  epoch(step, { loss, ...values } = {}) {
    this.#epochs.push(step);
    if (this.#epochs.length > MOST) this.#epochs = this.#epochs.filter((_, i) => i % 2);
    this.add(step, values);
  }

  clear() {
    this.#curves = Object.fromEntries(CURVES.map((name) => [name, new Curve()]));
    this.#epochs = [];
    this.#planned = 0;
    this.#odd = {};
    this.#reading = null;
    this.redraw();
  }

  get #last() {
    return Math.max(0, ...CURVES.map((name) => this.#odd[name]?.step ?? this.#curves[name].points.at(-1)?.step ?? 0));
  }

  #read(step) {
    if (this.#reading === step) return;
    this.#reading = step;
    this.redraw();
  }

  #point(event) {
    if (!this.#scale) return;
    const { left, width, end } = this.#scale;
    const step = (event.clientX - this.#plot.getBoundingClientRect().left - left) / width * end;
    this.#read(clamp(step, 0, this.#last));
  }

  #key(event) {
    const { points } = this.#curves.loss;
    if (!points.length) return;
    const at = this.#curves.loss.near(this.#reading ?? this.#last);
    const by = event.shiftKey ? 10 : 1;
    const to = {
      ArrowLeft: at - by, ArrowRight: at + by, ArrowDown: at - by, ArrowUp: at + by,
      PageDown: at - 50, PageUp: at + 50, Home: 0, End: points.length - 1,
    }[event.key];
    if (event.key === "Escape") this.#read(null);
    else if (to === undefined) return;
    else this.#read(points[clamp(to, 0, points.length - 1)].step);
    event.preventDefault();
  }

  draw() {
    const { width, height } = this.#plot.getBoundingClientRect();
    if (!width || !height) return;
    const { loss, val_loss, accuracy, val_accuracy } = this.#curves;
    const known = accuracy.points.length + val_accuracy.points.length;
    const both = known > 0 || this.spec.metrics.includes("accuracy");
    const zoom = parseFloat(getComputedStyle(this.#svg).fontSize) / 12; // letters may be large
    const [left, right, bottom, gap, top] = [46, 10, 22, 24, 18].map((size) => size * zoom);
    const end = Math.max(this.#planned, this.#last) || 100;
    this.#scale = { left, width: width - left - right, end };
    const x = (step) => left + this.#scale.width * step / end;
    const room = height - top - bottom - (both ? gap : 0);
    const middle = top + room * (both ? .6 : 1); // where the loss ends
    const smooth = loss.smooth();
    const parts = [];

    for (const tick of ticks(end, width < 420 * zoom ? 4 : 7)) {
      const at = { x: x(tick), y: height - 4 * zoom, "text-anchor": x(tick) > width - 24 * zoom ? "end" : "middle" };
      parts.push(make("text", at, tick ? short(tick) : "step 0"));
    }
    const stride = Math.ceil(this.#epochs.length / LINES) || 1;
    const marks = this.#epochs.filter((_, i) => (i + 1) % stride === 0)
      .map((step) => `M${x(step).toFixed(1)} ${top}V${(height - bottom).toFixed(1)}`);
    parts.push(make("path", { class: "epoch", d: marks.join("") }));

    const range = lossRange(loss, val_loss, this.#log);
    const y = this.#axis(parts, range, this.#log, top, middle, [left, width - right, zoom], short);
    parts.push(make("path", { class: "raw", d: band(loss.points, x, y) }));
    parts.push(make("path", { class: "smooth", d: line(loss.points, x, (_, i) => y(smooth[i])) }));
    validation(parts, val_loss.points, x, y);
    parts.push(make("text", { class: "title", x: width - right, y: top - 6 * zoom, "text-anchor": "end" }, "Loss"));
    let share = null;
    if (both) {
      const whole = (p) => percent(p, 0);
      share = this.#axis(parts, [0, 1], false, middle + gap, height - bottom, [left, width - right, zoom], whole);
      parts.push(make("path", { class: "smooth", d: line(accuracy.points, x, ({ mean }) => share(mean)) }));
      validation(parts, val_accuracy.points, x, share);
      const at = { class: "title", x: width - right, y: middle + gap - 6 * zoom, "text-anchor": "end" };
      parts.push(make("text", at, "Accuracy"));
    }
    this.#tell(parts, smooth, { x, y, share, top, bottom: height - bottom }, both);
    this.#svg.replaceChildren(...parts);
    this.#button.setAttribute("aria-pressed", this.#log);
  }

  /** Lines and numbers of a vertical axis from `low` to `high`; gives where a value lies. */
  #axis(parts, [low, high], log, top, bottom, [left, right, zoom], words) {
    const to = (value) => (log ? Math.log10(Math.max(value, low)) : value);
    const part = (value) => clamp((to(value) - to(low)) / (to(high) - to(low)), 0, 1);
    const y = (value) => bottom - (bottom - top) * part(value);
    const lines = [];
    const count = clamp(Math.floor((bottom - top) / (34 * zoom)), 2, 5);
    for (const tick of log ? decades(low, high, count) : ticks(high, count, low)) {
      lines.push(`M${left} ${y(tick).toFixed(1)}H${right}`);
      const at = { x: left - 6 * zoom, y: (y(tick) + 4 * zoom).toFixed(1), "text-anchor": "end" };
      parts.push(make("text", at, words(+tick.toPrecision(3))));
    }
    parts.unshift(make("path", { class: "grid", d: lines.join("") }));
    return y;
  }

  /** The values at the step that is read, and a mark there. */
  #tell(parts, smooth, { x, y, share, top, bottom }, both) {
    const step = this.#reading ?? this.#last;
    const at = Object.fromEntries(CURVES.map((name) => [name, this.#curves[name].near(step)]));
    const mean = (name) => this.#curves[name].points[at[name]]?.mean;
    const odd = this.#reading === null ? this.#odd : {};
    const first = CURVES.map((name) => odd[name] ?? this.#curves[name].points[at[name]]).find(Boolean);
    const shown = {
      step: first ? short(Math.round(this.#reading === null ? step : first.step)) : "–",
      loss: short(smooth[at.loss]),
      val_loss: short(mean("val_loss")),
      accuracy: at.accuracy < 0 ? "–" : percent(mean("accuracy")),
      val_accuracy: at.val_accuracy < 0 ? "–" : percent(mean("val_accuracy")),
    };
    for (const [name, value] of Object.entries(odd)) if (value) shown[name] = String(value.value).replace(/Infinity/, "∞");
    const words = [];
    for (const [name, cell] of Object.entries(this.#cells)) {
      cell.lastChild.textContent = shown[name];
      const there = name === "step" || name === "loss" || at[name] >= 0 || (both && name === "accuracy");
      cell.hidden = !there;
      if (there) words.push(`${name.replace("val_", "validation ")} ${shown[name]}`);
    }
    if (this.#reading !== null && first) {
      const reads = x(first.step);
      parts.push(make("line", { class: "cursor", x1: reads, x2: reads, y1: top, y2: bottom }));
      const dot = (name, cy) => {
        const cx = x(this.#curves[name].points[at[name]].step);
        parts.push(make("circle", { class: "dot", cx, cy, r: 4.5 }));
      };
      if (at.loss >= 0) dot("loss", y(smooth[at.loss]));
      if (at.accuracy >= 0) dot("accuracy", share(mean("accuracy")));
    }
    // While it has the focus and training goes on, a screen reader would read every step.
    if (this.#reading === null && this.shadowRoot.activeElement === this.#plot) return;
    this.#plot.setAttribute("aria-valuemax", this.#last);
    this.#plot.setAttribute("aria-valuenow", Math.round(first?.step ?? 0));
    this.#plot.setAttribute("aria-valuetext", first ? words.join(", ") : "no steps yet");
  }
}

function lossRange(loss, validation, log) {
  const points = [...loss.points, ...validation.points];
  const lows = points.map(({ low }) => low).filter((low) => !log || low > 0);
  if (!lows.length) return log ? [.01, 10] : [0, 2.5];
  const low = lows.reduce((least, each) => Math.min(least, each));
  const high = points.reduce((most, each) => Math.max(most, each.high), -Infinity);
  if (log) return [low / 1.15, Math.max(high, low * 2) * 1.15];
  return [Math.min(low * 1.05, 0), high > 0 ? high * 1.05 : 1e-9];
}

function line(points, x, y) {
  const at = (point, i) => `${x(point.step).toFixed(1)} ${y(point, i).toFixed(1)}`;
  return points.map((point, i) => `${i ? "L" : "M"}${at(point, i)}`).join("");
}

/** The raw values: through the lowest and the highest of each point. */
function band(points, x, y) {
  return points.map(({ step, low, high }, i) => {
    const [at, from, to] = [x(step).toFixed(1), y(low).toFixed(1), y(high).toFixed(1)];
    return `${i ? "L" : "M"}${at} ${from}${from === to ? "" : `L${at} ${to}`}`;
  }).join("");
}

function validation(parts, points, x, y) {
  parts.push(make("path", { class: "val-line", d: line(points, x, ({ mean }) => y(mean)) }));
  if (points.length > LINES) return;
  for (const { step, mean } of points) {
    parts.push(make("circle", { class: "val-dot", cx: x(step), cy: y(mean), r: 4 }));
  }
}

/** Round numbers from `low` to `high`, about `count` of them. */
function ticks(high, count, low = 0) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= (high - low) / count);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

/** Powers of ten from `low` to `high`; with few of them their doubles and fives as well. */
function decades(low, high, count) {
  const powers = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) powers.push(10 ** p);
  const stride = Math.ceil(powers.length / (count + 1));
  const found = (factors) => powers.flatMap((power) => factors.map((factor) => factor * power))
    .filter((tick) => tick >= low && tick <= high);
  const wide = found([1]);
  return wide.length > 2 ? wide.filter((_, i) => i % stride === 0) : found([1, 2, 5]);
}

define("pf-chart", Chart);
