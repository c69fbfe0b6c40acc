"""Tensors that are made: constants, ranges, windows, random numbers."""
