"""What training needs beside the layers, as torch.nn.utils."""

from pyframe.nn.utils import (
    parametrizations as parametrizations,
    parametrize as parametrize,
    prune as prune,
    rnn as rnn,
    stateless as stateless,
)
from pyframe.nn.utils.clip_grad import *
from pyframe.nn.utils.convert_parameters import *
from pyframe.nn.utils.fusion import *
from pyframe.nn.utils.init import skip_init as skip_init
from pyframe.nn.utils.memory_format import *
from pyframe.nn.utils.spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from pyframe.nn.utils.weight_norm import (
    remove_weight_norm as remove_weight_norm,
    weight_norm as weight_norm,
)
