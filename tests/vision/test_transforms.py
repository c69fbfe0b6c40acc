"""Transforms of images, against torchvision's: the functions on tensors and PIL images, the classes
with what they draw given, their reprs and errors; and what needs no torchvision."""

from __future__ import annotations

import collections
import enum
import inspect
import pickle
import re
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from refused import calls, check_refused

import pyframe as pf
from pyframe.vision import transforms as T
from pyframe.vision.transforms import _draw, autoaugment, functional as F, v2

H, W = 13, 18


def _picture(channels: int, seed: int = 0) -> np.ndarray:
    """uint8 (C, H, W): a gradient, noise, a white and a black corner."""
    noise = np.random.default_rng(seed)
    y, x = np.mgrid[:H, :W]
    c = np.arange(channels)[:, None, None]
    image = (x * 9 + y * 5 + c * 37) % 200 + noise.integers(0, 50, (channels, H, W))
    image[:, :3, :4], image[:, -3:, -2:] = 255, 0
    return image.astype(np.uint8)


IMAGES = {
    "uint8": _picture(3),
    "gray": _picture(1),
    "float": _picture(3).astype(np.float32) / 255,
    "batch": np.stack([_picture(3), _picture(3, 1)]),
    "pil": _picture(3).transpose(1, 2, 0).copy(),
    "pil-gray": _picture(1)[0],
}
TENSORS, PILS = ("uint8", "gray", "float", "batch"), ("pil", "pil-gray")


def ours(kind: str) -> Any:
    image = IMAGES[kind]
    if kind.startswith("pil"):
        return pytest.importorskip("PIL.Image").fromarray(image)
    return pf.tensor(image)


def theirs(kind: str, torch: Any) -> Any:
    return ours(kind) if kind.startswith("pil") else torch.tensor(IMAGES[kind])


def as_array(result: Any) -> np.ndarray:
    return np.asarray(result.numpy() if hasattr(result, "numpy") else result)


def same(got: Any, want: Any, levels: int = 0, apart: float = 0.0) -> None:
    """Equal in type, shape and dtype. Ints: up to 5 % may be off by `levels`; `apart` of all may
    be anything. Floats may differ by rounding."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, levels, apart)
        return
    assert isinstance(got, pf.Tensor) == hasattr(want, "numpy")
    if not isinstance(got, pf.Tensor):
        assert got.mode == want.mode
    a, b = as_array(got), as_array(want)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    off = np.abs(a.astype(np.float64) - b.astype(np.float64))
    if a.dtype.kind == "f":
        assert (off > 2e-5).mean() <= apart
    else:
        assert (off > levels).mean() <= apart
        assert (off > 0).mean() <= apart + (0.05 if levels else 0)


START = [[0, 0], [17, 0], [17, 12], [0, 12]]
END = [[2, 1], [15, 3], [16, 11], [1, 9]]
BOTH = TENSORS + PILS
MODES = {
    "NEAR": "nearest", "LINEAR": "bilinear", "CUBIC": "bicubic", "EXACT": "nearest-exact",
    "LANCZOS": "lanczos",
}  # fmt: skip


def called(call: str, lib: Any, module: Any, **names: Any) -> Any:
    """What a call gives, with the modes and dtypes of a library."""
    names |= {name: module.InterpolationMode(mode) for name, mode in MODES.items()}
    return eval(call, names | {"START": START, "END": END})


@pytest.fixture
def tv(torchvision: Any) -> Any:
    """torchvision.transforms."""
    import torchvision.transforms.v2

    return torchvision.transforms


REST = """
    get_image_size(X) | get_image_num_channels(X) | crop(X, 10, -3, 9, 30) | resize(X, 9)
    five_crop(X, 6) | ten_crop(X, [4], vertical_flip=True)
    rotate(X, -21, LINEAR, fill=[9.0]) | affine(X, 12, (2, -1), 0.8, 9.0)
    perspective(X, START, END, NEAR, [5.0]) | pad(X, (-2, 3, 4, -1), padding_mode="symmetric")
"""  # by the names, arguments and kinds of images that scripts/fuzz doesn't draw
OF_PIL = """v2.jpeg(X, 60) | v2.resize(X, None, max_size=10)
    resize(X, (7, 9), LANCZOS) | to_grayscale(X, 3) | to_tensor(X)"""


@pytest.mark.parametrize(
    ("call", "kinds"), [*((c, BOTH) for c in calls(REST)), *((c, PILS) for c in calls(OF_PIL))]
)
def test_functions(call: str, kinds: tuple[str, ...], torch: Any, tv: Any) -> None:
    """Those of all other calls are drawn by scripts/fuzz."""
    where = "v2.functional" if call.startswith("v2.") else "functional"
    for kind in kinds:
        of = f"L.{where}.{call.removeprefix('v2.')}"
        want = called(of, torch, tv, L=tv, X=theirs(kind, torch))
        got = called(of, pf, T, L=T, X=ours(kind))
        if call.startswith("get_"):
            assert got == want, kind
        else:
            same(got, want, 0 if kind in PILS else 1)


def test_an_image_of_no_pixels_has_no_neighbours() -> None:
    assert v2.functional.gaussian_blur(pf.zeros(0, 3, 1, 1), 5).shape == (0, 3, 1, 1)


def test_conversions(torch: Any, tv: Any) -> None:
    """Arrays, the modes of PIL images and the dtypes of tensors."""
    image = pytest.importorskip("PIL.Image")
    arrays = [_picture(3).transpose(1, 2, 0), _picture(1)[0], IMAGES["float"]]
    arrays.append(np.random.random((3, 4)))
    for array in [*arrays, np.arange(12, dtype=np.int32).reshape(3, 4), arrays[0][:, ::-1] > 90]:
        same(F.to_tensor(array), tv.functional.to_tensor(array.copy()))
    color = ours("pil")
    modes = ["1", "L", "P", "F", "I", "I;16", "LA", "RGBA", "CMYK", "HSV", "YCbCr"]
    for mode in modes:
        pic = color.convert("I").convert(mode) if mode == "I;16" else color.convert(mode)
        for fn in ("to_tensor", "pil_to_tensor") if mode != "I;16" else ("to_tensor",):
            same(getattr(F, fn)(pic), getattr(tv.functional, fn)(pic))
    assert image.MODES  # Pillow's own names
    deep = np.array([[1, 300], [40000, 65535]], np.uint16)
    for mode in ("I;16", "I;16B", "I;16L", "I;16N"):  # of most torchvision makes 8 bits, or nothing
        pic = image.fromarray(deep.astype(">u2")) if mode == "I;16B" else image.frombytes(
            mode, (2, 2), deep.tobytes())  # fmt: skip
        both = F.pil_to_tensor(pic), v2.functional.to_image(pic)
        assert [x.tolist() for x in both] == [[deep.tolist()]] * 2
        assert F.to_tensor(pic).tolist() == [deep.astype(np.int16).tolist()]
    assert np.array_equal(F.to_pil_image(pf.tensor(deep[None])), deep)
    cases: list[tuple[Any, str | None]] = [
        (_picture(1), None), (_picture(1)[0], "L"), (_picture(2), None), (_picture(4), None),
        (_picture(4), "CMYK"), (_picture(3), "HSV"), (_picture(3), "YCbCr"),
        (IMAGES["float"], None), (IMAGES["float"][:1], "F"),
        (np.arange(12, dtype=np.int32).reshape(1, 3, 4), None),
        (np.arange(12, dtype=np.int16).reshape(1, 3, 4), None),
    ]  # fmt: skip
    for array, mode_ in cases:
        want = tv.functional.to_pil_image(torch.tensor(array), mode_)
        same(F.to_pil_image(pf.tensor(array), mode_), want)
    names = ["uint8", "int16", "int32", "int64", "float32", "float64"]
    for a in names:
        for b in names:
            if a.startswith("float") and b in ("int32", "int64"):
                continue
            scale = 1 if a.startswith("float") else 100
            x = (np.linspace(0, 1, 12) * scale).astype(a)
            got = F.convert_image_dtype(pf.tensor(x), getattr(pf, b))
            same(got, tv.functional.convert_image_dtype(torch.tensor(x), getattr(torch, b)))
    pf.set_default_dtype(pf.float64)
    assert F.to_tensor(arrays[0]).dtype is pf.float64


def test_erasing_in_place() -> None:
    kept, want = pf.tensor(IMAGES["float"]), IMAGES["float"].copy()
    assert F.erase(kept, 2, 3, 4, 5, pf.zeros(3, 4, 5), inplace=True) is kept
    want[:, 2:6, 3:8] = 0
    np.testing.assert_array_equal(kept.numpy(), want)


# whose numbers torchvision may round otherwise, and by how much
ROUNDED = {"RandomResizedCrop": 1, "RandomPerspective": 1, "ColorJitter": 2, "GaussianBlur": 1,
           "RandomRotation": 1}  # fmt: skip
# what makes a transform, what its get_params gives (None: it has none), images
OF_CLASSES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("RandomCrop(10, padding=2)", (1, 3, 10, 10), BOTH),
    ('RandomCrop((20, 25), pad_if_needed=True, fill=1, padding_mode="reflect")', (0, 1, 20, 25),
     BOTH),
    ("RandomResizedCrop(7)", (1, 2, 9, 6), BOTH),
    ("RandomRotation(30, fill=7)", 17.3, BOTH),
    ("RandomRotation((3, 9), LINEAR, expand=True)", 8.1, TENSORS),
    ("RandomAffine(9, shear=[3, 4], fill=[2])", (8.5, (1, -2), 0.9, (3.0, 0.0)),
     ("uint8", "float", "pil")),
    ("RandomPerspective(p=1)", (START, END), BOTH),
    ("ColorJitter(brightness=0.3)", ([3, 1, 0, 2], 1.2, 0.7, 1.4, -0.1), BOTH),
    ("GaussianBlur(5)", 1.3, BOTH),
    *((c, None, BOTH) for c in calls("TenCrop((5, 4), vertical_flip=True) | RandomInvert(1)")),
    *((call, None, PILS) for call in calls("ToTensor() | PILToTensor()")),
    ("ToPILImage()", None, ("uint8", "gray", "float")),
]  # fmt: skip


@pytest.mark.parametrize(("call", "params", "kinds"), OF_CLASSES, ids=[c for c, *_ in OF_CLASSES])
def test_classes(
    call: str, params: Any, kinds: tuple[str, ...], torch: Any, tv: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What comes of the same draw."""
    mine = called(f"L.{call}", pf, T, L=T)
    other = called(f"L.{call}", torch, tv, L=tv)
    name = call.partition("(")[0]
    if params is not None:
        for t in (mine, other):
            monkeypatch.setattr(t, "get_params", lambda *args, **kwargs: params)
    for kind in kinds:
        same(mine(ours(kind)), other(theirs(kind, torch)), ROUNDED.get(name, 0))


def same_as_before(again: Any, first: Any) -> None:
    if isinstance(first, tuple):
        for a, b in zip(again, first, strict=True):
            same_as_before(a, b)
    else:
        assert type(again) is type(first)
        np.testing.assert_array_equal(as_array(again), as_array(first))


REPRS = """
    Compose([L.Resize(3), L.Compose([L.ToTensor()]), L.Normalize((0.5,), (0.5,))]) | Resize(5)
    Resize((5, 6), L.InterpolationMode.NEAREST, antialias=False) | Resize([5], max_size=9)
    CenterCrop(4) | CenterCrop((3, 2)) | Pad(3) | Pad((1, 2), (1, 2, 3), "edge") | Lambda(abs)
    RandomApply([L.CenterCrop(2), L.ToTensor()], p=0.25) | RandomOrder([L.ToTensor()])
    RandomChoice([L.ToTensor(), L.CenterCrop(1)], p=[0.3, 0.7]) | RandomCrop(3) | RandomCrop(3, 4)
    RandomHorizontalFlip() | RandomVerticalFlip(0.1) | RandomPerspective(0.2, 0.3)
    RandomResizedCrop(3) | RandomResizedCrop((3, 4), (0.5, 1), (0.75, 1.3333333), antialias=None)
    FiveCrop(2) | TenCrop((2, 3), True) | ColorJitter() | ColorJitter(0.2, (0.5, 1), 3, 0.5)
    RandomRotation(30) | RandomRotation((1, 2), L.InterpolationMode.BILINEAR, True, (3, 4), 5)
    RandomAffine(3)
    RandomAffine((3, 4), (0.1, 0.2), (1, 2), 5, L.InterpolationMode.BILINEAR, 3, (1, 2))
    Grayscale(3) | RandomGrayscale() | RandomErasing()
    RandomErasing(0.2, (0.1, 0.2), (1, 2), "random") | GaussianBlur(3) | GaussianBlur((3, 5), 0.5)
    RandomInvert() | RandomPosterize(2) | RandomSolarize(100, 0.3) | RandomAdjustSharpness(2)
    RandomAutocontrast() | RandomEqualize(0.1) | ElasticTransform()
    ElasticTransform([1.0, 2.0], 3.0, L.InterpolationMode.NEAREST, [1, 2, 3]) | ToTensor()
    PILToTensor() | ToPILImage() | ToPILImage("RGB") | Normalize([0.1], [0.2], True)
    AutoAugment() | AutoAugment(L.AutoAugmentPolicy.SVHN, fill=[3]) | RandAugment()
    RandAugment(3, 4) | TrivialAugmentWide() | AugMix() | AugMix(5, all_ops=False, fill=2)
    Resize(5, 2) | RandomRotation(3, interpolation=0)
"""


def test_reprs(tv: Any) -> None:
    for text in calls(REPRS):
        mine, other = (eval(f"L.{text}", {"L": lib}) for lib in (T, tv))
        assert repr(mine) == repr(other)


# both raise an error of the same type
ERRORS = """
    CenterCrop((1, 2, 3)) | FiveCrop((1, 2, 3)) | RandomCrop((1, 2, 3)) | Resize((1, 2, 3))
    Pad("3") | Pad(3, "red") | Pad(3, padding_mode="circular") | Pad((1, 2, 3)) | Lambda(3)
    RandomChoice(3) | RandomOrder(L.ToTensor()) | RandomChoice([L.ToTensor()], p=3)
    RandomResizedCrop(3, scale=1) | RandomResizedCrop(3, ratio=1) | RandomResizedCrop((1, 2, 3))
    RandomRotation(-3) | RandomRotation((1, 2, 3)) | RandomRotation("3")
    RandomRotation(3, center=3) | RandomRotation(3, fill=abs) | RandomAffine(-3)
    RandomAffine(3, 4) | RandomAffine(3, (1, 2)) | RandomAffine(3, scale=(0, 1))
    RandomAffine(3, shear=(1, 2, 3)) | RandomAffine(3, center=(1, 2, 3))
    RandomPerspective(fill=abs) | ColorJitter(-1) | ColorJitter(hue=0.6) | ColorJitter((2, 1))
    ColorJitter("3") | ColorJitter((1, 2, 3)) | RandomErasing(2) | RandomErasing(scale=3)
    RandomErasing(ratio=3) | RandomErasing(scale=(0, 2)) | RandomErasing(value=None)
    RandomErasing(value="red") | GaussianBlur(4) | GaussianBlur(-3) | GaussianBlur(3, -1)
    GaussianBlur(3, (2, 1)) | GaussianBlur(3, (1, 2, 3)) | GaussianBlur((1, 2, 3)) | AugMix(11)
    ElasticTransform(None) | ElasticTransform([1.0, 2.0, 3.0]) | ElasticTransform(sigma=None)
    ElasticTransform(fill="3") | AutoAugment("imagenet") | RandomCrop(40)(X)
    RandomErasing(1, value=(1, 2))(X) | Normalize(0.5, 0.5)(B) | Normalize(0.5, 0)(X)
    ToPILImage()(3) | ConvertImageDtype(L.x)(3) | Resize(3)(N) | Resize(3)("3") | RandomCrop(2)(N)
    ColorJitter(1)(N) | GaussianBlur(3)(N) | RandomRotation(3)(N) | CenterCrop(3)(N)
    Grayscale()(N) | Grayscale(2)(X) | RandAugment()(N) | F.hflip(N) | F.get_dimensions(3)
    F.get_image_size("3") | F.pad(N, 3) | F.to_tensor(3) | F.to_tensor(N4) | F.pil_to_tensor(N)
    F.to_pil_image(N4) | F.to_pil_image("3") | F.to_pil_image(N, "L")
    F.to_pil_image(N.astype("int64")) | F.normalize(N, [1], [1]) | F.normalize(B, [1], [1])
    F.normalize(X[0], [1], [1]) | F.normalize(X, [1.0], [0.0]) | F.resize(X, (1, 2, 3))
    F.resize(X, 3, "cubic") | F.resize(X, 5, max_size=4) | F.resize(X, (5, 6), max_size=4)
    F.resize(X, 5, L.InterpolationMode.LANCZOS) | F.pad(X, "3") | F.pad(X, (1, 2, 3))
    F.pad(X, 3, "red") | F.pad(X, 3, padding_mode="circular") | F.pad(X, 3, 0, 3)
    F.five_crop(X, 30) | F.five_crop(X, (1, 2, 3)) | F.ten_crop(X, 30) | F.rotate(X, "3")
    F.rotate(X, 3, center=3) | F.rotate(X, 3, fill=[1, 2])
    F.rotate(X, 3, L.InterpolationMode.BICUBIC) | F.affine(X, "3", (0, 0), 1, 0)
    F.affine(X, 3, 0, 1, 0) | F.affine(X, 3, (0, 0, 0), 1, 0) | F.affine(X, 3, (0, 0), 0, 0)
    F.affine(X, 3, (0, 0), 1, "3") | F.affine(X, 3, (0, 0), 1, (1, 2, 3))
    F.affine(X, 3, (0, 0), 1, 0, center=3) | F.perspective(X, [[0, 0]], [[0, 0]])
    F.gaussian_blur(X, 4) | F.gaussian_blur(X, "3") | F.gaussian_blur(X, [3, 3, 3])
    F.gaussian_blur(X, 3, -1) | F.gaussian_blur(X, 3, [1, 2, 3]) | F.gaussian_blur(X, 3, "1")
    F.gaussian_blur(N, 3) | F.adjust_brightness(X, -1) | F.adjust_contrast(X, -1)
    F.adjust_hue(X, 0.6) | F.adjust_saturation(X, -1) | F.adjust_sharpness(X, -1)
    F.adjust_gamma(X, -1) | F.adjust_brightness(X[:2], 1) | F.adjust_hue(X[:2], 0.1)
    F.invert(X[0]) | F.posterize(X, 9) | F.posterize(I, 3) | F.solarize(X, 2) | F.equalize(I)
    F.autocontrast(X[0]) | F.rgb_to_grayscale(X, 2) | F.rgb_to_grayscale(X[0]) | F.to_grayscale(X)
    F.erase(N, 0, 0, 1, 1, X) | F.convert_image_dtype(N) | F.elastic_transform(X, 3)
    F.elastic_transform(X, X) | v2.RandomHorizontalFlip(2) | v2.RandomApply([], p=3)
    v2.RandomChoice([L.ToTensor()], p=[1, 2]) | v2.ToDtype(3) | v2.RandomZoomOut(side_range=3)
    v2.RandomZoomOut(side_range=(0.5, 1)) | v2.JPEG(True) | v2.JPEG(0) | v2.JPEG((1, 2, 3))
    v2.GaussianNoise(sigma=-1)(X) | v2.GaussianNoise()(I) | v2.MixUp(labels_getter=3)
    v2.MixUp()(X, 3) | v2.MixUp()(X, Y) | v2.MixUp(num_classes=3)(X, Y)
    v2.CutMix(num_classes=9)(X[None], Y) | v2.CutMix(num_classes=9)({"image": X, "target": Y})
    v2.CutMix(num_classes=9)(X[None], Y[None, None]) | v2.CutMix(num_classes=9)(X[None], Y[None])
    v2.CutMix(num_classes=9, labels_getter=None)(X[None], Y) | v2.MixUp(alpha=0)
    v2.functional.permute_channels(X, [0]) | v2.functional.to_image("3")
"""


def test_errors(torch: Any, tv: Any) -> None:
    array = _picture(3).transpose(1, 2, 0)

    def names(lib: Any) -> dict[str, Any]:
        module, whole = T if lib is pf else tv, lib.tensor(IMAGES["uint8"])
        return {
            "L": module, "F": module.functional, "X": lib.tensor(IMAGES["float"]), "B": whole,
            "I": whole.to(lib.int32), "Y": lib.tensor([1, 2, 3]), "N": array, "N4": array[None],
        }  # fmt: skip

    for call in calls(ERRORS):
        check_refused(call if call[:2] == "F." else f"L.{call}", ".", names, torch)


def test_names_and_arguments(tv: Any) -> None:
    """All of torchvision's names, with its arguments and defaults; later ones may be more."""

    def arguments(fn: Any) -> list[tuple[str, str]]:
        found = inspect.signature(fn).parameters.values()
        return [(p.name, re.sub(r"torch\.|pyframe\.", "", str(p.default))) for p in found]

    pairs = []
    for lib, mine in ((tv.transforms, T), (tv.autoaugment, T), (tv.v2, v2)):
        for name in getattr(lib, "__all__", dir(lib)):
            if name[0].isupper() and not re.search(r"Bounding|KeyPoints|IoU|Clamping", name):
                assert hasattr(mine, name), name
                if lib is not tv.v2:
                    pairs.append((getattr(lib, name), getattr(mine, name)))
    pairs += [
        (fn, getattr(F, name))
        for name, fn in vars(tv.functional).items()
        if inspect.isfunction(fn) and name[0] != "_"
    ]
    pairs += [(a.get_params, b.get_params) for a, b in pairs if hasattr(a, "get_params")]
    for theirs_, mine_ in pairs:
        if not (inspect.isclass(theirs_) and issubclass(theirs_, enum.Enum)):
            known, given = arguments(theirs_), arguments(mine_)
            if known[-1:] == [("dtype", "<class 'inspect._empty'>")]:  # it has a default here
                known = given
            assert given[: len(known)] == known, theirs_


# --- policies


def test_ops_of_policies(torch: Any, tv: Any) -> None:
    image, mode = IMAGES["uint8"], T.InterpolationMode.NEAREST
    for policy in T.AutoAugmentPolicy:
        other = tv.AutoAugment(tv.AutoAugmentPolicy(policy.value))
        assert T.AutoAugment(policy).policies == other.policies
    for mine, other, bins, size in (
        (T.AutoAugment(), tv.AutoAugment(), 10, ((H, W),)),
        (T.RandAugment(), tv.RandAugment(), 31, ((H, W),)),
        (T.TrivialAugmentWide(), tv.TrivialAugmentWide(), 31, ()),
        (T.AugMix(), tv.AugMix(), 10, ((H, W),)),
        (T.AugMix(all_ops=False), tv.AugMix(all_ops=False), 10, ((H, W),)),
    ):
        ops, want = mine._ops(H, W), other._augmentation_space(bins, *size)
        assert set(ops) == set(want)
        for name, (magnitudes, signed) in want.items():
            assert ops[name].signed == signed
            if magnitudes.ndim:
                got = [ops[name].at(i, bins) for i in range(bins)]
                np.testing.assert_allclose(got, magnitudes.tolist(), 1e-6, err_msg=name)
            else:
                assert ops[name].at(0, bins) == 0
    for name, magnitude in {
        "ShearX": 0.21, "ShearY": -0.13, "TranslateX": 4.7, "TranslateY": -3.2, "Rotate": 21.3,
        "Brightness": 0.3, "Color": -0.4, "Contrast": 0.6, "Sharpness": 0.7, "Posterize": 4.0,
        "Solarize": 93.0, "AutoContrast": 0.0, "Equalize": 0.0, "Invert": 0.0, "Identity": 0.0,
    }.items():  # fmt: skip
        got = autoaugment.apply_op(pf.tensor(image), name, magnitude, mode, [7.0])
        nearest = tv.InterpolationMode.NEAREST
        want = tv.autoaugment._apply_op(torch.tensor(image), name, magnitude, nearest, [7.0])
        same(got, want, 1 if name in ("Contrast", "Sharpness") else 0)
    with pytest.raises(ValueError, match="Blur is not recognized"):
        autoaugment.apply_op(pf.tensor(image), "Blur", 0, mode, None)


@pytest.mark.parametrize("kind", ["uint8", "float", "batch", "pil"])
def test_policies(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn is done, op by op; images keep their form, labels pass."""
    image = ours(kind)
    auto = T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)
    drawn = 3, pf.tensor([0.4, 0.9]), pf.tensor([1, 0])
    monkeypatch.setattr(auto, "get_params", lambda count: drawn)
    level = autoaugment._MagnitudeRange(0.0, 0.3, True).at(8, 10)
    mode = T.InterpolationMode.NEAREST
    same_as_before(auto(image), autoaugment.apply_op(image, "ShearY", level, mode, None))
    for t in (T.RandAugment(fill=3), T.TrivialAugmentWide(), T.AugMix(), T.AutoAugment()):
        for _ in range(4):
            out, label = t((image, 7))
            assert label == 7
            assert as_array(out).shape == as_array(image).shape
            assert as_array(out).dtype == as_array(image).dtype
    chains = [[("Invert", 0.0)], [("Posterize", 3.0), ("Identity", 0.0)]]
    weights = np.full((2 if kind == "batch" else 1, 3), 0.25, np.float32)
    mixed = T.AugMix().transform(image, (weights, chains))
    x = F.pil_to_tensor(image) if kind == "pil" else image
    want = x * 0.25 + F.invert(x) * 0.25 + F.posterize(x, 3) * 0.25
    mixed = F.pil_to_tensor(mixed) if kind == "pil" else mixed
    np.testing.assert_allclose(as_array(mixed), want.to(x.dtype).numpy())


# --- mixtures


def test_mixtures(torch: Any, tv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.stack([_picture(3) for _ in range(4)]).astype(np.float32)
    y, rows = np.array([0, 2, 1, 4]), np.eye(5, dtype=np.float32)[:4]
    box = 3, 2, 11, 9
    lam = 1 - (box[2] - box[0]) * (box[3] - box[1]) / (H * W)
    for name, drawn, theirs_drawn in (
        ("MixUp", {"lam": 0.3}, {"lam": 0.3}),
        ("CutMix", {"box": box, "lam": lam}, {"box": box, "lam_adjusted": lam}),
    ):
        for labels, classes in ((y, 5), (rows, None)):
            made = (getattr(lib, name)(alpha=0.7, num_classes=classes) for lib in (v2, tv.v2))
            mine, other = made
            monkeypatch.setattr(mine, "make_params", lambda flat, p=drawn: p)
            monkeypatch.setattr(other, "make_params", lambda flat, p=theirs_drawn: p)
            images, want = pf.tensor(x), other(torch.tensor(x), torch.tensor(labels))
            same(found := mine(images, pf.tensor(labels)), want)
            got = mine({"image": images, "weight": 3, "Labels": pf.tensor(labels)})
            assert got["weight"] == 3
            same_as_before((got["image"], got["Labels"]), found)
    draws = [v2.CutMix(num_classes=5).make_params([pf.tensor(x)]) for _ in range(50)]
    for drawn in draws:
        left, top, right, bottom = drawn["box"]
        assert 0 <= left <= right <= W
        assert 0 <= top <= bottom <= H
        assert drawn["lam"] == 1 - (right - left) * (bottom - top) / (H * W)
    assert len({drawn["lam"] for drawn in draws}) > 20


# --- what is drawn


def test_draws_are_fixed_and_even() -> None:
    """The same numbers on every machine, and of the distributions that they should have."""
    pf.manual_seed(42)
    assert _draw.uniform() == 0.6683869361877441
    assert [_draw.randint(3, 1000), *_draw.randints(7, 1000)] == [538, 2, 136]
    assert _draw.choice([0, 0, 2]) == 2
    n = 3000
    uniform = np.array([_draw.uniform(2, 4) for _ in range(n)])
    assert 2 <= uniform.min() < 2.01
    assert 3.99 < uniform.max() < 4
    counts = np.bincount([_draw.choice([1, 2, 0, 5]) for _ in range(n)], minlength=4) / n
    np.testing.assert_allclose(counts, [1 / 8, 1 / 4, 0, 5 / 8], atol=0.04)
    for a in (0.3, 1.0, 4.0):  # mean and variance of a gamma distribution of scale 1 are its shape
        gamma = np.array([_draw.gamma(a) for _ in range(n // 2)])
        np.testing.assert_allclose([gamma.mean() / a, gamma.var() / a], 1, atol=0.2)
        beta = np.array([_draw.beta(a) for _ in range(n // 4)])
        np.testing.assert_allclose(beta.mean(), 0.5, atol=0.05)
        np.testing.assert_allclose(beta.var() * 4 * (2 * a + 1), 1, atol=0.2)


def test_get_params_stay_within_bounds() -> None:
    image = pf.zeros(3, 20, 31)
    crops = [T.RandomResizedCrop.get_params(image, [0.3, 0.6], [0.5, 2.0]) for _ in range(200)]
    for top, left, height, width in crops:
        assert 0 <= top <= 20 - height
        assert 0 <= left <= 31 - width
        assert 0.25 < height * width / 620 < 0.65
        assert 0.4 < width / height < 2.3
    assert T.RandomResizedCrop.get_params(pf.zeros(1, 40, 4), (2, 2), (1, 1)) == (18, 0, 4, 4)
    assert T.RandomResizedCrop.get_params(pf.zeros(1, 4, 40), (2, 2), (1, 1)) == (0, 18, 4, 4)
    crops = [T.RandomCrop.get_params(image, (18, 31)) for _ in range(60)]
    assert {crop[:2] for crop in crops} == {(0, 0), (1, 0), (2, 0)}
    for _ in range(100):
        bounds = (-9, 3), (0.1, 0.5), (0.5, 2), (1, 2, 3, 4), (20, 30)
        angle, moved, scale, shear = T.RandomAffine.get_params(*bounds)
        assert -9 <= angle < 3
        assert abs(moved[0]) <= 2
        assert abs(moved[1]) <= 15
        assert 0.5 <= scale < 2
        assert 1 <= shear[0] < 2 < 3 <= shear[1] < 4
        start, end = T.RandomPerspective.get_params(20, 30, 0.5)
        assert start == [[0, 0], [19, 0], [19, 29], [0, 29]]
        assert all(
            abs(a[0] - b[0]) <= 5 and abs(a[1] - b[1]) <= 7 and 0 <= b[0] < 20 and 0 <= b[1] < 30
            for a, b in zip(start, end, strict=True)
        )
        erased = T.RandomErasing.get_params(image, (0.1, 0.3), (0.5, 2), None)
        top, left, height, width, value = erased
        assert 0 <= top <= 20 - height
        assert 0 <= left <= 31 - width
        assert value.shape == (3, height, width)
        _, _, height, width, _ = T.RandomErasing.get_params(image, (0.1, 0.1), (2, 3), None)
        assert height > 1.5 * width
        *_, height, width = T.RandomResizedCrop.get_params(image, (0.1, 0.1), (2, 3))
        assert width > 1.5 * height
        order, *factors = T.ColorJitter.get_params((1, 2), None, (3, 4), None)
        assert sorted(order.tolist()) == [0, 1, 2, 3]
        assert (factors[1], factors[3]) == (None, None)
        assert 1 <= factors[0] < 2 < 3 <= factors[2] < 4
    moved = T.ElasticTransform.get_params([50.0, 50.0], [0.0, 0.0], [20, 31])
    assert moved.shape == (1, 20, 31, 2)
    assert 0 < float(moved[..., 0].abs().max()) < 50 / 31
    assert 2 < float(moved[..., 1].abs().max()) < 50 / 20


def _augmentation() -> T.Compose:
    color = T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)])
    one = T.RandomChoice([T.RandomRotation(20), T.GaussianBlur(3)])
    some = T.RandomOrder([T.RandomGrayscale(0.5), T.RandomErasing(0.5, value="random")])
    steps = [T.RandomCrop(10, padding=2), T.RandomHorizontalFlip(), color, one, some]
    return T.Compose([*steps, T.Normalize([0.5], [0.2])])


def test_a_seed_repeats_a_pipeline() -> None:
    images = pf.tensor(np.stack([_picture(3) for _ in range(8)])).to(pf.float32) / 255
    transform = _augmentation()
    data = [transform(x) for x in images]
    pf.manual_seed(3)
    first = [transform(x).numpy() for x in images]
    assert len({x.tobytes() for x in first}) == 8
    assert not np.array_equal(first, [x.numpy() for x in data])
    pf.manual_seed(3)
    np.testing.assert_array_equal(first, [pickle.loads(pickle.dumps(transform))(x) for x in images])


def test_samples() -> None:
    """All PIL images of a sample are changed alike, else its first Tensor."""
    image = pytest.importorskip("PIL.Image")
    x = pf.tensor(_picture(3))
    crop = T.RandomCrop(5)
    point = collections.namedtuple("point", "image label")
    out = crop(point(x, pf.tensor(3)))
    assert type(out) is point
    assert (out.image.shape, out.label.item()) == ((3, 5, 5), 3)
    assert crop([x, x])[1] is x
    kept = collections.defaultdict(list, image=x)
    assert type(crop(kept)) is type(kept)
    assert crop(kept)["image"].shape == (3, 5, 5)
    pic = image.fromarray(IMAGES["pil"])
    first, (second, tensor) = crop((pic, [pic, x]))
    assert np.array_equal(first, second)
    assert tensor is x
    to_float = v2.Compose([v2.ToImage(), v2.ToDtype(pf.float32, scale=True), v2.Identity()])
    pixels, label = to_float(pic, 3)
    same_as_before(pixels, T.ToTensor()(pic))
    assert label == 3
    assert v2.ToDtype({pf.Tensor: pf.int16, "others": None})((x, "text"))[0].dtype is pf.int16
    assert v2.Lambda(lambda v: v + 1, int)({"a": 1, "b": "text"}) == {"a": 2, "b": "text"}
    assert T.Lambda(len)([1, 2, 3]) == 3
    with pytest.raises(TypeError, match="No image"):
        crop((3, "text"))
    with pytest.raises(TypeError, match="<class 'numpy.ndarray'>; ToTensor"):
        crop(IMAGES["pil"])

    class Shift(v2.Transform):
        def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
            return {"by": len(flat_inputs)}

        def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
            return inpt + params["by"]

    shift = Shift()
    shift.factor = 3
    assert repr(shift) == "Shift(factor=3)"
    assert shift({"x": pf.tensor([2.0]), "y": 3})["x"].item() == 3.0


def test_shapes_of_random_sizes() -> None:
    x = pf.tensor(_picture(3))
    for t, sizes in (
        (v2.RandomResize(5, 7), {5, 6}),
        (v2.RandomShortestSize([5, 9], max_size=11), {5, 7}),
        (v2.ScaleJitter((36, 26), (0.5, 0.5)), {13}),
        (v2.RandomZoomOut(side_range=(2, 2), p=1), {26}),
    ):
        assert {t(x).shape[-2] for _ in range(20)} == sizes
    out = v2.RandomZoomOut(fill=9, side_range=(2, 2), p=1)(x)
    assert int((out == 9).sum()) >= 3 * H * W * 3
    order = v2.RandomChannelPermutation()(x)
    assert sorted(order.sum((1, 2)).tolist()) == sorted(x.sum((1, 2)).tolist())
    noisy = v2.GaussianNoise(0.1, 0.2)(pf.full((1, 50, 50), 0.5))
    assert 0.57 < float(noisy.mean()) < 0.63
    assert v2.GaussianNoise()(x).dtype is pf.uint8
    assert v2.RandomPhotometricDistort(p=1)(x).shape == x.shape
    assert v2.RGB()(x[:1]).shape == x.shape
    assert v2.UniformTemporalSubsample(2)(pf.zeros(5, 3, 2, 2)).shape == (2, 3, 2, 2)
    white = T.LinearTransformation(pf.eye(3 * H * W) * 2, pf.ones(3 * H * W))
    floats = x.to(pf.float32)
    np.testing.assert_array_equal(white(floats).numpy(), (floats.numpy() - 1) * 2)
    assert isinstance(v2.JPEG((30, 40))(x), pf.Tensor)


# --- devices, captures, and a machine without Pillow


def test_batches_on_the_gpu(gpu: str) -> None:
    batch = pf.tensor(IMAGES["batch"])
    for t in (
        T.Compose([T.ConvertImageDtype(), T.Normalize([0.5] * 3, [0.2] * 3), T.Resize((7, 9))]),
        T.Compose([T.RandomCrop(10, 2), T.RandomHorizontalFlip(1.0)]),
        T.RandomRotation((30, 30), fill=9),
        T.Compose([T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.GaussianBlur(3)]),
        T.Compose([T.RandomEqualize(1), T.RandomAutocontrast(1)]),
    ):
        pf.manual_seed(5)
        want = t(batch)
        pf.manual_seed(5)
        got = t(batch.to(gpu))
        assert got.device.type == "gpu"
        off = np.abs(got.cpu().numpy().astype(np.float64) - want.numpy())
        assert off.max() <= (1e-4 if want.is_floating_point() else 1)


def test_a_capture_draws_anew(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(1, 2, 3)
    normalize, flip = T.Normalize([1.0], [2.0]), T.RandomHorizontalFlip()
    step = pf.compile(lambda x: normalize(x) * 2)
    for k in range(3):
        np.testing.assert_array_equal(step(x + k).cpu().numpy(), x.cpu().numpy() + k - 1)
    with warnings.catch_warnings(action="ignore"):  # it draws on the host, so it runs eagerly
        flips = pf.compile(lambda x: flip(x) + 0)
        firsts = {flips(x).cpu().numpy()[0, 0, 0] for _ in range(20)}
    assert firsts == {0.0, 2.0}


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    x = F.to_tensor(IMAGES["pil"])
    assert _augmentation()(x).shape == (3, 10, 10)
    for fn in (T.ToPILImage(), F.pil_to_tensor, F.to_pil_image):
        with pytest.raises(ImportError, match=r'pip install .*\[images\]"'):
            fn(x)
