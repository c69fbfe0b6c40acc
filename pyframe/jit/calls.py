"""What nodes of a graph may call. A file is not trusted: its names are looked up in the tables here
and nowhere else, nothing of a file is ever called itself, ops get what public functions would give
them, and what a file sizes is counted before it is made.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import keyword
import math
import operator
import re
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, tensor_from_node
from pyframe.core.modes import mode
from pyframe.core.node import Node as Value
from pyframe.core.op import CONST, ELEMENTWISE, REDUCTION, REGISTRY, Op
from pyframe.core.sizes import SymbolicSize
from pyframe.nn.modules.module import Module
from pyframe.ops.math.operators import OPERATORS, PROPERTIES
from pyframe.ops.math.promotion import Elementwise
from pyframe.ops.shape import conversion, movement
from pyframe.tensor import Tensor

MAX_ITEMS = 1 << 22  # items of a list, characters of a text
BITS = 1 << 14  # of an int
WIDTH = 1000  # characters to which a number is padded, digits to which it is rounded


class GraphError(ValueError):
    """A graph that can't be written, read or run."""


# --- functions of the public API


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """What nodes may call, by their names: functions of the public API, methods, operators."""
    from pyframe import linalg, masked, special
    from pyframe.nn import functional
    from pyframe.nn.functional import recurrent, toplevel
    from pyframe.ops.api import public

    found: dict[str, Callable[..., Any]] = {}
    for name in [*public.METHODS, *public.FUNCTIONS]:
        found[name] = getattr(pf, name)
    spaces: list[tuple[str, Any, Any]] = [
        ("nn.functional", functional, None), ("nn.functional.recurrent", recurrent, None),
        ("linalg", linalg, None), ("fft", pf.fft, None), ("special", special, None),
        ("masked", masked, masked.__all__),
    ]  # fmt: skip
    found |= {name: fn for name, fn in toplevel.FUNCTIONS.items() if name not in found}
    for space, module, names in spaces:
        for name in names or vars(module):
            fn = getattr(module, name)
            if not name.startswith("_") and hasattr(fn, "__wrapped__") and callable(fn):
                found[f"{space}.{name}"] = fn
    methods = {*public.METHODS, *public.ONLY_METHODS, *pf.ops.VARIANTS}
    for name in methods:
        found[f"Tensor.{name}"] = getattr(Tensor, name)
    found |= {f"Tensor.{name}": fn for name, fn in hooked().items()}
    return found | {"tensor": pf.tensor, "as_tensor": pf.as_tensor}


@functools.cache
def hooked() -> dict[str, Callable[..., Any]]:
    """What Tensor has besides its public methods that gives tensors: a recording sees it by hooks
    on the class."""
    found: dict[str, Any] = dict(OPERATORS)
    found |= {name: p.fget for name, p in PROPERTIES.items()}
    found |= conversion.TO_DTYPES
    names = "to type_as cpu gpu cuda detach new_tensor"
    return found | {name: getattr(Tensor, name) for name in names.split()}


@functools.lru_cache(4096)
def function(name: str) -> Callable[..., Any]:
    """What a node calls; GraphError for a name that there is not."""
    op = REGISTRY.get(name[3:]) if name.startswith("op.") else None
    if op is not None:
        return functools.partial(_applied, op)
    space, _, last = name.partition(".")
    if space == "method" and has_method(last):
        return functools.partial(_called, last)
    if space == "attr" and last in ATTRIBUTES:
        return functools.partial(_attribute, last)
    found = functions().get(name) or CODE.get(name)
    if found is None:
        raise GraphError(f"a node calls {name[:80]!r}, which this version of pyframe does not have")
    return found


def may_call(name: str) -> bool:
    """Whether a file may name a function: not ops that read memory wherever they are told to, not
    what calls its arguments, and nothing that changes the process."""
    if name in _LOCAL or name.removeprefix("method.") in _CALLS:
        return False
    op = REGISTRY.get(name[3:]) if name.startswith("op.") else None
    return op is None or (op is not CONST and _domain(op) is not None)


_CALLS = set("map_ map2_ apply_".split())
_LOCAL = {"code.python_", "get_rng_state", "set_rng_state", *[f"Tensor.{n}" for n in _CALLS]}


@functools.lru_cache(4096)
def _signature(fn: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None  # some of Python's own have none


def check_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """GraphError where a node of a file gives a function what it does not take at all."""
    if not may_call(name):
        raise GraphError("which a file may not call")
    fn = function(name)
    if name.startswith("code."):
        known = KEYWORDS.get(name[5:], ())
        if name not in ("code.module_", "code.apply") and not kwargs.keys() <= {*known}:
            other = next(iter(kwargs.keys() - {*known}))
            raise GraphError(f"with {other[:40]!r}, which graphs do not give it")
    elif name.startswith("op."):
        op = REGISTRY[name[3:]]
        if len(args) != len(op.inputs) + len(op.attrs) or kwargs:
            raise GraphError(f"with {len(args)} arguments, expected {op.inputs + op.attrs}")
        return
    elif name.startswith("method."):
        if not args:
            raise GraphError("of no value")
        return
    signature = _signature(fn)
    if signature is not None:
        try:  # names of arguments may be NumPy's
            (signature.bind_partial if kwargs else signature.bind)(*args)
        except TypeError as error:
            raise GraphError(f"with {len(args)} arguments: {error}") from None


def check_values(name: str, args: Any, kwargs: Any) -> None:
    """GraphError where a function is given what might be called: modules are for few."""
    for x in (*args, *kwargs.values()):
        if callable(x) and not isinstance(x, Tensor) and name not in _OF_MODULES:
            raise GraphError(f"a {type(x).__name__} is no argument of {name}")


_OF_MODULES = {
    f"code.{n}" for n in """module_ setattr_ getattr_ python_ value list_ tuple_ dict_ apply
    isinstance_ is_ is_not not_ bool append""".split()
} | {"method.append"}  # fmt: skip


# --- ops


def _applied(op: Op, *args: Any) -> Tensor:
    """The result of an op for operands that fit, which is asked here: `infer` counts on a public
    function to have done so. A number is an operand of elementwise ops alone."""
    n = len(op.inputs)
    inputs, attrs = args[:n], args[n:]
    domain = _domain(op) or _any
    if op.kind != ELEMENTWISE:
        inputs = tuple([tensor_from_node(x) if type(x) is Value else x for x in inputs])
    args = inputs + attrs
    if len(args) != n + len(op.attrs) or not all(isinstance(x, (Tensor, Value)) for x in inputs):
        kinds = ", ".join(type(x).__name__ for x in args)
        raise GraphError(f"{op.name}: expected {', '.join(op.inputs + op.attrs)}, got ({kinds})")
    if not domain(op, *args):
        seen = ", ".join(
            f"{x.dtype.name}{list(x.shape)}" if isinstance(x, (Tensor, Value)) else str(x)[:40]
            for x in args
        )
        raise GraphError(f"{op.name}: these operands and attributes do not fit: {seen}")
    if isinstance(op, Elementwise) and op.of_ints and inputs[-1].dtype.category == dt.INTEGER:
        op.of_ints(op, *[x.attrs[0] if type(x) is Value and x.op is CONST else x for x in inputs])
    if op.name in _PUBLIC:
        return _PUBLIC[op.name](*args)
    return apply(op, inputs, attrs)


def _any(op: Op, *args: Any) -> bool:
    """For an op that no file may name: a graph of this process got it by recording."""
    return True


def _domain(op: Op) -> Callable[..., bool] | None:
    """What says whether operands and attributes fit an op; None for one that is not for files."""
    found = _DOMAINS.get(op.name)
    if found is None and op.kind == REDUCTION:
        return _reduced
    return _alike if found is None and isinstance(op, Elementwise) else found


def _alike(op: Elementwise, *operands: Any) -> bool:
    """Of one dtype, which the op computes in."""
    dtypes = {x.dtype for x in operands[op.promoted_from :]}
    (d,) = dtypes if len(dtypes) == 1 else (dt.bool_,)
    ints = op.of_ints is not None and d.category == dt.INTEGER
    return len(dtypes) == 1 and (d in op.plain or ints)


def _of(*names: str) -> Callable[..., bool]:
    """Of one of these dtypes, which all operands have."""

    def fits(op: Op, *operands: Any) -> bool:
        return len({x.dtype for x in operands}) == 1 and operands[0].dtype.name in names

    return fits


def _shape(op: Op, *args: Any) -> bool:
    """Words, or a number, and a shape."""
    *words, shape = args
    dtype = "int32" if op.name == "iota" else "uint32"
    return are_sizes(shape) and all(not x.shape and x.dtype.name == dtype for x in words)


def are_sizes(x: Any) -> bool:
    """Whether it is a tuple of sizes."""
    return isinstance(x, tuple) and all(
        type(n) is SymbolicSize or (type(n) is int and 0 <= n < 1 << 63) for n in x
    )


def _reduced(op: Op, x: Tensor, axes: Any, keepdim: Any) -> bool:
    """Axes in their order, and elements to choose of."""
    real = x.dtype.category != dt.COMPLEX
    fits = type(axes) is tuple and all(type(d) is int and 0 <= d < x.ndim for d in axes)
    fits = fits and list(axes) == sorted(set(axes)) and type(keepdim) is bool
    if not fits or op.name in ("sum", "prod"):
        return fits and x.dtype is not dt.bool_
    return real and all(x.shape[d] != 0 for d in axes)


def _along(op: Op, x: Tensor, dim: Any) -> bool:
    return type(dim) is int and 0 <= dim < x.ndim and x.dtype.category == dt.FLOAT


_REAL = "uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split()
_COMPLEX = _of("complex64", "complex128")
_DOMAINS: dict[str, Callable[..., bool]] = {
    "where": lambda op, c, a, b: c.dtype is dt.bool_ and a.dtype is b.dtype,
    "cast": lambda op, x, dtype: isinstance(dtype, dt.dtype),
    "iota": _shape, "random_bits": _shape, "uniform_from_bits": _of("uint32"),
    "normal_from_bits": _of("uint32"), "bfloat16_from_bits": _of("uint16"),
    "bits_from_bfloat16": _of("bfloat16"), "sort_key": _of(*_REAL),
    "exponent_of": _of("float16", "bfloat16", "float32", "float64"),
    "complex": _of("float32", "float64"), "polar": _of("float32", "float64"),
    "conj": _COMPLEX, "real": _COMPLEX, "imag": _COMPLEX,
    "matmul": lambda op, a, b: a.ndim >= 2 and b.ndim >= 2,
    "softmax": _along, "log_softmax": _along,
    **dict.fromkeys(("reshape", "permute", "expand"), _any),
}  # fmt: skip
# of views the public functions ask the same
_PUBLIC: dict[str, Callable[..., Tensor]] = {
    "reshape": lambda x, shape: movement.reshape(x, shape),
    "permute": lambda x, dims: movement.permute(x, dims),
    "expand": lambda x, shape: movement.expand(x, shape),
}


# --- modules and their attributes


def _module(f: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(f, Module):
        raise TypeError(f"a graph calls a {type(f).__name__}, which is no module")
    return f(*args, **kwargs)


def _owner(m: Any, name: Any) -> Any:
    """A scripted module, if it has such an attribute of its own, and no method."""
    own = isinstance(m, Module) and hasattr(m, "_graphs") and isinstance(name, str)
    known = own and (name in m._graphs or name in m._parameters or name in m._modules)
    if not own or known or name.startswith("_") or hasattr(type(m), name):
        raise GraphError(f"a graph has an attribute {str(name)[:40]!r} of a {type(m).__name__}")
    return m


def _setattr(m: Any, name: Any, value: Any) -> None:
    if mode.tracer is not None:
        raise GraphError(f"a scripted module changes its {name}, which no graph of another says")
    if isinstance(value, Module):
        raise GraphError(f"a graph makes a module the attribute {str(name)[:40]!r} of another")
    setattr(_owner(m, name), name, value)


def _getattr(m: Any, name: Any) -> Any:
    return getattr(_owner(m, name), name)


def _apply(name: Any, args: Any, **kwargs: Any) -> Any:
    # of a file the name may be any value
    if not isinstance(name, str) or name == "code.apply" or not may_call(name):
        raise GraphError(f"a graph calls {str(name)[:40]!r} with *, which it may not")
    args = tuple(_items(args))
    if name.startswith("code."):
        check_call(name, args, kwargs)
    check_values(name, args, kwargs)
    return function(name)(*args, **kwargs)


def _python(f: Any, *args: Any, **kwargs: Any) -> Any:
    return f(*args, **kwargs)  # of jit.ignore: no file can hold it


# --- Python's own functions, which count what they make


def _counted(n: Any, what: str = "items") -> None:
    if n > MAX_ITEMS:
        raise GraphError(f"a graph makes more than {MAX_ITEMS} {what}")


def _items(x: Any) -> list[Any]:
    """The items of what is iterated over."""
    found = list(itertools.islice(iter(x), MAX_ITEMS + 1))
    _counted(len(found))
    return found


def _bits(n: int) -> None:
    if n > BITS:
        raise GraphError(f"a graph makes an int of more than {BITS} bits")


def _add(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, (str, list, tuple)) and isinstance(b, (str, list, tuple)):
            _counted(len(a) + len(b))
        return fn(a, b)

    return run


def _mul(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        for x, n in ((a, b), (b, a)):
            if isinstance(x, (str, list, tuple)) and isinstance(n, (int, Tensor)):
                _counted(len(x) * int(n))
        if isinstance(a, int) and isinstance(b, int):
            _bits(a.bit_length() + b.bit_length())
        return fn(a, b)

    return run


def _pow(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int) and b > 0:
            _bits(max(a.bit_length(), 1) * b)
        return fn(a, b)

    return run


def _shift(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            _bits(a.bit_length() + b)
        return fn(a, b)

    return run


def _mod(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, str):
            _widths(a)
            _shown(b)
        return fn(a, b)

    return run


def _widths(text: str) -> None:
    """GraphError for a format that pads to more than WIDTH characters, or as a value says."""
    if "*" in text or any(int(n[:9]) > WIDTH for n in re.findall(r"\d+", text)):
        raise GraphError(f"a graph formats by {text[:40]!r}: expected at most {WIDTH} characters")


def _shown(x: Any) -> Any:
    """`x`, if its text is of a size: lists may hold each other, again and again."""
    todo, n = [x], 0
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            n += len(part)
        elif isinstance(part, (list, tuple)):
            todo += part
        elif isinstance(part, dict):
            todo += [*part, *part.values()]
        n += 1
        _counted(n + len(todo), "characters")
    return x


def _str(x: Any = "") -> str:
    return str(_shown(x))


def _format(*parts: Any) -> str:
    for p in parts:
        _shown(p)
    found = [str(p) for p in parts]
    _counted(sum(map(len, found)), "characters")
    return "".join(found)


def _formatted(x: Any, spec: Any = "") -> str:
    _widths(spec)
    return format(_shown(x), spec)


def _print(*args: Any, sep: Any = None, end: Any = None) -> None:
    print(*map(_shown, args), sep=sep, end=end)


def _sum(items: Any, start: Any = 0) -> Any:
    return functools.reduce(_add(operator.add), items, start)


def _round(x: Any, ndigits: Any = None) -> Any:
    if isinstance(ndigits, int) and abs(ndigits) > WIDTH:
        raise GraphError(f"a graph rounds to {ndigits} digits: expected at most {WIDTH}")
    return round(x, ndigits)


def _range(*args: Any) -> range:
    if mode.tracer is not None and any(type(a) is SymbolicSize for a in args):
        raise GraphError("a scripted function loops as often as a size says, which may be another")
    return range(*args)


def _field(x: Any, name: Any) -> Any:
    if not isinstance(x, tuple) or not hasattr(x, "_fields"):
        raise GraphError(f"a graph asks for a field of a {type(x).__name__}")
    return x[x._fields.index(name)]


@functools.lru_cache(1000)
def record_of(name: str, fields: tuple[str, ...]) -> Any:
    """A NamedTuple of the code, of which a file knows the names."""
    for n in (name, *fields):
        if not isinstance(n, str) or not n.isidentifier() or keyword.iskeyword(n):
            raise GraphError(f"a graph has a NamedTuple with the name {str(n)[:40]!r}")
    return namedtuple(name, fields)


def _record(name: Any, fields: Any, *values: Any) -> Any:
    return record_of(name, tuple(fields))(*values)


def _isinstance(x: Any, names: Any) -> bool:
    return isinstance(x, tuple([KINDS[n] for n in names]))


KINDS = {k.__name__: k for k in (Tensor, int, float, bool, str, list, tuple, dict)}
HOOKS: dict[Any, Callable[..., Any]] = {}  # what a recording hears of, by what it calls
_MATH = "sqrt exp log sin cos tan tanh floor ceil pow isnan isinf".split()
# functions of Python that scripts call: as they are, and as they count
PLAIN: dict[Callable[..., Any], Any] = dict.fromkeys(
    (len, int, float, bool, abs, max, min, enumerate, zip, any, all, divmod, range, sum, round,
     list, tuple, dict, sorted, reversed, str, print, repr)
)  # fmt: skip
PLAIN |= {
    range: _range, sum: _sum, round: _round, list: lambda x=(): _items(x),
    tuple: lambda x=(): tuple(_items(x)), str: _str, print: _print, repr: lambda x: repr(_shown(x)),
    sorted: lambda x, *, reverse=False: sorted(_items(x), reverse=reverse),
    max: lambda *xs: max(*xs), min: lambda *xs: min(*xs),
}  # fmt: skip
# those arguments that they take by name
KEYWORDS = {"sorted": ("reverse",), "print": ("sep", "end"), "sum": ("start",), "int": ("base",),
            "enumerate": ("start",), "zip": ("strict",), "round": ("ndigits",)}  # fmt: skip
# what scripted functions do besides calling the public API
CODE: dict[str, Callable[..., Any]] = {
    f"code.{fn.__name__}": ours or fn for fn, ours in PLAIN.items()
}  # fmt: skip
CODE |= {
    f"code.{name}": getattr(operator, name)
    for name in """add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul neg pos
        invert not_ eq ne lt le gt ge is_ is_not getitem setitem delitem contains iadd isub imul
        itruediv ifloordiv imod ipow iand ior ixor ilshift irshift imatmul""".split()
}
for _names, _counts in (("add iadd", _add), ("mul imul", _mul), ("pow ipow", _pow),
                        ("lshift ilshift", _shift), ("mod imod", _mod)):  # fmt: skip
    CODE |= {f"code.{n}": _counts(CODE[f"code.{n}"]) for n in _names.split()}
CODE |= {f"code.math_{name}": getattr(math, name) for name in _MATH}
CODE |= {
    "code.list_": lambda *xs: list(xs), "code.tuple_": lambda *xs: tuple(xs),
    "code.dict_": lambda keys, values: dict(zip(keys, values, strict=True)),
    "code.value": lambda x: x, "code.format": _format, "code.isinstance_": _isinstance,
    "code.module_": _module, "code.field": _field, "code.record": _record, "code.apply": _apply,
    "code.python_": _python,
    "code.formatted": _formatted, "code.setattr_": _setattr, "code.getattr_": _getattr,
}  # fmt: skip
NAMES = {fn: f"code.{fn.__name__}" for fn in (*PLAIN, pow)}
NAMES |= {getattr(math, name): f"code.math_{name}" for name in _MATH}


# --- methods and attributes of values


def _extend(x: list[Any], more: Any) -> None:
    found = _items(more)
    _counted(len(x) + len(found))
    x.extend(found)


def _append(x: list[Any], item: Any) -> None:
    _counted(len(x) + 1)
    x.append(item)


def _insert(x: list[Any], at: Any, item: Any) -> None:
    _counted(len(x) + 1)
    x.insert(at, item)


def _join(x: str, parts: Any) -> str:
    found = _items(parts)
    _counted(sum(len(p) for p in found if isinstance(p, str)) + len(x) * len(found), "characters")
    return x.join(found)


def _replace(x: str, old: str, new: str, count: int = -1) -> str:
    _counted(len(x) + (x.count(old) + 1) * len(new), "characters")
    return x.replace(old, new, count)


def _padded(fn: Callable[..., str]) -> Callable[..., str]:
    def run(x: str, width: Any, *fill: str) -> str:
        if isinstance(width, int):
            _counted(width, "characters")
        return fn(x, width, *fill)

    return run


def _tolist(x: Tensor) -> Any:
    _counted(x.numel())
    return x.tolist()


_OF_TENSORS = set("""size dim numel item tolist is_floating_point is_complex stride is_contiguous
    element_size nelement ndimension backward""".split())  # fmt: skip
_METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    Tensor: {"tolist": _tolist},
    list: {"append": _append, "extend": _extend, "insert": _insert,
           "sort": lambda x, *, reverse=False: x.sort(reverse=reverse)},
    dict: {}, tuple: {}, range: {},
    str: {"join": _join, "replace": _replace,
          **{n: _padded(getattr(str, n)) for n in ("zfill", "ljust", "rjust", "center")}},
}  # fmt: skip
for _kind, _names in {
    list: "pop clear copy index count reverse remove",
    dict: "keys values items get pop popitem copy update setdefault clear",
    str: "split rsplit splitlines partition rpartition upper lower title capitalize swapcase "
    "startswith endswith strip lstrip rstrip removeprefix removesuffix find rfind index rindex "
    "count isdigit isalpha isalnum isspace isupper islower",
    tuple: "index count", range: "index count",
}.items():  # fmt: skip
    _METHODS[_kind] |= {n: getattr(_kind, n) for n in _names.split()}
ATTRIBUTES = set(
    """shape dtype device ndim T mT H mH real imag requires_grad is_cuda is_leaf data grad values
    indices sign logabsdet eigenvalues eigenvectors Q R""".split()
)


def has_method(name: str) -> bool:
    """Whether graphs call such a method of a value."""
    return (
        name in _OF_TENSORS
        or f"Tensor.{name}" in functions()
        or any(name in some for some in _METHODS.values())
    )


def _called(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A method of a value: that of its kind, whatever the value has under this name."""
    kind = next((k for k in _METHODS if isinstance(x, k)), type(x))
    found = _METHODS.get(kind, {}).get(name)
    if kind is Tensor and (name in _OF_TENSORS or f"Tensor.{name}" in functions()):
        check_values(f"Tensor.{name}", args, kwargs)
        found = found or getattr(Tensor, name)  # a recording has hooks on the class
    elif name == "numel" and isinstance(x, pf.Size):
        found = pf.Size.numel
    if found is None:
        raise AttributeError(f"a graph calls {name!r} of a {type(x).__name__}")
    return found(x, *args, **kwargs)


def _attribute(name: str, x: Any) -> Any:
    if isinstance(x, tuple) and name in getattr(x, "_fields", ()):
        return _field(x, name)
    if not isinstance(x, Tensor):
        raise AttributeError(f"a graph asks for {name!r} of a {type(x).__name__}")
    return getattr(x, name)
