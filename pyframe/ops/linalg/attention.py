"""Attention without its scores in memory: kernels for GPUs, and what they compute in other ops.

Queries are (B, H, T, D), keys (B, G, S, D) and values (B, G, S, E), where H / G heads of queries
share one of keys. Scores are products times `scale`, and the mask (B, H, T, S); `seed` (3,) is
where dropout's random bits come from, `p` how many weights it zeros.
"""

from __future__ import annotations

import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, results_of, runs_kernel
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Constants, Grid, KernelSpec, Op, ShaderTemplate, grid_1d
from pyframe.core.sizes import size_hint, statically_equal, tuning_hint
from pyframe.ops.api.batching_rules import BatchedCall, loop_fallback
from pyframe.ops.api.vmap import VmapLevel
from pyframe.ops.index import masks
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.promotion import broadcast
from pyframe.ops.random.creation import full
from pyframe.ops.random.draws import default_generator
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

WIDTH = 16  # numbers of a row that a thread has
THREADS = 64  # of a workgroup, where rows are that many
FEW_QUERIES = 16  # queries of a head of keys: with more of them keys are not cut into parts
SHARE = 256  # keys of a part at least
BUSY_WORKGROUPS = 128  # workgroups that a GPU should have at least


# --- the definition


def _heads(x: Tensor, heads: int) -> Tensor:
    """(B, G, S, D) -> (B, H, S, D), each head as often as there are heads of queries for it."""
    b, g, s, d = x.shape
    x = mv.expand(mv.unsqueeze(x, 2), (b, g, heads // g, s, d))
    return x.reshape(b, heads, s, d)


def _scores(q: Tensor, k: Tensor, mask: Tensor, causal: bool, masked: bool) -> Tensor:
    scores = matmul(q, mv.transpose(k, -1, -2))
    if masked:
        scores = scores + mask
    if causal:
        allowed = masks.tril_mask(scores.shape, 0, q.device)
        scores = el.where(allowed, scores, -math.inf)
    return scores


def _weights(scores: Tensor, lse: Tensor) -> Tensor:
    """exp(scores - lse), and 0 of what takes no part."""
    none = el.eq(scores.detach(), -math.inf)
    return el.exp(el.where(none, -math.inf, scores - mv.unsqueeze(lse, -1)))


def _kept(shape: tuple[int, ...], seed: Tensor, p: Tensor) -> Tensor:
    """What dropout makes of weights 1."""
    words = tuple([mv.select(seed, 0, i) for i in range(3)])
    uniform = apply(el.uniform_from_bits, (apply(el.random_bits_op, words, (shape,)),))
    return el.where(el.ge(uniform, p), 1.0 / (1.0 - p), 0.0)


def _floats(*xs: Tensor) -> list[Tensor]:
    return [x.to(sums_in(x.dtype)) for x in xs]


def sums_in(dtype: dt.dtype) -> dt.dtype:
    """The dtype of results: float32 for narrower ones, as logarithms of sums may be large."""
    return dt.float32 if dtype.itemsize < 4 else dtype


def _by_scores(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, seed: Tensor, p: Tensor, scale: Tensor,
    causal: bool, masked: bool, drops: bool,
) -> Any:  # fmt: skip
    q, k, v, mask = _floats(q, _heads(k, q.shape[1]), _heads(v, q.shape[1]), mask)
    scores = _scores(q * scale, k, mask, causal, masked)
    lse = rd.logsumexp(scores, -1)
    weights = _weights(scores, lse)
    if not masked:
        weights = rd.softmax(scores, -1)  # nan where all is -inf
    if drops:
        weights = weights * _kept(scores.shape, seed, p)
    return matmul(weights, v), lse


def joint(q: Any, k: Any, v: Any) -> bool:
    """Whether all are of one shape: then the gradients lie beside each other, (B, T, 3, H, D), as
    what one projection makes of each token does."""
    return statically_equal(q, k) and statically_equal(k, v)


def _grads_by_scores(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, lse: Tensor, delta: Tensor, mask: Tensor,
    seed: Tensor, p: Tensor, scale: Tensor, causal: bool, masked: bool, drops: bool,
) -> Any:  # fmt: skip
    heads, groups, of_one = q.shape[1], k.shape[1], joint(q.shape, k.shape, v.shape)
    q, k, v, g, mask = _floats(q * scale, _heads(k, heads), _heads(v, heads), g, mask)
    scores = _scores(q, k, mask, causal, masked)
    weights = kept = _weights(scores, lse)
    along = matmul(g, mv.transpose(v, -1, -2))
    if drops:
        keep = _kept(scores.shape, seed, p)
        along, kept = along * keep, weights * keep
    ds = weights * (along - mv.unsqueeze(delta, -1))
    out = [matmul(ds, k) * scale]
    for a, c in ((ds, q), (kept, g)):
        x = matmul(mv.transpose(a, -1, -2), c)
        b, _, s, d = x.shape
        out.append(rd.sum(x.reshape(b, groups, heads // groups, s, d), 2))
    return [mv.permute(join.stack(out), (1, 3, 0, 2, 4))] if of_one else out


# --- the kernels


def lanes(d: int, e: int) -> int:
    """How many threads share a row."""
    return -(-max(d, e) // WIDTH)


def _variants(call: KernelSpec) -> dict[str, tuple[int, int]]:
    """How many threads a workgroup has, and how many keys each meets at a time, at most."""
    some = [t for t in (THREADS, 2 * THREADS, THREADS // 2) if t <= call.limits.workgroup_size]
    return {f"{t} threads, {k} keys": (t, k) for t in some for k in (8, 4)}


def _plan(call: KernelSpec) -> tuple[Constants, Grid]:
    (b, h, t, d), (_, g, s, _), (*_, e) = call.operands[:3]
    n, (threads, most) = lanes(d, e), call.variant or (THREADS, 8)
    wanted = -(-tuning_hint(t, 4 * THREADS) // 4)  # fours of queries
    parts = 1
    while 2 * parts * wanted * n <= threads and 2 * parts <= tuning_hint(s, THREADS):
        parts *= 2

    def room(fours: int, parts: int, keys: int) -> bool:
        held = max(keys * fours, 18 * fours // parts if parts > 1 else 0)
        return 16 * n * (8 * keys * parts + held) <= call.limits.workgroup_bytes

    while parts > 1 and not room(wanted * parts, parts, 1):
        parts //= 2
    fours = wanted * parts if parts > 1 else min(max(threads // n, 1), wanted)
    keys = next(k for k in (8, 4, 2, 1) if k <= most and room(fours, parts, k))
    constants: Constants = {
        "BATCH": b, "H": h, "REP": h // g, "T": t, "S": s, "D": d, "E": e, "L": n,
        "FOURS": fours, "PARTS": parts, "EACH": keys, **_flags(call),
    }  # fmt: skip
    return constants, grid_1d(b * h * -(-t // (4 * fours // parts)))


def _grad_plan(call: KernelSpec) -> tuple[Constants, Grid]:
    (b, h, t, d), (_, g, s, _), (*_, e) = call.operands[:3]
    n, (threads, most) = lanes(d, e), call.variant or (THREADS, 8)
    rows = max(tuning_hint(t, 2 * THREADS), tuning_hint(s, 2 * THREADS))
    pairs = min(max(threads // n, 1), -(-rows // 2))
    room = min(call.limits.workgroup_bytes // (16 * n * (8 + pairs)), most)
    constants: Constants = {
        "BATCH": b, "H": h, "REP": h // g, "T": t, "S": s, "D": d, "E": e, "L": n,
        "PAIRS": pairs, "EACH": next(k for k in (8, 4, 2, 1) if k <= room),
        "JOINT": joint(*call.operands[:3]), **_flags(call),
    }  # fmt: skip
    return constants, grid_1d(b * (h * -(-t // (2 * pairs)) + g * -(-s // (2 * pairs))))


def _flags(call: KernelSpec) -> Constants:
    return {name.upper(): call.attrs[name] for name in ("causal", "masked", "drops")}


def _batched(c: BatchedCall) -> Tensor:
    """Examples are more of dim 0."""
    if c.attrs[-1]:  # random bits are drawn for a place
        return loop_fallback(c)
    inputs = [*[mv.flatten(x, 0, 1) for x in c.all()[:-3]], *c.xs[-3:]]
    parts = results_of(c.op, tuple(inputs), c.attrs)
    return join.cat([x.reshape(c.size, -1) for x in parts], 1)


def _vector(results: Any) -> Any:
    def infer(x: Any, *args: Any) -> tuple[tuple[int, ...], dt.dtype]:
        shapes = results(x.shape, *[a.shape for a in args[:-3]], *args[-3:])
        return (sum(map(math.prod, shapes)),), sums_in(x.dtype)

    return {"results": results, "infer": infer}


def _flops(shapes: Any, out: Any) -> int:
    """Of each query and key the products, and a softmax or, twice, what becomes of it: largest,
    difference, exp, sum, quotient; or two differences, exp and product."""
    d, e, pairs = shapes[0][-1], shapes[2][-1], math.prod(shapes[-4])
    return int(pairs * (2 * (d + e) + 5 if len(shapes) == 7 else 2 * (4 * d + 3 * e) + 8))


GIVEN, FLAGS = "mask seed p scale", "causal masked drops"


def _grad_shapes(q: Any, k: Any, v: Any, *given: Any) -> Any:
    b, h, t, d = q
    return ((b, t, 3, h, d),) if joint(q, k, v) else (q, k, v)


grad_op = Op(
    "attention_grad", EXTERN, f"q k v g lse delta {GIVEN}", FLAGS,
    kernel=ShaderTemplate("attention_grad.wgsl", _grad_plan, variants=_variants),
    fallback=_grads_by_scores,
    batch=_batched, flops=_flops, **_vector(_grad_shapes),
)  # fmt: skip


def _grads(q: Any, k: Any, v: Any, g: Any, y: Any, *given: Any) -> Any:
    """Those of queries, keys and values."""
    stats = y[1], rd.sum(g[0] * y[0], -1) - g[1]
    if all(given[5:]) and q.device.backend.limits.storage_buffers < 9:  # one for both
        both = join.stack(stats)
        stats = mv.select(both, 0, 0), mv.select(both, 0, 1)
    out = results_of(grad_op, (q, k, v, g[0], *stats, *given[:4]), given[4:])
    if len(out) > 1:
        return out
    beside = mv.permute(out[0], (2, 0, 3, 1, 4))
    return [mv.select(beside, 0, i) for i in range(3)]


attention_op = Op(
    "attention", EXTERN, f"q k v {GIVEN}", FLAGS,
    kernel=ShaderTemplate("attention.wgsl", _plan, variants=_variants), fallback=_by_scores,
    batch=_batched, flops=_flops,
    **_vector(lambda q, k, v, *a: ((*q[:3], v[3]), q[:3])),
    q=lambda g, y, q, k, v, mask, seed, p, scale, causal, masked, drops: _grads(
        q, k, v, g, y, mask, seed, p, scale, causal, masked, drops)[0],
    k=lambda g, y, q, k, v, mask, seed, p, scale, causal, masked, drops: _grads(
        q, k, v, g, y, mask, seed, p, scale, causal, masked, drops)[1],
    v=lambda g, y, q, k, v, mask, seed, p, scale, causal, masked, drops: _grads(
        q, k, v, g, y, mask, seed, p, scale, causal, masked, drops)[2],
    mask=None, seed=None, p=None, scale=None,
)  # fmt: skip


attention_op.recomputes_operands = True

# --- the call


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: Any, causal: bool, scale: Any,
    grouped: bool,
) -> Tensor | None:  # fmt: skip
    """Attention of queries (..., T, D) by the kernels, where the device runs them; else None. With
    `grouped` several heads of q may share one of k and v."""
    device, drops = q.device, p > 0
    (t, d), (s, e) = q.shape[-2:], v.shape[-2:]
    if (
        not runs_kernel(attention_op, device)
        or device.backend.limits.alone
        or device.backend.limits.portable
        or 0 in (*q.shape, *k.shape, *v.shape)
        or k.shape[-2:] != (s, d)  # matmul says what is wrong
        or (grouped and k.shape != (*v.shape[:-1], d))
        or lanes(d, e) > THREADS
        or (mask is not None and mask.requires_grad and mode.grad)
        or (drops and (p >= 1 or isinstance(mode.capture, VmapLevel)))
    ):
        return None
    lead = tuple(q.shape[:-2])
    if not grouped:
        lead = broadcast("scaled_dot_product_attention", lead, k.shape[:-2], v.shape[:-2])
    h, b = lead[-1] if lead else 1, math.prod(lead[:-1])
    g = k.shape[-3] if grouped else 1 if {1} == {*k.shape[-3:-2], *v.shape[-3:-2], 1} else h
    keys = (*lead[:-1], g)
    q = mv.expand(q, (*lead, t, d)).reshape(b, h, t, d)
    k, v = [mv.expand(x, (*keys, *x.shape[-2:])).reshape(b, g, *x.shape[-2:]) for x in (k, v)]
    if mask is not None:
        mask = el.where(mask, 0.0, -math.inf) if mask.dtype is dt.bool_ else mask.to(q.dtype)
        mask = mv.expand(mask, (*lead, t, s)).reshape(b, h, t, s)
    parts = min(BUSY_WORKGROUPS // size_hint(b * g), size_hint(s) // SHARE)
    if parts > 1 and h // g * t <= FEW_QUERIES and not causal and not drops:
        y = _in_parts(q, k, v, mask, scale, parts)
    else:
        y, _ = _call(q, k, v, mask, scale, p, causal, drops)
    return y.to(q.dtype).reshape(*lead, t, e)


def _call(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: Any, p: Any = 0.0,
    causal: bool = False, drops: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    device, shape = q.device, (*q.shape[:3], k.shape[2])
    added = mv.expand(full((), 0.0, dtype=q.dtype, device=device), shape) if mask is None else mask
    seed = mv.expand(full((), 0, dtype=dt.uint32, device=device), 3)
    if drops:
        seed = default_generator.words(device)
    given = added, seed, *[full((), x, dtype=dt.float32, device=device) for x in (p, scale)]
    return results_of(attention_op, (q, k, v, *given), (causal, mask is not None, drops))


def _in_parts(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: Any, parts: int
) -> Tensor:
    """For few queries and many keys: parts of the keys side by side, as if they were heads, joined
    by the sums of their exponentials."""
    (b, h, t, d), (_, g, s, e) = q.shape, v.shape
    rows, each_ = h // g * t, -(-s // parts)
    more = parts * each_ - s
    if more:
        k, v = [mv.pad(x, ((0, 0), (0, 0), (0, more), (0, 0))) for x in (k, v)]
        if mask is None:
            mask = mv.expand(full((), 0.0, dtype=q.dtype, device=q.device), (b, h, t, s))
    if mask is not None:
        mask = mv.pad(mask, ((0, 0), (0, 0), (0, 0), (0, more)), -math.inf)
        mask = mv.transpose(mask.reshape(b, g, rows, parts, each_), 2, 3)
        mask = mask.reshape(b, g * parts, rows, each_)
    q = mv.expand(q.reshape(b, g, 1, rows, d), (b, g, parts, rows, d)).reshape(b, -1, rows, d)
    k, v = [x.reshape(b, g * parts, each_, x.shape[3]) for x in (k, v)]
    y, lse = [x.reshape(b, g, parts, rows, -1) for x in _call(q, k, v, mask, scale)]
    weights = _weights(lse, mv.squeeze(rd.logsumexp(lse, 2, True), -1))
    return rd.sum(weights * y, 2).reshape(b, h, t, e)
