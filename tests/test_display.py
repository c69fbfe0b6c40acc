"""What notebooks show of tensors and modules."""

from __future__ import annotations

import html.parser

import numpy as np

import pyframe as pf
from pyframe import nn


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in their order, and keeps the text."""

    def __init__(self, source: str | None) -> None:
        super().__init__()
        assert source is not None
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(" ".join([tag, *[k for k, v in attrs if v is None]]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_tensor(device: str) -> None:
    x = pf.arange(6, device=device).reshape(2, 3).float() - 1
    assert Page(x._repr_html_()).text == (
        f"Tensor [2, 3] · float32 · {device} · -1 to 4, mean 1.5"
        "[[-1.,  0.,  1.],\n [ 2.,  3.,  4.]]"
    )
    x[0, 0], x[1, 1] = float("nan"), float("inf")
    page = Page(x.requires_grad_()._repr_html_())
    assert "requires grad · 0 to 4, mean 1.75 · 2 nan or inf" in page.text
    assert "grad_fn=<MulBackward0>" in Page((x * 2)._repr_html_()).text
    assert repr(x).startswith("tensor([[nan,"), "the text is PyTorch's"


def test_tensors_of_all_kinds() -> None:
    for x, text in (
        (pf.tensor(2.5), "Tensor [] · float32 · cpu2.5000"),
        (pf.zeros(0, 3), "Tensor [0, 3] · float32 · cpu[]"),
        (pf.tensor([True, False]), "Tensor [2] · bool · cpu[ True, False]"),
        (pf.tensor([1, 3]), "Tensor [2] · int64 · cpu · 1 to 3, mean 2[1, 3]"),
        (pf.tensor([1.0, 2.0]).bfloat16(),
         "Tensor [2] · bfloat16 · cpu · 1 to 2, mean 1.5[1., 2.]"),
        (pf.tensor([1 + 2j]), "Tensor [1] · complex64 · cpu[1.+2.j]"),
        (pf.full((2,), float("nan")), "Tensor [2] · float32 · cpu · 2 nan or inf[nan, nan]"),
        (nn.Parameter(pf.ones(1)), "Parameter [1] · float32 · cpu · requires grad[1.]"),
    ):  # fmt: skip
        assert Page(x._repr_html_()).text == text
    array = np.arange(3.0)
    pf.from_numpy(array)._repr_html_()
    assert array.tolist() == [0, 1, 2], "arrays keep their values"
    weight = nn.LazyLinear(4).weight  # what has no shape is shown as text
    assert weight._repr_html_() is None
    assert repr(weight) == "<UninitializedParameter>"


def test_long_tensors_are_shortened() -> None:
    page = Page(pf.zeros(100, 100)._repr_html_())
    assert page.text.count("...") == 7
    assert len(page.text) < 1000


def test_a_module_is_a_tree() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
            self.none = None
            self.late = nn.LazyLinear(4)

        def extra_repr(self) -> str:
            return "a < b\n& c"

    page = Page(Odd()._repr_html_())
    assert page.tags.count("details open") == 1, "what is below the first level is closed"
    assert page.tags.count("details") == 1
    assert page.text == (
        "Odd(a < b, & c) 9 parameters"
        "(inner): Sequential() 9 parameters"
        "(0): Linear(in_features=2, out_features=3, bias=True) 9 parameters"
        "(1): ReLU() 0 parameters"
        "(late): LazyLinear(in_features=0, out_features=4, bias=True) 0 parameters"
    )
    assert Page(nn.ReLU()._repr_html_()).text == "ReLU() 0 parameters"
