"""The table of converters: which function stands for which operator of ONNX, from which opset on.

A converter is a function of values in NumPy's terms. A value is a ``Proxy``, if it depends on the
model's inputs, or else a NumPy array. With arrays alone NumPy computes at once, so arithmetic on
shapes needs nothing of its own::

    @converter("LeakyRelu", since=6)
    def _leaky_relu(x: Value, *, alpha: float = 0.01) -> Value:
        return np.where(x >= 0, x, x * alpha)

Positional parameters are the operator's inputs (None: an optional one that is absent), keyword-only
ones its attributes. An attribute of a model that the function does not declare is reported as not
supported, unless the row ``ignores`` it by name, above which a line says why it does not matter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np

from ....ir.dataclass import dataclass
from ....ir.dtype import Array
from ....ir.errors import UnsupportedError
from ....ir.graph.walk import operands
from ...core.proxy import Proxy
from ...memory.scope import Scope

Value: TypeAlias = Any
"""A Proxy or a NumPy array (perhaps of sizes); None where an optional input or output is absent."""

Branch: TypeAlias = Callable[..., tuple[Value, ...]]
"""A graph that is an attribute of a node, as a function of its inputs."""


@dataclass(frozen=True, slots=True)
class Node:
    """The node being converted, for a converter whose first parameter is called ``node``.

    ``outputs`` says of each output if the model uses it. ``opset`` is the model's version of the
    operator's domain.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    outputs: tuple[bool, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def wants(self, output: int) -> bool:
        """True if the model uses the output of this number."""
        return output < len(self.outputs) and self.outputs[output]


@dataclass(frozen=True, slots=True)
class Row:
    """A converter for the opsets from ``since`` on, up to the next row of the same operator."""

    since: int
    function: Callable[..., Any]
    takes_node: bool
    least: int
    """Inputs that have to be there."""
    most: int | None
    """Inputs that there may be; None: any number."""
    attributes: frozenset[str]
    required: frozenset[str]
    sizes: tuple[int, ...]
    """Places of the inputs that may be arrays of sizes, of which some are symbolic."""
    ignores: frozenset[str] = frozenset()
    """Attributes that the function has no parameter for."""
    deferred: bool = False
    """True if what it makes of a large array is left to the compiler, as the array is smaller."""


_ROWS: dict[tuple[str, str], list[Row]] = {}


def converter(
    name: str,
    *,
    since: int,
    domain: str = "",
    sizes: Sequence[str] = (),
    ignores: Sequence[str] = (),
    deferred: bool = False,
    attributes: tuple[int, Mapping[str, str]] | None = None,
    options_of: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters the decorated function into the table for operator ``name`` of ``domain``.

    Its parameters ``sizes`` may be arrays of sizes (``sizes.py``); the first input is traced then,
    unless it is one of them. ``attributes`` are an earlier opset, from which on some inputs were
    attributes, and these inputs by attribute: there is a row for it as well. A converter that takes
    ``**options`` has the attributes of the one that it hands them to, ``options_of``.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        if options_of is not None:
            _with_options(function, options_of)
        rows = _ROWS.setdefault((domain, name), [])
        assert all(row.since != since for row in rows), f"{name} has two rows for opset {since}"
        rows.append(replace(_row(since, function, sizes, frozenset(ignores)), deferred=deferred))
        if attributes is not None:
            earlier, names = attributes
            rows.append(_row(earlier, _by_attributes(function, names), (), frozenset(ignores)))
        rows.sort(key=lambda row: -row.since)
        return function

    return enter


def _with_options(function: Callable[..., Any], other: Callable[..., Any]) -> None:
    """Gives ``function`` the keyword-only parameters of ``other`` for its ``**options``."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    more = [p for p in inspect.signature(other).parameters.values() if p.kind is p.KEYWORD_ONLY]
    function.__signature__ = signature.replace(parameters=named + more)  # type: ignore[attr-defined]


def _by_attributes(function: Callable[..., Any], inputs: Mapping[str, str]) -> Callable[..., Any]:
    """Returns ``function`` with ``inputs`` taken from attributes, and none behind the first."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    first = min(place for place, p in enumerate(parameters) if p.name in inputs.values())
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    for attribute, name in inputs.items():
        parameter = signature.parameters[name]
        options.append(parameter.replace(name=attribute, kind=parameter.KEYWORD_ONLY))

    def converted(*values: Value, **attributes: Any) -> Any:
        given = {inputs.get(name, name): value for name, value in attributes.items()}
        arrays = {name: np.asarray(given[name]) for name in inputs.values() if name in given}
        return function(*values, **{**given, **arrays})

    replaced = signature.replace(parameters=[*parameters[:first], *options])
    converted.__signature__ = replaced  # type: ignore[attr-defined]
    return converted


def _row(
    since: int, function: Callable[..., Any], sizes: Sequence[str], ignores: frozenset[str]
) -> Row:
    parameters = list(inspect.signature(function).parameters.values())
    takes_node = bool(parameters) and parameters[0].name == "node"
    parameters = parameters[takes_node:]
    inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    attributes = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return Row(
        since,
        function,
        takes_node,
        sum(p.default is p.empty for p in inputs),
        None if variadic else len(inputs),
        frozenset(p.name for p in attributes) | ignores,
        frozenset(p.name for p in attributes if p.default is p.empty),
        tuple(place for place, p in enumerate(inputs) if p.name in sizes),
        ignores,
    )


def row_of(domain: str, name: str, opset: int) -> Row | None:
    """Returns the row of an operator that holds for ``opset``; None if there is none."""
    return next((row for row in _ROWS.get((domain, name), ()) if row.since <= opset), None)


def is_known(value: Value) -> bool:
    """True if the elements of ``value`` are known while the model is converted."""
    return type(value) is not Proxy


class NotKnownError(UnsupportedError):
    """A value that decides about the code depends on ``inputs`` of the model."""

    inputs: tuple[str, ...] = ()


def known(value: Value, what: str) -> Array:
    """Returns the elements of an input called ``what``, which the code has to know.

    Raises NotKnownError if they depend on the inputs of the model.
    """
    if is_known(value):
        return np.asarray(value)
    inputs = _sources(value)
    names = f" {', '.join(map(repr, inputs))}" if inputs else ""
    error = NotKnownError(
        f"its input {what} has to be known when the model is compiled, and depends on the model's "
        f"input{'s' * (len(inputs) != 1)}{names}",
        hint=f"constants={{{inputs[0]!r}: ...}} of lw.from_onnx, if the value is always the same"
        if inputs
        else None,
    )
    error.inputs = inputs
    raise error


def _sources(value: Proxy) -> tuple[str, ...]:
    """Returns the names of the model's inputs on which ``value`` depends."""
    trace = value.owner
    needed: set[object] = {value.atom}
    scope: Scope | None = trace.scope
    while scope is not None:  # from the block of a branch or loop to main
        for binding in reversed(scope.builder.bindings):
            if binding.var in needed:
                needed.update(operands(binding.value))
        scope = scope.parent
    return tuple(param.name for param in trace.main.builder.params if param in needed)


def is_sizes(value: Value) -> bool:
    """True if ``value`` is an array of sizes, of which some are symbolic."""
    return isinstance(value, np.ndarray) and value.dtype == object


def known_ints(value: Value, what: str) -> list[int]:
    """Returns ``known`` of a vector of integers, or of one integer, as a list."""
    return [int(each) for each in known(value, what).reshape(-1)]


def known_sizes(value: Value, what: str) -> list[Any]:
    """Returns ``known_ints``, among which there may be symbolic sizes."""
    return list(value.reshape(-1)) if is_sizes(value) else known_ints(value, what)
