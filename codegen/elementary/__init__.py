"""Vector code for the elementary functions."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..target import Target
from .emitter import ElementaryFunction, Emitter, Value
from .erf import erf32
from .exp import exp32, sigmoid32
from .hyperbolic import tanh32
from .log import log32
from .root import rsqrt
from .trig import cos, sin, tan32, tan64

__all__ = ["ElementaryFunction", "function"]

Body = Callable[..., Value]

_BODIES: dict[tuple[str, str], Body] = {
    ("exp", "float32"): exp32,
    ("log", "float32"): log32,
    ("tanh", "float32"): tanh32,
    ("erf", "float32"): erf32,
    ("sigmoid", "float32"): sigmoid32,
    ("rsqrt", "float32"): rsqrt,
    ("sin", "float32"): sin,
    ("cos", "float32"): cos,
    ("tan", "float32"): tan32,
    ("sin", "float64"): sin,
    ("cos", "float64"): cos,
    ("tan", "float64"): tan64,
    ("rsqrt", "float64"): rsqrt,
}
_BINARY = frozenset(("atan2", "power", "truncate_mod", "floor_mod", "floor_divide"))


@functools.lru_cache(maxsize=4096)
def function(name: str, dtype: str, lanes: int, target: Target) -> ElementaryFunction:
    """The LLVM text of ``name`` on ``lanes`` elements of ``dtype``."""
    body = _BODIES[name, dtype]
    e = Emitter(f"lw.{name}.{dtype}.x{lanes}", dtype, lanes, target)
    operands = e.parameters("x", "y") if name in _BINARY else e.parameters("x")
    return e.finish(body(e, *operands))
