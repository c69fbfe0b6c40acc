"""Fourier transforms, whose complex numbers are a last dim of two, and windows of mels."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyframe as pf
from pyframe.onnx import values
from pyframe.onnx.table import op
from pyframe.onnx.values import Host, whole
from pyframe.tensor import Tensor


@op("DFT")
def dft(
    x: Tensor, length: Host | None = None, axis: Host | None = None, *, inverse: int,
    onesided: int, version: int,
) -> Tensor:  # fmt: skip
    dim = (1 if version < 20 else -2) if axis is None else whole(axis)
    dim = dim % x.ndim
    n = None if length is None else whole(length)
    if inverse and onesided:
        return pf.fft.irfft(pf.view_as_complex(x.contiguous()), n, dim).unsqueeze(-1)
    if onesided:
        return pf.view_as_real(pf.fft.rfft(x[..., 0], n, dim))
    if x.shape[-1] == 1:
        x = pf.cat([x, pf.zeros_like(x)], -1)
    function = pf.fft.ifft if inverse else pf.fft.fft
    return pf.view_as_real(function(pf.view_as_complex(x.contiguous()), n, dim))


@op("STFT")
def stft(
    signal: Tensor, step: Host, window: Tensor | None = None, length: Host | None = None, *,
    onesided: int,
) -> Tensor:  # fmt: skip
    n = whole(length) if length is not None else int(window.shape[0])  # type: ignore[union-attr]
    if signal.ndim == 3 and signal.shape[-1] == 2:
        numbers = pf.view_as_complex(signal.contiguous())
        frames = numbers.unfold(1, n, whole(step))
        found = pf.fft.fft(frames if window is None else frames * window)
        return pf.view_as_real(found)
    x = signal[..., 0] if signal.ndim == 3 else signal
    frames = x.unfold(1, n, whole(step))
    frames = frames if window is None else frames * window
    return pf.view_as_real(pf.fft.rfft(frames) if onesided else pf.fft.fft(frames + 0j))


@op("MelWeightMatrix")
def mel_weight_matrix(
    bins: Host, length: Host, rate: Host, low: Host, high: Host, *, output_datatype: int
) -> Any:
    count, n = whole(bins), whole(length) // 2 + 1
    values.see_end(count, "bins")
    values.see_room([count, n], 8)
    mels = 2595 * np.log10(1 + np.array([low.item(), high.item()]) / 700)
    step = (mels[1] - mels[0]) / (count + 2)
    hertz = 700 * (10 ** ((np.arange(count + 2) * step + mels[0]) / 2595) - 1)
    at = ((whole(length) + 1) * hertz // whole(rate)).astype(np.int64)
    made = np.zeros((n, count))
    for i in range(count):
        left, middle, right = at[i : i + 3]
        if left == middle:
            made[middle, i] = 1
        else:
            made[left : middle + 1, i] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            made[middle:right, i] = (right - np.arange(middle, right)) / (right - middle)
    return made.astype(values.numpy_dtype(output_datatype))
