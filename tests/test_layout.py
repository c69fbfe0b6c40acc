"""The house: what each package may import. Imports point down, also those inside functions."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import pytest

import pyframe
from pyframe.core.dispatch import install_callbacks
from pyframe.tensor.tensor import INSIDE

ROOT = Path(pyframe.__file__).parent

# From the lowest to the highest; modules of one line may import each other, in no circle.
LAYERS = [
    {*line.split()}
    for line in """core
    graph
    codegen
    backend
    tensor
    ops
    autograd
    methods
    runtime
    watch
    capture
    random fft linalg special func
    distributed
     io utils hub nn optim data distributions metrics vision tools masked signal
     amp gpu profiler plot multiprocessing array_api
     jit export onnx text lora overrides
    train
    web serve torch cli __main__""".splitlines()
]

# (importer, imported): why it may
_SHOWN = "pf.graph is where users look for it; it is loaded when it is asked for"
_DEBUG = "PYFRAME_DEBUG prints what the tools make of a Program; they are loaded only then"
EXCEPTIONS = {
    ("pyframe.methods", "pyframe.overrides"): "the first class derived from Tensor loads it",
    ("pyframe.methods", "pyframe.array_api"): "x.__array_namespace__() gives it; who asks loads it",
    ("pyframe.graph", "pyframe.tools.cost"): _SHOWN,
    ("pyframe.graph", "pyframe.tools.draw_graph"): _SHOWN,
    ("pyframe.runtime.debug", "pyframe.tools.cost"): _DEBUG,
    ("pyframe.runtime.debug", "pyframe.tools.draw_graph"): _DEBUG,
}

# What packages above import of watch/, besides its own names: an export's errors say whose line.
FACE = {("pyframe.web.programs", "pyframe.watch.origin")}

# Class names that stand in two modules: public ones of PyTorch, torchvision or pyframe.
TWICE = {
    *"""BasicBlock Chat CheckpointError CosineSimilarity Event Future Generator GradScaler Identity
    Image InvertedResidual Lambda Linear Pad RMSNorm RandomEqualize RandomPosterize RandomRotation
    RemovableHandle Stream Timer Transform autocast device finfo""".split()
}

# Names of constants that say neither of what nor which way; MAX_…, MIN_…, …_BYTES do.
BARE = {*"MOST FEW LEAST MANY LARGE SMALL KEPT HELD SEEN WORTH ROOM KNOWN ENOUGH".split()}

# Lines of Python in each package; "" are the modules beside them. texts.py is prose.
BUDGETS = {
    "core": 4870, "graph": 4250, "codegen": 14370, "backend": 2670, "tensor": 2730, "ops": 16610,
    "autograd": 1870, "runtime": 2080, "watch": 2430, "capture": 3500, "distributed": 1710,
    "data": 1970, "distributions": 2950, "io": 3170, "metrics": 1180, "nn": 14790, "optim": 3350,
    "signal": 30, "tools": 3150, "utils": 1080, "vision": 8070, "array_api": 910,
    "multiprocessing": 370, "jit": 4080, "onnx": 5850, "text": 4390, "train": 6500, "cli": 1530,
    "torch": 4520, "web": 5060, "": 5270,
}  # fmt: skip

BY_NAME = ("import_module", "__import__")
# who imports by names that are made at run time, other than of modules of its own package
_MADE_NAMES = {
    "pyframe.train.callbacks": "loads some of its modules late, which pyframe.train names too",
    "pyframe.torch": "imports a user's program, and what it asks of torch",
    "pyframe.torch.names": "gives torch.cuda or torch.cpu",
    "pyframe.web.worker": "imports a user's program",
    "pyframe.utils.tensorboard": "tries tensorboardX and its kin",
    "pyframe.vision.datasets.utils": "takes the standard library's module for a file's suffix",
}


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in ("shaders", "examples") or "static" in parts:
            continue
        found[".".join(["pyframe", *(p for p in parts if p != "__init__")])] = path
    return found


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether it is `if TYPE_CHECKING:`; what stands under `if not TYPE_CHECKING:` runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def called_last(node: ast.Call) -> str:
    """The last name of what is called."""
    found: str = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return found


def called(node: ast.Call) -> str:
    """The text of what is called, if it may import."""
    return ast.unparse(node.func) if called_last(node) in (*BY_NAME, "get") else ""


def imports(tree: ast.AST, known: dict[str, Path]) -> list[str]:
    """The modules that a file imports, those within functions and by their names too."""
    found = []
    todo = [tree]
    while todo:
        node = todo.pop()
        todo += node.orelse if is_type_checking(node) else ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not read here"
            assert not any(a.asname and a.name in BY_NAME for a in node.names)
            for a in node.names:
                full = f"{node.module}.{a.name}"
                found.append(full if full in known else node.module)
        elif isinstance(node, ast.Call) and called(node).endswith((*BY_NAME, "sys.modules.get")):
            found += [a.value for a in node.args if isinstance(a, ast.Constant)]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            found += [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    return [name for name in found if name.partition(".")[0] == "pyframe"]


KNOWN = modules()
pytestmark = pytest.mark.xdist_group("layout")  # one worker reads all files, when tests run


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text("utf-8")) for name, path in KNOWN.items()}


@functools.cache
def nodes() -> dict[type[ast.AST], list[tuple[str, Any]]]:
    """Those of some kinds, with their modules' names."""
    found: Any = {ast.Attribute: [], ast.Call: [], ast.Import: [], ast.ImportFrom: []}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if type(node) in found:
                found[type(node)].append((name, node))
    return found


def owner(node: ast.Attribute) -> str | None:
    """The name in `name.attribute`."""
    return node.value.id if isinstance(node.value, ast.Name) else None


@functools.cache
def graph() -> dict[str, list[str]]:
    return {name: imports(tree, KNOWN) for name, tree in trees().items()}


def layer(name: str) -> int:
    if name == "pyframe":  # the top of all
        return len(LAYERS)
    top = name.split(".")[1]
    (found,) = [i for i, some in enumerate(LAYERS) if top in some]
    return found


def test_imports_point_down() -> None:
    up = {
        (name, other)
        for name, others in graph().items()
        for other in others
        if layer(other) > layer(name) and other != "pyframe"
    }
    assert up == EXCEPTIONS.keys()


def test_the_lower_layers_do_not_import_the_public_package() -> None:
    """`import pyframe` is for the layers whose users' API is all that they need."""
    first = layer("pyframe.func")
    assert [n for n, others in graph().items() if "pyframe" in others and layer(n) < first] == []


def test_shape_dtype_and_device_are_asked_of_tensors() -> None:
    """Only what makes tensors asks their node, which a Tensor's own properties read as quickly."""
    asked = {
        name for name, node in nodes()[ast.Attribute] if node.attr in ("shape", "dtype", "device")
        and isinstance(node.value, ast.Attribute) and node.value.attr == "_node"
        and not name.startswith(("pyframe.core", "pyframe.tensor"))
    }  # fmt: skip
    assert asked == set()


def test_core_is_set_from_above_at_one_point() -> None:
    """By `install_callbacks` of core/dispatch.py: what core knows else is given by calls. `mode` is
    a thread's state, and what torch's names are printed as is said by pyframe.torch."""
    known = {
        (name, a.asname or a.name)
        for name, node in nodes()[ast.ImportFrom]
        if (node.module or "").startswith("pyframe.core") and layer(name) > 0
        for a in node.names
        if a.name != "mode"
    }
    assigned = {
        (name, ast.unparse(node))
        for name, node in nodes()[ast.Attribute]
        if isinstance(node.ctx, ast.Store) and (name, owner(node)) in known
    }
    assert assigned == {("pyframe.gpu", "Device.current"), ("pyframe.torch", "dtype.home")}
    with pytest.raises(ValueError, match="declared twice"):
        install_callbacks(tensor_from_node=None)


def test_what_is_used_of_a_tensors_inside_is_declared() -> None:
    """Tensor's private names that packages above use are `INSIDE`, and nothing is there for none.
    `self` is a tensor in ops alone; two names are public in PyTorch and IPython."""
    inside = {n for n in vars(pyframe.Tensor) if re.match("_[a-z]", n)}
    inside -= {"_version", "_repr_html_"}
    used = {
        node.attr
        for name, node in nodes()[ast.Attribute]
        if layer(name) > layer("pyframe.tensor") and node.attr in inside
        and (name.startswith("pyframe.ops") or owner(node) not in ("self", "cls"))
    }  # fmt: skip
    assert used == {*INSIDE}


def test_no_import_is_hidden_in_a_made_name() -> None:
    hidden = set()
    for name, node in nodes()[ast.Call]:
        if called(node).endswith(BY_NAME):
            package = name if KNOWN[name].name == "__init__.py" else name.rpartition(".")[0]
            asked = node.args[0]
            start = asked.values[0] if isinstance(asked, ast.JoinedStr) else asked
            text = str(start.value) if isinstance(start, ast.Constant) else ""
            if (start is not asked and not text.startswith(f"{package}.")) or not text:
                hidden.add(name)
    assert hidden == _MADE_NAMES.keys()


def test_what_is_taken_from_the_public_package_lies_below() -> None:
    """`pf.Model` is of `pyframe.train`, however it was asked for."""
    names = {
        (name, a.asname or a.name)
        for name, node in nodes()[ast.Import] for a in node.names if a.name == "pyframe"
    }  # fmt: skip
    up = set()
    for name, node in nodes()[ast.Attribute]:
        if (name, owner(node)) in names:
            found = getattr(pyframe, node.attr, None)
            is_module = isinstance(found, ModuleType)
            home = getattr(found, "__name__" if is_module else "__module__", "")
            if home in KNOWN and layer(home) > layer(name) and home != "pyframe":
                up.add((name, f"pf.{node.attr}"))
    assert up == set()


# What ops, layers and tensors know of how things are computed: nothing but what an element means,
# these modules, and what they ask of devices. Lines are only taken away: graph/lower.py asks.
MEANINGS = {f"pyframe.graph.{name}" for name in "scalar functions mathematics complexes".split()}
QUESTIONS = "is_lazy", "backend", "executor", "runs_kernel", "has_kernel"
ASKED = """nn.functional.attention: backend is_lazy
nn.functional.ctc: runs_kernel
nn.functional.recurrent: runs_kernel
nn.quantized: is_lazy
ops.api.autocast: backend
ops.api.deferred: executor
ops.index.subscript: is_lazy
ops.linalg.attention: backend runs_kernel
ops.linalg.matmul: codegen.numpy.routines codegen.wgsl.products runs_kernel
ops.math.elementwise: codegen.numpy.elementwise
ops.math.mathfn: codegen.numpy.elementwise
ops.reduce.reductions: codegen.numpy.routines codegen.numpy.sums
ops.spatial.conv: codegen.numpy.routines
ops.spatial.pool: codegen.numpy.routines runs_kernel
tensor.construction: executor is_lazy
tensor.copying: is_lazy
tensor.dlpack: is_lazy
tensor.reading: executor is_lazy
tensor.storage: is_lazy
tensor.subgraph: executor
tensor.tensor: executor is_lazy
tensor.writing: executor is_lazy"""


def test_ops_do_not_know_what_computes_them() -> None:
    asked: dict[str, set[str]] = {}
    for name, others in graph().items():
        if name.split(".")[1:2] in (["ops"], ["nn"], ["tensor"], ["autograd"]):
            below = {
                o for o in others if o.split(".")[1:2] in (["graph"], ["codegen"], ["runtime"])
            }
            asked[name] = {o.removeprefix("pyframe.") for o in below - MEANINGS}
    for name, node in nodes()[ast.Attribute]:
        if name in asked and node.attr in QUESTIONS:
            asked[name].add(node.attr)
    for name, node in nodes()[ast.Call]:
        if name in asked and called_last(node) in QUESTIONS[-2:]:
            asked[name].add(called_last(node))
    lines = [f"{k.removeprefix('pyframe.')}: {' '.join(sorted(v))}" for k, v in asked.items() if v]
    assert sorted(lines) == ASKED.splitlines()


def test_no_module_is_in_a_circle() -> None:
    imported = {
        name: [o for o in others if (name, o) not in EXCEPTIONS and o not in ("pyframe", name)]
        for name, others in graph().items()
    }
    graphlib.TopologicalSorter(imported).prepare()  # a CycleError names the circle


def test_watch_is_used_by_its_face() -> None:
    used = {
        (name, node.module) for name, node in nodes()[ast.ImportFrom]
        if node.module.startswith("pyframe.watch") and not name.startswith("pyframe.watch")
    }  # fmt: skip
    assert {u for u in used if u[1] != "pyframe.watch"} == FACE


def test_a_class_name_stands_in_one_module() -> None:
    where: dict[str, set[str]] = {}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, set()).add(name)
    assert {n for n, modules in where.items() if len(modules) > 1} == TWICE


def test_names_of_constants_say_of_what() -> None:
    bare = [
        f"{name}.{part.id}"
        for name, tree in trees().items()
        for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        and part.id.lstrip("_") in BARE
    ]  # fmt: skip
    assert bare == []


def test_packages_keep_to_their_budgets_of_lines() -> None:
    lines = dict.fromkeys(BUDGETS, 0)
    for name, path in KNOWN.items():
        top, _, rest = path.relative_to(ROOT).as_posix().partition("/")
        if name != "pyframe.ops.api.texts":
            lines[top if rest else ""] += len(path.read_text("utf-8").splitlines())
    over = {top: n for top, n in lines.items() if n > BUDGETS[top]}
    assert not over, "a budget falls; it rises only with a reason in the changelog"


def test_texts_are_utf8_on_every_system() -> None:
    """Windows reads and writes those of which nothing is said in an encoding of its own."""
    unsaid = []
    for name, node in nodes()[ast.Call]:
        what, said = called_last(node), {k.arg for k in node.keywords} & {"encoding", None}
        if what == "open" and isinstance(node.func, ast.Name):
            mode = node.args[1] if len(node.args) > 1 else ast.Constant("r")
            said |= {"bytes"} if "b" in ast.unparse(mode) else set()
        elif what not in ("read_text", "write_text") or len(node.args) > (what[0] == "w"):
            continue
        if not said:
            unsaid.append((name, ast.unparse(node)))
    assert unsaid == []


def test_files_that_the_guide_names_are_there() -> None:
    """Every `file.py` in CONTRIBUTING.md is the end of a path in the checkout."""
    root = ROOT.parent
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|js|wgsl|md|html|ts))`", text))
    assert len(named) > 50
    folders = "pyframe shaders web tests examples scripts docs".split()
    paths = [path.as_posix() for top in folders for path in (root / top).rglob("*.*")]
    paths += [path.as_posix() for path in root.iterdir()]
    assert [n for n in sorted(named) if not any(p.endswith(f"/{n}") for p in paths)] == []
