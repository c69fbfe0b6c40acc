"""Layers: norms, activations, losses, attention, recurrent nets, embeddings."""

from __future__ import annotations

from .families import Draw, family
from .spatial import around

ACTIVATIONS = """
        F.relu(x)  F.relu6(x)  F.elu(x, {1.0|0.3|1.7})  F.selu(x)  F.celu(x, {1.0|0.4|2.0})
        F.gelu(x)  F.gelu(x, approximate='tanh')  F.silu(x)  F.mish(x)  F.softplus(x)
        F.softplus(x, {2|0.5}, {1|20})  F.softsign(x)  F.tanhshrink(x)  F.hardshrink(x, {0.5|0.1})
        F.softshrink(x, {0.5|0.2})  F.hardtanh(x)  F.hardtanh(x, {-0.5|-2}, {0.3|1.5})
        F.hardsigmoid(x)  F.hardswish(x)  F.leaky_relu(x, {0.01|0.2|1.5|-0.3})
        F.threshold(x, {0.1|-1}, {0.5|20})  F.logsigmoid(x)  F.sigmoid(x)  F.tanh(x)
        F.softmax(x, {-1|0})  F.log_softmax(x, {-1|0})  F.softmin(x, {-1|0})
        F.normalize(x, dim={-1|0})  F.normalize(x, {1.0|3.0}, {-1|0})  F.glu(x, {-1|0})
        F.rrelu(x, 0.1, 0.4)  F.dropout(x, 0.5, False)  F.dropout(x, 0.0)  F.softmax(x, -1).log()
        F.prelu(x, x.flatten()[:1].abs())  T.square(F.relu(x))  x * T.sigmoid(1.702 * x)
        F.silu(x) * x.flip(-1)  F.log_softmax(x, -1).exp()  F.softmax(x * 30, -1)
        F.softplus(x * 20)  F.gelu(x * 8)  T.special.log_ndtr(x)  T.special.expit(x)
        F.local_response_norm(x.contiguous()[None, None], {2|3})
        F.cosine_similarity(x, x.flip(-1), dim={-1|0})"""


@family("activations")
def activations(d: Draw) -> None:
    d.arg("x", d.shape(1, 4), d.pick("normal", "normal", "ties", "sym"))
    d.line(f"y = {d.one(ACTIVATIONS)}")
    d.perhaps(0.4, ACTIVATIONS, lambda e: f"y = {e.replace('(x', '(y')}")
    around(d, 0.2)


@family("norms")
def norms(d: Draw) -> None:
    batch, channels = d.pick(1, 2, 3, 5), d.pick(1, 2, 3, 4, 6, 8)
    n = d.pick(0, 1, 2, 2, 3)
    sizes = tuple(d.pick(1, 2, 3, 5, 7) for _ in range(n))
    how = d.one("""batch  batch  layer  layer  group  instance  rms  module  local  weight""")
    eps = d.pick("", "", ", eps=1e-3", ", eps=0.1")
    if how in ("batch", "instance"):
        if how == "instance" and not n:
            sizes = (4,)
        x = d.arg("x", (batch, channels, *sizes))
        more = ""
        if d.maybe():
            w, b = d.arg("w", (channels,)), d.arg("b", (channels,))
            more = f", weight={w}, bias={b}" if d.maybe(0.8) else f", weight={w}"
        use = "training" if how == "batch" else "use_input_stats"
        flag = d.maybe(0.65)
        stats = not flag or d.maybe()
        mean = d.arg("mean", (channels,), grad=False, view=False) if stats else None
        var = d.arg("var", (channels,), "positive", grad=False, view=False) if stats else None
        more += d.pick("", ", momentum=0.3") if stats else ""
        d.line(f"y = F.{how}_norm({x}, {mean}, {var}{more}, {use}={flag}{eps})")
        around(d)
        if stats:
            d.results(f"{d.found}, mean + 0, var * 1")
        return
    if how in ("layer", "rms"):
        shape = (batch, *sizes, channels)
        last = shape[-d.int(1, len(shape)) :]
        x = d.arg("x", shape)
        more = ""
        if d.maybe(0.7):
            more = f", weight={d.arg('w', last)}"
            if how == "layer" and d.maybe(0.8):
                more += f", bias={d.arg('b', last)}"
        d.line(f"y = F.{how}_norm({x}, {last}{more}{eps})")
    elif how == "group":
        groups = d.pick(1, 2, channels, channels)
        x = d.arg("x", (batch, channels, *sizes))
        both = d.maybe()
        more = f", weight={d.arg('w', (channels,))}, bias={d.arg('b', (channels,))}" if both else ""
        d.line(f"y = F.group_norm({x}, {groups}{more}{eps})")
    elif how == "local":
        x = d.arg("x", (batch, channels, *(sizes or (3,))))
        more = f"{d.pick(1, 2, 3, 5)}, {d.pick(1e-4, 0.5)}, {d.pick(0.75, 1)}, {d.pick(1.0, 2)}"
        d.line(f"y = F.local_response_norm({x}, {more})")
    elif how == "weight":
        x = d.arg("x", (batch, channels))
        kind = d.pick("weight_norm", "parametrizations.weight_norm", "spectral_norm")
        kind = kind if d.maybe(0.7) else "parametrizations.weight_norm"
        d.net(f"T.nn.utils.{kind}(T.nn.Linear({channels}, {d.int(1, 5)}))")
        d.line(f"y = net({x})")
    else:
        layer = d.one(
            """BatchNormNd(C{|, affine=False|, momentum=None|, track_running_stats=False})
            GroupNorm(C, C)  InstanceNormNd(C{|, affine=True|, track_running_stats=True})"""
        )
        d.net(f"T.nn.{layer.replace('Nd', f'{max(n, 1)}d').replace('C', str(channels))}")
        x = d.arg("x", (batch, channels, *(sizes or (4,))))
        if d.maybe(0.3):
            d.setup.append("net.eval()")
        d.line(f"y = net({x})")
        around(d)
        d.results(f"{d.found}, *[b + 0 for b in net.buffers()]")
        return
    around(d)


LOSSES = {  # by what targets are
    "real": """
        F.mse_loss(x, t R)  F.l1_loss(x, t R)  F.smooth_l1_loss(x, t, beta={0.3|1.0|2.0} R)
        F.huber_loss(x, t, delta={0.5|1.5} R)
        F.poisson_nll_loss(x, t.abs(), log_input={True|False} R)
        F.poisson_nll_loss(x.abs() + 0.1, t.abs() + 1, log_input=False, full=True R)
        F.gaussian_nll_loss(x, t, t.abs() + 0.2, full={True|False} R)
        F.soft_margin_loss(x, t.sign() R)  F.kl_div(F.log_softmax(x, -1), F.softmax(t, -1) R)
        F.kl_div(x, F.log_softmax(t, -1), log_target=True R)
        F.binary_cross_entropy_with_logits(x, t.sigmoid() R)
        F.binary_cross_entropy_with_logits(x, t.sigmoid(), pos_weight=t.abs() R)
        F.binary_cross_entropy(x.sigmoid(), t.sigmoid() R)
        F.binary_cross_entropy(x.sigmoid(), t.sigmoid(), weight=t.abs() R)
        F.hinge_embedding_loss(x, t.detach().sign(), margin={1.0|0.4} R)
        F.margin_ranking_loss(x, t, t.detach().sign(), margin={0.0|0.5} R)
        F.cosine_embedding_loss(x, t, t.detach()[:, 0].sign(), margin={0.0|0.3} R)
        F.triplet_margin_loss(x, t, x.flip(0) * 0.5, margin={1.0|0.3}, p={2|1|3}, swap={True|False} R)
        F.triplet_margin_with_distance_loss(x, t, x * 0.5 R)  F.pairwise_distance(x, t, p={2|1|3})
        F.multilabel_soft_margin_loss(x, (t > 0).to(x.dtype) R)  F.cosine_similarity(x, t)
        F.cross_entropy(x, F.softmax(t, 1) R)
        F.cross_entropy(x, F.softmax(t, 1), label_smoothing=0.1 R)
        F.cross_entropy(x, F.softmax(t, 1), weight=t[0].abs() R)""",
    "class": """
        F.cross_entropy(x, t R)  F.cross_entropy(x, t, label_smoothing={0.1|0.3} R)
        F.cross_entropy(x, t, ignore_index={0|-100|1} R)  F.cross_entropy(x, t, weight=w R)
        F.cross_entropy(x, t, weight=w, ignore_index=1, label_smoothing=0.2 R)
        F.nll_loss(F.log_softmax(x, 1), t R)  F.nll_loss(x, t, weight=w, ignore_index={0|2} R)
        F.nll_loss(F.log_softmax(x, 1), t, ignore_index=0 R)""",
    "flat": """
        F.multi_margin_loss(x, t, p={1|2}, margin={1.0|0.4} R)
        F.multi_margin_loss(x, t, weight=w R)  F.cross_entropy(x, t R)
        F.multilabel_margin_loss(x, T.stack([t] + [t * 0 - 1] * (x.shape[1] - 1), 1) R)
        F.nll_loss(x.log_softmax(1), t, w R)  x.gather(1, t[:, None]).logsumexp(0)
        (x.softmax(1) * F.one_hot(t, x.shape[1])).sum(1)""",
}


@family("losses")
def losses(d: Draw) -> None:
    kind = d.pick("real", "real", "class", "flat")
    batch, classes = d.pick(1, 2, 3, 5, 8, 0 if d.maybe(0.1) else 4), d.pick(1, 2, 3, 5, 10)
    after = () if kind != "class" else d.pick((), (), (3,), (2, 3), (1, 1))
    d.arg("x", (batch, classes, *after))
    if kind == "real":
        d.arg("t", (batch, classes), grad=d.maybe(0.3))
    else:
        d.arg("t", (batch, *after), f"int:0:{classes}")
        d.arg("w", (classes,), "positive", grad=False)
    reduction = d.pick("", "", ", reduction='sum'", ", reduction='none'")
    d.line(f"y = {d.one(LOSSES[kind]).replace(' R)', reduction + ')')}")
    if d.maybe(0.15):
        d.body.insert(0, d.one("x = x * 2  x = x.tanh()  x = x - x.mean(0)"))


@family("attention")
def attention(d: Draw) -> None:
    batch, heads, size = d.pick(1, 2, 3), d.pick(1, 2, 3), d.pick(1, 2, 4, 5, 8, 16)
    length, keys = d.pick(1, 2, 3, 5, 8, 17, 33), d.pick(1, 2, 4, 7, 9, 16, 40)
    how = d.int(0, 5)
    if how <= 2:
        lead = d.pick((batch, heads), (batch, heads), (batch,), (2, batch, heads), ())
        q, k = d.arg("q", (*lead, length, size)), None
        shared = d.maybe(0.2)
        keys = length if shared else keys
        width = size if d.maybe(0.8) else d.pick(1, 3, 6)
        group = len(lead) == 2 and heads > 1 and d.maybe(0.2)
        inner = (batch, 1) if group else lead
        k = q if shared and not group else d.arg("k", (*inner, keys, size))
        v = d.arg("v", (*inner, keys, width))
        more = ", enable_gqa=True" if group else ""
        mask = d.int(0, 5)
        if mask == 0:
            more += ", is_causal=True"
        elif mask == 1:
            m = d.arg("m", d.pick((length, keys), (*lead, length, keys), (1, keys)))
            more += f", attn_mask={m}"
        elif mask == 2:
            m = d.arg("m", d.pick((length, keys), (*lead, length, keys)), "bool")
            more += f", attn_mask={m}"
        more += d.pick("", "", ", scale=0.3", ", scale=1.0")
        d.line(f"y = F.scaled_dot_product_attention({q}, {k}, {v}{more})")
        return
    wide = heads * d.pick(1, 2, 4)
    first = d.maybe()
    shape = (batch, length, wide) if first else (length, batch, wide)
    x = d.arg("x", shape)
    if how == 3:
        bias = d.pick("", ", bias=False", ", add_bias_kv=True", ", add_zero_attn=True")
        d.net(f"T.nn.MultiheadAttention({wide}, {heads}, batch_first={first}{bias})")
        long = (batch, keys, wide) if first else (keys, batch, wide)
        other = d.arg("z", long) if d.maybe(0.4) else x
        more = d.pick("", ", need_weights=False", ", average_attn_weights=False")
        if d.maybe(0.3):
            d.arg("pad", (batch, length if other == x else keys), "bool", view=False)
            more += ", key_padding_mask=T.cat([pad[:, :1] & False, pad[:, 1:]], 1)"
        d.line(f"y, w = net({x}, {other}, {other}{more})")
        d.results("y" if "need_weights" in more else "y, w")
    elif how == 4:
        act = d.pick("'relu'", "'gelu'")
        d.net(f"T.nn.TransformerEncoderLayer({wide}, {heads}, {d.pick(3, 8)}, 0.0, {act}, "
              f"batch_first={first}, norm_first={d.maybe()})")  # fmt: skip
        mask = f"T.nn.Transformer.generate_square_subsequent_mask({length}, device=device)"
        causal = f", src_mask={mask}.to(x.dtype)"
        d.line(f"y = net({x}{d.pick('', causal)})")
    else:
        d.net(f"T.nn.TransformerDecoderLayer({wide}, {heads}, {d.pick(3, 8)}, 0.0, "
              f"batch_first={first}, norm_first={d.maybe()})")  # fmt: skip
        m = d.arg("m", (batch, keys, wide) if first else (keys, batch, wide))
        d.line(f"y = net({x}, {m})")


@family("recurrent")
def recurrent(d: Draw) -> None:
    kind = d.one("""LSTM  LSTM  GRU  GRU  RNN""")
    size, hidden = d.pick(1, 2, 3, 5), d.pick(1, 2, 3, 4, 7)
    batch, length = d.pick(1, 2, 3), d.pick(1, 2, 3, 5, 9)
    if d.maybe(0.25):
        d.net(f"T.nn.{kind}Cell({size}, {hidden}{{|, bias=False}})")
        x, h = d.arg("x", (batch, size)), d.arg("h", (batch, hidden))
        if kind == "LSTM":
            c = d.arg("c", (batch, hidden))
            d.line(f"y, z = net({x}, ({h}, {c}))")
            d.line("y, z = net(x * 0.5, (y, z))")
            d.results("y, z")
        else:
            d.line(f"y = net({x}, {h})")
            d.line("y = net(-x, y)")
        return
    layers, both, first = d.pick(1, 1, 2, 3), d.maybe(0.4), d.maybe()
    more = f", num_layers={layers}" if layers > 1 else ""
    more += ", bidirectional=True" if both else ""
    more += ", batch_first=True" if first else ""
    more += d.pick("", "", ", bias=False")
    project = kind == "LSTM" and hidden > 1 and d.maybe(0.2)
    more += f", proj_size={hidden - 1}" if project else ""
    more += ", nonlinearity='relu'" if kind == "RNN" and d.maybe(0.4) else ""
    d.net(f"T.nn.{kind}({size}, {hidden}{more})")
    single = d.maybe(0.1)
    shape = (length, size) if single else (batch, length, size) if first else (length, batch, size)
    x, state = d.arg("x", shape), ""
    if d.maybe(0.4):
        lead = (layers * (1 + both),) if single else (layers * (1 + both), batch)
        state = f", {d.arg('h', (*lead, hidden - project))}"
        if kind == "LSTM":
            state = f", (h, {d.arg('c', (*lead, hidden))})"
    if d.maybe(0.15) and not single:
        lengths = sorted((d.int(1, length) for _ in range(batch)), reverse=True)
        d.line(f"p = T.nn.utils.rnn.pack_padded_sequence({x}, {lengths}, batch_first={first})")
        d.line(f"p, s = net(p{state})")
        d.line(f"y, n = T.nn.utils.rnn.pad_packed_sequence(p, batch_first={first})")
        d.results("y, *(s if isinstance(s, tuple) else [s])")
        return
    d.line(f"y, s = net({x}{state})")
    d.results("y, *(s if isinstance(s, tuple) else [s])")


@family("embeddings")
def embeddings(d: Draw) -> None:
    rows, wide = d.pick(1, 2, 5, 9, 20), d.pick(1, 2, 3, 8, 17, 33)
    w = d.arg("w", (rows, wide))
    at = d.arg("at", d.shape(1, 3), f"int:0:{rows}", d.pick("int64", "int64", "int32"))
    how = d.int(0, 3)
    if how <= 1:
        last = f", padding_idx={rows - 1}"
        more = d.pick("", "", last, ", padding_idx=0", ", scale_grad_by_freq=True")
        d.line(f"y = F.embedding({at}, {w}{more})")
        d.perhaps(0.3, "y = y.sum(-2)  y = y * 2 + 1  y = y.tanh()")
    elif how == 2:
        mode = d.pick("sum", "mean", "max")
        d.args.pop()
        d.arg("at", (d.pick(1, 3, 4), d.pick(1, 2, 5)), f"int:0:{rows}")
        more = d.pick("", f", padding_idx={d.int(0, rows - 1)}")
        if mode == "sum" and d.maybe(0.4):
            more += f", per_sample_weights={d.arg('s', d.args[-1].shape, view=False)}"
        d.line(f"y = F.embedding_bag(at.contiguous(), {w}, mode={mode!r}{more})")
    else:
        d.args.pop()
        count = d.pick(1, 3, 7)
        d.arg("at", (count,), f"int:0:{rows}")
        offsets = sorted({0, *(d.int(0, count) for _ in range(2))})
        mode, last = d.pick("sum", "mean"), d.maybe(0.3)
        offsets = [*offsets, count] if last else offsets
        d.line(f"y = F.embedding_bag(at, {w}, T.tensor({offsets}, device=device), mode={mode!r}, "
               f"include_last_offset={last})")  # fmt: skip
