"""Operators of onnxruntime's own that exported language models need."""
