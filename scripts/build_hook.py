"""Steps of hatchling's build: a wheel has the stubs, which git does not keep, and is small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make them beside the sources, for an editable install as for a wheel."""
        make = Path(self.root, "scripts", "make_stubs")
        subprocess.run([sys.executable, make], check=True, stdout=subprocess.DEVNULL)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Where zopfli is installed (extra `dev`), deflate a wheel with it: 3 % smaller."""
        try:
            from zopfli import zlib
        except ImportError:
            return
        if version == "editable":
            return
        path = Path(artifact_path)
        with ZipFile(path) as wheel:
            files = [(info, wheel.read(info)) for info in wheel.infolist()]
        with ZipFile(path, "w", ZIP_DEFLATED) as wheel:
            for info, data in files:
                with wheel.open(info, "w") as file:
                    file._compressor = _Zopfli(zlib)  # type: ignore[attr-defined]
                    file.write(data)


class _Zopfli:
    """In the place of zipfile's compressor."""

    def __init__(self, zlib: Any) -> None:
        self.zlib, self.data = zlib, b""

    def compress(self, data: bytes) -> bytes:
        self.data += data
        return b""

    def flush(self) -> bytes:
        out: bytes = self.zlib.compress(self.data, numiterations=15)
        return out[2:-4]  # without zlib's head and checksum
