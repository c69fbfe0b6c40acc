// <pf-image height="224" width="224">: a photo that is dropped, chosen or pasted, (channels, height, width).

import { Part, act, define, fitted, image, make, sheet, short, unfit } from "../parts.js";

const css = sheet(`
:host { max-width: 320px; }
[part=drop] {
  position: relative; display: grid; place-items: center; overflow: hidden; border-radius: var(--_radius);
  border: 2px dashed var(--_edge); background: var(--_field); color: var(--_muted); cursor: pointer;
  text-align: center;
}
[part=drop]:has(input:focus-visible) { outline: 3px solid var(--_accent); outline-offset: 2px; }
[part=drop].over { border-color: var(--_accent); background: var(--_tint); color: var(--_accent); }
[part=drop].full { border-style: solid; border-color: var(--_border); border-width: 1px; background: none; }
@media (hover: hover) { [part=drop]:hover { border-color: var(--_accent); } }
[part=drop] input {
  position: absolute; inset: 0; width: 100%; height: 100%; opacity: 0; cursor: inherit; font-size: 0;
}
[part=hint] { display: grid; gap: .4em; justify-items: center; padding: 1em; pointer-events: none; }
[part=hint] svg {
  width: 2.5em; height: 2.5em; stroke: currentColor; fill: none; stroke-width: 1.6; stroke-linejoin: round;
  stroke-linecap: round;
}
[part=hint] strong { color: var(--_text); font-weight: 600; }
[part=picture] { position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none; }
.crisp { image-rendering: pixelated; }
.tools { justify-content: space-between; margin-top: .5em; min-height: var(--_target); flex-wrap: nowrap; }
[part=name] { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
`);

const icon = () => make("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" },
  make("rect", { x: 3, y: 4, width: 18, height: 16, rx: 3 }), make("circle", { cx: 8.5, cy: 9.5, r: 1.7 }),
  make("path", { d: "m4 18 5.2-5 3.3 3 3.5-4 4.5 5" }));

/**
 * A picture as the network takes it: from 0 to 1, the middle of the photo, as the camera was held. A file
 * that is no picture, or has more than `most` megabytes, gives a message and an event "error".
 */
export class Image extends Part {
  static fields = { height: 224, width: 224, channels: 3, most: 50 };
  static sheets = [css];

  static check(spec) {
    const { most } = spec;
    return unfit(spec) ?? (most > 0 ? null : `expected most, in megabytes, above 0, got ${most}`);
  }

  #value = null;
  #shape = "";
  #asked = 0; // files that were given; only the last one's picture counts
  #hint = make("span", { part: "hint", "aria-hidden": "true" }, icon(),
    make("strong", {}, "Choose a photo"), make("span", {}, "or drop it here, or paste it"));
  #picture = make("canvas", { part: "picture", role: "img", hidden: true });
  #name = make("span", { part: "name", class: "quiet" });
  #clear = act("clear", "Clear", () => this.clear());
  #file = make("input", {
    type: "file", accept: "image/*",
    input: (event) => event.stopPropagation(),
    click: () => { this.#file.value = ""; }, // the same file again is a change, too
    change: () => { if (this.#file.files.length) this.open(this.#file.files[0]); },
  });
  #drop = make("label", {
    part: "drop",
    dragover: (event) => {
      event.preventDefault();
      this.#drop.classList.add("over");
    },
    dragleave: () => this.#drop.classList.remove("over"),
    drop: (event) => this.#take(event, event.dataTransfer),
  }, this.#file, this.#hint, this.#picture);

  constructor() {
    super();
    const tools = make("div", { class: "tools", part: "tools" }, this.#name, this.#clear);
    this.shadowRoot.append(this.#drop, tools);
    this.addEventListener("paste", (event) => this.#take(event, event.clipboardData));
  }

  update({ height, width, channels, label }) {
    this.#file.setAttribute("aria-label", `${label || "Picture"}: choose a photo, or drop it here, or paste it`);
    this.#drop.style.aspectRatio = `${width} / ${height}`;
    this.#picture.classList.toggle("crisp", Math.max(width, height) < 128);
    const shape = `${channels} ${height} ${width}`;
    if (shape !== this.#shape) this.#set(null);
    this.#shape = shape;
  }

  /** Float32Array (channels, height, width); null without a picture. */
  get value() {
    this.settle();
    return this.#value?.slice() ?? null;
  }

  set value(value) {
    this.settle();
    const { height, width, channels } = this.spec;
    if (value && value.length !== channels * height * width) {
      throw new Error(`<pf-image>: expected ${channels * height * width} values, got ${value.length}`);
    }
    this.#asked++;
    this.#set(value ? Float32Array.from(value) : null);
    this.tell("input");
  }

  clear() {
    this.fail(null);
    if (this.#value) this.value = null;
  }

  /** Takes a File or Blob; resolves to whether a picture is in it, once it is shown. */
  async open(file) {
    const asked = ++this.#asked;
    const name = file.name || "The picture";
    const megabytes = file.size / 1e6;
    const { most } = this.spec;
    if (megabytes > most) {
      this.fail(`${name} has ${short(megabytes)} MB: expected at most ${most} MB. ` +
        "Choose a smaller picture, or save this one smaller.");
      return false;
    }
    let bitmap;
    try {
      bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
    } catch {
      if (asked === this.#asked) {
        this.fail(`${name} can't be read as a picture: ` +
          "expected a PNG, JPEG, WebP, AVIF or GIF file that is whole.");
      }
      return false;
    }
    if (asked !== this.#asked) return false;
    const { width, height } = bitmap;
    const value = fitted(bitmap, this.spec);
    bitmap.close();
    this.fail(null);
    this.#set(value, `${file.name || "Picture"}, ${width} × ${height}`);
    this.say(`${file.name || "The picture"} is there.`);
    this.tell("input");
    return true;
  }

  #take(event, transfer) {
    this.#drop.classList.remove("over");
    const files = [...transfer?.files ?? []];
    const file = files.find(({ type }) => type.startsWith("image/")) ?? files[0];
    if (!file && event.type === "paste") return;
    event.preventDefault();
    if (file) this.open(file);
    else this.fail("What was dropped is no file: save the picture first, then drop or choose its file.");
  }

  #set(value, name = "") {
    const { width, height, channels } = this.spec;
    this.#value = value;
    this.#name.textContent = this.#name.title = name;
    this.#clear.disabled = !value;
    if (!name) this.#file.value = ""; // it says which it has
    this.#hint.hidden = Boolean(value);
    this.#picture.hidden = !value;
    this.#drop.classList.toggle("full", Boolean(value));
    if (!value) return;
    Object.assign(this.#picture, { width, height });
    this.#picture.setAttribute("aria-label", name || "The picture that was chosen");
    this.#picture.getContext("2d").putImageData(image(value, [channels, height, width]), 0, 0);
  }
}

define("pf-image", Image);
