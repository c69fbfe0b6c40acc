"""Metrics against scikit-learn, over batches of unequal size, on each device, captured or not."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refused import check_refused, rows
from steps import training_step

import pyframe as pf
from pyframe import metrics as M, nn, optim
from pyframe.nn import functional as F

Array = Any
BOUNDS = (0, 16, 32, 48, 53, 58, 63)  # of the batches


@pytest.fixture(scope="module")
def sk() -> Any:
    """The oracle."""
    reason = "scikit-learn, the oracle, is missing (scripts/test)"
    return pytest.importorskip("sklearn.metrics", reason=reason)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@functools.cache
def data() -> dict[str, tuple[Array, Array]]:
    """Outputs and targets of each kind."""
    rng = np.random.default_rng(0)
    n = BOUNDS[-1]
    classes = rng.integers(0, 4, n)  # of five classes the last is no target
    logits = rng.normal(size=(n, 5)) + 1.5 * np.eye(5)[classes]
    pixels = rng.integers(0, 3, (n, 2, 3))
    maps = rng.normal(size=(n, 3, 2, 3))
    yes = rng.integers(0, 2, n)
    scores = rng.normal(size=n) + yes
    numbers = rng.normal(size=n) + 1000  # far from 0, where Σx² - n·mean² is all rounding
    several = rng.normal(size=(n, 3)) * [1, 5, 0.1] + [0, -3, 7]
    some = np.where(np.arange(n) % 3 == 0, -100, classes)
    return {
        "logits": (logits, classes),
        "probabilities": (softmax(logits), classes),
        "ignored": (logits, some),
        "pixels": (maps, pixels),
        "yes": (scores, yes),
        "columns": (scores[:, None], yes.astype(np.float32)),
        "shares": (1 / (1 + np.exp(-scores[:, None])), yes[:, None]),
        "gaps": (scores, np.where(np.arange(n) % 3 == 0, -100, yes)),
        "masks": (maps[:, :1], (pixels[:, None] > 0)),
        "labels": (maps[:, 0].reshape(n, 6), (pixels > 1).reshape(n, 6)),
        "numbers": (numbers + 0.3 * rng.normal(size=n), numbers),
        "several": (several + rng.normal(size=(n, 3)), several),
    }


def given(kind: str) -> dict[str, Any]:
    """What a row speaks of: targets t that are not to be ignored, outputs o, and what they say, c;
    of several classes `each` is the mean over those that are among the targets."""
    o, t = data()[kind]
    if kind in ("numbers", "several"):
        return {"o": o, "t": t, "np": np}
    several = kind in ("logits", "probabilities", "ignored", "pixels")
    o = np.moveaxis(o, 1, -1).reshape(-1, o.shape[1]) if several else o.reshape(-1)
    o, t = o[t.reshape(-1) >= 0], t[t >= 0]
    names = {"o": o, "t": t, "c": o.argmax(1) if several else o > 0, "np": np, "softmax": softmax}
    if not several:
        return {**names, "each": lambda fn: fn(t, o)}
    return {**names, "each": lambda fn: np.mean([fn(t == k, o[:, k]) for k in np.unique(t)])}


# A metric, the data's kinds, what scikit-learn says of them, and how close it is where not 1e-6
TABLE = """
Accuracy() of logits pixels ignored yes columns gaps == accuracy_score(t, c)
Accuracy(2) of logits == top_k_accuracy_score(t, o, k=2, labels=range(5))
Accuracy() of shares == accuracy_score(t, o > 0.5)
Accuracy(threshold=0.7) of yes == accuracy_score(t, o > np.log(7 / 3))
Accuracy(threshold=0.7, probabilities=True) of shares == accuracy_score(t, o > 0.7)
Accuracy(probabilities=False) of shares == accuracy_score(t, c)
Accuracy(task="binary") of labels == accuracy_score(t, c)
Precision() of logits == precision_score(t, c, average="macro", zero_division=0)
Recall("weighted") of logits == recall_score(t, c, average="weighted", zero_division=0)
Recall("micro") of ignored == recall_score(t, c, average="micro")
F1() of logits == f1_score(t, c, average="macro")
F1(None) of pixels == f1_score(t, c, average=None)
IoU() of pixels == jaccard_score(t, c, average="macro")
ConfusionMatrix() of logits == confusion_matrix(t, c, labels=range(5)) within 0
ConfusionMatrix("pred") of pixels == confusion_matrix(t, c, normalize="pred")
ConfusionMatrix("true") of masks == confusion_matrix(t, c, normalize="true")
ConfusionMatrix() of yes == confusion_matrix(t, c) within 0
AUROC() of yes shares gaps probabilities == each(roc_auc_score) within 2e-3
AveragePrecision() of yes probabilities == each(average_precision_score) within 5e-3
AUROC(None) of columns probabilities == each(roc_auc_score)
AveragePrecision(None) of gaps probabilities == each(average_precision_score)
MAE() of numbers == mean_absolute_error(t, o) within 1e-4
MSE() of several == mean_squared_error(t, o)
RMSE() of several == mean_squared_error(t, o) ** 0.5
R2() of numbers == r2_score(t, o) within 1e-3
Perplexity() of logits ignored == np.exp(log_loss(t, softmax(o), labels=range(5)))
CosineSimilarity() of several == np.diag(pairwise.cosine_similarity(o, t)).mean() within 1e-5
"""
ROWS = [
    (metric, kind, *(want.split(" within ") if " within " in want else (want, "1e-6")))
    for row in TABLE.strip().split("\n")
    for head, _, want in [row.partition(" == ")]
    for metric, _, kinds in [head.partition(" of ")]
    for kind in kinds.split()
]


def streamed(metric: M.Metric, kind: str, device: str, run: Callable[..., Any]) -> Array:
    arrays = (x.astype(np.float32) if x.dtype == np.float64 else x for x in data()[kind])
    output, target = (pf.from_numpy(x).to(device) for x in arrays)
    for start, end in itertools.pairwise(BOUNDS):
        run(output[start:end], target[start:end])
    return metric.compute().cpu().numpy()


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("made", "kind", "oracle", "within"), ROWS)
def test_values_are_those_of_scikit_learn(
    made: str, kind: str, oracle: str, within: str, device: str, sk: Any
) -> None:
    want = eval(oracle, {**vars(sk), **given(kind)})
    metric, close = eval(made, vars(M).copy()), float(within)
    captured = [] if getattr(metric, "thresholds", 0) is None else [pf.compile(metric.update)]
    eager = [metric.update] if device == "cpu" or not captured else []
    for run in (*eager, *captured):
        metric.reset()
        found = streamed(metric, kind, device, run)
        assert found.shape == np.shape(want)
        np.testing.assert_allclose(found, want, rtol=close, atol=close)


def test_equal_scores_and_scores_of_any_scale(device: str, sk: Any) -> None:
    """Equal ones count half; neither saturated probabilities nor infinite logits are lost."""
    rng = np.random.default_rng(1)
    t = rng.integers(0, 2, 300)
    for scores in (
        rng.integers(0, 4, 300) + t,
        1 - 10.0 ** (-2 - t - rng.random(300) * 4),  # most beyond 0.99
        1e4 * (rng.normal(size=300) + t),
        np.where(rng.random(300) < 0.1, np.inf, rng.normal(size=300)),
    ):
        o = scores.astype(np.float32)
        finite = np.minimum(o, 3e38)
        for metric in (M.AUROC(), M.AUROC(None)):
            metric.update(pf.from_numpy(o).to(device), pf.from_numpy(t).to(device))
            want = sk.roc_auc_score(t, finite)
            assert float(metric.compute()) == pytest.approx(want, abs=4e-3)
    assert math.isnan(M.AUROC()(pf.ones(3), pf.ones(3)).item())  # there is no "no"


@pytest.mark.parametrize("limit", ["MANY_SAMPLES", "WORK"])
def test_large_batches_are_counted_otherwise(
    gpu: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("pyframe.metrics.base"), limit, 4)
    o, t = (pf.from_numpy(x) for x in data()["logits"])
    for make in (M.F1, M.ConfusionMatrix):
        want, found = (make()(o.float().to(d), t.to(d)).cpu().tolist() for d in ("cpu", gpu))
        np.testing.assert_allclose(found, want, rtol=1e-6)


# --- what a step costs


def kernels(outputs: int, loss: Callable[..., Any], target: Any, *metrics: M.Metric) -> int:
    """Of a compiled step, which is planned and not run."""
    net = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, outputs)).to("gpu")
    total = pf.zeros((), device="gpu")

    def loss_of(x: Any, y: Any) -> Any:
        output = net(x)
        for m in metrics:
            m.update(output, y)
        found = loss(output, y)
        total.add_(found.detach() * len(y))
        return found

    step = pf.compile(training_step(optim.Adam(net.parameters()), loss_of))
    for _ in range(2):
        step(pf.ones(64, 20, device="gpu"), target.to("gpu"))
    return len(step.programs[-1].steps)


COSTS: dict[str, tuple[int, Any, Any, list[tuple[Callable[[], M.Metric], int]]]] = {
    "classes": (10, F.cross_entropy, pf.arange(64) % 10, [
        (M.Accuracy, 0), (lambda: M.Accuracy(3), 0), (M.Perplexity, 0), (M.F1, 1), (M.IoU, 1),
        (M.ConfusionMatrix, 1), (M.AUROC, 1),
    ]),
    "answers": (1, F.binary_cross_entropy_with_logits, pf.ones(64, 1),
                [(M.Accuracy, 1), (M.F1, 1), (M.AUROC, 1)]),
    "numbers": (8, F.mse_loss, pf.ones(64, 8), [(M.MAE, 1), (M.RMSE, 1), (M.CosineSimilarity, 1)]),
    "one number": (1, F.mse_loss, pf.ones(64, 1), [(M.MAE, 1), (M.R2, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("kind", COSTS)
def test_a_metric_adds_at_most_one_kernel_to_a_step(
    gpu: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(pf.device(gpu).backend), "run", lambda *_: None)
    *step, metrics = COSTS[kind]
    bare = kernels(*step)
    for make, most in metrics:
        assert kernels(*step, make()) - bare <= most, make().name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ignored", [-100, -1, 1])
def test_targets_that_do_not_count(device: str, ignored: int) -> None:
    """Many samples and few take other ways on the CPU; a class may be what does not count."""
    for n in (40, 4000):
        rng = np.random.default_rng(n)
        output, target = rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 4, n)
        target[::3] = ignored
        kept = target != ignored
        for make in (M.Accuracy, M.F1, M.ConfusionMatrix):
            given = (pf.tensor(x).to(device) for x in (output, target))
            mine = make(ignore_index=ignored)(*given)
            want = make()(pf.tensor(output[kept]), pf.tensor(target[kept]))
            np.testing.assert_allclose(mine.cpu().numpy(), want.numpy(), rtol=1e-5)


def test_a_loss_and_metrics_check_their_targets_once() -> None:
    def checks(*metrics: M.Metric) -> int:
        @pf.compile
        def step(x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
            for m in metrics:
                m.update(x, y)
            return F.cross_entropy(x, y)

        x, y = pf.ones(6, 4), pf.arange(6) % 4
        for _ in range(2):
            step(x, y)
        with pytest.raises(IndexError, match="expected 0 to 3"):
            step(x, y + 1)
        kernels = [k for p in step.programs for k in p.kernels]
        return sum(getattr(i, "op", "") in ("ge", "lt") for k in kernels for i in k.code)

    assert checks(M.Accuracy(), M.F1()) == checks() > 0


# --- state


def test_metrics_have_three_methods_and_no_gradients() -> None:
    class Largest(M.Metric):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("top", pf.tensor(-math.inf))
            self.register_buffer("count", pf.tensor(7))
            self.register_buffer("total", None)

        def update(self, output: pf.Tensor, target: pf.Tensor) -> None:
            self.top.copy_(pf.maximum(self.top, (output - target).max()))
            self.count += len(output)

        def compute(self) -> pf.Tensor:
            return self.top * self.count

    metric = Largest()
    assert metric.name == "largest"
    step = pf.compile(metric.update)
    x = pf.tensor([1.0, 5.0, 2.0], requires_grad=True)
    for _ in range(2):  # once more after a reset
        for part in (x, x[:1], x * 2):
            step(part, pf.zeros_like(part))
        found = metric.compute()
        assert not found.requires_grad
        assert float(found) == 10.0 * (7 + 3 + 1 + 3)
        metric.reset()
        assert metric.top.item() == -math.inf
        assert metric.count.item() == 7


@pytest.mark.parametrize("make", [M.Accuracy, M.F1, M.ConfusionMatrix, M.MAE, M.R2, M.AUROC])
def test_state_is_a_modules(make: Any) -> None:
    """It is copied, saved into a metric that saw nothing yet, and it goes on there."""
    kind = "several" if make in (M.MAE, M.R2) else "logits"
    o, t = (pf.from_numpy(x) for x in data()[kind])
    o = o.float()
    one = make()
    want = one(o, t).tolist()
    half = make()
    half.update(o[:20], t[:20])
    other = make()
    other.load_state_dict(half.state_dict())
    for metric in (copy.deepcopy(half), other, half):
        metric.update(o[20:], t[20:])
        np.testing.assert_allclose(metric.compute().tolist(), want, rtol=1e-5)
        metric.reset()
        np.testing.assert_allclose(metric(o, t).tolist(), want, rtol=1e-5)


def test_counts_do_not_overflow(device: str) -> None:
    """A GPU's ints have 32 bits; what is beyond 30 is counted apart."""
    output, target = pf.eye(2, device=device).repeat(8, 1), pf.arange(16, device=device) % 2
    target[0] = 1  # one is wrong
    rows = [(M.Accuracy(), ("hits", "targets")), (M.F1("micro"), ("counts",))]
    for metric, names in (*rows, (M.ConfusionMatrix("all"), ("counts",))):
        metric.update(output, target)
        for _ in range(40):  # doubles what was counted, as 2**40 batches would have
            for name in names:
                state = dict(metric.named_buffers())
                low, high = state[name], state.get(f"{name}_high")
                low, high = (low[0], low[1]) if high is None else (low, high)
                carry = low.bitwise_right_shift(29)
                low.copy_((low * 2) & ((1 << 30) - 1))
                high.copy_(high * 2 + carry)
        metric.update(output, target)
        found = metric.compute()
        if found.ndim:
            np.testing.assert_allclose(found.cpu(), np.array([[7, 0], [1, 8]]) / 16, rtol=1e-5)
        else:
            assert float(found) == pytest.approx(15 / 16, rel=1e-5)


def test_r2_of_targets_that_are_all_the_same() -> None:
    same = pf.full((5, 1), 3.0)
    assert M.R2()(same, same).item() == 1
    assert M.R2()(same + 1, same).item() == 0
    metric = M.R2()
    metric.update(same, same)
    metric.reset()
    assert math.isnan(metric.compute().item()), "nothing was seen"


def test_means_of_functions() -> None:
    def largest(output: Any, target: pf.Tensor) -> pf.Tensor:
        return output["a"].max() + 0 * target.sum()

    metric = pf.metrics.get(largest)
    assert metric.name == "largest"
    step = pf.compile(metric.update)
    for n, value in ((4, 1.0), (4, 3.0), (1, 9.0)):
        step({"a": pf.full((n, 2), value)}, pf.ones(n))
    assert float(metric.compute()) == pytest.approx((4 + 12 + 9) / 9)
    ones = pf.ones(3).requires_grad_() * 1  # as outputs of a step, which arrays are made of
    assert pf.metrics.get(lambda o, t: o.numpy().mean() + 1.5)(ones, ones).item() == 2.5


# --- names and errors


def test_names_and_which_way_is_better() -> None:
    """Stopping and best weights go by the way, whatever the metric is called."""
    ways = dict.fromkeys("""accuracy auroc average_precision cosine_similarity f1 iou precision r2
    recall""".split(), True) | dict.fromkeys("mae mse perplexity rmse".split(), False)  # fmt: skip
    assert {n: M.get(n).higher_is_better for n in M.known()} == ways | {"confusion_matrix": None}
    for name, kind in M.known().items():
        assert type(M.get(name)) is kind
        assert M.get(name).name == name
    metric = M.Accuracy(top_k=5)
    assert M.get(metric) is metric
    assert metric.name == "top5_accuracy"


LOGITS, CLASSES = pf.zeros(8, 4), pf.arange(8) % 4


class Unfinished(M.Metric):
    def update(self, output: pf.Tensor, target: pf.Tensor) -> None:
        pass


def changing(metric: M.Metric) -> None:
    for n in (4, 3):
        metric.update(LOGITS[:, :n], CLASSES % n)


ERRORS = r"""
M.get("acuracy") -> ValueError: 'mae'.* of \(output, target\)
M.get(M.F1) -> TypeError: got the class F1; make one: F1\(…\)
M.F1(average="mean") -> ValueError: f1: average must be 'macro', .* got 'mean'
M.Accuracy(0) -> ValueError: accuracy: top_k must be a positive int, got 0
M.Accuracy(threshold=2) -> ValueError: threshold must be a probability .* got 2
M.Accuracy(task="multi") -> ValueError: task must be .* got 'multi'
M.AUROC(1) -> ValueError: auroc: thresholds must be an int of at least 2
M.AUROC(average="micro") -> ValueError: auroc: average must be .* got 'micro'
M.ConfusionMatrix("rows") -> ValueError: normalize must be .* got 'rows'
M.F1().compute() -> RuntimeError: f1: there is no value before the first update
M.AUROC(None).compute() -> RuntimeError: no value before the first update
M.Accuracy().update(LOGITS, pf.eye(4)[CLASSES]) -> ValueError: by \.argmax\(1\); .*binary
M.F1().update(LOGITS, CLASSES[:, None]) ->
    ValueError: f1: .*targets \[8, 1\]; of another shape make class numbers, .*\.squeeze\(1\)
M.Accuracy().update(pf.zeros(8, 5, 4), pf.zeros(8, 5)) -> ValueError: models, pass output\.mT
M.Accuracy().update(LOGITS, CLASSES.numpy()) -> TypeError: targets .* got ndarray
M.IoU(task="binary").update(LOGITS, CLASSES) -> ValueError: got outputs .8, 4. and
M.F1().update(LOGITS, CLASSES + 1) ->
    IndexError: f1: target out of range: expected 0 to 3, got 4 .*f1's ignore_index
M.AUROC().update(LOGITS[:, 0], CLASSES) -> ValueError: that are 0 or 1, got others for outputs \[8\]
M.Accuracy().update(LOGITS[:, :1], pf.full((8, 1), 0.3)) -> ValueError: other tasks pass a function
changing(M.F1()) ->
    ValueError: f1: the outputs are of another kind than those before: counts has .* \[2, 3, 4\]
changing(M.AUROC(None)) -> ValueError: auroc: got 3 classes after 4
pf.compile(M.AUROC(None).update)(LOGITS, CLASSES) ->
    RuntimeError: auroc: thresholds=None keeps every score, .*compile=False
M.MAE().update(LOGITS[:, :1], pf.zeros(8)) -> ValueError: output\.squeeze\(1\)
M.R2().update(LOGITS, CLASSES) -> ValueError: r2: .*as many outputs as
M.Perplexity().update(LOGITS, pf.eye(4)[CLASSES]) -> ValueError: perplexity:
M.Mean(lambda o, t: None).update(LOGITS, CLASSES) -> TypeError: `return` missing
M.Mean(lambda o, t: 1.0).update([], CLASSES) -> TypeError: expected a batch of tensors, got list
Unfinished()(LOGITS, LOGITS) -> NotImplementedError: Unfinished is missing the method compute
"""


@pytest.mark.parametrize(("call", "text"), rows(ERRORS))
def test_errors(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: globals())
