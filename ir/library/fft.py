"""Discrete Fourier transforms by NumPy's pocketfft: names that begin with ``numpy.fft.``.

One call transforms several axes. ``axes`` and ``sizes`` say which, in the order in which they are
transformed, and how many elements of each are used (more are zeros); ``norm`` is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.fft import _pocketfft_umath as pocketfft  # pyright: ignore

from ..dims import IntExpr
from ..dtype import DTYPES
from ..errors import LoopwrightTypeError
from .gufunc import quiet
from .registry import ArrayType, LibraryFunction, Typed, Values, register


def _rule(kind: str, operands: Sequence[Typed], options: Mapping[str, Any]) -> Sequence[ArrayType]:
    (operand,) = operands
    part = operand.dtype.part
    if not part.is_float or (kind == "rfft" and operand.dtype.is_complex):
        raise LoopwrightTypeError(f"there is no transform of {operand.dtype}")
    shape: list[IntExpr] = [*operand.shape]
    for axis, size in zip(options["axes"], options["sizes"], strict=True):
        shape[axis] = size
    if kind == "rfft":  # of the axis that is transformed first
        shape[options["axes"][0]] = options["sizes"][0] // 2 + 1
    return [ArrayType(tuple(shape), part if kind == "irfft" else part.complex)]


def _scale(norm: str, forward: bool, size: int, part: Any) -> Any:
    """Returns the factor of a transform of ``size`` elements."""
    if norm == "ortho":
        return np.reciprocal(np.sqrt(size, dtype=part))
    divided = norm == ("forward" if forward else "backward")
    return np.reciprocal(size, dtype=part) if divided else part(1)


def _bind(kind: str, options: Mapping[str, Any], _count: int) -> Values:
    axes, sizes, norm = options["axes"], options["sizes"], options["norm"]
    forward = kind in ("fft", "rfft")
    routines = [pocketfft.fft if forward else pocketfft.ifft] * len(axes)
    if kind == "rfft":
        routines[0] = pocketfft.rfft_n_odd if sizes[0] % 2 else pocketfft.rfft_n_even
    if kind == "irfft":
        routines[-1] = pocketfft.irfft
    steps = [(r, [(a,), (), (a,)], n) for r, a, n in zip(routines, axes, sizes, strict=True)]

    def between(a: Any, step: int, out: Any) -> Any:
        """Returns the array for a result that is transformed further."""
        axis, size = axes[step], sizes[step]
        shape = (*a.shape[:axis], size, *a.shape[axis + 1 :])
        if kind == "rfft" and step == 0:
            shape = (*a.shape[:axis], size // 2 + 1, *a.shape[axis + 1 :])
        if shape == out.shape and kind != "irfft":
            return out
        return np.empty(shape, DTYPES["complex64" if a.real.itemsize == 4 else "complex128"].numpy)

    def transform(a: Any, out: Any) -> None:
        part = a.real.dtype.type
        for step, (routine, where, size) in enumerate(steps):
            target = out if step == len(steps) - 1 else between(a, step, out)
            routine(a, _scale(norm, forward, size, part), axes=where, out=target)
            a = target

    def single(a: Any, out: Any) -> None:
        routine(a, scale(a.real.dtype.type), axes=where, out=out)

    if len(steps) > 1:
        return quiet(transform)
    routine, where, size = steps[0]
    scales = {t: _scale(norm, forward, size, t) for t in (np.float32, np.float64)}
    scale: Callable[[Any], Any] = scales.__getitem__
    return quiet(single)


def _declared(kind: str, doc: str) -> None:
    register(LibraryFunction(f"numpy.fft.{kind}", doc, partial(_rule, kind), partial(_bind, kind)))


_declared("fft", "Fourier transform of complex or real numbers.")
_declared("ifft", "Inverse of ``fft``.")
_declared("rfft", "Fourier transform of real numbers, without what is given by symmetry.")
_declared("irfft", "Inverse of ``rfft``: real numbers.")
