"""`python -m pyframe` is the command line."""

from __future__ import annotations

from pyframe.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
