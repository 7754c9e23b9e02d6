"""Which elements of a result are checked."""

from __future__ import annotations

import numpy as np
from loopwright.autotune.measure.store_points import StorePoints
from loopwright.ir.dims import symbol
from loopwright.ir.dtype import FLOAT32
from loopwright.ir.loop.expr import const
from loopwright.ir.loop.nest import Let, Loop, LoopKind, Nest, Store
from loopwright.ir.loop.prim import Buffer


def test_a_loop_may_be_as_long_as_one_around_it_says() -> None:
    i, j = symbol("i"), symbol("j")
    store = Store("out", (i, j), const(0.0, FLOAT32))
    inner = Loop(LoopKind.FOR, "j", i + 1, (store,))
    nest = Nest("triangle", (), (), (Loop(LoopKind.FOR, "i", 6, (inner,)),))
    points = StorePoints(nest, ("out",), np.random.default_rng(0))
    rows, columns = np.divmod(points.of(Buffer("out", (6, 6), FLOAT32), 200), 6)
    assert (columns <= rows).all() and {0, 5} <= {*rows.tolist()} & {*columns.tolist()}


def test_a_loop_may_be_as_long_as_a_definition_says() -> None:
    i, j, k = symbol("i"), symbol("j"), symbol("k")
    store = Store("out", (k, j), const(0.0, FLOAT32))
    inner = Loop(LoopKind.FOR, "j", k + 1, (store,))
    outer = Loop(LoopKind.FOR, "i", 6, (Let("k", 5 - i, 6), inner))
    points = StorePoints(Nest("triangle", (), (), (outer,)), ("out",), np.random.default_rng(0))
    rows, columns = np.divmod(points.of(Buffer("out", (6, 6), FLOAT32), 200), 6)
    assert (columns <= rows).all() and {0, 5} <= {*rows.tolist()} & {*columns.tolist()}
