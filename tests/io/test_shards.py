"""Sets of safetensors files with their index: whole at any moment, read by all their names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyframe as pf
from pyframe.io import SafetensorError, describe, safe_open, safetensors as ours

NAME = "model.safetensors"
INDEX = f"{NAME}.index.json"


def weights(value: float, count: int = 5) -> dict[str, pf.Tensor]:
    """Of 64 bytes each."""
    return {f"layer.{i}": pf.full((4, 4), float(value + i)) for i in range(count)}


def save(folder: Path, value: float, shards: int, count: int = 6) -> None:
    size = 64 * count // shards if shards > 1 else 1 << 20
    pf.save(weights(value, count), folder / NAME, max_shard_size=size)


def values(found: dict[str, pf.Tensor]) -> dict[str, float]:
    return {name: x.mean().item() for name, x in sorted(found.items())}


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("size", [130, "130B", "0.13KB"])
def test_a_set_is_as_hugging_faces(tmp_path: Path, size: Any) -> None:
    pf.save(weights(1), tmp_path / NAME, max_shard_size=size)
    shards = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert names(tmp_path) == [*shards, INDEX]
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"] == {"total_size": 320}
    assert index["weight_map"] == {f"layer.{i}": shards[i // 2] for i in range(5)}
    for shard in shards:
        assert set(ours.load_file(tmp_path / shard)) == {
            n for n, s in index["weight_map"].items() if s == shard
        }
    for path in (tmp_path, tmp_path / NAME, tmp_path / INDEX, str(tmp_path)):
        for mmap in (False, True):
            assert values(pf.load(path, mmap=mmap)) == values(weights(1))


def test_what_fits_is_one_file(tmp_path: Path) -> None:
    pf.save(weights(1), tmp_path / NAME, max_shard_size="1KiB")
    assert names(tmp_path) == [NAME]
    pf.save({}, tmp_path / "empty.safetensors", max_shard_size=1)
    assert pf.load(tmp_path / "empty.safetensors") == {}


class Killed(BaseException):
    pass


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (3, 1)], ids=lambda n: f"{n} files")
def test_killed_at_any_moment(
    tmp_path: Path, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was done to the folder, a whole set is found: the old one or the new one."""
    moments: list[str] = []

    def spied(call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            if len(moments) >= stop:  # nor is anything tidied up
                raise Killed
            moments.append(call.__name__)
            return call(*args, **options)

        return count

    for name in ("replace", "unlink"):
        monkeypatch.setattr(os, name, spied(getattr(os, name)))
    seen = set()
    for last in range(40):
        stop = last
        folder = tmp_path / str(last)
        folder.mkdir()
        moments, stop = [], 1000
        save(folder, 0, before)
        save(folder, 10, before)  # the second set has other names than the first
        moments, stop = [], last
        try:
            save(folder, 20, after)
        except Killed:
            found = values(pf.load(folder / NAME))
            assert found in (values(weights(10, 6)), values(weights(20, 6)))
            seen.add(found["layer.0"])
            stop = 1000
            save(folder, 30, after)
        else:
            assert values(pf.load(folder / NAME)) == values(weights(20, 6))
            break
        assert values(pf.load(folder)) == values(weights(30, 6))
        assert len(names(folder)) == (1 if after == 1 else after + 1), "nothing is left over"
    assert last > 0
    assert 10 in seen


def test_files_of_others_stay(tmp_path: Path) -> None:
    pf.save(weights(5), tmp_path / "other.safetensors")
    other = {"weight_map": dict.fromkeys(weights(5), "other.safetensors")}
    (tmp_path / INDEX).write_text(json.dumps(other))
    assert values(pf.load(tmp_path / NAME)) == values(weights(5))
    save(tmp_path, 1, 3)
    assert "other.safetensors" in names(tmp_path)


def test_headers_alone(tmp_path: Path) -> None:
    tensors = {"a": pf.zeros(2, 3), "b": pf.ones(5).bfloat16(), "c": pf.tensor(True)}
    ours.save_file(tensors, tmp_path / NAME, {"by": "a test"})
    for path in (tmp_path / NAME, tmp_path):
        found = describe(path)
        assert found.metadata == {"by": "a test"}
        assert found.tensors["a"] == ("F32", (2, 3), 24, NAME)
        assert found.tensors["b"] == ("BF16", (5,), 10, NAME)
        assert found.tensors["c"] == ("BOOL", (), 1, NAME)
        assert (found.nbytes, found.numel) == (35, 12)
        assert found.files == {NAME: (tmp_path / NAME).stat().st_size}
    ours.save_file(tensors, tmp_path / NAME, {"by": "a test"}, max_shard_size=30)
    again = describe(tmp_path)
    assert {n: info[:3] for n, info in again.tensors.items()} == {
        n: info[:3] for n, info in found.tensors.items()
    }
    assert len(again.files) == 2
    assert again.metadata == found.metadata


def test_one_tensor_at_a_time(tmp_path: Path, device: str) -> None:
    pf.save({"w": pf.arange(12.0).reshape(4, 3), "h": pf.ones(3).bfloat16(),
             "b": pf.tensor([True, False])}, tmp_path / NAME)  # fmt: skip
    for mmap in (False, True):
        with safe_open(tmp_path / NAME, framework="pt", device=device, mmap=mmap) as file:
            assert file.keys() == ["b", "h", "w"]
            assert file.offset_keys() == ["w", "h", "b"]
            assert file.metadata() is None
            w, part = file.get_tensor("w"), file.get_slice("w")
            assert w.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
            assert str(w.device) == device
            assert (part.get_shape(), part.get_dtype()) == ([4, 3], "F32")
            assert part[1:3, 2].tolist() == [5, 8]
            assert part[-1].tolist() == [9, 10, 11]
            assert file.get_slice("h")[1:].tolist() == [1, 1]
            assert file.get_slice("h")[1:].dtype is pf.bfloat16
            assert file.get_slice("b")[1].tolist() is False
            with pytest.raises(SafetensorError, match="there is no 'v', but w, h, b"):
                file.get_tensor("v")
        assert w.tolist()[3] == [9, 10, 11], "closing the file leaves the pages"


def test_a_file_that_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    """What is read is what was opened."""
    save(tmp_path, 1, 1)
    with safe_open(tmp_path / NAME) as file:
        pf.save({"layer.5": pf.ones(7), "other": pf.ones(3)}, tmp_path / NAME)
        assert values({n: file.get_tensor(n) for n in file.offset_keys()}) == values(weights(1, 6))
    assert sorted(pf.load(tmp_path / NAME)) == ["layer.5", "other"]


def test_a_set_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, 3)
    read, seen = ours._read_index, []

    def late(path: str) -> Any:
        found = read(path)
        if not seen:
            seen.append(path)
            save(tmp_path, 2, 2)
        return found

    monkeypatch.setattr(ours, "_read_index", late)
    assert values(pf.load(tmp_path)) == values(weights(2, 6))


# --- bad input


def index(**changes: Any) -> str:
    good = {f"layer.{i}": f"model-0000{1 + i // 2}-of-00003.safetensors" for i in range(6)}
    return json.dumps({"metadata": {}, "weight_map": good | changes})


BAD: list[tuple[str, str]] = [
    *[
        (index(x=name), f"'x' is to be in {name!r}: expected the name of a .safetensors beside")
        for name in ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "x.pt",
                     "..\\x.safetensors", "C:x.safetensors", "x\0.safetensors", 3, None]
    ],
    (index(x="model-00001-of-00003.safetensors"), "'x' is to be in model-00001-of-00003.safetens"),
    ("{}", "expected an object with weight_map"),
    ('{"weight_map": []}', "expected an object with weight_map"),
    ("[]", "the index is not valid JSON: it starts with"),
    ('{"weight_map": {"a": "b", "a": "c"}}', "a name that is there twice"),
    ('{"weight_map": ' + "[" * 100_000, "nested more than 3 levels deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text[-60:] for text, _ in BAD])
def test_bad_index(tmp_path: Path, text: str, message: str) -> None:
    save(tmp_path, 1, 3)
    (tmp_path / INDEX).write_text(text)
    for read in (pf.load, describe, safe_open):
        with pytest.raises(SafetensorError, match=f"{INDEX}: .*{re.escape(message)}"):
            read(tmp_path)  # type: ignore[operator]


def test_bad_shards(tmp_path: Path) -> None:
    save(tmp_path, 1, 3)
    second = tmp_path / "model-00002-of-00003.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:-1])
    with pytest.raises(SafetensorError, match=f"{second.name}: 127 bytes of data, expected 128"):
        pf.load(tmp_path)
    second.unlink()
    with pytest.raises(FileNotFoundError, match=rf"{INDEX} names it and it is missing.*{second}"):
        pf.load(tmp_path)
    (tmp_path / INDEX).unlink()
    with pytest.raises(FileNotFoundError, match=r"expected one \.safetensors .* found none"):
        pf.load(tmp_path)
    pf.save(weights(1), tmp_path / "a.safetensors")
    pf.save(weights(1), tmp_path / "b.safetensors")
    with pytest.raises(FileNotFoundError, match=r"found a\.safetensors, b\.safetensors"):
        pf.load(tmp_path)


def test_bad_sizes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"makes a set of \.safetensors files, got .*x\.pt"):
        pf.save(weights(1), tmp_path / "x.pt", max_shard_size="2GB")
    sizes: list[Any] = [0, -1, True, "2", "GB", "2 PB", "", 1.5]
    for size in sizes:
        with pytest.raises(ValueError, match="max_shard_size is bytes or a text such as '2GB'"):
            pf.save(weights(1), tmp_path / NAME, max_shard_size=size)
    assert names(tmp_path) == []
