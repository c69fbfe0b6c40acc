"""Downloads that are there whole and checked, or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pyframe.core.devices import in_browser


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
    from pyframe.io.transfer import fetch  # which no page needs

    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"download: no address has a good {path.name}:"]
    for url in urls:
        try:
            fetch(url, path, md5, sha256, progress)
            return
        except (OSError, ValueError) as error:
            lines.append(f"  {url}: {error}")
    lines.append(f"Check the connection, or put the file into {path.parent} yourself.")
    raise RuntimeError("\n".join(lines))
