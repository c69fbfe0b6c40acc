"""The layers, a file a family, as torch.nn.modules."""

from pyframe.nn.modules.activation import *
from pyframe.nn.modules.adaptive import *
from pyframe.nn.modules.batchnorm import *
from pyframe.nn.modules.channelshuffle import *
from pyframe.nn.modules.container import *
from pyframe.nn.modules.conv import *
from pyframe.nn.modules.distance import *
from pyframe.nn.modules.dropout import *
from pyframe.nn.modules.flatten import *
from pyframe.nn.modules.fold import *
from pyframe.nn.modules.instancenorm import *
from pyframe.nn.modules.lazy import *
from pyframe.nn.modules.linear import *
from pyframe.nn.modules.loss import *
from pyframe.nn.modules.module import Module as Module
from pyframe.nn.modules.multihead import *
from pyframe.nn.modules.normalization import *
from pyframe.nn.modules.padding import *
from pyframe.nn.modules.pixelshuffle import *
from pyframe.nn.modules.pooling import *
from pyframe.nn.modules.rnn import *
from pyframe.nn.modules.sparse import *
from pyframe.nn.modules.transformer import *
from pyframe.nn.modules.upsampling import *

globals().pop("utils")  # the file; what takes all names from here has a module of this name
