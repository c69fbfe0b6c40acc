"""Downloads that are there whole and checked, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyframe.core.devices import in_browser
from pyframe.io.files import fcntl, replacing

if TYPE_CHECKING:
    from urllib.request import Request

_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_LARGEST = 1 << 32  # bytes: more than data sets and published weights have, and no disk full


def download(
    urls: Sequence[str], path: str | os.PathLike[str], md5: str | None, *,
    sha256: str | None = None, progress: bool = True,
) -> None:  # fmt: skip
    """Fetch `path` from the first of `urls` that has it, with this MD5 checksum unless it is None,
    and a SHA-256 that begins so.

    Shows a progress bar if it may. What `path` was before stays until all is there and checked, and
    on any failure. RuntimeError, with what was wrong with each address, if none works.

    Args:
        md5: The MD5 checksum; None for any.
        sha256: The first digits of the SHA-256; none for any.
        progress: Whether to show a progress bar.
    """
    path = Path(path)
    if in_browser():
        raise RuntimeError(
            f"download: a web page can't open {urls[0]} from Python; serve {path.name} beside the "
            f"page and write it to {path.parent} (pyodide.http.pyfetch, pyodide.FS.writeFile)"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"download: no address has a good {path.name}:"]
    for url in urls:
        try:
            _fetch(url, path, md5, sha256, progress)
            return
        except (OSError, ValueError) as error:
            lines.append(f"  {url}: {error}")
    lines.append(f"Check the connection, or put the file into {path.parent} yourself.")
    raise RuntimeError("\n".join(lines))


def answer_to(request: Request | str) -> Any:
    """`urlopen`, whose error leaves no connection open."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        return urlopen(request, timeout=_TIMEOUT)
    except HTTPError as error:
        error.close()
        raise


def _fetch(
    url: str, path: Path, md5: str | None, sha256: str | None, progress: bool
) -> None:  # fmt: skip
    import hashlib
    from http.client import HTTPException

    from tqdm.auto import tqdm

    wanted = {"MD5": md5, "SHA-256": sha256}
    sums = {"MD5": hashlib.md5(usedforsecurity=False), "SHA-256": hashlib.sha256()}
    try:
        with answer_to(url) as response, replacing(path) as file:
            length = response.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else None
            if size is not None and size > _LARGEST:
                raise ValueError(f"{size} bytes are announced, expected at most {_LARGEST}")
            received = 0
            with tqdm(
                total=size, unit="B", unit_scale=True, desc=path.name, disable=not progress
            ) as bar:  # fmt: skip
                while chunk := response.read(_CHUNK):
                    received += len(chunk)
                    if received > _LARGEST:
                        raise ValueError(f"the transfer goes on after {_LARGEST} bytes")
                    file.write(chunk)
                    for name, digest in sums.items():
                        if wanted[name] is not None:
                            digest.update(chunk)
                    bar.update(len(chunk))
            if size is not None and received != size:
                raise ValueError(f"the transfer stopped after {received} of {size} bytes")
            for name, expected in wanted.items():
                if expected is not None and not sums[name].hexdigest().startswith(expected):
                    raise ValueError(
                        f"checksum mismatch: {name} {sums[name].hexdigest()} of {received} bytes, "
                        f"expected {expected}"
                    )
    except HTTPException as error:
        raise ValueError(f"the server's answer is broken: {error!r}") from None


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Let one process at a time fetch `path`, where the file that is written can't be locked as it
    is renamed: on Windows."""
    if fcntl is not None:
        yield
        return
    import msvcrt

    lock: Any = msvcrt
    with path.with_name(f"{path.name}.lock").open("wb") as file:
        taken = False
        while not taken:
            with contextlib.suppress(OSError):  # after ten tries, one a second
                lock.locking(file.fileno(), lock.LK_LOCK, 1)
                taken = True
        try:
            yield
        finally:
            lock.locking(file.fileno(), lock.LK_UNLCK, 1)


def resumed(request: Request, path: Path, size: int, digest: str, progress: bool) -> None:
    """Fetch `path` of this size and digest (SHA-256, or SHA-1 as Git has it), going on where an
    earlier try ended: `path.incomplete` has what came.

    A server that breaks off is asked again as long as something comes. RuntimeError where that is
    not enough, or other bytes come.
    """
    import hashlib
    from http.client import HTTPException

    from tqdm.auto import tqdm

    path.parent.mkdir(parents=True, exist_ok=True)
    part, url = path.with_name(f"{path.name}.incomplete"), request.full_url
    with _turn(path), part.open("a+b") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        if path.is_file():  # another process had the lock
            if fcntl is None:
                file.close()
                part.unlink()
            return
        bar = tqdm(total=size, unit="B", unit_scale=True, desc=url.rpartition("/")[2],
                   disable=not progress)  # fmt: skip
        with bar:
            while (have := file.seek(0, os.SEEK_END)) < size:
                bar.update(have - bar.n)
                request.add_header("Range", f"bytes={have}-")
                why: Exception | str = "it sends no more"
                try:
                    with answer_to(request) as answer:
                        if answer.status != 206:  # all of it
                            have = file.truncate(0)
                        while file.tell() <= size and (chunk := answer.read(_CHUNK)):
                            file.write(chunk)
                            bar.update(len(chunk))
                except (OSError, HTTPException) as error:
                    why = error
                if file.tell() <= have:
                    raise RuntimeError(
                        f"download: {url}: {have} of {size} bytes came, which are kept: {why}"
                    )
        file.seek(0)
        start = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(
            b"blob %d\0" % size, usedforsecurity=False)  # fmt: skip
        found = hashlib.file_digest(file, lambda: start).hexdigest()
        if found != digest:
            file.truncate(0)
            raise RuntimeError(f"download: {url}: checksum {found}, expected {digest}")
        os.fsync(file.fileno())
        if fcntl is None:  # Windows, which renames no open file
            file.close()
        os.replace(part, path)
