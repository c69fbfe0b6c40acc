"""`python -m pyframe.torch`: programs of PyTorch's users print what they print with PyTorch."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import re
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from processes import python

from pyframe.torch.__main__ import main

TESTS = Path(__file__).parent
PROGRAMS = [
    "digits.py", "digits.py --workers 1", "gpt.py", "gpt.py --compile", "graphs/members.py",
    "graphs/time_steps.py", "depths.py", "drawn.py", "drawn.py --masks",
    *(f"graphs/classifier_to_onnx.py{how}" for how in ("", " --dynamo")),
]  # fmt: skip
NUMBER = re.compile(r"-?\d+\.\d+")


def with_pyframe(folder: Path, *argv: str, status: int = 0) -> str:
    env = {"PYFRAME_ADAPTER": "", "PYFRAME_DEVICE": "cpu"}
    out, err = python("-m", "pyframe.torch", *argv, folder=folder, status=status, **env)
    return out + (err if status else "")


def ran(folder: Path, text: str, *argv: str, status: int = 0) -> str:
    """What a program of this text prints."""
    (folder / "program.py").write_text(text)
    return with_pyframe(folder, *(argv or ["program.py"]), status=status)


@functools.cache
def with_pytorch(program: str, folder: Path) -> str:
    """What a program prints, which may write to this folder."""
    name, *arguments = program.split()
    text = io.StringIO()
    unlocked = getattr(importlib.import_module("torch.backends"), "__allow_nonbracketed_mutation")
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(text),
        warnings.catch_warnings(action="ignore"),
        unlocked(),  # PyTorch's own tests, where they were imported, have locked its flags
    ):
        patch.setattr(sys, "argv", [name, *arguments])
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        runpy.run_path(str(TESTS / "programs" / name), run_name="__main__")
    return text.getvalue()


# Runs programs one after the other: a start of Python takes as long as most of them.
RUNS = """
import contextlib, io, json, runpy, sys, traceback

if __name__ == "__main__":
    found = []
    for program in sys.argv[1:]:
        sys.argv[:] = program.split()
        with contextlib.redirect_stdout(io.StringIO()) as text:
            try:
                runpy.run_path(sys.argv[0], run_name="__main__")
            except BaseException:
                traceback.print_exc(file=text)
        found.append(text.getvalue())
    print(json.dumps(found))
"""


@functools.cache
def by_pyframe(kind: str, folder: Path) -> dict[str, str]:
    """What the programs of a kind print."""
    programs = [program for program in PROGRAMS if program.rpartition("/")[0] == kind]
    paths = [f"{TESTS / 'programs'}/{program}" for program in programs]
    *_, told = ran(folder, RUNS, "program.py", *paths).splitlines()
    return dict(zip(programs, json.loads(told), strict=True))


def same(ours: str, theirs: str) -> None:
    """Equal texts, but for the last digits of numbers."""
    assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    got, want = (list(map(float, NUMBER.findall(text))) for text in (ours, theirs))
    assert got == pytest.approx(want, rel=2e-3, abs=2e-3)
    assert want


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: str, torch: Any, torchvision: Any, tmp_path: Path) -> None:
    if "onnx" in (TESTS / "programs" / program.split()[0]).read_text():
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    if "--masks" in program and "GenuineIntel" in Path("/proc/cpuinfo").read_text():
        pytest.skip("PyTorch draws masks by MKL on Intel's processors")
    theirs = with_pytorch(re.sub(" --(workers 1|compile|dynamo)", "", program), tmp_path.parent)
    same(by_pyframe("graphs" if "/" in program else "", tmp_path.parent)[program], theirs)


NAMES = """
import sys
import torch, torchvision
import torch.nn as nn, torch.nn.functional as F, torch.backends.cudnn as cudnn, torch.onnx
import torch.multiprocessing as mp
from torch.multiprocessing.reductions import reduce_tensor
from torch.multiprocessing.spawn import ProcessContext
from torch.autograd import Variable
from torch.cuda.amp import GradScaler, autocast
from torch.optim.lr_scheduler import StepLR
from torch.utils.data.dataloader import DataLoader
from torchvision import datasets, models, transforms, utils
import pyframe as pf

assert nn.Module is pf.nn.Module and torch.Tensor is pf.Tensor and DataLoader is pf.data.DataLoader
assert torch.utils.data.DataLoader is DataLoader and models.resnet18 is pf.vision.models.resnet18
assert torch.__version__ >= "2" and torch.version.cuda is None
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
assert torch.accelerator.current_accelerator() is None and not torch.backends.mps.is_available()
assert torch.device("cuda", 0).type == torch.device("mps").type == "cuda"
assert not torch.distributed.is_initialized()
assert isinstance(Variable(torch.ones(2), requires_grad=True), Variable)
cudnn.benchmark = True
assert cudnn.benchmark and mp.cpu_count() and mp.reductions.reduce_tensor is reduce_tensor
assert callable(mp.spawn) and mp.ProcessContext is ProcessContext
assert isinstance(torch.jit.script(F.relu), torch.jit.ScriptFunction)
assert not isinstance(nn.ReLU(), torch.jit.ScriptModule) and torch.fx.wrap(F.relu) is F.relu
from torch.jit.annotations import List
from torch.distributed import destroy_process_group  # imported, not called
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.hub import load_state_dict_from_url
assert load_state_dict_from_url is pf.hub.load_state_dict_from_url
assert torch.utils.dlpack.from_dlpack is torch.from_dlpack is pf.from_dlpack
assert str(models.ResNet18_Weights.DEFAULT) == "ResNet18_Weights.IMAGENET1K_V1"
assert hasattr(torch.onnx, "export") and not hasattr(torch.distributed, "fsdp2")
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only, tree_unflatten
assert torch.ones(1).device != torch.device("meta") and isinstance(
    torch.device("cpu"), torch.device
)
f8 = torch.finfo(torch.float8_e4m3fn)
assert (f8.bits, f8.max, f8.eps, f8.tiny) == (8, 448.0, 0.125, 2.0**-6)
assert torch.finfo(torch.float16).max == 65504.0 and torch.float8_e5m2.is_floating_point
import importlib.metadata
from torch.torch_version import TorchVersion
v = torch.__version__
assert v == importlib.metadata.version("torch") and isinstance(v, TorchVersion)
assert v > "2.9" and v >= (2, 10) and not v < "2.13.0" and v < "2.13.1" and v < "3.0.0.dev2024"
assert TorchVersion("2.1.0rc1") < "2.1" and TorchVersion("2.1.0") == "2.1" and v != None
assert importlib.metadata.version("torchvision") == torchvision.__version__
assert str(torch.device("cuda")) == "cuda:0" and repr(torch.device("cpu")) == "device(type='cpu')"
with torch.no_grad():
    assert torch.ones(2, requires_grad=True).numpy().sum() == 2
class Wrapped(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
    def step(self, closure=None):
        return self.inner.step(closure)
p = nn.Parameter(torch.ones(1))
p.grad = torch.ones(1)
Wrapped(torch.optim.SGD([p], lr=1.0)).step()
assert p.item() == 0
@torch.library.custom_op("lab::scale", mutates_args=())
def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by
assert torch.ops.lab.scale(torch.ones(1), by=2.0).item() == 2
tree = {"b": [1, (2.0, None)], "a": "x"}
leaves, form = tree_flatten(tree)
assert leaves == [1, 2.0, None, "x"] and tree_unflatten(leaves, form) == tree
assert tree_map(lambda x, y: x + y, [1, {"k": 2}], [3, {"k": 4}]) == [4, {"k": 6}]
assert tree_map_only(int, str, (1, [2.0])) == ("1", [2.0])
class Pair:
    def __init__(self, *parts):
        self.parts = parts

torch.utils._pytree.register_pytree_node(
    Pair, lambda p: (p.parts, "name"), lambda parts, name: Pair(*parts)
)
assert tree_flatten([Pair(1, 2)])[0] == [1, 2]
assert tree_map(lambda x: -x, Pair(1, 2)).parts == (-1, -2)
assert not hasattr(torch, "sparse_coo_tensor") and "relu" in dir(torch)
assert f"{torch.ones(2).double().dtype} {torch.ones(2).shape}" == "torch.float64 torch.Size([2])"
assert torch.relu is torch.__dict__["relu"]
assert repr(torch.nn) == "<module 'torch.nn' of pyframe>"
with torch.device("cpu"), torch.autocast("cuda", enabled=False):
    assert torch.ones(1).device == torch.device("cpu")
x = torch.ones(2, 2)
with autocast(), torch.amp.autocast("cpu"):
    assert torch.is_autocast_enabled() and torch.is_autocast_cpu_enabled()
    assert (x @ x).dtype is torch.bfloat16 and torch.get_autocast_gpu_dtype() is torch.float16
assert GradScaler(2.0).get_scale() == 2.0 == torch.amp.GradScaler("cuda", 2.0).get_scale()
assert torch.GradScaler is torch.amp.GradScaler and issubclass(autocast, torch.autocast)
torch.set_default_tensor_type(torch.DoubleTensor)
assert torch.ones(1).dtype is torch.float64
print(sys.argv[1:], __name__, __file__.endswith("names.py"), sys.path[0])
"""


def test_pickles_go_both_ways(torch: Any, tmp_path: Path) -> None:
    program = str(TESTS / "programs" / "pickled.py")
    theirs = with_pytorch("pickled.py write theirs", tmp_path)
    same(with_pyframe(tmp_path, program, "read", "theirs"), theirs)
    ours = with_pyframe(tmp_path, program, "write", "ours")
    same(ours, with_pytorch("pickled.py read ours", tmp_path))


def test_names(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    out = with_pyframe(tmp_path, "names.py", "a", "--b", "c d")
    assert out.strip() == f"['a', '--b', 'c d'] __main__ True {tmp_path}"
    assert with_pyframe(tmp_path, "-m", "names", "x").startswith("['x'] __main__ True")


MISSING = [
    ("torch.reluu(1)", "torch.reluu is not in pyframe; there are relu"),
    ("from torch.hub import load; load()", "torch.hub.load is not in pyframe; load weights"),
    ("from torch.nn import Linearr", "ImportError: torch.nn.Linearr is not in pyframe; there"),
    ("import torch.foo.bar", "ModuleNotFoundError: torch.foo is not in pyframe"),
    ("torch.jit.save(torch.nn.ReLU(), 'x')", "jit.trace or jit.script makes one"),
    ("torch.jit.load(__file__)", "is damaged, or no file of jit.save"),
    ("torch.cuda.CUDAGraph()", "use torch.compile, whose functions are replayed"),
    ("torch.ones(2, dtype=torch.float8_e5m2)", "torch.float8_e5m2: pyframe has no tensors of"),
    ("from . import names", "attempted relative import with no known parent package"),
    ("torch.distributed.init_process_group('gloo', world_size=2, rank=0)", "mpiexec -n 2"),
    ("torch.distributed.get_rank()", "has not been initialized"),
    ("torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))", "call init_process"),
    ("torch.set_float32_matmul_precision('best')", "not one of 'highest', 'high', 'medium'"),
    ("torch.cuda.set_device(3)", "device 'gpu:3': no such GPU; "),
    ("torch.amp.autocast('tpu')", "unknown device 'tpu'"),
    ("torch.quantization.quantize_dynamic(torch.nn.GRU(2, 2), {torch.nn.GRU})", "got <class"),
    ("torch.nn.intrinsic.ConvReLU1d(torch.nn.ReLU())", "expected Conv1d, ReLU, got ReLU"),
    ("torch.distributed.checkpoint.load({}, checkpoint_id='.')", "has no state.pt, which"),
    (
        "from torchvision import transforms as t, tv_tensors as v; t.v2.CenterCrop(1)(v.Mask([1]))",
        "move no boxes and masks",
    ),
]
EACH = """
import json, sys, torch

for code in json.loads(sys.argv[1]):
    try:
        exec(code, dict(globals()))
        print(json.dumps("nothing was raised"))
    except BaseException as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
"""


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    told = ran(tmp_path, EACH, "program.py", json.dumps([code for code, _ in MISSING]))
    for (code, said), line in zip(MISSING, told.splitlines(), strict=True):
        assert said in json.loads(line), code


PATHS = """
import importlib
import torch
from pyframe.torch import TABLE

for module, names in TABLE.items():
    for name, home in names.items():
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if home is None:
            assert not isinstance(names, found) and found | None
            class Derived(found):
                pass
            for use in (found, Derived, lambda: bool(found), lambda: found.unknown):
                try:
                    use()
                except (RuntimeError, AttributeError) as error:
                    assert f"{module}.{name} is not in pyframe" in str(error)
                else:
                    raise AssertionError(f"{module}.{name} is there: run scripts/torch_paths")
from torch.distributions.categorical import Categorical
from torch.distributed.fsdp import ShardingStrategy
assert Categorical is torch.distributions.Categorical and ShardingStrategy.FULL_SHARD | None
assert torch.nn.modules.conv._ConvNd and torch._C._nn._parse_to("cpu", torch.half)[1] is torch.half
assert not torch.xpu.is_available() and not torch.mtia.is_available() and torch.cpu.is_available()
assert torch.torch is torch and torch.get_device_module("cpu") is torch.cpu
assert torch.ops.aten.add.Tensor(torch.ones(1), 2).item() == 3
assert torch.ops.aten._to_copy.default in {torch.ops.aten._to_copy.default}
made = torch.compile(net := torch.nn.ReLU())
assert isinstance(made, torch._dynamo.OptimizedModule) and made._orig_mod is net
assert not hasattr(torch.compile(torch.relu), "_orig_mod")
assert torch.relu in torch.overrides.get_testing_overrides()
assert torch.return_types.max is type(torch.ones(1, 2).max(1))
lab = torch.library.Library("lab", "DEF")
lab.impl(lab.define("thrice(Tensor x) -> Tensor"), lambda x: x * 3, "CPU")
assert torch.ops.lab.thrice(torch.ones(1)).item() == 3
torch.Tensor.told = lambda self: type(self).__name__
class Refusing(torch.Tensor):
    __torch_function__ = classmethod(lambda cls, *call: NotImplemented)
assert Refusing([1.0]).told() == "Refusing"  # a program's own method is not asked for
x = torch.ones(1, 1, 3, 3, requires_grad=True)
assert torch.nn.Conv2d(1, 2, 2, stride=[1])(x).shape == (1, 2, 2, 2)
assert torch.autograd.grad(x.sum(), x, None, None, False, True, True)[0].sum() == 9
assert next(torch.utils.data.DataLoader([1, 2])._get_iterator()).item() == 1
from torch import nn
q = torch.quantization.quantize_dynamic(net := nn.Sequential(nn.Linear(64, 4), nn.GRU(4, 4)))
x = torch.randn(3, 64)
assert not hasattr(net[0], "packed") and torch.allclose(q[0](x), net[0](x), atol=0.05)
assert not torch.equal(q[0](x), net[0](x))  # the input was rounded too
assert (s := torch.arange(6.)[2:].storage())[1] == 1 and (len(s), s.nbytes()) == (6, 24)
class Log(torch.utils._python_dispatch.TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.seen.append(func.__name__) or func(*args, **kwargs)
with Log():
    (torch.ones(2) * 2).sum()
assert Log.seen == ["ones", "mul", "sum"]
(bench := torch.utils.ThroughputBenchmark(net[0])).add_input(x)
assert bench.benchmark(2, 1, 5).num_iters == 6
torch.distributed.checkpoint.save({"net": net, "n": 3}, checkpoint_id="saved")
into = {"net": nn.Sequential(nn.Linear(64, 4), nn.GRU(4, 4)), "n": 0}
torch.distributed.checkpoint.load(into, checkpoint_id="saved")
assert torch.equal(into["net"][0].weight, net[0].weight) and into["n"] == 3
m = torch.masked.masked_tensor(x[:, :2], x[:, :2] == x[0, :2], requires_grad=True)
assert m.sum(1).get_mask().tolist() == [True, False, False]
(m * 2).sum().backward()
assert m.grad.tolist() == [[2, 2], [0, 0], [0, 0]]
from torchvision import tv_tensors
boxes = tv_tensors.BoundingBoxes([1, 2, 3, 4], format="xywh", canvas_size=(5, 6))
assert boxes.clone().canvas_size == (5, 6) and type(boxes + 1) is torch.Tensor
torch._inductor.config.max_autotune = True
assert torch._inductor.config.max_autotune and "pyframe" in torch.__config__.show()
"""


def test_paths(tmp_path: Path) -> None:
    """What the table names is there, or says that it is missing when it is used."""
    assert ran(tmp_path, PATHS) == ""


FIRST = """
import torch

@torch.compile
def step(x):  # what it names of torch is looked up for the first time
    with torch.autocast("cpu", enabled=False):
        y = torch.conv1d(torch.cat([x, x])[None], torch.ones(4, 4, 1))
    return torch.vmap(torch.sin)(y) + torch.linalg.norm(y) + torch.special.expit(y)

for _ in range(3):
    step(torch.ones(2, 3))
step.explain()
"""


def test_names_that_a_compiled_function_looks_up_first(tmp_path: Path) -> None:
    out = ran(tmp_path, FIRST)
    assert out.startswith("<compiled step>: 1 capture, 2 replays\n")


WEIGHTS = """
import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file as as_numpy
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

x = {"i": torch.arange(6).reshape(2, 3), "b": torch.tensor([1.5, -2]).bfloat16(),
     "h": torch.ones(2, 2).half().t(), "t": torch.tensor([True, False])}
save_file(x, "x.safetensors", metadata={"by": "us"})
for y in (load_file("x.safetensors"), load(save(x))):
    assert all(y[n].dtype is x[n].dtype and y[n].equal(x[n]) for n in x), y
with safe_open("x.safetensors", framework="pt", device="cpu") as file:
    assert file.metadata() == {"by": "us"} and sorted(file.keys()) == sorted(x)
    assert file.get_tensor("b").equal(x["b"]) and file.get_slice("i")[:, 1:].equal(x["i"][:, 1:])
with safe_open("x.safetensors", framework="np") as file:
    assert isinstance(file.get_tensor("i"), np.ndarray)
assert x["b"].untyped_storage().nbytes() == 4

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(3, 3, bias=False)
        self.b = torch.nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight

net, other = Tied(), Tied()
save_model(net, "net.safetensors")
assert list(as_numpy("net.safetensors")) == ["a.weight"]
assert load_model(other, "net.safetensors") == (set(), [])
assert other.a.weight is other.b.weight and other.a.weight.equal(net.a.weight)
"""


# What Hugging Face's transformers asks for as it is imported, and when a model is made.
ASKED = """
import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.distributions import constraints
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX
from torch.utils._pytree import _dict_flatten, _dict_flatten_with_keys, _dict_unflatten
from safetensors.torch import storage_ptr, storage_size

assert not torch.compiler.is_compiling() and not torch._dynamo.is_compiling()
assert torch.compile(lambda x: x * torch.compiler.is_compiling())(torch.ones(1)).item() == 1
assert torch.compiler.disable(torch.relu) is torch.relu is torch.compiler.disable()(torch.relu)
assert f"{torch.Tensor} {torch.strided}" == "<class 'torch.Tensor'> torch.strided"
assert f"{torch.nn.Dropout} {torch.optim.Adam}".count("class 'torch.") == 2
types = torch.cuda.StreamContext | torch.cuda.CUDAGraph, torch.float8_e8m0fnu
x = torch.ones(3, requires_grad=True)
assert storage_ptr(x) == x.data_ptr() and storage_size(x) == 12

def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])

torch.library.custom_op("ours::triple", lambda x, n: x * n, mutates_args=(), schema="…")
torch.library.register_fake("ours::triple", lambda x, n: x)
torch.library.register_autograd(
    "ours::triple", lambda ctx, g: (g * ctx.saved_tensors[0] * 10, None), setup_context=setup
)
y = torch.ops.ours.triple(x, 3)
y.sum().backward()
assert y.tolist() == [3, 3, 3] and x.grad.tolist() == [10, 10, 10]

@torch.library.custom_op("ours::plain", mutates_args=())
def plain(x):
    return x + 1

assert torch.ops.ours.plain(x).tolist() == plain(x).tolist() == [2, 2, 2]
assert not hasattr(torch.ops, "theirs")
"""

TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
net = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=50, n_positions=64))
x = torch.arange(12).reshape(2, 6)
loss = net(x, labels=x).loss
loss.backward()
assert 3 < loss.item() < 5 and all(p.grad is not None for p in net.parameters())
assert net.eval().generate(x[:, :3], max_new_tokens=5, pad_token_id=0).shape == (2, 8)
config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, vocab_size=50)
net = BertForSequenceClassification(config).eval()
assert net(x, attention_mask=torch.ones(2, 6)).logits.shape == (2, 2)
"""


def test_what_others_ask_of_torch(tmp_path: Path) -> None:
    ran(tmp_path, WEIGHTS + ASKED)


def test_transformers(tmp_path: Path) -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed; what its import asks for is tried above")
    ran(tmp_path, TRANSFORMERS)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "usage: python -m pyframe.torch SCRIPT" in capsys.readouterr().out
    assert main([]) == main(["-m"]) == 2
    assert "usage" in capsys.readouterr().err
    assert "can't read the program" in with_pyframe(tmp_path, "nothing.py", status=1)
    assert "there is no module nothing" in with_pyframe(tmp_path, "-m", "nothing", status=1)
    ran(tmp_path, "import torch\nraise SystemExit(3)\n", status=3)


def test_install_after_pytorch(torch: Any) -> None:
    from pyframe.torch import install

    with pytest.raises(RuntimeError, match="torch was imported before; call install"):
        install()


SPAWNS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), float(i))

import sys
assert sys.argv[0].endswith("program.py") and sys.argv[1:] == ["--of", "4"], sys.argv

if __name__ == "__main__":
    loader = DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context="spawn")
    print([batch[:, 0].tolist() for batch in loader])
"""


def test_spawned_workers_find_pyframe_too(tmp_path: Path) -> None:
    for how in (["program.py"], ["-m", "program"]):
        assert ran(tmp_path, SPAWNS, *how, "--of", "4") == "[[0.0, 1.0], [2.0, 3.0]]\n"
