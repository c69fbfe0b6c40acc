"""Memory shared with NumPy, PyTorch and whoever else speaks DLPack: what is copied, and how long
memory stays."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.tensor.dlpack import described

DTYPES = """float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool
complex64 complex128""".split()
VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, 1::2],
    "a row": lambda x: x[1],
    "a number": lambda x: x[1, 2],
    "empty": lambda x: x[:0],
    "broadcast": lambda x: x[:1].expand(5, 4),
    "one more axis": lambda x: x[:, None],
}


class Old:
    """An array of a library from before DLPack 1.0, whose `__dlpack__` takes a stream alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_shared_both_ways(name: str, torch: Any) -> None:
    ours = pf.ones(2, 3).to(getattr(pf, name))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype is getattr(torch, name)
    assert theirs.data_ptr() == ours.data_ptr()
    theirs[1, 2] = 0
    assert ours.tolist() == theirs.tolist() == [[1, 1, 1], [1, 1, 0]]
    back = pf.from_dlpack(theirs)
    assert (back.dtype, back.data_ptr()) == (ours.dtype, ours.data_ptr())
    array = np.from_dlpack(ours)
    array[0, 0] = 0
    assert back.tolist() == [[0, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize("name", VIEWS)
def test_views_keep_shape_and_strides(name: str, torch: Any) -> None:
    ours, theirs = pf.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
    ours, theirs = VIEWS[name](ours), VIEWS[name](theirs)
    given, taken = torch.from_dlpack(ours), pf.from_dlpack(theirs)
    assert torch.equal(given, theirs)
    assert taken.tolist() == theirs.tolist()
    if theirs.numel():
        assert given.stride() == theirs.stride() == taken.stride()
        assert given.data_ptr() == ours.data_ptr()
        assert taken.data_ptr() == theirs.data_ptr()


@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
def test_bfloat16_is_copied(shape: tuple[int, ...], torch: Any) -> None:
    theirs = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    ours = pf.from_dlpack(theirs)
    assert ours.dtype is pf.bfloat16
    assert ours.float().tolist() == theirs.float().tolist()
    back = torch.from_dlpack(ours)
    assert back.dtype is torch.bfloat16
    assert torch.equal(back, theirs)
    if len(shape) == 2:
        assert torch.equal(torch.from_dlpack(ours.T), theirs.T)
        assert pf.from_dlpack(theirs.T).float().tolist() == theirs.T.float().tolist()
    for give in (lambda: ours.__dlpack__(copy=False), lambda: pf.from_dlpack(theirs, copy=False)):
        with pytest.raises(BufferError, match="bfloat16.*copied|copied.*copy=False"):
            give()


def test_copies_where_it_is_told(torch: Any) -> None:
    x = pf.arange(4.0)
    for copied in (torch.from_dlpack(x, copy=True), np.from_dlpack(x, copy=True)):
        copied[0] = 9
    source = torch.arange(4.0)
    taken = pf.from_dlpack(source, copy=True)
    source[0] = 9
    assert taken[0] == x[0] == 0
    x[1] = 5
    assert np.from_dlpack(x, copy=False)[1] == 5


def test_reversed_memory_is_copied_as_pytorch_aborts_on_it(torch: Any) -> None:
    array = np.arange(4.0)[::-1]
    x = pf.from_dlpack(array)
    array[0] = 7
    assert x.tolist() == [7, 2, 1, 0]
    assert torch.from_dlpack(x).tolist() == [7, 2, 1, 0]
    with pytest.raises(BufferError, match=r"strides \(-1,\).*copy=False"):
        x.__dlpack__(copy=False)


def test_read_only_memory_stays_so() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    x = pf.from_dlpack(array)
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert not np.from_dlpack(x).flags.writeable, "and so it is handed on"
    assert pf.from_dlpack(array, copy=True).add_(1).tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="readonly"):
        x.__dlpack__()  # an old capsule can't say so


def test_versions_of_the_capsule(torch: Any) -> None:
    x = pf.arange(3, dtype=pf.int16)
    for given, name in (({}, "dltensor"), ({"max_version": (1, 0)}, "dltensor_versioned")):
        capsule = x.__dlpack__(**given)
        assert f'"{name}"' in repr(capsule)
        seen = described(capsule)
        assert (seen.kind, seen.ndim, seen.code, seen.bits, seen.lanes) == (1, 1, 0, 16, 1)
        assert seen.data == x.data_ptr()
        assert torch.from_dlpack(capsule).tolist() == [0, 1, 2]
    assert pf.from_dlpack(torch.arange(3).__dlpack__()).tolist() == [0, 1, 2]
    assert pf.from_dlpack(Old(np.arange(3))).tolist() == [0, 1, 2]
    used = torch.arange(3).__dlpack__()
    pf.from_dlpack(used)
    with pytest.raises(RuntimeError, match="capsule was taken before"):
        pf.from_dlpack(used)
    assert pf.utils.dlpack.from_dlpack(pf.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()


def test_what_is_refused(torch: Any) -> None:
    x = pf.ones(2)
    with pytest.raises(BufferError, match="require gradient, use tensor.detach"):
        x.clone().requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match=r"only the CPU's memory.*\(2, 0\)"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        x.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="with __dlpack__, got int"):
        pf.from_dlpack(5)
    with pytest.raises((RuntimeError, BufferError), match="dtype"):
        pf.from_dlpack(torch.ones(2).to(torch.float8_e5m2))

    class Elsewhere(Old):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

    with pytest.raises(BufferError, match="device 1 of DLPack's kind 2.*device='cpu' copies"):
        pf.from_dlpack(Elsewhere(np.ones(2)))


def test_memory_stays_as_long_as_anyone_has_it(torch: Any) -> None:
    array = np.arange(1000.0)
    gone = weakref.ref(array)
    x = pf.from_dlpack(array)
    del array
    gc.collect()
    assert gone() is not None
    theirs = torch.from_dlpack(x[10:])
    del x
    gc.collect()
    assert theirs[5] == 15
    assert gone() is not None
    del theirs
    gc.collect()
    assert gone() is None, "nobody is left"

    x = pf.arange(1 << 18)  # large: its memory is used again once nobody holds it
    other = np.from_dlpack(x)
    del x
    gc.collect()
    assert pf.zeros(1 << 18, dtype=pf.int64).sum() == 0
    assert other[-1] == (1 << 18) - 1
    capsule = pf.ones(3).__dlpack__()
    del capsule  # which nobody took
    y = pf.ones(1000).bfloat16()
    theirs = torch.from_dlpack(y)
    del y
    gc.collect()
    assert theirs.sum() == 1000


def test_a_gpus_tensors_are_copied_when_the_cpu_is_asked_for(gpu: str, torch: Any) -> None:
    x = pf.arange(3.0, device=gpu)
    assert x.__dlpack_device__() == (15, 0)
    for take in (np.from_dlpack, torch.from_dlpack, pf.from_dlpack):
        with pytest.raises((BufferError, RuntimeError, TypeError, AssertionError, ValueError)):
            take(x)
    with pytest.raises(BufferError, match=r"'gpu.*not shared.*\.cpu\(\)"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert np.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    assert pf.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    there = pf.from_dlpack(np.arange(3.0, dtype=np.float32), device=gpu)
    assert there.device == x.device
    assert there.tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="copy=False.*is a copy"):
        pf.from_dlpack(np.ones(2), device=gpu, copy=False)


def test_numpy_asks_for_copies() -> None:
    x = pf.arange(3.0)
    np.asarray(x)[0] = 5
    np.array(x)[1] = 7
    assert x.tolist() == [5, 1, 2]
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert np.asarray(x, copy=False).tolist() == [5, 1, 2]
        with pytest.raises(ValueError, match="float32 as int64 is a copy"):
            np.asarray(x, np.int64, copy=False)
    assert np.asarray(x, np.int64).dtype == np.int64
    assert x.__array__(copy=True) is not x.__array__()
