"""Lane programs: kernels as loops over SIMD lanes, which the CPU's code generators print."""
