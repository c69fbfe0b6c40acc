"""What layers and functions of nn refuse: PyTorch's type of error, and a text that says the op or
layer, what was seen and what is expected. The rows are those of tests/refused.py, in which X, O and
I make ones, zeros and zeros of int64."""

from __future__ import annotations

from typing import Any

import pytest
from refused import check_refused, rows

FUNCTIONS = r"""
F.elu(X(3, 4).long()) -> elu
F.gelu(X(3, 4).long()) -> gelu
F.relu(X(3, 4).bool()) -> relu
F.celu(X(3, 4), 0) -> alpha
F.prelu(X(3, 4), X(4).double()) -> weight
F.batch_norm(N[:1, :, :1], None, None, training=True) -> more than 1 value per channel
F.batch_norm(N, None, None) -> running_mean
F.batch_norm(N, O(3), X(3)) -> running_mean
F.alpha_dropout(X(3), 1.5) -> between 0 and 1
F.dropout1d(X(3)) -> 2D or 3D
F.embedding_bag(IDS[None], ROWS, IDS[:1]) -> has to be None
F.embedding_bag(IDS, ROWS, IDS[:1], per_sample_weights=X(3)) -> mode='sum'
F.embedding_bag(IDS, ROWS, IDS[1:2]) -> offsets\[0\]
F.embedding_bag(IDS, ROWS, t.tensor([0, 4])) -> greater
F.scaled_dot_product_attention(Q, Q, Q, X(3, 3), is_causal=True) -> RuntimeError: is_causal
F.scaled_dot_product_attention(Q, Q, Q.double()) -> same dtype
F.scaled_dot_product_attention(Q, Q, Q, X(3, 3, dtype=t.int64)) -> attn_mask dtype
F.scaled_dot_product_attention(Q, Q[:, :3], Q[:, :3], enable_gqa=True) -> multiple
F.multi_head_attention_forward(N, N, N, 3, 2, X(9, 3), *[None] * 3, False, 0.0, X(3, 3), None) ->
    not divisible
F.scaled_dot_product_attention(Q[0, 0, 0], Q, Q) -> 2 dimensional
F.pdist(X(3)) -> 2D
F.pdist(X(3, 4), -1) -> non-negative
F.cosine_similarity(IDS, IDS, 0) -> floating point
F.bilinear(X(2, 3), X(3, 3), X(4, 3, 3)) -> batch dimensions
"""
SPATIAL = r"""
F.conv1d(O(1, 2, 5), O(3, 2, 2), stride=1.5) -> stride must be
F.conv2d(O(1, 2, 5, 5), O(3, 2, 2, 2), stride=(1, 2, 3)) -> 2 i
F.conv2d(O(1, 2, 5, 5), O(3, 2, 2, 2), O(2)) -> bias
F.conv_transpose1d(O(1, 2, 5), O(3, 2, 2)) -> 3 channels
F.conv_transpose1d(O(1, 2, 2), O(2, 3, 2), padding=3) -> Output size is too small
F.max_pool1d(O(1, 1, 4, dtype=t.bool), 2) -> RuntimeError: bool
F.avg_pool3d(O(1, 1, 4, 4, 2), 3, padding=1) -> the kernel's size
F.adaptive_max_pool1d(I(2, 4), 2) -> int64
F.fractional_max_pool2d(O(1, 4, 4), 2) -> requires specifying
F.fractional_max_pool2d(O(1, 4, 4), 2, 4) -> too large
F.fractional_max_pool2d(O(1, 4, 4), 2, 2, _random_samples=O(1, 1, 3)) -> _random_samples
F.max_unpool1d(O(1, 2), I(1, 2), 2, output_size=(9,)) -> invalid output_size
F.unfold(O(1, 2, 3, 3), 0) -> greater than zero
F.pad(O(2, 3), (1,)) -> divisible by 2
F.pad(O(2, 3), (-2, -2)) -> negative output size
F.pad(O(1, 2, 3), (4, 0), "circular") -> at most 3
F.pad(O(1, 3), (-3, 1), "circular") -> RuntimeError: an empty dimension
F.pad(O(3), (1, 0), "replicate") -> last 1, 2 or 3 dims
F.pad(O(2, 3), (1, 0), "mirror") -> mirror
F.pad(O(2, 3), (1, 0), "reflect", 2.0) -> ValueError: value argument
F.interpolate(O(1, 1, 3), 2, 2) -> only one of
F.interpolate(O(1, 1, 3), (2, 2)) -> same number of spatial
F.interpolate(O(1, 1, 3), 2.5) -> ints
F.interpolate(O(1, 1, 3), 2, mode="bilinear") -> 4D
F.interpolate(O(1, 1, 3), 2, mode="sinc") -> sinc
F.interpolate(O(1, 1, 3), 2, align_corners=True) -> align_corners
F.interpolate(O(1, 1, 3), 2, antialias=True) -> Anti-alias
F.interpolate(O(1, 1, 3), scale_factor=0.1) -> greater than 0
F.interpolate(O(1, 1, 3, dtype=t.int8), 2, mode="linear") -> RuntimeError: int8
F.grid_sample(O(1, 1, 2, 2), O(1, 2, 2, 3)) -> last of size 2
F.grid_sample(O(1, 1, 2, 2), O(2, 2, 2, 2)) -> batch size
F.grid_sample(O(1, 1, 2, 2), O(1, 2, 2, 2), "cubic") -> bicubic
t.grid_sampler_3d(O(1, 1, 2, 2), O(1, 2, 2, 2), 0, 0, True) -> 5D
F.affine_grid(O(1, 2, 3), (1, 1, 2, 2, 2)) -> 1x3x4
F.pixel_unshuffle(O(1, 3, 2), 2) -> divides height
"""
LAYERS = r"""
nn.Linear(-1, 2) -> in_features must not be negative
nn.Bilinear(0, 2, 3) -> in1_features must be > 0
nn.Bilinear(2, 3, 4)(X(5, 2), X(5, 2)) -> expected weight
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
nn.AvgPool1d(9)(X(1, 1, 4)) -> too small
nn.AvgPool2d((1, 2, 3))(X(1, 1, 4, 4)) -> an int or 2 ints
nn.LPPool1d(2, 9)(X(1, 1, 4)) -> too small
nn.FractionalMaxPool2d(2) -> output_size
nn.FractionalMaxPool2d(2, 3, 0.5) -> output_ratio
nn.FractionalMaxPool3d(2, output_ratio=1.5) -> between 0 and 1
nn.FractionalMaxPool3d(0, 2) -> greater than 0
nn.MaxUnpool2d(2)(X(1, 1, 2, 2), X(1, 1, 2, 2)) -> int64
nn.ReflectionPad1d(3)(X(1, 1, 3)) -> at most 2
nn.ReplicationPad2d((1, 2, 3))(X(1, 2, 2)) -> TypeError: must be an int or four
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
nn.Dropout2d(1.5) -> between 0 and 1, but got 1.5
nn.AlphaDropout(-1) -> between 0 and 1
nn.Embedding(3, 2, padding_idx=5) -> Padding_idx must be within
nn.Embedding(3, 2, _weight=X(2, 2)) -> Shape of weight does not match
nn.Embedding.from_pretrained(X(3)) -> 2-dimensional
nn.EmbeddingBag(3, 2, padding_idx=-4) -> adding_idx must be within
nn.EmbeddingBag(3, 2, mode='min')(I(2, 2)) -> sum.*mean.*max
nn.EmbeddingBag(3, 2)(I(2)) -> offsets
nn.Unflatten(1, (2, 2.0)) -> type float at pos 1
nn.Unflatten(1, 4) -> found type int
nn.Unflatten(1, (2, 2))(X(1, 5)) -> multiply up to
nn.PixelShuffle(2)(X(3, 2, 2)) -> divisible by its square
nn.ChannelShuffle(2)(X(1, 3, 2)) -> divisible by it
nn.Fold(4, 2)(X(1, 3, 9)) -> N, C . 4, 9
nn.Unfold(5)(X(1, 1, 3, 3)) -> at least one
nn.Upsample()(X(1, 1, 3)) -> size or scale_factor
nn.Upsample(2, mode='cubic')(X(1, 1, 3)) -> bilinear
nn.Hardtanh(2, 1) -> greater than min_val
nn.Softmax2d()(X(2, 2)) -> 3D or 4D
nn.GLU()(X(2, 3)) -> must be even
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
OTHERS = r"""
nn.Parameter([1.0]) -> TypeError: Parameter: expected a Tensor, got list
nn.Buffer([1.0]) -> TypeError: Buffer: expected a Tensor, got list
nn.init.calculate_gain("leaky_relu", "steep") -> negative_slope steep not a valid number
nn.init.kaiming_uniform_(O(2, 2), mode="fan") -> Mode fan not supported
nn.init.calculate_gain("swoosh") -> Unsupported nonlinearity swoosh
nn.init.xavier_uniform_(O(3)) -> fewer than 2 dimensions
nn.utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3).eval())
nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3))
nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(4).eval())
nn.utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1).eval(), nn.BatchNorm1d(3, 1e-5, 0.1, 1, 0).eval())
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), "bias")
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), "weights")
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr")
"""  # parameters, how they begin, and what is done to them
RECURRENT = r"""
nn.GRU(3, 4)(O(3))
nn.LSTM(3, 4)(O(1, 2, 2, 3))
nn.RNN(3, 4)(O(5, 2, 4))
nn.GRU(3, 4)(SEQ, O(2, 4))
nn.GRU(3, 4)(SEQ[0], O(1, 2, 4))
nn.GRU(3, 4)(SEQ, O(2, 2, 4))
nn.RNN(3, 4)(SEQ, O(1, 3, 4))
nn.RNN(3, 4)(SEQ, O(1, 2, 5))
nn.LSTM(3, 4)(SEQ, (O(1, 2, 4), O(1, 2, 5)))
nn.LSTM(3, 4)(SEQ, (O(1, 2, 4), O(2, 4)))
nn.LSTM(3, 4)(SEQ[0], (O(1, 2, 4),) * 2)
nn.LSTM(3, 4, proj_size=4)
nn.LSTM(3, 4, proj_size=-1)
nn.GRU(3, 4, proj_size=2)
nn.RNN(3, 4, nonlinearity="selu")
nn.RNN(3, 4, 2, dropout=1.5)
nn.RNN(3, 4, 2, dropout=True)
nn.RNNBase("CRU", 3, 4)
nn.GRUCell(3, 4)(O(2, 2, 3))
nn.GRU(3, 4)(PACKED, O(1, 3, 4))
nn.GRU(5, 4)(PACKED)
rnn.pack_padded_sequence(SEQ, [2, 3]) -> pass enforce_sorted=False
rnn.pack_padded_sequence(SEQ, [6, 2]) -> RuntimeError: a length of 6 exceeds the input's 5 steps
rnn.pack_padded_sequence(SEQ, [3, 0])
rnn.pack_padded_sequence(SEQ, [3, -1])
rnn.pack_padded_sequence(SEQ, [3, 2, 1])
rnn.pack_padded_sequence(SEQ, t.tensor([[3, 2]]))
rnn.pack_padded_sequence(O(0, 2, 3), [0, 0])
rnn.pack_sequence([O(1, 2), O(2, 2)])
rnn.pad_packed_sequence(PACKED, total_length=1)
rnn.pad_sequence([])
rnn.pad_sequence(3)
rnn.pad_sequence([O(2)], padding_side="up")
rnn.pad_sequence([O(2, 3), O(3, 4)])
"""
ATTENTION = r"""
nn.MultiheadAttention(8, 3)
nn.MultiheadAttention(8, 0)
nn.MultiheadAttention(0, 2)
attend((5, 2, 7), (5, 2, 7), (5, 2, 7))
attend(S, (5, 8), (5, 8))
attend(S, S, (4, 2, 8))
attend(S, S, S, key_padding_mask=O(2, 4))
attend(S, S, S, attn_mask=O(4, 5))
attend(S, S, S, attn_mask=O(5, 5, dtype=t.int64))
attend(S, S, S, is_causal=True)
nn.TransformerEncoderLayer(8, 2, activation="elu")
nn.TransformerDecoderLayer(8, 2, activation="elu")
nn.TransformerEncoderLayer(8, 2)(O(5, 2, 7))
nn.TransformerDecoderLayer(8, 2)(O(*S), O(5, 2, 7))
transformer()(O(5, 2, 7), O(*S))
transformer()(O(*S), O(5, 2, 7))
transformer()(O(*S), O(5, 3, 8))
transformer(batch_first=True)(O(*S), O(4, 2, 8))
"""
ROWS = [row for t in (FUNCTIONS, SPATIAL, LAYERS, OTHERS, RECURRENT, ATTENTION) for row in rows(t)]


def names(t: Any) -> dict[str, Any]:
    """What the rows speak of, of either library."""

    def attend(*shapes: Any, **kwargs: Any) -> Any:
        return t.nn.MultiheadAttention(8, 2)(*[t.zeros(*s) for s in shapes], **kwargs)

    def transformer(**kwargs: Any) -> Any:
        return t.nn.Transformer(8, 2, 1, 1, 4, **kwargs)

    return {
        "t": t, "nn": t.nn, "F": t.nn.functional, "rnn": t.nn.utils.rnn,
        "attend": attend, "transformer": transformer, "S": (5, 2, 8),
        "X": t.ones, "O": t.zeros, "I": lambda *shape: t.zeros(shape, dtype=t.int64),
        "Q": t.ones(2, 4, 3, 4), "N": t.ones(2, 4, 3), "ROWS": t.ones(4, 2),
        "IDS": t.tensor([0, 1, 2]), "SEQ": t.zeros(5, 2, 3),
        "PACKED": t.nn.utils.rnn.pack_sequence([t.zeros(3, 3), t.zeros(2, 3)]),
    }  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ROWS)
def test_refused(call: str, text: str, torch: Any) -> None:
    check_refused(call, text, names, torch)
