"""Tensors: elementwise ops of mixed dtypes, views, reductions, scans, sorts, products, indexing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .check import Living
from .families import Draw, family

UNARY = {  # by the data that they take
    "normal": """abs neg square exp sin cos tanh sigmoid atan sinh cosh asinh erf erfc expm1 exp2 sinc
        sign positive tan floor ceil round trunc frac relu deg2rad rad2deg""",
    "positive": "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma i0 acosh(1+",
    "sym": "asin acos atanh erfinv log1p",
    "unit": "logit special.ndtri special.entr special.ndtr i0 special.i0e special.i1 special.erfcx",
}
BINARY = """
        x + y  x - y  x * y  x / (y.abs() + 0.5)  T.maximum(x, y)  T.minimum(x, y)  T.atan2(x, y)
        T.hypot(x, y)  x ** 2 + y  (x.abs() + 0.1) ** y  T.fmod(x, y.abs() + 0.5)
        T.remainder(x, y.abs() + 0.5)  T.logaddexp(x, y)  T.logaddexp2(x, y)  T.where(x > y, x, y)
        T.lerp(x, y, {0.3|x})  T.fmax(x, y)  T.addcmul(x, y, x, value={1|0.5})
        T.addcdiv(x, y, y.abs() + 1)  T.xlogy(x, y.abs() + 0.1)  T.copysign(x, y)
        T.clamp(x, y - 1, y)  x.mul(y).add(x, alpha=2)  T.sub(x, y, alpha=3)  T.rsub(x, y)
        (x > y) * x  T.special.xlog1py(x, y.abs())  x // (y.abs() + 0.5)  T.dist(x, y)
        T.float_power(x.abs() + 0.1, y)  T.heaviside(x, y)  T.nextafter(x, y)
        T.logical_and(x > 0, y > 0)  x.eq(y)  T.isclose(x, y)
        T.div(x, y.abs() + 0.5, rounding_mode='{floor|trunc}')  T.polar(x.abs() + 0.1, y).real
        T.complex(x, y).abs()  T.ldexp(x, y.round().long().clamp(-3, 3))"""
SCALARS = ["2", "-1", "0.5", "3", "True", "1e-3", "-2.5"]


def near(d: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast with one."""
    some = tuple(1 if d.maybe(0.3) else n for n in shape)
    return some[d.int(0, len(some)) :] if d.maybe(0.3) else some


def dim_of(d: Draw, shape: tuple[int, ...]) -> int:
    """A dim, counted from either side."""
    n = max(len(shape), 1)
    return d.int(-n, n - 1)


@family("elementwise")
def elementwise(d: Draw) -> None:
    shape = d.shape(0, 4)
    kind = d.pick(*UNARY)
    d.arg("x", shape, kind), d.arg("y", near(d, shape), d.pick("normal", "ties"))
    for _ in range(d.int(1, 3)):
        how = d.int(0, 3)
        if how == 0:
            name = d.pick(*UNARY[kind].split())
            d.line(f"z = T.{name}x)" if name.endswith("+") else f"z = T.{name}(x)")
            other = "x = x * 0.5 + z * 0.1" if kind == "normal" else "y = z * y"
            d.line("y = y + z" if d.maybe(0.7) else other)
        elif how == 1:
            d.line(f"y = {d.one(BINARY)}")
        elif how == 2:
            s = d.pick(*SCALARS)
            some = "y * S  y + S  S - y  y / S  T.clamp(y, max=S)  y - S  y > S"
            d.line(f"y = {d.one(some)}".replace("S", s))
            if ">" in d.body[-1]:
                d.line("y = T.where(y, x, x * 2)")
        else:
            turned = ".mT" if len(shape) > 1 else ""
            d.line(f"y = y{d.pick('.unsqueeze(-1)', '.flatten()', '.clone()', '.sum()', turned)}")


@family("dtypes")
def dtypes(d: Draw) -> None:
    shape = d.shape(0, 3)
    names = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool float32".split()
    for name in "xy":
        dtype = d.pick(*names)
        whole = "int:-4:5" if "int" in dtype else "normal"
        kind = {"bool": "bool", "uint8": "int:0:5"}.get(dtype, whole)
        d.arg(name, shape if name == "x" else near(d, shape), kind, dtype)
    two = d.one(
        """x + y  x * y  x - y  T.where(x > y, x, y)  T.maximum(x, y)  x == y  x / y  x < y
        x // (y * y + 1)  T.add(x, y, alpha=2)  x % (y * y + 1)  x ** 2 + y
        T.cat([x.flatten(), y.flatten()])  x & y  x | y  x ^ y  x.to(y.dtype)  T.logical_xor(x, y)
        T.fmin(x, y)  T.atan2(x, y)  x.type_as(y) + y  T.stack([x, x.to(y.dtype).to(x.dtype)])
        T.true_divide(x, y)  T.gcd(x, y)  x << (y & 3)  T.bitwise_and(x, y)"""
    )
    d.line(f"y = {two}")
    s = d.pick(*SCALARS)
    more = d.one(
        """y  y * S  y + S  y.sum()  y.to(T.float32)  y.sum(0)  -y  y.mean()  y.float().exp()  y / S
        y.prod()  y.abs()  y.sum(dtype=T.float32)  y.cumsum(0)  y.max()
        y.clamp(-999, 999).nan_to_num(0).to(T.int64)  y.to(T.bool)  y == S  ~y  T.sqrt(y)
        y.clamp(-999, 999).nan_to_num(0).int() + 1"""
    )
    if more != "y":
        d.line(f"y = {more}".replace("S", s))


VIEWS = """x.mT  x.transpose(0, -1)  x.unsqueeze(0)  x.unsqueeze(-1)  x.flatten()  x[..., ::2]  x[..., 1:]
x[:1]  x[-1:]  x.flip(0)  x.flip(-1)  x.movedim(0, -1)  x.reshape(-1)  x.reshape(x.shape[::-1])
x.expand(2, *x.shape)  x.repeat(2, *[1] * x.ndim)  x.roll(1, 0)  x.roll(-2)  x.squeeze()
x.contiguous()  x.clone()  x.narrow(0, 0, 1)  x.unfold(-1, 1, 1)  x.unfold(0, 2, 1)
x.diagonal(0, 0, -1)  x.swapaxes(0, -1)  x.rot90(1, (0, -1))  x.select(0, 0)  x.tril()  x.triu(1)
T.cat([x, x])  T.stack([x, x * 2], -1)  x.ravel()  x.chunk(2)[0]  x.split(1, -1)[-1]
T.cat([x, x.flip(0)], -1)  x.tile(2)  x.repeat_interleave(2, 0)  T.atleast_2d(x)  T.hstack([x, x])
x.view(x.shape)  x.as_strided((2,), (1,))  T.diff(x)  x.T if x.ndim == 2 else x  x.unbind(0)[-1]
T.tensor_split(x, 3)[1]  x[None, ..., None]  T.diag_embed(x)
x.view(-1, 1) if x.is_contiguous() else x  T.block_diag(x.flatten()[:3], x.flatten()[:2])
T.meshgrid(x.flatten()[:4], x.flatten()[:3], indexing='ij')[0]  F.pad(x, (1, 2))
F.pad(x, (-1, 1))  F.pad(x, (0, 0, 1, 1), value=0.5)  x.unflatten(-1, (1, -1))
T.column_stack([x, x])"""


@family("layouts")
def layouts(d: Draw) -> None:
    d.arg("x", d.shape(1, 4), "normal")
    calm = "x + 1  x * 0.5  x.tanh()  x - x.mean()  x * x.detach()  x.relu()"
    for _ in range(d.int(1, 5)):
        d.line(f"x = {d.one(VIEWS if d.maybe(0.7) else calm)}")
    d.line(
        d.one(
            """y = x  y = x * 1  y = x.sum(-1)  y = x.softmax(-1)  y = x.sum()  y = x.amax(0)
            y = x @ x.mT if x.ndim > 1 else x  y = x.cumsum(0)  y = x.reshape(-1)"""
        )
    )


REDUCTIONS = """
x.sum(D K)  x.mean(D K)  x.amax(D K)  x.amin(D K)  x.prod(O K)  x.var(D, correction={1|0|2} K)
x.std(D, correction={1|0} K)  x.logsumexp(D K)  T.norm(x, {2|1|3|inf|0.5}, D K)  x.argmax(O K)
x.argmin(O K)  x.all(O K)  x.any(O K)  T.count_nonzero(x, D)
T.linalg.vector_norm(x, {2|1|inf|-inf|3}, D K)  x.nansum(D K)  x.nanmean(D K)
T.linalg.vector_norm(x.detach(), 0, D K)
x.median(O K).values  x.max(O K).values  x.min(O K).values  x.quantile({0.3|0.5}, O K)
T.var_mean(x, D K)[0]  x.sum()  x.mean()  x.max()  x.min()  x.prod()  x.std()  x.var()  x.norm()
x.argmax()  x.all()  T.aminmax(x)[1]  x.softmax(O)  x.log_softmax(O)
(x - x.mean(D, keepdim=True)).square().mean(D K)  x.sum(D K).exp()  x.median()
x.exp().sum(D K).log()  x.abs().amax(D, keepdim=True) * x  x.kthvalue(1, O K).values
x.nanmedian(O K).values  x.trace() if x.ndim == 2 else x.sum()  T.std_mean(x, D K)[1]
x.cumsum(O).sum(O K)  x.square().sum(D K).sqrt()  F.normalize(x, dim=O)
x.renorm(2, O, 1.0) if x.ndim > 1 else x  T.logsumexp(x * 40, D K)
T.cov(x) if x.ndim == 2 else x.sum()  T.corrcoef(x) if x.ndim == 2 else x.sum()
T.nanquantile(x, 0.4, O K)  x.mode(O).values"""


@family("reductions")
def reductions(d: Draw) -> None:
    others = [(), (1,), (300,), (3, 200), (130, 5), (4000,), (2, 1100), (1100, 2), (70, 90)]
    shape = d.shape(1, 4) if d.maybe(0.85) else d.pick(*others)
    d.arg("x", shape, d.one("""normal  normal  normal  ties  positive"""))
    one = dim_of(d, shape)
    dims: Any = one
    if len(shape) > 1 and d.maybe(0.4):
        dims = tuple(d.rng.sample(range(len(shape)), d.int(1, len(shape))))
    text = d.one(REDUCTIONS).replace("D", str(dims), 1) if d.maybe(0.98) else "x.sum(7)"
    keep = d.pick("", ", keepdim=True")
    text = text.replace("D", str(dims)).replace("O", str(one))
    text = text.replace(" K)", f"{keep})").replace("inf", "float('inf')")
    which = any(name in text for name in ("kthvalue", "median", "mode", "quantile"))
    if which:  # which of equals it is, is not said
        d.args[-1] = replace(d.args[-1], kind="distinct")
    more = "x + x.flip(0)" if shape and not which else "x + 1"
    d.perhaps(0.3, f"x = x * 2 - 1  x = x.mT if x.ndim > 1 else x  x = {more}  x = x.tanh()")
    d.line(f"y = {text}")
    d.perhaps(
        0.3,
        "y = y * 2  y = x - y if y.dtype == x.dtype else y  y = y.float().exp()  z = y + 1",
    )


SCANS = """
x.cumsum(O)  x.cumprod(O)  x.logcumsumexp(O)  x.cummax(O).values  x.cummin(O)[0]
x.sort(dim=O, stable=True)[0]  x.sort(dim=O, descending=True, stable=True)[1]
x.argsort(dim=O, stable=True)  x.topk(1, O)[0]  x.topk(min(2, x.shape[O]), O, largest=False)[0]
x.msort()  x.kthvalue(1, O)[0]  T.cumulative_trapezoid(x, dim=O)  T.trapezoid(x, dim=O)
T.diff(x, dim=O)  x.flip(O).cumsum(O).flip(O)
T.searchsorted(x.detach().sort(-1)[0].contiguous(), x.detach().contiguous())
T.bucketize(x, T.tensor([-1.0, 0.0, 0.5], device=x.device).to(x.dtype))  x.sort(O)[0].cumsum(O)
x.unique()  x.flatten().histc(4, -2, 2)  T.bincount((x.abs() * 2).long().flatten())
x.sort(O).values.diff(dim=O)  x.cumsum(O) / x.abs().cumsum(O)
x.gather(O, x.argsort(dim=O, stable=True))  x.median(O)[0]  x.cumsum(O).cumsum(O)
T.isin(x, x.flatten()[:2])  x.unique_consecutive()
x.argsort(dim=O, stable=True).argsort(dim=O, stable=True)  x.softmax(O).cumsum(O)  x.cumsum(O) * x
T.gradient(x.flatten())[0]"""


@family("scans")
def scans(d: Draw) -> None:
    shape = d.shape(1, 3) if d.maybe(0.9) else d.pick((257,), (3, 130), (130, 3), (1030,))
    d.arg("x", shape, d.pick("normal", "distinct", "distinct"))
    text = d.one(SCANS).replace("O", str(dim_of(d, shape)))
    d.perhaps(0.3, "x = x * 2 - 1  x = x.mT if x.ndim > 1 else x  x = x + 0.1")
    d.line(f"y = {text}")


@family("products")
def products(d: Draw) -> None:
    m, k, n = (d.pick(1, 2, 3, 5, 8, 9, 16, 17, 33, d.pick(0, 4, 4, 64, 65)) for _ in "mkn")
    b = d.pick(1, 2, 3, 5)
    lead = d.pick((), (), (b,), (2, b), (b, 1))
    how = d.int(0, 12)
    if how <= 3:
        other = d.pick(lead, lead, (), (1,) * len(lead))
        d.arg("x", (*lead, m, k)), d.arg("y", (*other, k, n))
        if d.maybe(0.3):
            d.line("x = x * 0.5 + 0.1")
        d.line("y = x @ y" if d.maybe(0.9) else "y = T.matmul(y.mT, x.mT)")
        if d.maybe(0.3):  # an operand that no one view shows
            parts = 2 - n % 2
            u = d.arg("u", (m, parts, n // parts), view=False)
            d.line(f"y = y + {u}.mT.reshape({m}, {n})")
        d.perhaps(
            0.5,
            """y = y.relu()  y = y + x.sum()  y = y * 2 + 1  y = y.mT  y = y.softmax(-1)
            y = F.gelu(y)  y = y.sum(-1)  y = y - y.mean(-1, keepdim=True)""",
        )
    elif how == 12:  # products of one operand, which a GPU computes beside each other
        d.arg("x", (*lead, m, k))
        some = [d.arg(f"w{i}", (d.pick(n, n, 4, 6, 7, 12), k)) for i in range(d.pick(2, 2, 3, 5))]
        if d.maybe(0.3):
            d.line("x = x * 0.5 + 0.1")
        parts = [d.text(f"{{F.linear(x, {w})|F.silu(F.linear(x, {w}))|x @ {w}.mT}}") for w in some]
        d.line(d.pick(f"y = T.cat([{', '.join(parts)}], -1)",
                      f"y = {' + '.join(f'({p}).sum(-1)' for p in parts)}"))  # fmt: skip
    elif how == 4:
        if d.maybe(0.2):  # few rows, which threads share
            k, n = d.pick(130, 257, 400), d.pick(129, 260, 515)
        x, w = d.arg("x", (*lead, k)), d.arg("w", (n, k))
        bias = f", {d.arg('b', (n,))}" if d.maybe() else ""
        d.line(f"y = F.linear({x}, {w}{bias})")
        d.line(d.pick("y = y.relu()", "y = F.silu(y)", "y = y", "y = y.tanh() * y"))
    elif how == 5:
        d.arg("a", near(d, (m, n))), d.arg("x", (m, k)), d.arg("y", (k, n))
        d.line("y = T.addmm(a, x, y, beta={1|0.5|0|2}, alpha={1|0.3})")
    elif how == 6:
        d.arg("a", near(d, (b, m, n))), d.arg("x", (b, m, k)), d.arg("y", (b, k, n))
        d.line("y = {T.baddbmm(a, x, y, beta=0.5)|T.bmm(x, y) + a|"
               "T.addbmm(a[0] if a.ndim == 3 else a, x, y)}")  # fmt: skip
    elif how == 7:
        text = d.one(
            """ij,jk->ik  ij,kj->ki  bij,bjk->bik  ij,ij->i  i,j->ij  ij->j  bij,jk->bik  ii->i
            bhid,bhjd->bhij  bij,bkj->bik  ij,ij->  abc,cb->a  ab,bc,cd->ad  ij,jk->
            ...ij,jk->...ik  i,i->  abc->cab  bn,anm,bm->ba"""
        )
        sizes = {c: d.pick(1, 2, 3, 5) for c in "abcdhijkmn"}
        names = []
        for c, part in zip("xyz", text.split("->")[0].split(","), strict=False):
            part = part.replace("...", "b")
            names.append(d.arg(c, [sizes[i] for i in part]))
        d.line(f"y = T.einsum({text!r}, {', '.join(names)})")
    elif how == 8:
        d.arg("x", (k,)), d.arg("y", (k,)), d.arg("z", (n,))
        d.line("y = {T.dot(x, y)|T.outer(x, z)|x @ y|T.kron(x, z)|T.vdot(x, y)|T.inner(x, y)|"
               "T.tensordot(x, y, 1)|T.ger(x, z)}")  # fmt: skip
    elif how == 9:
        d.arg("x", (m, k)), d.arg("y", (k,)), d.arg("z", (m,))
        d.line("y = {T.mv(x, y)|x @ y|T.addmv(z, x, y, alpha=0.5)|z @ x|T.addr(x, z, y)|"
               "T.cdist(x, x[:2] + 1)|T.cdist(x, x + 1, 1.0)|x.mT @ x}")  # fmt: skip
    elif how == 10:
        d.arg("x", (b, m)), d.arg("y", (b, k)), d.arg("w", (n, m, k))
        d.line("y = F.bilinear(x, y, w)")
    else:
        d.arg("x", (b, m, k)), d.arg("y", (k, n, 2))
        d.line("y = T.tensordot(x, y, {1|([2], [0])})")


INDEXED = """
x[0]  x[-1]  x[i]  x[:, i] if x.ndim > 1 else x[i]  x[i, ..., None]  x[m]  x[x > 0]  x[..., ::2]
x[1:, ...]  x[None, i]  x[..., -1]  x.index_select(0, i)  x.take(j)  x.gather(0, g)
T.take_along_dim(x, g, 0)  x.masked_fill(m, 1.5)  T.where(m, x, v)  x[i][:, None]
x[i, i] if x.ndim > 1 else x[i]  x.masked_select(m)  x.index_add(0, i, x[i] * 2)
x.index_copy(0, u, x[u] * 2)  x.index_fill(0, i, 0.5)  x.scatter(0, g, v)
x.scatter_add(0, g, x.expand_as(g) if x.shape == g.shape else v.expand(g.shape))
x.scatter_reduce(0, g, v.expand(g.shape), '{sum|amax|amin|mean|prod}', include_self={True|False})
x.slice_scatter(x[:1] * 3, 0, 0, 1)  x.select_scatter(x[0] * 2, 0, 0)  x.put(j, v.expand(j.shape))
x.index_put((i,), x[i] * 2)  x.index_put((i,), x[i], accumulate=True)
x.masked_scatter(m, x.flatten())  T.nonzero(m)  x[m].sum()  m.nonzero(as_tuple=True)[0]
T.argwhere(x > 0)  x[i.flip(0)]  x[[0, -1]]  x[T.tensor(0, device=x.device)]  x[..., [0, 0]]
x.index_reduce(0, i, x[i], '{amax|mean|prod}')
T.take_along_dim(x, x.argsort(dim=0, stable=True), 0)
x.diagonal_scatter(x.diagonal() * 2) if x.ndim > 1 else x  x[i > 0]
x[:, None, i] if x.ndim > 1 else x
x[T.arange(x.shape[0], device=x.device), -1] if x.ndim > 1 else x"""
WRITES = """
x[0] = v  x[i] = v  x[m] = 0.5  x[..., 0] = v  x[1:] = x[1:] * 2  x[::2] += 1  x[i] += 1
x.masked_fill_(m, 2)  x.index_add_(0, i, x[i].clone())  x[0] *= 2  x[-1] = x[0]  x[..., ::2] = 0
x.fill_diagonal_(1.0) if x.ndim == 2 else x  x.add_(1)  x.mul_(v)  x[m] = x[m] * 2
x[u] = x[u].exp()  x.scatter_(0, g, 1.0)  x.index_fill_(0, i, 3)  x.clamp_(-1, 1)
x.select(0, 0).zero_()  x.zero_()  x.t_() if x.ndim == 2 else x  x.index_copy_(0, u, x[u] * 2)""".replace(
    "\n", "  "
)


@family("indexing")
def indexing(d: Draw) -> None:
    shape = d.shape(1, 3)
    n = max(shape[0], 1)
    d.arg("x", shape, d.pick("normal", "distinct"))
    d.arg("v", (), grad=d.maybe())
    d.arg("i", (d.pick(1, 2, 4, 7),), f"int:{-n if d.maybe(0.2) else 0}:{n}", view=False)
    d.arg("u", (1,), f"int:0:{n}", view=False)
    d.arg("m", shape, "bool")
    d.arg("j", (d.pick(1, 3),), f"int:0:{max(math.prod(shape), 1)}")
    d.arg("g", (d.pick(1, 2, shape[0]), *shape[1:]), f"int:0:{n}")
    if d.maybe(0.7):
        d.line(f"y = {d.one(INDEXED)}")
        d.perhaps(0.3, "y = y * 2  y = y.sum()  y = y + y.flip(0)  y = y.float().tanh()")
    else:
        d.line("x = x.clone()" if d.maybe(0.7) else "x = x * 2")
        for _ in range(d.int(1, 3)):
            d.line(d.one(WRITES))
        d.line(d.pick("y = x", "y = x * 2", "y = x.sum(0)"))


@family("joining")
def joining(d: Draw) -> None:
    shape = d.shape(1, 4)
    dim = dim_of(d, shape)
    other = list(shape)
    other[dim] = d.size()
    d.arg("x", shape), d.arg("y", tuple(other))
    how = d.int(0, 5)
    if how <= 1:
        d.line(f"y = T.cat([x, {{y|y * 2|y, x|y, y, x * 3}}], {dim})")
    elif how == 2:
        last = d.int(1, min(len(shape), 3))
        pads = [d.pick(0, 1, 2, 3, -1 if d.maybe(0.2) else 0) for _ in range(2 * last)]
        mode = d.one("""constant  constant  reflect  replicate  circular""")
        lead = "" if mode == "constant" or len(shape) > last else "[None]"
        value = ", 1.5" if mode == "constant" and d.maybe() else ""
        d.line(f"y = F.pad(x{lead}, {pads}, {mode!r}{value})")
    elif how == 3:
        some = """T.stack([x, x * 2], D)  x.roll(2, D)  x.flip(D)  x.repeat_interleave(2, D)
            T.cat(x.split(2, D)[::-1], 0)  x.unbind(D)[0]"""
        d.line(f"y = {d.one(some)}".replace("D", str(dim)))
    elif how == 4:
        d.line(f"z = T.cat([x, y], {dim})")
        split = f"z.split([{other[dim]}, {shape[dim]}], {dim})[0]"
        d.line(f"y, w = z[..., : z.shape[-1] // 2], {split}")
        d.results("y, w")
    else:
        d.line(f"a, *b = x.chunk({d.int(1, 4)}, {dim})")
        d.results("a * 2, *b")
    if d.found == "y":
        d.perhaps(0.3, "y = y * 2  y = y.sum(0)  y = y.tanh()  y = y + y.mean()")


@family("linalg")
def linalg(d: Draw) -> None:
    n, b = d.pick(1, 2, 3, 5, 8), d.pick((), (2,), (3, 1))
    d.arg("x", (*b, n, n)), d.arg("y", (*b, n, d.int(1, 3)))
    d.line(f"s = x @ x.mT + {n} * T.eye({n}, device=x.device).to(x.dtype)")
    d.line(f"a = x + {2 * n} * T.eye({n}, device=x.device).to(x.dtype)")
    d.line(
        "y = "
        + d.one(
            """T.linalg.cholesky(s)  T.linalg.solve(a, y)  T.linalg.inv(a)  T.linalg.det(a)
            T.linalg.slogdet(a)[1]  T.linalg.eigvalsh(s)  T.linalg.svdvals(a)
            T.linalg.qr(a)[1].abs()  T.cholesky_solve(y, T.linalg.cholesky(s))
            T.linalg.solve_triangular(a.tril(), y, upper=False)  T.linalg.matrix_power(x, 3)
            T.linalg.matrix_norm(x)  T.linalg.pinv(a)  T.linalg.lstsq(a, y).solution  T.logdet(s)
            T.linalg.matrix_exp(x * 0.1)  T.linalg.multi_dot([x, a, y]) if x.ndim == 2 else x @ y
            T.linalg.norm(x, 'nuc', (-2, -1))
            T.linalg.cross(x[..., :3], x[..., :3] + 1) if x.shape[-1] >= 3 else x  T.trapezoid(x)
            T.linalg.vander(x)  T.linalg.eigh(s)[0]  T.fft.rfft(x).abs()
            T.fft.irfft(T.fft.rfft(x), n=x.shape[-1])  T.fft.fft2(x).real"""
        )
    )


SMOOTH = """
x.prod(0)  x.cumprod(0)  x.logsumexp(-1)  x.softmax(-1)  x.std()  x.var(0)  x.norm(dim=-1)  x.cumsum(0)
T.linalg.vector_norm(x, {3|1|0.5|inf}, -1)  T.logcumsumexp(x, 0)  x @ x.mT  T.cdist(x, y + 4)
T.linalg.inv(A)  T.linalg.det(A)  T.linalg.solve(A, x)  T.linalg.cholesky(A)  T.logdet(A)
T.linalg.eigvalsh(A)  T.linalg.svdvals(x)  T.linalg.slogdet(A)[1]  T.fft.rfft(x).abs()  T.matrix_exp(A / 9)
F.layer_norm(x, x.shape[-1:])  F.conv1d(x[None], y[:, None, :2].expand(-1, len(x), -1))  F.gelu(x)
F.silu(x)  F.mish(x)  F.softplus(x)  F.elu(x - 1)  F.selu(x - 1)  F.celu(x - 1, 0.3)  F.logsigmoid(x)
F.hardswish(x)  F.batch_norm(x, None, None, training=True)  F.group_norm(x[None], 1)  F.normalize(x)
F.interpolate(x[None], scale_factor=2.0, mode='linear')  F.avg_pool1d(x, 2)  F.max_pool1d(x, 2)
F.cross_entropy(x, y.softmax(-1))  F.kl_div(x.log_softmax(-1), y.softmax(-1))  F.huber_loss(x, y)
F.binary_cross_entropy_with_logits(x, y.sigmoid())  F.gaussian_nll_loss(x, y, y.abs() + 1)  x.amax(0)
F.cosine_similarity(x, y)  F.poisson_nll_loss(x, y)  F.scaled_dot_product_attention(x, y, y)  x.max()
x.sort(-1)[0]  x.median()  x.topk(1)[0]  x.cummax(0)[0]  x[0] * x  x.flip(0) * x  x.gather(0, x.argsort(0))
T.where(x > 1, x * y, y.exp())  x.index_add(0, T.arange(1, device=x.device), y[:1] * x[:1])
T.einsum('ij,kj->ik', x, y)  T.outer(x[0], y[0])  x.tril() @ y.mT  T.trapezoid(x * y)  x.diff() ** 3
F.grid_sample(x[None, None], (y - 1)[None, None, :, :2] * 0.3, align_corners=False)
F.prelu(x - 1, y[0, :1])  F.unfold(x[None, None], 2)  F.pad(x, (1, 1), 'reflect') ** 2  T.special.{erfcx|i0e|i1}(x)
T.{sinc|lgamma|digamma|erf|erfinv|tan|atanh|log1p|rsqrt|expm1|sinh|asinh}(x / 4)  x ** y  T.atan2(x, y)
T.hypot(x, y)  T.logaddexp(x, y)  x / y  T.xlogy(x, y)  T.lerp(x, y, x)  T.addcdiv(x, y, x)  T.fmod(x, y)
T.maximum(x, y) ** 2  T.nn.utils.parameters_to_vector([x, y]) ** 2  T.complex(x, y).abs()  x.renorm(2, 0, 1.0)"""
OUTER = """
functional.jvp(f, (x, y), (y, x))  functional.vjp(f, (x, y), f(x, y).detach().cos())
functional.hvp(s, (x, y), (y, x))  functional.vhp(s, (x, y), (y, x))  functional.hessian(s, (x, y))
functional.jacobian(f, (x, y))  func.jvp(f, (x, y), (y, x))  func.jacrev(f, (0, 1))(x, y)
func.jacfwd(f)(x, y)  func.hessian(s)(x, y)  func.grad(s, (0, 1))(x, y)  func.vmap(f)(B, B * 2)
func.grad(lambda x, y: s(func.grad(s)(x, y), y))(x, y)  func.vmap(func.grad(s))(B, B * 0.5 + 1)"""


@family("derivatives")
def derivatives(d: Draw) -> Living:
    """Gradients of gradients, products with them, and their matrices."""
    d.mode, d.calls = "none", 2
    d.real = "float64" if d.maybe(0.8) else "float32"
    shape = d.pick(2, 3), d.pick(2, 3, 4)
    d.arg("x", shape, "positive"), d.arg("y", shape, "positive")
    text = d.text(d.one(SMOOTH)).replace("inf", "float('inf')")
    text = text.replace("A", "(x @ x.mT + 3 * T.eye(len(x), dtype=x.dtype, device=x.device))")
    d.line(f"f = lambda x, y: {text}")
    d.line("s = lambda x, y: (lambda v: (v * v * 0.3 + v.sin()).sum())(f(x, y))")
    if d.maybe(0.4):
        outer = d.one(OUTER).replace("B", "T.stack([x, y])")
        outer = outer.replace("func.", "T.func.").replace("functional.", "T.autograd.functional.")
        d.line(f"y = {outer}")
        d.results("y")
        return Living(d.program())
    d.line("rest = (x * y).square().sum() * 0")
    d.line("g = T.autograd.grad(s(x, y) + rest, [x, y], create_graph=True)")
    for _ in range(d.pick(1, 1, 2)):
        d.line("g = T.autograd.grad(sum((v * v.detach().cos()).sum() for v in g) + rest, [x, y], "
               "create_graph=True)")  # fmt: skip
    d.results("*[v.detach() for v in g]")
    return Living(d.program())


STREAMS = """
y.append(draw(g))  y.append(draw(g))  y.append(draw(None))  y.append(draw(None))  y.append(draw(h[0]))
g.manual_seed({0|1|2})  T.manual_seed({0|1|2})  h[0].manual_seed({0|1})  h[0] = g.clone_state()
k[{0|1}] = g.get_state()  g.set_state(k[{0|1}])  k[{0|1}] = h[0].get_state()  h[0].set_state(k[{0|1}])
m[{0|1}] = T.get_rng_state()  T.set_rng_state(m[{0|1}])  y.append(draw(g.clone_state()))
with T.random.fork_rng(devices=[]): y.append(draw(None))
with T.random.fork_rng(devices=[]): T.manual_seed({1|2}); y.append(draw(None))
with T.random.fork_rng(devices=[]): g.set_state(k[0]); y.append(draw(g)); y.append(draw(None))"""
DRAWS = ["T.rand(3, **o(g))", "T.randn(2, **o(g)) * 2", "T.randint(999, (3,), **o(g)).float()",
         "T.randperm(40, **o(g)).float()", "T.empty(3, device=device).uniform_(generator=g)",
         "T.bernoulli(T.full((40,), 0.5, device=device), generator=g)"]  # fmt: skip


@family("generators")
def generators(d: Draw) -> Living:
    """Draws between seeds, states and forks: which draw of which seed each of them is. A draw is
    of several kinds, as these share a stream in PyTorch alone."""
    d.mode, d.calls = "none", d.pick(2, 4)
    kinds = d.rng.sample(DRAWS, d.pick(1, 2, 3))
    d.setup += [
        "o = lambda g: dict(device=device, generator=g)",
        f"draw = lambda g: T.cat([{', '.join(kinds)}])", "g = T.Generator(device=device)",
        "T.manual_seed(0); all = []",
        "for seed in (0, 1, 2):", "    g.manual_seed(seed)",
        "    all.append(T.stack([draw(g) for _ in range(40)]))",
        "table = T.cat(all); g.manual_seed(1); h = [g.clone_state()]",
        "k = [g.get_state()] * 2; m = [T.get_rng_state()] * 2",
    ]  # fmt: skip
    d.line("y = []")
    plain = d.maybe(0.3)  # nothing that ends a capture
    for _ in range(d.int(2, 9)):
        d.line(d.pick("y.append(draw(g))", "with T.random.fork_rng(devices=[]): "
                      "y.append(draw(None))") if plain else d.one(STREAMS))  # fmt: skip
    d.results("*[(table == v).all(-1) for v in y]")
    return Living(d.program())
