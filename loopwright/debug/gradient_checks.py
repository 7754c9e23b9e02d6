"""``lw.check_grads``: derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..face.transforms import grad, jvp, vjp
from ..tracer.core.pytree import flatten, unflatten
from ..tracer.transforms.block import called

SEED = 0
"""Seed of the random directions."""


def check_grads(
    function: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    step: float = 1e-5,
    tolerance: float = 1e-4,
) -> None:
    """Compares both modes with one another and with differences of a function of float64 arrays.

    Raises AssertionError that says which mode differs, and by how much. Each ``order`` above 1
    checks the gradient's derivatives as well. Differences of ``step`` are taken along a random
    direction; values that jump there fail.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.check_grads(lambda x: np.sin(x) * x, (np.array([0.5, 2.0]),))
    """
    args = tuple(args)
    rng = np.random.default_rng(SEED)
    leaves, structure = flatten(list(args))
    points = [np.asarray(leaf, np.float64) for leaf in leaves]
    directions = [rng.standard_normal(p.shape) for p in points]

    def at(distance: float) -> list[Any]:
        moved = [p + distance * d for p, d in zip(points, directions, strict=True)]
        return flatten(function(*unflatten(structure, moved)))[0]

    primals, tangents = unflatten(structure, points), unflatten(structure, directions)
    _, changes = jvp(function, primals, tangents)
    forward = flatten(changes)[0]
    ahead, behind = at(step), at(-step)
    slopes = [(np.asarray(a) - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]
    for one, other in zip(forward, slopes, strict=True):
        _compare("forward mode differs from differences", one, other, tolerance)
    result, pull = vjp(function, *primals)
    outputs, shape = flatten(result)
    cotangents = [rng.standard_normal(np.shape(o)) for o in outputs]
    back = flatten(list(pull(unflatten(shape, cotangents))))[0]
    there = sum(float(np.sum(c * f)) for c, f in zip(cotangents, forward, strict=True))
    here = sum(float(np.sum(b * d)) for b, d in zip(back, directions, strict=True))
    _compare("reverse mode differs from forward mode", here, there, tolerance)
    if order > 1:

        def weighted(*given: Any) -> Any:
            results = flatten(called(function, *given))[0]
            return sum((c * r).sum() for c, r in zip(cotangents, results, strict=True))

        gradient = grad(weighted, argnums=tuple(range(len(args))))
        check_grads(gradient, args, order - 1, step, tolerance)


def _compare(what: str, one: Any, other: Any, tolerance: float) -> None:
    distance = float(np.max(np.abs(np.asarray(one) - other), initial=0))
    scale = max(1.0, float(np.max(np.abs(other), initial=0)))
    if not distance <= tolerance * scale:
        raise AssertionError(f"{what} by {distance / scale:.3g}, which is above {tolerance}")
