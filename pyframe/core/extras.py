"""How the parts that are installed on demand come to this pyframe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DISTRIBUTION = "pyframe-webgpu"  # as in pyproject.toml: what PyPI calls pyframe is another project


def is_pil(img: Any) -> bool:
    """Whether `img` is an image of Pillow, which is not imported for it."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(img, image.Image)


def install(extra: str) -> str:
    """The command that adds an extra; a checkout is installed from where it lies."""
    wheel = (Path(__file__).parents[1] / "shaders").is_dir()  # a checkout has them beside pyframe/
    return f"pip install '{DISTRIBUTION}[{extra}]'" if wheel else f"pip install -e '.[{extra}]'"
