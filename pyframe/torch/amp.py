"""torch.amp and torch.cuda.amp: accepted; computation stays in the tensors' own dtypes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["GradScaler", "autocast"]


@functools.cache
def _notice() -> None:
    warnings.warn(
        "torch.amp.autocast has no effect on pyframe yet: all is computed in the tensors' own "
        "dtypes, float32 by default",
        stacklevel=3,
    )


class autocast:  # noqa: N801  (PyTorch's name)
    """A context or a decorator without effect; the first one that is enabled says so."""

    def __init__(
        self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        self.enabled = device_type if isinstance(device_type, bool) else enabled

    def __enter__(self) -> autocast:
        if self.enabled:
            _notice()
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return within


class GradScaler:
    """Scales by 1, as a disabled scaler of PyTorch's: float32 needs no other."""

    def __init__(self, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        pass

    def scale(self, outputs: Any) -> Any:
        """The outputs."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing to do."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing to do."""

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def is_enabled(self) -> bool:
        """False."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """Empty, as a disabled scaler's."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to do."""
