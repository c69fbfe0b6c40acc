"""Layers, losses and their containers, as torch.nn."""

from pyframe.nn import functional as functional, init as init
from pyframe.nn.functional.loss import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from pyframe.nn.layers import *  # noqa: F403
from pyframe.nn.module import (
    Module as Module,
    ModuleDict as ModuleDict,
    ModuleList as ModuleList,
    Parameter as Parameter,
    ParameterList as ParameterList,
    Sequential as Sequential,
)
