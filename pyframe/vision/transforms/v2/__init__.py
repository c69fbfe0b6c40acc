"""torchvision.transforms.v2: the transforms of the first version, which take whole samples here
too, and those that came later."""

from __future__ import annotations

from pyframe.vision.transforms._transform import Transform as Transform
from pyframe.vision.transforms.autoaugment import *
from pyframe.vision.transforms.transforms import *
from pyframe.vision.transforms.v2 import functional as functional
from pyframe.vision.transforms.v2._misc import (  # type: ignore[assignment]  # another Lambda
    JPEG as JPEG,
    RGB as RGB,
    CutMix as CutMix,
    GaussianNoise as GaussianNoise,
    Identity as Identity,
    Lambda as Lambda,
    MixUp as MixUp,
    RandomChannelPermutation as RandomChannelPermutation,
    RandomPhotometricDistort as RandomPhotometricDistort,
    RandomResize as RandomResize,
    RandomShortestSize as RandomShortestSize,
    RandomZoomOut as RandomZoomOut,
    ScaleJitter as ScaleJitter,
    ToDtype as ToDtype,
    ToImage as ToImage,
    ToPureTensor as ToPureTensor,
    UniformTemporalSubsample as UniformTemporalSubsample,
)
