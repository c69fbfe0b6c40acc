// <pf-choice name="data" options="moons, circles, spiral">: one of several words or numbers.

import { Part, define, make, sheet } from "../parts.js";

const FEW = 4; // options that stand beside each other, where their words are short; else a menu
const SHORT = 30; // characters in all

const css = sheet(`
[part=label] { display: block; margin-bottom: .25em; color: var(--_muted); }
.menu { position: relative; }
.menu::after {
  content: ""; position: absolute; inset-inline-end: 1em; top: calc(50% - .4em); width: .5em; height: .5em;
  border: solid var(--_muted); border-width: 0 2px 2px 0; rotate: 45deg; pointer-events: none;
}
select { width: 100%; justify-content: start; padding-inline-end: 2.4em; appearance: none; }
option { background: var(--_surface); color: var(--_text); }
[role=radiogroup] {
  display: flex; padding: 0 2px; gap: 2px; border: 1px solid var(--_border);
  border-radius: calc(var(--_radius) * .8); background: var(--_field);
}
[role=radiogroup] label { flex: 1 1 auto; }
[role=radiogroup] span {
  display: grid; place-items: center; min-height: calc(var(--_target) - 6px); margin: 2px 0; padding: 0 .8em;
  border-radius: calc(var(--_radius) * .8 - 2px); white-space: nowrap;
}
input:checked + span {
  background: var(--_surface); box-shadow: 0 1px 2px rgb(0 0 0 / .18), 0 0 0 1px var(--_border);
  font-weight: 600; color: var(--_accent);
}
@media (forced-colors: active) {
  input:checked + span { background: Highlight; color: HighlightText; forced-color-adjust: none; }
}
`);

/** A choice; "change" with { name, value }. */
export class Choice extends Part {
  static fields = { name: "", options: [], value: "" };
  static sheets = [css];

  static check({ options, value }) {
    if (!Array.isArray(options) || !options.length) return "expected at least one of options";
    const known = value === "" || options.some((option) => String(option) === String(value));
    return known ? null : `expected one of ${options.join(", ")}, got ${value}`;
  }

  #value = null;
  #first; // the value and options that the spec told last
  #wide = 0; // CSS pixels that the options need to stand beside each other, once they had too few
  #label = make("span", { part: "label", id: "label", "aria-hidden": "true" });
  #body = make("div");

  constructor() {
    super();
    this.#body.addEventListener("input", (event) => event.stopPropagation());
    this.#body.addEventListener("change", ({ target }) => {
      this.#value = this.spec.options[Number(target.value)];
      this.dispatchEvent(new Event("input", { bubbles: true }));
      this.tell("change", { name: this.name, value: this.#value });
    });
    this.shadowRoot.append(this.#label, this.#body);
    this.watch(this.#body);
  }

  get name() { return this.spec.name; }

  get value() {
    this.settle();
    return this.#value;
  }

  set value(value) {
    this.settle();
    const at = this.spec.options.findIndex((option) => String(option) === String(value));
    if (at < 0) return;
    this.#value = this.spec.options[at];
    const select = this.#body.querySelector("select");
    if (select) select.selectedIndex = at;
    else this.#body.querySelectorAll("input")[at].checked = true;
  }

  update({ name, label, options, value }) {
    const text = label || name.replaceAll("_", " ");
    this.#label.textContent = text;
    this.#label.hidden = !text;
    const told = JSON.stringify([options, value]);
    const keep = told === this.#first ? this.#value : null;
    this.#first = told;
    this.#wide = 0;
    this.#build(options.length <= FEW && options.join("").length <= SHORT);
    this.value = keep ?? (value === "" ? options[0] : value);
  }

  #build(beside) {
    const { name, label, options } = this.spec;
    const named = label || name ? { "aria-labelledby": "label" } : { "aria-label": "Choice" };
    this.#body.replaceChildren(beside
      ? make("div", { role: "radiogroup", part: "options", ...named }, ...options.map((option, i) =>
        make("label", {}, make("input", { type: "radio", name: "choice", value: i }),
          make("span", {}, String(option)))))
      : make("div", { class: "menu" }, make("select", { part: "options", ...named },
        ...options.map((option, i) => make("option", { value: i }, String(option))))));
  }

  /** Where there is too little room for options beside each other, they become a menu. */
  draw() {
    const group = this.#body.querySelector("[role=radiogroup]");
    const { clientWidth } = this.#body;
    if (group && group.scrollWidth > group.clientWidth && clientWidth) {
      this.#wide = group.scrollWidth + 4;
      this.#swap(false);
    } else if (!group && this.#wide && clientWidth >= this.#wide) {
      this.#swap(true);
      this.#wide = 0;
    }
  }

  #swap(beside) {
    const focused = this.shadowRoot.activeElement !== null;
    this.#build(beside);
    this.value = this.#value;
    if (focused) this.#body.querySelector("select, input:checked").focus();
  }
}

define("pf-choice", Choice);
