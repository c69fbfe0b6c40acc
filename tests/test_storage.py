"""Tensor types, storages, memory formats, other libraries' memory, and the limits of dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pyframe as pf

DTYPES = """float32 float64 float16 bfloat16 uint8 int8 int16 int32 int64 bool complex64 complex128
uint16 uint32 uint64""".split()


def test_promotion_is_pytorchs(torch: Any) -> None:
    for a, b in itertools.product(DTYPES, DTYPES):
        castable = torch.can_cast(getattr(torch, a), getattr(torch, b))
        assert pf.can_cast(getattr(pf, a), getattr(pf, b)) == castable, (a, b)
        try:
            want = str(torch.promote_types(getattr(torch, a), getattr(torch, b)))
        except RuntimeError:
            with pytest.raises(RuntimeError, match="not supported"):
                pf.promote_types(getattr(pf, a), getattr(pf, b))
            continue
        got = pf.promote_types(getattr(pf, a), getattr(pf, b))
        assert f"torch.{got.name}" == want, (a, b)


def test_result_types_of_tensors_and_numbers_are_pytorchs(torch: Any) -> None:
    def operands(t: Any) -> list[Any]:
        found = [True, 2, 2.5, 2j]
        for name in DTYPES[:12]:
            found += [t.ones(2, dtype=getattr(t, name)), t.ones((), dtype=getattr(t, name))]
        return found

    for (a, b), (c, d) in zip(
        itertools.product(operands(pf), repeat=2),
        itertools.product(operands(torch), repeat=2),
        strict=True,
    ):
        if isinstance(a, pf.Tensor) or isinstance(b, pf.Tensor):
            want = str(torch.result_type(c, d)).removeprefix("torch.")
            want = "complex64" if want == "complex32" else want  # the narrowest there is here
            assert pf.result_type(a, b).name == (a + b).dtype.name == want, (c, d)
            assert (a == b).dtype is pf.bool
            quotient = want if want[:2] in ("fl", "bf", "co") else "float32"
            assert (a / b).dtype.name == quotient, (c, d)


@pytest.mark.parametrize("name", [d for d in DTYPES if d[0] in "fb" and d != "bool"])
def test_finfo(name: str, torch: Any) -> None:
    got, want = pf.finfo(getattr(pf, name)), torch.finfo(getattr(torch, name))
    for field in "bits eps max min tiny smallest_normal resolution dtype".split():
        assert getattr(got, field) == pytest.approx(getattr(want, field)), field


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_iinfo(name: str, torch: Any) -> None:
    got, want = pf.iinfo(getattr(pf, name)), torch.iinfo(getattr(torch, name))
    assert (got.bits, got.min, got.max, got.dtype) == (want.bits, want.min, want.max, want.dtype)


def test_tensor_types() -> None:
    x = pf.FloatTensor([[1, 2], [3, 4]])
    assert isinstance(x, pf.FloatTensor)
    assert not isinstance(x, pf.LongTensor)
    assert x.dtype is pf.float32
    assert pf.LongTensor(2, 3).shape == (2, 3)
    assert x.type() == "pyframe.FloatTensor"
    assert x.type("pyframe.LongTensor").dtype is x.type(pf.LongTensor).dtype is pf.int64
    assert x.type(pf.float64).dtype is pf.float64
    assert pf.Tensor(2, 3).shape == (2, 3)
    assert pf.Tensor([2, 3]).tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="expected a dtype"):
        x.type("FloatTensr")


def test_bfloat16_rounds_as_pytorch(torch: Any, device: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(2000).astype(np.float32) * 10.0 ** rng.integers(-30, 30, 2000)
    a = np.r_[a, np.inf, -np.inf, np.nan, 3.4e38, 1e-40].astype(np.float32)
    x = pf.from_numpy(a).to(device).to(pf.bfloat16)
    want = torch.from_numpy(a).to(torch.bfloat16)
    assert x.element_size() == 2
    assert (x * x + 1).dtype is pf.bfloat16
    normal = np.abs(a) > 1e-37  # a GPU may flush what is smaller
    got = x.float().cpu().numpy()
    np.testing.assert_array_equal(got[normal], want.float().numpy()[normal])
    y = (x * x + 1).float().cpu().numpy()
    np.testing.assert_array_equal(y[normal], (want * want + 1).float().numpy()[normal])


def test_complex_in_a_compiled_function() -> None:
    @pf.compile
    def fn(x: pf.Tensor) -> pf.Tensor:
        return pf.fft.irfft(pf.fft.rfft(x * 2) * 1j)

    x = pf.tensor([0.3, 1.25, -2.0, 4.0])
    want = pf.fft.irfft(pf.fft.rfft(x * 2) * 1j)
    with pytest.warns(RuntimeWarning, match="fft_r2c of complex64"):
        fn(x)
    for _ in range(3):
        np.testing.assert_allclose(fn(x).numpy(), want.numpy(), rtol=1e-6)


def test_complex128_on_the_gpu_says_what_to_do(gpu: str) -> None:
    for make in (lambda: pf.ones(4, device=gpu, dtype=pf.complex128),
                 lambda: pf.ones(4, dtype=pf.complex128).to(gpu),
                 lambda: pf.ones(4, device=gpu).cdouble()):  # fmt: skip
        with pytest.raises(TypeError, match=r"no complex128; use complex64, or .*CPU"):
            make()


def test_storages_are_shared_by_views(device: str) -> None:
    x = pf.arange(12.0, device=device).reshape(3, 4)
    part = x[1:, 2:]
    assert part.untyped_storage() == x.untyped_storage() != x.clone().untyped_storage()
    assert x.untyped_storage().nbytes() == part.untyped_storage().size() == 48
    assert part.storage_offset() == 6
    assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert device != "cpu" or part.data_ptr() - x.data_ptr() == 24
    assert part.stride() == (4, 1)
    assert not part.is_contiguous()
    assert part.contiguous().is_contiguous()
    x.add_(1)
    assert part.untyped_storage() == x.untyped_storage()


def test_memory_formats(device: str) -> None:
    x = pf.arange(120.0, device=device).reshape(2, 3, 4, 5)
    y = x.to(memory_format=pf.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert y.is_contiguous(memory_format=pf.channels_last)
    assert not y.is_contiguous()
    assert y.tolist() == x.tolist()
    assert x.is_contiguous(memory_format=pf.contiguous_format)
    with pytest.raises(RuntimeError, match="rank 4"):
        x[0].to(memory_format=pf.channels_last)


def test_memory_is_shared_with_numpy() -> None:
    """As DLPack shares it: test_interchange.py."""
    a = np.arange(4.0)
    for x in (pf.from_numpy(a), pf.asarray(a), pf.as_tensor(a)):
        x[0] += 1
    assert a[0] == 3
    copied = pf.tensor(a)
    a[0] = 5
    assert copied[0] == 3
    raw = bytearray(np.arange(4, dtype=np.int32).tobytes())
    view = pf.frombuffer(raw, dtype=pf.int32, offset=4)
    raw[4] = 9
    assert view.tolist() == [9, 2, 3]


def test_out_is_resized_and_cast(device: str) -> None:
    x = pf.arange(4.0, device=device)
    out = pf.empty(0, device=device)
    assert pf.add(x, 1, out=out) is out
    assert out.tolist() == [1, 2, 3, 4]
    with pytest.warns(UserWarning, match="resized"):
        pf.exp(x[:2], out=out)
    assert out.shape == (2,)
    values = (pf.empty(0, device=device), pf.empty(0, dtype=pf.int64, device=device))
    got = pf.max(x.reshape(2, 2), 1, out=values)
    assert got.values is values[0]
    assert values[1].tolist() == [1, 1]


def _buffers(*tensors: pf.Tensor) -> list[object]:
    """The buffers of what is computed now."""
    pf.gpu.synchronize()
    return [x._storage.node.data.handle for x in tensors if x.sum().item() is not None]


def test_a_gpu_writes_a_new_value_over_the_old_one(gpu: str) -> None:
    x = pf.arange(1000.0, device=gpu)
    before = _buffers(x)
    doubled = x * 2  # reads the old value
    x.add_(1).mul_(3)
    x[10:20] = 5
    assert _buffers(x) == before
    expected = (np.arange(1000.0) + 1) * 3
    expected[10:20] = 5
    assert np.array_equal(x.cpu().numpy(), expected)
    assert np.array_equal(doubled.cpu().numpy(), np.arange(1000.0) * 2)


@pytest.mark.parametrize("how", ["saved", "view", "elsewhere", "another dtype"])
def test_who_reads_a_value_that_is_written_over_sees_what_pytorch_shows(gpu: str, how: str) -> None:
    x = pf.arange(64.0, device=gpu).reshape(8, 8)
    w = pf.ones(8, 8, device=gpu, requires_grad=True)
    pf.gpu.synchronize()
    if how == "saved":  # PyTorch's saved tensors see what is written past autograd, too
        y = (w * x).sum()
        x.data.add_(1)
        y.backward()
        assert np.array_equal(w.grad.cpu().numpy(), np.arange(64.0).reshape(8, 8) + 1)
    elif how == "view":  # a view of what it was computed for is of what is written
        t = x.T
        x.add_(1)
        assert np.array_equal(t.cpu().numpy(), (np.arange(64.0).reshape(8, 8) + 1).T)
    elif how == "elsewhere":  # where other elements are read
        x.copy_(x.T.clone())
        assert np.array_equal(x.cpu().numpy(), np.arange(64.0).reshape(8, 8).T)
    else:
        n = x.to(pf.int32)
        x.copy_(n + 1)
        assert np.array_equal(x.cpu().numpy(), np.arange(64.0).reshape(8, 8) + 1)


def test_an_optimizer_needs_no_second_copy_on_a_gpu(gpu: str) -> None:
    layer = pf.nn.Linear(64, 64).to(gpu)
    opt = pf.optim.AdamW(layer.parameters())
    x = pf.ones(4, 64, device=gpu)
    places = []
    for _ in range(3):
        opt.zero_grad()
        layer(x).sum().backward()
        opt.step()
        moments = [opt.state[layer.weight][name] for name in ("exp_avg", "exp_avg_sq")]
        places.append(_buffers(layer.weight, *moments))
    assert places[0] == places[1] == places[2]
