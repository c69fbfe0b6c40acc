"""Files of others: programs of pickles, archives, headers and images that are wrong on purpose.

What reads them is a process of its own (`reading.py`, and `playing.mjs` for program.json), with
bounds of memory and time, in which nothing may be run and no other file opened.
"""

from __future__ import annotations

import base64
import bz2
import functools
import gzip
import io
import json
import lzma
import os
import pickle
import select
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf

from .check import FailureError
from .families import Draw, family

HERE = Path(__file__).parent
PATIENCE = 60  # seconds after which a reader waits for something that does not come
SUFFIX = {"file": ".pt", "mapped": ".pt", "outline": ".pt", "index": ".safetensors.index.json",
          "image": ".jpg", "idx": "", "tokenizer": ".json", "template": ".jinja",
           "program": ".json", "jit": ".jit"}  # fmt: skip


class Reader:
    """A process that reads files; one that ends is started anew."""

    def __init__(self, *command: str, each: int = 1 << 30) -> None:
        self.command = command
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.process: Any = None
        self.left = self.each = each  # files until a process has compiled enough

    def ask(self, name: str, format: str, data: bytes) -> dict[str, Any]:
        """What came of a file: {"error", "wrong"}."""
        room = self.folder / "room"
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir()
        path = self.folder / name
        path.write_bytes(data)
        self.left -= 1
        if self.process is not None and not self.left:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
        if self.process is None:
            self.left = self.each
            self.process = subprocess.Popen(self.command, stdin=-1, stdout=-1, cwd=self.folder)
        ask = json.dumps({"format": format, "path": str(path), "room": str(room)})
        why = ""
        try:
            self.process.stdin.write(f"{ask}\n".encode())
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                why = "waits without end"
                self.process.kill()
            line = self.process.stdout.readline()
            if line:
                return json.loads(line)
        except BrokenPipeError:
            pass
        code = self.process.wait()
        self.process = None
        return {"error": "", "wrong": [why or f"ended with status {code}"]}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def readers() -> dict[str, Reader]:
    """The processes by what they read: all but "program" are Python's."""
    import atexit

    command = sys.executable, str(HERE / "reading.py")
    found = {"": Reader(*command), "jit": Reader(*command, each=80)}
    node = shutil.which("node")
    if node:
        found["program"] = Reader(node, "--max-old-space-size=512", str(HERE / "playing.mjs"))
    for reader in found.values():
        atexit.register(reader.close)
    (found[""].folder / "y.safetensors").write_bytes(WEIGHTS)
    (found[""].folder / "z.safetensors").mkdir()
    os.mkfifo(found[""].folder / "pipe.safetensors")
    from . import language_files

    for format, good in (
        GOOD | language_files.good()
    ).items():  # what is imported late is there from now on
        answer = found[""].ask(f"good{SUFFIX.get(format, '.' + format)}", format, good)
        assert not answer["error"], answer
    for name in ("good.tar.gz", "good.tar.bz2", "good.tar.xz"):
        found[""].ask(name, "archive", b"")
    return found


@dataclass(frozen=True)
class File:
    """A file: its parts, what is made of them, and what is changed in that: (place, how many bytes
    go, what comes)."""

    format: str
    parts: tuple[bytes, ...]
    wrap: Callable[[bytes], bytes]
    suffix: str = ""
    changes: tuple[tuple[int, int, bytes], ...] = ()

    def name(self) -> str:
        """What it is called, as the format has it."""
        return f"x{self.suffix or SUFFIX.get(self.format, f'.{self.format}')}"

    def data(self) -> bytes:
        """The bytes."""
        data = bytearray(self.wrap(b"".join(self.parts)))
        for place, gone, come in self.changes:
            place %= len(data) + 1
            data[place : place + gone] = come
        return bytes(data)

    def check(self, backend: Any) -> bool:
        """Have it read. Whether it is a good one."""
        found = readers()
        reader = found.get(self.format, found[""])
        answer = reader.ask(self.name(), self.format, self.data())
        if answer["wrong"]:
            raise FailureError(answer["wrong"][0].split(" ")[0], "; ".join(answer["wrong"]))
        return not answer["error"]

    def smaller(self) -> Iterator[File]:
        """Files with fewer parts and changes."""
        for field in ("parts", "changes"):
            whole = getattr(self, field)
            size = len(whole) // 2 if len(whole) > 1 else 0
            while size:
                for at in range(0, len(whole), size):
                    yield replace(self, **{field: whole[:at] + whole[at + size :]})
                size //= 2

    def text(self, backend: Any) -> str:
        """How it is read again."""
        packed = base64.b85encode(zlib.compress(self.data(), 9)).decode()
        return (f"# parts {self.parts!r:.1500}\nimport base64, zlib\nopen({self.name()!r}, 'wb').write("
                f"zlib.decompress(base64.b85decode({packed!r})))\n# and read it as {self.format}: "
                "FORMATS in scripts/fuzz/reading.py")  # fmt: skip


# --- pickles

TEXTS = [
    "storage", "cpu", "cuda:0", "0", "1", "a", "b", "_metadata", "note", "__array_interface__",
    "__array_struct__", "__class__", "__dict__", "__setstate__", "__reduce__", "__len__", "conj",
    "neg", "torch.strided", "latin1", "_storage", "data", "grad", "touch ran", "", "x" * 3000,
]  # fmt: skip
NAMES = [
    "collections OrderedDict", "collections defaultdict", "collections Counter", "builtins list",
    "builtins dict", "builtins set", "builtins frozenset", "builtins bytearray", "builtins bytes",
    "builtins complex", "builtins int", "builtins tuple", "__builtin__ set", "_codecs encode",
    "torch FloatStorage", "torch ComplexFloatStorage", "torch BoolStorage", "torch UntypedStorage",
    "torch.storage UntypedStorage", "torch float32", "torch uint16", "torch Size", "torch device",
    "torch Tensor", "torch.nn.parameter Parameter", "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
    "torch._tensor _rebuild_from_type_v2", "torch.serialization _get_layout",
    "os system", "builtins eval", "builtins getattr", "copyreg _reconstructor", "numpy load",
    "functools partial", "torch load", "pyframe.io.pt load", "collections OrderedDict.__init__",
]  # fmt: skip
NUMBERS = [
    0, 1, 2, 2, 3, 4, -1, 6, 64, 65, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 33, (1 << 62) + 1,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 61) - 1, 10**40, 10**3000, 1 << 200_000,
]  # fmt: skip
KINDS = {"0": ("FloatStorage", 6), "1": ("ComplexFloatStorage", 3), "2": ("UntypedStorage", 24)}


def number(n: int) -> bytes:
    """An int as an instruction."""
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if -(1 << 31) <= n < 1 << 31:
        return b"J" + struct.pack("<i", n)
    data = pickle.encode_long(n)
    return (b"\x8a" + bytes([len(data)]) if len(data) < 256 else
            b"\x8b" + struct.pack("<i", len(data))) + data  # fmt: skip


def words(text: str) -> bytes:
    """A text as an instruction."""
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


class Pickled:
    """Draws the instructions of a pickle."""

    def __init__(self, d: Draw) -> None:
        self.d, self.ops, self.kept = d, [b"\x80\x04"], 0

    def put(self, *ops: bytes) -> None:
        """More instructions."""
        self.ops.extend(ops)

    def number(self) -> None:
        """An int, mostly a small one."""
        self.put(number(self.d.pick(*(NUMBERS if self.d.maybe(0.2) else (0, 1, 1, 2, 3, 4, 6)))))

    def name(self, name: str) -> None:
        """What is named."""
        module, last = name.split(" ")
        if self.d.maybe(0.8):
            self.put(f"c{module}\n{last}\n".encode())
        else:
            self.put(words(module), words(last), b"\x93")

    def storage(self) -> None:
        """A reference to one of the storages, or to nothing."""
        d = self.d
        key = d.pick("0", "0", "1", "2")
        kind, count = KINDS[key]
        if d.maybe(0.06):
            kind = d.pick("FloatStorage", "ByteStorage", "HalfStorage", "BoolStorage")
        self.put(b"(", words("storage"))
        self.name(f"torch {kind}")
        self.put(words(key if d.maybe(0.96) else d.pick(*TEXTS)), words(d.pick("cpu", "cuda:0")))
        self.put(number(count if d.maybe(0.94) else d.pick(*NUMBERS)), b"t", b"Q")

    def sizes(self, n: int) -> None:
        """A tuple of ints."""
        self.put(b"(")
        for _ in range(n):
            self.number()
        self.put(b"t")

    def tensor(self) -> None:
        """What PyTorch writes of a tensor, with numbers of all kinds."""
        d = self.d
        how = f"_rebuild_tensor{d.pick('_v2', '_v2', '', '_v3')}"
        self.name(f"torch._utils {how}")
        self.put(b"(")
        self.value(2) if d.maybe(0.05) else self.storage()
        self.number()
        n = d.pick(0, 1, 1, 2, 3, d.int(0, 70) if d.maybe(0.1) else 2)
        self.sizes(n)
        self.sizes(n if d.maybe(0.95) else n + 1)
        if how != "_rebuild_tensor":
            self.put(d.pick(b"\x88", b"\x89"), b"}")
            if how == "_rebuild_tensor_v3":
                self.name(d.pick("torch uint16", "torch uint64", "torch float32", "torch bfloat16"))
            if d.maybe(0.3):
                self.put(b"}", b"(", words(d.pick("conj", "neg")), b"\x88", b"u")
        self.put(b"t", b"R")

    def pairs(self, deep: int) -> None:
        """Keys and values between marks."""
        for _ in range(self.d.int(0, 4)):
            if self.d.maybe(0.8):
                self.put(words(self.d.pick(*TEXTS)))
            else:
                self.value(deep + 1)
            self.value(deep + 1)

    def value(self, deep: int = 0) -> None:
        """One more value on the stack."""
        d = self.d
        if deep > 5:
            self.put(d.pick(b"N", b"\x88", b")", b"]", b"}", b"\x8f"))
            return
        way = d.int(0, 19)
        if way <= 1:
            self.put(d.pick(b"N", b"\x88", b"\x89", b")", b"]", b"}", b"\x8f", b"G" +
                            struct.pack(">d", d.pick(0.0, 1e300, float("nan")))))  # fmt: skip
        elif way == 2:
            self.number()
        elif way == 3:
            self.put(words(d.pick(*TEXTS)))
        elif way == 4:
            data = d.rng.randbytes(d.int(0, 20))
            self.put(d.pick(b"C" + bytes([len(data)]) + data,
                            b"\x96" + struct.pack("<Q", d.pick(len(data), 1 << 40)) + data))  # fmt: skip
        elif way <= 7:
            self.tensor()
        elif way == 8:
            self.put(b"(")
            for _ in range(d.int(0, 4)):
                self.value(deep + 1)
            self.put(d.pick(b"t", b"l", b"\x91"))
        elif way == 9:
            self.put(b"}", b"(")
            self.pairs(deep)
            self.put(b"u")
        elif way == 10:
            self.put(d.pick(b"\x8f", b"]"), b"(")
            for _ in range(d.int(0, 4)):
                self.value(deep + 1)
            self.put(d.pick(b"\x90", b"e"))
        elif way == 11:
            self.name(d.pick(*NAMES))
        elif way == 12:  # a call
            self.name(d.pick(*NAMES))
            self.put(b"(")
            for _ in range(d.int(0, 3)):
                self.value(deep + 1)
            self.put(b"t", d.pick(b"R", b"R", b"\x81"))
        elif way == 13:  # attributes
            if d.maybe(0.3):
                self.value(deep + 1)
            else:
                self.put(b"ccollections\nOrderedDict\n", b")", b"R")
            self.put(b"}", b"(")
            self.pairs(deep)
            self.put(b"u", b"b")
        elif way == 14:  # a tensor with attributes
            self.name("torch._tensor _rebuild_from_type_v2")
            self.put(b"(")
            self.name(d.pick("torch._utils _rebuild_parameter", "torch._utils _rebuild_tensor_v2"))
            self.name(d.pick("torch Tensor", "torch.nn.parameter Parameter"))
            self.tensor()
            self.put(b"\x85", b"}", b"(")
            self.pairs(deep)
            self.put(b"u", b"t", b"R")
        elif way == 15:  # again
            self.value(deep + 1)
            self.put(b"\x94")
            self.kept += 1
        elif way == 16 and self.kept:
            self.put(b"h" + bytes([d.int(0, min(self.kept, 255) - 1)]))
        elif way == 17:  # over and over
            times = d.pick(5, 70, 300, 3000)
            begin = len(self.ops)
            self.value(deep + 2)
            unit = b"".join(self.ops[begin:])
            if len(unit) * times < 1 << 16:
                self.put(*[d.pick(b"0", b"\x85", b"2", b"a", b"s", b"") + unit] * times)
        elif way == 18:  # in each other
            times = d.pick(10, 900, 1100, 20_000)
            self.put(b"N")
            self.put(*[d.pick(b"\x85", b"]" + b"q\0" + b"0" + b"\x85", b"2\x86")] * times)
        else:
            self.put(d.pick(b"2", b"0", b"1", b"\x97", b"\x98", b"\x82\x07", b"Pa\n", b"Q", b"o", b"\x92",
                            b"(ios\nsystem\n", b"b", b"\x91", b"\x95" + struct.pack("<Q", 1 << 40)))  # fmt: skip

    def done(self) -> tuple[bytes, ...]:
        """All of them, some of which are gone, doubled or elsewhere."""
        ops, d = self.ops, self.d
        for _ in range(d.pick(0, 0, 1, 3)):
            k = d.rng.randrange(1, max(len(ops), 2))
            match d.int(0, 2):
                case 0:
                    del ops[k : k + 1]
                case 1:
                    ops[k:k] = ops[k : k + 1]
                case 2:
                    ops[k:k] = [d.rng.choice(ops[1:] or [b""])]
        return (*ops, b".")


def zipped(text: bytes, order: bytes = b"little") -> bytes:
    """A file of PyTorch's, with storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        parts = {"data.pkl": text, "byteorder": order, "version": b"3\n"}
        for name, data in (parts | {f"data/{k}": bytes(24) for k in KINDS}).items():
            z.writestr(zipfile.ZipInfo(f"archive/{name}"), data)
    return file.getvalue()


def before(text: bytes) -> bytes:
    """A file of before PyTorch 1.6."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    data = b"".join(struct.pack("<q", n) + bytes(24) for _, n in KINDS.values())
    return b"".join(pickle.dumps(x, 2) for x in head) + text + pickle.dumps([*KINDS], 2) + data


@family("pickles")
def pickles(d: Draw) -> File:
    """A program for the unpickler."""
    p = Pickled(d)
    if d.maybe(0.3):
        p.put(b"}", b"(")
        for _ in range(d.int(1, 4)):
            p.put(words(d.pick(*TEXTS)))
            p.value()
        p.put(b"u")
    else:
        p.value()
    format = d.pick("pt", "pt", "file", "mapped", "outline")
    big = functools.partial(zipped, order=b"big")
    return File(format, p.done(), d.pick(zipped, zipped, before, big), changes=changes(d, 0.1))


# --- bytes

HARD = [b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80", b"PK\1\2",
        b"\0\0\0\x80", b"\xfe\xff\xff\xff", bytes(8), b"\xff" * 8, b"../", b"\0\0", b"\1\0\0\0"]  # fmt: skip


def changes(d: Draw, share: float, most: int = 4) -> tuple[tuple[int, int, bytes], ...]:
    """What is changed somewhere, in a share of the cases; half of it near the end."""
    if not d.maybe(share):
        return ()
    found = []
    for _ in range(d.int(1, most)):
        come = d.pick(*HARD) if d.maybe(0.6) else d.rng.randbytes(d.int(0, 4))
        place = d.rng.randrange(1 << 20) if d.maybe() else -d.int(1, 400)
        found.append((place, len(come) if d.maybe(0.8) else d.int(0, 40), come))
    return tuple(found)


def same(data: bytes) -> bytes:
    """As it is."""
    return data


def pieces(data: bytes, size: int = 16) -> tuple[bytes, ...]:
    """A file in parts."""
    return tuple(data[i : i + size] for i in range(0, len(data), size))


GZIP = functools.partial(gzip.compress, mtime=0)
COMPRESS: dict[str, Any] = {".gz": GZIP, ".bz2": bz2.compress, ".xz": lzma.compress}


def saved(make: Callable[[Any], Any]) -> bytes:
    """The bytes that are written to a file."""
    file = io.BytesIO()
    make(file)
    return file.getvalue()


TENSORS = {"a": pf.arange(6.0).reshape(2, 3), "b": pf.ones(3), "c": pf.tensor([True, False])}
ARRAYS = {k: v.numpy() for k, v in TENSORS.items()}
WEIGHTS = pf.io.safetensors.save(TENSORS, {"by": "a test"})
IDX = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def archive_of(kind: str) -> bytes:
    """A good archive."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
            for name in ("a", "folder/b", "folder/deep/c"):
                z.writestr(zipfile.ZipInfo(name), bytes(3000))
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("a", "folder/b", "ü" * 120):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return file.getvalue()


def pictures() -> dict[str, bytes]:
    """Small images of each format."""
    image = pf.vision.io.pillow("fuzzing")
    x = image.fromarray(np.random.RandomState(0).randint(0, 256, (9, 12, 3), np.uint8))
    image.init()
    return {kind: saved(lambda f, kind=kind: x.save(f, kind))
            for kind in ("PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP")}  # fmt: skip


ZIPPED = saved(lambda f: pf.save(TENSORS, f))
PICTURES = pictures()
GOOD = {
    "pt": ZIPPED, "file": ZIPPED, "mapped": ZIPPED, "outline": ZIPPED,
    "npz": saved(lambda f: np.savez_compressed(f, **ARRAYS)), "safetensors": WEIGHTS, "idx": IDX,
    "index": b'{"weight_map": {"a": "y.safetensors"}}', "image": PICTURES["PNG"],
}  # fmt: skip


@family("zips")
def zips(d: Draw) -> File:
    """Files that are zips, with other numbers in their records."""
    format, suffix, data = d.pick(
        ("pt", "", ZIPPED), ("mapped", "", ZIPPED), ("outline", "", ZIPPED), ("npz", "", GOOD["npz"]),
        ("npz", "", saved(lambda f: np.savez(f, **ARRAYS))), ("archive", ".zip", archive_of("zip")),
    )  # fmt: skip
    found = []
    records = [(b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)]
    places = [(at, size) for start, size in records for at in range(len(data))
              if data.startswith(start, at)]  # fmt: skip
    for _ in range(d.int(1, 3)):
        at, size = d.rng.choice(places)
        come = d.pick(*HARD)
        found.append((at + d.rng.randrange(4, size), len(come), come))
    return File(format, pieces(data), same, suffix, tuple(found) + changes(d, 0.3))


@family("tars")
def tars(d: Draw) -> File:
    """Archives of drawn headers, which have right sums."""
    names = ["a", "folder/b", "folder", "link/x", "link", "name", "hard", "pipe", "../away/mine", "/tmp/x",
             "C:/x", "..\\x", "a/" * 60, "x" * 99, "", ".", "./", "a/../b", "\0", "folder/" * 13, "é"]  # fmt: skip
    parts = []
    for _ in range(d.pick(1, 2, 3, 5, 40)):
        kind = d.pick(*"00000057LKxgS1234678VZ")
        info = tarfile.TarInfo()
        info.name, info.type, info.linkname = d.pick(*names), kind.encode(), d.pick("", *names)
        size = d.pick(0, 1, 5, 512, 700)
        info.size = size if d.maybe(0.9) else d.pick(-1, -512, 1 << 20, 1 << 31, 1 << 40, 1 << 62)
        head = bytearray(info.tobuf(tarfile.GNU_FORMAT)[-512:])
        if d.maybe(0.1):
            head[d.rng.randrange(148)] = d.rng.randrange(256)
        head[148:156] = b"%06o\0 " % (sum(head[:148]) + sum(head[156:]) + 8 * 32)
        text = d.pick(*names).encode()
        if kind in "xg":
            field = d.pick("path", "size", "linkpath", "GNU.sparse.map", "GNU.sparse.size", "hdrcharset",
                           "GNU.sparse.major", "mtime")  # fmt: skip
            value = d.pick("../x", "-512", "99999999999999", "0,1,1,1", "1", "BINARY", "x" * 300)
            record = f" {field}={value}\n"
            text = f"{len(record) + 2}{record}".encode() * d.pick(1, 1, 30)
        parts += [bytes(head), (text + bytes(size))[:size].ljust(-(-size // 512) * 512, b"\0")]
    if d.maybe(0.1):
        parts *= 300
    suffix = d.pick(".tar", ".tar.gz", ".tar.bz2", ".tar.xz")
    wrap = COMPRESS.get(suffix.removeprefix(".tar"), same)
    return File("archive", (*parts, bytes(1024)), wrap, suffix, changes(d, 0.1))


@family("packed")
def packed(d: Draw) -> File:
    """A compressed file of bytes or of an array."""
    shape = [d.pick(0, 1, 2, 3, 6, 1 << 16, (1 << 32) - 1) for _ in range(d.pick(1, 2, 2, 3, 70))]
    head = bytes([0, 0, d.pick(8, 9, 11, 12, 13, 14, 0), len(shape)])
    head += struct.pack(f">{len(shape)}I", *shape)
    data = head + bytes(d.pick(0, 6, 36, 1 << 16) if d.maybe(0.97) else 1 << 25)
    if d.maybe(0.7):
        wrap = d.pick(same, GZIP) if len(data) < 1 << 20 else GZIP
        return File("idx", (data,), wrap, "", changes(d, 0.4))
    suffix = d.pick(*COMPRESS)
    return File("archive", (data,), COMPRESS[suffix], suffix, changes(d, 0.4))


def deep_png(d: Draw) -> bytes:
    """A PNG of 16 bits whose sums are right, and its sizes, colors, filters and bytes seldom."""
    w, h = (d.pick(1, 2, 3, 9, 9, 9, 0, 1 << 10, 1 << 20, (1 << 31) - 1) for _ in "wh")
    color, interlaced = d.pick(0, 2, 2, 4, 6, 6, 3, 7), d.pick(0, 0, 1, 1, 2)
    channels = {0: 1, 2: 3, 4: 2}.get(color, 4)
    lines = [bytes([d.int(0, 5 if d.maybe(0.9) else 255)]) + d.rng.randbytes(2 * w * channels)
             for _ in range(h)] if max(w, h) < 10 else [bytes(d.pick(0, 1, 1 << 20))]  # fmt: skip
    data = zlib.compress(b"".join(lines))[: d.pick(None, None, None, 20)]
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", w, h, d.pick(16, 16, 16, 8), color, 0, 0, interlaced))
    ]
    parts += [(b"IDAT", data[:7]), (d.pick(b"IDAT", b"tEXt"), data[7:]), (b"IEND", b"")]
    if d.maybe(0.15):
        d.rng.shuffle(parts)
    parts = [p for p in parts if d.maybe(0.95)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(x)) + kind + x + struct.pack(">I", zlib.crc32(kind + x))
        for kind, x in parts
    )


@family("images")
def images(d: Draw) -> File:
    """An image with other bytes, most of them in its head, or a PNG of 16 bits that we unpack."""
    if d.maybe(0.4):
        return File("image", (deep_png(d),), same, "", changes(d, 0.2))
    data = PICTURES[d.pick(*PICTURES)]
    some = d.rng.sample(HARD, d.int(0, 2))
    found = [(d.rng.randrange(min(len(data), 80)), len(x), x) for x in some]
    return File("image", pieces(data), same, "", tuple(found) + changes(d, 0.6))


# --- trees of JSON

ODD = [None, True, 0, -1, 1, 2, 1.5, 1e308, 1 << 31, 1 << 53, 1 << 63, 10**30, "", "x", "__proto__",
       "constructor", "toString", "../y.safetensors", "/etc/passwd", "y.safetensors", "pipe.safetensors",
       "z.safetensors", "none.safetensors", "F32", "F64", "BF16", "BOOL", [], {}, [0, 0], [[]], [1] * 40,
       [1 << 40, 1 << 40], {"x": 1}, "\ud800", "float16", "https://example.org/"]  # fmt: skip


def paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all nodes of a tree."""
    yield at
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from paths(value, (*at, key))


def node_at(tree: Any, way: Sequence[Any]) -> Any:
    """The node to which a way leads; 0 where there is none any more."""
    for key in way:
        try:
            tree = tree[key]
        except (IndexError, KeyError, TypeError):
            tree = 0
    return tree


def odd(d: Draw) -> Any:
    """A node of its own."""
    return json.loads(json.dumps(d.pick(*ODD)))


def mutated(d: Draw, tree: Any) -> Any:
    """A tree with another node somewhere: changed, gone, doubled, of another place."""
    tree = json.loads(json.dumps(tree))
    for _ in range(d.pick(1, 1, 2, 4)):
        ways = [*paths(tree)]
        way = d.rng.choice(ways)
        if not way:
            tree = odd(d) if d.maybe() else tree
            continue
        node = node_at(tree, way[:-1])
        match d.int(0, 5):
            case 0:
                del node[way[-1]]
            case 1 if isinstance(node, dict):
                node[d.pick(*[o for o in ODD if isinstance(o, str)])] = node.pop(way[-1])
            case 2:
                node[way[-1]] = json.loads(json.dumps(node_at(tree, d.rng.choice(ways))))
            case _:
                node[way[-1]] = odd(d)
    return tree


HEADER = json.loads(WEIGHTS[8 : 8 + int.from_bytes(WEIGHTS[:8], "little")])
DATA = WEIGHTS[8 + int.from_bytes(WEIGHTS[:8], "little") :]


def headed(text: bytes) -> bytes:
    """A safetensors file with this header."""
    return struct.pack("<Q", len(text)) + text + DATA


@family("headers")
def headers(d: Draw) -> File:
    """Headers of safetensors, of NumPy's arrays, and an index of files."""
    which = d.int(0, 2)
    if which == 0:
        text = json.dumps(mutated(d, HEADER)).encode()
        return File("safetensors", pieces(text), headed, "", changes(d, 0.3))
    if which == 1:
        weights = {"a": "y.safetensors", "b": "y.safetensors"}
        index = mutated(d, {"metadata": {"total_size": 9}, "weight_map": weights})
        return File("index", pieces(json.dumps(index).encode()), same, "", changes(d, 0.2))
    kind = d.pick("<f4", "<f4", ">f8", "|b1", "|O", "<U3", "V9", "<c8", [["a", "<f4"]],
                  ["<f4", [1 << 30]], "(" * 300)  # fmt: skip
    shape = d.pick("(2, 3)", "(2, 3)", "(0, 9999999999999999999)", "(-1,)", "(1,) * 9", "((((", "(1.5,)",
                   "(" + "1," * 70 + ")", "-" * 5000 + "1", "(4611686018427387904, 4)", "(True, 6)")  # fmt: skip
    text = f"{{'descr': {kind!r}, 'fortran_order': {d.pick(True, False, 3)}, 'shape': {shape}, }}\n".encode()
    version = d.pick(b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\xff\0")
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    parts = (b"\x93NUMPY", version, size, *pieces(text), bytes(24))
    return File("npz", parts, one_array, "", changes(d, 0.2))


def one_array(data: bytes) -> bytes:
    """A zip with this entry, once or lying over itself."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("a.npy"), data)
    return file.getvalue()


# --- exported programs


@functools.cache
def exported() -> tuple[Any, dict[str, bytes]]:
    """A program.json of a net that is trained, and the files beside it."""
    pf.manual_seed(0)
    net = pf.nn.Sequential(pf.nn.Linear(2, 3), pf.nn.ReLU(), pf.nn.Linear(3, 2))
    optimizer = pf.optim.Adam(net.parameters(), lr=0.01)
    model = pf.Model(net, loss=pf.nn.CrossEntropyLoss(), optimizer=optimizer, metrics=["accuracy"])
    sample = pf.rand(4, 2), pf.tensor([0, 1, 0, 1])
    with tempfile.TemporaryDirectory() as folder:
        pf.web.export(model, sample, to=folder, element=False)
        found = json.loads((Path(folder) / "program.json").read_text("utf-8"))
        beside = {p.name: p.read_bytes() for p in Path(folder).glob("*.safetensors")}
    found["codes"] = ["fn main() {}"] * len(found["codes"])  # nobody compiles them here
    return found, beside


@family("exports")
def exports(d: Draw) -> File | None:
    """A program.json that no export writes, played."""
    document, beside = exported()
    reader = readers().get("program")
    if reader is None:
        raise RuntimeError("this family needs Node: install it, or leave it out with --only")
    for name, data in beside.items():
        (reader.folder / name).write_bytes(data)
    tree = mutated(d, {k: v for k, v in document.items() if k != "codes"})
    if isinstance(tree, dict):
        tree["codes"] = document["codes"]
        tree = mutated(d, tree) if d.maybe(0.1) else tree
    return File("program", pieces(json.dumps(tree).encode(), 256), same)
