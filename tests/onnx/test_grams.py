"""``TfIdfVectorizer`` against a count of n-grams, one by one."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import helper
from onnx_models import model, value

RNG = np.random.default_rng(0)
POOLS = [[(2,), (3,), (7,)], [(1, 2), (2, 2), (3, 1)], [(1, 2, 3), (3, 3, 3)]]
INDEXES = [4, 0, 2, 7, 1, 9, 3, 6]  # columns 5 and 8 have no n-gram
WEIGHTS = [0.5, 2.0, 1.0, 3.0, 0.25, 1.5, 4.0, 2.5]


def counted(row: Any, gram: tuple[int, ...], skips: int) -> int:
    found = 0
    for step in range(1, skips + 2) if len(gram) > 1 else [1]:
        for start in range(len(row) - (len(gram) - 1) * step):
            found += all(row[start + n * step] == token for n, token in enumerate(gram))
    return found


def vectorizer(**attributes: Any) -> Any:
    options = {
        "max_gram_length": 3,
        "max_skip_count": 1,
        "min_gram_length": 1,
        "mode": "TF",
        "ngram_counts": [0, 3, 9],
        "ngram_indexes": INDEXES,
        "pool_int64s": [token for pool in POOLS for gram in pool for token in gram],
    }
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(options | attributes))
    return model([node], [value("x", None, np.int64)], ["y"])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("lengths", [(1, 3), (2, 2), (1, 1)])
@pytest.mark.parametrize("skips", [0, 2])
def test_n_grams_are_counted_and_weighted(mode: str, lengths: tuple[int, int], skips: int) -> None:
    least, most = lengths
    proto = vectorizer(
        mode=mode, min_gram_length=least, max_gram_length=most, max_skip_count=skips,
        weights=WEIGHTS,
    )  # fmt: skip
    x = RNG.integers(1, 4, (3, 12))
    want = np.zeros((3, 10), np.float32)
    grams = [gram for pool in POOLS for gram in pool]
    for gram, column, weight in zip(grams, INDEXES, WEIGHTS, strict=True):
        for number, row in enumerate(x):
            count = counted(row, gram, skips) if least <= len(gram) <= most else 0
            count = min(count, 1) if mode == "IDF" else count
            want[number, column] = count * (1 if mode == "TF" else weight)
    f = lw.from_onnx(proto, shapes={"x": x.shape})
    np.testing.assert_array_equal(f.run({"x": x})["y"], want)
    np.testing.assert_array_equal(lw.from_onnx(proto, shapes={"x": (12,)})(x[0]), want[0])
    np.testing.assert_array_equal(lw.from_onnx(proto, constants={"x": x}).run({})["y"], want)


def test_rows_that_are_shorter_than_the_n_grams() -> None:
    x = np.array([3, 1])
    made = lw.from_onnx(vectorizer(), shapes={"x": (2,)})(x)
    assert np.flatnonzero(made).tolist() == [0, 9]  # the token 3, and (3, 1)


@pytest.mark.parametrize(
    "attributes,message",
    [
        ({"mode": "BM25"}, "its mode is 'BM25'"),
        ({"ngram_indexes": [0, 1]}, "it has 2 indices for another pool"),
        ({"ngram_indexes": [0] * 8}, "n-grams that share a column"),
        ({"pool_strings": ["a"]}, "a pool of strings"),
    ],
)
def test_what_does_not_fit_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        lw.from_onnx(vectorizer(**attributes), shapes={"x": (4,)})
