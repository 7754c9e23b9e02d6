"""Computes the distance in a program between two uses of the same memory, which caches may
bridge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ir.dims import typical
from ..ir.program.analysis import Place, places, scopes
from ..ir.program.nodes import Call, For, Instr, Program, While, nested_bodies

__all__ = ["bytes_in_loops", "expected_calls", "reuse_distances"]


def reuse_distances(program: Program) -> list[list[int]]:
    """Returns a distance in bytes for each call of the program and each of its operands, in the
    order of ``calls``.

    For an operand that is read, it is the memory touched since its last use; for one that is
    written, until its next use: all memory of the calls in between and of both calls. A program
    runs again and again, so the last call comes before the first; and so does the body of a loop.
    Of a branch, both ways count.
    """
    distances: dict[int, list[int]] = {}
    order: list[int] = []
    for scope in scopes(program):
        place_of = places(scope)
        order += (id(call) for call in _calls(scope.body))
        for cycle in (scope.body, *_loops(scope.body)):
            # An inner loop comes after those around it, and what it says of its calls counts.
            distances |= _of_cycle([*_calls(cycle)], place_of)
    return [distances[call] for call in order]


UNKNOWN_TRIPS = 16
"""Iterations that a loop is expected to have where its trip count is not in the program."""


def expected_calls(program: Program) -> Counter[str]:
    """Returns how often each kernel is expected to be called in a run, inline ones left out; of a
    branch both ways, and of a function what one call of it runs."""
    counts: Counter[str] = Counter()
    work = [(scope.body, 1) for scope in scopes(program)]
    while work:
        body, times = work.pop()
        for instr in body:
            if isinstance(instr, Call) and not instr.inline:
                counts[instr.kernel] += times
            trips = 1
            if isinstance(instr, For | While):
                extent = instr.extent if isinstance(instr, For) else ""
                trips = extent if isinstance(extent, int) else UNKNOWN_TRIPS
            work += [(nested, times * trips) for nested in nested_bodies(instr)]
    return counts


def bytes_in_loops(program: Program) -> dict[str, int]:
    """Returns, for each kernel that is called in a loop, the bytes of the operands of all calls in
    an iteration of the innermost one, at least: what is touched until it is called again."""
    least: dict[str, int] = {}
    for scope in scopes(program):
        place_of = places(scope)
        innermost: dict[int, tuple[str, int]] = {}
        for cycle in _loops(scope.body):
            inside = [*_calls(cycle)]
            touched = {place_of[o.name].root: place_of[o.name] for c in inside for o in c.operands}
            size = sum(place.end - place.begin for place in touched.values())
            innermost |= {id(call): (call.kernel, typical(size)) for call in inside}
        for kernel, size in innermost.values():
            least[kernel] = min(size, least.get(kernel, size))
    return least


def _calls(body: Iterable[Instr]) -> Iterator[Call]:
    for instr in body:
        if isinstance(instr, Call):
            yield instr
        for nested in nested_bodies(instr):
            yield from _calls(nested)


def _loops(body: Iterable[Instr]) -> Iterator[Sequence[Instr]]:
    """Yields what each loop runs in an iteration, outer loops before inner ones."""
    for instr in body:
        bodies = nested_bodies(instr)
        if isinstance(instr, For | While):
            yield [i for b in bodies for i in b]
        for nested in bodies:
            yield from _loops(nested)


def _of_cycle(calls: Sequence[Call], place_of: Mapping[str, Place]) -> dict[int, list[int]]:
    """Returns the distances of calls that run one after the other, again and again."""
    touched: list[dict[str, int]] = []
    for call in calls:
        spots = [place_of[o.name] for o in call.operands]
        touched.append({s.root: 0 for s in spots})
        for spot in spots:
            size = typical(spot.end - spot.begin)
            touched[-1][spot.root] = max(touched[-1][spot.root], size)
    return {
        id(call): [
            _distance(touched, n, place_of[o.name].root, 1 if o.access.writes else -1)
            for o in call.operands
        ]
        for n, call in enumerate(calls)
    }


def _distance(touched: Sequence[dict[str, int]], start: int, root: str, step: int) -> int:
    """Returns the bytes of the calls from ``start`` on, forwards or backwards, up to one with
    ``root``.
    """
    seen = dict(touched[start])
    for n in range(1, len(touched) + 1):
        other = touched[(start + step * n) % len(touched)]
        for name, size in other.items():
            seen[name] = max(seen.get(name, 0), size)
        if root in other:
            break
    return sum(seen.values())
