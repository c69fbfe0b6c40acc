"""Files of machine code, kept where this user alone can write: what lies there is run.

A file counts only with a digest made with a secret that lies beside it. Nothing else can guard
LLVM, which crashes on most files that are not objects; a secret in the same folder suffices,
because others can neither read nor write there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

_BYTES = 256 << 20  # the oldest files go when there are more
_FILE = 64 << 20  # bytes of one file that is read
_ENTRIES = 100_000  # of the folder that are looked at to find the oldest
_SECRET = "secret"
_DIGEST = hashlib.sha256().digest_size
_DAY = 24 * 3600
_KEY = "[0-9a-f]{64}"
_OURS = re.compile(rf"{_KEY}|({_KEY}|{_SECRET})\.[0-9a-f]{{16}}\.part")  # no other file is removed
_POSIX = os.open in os.supports_dir_fd and hasattr(os, "geteuid")
# no link is followed, and nothing waits for the writer of a pipe
_FLAGS = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "CLOEXEC", "BINARY"))


def cache_folder() -> Path | None:
    """Where compiled functions are kept: PYFRAME_CACHE (empty: nowhere), else the user's folder for
    such files. None where the system has none."""
    given = os.environ.get("PYFRAME_CACHE")
    if given is not None:
        try:
            return Path(given).expanduser().absolute() if given else None
        except RuntimeError:
            _notice(f"PYFRAME_CACHE is {given!r}, and there is no such user")
            return None
    if os.name == "nt":
        top = _absolute("LOCALAPPDATA") or _home("AppData", "Local")
    elif sys.platform == "darwin":
        top = _home("Library", "Caches")
    else:
        top = _absolute("XDG_CACHE_HOME") or _home(".cache")
    return top / "pyframe" if top else None


def _absolute(variable: str) -> Path | None:
    """A folder that the environment names; one that is not absolute does not count."""
    path = Path(os.environ.get(variable, ""))
    return path if path.is_absolute() else None


def _home(*below: str) -> Path | None:
    home = None if os.name == "nt" else _absolute("HOME")
    if home is None:
        try:
            home = Path(os.path.expanduser("~") if os.name == "nt" else _of_the_system())
        except KeyError:
            return None
    return home.joinpath(*below) if home.is_absolute() else None


def _of_the_system() -> str:
    """The home that the system knows of this user. KeyError where it knows none."""
    import pwd

    return pwd.getpwuid(os.getuid()).pw_dir


def _notice(why: str) -> None:
    warnings.warn(
        f"pyframe keeps no compiled kernels, each process compiles its own: {why}. Set "
        "PYFRAME_CACHE to a folder in which you alone can write, or to nothing to keep none",
        stacklevel=2,
    )


class DiskCache:
    """Files of bytes by key, at most `most` bytes of them. One that is damaged is not there, nor
    is one that others could have written; nothing is kept in a folder where others can write,
    which is told once, or where this user can't."""

    def __init__(self, folder: Path | None, most: int = _BYTES) -> None:
        self.folder, self.most = folder, most
        self.pruned = False

    def read(self, keys: Iterable[str]) -> dict[str, bytes]:
        """What is kept under some of these keys."""
        found: dict[str, bytes] = {}
        with contextlib.suppress(OSError), self._opened() as at:
            secret = at.read(_SECRET)
            for key in keys if len(secret) == _DIGEST else ():
                data = at.read(key)
                code = data[_DIGEST:]
                if data and hmac.compare_digest(_digest(secret, key, code), data[:_DIGEST]):
                    found[key] = code
        return found

    def write(self, files: Mapping[str, bytes]) -> None:
        """Keep bytes under keys."""
        if not files:
            return
        with contextlib.suppress(OSError), self._opened(make=True) as at:
            secret = at.secret()
            for key, code in files.items():
                at.write(key, _digest(secret, key, code) + code)
            if not self.pruned:
                self.pruned = True
                at.prune(self.most)

    @contextlib.contextmanager
    def _opened(self, make: bool = False) -> Iterator[_Folder]:
        """The folder, looked at once it is open. OSError where there is none for this user."""
        if self.folder is None:
            raise FileNotFoundError
        try:
            if make and (why := _make(self.folder)):
                self._refuse(why)
                raise PermissionError
            descriptor = os.open(self.folder, os.O_RDONLY | _FLAGS) if _POSIX else None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                self._refuse("is a link or no folder")
            raise
        try:
            if descriptor is not None:
                why = _wrong(os.fstat(descriptor), stat.S_ISDIR)
                if why:
                    self._refuse(why)
                    raise PermissionError
            yield _Folder(self.folder, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _refuse(self, why: str) -> None:
        folder, self.folder = self.folder, None
        _notice(f"{folder} {why}")


def _wrong(found: os.stat_result, kind: Callable[[int], bool]) -> str:
    """Why what is open is not to be trusted; "" for what this user alone can write."""
    if not kind(found.st_mode):
        return "is a link or no folder"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written by other users" if found.st_mode & 0o022 else ""


def _make(folder: Path) -> str:
    """Make the folder, and those above it that are missing, for this user alone. Why it may not be
    there, or ""."""
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    if not missing:
        return ""
    if _POSIX and os.stat(missing[-1].parent).st_uid not in (0, os.geteuid()):
        return f"would lie in {missing[-1].parent}, which belongs to another user"
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    return ""


class _Folder:
    """An open folder; where the system opens none, its path."""

    def __init__(self, path: Path, at: int | None) -> None:
        self.path, self.at = path, at

    def _name(self, name: str) -> str:
        return name if self.at is not None else str(self.path / name)

    def read(self, name: str) -> bytes:
        """A file's bytes; none of one that is missing, or not this user's alone."""
        try:
            descriptor = os.open(self._name(name), os.O_RDONLY | _FLAGS, dir_fd=self.at)
        except OSError:
            return b""
        try:
            found = os.fstat(descriptor)
            if found.st_size > _FILE or (_POSIX and _wrong(found, stat.S_ISREG)):
                return b""
            if time.time() - found.st_mtime > _DAY:  # those not used for longest go first
                with contextlib.suppress(OSError):
                    os.utime(descriptor if _POSIX else self._name(name))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(_FILE)
        finally:
            os.close(descriptor)

    def write(self, name: str, data: bytes, first: bool = False) -> None:
        """A file, whole or not at all; with `first` one that is there stays."""
        part = f"{name}.{os.urandom(8).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
        descriptor = os.open(self._name(part), flags, 0o600, dir_fd=self.at)
        names = self._name(part), self._name(name)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            try:
                put = os.link if first else os.replace
                put(*names, src_dir_fd=self.at, dst_dir_fd=self.at)
            except FileExistsError:
                pass
            except OSError:
                if not first:
                    raise
                os.replace(*names, src_dir_fd=self.at, dst_dir_fd=self.at)  # it knows no links
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(names[0], dir_fd=self.at)

    def secret(self) -> bytes:
        """What digests are made with; it is made where there is none that is whole. Of two
        processes that make one at the same time, both take the first."""
        found = self.read(_SECRET)
        for first in (True, False):
            if len(found) != _DIGEST:
                self.write(_SECRET, os.urandom(_DIGEST), first)
                found = self.read(_SECRET)
        return found

    def prune(self, most: int) -> None:
        """Remove the oldest files while there are more bytes than `most`, and parts of writers
        that ended before they were done."""
        files = []
        with os.scandir(self.path if self.at is None else self.at) as entries:
            for entry in islice(entries, _ENTRIES):
                with contextlib.suppress(FileNotFoundError):  # another process prunes too
                    if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        info = entry.stat(follow_symlinks=False)
                        files.append((info.st_mtime, info.st_size, entry.name))
        size, dead = sum(n for _, n, _ in files), time.time() - _DAY
        for when, n, name in sorted(files):
            part = name.endswith(".part")
            if (when < dead) if part else (size > most):
                with contextlib.suppress(OSError):
                    os.unlink(self._name(name), dir_fd=self.at)
                size -= n


def _digest(secret: bytes, key: str, code: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + code, "sha256")
