"""Files of data sets: fetched, checked and unpacked, as torchvision.datasets.utils.

Archives come from elsewhere. What is unpacked stays in its folder and within bounds: nothing of an
archive is written that names a path outside, a link or a device, or that is far larger than it,
and nothing is written through what was there before: a file takes the place of another.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import stat
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple, cast

from pyframe.io.download import download
from pyframe.io.files import Bounded, head, is_damage, most_of, opened, replacing
from pyframe.io.kinds import mistaken
from pyframe.io.transfer import is_plain_name

_CHUNK = 1 << 20
_BLOCK = 4096  # bytes of a disk that a file or folder takes, be it empty
_NAME, _DEEP = 255, 100  # the longest name that systems have, and folders in each other
# Bytes of a tar's headers for one member: some of them say their size themselves
_HEADERS = 1 << 20
_WINDOWS = os.name == "nt"
_JUNCTION = 0xA0000003  # what Windows calls one in `os.stat_result.st_reparse_tag`
_STARTS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "lzma"}
_COMPRESSED = {".bz2": "bz2", ".gz": "gzip", ".xz": "lzma"}  # and the module that opens it
_ALIASES = {".tbz": ".tar.bz2", ".tbz2": ".tar.bz2", ".tgz": ".tar.gz", ".txz": ".tar.xz"}


def calculate_md5(fpath: str | os.PathLike[str], chunk_size: int = _CHUNK) -> str:
    """The MD5 checksum of a file, in hex."""
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with opened(fpath) as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: str | os.PathLike[str], md5: str, **kwargs: Any) -> bool:
    """Whether the file has this checksum."""
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: str | os.PathLike[str], md5: str | None = None) -> bool:
    """Whether the file is there and, if one is given, has this checksum."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str, root: str | os.PathLike[str], filename: str | os.PathLike[str] | None = None,
    md5: str | None = None,
) -> None:  # fmt: skip
    """Fetch a file into the folder `root`, unless it is there with this checksum.

    RuntimeError if it can't be had.
    """
    path = Path(root).expanduser() / (filename or os.path.basename(url))
    if not check_integrity(path, md5):
        download([url], path, md5)


def download_and_extract_archive(
    url: str, download_root: str | os.PathLike[str],
    extract_root: str | os.PathLike[str] | None = None,
    filename: str | os.PathLike[str] | None = None, md5: str | None = None,
    remove_finished: bool = False,
) -> None:  # fmt: skip
    """`download_url`, and `extract_archive` into `extract_root` (or where the archive lies)."""
    folder = Path(download_root).expanduser()
    filename = filename or os.path.basename(url)
    download_url(url, folder, filename, md5)
    extract_archive(folder / filename, extract_root or folder, remove_finished)


def extract_archive(
    from_path: str | os.PathLike[str], to_path: str | os.PathLike[str] | None = None,
    remove_finished: bool = False,
) -> str | Path:  # fmt: skip
    """Unpack a .zip, a .tar (also .gz, .bz2, .xz) or a compressed file into the folder `to_path`.

    Without one, into the folder of the archive. Gives the folder, or the file that was compressed.
    RuntimeError for a suffix that is unknown, ValueError for an archive that is damaged or holds
    what is not unpacked: a path that leaves the folder, a link, a device, or far too much.
    """
    path = Path(from_path)
    folder = path.parent if to_path is None else Path(to_path)
    suffix = "".join(path.suffixes[-2:]).lower()
    last = path.suffix.lower()
    suffix = _ALIASES.get(last, suffix)
    target = folder
    if last == ".zip":
        _extract(path, folder, _zip_members)
    elif last == ".tar" or suffix in [f".tar{kind}" for kind in _COMPRESSED]:
        _extract(path, folder, _tar_members)
    elif last in _COMPRESSED:
        target = folder / path.stem
        _decompress(path, target)
    else:
        known = ".zip .tar .tgz .tbz .txz .tar.gz .tar.bz2 .tar.xz .gz .bz2 .xz"
        raise RuntimeError(
            f"extract_archive: unknown compression or archive type {last!r} of {path}, expected "
            f"one of {known}"
        )
    if remove_finished:
        path.unlink()
    return os.fspath(target) if isinstance(from_path, str) else target


class _Member(NamedTuple):
    """What an archive says of one of its members."""

    name: str
    size: int
    kind: str  # "file", "folder", or what it is instead
    handle: Any


def _extract(path: Path, folder: Path, members: Any) -> None:
    """Unpack what `members(path)`, a context, yields; it is looked through whole before."""
    bound = most_of(path.stat().st_size)
    root = os.path.realpath(folder)
    for writes in (False, True):
        with _damage(path), members(path) as (found, open_member):
            total, last = 0, None
            for member in found:
                parts = _inside(path, member)
                total += max(member.size, 0) + _BLOCK * len(parts)
                if total > bound or member.size < 0:
                    raise ValueError(
                        f"{path}: refused at {member.name!r:.99}: more than {bound} bytes would be "
                        f"unpacked from {path.stat().st_size}"
                    )
                if member.kind == "file" and not parts:
                    raise _refused(path, member.name, "it has no name")
                parents = parts[: len(parts) - (member.kind == "file")]
                if parents != last:
                    _reach(path, member, root, parents, writes)
                    last = parents
                if member.kind == "file":
                    target = os.path.join(root, *parts)
                    _clear(path, member, target, writes)
                    if writes:
                        # Not `replacing`: it waits for the disk at each of many thousand files.
                        with open_member(member.handle) as source, _new(target) as file:
                            shutil.copyfileobj(source, file, _CHUNK)


def _inside(path: Path, member: _Member) -> tuple[str, ...]:
    """Where a member goes, below the folder. ValueError if it is not for a file or folder in it."""
    name = member.name
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        raise _refused(path, name, "its path is absolute")
    if ".." in posix.parts or ".." in windows.parts:
        raise _refused(path, name, "its path leaves the folder with '..'")
    if "\0" in name or (_WINDOWS and not all(map(is_plain_name, posix.parts))):
        raise _refused(path, name, "its path has a name that no file can have")
    if len(posix.parts) > _DEEP or any(len(os.fsencode(part)) > _NAME for part in posix.parts):
        raise _refused(path, name, f"its path has names over {_NAME} bytes or over {_DEEP} folders")
    if member.kind not in ("file", "folder"):
        raise _refused(path, name, f"it is {member.kind}, expected files and folders")
    return posix.parts


def _reach(path: Path, member: _Member, root: str, parts: tuple[str, ...], makes: bool) -> None:
    """See that folders below `root` are folders and no links; `makes` makes what is not there."""
    folder = root
    if makes:
        os.makedirs(root, exist_ok=True)
    for part in parts:
        folder = os.path.join(folder, part)
        try:
            status = os.lstat(folder)
        except FileNotFoundError:
            if not makes:
                return
            os.mkdir(folder)
            continue
        junction = getattr(status, "st_reparse_tag", 0) == _JUNCTION
        if not stat.S_ISDIR(status.st_mode) or junction:
            raise _refused(path, member.name, f"{folder} is there and is a link or no folder")


def _clear(path: Path, member: _Member, target: str, removes: bool) -> None:
    """See that a file can take the place of `target`, where it is removed, not written through."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(target).st_mode):
            raise _refused(path, member.name, f"{target} is there and is a folder")
        if removes:
            os.unlink(target)


def _new(target: str) -> IO[bytes]:
    """A file that nobody had before."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    more = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(target, flags | more, 0o666), "wb")


def _refused(path: Path, name: str, why: str) -> ValueError:
    return ValueError(
        f"{path}: refused for its member {name!r:.99}: {why}; nothing of it is unpacked"
    )


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Errors of damaged archives as ValueErrors that name the file."""
    import tarfile
    import zipfile

    kinds = [
        EOFError, NotImplementedError, tarfile.TarError, zipfile.BadZipFile, zlib.error,
        RecursionError, MemoryError, OverflowError, struct.error,
    ]  # fmt: skip
    with contextlib.suppress(ImportError):  # a page may have no lzma
        import lzma

        kinds.append(lzma.LZMAError)
    try:
        yield
    except tuple(kinds) as error:
        why = mistaken(head(path)) or f"{error!s:.200}"
        raise ValueError(f"{path}: the archive is damaged or of an unknown kind ({why})") from None
    except ValueError as error:
        if str(error).startswith(f"{path}: refused"):
            raise
        raise ValueError(f"{path}: the archive is damaged ({error!s:.200})") from None
    except OSError as error:
        if not is_damage(error):  # of the system: no room, no permission
            raise
        why = mistaken(head(path)) or f"{error!s:.200}"
        raise ValueError(f"{path}: the compressed data is damaged ({why})") from None


@contextlib.contextmanager
def _tar_members(path: Path) -> Iterator[Any]:
    import tarfile

    kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link"}

    def kind(info: tarfile.TarInfo) -> str:
        if info.isreg():
            return "file"
        return "folder" if info.isdir() else kinds.get(info.type, "a device or pipe")

    def each() -> Iterator[_Member]:
        while True:
            stream.left = _HEADERS
            info = tar.next()
            tar.members.clear()  # it would keep all of them
            if info is None:
                return
            stream.left = sys.maxsize
            yield _Member(info.name, info.size, kind(info), info)

    with opened(path) as file:
        start = file.read(6)
        file.seek(0)
        packed = next((m for s, m in _STARTS.items() if start.startswith(s)), None)
        plain = importlib.import_module(packed).open(file) if packed else file
        stream: Any = _Headers(plain)
        tar: Any = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115  (`file` is closed)
        yield each(), tar.extractfile


class _Headers:
    """The bytes of a tar, of which no more than `left` are read: `tarfile` reads a header of any
    length that it says."""

    def __init__(self, file: IO[bytes]) -> None:
        self.left, self._file = _HEADERS, file
        self.seek, self.tell = file.seek, file.tell

    def read(self, n: int = -1) -> bytes:
        if not 0 <= n <= self.left:
            raise ValueError(f"a header of over {_HEADERS} bytes")
        self.left -= n
        return self._file.read(n)


@contextlib.contextmanager
def _zip_members(path: Path) -> Iterator[Any]:
    import zipfile

    def kind(info: zipfile.ZipInfo) -> str:
        form = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive's system has none
        if form not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "a symbolic link" if form == stat.S_IFLNK else "a device or pipe"
        if info.flag_bits & 1:
            return "encrypted"
        return "folder" if info.filename.endswith("/") else "file"

    with opened(path) as file, zipfile.ZipFile(cast(IO[bytes], Bounded(file))) as archive:
        found = (_Member(i.filename, i.file_size, kind(i), i) for i in archive.infolist())
        yield found, archive.open


def _decompress(path: Path, target: Path) -> None:
    """Write what is in a compressed file to `target`."""
    bound = most_of(path.stat().st_size)
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target) and not stat.S_ISREG(os.lstat(target).st_mode):
        raise ValueError(f"{path}: refused: {target} is there and is a link or no file")
    module = importlib.import_module(_COMPRESSED[path.suffix.lower()])
    with _damage(path), opened(path) as packed, module.open(packed) as source, (
        replacing(target)
    ) as file:  # fmt: skip
        total = 0
        while chunk := source.read(_CHUNK):
            total += len(chunk)
            if total > bound:
                raise ValueError(f"{path}: refused: more than {bound} bytes would be unpacked")
            file.write(chunk)


def verify_str_arg(
    value: str, arg: str | None = None, valid_values: Iterable[str] | None = None
) -> str:
    """`value` if it is one of `valid_values`. ValueError if not, or if it is no str."""
    what = f"argument {arg}" if arg else "this argument"
    if not isinstance(value, str):
        raise ValueError(f"Expected type str for {what}, but got type {type(value).__name__}.")
    if valid_values is not None and value not in (valid := list(valid_values)):
        raise ValueError(f"Unknown value {value!r} for {what}. Valid values are {valid}.")
    return value
