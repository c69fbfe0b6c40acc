"""A step of training, as programs write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def training_step(optimizer: Any, loss_of: Callable[..., Any]) -> Callable[..., Any]:
    """A function that minimizes `loss_of(*batch)`, and gives the loss."""

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
