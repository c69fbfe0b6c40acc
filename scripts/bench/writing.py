#!/usr/bin/env python3
"""A language model that writes in a page, beside transformers.js and wllama: random weights.

    python scripts/bench/writing.py [--models small,medium] [--device cpu] [--rounds 3]

On the CPU all have one thread. On a GPU wllama is left out; `--device software` is SwiftShader, for
which a model can be exported. All have the same weights in float32 and write the same tokens; the
table says how much of the text is the same, before two tokens that are about as likely. A browser
that knows nothing comes (cold), and again with what it has kept (warm): MB that the server sends,
seconds from asking for the page to the first token, and tokens a second after it. npm and pip fetch
the others into the folder once.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from decode import written
from page import CHROMIUM, FLAGS, ROOT, Static, running

PROMPT, NEW = "How the house is laid out, and how to add an op", 64
SIZES: dict[str, tuple[int, ...]] = {  # vocabulary, width, within, layers, heads, and of keys
    "small": (8192, 256, 688, 6, 8, 4),
    "medium": (16384, 384, 1024, 10, 6, 3),
}
NPM = ["@huggingface/transformers@4.3.2", "@wllama/wllama@3.13.0"]
PIP = ["onnxruntime-genai==0.18.0", "onnx-ir==0.2.3"]  # writes what transformers.js reads
FIRST = "<!doctype html><meta charset=utf-8><title>bench</title><script type=module>"
LAST = """
const begin = async () => {
  let text = "", first = 0, last = 0;
  await write((piece) => {
    text += piece;
    last = performance.now();
    first ||= last;
  });
  return { text, first: first / 1000, rate: (NEW - 1) / (last - first) * 1000 };
};
self.found = begin().catch((error) => ({ error: String(error.message ?? error) }));
</script>"""
PAGES = {
    "pyframe": """
import { open } from "/MODEL/EXPORT/player.js";
const engine = await open({ program: "/MODEL/EXPORT/", device: "DEVICE" }, () => {});
const write = async (on) => {
  for await (const piece of engine.generate(PROMPT, { maxNewTokens: NEW })) on(piece);
};""",
    "transformers.js": """
import * as t from "/node_modules/@huggingface/transformers/dist/transformers.min.js";
const remotePathTemplate = "{model}/";
Object.assign(t.env, { allowLocalModels: false, remoteHost: location.origin, remotePathTemplate });
t.env.backends.onnx.wasm.numThreads = 1;
t.env.backends.onnx.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
const write = async (on) => {
  const tokenizer = await t.AutoTokenizer.from_pretrained("MODEL/hub");
  const how = { dtype: "fp32", device: "DEVICE" === "gpu" ? "webgpu" : "wasm" };
  const model = await t.AutoModelForCausalLM.from_pretrained("MODEL/hub", how);
  const streamer = new t.TextStreamer(tokenizer,
    { skip_prompt: true, callback_function: on, token_callback_function: () => on("") });
  const input = tokenizer(PROMPT);
  await model.generate({ ...input, max_new_tokens: NEW, do_sample: false, streamer });
};""",
    "wllama": """
import { Wllama } from "/node_modules/@wllama/wllama/esm/index.min.js";
const write = async (on) => {
  const wllama = new Wllama({ default: "/node_modules/@wllama/wllama/esm/wasm/wllama.wasm" });
  await wllama.loadModelFromUrl(`${location.origin}/MODEL/model.gguf`,
    { n_threads: 1, n_ctx: 256, n_gpu_layers: 0, cache_type_k: "f32", cache_type_v: "f32" });
  await wllama.createCompletion({
    prompt: PROMPT, max_tokens: NEW, temperature: 0, top_k: 1, ignore_eos: true, stream: true,
    onData: (chunk) => on(chunk.choices[0]?.text ?? ""),
  });
};""",
}


def made(name: str, folder: Path) -> None:
    """Write a model for each."""
    import tokenizers

    import pyframe as pf

    vocabulary, width, within, layers, heads, keys = SIZES[name]
    names = ("*.md", "docs/*.md", "pyframe/**/*.py")
    files = [str(file) for pattern in names for file in sorted(ROOT.glob(pattern))]
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train(files, vocab_size=vocabulary, show_progress=False)
    hub = folder / "hub"
    hub.mkdir(parents=True)
    bpe.save(str(hub / "tokenizer.json"))
    tokens = json.loads((hub / "tokenizer.json").read_text("utf-8"))["model"]
    sizes = {
        "model_type": "llama", "vocab_size": len(tokens["vocab"]), "hidden_size": width,
        "intermediate_size": within, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": keys, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True, "rope_theta": 10000.0, "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu", "bos_token_id": 0, "eos_token_id": None, "torch_dtype": "float32",
    }  # fmt: skip
    pf.manual_seed(0)
    net = pf.text.CausalLM(pf.text.Config.from_dict(sizes)).eval()
    with pf.no_grad():
        for p in net.parameters():  # so that no two tokens are about as likely
            p.mul_(3 if p.ndim == 2 else 1)
        for text, n in tokens["vocab"].items():
            if not text.replace("Ġ", " ").isascii():  # a part of a letter: wllama ends there
                net.model.embed_tokens.weight[n] = 0
    net.save_pretrained(hub)
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 256}
    (hub / "tokenizer_config.json").write_text(json.dumps(kind), "utf-8")
    (hub / "generation_config.json").write_text("{}", "utf-8")
    tokenizer = pf.text.Tokenizer.from_pretrained(hub)
    for name, limits in {"pyframe": None, "software": pf.web.Limits(kind="software")}.items():
        pf.web.export(net, to=folder / name, length=256, tokenizer=tokenizer, limits=limits)
    written(net, folder / "model.gguf", "F32", tokens)
    onnx_of(hub, width // heads)


def onnx_of(hub: Path, width: int) -> None:
    """Have GenAI write model.onnx, in one file; heads are so wide."""
    import onnx

    packages = hub.parents[1] / "packages"
    code = (
        "import sys, runpy; sys.modules['torchvision'] = None; sys.argv[0] = 'builder'; "
        "runpy.run_module('onnxruntime_genai.models.builder', run_name='__main__')"
    )
    command = ["-m", hub, "-o", hub / "genai", "-p", "fp32", "-e", "cpu", "-c", hub / "none"]
    env = {**os.environ, "PYTHONPATH": f"{packages}:{ROOT}"}
    subprocess.run([sys.executable, "-c", code, *command], env=env, check=True)
    (hub / "onnx").mkdir()
    model = onnx.load(hub / "genai" / "model.onnx")
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "kv_cache_dim":  # of which transformers.js would make 0
                dim.dim_value = width
    onnx.save(model, hub / "onnx" / "model.onnx")


def fetched(folder: Path) -> None:
    """Have npm and pip fetch the others."""
    if not (folder / "node_modules").exists():
        command = ["npm", "install", "--prefix", folder, "--ignore-scripts", "--silent", *NPM]
        subprocess.run(command, check=True)
    if not (folder / "packages").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, folder / "packages", *PIP], check=True)


def visits(chromium: Any, url: str, sent: dict[str, bytearray]) -> list[dict[str, Any]]:
    """A cold and a warm visit of a browser with a profile on the disk."""
    found = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        context = chromium(profile)
        for _ in range(2):
            page = context.new_page()
            page.set_default_timeout(600_000)
            sent.clear()
            page.goto(url)
            page.wait_for_function("self.found")
            one = page.evaluate("found")
            one["MB"] = sum(map(len, sent.values())) / 1e6
            page.wait_for_timeout(1000)  # what it keeps is written
            page.close()
            found.append(one)
        context.close()
    return found


def agreed(a: str, b: str) -> int:
    """How many letters from the first on are the same."""
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def table(chromium: Any, name: str, folder: Path, device: str, rounds: int) -> None:
    """Measure in turns, and print."""
    Static.folder, sent = str(folder), {}
    found: dict[str, list[list[dict[str, Any]]]] = {}
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Static), sent) as url:
        values = {
            "MODEL": name, "PROMPT": json.dumps(PROMPT), "NEW": str(NEW),
            "DEVICE": "cpu" if device == "cpu" else "gpu",
            "EXPORT": "software" if device == "software" else "pyframe",
        }  # fmt: skip
        peers = [peer for peer in PAGES if device == "cpu" or peer != "wllama"]
        for peer in peers:
            script = PAGES[peer]
            text = re.sub(
                r"MODEL|PROMPT|NEW\b|DEVICE|EXPORT", lambda m: values[m[0]], script + LAST
            )
            (folder / f"{peer}.html").write_text(FIRST + text, "utf-8")
        for _ in range(rounds):
            for peer in peers:
                found.setdefault(peer, []).append(visits(chromium, f"{url}{peer}.html", sent))
    print(f"\n| {name} | visit | MB sent | first token, s | tokens a second | same text |")
    print("| --- | --- | --- | --- | --- | --- |")
    right = found["pyframe"][0][0].get("text")
    for peer, rows in found.items():
        for n, visit in enumerate(("cold", "warm")):
            each = [row[n] for row in rows]
            if why := next((one["error"] for one in each if "error" in one), None):
                print(f"| {peer} | {visit} | {why} |")
                continue
            mb, first, rate = (
                statistics.median(one[k] for one in each) for k in ("MB", "first", "rate")
            )
            whole = right.rstrip("\ufffd")
            same = min(agreed(one["text"], whole) for one in each) / len(whole)
            cells = [peer, visit, f"{mb:.1f}", f"{first:.2f}", f"{rate:.1f}", f"{same:.0%}"]
            print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(SIZES))
    parser.add_argument("--device", choices=["cpu", "gpu", "software"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "writing")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        sys.exit(f"writing.py: none of {', '.join(CHROMIUM)} is installed")
    args.folder.mkdir(parents=True, exist_ok=True)
    fetched(args.folder)
    for name in args.models.split(","):
        if not (args.folder / name).exists():
            made(name, args.folder / name)
    with sync_playwright() as playwright:
        flags = [*FLAGS, *["--use-webgpu-adapter=swiftshader"] * (args.device == "software")]
        launch = playwright.chromium.launch_persistent_context
        chromium = functools.partial(launch, executable_path=path, args=flags)
        for name in args.models.split(","):
            table(chromium, name, args.folder, args.device, args.rounds)


if __name__ == "__main__":
    main()
