"""How downloads come: bounded in size and time, checked, and gone on with."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyframe.core.devices import in_browser
from pyframe.io.files import fcntl, replacing
from pyframe.io.kinds import mistaken

if TYPE_CHECKING:
    from urllib.request import Request

_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_HEADERS = 90  # seconds until an answer begins, with what it leads to
_SLOWEST = 1000, 60  # bytes that come in so many seconds: who sends less is not waited for
_TOLD = 1 << 25  # bytes of an answer that is read as a whole
_LARGEST = 1 << 32  # bytes: more than data sets and published weights have, and no disk full


def is_plain_name(name: object) -> bool:
    """Whether a name that others gave is that of a file within its folder, on every system."""
    return (
        isinstance(name, str)
        and re.fullmatch(r'[^\0-\x1f/\\:*?"<>|]{1,255}', name) is not None
        and not name.endswith((".", " "))
        and re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", name, re.IGNORECASE) is None
    )


def answer_to(request: Request | str) -> Any:
    """`urlopen`, whose error leaves no connection open. OSError for a broken answer, and for a
    server that sends its headers byte by byte without end."""
    from urllib.error import HTTPError
    from urllib.request import urlopen

    found: list[Any] = []
    late = threading.Event()

    def ask() -> None:
        try:
            found.append(urlopen(request, timeout=_TIMEOUT))
        except HTTPError as error:
            error.close()
            found.append(error)
        except HTTPException as error:
            found.append(OSError(f"the server's answer is broken: {error!r:.200}"))
        except Exception as error:
            found.append(error)
        if late.is_set() and not isinstance(found[0], Exception):
            found[0].close()

    if in_browser():  # it has no threads
        ask()
    else:
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_HEADERS)
    if not found:
        late.set()
        raise TimeoutError(f"no whole answer began in {_HEADERS} s")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


class Pieces:
    """What answers bring, piece by piece. OSError for a broken one, and for a server that sends
    less than some bytes a minute, however many answers it gives."""

    def __init__(self) -> None:
        self.since, self.came = time.monotonic(), 0
        self.slow = False

    def of(self, answer: Any) -> Iterator[bytes]:
        """Those of one answer."""
        least, seconds = _SLOWEST
        try:
            while piece := answer.read1(_CHUNK):
                self.came += len(piece)
                now = time.monotonic()
                if now - self.since > seconds:
                    if self.came < least:
                        self.slow = True
                        raise TimeoutError(
                            f"it sent {self.came} bytes in {now - self.since:.0f} s, expected at "
                            f"least {least}"
                        )
                    self.since, self.came = now, 0
                yield piece
        except HTTPException as error:
            raise OSError(f"the server's answer is broken: {error!r:.200}") from None


def told(request: Request | str) -> dict[str, Any]:
    """The fields of a JSON object that a server answers with. ValueError for another answer, and
    for one that is far too long."""
    import json

    text = bytearray()
    with answer_to(request) as answer:
        for piece in Pieces().of(answer):
            text += piece
            if len(text) > _TOLD:
                raise ValueError(f"it answers with more than {_TOLD} bytes")
    start = bytes(text[:100])
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"it answers with {mistaken(start) or f'no JSON: {start[:40]!r} ({error})'}"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"it answers with {start[:40]!r}, expected fields by name")
    return found


def fetch(
    url: str, path: Path, md5: str | None, sha256: str | None, progress: bool
) -> None:  # fmt: skip
    import hashlib

    from tqdm.auto import tqdm

    wanted = {"MD5": md5, "SHA-256": sha256}
    sums = {"MD5": hashlib.md5(usedforsecurity=False), "SHA-256": hashlib.sha256()}
    with answer_to(url) as response, replacing(path) as file:
        length = response.headers.get("Content-Length", "")
        size = int(length) if length.isdecimal() and len(length) < 20 else None
        if size is not None and size > _LARGEST:
            raise ValueError(f"{size} bytes are announced, expected at most {_LARGEST}")
        received = 0
        with tqdm(
            total=size, unit="B", unit_scale=True, desc=path.name, disable=not progress
        ) as bar:  # fmt: skip
            for chunk in Pieces().of(response):
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
            if expected is not None and not sums[name].hexdigest().startswith(expected.lower()):
                raise ValueError(
                    f"checksum mismatch: {name} {sums[name].hexdigest()} of {received} bytes, "
                    f"expected {expected}"
                )


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
    not enough, other bytes come, or the disk has no room for them.
    """
    import hashlib

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
        have, room = file.seek(0, os.SEEK_END), shutil.disk_usage(path.parent).free
        if size - have > room:
            raise RuntimeError(
                f"download: {url}: {size} bytes are announced, and {path.parent} has room for "
                f"{room}"
            )
        pieces = Pieces()
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
                        for chunk in pieces.of(answer):
                            file.write(chunk)
                            bar.update(len(chunk))
                            if file.tell() > size:
                                break
                except OSError as error:
                    why = error
                if file.tell() <= have or pieces.slow:
                    raise RuntimeError(
                        f"download: {url}: {file.tell()} of {size} bytes came, which are kept: "
                        f"{why}"
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
