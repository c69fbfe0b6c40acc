"""Layers, losses and their containers, as torch.nn."""

from pyframe.nn import (
    attention as attention,
    functional as functional,
    init as init,
    modules as modules,
)
from pyframe.nn.functional.loss import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from pyframe.nn.modules import *
from pyframe.nn.parallel import DataParallel as DataParallel
from pyframe.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

from pyframe.nn import parallel as parallel, utils as utils  # isort: skip  (modules has a utils too)
