"""NumPy's polynomials, by their coefficients from the highest power down."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import as_int
from ...ir.dtype import FLOAT64, INT64
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.nodes import Constant
from ..core.dispatch import FUNCTIONS, implement, implementation_of, implements
from ..core.emitting import common, common_strong, emit, lift
from ..core.proxy import Proxy
from .creation import number
from .elementwise import full_like
from .shaping import reshape


def _coefficients(p: Any) -> Proxy:
    if isinstance(p, np.poly1d):
        p = p.coeffs
    x = lift(p)
    x = reshape(x, x.shape or (1,))
    if x.ndim != 1:
        raise LoopwrightTypeError(f"coefficients are a vector, not {x.type.short}")
    return x if x.weak is None else Proxy(x.atom, x.owner)


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    """Horner's rule."""
    if isinstance(x, np.poly1d):
        raise UnsupportedError("np.polyval of a polynomial", hint="np.polyval(p, x) of an array")
    coefficients, at = _coefficients(p), lift(x)
    value: Any = full_like(at, 0, at.type.dtype)
    for n in range(as_int(coefficients.size)):
        value = value * at + coefficients[n]
    return value


implement(
    {
        np.polyadd: lambda a1, a2: emit("add", *_of_one_length(a1, a2)),
        np.polysub: lambda a1, a2: emit("subtract", *_of_one_length(a1, a2)),
    }
)


def _of_one_length(a1: Any, a2: Any) -> list[Proxy]:
    parts = common_strong(_coefficients(a1), _coefficients(a2))
    longest = max(as_int(p.size) for p in parts)
    return [
        emit("nn.pad", p, pad_width=((longest - as_int(p.size), 0),), pad_value=0, mode="constant")
        for p in parts
    ]


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    """The product of both without the zeros that they begin with, of which there is no power."""
    first, second = _coefficients(a1), _coefficients(a2)
    made: Any = np.convolve(first, second)
    begin: Any = sum(map(_leading_zeros, (first, second)))
    return made if isinstance(begin, int) and not begin else made[begin:]


def _leading_zeros(x: Proxy) -> Any:
    """The number of zeros in front, but one of zeros alone; an int where it is known."""
    if isinstance(x.atom, Constant):
        return int(np.argmax(np.append(x.atom.value[:-1] != 0, True)))
    some: Any = x != 0
    return np.where(np.any(some), np.argmax(some), number(x.size - 1, INT64))


@implements(np.polyder)
def _polyder(p: Any, m: int = 1) -> Any:
    if m < 0:
        raise LoopwrightValueError("Order of derivative must be positive (see polyint)")
    x: Any = _coefficients(p)
    for _ in range(m):
        x = x[:-1] * np.arange(as_int(x.size) - 1, 0, -1)
    return x


@implements(np.polyint)
def _polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    if m < 0:
        raise LoopwrightValueError("Order of integral must be positive (see polyder)")
    constants = lift(0.0 if k is None else k, FLOAT64)
    constants = np.broadcast_to(constants, (m,)) if constants.size == 1 else constants
    if constants.shape != (m,):
        raise LoopwrightValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    x: Any = _coefficients(p)
    for n in range(m):
        whole = x / np.arange(as_int(x.size), 0, -1)
        x = FUNCTIONS[np.concatenate]([whole, constants[n : n + 1]])
    return x


@implements(np.poly)
def _poly(seq_of_zeros: Any) -> Any:
    zeros = _coefficients(seq_of_zeros)
    if zeros.type.dtype.is_complex:
        raise UnsupportedError(
            "np.poly of complex zeros is real if they are conjugate to each other",
            hint="np.convolve of the factors",
        )
    zeros = zeros if zeros.itemsize > 2 and zeros.type.dtype.is_float else lift(zeros, FLOAT64)
    made: Any = full_like(zeros[:1], 1, zeros.type.dtype)
    for n in range(as_int(zeros.size)):
        longer = FUNCTIONS[np.concatenate]
        made = longer([made, made[:1] * 0]) - longer([made[:1] * 0, made * zeros[n]])
    return made


@implements(np.polyfit)
def _polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Least squares of scaled powers, by their pseudo-inverse."""
    if full or cov:
        raise UnsupportedError("np.polyfit: full= and cov= are not supported")
    at, values = (common(lift(v), lift(0.0, FLOAT64))[0] for v in (x, y))
    if at.ndim != 1 or values.ndim not in (1, 2) or at.shape[0] != values.shape[0]:
        raise LoopwrightTypeError(f"np.polyfit of {at.type.short} and {values.type.short}")
    powers: Any = FUNCTIONS[np.vander](at, int(deg) + 1)
    if w is not None:
        weight: Any = common(lift(w), lift(0.0, FLOAT64))[0]
        powers = powers * weight[:, None]
        values = values * (weight if values.ndim == 1 else weight[:, None])
    scale: Any = np.sqrt(np.sum(powers * powers, 0))
    inverse = implementation_of(np.linalg.pinv)
    assert inverse is not None
    cutoff = as_int(at.shape[0]) * np.finfo(np.float64).eps if rcond is None else rcond
    result = np.matmul(inverse(powers / scale, cutoff), values)
    return result / (scale if result.ndim == 1 else scale[:, None])
