"""Graphs that are recorded: traces, what they say of other inputs, files, and exports."""

from __future__ import annotations

import io
import threading
import zipfile
from functools import partial
from typing import Any

import pytest
from refused import check_refused, rows

import pyframe as pf
from pyframe import nn
from pyframe.export import Dim, export
from pyframe.jit.graph import GraphError, decoded, encoded
from pyframe.jit.record import NeedsValueError
from pyframe.nn import functional as F


class Net(nn.Module):
    """Views, writes in place, state that changes, random numbers, a size in a formula."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.fc, self.drop = nn.Linear(8, 4), nn.Dropout(0.5)

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        b = x.shape[0]
        x = F.relu(self.bn(self.conv(x)), inplace=True)
        x = (x + x.mean()).flatten(2).mean(2).view(b, -1)
        y = self.drop(x)
        y[:, 0] = 1.0
        z = y.T
        y.mul_(scale)
        with pf.no_grad():
            w = y.exp()
        return self.fc(y), {"z": z.data, "w": w, "pair": x.max(dim=1)}


def saved(module: Any, **more: Any) -> Any:
    """What comes back of a file."""
    file = io.BytesIO()
    pf.jit.save(module, file)
    file.seek(0)
    return pf.jit.load(file, **more)


def alike(a: Any, b: Any, apart: float = 0.0) -> None:
    xs, ys = (pf.func.leaves(v) for v in (a, b))
    assert len(xs) == len(ys)
    for x, y in zip(xs, ys, strict=True):
        assert x.shape == y.shape
        assert x.dtype is y.dtype
        assert x.requires_grad == y.requires_grad
        assert ((x - y).abs() <= apart + apart * x.abs()).all()


def test_a_trace_does_what_the_module_does(device: str) -> None:
    net = Net().to(device)
    traced = pf.jit.trace(net, pf.randn(1, 3, 8, 8, device=device))
    again = saved(traced)
    assert list(again.state_dict()) == list(net.state_dict())
    for shape in ((2, 3, 8, 8), (5, 3, 6, 9)):
        x = pf.randn(*shape, device=device)
        found = []
        for f in (net, traced, again.to(device), pf.compile(traced)):
            f_state = {k: v.clone() for k, v in net.state_dict().items()}
            pf.manual_seed(3)
            out = f(x)
            grads = pf.autograd.grad(out[0].square().sum(), list(f.parameters()))
            found.append((out, grads, net.bn.running_mean.clone() if f is not again else None))
            net.load_state_dict(f_state)
        for other in found[1:]:
            alike(found[0][0], other[0], 1e-5)
            for g, h in zip(found[0][1], other[1], strict=True):
                assert pf.allclose(g, h, atol=1e-5)
        assert (found[0][2] == found[1][2]).all()  # it shares the statistics, and writes them


def test_what_is_decided_by_values_is_told() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y

    with pytest.warns(pf.jit.TracerWarning, match=r"test_trace.py:\d+: Converting a tensor") as got:
        traced = pf.jit.trace(f, pf.ones(3))
    assert got[0].filename == __file__
    assert traced(-pf.ones(3)).tolist() == [-1.0] * 3  # as it was decided then

    def loop(x: Any) -> Any:
        return sum(x[i] for i in range(x.shape[0]))

    with pytest.warns(pf.jit.TracerWarning, match="size to a Python integer"):
        traced = pf.jit.trace(loop, pf.ones(3, 2))
    assert traced(pf.ones(4, 2)).tolist() == [3.0, 3.0]


def test_a_trace_that_differs_is_told() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(0)
        return x + len(calls)

    with pytest.warns(pf.jit.TracerWarning, match="Output nr 1. of the traced function"):
        pf.jit.trace(f, pf.ones(3))


def test_a_method_is_traced_with_names_and_more_inputs() -> None:
    class Scaled(nn.Module):
        def signed(self, x: pf.Tensor, by: pf.Tensor) -> pf.Tensor:
            return x * by if x.sum() > 0 else x - by

    net, x, by = Scaled(), pf.ones(3), pf.full((3,), 2.0)
    with pytest.warns(pf.jit.TracerWarning) as plain:  # that a value decides
        traced = pf.jit.trace(net.signed, x, example_kwarg_inputs={"by": by})
    assert traced.signed(x * 3, by=by).tolist() == [6, 6, 6]
    with pytest.warns(pf.jit.TracerWarning) as told:
        pf.jit.trace(net.signed, (x, by), check_inputs=[(-x, by)])
    with pytest.warns(pf.jit.TracerWarning) as both:
        pf.jit.trace_module(net, {"signed": (x, by)}, check_inputs=[{"signed": (-x, by)}])
    for seen, differs in ((plain, False), (told, True), (both, True)):
        assert any("Output nr 1. of the traced" in str(w.message) for w in seen) == differs


def test_what_runs_within_a_trace() -> None:
    """Functions with gradients of their own have those of their ops; what reads values within a
    public function reads them again; lazy layers get their shapes."""

    class Twice(pf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    x = pf.randn(4, 3)
    for fn in (
        lambda x: Twice.apply(x) + 1, lambda x: pf.vmap(lambda row: row * row.sum())(x),
        lambda x: pf.func.grad(lambda y: y.pow(3).sum())(x), lambda x: x[x > 0].sum(),
        lambda x: x + pf.arange(x.shape[0])[:, None], lambda x: pf.fft.rfft(x).abs(),
        lambda x: pf.add(x, x, out=pf.zeros(x.shape)) if not x.requires_grad else x + x, net,
        nn.LazyLinear(2), lambda x: x.half().float(),
    ):  # fmt: skip
        traced = pf.jit.trace(fn, pf.randn(2, 3))
        alike(traced(x), fn(x), 1e-6)
    y = x.clone().requires_grad_()
    pf.jit.trace(lambda x: Twice.apply(x), x)(y).sum().backward()
    assert (y.grad == 2).all()
    with pytest.raises(GraphError, match=r"test_trace.py:\d+ calls backward\(\)"):
        pf.jit.trace(lambda x: (x.sum().backward(), x)[1], x.clone().requires_grad_())
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad"):
        pf.jit.trace(lambda x: net(x), x)


def test_nothing_is_left_behind() -> None:
    """Neither hooks on Tensor nor random numbers, statistics or gradients."""
    net, x = Net(), pf.randn(2, 3, 8, 8)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    hooks, state = pf.Tensor.__add__, pf.get_rng_state()
    pf.jit.trace(net, x)
    assert pf.Tensor.__add__ is hooks
    assert (pf.get_rng_state() == state).all()
    assert all((v == before[k]).all() for k, v in net.state_dict().items())
    assert not net._forward_hooks
    assert not net.conv._forward_pre_hooks

    def bad(x: Any) -> Any:
        raise ValueError("of the user")

    with pytest.raises(ValueError, match="of the user"):
        pf.jit.trace(bad, x)
    assert pf.Tensor.__add__ is hooks
    assert not pf.jit.is_tracing()


def test_a_trace_within_a_trace() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = pf.jit.trace(net, pf.randn(1, 3, 8, 8))

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0][:, 1:] * 2

    net = Net()
    outer = pf.jit.trace(Outer(), pf.randn(2, 3, 8, 8))
    calls = [n.target for n in outer.graph.nodes()]
    assert "Tensor.__setitem__" in calls
    assert "Tensor.mul_" in calls
    assert not {"op.slice", "op.put", "Tensor.copy_"} & {*calls}
    again, x = saved(outer), pf.randn(3, 3, 8, 8)
    found = []
    for f in (lambda x: net(x)[0][:, 1:] * 2, outer, again):
        pf.manual_seed(0)
        found.append(f(x))
    alike(found[0], found[1])
    alike(found[0], found[2], 1e-6)


def test_other_threads_are_not_recorded() -> None:
    found: list[Any] = []

    def work(at: int) -> None:
        for _ in range(10):
            traced = pf.jit.trace(lambda x: (x + at) * 2, pf.ones(2))
            found.append((len(traced.graph.nodes()), traced(pf.zeros(2)).tolist() == [2 * at] * 2))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        assert (pf.ones(2) + 1).tolist() == [2.0, 2.0]
    assert found == [(2, True)] * 30
    assert pf.Tensor.__add__.__module__ == "pyframe.ops.math.operators"


def test_functions_constants_and_ties() -> None:
    table = pf.arange(5.0)

    f = pf.jit.trace(lambda x, n: (x * table)[:n] + pf.tensor(2.5), (pf.ones(5), 3))
    again = saved(f)
    assert isinstance(again, pf.jit.ScriptFunction)
    assert again(pf.ones(5), 3).tolist() == [2.5, 3.5, 4.5]

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x))

    tied = saved(pf.jit.trace(Tied(), pf.ones(1, 3)))
    assert tied.a.weight is tied.b.weight


def test_graphs_are_printed_in_pytorchs_style() -> None:
    traced = pf.jit.trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), pf.ones(1, 3))
    text = str(traced.graph)
    assert text.startswith("graph(%self : __torch__.Sequential,\n      %input : Float(s0, s1)):")
    assert '%_0_weight : Float(2, 3) = prim::GetAttr[name="0.weight"](%self)' in text
    assert "aten::linear(%input, %_0_weight, %_0_bias)  # 0" in text
    assert "linear = nn.functional.linear(input, _0_weight, _0_bias)" in traced.code


def test_frozen() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    traced = pf.jit.trace(net.eval(), pf.ones(2, 3))
    frozen = saved(pf.jit.freeze(traced))
    assert not list(frozen.parameters())
    alike(frozen(pf.ones(4, 3)), net(pf.ones(4, 3)).detach())


# --- exports


class Two(nn.Module):
    def forward(self, x: Any, y: Any = None, *, scale: float = 2.0) -> Any:
        return x.flatten(1).mean(-1, keepdim=True) * scale + y.view(y.shape[0], -1)


def test_exports_and_their_sizes() -> None:
    b = Dim("b")
    shapes = {"x": {0: b, 1: Dim("h", min=3, max=64)}, "y": {0: b}}
    ep = export(Two(), (pf.randn(1, 8, 2), pf.randn(1, 2, 2)), dynamic_shapes=shapes)
    file = io.BytesIO()
    pf.export.save(ep, file)
    file.seek(0)
    x, y = pf.randn(4, 9, 2), pf.randn(4, 2, 2)
    for run in (ep.module(), pf.export.load(file).module(), ep.run_decompositions().module()):
        assert pf.allclose(run(x, y), Two()(x, y))
        assert pf.allclose(run(x, y=y), Two()(x, y))
        for bad, why in (
            ((pf.randn(4, 9, 3), y), r"x.shape\[2\] to be equal to 2, but got 3"),
            ((pf.randn(4, 2, 2), y), "h to be in 3 … 64, but got 2"),
            ((x, pf.randn(3, 2, 2)), r"y.shape\[0\] to be equal to 4, but got 3"),
            ((x.double(), y), "to be pyframe.float32"),
        ):
            with pytest.raises(RuntimeError, match=why):
                run(*bad)
        with pytest.raises(TypeError, match="'y'"):
            run(x)
    assert "%x : float32[b, h, 2] [num_users=1] = placeholder[target=x]" in str(ep.graph)
    assert ep.graph_signature.user_inputs == ("x", "y")
    assert ep.graph_signature.user_outputs == (ep.graph.outputs,)
    of_net = export(nn.BatchNorm1d(2).eval(), (pf.ones(3, 2),)).graph_module.graph_signature
    assert of_net.inputs_to_parameters == {"weight": "weight", "bias": "bias"}
    assert set(of_net.inputs_to_buffers.values()) == {"running_mean", "running_var"}
    assert ep.range_constraints == {"b": (0, None), "h": (3, 64)}


def test_sizes_that_follow_from_others() -> None:
    class Pair(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y[1:], x.shape[0] + 1

    n = Dim("n", min=3, max=20)
    module = export(Pair(), (pf.ones(5), pf.ones(6)), dynamic_shapes=({0: n}, {0: n + 1})).module()
    assert module(pf.ones(9), pf.ones(10))[0].tolist() == [2] * 9
    with pytest.raises(RuntimeError, match="but got 12"):
        module(pf.ones(9), pf.ones(12))


def test_exports_that_would_not_hold() -> None:
    class Decides(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    class Counts(nn.Module):
        def forward(self, x: Any) -> Any:
            return sum(x[i] for i in range(x.shape[0]))

    with pytest.raises(NeedsValueError, match=r"test_trace.py:\d+ asks for the value"):
        export(Decides(), (pf.ones(3),))
    with pytest.raises(ValueError, match=r"Constraints violated \(b\).*test_trace.py"):
        export(Counts(), (pf.ones(3, 2),), dynamic_shapes={"x": {0: Dim("b")}})
    auto = {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    graph = export(Counts(), (pf.ones(3, 2),), dynamic_shapes=auto).graph
    assert "%x : float32[3, s1]" in str(graph)


# --- files


def test_files_of_others() -> None:
    file = io.BytesIO()
    pf.jit.trace(nn.Linear(3, 2), pf.ones(1, 3)).save(file, {"note.txt": "hello"})
    extra = {"note.txt": "", "none": ""}
    file.seek(0)
    pf.jit.load(file, _extra_files=extra)
    assert extra == {"note.txt": b"hello", "none": ""}
    torchs = io.BytesIO()
    with zipfile.ZipFile(torchs, "w") as archive:
        archive.writestr("net/data.pkl", b"")
    torchs.seek(0)
    with pytest.raises(GraphError, match="one of PyTorch's"):
        pf.jit.load(torchs)


def test_a_deep_file_is_refused() -> None:
    graph = encoded(pf.jit.trace(lambda x: x + 1, pf.ones(2))._module._graphs["forward"])
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    graph["outputs"] = deep
    with pytest.raises(GraphError, match="nested"):
        decoded(graph)


BAD = r"""
pf.jit.save(nn.Linear(2, 2), io.BytesIO()) -> TypeError: expected a ScriptModule
pf.jit.trace(nn.Linear(2, 2)) -> RuntimeError: expected example_inputs
pf.jit.save(of(lambda x: pf.rand(2, generator=g) + x), io.BytesIO()) ->
    GraphError: a file can't hold
of(lambda x: pf.rand(2, generator=pf.Generator()) + x) ->
    NeedsValueError: seeds random numbers, which a graph can't say
pf.jit.freeze(of(nn.Dropout())) -> RuntimeError: eval mode
export(nn.ReLU(), (pf.ones(3, 2),), dynamic_shapes={"z": {}}) ->
    ValueError: \['z'\], which are no arguments
"""


@pytest.mark.parametrize(("call", "text"), rows(BAD))
def test_bad_arguments(call: str, text: str) -> None:
    of = partial(pf.jit.trace, example_inputs=pf.ones(2), check_trace=False)
    check_refused(call, text, lambda lib: {**globals(), "of": of, "g": pf.Generator()})


def test_what_no_file_may_call_is_not_written() -> None:
    """The gradient of padding reads a part of memory that its attributes name."""

    def step(x: pf.Tensor) -> pf.Tensor:
        (g,) = pf.autograd.grad((x[1:] ** 2).sum(), [x])
        return g

    traced = pf.jit.trace(step, (pf.ones(3, requires_grad=True),))  # the check takes it, too
    assert traced(pf.ones(4, requires_grad=True)).tolist() == [0, 2, 2, 2]
    with pytest.raises(GraphError, match="take them outside"):
        pf.jit.save(traced, io.BytesIO())


def test_a_check_leaves_gradients_as_they_were() -> None:
    net = nn.Linear(3, 2)
    net.weight.grad = pf.ones(2, 3)

    pf.jit.trace(net, pf.ones(4, 3))
    assert net.weight.grad.tolist() == [[1, 1, 1]] * 2
    assert net.bias.grad is None


def test_a_batch_of_one_is_traced_for_what_the_code_does_with_one() -> None:
    """Where it does the same with more, any batch may follow."""
    one = pf.ones(1, 2, 3)
    assert pf.jit.trace(lambda x: x * 2 if x.shape[0] > 1 else x * 3, one)(one).sum() == 18
    assert len(pf.jit.trace(lambda x: x.chunk(2, 0), one)(one)) == 1
    assert pf.jit.trace(lambda x: x.flatten(1), one)(pf.ones(4, 2, 3)).shape == (4, 6)
