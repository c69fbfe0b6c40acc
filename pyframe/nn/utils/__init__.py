"""What training needs beside the layers, as torch.nn.utils."""

from pyframe.nn.utils import rnn as rnn
