"""Bad input: each error names the op, what was seen, what was expected, and a way on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F

SHAPES: list[tuple[Callable[[str], Any], type[Exception], str]] = [
    (lambda d: pf.ones(2, 3, device=d) + pf.ones(4, device=d), RuntimeError,
     r"add: shapes \[2, 3\] and \[4\] don't broadcast: sizes 3 and 4 differ at dim 1"),
    (lambda d: pf.ones(2, 3, device=d) @ pf.ones(4, 5, device=d), RuntimeError,
     r"matmul: mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
    (lambda d: F.linear(pf.ones(2, 3, device=d), pf.ones(4, 5, device=d)), RuntimeError,
     r"linear: input of shape \[2, 3\] has 3 features, but weight of shape \[4, 5\] expects 5"),
    (lambda d: F.conv2d(pf.ones(1, 3, 8, 8, device=d), pf.ones(4, 2, 3, 3, device=d)), RuntimeError,
     r"conv2d: .*expected input\[1, 3, 8, 8\] to have 2 channels, but got 3 channels"),
    (lambda d: F.conv2d(pf.ones(1, 1, 2, 2, device=d), pf.ones(1, 1, 3, 3, device=d)), RuntimeError,
     "Kernel size can't be greater than actual input size"),
    (lambda d: F.max_pool2d(pf.ones(1, 1, 4, 4, device=d), 2, padding=2), RuntimeError,
     "max_pool2d: pad must be non-negative and at most half of effective kernel size"),
    (lambda d: pf.cat([pf.ones(2, 3, device=d), pf.ones(2, 4, device=d)]), RuntimeError,
     r"cat: Sizes of tensors must match except in dimension 0. Expected \[2, 3\] but got \[2, 4\]"),
    (lambda d: pf.ones(2, 3, device=d).expand(4, 3), RuntimeError,
     r"expand: the expanded size \(4\) must match the existing size at dim 0"),
    (lambda d: pf.ones(2, 3, device=d).permute(0, 0), RuntimeError, "expected each dim once"),
    (lambda d: pf.ones(0, 3, device=d).amax(0), IndexError,
     "an empty reduction has no identity"),
    (lambda d: pf.ones(3, dtype=pf.int64, device=d).mean(), RuntimeError, "use .float"),
    (lambda d: F.layer_norm(pf.ones(2, 3, device=d), (4,)), RuntimeError,
     r"layer_norm: Given normalized_shape=\[4\]"),
    (lambda d: F.cross_entropy(pf.ones(4, 3, device=d), pf.zeros(5, dtype=pf.int64, device=d)),
     ValueError, "to match target batch_size"),
    (lambda d: pf.ones(2, device=d) + "x", TypeError, "unsupported operand"),
    (lambda d: pf.add(pf.ones(2, device=d), "x"), TypeError,
     "add: expected a Tensor or a number, got str"),
    (lambda d: pf.ones(2, device=d) & pf.ones(2, device=d), RuntimeError,
     "bitwise_and: not implemented for float32; use ints or bool"),
    (lambda d: pf.ones(2, dtype=pf.bool, device=d) - pf.ones(2, dtype=pf.bool, device=d),
     RuntimeError, "sub: not supported for bool tensors"),
    (lambda d: pf.where(pf.ones(2, device=d), 1.0, 0.0), RuntimeError,
     "where: expected condition to be a bool tensor, but got float32"),
    (lambda d: pf.zeros(2, -1, device=d), RuntimeError, "negative dimension"),
    (lambda d: pf.ones(2, device=d).item(), RuntimeError, "cannot be converted to Scalar"),
    (lambda d: bool(pf.ones(2, device=d)), RuntimeError, "Boolean value of Tensor"),
    (lambda d: F.dropout(pf.ones(2, device=d), 1.5), ValueError, "between 0 and 1, but got 1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), SHAPES)
def test_what_does_not_fit(call: Any, kind: Any, message: str, device: str) -> None:
    with pytest.raises(kind, match=message):
        call(device)


INDICES: list[tuple[Callable[[str], Any], str]] = [
    (lambda d: F.embedding(pf.tensor([0, 3], device=d), pf.ones(3, 2, device=d)),
     "embedding: index out of range: expected 0 to 2"),
    (lambda d: F.cross_entropy(pf.ones(2, 3, device=d), pf.tensor([0, 3], device=d)),
     "cross_entropy: target out of range: expected 0 to 2"),
    (lambda d: F.nll_loss(pf.ones(2, 3, device=d), pf.tensor([-1, 0], device=d)),
     "nll_loss: target out of range: expected 0 to 2"),
    (lambda d: pf.ones(3, 2, device=d)[pf.tensor([0, -4], device=d)], "out of range for size 3"),
    (lambda d: pf.ones(3, 2, device=d).take(pf.full((3, 1), 6, device=d)),
     "take: index .*out of range for size 6"),
    (lambda d: pf.ones(3, device=d).index_select(0, pf.tensor([5], device=d)),
     "index_select: index .*out of range for size 3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), INDICES)
def test_indices_out_of_range(call: Any, message: str, device: str) -> None:
    """At once on the CPU, at the next read on the GPU, which goes on working afterwards."""
    if device == "cpu":
        with pytest.raises(IndexError, match=message):
            call(device)
    else:
        out = call(device)
        with pytest.raises(IndexError, match=message):
            out.sum().item()
    assert pf.ones(3, device=device).sum().item() == 3


def test_ignored_targets_are_in_range(device: str) -> None:
    x = pf.zeros(3, 4, device=device)
    loss = F.cross_entropy(x, pf.tensor([1, -100, 2], device=device))
    assert loss.item() == pytest.approx(np.log(4))


def test_mixed_devices(gpu: str) -> None:
    with pytest.raises(RuntimeError, match="add: Expected all tensors to be on the same device"):
        pf.ones(2) + pf.ones(2, device=gpu)
    with pytest.raises(RuntimeError, match=r"matmul: .*but found cpu and gpu; move one with \.to"):
        pf.ones(2, 2) @ pf.ones(2, 2, device=gpu)
    assert (pf.tensor(2.0) * pf.ones(2, device=gpu)).tolist() == [2, 2]  # a 0-d tensor may follow


def test_dtypes_that_the_gpu_lacks(gpu: str) -> None:
    for make in (
        lambda: pf.ones(2, dtype=pf.float64, device=gpu),
        lambda: pf.ones(2, dtype=pf.float64).to(gpu),
        lambda: pf.ones(2, device=gpu).double(),
    ):
        with pytest.raises(TypeError, match=r"device 'gpu' has no float64; use float32"):
            make()
    x = pf.arange(2, device=gpu)
    for big in (
        lambda: pf.tensor([2**32], device=gpu),
        lambda: pf.full((2,), 2**32, device=gpu),
        lambda: x + 2**32,
        lambda: x < 2**32,
        lambda: x.clamp(max=2**32),
        lambda: x.clone().copy_(pf.tensor([2**32, 0])),
    ):
        with pytest.raises(OverflowError, match=r"held in 32 bits on the GPU and 4294967296"):
            big()
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        pf.ones(2, device=gpu).numpy()


def test_unknown_devices() -> None:
    with pytest.raises(RuntimeError, match="unknown device 'tpu'; expected 'cpu', 'gpu'"):
        pf.ones(2, device="tpu")
    assert pf.device("cuda") is pf.device("gpu")
    assert str(pf.device("webgpu:1")) == "gpu:1"


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {k: v for k, v in os.environ.items() if k != "PYFRAME_ADAPTER"} | env
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=settings, check=False
    )


def test_no_gpu_says_what_was_looked_for() -> None:
    """With no Vulkan driver to be found, 'gpu' is an error and 'auto' is the CPU."""
    hidden = {"VK_DRIVER_FILES": os.devnull, "VK_ICD_FILENAMES": os.devnull}
    done = python(
        "import pyframe as pf\nprint(pf.device('auto'))\npf.ones(2, device='gpu')", **hidden
    )
    assert done.stdout == "cpu\n"
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: device 'gpu': no such GPU; looked for Vulkan, Metal")
    assert "found none" in last
    assert "use device='cpu'" in last


def test_a_software_adapter_warns_once(gpu: str) -> None:
    code = "import pyframe as pf\nx = pf.ones(2, device='gpu') + 1\n"
    code += "print(x.tolist(), pf.device('auto'))"
    done = python(code)
    if "a software adapter" not in done.stderr:
        pytest.skip("this machine has a real GPU")
    assert done.stdout == "[2.0, 2.0] cpu\n"
    assert done.stderr.count("UserWarning") == 1
    assert python(code, PYFRAME_ADAPTER="software").stderr.count("UserWarning") == 0
