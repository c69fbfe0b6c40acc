"""PyTorch's own operator database against pyframe: see tests/test_conformance.py."""
