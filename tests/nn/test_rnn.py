"""Recurrent layers beside their rows in layers.py: packed sequences, gradients of gradients; what a
step costs."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from beside import programs, run
from compared import alike, array, plain

import pyframe as pf
from pyframe import nn
from pyframe.nn.functional import recurrent as walks
from pyframe.nn.utils import rnn as packs
from tests.graph.plans import Recorder, plan, value

KINDS = ["RNN", "GRU", "LSTM"]
LENGTHS = [2, 5, 1, 5, 3]


def pair(torch: Any, name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """A layer of each framework with the same weights, in float64."""
    with warnings.catch_warnings(action="ignore"):
        theirs = getattr(torch.nn, name)(*args, **kwargs).double()
        ours = getattr(nn, name)(*args, **kwargs).double()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: pf.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def flat(x: Any) -> list[Any]:
    """The tensors in nested tuples and lists; of a packed sequence all of its parts."""
    if isinstance(x, (tuple, list)):
        return [y for part in x for y in flat(part)]
    return [] if x is None else [x]


def weighted(lib: Any, out: Any) -> Any:
    """A sum of all results that treats no two elements alike."""
    found = [x for x in flat(out) if x.is_floating_point()]
    return sum(
        (x * lib.tensor(numbers(*x.shape, seed=i).astype(array(x).dtype)).to(x.device)).sum()
        for i, x in enumerate(found)
    )


def given(lib: Any, x: np.ndarray, hx: Any, grad: bool = True) -> tuple[Any, Any]:
    x = lib.tensor(x).requires_grad_(grad)
    states = None if hx is None else [lib.tensor(h).requires_grad_(grad) for h in hx]
    return x, states


def as_state(states: Any) -> Any:
    return states if states is None else tuple(states) if len(states) == 2 else states[0]


def states_for(layer: Any, *batch: int) -> list[np.ndarray]:
    """Initial states, as the layer takes them."""
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    hx = [numbers(rows, *batch, layer.proj_size or layer.hidden_size, seed=1)]
    return hx + ([numbers(rows, *batch, layer.hidden_size, seed=2)] if layer.mode == "LSTM" else [])


def compare(torch: Any, ours: Any, theirs: Any, x: np.ndarray, hx: Any, pack: Any = None) -> None:
    """Results, and gradients of input, states and parameters."""
    found = []
    for lib, layer in ((pf, ours), (torch, theirs)):
        inputs, states = given(lib, x, hx)
        layer.zero_grad()
        sequence = inputs if pack is None else pack(lib, inputs)
        out = layer(sequence) if states is None else layer(sequence, as_state(states))
        weighted(lib, out).backward()
        grads = [t.grad for t in (inputs, *(states or ()), *layer.parameters())]
        found.append((out, grads))
    for got, want in zip(*found, strict=True):
        alike(got, want)


# --- layers

OPTIONS: list[dict[str, Any]] = [
    {}, {"bidirectional": True, "bias": False}, {"num_layers": 2, "bidirectional": True},
]  # fmt: skip


def kinds_of(name: str) -> Iterator[dict[str, Any]]:
    yield {}
    if name == "RNN":
        yield {"nonlinearity": "relu"}
    if name == "LSTM":
        yield {"proj_size": 2}


@pytest.mark.parametrize("name", KINDS)
def test_packed(name: str, torch: Any) -> None:
    def pack(lib: Any, x: Any, enforce_sorted: bool = False) -> Any:
        utils = lib.nn.utils.rnn
        lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
        return utils.pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)

    for options, kind in itertools.product(OPTIONS, kinds_of(name)):
        ours, theirs = pair(torch, name, 4, 5, **options, **kind)
        x = numbers(5, 5, 4)
        compare(torch, ours, theirs, x, None, pack)
        compare(torch, ours, theirs, x, states_for(ours, 5), pack)
        in_order = ours(pack(pf, pf.tensor(x), True))[0]
        assert isinstance(in_order, packs.PackedSequence)
        assert in_order.sorted_indices is None


@pytest.mark.parametrize("name", KINDS)
def test_gradient_of_the_gradient(name: str, torch: Any) -> None:
    for kind in kinds_of(name):
        ours, theirs = pair(torch, name, 3, 4, 2, bidirectional=True, **kind)
        found = []
        for lib, layer in ((pf, ours), (torch, theirs)):
            x, states = given(lib, numbers(5, 2, 3), states_for(ours, 2))
            leaves = [x, *states, *layer.parameters()]
            loss = weighted(lib, layer(x, as_state(states)))
            grads = lib.autograd.grad(loss, leaves, create_graph=True)
            found.append(lib.autograd.grad(sum((g * g).sum() for g in grads), leaves))
        alike(*found)


def test_examples_of_vmap() -> None:
    layer = nn.GRU(3, 4, 2)
    x = pf.randn(6, 5, 3)  # 6 sequences without a batch
    together = layer(x.transpose(0, 1))[0].transpose(0, 1)
    alike(pf.vmap(lambda x: layer(x)[0])(x), together, 1e-5, 1e-6)
    params = {k: p.detach() for k, p in layer.named_parameters()}

    def loss(params: Any, x: Any) -> Any:
        return pf.func.functional_call(layer, params, (x,))[0].square().sum()

    each = pf.vmap(pf.func.grad(loss), in_dims=(None, 0))(params, x)
    together.square().sum().backward()
    for key, p in layer.named_parameters():
        alike(each[key].sum(0), p.grad, 1e-4, 1e-5)


# --- what a step costs on a GPU: dispatches of (forward, forward and backward), whatever the size

# where a kernel binds 8 buffers, the fewest that WebGPU has
PER_STEP = {"RNN": (1.2, 2.5), "GRU": (1.2, 2.4), "LSTM": (1.4, 4.2)}
LARGE = {"RNN": (1.2, 2.5), "GRU": (2.2, 3.4), "LSTM": (2.5, 5.0)}


@pytest.fixture
def recorder() -> Iterator[Any]:
    """A GPU that only records: schedules need none."""
    device = pf.device("gpu:78")
    device.attach(Recorder())
    yield device
    device.detach()


def dispatches(device: Any, name: str, steps: int, width: int, layers: int, train: bool) -> int:
    fn, gates, count = {
        "RNN": (pf.rnn_tanh, 1, 1), "GRU": (pf.gru, 3, 1), "LSTM": (pf.lstm, 4, 2),
    }[name]  # fmt: skip
    params = []
    for layer in range(layers):
        rows, before = gates * width, width if layer else 5
        params += [value(device, rows, n) for n in (before, width)]
        params += [value(device, rows), value(device, rows)]
    if train:
        for p in params:
            p.requires_grad_()
    state = [value(device, layers, 4, width) for _ in range(count)]
    x = value(device, steps, 4, 5)
    hx = state if count == 2 else state[0]
    out, *last = fn(x, hx, params, True, layers, 0.0, True, False, False)
    if not train:
        return len(plan(out, *last)[0].steps)
    out.square().sum().backward()
    return len(plan(*[p.grad for p in params])[0].steps)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_dispatches_of_a_step_are_few(
    name: str, train: bool, large: bool, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One forward, of gates whose products are large two; one backward, and what is put side by
    side (a kernel reads seven); no gradient of a weight is added up step by step."""
    if large:
        monkeypatch.setattr(walks, "FEW_MULTIPLICATIONS", 0)
    most = (LARGE if large else PER_STEP)[name][train]
    counts = {
        size: dispatches(recorder, name, *size, train)
        for size in [(8, 16, 1), (16, 16, 1), (8, 64, 1), (8, 16, 2), (16, 16, 2)]
    }
    assert abs(counts[8, 16, 1] - counts[8, 64, 1]) <= 2
    for layers in (1, 2):
        each = (counts[16, 16, layers] - counts[8, 16, layers]) / 8 / layers
        assert each <= most
        assert counts[8, 16, layers] <= layers * (8 * most + 12)


# --- fields, states, errors


def test_weights_by_layer(torch: Any) -> None:
    ours, theirs = pair(torch, "LSTM", 3, 4, proj_size=2, num_layers=2, bidirectional=True)
    assert ours._flat_weights_names == theirs._flat_weights_names
    alike(ours.all_weights, theirs.all_weights)
    assert [id(p) for p in ours._flat_weights] == [id(p) for p in ours.parameters()]
    assert ours.flatten_parameters() is None


def test_dropout_between_layers() -> None:
    layer = nn.RNN(3, 200, 2, dropout=0.25, nonlinearity="relu")
    with pf.no_grad():
        for p in layer.parameters():
            p.fill_(0.0)
        layer.bias_ih_l0.fill_(1.0)  # the first layer gives ones
        layer.weight_ih_l1.copy_(pf.eye(200))  # the second one what is left of them
    x = pf.randn(50, 2, 3)
    out = array(layer(x)[0])
    assert set(np.unique(np.round(out, 5))) == {0.0, np.float32(1.33333)}
    assert abs((out == 0).mean() - 0.25) < 0.02
    layer.eval()
    assert np.array_equal(array(layer(x)[0]), np.ones_like(out))
    with pytest.warns(UserWarning, match="all but last recurrent layer"):
        one = nn.LSTM(3, 4, dropout=0.5)
    alike(one(x)[0], one(x)[0], 0, 0)


def test_empty_batches_and_sequences(torch: Any) -> None:
    ours, theirs = pair(torch, "LSTM", 3, 4, 2, bidirectional=True)
    alike(ours(pf.zeros(5, 0, 3).double()), theirs(torch.zeros(5, 0, 3).double()))
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
        ours(pf.zeros(0, 2, 3).double())


PROGRAMS = programs(r"""
== functions of layers and cells that stand at the top level
for name, cell in [("rnn_tanh", "RNN"), ("rnn_relu", "RNN"), ("gru", "GRU"), ("lstm", "LSTM")]:
    layer, one, hx = made[cell], made[f"{cell}Cell"], states_for(made[cell], 2)
    x, states = given(t, numbers(5, 2, 3), hx, False)
    state, params, flags = as_state(states), list(layer.parameters()), (True, 2, 0.0, False, False)
    fn, step = getattr(t, name), getattr(t, f"{name}_cell")
    ? fn(x, state, params, *flags, False)
    ? fn(x.reshape(10, 3)[:5], t.tensor([2, 2, 1]), state, params, *flags)
    for weights in (list(one.parameters()), list(one.parameters())[:2]):
        ? step(x[0], as_state([s[0] for s in states]), *weights)
== packing there and back, with gradients
for first, rest in itertools.product((False, True), ((), (4,), (2, 3))):
    x = t.tensor(numbers(*((5, 6) if first else (6, 5)), *rest)).requires_grad_()
    p = u.pack_padded_sequence(x, LENGTHS, first, enforce_sorted=False)
    padded = u.pad_packed_sequence(p, first, padding_value=-1.5, total_length=7)
    in_order = u.pack_padded_sequence(x, t.tensor([6, 3, 3, 1, 1]), first)
    parts = u.unpack_sequence(p)
    assert [len(s) for s in parts] == LENGTHS
    again = u.pack_sequence(parts, enforce_sorted=False)
    weighted(t, [p.data, padded[0], in_order.data, again.data]).backward()
    ? p, padded, in_order, in_order.sorted_indices, parts, again, x.grad
== padding
xs = [t.tensor(numbers(n, 2)).requires_grad_() for n in (2, 4, 1)]
out = [u.pad_sequence(xs, *args) for args in ((), (True,), (True, -2.0), (False, 1.0, "left"))]
weighted(t, out).backward()
? out, [x.grad for x in xs]
? u.unpad_sequence(out[1], t.tensor([2, 4, 1]), batch_first=True)
? u.unpad_sequence(out[0].detach().clone(), t.tensor([2, 4, 1]))
? u.pad_sequence(tuple(t.tensor([1, 2, 3])[:n] for n in (1, 3)), True, 7)
? u.invert_permutation(t.tensor([2, 0, 3, 1])), u.invert_permutation(None)
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, torch: Any) -> None:
    """Of the library `t`, and `u`, its utils of sequences."""
    made = {k: pair(torch, k, 3, 4, 2) for k in KINDS}
    made |= {f"{k}Cell": pair(torch, f"{k}Cell", 3, 4) for k in KINDS}
    found = []
    for i, lib in enumerate((pf, torch)):
        layers = {k: two[i] for k, two in made.items()}
        names = {**globals(), "t": lib, "u": lib.nn.utils.rnn, "made": layers}
        found.append(run(PROGRAMS[name], names, plain))
    alike(*found)


def test_a_packed_sequence_moves_as_a_tensor_does(gpu: str) -> None:
    p = packs.pack_sequence([pf.randn(2, 3), pf.randn(3, 3)], enforce_sorted=False)
    assert p.to("cpu") is p
    assert p.double().data.dtype is pf.float64
    assert p.to(pf.float16).data.dtype is pf.float16
    assert [getattr(p, n)().data.dtype for n in ("half", "float", "long", "int", "short", "char",
                                                 "byte")] == [
        pf.float16, pf.float32, pf.int64, pf.int32, pf.int16, pf.int8, pf.uint8,
    ]  # fmt: skip
    moved = p.gpu()
    assert moved.data.device.type == moved.sorted_indices.device.type == "gpu"
    assert moved.batch_sizes.device.type == "cpu"
    assert moved.is_cuda == moved.data.is_cuda
    alike(moved.cpu(), p, 0, 0)
    with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
        packs.PackedSequence(p.data, p.batch_sizes.to(gpu))
    data, sizes, _, back = packs.PackedSequence((p.data, p.batch_sizes), None, p.sorted_indices)
    alike((data, sizes, back), (p.data, p.batch_sizes, p.unsorted_indices))
