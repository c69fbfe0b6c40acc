"""AdamW, which lies beside Adam."""

from pyframe.optim.adam import AdamW as AdamW
