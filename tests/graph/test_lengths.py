"""Lengths that change under pf.compile: few captures, and what eager execution gives."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from forms import anywhere, once, plain, run, same, tensor
from length_patterns import PATTERNS
from stale_patterns import PATTERNS as STALE

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.backend.interpreter import HOST
from pyframe.capture.compile import CompiledFunction
from pyframe.capture.lengths import SymbolicArguments
from pyframe.codegen.numpy import plan, sized
from pyframe.codegen.numpy.kernels import StepLowering
from pyframe.core.sizes import ShapeEnv, is_symbolic
from pyframe.runtime import cpu

CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def check(found: Any, wanted: Any) -> None:
    same(plain(wanted), plain(found), **CLOSE)


def with_gradients(f: Any) -> Any:
    """`f`, and the gradients of what it gives."""

    def run(*args: Any) -> Any:
        out = f(*args)
        parts = [v for v in (out if isinstance(out, tuple) else (out,)) if isinstance(v, pf.Tensor)]
        loss = sum([(v * v).sum() for v in parts if v.requires_grad], start=pf.zeros(()))
        leaves = [x for x in args if x.requires_grad]
        return [v.detach() for v in parts], pf.autograd.grad(loss, leaves)

    return run


def form(name: str) -> Any:
    return once if "no gradients" in PATTERNS[name].notes else with_gradients


@pytest.mark.sampled(9)
@anywhere(PATTERNS)
def test_it_is_what_eager_execution_gives(name: str, device: str) -> None:
    """With gradients, where there are any."""
    run(PATTERNS[name], device, form(name), more=device == "gpu", **CLOSE)


@pytest.mark.sampled(3)
@anywhere(dict([*PATTERNS.items()][::8]))
def test_so_it_is_without_gradients(name: str, device: str) -> None:
    run(PATTERNS[name], device, **CLOSE)


@pytest.mark.parametrize("name", [*PATTERNS][::6])
def test_so_is_what_webassembly_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wasmtime")
    from natively import Natively

    made = Natively(relaxed=True)
    monkeypatch.setattr(cpu, "compiler", lambda: made)
    for module in (plan, sized):
        monkeypatch.setattr(module, "address", made.address)
    (step,) = run(PATTERNS[name], "cpu", form(name), more=1, **CLOSE)
    replays = [r for some in step.replays.values() for r in some]
    assert not any(e.plan.unsupported for r in replays for e in r.executables)


@pytest.mark.parametrize("name", [k for k in PATTERNS if re.search("batch|one|largest|sums", k)])
def test_so_is_what_numpys_calls_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pf.device("cpu").executor.backend, "limits", HOST)
    monkeypatch.setattr(cpu, "compiler", lambda: None)
    run(PATTERNS[name], "cpu", form(name), more=1, **CLOSE)


def test_sizes_that_differ_have_different_hashes() -> None:
    (n,) = ShapeEnv([7]).symbols()
    assert len({hash(n - k) for k in range(-20, 20)}) == 40
    assert len({hash(k * n) for k in range(-20, 20) if k}) == 39


# --- programs


class Encoder(nn.Module):
    """A classifier of sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(256, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(16, 5)

    def forward(self, ids: pf.Tensor) -> pf.Tensor:
        x = self.words(ids) + self.places(pf.arange(ids.shape[1]))
        return self.out(self.encoder(x).mean(1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1),
        nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


class Job:
    """A net in training."""

    def __init__(self, make: Any) -> None:
        pf.manual_seed(0)
        self.net = make()
        self.optimizer = pf.optim.SGD(self.net.parameters(), 0.05, momentum=0.9)

    def step(self, x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        loss = F.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def sequences(rng: np.random.Generator, n: int, m: int) -> pf.Tensor:
    return pf.tensor(rng.integers(0, 50, (4, n)))


def pictures(rng: np.random.Generator, n: int, m: int) -> pf.Tensor:
    return pf.tensor(rng.standard_normal((2, 3, n, m)).astype(np.float32))


@pytest.mark.parametrize(
    ("make", "batch", "longest", "steps"),
    [(Encoder, sequences, 90, 14), (images, pictures, 40, 14)],
)
def test_training_with_batches_of_any_size(make: Any, batch: Any, longest: int, steps: int) -> None:
    mine, eager = Job(make), Job(make)
    step = pf.compile(mine.step)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x = batch(rng, *rng.integers(4, longest, 2))
        y = pf.tensor(rng.integers(0, 5, len(x)))
        np.testing.assert_allclose(step(x, y).item(), eager.step(x, y).item(), 1e-4)
    for p, q in zip(mine.net.parameters(), eager.net.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-3, 1e-5)
    assert step.captured <= 6
    assert not step.eager


@pytest.mark.parametrize(
    ("make", "batch", "lowered", "calls"),
    [(Encoder, sequences, 4, 1700), (images, pictures, 5, 2750)],
)
def test_a_new_size_is_calculated_and_not_planned(
    make: Any, batch: Any, lowered: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is planned by numbers is lowered again, and few Python calls are made: NumPy's own,
    which are others in each version, do not count."""
    job, rng, seen = Job(make), np.random.default_rng(0), [0, 0]
    step = pf.compile(job.step)
    lower = StepLowering.lower

    def counted(self: StepLowering) -> None:
        seen[0] += 1
        lower(self)

    def called(frame: Any, event: str, arg: Any) -> None:
        seen[1] += event == "call" and frame.f_code.co_filename.startswith(pf.__path__[0])

    y = pf.tensor(rng.integers(0, 5, len(batch(rng, 8, 8))))
    for n in (60, 50, 45, 21, 30):
        step(batch(rng, n, n + 1), y)
    monkeypatch.setattr(StepLowering, "lower", counted)
    for n in (22, 23, 25, 26, 28, 29):
        x = batch(rng, n, n + 1)
        before = seen[:]
        sys.setprofile(called)
        step(x, y)
        sys.setprofile(None)
        assert seen[0] <= before[0] + lowered
        assert seen[1] <= before[1] + calls
    assert step.captured <= 3


@pytest.mark.parametrize(
    ("make", "batch", "sizes"),
    [(Encoder, sequences, [40, 9, 70, 12, 50, 3]), (images, pictures, [51, 33, 21, 8, 40, 14])],
)
def test_a_gpu_compiles_nothing_after_the_third_size(
    make: Any, batch: Any, sizes: Any, gpu: str
) -> None:
    rng = np.random.default_rng(0)
    inputs = [batch(rng, n, m) for n, m in zip(sizes, reversed(sizes), strict=True)]
    batches = [(x, pf.tensor(rng.integers(0, 5, len(x)))) for x in inputs]
    eager = Job(make)
    expected = [eager.step(x, y).item() for x, y in batches * 3]
    pf.set_default_device(gpu)
    step = pf.compile(Job(make).step)
    stats = pf.device(gpu).backend.stats
    for k, (x, y) in enumerate(batches * 3):
        if k == 3:
            stats.reset()
        if k == 2 * len(batches):  # all of them were met, in all buffers that they are uploaded to
            assert stats.bind_groups
            stats.bind_groups = 0
        loss = step(x.to(gpu), y.to(gpu)).item()
        np.testing.assert_allclose(loss, expected[k], 1e-4)
    assert step.captured == 3
    assert (stats.pipelines, stats.bind_groups) == (0, 0)


class Decoder(nn.Module):
    """A layer of a language model, with the keys and values of what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(128, 16)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 50)

    def forward(self, ids: pf.Tensor, keys: pf.Tensor, values: pf.Tensor) -> Any:
        b, t = ids.shape
        places = pf.arange(keys.shape[2], keys.shape[2] + t)
        x = self.words(ids) + self.places(places)
        q, k, v = (
            part.reshape(b, t, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        keys, values = pf.cat([keys, k], 2), pf.cat([values, v], 2)
        mask = pf.arange(keys.shape[2]) <= places.unsqueeze(1)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return self.out(x + y.transpose(1, 2).reshape(b, t, 16))[:, -1], keys, values


def written(f: Any, prompt: pf.Tensor, count: int) -> list[int]:
    """What a model writes after a prompt."""
    keys, values = pf.zeros(1, 2, 0, 8), pf.zeros(1, 2, 0, 8)
    ids, out = prompt, []
    with pf.no_grad():
        for _ in range(count):
            logits, keys, values = f(ids, keys, values)
            ids = logits.argmax(-1, keepdim=True)
            out.append(ids.item())
    return out


@pytest.mark.parametrize("compiled", [True, False])
def test_a_cache_that_grows(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(cpu, "compiler", lambda: None)
    pf.manual_seed(0)
    net = Decoder().eval()
    step = pf.compile(net)

    for n in (5, 9, 3, 12, 1, 30, 17):
        prompt = pf.arange(n).reshape(1, n)
        assert written(step, prompt, 20) == written(net, prompt, 20)
    assert step.captured <= 6


def test_backward_outside_of_a_recurrent_network() -> None:
    pf.manual_seed(0)
    net = nn.GRU(6, 8, batch_first=True, bidirectional=True)
    step, rng = pf.compile(lambda x: net(x)[0]), np.random.default_rng(0)

    def trained(f: Any, x: pf.Tensor) -> Any:
        out = f(x)
        return out.detach(), pf.autograd.grad((out * out).sum(), [x, *net.parameters()])

    for batch, n in ((3, 5), (4, 7), (5, 9), (2, 3), (7, 13), (3, 16), (6, 2), (9, 11)):
        x = pf.tensor(rng.standard_normal((batch, n, 6)).astype(np.float32)).requires_grad_()
        check(trained(step, x), trained(lambda x: net(x)[0], x))
    assert step.captured == 3


class Packed(nn.Module):
    """A tagger of sequences that are packed."""

    def __init__(self, kind: str, first: bool, in_order: bool, layers: int) -> None:
        super().__init__()
        self.first, self.in_order = first, in_order
        self.rnn = getattr(nn, kind)(6, 8, layers, batch_first=first, bidirectional=layers == 1)

    def forward(self, x: pf.Tensor, lengths: pf.Tensor) -> Any:
        utils = nn.utils.rnn
        packed = utils.pack_padded_sequence(x, lengths, self.first, self.in_order)
        assert isinstance(packed, utils.PackedSequence)
        out, state = self.rnn(packed)
        out, again = utils.pad_packed_sequence(out, self.first, padding_value=-1.5)
        return out.tanh(), *(state if isinstance(state, tuple) else (state,)), again


@pytest.mark.parametrize(
    ("kind", "first", "layers", "in_order"),
    [("LSTM", True, 1, False), ("RNN", False, 2, True)],
)
def test_packed_sequences_of_any_lengths(
    kind: str, first: bool, layers: int, in_order: bool
) -> None:
    pf.manual_seed(0)
    net = Packed(kind, first, in_order, layers)

    def run(x: pf.Tensor, lengths: pf.Tensor) -> Any:
        *out, again = net(x, lengths)
        wanted = [x, *net.parameters()]
        grads = pf.autograd.grad(sum([(v * v).sum() for v in out]), wanted)
        return [v.detach() for v in out], again, grads

    step, rng = pf.compile(run), np.random.default_rng(0)

    def call(batch: int, steps: int, longest: int) -> None:
        lengths = rng.integers(1, longest + 1, batch)
        lengths[rng.integers(batch)] = longest
        lengths = np.sort(lengths)[::-1].copy() if in_order else lengths
        x = rng.standard_normal((batch, steps, 6) if first else (steps, batch, 6))
        given = pf.tensor(x.astype(np.float32)).requires_grad_(), pf.tensor(lengths)
        found, wanted = step(*given), run(*given)
        check(found, wanted)

    for n, longest in ((3, 5), (4, 7), (5, 9), (7, 13), (3, 16), (6, 2)):
        call(n, longest, longest)
    captured = step.captured
    assert captured <= 3 + in_order  # two sequences have but one neighbour to compare
    call(4, 11, 8)  # which is packed to fewer steps: eagerly
    call(8, 14, 14)
    assert step.captured == captured
    assert not step.eager


def test_sequences_whose_lengths_no_capture_knows_are_packed_eagerly() -> None:
    net = Packed("LSTM", True, False, 1)
    x, lengths = pf.randn(2, 5, 6), pf.tensor([2, 4])
    with pytest.warns(RuntimeWarning, match="the longest is as long as the padding"):
        found = pf.compile(net)(x, lengths)
    check(found, net(x, lengths))

    @pf.compile
    def rows(x: pf.Tensor, lengths: pf.Tensor) -> Any:
        return nn.utils.rnn.pack_padded_sequence(x, lengths, True)

    for n in (4, 5, 6, 7):
        lengths = pf.tensor([n, 2])
        wanted = nn.utils.rnn.pack_padded_sequence(x := pf.randn(2, n, 3), lengths, True)
        with pytest.warns(RuntimeWarning, match="sequence leaves") if n == 4 else nullcontext():
            found = rows(x, lengths)
        assert isinstance(found, nn.utils.rnn.PackedSequence)
        check((found.data, found.batch_sizes), (wanted.data, wanted.batch_sizes))
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        rows(pf.randn(2, 7, 3), pf.tensor([2, 7]))


# --- without pf.compile


EAGER = """softmax sums_across_it joined slices flatten of_batches causal_attention a_convolution
an_embedding sorted a_mean_over_a_count unfolded padded""".split()


@pytest.mark.parametrize("name", EAGER)
def test_recorded_work_of_any_size_has_few_kernels(name: str, gpu: str) -> None:
    program, stats = PATTERNS[name], pf.device(gpu).backend.stats
    pf.device(gpu).executor.forget_programs()
    wanted = [plain(v) for v in program(once, tensor("cpu"))]
    for k, (found, want) in enumerate(zip(program(once, tensor(gpu)), wanted, strict=True)):
        same(want, plain(found), **CLOSE)
        if k == 4:
            stats.reset()
    assert stats.pipelines == 0


def test_prompts_of_any_length_without_compile(gpu: str) -> None:
    """And tokens that are written one by one: recorded graphs that differ in a size alone."""
    pf.manual_seed(0)
    net, stats = Decoder().eval(), pf.device(gpu).backend.stats
    lengths = (5, 9, 3, 12, 30, 17, 8)
    expected = [written(net, pf.arange(n).reshape(1, n), 6) for n in lengths]
    net.to(gpu)
    pf.set_default_device(gpu)
    for k, n in enumerate(lengths):
        if k == 4:
            stats.reset()
        assert written(net, pf.arange(n).reshape(1, n), 6) == expected[k]
    assert stats.pipelines == 0


def test_numbers_that_seemed_to_follow_from_each_other(gpu: str) -> None:
    """Three graphs say that one is twice the other, and a shift a size; the next ones say no."""
    sizes = [(4, 8, 4), (5, 10, 5), (7, 14, 7), (9, 18, 9), (6, 11, 2), (3, 20, 11), (8, 16, 5)]
    sizes += [(12, 5, 3), (5, 5, 5), (6, 12, 0), (2, 4, 1)]
    for n, m, k in sizes:
        x, y = (np.arange(3.0 * s, dtype=np.float32).reshape(s, 3) for s in (n, m))
        a, b = (pf.tensor(v, device=gpu) for v in (x, y))
        found = (pf.cat([a, b]).roll(k, 0) * 2 + n).cpu().numpy()
        np.testing.assert_array_equal(found, np.roll(np.concatenate([x, y]), k, 0) * 2 + n)


# --- what users say, and are told


def double(x: pf.Tensor) -> pf.Tensor:
    return x * 2 + x.shape[0]


def counts(f: Any, sizes: Any) -> list[int]:
    return [(f(pf.ones(n, 3)), f.captured)[1] for n in sizes]


def test_dynamic_says_from_when_on() -> None:
    assert counts(pf.compile(double), (4, 5, 6, 7, 8, 4)) == [1, 2, 3, 3, 3, 3]
    assert counts(pf.compile(double, dynamic=True), (4, 5, 6, 7)) == [1, 2, 2, 2]
    assert counts(pf.compile(double, dynamic=False), (4, 5, 6, 7)) == [1, 2, 3, 4]
    assert counts(pf.compile(dynamic=True)(double), (4, 5, 6)) == [1, 2, 2]


def test_marked_dims_change_from_the_second_capture_on() -> None:
    f = pf.compile(double)
    x = pf.ones(4, 3)
    pf.mark_dynamic(x, 0)
    f(x)
    assert counts(f, (5, 6, 7)) == [2, 2, 2]
    assert f(pf.ones(9, 3)).tolist() == [[11.0] * 3] * 9
    f(pf.ones(9, 4))  # that dim was not named
    assert f.captured == 3
    with pytest.raises(IndexError, match="dim 2 of a tensor with 2 dims"):
        pf.mark_dynamic(x, [0, 2])
    for args in ((3, 0), (x, "0"), (x, [0.0])):
        with pytest.raises(TypeError, match="mark_dynamic: expected a Tensor and ints"):
            pf.mark_dynamic(*args)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="compile: expected True, False or None for dynamic"):
        pf.compile(double, dynamic="yes")  # type: ignore[call-overload]


def loop(x: pf.Tensor) -> pf.Tensor:
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total * 0.5 + x[i]
    return total


def test_a_python_loop_is_captured_for_each_length_and_says_so() -> None:
    f = pf.compile(loop)

    def calls() -> None:
        for n in range(2, 40):
            x = pf.arange(3.0 * n).reshape(n, 3)
            np.testing.assert_allclose(f(x).numpy(), loop(x).numpy(), 1e-6)

    sizes = r"size 0 of tensor 1 .* \(it was 30, 31, 32, 33, 34\), "
    with pytest.warns(RuntimeWarning, match=sizes) as w:
        calls()
    assert len(w) == 1
    assert "test_lengths.py" in str(w[0].message)
    assert "asks for its number" in str(w[0].message)
    before = f.captured
    assert "each size 0 of tensor 1 of the arguments is captured" in f.explain()
    f(pf.arange(102.0).reshape(34, 3))  # what is captured is replayed still
    assert f.captured == before
    assert f.replayed


def test_what_a_capture_for_many_sizes_relies_on(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: pf.Tensor) -> pf.Tensor:
        return x * 2 if x.shape[0] > 20 else x

    f = pf.compile(f)
    counts(f, (4, 5, 6, 30, 40))
    assert f.captured == 4
    text = f.explain()
    assert "a capture for all sizes with size 0 of tensor 1 of the arguments of 2 or more" in text
    assert re.search(r"size 0 of tensor 1 of the arguments \+ -20\) > 0 \(.*test_lengths.py", text)
    assert "is 40, and was 30" in text or "is 30, and was 6" in text
    assert capsys.readouterr().out


def test_other_threads_see_numbers_during_a_capture() -> None:
    x, seen = pf.arange(15.0).reshape(5, 3), []
    y = x[1:]

    def look() -> None:
        total = (x * 2).reshape(-1).sum() + y.sum()
        seen.append((is_symbolic(x.shape), is_symbolic(total.shape), [*x.T.shape], total.item()))

    symbolic = SymbolicArguments([x, y], {(0, 0), (1, 0)})
    with symbolic.given():
        assert is_symbolic(x.shape)
        assert is_symbolic((x + 1).shape)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(False, False, [3, 5], 312.0)]
    assert not is_symbolic(x.shape)


def test_an_index_out_of_range_is_refused_with_the_present_size() -> None:
    f = pf.compile(lambda x, i: x[i] * 2)
    for n in (5, 6, 7, 8, 9):
        f(pf.ones(n, 3), pf.tensor([n - 1, 0]))
    with pytest.raises(IndexError, match="10 is out of range for size 10"):
        f(pf.ones(10, 3), pf.tensor([10]))
    assert f(pf.ones(11, 3), pf.tensor([10])).tolist() == [[2.0] * 3]


def test_texts_have_constants_where_no_size_changes(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, texts = pf.device(gpu).backend, []
    load = backend.load
    monkeypatch.setattr(backend, "load", lambda code: texts.append(code.codes) or load(code))
    fixed, many = [pf.compile(lambda x: (x @ x.T).softmax(-1), dynamic=d) for d in (False, None)]
    for n in (61, 62, 67):
        x = pf.tensor(np.ones((n, 5), np.float32), device=gpu)
        for f in (fixed, many):
            f(x)
    for constant, changed in zip(texts[::2], texts[1::2], strict=True):
        assert not any("params" in code for code in constant)
        assert (constant == changed) is (changed is not texts[-1])
    assert all("fn size0() -> i32 { return i32(params[0][0]); }" in code for code in texts[-1])
    assert not any(re.search(r"\b67\b", code) for code in texts[-1])


def test_strides_over_memory_of_another_length_are_checked_for_each() -> None:
    f = pf.compile(lambda x: x.as_strided((2, 3), (3, 1), 6) * 1)
    for n in (20, 30, 15, 12, 40):
        x = pf.arange(float(n))
        assert f(x).tolist() == x[6:12].reshape(2, 3).tolist()
    with pytest.raises(RuntimeError, match="out of bounds"):
        f(pf.arange(11.0))


def test_what_a_failed_capture_has_changed_is_not_changed_twice() -> None:
    seen: list[int] = []

    def f(x: pf.Tensor) -> pf.Tensor:
        if x.shape[0] > 4:
            seen.append(1)
            x = x + x.sum().item()
        return x + 1

    step = pf.compile(f, dynamic=True)
    step(pf.ones(4))
    line = f.__code__.co_firstlineno
    text = rf"py:{line + 3} reads the value of a tensor; .*changed `seen` .*: compile it with dyn"
    with pytest.raises(RuntimeError, match=text):
        step(pf.ones(5))
    assert seen == [1]
    g = pf.compile(lambda x: x + x.sum().item(), dynamic=True)
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        assert g(pf.ones(4)).tolist() == [5.0] * 4


SHARING = ["arguments_that_share_memory", "slices_that_are_written_to", "where_a_slice_begins"]
SOME = dict([*STALE.items()][:: 1 if "PYFRAME_STALE" in os.environ else 9])


@anywhere(SOME, [*SHARING, *[n for n in [*STALE][::30] if "cpu" not in STALE[n].notes]])
def test_stale_programs_with_sizes_that_change(device: str, name: str) -> None:
    """They give what they give eagerly where all sizes are symbols from the first capture on."""

    def at_once(f: Any) -> Any:
        out = CompiledFunction(f, dynamic=True)
        out.proven = True
        return out

    run(STALE[name], device, compile=at_once)
