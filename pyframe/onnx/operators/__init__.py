"""The table's rows, a file a family."""

from pyframe.onnx.operators import (
    contrib as contrib,
    control as control,
    elementwise as elementwise,
    host as host,
    indexing as indexing,
    layers as layers,
    ml as ml,
    movement as movement,
    quantized as quantized,
    recurrent as recurrent,
    reductions as reductions,
    signal as signal,
    spatial as spatial,
    text as text,
)
