"""Rows of nn.functional: activations, losses, normalization, embedding, distances, attention.

What is composed of the same ops shares a row, so that a kernel is built once for all of it.
"""

from __future__ import annotations

from typing import Any

from .row import Row, distinct, ints, normal, positive, value


def each(*calls: Any) -> Any:
    """A call of a row: the results of all calls, one after the other."""
    return lambda t, F, *xs: t.cat([call(t, F, *xs).reshape(-1) for call in calls])


def loss(name: str, fn: Any, *specs: Any, **kw: Any) -> Row:
    """fn(F, *inputs, reduction="none")."""
    return Row(f"loss:{name}", lambda t, F, *xs: fn(F, "none", *xs), specs, **kw)


ROWS: tuple[Row, ...] = (
    # activations
    Row("hardtanh", lambda t, F, x: F.hardtanh(x, -0.5, 0.7)),
    Row("over_six", lambda t, F, x: F.hardsigmoid(x * 3)),
    Row("activation:pieces", each(
        lambda t, F, x: F.relu6(x * 5),
        lambda t, F, x: F.hardsigmoid(x * 3), lambda t, F, x: F.hardswish(x * 3),
        lambda t, F, x: F.leaky_relu(x, 0.2), lambda t, F, x: F.threshold(x, 0.1, 2.0),
        lambda t, F, x: F.hardshrink(x), lambda t, F, x: F.softshrink(x, 0.3),
        lambda t, F, x: F.softsign(x), lambda t, F, x: t.rrelu(x)), (normal(4, 5),)),
    Row("activation:exponentials", each(
        lambda t, F, x: F.elu(x * 50, 1.5), lambda t, F, x: t.selu(x),
        lambda t, F, x: t.celu(x, 0.5), lambda t, F, x: F.mish(x), lambda t, F, x: F.tanhshrink(x),
        lambda t, F, x: F.softplus(x, 3, 2), lambda t, F, x: F.logsigmoid(x * 20)),
        (normal(4, 5),), tol=20, second=False),
    Row("activation:elu", each(
        lambda t, F, x: F.elu(x, 1.5), lambda t, F, x: F.celu(x, 0.5), lambda t, F, x: F.selu(x),
        lambda t, F, x: F.mish(x), lambda t, F, x: F.logsigmoid(x)), (normal(2, 3),), tol=5),
    Row("activation:prelu", lambda t, F, x, w: F.prelu(x, w), (normal(2, 3, 4), normal(3))),
    Row("activation:prelu_one", lambda t, F, x, w: x.prelu(w) * 2, (normal(5), normal(1))),
    Row("activation:glu", lambda t, F, x: F.glu(x, 1), (normal(3, 6, 2),)),
    Row("activation:inplace", lambda t, F, x: F.elu_(F.silu(x * 2, True)), tol=5),
    value("activation:int", lambda t, F, x: F.relu6(x) + F.threshold(x, 1, 3), ints(-4, 9, 4, 5)),
    # losses
    Row("binary_cross_entropy", lambda t, F, x, y, w: F.binary_cross_entropy(
        x.sigmoid(), y.sigmoid(), w.to(x.dtype)), (normal(4, 5), normal(4, 5), ints(1, 4, 5)),
        tol=5),
    loss("logits", lambda F, r, x, y, w: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), w.to(x.dtype), pos_weight=w.to(x.dtype) + 1, reduction=r),
        normal(4, 5), normal(4, 5), ints(1, 4, 5), tol=5),
    loss("differences", lambda F, r, x, y, w: F.mse_loss(x, y, reduction=r, weight=w)
        + F.l1_loss(x, y, reduction=r, weight=w) + F.smooth_l1_loss(x, y, reduction=r, beta=0.7)
        + F.huber_loss(x, y, reduction=r, delta=0.6, weight=w),
        normal(4, 5), normal(4, 5), positive(4, 5), tol=5),
    Row("ctc_loss", lambda t, F, x, y: F.ctc_loss(
        F.log_softmax(x, 2), y, (4, 3), (2, 1), reduction="none"),
        (normal(4, 2, 3), ints(1, 3, 2, 2)), tol=10),
    Row("ctc_loss:row", lambda t, F, x, y: F.ctc_loss(
        F.log_softmax(x, 2), y, t.tensor([4, 3, 2]), t.tensor([2, 0, 3]), 1, zero_infinity=True),
        (normal(4, 3, 4), ints(2, 4, 5)), second=False, tol=10),
    # normalization
    Row("norm:batch", lambda t, F, x, n, w, b: F.batch_norm(
        x, n.to(x.dtype), n.to(x.dtype), w, b) + F.batch_norm(x, None, None, w, b, True),
        (normal(3, 2, 4), ints(1, 3, 2), normal(2), normal(2)), tol=10),
    Row("norm:instance", lambda t, F, x, n, w, b: F.instance_norm(
        x, n.to(t.float16), n.to(t.float32), w, b) + F.instance_norm(
        x, n.to(t.float16), n.to(t.float32), w, b, False),
        (normal(2, 2, 5), ints(1, 3, 2), normal(2), normal(2)), tol=10),
    Row("norm:group", lambda t, F, x, w, b: F.group_norm(x, 2, w, b),
        (normal(2, 4, 3), normal(4), normal(4)), tol=10),
    Row("norm:rms", lambda t, F, x, w: t.rms_norm(x, (4,), w), (normal(3, 4), normal(4)), tol=5),
    # distances
    Row("distance:pairwise", lambda t, F, x, y: F.pairwise_distance(x, y, 1.5, keepdim=True),
        (normal(4, 5), normal(4, 5)), tol=5),
    Row("distance:pdist", lambda t, F, x: t.pdist(x), (normal(5, 3),), tol=5),
    # embedding
    Row("embedding_bag", lambda t, F, w, i, p: F.embedding_bag(
        i, w, t.tensor([0, 3, 3, 5]).to(i.device), mode="sum", per_sample_weights=p, padding_idx=1),
        (normal(5, 3), ints(0, 5, 8), normal(8)), tol=5),
    Row("embedding_bag:max", lambda t, F, w, i: F.embedding_bag(
        i, w, t.tensor([0, 3, 3, 5]).to(i.device), mode="max"), (distinct(5, 3), ints(0, 5, 8))),
    # attention
    Row("attention:multi_head", lambda t, F, x, w, b, o, m: F.multi_head_attention_forward(
        x, x, x, 4, 2, w, b, None, None, True, 0.0, o, None, attn_mask=m)[0],
        (normal(3, 2, 4), normal(12, 4), normal(12), normal(4, 4), normal(3, 3)),
        second=False, tol=10),
)  # fmt: skip
