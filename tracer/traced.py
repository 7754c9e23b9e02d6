"""A function that was traced: its module, its arguments, and what its call returns and writes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.dataclass import dataclass
from ..ir.dims import IntExpr, evaluate, linear, size_symbols, symbols
from ..ir.errors import LoopwrightError
from ..ir.graph.nodes import Module
from ..ir.graph.printer import as_text
from ..ir.graph.walk import may_fail
from ..ir.span import Span
from ..ir.window import Window
from .core.arguments import Request
from .core.int_arguments import Fits
from .core.pytree import Structure, flatten, unflatten
from .core.pytree_code import writer
from .core.spans import caret_lines, span_of, user_frame
from .memory.regions import Piece


@dataclass(frozen=True, slots=True)
class Fixed:
    """A leaf of a result that does not depend on the arrays: it is handed out as it is."""

    value: Any


@dataclass(frozen=True, slots=True)
class Element:
    """A leaf of a result that is a number: the element of the next array, as a Python number or
    as one of NumPy's; or a list of its ``rows``."""

    python: bool
    rows: bool = False

    @property
    def text(self) -> str:
        """Returns the code that reads the number, to be written behind an array's name."""
        return ".item()" if self.python else "[()]"

    def of(self, array: np.ndarray[Any, Any]) -> Any:
        """Returns the number, or the list."""
        if self.rows:
            return array.tolist() if self.python else [*array]
        return array.item() if self.python else array[()]


@dataclass(frozen=True, slots=True)
class Argument:
    """A leaf of a result that is an argument which the function has written: the caller's object.
    ``operand`` counts the arrays among the arguments."""

    operand: int


@dataclass(frozen=True, slots=True)
class Written:
    """The ``pieces`` to write back into the array of an operand, in order. ``span`` is the place of
    the first write, ``path`` the argument as the function reaches it."""

    operand: int
    pieces: tuple[Piece, ...]
    span: Span | None
    path: str


@dataclass(frozen=True, slots=True)
class Trim:
    """A result that data decides the ``shape`` of: ``main`` gives memory of the most elements that
    it may have. ``counts`` are the numbers of the results that are the sizes' values, by name."""

    output: int
    shape: tuple[IntExpr, ...]
    counts: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """Returns the code that trims the array whose name is in front, where that is simple."""
        if len(self.shape) != 1:
            return ""
        size = linear(self.shape[0])
        counts = (n for name, n in self.counts if size == ({name: 1}, 0))
        return next((f"[: arrays[{n}]]" for n in counts), "")

    def trimmed(self, arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The elements that are there, in the same memory."""
        values = {name: int(arrays[count]) for name, count in self.counts}
        array = arrays[self.output]
        names = {name for size in self.shape for name in symbols(size)} - values.keys()
        assert not names or array.ndim == len(self.shape)
        for size, length in zip(self.shape, array.shape, strict=True):
            if symbols(size) & names and not symbols(size) & values.keys():
                values.update(_solved(size, length))
        shape = tuple(evaluate(size, values) for size in self.shape)
        return array.reshape(-1)[: math.prod(shape)].reshape(shape)


def trims_of(types: Sequence[Any], numbers: Mapping[str, int]) -> tuple[Trim, ...]:
    """Returns the results of these types whose sizes data decides; ``numbers`` are those of the
    results that are the values of these sizes, by name."""
    counts = [
        tuple((name, numbers[name]) for name in size_symbols(*type.shape) if name in numbers)
        for type in types
    ]
    return tuple(
        Trim(n, type.shape, named)
        for n, (type, named) in enumerate(zip(types, counts, strict=True))
        if named
    )


def _solved(size: IntExpr, length: int) -> dict[str, int]:
    """The value of a size that is alone in a linear expression."""
    plain = linear(size)
    if plain is None or len(plain[0]) != 1:
        return {}
    ((name, factor),) = plain[0].items()
    return {name: (length - plain[1]) // factor}


LONGEST_REPR = 40
"""Lines of a graph that it shows of itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A traced function: its module, and the layout of arguments and results.

    ``module.main`` takes the arrays among the leaves of the arguments, in order. Its result is the
    one array that the function returns, or a tuple of all of them, and after them of those that are
    written back into arguments (``written``). ``outputs`` are the leaves of the result; None stands
    for the next array, ``Element`` for its element. ``dense`` are the operands that have to be in C
    order (or as ``request`` places them), ``scalar`` those that must not be arrays. ``fits`` is
    what has to be true of Python ints among the arguments. ``trims`` are the results whose sizes
    data decides. ``captured`` are arrays from outside that it has read, and others hold. ``loops``
    says of the user's loops which are native, and why long ones were unrolled.

    >>> list(lw.compile(lambda x: x + 1).trace(lw.f32[2]).module.functions)
    ['main']
    """

    name: str
    signature: inspect.Signature
    module: Module
    request: Request
    parameters: tuple[int, ...]
    structure: Structure
    outputs: tuple[Fixed | Element | Argument | None, ...]
    written: tuple[Written, ...] = ()
    dense: frozenset[int] = frozenset()
    scalar: frozenset[int] = frozenset()
    fits: tuple[Fits, ...] = ()
    captured: tuple[np.ndarray[Any, Any], ...] = ()
    trims: tuple[Trim, ...] = ()
    loops: tuple[str, ...] = ()

    def as_text(self, *, spans: bool = True) -> str:
        """The graph IR as text; with ``spans``, each line names the user's line it came from."""
        return as_text(self.module, spans=spans)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        lines = self.as_text().split("\n")
        return "\n".join([*lines[:LONGEST_REPR], *["..."][: len(lines) > LONGEST_REPR]])

    @property
    def returns_one_array(self) -> bool:
        """True if the result is an array, not a container."""
        alone = not (self.written or self.trims)
        return self.outputs == (None,) and self.structure == ONE and alone

    @property
    def returns_arguments(self) -> bool:
        """True if an argument is a part of the result."""
        return any(isinstance(k, Argument) for k in self.outputs)

    def result_of_writes(self) -> Callable[[list[np.ndarray[Any, Any]], Sequence[Any]], Any]:
        """``result`` for calls that come often."""
        if self.structure == ONE and isinstance(self.outputs[0], Argument):
            operand = self.outputs[0].operand
            return lambda _arrays, leaves: leaves[operand]
        if self.returns_arguments:
            return self.result
        write = self.result_writer()
        return lambda arrays, _leaves: write(arrays)

    @property
    def depends_on_memory(self) -> bool:
        """True if calls have to look at where the arguments lie in memory."""
        return bool(self.written or self.dense or self.scalar)

    @property
    def updates(self) -> tuple[tuple[int, int, Window | None], ...]:
        """The last results of ``main`` where they are new values of arguments: the number of the
        result, of the operand, and the part of it as (begin, step, size) by axis. There are none if
        data decides sizes of results."""
        if self.trims:
            return ()
        return tuple((p.output, w.operand, p.window) for w in self.written for p in w.pieces)

    @property
    def has_checks(self) -> bool:
        """True if there are conditions of which the code finds out whether they hold."""
        return any(may_fail(b.value) for b in self.module.main.body.bindings)

    @property
    def is_checked(self) -> bool:
        """True if calls have to look at their arguments: see ``write_back.check``."""
        return self.depends_on_memory or bool(self.fits or self.trims)

    def result(self, arrays: list[np.ndarray[Any, Any]], leaves: Sequence[Any] = ()) -> Any:
        """Returns the function's result, given the arrays that ``main`` computed and the leaves of
        the arguments."""
        if self.returns_one_array:
            return arrays[0]
        for trim in self.trims:
            arrays[trim.output] = trim.trimmed(arrays)
        rest = iter(arrays)
        leaves_of_result: list[Any] = []
        for kind in self.outputs:
            if isinstance(kind, Argument):
                leaves_of_result.append(leaves[kind.operand])
            elif isinstance(kind, Fixed):
                leaves_of_result.append(kind.value)
            else:
                array = next(rest)
                leaves_of_result.append(array if kind is None else kind.of(array))
        return unflatten(self.structure, leaves_of_result)

    def result_writer(self) -> Callable[[list[np.ndarray[Any, Any]]], Any]:
        """Returns ``result`` as generated code, for calls that come often."""
        trims = [(trim.output, trim.text) for trim in self.trims]
        rows = any(isinstance(k, Element) and k.rows for k in self.outputs)
        if rows or not all(text for _, text in trims):
            return self.result
        constants = [(k.value,) if isinstance(k, Fixed) else None for k in self.outputs]
        numbers = {n: k.text for n, k in enumerate(self.outputs) if isinstance(k, Element)}
        leaves = [n for n, k in enumerate(self.outputs) if not isinstance(k, Fixed)]
        numbers |= {leaves[output]: text for output, text in trims}
        return writer(self.structure, constants, numbers)


ONE = flatten(0)[1]


def located(error: LoopwrightError) -> LoopwrightError:
    """``error`` with the line of the user's call, if it has no line yet."""
    frame = user_frame()
    if error.span is None and frame is not None:
        error.span = span_of(frame)
        error.source = caret_lines(error.span)
    return error
