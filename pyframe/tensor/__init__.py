"""Tensor: the class, how tensors are made from data, and what lies behind them."""

from pyframe.tensor.tensor import (
    Size as Size,
    Tensor as Tensor,
    _op as _op,
    as_tensor as as_tensor,
    from_host as from_host,
    from_numpy as from_numpy,
    gather as gather,
    gather_async as gather_async,
    gather_begin as gather_begin,
    no_more_dims as no_more_dims,
    normalize_dim as normalize_dim,
    own_storage as own_storage,
    tensor as tensor,
    upload as upload,
    whole_of as whole_of,
)
