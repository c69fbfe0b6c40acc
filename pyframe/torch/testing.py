"""torch.testing: whether tensors are close."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any

import pyframe as pf

_CLOSE = {"float16": 1e-3, "bfloat16": 1.6e-2, "float32": 1.3e-6, "float64": 1e-7,
          "complex64": 1.3e-6, "complex128": 1e-7}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: Any = None,
) -> None:  # fmt: skip
    """AssertionError unless tensors or numbers, or all in lists and dicts of them, are within atol
    + rtol * |expected|, which follow from their dtypes, and alike in dtype, device and shape."""
    kind: dict[str, Any] = {
        "rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_device": check_device,
        "check_dtype": check_dtype, "check_stride": check_stride, "msg": msg,
    }  # fmt: skip
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        _differ(actual.keys() != expected.keys(), "The keys of mappings differ", msg)
        for key in expected:
            assert_close(actual[key], expected[key], **kind)
        return
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        _differ(len(actual) != len(expected), "The lengths of sequences differ", msg)
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **kind)
        return
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: rtol and atol must both be given, or neither")
    numbers = not isinstance(actual, pf.Tensor)
    a, b = pf.as_tensor(actual), pf.as_tensor(expected)
    _differ(a.shape != b.shape, f"The values for attribute 'shape' do not match: {tuple(a.shape)} "
            f"!= {tuple(b.shape)}", msg)  # fmt: skip
    for name, asked in (("device", check_device), ("dtype", check_dtype and not numbers)):
        x, y = getattr(a, name), getattr(b, name)
        _differ(
            asked and x != y, f"The values for attribute '{name}' do not match: {x} != {y}", msg
        )
    _differ(check_stride and a.stride() != b.stride(), "The strides differ", msg)
    own = [_CLOSE.get(x.dtype.name, 0.0) for x in (a, b)]
    far = rtol if rtol is not None else max(own)
    near = atol if atol is not None else 1e-7 if max(own) == 1e-7 else 1e-5 if max(own) else 0.0
    to = pf.promote_types(a.dtype, b.dtype)
    a, b = a.to(b.device, to), b.to(to)
    close = pf.isclose(a, b, far, near, equal_nan)
    if not close.all():
        wrong = int((~close).sum())
        most = (a.double() - b.double()).abs().max().item() if not to.is_complex else "?"
        _differ(True, f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {a.numel()}\n"
                f"Greatest absolute difference: {most} (up to {near} allowed)\n"
                f"Relative differences up to {far} are allowed", msg)  # fmt: skip


def _differ(is_so: bool, said: str, msg: Any) -> None:
    if is_so:
        raise AssertionError(said if msg is None else msg(said) if callable(msg) else msg)


class TestCase(unittest.TestCase):
    """A test whose assertEqual compares tensors as assert_close does."""

    def assertEqual(self, first: Any, second: Any, msg: Any = None, **kwargs: Any) -> None:  # noqa: N802
        """AssertionError unless they are close."""
        if isinstance(first, pf.Tensor) or isinstance(second, pf.Tensor):
            kwargs.setdefault("check_dtype", kwargs.pop("exact_dtype", True))
            assert_close(first, second, equal_nan=True, msg=msg, **kwargs)
        else:
            super().assertEqual(first, second, msg)  # noqa: PT009


run_tests = unittest.main
