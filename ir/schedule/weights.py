"""The weights of a softmax, exp(x - m) for the maximum m of a row: what is known of them makes them
cheap.

::

    m = max(k: 100) x[k]                 m = max_number(k: 100) x[k]
    e[j] = exp(x[j] - m)                 e[j] = exp_weight(x[j] - m)
    s = sum(r: 100) e[r]           =>    s = sum(r: 100) e[r]
    out[j] = e[j] / s                    out[j] = divide_weight(e[j], s)

- A difference is rounded, and its exponential need not be more exact than that.
- Weights are in [0, 1]. One of them is 1, so that their sum is not less: quotients of both need no
  precautions. (In a row of which all is -inf, and in one with a NaN, the sum is NaN.)
- A NaN in a row makes the sum NaN. If every result takes part in it, the maximum may ignore NaN.

No step of a schedule asks for this: it is part of applying any. Other stages stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from ..dataclass import dataclass
from ..dims import IntExpr, symbol
from ..dtype import FLOAT32
from ..loop import expr as exprs
from ..loop.expr import Expr, IndexLike, Op, Read, buffers_of, op, reads_of, substitute_indices
from ..loop.prim import PrimFunc, Stage
from ..loop.scalar import SCALAR_OPS
from ..traits import Trait


def with_weights(prim: PrimFunc) -> PrimFunc:
    """Returns ``prim`` with the operators of the module's text; itself without such weights."""
    tops = _maxima(prim)
    if not tops:
        return prim
    rows = _Rows(prim, tops)
    stages = tuple(rows.rewritten(s) for s in prim.stages)
    if all(new is old for new, old in zip(stages, prim.stages, strict=True)):
        return prim
    return replace(prim, stages=stages)


def _maxima(prim: PrimFunc) -> dict[str, Stage]:
    """The stages that are maxima along rows, or what ``blockwise`` subtracts instead of them."""
    tops: dict[str, Stage] = {}
    for stage in prim.stages:
        value = stage.expr
        limited = stage.combiner is None and isinstance(value, Op) and value.name == "maximum"
        if stage.buffer.dtype != FLOAT32:
            continue
        if stage.combiner == "max" or (limited and buffers_of(value) <= tops.keys()):
            tops[stage.name] = stage
    return tops


def _places(stage: Stage, node: Read) -> dict[str, IndexLike]:
    """The index at which ``node`` reads each axis of ``stage``."""
    return {a.name: i for a, i in zip(stage.axes, node.indices, strict=True)}


def _difference(node: Expr) -> tuple[Expr, Read] | None:
    """``(x, m)`` of ``exp(x - m)`` for a value m that is read."""
    if not isinstance(node, Op) or node.name != "exp":
        return None
    (inside,) = node.args
    if not isinstance(inside, Op) or inside.name != "subtract":
        return None
    x, m = inside.args
    return (x, m) if isinstance(m, Read) else None


@dataclass(frozen=True)
class _Rows:
    """The stages of ``prim`` and the weights among them; ``tops`` are maxima by name."""

    prim: PrimFunc
    tops: Mapping[str, Stage]

    @cached_property
    def stages(self) -> Mapping[str, Stage]:
        return {s.name: s for s in self.prim.stages}

    def rewritten(self, stage: Stage) -> Stage:
        def leaf(node: Expr, done: dict[int, Expr]) -> Expr | None:
            if not isinstance(node, Op):
                return None
            args = [done[id(a)] for a in node.args]
            difference = _difference(node)
            if difference is not None and self.is_negative(*difference):
                return op("exp_weight", *args)
            if node.name == "divide" and self.is_share(*node.args):
                return op("divide_weight", *args)
            return None

        expr = exprs.rewrite(stage.expr, leaf)
        combiner = "max_number" if self.may_ignore_nan(stage) else stage.combiner
        if expr is stage.expr and combiner == stage.combiner:
            return stage
        return replace(stage, expr=expr, combiner=combiner)

    def is_share(self, over: Expr, by: Expr) -> bool:
        """True if a quotient is that of a weight and a sum of weights."""
        whole = isinstance(by, Read) and self.sum_of(by.buffer) is not None
        return whole and any(self.maximum_of(over, axis) is not None for axis in self.extents)

    def sum_of(self, name: str) -> str | None:
        """The maximum for which a stage is the sum of all weights of a row; None if it is none."""
        total = self.stages.get(name)
        if total is None or total.combiner != "sum" or len(total.reduce_axes) != 1:
            return None
        return self.maximum_of(total.expr, total.reduce_axes[0].name)

    def maximum_of(self, node: Expr, axis: str) -> str | None:
        """The maximum m for which ``node`` is the weight of an element of its row, at ``axis``."""
        if isinstance(node, Read) and node.buffer in self.stages:
            made = self.stages[node.buffer]
            if made.combiner is not None:
                return None
            node = substitute_indices(made.expr, _places(made, node))
        difference = _difference(node)
        return self.top_over(*difference, axis) if difference is not None else None

    def top_over(self, x: Expr, m: Read, axis: str) -> str | None:
        """The maximum that ``m`` reads, if ``x`` is the element at ``axis`` of what it is of."""
        top = self.tops.get(m.buffer)
        if top is None or [a.extent for a in top.reduce_axes] != [self.extents[axis]]:
            return None
        there = {**_places(top, m), top.reduce_axes[0].name: symbol(axis)}
        return top.name if substitute_indices(top.expr, there) is x else None

    def is_negative(self, x: Expr, m: Read) -> bool:
        """True if x - m is at most 0, but for rounding, or NaN."""
        top = self.tops.get(m.buffer)
        if top is not None and top.combiner is None:  # a maximum, and no less than some number
            limited = substitute_indices(top.expr, _places(top, m))
            return any(self.is_negative(x, n) for n in reads_of(limited))
        return any(self.top_over(x, m, axis) is not None for axis in self.extents)

    @cached_property
    def extents(self) -> Mapping[str, IntExpr]:
        return {a.name: a.extent for s in self.prim.stages for a in (*s.axes, *s.reduce_axes)}

    # -- NaN -----------------------------------------------------------------------------------

    def may_ignore_nan(self, stage: Stage) -> bool:
        """True if ``stage`` is a maximum, and all that a NaN of its row affects is NaN anyway."""
        sums = {s.name for s in self.prim.stages if self.sum_of(s.name) == stage.name}
        if stage.name not in self.tops or not sums or stage.name in self.prim.outputs:
            return False
        names = {a.name for a in stage.axes}
        users = {stage.name}
        for other in self.prim.stages:
            if not buffers_of(other.expr) & users:
                continue
            users.add(other.name)
            if not names <= {a.name for a in other.axes} or not self._same_row(other, users, names):
                return False
        results = users & {*self.prim.outputs}
        return all(self._nan_of(self.stages[name].expr) & sums for name in results)

    def _same_row(self, stage: Stage, users: set[str], names: set[str]) -> bool:
        """True if a stage reads ``users`` in its own row, at which ``names`` are."""
        for node in exprs.walk(stage.expr):
            if isinstance(node, Read) and node.buffer in users:
                axes = self.stages[node.buffer].axes
                for axis, i in zip(axes, node.indices, strict=True):
                    if axis.name in names and i != symbol(axis.name):
                        return False
        return True

    def _nan_of(self, expr: Expr) -> set[str]:
        """The stages of which one element that is NaN makes ``expr`` NaN."""
        if isinstance(expr, Read):
            made = self.stages.get(expr.buffer)
            below = self._nan_of(made.expr) if made is not None and made.combiner is None else set()
            return {expr.buffer} | below
        if isinstance(expr, Op) and Trait.PASSES_NAN in SCALAR_OPS[expr.name].traits:
            return set().union(*(self._nan_of(a) for a in expr.args))
        return set()
