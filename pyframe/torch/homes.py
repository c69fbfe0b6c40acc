"""What classes and functions of pyframe are called where programs look, and what pickles are made
of: PyTorch's names, so that PyTorch reads what is pickled here.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

import pyframe
from pyframe.core import moved
from pyframe.core.node import Storage
from pyframe.io import pt
from pyframe.nn.modules.rnn import RNNBase
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor
from pyframe.tensor.copying import leaf_alias
from pyframe.tensor.memory_format import layout
from pyframe.torch._tensor import _rebuild_from_type_v2
from pyframe.torch._utils import _rebuild_parameter, _rebuild_tensor_v2
from pyframe.torch.storage import _load_from_bytes, storage

# Packages whose modules have PyTorch's names but for the first words.
_PACKAGES = {
    "pyframe.nn": "torch.nn", "pyframe.optim": "torch.optim", "pyframe.data": "torch.utils.data",
    "pyframe.utils": "torch.utils", "pyframe.vision": "torchvision",
    "pyframe.distributions": "torch.distributions",
}  # fmt: skip
# Classes of these and of pyframe's inner packages that have another module in PyTorch.
_HOMES = """
torch BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor Generator HalfTensor
    IntTensor LongTensor OutOfMemoryError ShortTensor Size Tensor device dtype finfo iinfo layout
    memory_format
torch.nn.modules.batchnorm BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d
    LazyBatchNorm3d SyncBatchNorm
torch.nn.modules.channelshuffle ChannelShuffle
torch.nn.modules.distance CosineSimilarity PairwiseDistance
torch.nn.modules.dropout AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout
torch.nn.modules.flatten Flatten Unflatten
torch.nn.modules.fold Fold Unfold
torch.nn.modules.instancenorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d
torch.nn.modules.padding CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
    ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
    ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d
torch.nn.modules.pixelshuffle PixelShuffle PixelUnshuffle
torch.nn.modules.sparse Embedding EmbeddingBag
torch.nn.modules.upsampling Upsample UpsamplingBilinear2d UpsamplingNearest2d
torch.optim Adafactor Muon
torch.optim.adadelta Adadelta
torch.optim.adagrad Adagrad
torch.optim.adam Adam
torch.optim.adamax Adamax
torch.optim.adamw AdamW
torch.optim.asgd ASGD
torch.optim.nadam NAdam
torch.optim.radam RAdam
torch.optim.rmsprop RMSprop
torch.optim.rprop Rprop
torch.optim.sgd SGD
torch.optim.sparse_adam SparseAdam
torch.utils.data.distributed DistributedSampler
"""


def _read(text: str) -> dict[str, str]:
    homes, home = {}, ""
    for word in text.split():
        if word.startswith("torch"):
            home = word
        else:
            homes[word] = home
    return homes


_home = _read(_HOMES)


def name_as_pytorch(found: Any, where: str) -> str | None:
    """Let a class or function of pyframe's, which a module called `where` has, be of the module
    that it is of in PyTorch; gives that one's name, if it is another."""
    module = getattr(found, "__module__", None)
    if not isinstance(module, str) or not module.startswith("pyframe."):
        return None
    package = ".".join(module.split(".")[:2])
    usual = _PACKAGES.get(package)
    if isinstance(found, FunctionType):
        home = where if where == "torch.nn.functional" else None
    elif not isinstance(found, type):
        return None
    else:
        home = _home.get(found.__name__)
        if usual and not (home and home.startswith(usual)):
            home = usual + module[len(package) :]
    if home is not None:
        moved[id(found)] = module
        found.__module__ = home
    return home


# --- pickles


def _reduce_tensor(self: Tensor, protocol: Any) -> Any:
    """The memory, which tensors that share it have in common, and how a tensor lies in it."""
    kind = type(self)
    if self.__dict__ or kind not in (Tensor, Parameter):
        plain = leaf_alias(Parameter if kind is Parameter else Tensor, self, self.requires_grad)
        made = _reduce_tensor(plain, protocol)
        return _rebuild_from_type_v2, (made[0], kind, made[1], self.__dict__)
    hooks: dict[str, Any] = OrderedDict()
    x = leaf_alias(Tensor, self, False)
    if kind is Parameter:
        return _rebuild_parameter, (x, self.requires_grad, hooks)
    memory = x._storage.node
    apart = isinstance(memory.data, np.ndarray) and not memory.data.flags.c_contiguous
    if apart or memory.dtype is not x.dtype or x.dtype in pt._LATE:
        return _load_from_bytes, (_saved(leaf_alias(Tensor, self, self.requires_grad)),)
    where = x.storage_offset(), tuple(x.shape), tuple(x.stride())
    return _rebuild_tensor_v2, (x._storage, *where, self.requires_grad, hooks)


def _saved(x: Any) -> bytes:
    file = io.BytesIO()
    pt.save(x, file)
    return file.getvalue()


def _reduce_device(self: Any) -> Any:
    args = ("cpu",) if self.kind == "cpu" else (self.type, self.index)
    return import_module("torch").device, args


def _state_of_recurrent(self: Any) -> dict[str, Any]:
    names = self._flat_weights_names
    return super(RNNBase, self).__getstate__() | {
        "_flat_weights_names": names, "_flat_weights": self._flat_weights
    }  # fmt: skip


def install() -> None:
    """Let pickles be PyTorch's from now on."""
    changes: Any = (
        (Tensor, "__reduce_ex__", _reduce_tensor), (pyframe.device, "__reduce__", _reduce_device),
        (Storage, "__reduce__", lambda self: (_load_from_bytes, (_saved(self),))),
        (layout, "__reduce__", lambda self: self._name),
        (RNNBase, "__getstate__", _state_of_recurrent), (Tensor, "storage", storage),
    )  # fmt: skip
    for kind, name, value in changes:
        setattr(kind, name, value)
