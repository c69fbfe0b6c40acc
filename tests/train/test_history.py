"""History: a table of an epoch's numbers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pyframe.train import History
from pyframe.train.history import number

MODEL: Any = None


def told(epochs: int, every: int = 1) -> History:
    """Epochs whose losses fall, with a validation in every n-th."""
    history = History()
    for epoch in range(1, epochs + 1):
        logs = {"loss": 1 / epoch, "accuracy": (epoch - 1) / epochs, "lr": 1e-5}
        if epoch % every == 0:
            logs["val_loss"] = abs(epoch - 4.5)
        history.on_epoch(MODEL, epoch, logs)
    return history


def test_it_is_a_mapping_of_lists() -> None:
    history = told(4, every=2)
    assert history.epoch == [1, 2, 3, 4]
    assert list(history) == list(history.history) == ["loss", "accuracy", "lr", "val_loss"]
    assert dict(history) == history.history
    assert "loss" in history
    assert "auc" not in history
    assert history["loss"] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert history["val_loss"] == pytest.approx([float("nan"), 2.5, float("nan"), 0.5], nan_ok=True)
    with pytest.raises(KeyError, match="no 'auc'; it has 'loss', 'accuracy', 'lr', 'val_loss'"):
        history["auc"]


def test_best() -> None:
    history = told(7, every=2)
    assert history.best("val_loss") == (4, 0.5)
    assert history.best("val_loss", "max").epoch == 2
    assert history.best("accuracy") == (7, 6 / 7)  # more of it is better
    with pytest.raises(KeyError, match="History has no 'val_los'; it has 'loss',"):
        history.best("val_los")
    with pytest.raises(ValueError, match="mode must be 'auto', 'min' or 'max', got 'up'"):
        history.best("loss", "up")
    history.history["val_loss"] = [float("nan")] * 7
    with pytest.raises(ValueError, match="'val_loss' has no number that is not nan"):
        history.best("val_loss")


def test_as_text() -> None:
    texts = {0.0: "0.0000", 0.00123: "0.00123", 0.5: "0.5000", 102040.75: "102040.8", 2e9: "2e+09"}
    assert {x: number(x) for x in (*texts, -4933.96)} == texts | {-4933.96: "-4934.0"}
    lines = repr(told(12, every=3)).splitlines()
    assert lines[0] == "History of 12 epochs:"
    assert lines[1].split() == ["epoch", "loss", "accuracy", "lr", "val_loss"]
    assert lines[2] == "    1  1.0000    0.0000  1e-05       nan"
    assert [line.split()[0] for line in lines[2:]] == [*"12345", "…", "8", "9", "10", "11", "12"]
    assert repr(History()) == "History of 0 epochs"
    history = told(1)
    history.interrupted = True
    assert repr(history).startswith("History of 1 epoch (interrupted):\n")
    shown = told(2, every=2)._repr_html_()
    assert "<th>val_loss</th>" in shown
    assert "<tr><td>1</td><td>1.0000</td><td>0.0000</td><td>1e-05</td><td>nan</td></tr>" in shown


def test_to_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is missing (scripts/test)")
    frame = told(4, every=2).to_pandas()
    assert list(frame.columns) == ["loss", "accuracy", "lr", "val_loss"]
    assert frame.index.name == "epoch"
    assert frame.loc[4, "val_loss"] == 0.5
    assert frame["val_loss"].count() == 2
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        told(1).to_pandas()
