"""Searches of sorted rows for the places at which values go in.

Few elements are counted: the comparisons with all of them are vector code without gathers, and
fuse with what is around. Rows of more are searched by halves, many values at a time: each step is
a loop over a block of values, whose reads do not wait for one another, and no step branches
(P. Khuong and P. Morin, "Array Layouts for Comparison-Based Searching", 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, int_min, product, symbol
from ..dtype import INT32, INT64
from ..errors import LoopwrightTypeError
from ..graph.compose import F, Value
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, require_shape, same_dtype, upper_bound
from ..graph.types import TensorType
from ..loop.expr import Expr, IndexLike, cast, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, Element, attr, composite, primitive
from .sampling import floats, ints, sample, truths

COUNTED = 32  # elements of a row up to which all are compared with each value
SEARCHED_AT_ONCE = 256  # values whose places stay in L1 while they are searched
STEPS_AT_ONCE = 4  # values of a block that one iteration takes a step with
_RIGHT = attr("True for the place behind equal elements", False)


def _rule(x: TensorType, values: TensorType, **_: Any) -> TensorType:
    same_dtype([x, values])
    error = LoopwrightTypeError(
        f"{x.short} holds rows to be searched for {values.short}: one row, or the same rows"
    )
    if x.rank == 0:
        raise error
    if x.rank > 1:
        require_shape(x.shape[:-1], values.shape[:-1], error)
    return TensorType(values.shape, INT64)


def _reference(x: Any, values: Any, right: bool) -> Any:
    side = "right" if right else "left"
    if x.ndim == 1:
        return np.searchsorted(x, values, side).astype(np.int64)
    count = product(x.shape[:-1])
    rows, wanted = x.reshape(count, x.shape[-1]), values.reshape(count, -1 if values.size else 0)
    places = [np.searchsorted(r, v, side) for r, v in zip(rows, wanted, strict=True)]
    return np.array(places, np.int64).reshape(values.shape)


def _few_samples(rng: np.random.Generator) -> Sequence[Sample]:
    def rows(x: Any) -> Any:
        return np.sort(x, axis=-1)

    return [
        sample(rows(floats(rng, (9,))), floats(rng, (4, 5))),
        sample(rows(ints(rng, (16,), "int32", 0, 9)), ints(rng, (12,), "int32", -1, 10)),
        sample(rows(ints(rng, (17,), "int32", 0, 9)), ints(rng, (12,), "int32"), right=True),
        sample(rows(floats(rng, (3, 7), "float64")), floats(rng, (3, 5), "float64"), right=True),
        sample(rows(floats(rng, (1,))), floats(rng, (5,))),
        sample(np.zeros((0,), "float32"), floats(rng, (5,))),
        sample(
            np.array([-1, 0, 2, np.nan, np.nan], "float32"),
            np.array([np.nan, -2, 2, 5, np.inf], "float32"),
        ),
    ]


def _row_samples(rng: np.random.Generator) -> Sequence[Sample]:
    def unknown(x: Any, count: int) -> Any:
        x[..., -count:] = np.nan
        return x

    long = np.sort(floats(rng, (1, 300)))
    return [
        sample(long, floats(rng, (1, 2 * SEARCHED_AT_ONCE + 7))),
        sample(unknown(long.copy(), 9), unknown(floats(rng, (1, 50)), 3)),
        sample(unknown(long.copy(), 9), unknown(floats(rng, (1, 50)), 3), right=True),
        sample(np.sort(ints(rng, (3, 64), "int8", 0, 9)), ints(rng, (3, 12), "int8"), right=True),
        sample(np.sort(truths(rng, (2, 63))), truths(rng, (2, 5))),
        sample(np.sort(floats(rng, (2, 1), "float64")), floats(rng, (2, 3), "float64")),
        sample(floats(rng, (2, 0)), floats(rng, (2, 3))),
        sample(floats(rng, (0, 4)), floats(rng, (0, 3))),
        sample(np.sort(floats(rng, (1, 40))), floats(rng, (1, 0))),
    ]


@primitive(
    "search_few",
    Pattern.INJECTIVE,
    rule=_rule,
    reference=_reference,
    samples=_few_samples,
)
def _search_few(_out: TensorType, x: Tensor, values: Tensor, *, right: bool = _RIGHT) -> Element:
    """The places at which values go into short sorted rows, int64: the number of lesser elements.

    As ``nn.searchsorted``; each value is compared with every element of its row.

        fn (%x: Tensor[(9), float32], %values: Tensor[(4, 5), float32]) -> Tensor[(4, 5), int64] {
          search_few(%x, %values)
        }
    """

    size = as_int(x.shape[-1])

    def element(*i: IndexLike) -> Expr:
        row = i[:-1] if len(x.shape) > 1 else ()
        place: Expr = const(0, INT32)
        for n in range(size):
            place = op("add", place, cast(_goes_behind(x(*row, n), values(*i), right), INT32))
        return cast(place, INT64)

    return element


def _goes_behind(element: Expr, value: Expr, right: bool) -> Expr:
    """True if the value goes behind the element."""
    test = op("less_equal" if right else "less", element, value)
    if not value.dtype.is_float:
        return test
    last = op("isnan", value)  # behind all numbers, and behind other nans on the right
    if right:
        return op("logical_or", test, last)
    return op("logical_or", test, op("logical_and", last, op("equal", element, element)))


def _rows_rule(x: TensorType, values: TensorType, **_: Any) -> TensorType:
    if x.rank != 2 or values.rank != 2:
        raise LoopwrightTypeError(f"rows have two axes, not {x.short} and {values.short}")
    return _rule(x, values)


@primitive(
    "search_rows",
    Pattern.OPAQUE,
    batch="folded",
    rule=_rows_rule,
    reference=_reference,
    samples=_row_samples,
)
def _search_rows(_out: TensorType, x: Tensor, values: Tensor, *, right: bool = _RIGHT) -> Body:
    """The places at which values go into sorted rows, int64: the number of lesser elements.

    As ``nn.searchsorted``, of operands with two axes. LoopwrightTypeError for another rank.

        fn (%x: Tensor[(3, 90), int8], %values: Tensor[(3, 5), int8]) -> Tensor[(3, 5), int64] {
          search_rows(%x, %values)
        }
    """
    return Body(_Search(x, values, right).statements)


class _Search:
    """The statements that search row ``r`` of ``x`` for the values of row ``r``.

    A place, in the result, is a number of elements known to be before the value. There are as many
    more as the rows are long, less than twice ``power``: after the first step less than ``power``,
    and each next step halves that.
    """

    def __init__(self, x: Tensor, values: Tensor, right: bool) -> None:
        self.x, self.values, self.right = x, values, right
        self.rows, length = x.shape
        self.length, self.count = length, values.shape[1]
        self.size = length if isinstance(length, int) else 0
        self.power = 1 << self.size.bit_length() >> 1

    def statements(self, out: str) -> Sequence[Stmt]:
        if 0 in (self.rows, self.count):
            return []
        if isinstance(self.length, Dim) or isinstance(self.count, Dim):
            return self.one_by_one(out)
        blocks, rest = divmod(self.count, SEARCHED_AT_ONCE)
        body: list[Stmt] = []
        if blocks:
            searched = self.block(out, symbol("b") * SEARCHED_AT_ONCE, SEARCHED_AT_ONCE)
            body.append(Loop(LoopKind.FOR, "b", blocks, tuple(searched)))
        if rest:
            body += self.block(out, blocks * SEARCHED_AT_ONCE, rest)
        return [Loop(LoopKind.FOR, "r", self.rows, tuple(body))]

    def one_by_one(self, out: str) -> Sequence[Stmt]:
        """The statements for symbolic sizes: one value after the other, by as many steps as the
        longest row needs; a step that leaves the row is not taken."""
        r, k = symbol("r"), symbol("k")
        here, place = (r, k), read(out, (r, k), INT64)
        last = index(self.length - 1)
        steps: list[Stmt] = []
        for power in reversed(range(upper_bound(self.length).bit_length())):
            behind = self.behind(place, 1 << power)
            element = self.x(r, op("minimum", behind, last))
            inside = op("less_equal", behind, last)
            test = op("logical_and", inside, _goes_behind(element, self.values(*here), self.right))
            steps.append(self.taken(out, here, test, 1 << power))
        some = Loop(LoopKind.FOR, "s", int_min(self.length, 1), tuple(steps))
        each = Loop(LoopKind.FOR, "k", self.count, (Store(out, here, const(0, INT64)), some))
        return [Loop(LoopKind.FOR, "r", self.rows, (each,))]

    def block(self, out: str, begin: IntExpr, count: int) -> list[Stmt]:
        """Searches for ``count`` values from ``begin`` on."""
        r, k = symbol("r"), symbol("k")

        def each(place: IntExpr, made: Expr) -> Stmt:
            return Loop(LoopKind.FOR, "k", count, (Store(out, (r, place), made),))

        here = begin + k
        if not self.size:
            return [each(here, const(0, INT64))]
        value = self.values(r, here)
        first = self.before(self.x(r, self.power - 1), value)
        begun = const(self.size - self.power + 1, INT64)
        stmts: list[Stmt] = [each(here, select(first, begun, const(0, INT64)))]
        groups, rest = divmod(count, STEPS_AT_ONCE)
        half = self.power // 2
        while half:
            if groups:
                place = begin + symbol("g") * STEPS_AT_ONCE + symbol("u")
                step = Loop(LoopKind.UNROLL, "u", STEPS_AT_ONCE, (self.step(out, place, half),))
                stmts.append(Loop(LoopKind.FOR, "g", groups, (step,)))
            if rest:
                place = begin + groups * STEPS_AT_ONCE + symbol("u")
                stmts.append(Loop(LoopKind.UNROLL, "u", rest, (self.step(out, place, half),)))
            half //= 2
        if not value.dtype.is_float:
            return stmts
        last: Expr = const(self.size, INT64)
        if not self.right:
            stmts += self.numbers()
            last = read("numbers", (0,), INT64)
        return [*stmts, each(here, select(op("isnan", value), last, read(out, (r, here), INT64)))]

    def before(self, element: Expr, value: Expr) -> Expr:
        """True if a value, not nan, goes behind an element."""
        return op("less_equal" if self.right else "less", element, value)

    def step(self, out: str, place: IntExpr, half: int) -> Stmt:
        """Takes one of the values past ``half`` elements if the last of them is before it."""
        here = (symbol("r"), place)
        element = self.x(symbol("r"), self.behind(read(out, here, INT64), half))
        return self.taken(out, here, self.before(element, self.values(*here)), half)

    def numbers(self) -> list[Stmt]:
        """Counts the elements of the row before nan."""

        def number(place: IndexLike) -> Expr:
            element = self.x(symbol("r"), place)
            return op("equal", element, element)

        begun = const(self.size - self.power + 1, INT64)
        stmts: list[Stmt] = [
            Alloc(Buffer("numbers", (1,), INT64), Scope.REGISTERS),
            Store("numbers", (0,), select(number(self.power - 1), begun, const(0, INT64))),
        ]
        half = self.power // 2
        while half:
            place = self.behind(read("numbers", (0,), INT64), half)
            stmts.append(self.taken("numbers", (0,), number(place), half))
            half //= 2
        return stmts

    def behind(self, place: Expr, half: int) -> Expr:
        """The last of the ``half`` elements from a place on."""
        return op("add", place, const(half - 1, INT64))

    def taken(self, buffer: str, place: tuple[IntExpr, ...], test: Expr, half: int) -> Stmt:
        """Moves a place by ``half`` elements if a test is True."""
        step = op("multiply", cast(test, INT64), const(half, INT64))
        return Accumulate(buffer, place, "sum", step)


@composite(
    "nn.searchsorted",
    Pattern.OPAQUE,
    rule=_rule,
    reference=_reference,
    samples=lambda rng: [
        *_few_samples(rng),
        sample(np.sort(floats(rng, (100,))), floats(rng, (3, 4))),
        sample(np.sort(floats(rng, (2, 3, 50))), floats(rng, (2, 3, 7)), right=True),
    ],
    dtypes=ANY,
)
def _searchsorted(x: Value, values: Value, *, right: bool = _RIGHT) -> Value:
    """The places at which values go into sorted rows, int64: the number of lesser elements.

    ``x`` holds one sorted row, or as many as ``values``; nan is the greatest. ``right`` counts
    equal elements, too. The search is binary and without branches. LoopwrightTypeError for
    different dtypes or rows.

        fn (%x: Tensor[(9), float32], %values: Tensor[(4, 5), float32]) -> Tensor[(4, 5), int64] {
          nn.searchsorted(%x, %values)
        }
    """
    size = x.shape[-1]
    if isinstance(size, int) and size <= COUNTED:
        return F.search_few(x, values, right=right)
    rows = product(x.shape[:-1])
    count = values.shape[-1] if x.rank > 1 else product(values.shape)
    places = F.search_rows(
        F.reshape(x, newshape=(rows, size)), F.reshape(values, newshape=(rows, count)), right=right
    )
    return F.reshape(places, newshape=values.shape)
