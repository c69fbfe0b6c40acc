"""Bad input: each error names the op, what was seen, what was expected, and a way on."""

from __future__ import annotations

import asyncio
import io
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from refused import check_refused, literal

import pyframe as pf
from pyframe import data, nn, optim
from pyframe.vision.datasets import cifar
from pyframe.vision.datasets.utils import extract_archive
from tests.train import test_fit_refused


def test_mixed_devices(gpu: str) -> None:
    with pytest.raises(RuntimeError, match="add: Expected all tensors to be on the same device"):
        pf.ones(2) + pf.ones(2, device=gpu)
    with pytest.raises(RuntimeError, match=r"matmul: .*but found cpu and gpu; move one with \.to"):
        pf.ones(2, 2) @ pf.ones(2, 2, device=gpu)
    assert (pf.tensor(2.0) * pf.ones(2, device=gpu)).tolist() == [2, 2]  # a 0-d tensor may follow


def test_dtypes_that_the_gpu_lacks(gpu: str) -> None:
    for make in (
        lambda: pf.ones(2, dtype=pf.float64, device=gpu),
        lambda: pf.ones(2, dtype=pf.float64).to(gpu),
        lambda: pf.ones(2, device=gpu).double(),
    ):
        with pytest.raises(TypeError, match=r"device 'gpu' has no float64; use float32"):
            make()
    x = pf.arange(2, device=gpu)
    for big in (
        lambda: pf.tensor([2**32], device=gpu),
        lambda: pf.full((2,), 2**32, device=gpu),
        lambda: x + 2**32,
        lambda: x < 2**32,
        lambda: x.clamp(max=2**32),
        lambda: x.clone().copy_(pf.tensor([2**32, 0])),
    ):
        with pytest.raises(OverflowError, match=r"held in 32 bits on the GPU and 4294967296"):
            big()
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        pf.ones(2, device=gpu).numpy()


@pytest.mark.parametrize("name", ["foward", "Forward", "_forward", "call", "forwards"])
def test_a_module_whose_forward_has_another_name(name: str) -> None:
    wrong = type("Net", (nn.Module,), {name: lambda self, x: x, "other": 1})
    said = f'Module [Net] is missing the required "forward" function; it has {name}: call that'
    with pytest.raises(NotImplementedError, match=re.escape(said)):
        wrong()(1)
    none = type("Net", (nn.Module,), {"step": lambda self, x: x})
    with pytest.raises(NotImplementedError, match="function$"):
        none()(1)


def test_files_of_other_programs(tmp_path: Path) -> None:
    for name, said in (
        ("net.onnx", "is ONNX, a whole network; pf.onnx.load makes a Module of it"),
        ("net.h5", "is HDF5, of Keras; give the arrays of model.get_weights"),
        ("net.keras", "is HDF5, of Keras"),
        ("net.gguf", "is GGUF, of llama.cpp; load the model's .safetensors files"),
        ("x.npy", "is one array of NumPy's: pf.from_numpy(np.load(path))"),
    ):
        (tmp_path / name).write_bytes(b"\x08\x07\x12\x07pytorch")
        with pytest.raises(ValueError, match=re.escape(said)):
            pf.load(tmp_path / name)


def test_names_of_other_programs_are_not_written_to(tmp_path: Path) -> None:
    """What would be refused when it is loaded, or taken for another file, is refused at once."""
    net = nn.Linear(2, 3)
    state = net.state_dict()
    for end in ("h5", "hdf5", "keras", "onnx", "gguf", "npy", "pb", "tflite", "H5"):
        path = tmp_path / f"m.{end}"
        for save in (
            pf.Model(net).save, pf.Model(net).save_checkpoint, partial(pf.save, state),
            partial(pf.io.safetensors.save_file, state),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=rf"m\.{end} is a name for .*: call it m\.safeten"):
                save(path)
        with pytest.raises(ValueError, match=r"call it m\.safetensors, or \.pt or \.npz"):
            asyncio.run(pf.Model(net).save_async(path))
    assert not list(tmp_path.iterdir())


def test_files_are_loaded_by_what_they_hold(tmp_path: Path) -> None:
    net, other = nn.Linear(2, 3), nn.Linear(2, 3)
    for end in ("pt", "npz", "safetensors"):
        pf.save(net.state_dict(), tmp_path / f"m.{end}")
        for name in ("m.h5", "m.onnx", "m.npy", "m.bin", "m", "m.pth", "m.npz"):
            path = tmp_path / name
            if end == "npz" or name != "m.npz":
                path.write_bytes((tmp_path / f"m.{end}").read_bytes())
                nn.init.zeros_(other.weight)
                pf.Model(other).load(path)
                assert pf.equal(other.weight, net.weight)
    for start, said in {
        b"GGUF\3": "is GGUF, of llama.cpp", b"\x89HDF\r\n\x1a\n": "is HDF5, of Keras",
        b"\x93NUMPY\1": "is one array of NumPy's", b"\x1c\0\0\0TFL3": "is TensorFlow Lite's",
    }.items():  # fmt: skip
        (tmp_path / "net.pt").write_bytes(start + bytes(100))
        with pytest.raises(ValueError, match=said):
            pf.load(tmp_path / "net.pt")


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:46\nsize 132\n"
PAGES = [
    b"<!DOCTYPE html><html>404</html>",
    b"\xef\xbb\xbf\n<HTML>",
    b"<?xml version='1.0'?><Error>",
]


READERS = {  # of what is not read by pf.load
    "m.gguf": lambda p: pf.text.CausalLM.from_pretrained(p), "m.onnx": lambda p: pf.onnx.load(p),
    "config.json": lambda p: pf.text.AutoModel.from_pretrained(p.parent),
    "tokenizer.json": lambda p: pf.text.Tokenizer.from_pretrained(p.parent),
    "adapter_config.json": lambda p: pf.lora.load(nn.Linear(2, 2), p.parent),
    "x-idx3-ubyte": pf.io.read_idx, "x.gz": pf.io.read_idx, "batch": cifar._unpickled,
    "x.png": lambda p: pf.vision.io.read_image(p), "x.zip": extract_archive,
    "x.tar": extract_archive, "x.tar.gz": extract_archive, "x.xz": extract_archive,
    "open": lambda p: pf.load(io.BytesIO(p.read_bytes())),
    "m.npz": pf.io.npz.load, "m.pt": pf.io.pt.load,
}  # fmt: skip
NEEDS = {"m.onnx": "onnx", "tokenizer.json": "tokenizers", "x.png": "PIL"}
NEEDS_BESIDE = {"adapter_config.json": "adapter_model.safetensors"}
LOADED = ["m.safetensors", "m.pth", "m.bin", "m.", "m.h5", "m.safetensors.index.json"]


@pytest.mark.parametrize("name", [*READERS, *LOADED])
def test_pointers_and_pages_in_place_of_files(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    (tmp_path / NEEDS_BESIDE.get(name, name)).touch()
    for text in (LFS, *PAGES):
        (tmp_path / name).write_bytes(text)
        said = "a Git LFS pointer" if text is LFS else "an HTML page"
        for read in {READERS.get(name, pf.load), pf.load if name[:2] == "m." else READERS[name]}:
            with pytest.raises((ValueError, RuntimeError), match=said):
                read(tmp_path / name)


def test_a_parameter_is_no_array() -> None:
    """Matplotlib, too, comes to the message that says what to do."""
    w = nn.Linear(3, 2).weight
    with pytest.raises(RuntimeError, match=r"requires grad. Use tensor.detach\(\).numpy\(\)"):
        np.asarray(w)
    with pytest.raises(ValueError, match="a Tensor with 6 elements cannot be converted to Scalar"):
        float(w)  # which it asks first, and passes over where there are several


def test_unknown_devices() -> None:
    with pytest.raises(RuntimeError, match="unknown device 'tpu'; expected 'cpu', 'gpu'"):
        pf.ones(2, device="tpu")
    assert pf.device("cuda") is pf.device("gpu")
    assert str(pf.device("webgpu:1")) == "gpu:1"


# --- what a newcomer writes


class NoSuper(nn.Module):
    def __init__(self) -> None:
        self.width = 3

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return x


def stepped(**options: Any) -> None:
    """A step with options that were set later."""
    w = pf.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    optimizer.param_groups[0].update(options)
    w.sum().backward()
    optimizer.step()


WRONG = r"""
net()(X.double()) ->
    RuntimeError: linear: … float64 … float32 … convert the input with .to(pf.float32) … network
net()(X.to(pf.uint8)) ->
    RuntimeError: linear: … uint8 … float32 … convert the input with .to(pf.float32)
net()(X.long()) -> RuntimeError: linear: … int64 … float32 … .to(pf.float32)
net()(X.bool()) -> RuntimeError: linear: … bool … float32 … .to(pf.float32)
nn.Linear(2, 4, bias=False)(X.half()) -> RuntimeError: linear: … float16 … float32 … .to(
F.linear(X, pf.ones(4, 2), pf.ones(4).double()) ->
    RuntimeError: linear: … bias … float32, but got float64; convert the bias
nn.Conv2d(1, 2, 3)(pf.ones(1, 1, 8, 8).to(pf.uint8)) ->
    RuntimeError: conv2d: … uint8 … float32 … convert the input with .to(pf.float32)
F.conv2d(pf.ones(1, 1, 8, 8), pf.ones(1, 1, 3, 3), pf.ones(1).double()) ->
    RuntimeError: conv2d: … bias … float32, but got float64; convert the bias
X.double() @ pf.ones(2, 2) -> RuntimeError: matmul: … float64 … float32 … .to(dtype)
net()(X.numpy()) -> TypeError: linear(): argument 'input' … ndarray … pf.tensor
nn.Flatten()(X.numpy()) -> TypeError: flatten(): argument 'input' … ndarray … pf.tensor
nn.Sequential(Forgets(), nn.Linear(2, 2))(X) ->
    TypeError: linear(): argument 'input' … NoneType … without `return`
net()(pf.ones(8, 3)) -> RuntimeError: linear: … [8, 3] … 3 features … expects 2
nn.Linear('2', 4) -> TypeError: Linear: in_features must be an int, got '2'
nn.Linear(2, 4.0) -> TypeError: Linear: out_features must be an int, got 4.0
nn.Linear(-2, 4) -> RuntimeError: Linear: in_features must not be negative, got -2
nn.Linear(2, 4, dtype='float32') -> TypeError: Linear … dtype … pf.float32 … str
nn.Conv2d(1, 2, '3') -> TypeError: Conv2d: kernel_size must be an int, got '3'
nn.Conv2d(1, 2, (3, 3, 3)) -> TypeError: Conv2d: kernel_size must be an int or two, got (3, 3, 3)
nn.Conv2d(1, 2, 3, stride=None) -> TypeError: Conv2d: stride must be an int, got None
nn.Conv2d(1, 2, 3, groups='a') -> TypeError: Conv2d: groups must be an int, got 'a'
nn.Embedding(4.0, 2) -> TypeError: Embedding: num_embeddings must be an int, got 4.0
nn.LayerNorm('a') -> TypeError: LayerNorm: normalized_shape must be an int, got 'a'
nn.LayerNorm(None) -> TypeError: LayerNorm: normalized_shape must be an int, got None
nn.Dropout('0.5') -> TypeError: Dropout: p must be a number from 0 to 1, got '0.5'
nn.Sequential([nn.ReLU()]) -> TypeError: list is not a Module … Sequential(*modules)
nn.Sequential(nn.ReLU) -> TypeError: the class ReLU is not a Module … ReLU()
nn.Sequential(F.relu) -> TypeError: function is not a Module … forward
nn.ReLU(inplace=True)(X.numpy()) -> TypeError: relu(): argument 'input' … ndarray
NoSuper()(X) -> AttributeError: 'NoSuper' object … super().__init__() was not called
nn.ModuleList(nn.ReLU()) -> TypeError: ModuleList: expected an iterable … ReLU … a list
nn.ModuleDict([nn.ReLU()]) -> TypeError: ModuleDict: … pairs (name, module) … ReLU
nn.MSELoss(X, X) -> TypeError: MSELoss: got 2 positional … nn.MSELoss()(input, target)
nn.CrossEntropyLoss(X, Y) ->
    TypeError: CrossEntropyLoss: got 1 positional … nn.CrossEntropyLoss()(input, target)
nn.CrossEntropyLoss(reduction='avg') -> ValueError: avg … 'mean', 'sum' or 'none'
F.cross_entropy(pf.ones(4, 3), pf.tensor([0, 1, 2, 7])) ->
    IndexError: cross_entropy: target … 0 to 2, got 7 … 3 classes
F.nll_loss(pf.ones(2, 1), pf.tensor([0, -1])) ->
    IndexError: nll_loss: target … 0 to 0, got -1 … 1 class
F.cross_entropy(pf.ones(4, 3), pf.ones(4)) ->
    RuntimeError: cross_entropy: … [4, 3] … float32 [4] … .long()
F.cross_entropy(pf.ones(4, 3), pf.ones(4, 1).long()) ->
    RuntimeError: cross_entropy: … [4, 3] … [4, 1] … .squeeze(1)
F.cross_entropy(pf.ones(4, 3), pf.ones(4, 3).long()) ->
    RuntimeError: cross_entropy: … int64 … one-hot … .argmax(1)
F.mse_loss(pf.ones(4, 1), pf.ones(4)) ->
    UserWarning: target size ([4]) … input size ([4, 1]) in mse_loss … target.view_as(input)
F.binary_cross_entropy_with_logits(pf.ones(4, 1), pf.ones(4)) ->
    ValueError: Target size ([4]) … input size ([4, 1])
optim.Adam(nn.Linear(2, 2)) -> TypeError: Adam: … got Linear … net.parameters()
optim.Adam(net()) -> TypeError: Adam: … is Linear … net.parameters()
optim.SGD(net().parameters, 0.1) -> TypeError: SGD: … got method … call it
optim.SGD(net().state_dict(), 0.1) -> TypeError: SGD: … OrderedDict … net.parameters()
optim.SGD(None, 0.1) -> TypeError: SGD: … got NoneType … net.parameters()
optim.SGD(X, 0.1) -> TypeError: SGD: … got Tensor … list
optim.AdamW(iter([])) -> ValueError: AdamW: … empty … net.parameters() gives them once
optim.AdamW([{'lr': 1}]) -> KeyError: params … ['lr']
optim.Adam([X], betas=0.9) -> TypeError: Adam: Invalid betas … (0.9, 0.999), got 0.9
optim.Adam([X], betas=(0.9,)) -> ValueError: Adam: Invalid betas … (0.9, 0.999), got (0.9,)
optim.SGD([X], dampening='0') -> TypeError: SGD: Invalid dampening value: '0' … a number
optim.Adam([X]).load_state_dict(net().state_dict()) ->
    KeyError: Adam.load_state_dict: … 'param_groups' and 'state' … 0.weight
optim.Adam([X]).load_state_dict(3) -> TypeError: Adam.load_state_dict: … got int
stepped(lr='0.1') -> TypeError: SGD: Invalid learning rate: '0.1'; expected a number in
stepped(momentum=None) -> TypeError: SGD: Invalid momentum value: None; expected a number
DataLoader(3) -> TypeError: DataLoader: expected a data set … got int … TensorDataset(x, y)
DataLoader(TensorDataset) -> TypeError: DataLoader: … got the class TensorDataset
DataLoader(iter([1, 2])) -> TypeError: DataLoader: … got list_iterator; list(…)
DataLoader(PAIRS, batch_size=2.5) -> ValueError: batch_size … positive … batch_size=2.5
DataLoader(PAIRS, batch_size=-1) -> ValueError: batch_size … positive … batch_size=-1
DataLoader(PAIRS, sampler=3) -> TypeError: DataLoader: sampler … iterable … got 3
DataLoader(PAIRS, batch_sampler=3) -> TypeError: DataLoader: batch_sampler … got 3
DataLoader(PAIRS, collate_fn='stack') -> TypeError: DataLoader: collate_fn … got 'stack'
DataLoader(PAIRS, shuffle=True, generator=3) -> TypeError: generator … pf.Generator … got 3
DataLoader(TensorDataset(X[:0]), shuffle=True) -> ValueError: num_samples=0 … is empty
list(DataLoader(NoLength())) -> TypeError: NoLength has no __len__ … __getitem__(index)
list(DataLoader((X, Y), 2)) -> RuntimeError: equal size … [8, 2] … [8] … TensorDataset(x, y)
list(DataLoader(Samples(print), 2)) -> TypeError: default_collate: … NoneType … collate_fn
TensorDataset(X.numpy()) -> TypeError: TensorDataset: … ndarray … pf.from_numpy
TensorDataset(pf.tensor(1.0)) -> IndexError: TensorDataset: … without dims
random_split(PAIRS, 3) -> TypeError: random_split: expected a list of lengths … got 3
random_split(PAIRS, [0.5, 'a']) -> TypeError: random_split: expected a list … 'a'
random_split(NoLength(), [1]) -> TypeError: random_split: NoLength has no __len__
ConcatDataset(3) -> TypeError: ConcatDataset: expected a list of data sets, got int
net().load_state_dict({**net().state_dict(), '0.weight': X}) ->
    RuntimeError: size mismatch for 0.weight: … [8, 2] … [16, 2]
net().load_state_dict({f'module.{k}': v for k, v in net().state_dict().items()}) ->
    RuntimeError: All keys begin with 'module.' … {k.removeprefix('module.'): v for k, v in
net().load_state_dict('net.pt') -> TypeError: <class 'str'>. Of a file give pf.load(path)
net()(X).backward() -> RuntimeError: scalar outputs; take the mean() or sum() first
X.sum().backward() -> RuntimeError: have a grad_fn; it was computed under no_grad, of
F.binary_cross_entropy(X + 1, X) -> RuntimeError: between 0 and 1; of scores … Logits
net().load_state_dict({'weight': X}) -> RuntimeError: Missing … "0.weight" … "weight"
"""  # inputs of another dtype, shape or kind; layers; losses; optimizers; data; states

NAMES = {**vars(data), **vars(test_fit_refused), **globals()}
ROWS = literal(WRONG)


@pytest.mark.parametrize(("call", "text"), ROWS, ids=[call for call, _ in ROWS])
def test_a_wrong_call_is_explained(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: NAMES)


def test_no_gpu_says_what_was_looked_for() -> None:
    """With no Vulkan driver to be found, 'gpu' is an error and 'auto' is the CPU."""
    hidden = {"PYFRAME_ADAPTER": "", "VK_DRIVER_FILES": os.devnull, "VK_ICD_FILENAMES": os.devnull}
    code = "import pyframe as pf\nprint(pf.device('auto'))\npf.ones(2, device='gpu')"
    out, err = python("-c", code, status=1, **hidden)
    assert out == "cpu\n"
    said, call = err.strip().splitlines()[-2:]
    assert said.startswith("RuntimeError: device 'gpu': no such GPU; looked for Vulkan, Metal")
    assert "found none" in said
    assert "use device='cpu'" in said
    assert call == "ones got sizes=[2], device='gpu'"


def test_a_software_adapter_warns_once(gpu: str) -> None:
    code = "import pyframe as pf\nx = pf.ones(2, device='gpu') + 1\n"
    code += "print(x.tolist(), pf.device('auto'))"
    out, err = python("-c", code, PYFRAME_ADAPTER="")
    if "a software adapter" not in err:
        pytest.skip("this machine has a real GPU")
    assert out == "[2.0, 2.0] cpu\n"
    assert err.count("UserWarning") == 1
    assert "UserWarning" not in python("-c", code, PYFRAME_ADAPTER="software")[1]
