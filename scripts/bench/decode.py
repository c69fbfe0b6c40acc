"""Language models on the CPU beside transformers and llama.cpp: random weights, two threads.

    python scripts/bench/decode.py [--models gpt2,llama] [--rounds 3] [--only int8] [--llama PYTHON]

Each column is a process of its own, in turns; numbers are medians. llama.cpp is that of the package
llama-cpp-python, which `--llama` names a Python with.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
PACKED = bool(os.environ.get("LLAMA_PACKED"))  # weights for AMX, which crashes on some machines
PROMPT, NEW, PREFILLS = 16, 128, (128, 512)
MODELS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12,
        "n_positions": 1024,
    },
    "llama": {  # SmolLM2-135M
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "max_position_embeddings": 2048, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
        "rope_theta": 1e5,
    },
}  # fmt: skip
# what a column is called, its peer, and what that is given
PEERS = {
    "transformers": ("transformers", ""),
    "llama.cpp F32": ("llama", "F32"), "pyframe F32": ("pyframe", "F32"),
    "llama.cpp Q8_0": ("llama", "Q8_0"), "pyframe Q8_0": ("pyframe", "Q8_0"),
    "pyframe Q8_0, int8": ("pyframe", "Q8_0,int8"),
    "llama.cpp Q4_0": ("llama", "Q4_0"), "pyframe Q4_0": ("pyframe", "Q4_0"),
    "pyframe Q4_0, int8": ("pyframe", "Q4_0,int8"),
}  # fmt: skip

COUNT: list[Callable[[], float]] = []  # what says how much memory a token reads and writes
Read = Callable[[list[int]], Iterator[int]]  # reads a prompt and gives the tokens after it


def transformers(model: str, kind: str, folder: str) -> Read:
    """PyTorch, eager."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(THREADS)
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model(**MODELS[model])).eval()

    def read(ids: list[int]) -> Iterator[int]:
        cache, now = None, torch.tensor([ids])
        while True:
            with torch.inference_mode():
                out = net(now, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, now = out.past_key_values, out.logits[:, -1:].argmax(-1)
            yield int(now)

    return read


def llama(model: str, kind: str, folder: str) -> Read:
    """llama.cpp, without its Python classes."""
    import llama_cpp as c

    c.llama_backend_init()
    loaded = c.llama_model_default_params()
    loaded.use_extra_bufts = PACKED
    path = f"{folder}/{model}-{kind}.gguf".encode()
    net = c.llama_model_load_from_file(path, loaded)
    how = c.llama_context_default_params()
    how.n_ctx, how.n_batch, how.n_ubatch = 1024, 512, 512
    how.n_threads = how.n_threads_batch = THREADS
    how.type_k = how.type_v = 0  # float32, as the others have it
    context = c.llama_init_from_model(net, how)
    greedy = c.llama_sampler_init_greedy()

    def read(ids: list[int]) -> Iterator[int]:
        c.llama_memory_clear(c.llama_get_memory(context), True)
        while True:
            given = (c.llama_token * len(ids))(*ids)
            if c.llama_decode(context, c.llama_batch_get_one(given, len(ids))):
                raise RuntimeError("llama_decode")
            ids = [c.llama_sampler_sample(greedy, context, -1)]
            yield ids[0]

    return read


def pyframe(model: str, kind: str, folder: str) -> Read:
    """Ours."""
    import pyframe as pf

    kind, _, activations = kind.partition(",")
    net = pf.text.AutoModel.from_pretrained(f"{folder}/{model}-{kind}.gguf", packed=True)
    for layer in net.modules() if activations else ():
        layer.activations = activations

    def count() -> float:
        from pyframe.tools.cost import table

        (*_, writer) = net.__dict__["_writers"].values()
        return table(writer.write.programs[-1]).bytes_moved / 1e6

    COUNT.append(count)
    return lambda ids: (row[0] for row in net.stream([ids], NEW, eos_token_id=[]))


def written(net: Any, path: Path, kind: str, tokens: dict[str, Any] | None = None) -> None:
    """Write a CausalLM for llama.cpp, with a byte-level tokenizer: the `model` of its file."""
    import gguf

    from pyframe.text.gguf import _NAMES

    c = net.config
    file = gguf.GGUFWriter(path, c.model_type)
    file.add_context_length(c.max_position_embeddings)
    file.add_embedding_length(c.hidden_size)
    file.add_block_count(c.num_hidden_layers)
    file.add_feed_forward_length(c.intermediate_size)
    file.add_head_count(c.num_attention_heads)
    file.add_head_count_kv(c.num_key_value_heads)
    file.add_layer_norm_eps(c.norm_eps)
    file.add_layer_norm_rms_eps(c.norm_eps)
    file.add_vocab_size(c.vocab_size)
    file.add_tokenizer_model("gpt2" if tokens else "no_vocab")
    if tokens:
        file.add_tokenizer_pre("gpt-2")
        file.add_token_list(sorted(tokens["vocab"], key=tokens["vocab"].get))
        file.add_token_types([gguf.TokenType.NORMAL] * c.vocab_size)
        file.add_token_merges([" ".join(pair) for pair in tokens["merges"]])
    if not c.learned_positions:
        file.add_rope_freq_base(c.rope_theta)
    theirs = {mine: name for name, mine in _NAMES.items()}
    of = gguf.GGMLQuantizationType[kind]
    for name, p in net.named_parameters():
        found = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?(.+)\.(weight|bias)", name)
        part = f"{theirs[found[2]]}.{found[3]}"
        data, packed = p.detach().numpy(), p.ndim == 2 and "position" not in part
        if c.model_type == "llama" and part[:6] in ("attn_q", "attn_k"):
            # rotary's pairs lie side by side there
            heads = c.num_attention_heads if part[5] == "q" else c.num_key_value_heads
            data = data.reshape(heads, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        file.add_tensor(f"blk.{found[1]}.{part}" if found[1] else part,
                        gguf.quants.quantize(data, of) if packed else data,
                        raw_dtype=of if packed else None)  # fmt: skip
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def measured(peer: str, kind: str, model: str, folder: str) -> dict[str, float]:
    """One column: seconds to the first token, tokens a second, and the most memory."""
    read, found = globals()[peer](model, kind, folder), {}
    ids = [7 * i % 1000 + 1 for i in range(max(PREFILLS))]
    for n in PREFILLS:
        for _ in range(3):  # the first ones compile
            begin, cpu = time.perf_counter(), time.process_time()
            next(iter(read(ids[:n])))
            found[f"prefill {n}"] = n / (time.perf_counter() - begin)
            found[f"CPU ms of {n}"] = (time.process_time() - cpu) * 1e3
    for _ in range(2):
        begin, stream = time.perf_counter(), iter(read(ids[:PROMPT]))
        next(stream)
        first, cpu = time.perf_counter(), time.process_time()
        found["first token (ms)"] = (first - begin) * 1e3
        for _ in range(NEW - 1):
            next(stream)
        found["decode"] = (NEW - 1) / (time.perf_counter() - first)
        found["CPU ms a token"] = (time.process_time() - cpu) / (NEW - 1) * 1e3
    stream = None
    found["MB a token"] = COUNT[0]() if COUNT else float("nan")
    status = Path("/proc/self/status")  # what `resource` tells, a child has of its parent
    if status.is_file():
        found["MB"] = int(re.findall(r"VmHWM:\s+(\d+)", status.read_text("utf-8"))[0]) / 1e3
    return found


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="gpt2,llama")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--only", default="")
    parser.add_argument("--llama", default=sys.executable)
    parser.add_argument("--folder", default="")
    parser.add_argument("--peer", nargs=4)
    args = parser.parse_args()
    if not any(re.search(args.only, name) for name in PEERS):
        parser.error(f"--only {args.only} fits none of: {', '.join(PEERS)}")
    if args.peer:
        print(json.dumps(measured(*args.peer)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(args.folder or made)
        for model in args.models.split(","):
            table(model, folder, args)


def table(model: str, folder: Path, args: argparse.Namespace) -> None:
    """Measure a model's columns in turns, and print them."""
    for kind in ("F32", "Q8_0", "Q4_0"):
        if not (path := folder / f"{model}-{kind}.gguf").exists():
            import pyframe as pf

            pf.manual_seed(0)
            config = pf.text.Config.from_dict(MODELS[model])
            written(pf.text.CausalLM(config), path, kind)
    count = str(args.threads)
    env = {**os.environ, "OMP_NUM_THREADS": count, "PYFRAME_THREADS": count}
    rows: dict[str, list[dict[str, float]]] = {}
    why = {}
    for _ in range(args.rounds):
        for name, (peer, kind) in PEERS.items():
            if not re.search(args.only, name) or name in why:
                continue
            python = args.llama if peer == "llama" else sys.executable
            command = [python, __file__, "--peer", peer, kind, model, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, env=env)
            if done.returncode:
                why[name] = (done.stderr.strip().splitlines() or ["ended"])[-1][:60]
            else:
                rows.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    heads = list(next(iter(rows.values()))[0])
    print(f"\n| {model} | {' | '.join(heads)} |\n| --- |{' --- |' * len(heads)}")
    for name in PEERS:
        if name in rows:
            cells = [f"{statistics.median(r[h] for r in rows[name]):.1f}" for h in heads]
            print(f"| {name} | {' | '.join(cells)} |")
        elif name in why:
            print(f"| {name} | {why[name]} |")


if __name__ == "__main__":
    main()
