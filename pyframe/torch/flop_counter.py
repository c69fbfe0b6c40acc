"""torch.utils.flop_counter: FLOPs of products, counted while they run."""

from __future__ import annotations

import re
from typing import Any

import pyframe as pf
from pyframe.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

_PRODUCTS = re.compile(r"matmul|conv|einsum|attention|linear")


class FlopCounterMode:
    """Within it FLOPs of products and convolutions are counted, a multiplication and its addition
    as two: of all, and of what runs in the `forward` of each module. `display` prints a table."""

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        self.depth, self.display = depth, display
        self.counts: dict[str, dict[str, int]] = {"Global": {}}

    def __enter__(self) -> FlopCounterMode:
        self.counts = {"Global": {}}
        self._names: dict[int, str] = {}  # of modules, by their places
        self._running: list[tuple[str, int]] = []  # and how many events were there before
        self._profile = pf.profiler.profile()
        self._profile.start()
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._profile.stop()
        self._count("Global", 0)
        if self.display:
            print(self.get_table())

    def _enter(self, module: Any, args: Any) -> None:
        name = self._names.setdefault(id(module), type(module).__name__)
        for child, inner in module.named_children():
            self._names.setdefault(id(inner), f"{name}.{child}")
        self.counts.setdefault(name, {})
        self._running.append((name, len(self._profile.events)))

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._count(*self._running.pop())

    def _count(self, name: str, since: int) -> None:
        own = self.counts.setdefault(name, {})
        for event in self._profile.events[since:]:
            if event.flops and _PRODUCTS.search(event.name):
                own[event.name] = own.get(event.name, 0) + event.flops

    def get_total_flops(self) -> int:
        """Those of all."""
        return sum(self.counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Those of each module, and of all ("Global"), by the name of what ran."""
        return {name: dict(own) for name, own in self.counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of the modules down to a depth."""
        deepest = self.depth if depth is None else depth
        rows = [(n, sum(own.values())) for n, own in self.counts.items() if n.count(".") < deepest]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {flops:,}" for name, flops in rows)
