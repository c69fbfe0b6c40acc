"""torchvision.models._utils and .feature_extraction: what lies within a network, as its result."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pyframe import nn
from pyframe.tensor import Tensor
from pyframe.vision.models._api import make_divisible as _make_divisible

__all__ = [
    "IntermediateLayerGetter", "_make_divisible", "create_feature_extractor",
    "get_graph_node_names",
]  # fmt: skip


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of a network, one after another up to the last that is wanted; the results of
    those in `return_layers`, a dict from their names to others, are what it gives."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if missing := [name for name in return_layers if name not in children]:
            raise ValueError(
                f"IntermediateLayerGetter: there is no child {missing[0]!r}; there are "
                f"{', '.join(children)}"
            )
        last = max(list(children).index(name) for name in return_layers)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = {str(k): str(v) for k, v in return_layers.items()}

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        """The results by their new names."""
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def get_graph_node_names(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The names that `create_feature_extractor` takes, those of the modules, for training and for
    evaluation: pyframe has no names for what lies between them."""
    names = [name for name, _ in model.named_modules() if name]
    return names, list(names)


class _Extractor(nn.Module):
    """A network that gives what some of its modules give."""

    def __init__(self, model: nn.Module, wanted: Mapping[str, str]) -> None:
        super().__init__()
        self.model, self.wanted = model, dict(wanted)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The modules' results by their new names."""
        found: dict[str, Any] = {}
        modules = dict(self.model.named_modules())
        hooks = [
            modules[name].register_forward_hook(
                lambda module, args, output, name=name: found.__setitem__(name, output)
            )
            for name in self.wanted
        ]
        try:
            self.model(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        return {new: found[name] for name, new in self.wanted.items()}


def create_feature_extractor(
    model: nn.Module, return_nodes: Any = None, *args: Any, train_return_nodes: Any = None,
    eval_return_nodes: Any = None, **kwargs: Any,
) -> nn.Module:  # fmt: skip
    """A module that runs a network and gives what some of its modules give: by names of modules, or
    a dict from them to others. A name of what holds modules is that of its result. ValueError for
    a name that there is not."""
    wanted = return_nodes if return_nodes is not None else train_return_nodes
    if wanted is None or (eval_return_nodes is not None and eval_return_nodes != wanted):
        raise ValueError(
            "create_feature_extractor: give return_nodes, the same for training and evaluation"
        )
    wanted = wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
    names = get_graph_node_names(model)[0]
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(
            f"create_feature_extractor: {missing[0]!r} is no module of the network; there are "
            f"{', '.join(names[:8])}, …"
        )
    return _Extractor(model, wanted)
