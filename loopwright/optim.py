"""Optimisers as plain functions on trees of arrays, to be a part of a compiled training step.

Each is a pair: ``init(params)`` returns the state, and ``update(grads, state, params)`` returns
the changes of the parameters, and the next state. ``apply(params, changes)`` adds the changes.
Trees are nested dicts, lists, tuples and dataclasses, the same for all of them.

>>> import numpy as np
>>> import loopwright as lw
>>> init, update = lw.optim.adam(0.1)
>>> @lw.compile
... def step(params, state):
...     loss, grads = lw.value_and_grad(lambda p: ((p["w"] - 3) ** 2).sum())(params)
...     changes, state = update(grads, state, params)
...     return loss, lw.optim.apply(params, changes), state
>>> params = {"w": np.zeros(2)}
>>> state = init(params)
>>> for _ in range(200):
...     loss, params, state = step(params, state)
>>> np.round(params["w"], 2)
array([3., 3.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .tracer.core.pytree import flatten, unflatten

Schedule = Callable[[Any], Any]
"""The learning rate of a step, by its number from 0 on."""


class Optimiser(NamedTuple):
    """``init(params)`` returns a state; ``update(grads, state, params)`` (changes, next state).

    >>> lw.optim.sgd(0.5).init({"w": np.ones(2)}) is not None
    True
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def over(function: Callable[..., Any], *trees: Any) -> Any:
    """Returns a tree of ``function`` of the leaves of trees of one structure.

    >>> over(lambda x, y: x + y, {"a": 1}, {"a": 2})
    {'a': 3}
    """
    flat = [flatten(tree)[0] for tree in trees]
    return unflatten(
        flatten(trees[0])[1], [function(*leaves) for leaves in zip(*flat, strict=True)]
    )


def apply(params: Any, changes: Any) -> Any:
    """Returns parameters with changes added, in the dtype of the parameters.

    >>> apply([1.0, 2.0], [0.5, -1.0])
    [1.5, 1.0]
    """
    return over(lambda p, c: p + c, params, changes)


def _rate(rate: float | Schedule, step: Any) -> Any:
    return rate(step) if callable(rate) else rate


def _scaled(scale: Any, tree: Any) -> Any:
    """Returns a tree times a number, which does not change its dtypes."""
    return over(lambda x: x * _of_dtype(scale, x), tree)


def _of_dtype(number: Any, like: Any) -> Any:
    """Returns a number in the dtype of an array; a Python number has that of what it meets."""
    if isinstance(number, float) or not hasattr(like, "dtype"):
        return number
    return np.asarray(number).astype(like.dtype)


def _zeros(tree: Any) -> Any:
    return over(lambda p: p * 0, tree)


def sgd(rate: float | Schedule) -> Optimiser:
    """Gradient descent: changes are ``-rate * grads``.

    >>> init, update = sgd(0.5)
    >>> update([2.0], init([1.0]), [1.0])[0]
    [-1.0]
    """
    return Optimiser(
        lambda _params: 0, lambda g, n, _params: (_scaled(-1.0 * _rate(rate, n), g), n + 1)
    )


def momentum(rate: float | Schedule, decay: float = 0.9, nesterov: bool = False) -> Optimiser:
    """Gradient descent along a decaying sum of gradients (Polyak 1964; Nesterov 1983).

    >>> init, update = momentum(0.5)
    >>> update([2.0], init([1.0]), [1.0])[0]
    [-1.0]
    """

    def update(grads: Any, state: Any, _params: Any) -> tuple[Any, Any]:
        n, sums = state
        sums = over(lambda s, g: decay * s + g, sums, grads)
        along = over(lambda s, g: decay * s + g, sums, grads) if nesterov else sums
        return _scaled(-1.0 * _rate(rate, n), along), (n + 1, sums)

    return Optimiser(lambda params: (0, _zeros(params)), update)


def adam(
    rate: float | Schedule,
    decay: float = 0.9,
    square_decay: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> Optimiser:
    """Steps of about equal size in all directions (Kingma and Ba, 2015). With ``weight_decay`` it
    is AdamW (Loshchilov and Hutter, 2019).

    >>> init, update = adam(0.5)
    >>> round(update([2.0], init([1.0]), [1.0])[0][0], 6)
    -0.5
    """

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        n, first, second = state
        first = over(lambda m, g: decay * m + (1 - decay) * g, first, grads)
        second = over(lambda v, g: square_decay * v + (1 - square_decay) * g * g, second, grads)
        of_first, of_second = 1 - decay ** (n + 1.0), 1 - square_decay ** (n + 1.0)
        size = _rate(rate, n)

        def change(m: Any, v: Any, p: Any) -> Any:
            root = (v / _of_dtype(of_second, v)) ** 0.5
            step = m / _of_dtype(of_first, m) / (root + epsilon)
            step = step + weight_decay * p if weight_decay else step
            return step * _of_dtype(-1.0 * size, m)

        return over(change, first, second, params), (n + 1, first, second)

    return Optimiser(lambda params: (0, _zeros(params), _zeros(params)), update)


def adamw(rate: float | Schedule, weight_decay: float = 0.01, **options: float) -> Optimiser:
    """``adam`` whose weights decay by themselves.

    >>> init, update = adamw(0.5, weight_decay=0.1)
    >>> round(update([2.0], init([1.0]), [1.0])[0][0], 6)
    -0.55
    """
    return adam(rate, weight_decay=weight_decay, **options)


def lion(
    rate: float | Schedule, decay: float = 0.9, slow_decay: float = 0.99, weight_decay: float = 0.0
) -> Optimiser:
    """Steps of the sign of a decaying sum (Chen and others, 2023).

    >>> init, update = lion(0.5)
    >>> [float(c) for c in update([2.0], init([1.0]), [1.0])[0]]
    [-0.5]
    """

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        n, sums = state
        size = _rate(rate, n)

        def change(s: Any, g: Any, p: Any) -> Any:
            step = np.sign(decay * s + (1 - decay) * g) + weight_decay * p
            return step * _of_dtype(-1.0 * size, step)

        changes = over(change, sums, grads, params)
        return changes, (
            n + 1,
            over(lambda s, g: slow_decay * s + (1 - slow_decay) * g, sums, grads),
        )

    return Optimiser(lambda params: (0, _zeros(params)), update)


def clipped(most: float, optimiser: Optimiser) -> Optimiser:
    """An optimiser of gradients whose norm over all leaves is ``most`` at most.

    >>> init, update = clipped(1.0, sgd(1.0))
    >>> [round(float(c), 6) for c in update([3.0, 4.0], init([0.0, 0.0]), [0.0, 0.0])[0]]
    [-0.6, -0.8]
    """

    def update(grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        norm = sum(np.sum(g * g) for g in flatten(grads)[0]) ** 0.5
        scale = most / np.maximum(norm, most)
        return optimiser.update(_scaled(scale, grads), state, params)

    return Optimiser(optimiser.init, update)
