"""Compares the compiled graph with the traced one, and names the pass that changed the result.

Both are evaluated in float64. The passes run again one by one, and the first after which a result
differs is to blame. Then the traced function is cut off after each of its operations, first to
last, until the passes change the value of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autotune.record import target_key
from ..driver.built import Built, Source
from ..driver.pipeline import logged_choices
from ..ir.dataclass import dataclass
from ..ir.dtype import Array
from ..ir.graph.choices import Choices
from ..ir.graph.nodes import Binding, Block, Module
from ..ir.graph.pipeline import GRAPH, default_pipeline
from ..ir.graph.types import TensorType
from ..ir.pass_context import pass_name
from .difference import Difference, difference
from .wide import flat, result_of, values_of

MOST_CUTS = 200
"""Operations of a function up to which it is cut off behind each."""


@dataclass(frozen=True, slots=True, eq=False)
class WrongPass:
    """A pass that changes results; ``binding`` is the first of the traced function with another
    value."""

    name: str
    difference: Difference
    binding: Binding | None


def wrong_pass(built: Built, arrays: Sequence[Array], bound: float) -> WrongPass | None:
    """Returns the first pass that changes results by more than ``bound``, None if none does."""
    source = built.source
    assert source is not None and built.parts is not None
    module = source.module
    if not _changed(module, source.lowered, arrays, bound).differs:
        return None
    after, context = module, source.passes.quiet(verify=1)
    for step in _passes(source, built.parts.threads):
        after = context.step(after, step, GRAPH)
        off = _changed(module, after, arrays, bound)
        if off.differs:
            name = pass_name(step)
            return WrongPass(name, off, _first_changed(source, built, arrays, bound))
    off = _changed(module, source.lowered, arrays, bound)
    return WrongPass("that chose by the log", off, None)


def _passes(source: Source, threads: int) -> list[Any]:
    taken = logged_choices(source.logs, target_key(source.target, threads))
    choices = Choices(taken) if taken else None
    return default_pipeline(source.preferences, choices)


def _changed(before: Module, after: Module, arrays: Sequence[Array], bound: float) -> Difference:
    """Returns the greatest difference of the results of two modules."""
    differences = [
        difference(got, want, rough, bound)
        for got, want, rough in zip(
            _results(after, arrays, True),
            _results(before, arrays, True),
            _results(before, arrays, False),
        )
    ]
    return max(differences, key=lambda d: (d.wrong, d.error))


def _results(module: Module, arrays: Sequence[Array], wide: bool) -> list[Array]:
    return flat(
        result_of(module.main, values_of(module.main, arrays, module, wide=wide), wide=wide)
    )


def _first_changed(
    source: Source, built: Built, arrays: Sequence[Array], bound: float
) -> Binding | None:
    main = source.module.main
    if len(main.body.bindings) > MOST_CUTS:
        return None
    assert built.parts is not None
    for n, binding in enumerate(main.body.bindings):
        if not isinstance(binding.var.type, TensorType):
            continue
        body = Block(main.body.bindings[: n + 1], binding.var)
        short = source.module.with_function("main", main.with_body(body))
        passes = _passes(source, built.parts.threads)
        after = source.passes.quiet(verify=1).run(short, passes, GRAPH)
        if _changed(short, after, arrays, bound).differs:
            return binding
    return None
