"""WGSL from scheduled kernels: `generate(kernel)` is the code generator of the GPU backends."""

from pyframe.codegen.wgsl.printer import Shader, generate

__all__ = ["Shader", "generate"]
