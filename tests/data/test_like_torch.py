"""The same programs with pyframe.data and with torch.utils.data, side by side."""

from __future__ import annotations

import importlib
import itertools
import pickle
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from beside import programs, run
from refused import calls, check_refused, rows

import pyframe as pf
import pyframe.utils.data
from pyframe.core import processors

Ours = SimpleNamespace(T=pf, data=pyframe.utils.data)  # as a program finds them in PyTorch


@pytest.fixture(scope="session")
def theirs(torch: Any) -> Any:
    return SimpleNamespace(T=torch, data=torch.utils.data)


def plain(value: Any) -> Any:
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, Mapping):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(v) for v in value]
    return value


def items(dataset: Any) -> list[Any]:
    return [dataset[i] for i in range(len(dataset))]


def stream(lib: Any, n: int, declared: int | None = None) -> Any:
    class Stream(lib.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(n))

    class Sized(Stream):
        def __len__(self) -> int:
            assert declared is not None
            return declared

    return Stream() if declared is None else Sized()


def tensors(lib: Any) -> Any:
    return lib.data.TensorDataset(lib.T.arange(6).reshape(3, 2), lib.T.arange(3) + 0.5)


Point = namedtuple("Point", ["x", "y"])


class Box(list):
    """A list with something more."""

    label = "empty"


def boxes() -> list[Any]:
    made = [Box([1, 2.0]), Box([3, 4.0])]
    made[0].label = "first"
    return made


PROGRAMS = programs(r"""
== names
odd = "DFIterDataPipe DataChunk _DatasetKind argument_validation functional_datapipe".split()
odd += ["runtime_validation", "runtime_validation_disabled"]
? sorted({n for n in D.__all__ if "DataPipe" not in n and "determin" not in n} - {*odd})
== stacks
for data in (
    D.StackDataset(range(3), tensors(), [7, 8, 9]), D.StackDataset(a=tensors(), b=tensors()),
    D.StackDataset(a=range(3), b=D.Subset(range(9), [4, 0, 8])),
    D.StackDataset(tensors(), tensors()),
):
    ? len(data), items(data), list(D.DataLoader(data, 2)), data[-1]
    ? data.__getitems__([2, 0])
== sums
data = tensors() + tensors() + D.Subset(tensors(), [2, 0])
assert len([*data]) == 8, "iteration ends by itself"
? type(data).__name__, len(data), items(data), data.cumulative_sizes, data[-1], data[-8]
== chains
data = stream(3, 3) + stream(4, 4)
? type(data).__name__, len(data), list(data), list(D.DataLoader(data, 2))
== streams
for n in (0, 4, 5):
    for size in (1, 2, 9):
        ? [list(D.DataLoader(stream(n), size, drop_last=drop)) for drop in (False, True)]
? list(D.DataLoader(stream(3), None))
? [len(D.DataLoader(stream(5, 5), 2, drop_last=drop)) for drop in (False, True)]
== loaders
data = tensors()
for x in (
    D.DataLoader(data, 2), D.DataLoader(data, 2, sampler=[2, 0, 1], drop_last=True),
    D.DataLoader(data, batch_sampler=[[1], [0, 2]], pin_memory_device=""),
    *[D.DataLoader(data, n, drop_last=d) for n in (1, 3, 20) for d in (False, True)],
    D.DataLoader([np.arange(2), np.arange(3)], batch_size=None, num_workers=0),
    D.DataLoader(data, None, sampler=D.SequentialSampler(data)),
    D.DataLoader({"a": 1, "b": 2}, 2, sampler=["b", "a"]),
    D.DataLoader(data, batch_size=None, sampler=[[0, 2], [1]]),
):
    ? list(x), len(iter(x)), type(x.sampler).__name__, x.batch_size, x.prefetch_factor
    ? x.multiprocessing_context, x.num_workers
== distributed
for n in (1, 5, 6, 11):
    for replicas, drop in itertools.product((1, 2, 3, 4), (False, True)):
        for rank in range(replicas):
            x = D.DistributedSampler(range(n), replicas, rank, shuffle=False, drop_last=drop)
            ? list(x), len(x), x.num_samples, x.total_size
== a random sampler of some
for seed in range(3):
    generator = T.Generator()
    x = D.SubsetRandomSampler([3, 1, 4, 15, 9], generator)
    first, second = (list(x) for _ in [generator.manual_seed(seed), 0])
    generator.manual_seed(seed)
    ? list(x) == first, sorted(first), sorted(second), len(x)
== containers
first = defaultdict(list, a=1)
samples = [
    [first, {"a": 2}], [OrderedDict(b=1, a=2.0), OrderedDict(b=3, a=4.0)],
    [MappingProxyType({"a": 1})] * 2, [UserDict(a=1), UserDict(a=2)], boxes(), [(), ()],
    [[[1, (2, "x")], {"k": True}]] * 2, [np.float64(1.5), np.float64(2)],
    [np.str_("a"), np.str_("b")], [0, 1, 2], [True, False], [1.5, 2.0], ["a", "b"], [b"a", b"b"],
    [np.float32(1), np.float32(2)], [np.int16(3)], [np.bool_(True), np.bool_(False)],
    [np.arange(3), np.arange(3)], [np.array(1.0), np.array(2.0)], [(0, 1.0), (2, 3.0)],
    [{"a": 0, "b": "x"}, {"a": 1, "b": "y"}], [Point(0, 1.0), Point(2, 3.0)],
    [{"a": [np.arange(2), (1, 2)]}, {"a": [np.arange(2), (3, 4)]}], [range(2), range(2)],
    [[np.arange(2), (np.int64(1), "a")]] * 2, [Point(np.arange(2), 3)],
]
found = [D.default_collate(x) for x in samples]
? found, [D.default_convert(x[0]) for x in [*samples, [np.array(["text"])]]]
? found[4].label, type(found[0]).__name__, first
== own types
module = importlib.import_module(f"{T.__name__}.utils.data.dataloader")
? module.default_collate is D.default_collate
functions, collate = C.default_collate_fn_map, C.collate
class Word(str):
    pass
def words(batch, *, collate_fn_map=None):
    return [str(w) for w in batch], collate([len(w) for w in batch], collate_fn_map=collate_fn_map)
functions[Word], before = words, functions[T.Tensor]
functions[T.Tensor] = lambda batch, *, collate_fn_map=None: len(batch)
try:
    data = [(Word("one"), 1), (Word("three"), 2)]
    ? list(D.DataLoader(data, 2)), list(D.DataLoader(tensors(), 2))
finally:
    del functions[Word]
    functions[T.Tensor] = before
? collate([(1, 2)], collate_fn_map={int: lambda b, collate_fn_map: b})
""")


def names_of(lib: Any) -> dict[str, Any]:
    """What programs and calls speak of."""
    collate = pyframe.utils.data.collate if lib is Ours else lib.data._utils.collate
    kinds = {"defaultdict": defaultdict, "OrderedDict": OrderedDict, "UserDict": UserDict}
    return {
        **globals(), **vars(lib.data), **kinds, "T": lib.T, "t": lib.T, "D": lib.data, "C": collate,
        "tensors": lambda: tensors(lib), "stream": lambda *sizes: stream(lib, *sizes),
        "MappingProxyType": MappingProxyType, "itertools": itertools, "pickle": pickle,
    }  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name: str, theirs: Any) -> None:
    ours, want = (run(PROGRAMS[name], names_of(lib), plain) for lib in (Ours, theirs))
    assert ours == want


ERRORS = r"""
random_split(range(4), [1, 2]) -> \[1, 2\] add up to 3, expected 4
RandomSampler([]) -> got num_samples=0; the data set is empty
DataLoader(range(3), 0) -> positive integer value, but got batch_size=0
default_collate([np.zeros(2), np.zeros(3)]) -> equal size, got \[2\] in sample 0 and \[3\]
default_collate([[1], [1, 2]]) -> equal size, got 1 in sample 0 and 2 in sample 1
default_collate([{"a": 1}, {"b": 1}]) -> 'a'
TensorDataset(t.zeros(4, 2), t.zeros(3)) -> same first size, got \[4, 2\], \[3\]
TensorDataset(np.zeros(3)) -> expected tensors, got \['ndarray'\].*pf.from_numpy
TensorDataset() -> TypeError: got none
iter(DataLoader(range(3), num_workers=1, prefetch_factor=0)) ->
    AssertionError: prefetch_factor=0, but workers need at least 1
type("Empty", (Dataset,), {})()[0] -> Empty needs a __getitem__
iter(type("Nothing", (Sampler,), {})()) -> Nothing needs an __iter__
ConcatDataset([range(3), range(4)])[7] -> index 7 is out of range for 7 samples
ConcatDataset([range(3), range(4)])[-8] -> index -8 is out of range for 7 samples
ConcatDataset([]) -> should not be an empty iterable
random_split(range(10), [1.0, -0.5, 0.5]) -> Fraction at index 1 is not between 0 and 1: -0.5
RandomSampler(range(3), num_samples=-1) -> got num_samples=-1$
BatchSampler(range(3), 0, False) -> positive integer value, but got batch_size=0
BatchSampler(range(3), True, False) -> positive integer value, but got batch_size=True
BatchSampler(range(3), 1, 1) -> boolean value, but got drop_last=1
DataLoader(range(3), sampler=[0], shuffle=True) -> mutually exclusive with shuffle
DataLoader(range(3), batch_sampler=[[0]], batch_size=2) -> mutually exclusive with batch_size
DataLoader(range(3), batch_sampler=[[0]], drop_last=True) -> mutually exclusive with batch_size
DataLoader(range(3), batch_size=None, drop_last=True) -> exclusive with drop_last
default_collate([object()]) -> found <class 'object'> at batch; pass DataLoader a collate_fn
default_collate([np.array(["a"])]) -> found an array of <U1
default_collate([{"image": np.zeros((2, n))} for n in (3, 4)]) ->
    got \[2, 3\] in sample 0 and \[2, 4\] in sample 1 at batch\['image'\];
default_collate([(1, t.zeros(n)) for n in (2, 2, 1)]) -> \[1\] in sample 2 at batch\[1\];
default_collate([{"a": [(0, [1])]}, {"a": [(0, [1, 2])]}]) ->
    lists .* got 1 in sample 0 and 2 in sample 1 at batch\['a'\]\[0\]\[1\];
default_collate([{"a": 1, "b": (0, None)}]) -> found <class 'NoneType'> at batch\['b'\]\[1\];
"""
REFUSED = """
StackDataset(range(2), range(3)) | StackDataset(a=range(2), b=range(3))
StackDataset(range(2), b=range(2)) | StackDataset() | ConcatDataset([stream(2)])
list(ChainDataset([range(2)])) | DataLoader([], shuffle=True)
RandomSampler(range(3), replacement=1) | RandomSampler(range(3), num_samples=2.5)
WeightedRandomSampler([[1.0]], 1) | WeightedRandomSampler([1.0], 0)
WeightedRandomSampler([1.0], 1, 1) | list(WeightedRandomSampler([1.0, -1.0], 1))
list(WeightedRandomSampler([1.0, float("nan")], 1)) | list(WeightedRandomSampler([0.0, 0.0], 1))
list(WeightedRandomSampler([1.0], 2, False)) | DistributedSampler(range(3), 2, 2)
DataLoader(range(3), num_workers=-1) | DataLoader(range(3), num_workers="2")
DataLoader(range(3), num_workers=None) | DataLoader(range(3), timeout="2")
DataLoader(range(3), timeout=-1) | iter(DataLoader(range(3), timeout=1))
DataLoader(range(3), prefetch_factor=2) | DataLoader(range(3), num_workers=1, prefetch_factor=-1)
DataLoader(range(3), persistent_workers=True) | DataLoader(range(3), multiprocessing_context="fork")
DataLoader(range(3), num_workers=1, multiprocessing_context="knife")
DataLoader(range(3), num_workers=1, multiprocessing_context=3) | DataLoader(stream(3), shuffle=True)
DataLoader(stream(3), sampler=[1]) | DataLoader(stream(3), batch_sampler=[[1]])
len(DataLoader(stream(3))) | DataLoader(range(3), *[None] * 12, 2)
setattr(DataLoader(range(3)), "batch_size", 2) | setattr(DataLoader(range(3)), "dataset", [])
list(DataLoader(tensors(), sampler=[0, 3])) | list(DataLoader([1, 2], batch_sampler=[[0, 2]]))
default_collate([None]) | pickle.dumps(iter(DataLoader(range(3))))
"""  # without a text


@pytest.mark.parametrize(("call", "text"), [*rows(ERRORS), *((c, "") for c in calls(REFUSED))])
def test_errors_as_torch(call: str, text: str, torch: Any, theirs: Any) -> None:
    check_refused(call, text, lambda t: names_of(theirs if t is torch else Ours), torch)


def test_sampler_beyond_its_data() -> None:
    loader = pf.data.DataLoader(tensors(Ours), 2, sampler=pf.data.RandomSampler(range(9)))
    with pytest.raises(IndexError, match=r"RandomSampler gave index \d, .* 3 samples of TensorDat"):
        list(loader)
    with pytest.raises(IndexError, match="list gave index -3, .* 2 samples of list"):
        list(pf.data.DataLoader([0, 1], None, sampler=[np.int64(-3)]))

    class Own(pf.data.Dataset[int]):
        def __getitem__(self, index: int) -> int:
            raise IndexError("of its own")

        def __len__(self) -> int:
            return 3

    with pytest.raises(IndexError, match="^of its own$"):
        list(pf.data.DataLoader(Own(), 2))


def test_a_stream_longer_than_declared() -> None:
    loader = pf.data.DataLoader(stream(Ours, 3, 2))
    assert len(list(loader)) == 3, "nobody asked for its length"
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="Sized was reported to be 2 .* but 3 samples"):
        list(loader)


def test_more_workers_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "processors", lambda: 3)
    pf.data.DataLoader(range(3), num_workers=3)
    with pytest.warns(UserWarning, match="will create 4 worker processes in total.* system is 3"):
        pf.data.DataLoader(range(3), num_workers=4)


def test_weighted_random_sampler() -> None:
    def draws(weights: list[float], k: int, *replacement: bool) -> list[int]:
        generator = pf.Generator().manual_seed(1)
        sampler = pf.data.WeightedRandomSampler(weights, k, *replacement, generator=generator)
        assert len(sampler) == k
        return list(sampler)

    weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0]
    counts = np.bincount(draws(weights, 8000), minlength=6)
    assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
    expected = np.array([1000, 3000, 4000])
    # chi-squared with 2 degrees of freedom: above 13.8 one seed in a thousand
    assert ((counts[[1, 2, 4]] - expected) ** 2 / expected).sum() < 13.8
    assert sorted(draws(weights, 3, False)) == [1, 2, 4]
    assert draws(weights, 2, False) == draws(weights, 2, False)
    sampler = pf.data.WeightedRandomSampler([1.0, 3.0], 2, replacement=False)
    firsts = [next(iter(sampler)) for _ in range(400)]
    assert 250 < sum(firsts) < 350, "the first is drawn as its weight says: 300 of 400"


def test_distributed_sampler_shuffles() -> None:
    def epoch(number: int, **options: Any) -> list[list[int]]:
        samplers = [pf.data.DistributedSampler(range(20), 4, r, **options) for r in range(4)]
        for sampler in samplers:
            sampler.set_epoch(number)
        return [list(s) for s in samplers]

    assert sorted(i for part in epoch(0) for i in part) == list(range(20))
    assert epoch(0) == epoch(0) != epoch(1) == epoch(0, seed=1)
    alone = pf.data.DistributedSampler(range(5), shuffle=False)
    assert (alone.num_replicas, alone.rank, list(alone)) == (1, 0, [0, 1, 2, 3, 4])


def test_the_modules_have_pytorchs_paths() -> None:
    assert pf.utils.data.__all__ == pf.data.__all__
    for module, name in (("dataset", "Dataset"), ("sampler", "Sampler")):
        found = importlib.import_module(f"pyframe.utils.data.{module}")
        assert getattr(found, name) is getattr(pf.data, name)
