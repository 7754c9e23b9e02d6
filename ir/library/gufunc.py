"""Library functions that are generalised ufuncs of NumPy: rows of tables.

A gufunc's signature, ``(m,m),(m,n)->(m,n)``, is the type rule of its innermost axes; the axes
before them are broadcast. It takes arrays for its results behind the operands, which is
destination-passing style already. What it finds wrong (a singular matrix) it reports as an invalid
operation of floating point, and NumPy's setting of these decides what happens: ``failing`` makes
it an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any

import numpy as np

from ..dims import IntExpr
from ..dtype import DTYPES, DType
from ..errors import LoopwrightTypeError
from .registry import ArrayType, LibraryFunction, Typed, Values, register

__all__ = ["failing", "gufunc_row", "quiet"]

_REAL = {"complex64": "float32", "complex128": "float64"}


def gufunc_row(
    name: str,
    signature: str,
    results: str,
    call: Values,
    doc: str,
) -> LibraryFunction:
    """Declares a function with a gufunc's signature.

    ``results`` has a letter for the dtype of each result: that of the operands (``t``), the real or
    complex one beside it (``r``, ``c``), or ``i`` for int32.
    """
    inputs, outputs = (
        [tuple(filter(None, axes.split(","))) for axes in re.findall(r"\(([\w,]*)\)", side)]
        for side in signature.split("->")
    )

    def rule(operands: Sequence[Typed], options: Mapping[str, Any]) -> Sequence[ArrayType]:
        sizes: dict[str, IntExpr] = {k: v for k, v in options.items() if isinstance(v, int)}
        stack: tuple[IntExpr, ...] = ()
        for n, (operand, axes) in enumerate(zip(operands, inputs, strict=True)):
            rank = len(operand.shape) - len(axes)
            if rank < 0:
                raise LoopwrightTypeError(
                    f"operand {n} has {len(operand.shape)} axes, not {len(axes)} or more"
                )
            stack = _broadcast(stack, operand.shape[:rank])
            for axis, size in zip(axes, operand.shape[rank:], strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise LoopwrightTypeError(
                        f"sizes differ, {sizes[axis]} and {size}, where {signature} has the same"
                    )
        dtype = operands[0].dtype
        types = {"t": dtype, "r": _real(dtype), "c": _complex(dtype), "i": DTYPES["int32"]}
        return [
            ArrayType((*stack, *(sizes[a] for a in axes)), types[letter])
            for axes, letter in zip(outputs, results, strict=True)
        ]

    return register(LibraryFunction(name, doc, rule, lambda options, count: call, stacked=True))


def _real(dtype: DType) -> DType:
    return DTYPES[_REAL.get(dtype.name, dtype.name)]


def _complex(dtype: DType) -> DType:
    wide = {real: name for name, real in _REAL.items()}.get(dtype.name, dtype.name)
    return DTYPES.get(wide, dtype)


def _broadcast(one: tuple[IntExpr, ...], other: tuple[IntExpr, ...]) -> tuple[IntExpr, ...]:
    rank = max(len(one), len(other))
    left, right = ((1,) * (rank - len(s)) + s for s in (one, other))
    sizes: list[IntExpr] = []
    for a, b in zip(left, right, strict=True):
        if a != b and 1 not in (a, b):
            raise LoopwrightTypeError(f"stacks of {one} and {other} do not broadcast")
        sizes.append(b if a == 1 else a)
    return tuple(sizes)


def failing(gufunc: Callable[..., Any], message: str) -> Values:
    """Returns ``gufunc``, which raises NumPy's LinAlgError with ``message`` where it fails."""

    def fail(error: str, flag: int) -> None:
        raise np.linalg.LinAlgError(message)

    return _with_errors(gufunc, fail)


def quiet(gufunc: Callable[..., Any]) -> Values:
    """Returns ``gufunc`` without NumPy's warnings."""
    return _with_errors(gufunc, None)


def _with_errors(gufunc: Callable[..., Any], fail: Callable[[str, int], None] | None) -> Values:
    """Returns ``gufunc`` run in a context of its own, where floating-point errors call ``fail``.

    NumPy keeps what is done about them in a context variable, so that a context prepared once takes
    the place of ``np.errstate``, which takes longer than many a call. A context runs one thing at
    a time: there are as many as calls at the same time.
    """
    idle: list[Context] = []

    def context() -> Context:
        made = copy_context()
        made.run(np.seterr, all="ignore", invalid="ignore" if fail is None else "call")
        made.run(np.seterrcall, fail)
        return made

    def call(*arrays: Any) -> None:
        try:
            mine = idle.pop()
        except IndexError:
            mine = context()
        try:
            mine.run(gufunc, *arrays)
        finally:
            idle.append(mine)

    return call
