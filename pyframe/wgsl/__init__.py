"""WGSL from scheduled kernels: `generate(kernel)` is the code generator of the GPU backends."""

from pyframe.wgsl.codegen import Shader, generate

__all__ = ["Shader", "generate"]
