"""What other libraries' models do on pyframe, beside PyTorch, as docs/compatibility.md tells.

    python scripts/libraries [transformers] [--names NAME ...] [--site FOLDER]

Both run each model in processes of their own (models.py). `bash scripts/test_elsewhere libraries`
installs the libraries into a folder, without their dependencies torch and torchvision.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("models.py")
PAGE = ROOT / "docs" / "compatibility.md"
HEAD = """# Other libraries

Programs written for PyTorch run on pyframe: `python -m pyframe.torch program.py`, without PyTorch
in the environment. `bash scripts/test_elsewhere libraries` makes this page. Small models of each
architecture run forward and backward with PyTorch and with pyframe, from the same weights and
inputs. They are equal where each float that comes out and the norm of each gradient is, within
2e-3.
"""


def told(command: list[str], names: list[str], env: dict[str, str]) -> dict[str, str]:
    """How each model fared: "" or an error. What ends a process is one model's error."""
    found: dict[str, str] = {}
    left = list(names)
    while True:
        process = subprocess.Popen(
            [*command, *left], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        begun = ""
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"name": '):
                said = json.loads(line)
                begun = said["name"]
                if "error" in said:
                    found[begun] = said["error"]
                    begun = ""
                    print(f"  {said['name']}: {said['error'] or 'ok'}", flush=True)
        process.wait()
        if not begun:
            return found
        found[begun] = f"the process ended with status {process.returncode}"
        left = left[left.index(begun) + 1 :]
        if not left:
            return found


def compare(library: str, names: list[str], site: str) -> str:
    """The section of a library."""
    folder = ROOT / "build" / "libraries" / library
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), site]), "OMP_NUM_THREADS": "2"}
    given = [str(CHILD), library, str(folder)]
    listed = subprocess.run(
        [sys.executable, str(CHILD), library], env=env, capture_output=True, text=True, check=True
    )
    names = names or listed.stdout.splitlines()[-1].split()
    print(f"{library} with PyTorch: {len(names)} models", flush=True)
    theirs = told([sys.executable, *given], names, env)
    runs = [name for name, error in theirs.items() if not error]
    print(f"{library} with pyframe: {len(runs)} models", flush=True)
    ours = told([sys.executable, "-m", "pyframe.torch", *given], runs, env)
    for name in runs:
        (folder / f"{name}.npz").unlink()
    equal = [name for name in runs if ours[name] == ""]
    version = next(d.version for d in importlib.metadata.distributions(path=[site])
                   if d.name == library)  # fmt: skip
    rows = "\n".join(f"| `{n}` | {ours[n].replace('|', ' ')} |" for n in runs if ours[n])
    return (
        f"\n## {library} {version}\n\n{len(equal)} of {len(runs)} architectures are equal "
        f"({len(equal) / max(len(runs), 1):.1%}), of {len(names)} that it names; the others' small "
        f"configurations don't run with PyTorch {importlib.metadata.version('torch')} either. "
        f"{datetime.datetime.now(datetime.UTC).date()}.\n\nEqual: {', '.join(equal)}.\n"
        + (f"\n| not equal | why |\n| --- | --- |\n{rows}\n" if rows else "")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", default=["transformers"])
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--site", default=str(ROOT / "build" / "elsewhere" / "libraries"))
    given = parser.parse_args()
    sections = [compare(library, given.names, given.site) for library in given.libraries]
    if not given.names:
        PAGE.write_text(HEAD + "".join(sections), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
