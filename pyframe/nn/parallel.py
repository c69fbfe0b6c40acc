"""torch.nn.parallel: a program that spreads over the GPUs of a process runs on the one it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

if TYPE_CHECKING:
    from pyframe.nn.distributed import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module on the device where it lies, for programs of several GPUs; its state_dict's names
    begin with "module.".

    Args:
        module: what it calls.
        device_ids, output_device, dim: they change nothing.

    >>> list(nn.DataParallel(nn.Linear(2, 3)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.device_ids, self.dim = module, list(device_ids or []), dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives for inputs that lie where its parameters do, or are moved there.

        Args:
            inputs, kwargs: what the module takes.
        """
        found = next(self.module.parameters(), None)
        if found is not None:
            inputs = tuple(x.to(found.device) if isinstance(x, Tensor) else x for x in inputs)
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """module(*inputs), on one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """DistributedDataParallel, which few programs need, loads late."""
        if name == "DistributedDataParallel":
            from pyframe.nn.distributed import DistributedDataParallel

            return DistributedDataParallel
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
