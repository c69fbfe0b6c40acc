"""Model: a network with its loss, optimizer and metrics, trained by `fit`; and its callbacks."""

from typing import TYPE_CHECKING, Any

from pyframe.train.callbacks import (
    LATE,
    Callback as Callback,
    History as History,
    LambdaCallback as LambdaCallback,
)
from pyframe.train.model import Model as Model

if TYPE_CHECKING:
    from pyframe.train.callbacks import (
        CSVLogger as CSVLogger,
        EarlyStopping as EarlyStopping,
        GradientWatch as GradientWatch,
        LearningRateFinder as LearningRateFinder,
        ModelCheckpoint as ModelCheckpoint,
        ProgressBar as ProgressBar,
        TensorBoard as TensorBoard,
        Timer as Timer,
    )

__all__ = [
    "CSVLogger", "Callback", "EarlyStopping", "GradientWatch", "History", "LambdaCallback",
    "LearningRateFinder", "Model", "ModelCheckpoint", "ProgressBar", "TensorBoard", "Timer",
]  # fmt: skip


if not TYPE_CHECKING:  # a name that is not there is an error for type checkers

    def __getattr__(name: str) -> Any:
        if name in LATE:
            from pyframe.train import callbacks

            return getattr(callbacks, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *LATE])
