// <pf-numbers>: several sliders, whose values are the sample. In HTML its children are <pf-slider>s.

import { Part, define, make, sheet } from "../parts.js";
import "./slider.js";

const css = sheet(`
[part=sliders] {
  display: grid; gap: .5em 1.5em; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr));
}
`);

/** `spec.sliders` are the specs of sliders; without, the <pf-slider>s that stand in the element. */
export class Numbers extends Part {
  static fields = { sliders: [] };
  static sheets = [css];

  static check({ sliders }) { return Array.isArray(sliders) ? null : "expected a list of sliders"; }

  #made = [];
  #slot = make("slot");
  #group = make("div", { part: "sliders", role: "group" }, this.#slot);

  constructor() {
    super();
    this.shadowRoot.append(this.#group);
    this.#group.addEventListener("input", (event) => this.#heard(event));
    this.#group.addEventListener("change", (event) => this.#heard(event));
  }

  /** The sliders' own events stay inside: the sample has changed. */
  #heard(event) {
    event.stopPropagation();
    if (event.type === "input") this.tell("input");
  }

  get #sliders() { return this.#made.length ? this.#made : [...this.querySelectorAll(":scope > pf-slider")]; }

  update({ label, sliders }) {
    this.#group.setAttribute("aria-label", label || "Numbers");
    this.#made = sliders.map((spec) => Object.assign(make("pf-slider"), { spec }));
    this.#group.replaceChildren(...this.#made.length ? this.#made : [this.#slot]);
  }

  /** Float32Array (sliders,). */
  get value() {
    this.settle();
    return Float32Array.from(this.#sliders, (slider) => slider.value);
  }

  set value(value) {
    this.settle();
    this.#sliders.forEach((slider, i) => { slider.value = value[i]; });
    this.tell("input");
  }

  /** Back to the values at first. */
  clear() {
    for (const slider of this.#sliders) slider.reset();
    this.tell("input");
  }
}

define("pf-numbers", Numbers);
