"""Ops that no function is of alone, so that they have no row: what tests them, and the operands and
attributes with which their kernels are compared with their fallbacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import given, ints, normal, positive

APART = {
    "const": "a number, which each row has",
    "to_device": "ops/test_ops.py",
    "iota": "ops/test_meanings.py",
    "random_bits": "ops/test_meanings.py, test_random.py",
    "uniform_from_bits": "ops/test_meanings.py, test_random.py",
    "normal_from_bits": "ops/test_meanings.py, test_random.py",
    "bfloat16_from_bits": "ops/test_meanings.py",
    "bits_from_bfloat16": "ops/test_meanings.py",
    "collective": "distributed/, in jobs of several processes",
    "attention_grad": "nn/test_attention.py",
    "packed_linear": "nn/test_quantized.py",
    "put_row": "index/rows.py writes a row in place of `put`",
    "put_row_over": "the same where the rest of the memory stays",
}

# queries, keys and values; a mask, a seed, how many weights dropout zeros, and a scale; a gradient;
# of the scores the logarithms of their sums, and how their gradients meet those of the weights
_QKV = normal(2, 4, 5, 3), normal(2, 2, 7, 3), normal(2, 2, 7, 6)
_GIVEN = (
    normal(2, 4, 5, 7),
    given([1, 2, 3], "uint32"),
    given(0.3, "float32"),
    given(0.6, "float32"),
)
_STATS = positive(2, 4, 5), positive(2, 4, 5)
_SCALE = given(np.linspace(-0.02, 0.02, 12).reshape(6, 2), "float32")

KERNELS: dict[str, tuple[Any, ...]] = {
    "attention": ((*_QKV, *_GIVEN), (True, True, True)),
    "attention_grad": ((*_QKV, normal(2, 4, 5, 6), *_STATS, *_GIVEN), (True, True, True)),
    "packed_linear": (
        (normal(1, 5, 64), ints(0, 1 << 31, 6, 2, 8, dtype="int32"), _SCALE, normal(6, 2)),
        (8, False),
    ),
    "put_row": ((normal(50), given(2), normal(3, 4)), ((5, 10), 2, 4)),
    "put_row_over": ((given(0), normal(3, 4)), ((3, 1, 4), 0, 1)),
}
