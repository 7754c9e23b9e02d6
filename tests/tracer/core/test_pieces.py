"""Pytrees, quick keys, spans and hints by themselves; the examples in the documentation run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import hypothesis.strategies as st
import loopwright as lw
import loopwright.tracer
import numpy as np
import pytest
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.graph.types import TensorType
from loopwright.tracer.core.arguments import quick_key
from loopwright.tracer.core.error_context import suggest
from loopwright.tracer.core.pytree import LEAF, flatten, paths, unflatten
from loopwright.tracer.core.spans import caret_lines, operand_texts, segment, span_of

Pair = namedtuple("Pair", "left right")
X = np.ones((2, 3), np.float32)


@dataclass(slots=True)
class Box:
    inside: Any
    computed: int = field(default=3, init=False)


TREES = st.recursive(
    st.integers() | st.text(max_size=2) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Box, inner)
    ),
    max_leaves=12,
)


@hypothesis.given(TREES)
def test_flatten_and_unflatten_are_inverse(tree: Any) -> None:
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert len(paths(structure, "x")) == len(leaves)
    assert hash(structure) == hash(flatten(tree)[1])


@hypothesis.given(TREES)
def test_paths_lead_to_the_leaves(tree: Any) -> None:
    leaves, structure = flatten(tree)
    for path, leaf in zip(paths(structure, "tree"), leaves, strict=True):
        assert eval(path, {"tree": tree}) is leaf


def test_a_leaf_is_its_own_tree() -> None:
    assert flatten(5) == ([5], LEAF)
    assert paths(LEAF, "x") == ["x"]


NONE: frozenset[int | str] = frozenset()


def key(*args: Any, **kwargs: Any) -> Any:
    found = quick_key(args, kwargs, NONE)
    return None if found is None else found[0]


@hypothesis.given(TREES, TREES)
def test_equal_keys_mean_equal_structures_and_statics(left: Any, right: Any) -> None:
    if key(left) == key(right):
        ours, theirs = flatten(left), flatten(right)
        assert ours[1] == theirs[1]
        assert [x for x in ours[0] if isinstance(x, str)] == [
            x for x in theirs[0] if isinstance(x, str)
        ]


def test_keys_tell_kinds_apart() -> None:
    different = [
        key(X),
        key(X[:1]),
        key(X.astype(np.float64)),
        key([X]),
        key((X,)),
        key({"x": X}),
        key(x=X),
        key(1),
        key(1.0),
        key(True),
        key(None),
        key("1"),
        key(),
        key(X, X),
        key([X, X]),
        key(X.astype(">f4")),
    ]
    assert len(set(different)) == len(different)
    assert key(np.float32(1)) != key(np.array(1, np.float32))  # that can be changed in place
    assert key(2) == key(3)
    assert key({1, 2}) is None


def test_static_arguments_are_in_the_key_by_value() -> None:
    def static(*args: Any, **kwargs: Any) -> Any:
        found = quick_key(args, kwargs, frozenset({1, "axis"}))
        return None if found is None else found[0]

    assert static(X, 1) != static(X, 2)
    assert static(X, 1) != static(X, True)
    assert static(X, axis=1) != static(X, axis=2)
    assert static(X, [1]) is None


def test_span_and_carets_of_this_line() -> None:
    frame = sys._getframe()
    span = span_of(frame) if frame else None
    assert span is not None
    assert segment(span) == "span_of(frame)"
    code, carets = caret_lines(span)
    assert code.endswith("span = span_of(frame) if frame else None")
    assert carets.index("^") == code.index("span_of(frame)")
    assert carets.count("^") == len("span_of(frame)")
    assert span.function == "test_span_and_carets_of_this_line"


def test_columns_count_characters_not_bytes() -> None:
    frame = sys._getframe()
    größe = [span_of(frame), "ä"]
    assert segment(größe[0]) == "span_of(frame)"  # type: ignore[arg-type]


def test_a_span_over_several_lines() -> None:
    frame = sys._getframe()
    span = span_of(
        frame,
    )
    assert segment(span) == "span_of( frame, )"
    assert len(caret_lines(span)) == 2


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("a + b.c", ["a", "b.c"]),
        ("-x", ["x"]),
        ("a < b", ["a", "b"]),
        ("x[1:]", ["x"]),
        ("f(a, [b, c], key=d)", ["a", "b", "c", "d"]),
        ("x.sum(1)", ["x", "1"]),
        ("x += y", ["x", "y"]),
        ("not python (", []),
        ("", []),
    ],
)
def test_operand_texts(source: str, texts: list[str]) -> None:
    assert operand_texts(source) == texts


def _type(*shape: int) -> TensorType:
    return TensorType(shape, FLOAT32)


@pytest.mark.parametrize(
    ("operation", "left", "right", "hint"),
    [
        ("matmul", ("x", _type(8, 6)), ("w", _type(3, 6)), "x @ w.T"),
        ("matmul", ("x", _type(8, 6)), ("w.T", _type(3, 6)), "x @ w"),
        ("matmul", ("x + 1", _type(8, 6)), ("a + b", _type(3, 6)), "(x + 1) @ (a + b).T"),
        ("matmul", ("q", _type(2, 8, 6)), ("k", _type(2, 9, 6)), "q @ k.mT"),
        ("matmul", ("x", _type(6, 8)), ("w", _type(6, 3)), "x.T @ w"),
        ("matmul", ("x", _type(6, 8)), ("s", _type()), "x * s"),
        ("matmul", ("x", _type(5, 8)), ("w", _type(6, 3)), None),
        ("add", ("x", _type(8, 6)), ("b", _type(8)), "x + b[:, None]"),
        ("add", ("b", _type(8)), ("x", _type(8, 6)), "b[:, None] + x"),
        ("maximum", ("x", _type(8, 6)), ("b", _type(8)), "b[:, None]"),
        ("maximum", ("b", _type(8)), ("x", _type(8, 6)), "b[:, None]"),
        ("multiply", ("x", _type(2, 3, 4)), ("y", _type(2, 3)), "x * y[:, :, None]"),
        ("add", ("x", _type(8, 6)), ("b", _type(5)), None),
        ("bitwise_and", ("x", _type(4)), ("1", None), "x.astype(np.int64)"),
    ],
)
def test_hints(operation: str, left: Any, right: Any, hint: str | None) -> None:
    assert suggest(operation, [left, right]) == hint


PACKAGES = [
    loopwright.tracer,
    *(
        importlib.import_module(f"loopwright.tracer.{name}")
        for name in ("core", "memory", "numpy", "nn", "control", "rewriting")
    ),
]
MODULES = [
    *(f"{p.__name__}.{m.name}" for p in PACKAGES for m in pkgutil.iter_modules(p.__path__)),
    *("loopwright", "loopwright.config"),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation(name: str) -> None:
    if name.endswith("special"):
        pytest.importorskip("scipy.special")
    ways = {"np": np, "lw": lw, "nn": lw.nn}
    assert doctest.testmod(importlib.import_module(name), extraglobs=ways).failed == 0
