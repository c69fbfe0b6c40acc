// <pf-picture height="28" width="28" channels="1">: a picture that the network gives.

import { Part, define, image, make, sheet, unfit } from "../parts.js";

const CRISP = 128; // pixels of a side: pictures with fewer are shown with sharp pixels

const css = sheet(`
:host { max-width: 280px; }
canvas { width: 100%; border-radius: var(--_radius); background: var(--_field); }
canvas.crisp { image-rendering: pixelated; }
.field { border-radius: var(--_radius); box-shadow: 0 0 0 1px var(--_border); }
`);

/**
 * `show({ data, shape }, words)` shows the first sample: (channels, height, width) from 0 to 1. Who can't see it is
 * told its label and the words, such as what it was made of.
 */
export class Picture extends Part {
  static fields = { height: 28, width: 28, channels: 1 };
  static sheets = [css];

  static check(spec) { return unfit(spec); }

  #data = null;
  #words = "";
  #canvas = make("canvas", { part: "picture", role: "img" });

  constructor() {
    super();
    this.shadowRoot.append(make("div", { class: "field" }, this.#canvas));
  }

  update({ height, width }) {
    Object.assign(this.#canvas, { width, height });
    this.#canvas.style.aspectRatio = `${width} / ${height}`;
    this.#canvas.classList.toggle("crisp", Math.max(width, height) < CRISP);
    this.#data = null;
    this.draw();
  }

  show({ data }, words = "") {
    this.settle();
    this.#data = data;
    this.#words = words;
    this.redraw();
  }

  clear() {
    this.#data = null;
    this.redraw();
  }

  draw() {
    const { channels, height, width, label } = this.spec;
    const what = this.#data ? this.#words || `${width} by ${height} pixels` : "nothing yet";
    this.#canvas.setAttribute("aria-label", `${label || "Picture"}: ${what}`);
    const context = this.#canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    if (this.#data) context.putImageData(image(this.#data, [channels, height, width]), 0, 0);
  }
}

define("pf-picture", Picture);
