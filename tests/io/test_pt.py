"""PyTorch's files: what one framework writes the other reads, and a file runs nothing."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, optim
from pyframe.io import pt

KINDS = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()


def checkpoint(t: Any, n: Any, o: Any) -> dict[str, Any]:
    """What programs save, made with either framework."""
    net = n.Sequential(n.Linear(3, 4), n.Linear(4, 3))
    optimizer = o.Adam(net.parameters(), lr=0.1)
    net(t.ones(2, 3)).sum().backward()
    optimizer.step()
    a = t.arange(12.0).view(3, 4)
    return {
        "net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5,
        "names": ["a", None, (1, 2.5)], "a": a, "a.t": a.t()[1:], "p": net[0].weight,
        "empty": t.zeros(0, 3), "scalar": t.tensor(7), "dtype": t.float16, "size": t.Size([1, 2]),
        "kinds": {k: t.tensor([0, 1, 2]).to(getattr(t, k)) for k in KINDS},
        "order": OrderedDict(z=1, y=2),
    }  # fmt: skip


def plain(x: Any) -> Any:
    """An object without its framework."""
    if hasattr(x, "tolist"):
        return str(x.dtype).split(".")[1], list(x.shape), x.requires_grad, x.tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return str(x).split(".")[-1]


def test_what_torch_writes(torch: Any, tmp_path: Path) -> None:
    theirs = checkpoint(torch, torch.nn, torch.optim)
    torch.save(theirs, tmp_path / "x.pt")
    ours = pf.load(tmp_path / "x.pt")
    assert plain(ours) == plain(theirs)
    assert ours["a"]._storage is ours["a.t"]._storage
    assert isinstance(ours["p"], nn.Parameter)
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    net.load_state_dict(ours["net"])
    optimizer = optim.Adam(net.parameters())
    optimizer.load_state_dict(ours["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_what_torch_reads(torch: Any, device: str, tmp_path: Path) -> None:
    ours = checkpoint(pf, nn, optim)
    ours["a"] = ours["a"].to(device)
    ours["a.t"] = ours["a"].t()[1:]
    pf.save(ours, tmp_path / "x.pt")
    theirs = torch.load(tmp_path / "x.pt", weights_only=True, map_location="cpu")
    assert plain(theirs) == plain(ours)
    shared = {theirs[k].untyped_storage().data_ptr() for k in ("a", "a.t")}
    assert len(shared) == 1
    pf.save({k: ours[k] for k in ("a", "a.t", "net")}, tmp_path / "y.pt")
    again = pf.load(tmp_path / "y.pt", map_location=device)
    assert plain(again) == {k: plain(ours[k]) for k in again}
    assert str(again["a"].device) == device


def test_a_whole_module_and_a_file_object() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    net[0].register_buffer("mask", pf.ones(2), persistent=False)
    file = io.BytesIO()
    pf.save(net, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="names pyframe.nn.modules.container.Seq"):
        pf.load(file)
    file.seek(0)
    again = pf.load(file, weights_only=False)
    x = pf.randn(2, 3)
    assert again(x).tolist() == net(x).tolist()
    assert again[0].mask.tolist() == [1, 1]
    with pt.safe_globals([nn.Sequential, (nn.Linear, "pyframe.nn.modules.linear.Linear"), nn.ReLU]):
        file.seek(0)
        assert pf.load(file)(x).tolist() == net(x).tolist()
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="nothing was run"):
        pf.load(file)
    assert pt.get_safe_globals() == []


def test_tied_tensors_stay_tied() -> None:
    file = io.BytesIO()
    x = pf.zeros(3)
    pf.save({"a": x, "b": x, "c": x[1:]}, file)
    file.seek(0)
    again = pf.load(file)
    again["a"].fill_(5)
    assert again["b"].tolist() == [5, 5, 5]
    assert again["c"].tolist() == [5, 5]


def archive(text: bytes, storage: bytes = b"\0" * 8) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", text)
        z.writestr("archive/data/0", storage)
        z.writestr("archive/version", "3\n")
    file.seek(0)
    return file


class Evil:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def tensor_text(offset: int, size: tuple[int, ...], stride: tuple[int, ...], count: int) -> bytes:
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
        + pickle.dumps(count, 2)[2:-1]
        + b"tQ"
        + b"".join(pickle.dumps(v, 2)[2:-1] for v in (offset, size, stride, False))
        + b"}tR."
    )


def test_what_a_file_may_not_do(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    calls = [
        Evil(os.system, f"touch {mark}"), Evil(exec, "1"), Evil(getattr, "", "join"),
        Evil(pickle.loads, b"."), Evil(np.zeros, 3),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(pickle.UnpicklingError, match="nothing was run"):
            pf.load(archive(pickle.dumps({"x": call}, 2)))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (tensor_text(0, (2,), (1,), 2), None, ""),
        (tensor_text(1, (2,), (1,), 2), pickle.UnpicklingError, "does not fit its storage of 2"),
        (tensor_text(0, (2,), (-1,), 2), pickle.UnpicklingError, "does not fit"),
        (tensor_text(0, (10**12, 10**12), (0, 1), 2), pickle.UnpicklingError, "does not fit"),
        (tensor_text(0, (2,), (1,), 3), RuntimeError, "storage 0 of 3 .* has 8 bytes"),
        (b"\x80\x02(", RuntimeError, "damaged"),
        (b"", RuntimeError, "damaged"),
        (b"\x80\x02X\x01\0\0\x000Q.", pickle.UnpicklingError, "no storage"),
    ],
)
def test_a_damaged_file(text: bytes, error: Any, said: str) -> None:
    if error is None:
        assert pf.load(archive(text)).tolist() == [0, 0]
        return
    with pytest.raises(error, match=said):
        pf.load(archive(text))


def test_no_file_of_torchs(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no file of torch\.save"):
        pf.load(io.BytesIO(b"hello"))
    with pytest.raises(AttributeError, match="expected a path or a file open for reading, got 3"):
        pf.load(3)  # type: ignore[arg-type]
    (tmp_path / "old.pt").write_bytes(pickle.dumps({}, 2))
    with pytest.raises(RuntimeError, match=r"is a pickle, and no file of torch\.save"):
        pf.load(tmp_path / "old.pt")


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    pf.save({"x": pf.arange(5.0)}, path)
    whole = path.read_bytes()
    for n in range(0, len(whole), 37):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            pf.load(io.BytesIO(whole[:n]))
