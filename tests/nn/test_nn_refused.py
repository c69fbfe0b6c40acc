"""What functions of nn refuse, as rows of tests/refused.py (layers are in layers.py): the error has
PyTorch's type, and a text that says the op, what was seen and what is expected. X, O and I make
ones, zeros and zeros of int64."""

from __future__ import annotations

from typing import Any

import pytest
from refused import calls, check_refused, rows

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
F.embedding(X(1), ROWS) -> int64 or int32
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
OTHERS = r"""
nn.Parameter([1.0]) -> TypeError: Parameter: expected a Tensor, got list
nn.Buffer([1.0]) -> TypeError: Buffer: expected a Tensor, got list
nn.init.calculate_gain("leaky_relu", "steep") -> negative_slope steep not a valid number
nn.init.kaiming_uniform_(O(2, 2), mode="fan") -> Mode fan not supported
nn.init.calculate_gain("swoosh") -> Unsupported nonlinearity swoosh
nn.init.xavier_uniform_(O(3)) -> fewer than 2 dimensions
nn.utils.spectral_norm(nn.Linear(3, 3), "weights") -> KeyError: weights
rnn.pack_padded_sequence(SEQ, [2, 3]) -> pass enforce_sorted=False
rnn.pack_padded_sequence(SEQ, [6, 2]) -> RuntimeError: a length of 6 exceeds the input's 5 steps
t.gru(SEQ, O(1, 2, 4), [], True, 1, 0.0, False, False, False) ->
    RuntimeError: expected 4 params
t.lstm(SEQ) -> TypeError: lstm
"""  # parameters, how they begin, and what is done to them
CALLS = """
nn.utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3).eval())
nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3))
nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(4).eval())
nn.utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1).eval(), nn.BatchNorm1d(3, 1e-5, 0.1, 1, 0).eval())
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), "bias")
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), "weights")
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr")
nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), dim=2)
nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), n_power_iterations=0)
nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), "weights")
nn.utils.spectral_norm(nn.Linear(3, 3), n_power_iterations=0)
nn.utils.spectral_norm(nn.Linear(3, 3, bias=False), "bias")
rnn.pack_padded_sequence(SEQ, [3, 0]) | rnn.pack_padded_sequence(SEQ, [3, -1])
rnn.pack_padded_sequence(SEQ, [3, 2, 1]) | rnn.pack_padded_sequence(SEQ, t.tensor([[3, 2]]))
rnn.pack_padded_sequence(O(0, 2, 3), [0, 0]) | rnn.pack_sequence([O(1, 2), O(2, 2)])
rnn.pad_packed_sequence(PACKED, total_length=1) | rnn.pad_sequence([]) | rnn.pad_sequence(3)
rnn.pad_sequence([O(2)], padding_side="up") | rnn.pad_sequence([O(2, 3), O(3, 4)])
"""  # without a text
ROWS = [row for t in (FUNCTIONS, SPATIAL, OTHERS) for row in rows(t)]
ROWS += [(call, "") for call in calls(CALLS)]


def names(t: Any) -> dict[str, Any]:
    """What the rows speak of, of either library."""

    return {
        "t": t, "nn": t.nn, "F": t.nn.functional, "rnn": t.nn.utils.rnn,
        "X": t.ones, "O": t.zeros, "I": lambda *shape: t.zeros(shape, dtype=t.int64),
        "Q": t.ones(2, 4, 3, 4), "N": t.ones(2, 4, 3), "ROWS": t.ones(4, 2),
        "IDS": t.tensor([0, 1, 2]), "SEQ": t.zeros(5, 2, 3),
        "PACKED": t.nn.utils.rnn.pack_sequence([t.zeros(3, 3), t.zeros(2, 3)]),
    }  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ROWS)
def test_refused(call: str, text: str, torch: Any) -> None:
    check_refused(call, text, names, torch)
