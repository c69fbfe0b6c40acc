"""PyTorch's own table of modules (`module_db`) against pyframe.nn, an entry at a time.

Each entry has inputs (how a module is made, what it is called with) and wrong inputs. Ours is made
with the same arguments and loads theirs' state_dict; then reprs, fields, outputs, gradients and
buffers must be alike, and copies must do the same. `-k nn.LSTM` runs one entry.
"""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn

torch: Any = pytest.importorskip("torch", reason="the table is PyTorch's")

from compared import array  # noqa: E402
from conformance.bridge import Bridge, flat, tree_map  # noqa: E402

NAMES = [
    f"nn.{name}"
    for name in """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d BatchNorm3d CELU Conv1d
    Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss ELU
    FractionalMaxPool2d FractionalMaxPool3d L1Loss SmoothL1Loss LazyConv1d LazyConv2d LazyConv3d
    LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d Linear Bilinear LPPool1d LPPool2d
    LPPool3d MaxPool1d MaxPool2d MaxPool3d KLDivLoss MSELoss MarginRankingLoss MultiLabelMarginLoss
    MultiMarginLoss SoftMarginLoss MultiLabelSoftMarginLoss NLLLoss GaussianNLLLoss PoissonNLLLoss
    HingeEmbeddingLoss HuberLoss BCELoss BCEWithLogitsLoss CrossEntropyLoss LinearCrossEntropyLoss
    CTCLoss GELU GLU GroupNorm Hardshrink Hardswish Hardtanh InstanceNorm1d InstanceNorm2d
    InstanceNorm3d LocalResponseNorm LayerNorm RMSNorm TransformerEncoder TransformerEncoderLayer
    TransformerDecoderLayer Transformer MultiheadAttention Embedding ReLU LeakyReLU ReLU6 PReLU
    RNNCell GRUCell LSTMCell Sigmoid LogSigmoid SiLU Softmax Softmax2d LogSoftmax Softmin Softplus
    Softshrink Softsign Tanh Tanhshrink Threshold Mish RNN GRU LSTM ReflectionPad1d ReflectionPad2d
    ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU ZeroPad1d ZeroPad2d
    ZeroPad3d CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
    """.split()
]

# What cannot be as in PyTorch, and why: entry -> reason. Everything else must pass.
LEFT_OUT: dict[str, str] = {}


@functools.cache
def database() -> dict[str, Any]:
    with warnings.catch_warnings(action="ignore"):
        try:
            from torch.testing._internal.common_modules import module_db
        except ImportError as error:  # what PyTorch's own tests need may be missing
            pytest.skip(f"PyTorch's table of modules cannot be imported: {error}")
    return {info.name: info for info in module_db}


def test_every_entry_is_driven(torch: Any) -> None:
    assert sorted(database()) == sorted(NAMES)
    assert len(LEFT_OUT) <= 0.03 * len(NAMES)


# --- from PyTorch to pyframe


class Modules(Bridge):
    """Carries arguments of modules, packed sequences and layers with parameters among them; each
    becomes a tensor of its own, as PyTorch's are cloned one by one."""

    def put(self, x: Any, memo: Any = None) -> Any:
        if isinstance(x, torch.nn.utils.rnn.PackedSequence):
            return nn.utils.rnn.PackedSequence(*[self.put(v) for v in x])
        if isinstance(x, torch.nn.TransformerEncoderLayer):
            attention = x.self_attn
            return nn.TransformerEncoderLayer(
                attention.embed_dim, attention.num_heads, x.linear1.out_features, x.dropout.p,
                self.put(x.activation), x.norm1.eps, attention.batch_first, x.norm_first,
                x.linear1.bias is not None,
            )  # fmt: skip
        return super().put(x, {})


def ours_of(x: Any, device: str = "cpu") -> Any:
    """An argument of PyTorch's as one of pyframe's."""
    return Modules("pyframe", device).put(x)


def same(got: Any, want: Any, what: str, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Trees of tensors and plain values, alike in structure, dtype, shape and value."""
    ours, theirs = flat(got), flat(want)
    assert len(ours) == len(theirs), what
    for a, b in zip(ours, theirs, strict=True):
        if not hasattr(b, "detach"):
            assert a == b, what
            continue
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1], what
        assert a.requires_grad == b.requires_grad, f"{what}: requires_grad"
        x, y = array(a), array(b)
        assert x.shape == y.shape, what
        scale = max(1.0, float(np.sqrt(np.mean(np.square(y[np.isfinite(y)]))))) if y.size else 1.0
        np.testing.assert_allclose(x, y, rtol, atol * scale, err_msg=what)


# --- one input


class Case:
    """A module of each framework in the same state, and what to call it with."""

    def __init__(self, name: str, given: Any, training: bool, torch: Any, device: str) -> None:
        self.torch, self.device = torch, device
        # Of the results, in what gradients are taken of. PyTorch's lie apart: a compiled function
        # that could read them runs eagerly, because nobody sees when they change.
        self.weights: dict[int, Any] = {}
        self.torch_weights: dict[int, Any] = {}
        made, called = given.constructor_input, given.forward_input
        self.theirs = database()[name].module_cls(*made.args, **made.kwargs).float()
        put = ours_of
        cls = getattr(nn, name.removeprefix("nn."))
        self.ours = cls(*put(made.args), **put(made.kwargs)).float()
        assert repr(self.ours) == repr(self.theirs)
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        self.inputs = called.args, called.kwargs
        self.theirs.train(training)
        self.ours.train(training).to(device)
        if isinstance(self.ours, nn.modules.lazy.LazyModuleMixin):
            self.run(self.ours), self.run(self.theirs)
        state = self.theirs.state_dict()
        loaded = self.ours.load_state_dict({k: put(v) for k, v in state.items()})
        assert loaded.missing_keys == loaded.unexpected_keys == []
        self.check_fields()

    def check_fields(self) -> None:
        for key, value in vars(self.theirs).items():
            if not key.startswith("_") and isinstance(value, (int, float, str, tuple, type(None))):
                assert getattr(self.ours, key) == value, key
        assert self.ours.training == self.theirs.training

    def run(self, module: Any) -> tuple[Any, Any, list[Any]]:
        """(result, arguments as they are afterwards, leaves that have gradients)."""
        inputs = self.fresh(module)
        found = [x for x in flat(inputs) if getattr(x, "requires_grad", False)]
        args, kwargs = tree_map(cloned, inputs)
        out = module(*args, **kwargs)
        return out, (args, kwargs), found

    def fresh(self, module: Any) -> Any:
        if isinstance(module, nn.Module):
            return ours_of(self.inputs, self.device)
        return tree_map(self._fresh, self.inputs)

    def _fresh(self, x: Any) -> Any:
        if not isinstance(x, self.torch.Tensor):
            return x
        return x.detach().clone().requires_grad_(x.requires_grad)

    def step(self, module: Any) -> tuple[Any, Any, Any]:
        """A forward and a backward pass: (result, arguments afterwards, gradients)."""
        module.zero_grad()
        out, args, found = self.run(module)
        self.backward(out)
        params = {k: p.grad for k, p in module.named_parameters()}
        return out, args, ([x.grad for x in found], params)

    def backward(self, out: Any) -> None:
        """Of a fixed weighted sum of all results."""
        parts = []
        for i, x in enumerate(flat(out)):
            if getattr(x, "requires_grad", False):
                lib = pf if isinstance(x, pf.Tensor) else self.torch
                weights = self.weights if lib is pf else self.torch_weights
                if i not in weights:
                    w = np.random.default_rng(i).standard_normal(tuple(x.shape))
                    weights[i] = lib.from_numpy(w.astype(np.float32)).to(x.device)
                parts.append((x * weights[i]).sum())
        if parts:
            sum(parts).backward()

    def compare(self) -> None:
        got, want = self.step(self.ours), self.step(self.theirs)
        for what, a, b in zip(("result", "arguments", "gradients"), got, want, strict=True):
            same(a, b, what, *((1e-3, 1e-4) if what == "gradients" else ()))
        self.check_state(self.ours, self.theirs)
        assert repr(self.ours) == repr(self.theirs)

    def check_state(self, a: Any, b: Any) -> None:
        same(dict(a.state_dict()), dict(b.state_dict()), "state")

    def check_copies(self) -> None:
        """A deep copy and a pickled one are the same module, of other memory."""
        twins = copy.deepcopy(self.ours), pickle.loads(pickle.dumps(self.ours))
        want = self.run(copy.deepcopy(self.ours))[0]
        for twin in twins:
            assert repr(twin) == repr(self.ours)
            assert type(twin) is type(self.ours)
            self.check_state(twin, self.ours)
            assert not {id(p) for p in twin.parameters()} & {id(p) for p in self.ours.parameters()}
            same(self.run(twin)[0], want, "result of a copy")


def cloned(x: Any) -> Any:
    return x.clone() if getattr(x, "requires_grad", False) else x


MOST = 24  # inputs of one entry, evenly spread; LinearCrossEntropyLoss alone has 857


def cases(name: str, torch: Any, training: bool) -> list[Any]:
    info = database()[name]
    found = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    return found[:: -(-len(found) // MOST)]


def quietly(name: str) -> None:
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    warnings.simplefilter("ignore")  # both warn of what is deprecated


@pytest.mark.parametrize("name", NAMES)
def test_entry(name: str, torch: Any) -> None:
    with warnings.catch_warnings():
        quietly(name)
        for training in (True, False) if database()[name].train_and_eval_differ else (True,):
            for i, given in enumerate(cases(name, torch, training)):
                case = Case(name, given, training, torch, "cpu")
                case.compare()
                if i == 0:
                    case.check_copies()
        if database()[name].module_error_inputs_func is not None:
            check_errors(name, torch)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_entry_on_gpu(name: str, torch: Any, gpu: str) -> None:
    with warnings.catch_warnings():
        quietly(name)
        Case(name, cases(name, torch, True)[0], True, torch, gpu).compare()


COMPILED_ON_GPU = """
    nn.Conv2d nn.ConvTranspose1d nn.MaxPool2d nn.LPPool1d nn.InstanceNorm1d nn.GroupNorm nn.PReLU
    nn.CrossEntropyLoss nn.CosineEmbeddingLoss nn.Embedding nn.CircularPad2d nn.LazyConv1d
""".split()  # one of a family


@pytest.mark.parametrize("name", NAMES)
def test_entry_compiled(name: str, torch: Any) -> None:
    check_compiled(name, torch, "cpu")


@pytest.mark.parametrize("name", COMPILED_ON_GPU)
def test_entry_compiled_on_gpu(name: str, torch: Any, gpu: str) -> None:
    check_compiled(name, torch, gpu)


def check_compiled(name: str, torch: Any, device: str) -> None:
    """Three steps, one captured and two replayed, do what three steps of PyTorch do."""
    with warnings.catch_warnings():
        quietly(name)
        case = Case(name, cases(name, torch, True)[0], True, torch, device)
        ours, inputs = case.ours, case.fresh(case.ours)
        case.compare()  # a lazy module is one no more

        @pf.compile
        def step(inputs: Any) -> Any:
            ours.zero_grad()
            args, kwargs = tree_map(cloned, inputs)
            out = ours(*args, **kwargs)
            case.backward(out)
            return out

        for _ in range(3):
            got, (want, _, (_, grads)) = step(inputs), case.step(case.theirs)
            same(got, want, "result")
            mine = {k: p.grad for k, p in ours.named_parameters()}
            same(mine, grads, "gradients", 1e-3, 1e-4)
        case.check_state(ours, case.theirs)
        assert step.replayed, step.eager


def check_errors(name: str, torch: Any) -> None:
    """Wrong input raises an error of PyTorch's type."""
    info = database()[name]
    wrong = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    assert wrong
    for case in wrong:
        given = case.module_error_input
        with pytest.raises(case.error_type):
            attempt(name, given.constructor_input, given.forward_input, torch)


def attempt(name: str, made: Any, called: Any, torch: Any) -> None:
    put = ours_of
    module = getattr(nn, name.removeprefix("nn."))(*put(made.args), **put(made.kwargs))
    module(*put(called.args), **put(called.kwargs))
