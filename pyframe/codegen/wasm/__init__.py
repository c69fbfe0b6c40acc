"""WebAssembly SIMD: kernels and routines of the page's CPU as binary modules."""
