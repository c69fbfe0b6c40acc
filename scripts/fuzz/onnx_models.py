"""Programs that are exported as ONNX models, which onnxruntime and pyframe.onnx run."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import (
    NotImplemented as LacksKernelError,
    RuntimeException,
)

import pyframe as pf
from pyframe.export import ConstraintViolationError, check
from pyframe.jit.graph import mapped
from pyframe.tensor.tree import leaves, unflatten

OPSETS = 13, 17, 18, 20, 23, 24


class Exported:
    """In the place of a function: a call exports it, and gives what the model gives: with `reads`
    as pyframe.onnx reads it, else as onnxruntime does. With `sizes` it is exported for tensors that
    are shorter in their first dim, where the function can do with these."""

    def __init__(self, function: Callable[..., Any], reads: bool, sizes: bool) -> None:
        self.function, self.reads, self.sizes = function, reads, sizes

    def __call__(self, *args: Any) -> Any:
        self.tree: Any = None
        given = leaves(args)
        program = self.export(args, shorter(args) if self.sizes else None)
        check(program.graph, args, {})  # for which sizes it is
        proto = program.model_proto
        onnx.checker.check_model(proto, full_check=True)
        found = self.read(proto, given) if self.reads else self.run(proto, given)
        return unflatten([pf.from_numpy(x) for x in found], self.tree)

    def export(self, args: Any, example: Any) -> Any:
        """The program, for an example of other sizes if there is one that the function takes."""
        given = leaves(args)
        opset = OPSETS[zlib.crc32(repr([(x.shape, x.dtype) for x in given]).encode()) % len(OPSETS)]
        names = [f"in{i}" for i in range(len(given))]

        def step(*xs: Any) -> Any:
            out = self.function(*xs)
            self.tree = mapped(out, lambda v: v.detach() if isinstance(v, pf.Tensor) else v)
            return out

        if example is not None:
            axes = {
                name: {0: "b"}
                for name, x, y in zip(names, given, leaves(example), strict=True)
                if x.shape != y.shape
            }
            try:
                return pf.onnx.export(
                    step, example, kwargs={}, input_names=names, dynamic_axes=axes,
                    opset_version=opset,
                )  # fmt: skip
            except ConstraintViolationError:
                pass  # it is for one size alone
            except Exception:
                try:
                    with pf.no_grad():
                        self.function(*example)
                except Exception:  # it takes no other size
                    pass
                else:
                    raise
        return pf.onnx.export(step, args, kwargs={}, input_names=names, opset_version=opset)

    def run(self, proto: Any, given: list[Any]) -> list[Any]:
        """By onnxruntime, of which some kernels have not all dtypes."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, ["CPUExecutionProvider"]
            )
            inputs = {f"in{i}": x.detach().numpy() for i, x in enumerate(given)}
            return list(session.run(None, inputs))
        except (LacksKernelError, RuntimeException) as error:
            if isinstance(error, RuntimeException) and "is not supported with" not in str(error):
                raise
            raise pf.onnx.OnnxExporterError(f"onnxruntime has no kernel: {error}") from None

    def read(self, proto: Any, given: list[Any]) -> list[Any]:
        """By pyframe.onnx."""
        with pf.no_grad():
            found = leaves([pf.onnx.load(proto)(*given)])
        return [np.array(x.detach().numpy()) for x in found]


def shorter(args: Any) -> Any:
    """The arguments, with one less, but two at least, of what the first one has most of."""
    given = leaves(args)
    n = max((x.shape[0] for x in given if x.ndim), default=0)
    if n < 3:
        return None
    return unflatten(
        [x.detach()[:-1].clone() if x.ndim and x.shape[0] == n else x for x in given], args
    )
