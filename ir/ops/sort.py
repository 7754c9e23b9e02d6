"""Sorts of rows.

All work on keys (``sort_keys``). Numbers of 16 bits and more are sorted in vectors, by comparisons;
others, and positions, digit by digit.

A row is sorted by its digits, the least significant first, each time in the order of the elements
so far: n steps a digit whatever the values are, and equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import IntExpr, product, symbol, typical
from ..dtype import INT32, INT64, DType
from ..errors import LoopwrightTypeError
from ..graph.compose import F, Value, taken_along
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, normalise_axis, upper_bound
from ..graph.types import TensorType
from ..loop.expr import Expr, cast, const, index, op, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, At, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, attr, composite, primitive
from .sampling import extremes, floats, ints, sample, specials, truths
from .sort_keys import STACK_ROW_BYTES, by_network, element, in_vectors, key, key_type

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step

WIDE_DIGIT = 11  # bits of a digit of long rows: 2,048 counters fill a quarter of L1
SHORT_ROW = 64  # elements up to which counting those before each is faster than digits
LONG_ROW = 1 << 12  # elements from which wide digits pay
NETWORK = 16  # elements of a row up to which the rows are sorted in lanes, by a network
COMPARED_KEYS = 16  # elements that are compared with the least of the best at a time
_DESCENDING = attr("True for the greatest first", False)
_AXIS = attr("the axis to sort along", -1)


def rows_rule(x: TensorType, dtype: DType) -> TensorType:
    """Returns the type of what is computed of rows: their shape, and ``dtype``."""
    if x.rank != 2:
        raise LoopwrightTypeError(f"rows have two axes, not {x.short}")
    return TensorType(x.shape, dtype)


def order_of(x: Any, descending: bool) -> Any:
    """Returns the stable order along the last axis, nan as the greatest."""
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    size = x.shape[-1]
    return size - 1 - np.flip(np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)


def _sorted(x: Any, descending: bool) -> Any:
    """Returns the elements in order, -0 before 0."""
    if x.dtype.kind != "f":
        return np.take_along_axis(x, order_of(x, descending), -1)
    order = np.lexsort((np.where(x == 0, ~np.signbit(x), False), x), axis=-1)
    return np.take_along_axis(x, np.flip(order, -1) if descending else order, -1)


def _row_samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(floats(rng, (3, 37))),
        sample(specials("float32")[None, :], descending=True),
        sample(specials("float64")[None, :]),
        sample(floats(rng, (2, 5), "float64"), descending=True),
        sample(np.stack([extremes("int8")] * 2)),
        sample(ints(rng, (4, 50), "int64"), descending=True),
        sample(ints(rng, (4, 50), "uint16", 0, 9)),
        sample(truths(rng, (2, 9)), descending=True),
        sample(floats(rng, (0, 3))),
        sample(floats(rng, (3, 1))),
        sample(floats(rng, (1, 4200))),
    ]


class _Sort:
    """The statements that sort the rows of ``x``; of the elements, or of their positions.

    The keys of a row are made first, then moved from one buffer to another, digit by digit, and
    beside them the positions. Short rows count for each element those that are before it.
    """

    def __init__(self, x: Tensor, descending: bool, positions: bool) -> None:
        self.x, self.descending, self.positions = x, descending, positions
        self.rows, self.size = x.shape
        self.kind = key_type(x.dtype)
        bits = self.kind.bits
        constant = isinstance(self.size, int)
        self.counts_all = constant and self.size <= SHORT_ROW
        self.digit = WIDE_DIGIT if typical(self.size) >= LONG_ROW and bits > 8 else 8
        self.passes = 1 if self.counts_all else -(-bits // self.digit)
        between = self.passes - 1
        self.keys = [self.buffer(f"keys{n}", self.kind) for n in range(min(2, 1 + between))]
        self.places = [self.buffer(f"places{n}", INT32) for n in range(min(2, between) * positions)]
        row = upper_bound(self.size) * max(self.kind.bytes, 4)
        self.on_stack = constant and row <= STACK_ROW_BYTES

    def buffer(self, name: str, dtype: DType) -> Buffer:
        return Buffer(name, (self.rows, self.size), dtype)

    @property
    def body(self) -> Body:
        if 0 in (self.rows, self.size):
            return Body(lambda _out: [])
        return Body(self.statements, () if self.on_stack else (*self.keys, *self.places))

    def at(self, place: IntExpr) -> tuple[IntExpr, IntExpr]:
        """The indices of an element of the row in a buffer beside it."""
        return (0 if self.on_stack else symbol("r"), place)

    def key(self, buffer: int, place: IntExpr) -> Expr:
        return read(self.keys[buffer].name, self.at(place), self.kind)

    def statements(self, out: str) -> Sequence[Stmt]:
        private: list[Stmt] = []
        for b in (*self.keys, *self.places) if self.on_stack else ():
            private.append(Alloc(Buffer(b.name, (1, self.size), b.dtype), Scope.STACK))
        n = symbol("n")
        made = key(self.x(symbol("r"), n), self.descending, equal_zeros=self.positions)
        keys = Loop(LoopKind.FOR, "n", self.size, (Store(self.keys[0].name, self.at(n), made),))
        if self.counts_all:
            body = [*private, keys, *self.by_rank(out)]
        else:
            counts = Buffer("counts", (self.passes, 1 << self.digit), INT32)
            moved = (s for p in range(self.passes) for s in self.moved(p, out))
            body = [*private, keys, Alloc(counts, Scope.STACK), *self.counted(), *moved]
        return [Loop(LoopKind.FOR, "r", self.rows, tuple(body))]

    def result(self, made: Expr, place: Expr) -> Expr:
        """The element of the result for a key and its position."""
        if self.positions:
            return cast(place, INT64)
        return element(made, self.x.dtype, self.descending)

    def by_rank(self, out: str) -> list[Stmt]:
        """Each element goes to the number of those before it, which counts earlier equal ones."""
        m, j, t = symbol("m"), symbol("j"), symbol("t")
        ranks = Buffer("ranks", (self.size,), self.kind if self.kind.bits >= 32 else INT32)
        mine, other = self.key(0, j), self.key(0, m)
        earlier = op("logical_and", op("equal", other, mine), op("less", index(m), index(j)))
        before = cast(op("logical_or", op("less", other, mine), earlier), ranks.dtype)
        clear = Store("ranks", (symbol("c"),), const(0, ranks.dtype))
        count = Accumulate("ranks", (j,), "sum", before)
        place = At.of(
            "q",
            self.size,
            cast(read("ranks", (t,), ranks.dtype), INT64),
            Store(out, (symbol("r"), symbol("q")), self.result(self.key(0, t), index(t))),
        )
        return [
            Alloc(ranks, Scope.STACK),
            Loop(LoopKind.FOR, "c", self.size, (clear,)),
            Loop(LoopKind.FOR, "m", self.size, (Loop(LoopKind.FOR, "j", self.size, (count,)),)),
            Loop(LoopKind.FOR, "t", self.size, (place,)),
        ]

    def chosen(self, p: int, made: Expr) -> Expr:
        """Digit ``p`` of a key, as int64."""
        if p:
            made = op("right_shift", made, const(p * self.digit, made.dtype))
        return cast(op("bitwise_and", made, const((1 << self.digit) - 1, made.dtype)), INT64)

    def counted(self) -> list[Stmt]:
        """The number of elements with each digit, then of those with lesser ones."""
        p, d, e, f = (symbol(name) for name in "pdef")
        digits, one = 1 << self.digit, const(1, INT32)
        clear = Loop(LoopKind.FOR, "d", digits, (Store("counts", (p, d), const(0, INT32)),))
        before = read("total", (0,), INT32)
        sums = (
            Alloc(Buffer("total", (2,), INT32), Scope.REGISTERS),
            Store("total", (0,), const(0, INT32)),
            Loop(
                LoopKind.FOR,
                "e",
                digits,
                (
                    Store("total", (1,), read("counts", (p, e), INT32)),
                    Store("counts", (p, e), before),
                    Accumulate("total", (0,), "sum", read("total", (1,), INT32)),
                ),
            ),
        )
        added = [
            At.of("f", digits, self.chosen(q, self.held), Accumulate("counts", (q, f), "sum", one))
            for q in range(self.passes)
        ]
        return [
            Loop(LoopKind.FOR, "p", self.passes, (clear,)),
            Loop(LoopKind.FOR, "s", self.size, (*self.holds(self.key(0, symbol("s"))), *added)),
            Loop(LoopKind.FOR, "p", self.passes, sums),
        ]

    @property
    def held(self) -> Expr:
        return read("held", (0,), self.kind)

    def holds(self, made: Expr) -> tuple[Stmt, Stmt]:
        """Statements that keep a key in a register."""
        return Alloc(Buffer("held", (1,), self.kind), Scope.REGISTERS), Store("held", (0,), made)

    def moved(self, p: int, out: str) -> Sequence[Stmt]:
        """Moves the elements to where digit ``p`` puts them, in their order."""
        s, f, q = symbol("s"), symbol("f"), symbol("q")
        place = cast(index(s), INT32)
        if p and self.positions:
            place = read(self.places[(p - 1) % 2].name, self.at(s), INT32)
        if p == self.passes - 1:
            stores = [Store(out, (symbol("r"), q), self.result(self.held, place))]
        else:
            stores = [Store(self.keys[(p + 1) % 2].name, self.at(q), self.held)]
            if self.positions:
                stores.append(Store(self.places[p % 2].name, self.at(q), place))
        free = cast(read("counts", (p, f), INT32), INT64)
        step = At.of("q", self.size, free, *stores)
        counted = Accumulate("counts", (p, f), "sum", const(1, INT32))
        digit = At.of("f", 1 << self.digit, self.chosen(p, self.held), step, counted)
        return [Loop(LoopKind.FOR, "s", self.size, (*self.holds(self.key(p % 2, s)), digit))]


@primitive(
    "sort_rows",
    Pattern.OPAQUE,
    batch="folded",
    not_differentiable="passes make it of nn.sort, which has one",
    rule=lambda x, **_: rows_rule(x, x.dtype),
    reference=_sorted,
    samples=_row_samples,
)
def _sort_rows(_out: TensorType, x: Tensor, *, descending: bool = _DESCENDING) -> Body:
    """The elements of each row in order.

    ``x`` of any dtype and two axes. nan is the greatest, -0 less than 0. LoopwrightTypeError for
    another rank.

        fn (%x: Tensor[(3, 9), float32]) -> Tensor[(3, 9), float32] {
          sort_rows(%x)
        }
    """
    if x.dtype.bits >= 16 and not x.dtype.is_bool:
        return in_vectors(x, descending)
    return _Sort(x, descending, positions=False).body


@primitive(
    "sort_columns",
    Pattern.OPAQUE,
    not_differentiable="passes make it of nn.sort, which has one",
    rule=lambda x, positions, **_: rows_rule(x, INT64 if positions else x.dtype),
    reference=lambda x, descending, positions: (
        (order_of if positions else _sorted)(x.T, descending).T
    ),
    samples=lambda rng: [
        sample(np.stack([rng.permutation(specials("float64")) for _ in range(7)])),
        sample(truths(rng, (3, 9)), descending=True),
        sample(ints(rng, (16, 19), "int16", 0, 5), descending=True, positions=True),
        sample(np.stack([rng.permutation(specials("float32")) for _ in range(7)]), positions=True),
    ],
)
def _sort_columns(
    _out: TensorType,
    x: Tensor,
    *,
    descending: bool = _DESCENDING,
    positions: bool = attr("True for the int64 positions of elements of at most 32 bits", False),
) -> Body:
    """The elements of each column in order, by a network of pairs that are the same for all.

    ``x`` of any dtype and two axes, the first of 1 to 16 elements. nan is the greatest, -0 less
    than 0; positions of equal elements keep their order. LoopwrightTypeError for another rank.

        fn (%x: Tensor[(3, 9), float32]) -> Tensor[(3, 9), float32] {
          sort_columns(%x)
        }
    """
    return by_network(x, descending, positions)


@primitive(
    "argsort_rows",
    Pattern.OPAQUE,
    batch="folded",
    rule=lambda x, **_: rows_rule(x, INT64),
    reference=lambda x, descending: order_of(x, descending).astype(np.int64),
    samples=_row_samples,
)
def _argsort_rows(_out: TensorType, x: Tensor, *, descending: bool = _DESCENDING) -> Body:
    """The positions of the elements of each row in their order, int64; equal ones keep theirs.

    ``x`` of any dtype and two axes. nan is the greatest. LoopwrightTypeError for another rank.

        fn (%x: Tensor[(3, 9), float32]) -> Tensor[(3, 9), int64] {
          argsort_rows(%x)
        }
    """
    return _Sort(x, descending, positions=True).body


# -- the greatest elements ----------------------------------------------------------------------


# -- along any axis ------------------------------------------------------------------------------


def along_axis(x: Value, axis: int, function: Any) -> Value:
    """``function`` of the rows along an axis, which may change their length."""
    order = tuple(n for n in range(x.rank) if n != axis) + (axis,)
    moved = F.transpose(x, axes=order) if axis != x.rank - 1 else x
    rows = product(moved.shape[:-1])
    result = function(F.reshape(moved, newshape=(rows, moved.shape[-1])))
    result = F.reshape(result, newshape=(*moved.shape[:-1], result.shape[-1]))
    if axis == x.rank - 1:
        return result
    back = tuple(order.index(n) for n in range(x.rank))
    return F.transpose(result, axes=back)


def _sorted_along(x: Value, axis: int, descending: bool, positions: bool = False) -> Value:
    size, whole = x.shape[axis], typical(product(x.shape))
    short = isinstance(size, int) and 1 < size <= NETWORK and size * NETWORK <= whole

    def sort(rows: Value) -> Value:
        if not short or (positions and x.dtype.bits > 32):
            return (F.argsort_rows if positions else F.sort_rows)(rows, descending=descending)
        columns = F.transpose(rows, axes=(1, 0))
        columns = F.sort_columns(columns, descending=descending, positions=positions)
        return F.transpose(columns, axes=(1, 0))

    return along_axis(x, axis, sort)


def _axis_rule(x: TensorType, axis: Any, dtype: DType) -> TensorType:
    normalise_axis(axis, x.rank, x)
    return TensorType(x.shape, dtype)


def along_reference(x: Any, axis: int, function: Any, *options: Any) -> Any:
    """Returns ``function`` of the rows along an axis."""
    return np.moveaxis(function(np.moveaxis(x, axis, -1), *options), -1, axis)


def _axis_samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(floats(rng, (3, 9))),
        sample(floats(rng, (5, 7, 2)), axis=1, descending=True),
        sample(ints(rng, (9, 4), "int16", 0, 5), axis=0),
        sample(truths(rng, (7,)), axis=0),
    ]


def _sort_tangent(step: Step) -> Value:
    """The tangents in the order of the elements."""
    x, tangent = step.x(0), step.moved()
    order = F.nn.argsort(x, **step.attrs)
    return taken_along(tangent, order, step.attrs["axis"] % x.rank)


@composite(
    "nn.sort",
    Pattern.OPAQUE,
    rule=lambda x, axis, **_: _axis_rule(x, axis, x.dtype),
    reference=lambda x, axis, descending: along_reference(x, axis, _sorted, descending),
    samples=_axis_samples,
    dtypes=ANY,
    tangent=_sort_tangent,
)
def _sort(x: Value, *, axis: int = _AXIS, descending: bool = _DESCENDING) -> Value:
    """The elements in order along an axis.

    ``x`` of any dtype and a rank of 1 or more. nan is the greatest, -0 less than 0.
    LoopwrightValueError for an axis out of range.

        fn (%x: Tensor[(3, 9), float32]) -> Tensor[(3, 9), float32] {
          nn.sort(%x)
        }
    """
    return _sorted_along(x, axis % x.rank, descending)


@composite(
    "nn.argsort",
    Pattern.OPAQUE,
    rule=lambda x, axis, **_: _axis_rule(x, axis, INT64),
    reference=lambda x, axis, descending: along_reference(x, axis, order_of, descending),
    samples=_axis_samples,
    dtypes=ANY,
)
def _argsort(x: Value, *, axis: int = _AXIS, descending: bool = _DESCENDING) -> Value:
    """The positions of the elements in their order along an axis, int64; equal ones keep theirs.

    ``x`` of any dtype and a rank of 1 or more. nan is the greatest. LoopwrightValueError for an
    axis out of range.

        fn (%x: Tensor[(3, 9), float32]) -> Tensor[(3, 9), int64] {
          nn.argsort(%x)
        }
    """
    return _sorted_along(x, axis % x.rank, descending, positions=True)
