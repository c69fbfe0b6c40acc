"""Data sets of images: their samples, their files, and archives that mean harm."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import stat
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.test_mnist import write as mnist_files
from refused import calls, check_refused, rows

import pyframe as pf
from pyframe.data import DataLoader
from pyframe.io import files
from pyframe.vision import datasets, io as vio, transforms
from pyframe.vision.datasets import folder, utils

PIXELS = np.random.RandomState(0).randint(0, 256, (6, 3072), np.uint8)
LABELS = [3, 1, 4, 1, 5, 9]


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


# --- what all share


class Two(datasets.VisionDataset):
    def __getitem__(self, index: int) -> Any:
        return index

    def __len__(self) -> int:
        return 2

    def extra_repr(self) -> str:
        return "Split: Train\nKind: odd"


class Twice:
    def __call__(self, x: Any) -> Any:
        return x * 2

    def __repr__(self) -> str:
        return "Twice(\n    2\n)"


PRINTED = """
Two() | Two(root="a/b") | Two(root="a", transform=Twice())
Two(transform=Twice(), target_transform=Twice()) | Two(transforms=Twice())
"""


def test_repr_is_torchvisions(torchvision: Any) -> None:
    class Theirs(torchvision.datasets.VisionDataset):
        __len__, extra_repr = Two.__len__, Two.extra_repr

    Theirs.__name__ = "Two"
    for call in calls(PRINTED):
        ours, theirs = (eval(call, {"Two": kind, "Twice": Twice}) for kind in (Two, Theirs))
        assert repr(ours) == repr(theirs)


def test_transforms_are_given_together_or_apart() -> None:
    with pytest.raises(ValueError, match="only transforms or transform/target_transform"):
        Two(transforms=Twice(), transform=Twice())
    both = datasets.StandardTransform(Twice(), lambda y: -y)
    assert both(3, 4) == (6, -4)
    assert Two(transforms=both).transforms is both
    with pytest.raises(NotImplementedError, match="needs a __len__"):
        len(datasets.VisionDataset("x"))


def test_fake_data() -> None:
    data = datasets.FakeData(size=5, image_size=(3, 8, 6), num_classes=4)
    image, label = data[1]
    assert (image.shape, image.dtype, type(label)) == ((3, 8, 6), pf.float32, int)
    assert 0 <= image.min().item() < 0.1 < 0.9 < image.max().item() <= 1
    assert all(0 <= data[i][1] < 4 for i in range(5))
    np.testing.assert_array_equal(image.numpy(), data[1][0].numpy())
    assert (data[2][0] != image).any()
    assert (datasets.FakeData(5, (3, 8, 6), random_offset=1)[1][0] != image).any()
    with pytest.raises(IndexError, match="5 is out of range for 5"):
        data[5]
    assert repr(data) == "Dataset FakeData\n    Number of datapoints: 5"
    x, y = next(iter(DataLoader(data, 4)))
    assert (x.shape, y.dtype) == ((4, 3, 8, 6), pf.int64)


# --- folders of images


def image(path: Path, mode: str = "RGB") -> None:
    made = pytest.importorskip("PIL.Image", reason="Pillow, which reads images, is missing")
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.RandomState(len(path.name)).randint(0, 256, (5, 4, 3), np.uint8)
    made.fromarray(pixels).convert(mode).save(path)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    image(tmp_path / "zoo" / "cat" / "b.png")
    image(tmp_path / "zoo" / "cat" / "young" / "a.PNG", "L")
    image(tmp_path / "zoo" / "ant" / "c.bmp")
    image(tmp_path / "zoo" / "dog" / "d.jpg")
    (tmp_path / "zoo" / "dog" / "notes.txt").write_text("x")
    return tmp_path / "zoo"


def test_image_folder(zoo: Path, torchvision: Any) -> None:
    ours, theirs = datasets.ImageFolder(zoo), torchvision.datasets.ImageFolder(zoo)
    assert (ours.samples, ours.targets) == (theirs.samples, theirs.targets)
    assert (ours.classes, ours.class_to_idx) == (theirs.classes, theirs.class_to_idx)
    assert ours.imgs is ours.samples
    assert repr(ours) == repr(theirs)
    for (x, label), (pil, expected) in zip(ours, theirs, strict=False):
        assert (x.shape, x.dtype, label) == ((3, 5, 4), pf.float32, expected)
        np.testing.assert_allclose(x.numpy(), np.array(pil).transpose(2, 0, 1) / 255, atol=1e-6)
    images, labels = next(iter(DataLoader(ours, 4)))
    assert (images.shape, labels.tolist()) == ((4, 3, 5, 4), [0, 1, 1, 2])


def test_coco(zoo: Path) -> None:
    ants = [{"id": 4, "image_id": 7, "caption": "an ant"}, {"id": 5, "image_id": 7, "caption": "b"}]
    images = [{"id": 9, "file_name": "dog/d.jpg"}, {"id": 7, "file_name": "ant/c.bmp"}]
    (zoo / "said.json").write_text(json.dumps({"images": images, "annotations": ants}))
    (x, seen), (_, none) = datasets.CocoDetection(zoo, zoo / "said.json")
    assert (x.shape, seen, none) == ((3, 5, 4), ants, [])
    data = datasets.CocoCaptions(zoo, zoo / "said.json", lambda x: x.sum(), len)
    assert (data.ids, data[0][0].shape, data[0][1]) == ([7, 9], (), 2)


def test_image_folder_with_a_loader_and_transforms(zoo: Path) -> None:
    data = datasets.ImageFolder(zoo, lambda x: x.size, lambda y: -y, folder.pil_loader)
    assert [data[i] for i in range(4)] == [((4, 5), -label) for label in (0, 1, 1, 2)]
    assert data.loader is folder.pil_loader
    texts = datasets.DatasetFolder(zoo, lambda p: Path(p).name, (".txt",), allow_empty=True)
    assert list(texts) == [("notes.txt", 2)]
    named: Any = {"is_valid_file": lambda p: "a" in Path(p).stem, "allow_empty": True}
    chosen = datasets.ImageFolder(zoo, **named)
    assert [Path(p).name for p, _ in chosen.samples] == ["a.PNG"]


POSTSCRIPT = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 4 4
%%EndComments
(%pipe%touch ran) (w) file closefile
showpage
"""


def decoded(path: Path) -> pf.Tensor:
    return vio.decode_image(vio.read_file(path))


READERS = [folder.default_loader, folder.pil_loader, vio.read_image, decoded]


@pytest.mark.parametrize("read", READERS)
def test_a_program_named_as_an_image_is_not_run(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow gives PostScript to Ghostscript, whatever the file is called."""
    image = pytest.importorskip("PIL.Image", reason="Pillow, which reads images, is missing")
    eps = pytest.importorskip("PIL.EpsImagePlugin")
    image.init()
    ran: list[Any] = []
    monkeypatch.setattr(eps, "Ghostscript", lambda *a, **k: ran.append(a))
    (tmp_path / "x.jpg").write_bytes(POSTSCRIPT)
    with pytest.raises((ValueError, OSError), match="cannot identify image file"):
        read(tmp_path / "x.jpg")
    assert not ran
    for kind in ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP"):  # what a folder may hold
        image.new("RGB", (4, 3)).save(tmp_path / "x.jpg", kind)
        found = read(tmp_path / "x.jpg")
        assert found.size == (4, 3) if isinstance(found, image.Image) else found.shape[1:] == (3, 4)


def test_an_image_of_far_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, which reads images, is missing")
    image.new("L", (30, 30)).save(tmp_path / "x.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 400)
    with pytest.raises(ValueError, match=r"x\.png: far too large an image: .*MAX_IMAGE_PIXELS"):
        folder.default_loader(tmp_path / "x.png")


NO_DATA_SETS = r"""
D.ImageFolder(zoo) -> for the classes eel\. Supported extensions are
D.ImageFolder(zoo / "eel")
D.ImageFolder(zoo / "nowhere")
D.DatasetFolder(zoo, loader=str)
D.DatasetFolder(zoo, str, (".png",), is_valid_file=bool)
D.DatasetFolder.make_dataset(zoo, {}, (".png",))
D.DatasetFolder.make_dataset(zoo, None, (".png",))
"""


def test_folders_that_are_no_data_set(zoo: Path, torch: Any, torchvision: Any) -> None:
    (zoo / "eel").mkdir()
    libs = {pf: datasets, torch: torchvision.datasets}
    for call, text in rows(NO_DATA_SETS):
        check_refused(call, text, lambda lib: {"D": libs[lib], "zoo": zoo}, torch)
    assert folder.is_image_file("A.JPEG")
    assert not folder.has_file_allowed_extension("a.txt", (".png", ".jpg"))


# --- a program of torchvision, with its imports changed


def test_a_torchvision_program(tmp_path: Path) -> None:
    mnist_files(tmp_path / "MNIST" / "raw")
    t = transforms
    steps = [t.RandomCrop(28, padding=2), t.ToTensor(), t.Normalize((0.1307,), (0.3081,))]
    data = datasets.MNIST(tmp_path, train=True, download=True, transform=t.Compose(steps))
    x, y = next(iter(DataLoader(data, batch_size=3)))
    assert (x.shape, x.dtype, y.tolist()) == ((3, 1, 28, 28), pf.float32, [3, 1, 4])
    np.testing.assert_allclose(x.min().item(), -0.1307 / 0.3081, rtol=1e-5)
    data.transform = transforms.PILToTensor()
    np.testing.assert_array_equal(data[1][0].numpy()[0], data.data.numpy()[1])
    assert repr(data).startswith(
        f"Dataset MNIST\n    Number of datapoints: 7\n    Root location: {tmp_path}\n"
        "    Split: Train\n    StandardTransform\nTransform: Compose("
    )


def test_emnist(tmp_path: Path, torchvision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = torchvision.datasets.EMNIST
    assert datasets.EMNIST.classes_split_dict == theirs.classes_split_dict
    assert (datasets.EMNIST.archive_md5, datasets.EMNIST.url) == (theirs.md5, theirs.url)
    files = sorted(mnist_files(tmp_path / "gzip", "emnist-letters-train").iterdir())
    archive = tmp_path / "gzip.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in files:
            file.write(path, f"gzip/{path.name}")
    with pytest.raises(RuntimeError, match="Dataset not found: no emnist-letters-train"):
        datasets.EMNIST(tmp_path / "data", "letters")
    monkeypatch.setattr(datasets.EMNIST, "url", archive.as_uri())
    monkeypatch.setattr(datasets.EMNIST, "archive_md5", md5(archive.read_bytes()))
    data = datasets.EMNIST(tmp_path / "data", split="letters", download=True)
    assert (len(data), data.classes[data[0][1]]) == (7, "c")
    found = {p.name for p in data.raw_folder.iterdir()}
    assert found == {"gzip.zip", *(path.name for path in files)}
    with pytest.raises(ValueError, match="Unknown value 'words' for argument split"):
        datasets.EMNIST(tmp_path, "words")


# --- CIFAR


def python2(value: Any) -> bytes:
    """A pickle as Python 2 with NumPy wrote the batches: bytes are its str."""
    if isinstance(value, dict):
        items = b"".join(python2(k) + python2(v) for k, v in value.items())
        return b"}(" + items + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(python2, value)) + b"e"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, tuple):
        return b"(" + b"".join(map(python2, value)) + b"t"
    if isinstance(value, np.ndarray):
        array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
        dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN" + 2 * b"J\xff\xff\xff\xff"
        state = python2(value.shape) + dtype + b"K\x00tb\x89" + python2(value.tobytes())
        return array + b"(K\x01" + state + b"tb"
    text = value.encode() if isinstance(value, str) else value
    return b"T" + struct.pack("<i", len(text)) + text


def cifar(kind: Any, monkeypatch: pytest.MonkeyPatch, root: Path, data: Any = None) -> None:
    """Files of a small CIFAR in `root`, whose checksums are those expected."""
    labels = kind._labels_key
    place = root / kind.base_folder
    place.mkdir(parents=True, exist_ok=True)
    lists = []
    for names, start in ((kind.train_list, 0), (kind.test_list, 3)):
        found = []
        for name, _ in names:
            entry = {"data": PIXELS[start : start + 3], labels: LABELS[start : start + 3]}
            text = data if data is not None else b"\x80\x02" + python2(entry) + b"."
            (place / name).write_bytes(text)
            found.append([name, md5(text)])
        lists.append(found)
    meta = python2({kind.meta["key"]: [f"class {i}" for i in range(10)]})
    (place / kind.meta["filename"]).write_bytes(b"\x80\x02" + meta + b".")
    monkeypatch.setattr(kind, "train_list", lists[0])
    monkeypatch.setattr(kind, "test_list", lists[1])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": md5(b"\x80\x02" + meta + b".")})


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_cifar(
    kind: Any, tmp_path: Path, torchvision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = getattr(torchvision.datasets, kind.__name__)
    for name in "base_folder url filename tgz_md5 train_list test_list".split():
        assert getattr(kind, name) == getattr(theirs, name), name
    assert kind.meta == theirs.meta
    cifar(kind, monkeypatch, tmp_path)
    for name in "train_list test_list meta".split():
        monkeypatch.setattr(theirs, name, getattr(kind, name))
    for train in (True, False):
        ours, expected = kind(tmp_path, train), theirs(tmp_path, train)
        np.testing.assert_array_equal(ours.data, expected.data)
        assert (ours.targets, ours.classes) == (expected.targets, expected.classes)
        assert ours.class_to_idx == expected.class_to_idx
        assert repr(ours) == repr(expected)
        x, label = ours[2]
        assert (x.shape, x.dtype, label) == ((3, 32, 32), pf.float32, expected[2][1])
        pixels = np.array(expected[2][0]).transpose(2, 0, 1)
        np.testing.assert_allclose(x.numpy(), pixels / 255, atol=1e-6)
    seen = kind(tmp_path, transform=lambda x: x.sum(), target_transform=lambda y: -y)[1]
    assert (seen[0].shape, seen[1]) == ((), -1)


def test_cifar_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar(datasets.CIFAR100, monkeypatch, tmp_path)
    data = datasets.CIFAR100(tmp_path)
    samples = [data[i] for i in (2, 0)]
    monkeypatch.setattr(datasets.CIFAR100, "__getitem__", None)
    for targets in (data.targets, np.array(data.targets), pf.tensor(data.targets)):
        data.targets = targets  # users who choose some of the samples make arrays of them
        x, y = data.__getbatch__([2, 0])
        assert (y.tolist(), y.dtype) == ([label for _, label in samples], pf.int64)
    assert x.is_contiguous()
    np.testing.assert_array_equal(x.numpy(), np.stack([image.numpy() for image, _ in samples]))


def test_cifar_is_fetched_unpacked_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = datasets.CIFAR10
    cifar(kind, monkeypatch, tmp_path / "source")
    archive = tmp_path / kind.filename
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "source" / kind.base_folder, kind.base_folder)
    monkeypatch.setattr(kind, "url", archive.as_uri())
    monkeypatch.setattr(kind, "tgz_md5", md5(archive.read_bytes()))
    root = tmp_path / "data"
    with pytest.raises(RuntimeError, match=r"not found or corrupted: .*data_batch_1.*download=T"):
        kind(root)
    assert len(kind(root, download=True)) == 15
    archive.unlink()
    assert len(kind(root, train=False, download=True)) == 3, "what is there is not fetched again"
    with open(root / kind.base_folder / "data_batch_3", "ab") as file:
        file.write(b"x")
    with pytest.raises(RuntimeError, match="corrupted: .*data_batch_3"):
        kind(root)


class Harm:
    def __reduce__(self) -> Any:
        return exec, ("open('harm', 'w').close()",)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pickle.dumps(Harm(), 4), "it names builtins.exec, expected arrays, dicts"),
        (pickle.dumps({"data": print, "labels": []}, 4), "it names builtins.print"),
        (pickle.dumps({"data": np.zeros((3, 3072)), "labels": [1, 2, 3]}, 4), "dtype 'f8'"),
        (pickle.dumps({"data": np.array([{}]), "labels": [1]}, 4), "dtype 'O8'"),
        (pickle.dumps([1]), "list, expected a dict"),
        (b"\x80\x02cos\nsystem\n(U\x04exittR.", "it names os.system"),
        (b"\x80\x02" + python2({"data": PIXELS}), "not a CIFAR batch"),
        (b"<html>", "not a CIFAR batch"),
        (b"", "not a CIFAR batch"),
        (pickle.dumps({"data": PIXELS[:2], "labels": [1, 2, 3]}, 4), "expected 'data', uint8"),
        (pickle.dumps({"data": "x", "labels": 3}, 4), "expected 'data', uint8"),
    ],
)
def test_a_batch_that_is_none_runs_nothing(
    data: bytes, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cifar(datasets.CIFAR10, monkeypatch, tmp_path, data)
    with pytest.raises(ValueError, match=rf"data_batch_1: .*{text}"):
        datasets.CIFAR10(tmp_path)
    assert not Path("harm").exists()


def test_a_batch_of_python_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = np.asfortranarray(PIXELS)  # its bytes lie column by column
    data = pickle.dumps({"data": turned, "labels": LABELS}, 4)
    cifar(datasets.CIFAR10, monkeypatch, tmp_path, data)
    found = datasets.CIFAR10(tmp_path, train=False).data
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2).reshape(6, -1), PIXELS)


# --- files and archives


def test_checksums_and_downloads(tmp_path: Path) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(b"abc")
    assert utils.calculate_md5(source) == md5(b"abc") == utils.calculate_md5(source, chunk_size=2)
    assert utils.check_md5(source, md5(b"abc"))
    assert utils.check_integrity(source)
    assert not utils.check_integrity(source, md5(b"abd"))
    assert not utils.check_integrity(tmp_path)
    root = tmp_path / "new" / "folder"
    utils.download_url(source.as_uri(), root, md5=md5(b"abc"))
    utils.download_url(source.as_uri(), str(root), "b.bin")
    assert {p.name: p.read_bytes() for p in root.iterdir()} == {"a.bin": b"abc", "b.bin": b"abc"}
    source.unlink()
    utils.download_url(source.as_uri(), root, md5=md5(b"abc"))  # it is there
    with pytest.raises(RuntimeError, match=r"no address has a good c\.bin"):
        utils.download_url(source.as_uri(), root, "c.bin")


def archives(path: Path, members: dict[str, bytes]) -> list[Path]:
    """The same files in an archive of each kind."""
    made = [path / f"a{suffix}" for suffix in (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")]
    for archive in made:
        kind = {".tar": "w", ".bz2": "w:bz2", ".xz": "w:xz"}.get(archive.suffix, "w:gz")
        with tarfile.open(archive, kind) as tar:  # type: ignore[call-overload]
            for name, data in members.items():
                info = tarfile.TarInfo(name.rstrip("/"))
                info.size = len(data)
                info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
                info.mode = 0o4777
                tar.addfile(info, io.BytesIO(data))
    made.append(path / "a.zip")
    with zipfile.ZipFile(made[-1], "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return made


def refused(archive: Path, target: Path, why: str, *kinds: type[Exception]) -> None:
    """It is not unpacked, and the error says why."""
    with pytest.raises(kinds or ValueError, match=why):
        utils.extract_archive(archive, target)


def tree(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_archives(tmp_path: Path) -> None:
    members = {"x/": b"", "x/a.txt": b"a", "./b.txt": b"b" * 5000, "y/z/c": b"", "x..y": b"d"}
    expected = {name.removeprefix("./"): data for name, data in members.items() if name[-1] != "/"}
    for i, archive in enumerate(archives(tmp_path, members)):
        target = tmp_path / f"out{i}"
        assert utils.extract_archive(archive, target) == target
        assert tree(target) == expected
        assert not any(p.stat().st_mode & stat.S_ISUID for p in target.rglob("*"))
        assert utils.extract_archive(str(archive), str(target), remove_finished=True) == str(target)
        assert not archive.exists()
    for suffix, packed in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"one.txt{suffix}").write_bytes(packed(b"text" * 100))
        found = utils.extract_archive(tmp_path / f"one.txt{suffix}")
        assert Path(found) == tmp_path / "one.txt"
        assert Path(found).read_bytes() == b"text" * 100
    for name in ("a.rar", "a"):
        why = r"unknown compression or archive type.*\.zip \.tar"
        refused(tmp_path / name, tmp_path, why, RuntimeError)


LEAVING = {
    "../out": "leaves the folder with '..'", "x/../../out": "leaves the folder",
    "x\\..\\..\\out": "leaves the folder", "/tmp/out": "absolute", "C:/out": "absolute",
    "\\\\server\\out": "absolute",
}  # fmt: skip


@pytest.mark.parametrize(("name", "why"), LEAVING.items())
def test_paths_that_leave_the_folder(name: str, why: str, tmp_path: Path) -> None:
    for archive in archives(tmp_path, {"good": b"good", name: b"bad"}):
        refused(archive, tmp_path / "deep" / "t", f"{archive.name}: refused for .*out': .*{why}")
        assert not (tmp_path / "deep").exists(), "nothing of it is unpacked"


LINKS = [
    (tarfile.SYMTYPE, "..", "a symbolic link"), (tarfile.SYMTYPE, "good", "a symbolic link"),
    (tarfile.LNKTYPE, "good", "a hard link"), (tarfile.FIFOTYPE, "", "a device or pipe"),
    (tarfile.CHRTYPE, "", "a device or pipe"), (tarfile.BLKTYPE, "", "a device or pipe"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "link", "text"), LINKS)
def test_links_and_devices(kind: bytes, link: str, text: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("good"))
        info = tarfile.TarInfo("bad")
        info.type, info.linkname = kind, link
        tar.addfile(info)
    why = f"refused for its member 'bad': it is {text}"
    refused(tmp_path / "a.tar", tmp_path / "target", why)
    assert not (tmp_path / "target").exists()


def test_links_in_zips_and_in_the_folder(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("bad")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(info, "..")
    refused(tmp_path / "a.zip", tmp_path / "target", "'bad': it is a symbolic link")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as file:
        file.writestr("x", "..")
    nameless = (tmp_path / "c.zip").read_bytes().replace(b"x", b"\0")  # where a name ends
    (tmp_path / "c.zip").write_bytes(nameless)
    refused(tmp_path / "c.zip", tmp_path / "target", "'': it has no name")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "x").symlink_to(tmp_path / "elsewhere")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("x/out", "..")
    why = "'x/out': .*x is there and is a link or no folder"
    refused(tmp_path / "b.zip", tmp_path / "target", why)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes are POSIX's")
def test_nothing_is_written_through_what_was_there(tmp_path: Path) -> None:
    """A link, a second name of a file, a pipe: what is unpacked takes its place."""
    away, target = tmp_path / "away", tmp_path / "target"
    away.write_bytes(b"mine")
    for archive in archives(tmp_path, {"x": b"new", "y/x": b"new"}):
        for make in (os.symlink, os.link, lambda _, path: os.mkfifo(path)):
            for name in ("x", "y/x"):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).unlink(missing_ok=True)
                make(away, target / name)
                utils.extract_archive(archive, target)
                assert tree(target) == {"x": b"new", "y/x": b"new"}
                assert away.read_bytes() == b"mine"
        (target / "y/x").unlink()
        (target / "y").rmdir()
        for make in (os.symlink, lambda _, path: path.write_bytes(b"")):  # one that leads nowhere
            make(target / "z", target / "y")
            refused(archive, target, "'y/x': .*y is there and is a link or no folder")
            (target / "y").unlink()
        (target / "x").unlink()
        (target / "x").mkdir()
        refused(archive, target, "'x': .*x is there and is a folder")
        (target / "x").rmdir()
    (tmp_path / "one.gz").write_bytes(gzip.compress(b"new"))
    for make in (os.symlink, lambda _, path: os.mkfifo(path)):
        make(away, target / "one")
        refused(tmp_path / "one.gz", target, "one is there and is a link or no file")
        (target / "one").unlink()
    os.link(away, target / "one")
    utils.extract_archive(tmp_path / "one.gz", target)
    assert (target / "one").read_bytes() == b"new"
    assert away.read_bytes() == b"mine"
    for suffix in (".tar.gz", ".zip", ".gz"):
        os.mkfifo(tmp_path / f"pipe{suffix}")
        refused(tmp_path / f"pipe{suffix}", target, r"pipe \(FIFO\)", OSError, ValueError)


def test_members_are_not_kept(tmp_path: Path, traced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    members = (tarfile.TarInfo(f"{i}") for i in range(1000))
    packed = b"".join(member.tobuf(tarfile.GNU_FORMAT) for member in members)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(packed))
    monkeypatch.setattr(files, "_MIN_UNPACKED_BYTES", 999 * 4096)

    given = tmp_path / "a.tar.gz", tmp_path / "target", "refused at '999'"
    refused(*given)
    peaks = [traced(refused, *given)[1] for _ in range(3)]  # some table of Python's may grow once
    assert min(peaks) < 1 << 17, peaks
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".zip", ".gz", ".bz2", ".xz"])
def test_damaged_archives(suffix: str, tmp_path: Path) -> None:
    """What else may be wrong with them is drawn by scripts/fuzz."""
    (tmp_path / f"a{suffix}").write_bytes(b"\x1f\x8bno")
    refused(tmp_path / f"a{suffix}", tmp_path / "target", f"a{suffix}: the .* damaged")


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MIN_UNPACKED_BYTES", 1 << 18)
    zeros = bytes(1 << 19)
    for archive in archives(tmp_path, {"good": b"good", "bad": zeros})[1:]:
        refused(archive, tmp_path / "target", r"refused at 'bad': more than \d+ bytes")
    for archive in archives(tmp_path, {f"{i}": b"" for i in range(3000)})[3:5]:  # many of nothing
        refused(archive, tmp_path / "target", "bytes would be unpacked")
    assert not (tmp_path / "target").exists()
    (tmp_path / "one.bz2").write_bytes(bz2.compress(zeros))
    refused(tmp_path / "one.bz2", tmp_path, r"one\.bz2: refused: more than 262144 bytes")
    assert not (tmp_path / "one").exists()
