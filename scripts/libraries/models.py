"""Small models of a library, each run forward and backward: with PyTorch, which writes down what
came of it, or with pyframe in PyTorch's place, which is compared with that.

    python scripts/libraries/models.py LIBRARY                  (the names that there are)
    python scripts/libraries/models.py LIBRARY FOLDER NAME...   (with PyTorch)
    python -m pyframe.torch scripts/libraries/models.py LIBRARY FOLDER NAME...

A line of JSON tells how each model fared.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
SECONDS = 90  # for one model
LARGE = 30_000_000  # parameters
CLOSE = 2e-3  # of the largest element of a result, or of a gradient's norm

# What makes a configuration small, by patterns of names; the first that fits counts. A list keeps
# its length but where it has one entry for each layer.
SMALL = {
    r"qk_head_dim": 16,
    r"(num_|n_)?(kv|key_value|key)_?heads|linear_num_key_heads": 2,
    r".*num_attention_heads|.*attention_heads|(num_|n_|index_n_|mamba_n_|linear_num_value_)?heads?"
    r"|n_head": 4,
    r"(?!num_feat).*(num_hidden_layers|num_layers|_layers|n_layers?)|depth"
    r"|num_(?!feat).*_layers": 2,
    r"depths|stage_num_blocks|blocks_per_stage|stage_numb_of_layers": 1,
    r"head_dim|d_head|d_kv|.*_head_dim|dim_head|attention_head_size|mamba_d_head|rotary_dim": 8,
    r"(kv|q)_lora_rank": 16,
    r".*(intermediate_size|ffn_dim|ffn_hidden_size|mlp_dim|d_ff|d_inner|n_inner|linear_units)": 48,
    r"hidden_size|d_model|n_embd|dim|embed_dim|.*_hidden_size|word_embed_proj_dim|hidden_dim"
    r"|projection_dim|embedding_size|emb_dim|proj.*_dim|.*hidden_dim|classifier_proj_size": 32,
    r"vocab_size|.*_vocab_size": 120,
    r".*max_.*position_embeddings|n_positions|max_(source|target)_positions|context_length"
    r"|block_size|max_sequence_length|max_seq_len": 64,
    r"image_size|pretrain_image_size|input_size|max_image_size": 32,
    r"num_frames": 2,
    r"patch_size": 8,
    r"n_routed_experts|num_(local_)?experts|moe_num_experts": 4,
    r"num_experts_per_tok|top_k|n_group|topk_group|num_queries|num_query_tokens": 2,
    r"moe_layer_freq|first_k_dense_replace": 1,
    r"num_mel_bins": 16,
    r"mamba_chunk_size|chunk_size|sliding_window|local_attention|window_size": 8,
}
CORE = {k: v for k, v in SMALL.items() if "layers" in k or "depths" in k or "vocab" in k}


def smaller(config: Any, rules: dict[str, int]) -> None:
    """Make a configuration, and those within it, small."""
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict"):
            smaller(value, rules)
            continue
        rule = next((new for k, new in rules.items() if re.fullmatch(k, name)), None)
        numbers = isinstance(value, list | tuple) and all(type(x) is int for x in value)
        if rule is not None and type(value) is int and value > rule:
            setattr(config, name, rule)
        elif rule is not None and numbers:
            setattr(config, name, type(value)(min(x, rule) for x in value))
        elif name in ("layer_types", "mlp_layer_types", "no_rope_layers", "layers_block_type"):
            kinds = [*dict.fromkeys(value or ())]
            if "full_attention" in kinds[2:]:
                kinds[1] = "full_attention"
            setattr(config, name, (kinds * 2)[:2] if value else value)
        elif isinstance(value, dict) and "mrope_section" in value:
            value["mrope_section"] = [2, 1, 1]
        elif name in ("_out_features", "_out_indices") and hasattr(config, "num_hidden_layers"):
            setattr(config, name, None)  # the last one
        elif type(value) is int and name.endswith(("token_id", "token_index")):
            setattr(config, name, value % 100)


def transformers_names() -> list[str]:
    """The architectures that it has a model for."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return list(MODEL_MAPPING_NAMES)


def transformers_ways(name: str) -> Iterator[dict[str, Any]]:
    """Configurations to try, each as what `transformers_model` takes."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for rules in (SMALL, CORE):
        config = CONFIG_MAPPING[name]()
        smaller(config, rules)
        yield json.loads(config.to_json_string(use_diff=False))


def transformers_model(name: str, way: dict[str, Any]) -> tuple[Any, Any]:
    """A model by its configuration, and this. ValueError for one that is not small."""
    import torch
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name].from_dict(way)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModel.from_config(config).parameters())
    if size > LARGE:
        raise ValueError(f"{size:,} parameters are more than {LARGE:,}")
    return AutoModel.from_config(config), config


def transformers_inputs(model: Any, config: Any) -> Iterator[dict[str, Any]]:
    """Sets of arguments to try, as lists and shapes of what is drawn."""
    takes = inspect.signature(model.forward).parameters
    text = getattr(config, "text_config", None) or config
    vision = getattr(config, "vision_config", None) or config
    audio = getattr(config, "audio_config", None) or config
    size = getattr(vision, "image_size", 32)
    height, width = (
        (size if isinstance(size, list | tuple) else (size, size))[:2]
        if not isinstance(size, dict)
        else (32, 32)
    )
    channels = getattr(vision, "num_channels", 3)
    channels = channels if isinstance(channels, int) else 3
    words = {"input_ids": ("ints", min(getattr(text, "vocab_size", 99) or 99, 99), (2, 12))}
    if "decoder_input_ids" in takes:
        words["decoder_input_ids"] = ("ints", 90, (2, 7))
    if "bbox" in takes:
        words["bbox"] = ("ints", 30, (2, 12, 4))
    names = ("num_mel_bins", "input_feat_per_channel", "feature_size")
    bins = next((n for n in (getattr(audio, n, None) for n in names) if isinstance(n, int)), 16)
    frames = 2 * (getattr(audio, "max_source_positions", 0) or 32)
    decoder = {k: v for k, v in words.items() if k == "decoder_input_ids"}
    pictures = [
        ("floats", (2, channels, height, width)),
        ("floats", (2, getattr(vision, "num_frames", 2), channels, height, width)),
    ]
    if "input_ids" in takes:
        yield words
        yield {"input_ids": words["input_ids"]}
    for name in ("pixel_values", "pixel_values_videos"):
        if name in takes:
            for picture in pictures:
                yield {name: picture} | decoder
                if "input_ids" in takes:
                    yield {name: picture} | words
    if "input_features" in takes:
        yield {"input_features": ("floats", (2, bins, frames))} | decoder
        yield {"input_features": ("floats", (2, 40, bins))} | decoder
    if "input_values" in takes:
        for shape in ((2, 2000), (2, 1, 2000), (2, getattr(config, "max_length", 0) or 40, bins)):
            yield {"input_values": ("floats", shape)} | decoder


def drawn(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments as arrays, the same in each process."""
    import numpy as np

    rng = np.random.default_rng(0)
    make: dict[str, Callable[..., Any]] = {
        "ints": lambda high, shape: rng.integers(5, high, tuple(shape)),
        "floats": lambda shape: rng.standard_normal(tuple(shape)).astype(np.float32),
    }
    return {name: make[kind](*rest) for name, (kind, *rest) in given.items()}


def flat(out: Any) -> Iterator[Any]:
    """The float tensors of a result."""
    import torch

    if isinstance(out, torch.Tensor):
        if out.is_floating_point() and out.numel():
            yield out
    elif isinstance(out, dict):
        for x in out.values():
            yield from flat(x)
    elif isinstance(out, list | tuple):
        for x in out:
            yield from flat(x)


def results(model: Any, given: dict[str, Any]) -> tuple[list[Any], dict[str, float]]:
    """What comes out, and the norm of each gradient of a sum of all that, weighted."""
    import numpy as np
    import torch

    torch.manual_seed(0)  # some draw what they mask, or noise
    outs = list(flat(model(**{k: torch.from_numpy(v) for k, v in drawn(given).items()})))
    if not outs:
        raise ValueError("nothing comes out")
    total = sum(
        (y.float() * torch.from_numpy(np.cos(np.arange(y.numel(), dtype=np.float32)))
         .reshape(y.shape)).sum() for y in outs
    )  # fmt: skip
    if total.requires_grad:
        total.backward()
    norms = {n: float(p.grad.norm()) for n, p in model.named_parameters() if p.grad is not None}
    return [y.detach().float().numpy() for y in outs], norms


def values(model: Any) -> None:
    """Move all parameters a little, so that none is at a start that hides what it does."""
    import numpy as np
    import torch

    rng = np.random.default_rng(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point():
                noise = rng.standard_normal(tuple(p.shape)).astype(np.float32)
                p.add_(torch.from_numpy(noise).to(p.dtype), alpha=0.02)


def with_torch(library: str, name: str, file: Path) -> None:
    """Find a way in which PyTorch runs it; write down what came of it."""
    import numpy as np
    import torch

    here, why = globals(), ""
    for way in here[f"{library}_ways"](name):
        torch.manual_seed(0)
        try:
            model, config = here[f"{library}_model"](name, way)
        except Exception as error:
            why = why or f"{type(error).__name__}: {error}"
            continue
        values(model.eval())
        state = {k: v.numpy() for k, v in model.state_dict().items()}
        for given in here[f"{library}_inputs"](model, config):
            try:
                outs, norms = results(model, given)
            except Exception as error:
                why = why or f"{type(error).__name__}: {error}"
                continue
            if not all(np.isfinite(y).all() for y in outs) or not norms:
                continue
            told = json.dumps({"way": way, "given": given, "norms": norms, "outs": len(outs)})
            arrays = {f"out{i}": y for i, y in enumerate(outs)}
            arrays |= {f"state.{k}": v for k, v in state.items()}
            np.savez(file, told=np.array(told), **arrays)
            return
    raise RuntimeError(why)


def with_pyframe(library: str, name: str, file: Path) -> None:
    """The same, compared with what PyTorch has left; AssertionError where they differ."""
    import numpy as np
    import torch

    kept = np.load(file)
    told = json.loads(str(kept["told"]))
    model, _ = globals()[f"{library}_model"](name, told["way"])
    state = {k[6:]: torch.from_numpy(v) for k, v in kept.items() if k.startswith("state.")}
    model.eval().load_state_dict(state)
    outs, norms = results(model, told["given"])
    assert len(outs) == told["outs"], f"{len(outs)} results instead of {told['outs']}"
    for i, got in enumerate(outs):
        want = kept[f"out{i}"]
        assert got.shape == want.shape, f"result {i} is {got.shape} instead of {want.shape}"
        off = float(np.abs(got - want).max() / (np.abs(want).max() + 1e-6))
        assert off <= CLOSE, f"result {i} is off by {off:.1e}"
    assert norms.keys() == told["norms"].keys(), "other parameters have gradients"
    most = max(told["norms"].values())
    for k, want in told["norms"].items():
        off = abs(norms[k] - want) / (want + 1e-4 * most + 1e-9)
        assert off <= CLOSE, f"the gradient of {k} is off by {off:.1e}"


def main(library: str, folder: str = "", *names: str) -> None:
    import torch

    theirs = not torch.__version__.endswith("pyframe")
    if theirs:  # its compiled half may not fit
        sys.path.insert(1, str(Path(__file__).resolve().parents[2]))
        from tests.compared import import_torchvision

        import_torchvision()
    run = with_torch if theirs else with_pyframe
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError(f"{SECONDS} s")))
    if not folder:
        print(*globals()[f"{library}_names"]())
    for name in names:
        print(json.dumps({"name": name}), flush=True)
        signal.alarm(SECONDS)
        try:
            run(library, name, Path(folder, f"{name}.npz"))
            error = ""
        except Exception as e:
            error = " ".join(f"{type(e).__name__}: {e}".split())[:300]
        signal.alarm(0)
        print(json.dumps({"name": name, "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
