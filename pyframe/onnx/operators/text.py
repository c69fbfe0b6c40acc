"""Strings, which only the host has: NumPy's arrays of them."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from pyframe.io.regexes import see_that_it_ends
from pyframe.onnx.table import op
from pyframe.onnx.values import TEXTS, Host, see_room, strings


@op("StringConcat")
def string_concat(x: Host, y: Host) -> Any:
    see_room(np.broadcast_shapes(x.shape, y.shape), x.itemsize + y.itemsize, TEXTS)
    return np.char.add(x, y)


@functools.lru_cache(64)
def _regex(pattern: str) -> re.Pattern[str]:
    see_that_it_ends(pattern)
    try:
        return re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(f"the regex {pattern!r:.80} can't be read: {error}") from None


@op("RegexFullMatch")
def regex_full_match(x: Host, *, pattern: str) -> Any:
    found = [_regex(pattern).fullmatch(str(s)) is not None for s in x.ravel()]
    return np.array(found, bool).reshape(x.shape)


@op("StringSplit")
def string_split(x: Host, *, delimiter: str = "", maxsplit: int = -1) -> Any:
    parts = [str(s).split(delimiter or None, maxsplit) for s in x.ravel()]
    most = max(map(len, parts), default=0)
    longest = max((len(s) for p in parts for s in p), default=1)
    see_room([*x.shape, most], 4 * longest, TEXTS)
    made = strings([s for p in parts for s in (*p, *[""] * (most - len(p)))], (*x.shape, most))
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
    return strings([s for row in kept for s in row], (*x.shape[:-1], len(kept[0])), x.nbytes)


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
        for i in range(start, min(end, len(pool)), n):
            grams[tuple(pool[i : i + n])] = len(grams)
    width = max(ngram_indexes, default=-1) + 1
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    see_room([len(rows), width], 4)
    made = np.zeros((len(rows), width), np.float32)
    for row, found in zip(rows.tolist(), made, strict=True):
        for n in range(max(min_gram_length, 1), min(max_gram_length, len(row)) + 1):
            most = 1 if n == 1 else min(max_skip_count + 1, (len(row) - 1) // (n - 1))
            for skip in range(1, most + 1):
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
