"""Tracing: run a Python function once on proxies, and keep what it did as a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightError, LoopwrightTypeError
from ..ir.graph.nodes import Atom, Module
from ..ir.graph.printer import as_text
from ..ir.span import Span
from .arguments import Request, Static
from .proxy import Proxy, lift
from .pytree import Structure, flatten, paths, unflatten
from .spans import caret_lines, definition_of, span_of, user_frame
from .trace import Trace, tracing
from .tree_code import writer

__all__ = ["Traced", "located", "trace"]


@dataclass(frozen=True, slots=True)
class _Known:
    """A leaf of a result that does not depend on the arrays: it is handed out as it is."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A traced function: its module, and how arguments and results are laid out.

    ``module.main`` takes the arrays among the leaves of the arguments, in order. Its result is the
    one array that the function returns, or a tuple of all of them.
    """

    name: str
    signature: inspect.Signature
    module: Module
    request: Request
    parameters: tuple[int, ...]
    structure: Structure
    known: tuple[_Known | None, ...]

    def as_text(self, *, spans: bool = True) -> str:
        """The graph IR as text; with ``spans``, each line names the user's line it came from."""
        return as_text(self.module, spans=spans)

    def __str__(self) -> str:
        return self.as_text()

    @property
    def returns_one_array(self) -> bool:
        """Whether the result is an array, not a container."""
        return self.known == (None,) and self.structure == _ONE

    @property
    def returns_tuple(self) -> bool:
        """Whether ``main`` gives a tuple: it does unless there is exactly one array."""
        return self.known.count(None) != 1

    def result(self, arrays: list[np.ndarray[Any, Any]]) -> Any:
        """The function's result, given the arrays that ``main`` computed."""
        if self.returns_one_array:
            return arrays[0]
        rest = iter(arrays)
        leaves = [next(rest) if k is None else k.value for k in self.known]
        return unflatten(self.structure, leaves)

    def result_writer(self) -> Callable[[list[np.ndarray[Any, Any]]], Any]:
        """``result`` as code of its own, for calls that come often."""
        return writer(self.structure, [None if k is None else (k.value,) for k in self.known])


_ONE = flatten(0)[1]


def trace(
    function: Callable[..., Any], signature: inspect.Signature, request: Request, name: str
) -> Traced:
    """Run ``function`` on proxies for what ``request`` asks.

    Raises LoopwrightError with the user's line for what cannot be traced; whatever else the
    function raises passes through.
    """
    run = Trace(name)
    leaves: list[Any] = []
    parameters: list[int] = []
    for position, (spec, path) in enumerate(zip(request.leaves, request.paths)):
        if isinstance(spec, Static):
            leaves.append(slice(*spec.value) if spec.type is slice else spec.value)  # type: ignore[misc]
            continue
        var = run.param(_param_name(path), spec.type, path)
        run.origins[var] = (path, f"argument {path} of {name}")
        leaves.append(Proxy(var, run, spec.weak))
        parameters.append(position)
    args, kwargs = _call(signature, request, leaves)
    with tracing(run):
        outcome = function(*args, **kwargs)
        structure, known, atoms = _results(run, outcome, definition_of(function))
        result = atoms[0] if len(atoms) == 1 else run.builder.make_tuple(atoms)
    module = Module({"main": run.builder.function(result)})
    return Traced(name, signature, module, request, tuple(parameters), structure, known)


def _param_name(path: str) -> str:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in path).split()
    return "_".join(words)


def _call(
    signature: inspect.Signature, request: Request, leaves: list[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which to call the function: the request's trees over ``leaves``."""
    rest = iter(leaves)
    trees = {n: unflatten(s, rest) for n, s in zip(request.names, request.structures)}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    by_keyword = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name not in trees:
            by_keyword = True  # a default stands here; what follows must be named
            continue
        value = trees.pop(name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.KEYWORD_ONLY or by_keyword:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), {**kwargs, **trees}


def _results(
    run: Trace, outcome: Any, where: Span | None
) -> tuple[Structure, tuple[_Known | None, ...], list[Atom]]:
    leaves, structure = flatten(outcome)
    known: list[_Known | None] = []
    atoms: list[Atom] = []
    for leaf, path in zip(leaves, paths(structure, "result")):
        if isinstance(leaf, Proxy | np.ndarray | np.generic):
            atoms.append(lift(leaf).atom)
            known.append(None)
        elif isinstance(leaf, bool | int | float | str | bytes | np.dtype):
            known.append(_Known(leaf))
        else:
            raise LoopwrightTypeError(
                f"{run.name} returns {path} of type {type(leaf).__name__}, which is no array",
                span=where,
                source=caret_lines(where) if where is not None else (),
                hint="arrays in tuples, lists, dicts, dataclasses or namedtuples",
            )
    return structure, tuple(known), atoms


def located(error: LoopwrightError) -> LoopwrightError:
    """``error`` with the line of the user's call, if it has no line yet."""
    frame = user_frame()
    if error.span is None and frame is not None:
        error.span = span_of(frame)
        error.source = caret_lines(error.span)
    return error
