"""Optimizers and learning rate schedulers, as torch.optim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import also_named as _also_named
from pyframe.ops.api.layouts import texts as _texts
from pyframe.optim import lr_scheduler as lr_scheduler
from pyframe.optim.formulas import *
from pyframe.optim.optimizer import Optimizer as Optimizer

if _texts:
    _texts.complete_docstrings(globals())
    _texts.complete_docstrings(vars(lr_scheduler))
if TYPE_CHECKING:
    from pyframe.optim import swa_utils as swa_utils
    from pyframe.optim.lbfgs import LBFGS as LBFGS
else:
    _also_named(
        __name__, "formulas",
        "_adafactor _muon adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd "
        "sparse_adam",
    )  # fmt: skip

    def __getattr__(name: str) -> Any:
        if name in ("LBFGS", "lbfgs", "swa_utils"):  # few programs need them
            import importlib

            if name == "swa_utils":
                return importlib.import_module("pyframe.optim.swa_utils")
            module = importlib.import_module("pyframe.optim.lbfgs")
            return module if name == "lbfgs" else module.LBFGS
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
