"""Augmentation policies: random chains of transforms, as torchvision.transforms."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

import pyframe as pf
from pyframe.tensor import Tensor
from pyframe.vision.transforms import _draw, functional as F
from pyframe.vision.transforms._functional_tensor import bound
from pyframe.vision.transforms._transform import Transform, fields, first_image
from pyframe.vision.transforms.functional import InterpolationMode, interpolation_mode

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]


class AutoAugmentPolicy(Enum):
    """The data sets whose policies AutoAugment knows."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _MagnitudeRange(NamedTuple):
    """The magnitudes of an op, from its weakest to its strongest."""

    low: float = 0.0
    high: float = 0.0
    signed: bool = False  # whether each sign is as likely
    rounded: bool = False

    def at(self, i: int, bins: int) -> float:
        """Magnitude `i` of as many as there are bins."""
        offset = (self.high - self.low) * i / (bins - 1)
        return self.low + (round(offset) if self.rounded else offset)


_COLORS = ("Brightness", "Color", "Contrast", "Sharpness")
_FIXED = {name: _MagnitudeRange() for name in ("AutoContrast", "Equalize")}


def _space(
    shear: float, moves: tuple[float, float], angle: float, bits: tuple[int, int], color: float
) -> dict[str, _MagnitudeRange]:
    """The ops, moved by at most (x, y), and the ranges of their magnitudes."""
    return {
        "ShearX": _MagnitudeRange(0.0, shear, True),
        "ShearY": _MagnitudeRange(0.0, shear, True),
        "TranslateX": _MagnitudeRange(0.0, moves[0], True),
        "TranslateY": _MagnitudeRange(0.0, moves[1], True),
        "Rotate": _MagnitudeRange(0.0, angle, True),
        **{name: _MagnitudeRange(0.0, color, True) for name in _COLORS},
        "Posterize": _MagnitudeRange(*bits, rounded=True),
        "Solarize": _MagnitudeRange(255.0, 0.0),
        **_FIXED,
    }


_COLOR_OPS = {
    "Brightness": F.adjust_brightness, "Color": F.adjust_saturation,
    "Contrast": F.adjust_contrast, "Sharpness": F.adjust_sharpness,
}  # fmt: skip
_PLAIN_OPS = {"AutoContrast": F.autocontrast, "Equalize": F.equalize, "Invert": F.invert}


def apply_op(img: Any, op: str, magnitude: float, interpolation: Any, fill: Any) -> Any:
    """An image after one op of a policy. ValueError for an unknown name."""
    if op.startswith(("Shear", "Translate")):
        there = [0.0, 0.0]
        there[op[-1] == "Y"] = (
            math.degrees(math.atan(magnitude)) if op[0] == "S" else int(magnitude)
        )
        shears = op[0] == "S"
        return F.affine(
            img, 0.0, [0, 0] if shears else there, 1.0, there if shears else [0.0, 0.0],
            interpolation, fill, [0, 0] if shears else None,
        )  # fmt: skip
    if op == "Rotate":
        return F.rotate(img, magnitude, interpolation, fill=fill)
    if op in _COLOR_OPS:
        return _COLOR_OPS[op](img, 1.0 + magnitude)
    if op == "Posterize":
        return F.posterize(img, int(magnitude))
    if op == "Solarize":  # magnitudes are levels of 255
        white = bound(img) if isinstance(img, Tensor) else 255
        return F.solarize(img, magnitude if white == 255 else magnitude / 255 * white)
    if op in _PLAIN_OPS:
        return _PLAIN_OPS[op](img)
    if op == "Identity":
        return img
    raise ValueError(f"The provided operator {op} is not recognized.")


class _Policy(Transform):
    """A transform that draws ops and their magnitudes, [(op, magnitude)], and applies them."""

    def _ops(self, height: int, width: int) -> dict[str, _MagnitudeRange]:
        """The ops that are drawn from, for an image of this size."""
        far = width * 150.0 / 331.0, height * 150.0 / 331.0
        return _space(0.3, far, 30.0, (8, 4), 0.9)

    def _drawn(
        self, ops: dict[str, _MagnitudeRange], bins: int, level: int | None, levels: int
    ) -> Any:
        """An op and its magnitude: at `level`, or at one of as many."""
        names = list(ops)
        op, at, sign = _draw.randints(len(names), levels, 2)
        magnitudes = ops[names[op]]
        magnitude = magnitudes.at(at if level is None else level, bins)
        return names[op], -magnitude if magnitudes.signed and sign else magnitude

    def transform(self, inpt: Any, params: Any) -> Any:
        for op, magnitude in params:
            inpt = apply_op(inpt, op, magnitude, self.interpolation, self.fill)
        return inpt


class AutoAugment(_Policy):
    """One of 25 pairs of ops, each done with its own probability.

    Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2018.

    Args:
        policy: Whose pairs: an `AutoAugmentPolicy`; ValueError otherwise.
        transform_num: In `get_params` how many pairs there are.
    """

    @fields("policy fill", interpolation=interpolation_mode)
    def __init__(
        self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = InterpolationMode.NEAREST, fill: Any = None,
    ) -> None:  # fmt: skip
        if policy not in POLICIES:
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self.policies = _pairs(POLICIES[policy])

    def _ops(self, height: int, width: int) -> dict[str, _MagnitudeRange]:
        return {**super()._ops(height, width), "Invert": _MagnitudeRange()}

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """(which pair, two numbers that say whether each op is done, their signs)."""
        which, first, second = _draw.randints(transform_num, 2, 2)
        probs = pf.tensor([_draw.uniform(), _draw.uniform()], device="cpu")
        return which, probs, pf.tensor([first, second], device="cpu")

    def make_params(self, flat_inputs: list[Any]) -> Any:
        ops = self._ops(*F.get_dimensions(first_image(flat_inputs))[1:])
        which, probs, signs = self.get_params(len(self.policies))
        chain = []
        for (op, p, level), prob, sign in zip(
            self.policies[which], probs.tolist(), signs.tolist(), strict=True
        ):
            if prob <= p:
                magnitude = 0.0 if level is None else ops[op].at(level, 10)
                chain.append((op, -magnitude if ops[op].signed and not sign else magnitude))
        return chain


class RandAugment(_Policy):
    """`num_ops` random ops, all of one magnitude.

    Cubuk et al., "RandAugment: Practical automated data augmentation", 2019.

    Args:
        magnitude: Which of the magnitudes, from 0.
    """

    @fields(interpolation=interpolation_mode)
    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST, fill: Any = None,
    ) -> None: ...  # fmt: skip

    def _ops(self, height: int, width: int) -> dict[str, _MagnitudeRange]:
        return {"Identity": _MagnitudeRange(), **super()._ops(height, width)}

    def make_params(self, flat_inputs: list[Any]) -> Any:
        ops = self._ops(*F.get_dimensions(first_image(flat_inputs))[1:])
        bins = self.num_magnitude_bins
        return [self._drawn(ops, bins, self.magnitude, bins) for _ in range(self.num_ops)]


class TrivialAugmentWide(_Policy):
    """One random op of a random magnitude.

    Müller, Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", 2021.
    """

    @fields(interpolation=interpolation_mode)
    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None: ...  # fmt: skip

    def _ops(self, height: int, width: int) -> dict[str, _MagnitudeRange]:
        return {"Identity": _MagnitudeRange(), **_space(0.99, (32.0, 32.0), 135.0, (8, 2), 0.99)}

    def make_params(self, flat_inputs: list[Any]) -> Any:
        bins = self.num_magnitude_bins
        return [self._drawn(self._ops(0, 0), bins, None, bins)]


class AugMix(_Policy):
    """An image mixed with what several chains of ops make of it; uint8 or float.

    Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and
    Uncertainty", 2019.

    Args:
        severity: How many of 10 magnitudes are drawn from, the weakest first; ValueError
            for others.
        mixture_width: How many chains.
        chain_depth: How many ops each has; -1 draws 1 to 3.
        alpha: Of the Dirichlet distribution of the weights; small ones make them unequal.
        all_ops: Whether Brightness, Color, Contrast and Sharpness are among the ops.
    """

    _PARAMETER_MAX = 10

    @fields(interpolation=interpolation_mode)
    def __init__(
        self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0,
        all_ops: bool = True, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = None,
    ) -> None:  # fmt: skip
        if not 1 <= severity <= self._PARAMETER_MAX:
            raise ValueError(
                f"The severity must be between [1, {self._PARAMETER_MAX}]. Got {severity} instead."
            )

    def _ops(self, height: int, width: int) -> dict[str, _MagnitudeRange]:
        ops = _space(0.3, (width / 3.0, height / 3.0), 30.0, (4, 0), 0.9)
        return ops if self.all_ops else {k: v for k, v in ops.items() if k not in _COLORS}

    def make_params(self, flat_inputs: list[Any]) -> Any:
        """The weights (N, 1 + width) of the image and of the chains, and the chains."""
        img = first_image(flat_inputs)
        rows = img.shape[0] if isinstance(img, Tensor) and img.ndim > 3 else 1
        mixed = _draw.dirichlet(self.alpha, 2, rows)
        weights = _draw.dirichlet(self.alpha, self.mixture_width, rows) * mixed[:, 1:]
        ops = self._ops(*F.get_dimensions(img)[1:])
        chains = []
        for _ in range(self.mixture_width):
            depth = self.chain_depth if self.chain_depth > 0 else _draw.randint(1, 4)
            chains.append(
                [self._drawn(ops, self._PARAMETER_MAX, None, self.severity) for _ in range(depth)]
            )
        return np.concatenate([mixed[:, :1], weights], 1), chains

    def transform(self, inpt: Any, params: Any) -> Any:
        if not isinstance(inpt, Tensor):
            return F.to_pil_image(self.transform(F.pil_to_tensor(inpt), params))
        weights, chains = params
        batch = inpt.reshape(*[1] * (4 - inpt.ndim), *inpt.shape)
        parts = pf.from_numpy(np.ascontiguousarray(weights.T)).to(batch.device)
        parts = parts.reshape(len(chains) + 1, -1, *[1] * (batch.ndim - 1))
        mix = parts[0] * batch
        for i, chain in enumerate(chains):
            mix = mix + parts[i + 1] * super().transform(batch, chain)
        return mix.reshape(inpt.shape).to(inpt.dtype)


def _pairs(table: str) -> list[Any]:
    """The pairs of a policy: two ops a line, each with its probability and its magnitude."""

    def op(name: str, p: str, level: str) -> tuple[str, float, int | None]:
        return name, float(p), None if level == "-" else int(level)

    lines = (line.split() for line in table.strip().splitlines())
    return [(op(*words[:3]), op(*words[3:])) for words in lines]


# what `_pairs` reads
POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 0.4 8  Rotate 0.6 9
        Solarize 0.6 5  AutoContrast 0.6 -
        Equalize 0.8 -  Equalize 0.6 -
        Posterize 0.6 7  Posterize 0.6 6
        Equalize 0.4 -  Solarize 0.2 4
        Equalize 0.4 -  Rotate 0.8 8
        Solarize 0.6 3  Equalize 0.6 -
        Posterize 0.8 5  Equalize 1.0 -
        Rotate 0.2 3  Solarize 0.6 8
        Equalize 0.6 -  Posterize 0.4 6
        Rotate 0.8 8  Color 0.4 0
        Rotate 0.4 9  Equalize 0.6 -
        Equalize 0.0 -  Equalize 0.8 -
        Invert 0.6 -  Equalize 1.0 -
        Color 0.6 4  Contrast 1.0 8
        Rotate 0.8 8  Color 1.0 2
        Color 0.8 8  Solarize 0.8 7
        Sharpness 0.4 7  Invert 0.6 -
        ShearX 0.6 5  Equalize 1.0 -
        Color 0.4 0  Equalize 0.6 -
        Equalize 0.4 -  Solarize 0.2 4
        Solarize 0.6 5  AutoContrast 0.6 -
        Invert 0.6 -  Equalize 1.0 -
        Color 0.6 4  Contrast 1.0 8
        Equalize 0.8 -  Equalize 0.6 -
    """,
    AutoAugmentPolicy.CIFAR10: """
        Invert 0.1 -  Contrast 0.2 6
        Rotate 0.7 2  TranslateX 0.3 9
        Sharpness 0.8 1  Sharpness 0.9 3
        ShearY 0.5 8  TranslateY 0.7 9
        AutoContrast 0.5 -  Equalize 0.9 -
        ShearY 0.2 7  Posterize 0.3 7
        Color 0.4 3  Brightness 0.6 7
        Sharpness 0.3 9  Brightness 0.7 9
        Equalize 0.6 -  Equalize 0.5 -
        Contrast 0.6 7  Sharpness 0.6 5
        Color 0.7 7  TranslateX 0.5 8
        Equalize 0.3 -  AutoContrast 0.4 -
        TranslateY 0.4 3  Sharpness 0.2 6
        Brightness 0.9 6  Color 0.2 8
        Solarize 0.5 2  Invert 0.0 -
        Equalize 0.2 -  AutoContrast 0.6 -
        Equalize 0.2 -  Equalize 0.6 -
        Color 0.9 9  Equalize 0.6 -
        AutoContrast 0.8 -  Solarize 0.2 8
        Brightness 0.1 3  Color 0.7 0
        Solarize 0.4 5  AutoContrast 0.9 -
        TranslateY 0.9 9  TranslateY 0.7 9
        AutoContrast 0.9 -  Solarize 0.8 3
        Equalize 0.8 -  Invert 0.1 -
        TranslateY 0.7 9  AutoContrast 0.9 -
    """,
    AutoAugmentPolicy.SVHN: """
        ShearX 0.9 4  Invert 0.2 -
        ShearY 0.9 8  Invert 0.7 -
        Equalize 0.6 -  Solarize 0.6 6
        Invert 0.9 -  Equalize 0.6 -
        Equalize 0.6 -  Rotate 0.9 3
        ShearX 0.9 4  AutoContrast 0.8 -
        ShearY 0.9 8  Invert 0.4 -
        ShearY 0.9 5  Solarize 0.2 6
        Invert 0.9 -  AutoContrast 0.8 -
        Equalize 0.6 -  Rotate 0.9 3
        ShearX 0.9 4  Solarize 0.3 3
        ShearY 0.8 8  Invert 0.7 -
        Equalize 0.9 -  TranslateY 0.6 6
        Invert 0.9 -  Equalize 0.6 -
        Contrast 0.3 3  Rotate 0.8 4
        Invert 0.8 -  TranslateY 0.0 2
        ShearY 0.7 6  Solarize 0.4 8
        Invert 0.6 -  Rotate 0.8 4
        ShearY 0.3 7  TranslateX 0.9 3
        ShearX 0.1 6  Invert 0.6 -
        Solarize 0.7 2  TranslateY 0.6 7
        ShearY 0.8 4  Invert 0.8 -
        ShearX 0.7 9  TranslateY 0.8 3
        ShearY 0.8 5  AutoContrast 0.7 -
        ShearX 0.7 2  Invert 0.1 -
    """,
}  # fmt: skip
