"""Loops traced into blocks of the graph.

A body is the user's function, run on proxies in a scope of its own. Arrays from outside that it
writes become further carries; which these are is known when it has run, and so is the dtype of a
carry that begins as a Python number. So the bodies of loops run again until both stay as they are,
at most once for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dims import IntExpr
from ...ir.dtype import INT64
from ...ir.errors import LoopwrightError, LoopwrightTypeError
from ...ir.graph.nodes import Atom, Block, Constant, Var
from ...ir.graph.requirements import undemanded
from ...ir.graph.types import TensorType
from ...ir.span import Span
from ..core.emitting import emit, lift
from ..core.integer_ranges import as_dim, assuming, facts, invariants
from ..core.proxy import Proxy
from ..core.pytree import Structure, flatten, paths, unflatten
from ..core.runtime_checks import unfailed
from ..core.side_effects import watched
from ..core.spans import caret_lines
from ..core.trace import Trace, active
from ..memory.scope import Scope
from ..memory.storage import Kind
from . import leaves as trees
from .eager import not_a_condition, not_an_array
from .leaves import Fixed, LeafType, carried, check_fixed, differ, flattened, leaf_type

COUNT = TensorType((), INT64)
"""The type of an index."""


MOST_COUNTERS = 4
"""Integers carried by a loop of which it is guessed that they stay within where they begin."""


class UnknownResultError(BaseException):
    """A function was called whose result is not known yet, as it is being traced itself: the
    number ``depth`` of those that are. Not an Exception: it passes through the user's code."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.depth = depth


def running() -> Trace:
    """Returns the trace that runs."""
    trace = active()
    assert trace is not None
    return trace


def new_proxy(trace: Trace, atom: Atom, type_: LeafType) -> Proxy:
    """Returns a value of its own, as the user's code gets it."""
    proxy = Proxy(atom, trace, type_.weak)
    if type_.array:
        proxy.storage.kind = Kind.FRESH
    proxy.storage.published = True
    return proxy


def atom_of(trace: Trace, value: Any, type_: LeafType) -> Atom:
    """Returns a leaf as an atom of that type in the present scope."""
    return trace.visible(lift(value, type_.dtype).atom)


def stand_in(trace: Trace, type_: LeafType) -> Atom:
    """Returns any value of that type."""
    attrs = {"shape": type_.shape, "fill_value": 0, "dtype": str(type_.dtype)}
    return trace.emit("full", (), attrs)


def condition_of(trace: Trace, operation: str, value: Any) -> Atom:
    """Returns a condition as an atom: one bool, or one number that is not 0."""
    type_ = leaf_type(value)
    if isinstance(type_, Fixed) or type_.shape:
        raise not_a_condition(operation, type_)
    condition = lift(value)
    if not condition.type.dtype.is_bool:
        zero = lift(0, condition.type.dtype)
        condition = emit("not_equal", lift(value, condition.type.dtype), zero)
    return trace.visible(condition.atom)


def _located(error: LoopwrightError, value: Any) -> LoopwrightError:
    """``error`` with the line that computed ``value``, if that is known."""
    span: Span | None = value.atom.span if type(value) is Proxy else None
    if span is not None:
        error.span, error.source = span, caret_lines(span)
    return error


def ours(trace: Trace) -> AbstractContextManager[None]:
    """Operations in the body count as those of the user's present line."""
    return under(trace, trace.span or trace.here())


@contextmanager
def under(trace: Trace, span: Span | None) -> Generator[None, None, None]:
    """Operations in the body count as those of ``span``; None: each has the user's own line."""
    outer, trace.span = trace.span, span
    try:
        yield
    finally:
        trace.span = outer


class _Loop:
    """The carries of a loop that is being traced: those of the user, ``written`` storages, and
    ``outputs``, the stacked ones of a scan."""

    def __init__(self, operation: str, init: Any) -> None:
        self.trace = running()
        self.operation = operation
        self.span = self.trace.span
        self.initial, self.structure = flattened(init)
        self.types = [leaf_type(leaf) for leaf in self.initial]
        self.notes = self.trace.passes.next((operation, self.span))
        self.written = [s for s in self.notes.written if s.scope is None or not s.scope.ended]
        self.outputs: list[_Output] = []
        self.params: list[Var] = []
        self.nexts: list[Atom] = []
        self.certain: list[tuple[int, str, IntExpr]] | None = None  # relations of counting carries
        self.settled = False

    @property
    def tensors(self) -> list[LeafType]:
        return [t for t in self.types if isinstance(t, LeafType)]

    @contextmanager
    def carrying(self) -> Generator[Scope, None, None]:
        """A scope with a parameter for each carry, around the blocks of the loop. It is to be
        repeated until ``settled``."""
        trace, types, written = self.trace, list(self.types), list(self.written)
        self.outputs = []
        with trace.block() as scope:
            names = paths(self.structure, "carry")
            self.params = [
                scope.param(_identifier(n), t.tensor)
                for n, t in zip(names, types, strict=True)
                if isinstance(t, LeafType)
            ]
            for storage in written:
                name, _ = trace.origins.get(storage.atom, ("", ""))
                var = scope.param(_identifier(name) or "array", storage.atom.type)
                self.params.append(var)
                trace.assign(storage, var)
            first, counting = len(trace.values.open), self._counting()
            relations = [(counting[n][0], r, b) for n, r, b in self.certain or ()]
            with assuming(trace, relations):
                with trace.passes.over(self.notes):
                    yield scope
                self.written += [s for s in scope.entries if s not in written]
                self.notes.written = self.written
                self.settled = types == self.types and len(written) == len(self.written)
                opened = trace.values.open[first:]
                if self.settled and opened and self.certain is None and counting:
                    self.certain = invariants(trace, self._counting(), opened)
                    self.settled = not self.certain

    def _counting(self) -> list[tuple[IntExpr, IntExpr, IntExpr]]:
        """Returns what the user's integer carries are, begin as and, once traced, go on as."""
        leaves = (v for v, t in zip(self.initial, self.types) if isinstance(t, LeafType))
        rows = zip(self.params, leaves, self.nexts or self.params)
        return [
            (as_dim(self.trace, p), as_dim(self.trace, lift(v).atom), as_dim(self.trace, after))
            for p, v, after in rows
            if p.type == COUNT
        ][:MOST_COUNTERS]

    def tree(self) -> Any:
        """Returns the carry as the user's function gets it."""
        return self._tree(self.params)

    def _tree(self, atoms: Sequence[Atom]) -> Any:
        rest = iter(atoms)
        leaves = [
            v if isinstance(t, Fixed) else new_proxy(self.trace, next(rest), t)
            for v, t in zip(self.initial, self.types, strict=True)
        ]
        return unflatten(self.structure, leaves)

    def end(self, tree: Any) -> list[Atom]:
        """Returns the atoms with which the user's carries go on."""
        leaves, structure = flattened(tree)
        operation = self.operation
        trees.check_structure(operation, "the carry", self.structure, "the body's", structure)
        labels = paths(structure, "the carry")
        for number, (label, value) in enumerate(zip(labels, leaves, strict=True)):
            before, after = self.types[number], leaf_type(value)
            if isinstance(before, Fixed):
                check_fixed(operation, label, before.value, value)
                continue
            meeting = None if isinstance(after, Fixed) else carried(before, after)
            if meeting is None:
                error = differ(operation, label, "begins as", before, "the body gives", after)
                raise _located(error, value)
            self.types[number] = meeting
        values = [(v, t) for v, t in zip(leaves, self.types) if isinstance(t, LeafType)]
        self.nexts = [atom_of(self.trace, value, type_) for value, type_ in values]
        return self.nexts

    def block(self, scope: Scope, ends: Sequence[Atom]) -> Block:
        """Returns the body's block, whose scope has not ended yet."""
        atoms = [*ends, *(self.trace.visible(s.atom) for s in self.written)]
        atoms += [output.updated for output in self.outputs]
        return scope.builder.block(scope.builder.make_tuple(atoms, span=self.span))

    def initials(self) -> list[Atom]:
        """Returns the atoms that the carries begin as."""
        values = [(v, t) for v, t in zip(self.initial, self.types) if isinstance(t, LeafType)]
        atoms = [atom_of(self.trace, value, type_) for value, type_ in values]
        atoms += [self.trace.visible(s.atom) for s in self.written]
        return atoms + [output.initial(self.trace) for output in self.outputs]

    def skipped(self) -> Any:
        """Returns the initial carry, of a loop without iterations."""
        for output in self.outputs:
            output.result = output.initial(self.trace)
        return self._tree(self.initials())

    def result(self, loop: Var) -> Any:
        """Returns the last carry, of the finished ``loop``; storages get their last values."""
        trace = self.trace
        count = len(self.tensors) + len(self.written) + len(self.outputs)
        fields = [trace.builder.get_item(loop, i, span=self.span) for i in range(count)]
        for storage, atom in zip(self.written, fields[len(self.tensors) :]):
            trace.assign(storage, atom)
        for output, atom in zip(self.outputs, fields[count - len(self.outputs) :]):
            output.result = atom
        return self._tree(fields)


def _identifier(path: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in path).split())


def while_loop(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any) -> Any:
    """Traces the loop that ``cond_fn`` ends."""
    trace = running()
    with ours(trace):
        loop = _Loop("while_loop", init)
        while True:
            with loop.carrying():
                with trace.block() as inner:
                    going = condition_of(trace, "while_loop", watched(trace, cond_fn, loop.tree()))
                    _refuse_writes(inner, trace)
                    checked = trace.memory.failure in inner.entries
                    holds = [*facts(trace, going)]
                    going = unfailed(trace, going)
                condition = inner.builder.block(going)
                trace.values.facts += holds
                with trace.block() as inner:
                    body = loop.block(inner, loop.end(_unless_unknown(loop, body_fn, loop.tree())))
            if loop.settled:
                break
        bound = trace.builder.while_loop(
            loop.params, loop.initials(), condition, body, span=loop.span
        )
        last = loop.result(bound)
        if checked:  # what failed in the condition has ended the loop, and fails again here
            with under(trace, None):
                cond_fn(last)
        return last


def _refuse_writes(scope: Scope, trace: Trace) -> None:
    if scope.entries.keys() - {trace.memory.failure}:
        raise LoopwrightTypeError(
            "while_loop: the condition writes to an array", hint="write to it in the body"
        )


def _unless_unknown(loop: _Loop, body: Callable[..., Any], *args: Any) -> Any:
    """``body(*args)``; if that needs a result that is not known, the initial carry, of the same
    types."""
    try:
        return watched(loop.trace, body, *args)
    except UnknownResultError:
        return unflatten(loop.structure, loop.initial)


def for_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Traces the loop over ``range(lower, upper)``."""
    trace = running()
    with ours(trace):
        loop = _Loop("fori_loop", init)
        first = lower if isinstance(lower, int) else lift(lower, INT64)
        extent = _extent(trace, first, upper)

        def body(index: Proxy, carry: Any) -> Any:
            if type(first) is Proxy or first:
                counted = emit("add", index, lift(first, INT64))
                index = Proxy(counted.atom, trace, int)
            with under(trace, None):
                return _unless_unknown(loop, body_fn, index, carry)

        return _counted(loop, extent, body)


def _extent(trace: Trace, lower: Any, upper: Any) -> Atom:
    if type(lower) is not Proxy and type(upper) is not Proxy:
        return Constant(np.asarray(max(0, upper - lower), np.int64))
    last = lift(upper, INT64)
    if type(lower) is Proxy or lower:
        last = emit("subtract", last, lift(lower, INT64))
    return trace.visible(last.atom)


def _counted(loop: _Loop, extent: Atom, body: Callable[[Proxy, Any], Any]) -> Any:
    """Traces ``carry = body(index, carry)`` for each index below ``extent``."""
    trace = loop.trace
    while True:
        with loop.carrying() as scope:
            index = scope.param("i", COUNT)
            trace.values.extents[index] = extent
            with trace.block() as inner, under(trace, loop.span):
                block = loop.block(inner, loop.end(body(Proxy(index, trace, int), loop.tree())))
        if loop.settled:
            break
    params = [*loop.params, *(output.param for output in loop.outputs)]
    bound = trace.builder.for_loop(index, extent, params, loop.initials(), block, span=loop.span)
    return loop.result(bound)


@dataclass(slots=True, eq=False)
class _Output:
    """A stacked output: a carried array ``param`` of which an iteration writes one row."""

    param: Var
    type: LeafType
    updated: Atom
    result: Atom | None = None

    def initial(self, trace: Trace) -> Atom:
        """Returns what it begins as: every element is written."""
        return stand_in(trace, self.type)


def scan(
    operation: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: IntExpr,
    reverse: bool,
    unroll: int,
) -> tuple[Any, Any]:
    """Traces a loop that reads a row of ``xs`` and writes a row of the outputs at a time."""
    trace = running()
    with ours(trace):
        loop = _Loop(operation, init)
        inputs, rows_structure = flatten(xs)
        inputs = [lift(x) for x in inputs]
        together = 1
        if isinstance(length, int) and length:
            together = max(n for n in range(1, unroll + 1) if length % n == 0)
        outputs: list[Structure] = []

        def body(index: Proxy, carry: Any) -> Any:
            loop.outputs = []
            for part in range(together):
                row = _row_number(index, part, together, length, reverse)
                x = unflatten(rows_structure, [row_of(x, row) for x in inputs])
                with under(trace, None):
                    carry, y = watched(trace, f, carry, x)
                leaves, structure = flattened(y)
                outputs[:] = [structure]
                _put(loop, leaves, structure, row, length, part)
            return carry

        if isinstance(length, int):
            extent: Atom = Constant(np.asarray(length // together, np.int64))
        else:
            extent = trace.visible(lift(length, INT64).atom)
        carry = _counted(loop, extent, body)
        stacked = [new_proxy(trace, o.result, o.type) for o in loop.outputs if o.result is not None]
        return carry, unflatten(outputs[0], stacked)


def _row_number(index: Proxy, part: int, together: int, length: IntExpr, reverse: bool) -> Proxy:
    """Returns the row of an iteration, of whose rows it is number ``part``."""
    row = lift(index, INT64)
    if together > 1:
        row = emit("multiply", row, lift(together, INT64))
        row = emit("add", row, lift(part, INT64)) if part else row
    return emit("subtract", lift(length - 1, INT64), row) if reverse else row


def row_of(x: Proxy, row: Proxy) -> Proxy:
    """Returns a row of an array; a number out of range is that of the nearest row."""
    type_ = LeafType(x.shape[1:], x.type.dtype, None, x.ndim > 1)
    if x.type.shape[0] == 0:
        return new_proxy(x.owner, stand_in(x.owner, type_), type_)
    with undemanded():  # an iteration has its row
        return new_proxy(x.owner, emit("take", x, row, axis=0, mode="clip").atom, type_)


def _put(
    loop: _Loop,
    leaves: Sequence[Any],
    structure: Structure,
    row: Proxy,
    length: IntExpr,
    part: int,
) -> None:
    """Writes the outputs of a row."""
    trace, operation = loop.trace, loop.operation
    if part and len(leaves) != len(loop.outputs):
        raise LoopwrightTypeError(f"{operation}: the outputs of one row differ from those before")
    for number, (label, value) in enumerate(
        zip(paths(structure, "the output"), leaves, strict=True)
    ):
        type_ = leaf_type(value)
        if isinstance(type_, Fixed):
            raise not_an_array(operation, label, type_)
        whole = LeafType((length, *type_.shape), type_.dtype)
        if not part:
            assert trace.scope.parent is not None
            param = trace.scope.parent.param("rows", whole.tensor)
            loop.outputs.append(_Output(param, whole, param))
        output = loop.outputs[number]
        if output.type.tensor != whole.tensor:
            raise _located(differ(operation, label, "was", output.type, "is now", whole), value)
        atom = atom_of(trace, value, type_)
        output.updated = trace.emit(
            "index_update", (output.updated, atom, row.atom), {"axes": (0,)}
        )
