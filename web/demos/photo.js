// The page of the photo: photos to try, and the program that it was exported from, with a little colour.

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

const frame = document.querySelector("py-frame");
const input = document.querySelector("pf-image");
const looking = document.querySelector(".looking");

// A slow GPU takes its time: what stands there meanwhile is of the photo before. Nothing looks where the
// network could not be loaded.
let failed = false;
frame.addEventListener("error", () => { failed = !frame.spec; });
frame.addEventListener("ready", () => { failed = false; });
input.addEventListener("input", () => {
  const looks = Boolean(input.value) && !failed;
  frame.classList.toggle("looks", looks);
  looking.textContent = looks ? "Looking at the photo …" : "";
});
for (const end of ["prediction", "error"]) {
  frame.addEventListener(end, () => {
    frame.classList.remove("looks");
    looking.textContent = "";
  });
}

for (const button of document.querySelectorAll(".photos button")) {
  button.addEventListener("click", async () => {
    const { src } = button.querySelector("img");
    const response = await fetch(src);
    await input.open(new File([await response.blob()], src.split("/").at(-1)));
  });
}

frame.addEventListener("error", ({ detail }) => {
  if (!detail?.message?.includes("program.json")) return;
  const hint = document.createElement("p");
  hint.className = "notice";
  hint.textContent = "The network is not here: its 9 MB come with scripts/get_photo, not with pyframe's repository.";
  document.querySelector("main").prepend(hint);
}, { once: true });

const pre = document.querySelector("pre[data-source]");
const response = await fetch(pre.dataset.source);
pre.replaceChildren(...(response.ok ? coloured(await response.text())
  : [`${pre.dataset.source}: the server says ${response.status} ${response.statusText}`]));
