"""A program as text, and what it gives with PyTorch or with pyframe. It is run in a page, too: no
import here but NumPy's."""

from __future__ import annotations

import base64
import itertools
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from . import nets

# How data is made: text of an array of a shape S by a generator r
KINDS = {
    "normal": "r.standard_normal(S)",
    "positive": "r.uniform(0.2, 3, S)",
    "unit": "r.uniform(0.02, 0.98, S)",
    "sym": "r.uniform(-0.95, 0.95, S)",
    "ties": "r.integers(-2, 3, S)",
    "distinct": "(r.permutation(int(np.prod(S))).reshape(S) / 7 - 2)",
    "bool": "r.random(S) < 0.6",
}  # and "int:LOW:HIGH"
REAL = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Arg:
    """An argument: an array of a shape, and how it is looked at (`view`, text after a tensor)."""

    name: str
    shape: tuple[int, ...]
    kind: str = "normal"
    dtype: str = "float32"
    grad: bool = True
    view: str = ""

    def data(self) -> str:
        """The text of its array."""
        name, *limits = self.kind.split(":")
        made = f"r.integers({', '.join(limits)}, S)" if name == "int" else KINDS[name]
        stored = "float32" if self.dtype == "bfloat16" else self.dtype
        return f"np.asarray({made}).astype({stored!r})".replace("S)", f"{self.shape})")

    def tensor(self) -> str:
        """The text of its tensor on a device and in the program's own dtype or a wider one."""
        made = f"T.from_numpy({self.data()})"
        made += ".to(T.bfloat16)" if self.dtype == "bfloat16" else ""
        if self.dtype in REAL:
            made = f"wide({made})"
        made = f"{made}.to(device){self.view}"
        return f"{made}.detach().requires_grad_()" if self.grad else made


@dataclass(frozen=True)
class Program:
    """What is done once, what a step does with its arguments, and what is looked at.

    `mode`: "none" has no backward pass; "inside" takes gradients in the step, "outside" after it;
    "backward" calls backward() in the step and gives `.grad`."""

    args: tuple[Arg, ...]
    body: tuple[str, ...]
    results: str = "y"
    setup: tuple[str, ...] = ()
    mode: str = "none"
    calls: int = 3
    seed: int = 0
    before: tuple[str, ...] = ()  # what is done eagerly around a step, of a number `call`
    after: tuple[str, ...] = ()  # and of results `y`

    def step(self) -> str:
        """The text of `make(T, device, dtype)`, which returns the step."""
        names = ", ".join(a.name for a in self.args)
        wanted = ", ".join(a.name for a in self.args if a.grad)
        if any(line.startswith("net = ") for line in self.setup):
            wanted += ", *net.parameters()"
        lines = [f"def step({names}):", *[f"    {line}" for line in self.body]]
        give = f"[{self.results}]"
        if wanted and self.mode in ("inside", "backward"):
            lines.append(f"    loss = {loss(give)}")
            if self.mode == "inside":
                taken = f"T.autograd.grad(loss, [{wanted}], allow_unused=True)"
            else:
                lines.append("    loss.backward()")
                taken = f"[v.grad for v in [{wanted}]]"
            give = f"[{self.results}, *{taken}]"
        lines.append(f"    return {give}")
        if self.before or self.after:
            wrapped = "(steps.__setitem__(0, wrap(step)), drive)[1]"
            lines += [
                "steps, calls = [step], []", f"def drive({names}):",
                "    call = len(calls); calls.append(call)",
                *[f"    {line}" for line in self.before], f"    y = [*steps[0]({names})]",
                *[f"    {line}" for line in self.after], "    return y",
                f"drive.within = lambda wrap: {wrapped}",
            ]  # fmt: skip
        given = "drive" if self.before or self.after else "step"
        parts = ["def make(T, device, wide):", "    F = T.nn.functional"]
        parts += [f"    {line}" for line in (*self.setup, *lines, f"return {given}")]
        return "\n".join(parts)

    def arguments(self) -> str:
        """The text of `arguments(T, r, device, wide)`, which makes those of a call."""
        made = "".join(f"\n        {a.tensor()}," for a in self.args)
        return f"def arguments(T, r, device, wide):\n    return [{made}\n    ]"

    def text(self, device: str = "cpu") -> str:
        """A script of it that shows both results."""
        outside = self.mode == "outside"
        take = [
            "        wanted = [v for v in given if v.requires_grad]",
            f"        loss = {loss('y')}",
            "        y = [*y, *T.autograd.grad(loss, wanted, allow_unused=True)]",
        ]
        lines = ["import numpy as np, pyframe as pf, torch", "", self.arguments(), "", self.step(),
                 "", "for T, device in (torch, 'cpu'), (pf, 'DEVICE'):"]  # fmt: skip
        lines = [line.replace("DEVICE", device) for line in lines]
        if any("fill(" in line for line in self.setup):
            lines[1:1] = ["from fuzz import nets  # with scripts on PYTHONPATH",
                          "from fuzz.program import fill"]  # fmt: skip
        lines += [
            "    step = make(T, device, lambda v: v)",
            "    within = getattr(step, 'within', lambda wrap: wrap(step))",
            "    step = within(pf.compile) if T is pf else step",
            f"    for call in range({self.calls}):",
            f"        r = np.random.default_rng([{self.seed}, call])",
            "        given = arguments(T, r, device, lambda v: v)",
            "        y = step(*given)",
            *(take if outside else []),
            "        print(T.__name__, call, y)",
        ]
        return "\n".join(lines)

    def of(self, real: str) -> Program:
        """The same with one dtype of real numbers."""
        names = rf"T\.({'|'.join(REAL)})\b"
        body = (re.sub(names, f"T.{real}", t) for t in self.body)
        return replace(self, body=tuple(t.replace(".float()", f".to(T.{real})") for t in body))

    def smaller(self) -> Iterator[Program]:
        """Programs with less of it, the greatest steps first."""
        for k in range(len(self.body)):
            if len(self.body) > 1:
                yield replace(self, body=self.body[:k] + self.body[k + 1 :])
        for k in range(len(self.before)):
            yield replace(self, before=self.before[:k] + self.before[k + 1 :])
        for k in range(len(self.after)):
            yield replace(self, after=self.after[:k] + self.after[k + 1 :])
        if self.calls > 1:
            yield replace(self, calls=1)
            yield replace(self, calls=self.calls - 1)
        if self.mode != "none":
            yield replace(self, mode="none")
        if self.mode in ("outside", "backward"):
            yield replace(self, mode="inside")
        results = split(self.results)
        if len(results) > 1:
            for one in results:
                yield replace(self, results=one)
        for k, line in enumerate(self.body):
            for found in re.finditer(r", \w+=(\([^()]*\)|\[[^][]*\]|[^(),]+)", line):
                less = line[: found.start()] + line[found.end() :]
                yield replace(self, body=(*self.body[:k], less, *self.body[k + 1 :]))
        for k, a in enumerate(self.args):
            others: list[Arg] = []
            if a.view and len(self.args):
                others.append(replace(a, view=""))
            if a.grad:
                others.append(replace(a, grad=False))
            for d, n in enumerate(a.shape):
                for size in sorted({1, n // 2, n - 1} - {n}):
                    if 0 < size < n:
                        others.append(replace(a, shape=(*a.shape[:d], size, *a.shape[d + 1 :])))
            for other in others:
                yield replace(self, args=(*self.args[:k], other, *self.args[k + 1 :]))
            if not any(re.search(rf"\b{a.name}\b", t) for t in (*self.body, self.results)):
                yield replace(self, args=(*self.args[:k], *self.args[k + 1 :]))

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def from_data(data: dict[str, Any]) -> Program:
    """The program of `as_data`."""
    args = tuple(Arg(**{**a, "shape": tuple(a["shape"])}) for a in data["args"])
    lines = {name: tuple(data[name]) for name in ("body", "setup", "before", "after")}
    return Program(**{**data, "args": args, **lines})


def split(results: str) -> list[str]:
    """The expressions between the outer commas."""
    parts, depth = [""], 0
    for c in results:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def loss(results: str) -> str:
    """The text of a number whose gradients are asked for: each result meets a weight that depends
    on it."""
    return f"sum((v * v.detach().cos()).sum() for v in {results} if v.requires_grad)"


class Value(NamedTuple):
    """A result: its dtype in words, and its numbers."""

    dtype: str
    array: np.ndarray


class Refused(NamedTuple):
    """What was raised."""

    error: str  # its classes, the nearest first
    text: str


Outcome = list[list[Value | None]] | Refused


def outcome(
    T: Any, program: Program, device: str, wrap: Any, real: str = "", shake: float = 0,
    again: int = 0,
) -> Outcome:  # fmt: skip
    """What the calls of a program give with T; `wrap` makes the step what is called, `real` is the
    dtype of all real numbers if it is not their own, `shake` by what share arguments and
    parameters are off, by the noise `again`."""
    noise = np.random.default_rng(again)

    def convert(v: Any) -> Any:
        return v.to(getattr(T, real)) if real else v

    def moved(v: Any) -> Any:
        if not shake or not v.is_floating_point():
            return v
        near = np.asarray(1 + shake * noise.uniform(-1, 1, tuple(v.shape)))
        return (v.detach() * T.from_numpy(near).to(v.dtype)).requires_grad_(v.requires_grad)

    def filled(*args: Any) -> Any:
        net = fill(*args)
        for p in net.parameters() if shake else ():
            p.data.copy_(moved(p))
        return net

    scope: dict[str, Any] = {"np": np, "fill": filled, "nets": nets}
    found: list[list[Value | None]] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = program.of(real) if real else program
            exec(compile(f"{one.arguments()}\n{one.step()}", "<fuzz>", "exec"), scope)
            T.manual_seed(program.seed)
            step = scope["make"](T, device, convert)
            step = step.within(wrap) if hasattr(step, "within") else wrap(step)
            for call in range(program.calls):
                r = np.random.default_rng([program.seed, call])
                given = [moved(v) for v in scope["arguments"](T, r, device, convert)]
                results = [*flat(step(*given))]
                wanted = [v for v in given if v.requires_grad]
                if program.mode == "outside" and wanted:
                    value: Any = eval(loss("results"), {"results": results})
                    results += T.autograd.grad(value, wanted, allow_unused=True)
                found.append([value_of(T, v) for v in results])
    except Exception as error:  # whatever it is: it is compared
        names = [c.__name__ for c in type(error).__mro__]
        return Refused(" ".join(names), f"{type(error).__name__}: {error}")
    return found


def flat(result: Any) -> Iterator[Any]:
    """The tensors of a result."""
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from flat(part)
    else:
        yield result


def value_of(T: Any, x: Any) -> Value | None:
    """A tensor, or a number, as NumPy has it."""
    if x is None:
        return None
    if not isinstance(x, T.Tensor):
        return Value(type(x).__name__, np.asarray(x))
    dtype = str(x.dtype).rpartition(".")[2]
    if x.is_meta:
        return Value(dtype, np.broadcast_to(np.float32(0), tuple(x.shape)))
    x = x.detach().cpu()
    x = x.to(T.float32) if dtype in ("float16", "bfloat16") else x
    return Value(dtype, np.array(x.resolve_neg().resolve_conj().numpy()))


def fill(T: Any, module: Any, wide: Any, device: str) -> Any:
    """A module whose parameters and buffers are the same numbers with PyTorch and with pyframe."""
    r = np.random.default_rng(0)
    for name, x in module.state_dict().items():
        if str(x.dtype).rpartition(".")[2] in REAL:
            values = r.standard_normal(tuple(x.shape)) / max(np.prod(x.shape[1:]), 1) ** 0.5
            if "var" in name or (x.ndim == 1 and name.endswith("weight")):
                values = 0.5 + np.abs(values)
            x.copy_(T.from_numpy(np.asarray(values).astype("float32")))
    return module.to(wide(T.zeros(1)).dtype).to(device)


def packed(found: Outcome) -> Any:
    """An outcome as JSON."""
    if isinstance(found, Refused):
        return list(found)
    return [
        [v and [v.dtype, v.array.dtype.str, v.array.shape,
                base64.b64encode(np.ascontiguousarray(v.array)).decode()] for v in call]
        for call in found
    ]  # fmt: skip


def unpacked(found: Any) -> Outcome:
    """The outcome of `packed`."""
    if found and isinstance(found[0], str):
        return Refused(*found)
    return [
        [v and Value(v[0], np.frombuffer(base64.b64decode(v[3]), v[1]).reshape(v[2])) for v in call]
        for call in found
    ]


def pairs(*outcomes: Any) -> Iterator[tuple[int, int, Any]]:
    """The call, the position and the values of each result of several outcomes."""
    for call, results in enumerate(zip(*outcomes, strict=True)):
        for n, values in enumerate(itertools.zip_longest(*results)):
            yield call, n, values
