"""Convolutions, pools and what resamples images."""

from __future__ import annotations

from typing import Any

from .families import Draw, family

HEADS = "x = x * 0.5 + 1  x = x.tanh()  x = x.flip(-1)  x = F.relu(x)  x = x - x.mean()"
TAILS = """y = F.relu(y)  y = y * y  y = y.sum(-1)  y = y.mean(1, keepdim=True) - y  z = y.exp()
y = y.flatten(1)  y = y.movedim(1, -1)  y = y + y.detach()"""


def per_dim(d: Draw, n: int, *some: int) -> Any:
    """One of some for all dims, or for each its own."""
    return d.pick(*some) if d.maybe(0.6) else tuple(d.pick(*some) for _ in range(n))


def around(d: Draw, share: float = 0.3) -> None:
    """Now and then a line before and after, which fuse with the op."""
    if d.maybe(share):
        d.body.insert(0, d.one(HEADS))
    if d.maybe(share / 2):  # an operand that no one view shows
        u = d.arg("u", (30_000,), view=False)
        d.line("k = 2 - y.shape[-1] % 2")
        d.line(f"v = {u}[: y.numel()].reshape(*y.shape[:-1], k, y.shape[-1] // k)")
        d.line("y = y + v.mT.reshape(y.shape)")
    if d.maybe(share):
        d.line(d.one(TAILS))
        d.results("y, z" if d.body[-1].startswith("z") else "y")


@family("convolutions")
def convolutions(d: Draw) -> None:
    n, turned = d.pick(1, 2, 2, 2, 3), d.maybe(0.35)
    groups = d.pick(1, 1, 1, 2, 3, 4)
    inner, outer = (groups * d.pick(1, 1, 2, 3) for _ in "io")
    kernel = [d.pick(1, 2, 3, 3, 4, 5, 7) if n < 3 else d.pick(1, 2, 3) for _ in range(n)]
    if d.maybe(0.5):
        kernel = kernel[:1] * n
    sizes = [d.int(max(k - 1, 1), k + (12 if n < 3 else 4)) for k in kernel]
    stride, dilation = per_dim(d, n, 1, 1, 2, 2, 3, 4), per_dim(d, n, 1, 1, 1, 2, 3)
    padding: Any = per_dim(d, n, 0, 0, 1, 2, 3)
    batch = () if d.maybe(0.08) else (d.pick(0, 1, 1, 2, 2, 3, 5) if d.maybe(0.3) else 2,)
    x = d.arg("x", (*batch, inner, *sizes))
    weight = (inner, outer // groups) if turned else (outer, inner // groups)
    w = d.arg("w", (*weight, *kernel))
    b = d.arg("b", (outer,)) if d.maybe(0.4) else None
    more = f", bias={b}" if b else ""
    more += f", stride={stride}" if stride != 1 else ""
    more += f", padding={padding}" if padding != 0 else ""
    more += f", dilation={dilation}" if dilation != 1 else ""
    more += f", groups={groups}" if groups > 1 else ""
    if turned and d.maybe(0.4):
        more += f", output_padding={per_dim(d, n, 0, 1, 2)}"
    if not turned and d.maybe(0.1):
        more = more.replace(f", padding={padding}", "") + ", padding='same'"
    d.line(f"y = F.conv{'_transpose' if turned else ''}{n}d({x}, {w}{more})")
    around(d)


@family("pools")
def pools(d: Draw) -> None:
    n = d.pick(1, 2, 2, 3)
    kernel = [d.pick(1, 2, 2, 3, 4, 5) for _ in range(n)]
    sizes = [d.int(max(k - 1, 1), k + (10 if n < 3 else 4)) for k in kernel]
    batch = () if d.maybe(0.1) else (d.pick(1, 2, 3),)
    channels = d.pick(1, 2, 3, 5)
    x = d.arg("x", (*batch, channels, *sizes), d.pick("normal", "normal", "ties", "distinct"))
    k: Any = kernel[0] if d.maybe(0.4) else tuple(kernel)
    more = f", stride={per_dim(d, n, 1, 2, 2, 3, 4)}" if d.maybe(0.6) else ""
    padding = f", padding={per_dim(d, n, 0, 1, 1, 2)}" if d.maybe(0.4) else ""
    ceil = ", ceil_mode=True" if d.maybe(0.3) else ""
    how = d.one("""max  max  avg  avg  lp  adaptive_avg  adaptive_max  unpool  fractional""")
    if how == "max":
        # of a window that lies beside the input PyTorch writes outside of its memory
        dilated = (min(sizes) > 5 or not padding) and d.maybe(0.4)
        dilation = f", dilation={per_dim(d, n, 1, 2, 3)}" if dilated else ""
        if d.maybe(0.25):
            more += f"{padding}{dilation}{ceil}, return_indices=True"
            d.line(f"y, at = F.max_pool{n}d({x}, {k}{more})")
            d.results("y, at")
            return
        d.line(f"y = F.max_pool{n}d({x}, {k}{more}{padding}{dilation}{ceil})")
    elif how == "avg":
        without = ", count_include_pad=False" if d.maybe(0.4) else ""
        divisor = f", divisor_override={d.int(1, 5)}" if n > 1 and d.maybe(0.2) else ""
        d.line(f"y = F.avg_pool{n}d({x}, {k}{more}{padding}{ceil}{without}{divisor})")
    elif how == "lp" and n > 1:
        d.line(f"y = F.lp_pool{n}d({x}.abs() + 0.1, {d.pick(1, 2, 3, 2.5)}, {k}{more}{ceil})")
    elif how.startswith("adaptive"):
        out: Any = d.pick(1, 2, 3, 5)
        if d.maybe(0.4):
            out = tuple(d.pick(1, 2, 3, 4, *([None] if n > 1 else [])) for _ in range(n))
        if how == "adaptive_max" and d.maybe(0.4):
            d.line(f"y, at = F.adaptive_max_pool{n}d({x}, {out}, return_indices=True)")
            d.results("y, at")
            return
        d.line(f"y = F.{how}_pool{n}d({x}, {out})")
    elif how == "unpool":
        k = d.pick(1, 2, 3)
        d.line(f"y, at = F.max_pool{n}d({x}, {k}, return_indices=True)")
        d.line(f"z = F.max_unpool{n}d(y * 2, at, {k}{{|, output_size={tuple(sizes)}}})")
        d.results("y, z")
        return
    else:
        d.line(f"y = F.max_pool{n}d(F.pad({x}, (1, 1) * {n}, value=-1.5), {k}{more}{ceil})")
    around(d)


@family("resampling")
def resampling(d: Draw) -> None:
    n = d.pick(1, 2, 2, 3)
    sizes = [d.pick(1, 2, 3, 4, 5, 7, 9) for _ in range(n)]
    batch, channels = d.pick(1, 2, 3), d.pick(1, 2, 4)
    how = d.int(0, 6)
    if how <= 2:
        x = d.arg("x", (batch, channels, *sizes))
        smooth = {1: ["linear"], 2: ["bilinear"], 3: ["trilinear"]}[n]
        modes = ["nearest", "nearest-exact", *smooth, "area"]
        mode = d.pick(*modes, *(["bicubic", "bilinear"] if n == 2 else []))
        corners = d.pick("", ", align_corners=True", ", align_corners=False")
        corners = "" if mode in ("nearest", "nearest-exact", "area") and d.maybe(0.97) else corners
        if mode in ("bilinear", "bicubic") and d.maybe(0.3):
            corners += ", antialias=True"
        if d.maybe(0.5):
            to = f"size={per_dim(d, n, 1, 2, 3, 4, 6, 9)}"
        else:
            scale: Any = d.pick(0.5, 1.5, 2, 2.0, 3, 0.4, 1.0, 2.7)
            scale = scale if d.maybe(0.6) else tuple(d.pick(0.6, 1.5, 2.0) for _ in sizes)
            to = f"scale_factor={scale}"
            to += d.pick("", "", ", recompute_scale_factor=True")
        d.line(f"y = F.interpolate({x}, {to}, mode={mode!r}{corners})")
    elif how <= 4:
        n = d.pick(2, 2, 3)
        sizes = [d.pick(1, 2, 3, 5, 6) for _ in range(n)]
        x = d.arg("x", (batch, channels, *sizes))
        out = [d.pick(1, 2, 4, 5) for _ in range(n)]
        mode = d.pick("bilinear", "bilinear", "nearest", *(["bicubic"] if n == 2 else []))
        more = f"mode={mode!r}, padding_mode={d.pick('zeros', 'border', 'reflection')!r}"
        more += f", align_corners={d.maybe()}"
        if d.maybe(0.3):
            size, theta = (batch, channels, *out), d.arg("theta", (batch, n, n + 1))
            d.line(f"grid = F.affine_grid({theta}, {size}, align_corners={d.maybe()})")
        else:
            d.arg("grid", (batch, *out, n))
        d.line(f"y = F.grid_sample({x}, grid, {more})")
    elif how == 5:
        r = d.pick(1, 2, 3)
        if d.maybe():
            x = d.arg("x", (batch, channels * r * r, d.int(1, 4), d.int(1, 4)))
            d.line(f"y = F.pixel_shuffle({x}, {r})")
        else:
            x = d.arg("x", (batch, channels, r * d.int(1, 4), r * d.int(1, 4)))
            d.line(f"y = F.pixel_unshuffle({x}, {r})")
        if d.maybe(0.3):
            d.line(f"y = F.channel_shuffle(y, {d.pick(1, 1, r, channels)})")
    else:
        k, s, p, q = (per_dim(d, 2, *some) for some in ((1, 2, 3), (1, 2, 3), (0, 1), (1, 2)))
        x = d.arg("x", (batch, channels, d.int(4, 9), d.int(4, 9)))
        d.line(f"y = F.unfold({x}, {k}, stride={s}, padding={p}, dilation={q})")
        if d.maybe(0.6):
            how = f"{k}, stride={s}, padding={p}, dilation={q}"
            d.line(f"y = F.fold(y * 1.5, tuple(x.shape[2:]), {how})")
    around(d)
