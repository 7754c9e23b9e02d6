"""Algebraic data types: compiled functions take, make and match them as Python does."""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer.data import boundary
from random_data import difference, draw_data, draw_value
from random_draw import RandomDraw


@lw.data
class Tree: ...


class Leaf(Tree):
    x: float


class Node(Tree):
    left: Tree
    right: Tree


@lw.data
class Holder:
    tree: Tree


@lw.data
class List: ...


class Nil(List): ...


class Cons(List):
    head: lw.f32[2]
    tail: List


TREES = (
    Leaf(3.0),
    Node(Leaf(1.0), Leaf(2.0)),
    Node(Node(Leaf(1.0), Leaf(5.0)), Node(Leaf(2.0), Node(Leaf(3.0), Leaf(4.0)))),
)


def listed(*numbers: float) -> Any:
    made: Any = Nil()
    for number in reversed(numbers):
        made = Cons(np.array([number, -number], np.float32), made)
    return made


def total(tree: Any) -> Any:
    match tree:
        case Leaf(x):
            return x
        case Node(left, right):
            return total(left) + 2 * total(right)


def mirrored(tree: Any) -> Any:
    match tree:
        case Node(Leaf(a), Leaf(b)) if a > b:
            return Leaf(a - b)
        case Node(left, right):
            return Node(mirrored(right), mirrored(left))
        case leaf:
            return leaf


def by_isinstance(tree: Any) -> Any:
    depth = 0
    while isinstance(tree, Node):
        tree = tree.right
        depth = depth + 1
    return depth, tree.x


def of_one_of_several(tree: Any) -> Any:
    return (1 if isinstance(tree, (Leaf, int)) else 2), isinstance(tree, (int, Tree))


@pytest.mark.parametrize("function", [total, mirrored, by_isinstance, of_one_of_several])
def test_trees(function: Callable[..., Any]) -> None:
    compiled = lw.compile(function)
    for tree in TREES:
        assert not difference(compiled(tree), function(tree))
    before = compiled.cache_info().misses
    compiled(Node(TREES[2], TREES[1]))
    assert compiled.cache_info().misses == before  # other sizes are no other kind


def reversed_list(xs: Any) -> Any:
    made = Nil()
    while True:
        match xs:
            case Cons(head, tail):
                made, xs = Cons(head, made), tail
            case Nil():
                return made


def added(xs: Any, ys: Any) -> Any:
    match xs, ys:
        case Cons(x, more), Cons(y, others):
            return Cons(x + y, added(more, others))
        case _:
            return Nil()


def counted(n: Any) -> Any:
    made = Nil()
    for i in range(n):
        made = Cons(np.full(2, i, np.float32), made)
    return made


def test_lists() -> None:
    xs, ys = listed(1, 2, 3), listed(5, 6)
    assert not difference(lw.compile(reversed_list)(xs), reversed_list(xs))
    assert not difference(lw.compile(added)(xs, ys), added(xs, ys))
    assert not difference(lw.compile(counted)(3), counted(3))
    assert not difference(lw.compile(lambda x: (x, x.tail))(xs), (xs, xs.tail))


def test_a_value_in_a_value_of_another_argument() -> None:
    f = lw.compile(lambda one, other: (Node(other, Node(one, Leaf(1.0))), total(other)))
    assert not difference(
        f(TREES[1], TREES[2]), (Node(TREES[2], Node(TREES[1], Leaf(1.0))), total(TREES[2]))
    )


def difference_of_two(x: Any) -> Any:
    """Both alternatives bind both names, in two orders."""
    for value in Node(Leaf(1.0), 2.0), (3.0, Leaf(5.0)):
        match value:
            case Node(Leaf(a), b) | (b, Leaf(a)):
                x = 2 * x + a - b
            case _:
                x = x + 100
    return x if x > 0 else -x


def test_alternatives_bind_names_in_any_order() -> None:
    assert lw.compile(difference_of_two)(2.0) == difference_of_two(2.0) == 8.0


def quadrant(x: Any, y: Any) -> Any:
    match (x > 0, y > 0):
        case (True, True):
            return x + y
        case (True, False):
            return x - y
        case _:
            return -x


def is_itself(x: Any) -> Any:
    return x + 1 if (x > 0) is True else x - 1


@pytest.mark.parametrize("x", [1.0, -1.0, np.float64(1.0)])
def test_conditions_of_python_are_true_or_false_themselves(x: Any) -> None:
    assert lw.compile(is_itself)(x) == is_itself(x)
    for y in 2.0, -2.0:
        assert lw.compile(quadrant)(x, y) == quadrant(x, y)


def test_long_lists() -> None:
    count = 20_000
    long = listed(*range(count))

    @lw.compile
    def length(xs: Any) -> Any:
        return lw.match(xs, {Nil: lambda: 0, Cons: lambda _, tail: 1 + length(tail)})

    assert length(long) == count


def test_gradients() -> None:
    def loss(scale: Any, tree: Any) -> Any:
        match tree:
            case Leaf(x):
                return np.tanh(scale * x)
            case Node(left, right):
                return loss(scale, left) * loss(scale, right) + scale

    step = 1e-6
    got = lw.compile(lw.grad(loss))(0.5, TREES[2])
    wanted = (loss(0.5 + step, TREES[2]) - loss(0.5 - step, TREES[2])) / (2 * step)
    assert got == pytest.approx(wanted, rel=1e-6)


def test_a_call_that_makes_too_many_values() -> None:
    @lw.data(capacity=16)
    class Few: ...

    class End(Few): ...

    class More(Few):
        rest: Few

    @lw.compile
    def chain(n: Any) -> Any:
        made = End()
        for _ in range(n):
            made = More(made)
        return made

    assert isinstance(chain(16), More)
    with pytest.raises(MemoryError, match=r"more than 16 values of More: @lw.data\(capacity=64\)"):
        chain(17)


def head(xs: Any) -> Any:
    match xs:
        case Cons(x, Nil()):
            return x
        case Nil():
            return np.zeros(2, np.float32)


def ordered(one: Any, other: Any) -> Any:
    return one == other


def mixed(x: Any) -> Any:
    return Cons(x, Nil())


def parts(xs: Any) -> Any:
    return xs.width


WRONG = [
    (head, (listed(1, 2),), r"no case for Cons\(_, Cons\(_, _\)\)"),
    (ordered, (TREES[0], TREES[1]), "no order, truth or equality"),
    (mixed, (np.zeros(3, np.float32),), r"Cons.head is float32\[2\], and this is float32\[3\]"),
    (mixed, (np.zeros(2),), r"Cons.head is float32\[2\], and this is float64\[2\]"),
    (parts, (listed(1),), "no constructor of List has a field width"),
    (total, (Node(Leaf(1.0), 3.0),), "a float stands where a Tree is expected"),
    (parts, (Holder(Holder(Leaf(2.0))),), "Holder.tree is a Tree, and a Holder in one value"),
    (total, (Leaf(np.float32(2.0)),), r"Leaf.x is a float of Python's, and a float32 in one"),
    (lambda x: Leaf(x.sum()), (np.zeros(2),), r"Leaf.x is float, and this is float64\[\]"),
    (head, (Cons(np.zeros(3, np.float32), Nil()),), r"Cons.head is float32\[3\] in one value"),
]


@pytest.mark.parametrize(("function", "args", "message"), WRONG)
def test_errors(function: Callable[..., Any], args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        lw.compile(function)(*args)


def test_values_do_not_change() -> None:
    leaf = Leaf(1.0)
    with pytest.raises(AttributeError, match=r"Leaf.x cannot be changed"):
        leaf.x = 2.0
    with pytest.raises(AttributeError, match=r"Leaf.x cannot be deleted"):
        del leaf.x
    with pytest.raises(lw.LoopwrightTypeError, match="Own has a __setattr__, and values of data"):
        lw.data(type("Own", (), {"__setattr__": object.__setattr__}))


@pytest.mark.parametrize("most", [boundary.MOST_ROWS_KEPT, 4])
def test_what_is_kept_of_a_value_between_calls(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays in it may be written to; nothing is kept when it is gone, or when it is too much."""
    monkeypatch.setattr(boundary, "MOST_ROWS_KEPT", most)
    f = lw.compile(lambda xs, ys: (xs.head + ys.head, ys), donate_argnames="ys")
    xs, more = listed(1, 2), listed(5)
    before = repr(xs)
    for _ in range(2):
        for ys in xs, more:
            assert not difference(f(xs, ys), (xs.head + ys.head, ys))
    assert repr(xs) == before and id(more) in boundary._kept
    xs.head[:] = 7
    assert not difference(f(xs, xs), (np.full(2, 14, np.float32), xs))
    assert len(boundary._kept) <= 2 or most > 4
    key, alive = id(xs), weakref.ref(xs)
    del xs, ys
    assert alive() is None and key not in boundary._kept


def test_a_family_is_sealed() -> None:
    lw.compile(total)(TREES[0])
    with pytest.raises(lw.LoopwrightTypeError, match="sealed"):
        type("Late", (Tree,), {"__module__": __name__})
    with pytest.raises(lw.LoopwrightTypeError, match="have no others below"):
        type("Below", (Leaf,), {"__module__": __name__})


FIRST = random.Random("data types").randrange(1 << 30)


@pytest.mark.parametrize("seed", [FIRST, FIRST + 1])
def test_random_programs(seed: int) -> None:
    """``python tests/fuzz/data_run.py`` tries more of them."""
    draw = RandomDraw(seed)
    program = draw_data(draw)
    scope = program.run(f"data_program_{seed}")
    compiled = lw.compile(scope["main"])
    for _ in range(3):
        value = draw_value(draw, program, scope, "A")
        assert not difference(compiled(value), scope["main"](value)), f"seed {seed}\n{program}"


@lw.data
class Term: ...


class Number(Term):
    value: float


class Zero(Term): ...


class Negated(Term):
    term: Term


class Sum(Term):
    left: Term
    right: Term
    scale: lw.f32[2]


def scale(*numbers: float) -> Any:
    return np.array(numbers, np.float32)


TERMS = (
    Number(2.0),
    Zero(),
    Negated(Sum(Number(1.0), Zero(), scale(2, 3))),
    Sum(
        Sum(Number(1.0), Negated(Number(4.0)), scale(1, 2)),
        Sum(Zero(), Sum(Number(3.0), Number(0.5), scale(0, 1)), scale(-1, 2)),
        scale(0.5, 4),
    ),
)


def valued(term: Any, factor: Any, batch: int = 2) -> Any:
    return lw.fold(
        term,
        {
            Number: lambda value: (np.full(2, value, np.float32) * factor, 1),
            Zero: lambda: (np.zeros(2, np.float32), 0),
            Negated: lambda of: (-of[0], of[1]),
            Sum: lambda one, other, by: (by * (one[0] + np.tanh(other[0])), one[1] + other[1]),
        },
        batch=batch,
    )


def test_folds() -> None:
    factor = np.float32(0.5)
    one, two = lw.compile(valued), lw.compile(lambda a, b: valued(Sum(a, b, scale(1, 1)), factor))
    for term in TERMS:
        assert not difference(one(term, factor), valued(term, factor))
        assert [type(part) for part in one(term, factor)] == [np.ndarray, int]
        both = valued(Sum(term, TERMS[3], scale(1, 1)), factor)
        assert not difference(two(term, TERMS[3]), both)


def test_folds_of_shared_parts_in_batches_of_any_size() -> None:
    low = Negated(Number(3.0))
    shared = Sum(low, Sum(low, Number(1.0), scale(1, 2)), scale(0.5, 1))
    wide: Any = shared
    for n in range(11):  # each height has other numbers of values, and parts of several heights
        wide = Sum(Negated(Negated(Sum(low, wide, scale(n, 1)))), Negated(shared), scale(0.1, n))
    term = Sum(low, Sum(Sum(wide, low, scale(1, 1)), shared, scale(1, 1)), scale(1, 1))
    factor = np.float32(0.5)
    for batch in 1, 5:
        compiled = lw.compile(lambda term, batch=batch: valued(term, factor, batch))
        assert not difference(compiled(term), valued(term, factor))
        assert not difference(compiled(low), valued(low, factor))


def test_gradients_of_folds() -> None:
    def loss(factor: Any) -> Any:
        return (valued(TERMS[3], factor)[0] ** 2).sum()

    def of(factor: Any, term: Any) -> Any:
        return (valued(term, factor)[0] ** 2).sum()

    got = lw.compile(lw.grad(of))(np.float32(0.5), TERMS[3])
    assert got == pytest.approx((loss(0.51) - loss(0.49)) / 0.02, rel=1e-2)


def test_a_fold_that_lacks_a_function_or_gives_two_types() -> None:
    with pytest.raises(lw.LoopwrightTypeError, match="no function for Node, a constructor of Tree"):
        lw.fold(TREES[0], {Leaf: lambda x: x})
    two = {Leaf: lambda x: np.full(2, x), Node: lambda left, _: np.append(left, 0.0)}
    with pytest.raises(lw.LoopwrightTypeError, match=r"Node gives float64\[3\], and another one"):
        lw.compile(lambda tree: lw.fold(tree, two))(TREES[1])
