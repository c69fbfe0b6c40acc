"""The ONNX project's own tests of each operator, which come with the onnx package."""

from __future__ import annotations

import functools
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pyframe as pf

pytest.importorskip("onnx.defs", reason="the package onnx is not installed")
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from pyframe.onnx import values

# Cases that do not pass, by their names, and why; each line must be needed.
REASONS = {
    r"adagrad|adam|(nesterov_)?momentum": "optimizers of the preview domain; pf.optim has them",
    r"image_decoder_": "decodes files, which is no operation on tensors",
    r"training_dropout(_default)?(_mask)?": "NumPy's own random numbers are expected",
    r"attention_.*_(bf16|fp16)(_expanded)?": "rounds each step to the dtype as NumPy does",
}
REASONS_ON_GPU = {
    **REASONS,
    "attention_local_window_gqa_rank4_mask|reduce_log_sum_exp_empty_set": "computes in float64",
}
RANDOM = re.compile(r"bernoulli")  # of which only shapes and dtypes can be compared
USUAL = {1, 6, 7, 9}  # float32, int32, int64, bool
Case = Any


@functools.cache
def cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, where the package computes what is expected
        return list(load_model_tests(kind="node"))


def array(value: Any) -> Any:
    """What a case gives or expects, in NumPy."""
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if value is None or isinstance(value, list):
        return value
    value = np.asarray(value)
    return value.astype(str) if value.dtype == object else value


def given(value: Any, device: str) -> Any:
    """An input: a tensor where there is a dtype for it."""
    value = array(value)
    if isinstance(value, list):
        return [given(v, device) for v in value]
    return values.tensor(value, device) if value is not None and values.dtype_of(value) else value


def check(got: Any, want: Any, case: Case, device: str) -> None:
    want = array(want)
    if isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            check(one, other, case, device)
        return
    if want is None:
        assert got is None
        return
    got = values.array(got)
    assert got.shape == want.shape
    if want.dtype.kind == "U":
        assert got.tolist() == want.tolist()
        return
    assert got.dtype == want.dtype
    if RANDOM.search(case.name):
        return
    if values.dtype_of(want) is None or want.dtype.name == "bfloat16":
        got, want = got.astype(np.float32), want.astype(np.float32)
    atol = max(case.atol, 1e-5 if device == "gpu" else 1e-6)
    np.testing.assert_allclose(got, want, rtol=case.rtol, atol=atol)


def run(case: Case, device: str) -> None:
    net = pf.onnx.load(case.model).to(device)
    for inputs, outputs in case.data_sets:
        taken = [given(v, device) for v in inputs]
        with pf.no_grad():
            got = net(*taken)
        for one, want in zip((got,) if len(outputs) == 1 else got, outputs, strict=True):
            check(one, want, case, device)
            if any(isinstance(v, pf.Tensor) for v in taken) and isinstance(one, pf.Tensor):
                assert one.device.type == device


def types(case: Case) -> set[int]:
    """The dtypes of a case's inputs and outputs."""
    found = set()
    for value in (*case.model.graph.input, *case.model.graph.output):
        kind = value.type
        while kind.WhichOneof("value") in ("optional_type", "sequence_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        found.add(kind.tensor_type.elem_type)
    return found


def is_default(case: Case) -> bool:
    return {n.domain for n in case.model.graph.node} <= {"", "ai.onnx"}


def failing(some: list[Case], device: str) -> dict[str, Exception]:
    found = {}
    for case in some:
        try:
            run(case, device)
        except Exception as error:
            found[case.name.removeprefix("test_")] = error
    return found


def unexplained(failed: dict[str, Exception], reasons: dict[str, str]) -> dict[str, Exception]:
    known = re.compile("|".join(f"(?:{reason})" for reason in reasons))
    return {name: error for name, error in failed.items() if not known.match(name)}


def test_operators() -> None:
    """At least 90 % of all cases of the default domain, 97 % of those in the usual dtypes."""
    failed = failing(cases(), "cpu")
    assert unexplained(failed, REASONS) == {}
    unneeded = [p for p in REASONS if not any(re.match(p, name) for name in failed)]
    assert unneeded == []
    total: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for case in filter(is_default, cases()):
        for kind in ("all", *["usual"] * (types(case) <= USUAL)):
            total[kind] += 1
            passed[kind] += case.name.removeprefix("test_") not in failed
    assert total["all"] > 1500
    assert passed["all"] / total["all"] >= 0.9
    assert passed["usual"] / total["usual"] >= 0.97


def test_operators_on_a_gpu(gpu: str) -> None:
    """At least 85 % of those whose dtypes it has; a software driver runs a part of them."""
    lacked = pf.float64, pf.complex128, pf.uint64
    lacking = {n for n, dtype in values.DTYPES.items() if dtype in lacked}
    step = 32 if pf.device("gpu").executor.backend.software else 1
    some = [c for c in cases() if is_default(c) and not types(c) & lacking][::step]
    failed = failing(some, gpu)
    assert unexplained(failed, REASONS_ON_GPU) == {}
    assert len(failed) / len(some) <= 0.15
