"""Minimises a program that shows a failure, as long as it shows it.

::

    one result of several        the others go
    a value in the middle        becomes the result; what came after it goes
    operations                   become parameters, many at a time, then fewer
    constants                    become parameters
    sizes                        2, then halves

This is delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing
input", IEEE Trans. Softw. Eng. 28, 2002) over a flat list of bindings. Every program it asks about
is made by ``Builder.emit``: what the type rules refuse is not one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dtype import Array
from ..ir.errors import LoopwrightError
from ..ir.graph.builder import Builder
from ..ir.graph.nodes import (
    Atom,
    Binding,
    Call,
    Constant,
    Function,
    Module,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.graph.operator import Operator
from ..ir.graph.types import TensorType
from ..ir.graph.walk import operands

__all__ = ["anonymous", "minimised", "random_values"]

Fails = Callable[[Module], bool]
LEAST_SIZE = 3
"""Sizes up to which a smaller one gains nothing. Numbers in attributes up to this are not sizes
(but axes, for instance) and are kept."""


def minimised(module: Module, fails: Fails, seconds: float) -> Module:
    """Returns the smallest module for which ``fails`` holds that ``seconds`` suffice to find.

    What is taken for failing is the caller's to say; it may not raise.
    """
    until = time.monotonic() + seconds
    best = module.main
    for smaller in (_one_result, _earlier_result, _cut_out, _as_parameters, _smaller_sizes):
        going = True
        while going:
            going = False
            for change in smaller(best):
                if time.monotonic() > until:
                    return _module(best)
                made = _changed(best, change)
                if made is not None and fails(_module(made)):
                    best, going = made, True
                    break
    return _module(best)


def anonymous(module: Module) -> Module:
    """Returns the program without names of the user's variables and without spans; captured arrays
    get random values."""
    made = _changed(module.main, _Change(random=True))
    return _module(made) if made is not None else module


def random_values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Returns seeded random values of a dtype: floats in [-1, 1), integers in [0, 8)."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "f":
        return (rng.random(shape) * 2 - 1).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 8, shape).astype(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """A change of a function. ``result`` replaces its result; ``cut`` are variables and constants
    that become parameters; ``sizes`` are the old and the new size; with ``random``, constants get
    random values."""

    result: Atom | None = None
    cut: frozenset[Any] = frozenset()
    sizes: tuple[int, int] | None = None
    random: bool = False


def _module(function: Function) -> Module:
    return Module({"main": function})


def _one_result(function: Function) -> Iterator[_Change]:
    for binding in function.body.bindings:
        if binding.var is function.body.result and isinstance(binding.value, Tuple):
            for field in binding.value.fields:
                yield _Change(result=field)


def _earlier_result(function: Function) -> Iterator[_Change]:
    """Yields changes to an earlier result, in coarse steps first."""
    values = [b.var for b in function.body.bindings if b.var is not function.body.result]
    order: list[int] = []
    step = len(values)
    while step > 1:
        step = (step + 1) // 2
        order += range(step - 1, len(values), step)
    for n in dict.fromkeys((*order, *range(len(values)))):
        if isinstance(values[n].type, TensorType):
            yield _Change(result=values[n])


def _cut_out(function: Function) -> Iterator[_Change]:
    """Yields changes that cut out parts of the bindings: halves first, single ones last."""
    result = function.body.result
    values = [b.var for b in function.body.bindings if b.var is not result]
    size = len(values)
    while size:
        for start in range(0, len(values), size):
            part = [v for v in values[start : start + size] if isinstance(v.type, TensorType)]
            if part:
                yield _Change(cut=frozenset(part))
        size //= 2


def _as_parameters(function: Function) -> Iterator[_Change]:
    constants = {
        a
        for b in function.body.bindings
        for a in operands(b.value)
        if isinstance(a, Constant) and a.value.ndim
    }
    if len(constants) > 1:
        yield _Change(cut=frozenset(constants))
    for constant in sorted(constants, key=lambda c: c.name):
        yield _Change(cut=frozenset([constant]))


def _smaller_sizes(function: Function) -> Iterator[_Change]:
    atoms = [*function.params, *(a for b in function.body.bindings for a in operands(b.value))]
    sizes = {
        s
        for a in atoms
        if isinstance(a.type, TensorType)
        for s in a.type.shape
        if isinstance(s, int) and s > LEAST_SIZE
    }
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((2, size // 4, size // 2, size - 1)):
            if 1 < new < size:
                yield _Change(sizes=(size, new))


def _changed(function: Function, change: _Change) -> Function | None:
    """Returns the changed function without unused bindings; None if the change is not possible."""
    result = change.result if change.result is not None else function.body.result
    builder = Builder()
    made: dict[Any, Atom] = {}

    def atom(old: Atom) -> Atom:
        if old in made:
            return made[old]
        if old in change.cut or (isinstance(old, Var) and old in params):
            made[old] = builder.param(f"x{len(builder.params)}", _resized_type(old.type, change))
        elif isinstance(old, Constant):
            made[old] = _constant(old, change, len(made))
        else:
            raise KeyError(str(old))
        return made[old]

    params = set(function.params)
    try:
        for binding in _needed(function, result, change.cut):
            made[binding.var] = _emit(builder, binding, atom, change)
        final = atom(result)
        if not builder.bindings and not builder.params:
            return None
        return builder.function(final)
    except (LoopwrightError, ValueError, IndexError, ZeroDivisionError, KeyError):
        return None


def _needed(function: Function, result: Atom, cut: frozenset[Any]) -> list[Binding]:
    wanted: set[Any] = {result} - cut
    kept: list[Binding] = []
    for binding in reversed(function.body.bindings):
        if binding.var in wanted:
            kept.append(binding)
            wanted.update(a for a in operands(binding.value) if a not in cut)
    return kept[::-1]


def _emit(
    builder: Builder, binding: Binding, atom: Callable[[Atom], Atom], change: _Change
) -> Atom:
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, Operator):
        args = [atom(a) for a in value.args]
        return builder.emit(value.op, args, _resized_attrs(value.attrs, change))
    if isinstance(value, Tuple):
        return builder.make_tuple([atom(f) for f in value.fields])
    if isinstance(value, TupleGetItem):
        return builder.get_item(atom(value.value), value.index)
    raise ValueError(f"{type(value).__name__} stays as it is")


def _constant(old: Constant, change: _Change, number: int) -> Constant:
    shape = tuple(_resized(s, change) for s in old.value.shape)
    if old.value.ndim == 0 or (shape == old.value.shape and not change.random):
        return Constant(old.value, old.name)
    digits = old.name.removeprefix("c")
    seed = int(digits) if digits.isdigit() and not change.random else number
    return Constant(random_values(shape, old.value.dtype, seed), f"c{seed}")


def _resized(value: Any, change: _Change) -> Any:
    if isinstance(value, tuple):
        return tuple(_resized(v, change) for v in value)
    if change.sizes is None or isinstance(value, bool) or value != change.sizes[0]:
        return value
    return change.sizes[1]


def _resized_type(kind: Any, change: _Change) -> Any:
    if not isinstance(kind, TensorType):
        raise ValueError("a parameter may not be a tuple here")
    return TensorType(tuple(_resized(s, change) for s in kind.shape), kind.dtype)


def _resized_attrs(attrs: Mapping[str, Any], change: _Change) -> dict[str, Any]:
    return {key: _resized(value, change) for key, value in attrs.items()}
