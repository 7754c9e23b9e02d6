"""The first elements of an order: nn.top_k_indices, and the primitive that finds them in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, symbol, typical
from ..dtype import INT64
from ..errors import LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.limits import few_first
from ..graph.operator import Pattern
from ..graph.requirements import demand
from ..graph.type_rules import ANY, normalise_axis
from ..graph.types import TensorType
from ..loop.expr import Expr, cast, const, index, op, read, select
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, At, If, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.tensor import Tensor
from .declare import Body, attr, composite, primitive
from .sampling import floats, ints, sample, specials
from .sort import COMPARED_KEYS, along_axis, along_reference, order_of, rows_rule
from .sort_keys import key, key_type


def _top_rule(x: TensorType, k: Any, **_: Any) -> TensorType:
    size = rows_rule(x, x.dtype).shape[1]
    message = f"the first {k} of rows of {x.short}"
    if not isinstance(k, int) or k < 0 or not demand(k, "<=", size, message):
        raise LoopwrightValueError(message)
    return TensorType((x.shape[0], k), INT64)


@primitive(
    "top_rows",
    Pattern.OPAQUE,
    batch="folded",
    rule=_top_rule,
    reference=lambda x, k, largest: order_of(x, largest)[..., :k].astype(np.int64),
    samples=lambda rng: [
        sample(floats(rng, (3, 100)), k=5),
        sample(specials("float32")[None, :], k=9),
        sample(specials("float64")[None, :], k=12, largest=False),
        sample(ints(rng, (2, 70), "int8", 0, 5), k=7),
        sample(ints(rng, (2, 33), "uint64"), k=1, largest=False),
        sample(floats(rng, (4, 3)), k=3),
        sample(floats(rng, (4, 3)), k=0),
        sample(floats(rng, (0, 3)), k=2),
    ],
)
def _top_rows(
    _out: TensorType,
    x: Tensor,
    *,
    k: int = attr("number of elements of each row"),
    largest: bool = attr("True for the greatest, False for the least", True),
) -> Body:
    """The positions of the first elements of each row, int64, in their order; equal ones keep it.

    ``x`` of any dtype and two axes; ``k`` is at most the length of a row. nan is the greatest.
    Good for few of many: a row is compared with the last of the best so far, some at a time.

        fn (%x: Tensor[(3, 100), float32]) -> Tensor[(3, 5), int64] {
          top_rows(%x, k=5)
        }
    """
    return Body(_Top(x, k, largest).statements)


class _Top:
    """The statements that find the first ``k`` elements of each row: ``best`` are their keys and
    ``places`` their positions, the greatest key first."""

    def __init__(self, x: Tensor, k: int, largest: bool) -> None:
        self.x, self.k, self.largest = x, k, largest
        self.rows, self.size = x.shape
        self.kind = key_type(x.dtype)

    def key(self, place: IntExpr) -> Expr:
        return key(self.x(symbol("r"), place), not self.largest)

    def best(self, place: IntExpr) -> Expr:
        return read("best", (place,), self.kind)

    def place(self, place: IntExpr) -> Expr:
        return read("places", (place,), INT64)

    def statements(self, out: str) -> Sequence[Stmt]:
        k = self.k
        if 0 in (self.rows, k):
            return []
        chunks, rest = (self.size - k) // COMPARED_KEYS, (self.size - k) % COMPARED_KEYS
        body: list[Stmt] = [
            Alloc(Buffer("best", (k,), self.kind), Scope.STACK),
            Alloc(Buffer("places", (k,), INT64), Scope.STACK),
            *self.first(),
        ]
        if chunks != 0:
            body.append(Loop(LoopKind.FOR, "n", chunks, self.chunk()))
        if rest != 0:
            last = symbol("t") + (self.size - rest)
            body.append(Loop(LoopKind.FOR, "t", rest, self.inserted(last)))
        o = symbol("o")
        body.append(Loop(LoopKind.FOR, "o", k, (Store(out, (symbol("r"), o), self.place(o)),)))
        return [Loop(LoopKind.FOR, "r", self.rows, tuple(body))]

    def first(self) -> list[Stmt]:
        """The first ``k`` elements of the row, each put to the number of those before it."""
        n, m = symbol("b"), symbol("m")
        same = op("equal", self.key(m), self.key(n))
        ahead = op(
            "logical_or",
            op("less", self.key(n), self.key(m)),
            op("logical_and", same, op("less", index(m), index(n))),
        )
        rank = Buffer("rank", (1,), INT64)
        put = At.of(
            "p",
            self.k,
            read("rank", (0,), INT64),
            Store("best", (symbol("p"),), self.key(n)),
            Store("places", (symbol("p"),), index(n)),
        )
        counted = Accumulate("rank", (0,), "sum", cast(ahead, INT64))
        body = (
            Alloc(rank, Scope.REGISTERS),
            Store("rank", (0,), const(0, INT64)),
            Loop(LoopKind.FOR, "m", self.k, (counted,)),
            put,
        )
        return [Loop(LoopKind.FOR, "b", self.k, body)]

    def chunk(self) -> tuple[Stmt, ...]:
        """Looks at the elements of a chunk if one of them is among the best."""
        here = symbol("n") * COMPARED_KEYS + symbol("c") + self.k
        greatest = Accumulate("greatest", (0,), "max", self.key(here))
        return (
            Alloc(Buffer("greatest", (1,), self.kind), Scope.REGISTERS),
            Store("greatest", (0,), const(0, self.kind)),
            Loop(LoopKind.VECTORIZE, "c", COMPARED_KEYS, (greatest,)),
            If(
                op("less", self.best(self.k - 1), read("greatest", (0,), self.kind)),
                (Loop(LoopKind.FOR, "c", COMPARED_KEYS, self.inserted(here)),),
            ),
        )

    def inserted(self, place: IntExpr) -> tuple[Stmt, ...]:
        """Puts an element among the best, behind equal ones, if it is before the last of them."""
        value, s = read("new", (0,), self.kind), symbol("s")
        here = self.k - 1 - s  # from the last to the second
        before, at = op("less", self.best(here - 1), value), op("less", self.best(here), value)
        first = op("less", self.best(0), value)

        def chosen(moved: Expr, new: Expr, old: Expr) -> Expr:
            return select(before, moved, select(at, new, old))

        shift = (
            Store("places", (here,), chosen(self.place(here - 1), index(place), self.place(here))),
            Store("best", (here,), chosen(self.best(here - 1), value, self.best(here))),
        )
        insert = (
            *([Loop(LoopKind.FOR, "s", self.k - 1, shift)] if self.k > 1 else []),
            Store("places", (0,), select(first, index(place), self.place(0))),
            Store("best", (0,), select(first, value, self.best(0))),
        )
        return (
            Alloc(Buffer("new", (1,), self.kind), Scope.REGISTERS),
            Store("new", (0,), self.key(place)),
            If(op("less", self.best(self.k - 1), value), insert),
        )


def _first_rule(x: TensorType, k: Any, axis: Any, **_: Any) -> TensorType:
    axis = normalise_axis(axis, x.rank, x)
    size = x.shape[axis]
    message = f"the first {k} of {size} elements of {x.short}"
    if not isinstance(k, int) or k < 0 or not demand(k, "<=", size, message):
        raise LoopwrightValueError(message)
    return TensorType((*x.shape[:axis], k, *x.shape[axis + 1 :]), INT64)


@composite(
    "nn.top_k_indices",
    Pattern.OPAQUE,
    rule=_first_rule,
    reference=lambda x, k, axis, largest: along_reference(
        x, axis, lambda rows: order_of(rows, largest)[..., :k]
    ).astype(np.int64),
    samples=lambda rng: [
        sample(floats(rng, (3, 50)), k=4),
        sample(floats(rng, (30, 2, 3)), k=3, axis=0, largest=False),
        sample(ints(rng, (9, 4), "int16", 0, 5), k=9, axis=0),
    ],
    dtypes=ANY,
)
def _top_k_indices(
    x: Value,
    *,
    k: int = attr("number of elements"),
    axis: int = attr("the axis along which they are compared", -1),
    largest: bool = attr("True for the greatest, False for the least", True),
) -> Value:
    """The positions of the greatest elements along an axis, int64, in their order.

    ``x`` of any dtype and a rank of 1 or more; ``k`` is at most the size of the axis. Of equal
    elements the first is before. nan is the greatest. LoopwrightValueError for an axis or a number
    out of range.

        fn (%x: Tensor[(3, 50), float32]) -> Tensor[(3, 4), int64] {
          nn.top_k_indices(%x, k=4)
        }
    """
    size = typical(x.shape[axis % x.rank])

    def first(rows: Value) -> Value:
        if few_first(k, size):
            return F.top_rows(rows, k=k, largest=largest)
        order = F.argsort_rows(rows, descending=largest)
        end = (rows.shape[0], k)
        return F.strided_slice(order, begin=(0, 0), end=end, strides=(1, 1))

    return along_axis(x, axis % x.rank, first)
