"""torch.nn.functional: layers, activations and losses as functions."""

from pyframe.nn.functional.activation import *
from pyframe.nn.functional.attention import *
from pyframe.nn.functional.ctc import *
from pyframe.nn.functional.dropouts import *
from pyframe.nn.functional.linear_maps import *
from pyframe.nn.functional.loss import *
from pyframe.nn.functional.normalization import *
from pyframe.nn.functional.resample import *
from pyframe.nn.functional.spatial import *
from pyframe.ops.api.public import publish as _publish

_MODULES = """activation attention ctc dropouts linear_maps loss normalization
resample spatial"""
_OUT = "avg_pool2d avg_pool3d gelu hardshrink linear logsigmoid softplus softshrink"
for _name in _MODULES.split():
    _publish(globals(), globals()[_name].__all__, _OUT)
