"""Values between PyTorch and pyframe, and how results are compared."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import operator
import random
import types
import zlib
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo import core

# PyTorch's own tests ask for each sample which of them runs, and seed devices that are not there,
# with a look at the whole stack each time: most of what a sample takes.
core.extract_test_fn = core.TrackedInputIter.__init__.__globals__["extract_test_fn"] = lambda: None
for _devices in (torch.cuda, torch.mtia, torch.xpu):
    _devices.manual_seed_all = lambda seed: None

DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
    "uint16 uint32 uint64"
).split()
# (rtol, atol); atol grows with the root mean square of the expected tensor where that is above 1
TOL = {torch.float64: (1e-7, 1e-7), torch.float32: (1e-4, 1e-5)}
GRAD_TOL = {torch.float64: (1e-6, 1e-6), torch.float32: (5e-4, 5e-5)}
BAD_INPUT = (ValueError, RuntimeError, IndexError, TypeError, NotImplementedError)


class UnsupportedError(Exception):
    """The case cannot be carried over (no NumPy form); it is left out, not failed."""


# --- trees


def tree_map(f, x):
    if isinstance(x, (tuple, list)):
        y = [tree_map(f, v) for v in x]
        if isinstance(x, tuple) and hasattr(type(x), "n_fields"):
            return type(x)(y)  # torch.return_types.*
        return type(x)(*y) if hasattr(x, "_fields") else type(x)(y)
    if isinstance(x, dict):
        return {k: tree_map(f, v) for k, v in x.items()}
    return f(x)


def flat(x):
    if isinstance(x, (tuple, list)):
        return [z for y in x for z in flat(y)]
    if isinstance(x, dict):
        return [z for y in x.values() for z in flat(y)]
    return [x]


def unflat(like, leaves):
    it = iter(leaves)
    return tree_map(lambda _: next(it), like)


# --- bridge


def to_numpy(t):
    """A NumPy copy of a torch tensor that keeps its strides."""
    if t.layout != torch.strided or t.is_nested or t.is_quantized:
        raise UnsupportedError(f"layout {t.layout}")
    if t.device.type == "meta" or t.dim() > 64:
        raise UnsupportedError("meta tensor, or more than 64 dims")
    t = t.detach().cpu().resolve_conj().resolve_neg()
    t = t.float() if t.dtype == torch.bfloat16 else t
    try:
        a = t.numpy()
    except TypeError:
        raise UnsupportedError(f"{t.dtype} has no NumPy form") from None
    if t.is_contiguous() or 0 in t.stride() or 0 in t.shape:
        return np.array(a, copy=True, order="C")
    buf = np.zeros(1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)), a.dtype)
    view = np.lib.stride_tricks.as_strided(buf, a.shape, a.strides)
    view[...] = a
    return view


def public_path(f):
    """Dotted public name of a torch function, for functions that occur as arguments."""
    name = getattr(f, "__name__", "")
    for ns in ("", "nn.functional.", "linalg.", "special.", "fft."):
        obj = torch
        for part in filter(None, ns.split(".")):
            obj = getattr(obj, part)
        if getattr(obj, name, None) is f:
            return ns + name
    raise UnsupportedError(f"function {f}")


class Bridge:
    """Carries values to and from one framework. Bridge('torch') is the reference itself."""

    def __init__(self, target="torch", device="cpu", cast=None):
        self.m: Any = importlib.import_module(target)
        self.device, self.cast, self.leaves = device, cast or {}, []

    def get(self, path):
        return operator.attrgetter(path)(self.m)

    @property
    def Tensor(self):  # noqa: N802
        return self.get("Tensor")

    def dtype(self, dt):
        return self.get(str(self.cast.get(dt, dt))[6:])

    def dtype_name(self, dt):
        for n in DTYPES:
            mine = getattr(self.m, n, None)
            if mine is not None and (mine is dt or mine == dt):
                return n
        return str(dt).split(".")[-1]

    def tensor(self, t):
        to = self.cast.get(t.dtype)
        a = to_numpy(t if to is None else t.detach().to(to))
        y = self.get("from_numpy")(a)
        if t.dtype == torch.bfloat16 and to is None:
            y = y.to(self.dtype(t.dtype))
        if self.device != "cpu":
            y = y.to(self.device)
        if t.requires_grad:
            y = y.requires_grad_(True)
            self.leaves.append(y)
        return y

    def put(self, x, memo=None):
        """torch value (nested) -> target value; the same tensor stays the same tensor."""
        memo = {} if memo is None else memo
        if isinstance(x, torch.Tensor):
            if id(x) not in memo:
                memo[id(x)] = (self.tensor(x), x)
            return memo[id(x)][0]
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, (tuple, list)):
            y = [self.put(v, memo) for v in x]
            return type(x)(*y) if hasattr(x, "_fields") else tuple(y) if isinstance(x, tuple) else y
        if isinstance(x, dict):
            return {
                k: self.device if k == "device" and v == "cpu" else self.put(v, memo)
                for k, v in x.items()
            }
        if isinstance(x, slice):
            return slice(self.put(x.start, memo), self.put(x.stop, memo), self.put(x.step, memo))
        if isinstance(x, torch.dtype):
            return self.dtype(x)
        if isinstance(x, torch.device):
            return self.device if x.type == "cpu" else str(x)
        if isinstance(x, (torch.memory_format, torch.layout)):
            return self.get(str(x)[6:])
        if isinstance(x, torch.nn.Module):
            if any(True for _ in x.parameters()):
                raise UnsupportedError("module with parameters as an argument")
            return self.get("nn." + type(x).__name__)()
        if type(x).__name__ == "LinearCrossEntropyOptions":
            return self.get("nn.LinearCrossEntropyOptions")(**dataclasses.asdict(x))
        if isinstance(x, torch.Generator):
            raise UnsupportedError("generator")
        if isinstance(x, (types.FunctionType, types.BuiltinFunctionType, functools.partial)):
            return self.rebind(x)
        if isinstance(x, type) and x.__module__.startswith("torch"):
            return self.get(public_path(x))
        return x

    def rebind(self, f):
        """A function that PyTorch's database wrote in terms of torch, in terms of the target."""
        if isinstance(f, functools.partial):
            return functools.partial(self.rebind(f.func), *self.put(f.args), **self.put(f.keywords))
        if not isinstance(f, types.FunctionType) or not f.__module__.startswith("torch.testing"):
            return self.get(public_path(f))
        g = dict(f.__globals__, torch=self.m, nn=self.get("nn"), F=self.get("nn.functional"))
        g["wrapper_set_seed"] = lambda op, *a, **k: op(*a, **k)
        cells = tuple(types.CellType(self.put(c.cell_contents)) for c in f.__closure__ or ())
        new = types.FunctionType(f.__code__, g, f.__name__, f.__defaults__, cells)
        new.__kwdefaults__ = f.__kwdefaults__
        return new

    def is_tensor(self, x):
        return isinstance(x, self.Tensor)

    def take(self, x):
        """Target value (nested) -> torch value on the CPU."""
        if isinstance(x, (tuple, list)):
            return tuple(self.take(v) for v in x)
        if isinstance(x, dict):
            return {k: self.take(v) for k, v in x.items()}
        if not self.is_tensor(x):
            return x
        t = x.detach()
        if isinstance(t, torch.Tensor) and t._is_zerotensor():
            return torch.zeros(t.shape, dtype=t.dtype)
        for fix in ("resolve_conj", "resolve_neg"):
            t = getattr(t, fix, lambda t=t: t)()
        name = self.dtype_name(t.dtype)
        if name == "complex32":
            raise UnsupportedError("complex32 result")
        t = t.float() if name == "bfloat16" else t
        out = torch.from_numpy(np.array(t.cpu().numpy(), copy=True, order="C"))
        return out.to(torch.bfloat16) if name == "bfloat16" else out

    def fresh(self):
        self.leaves = []
        return self


def failure(e):
    return "raised", f"{type(e).__name__}: {e}".split("\n")[0][:200]


# --- comparison


def scaled(tol, factor):
    return tol if factor == 1 else {k: (r * factor, a * factor) for k, (r, a) in tol.items()}


def differ(ref, got, tol=TOL, truth=None):
    """None when close, else a message. `truth` gives the float64 result of the reference: where
    they differ, the target may be as far from it as 10 times float32 torch itself is, up to 1 %."""
    if ref.numel() == 0:
        return None
    rtol, atol = tol.get(
        {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(ref.dtype, ref.dtype),
        (0, 0),
    )
    cplx = ref.is_complex()
    wide = torch.complex128 if cplx else torch.float64 if ref.is_floating_point() else ref.dtype
    r, g = ref.detach().to(wide), got.detach().to(wide)
    if wide not in (torch.float64, torch.complex128):
        bad = r != g
    else:
        if cplx:
            r, g = torch.view_as_real(r), torch.view_as_real(g)
        same = (r == g) | (r.isnan() & g.isnan())
        fin = r[r.isfinite()]
        scale = max(1.0, float(fin.square().mean().sqrt())) if fin.numel() else 1.0
        err = (r - g).abs()
        bad = ~(same | (err <= atol * scale + rtol * r.abs()))
        if bad.any() and truth is not None and ref.dtype in (torch.float32, torch.complex64):
            t = truth()
            if t is not None and t.shape == ref.shape:
                t = t.detach().to(wide)
                t = torch.view_as_real(t) if cplx else t
                own = (r - t).abs()
                own = own[own.isfinite()]
                own = min(10 * float(own.max()), 1e-2 * scale) if own.numel() else 0.0
                ok = (
                    ((g - t).abs() <= atol * scale + rtol * t.abs() + own)
                    | (g.isnan() & t.isnan())
                    | (g == t.float())
                )
                if not (bad & ~ok).any():
                    return None
    if not bad.any():
        return None
    i = int(bad.flatten().nonzero()[0])
    want, found = r.flatten()[i].item(), g.flatten()[i].item()
    count = f"{int(bad.sum())} of {bad.numel()} differ"
    return f"{count}, first at flat {i}: expected {want:.7g}, got {found:.7g}"


def fields(x):
    """Field names of a torch.return_types result."""
    return type(x).__match_args__ if isinstance(x, tuple) and hasattr(type(x), "n_fields") else ()


def shape_problem(ref, out, B, on_device=True):
    """Structure, type, dtype, shape and device of every leaf."""
    rl, ol = flat(ref), flat(out)
    if len(rl) != len(ol):
        return "wrong dtype-shape", f"expected {len(rl)} results, got {len(ol)}"
    for f in fields(ref):
        if not hasattr(out, f):
            return "wrong dtype-shape", f"result has no field .{f}"
    for r, o in zip(rl, ol, strict=True):
        if isinstance(r, torch.Tensor) != B.is_tensor(o):
            return "wrong dtype-shape", f"expected {type(r).__name__}, got {type(o).__name__}"
        if isinstance(r, torch.Tensor):
            want, have = str(r.dtype)[6:], B.dtype_name(o.dtype)
            if want != have:
                return "wrong dtype-shape", f"expected dtype {want}, got {have}"
            if tuple(r.shape) != tuple(o.shape):
                return "wrong dtype-shape", f"expected shape {tuple(r.shape)}, got {tuple(o.shape)}"
            dev = getattr(o.device, "type", str(o.device).split(":")[0])
            if on_device and B.device != "cpu" and dev != B.device.split(":")[0]:
                return "wrong dtype-shape", f"result is on {dev}"
        elif not isinstance(o, type(r)) or isinstance(o, bool) != isinstance(r, bool):
            return "wrong dtype-shape", f"expected {type(r).__name__}, got {type(o).__name__}"
    return None


# --- samples


def seed(name):
    n = zlib.crc32(str(name).encode())
    torch.manual_seed(n), np.random.seed(n), random.seed(n)
    return n


def spread(items, cap):
    """At most cap items, evenly spaced, always with the first and the last."""
    if not cap or len(items) <= cap:
        return items
    return (
        [items[round(i * (len(items) - 1) / (cap - 1))] for i in range(cap)]
        if cap > 1
        else items[:1]
    )
