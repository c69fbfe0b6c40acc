"""Recurrent layers, as torch.nn.modules.rnn."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from pyframe.core.modes import mode
from pyframe.nn import init
from pyframe.nn.functional import recurrent
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import add_parameters, check_sizes, unusual
from pyframe.nn.utils.rnn import PackedSequence, Padded
from pyframe.ops.index.select import index_select
from pyframe.ops.random.creation import zeros
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

if TYPE_CHECKING:  # typing's has no default before Python 3.13
    from typing_extensions import TypeVar
else:
    from typing import TypeVar

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

if TYPE_CHECKING:
    State = TypeVar("State", default=Any)  # a tensor, of an LSTM two
else:
    State = TypeVar("State")

_NETWORKS = {  # by mode: the function, and how many products with the input a step takes
    "LSTM": (recurrent.lstm, 4),
    "GRU": (recurrent.gru, 3),
    "RNN_TANH": (recurrent.rnn_tanh, 1),
    "RNN_RELU": (recurrent.rnn_relu, 1),
}


class _Recurrent(Module):
    """What networks and cells share."""

    hidden_size: int

    def reset_parameters(self) -> None:
        """U(-1/sqrt(hidden_size), 1/sqrt(hidden_size)) for all parameters."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)


class RNNBase(_Recurrent, Generic[State]):
    """What RNN, LSTM and GRU share: their parameters, weight_ih_l0, … and the forms of input.

    Input (T, B, input_size), (B, T, input_size) with `batch_first`, (T, input_size), or a
    PackedSequence; `hx` (num_layers * directions, B, hidden_size), an LSTM's is a pair. The result
    is (output of the last layer for each step, the last state of each layer and direction).

    Args:
        mode: 'LSTM', 'GRU', 'RNN_TANH' or 'RNN_RELU'. All others are LSTM's.

    >>> isinstance(nn.GRU(3, 4), nn.RNNBase)
    True
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in _NETWORKS:
            raise ValueError(f"Unrecognized RNN mode: {mode}; expected one of {list(_NETWORKS)}")
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_options()
        self.dropout = float(dropout)
        dtype = check_sizes(self, dtype)
        gates, width = _NETWORKS[mode][1] * hidden_size, proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for k in range(num_layers * self._directions):
            layer, backward = divmod(k, self._directions)
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, width * self._directions if layer else input_size),
                "weight_hh": (gates, width),
            }
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            suffix = f"_l{layer}{'_reverse' if backward else ''}"
            named = {name + suffix: shape for name, shape in shapes.items()}
            add_parameters(self, device, dtype, **named)
            self._all_weights.append([*named])
        self.reset_parameters()

    def _check_options(self) -> None:
        dropout, proj_size = self.dropout, self.proj_size
        number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
        if not number or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed, got {dropout!r}"
            )
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                "num_layers=1",
                stacklevel=4,
            )
        kinds = {"bias": bool, "batch_first": bool, "input_size": int, "hidden_size": int}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero, got {getattr(self, name)}")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections, got "
                f"{proj_size}"
            )
        if proj_size >= self.hidden_size:
            raise ValueError(
                f"proj_size has to be smaller than hidden_size, got {proj_size} and "
                f"{self.hidden_size}"
            )

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing: kernels read the parameters where they lie."""

    # --- what is given

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """ValueError for another dtype than the weights', unless autocast is on; RuntimeError for
        another shape.

        Args:
            batch_sizes: those of a PackedSequence; None for a Tensor.
        """
        dtype = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype is not dtype and not (mode.autocast and mode.autocast.dtypes):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). "
                f"Convert input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.ndim != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the state h.

        Args:
            batch_sizes: those of a PackedSequence; None for a Tensor.
        """
        if batch_sizes is None:
            batch = input.shape[0 if self.batch_first else 1]
        else:
            batch = int(batch_sizes[0])
        return self.num_layers * self._directions, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:  # fmt: skip
        """RuntimeError for a state of another shape.

        Args:
            expected_hidden_size: its shape.
            msg: the error's text, with {} for both shapes.
        """
        if hx.shape != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """What `check_input` and `check_hidden_size` raise.

        Args:
            hidden: the state, or the states.
            batch_sizes: those of a PackedSequence; None for a Tensor.
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states in the order that the sequences were sorted to, or back.

        Args:
            permutation: ints (N,); None changes nothing.
        """
        return hx if permutation is None else _of_each(hx, index_select, 1, permutation)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        """The state where none is given."""
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _with_batch(self, hx: Any, batched: bool) -> Any:
        """A given state with its dim for the batch. RuntimeError where input and state differ."""
        if hx.ndim != 2 + batched:
            raise RuntimeError(
                f"For {_FORMS[batched]} input, hx should also be {2 + batched}-D but got "
                f"{hx.ndim}-D tensor"
            )
        return hx if batched else mv.unsqueeze(hx, 1)

    if TYPE_CHECKING:  # Module's takes no overloads of forward

        @overload
        def __call__(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, State]: ...
        @overload
        def __call__(
            self, input: PackedSequence, hx: State | None = None
        ) -> tuple[PackedSequence, State]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(output, last state): see the class."""
        if type(input) is Padded and self.mode != "RNN_RELU":
            return self._of_padded(input, hx)
        if isinstance(input, PackedSequence):
            return self._of_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead"
            )
        batched, batch_dim = input.ndim == 3, 0 if self.batch_first else 1
        x = input if batched else mv.unsqueeze(input, batch_dim)
        hx = self._zeros(x, None) if hx is None else self._with_batch(hx, batched)
        self.check_forward_args(x, hx, None)
        out, state = self._call(x, hx, None)
        if not batched:
            out = mv.squeeze(out, batch_dim)
            state = _of_each(state, mv.squeeze, 1)
        return out, state

    def _of_packed(self, given: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        x, sizes, order, back = given
        hx = self._zeros(x, sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(x, hx, sizes)
        out, state = self._call(x, hx, sizes)
        return PackedSequence(out, sizes, order, back), self.permute_hidden(state, back)

    def _of_padded(self, given: Padded, hx: Any) -> tuple[Any, Any]:
        x = mv.transpose(given.x, 0, 1) if self.batch_first else given.x
        hx = self._zeros(x, None) if hx is None else hx
        self.check_forward_args(x, hx, None)
        out, state = self._call(x, hx, None, lengths=given.lengths)
        out = mv.transpose(out, 0, 1) if self.batch_first else out
        return Padded(out, given.lengths, given.in_order), state

    def _call(self, x: Tensor, hx: Any, sizes: Tensor | None, **more: Any) -> tuple[Tensor, Any]:
        before = (x, hx) if sizes is None else (x, sizes, hx)
        behind = (self.batch_first,) if sizes is None else ()
        out, *state = _NETWORKS[self.mode][0](
            *before, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
            bool(self.bidirectional), *behind, **more,
        )  # fmt: skip
        return out, state[0] if len(state) == 1 else tuple(state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + unusual(
            self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0,
            bidirectional=False,
        )  # fmt: skip


_FORMS = ("unbatched 2-D", "batched 3-D")


def _of_each(hx: Any, fn: Callable[..., Tensor], *args: Any) -> Any:
    """fn(state, *args) of a state, or of each of an LSTM's."""
    return fn(hx, *args) if isinstance(hx, Tensor) else tuple(fn(h, *args) for h in hx)


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase[Tensor]):
    """A plain recurrent network: h = tanh(W_ih x + b_ih + W_hh h + b_hh) for each step
    (Elman 1990).

    It is called, and gives its outputs and states, as an LSTM without the state c. Arguments are
    input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False,
    dropout=0.0, bidirectional=False, device=None, dtype=None.

    Args:
        nonlinearity: 'tanh', or 'relu' instead of it. All others are LSTM's.

    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: as LSTM's, of hidden_size rows.

    >>> out, h = nn.RNN(10, 20, num_layers=2)(pf.randn(5, 3, 10))
    >>> out.shape, h.shape
    (pyframe.Size([5, 3, 20]), pyframe.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase[tuple[Tensor, Tensor]]):
    """Long short-term memory (Hochreiter & Schmidhuber 1997). Each step makes of an input x and the
    states h and c, with a product of the form W x + b_ih + U h + b_hh each,

        i, f, o = sigmoid(…), sigmoid(…), sigmoid(…)    g = tanh(…)
        c = f * c + i * g                               h = o * tanh(c)

    Called as layer(input, (h, c)), states of zeros where none are given. It gives (output, (h, c)):
    the h of the last layer at each step, and the states after the last one. Input is
    (T, N, input_size), (T, input_size), or a PackedSequence of sequences of several lengths; output
    (T, N, directions * hidden_size) likewise; h and c (num_layers * directions, N, hidden_size).

    Arguments are input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, proj_size=0, device=None, dtype=None.

    Args:
        input_size, hidden_size: how many features an input and a state have.
        num_layers: how many layers, each of which has the outputs of the one before as its input.
        bias: whether there are b_ih and b_hh.
        batch_first: whether input and output are (N, T, …). States are not changed by it.
        dropout: the probability with which outputs of all layers but the last are dropped in
            training.
        bidirectional: whether a second net reads the sequence backwards; outputs of both lie beside
            each other.
        proj_size: the size of a projection of h, less than hidden_size (arXiv 1402.1128); 0 for
            none.

    Attributes:
        weight_ih_l0: (4 * hidden_size, input_size), rows in the order i, f, g, o; l1 is the second
            layer, …_reverse reads backwards. All begin as U(-k, k), k = 1 / √hidden_size.
        weight_hh_l0: (4 * hidden_size, hidden_size).
        bias_ih_l0, bias_hh_l0: (4 * hidden_size,).
        weight_hr_l0: (proj_size, hidden_size), where there is a projection.

    Raises:
        ValueError, RuntimeError: the dtype, the last dim or a state's shape doesn't fit.

    >>> out, (h, c) = nn.LSTM(10, 20, num_layers=2)(pf.randn(5, 3, 10))
    >>> out.shape, h.shape, c.shape
    (pyframe.Size([5, 3, 20]), pyframe.Size([2, 3, 20]), pyframe.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the state c.

        Args:
            batch_sizes: those of a PackedSequence; None for a Tensor.
        """
        return *self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """What `check_input` and `check_hidden_size` raise.

        Args:
            hidden: the state, or the states.
            batch_sizes: those of a PackedSequence; None for a Tensor.
        """
        self.check_input(input, batch_sizes)
        shapes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, shape in enumerate(shapes):
            self.check_hidden_size(hidden[i], shape, f"Expected hidden[{i}] size {{}}, got {{}}")

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        *lead, width = self.get_expected_hidden_size(input, batch_sizes)
        kw: dict[str, Any] = {"dtype": input.dtype, "device": input.device}
        return zeros(*lead, width, **kw), zeros(*lead, self.hidden_size, **kw)

    def _with_batch(self, hx: Any, batched: bool) -> Any:
        dims = [x.ndim for x in hx]
        if dims != [2 + batched] * 2:
            raise RuntimeError(
                f"For {_FORMS[batched]} input, hx and cx should also be {2 + batched}-D but got "
                f"({', '.join(f'{n}-D' for n in dims)}) tensors"
            )
        return hx if batched else _of_each(hx, mv.unsqueeze, 1)


class GRU(RNNBase[Tensor]):
    """Gated recurrent units (arXiv 1406.1078). Each step makes of an input x and the state h

        r, z = sigmoid(W x + b_ih + U h + b_hh), likewise with weights of their own
        n = tanh(W x + b_ih + r * (U h + b_hh))
        h = (1 - z) * n + z * h

    It is called, and gives its outputs and states, as an LSTM without the state c. Arguments are
    input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, device=None, dtype=None, with LSTM's meaning.

    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: as LSTM's, of 3 * hidden_size rows in
            the order r, z, n.

    >>> out, h = nn.GRU(10, 20, num_layers=2)(pf.randn(5, 3, 10))
    >>> out.shape, h.shape
    (pyframe.Size([5, 3, 20]), pyframe.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


# --- cells


class RNNCellBase(_Recurrent):
    """What RNNCell, LSTMCell and GRUCell share: their parameters, and input with or without a
    batch, (N, input_size) or (input_size,).

    Args:
        num_chunks: how many parts weights have: 4 of an LSTM, 3 of a GRU, 1 of an RNN.

    Attributes:
        weight_ih: (parts * hidden_size, input_size): an LSTM has 4 parts, a GRU 3, an RNN 1.
        weight_hh: (parts * hidden_size, hidden_size).
        bias_ih, bias_hh: (parts * hidden_size,), None without `bias`.

    >>> nn.LSTMCell(10, 20).weight_ih.shape
    pyframe.Size([80, 10])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        add_parameters(
            self, device, dtype, weight_ih=(rows, input_size), weight_hh=(rows, hidden_size),
            bias_ih=rows if bias else None, bias_hh=rows if bias else None,
        )  # fmt: skip
        self.reset_parameters()

    def _step(self, cell: Callable[..., Any], input: Tensor, hx: Any) -> Any:
        """The next state, zeros the one before where none is given. ValueError for more dims than
        two."""
        pair = cell is recurrent.lstm_cell
        states = {} if hx is None else {"hidden": hx}
        if pair and hx is not None:
            states = {f"hx[{i}]": h for i, h in enumerate(hx)}
        for name, x in {"input": input, **states}.items():
            if x.ndim not in (1, 2):
                raise ValueError(
                    f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {x.ndim}D instead"
                )
        batched = input.ndim == 2
        x = input if batched else mv.unsqueeze(input, 0)
        if hx is None:
            h = zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            hx = (h, h) if pair else h
        elif not batched:
            hx = _of_each(hx, mv.unsqueeze, 0)
        out = cell(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else _of_each(out, mv.squeeze, 0)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of RNN: (N, input_size) and (N, hidden_size) -> (N, hidden_size), or all without N.
    A state that isn't given is zeros.

    Args:
        nonlinearity: 'tanh' or 'relu'.

    >>> nn.RNNCell(10, 20)(pf.randn(3, 10)).shape
    pyframe.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state. RuntimeError for a nonlinearity other than 'tanh' and 'relu'.

        Args:
            hx: the state; None for zeros.
        """
        cells = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}; 'tanh' and 'relu' are")
        out: Tensor = self._step(cells[self.nonlinearity], input, hx)
        return out


class LSTMCell(RNNCellBase):
    """One step of LSTM: (N, input_size) and (h, c), (N, hidden_size) each -> (h, c), or all without
    N. States that aren't given are zeros.

    >>> h, c = nn.LSTMCell(10, 20)(pf.randn(3, 10))
    >>> h.shape, c.shape
    (pyframe.Size([3, 20]), pyframe.Size([3, 20]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The next state.

        Args:
            hx: the states (h, c); None for zeros.
        """
        h, c = self._step(recurrent.lstm_cell, input, hx)
        return h, c


class GRUCell(RNNCellBase):
    """One step of GRU: (N, input_size) and (N, hidden_size) -> (N, hidden_size), or all without N.
    A state that isn't given is zeros.

    >>> nn.GRUCell(10, 20)(pf.randn(3, 10)).shape
    pyframe.Size([3, 20])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state.

        Args:
            hx: the state; None for zeros.
        """
        out: Tensor = self._step(recurrent.gru_cell, input, hx)
        return out
