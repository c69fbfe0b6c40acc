"""torch.nn.functional: layers, activations and losses as functions."""

from pyframe.nn.functional.activation import *
from pyframe.nn.functional.layer import *
from pyframe.nn.functional.loss import *
from pyframe.nn.functional.resample import *
from pyframe.nn.functional.spatial import *
