// <py-editor for="moons">: the source of the <py-frame id="moons">, to read and to edit. Run (Ctrl or Cmd
// with Enter) has the element run what stands here; it stays for this visit. Where the page has no
// CodeMirror (scripts/get_editor builds it) a plain text area does the same.

import { announce, define, look, make, sheet, teller } from "./parts.js";

const here = new URL("./", import.meta.url).href;
const css = sheet(`
:host {
  --_keyword: light-dark(#8a2ba0, #d59bf0); --_string: light-dark(#1a7040, #8fd6a8);
  --_comment: light-dark(#5f6575, #8f97a8); --_number: light-dark(#a84a00, #f0b27a);
  display: flex; flex-direction: column; background: var(--_surface); border: 1px solid var(--_border);
  border-radius: var(--_radius); overflow: hidden;
}
header { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; padding: .5em .5em .5em .9em;
  border-bottom: 1px solid var(--_border); }
header b { overflow-wrap: anywhere; }
header .quiet { flex: 1 1 0; min-width: 0; }
.place { flex: 1; min-height: 12em; display: flex; flex-direction: column;
  font: .84rem/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.place > * { flex: 1; min-height: 0; }
@media (any-pointer: coarse) { .place { font-size: 1rem; } } /* phones would zoom into smaller text */
.place:focus-within { outline: 2px solid var(--_accent); outline-offset: -2px; }
#keys { padding: .3em 1.1em; color: var(--_muted); font-size: .875em; border-top: 1px solid var(--_border); }
@media not (any-hover: hover) { #keys { display: none; } }
textarea { display: block; width: 100%; min-height: 20em; padding: .6em .9em; border: 0; resize: none; outline: none;
  font: inherit; tab-size: 4; white-space: pre; overflow: auto; background: transparent; color: inherit; }
.news { display: flex; flex-wrap: wrap; gap: .5em; align-items: center; padding: .5em .9em;
  border-bottom: 1px solid var(--_border); background: var(--_tint); }
[part=message] { margin: .5em; max-height: 12em; overflow: auto; }`);

class PyEditor extends HTMLElement {
  static observedAttributes = ["for"];

  #name = make("b");
  #note = make("span", { class: "quiet", "aria-live": "polite" });
  #revert = make("button", { part: "revert", type: "button", disabled: true, click: () => this.revert() }, "Revert");
  #run = make("button", { part: "run", type: "button", class: "primary", disabled: true, title: "Ctrl or Cmd with Enter",
    click: () => this.run() }, "Run");
  #news = make("div", { class: "news", part: "news", hidden: true });
  #teller = teller();
  #place = make("div", { class: "place", part: "editor" });
  #message = make("p", { part: "message", hidden: true });
  #frame = null;
  #editor = null;
  #saved = ""; // the program as it is on the server
  #ran = ""; // and as it runs now
  #leave = new AbortController();

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [look, css];
    root.append(this.#teller, make("header", {}, this.#name, this.#note, this.#revert, this.#run), this.#news, this.#place, this.#message,
      make("p", { id: "keys" }, "Ctrl or Cmd with Enter runs it. Escape, then Tab, leaves it."));
  }

  connectedCallback() { this.#open(); }
  disconnectedCallback() { this.#leave.abort(); }
  attributeChangedCallback() { if (this.isConnected) this.#open(); }

  /** The <py-frame> whose program this is. */
  get frame() { return this.#frame; }

  /** The text as it stands here. */
  get text() { return this.#editor?.text ?? ""; }
  set text(text) { if (this.#editor) this.#editor.text = text; }

  /** Has the element run the text as it stands here. */
  run() {
    if (!this.#editor) return;
    this.#say(null);
    this.#ran = this.text;
    this.#frame.source = this.#ran === this.#saved ? null : this.#ran;
    this.#show();
  }

  /** Back to the program as it is on the server. */
  revert() {
    this.text = this.#saved;
    if (this.#ran !== this.#saved) this.run();
    this.#say(null);
  }

  async #open() {
    this.#leave.abort();
    this.#leave = new AbortController();
    const { signal } = this.#leave;
    const frame = document.getElementById(this.getAttribute("for"));
    if (!frame) return this.#say(`<py-editor for="${this.getAttribute("for")}">: no element has that id`);
    this.#frame = frame;
    const url = new URL(frame.getAttribute("src"), document.baseURI).href;
    const name = decodeURIComponent(url.split("/").pop().split(/[?#]/)[0]);
    this.#name.textContent = name;
    try {
      const config = await load(`${here}config.json`).then((text) => JSON.parse(text), () => ({}));
      const text = await load(url);
      const kept = sessionStorage.getItem(key(url));
      const make = await editors(config.editor);
      if (signal.aborted) return;
      this.#saved = this.#ran = text;
      this.#place.replaceChildren();
      this.#editor = make(this.#place, this.shadowRoot, {
        text: kept ?? text, label: `Source of ${name}`,
        changed: (now) => {
          if (now === this.#saved) sessionStorage.removeItem(key(url));
          else sessionStorage.setItem(key(url), now);
          this.#show();
        },
        run: () => this.run(),
      });
      if (kept !== null && kept !== text) this.run();
    } catch (error) {
      return this.#say(error.message);
    }
    this.#show();
    frame.addEventListener("ready", () => this.#say(null), { signal });
    frame.addEventListener("error", ({ detail }) => { if (detail) this.#wrong(name, detail); }, { signal });
    const ask = () => { if (!document.hidden) this.#ask(url, name); };
    self.addEventListener("focus", ask, { signal });
    document.addEventListener("visibilitychange", ask, { signal });
  }

  #show() {
    const edited = this.text !== this.#saved;
    this.#revert.disabled = !edited && this.#ran === this.#saved;
    this.#run.disabled = !this.#editor;
    this.#note.textContent = this.text !== this.#ran ? "edited, not run yet" : edited ? "edited" : "";
  }

  #say(message, told = false) {
    if (message !== null && !told) announce(this.#teller, `Error: ${message}`);
    this.#message.hidden = message === null;
    this.#message.textContent = message ?? "";
    if (message === null) this.#editor?.mark(null, "");
  }

  /** Shows an error of Python, at the last line of this program that its traceback names. */
  #wrong(name, { message, traceback }) {
    const lines = [...(traceback ?? "").matchAll(/File "([^"\n]*)", line (\d+)/g)]
      .filter(([, file]) => file.split("/").pop() === name).map(([, , line]) => Number(line));
    const line = lines.at(-1) ?? null;
    this.#say(line === null || message.includes(`line ${line}`) ? message : `Line ${line}: ${message}`, true); // by the element
    this.#editor.mark(line, message);
  }

  /** Looks whether the program has changed on the server, and offers what is there now. */
  async #ask(url, name) {
    const text = await load(url).catch(() => this.#saved);
    if (text === this.#saved) return;
    const take = () => {
      this.#news.hidden = true;
      this.#saved = text;
      this.text = text;
      sessionStorage.removeItem(key(url));
      this.run();
    };
    const edited = this.text !== this.#saved;
    const news = `${name} is another file on the server now${edited ? "; your edits would go" : ""}.`;
    announce(this.#teller, news);
    this.#news.replaceChildren(
      make("span", {}, news),
      make("button", { type: "button", click: take }, "Reload"),
      make("button", { type: "button", click: () => { this.#news.hidden = true; } }, "Not now"));
    this.#news.hidden = false;
  }
}

const key = (url) => `py-editor ${url}`;

async function load(url) {
  const response = await fetch(url, { cache: "no-cache" });
  if (!response.ok) throw new Error(`${url}: the server says ${response.status} ${response.statusText}`);
  return await response.text();
}

/** What makes an editor: CodeMirror where the page has it. */
async function editors(path) {
  if (!path) return plain;
  try {
    const { edit } = await import(new URL(path, here).href);
    return (place, root, options) => edit(place, root, options);
  } catch {
    return plain;
  }
}

/** A text area with the interface of scripts/editor/codemirror.js. */
function plain(place, root, { text, label, changed, run }) {
  const area = make("textarea", {
    "aria-label": label, "aria-describedby": "keys", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
    input: () => changed(area.value),
    keydown: (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      run();
    },
  });
  area.value = text;
  place.append(area);
  return {
    get text() { return area.value; },
    set text(value) {
      area.value = value;
      changed(value);
    },
    focus: () => area.focus(),
    mark(line) {
      if (line === null) return;
      const lines = area.value.split("\n");
      if (line > lines.length) return;
      const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
      area.setSelectionRange(start, start + lines[line - 1].length);
      area.scrollTop = Math.max(0, (line - 4) / lines.length * area.scrollHeight);
    },
  };
}

define("py-editor", PyEditor);
