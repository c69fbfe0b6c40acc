"""Published files of weights, fetched once and kept, under the names of torch.hub.

They lie where PyTorch keeps them, so that what either fetched is there for both.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pyframe.io import load as _load
from pyframe.io.download import download as _download

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.")  # of a file's name: how its SHA-256 begins
_chosen: list[str] = []


def get_dir() -> str:
    """The folder: that of `set_dir`, else `hub` in $TORCH_HOME, or in ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return _chosen[-1] if _chosen else os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep files in another folder from now on."""
    _chosen[:] = [os.path.expanduser(d)]


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch `dst` whole, with a SHA-256 that begins so, or not at all: RuntimeError."""
    _download([url], dst, None, sha256=hash_prefix, progress=progress)


def load_state_dict_from_url(
    url: str, model_dir: str | os.PathLike[str] | None = None, map_location: Any = None,
    progress: bool = True, check_hash: bool = False, file_name: str | None = None,
    weights_only: bool = True,
) -> Any:  # fmt: skip
    """What is in the file at `url`, which is fetched into `checkpoints` of `get_dir()` if it is not
    there.

    `check_hash` compares its SHA-256 with the digits in its name (`resnet18-f37072fd.pth`).
    """
    path = fetch(url, model_dir, progress, check_hash, file_name)
    return _load(path, map_location, weights_only=weights_only)


def digest_in(name: str) -> str | None:
    """How the SHA-256 of a file of this name begins, if the name says so."""
    found = _DIGEST.search(name)
    return found[1] if found else None


def fetch(
    url: str, folder: str | os.PathLike[str] | None = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, sha256: str | None = None,
) -> Path:  # fmt: skip
    """The file of `url` in a folder, fetched if it is not there; `sha256` is checked of both."""
    name = file_name or url.partition("?")[0].rpartition("/")[2]
    path = Path(folder or Path(get_dir()) / "checkpoints") / name
    if path.is_file():
        if sha256 is None:
            return path
        import hashlib

        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest().startswith(sha256):
                return path
    if check_hash and sha256 is None:
        sha256 = digest_in(name)
    download_url_to_file(url, path, sha256, progress)
    return path
