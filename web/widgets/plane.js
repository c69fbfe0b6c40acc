// What <pf-points> and <pf-position> share: a square plane with axes from `low` to `high`, y upwards.

import { ARROWS, Part, clamp, make, sheet, short } from "../parts.js";

const STEP = 40; // arrow keys cross the plane in so many steps, with Shift in ten times as many

const css = sheet(`
:host { max-width: 480px; }
.axes {
  direction: ltr; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 3px 6px; font-size: .8125em;
  color: var(--_muted);
}
.axis { display: flex; justify-content: space-between; line-height: 1; pointer-events: none; }
.y { flex-direction: column; text-align: end; }
.x { grid-column: 2; }
[part=plane] {
  width: 100%; aspect-ratio: 1; border-radius: calc(var(--_radius) * .6); background: var(--_field);
  cursor: crosshair; touch-action: none; user-select: none; -webkit-user-select: none;
  -webkit-touch-callout: none;
}
.frame {
  position: absolute; inset: 0; border-radius: calc(var(--_radius) * .6); pointer-events: none;
  box-shadow: inset 0 0 0 1px var(--_border);
}
@media (forced-colors: active) { .frame { border: 1px solid; } }
`);

/** A plane with a cursor that pointers and arrow keys move; see the subclasses. */
export class Plane extends Part {
  static fields = { low: -1, high: 1 };
  static sheets = [css];

  static check({ low, high }) { return low < high ? null : `expected low < high, got ${low} and ${high}`; }

  cursor = [0, 0]; // from 0 to 1, from the left and from the top
  field = make("div", { class: "field" });
  canvas = make("canvas", {
    part: "plane", tabindex: 0, role: "slider", "aria-roledescription": "plane",
    focus: () => this.redraw(),
    blur: () => this.redraw(),
    contextmenu: (event) => event.preventDefault(), // a long press is a press
  });
  #y = make("div", { class: "axis y", "aria-hidden": "true" });
  #x = make("div", { class: "axis x", "aria-hidden": "true" });

  constructor() {
    super();
    this.field.append(this.canvas, make("div", { class: "frame" }));
    this.shadowRoot.append(make("div", { class: "axes", part: "axes" }, this.#y, this.field, this.#x));
    this.watch(this.canvas);
  }

  update({ low, high }) {
    const marks = [low, (low + high) / 2, high].map((mark) => make("span", {}, short(mark)));
    this.#x.replaceChildren(...marks);
    this.#y.replaceChildren(...marks.map((mark) => mark.cloneNode(true)).reverse());
    this.canvas.setAttribute("aria-valuemin", low);
    this.canvas.setAttribute("aria-valuemax", high);
    this.voice();
  }

  /** What a screen reader has of the cursor: a slider's value, of which it reads the text when the number changes. */
  voice(text = this.words()) {
    const [x, y] = this.place(this.cursor);
    this.canvas.setAttribute("aria-valuenow", (x + y) / 2);
    this.canvas.setAttribute("aria-valuetext", text);
  }

  /** [x, y] in the axes' numbers of a place from 0 to 1. */
  place([across, down]) {
    const { low, high } = this.spec;
    return [low + (high - low) * across, high - (high - low) * down];
  }

  /** The reverse of `place`. */
  spot(x, y) {
    const { low, high } = this.spec;
    return [(x - low) / (high - low), (high - y) / (high - low)];
  }

  /** Where a pointer is, from 0 to 1. */
  at(event) {
    const { clientWidth, clientHeight } = this.canvas;
    return [event.offsetX / clientWidth, event.offsetY / clientHeight].map((at) => clamp(at, 0, 1));
  }

  /** Float32Array (2,): where the cursor is. */
  get value() {
    this.settle();
    return Float32Array.from(this.place(this.cursor));
  }

  set value([x, y]) {
    this.settle();
    this.moveTo(this.spot(x, y).map((at) => clamp(at, 0, 1)));
  }

  /** Moves the cursor to a place from 0 to 1, and tells so. */
  moveTo(cursor) {
    this.cursor = cursor;
    this.redraw();
    this.tell("input");
  }

  /** Whether a key moved the cursor; Shift moves it finely. */
  arrow({ key, shiftKey }) {
    const move = ARROWS[key];
    if (!move) return false;
    const step = 1 / (shiftKey ? 10 * STEP : STEP);
    this.cursor = this.cursor.map((at, i) => clamp(at + step * move[i], 0, 1));
    return true;
  }

  /** The places of a grid of size × size, the upper row first, for a network: Float32Array of (x, y). */
  grid(size) {
    this.settle();
    const places = new Float32Array(2 * size * size);
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        places.set(this.place(this.node(column, row, size)), 2 * (row * size + column));
      }
    }
    return places;
  }

  /** Where a grid's node lies, from 0 to 1: from edge to edge. */
  node(column, row, size) { return [column / (size - 1), row / (size - 1)]; }

  /** Draws the lines of an empty plane; `unit` is a CSS pixel. */
  lines(context, unit) {
    const { width, height } = context.canvas;
    context.fillStyle = this.color("border");
    for (let i = 1; i < 4; i++) {
      context.fillRect(Math.round(width * i / 4), 0, unit, height);
      context.fillRect(0, Math.round(height * i / 4), width, unit);
    }
  }

  /** "0.25, −0.5": the cursor in words. */
  words() { return this.place(this.cursor).map((number) => short(+number.toPrecision(3))).join(", "); }
}
