// The page: shows what the worker says, and asks it for what the visitor wants.
// ?epochs=1&limit=1024&device=gpu|cpu in the address make a run short, or choose where it runs.

const $ = (id) => document.getElementById(id);
const query = new URLSearchParams(location.search);
const percent = (x) => `${(100 * x).toFixed(1)} %`;
const whole = new Intl.NumberFormat("en");

// --- the worker ---------------------------------------------------------------------------------

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
let asked = 0;

/** Has the worker do something; the promise gives its answer. */
function ask(call, args = {}) {
  const id = ++asked;
  worker.postMessage({ id, call, args });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

worker.onmessage = ({ data }) => {
  if (data.event) return events[data.event](data);
  const { resolve, reject } = waiting.get(data.id);
  waiting.delete(data.id);
  if ("error" in data) reject(new Error(data.error));
  else resolve(data.result);
};
worker.onerror = (event) => fail("The page's worker stopped", new Error(event.message));

const events = {
  status: ({ text, fraction }) => say(text, fraction),
  step: showStep,
  epoch: showEpoch,
  samples: ({ guesses }) => {
    showGuesses(guesses);
    predict(); // the drawing, too, is seen with other eyes now
  },
};

// --- what is going on ---------------------------------------------------------------------------

let training = false;
let trained = false; // whether the network has learnt anything yet

function say(text, fraction = null) {
  $("status").className = "";
  $("status").textContent = text;
  $("progress").hidden = fraction === null;
  if (fraction !== null) $("progress").value = fraction;
}

/** Shows what is wrong, without Python's traceback; the whole goes to the console. */
function fail(what, error) {
  console.error(error);
  const lines = error.message.trim().split("\n");
  const from = lines.findLastIndex((line) => /^[\w.]+: /.test(line)); // "RuntimeError: ..."
  say(`${what}: ${lines.slice(Math.max(from, 0)).join("\n")}`);
  $("status").className = "error";
}

function notice(text, kind = "") {
  const p = document.createElement("p");
  p.className = `notice ${kind}`;
  p.textContent = text;
  $("notices").append(p);
}

function setTraining(on) {
  training = on;
  $("status").setAttribute("aria-live", on ? "off" : "polite"); // a screen reader can't read each step
  $("train").textContent = on ? "Stop" : "Train";
  for (const id of ["load", "reset", "save", "devices"]) $(id).disabled = on;
  $("reset").disabled = on || !trained;
}

const device = () => document.querySelector("input[name=device]:checked").value;

// --- training -----------------------------------------------------------------------------------

$("train").onclick = async () => {
  if (training) {
    say("Stopping after this step");
    return ask("stop");
  }
  setTraining(true);
  run.before = run.points.at(-1)?.step ?? 0;
  say("Preparing the first step", 0);
  try {
    const { seconds, steps, stopped, accuracy } = await ask("train", {
      device: device(),
      epochs: Number(query.get("epochs")) || null,
      limit: Number(query.get("limit")) || null,
    });
    const after = `after ${whole.format(steps)} steps in ${seconds.toFixed(1)} s`;
    $("accuracy").textContent = percent(accuracy);
    say(stopped ? `Stopped ${after}. Train goes on from here.`
      : `Done ${after}: the network reads ${percent(accuracy)} of the digits it has never seen.`);
  } catch (error) {
    fail("Training stopped", error);
  }
  setTraining(false);
};

$("load").onclick = () => change("Loading the saved weights", "load", { url: config.weights },
  "The network has the saved weights now: draw a digit, or train it further.");
$("reset").onclick = () => change("Starting over", "reset", {}, "A new network, which knows nothing yet.");
for (const input of document.querySelectorAll("input[name=device]")) {
  input.onchange = () => change("Moving the network", "move", {}, "The network has moved.");
}

/** Something that gives another network, or the same one elsewhere. */
async function change(doing, call, args, done) {
  setTraining(true);
  $("train").disabled = true;
  say(doing, 0);
  try {
    if (args.url) args.url = new URL(args.url, document.baseURI).href;
    const answer = await ask(call, { device: device(), ...args });
    if (call === "reset") clearRun();
    trained = answer.trained;
    $("device-name").textContent = answer.device_name;
    $("accuracy").textContent = answer.accuracy === null ? "–" : percent(answer.accuracy);
    say(done);
  } catch (error) {
    fail(doing, error);
  }
  $("train").disabled = !config.data;
  setTraining(false);
}

$("save").onclick = async () => {
  try {
    const url = URL.createObjectURL(new Blob([await ask("save")]));
    const link = Object.assign(document.createElement("a"), { href: url, download: "digits.safetensors" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    say("Saved digits.safetensors: pyframe, PyTorch and others read it.");
  } catch (error) {
    fail("Saving", error);
  }
};

// --- the loss curve and the table ---------------------------------------------------------------

const SMOOTH = 0.7; // how much of the average so far each loss keeps
const run = {};

function clearRun() {
  // `points` are {step, loss, smooth}; training that goes on counts its steps from `before`.
  Object.assign(run, { points: [], average: 0, planned: 0, before: 0, epochs: [] });
  for (const id of ["step", "loss", "speed", "accuracy"]) $(id).textContent = "–";
  $("epochs").tBodies[0].innerHTML = '<tr class="empty"><td colspan="4">No epoch yet</td></tr>';
  requestAnimationFrame(drawChart);
}

function showStep({ loss, step, steps, epoch, epochs, speed, device_name }) {
  trained = true;
  run.average = SMOOTH * run.average + (1 - SMOOTH) * loss;
  const smooth = run.average / (1 - SMOOTH ** (run.points.length + 1));
  run.points.push({ step: run.before + step, loss, smooth });
  run.planned = run.before + steps;
  $("step").textContent = whole.format(run.before + step);
  $("loss").textContent = smooth.toFixed(3);
  $("speed").textContent = `${speed.toFixed(1)} steps/s`;
  $("device-name").textContent = device_name;
  say(`Training: epoch ${epoch} of ${epochs}, step ${step} of ${steps}`, step / steps);
  if (!drawing.frame) drawing.frame = requestAnimationFrame(drawChart);
}

function showEpoch({ loss, accuracy, test_accuracy }) {
  run.epochs.push(run.points.at(-1).step);
  $("accuracy").textContent = percent(test_accuracy);
  const body = $("epochs").tBodies[0];
  body.querySelector(".empty")?.remove();
  const row = body.insertRow();
  for (const text of [run.epochs.length, loss.toFixed(3), percent(accuracy), percent(test_accuracy)]) {
    row.insertCell().textContent = text;
  }
}

const drawing = { frame: 0 };

function drawChart() {
  drawing.frame = 0;
  const { points, epochs } = run;
  const { width, height } = $("chart").getBoundingClientRect();
  const [left, right, top, bottom] = [38, 10, 8, 24];
  const xEnd = run.planned || 100;
  const yEnd = (points.reduce((most, { loss }) => Math.max(most, loss), 0) || 2.4) * 1.05;
  const x = (step) => left + (width - left - right) * step / xEnd;
  const y = (loss) => height - bottom - (height - top - bottom) * loss / yEnd;
  const line = (name, x1, y1, x2, y2) => `<line class="${name}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
  const parts = [];
  for (const tick of ticks(yEnd, 4)) {
    parts.push(line("grid", left, y(tick), width - right, y(tick)),
      `<text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${+tick.toPrecision(3)}</text>`);
  }
  for (const tick of ticks(xEnd, width < 420 ? 3 : 6)) {
    const anchor = x(tick) > width - 30 ? "end" : "middle";
    parts.push(`<text x="${x(tick)}" y="${height - 6}" text-anchor="${anchor}">${tick || "step 0"}</text>`);
  }
  for (const step of epochs) parts.push(line("epoch", x(step), top, x(step), height - bottom));
  const stride = Math.ceil(points.length / 1500); // more points than pixels help nobody
  const shown = points.filter((_, i) => i % stride === 0 || i === points.length - 1);
  for (const [name, key] of [["raw", "loss"], ["smooth", "smooth"]]) {
    const path = shown.map((point) => `${x(point.step).toFixed(1)},${y(point[key]).toFixed(1)}`);
    parts.push(`<polyline class="${name}" points="${path.join(" ")}"/>`);
  }
  $("chart").innerHTML = parts.join("");
  $("chart").setAttribute("aria-label", points.length
    ? `Loss curve: from ${points[0].smooth.toFixed(2)} to ${points.at(-1).smooth.toFixed(2)} ` +
      `in ${points.at(-1).step} steps`
    : "Loss curve: no steps yet");
}

/** Round numbers from 0 to `end`, about `count` of them. */
function ticks(end, count) {
  const power = 10 ** Math.floor(Math.log10(end / count));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= end / count);
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}

clearRun();
new ResizeObserver(drawChart).observe($("chart"));

// --- the drawing pad ----------------------------------------------------------------------------

const pad = $("pad").getContext("2d", { willReadFrequently: true });
const SIZE = $("pad").width;
const pen = { x: SIZE / 2, y: SIZE / 4, down: false, inked: false };
Object.assign(pad, { lineWidth: 22, lineCap: "round", lineJoin: "round", strokeStyle: "#1c2130" });

function strokeTo(x, y) {
  if (pen.down) {
    pad.beginPath();
    pad.moveTo(pen.x, pen.y);
    pad.lineTo(x, y);
    pad.stroke();
    pen.inked = true;
    $("pad-hint").hidden = true;
    predict();
  }
  Object.assign(pen, { x, y });
}

const at = (event) => [event.offsetX * SIZE / $("pad").clientWidth, event.offsetY * SIZE / $("pad").clientHeight];
$("pad").onpointerdown = (event) => {
  $("pad").setPointerCapture(event.pointerId);
  [pen.x, pen.y] = at(event);
  pen.down = true;
  strokeTo(pen.x, pen.y);
};
$("pad").onpointermove = (event) => {
  if (event.buttons) for (const each of event.getCoalescedEvents?.() ?? [event]) strokeTo(...at(each));
};
$("pad").onpointerup = $("pad").onpointercancel = () => { pen.down = false; };

$("pad").onkeydown = (event) => {
  const move = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[event.key];
  if (event.key === " ") {
    pen.down = !pen.down;
    strokeTo(pen.x, pen.y);
    $("answer").textContent = pen.down ? "Pen down: the arrow keys draw." : "Pen up: the arrow keys move.";
  } else if (move) {
    const inside = (value) => Math.min(Math.max(value, 11), SIZE - 11);
    strokeTo(inside(pen.x + move[0]), inside(pen.y + move[1]));
  } else return;
  event.preventDefault();
};

$("clear").onclick = () => {
  clearPad();
  showBars(Array(10).fill(0));
  $("answer").textContent = "Draw something, and the network says what it sees.";
};

function clearPad() {
  pad.clearRect(0, 0, SIZE, SIZE);
  Object.assign(pen, { x: SIZE / 2, y: SIZE / 4, down: false, inked: false });
  $("pad-hint").hidden = false;
}

/**
 * The drawing as MNIST's digits are made: scaled to a box of 20 by 20, in a field of 28 by 28 with
 * the ink's centre of mass in the middle. Null when the pad is empty.
 */
function digit() {
  const { data } = pad.getImageData(0, 0, SIZE, SIZE);
  let [sum, sumX, sumY, x0, x1, y0, y1] = [0, 0, 0, SIZE, 0, SIZE, 0];
  const points = [];
  for (let i = 0; i < SIZE * SIZE; i++) {
    const ink = data[4 * i + 3];
    if (!ink) continue;
    const [x, y] = [i % SIZE, Math.floor(i / SIZE)];
    points.push([x, y, ink]);
    [sum, sumX, sumY] = [sum + ink, sumX + x * ink, sumY + y * ink];
    [x0, x1, y0, y1] = [Math.min(x0, x), Math.max(x1, x), Math.min(y0, y), Math.max(y1, y)];
  }
  if (!sum) return null;
  const scale = Math.min(20 / (Math.max(x1 - x0, y1 - y0) + 1), 1);
  const field = new Float32Array(28 * 28);
  for (const [x, y, ink] of points) {
    const column = Math.floor(14 + (x - sumX / sum) * scale);
    const row = Math.floor(14 + (y - sumY / sum) * scale);
    if (column >= 0 && column < 28 && row >= 0 && row < 28) field[28 * row + column] += ink * scale * scale;
  }
  return Uint8Array.from(field, (ink) => Math.min(Math.round(ink), 255));
}

const asking = { now: false, again: false };

/** Asks what the network sees; while an answer is on its way, once more when it is there. */
async function predict() {
  if (asking.now || !ready) {
    asking.again = true;
    return;
  }
  asking.again = false;
  const pixels = pen.inked ? digit() : null;
  if (!pixels) return;
  asking.now = true;
  try {
    showBars(await ask("predict", { pixels }));
  } catch (error) {
    fail("Reading the drawing", error);
  }
  asking.now = false;
  if (asking.again) predict();
}

$("bars").innerHTML = Array.from({ length: 10 }, (_, i) => `<li><span>${i}</span>
  <span class="track"><span class="fill"></span></span><span class="percent">–</span></li>`).join("");

function showBars(probabilities) {
  const most = Math.max(...probabilities);
  [...$("bars").children].forEach((bar, i) => {
    const p = probabilities[i];
    bar.className = most && p === most ? "best" : "";
    bar.querySelector(".fill").style.width = `${100 * p}%`;
    bar.querySelector(".percent").textContent = most ? `${Math.round(100 * p)} %` : "–";
  });
  if (!most || !pen.inked) return;
  const best = probabilities.indexOf(most);
  $("answer").textContent = !trained ? `It guesses ${best}, but it has not learnt anything yet.`
    : `It sees ${best === 8 ? "an" : "a"} ${best}${most > 0.9 ? "." : most > 0.6 ? ", probably." : ", but is not sure."}`;
}

// --- digits that the network has never seen -----------------------------------------------------

function showSamples(samples) {
  for (const { pixels, label } of samples) {
    const button = document.createElement("button");
    const canvas = Object.assign(document.createElement("canvas"), { width: 28, height: 28 });
    const image = new ImageData(28, 28);
    pixels.forEach((ink, i) => image.data.set([ink, ink, ink, 255], 4 * i));
    canvas.getContext("2d").putImageData(image, 0, 0);
    button.append(canvas, document.createElement("span"));
    button.dataset.label = label;
    button.setAttribute("aria-label", `A handwritten ${label}`);
    button.onclick = () => copyToPad(pixels);
    $("samples").appendChild(document.createElement("li")).append(button);
  }
}

function showGuesses(guesses) {
  [...$("samples").querySelectorAll("button")].forEach((button, i) => {
    const { label } = button.dataset;
    const right = guesses[i] === Number(label);
    const span = button.querySelector("span");
    span.className = right ? "right" : "wrong";
    span.textContent = `${guesses[i]} ${right ? "✓" : "✗"}`;
    button.setAttribute("aria-label",
      `A handwritten ${label}: the network says ${guesses[i]}, ${right ? "right" : "wrong"}`);
  });
}

function copyToPad(pixels) {
  clearPad();
  const image = new ImageData(28, 28);
  pixels.forEach((ink, i) => image.data.set([28, 33, 48, ink], 4 * i));
  const small = new OffscreenCanvas(28, 28);
  small.getContext("2d").putImageData(image, 0, 0);
  pad.drawImage(small, 0, 0, SIZE, SIZE);
  pen.inked = true;
  $("pad-hint").hidden = true;
  predict();
}

// --- the source, with a little colour -----------------------------------------------------------

function showSource(text) {
  const token = /(#.*)|("""[\s\S]*?"""|f?"[^"\n]*")|\b(def|class|return|import|from|if|elif|else|for|in|with|as|not|and|or|is|await|async|lambda|None|True|False)\b|\b(\d[\d_.e-]*)/g;
  const escape = (part) => part.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  let [html, last] = ["", 0];
  for (const match of text.matchAll(token)) {
    const kind = ["c", "s", "k", "n"].find((_, i) => match[i + 1] !== undefined);
    html += `${escape(text.slice(last, match.index))}<span class="${kind}">${escape(match[0])}</span>`;
    last = match.index + match[0].length;
  }
  $("source").innerHTML = html + escape(text.slice(last));
}

// --- start --------------------------------------------------------------------------------------

let config;
let ready = false;

async function start() {
  say("Asking the server what is here", 0);
  config = await (await fetch("config.json")).json();
  config.missing.forEach((text) => notice(text));
  fetch(config.source).then(async (response) => showSource(await response.text()));
  const base = document.baseURI;
  const found = await ask("boot", { config, base, device: query.get("device") });
  if (!found.gpu) {
    notice("This browser offers no WebGPU, so NumPy does the arithmetic: the same result, more slowly. " +
      "Recent versions of Chrome, Edge, Safari and (on Windows) Firefox have WebGPU, if the system's graphics driver does.");
  } else if (found.software) {
    notice(`WebGPU runs on a software adapter here (${found.gpu}): NumPy is likely faster.`);
  }
  document.querySelector("input[value=gpu]").disabled = !found.gpu;
  document.querySelector(`input[value=${found.device}]`).checked = true;
  $("device-name").textContent = found.device_name;
  if (found.samples.length) showSamples(found.samples);
  else $("unseen").hidden = true;
  ready = true;
  await ask("look");
  $("load").hidden = !config.weights;
  $("train").disabled = !config.data;
  setTraining(false);
  say(config.data ? "Ready: the network knows nothing yet. Press Train."
    : "Ready, but there are no digits to learn from.");
  predict();
}

start().catch((error) => fail("The page could not start", error));
