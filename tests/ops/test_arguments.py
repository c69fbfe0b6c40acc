"""What public functions look at before they run, and what their errors tell."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import fft, linalg, masked, ops, signal, special
from pyframe.core import dtypes as dt
from pyframe.nn.functional import toplevel
from pyframe.ops.api.arguments import BY_FUNCTION, Arguments, kinds_of
from pyframe.ops.api.public import as_public
from pyframe.ops.math import elementwise as el
from pyframe.tensor import Tensor


def public() -> dict[str, Callable[..., Any]]:
    """All that `as_public` wraps, by name, as the families wrote it."""
    found: dict[str, Any] = {}
    for table in (ops.METHODS, ops.ONLY_METHODS, ops.FUNCTIONS):
        found |= table
    for module in (F, linalg, fft, special, masked, signal.windows, toplevel):
        for name, fn in vars(module).items():
            if hasattr(fn, "__wrapped__"):
                found[f"{module.__name__}.{name}"] = fn.__wrapped__
    return {name: fn for name, fn in found.items() if isinstance(fn, types.FunctionType)}


PUBLIC = public()


def test_each_parameter_is_looked_at_by_somebody() -> None:
    """By its annotation before the function runs, or by the function, which has a reason."""
    left: collections.Counter[str] = collections.Counter()
    checked = 0
    for name, fn in PUBLIC.items():
        takes = Arguments(name, fn)
        checked += len(takes.kinds)  # raises TypeError for an annotation that has no rule
        for key, parameter in takes.signature.parameters.items():
            several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if not several and key not in takes.kinds and not hasattr(fn, "op"):
                left[str(parameter.annotation)] += 1
    assert len(PUBLIC) > 600
    assert checked > 1400
    assert left.total() < checked / 1.5, left
    assert all(reason and not reason.endswith(".") for reason in BY_FUNCTION.values())


def spaced(input: Tensor, dim: int | None = None) -> Any: ...
def tight(input:Tensor, dim:int|None=None) -> Any: ...  # fmt: skip
def turned(input: Tensor, dim: int | None = None) -> Any: ...
def optional(input: Tensor, dim: Optional[int] = None) -> Any: ...  # noqa: UP045
def loose(input: Any, dim: Any = None) -> Any: ...


loose.__annotations__ = {"input": Tensor, "dim": Optional[int]}  # noqa: UP045


@pytest.mark.parametrize("fn", [spaced, tight, turned, optional, loose])
def test_annotations_are_read_as_types(fn: Any) -> None:
    fn.__annotations__ = {k: t.replace(" ", "") if fn is tight and isinstance(t, str) else t
                          for k, t in fn.__annotations__.items()}  # fmt: skip
    call = as_public("f", fn)
    x = pf.ones(2)
    for good in ((x,), (x, 1), (x, None), (x, True), (x, np.int64(1)), (x, pf.tensor(1))):
        assert call(*good) is None
    for bad in ((None,), (x, 1.5), (x, "1"), (x, [1]), (x, x), (x, pf.tensor(1.0)), ([x],)):
        for _ in range(2):  # what is remembered of good calls is no help
            with pytest.raises(TypeError, match=r"^f\(\): argument '(input|dim)' must be "):
                call(*bad)


def test_an_annotation_without_a_rule_is_an_error() -> None:
    def f(x: missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def g(x: 3) -> None: ...  # type: ignore[valid-type]
    def h(x) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(NameError):
        as_public("f", f)(1)
    for fn in (g, h):
        with pytest.raises(TypeError, match="no rule for an argument that is annotated as"):
            as_public("fn", fn)(1)
    assert kinds_of(Any) is None
    assert kinds_of(str | None) is None
    assert str(kinds_of(float | Tensor | None)) == "float or Tensor or None"


@pytest.mark.parametrize("kind", [AttributeError, KeyError, ZeroDivisionError, AssertionError])
def test_an_internal_error_stays_one(kind: type[Exception], monkeypatch: Any) -> None:
    """It is none of the user's, whose arguments were fine; the call stands in a note."""

    def broken(x: Any) -> Any:
        raise kind("from within")

    broken = _of_pyframe(broken)  # else it is the caller's
    monkeypatch.setattr(el.exp, "numpy", broken)
    monkeypatch.setattr(el.expm1, "numpy", broken)
    for call in (pf.exp, pf.Tensor.exp, F.elu):
        with pytest.raises(kind) as seen:
            call(pf.ones(2))
        assert seen.type is kind
        assert seen.value.args == ("from within",)
        notes = ["elu got input=float32[2]"] if call is F.elu else []
        assert getattr(seen.value, "__notes__", []) == notes


def test_a_missing_attribute_of_pyframe_is_no_type_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(el.exp, "numpy", _of_pyframe(lambda x: x.no_such_method()))
    with pytest.raises(AttributeError, match="no attribute 'no_such_method'") as seen:
        pf.sinh(pf.ones(3)).exp()
    assert seen.traceback[-1].name == "<lambda>"


def test_no_room_is_a_runtime_error(monkeypatch: Any) -> None:
    def full(x: Any) -> Any:
        raise MemoryError

    def large(x: Any) -> Any:
        raise OverflowError("int too large")

    def gpu_full(x: Any) -> Any:
        raise pf.OutOfMemoryError("the GPU is full")

    def beyond(x: Any) -> Any:
        dt.check_32_bits(0, 2**40)

    for inner, kind, words in (
        (full, RuntimeError, "^f: can't allocate memory for a result so large\nf got x=3$"),
        (large, RuntimeError, "^f: int too large\nf got x=3$"),
        (gpu_full, pf.OutOfMemoryError, "^the GPU is full\nf got x=3$"),
        (beyond, dt.Beyond32BitsError, "^int64 is held in 32 bits"),
    ):
        with pytest.raises(kind, match=words) as seen:
            as_public("f", _of_pyframe(inner))(3)
        assert seen.type is kind


def _of_pyframe(fn: Any) -> Any:
    """`fn` as if it stood in a module of pyframe."""
    names = {**fn.__globals__, "__name__": "pyframe.ops.math.elementwise"}
    inner = types.FunctionType(fn.__code__, names, "f", None, fn.__closure__)
    inner.__annotations__ = fn.__annotations__
    return inner


def test_the_callers_call_is_told() -> None:
    with pytest.raises(IndexError) as seen:
        pf.ones(2, 3).softmax(dim=5)
    assert seen.value.__notes__ == ["softmax got input=float32[2, 3], dim=5"]
    with pytest.raises(RuntimeError) as caught:
        pf.zeros(2, -1, dtype=pf.int32)
    assert caught.value.__notes__ == ["zeros got sizes=[2, -1], dtype=pyframe.int32"]
    with pytest.raises(TypeError) as missing:
        pf.softmax()
    assert not hasattr(missing.value, "__notes__")  # Python has said it


class StopError(Exception):
    pass


def test_a_way_to_stop_passes() -> None:
    with pytest.raises(StopError) as seen:
        pf.ones(2).apply_(lambda v: (_ for _ in ()).throw(StopError()))
    assert not hasattr(seen.value, "__notes__")


# Wrong arguments that a function looks at itself, as its annotations say too little, and a few that
# are looked at in one place: PyTorch says of which type the error is.
WRONG = """
t.add(x, None); t.add(x, 'a'); t.exp('a'); t.clamp(x, 'a'); t.lerp(x, x, 'a'); t.where(b, x, 'a')
t.conj('a'); t.reshape(x, 'a'); t.squeeze(x, 'a'); t.flip(x, 'a'); t.roll(x, object())
t.expand_copy(x, 'a'); t.cat(3); t.cat([x, 'a']); t.stack([None]); t.hstack(x, 3)
t.atleast_1d(None); t.atleast_3d([x, None]); t.meshgrid(None); t.meshgrid(x[0], 3)
t.split(x, 'a'); t.broadcast_tensors(x, 3); t.cartesian_prod(x[0], 'a'); t.block_diag(x, 'a')
t.tensor_split(x, 'a'); t.repeat_interleave(x, 'a'); t.tile(x, 'a'); t.sum(x, 'a'); t.amax(x, 'a')
t.logsumexp(x, 'a'); t.quantile(x, 'a'); t.searchsorted(x, None); t.einsum('ii', 3); x[::1.5]
t.zeros('a'); t.full((2,), 'a'); t.arange('a'); t.linspace(0, 1, 'a'); t.randint(0, 'a', (2,))
t.fft.fftn(x, dim='a'); F.batch_norm(x, 3, None); F.conv2d(m, m, stride='a'); F.max_pool2d(m, 'a')
F.pad(x, 'a'); F.interpolate(m, 'a'); t.native_group_norm(m, None, None, 1, 2, 4, 0, 1e-5)
t.zeros(2**62); t.eye(2**31); t.linspace(0, 1, 2**62); x.to(memory_format='a')
x.clone(memory_format='a'); x.contiguous(memory_format=3); x.repeat(2**31, 2**31)
F.pad(x, (0, 2**62)); x.new_zeros(2**62); F.adaptive_avg_pool1d(x, 2**62); x - (x > 0); -(x > 0)
+(x > 0); x & 1; x << 1; t.clamp(x); t.add(x.int(), 1, alpha=0.5); t.add(x, 1, alpha=True)
x.int() ** -1; x.int().add_(0.5); t.lerp(x, x.half(), 0.5); t.addcdiv(x, x.int(), x.int())
t.frac(x.int()); t.mvlgamma(x, 0); t.polygamma(-1, x); t.heaviside(x, x.int())
t.isclose(x, x, rtol=-1); t.isclose(x, x.int()); t.div(x, x, rounding_mode="up"); t.where(x, x, x)
t.is_nonzero(x)
""".replace("\n", "; ").strip("; ")


def judged(call: str, lib: Any) -> str:
    names = {
        "t": lib, "F": lib.nn.functional, "x": lib.ones(3, 3), "m": lib.ones(1, 2, 2, 2),
        "i": lib.tensor([0, 1]), "b": lib.ones(3, 3) > 0,
    }  # fmt: skip
    try:
        eval(call, names)
    except Exception as error:
        return type(error).__name__.lstrip("_")
    return "no error"


@pytest.mark.parametrize("call", WRONG.split("; "))
def test_a_wrong_argument_is_of_pytorchs_type_of_error(call: str, torch: Any) -> None:
    assert judged(call, pf) == judged(call, torch)
