"""What looks at Programs and models from outside: costs, drawings, the profiler, benchmarks."""
