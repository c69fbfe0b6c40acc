"""Extras: parts of pyframe that are installed on demand, and the command that installs each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

DISTRIBUTION = "pyframe-webgpu"  # as in pyproject.toml: what PyPI calls pyframe is another project
# Modules of distributions that lie beside it, and the extras that install them.
BESIDE = {
    "pyframe.lora": "text", "pyframe.onnx": "onnx", "pyframe.text": "text",
    "pyframe.torch": "torch", "pyframe.web.onnx_file": "onnx",
}  # fmt: skip


def is_pil(img: Any) -> bool:
    """Whether `img` is an image of Pillow, which is not imported for it."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(img, image.Image)


def install(extra: str) -> str:
    """The command that adds an extra, in quotes that Windows' cmd has too; a checkout is installed
    from where it lies."""
    if (Path(__file__).parents[1] / "shaders").is_dir():  # a checkout has them beside pyframe/
        return f'pip install "{DISTRIBUTION}[{extra}]"'
    if extra in BESIDE.values():
        return f"pip install -e . scripts/distributions/{extra}"
    return f'pip install -e ".[{extra}]"'


def check_installed(module: str) -> None:
    """ModuleNotFoundError where `module` is of an extra that is not installed, which it names."""
    if module in BESIDE and importlib.util.find_spec(module) is None:
        name = module.replace("pyframe", "pf", 1)
        raise ModuleNotFoundError(f"{name} is an extra: {install(BESIDE[module])}")
