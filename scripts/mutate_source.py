#!/usr/bin/env python3
"""Breaks pyframe's code at places that chance draws, and says which tests notice:

    git worktree add build/mutants && cd build/mutants
    python scripts/mutate_source.py plant --mutants 400 --seed 0  # rewrites pyframe/ in place
    python -m pytest -n 2 --dist loadgroup -p scripts.mutate_source # which tests reach which
    python scripts/mutate_source.py try                           # the score, and who noticed

All mutants are planted at once, each behind a switch: `a < b` becomes
`(a <= b if _mutant(17) else a < b)`, and one is on at a time (mutant schemata: Untch, Offutt and
Harrold, "Mutation Analysis Using Mutant Schemata", 1993). A first run without any notes which
tests reach which switch, and how long each takes. `try` then forks a process for each mutant, which
runs the tests that reach it until one fails. After tests were changed, `try` again: a mutant whose
test is still there is not tried twice. Plant in a second checkout: it rewrites the sources.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "mutation"
MUTANTS, HITS, SCORE = (FOLDER / name for name in ("mutants.json", "hits", "score.json"))
SWITCH = '''"""Which mutant is on; made by scripts/mutate_source.py."""
import atexit
import os

ON = int(os.environ.get("PYFRAME_MUTANT", "-1"))
HITS = set()


def mutant(i):
    HITS.add(i)
    return i == ON


def _tell(test=os.environ.get("PYTEST_CURRENT_TEST", ""), parent=os.getpid()):
    if HITS and os.getpid() == parent:
        with open(os.environ["PYFRAME_HITS"], "a") as file:
            file.write(repr((test.rpartition(" ")[0], 0.0, sorted(HITS))) + "\\n")


if "PYFRAME_HITS" in os.environ and "PYTEST_CURRENT_TEST" in os.environ:
    atexit.register(_tell)  # a process that a test started
'''
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Add, ast.Mod: ast.Add, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


# --- planting


def mutated(node: ast.expr) -> ast.expr | None:
    """The expression made wrong; None if no rule fits."""
    new: Any = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[one]) if type(one) in SWAPS:
            new.ops = [SWAPS[type(one)]()]
        case ast.BinOp(op=one) | ast.BoolOp(op=one) if type(one) in SWAPS:
            new.op = SWAPS[type(one)]()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.IfExp():
            new.body, new.orelse = new.orelse, new.body
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int()):
            new.value += 1
        case _:
            return None
    return new


class Sites(ast.NodeTransformer):
    """Goes over the expressions that run within functions, and puts switches at those chosen."""

    def __init__(self, chosen: dict[int, int]) -> None:
        self.chosen, self.count, self.depth = chosen, 0, 0
        self.found: dict[int, tuple[int, str, str]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Of functions the body alone; what is printed, checked or matched stays as it is."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self.depth += 1
                if isinstance(node, ast.Lambda):
                    node.body = self.visit(node.body)
                else:
                    node.body = [self.visit(child) for child in node.body]
                self.depth -= 1
                return node
            case ast.AnnAssign(value=value):
                node.value = value and self.visit(value)
                return node
            case ast.JoinedStr() | ast.Match() | ast.Assert():
                return node
        return super().visit(node)

    def generic_visit(self, node: ast.AST) -> Any:
        wrong = mutated(node) if self.depth and isinstance(node, ast.expr) else None
        number = self.chosen.get(self.count) if wrong is not None else None
        self.count += wrong is not None
        was = ast.unparse(node) if number is not None else ""
        node = super().generic_visit(node)
        if number is None or wrong is None:
            return node
        self.found[number] = (node.lineno, was, ast.unparse(wrong))
        call = ast.Call(ast.Name("_mutant", ast.Load()), [ast.Constant(number)], [])
        return ast.IfExp(call, wrong, node)


def sources() -> list[Path]:
    """The files that may be mutated."""
    paths = sorted((ROOT / "pyframe").rglob("*.py"))
    return [path for path in paths if not {"_stubs", "_mutants.py"} & set(path.parts)]


def plant(count: int, seed: int) -> None:
    """Put `count` switches into the sources, and write down what they are."""
    sizes = []
    for path in sources():
        sites = Sites({})
        sites.visit(ast.parse(path.read_text()))
        sizes += [(path, i) for i in range(sites.count)]
    places = random.Random(seed).sample(sizes, count)
    chosen: dict[Path, dict[int, int]] = defaultdict(dict)
    for number, (path, i) in enumerate(places):
        chosen[path][i] = number
    found = {}
    for path, numbers in chosen.items():
        tree = ast.parse(path.read_text())
        sites = Sites(numbers)
        tree = sites.visit(tree)
        at = 1 if ast.get_docstring(tree, clean=False) is not None else 0
        while isinstance(tree.body[at], ast.ImportFrom) and tree.body[at].module == "__future__":
            at += 1
        tree.body[at:at] = ast.parse("from pyframe._mutants import mutant as _mutant").body
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
        name = str(path.relative_to(ROOT))
        found.update({number: [name, *what] for number, what in sites.found.items()})
    (ROOT / "pyframe" / "_mutants.py").write_text(SWITCH)
    FOLDER.mkdir(parents=True, exist_ok=True)
    MUTANTS.write_text(json.dumps(found, indent=0, sort_keys=True))
    print(f"{len(found)} mutants of {len(sizes)} places, in {len(chosen)} files")


# --- which tests reach them: a plugin of pytest


class Notes:
    """Writes down, for each test, how long it took and which switches it came by."""

    def __init__(self) -> None:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        HITS.mkdir(parents=True, exist_ok=True)
        self.file = (HITS / f"{worker}.txt").open("a")
        os.environ["PYFRAME_HITS"] = str(HITS / f"{worker}-processes.txt")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around one test."""
        from pyframe import _mutants  # type: ignore[attr-defined]

        _mutants.HITS.clear()
        self.failed = False
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        if not self.failed:
            what = (item.nodeid, round(seconds, 4), sorted(_mutants.HITS))
            self.file.write(repr(what) + "\n")
            self.file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without a mutant tells nothing of one."""
        self.failed = self.failed or report.failed


def pytest_configure(config: pytest.Config) -> None:
    """As `-p scripts.mutate_source`."""
    workers = config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    if not workers:
        config.pluginmanager.register(Notes())


def reached() -> tuple[dict[int, set[str]], dict[str, float]]:
    """The tests that reach each mutant, and how long each takes."""
    by_mutant: dict[int, set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    for path in HITS.glob("*.txt"):
        for line in path.read_text().splitlines():
            test, took, hits = ast.literal_eval(line)
            test = re.sub(r"@[^@\]]*$", "", test)  # pytest-xdist adds the group
            seconds[test] = max(took, seconds.get(test, 0.0))
            for hit in hits:
                by_mutant[hit].add(test)
    return by_mutant, seconds


# --- trying them


class Trial:
    """Runs, within a collected session of pytest, each mutant's tests in a process of their own."""

    def __init__(self, numbers: list[int], known: dict[str, Any], budget: float, jobs: int) -> None:
        self.numbers, self.known, self.budget, self.jobs = numbers, known, budget, jobs
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The child's own: what failed first."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """All that are there, before any is left out."""
        self.items = {item.nodeid: item for item in items}

    def pytest_runtestloop(self) -> bool:
        """Instead of running all."""
        by_mutant, seconds = reached()
        running: dict[int, tuple[int, int, float]] = {}
        left = list(self.numbers)
        while left or running:
            while left and len(running) < self.jobs:
                number = left.pop(0)
                tests = self.chosen(number, by_mutant[number] & self.items.keys(), seconds)
                if not tests:
                    self.keep(number, None, 0)
                    continue
                read, write = os.pipe()
                pid = os.fork()
                if pid == 0:
                    self.child(number, tests, write)
                os.close(write)
                limit = time.monotonic() + 60 + 5 * sum(seconds.get(t, 1.0) for t in tests)
                running[number] = pid, read, limit
            self.reap(running)
        return True

    def reap(self, running: dict[int, tuple[int, int, float]]) -> None:
        """Those that have ended, or take too long: what hangs is noticed, too."""
        ready, _, _ = select.select([read for _, read, _ in running.values()], [], [], 1.0)
        for number, (pid, read, limit) in list(running.items()):
            if read in ready:
                said = os.read(read, 100_000).decode()
                killer, _, count = said.rpartition("\n")
                self.keep(number, killer if said else "(crashed)", int(count or 0))
            elif time.monotonic() > limit:
                self.keep(number, "(too long)", 0)
            else:
                continue
            os.close(read)
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del running[number]

    def keep(self, number: int, killer: str | None, count: int) -> None:
        """Write the score after each, so that it can be gone on with."""
        self.known[str(number)] = [killer or "", count]
        SCORE.write_text(json.dumps(self.known, indent=0, sort_keys=True))
        print(number, killer or ("survives" if count else "not reached"), count, flush=True)

    def chosen(self, number: int, tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
        """In turns from each file, those that are quick first, until the budget is spent."""
        draw = random.Random(number)
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests):
            files[test.partition("::")[0]].append(test)
        for names in files.values():
            draw.shuffle(names)
            names.sort(key=lambda t: seconds.get(t, 1.0) > 2)
        turns = sorted(files.values(), key=len)
        found, spent = [], 0.0
        while turns and spent < self.budget:
            for names in turns:
                found.append(names.pop())
                spent += seconds.get(found[-1], 1.0)
            turns = [names for names in turns if names]
        return found

    def child(self, number: int, tests: list[str], write: int) -> None:
        """One mutant is on, also for processes that tests start."""
        os.setpgid(0, 0)
        from pyframe import _mutants  # type: ignore[attr-defined]

        os.environ.pop("PYFRAME_HITS", None)
        os.environ["PYFRAME_MUTANT"] = str(number)
        _mutants.ON = number
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        items = [self.items[t] for t in tests]
        count = 0
        for item, after in zip(items, [*items[1:], None], strict=True):
            count += 1
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                break
        os.write(write, f"{self.failed}\n{count}".encode())
        os._exit(0)


def attempt(budget: float, jobs: int, arguments: list[str]) -> int:
    """Try what has no test that notices it and is still there."""
    known = json.loads(SCORE.read_text()) if SCORE.exists() else {}
    mutants = json.loads(MUTANTS.read_text())

    class Session:
        """Needs the collected tests to say which of the killers are gone."""

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            """Leave the others untried."""
            for number in sorted(map(int, mutants)):
                killer = known.get(str(number), [""])[0]
                if killer.startswith("(") or killer in trial.items:
                    continue
                trial.numbers.append(number)
            trial.numbers.sort(key=lambda number: str(number) in known)  # what survived comes last
            print(f"{len(trial.numbers)} of {len(mutants)} mutants to try", flush=True)

    os.environ["PYFRAME_CACHE"] = ""  # what was compiled without a mutant would hide it
    trial = Trial([], known, budget, jobs)
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "-q", "--capture=no", "--tb=short"]
    # only collected here: the children run the tests
    pytest.main([*options, *arguments], plugins=[trial, Session()])
    killed = [m for m in mutants if known.get(m, [""])[0]]
    reach = [m for m in mutants if m in known and (known[m][0] or known[m][1])]
    print(f"{len(mutants)} mutants: {len(killed)} noticed, {len(reach)} reached by some test")
    for m in sorted(mutants, key=int):
        if not known.get(m, [""])[0]:
            print("survives" if m in reach else "unreached", m, *mutants[m], sep=" | ")
    return 0


def main() -> int:
    """The commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    planted = commands.add_parser("plant", help="rewrite pyframe/ of this checkout")
    planted.add_argument("--mutants", type=int, default=400)
    planted.add_argument("--seed", type=int, default=0)
    tried = commands.add_parser("try", help="run tests on the mutants")
    tried.add_argument("--budget", type=float, default=30.0, help="seconds of tests for each")
    tried.add_argument("--jobs", type=int, default=2)
    tried.add_argument("rest", nargs="*", help="for pytest")
    given = parser.parse_args()
    if given.command == "plant":
        plant(given.mutants, given.seed)
        return 0
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    return attempt(given.budget, given.jobs, given.rest)


if __name__ == "__main__":
    sys.exit(main())
