// <pf-toggle name="noise" label="With noise" value="true">: yes or no.

import { Part, define, make, sheet } from "../parts.js";

const css = sheet(`
label { display: inline-flex; align-items: center; gap: .6em; min-height: var(--_target); cursor: pointer; }
input { position: absolute; opacity: 0; width: 40px; height: 24px; cursor: inherit; }
[part=track] {
  flex: none; width: 40px; height: 24px; padding: 3px; border-radius: 12px;
  background: color-mix(in oklab, var(--_text) 40%, var(--_surface));
}
[part=track]::before {
  content: ""; display: block; width: 18px; height: 18px; border-radius: 50%; background: var(--_surface);
  box-shadow: 0 1px 2px rgb(0 0 0 / .3);
}
input:checked + [part=track] { background: var(--_accent); }
input:checked + [part=track]::before { margin-inline-start: 16px; }
@media (prefers-reduced-motion: no-preference) {
  [part=track], [part=track]::before { transition: background-color .15s, margin .15s; }
}
@media (forced-colors: active) { [part=track] { forced-color-adjust: none; } }
`);

/** A switch; "change" with { name, value }. */
export class Toggle extends Part {
  static fields = { name: "", value: false };
  static sheets = [css];

  #first = null; // the value that the spec told last
  #label = make("span", { part: "label", "aria-hidden": "true" }); // the switch has it
  #box = make("input", {
    type: "checkbox", role: "switch",
    input: (event) => event.stopPropagation(),
    change: () => {
      this.dispatchEvent(new Event("input", { bubbles: true }));
      this.tell("change", { name: this.name, value: this.value });
    },
  });

  constructor() {
    super();
    this.shadowRoot.append(make("label", {}, this.#box, make("span", { part: "track" }), this.#label));
  }

  get name() { return this.spec.name; }

  get value() {
    this.settle();
    return this.#box.checked;
  }

  set value(value) {
    this.settle();
    this.#box.checked = Boolean(value);
  }

  update({ name, label, value }) {
    const text = label || name.replaceAll("_", " ");
    this.#label.textContent = text;
    this.#box.setAttribute("aria-label", text || "Switch");
    if (value !== this.#first) this.#box.checked = value;
    this.#first = value;
  }
}

define("pf-toggle", Toggle);
