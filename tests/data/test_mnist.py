"""MNIST: the samples, the files it takes, and what it says about bad ones."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from data.test_like_torch import plain

import pyframe as pf
from pyframe.data import DataLoader, Subset
from pyframe.vision.datasets import MNIST, FashionMNIST

IMAGES = np.random.RandomState(0).randint(0, 256, (7, 28, 28), np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write(folder: Path, split: str = "train", zipped: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("images-idx3", IMAGES), ("labels-idx1", LABELS)):
        path, data = folder / f"{split}-{name}-ubyte", idx(array)
        if zipped:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
        else:
            path.write_bytes(data)
    return folder


def test_samples(tmp_path: Path) -> None:
    data = MNIST(write(tmp_path))
    assert len(data) == 7
    image, label = data[2]
    assert isinstance(image, pf.Tensor)
    assert (image.dtype, image.shape) == (pf.float32, (1, 28, 28))
    np.testing.assert_array_equal(image.numpy()[0], IMAGES[2].astype(np.float32) / 255)
    assert (type(label), label) == (int, 4)
    assert [label for _, label in data] == LABELS.tolist()
    with pytest.raises(IndexError):
        data[7]

    assert (data.data.dtype, data.targets.dtype) == (pf.uint8, pf.int64)
    np.testing.assert_array_equal(data.data.numpy(), IMAGES)
    np.testing.assert_array_equal(data.images[3].numpy(), data[3][0].numpy())
    assert (data.images.shape, data.images.dtype) == ((7, 1, 28, 28), pf.float32)
    assert data.labels.tolist() == data.targets.tolist() == LABELS.tolist()
    assert (data.classes[7], data.class_to_idx["7 - seven"]) == ("7 - seven", 7)
    assert FashionMNIST.classes[9] == "Ankle boot"


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", ["", "MNIST/raw"])
def test_places_of_the_files(tmp_path: Path, place: str, zipped: bool) -> None:
    write(tmp_path / place, "t10k", zipped)
    assert len(MNIST(tmp_path, train=False)) == 7


def test_transforms(tmp_path: Path) -> None:
    data = MNIST(write(tmp_path), transform=lambda x: x.sum(), target_transform=lambda y: y + 10)
    total, label = data[0]
    np.testing.assert_allclose(total.item(), IMAGES[0].sum() / 255, rtol=1e-5)
    assert label == 13
    x, y = next(iter(DataLoader(data, 3)))
    assert x.shape == (3,)
    assert y.tolist() == [13, 11, 14], "whole batches don't bypass the transforms"


def test_batches_at_once_are_the_collated_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Subset(MNIST(write(tmp_path)), [6, 0, 3, 3, 1])
    slow = plain([*DataLoader(data, 2, collate_fn=lambda some: pf.data.default_collate(some))])
    monkeypatch.setattr(MNIST, "__getitem__", None)
    assert plain([*DataLoader(data, 2)]) == slow


def test_no_files(tmp_path: Path) -> None:
    write(tmp_path, "t10k")
    write(tmp_path / "FashionMNIST" / "raw")
    assert len(FashionMNIST(tmp_path)) == 7
    with pytest.raises(RuntimeError, match="download=True") as caught:
        MNIST(tmp_path)
    text = str(caught.value)
    assert "no train-images-idx3-ubyte and train-labels-idx1-ubyte (or .gz) in" in text
    assert f"{tmp_path / 'MNIST' / 'raw'} or {tmp_path}." in text


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    write(tmp_path)
    labels, images = (tmp_path / f"train-{n}-ubyte.gz" for n in ("labels-idx1", "images-idx3"))
    for path, array, words in (
        (labels, LABELS[:5], r"labels.*shape \[5\], expected a label for each .*\(7,\)"),
        (images, LABELS, r"images.*uint8 of shape \[7\], expected images"),
    ):
        path.write_bytes(gzip.compress(idx(array)))
        with pytest.raises(ValueError, match=words):
            MNIST(tmp_path)


def test_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "mirror")
    mirror = f"{folder.as_uri()}/"
    sums = {p.stem: hashlib.md5(p.read_bytes()).hexdigest() for p in folder.iterdir()}
    monkeypatch.setattr(MNIST, "mirrors", (f"{mirror}elsewhere/", mirror))
    monkeypatch.setattr(MNIST, "md5", sums)
    root = tmp_path / "data"
    assert MNIST(root, download=True).labels.tolist() == LABELS.tolist()
    raw = root / "MNIST" / "raw"
    assert sorted(p.name for p in raw.iterdir()) == sorted(f"{name}.gz" for name in sums)
    monkeypatch.setattr(MNIST, "mirrors", ())
    assert len(MNIST(root, download=True)) == 7, "what is there is not fetched again"
    (raw / "train-labels-idx1-ubyte.gz").unlink()
    monkeypatch.setattr(MNIST, "mirrors", (mirror,))
    assert len(MNIST(root, download=True)) == 7, "only what is missing is fetched"
