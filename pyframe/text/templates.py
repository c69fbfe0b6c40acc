"""Templates of chats, in Jinja's language: whoever wrote one is given texts, and nothing else of
Python, for so long and of such sizes.

Loops, calls, filters, operators and what is written down are looked at while a template runs: what
a value takes before it is made where it is more than its parts, else when it is there.
"""

from __future__ import annotations

import contextvars
import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, MappingView
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Namespace
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.visitor import NodeTransformer

__all__ = ["render"]

LONGEST = 1 << 18  # characters of a template
LARGEST = 1 << 23  # characters of a value; an item counts as ITEM
ITEM = 64
MAX_NUMBER = 1 << 16  # of a number that says how often or how wide
SECONDS = 10.0
_END = contextvars.ContextVar("end", default=float("inf"))
# of web pages: slow, or larger than what they are given, in ways of their own
_LEFT_OUT = "striptags", "urlize", "wordwrap", "xmlattr"
# filters that make a text of what they are given
_TEXTS = {
    "capitalize", "center", "e", "escape", "forceescape", "format", "indent", "join", "lower",
    "pprint", "replace", "safe", "string", "title", "trim", "truncate", "upper", "urlencode",
    "wordcount",
}  # fmt: skip


class _TooMuchError(Exception):
    """What is more than a template may take."""


def _tick() -> None:
    if time.monotonic() > _END.get():
        raise _TooMuchError(f"it runs for more than {SECONDS:g} seconds")


def _room(size: float) -> None:
    if size > LARGEST:
        raise _TooMuchError(f"it makes more than {LARGEST:,} characters of a value")


def _size(value: Any, written: bool = False) -> int:
    """The characters of a value as a text, about; what it holds twice counts twice. SecurityError
    for what is `written` and is no value: Python's text of it is a place in memory."""
    todo, size = [value], 0
    while todo:
        x, inner = todo.pop(), ()
        if isinstance(x, (str, bytes)):
            size += len(x)
        elif isinstance(x, int):
            size += x.bit_length() // 3
        elif isinstance(x, dict):
            inner = (*x.keys(), *x.values())
        elif isinstance(x, Namespace):
            inner = tuple(object.__getattribute__(x, "_Namespace__attrs").values())
        elif isinstance(x, (list, tuple, set, MappingView)):
            inner = tuple(x)  # type: ignore[arg-type]  # of views, too
        elif written and not isinstance(x, (float, range, jinja2.Undefined, type(None))):
            if callable(x) and not isinstance(x, type):
                raise SecurityError(f"it writes down {_name(x)}, which is to be called")
            if isinstance(x, (_StepBudget, Iterator)):
                raise SecurityError("it writes down what isn't a list yet; add | list")
            raise SecurityError(f"it writes down {_name(x)}, which is no text")
        size += ITEM * len(inner)
        _room(size)
        todo.extend(inner)
    return size


def _name(x: Any) -> str:
    return str(getattr(x, "__name__", None) or getattr(x, "name", None) or type(x).__name__)


def _written(value: Any) -> Any:
    """A value that becomes text."""
    _tick()
    _size(value, True)
    return value


def _bounded(value: Any) -> Any:
    """A value that is not too large."""
    _tick()
    if isinstance(value, Iterator):
        return _StepBudget(value)
    _size(value)
    return value


class _StepBudget:
    """What is walked through, and looked at meanwhile."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        size = 0
        lazy = isinstance(self.values, Iterator)  # else it was looked at when it was made
        for value in self.values:
            _tick()
            if lazy:
                size += _size(value) + ITEM
                _room(size)
            yield value

    def __len__(self) -> int:
        return len(self.values)


def _joined(values: Iterable[Any], between: str = "") -> str:
    """Texts as one."""
    found, size = [], 0
    for value in values:
        _tick()
        size += _size(value, True) + len(between)
        _room(size)
        found.append(str(value))
    return between.join(found)


def _numbers(values: Iterable[Any]) -> None:
    for x in values:
        if isinstance(x, int) and abs(x) > MAX_NUMBER:
            raise _TooMuchError(f"it asks for something {x if abs(x) < 1 << 60 else 'so'} wide")


def _formatted(form: str | bytes, sign: str, given: Iterable[Any]) -> None:
    """See that what stands in a form is not too large: widths, which may be among what is `given`,
    and how often one of these may be there."""
    form, some = str(form), [*given]
    inner = "*" in form if sign == "%" else re.search(r"\{[^{}]*\{", form)
    texts = [form, *(str(x) for x in some if isinstance(x, (str, bytes)) and inner)]
    widths = [d for text in texts for d in re.findall(r"\d+", text)]
    _numbers(int(d[:9]) for d in widths)
    _numbers(some if inner else ())
    each = max([MAX_NUMBER if inner else 0, *(int(d[:9]) for d in widths), *map(_size, some)])
    _room(len(form) + form.count(sign) * each)


def _grows(name: str, text: str | bytes, args: tuple[Any, ...], names: dict[str, Any]) -> None:
    """See that what a method makes of a text is not too large."""
    given = [*args, *names.values()]
    if name in ("format", "format_map"):
        if name == "format_map":
            given = [*given[0].values()] if given and isinstance(given[0], dict) else []
        _formatted(text, "{", given)
    elif name == "replace" and len(args) > 1 and isinstance(args[0], (str, bytes)):
        _room(len(text) + text.count(args[0]) * _size(args[1]))  # type: ignore[arg-type]
    elif name == "translate":
        _room(len(text) * _size(given))
    elif name == "expandtabs":
        _numbers(given)
        _room(len(text) + (text.count("\t") if isinstance(text, str) else len(text)) * sum(
            abs(x) for x in given if isinstance(x, int)))  # fmt: skip
    elif name != "join":
        _numbers(given)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that makes nothing too large."""
    first = int(hasattr(function, "jinja_pass_arg"))

    @functools.wraps(function)
    def run(*args: Any, **names: Any) -> Any:
        _tick()
        value, *more = args[first:]
        given = [*more, *names.values()]
        for x in (value, *given):
            _ = isinstance(x, (_StepBudget, Iterator)) or _size(x, name in _TEXTS)
        if name not in ("default", "d"):
            _numbers(given)
        if isinstance(value, (_StepBudget, Iterator)):
            value = [*_StepBudget(value)]
            _size(value, name in _TEXTS)
        if name == "join":
            between = more[0] if more else names.get("d", "")
            _room(_size(value) + len(value) * _size(between))
        elif name == "format":
            _formatted(str(value), "%", given)
        elif name == "indent":
            wide = more[0] if more else names.get("width", 4)
            lines = str(value).count("\n") + 1
            _room(_size(value) + lines * (wide if isinstance(wide, int) else _size(wide)))
        elif name == "replace":
            old, new = (*more, names.get("old", names.get("s", "")), names.get("new", ""))[:2]
            _room(_size(value) + str(value).count(str(old)) * _size(new))
        elif name == "sum" and any(not isinstance(x, (int, float, str)) for x in given):
            _room(len(value) * _size(value))
        return _bounded(function(*args[:first], value, *more, **names))

    return run


class _Looked(NodeTransformer):
    """Puts what looks at values into a template."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  (Jinja's names)
        """Loops."""
        self.generic_visit(node)
        node.iter = _through(node.iter, "_steps")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """a ~ b."""
        self.generic_visit(node)
        return _through(nodes.Const(""), "_joined", node.nodes)

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        """[a, b]"""
        self.generic_visit(node)
        return _through(node, "_bounded")

    visit_Dict = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """(a, b), unless it is what is set."""
        self.generic_visit(node)
        return _through(node, "_bounded") if node.ctx == "load" else node


def _through(node: nodes.Expr, name: str, more: Iterable[nodes.Expr] = ()) -> nodes.Expr:
    return nodes.Filter(node, name, [*more], [], None, None, lineno=node.lineno or 1)


class _Generation(Extension):
    """{% generation %} marks what a model wrote, for its training: here it is text."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> Any:
        """What stands in it."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _FieldFormatter(SandboxedFormatter):
    """Looks at the values that "{a.b}".format(…) writes down."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """What a field stands for."""
        found = super().get_field(field_name, args, kwargs)
        _written(found[0])
        return found


class _Sandbox(ImmutableSandboxedEnvironment):
    """What templates run in."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))
    concat = staticmethod(_joined)

    def __init__(self) -> None:
        how: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "finalize": _written}
        super().__init__(extensions=[_Generation, loopcontrols], **how)
        known = {name: _guarded(name, fn) for name, fn in FILTERS.items() if name not in _LEFT_OUT}
        own: dict[str, Any] = {
            "tojson": _guarded("tojson", _tojson), "_steps": _StepBudget, "_bounded": _bounded,
            "_joined": lambda first, *texts: _joined(texts),
        }  # fmt: skip
        self.filters: dict[str, Any] = {**known, **own}
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        del self.globals["lipsum"]

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """What stands for a text's `format` or `format_map`."""
        made = super().wrap_str_format(value)
        if made is None:
            return None

        def run(*args: Any, **names: Any) -> str:
            text = made(*args, **names)
            given = ((), args[0]) if value.__name__ == "format_map" else (args, names)
            _FieldFormatter(self).vformat(str(value.__self__), *given)
            return text

        return functools.update_wrapper(run, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        """What is refused raises at once: as in Jinja it would be printed as nothing."""
        raise SecurityError(f"it reads {attribute} of a {type(obj).__name__}")

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Looked().visit(super()._parse(source, name, filename))
        return tree

    def call(__self, __context: Context, __obj: Any, *args: Any, **names: Any) -> Any:  # noqa: N805
        """Call something."""
        _tick()
        bound = getattr(__obj, "__wrapped__", __obj)
        of, name = getattr(bound, "__self__", None), getattr(bound, "__name__", "")
        if isinstance(of, (str, bytes)):
            _grows(name, of, args, names)
            if name == "join" and isinstance(of, str) and len(args) == 1:
                args = ([*_StepBudget(args[0])],)
                _room(_size(args) + len(args[0]) * len(of))
        elif isinstance(of, (int, float)):
            _numbers(args)
        return _bounded(super().call(__context, __obj, *args, **names))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """a + b, a * b, a ** b, a % b."""
        if operator == "*":
            for a, b in ((left, right), (right, left)):
                if isinstance(b, int) and not isinstance(a, (int, float)):
                    _room(_size(a) * abs(b))
            if isinstance(left, int) and isinstance(right, int):
                _room((left.bit_length() + right.bit_length()) * ITEM)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _room(left.bit_length() * abs(right) * ITEM)
        elif operator == "%" and isinstance(left, (str, bytes)):
            _written(right)
            given = right if isinstance(right, tuple) else [right]
            _formatted(left, "%", [*right.values()] if isinstance(right, dict) else given)
        return _bounded(super().call_binop(context, operator, left, right))


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    if indent is not None or separators is not None:
        _room(_size(indent or 0) * ITEM + _size(separators or 0) * ITEM)
        parts = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return _joined(parts.iterencode(x))
    return json.dumps(x, ensure_ascii=ensure_ascii, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    _written(message)
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    _numbers([ITEM * len(form)])
    return datetime.now().strftime(form)


@functools.lru_cache(8)
def _compiled(template: str) -> jinja2.Template:
    if len(template) > LONGEST:
        raise ValueError(f"chat: a template has {LONGEST:,} characters at most, {len(template):,}")
    try:
        return _Sandbox().from_string(template)
    except Exception as error:  # Jinja's own, and Python's about what Jinja makes
        raise ValueError(f"chat: the template is no Jinja: {_short(error)}") from None


def _short(error: Exception) -> str:
    """What an error says, without much of a hostile text."""
    text = re.sub(r" at 0x\w+", "", str(error) or type(error).__name__)
    return text if len(text) < 500 else f"{text[:500]} …"


def render(template: str, given: dict[str, Any]) -> str:
    """What a template makes of what it is given. ValueError for what it refuses, and for one that
    asks for more than texts, or for too much of them."""
    before = _END.set(time.monotonic() + SECONDS)
    try:
        return _compiled(template).render(given)
    except SecurityError as error:
        raise ValueError(f"chat: the template asks for more than texts: {_short(error)}") from None
    except _TooMuchError as error:
        raise ValueError(f"chat: the template takes too much: {error}") from None
    except ValueError as error:
        if str(error).startswith("chat: "):
            raise
        raise ValueError(f"chat: the template refuses: {_short(error)}") from None
    except Exception as error:  # whatever it does wrong
        raise ValueError(f"chat: the template refuses: {_short(error)}") from None
    finally:
        _END.reset(before)
