"""Downloads that are there whole and checked, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pyframe.core.devices import in_browser
from pyframe.io.files import replacing

_CHUNK = 1 << 16
_TIMEOUT = 30  # seconds without a byte
_LARGEST = 1 << 30  # bytes: far more than a data set here has, and no disk full


def download(urls: Sequence[str], path: str | os.PathLike[str], md5: str | None) -> None:
    """Fetch `path` from the first of `urls` that has it, with this MD5 checksum unless it is None.

    Shows a progress bar. What `path` was before stays until all is there and checked, and on any
    failure. RuntimeError, with what was wrong with each address, if none works.
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
            _fetch(url, path, md5)
            return
        except (OSError, ValueError) as error:
            lines.append(f"  {url}: {error}")
    lines.append(f"Check the connection, or put the file into {path.parent} yourself.")
    raise RuntimeError("\n".join(lines))


def _fetch(url: str, path: Path, md5: str | None) -> None:
    import hashlib
    from http.client import HTTPException
    from urllib.request import urlopen

    from tqdm.auto import tqdm

    digest = hashlib.md5(usedforsecurity=False)
    try:
        with urlopen(url, timeout=_TIMEOUT) as response, replacing(path) as file:
            length = response.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else None
            if size is not None and size > _LARGEST:
                raise ValueError(f"{size} bytes are announced, expected at most {_LARGEST}")
            received = 0
            with tqdm(total=size, unit="B", unit_scale=True, desc=path.name) as bar:
                while chunk := response.read(_CHUNK):
                    received += len(chunk)
                    if received > _LARGEST:
                        raise ValueError(f"the transfer goes on after {_LARGEST} bytes")
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            if size is not None and received != size:
                raise ValueError(f"the transfer stopped after {received} of {size} bytes")
            if md5 is not None and digest.hexdigest() != md5:
                raise ValueError(
                    f"checksum mismatch: MD5 {digest.hexdigest()} of {received} bytes, expected "
                    f"{md5}"
                )
    except HTTPException as error:
        raise ValueError(f"the server's answer is broken: {error!r}") from None
