"""The array API standard: every name against NumPy's namespace, which is the standard's too."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import array_api as xp

if np.lib.NumpyVersion(np.__version__) < "2.3.0":
    pytest.skip("this NumPy implements an older standard", allow_module_level=True)

SIGNED = "int8 int16 int32 int64".split()
UNSIGNED = "uint8 uint16 uint32 uint64".split()
INTS, REAL, COMPLEX = SIGNED + UNSIGNED, ["float32", "float64"], ["complex64", "complex128"]
KINDS = {
    "b": ["bool"], "i": INTS, "s": SIGNED, "f": REAL, "c": COMPLEX, "r": INTS + REAL,
    "F": REAL + COMPLEX, "n": INTS + REAL + COMPLEX, "I": ["bool", *INTS],
    "a": ["bool", *INTS, *REAL, *COMPLEX],
}  # fmt: skip
HARD = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-30, 3.5, 2.5, -2.5]

UNARY = {  # and the kinds of dtypes that the standard has for it
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 reciprocal sin sinh "
    "sqrt tan tanh": "F",
    "abs isfinite isinf isnan negative positive round sign square": "n",
    "ceil floor trunc": "r", "signbit": "f", "logical_not": "b", "bitwise_invert": "I",
    "conj imag real": "c",
}  # fmt: skip
BINARY = {
    "add multiply subtract equal not_equal": "n", "divide": "F",
    "atan2 copysign hypot logaddexp nextafter": "f",
    "bitwise_and bitwise_or bitwise_xor": "I", "logical_and logical_or logical_xor": "b",
    "greater greater_equal less less_equal maximum minimum": "r",
    "bitwise_left_shift bitwise_right_shift floor_divide remainder pow": "r",
}  # fmt: skip


REDUCED = """(x); (x, axis=1); (x, axis=(0, 1)); (x, axis=-2, keepdims=True); (x[0, 0]); (v);
(x, axis=(0, -1), keepdims=True); (x[:0], axis=1)""".replace("\n", " ")


def rows(text: str) -> dict[str, tuple[str, list[str]]]:
    """Names | kinds of dtypes | what is called, split by ";": arguments, or text with {0}."""
    found = {}
    for line in text.replace("\n    ", " ").replace("REDUCED", REDUCED).strip().splitlines():
        names, kinds, calls = (part.strip() for part in line.split("|"))
        for name in names.split():
            whole = (c if "{0}" in c else "{0}" + c for c in calls.split("; "))
            found[name] = kinds, [c.replace("{0}", f"xp.{name}") for c in whole]
    return found


# of x, y (3, 4), v, w (6,), m, k (2, 3, 3), p of positive definite matrices, i of ints
CALLS = rows("""
all any count_nonzero | a | REDUCED
max min | r | REDUCED
mean | F | REDUCED
sum | n | REDUCED; (x, axis=());
    (x, dtype=xp.float64 if x.dtype in [xp.float32] else x.dtype)
prod | n | REDUCED; (x, axis=(), dtype=x.dtype)
std var | f | REDUCED; (x, correction=1);
    (x, axis=0, correction=0.5)
cumulative_sum cumulative_prod | n | (v); (x, axis=1); (x, axis=0, include_initial=True);
    (x, axis=-1, dtype=x.dtype)
diff | n | (x); (x, axis=0); (x, n=2); (x, prepend=y[:, :1], append=y)
argmax argmin | r | (x); (x, axis=1); (x, axis=-2, keepdims=True); (x, keepdims=True)
nonzero | a | (x); (v)
searchsorted | r | (xp.sort(v), w); (xp.sort(v), x, side='right'); (v, w, sorter=xp.argsort(v))
where | n | (x.real > y.real, x, y); (x==y, x, 1); (x==y, 2, y)
take | a | (x, i, axis=1); (v, i); (x, -i, axis=0)
take_along_axis | a | (x, xp.zeros((3, 1), dtype=xp.int64), axis=1); (x, i[None, :]-i[:, None])
unique_all unique_counts unique_inverse | I | (x); (v); (x[:0])
unique_values | I | xp.sort({0}(x)); xp.sort({0}(v)); (x[:0])
argsort | r | (x); (x, axis=0); (v, stable=True)
sort | r | (x); (x, axis=0); (v, stable=True); (x[:0], axis=0)
broadcast_arrays | a | (x, x[:1], x[0])
broadcast_to | a | (x, (2, 3, 4)); (x[:, :1], (3, 5))
concat | a | ([x, y]); ((x, y, x[:, :1]), axis=1); ([x, v], axis=None)
expand_dims | a | (x, 0); (x, -1); (x, axis=1)
flip | a | (x); (x, axis=0); (x, axis=(0, -1))
moveaxis | a | (m, 0, -1); (m, (0, 1), (2, 0))
permute_dims | a | (m, (2, 0, 1))
matrix_transpose | a | (x); (m)
repeat | a | (x, 2); (x, 2, axis=1); (v, i)
reshape | a | (x, (4, 3)); (x, (-1,), copy=True); (x, (2, 6), copy=False); (x[0, 0], (1, 1))
roll | a | (x, 2); (x, (1, -1), axis=(0, 1)); (x, 1, axis=0); (x, 1, axis=(0, 1))
squeeze | a | (x[:1], 0); (x[:1, :1], axis=(0, 1))
stack | a | ([x, y]); ((x, y), axis=-1)
tile | a | (x, (2,)); (x, (2, 1, 2))
unstack | a | (x); (x, axis=1)
clip | r | (x, 1, 3); (x, min=y); (x, max=2); (x); (x, y, y)
astype | n | (x, xp.complex128); (x, xp.bool); (x, x.dtype, copy=False)
zeros_like ones_like | a | (x); (x, dtype=xp.float32)
full_like | a | (x, 1); (x, 2, dtype=xp.int16)
tril triu | a | (x); (m, k=1); (x, k=-1)
meshgrid | n | (v, w); (v, w, v, indexing='ij'); (v)
asarray | a | (x); (x, copy=True); (x, dtype=xp.complex128)
matmul linalg.matmul | n | (x, y.T); (m, k); (v, w); (m, x[:, 0]); (x[:, 0], m)
tensordot linalg.tensordot | n | (x, y.T, axes=1); (x, y); (m, k, axes=((0, 1), (0, 2)));
    (v, w, axes=0)
vecdot linalg.vecdot | n | (x, y); (x, y, axis=-2); (v, w); (m, k[0])
linalg.matrix_transpose | a | (m)
linalg.cholesky | F | (p); (p, upper=True)
linalg.cross | n | (x[:, :3], y[:, :3]); (x, y, axis=-2)
linalg.det | F | (m); (p)
linalg.slogdet | F | (m)
linalg.diagonal | a | (x); (m, offset=1); (m, offset=-1)
linalg.trace | n | (x); (m, offset=1); (m, dtype=m.dtype)
linalg.eigvalsh | F | (p)
linalg.inv | F | (p); (m)
linalg.eigh | F | ({0}(p).eigenvalues);
    ((lambda e:e.eigenvectors*e.eigenvalues[..., None, :]@xp.conj(e.eigenvectors).mT)({0}(p)))
linalg.qr | F | ((lambda q:q.Q@q.R)({0}(m))); ({0}(x.T).Q.shape);
    ({0}(x.T, mode='complete').Q.shape)
linalg.svd | F | ({0}(x).S); ({0}(x).U.shape); ({0}(x, full_matrices=False).Vh.shape);
    ((lambda u:u.U*u.S[..., None, :]@u.Vh)({0}(m)))
linalg.svdvals | F | (x); (m)
linalg.matrix_norm | F | (x); (m, keepdims=True); (m, ord=1); (m, ord='nuc'); (m, ord=-2);
    (m, ord=xp.inf)
linalg.matrix_power | F | (m, 0); (m, 3); (p, -2)
linalg.matrix_rank | F | (x); (m, rtol=0.1)
linalg.outer | n | (v, w)
linalg.pinv | F | (x); (m, rtol=1e-3)
linalg.solve | F | (p, m); (p, x[:, 0]); (p, x); (p[0], m)
linalg.vector_norm | F | (x); (x, axis=1); (m, axis=(0, 2), keepdims=True); (x, ord=1);
    (x, ord=xp.inf); (x, ord=3.5)
fft.fft fft.ifft | F | (x); (x, n=6, axis=0); (x, norm='ortho')
fft.irfft fft.hfft | c | (x); (x, n=6, axis=0); (x, norm='forward')
fft.rfft fft.ihfft | f | (x); (x, n=6, axis=0); (x, norm='forward')
fft.fftn fft.ifftn fft.irfftn | c | (m); (m, s=(2, 4), axes=(0, 1))
fft.rfftn | f | (m); (m, s=(2, 4), axes=(0, 1))
fft.fftshift | F | (x); (x, axes=1)
fft.ifftshift | F | (x); (x, axes=(0,))
""")
MADE = rows("""
arange | | (5); (1, 6, 2); (5, 1, -2); (1, 0); (0., 1., .25); (3, dtype=xp.float32); (0, -3)
zeros | | (3); ((2, 3)); ((2,), dtype=xp.bool); (())
ones | | (3); ((2, 0), dtype=xp.int8)
full | | (3, 2); ((2,), 2.5); (2, True); ((), 2+1j); (2, 7, dtype=xp.uint8)
empty | | {0}((2, 3)).shape; {0}(3, dtype=xp.int16).dtype
empty_like | | {0}(xp.ones(3)).shape
eye | | (3); (2, 3); (3, k=1); (3, 2, k=-1, dtype=xp.int32)
linspace | | (0, 1, 5); (0., 10, 4, endpoint=False); (1, 0, 3, dtype=xp.float32); (0, 1j, 3);
    (0, 1, 0); (0, 1, 1)
fft.fftfreq | | (5); (4, d=2.)
fft.rfftfreq | | (5); (4, d=2.)
from_dlpack | | (xp.ones(3, dtype=xp.int16)); (xp.ones(3), copy=True)
finfo | |
    *[[float(getattr({0}(d), n)) for n in ("bits", "eps", "max", "min", "smallest_normal")]
    for d in (xp.float32, xp.float64, xp.complex64)];
    *[{0}(d).dtype for d in (xp.float32, xp.float64, xp.complex64)]
iinfo | | *[[int(getattr({0}(d), n)) for n in ("bits", "max", "min")]
    for d in (xp.int8, xp.uint8, xp.int64, xp.uint64, xp.int32)]
isdtype | | *[{0}(d, k) for d in (xp.bool, xp.int8, xp.uint8, xp.float32, xp.complex64)
    for k in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", xp.int8, (xp.float32, "bool"))]
can_cast | | *[{0}(a, b) for a in (xp.bool, xp.int8, xp.uint8, xp.int64, xp.float32, xp.complex64)
    for b in (xp.bool, xp.int16, xp.uint64, xp.float64, xp.complex128)];
    (xp.ones(1), xp.float32)
result_type | |
    *[{0}(a, b) for a in (xp.int8, xp.int16, xp.int32, xp.int64, xp.uint8, xp.uint16, xp.uint32)
    for b in (xp.int8, xp.int32, xp.uint8, xp.uint16, xp.uint32)];
    (xp.float32, xp.complex64, xp.float64); (xp.bool, xp.bool); (xp.int8, 1); (xp.float32, 1j);
    (xp.ones(2, dtype=xp.float32), 2.5)
e | | {0}
pi | | {0}
inf | | {0}
newaxis | | {0}
""")


def values(dtype: str, shape: tuple[int, ...], seed: int, hard: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        return rng.integers(0 if dtype in UNSIGNED else -4, 5, shape).astype(dtype)
    out = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype in COMPLEX else 0)
    out = out.astype(dtype)
    if hard and dtype in REAL:
        out.reshape(-1)[: len(HARD)] = HARD
    return out


def told(x: Any) -> Any:
    """A result in either library's words."""
    if isinstance(x, pf.Tensor):
        return x.dtype.name, tuple(x.shape), x.numpy()
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.name, x.shape, np.asarray(x)
    if isinstance(x, (tuple, list)) and not isinstance(x, pf.Size):
        return [told(v) for v in x]
    if isinstance(x, pf.dtype):
        return x.name
    if isinstance(x, (np.dtype, type)):
        return np.dtype(x).name
    return tuple(x) if isinstance(x, pf.Size) else x


def agree(what: str, ours: Any, theirs: Any) -> None:
    ours, theirs = told(ours), told(theirs)
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), what
        for a, b in zip(ours, theirs, strict=True):
            same(what, a, b)
    else:
        same(what, ours, theirs)


def same(what: str, a: Any, b: Any) -> None:
    if not (isinstance(b, tuple) and len(b) == 3 and isinstance(b[2], np.ndarray)):
        assert a == b, what
        return
    assert a[:2] == b[:2], what
    if b[2].dtype.kind in "fc":
        tolerance = 2e-4 if b[2].dtype.name in ("float32", "complex64") else 1e-10
        np.testing.assert_allclose(a[2], b[2], tolerance, tolerance, err_msg=what)
        zero = (b[2] == 0) & (a[2] == 0) & (b[2].dtype.kind == "f")
        assert (np.signbit(a[2].real) == np.signbit(b[2].real))[zero].all() or "x@" in what, what
    else:
        np.testing.assert_array_equal(a[2], b[2], what)


def compare(calls: list[str], **arrays: np.ndarray) -> None:
    ours = {name: xp.asarray(a) for name, a in arrays.items()}
    for call in calls:
        with np.errstate(all="ignore"):
            theirs = eval(f"[{call}]", {"xp": np, **arrays})
        for a, b in zip(eval(f"[{call}]", {"xp": xp, **ours}), theirs, strict=True):
            agree(f"{call} of {arrays['x'].dtype if arrays else ''}", a, b)


def listed(table: dict[str, str]) -> list[Any]:
    return [pytest.param(n, kinds, id=n) for names, kinds in table.items() for n in names.split()]


@pytest.mark.parametrize(("name", "kinds"), listed(UNARY))
def test_unary(name: str, kinds: str) -> None:
    for dtype in KINDS[kinds]:
        compare([f"xp.{name}(x)"], x=values(dtype, (5, 6), 1, hard=True))


@pytest.mark.parametrize(("name", "kinds"), listed(BINARY))
def test_binary(name: str, kinds: str) -> None:
    """Dtypes of one kind promote, whatever the shapes; a number takes the array's dtype."""
    for dtype in KINDS[kinds]:
        if "shift" in name and dtype in REAL:
            continue
        for other in KINDS[kinds]:
            kind = np.result_type(np.dtype(dtype), np.dtype(other))
            if (dtype in INTS) != (other in INTS) or (kind.kind == "f" and dtype in INTS):
                continue
            x, y = values(dtype, (5, 6), 1, hard=True), values(other, (5, 6), 2)
            if name in ("bitwise_left_shift", "bitwise_right_shift", "pow") and other in INTS:
                y = np.abs(y)
            if name in ("floor_divide", "remainder"):
                y = np.where(y == 0, np.ones_like(y), y)
                x = np.where(np.isfinite(x), x, np.ones_like(x))
            if name == "bitwise_left_shift":
                x = np.abs(x)
            operands = ["x,y", "x,y[0]", "x[1,2],y", "x,y[0,1]"][: 4 if dtype == other else 1]
            compare([f"xp.{name}({given})" for given in operands], x=x, y=y)
            if dtype in REAL and other in REAL and name not in ("floor_divide", "remainder"):
                hard = np.asarray(HARD)
                compare([f"xp.{name}(x,y)"], x=hard[:, None].astype(dtype), y=hard.astype(other))
        number = "True" if dtype == "bool" else "2"
        calls = [f"xp.{name}(x,{number})", f"xp.{name}({number},y)"]
        compare(calls, x=x, y=np.where(x == 0, np.ones_like(x), np.abs(x)))


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    kinds, calls = CALLS[name]
    for dtype in KINDS[kinds]:
        x, y = values(dtype, (3, 4), 1), values(dtype, (3, 4), 2)
        m, k = values(dtype, (2, 3, 3), 3), values(dtype, (2, 3, 3), 4)
        p = m
        if dtype in REAL + COMPLEX:
            p = (m @ m.conj().mT + 2 * np.eye(3)).astype(dtype)
        compare(
            calls,
            x=x, y=y, v=values(dtype, (6,), 5), w=values(dtype, (6,), 6), m=m, k=k, p=p,
            i=np.asarray([0, 2, 1, 0, 2, 1] if name == "repeat" else [0, 2, 1]),
        )  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    before = pf.get_default_dtype()
    pf.set_default_dtype(pf.float64)  # NumPy's
    try:
        compare(MADE[name][1])
    finally:
        pf.set_default_dtype(before)


def test_every_name_has_a_row_here() -> None:
    rows = {n for table in (UNARY, BINARY) for names in table for n in names.split()}
    rows |= {*CALLS, *MADE, "__array_namespace_info__", "nan"}
    functions = {n for n, f in vars(xp).items() if inspect.isfunction(f)}
    there = {n for n in functions if not n.startswith("_")} - {"NamedTuple"}
    there |= {f"linalg.{n}" for n in xp.linalg.__all__} | {f"fft.{n}" for n in xp.fft.__all__}
    assert there == {n for n in rows - {"e", "pi", "inf", "nan", "newaxis"} if n[0] != "_"}


def test_signatures() -> None:
    """As array_api_strict has them, which implements the standard to the letter."""
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    strict.set_array_api_strict_flags(api_version=xp.__array_api_version__)
    later = {"broadcast_shapes", "isin"}
    unset = (None, strict._creation_functions.Undef.UNDEF)

    def shown(fn: Any) -> list[Any]:
        return [
            (p.name, p.kind, None if p.default in unset else p.default)
            for p in inspect.signature(fn).parameters.values()
        ]

    for part in ("", "linalg", "fft"):
        theirs, ours = (getattr(m, part) if part else m for m in (strict, xp))
        for name in theirs.__all__:
            fn = getattr(theirs, name)
            if not inspect.isfunction(fn) or "flags" in name or name in later:
                continue
            assert shown(getattr(ours, name)) == shown(fn), name


def test_sorted_from_the_largest_on() -> None:
    x = xp.asarray([[3, 1, 3], [2, 2, 5]])
    assert xp.sort(x, descending=True).tolist() == [[3, 3, 1], [5, 2, 2]]
    assert xp.argsort(x, descending=True).tolist() == [[0, 2, 1], [2, 0, 1]]
    assert xp.sort(x, axis=0, descending=True, stable=False).tolist() == [[3, 2, 5], [2, 1, 3]]


def test_each_nan_is_one_of_its_own() -> None:
    x = xp.asarray([xp.nan, 1.0, xp.nan])
    assert xp.unique_counts(x).counts.tolist() == [1, 1, 1]
    assert xp.unique_all(x).indices.tolist() == [1, 0, 2]


def test_of_a_tensor(device: str) -> None:
    """A library asks a tensor for the namespace, and for what is there."""
    x = pf.arange(6.0, device=device).reshape(2, 3)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2022.12") is pf.array_api
    with pytest.raises(ValueError, match=r"version 2030\.01.*2024\.12"):
        x.__array_namespace__(api_version="2030.01")
    assert x.to_device("cpu").device == pf.device("cpu")
    info = xp.__array_namespace_info__()
    assert info.default_device() == pf.get_default_device()
    assert info.devices()[0] == pf.device("cpu")
    assert xp.finfo(x).bits == 32
    assert xp.iinfo(xp.asarray(1)).max == 2**63 - 1
    assert info.capabilities()["data-dependent shapes"]
    assert info.default_dtypes()["real floating"] is pf.float32
    dtypes = info.dtypes(device=device, kind=("bool", "real floating"))
    assert dtypes == {n: getattr(pf, n) for n in "bool float32 float64".split()
                      if n != "float64" or device == "cpu"}  # fmt: skip
    y = xp.where(x > 2, xp.mean(x, axis=0), -1)
    assert xp.sum(xp.astype(y, xp.int32), axis=None).item() == 2 * -1 - 1 + 1 + 2 + 3 - 1 + 1
    assert xp.sum(xp.ones(3, dtype=xp.uint8, device=device)).dtype is (
        pf.uint64 if device == "cpu" else pf.uint32
    )
    compiled = pf.compile(lambda x: xp.add(2, xp.sum(x, axis=(0, 1))))
    assert [compiled(x).item() for _ in range(3)] == [17.0] * 3


def test_autograd_goes_through() -> None:
    x = pf.arange(3.0, requires_grad=True)
    xp.sum(xp.multiply(x, xp.asarray(2))).backward()
    assert x.grad.tolist() == [2, 2, 2]


REFUSED = {
    "xp.nonzero(xp.asarray(1))": "at least one axis",
    "xp.squeeze(x, 0)": "has not size 1",
    "xp.reshape(x.T, (-1,), copy=False)": "needs a copy",
    "xp.cumulative_sum(x)": "axis is required",
    "xp.take(x, xp.asarray([0]))": "axis is required",
    "xp.result_type(xp.uint64, xp.int8)": "no int dtype holds both uint64 and int8",
    "xp.result_type(1, 2)": "at least one array",
    "xp.astype(xp.asarray(1j), xp.float32)": "imaginary part",
    "xp.isdtype(xp.int8, 'float')": "unknown kind 'float'",
    "xp.vecdot(x, x[:, :2])": "vecdot: sizes 3 and 2",
    "xp.expand_dims(x, 5)": "range",
    "x[::-1]": "use flip",  # as PyTorch, unlike the standard
    "x.to(xp.uint16) + x.to(xp.int16)": "Promotion for uint16",  # so too: xp.add promotes them
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError), match=REFUSED[text]):
        eval(text, {"xp": xp, "x": pf.arange(6.0).reshape(2, 3)})


LIBRARIES = """
import pyframe as pf, scipy.fft, scipy.special, scipy.stats
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import StandardScaler

x = pf.randn(20, 3)
y = x @ pf.tensor([1.0, 2.0, 3.0])
with config_context(array_api_dispatch=True):
    z = StandardScaler().fit_transform(x)
    assert isinstance(z, pf.Tensor) and z.std(0, correction=0).allclose(pf.ones(3))
    assert PCA(2, svd_solver="full").fit(x).transform(x).shape == (20, 2)
    assert Ridge(1e-6, solver="svd").fit(x, y).coef_.allclose(pf.tensor([1.0, 2, 3]), atol=1e-3)
    assert accuracy_score(y > 0, y > 0) == 1
assert scipy.special.logsumexp(x).allclose(x.logsumexp((0, 1)))
assert scipy.fft.fft(x, axis=0).allclose(pf.fft.fft(x, dim=0), atol=1e-5)
assert isinstance(scipy.stats.ttest_1samp(x, 0.0).pvalue, pf.Tensor)
"""


def test_scikit_learn_and_scipy_compute_with_tensors(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    pytest.importorskip("sklearn")
    assert subprocess.call([sys.executable, "-c", LIBRARIES]) == 0, capfd.readouterr().err
