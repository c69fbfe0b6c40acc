"""torch._C: what pickles of PyTorch's name of it."""

from pyframe.torch.generator import Generator as Generator
