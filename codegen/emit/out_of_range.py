"""Indices from data, and the checks of them: what is out of range waits behind a jump.

An index is limited to its axis, and a check computes what it leaves if it fails. Both are nearly
never needed, so that a ``select`` that is marked as likely takes the other value. LLVM makes a jump
of it, and moves a call behind the jump, if that has three operands or more besides constants;
anything cheaper it would compute in advance.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtype import BOOL, INT64
from ...ir.library.checks import LARGEST
from ...ir.loop.expr import Const, Expr, Op, const
from ...ir.loop.limited_index import Limited
from .scalars import ScalarEmitter
from .writer import Value


def limited_place(scalars: ScalarEmitter, place: Value, limits: Limited) -> Value:
    """Writes the index that an int64 means."""
    fits = scalars.w.op("icmp ult", place, scalars.w.int(limits.size), type="i1")
    limit = _rare(scalars, "limited", place, limits.more, limits.size - 1)
    return scalars.w.select(fits, place, limit, is_likely=True)


def failed_check(
    scalars: ScalarEmitter, expr: Op, args: list[Value], value: Callable[[Expr], Value]
) -> Value | None:
    """Writes what a check leaves if it fails, or the choice of that, given ``args``, the values of
    its operands; None if an expression is neither, or a vector."""
    if any(a.lanes > 1 for a in args):
        return None
    failed = _failure(expr)
    if failed is not None:
        return _rare(scalars, "failed", value(failed[1]), failed[0], LARGEST)
    if expr.name != "where" or _failure(expr.args[1]) is None:
        return None
    fine = scalars.apply("logical_not", args[:1], [BOOL], BOOL)
    return scalars.w.select(fine, args[2], args[1], is_likely=True)


def _failure(expr: Expr) -> tuple[int, Expr] | None:
    """Returns the code of a check and the number that failed if an expression is what the check
    leaves (``ir/library/checks.py``)."""
    if not (isinstance(expr, Op) and expr.name == "subtract" and expr.dtype == INT64):
        return None
    code, number = expr.args
    if not (isinstance(code, Const) and code.value > LARGEST):
        return None
    most, least = const(LARGEST, INT64), const(-LARGEST, INT64)
    if isinstance(number, Op) and number.name == "minimum" and number.args[1] is most:
        number = number.args[0]
        if isinstance(number, Op) and number.name == "maximum" and number.args[1] is least:
            return int(code.value), number.args[0]
    return None


def _rare(scalars: ScalarEmitter, name: str, number: Value, first: int, last: int) -> Value:
    scalars.functions[f"lw_{name}"] = _RARE[name]
    scalars.w.calls |= {f"declare i64 @llvm.{each}.i64(i64, i64)" for each in ("smin", "smax")}
    limits = scalars.w.int(first), scalars.w.int(last)
    return scalars.w.call(f"lw_{name}", number, number, number, *limits, type="i64", lanes=1)


_RARE = {
    name: f"""define internal i64 @lw_{name}(i64 %x, i64 %y, i64 %z, i64 %first, i64 %last)
noinline cold nounwind willreturn speculatable memory(none) {{
  {lines}
}}"""
    for name, lines in {
        "limited": """%below = icmp slt i64 %x, 0
  %end = add i64 %y, %first
  %counted = select i1 %below, i64 %end, i64 %z
  %low = call i64 @llvm.smax.i64(i64 %counted, i64 0)
  %limited = call i64 @llvm.smin.i64(i64 %low, i64 %last)
  ret i64 %limited""",
        "failed": """%negative = sub i64 0, %last
  %below = icmp slt i64 %x, %negative
  %low = select i1 %below, i64 %negative, i64 %y
  %above = icmp sgt i64 %z, %last
  %told = select i1 %above, i64 %last, i64 %low
  %failed = sub i64 %first, %told
  ret i64 %failed""",
    }.items()
}
"""Functions of one number, given three times. ``limited``: it lies between 0 and ``last``, after
``first`` is added if it is negative. ``failed``: what the check with the code ``first`` leaves for
it, told between ``-last`` and ``last``."""
