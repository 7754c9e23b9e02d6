"""Checks and conversions of the arguments of ``lw.nn``, made where the user's line is known.

A function's annotations say it: ``int``, ``float``, ``bool``, ``str`` and the names in ``KINDS``;
``Any`` is an array or a number. Each is converted to the plain Python value that operators want as
an attribute, so ``np.int64(1)`` is as good as 1, and anything else is an error with its name.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...ir.dtype import dtype_of
from ...ir.errors import LoopwrightError, LoopwrightTypeError, LoopwrightValueError
from .emitting import dtype_argument, lift
from .error_context import complete
from .misuse import refuse_subclass, unsupported_dtype
from .proxy import Proxy, is_number, run
from .trace import active

F = TypeVar("F", bound=Callable[..., Any])

Pair = int | Sequence[int]
Axes = int | Sequence[int]
Ints = int | Sequence[int]
Names = Sequence[str]
Numbers = Sequence[float]
Widths = Any
DTypeLike = Any


def checked(function: F) -> F:
    """``function`` for users: arguments of the kinds its annotations say, errors at their line."""
    signature = inspect.signature(function)
    kinds = {name: str(p.annotation) for name, p in signature.parameters.items()}

    def converted(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise LoopwrightTypeError(
                f"nn.{function.__name__}: {error}", notes=(f"nn.{function.__name__}{signature}",)
            ) from None
        for name, value in bound.arguments.items():
            if value is not signature.parameters[name].default:
                bound.arguments[name] = _converted(name, kinds[name], value)
        return function(*bound.args, **bound.kwargs)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            return run(function.__name__, converted, args, kwargs)
        try:
            return converted(*args, **kwargs)
        except LoopwrightError as error:
            raise complete(error, None) from None

    return call  # type: ignore[return-value]


def like(function: F, name: str, text: str, pairs: Sequence[str] = (), **defaults: Any) -> F:
    """Returns a ``checked`` function under another name, with other defaults of keywords, which are
    needed then; ``pairs`` are one int or two."""
    plain = inspect.unwrap(function)
    signature = inspect.signature(plain)
    parameters: list[inspect.Parameter] = []
    for p in signature.parameters.values():
        kind = p.annotation.replace("Ints", "Pair") if p.name in pairs else p.annotation
        if p.name in defaults:
            p = p.replace(default=defaults[p.name])
            kind = kind.removesuffix(" | None")
        parameters.append(p.replace(annotation=kind))

    def alike(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**defaults, **kwargs})

    alike.__name__ = alike.__qualname__ = name
    alike.__module__, alike.__doc__ = plain.__module__, text
    vars(alike)["__signature__"] = signature.replace(parameters=parameters)
    return checked(alike)  # pyright: ignore[reportReturnType]


def by_numpy(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls NumPy's ``function``; its TypeError and ValueError become ours, with its words."""
    try:
        return function(*args, **kwargs)
    except LoopwrightError:
        raise
    except TypeError as error:
        raise LoopwrightTypeError(str(error)) from None
    except ValueError as error:
        raise LoopwrightValueError(str(error)) from None


class _AnotherKindError(Exception):
    """A value is not of the kind that a parameter takes. Whatever else a conversion raises is a
    mistake of ours, and is not taken for one of the user's."""


def _converted(name: str, kind: str, value: Any) -> Any:
    for one in kind.split(" | "):
        convert, wanted = KINDS[one]
        try:
            return convert(value)
        except _AnotherKindError:
            continue
    wanted = " or ".join(KINDS[one][1] for one in kind.split(" | "))
    raise LoopwrightTypeError(f"{name} is {wanted}, not {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}[{', '.join(map(str, value.shape))}]"
    return repr(value) if isinstance(value, str | numbers.Number) else f"a {type(value).__name__}"


def _array(value: Any) -> Any:
    """An operand: as it is while tracing, else an array of a dtype that the language has."""
    if active() is not None:
        return value if isinstance(value, Proxy) else lift(value)
    refuse_subclass(value)
    try:
        array = np.asarray(value)
        dtype_of(array.dtype)
    except TypeError as error:
        raise unsupported_dtype(error) from None
    except (ValueError, OverflowError) as error:
        raise LoopwrightValueError(str(error)) from None
    return value if is_number(value) else array


def _int(value: Any) -> int:
    if isinstance(value, bool | np.bool_ | np.ndarray):
        raise _AnotherKindError
    try:
        number = operator.index(value)
    except TypeError:
        raise _AnotherKindError from None
    if not -(2**63) <= number < 2**63:
        raise LoopwrightValueError(f"the Python int {number} does not fit int64")
    return number


def _float(value: Any) -> float:
    if not isinstance(value, numbers.Real | np.floating | np.integer):
        raise _AnotherKindError
    try:
        return float(value)
    except OverflowError:
        raise _AnotherKindError from None


def _bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _AnotherKindError
    return bool(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise _AnotherKindError
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise _AnotherKindError


def _ints(value: Any) -> int | tuple[int, ...]:
    if isinstance(value, list | tuple):
        return tuple(_int(v) for v in value)
    return _int(value)


def _sequence(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _AnotherKindError
        return tuple(kind(v) for v in value)

    return convert


def _pair(value: Any) -> tuple[int, int]:
    given = _ints(value)
    if isinstance(given, int):
        return given, given
    if len(given) != 2:
        raise _AnotherKindError
    return given[0], given[1]


def _widths(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_widths(v) for v in value)
    if isinstance(value, np.ndarray):
        return _widths(value.tolist()) if value.dtype.kind in "iu" else _int(None)
    return _int(value)


KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "Any": (_array, "an array or a number"),
    "Axes": (_ints, "an int or a tuple of ints"),
    "DTypeLike": (lambda value: str(dtype_argument(value)), "a dtype"),
    "None": (_none, "None"),
    "Pair": (_pair, "one int or two"),
    "Ints": (_ints, "1, 2 or 4 ints"),
    "Names": (_sequence(_str), "a tuple of strings"),
    "Numbers": (_sequence(_float), "a tuple of numbers"),
    "Widths": (_widths, "an int, or (before, after) for all axes or for each"),
    "bool": (_bool, "a bool"),
    "float": (_float, "a number"),
    "int": (_int, "an int"),
    "str": (_str, "a string"),
}
"""Annotation, how a value becomes one (_AnotherKindError: it is none), and it in words."""
