"""A language model takes on the style of a text, by LoRA: what it writes before and after.

    python examples/finetune.py HuggingFaceTB/SmolLM2-135M --text my_letters.txt

The model is a folder, or a name on Hugging Face's hub. Without one the program takes a tiny model
of its own, which first learns from plays; without a text it learns names. The tiny model writes
what looks like names from afar, and no more.
"""

import argparse
import gzip
from pathlib import Path

import pyframe as pf
from pyframe.text import CausalLM, Config, NextToken, Tokenizer, pack
from pyframe.web import Demo, Text

DATA = Path(__file__).parent / "data"
TINY = {
    "model_type": "llama", "vocab_size": 256, "hidden_size": 96, "intermediate_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 3, "max_position_embeddings": 512,
}  # fmt: skip


class Bytes(Tokenizer):  # a token is a byte
    def __init__(self): ...

    def encode(self, text):
        return [*text.encode()]

    def decode(self, ids, **_):
        return bytes(ids).decode(errors="replace")


def write(model, tokenizer, text="\n"):  # what may come next, in pieces
    ids = tokenizer.encode(text)
    return tokenizer.stream(model.net.stream(ids, 200, do_sample=True, temperature=0.7))


def read(net, tokenizer, text, args, lr):  # learn to go on as a text does
    batch = {n: x[: args.pieces] for n, x in pack([tokenizer.encode(text)], 128).items()}
    optimizer = pf.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=lr)
    model = pf.Model(net, NextToken(), optimizer)
    model.fit(batch, batch["labels"], args.epochs, batch_size=16, device=args.device)
    return model


def make_model():  # of the page
    net = pf.lora.apply(CausalLM(Config.from_dict(TINY)), targets="all-linear")
    return pf.Model(net, NextToken())


demo = Demo(
    make_model, Text(), Text(), predict=lambda model, text: write(model, Bytes(), text or "\n"),
    title="A model that took on a style", description="It goes on with your text.",
)  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", help="a folder or a name (default: a tiny one)")
    parser.add_argument("--text", default=DATA / "names.txt", type=Path, help="what to learn")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--pieces", type=int, help="of 128 tokens of a text (default: all)")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()
    if args.model:
        model = pf.Model(CausalLM.from_pretrained(args.model))
        tokenizer = model.net.tokenizer
    else:
        net, tokenizer = CausalLM(Config.from_dict(TINY)), Bytes()
        plays = gzip.decompress((DATA / "tinyshakespeare.txt.gz").read_bytes()).decode()
        model = read(net, tokenizer, plays, args, lr=3e-3)
    print(*write(model, tokenizer), sep="", end="\n---\n")
    pf.lora.apply(model.net, targets="all-linear")
    model = read(model.net, tokenizer, args.text.read_text("utf-8"), args, lr=1e-3)
    print(*write(model, tokenizer), sep="")
    pf.lora.save(model.net, "finetuned", base=args.model)
    model.save("finetuned.safetensors")  # pyframe serve finetune.py --weights finetuned.safetensors
