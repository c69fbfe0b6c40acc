"""torch.utils._pytree: nested lists, tuples and dicts as a list of leaves and a form."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

_DICTS = (dict, OrderedDict, defaultdict)
IsLeaf = Callable[[Any], bool] | None
Context = Any
_nodes: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}  # that were registered


PyTree = Any


class _Nodes(dict[Any, Any]):
    """What SUPPORTED_NODES is asked: whether objects of a class are nodes."""

    def __contains__(self, kind: Any) -> bool:
        return kind in (list, tuple, *_DICTS, *_nodes)


SUPPORTED_NODES = _Nodes()


class TreeSpec(NamedTuple):
    """What makes the tree of its leaves again: None for a leaf itself."""

    kind: Any
    keys: Any
    children: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.kind is None

    @property
    def type(self) -> Any:
        return self.kind

    @property
    def context(self) -> Any:
        return self.keys

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self.children

    @property
    def num_children(self) -> int:
        return len(self.children)


def LeafSpec() -> TreeSpec:  # noqa: N802  (PyTorch's name)
    """The form of a leaf."""
    return TreeSpec(None, None, [])


def _get_node_type(tree: Any) -> Any:
    """The class of a node; of a tuple with names namedtuple itself."""
    return namedtuple if _is_named(tree) else type(tree)


def _is_named(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


def register_pytree_node(
    cls: type, flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any], **kwargs: Any
) -> None:
    """Have objects of a class be nodes: flatten_fn(x) gives (parts, context), and
    unflatten_fn(parts, context) x again. ValueError for one that is registered."""
    if cls in _nodes:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _nodes[cls] = flatten_fn, unflatten_fn


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.items()), list(d)


def _dict_unflatten(values: Any, context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, left to right, and the form; anything but a container is a leaf, None too."""
    kind = type(tree)
    if (is_leaf and is_leaf(tree)) or not (kind in SUPPORTED_NODES or _is_named(tree)):
        return [tree], LeafSpec()
    leaves, children = [], []
    keys: Any = list(tree) if kind in _DICTS else None
    parts = tree if keys is None else tree.values()
    if kind in _nodes:
        parts, keys = _nodes[kind][0](tree)
    for part in parts:
        below, spec = tree_flatten(part, is_leaf)
        leaves += below
        children.append(spec)
    factory = tree.default_factory if kind is defaultdict else None
    return leaves, TreeSpec(kind, (keys, factory), children)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The tree. ValueError unless there are as many leaves as it has."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: {len(leaves)} leaves for a tree of {treespec.num_leaves}"
        )
    return _built(iter(leaves), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(leaves)
    keys, factory = spec.keys
    parts = [_built(leaves, child) for child in spec.children]
    if spec.kind in _nodes:
        return _nodes[spec.kind][1](parts, keys)
    if keys is not None:
        items = zip(keys, parts, strict=True)
        return defaultdict(factory, items) if spec.kind is defaultdict else spec.kind(items)
    return spec.kind(*parts) if hasattr(spec.kind, "_fields") else spec.kind(parts)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves, left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of func(leaf, *leaves of the other trees at its place)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(r, is_leaf) for r in rests]
    return tree_unflatten([func(*at) for at in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` of the leaves of a type (or some); the others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call func with each leaf; gives the tree as it is."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is so of a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is so of all."""
    return all(map(pred, tree_leaves(tree, is_leaf)))
