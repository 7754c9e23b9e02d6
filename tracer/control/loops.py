"""Loops for users: while_loop, fori_loop, scan and map, run by Python or traced."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dims import IntExpr
from ...ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from ...ir.graph.requirements import require
from ..core.proxy import Proxy
from ..core.pytree import flatten, paths
from ..core.symbolic_sizes import Size
from ..core.trace import Trace, active, tracing
from . import eager, traced
from .leaves import Fixed, leaf_type
from .traced_branches import of_loop
from .user import for_users


@for_users
def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Returns the last carry of ``while cond_fn(carry): carry = body_fn(carry)``.

    The carry begins as ``init``: an array, a number, or tuples, lists, dicts and dataclasses of
    them. Shapes and dtypes stay as they are; a carry that begins as a Python number takes the dtype
    that the body gives. ``cond_fn`` gives one bool or number.

    Raises LoopwrightTypeError if the body gives another shape or dtype, or other containers.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> def gcd(a, b):
    ...     return lw.while_loop(lambda c: c[1] != 0, lambda c: (c[1], c[0] % c[1]), (a, b))[0]
    >>> gcd(48, 36), int(lw.compile(gcd)(48, 36))
    (12, 12)
    """
    if active() is None:
        return eager.while_loop(cond_fn, body_fn, init)
    loop = functools.partial(traced.while_loop, cond_fn, body_fn, init)
    return of_loop("while_loop", loop, lambda: cond_fn(init), init)


@for_users
def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Returns the last carry of ``for i in range(lower, upper): carry = body_fn(i, carry)``.

    ``lower`` and ``upper`` are ints or integer scalars, traced ones too; ``i`` is a Python int. The
    carry is as in ``while_loop``.

    Raises LoopwrightTypeError if the body gives another shape or dtype, or other containers.

    >>> import loopwright as lw
    >>> power = lw.compile(lambda x, n: lw.fori_loop(0, n, lambda i, y: y * x, 1.0))
    >>> float(power(1.5, 3))
    3.375
    """
    lower, upper = _count("lower", lower), _count("upper", upper)
    if active() is None:
        return eager.for_loop(lower, upper, body_fn, init)
    loop = functools.partial(traced.for_loop, lower, upper, body_fn, init)
    return of_loop("fori_loop", loop, lambda: lower < upper, init)


@for_users
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Returns the last carry of ``carry, y = f(carry, x)`` for each row ``x`` of ``xs``, and the
    outputs ``y`` stacked.

    ``xs`` is an array, or containers of arrays of one length, whose rows are given together; with
    None, ``length`` says how often ``f`` runs. ``reverse`` goes from the last row to the first;
    output ``i`` belongs to row ``i`` all the same. ``unroll`` iterations are written one after the
    other in the loop's body (True: all of them). The carry is as in ``while_loop``; the outputs
    have one shape and dtype.

    Raises LoopwrightTypeError if ``f`` changes the type of the carry, LoopwrightValueError for
    rows of different numbers.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> total, sums = lw.scan(lambda s, x: (s + x, s + x), 0, np.array([1, 2, 3]))
    >>> int(total), sums
    (6, array([1, 3, 6]))
    """
    return _scan("scan", f, init, xs, length, reverse, unroll)


@for_users
def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """Returns ``f(x)`` for each row ``x`` of ``xs``, stacked.

    ``xs`` is an array, or containers of arrays of one length. The results of ``f``, arrays or
    containers of them, have one shape and dtype.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.map(lambda x: x @ x, np.array([[3.0, 4.0], [6.0, 8.0]]))
    array([ 25., 100.])
    """
    return _scan("map", lambda carry, x: (carry, f(x)), None, xs, None, False, 1)[1]


def _kind_of(result: Any) -> str:
    return "one array" if isinstance(result, Proxy) else type(result).__name__


def _scan(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
) -> tuple[Any, Any]:
    count = _length(operation, xs, length)

    def pair(carry: Any, x: Any) -> tuple[Any, Any]:
        result = f(carry, x)
        if type(result) is not tuple or len(result) != 2:
            raise LoopwrightTypeError(
                f"{operation}: the body gives {_kind_of(result)}, not (carry, output)",
                hint="return carry, None where there is no output",
            )
        return result

    if unroll is True and not isinstance(count, int):
        raise UnsupportedError(
            f"{operation}: unroll=True needs the number of rows, and it is symbolic: {count}",
            hint="unroll=1",
        )
    at_once: Any = count if unroll is True else max(1, operator.index(unroll))
    if active() is not None:
        return traced.scan(operation, pair, init, xs, count, reverse, at_once)
    assert isinstance(count, int)
    if count:
        return eager.scan(operation, pair, init, xs, count, reverse)
    with tracing(Trace(operation)):  # no iteration says of which types the outputs are
        carry, outputs = traced.scan(operation, pair, init, xs, 0, reverse, 1)
    return eager.of_no_iterations(init, carry, outputs)


def _length(operation: str, xs: Any, length: Any) -> IntExpr:
    """Returns the number of rows of ``xs``, which ``length`` has to be as well."""
    leaves, structure = flatten(xs)
    counts: dict[str, IntExpr] = {}
    if length is not None:
        counts["length"] = length.expr if type(length) is Size else operator.index(length)
    for path, leaf in zip(paths(structure, "xs"), leaves):
        type_ = leaf_type(leaf)
        if isinstance(type_, Fixed) or not type_.shape:
            raise LoopwrightTypeError(
                f"{operation}: {path} is {type_}, which has no rows", hint="np.array of it"
            )
        counts[path] = type_.shape[0]
    if not counts:
        raise LoopwrightValueError(f"{operation}: no rows and no length", hint="length=10")
    (first, count), *others = counts.items()
    for path, other in others:
        message = f"{operation}: {first} has {count} rows, {path} has {other}"
        if not require(count, "==", other, message):
            raise LoopwrightValueError(message)
    return count


def _count(name: str, value: Any) -> Any:
    """Returns a bound of ``fori_loop``: a Python int, or a traced integer scalar."""
    if type(value) is Size:
        return value.number()
    if type(value) is Proxy:
        if value.shape or not value.type.dtype.is_integer:
            raise _no_count(name, value.type.short)
        return value
    if isinstance(value, bool | np.bool_):
        raise _no_count(name, "a bool")
    try:
        return operator.index(value)
    except TypeError:
        raise _no_count(name, str(leaf_type(value))) from None


def _no_count(name: str, what: str) -> LoopwrightTypeError:
    return LoopwrightTypeError(
        f"fori_loop: {name} is one integer, and this is {what}", hint=".astype(np.int64)"
    )
