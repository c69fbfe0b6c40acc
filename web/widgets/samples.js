// <pf-samples height="28" width="28">: pictures of the data, and what it makes of them.

import { Part, define, image, make, rgb, sheet, unfit } from "../parts.js";

const CRISP = 64; // pixels of a side: pictures with fewer are shown with sharp pixels

const css = sheet(`
ul {
  display: grid; gap: .5em; grid-template-columns: repeat(auto-fill, minmax(max(var(--_target), 3rem), 1fr));
}
ul.large { grid-template-columns: repeat(auto-fill, minmax(5.5rem, 1fr)); }
button {
  display: block; width: 100%; min-width: 0; padding: 4px 4px 2px; text-align: center; line-height: 1.35;
}
canvas { width: 100%; border-radius: calc(var(--_radius) * .5); }
.crisp canvas { image-rendering: pixelated; }
[part=guess] {
  display: block; min-height: 1.35em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  font-size: .875em; font-weight: 600;
}
[part=guess].right { color: var(--_good); }
[part=guess].wrong { color: var(--_bad); }
`);

/**
 * `samples` are [{ data: numbers, label: index or null }]; `show` takes their predictions, rows of
 * probabilities. A choice dispatches "choose" with { index, data, label }.
 */
export class Samples extends Part {
  static fields = { kind: "pad", channels: 1, height: 28, width: 28, names: [] };
  static sheets = [css];

  static check(spec) { return unfit(spec) ?? (Array.isArray(spec.names) ? null : "expected a list of names"); }

  #samples = [];
  #guesses = [];
  #list = make("ul", {
    part: "samples", click: (event) => this.#choose(event), keydown: (event) => this.#key(event),
  });

  constructor() {
    super();
    this.shadowRoot.append(this.#list);
  }

  get samples() { return this.#samples; }

  set samples(samples) {
    this.#samples = [...samples ?? []];
    this.#guesses = [];
    this.#build();
  }

  update({ label, height, width, names }) {
    this.#list.setAttribute("aria-label", label || "Samples of the data");
    this.#list.classList.toggle("crisp", Math.max(height, width) < CRISP);
    const words = names.some((name) => String(name).length > 3); // with a mark behind
    this.#list.classList.toggle("large", words || Math.max(height, width) >= CRISP);
    this.#build();
  }

  /** What the network says of each sample: rows of probabilities, or { data, shape } of them. */
  show(predictions) {
    const rows = predictions.shape
      ? Array.from({ length: predictions.shape[0] }, (_, i) =>
        predictions.data.slice(i * predictions.shape[1], (i + 1) * predictions.shape[1]))
      : predictions;
    this.#guesses = Array.from(rows, (row) => row.length === 1 ? Number(row[0] > 0) : row.indexOf(Math.max(...row)));
    this.#tell();
  }

  /** Forgets what the network said; the samples stay. */
  clear() {
    this.#guesses = [];
    this.#tell();
  }

  #name(i) { return i < 0 ? "?" : String(this.spec.names[i] ?? i); } // -1: no number is the highest

  #build() {
    const { height, width } = this.spec;
    this.#list.replaceChildren(...this.#samples.map((_, i) => make("li", {},
      make("button", { type: "button", part: "sample", tabindex: i ? -1 : 0 },
        make("canvas", { width, height }), make("span", { part: "guess" })))));
    this.#tell();
    this.redraw();
  }

  #tell() {
    const buttons = this.#list.querySelectorAll("button");
    this.#samples.forEach(({ label }, i) => {
      const [said, guess] = [this.#guesses[i], buttons[i].lastChild];
      const [known, there] = [label !== null && label !== undefined, said !== undefined];
      const right = known && there ? (said === label ? "right" : "wrong") : "";
      guess.className = right;
      guess.textContent = there ? this.#name(said) + { right: " ✓", wrong: " ✗", "": "" }[right] : "";
      const words = [`Sample ${i + 1}`, ...known ? [this.#name(label)] : []].join(", ");
      const says = there ? `: the network says ${this.#name(said)}${right && `, ${right}`}` : "";
      if (buttons[i].ariaLabel !== words + says) buttons[i].setAttribute("aria-label", words + says);
    });
  }

  draw() {
    const { kind, channels, height, width } = this.spec;
    const shades = kind === "pad" ? [rgb(this.color("field")), rgb(this.color("text"))] : undefined;
    this.#list.querySelectorAll("canvas").forEach((canvas, i) => {
      const picture = image(this.#samples[i].data, [channels, height, width], 0, shades);
      canvas.getContext("2d").putImageData(picture, 0, 0);
    });
  }

  #choose({ target }) {
    const button = target.closest("button");
    if (!button) return;
    const index = [...this.#list.children].indexOf(button.parentNode);
    this.#focus(index, false);
    this.tell("choose", { index, ...this.#samples[index] });
  }

  /** One stop of the Tab key; the arrow keys go from sample to sample. */
  #key(event) {
    const items = [...this.#list.children];
    const at = items.indexOf(event.target.closest("li"));
    const row = items.findIndex((item) => item.offsetTop > items[0].offsetTop);
    const to = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - row, ArrowDown: at + row,
      Home: 0, End: items.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (items[to]) this.#focus(to);
  }

  #focus(index, move = true) {
    this.#list.querySelectorAll("button").forEach((button, i) => { button.tabIndex = i === index ? 0 : -1; });
    if (move) this.#list.children[index].firstChild.focus();
  }
}

define("pf-samples", Samples);
