"""nn.init: what is drawn follows PyTorch's distributions; what is not drawn is PyTorch's value."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refused import calls

import pyframe as pf
from pyframe import nn
from pyframe.nn import init

SHAPE = (64, 32, 3, 3)
IN, OUT = 32 * 9, 64 * 9


def uniform(bound: float) -> tuple[float, float, float]:
    """Mean, standard deviation and largest value of U(-bound, bound)."""
    return 0.0, bound / math.sqrt(3), bound


def truncated(mean: float, std: float, a: float, b: float) -> tuple[float, float, float]:
    """Mean and standard deviation of a normal distribution cut off at a and b, and the larger."""
    x = np.linspace(a, b, 200_001)
    density = np.exp(-0.5 * ((x - mean) / std) ** 2)
    density /= density.sum()
    m = float((x * density).sum())
    return m, math.sqrt(float(((x - m) ** 2 * density).sum())), max(abs(a), abs(b))


# what is called, and the mean, standard deviation and bound that its formula gives
DRAWN: list[tuple[str, Callable[[Any, Any], Any], tuple[float, float, float]]] = [
    ("uniform_", lambda i, w: i.uniform_(w, -3.0, 3.0), uniform(3)),
    ("normal_", lambda i, w: i.normal_(w, 2.0, 0.5), (2.0, 0.5, math.inf)),
    ("xavier_uniform_", lambda i, w: i.xavier_uniform_(w, 2.0),
     uniform(2 * math.sqrt(6 / (IN + OUT)))),
    ("xavier_normal_", lambda i, w: i.xavier_normal_(w), (0, math.sqrt(2 / (IN + OUT)), math.inf)),
    ("kaiming_uniform_", lambda i, w: i.kaiming_uniform_(w, a=math.sqrt(5)),
     uniform(1 / math.sqrt(IN))),
    ("kaiming_normal_", lambda i, w: i.kaiming_normal_(w, mode="FAN_OUT", nonlinearity="relu"),
     (0, math.sqrt(2 / OUT), math.inf)),
    ("trunc_normal_", lambda i, w: i.trunc_normal_(w), truncated(0, 1, -2, 2)),
    ("trunc_normal_ of one side", lambda i, w: i.trunc_normal_(w, 0.5, 0.2, 0.6, 9.0),
     truncated(0.5, 0.2, 0.6, 3.0)),
]  # fmt: skip


def seeded(lib: Any, seed: int) -> Any:
    return lib.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", [name for name, *_ in DRAWN])
def test_what_is_drawn(name: str, torch: Any) -> None:
    draw, (mean, std, bound) = next(row[1:] for row in DRAWN if row[0] == name)
    for lib in (pf, torch):
        lib.manual_seed(3)
        given = lib.empty(SHAPE, requires_grad=True)
        assert draw(lib.nn.init, given) is given
        w = given.detach().numpy()
        error = std / math.sqrt(w.size)
        assert abs(w.mean() - mean) < 5 * error
        assert abs(w.std() - std) < 0.02 * std
        assert abs(w).max() <= bound * (1 + 1e-6) + 6 * std * (bound == math.inf)


def test_a_tail_far_out() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        w = init.trunc_normal_(pf.empty(20_000), 0.0, 1.0, 8.0, 20.0)
    assert w.min().item() >= 8
    assert abs(w.mean().item() - truncated(0, 1, 8, 20)[0]) < 0.01
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        w = init.trunc_normal_(pf.empty(1000, dtype=pf.bfloat16), 0.0, 1.0, -3.07, -3.03)
    assert (w >= pf.tensor(-3.07, dtype=pf.bfloat16)).all()


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (8, 2, 2), (3, 4, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = init.orthogonal_(nn.Parameter(pf.empty(shape)), gain=2.0).detach().reshape(shape[0], -1)
    small = w if w.shape[0] <= w.shape[1] else w.T
    assert pf.allclose(small @ small.T, 4 * pf.eye(small.shape[0]), atol=1e-5)


@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.3, 1.0])
def test_sparse(sparsity: float) -> None:
    w = init.sparse_(pf.empty(40, 300), sparsity, std=2.0)
    assert (w == 0).sum(0).tolist() == [math.ceil(sparsity * 40)] * 300
    if sparsity < 1:
        assert abs(w[w != 0].std().item() - 2) < 0.1
    if 0 < sparsity < 1:
        assert len({tuple(column) for column in (w == 0).T.tolist()}) > 290


def test_equal_seeds_give_equal_bits_on_each_device(gpu: str) -> None:
    draws: list[Any] = [lambda w, g, d=draw: d(w, g) for draw in (
        lambda w, g: init.trunc_normal_(w, generator=g),
        lambda w, g: init.orthogonal_(w, generator=g),
        lambda w, g: init.sparse_(w, 0.5, generator=g),
        lambda w, g: init.kaiming_normal_(w, generator=g),
    )]  # fmt: skip
    for draw in draws:
        first = draw(pf.empty(4, 6), seeded(pf, 7))
        again = draw(pf.empty(4, 6, device=gpu), seeded(pf, 7))
        assert str(again.device) == "gpu"
        assert again.cpu().tolist() == first.tolist()
        assert draw(pf.empty(4, 6), seeded(pf, 8)).tolist() != first.tolist()


# What each call gives, warns of or raises in both, of the library `t` and its nn.init `i`; ` | `
# parts calls in a line.
SAID = """
i.eye_(t.zeros(3, 2)).tolist() | i.eye_(t.zeros(2, 3, dtype=t.int64)).tolist() | i.eye_(t.zeros(2))
i.eye_(t.nn.Parameter(t.ones(2, 2))).requires_grad | i.dirac_(t.ones(3, 2, 3)).tolist()
i.dirac_(t.ones(4, 2, 3, 2), 2).tolist() | i.dirac_(t.ones(2, 3, 1, 2, 3)).tolist()
i.dirac_(t.ones(3, 2, 3), 2) | i.dirac_(t.ones(3, 2)) | i.constant_(t.zeros(2), 3.5).tolist()
[i.ones_(t.zeros(2)).tolist(), i.zeros_(t.ones(2)).tolist()] | i.orthogonal_(t.ones(3))
i.orthogonal_(t.ones(0, 3)).shape | i.sparse_(t.ones(3), 0.5)
i.sparse_(t.ones(2, 3, dtype=t.int64), 0.5) | i.trunc_normal_(t.ones(2), a=3.0, b=2.0)
i.trunc_normal_(t.ones(2, dtype=t.int64)) | i.trunc_normal_(t.ones(2), std=0.0)
i.kaiming_uniform_(t.ones(0, 3)).shape | i.kaiming_normal_(t.ones(0, 3)).shape
i.xavier_normal_(t.ones(0, 0)) | i.xavier_normal_(t.ones(0, 3)).shape
i.kaiming_normal_(t.ones(2, 3), mode="in") | i.kaiming_normal_(t.ones(3))
i.kaiming_normal_(t.ones(2, 3), nonlinearity="mish") | i.normal_(t.ones(2), std=-1.0)
i.uniform_(t.ones(2), 1.0, 0.0) | i.calculate_gain("leaky_relu", True)
[float(i.calculate_gain(n)) for n in ("linear", "conv2d", "conv3d", "sigmoid", "tanh", "relu")]
[float(i.calculate_gain(n)) for n in ("leaky_relu", "selu")]
i.calculate_gain("leaky_relu", 0.3) | i.calculate_gain("leaky_relu", 2)
i._calculate_fan_in_and_fan_out(t.ones(2, 3, 4))
i._calculate_correct_fan(t.ones(2, 3, 4), "fan_out") | i.constant(t.ones(2), 2.0).tolist()
[f(t.ones(4, 4)).shape for f in (i.uniform, i.normal, i.eye, i.xavier_uniform, i.xavier_normal)]
[f(t.ones(4, 4)).shape for f in (i.kaiming_uniform, i.kaiming_normal, i.orthogonal)]
[i.dirac(t.ones(2, 2, 3)).tolist(), i.sparse(t.ones(2, 2), 1.0).tolist()]
"""


@pytest.mark.parametrize("call", calls(SAID))
def test_it_does_what_pytorch_does(call: str, torch: Any) -> None:
    found = []
    for lib in (pf, torch):
        with warnings.catch_warnings(record=True, action="always") as seen:
            try:
                result = repr(eval(call, {"t": lib, "i": lib.nn.init})).replace("pyframe", "torch")
            except Exception as e:
                result = type(e).__name__
        found.append((result, [(w.category, str(w.message)) for w in seen]))
    assert found[0] == found[1]


def test_signatures_are_pytorchs(torch: Any) -> None:
    theirs = torch.nn.init
    assert set(theirs.__all__) <= set(init.__all__)
    for name in theirs.__all__:
        if name.endswith("_"):
            ours = inspect.signature(getattr(init, name)).parameters.values()
            want = inspect.signature(getattr(theirs, name)).parameters.values()
            assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in want]
