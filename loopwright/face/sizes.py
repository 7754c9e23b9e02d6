"""Symbolic sizes of arguments: their values in a call, and why a call does not fit them.

::

    request   x: float32[n, 784], y: float32[n + 1]      what code was compiled for
    given     x: float32[5, 784], y: float32[6]          a call
    solve     {"n": 5}                                   or an error that names sizes and arguments

A request's symbols are found axis by axis: where one symbol is unknown in ``a * n + b``, the size
there says what it is, and all other sizes are checked against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir import dims
from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError
from ..ir.graph.requirements import Requirement
from ..tracer import ArraySpec, Request, Traced
from ..tracer.core.arguments import LeafSpec
from ..tracer.core.spans import caret_lines
from ..tracer.core.symbolic_sizes import GUARD


def with_shapes(request: Request, shapes: Mapping[int, tuple[dims.IntExpr, ...]]) -> Request:
    """Returns a request with other shapes for some of its leaves, given by their position."""
    leaves: list[LeafSpec] = [*request.leaves]
    for position, shape in shapes.items():
        leaf = leaves[position]
        assert isinstance(leaf, ArraySpec)
        leaves[position] = replace(leaf, type=replace(leaf.type, shape=shape))
    return replace(request, leaves=tuple(leaves))


def request_sizes(request: Request) -> dict[str, dims.Symbol]:
    """Returns the symbolic sizes of a request by name."""
    return dims.size_symbols(*(s for leaf in _arrays(request) for s in leaf[1].type.shape))


def _arrays(request: Request) -> Iterator[tuple[int, ArraySpec]]:
    for position, leaf in enumerate(request.leaves):
        if isinstance(leaf, ArraySpec):
            yield position, leaf


def unified(name: str, request: Request) -> Request:
    """Returns a request in which sizes of one name are one symbol: its range is where all of their
    ranges meet, and a multiple if one of them is.

    Raises LoopwrightValueError if they do not meet, or if the sizes of the arguments do not say
    what a symbol is.
    """
    every = [s for _, leaf in _arrays(request) for s in leaf.type.shape if isinstance(s, dims.Dim)]
    stated = {atom for s in every for atom in _atoms(s)}
    if not stated:
        return request
    meeting: dict[str, dims.IntExpr] = {}
    for base in sorted({_base(atom) for atom in stated}):
        alike = [atom for atom in stated if _base(atom) == base]
        steps = {_step(atom) for atom in alike}
        step = max(steps)
        if any(step % s for s in steps):
            raise LoopwrightValueError(f"{name}: {base} is a multiple of {sorted(steps)} at once")
        low = max(a.low * _step(a) for a in alike if a.low is not None)
        high = min(a.high * _step(a) for a in alike if a.high is not None)
        low, high = -(-low // step), high // step
        if low > high:
            raise LoopwrightValueError(
                f"{name}: the ranges of the size {base} in different arguments do not meet"
            )
        common = dims.size(base if step == 1 else f"{base}.{step}", low, high)
        for atom in alike:
            meeting[atom.name] = common * (step // _step(atom))
    shapes = {
        position: tuple(dims.substitute(s, meeting) for s in leaf.type.shape)
        for position, leaf in _arrays(request)
    }
    _check_solvable(name, [s for shape in shapes.values() for s in shape])
    return with_shapes(request, shapes)


def _atoms(expr: dims.IntExpr) -> Sequence[dims.Symbol]:
    return [*dims.size_symbols(expr).values()]


def _base(atom: dims.Symbol) -> str:
    return atom.name.partition(".")[0]


def _step(atom: dims.Symbol) -> int:
    return int(atom.name.partition(".")[2] or 1)


def _check_solvable(name: str, sizes: Sequence[dims.IntExpr]) -> None:
    solved: set[str] = set()
    waiting = [s for s in sizes if isinstance(s, dims.Dim)]
    while waiting:
        new = [s for s in waiting if _unknown(s, solved) is not None]
        if not new:
            unsolved = sorted(set().union(*map(dims.symbols, waiting)) - solved)
            if not unsolved:
                return
            raise LoopwrightValueError(
                f"{name}: no axis says what the size {unsolved[0]} is: it only stands in "
                f"{', '.join(str(s) for s in waiting if unsolved[0] in dims.symbols(s))}",
                hint=f'an argument with an axis "{unsolved[0]}", or another name for the whole',
            )
        for s in new:
            solved |= dims.symbols(s)
        waiting = [s for s in waiting if not dims.symbols(s) <= solved]


def _unknown(expr: dims.IntExpr, solved: set[str]) -> str | None:
    """Returns the one symbol that ``expr``, linear in it, has beside the ``solved``; else None."""
    parts = dims.linear(expr)
    names = dims.symbols(expr) - solved
    return next(iter(names)) if parts is not None and len(names) == 1 else None


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of an argument: its size in the request, and in the call."""

    path: str
    number: int
    wanted: dims.Dim
    given: int

    def __str__(self) -> str:
        return f"axis {self.number} of argument {self.path}"


def solve(name: str, request: Request, given: Request) -> dict[str, int]:
    """Returns the values that the symbols of ``request`` have in a call with the types ``given``.

    Raises LoopwrightTypeError if there are none, and LoopwrightValueError for sizes that are out
    of their range; ``name`` is that of the function.
    """
    axes: list[_Axis] = []
    for path, wanted, actual in zip(request.paths, request.leaves, given.leaves):
        if isinstance(wanted, ArraySpec) and isinstance(actual, ArraySpec):
            for number, (s, value) in enumerate(zip(wanted.type.shape, actual.type.shape)):
                if isinstance(s, dims.Dim) and isinstance(value, int):
                    axes.append(_Axis(path, number, s, value))
    values: dict[str, int] = {}
    sources: dict[str, _Axis] = {}
    waiting = axes
    while waiting:
        later: list[_Axis] = []
        for axis in waiting:
            unknown = _unknown(axis.wanted, {*values})
            if unknown is not None:
                values[unknown] = _value(name, axis, unknown, values)
                sources[unknown] = axis
            elif dims.symbols(axis.wanted) <= values.keys():
                if dims.evaluate(axis.wanted, values) != axis.given:
                    raise _mismatch(name, axis, values, sources)
            else:
                later.append(axis)
        if len(later) == len(waiting):
            break
        waiting = later
    ranges = request_sizes(request)
    for unknown, value in values.items():
        _check_range(name, sources[unknown], ranges[unknown], value)
    return values


def _value(name: str, axis: _Axis, unknown: str, values: Mapping[str, int]) -> int:
    """Returns the value of a symbol for which the size of an axis is what is given."""
    parts = dims.linear(dims.substitute(axis.wanted, values))
    assert parts is not None
    factor, constant = parts[0][unknown], parts[1]
    value, rest = divmod(axis.given - constant, factor)
    base, _, step = unknown.partition(".")
    if rest and step and str(axis.wanted) == f"{step} * {unknown}":
        raise LoopwrightValueError(
            f"{axis} of {name} is {axis.given}, and {base} is a multiple of {step}",
            hint=f"{axis.given + factor - rest}, padded (np.pad), or a Dim of another multiple",
        )
    if rest:
        raise LoopwrightTypeError(f"{axis} of {name} is {axis.given}, which is not {axis.wanted}")
    return value


def _check_range(name: str, axis: _Axis, atom: dims.Symbol, value: int) -> None:
    assert atom.low is not None and atom.high is not None
    if atom.low <= value <= atom.high:
        return
    least, most = dims.bounds(axis.wanted, {}) or (0, dims.LARGEST_SIZE)
    base, step = _base(atom), _step(atom)
    limit = "at least" if value < atom.low else "at most"
    end = (atom.low if value < atom.low else atom.high) * step
    wider = f"min={value * step}" if value < atom.low else f"max={value * step}"
    plain = str(axis.wanted) in (atom.name, f"{step} * {atom.name}")
    rule = f"{base} is {limit} {end}" if plain else f"{axis.wanted} is {least} to {most}"
    raise LoopwrightValueError(
        f"{axis} of {name} is {axis.given}, and {rule}",
        hint=f'lw.Dim("{base}", {wider}), or a size from {least} to {most}',
    )


def _mismatch(
    name: str, axis: _Axis, values: Mapping[str, int], sources: Mapping[str, _Axis]
) -> LoopwrightTypeError:
    needed, wanted = dims.evaluate(axis.wanted, values), str(axis.wanted)
    where: list[str] = []
    for atom in sorted(_atoms(axis.wanted), key=_base):
        # A size with a multiple is that multiple of a symbol, which the user has not named.
        wanted = wanted.replace(f"{_step(atom)} * {atom.name}", _base(atom))
        where.append(f"{_base(atom)} = {values[atom.name] * _step(atom)}: {sources[atom.name]}")
    return LoopwrightTypeError(
        f"{axis} of {name} is {axis.given}, and {wanted} is {needed}", notes=tuple(where)
    )


def unmet(traced: Traced, values: Mapping[str, int]) -> Requirement | None:
    """Returns the first requirement of a trace that does not hold for its sizes' values. A saved
    function has no graph: its program checks them."""
    if not traced.module.functions:
        return None
    for requirement in traced.module.main.requirements:
        if values.keys() >= {*requirement.names} and not requirement.holds(values):
            return requirement
    return None


def refuse_unmet(traced: Traced, values: Mapping[str, int]) -> None:
    """Raises LoopwrightValueError with the user's line unless all requirements of a trace hold."""
    requirement = unmet(traced, values)
    if requirement is None:
        return
    needed, span, hint = f"{requirement} is needed", requirement.span, None
    message = requirement.message or f"sizes of {traced.name} do not fit"
    if message == GUARD:
        message = f"{traced.name} was traced for other sizes"
        needed = f"{requirement} decided a branch"
        hint = "call the function itself, which compiles for either branch"
    given = ", ".join(f"{n} = {values[n]}" for n in requirement.names)
    raise LoopwrightValueError(
        f"{message}: {needed}, and {given}",
        span=span,
        source=caret_lines(span) if span is not None else (),
        notes=tuple(_sources(traced.request, requirement.names)),
        hint=hint,
    )


def _sources(request: Request, names: Sequence[str]) -> Iterator[str]:
    """Says for each size where its value comes from."""
    for name in names:
        for position, leaf in _arrays(request):
            axes = [n for n, s in enumerate(leaf.type.shape) if name in dims.symbols(s)]
            if axes:
                place = f"axis {axes[0]} of argument {request.paths[position]}"
                yield f"{name} : {place}, {leaf.type.short}"
                break
