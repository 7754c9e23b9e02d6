"""Branches traced into blocks of the graph: what ``cond`` and ``switch`` choose from.

Both run while the function is traced, whichever will be taken. So what one writes is a further
result of both, and what Python raises in one is raised when that one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from traceback import walk_tb
from typing import Any

from ...ir.dataclass import dataclass
from ...ir.errors import LoopwrightError
from ...ir.graph.nodes import Atom, Block, Var
from ...ir.graph.types import TensorType
from ...ir.span import Span
from ..core.emitting import lift
from ..core.integer_ranges import assuming, facts
from ..core.proxy import Proxy
from ..core.pytree import Structure, paths, unflatten
from ..core.runtime_checks import check
from ..core.side_effects import watched
from ..core.spans import is_library, span_of
from ..core.trace import Trace
from ..memory.scope import Scope, Storage
from . import leaves as trees
from .leaves import Fixed, LeafType, check_fixed, check_structure, differ, flattened, joined
from .traced import UnknownResultError, condition_of, new_proxy, ours, running, stand_in, under

RAISED = (IndexError, TypeError, ValueError)
"""The errors of Python's and NumPy's that a check can raise when the function runs."""


@dataclass(slots=True, eq=False)
class _Outcome:
    """The leaves that a branch gave, and the scope with what it wrote."""

    scope: Scope
    structure: Structure
    leaves: list[Any]
    types: list[LeafType | Fixed]


def branch(
    operation: str,
    condition: Atom,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    names: tuple[str, str] = ("true_fn", "false_fn"),
) -> Any:
    """Returns the results of two branches, of which ``condition`` chooses one.

    Where one needs the result of a function that is not known yet, the type of the other one's
    result is that of both: nothing of such a trace is kept. One in which Python or NumPy raised
    raises when it is taken.
    """
    trace = running()
    span = trace.span
    with assuming(trace, facts(trace, condition)):
        one = _outcome(trace, then)
    with assuming(trace, facts(trace, condition, False)):
        other = _outcome(trace, orelse)
    if isinstance(one, Exception):
        if not isinstance(other, _Outcome):
            raise one
        one = _raising(trace, one, other)
    elif isinstance(other, Exception):
        if not isinstance(one, _Outcome):
            raise other
        other = _raising(trace, other, one)
    if isinstance(one, UnknownResultError):
        if isinstance(other, UnknownResultError):
            raise min(one, other, key=lambda error: error.depth)
        return _stand_in(trace, other)
    if isinstance(other, UnknownResultError):
        return _stand_in(trace, one)
    check_structure(
        operation, names[0] + "'s result", one.structure, names[1] + "'s", other.structure
    )
    types = _joined(operation, names, one, other)
    written = list(dict.fromkeys([*one.scope.entries, *other.scope.entries]))
    blocks = [_block(trace, outcome, types, written) for outcome in (one, other)]
    tensors = [t for t in types if isinstance(t, LeafType)]
    if not tensors and not written:
        return unflatten(one.structure, one.leaves)
    result = trace.builder.cond(condition, *blocks, span=span)
    atoms = _fields(trace, result, len(tensors) + len(written), span)
    for storage, atom in zip(written, atoms[len(tensors) :], strict=True):
        trace.assign(storage, atom)
    return _tree(trace, one, types, atoms)


def _outcome(
    trace: Trace, function: Callable[[], Any]
) -> _Outcome | UnknownResultError | Exception:
    """Runs one branch, which may need a result that is not known, or fail on what is."""
    try:
        with trace.block() as scope:
            leaves, structure = flattened(watched(trace, function))
            types = [trees.leaf_type(leaf) for leaf in leaves]
            values = [v if isinstance(t, Fixed) else lift(v).atom for v, t in zip(leaves, types)]
    except UnknownResultError as error:
        return error
    except RAISED as error:
        if _is_ours(trace, error):
            raise
        return error
    return _Outcome(scope, structure, values, types)


def _is_ours(trace: Trace, error: Exception) -> bool:
    """True for an error that there is because the function is traced, perhaps for another trace."""
    return isinstance(error, LoopwrightError) or bool(trace.lacks or trace.needs)


def _raising(trace: Trace, error: Exception, other: _Outcome) -> _Outcome:
    """Returns the outcome of a branch that raises ``error`` if it is taken: with a failing check at
    its line, and any results of the ``other`` one's types."""
    kind = next(k for k in RAISED if isinstance(error, k))
    message = str(error).replace("{", "{{").replace("}", "}}")
    frames = [f for f, _ in walk_tb(error.__traceback__) if not is_library(f)]
    with trace.block() as scope, under(trace, span_of(frames[-1]) if frames else None):
        check(True, kind, message, trace=trace)
        leaves = [
            stand_in(trace, t) if isinstance(t, LeafType) else v
            for v, t in zip(other.leaves, other.types, strict=True)
        ]
    return _Outcome(scope, other.structure, leaves, other.types)


def of_loop(operation: str, loop: Callable[[], Any], begins: Callable[[], Any], init: Any) -> Any:
    """Returns what ``loop`` gives. One in whose body Python or NumPy raises gives ``init``, and
    raises if it ``begins``."""
    trace = running()
    try:
        return loop()
    except RAISED as error:
        if _is_ours(trace, error):
            raise
        raised = error
    begun = begins()

    def fails() -> Any:
        raise raised

    if type(begun) is not Proxy:
        return fails() if begun else init
    with ours(trace):
        condition = condition_of(trace, operation, begun)
        return branch(operation, condition, fails, lambda: init)


def _joined(
    operation: str, names: tuple[str, str], one: _Outcome, other: _Outcome
) -> list[LeafType | Fixed]:
    types: list[LeafType | Fixed] = []
    labels = paths(one.structure, "the result")
    for label, a, b, x, y in zip(
        labels, one.types, other.types, one.leaves, other.leaves, strict=True
    ):
        if isinstance(a, Fixed) and isinstance(b, Fixed):
            check_fixed(operation, label, x, y)
            types.append(a)
            continue
        meeting = None if isinstance(a, Fixed) or isinstance(b, Fixed) else joined(a, b)
        if meeting is None:
            first, second = (f"{name} gives" for name in names)
            error = differ(operation, label, f"differs: {first}", a, second, b)
            error.notes = (*_note(names[0], a, x), *_note(names[1], b, y))
            raise error
        types.append(meeting)
    return types


def _note(name: str, type_: LeafType | Fixed, atom: Any) -> tuple[str, ...]:
    span = atom.span if isinstance(atom, Var) else None
    return () if span is None else (f"{name} : {type_}   from {span}",)


def _block(
    trace: Trace, outcome: _Outcome, types: Sequence[LeafType | Fixed], written: Sequence[Storage]
) -> Block:
    """Returns a branch's block, whose results are leaves of ``types`` and what is ``written``."""
    scope = outcome.scope
    with trace.reopened(scope):
        atoms = [
            trace.visible(trace.cast(atom, type_.dtype))
            for atom, type_ in zip(outcome.leaves, types, strict=True)
            if isinstance(type_, LeafType)
        ]
        atoms += [trace.visible(scope.finals.get(s, s.atom)) for s in written]
        result = atoms[0] if len(atoms) == 1 else trace.builder.make_tuple(atoms)
        return trace.builder.block(result)


def _fields(trace: Trace, result: Var, count: int, span: Span | None) -> list[Atom]:
    if count == 1 and isinstance(result.type, TensorType):
        return [result]
    return [trace.builder.get_item(result, i, span=span) for i in range(count)]


def _tree(
    trace: Trace, outcome: _Outcome, types: Sequence[LeafType | Fixed], atoms: Sequence[Atom]
) -> Any:
    rest = iter(atoms)
    leaves = [
        v if isinstance(t, Fixed) else new_proxy(trace, next(rest), t)
        for v, t in zip(outcome.leaves, types, strict=True)
    ]
    return unflatten(outcome.structure, leaves)


def _stand_in(trace: Trace, outcome: _Outcome) -> Any:
    """Returns values of the types of an outcome."""
    atoms = [stand_in(trace, t) for t in outcome.types if isinstance(t, LeafType)]
    return _tree(trace, outcome, outcome.types, atoms)


def choose(index: Proxy, branches: Sequence[Callable[[], Any]], first: int = 0) -> Any:
    """Returns the result of ``branches[index - first]``, or of the nearest one."""
    if len(branches) == 1:
        return branches[0]()
    trace = running()
    middle = len(branches) // 2
    with ours(trace):
        before = condition_of(trace, "switch", index < first + middle)
        parts = branches[:middle], branches[middle:]
        return branch(
            "switch",
            before,
            lambda: choose(index, parts[0], first),
            lambda: choose(index, parts[1], first + middle),
            (_named(first, parts[0]), _named(first + middle, parts[1])),
        )


def _named(first: int, branches: Sequence[Any]) -> str:
    last = first + len(branches) - 1
    return f"branch {first}" if first == last else f"one of branches {first} to {last}"
