"""A layer of pyframe and the one of PyTorch that it is compared with."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compared import array

import pyframe as pf
from pyframe import nn
from tests.nn.layers import Row, rows_of

torch: Any = pytest.importorskip("torch", reason="PyTorch, the oracle, is missing (scripts/test)")

from conformance.bridge import Bridge, flat, tree_map  # noqa: E402


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


class Formula(torch.nn.Module):  # type: ignore[misc]
    """In the place of a layer that PyTorch lacks."""

    def __init__(self, text: str, ours: Any) -> None:
        super().__init__()
        self.text, self.name = text, repr(ours)
        for key, p in ours.named_parameters():
            self.register_parameter(key, torch.nn.Parameter(torch.from_numpy(array(p).copy())))

    def forward(self, *inputs: Any) -> Any:
        given = dict(zip("xyz", inputs, strict=False))
        return eval(self.text, {"torch": torch}, {**given, **dict(self.named_parameters())})

    def __repr__(self) -> str:
        return self.name


Made = tuple[Callable[[], Any], Callable[[], Any], Any]


def of_row(row: Row) -> Made:
    """How each library makes its layer, and what PyTorch's is called with."""
    if row.formula:
        return (
            lambda: row.layer(pf), lambda: Formula(row.formula, row.layer(pf)), row.given(torch)
        )  # fmt: skip
    return lambda: row.layer(pf), lambda: row.layer(torch), row.given(torch)


@functools.cache
def database() -> dict[str, Any]:
    """PyTorch's own table of modules, which has several inputs for each."""
    with warnings.catch_warnings(action="ignore"):
        try:
            from torch.testing._internal.common_modules import module_db
        except ImportError as error:  # what PyTorch's own tests need may be missing
            pytest.skip(f"PyTorch's table of modules cannot be imported: {error}")
    return {info.name.removeprefix("nn."): info for info in module_db}


MOST = 7  # inputs of one entry, evenly spread; LinearCrossEntropyLoss alone has 857


def drawn(name: str, training: bool = True) -> list[Made]:
    """The inputs of an entry, if there is one, each with how the layer for it is made."""
    info, cls = database().get(name), getattr(nn, name)
    if info is None:
        return []
    found = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )

    def made(given: Any) -> Made:
        args, kwargs = given.constructor_input.args, given.constructor_input.kwargs
        return (
            lambda: cls(*ours_of(args), **ours_of(kwargs)).float(),
            lambda: info.module_cls(*args, **kwargs).float(),
            (given.forward_input.args, given.forward_input.kwargs),
        )

    return [made(given) for given in found[:: -(-len(found) // MOST)]]


class Case:
    """A module of each framework in the same state, and what to call it with."""

    def __init__(self, made: Made, device: str = "cpu", training: bool | None = None) -> None:
        self.device, self.torch = device, torch  # as a global, a capture would look all through it
        # Of the results, in what gradients are taken of. PyTorch's lie apart: a compiled function
        # that could read them runs eagerly, because nobody sees when they change.
        self.weights: dict[int, Any] = {}
        self.torch_weights: dict[int, Any] = {}
        self.ours, self.theirs, self.inputs = made[0](), made[1](), made[2]
        assert repr(self.ours) == repr(self.theirs)
        assert list(self.ours.state_dict()) == list(self.theirs.state_dict())
        self.ours.to(device)
        if training is not None:
            self.train(training)
        if isinstance(self.ours, nn.modules.lazy.LazyModuleMixin):
            self.check_laziness(made[0])
        with torch.no_grad():  # so that no weight is 0 or 1, and none like others
            for p in self.theirs.parameters():
                p.add_(0.1 * torch.randn_like(p))
        state = self.theirs.state_dict()
        loaded = self.ours.load_state_dict({k: ours_of(v) for k, v in state.items()})
        assert loaded.missing_keys == loaded.unexpected_keys == []
        self.check_fields()

    def train(self, training: bool) -> None:
        self.ours.train(training), self.theirs.train(training)

    def check_fields(self) -> None:
        for key, value in vars(self.theirs).items() if type(self.theirs) is not Formula else ():
            if not key.startswith("_") and isinstance(value, (int, float, str, tuple, type(None))):
                assert getattr(self.ours, key) == value, key
        assert self.ours.training == self.theirs.training

    def check_laziness(self, make: Callable[[], Any]) -> None:
        """Its first input makes it the layer that it stands for; a state that is loaded, too."""
        kind = type(self.ours).__name__
        self.run(self.ours), self.run(self.theirs)
        assert type(self.ours).__name__ == type(self.theirs).__name__ == kind[4:]
        for loaded in (make(), copy.deepcopy(make())):
            state = self.theirs.state_dict()
            loaded.load_state_dict({k: ours_of(v) for k, v in state.items()})
            got, want = self.run(loaded.to(self.device).eval()), self.run(self.theirs.eval())
            same(got[0], want[0], "loaded before its first input")
            assert type(loaded) is type(self.ours)
        self.theirs.train(self.ours.training)

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
        return tree_map(_fresh, self.inputs)

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
        """A step: results, what became of the arguments, gradients, and the state."""
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

    def check_compiled(self) -> None:
        """Three steps, one captured and two replayed, do what three steps of PyTorch do."""
        ours = self.ours

        @pf.compile
        def step(inputs: Any) -> Any:
            ours.zero_grad()
            args, kwargs = tree_map(cloned, inputs)
            out = ours(*args, **kwargs)
            self.backward(out)
            return out

        for _ in range(3):  # inputs that have a gradient already would be another capture
            inputs = self.fresh(ours)
            got, (want, _, grads) = step(inputs), self.step(self.theirs)
            same(got, want, "result")
            found = [x.grad for x in flat(inputs) if getattr(x, "requires_grad", False)]
            mine = found, {k: p.grad for k, p in ours.named_parameters()}
            same(mine, grads, "gradients", 1e-3, 1e-4)
        self.check_state(ours, self.theirs)
        assert (step.captured, step.replayed) == (1, 2), step.eager


def _fresh(x: Any) -> Any:
    return x.detach().clone().requires_grad_(x.requires_grad) if hasattr(x, "detach") else x


def cloned(x: Any) -> Any:
    return x.clone() if getattr(x, "requires_grad", False) else x


def first_of(name: str, device: str) -> Case:
    made = drawn(name)[:1] or [of_row(row) for row in rows_of(name)]
    return Case(made[0], device)


def check_errors(name: str) -> None:
    """Wrong input of PyTorch's table raises an error of PyTorch's type."""
    info = database().get(name)
    if info is None or info.module_error_inputs_func is None:
        return
    wrong = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    assert wrong
    for case in wrong:
        made, called = (
            case.module_error_input.constructor_input,
            case.module_error_input.forward_input,
        )
        with pytest.raises(case.error_type):
            getattr(nn, name)(*ours_of(made.args), **ours_of(made.kwargs))(
                *ours_of(called.args), **ours_of(called.kwargs)
            )
