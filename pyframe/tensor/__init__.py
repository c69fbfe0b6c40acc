"""Tensor: the class, how tensors are made from data, and what lies behind them."""

from pyframe.core.node import Size as Size
from pyframe.tensor.construction import (
    as_tensor as as_tensor,
    from_host as from_host,
    from_numpy as from_numpy,
    read_again as read_again,
    tensor as tensor,
    upload as upload,
)
from pyframe.tensor.copying import (
    _rebuild as _rebuild,
    asarray as asarray,
    from_dlpack as from_dlpack,
    frombuffer as frombuffer,
    unshare_storage as unshare_storage,
)
from pyframe.tensor.reading import (
    fetch_all as fetch_all,
    gather_async as gather_async,
    gather_begin as gather_begin,
)
from pyframe.tensor.tensor import (
    Tensor as Tensor,
    base_tensor as base_tensor,
    normalize_dim as normalize_dim,
)
from pyframe.tensor.writing import no_more_dims as no_more_dims

for _public in (Tensor, Size, _rebuild):
    _public.__module__ = "pyframe.tensor"  # the name that pickles know
