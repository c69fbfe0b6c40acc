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
.control textarea { max-height: 12em; }
textarea::placeholder { color: var(--_muted); opacity: 1; }
output[part=text] { border-color: var(--_border); background: var(--_field); min-height: 9em; }
.pages { display: grid; gap: .75em 1em; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15em), 1fr)); }
[part=name]:not(:empty) { display: block; margin-bottom: .35em; color: var(--_muted); font-size: .875em; }
.given { color: var(--_muted); }
.writing::after {
  content: ""; display: inline-block; width: .5em; height: 1.05em; margin-inline-start: 1px;
  vertical-align: -.15em; background: var(--_accent);
}
.tools { justify-content: space-between; margin-top: .5em; }
.tools:has(> button[hidden]) { margin-top: 0; }
@media (prefers-reduced-motion: no-preference) {
  .writing::after { animation: blink 1s steps(2, jump-none) infinite; }
  @keyframes blink { to { opacity: 0; } }
}
`);

/**
 * As an input its value is a string; "submit" is dispatched by the button, or by Enter (with Shift it begins a
 * line). While `busy` is true the button says Stop, and it or Escape dispatches "stop". With a `name` it is a control, of
 * which "change" tells. As an output `show(text, done, given)` shows all that is written so far; `given` is the start
 * that the visitor wrote. With `names` these are several texts, side by side.
 */
export class Text extends Part {
  static fields = {
    mode: "input", placeholder: "", most: 10_000, button: "Write", names: [], name: "", value: "",
  };
  static sheets = [css];

  static check({ mode, most }) {
    if (mode !== "input" && mode !== "output") return `expected a mode "input" or "output", got "${mode}"`;
    return whole(most, 1, 1e7) ? null : `expected most, a number of characters, above 0, got ${most}`;
  }

  #texts = [""];
  #given = "";
  #first = null; // the value that the spec told last
  #done = true;
  #area = make("textarea", {
    part: "text", rows: 3, "aria-describedby": "left",
    input: (event) => {
      event.stopPropagation();
      this.#count();
      this.tell("input");
    },
    change: () => { if (this.name) this.tell("change", { name: this.name, value: this.value }); },
    keydown: (event) => {
      if (this.name) return; // Enter begins a line
      if (event.key === "Escape" && this.#busy) return this.tell("stop");
      const chooses = event.isComposing || event.keyCode === 229; // a word; Safari says the first too early, and then the other
      if (event.key !== "Enter" || event.shiftKey || chooses) return;
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
  #pages = make("div", { class: "pages" });
  #name = make("span", { part: "name", "aria-hidden": "true" }); // the area has it
  #input = make("div", {}, this.#name, this.#area, make("div", { class: "tools" }, this.#left, this.#button));

  constructor() {
    super();
    this.shadowRoot.append(this.#input, this.#pages);
  }

  get name() { return this.spec.name; }

  update({ mode, placeholder, most, button, label, names, name, value }) {
    this.#input.hidden = mode !== "input";
    this.#pages.hidden = mode !== "output";
    const text = label || name.replaceAll("_", " ");
    Object.assign(this.#area, { placeholder, maxLength: most, enterKeyHint: name ? "enter" : "send" });
    this.#area.setAttribute("aria-label", text || "Text");
    this.#name.textContent = name && text;
    this.#input.classList.toggle("control", Boolean(name));
    if (value !== this.#first) this.#area.value = value;
    this.#first = value;
    this.#pages.replaceChildren(...(names.length ? names : [""]).map((of) => make("div", {},
      make("span", { part: "name", "aria-hidden": "true" }, of),
      make("output", { part: "text", role: "group", tabindex: 0, "aria-label": of || label || "What is written" }))));
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

  /** A string; "" when nothing is written. Several texts are a list. */
  get value() {
    if (this.spec.mode === "input") return this.#area.value;
    return this.spec.names.length ? [...this.#texts] : this.#texts[0];
  }

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
    [this.#texts, this.#done, this.#given] = [[text].flat().map(String), done, given];
    const [{ names }, [first]] = [this.spec, this.#texts];
    const all = done && first ? names.map((name, i) => `${name}: ${this.#texts[i]}`).join("\n") : "";
    if (names.length) this.read(all, done, ""); // one after the other
    else this.read(first.slice(this.#known(first).length), done, "Written: ");
    this.redraw();
  }

  /** The start of a text that the visitor wrote. */
  #known(text) { return text.startsWith(this.#given) ? this.#given : ""; }

  draw() {
    if (this.spec.mode !== "output") return;
    [...this.#pages.children].forEach(({ lastChild: output }, i) => {
      const text = this.#texts[i] ?? "";
      const below = output.scrollHeight - output.scrollTop - output.clientHeight;
      const known = this.#known(text);
      const start = make("span", { class: "given" }, !text && this.#done ? this.spec.placeholder : known);
      output.replaceChildren(start, text.slice(known.length));
      output.classList.toggle("writing", !this.#done);
      output.setAttribute("aria-busy", !this.#done);
      if (below < 8) output.scrollTop = output.scrollHeight; // who reads the end goes on reading it
    });
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
