"""Mixed precision: products in float16 or bfloat16, sums in float32, and a loss that is scaled up
so that small gradients don't vanish in float16 (Micikevicius et al. 2018, arXiv 1710.03740).

As torch.amp, https://docs.pytorch.org/docs/stable/amp.html; which function computes in which dtype
is said where it is declared, see ops/api/autocast.py. Nothing is read, so that a whole step is
one Program within pf.compile:

    optimizer.zero_grad()
    with pf.autocast("gpu"):
        loss = F.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyframe as pf
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import can_read_value, suspend_capture
from pyframe.core.modes import mode, no_grad
from pyframe.ops.api.autocast import DTYPES, NARROW, AutocastState
from pyframe.tensor import Tensor

__all__ = [
    "GradScaler", "autocast", "clear_autocast_cache", "custom_bwd", "custom_fwd",
    "get_autocast_dtype", "is_autocast_available", "is_autocast_cache_enabled",
    "is_autocast_enabled", "set_autocast_dtype",
]  # fmt: skip

_KINDS = ("cpu", "gpu")


def _kind(what: str, device_type: Any) -> str:
    """'cpu' or 'gpu', of a device or its name."""
    if not isinstance(device_type, (str, Device)):
        raise ValueError(
            f"{what}: Expected `device_type` of type `str`, got: `{type(device_type)}`; such as "
            f"{what}('gpu')"
        )
    return pf.device(device_type).kind


# --- which dtypes functions compute in


class autocast:  # noqa: N801  (PyTorch's name)
    """Within it (or in the function that it decorates) products and convolutions compute in
    `dtype`, and what needs the range of float32 in float32.

    `device_type`: 'gpu' (or 'cuda' and its other aliases), 'cpu', or None for all; only tensors
    that lie there are cast. `dtype`: float16 or bfloat16; by default float16 on 'gpu' and bfloat16
    on 'cpu'. A GPU without float16 takes bfloat16 instead and warns. Parameters are cast once
    within the outermost context, unless `cache_enabled` is False. ValueError and RuntimeError for
    what is not a device type; another dtype switches it off, with a warning.

    Args:
        enabled: Whether it does anything.

    >>> with pf.autocast("cpu", dtype=pf.bfloat16):
    ...     print((pf.ones(2, 2) @ pf.ones(2, 2)).dtype)
    pyframe.bfloat16
    """

    def __init__(
        self, device_type: str | Device | None = None, dtype: pf.dtype | None = None,
        enabled: bool = True, cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        kinds = _KINDS if device_type is None else (_kind("autocast", device_type),)
        if dtype is not None and dtype not in NARROW:
            warnings.warn(
                f"autocast: the dtype {dtype} is not supported, so it is disabled; expected "
                "float16 or bfloat16",
                stacklevel=2,
            )
            enabled = False
        self.device, self.fast_dtype, self._enabled = device_type, dtype, bool(enabled)
        self._cache_enabled = cache_enabled
        self._dtypes = {kind: dtype or get_autocast_dtype(kind) for kind in kinds}
        self._before: list[AutocastState | None] = []

    def __enter__(self) -> autocast:
        before: AutocastState | None = mode.autocast
        self._before.append(before)
        if before is None and not self._enabled:
            return self
        on = {} if before is None else dict(before.dtypes)
        known = self._dtypes if before is None else {**before.known, **self._dtypes}
        for kind, dtype in self._dtypes.items():
            if self._enabled:
                on[kind] = dtype
            else:
                on.pop(kind, None)
        keeps = is_autocast_cache_enabled() if self._cache_enabled is None else self._cache_enabled
        cache: dict[Any, Any] | None = {} if keeps else None
        if keeps and before is not None and before.capture is mode.capture:
            cache = cache if before.cache is None else before.cache
        mode.autocast = AutocastState(on, known, cache)
        return self

    def __exit__(self, *exc: object) -> None:
        mode.autocast = self._before.pop()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return fn(*args, **kwargs)

        return within


def is_autocast_enabled(device_type: str | Device | None = None) -> bool:
    """Whether tensors of a device type ('gpu' by default) are cast now.

    Args:
        device_type: "gpu" or "cpu".

    >>> with pf.autocast("cpu"):
    ...     print(pf.is_autocast_enabled("cpu"))
    True
    """
    kind = "gpu" if device_type is None else _kind("is_autocast_enabled", device_type)
    return mode.autocast is not None and kind in mode.autocast.dtypes


def is_autocast_available(device_type: str | Device) -> bool:
    """Whether `autocast` knows a device type.

    Args:
        device_type: A word.

    >>> pf.amp.is_autocast_available("cpu")
    True
    """
    try:
        return bool(_kind("is_autocast_available", device_type))
    except RuntimeError:
        return False


def get_autocast_dtype(device_type: str | Device) -> pf.dtype:
    """The narrow dtype of a device type: that of the context around, or else what is set.

    Args:
        device_type: "gpu" or "cpu".

    >>> pf.get_autocast_dtype("cpu")
    pyframe.bfloat16
    """
    kind = _kind("get_autocast_dtype", device_type)
    if mode.autocast is not None and kind in mode.autocast.known:
        return mode.autocast.known[kind]
    if mode.capture is not None:
        mode.capture.watch(lambda: DTYPES[kind])
    return DTYPES[kind]


def set_autocast_dtype(device_type: str | Device, dtype: pf.dtype) -> None:
    """Set what `autocast` takes by default; TypeError unless it is float16 or bfloat16.

    Args:
        device_type: "gpu" or "cpu".
        dtype: One of the two.

    >>> pf.set_autocast_dtype("cpu", pf.bfloat16)
    """
    if dtype not in NARROW:
        raise TypeError(f"set_autocast_dtype: expected float16 or bfloat16, got {dtype}")
    DTYPES[_kind("set_autocast_dtype", device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether the casts of parameters are kept until the context ends.

    >>> pf.is_autocast_cache_enabled()
    True
    """
    return mode.autocast is None or mode.autocast.cache is not None


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that the context has kept.

    >>> pf.clear_autocast_cache()
    """
    if mode.autocast is not None and mode.autocast.cache is not None:
        mode.autocast.cache.clear()


# --- for autograd.Function


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str | Device,
    cast_inputs: pf.dtype | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Decorates `forward` of an autograd.Function: with `cast_inputs` float tensors among its
    arguments have that dtype, and autocast is off within it.

    Args:
        fwd: The method; None for a decorator.
        device_type: "gpu" or "cpu".

    >>> class Exact(pf.autograd.Function):
    ...     @staticmethod
    ...     @pf.amp.custom_fwd(device_type="cpu", cast_inputs=pf.float32)
    ...     def forward(ctx, x):
    ...         return x.exp()
    >>> with pf.autocast("cpu"):
    ...     print(Exact.apply(pf.ones(1, dtype=pf.bfloat16)).dtype)
    pyframe.float32
    """
    kind = _kind("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        ctx, on = args[0], is_autocast_enabled(kind)
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(kind), on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(kind, enabled=False):
            return fwd(*_cast(args, kind, cast_inputs), **_cast(kwargs, kind, cast_inputs))

    return forward


def custom_bwd(
    bwd: Callable[..., Any] | None = None, *, device_type: str | Device
) -> Callable[..., Any]:
    """Decorates `backward` of an autograd.Function: autocast is as it was in forward, which
    `custom_fwd` decorates.

    Args:
        bwd: The method; None for a decorator.
        device_type: "gpu" or "cpu".

    >>> class Double(pf.autograd.Function):
    ...     @staticmethod
    ...     @pf.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @pf.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Double.apply(pf.ones(1))
    tensor([2.])
    """
    kind = _kind("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(kind, args[0]._dtype, args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward


def _cast(value: Any, kind: str, dtype: pf.dtype) -> Any:
    """`value` with each float tensor of a device type in it (but float64) as `dtype`."""
    if isinstance(value, Tensor):
        narrows = value.is_floating_point() and value.dtype is not pf.float64
        return value.to(dtype) if narrows and value.device.kind == kind else value
    if isinstance(value, dict):
        return {k: _cast(v, kind, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, kind, dtype) for v in value)
    return value


# --- the scale of the loss


class _Seen:
    """What a scaler has done with an optimizer since its last update."""

    def __init__(self) -> None:
        self.unscaled = self.stepped = False
        self.found: list[Tensor] = []  # by device: how many numbers are not finite


class GradScaler:
    """Scales a loss up, and gradients back down; steps whose gradients overflow are left out.

    The scale is multiplied by `backoff_factor` after an overflow, and by `growth_factor` after
    `growth_interval` steps in a row without one. It lies on the device of the first loss, and
    nothing of it is read: on a GPU, and within pf.compile, an optimizer's step that is to be left
    out computes what was there before. `device` is accepted as PyTorch has it.

    Args:
        init_scale: The first scale.
        enabled: Whether it does anything.
        growth_factor: by what it grows, above 1.
        backoff_factor: by what it falls, below 1.
        growth_interval: how many steps without an overflow let the scale grow.

    >>> w = pf.ones(1, requires_grad=True)
    >>> optimizer, scaler = pf.optim.SGD([w], lr=0.1), pf.amp.GradScaler("cpu")
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    def __init__(
        self, device: str | Device | None = None, init_scale: float = 2.0**16,
        growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        if device is not None:
            _kind("GradScaler", device)
        self._enabled = enabled
        if enabled and not growth_factor > 1.0:
            raise AssertionError(f"The growth factor must be > 1.0, got {growth_factor}")
        if enabled and not backoff_factor < 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._first = float(init_scale), 0  # of the scale and of the steps since it grew
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._seen: dict[int, _Seen] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each one of an iterable, times the scale; ValueError for anything else.

        Args:
            outputs: the loss, or several.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self.__dict__["_scale"] is None:  # unseen by a capture: it is made once
                self._begin(outputs.device)
            return outputs * self._ready("scale").to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError(
            f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
        )

    def _begin(self, device: Device) -> None:
        scale, steps = self._first
        with suspend_capture():
            self.__dict__.update(
                _scale=pf.full((), scale, dtype=pf.float32, device=device),
                _growth_tracker=pf.full((), steps, dtype=pf.int32, device=device),
            )

    def _ready(self, what: str) -> Tensor:
        """The scale; AssertionError where nothing was scaled yet."""
        if self._scale is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def _of(self, optimizer: Any) -> _Seen:
        return self._seen.setdefault(id(optimizer), _Seen())

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the scale, before they are clipped, say; `step`
        does it where it was not done.

        RuntimeError if it was done since the last update, ValueError for float16 gradients.

        Args:
            optimizer: whose gradients.
        """
        if not self._enabled:
            return
        scale, seen = self._ready("unscale_"), self._of(optimizer)
        if seen.unscaled and not seen.stepped:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if seen.stepped:
            raise RuntimeError("unscale_() is being called after step().")
        seen.unscaled = True
        inverse = scale.reciprocal()
        found: dict[Device, Tensor] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                if g.dtype is pf.float16:
                    raise ValueError(
                        "Attempting to unscale FP16 gradients. Keep the parameters in float32: "
                        "autocast casts them where that pays"
                    )
                d = g.device
                wrong = pf.where(g.isfinite(), 0.0, 1.0).sum()
                found[d] = found[d] + wrong if d in found else wrong
                g.mul_(inverse.to(d))
        seen.found = list(found.values())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`unscale_` if that was not done, and `optimizer.step(*args, **kwargs)` unless a gradient
        is not finite; returns what that returns.

        RuntimeError for a second step without an update, and for a closure.

        Args:
            optimizer: what takes the step.
            args, kwargs: its arguments.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, seen = self._ready("step"), self._of(optimizer)
        if seen.stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if not seen.unscaled:
            self.unscale_(optimizer)
        found = self._found([seen], scale, "for this optimizer")
        seen.stepped = True
        if not can_read_value(scale) and getattr(optimizer, "skips_on_device", False):
            optimizer.found_inf = found
            try:
                return optimizer.step(*args, **kwargs)
            finally:
                optimizer.found_inf = None
        return None if found.item() else optimizer.step(*args, **kwargs)

    @staticmethod
    def _found(of: Iterable[_Seen], scale: Tensor, what: str) -> Tensor:
        """How many numbers were not finite, beside the scale."""
        counts = [x.to(scale.device) for seen in of for x in seen.found]
        if not counts:
            raise AssertionError(
                f"No inf checks were recorded {what}. No parameter of it has a gradient, or there "
                "was no step; call scaler.scale(loss).backward() and scaler.step(optimizer) first"
            )
        return sum(counts[1:], counts[0])

    @no_grad()
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """After the steps of all optimizers: let the scale fall or grow, or set it.

        Args:
            new_scale: a number, or a tensor of one element; None lets it fall or grow.
        """
        if not self._enabled:
            return
        scale, steps = self._ready("update"), self._growth_tracker
        assert steps is not None
        if new_scale is None:
            bad = self._found(self._seen.values(), scale, "prior to update") > 0
            steps.add_(1)
            full = steps == self._growth_interval
            grown = scale * self._growth_factor
            grown = pf.where(full & grown.isfinite(), grown, scale)
            scale.copy_(pf.where(bad, scale * self._backoff_factor, grown))
            steps.copy_(pf.where(bad | full, 0, steps))
        elif isinstance(new_scale, Tensor):
            if new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(
                    "new_scale should be a float or a 1-element tensor with requires_grad=False"
                )
            scale.copy_(new_scale.reshape(()))
        else:
            scale.fill_(new_scale)
        self._seen.clear()

    def get_scale(self) -> float:
        """The scale, which is read; 1.0 where scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._first[0] if self._scale is None else float(self._scale.item())

    async def get_scale_async(self) -> float:
        """The awaitable twin of `get_scale`."""
        if self._scale is None or not self._enabled:
            return self.get_scale()
        return float(await self._scale.item_async())

    def get_growth_factor(self) -> float:
        """By what the scale is multiplied after `get_growth_interval()` good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set it.

        Args:
            new_factor: a number.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale is multiplied after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set it.

        Args:
            new_factor: a number.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set it.

        Args:
            new_interval: an int.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and what it changes by, as PyTorch's; empty where scaling is disabled. The
        device is read."""
        steps = self._growth_tracker
        return self._state(self.get_scale(), self._first[1] if steps is None else steps.item())

    async def state_dict_async(self) -> dict[str, Any]:
        """The awaitable twin of `state_dict`."""
        steps = self._growth_tracker
        return self._state(
            await self.get_scale_async(),
            self._first[1] if steps is None else await steps.item_async(),
        )

    def _state(self, scale: float, steps: int) -> dict[str, Any]:
        if not self._enabled:
            return {}
        return {
            "scale": scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": int(steps),
        }  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state_dict; RuntimeError for an empty one, that of a disabled scaler.

        Args:
            state_dict: what `state_dict` gave.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._first = float(state_dict["scale"]), int(state_dict["_growth_tracker"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None and self._growth_tracker is not None:
            with no_grad():
                self._scale.fill_(self._first[0])
                self._growth_tracker.fill_(self._first[1])
