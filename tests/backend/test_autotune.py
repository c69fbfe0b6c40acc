"""pf.autotune, which variants a device takes because of it, and those that its driver refuses."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps import training_step

import pyframe as pf
from pyframe.backend.base import RefusedError
from pyframe.backend.cache import DiskCache
from pyframe.codegen.wgsl import generate
from pyframe.codegen.wgsl.printer import variants
from pyframe.core import devices
from pyframe.core.limits import Limits
from pyframe.runtime import tuned
from pyframe.runtime.offline import offline_device
from pyframe.tools import autotune
from tests.backend.cases import limited

REAL_KERNELS = True


@pytest.fixture
def backend(gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The GPU's, which keeps what it measures in a folder of the test's, and forgets it."""
    d = pf.device(gpu)
    cache = tmp_path / "cache"
    monkeypatch.setenv("PYFRAME_CACHE", str(cache))
    monkeypatch.setattr(d.backend, "_cache", DiskCache(cache))
    monkeypatch.setattr(d.backend, "kept_in", str(cache / d.backend._key))
    with limited(d.backend.limits):
        yield d.backend


@pytest.fixture
def slowest(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clocks say that the last variant that is timed is the fastest; the texts that were run."""
    run: list[str] = []

    def timed(bench: Any, shader: Any, n: int) -> float:
        if shader.code not in run:
            run.append(shader.code)
        return 1e9 / (1 + run.index(shader.code))

    monkeypatch.setattr(autotune._Bench, "run", timed)
    return run


def step_of() -> tuple[Callable[..., Any], Any, Any]:
    """A training step, its argument and its network, of a convolution, attention and products."""
    pf.manual_seed(3)
    net: Any = pf.nn.ModuleList(
        [pf.nn.Conv2d(2, 8, 3), pf.nn.MultiheadAttention(8, 2, batch_first=True)]
    ).to("gpu")
    optimizer = pf.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def loss(x: Any) -> Any:
        y = net[0](x).flatten(2).mT
        return net[1](y, y, y)[0].square().mean()

    return training_step(optimizer, loss), pf.randn(4, 2, 6, 6).to("gpu"), net


def used(programs: Any, limits: Limits) -> set[str]:
    """The variants that the kernels of Programs have."""
    found = [variants(k, limits) for p in programs for k in p.kernels]
    return {next(iter(names)) for names in found if names}


def test_a_step_is_tuned(backend: Any, slowest: list[str]) -> None:
    """Every kernel that has variants is timed once, six variants at most; what the step computes
    stays, and it runs with the winners once they are known, captured or not."""
    losses, state = {}, {}
    for tune in (False, True):
        step, x, net = step_of()
        compiled = pf.compile(step)
        losses[tune] = [compiled(x).item()]
        before = used(compiled.programs, backend.limits)
        if tune:
            kept = [p.detach().cpu() for p in net.parameters()]
            found = pf.autotune(compiled, x)
            assert all(pf.equal(p.cpu(), k) for p, k in zip(net.parameters(), kept, strict=True))
            assert compiled.programs == []  # it is captured again
        losses[tune] += [compiled(x).item(), step(x).item()]
        state[tune] = [p.detach().cpu().numpy() for p in net.parameters()]
    np.testing.assert_allclose(losses[True], losses[False], 1e-5)
    for a, b in zip(state[True], state[False], strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-6)
    now = used(compiled.programs, backend.limits)
    assert now <= {row.winner for row in found}
    assert now != before
    assert all(1 <= len(row.times) <= 6 for row in found)
    text, many = str(found), len(slowest)
    assert text.count("taken") == len(found)
    assert backend.adapter in text
    assert backend.kept_in in text
    assert str(pf.autotune(step, x)) == text  # the second time nothing is timed
    assert len(slowest) == many


def test_what_was_measured_is_there_for_another_process(backend: Any) -> None:
    """It is in the cache's folder, from which a GPU takes it as it is opened."""
    x, y, w = [pf.randn(*shape).to("gpu") for shape in ((6, 30), (6, 30), (30, 30))]
    (row,) = pf.autotune(lambda x, y: (x @ w, pf.relu(y @ w)), x, y)  # one kind of product
    assert (row.times[row.winner] or 0.0) * tuned.NOT_FASTER <= min(map(float, row.times.values()))  # type: ignore[arg-type]
    another = devices._openers["gpu"].open(pf.device("gpu"))
    assert another.backend.limits.tuned == backend.limits.tuned != frozenset()
    assert tuned.kept(another.backend).popitem()[1] == row


@pytest.mark.parametrize(
    ("times", "winner"),
    [
        ({}, ""), ({"a": None}, ""), ({"a": None, "b": 2.0}, "b"), ({"a": 2.0, "b": None}, "a"),
        ({"a": 1.0, "b": 0.96}, "a"), ({"a": 1.0, "b": 0.94}, "b"), ({"a": 0.0, "b": 0.0}, "a"),
        ({"a": 9.0, "b": 2.0, "c": 1.99}, "c"),
    ],
)  # fmt: skip
def test_winners(times: dict[str, float | None], winner: str) -> None:
    """The cost model's choice stays where no other one is clearly faster."""
    assert tuned.Times("k", times).winner == winner


def test_where_nothing_can_be_kept(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The winners are this process's, which the table says."""
    monkeypatch.setattr(backend, "_cache", DiskCache(None))
    x = pf.randn(6, 30).to("gpu")
    found = pf.autotune(lambda: x @ x.T)
    assert found.kept_in == ""
    assert "kept in this process alone" in str(found)
    assert {name for _, name in backend.limits.tuned} == {found[0].winner}
    assert tuned.kept(backend) == {}


def test_without_a_clock(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several runs in a row are timed from outside."""
    monkeypatch.setattr(backend, "_timestamps", False)
    x = pf.randn(6, 30).to("gpu")
    (row,) = pf.autotune(lambda: pf.relu(x @ x.T) * 2.0)
    assert all(ms is not None and ms > 0 for ms in row.times.values())
    assert row.winner in row.times


def test_it_comes_before_the_table(backend: Any) -> None:
    """A product has the variant that was the fastest, one of other sizes the table's; a name that
    no variant has is as if it were not there."""
    with offline_device() as device:
        run = pf.compile(lambda a, b: a @ b)
        for n in (64, 65):
            run(pf.zeros(n, 64, device=device), pf.zeros(64, 64, device=device))
        kernels = [k for p in run.programs for k in p.kernels]
    (first, *_, last), key = variants(kernels[0], Limits()), autotune.key(kernels[0])
    for name, now in ((last, last), ("of another version", first)):
        limits = Limits(tuned=frozenset({(key, name)}))
        assert next(iter(variants(kernels[0], limits))) == now
        assert generate(kernels[1], limits).code == generate(kernels[1]).code
        texts = [generate(kernels[0], some).code for some in (limits, Limits())]
        assert (texts[0] == texts[1]) == (name != last)


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{", '{"format": 1}', '{"format": 1, "kernels": {"k": ["name", {"v": "fast"}]}}',
        '{"format": 1, "kernels": {"k": ["name", {"v": -1}]}}', b"\xff", "x",
    ],
)  # fmt: skip
def test_a_damaged_file(backend: Any, content: Any) -> None:
    """It is told by its name, and what is measured next takes its place."""
    backend.remember("{}" if content == "x" else "y")
    path = Path(backend.kept_in)
    if content == "x":
        path.write_bytes(b"damaged by another program")
    elif isinstance(content, bytes):
        backend._cache.write({backend._key: content})
    else:
        backend.remember(content)
    x = pf.randn(3, 5).to("gpu")
    if content == "":  # nothing is kept
        assert tuned.kept(backend) == {}
    else:
        with pytest.warns(UserWarning, match=f"^{re.escape(str(path))} is damaged"):
            assert tuned.kept(backend) == {}
        with pytest.warns(UserWarning, match="is damaged"):
            pf.autotune(lambda: x @ x.T)
    pf.autotune(lambda: x @ x.T)
    assert len(tuned.kept(backend)) == 1
    backend.remember(json.dumps({"format": tuned.FORMAT + 1, "kernels": 0}))
    assert tuned.kept(backend) == {}


def test_what_can_not_be_tuned(backend: Any) -> None:
    x = pf.ones(4, 4)
    with pytest.raises(TypeError, match="autotune: expected a function, got Tensor"):
        pf.autotune(x @ x)
    with pytest.raises(RuntimeError, match="computes on cpu, .* move .* to device='gpu'"):
        pf.autotune(lambda: x @ x)
    with pytest.raises(RuntimeError, match="computes on no device"):
        pf.autotune(lambda: None)
    y = x.to("gpu")
    with pytest.raises(RuntimeError, match=r"autotune: .*test_autotune.py:\d+ reads the value"):
        pf.autotune(lambda: (y @ y).sum().item())
    with pytest.raises(RuntimeError, match="a compiled function can't call it"):
        pf.compile(lambda: pf.autotune(lambda: y @ y))()
    assert "nothing to tune" in str(pf.autotune(lambda: y + y))
    assert "nothing to tune" in str(pf.autotune(lambda: y[:0] @ y))


@pytest.fixture
def refusing(backend: Any, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A driver that takes no kernel whose text has one of these words."""
    words: set[str] = set()
    make = type(backend)._pipeline

    def pipeline(self: Any, code: str, label: str) -> Any:
        if "fn four_" in code and any(word in code for word in words):
            raise RefusedError(label, ValueError("too much workgroup memory"), code)
        return make(self, code, label)

    monkeypatch.setattr(type(backend), "_pipeline", pipeline)
    return words


def test_a_refused_variant(backend: Any, refusing: set[str]) -> None:
    """A warning names driver, kernel and both variants, once for all kernels that would have it;
    what is computed is right, compiled and not."""
    refusing.add("@workgroup_size(64)")
    a, b = np.ones((300, 40), np.float32), np.ones((40, 500), np.float32)
    x, y = pf.tensor(a, device="gpu"), pf.tensor(b, device="gpu")
    for run in (lambda: x @ y, pf.compile(lambda: x @ y + 1), lambda: pf.relu(x @ y)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = run().cpu().numpy()
        np.testing.assert_allclose(found, a @ b + (1 if found[0, 0] == 41 else 0))
        texts = [str(w.message) for w in told]
        for text in texts:
            assert text.startswith(f"the driver of {backend.adapter} refuses kernel matmul[1x300x5")
            assert re.search("in the variant 'tiles .* memory.*: '.*' takes its place", text)
        assert len(texts) == len(set(texts))
    assert texts == []
    assert {op for op, _ in backend.limits.refused} == {"matmul"}
    (row,) = pf.autotune(lambda: x @ y)  # those are not timed
    assert not {name for _, name in backend.limits.refused} & {*row.times}


def test_all_variants_are_refused(backend: Any, refusing: set[str]) -> None:
    x = pf.ones(8, 8, device="gpu")
    refusing.add("fn four_a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(
            RuntimeError, match=r"kernel matmul\[1x8x8\]: too much workgroup memory"
        ):
            (x @ x).cpu()
    refusing.clear()
    assert (x @ x).sum().item() == 512


def test_a_variant_that_is_refused_while_it_is_timed(backend: Any, refusing: set[str]) -> None:
    """It is no winner, and the table says why."""
    x = pf.ones(64, 64, device="gpu")
    refusing.add("tile: array<Vec, 256>")
    (row,) = pf.autotune(lambda: x @ x)
    assert None in row.times.values()
    assert row.times[row.winner] is not None
    assert (x @ x).sum().item() == 64**3
    names = [name for name, ms in row.times.items() if ms is None]
    lost = tuned.Times("k", dict.fromkeys(names))
    assert lost.winner == ""
    text = str(autotune.Tuning("a GPU", "", [row, lost]))
    assert text.count("refused") == 2 * len(names)
    assert "kept in this process alone" in text
    tuned.apply_tuning(backend, {"k": lost})
    assert backend.limits == dataclasses.replace(backend.limits, tuned=frozenset())


def test_a_variant_that_is_refused_for_sizes_that_change(backend: Any, refusing: set[str]) -> None:
    """Its workgroups and sizes were counted for it: they are counted again for the one that takes
    its place, and what is computed is right all along."""
    refusing.add("params")  # which the sizes are read from
    run = pf.compile(lambda x: (x @ x.T).sum())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in (20, 30, 40, 50):
            assert run(pf.ones(n, 16, device="gpu")).item() == 16 * n * n
    texts = [str(w.message) for w in told]
    assert texts
    assert all("refuses kernel matmul[1xnxn]" in text for text in texts), texts
