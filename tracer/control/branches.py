"""Branches for users: cond and switch, run by Python or traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..core.proxy import Proxy
from ..core.pytree import flatten, unflatten
from ..core.trace import active
from . import eager, traced
from .leaves import Fixed, leaf_type
from .traced_branches import branch, choose
from .user import for_users


@for_users
def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """Returns ``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``.

    ``pred`` is one bool or number. The branches may use the variables around them as well; they
    give arrays or numbers, or containers of them, of the same shapes and dtypes. Only one of them
    runs in a call. What it writes to arrays from outside stays written.

    Raises LoopwrightTypeError if the branches' results differ in type.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> f = lw.compile(lambda x: lw.cond(x.sum() > 0, lambda: x, lambda: -x))
    >>> f(np.array([1.0, -3.0]))
    array([-1.,  3.])
    """
    if type(pred) is not Proxy:
        chosen = true_fn if eager.is_true("cond", pred) else false_fn
        return _result(chosen, operands)
    trace = traced.running()
    with traced.ours(trace):
        condition = traced.condition_of(trace, "cond", pred)
        return branch("cond", condition, lambda: true_fn(*operands), lambda: false_fn(*operands))


@for_users
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Returns ``branches[index](*operands)``; an ``index`` out of range counts as the nearest.

    The branches give values of the same shapes and dtypes, as those of ``cond``.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> f = lw.compile(lambda i, x: lw.switch(i, [np.sin, np.cos, np.negative], x))
    >>> float(f(7, 2.0))
    -2.0
    """
    if not branches:
        raise LoopwrightValueError("switch: there are no branches")
    type_ = leaf_type(index)
    if isinstance(type_, Fixed) or type_.shape or not type_.dtype.is_integer:
        raise LoopwrightTypeError(
            f"switch: index is one integer, and this is {type_}", hint=".astype(np.int64)"
        )
    if type(index) is not Proxy:
        chosen = branches[int(np.clip(index, 0, len(branches) - 1))]
        return _result(chosen, operands)
    return choose(index, [functools.partial(branch, *operands) for branch in branches])


def _result(chosen: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Returns the result of a branch that Python chose, whose arrays are no views of others."""
    if active() is None:
        return eager.branch(chosen, operands)
    leaves, structure = flatten(chosen(*operands))
    values = [v.copy() if type(v) is Proxy and not v.is_scalar else v for v in leaves]
    return unflatten(structure, values)
