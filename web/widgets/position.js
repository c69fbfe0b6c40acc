// <pf-position low="-3" high="3">: a place in a plane, such as an autoencoder's latent one.

import { define, help, image, sheet } from "../parts.js";
import { Plane } from "./plane.js";

const css = sheet(`[part=plane] { cursor: none; } [part=plane]:focus-visible { outline-offset: 2px; }`);

/**
 * Its value is the place, (2,): it follows the mouse, a finger and the arrow keys. `surface({ data, shape },
 * size)` lays the pictures of `grid(size)`, (size * size, channels, height, width), beneath.
 */
export class Position extends Plane {
  static fields = { low: -3, high: 3 };
  static sheets = [...Plane.sheets, css];

  #pictures = null; // a canvas with all pictures

  constructor() {
    super();
    this.cursor = [.5, .5];
    const { canvas } = this;
    this.shadowRoot.append(help(canvas,
      "Move with the mouse, a finger or the arrow keys; Shift makes small steps, Home goes to the middle."));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      this.moveTo(this.at(event));
    });
    canvas.addEventListener("pointermove", (event) => this.moveTo(this.at(event)));
    canvas.addEventListener("keydown", (event) => {
      if (this.arrow(event)) this.moveTo(this.cursor);
      else if (event.key === "Home") this.clear();
      else return;
      event.preventDefault();
    });
  }

  update(spec) {
    super.update(spec);
    this.canvas.setAttribute("aria-label", spec.label || "Place in the plane");
  }

  /** Back to the middle. */
  clear() { this.moveTo([.5, .5]); }

  moveTo(cursor) {
    super.moveTo(cursor);
    this.voice();
  }

  /** In the middle of the cells: each picture stands for its part of the plane. */
  node(column, row, size) { return [(column + .5) / size, (row + .5) / size]; }

  /** Lays pictures beneath; null takes them away. */
  surface(pictures, size) {
    this.settle();
    this.#pictures = null;
    if (pictures && !pictures.data.some(Number.isNaN)) {
      const { data, shape } = pictures;
      const [count, ...sides] = shape;
      const [channels, height, width] = sides.length === 3 ? sides : [1, ...sides];
      if (count !== size * size) {
        throw new Error(`<pf-position>: expected ${size * size} pictures, got ${count}`);
      }
      const whole = { width: size * width, height: size * height };
      this.#pictures = Object.assign(document.createElement("canvas"), whole);
      const context = this.#pictures.getContext("2d");
      for (let i = 0; i < count; i++) {
        context.putImageData(image(data, [channels, height, width], i * channels * height * width),
          (i % size) * width, Math.floor(i / size) * height);
      }
    }
    this.redraw();
  }

  draw() {
    const { canvas } = this;
    const context = canvas.getContext("2d");
    const { width, height } = canvas;
    const unit = width / (canvas.clientWidth || width);
    context.clearRect(0, 0, width, height);
    if (this.#pictures) {
      Object.assign(context, { imageSmoothingEnabled: true, imageSmoothingQuality: "high" });
      context.drawImage(this.#pictures, 0, 0, width, height);
    } else {
      this.lines(context, unit);
    }
    const [x, y] = [this.cursor[0] * width, this.cursor[1] * height];
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.moveTo(0, y);
    context.lineTo(width, y);
    const color = this.#pictures ? "#fff" : this.color("accent");
    Object.assign(context, { strokeStyle: color, lineWidth: unit, globalAlpha: .5 });
    context.stroke();
    context.globalAlpha = 1;
    context.beginPath();
    context.arc(x, y, 8 * unit, 0, 7);
    context.fillStyle = this.color("accent");
    context.fill();
    Object.assign(context, { strokeStyle: this.color("surface"), lineWidth: 2.5 * unit });
    context.stroke();
  }
}

define("pf-position", Position);
