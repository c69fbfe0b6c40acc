"""Model: a network with its loss, optimizer and metrics, trained by `fit`."""

from pyframe.train.callbacks import Callback as Callback, History as History
from pyframe.train.model import Model as Model
