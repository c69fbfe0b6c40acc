"""The one place where Tensor gets the methods that are written in modules above its own."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from pyframe import ops
from pyframe.autograd import methods as autograd
from pyframe.ops.api import public
from pyframe.ops.api.layouts import texts
from pyframe.ops.api.public import as_public
from pyframe.ops.math.operators import OPERATORS, PROPERTIES
from pyframe.ops.shape import conversion
from pyframe.tensor import Tensor, copying, memory_format, storage


def _false(what: str) -> property:
    return property(
        lambda self: False, doc=f"False: there are no {what} tensors; for PyTorch's code."
    )


def _itself(doc: str) -> Callable[..., Tensor]:
    def run(self: Tensor, *args: Any) -> Tensor:
        return self

    run.__doc__ = doc
    return run


def _no(doc: str) -> Callable[..., bool]:
    def run(self: Tensor, *args: Any) -> bool:
        return False

    run.__doc__ = doc
    return run


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The array API standard for tensors: pyframe.array_api. ValueError for a later version."""
    from pyframe import array_api

    if api_version not in (None, *array_api.VERSIONS):
        raise ValueError(
            f"__array_namespace__: version {api_version} of the array API is not supported; there "
            f"are {', '.join(array_api.VERSIONS)}"
        )
    return array_api


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """As `to`, by the array API's name. `stream` is ignored."""
    return self.to(device)


# --- derived classes


def _overrides() -> Any:
    """What they load, when the first is defined."""
    from pyframe import overrides

    return overrides


def _init_subclass(cls: Any, **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)
    if cls._takes_over or "__torch_function__" in cls.__dict__:
        _overrides().begin(cls)


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a derived class makes of a call: the result as tensors of its own."""
    return _overrides().plain(cls, func, types, args, kwargs)


def as_subclass(self: Tensor, cls: Any) -> Any:
    """A tensor of a class derived from Tensor with this one's memory and history.

    Args:
        cls: The class; TypeError for another.

    >>> class Own(pf.Tensor):
    ...     pass
    >>> type(pf.ones(1).as_subclass(Own) + 1).__name__
    'Own'
    """
    return _overrides().as_subclass(self, cls)


public.INSTEAD.append(lambda *call: _overrides().instead(*call))
_NOT_PINNED = _no("False: memory need not be pinned.")
_PINNED = _itself("The tensor itself: memory need not be pinned.")

_METHODS: dict[str, Any] = {
    # the families of ops
    **{name: as_public(name, fn) for name, fn in {**ops.METHODS, **ops.ONLY_METHODS}.items()},
    **ops.VARIANTS,
    **OPERATORS,
    **PROPERTIES,
    # conversions, which are written in ops too
    "__init__": conversion.initialize,
    "to": conversion.to,
    **conversion.TO_DTYPES,
    "type": conversion.type_,
    "type_as": conversion.type_as,
    "to_dense": conversion.to_dense,
    "cpu": conversion.cpu,
    "gpu": conversion.gpu,
    "cuda": conversion.gpu,
    "new": conversion.new,
    "new_tensor": conversion.new_tensor,
    # autograd
    "backward": autograd.backward,
    "register_hook": autograd.register_hook,
    "register_post_accumulate_grad_hook": autograd.register_post_accumulate_grad_hook,
    "retain_grad": autograd.retain_grad,
    "retains_grad": property(autograd.retains_grad),
    # what lies behind a tensor
    "storage": storage.untyped_storage,
    "untyped_storage": storage.untyped_storage,
    "storage_offset": storage.storage_offset,
    "data_ptr": storage.data_ptr,
    "const_data_ptr": storage.data_ptr,
    "is_set_to": storage.is_set_to,
    "dim_order": memory_format.dim_order,
    "layout": property(memory_format.layout_of),
    "__dlpack__": copying.to_dlpack,
    "__dlpack_device__": copying.dlpack_device,
    "__array_namespace__": _array_namespace,
    "to_device": to_device,
    # classes derived from it
    "_takes_over": True,  # their __torch_function__ is asked
    "__init_subclass__": classmethod(_init_subclass),  # type: ignore[arg-type]
    "__torch_function__": classmethod(_torch_function),
    "as_subclass": as_subclass,
    "_make_subclass": staticmethod(lambda *a: _overrides().make_subclass(*a)),
    # copies and pickles
    "__reduce_ex__": copying.reduce_ex,
    "__copy__": copying.shallow_copy,
    "__deepcopy__": copying.deep_copy,
    "share_memory_": copying.share_memory_,
    "is_shared": copying.is_shared,
    # names that PyTorch's code asks for
    **{
        f"is_{what}": _false(what)
        for what in "sparse sparse_csr quantized mkldnn mps xpu nested".split()
    },
    "pin_memory": _PINNED,
    "is_pinned": _NOT_PINNED,
}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
if texts:
    for _name, _method in vars(Tensor).items():
        if not _name.startswith("_") and isinstance(_method, FunctionType | property):
            _method.__doc__ = texts.complete(_method, _name)
