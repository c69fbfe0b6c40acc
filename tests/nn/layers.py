"""The table of layers and losses, from which test_layers.py makes its tests.

A row is what a program would write: a call that makes a layer, and its call. R makes random numbers
of a shape that require a gradient, N such that don't, L int64 of the values given.

    nn.Softplus(2.0)(R(3, 4))                   does what PyTorch's layer does
    nn.Snake(2.0)(R(3, 4)) == x + (2 * x).sin() ** 2 / 2        which PyTorch lacks: its formula,
                                                of x (y, z: what it is called with) and parameters
    nn.Linear(-1, 2) -> must not be negative    is refused, as tests/refused.py has it; there X, O
                                                and I make ones, zeros and zeros of int64

What PyTorch's own table of modules draws (cases.py) needs a row here for other options alone.
"""

from __future__ import annotations

import ast
import inspect
import math
from typing import Any, NamedTuple

import numpy as np

from pyframe import nn

# Of one input: test_stale.py changes each of their fields
SIMPLE = """
nn.Linear(5, 3, bias=False)(R(2, 4, 5))
nn.Conv2d(3, 4, 3, padding=1)(R(2, 3, 6, 5))
nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=2, groups=2, bias=False)(R(2, 4, 9, 8))
nn.Conv2d(2, 3, 3, padding="valid")(R(2, 5, 5))
nn.MaxPool2d(3, 2, 1, ceil_mode=True)(R(1, 2, 8, 8))
nn.AvgPool2d((3, 2), 2, (1, 0), ceil_mode=True, count_include_pad=False)(R(2, 3, 6, 7))
nn.GELU(approximate="tanh")(R(4, 5))
nn.Softmax(dim=1)(R(4, 5))
nn.LogSoftmax(dim=-1)(R(4, 5))
nn.Sequential(nn.Linear(5, 3), nn.ReLU(inplace=True))(R(4, 5))
nn.Sequential(nn.Linear(5, 3), nn.SiLU(inplace=True))(R(4, 5))
nn.Flatten()(R(2, 3, 4))
nn.Identity(7)(R(2, 3))
nn.Dropout(0.3).eval()(R(2, 3))
nn.LayerNorm(5)(R(4, 5))
nn.Embedding(6, 3, padding_idx=2)(L([0, 2], [5, 1], [2, 2], [3, 4]))
nn.Embedding(6, 3, padding_idx=-1)(L(3, 5, 5, 0))
nn.BatchNorm1d(5)(R(4, 5))
nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))(R(3, 5))
"""
LINEAR = r"""
nn.Linear(-1, 2) -> in_features must not be negative
nn.Sequential(nn.ReLU(), nn.Tanh())[2] -> out of range for 2 modules
nn.Bilinear(0, 2, 3) -> in1_features must be > 0
nn.Bilinear(2, 3, 4)(X(5, 2), X(5, 2)) -> expected weight
nn.LazyLinear(2)(R(3, 4))
nn.LazyLinear(2).weight.shape -> UninitializedError: forward with a batch first
nn.LazyLinear(2, bias=False)(R(4,))
nn.Embedding(6, 3, 1, 1.5, 1.0, True, False)(L([0, 1, 2], [2, 2, 5]))
nn.Embedding(3, 2, padding_idx=5) -> Padding_idx must be within
nn.Embedding(3, 2, _weight=X(2, 2)) -> Shape of weight does not match
nn.Embedding.from_pretrained(X(3)) -> 2-dimensional
nn.EmbeddingBag(6, 3)(L([0, 1], [5, 5]))
nn.EmbeddingBag(6, 3, 1.0, mode="sum", padding_idx=2)(L(0, 2, 2, 5, 1), L(0, 3), R(5))
nn.EmbeddingBag(6, 3, mode="max", include_last_offset=True, padding_idx=-1)(L(0, 1, 2, 5),
    L(0, 2, 2, 4))
nn.EmbeddingBag(3, 2, padding_idx=-4) -> adding_idx must be within
nn.EmbeddingBag(3, 2, mode='min')(I(2, 2)) -> sum.*mean.*max
nn.EmbeddingBag(3, 2)(I(2)) -> offsets
"""
CONVOLUTIONS = r"""
nn.Conv1d(2, 3, 3, padding=2, padding_mode="reflect")(R(2, 2, 6))
nn.Conv2d(2, 3, (3, 2), padding="same", dilation=(1, 2), padding_mode="replicate")(R(1, 2, 5, 6))
nn.Conv3d(1, 2, 2, padding=(1, 0, 1), padding_mode="circular")(R(1, 1, 3, 3, 3))
nn.Conv1d(2, 3, 3, padding="valid", padding_mode="circular")(R(2, 6))
nn.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 0), 2, False, (1, 2))(R(1, 4, 3, 4))
nn.ConvTranspose2d(1, 2, 3, 2, 1)(R(1, 1, 3, 4), [6, 7])
nn.ConvTranspose1d(1, 2, 3, 2, 1)(R(1, 3), [2, 6])
nn.LazyConv2d(2, 3, padding="same", groups=2, padding_mode="reflect")(R(2, 4, 4))
nn.LazyConvTranspose2d(2, 2, groups=2, bias=False)(R(1, 2, 2, 2))
nn.Conv1d(2, 3, -1) -> kernel_size must not be negative
nn.Conv2d(2, 3, 3)(X(1, 3, 5, 5)) -> channels
nn.Conv2d(3, 4, 3, groups=2) -> in_channels must be divisible by groups
nn.Conv2d(2, 3, 3, groups=2) -> out_channels must be divisible by groups
nn.Conv2d(2, 3, 3, groups=0) -> groups must be a positive integer
nn.Conv2d(2, 3, 3, padding='some') -> Invalid padding string 'some'
nn.Conv2d(2, 3, 3, 2, 'same') -> not supported for strided convolutions
nn.Conv2d(1, 3, 5)(X(1, 1, 3, 3)) -> Kernel size can't be greater than actual
nn.Conv3d(1, 3, (1, 2))(X(1, 3, 3, 3)) -> TypeError: must be an int or three
nn.Conv1d(1, 1, 1, padding_mode='mirror') -> reflect.*replicate.*circular
nn.Conv1d(1, 1, 3, padding=3, padding_mode='reflect')(X(1, 1, 2)) -> pad
nn.ConvTranspose1d(1, 1, 3, padding_mode='circular') -> Only "zeros"
nn.ConvTranspose1d(3, 4, 3, groups=2) -> in_channels must be divisible
nn.ConvTranspose1d(1, 1, 3, 2)(X(1, 1, 2), [9]) -> range from .5. to .6.
nn.ConvTranspose2d(1, 1, 3, 2)(X(1, 1, 2, 2), [9]) -> 2 or 4 elements
nn.ConvTranspose1d(1, 1, 3, output_padding=2)(X(1, 1, 2)) -> output.padding
nn.LazyConv2d(3, 2)(X(2, 2)) -> Expected 3D .unbatched. or 4D
nn.LazyConv1d(4, 2, groups=2)(X(1, 3, 4)) -> divisible by groups
"""
POOLS = r"""
nn.MaxUnpool1d(2)(R(1, 2, 3), L([[0, 3, 5], [1, 2, 4]]))
nn.MaxUnpool2d((2, 1), (2, 1))(R(1, 1, 2, 2), L([[[0, 3], [6, 5]]]), [1, 1, 5, 2])
nn.MaxUnpool3d(2)(R(1, 1, 1, 2), L([[[0, 7]]]))
nn.AvgPool1d(9)(X(1, 1, 4)) -> too small
nn.AvgPool2d((1, 2, 3))(X(1, 1, 4, 4)) -> an int or 2 ints
nn.LPPool1d(2, 9)(X(1, 1, 4)) -> too small
nn.FractionalMaxPool2d(2) -> output_size
nn.FractionalMaxPool2d(2, 3, 0.5) -> output_ratio
nn.FractionalMaxPool3d(2, output_ratio=1.5) -> between 0 and 1
nn.FractionalMaxPool3d(0, 2) -> greater than 0
nn.MaxUnpool2d(2)(X(1, 1, 2, 2), X(1, 1, 2, 2)) -> int64
"""
ACTIVATIONS = r"""
nn.RReLU(0.1, 0.4, inplace=False).eval()(R(3, 4))
nn.Hardsigmoid()(R(3, 4))
nn.Hardswish(True)(R(3, 4))
nn.LeakyReLU(0.2, True)(R(3, 4))
nn.Hardtanh(2, 1) -> greater than min_val
nn.Softmax2d()(X(2, 2)) -> 3D or 4D
nn.GLU()(X(2, 3)) -> must be even
"""
NORMS = r"""
nn.BatchNorm2d(3, momentum=None)(R(2, 3, 2, 2))
nn.BatchNorm1d(3, track_running_stats=False, bias=False).eval()(R(4, 3, 2))
nn.BatchNorm3d(2, 1e-3, affine=False).eval()(R(2, 2, 1, 2, 2))
nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval()(R(3, 2, 2))
nn.InstanceNorm1d(3, momentum=None, track_running_stats=True)(R(2, 3, 4))
nn.SyncBatchNorm(3, momentum=None)(R(4, 3))
nn.GroupNorm(2, 4, bias=False)(R(2, 4, 3))
nn.RMSNorm([3, 4], 1e-3, False)(R(2, 3, 4))
nn.CrossMapLRN2d(3, 0.1, 0.5, 2)(N(1, 5, 1, 2))
nn.CrossMapLRN2d(6)(N(2, 3, 2, 2))
nn.LazyBatchNorm1d()(R(4, 3))
nn.LazyBatchNorm2d(momentum=None, affine=False)(R(2, 3, 2, 2))
nn.LazyBatchNorm3d(track_running_stats=False, bias=False)(R(2, 3, 1, 2, 1))
nn.LazyInstanceNorm1d(affine=True)(R(2, 3, 4))
nn.LazyInstanceNorm2d(track_running_stats=True)(R(2, 3, 2, 2))
nn.LazyInstanceNorm3d()(R(2, 3, 2, 2, 1))
nn.Dropout1d(0.3).eval()(R(2, 3, 4))
nn.Dropout2d(0.0)(R(2, 3, 2, 2))
nn.Dropout3d(0.3, True).eval()(R(2, 3, 2, 2, 2))
nn.AlphaDropout().eval()(R(2, 3))
nn.FeatureAlphaDropout(0.1).eval()(R(2, 3, 2))
nn.BatchNorm1d(3)(X(2, 4)) -> should contain 4 elements
nn.BatchNorm1d(3)(X(1, 3)) -> more than 1 value per channel
nn.BatchNorm2d(3)(X(2, 3)) -> expected 4D input
nn.BatchNorm3d(3)(X(2, 3)) -> expected 5D input
nn.SyncBatchNorm(3)(X(3)) -> at least 2D
nn.InstanceNorm2d(3, affine=True)(X(2, 4, 2, 2)) -> to match num_features
nn.InstanceNorm1d(3)(X(2, 3, 1)) -> more than 1 spatial element
nn.LocalResponseNorm(2)(X(2, 4)) -> 3D or higher
nn.CrossMapLRN2d(2)(X(2, 4)) -> to be 4D
nn.Dropout(2) -> between 0 and 1, but got 2
"""
OF_SHAPES = r"""
nn.Fold((4, 5), (2, 3), 1, 1, (1, 2))(R(1, 12, 15))
nn.Unfold((2, 3), dilation=2, padding=1, stride=(1, 2))(R(2, 2, 5, 6))
nn.Flatten(0)(R(2, 3, 4))
nn.Unflatten(1, (2, 3))(R(2, 6, 2))
nn.Unflatten(-1, [2, -1])(R(3, 4))
nn.PixelShuffle(2)(R(2, 8, 2, 3))
nn.PixelUnshuffle(2)(R(2, 2, 4, 6))
nn.ChannelShuffle(2)(R(1, 6, 2, 2))
nn.Upsample((5, 3))(R(1, 2, 3, 3))
nn.Upsample(scale_factor=2, mode="linear")(R(1, 2, 3))
nn.Upsample(None, (1.5, 2), "bicubic", True, True)(R(1, 1, 4, 3))
nn.UpsamplingNearest2d(scale_factor=2)(R(1, 2, 2, 3))
nn.UpsamplingBilinear2d(size=5)(R(1, 2, 2, 3))
nn.ReflectionPad1d(3)(X(1, 1, 3)) -> at most 2
nn.ReplicationPad2d((1, 2, 3))(X(1, 2, 2)) -> TypeError: must be an int or four
nn.Unflatten(1, (2, 2.0)) -> type float at pos 1
nn.Unflatten(1, 4) -> found type int
nn.Unflatten(1, (2, 2))(X(1, 5)) -> multiply up to
nn.PixelShuffle(2)(X(3, 2, 2)) -> divisible by its square
nn.ChannelShuffle(2)(X(1, 3, 2)) -> divisible by it
nn.Fold(4, 2)(X(1, 3, 9)) -> N, C . 4, 9
nn.Unfold(5)(X(1, 1, 3, 3)) -> at least one
nn.Upsample()(X(1, 1, 3)) -> size or scale_factor
nn.Upsample(2, mode='cubic')(X(1, 1, 3)) -> bilinear
"""
LOSSES = r"""
nn.CosineSimilarity(0, 1e-3)(R(3, 4), R(3, 4))
nn.PairwiseDistance(1, keepdim=True)(R(3, 4), R(3, 4))
nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0, True)(R(5, 8), L(0, 2, 3, 7, 11))
nn.AdaptiveLogSoftmaxWithLoss(8, 9, [4])(R(8), L(6)[0])
nn.TripletMarginLoss(0.5, 1, swap=True)(R(4, 3), R(4, 3), R(4, 3))
nn.TripletMarginWithDistanceLoss(distance_function=nn.CosineSimilarity(), swap=True,
    reduction="none")(R(4, 3), R(4, 3), R(4, 3))
nn.KLDivLoss(reduction="batchmean")(R(4, 3), R(4, 3))
nn.MSELoss(reduction='batchmean')(X(2), X(2)) -> 'mean', 'sum' or 'none'
nn.KLDivLoss(reduction='all')(X(2), X(2)) -> 'batchmean', 'sum' or 'none'
nn.TripletMarginLoss(0) -> greater than 0
nn.MultiMarginLoss(3) -> p == 1 and p == 2
nn.MultiMarginLoss(weight=X(2, 2)) -> 1D tensor
nn.CrossEntropyLoss()(X(2, 3), X(5, 3)) -> shape of input
nn.NLLLoss()(X(2, 3), I(3)) -> to match target batch_size
nn.LinearCrossEntropyOptions(acc_policy='fast') -> invalid acc_policy
nn.LinearCrossEntropyOptions(chunking_method='aspect_ratio:0') -> chunking
nn.LinearCrossEntropyOptions(batch_chunk_size=0) -> positive int
nn.AdaptiveLogSoftmaxWithLoss(4, 5, []) -> larger than 0
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]) -> increasing order
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]) -> between 1 and
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(X(3, 4), I(2)) -> batch dimension
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(X(4), I(2)) -> expected input
nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(X(2, 4), I(2) + 5) -> in \[0, 4\]
"""
RECURRENT = r"""
nn.RNN(4, 5)(R(6, 3, 4))
nn.RNN(4, 5, 2, "relu", False, batch_first=True, bidirectional=True)(R(3, 6, 4), R(4, 3, 5))
nn.GRU(4, 5, 2, bias=False)(R(6, 3, 4), R(2, 3, 5))
nn.GRU(4, 5, bidirectional=True, batch_first=True)(R(3, 6, 4))
nn.LSTM(4, 5, 2, bidirectional=True)(R(6, 3, 4), (R(4, 3, 5), R(4, 3, 5)))
nn.LSTM(4, 5, 2, batch_first=True, proj_size=2)(R(3, 6, 4), (R(2, 3, 2), R(2, 3, 5)))
nn.RNNCell(3, 4, nonlinearity="relu")(R(2, 3))
nn.GRUCell(3, 4)(R(2, 3))
nn.LSTMCell(3, 4)(R(3))
nn.GRU(3, 4)(O(3)) -> Expected input to be 2D or 3D, got 1D
nn.RNN(3, 4)(O(5, 2, 4)) -> Expected 3, got 4
nn.GRU(3, 4)(SEQ, O(2, 4)) -> hx should also be 3-D but got 2-D
nn.GRU(3, 4)(SEQ[0], O(1, 2, 4)) -> hx should also be 2-D but got 3-D
nn.GRU(3, 4)(SEQ, O(2, 2, 4)) -> hidden size \(1, 2, 4\), got \[2, 2, 4\]
nn.LSTM(3, 4)(SEQ, (O(1, 2, 4), O(1, 2, 5))) -> hidden\[1\] size \(1, 2, 4\), got \[1, 2, 5\]
nn.LSTM(3, 4)(SEQ, (O(1, 2, 4), O(2, 4))) -> should also be 3-D but got \(3-D, 2-D\)
nn.LSTM(3, 4, proj_size=4) -> smaller than hidden_size
nn.LSTM(3, 4, proj_size=-1) -> a positive integer or zero
nn.GRU(3, 4, proj_size=2) -> only supported for LSTM
nn.RNN(3, 4, nonlinearity="selu") -> Unknown nonlinearity 'selu'
nn.RNN(3, 4, 2, dropout=1.5) -> range \[0, 1\] .* got 1.5
nn.RNN(3, 4, 2, dropout=True) -> range \[0, 1\] .* got True
nn.RNNBase("CRU", 3, 4) -> Unrecognized RNN mode: CRU
nn.GRUCell(3, 4)(O(2, 2, 3)) -> Expected input to be 1D or 2D, got 3D
nn.GRU(3, 4)(PACKED, O(1, 3, 4)) -> hidden size \(1, 2, 4\), got \[1, 3, 4\]
nn.GRU(5, 4)(PACKED) -> Expected 5, got 3
"""
ATTENTION = r"""
nn.MultiheadAttention(8, 2)(R(4, 3, 8), R(5, 3, 8), R(5, 3, 8), PADDING, average_attn_weights=False)
nn.MultiheadAttention(8, 2, add_bias_kv=True)(R(4, 3, 8), R(5, 3, 8), R(5, 3, 8),
    attn_mask=FORBIDDEN, key_padding_mask=PADDING, average_attn_weights=False)
nn.MultiheadAttention(8, 2, add_zero_attn=True)(R(4, 3, 8), R(5, 3, 8), R(5, 3, 8),
    attn_mask=FORBIDDEN.repeat(6, 1, 1), need_weights=False)
nn.MultiheadAttention(8, 2, kdim=6, vdim=7)(R(4, 3, 8), R(5, 3, 6), R(5, 3, 7), PADDING)
nn.MultiheadAttention(8, 2, 0.0, False, True, True)(R(4, 3, 8), R(5, 3, 8), R(5, 3, 8),
    attn_mask=FLOATS(FORBIDDEN, 0.5), key_padding_mask=FLOATS(PADDING, 0.0))
nn.MultiheadAttention(8, 2, batch_first=True)(R(4, 8), R(5, 8), R(5, 8), PADDING[0], True,
    FORBIDDEN)
nn.MultiheadAttention(8, 2)(R(5, 8), R(5, 8), R(5, 8), None, False, CAUSAL, is_causal=True)
nn.MultiheadAttention(8, 2)(R(5, 8), R(5, 8), R(5, 8), attn_mask=CAUSAL, is_causal=True)
nn.TransformerEncoderLayer(8, 2, 16, 0.0)(R(5, 3, 8), CAUSAL, is_causal=True)
nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)(R(3, 5, 8), None, PADDING)
nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.silu, 0.1, True, True, False)(R(3, 5, 8))
nn.TransformerDecoderLayer(8, 2, 16, 0.0)(R(4, 3, 8), R(5, 3, 8), CAUSAL[:4, :4],
    tgt_is_causal=True)
nn.TransformerDecoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)(R(3, 4, 8), R(3, 5, 8), None,
    FORBIDDEN, PADDING[:, 1:], PADDING)
nn.TransformerDecoderLayer(8, 2, 16, 0.0, nn.SiLU(), 0.1, False, True, False)(R(4, 8), R(5, 8))
nn.Transformer(8, 2, 1, 2, 16, 0.0)(R(5, 3, 8), R(4, 3, 8), CAUSAL, tgt_is_causal=False)
nn.Transformer(8, 2, 1, 2, 16, 0.0, norm_first=True, bias=False)(R(5, 8), R(4, 8))
nn.MultiheadAttention(8, 3) -> divisible by num_heads
nn.MultiheadAttention(8, 0) -> greater than 0
nn.MultiheadAttention(8, 2)(*[O(5, 2, 7)] * 3) -> embedding dimension of 8, but got 7
nn.MultiheadAttention(8, 2)(O(5, 2, 8), O(5, 8), O(5, 8)) -> all be \(T, N, E\)
nn.MultiheadAttention(8, 2)(O(5, 2, 8), O(5, 2, 8), O(4, 2, 8)) -> does not match value shape
nn.MultiheadAttention(8, 2)(*[O(5, 2, 8)] * 3, key_padding_mask=O(2, 4)) -> must be \[2, 5\]
nn.MultiheadAttention(8, 2)(*[O(5, 2, 8)] * 3, attn_mask=O(4, 5)) -> should be \[5, 5\]
nn.MultiheadAttention(8, 2)(*[O(5, 2, 8)] * 3, attn_mask=I(5, 5)) -> only bool and floating types
nn.MultiheadAttention(8, 2)(*[O(5, 2, 8)] * 3, is_causal=True) -> Need attn_mask
nn.TransformerEncoderLayer(8, 2, activation="elu") -> relu/gelu, not elu
nn.TransformerDecoderLayer(8, 2, activation="elu") -> relu/gelu, not elu
nn.TransformerEncoderLayer(8, 2)(O(5, 2, 7)) -> dimension of 8, but got 7
nn.TransformerDecoderLayer(8, 2)(O(5, 2, 8), O(5, 2, 7)) -> has 7 features
nn.Transformer(8, 2, 1, 1, 4)(O(5, 2, 7), O(5, 2, 8)) -> feature number .* got 7 and 8
nn.Transformer(8, 2, 1, 1, 4)(O(5, 2, 8), O(5, 3, 8)) -> batch number
nn.Transformer(8, 2, 1, 1, 4, batch_first=True)(O(5, 2, 8), O(4, 2, 8)) -> batch number
"""
# Base classes, containers and what stands for other layers; test_module_parity.py has them
OTHERS = """
    Module ModuleDict ModuleList ParameterDict ParameterList RNNBase RNNCellBase
    TransformerDecoder NLLLoss2d DataParallel
""".split()


class Row(NamedTuple):
    text: str
    made: str  # the call that makes the layer
    inputs: str
    formula: str  # for what PyTorch lacks

    def layer(self, lib: Any) -> Any:
        return eval(self.made, names(lib))

    def given(self, lib: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the layer is called with."""
        found: tuple[tuple[Any, ...], dict[str, Any]] = eval(self.inputs, names(lib))
        return found


def row_of(text: str) -> Row:
    call, formula = ast.parse(text, mode="eval").body, ""
    if isinstance(call, ast.Compare):
        call, formula = call.left, ast.unparse(call.comparators[0])
    assert isinstance(call, ast.Call), f"a row makes a layer and calls it, got {text}"
    inputs = ", ".join(map(ast.unparse, (*call.args, *call.keywords)))
    return Row(text, ast.unparse(call.func), f"given({inputs})", formula)


def _lines(*tables: str) -> list[str]:
    return [row for t in tables for row in t.strip().replace("\n    ", " ").split("\n")]


_MORE = _lines(
    LINEAR, CONVOLUTIONS, POOLS, ACTIVATIONS, NORMS, OF_SHAPES, LOSSES, RECURRENT, ATTENTION
)  # fmt: skip
BASIC = [row_of(text) for text in _lines(SIMPLE)]
ROWS = BASIC + [row_of(text) for text in _MORE if " -> " not in text]
REFUSED = [text for text in _MORE if " -> " in text]


_FORBIDDEN = [True, False, False, True, False]
_PADDING = [[False] * 3 + [True] * 2, [False] * 4 + [True], [False] * 5]  # no query has no key


def names(lib: Any) -> dict[str, Any]:
    """What the rows speak of, of either library."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Any:
        return lib.from_numpy(rng.standard_normal(shape).astype(np.float32))

    return {
        "t": lib, "nn": lib.nn, "F": lib.nn.functional, "given": lambda *args, **kw: (args, kw),
        "R": lambda *shape: normal(*shape).requires_grad_(), "N": normal, "X": lib.ones,
        "L": lambda *values: lib.tensor(values), "O": lib.zeros,
        "I": lambda *shape: lib.zeros(shape, dtype=lib.int64), "SEQ": lib.zeros(5, 2, 3),
        "CAUSAL": lib.full((5, 5), -math.inf).triu(1), "FORBIDDEN": lib.tensor([_FORBIDDEN] * 4),
        "PADDING": lib.tensor(_PADDING),  # what is True is left out
        "FLOATS": lambda mask, given: lib.where(mask, -math.inf, given),
        "PACKED": lib.nn.utils.rnn.pack_sequence([lib.zeros(3, 3), lib.zeros(2, 3)]),
    }  # fmt: skip


def layers() -> dict[str, type]:
    """The public layers and losses that need a row, or an entry in PyTorch's table."""
    return {
        name: kind for name, kind in vars(nn).items()
        if inspect.isclass(kind) and issubclass(kind, nn.Module) and name not in OTHERS
    }  # fmt: skip


def rows_of(name: str) -> list[Row]:
    """Those that begin with this layer."""
    return [row for row in ROWS if row.made.startswith(f"nn.{name}(")]


def advice(name: str, kinds: dict[str, type]) -> str:
    """What to do where there is no row: the one of a neighbour shows how."""
    near = [n for n, k in kinds.items() if n != name and k.__module__ == kinds[name].__module__]
    line = inspect.getsourcelines(kinds[name])[1]
    beside = min(near or ["Tanh"], key=lambda n: abs(inspect.getsourcelines(kinds[n])[1] - line))
    return f"no row in tests/nn/layers.py for nn.{name}: add one beside nn.{beside}'s"
