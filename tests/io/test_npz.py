"""NumPy's archives: what one library writes the other reads, and a file runs nothing."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared import same_bits

import pyframe as pf
from pyframe.io import npz

KINDS = """float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64
complex128""".split()


def arrays() -> dict[str, Any]:
    some = {k: (np.random.RandomState(0).randn(2, 3) * 9).astype(k) for k in KINDS}
    return some | {
        "layer.0/weight": np.ones((1, 2, 3)), "scalar": np.array(2.5), "empty": np.zeros((0, 3)),
        "ä.npy": np.arange(3), "": np.zeros(1), "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
    }  # fmt: skip


def test_both_ways(tmp_path: Path, device: str) -> None:
    path = tmp_path / "x.npz"
    pf.save({name: pf.from_numpy(x) for name, x in arrays().items()}, path)
    with np.load(path, allow_pickle=False) as found:
        same_bits({k: found[k] for k in found.files}, arrays())
    same_bits(pf.load(path), arrays())
    x = pf.arange(6, device=device).float()[1::2]
    pf.save({"x": x, "an array": np.arange(3, dtype=">i4")}, path)
    found = pf.load(path, device)
    assert str(found["x"].device) == device
    assert found["x"].tolist() == [1, 3, 5]
    assert found["an array"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_writes(tmp_path: Path, write: Any) -> None:
    some = arrays() | {"fortran": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))}
    big = {"big": np.arange(5).astype(">f4"), "turned": np.arange(6).reshape(2, 3).astype(">i2").T}
    write(tmp_path / "x.npz", **some, **big)
    native = {k: v.astype(v.dtype.newbyteorder("=")) for k, v in big.items()}
    same_bits(pf.load(tmp_path / "x.npz"), some | native)


def packed(name: str = "x.npy", text: bytes | None = None, **info: Any) -> bytes:
    """An archive of one entry: bytes, or an array with this header and eight bytes."""
    part = io.BytesIO()
    if text is None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2,), **info}
        np.lib.format.write_array_header_1_0(part, header)
        text = part.getvalue() + b"\0" * 8
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(name, text)
    return file.getvalue()


BAD: list[tuple[bytes, str]] = [
    (packed(descr="|O"), r"'x\.npy' holds Python objects, which are a pickle: it was not read"),
    (packed(descr=[("a", "|O"), ("b", "<f4")]), "holds Python objects"),
    (packed(descr="<U2"), r"'x\.npy': can't convert .*type <U2"),
    (packed(descr=[("a", "<f4")]), r"'x\.npy': can't convert"),
    (packed(shape=(1 << 40,)), r"announces 4398046511104 bytes .* it is truncated or not honest"),
    (packed(shape=(1 << 62, 1 << 62)), "announces .* it is truncated"),
    (packed(shape=(3,)), "announces 12 bytes .*truncated|ends after 8 bytes"),
    (packed(shape=(1,)), "is longer than its array of 4 bytes"),
    (packed(shape=(-2,)), "expected sizes"),
    (packed("x.txt"), r"'x\.txt' is no array: expected NAME\.npy"),
    (packed(text=b"\x93NUMPY\x09\x00"), r"format \(9, 0\), expected"),
    (packed(text=b"no array"), "magic string is not correct"),
    (packed(text=b""), "reading magic string"),
    (packed(text=b"\x93NUMPY\x01\x00\xff\xff{" + b"(" * 65534), "x.npz: "),
    (packed()[:-30], "is damaged: File is not a zip file"),
    (b"", "is damaged: File is not a zip file"),
    (b"hello", "is damaged: File is not a zip file"),
]


@pytest.mark.parametrize(("data", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_bad_files(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=said) as caught:
        pf.load(path)
    assert str(caught.value).startswith(f"load: {path}")
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ([pf.ones(1)], "expected a dict of tensors by name, got list"),
        ({"x": 3}, "got int at 'x'; make it a tensor"), ({3: pf.ones(1)}, "got Tensor at 3"),
        ({"x": np.array([None])}, "got ndarray at 'x'"), ({"x": np.array(["a"])}, "can't convert"),
        ({"x": pf.ones(1).bfloat16()}, r"NumPy has no bfloat16, the dtype of 'x'; save x\.float()"),
    ],
)  # fmt: skip
def test_only_tensors_are_saved(tmp_path: Path, obj: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        npz.save(obj, tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []
