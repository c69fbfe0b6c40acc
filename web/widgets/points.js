// <pf-points classes="2" low="-1" high="1">: points of a plane, over what a network makes of it.

import { act, clamp, define, help, make, percent, rgb, sheet, whole } from "../parts.js";
import { Plane } from "./plane.js";

const RADIUS = 6; // of a point, in CSS pixels
const APART = 16; // CSS pixels between two points that are put while the pointer is down
const FINE = 4; // pixels of the surface between two nodes of the grid
const MOST = 10_000; // points

// The shapes of classes around (0, 0), as paths that SVG and canvas both draw; of about the same area.
const SHAPES = [
  "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", // circle
  "M-.9-.9H.9V.9H-.9Z", // square
  "M0-1.2L1.15.85H-1.15Z", // triangle
  "M0-1.3L1.1 0L0 1.3L-1.1 0Z", // diamond
  "M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z", // plus
  "M0-1.3L.38-.5L1.24-.4L.6.2L.76 1.05L0 .62L-.76 1.05L-.6.2L-1.24-.4L-.38-.5Z", // star
  "M-1.15-.85H1.15L0 1.2Z", // triangle upside down
  "M-.55-1.1L0-.55L.55-1.1L1.1-.55L.55 0L1.1.55L.55 1.1L0 .55L-.55 1.1L-1.1.55L-.55 0L-1.1-.55Z", // cross
  "M-1.15 0L-.58-1H.58L1.15 0L.58 1H-.58Z", // hexagon
  "M0-1.15L1.1-.35L.68.95H-.68L-1.1-.35Z", // pentagon
];

const css = sheet(`
.tools { margin-top: .6em; justify-content: space-between; }
[role=radiogroup] { display: flex; flex-wrap: wrap; gap: .35em; }
[role=radiogroup] span {
  display: flex; gap: .45em; align-items: center; justify-content: center; padding: 0 .6em;
  min-width: var(--_target); min-height: var(--_target); border: 1px solid var(--_border);
  border-radius: calc(var(--_radius) * .8);
}
input:checked + span {
  background: var(--_tint); border-color: var(--_accent); box-shadow: inset 0 0 0 1px var(--_accent);
}
[role=radiogroup] svg { width: 16px; height: 16px; overflow: visible; }
${SHAPES.map((_, i) => `.c${i} { fill: var(--_class-${i}); }`).join(" ")}
.acts { display: flex; gap: .35em; margin-inline-start: auto; }
@media (forced-colors: active) {
  [role=radiogroup] svg { forced-color-adjust: none; }
  input:checked + span { outline: 3px solid Highlight; outline-offset: -3px; }
}
`);

/**
 * Points that a visitor puts: `points` is a Float32Array of (x, y, class); `data` are points that only are
 * shown. `surface({ data, shape }, size)` shows the probabilities of classes at `grid(size)`. Its value is
 * the place of the cursor, (2,).
 */
export class Points extends Plane {
  static fields = { ...Plane.fields, classes: 2, names: [] };
  static sheets = [...Plane.sheets, css];

  static check(spec) {
    const { classes, names } = spec;
    if (!whole(classes, 2, SHAPES.length)) return `expected 2 to ${SHAPES.length} classes, got ${classes}`;
    return Array.isArray(names) ? Plane.check(spec) : "expected a list of names";
  }

  #points = []; // [x, y, class] in the axes' numbers
  #data = []; // the same, of points that are not the visitor's
  #groups = []; // how many points each act put, for undo
  #kind = 0; // the class that is put next
  #surface = null; // { data, classes, size }
  #bitmap = null; // a small canvas with the surface's colours
  #border = null; // Path2D in units of the plane, where the class changes
  #theme = ""; // the colours that the bitmap was made with
  #pointer = null; // the id of the one that puts points
  #last = [0, 0]; // where it put one
  #classes = ""; // what the choice was built of
  #paths = SHAPES.map((shape) => new Path2D(shape));
  #kinds = make("div", { role: "radiogroup", part: "classes", "aria-label": "Class of the next point" });
  #hint = make("span", { part: "hint", "aria-hidden": "true" }, "Click or tap to put points");
  #what = make("p", { id: "what", hidden: true }); // the points in words
  #undo = act("undo", "Undo", () => this.undo());
  #clear = act("clear", "Clear", () => this.clear());

  constructor() {
    super();
    this.field.append(this.#hint);
    this.shadowRoot.append(
      help(this.canvas, "Click to put a point, or move the cursor with the arrow keys and put one with Enter or " +
        "Space. Digits choose the class, Backspace takes the last point away, and Delete clears."),
      this.#what,
      make("div", { class: "tools", part: "tools" }, this.#kinds,
        make("div", { class: "acts" }, this.#undo, this.#clear)));
    this.canvas.setAttribute("aria-describedby", "what how");
    this.cursor = [.5, .5];
    this.canvas.addEventListener("pointerdown", (event) => this.#press(event));
    this.canvas.addEventListener("pointermove", (event) => this.#move(event));
    this.canvas.addEventListener("pointerup", (event) => this.#lift(event));
    this.canvas.addEventListener("pointercancel", (event) => this.#lift(event));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.#kinds.addEventListener("input", (event) => event.stopPropagation());
    this.#kinds.addEventListener("change", ({ target }) => { this.#kind = Number(target.value); });
  }

  update(spec) {
    super.update(spec);
    const { classes, names, label } = spec;
    this.canvas.setAttribute("aria-label", label || "Plane of points");
    this.#kind = Math.min(this.#kind, classes - 1);
    this.#points = this.#points.filter(([, , kind]) => kind < classes);
    if (this.#surface && this.#surface.classes !== classes) this.#surface = this.#bitmap = null;
    this.#told();
    const built = JSON.stringify([classes, names]);
    if (built === this.#classes) return;
    this.#classes = built;
    this.#kinds.replaceChildren(...SHAPES.slice(0, classes).map((d, i) => {
      const shape = make("svg", { viewBox: "-1.4 -1.4 2.8 2.8", "aria-hidden": "true" },
        make("path", { d, class: `c${i}` }));
      return make("label", { title: this.#name(i) },
        make("input", { type: "radio", name: "class", value: i, "aria-label": this.#name(i) }),
        make("span", { "aria-hidden": "true" }, shape, names[i] ?? ""));
    }));
    this.#choose(this.#kind);
  }

  #name(i) { return this.spec.names[i] ?? `Class ${i + 1}`; }

  #choose(kind) {
    this.#kind = kind;
    this.#kinds.querySelectorAll("input")[kind].checked = true;
  }

  /** Float32Array of (x, y, class); setting it tells nobody. */
  get points() { return Float32Array.from(this.#points.flat()); }

  set points(points) {
    this.settle();
    this.#points = this.#triples(points);
    this.#groups = this.#points.length ? [this.#points.length] : [];
    this.#told();
  }

  /** Points that only are shown, in the same form, such as those of a data set. */
  get data() { return Float32Array.from(this.#data.flat()); }

  set data(points) {
    this.settle();
    this.#data = this.#triples(points);
    this.#told();
  }

  #triples(points) {
    const found = Array.from(points ?? []);
    const { classes } = this.spec;
    if (found.length % 3) {
      throw new Error(`<pf-points>: expected x, y and class of each point, got ${found.length} numbers`);
    }
    return Array.from({ length: Math.min(found.length / 3, MOST) }, (_, i) => found.slice(3 * i, 3 * i + 3))
      .map(([x, y, kind]) => [x, y, clamp(Math.round(kind), 0, classes - 1)]);
  }

  /** Takes the visitor's points away. */
  clear() {
    if (!this.#points.length) return;
    this.#points = [];
    this.#groups = [];
    this.#changed();
  }

  /** Takes away what was put last: a point, or a row of them. */
  undo() {
    const last = this.#groups.pop();
    if (!last) return;
    this.#points.splice(-last);
    this.#changed();
  }

  #changed() {
    this.#told();
    this.say(this.#words());
    this.tell("points");
  }

  /** How many points the visitor has put. */
  #words() { return `${this.#points.length} ${this.#points.length === 1 ? "point" : "points"}.`; }

  /** "3 of Class 1, 4 of Class 2": how many points of each class there are. */
  #count(points) {
    const counts = Array(this.spec.classes).fill(0);
    for (const [, , kind] of points) counts[kind]++;
    return counts.flatMap((count, i) => (count ? [`${count} of ${this.#name(i)}`] : [])).join(", ") || "none";
  }

  #told() {
    this.#undo.disabled = this.#clear.disabled = !this.#points.length;
    this.#what.textContent = `Points of the data: ${this.#count(this.#data)}. Yours: ${this.#count(this.#points)}.`;
    this.#hint.hidden = Boolean(this.#points.length || this.#data.length || this.#surface);
    if (this.shadowRoot.activeElement !== this.canvas) this.voice(this.#here()); // else each step would be read
    this.redraw();
  }

  #put(at, more = false) {
    if (this.#points.length >= MOST) {
      this.fail(`There are ${MOST} points, as many as can be: clear them first.`);
      return;
    }
    this.#points.push([...this.place(at), this.#kind]);
    if (more) this.#groups[this.#groups.length - 1]++;
    else this.#groups.push(1);
    this.#changed();
    this.say(`${this.#name(this.#kind)} at ${this.words()}. ${this.#words()}`);
  }

  /** "0.25, −0.5: Class 2, 83 %": where the cursor is, and what the network says there. */
  #here() {
    if (!this.#surface) return this.words();
    const { data, classes, size } = this.#surface;
    const [column, row] = this.cursor.map((at) => Math.round(at * (size - 1)));
    const there = data.subarray(classes * (size * row + column)).subarray(0, classes);
    const most = Math.max(...there);
    return `${this.words()}: ${this.#name(there.indexOf(most))}, ${percent(most, 0)}`;
  }

  #press(event) {
    if (event.button || this.#pointer !== null) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.#pointer = event.pointerId;
    this.#last = this.cursor = this.at(event);
    this.#put(this.cursor);
    this.tell("input");
  }

  #move(event) {
    if (this.#pointer !== null && event.pointerId !== this.#pointer) return;
    this.cursor = this.at(event);
    const apart = Math.hypot(...this.cursor.map((at, i) => at - this.#last[i])) * this.canvas.clientWidth;
    if (this.#pointer !== null && apart >= APART) {
      this.#last = this.cursor;
      this.#put(this.cursor, true);
    }
    this.tell("input");
  }

  #lift(event) {
    if (event.pointerId === this.#pointer) this.#pointer = null;
  }

  #key(event) {
    const digit = Number(event.key);
    const command = event.ctrlKey || event.metaKey;
    if (this.arrow(event)) {
      this.redraw();
      this.voice(this.#here());
      this.tell("input");
    } else if (event.key === "Enter" || event.key === " ") this.#put(this.cursor);
    else if (event.key === "Backspace" || (event.key === "z" && command)) this.undo();
    else if (event.key === "Delete") this.clear();
    else if (whole(digit, 1, this.spec.classes) && !command && !event.altKey) {
      this.#choose(digit - 1);
      this.say(this.#name(digit - 1));
      this.redraw();
    } else return;
    event.preventDefault();
  }

  /** Shows probabilities { data, shape: [size * size, classes] } at `grid(size)`; null shows none. */
  surface(probabilities, size) {
    this.settle();
    this.#bitmap = this.#border = null;
    if (!probabilities || probabilities.data.some(Number.isNaN)) this.#surface = null;
    else {
      const { data, shape } = probabilities;
      if (shape[0] !== size * size) {
        throw new Error(`<pf-points>: expected ${size * size} places, got ${shape[0]}`);
      }
      this.#surface = { data: Float32Array.from(data), classes: shape[1], size };
    }
    this.#told();
  }

  draw() {
    const { canvas } = this;
    const context = canvas.getContext("2d");
    const { width, height } = canvas;
    const unit = width / (canvas.clientWidth || width); // pixels of the canvas in one of CSS
    const field = this.color("field");
    context.clearRect(0, 0, width, height);
    if (this.#surface) this.#ground(context);
    else this.lines(context, unit);
    const colors = SHAPES.map((_, i) => this.color(`class-${i}`));
    const radius = RADIUS * unit * clamp(canvas.clientWidth / 320, .75, 1);
    for (const [points, share] of [[this.#data, .7], [this.#points, 1]]) {
      context.globalAlpha = share < 1 && this.#points.length ? .25 : 1; // nothing learns from the data then
      context.strokeStyle = this.#surface ? this.color("surface") : field;
      context.lineWidth = 1.5 / RADIUS / share;
      for (const [x, y, kind] of points) {
        const [across, down] = this.spot(x, y);
        context.setTransform(radius * share, 0, 0, radius * share, across * width, down * height);
        context.fillStyle = colors[kind];
        context.stroke(this.#paths[kind]);
        context.fill(this.#paths[kind]);
      }
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = 1;
    if (canvas.matches(":focus-visible")) this.#cross(context, unit, colors[this.#kind]);
  }

  #cross(context, unit, color) {
    const [x, y] = [this.cursor[0] * context.canvas.width, this.cursor[1] * context.canvas.height];
    const path = new Path2D();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      path.moveTo(x + 5 * unit * dx, y + 5 * unit * dy);
      path.lineTo(x + 15 * unit * dx, y + 15 * unit * dy);
    }
    for (const [width, stroke] of [[6, this.color("surface")], [2.5, color]]) {
      Object.assign(context, { lineWidth: width * unit, strokeStyle: stroke, lineCap: "round" });
      context.stroke(path);
    }
  }

  /** The surface beneath the points: its colours, and a line where the class changes. */
  #ground(context) {
    const { width, height } = context.canvas;
    const theme = ["surface", "class-0", "class-1"].map((name) => this.color(name)).join();
    if (!this.#bitmap || theme !== this.#theme) this.#bitmap = this.#colored();
    this.#theme = theme;
    this.#border ??= this.#edges();
    Object.assign(context, { imageSmoothingEnabled: true, imageSmoothingQuality: "high" });
    const { width: side } = this.#bitmap;
    context.drawImage(this.#bitmap, .5, .5, side - 1, side - 1, 0, 0, width, height);
    context.setTransform(width, 0, 0, height, 0, 0);
    const lineWidth = 2 / this.canvas.clientWidth;
    Object.assign(context, { strokeStyle: this.color("surface"), lineWidth, lineCap: "round" });
    context.stroke(this.#border);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /** A small canvas: colours of the classes, the paler the less sure, between the nodes of the grid. */
  #colored() {
    const { data, classes, size } = this.#surface;
    const side = (size - 1) * Math.max(1, Math.min(FINE, Math.floor(256 / size))) + 1;
    const shown = Math.min(classes, SHAPES.length);
    const colors = Array.from({ length: shown }, (_, c) => rgb(this.color(`class-${c}`)));
    const paper = rgb(this.color("surface"));
    const picture = new ImageData(side, side);
    for (let row = 0, i = 0; row < side; row++) {
      const y = row * (size - 1) / (side - 1);
      const y0 = Math.min(Math.floor(y), size - 2);
      for (let column = 0; column < side; column++, i += 4) {
        const x = column * (size - 1) / (side - 1);
        const x0 = Math.min(Math.floor(x), size - 2);
        const [u, v, from] = [x - x0, y - y0, (y0 * size + x0) * classes];
        let [red, green, blue, most] = [0, 0, 0, 0];
        for (let c = 0; c < shown; c++) {
          const top = data[from + c] * (1 - u) + data[from + classes + c] * u;
          const low = data[from + size * classes + c] * (1 - u) + data[from + (size + 1) * classes + c] * u;
          const p = top * (1 - v) + low * v;
          red += p * colors[c][0];
          green += p * colors[c][1];
          blue += p * colors[c][2];
          if (p > most) most = p;
        }
        const sure = .12 + .43 * clamp((most - 1 / classes) / (1 - 1 / classes), 0, 1);
        picture.data[i] = paper[0] + (red - paper[0]) * sure;
        picture.data[i + 1] = paper[1] + (green - paper[1]) * sure;
        picture.data[i + 2] = paper[2] + (blue - paper[2]) * sure;
        picture.data[i + 3] = 255;
      }
    }
    const canvas = Object.assign(document.createElement("canvas"), { width: side, height: side });
    canvas.getContext("2d").putImageData(picture, 0, 0);
    return canvas;
  }

  /** Where a class is as likely as the best other: straight pieces through the grid's cells. */
  #edges() {
    const { data, classes, size } = this.#surface;
    const path = new Path2D();
    for (let c = classes === 2 ? 1 : 0; c < classes; c++) {
      const ahead = new Float32Array(size * size);
      for (let i = 0; i < ahead.length; i++) {
        let other = 0;
        for (let k = 0; k < classes; k++) if (k !== c) other = Math.max(other, data[i * classes + k]);
        ahead[i] = data[i * classes + c] - other;
      }
      for (let row = 0; row < size - 1; row++) {
        for (let column = 0; column < size - 1; column++) this.#cell(path, ahead, column, row, size);
      }
    }
    return path;
  }

  #cell(path, ahead, column, row, size) {
    const corners = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
    const found = [];
    corners.forEach(([x, y], i) => {
      const [toX, toY] = corners[(i + 1) % 4];
      const [a, b] = [ahead[y * size + x], ahead[toY * size + toX]];
      if (a > 0 === b > 0) return;
      const part = a / (a - b);
      found.push(this.node(x + (toX - x) * part, y + (toY - y) * part, size));
    });
    for (let i = 0; i + 1 < found.length; i += 2) {
      path.moveTo(...found[i]);
      path.lineTo(...found[i + 1]);
    }
  }
}

define("pf-points", Points);
