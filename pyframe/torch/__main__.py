"""`python -m pyframe.torch script.py …`: run a program written for PyTorch on pyframe."""

from __future__ import annotations

import sys

from pyframe.torch import run

USAGE = """usage: python -m pyframe.torch SCRIPT [ARGUMENT ...]
       python -m pyframe.torch -m MODULE [ARGUMENT ...]

Runs a program that says `import torch` (and `torchvision`) on pyframe, for this process only.
PYFRAME_DEVICE=auto makes its tensors on the GPU where it names no device."""


def main(argv: list[str]) -> int:
    """Run the program that is named; gives the exit status."""
    if argv[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if not argv or (argv[0].startswith("-") and (argv[0] != "-m" or len(argv) < 2)):
        print(USAGE, file=sys.stderr)
        return 2
    run(argv)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
