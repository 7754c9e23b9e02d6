"""Python's operators on traced arrays: ``x + y``, ``2 @ x``, ``-x``, ``x += y``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dispatch import UFUNCS
from .proxy import Proxy, WeakType, is_number, run

__all__ = ["IN_PLACE"]


def _operator(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator's symbol applied: NumPy's ufunc, but Python numbers stay Python numbers."""
    if not all(
        isinstance(o, Proxy | bool | int | float | np.ndarray | np.generic) for o in operands
    ):
        if any(isinstance(o, complex | list | tuple | str) or o is None for o in operands):
            return run(ufunc.__name__, UFUNCS[ufunc], operands)
        return NotImplemented
    result = run(ufunc.__name__, UFUNCS[ufunc], operands)
    if all(is_number(o) or getattr(o, "weak", None) for o in operands):
        kind: WeakType = {"b": bool, "f": float}.get(result.type.dtype.kind, int)
        numbers = [o.atom if type(o) is Proxy else o for o in operands]
        if kind is int:
            result.owner.numbers.result(result.atom, ufunc, numbers, result.owner.here())
        return Proxy(result.atom, result.owner, kind)
    return result


_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARISON = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _in_place(ufunc: np.ufunc, x: Proxy, y: Any) -> Any:
    """``x += y``: changes the array; a scalar is replaced, as in NumPy."""
    if x.is_scalar:
        memory = x.owner.memory
        memory.touch(x.storage)
        memory.changed = True
        return NotImplemented
    if not isinstance(y, Proxy | bool | int | float | np.ndarray | np.generic | list | tuple):
        return NotImplemented
    return x.__array_ufunc__(ufunc, "__call__", x, y, out=(x,))


IN_PLACE = {f"__i{name}__": ufunc for name, ufunc in _BINARY.items() if name != "divmod"}
"""The methods of ``x += y`` and its like."""


def _add_operators() -> None:
    for name, ufunc in {**_BINARY, **_COMPARISON}.items():
        setattr(Proxy, f"__{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, x, y))
    for name, ufunc in _BINARY.items():
        setattr(Proxy, f"__r{name}__", lambda x, y, ufunc=ufunc: _operator(ufunc, y, x))
    for name, ufunc in IN_PLACE.items():
        setattr(Proxy, name, lambda x, y, ufunc=ufunc: _in_place(ufunc, x, y))
    for name, ufunc in _UNARY.items():
        setattr(Proxy, f"__{name}__", lambda x, ufunc=ufunc: _operator(ufunc, x))


_add_operators()
