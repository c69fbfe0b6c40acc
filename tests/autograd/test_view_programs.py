"""Programs that nobody thought of, of views, writes in place and gradients: PyTorch and pyframe run
them side by side. PYFRAME_PROGRAMS says how many, PYFRAME_FIRST from which seed on."""

from __future__ import annotations

import contextlib
import os
import random
import re
import warnings
from typing import Any

import numpy as np
import pytest
from autograd_programs import attempt
from compared import alike

import pyframe as pf

COUNT, FIRST = int(os.environ.get("PYFRAME_PROGRAMS", 0)), int(os.environ.get("PYFRAME_FIRST", 0))
SHAPES = ((4,), (2, 3), (3, 1), (4, 4), (1, 3), (2, 3, 2), (), (6,), (2, 2, 4))
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


class Side:
    """The variables of a program on one of the frameworks."""

    def __init__(self, t: Any, device: str) -> None:
        self.said = ""  # the last error's text
        self.t, self.names = t, {"t": t, "d": device, "same": contextlib.nullcontext}

    def run(self, line: str) -> type | None:
        """Execute a line; the type of its error."""
        self.said = ""
        try:
            exec(line, self.names)
        except ERRORS as error:
            self.said = str(error)
            return next(k for k in type(error).__mro__ if k in ERRORS)
        return None

    def __getitem__(self, name: str) -> Any:
        return self.names[name]


def strides(x: Any) -> Any:
    """Those that matter."""
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1] if x.numel() else []


def repeats(x: Any) -> bool:
    """Whether elements share memory: what a write leaves is undefined then."""
    places = {0}
    for n, s in zip(x.shape, x.stride(), strict=True):
        places = {p + i * s for p in places for i in range(n)}
    return len(places) < x.numel()


def described(x: Any, layout: bool) -> dict[str, Any]:
    """All but the values."""
    out = {
        "shape": tuple(x.shape), "dtype": str(x.dtype).partition(".")[2],
        "requires_grad": x.requires_grad, "inference": x.is_inference(),
        "leaf": attempt(lambda: x.is_leaf), "version": None if x.is_inference() else x._version,
    }  # fmt: skip
    if layout:
        out.update(strides=strides(x), offset=x.storage_offset() if x.numel() else 0)
    return out


class Program:
    """Lines of Python, chosen by what PyTorch's variables are before each."""

    def __init__(self, seed: int, torch: Any, device: str) -> None:
        self.rnd = random.Random(seed)
        self.lines: list[str] = []
        self.tensors: list[str] = []
        self.want, self.got = Side(torch, "cpu"), Side(pf, device)
        self.gpu, self.over = device == "gpu", False

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def pick(self, *choices: Any) -> Any:
        return self.rnd.choice(choices)

    def int(self, low: int, high: int) -> int:
        return self.rnd.randint(low, high)

    def do(self, line: str, result: str = "") -> type | None:
        """Run a line on both sides and compare what it made or left; the type of its error."""
        self.lines.append(line)
        self.tensors = [x for x in self.tensors if f"{x} = " not in line]
        want, got = self.want.run(line), self.got.run(line)
        if line.startswith(("loss.", "grads = ")) and want is RuntimeError and got is None:
            # a value that was written over wholly has no history here, where PyTorch goes through
            # it, and an op in place keeps its result apart
            lenient = r"(fill|zero|copy|exp|tanh|relu|clamp|div|mul|squeeze|transpose|t)_\(|] = "
            assert re.search(lenient, repr(self))
            return want
        if want is IndexError and got is None and self.gpu:  # seen at the next read
            assert issubclass(self.got.run("t.zeros(1, device=d).cpu()") or object, IndexError)
            self.over = True
            return want
        if got is None and "view was created in" in self.want.said:
            self.over = True  # here it is refused where there is a history only
            return want
        assert (want is None) == (got is None), f"error {got} instead of {want}"
        # a line that may be refused for its index and for its history
        if want is not None and {got, want} != {IndexError, RuntimeError}:
            assert issubclass(got, want), f"error {got} instead of {want}"  # type: ignore[arg-type]
        if result in self.want.names:
            self.tensors.append(result)
        for name in self.tensors:
            a, b = (described(s[name], not self.gpu) for s in (self.got, self.want))
            if b["leaf"] == "RuntimeError":
                self.over = self.over or a["leaf"] != b["leaf"]
            else:
                assert a == b, f"{name}: {a} instead of {b}"
        return want

    def variable(self) -> str:
        return self.pick(*self.tensors[-5:], *self.tensors)

    def leaf(self) -> None:
        name = f"x{len(self.tensors)}"
        shape = self.pick(*SHAPES)
        kind = "float32" if self.gpu else self.pick(*["float32"] * 6, "complex64", "int64")
        n = int(np.prod(shape, dtype=int))
        values = [round(self.rnd.uniform(-2, 2), 1) or 0.7 for _ in range(n)]
        grad = kind != "int64" and self.rnd.random() < 0.6
        self.do(
            f"{name} = t.tensor({values}, device=d).reshape({shape}).to(t.{kind}).clone()"
            f"{'.requires_grad_()' if grad else ''}",
            name,
        )

    def step(self) -> None:
        x, y = self.variable(), self.variable()
        shape = tuple(self.want[x].shape)
        mode = self.pick(*["same"] * 12, "t.no_grad", "t.no_grad", "t.inference_mode")
        name = f"x{len(self.tensors)}"
        kind = self.rnd.random()
        if kind < 0.45:
            line = self.view(x, shape)
            if "as_strided" in line and not self.want[x].numel():
                return  # whose place in memory only PyTorch knows
            if "view(t." in line:  # in and out of inference mode it is not what other views are
                mode = "same"
                if self.want[x].is_inference() or not self.want[x].is_floating_point():
                    return
            self.do(f"with {mode}(): {name} = {line}", name)
        elif kind < 0.6:
            mode = "t.inference_mode" if self.want[x].is_inference() else mode
            self.do(f"with {mode}(): {name} = {self.value(x, y, shape)}", name)
        else:
            line = self.write(x, y, shape)
            if any(f".{k}_(" in line for k in ("t", "squeeze", "unsqueeze", "transpose")):
                mode = "same"  # PyTorch does not keep the shapes of a history that is not recorded
            if f"fill_({y}" in line and self.want[x].dtype != self.want.t.float32:
                return  # PyTorch lets ints require grad there
            if repeats(self.want[x]) and not ("fill_(0.5)" in line or "zero" in line):
                return
            if self.want[x].is_inference():  # elsewhere PyTorch writes before it refuses
                mode = "t.inference_mode"
            if any(self.want[v].dtype == self.want.t.int32 for v in (x, y)):
                return  # the bits of floats, as huge ints
            if "] = " in line and self.want[x].dtype != self.want[y].dtype:
                return  # PyTorch lets ints require grad there
            if y not in line or not self.overlap(x, y, "[" in line):
                self.do(f"with {mode}(): {line}")

    def overlap(self, x: str, y: str, anyhow: bool) -> bool:
        """Whether a write to `x` changes `y` as it is read: then there is no telling."""
        a, b = self.want[x], self.want[y]
        shared = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
        alike = (a.shape, a.stride(), a.data_ptr()) == (b.shape, b.stride(), b.data_ptr())
        return shared and (anyhow or not alike or a.requires_grad)

    def dim(self, shape: Any) -> int:
        n = max(len(shape), 1)
        return self.int(-n, n - 1)

    def key(self, shape: Any, views: bool) -> str:
        """What stands in brackets."""
        parts = []
        for n in shape[: self.int(1, max(len(shape), 1))]:
            kinds = [":", f"{self.int(0, n)}::{self.int(1, 2)}", f":{self.int(-1, n)}", "None"]
            kinds += [f"{self.int(-n, n - 1)}"] * 2 if n else []
            if n and not views:
                places = [self.int(-n, n - 1) for _ in range(2)]
                kinds += [f"{places}", f"t.tensor({places}, device=d)"]
                kinds += [f"t.tensor({[self.int(0, 1) == 1 for _ in range(n)]}, device=d)"]
            parts.append(self.pick(*kinds))
        if len(parts) < len(shape) and self.rnd.random() < 0.2:
            parts.insert(self.pick(0, len(parts)), "...")
        return ", ".join(parts) or "..."

    def view(self, x: str, shape: Any) -> str:
        a, b, n = self.dim(shape), self.dim(shape), int(np.prod(shape, dtype=int))
        size = shape[a] if shape else 1
        order = self.rnd.sample(range(len(shape)), len(shape))
        factor = self.pick(*[k for k in range(1, max(n, 1) + 1) if n % k == 0])
        texts = [
            f"{x}[{self.key(shape, True)}]",
            f"{x}[{self.key(shape, True)}]",
            f"{x}.select({a}, {self.int(0, max(size - 1, 0))})",
            f"{x}.transpose({a}, {b})",
            f"{x}.permute({order})",
            f"{x}.expand(2, {', '.join(str(-1) for _ in shape)})",
            f"{x}.expand({[2 if m == 1 else m for m in shape]})",
            f"{x}.diagonal({self.int(-1, 1)}, {a}, {b})",
            f"{x}.unfold({a}, {self.int(1, 2)}, {self.int(1, 2)})",
            f"{x}.view({factor}, {n // factor})",
            f"{x}.view(-1)",
            f"{x}.reshape({factor}, -1)",
            f"{x}.flatten({self.pick('', '0, 1')})",
            f"{x}.squeeze({self.pick('', a)})",
            f"{x}.unsqueeze({self.pick(a, 0, -1)})",
            f"{x}.split({self.int(1, 2)}, {a})[-1]",
            f"{x}.chunk(2, {a})[0]",
            f"{x}.unbind({a})[0]",
            f"{x}.tensor_split(2, {a})[-1]",
            f"{x}.movedim({a}, {b})",
            f"{x}.narrow({a}, {self.int(0, size)}, {self.int(0, 2)})",
            f"{x}.detach()",
            f"{x}.view_as({x})",
            f"{x}.T" if len(shape) == 2 else f"{x}.swapaxes({a}, {b})",
            f"{x}.as_strided((2,), ({self.int(1, 2)},))",
            f"{x}.as_strided((2, 2), ({self.int(1, 3)}, 1), {self.int(0, 2)})",
        ]
        if not self.gpu:
            texts.append(f"{x}.view(t.{self.pick('int32', 'float32')})")
            complex_ = self.want[x].is_complex()
            texts += [f"t.view_as_real({x})", f"{x}.real", f"{x}.imag"] * (6 if complex_ else 1)
            texts.append(f"t.view_as_complex({x})")
        return str(self.pick(*texts))

    def value(self, x: str, y: str, shape: Any) -> str:
        return str(self.pick(
            f"{x}.clone()", f"t.zeros_like({x})", f"t.ones_like({x})", f"{x}.reshape(-1)",
            f"{x}.contiguous()", f"({x} * {y}).contiguous()", f"({x} + {y}).contiguous()",
            f"({x} * {x}).contiguous()", f"({x} * 0.5).contiguous()", f"t.tanh({x}).contiguous()",
            f"{x}.sum()", f"{x}.exp().contiguous()", f"t.cat([{x}, {y}]).contiguous()",
            f"t.stack([{x}, {y}]).contiguous()", f"t.where({x} > 0.37, {x}, 0.1).contiguous()",
            f"{x}[{self.key(shape, False)}].contiguous()", f"{x}.relu().contiguous()",
            f"t.flip({x}, [{self.dim(shape)}]).contiguous()", f"({x} / 2).contiguous()",
            f"{x}.masked_fill({x} > 0.37, 0.5).contiguous()", f"{x}.clamp(-1, 1).contiguous()",
        ))  # fmt: skip

    def write(self, x: str, y: str, shape: Any) -> str:
        a = self.dim(shape)
        size = shape[a] if shape else 1
        places = f"t.tensor({[self.int(0, max(size - 1, 0)) for _ in range(2)]}, device=d)"
        key = self.key(shape, False)
        return str(self.pick(
            f"{x}.add_({y})", f"{x}.add_(1)", f"{x}.mul_({y})", f"{x}.mul_(0.5)", f"{x} += {y}",
            f"{x}.copy_({y})", f"{x}.fill_(0.5)", f"{x}.zero_()", f"{x} *= 0.5", f"{x}.neg_()",
            f"{x}[{key}] = 0.25", f"{x}[{key}] = {y}", f"{x}[{key}] *= 2", f"{x}[{key}] += {y}",
            f"{x}[{x} > 0.63] = 0.5", f"{x}[...] = {y}", f"{x}.fill_({y}.sum())",
            f"{x}.index_add_({a}, {places}, {x}.index_select({a}, {places}))",
            f"{x}.index_fill_({a}, {places}, 0.5)", f"{x}.masked_fill_({x} > 0.37, 0.5)",
            f"{x}.masked_fill_({y} > 0.37, 0.5)", f"{x}.clamp_(-1, 1)", f"{x}.relu_()",
            f"{x}.tanh_()",
            f"{x}.t_()", f"{x}.squeeze_()", f"{x}.unsqueeze_({a})", f"{x}.transpose_({a}, 0)",
            f"{x}.square_()", f"{x}.sub_({y}.mean())", f"{x}.exp_()", f"{x}.div_(2)",
            f"{x}.addcmul_({y}, {y})", f"{x}.lerp_({y}, 0.5)",
        ))  # fmt: skip

    def term(self, x: str, weight: float) -> str:
        """A sum that weighs each element of `x` otherwise, in another order of its dims."""
        shape = tuple(reversed(self.want[x].shape))
        weights = f"(t.arange({int(np.prod(shape, dtype=int))}, device=d) + 3).reshape({shape})"
        order = list(reversed(range(len(shape))))
        return f"({x}.abs().permute({order}) * {weights}).sum() * {weight:.1f}"

    def end(self) -> None:
        """All values, and the gradients of a sum that weighs those which have some."""
        for name in self.tensors:
            alike(self.got[name], self.want[name], 1e-4, 1e-4, name)
        known = [x for x in self.tensors if attempt(lambda x=x: self.want[x].is_leaf) in (0, 1)]
        # of a view in between it says less in PyTorch once the memory was written to
        wanted = [
            x for x in known
            if self.want[x].requires_grad and (self.want[x].is_leaf or not self.want[x]._is_view())
        ]  # fmt: skip
        terms = [self.term(x, 0.3 + k / 10) for k, x in enumerate(wanted)]
        if not wanted:
            return
        if self.do(f"loss = {' + '.join(terms)}"):
            return
        if self.rnd.random() < 0.5:
            wanted = [x for x in wanted if self.want[x].is_leaf]
            if self.do("loss.backward()"):
                return
            grads = [[s[x].grad for x in wanted] for s in (self.got, self.want)]
        else:
            self.do(f"grads = t.autograd.grad(loss, [{', '.join(wanted)}], allow_unused=True)")
            grads = [s.names.get("grads", ()) for s in (self.got, self.want)]
        for x, a, b in zip(wanted, *grads, strict=False):
            assert (a is None) == (b is None), f"the gradient of {x}: {a} instead of {b}"
            if b is not None:
                alike(a, b, 1e-4, 1e-4, f"the gradient of {x}")


def check(seed: int, torch: Any, device: str) -> None:
    program = Program(seed, torch, device)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            for _ in range(program.int(1, 3)):
                program.leaf()
            for _ in range(program.int(3, 14)):
                if not program.over:
                    program.step()
            if not program.over:
                program.end()
    except BaseException as error:
        error.add_note(f"seed {seed}:\n{program!r}")
        raise
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("part", range(4))
def test_on_the_cpu(torch: Any, part: int) -> None:
    for seed in range(FIRST + part, FIRST + (COUNT or 280), 4):
        check(seed, torch, "cpu")


def test_on_the_gpu(gpu: str, torch: Any) -> None:
    for seed in range(FIRST, FIRST + (COUNT or 16)):
        check(seed, torch, gpu)
