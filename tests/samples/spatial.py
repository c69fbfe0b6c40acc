"""Rows of convolution, pooling and resampling."""

from __future__ import annotations

from typing import Any

from .row import Row, distinct, ints, normal, positive, value


def first(pair: Any) -> Any:
    return pair[0]


def index(pair: Any) -> Any:
    return pair[1]


def sampled(mode: str, padding: str, corners: bool, **kw: Any) -> Row:
    return Row(
        f"grid_sample:{mode}-{padding}",
        lambda t, F, x, g: F.grid_sample(x, g, mode, padding, corners),
        (normal(2, 1, 3, 4), normal(2, 1, 2, 2)),
        second=False,
        tol=20,
        **kw,
    )


def resized(mode: str, *shape: int, **kw: Any) -> Row:
    name = f"interpolate:{mode}" + "".join(f"-{k}" for k in kw if k not in ("size", "scale_factor"))
    return Row(
        name, lambda t, F, x: F.interpolate(x, mode=mode, **kw), (normal(*shape),),
        second=mode == "bilinear", tol=20,
    )  # fmt: skip


ROWS: tuple[Row, ...] = (
    # convolution
    Row("conv:tbc", lambda t, F, x, w, b: t.conv_tbc(x, w, b, 1),
        (normal(5, 2, 3), normal(3, 3, 2), normal(2)), tol=3),
    value("conv:int", lambda t, F, x, w: t.conv2d(x, w, padding=1), ints(-5, 5, 1, 2, 4, 4),
        ints(-5, 5, 3, 2, 3, 3)),
    Row("conv:unbatched", lambda t, F, x, w, b: t.conv1d(x, w, b, padding="same", dilation=3),
        (normal(2, 9), normal(3, 2, 3), normal(3)), tol=3),
    Row("conv_input:transpose1d", lambda t, F, x, w: F.conv_transpose1d(x, w, stride=2, dilation=3,
        padding=1, output_padding=2), (normal(2, 3, 4), normal(3, 2, 3)), tol=5),
    Row("conv_input:transpose2d", lambda t, F, x, w, b: t.conv_transpose2d(x, w, b, (2, 3), 1, 1,
        groups=2), (normal(2, 4, 3, 2), normal(4, 3, 3, 2), normal(6)), tol=5, second=False),
    Row("conv_input:transpose3d", lambda t, F, x, w: F.conv_transpose3d(x, w, stride=2),
        (normal(1, 2, 2, 3, 2), normal(2, 1, 2, 2, 2)), tol=5, second=False),
    Row("conv_input:stride", lambda t, F, x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 4)),
        (normal(2, 3, 7, 6), normal(4, 3, 3, 4)), tol=5, second=False),
    Row("conv_input:apart", lambda t, F, x, w: F.conv2d(x, w, stride=(3, 2), padding=(1, 0)),
        (normal(2, 3, 7, 6), normal(4, 3, 2, 1)), tol=5, second=False),
    Row("conv_input:coprime", lambda t, F, x, w: F.conv2d(x, w, None, (2, 3), (1, 4), (3, 2), 2),
        (normal(2, 4, 8, 7), normal(4, 2, 3, 4)), tol=5, second=False),
    Row("conv_input:coprime3d", lambda t, F, x, w: F.conv_transpose3d(x, w, None, (2, 1, 5), 1,
        (0, 1, 2), 1, (3, 2, 3)), (normal(1, 2, 2, 3, 2), normal(2, 3, 3, 2, 2)), tol=5,
        second=False),
    Row("conv_input:depthwise", lambda t, F, x, w: F.conv2d(x, w, stride=2, padding=1, groups=3),
        (normal(2, 3, 6, 5), normal(6, 1, 3, 3)), tol=5, second=False),
    Row("conv_weight:depthwise", lambda t, F, x, w: F.conv1d(x, w, padding=2, dilation=2, groups=3),
        (normal(2, 3, 7), normal(3, 1, 3)), tol=5, second=False),
    Row("conv:small", lambda t, F, x, w: F.conv2d(x, w, padding=1, groups=2),
        (normal(5, 4, 2, 3), normal(6, 2, 3, 3)), tol=5, second=False),
    # pooling
    value("max_pool:index", lambda t, F, x: index(F.max_pool2d(x, 3, 2, 1, return_indices=True)),
        distinct(2, 2, 5, 6)),
    value("max_pool:index3d", lambda t, F, x: index(F.max_pool3d_with_indices(x, 2)),
        distinct(1, 2, 4, 5, 4)),
    value("max_pool:lowest",
        lambda t, F, x: index(F.max_pool2d(x / 0, 3, 2, 1, return_indices=True)),
        ints(-1, 0, 1, 1, 4, 4)),
    value("max_pool:int", lambda t, F, x: F.max_pool2d(x, 3, 2, 1), ints(-9, -3, 1, 2, 5, 5)),
    value("avg_pool:int", lambda t, F, x: F.avg_pool2d(x, 3, 2, 1), ints(-9, 9, 1, 2, 5, 5)),
    Row("avg_pool:divisor", lambda t, F, x: F.avg_pool3d(x, 2, divisor_override=3),
        (normal(1, 1, 4, 4, 3),)),
    Row("lp_pool:2d", lambda t, F, x: F.lp_pool2d(x, 3.5, 2, ceil_mode=True),
        (positive(1, 2, 5, 4),), tol=5, second=False),
    Row("lp_pool:3d", lambda t, F, x: F.lp_pool3d(x, float("inf"), 2), (distinct(1, 2, 4, 4, 2),),
        second=False),
    Row("adaptive_avg_pool:2d", lambda t, F, x: F.adaptive_avg_pool2d(x, (None, 3)),
        (normal(2, 2, 4, 7),), tol=3),
    Row("adaptive_max_pool:2d", lambda t, F, x: F.adaptive_max_pool2d(x, (3, 2)),
        (distinct(2, 2, 5, 4),), second=False),
    value("adaptive_max_pool:index", lambda t, F, x: index(F.adaptive_max_pool2d(x, (3, 4), True)),
        distinct(2, 2, 5, 7)),
    Row("fractional_max_pool:2d",
        lambda t, F, x, u: F.fractional_max_pool2d(x, 2, (3, 4), _random_samples=(u % 1).detach()),
        (distinct(1, 2, 7, 9), positive(1, 2, 2)), second=False),
    value("fractional_max_pool:index", lambda t, F, x, u: index(F.fractional_max_pool2d(
        x, (2, 3), output_ratio=(0.5, 0.6), _random_samples=u % 1, return_indices=True)),
        distinct(2, 7, 9), positive(1, 2, 2)),
    value("fractional_max_pool:3d", lambda t, F, x, u: index(F.fractional_max_pool3d(
        x, 2, 2, _random_samples=u % 1, return_indices=True)),
        distinct(1, 2, 5, 4, 6), positive(1, 2, 3)),
    Row("max_unpool:2d", lambda t, F, x: F.max_unpool2d(*F.max_pool2d(
        x, 2, return_indices=True), 2, output_size=(5, 7)), (distinct(1, 2, 5, 7),)),
    # columns of windows
    Row("unfold:columns", lambda t, F, x: F.unfold(x, (2, 3), 2, 1, (1, 2)), (normal(2, 2, 5, 6),)),
    Row("fold:columns", lambda t, F, x: F.fold(x, (5, 6), (2, 3), 1, 1, (1, 2)),
        (normal(2, 12, 18),), tol=3, second=False),
    # padding
    Row("pad:reflect, nothing left", lambda t, F, x: F.pad(x, (1, 2, -2, -2), "reflect"),
        (normal(1, 2, 4, 4),)),
    Row("pad:reflect", lambda t, F, x: F.pad(x, (2, 1, 0, 3), "reflect"), (normal(1, 2, 4, 4),)),
    Row("pad:replicate", lambda t, F, x: F.pad(x, (1, 2, -2, 3, 1, 0), "replicate"),
        (normal(1, 1, 2, 4, 3),), second=False),
    Row("pad:circular", lambda t, F, x: F.pad(x, (3, -1, 2, 2), "circular"),
        (normal(1, 2, 3, 5),), second=False),
    Row("pad:circular, no channels", lambda t, F, x: F.pad(x, (1, 0), "circular"),
        (normal(2, 0, 3),)),
    # resampling
    Row("interpolate", lambda t, F, x: F.interpolate(x, (5, 7), mode="bilinear"),
        (normal(1, 2, 3, 4),), tol=10),
    resized("nearest", 1, 2, 3, 4, scale_factor=2),
    resized("nearest-exact", 1, 1, 5, 7, 4, size=(3, 9, 4)),
    resized("linear", 2, 3, 5, scale_factor=1.7),
    resized("bilinear", 1, 2, 5, 4, size=(2, 7), align_corners=True),
    resized("bilinear", 1, 2, 9, 8, size=(4, 11), antialias=True),
    resized("bicubic", 1, 2, 5, 4, size=(7, 3)),
    resized("trilinear", 1, 2, 3, 4, 2, scale_factor=1.5),
    resized("area", 1, 2, 7, 4, size=(3, 5)),
    Row("grid_sample", lambda t, F, x, g: F.grid_sample(x, g * 0.7, align_corners=False),
        (normal(1, 2, 4, 5), normal(1, 3, 2, 2)), second=False, tol=20),
    sampled("bilinear", "border", True), sampled("bilinear", "reflection", False),
    sampled("nearest", "zeros", False), sampled("bicubic", "reflection", True),
    Row("grid_sample:3d", lambda t, F, x, g: t.grid_sampler_3d(x, g, 0, 0, True),
        (normal(1, 2, 3, 4, 2), normal(1, 2, 1, 3, 3)), second=False, tol=20),
    Row("grid_sample:affine", lambda t, F, a: F.affine_grid(a, (2, 1, 3, 4), align_corners=False),
        (normal(2, 2, 3),), tol=3),
    # pixels and channels
    Row("reshape:pixel_shuffle", lambda t, F, x: F.pixel_shuffle(x, 2), (normal(2, 8, 2, 3),)),
    Row("reshape:channel_shuffle", lambda t, F, x: F.channel_shuffle(x, 3), (normal(2, 6, 2, 2),)),
)  # fmt: skip
