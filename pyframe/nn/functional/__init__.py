"""torch.nn.functional: layers, activations and losses as functions."""

from pyframe.nn.functional import activation, layer, loss, resample, spatial
from pyframe.nn.functional.activation import *
from pyframe.nn.functional.layer import *
from pyframe.nn.functional.loss import *
from pyframe.nn.functional.resample import *
from pyframe.nn.functional.spatial import *
from pyframe.ops.public import publish

for _module in (activation, layer, loss, resample, spatial):
    publish(globals(), _module.__all__)
