"""Convolution, pooling, resampling, sliding windows."""
