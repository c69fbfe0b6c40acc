"""torch.nn.parallel for one device: a program that spreads over all GPUs runs on the one it has."""

from __future__ import annotations

from typing import Any

from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """A module on the device where it lies; its state_dict's names begin with "module."."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.device_ids, self.dim = module, list(device_ids or []), dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives for inputs that lie where its parameters do, or are moved there."""
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


class DistributedDataParallel(Module):
    """RuntimeError: pyframe trains in one process."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "DistributedDataParallel: pyframe trains in one process, on one device; use the module "
            "itself, or DataParallel"
        )
