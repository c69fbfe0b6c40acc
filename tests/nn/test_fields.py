"""Layers made of fields: they are plain classes to those who build on them."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import pytest

import pyframe as pf
from pyframe import Tensor, nn
from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Layer, layer


class _Elementwise(Layer):
    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        raise NotImplementedError


@layer(F.leaky_relu)
class Leaky(_Elementwise):
    """Of a negative slope."""

    negative_slope: float = 0.5
    inplace: bool = False


def test_arguments() -> None:
    """A layer has a plain `__init__`, with Python's own errors."""
    assert str(inspect.signature(Leaky)) == (
        "(negative_slope: 'float' = 0.5, inplace: 'bool' = False) -> 'None'"
    )
    assert typing.get_type_hints(nn.CrossEntropyLoss.__init__)["weight"] == Tensor | None
    assert not hasattr(Leaky, "inplace")
    assert inspect.getdoc(Leaky.forward) == "Elementwise."
    x = pf.tensor([-2.0, 2.0])
    assert Leaky(0.25, inplace=True)(input=x) is x
    assert x.tolist() == [-0.5, 2]
    bad: Any = Leaky
    for call, said in (
        (lambda: bad(1, False, 2), r"Leaky.__init__\(\) takes from 1 to 3 positional arguments"),
        (lambda: bad(slope=1), r"Leaky.__init__\(\) got an unexpected keyword argument 'slope'"),
        (lambda: bad(1, negative_slope=1), "multiple values for argument 'negative_slope'"),
        (lambda: nn.Threshold(), r"Threshold.__init__\(\) missing 2 required positional arguments"),
        (lambda: bad()(), r"Leaky.forward\(\) missing 1 required positional argument: 'input'"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


def test_subclasses() -> None:
    """What a subclass annotates is its own affair."""

    class Named(nn.LeakyReLU):
        name: str

        def called(self, name: str) -> Named:
            self.name = name
            return self

    class Twice(nn.MaxPool1d):
        times = 2

        def __init__(self, size: int) -> None:
            super().__init__(size, stride=1)
            self.size = size

        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * self.times

    assert inspect.signature(Named) == inspect.signature(nn.LeakyReLU)
    assert repr(Named(0.5).called("x")) == "Named(negative_slope=0.5)"
    assert Twice(2)(pf.tensor([[1.0, 3.0, 2.0]])).tolist() == [[6, 6]]
    assert Twice(2).size == 2
    assert list(inspect.signature(Twice).parameters) == ["size"]


def test_all_fields_are_given() -> None:
    """A function that does not take all fields is refused when the class is made."""
    with pytest.raises(AssertionError, match=r"Odd: the function takes \('negative_slope',\)"):

        @layer(F.leaky_relu)
        class Odd(_Elementwise):
            negative_slope: float
            other: int = 0


def test_another_function_in_place_of_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where `forward` is written out: it asks nn.functional at each call."""
    monkeypatch.setattr(F, "leaky_relu", lambda x, *_: x + 7)
    assert Leaky()(pf.zeros(1)).tolist() == [7]
    assert nn.LeakyReLU()(pf.zeros(1)).tolist() == [7]
