// <pf-chat placeholder="Say something">: a conversation, whose answers grow as they are written.

import { act, define, make, sheet } from "../parts.js";
import { Text } from "./text.js";

const css = sheet(`
[part=log] {
  display: flex; flex-direction: column; gap: .6em; max-height: min(34em, 70vh); margin-bottom: .75em; padding: .75em;
  overflow: auto; border: 1px solid var(--_border); border-radius: var(--_radius);
}
[part=log]:empty { display: none; }
.user, .assistant {
  max-width: min(85%, 70ch); padding: .5em .8em; border-radius: calc(var(--_radius) * 1.2); line-height: 1.5;
  overflow-wrap: anywhere; white-space: pre-wrap;
}
.user { align-self: end; background: var(--_tint); border: 1px solid var(--_faint); border-end-end-radius: 3px; }
.assistant { align-self: start; background: var(--_field); border: 1px solid transparent; border-end-start-radius: 3px; }
.assistant:empty::before { content: "\\200b"; }
textarea { min-height: 3.2em; }
.tools > [part=clear] { margin-inline-start: auto; }
`);
const WHO = { user: "You: ", assistant: "Answer: " };

/**
 * What the visitor says is told by "submit", with Enter or the button; its value is what he writes now. `begin(text)`
 * puts a text into the conversation, and `show(text, done)` what is answered so far; `withdraw()` takes both out
 * again, as if nothing had been said. "clear" says that the visitor wants another conversation.
 */
export class Chat extends Text {
  static fields = { ...Text.fields, button: "Send" };
  static sheets = [...Text.sheets, css];

  static check({ mode, ...rest }) {
    return mode === "input" ? Text.check({ mode, ...rest }) : `expected no mode, got "${mode}"`;
  }

  #messages = []; // { role, content }
  #done = true;
  #log = make("div", { part: "log", role: "log", "aria-live": "off", "aria-label": "Conversation", tabindex: 0 });
  #clear = act("clear", "Clear", () => {
    this.clear();
    this.tell("clear");
  });

  constructor() {
    super();
    this.shadowRoot.prepend(this.#log);
    this.shadowRoot.querySelector("[part=submit]").before(this.#clear);
  }

  /** All that was said: { role: "user" or "assistant", content }, the oldest first. */
  get messages() { return this.#messages.map((said) => ({ ...said })); }

  set messages(messages) {
    this.#messages = [...messages ?? []].map(({ role, content }) => ({ role, content: String(content) }));
    this.#done = true;
    this.#log.replaceChildren(...this.#messages.map(bubble));
    this.#clear.disabled = !this.#messages.length;
    this.say(null);
    this.#below();
  }

  begin(text) {
    this.messages = [...this.#messages, { role: "user", content: text }, { role: "assistant", content: "" }];
    this.value = "";
    this.show("", false);
  }

  withdraw() {
    const [asked] = this.#messages.slice(-2);
    this.messages = this.#messages.slice(0, -2);
    if (asked && !this.value) this.value = asked.content;
  }

  show(text, done = true) {
    const last = this.#messages.at(-1);
    if (last?.role !== "assistant") return;
    [last.content, this.#done] = [String(text), done];
    this.#log.setAttribute("aria-busy", !done);
    this.read(last.content, done, WHO.assistant);
    this.redraw();
  }

  clear() {
    this.messages = [];
    super.clear();
  }

  submit() {
    if (this.value.trim() && !this.busy) super.submit();
  }

  draw() {
    const [log, last] = [this.#log, this.#messages.at(-1)];
    if (last?.role !== "assistant") return;
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    const { lastChild: shown } = log;
    shown.lastChild.data = last.content;
    shown.classList.toggle("writing", !this.#done);
    if (below < 8) this.#below(); // who reads the end goes on reading it
  }

  #below() { this.#log.scrollTop = this.#log.scrollHeight; }
}

/** A message as the visitor sees it, or hears it. */
const bubble = ({ role, content }) => (
  make("p", { class: role, part: role }, make("span", { class: "said" }, WHO[role]), document.createTextNode(content)));

define("pf-chat", Chat);
