"""The program that runs, as its worker processes import it: with torch being pyframe."""

from __future__ import annotations

from pyframe.torch import execute

execute(globals())
