"""Transforms of images, `vision.transforms.v2`: functions and classes on tensors and PIL images, as
torchvision's."""

from __future__ import annotations

import importlib
import random
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import pyframe as pf
from pyframe.vision.transforms import InterpolationMode, v2

from .backends import ROOT, Backend
from .check import FailureError
from .families import Draw, family

if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

from compared import import_torchvision

MODES = "1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F"
SHAPES = (3,), (3,), (1,), (2,), (4,), (2, 3), (1, 1), (0, 3), (2, 2, 3)
CORNERS = (0, 0), (1, 0), (1, 1), (0, 1)


@dataclass(frozen=True)
class Picture:
    """A call on an image: its kind is a dtype or "PIL", its shape that of a tensor (..., C, H, W)
    or (mode, H, W)."""

    call: str  # of F, or of the classes in L, with X for the image and M for modes
    kind: str
    shape: tuple[Any, ...]
    seed: int

    def image(self, T: Any) -> Any:
        """The image, for a library."""
        rng = np.random.default_rng(self.seed)
        *_, h, w = self.shape
        if self.kind == "PIL":
            from PIL import Image

            pixels = rng.integers(0, 256, (h, w, 3)).astype(np.uint8)
            return Image.fromarray(pixels).convert(self.shape[0])
        x = rng.random(self.shape)
        if self.seed % 3 == 0:  # few levels, of which many are alike
            x = np.round(x * 4) / 4
        if "float" in self.kind:
            return T.tensor(x.astype(self.kind))
        least, most = np.iinfo(self.kind).min // 2, np.iinfo(self.kind).max
        return T.tensor((max(least, 0) + x * min(most, 255)).astype(self.kind))

    def outcome(self, ours: bool, device: str = "cpu") -> Any:
        """What the call gives, or the error that it raises."""
        if ours:
            T, L, M = pf, v2, InterpolationMode
        else:
            import_torchvision()
            importlib.import_module("torchvision.transforms.v2")
            from torchvision import transforms

            T, L, M = torch, transforms.v2, transforms.InterpolationMode
        image = self.image(T)
        if self.kind != "PIL":
            image = image.to(device)
        elif device != "cpu":
            return None
        random.seed(self.seed)
        names = {"F": L.functional, "L": L, "X": image, "M": M, "T": T, "np": np}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return eval(self.call, names)
        except Exception as error:
            return error

    def check(self, backend: Backend) -> bool:
        """Compare the results."""
        if backend.exports or backend.name.startswith(("page", "traced")):
            return False
        device = "cpu" if backend.device == "cpu" or self.kind == "float64" else backend.device
        want, got = self.outcome(False), self.outcome(True, device)
        if got is None or self.theirs(want, got):
            return False
        if isinstance(want, Exception):
            if isinstance(want, NotImplementedError | RuntimeError | TypeError | OSError):
                return (
                    False  # of a dtype that PyTorch's kernels, or a mode that Pillow's, don't have
                )
            if not isinstance(got, Exception):
                raise FailureError("takes", f"what torchvision refuses: {want!r:.200}")
            return False
        if isinstance(got, Exception):
            raise FailureError("raises", f"{got!r:.300}")
        wants, gots = (x if isinstance(x, tuple | list) else [x] for x in (want, got))
        if len(wants) != len(gots):
            raise FailureError("wrong", f"{len(gots)} results, not {len(wants)}")
        for x, y in zip(gots, wants, strict=True):
            self.compared(x, y)
        return True

    def theirs(self, want: Any, got: Any) -> bool:
        """What is documented, or a mistake of the others."""
        if "not supported if fill is not scalar" in str(want):  # a color counts in "constant" alone
            return True
        if isinstance(want, Exception) or self.kind == "PIL":
            return False
        if "F.crop" in self.call or "F.resized_crop" in self.call:  # beside the image it errs
            top, left, height, width = map(int, re.findall(r"-?\d+", self.call)[:4])
            *_, h, w = self.shape
            return top + height <= 0 or left + width <= 0 or top >= h or left >= w
        if 0 in self.shape and "symmetric" in self.call:  # more than there is of nothing
            return isinstance(got, IndexError)
        # it rounds and clips between two passes; white is more than the largest int
        if self.kind == "uint8" and "bicubic" in self.call:
            return True
        if self.kind == "int32" and "autocontrast" in self.call.lower():
            return True
        # smoothed in one column, all rows come out as the first
        narrow = isinstance(want, torch.Tensor) and want.shape[-1:] == (1,)
        return narrow and "esize" in self.call and "antialias=False" not in self.call

    def compared(self, got: Any, want: Any) -> None:
        """Raise FailureError where a result is another one."""
        if isinstance(want, str | int | float | bool):
            if got != want:
                raise FailureError("wrong", f"is {got!r}, not {want!r}")
            return
        pil = not isinstance(want, torch.Tensor)
        kinds = (got.mode, want.mode) if pil else (got.dtype.name, str(want.dtype)[6:])
        if kinds[0] != kinds[1]:
            raise FailureError("dtype", f"is {kinds[0]}, not {kinds[1]}")
        a, b = (np.asarray(x if pil else x.cpu().numpy()) for x in (got, want))
        if a.shape != b.shape:
            raise FailureError("shape", f"is {a.shape}, not {b.shape}")
        wide = np.nan_to_num(a.astype(np.float64)) - np.nan_to_num(b.astype(np.float64))
        most = max(float(np.abs(b).max(initial=0)), 1.0)
        near = max(1.0, 3e-7 * most) if b.dtype.kind in "iu" else 3e-5 * most
        mixed = any(f".{n}" in self.call for n in ("gauss", "Gauss", "elastic")) or (
            "bilinear" in self.call and not self.call.startswith(("F.res", "L.Res"))
        )
        exact = b.dtype.kind == "b" or (pil and not mixed)
        off = np.abs(wide) > (0 if exact else near)
        if off.sum() > self.apart() * off.size:
            i = int(np.flatnonzero(off)[0])
            raise FailureError(
                "wrong", f"{int(off.sum())} of {off.size} differ, the first at {i}: "
                f"{b.flat[i]} expected, {a.flat[i]} found"
            )  # fmt: skip

    def apart(self) -> float:
        """Which share may be anything: the nearest pixel of a point that lies between two, and what
        a threshold parts."""
        turned = any(
            f".{n}" in self.call for n in ("rotate", "affine", "persp", "elastic", "Random")
        )
        levels = any(
            f".{n}" in self.call for n in ("adjust_hue", "equalize", "solarize", "posterize")
        )
        exact = self.kind == "PIL" and "bilinear" not in self.call
        return 0.15 if turned and not exact else 0.02 if levels else 0.0

    def smaller(self) -> Iterator[Picture]:
        """Of fewer pixels and dims."""
        if self.kind != "PIL" and len(self.shape) > 3:
            yield replace(self, shape=self.shape[1:])
        for i in (-1, -2):
            if self.shape[i] > 1:
                shape = [*self.shape]
                shape[i] -= 1
                yield replace(self, shape=tuple(shape))
        if self.kind not in ("PIL", "float32"):
            yield replace(self, kind="float32")

    def text(self, backend: Backend) -> str:
        """How to see both."""
        return (
            f"from fuzz.pictures import Picture\ncase = {self!r}\n"
            "print(case.outcome(False), case.outcome(True))"
        )


FUNCTIONS = """
    F.hflip(X)  F.vertical_flip(X)  F.crop(X, {s}, {s}, {n}, {n})  F.center_crop(X, [{n}, {n}])
    F.five_crop(X, {n})  F.ten_crop(X, [{n}, {n}], {b})  F.pil_to_tensor(X)  F.to_pil_image(X)
    F.resize(X, [{n}, {n}], M('{m}'), antialias={b})  F.get_size(X)  F.get_dimensions(X)
    F.pad(X, {p}, {f}, '{pm}')  F.resize(X, {n}, M('{m}'), max_size={big})
    F.resized_crop(X, {s}, {s}, {n}, {n}, [{n}, {n}], M('{m}'), antialias={b})
    F.rotate(X, {a}, M('{g}'), {b}, {c}, {f})  F.rotate(X, {q}, M('{g}'), {b}, {c}, {f})
    F.affine(X, {a}, [{s}, {s}], {r}, [{a}, {u}], M('{g}'), {f}, {c})
    F.affine(X, {q}, [{s}, {s}], {r}, [0.0], M('{g}'), {f}, {c})
    F.perspective(X, {z}, {z}, M('{g}'), {f})  F.elastic(X, T.tensor({moved}), M('{g}'), {f})
    F.gaussian_blur(X, [{k}, {k}], [{r}, {r}])  F.gaussian_blur(X, {k})  F.adjust_sharpness(X, {v})
    F.adjust_brightness(X, {v})  F.adjust_contrast(X, {v})  F.adjust_saturation(X, {v})
    F.adjust_hue(X, {u})  F.adjust_gamma(X, {v}, {r})  F.rgb_to_grayscale(X, {o})
    F.grayscale_to_rgb(X)  F.get_num_channels(X)  F.uniform_temporal_subsample(X, {n})
    F.invert(X)  F.posterize(X, {bits})  F.solarize(X, {t})  F.autocontrast(X)  F.equalize(X)
    F.normalize(X, {per}, {pos})  F.erase(X, {i}, {i}, {n}, {n}, T.ones(()).to(X.dtype))
    F.permute_channels(X, {perm})  F.to_dtype(X, T.{d}, {b})  F.to_image(X)
"""
CLASSES = """
    L.CenterCrop({n})(X)  L.Pad({p}, {f}, '{pm}')(X)  L.RandomCrop(({h}, {w}))(X)
    L.Resize([{n}, {n}], M('{m}'), antialias={b})(X)  L.ColorJitter(({v},) * 2)(X)
    L.Grayscale({o})(X)  L.RGB()(X)  L.FiveCrop({n})(X)  L.TenCrop({n}, {b})(X)
    L.RandomHorizontalFlip({b})(X, 3)  L.RandomVerticalFlip({b})(X)  L.RandomGrayscale({b})(X)
    L.RandomRotation(({q}, {q}), M('{g}'), {b}, {c}, {f2})(X)  L.RandomInvert({b})(X, 'y')
    L.RandomAffine(({q}, {q}), None, ({r},) * 2, ({u},) * 2, M('{g}'), {f2}, {c})(X)
    L.RandomPosterize({bits}, {b})(X)  L.RandomSolarize({t}, {b})(X)  L.RandomEqualize({b})(X)
    L.RandomAutocontrast({b})(X)  L.RandomAdjustSharpness({v}, {b})(X)  L.ToDtype(T.{d}, {b})(X)
    L.GaussianBlur({k}, ({r},) * 2)(X)  L.ColorJitter(0, ({v},) * 2)(X)
    L.ColorJitter(0, 0, ({v},) * 2)(X)  L.ColorJitter(0, 0, 0, ({u},) * 2)(X)  L.ToImage()(X)
    L.Normalize({per}, {pos})(X)
    L.Compose([L.RandomHorizontalFlip(1.0), L.CenterCrop({n})])(X)
"""


@family("pictures")
def pictures(d: Draw) -> Picture:
    """A random call."""
    h, w = (d.pick(1, 1, 2, 3, 4, 5, 7, 8, 12) for _ in "hw")
    kind = d.pick("uint8", "uint8", "float32", "float32", "float64", "int32", "int16", "PIL", "PIL")
    shape = (d.pick("L", "RGB", "RGB", *MODES),) if kind == "PIL" else d.pick(*SHAPES)
    channels = len(shape[0]) if kind == "PIL" and shape[0] in ("LA", "RGB", "RGBA") else shape[-1]
    channels = channels if isinstance(channels, int) else 1
    each = [d.int(0, 9) for _ in range(channels)]

    drawn: dict[str, str] = {}

    def draw(name: str) -> str:
        if name in drawn and name in "qr":  # the ends of a range
            return drawn[name]
        value: Any = {
            "s": d.int(-3, 8), "n": d.int(1, 9), "i": d.int(0, 4), "b": d.maybe(),
            "m": d.pick("nearest", "bilinear", "bilinear", "bicubic", "nearest-exact"),
            "g": d.pick("nearest", "bilinear"), "pm": d.one("constant  edge  reflect  symmetric"),
            "p": d.pick(d.int(0, 3), [d.int(0, 3)] * 2, [d.int(0, 3) for _ in range(4)]),
            "f": d.pick(None, 0, 3, 0.5, each), "f2": d.pick(0, 3, each), "big": d.int(10, 20),
            "a": round(d.rng.uniform(-200, 200), 2), "q": 90 * d.int(-5, 5),
            "u": d.pick(-0.5, -0.2, 0.0, 0.31), "c": d.pick(None, None, [d.int(0, w), d.int(0, h)]),
            "r": d.pick(0.5, 1.0, 1.7), "h": h, "w": w, "k": d.pick(1, 3, 5), "o": d.pick(1, 3),
            "z": [[x * (w + 3) + d.int(0, 1), y * (h + 3) + d.int(0, 1)] for x, y in CORNERS],
            "moved": f"np.linspace(-0.5, 0.5, {2 * h * w}, dtype='f4').reshape(1, {h}, {w}, 2)",
            "v": d.pick(0.0, 0.3, 1.0, 1.9), "bits": d.int(0, 8), "per": each,
            "t": d.pick(0.0, 0.4, 1.0, 120, 255), "pos": [x + 0.5 for x in each],
            "perm": d.rng.sample(range(channels), channels),
            "d": d.pick("uint8", "float32", "float64", "int16", "int32", "int64"),
        }[name]  # fmt: skip
        drawn[name] = str(value)
        return drawn[name]

    call = d.one(FUNCTIONS if d.maybe(0.7) else CLASSES)
    parts = call.split("{")
    call = parts[0] + "".join(draw(p.partition("}")[0]) + p.partition("}")[2] for p in parts[1:])
    return Picture(call, kind, (*shape, h, w), d.seed)
