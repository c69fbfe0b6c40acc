"""On PYTHONPATH: what Python runs takes this processor for one with AVX2 and no more (Haswell), its
LLVM, NumPy and OpenBLAS alike. The instructions beyond are still there; that nothing uses them is
for an emulator to say."""

import importlib.util
import os

LATER = ("amx", "avx10", "avx512", "avxifma", "avxneconvert", "avxvnni", "gfni", "sha512", "vaes",
         "vpclmulqdq")  # fmt: skip

os.environ["OPENBLAS_CORETYPE"] = "Haswell"
# what NumPy has kernels for beyond X86_V3; it warns of names that it does not know
os.environ["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"

if importlib.util.find_spec("llvmlite"):
    import llvmlite.binding as llvm

    found = llvm.get_host_cpu_features()
    for name in found:
        found[name] = found[name] and not name.startswith(LATER)
    llvm.get_host_cpu_name = lambda: "haswell"
    llvm.get_host_cpu_features = lambda: found
