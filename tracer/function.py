"""Tracing: runs a Python function once on proxies, and keeps its operations as a module."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.dims import size_symbols, typical
from ..ir.errors import LoopwrightError, LoopwrightTypeError, UnsupportedError
from ..ir.graph.nodes import Atom, Constant, Var, tensor_type
from ..ir.graph.requirements import collecting
from ..ir.span import Span
from .core.arguments import ArraySpec, Placement, Request, Static, any_traced
from .core.captured_values import Borrowed, warn_of_draws
from .core.emitting import lift
from .core.int_arguments import ValuesNeeded
from .core.proxy import Proxy
from .core.pytree import Items, Stacked, Structure, Yielded, flatten, paths, unflatten
from .core.spans import caret_lines, definition_of
from .core.symbolic_sizes import Size, check_data_sizes, data_sizes_of
from .core.trace import Trace, TracedAnewError, active, tracing
from .memory.regions import Piece, pieces_of
from .memory.storage import Kind
from .traced import ONE, Argument, Element, Fixed, Traced, Trim, Written, located, trims_of

if TYPE_CHECKING:
    from .core.snapshot import Change
    from .donation import Ending

__all__ = ["Fixed", "Element", "Traced", "ValuesNeeded", "located", "trace"]


def trace(
    function: Callable[..., Any],
    signature: inspect.Signature,
    request: Request,
    name: str,
    borrowed: Borrowed | None = None,
    check_index: bool = False,
    ending: Ending | None = None,
    capture: bool = True,
) -> Traced:
    """Runs ``function`` on proxies for what ``request`` asks. Arrays from outside are copied, the
    big ones only if there is no ``borrowed`` to take note of them. ``ending`` makes of its result
    what is returned. Control flow that needs traced values is captured, if ``capture`` says so.

    Raises LoopwrightError with the user's line for what cannot be traced; whatever else the
    function raises passes through.
    """
    from .core.object_kinds import FUNCTION  # both are loaded when something is traced
    from .core.snapshot import Snapshot

    held = [leaf.value for leaf in request.leaves if isinstance(leaf, Static)]
    outside = Snapshot([function, *held])
    loops: dict[tuple[str, int], str] = {}
    failed: dict[str, Exception] = {}
    made: dict[type, Any] = {}

    def new_run(asked: frozenset[str] = frozenset()) -> Trace:
        run = Trace(name, check_index, borrowed, outside)
        run.asked, run.may_capture, run.loops, run.failed = asked, capture, loops, failed
        run.made = made
        return run

    run = new_run(frozenset({"capturing"} if capture and outside.asks_identity else ()))
    while True:
        try:
            with _numpys_own(run.asked):
                traced = _traced(function, signature, request, run, ending)
            break
        except (Exception, TracedAnewError) as error:
            missing = run.lacks or run.reconsidered
            asked = run.asked | missing
            if not missing and not run.needs:
                if any(any_traced([c.after]) for c in outside.changes()):
                    outside.restore()  # no traced value stays in the user's objects
                if isinstance(error, NameError):
                    for variable in (v for v in run.unbound if f"'{v}'" in str(error)):
                        error.add_note(_UNBOUND.format(variable))
                raise
            if (consumed := outside.restore()) is not None:
                raise _runs_twice(name, consumed) from error
            if isinstance(error, Exception) and not missing:
                raise run.needs.error(error) from error
            run = new_run(asked)
    for change in outside.changes():
        if change.is_array or any_traced([change.after]):
            from .core.side_effects import refusal  # loaded when it is first needed

            run = new_run(run.asked)
            repeat = functools.partial(_traced, function, signature, request, run, ending)
            refused = refusal(outside, change, repeat, name)
            refused.span = refused.span or definition_of(function)
            raise refused
        if change.is_random:
            functions = [r.value for r in outside.records.values() if r.kind is FUNCTION]
            warn_of_draws(name, functions, change.path)
    return traced


_UNBOUND = "values decide whether {} is bound here: give it a value before the branch or loop"


def as_called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what the running trace calls for a compiled ``function``: its captured form, in a run
    that captures."""
    running = active()
    if running is None or "capturing" not in running.asked:
        return function
    from .capture.calls import call_captured  # loaded when it is first needed
    from .capture.runtime import captured

    return functools.partial(call_captured, captured(function))


def _runs_twice(name: str, change: Change) -> LoopwrightError:
    """Returns the error for a function that has to run again, and has consumed something."""
    where = change.record.path
    return UnsupportedError(
        f"{name} has to be traced again, which is not possible once {where} has moved on",
        hint=f"list({where}) before the call",
    )


@contextmanager
def _numpys_own(asked: frozenset[str]) -> Generator[None, None, None]:
    """Lets NumPy's arrays and functions do in the body what earlier runs ``asked`` of them."""
    with ExitStack() as stack:
        if asked:
            from .core import numpy_receivers  # loaded when it is first needed

            if numpy_receivers.available():
                stack.enter_context(numpy_receivers.receiving())
        if asked & {"creating", "converting", "sizing"}:
            from .numpy.patched_functions import replaced  # loaded when it is first needed

            stack.enter_context(replaced())
        yield


def _traced(
    function: Callable[..., Any],
    signature: inspect.Signature,
    request: Request,
    run: Trace,
    ending: Ending | None,
) -> Traced:
    leaves: list[Any] = []
    parameters: list[int] = []
    arrays: list[Proxy] = []
    placements = {p.operand: p for p in request.placements}
    shapes = [leaf.type.shape for leaf in request.leaves if isinstance(leaf, ArraySpec)]
    for size in size_symbols(*(size for shape in shapes for size in shape)).values():
        hints = request.values or {}
        run.sizes[size.name] = hints.get(size.name, typical(size.expr))
    for position, (spec, path) in enumerate(zip(request.leaves, request.paths)):
        if isinstance(spec, Static):
            leaves.append(slice(*spec.value) if spec.type is slice else spec.value)  # type: ignore[misc]
            continue
        var = run.param(_param_name(path), spec.type, path)
        run.origins[var] = (path, f"argument {path} of {run.name}")
        if len(arrays) not in placements:  # an array of rank 0 may change
            run.needs.candidate(var, position)
        arrays.append(_argument(var, run, spec.weak, arrays, placements.get(len(arrays))))
        leaves.append(arrays[-1])
        parameters.append(position)
    with tracing(run), collecting(demands=True) as required:
        trees, args, kwargs = _call(signature, request, leaves)
        for name in ending.extra if ending is not None else ():
            del kwargs[name]
        if run.made:
            from .data.region import region_of  # loaded when it is first needed

            region_of(run).grow()
        outcome = as_called(function)(*args, **kwargs)
        if run.refused is not None:
            raise run.refused
        if isinstance(outcome, Iterator):  # the body of a generator runs when it is asked
            outcome = Yielded(Items.of(outcome).items)
        if ending is not None:
            run.span = definition_of(function)
            outcome = ending(trees, outcome)
            run.span = None
        if run.lists:
            from .capture.lists import returned  # loaded when it is first needed

            outcome = returned(outcome)
        _check_containers(run, request, trees, leaves, definition_of(function))
        structure, outputs, atoms = _results(run, outcome, definition_of(function))
        paths = [request.paths[p] for p in parameters]
        written = _written(run, arrays, atoms, paths)
        trims = _trims(run, atoms)
        if not isinstance(run.memory.failure.atom, Constant):
            from .core.runtime_checks import raise_failed  # loaded when it is first needed

            raise_failed(run)
        result = atoms[0] if len(atoms) == 1 else run.builder.make_tuple(atoms)
    check_data_sizes(run, required)
    module = run.module(run.builder.function(result, requirements=required))
    memory = run.memory
    if memory.changed or run.nests:
        # Loaded when it is first needed: all passes come with it, a tenth of the package's import.
        from ..ir.graph.passes.eliminate_dead_code import eliminate_dead_code

        module = eliminate_dead_code(module)
    dense = frozenset(n for n, a in enumerate(arrays) if a.ndim and memory.depends_on_layout)
    scalar = frozenset(memory.scalars if memory.changed else ())
    if not (written or dense or scalar) and all(p.strides == () for p in request.placements):
        request = request.with_placements(())
    operands = tuple(parameters)
    return Traced(
        run.name,
        signature,
        module,
        request,
        operands,
        structure,
        outputs,
        written,
        dense,
        scalar,
        tuple(run.numbers.fits),
        tuple(run.captures()),
        trims,
        tuple(f"{file}:{line} {text}" for (file, line), text in sorted(run.loops.items())),
    )


def _trims(run: Trace, atoms: list[Atom]) -> tuple[Trim, ...]:
    """Returns the results whose sizes data decides, and appends these sizes to ``atoms``."""
    if not run.data_sizes:
        return ()
    types = [tensor_type(atom) for atom in atoms]
    names = data_sizes_of(run, types)
    numbers = {name: len(atoms) + n for n, name in enumerate(names)}
    atoms += [run.data_sizes[name] for name in names]
    return trims_of(types, numbers)


def _argument(
    var: Var, run: Trace, weak: Any, earlier: list[Proxy], placement: Placement | None
) -> Proxy:
    """Returns the proxy for an operand that lies in memory as ``placement`` says."""
    if placement is not None and placement.same_as is not None:
        return earlier[placement.same_as]
    proxy = Proxy(var, run, weak)
    storage = proxy.storage
    storage.operand = len(earlier)
    if weak is not None or (proxy.is_scalar and placement is None):
        run.numbers.argument(var, len(earlier))
    storage.published = True
    if placement is not None or not proxy.is_scalar:
        storage.kind = Kind.ARGUMENT
    if placement is not None:
        storage.strides = placement.strides
    return proxy


def _written(
    run: Trace, arrays: list[Proxy], atoms: list[Atom], paths: list[str]
) -> tuple[Written, ...]:
    """Returns the final contents of written arguments, and appends their values to ``atoms``."""
    written: list[Written] = []
    for operand, span in sorted(run.memory.written.items()):
        pieces: list[Piece] = []
        value = arrays[operand].storage.atom
        for window, atom in pieces_of(run, run.builder.params[operand], value):
            pieces.append(Piece(len(atoms), window))
            atoms.append(atom)
        written.append(Written(operand, tuple(pieces), span, paths[operand]))
    return tuple(written)


def _check_containers(
    run: Trace, request: Request, trees: dict[str, Any], leaves: list[Any], where: Span | None
) -> None:
    """Refuses a function that puts other values into a list, dict or object that it was given."""
    rest = iter(leaves)
    hint = "change arrays in place (x[...] = value), or return the new value"
    for name, structure, tree in zip(request.names, request.structures, trees.values()):
        before = [next(rest) for _ in paths(structure)]
        if structure == ONE or (run.region is not None and run.region.holds(structure)):
            continue
        after, now = flatten(tree)
        if now != structure:
            break
        changed = [p for p, a, b in zip(paths(structure, name), after, before) if a is not b]
        if changed:
            hint = f"{changed[0]}[...] = value for an array, or return the new value"
            break
    else:
        return
    raise LoopwrightTypeError(
        f"{run.name} changes a list, dict or object that is an argument, and the caller's one "
        "would stay as it is",
        span=where,
        source=caret_lines(where) if where is not None else (),
        hint=hint,
    )


def _param_name(path: str) -> str:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in path).split()
    return "_".join(words)


def _call(
    signature: inspect.Signature, request: Request, leaves: list[Any]
) -> tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]:
    """The request's trees over ``leaves`` by name, and the arguments they make of the call."""
    rest = iter(leaves)
    given = {n: unflatten(s, rest) for n, s in zip(request.names, request.structures)}
    trees = dict(given)
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
    return given, tuple(args), {**kwargs, **trees}


def _results(
    run: Trace, outcome: Any, where: Span | None
) -> tuple[Structure, tuple[Fixed | Element | Argument | None, ...], list[Atom]]:
    leaves, structure = flatten(outcome)
    if run.region is not None:
        from .data.boundary import returned

        leaves, structure = returned(leaves, structure)
    outputs: list[Fixed | Element | Argument | None] = []
    atoms: list[Atom] = []
    for leaf, path in zip(leaves, paths(structure, "result")):
        if isinstance(leaf, Proxy) and leaf.alias is None and _is_written(run, leaf):
            assert leaf.storage.operand is not None
            outputs.append(Argument(leaf.storage.operand))
        elif isinstance(leaf, Stacked):
            atoms.append(run.visible(leaf.array.atom))
            outputs.append(Element(leaf.of_python, rows=True))
        elif type(leaf) is Size:
            atoms.append(lift(leaf.expr).atom)
            outputs.append(None if leaf.strong else Element(python=True))
        elif isinstance(leaf, Proxy | np.ndarray | np.generic):
            atoms.append(run.visible(lift(leaf).atom))
            outputs.append(_number(leaf))
        elif isinstance(leaf, bool | int | float | complex | str | bytes | np.dtype):
            outputs.append(Fixed(leaf))
        else:
            raise LoopwrightTypeError(
                f"{run.name} returns {path} of type {type(leaf).__name__}, which is not an array",
                span=where,
                source=caret_lines(where) if where is not None else (),
                hint="arrays in tuples, lists, dicts, dataclasses or namedtuples",
            )
    return structure, tuple(outputs), atoms


def _number(leaf: Any) -> Element | None:
    """Returns how a leaf is a number, where it is one. An operand without axes is what the caller
    has, which may be an array; it is returned as one."""
    if isinstance(leaf, Proxy) and leaf.weak is not None:
        return Element(python=True)
    of_numpy = type(leaf) is Proxy and leaf.is_scalar and leaf.storage.operand is None
    return Element(python=False) if of_numpy or isinstance(leaf, np.generic) else None


def _is_written(run: Trace, array: Proxy) -> bool:
    return array.owner is run and array.storage.operand in run.memory.written
