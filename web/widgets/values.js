// <pf-values names="price" unit="€">: numbers that the network gives.

import { Part, define, make, sheet, short } from "../parts.js";

const css = sheet(`
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: .6em 1.2em; }
dt { color: var(--_muted); font-size: .875em; overflow-wrap: anywhere; }
dd { font-size: 1.5em; font-weight: 650; line-height: 1.25; white-space: nowrap; letter-spacing: -.01em; }
dd span { font-size: .6em; font-weight: 400; color: var(--_muted); }
`);

/** `show({ data, shape })` shows the first sample's numbers. */
export class Values extends Part {
  static fields = { names: [], unit: "" };
  static sheets = [css];

  static check({ names }) { return Array.isArray(names) ? null : "expected a list of names"; }

  #values = null;
  #said = ""; // what was told last
  #list = make("dl", { part: "values" });

  constructor() {
    super();
    this.shadowRoot.append(this.#list);
  }

  update({ label }) {
    if (label) this.#list.setAttribute("aria-label", label);
    this.draw();
  }

  show({ data, shape }) {
    const count = shape.slice(1).reduce((a, b) => a * b, 1);
    this.#values = Array.from({ length: count }, (_, i) => data[i]);
    this.redraw();
    const { names, unit } = this.spec;
    const words = this.#values.map((x, i) => `${names[i] ?? ""} ${short(x)} ${unit}`.trim()).join(", ");
    if (words !== this.#said) this.say(words);
    this.#said = words;
  }

  clear() {
    this.#values = null;
    this.#said = "";
    this.say(null);
    this.redraw();
  }

  draw() {
    const { names, unit } = this.spec;
    const count = this.#values?.length ?? (names.length || 1);
    while (this.#list.children.length > count) this.#list.lastChild.remove();
    while (this.#list.children.length < count) {
      this.#list.append(make("div", {}, make("dt", { part: "name" }), make("dd", { part: "value" })));
    }
    [...this.#list.children].forEach(({ children: [name, value] }, i) => {
      name.textContent = names[i] ?? (count > 1 ? `Value ${i + 1}` : "Value");
      value.textContent = short(this.#values?.[i]);
      if (unit && this.#values) value.append(" ", make("span", {}, unit));
    });
  }
}

define("pf-values", Values);
