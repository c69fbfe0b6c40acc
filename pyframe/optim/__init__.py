"""Optimizers and learning rate schedulers, as torch.optim."""

from pyframe.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from pyframe.optim.adam import Adam as Adam, AdamW as AdamW
from pyframe.optim.optimizer import Optimizer as Optimizer
from pyframe.optim.sgd import SGD as SGD
