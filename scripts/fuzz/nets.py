"""Known nets, small, of T = torch or pyframe: `NETS` has each with its arguments and its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Net(NamedTuple):
    """What makes a net, the text of its arguments, and the shape and kind of its input."""

    make: Callable[..., Any]
    drawn: Callable[[Any], tuple[str, tuple[int, ...], str]]


NETS: dict[str, Net] = {}


def net(drawn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Declare a net: `drawn(d)` gives its arguments, and the input's shape and maybe its kind."""

    def declared(make: Any) -> Any:
        NETS[make.__name__] = Net(make, lambda d: (*drawn(d), "normal")[:3])
        return make

    return declared


def image(d: Any, channels: int = 3, least: int = 9, most: int = 19) -> tuple[int, ...]:
    """The shape of odd images."""
    return d.int(1, 3), channels, d.int(least, most), d.int(least, most)


def module(T: Any, parts: dict[str, Any], forward: Callable[..., Any]) -> Any:
    """A module with children whose forward pass is forward(self, x)."""

    class Made(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, x: Any) -> Any:
            return forward(self, x)

    return Made()


def added(T: Any, inner: Any, short: Any = None) -> Any:
    """x + inner(x), or short(x) + inner(x)."""
    parts = {"inner": inner} | ({} if short is None else {"short": short})
    return module(T, parts, lambda s, x: (x if short is None else s.short(x)) + s.inner(x))


def conv(T: Any, i: int, o: int, k: int = 3, s: int = 1, groups: int = 1, act: str = "ReLU") -> Any:
    """A convolution, a norm and an activation."""
    n = T.nn
    made = n.Conv2d(i, o, k, s, k // 2, groups=groups, bias=False)
    return n.Sequential(made, n.BatchNorm2d(o), *([getattr(n, act)()] if act else []))


def head(T: Any, width: int, classes: int = 5) -> Any:
    """What classifies images."""
    n = T.nn
    return n.Sequential(n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(width, classes))


@net(lambda d: (f"{d.pick(3, 4)}, {d.pick(1, 2)}", image(d)))
def mobilenet(T: Any, width: int, stride: int) -> Any:
    """Inverted residuals: depthwise with stride, then pointwise."""
    n, w = T.nn, width
    block = n.Sequential(conv(T, w, 3 * w, 1, act="ReLU6"), conv(T, 3 * w, 3 * w, 3, 1, 3 * w),
                         conv(T, 3 * w, w, 1, act=""))  # fmt: skip
    first = conv(T, 3, w, 3, 2, act="Hardswish")
    down = n.Sequential(conv(T, w, w, 3, stride, w), conv(T, w, w, 1))
    return n.Sequential(first, added(T, block), down, head(T, w))


@net(lambda d: (f"{d.pick(4, 6)}, {d.pick(3, 5)}", image(d)))
def efficientnet(T: Any, width: int, k: int) -> Any:
    """MBConv blocks with squeeze and excitation."""
    n, w = T.nn, width
    gate = n.Sequential(n.AdaptiveAvgPool2d(1), n.Conv2d(w, 2, 1), n.SiLU(), n.Conv2d(2, w, 1),
                        n.Sigmoid())  # fmt: skip
    squeezed = module(T, {"gate": gate}, lambda s, x: x * s.gate(x))
    block = n.Sequential(conv(T, w, w, k, 1, w, "SiLU"), squeezed, conv(T, w, w, 1, act=""))
    down = conv(T, w, w, k, 2, w, "SiLU")
    return n.Sequential(conv(T, 3, w, 3, 2, act="SiLU"), added(T, block), down, head(T, w))


@net(lambda d: (f"{d.pick(3, 5)}", image(d)))
def resnet(T: Any, width: int) -> Any:
    """A stem with a pool, a plain block, and one that halves."""
    n, w = T.nn, width
    plain = n.Sequential(conv(T, w, w), conv(T, w, w, act=""))
    half = n.Sequential(conv(T, w, 2 * w, 3, 2), conv(T, 2 * w, 2 * w, act=""))
    stem = n.Sequential(conv(T, 3, w, 7, 2), n.MaxPool2d(3, 2, 1))
    short = conv(T, w, 2 * w, 1, 2, act="")
    return n.Sequential(stem, added(T, plain), n.ReLU(), added(T, half, short), n.ReLU(),
                        head(T, 2 * w))  # fmt: skip


@net(lambda d: (f"{d.pick(2, 3)}, {d.pick(2, 3)}", image(d)))
def densenet(T: Any, growth: int, layers: int) -> Any:
    """Each layer sees all before it."""
    n = T.nn
    parts = {f"part{k}": conv(T, 3 + k * growth, growth) for k in range(layers)}

    def forward(s: Any, x: Any) -> Any:
        found = [x]
        for k in range(layers):
            found.append(getattr(s, f"part{k}")(T.cat(found, 1)))
        return T.cat(found, 1)

    width = 3 + layers * growth
    return n.Sequential(
        module(T, parts, forward), n.Conv2d(width, 4, 1), n.AvgPool2d(2), head(T, 4)
    )


@net(lambda d: (f"{d.pick(2, 3)}", (d.int(1, 2), 1, 4 * d.int(2, 4), 4 * d.int(2, 3))))
def unet(T: Any, width: int) -> Any:
    """Down by pools, up by transposed convolutions, joined."""
    n, w = T.nn, width
    parts = {"a": conv(T, 1, w), "b": conv(T, w, 2 * w), "c": conv(T, 2 * w, 2 * w),
             "up": n.ConvTranspose2d(2 * w, w, 2, 2), "up2": n.ConvTranspose2d(3 * w, w, 3, 2, 1, 1),
             "last": n.Conv2d(2 * w, 1, 1)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        a = s.a(x)
        b = s.b(T.nn.functional.max_pool2d(a, 2))
        c = s.up(s.c(T.nn.functional.max_pool2d(b, 2)))
        return s.last(T.cat([a, s.up2(T.cat([b, c], 1))], 1))

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick(2, 4)}", image(d, 3, 16, 21)))
def patchgan(T: Any, width: int) -> Any:
    """A discriminator of patches."""
    n, w = T.nn, width
    return n.Sequential(n.Conv2d(3, w, 4, 2, 1), n.LeakyReLU(0.2), n.Conv2d(w, 2 * w, 4, 2, 1),
                        n.InstanceNorm2d(2 * w), n.LeakyReLU(0.2), n.Conv2d(2 * w, 1, 4, 1, 1))  # fmt: skip


@net(lambda d: (f"{d.pick(3, 5)}, {d.pick(2, 3)}", (d.int(1, 3), 5, 1, 1)))
def dcgan(T: Any, width: int, colours: int) -> Any:
    """A generator of transposed convolutions."""
    n, w = T.nn, width
    return n.Sequential(n.ConvTranspose2d(5, 2 * w, 3, 1, 0, bias=False), n.BatchNorm2d(2 * w),
                        n.ReLU(), n.ConvTranspose2d(2 * w, w, 4, 2, 1, bias=False),
                        n.BatchNorm2d(w), n.ReLU(), n.ConvTranspose2d(w, colours, 4, 2, 1), n.Tanh())  # fmt: skip


@net(lambda d: (f"{d.pick(4, 6)}", image(d)))
def convnext(T: Any, width: int) -> Any:
    """Depthwise 7x7, a norm over channels, an inverted bottleneck."""
    n, w = T.nn, width
    parts = {"conv": n.Conv2d(w, w, 7, padding=3, groups=w), "norm": n.LayerNorm(w),
             "up": n.Linear(w, 4 * w), "down": n.Linear(4 * w, w)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        y = s.norm(s.conv(x).permute(0, 2, 3, 1))
        return s.down(T.nn.functional.gelu(s.up(y))).permute(0, 3, 1, 2)

    return n.Sequential(n.Conv2d(3, w, 4, 4), added(T, module(T, parts, forward)),
                        n.GroupNorm(1, w), n.Conv2d(w, w, 2, 2, 1), head(T, w))  # fmt: skip


def block(T: Any, width: int, heads: int, causal: bool = False) -> Any:
    """A layer of a transformer."""
    n, f = T.nn, T.nn.functional
    parts = {"a": n.LayerNorm(width), "qkv": n.Linear(width, 3 * width), "out": n.Linear(width, width),
             "b": n.LayerNorm(width), "up": n.Linear(width, 2 * width), "down": n.Linear(2 * width, width)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        q, k, v = s.qkv(s.a(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + s.out(y.transpose(1, 2).flatten(2))
        return x + s.down(f.gelu(s.up(s.b(x))))

    return module(T, parts, forward)


@net(lambda d: (f"{4 * d.pick(1, 2)}, {d.pick(1, 2)}", image(d, 3, 8, 13)))
def vit(T: Any, width: int, heads: int) -> Any:
    """Patches, a class token, transformer layers."""
    n = T.nn
    parts = {"patch": n.Conv2d(3, width, 4, 4), "body": block(T, width, heads), "last": n.Linear(width, 5),
             "token": n.Embedding(1, width)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        y = s.patch(x).flatten(2).transpose(1, 2)
        token = s.token.weight[None].expand(len(x), -1, -1)
        return s.last(s.body(T.cat([token, y], 1))[:, 0])

    return module(T, parts, forward)


@net(lambda d: (f"{4 * d.pick(1, 2)}, {d.pick(1, 2)}", (d.int(1, 3), d.int(1, 9)), "int:0:11"))
def gpt(T: Any, width: int, heads: int) -> Any:
    """Tokens and places, causal layers, the embedding as the last layer."""
    n = T.nn
    parts = {"token": n.Embedding(11, width), "place": n.Embedding(9, width),
             "body": n.Sequential(*[block(T, width, heads, True) for _ in "ab"]), "norm": n.LayerNorm(width)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        y = s.token(x) + s.place(T.arange(x.shape[1], device=x.device))
        return s.norm(s.body(y)) @ s.token.weight.T

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick('LSTM', 'GRU', 'RNN')!r}, {d.pick(3, 5)}, {d.pick(1, 2)}, {d.maybe()}",
                (d.int(1, 3), d.int(1, 7)), "int:0:9"))  # fmt: skip
def tagger(T: Any, kind: str, width: int, layers: int, both: bool) -> Any:
    """An embedding, a recurrent net, and a class for each token."""
    n = T.nn
    parts = {"token": n.Embedding(9, 4, padding_idx=0),
             "body": getattr(n, kind)(4, width, layers, batch_first=True, bidirectional=both),
             "last": n.Linear(width * (1 + both), 3)}  # fmt: skip
    return module(T, parts, lambda s, x: s.last(s.body(s.token(x))[0]))


@net(lambda d: (f"{d.pick(2, 4)}, {d.pick(2, 3)}", (d.int(1, 2), 1, d.int(9, 20))))
def wavenet(T: Any, width: int, layers: int) -> Any:
    """Gated causal convolutions whose dilation doubles."""
    n, w = T.nn, width
    parts = {f"part{k}": n.Conv1d(w, 2 * w, 2, dilation=2**k) for k in range(layers)}
    parts |= {"first": n.Conv1d(1, w, 1), "last": n.Conv1d(w, 1, 1)}

    def forward(s: Any, x: Any) -> Any:
        x = total = s.first(x)
        for k in range(layers):
            a, b = getattr(s, f"part{k}")(T.nn.functional.pad(x, (2**k, 0))).chunk(2, 1)
            y = T.tanh(a) * T.sigmoid(b)
            x, total = x + y, total + y
        return s.last(T.relu(total))

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick(5, 9)}, {d.pick(2, 3)}", (d.int(1, 5), 13)))
def vae(T: Any, width: int, latent: int) -> Any:
    """Mean and variance, and back, with noise that is told."""
    n = T.nn
    parts = {
        "up": n.Linear(13, width),
        "both": n.Linear(width, 2 * latent),
        "down": n.Linear(latent, 13),
    }

    def forward(s: Any, x: Any) -> Any:
        mean, log = s.both(T.tanh(s.up(x))).chunk(2, -1)
        z = mean + (0.5 * log).exp() * x[:, :latent]
        kl = -0.5 * (1 + log - mean**2 - log.exp()).sum(-1, keepdim=True)
        return T.sigmoid(s.down(z)) + kl

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick(4, 7)}", image(d, 3, 12, 12)))
def mixer(T: Any, width: int) -> Any:
    """MLPs over patches, then over channels."""
    n = T.nn
    across = n.Sequential(n.Linear(9, 5), n.GELU(), n.Linear(5, 9))
    parts = {"patch": n.Conv2d(3, width, 4, 4), "norm": n.LayerNorm(width), "across": across,
             "channels": added(T, n.Sequential(n.LayerNorm(width), n.Linear(width, width), n.GELU()))}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        x = s.patch(x).flatten(2).mT
        x = x + s.across(s.norm(x).mT).mT
        return s.channels(x).mean(1)

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick(2, 3)}", image(d)))
def inception(T: Any, width: int) -> Any:
    """Branches of several kernels, joined."""
    n, w = T.nn, width
    parts = {"a": conv(T, 3, w, 1), "b": n.Sequential(conv(T, 3, w, 1), conv(T, w, w, 5)),
             "c": n.Sequential(n.MaxPool2d(3, 1, 1), conv(T, 3, w, 1)), "d": n.AvgPool2d(3, 1, 1)}  # fmt: skip
    joined = module(T, parts, lambda s, x: T.cat([s.a(x), s.b(x), s.c(x), s.d(x)], 1))
    return n.Sequential(joined, n.LocalResponseNorm(3), head(T, 3 * w + 3))


@net(lambda d: (f"{2 * d.pick(2, 3)}", image(d)))
def shufflenet(T: Any, width: int) -> Any:
    """Halves: one through depthwise convolutions, and channels shuffled."""
    n, h = T.nn, width // 2
    side = n.Sequential(conv(T, h, h, 1), conv(T, h, h, 3, 1, h, act=""), conv(T, h, h, 1))

    def forward(s: Any, x: Any) -> Any:
        a, b = x.chunk(2, 1)
        y = T.cat([a, s.side(b)], 1)
        return y.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)

    down = n.Sequential(conv(T, width, width, 3, 2, width, act=""), conv(T, width, width, 1))
    return n.Sequential(
        conv(T, 3, width, 3, 2), module(T, {"side": side}, forward), down, head(T, width)
    )


@net(lambda d: (f"{d.pick(3, 4)}", (d.int(1, 3), 2, d.int(9, 15))))
def tcn(T: Any, width: int) -> Any:
    """Residual causal convolutions with weight norm and dropout of nothing."""
    n = T.nn
    norm = n.utils.parametrizations.weight_norm
    inner = n.Sequential(n.ConstantPad1d((4, 0), 0.0), norm(n.Conv1d(2, width, 3, dilation=2)),
                         n.ReLU(), n.Dropout(0.0))  # fmt: skip
    return n.Sequential(
        added(T, inner, n.Conv1d(2, width, 1)), n.PReLU(width), n.Conv1d(width, 1, 1)
    )


@net(lambda d: (f"{d.pick(3, 4)}, {d.int(1, 4)}", (d.int(1, 3), d.int(2, 6)), "int:0:7"))
def seq2seq(T: Any, width: int, steps: int) -> Any:
    """A GRU reads; a cell writes, attending to what was read."""
    n, f = T.nn, T.nn.functional
    parts = {"token": n.Embedding(7, width), "reader": n.GRU(width, width, batch_first=True),
             "cell": n.GRUCell(width, width), "last": n.Linear(2 * width, 7)}  # fmt: skip

    def forward(s: Any, x: Any) -> Any:
        kept, h = s.reader(s.token(x))
        h, y, out = h[0], s.token(x[:, -1]), []
        for _ in range(steps):
            h = s.cell(y, h)
            weight = f.softmax((kept @ h[:, :, None]).squeeze(-1), -1)
            y = (weight[:, None] @ kept)[:, 0]
            out.append(s.last(T.cat([h, y], -1)))
        return T.stack(out, 1)

    return module(T, parts, forward)


@net(lambda d: (f"{d.pick(4, 6)}", (d.int(2, 3), 3, d.int(3, 11))))
def pointnet(T: Any, width: int) -> Any:
    """The same for each point, then the largest of all."""
    n = T.nn
    each = n.Sequential(
        n.Conv1d(3, width, 1), n.BatchNorm1d(width), n.ReLU(), n.Conv1d(width, width, 1)
    )
    return module(T, {"each": each, "last": n.Linear(width, 4)},
                  lambda s, x: s.last(s.each(x - x.mean(-1, keepdim=True)).amax(-1)))  # fmt: skip


@net(lambda d: (f"{d.pick(3, 4)}, {d.pick(2, 3)}", image(d, 1, 5, 9)))
def superresolution(T: Any, width: int, scale: int) -> Any:
    """PixelShuffle beside bicubic."""
    n = T.nn
    body = n.Sequential(n.Conv2d(1, width, 5, padding=2), n.Tanh(),
                        n.Conv2d(width, scale * scale, 3, padding=1), n.PixelShuffle(scale))  # fmt: skip
    return added(T, body, n.Upsample(scale_factor=scale, mode="bicubic", align_corners=False))
