"""A PrimFunc in wider arithmetic: float32 becomes float64, everything else stays.

::

    out[i] = exp(x[i]) * 0.5              float32
    out[i] = exp(x[i]) * 0.5:float64      float64

Evaluated on the same inputs, cast to float64, it gives the result without float32's rounding (to
within 2**-53 a step): the reference for every other way to compute it.
"""

from __future__ import annotations

from dataclasses import replace

from .expr import Const, Expr, Index, Op, Read, cast, const, op, read, rebuilt_indices, walk
from .prim import Buffer, PrimFunc, Stage
from .scalar import SCALAR_OPS


def widened(prim: PrimFunc) -> PrimFunc:
    """``prim`` with float64 in the place of float32, ``prim`` itself if it has none.

    Literals keep the value that float32 gave them. A procedure stays as it is.
    """
    params = tuple(_wide_buffer(p) for p in prim.params)
    stages = tuple(_wide_stage(s) for s in prim.stages)
    if params == prim.params and stages == prim.stages:
        return prim
    return replace(prim, params=params, stages=stages)


def _wide_buffer(buffer: Buffer) -> Buffer:
    return replace(buffer, dtype=buffer.dtype.wide)


def _wide_stage(stage: Stage) -> Stage:
    return replace(stage, buffer=_wide_buffer(stage.buffer), expr=_wide_expr(stage.expr))


def _wide_expr(root: Expr) -> Expr:
    done: dict[int, Expr] = {}
    for node in walk(root):
        if isinstance(node, Const):
            new: Expr = const(node.value, node.dtype.wide)
        elif isinstance(node, Read):
            new = read(node.buffer, rebuilt_indices(node, done), node.dtype.wide)
        elif isinstance(node, Index):
            new = node
        else:
            new = _wide_op(node, [done[id(a)] for a in node.args])
        done[id(node)] = new
    return done[id(root)]


def _wide_op(node: Op, args: list[Expr]) -> Expr:
    if node.name == "cast":
        return cast(args[0], node.dtype.wide)
    if SCALAR_OPS[node.name].to_bits:
        args = [cast(a, b.dtype) for a, b in zip(args, node.args, strict=True)]
    made = op(node.name, *args)
    return made if made.dtype == node.dtype.wide else cast(made, node.dtype.wide)  # from bits
