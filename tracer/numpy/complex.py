"""NumPy's functions of complex numbers on traced arrays: parts, conjugates, angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.errors import LoopwrightTypeError
from ..core.dispatch import METHODS, UFUNCS, by_element, implement, implements, method, views
from ..core.emitting import copied, emit, lift, promoted
from ..core.proxy import Proxy
from .elementwise import full_like
from .ufuncs import with_options


@implements(np.real)
@method("real")
@views
def _real(val: Any) -> Proxy:
    x = lift(val)
    return emit("real", x) if x.type.dtype.is_complex else x


@implements(np.imag)
@method("imag")
@views
def _imag(val: Any) -> Proxy:
    x = lift(val)
    return emit("imag", x) if x.type.dtype.is_complex else full_like(x, 0, x.type.dtype)


@method("real.set")
def _set_real(x: Proxy, value: Any) -> None:
    METHODS["__setitem__"](_real(x), ..., value)


@method("imag.set")
def _set_imag(x: Proxy, value: Any) -> None:
    if not x.type.dtype.is_complex:
        raise LoopwrightTypeError("array does not have imaginary part to set")
    METHODS["__setitem__"](_imag(x), ..., value)


def _conjugate(x: Any) -> Proxy:
    (operand,), _ = promoted(np.conjugate, x)
    if operand.type.dtype.is_complex:
        return emit("conj", operand)
    return copied(operand, "K") if operand.ndim else Proxy(operand.atom, operand.owner)


UFUNCS[np.conjugate] = with_options(_conjugate)


@method("conj", "conjugate")
@views
def _conjugated(a: Any) -> Proxy:
    """A real array is its own conjugate, and no copy."""
    x = lift(a)
    return _conjugate(x) if x.type.dtype.is_complex else x


@implements(np.angle)
@by_element
def _angle(z: Any, deg: bool = False) -> Any:
    x = lift(z)
    angle = np.arctan2(_imag(x) if x.type.dtype.is_complex else 0, _real(x))
    return angle * (180 / math.pi) if deg else angle


implement(
    {
        np.iscomplexobj: lambda x: lift(x).type.dtype.is_complex,
        np.isrealobj: lambda x: not lift(x).type.dtype.is_complex,
    }
)
implement({np.iscomplex: lambda x: _imag(x) != 0, np.isreal: lambda x: _imag(x) == 0}, by_element)
