"""Exported pages that work without a network, once they were visited."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import quote

from pyframe import serve
from pyframe.web.late import integrity
from pyframe.web.site import as_served

WORKER, MANIFEST, ICON = "offline.js", "manifest.webmanifest", "icon.svg"
HEAD = f'<link rel="manifest" href="{MANIFEST}">\n<script src="{WORKER}" defer></script>'


def keep(page: Path) -> dict[str, int]:
    """Add a service worker that keeps all files of the exported `page`, an index.html, and a
    manifest, with which phones install it; gives the bytes of the files that it wrote."""
    text, site = page.read_text("utf-8"), page.parent
    titled = re.search("<title>(.*?)</title>", text, re.DOTALL)
    title = html.unescape(titled[1]) if titled else site.name
    page.write_text(text.replace("</title>", f"</title>\n{HEAD}", 1), "utf-8")
    (site / ICON).write_bytes((serve.WEB / ICON).read_bytes())
    manifest = {
        "name": title, "short_name": title, "start_url": "./", "scope": "./",
        "display": "standalone",
        "icons": [{"src": ICON, "sizes": "any", "type": "image/svg+xml"}],
    }  # fmt: skip
    (site / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False), "utf-8")
    files = sorted(path for path in site.rglob("*") if path.is_file())
    names = {quote(path.relative_to(site).as_posix()): path for path in files}
    digests = {name: as_served(name, path.read_bytes()) for name, path in names.items()}
    worker = (serve.WEB / WORKER).read_text("utf-8")
    version = integrity(json.dumps(digests).encode())
    for start, value in {"const FILES = ": digests, "const VERSION = ": version}.items():
        worker = re.sub(f"^{start}[^;]*;", f"{start}{json.dumps(value)};", worker, flags=re.M)
    (site / WORKER).write_text(worker, "utf-8")
    return {name: (site / name).stat().st_size for name in (page.name, ICON, MANIFEST, WORKER)}
