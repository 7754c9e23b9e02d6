"""Iterations that a mask makes superfluous: blocks of a causal attention beyond the diagonal.

If a mask is a comparison of indices, the bounds of a block decide whether all of it is masked. The
stages that depend on it are then constants, which replace the iteration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import Dim, IntExpr, linear, size_symbols
from ..dtype import BOOL
from ..errors import ScheduleError
from ..loop.expr import Const, Expr, Index, Op, Read, buffers_of, const, index, op, walk
from ..loop.prim import PrimFunc, Stage
from ..loop.scalar import COMBINERS, SCALAR_OPS
from .schedule import Primitive
from .state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .tree import Branch, Leaf


@Primitive
def skip(state: State, name: str, loop: str) -> State:
    """Skip the iterations of ``loop`` in which the stage ``name`` is masked throughout.

    ::

        for b:                                               for b:
          t[..] = where(l + 8 * b <= i, v, -inf)    =>         if 8 * b <= i: as before
          s[b] = sum(l) exp(t[..])                             else: s[b] = 0.0

    The stage must be ``where(comparison of indices, anything, constant)``, and stages read after
    the iteration must follow from that constant. Skipping assumes that masked values are finite: if
    one is infinite or NaN, NumPy multiplies it by its weight of zero, which is NaN, and a skipped
    iteration leaves it out. A piece that is masked in part multiplies it as NumPy does.
    """
    stage = state.require_stage(name, "skip")
    state.require_loop(loop, "skip")
    if _mask(stage) is None:
        raise ScheduleError(f"skip: {name} is not masked by a comparison of indices")
    if loop in state.skips:
        raise ScheduleError(f"skip: iterations of {loop} are skipped already")
    return replace(state, skips={**state.skips, loop: name})


def _mask(stage: Stage) -> tuple[Dim, Const] | None:
    """``(d, c)`` for a stage that is ``c`` wherever ``d > 0``."""
    value = stage.expr
    if stage.combiner is not None or not isinstance(value, Op) or value.name != "where":
        return None
    test, _, outside = value.args
    if not isinstance(test, Op) or test.name != "less_equal" or not isinstance(outside, Const):
        return None
    left, right = (_plain(a) for a in test.args)
    if left is None or right is None:
        return None
    difference = left - right
    if not isinstance(difference, Dim) or linear(difference) is None:
        return None
    return difference, outside


def is_masked(stage: Stage) -> bool:
    """True if a stage is minus infinity wherever a comparison of indices does not hold.

    Its exponential is then zero, whatever the maximum of the row. That of another constant, even of
    the lowest float, is 1 in a row that is masked as a whole.
    """
    mask = _mask(stage)
    return mask is not None and mask[1].value == -np.inf


def _plain(expr: Expr) -> IntExpr | None:
    if isinstance(expr, Index):
        return expr.value
    return int(expr.value) if isinstance(expr, Const) else None


def is_needed(stage: Stage, starts: Mapping[str, IntExpr], limits: Mapping[str, IntExpr]) -> Expr:
    """Returns the condition that the mask leaves some element of a block, on the loops around, or a
    constant. Every axis of the block begins at ``starts`` and has the extent in ``limits``."""
    mask = _mask(stage)
    assert mask is not None
    parts = linear(mask[0])
    assert parts is not None
    coefficients, least = parts
    total: IntExpr = least
    sizes = size_symbols(mask[0])
    for name, coefficient in coefficients.items():
        if name in sizes:
            total = total + sizes[name].expr * coefficient
            continue
        total = total + starts[name] * coefficient
        if coefficient < 0:
            total = total + coefficient * (limits[name] - 1)
    if not isinstance(total, Dim):
        return const(total <= 0, BOOL)
    return op("less_equal", index(total), index(0))


def constants_of(prim: PrimFunc, branch: Branch, masked: str) -> list[tuple[Stage, Const]]:
    """Returns the values, in a skipped iteration, of the stages that are read after it."""
    stages: list[tuple[Stage, bool]] = []
    private: set[str] = set()
    _collect(branch, stages, private)
    if masked not in {s.name for s, _ in stages}:
        raise ScheduleError(f"skip: {masked} is not computed in {branch.loop}")
    mask = _mask(prim.stage(masked))
    assert mask is not None
    constants: dict[str, Const] = {masked: mask[1]}
    later: list[tuple[Stage, Const]] = []
    for stage, stored in stages:
        value = constants.get(stage.name) or _folded_stage(stage, constants)
        if value is not None:
            constants[stage.name] = value
        if not stored or stage.name in private:
            continue
        if value is None or any(stage.name in buffers_of(s.expr) for s in _before(stages, stage)):
            raise ScheduleError(f"skip: {stage.name} is needed although {masked} is masked")
        later.append((stage, value))
    return later


def _before(stages: list[tuple[Stage, bool]], stage: Stage) -> list[Stage]:
    names = [s.name for s, _ in stages]
    return [s for s, _ in stages[: names.index(stage.name)]]


def _collect(branch: Branch, stages: list[tuple[Stage, bool]], private: set[str]) -> None:
    private |= {s.name for s in branch.stores}
    for item in branch.items:
        if hasattr(item, "stage"):
            leaf: Leaf = item  # pyright: ignore[reportAssignmentType]
            if leaf.outer_reductions:
                raise ScheduleError(f"skip: {leaf.stage.name} is accumulated over {branch.loop}")
            stages.append((leaf.stage, leaf.stored))
        else:
            _collect(item, stages, private)  # pyright: ignore[reportArgumentType]


def _folded_stage(stage: Stage, constants: Mapping[str, Const]) -> Const | None:
    value = _folded(stage.expr, constants)
    if value is None or stage.combiner is None:
        return value
    if stage.combiner == "sum":
        return value if value.value == 0 else None
    if stage.combiner not in ("max", "min"):
        return None
    identity = COMBINERS[stage.combiner].identity(stage.buffer.dtype)
    best = (max if stage.combiner == "max" else min)(identity, value.value)
    return const(best, stage.buffer.dtype)


def _folded(root: Expr, constants: Mapping[str, Const]) -> Const | None:
    """Returns the constant value of an expression, given the constants it reads, or None."""
    done: dict[int, Const | None] = {}
    for node in walk(root):
        done[id(node)] = _folded_node(node, constants, done)
    return done[id(root)]


def _folded_node(
    node: Expr, constants: Mapping[str, Const], done: Mapping[int, Const | None]
) -> Const | None:
    if isinstance(node, Const):
        return node
    if isinstance(node, Read):
        return constants.get(node.buffer)
    if not isinstance(node, Op):
        return None
    args = [done[id(a)] for a in node.args]
    if node.name == "where":
        return args[1] if args[1] is args[2] else None
    if node.name == "multiply" and node.dtype.is_float:
        zero = next((a for a in args if a is not None and a.value == 0), None)
        if zero is not None:
            return zero
    if not node.dtype.is_float:
        return None
    values: list[Any] = []
    for arg in args:
        if arg is None:
            return None
        values.append(node.dtype.numpy.type(arg.value))
    with np.errstate(all="ignore"):
        return const(SCALAR_OPS[node.name].numpy(*values).item(), node.dtype)
