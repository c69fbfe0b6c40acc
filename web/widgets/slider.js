// <pf-slider name="lr" low="0.0001" high="0.1" value="0.01" log>: a number that one slides to.

import { Part, clamp, define, make, sheet, short } from "../parts.js";

const FINE = 200; // positions where no step is given

const css = sheet(`
label { display: grid; grid-template-columns: 1fr auto; gap: .25em .75em; align-items: baseline; }
[part=label] { color: var(--_muted); overflow-wrap: anywhere; }
[part=value] { font-weight: 600; }
[part=range] {
  --at: 50%; --to: right; grid-column: 1 / -1; appearance: none; width: 100%; height: var(--_target); padding: 0;
  background: none; cursor: pointer; touch-action: pan-y; outline-offset: -4px; border-radius: var(--_radius);
}
::-webkit-slider-runnable-track {
  height: 6px; border-radius: 3px;
  background: linear-gradient(to var(--to), var(--_accent) var(--at), var(--_rail) var(--at));
}
::-moz-range-track { height: 6px; border-radius: 3px; background: var(--_rail); }
::-moz-range-progress { height: 6px; border-radius: 3px; background: var(--_accent); }
::-webkit-slider-thumb {
  appearance: none; width: 20px; height: 20px; margin-top: -7px; border-radius: 50%;
  border: 2px solid var(--_accent); background: var(--_surface); box-shadow: 0 1px 3px rgb(0 0 0 / .25);
}
::-moz-range-thumb {
  width: 16px; height: 16px; border-radius: 50%; border: 2px solid var(--_accent);
  background: var(--_surface);
}
[part=range]:dir(rtl) { --to: left; }
[part=range]:active::-webkit-slider-thumb { background: var(--_accent); }
:host { --_rail: color-mix(in oklab, var(--_text) 20%, var(--_surface)); }
@media (forced-colors: active) {
  [part=range] { forced-color-adjust: none; --_rail: color-mix(in oklab, CanvasText 50%, Canvas); }
}
`);

/** A slider; "input" while it moves, "change" with { name, value } when it rests. */
export class Slider extends Part {
  static fields = { name: "", low: 0, high: 1, value: NaN, step: 0, log: false };
  static sheets = [css];

  static check({ low, high, log, step, value }) {
    if (!(low < high)) return `expected low < high, got ${low} and ${high}`;
    if (log && low <= 0) return `expected 0 < low for log, got ${low}`;
    if (step < 0) return `expected a step above 0, got ${step}`;
    const inside = Number.isNaN(value) || (value >= low && value <= high);
    return inside ? null : `expected a value from ${low} to ${high}, got ${value}`;
  }

  #value = null;
  #first = null; // the value that the spec told last
  #label = make("span", { part: "label", "aria-hidden": "true" }); // the range tells both
  #shown = make("output", { part: "value", "aria-hidden": "true" });
  #range = make("input", {
    part: "range", type: "range", min: 0,
    input: (event) => {
      event.stopPropagation();
      this.#set(this.#at(Number(this.#range.value)));
      this.dispatchEvent(new Event("input", { bubbles: true }));
    },
    change: () => this.tell("change", { name: this.name, value: this.value }),
  });

  constructor() {
    super();
    this.shadowRoot.append(make("label", {}, this.#label, this.#shown, this.#range));
  }

  get name() { return this.spec.name; }

  get value() {
    this.settle();
    return this.#value;
  }

  set value(value) {
    this.settle();
    this.#set(clamp(Number(value), this.spec.low, this.spec.high));
  }

  /** Back to the value at first. */
  reset() {
    this.settle();
    this.#set(this.#first);
  }

  get #steps() {
    const { low, high, step, log } = this.spec;
    return log || !step ? FINE : Math.max(1, Math.round((high - low) / step));
  }

  /** The value at a position, with no more digits than tell it from the next: else an arrow key would not get there. */
  #at(position) {
    const { low, high, step, log } = this.spec;
    const part = position / this.#steps;
    if (part === 0 || part === 1) return part ? high : low;
    const value = log ? low * (high / low) ** part : low + (high - low) * part;
    if (step) return +clamp(low + Math.round((value - low) / step) * step, low, high).toPrecision(12);
    const apart = log ? value * (1 - (low / high) ** (1 / FINE)) : (high - low) / FINE;
    const digits = Math.ceil(-Math.log10(apart));
    return clamp(+value.toFixed(clamp(digits, 0, 20)), low, high);
  }

  #set(value) {
    const { low, high, log } = this.spec;
    const part = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    this.#value = value;
    this.#range.value = Math.round(part * this.#steps);
    this.#range.style.setProperty("--at", `${100 * part}%`);
    this.#range.setAttribute("aria-valuetext", short(value));
    this.#shown.textContent = short(value);
  }

  update({ name, label, low, high, value, log }) {
    const text = label || name.replaceAll("_", " ");
    this.#label.textContent = text;
    this.#range.setAttribute("aria-label", text || "Value");
    this.#range.max = this.#steps;
    const first = Number.isNaN(value) ? (log ? Math.sqrt(low * high) : (low + high) / 2) : value;
    this.#set(first === this.#first && this.#value !== null ? clamp(this.#value, low, high) : first);
    this.#first = first;
  }
}

define("pf-slider", Slider);
