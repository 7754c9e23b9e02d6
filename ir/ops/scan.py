"""Scans: cumulative sums, products, maxima and minima along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import Dim, IntExpr, as_int, int_max, int_min, product, symbol, typical
from ..dtype import INT64, dtype_of
from ..errors import LoopwrightTypeError
from ..graph.builder import Builder
from ..graph.compose import F, Value, looped, scalar, taken_along
from ..graph.operator import Pattern, Sample
from ..graph.type_rules import ANY, normalise_axis
from ..graph.types import TensorType
from ..loop.expr import Expr, const, op, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.scalar import COMBINERS, SCALAR_OPS
from ..loop.tensor import Tensor
from ..traits import Trait
from .declare import Body, attr, composite, primitive
from .sampling import extremes, floats, ints, sample, specials, truths

if TYPE_CHECKING:
    from ..graph.derivatives.rules import Step


def _rule(x: TensorType, axis: Any, **_: Any) -> TensorType:
    if x.rank == 0:
        raise LoopwrightTypeError("a scalar has no axis to walk")
    normalise_axis(axis, x.rank, x)
    return x


def _reference(combiner: str) -> Callable[..., Any]:
    def reference(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        neutral = COMBINERS[combiner].identity(dtype_of(x.dtype))
        x = np.flip(x, axis) if reverse else x
        result = COMBINERS[combiner].numpy.accumulate(x, axis=axis, dtype=x.dtype)
        if exclusive:
            first = np.full_like(np.take(x, [0] if x.shape[axis] else [], axis), neutral)
            most = np.take(result, np.arange(max(0, x.shape[axis] - 1)), axis)
            result = np.concatenate([first, most], axis)
        return np.flip(result, axis) if reverse else result

    return reference


def _samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(floats(rng, (7,))),
        sample(floats(rng, (3, 5, 4)), axis=1),
        sample(floats(rng, (37, 21)), axis=1),
        sample(floats(rng, (5, 70), "float64"), axis=0, reverse=True),
        sample(floats(rng, (2, 9)), axis=-1, exclusive=True),
        sample(floats(rng, (2, 9)), axis=-1, exclusive=True, reverse=True),
        sample(specials("float32")[:16].reshape(4, 4), axis=1),
        sample(extremes("int8")),
        sample(ints(rng, (4, 6), "int64"), axis=0),
        sample(truths(rng, (3, 3)), axis=1),
        sample(floats(rng, (0, 3)), axis=1),
        sample(floats(rng, (3, 0)), axis=1, exclusive=True),
        sample(floats(rng, (1100,))),
    ]


_EXCLUSIVE = attr("True if an element is not part of its own result", False)
_REVERSE = attr("True to begin at the end", False)


def _declare(name: str, word: str, combiner: str, neutral: str) -> None:
    doc = f"""The {word} of the elements up to each one along an axis.

``x`` of any dtype and a rank of 1 or more; the result has its type (integers wrap around).
``exclusive`` leaves the element itself out, so that the first is {neutral};
``reverse`` begins at the end. LoopwrightTypeError for a scalar.

    fn (%x: Tensor[(3, 4), float32]) -> Tensor[(3, 4), float32] {{
      {name}(%x, axis=1)
    }}
"""

    @composite(
        name,
        Pattern.OPAQUE,
        traits=SCALAR_OPS[COMBINERS[combiner].op].traits & Trait.LINEAR,
        rule=_rule,
        reference=_reference(combiner),
        samples=_samples,
        dtypes=ANY,
        doc=doc,
    )
    def _along(
        x: Value,
        *,
        axis: int = attr("the axis to walk", 0),
        exclusive: bool = _EXCLUSIVE,
        reverse: bool = _REVERSE,
    ) -> Value:
        axis = axis % x.rank
        shape = (product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :]))
        rows = F.reshape(x, newshape=shape)
        backward = not x.builder.limits.scan_pieces and not reverse  # has no pieces
        rows = F.reverse(rows, axis=(1,)) if backward else rows
        made = F.scan(rows, combiner=combiner, exclusive=exclusive, reverse=reverse or backward)
        made = F.reverse(made, axis=(1,)) if backward else made
        return F.reshape(made, newshape=x.shape)


_COMBINERS = ("sum", "prod", "max", "min")


def _scan_rule(x: TensorType, combiner: Any, **_: Any) -> TensorType:
    if x.rank != 3 or combiner not in _COMBINERS:
        raise LoopwrightTypeError(f"{combiner} along the second of three axes, not of {x.short}")
    return x


def _scan_tangent(step: Step) -> Value:
    """Sums of tangents; of an extreme the tangent of the element that is it; of a product that of
    the product before times the element, and the other way round, one after the other."""
    x, tangent, attrs = step.x(0), step.moved(), step.attrs
    if attrs["combiner"] == "sum" or 0 in x.shape:
        return step.again(tangent)
    exclusive, reverse = attrs["exclusive"], attrs["reverse"]
    inclusive = F.scan(x, **{**attrs, "exclusive": False}) if exclusive else step.r
    if attrs["combiner"] == "prod":
        before = step.r if exclusive else F.scan(x, **{**attrs, "exclusive": True})
        made = _product_tangents(step.builder, x, tangent, before, reverse)
    else:
        last, combiner = (x.shape[1], "min") if reverse else (0, "max")
        place = x.iota(x.shape, 1)
        here = F.where(F.equal(x, inclusive), place, last)
        made = taken_along(tangent, F.scan(here, combiner=combiner, reverse=reverse), 1)
    return _moved_on(made, reverse) if exclusive else made


def _moved_on(x: Value, reverse: bool) -> Value:
    """Returns each row where the next one is, and zeros in front."""
    rows, size, columns = x.shape
    first = int(reverse)
    ones = (1, 1, 1)
    kept = F.strided_slice(
        x, begin=(0, first, 0), end=(rows, size - 1 + first, columns), strides=ones
    )
    return F.strided_set(x.full(x.shape, 0), kept, begin=(0, 1 - first, 0), strides=ones)


def _product_tangents(b: Builder, x: Value, tangent: Value, before: Value, reverse: bool) -> Value:
    """Returns the tangents of products up to each element, in a loop over the elements."""
    rows, size, columns = x.shape

    def step(k: Value, carried: Sequence[Value]) -> Sequence[Value]:
        at = size - 1 - k if reverse else k
        moved, element, product_before = (F.take(each, at, axis=1) for each in (tangent, x, before))
        here = carried[0] * element + product_before * moved
        return here, F.index_update(carried[1], here, at, axes=(1,))

    count = Value(b, scalar(b, size, INT64))
    begins = [x.full((rows, columns), 0), x.full(x.shape, 0)]
    return looped(count, begins, step)[1]


def _scan_samples(rng: np.random.Generator) -> Sequence[Sample]:
    return [
        sample(floats(rng, shape, dtype), combiner=combiner, exclusive=exclusive, reverse=reverse)
        for shape, dtype, combiner, exclusive, reverse in (
            ((2, 5, 37), "float32", "sum", False, False),
            ((1, 9, 70), "float64", "prod", True, True),
            ((37, 41, 1), "float32", "sum", False, False),
            ((16, 32, 1), "float64", "prod", False, True),
            ((20, 35, 1), "float32", "sum", True, True),
            ((33, 5, 1), "float32", "sum", True, False),
            ((1, 2100, 1), "float32", "sum", False, False),
            ((2, 1100, 1), "float64", "sum", True, False),
            ((2, 1100, 1), "float32", "sum", False, True),
            ((1, 1100, 1), "float32", "max", False, False),
            ((17, 20, 1), "float64", "min", True, True),
            ((3, 0, 2), "float32", "sum", False, False),
        )
    ]


@primitive(
    "scan",
    Pattern.OPAQUE,
    batch="folded",
    rule=_scan_rule,
    tangent=_scan_tangent,
    transpose=lambda step: step.add(
        0, F.scan(step.ct, **{**step.attrs, "reverse": not step.attrs["reverse"]})
    ),
    reference=lambda x, combiner, exclusive, reverse: _reference(combiner)(
        x, 1, exclusive, reverse
    ),
    samples=_scan_samples,
)
def _scan(
    _out: TensorType,
    x: Tensor,
    *,
    combiner: str = attr("sum, prod, max or min"),
    exclusive: bool = _EXCLUSIVE,
    reverse: bool = _REVERSE,
) -> Body:
    """The elements up to each one, combined, along the second of three axes.

    ``x`` of any dtype; cumsum, cumprod, cummax and cummin become this.

        fn (%x: Tensor[(3, 4, 1), float32]) -> Tensor[(3, 4, 1), float32] {
          scan(%x, combiner="sum")
        }
    """
    return Body(_Scan(x, combiner, exclusive, reverse).statements)


# Rows that are scanned in lanes, and elements of each that are transposed at a time.
SQUARE_SIDE = 16
ROW_PIECE = 64  # elements of each of ``SQUARE_SIDE`` pieces of one long row


class _Scan:
    """The statements of a scan of ``x[i, k, j]`` along ``k``.

    Columns read and write a row at a time: ``out[k, j] = out[k - 1, j] + x[k, j]``. Of many rows,
    ``SQUARE_SIDE`` are scanned in lanes, since each waits for its last sum; squares are transposed
    in registers. A long row is cut into pieces that are scanned like rows, then raised by the sums
    before them, while they are in L1.
    """

    def __init__(self, x: Tensor, combiner: str, exclusive: bool, reverse: bool) -> None:
        self.x, self.combiner = x, combiner
        self.exclusive, self.reverse = exclusive, reverse
        self.rows, self.size, self.columns = x.shape
        self.neutral = const(COMBINERS[combiner].identity(x.dtype), x.dtype)

    def statements(self, out: str) -> list[Stmt]:
        if 0 in (self.rows, self.size, self.columns):
            return []
        if self.columns != 1:
            return self.by_columns(out)
        if isinstance(self.size, Dim):
            return [loop("i", self.rows, *self.total(), *self.one_by_one(out, 0))]
        if 2 * typical(self.rows) >= SQUARE_SIDE:
            return self.by_rows(out)
        long = self.size // (SQUARE_SIDE * ROW_PIECE) * SQUARE_SIDE * ROW_PIECE
        if long and not self.reverse:
            return self.by_pieces(out, long)
        return [loop("i", self.rows, *self.total(), *self.one_by_one(out, 0))]

    def place(self, k: IntExpr) -> IntExpr:
        """The index of step ``k`` of the walk."""
        return self.size - 1 - k if self.reverse else k

    def by_columns(self, out: str) -> list[Stmt]:
        i, j, k = symbol("i"), symbol("j"), symbol("k")
        first, before, here = (
            (i, self.place(0), j),
            (i, self.place(k), j),
            (i, self.place(k + 1), j),
        )
        start = self.neutral if self.exclusive else self.x(*first)
        stmts = [loop("j", self.columns, Store(out, first, start))]
        if isinstance(self.size, Dim):  # there may be no row
            stmts = [loop("f", int_min(self.size, 1), *stmts)]
        if self.size != 1:
            step = (
                Store(out, here, read(out, before, self.x.dtype)),
                Accumulate(out, here, self.combiner, self.x(*(before if self.exclusive else here))),
            )
            rest = int_max(0, self.size - 1)
            stmts.append(loop("k", rest, loop("j", self.columns, *step)))
        return [loop("i", self.rows, *stmts)]

    def total(self) -> tuple[Stmt, Stmt]:
        return (
            Alloc(Buffer("total", (1,), self.x.dtype), Scope.STACK),
            Store("total", (0,), self.neutral),
        )

    def one_by_one(self, out: str, begin: int, first_row: IntExpr = 0) -> list[Stmt]:
        """The rest of row ``first_row + i`` behind the first ``begin`` steps, whose sum is the
        total."""
        here = (symbol("i") + first_row, self.place(symbol("k") + begin), 0)
        add = Accumulate("total", (0,), self.combiner, self.x(*here))
        keep = Store(out, here, read("total", (0,), self.x.dtype))
        rest = self.size - begin
        steps = (keep, add) if self.exclusive else (add, keep)
        return [loop("k", rest, *steps)] if rest != 0 else []

    def by_rows(self, out: str) -> list[Stmt]:
        groups, rest = self.rows // SQUARE_SIDE, self.rows % SQUARE_SIDE
        stmts: list[Stmt] = []
        if groups != 0:
            stmts.append(
                loop("g", groups, *self.group(out, symbol("g") * SQUARE_SIDE, SQUARE_SIDE))
            )
        if isinstance(rest, Dim):
            first = groups * SQUARE_SIDE
            return [*stmts, loop("i", rest, *self.total(), *self.one_by_one(out, 0, first))]
        return stmts + (self.group(out, groups * SQUARE_SIDE, rest) if rest else [])

    def group(self, out: str, begin: IntExpr, rows: int) -> list[Stmt]:
        """Scans ``rows`` rows from ``begin`` on in lanes."""
        squares, rest = divmod(as_int(self.size), SQUARE_SIDE)

        def place(k: IntExpr) -> tuple[IntExpr, IntExpr, IntExpr]:
            return (begin + symbol("v"), k, 0)

        def square(first: IntExpr, width: int) -> list[Stmt]:
            here = place(first + symbol("c"))
            return self.square(self.x(*here), lambda value: Store(out, here, value), width, rows)

        t = symbol("t")
        first = self.size - SQUARE_SIDE - SQUARE_SIDE * t if self.reverse else SQUARE_SIDE * t
        stmts = self.lane_totals(rows)
        if squares:
            stmts.append(loop("t", squares, *square(first, SQUARE_SIDE)))
        if rest:
            stmts += square(0 if self.reverse else squares * SQUARE_SIDE, rest)
        return stmts

    def lane_totals(self, rows: int) -> list[Stmt]:
        return [
            Alloc(Buffer("totals", (rows,), self.x.dtype), Scope.REGISTERS),
            lanes(rows, Store("totals", (symbol("v"),), self.neutral)),
        ]

    def square(
        self, element: Expr, store: Callable[[Expr], Stmt], width: int, rows: int
    ) -> list[Stmt]:
        """Scans ``width`` elements ``c`` of the row in each lane ``v``, and stores them."""
        dtype, c, v = self.x.dtype, symbol("c"), symbol("v")
        step = width - 1 - c if self.reverse else c
        part, totals = read("part", (step, v), dtype), read("totals", (v,), dtype)
        add = lanes(rows, Accumulate("totals", (v,), self.combiner, part))
        keep = lanes(rows, Store("part", (step, v), totals))
        scanned: list[Stmt] = [add, keep]
        if self.exclusive:
            scanned = [
                Alloc(Buffer("before", (rows,), dtype), Scope.REGISTERS),
                lanes(rows, Store("before", (v,), totals)),
                add,
                lanes(rows, Store("part", (step, v), read("before", (v,), dtype))),
            ]

        def unrolled(*stmts: Stmt) -> Stmt:
            return Loop(LoopKind.UNROLL, "c", width, stmts)

        return [
            Alloc(Buffer("part", (width, rows), dtype), Scope.REGISTERS),
            unrolled(lanes(rows, Store("part", (c, v), element))),
            unrolled(*scanned),
            unrolled(lanes(rows, store(read("part", (c, v), dtype)))),
        ]

    def by_pieces(self, out: str, long: int) -> list[Stmt]:
        dtype, block = self.x.dtype, SQUARE_SIDE * ROW_PIECE
        i, b, t, c, v, w = (symbol(name) for name in "ibtcvw")
        tile = (v, SQUARE_SIDE * t + c)
        scanned = self.square(
            self.x(i, block * b + ROW_PIECE * v + SQUARE_SIDE * t + c, 0),
            lambda value: Store("tile", tile, value),
            SQUARE_SIDE,
            SQUARE_SIDE,
        )
        raised = op(
            COMBINERS[self.combiner].op,
            read("tile", (w, c), dtype),
            read("total", (0,), dtype),
        )
        stmts = [
            Alloc(Buffer("tile", (SQUARE_SIDE, ROW_PIECE), dtype), Scope.STACK),
            Alloc(Buffer("sums", (SQUARE_SIDE,), dtype), Scope.STACK),
            *self.lane_totals(SQUARE_SIDE),
            loop("t", ROW_PIECE // SQUARE_SIDE, *scanned),
            lanes(SQUARE_SIDE, Store("sums", (v,), read("totals", (v,), dtype))),
            loop(
                "w",
                SQUARE_SIDE,
                Loop(
                    LoopKind.VECTORIZE,
                    "c",
                    ROW_PIECE,
                    (Store(out, (i, block * b + ROW_PIECE * w + c, 0), raised),),
                ),
                Accumulate("total", (0,), self.combiner, read("sums", (w,), dtype)),
            ),
        ]
        blocks = loop("b", long // block, *stmts)
        return [loop("i", self.rows, *self.total(), blocks, *self.one_by_one(out, long))]


def loop(var: str, extent: IntExpr, *body: Stmt) -> Loop:
    """Returns a serial loop."""
    return Loop(LoopKind.FOR, var, extent, body)


def lanes(count: int, stmt: Stmt) -> Loop:
    """Returns a statement that runs in lanes ``v``."""
    return Loop(LoopKind.VECTORIZE, "v", count, (stmt,))


_declare("cumsum", "sum", "sum", "0")
_declare("cumprod", "product", "prod", "1")
_declare("cummax", "maximum", "max", "the least value of the dtype")
_declare("cummin", "minimum", "min", "the greatest value of the dtype")
