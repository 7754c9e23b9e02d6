"""Evaluates a graph function with NumPy, in its own dtypes or with float64 instead of float32.

Values of every binding are kept, so that each operation can be looked at. It is for what compiled
code can be made of: flat functions, without branches and function values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..ir.dtype import Array, dtype_of
from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import (
    Atom,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.graph.operator import Operator
from ..ir.loop.evaluate import evaluate_prim
from ..ir.loop.prim import PrimFunc
from ..ir.loop.widen import widened

__all__ = ["Value", "flat", "result_of", "values_of"]

Value: TypeAlias = "Array | tuple[Value, ...]"


def values_of(
    function: Function, args: Sequence[Array], module: Module | None = None, *, wide: bool
) -> dict[Var, Value]:
    """Returns the value of every parameter and binding of ``function`` on ``args``.

    ``module`` has the functions that it calls. With ``wide`` all float32 is float64: literals and
    arguments keep the value that float32 gave them.
    """
    values: dict[Var, Value] = {p: _as(a, wide) for p, a in zip(function.params, args, strict=True)}
    with np.errstate(all="ignore"):
        for binding in function.body.bindings:
            values[binding.var] = _value(binding.value, values, module, wide)
    return values


def flat(value: Value) -> list[Array]:
    """Returns the arrays of a value, with tuples flattened."""
    return [a for field in value for a in flat(field)] if isinstance(value, tuple) else [value]


def result_of(function: Function, values: Mapping[Var, Value], *, wide: bool) -> Value:
    """Returns the function's result among the values of its bindings."""
    return _atom(function.body.result, values, wide)


def _value(expr: Expr, values: Mapping[Var, Value], module: Module | None, wide: bool) -> Value:
    if isinstance(expr, Tuple):
        return tuple(_atom(f, values, wide) for f in expr.fields)
    if isinstance(expr, TupleGetItem):
        fields = _atom(expr.value, values, wide)
        assert isinstance(fields, tuple)
        return fields[expr.index]
    if isinstance(expr, Call):
        args = [_atom(a, values, wide) for a in expr.args]
        if isinstance(expr.op, Operator):
            return _as(expr.op.reference(args, _attrs(expr.attrs, wide)), wide)
        callee = module.functions.get(expr.op.name) if module is not None else None
        if isinstance(callee, PrimFunc):
            return _kernel_value(callee, args, wide)
        if isinstance(callee, Function):
            inner = values_of(callee, [a for v in args for a in flat(v)], module, wide=wide)
            return result_of(callee, inner, wide=wide)
    if isinstance(expr, Var | Constant | GlobalVar):
        return _atom(expr, values, wide)
    raise UnsupportedError(
        f"{type(expr).__name__} is not compiled", span=getattr(expr, "span", None)
    )


def _kernel_value(prim: PrimFunc, args: Sequence[Value], wide: bool) -> Value:
    """Returns the results of a kernel of the module, by its tensor expressions."""
    arrays = {p.name: np.asarray(a) for p, a in zip(prim.params, args, strict=True)}
    results = tuple(evaluate_prim(widened(prim) if wide else prim, arrays).values())
    return results[0] if len(results) == 1 else results


def _atom(atom: Atom, values: Mapping[Var, Value], wide: bool) -> Value:
    if isinstance(atom, GlobalVar):
        raise UnsupportedError(f"@{atom.name} is used as a value", span=atom.span)
    return values[atom] if isinstance(atom, Var) else _as(atom.value, wide)


def _as(value: Any, wide: bool) -> Value:
    if isinstance(value, tuple | list):
        return tuple(_as(v, wide) for v in value)
    array = np.asarray(value)
    return array.astype(dtype_of(array).wide.numpy, copy=False) if wide else array


def _attrs(attrs: Mapping[str, Any], wide: bool) -> Mapping[str, Any]:
    """Returns the attributes, with the wider dtype where one names a dtype and ``wide`` is set."""
    return {k: dtype_of(v).wide.name if wide and k == "dtype" else v for k, v in attrs.items()}
