"""Applies an operator: emits it while tracing, computes it at once on plain arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtype import Array, DType, float_for
from ...ir.graph.nodes import Constant
from ...ir.graph.operator import REQUIRED, Operator
from ...ir.ops import get
from ..core.argument_conversion import by_numpy, checked
from ..core.emitting import common_dtype, emit, lift
from ..core.proxy import Proxy
from ..core.trace import active
from .examples import example


def apply(name: str, *operands: Any, floats: bool = True, **attrs: Any) -> Any:
    """Applies the operator ``name`` to operands in their common dtype."""
    if active() is not None:
        return _emit(name, floats, *operands, **attrs)
    arrays = [np.asarray(o) for o in operands]
    dtype = _dtype(arrays, floats).numpy
    return _computed(name, [a.astype(dtype, copy=False) for a in arrays], attrs)


def apply_as_given(name: str, *operands: Any, **attrs: Any) -> Any:
    """Applies the operator ``name`` to operands that keep their dtypes, such as indices."""
    if active() is not None:
        return emit(name, *map(lift, operands), **attrs)
    return _computed(name, [np.asarray(o) for o in operands], attrs)


def _computed(name: str, arrays: list[Array], attrs: dict[str, Any]) -> Any:
    """Returns what the operator's reference computes of ``arrays``."""
    operator = get(name)
    complete = operator.complete_attrs(attrs)
    operator.infer(tuple(Constant(a).type for a in arrays), complete)  # raises what is wrong
    return by_numpy(operator.reference, arrays, complete)


def _emit(name: str, floats: bool, *operands: Any, **attrs: Any) -> Proxy:
    dtype = _dtype(operands, floats)
    return emit(name, *(lift(o, dtype) for o in operands), **attrs)


def _dtype(operands: Sequence[Any], floats: bool) -> DType:
    dtype = common_dtype(*operands)
    return float_for(dtype) if floats else dtype


def declared(op: Operator) -> Callable[..., Any]:
    """Returns the function that applies ``op`` to operands, given the attributes."""
    count = len(op.params)

    def function(*args: Any, **attrs: Any) -> Any:
        attrs |= {a.name: value for a, value in zip(op.attrs, args[count:], strict=False)}
        return apply(op.name, *args[:count], floats=op.dtypes == "f", **attrs)

    def parameter(name: str, kind: str, default: Any = REQUIRED) -> inspect.Parameter:
        given = inspect.Parameter.empty if default is REQUIRED else default
        form = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, form, default=given, annotation=kind)

    parameters = [parameter(name, "Any") for name in op.params]
    parameters += [parameter(a.name, a.kind, a.default) for a in op.attrs]
    function.__name__ = function.__qualname__ = op.name.removeprefix("nn.")
    function.__doc__ = op.doc.partition("\n    ")[0].rstrip() + example(function.__name__)
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return checked(function)
