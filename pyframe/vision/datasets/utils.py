"""Files of data sets: fetched, checked and unpacked, as torchvision.datasets.utils.

Archives come from elsewhere. What is unpacked stays in its folder and within bounds: nothing of an
archive is written that names a path outside, a link or a device, or that is far larger than it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple, cast

from pyframe.io.download import download
from pyframe.io.files import replacing

_CHUNK = 1 << 20
_RATIO = 200  # bytes unpacked, at most, from one of an archive: data sets stay below 20
_LEAST = 1 << 28  # bytes that may be unpacked in any case
_COMPRESSED = {".bz2": "bz2", ".gz": "gzip", ".xz": "lzma"}  # and the module that opens it
_ALIASES = {".tbz": ".tar.bz2", ".tbz2": ".tar.bz2", ".tgz": ".tar.gz", ".txz": ".tar.xz"}


def calculate_md5(fpath: str | os.PathLike[str], chunk_size: int = _CHUNK) -> str:
    """The MD5 checksum of a file, in hex."""
    import hashlib

    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
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
    url: str,
    root: str | os.PathLike[str],
    filename: str | os.PathLike[str] | None = None,
    md5: str | None = None,
) -> None:
    """Fetch a file into the folder `root`, unless it is there with this checksum.

    RuntimeError if it can't be had.
    """
    path = Path(root).expanduser() / (filename or os.path.basename(url))
    if not check_integrity(path, md5):
        download([url], path, md5)


def download_and_extract_archive(
    url: str,
    download_root: str | os.PathLike[str],
    extract_root: str | os.PathLike[str] | None = None,
    filename: str | os.PathLike[str] | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """`download_url`, and `extract_archive` into `extract_root` (or where the archive lies)."""
    folder = Path(download_root).expanduser()
    filename = filename or os.path.basename(url)
    download_url(url, folder, filename, md5)
    extract_archive(folder / filename, extract_root or folder, remove_finished)


def extract_archive(
    from_path: str | os.PathLike[str],
    to_path: str | os.PathLike[str] | None = None,
    remove_finished: bool = False,
) -> str | Path:
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
    bound = max(_LEAST, _RATIO * path.stat().st_size)
    root = Path(os.path.realpath(folder))
    with _damage(path), members(path) as (found, open_member):
        total, checked = 0, []
        for member in found:
            total += member.size + 512  # a tar's header: many members are much too
            if total > bound:
                raise ValueError(
                    f"{path}: refused at {member.name!r}: more than {bound} bytes would be "
                    f"unpacked from {path.stat().st_size}"
                )
            checked.append((member, _inside(path, root, member)))
        for member, target in checked:
            if not Path(os.path.realpath(target)).is_relative_to(root):
                raise _refused(path, member.name, f"a link in {folder} leads out of it")
            if member.kind == "folder":
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            # Not `replacing`: it waits for the disk at each of what can be many thousand files.
            with open_member(member.handle) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, _CHUNK)


def _inside(path: Path, root: Path, member: _Member) -> Path:
    """Where a member goes. ValueError if it is not for a file or folder in `root`."""
    name = member.name
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        raise _refused(path, name, "its path is absolute")
    if ".." in posix.parts or ".." in windows.parts:
        raise _refused(path, name, "its path leaves the folder with '..'")
    if "\0" in name:
        raise _refused(path, name, "its path has a NUL")
    if member.kind not in ("file", "folder"):
        raise _refused(path, name, f"it is {member.kind}, expected files and folders")
    return root / posix


def _refused(path: Path, name: str, why: str) -> ValueError:
    return ValueError(f"{path}: refused for its member {name!r}: {why}; nothing of it is unpacked")


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Errors of damaged archives as ValueErrors that name the file."""
    import tarfile
    import zipfile

    kinds = [EOFError, NotImplementedError, tarfile.TarError, zipfile.BadZipFile, zlib.error]
    with contextlib.suppress(ImportError):  # a page may have no lzma
        import lzma

        kinds.append(lzma.LZMAError)
    try:
        yield
    except tuple(kinds) as error:
        raise ValueError(
            f"{path}: the archive is damaged or of an unknown kind ({error})"
        ) from None
    except OSError as error:
        if error.errno is not None:  # of the system: no room, no permission
            raise
        raise ValueError(f"{path}: the compressed data is damaged ({error})") from None


@contextlib.contextmanager
def _tar_members(path: Path) -> Iterator[Any]:
    import tarfile

    kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link"}

    def kind(info: tarfile.TarInfo) -> str:
        if info.isreg():
            return "file"
        return "folder" if info.isdir() else kinds.get(info.type, "a device or pipe")

    with tarfile.open(path, "r:*") as tar:
        found = (_Member(info.name, info.size, kind(info), info) for info in tar)
        yield found, tar.extractfile


@contextlib.contextmanager
def _zip_members(path: Path) -> Iterator[Any]:
    import zipfile

    def kind(info: zipfile.ZipInfo) -> str:
        form = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive's system has none
        if form not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "a symbolic link" if form == stat.S_IFLNK else "a device or pipe"
        if info.flag_bits & 1:
            return "encrypted"
        return "folder" if info.is_dir() else "file"

    with zipfile.ZipFile(path) as archive:
        found = (_Member(i.filename, i.file_size, kind(i), i) for i in archive.infolist())
        yield found, archive.open


def _decompress(path: Path, target: Path) -> None:
    """Write what is in a compressed file to `target`."""
    bound = max(_LEAST, 1032 * path.stat().st_size)  # the most that gzip can hold
    target.parent.mkdir(parents=True, exist_ok=True)
    with _damage(path), _opened(path) as source, replacing(target) as file:
        total = 0
        while chunk := source.read(_CHUNK):
            total += len(chunk)
            if total > bound:
                raise ValueError(f"{path}: refused: more than {bound} bytes would be unpacked")
            file.write(chunk)


def _opened(path: Path) -> IO[bytes]:
    module = importlib.import_module(_COMPRESSED[path.suffix.lower()])
    return cast(IO[bytes], module.open(path, "rb"))


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
