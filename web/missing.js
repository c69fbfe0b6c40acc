// Says in the page which file of pyframe's is not there, where so much is missing that <py-frame> can't say it itself.
//
//   <script type="module" src="missing.js"></script>

const BASE = new URL(".", import.meta.url).href;

/** Which file is not there: that of a name, or one that it imports; "" where all seem to be. */
export async function missing(name, seen = new Set()) {
  if (seen.has(name)) return "";
  seen.add(name);
  const response = await fetch(BASE + name).catch(() => null);
  if (!response) return `${name} can't be had`;
  if (!response.ok) return `for ${name} the server says ${response.status}`;
  const text = await response.text();
  if (text.trimStart().startsWith("<")) return `${name} is a web page there, no script`;
  for (const [, path] of text.matchAll(/^(?:im|ex)port\b[^;]*?"(\.[^"]+\.js)";/gm)) {
    const found = await missing(new URL(path, BASE + name).href.slice(BASE.length), seen);
    if (found) return found;
  }
  return "";
}

/** The message about a part that can't be had: that of a name, or what it needs. */
export async function lacking(name) {
  const why = await missing(name);
  return `A part of pyframe can't be had from ${BASE}${why ? ` (${why})` : ""}: is everything beside pyframe.js that ` +
    "belongs there?";
}

addEventListener("load", async () => {
  if (customElements.get("py-frame")) return;
  const text = await lacking("pyframe.js");
  for (const each of document.querySelectorAll("py-frame")) each.textContent = text;
});
