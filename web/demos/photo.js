// What the pages of demos share: the program's text beside the element, with a little colour.

const TOKEN = new RegExp([
  /(#.*)/, /("""[\s\S]*?"""|f?"[^"\n]*")/,
  /\b(def|class|return|import|from|if|elif|else|for|in|with|as|not|and|or|is|await|async|lambda|yield|None|True|False)\b/,
  /\b(\d[\d_.e-]*)/,
].map((part) => part.source).join("|"), "g");
const KINDS = ["c", "s", "k", "n"]; // comments, strings, keywords, numbers

/** The text of a Python program as nodes. */
function* coloured(text) {
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    yield text.slice(last, match.index);
    const span = document.createElement("span");
    span.className = KINDS.find((_, i) => match[i + 1] !== undefined);
    span.textContent = match[0];
    yield span;
    last = match.index + match[0].length;
  }
  yield text.slice(last);
}

for (const pre of document.querySelectorAll("pre[data-source]")) {
  try {
    const response = await fetch(new URL(pre.dataset.source, document.baseURI));
    if (!response.ok) throw new Error(`the server says ${response.status} ${response.statusText}`);
    pre.replaceChildren(...coloured(await response.text()));
  } catch (error) {
    pre.textContent = `${pre.dataset.source} can't be had: ${error.message}`;
  }
}
