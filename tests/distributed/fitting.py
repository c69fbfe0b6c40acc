"""A program that knows nothing of processes: the same with mpiexec and without. Its arguments are
one fit after the other: folder,epochs,compiled or eager,what ends it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import pyframe as pf
from pyframe import nn, optim


def main(number: int, folder: str, epochs: int, compile: bool, stops: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 6)).astype("f")
    y = (x[:, 0] > x[:, 1]).astype(int) + (x[:, 2] > 0)
    if stops != "unseeded":
        pf.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    model = pf.Model(
        net, loss=nn.CrossEntropyLoss(), optimizer=optimizer,
        metrics=["accuracy", pf.metrics.AUROC()],
        lr_scheduler=optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
    )  # fmt: skip

    class Told(pf.Callback):
        def on_epoch(self, model, epoch, logs):  # type: ignore[no-untyped-def]
            print("fit", number, "is told of", epoch)
            if stops == "here" and epoch == 2:
                model.stop_training = True
            if stops == "interrupted" and epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)
            if stops == "killed" and epoch == 3:
                os.kill(os.getpid(), signal.SIGKILL)

    history = model.fit(
        (x, y), epochs=epochs, batch_size=8, validation_split=0.25, accumulate=2,
        callbacks=[Told()], clip_norm=1.0, device="cpu", resume=folder or None, compile=compile,
        verbose=0, patience=8,
    )  # fmt: skip
    weights = {k: v.numpy().tolist() for k, v in net.state_dict().items()}
    bits = hashlib.sha256(json.dumps(weights).encode()).hexdigest()
    # lines of several processes may mix, so each has a file
    out = Path(os.environ["OUT"], f"{number}-{os.getpid()}.json")
    out.write_text(json.dumps({"history": history.history, "weights": weights, "bits": bits}))


if __name__ == "__main__":
    for number, fit in enumerate(sys.argv[1:]):
        folder, epochs, how, stops = fit.split(",")
        main(number, folder, int(epochs), how == "compiled", stops)
