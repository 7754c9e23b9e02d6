"""One program: a plain NumPy function, and the arrays it is called with."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Input, Workload

__all__ = ["KIND", "PROGRAMS", "program"]

KIND = "idiomatic"

PROGRAMS: dict[str, Workload] = {}
"""The programs by name, in the order in which they were declared."""


def program(
    out: tuple[int, ...],
    *,
    dtype: str = "float32",
    flops: float = 0,
    reduction: int = 0,
    scale: float = 1.0,
    strays: float = 0.0,
    moved: tuple[int, int] | None = None,
    **inputs: tuple[int, ...] | Input,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a program: a function of the arrays ``inputs``, in their order, after a namespace
    ``F`` if that is its first parameter (for what NumPy lacks: convolution, pooling).

    ``out`` and ``dtype`` are those of the result; an input that is a shape is a float32 array.
    ``flops`` are those of contractions, ``reduction`` and ``scale`` say how exact the result has to
    be, and ``strays`` is the share of the elements that a comparison near its threshold may send
    elsewhere. ``moved`` are the bytes that have to be read and written, where these are not those
    of all inputs and of the result: a program may change its arguments, or parts of them.
    """
    written = math.prod(out) * np.dtype(dtype).itemsize
    given = {n: i if isinstance(i, Input) else Input(i) for n, i in inputs.items()}

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        takes_namespace = next(iter(inspect.signature(function).parameters), "") == "F"

        def body(F: Any, *arrays: Any) -> Any:
            return function(F, *arrays) if takes_namespace else function(*arrays)

        name = function.__name__
        PROGRAMS[name] = Workload(
            name,
            function.__module__.rpartition(".")[2],
            given,
            body,
            read=moved[0] if moved else sum(i.nbytes for i in given.values()),
            written=moved[1] if moved else written,
            flops=int(flops),
            reduction=reduction,
            scale=scale,
            strays=strays,
            result_dtype=dtype,
            kind=KIND,
            params={"name": name},
        )
        return function

    return declare
