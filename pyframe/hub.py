"""Published files of weights, fetched once and kept, under the names of torch.hub.

They lie where PyTorch keeps them, and models of Hugging Face's hub where that keeps them, so that
what either fetched is there for both.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyframe.io import load as _load
from pyframe.io.download import download as _download
from pyframe.io.transfer import (
    is_plain_name as _is_plain_name,
    resumed as _resumed,
    told as _told,
)

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

# of a model's folder: what says what it is, and its weights
_PARTS = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "chat_template.jinja", "modules.json", "1_Pooling/config.json",
    "sentence_bert_config.json",
)  # fmt: skip
_WEIGHTS = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
_LARGEST_INDEX = 100_000_000  # bytes
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


def split_digest(url: str) -> tuple[str, str | None]:
    """A URL without what follows a #, and the digits of a SHA-256 that #sha256= tells. ValueError
    for anything else behind a #, which no server would see."""
    plain, sign, mark = url.partition("#")
    if not sign:
        return plain, None
    digest = mark.removeprefix("sha256=").lower()
    if digest == mark.lower() or not re.fullmatch(r"[0-9a-f]{8,64}", digest):
        raise ValueError(
            f"hub: {url}: expected #sha256= and 8 to 64 digits of the file's SHA-256 behind #"
        )
    return plain, digest


def fetch(
    url: str, folder: str | os.PathLike[str] | None = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, sha256: str | None = None,
) -> Path:  # fmt: skip
    """The file of `url` in a folder, fetched if it is not there; `sha256` is checked of both."""
    name = file_name or re.split("[?#]", url, maxsplit=1)[0].rpartition("/")[2]
    if not file_name and not _is_plain_name(name):
        raise ValueError(f"hub: {url} ends in no name of a file: give file_name=, or its whole URL")
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
    from urllib.error import HTTPError
    from urllib.parse import quote
    from urllib.request import Request

    if not all(map(_is_plain_name, revision.split("/"))):
        raise ValueError(f"hub: {revision!r} is no branch, tag or commit")
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
        said = _told(asked(f"{site}/api/models/{name}/revision/{mark}?blobs=true"))
    except ValueError as error:
        raise ValueError(f"hub: {site} says nothing of {name}: {error}") from None
    except OSError as error:
        if isinstance(error, HTTPError) and error.code in (401, 403, 404):
            raise _not_there(name, revision) from None
        commit = ref.read_text("utf-8").strip() if ref.is_file() else revision
        if _is_plain_name(commit) and (folder / "snapshots" / commit).is_dir():
            return folder / "snapshots" / commit
        raise OSError(
            f"hub: {site} can't be reached, and {name} is not in {cache}: {error}"
        ) from None

    commit, listed = str(said.get("sha")), _listed(said, f"hub: {site} names {name}'s files")
    if not _is_digest(commit, 40):
        raise ValueError(f"hub: {site} names no commit of {name}, but {said.get('sha')!r:.80}")
    there = folder / "snapshots" / commit
    for path, (digest, size) in listed.items():
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in files):
            continue
        if not _is_digest(digest, 40, 64) or type(size) is not int or size < 0:
            raise ValueError(f"hub: {site} names {name}'s files by no digests: {path!r:.80}")
        if not re.fullmatch(r"[\w./-]+", path) or not all(map(_is_plain_name, path.split("/"))):
            raise ValueError(
                f"hub: {name} has a file {path!r:.80}, which lies in no folder of its own"
            )
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


def _is_digest(text: Any, *lengths: int) -> bool:
    return isinstance(text, str) and bool(re.fullmatch("[0-9a-f]+", text)) and len(text) in lengths


def _listed(said: dict[str, Any], what: str) -> dict[str, tuple[Any, Any]]:
    """The digest and the size of each file that a hub lists."""
    found: dict[str, tuple[Any, Any]] = {}
    entries = said.get("siblings")
    for entry in entries if isinstance(entries, list) else [None]:
        large = entry.get("lfs") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(entry.get("rfilename"), str):
            raise ValueError(f"{what} otherwise than by their names: {entry!r:.80}")
        if large and not isinstance(large, dict):
            raise ValueError(f"{what} otherwise than by their digests: {large!r:.80}")
        digest = large.get("sha256") if large else entry.get("blobId")
        found[entry["rfilename"]] = digest, (large or entry).get("size")
    return found


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
        return _at(text, progress)
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
    import hashlib

    plain, digest = split_digest(url)
    base, sign, query = plain.partition("?")
    base = base.rstrip("/")
    # what it is called, for people, and what no other URL has
    mark = hashlib.sha256(plain.encode()).hexdigest()[:16]
    called = re.sub(r"[^\w.-]+", "_", base.partition("://")[2])[:80]
    home = Path(get_dir()) / "models" / f"{called}-{mark}"
    if base.endswith(".gguf"):
        return fetch(plain, home, progress, True, sha256=digest)
    if digest:
        raise ValueError(f"hub: {url}: #sha256= is of one file, such as a .gguf, not of a folder")

    def got(name: str) -> bool:
        try:
            fetch(f"{base}/{name}{sign}{query}", (home / name).parent, progress)
            return True
        except RuntimeError as error:
            if re.search("HTTP Error 40[34]", str(error)):
                return False
            raise

    if not got(_PARTS[0]):
        raise FileNotFoundError(f"hub: {plain} is no folder of a model: it has no {_PARTS[0]}")
    if not got(_WEIGHTS[0]) and got(_WEIGHTS[1]):
        for name in _weights_in(home / _WEIGHTS[1], plain):
            if not got(name):
                raise FileNotFoundError(f"hub: {plain} has no {name}, which its index names")
    elif not any((home / n).is_file() for n in _WEIGHTS):
        got(_WEIGHTS[2])
    for name in _PARTS[1:]:
        got(name)
    return home


def _weights_in(index: Path, url: str) -> list[str]:
    """The files that an index names, which is not kept where it is none: ValueError."""
    import json

    try:
        if index.stat().st_size > _LARGEST_INDEX:
            raise ValueError(f"it has more than {_LARGEST_INDEX} bytes")
        found = json.loads(index.read_bytes())
        where = found.get("weight_map") if isinstance(found, dict) else None
        if not isinstance(where, dict) or not where:
            raise ValueError(
                f"expected weight_map, the files of tensors by name, got {found!r:.40}"
            )
        odd = next((n for n in where.values() if not _is_plain_name(n)), None)
        if odd is not None:
            raise ValueError(f"it has weights in {odd!r:.80}, not beside it")
    except (ValueError, RecursionError) as error:
        index.unlink()
        raise ValueError(f"hub: {url}: {index.name} is no index of weights: {error}") from None
    return sorted(set(where.values()))
