"""Strings, which only the host has: NumPy's arrays of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pyframe.onnx.graph import Run
from pyframe.onnx.table import op
from pyframe.onnx.values import Host


def _each(function: Any, x: Host, dtype: Any = str) -> Host:
    return np.array([function(str(s)) for s in x.ravel()], dtype).reshape(x.shape)


@op("StringConcat")
def string_concat(x: Host, y: Host) -> Any:
    return np.char.add(x, y)


@op("RegexFullMatch")
def regex_full_match(x: Host, *, pattern: str) -> Any:
    return _each(lambda s: re.fullmatch(pattern, s) is not None, x, bool)


@op("StringSplit")
def string_split(x: Host, *, delimiter: str = "", maxsplit: int = -1) -> Any:
    parts = [str(s).split(delimiter or None, maxsplit) for s in x.ravel()]
    most = max(map(len, parts), default=0)
    made = np.array([p + [""] * (most - len(p)) for p in parts], str).reshape(*x.shape, most)
    return made, np.array([len(p) for p in parts], np.int64).reshape(x.shape)


@op("StringNormalizer")
def string_normalizer(
    x: Host, *, case_change_action: str, is_case_sensitive: int, locale: str = "",
    stopwords: Any = None,
) -> Any:  # fmt: skip
    changes: dict[str, Any] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    change = changes[case_change_action]
    fold = str if is_case_sensitive else str.lower
    stopped = {fold(s) for s in stopwords or ()}
    rows = x.reshape(-1, x.shape[-1])
    kept = [[change(str(s)) for s in row if fold(str(s)) not in stopped] for row in rows]
    kept = [row or [""] for row in kept]
    return np.array(kept, str).reshape(*x.shape[:-1], len(kept[0]))


@op("TfIdfVectorizer")
def tf_idf(
    x: Host, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: list[int], ngram_indexes: list[int], pool_int64s: Any = None,
    pool_strings: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    pool = pool_int64s or pool_strings or []
    grams: dict[tuple[Any, ...], int] = {}
    for n, start in enumerate(ngram_counts, 1):
        end = ngram_counts[n] if n < len(ngram_counts) else len(pool)
        for i in range(start, end, n):
            grams[tuple(pool[i : i + n])] = len(grams)
    width = max(ngram_indexes, default=-1) + 1
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    made = np.zeros((len(rows), width), np.float32)
    for row, found in zip(rows.tolist(), made, strict=True):
        for n in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, 2 if n == 1 else max_skip_count + 2):
                for i in range(len(row) - (n - 1) * skip):
                    at = grams.get(tuple(row[i : i + n * skip : skip]))
                    if at is not None:
                        found[ngram_indexes[at]] += 1
    scale = np.ones(width, np.float32)
    if weights:
        scale[ngram_indexes] = weights
    if mode == "IDF":
        made = np.minimum(made, 1)
    if mode != "TF":
        made *= scale
    return made.reshape(*x.shape[:-1], width) if x.ndim > 1 else made[0]


@op("LabelEncoder", "ai.onnx.ml")
def label_encoder(
    x: Host, *, run: Run, keys_tensor: Any = None, values_tensor: Any = None,
    default_tensor: Any = None, keys_int64s: Any = None, keys_strings: Any = None,
    keys_floats: Any = None, values_int64s: Any = None, values_strings: Any = None,
    values_floats: Any = None, default_int64: int = -1, default_string: str = "_Unused",
    default_float: float = -0.0,
) -> Any:  # fmt: skip
    def first(*options: Any) -> Any:
        return next((o for o in options if o is not None), None)

    keys = first(keys_tensor, keys_int64s, keys_strings, keys_floats)
    found = first(values_tensor, values_int64s, values_strings, values_floats)
    kind = np.asarray(found).dtype if values_floats is None else np.dtype(np.float32)
    usual = {"i": default_int64, "U": default_string, "f": default_float}[kind.kind]
    if default_tensor is not None:
        usual = default_tensor.item()
    keys, found = np.asarray(keys).tolist(), np.asarray(found).tolist()
    table = dict(zip(keys, found, strict=True))
    nan = next((v for k, v in zip(keys, found, strict=True) if k != k), usual)
    made = [nan if v != v else table.get(v, usual) for v in x.ravel().tolist()]
    return np.array(made, kind).reshape(x.shape)
