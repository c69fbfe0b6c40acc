"""`pyframe convert`: weights from one format of files to another, and from one dtype to another."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyframe.cli.command import CommandError, add_command, option, size_text, switch
from pyframe.cli.summary import kind, reading
from pyframe.io.files import beginning, most_of

FORMATS = (".safetensors", ".pt", ".pth", ".npz")
# Where programs put the weights within what they save, in this order.
KEYS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module",
        "weights", "params")  # fmt: skip
DTYPES = ("float32", "float16", "bfloat16", "float64")


def add(commands: Any) -> None:
    """Declare the command."""
    add_command(
        commands, "convert", run,
        help="convert weights between .safetensors, .pt, .pth and .npz",
        description="Convert weights between the formats of safetensors, PyTorch and NumPy; the "
        "names say which. IN may be a set of .safetensors, by its index or its folder. Nothing in "
        "a file is run.\n\n"
        "Of a checkpoint that holds more than weights the state dict within it is taken, and said "
        "which. Tensors that share memory are written one by one where a format has no sharing. "
        "OUT is there whole or not at all.",
        examples={
            "pyframe convert model.pt model.safetensors": "from PyTorch's format",
            "pyframe convert model.pt small.pt --dtype float16": "half the bytes",
            "pyframe convert gpt2/ gpt2.npz": "a set of files, for NumPy",
            "pyframe convert big.pt big.safetensors --shard-size 2GB": "a set of files",
            "pyframe convert run.pt ema.pt --key ema.model": "what lies deeper in a checkpoint",
        },
        arguments={
            "source": option("what to read", metavar="IN"),
            "target": option("what to write", type=Path, metavar="OUT"),
            "--dtype": option("of tensors of floating point; others stay as they are (default: as "
                              "in IN)", choices=DTYPES),
            "--shard-size": option("as 500MB or 2GB: several .safetensors of at most that, and "
                                   "their index (default: one file)", metavar="SIZE"),
            "--key": option("where the weights lie in a checkpoint, with dots (default: found, and "
                            "said)"),
            "--force": switch("replace OUT (default: refuse where it exists)"),
        },
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Read, convert and write."""
    target: Path = args.target
    if target.suffix not in FORMATS:
        raise CommandError(f"{target}: expected a name that ends in {', '.join(FORMATS)}")
    if args.shard_size and target.suffix != ".safetensors":
        raise CommandError(f"--shard-size is for .safetensors, not for {target.name}")
    for path in (target, Path(f"{target}.index.json")):
        if path.exists() and not args.force:
            raise CommandError(f"{path} exists; --force replaces it")
    with reading(args.source):
        tensors, metadata = read(args.source, args.key)
    tensors = cast(tensors, args.dtype)
    try:
        write(tensors, target, metadata, args.shard_size)
    except (ValueError, TypeError) as error:  # what the format can't hold
        raise CommandError(f"{target}: {str(error).removeprefix('save: ')}") from error
    dtypes = ", ".join(dict.fromkeys(x.dtype.name for x in tensors.values()))
    print(
        f"wrote {target}: {len(tensors)} tensors, "
        f"{sum(x.numel() for x in tensors.values()):,} parameters, "
        f"{size_text(sum(x.nbytes for x in tensors.values()))} ({dtypes})"
    )
    return 0


def read(source: str, key: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The weights in a file by name, and its metadata."""
    import pyframe as pf
    from pyframe.io import safetensors

    mapped = beginning(source) != "pickle"
    loaded = pf.load(source, map_location="cpu", weights_only=True, mmap=mapped)
    metadata: dict[str, str] = {}
    if kind(source) == "safetensors":
        metadata = safetensors.load_metadata(source)
    elif kind(source) == "pt":
        metadata = {"format": "pt"}  # what readers of safetensors ask for, of files from PyTorch
    what = os.path.basename(os.path.normpath(source))
    if key is not None:
        for part in key.split("."):
            if not isinstance(loaded, Mapping) or part not in loaded:
                there = f"there are {names(loaded)}" if isinstance(loaded, Mapping) else "no dict"
                raise CommandError(f"{what} has no {part!r} (of --key {key}): {there}")
            loaded = loaded[part]
    elif not is_weights(loaded) and isinstance(loaded, Mapping):
        found = next((k for k in KEYS if is_weights(loaded.get(k))), None)
        if found is not None:
            rest = names({k: None for k in loaded if k != found})
            say(f"takes {found!r} of {what}" + (f", and leaves out {rest}" if rest else ""))
            loaded = loaded[found]
    if not is_weights(loaded):
        raise CommandError(f"{what}: {refusal(loaded, key or '')}")
    size = sum(x.nbytes for x in loaded.values())
    if kind(source) == "pt" and size > most_of(os.path.getsize(source)):
        raise CommandError(
            f"{what}: its tensors show elements of theirs over and over (a stride of 0), and would "
            f"be {size_text(size)} of their own"
        )
    return {name: x.detach() for name, x in loaded.items()}, metadata


def is_weights(obj: Any) -> bool:
    """Whether it is a state dict: tensors by name, at least one."""
    import pyframe as pf

    return isinstance(obj, Mapping) and bool(obj) and all(
        isinstance(k, str) and isinstance(v, pf.Tensor) for k, v in obj.items()
    )  # fmt: skip


def refusal(obj: Any, at: str) -> str:
    """Why something is no state dict, and where there are some within it."""
    import pyframe as pf

    expected = "expected tensors by name"
    if not isinstance(obj, Mapping) or not obj:
        return f"{expected}, got {'none' if isinstance(obj, Mapping) else type(obj).__name__}"
    key, value = next(
        (k, v) for k, v in obj.items() if not isinstance(k, str) or not isinstance(v, pf.Tensor)
    )
    there = ", ".join(within(obj, at))
    hint = f"; take --key with one of {there}" if there else ""
    return f"{expected}, got {type(value).__name__} at {key!r}{hint}"


def within(obj: Any, at: str = "") -> Iterator[str]:
    """The ways to the state dicts in a checkpoint, with dots."""
    for key, value in obj.items() if isinstance(obj, Mapping) else ():
        way = f"{at}.{key}" if at else str(key)
        if is_weights(value):
            yield way
        else:
            yield from within(value, way)


def names(obj: Mapping[Any, Any]) -> str:
    """The first of its keys."""
    shown = [str(key) for key in obj]
    return ", ".join(shown[:8]) + (f", … ({len(shown)})" if len(shown) > 8 else "")


def cast(tensors: dict[str, Any], dtype: str | None) -> dict[str, Any]:
    """The tensors of floating point in another dtype; says which values that can't hold."""
    import pyframe as pf

    if dtype is None:
        return tensors
    out = {}
    for name, x in tensors.items():
        out[name] = x
        if x.is_floating_point():
            out[name] = made = x.to(getattr(pf, dtype))
            lost = int((made.isinf() & x.isfinite()).sum().item())
            if lost:
                say(f"{name}: {lost} of {x.numel()} values are too large for {dtype}: now infinite")
    return out


def write(
    tensors: dict[str, Any], target: Path, metadata: dict[str, str], shard_size: str | None
) -> None:
    """Write them in the format that the name says."""
    import pyframe as pf
    from pyframe.io import safetensors

    if target.suffix == ".safetensors":
        safetensors.save_file(tensors, target, metadata or None, shard_size)
        return
    narrow = [name for name, x in tensors.items() if x.dtype is pf.bfloat16]
    if target.suffix == ".npz" and narrow:
        raise CommandError(f"{target}: NumPy has no bfloat16, as {narrow[0]} is: --dtype float32")
    left = {k: v for k, v in metadata.items() if (k, v) != ("format", "pt")}
    if left:
        say(f"{target.suffix} has no place for metadata: left out {names(left)}")
    pf.save(tensors, target)


def say(what: str) -> None:
    """Tell what was decided, beside the result."""
    print(f"pyframe convert: {what}", file=sys.stderr)
