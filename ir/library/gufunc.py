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

from ..dims import IntExpr, int_min
from ..dtype import FLOAT64, INT32
from ..errors import LoopwrightTypeError
from .registry import ArrayType, LibraryFunction, Typed, Values, register


def gufunc_function(
    name: str,
    signature: str,
    results: str,
    call: Guarded | Callable[[Mapping[str, Any]], Values],
    doc: str,
) -> LibraryFunction:
    """Declares a function with a gufunc's signature.

    ``results`` has a letter for the dtype of each result: that of the operands (``t``), the real or
    complex one beside it (``r``, ``c``), or ``i`` for int32. ``call`` is the callable, if it takes
    arrays, or chooses it by the options. ``p`` in a signature is the lesser of ``m`` and ``n``;
    other sizes that operands do not have are options.
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
            stack = broadcast(stack, operand.shape[:rank])
            for axis, size in zip(axes, operand.shape[rank:], strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise LoopwrightTypeError(
                        f"sizes differ, {sizes[axis]} and {size}, where {signature} has the same"
                    )
        if "m" in sizes and "n" in sizes:
            sizes["p"] = int_min(sizes["m"], sizes["n"])
        dtype = operands[0].dtype
        if dtype.part is not FLOAT64:
            raise LoopwrightTypeError(f"operands are float64 or complex128, not {dtype}")
        types = {"t": dtype, "r": FLOAT64, "c": FLOAT64.complex, "i": INT32}
        return [
            ArrayType((*stack, *(sizes[a] for a in axes)), types[letter])
            for axes, letter in zip(outputs, results, strict=True)
        ]

    def bind(options: Mapping[str, Any], _count: int) -> Values:
        return call if isinstance(call, Guarded) else call(options)

    return register(LibraryFunction(name, doc, rule, bind, tuple(map(len, inputs))))


def broadcast(one: tuple[IntExpr, ...], other: tuple[IntExpr, ...]) -> tuple[IntExpr, ...]:
    """Returns the shape to which two shapes broadcast."""
    rank = max(len(one), len(other))
    left, right = ((1,) * (rank - len(s)) + s for s in (one, other))
    sizes: list[IntExpr] = []
    for a, b in zip(left, right, strict=True):
        if a != b and 1 not in (a, b):
            raise LoopwrightTypeError(f"stacks of {one} and {other} do not broadcast")
        sizes.append(b if a == 1 else a)
    return tuple(sizes)


class Guarded:
    """A callable on arrays that runs in a context of its own, where floating-point errors call
    ``fail``, or nothing.

    NumPy keeps what is done about them in a context variable, so that a context prepared once takes
    the place of ``np.errstate``, which takes longer than many a call. A context runs one thing at
    a time: there are as many as calls at the same time.
    """

    def __init__(self, run: Callable[..., Any], fail: Callable[[str, int], None] | None) -> None:
        self._run, self._fail = run, fail
        self._idle: list[Context] = []

    def _context(self) -> Context:
        made = copy_context()
        made.run(np.seterr, all="ignore", invalid="ignore" if self._fail is None else "call")
        made.run(np.seterrcall, self._fail)
        return made

    def __call__(self, *arrays: Any) -> None:
        try:
            context = self._idle.pop()
        except IndexError:
            context = self._context()
        try:
            context.run(self._run, *arrays)
        finally:
            self._idle.append(context)


def failing(run: Callable[..., Any], message: str) -> Guarded:
    """Returns ``run``, which raises NumPy's LinAlgError with ``message`` where it fails."""

    def fail(_error: str, _flag: int) -> None:
        raise np.linalg.LinAlgError(message)

    return Guarded(run, fail)


def quiet(run: Callable[..., Any]) -> Guarded:
    """Returns ``run`` without NumPy's warnings."""
    return Guarded(run, None)
