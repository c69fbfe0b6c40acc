"""Files that are written whole or not at all, whoever else writes them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import python
from together import Thread, together

import pyframe as pf
from pyframe import vision
from pyframe.cli.summary import contents
from pyframe.io import files, npz, pt, read_idx, safetensors
from pyframe.io.files import replacing

posix = pytest.mark.skipif(os.name == "nt", reason="permissions and links are POSIX's")


def model() -> pf.Model:
    return pf.Model(pf.nn.Linear(2, 1), loss=pf.nn.MSELoss())


def trace(path: Path) -> None:
    with pf.profiler.profile() as prof:
        pf.ones(2).sum()
    prof.export_chrome_trace(path)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "pf.save": lambda path: pf.save({"x": pf.ones(2)}, path),
    "io.npz.save": lambda path: npz.save({"x": pf.ones(2)}, path),
    "io.save_async": lambda path: asyncio.run(pf.io.save_async({"x": pf.ones(2)}, path)),
    "Model.save": lambda path: model().save(path),
    "Drawing.save": lambda path: pf.graph.show(lambda x: x + 1, pf.ones(2)).save(path),
    "export_chrome_trace": trace,
}


@pytest.fixture
def no_root() -> Iterator[Path]:
    """A folder of a user whom permissions bind."""
    if os.name == "nt":
        pytest.skip("permissions are POSIX's")
    with tempfile.TemporaryDirectory() as name:
        user = os.geteuid()
        try:
            if user == 0:
                os.chown(name, 65534, -1)
                os.seteuid(65534)
            yield Path(name)
        finally:
            os.seteuid(user)
            os.chmod(name, 0o700)


# --- what is read

READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "pf.load": ("x.pt", pf.load), "pt.load": ("x.pt", pt.load), "npz.load": ("x.npz", npz.load),
    "pt.outline": ("x.pt", pt.outline), "npz.outline": ("x.npz", npz.outline),
    "load_file": ("x.safetensors", pf.load), "describe": ("x.safetensors", safetensors.describe),
    "index": ("x.safetensors.index.json", pf.load), "read_idx": ("x", read_idx),
    "shard": ("y.safetensors", lambda p: pf.load(p.with_name("x.safetensors.index.json"))),
    "read_image": ("x.png", vision.io.read_image), "read_file": ("x", vision.io.read_file),
    "image": ("x.jpg", vision.datasets.folder.default_loader),
    "pil_loader": ("x.jpg", vision.datasets.folder.pil_loader),
    "md5": ("x", vision.datasets.utils.calculate_md5), "cli": ("x", lambda p: contents(str(p))),
}  # fmt: skip


@posix
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused(reader: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device has no end."""
    name, read = READERS[reader]
    path = tmp_path / name
    index = '{"weight_map": {"w": "y.safetensors"}}'
    (tmp_path / "x.safetensors.index.json").write_text(index)
    path.unlink(missing_ok=True)
    for make, what in ((os.mkfifo, "a pipe"), (lambda p: p.symlink_to("/dev/zero"), "a device")):
        make(path)
        with pytest.raises(OSError, match=f"expected a file on the disk, this is {what}") as raised:
            read(path)
        assert raised.value.filename in (path, str(path))
        path.unlink()
    path.mkdir()
    with pytest.raises((OSError, ValueError, RuntimeError), match=re.escape(str(path))):
        read(path)


@pytest.mark.parametrize(
    "read", [pf.load, pt.outline, npz.load, npz.outline, vision.datasets.utils.extract_archive]
)
def test_a_damaged_zip_is_named(read: Callable[[Path], Any], tmp_path: Path, traced: Any) -> None:
    """Whatever number at its end is changed, also to a place that no file has."""
    path = tmp_path / ("x.pt" if read in (pf.load, pt.outline) else "x.npz")
    pf.save({"x": pf.ones(2)}, path)
    good, target = path.read_bytes(), path
    if "extract" in read.__name__:
        target = tmp_path / "x.zip"
    end = good.rindex(b"PK\5\6")
    for at in range(end + 4, end + 20):
        for value in (0, 1, 127, 255):
            target.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
            with contextlib.suppress(RuntimeError, ValueError):
                read(target)
    for at in (good.index(b"PK\1\2") + 20, end + 12):  # packed bytes, bytes of the directory
        target.write_bytes(good[:at] + b"\xfe\xff\xff\x7f" + good[at + 4 :])

        def refused(path: Path = target) -> None:
            with contextlib.suppress(RuntimeError, ValueError):
                read(path)

        assert traced(refused)[1] < 1 << 24, "no more is asked for than is there"
    target.write_bytes(good[: end + 12] + b"\xfe\xff\xff\xff" + good[end + 16 :])
    with pytest.raises((RuntimeError, ValueError), match=f"{target}: the arch|{target} is damaged"):
        read(target)


def write(path: Path, text: bytes) -> None:
    with replacing(path) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- several writers


def test_two_threads_save_to_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its file: written in full before one of them is renamed, both are saved."""
    path, written, met = tmp_path / "weights.safetensors", threading.Barrier(2), set()

    def fsync(_: int) -> None:
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            written.wait(60)

    monkeypatch.setattr(os, "fsync", fsync)
    together(lambda i: pf.save({n: pf.full((9,), i + 1.0) for n in "ab"}, path))
    values = {x for tensor in pf.load(path).values() for x in tensor.tolist()}
    assert values in ({1.0}, {2.0})
    assert names(tmp_path) == [path.name]


def test_a_writer_leaves_those_that_live_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as slow:
        slow.write(b"slow")
        write(path, b"quick")
        assert path.read_bytes() == b"quick"
        assert len(names(tmp_path)) == 2
    assert path.read_bytes() == b"slow"
    assert names(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "file"
    own = ["file.part", "file.0.part", "file.00000000.0123456789abcdef.part"]
    for name in own:
        (tmp_path / name).write_bytes(b"the user's")
    code = (
        "import os, sys; from pyframe.io.files import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os._exit(9)"
    )
    python("-c", code, path, status=9)
    (left,) = set(names(tmp_path)) - set(own)
    assert left.startswith("file.")
    write(tmp_path / "other", b"")
    assert left in names(tmp_path), "it is no part of the other file"
    write(path, b"whole")
    assert names(tmp_path) == sorted(["file", "other", *own])
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("locked", [True, False], ids=["still locked", "already gone"])
def test_a_new_file_that_is_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    """Between its making and its locking another writer may find it; then there is another one."""
    fcntl = pytest.importorskip("fcntl", reason="Windows locks what is open")
    flock, lost = fcntl.flock, []

    def late(fd: Any, how: int) -> None:
        if not lost:
            lost.extend(names(tmp_path))
            (tmp_path / lost[0]).unlink()
            if locked:
                raise BlockingIOError
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write(tmp_path / "file", b"text")
    assert lost
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"text"


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows locks what is open")

    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with replacing(tmp_path / "file"):
        write(tmp_path / "file", b"text")
        assert len(names(tmp_path)) == 2
    assert names(tmp_path) == ["file"]


def test_on_windows_old_files_go_and_readers_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "_WAITS", (0, 0))
    replace, refused = os.replace, []

    def read_by_another(part: str, target: str) -> None:
        if len(refused) < 2:
            refused.append(part)
            raise PermissionError
        replace(part, target)

    monkeypatch.setattr(os, "replace", read_by_another)
    path = tmp_path / "file"
    manager = replacing(path)  # a writer that never ends
    manager.__enter__().write(b"half")
    (left,) = tmp_path.iterdir()
    write(path, b"one")
    assert names(tmp_path) == ["file", left.name]
    os.utime(left, (0, 0))
    write(path, b"two")
    assert names(tmp_path) == ["file"]
    assert path.read_bytes() == b"two"
    assert len(refused) == 2
    with contextlib.suppress(KeyboardInterrupt):
        manager.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, GeneratorExit])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    write(path, b"old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


KINDS: dict[str, dict[str, Any]] = {
    "x.pt": {}, "x.safetensors": {}, "x.npz": {}, "set.safetensors": {"max_shard_size": 4000},
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_full_disk(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the room ends, the old file stays whole and no other is left."""
    path, room = tmp_path / name, 1 << 20

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            nonlocal room
            if len(memoryview(data).cast("B")) > room:
                raise OSError(errno.ENOSPC, "No space left on device")
            written = super().write(data)
            room -= written
            return written

    monkeypatch.setattr(os, "fdopen", lambda fd, mode: io.BufferedWriter(Full(fd, mode)))
    pf.save({str(i): pf.zeros(500) for i in range(5)}, path, **KINDS[name])
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    refused = 0
    for room in range(0, 20_000, 1500):  # noqa: B007  (Full uses it)
        try:
            pf.save({str(i): pf.ones(500) for i in range(5)}, path, **KINDS[name])
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017  (not each save fails)
            refused += 1
            assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert refused >= 7
    assert {x.sum().item() for x in pf.load(path).values()} == {500.0}


# --- what is there already


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"old")
    for mine in (0o600, 0o640, 0o777):
        path.chmod(mine)
        with replacing(path):
            (part,) = set(tmp_path.iterdir()) - {path}
            assert mode(part) == mine, "nobody else reads it meanwhile"
        assert mode(path) == mine


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    write(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


@posix
@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_follows_links_and_keeps_modes(tmp_path: Path, writer: str) -> None:
    """A file's own, or as the umask says where the link leads to none yet."""
    folder = tmp_path / "folder"
    folder.mkdir()
    target = folder / "file"
    (tmp_path / "link").symlink_to("folder/link")
    (folder / "link").symlink_to(target)
    umask = os.umask(0o027)
    try:
        for own in (0o640, 0o604):
            WRITERS[writer](tmp_path / "link")
            assert (tmp_path / "link").is_symlink()
            assert (folder / "link").is_symlink()
            assert not target.is_symlink()
            assert target.stat().st_size > 3
            assert mode(target) == own
            assert names(folder) == ["file", "link"]
            assert names(tmp_path) == ["folder", "link"]
            target.write_bytes(b"old")
            target.chmod(0o604)
    finally:
        os.umask(umask)


def test_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 100 + "x" * 55)  # 255 bytes
    write(path, b"1")
    write(path, b"2")
    assert path.read_bytes() == b"2"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(PermissionError if os.name == "nt" else IsADirectoryError) as caught:
        write(tmp_path, b"")
    assert caught.value.filename == str(tmp_path)
    assert names(tmp_path) == []
    with pytest.raises(FileNotFoundError, match=r"file is first written .* beside .*: '.*nowhere'"):
        write(tmp_path / "nowhere" / "file", b"")
    if os.name != "nt":
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            write(tmp_path / "a", b"")
        assert names(tmp_path) == ["a", "b"]


def test_what_permissions_forbid(no_root: Path) -> None:
    path = no_root / "file"
    path.write_bytes(b"old")
    for place, mine, words in (
        (path, 0o400, "file"), (no_root, 0o500, "Permission denied: file is first written in full"),
    ):  # fmt: skip
        path.chmod(0o600)
        place.chmod(mine)
        with pytest.raises(PermissionError, match=words):
            write(path, b"new")
        assert path.read_bytes() == b"old"
        assert names(no_root) == ["file"]


# --- what is no file


@posix
def test_a_fifo(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = Thread(path.read_bytes)
    pf.io.safetensors.save_file({"x": pf.ones(2)}, path)
    assert pf.io.safetensors.load(reader.result())["x"].tolist() == [1.0, 1.0]
    assert names(tmp_path) == ["fifo"]


@pytest.mark.skipif(not os.path.exists("/dev/fd/1"), reason="the system has no /dev/fd")
def test_open_files(tmp_path: Path) -> None:
    """By their numbers, as standard output is given to a program."""
    weights = {"x": pf.ones(2)}
    with open(tmp_path / "out", "w+b") as out:
        safetensors.save_file(weights, f"/dev/fd/{out.fileno()}")
        assert os.fstat(out.fileno()).st_nlink == 1, "the shell's file is written, not replaced"
        found = [(tmp_path / "out").read_bytes()]
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe:
        safetensors.save_file(weights, f"/dev/fd/{writing}")
        os.close(writing)
        found.append(pipe.read())
    for data in found:
        assert safetensors.load(data)["x"].tolist() == [1.0, 1.0]
    assert files._STREAM.match("/dev/stdout")
    assert not files._STREAM.match("/dev/stdout.safetensors")
    assert not files._STREAM.match("/dev/shm/file")
