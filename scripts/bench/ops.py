"""Public ops one by one, eager, forward and with their gradients, against PyTorch: worst first."""

from __future__ import annotations

import gc
import math
import statistics
from argparse import Namespace
from typing import Any

import numpy as np
from run import import_torch

import pyframe as pf
from pyframe.tools.bench.measure import Side, about, digits, in_turns, table
from pyframe.tools.bench.workloads import wait
from tests.samples.row import Row, bools, ints, make, normal, positive

IMAGES, VECTOR, MATRIX, SIGNAL = (8, 32, 64, 64), (1_000_000,), (1000, 1000), (8, 64, 1000)


def within(*shape: int) -> Any:
    """Floats between -0.9 and 0.9."""
    return lambda rng: rng.uniform(-0.9, 0.9, shape).astype(np.float32)


def definite(n: int) -> Any:
    """A symmetric positive definite matrix."""

    def spec(rng: np.random.Generator) -> Any:
        x = rng.standard_normal((n, n)).astype(np.float32)
        return x @ x.T / n + np.eye(n, dtype=np.float32)

    return spec


def rows(names: str, *specs: Any, grad: bool = True, of: str = "") -> list[Row]:
    """Functions of the same inputs, of a module's namespace `of`."""

    def one(name: str) -> Row:
        def call(t: Any, F: Any, *xs: Any) -> Any:
            space = {"": t, "F": F}.get(of) or getattr(t, of)
            return getattr(space, name)(*xs)

        return Row(f"{of}.{name}" if of else name, call, specs, grad=grad)

    return [one(name) for name in names.split()]


def of(name: str, call: Any, *specs: Any, grad: bool = True) -> Row:
    """A row with its own call."""
    return Row(name, call, specs, grad=grad)


X, P, U, M, I = normal(*VECTOR), positive(*VECTOR), within(*VECTOR), normal(*MATRIX), ints
T = normal(*IMAGES)
INDEX = ints(0, 1000, 1000, 1000)
CLASSES = ints(0, 100, 10_000)

OPS: list[Row] = [
    # pointwise
    *rows("add sub mul div maximum minimum atan2 hypot fmod remainder logaddexp", X, P),
    *rows("pow xlogy", P, P),
    *rows("exp exp2 expm1 sin cos tan sinh cosh tanh sigmoid atan asinh erf erfc abs neg square"
          " floor round trunc frac relu nan_to_num sinc logit", U),
    *rows("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma acosh i0", P),
    *rows("asin acos atanh erfinv", U),
    *rows("i0e i1 ndtr log_ndtr ndtri entr erfcx", U, of="special"),
    *rows("eq lt isclose", X, P, grad=False), *rows("isnan isfinite signbit logical_not", X,
                                                    grad=False),
    *rows("gcd bitwise_and floor_divide", I(1, 1000, *VECTOR), I(1, 1000, *VECTOR), grad=False),
    *rows("where", bools(*VECTOR), X, P), *rows("lerp addcmul addcdiv", X, X, P),
    of("clamp", lambda t, F, x: t.clamp(x, -0.5, 0.5), X),
    of("pow scalar", lambda t, F, x: x**2.5, P),
    of("cast", lambda t, F, x: x.to(t.int64), X, grad=False),
    of("erf float64", lambda t, F, x: t.erf(x.to(t.float64)), X),
    of("polygamma", lambda t, F, x: t.polygamma(1, x), P),
    *rows("gelu silu elu selu celu softplus mish hardswish hardsigmoid hardtanh leaky_relu"
          " logsigmoid softsign tanhshrink softshrink relu6", X, of="F"),
    of("glu", lambda t, F, x: F.glu(x, 1), M), of("prelu", lambda t, F, x, w: F.prelu(x, w), T,
                                                  positive(32)),
    # reductions
    *[of(f"{n} {where}", lambda t, F, x, n=n, d=d: getattr(t, n)(x, *d), M)
      for where, d in (("all", ()), ("rows", (1,)), ("columns", (0,)))
      for n in ("sum", "mean", "amax", "var", "max", "median")],
    of("argmax", lambda t, F, x: t.argmax(x), M, grad=False),
    of("argmax rows", lambda t, F, x: t.argmax(x, 1), M, grad=False),
    of("argmax columns", lambda t, F, x: t.argmax(x, 0), M, grad=False),
    of("prod rows", lambda t, F, x: t.prod(x, 1), positive(*MATRIX)),
    of("norm rows", lambda t, F, x: t.norm(x, 2, 1), M),
    of("norm p3", lambda t, F, x: t.linalg.vector_norm(x, 3, 1), M),
    of("logsumexp", lambda t, F, x: t.logsumexp(x, 1), M),
    *rows("nansum nanmean", M), *rows("aminmax count_nonzero any all", M, grad=False),
    of("softmax", lambda t, F, x: t.softmax(x, 1), M),
    of("softmax 0", lambda t, F, x: t.softmax(x, 0), M),
    of("log_softmax", lambda t, F, x: t.log_softmax(x, 1), M),
    of("sum bool", lambda t, F, x: x.sum(), bools(*MATRIX), grad=False),
    of("sum images", lambda t, F, x: x.sum((0, 2, 3)), T),
    # scans and order
    *[of(f"{n} {d}", lambda t, F, x, n=n, d=d: getattr(t, n)(x, d), positive(*MATRIX))
      for d in (0, 1) for n in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")],
    of("diff", lambda t, F, x: t.diff(x), M),
    of("sort rows", lambda t, F, x: t.sort(x, 1), M), of("sort", lambda t, F, x: t.sort(x), X),
    of("argsort", lambda t, F, x: t.argsort(x), X, grad=False),
    of("sort int", lambda t, F, x: t.sort(x), I(0, 10**6, *VECTOR), grad=False),
    of("topk 5", lambda t, F, x: t.topk(x, 5), M),
    of("topk 100", lambda t, F, x: t.topk(x, 100), M),
    of("kthvalue", lambda t, F, x: t.kthvalue(x, 50), M),
    of("mode", lambda t, F, x: t.mode(x), I(0, 50, *MATRIX), grad=False),
    of("nanmedian", lambda t, F, x: t.nanmedian(x, 1), M),
    of("quantile", lambda t, F, x: t.quantile(x, 0.3, 1), M),
    of("unique", lambda t, F, x: t.unique(x), I(0, 5000, *VECTOR), grad=False),
    of("unique inverse", lambda t, F, x: t.unique(x, return_inverse=True), I(0, 5000, *VECTOR),
       grad=False),
    of("unique rows", lambda t, F, x: t.unique(x, dim=0), I(0, 5, 20_000, 4), grad=False),
    of("unique_consecutive", lambda t, F, x: t.unique_consecutive(x), I(0, 3, *VECTOR), grad=False),
    of("searchsorted", lambda t, F, x: t.searchsorted(t.linspace(-3, 3, 1000), x), X, grad=False),
    of("bucketize", lambda t, F, x: t.bucketize(x, t.linspace(-3, 3, 20)), X, grad=False),
    of("isin", lambda t, F, x, y: t.isin(x, y), I(0, 10**6, *VECTOR), I(0, 10**6, 1000),
       grad=False),
    of("bincount", lambda t, F, x: t.bincount(x), I(0, 1000, *VECTOR), grad=False),
    of("bincount weights", lambda t, F, x, w: t.bincount(x, w), I(0, 1000, *VECTOR), X, grad=False),
    of("histc", lambda t, F, x: t.histc(x, 100, -3, 3), X, grad=False),
    of("histogram", lambda t, F, x: t.histogram(x, 100), X, grad=False),
    # indexing
    of("x[i]", lambda t, F, x, i: x[i], M, I(0, 1000, 1000)),
    of("x[:, i]", lambda t, F, x, i: x[:, i], M, I(0, 1000, 1000)),
    of("x[i, j]", lambda t, F, x, i, j: x[i, j], M, I(0, 1000, 10**5), I(0, 1000, 10**5)),
    of("x[mask]", lambda t, F, x, m: x[m], M, bools(*MATRIX)),
    of("x[::2, 1:]", lambda t, F, x: x[::2, 1:] + 1, M),
    of("x[i] = y", lambda t, F, x, i, y: x.clone().index_put_((i,), y), M, I(0, 1000, 500),
       normal(500, 1000)),
    of("index_put accumulate", lambda t, F, x, i, y: x.index_put((i,), y, accumulate=True), M,
       I(0, 1000, 500), normal(500, 1000)),
    of("masked_fill", lambda t, F, x, m: x.masked_fill(m, 0.5), M, bools(*MATRIX)),
    of("masked_select", lambda t, F, x, m: t.masked_select(x, m), M, bools(*MATRIX)),
    of("masked_scatter", lambda t, F, x, m, y: t.masked_scatter(x, m, y), M, bools(*MATRIX), M),
    of("index_select 0", lambda t, F, x, i: x.index_select(0, i), M, I(0, 1000, 1000)),
    of("index_select 1", lambda t, F, x, i: x.index_select(1, i), M, I(0, 1000, 1000)),
    of("gather 0", lambda t, F, x, i: x.gather(0, i), M, INDEX),
    of("gather 1", lambda t, F, x, i: x.gather(1, i), M, INDEX),
    of("take", lambda t, F, x, i: t.take(x, i), M, I(0, 10**6, 10**5)),
    of("scatter", lambda t, F, x, i, y: x.scatter(1, i, y), M, INDEX, M),
    of("scatter_add 0", lambda t, F, x, i, y: x.scatter_add(0, i, y), M, INDEX, M),
    of("scatter_add 1", lambda t, F, x, i, y: x.scatter_add(1, i, y), M, INDEX, M),
    of("scatter_reduce amax", lambda t, F, x, i, y: x.scatter_reduce(1, i, y, "amax"), M, INDEX, M),
    of("scatter_reduce mean", lambda t, F, x, i, y: x.scatter_reduce(1, i, y, "mean"), M, INDEX, M),
    of("index_add", lambda t, F, x, i, y: x.index_add(0, i, y), M, I(0, 1000, 1000), M),
    of("index_add 1", lambda t, F, x, i, y: x.index_add(1, i, y), M, I(0, 1000, 1000), M),
    of("index_copy", lambda t, F, x, i, y: x.index_copy(0, i, y), M, I(0, 1000, 1000), M),
    of("index_fill", lambda t, F, x, i: x.index_fill(1, i, 0.5), M, I(0, 1000, 100)),
    of("put accumulate", lambda t, F, x, i, y: x.put(i, y, True), X, I(0, 10**6, 10**5),
       normal(10**5)),
    of("nonzero", lambda t, F, x: t.nonzero(x), bools(*MATRIX), grad=False),
    *rows("tril triu", M),
    of("one_hot", lambda t, F, x: F.one_hot(x, 100), CLASSES, grad=False),
    of("embedding", lambda t, F, i, w: F.embedding(i, w), I(0, 10_000, 64, 128),
       normal(10_000, 128)),
    of("embedding_bag", lambda t, F, i, w: F.embedding_bag(i, w, mode="sum"), I(0, 10_000, 512, 16),
       normal(10_000, 64)),
    of("embedding_bag max", lambda t, F, i, w: F.embedding_bag(i, w, mode="max"),
       I(0, 10_000, 512, 16), normal(10_000, 64)),
    # layout
    of("cat 0", lambda t, F, x, y: t.cat([x, y]), M, M),
    of("cat 1", lambda t, F, x, y: t.cat([x, y], 1), M, M),
    of("stack", lambda t, F, x, y: t.stack([x, y], 1), M, M),
    of("split", lambda t, F, x: t.cat(t.split(x, 300, 1)[::-1], 1), M),
    of("roll", lambda t, F, x: t.roll(x, 3, 1), M),
    of("flip", lambda t, F, x: t.flip(x, (0, 1)), M),
    of("rot90", lambda t, F, x: t.rot90(x), M),
    of("repeat", lambda t, F, x: x.repeat(2, 3), normal(500, 400)),
    of("tile", lambda t, F, x: t.tile(x, (2, 3)), normal(500, 400)),
    of("repeat_interleave", lambda t, F, x: t.repeat_interleave(x, 3, 1), normal(500, 400)),
    of("repeat_interleave tensor", lambda t, F, x, n: t.repeat_interleave(x, n, 0),
       normal(500, 400), I(0, 5, 500)),
    of("transpose copy", lambda t, F, x: x.t().contiguous(), M),
    of("permute copy", lambda t, F, x: x.permute(0, 2, 3, 1).contiguous(), T),
    *[of(f"pad {m}", lambda t, F, x, m=m: F.pad(x, (2, 2, 2, 2), m), T)
      for m in ("constant", "reflect", "replicate", "circular")],
    of("diag_embed", lambda t, F, x: t.diag_embed(x), normal(100, 100)),
    of("unfold method", lambda t, F, x: x.unfold(1, 10, 5) * 2, M),
    *rows("cartesian_prod", normal(1000), normal(1000)),
    # products and linear algebra
    *rows("matmul mm", M, M), *rows("bmm", normal(32, 128, 128), normal(32, 128, 128)),
    *rows("mv", M, normal(1000)), *rows("outer", normal(1000), normal(1000)),
    *rows("kron", normal(30, 30), normal(30, 30)),
    of("einsum", lambda t, F, x, y: t.einsum("bhid,bhjd->bhij", x, y), normal(4, 8, 128, 64),
       normal(4, 8, 128, 64)),
    of("cdist", lambda t, F, x, y: t.cdist(x, y), normal(500, 32), normal(600, 32)),
    of("cdist 1", lambda t, F, x, y: t.cdist(x, y, 1.0), normal(500, 32), normal(600, 32)),
    of("pdist", lambda t, F, x: F.pdist(x), normal(500, 32)),
    *rows("cholesky det inv eigh svd qr eigvalsh pinv matrix_exp", definite(256),
          of="linalg"),
    of("slogdet", lambda t, F, x: t.linalg.slogdet(x)[1], definite(256)),
    *rows("lu_factor lu", definite(512), of="linalg"),
    *rows("ldl_factor eig", definite(256), of="linalg", grad=False),
    *rows("inv det cholesky", lambda rng: np.tile(definite(16)(rng), (500, 1, 1)), of="linalg"),
    *rows("solve lstsq", definite(256), normal(256, 64), of="linalg"),
    of("lu_factor batch", lambda t, F, x: t.linalg.lu_factor(x), normal(500, 16, 16)),
    of("solve_triangular", lambda t, F, x, y: t.linalg.solve_triangular(x.tril(), y, upper=False),
       definite(256), normal(256, 64)),
    of("cross", lambda t, F, x, y: t.linalg.cross(x, y), normal(100_000, 3), normal(100_000, 3)),
    # Fourier
    *[of(n, lambda t, F, x, n=n: t.view_as_real(getattr(t.fft, n)(x)), normal(64, 4096))
      for n in ("fft", "rfft", "fft2", "rfft2")],
    of("irfft", lambda t, F, x: t.fft.irfft(x), normal(64, 4096)),
    of("fftshift", lambda t, F, x: t.fft.fftshift(x), M),
    # convolution, pooling, resampling
    of("conv1d", lambda t, F, x, w: F.conv1d(x, w, padding=2), SIGNAL_X := normal(*SIGNAL),
       normal(64, 64, 5)),
    of("conv2d", lambda t, F, x, w: F.conv2d(x, w, padding=1), T, normal(32, 32, 3, 3)),
    of("conv2d stride 2", lambda t, F, x, w: F.conv2d(x, w, stride=2, padding=1), T,
       normal(64, 32, 3, 3)),
    of("conv2d 1x1", lambda t, F, x, w: F.conv2d(x, w), T, normal(64, 32, 1, 1)),
    of("conv2d depthwise", lambda t, F, x, w: F.conv2d(x, w, padding=1, groups=32), T,
       normal(32, 1, 3, 3)),
    of("conv3d", lambda t, F, x, w: F.conv3d(x, w, padding=1), normal(2, 8, 16, 32, 32),
       normal(8, 8, 3, 3, 3)),
    of("conv_transpose1d", lambda t, F, x, w: F.conv_transpose1d(x, w, stride=2), SIGNAL_X,
       normal(64, 32, 4)),
    of("conv_transpose2d", lambda t, F, x, w: F.conv_transpose2d(x, w, stride=2, padding=1), T,
       normal(32, 16, 4, 4)),
    of("conv_transpose3d", lambda t, F, x, w: F.conv_transpose3d(x, w, stride=2),
       normal(2, 8, 8, 16, 16), normal(8, 8, 2, 2, 2)),
    of("max_pool1d", lambda t, F, x: F.max_pool1d(x, 2), SIGNAL_X),
    of("max_pool2d", lambda t, F, x: F.max_pool2d(x, 2), T),
    of("max_pool2d 3/2", lambda t, F, x: F.max_pool2d(x, 3, 2, 1), T),
    of("max_pool2d indices", lambda t, F, x: F.max_pool2d(x, 2, return_indices=True), T),
    of("max_pool3d", lambda t, F, x: F.max_pool3d(x, 2), normal(2, 8, 16, 32, 32)),
    of("avg_pool1d", lambda t, F, x: F.avg_pool1d(x, 2), SIGNAL_X),
    of("avg_pool2d", lambda t, F, x: F.avg_pool2d(x, 2), T),
    of("avg_pool2d 3/1", lambda t, F, x: F.avg_pool2d(x, 3, 1, 1), T),
    of("lp_pool2d", lambda t, F, x: F.lp_pool2d(x, 2, 2), T),
    of("adaptive_avg_pool2d", lambda t, F, x: F.adaptive_avg_pool2d(x, 8), T),
    of("adaptive_avg_pool2d 7", lambda t, F, x: F.adaptive_avg_pool2d(x, 7), T),
    of("adaptive_max_pool2d", lambda t, F, x: F.adaptive_max_pool2d(x, 8), T),
    of("adaptive_max_pool2d 7", lambda t, F, x: F.adaptive_max_pool2d(x, 7), T),
    of("max_unpool2d", lambda t, F, x, i: F.max_unpool2d(x, i, 2), normal(8, 32, 32, 32),
       lambda rng: np.broadcast_to(
           (np.arange(32)[:, None] * 128 + 2 * np.arange(32)), (8, 32, 32, 32)).copy()),
    of("unfold", lambda t, F, x: F.unfold(x, 3, padding=1), normal(8, 8, 64, 64)),
    of("fold", lambda t, F, x: F.fold(x, (64, 64), 3, padding=1), normal(8, 72, 4096)),
    *[of(f"interpolate {m} x2", lambda t, F, x, m=m: F.interpolate(x, scale_factor=2, mode=m),
         normal(8, 16, 64, 64)) for m in ("nearest", "bilinear", "bicubic", "area")],
    *[of(f"interpolate {m} 50", lambda t, F, x, m=m: F.interpolate(x, size=50, mode=m), T)
      for m in ("nearest", "bilinear", "bicubic", "area")],
    of("interpolate antialias", lambda t, F, x: F.interpolate(
        x, size=50, mode="bilinear", antialias=True), T),
    *[of(f"grid_sample {m}", lambda t, F, x, g, m=m: F.grid_sample(x, g, mode=m,
                                                                  align_corners=False),
         normal(8, 16, 64, 64), within(8, 64, 64, 2)) for m in ("bilinear", "nearest", "bicubic")],
    of("affine_grid", lambda t, F, x: F.affine_grid(x, (32, 1, 64, 64), align_corners=False),
       normal(32, 2, 3)),
    of("pixel_shuffle", lambda t, F, x: F.pixel_shuffle(x, 2), T),
    # layers
    of("linear", lambda t, F, x, w, b: F.linear(x, w, b), normal(512, 512), normal(512, 512),
       normal(512)),
    of("bilinear", lambda t, F, x, y, w: F.bilinear(x, y, w), normal(256, 32), normal(256, 32),
       normal(32, 32, 32)),
    of("layer_norm", lambda t, F, x: F.layer_norm(x, (1000,)), M),
    of("rms_norm", lambda t, F, x: F.rms_norm(x, (1000,)), M),
    of("group_norm", lambda t, F, x: F.group_norm(x, 8), T),
    of("instance_norm", lambda t, F, x: F.instance_norm(x), T),
    of("batch_norm", lambda t, F, x: F.batch_norm(x, None, None, training=True), T),
    of("local_response_norm", lambda t, F, x: F.local_response_norm(x, 5), T),
    of("normalize", lambda t, F, x: F.normalize(x), M),
    of("cosine_similarity", lambda t, F, x, y: F.cosine_similarity(x, y), M, M),
    of("pairwise_distance", lambda t, F, x, y: F.pairwise_distance(x, y), M, M),
    of("attention", lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v),
       *[normal(4, 8, 128, 64)] * 3),
    of("attention causal", lambda t, F, q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True), *[normal(4, 8, 128, 64)] * 3),
    # losses
    *rows("mse_loss l1_loss smooth_l1_loss huber_loss", M, M, of="F"),
    of("poisson_nll_loss", lambda t, F, x, y: F.poisson_nll_loss(x, y), M, positive(*MATRIX)),
    of("gaussian_nll_loss", lambda t, F, x, y, v: F.gaussian_nll_loss(x, y, v), M, M,
       positive(*MATRIX)),
    of("kl_div", lambda t, F, x, y: F.kl_div(x, y, reduction="batchmean"), M, positive(*MATRIX)),
    of("binary_cross_entropy", lambda t, F, x, y: F.binary_cross_entropy(x.abs(), y.abs()),
       within(*MATRIX), within(*MATRIX)),
    of("bce_with_logits", lambda t, F, x, y: F.binary_cross_entropy_with_logits(x, y), M,
       positive(*MATRIX)),
    of("cross_entropy", lambda t, F, x, y: F.cross_entropy(x, y), normal(10_000, 100), CLASSES),
    of("cross_entropy images", lambda t, F, x, y: F.cross_entropy(x, y), T, I(0, 32, 8, 64, 64)),
    of("cross_entropy smoothing", lambda t, F, x, y: F.cross_entropy(x, y, label_smoothing=0.1),
       normal(10_000, 100), CLASSES),
    of("nll_loss", lambda t, F, x, y: F.nll_loss(x, y), normal(10_000, 100), CLASSES),
    of("multi_margin_loss", lambda t, F, x, y: F.multi_margin_loss(x, y), normal(10_000, 100),
       CLASSES),
    of("multilabel_margin_loss", lambda t, F, x, y: F.multilabel_margin_loss(x, y),
       normal(1000, 100), I(0, 100, 1000, 100)),
    of("multilabel_soft_margin_loss", lambda t, F, x, y: F.multilabel_soft_margin_loss(x, y), M,
       positive(*MATRIX)),
    of("cosine_embedding_loss", lambda t, F, x, y: F.cosine_embedding_loss(x, y, t.ones(1000)), M,
       M),
    of("margin_ranking_loss", lambda t, F, x, y: F.margin_ranking_loss(x, y, t.ones(1000, 1000)), M,
       M),
    of("hinge_embedding_loss", lambda t, F, x: F.hinge_embedding_loss(x, t.ones(1000, 1000)), M),
    of("triplet_margin_loss", lambda t, F, x, y, z: F.triplet_margin_loss(x, y, z), M, M, M),
    of("ctc_loss", lambda t, F, x, y: F.ctc_loss(
        x.log_softmax(2), y, t.full((16,), 100), t.full((16,), 20)), normal(100, 16, 40),
       I(1, 40, 16, 20)),
]  # fmt: skip


def side(row: Row, name: str, t: Any, arrays: list[Any], backward: bool) -> Side:
    """`row` on a framework, with the gradients of all float inputs or without."""
    xs = [t.tensor(a) for a in arrays]
    call, F = row.call, t.nn.functional
    leaves = [x.requires_grad_() for x in xs if backward and x.is_floating_point()]

    def forward() -> Any:
        out = call(t, F, *xs)
        several = list(out) if isinstance(out, (tuple, list)) else [out]
        return next((y for y in several if y.requires_grad), several[0])

    def back() -> Any:
        return t.autograd.grad(forward(), leaves, g, allow_unused=True)[0]

    def run(compute: Any) -> Any:
        out = compute()
        wait(out)  # nobody would compute what is recorded and let go
        return out

    if not backward:
        return Side(name, lambda: run(forward))
    g = t.ones_like(forward())
    return Side(name, lambda: run(back))


def report(args: Namespace) -> list[str]:
    """The ratios of the ops, worst first, as Markdown."""
    torch = import_torch(args.threads)
    gc.freeze()
    found = []
    for row in OPS:
        if args.only and not any(word in row.name.upper() for word in args.only):
            continue
        rng = np.random.default_rng(0)
        arrays = [spec(rng) if callable(spec) else make(spec, rng) for spec in row.specs]
        ms = []
        for backward in (False, True)[: 1 + row.grad]:
            sides = [side(row, n, t, arrays, backward) for n, t in (("us", pf), ("them", torch))]
            times = in_turns(sides, args.repeats, 0.0 if args.quick else 0.02)
            ms.append([1e3 * statistics.median(times[n]) for n in ("us", "them")])
        found.append((max(us / them for us, them in ms), row.name, ms))
    found.sort(key=lambda entry: -entry[0])
    lines = []
    for _, name, ms in found:
        line = [name]
        for us, them in ms:
            line += [digits(us), digits(them), f"{us / them:.2f}"]
        lines.append(line + [""] * (7 - len(line)))
    mean = math.exp(statistics.fmean(math.log(us / them) for *_, ms in found for us, them in ms))
    head = ["# Ops of pyframe and PyTorch, eager", "", *about(args.threads, ["cpu"], torch), ""]
    names = ["forward, ms", "PyTorch", "ratio", "with gradients, ms", "PyTorch", "ratio"]
    return [*head, *table(["op", *names], lines), "", f"Geometric mean of the ratios: {mean:.2f}"]
