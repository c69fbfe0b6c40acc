// <pf-pad height="28" width="28">: a drawing pad. Its value is (1, height, width), ink 1 and paper 0.

import { ARROWS, Part, act, clamp, define, help, image, make, sheet, unfit } from "../parts.js";

const PEN = 22 / 280; // of the shorter side
const PAPER = 280; // pixels of the longer side, about, from which the value is made
const MOVE = 8 / 280; // of the width: how far an arrow key goes

const css = sheet(`
:host { max-width: 280px; }
[part=pad] {
  display: block; width: 100%; touch-action: none; cursor: crosshair; border-radius: var(--_radius);
  background: var(--_field); box-shadow: inset 0 0 0 1px var(--_border); -webkit-touch-callout: none;
  user-select: none; -webkit-user-select: none;
}
.tools { margin-top: .5em; }
.tools button { flex: 1; }
@media (forced-colors: active) { [part=pad] { border: 1px solid; } }
`);

/**
 * A drawing pad for mouse, pen, finger and keys. With `centered` the value is scaled and moved as MNIST's
 * digits are: the longer side of the ink is 5/7 of the field, and its centre of mass in the middle.
 */
export class Pad extends Part {
  static fields = { height: 28, width: 28, centered: true };
  static sheets = [css];

  static check({ height, width }) { return unfit({ height, width }, 512); }

  #strokes = []; // of [x, y] each, where 1 is the width
  #given = null; // the value that was set, until something is drawn
  #beneath = null; // a small canvas with that value as ink
  #value = null; // of what is drawn; null: to be worked out
  #paper = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  #pen = { x: .5, y: .25, down: false };
  #pointer = null; // the id of the one that draws
  #shape = ""; // of the paper
  #hint = make("span", { part: "hint", "aria-hidden": "true" }, "Draw here");
  #undo = act("undo", "Undo", () => this.undo());
  #clear = act("clear", "Clear", () => this.clear());
  #canvas = make("canvas", {
    part: "pad", tabindex: 0, role: "slider", "aria-roledescription": "canvas", "aria-valuemin": 0, "aria-valuemax": 100,
    pointerdown: (event) => this.#press(event),
    pointermove: (event) => this.#move(event),
    pointerup: (event) => this.#lift(event),
    pointercancel: (event) => this.#lift(event),
    keydown: (event) => this.#key(event),
    focus: () => this.redraw(),
    blur: () => {
      this.#pen.down = false;
      this.redraw();
    },
    contextmenu: (event) => event.preventDefault(), // a long press draws
  });

  constructor() {
    super();
    this.shadowRoot.append(
      make("div", { class: "field" }, this.#canvas, this.#hint),
      help(this.#canvas, "Draw with mouse or finger; or with the arrow keys, where Space sets and lifts the pen, " +
        "Backspace takes the last stroke away, and Delete clears."),
      make("div", { class: "tools", part: "tools" }, this.#undo, this.#clear));
    this.watch(this.#canvas);
  }

  update({ height, width, label }) {
    this.#canvas.setAttribute("aria-label", label || "Drawing pad");
    this.#canvas.style.aspectRatio = `${width} / ${height}`;
    this.#told();
    const scale = Math.max(1, Math.round(PAPER / Math.max(height, width)));
    const shape = `${width * scale} ${height * scale}`;
    if (shape !== this.#shape) {
      this.#shape = shape;
      Object.assign(this.#paper.canvas, { width: width * scale, height: height * scale });
      this.#strokes = [];
      this.#given = this.#beneath = null;
    }
    this.#changed(false);
  }

  /** Float32Array (1, height, width); null when nothing is drawn. Setting it puts a picture on the pad. */
  get value() {
    this.settle();
    if (this.#given && !this.#strokes.length) return this.#given.slice();
    if (!this.#given && !this.#strokes.length) return null;
    if (!this.#value) { // lines drawn piece by piece would have other edges in some browsers
      this.#paint(this.#paper, "#000");
      this.#value = this.spec.centered ? this.#centered() : this.#average();
    }
    return this.#value?.slice() ?? null;
  }

  set value(value) {
    this.settle();
    const { height, width } = this.spec;
    if (value && value.length !== height * width) {
      throw new Error(`<pf-pad>: expected ${height * width} values, got ${value.length}`);
    }
    this.#strokes = [];
    this.#given = value ? Float32Array.from(value) : null;
    this.#beneath = null;
    if (value) {
      const ink = image(value, [1, height, width]);
      for (let i = 0; i < value.length; i++) ink.data.set([0, 0, 0, 255 * clamp(value[i], 0, 1)], 4 * i);
      this.#beneath = Object.assign(document.createElement("canvas"), { width, height });
      this.#beneath.getContext("2d").putImageData(ink, 0, 0);
    }
    this.#changed();
  }

  clear() {
    Object.assign(this.#pen, { x: .5, y: .25, down: false });
    this.#told();
    if (!this.#strokes.length && !this.#given) return;
    this.value = null;
    this.say("The pad is empty.");
  }

  /** Takes the last stroke away, or the picture. */
  undo() {
    if (!this.#strokes.pop()) this.#given = this.#beneath = null;
    this.#changed();
    this.say(this.#undo.disabled ? "The pad is empty." : "The last stroke is gone.");
  }

  /** Where the pen is, in percent, as a slider's value: a screen reader reads the text when the number changes. */
  #told() {
    const { width, height } = this.spec;
    const [across, down] = [this.#pen.x, this.#pen.y * width / height].map((at) => Math.round(100 * at));
    this.#canvas.setAttribute("aria-valuenow", (across + down) / 2);
    this.#canvas.setAttribute("aria-valuetext", `${across} across, ${down} down`);
  }

  #changed(tell = true) {
    this.#value = null;
    const empty = !this.#strokes.length && !this.#given;
    this.#hint.hidden = !empty;
    this.#undo.disabled = this.#clear.disabled = empty;
    this.redraw();
    if (tell) this.tell("input");
  }

  #paint(context, color) {
    const { width, height } = context.canvas;
    context.clearRect(0, 0, width, height);
    if (this.#beneath) context.drawImage(this.#beneath, 0, 0, width, height);
    if (this.#beneath && color !== "#000") { // a picture's ink is black: it takes the colour of the pen
      context.globalCompositeOperation = "source-in";
      context.fillStyle = color;
      context.fillRect(0, 0, width, height);
      context.globalCompositeOperation = "source-over";
    }
    Object.assign(context, {
      lineWidth: PEN * Math.min(width, height), lineCap: "round", lineJoin: "round", strokeStyle: color,
    });
    for (const points of this.#strokes) {
      context.beginPath();
      context.moveTo(points[0][0] * width, points[0][1] * width);
      for (const [x, y] of points) context.lineTo(x * width, y * width); // a single point is a dot
      context.stroke();
    }
  }

  draw() {
    const context = this.#canvas.getContext("2d");
    this.#paint(context, this.color("text"));
    if (!this.#canvas.matches(":focus-visible")) return;
    const { width, height } = this.#canvas;
    const [x, y, r] = [this.#pen.x * width, this.#pen.y * width, PEN * Math.min(width, height) / 2];
    context.lineWidth = width / 140;
    context.strokeStyle = this.color("accent");
    context.beginPath();
    context.arc(x, y, r, 0, 7);
    context.stroke();
    if (!this.#pen.down) return;
    context.fillStyle = this.color("accent");
    context.fill();
  }

  /** Draws from where the pen is to another place, where it is down. */
  #to(x, y) {
    Object.assign(this.#pen, { x, y });
    if (!this.#pen.down) return;
    this.#strokes.at(-1).push([x, y]);
    this.#value = null;
  }

  #down() {
    this.#pen.down = true;
    this.#strokes.push([[this.#pen.x, this.#pen.y]]);
    this.#changed();
  }

  #at(event) {
    const width = this.#canvas.clientWidth || 1;
    return [event.offsetX / width, event.offsetY / width];
  }

  #press(event) {
    if (event.button || this.#pointer !== null) return;
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pointer = event.pointerId;
    [this.#pen.x, this.#pen.y] = this.#at(event);
    this.#down();
  }

  #move(event) {
    if (event.pointerId !== this.#pointer) return;
    const every = event.getCoalescedEvents?.() ?? [];
    for (const each of every.length ? every : [event]) this.#to(...this.#at(each));
    this.redraw();
    this.tell("input");
  }

  #lift(event) {
    if (event.pointerId !== this.#pointer) return;
    this.#pointer = null;
    this.#pen.down = false;
  }

  #key(event) {
    const move = ARROWS[event.key];
    const { height, width } = this.spec;
    if (move) {
      const edge = PEN / 2 * Math.min(1, height / width);
      this.#to(clamp(this.#pen.x + MOVE * move[0], edge, 1 - edge),
        clamp(this.#pen.y + MOVE * move[1], edge, height / width - edge));
      this.#told();
      this.redraw();
      if (this.#pen.down) this.tell("input");
    } else if (event.key === " ") {
      if (this.#pen.down) this.#pen.down = false;
      else this.#down();
      this.redraw();
      this.say(this.#pen.down ? "Pen down: the arrow keys draw." : "Pen up: the arrow keys move.");
    } else if (event.key === "Backspace" || (event.key === "z" && (event.ctrlKey || event.metaKey))) {
      this.#pen.down = false;
      if (!this.#undo.disabled) this.undo();
    } else if (event.key === "Delete") this.clear();
    else return;
    event.preventDefault();
  }

  /** The ink as MNIST's digits are made; null where what was drawn lies outside. */
  #centered() {
    const { width: fieldWidth, height: fieldHeight } = this.spec;
    const { width, height } = this.#paper.canvas;
    const { data } = this.#paper.getImageData(0, 0, width, height);
    let [sum, sumX, sumY, x0, x1, y0, y1] = [0, 0, 0, width, 0, height, 0];
    for (let i = 3, x = 0, y = 0; i < data.length; i += 4) {
      const ink = data[i];
      if (ink) {
        [sum, sumX, sumY] = [sum + ink, sumX + x * ink, sumY + y * ink];
        if (x < x0) x0 = x;
        if (x > x1) x1 = x;
        if (y < y0) y0 = y;
        y1 = y;
      }
      if (++x === width) [x, y] = [0, y + 1];
    }
    if (!sum) return null;
    const box = Math.min(fieldWidth, fieldHeight) * 5 / 7;
    const scale = Math.min(box / (Math.max(x1 - x0, y1 - y0) + 1), 1);
    const field = new Float32Array(fieldWidth * fieldHeight);
    for (let y = y0; y <= y1; y++) {
      const row = Math.floor(fieldHeight / 2 + (y - sumY / sum) * scale);
      if (row < 0 || row >= fieldHeight) continue;
      for (let x = x0; x <= x1; x++) {
        const column = Math.floor(fieldWidth / 2 + (x - sumX / sum) * scale);
        if (column < 0 || column >= fieldWidth) continue;
        field[fieldWidth * row + column] += data[4 * (y * width + x) + 3] * scale * scale / 255;
      }
    }
    return field.map((ink) => Math.min(ink, 1));
  }

  /** The ink as it lies; each value is the mean of its part of the paper. */
  #average() {
    const { width: columns, height: rows } = this.spec;
    const { width, height } = this.#paper.canvas;
    const { data } = this.#paper.getImageData(0, 0, width, height);
    const scale = width / columns;
    const field = new Float32Array(columns * rows);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        field[columns * Math.floor(y / scale) + Math.floor(x / scale)] += data[4 * (y * width + x) + 3];
      }
    }
    return field.map((ink) => ink / (255 * scale * scale));
  }
}

define("pf-pad", Pad);
