"""What captures and guards know of the packages above them, none of which they import.

Names that they must know stand here, with the reason. Packages register everything else when they
are imported, in the lists at the end.
"""

from __future__ import annotations

from typing import Any

# Whose code a file holds. The reads of a user's code are guarded. A library's own code reads
# nothing that may change, but for attributes of objects that it was given. What impure code gives
# is another thing at each call, so that no replay may follow it.
USER, LIBRARY, IMPURE = "user", "library", "impure"

# Folders of pyframe/ whose code is not a library's: programs as users write them, and what reads
# and writes files.
CODE = {"web/": USER, "tools/bench/": USER, "examples/": USER, "io/": IMPURE}
IMPURE_CALLS = "load save load_async save_async"  # of io/, called by a user

# Packages whose classes and functions may be replaced while a program runs, as a user's may: they
# are programs themselves.
PROGRAMS = ("pyframe.tools.bench", "pyframe.examples")

# Packages whose objects a user's program sets attributes of, so that these are guarded. What the
# other packages make (tensors, devices, nodes) is told to a capture in ways of its own.
OBJECTS = (
    "amp", "nn", "optim", "data", "vision", "train", "tools.bench", "examples", "io", "utils",
    "jit.modules", "text", "lora",
)  # fmt: skip

# The files in which an optimizer's step is written: what they read of an optimizer is guarded as a
# whole (`GuardSet.watch_optimizer`), and each option is a dynamic input. Schedulers and averages
# are not of them.
OPTIMIZERS_CODE = "optim/"
NOT_OPTIMIZERS = ("lr_scheduler.py", "swa_utils.py")

# A Module keeps its parameters, buffers and children in these dicts, as if they were attributes.
MEMBERS = ("_parameters", "_buffers", "_modules")

# A call of a Module reads these dicts of hooks, and then `forward`, also where the class is ours: a
# program may replace it.
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
FORWARD = "forward"

# A parameter of a lazy module has this attribute until it gets a shape.
SHAPELESS = "cls_to_become"

# --- what is told from above

OPTIMIZERS: list[type] = []  # classes whose objects have `param_groups` and `state`
WRAPPERS: list[type] = []  # classes whose objects call `fn`, and read nothing else
HOOKS_ON_ALL: list[tuple[dict[str, Any], str]] = []  # the globals and the name of such a dict
PLACES: dict[Any, Any] = {}  # by the code of what runs a program of its own: where its frame is


class DictBackedProperty(property):
    """A property of a value that lies in its object's dict under the same name."""
