"""The meaning of a loop nest: a slow interpreter that does literally what the nest says.

It is the oracle of the code generator. Reads and writes outside a buffer raise IndexError, so it is
also the oracle of every schedule primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import lt
from typing import Any, TypeAlias

import numpy as np

from ..dims import Dim, IntExpr, as_int, evaluate
from ..dtype import Array, DType
from .expr import Const, Expr, Index, Read
from .nest import Accumulate, Alloc, At, If, Let, Loop, Nest, Prefetch, Sort, Stmt
from .scalar import COMBINERS, SCALAR_OPS

Env: TypeAlias = Mapping[str, int]
Run: TypeAlias = Callable[[Stmt, Env, Mapping[str, Array]], bool]


def interpret(
    nest: Nest,
    operands: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    run: Run | None = None,
) -> None:
    """Run ``nest`` on arrays by operand name; the outputs among them are written to. ``sizes`` are
    the values of symbolic sizes. ``run`` is asked first to run a statement: False if it does not.
    """
    arrays, sizes = dict(operands), dict(sizes or {})
    for buffer in nest.workspace:
        shape = [evaluate(s, sizes) for s in buffer.shape]
        arrays[buffer.name] = np.full(shape, 77, buffer.dtype.numpy)
    with np.errstate(all="ignore"):
        _run(nest.body, sizes, arrays, run)


def _run(body: tuple[Stmt, ...], env: Env, arrays: Mapping[str, Array], run: Run | None) -> None:
    for stmt in body:
        if run is not None and run(stmt, env, arrays):
            continue
        if isinstance(stmt, Loop):
            iterations = range(evaluate(stmt.extent, env))
            if isinstance(stmt, At):
                chosen = int(value_of(stmt.value, env, arrays, {}))
                iterations = range(chosen, chosen + 1) if chosen in iterations else range(0)
            inside = dict(env)
            for i in iterations:
                inside[stmt.var] = i
                _run(stmt.body, inside, arrays, run)
        elif isinstance(stmt, Let):
            env = {**env, stmt.var: (value := evaluate(stmt.value, env))}
            if stmt.extent is not None and not 0 <= value < evaluate(stmt.extent, env):
                raise IndexError(f"{stmt.var} = {value} is not in {stmt.extent}")
        elif isinstance(stmt, Alloc):
            shape = [as_int(s) for s in stmt.buffer.shape]
            arrays = {**arrays, stmt.buffer.name: np.full(shape, 77, stmt.buffer.dtype.numpy)}
        elif isinstance(stmt, If):
            taken = stmt.then if value_of(stmt.condition, env, arrays, {}) else stmt.orelse
            _run(taken, env, arrays, run)
        elif isinstance(stmt, Sort):
            if evaluate(stmt.count, env) == 0:
                continue
            for place in (stmt.indices, stmt.last):
                at = element(stmt.buffer, place, env, arrays)
            row = arrays[stmt.buffer][at[:-1]]
            row[at[-1] + 1 - evaluate(stmt.count, env) : at[-1] + 1].sort()
        elif not isinstance(stmt, Prefetch):
            at = element(stmt.buffer, stmt.indices, env, arrays)
            value = value_of(stmt.value, env, arrays, {})
            if isinstance(stmt, Accumulate):
                value = COMBINERS[stmt.combiner].numpy(arrays[stmt.buffer][at], value)
            arrays[stmt.buffer][at] = value


def element(
    name: str, indices: tuple[IntExpr | Expr, ...], env: Env, arrays: Mapping[str, Array]
) -> tuple[int, ...]:
    """Returns the place of an element. IndexError if it is outside of its buffer."""
    at = _indices(indices, env, arrays, {})
    _check(arrays[name], at, name)
    return at


def _check(array: Array, at: tuple[int, ...], name: str) -> None:
    if len(at) != array.ndim or min(at, default=0) < 0 or not all(map(lt, at, array.shape)):
        raise IndexError(f"{name}[{', '.join(map(str, at))}] is outside {array.shape}")


def _indices(
    indices: tuple[IntExpr | Expr, ...],
    env: Mapping[str, int],
    arrays: Mapping[str, Array],
    memo: dict[int, Any],
) -> tuple[int, ...]:
    at = [
        evaluate(i, env) if isinstance(i, (Dim, int)) else int(value_of(i, env, arrays, memo))
        for i in indices
    ]
    return tuple(at)


def value_of(
    expr: Expr, env: Mapping[str, int], arrays: Mapping[str, Array], memo: dict[int, Any]
) -> Any:
    """Returns the value of an expression, computed once for each of its nodes."""
    value = memo.get(id(expr))
    if value is None:
        value = memo[id(expr)] = _compute(expr, env, arrays, memo)
    return value


def _compute(
    expr: Expr, env: Mapping[str, int], arrays: Mapping[str, Array], memo: dict[int, Any]
) -> Any:
    if isinstance(expr, Const):
        return expr.dtype.numpy.type(expr.value)
    if isinstance(expr, Index):
        return np.int64(evaluate(expr.value, env))
    if isinstance(expr, Read):
        at = _indices(expr.indices, env, arrays, memo)
        _check(arrays[expr.buffer], at, expr.buffer)
        return arrays[expr.buffer][at]
    if expr.name == "where":
        chosen = expr.args[1] if value_of(expr.args[0], env, arrays, memo) else expr.args[2]
        return value_of(chosen, env, arrays, memo)
    args = [value_of(a, env, arrays, memo) for a in expr.args]
    if expr.name == "cast":
        return convert(args[0], expr.dtype)
    return expr.dtype.numpy.type(SCALAR_OPS[expr.name].numpy(*args))


def convert(value: Any, dtype: DType) -> Any:
    """``astype`` of one value."""
    return np.asarray(value).astype(dtype.numpy)[()]
