"""What is not pyframe's mistake, or is documented: each with its reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from .program import Outcome, Program, Refused, Value

MODIFIED = "modified"  # how a program says that PyTorch refuses what was written to

# What PyTorch refuses of a dtype or for want of a kernel, and pyframe computes
ALLOWED = [
    r"not implemented for|not supported for|not currently supported|NotImplementedError",
    r"does not support .*(Half|BFloat16|bfloat16|float16)",
    r"derivative for .* is not implemented",  # here it has none, or has one
    r"^RuntimeError: \w+ must be contiguous",  # of gradients of some layouts
    "(at most|or equal to) half of kernel size",  # max_pool1d, and backward: without the dilation
    "Unsupported memory format",  # of a gradient that lies as channels-last does, by chance
    "is not differentiable with respect to argument",  # pyframe has that gradient
    "must be bool, not int",
    r"vmap: It looks like you're either",  # it calls .item() in losses
    "written-to tensor refers to a single memory location",  # by its forward gradients themselves
]

# What pyframe refuses on purpose
DOCUMENTED = [
    r"(device 'gpu'|the page's GPU).* has no (complex128|float64|float16)",
    "Cannot insert a Tensor that requires grad as a constant",  # a trace, as PyTorch's
    "onnx.export: .* can't be written: |onnxruntime has no kernel",
    "NumPy has none; use|No corresponding Numpy type",  # in which models take and give bfloat16
    "Guard failed: the graph is for sizes|a graph (can't say|would not say)",
    r"can't run on the CPU: .* has no (form (but in WGSL|in registers)|routine in WebAssembly)",
    r"can't be exported: .* (reads the value of|writes to|changes .* of) a tensor",
    r"program 'step' computes (on the CPU as well|nothing)",  # of its inputs
    "can't be exported: its calls are not alike, as .*grad",  # which add up
    "matmul: not implemented for bool",  # PyTorch takes them where there are no elements
    r"interpolate: mode '\w+' is not implemented for uint8",
    "complex: Expected float32 or float64, but got float16",  # there is no complex32
    r"\w+ must be an int or (two|three)",  # one in a tuple
    "Attempting to unscale FP16 gradients",  # also with fused=True
    "output padding must be smaller",  # PyTorch does not look at it where there are no images
]

UNWRITTEN: Counter[str] = Counter()  # how often ONNX has nothing for what

# What PyTorch computes or refuses wrongly: what stands in the program's text, and why
THEIRS = {
    r"(?s)(, 0\)\)\)|\(\(0, ).*bilinear\(": "it asks for a view (-1, 0)",
    r"(?s)(layer|group|batch)_norm\(.*create_graph.*create_graph.*create_graph": "its third "
    "derivative is none: a formula written in ops has ours",
    r"rfft\(x\)\.abs\(\)": "of a real number the third derivative is NaN",
    r"ldexp": "its gradient is 0 where the exponent is a negative int",
    r"(?s)\.permute\(.*local_response_norm": "it takes a view, which refuses some strides",
    r"(?s)\.expand\(.*(median|kthvalue)": "of a view that repeats elements it gives any number",
    r"pad\(.*-\d.*'circular'": "cut by a negative width, it gives what lay in memory, or "
    "refuses its own writes",
    r"interpolate\(.*antialias=True": "of an output one column wide all rows are the first",
    r"(?s)astype\('(bool|uint8)'\).*atan2\(": "its gradient negates them, modulo 256",
    r"(?s)float64.*celu\(": "its gradient takes 1 / alpha as a float32",
    r"(?s)float64.*(digamma|polygamma|lgamma)\(": "its trigamma has nine digits; SciPy has ours",
    r"EmbeddingBag\(.*scale_grad_by_freq=True": "it divides by how often other rows are named",
    r"(?s)float64.*ASGD\(.*foreach=True": "it computes eta in float32 then",
    r"(?s)SGD\([^\n]*momentum=[^\n]*fused=True.*GradScaler": "the momentum of a first step that is "
    "skipped is what lay in memory",
    r"multi_margin_loss|multilabel_margin_loss": "of no rows it gives what lay in memory",
}

# Of float64 beyond 5 PyTorch has seven digits (an integral and SciPy have ours)
SEVEN_DIGITS = {f"special.bessel_{kind}" for kind in ("j0", "j1", "y0", "y1")}


def theirs(program: Program) -> bool:
    """Whether PyTorch's own result, or its error, may be wrong."""
    return any(re.search(pattern, program.text()) for pattern in THEIRS)


def mine(theirs: Refused) -> bool:
    """Whether PyTorch refuses what pyframe may take."""
    return any(re.search(pattern, theirs.text) for pattern in ALLOWED)


def alike(theirs: Refused, found: Refused) -> bool:
    """Whether both say that an index is out of range, which PyTorch raises as an IndexError or a
    RuntimeError by op and number of dims."""
    return all(re.search(r"(?i)out of (data )?(bounds|range)", r.text) for r in (theirs, found))


def late(rough: Outcome, found: Refused) -> bool:
    """Whether an index is out of range that PyTorch refused within a step, as programs.py notes it:
    a GPU tells of it where a value is read."""
    said = [
        str(v.array) for call in rough for v in call if isinstance(v, Value) and not v.array.ndim
    ]
    return "out of range" in found.text and "step: RuntimeError" in said


def went_on(theirs: np.ndarray) -> bool:
    """Whether PyTorch refuses, in a program of programs.py, a result that was written to; pyframe
    may not: what a compiled function has saved is its own, and so is what lies in another order
    than the result."""
    return str(theirs).endswith(MODIFIED)


def documented(found: Refused) -> bool:
    """Whether pyframe's refusal is documented."""
    if unwritten := re.search(r"onnx.export: (.*)", found.text):
        UNWRITTEN[re.sub(r" in \S+ can't be| can't be", " is not", unwritten[1])] += 1
    return any(re.search(pattern, found.text) for pattern in DOCUMENTED)


def of_values(found: Outcome) -> bool:
    """Whether a meta tensor was to have values."""
    return isinstance(found, Refused) and bool(re.search("no data!|called on meta", found.text))


def of_the_driver(again: list[str]) -> bool:
    """Whether the same case holds where Mesa's software driver optimises nothing: it miscompiles
    some kernels, such as those with atan(log1p(|v|)) beside a stored v."""
    if os.environ.get("GALLIVM_PERF"):
        return False
    command = [sys.executable, str(Path(__file__).parent), *again, "--plain"]
    done = subprocess.run(
        command, env=os.environ | {"GALLIVM_PERF": "nopt"}, capture_output=True, timeout=300
    )
    return done.returncode == 0
