"""PyTorch's own operator database (op_db) against pyframe, an operator at a time."""

from __future__ import annotations

import functools
import re
import types
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from conformance.bridge import (
    BAD_INPUT,
    GRAD_TOL,
    TOL,
    Bridge,
    UnsupportedError,
    differ,
    failure,
    flat,
    public_path,
    scaled,
    seed,
    shape_problem,
    spread,
    tree_map,
    unflat,
)

# Left out: a name, or a regular expression that matches the whole name, and why.
OPS = {
    r"_.*(?<!__)": "private torch._name",
    r"torch\.ops\..*": "private torch.ops name",
    r"slice|native_dropout_backward|max_pool2d_with_indices_backward": "a torch.ops.aten name only",
    r"jiterator_.*": "CUDA only (torch.cuda.jiterator)",
    r"bmm\.triton_optimized": "CUDA only (Triton)",
    r"sparse\..*|to_sparse": "sparse layout",
    r"chalf": "complex32 has no NumPy form",
    r"as_strided\.partial_views": "its input is a view of a larger storage; a NumPy copy is not",
    r"as_strided_scatter": "PyTorch's gradient of input is that of what src replaced",
}

# Results are drawn: a sample whose torch result depends on the seed is compared by shape, dtype and
# simple statistics over repeated runs; the other samples of these ops exactly.
RANDOM = set(
    """cauchy exponential geometric log_normal normal.in_place normal normal.number_mean uniform
    randn randn_like rand_like randint randint_like multinomial bernoulli nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout.with_train nn.functional.feature_alpha_dropout.without_train
    nn.functional.rrelu nn.functional.scaled_dot_product_attention
    nn.functional.multi_head_attention_forward nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d""".split()
)
# Memory is not initialised: shape and dtype (and the strides of *_strided) are compared.
UNDEFINED = set(
    """empty empty_like new_empty empty_strided new_empty_strided empty_permuted resize_
    resize_as_""".split()
)
# Defined up to signs, phases or order: compared after the op's own output_process_fn_grad.
GAUGE = set("svd linalg.svd linalg.eig linalg.eigh svd_lowrank pca_lowrank".split())
UNORDERED = {"linalg.eigvals"}  # sorted before they are compared
# With ints and bools ties are common and torch leaves the winner open: indices by dtype and shape.
TIES = set(
    """sort argsort topk kthvalue median nanmedian mode max.reduction_with_dim
    min.reduction_with_dim msort argmax argmin cummax cummin aminmax masked.median masked.argmax
    masked.argmin""".split()
)
# What some of their wrong inputs are refused with is of another type: a more particular one, or as
# what else is refused for a dim, a dtype or no tensors.
OTHER_TYPES = set("item arange narrow_copy ormqr index_add multinomial cat mean".split())
# Random projections, of which two runs of torch differ by as much: tolerance times this.
LOOSE = {"svd_lowrank": 20, "pca_lowrank": 20}
RANK = ("linalg.pinv.singular", torch.float32)  # of its inputs: rounding decides it

RB, WIDE = Bridge(), Bridge(cast={torch.float32: torch.float64, torch.complex64: torch.complex128})
RUNS = 24  # repetitions for the statistics of random ops


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def excluded(name):
    return next((why for pat, why in OPS.items() if re.fullmatch(pat, name)), None)


@functools.cache
def database(dtype):
    """name -> OpInfo of the ops kept for a dtype."""
    return {
        full_name(o): o
        for o in op_db
        if o.supports_dtype(dtype, "cpu")
        and not excluded(full_name(o))
        and (full_name(o), dtype) != RANK
    }


# --- callables


def method(B, name):
    getattr(B.Tensor, name)  # AttributeError where there is none

    def run(x, *a, **k):
        if not B.is_tensor(x):
            raise TypeError(f"{name} of a {type(x).__name__}")
        return getattr(x, name)(*a, **k)

    return run


def carry(B, f, name=None):
    """A callable of torch -> the same callable of the framework behind B."""
    if name == "rand_like":  # its OpInfo calls randn_like by mistake
        return B.get(name)
    if isinstance(f, types.FunctionType) and f.__module__.startswith("torch.testing"):
        return B.rebind(f)
    own = getattr(f, "__name__", "")
    if own.startswith("__") or isinstance(
        f, (types.MethodDescriptorType, types.WrapperDescriptorType)
    ):
        return method(B, own)
    return B.get(name or public_path(f))


def variants(op):
    """(label, function of a bridge giving the callable, whether it changes its input)"""

    def meth(f):
        if isinstance(f, types.FunctionType) and f.__module__.startswith("torch.testing"):
            return lambda B: B.rebind(f)
        return lambda B: method(B, f.__name__)

    for name, o in [("", op), *[(f"{a.name} ", a) for a in op.aliases]]:
        for what, f, inplace in (
            ("method", o.method_variant, False), ("inplace", o.inplace_variant, True)
        ):  # fmt: skip
            if f is not None:
                yield name + what, meth(f), inplace
    for a in op.aliases:
        yield a.name, lambda B, a=a: B.get(a.name.removeprefix("torch.")), False
    for f, inplace in ((op.operator_variant, False), (op.inplace_operator_variant, True)):
        if f is not None:
            yield f.__name__, lambda B, f=f: f, inplace


def bind(B, sample, inplace=False):
    """(input, args, kwargs) of a sample for B; B.leaves are the inputs that require grad."""
    x, args, kwargs = B.fresh().put((sample.input, sample.args, sample.kwargs))
    return x.clone() if inplace else x, args, kwargs


def call(B, f, sample, inplace=False):
    x, args, kwargs = bind(B, sample, inplace)
    return f(x, *args, **kwargs)


# --- what is compared


def processing(op, name, sample):
    """Function of the torch outputs that removes what the op leaves open."""
    if name in UNORDERED:
        return lambda t: t.gather(-1, (t.detach().real + 0.618 * t.detach().imag).argsort(-1))
    if name in GAUGE:
        return sample.output_process_fn_grad
    if "masked" in getattr(op.gradcheck_wrapper, "__name__", ""):

        def masked(out):  # zero what is masked out, as PyTorch's own gradient checks do
            def fake(*a, **k):
                return out

            fake.__name__ = op.op.__name__
            return op.gradcheck_wrapper(fake, sample.input.detach(), *sample.args, **sample.kwargs)

        return masked
    return lambda out: out


def weights(process, ref, leaves):
    """The gradient of a fixed random-weighted sum of the float outputs (after `process`) for each
    of them."""
    ts = [
        t.detach().requires_grad_(r.requires_grad)
        if isinstance(t, torch.Tensor) and isinstance(r, torch.Tensor) and r.requires_grad
        else t
        for t, r in zip(leaves, flat(ref), strict=True)
    ]
    outs = unflat(ref, ts)
    outs = [t for t in flat(process(outs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = [t for t in ts if isinstance(t, torch.Tensor) and t.requires_grad]
    gen = torch.Generator().manual_seed(7)
    ws = [torch.randn(t.shape, generator=gen, dtype=torch.float64).to(t.dtype) for t in outs]
    ws = [w * (0.8 - 0.6j) if w.is_complex() else w for w in ws]
    grads = iter(torch.autograd.grad(outs, wanted, ws, allow_unused=True))
    return [next(grads) if isinstance(t, torch.Tensor) and t.requires_grad else None for t in ts]


def gradients(B, out, inputs, seeds):
    pairs = [(o, s) for o, s in zip(flat(out), seeds, strict=True) if s is not None]
    return B.get("autograd.grad")(
        [o for o, _ in pairs],
        inputs,
        grad_outputs=[B.put(s.resolve_conj()) for _, s in pairs],
        allow_unused=True,
    )


def grad_view(op):
    """The part of an input's gradient that is determined, if it is Hermitian or triangular."""
    w = getattr(op.gradcheck_wrapper, "__name__", "")
    if "hermitian" in w:
        return lambda i, g: g + g.mH if i == 0 else g
    if "triangular" in w:
        return lambda i, g: g.tril() + g.triu().mT if i == 0 else g
    return lambda i, g: g


def compare_grads(ref, got, B, view, truth=None, loose=1):
    for i, (r, g) in enumerate(zip(ref, got, strict=True)):
        if r is None and g is None:
            continue
        g = None if g is None else B.take(g)
        r = torch.zeros_like(g) if r is None else r
        g = torch.zeros_like(r) if g is None else g
        if r.shape != g.shape or r.dtype != g.dtype:
            return (
                "wrong grad",
                f"input {i}: expected {r.dtype} {tuple(r.shape)}, got {g.dtype} {tuple(g.shape)}",
            )
        t = truth and functools.partial(truth.grad, view, i)
        msg = differ(view(i, r), view(i, g), scaled(GRAD_TOL, loose), t)
        if msg:
            return "wrong grad", f"input {i}: {msg}"
    return None


# --- random ops


def moments(run):
    """Means of asinh(x) and asinh(x)^2 of each float result (and gradient) leaf, one row a run."""
    rows = []
    for _ in range(RUNS):
        row = []
        for t in flat(run()):
            if t is not None and t.numel():
                t = torch.asinh(t.double())
                row += [t.mean(), t.square().mean()]
        rows.append(torch.stack(row) if row else torch.zeros(0))
    return torch.stack(rows)


def random_problem(ref_run, run):
    a, b = moments(ref_run), moments(run)
    if a.shape != b.shape:
        return "wrong value", f"{a.shape[1]} statistics expected, got {b.shape[1]}"
    gap = (a.mean(0) - b.mean(0)).abs()
    noise = ((a.var(0) + b.var(0)) / RUNS).sqrt()
    bad = ~(gap <= 6 * noise + 1e-5) & ~(a.isnan() & b.isnan()).all(0)
    if bad.any():
        i = int(bad.nonzero()[0])
        want, found = a.mean(0)[i], b.mean(0)[i]
        text = (
            f"statistic {i} (mean or mean square of asinh x): expected {want:.4g}, got {found:.4g}"
        )
        return "wrong value", text
    return None


# --- one op


class Operator:
    """One op of the database at one dtype: `problems` has what is found wrong, in words."""

    def __init__(self, target: Bridge, name: str, info: Any, dtype: torch.dtype) -> None:
        self.T, self.name, self.op, self.dtype = target, name, info, dtype
        self.problems: list[str] = []
        self.compared = 0  # samples
        self.ref = carry(RB, info.op, info.name)
        self.fn = carry(target, info.op, info.name)

    def note(self, part, problem, s) -> None:
        if problem:
            self.problems.append(f"{part}: {problem[0]}: {problem[1]}  [{short(s)}]")

    def run(self, samples: int, variant_samples: int) -> None:
        some = self.samples(samples)
        for s in some:
            try:
                self.sample(s)
                self.compared += 1
            except UnsupportedError:
                pass
        for label, make, inplace in variants(self.op) if variant_samples else ():
            self.variant(label, make, inplace, some, variant_samples)
        if self.dtype == torch.float32 and self.op.error_inputs_func:
            self.errors()

    def samples(self, count: int) -> list[Any]:
        seed(self.name)
        op, dtype = self.op, self.dtype
        grads = op.supports_autograd and dtype.is_floating_point and dtype in op.backward_dtypes
        out = []
        for s in op.sample_inputs("cpu", dtype, requires_grad=grads):
            out.append(s)
            if len(out) >= 2000:
                break
        return spread(out, count)

    def reference(self, s):
        """The reference's result and the inputs that it was computed from."""
        if self.name.startswith("unique") and s.kwargs.get("sorted") is False:
            raise UnsupportedError("the order of unique(sorted=False) is open")
        if self.name == "svd_lowrank" and s.kwargs.get("M") is not None:
            raise UnsupportedError("random projection of a full-rank matrix")
        try:
            out = call(RB, self.ref, s)
        except UnsupportedError:
            raise
        except Exception as e:
            raise UnsupportedError(f"torch refuses: {e}") from None
        tensors = [t for t in flat(out) if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided or t.dtype == torch.complex32 for t in tensors):
            raise UnsupportedError("result layout")
        return out, RB.leaves

    def is_chancy(self, s, ref) -> bool:
        """Whether the reference's result depends on the seed."""
        for n in range(2, 12 if self.name in RANDOM else 0):
            torch.manual_seed(n)
            again = call(RB, self.ref, s)
            pairs = zip(flat(ref), flat(again), strict=True)
            if any(isinstance(x, torch.Tensor) and not torch.equal(x, y) for x, y in pairs):
                return True
        return False

    def sample(self, s) -> None:
        process = processing(self.op, self.name, s)
        torch.manual_seed(1)
        ref, inputs = self.reference(s)
        flows = any(isinstance(t, torch.Tensor) and t.requires_grad for t in flat(ref))
        if self.is_chancy(s, ref):
            return self.random_sample(s, ref, bool(inputs) and flows)
        if self.name in RANDOM:  # the reference was run again
            ref, inputs = self.reference(s)
        plain = plain_of(ref)
        own = getattr(s.output_process_fn_grad, "__qualname__", "")
        default = own == "SampleInput.__init__.<locals>.<lambda>"
        gp = process if default or self.name in UNORDERED else s.output_process_fn_grad
        grads = None
        if inputs and flows:
            try:
                grads = gradients(RB, ref, inputs, weights(gp, ref, flat(plain)))
            except Exception:
                grads = None
        truth = Truth(self.ref, s, gp) if self.dtype == torch.float32 else None
        out = None
        try:
            out = call(self.T, self.fn, s)
            mine = self.T.leaves
            inside = self.dtype.is_floating_point or self.name not in TIES
            problem = self.compare(plain, out, process, truth, s, inside)
        except UnsupportedError:
            raise
        except Exception as e:
            problem = failure(e)
        self.note("sample", problem, s)
        if problem:
            return None
        if grads is not None:
            self.note("grad", self.grad_problem(s, ref, out, mine, gp, grads, truth), s)
        elif (
            inputs and not flows and any(self.T.is_tensor(o) and o.requires_grad for o in flat(out))
        ):
            self.note("grad", ("wrong grad", "it requires grad, torch's result does not"), s)
        return None

    def grad_problem(self, s, ref, out, inputs, gp, grads, truth):
        T = self.T
        flags = [isinstance(r, torch.Tensor) and r.requires_grad for r in flat(ref)]
        mine = [T.is_tensor(o) and bool(o.requires_grad) for o in flat(out)]
        if flags != mine:
            return "wrong grad", f"requires_grad of the results: expected {flags}, got {mine}"
        try:
            got = gradients(T, out, inputs, weights(gp, ref, flat(T.take(out))))
            loose = LOOSE.get(self.name, 1)
            view = grad_view(self.op)
            return compare_grads(grads, got, T, view, truth, loose)
        except UnsupportedError:
            raise
        except Exception as e:
            return failure(e)

    def compare(self, ref, out, process, truth, s, with_indices=True):
        B = self.T
        given = flat([s.input, s.args, s.kwargs])
        on_device = any(isinstance(t, torch.Tensor) for t in given) or "device" in s.kwargs
        problem = shape_problem(ref, out, B, on_device)
        if self.name in UNDEFINED:
            exact = "strided" in self.name or "permuted" in self.name
            if not problem and exact and tuple(ref.stride()) != tuple(out.stride()):
                problem = "wrong shape", f"expected strides {ref.stride()}, got {out.stride()}"
        if problem or self.name in UNDEFINED:
            return problem
        got = unflat(ref, flat(B.take(out)))
        for r, o in zip(flat(ref), flat(got), strict=True):
            if isinstance(r, torch.Tensor) and r.dtype != o.dtype:
                return "wrong dtype-shape", f"dtype says {r.dtype}, the array is {o.dtype}"
        tol = scaled(TOL, LOOSE.get(self.name, 1))
        for i, (r, o) in enumerate(zip(flat(process(ref)), flat(process(got)), strict=True)):
            if not isinstance(r, torch.Tensor):
                close = isinstance(r, (float, complex)) and abs(r - o) <= 1e-5 + 1e-4 * abs(r)
                same = r == o or (r != r and o != o) or close
                msg = None if same else f"expected {r!r}, got {o!r}"
            elif with_indices or r.dtype != torch.int64 or not (i or self.name.startswith("arg")):
                msg = differ(r, o, tol, truth and functools.partial(truth.result, process, i))
            else:
                continue
            if msg:
                return "wrong value", (f"result {i}: " if i else "") + msg
        return None

    def random_sample(self, s, ref, has_grad) -> None:
        def runner(B, f):
            def run():
                out = call(B, f, s)
                taken = flat(B.take(out))
                found = [t for t in taken if isinstance(t, torch.Tensor)]
                if has_grad:
                    ones = [
                        torch.ones_like(t) if getattr(o, "requires_grad", False) else None
                        for t, o in zip(taken, flat(out), strict=True)
                    ]
                    grads = gradients(B, out, B.leaves, ones)
                    found += [None if g is None else B.take(g) for g in grads]
                return found

            return run

        try:
            problem = shape_problem(ref, call(self.T, self.fn, s), self.T)
            problem = problem or random_problem(runner(RB, self.ref), runner(self.T, self.fn))
        except UnsupportedError:
            raise
        except Exception as e:
            problem = failure(e)
        self.note("sample", problem, s)

    def variant(self, label, make, inplace, samples, count) -> None:
        """A method, in-place, operator or alias form on a few samples, forward only."""
        T, done = self.T, 0
        for s in spread(samples, 12):
            if done == count:
                break
            try:
                if (self.name, label) == ("unique", "method") and s.kwargs.get("sorted") is False:
                    continue
                torch.manual_seed(1)
                ref = call(RB, make(RB), s, inplace)
                if ref is NotImplemented:
                    continue
                ref = plain_of(ref)
            except Exception:  # torch has no such form for this sample
                continue
            done += 1
            problem = None
            try:
                x, a, k = bind(T, s, inplace)
                out = make(T)(x, *a, **k)
                for y in (out, x) if inplace else (out,):  # also what the input has become
                    if self.name in RANDOM or self.name in UNDEFINED:
                        problem = problem or shape_problem(ref, y, T)
                    else:
                        inside = self.dtype.is_floating_point or self.name not in TIES
                        process = processing(self.op, self.name, s)
                        problem = problem or self.compare(ref, y, process, None, s, inside)
            except Exception as e:
                problem = failure(e)
            self.note(f"variant {label}", problem, s)

    def errors(self) -> None:
        """What torch refuses on the CPU must be refused, with an error of its type."""
        seed(self.name)
        for e in spread(list(self.op.error_inputs("cpu")), 40):
            s = e.sample_input
            memory = [t.untyped_storage().data_ptr() for t in tensors_of(s)]
            if len(set(memory)) < len(memory):
                continue  # the copies of two tensors share no memory
            try:
                x, a, k = bind(RB, s)
            except Exception:  # meta device, too many dims
                continue
            try:
                self.ref(x, *a, **k)
                continue  # torch accepts it on the CPU
            except Exception as error:
                wanted = type(error).__name__.lstrip("_")
            try:
                x, a, k = bind(self.T, s)
                self.T.take(self.fn(x, *a, **k))  # taking the result makes a lazy device finish
                self.note("error", ("accepted bad input", f"torch: {str(e.error_regex)[:80]}"), s)
            except Exception as ex:
                known = self.name in OTHER_TYPES and isinstance(ex, BAD_INPUT)
                if type(ex).__name__.lstrip("_") != wanted and not known:
                    self.note("error", ("exception type", f"{type(ex).__name__}: {ex}"[:200]), s)


class Truth:
    """The reference in float64, computed when it is first asked for."""

    def __init__(self, fn, sample, process) -> None:
        self.fn, self.sample, self.process = fn, sample, process

    @functools.cached_property
    def found(self):
        """The results, and the inputs of which they are; None and none where PyTorch refuses."""
        try:
            return call(WIDE, self.fn, self.sample), WIDE.leaves
        except Exception:
            return None, []

    @functools.cached_property
    def grads(self):
        out, inputs = self.found
        return gradients(WIDE, out, inputs, weights(self.process, out, flat(plain_of(out))))

    def result(self, process, i):
        """Of the results' leaves after `process` the one at `i`."""
        out, _ = self.found
        return None if out is None else flat(process(plain_of(out)))[i]

    def grad(self, view, i):
        known = self.found[0] is not None and self.grads[i] is not None
        return view(i, self.grads[i]) if known else None


def tensors_of(s):
    given = flat([s.input, s.args, s.kwargs])
    return [t for t in given if isinstance(t, torch.Tensor) and t.layout == torch.strided]


def plain_of(tree):
    return tree_map(
        lambda t: t.detach().resolve_conj().resolve_neg() if isinstance(t, torch.Tensor) else t,
        tree,
    )


def short(s) -> str:
    def show(t):
        return f"Tensor{tuple(t.shape)}" if isinstance(t, torch.Tensor) else t

    return str(tree_map(show, [s.input, *s.args, s.kwargs]))[1:-1][:120]
