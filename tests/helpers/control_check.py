"""Compares traced control flow with what Python does on NumPy's arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
from loopwright.ir.graph.evaluate import evaluate
from loopwright.tracer.core.pytree import flatten

__all__ = ["check"]


def check(function: Callable[..., Any], *args: Any) -> str:
    """Compares the graph's result with Python's, arguments that are written included; returns the
    graph as text."""
    traced = lw.compile(function).trace(*args)
    arrays, shared = [np.array(a) for a in flatten(args)[0]], copy.deepcopy(args)
    wanted = flatten(function(*shared))[0]
    wanted += [flatten(shared)[0][w.operand] for w in traced.written if w.pieces[0].window is None]
    results = evaluate(traced.module, *arrays)
    given = list(results) if isinstance(results, tuple) else [results]
    for one, other in zip(given, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert isinstance(other, int | float) or one.dtype == other.dtype
    return traced.as_text(spans=False)
