"""Gradients of rows by the rules of our own operators, for ATen's operators of backward graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...transforms.derivatives import Linearised
from .table import Value


def pulled_back(function: Callable[..., Value], cotangent: Value, *args: Value) -> Sequence[Value]:
    """Returns the cotangents of ``args`` from that of what ``function`` returns for them. What only
    the value needs is dead code, and goes."""
    at = Linearised("the backward graph", function, args, range(len(args)))
    return at.pull(at.cotangents(cotangent))
