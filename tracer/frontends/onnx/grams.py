"""The converter of ``TfIdfVectorizer``, which counts n-grams: rows of tokens that a pool has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtype import Array
from ....ir.errors import LoopwrightValueError, UnsupportedError
from .table import Value, converter


@converter("TfIdfVectorizer", since=9)
def _tfidf_vectorizer(
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] = (),
    pool_strings: tuple[str, ...] = (),
    weights: tuple[float, ...] = (),
) -> Value:
    """Counts how often the tokens of each n-gram stand in a row, each so many places behind the one
    before it; single tokens are counted once, for no number of skipped places."""
    if pool_strings:
        raise UnsupportedError("a pool of strings is not supported")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise LoopwrightValueError(f"its mode is {mode!r}")
    ends = [*ngram_counts[1:], len(pool_int64s)]
    pools = [
        np.array(pool_int64s[begin:end], np.int64).reshape(-1, length)
        for length, (begin, end) in enumerate(zip(ngram_counts, ends, strict=True), 1)
    ]
    if sum(map(len, pools)) != len(ngram_indexes):
        raise LoopwrightValueError(f"it has {len(ngram_indexes)} indices for another pool")
    tokens = x.astype(np.int64)
    parts: list[Value] = []
    for length, grams in enumerate(pools, 1):
        total = np.zeros((*x.shape[:-1], len(grams)), np.float32)
        if len(grams) and min_gram_length <= length <= max_gram_length:
            for skipped in range(max_skip_count + 1 if length > 1 else 1):
                total = total + _occurrences(tokens, grams, skipped + 1)
        parts.append(total)
    counts = np.concatenate(parts, axis=-1)
    if mode == "IDF":
        counts = np.minimum(counts, np.float32(1))
    if mode != "TF" and weights:
        counts = counts * np.array(weights, np.float32)
    # The n-gram of each column; the column of zeros behind the last n-gram, if there is none.
    column = np.full(max(ngram_indexes) + 1, len(ngram_indexes))
    column[list(ngram_indexes)] = np.arange(len(ngram_indexes))
    if len(set(ngram_indexes)) < len(ngram_indexes):
        raise UnsupportedError("n-grams that share a column are not supported")
    none = np.zeros((*x.shape[:-1], 1), np.float32)
    return np.take(np.concatenate([counts, none], axis=-1), column, axis=-1)


def _occurrences(tokens: Value, grams: Array, step: int) -> Any:
    """Returns how often each row of ``grams`` stands in the tokens, with this distance between two
    tokens; float32."""
    length = grams.shape[1]
    places = tokens.shape[-1] - (length - 1) * step
    if isinstance(places, int) and places <= 0:
        return np.zeros((*tokens.shape[:-1], len(grams)), np.float32)
    equal: Value = np.True_
    for n in range(length):
        part = tokens[..., n * step : n * step + places]
        equal = np.logical_and(equal, part[..., None] == grams[:, n])
    return np.sum(equal.astype(np.float32), axis=-2)
