"""What `Model.fit` costs beside a loop written by hand: some epochs of W1, compiled, over the same
DataLoader, with the loss read as often."""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyframe as pf
from pyframe import nn, optim
from pyframe.data import DataLoader, TensorDataset
from pyframe.nn import functional as F
from pyframe.tools.bench.measure import Side, about, digits, in_turns, seconds, table
from pyframe.tools.bench.workloads import CASES, mlp_net
from pyframe.train import CSVLogger, EarlyStopping, Timer

TARGET = 1.05
EPOCHS, STEPS, READ_EVERY = 2, 128, 16  # the loss is read after the first step too
HEAD = ["", "µs a step: min / median / max", "ratio", "target", "met", "first step (ms)"]

Epochs = Callable[[], pf.Tensor]  # trains for them, and gives a loss


def batches(sizes: dict[str, Any], steps: int) -> DataLoader:
    """So many batches of W1."""
    n, widths = sizes["batch"], sizes["widths"]
    pf.manual_seed(0)
    x, y = pf.randn(n * steps, widths[0]), pf.randint(0, widths[-1], (n * steps,))
    return DataLoader(TensorDataset(x, y), n, shuffle=True)


def makers(
    args: Namespace, sizes: Any, folder: Path
) -> dict[str, Callable[[DataLoader, int], Epochs]]:  # fmt: skip
    """By name, what makes epochs over a loader: the loop written by hand stands first."""

    def parts() -> tuple[Any, Any]:
        pf.manual_seed(0)
        net = mlp_net(pf, sizes["widths"]).to(args.device)
        return net, optim.Adam(net.parameters(), lr=1e-3)

    def hand(loader: DataLoader, epochs: int) -> Epochs:
        net, adam = parts()

        @pf.compile
        def step(x: Any, y: Any) -> Any:
            adam.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            return loss.detach()

        def run() -> pf.Tensor:
            done = 0
            for _ in range(epochs):
                net.train()
                for x, y in loader:
                    loss = step(x.to(args.device), y.to(args.device))
                    done += 1
                    if done == 1 or done % READ_EVERY == 0:
                        loss.item()
            return loss

        return run

    def fit(metrics: list[str], callbacks: Callable[[], list[Any]] = list) -> Any:
        def make(loader: DataLoader, epochs: int) -> Epochs:
            net, adam = parts()
            model = pf.Model(net, nn.CrossEntropyLoss(), adam, metrics)
            options = {"verbose": 0, "device": args.device, "read_every": READ_EVERY}
            options["epochs"] = epochs
            return lambda: pf.tensor(model.fit(loader, callbacks=callbacks(), **options)["loss"])

        return make

    def usual() -> list[Any]:
        stopping = EarlyStopping("loss", restore_best=False)
        return [stopping, CSVLogger(folder / "log.csv"), Timer()]

    return {
        "a loop written by hand": hand,
        "fit": fit([]),
        "fit, accuracy": fit(["accuracy"]),
        "fit, accuracy and f1": fit(["accuracy", "f1"]),
        "fit, accuracy, callbacks": fit(["accuracy"], usual),
    }


def report(args: Namespace) -> list[str]:
    """The costs of fit, as Markdown."""
    repeats, steps = (2, 4) if args.quick else (args.repeats, STEPS)
    sizes = CASES[0].quick if args.quick else CASES[0].sizes
    one, many = batches(sizes, 1), batches(sizes, steps)
    with tempfile.TemporaryDirectory() as folder:
        made = makers(args, sizes, Path(folder))
        firsts: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(repeats):  # the first time pays for what is made once in a process
            for name, make in made.items():
                firsts[name].append(seconds(lambda make=make: make(one, 1)(), 1))  # type: ignore[misc]
        times = in_turns(
            [Side(name, make(many, EPOCHS)) for name, make in made.items()], repeats, 0.0
        )
    base = next(iter(times.values()))
    rows = []
    for name, mine in times.items():
        ratio = statistics.median(a / b for a, b in zip(mine, base, strict=True))
        judged, each = mine is not base, [t / EPOCHS / steps for t in mine]
        rows.append([
            name,
            " / ".join(digits(1e6 * f(each)) for f in (min, statistics.median, max)),
            f"{ratio:.3f}",
            f"≤ {TARGET}" if judged else "",
            ("yes" if ratio <= TARGET else "no") if judged else "",
            digits(1e3 * statistics.median(firsts[name])),
        ])  # fmt: skip
    how = f"- {repeats} rounds of {EPOCHS} epochs of {steps} steps, in turns; ratio: the median of "
    how += "those to the loop by hand in the same round"
    return ["# What fit costs", "", *about(args.threads, [args.device]), how, "",
            *table(HEAD, rows)]  # fmt: skip
