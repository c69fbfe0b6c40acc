"""Of torch.distributed: meshes of processes, gathering with a gradient, groups, joining."""

from __future__ import annotations

from typing import Any

import pyframe as pf
import pyframe.distributed as dist
from pyframe.tensor import Tensor


def _get_default_group() -> Any:
    """The group of all. ValueError before init_process_group."""
    if not dist.is_initialized():
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return dist.group.WORLD


class _Gather(pf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Any:
        """What each has."""
        ctx.group = group
        found = [pf.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(found, tensor.contiguous(), group=group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """What all have for this one's."""
        own = pf.empty_like(grads[0])
        dist.reduce_scatter(own, [g.contiguous() for g in grads], group=ctx.group)
        return own, None


def all_gather(tensor: Tensor, group: Any = None) -> Any:
    """The tensors of all processes, through which gradients go back to each."""
    return _Gather.apply(tensor, group)


class DeviceMesh:
    """The processes as an array of so many dims; those along a dim are a group."""

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> None:
        self.device_type, self.mesh_dim_names = device_type, mesh_dim_names
        self.mesh = pf.as_tensor(mesh)
        self._groups = [self._along(dim) for dim in range(self.mesh.ndim)]

    def _along(self, dim: int) -> Any:
        own = None
        for row in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist():
            group = dist.new_group(row)
            own = group if dist.get_rank() in row else own
        return own

    @property
    def ndim(self) -> int:
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or of those along a dim."""
        return self.mesh.numel() if mesh_dim is None else int(self.mesh.shape[mesh_dim])

    def _dim(self, of: Any) -> int:
        if isinstance(of, str):
            return (self.mesh_dim_names or ()).index(of)
        if of is None and self.ndim > 1:
            raise RuntimeError(f"DeviceMesh: say which of its {self.ndim} dims")
        return of or 0

    def get_group(self, mesh_dim: Any = None) -> Any:
        """The group of this process along a dim, which is a number or a name."""
        return self._groups[self._dim(mesh_dim)]

    def get_rank(self) -> int:
        """The number of this process."""
        return dist.get_rank()

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """Its number along a dim."""
        return dist.get_rank(self.get_group(mesh_dim))

    def get_coordinate(self) -> list[int] | None:
        """Its place."""
        found = (self.mesh == dist.get_rank()).nonzero()
        return found[0].tolist() if len(found) else None


def init_device_mesh(
    device_type: str, mesh_shape: Any, *, mesh_dim_names: Any = None, backend_override: Any = None
) -> DeviceMesh:
    """A mesh of all processes, in their order; it calls init_process_group if nobody has.
    RuntimeError unless there are as many as the shape says."""
    if not dist.is_initialized():
        dist.init_process_group()
    size = dist.get_world_size()
    if size != (wanted := pf.Size(mesh_shape).numel()):
        raise RuntimeError(
            f"init_device_mesh: a mesh of shape {tuple(mesh_shape)} needs {wanted} processes, "
            f"there are {size}"
        )
    mesh = pf.arange(size).reshape(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)


class JoinHook:
    """What an object does while others still work, and after all have ended."""

    def main_hook(self) -> None:
        """Called for each step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called after all have ended."""


class Joinable:
    """An object with a join_hook(**kwargs), a join_device and a join_process_group."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Its JoinHook."""
        raise NotImplementedError(f"{type(self).__name__}.join_hook")


class Join:
    """The steps of one process, which never waits for others; the post_hook of each object is
    called at the end. RuntimeError for more processes: they need as many steps each."""

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if enable and dist.is_initialized() and dist.get_world_size() > 1:
            raise RuntimeError(
                f"Join: expected one process, got {dist.get_world_size()}; give each as many "
                "batches, as DistributedSampler does"
            )
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._enable = enable
        known = [one for one in joinables if hasattr(one, "join_hook")]  # others wait for nobody
        self._hooks = [one.join_hook(**kwargs) for one in known]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if self._enable and kind is None:
            for hook in self._hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """None: there is nobody to tell."""
