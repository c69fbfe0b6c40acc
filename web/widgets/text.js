// <pf-text placeholder="Once upon a time" most="200">: a prompt; <pf-text mode="output">: what is written.

import { Part, define, make, sheet, whole } from "../parts.js";

const css = sheet(`
[part=text] {
  display: block; width: 100%; min-height: 5.5em; max-height: 24em; padding: .6em .75em;
  border: 1px solid var(--_edge); border-radius: var(--_radius); background: var(--_surface);
  color: var(--_text); line-height: 1.5;
  overflow: auto; overflow-wrap: anywhere; white-space: pre-wrap;
}
textarea { resize: vertical; field-sizing: content; }
textarea::placeholder { color: var(--_muted); opacity: 1; }
output[part=text] { border-color: var(--_border); background: var(--_field); min-height: 9em; }
.given { color: var(--_muted); }
.writing::after {
  content: ""; display: inline-block; width: .5em; height: 1.05em; margin-inline-start: 1px;
  vertical-align: -.15em; background: var(--_accent);
}
.tools { justify-content: space-between; margin-top: .5em; }
@media (prefers-reduced-motion: no-preference) {
  .writing::after { animation: blink 1s steps(2, jump-none) infinite; }
  @keyframes blink { to { opacity: 0; } }
}
`);

/**
 * As an input its value is a string; "submit" is dispatched by the button, or by Enter (with Shift it begins a
 * line). While `busy` is true the button says Stop, and it or Escape dispatches "stop". As an output
 * `show(text, done, given)` shows all that is written so far; `given` is the start that the visitor wrote.
 */
export class Text extends Part {
  static fields = { mode: "input", placeholder: "", most: 10_000, button: "Write" };
  static sheets = [css];

  static check({ mode, most }) {
    if (mode !== "input" && mode !== "output") return `expected a mode "input" or "output", got "${mode}"`;
    return whole(most, 1, 1e7) ? null : `expected most, a number of characters, above 0, got ${most}`;
  }

  #text = "";
  #given = "";
  #done = true;
  #area = make("textarea", {
    part: "text", rows: 3, "aria-describedby": "left",
    input: (event) => {
      event.stopPropagation();
      this.#count();
      this.tell("input");
    },
    enterkeyhint: "send",
    keydown: (event) => {
      if (event.key === "Escape" && this.#busy) return this.tell("stop");
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // which chooses a word
      event.preventDefault();
      this.submit();
    },
  });
  #left = make("span", { id: "left", class: "quiet" });
  #busy = false;
  #button = make("button", { type: "button", class: "primary", part: "submit", click: () => {
    if (this.#busy) this.tell("stop");
    else this.submit();
  } });
  #output = make("output", { part: "text", "aria-live": "off", tabindex: 0 });
  #input = make("div", {}, this.#area, make("div", { class: "tools" }, this.#left, this.#button));

  constructor() {
    super();
    this.shadowRoot.append(this.#input, this.#output);
  }

  update({ mode, placeholder, most, button, label }) {
    this.#input.hidden = mode !== "input";
    this.#output.hidden = mode !== "output";
    Object.assign(this.#area, { placeholder, maxLength: most });
    this.#area.setAttribute("aria-label", label || "Text");
    this.#output.setAttribute("aria-label", label || "What is written");
    this.#button.textContent = this.#busy ? "Stop" : button;
    this.#button.hidden = !button;
    this.#count();
  }

  /** Whether a text is being written of this one: the button then stops that. */
  get busy() { return this.#busy; }

  set busy(busy) {
    this.#busy = Boolean(busy);
    this.settle();
    this.#button.textContent = this.#busy ? "Stop" : this.spec.button;
  }

  /** A string; "" when nothing is written. */
  get value() { return this.spec.mode === "input" ? this.#area.value : this.#text; }

  set value(value) {
    this.settle();
    if (this.spec.mode === "output") return this.show(value ?? "");
    this.#area.value = String(value ?? "").slice(0, this.spec.most);
    this.#count();
    this.tell("input");
  }

  clear() {
    if (this.spec.mode === "output") this.show("");
    else if (this.#area.value) this.value = "";
  }

  /** Shows a text that is there, or (`done` false) grows; `given` is its start that the visitor wrote. */
  show(text, done = true, given = "") {
    [this.#text, this.#done, this.#given] = [String(text), done, given];
    this.#output.setAttribute("aria-busy", !done);
    this.read(this.#text.slice(given && this.#text.startsWith(given) ? given.length : 0), done, "Written: ");
    this.redraw();
  }

  draw() {
    if (this.spec.mode !== "output") return;
    const output = this.#output;
    const below = output.scrollHeight - output.scrollTop - output.clientHeight;
    const known = this.#given && this.#text.startsWith(this.#given) ? this.#given : "";
    const empty = !this.#text && this.#done;
    const start = make("span", { class: "given" }, empty ? this.spec.placeholder : known);
    output.replaceChildren(start, this.#text.slice(known.length));
    output.classList.toggle("writing", !this.#done);
    if (below < 8) output.scrollTop = output.scrollHeight; // who reads the end goes on reading it
  }

  submit() {
    this.tell("submit", { value: this.value });
  }

  #count() {
    const left = this.spec.most - this.#area.value.length;
    const near = left <= Math.max(20, this.spec.most / 10);
    this.#left.textContent = near ? `${left} characters left` : "";
  }
}

define("pf-text", Text);
