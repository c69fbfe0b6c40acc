"""Writes README.md beside it: the four scripts, side by side, with their lines counted."""

from pathlib import Path

HERE = Path(__file__).parent
NAMES = {
    "pyframe": "pyframe",
    "torchkeras": "torchkeras",
    "keras": "Keras",
    "lightning": "Lightning",
}
TEXT = """# The same program in four frameworks

Each script has the same network for digits, trained by Adam for three epochs of batches of 64 on
the 9,000 digits of `examples/data`; validation after each epoch, early stopping with the best
weights kept, a checkpoint, a summary of the network, a plot and a table of the history, the final
loss and accuracy, and some predictions. [mnist.py](mnist.py) gives all of them the same NumPy
arrays. Each is written as users of the framework write, and formatted by ruff. Lines are counted
without blank ones, comments and docstrings.

    pip install keras lightning torchkeras pandas matplotlib ipython
    python scripts/compare/with_keras.py

`python scripts/compare/side_by_side.py` writes this page.
"""


def path(name: str) -> Path:
    return HERE / f"with_{name}.py"


def lines(name: str) -> int:
    """Lines of code."""
    stripped = [line.strip() for line in path(name).read_text("utf-8").splitlines()]
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in stripped)


def page() -> str:
    """The text of README.md."""
    names = list(NAMES)
    rows = []
    for pair in (names[:2], names[2:]):
        heads = [f"<th>{NAMES[n]}: {lines(n)} lines</th>" for n in pair]
        cells = [
            f'<td valign="top">\n\n```python\n{path(n).read_text("utf-8").rstrip()}\n```\n\n</td>'
            for n in pair
        ]
        rows += [f"<tr>{''.join(heads)}</tr>", f"<tr>{''.join(cells)}</tr>"]
    return f"{TEXT}\n<table>\n" + "\n".join(rows) + "\n</table>\n"


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), "utf-8")
