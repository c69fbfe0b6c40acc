"""What `torchvision` has at its top level."""

from __future__ import annotations

__version__ = "0.28.0+pyframe"  # of the API


def set_image_backend(backend: str) -> None:
    """Accepted: images are read with Pillow."""


def get_image_backend() -> str:
    """'PIL'."""
    return "PIL"
