"""Layers with quantized weights: what they compute, eagerly and compiled, is what PyTorch's layers
of float64 compute with the weights that they unpack. Where activations are rounded, NumPy has
rounded those of the reference."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import pyframe as pf
from pyframe.nn.quantized import _compiled

from .backends import Backend, compiling
from .check import FailureError
from .families import Draw, family

OFF = {"float64": 1e-6, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest number
PLAIN: dict[str, Any] = {
    "rows": (2,), "dtype": "float32", "mode": "int8", "group": 32, "symmetric": True,
    "activations": None, "layout": "", "grad": False, "train": False, "twice": False,
    "autocast": False,
}  # fmt: skip


@dataclass(frozen=True)
class Quantized:
    """A layer by its name and arguments, and how it is quantized and called."""

    layer: str  # "Tied": an Embedding and a Linear of one weight
    args: tuple[tuple[str, Any], ...]
    how: tuple[tuple[str, Any], ...]

    def made(self, T: Any) -> Any:
        """The layer of pyframe or of PyTorch."""
        kwargs = dict(self.args)
        if self.layer != "Tied":
            return getattr(T.nn, self.layer)(**kwargs)
        n, k = kwargs["num_embeddings"], kwargs["embedding_dim"]
        both = T.nn.Sequential(T.nn.Embedding(n, k), T.nn.Linear(k, n))
        both[1].weight = both[0].weight
        return both

    def input(self, how: dict[str, Any]) -> np.ndarray:
        """What it is called with."""
        rng, kwargs, shape = np.random.default_rng(3), dict(self.args), how["rows"]
        if "num_embeddings" in kwargs:
            return rng.integers(0, kwargs["num_embeddings"], shape)
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3)
        return np.array(x.astype(np.float32))

    def check(self, backend: Backend) -> bool:
        """Compare the results, and the gradient of the input."""
        how, device = dict(self.how), "gpu" if backend.device == "gpu" else "cpu"
        if device == "gpu" and how["dtype"] == "float64":
            how["dtype"] = "float32"
        _compiled.cache_clear()  # another compiler made them
        try:
            with compiling(backend.generator), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.compared(how, device, backend.wrap is pf.compile)
        finally:
            _compiled.cache_clear()

    def compared(self, how: dict[str, Any], device: str, compiles: bool) -> bool:
        """The same on a device."""
        pf.manual_seed(0)
        dtype = getattr(pf, how["dtype"])
        layer, reference = self.made(pf), self.made(torch).double().train(how["train"])
        layer = layer.to(dtype).to(device).train(how["train"])
        before = [m.weight.detach().cpu().double().numpy() for m in leaves(layer)]
        try:
            pf.quantize_(
                layer, how["mode"], how["group"], how["symmetric"], activations=how["activations"]
            )
        except ValueError:
            if dict(self.args).get("max_norm") is None:
                raise
            return False
        if how["twice"]:
            again = pf.nn.Sequential(layer, pf.nn.Linear(3, 3))
            pf.quantize_(again, "int4", activations="int8")
        for one, other, old in zip(leaves(layer), leaves(reference), before, strict=True):
            weight = one.weight.detach().cpu().double().numpy()
            near(weight, halfway(one, weight, old), 0, "a weight that is more than half a step off")
            with torch.no_grad():
                other.weight.copy_(torch.tensor(weight))
                if getattr(one, "bias", None) is not None:
                    other.bias.copy_(torch.tensor(one.bias.detach().cpu().double().numpy()))
        x, ints = self.input(how), "num_embeddings" in dict(self.args)
        given = pf.tensor(x).to(device) if ints else laid(pf.tensor(x).to(dtype), how["layout"])
        given = given.to(device)
        wide = torch.tensor(given.cpu().numpy() if ints else given.cpu().double().numpy())
        grad = how["grad"] and not ints
        off = OFF["bfloat16" if how["autocast"] else how["dtype"]]
        # terms that cancel leave their own roundings
        terms = 1.0 if ints else float(wide.abs().amax()) if wide.numel() else 0.0
        more = off / 50 * terms * max(float(np.abs(w).max(initial=0)) for w in before)
        if grad:
            wide.requires_grad_()
            given.requires_grad_()
        rows = wide.numel() if ints else math.prod(wide.shape[:-1])
        rounds = how["activations"] and not how["autocast"] and not grad and rows > 1
        if rounds and self.layer in ("Linear", "Tied"):
            tied = self.layer == "Tied"
            h = (layer[0](given) if tied else given).detach()
            step = h.abs().amax(-1, keepdim=True) / 127
            q = (h / step.where(step > 0, 1.0)).round().cpu().double().numpy()
            steps = step.cpu().double().numpy()
            reference = reference[1] if tied else reference
            wide = torch.tensor(q * steps)
            # another way to round
            more += float(steps.max(initial=0)) * float(reference.weight.abs().max())
        want = reference(wide)

        def call(x: Any) -> Any:
            with pf.autocast(device, enabled=how["autocast"]):
                return layer(x)

        step_of = pf.compile(call) if compiles else call
        for fn in (call, step_of, step_of):
            got = fn(given)
            found = got.detach().cpu().double().numpy()
            near(found, want.detach().numpy(), off, "the result", more)
            if grad:
                (gradient,) = pf.autograd.grad(got.sum(), [given])
                (wanted,) = torch.autograd.grad(want.sum(), [wide], retain_graph=True)
                near(gradient.cpu().double().numpy(), wanted.numpy(), 2 * off, "the gradient")
        return True

    def smaller(self) -> Iterator[Quantized]:
        for i, (name, value) in enumerate(self.how):
            if name != "rows" and value != PLAIN[name]:
                yield replace(self, how=(*self.how[:i], (name, PLAIN[name]), *self.how[i + 1 :]))

    def text(self, backend: Backend) -> str:
        return f"# {self.layer}(**{dict(self.args)}), {dict(self.how)}"


def leaves(layer: Any) -> list[Any]:
    """The layers within that have a weight."""
    return [m for m in layer.modules() if hasattr(m, "weight")]


def halfway(layer: Any, weight: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The old weight, where that is half a step of the new one away at most; else it as it is."""
    width = weight.reshape(len(weight), -1).shape[1]
    steps = layer.scale.cpu().double().numpy().repeat(layer.group, 1)[:, :width]
    off = np.abs(weight - old).reshape(len(weight), -1)
    rough = {"float32": 1e-6, "float64": 1e-6}.get(layer.scale.dtype.name, 1e-2)
    most = steps * (0.5 + 300 * rough) + rough * np.abs(old).max(initial=0)
    return np.where((off <= most).reshape(weight.shape), weight, old)


def laid(x: Any, layout: str) -> Any:
    """It in another layout."""
    if layout == "turned" and x.ndim > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "apart":
        return pf.stack([x, x], -1)[..., 0]
    return x.flip(-1).flip(-1) if layout == "flipped" else x


def near(found: np.ndarray, want: np.ndarray, off: float, what: str, more: float = 0.0) -> None:
    """FailureError where it is not."""
    if found.shape != want.shape:
        raise FailureError("shape", f"{what}: {found.shape}, not {want.shape}")
    most = off * float(np.abs(want).max(initial=0)) + more * 2
    worst = float(np.abs(found - want).max(initial=0))
    if not worst <= most:
        raise FailureError("value", f"{what} is off by {worst}, at most {most}")


@family("quantized")
def quantized(d: Draw) -> Quantized:
    """A layer that nobody chose."""
    args: dict[str, Any]
    kind = d.pick(
        "Linear", "Linear", "Linear", "Conv", "Conv", "ConvTranspose", "Embedding", "Tied"
    )
    rows: tuple[int, ...]
    if kind == "Linear":
        k = d.pick(1, 2, 7, 31, 32, 33, 64, 70, 96, 100, 128, 200, 257, 640)
        args = {"in_features": k, "out_features": d.pick(1, 2, 3, 8, 9, 16, 33, 70, 130)}
        args["bias"] = d.maybe()
        rows = d.pick((k,), (1, k), (2, k), (3, k), (7, k), (9, k), (2, 5, k), (40, k), (0, k))
    elif kind.startswith("Conv"):
        dims, groups = d.int(1, 3), d.pick(1, 1, 2, 3)
        args = {"in_channels": groups * d.int(1, 4), "out_channels": groups * d.int(1, 4)}
        args |= {"kernel_size": d.int(1, 3), "stride": d.int(1, 2), "dilation": d.int(1, 2)}
        args |= {"padding": d.int(0, 1), "groups": groups, "bias": d.maybe()}
        if kind == "Conv":
            args["padding_mode"] = d.pick("zeros", "zeros", "reflect", "replicate", "circular")
        kind += f"{dims}d"
        rows = (d.int(1, 3), args["in_channels"], *[d.int(5, 8) for _ in range(dims)])
    else:
        args = {"num_embeddings": d.int(1, 20), "embedding_dim": d.pick(1, 7, 32, 50, 64)}
        if kind == "Embedding" and d.maybe():
            args["padding_idx"] = d.int(0, args["num_embeddings"] - 1)
        if kind == "Embedding" and d.maybe(0.1):
            args["max_norm"] = 1.0
        rows = d.pick((), (1,), (7,), (2, 3), (0,))
    how = {
        "rows": rows, "dtype": d.pick(*["float32"] * 6, "float64", "float16", "bfloat16"),
        "mode": d.pick("int8", "int4"), "group": d.pick(32, 64, 96, 128),
        "symmetric": d.maybe(), "activations": d.pick(None, "int8"),
        "layout": d.pick("", "", "turned", "apart", "flipped"), "grad": d.maybe(0.3),
        "train": d.maybe(0.3), "twice": d.maybe(0.2), "autocast": d.maybe(0.15),
    }  # fmt: skip
    return Quantized(kind, tuple(args.items()), tuple(how.items()))
