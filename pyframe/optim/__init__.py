"""Optimizers and learning rate schedulers, as torch.optim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.optim import lr_scheduler as lr_scheduler
from pyframe.optim._adafactor import Adafactor as Adafactor
from pyframe.optim._muon import Muon as Muon
from pyframe.optim.adadelta import Adadelta as Adadelta
from pyframe.optim.adagrad import Adagrad as Adagrad
from pyframe.optim.adam import Adam as Adam
from pyframe.optim.adamax import Adamax as Adamax
from pyframe.optim.adamw import AdamW as AdamW
from pyframe.optim.asgd import ASGD as ASGD
from pyframe.optim.lbfgs import LBFGS as LBFGS
from pyframe.optim.nadam import NAdam as NAdam
from pyframe.optim.optimizer import Optimizer as Optimizer
from pyframe.optim.radam import RAdam as RAdam
from pyframe.optim.rmsprop import RMSprop as RMSprop
from pyframe.optim.rprop import Rprop as Rprop
from pyframe.optim.sgd import SGD as SGD
from pyframe.optim.sparse_adam import SparseAdam as SparseAdam

if TYPE_CHECKING:
    from pyframe.optim import swa_utils as swa_utils
else:

    def __getattr__(name: str) -> Any:
        if name == "swa_utils":  # few programs need it
            import importlib

            return importlib.import_module("pyframe.optim.swa_utils")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
