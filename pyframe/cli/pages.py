"""`pyframe serve` and `pyframe export`: pages, served from here or written for elsewhere."""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pyframe.cli.command import CommandError, add_command, option, positive, switch, telling

DATA = option("a file or folder that the program reads (it lies beside it in the page), or digits, "
              "names or tinyshakespeare; may be given again (default: none)",
              action="append", default=[], metavar="FOLDER_OR_NAME")  # fmt: skip


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; expected 0 to 65535")
    return int(text)


def add(commands: Any) -> None:
    """Declare the commands."""
    _add_serve(commands)
    _add_export(commands)


def _add_serve(commands: Any) -> None:
    add_command(
        commands, "serve", _serve,
        help="serve a program, or the demos, as a page",
        description="Serve a page in which a program trains in the browser, with its source to "
        "edit; without a program, the demos. Ctrl+C stops it.",
        examples={
            "pyframe serve --open": "the demos, in the browser",
            "pyframe serve my_model.py": "a program as a page",
            "pyframe serve my_model.py --weights my.safetensors": "which begins with weights",
            "pyframe serve my_model.py --data digits": "which reads a data set",
            "pyframe serve --host 0.0.0.0 --port 80": "for other computers too",
        },
        arguments={
            "program": option("defines `demo`, or make_model() and load_data() (default: the "
                              "demos)", type=Path, nargs="?", metavar="PROGRAM.py"),
            "--port": option("0 takes any free port (default: %(default)s)",
                             type=_port, default=8000),
            "--host": option("0.0.0.0 lets other computers in (default: %(default)s)",
                             default="127.0.0.1"),
            "--allow": option("answer to this name of the computer too, as behind a proxy; may be "
                              "given again (default: its own names)",
                              action="append", default=[], metavar="NAME"),
            "--open": switch("open the page in the browser (default: no)"),
            "--weights": option("what the program starts from, as Model.save wrote it (default: "
                                "its own start)", type=Path, metavar="FILE"),
            "--data": DATA,
        },
    )  # fmt: skip


def _without_program(args: argparse.Namespace, example: str) -> None:
    """CommandError for options of a program where none is named; `example` has one."""
    what = "--data" if args.data else "--weights" if args.weights else None
    if what:
        raise CommandError(f"{what} is for a program, as in {example.format(what)}")


def _serve(args: argparse.Namespace) -> int:
    from pyframe import serve
    from pyframe.web.source import PageProgram, ProgramError

    program = None
    if args.program:
        with telling(ProgramError):
            program = PageProgram(args.program, args.data, args.weights, serve.DATASETS)
    else:
        _without_program(args, "pyframe serve my_model.py {} …")
    return serve.serve(args.host, args.port, program, allow=args.allow, open_browser=args.open)


def _add_export(commands: Any) -> None:
    add_command(
        commands, "export", _export,
        help="write a program as a page, by itself with no Python in it",
        description="Write a page in which a program predicts and trains with no Python at all, on "
        "any device that has WebGPU or WebAssembly; or, with --python, as it is on a computer.",
        examples={
            "pyframe export my_model.py --to site": "a page without Python",
            "pyframe export my_model.py --to my.html --single": "all of it in one file",
            "pyframe export my_model.py --to site --python": "with Python for the browser",
            "pyframe export my_model.py --to site --offline": "that works without a network too",
            "pyframe export --to site --python": "what pages of your own need beside them",
            "pyframe export model.onnx --to site": "a model in the ONNX format",
            "pyframe export model.onnx --to site --train": "which learns in the page, too",
        },
        arguments={
            "program": option("defines `demo`, or make_model() and load_data(); or a model in the "
                              "ONNX format, for which the options of the last lines are; without "
                              "one, --python writes what pages of your own need beside them: "
                              "pyframe.js, pyframe and Python for the browser",
                              type=Path, nargs="?", metavar="PROGRAM.py|MODEL.onnx"),
            "--to": option("where the page's files go", type=Path, required=True, metavar="FOLDER"),
            "--weights": option("what it starts from, as Model.save wrote it (default: the "
                                "program's own start)", type=Path, metavar="FILE"),
            "--no-train": switch("a page that predicts alone (default: it trains too)"),
            "--no-data": switch("without the data that the program learns from (default: with "
                                "them)"),
            "--no-cpu": switch("for WebGPU alone (default: with WebAssembly, for browsers without "
                               "it)"),
            "--single": switch("one HTML file, which needs no server (default: a folder)"),
            "--python": switch("the program as it is, with Python for the browser, all in one "
                               "folder (default: no Python)"),
            "--offline": switch("keep it in the visitor's browser, where it then works without a "
                                "network, and let phones install it (default: no)"),
            "--cdn": switch("with --python: Pyodide comes from its CDN, 17 MB less (default: it is "
                            "copied)"),
            "--url": option("with --python --cdn and no program: where the folder will lie, for a "
                            "lock file by which Pyodide from its CDN has pyframe as a package "
                            "(default: none)",
                            metavar="URL"),
            "--data": {**DATA, "help": DATA["help"].replace(
                " (default", "; of a model.onnx an .npz with x and y to learn from (default")},
            **{f"--{name.replace('_', '-')}": about for name, about in ONNX.items()},
        },
    )  # fmt: skip


# Of a model in the ONNX format
ONNX = {
    "train": switch("model.onnx: learn in the page (default: predict alone)"),
    "shape": option("model.onnx: the sizes of an input that the file leaves open, as 1x3x48x320 or "
                    "x=1x3x48x320; a size with a star may be any, for WebGPU alone; may be given "
                    "again (default: a batch of 1)", action="append", default=[],
                    metavar="NAME=SIZES"),
    "value": option("model.onnx: what an input always is, as sr=16000; may be given again "
                    "(default: the page gives it)", action="append", default=[],
                    metavar="NAME=VALUE"),
    "output": option("model.onnx: an output that the page gives; may be given again "
                     "(default: all)",
                     action="append", default=[], metavar="NAME"),
    "labels": option("model.onnx: what the classes are called, a line for each (default: numbers)",
                     type=Path, metavar="FILE"),
    "loss": option("model.onnx: what it learns by (default: what fits the output)",
                   choices=("cross-entropy", "bce", "mse")),
    "optimizer": option("model.onnx: adamw, adam or sgd (default: adamw)",
                        choices=("adamw", "adam", "sgd")),
    "lr": option("model.onnx: the learning rate (default: 0.001)", type=float, metavar="RATE"),
    "batch_size": option("model.onnx: samples of a step (default: 16)", type=positive, metavar="N"),
}  # fmt: skip


def _onnx_file(args: argparse.Namespace) -> Any:
    """The model that the arguments tell of."""
    from pyframe.web import OnnxFile

    def pairs(what: str) -> dict[str, str]:
        found = {}
        for text in getattr(args, what):
            name, _, value = text.rpartition("=")
            if what == "value" and not name:
                raise CommandError(f"--{what} is {text!r}; expected NAME=VALUE, as sr=16000")
            found[name] = value
        return found

    known = {}
    for name, text in pairs("value").items():
        try:
            known[name] = json.loads(text)
        except ValueError:
            raise CommandError(
                f"--value {name}={text}: expected a number, true, false or a list of such"
            ) from None
    data = None
    if args.data:
        with np.load(args.data[0], allow_pickle=False) as arrays:
            if not args.train or {"x", "y"} - set(arrays):
                raise CommandError("--data is for --train, and an .npz file with arrays x and y")
            data = arrays["x"], arrays["y"]
    labels = tuple(args.labels.read_text("utf-8").splitlines()) if args.labels else ()
    more = {k: getattr(args, k) for k in ("loss", "optimizer", "lr") if getattr(args, k)}
    return OnnxFile(args.program, pairs("shape"), known, tuple(args.output), labels, data, **more)


def _export(args: argparse.Namespace) -> int:
    if args.python:
        return _export_python(args)
    of_onnx = args.program is not None and args.program.suffix == ".onnx"
    for name in ("cdn", "url", *(["data"] if not of_onnx else [])):
        if getattr(args, name):
            raise CommandError(f"--{name} is for --python")
    if not of_onnx:
        _check_onnx(args)
    if args.offline and args.single:
        raise CommandError("--offline is for a folder on a server; one file needs no network")
    from pyframe.web import Demo, exporter, offline

    if args.program is None:
        raise CommandError("expected a program, as in pyframe export my_model.py")
    with telling(exporter.ExportError, TypeError, ValueError, OSError):
        demo: Any = _onnx_file(args) if of_onnx else Demo.of(exporter.load_program(args.program))
        train = args.train if of_onnx else not args.no_train
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # they are told below
            done = exporter.export(
                demo, to=args.to, train=train, data=not args.no_data, weights=args.weights,
                single=args.single, cpu=not args.no_cpu, batch_size=args.batch_size,
            )  # fmt: skip
    if args.offline:
        done.files.update(offline.keep(done.path / "index.html"))
    for why in done.left_out:
        print(f"pyframe export: {why}", file=sys.stderr)
    for name, size in done.files.items():
        print(f"{size:>11,}  {name}")
    print(f"{sum(done.files.values()):>11,}  bytes in {done.path}")
    return 0


def _check_onnx(args: argparse.Namespace) -> None:
    for name in ONNX:
        if getattr(args, name):
            raise CommandError(f"--{name.replace('_', '-')} is for a model.onnx")


def _export_python(args: argparse.Namespace) -> int:
    from pyframe import serve
    from pyframe.web import offline, site
    from pyframe.web.source import PageProgram, ProgramError

    for name in ("no_train", "no_data", "no_cpu", "single"):
        if getattr(args, name):
            raise CommandError(f"--{name.replace('_', '-')} is for an export without --python")
    _check_onnx(args)
    if args.offline and (args.cdn or args.program is None):
        what = "Pyodide of its CDN" if args.cdn else "pages of your own"
        raise CommandError(f"--offline keeps an exported program; it can't keep {what}")
    if args.url is not None:
        if not args.cdn or args.program is not None:
            raise CommandError("--url is for --cdn without a program")
        if not re.match("https?://[^/]", args.url):
            raise CommandError(
                f"--url is {args.url!r}; expected as in --url https://my.site/pyframe/"
            )
    with telling(ProgramError, OSError):
        if args.program is None:
            _without_program(args, "pyframe export my_model.py")
            page = site.embed(args.to, args.cdn, args.url or "")
        else:
            program = PageProgram(args.program, args.data, args.weights, serve.DATASETS)
            page = site.export(program, args.to, args.cdn)
            if args.offline:
                offline.keep(page)
    size = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
    print(f"{page} ({size / 1e6:.1f} MB in its folder); any web server can serve it, as in")
    if args.program is None:
        print(f"    python3 -m http.server --directory {page.parent.parent}")
        print("with pages that say, beside a program of yours:")
        print(f'    <script type="module" src="{page.parent.name}/pyframe.js"></script>')
        print('    <py-frame src="my_model.py"></py-frame>')
    else:
        print(f"    python3 -m http.server --directory {page.parent}")
    return 0
