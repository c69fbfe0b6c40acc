"""LLVM IR text of lane programs, for CPUs."""
