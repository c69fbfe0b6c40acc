"""Published files of weights, fetched once and kept, under the names of torch.hub.

They lie where PyTorch keeps them, and models of Hugging Face's hub where that keeps them, so that
what either fetched is there for both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyframe.io import load as _load
from pyframe.io.download import (
    answer_to as _answer_to,
    download as _download,
    resumed as _resumed,
)

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

# of a model's folder: what says what it is, and its weights
_PARTS = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja", "modules.json", "1_Pooling/config.json",
    "sentence_bert_config.json",
)  # fmt: skip
_WEIGHTS = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.")  # of a file's name: how its SHA-256 begins
_chosen: list[str] = []


def get_dir() -> str:
    """The folder: that of `set_dir`, else `hub` in $TORCH_HOME, or in ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return _chosen[-1] if _chosen else os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep files in another folder from now on.

    Args:
        d: The folder.
    """
    _chosen[:] = [os.path.expanduser(d)]


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch `dst` whole, with a SHA-256 that begins so, or not at all: RuntimeError.

    Args:
        url: Where the file is.
        hash_prefix: The first digits of its SHA-256; None for any.
        progress: Whether to show a progress bar.
    """
    _download([url], dst, None, sha256=hash_prefix, progress=progress)


def load_state_dict_from_url(
    url: str, model_dir: str | os.PathLike[str] | None = None, map_location: Any = None,
    progress: bool = True, check_hash: bool = False, file_name: str | None = None,
    weights_only: bool = True,
) -> Any:  # fmt: skip
    """What is in the file at `url`, which is fetched into `checkpoints` of `get_dir()` if it is not
    there.

    `check_hash` compares its SHA-256 with the digits in its name (`resnet18-f37072fd.pth`).

    Args:
        model_dir: Another folder for the file.
        map_location: The device for the tensors; as `pf.load` takes it.
        progress: Whether to show a progress bar.
        file_name: Another name for the file.
        weights_only: As `pf.load` takes it.
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


def snapshot(
    name: str, files: Sequence[str], revision: str = "main", progress: bool = True
) -> Path:
    """The folder of a model of Hugging Face's hub, with those of its files that match `files`.

    They lie in the hub's own cache ($HF_HUB_CACHE, else `hub` in $HF_HOME). The package
    huggingface_hub fetches them where it is installed; else HF_ENDPOINT names another hub, HF_TOKEN
    who asks. FileNotFoundError for a model that is not there; without a network what was fetched
    before is found.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    except ImportError:
        return _snapshot(name, files, revision, progress)
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*files]))
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise _not_there(name, revision) from None


def _not_there(name: str, revision: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"hub: there is no model {name!r} ({revision}) for everyone; a private one wants a token "
        "in HF_TOKEN"
    )


def _snapshot(name: str, files: Sequence[str], revision: str, progress: bool) -> Path:
    import fnmatch
    import json
    from urllib.error import HTTPError
    from urllib.parse import quote
    from urllib.request import Request

    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    cache = os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))
    folder = Path(os.path.expanduser(cache)) / f"models--{name.replace('/', '--')}"
    site = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    token = os.environ.get("HF_TOKEN")
    mark, ref = quote(revision, ""), folder / "refs" / revision

    def asked(url: str) -> Request:
        request = Request(url)
        if token:  # for the hub alone: files lie elsewhere
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        return request

    try:
        url = f"{site}/api/models/{name}/revision/{mark}?blobs=true"
        with _answer_to(asked(url)) as answer:
            said = json.load(answer)
    except HTTPError as error:
        if error.code in (401, 403, 404):
            raise _not_there(name, revision) from None
        raise
    except OSError as error:
        commit = ref.read_text("utf-8").strip() if ref.is_file() else revision
        if (folder / "snapshots" / commit).is_dir():
            return folder / "snapshots" / commit
        raise OSError(
            f"hub: {site} can't be reached, and {name} is not in {cache}: {error}"
        ) from None

    commit = said["sha"]
    there = folder / "snapshots" / commit
    for entry in said["siblings"]:
        path = entry["rfilename"]
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in files):
            continue
        large = entry.get("lfs")
        digest, size = (large["sha256"], large["size"]) if large else (
            entry["blobId"], entry["size"])  # fmt: skip
        if not re.fullmatch(r"[0-9a-f]{40}", commit) or not re.fullmatch(
            r"[0-9a-f]{40,64}", digest
        ):
            raise ValueError(f"hub: {site} names {name}'s files by no digests")
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", path) or ".." in path.split("/"):
            raise ValueError(f"hub: {name} has a file {path!r}, which lies in no folder of its own")
        place, blob = there / path, folder / "blobs" / digest
        if place.exists():
            continue
        if not blob.is_file():
            _resumed(asked(f"{site}/{name}/resolve/{commit}/{quote(path)}"), blob, size, digest,
                     progress)  # fmt: skip
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # a link to a blob that went
        try:
            place.symlink_to(os.path.relpath(blob, place.parent))
        except OSError:  # Windows, for users without the right to
            os.replace(blob, place)
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(commit, "utf-8")
    return there


def model(source: str | os.PathLike[str], revision: str = "main", progress: bool = True) -> Path:
    """A model's folder or file, of what names it: itself, a name on Hugging Face's hub, or a URL.

    A name is that of a model ("gpt2", "org/name"), or of a GGUF file of one ("org/name/file.gguf");
    a URL is that of such a file, of a model's page, or of a folder with the same files. What a URL
    names is fetched once and kept within `get_dir()`; `revision` is a branch, tag or commit of the
    hub. FileNotFoundError for what is not there.
    """
    text, path = os.fspath(source), Path(source)
    if path.exists():
        return path
    page = re.fullmatch(r"https?://huggingface\.co/([\w.-]+/[\w.-]+)(?:/tree/([^?#]+))?/?", text)
    if page:
        text, revision = page[1], page[2] or revision
    elif "://" in text:
        return _at(text.rstrip("/"), progress)
    named = re.fullmatch(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?:/([\w./-]+\.gguf))?", text)
    if named is None:
        raise FileNotFoundError(f"hub: {text!r} is no folder, no URL, and no name of the hub's")
    if named[2]:
        return snapshot(named[1], [named[2]], revision, progress) / named[2]
    files = [*_PARTS, "model*.safetensors", _WEIGHTS[1]]
    folder = snapshot(text, files, revision, progress)
    if (folder / "config.json").is_file() and not any((folder / n).is_file() for n in _WEIGHTS):
        snapshot(text, ["pytorch_model*.bin", "pytorch_model.bin.index.json"], revision, progress)
    return folder


def _at(url: str, progress: bool) -> Path:
    """What lies at a URL: a file with a digest or without, or a folder."""
    import json

    plain, _, told = url.partition("#sha256=")
    home = Path(get_dir()) / "models" / re.sub(r"[^\w.-]+", "_", plain.partition("://")[2])
    if plain.partition("?")[0].endswith(".gguf"):
        return fetch(plain, home, progress, True, sha256=told or None)

    def got(name: str) -> bool:
        try:
            fetch(f"{plain}/{name}", (home / name).parent, progress)
            return True
        except RuntimeError as error:
            if re.search("HTTP Error 40[34]", str(error)):
                return False
            raise

    if not got(_PARTS[0]):
        raise FileNotFoundError(f"hub: {plain} is no folder of a model: it has no {_PARTS[0]}")
    if not got(_WEIGHTS[0]) and got(_WEIGHTS[1]):
        index = json.loads((home / _WEIGHTS[1]).read_text("utf-8"))
        for name in sorted(set(index["weight_map"].values())):
            if not re.fullmatch(r"\w[\w.-]*", name):
                raise ValueError(f"hub: {plain} has weights in {name!r}, not beside their index")
            fetch(f"{plain}/{name}", home, progress)
    elif not any((home / n).is_file() for n in _WEIGHTS):
        got(_WEIGHTS[2])
    for name in _PARTS[1:]:
        got(name)
    return home
