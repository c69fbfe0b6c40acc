"""Operators of ai.onnx.ml: what exporters of scikit-learn, XGBoost and LightGBM write.

What attributes say, such as the trees of a forest, is made ready once, when a model is loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.graph import RunContext
from pyframe.onnx.table import ML, op
from pyframe.onnx.values import Host, see_room, strings
from pyframe.tensor import Tensor

LARGEST = 1 << 30  # bytes of a table


def _first(*options: Any) -> Any:
    return next((o for o in options if o is not None and len(o)), None)


def _row(numbers: Any) -> np.ndarray:
    return np.asarray(numbers, np.float32)


# --- what changes features


def _scaler(*, offset: Any = (0.0,), scale: Any = (1.0,)) -> dict[str, Any]:
    return {"offset": _row(offset), "scale": _row(scale)}


@op("Scaler", ML, _scaler)
def scaler(x: Tensor, *, offset: Tensor, scale: Tensor) -> Tensor:
    return (x.float() - offset) * scale


@op("Normalizer", ML)
def normalizer(x: Tensor, *, norm: str) -> Tensor:
    x = x.float()
    sizes = {
        "MAX": lambda: x.amax(-1, True), "L1": lambda: x.abs().sum(-1, True),
        "L2": lambda: (x * x).sum(-1, True).sqrt(),
    }  # fmt: skip
    size = sizes[norm]()
    return x / pf.where(size == 0, 1, size)


op("Binarizer", ML)(lambda x, *, threshold: (x > threshold).to(x.dtype))


def _imputer(
    *, imputed_value_floats: Any = None, imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> dict[str, Any]:  # fmt: skip
    if imputed_value_floats is None:
        return {"new": np.asarray(imputed_value_int64s, np.int64), "old": replaced_value_int64}
    return {"new": _row(imputed_value_floats), "old": replaced_value_float}


@op("Imputer", ML, _imputer)
def imputer(x: Tensor, *, new: Tensor, old: float) -> Tensor:
    return pf.where(pf.isnan(x) if old != old else x == old, new.to(x.dtype), x)


@op("FeatureVectorizer", ML)
def feature_vectorizer(*xs: Tensor, inputdimensions: list[int] = []) -> Tensor:  # noqa: B006
    rows = [x.float().reshape(x.shape[0] if x.ndim > 1 else 1, -1) for x in xs]
    wide = inputdimensions or [x.shape[1] for x in rows]
    cut = [F.pad(x, (0, n - x.shape[1])) for x, n in zip(rows, wide, strict=True)]
    return pf.cat(cut, 1)


@op("ArrayFeatureExtractor", ML)
def array_feature_extractor(x: Any, index: Any) -> Any:
    if isinstance(x, Tensor):
        at = index if isinstance(index, Tensor) else values.tensor(index, x.device)
        return x.reshape(-1, x.shape[-1]).index_select(-1, at.reshape(-1))
    return x.reshape(-1, x.shape[-1])[:, values.array(index).ravel()]


def _one_hot(*, cats_int64s: Any = None, cats_strings: Any = None, zeros: int) -> dict[str, Any]:
    known = strings(cats_strings, -1) if cats_strings else np.asarray(cats_int64s, np.int64)
    return {"known": known, "zeros": zeros}


@op("OneHotEncoder", ML, _one_hot)
def one_hot_encoder(x: Any, *, known: Any, zeros: int, run: RunContext) -> Tensor:
    if isinstance(known, np.ndarray) and known.dtype.kind == "U":
        found = run.tensor((values.array(x)[..., None] == known).astype(np.float32))
    else:
        found = (run.tensor(x).long().unsqueeze(-1) == run.tensor(known)).float()
    if not zeros and not bool(found.any(-1).all()):
        raise ValueError("OneHotEncoder: a category that it does not know")
    return found


def _label_encoder(
    *, keys_tensor: Any = None, values_tensor: Any = None, default_tensor: Any = None,
    keys_int64s: Any = None, keys_strings: Any = None, keys_floats: Any = None,
    values_int64s: Any = None, values_strings: Any = None, values_floats: Any = None,
    default_int64: int = -1, default_string: str = "_Unused", default_float: float = -0.0,
    classes_strings: Any = None,
) -> dict[str, Any]:  # fmt: skip
    if classes_strings is not None:  # as version 1 has it: both ways
        numbers = [*range(len(classes_strings))]
        pairs = [*zip(classes_strings, numbers, strict=True), *enumerate(classes_strings)]
        return {"table": dict(pairs), "usual": (default_int64, default_string), "kind": None}
    keys = _first(keys_tensor, keys_int64s, keys_strings, keys_floats)
    found = _first(values_tensor, values_int64s, values_strings, values_floats)
    if keys is None or found is None:
        raise ValueError("its keys or values are missing")
    if isinstance(found, np.ndarray):
        kind = found.dtype
    else:
        kind = np.dtype({int: np.int64, float: np.float32, str: str}[type(found[0])])
    usual = {"i": default_int64, "U": default_string, "f": default_float}.get(kind.kind)
    if default_tensor is not None:
        usual = default_tensor.item()
    named = zip(np.ravel(keys).tolist() if isinstance(keys, np.ndarray) else keys,
                np.ravel(found).tolist() if isinstance(found, np.ndarray) else found,
                strict=True)  # fmt: skip
    return {"table": dict(named), "usual": usual, "kind": kind}


@op("LabelEncoder", ML, _label_encoder)
def label_encoder(x: Host, *, table: dict[Any, Any], usual: Any, kind: Any) -> Any:
    if kind is None:
        text = x.dtype.kind == "U"
        usual, kind = usual[not text], np.dtype(np.int64 if text else str)
    nan = next((v for k, v in table.items() if k != k), usual)
    made = [nan if v != v else table.get(v, usual) for v in x.ravel().tolist()]
    return strings(made, x.shape) if kind.kind == "U" else np.array(made, kind).reshape(x.shape)


def _category_mapper(
    *, cats_int64s: Any, cats_strings: Any, default_int64: int, default_string: str
) -> dict[str, Any]:
    pairs = [*zip(cats_strings, cats_int64s, strict=True)]
    table = {**dict(pairs), **{number: text for text, number in pairs}}
    return {"table": table, "usual": (default_int64, default_string), "kind": None}


op("CategoryMapper", ML, _category_mapper)(label_encoder)


@op("DictVectorizer", ML)
def dict_vectorizer(x: Any, *, int64_vocabulary: Any = None, string_vocabulary: Any = None) -> Any:
    known = string_vocabulary or int64_vocabulary or []
    kind = np.float32 if any(isinstance(v, float) for v in x.values()) else np.int64
    return np.array([[x.get(k, 0) for k in known]], kind)


@op("ZipMap", ML)
def zip_map(x: Tensor, *, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> Any:
    """A dict of the classes' scores for each row."""
    keys = classlabels_strings or classlabels_int64s
    rows = values.array(x).reshape(-1, len(keys)).tolist()
    return [dict(zip(keys, row, strict=True)) for row in rows]


# --- classes and scores


def _labels(ints: Any, texts: Any) -> np.ndarray:
    return strings(texts, -1) if texts else np.asarray(ints or [0, 1], np.int64)


def _named(at: Tensor, labels: Any) -> Any:
    """The labels of numbers of classes; texts are on the host."""
    if isinstance(labels, np.ndarray):
        return labels[values.array(at)]
    return labels[at]


def _transformed(scores: Tensor, kind: str) -> Tensor:
    """Scores as they are asked for; one alone stays what it is, as onnxruntime has it."""
    if scores.shape[-1] == 1 and kind != "PROBIT":
        return scores
    if kind == "LOGISTIC":
        return pf.sigmoid(scores)
    if kind == "SOFTMAX":
        return F.softmax(scores, -1)
    if kind == "SOFTMAX_ZERO":
        top = scores.amax(-1, True)
        some = pf.where(scores.abs() > 1e-7, pf.exp(scores - top), 0)
        rest = pf.where(scores.abs() > 1e-7, 0, scores * pf.exp(-top))
        return (some + rest) / some.sum(-1, True)
    if kind == "PROBIT":
        return 2**0.5 * pf.erfinv(2 * scores - 1)
    if kind == "NONE":
        return scores
    raise NotImplementedError(f"the transform {kind!r}")


def _two(score: Tensor, kind: str, between: bool) -> Tensor:
    """Scores of two classes, of which a model has one: (N, 1). Where it is between 0 and 1 the
    other is what is missing to 1, else its negative."""
    if kind == "PROBIT":
        return _transformed(score, kind)
    if kind == "LOGISTIC":
        return pf.sigmoid(pf.cat([-score, score], -1))
    return pf.cat([1 - score if between else -score, score], -1)


def _linear(
    *, coefficients: Any, intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, targets: int = 1, multi_class: int = 0,
) -> dict[str, Any]:  # fmt: skip
    labels = _labels(classlabels_ints, classlabels_strings)
    rows = len(intercepts) if intercepts else max(len(classlabels_ints or classlabels_strings or ())
                                                  or targets, 1)  # fmt: skip
    weight = _row(coefficients).reshape(rows, -1)
    return {"weight": weight, "bias": _row(intercepts or [0.0] * rows), "labels": labels}


@op("LinearRegressor", ML, _linear)
def linear_regressor(
    x: Tensor, *, weight: Tensor, bias: Tensor, labels: Any, post_transform: str
) -> Tensor:
    return _transformed(F.linear(x.float(), weight, bias), post_transform)


@op("LinearClassifier", ML, _linear)
def linear_classifier(
    x: Tensor, *, weight: Tensor, bias: Tensor, labels: Any, post_transform: str
) -> Any:
    scores = F.linear(x.float().reshape(-1, weight.shape[1]), weight, bias)
    if weight.shape[0] > 1:
        return _named(scores.argmax(-1), labels), _transformed(scores, post_transform)
    at = (scores[:, 0] > 0).long()
    if labels.shape[0] == 2:
        return _named(at, labels), _two(scores, post_transform, True)
    return at, _transformed(scores, post_transform)


# --- trees

DEEPEST = 1000
_MODES = {
    "BRANCH_LEQ": (1, 1, 0),
    "BRANCH_LT": (1, 0, 0),
    "BRANCH_GTE": (0, 1, 1),
    "BRANCH_GT": (0, 0, 1),
    "BRANCH_EQ": (0, 1, 0),
    "BRANCH_NEQ": (1, 0, 1),
    "BRANCH_MEMBER": (0, 0, 0),
    "LEAF": (0, 0, 0),
}  # fmt: skip  whether what is less, equal, greater goes to the true branch


def _forest(
    roots: Any, feature: Any, value: np.ndarray, modes: list[str], yes: Any, no: Any, missing: Any,
    leaf: Any, table: tuple[np.ndarray, np.ndarray], sets: list[Any],
) -> dict[str, Any]:  # fmt: skip
    """Nodes as arrays; a leaf is a node whose branches are itself, and `leaf` says its row in the
    table of weights."""
    yes, no, roots = (np.asarray(a, np.int64) for a in (yes, no, roots))
    count = len(yes)
    ends = np.concatenate([yes, no, roots])
    if not roots.size or ends.min() < 0 or ends.max() >= count:
        raise ValueError("a branch of its trees leads nowhere")
    places = np.arange(count)
    inner = (yes != places) | (no != places)
    at, depth = np.unique(roots), 0
    while (at := at[inner[at]]).size:
        at, depth = np.unique(np.concatenate([yes[at], no[at]])), depth + 1
        if depth > DEEPEST:
            raise ValueError(f"its trees are more than {DEEPEST} deep, or circles")
    kinds = np.array([_MODES[mode] for mode in modes], bool).reshape(count, 3)
    tracks = kinds[:, 0] & kinds[:, 2]  # NaN is not equal to what it is compared with
    if missing is not None and len(missing):
        tracks = tracks | np.asarray(missing, bool)
    some = np.unique(kinds[inner], axis=0)
    member = np.array([mode == "BRANCH_MEMBER" for mode in modes])
    if member.sum() != len(sets):
        raise ValueError("its nodes and its sets of members differ in number")
    found: dict[str, Any] = {
        "roots": roots, "feature": np.asarray(feature, np.int64), "value": value, "yes": yes,
        "no": no, "leaf": np.asarray(leaf, np.int64), "weights": table[0], "depth": depth,
        "kinds": tuple(some[0].tolist()) if len(some) == 1 else kinds,  # often all compare alike
        "tracks": tracks if tracks.any() else None, "given": None if table[1].all() else table[1],
        "member": None, "sets": None,
    }  # fmt: skip
    if sets:
        longest = max(map(len, sets))
        see_room([len(sets) + 1, longest], value.itemsize, LARGEST)
        found["sets"] = np.full((len(sets) + 1, longest), np.nan, value.dtype)
        for row, members in zip(found["sets"][1:], sets, strict=True):
            row[: len(members)] = members
        found["member"] = np.cumsum(member) * member
    return found


def _table(at: Any, ids: Any, weights: Any, rows: int, targets: int, kind: Any) -> Any:
    """(rows + 1, targets): the weights of each leaf, and which there are; row 0 has none."""
    see_room([rows + 1, targets], 8, LARGEST)
    made, given = np.zeros((rows + 1, targets), kind), np.zeros((rows + 1, targets), bool)
    at, ids = np.asarray(at, np.int64), np.asarray(ids, np.int64)
    if not len(at) == len(ids) == len(weights):
        raise ValueError("its leaves have other numbers of targets and weights")
    if ids.size and not 0 <= ids.min() <= ids.max() < targets:
        raise ValueError(f"a class or target beyond its {targets}")
    np.add.at(made, (at, ids), np.asarray(weights, kind))
    given[at, ids] = True
    given[0] = len(at) > 0 and bool(given[1:].all())  # then no row is without
    return made, given


def _named_nodes(
    nodes: dict[str, Any], treeids: Any, nodeids: Any, ids: Any, weights: Any, targets: int
) -> dict[str, Any]:
    """The forest of versions 1 to 3, where a tree and a number name a node."""
    trees, modes = nodes["nodes_treeids"], nodes["nodes_modes"]
    place = {key: i for i, key in enumerate(zip(trees, nodes["nodes_nodeids"], strict=True))}
    if len(place) < len(trees):
        raise ValueError("two of its nodes have one name")
    unknown = {*modes} - {*_MODES} | {*modes} & {"BRANCH_MEMBER"}
    if unknown:
        raise NotImplementedError(f"the mode {min(unknown)!r}")
    yes, no = (
        [
            i if mode == "LEAF" else place[tree, to]
            for i, (mode, tree, to) in enumerate(zip(modes, trees, nodes[key], strict=True))
        ]
        for key in ("nodes_truenodeids", "nodes_falsenodeids")
    )
    led = {j for i, pair in enumerate(zip(yes, no, strict=True)) for j in pair if i != j}
    roots: dict[int, int] = {}
    for i, tree in enumerate(trees):
        if i not in led:
            roots.setdefault(tree, i)
    if len(roots) < len({*trees}):
        raise ValueError("one of its trees has no root")
    value = nodes.get("nodes_values_as_tensor")
    value = _row(nodes["nodes_values"]) if value is None else value
    if not len(value) == len(modes) == len(nodes["nodes_featureids"]):
        raise ValueError("its nodes have other numbers of values, modes and features")
    at = [place[key] for key in zip(treeids, nodeids, strict=True)]
    rows: dict[int, int] = {}
    for i in at:
        rows.setdefault(i, len(rows) + 1)
    table = _table([rows[i] for i in at], ids, weights, len(rows), targets, value.dtype)
    return _forest(
        [*roots.values()], nodes["nodes_featureids"], value, modes, yes, no,
        nodes.get("nodes_missing_value_tracks_true"), [rows.get(i, 0) for i in range(len(trees))],
        table, [],
    )  # fmt: skip


def _leaves(x: Tensor, t: dict[str, Any]) -> Tensor:
    """(N, trees): the row of weights that each row comes to in each tree."""
    at = t["roots"].expand(x.shape[0], -1)
    for _ in range(t["depth"]):
        v, limit = x.gather(1, t["feature"][at]), t["value"][at]
        kinds = t["kinds"]
        less, same, more = kinds if isinstance(kinds, tuple) else kinds[at].unbind(-1)
        if less is True and same is True:  # as nearly all forests have it
            true = v <= limit
        else:
            true = ((v < limit) & less) | ((v == limit) & same) | ((v > limit) & more)
        if t["sets"] is not None:
            true = true | (v.unsqueeze(-1) == t["sets"][t["member"][at]]).any(-1)
        if t["tracks"] is not None:
            true = true | (pf.isnan(v) & t["tracks"][at])
        at = pf.where(true, t["yes"][at], t["no"][at])
    return t["leaf"][at]


def _grown(x: Tensor, how: str, base: Any, t: dict[str, Any]) -> Tensor:
    """(N, targets): what all trees say together."""
    x = x.reshape(-1, x.shape[-1]).to(t["value"].dtype)
    at = _leaves(x, t)
    each = t["weights"][at]  # (N, trees, targets)
    if how in ("MIN", "MAX"):
        sign = 1 if how == "MAX" else -1
        given = pf.ones_like(each, dtype=pf.bool) if t["given"] is None else t["given"][at]
        found = sign * pf.where(given, sign * each, -pf.inf).amax(1)
        found = pf.where(given.any(1), found, 0)
    elif how in ("SUM", "AVERAGE"):
        found = each.sum(1) / (each.shape[1] if how == "AVERAGE" else 1)
    else:
        raise NotImplementedError(f"the aggregate function {how!r}")
    return found if base is None else found + base


def _first_tensor(plain: Any, tensor: Any) -> Any:
    """Numbers that an attribute has, or, in doubles, another."""
    found = _first(tensor, plain)
    return found if found is None or isinstance(found, np.ndarray) else _row(found)


_NODES = """nodes_featureids nodes_hitrates nodes_hitrates_as_tensor nodes_missing_value_tracks_true
nodes_modes nodes_nodeids nodes_falsenodeids nodes_treeids nodes_truenodeids nodes_values
nodes_values_as_tensor base_values base_values_as_tensor"""


def _regressor(
    *, n_targets: int = 1, target_treeids: Any, target_nodeids: Any, target_ids: Any,
    target_weights: Any = None, target_weights_as_tensor: Any = None, **nodes: Any,
) -> dict[str, Any]:  # fmt: skip
    weights = _first_tensor(target_weights, target_weights_as_tensor)
    found = _named_nodes(nodes, target_treeids, target_nodeids, target_ids, weights, n_targets)
    base = _first_tensor(nodes.get("base_values"), nodes.get("base_values_as_tensor"))
    return {"base": base, **found}


@op("TreeEnsembleRegressor", ML, _regressor, _NODES)
def tree_regressor(
    x: Tensor, *, aggregate_function: str = "SUM", post_transform: str, base: Any, **t: Any
) -> Tensor:
    return _transformed(_grown(x, aggregate_function, base, t), post_transform).float()


def _classifier(
    *, class_treeids: Any, class_nodeids: Any, class_ids: Any, class_weights: Any = None,
    class_weights_as_tensor: Any = None, classlabels_int64s: Any = None,
    classlabels_strings: Any = None, **nodes: Any,
) -> dict[str, Any]:  # fmt: skip
    labels = _labels(classlabels_int64s, classlabels_strings)
    weights = _first_tensor(class_weights, class_weights_as_tensor)
    found = _named_nodes(nodes, class_treeids, class_nodeids, class_ids, weights, len(labels))
    base = _first_tensor(nodes.get("base_values"), nodes.get("base_values_as_tensor"))
    only = {*class_ids} if len(labels) == 2 else set()
    positive = bool((np.asarray(weights) >= 0).all())
    return {"base": base, "labels": labels, "one": only.pop() if len(only) == 1 else None,
            "positive": positive, **found}  # fmt: skip


@op("TreeEnsembleClassifier", ML, _classifier, _NODES)
def tree_classifier(
    x: Tensor, *, post_transform: str, base: Any, labels: Any, one: int | None, positive: bool,
    **t: Any,
) -> Any:  # fmt: skip
    """Of two classes a forest may have weights for one alone."""
    if one is None:
        found = _grown(x, "SUM", base, t)
        return _named(found.argmax(-1), labels), _transformed(found, post_transform).float()
    found = _grown(x, "SUM", None, t)[:, one : one + 1]
    if base is not None:
        found = found + base[-1]
    at = (found[:, 0] > (0.5 if positive else 0)).long()
    return _named(at, labels), _two(found, post_transform, positive).float()


_BRANCHES = [*_MODES][:-1]
_POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def _ensemble(
    *, tree_roots: Any, nodes_featureids: Any, nodes_splits: Any, nodes_modes: Any,
    nodes_truenodeids: Any, nodes_trueleafs: Any, nodes_falsenodeids: Any, nodes_falseleafs: Any,
    leaf_targetids: Any, leaf_weights: Any, n_targets: int = 1, membership_values: Any = None,
    nodes_missing_value_tracks_true: Any = None, nodes_hitrates: Any = None,
) -> dict[str, Any]:  # fmt: skip
    count, leaves = len(nodes_modes), len(leaf_targetids)
    yes, no = (
        [
            to + count if is_leaf else to
            for to, is_leaf in zip(ids, leafs, strict=True)
        ]
        for ids, leafs in (
            (nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs),
        )
    )  # fmt: skip
    own = [*range(count, count + leaves)]
    modes = [*(_BRANCHES[m] for m in nodes_modes.tolist()), *["LEAF"] * leaves]
    none = np.zeros(leaves, nodes_splits.dtype)
    sets: list[list[float]] = [[]]
    for v in [] if membership_values is None else membership_values.tolist():
        if v == v:
            sets[-1].append(v)
        else:
            sets.append([])
    members = modes.count("BRANCH_MEMBER")
    table = _table(
        range(1, leaves + 1), leaf_targetids, leaf_weights, leaves, n_targets, leaf_weights.dtype
    )
    tracks = nodes_missing_value_tracks_true
    return _forest(
        tree_roots, [*nodes_featureids, *[0] * leaves], np.concatenate([nodes_splits, none]), modes,
        [*yes, *own], [*no, *own], [*tracks, *[0] * leaves] if tracks else None,
        [*[0] * count, *range(1, leaves + 1)], table, sets[:members],
    )  # fmt: skip


@op("TreeEnsemble", ML, _ensemble)
def tree_ensemble(
    x: Tensor, *, aggregate_function: int = 1, post_transform: int = 0, **t: Any
) -> Tensor:
    how = ["AVERAGE", "SUM", "MIN", "MAX"][aggregate_function]
    return _transformed(_grown(x, how, None, t), _POST[post_transform])


# --- support vector machines


def _machine(
    *, kernel_type: str, kernel_params: Any = None, support_vectors: Any = None, coefficients: Any,
    rho: Any, n_supports: int = 0, one_class: int = 0, vectors_per_class: Any = None,
    prob_a: Any = None, prob_b: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None,
) -> dict[str, Any]:  # fmt: skip
    count = sum(vectors_per_class) if vectors_per_class else n_supports
    if vectors_per_class and (not support_vectors or len(vectors_per_class) < 2):
        raise NotImplementedError("a machine of one class, or without vectors")
    return {
        "kernel": (kernel_type, *(kernel_params or (0.0, 0.0, 3.0))), "one_class": one_class,
        "vectors": _row(support_vectors).reshape(count, -1) if count else None,
        "weight": _row(coefficients).reshape(-1, count) if count else _row(coefficients),
        "bias": _row(rho), "of": vectors_per_class,
        "labels": _labels(classlabels_ints, classlabels_strings),
        "sure": (prob_a, prob_b) if prob_a else None,
    }  # fmt: skip


def _kernel(x: Tensor, vectors: Tensor, kernel: Any) -> Tensor:
    """(N, vectors): how near each row is to each vector."""
    kind, gamma, shift, degree = kernel
    if kind == "RBF":
        return pf.exp(-gamma * ((x.unsqueeze(1) - vectors) ** 2).sum(-1))
    near = x @ vectors.T
    if kind == "LINEAR":
        return near
    near = gamma * near + shift
    return pf.tanh(near) if kind == "SIGMOID" else near**degree


@op("SVMRegressor", ML, _machine)
def svm_regressor(
    x: Tensor, *, post_transform: str, kernel: Any, vectors: Any, weight: Tensor, bias: Tensor,
    one_class: int, of: Any, labels: Any, sure: Any,
) -> Tensor:  # fmt: skip
    x = x.float()
    near = x if vectors is None else _kernel(x, vectors, kernel)
    found = near @ weight.reshape(-1, 1) + bias[0]
    return pf.where(found > 0, 1.0, -1.0) if one_class else _transformed(found, post_transform)


@op("SVMClassifier", ML, _machine)
def svm_classifier(
    x: Tensor, *, post_transform: str, kernel: Any, vectors: Tensor, weight: Tensor, bias: Tensor,
    one_class: int, of: list[int], labels: Any, sure: Any,
) -> Any:  # fmt: skip
    """Each pair of classes has a machine; they vote, or say how sure they are."""
    near, count = _kernel(x.float(), vectors, kernel), len(of)
    begin = np.cumsum([0, *of]).tolist()
    scores: list[Tensor] = []
    votes, pairs = [near[:, 0] * 0] * count, []
    for i in range(count):
        for j in range(i + 1, count):
            first, second = slice(begin[i], begin[i + 1]), slice(begin[j], begin[j + 1])
            score = near[:, first] @ weight[j - 1, first] + near[:, second] @ weight[i, second]
            score = score + bias[len(scores)]
            votes[i], votes[j] = votes[i] + (score > 0), votes[j] + (score <= 0)
            scores.append(score)
            pairs.append((i, j))
    winner = _named(pf.stack(votes, 1).argmax(1), labels)
    if sure is None:
        found = pf.stack(scores, 1)
        if count == 2:
            found = _two(found, "NONE", post_transform != "NONE")
        else:
            found = _transformed(found, post_transform)
        return winner, found
    sides = [pf.sigmoid(-(s * a + b)) for s, a, b in zip(scores, *sure, strict=True)]
    between = np.zeros((x.shape[0], count, count))
    for (i, j), side in zip(pairs, sides, strict=True):
        between[:, i, j] = values.array(side).clip(1e-7, 1 - 1e-7)
        between[:, j, i] = 1 - between[:, i, j]
    found = values.tensor(_coupled(between).astype(np.float32), x.device)
    return winner, _transformed(found, post_transform)


def _coupled(between: np.ndarray) -> np.ndarray:
    """(N, classes): probabilities that fit those of pairs best, to where libsvm goes on to."""
    n, k, _ = between.shape
    q = -between.transpose(0, 2, 1) * between
    own = np.arange(k)
    q[:, own, own] = (between**2).sum(1)
    p = np.full((n, k), 1 / k)
    going = np.ones(n, bool)
    for _ in range(max(100, k)):
        qp = np.einsum("nij,nj->ni", q, p)
        pqp = (p * qp).sum(1)
        going &= np.abs(qp - pqp[:, None]).max(1) >= 0.005 / k
        if not going.any():
            break
        new = p.copy()
        for t in range(k):
            step = (pqp - qp[:, t]) / q[:, t, t]
            new[:, t] += step
            pqp = (pqp + step * (step * q[:, t, t] + 2 * qp[:, t])) / (1 + step) ** 2
            qp = (qp + step[:, None] * q[:, t]) / (1 + step)[:, None]
            new /= (1 + step)[:, None]
        p = np.where(going[:, None], new, p)
    return p
