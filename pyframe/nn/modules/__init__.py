"""The layers, a file a family, as torch.nn.modules."""

from pyframe.core import also_named as _also_named
from pyframe.nn.modules.activation import *
from pyframe.nn.modules.adaptive import *
from pyframe.nn.modules.container import *
from pyframe.nn.modules.conv import *
from pyframe.nn.modules.linear import *
from pyframe.nn.modules.loss import *
from pyframe.nn.modules.module import Module as Module
from pyframe.nn.modules.normalization import *
from pyframe.nn.modules.pooling import *
from pyframe.nn.modules.rnn import *
from pyframe.nn.modules.shapes import *
from pyframe.nn.modules.transformer import *
from pyframe.nn.modules.utils import *
from pyframe.ops.api.layouts import texts as _texts

_also_named(__name__, "activation", "dropout")
_also_named(__name__, "linear", "sparse")
_also_named(__name__, "loss", "distance")
_also_named(__name__, "utils", "lazy")
_also_named(__name__, "normalization", "batchnorm instancenorm")
_also_named(__name__, "shapes", "channelshuffle flatten fold padding pixelshuffle upsampling")
globals().pop("utils")  # the file; what takes all names from here has a module of this name
if _texts:
    _texts.complete_docstrings(globals())
