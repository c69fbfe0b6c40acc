"""Files that are there whole, or are what they were before."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

try:
    import fcntl
except ImportError:  # Windows, which removes no open file, and a page, where nobody else writes
    fcntl = None  # type: ignore[assignment]

_STREAM = re.compile(r"/dev/(std(in|out|err)$|fd/)|/proc/")  # links to what a process has open
_PART = re.compile(r"[0-9a-f]{16}\.part")
_DEAD = 3600  # seconds without a write after which nobody writes a file that nobody has open
_RATIO = 200  # bytes unpacked, at most, from one: data sets stay below 20
_MIN_UNPACKED_BYTES = 1 << 28  # bytes that may be unpacked in any case
PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))  # as they begin
_WAITS = (0.01, 0.1, 1) if os.name == "nt" else ()  # it replaces no file that is being read


_OTHERS = {
    stat.S_IFIFO: "a pipe (FIFO)", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A file on the disk, open for reading. OSError for a pipe or a device: it might be waited for
    without end, and has none."""

    def opener(name: str, flags: int) -> int:
        fd = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind in _OTHERS:
            os.close(fd)
            raise _no_file(name, kind)
        return fd

    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind in _OTHERS:  # before it is opened, which some devices notice
        raise _no_file(path, kind)
    return open(path, "rb", opener=opener)


def head(path: str | os.PathLike[str]) -> bytes:
    """How a file begins; b"" for a folder, and for what is not there."""
    if os.path.isdir(path):
        return b""
    try:
        with opened(path) as file:
            return file.read(512)
    except FileNotFoundError:  # of a set there may be the index alone
        return b""


def beginning(path: str | os.PathLike[str]) -> str:
    """What a file holds, whatever it is called: "zip", "pickle" (before 1.6) or "tar" (before 0.2)
    of PyTorch's, "npz" of NumPy's; "" for others, folders and what is not there. What is called
    .safetensors is never read as a pickle."""
    name = os.fspath(path)
    start = b"" if name.endswith(".safetensors") else head(path)
    if start[:2] == b"PK":
        return "npz" if name.endswith(".npz") or _has_arrays(path) else "zip"
    if start[:2] in PICKLES:
        return "pickle"
    if start[257:262] == b"ustar" and start.startswith((b"sys_info\0", b"pickle\0", b"storages\0")):
        return "tar"
    return "npz" if name.endswith(".npz") and os.path.isfile(path) else ""


def _has_arrays(path: str | os.PathLike[str]) -> bool:
    """Whether a zip has arrays of NumPy's, and nothing else."""
    import zipfile

    try:
        with opened(path) as file, zipfile.ZipFile(cast(IO[bytes], Bounded(file))) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


class Bounded:
    """A file of which no more is read than it has: what is asked for would be allocated at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, at = file, file.tell()
        self._length = file.seek(0, os.SEEK_END)
        file.seek(at)
        self.seek, self.tell, self.readline = file.seek, file.tell, file.readline
        self.seekable = file.seekable

    def read(self, n: int = -1) -> bytes:
        """At most n bytes, and all without n."""
        left = max(self._length - self.tell(), 0)
        return self._file.read(left if n is None or n < 0 else min(n, left))


def _no_file(path: str | os.PathLike[str], kind: int) -> OSError:
    why = (
        f"expected a file on the disk, this is {_OTHERS[kind]}: write its contents to a file first"
    )
    return OSError(errno.EINVAL, why, os.fspath(path))


def is_damage(error: OSError) -> bool:
    """Whether a file's contents are to blame, which name a place that no file has, rather than the
    system."""
    return error.filename is None and error.errno in (None, errno.EINVAL, errno.EOVERFLOW)


def most_of(size: int) -> int:
    """How many bytes may be unpacked from a compressed file of `size`: data sets stay far below."""
    return max(_MIN_UNPACKED_BYTES, _RATIO * size)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` when the block ends without an error.

    Whoever reads `path`, and whoever else writes it, finds one whole file there at all times. Links
    are followed; owner and permissions stay. A pipe or a device is written to directly.
    """
    path = Path(path)
    try:
        old = path.stat()
    except FileNotFoundError:
        old = None
    special = old is not None and not stat.S_ISREG(old.st_mode)
    if special or _STREAM.match(os.path.abspath(path)):
        with open(path, "wb") as stream:
            yield stream
        return
    if old is not None:
        os.close(os.open(path, os.O_WRONLY))  # what may not be written is not replaced either
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        part, file = _open_part(target, 0o666 if old is None else stat.S_IMODE(old.st_mode))
    except OSError as error:
        why = f"{error.strerror}: {path.name} is first written in full beside its place, here"
        raise OSError(error.errno, why, folder) from None
    try:
        with file:
            if old is not None:
                _take_after(part, old)
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a crash could leave the new name on an empty file
            if fcntl is None:
                file.close()
            _rename(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    with contextlib.suppress(OSError):  # not every system can open and sync a folder
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _open_part(target: str, mode: int) -> tuple[str, BinaryIO]:
    """A new file beside `target`, locked as long as it is open; those of dead writers go."""
    folder, name = os.path.split(target)
    stem = f"{name[:40]}.{zlib.crc32(os.fsencode(name)):08x}."  # short where `name` is long
    with contextlib.suppress(OSError):
        for other in os.listdir(folder):
            if other.startswith(stem) and _PART.fullmatch(other, len(stem)):
                _remove_dead(os.path.join(folder, other))
    while True:
        part = os.path.join(folder, f"{stem}{os.urandom(8).hex()}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(part, flags, mode), "wb")
        if fcntl is None:
            return part, file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.lexists(part):
                return part, file
        except BlockingIOError:
            pass
        except OSError:  # this file system has no locks, so nobody takes the file for a dead one's
            return part, file
        file.close()  # before it was locked another writer took it for a dead one's


def _remove_dead(part: str) -> None:
    """Remove the file of a writer that ended without a word; one that lives has it locked."""
    with contextlib.suppress(OSError):
        if fcntl is None:
            if time.time() - os.stat(part).st_mtime > _DEAD:
                os.unlink(part)
            return
        fd = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(part)
        finally:
            os.close(fd)


def _take_after(part: str, old: os.stat_result) -> None:
    """Give `part` the owner, as far as this process may, and the permissions of the file `old`."""
    new = os.stat(part)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for uid, gid in ((-1, old.st_gid), (old.st_uid, -1)):
            with contextlib.suppress(OSError):
                os.chown(part, uid, gid)
    os.chmod(part, stat.S_IMODE(old.st_mode))


def _rename(part: str, target: str) -> None:
    for wait in _WAITS:
        try:
            return os.replace(part, target)
        except PermissionError:
            time.sleep(wait)
    return os.replace(part, target)
