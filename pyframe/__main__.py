"""The command line: `python -m pyframe serve`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; expected 0 to 65535")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status."""
    parser = argparse.ArgumentParser(prog="pyframe", description="Deep learning in WGSL.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="serve the browser demo",
        description="Serve the page in which digits.py trains in the browser.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    serve.add_argument("--port", type=_port, default=8000, help="0 takes any free port")
    serve.add_argument("--host", default="127.0.0.1", help="0.0.0.0 lets other computers in")
    serve.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="answer to this name of the computer too, as behind a proxy; may be given again",
    )
    serve.add_argument("--open", action="store_true", help="open the page in the browser")
    serve.add_argument(
        "--weights",
        type=Path,
        default=Path("digits.safetensors"),
        help="weights that the page can start from, as digits.py saves them",
    )
    args = parser.parse_args(argv)

    from pyframe.serve import serve as run

    return run(args.host, args.port, args.weights, allow=args.allow, open_browser=args.open)


if __name__ == "__main__":
    raise SystemExit(main())
