"""Code for arguments of one structure: it reads the same leaves as the walk, or answers None."""

from __future__ import annotations

import importlib
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import hypothesis
import hypothesis.strategies as st
import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.core.arguments import quick_key
from loopwright.tracer.core.pytree import flatten, unflatten
from loopwright.tracer.core.pytree_code import reader, writer

Pair = namedtuple("Pair", "left right")
NONE: frozenset[int | str] = frozenset()


@dataclass(slots=True)
class Box:
    inside: Any


LEAVES = st.sampled_from(
    [np.ones(2, np.float32), np.zeros(2, np.float32), 1, 2.0, np.float32(3), True, None, "a", "b"]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.builds(lambda x: OrderedDict(z=x), inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)
CALLS = st.tuples(
    st.lists(TREES, min_size=1, max_size=2), st.dictionaries(st.sampled_from("xy"), TREES)
)


def collect(*leaves: Any) -> list[Any]:
    return list(leaves)


@hypothesis.given(CALLS, CALLS)
def test_a_reader_takes_what_has_the_key_it_was_made_for(left: Any, right: Any) -> None:
    read = reader(left[0], left[1], NONE, collect)
    assert read is not None
    for args, kwargs in (left, right):
        if kwargs and not left[1]:
            continue  # the function has no such parameters, and the caller knows
        found = read(*args, **kwargs)
        walked = quick_key(args, kwargs, NONE)
        assert walked is not None
        if found is None:
            mine = quick_key(left[0], left[1], NONE)
            assert mine is not None and mine[0] != walked[0]
        else:
            assert len(found) == len(walked[1])
            for a, b in zip(found, walked[1], strict=True):
                assert a is b or (a.shape == () and a == b and a.dtype == np.asarray(b).dtype)


@hypothesis.given(TREES)
def test_a_writer_is_unflatten(tree: Any) -> None:
    leaves, structure = flatten(tree)
    known = [None if isinstance(leaf, np.ndarray) else (leaf,) for leaf in leaves]
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    made = writer(structure, known)(arrays)
    assert flatten(made)[1] == structure
    ours, theirs = flatten(made)[0], flatten(unflatten(structure, leaves))[0]
    assert all(a is b for a, b in zip(ours, theirs, strict=True))


def test_containers_of_results_are_new_each_time() -> None:
    structure = flatten({"a": [1]})[1]
    write = writer(structure, [None])
    first, second = write([1]), write([1])
    assert first == second == {"a": [1]} and first is not second and first["a"] is not second["a"]


def test_deep_trees_are_written_and_read() -> None:
    tree: Any = np.ones(2, np.float32)
    for _ in range(300):
        tree = (tree,)
    leaves, structure = flatten(tree)
    assert flatten(writer(structure, [None])(leaves))[0][0] is leaves[0]
    read = reader([tree], {}, NONE, collect)
    assert read is not None and read(tree)[0] is leaves[0]


def test_a_static_argument_that_can_change_is_left_to_the_key() -> None:
    assert reader([np.ones(2), ("a", 1)], {}, frozenset({1}), collect) is None
    read = reader([np.ones(2), 3], {}, frozenset({1}), collect)
    assert read is not None
    assert read(np.ones(2), 3) is not None
    assert read(np.ones(2), 4) is None and read(np.ones(2), 3.0) is None


def test_later_calls_walk_over_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("loopwright.tracer")

    @lw.compile
    def step(params: Any, x: Any, scale: float = 1.0) -> Any:
        return {k: [v["w"] * x, v["b"] + scale] for k, v in params.items()}

    def params(n: int) -> Any:
        rows = np.arange(n, dtype=np.float32)
        return {k: {"w": rows + i, "b": rows * i} for i, k in enumerate("abcd")}

    def check(n: int, scale: float) -> None:
        given, x = params(n), np.full(n, 3, np.float32)
        for found in (step(given, x, scale), step(params=given, x=x, scale=scale)):
            for k, v in given.items():
                np.testing.assert_array_equal(found[k][0], v["w"] * x)
                np.testing.assert_array_equal(found[k][1], v["b"] + np.float32(scale))

    for _ in range(3):
        check(8, 2.0)
        check(9, 2.5)
    walked: list[Any] = []

    def spy(*args: Any) -> Any:
        walked.append(args)
        return quick_key(*args)

    monkeypatch.setattr(module, "quick_key", spy)
    for _ in range(2):
        check(8, 4.0)
        check(9, 5.0)
    assert not walked
    given = params(8)
    given["a"]["w"] = given["a"]["w"].astype(np.float64)
    assert step(given, np.ones(8, np.float32))["a"][0].dtype == np.float64
    moved = {k: given[k] for k in "dcba"}
    assert list(step(moved, np.ones(8, np.float32))) == list("dcba")
    assert walked
