"""Control flow of PyTorch's graphs: branches and loops whose bodies are graphs of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ... import control
from .table import Value

Graph: TypeAlias = Callable[..., Sequence[Any]]
"""A graph as a function of its inputs."""


def _cond(pred: Value, then: Graph, orelse: Graph, operands: Sequence[Value] = ()) -> Any:
    condition = pred if isinstance(pred, bool) else np.reshape(pred, ())
    return control.cond(condition, then, orelse, *operands)


def _while_loop(
    condition: Graph, body: Graph, carried: Sequence[Value], others: Sequence[Value] = ()
) -> Any:
    def goes_on(carry: Sequence[Value]) -> Value:
        (going,) = condition(*carry, *others)
        return np.reshape(going, ())

    return control.while_loop(goes_on, lambda carry: tuple(body(*carry, *others)), tuple(carried))


def _scan(
    body: Graph, init: Sequence[Value], xs: Sequence[Value], others: Sequence[Value] = ()
) -> Any:
    def step(carry: Sequence[Value], row: Sequence[Value]) -> Any:
        results = body(*carry, *row, *others)
        return tuple(results[: len(init)]), tuple(results[len(init) :])

    last, outputs = control.scan(step, tuple(init), tuple(xs))
    return (*last, *outputs)


def _map(body: Graph, xs: Sequence[Value], others: Sequence[Value] = ()) -> Any:
    return control.map(lambda row: tuple(body(*row, *others)), tuple(xs))


HIGHER_ORDER: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
    "while_loop": _while_loop,
}
"""Operators whose operands are graphs, by name."""
