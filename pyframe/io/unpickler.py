"""A reader of pickles that can make plain values and what it is given names for, and run nothing.

A pickle is a program for a small machine: it looks up names, calls what it found, and sets items
and attributes. Here names are looked up in a table, only what has an entry in a table is called,
items go into plain containers alone, attributes onto OrderedDicts. What a file makes is no larger
than the file allows: nothing is allocated, copied or hashed by a number that it merely states, and
work that an instruction can ask for again and again is paid from a budget, which the file's size
sets.
https://docs.python.org/3/library/pickletools.html tells the instructions.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, ClassVar

Names = Mapping[tuple[str, str], Any]
Calls = Mapping[int, Callable[..., Any]]  # by the id of what the table of names has

_FACTORIES = (int, float, str, bool, list, dict, set, tuple)  # of a defaultdict; never called here
_DICTS = (dict, OrderedDict, Counter, defaultdict)
_SEQUENCES = (list, tuple, set, frozenset)
_WALKED = {*_DICTS, list, tuple}  # a set's are keys, which are bounded
_KEY = 1000  # parts of a key: nested pairs of one pair take exponential time to hash
_SAME = 64  # keys of one hash: a table finds each of them by looking at all
_PRIME = sys.hash_info.modulus  # smaller ints have hashes of their own, and a text's is secret
_DEPTH = 200  # containers in each other: a walk takes some of the thousand frames for each
_DEFAULTS = 1000  # defaultdicts: freed in each other they take the thread's stack, unlike the rest
_NEVER = ("sys", "os", "posix", "nt")  # modules that nobody can let through, as PyTorch's
_COPIES = 4  # how often a byte of the file may be copied on its way: text, bytes, bytearray
_PLAIN: dict[tuple[str, str], Any] = {
    **{("collections", t.__name__): t for t in (OrderedDict, Counter, defaultdict)},
    **{("builtins", t.__name__): t for t in (*_FACTORIES, frozenset, bytes, bytearray, complex)},
    ("_codecs", "encode"): "_codecs.encode",
}
_PURE: Any = pickle._Unpickler  # the C one lets nobody look on


def refusal(why: str) -> pickle.UnpicklingError:
    """The error of a file that asks for what it may not."""
    return pickle.UnpicklingError(f"load: {why}")


class Unpickler(_PURE):
    """Reads one pickle from a file.

    Args:
        names: what a pickle may name beside plain types.
        calls: what it may call of those.
        trusted: what it may name, call and set attributes of because the program says so.
        storage: called with what a pickle refers to as persistent.
        room: how many bytes the file has.
        refused: the sentence that follows the name of anything else.
    """

    def __init__(
        self, file: IO[bytes], *, names: Names, calls: Calls, trusted: Names,
        storage: Callable[[Any], Any], room: int, encoding: str, refused: str,
    ) -> None:  # fmt: skip
        super().__init__(file, encoding=encoding)
        self._names, self._trusted, self._refused = names, trusted, refused
        self._own = {id(v) for v in trusted.values()}
        self._calls = {**self._makers(), **calls}
        self.persistent_load = storage
        self._room = _COPIES * room
        # Keys by their hash, where a file can choose it.
        self._same: dict[int, dict[Any, None]] = {}
        self._defaults = 0

    def load(self) -> Any:
        """The object. UnpicklingError for objects that weights don't have or that are too large."""
        made = super().load()
        _check_depth(made)
        return made

    # --- names

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle names. UnpicklingError, with the name, for all that is in no table."""
        if module == "__builtin__":
            module = "builtins"
        for table in (self._names, _PLAIN):
            if (module, name) in table:
                return table[module, name]
        if (module, name) in self._trusted and module not in _NEVER:
            return self._trusted[module, name]
        numpy = module == "numpy" or module.startswith("numpy.")
        raise refusal(
            f"the file names {module:.100}.{name:.100}, which is no part of weights: "
            "nothing was run. "
            + ("Of NumPy's values save x.item() and pf.from_numpy(x). " if numpy else "")
            + self._refused
        )

    def _call(self, found: Any, args: Any, new: bool = False) -> Any:
        make = self._calls.get(id(found))
        if make is None and id(found) in self._own:
            make = found
            if new:
                args = (found, *args)
                make = found.__new__
        if make is None or type(args) is not tuple:
            what = getattr(found, "__name__", None) if isinstance(found, type) else None
            raise refusal(
                f"the file calls {what or _kind(found)}, which makes no part of weights: "
                "nothing was run"
            )
        return make(*args)

    # --- what plain types are made of

    def spend(self, n: int) -> None:
        """Pay for `n` elements that are made or looked at. UnpicklingError where that is too much
        for a file of this size."""
        self._room -= n
        if self._room < 0:
            raise refusal("the file copies more than it holds: what it makes was given up")

    def _items(self, x: Any) -> list[Any]:
        if type(x) not in (*_DICTS, *_SEQUENCES):
            raise refusal(f"items of {_kind(x)}: expected a list")
        self.spend(len(x))
        return list(x.items() if type(x) in _DICTS else x)

    def _key(self, key: Any) -> Any:
        """A key of a dict or a set, if it is hashed and found in bounded time."""
        if type(key) in (str, bytes) and len(key) < _KEY:
            return key
        if key is None or (type(key) in (bool, int) and -_PRIME < key < _PRIME):
            return key
        parts, at, size = [key], 0, 0
        while at < len(parts):
            part = parts[at]
            at += 1
            if isinstance(part, (tuple, frozenset)):
                if len(parts) + len(part) > _KEY:
                    raise refusal(f"a key of more than {_KEY} parts")
                parts.extend(part)
            elif type(part) in (str, bytes):
                size += len(part) >> 6
            elif type(part) is int:
                size += part.bit_length() >> 9
        self.spend(len(parts) + size)
        same = self._same.setdefault(hash(key), {})
        same[key] = None
        if len(same) > _SAME:
            raise refusal(f"more than {_SAME} keys of one hash")
        return key

    def _makers(self) -> Calls:
        def of_pairs(kind: Any) -> Callable[..., Any]:
            def make(items: Any = ()) -> Any:
                out = kind()
                for key, value in self._items(items):
                    out[self._key(key)] = value
                return out

            return make

        def of_default(factory: Any = None, items: Any = ()) -> Any:
            if factory is not None and not any(factory is kind for kind in _FACTORIES):
                raise refusal(f"a defaultdict that makes {_kind(factory)}")
            self._defaults += 1
            if self._defaults > _DEFAULTS:
                raise refusal(f"more than {_DEFAULTS} defaultdicts")
            return of_pairs(lambda: defaultdict(factory))(items)

        def of_keys(kind: Any) -> Callable[..., Any]:
            return lambda items=(): kind([self._key(x) for x in self._items(items)])

        def encode(text: Any = "", encoding: Any = "latin1") -> bytes:
            if type(text) is not str or type(encoding) is not str or encoding != "latin1":
                raise refusal(f"bytes of {_kind(text)} in {shown(encoding)}")
            self.spend(len(text))
            return text.encode("latin1")

        def of_bytes(data: Any = b"", encoding: Any = "latin1") -> bytearray:
            if type(data) is not bytes:
                data = encode(data, encoding)
            self.spend(len(data))
            return bytearray(data)

        def of_parts(*parts: Any) -> complex:
            if not all(type(x) in (int, float) for x in parts):
                raise refusal("a complex number of what are no numbers")
            return complex(*parts)

        return {
            id(OrderedDict): of_pairs(OrderedDict), id(Counter): of_pairs(Counter),
            id(defaultdict): of_default, id(set): of_keys(set), id(frozenset): of_keys(frozenset),
            id(bytearray): of_bytes, id(complex): of_parts,
            id(bytes): lambda: b"",  # which the second protocol writes as a call
            id(_PLAIN["_codecs", "encode"]): encode,
        }  # fmt: skip

    # --- instructions

    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(_PURE.dispatch)

    def load_reduce(self) -> None:
        args, found = self.stack.pop(), self.stack.pop()
        self.append(self._call(found, args))

    def load_newobj(self) -> None:
        args, found = self.stack.pop(), self.stack.pop()
        self.append(self._call(found, args, new=True))

    def load_newobj_ex(self) -> None:
        options = self.stack.pop()
        if type(options) is not dict or options:
            raise refusal("an object that is made with options")
        self.load_newobj()

    def load_inst(self) -> None:
        module = self.readline()[:-1].decode("ascii")
        name = self.readline()[:-1].decode("ascii")
        found = self.find_class(module, name)
        args = tuple(self.pop_mark())
        self.append(self._call(found, args))

    def load_obj(self) -> None:
        found, *args = self.pop_mark()
        self.append(self._call(found, tuple(args)))

    def load_ext(self) -> None:
        raise refusal(
            "the file names something by a number that programs agreed on (copyreg), which "
            "is no part of weights: nothing was run"
        )

    def load_buffer(self) -> None:
        raise refusal("the file asks for a buffer that lies outside of it")

    def load_build(self) -> None:
        made, state = self.stack[-2], self.stack[-1]
        if type(made) is OrderedDict and type(state) is dict:
            self.stack.pop()
            self.spend(len(state))
            for name in state:
                check_attribute("a dict", OrderedDict, name)
            vars(made).update(state)
        elif id(type(made)) in self._own or isinstance(made, self._classes()):
            super().load_build()
        else:
            raise refusal(f"the file sets attributes of {_kind(made)}: nothing was set")

    def _classes(self) -> tuple[type, ...]:
        return tuple(v for v in self._trusted.values() if isinstance(v, type))

    def _into(self, kinds: tuple[Any, ...]) -> Any:
        made = self.stack[-1]
        if type(made) not in kinds and id(type(made)) not in self._own:
            raise refusal(f"the file sets items of {_kind(made)}")
        return made

    def load_append(self) -> None:
        value = self.stack.pop()
        self._into((list,)).append(value)

    def load_appends(self) -> None:
        items = self.pop_mark()
        self._into((list,)).extend(items)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._into(_DICTS)[self._key(key)] = value

    def load_setitems(self) -> None:
        items = self.pop_mark()
        made = self._into(_DICTS)
        for i in range(0, len(items), 2):
            made[self._key(items[i])] = items[i + 1]

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({self._key(items[i]): items[i + 1] for i in range(0, len(items), 2)})

    def load_additems(self) -> None:
        items = self.pop_mark()
        self._into((set,)).update([self._key(x) for x in items])

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(frozenset([self._key(x) for x in items]))

    def load_bytearray8(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        data = self.read(size) if size <= self._room else b""
        if len(data) != size:
            raise refusal("bytes that the file does not have")
        self.append(bytearray(data))

    for _code, _load in {
        pickle.REDUCE: load_reduce, pickle.NEWOBJ: load_newobj, pickle.NEWOBJ_EX: load_newobj_ex,
        pickle.INST: load_inst, pickle.OBJ: load_obj, pickle.BUILD: load_build,
        pickle.EXT1: load_ext, pickle.EXT2: load_ext, pickle.EXT4: load_ext,
        pickle.APPEND: load_append, pickle.APPENDS: load_appends, pickle.SETITEM: load_setitem,
        pickle.SETITEMS: load_setitems, pickle.DICT: load_dict, pickle.ADDITEMS: load_additems,
        pickle.FROZENSET: load_frozenset, pickle.BYTEARRAY8: load_bytearray8,
        pickle.NEXT_BUFFER: load_buffer, pickle.READONLY_BUFFER: load_buffer,
    }.items():  # fmt: skip
        dispatch[_code[0]] = _load
    del _code, _load


def check_attribute(what: str, kind: type, name: Any) -> None:
    """UnpicklingError unless a file may set `name` on a `kind`: a plain name that means nothing to
    the type, and none with two underscores, which Python, NumPy and others call by themselves (an
    `__array_interface__` names memory to read and write)."""
    plain = type(name) is str and len(name) < _KEY and name.isidentifier()
    if not plain or name.startswith("__") or hasattr(kind, name):
        raise refusal(f"{what} whose {shown(name)} is replaced")


def _check_depth(root: Any) -> None:
    """UnpicklingError where containers are in each other too deeply, or in themselves: whoever
    walks them would not come to an end."""
    depths: dict[int, int] = {}  # of what was walked
    path, deepest, within = [(root, iter(_parts(root)))], [0], {id(root)}
    while path:
        x, parts = path[-1]
        for part in parts:
            if type(part) not in _WALKED:
                continue
            if id(part) in within:
                raise refusal(f"{_kind(part)} that holds itself")
            if id(part) not in depths:
                path.append((part, iter(_parts(part))))
                deepest.append(0)
                within.add(id(part))
                break
            deepest[-1] = max(deepest[-1], depths[id(part)] + 1)
        else:
            path.pop()
            within.remove(id(x))
            depths[id(x)] = below = deepest.pop()
            if deepest:
                deepest[-1] = max(deepest[-1], below + 1)
        if len(path) > _DEPTH or (deepest and deepest[-1] > _DEPTH):
            raise refusal(f"more than {_DEPTH} containers in each other")


def _parts(x: Any) -> Iterable[Any]:
    if type(x) in _DICTS:
        return iter(x.values())
    return x if type(x) in _WALKED else ()


def shown(x: Any) -> str:
    """A plain value for a message; of anything else, whose text may be endless, its type."""
    if type(x) is int and abs(x) >= 1 << 256:
        return "a large int"
    return f"{x!r:.80}" if type(x) in (str, bytes, int, float, bool) else _kind(x)


def _kind(x: Any) -> str:
    return f"{x.__module__}.{x.__qualname__}" if isinstance(x, type) else f"a {type(x).__name__}"
