// <pf-bars names="cat, dog" top="3">: probabilities of classes as bars.

import { Part, clamp, define, make, percent, sheet, whole } from "../parts.js";

const LONG = 12; // characters: names that stand above their bars

const css = sheet(`
[part=bars] { display: grid; grid-template-columns: fit-content(45%) minmax(3rem, 1fr) auto; gap: 4px .6em; }
[part~=bar] {
  display: grid; grid-column: 1 / -1; grid-template-columns: subgrid; align-items: center; min-height: 1.55em;
}
[part=name] { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
[part=percent] {
  min-width: 3.1em; text-align: end; font-size: .875em; color: var(--_muted); white-space: nowrap;
}
[part=track] { height: 12px; border-radius: 6px; background: var(--_field); overflow: hidden; }
[part=fill] { height: 100%; width: 0; border-radius: 6px; background: var(--_faint); }
[part~=best] { font-weight: 700; }
[part~=best] [part=fill] { background: var(--_accent); }
[part~=best] [part=percent] { color: inherit; }
.above { grid-template-columns: minmax(0, 1fr) auto; row-gap: .55em; }
.above [part=track] { order: 3; grid-column: 1 / -1; height: 8px; }
@media (prefers-reduced-motion: no-preference) { [part=fill] { transition: width .12s; } }
@media (forced-colors: active) {
  [part=track] { border: 1px solid; }
  [part=fill] { forced-color-adjust: none; }
}
`);

/** Probabilities of scores. */
function shares(scores) {
  const all = scores.length > 1 ? scores : [0, ...scores];
  const most = Math.max(...all);
  const parts = all.map((x) => Math.exp(x - most));
  const sum = parts.reduce((a, b) => a + b);
  return parts.map((x) => x / sum);
}

/**
 * `show({ data, shape })` shows the first sample's probabilities: all in order, or the `top` highest. With
 * `scores` it is given a network's scores, of which these are the softmax, or of one score the sigmoid.
 */
export class Bars extends Part {
  static fields = { names: [], top: 0, scores: false };
  static sheets = [css];

  static check({ names, top }) {
    if (!Array.isArray(names)) return "expected a list of names";
    return whole(top, 0, 1000) ? null : `expected a top from 0 (all) to 1000, got ${top}`;
  }

  #values = null;
  #rows = [];
  #best = null; // the name that was told last
  #list = make("div", { part: "bars", role: "group" });

  constructor() {
    super();
    this.shadowRoot.append(this.#list);
  }

  update({ label }) {
    this.#list.setAttribute("aria-label", label || "Probabilities");
    this.#best = null;
    this.#fill();
  }

  /** Probabilities: { data, shape } of which the first sample counts. */
  show({ data, shape }) {
    const found = Array.from(data.slice(0, shape.length > 1 ? shape.at(-1) : 1));
    this.#values = this.spec.scores ? shares(found) : found;
    this.redraw();
  }

  clear() {
    this.#values = null;
    this.#best = null;
    this.say(null);
    this.redraw();
  }

  draw() { this.#fill(); }

  #fill() {
    const { names, top } = this.spec;
    const classes = this.#values?.length ?? names.length;
    const rows = Math.min(top || classes, classes);
    const name = (i) => names[i] ?? String(i);
    if (this.#rows.length !== rows) {
      this.#rows = Array.from({ length: rows }, () => {
        return make("div", { part: "bar" }, make("span", { part: "name" }),
          make("span", { part: "track" }, make("div", { part: "fill" })), make("span", { part: "percent" }));
      });
      this.#list.replaceChildren(...this.#rows);
    }
    this.#list.classList.toggle("above", Math.max(0, ...names.map((each) => each.length)) > LONG);
    const order = Array.from({ length: classes }, (_, i) => i);
    if (top && this.#values) order.sort((a, b) => this.#values[b] - this.#values[a]);
    const best = this.#values?.indexOf(Math.max(...this.#values));
    this.#rows.forEach((row, i) => {
      const [label, track, share] = row.children;
      const p = this.#values?.[order[i]];
      label.textContent = top && !this.#values ? "–" : name(order[i]);
      label.title = label.textContent;
      track.firstChild.style.width = `${100 * clamp(p || 0, 0, 1)}%`;
      share.textContent = p === undefined ? "–" : percent(p, 0);
      row.part = this.#values && order[i] === best ? "bar best" : "bar";
    });
    if (!this.#values || best < 0 || name(best) === this.#best) return;
    this.#best = name(best);
    this.say(`${this.#best}, ${percent(this.#values[best], 0)}`);
  }
}

define("pf-bars", Bars);
