"""What is kept of compiled kernels, where, and what of it counts: it is run."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from together import together

from pyframe.backend import cache
from pyframe.backend.cache import DiskCache, cache_folder

POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
KEY, OTHER = "a" * 64, "b" * 64
CODE = b"machine code"


def read(folder: Path, key: str = KEY) -> bytes | None:
    return DiskCache(folder).read([key]).get(key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with a file."""
    out = tmp_path / "above" / "kernels"
    DiskCache(out).write({KEY: CODE})
    assert read(out) == CODE
    return out


@POSIX
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_files_are_for_this_user_alone(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        DiskCache(tmp_path / "a" / "b").write({KEY: CODE})
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "secret": 0o600, KEY: 0o600}
    assert read(tmp_path / "a" / "b") == CODE


def by_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def by_file(path: Path) -> None:
    path.rename(path.parent / "aside")
    path.write_bytes(b"")


def by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES: dict[str, Callable[[Path], None]] = {
    "written by a group": lambda p: p.chmod(0o660),
    "written by all": lambda p: p.chmod(0o602),
    "a link": by_link,
    "a pipe": by_pipe,
    "a folder": by_folder,
    "another byte": lambda p: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:]),
    "with a checksum that anyone can make": lambda p: p.write_bytes(
        hashlib.sha256(p.name.encode() + CODE).digest() + CODE
    ),
    "cut off": lambda p: p.write_bytes(p.read_bytes()[:-1]),
    "empty": lambda p: p.write_bytes(b""),
    "large": lambda p: os.truncate(p, 1 << 40),
    "gone": lambda p: p.unlink(),
}


@POSIX
@pytest.mark.parametrize("name", [KEY, "secret"])
@pytest.mark.parametrize("how", FILES)
def test_a_file_that_others_could_have_written_is_not_there(
    how: str, name: str, folder: Path
) -> None:
    FILES[how](folder / name)
    assert read(folder) is None
    DiskCache(folder).write({OTHER: CODE, KEY: CODE})
    if how == "a folder":  # which no file takes the place of
        assert read(folder) is None
    else:
        assert (read(folder), read(folder, OTHER)) == (CODE, CODE)


def test_a_file_under_another_name_does_not_count(folder: Path) -> None:
    (folder / KEY).rename(folder / OTHER)
    assert read(folder, OTHER) is None


def test_a_file_of_another_cache_does_not_count(folder: Path, tmp_path: Path) -> None:
    DiskCache(tmp_path / "theirs").write({KEY: b"their code"})
    os.replace(tmp_path / "theirs" / KEY, folder / KEY)
    assert read(folder) is None


FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (by_link, "is a link or no folder"),
    "a file": (by_file, "is a link or no folder"),
    "open to all": (lambda p: p.chmod(0o777), "can be written by other users"),
    "open to a group": (lambda p: p.chmod(0o770), "can be written by other users"),
    "of another user": (lambda p: None, "belongs to another user"),
}


@POSIX
@pytest.mark.parametrize("how", FOLDERS)
def test_a_folder_of_others_is_told_once_and_left_alone(
    how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, why = FOLDERS[how]
    change(folder)
    if how == "of another user":
        us = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    for first in (lambda c: c.read([KEY]), lambda c: c.write({OTHER: CODE})):
        one = DiskCache(folder)
        with pytest.warns(UserWarning, match=f"{folder} {why}.*PYFRAME_CACHE") as told:
            first(one)
        assert len(told) == 1
        assert one.read([KEY, OTHER]) == {}
        one.write({OTHER: CODE})
    assert not (folder / OTHER).exists()


@POSIX
def test_nothing_is_made_in_a_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the home of the user who called sudo."""
    status = list(os.lstat(tmp_path))
    status[4] = os.geteuid() + 1
    monkeypatch.setattr(cache.os, "stat", lambda path: os.stat_result(status))
    with pytest.warns(UserWarning, match="belongs to another user"):
        DiskCache(tmp_path / "new").write({KEY: CODE})
    assert not list(tmp_path.iterdir())


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["mkdir", "open", "replace", "urandom"])
def test_where_nothing_can_be_written_nothing_is_said(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache.os, call, full)
    one = DiskCache(tmp_path / "new")
    one.write({KEY: CODE})
    assert one.read([KEY]) == {}
    monkeypatch.undo()
    assert {p.name for p in tmp_path.rglob("*")} <= {"new", "secret"}
    DiskCache(None).write({KEY: CODE})
    assert DiskCache(None).read([KEY]) == {}


def test_several_that_read_and_write_at_once(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(30):
            DiskCache(tmp_path / "new").write({KEY: CODE, OTHER: CODE})
            assert DiskCache(tmp_path / "new").read([KEY, OTHER]) == {KEY: CODE, OTHER: CODE}

    together(work, 4)
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"secret", KEY, OTHER}


def test_a_system_without_descriptors_of_folders_keeps_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_POSIX", False)
    test_the_oldest_files_go(tmp_path)
    monkeypatch.setattr(cache.os, "link", full)  # nor links
    DiskCache(tmp_path / "more").write({KEY: CODE})
    assert read(tmp_path / "more") == CODE


def test_the_oldest_files_go(tmp_path: Path) -> None:
    """And no others: the folder may hold what is not pyframe's."""
    one = DiskCache(tmp_path, 250)
    new, old, oldest, dead = (c * 64 for c in "0123")
    theirs = ["f" * 63, f"{new}.txt", "secret"]
    for age, name in enumerate([new, old, oldest, f"{dead}.{'0' * 16}.part", *theirs]):
        one.write({name: bytes(68)} if name in (new, old, oldest) else {new: bytes(68)})
        if name not in (new, old, oldest):
            (tmp_path / name).write_bytes((tmp_path / "secret").read_bytes())
        os.utime(tmp_path / name, (time.time() - age * 100_000,) * 2)
    os.utime(tmp_path / new)
    DiskCache(tmp_path, 250).write({new: bytes(68)})
    assert {f.name for f in tmp_path.iterdir()} == {new, old, *theirs}
    assert one.read([old]) == {old: bytes(68)}
    assert time.time() - (tmp_path / old).stat().st_mtime < 50_000  # it was used


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"PYFRAME_CACHE": "/some/where"}, "/some/where"),
        ({"PYFRAME_CACHE": "some/where"}, f"{Path.cwd()}/some/where"),
        ({"PYFRAME_CACHE": "~/where"}, "/home/me/where"),
        ({"PYFRAME_CACHE": ""}, None),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/pyframe"),
        ({"XDG_CACHE_HOME": "cache"}, "/home/me/.cache/pyframe"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/pyframe"),
        ({}, "/home/me/.cache/pyframe"),
        ({"HOME": ""}, "~/.cache/pyframe"),
        ({"HOME": "me"}, "~/.cache/pyframe"),
        ({"HOME": None}, "~/.cache/pyframe"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="where Linux keeps such files")
def test_where_the_folder_is(
    environment: dict[str, str | None], folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    unset = {"PYFRAME_CACHE": None, "XDG_CACHE_HOME": None, "HOME": "/home/me"}
    for name, value in (unset | environment).items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    if folder and folder.startswith("~"):  # the system knows the user's home
        folder = pwd.getpwuid(os.getuid()).pw_dir + folder[1:]
    assert cache_folder() == (None if folder is None else Path(folder))


@pytest.mark.skipif(sys.platform != "linux", reason="where Linux keeps such files")
def test_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setenv("PYFRAME_CACHE", "~nosuch/kernels")
    with pytest.warns(UserWarning, match="'~nosuch/kernels', and there is no such user"):
        assert cache_folder() is None
    for name in ("PYFRAME_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)  # as in a container with a user's number alone
    assert cache_folder() is None
