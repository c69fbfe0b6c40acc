"""One row a layer: its repr, state_dict, outputs and gradients are PyTorch's."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compared import alike

import pyframe as pf
from pyframe import nn

Make = Callable[[Any], Any]


def ints(*values: Any) -> Any:
    return np.array(values, np.int64)


# What a layer is made with and called with, where a tuple is the shape of random numbers and the
# rest is given as it is. The first take one input; test_stale.py changes each of their fields.
LAYERS: list[tuple[str, Make, list[Any]]] = [
    ("Linear without bias", lambda n: n.Linear(5, 3, bias=False), [(2, 4, 5)]),
    ("Conv2d", lambda n: n.Conv2d(3, 4, 3, padding=1), [(2, 3, 6, 5)]),
    ("Conv2d, all options",
     lambda n: n.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=2, groups=2, bias=False),
     [(2, 4, 9, 8)]),
    ("Conv2d valid, one image", lambda n: n.Conv2d(2, 3, 3, padding="valid"), [(2, 5, 5)]),
    ("MaxPool2d, all options", lambda n: n.MaxPool2d(3, 2, 1, ceil_mode=True), [(1, 2, 8, 8)]),
    ("AvgPool2d, all options",
     lambda n: n.AvgPool2d((3, 2), 2, (1, 0), ceil_mode=True, count_include_pad=False),
     [(2, 3, 6, 7)]),
    ("GELU tanh", lambda n: n.GELU(approximate="tanh"), [(4, 5)]),
    ("Softmax", lambda n: n.Softmax(dim=1), [(4, 5)]),
    ("LogSoftmax", lambda n: n.LogSoftmax(dim=-1), [(4, 5)]),
    ("ReLU in place", lambda n: n.Sequential(n.Linear(5, 3), n.ReLU(inplace=True)), [(4, 5)]),
    ("SiLU in place", lambda n: n.Sequential(n.Linear(5, 3), n.SiLU(inplace=True)), [(4, 5)]),
    ("Flatten", lambda n: n.Flatten(), [(2, 3, 4)]),
    ("Identity", lambda n: n.Identity(7), [(2, 3)]),
    ("Dropout", lambda n: n.Dropout(0.3).eval(), [(2, 3)]),
    ("LayerNorm", lambda n: n.LayerNorm(5), [(4, 5)]),
    ("Embedding with padding", lambda n: n.Embedding(6, 3, padding_idx=2),
     [ints([0, 2], [5, 1], [2, 2], [3, 4])]),
    ("Embedding with padding from the end", lambda n: n.Embedding(6, 3, padding_idx=-1),
     [ints(3, 5, 5, 0)]),
    ("BatchNorm1d", lambda n: n.BatchNorm1d(5), [(4, 5)]),
    ("Sequential", lambda n: n.Sequential(n.Linear(5, 4), n.ReLU(), n.Sequential(n.Linear(4, 2))),
     [(3, 5)]),
]  # fmt: skip
# What PyTorch's table of modules (test_module_db.py) lacks
MORE: list[tuple[str, Make, list[Any]]] = [
    ("Conv1d reflect", lambda n: n.Conv1d(2, 3, 3, padding=2, padding_mode="reflect"), [(2, 2, 6)]),
    ("Conv2d replicate, same",
     lambda n: n.Conv2d(2, 3, (3, 2), padding="same", dilation=(1, 2), padding_mode="replicate"),
     [(1, 2, 5, 6)]),
    ("Conv3d circular",
     lambda n: n.Conv3d(1, 2, 2, padding=(1, 0, 1), padding_mode="circular"), [(1, 1, 3, 3, 3)]),
    ("Conv1d circular, valid",
     lambda n: n.Conv1d(2, 3, 3, padding="valid", padding_mode="circular"), [(2, 6)]),
    ("ConvTranspose2d, all options",
     lambda n: n.ConvTranspose2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 0), 2, False, (1, 2)),
     [(1, 4, 3, 4)]),
    ("ConvTranspose2d to a size", lambda n: n.ConvTranspose2d(1, 2, 3, 2, 1),
     [(1, 1, 3, 4), [6, 7]]),
    ("ConvTranspose1d to a whole size", lambda n: n.ConvTranspose1d(1, 2, 3, 2, 1),
     [(1, 3), [2, 6]]),
    ("MaxUnpool1d", lambda n: n.MaxUnpool1d(2), [(1, 2, 3), ints([[0, 3, 5], [1, 2, 4]])]),
    ("MaxUnpool2d", lambda n: n.MaxUnpool2d((2, 1), (2, 1)),
     [(1, 1, 2, 2), ints([[[0, 3], [6, 5]]]), [1, 1, 5, 2]]),
    ("MaxUnpool3d", lambda n: n.MaxUnpool3d(2), [(1, 1, 1, 2), ints([[[0, 7]]])]),
    ("RReLU", lambda n: n.RReLU(0.1, 0.4, inplace=False).eval(), [(3, 4)]),
    ("Hardsigmoid", lambda n: n.Hardsigmoid(), [(3, 4)]),
    ("Hardswish in place", lambda n: n.Sequential(n.ReLU6(), n.Hardswish(True)), [(3, 4)]),
    ("LeakyReLU in place", lambda n: n.Sequential(n.Linear(4, 3), n.LeakyReLU(0.2, True)),
     [(3, 4)]),
    ("BatchNorm2d, plain mean", lambda n: n.BatchNorm2d(3, momentum=None), [(2, 3, 2, 2)]),
    ("BatchNorm1d, no statistics",
     lambda n: n.BatchNorm1d(3, track_running_stats=False, bias=False).eval(), [(4, 3, 2)]),
    ("BatchNorm3d, eval", lambda n: n.BatchNorm3d(2, 1e-3, affine=False).eval(),
     [(2, 2, 1, 2, 2)]),
    ("InstanceNorm2d, eval",
     lambda n: n.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(), [(3, 2, 2)]),
    ("InstanceNorm1d, momentum None",
     lambda n: n.InstanceNorm1d(3, momentum=None, track_running_stats=True), [(2, 3, 4)]),
    ("SyncBatchNorm", lambda n: n.SyncBatchNorm(3, momentum=None), [(4, 3)]),
    ("GroupNorm without bias", lambda n: n.GroupNorm(2, 4, bias=False), [(2, 4, 3)]),
    ("RMSNorm, fixed", lambda n: n.RMSNorm([3, 4], 1e-3, False), [(2, 3, 4)]),
    ("Dropout1d", lambda n: n.Dropout1d(0.3).eval(), [(2, 3, 4)]),
    ("Dropout2d", lambda n: n.Dropout2d(0.0), [(2, 3, 2, 2)]),
    ("Dropout3d", lambda n: n.Dropout3d(0.3, True).eval(), [(2, 3, 2, 2, 2)]),
    ("AlphaDropout", lambda n: n.AlphaDropout().eval(), [(2, 3)]),
    ("FeatureAlphaDropout", lambda n: n.FeatureAlphaDropout(0.1).eval(), [(2, 3, 2)]),
    ("Fold", lambda n: n.Fold((4, 5), (2, 3), 1, 1, (1, 2)), [(1, 12, 15)]),
    ("Unfold", lambda n: n.Unfold((2, 3), dilation=2, padding=1, stride=(1, 2)), [(2, 2, 5, 6)]),
    ("Flatten all", lambda n: n.Flatten(0), [(2, 3, 4)]),
    ("Unflatten", lambda n: n.Unflatten(1, (2, 3)), [(2, 6, 2)]),
    ("Unflatten from the end", lambda n: n.Unflatten(-1, [2, -1]), [(3, 4)]),
    ("PixelShuffle", lambda n: n.PixelShuffle(2), [(2, 8, 2, 3)]),
    ("PixelUnshuffle", lambda n: n.PixelUnshuffle(2), [(2, 2, 4, 6)]),
    ("ChannelShuffle", lambda n: n.ChannelShuffle(2), [(1, 6, 2, 2)]),
    ("Upsample to a size", lambda n: n.Upsample((5, 3)), [(1, 2, 3, 3)]),
    ("Upsample by a factor", lambda n: n.Upsample(scale_factor=2, mode="linear"), [(1, 2, 3)]),
    ("Upsample by factors",
     lambda n: n.Upsample(None, (1.5, 2), "bicubic", True, True), [(1, 1, 4, 3)]),
    ("UpsamplingNearest2d", lambda n: n.UpsamplingNearest2d(scale_factor=2), [(1, 2, 2, 3)]),
    ("UpsamplingBilinear2d", lambda n: n.UpsamplingBilinear2d(size=5), [(1, 2, 2, 3)]),
    ("CosineSimilarity", lambda n: n.CosineSimilarity(0, 1e-3), [(3, 4), (3, 4)]),
    ("PairwiseDistance", lambda n: n.PairwiseDistance(1, keepdim=True), [(3, 4), (3, 4)]),
    ("Embedding, all options", lambda n: n.Embedding(6, 3, 1, 1.5, 1.0, True, False),
     [ints([0, 1, 2], [2, 2, 5])]),
    ("EmbeddingBag", lambda n: n.EmbeddingBag(6, 3), [ints([0, 1], [5, 5])]),
    ("EmbeddingBag, sums", lambda n: n.EmbeddingBag(6, 3, 1.0, mode="sum", padding_idx=2),
     [ints(0, 2, 2, 5, 1), ints(0, 3), (5,)]),
    ("EmbeddingBag, maxima",
     lambda n: n.EmbeddingBag(6, 3, mode="max", include_last_offset=True, padding_idx=-1),
     [ints(0, 1, 2, 5), ints(0, 2, 2, 4)]),
    ("AdaptiveLogSoftmaxWithLoss",
     lambda n: n.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0, True),
     [(5, 8), ints(0, 2, 3, 7, 11)]),
    ("AdaptiveLogSoftmaxWithLoss of one", lambda n: n.AdaptiveLogSoftmaxWithLoss(8, 9, [4]),
     [(8,), ints(6)[0]]),
    ("TripletMarginLoss", lambda n: n.TripletMarginLoss(0.5, 1, swap=True), [(4, 3)] * 3),
    ("TripletMarginLoss, sum", lambda n: n.TripletMarginLoss(reduction="sum"), [(4, 3)] * 3),
    ("TripletMarginLoss, none", lambda n: n.TripletMarginLoss(reduction="none"), [(4, 3)] * 3),
    ("TripletMarginWithDistanceLoss",
     lambda n: n.TripletMarginWithDistanceLoss(margin=0.7, reduction="sum"), [(4, 3)] * 3),
    ("TripletMarginWithDistanceLoss of another distance",
     lambda n: n.TripletMarginWithDistanceLoss(distance_function=n.CosineSimilarity(), swap=True,
                                               reduction="none"), [(4, 3)] * 3),
    ("KLDivLoss of a batch", lambda n: n.KLDivLoss(reduction="batchmean"), [(4, 3)] * 2),
]  # fmt: skip

ON_GPU = """
    Conv1d reflect|ConvTranspose2d to a size|MaxUnpool2d|BatchNorm2d, plain mean|Dropout2d|Fold
    InstanceNorm1d, momentum None|PixelShuffle|ChannelShuffle|Upsample by factors|CosineSimilarity
    Embedding, all options|EmbeddingBag, sums|AdaptiveLogSoftmaxWithLoss of one|Unflatten
    TripletMarginWithDistanceLoss
"""  # the others differ in arguments of the same functions
ALL = [*LAYERS, *MORE]
PLACES = [("cpu", *row) for row in ALL] + [
    ("gpu", *row) for row in ALL if row in LAYERS or row[0] in ON_GPU
]

# Their gradient is not that of their result in PyTorch
NO_GRADIENT: list[tuple[str, Make, list[Any]]] = [
    ("CrossMapLRN2d", lambda n: n.CrossMapLRN2d(3, 0.1, 0.5, 2), [(1, 5, 1, 2)]),
    ("CrossMapLRN2d, wide", lambda n: n.CrossMapLRN2d(6), [(2, 3, 2, 2)]),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("device", "make", "inputs"),
    [(r[0], *r[2:]) for r in PLACES],
    ids=[f"{r[0]}-{r[1]}" for r in PLACES],
    indirect=["device"],
)
def test_layer(device: str, make: Make, inputs: list[Any], torch: Any) -> None:
    check_layer(make, inputs, device, torch)


@pytest.mark.parametrize(
    ("make", "inputs"), [r[1:] for r in NO_GRADIENT], ids=[r[0] for r in NO_GRADIENT]
)
def test_layer_forward(make: Make, inputs: list[Any], device: str, torch: Any) -> None:
    with pf.no_grad(), torch.no_grad():
        check_layer(make, inputs, device, torch)


def tensors(inputs: list[Any], device: str, torch: Any) -> tuple[list[Any], list[Any]]:
    """The same inputs for both frameworks."""
    rng = np.random.default_rng(1)
    ours: list[Any] = []
    theirs: list[Any] = []
    for x in inputs:
        if isinstance(x, tuple):
            data = rng.standard_normal(x).astype(np.float32)
            ours.append(pf.from_numpy(data.copy()).to(device).requires_grad_())
            theirs.append(torch.from_numpy(data.copy()).requires_grad_())
        elif isinstance(x, list):
            ours.append(x)
            theirs.append(x)
        else:
            ours.append(pf.tensor(np.asarray(x)).to(device))
            theirs.append(torch.tensor(np.asarray(x)))
    return ours, theirs


def check_layer(make: Make, inputs: list[Any], device: str, torch: Any) -> None:
    """Two steps of the layer are PyTorch's: results, gradients and what it keeps."""
    ours, theirs = make(nn), make(torch.nn)
    assert repr(ours) == repr(theirs)
    want = theirs.state_dict()
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in want.items()
    }
    ours.load_state_dict({k: pf.from_numpy(v.numpy().copy()) for k, v in want.items()})
    ours.to(device)
    for _ in range(2):
        xs, ys = tensors(inputs, device, torch)
        got, wanted = ours(*xs), theirs(*ys)
        got, wanted = [r if isinstance(r, tuple) else (r,) for r in (got, wanted)]
        assert [r.requires_grad for r in got] == [r.requires_grad for r in wanted]
        alike(got, wanted)
        if any(r.requires_grad for r in wanted):
            sum(r.square().sum() for r in got).backward()
            sum(r.square().sum() for r in wanted).backward()
        for x, y in zip(xs, ys, strict=True):
            if getattr(y, "grad", None) is not None:
                alike(x.grad, y.grad)
    alike([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    alike(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize(
    "make",
    [
        lambda n: n.Linear(400, 50),
        lambda n: n.Conv2d(16, 32, 5),
        lambda n: n.Embedding(300, 40),
        lambda n: n.Conv1d(64, 64, 5, groups=4),
        lambda n: n.ConvTranspose2d(24, 32, 5),
        lambda n: n.ConvTranspose1d(64, 48, 5, groups=2),
        lambda n: n.Bilinear(30, 20, 40),
        lambda n: n.EmbeddingBag(300, 40),
        lambda n: n.AdaptiveLogSoftmaxWithLoss(90, 300, [120]),
        lambda n: n.LSTM(30, 64, 2),
        lambda n: n.GRUCell(30, 64),
        lambda n: n.RNN(30, 64),
    ],
)
def test_first_weights_are_distributed_as_pytorchs(make: Make, torch: Any) -> None:
    for p, q in zip(make(nn).parameters(), make(torch.nn).parameters(), strict=True):
        a, b = p.detach().numpy(), q.detach().numpy()
        few = 5 / np.sqrt(a.size)
        assert a.std() == pytest.approx(b.std(), rel=0.05 + few)
        assert abs(a.mean()) < 5 * a.std() / np.sqrt(a.size)
        if b.max() < 3 * b.std():  # uniform: the bounds are known
            assert np.abs(a).max() == pytest.approx(np.abs(b).max(), rel=0.02 + few)


def test_the_same_seed_gives_the_same_bits(gpu: str) -> None:
    def bits(device: str) -> list[Any]:
        pf.manual_seed(11)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(7, 3), nn.Embedding(5, 2)).to(device)
        return [p.detach().cpu().numpy().view(np.int32).tolist() for p in net.parameters()]

    assert bits("cpu") == bits("cpu") == bits(gpu)


def test_layers_without_elements(torch: Any) -> None:
    for lib in (pf, torch):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
            layer = lib.nn.Linear(0, 3)
        assert layer(lib.zeros(2, 0)).tolist() == [layer.bias.tolist()] * 2


@pytest.mark.parametrize("shape", [(2, 4, 0), (0, 4, 5), (2, 0, 3), (1, 4, 1), (1, 0, 1)])
@pytest.mark.parametrize("more", [{}, {"affine": False}, {"track_running_stats": False}])
@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_norms_without_elements(name: str, more: Any, shape: Any, torch: Any) -> None:
    """Gradients are zeros, statistics stay, and the batch counts; or PyTorch's error."""

    def trained(lib: Any) -> Any:
        layer = getattr(lib.nn, name)(shape[1], **more)
        x = lib.ones(shape).requires_grad_()
        try:
            y = layer(x)
        except ValueError as error:
            return str(error).split(",")[0].split(": ")[-1]
        y.sum().backward()
        grads = [p.grad.tolist() for p in (x, *layer.parameters())]
        return y.shape, grads, [b.tolist() for b in layer.buffers()]

    try:
        want = trained(torch)
    except IndexError:  # PyTorch's, of no channels
        want = trained(pf)
    assert trained(pf) == want


MINE = """
    activation adaptive batchnorm channelshuffle conv distance dropout flatten fold instancenorm
    linear loss normalization padding pixelshuffle pooling sparse upsampling
""".split()


@pytest.mark.parametrize("file", MINE)
def test_signatures(file: str, torch: Any) -> None:
    """The same classes, arguments in the same order with the same defaults, the same versions;
    a module of ours may have several names of theirs."""
    ours = importlib.import_module(f"pyframe.nn.modules.{file}")
    theirs = importlib.import_module(f"torch.nn.modules.{file}")
    names = set(theirs.__all__) - {"MultiheadAttention"}  # which has a file of its own
    assert names <= {*ours.__all__} <= {*dir(torch.nn), "LinearCrossEntropyOptions"}
    for name in sorted(names):
        a, b = getattr(nn, name), getattr(torch.nn, name)
        for method in ("__init__", "forward", "from_pretrained", "reset_parameters"):
            if hasattr(b, method):
                got, want = [
                    [(p.name, p.kind, p.default) for p in inspect.signature(fn).parameters.values()]
                    for fn in (getattr(a, method), getattr(b, method))
                ]
                assert got == want, f"{name}.{method}"
        assert a._version == b._version, name


MADE: dict[str, tuple[Any, ...]] = {
    "Linear": (3, 2), "Bilinear": (2, 3, 2), "Conv1d": (2, 2, 1), "Conv2d": (2, 2, 1),
    "Conv3d": (2, 2, 1), "ConvTranspose1d": (2, 2, 1), "ConvTranspose2d": (2, 2, 1),
    "ConvTranspose3d": (2, 2, 1), "PReLU": (2,), "BatchNorm1d": (2,), "BatchNorm2d": (2,),
    "BatchNorm3d": (2,), "SyncBatchNorm": (2,), "InstanceNorm1d": (2, 1e-5, 0.1, True, True),
    "GroupNorm": (1, 2), "LayerNorm": (2,), "RMSNorm": (2,), "Embedding": (3, 2),
    "EmbeddingBag": (3, 2), "AdaptiveLogSoftmaxWithLoss": (4, 4, [2], 2.0),
    "LinearCrossEntropyLoss": (3, 2), "LazyLinear": (2,), "LazyConv1d": (2, 1),
    "LazyConvTranspose2d": (2, 1), "LazyBatchNorm1d": (), "LazyInstanceNorm1d": (1e-5, 0.1, True),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_where_and_of_what_a_layer_is_made(name: str, gpu: str, torch: Any) -> None:
    for kind in ("float16", "float64"):
        kw = {"dtype": getattr(pf, kind)}
        ours = getattr(nn, name)(*MADE[name], **kw).state_dict(keep_vars=True)
        theirs = getattr(torch.nn, name)(*MADE[name], dtype=getattr(torch, kind)).state_dict()
        assert {k: v.dtype.name for k, v in ours.items()} == {
            k: str(v.dtype).removeprefix("torch.") for k, v in theirs.items()
        }
    net = getattr(nn, name)(*MADE[name], device=gpu)
    assert {x.device.type for x in (*net.parameters(), *net.buffers())} == {"gpu"}
    with pytest.raises(TypeError, match=rf"{name}.*dtype|Linear.*dtype"):
        getattr(nn, name)(*MADE[name], dtype="float32")


def test_sizes_repeated() -> None:
    utils = importlib.import_module("pyframe.nn.modules.utils")
    assert (utils._single(1), utils._pair(2), utils._triple(3)) == ((1,), (2, 2), (3, 3, 3))
    assert utils._quadruple([1, 2]) == utils._ntuple(7)((1, 2)) == (1, 2)


# --- what changes in training


NORMS: list[tuple[str, Make, tuple[int, ...]]] = [
    ("BatchNorm2d", lambda n: n.BatchNorm2d(2), (2, 2, 2, 2)),
    ("BatchNorm1d, plain mean", lambda n: n.BatchNorm1d(3, momentum=None), (4, 3)),
    ("InstanceNorm1d", lambda n: n.InstanceNorm1d(2, track_running_stats=True), (2, 2, 3)),
]


@pytest.mark.parametrize(("make", "shape"), [r[1:] for r in NORMS], ids=[r[0] for r in NORMS])
def test_statistics_of_compiled_layers(
    make: Make, shape: tuple[int, ...], device: str, torch: Any
) -> None:
    """Each replay moves them in place; evaluation, and training again, is another capture."""
    compiled, eager, theirs = make(nn).to(device), make(nn).to(device), make(torch.nn)
    held = list(compiled.buffers())
    step = pf.compile(lambda x: compiled(x))
    rng = np.random.default_rng(3)
    for training in (True, True, True, False, False, True, True):
        for net in (compiled, eager, theirs):
            net.train(training)
        data = rng.standard_normal(shape).astype(np.float32) * 2 + 1
        x = pf.from_numpy(data).to(device)
        want = theirs(torch.from_numpy(data))
        alike(step(x), want)
        alike(eager(x), want)
        for net in (compiled, eager):
            alike(net.state_dict(), theirs.state_dict())
    assert sum(map(len, step.replays.values())) == 2
    assert not step.eager
    assert all(a is b for a, b in zip(held, compiled.buffers(), strict=True))


def test_momentum_that_changes(device: str, torch: Any) -> None:
    """A momentum that is another in each step is followed by compiled steps."""
    ours, theirs = nn.BatchNorm1d(2).to(device), torch.nn.BatchNorm1d(2)
    step = pf.compile(lambda x: ours(x))
    data = np.random.default_rng(4).standard_normal((3, 2)).astype(np.float32)
    for i in range(5):
        ours.momentum = theirs.momentum = 0.5 / (i + 1)
        step(pf.from_numpy(data + i).to(device))
        theirs(torch.from_numpy(data + i))
        alike(ours.running_mean, theirs.running_mean)
        alike(ours.running_var, theirs.running_var)
    assert not step.eager


def test_sync_batchnorm_takes_the_place_of_others() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.BatchNorm1d(2, 1e-3, None, bias=False)))
    old = net[1][0].eval()
    out = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    new = out[1][0]
    assert out is net
    assert type(new) is nn.SyncBatchNorm
    assert (new.eps, new.momentum, new.training, new.bias) == (1e-3, None, False, None)
    assert new.weight is old.weight
    assert new.running_var is old.running_var
    x = pf.randn(4, 2)
    assert new(x).tolist() == old(x).tolist()
    assert type(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(1))) is nn.SyncBatchNorm


def test_a_state_of_before_batches_were_counted(torch: Any) -> None:
    """State dicts without metadata, of version 1, lack num_batches_tracked."""
    net = nn.BatchNorm1d(2)
    net(pf.randn(3, 2))
    state = {k: v for k, v in nn.BatchNorm1d(2).state_dict().items() if "batches" not in k}
    assert "<All keys matched" in str(net.load_state_dict(state))
    assert net.num_batches_tracked.item() == 1
    assert net.running_mean.tolist() == [0, 0]


DROPOUTS = [
    ("Dropout", (40, 5, 4), ()),
    ("Dropout1d", (40, 9, 4), (2,)),
    ("Dropout2d", (40, 9, 2, 2), (2, 3)),
    ("Dropout3d", (40, 9, 2, 1, 2), (2, 3, 4)),
    ("AlphaDropout", (40, 5, 4), ()),
    ("FeatureAlphaDropout", (40, 9, 2, 2), (2, 3)),
]


@pytest.mark.parametrize(("name", "shape", "together"), DROPOUTS, ids=[r[0] for r in DROPOUTS])
def test_dropouts(name: str, shape: tuple[int, ...], together: tuple[int, ...], gpu: str) -> None:
    """Elements, or whole channels, take the one value of what is dropped, as often as p says."""
    results = []
    for device in ("cpu", gpu):
        pf.manual_seed(5)
        layer = getattr(nn, name)(0.25)
        x = pf.ones(shape, device=device).requires_grad_()
        y = layer(x)
        y.sum().backward()
        values = sorted(set(y.detach().flatten().tolist()))
        assert len(values) == 2
        assert "Alpha" in name or values == [0, pytest.approx(1 / 0.75)]
        low = (y.detach() == values[0]).float()
        assert low.mean().item() == pytest.approx(0.25, abs=0.09)
        assert ((x.grad == 0).float() == low).all().item()
        if together:
            assert set(low.mean(together).flatten().tolist()) == {0.0, 1.0}
        assert layer.eval()(x) is x
        if "Alpha" not in name:
            assert getattr(nn, name)(1.0)(x).abs().sum().item() == 0
        results.append(y.tolist())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


# --- layers that wait for their first input


LAZY: list[tuple[Make, tuple[int, ...]]] = [
    (lambda n: n.LazyLinear(2), (3, 4)),
    (lambda n: n.LazyLinear(2, bias=False), (4,)),
    (lambda n: n.LazyConv2d(2, 3, padding="same", groups=2, padding_mode="reflect"), (2, 4, 4)),
    (lambda n: n.LazyConvTranspose2d(2, 2, groups=2, bias=False), (1, 2, 2, 2)),
    (lambda n: n.LazyBatchNorm1d(), (4, 3)),
    (lambda n: n.LazyBatchNorm2d(momentum=None, affine=False), (2, 3, 2, 2)),
    (lambda n: n.LazyBatchNorm3d(track_running_stats=False, bias=False), (2, 3, 1, 2, 1)),
    (lambda n: n.LazyInstanceNorm1d(affine=True), (2, 3, 4)),
    (lambda n: n.LazyInstanceNorm2d(track_running_stats=True), (2, 3, 2, 2)),
    (lambda n: n.LazyInstanceNorm3d(), (2, 3, 2, 2, 1)),
]


@pytest.mark.parametrize(("make", "shape"), LAZY)
def test_lazy_layer(make: Make, shape: tuple[int, ...], torch: Any) -> None:
    """Its first input makes it the layer that it stands for; a state that is loaded before, too."""
    ours, theirs = make(nn), make(torch.nn)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    (x,), (y,) = tensors([shape], "cpu", torch)
    theirs(y)
    assert ours(x).shape == theirs(y).shape
    assert repr(ours) == repr(theirs)
    assert type(ours).__name__ == type(theirs).__name__ == type(make(nn)).__name__[4:]
    state = {k: pf.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    loaded, original = make(nn), copy.deepcopy(make(nn))
    for module in (ours, loaded, original):
        module.load_state_dict(state)
        module.eval()
        alike(module(x), theirs.eval()(y))
        assert type(module) is type(ours)


# --- older arguments, tables that are given


@pytest.mark.parametrize(
    ("given", "reduction"),
    [
        ((True,), "mean"), ((False,), "sum"), ((None, False), "none"), ((None, True), "mean"),
        ((False, True), "sum"), ((False, False), "none"),
    ],
)  # fmt: skip
def test_older_arguments_of_losses(given: Any, reduction: str, torch: Any) -> None:
    for lib in (pf, torch):
        with pytest.warns(UserWarning, match=f"use reduction='{reduction}'"):
            assert lib.nn.MSELoss(*given).reduction == reduction
        with pytest.warns(UserWarning, match=f"use reduction='{reduction}'"):
            loss = lib.nn.CrossEntropyLoss(None, given[0], 3, *given[1:])
        assert (loss.reduction, loss.ignore_index) == (reduction, 3)
        f, x, y = lib.nn.functional, lib.ones(3), lib.arange(3.0)
        with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
            got = f.mse_loss(x, y, *given)
        assert got.tolist() == f.mse_loss(x, y, reduction=reduction).tolist()
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        assert repr(nn.NLLLoss2d()) == "NLLLoss2d()"


def test_older_arguments_of_hardtanh() -> None:
    with pytest.warns(FutureWarning, match="renamed to `max_val`"):
        assert nn.Hardtanh(max_value=2.0).max_val == 2.0


def test_tables_that_are_given(device: str, torch: Any) -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    for name, at in (("Embedding", ints(1, 3)), ("EmbeddingBag", ints([1, 3], [0, 0]))):
        for freeze in (True, False):
            weight = pf.from_numpy(table.copy()).to(device)
            ours = getattr(nn, name).from_pretrained(weight, freeze, padding_idx=3)
            theirs = getattr(torch.nn, name).from_pretrained(
                torch.from_numpy(table), freeze, padding_idx=3
            )
            assert repr(ours) == repr(theirs)
            assert ours.weight.requires_grad == theirs.weight.requires_grad == (not freeze)
            alike(ours(pf.tensor(at).to(device)), theirs(torch.from_numpy(at)))


def test_adaptive_softmax_tells_all_classes(torch: Any) -> None:
    ours, theirs = [n.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], 2.0) for n in (nn, torch.nn)]
    ours.load_state_dict({k: pf.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(2).standard_normal((20, 8)).astype(np.float32) * 4
    alike(ours.log_prob(pf.from_numpy(x)), theirs.log_prob(torch.from_numpy(x)))
    got = ours.predict(pf.from_numpy(x)).tolist()
    assert got == theirs.predict(torch.from_numpy(x)).tolist()
    assert max(got) >= 3, "some of the rare classes"


def test_a_rare_class_is_found_without_a_read() -> None:
    """Compiled: which rows belong to a cluster depends on values, but nothing is read."""
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 5], div_value=2.0)
    step = pf.compile(lambda x, y: layer(x, y).loss)
    for seed in range(3):
        x, y = pf.randn(6, 4), pf.randint(0, 9, (6,))
        assert step(x, y).item() == pytest.approx(layer(x, y).loss.item(), rel=1e-5), seed
    assert not step.eager
