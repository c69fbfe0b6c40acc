"""A step of hatchling's build: a wheel has the stubs, which git does not keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MakeStubs(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make them beside the sources, for an editable install as for a wheel."""
        make = Path(self.root, "scripts", "make_stubs")
        subprocess.run([sys.executable, make], check=True, stdout=subprocess.DEVNULL)
