"""Scans: cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import IntExpr, as_int, product, symbol
from ..errors import LoopwrightTypeError
from ..graph.operator import Pattern, Sample
from ..graph.types import TensorType
from ..loop.expr import const, read
from ..loop.kinds import LoopKind, Scope
from ..loop.nest import Accumulate, Alloc, Loop, Stmt, Store
from ..loop.prim import Buffer
from ..loop.scalar import COMBINERS
from ..loop.tensor import Tensor
from .declare import Body, attr, primitive
from .rules import normalise_axis
from .sampling import extremes, floats, ints, sample, specials, truths

__all__: list[str] = []


def _rule(x: TensorType, axis: Any, exclusive: Any, reverse: Any) -> TensorType:
    if x.rank == 0:
        raise LoopwrightTypeError("a scalar has no axis to walk")
    normalise_axis(axis, x.rank, x)
    return x


def _reference(scan: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def reference(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
        x = np.flip(x, axis) if reverse else x
        result = scan(x, axis=axis, dtype=x.dtype)
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


def _declare(name: str, word: str, combiner: str, scan: Callable[..., Any]) -> None:
    neutral = int(COMBINERS[combiner].neutral)
    doc = f"""The {word} of the elements up to each one along an axis.

``x`` of any dtype and a rank of 1 or more; the result has its type (integers wrap around).
``exclusive`` leaves the element itself out, so that the first is {neutral}; ``reverse`` begins at
the end. LoopwrightTypeError for a scalar.

    fn (%x: Tensor[(3, 4), float32]) -> Tensor[(3, 4), float32] {{
      {name}(%x, axis=1)
    }}
"""

    @primitive(
        name,
        Pattern.OPAQUE,
        rule=_rule,
        reference=_reference(scan, neutral),
        samples=_samples,
        doc=doc,
    )
    def _scan(
        out: TensorType,
        x: Tensor,
        *,
        axis: int = attr("the axis to walk", 0),
        exclusive: bool = attr("True if an element is not part of its own result", False),
        reverse: bool = attr("True to begin at the end", False),
    ) -> Body:
        return Body(_Scan(x, axis % len(x.shape), combiner, exclusive, reverse).statements)


class _Scan:
    """The statements of a scan.

    Along columns each element reads the one before it, so that a row is read and written at a
    time. Along rows each is summed by itself.
    """

    def __init__(self, x: Tensor, axis: int, combiner: str, exclusive: bool, reverse: bool) -> None:
        self.x, self.axis, self.combiner = x, axis, combiner
        self.exclusive, self.reverse = exclusive, reverse
        self.shape = [as_int(s) for s in x.shape]
        self.size = self.shape[axis]
        self.neutral = const(COMBINERS[combiner].neutral, x.dtype)

    def statements(self, out: str) -> list[Stmt]:
        if 0 in self.shape:
            return []
        inner = as_int(product(self.shape[self.axis + 1 :]))
        return self.columns(out) if inner > 1 else self.rows(out)

    def place(
        self, k: IntExpr, outer: Sequence[IntExpr], inner: Sequence[IntExpr]
    ) -> list[IntExpr]:
        """The indices of step ``k`` of the walk."""
        return [*outer, self.size - 1 - k if self.reverse else k, *inner]

    def columns(self, out: str) -> list[Stmt]:
        """Row after row along the axis: ``out[k, j] = out[k - 1, j] + x[k, j]``."""
        outer = [symbol(f"i{n}") for n in range(self.axis)]
        inner = [symbol(f"j{n}") for n in range(len(self.shape) - self.axis - 1)]

        def row(k: IntExpr, *stmts: Stmt) -> list[Stmt]:
            body = stmts
            for n in reversed(range(len(inner))):
                body = (Loop(LoopKind.FOR, f"j{n}", self.shape[self.axis + 1 + n], body),)
            return list(body)

        k = symbol("k")
        first, here = self.place(0, outer, inner), self.place(k + 1, outer, inner)
        before = self.place(k, outer, inner)
        source = before if self.exclusive else here
        start = self.neutral if self.exclusive else self.x(*first)
        last = read(out, before, self.x.dtype)
        step = (
            Store(out, tuple(here), last),
            Accumulate(out, tuple(here), self.combiner, self.x(*source)),
        )
        begin = row(0, Store(out, tuple(first), start))
        stmts: list[Stmt] = begin
        if self.size > 1:
            stmts = [*begin, Loop(LoopKind.FOR, "k", self.size - 1, tuple(row(k, *step)))]
        for n in reversed(range(self.axis)):
            stmts = [Loop(LoopKind.FOR, f"i{n}", self.shape[n], tuple(stmts))]
        return stmts

    def rows(self, out: str) -> list[Stmt]:
        """Each row by itself: a sum that walks it, and is stored at every step."""
        outer = [symbol(f"i{n}") for n in range(self.axis)]
        k = symbol("k")
        here = self.place(k, outer, [0] * (len(self.shape) - self.axis - 1))
        total = Buffer("total", (1,), self.x.dtype)
        add = Accumulate("total", (0,), self.combiner, self.x(*here))
        keep = Store(out, tuple(here), read("total", (0,), self.x.dtype))
        step = (keep, add) if self.exclusive else (add, keep)
        stmts: list[Stmt] = [
            Alloc(total, Scope.REGISTERS),
            Store("total", (0,), self.neutral),
            Loop(LoopKind.FOR, "k", self.size, step),
        ]
        for n in reversed(range(self.axis)):
            stmts = [Loop(LoopKind.FOR, f"i{n}", self.shape[n], tuple(stmts))]
        return stmts


_declare("cumsum", "sum", "sum", np.cumsum)
_declare("cumprod", "product", "prod", np.cumprod)
