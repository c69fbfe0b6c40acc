"""safetensors files: the reference package's, byte for byte, and what is said about bad ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared import same_bits

import pyframe as pf
from pyframe.io import SafetensorError, safetensors as ours

DTYPES = (
    "float64 float32 float16 int64 uint64 uint32 uint16 int32 int16 int8 uint8 bool complex64"
).split()


@pytest.fixture
def reference() -> Any:
    return pytest.importorskip("safetensors.numpy", reason="the reference package is missing")


def arrays() -> dict[str, np.ndarray]:
    """One array of each dtype, and the shapes and names that are easy to get wrong."""
    random = np.random.RandomState(0)
    some = {d: (random.randn(2, 3) * 9).astype(d) for d in DTYPES}
    return some | {
        "b.weight": np.ones((1, 2, 3, 4), np.float32),
        "a.weight": np.arange(5, dtype=np.float32),
        "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((3, 0, 2), np.float32),
        "nan": np.array([np.nan, -np.inf, -0.0], np.float32),
        'größe "[{[{[{x"\n\\': np.array([1], np.int8),
        "": np.array([True]),
    }


def tensors() -> dict[str, pf.Tensor]:
    return {name: pf.from_numpy(a) for name, a in arrays().items()}


def packed(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(begin: int, end: int, shape: Any = None, dtype: Any = "U8") -> dict[str, Any]:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# --- whole files


def test_a_file_and_its_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    pf.save(tensors(), path)
    same_bits(pf.load(path), arrays())
    ours.save_file(tensors(), path, {"by": "a test"})
    data = ours.save(tensors(), {"by": "a test"})
    assert path.read_bytes() == data
    same_bits(ours.load(data), arrays())
    assert ours.load_metadata(path) == {"by": "a test"}
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "no other file is left"
    assert ours.load(ours.save({})) == {}


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {}])
def test_writes_what_the_reference_writes(reference: Any, metadata: Any) -> None:
    """To the byte, so that each reads the other's."""
    assert ours.save(tensors(), metadata) == reference.save(arrays(), metadata)
    if metadata != {}:
        assert ours.save({}, metadata) == reference.save({}, metadata)


def test_bfloat16_both_ways(reference: Any, torch: Any) -> None:
    from safetensors.torch import load, save

    x = torch.randn(3, 4).bfloat16()
    (y,) = ours.load(save({"x": x})).values()
    assert y.dtype is pf.bfloat16
    np.testing.assert_array_equal(y.float().numpy(), x.float().numpy())
    (z,) = load(ours.save({"x": y.t()})).values()
    assert z.dtype is torch.bfloat16
    assert torch.equal(z, x.t())


def test_unaligned_files_can_be_read() -> None:
    header = {"x": entry(0, 3), "y": entry(3, 11, [2], "F32")}
    data = bytes([7, 8, 9]) + np.array([1.5, 2.5], "<f4").tobytes()
    for padding in range(8):
        text = json.dumps(header).encode() + b" " * padding
        loaded = ours.load(packed(text, data))
        assert [t.tolist() for t in loaded.values()] == [[7, 8, 9], [1.5, 2.5]]


def test_any_nonzero_byte_is_true() -> None:
    (x,) = ours.load(packed({"x": entry(0, 3, dtype="BOOL")}, b"\0\1\2")).values()
    assert x.tolist() == [False, True, True]
    assert (x.numpy().view(np.uint8) <= 1).all()


def test_views_and_leaves_are_saved_as_they_look() -> None:
    x = pf.arange(6).reshape(2, 3)
    loaded = ours.load(ours.save({"t": x.t(), "row": x[1], "w": pf.ones(2, requires_grad=True)}))
    assert loaded["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert loaded["row"].tolist() == [3, 4, 5]
    assert not loaded["w"].requires_grad


def test_devices_and_await_twins(device: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    some = {"x": pf.arange(4, device=device), "w": pf.ones(2, device=device, requires_grad=True)}
    asyncio.run(pf.io.save_async(some, path))
    assert path.read_bytes() == ours.save(some) == asyncio.run(ours.save_async(some))
    loaded = pf.load(path, device)
    assert {str(t.device) for t in loaded.values()} == {device}
    assert loaded["x"].dtype is pf.int64
    loaded["w"] += 1  # each has memory of its own
    assert (loaded["x"].tolist(), loaded["w"].tolist()) == ([0, 1, 2, 3], [2, 2])
    assert {str(t.device) for t in pf.load(path).values()} == {"cpu"}


# --- bad input


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (pf.zeros(1), "expected a dict of tensors by name, got Tensor.*save its state_dict"),
        ({"x": np.zeros(1)}, "got ndarray at 'x'"),
        ({"epoch": 3}, "got int at 'epoch'; make it a tensor, or put text into metadata"),
        ({3: pf.zeros(1)}, "got Tensor at 3"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_only_tensors_are_saved(obj: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        pf.save(obj, tmp_path / "file.safetensors")
    with pytest.raises(TypeError, match=message):
        asyncio.run(ours.save_async(obj))
    assert list(tmp_path.iterdir()) == []


def test_names_and_metadata_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'__metadata__' is the format's own name"):
        ours.save({"__metadata__": pf.zeros(1)})
    with pytest.raises(TypeError, match="metadata is text by name, got 'epoch': 3"):
        ours.save_file({}, tmp_path / "file", {"epoch": 3})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("half", ["\ud800", "x\udfff", "a\udc80b"])
def test_lone_surrogates_are_no_text(half: str, tmp_path: Path) -> None:
    some: Any = [({half: pf.zeros(1)}, None), ({}, {half: "x"}), ({}, {"x": half})]
    for tensors_, metadata in some:
        with pytest.raises(ValueError, match=r"save: the .* holds a lone surrogate"):
            ours.save_file(tensors_, tmp_path / "file", metadata)
    assert list(tmp_path.iterdir()) == []
    for header in ({half: X}, {"x": X, "__metadata__": {half: ""}}, {"__metadata__": {"x": half}}):
        with pytest.raises(SafetensorError, match="header is not valid JSON: the text .* lone sur"):
            ours.load(packed(header, b"1234"))
    assert ours.load(packed({"\U0001f600": X}, b"1234")), "a pair is one character"


X = entry(0, 4)
BAD: list[tuple[bytes, str]] = [
    (b"", "the file is empty, expected the 8 bytes of the header's length"),
    (b"\2\0\0", "truncated: 3 bytes"),
    (b"\x09\0\0\0\0\0\0\0{}", "header of 9 bytes is announced, expected at most 2 in 10 bytes"),
    (b"\xff" * 20, f"header of {2**64 - 1} bytes is announced, expected at most 12 in 20 bytes"),
    (b"PK\x03\x04" + b"\0" * 40, "a zip file, as torch.save writes.*pf.io.pt.load"),
    (packed(b"{]"), "the header is not valid JSON: Expecting property name"),
    (packed(b"[]"), r"not valid JSON: it starts with b'\[\]', expected \{"),
    (packed(b' {"a": 1}'), "not valid JSON: it starts with"),
    (packed(b'{"x": NaN}'), "not valid JSON: NaN is not JSON"),
    (packed(b'{"x":{"x":{"x":{}}}}'), "not valid JSON: it is nested more than 3 levels deep"),
    (packed(b'{"x":' + b"9" * 5000 + b"}"), "not valid JSON"),
    (packed({"__metadata__": {"a": 1}}), "__metadata__ is not text by name: {'a': 1}"),
    (packed({"x": 3}), "'x': expected an object with dtype, shape and data_offsets, got 3"),
    (packed({"x": {**X, "more": 1}}, b"1234"), "expected an object with dtype, shape and"),
    (packed({"x": entry(0, 4, dtype="F4")}, b"1234"), "unknown dtype 'F4', expected one of U64"),
    (packed({"x": entry(0, 4, dtype="F8_E4M3")}, b"1234"), "dtype F8_E4M3, which pyframe lacks"),
    (packed({"x": entry(0, 4, dtype=[])}, b"1234"), r"unknown dtype \[\], expected one of"),
    (packed({"x": entry(0, 4, [-4])}, b"1234"), r"shape \[-4\], expected a list of"),
    (packed({"x": entry(0, 4, [True, 4])}, b"1234"), r"shape \[True, 4\], expected a list of"),
    (packed({"x": entry(0, 1, [1] * 33)}, b"1"), r"expected a list of at most 32 sizes"),
    (packed({"x": entry(0, 0, [0, 2**62, 2**62])}), "too large for this machine"),
    (packed({"x": entry(0, 0, [0, 2**64])}), "expected a list of"),
    (packed({"x": {**X, "data_offsets": [-1, 3]}}, b"1234"), r"data_offsets \[-1, 3\], expected"),
    (packed({"x": {**X, "data_offsets": None}}, b"1234"), r"data_offsets None, expected"),
    (packed({"x": entry(0, 4, [5])}, b"1234"), r"hold 4 bytes, expected 5 for U8 of shape \[5\]"),
    (packed({"x": entry(4, 0, [4])}, b"1234"), r"\[4, 0\] hold -4 bytes, expected 4"),
    (packed({"x": entry(0, 4, [2], "F32")}, b"1234"), "hold 4 bytes, expected 8 for F32"),
    (packed({"x": X, "y": entry(2, 6)}, b"123456"), "'y' begins at byte 2 .*expected 4: .*overlap"),
    (packed({"x": X, "y": X}, b"1234"), "'y' begins at byte 0 .*, expected 4: the tensors overlap"),
    (packed({"x": X, "y": entry(5, 6)}, b"123456"), "'y' begins at byte 5 .*expected 4: .* a hole"),
    (packed({"x": entry(1, 5)}, b"12345"), "'x' begins at byte 1 of the data, expected 0"),
    (packed({"x": X}, b"123"), "3 bytes of data, expected 4: the file is truncated"),
    (packed({"x": X}, b"12345"), "5 bytes of data, expected 4: the file is longer than its "),
    (packed({}, b"1"), "1 bytes of data, expected 0: the file is longer"),
]  # fmt: skip


# Of each so much that it takes minutes where a part of it is looked at again and again.
MANY = 300_000
HOSTILE: list[tuple[bytes, str]] = [
    (b'{"' + b"\\" * MANY, "Unterminated string"),
    (b'{"' + b'\\"' * (MANY // 2), "Unterminated string"),
    (b'{"' + b'\\"' * (MANY // 2) + b'":1}', "expected an object with dtype"),
    (b'{"' + b"\\u" * (MANY // 2), "Invalid"),
    (b"{" + b'"' * MANY, "Expecting"),
    (b"{" * MANY, "it is nested more than 3 levels deep"),
    (b'{"x":' + b"[" * MANY, "it is nested more than 3 levels deep"),
    (b'{"x":[' + b"[]," * (MANY // 3) + b"[]]}", "expected an object with dtype"),
    (b'{"x":' + b"9" * MANY + b"}", "not valid JSON"),
    (b'{"x":0.' + b"9" * MANY + b"}", "expected an object with dtype"),
    (b"{" + b" \n\t\r" * (MANY // 4) + b"]", "Expecting"),
    (b"{" + b'"x":1,' * (MANY // 6) + b'"x":1}', "a name that is there twice"),
    (b'{"x":{' + b'"x":1,' * (MANY // 6) + b'"x":1}}', "a name that is there twice"),
    (b'{"' + b"\xff" * MANY, "'utf-8' codec can't decode"),
    (b'{"' + b"\0" * MANY, "Invalid control character"),
    (b'{"' + b"n" * MANY + b'":1}', "expected an object with dtype"),
    (json.dumps({"x": entry(0, 4, [1] * 1000)}).encode(), "expected a list of at most 32 sizes"),
]


@pytest.mark.parametrize(("header", "message"), HOSTILE, ids=[repr(h[:20]) for h, _ in HOSTILE])
def test_hostile_headers(header: bytes, message: str) -> None:
    with pytest.raises(SafetensorError, match=message) as caught:
        ours.load(packed(header))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("data", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_bad_files(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    with pytest.raises(SafetensorError, match=f"{path}: .*{message}"):
        pf.load(path)
    with pytest.raises(SafetensorError, match=f"the data: .*{message}"):
        ours.load(data)


def test_huge_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    with open(path, "wb") as file:
        file.write((200_000_000).to_bytes(8, "little"))
        file.truncate(200_000_100)  # sparse: takes no room
    words = "200000000 bytes is announced, expected at most 1000"
    with pytest.raises(ValueError, match=words) as caught:
        pf.load(path)
    assert caught.type is SafetensorError
    with pytest.raises(FileNotFoundError):
        pf.load(tmp_path / "nothing")
