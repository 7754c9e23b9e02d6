"""Indices from data, and the checks of them: what is out of range waits behind a jump.

An index is limited to its axis, and a check computes what it leaves if it fails. Both are nearly
never needed, and so are calls in branches of their own. A ``select`` would not do, however likely:
LLVM moves a maximum into it, and then computes both sides in advance.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtype import INT64
from ...ir.library.checks import LARGEST
from ...ir.loop.expr import Const, Expr, Op, Read, const, reads_of, walk
from ...ir.loop.limited_index import Limited
from ..llvm.writer import Value
from .access import is_zero
from .late_choices import late_choice
from .scalars import ScalarEmitter


def limited_place(scalars: ScalarEmitter, place: Value, limits: Limited) -> Value:
    """Writes the index that an int64 means."""
    key = "limited", place.name, limits.more, limits.size
    index = scalars.w.noted(key)
    if index is None:
        beyond = scalars.w.op("icmp uge", place, scalars.w.int(limits.size), type="i1")
        index = _rarely(scalars, "limited", beyond, place, place, limits.more, limits.size - 1)
        scalars.w.note(key, index.depth, index)
    return index


def _check(expr: Expr) -> tuple[Expr, Expr, Expr, int] | None:
    """Returns what was left before, what fails, a number and a code, if an expression is the larger
    one of the first and what a check leaves: 0, or the code for the number where it fails
    (``ir/library/checks.py``)."""
    before, choice = const(0, INT64), expr
    if isinstance(expr, Op) and expr.name == "maximum":
        before, choice = expr.args
    if not (isinstance(choice, Op) and choice.name == "where" and is_zero(choice.args[2])):
        return None
    fails, left = choice.args[:2]
    if not (isinstance(left, Op) and left.name == "subtract" and left.dtype == INT64):
        return None
    code, number = left.args
    for name, limit in (("minimum", LARGEST), ("maximum", -LARGEST)):
        if not (isinstance(number, Op) and number.name == name):
            return None
        if number.args[1] is not const(limit, INT64):
            return None
        number = number.args[0]
    if not (isinstance(code, Const) and code.value > LARGEST):
        return None
    return before, fails, number, int(code.value)


def needed_operands(expr: Op, scalar: bool = False) -> tuple[Expr, ...]:
    """Returns the expressions that are computed wherever ``expr`` is, which may be a ``scalar``."""
    if scalar and reads_behind_test(expr):
        return expr.args[:1]
    check = _check(expr)
    return expr.args if check is None else check[:3]


def unsure_reads(choice: Op) -> list[Read]:
    """Returns the reads of a choice's values that its condition has not made by then."""
    made: list[Read] = []
    todo = [choice.args[0]]
    while todo:
        node = todo.pop()
        if isinstance(node, Read):
            made.append(node)
        elif isinstance(node, Op):
            todo += needed_operands(node, True)[: 1 if node.name == "where" else None]
    return [n for value in choice.args[1:] for n in reads_of(value) if n not in made]


def reads_behind_test(expr: Op) -> bool:
    """True for an ``and`` whose second operand reads at a place that data decides: what the first
    one says of that place may be all that keeps it in range."""
    if expr.name != "logical_and":
        return False
    reads = (node for node in walk(expr.args[1]) if isinstance(node, Read))
    return any(len(read.plain_indices) < len(read.indices) for read in reads)


def checked(scalars: ScalarEmitter, expr: Op, value: Callable[[Expr], Value]) -> Value | None:
    """Writes what a check leaves, or a choice that is a jump; None for other expressions, and for
    vectors."""
    check = _check(expr)
    if check is None:
        return late_choice(scalars, expr, value)
    before, fails, number = values = [value(each) for each in check[:3]]
    if any(v.lanes > 1 for v in values):
        return None
    usual = scalars.apply("maximum", [before, scalars.w.int(0)], [INT64, INT64], INT64)
    return _rarely(scalars, "failed", fails, usual, number, check[3], LARGEST)


def _rarely(
    scalars: ScalarEmitter, name: str, rare: Value, usual: Value, number: Value, *limits: int
) -> Value:
    scalars.functions[f"lw_{name}"] = _RARE[name]
    scalars.w.calls |= {f"declare i64 @llvm.{each}.i64(i64, i64)" for each in ("smin", "smax")}
    numbers = number, *map(scalars.w.int, limits), usual
    return scalars.w.rarely(rare, usual, f"lw_{name}", *numbers)


_RARE = {
    name: f"""define internal i64 @lw_{name}(i64 %x, i64 %first, i64 %last, i64 %before)
noinline cold nounwind willreturn speculatable memory(none) {{
  {lines}
}}"""
    for name, lines in {
        "limited": """%below = icmp slt i64 %x, 0
  %end = add i64 %x, %first
  %counted = select i1 %below, i64 %end, i64 %x
  %low = call i64 @llvm.smax.i64(i64 %counted, i64 0)
  %limited = call i64 @llvm.smin.i64(i64 %low, i64 %last)
  ret i64 %limited""",
        "failed": """%negative = sub i64 0, %last
  %low = call i64 @llvm.smax.i64(i64 %x, i64 %negative)
  %told = call i64 @llvm.smin.i64(i64 %low, i64 %last)
  %left = sub i64 %first, %told
  %failed = call i64 @llvm.smax.i64(i64 %left, i64 %before)
  ret i64 %failed""",
    }.items()
}
"""``limited``: a number lies between 0 and ``last``, after ``first`` is added if it is negative.
``failed``: what the check with the code ``first`` leaves for a number, told between ``-last`` and
``last``, if that is not less than what was left ``before``."""
