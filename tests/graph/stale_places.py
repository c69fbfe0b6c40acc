"""Programs that read something outside, which then changes: place × way × change.

PLACES is a table of Python source. A block is a place where values lie: how it is made, the ways to
read it (`?`), how it changes (`!`), and how it may change again and again (`~`, with numbers in the
place of `{i}`), divided by ` | `. A way is an expression, or sets `v`; `@attribute o` and its like
are all the ways of a function below. What stands between `<<` and `>>` are alternatives, and KIND
is each word of the line `KIND:` in turn. A place is *eager* where no replay can be right for it.
"""

from __future__ import annotations

import bisect
import builtins
import contextlib
import decimal
import gc
import itertools
import json
import locale
import logging
import math
import operator
import os
import random
import re
import string
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import pyframe as pf

PRELUDE = """
import abc, array, bisect, builtins, collections, contextlib, contextvars
import ctypes, datetime, decimal, enum, fractions, functools, gc, io, json, locale
import itertools, logging, math, mmap, multiprocessing, operator, os, pathlib, queue, random, re
import secrets, string, sys, tempfile, threading, time, types, typing, uuid, warnings
import weakref
import numpy as np
import pyframe as pf
from pyframe import nn
from pyframe.nn import functional as F


class Plain:
    def __init__(self, **kw):
        self.__dict__.update(kw)


class Other(Plain):
    k = 7.0


def gone(o):
    if hasattr(o, 'k'):
        del o.k


def number(v):
    if isinstance(v, (bool, int, float, np.generic, pf.Tensor)):
        return v
    if isinstance(v, nn.Module):
        return 11.0 + len(list(v.parameters()))
    if " at 0x" in str(v):
        v = type(v).__name__
    return float(sum(map(ord, str(v))) % 97)


pf.manual_seed(0)
random.seed(0)
np.random.seed(0)
"""

PLACES = r"""
== an attribute
KIND: o // p.q // p.r[0]
o = Plain(<<k=1.5 // m=1.5 // >>)
p = Plain(q=o, r=[o])
? @attribute KIND
! KIND.k = 2.0 | KIND.m = 4.0 | KIND.__dict__['k'] = 5.0 | KIND.k = pf.tensor(2.5) | KIND.k = None
! if 'k' in vars(KIND): del KIND.k | object.__setattr__(KIND, 'k', 6.0) | KIND = Other()
! KIND.__class__ = Other | vars(KIND).clear() | Plain.k = 8.0 | KIND.k = 'text'
~ KIND.k = {i}.5 | KIND.k = pf.tensor({i}.5, device=device)
== a user's module
o = sys.modules['user_mod'] = types.ModuleType('user_mod'); vars(o).update(<<k=1.5 // m=1.5 // >>)
? @attribute o | import user_mod\nv = getattr(user_mod, 'k', 0.5) | from user_mod import k\nv = k
! o.k = 2.0 | o.k = pf.tensor(2.0) | vars(o)['k'] = 5.0 | vars(o).pop('k', 0)
! o = types.ModuleType('user_mod'); o.k = 6.0 | o.__getattr__ = lambda n: 7.0
~ o.k = {i}.5
== a class attribute
KIND: o // C
class Base: pass
class Last: k = 6.5
class C(Base):
    <<k // m>> = 1.5
o = C()
? @attribute KIND
! C.k = 2.0 | C.m = 1.0 | if 'k' in vars(C): del C.k | C.k = property(lambda self: 4.0)
! Base.k = 5.0 | C = type('C', (), {'k': 6.0}); o = C() | C.__bases__ = (Last, Base) | o.k = 3.0
! C.__getattr__ = lambda self, n: 7.0 if n == 'k' else object.__getattribute__(self, n)
== an attribute of a metaclass
class Meta(type):
    <<k // m>> = 1.5
class C(metaclass=Meta): pass
? @attribute C
! Meta.k = 2.0 | C.k = 3.0 | if 'k' in vars(Meta): del Meta.k | Meta.k = property(lambda c: 4.0)
! Meta.__getattr__ = lambda c, n: 5.0
== slots
class S: __slots__ = ('k', 'm')
o = S(); o.<<k // m>> = 1.5
? @named o
! o.k = 2.0 | o = S(); o.k = 3.0 | if hasattr(o, 'k'): del o.k
== a property
class P(typing.Generic[typing.TypeVar('T')]):
    @property
    def k(self): return self._k
    @k.setter
    def k(self, v): self._k = v
o = P(); o._k = 1.5
? @attribute o
! o.k = 2.0 | o._k = 3.0 | del o._k | P.k = 4.0 | P.k = property(lambda s: 5.0)
== a descriptor
class D:
    v = 1.5
    def __get__(self, o, kind=None): return self.v
class P: k = D()
o = P()
? @attribute o
! P.__dict__['k'].v = 2.0 | D.v = 3.0 | o.k = 4.0 | P.k = D() | D.__set__ = lambda *a: None
! D.__get__ = lambda *a: 5.0
== what __getattr__ gives
class G:
    def __init__(self): self.d = {'k': 1.5}
    def __getattr__(self, n):
        try:
            return self.__dict__['d'][n]
        except KeyError:
            raise AttributeError(n) from None
o = G()
? @attribute o
! o.d['k'] = 2.0 | o.d.pop('k') | o.k = 3.0 | G.k = 4.0 | G.__getattr__ = lambda s, n: 5.0
! del G.__getattr__
== what __getattribute__ gives
class G:
    def __init__(self): self.n = 1.5
    def __getattribute__(self, n):
        return object.__getattribute__(self, 'n' if n == 'k' else n)
o = G()
? @attribute o
! o.n = 2.0 | G.__getattribute__ = object.__getattribute__ | del o.n
== special methods
class M: n = 1.5
o = M()
? 2.0 if o else 3.0 | o == 1 | 1.0 if o == o else 2.0
? try:\n    v = len(o)\nexcept TypeError:\n    v = 0.5
? try:\n    v = o + 1\nexcept TypeError:\n    v = 0.5
? try:\n    v = 1 in o\nexcept TypeError:\n    v = 0.5
? try:\n    v = o()\nexcept TypeError:\n    v = 0.5
? try:\n    v = o[0]\nexcept TypeError:\n    v = 0.5
? try:\n    v = sum(o)\nexcept TypeError:\n    v = 0.5
? try:\n    v = float(o)\nexcept TypeError:\n    v = 0.5 | callable(o)
? try:\n    with o:\n        v = 2.0\nexcept (TypeError, AttributeError):\n    v = 0.5
? 2.0 if hash(o) == 5 else 3.0 | 2.0 if f'{o}' == 'me' else 3.0
! M.__bool__ = lambda s: False | M.__len__ = lambda s: 0 | M.__eq__ = lambda s, o: False
! M.__add__ = lambda s, o: 4.0 | M.__contains__ = lambda s, i: True | M.__call__ = lambda s: 5.0
! M.__getitem__ = lambda s, i: [6.0][i] | M.__iter__ = lambda s: iter([7.0])
! M.__float__ = lambda s: 8.0 | M.__hash__ = lambda s: 5 | M.__str__ = lambda s: 'me'
! M.__enter__ = lambda s: s; M.__exit__ = lambda s, *a: None
== an instance of a class
class A: pass
class B(A): pass
class V(abc.ABC): pass
o = A()
? isinstance(o, B) | type(o) is A | issubclass(type(o), B) | isinstance(o, V) | type(o).__name__
? type(o).__bases__ | len(type(o).__mro__)
? match o:\n    case B():\n        v = 2.0\n    case _:\n        v = 3.0
? o.__class__.__name__ | len(A.__subclasses__())
! o.__class__ = B | V.register(A) | o = B() | class A2: pass\nA2.__name__ = 'A2'\no = A2()
! A.__name__ = 'Renamed'
! class Z: pass\nA.__bases__ = (Z,) if A.__bases__ != (object,) else A.__bases__
! B.__bases__ = (V,); o = B()
== an enum
class E(enum.Enum):
    A = 1.5
    B = 2.5
class I(enum.IntEnum): A = 1
o = E.A
? o.value | E.A.value | E['A'].value | o.name | o is E.A | len(E) | E(1.5).value
? getattr(E, 'A').value | I.A.value | o == E.A | [e.value for e in E][0]
? match o:\n    case E.A:\n        v = 2.0\n    case _:\n        v = 3.0
! E.A._value_ = 4.0 | o = E.B | E.A._name_ = 'Z' | I.A._value_ = 5
! E = enum.Enum('E', {'A': 1.5, 'C': 3.5, 'B': 2.5})
== a named tuple
N = collections.namedtuple('N', 'k m'); o = N(1.5, 2.0)
? @items o | @named o | o._asdict()['k']
! o = N(2.0, 2.0) | o = o._replace(m=4.0) | o = N(1.5, 2) | N.k = property(lambda s: 3.0)
== a member of a module
KIND: o.register_buffer('k', pf.tensor(1.5)) // o.k = nn.Parameter(pf.tensor(1.5))
KIND: o.k = nn.Linear(2, 2) // o.k = 1.5 // pass // o.register_buffer('k', None)
class Net(nn.Module): pass
o = Net()
KIND
? @attribute o | 'k' in o._buffers | 'k' in o._parameters | 'k' in o._modules
? o._buffers.get('k', 0.5) | len(o._modules) | len(list(o.parameters())) | len(list(o.buffers()))
? len(list(o.children())) | 'k' in dict(o.named_buffers()) | 'k' in dict(o.named_parameters())
? len(list(o.modules())) | sum(p.sum() for p in o.parameters()) | len(o.state_dict())
? 'k' in dict(o.named_modules())
? try:\n    v = o.get_buffer('k')\nexcept AttributeError:\n    v = 0.5
? try:\n    v = o.get_parameter('k')\nexcept AttributeError:\n    v = 0.5
! gone(o); o.register_buffer('k', pf.tensor(2.0))
! gone(o); o.register_parameter('k', nn.Parameter(pf.tensor(3.0)))
! gone(o); o.k = nn.Parameter(pf.tensor(4.0))
! gone(o); o.k = nn.Linear(2, 3)
! gone(o); o.add_module('k', nn.ReLU())
! gone(o); o.k = 5.0 | gone(o) | o.m = 1.0
! o.register_buffer('z', pf.tensor(9.0)) | o.z = nn.Parameter(pf.tensor(9.0)) | Net.k = 7.0
! o.__class__ = type('Net2', (Net,), {'k': 8.0})
! gone(o); o._buffers['k'] = pf.tensor(6.0) | o.z = nn.ReLU()
! o.k = pf.tensor(2.5) | o.k = nn.Parameter(pf.tensor(3.5)) | o.k = None
! o.register_buffer('z', pf.tensor(9.0), persistent=False)
== a global
k = 1.5
def g(): return k
? @value k | globals().get('k', 0.5) | 'k' in globals() | g()
! k = 2.0 | k = 2 | k = np.float64(3.0) | k = True | k = pf.tensor(2.0) | k = None | k = 'text'
! k = nn.Linear(2, 2)
~ k = {i}.5 | k = pf.tensor({i}.5, device=device)
== a global, missing
? globals().get('k', 0.5) | 'k' in globals() | try:\n    v = k\nexcept NameError:\n    v = 0.5
? len(globals())
! k = 2.0 | builtins.k = 3.0
== a cell
def make():
    k = 1.5
    def get(): return k
    def put(v):
        nonlocal k
        k = v
    return get, put
get, put = make()
? @value get()
! put(2.0) | put(3) | get.__closure__[0].cell_contents = 4.0 | get = lambda: 5.0
~ put({i}.5) | put(pf.tensor({i}.5, device=device))
== a default argument
def g(a=1.5, *, b=2.0): return a * b
d = {'f': g}
? @value g() | d['f']()
! g.__defaults__ = (2.0,) | g.__kwdefaults__ = {'b': 3.0} | g.__kwdefaults__['b'] = 4.0
! g.__code__ = (lambda a=1, *, b=1: a + b).__code__ | g = lambda: 5.0
! d['f'] = lambda: 6.0
== builtins
o = [1.5, 2.5]
? abs(o[0]) | ord('a') | divmod(3.0, 2.0)[0] | int(o[1]) | [*map(abs, o)][0]
! builtins.abs = lambda x: 10.0 | builtins.ord = lambda x: 11.0 | builtins.divmod = lambda *x: x
! int = lambda x: 12
== dict and its like
KIND: dict // collections.OrderedDict // collections.Counter // collections.UserDict // Sub
class Sub(dict): pass
d = KIND(<<k=1.5 // >>)
? @item d
! d['k'] = 2.0 | d['m'] = 4.0 | d.pop('k', None) | d.clear() | d.update(k=3.0)
! v = d.pop('k', 1.0); d['a'] = 1.0; d['k'] = v | d = KIND(k=4.0)
~ d['k'] = {i}.5 | d['k'] = pf.tensor({i}.5, device=device)
== collections.defaultdict
d = collections.defaultdict(lambda: 2.5, k=1.5)
? @item d | d.get('q', 0.5)
! d['k'] = 2.0 | d['m'] = 4.0 | d.pop('k', None) | d.clear() | d.update(k=3.0)
! v = d.pop('k', 1.0); d['a'] = 1.0; d['k'] = v | d.default_factory = lambda: 5.0
== a default of a defaultdict
d = collections.defaultdict(float, q=3.5)
? d['k'] + len(d)
! d['k'] = 2.0 | d.default_factory = lambda: 5.0; d.pop('k', 0)
== collections.ChainMap
a, b = {'k': 1.5}, {'m': 2.0}; d = collections.ChainMap(a, b)
? @item d
! d['k'] = 2.0 | a.pop('k') | b['k'] = 3.0; a.pop('k', 0) | b['z'] = 1.0 | d.maps.reverse()
! d.maps.append({'y': 3.0})
== list and its like
KIND: list // collections.deque // collections.UserList // Subl
class Subl(list): pass
s = KIND(<<[1.5, 2.5] // >>)
? @items s
! s.append(4.0) | if s: s[0] = 2.0 | if s: s.pop() | s.clear() | s.reverse()
! s.extend([5.0, 6.0]) | s.insert(0, 7.0) | s += [1.5] | s = KIND([1.5])
== set
s = {1.5, 2.5}
? @members s
! s.add(4.0) | s.discard(1.5) | s.clear() | s = {3.5} | s |= {7.0}
== a NumPy array
s = np.array([1.5, 2.5])
? s[0] | s.sum() | len(s) | float(s[0]) | pf.tensor(s).sum() | s.tolist()[0] | max(s)
? 2.0 if (s > 2).any() else 3.0 | np.mean(s) | s.shape[0] | str(s) | memoryview(s)[0]
? s.dtype.name | s.flat[0]
! s[0] = 3.0 | s *= 2 | s = np.array([5.0]) | s = s.astype('f4') | s.fill(4.0)
! s.sort(); s[:] = s[::-1]
== a NumPy array of objects (eager)
s = np.array([Plain(k=1.5), 2.5], object)
? s[0].k | s[1]
! s[0].k = 2.0 | s[1] = 3.0 | s[0] = Plain(k=4.0)
== a NumPy scalar
k = np.float32(1.5)
? @value k
! k = np.float32(2.0) | k = np.float64(1.5) | k = 1.5
== array.array
s = array.array('d', [1.5, 2.5])
? @items s
! s[0] = 2.0 | s.append(3.0) | s = array.array('d', [4.0]) | s = array.array('f', [1.5, 2.5])
== bytearray
s = bytearray(b'ab')
? @items s
! s[0] = 99 | s += b'c' | s = b'ab' | s.clear()
== memoryview
b = bytearray(b'abcd'); s = memoryview(b)
? @members s | s[0] | s.tobytes()[0]
! b[0] = 99 | s[1] = 90 | s = memoryview(b'x') | s = s[1:]
== ctypes
k = ctypes.c_double(1.5)
? @value k.value
! k.value = 2.0 | k = ctypes.c_double(3.0) | k = ctypes.c_int(2)
== a ctypes array
s = (ctypes.c_double * 2)(1.5, 2.5)
? s[0] | sum(s) | len(s) | list(s)[1]
! s[0] = 2.0 | s = (ctypes.c_double * 3)()
== a ctypes structure
class T(ctypes.Structure): _fields_ = [('k', ctypes.c_double)]
o = T(1.5)
? o.k | getattr(o, 'k') | bytes(o)[6]
! o.k = 2.0 | o = T(3.0)
== a ctypes pointer (eager)
a = ctypes.c_double(1.5); p = ctypes.pointer(a)
? p.contents.value | p[0]
! a.value = 2.0 | p[0] = 3.0 | p = ctypes.pointer(ctypes.c_double(4.0))
== mmap
s = mmap.mmap(-1, 16); s[0] = 3
? s[0] | s[:2][0] | len(s)
! s[0] = 9 | s.resize(32) if hasattr(s, 'mremap') else None | s = mmap.mmap(-1, 16)
== multiprocessing.Value
k = multiprocessing.Value('d', 1.5)
? k.value | k.get_obj().value | 2.0 if k.value > 2 else 3.0 | with k.get_lock():\n    v = k.value
! k.value = 2.0 | k.get_obj().value = 3.0 | k = multiprocessing.Value('d', 4.0)
== multiprocessing.Event (eager)
e = multiprocessing.Event()
? e.is_set()
! e.set()
== a lock (eager)
e = threading.Lock()
? e.locked()
! e.acquire(blocking=False)
== Decimal and Fraction
k = decimal.Decimal('1.5'); q = fractions.Fraction(3, 2)
? float(k) | float(q) | k > 2 | q > 2 | str(k) | q.numerator
! k = decimal.Decimal('2.5') | q = fractions.Fraction(5, 2)
== a string buffer (eager)
s = io.StringIO('ab'); b = io.BytesIO(b'ab')
? len(s.getvalue()) | s.tell() | len(b.getvalue()) | b.getbuffer()[0]
! s.write('abc') | b.write(b'xyz') | s.seek(1)
== pandas (eager)
import pandas as pd
s = pd.Series([1.5, 2.5])
d = pd.DataFrame({'k': [1.5, 2.5]})
? s[1] | d.at[0, 'k']
! s[1] = 3.0 | d.at[0, 'k'] = 4.0
== an environment variable
os.environ.pop('PF_STALE', None); os.environ['PF_STALE'] = '1'
? os.environ.get('PF_STALE', '5') | os.getenv('PF_STALE', '5') | 'PF_STALE' in os.environ
? os.environ['PF_STALE'] if 'PF_STALE' in os.environ else '9'
! os.environ['PF_STALE'] = '2' | os.environ.pop('PF_STALE')
! os.putenv('PF_STALE', '2'); os.environ['PF_STALE'] = '3'
== a file (eager)
folder = tempfile.TemporaryDirectory(); name = os.path.join(folder.name, 'a')
p = pathlib.Path(name); p.write_text('12')
? os.path.exists(name) | os.path.isfile(name) | os.path.isdir(name)
? os.path.getsize(name) if os.path.lexists(name) else 9 | p.exists() | p.is_file() | p.is_dir()
? len(os.listdir(folder.name)) | len(list(os.scandir(folder.name)))
? len(list(p.parent.iterdir())) | os.access(name, os.R_OK)
? with open(name) as file:\n    v = file.read() | p.read_text() if p.exists() else 9
? try:\n    v = p.stat().st_size\nexcept OSError:\n    v = 0.5
? len(list(os.walk(folder.name))[0][2]) | os.path.islink(name) | os.path.realpath(name)[-1]
? os.path.samefile(name, name) if os.path.exists(name) else 9
! p.write_text('3456') | os.remove(name) | os.remove(name); os.mkdir(name)
! pathlib.Path(name + 'b').touch()
== the clock (eager)
? time.time() * 0 + 1 | time.perf_counter() * 0 | time.monotonic() * 0
? datetime.datetime.now().year | datetime.date.today().year | time.localtime().tm_year
? time.strftime('%Y') | time.ctime()[-1] | len(time.asctime()) | time.process_time() * 0
! pass
== random numbers (eager)
g = np.random.default_rng(0); r = random.Random(0)
? random.random() | np.random.rand() | g.random() | r.random() | random.choice([1.0, 2.0])
? random.shuffle([1, 2]) or 1.0 | np.random.normal() | r.gauss(0, 1)
! random.seed(1) | np.random.seed(2)
== secrets (eager)
import os, uuid, secrets
? len(os.urandom(3)) | uuid.uuid4().int * 0.0 | secrets.token_bytes(2)[0] * 0.0
! pass
== a generator's state that is looked at
random.seed(3)
? random.getstate()[1][0] % 7
! random.seed(4)
== threads
? threading.current_thread().name | threading.get_ident() % 7 | threading.main_thread().name
! threading.current_thread().name = 'Renamed'
== sys
? len(sys.argv) | sys.getrecursionlimit() | sys.maxsize % 7 | sys.platform
? getattr(sys, 'pf_flag', 0.5) | hasattr(sys, 'pf_flag') | len(sys.path)
? 'pf_mod' in sys.modules | sys.dont_write_bytecode | sys.flags.optimize
! sys.argv = [*sys.argv, 'a'] | sys.setrecursionlimit(sys.getrecursionlimit() + 1)
! sys.pf_flag = 2.0 | sys.path.append('zz') | sys.modules['pf_mod'] = math
! sys.dont_write_bytecode = not sys.dont_write_bytecode | sys.platform = 'other'
== the working folder (eager)
? len(os.getcwd()) | len(str(pathlib.Path.cwd())) | len(os.path.abspath('a'))
! os.chdir(tempfile.gettempdir() if os.getcwd() != tempfile.gettempdir() else '/')
== warnings' filters
? len(warnings.filters)
! warnings.simplefilter('ignore', ImportWarning)
== logging levels
log = logging.getLogger('pf.stale'); log.setLevel(logging.INFO)
? log.isEnabledFor(logging.DEBUG) | log.level | log.getEffectiveLevel() | log.disabled
? log.hasHandlers() | logging.getLogger('pf.stale').level
? logging.getLogger('pf.stale.child').isEnabledFor(10) | logging.root.level | len(log.handlers)
! log.setLevel(logging.DEBUG) | logging.disable(logging.CRITICAL) | log.setLevel(0)
! log.setLevel(0); log.parent.setLevel(logging.DEBUG) | log.disabled = True
! log.addHandler(logging.NullHandler())
== a decimal context
k = decimal.Decimal(1)
? float(k / 3) - 0.3 | decimal.getcontext().prec | +decimal.Decimal('1.23456789')
! decimal.getcontext().prec = 3 | decimal.setcontext(decimal.Context(prec=5))
== NumPy's state
? np.geterr()['divide'] | np.get_printoptions()['precision'] | np.getbufsize()
! np.seterr(divide='raise') | np.set_printoptions(precision=3) | np.setbufsize(16384)
== locale (eager)
? locale.localeconv()['decimal_point'] | locale.getlocale()[0] | locale.setlocale(locale.LC_ALL)
! locale.setlocale(locale.LC_ALL, 'C.UTF-8' if locale.setlocale(locale.LC_ALL) == 'C' else 'C')
== garbage collection (eager)
? gc.get_threshold()[0] | gc.get_count()[0] * 0
! gc.set_threshold(*[gc.get_threshold()[0] + 1, 10, 10])
== functools.partial
def g(a, b=1.0): return a * b
p = functools.partial(g, 1.5, b=2.0)
? p() | p(b=3.0) | p.args[0] | p.keywords['b'] | p.func(1.0)
! p.keywords['b'] = 4.0 | p = functools.partial(g, 5.0) | g = lambda a, b: 6.0
! p.__setstate__((p.func, (7.0,), {}, {})) | p.func.__defaults__ = (8.0,)
== functools.singledispatch
@functools.singledispatch
def g(v): return 1.5
class T(str): pass
t = T('a')
class D:
    @functools.singledispatchmethod
    def m(self, v): return 2.5
d = D()
? g(1) | g(t) | g('a') | len(g.registry) | g.dispatch(int)(1) | d.m(1) | d.m(t)
! g.register(int, lambda v: 2.0) | g.register(str, lambda v: 3.0)
! g.register(object, lambda v: 4.0) | g.register(T)(lambda v: 5.0)
! D.m.register(int, lambda s, v: 6.0) | D.__dict__['m'].register(str)(lambda s, v: 7.0)
== functools.cache
n = 1.5
@functools.cache
def g(): return n
? g() | g.cache_info().currsize | g.__wrapped__()
! n = 2.0 | n = 2.0; g.cache_clear() | g.cache_clear()
== bound methods
class A:
    n = 1.5
    def m(self): return self.n
    @staticmethod
    def s(): return 2.5
    @classmethod
    def c(cls): return cls.n
o = A(); b = o.m
? o.m() | b() | o.s() | o.c() | A.c() | A.s() | A.m(o)
! o.n = 2.0 | A.n = 3.0 | A.m = lambda s: 4.0 | o.m = lambda: 5.0
! A.s = staticmethod(lambda: 6.0) | A.c = classmethod(lambda c: 7.0) | b = A().m
== operators as functions
class K: k = 1.5
s = [1.5, 2.5]
a = operator.attrgetter('k'); i = operator.itemgetter(0)
m = operator.methodcaller('count', 1.5)
? a(K) | a(K()) | i(s) | m(s) | operator.attrgetter('k')(K)
! K.k = 2.0 | s[0] = 3.0 | a = operator.attrgetter('__name__') | i = operator.itemgetter(1)
! m = operator.methodcaller('count', 2.5)
== a context variable
v0 = contextvars.ContextVar('v', default=0.5); w0 = contextvars.ContextVar('w')
? v0.get() | w0.get(2.5) | try:\n    v = w0.get()\nexcept LookupError:\n    v = 0.5
! v0.set(2.0) | w0.set(3.0)
== threading.local
o = threading.local(); o.k = 1.5
? @attribute o
! o.k = 2.0 | del o.k | o.z = 1.0
== a weak reference
class W: k = 1.5
a = W(); r = weakref.ref(a)
? r() is None | r().k if r() is not None else 0.5
! a = None; gc.collect() | a.k = 3.0 | W.k = 4.0 | r = weakref.ref(W)
== patched functions
o = np.array([4.0])
? math.sqrt(4.0) | math.pi | operator.add(1.0, 2.0) | np.sqrt(o)[0] | F.relu(pf.tensor(-1.0))
? pf.nn.functional.relu(pf.tensor(-1.0)) | pf.tanh(pf.tensor(1.0)) | nn.ReLU()(pf.tensor(-1.0))
? pf.tensor(-1.0).relu() | os.path.basename('a/b') | bisect.bisect([1, 2], 1.5)
? np.linalg.norm(o) | nn.functional.linear(pf.ones(3), pf.ones(3, 3)).sum()
? from math import sqrt\nv = sqrt(9.0) | import math as m\nv = m.sqrt(9.0)
? getattr(math, 'pf_k', 0.5) | hasattr(pf, 'pf_k') | string.digits | json.dumps('a')
? nn.init.calculate_gain('relu')
! math.sqrt = lambda v: 7.0 | math.pi = 3.0 | operator.add = lambda a, b: 8.0
! np.sqrt = lambda v: [9.0] | F.relu = lambda v, *a, **k: v + 10 | pf.tanh = lambda v: v + 11
! nn.ReLU.forward = lambda s, v: v + 12 | pf.Tensor.relu = lambda v: v + 13
! os.path.basename = lambda v: 'zzz' | bisect.bisect = lambda *a: 14
! np.linalg.norm = lambda v: 15.0 | F.linear = lambda x, w, b=None: x * 16 | math.pf_k = 17.0
! pf.pf_k = 18.0 | string.digits = 'q' | json.dumps = lambda v: 'qq'
! nn.init.calculate_gain = lambda *a: 19.0
== an iterator (eager)
i = iter([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
? next(i)
! next(i, 0)
== a generator (eager)
def g():
    k = 0.0
    while True:
        k += 1
        yield k
i = g()
? next(i) | i.send(None) | for v in i:\n    break
! next(i)
== a simple queue (eager)
q = queue.SimpleQueue(); [q.put(float(k)) for k in range(20)]
? q.get() | q.qsize() | q.empty()
! q.get_nowait()
"""


def attribute(o: str) -> str:
    """The ways to read the attribute `k` of an object, which may not be there."""
    return rf"""{named(o)} | vars({o}).get('k', 0.5) | 'k' in vars({o}) | len(vars({o}))
        | {o}.__dict__.get('k', 0.5) | sum(len(n) for n in vars({o}))"""


def named(o: str) -> str:
    """The same, of an object that may have no dict."""
    return rf"""getattr({o}, 'k', 0.5) | 2.0 if hasattr({o}, 'k') else 3.0
        | try:\n    v = {o}.k\nexcept AttributeError:\n    v = 0.5
        | with contextlib.suppress(AttributeError):\n    v = 0.5\n    v = {o}.k
        | match {o}:\n    case object(k=k):\n        v = k\n    case _:\n        v = 0.5
        | operator.attrgetter('k')({o}) if hasattr({o}, 'k') else 0.5 | 'k' in dir({o})
        | f"{{getattr({o}, 'k', 0.5)}}" | getattr({o}, 'k', None) is None
        | type(getattr({o}, 'k', None)).__name__ | getattr({o}, 'kk'[:1], 0.5)"""


def item(d: str) -> str:
    """The ways to read the item 'k' of a mapping of numbers, which may not be there."""
    return rf"""{d}.get('k', 0.5) | 2.0 if 'k' in {d} else 3.0 | len({d}) | sum({d}.values())
        | try:\n    v = {d}['k']\nexcept KeyError:\n    v = 0.5 | {d} == {{'k': 1.5}}
        | match {d}:\n    case {{'k': k}}:\n        v = k\n    case _:\n        v = 0.5
        | {{**{d}}}.get('k', 0.5) | dict({d}.items()).get('k', 0.5) | next(iter({d}), 'zzz')
        | str({d}) | bool({d}) | list({d}) | max({d}.values(), default=0.5)
        | operator.itemgetter('k')({d}) if 'k' in {d} else 0.5 | sum(len(k) for k in {d})
        | (lambda **o: o.get('k', 0.5))(**{d}) | len({{k + k for k in {d}}})"""


def items(s: str) -> str:
    """The ways to read a sequence of numbers."""
    return rf"""{members(s)} | first, *rest = {s} if {s} else [0.5]\nv = first * 3 + len(rest)
        | match {s}:\n    case [k, *_]:\n        v = k\n    case _:\n        v = 0.5
        | next(reversed({s}), 0.5) | {s}[0] if {s} else 0.5 | {s}[-1] if {s} else 0.5
        | try:\n    v = {s}[1]\nexcept IndexError:\n    v = 0.5 | {s}.count(1.5)
        | pf.tensor([*{s}, 1.0]).sum() | [k * 2 for k in {s}][-1] if {s} else 0.5
        | max({s}, default=0.5, key=lambda k: -k)"""


def members(s: str) -> str:
    """The ways to read a collection of numbers."""
    return rf"""sum({s}) | len({s}) | 2.0 if 1.5 in {s} else 3.0 | max({s}, default=0.5) | bool({s})
        | sorted({s})[-1] if {s} else 0.5 | str({s})
        | v = 1.0\nfor i, k in enumerate({s}):\n    v = v * (i + 1) + k
        | functools.reduce(operator.add, {s}, 1) | sum(itertools.chain({s}, [*{s}][1:]))
        | sum(i * k for i, k in zip({s}, [*{s}][::-1]))"""


def value(e: str) -> str:
    """The ways to read a number."""
    return rf"""{e} | 2.0 if {e} > 1.75 else 3.0 | f'{{{e}}}' | {e} == 1.5 | math.floor({e})
        | int({e}) | -{e} | max({e}, 1.75) | [{e}][0] | pf.full((3,), {e}) | np.float32({e})
        | match {e}:\n    case 1.5:\n        v = 2.0\n    case _:\n        v = 3.0
        | range(9)[int({e})] | str({e})"""


WAYS = {f.__name__: f for f in (attribute, named, item, items, members, value)}


class Row(NamedTuple):
    """A place: how it is made, the ways to read it, the changes of it, and those that go on."""

    setup: str
    reads: list[str]
    changes: list[str]
    always: list[str]
    eager: bool


def rows(block: str) -> Iterator[Row]:
    """A block of the table, with its alternatives."""
    lines = block.splitlines()
    kinds = [k for line in lines if line.startswith("KIND:") for k in line[5:].split(" // ")]
    for kind in kinds or [""]:
        text = "\n".join(x for x in lines[1:] if not x.startswith("KIND:"))
        text = text.replace("KIND", kind.strip())
        parts = re.split(r"<<(.*?)>>", text)
        for chosen in itertools.product(*[p.split(" // ") for p in parts[1::2]]):
            made = "".join(map("".join, itertools.zip_longest(parts[::2], chosen, fillvalue="")))
            body = made.splitlines()
            reads = " | ".join(x[2:] for x in body if x.startswith("? "))
            reads = re.sub(r"@(\w+) ([^ |]+)", lambda m: WAYS[m[1]](m[2]), reads)
            changes = " | ".join(x[2:] for x in body if x.startswith("! "))
            always = " | ".join(x[2:] for x in body if x.startswith("~ "))
            setup = "\n".join(x for x in body if x[:2] not in ("? ", "! ", "~ "))
            found = _entries(reads), _entries(changes), _entries(always)
            yield Row(setup, *found, "(eager)" in lines[0])


def _entries(text: str) -> list[str]:
    return [e.strip().replace(r"\n", "\n") for e in re.split(r"\s\| ", text) if e]


TABLE = {b.splitlines()[0]: [*rows(b)] for b in PLACES.strip().removeprefix("== ").split("\n== ")}


def in_turns(row: Row, seed: int) -> Iterator[tuple[str, list[str]]]:
    """Each way with all changes, one after the other."""
    rng = random.Random(seed)
    for read in row.reads:
        yield read, rng.sample(row.changes, len(row.changes))


def one_by_one(row: Row) -> Iterator[tuple[str, list[str]]]:
    """Each way with each change, twice."""
    for read in row.reads:
        for change in row.changes:
            yield read, [change, change]


def again_and_again(row: Row) -> Iterator[tuple[str, list[str]]]:
    """The first way with another value before each two calls: it is fed to replays."""
    for change in row.always:
        yield f"return x * {row.reads[0]}", [change.replace("{i}", str(i)) for i in range(2, 8)]


def _plain(value: Any) -> Any:
    return np.array(value.numpy(force=True)) if isinstance(value, pf.Tensor) else value


class Ran(NamedTuple):
    """What the calls of a program gave, what it warned of before the first change and in all, and
    whether there were replays until then."""

    seen: list[Any]
    first: list[str]
    warned: list[str]
    replayed: bool


PATCHED = (builtins, math, operator, os.path, sys, string, json, bisect, np, np.linalg, pf,
           pf.nn.functional, pf.nn.init, pf.Tensor, pf.nn.ReLU, pf.nn.Linear)  # fmt: skip


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Put back what programs change beyond their own namespace."""
    before = [dict(vars(m)) for m in PATCHED]
    thread, numpy, root = threading.current_thread(), np.geterr(), logging.root.level
    undo: list[tuple[Any, Any]] = [
        (sys.setrecursionlimit, sys.getrecursionlimit()), (os.chdir, os.getcwd()),
        (np.setbufsize, np.getbufsize()), (logging.root.setLevel, root),
        (logging.disable, logging.NOTSET), (decimal.setcontext, decimal.Context()),
        (sys.path.__setitem__, (slice(None), list(sys.path))),
        (gc.set_threshold, gc.get_threshold()),
        (locale.setlocale, (locale.LC_ALL, locale.setlocale(locale.LC_ALL))),
    ]  # fmt: skip
    name, printing = thread.name, np.get_printoptions()
    try:
        yield
    finally:
        for m, old in zip(PATCHED, before, strict=True):
            for n in [
                n
                for n in vars(m)
                if n not in old and (n == "k" or n[:3] == "pf_" or m is pf.nn.Linear)
            ]:
                delattr(m, n)
            for n, v in old.items():
                if vars(m).get(n) is not v and n != "__dict__":
                    setattr(m, n, v)
        for put, args in undo:
            put(*args) if isinstance(args, tuple) else put(args)
        thread.name = name
        np.seterr(**numpy)
        np.set_printoptions(**printing)
        for n in ("pf_mod", "user_mod"):
            sys.modules.pop(n, None)
        os.environ.pop("PF_STALE", None)
        log = logging.getLogger("pf.stale")
        log.disabled, log.handlers = False, []


def run(row: Row, read: str, changes: list[str], wrap: Any, device: str) -> Ran:
    """Call the function four times, and twice after each change of what it reads."""
    module = sys.modules["user_program"] = types.ModuleType("user_program")
    space, seen = module.__dict__, []
    space["device"] = device
    body = f"return x * number({read})"
    if found := re.search(r"\bv = |for v in|^return ", read):
        body = read if found[0] == "return " else f"{read}\nreturn x * number(v)"
    text = f"{PRELUDE}{row.setup}\n\ndef f(x):\n    " + body.replace("\n", "\n    ")
    x = pf.tensor([1.0, -2.0, 3.0], device=device)
    with _as_before(), warnings.catch_warnings(record=True, action="always") as told:
        exec(compile(text, __file__, "exec"), space)
        f, steady = wrap(space["f"]), (False, 0)
        for change in ("", *changes):
            with contextlib.suppress(Exception):
                exec(change, space)
            for _ in range(2 if change else 4):
                try:
                    seen.append(_plain(f(x)))
                except Exception as e:
                    seen.append(type(e).__name__)
            if not change:
                steady = bool(getattr(f, "replayed", 0)), len(told)
        if "folder" in space:
            space["folder"].cleanup()
    first, texts = ([str(w.message) for w in some if "pf.compile" in str(w.message)]
                    for some in (told[: steady[1]], told))  # fmt: skip
    return Ran(seen, first, texts, steady[0])


def equal(a: Any, b: Any) -> bool:
    """Whether a call gave the same with pf.compile as without."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return type(a) is type(b) and bool(a == b)
    alike = (a.shape, a.dtype) == (b.shape, b.dtype)
    return alike and np.allclose(a, b, rtol=2e-5, equal_nan=True)


def check(row: Row, read: str, changes: list[str], device: str, most: int = 1) -> str:
    """What is wrong with a compiled program, which is replayed as long as nothing changes and may
    warn `most` times, or ''."""
    want = run(row, read, changes, lambda f: f, "cpu").seen
    got = run(row, read, changes, pf.compile, device)
    for i, (a, b) in enumerate(zip(want, got.seen, strict=True)):
        if not equal(a, b):
            change = changes[i // 2 - 2] if i > 3 else "nothing"
            return f"{read!r} after {change!r} gives {b}, without pf.compile {a}\n{row.setup}"
    if len(got.warned) > most:
        return f"{read!r} warns {len(got.warned)} times: {got.warned}\n{row.setup}"
    told = "".join(got.first)
    if row.eager and not re.search(r"\.py:\d+", told):
        return f"{read!r} warns of no line: {told}\n{row.setup}"
    reads = isinstance(want[0], str) or "reads the value of a tensor" in told
    if got.replayed == row.eager and not reads:
        return f"{read!r} is {'replayed' if row.eager else 'not replayed'}: {told}\n{row.setup}"
    return ""
