"""Derivatives for users: ``lw.grad``, ``lw.jvp`` and their kin, compiled or in a trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..ir.errors import LoopwrightTypeError
from ..tracer.control.user import for_users
from ..tracer.core.trace import active
from ..tracer.transforms import custom, derivatives
from ..tracer.transforms.block import called
from .compiled_function import CompiledFunction


class Transformed:
    """A function that was made of another one: a part of a program that is traced, and compiled by
    itself where none is."""

    def __init__(self, traced: Callable[..., Any], function: Callable[..., Any] | None) -> None:
        if function is not None:
            functools.update_wrapper(self, function, updated=())
        self._traced = for_users(traced)
        self._compiled: CompiledFunction | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            return self._traced(*args, **kwargs)
        if self._compiled is None:
            self._compiled = CompiledFunction(self._traced)
        return self._compiled(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def check_function(name: str, function: Any) -> None:
    """Raises LoopwrightTypeError unless ``function`` can be called."""
    if not callable(function):
        raise LoopwrightTypeError(
            f"{name} takes a function, not {type(function).__name__}",
            hint=f"{name}(f)(x), not {name}(f(x))",
        )


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns the function that computes the gradient of ``function``, which returns one float.

    The gradient has the structure, shapes and dtypes of the argument ``argnums`` (a tuple of those
    of several). With ``has_aux`` the function returns a pair of which the first is differentiated,
    and the result is (gradient, second). Where a compiled function calls it, it is a part of that;
    called with NumPy's arrays it is compiled.

    Raises LoopwrightTypeError for a result that is not one float, an argument without floats, and
    an operator that has no derivative.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.grad(lambda x: (x * x).sum())(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    check_function("lw.grad", function)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        inner = functools.partial(function, **kwargs) if kwargs else function
        _, aux, gradients = derivatives.value_and_grad("lw.grad", inner, args, argnums, has_aux)
        return (gradients, aux) if has_aux else gradients

    return Transformed(gradient, function)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns the function that computes (value, gradient) of ``function``; see ``lw.grad``. With
    ``has_aux`` that is ((value, aux), gradient).

    >>> import loopwright as lw
    >>> value, slope = lw.value_and_grad(lambda x: x**3)(2.0)
    >>> float(value), float(slope)
    (8.0, 12.0)
    """
    check_function("lw.value_and_grad", function)

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        inner = functools.partial(function, **kwargs) if kwargs else function
        value, aux, gradients = derivatives.value_and_grad(
            "lw.value_and_grad", inner, args, argnums, has_aux
        )
        return ((value, aux) if has_aux else value), gradients

    return Transformed(both, function)


def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Returns ``function(*primals)`` and how it changes with the ``tangents``, in forward mode.

    ``tangents`` are as the ``primals``, which are floats: same structure and shapes. Loops need no
    bound here, and keep nothing.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> value, change = lw.jvp(np.sin, (0.0,), (2.0,))
    >>> float(value), float(change)
    (0.0, 2.0)
    """
    check_function("lw.jvp", function)
    if len(tuple(primals)) != len(tuple(tangents)):
        raise LoopwrightTypeError(
            f"lw.jvp: {len(tuple(primals))} primals and {len(tuple(tangents))} tangents",
            hint="lw.jvp(f, (x, y), (dx, dy))",
        )
    return _compiled(derivatives.jvp, function)(tuple(primals), tuple(tangents))


_made: WeakKeyDictionary[Any, dict[Any, Transformed]] = WeakKeyDictionary()


def _compiled(transform: Callable[..., Any], function: Callable[..., Any]) -> Transformed:
    """Returns a transformation of one function, the same object whenever that comes again."""
    if active() is None and isinstance(function, FunctionType):
        by_transform = _made.setdefault(function, {})
        if transform not in by_transform:
            # A reference of its own would keep the function, and its arrays, for ever.
            held = ref(function)
            by_transform[transform] = Transformed(lambda *args: transform(held(), *args), None)
        return by_transform[transform]
    return Transformed(functools.partial(transform, function), None)


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Returns ``function(*primals)`` and the function that takes a cotangent of it (of the same
    structure and shapes) to those of the primals, a tuple; with ``has_aux`` also what the function
    returns besides.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> product, pull = lw.vjp(np.multiply, 3.0, 5.0)
    >>> [float(g) for g in pull(1.0)]
    [5.0, 3.0]
    """
    check_function("lw.vjp", function)
    if active() is not None:
        at = derivatives.Linearised("lw.vjp", function, primals, range(len(primals)), has_aux)

        def pull(cotangent: Any) -> tuple[Any, ...]:
            return tuple(at.pull(at.cotangents(cotangent)))

        return (at.result, pull, at.aux) if has_aux else (at.result, pull)
    value = _compiled(_values, function)(has_aux, *primals)

    def back(cotangent: Any) -> tuple[Any, ...]:
        return _compiled(_pulled, function)(has_aux, primals, cotangent)

    return (value[0], back, value[1]) if has_aux else (value, back)


def _values(function: Callable[..., Any], _has_aux: bool, *primals: Any) -> Any:
    return called(function, *primals)


def _pulled(
    function: Callable[..., Any], has_aux: bool, primals: tuple[Any, ...], cotangent: Any
) -> Any:
    return vjp(function, *primals, has_aux=has_aux)[1](cotangent)


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns ``function(*primals)`` and its derivative there, a linear function of the tangents.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> value, push = lw.linearize(np.exp, 0.0)
    >>> float(value), float(push(3.0))
    (1.0, 3.0)
    """
    check_function("lw.linearize", function)
    if active() is not None:
        at = derivatives.Linearised("lw.linearize", function, primals, range(len(primals)))
        return at.result, lambda *tangents: at.push(list(tangents))
    value = _compiled(_values, function)(False, *primals)
    return value, lambda *tangents: _compiled(_pushed, function)(primals, *tangents)


def _pushed(function: Callable[..., Any], primals: tuple[Any, ...], *tangents: Any) -> Any:
    return derivatives.jvp(function, primals, tangents)[1]


def hvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Returns the Hessian of a function of one float times the ``tangents``, without the Hessian:
    the change of the gradient, forward over reverse. It has the structure of the first primal.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.hvp(lambda x: (x**3).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    array([ 6., 12.])
    """
    check_function("lw.hvp", function)
    return _compiled(_hvp, function)(tuple(primals), tuple(tangents))


def _hvp(function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    return derivatives.jvp(grad(function), primals, tangents)[1]


def jacobian(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Returns the function that computes all derivatives of the results of ``function`` by the
    elements of the argument ``argnums``: arrays of the shape of the result, then that of the
    argument, in the structure of the result with that of the argument inside (a tuple, if
    ``argnums`` is one).

    It is computed in forward mode, a column for each element of the argument, or in reverse mode, a
    row for each element of the result: what is less.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    check_function("lw.jacobian", function)

    @functools.wraps(function)
    def matrices(*args: Any, **kwargs: Any) -> Any:
        inner = functools.partial(function, **kwargs) if kwargs else function
        return derivatives.jacobian("lw.jacobian", inner, args, argnums)

    return Transformed(matrices, function)


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Returns the function that computes the second derivatives of ``function``, which returns one
    float, by the elements of an argument: the jacobian of its gradient.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> lw.hessian(lambda x: x[0] * x[1] ** 2)(np.array([3.0, 2.0]))
    array([[0., 4.],
           [4., 6.]])
    """
    return jacobian(grad(function, argnums), argnums)


def stop_gradient(x: Any) -> Any:
    """Returns ``x``, an array, number or container of them, as a constant for derivatives.

    >>> import loopwright as lw
    >>> float(lw.grad(lambda x: x * lw.stop_gradient(x))(3.0))
    3.0
    """
    return derivatives.stop_gradient(x) if active() is not None else x


class Custom:
    """A function with a derivative of the user's, by ``lw.custom_vjp`` or ``lw.custom_jvp``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._jvp: Callable[..., Any] | None = None
        self._vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the derivative: ``rule(primals, tangents)`` returns (result, its tangent)."""
        self._jvp = rule
        return rule

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Sets the derivative in reverse mode: ``forward(*args)`` returns (result, residuals), and
        ``backward(residuals, cotangent)`` the cotangents of all arguments, None for 0."""
        self._vjp = forward, backward

    def __call__(self, *args: Any) -> Any:
        if active() is None or (self._jvp is None and self._vjp is None):
            return self._function(*args)
        return custom.call(self._function, args, self._jvp, *(self._vjp or (None, None)))


def custom_vjp(function: Callable[..., Any]) -> Custom:
    """Gives a function a derivative in reverse mode, by ``f.defvjp(forward, backward)``.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> @lw.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))
    >>> float(lw.grad(lambda x: clipped(x) * 5)(2.0))
    1.0
    """
    return Custom(function)


def custom_jvp(function: Callable[..., Any]) -> Custom:
    """Gives a function a derivative for both modes, by ``f.defjvp(rule)``.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> @lw.custom_jvp
    ... def softplus(x):
    ...     return np.log1p(np.exp(x))
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     return softplus(*primals), tangents[0] / (1 + np.exp(-primals[0]))
    >>> float(lw.grad(softplus)(0.0))
    0.5
    """
    return Custom(function)


def checkpoint(function: Callable[..., Any]) -> Custom:
    """Returns the function, of which reverse mode keeps the arguments alone: what its derivative
    needs besides is computed again. It saves memory where a large function has small arguments.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> layer = lw.checkpoint(lambda x: np.tanh(np.sin(x) * x))
    >>> float(lw.grad(lambda x: layer(layer(x)))(0.0))
    0.0
    """

    def backward(args: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
        return vjp(function, *derivatives.copied_after(args, cotangent))[1](cotangent)

    made = Custom(function)
    made.defjvp(functools.partial(derivatives.jvp, function))
    made.defvjp(lambda *args: (called(function, *args), args), backward)
    return made
