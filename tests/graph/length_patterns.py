"""What programs do with lengths that change from call to call, as rows for forms.py.

Three captures are enough, of which one is for many lengths, where no row says that it takes
more: one for each way in which a comparison may go.
"""

from __future__ import annotations

from forms import programs

PATTERNS = programs(
    __file__,
    r"""
# --- what is computed for each element, and reductions
== elementwise: lengths (n, 4): (x * 2 + 1).relu() * x.sin()
== sums along it: lengths (3, n): x.sum(1), x.square().mean(1), x.amax(1), x.argmax(1)
== sums across it: lengths (n, 3): x.sum(1), x.var(1), x.amin(1)
== a long sum in the middle: lengths (2, n, 5): x.sum(1) + x.mean((0, 1))
== softmax: lengths (3, n): F.softmax(x, -1) + F.log_softmax(x, 0)
== batch norm: lengths (n, 3, 4): F.batch_norm(x, None, None, training=True)
== all of them changing: lengths (n, m): F.softmax(x, 1).sum(0)
== scans: lengths (3, n): x.cumsum(1), x.cumsum(0)
# --- two lengths
== lengths that may be equal (4 captures)
some = [(5, 9), (7, 6), (9, 13), (8, 8), (6, 6), (33, 3), (11, 11), (2, 70), (70, 70)]
lengths (n, 4), (m, 4) over some: x * 2 + y.sum() if x.shape != y.shape else x + y
== broadcast from 1 (5 captures)
some = [(5, 1), (7, 1), (9, 1), (12, 1), (33, 1), (1, 5), (1, 8), (1, 9), (1, 20), (6, 6)]
lengths (n, 4), (m, 4) over some: (x + y).sum(0)
== zero and one (5 captures)
lengths (n, 4) over [5, 7, 9, 1, 0, 12, 1, 0, 8]: x.sum(0) * x.shape[0]
# --- views and shapes
== reshape with -1: lengths (n, 4): x.reshape(-1, 2).sum(1), x.view(-1), x.reshape(2, -1)
== flatten: lengths (n, 3, 4): x.flatten(1) @ x.flatten(1).T
== slices: lengths (n, 4): x[1:] - x[:-1]
== flipped: lengths (n, 4): x.flip(0) + x
== joined: lengths (n, 3), (m, 3): pf.cat([x, y, x])
== split by a size: lengths (4, n): a, b = x.split([1, 3]); a * b
== chunks (5 captures): lengths (n, 4): a, b = x.chunk(2); a.sum(0) + b.sum(0)
== parts of a size (4 captures): lengths (n, 4): sum([p.sum() for p in x.split(50)])
== parts (5 captures): lengths (n, 4): a, b = x.tensor_split(2); a.sum(0) - b.sum(0)
== evenly spaced: lengths (n, 4): x * pf.linspace(0, 1, x.shape[0]).unsqueeze(1)
== a diagonal: lengths (n, n): x.diagonal() + x.tril().sum(0)
== unfolded: lengths (n, 3): x.unfold(0, 2, 1).sum(-1)
== windows of a batch: lengths (n, m, 4): x.unfold(1, 2, 1).sum(-1)
== pools of a batch
lengths (n, m, 4): F.avg_pool2d(x[:, None], 2, 1), F.avg_pool1d(x.transpose(1, 2), 2, 1, 1)
== places of the largest (no gradients)
lengths (n, m, 4): F.max_pool2d(x[:, None], 2, 1, return_indices=True)[1]
== sums of what is joined: lengths (n, m, 4): pf.cat([x[:, 1:], x[:, :-1] * 2], 1).sum(1)
== one and two less (4 captures)
lengths (n, 4): x[1:].unfold(0, 2, 1).sum(-1), x[2:].abs().cumsum(0)
# --- lengths as numbers
== a mean over a count: lengths (n, 4): x.sum() / x.shape[0] + x.numel()
== a scale: lengths (n, 4): x * x.shape[0] ** -0.5
== a float of it: lengths (n, 4): x * (1 / x.size(0)) + x.shape[0] / 2
== a causal mask
lengths (2, n, n): i = pf.arange(x.shape[1]); x.masked_fill(i > i.unsqueeze(1), -1e9).softmax(-1)
== an eye: lengths (n, n): x + pf.eye(x.shape[0])
== a shape returned: lengths (n, 4): x.sum(1), tuple(x.shape)
== a branch (4 captures): lengths (n, 4): x * 2 if x.shape[0] > 40 else x + 1
== an even length (4 captures): lengths (n, 4): x * 2 if x.shape[0] % 2 else x + 1
== a clipped length (4 captures): lengths (n, 4): x[:min(x.shape[0], 20)] * 2
# --- padding, sampling, windows
== padded: lengths (3, n): F.pad(x, (1, 2))
== padded by a computed amount (4 captures): lengths (3, n): F.pad(x, (0, -x.shape[1] % 8))
== twice as large: lengths (1, 2, n, 6): F.interpolate(x, scale_factor=2.0)
== pooled (5 captures): lengths (1, 2, n, m): F.max_pool2d(x, 2) + F.avg_pool2d(x, 2)
== reflected: lengths (2, 3, n, m): F.pad(x, (2, 1, 1, 2), mode='reflect')
== replicated: lengths (2, 3, n): F.pad(x, (3, 1), mode='replicate')
== wrapped around: lengths (2, 3, n): F.pad(x, (2, 3), mode='circular')
== padded by all of it: lengths (2, 3, n): F.pad(x, (x.shape[2] - 1, 0), mode='reflect')
== cut and reflected (6 captures)
lengths (2, 3, n) over [5, 7, 9, 33, 16, 16]: F.pad(x, (-1, 2), mode='reflect')
== by a factor: lengths (1, 2, n, m): F.interpolate(x, scale_factor=1.5)
== linear: lengths (1, 2, n): F.interpolate(x, scale_factor=2.0, mode='linear')
== bilinear: lengths (1, 2, n, m): F.interpolate(x, scale_factor=(2.0, 0.7), mode='bilinear')
== corners aligned
lengths (1, 2, n, m): F.interpolate(x, scale_factor=2.0, mode='bilinear', align_corners=True)
== bicubic: lengths (1, 2, n, m): F.interpolate(x, size=(9, 7), mode='bicubic')
== as large as another
both = lambda x, size: F.interpolate(x, size, mode='bilinear') + F.interpolate(x, size)
lengths (1, 2, n, 3), (1, 2, m, 3): both(x, y.shape[2:]) + y
== of float64 (cpu)
lengths (1, 2, n): x = x.double(); F.adaptive_avg_pool1d(x, 3), F.interpolate(x, 7, mode='linear')
== sampled
lengths (1, 2, n, m), (1, 4, 5, 2): F.grid_sample(x, y, padding_mode='border', align_corners=False)
== pooled to a few: lengths (2, 3, n, m): F.adaptive_avg_pool2d(x, (3, 2))
== the largest of a few
lengths (2, 3, n, m): F.adaptive_max_pool2d(x.relu(), (2, 3), return_indices=True)
== the largest and where: lengths (2, 3, n): F.max_pool1d(x.relu(), 3, 2, 1, return_indices=True)
== a convolution: lengths (2, 3, n): F.conv1d(x, pf.ones(4, 3, 3), padding=1)
== of images (4 captures)
lengths (1, 3, n, m): F.conv2d(x, pf.ones(4, 3, 3, 3), stride=2, padding=1)
# --- products and indices
== of batches: lengths (2, n, 4), (2, m, 4): pf.bmm(x, y.transpose(1, 2))
== attention: lengths (2, 2, n, 4), (2, 2, m, 4): F.scaled_dot_product_attention(x, y, y)
== causal attention: lengths (2, 2, n, 4): F.scaled_dot_product_attention(x, x, x, is_causal=True)
== an embedding: lengths [2, n], (4, 3): F.embedding(x, y)
== rows by index (4 captures): lengths (n, 4), [m]: x[y % x.shape[0]] + x.index_select(0, y // 4)
== sorted: lengths (3, n): x.sort(1)[0]
== the first of them: lengths (3, n): x.topk(2, 1)[0]
== one hot (no gradients): lengths [n]: F.one_hot(x, 4) * 2.0
# --- losses
== a cross entropy: lengths (n, 4), [n]: F.cross_entropy(x, y)
# --- what is not the lengths'
== numbers of sizes
lengths (n, 3) over [4, 5, 6, 7, 9]: x.shape[0] // 2, x + 1, f"{x.ndim} dims"
== a table by length (6 captures)
table = {5: 1.0, 6: 2.0, 7: 3.0, 8: 4.0}
lengths (n,) over [5, 6, 7, 8, 9, 7]: x * table.get(x.shape[0], 9.0)
== drawn numbers (4 captures, no gradients)
? F.dropout(x, 0.5) + pf.rand(x.shape[0], 1, device=x.device)
for n in 5, 6, 7, 8, 30, 9:
    pf.manual_seed(n)
    yield f(pf.ones(n, 3, device=x.device)), f(pf.ones(n, 3, device=x.device))
== a value outside (no gradients)
o = Plain(scale=2.0)
? x * o.scale
each 4, 5, 6, 7, 8, 9: o.scale = 3.0 if i > 7 else 2.0 -> f(pf.ones(i, device=x.device))
== what is written in place (no gradients)
total, whole = pf.zeros(3, device=x.device), pf.ones(20, 3, device=x.device)
def f(x):
    x.mul_(2)
    x[0] = 5.0
    total.add_(x.sum(0))
for n in 4, 5, 6, 7, 9, 12:
    y = pf.ones(n, 3, device=x.device)
    f(y)
    yield y, total
f(whole[3:9])
yield whole
""",
)
