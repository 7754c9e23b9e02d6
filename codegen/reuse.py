"""Computes the distance in a program between two uses of the same memory, which caches may
bridge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ..ir.dims import typical
from ..ir.program.analysis import places, scopes, walk
from ..ir.program.nodes import Alloc, Call, For, Instr, Program, While, nested_bodies


def bytes_between_uses(program: Program) -> list[list[int]]:
    """Returns, for each call of the program and each of its operands, in the order of ``calls``,
    the bytes that other memory takes that is touched between the last use of the operand's memory
    and this one, as a read or a write, by whatever value was there: the stack distance of an LRU
    cache (Mattson et al., "Evaluation techniques for storage hierarchies", 1970).

    An operand of whose parts some were used later than others has the mean distance of its bytes.
    A program runs again and again, so the last call comes before the first; and so does the body of
    a loop. Of a branch, both ways count.
    """
    return by_cycles(program, lambda scope: partial(_stack_distances, spans=_Spans(scope)))


def by_cycles(
    program: Program,
    distances_in: Callable[[Program], Callable[[Sequence[Call]], dict[int, list[int]]]],
) -> list[list[int]]:
    """Returns what ``distances_in`` a scope says of each call, in the innermost loop around it."""
    distances: dict[int, list[int]] = {}
    order: list[int] = []
    for scope in scopes(program):
        distances_of = distances_in(scope)
        order += (id(call) for call in _calls(scope.body))
        for cycle in (scope.body, *_loops(scope.body)):
            # An inner loop comes after those around it, and what it says of its calls counts.
            distances |= distances_of([*_calls(cycle)])
    return [distances[call] for call in order]


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


class _Spans:
    """The memory of operands of a scope: in the arena by their offsets, elsewhere by their root."""

    def __init__(self, scope: Program) -> None:
        self.place_of = places(scope)
        self.offsets = {
            i.region.name: typical(i.offset)
            for i in walk(scope.body)
            if isinstance(i, Alloc) and i.offset is not None
        }

    def of(self, name: str) -> tuple[str, int, int]:
        """Returns the memory of a name (that of the arena is ""), and its begin and end there."""
        place = self.place_of[name]
        offset = self.offsets.get(place.root)
        root, first = (place.root, 0) if offset is None else ("", offset)
        return root, first + typical(place.begin), first + typical(place.end)


def _stack_distances(calls: Sequence[Call], spans: _Spans) -> dict[int, list[int]]:
    """Returns ``bytes_between_uses`` of calls that run one after the other, again and again."""
    touched = [[spans.of(o.name) for o in call.operands] for call in calls]
    users = Counter(root for spots in touched for root in {spot[0] for spot in spots})
    everything = _Union()
    for root, begin, end in (spot for spots in touched for spot in spots):
        everything.add(root, begin, end)
    distances: dict[int, list[int]] = {}
    for n, (call, spots) in enumerate(zip(calls, touched)):
        weighted = [0.0] * len(spots)
        # What no other call uses was last used a whole cycle ago.
        alone = [users[root] == 1 for root, _, _ in spots]
        missing = [[] if alone[m] else [spot[1:]] for m, spot in enumerate(spots)]
        since = _Union()
        for step in range(1, len(calls) + 1):
            if not any(missing):
                break
            other = touched[n - step]
            for m, (root, _, _) in enumerate(spots):
                for begin, end in (spot[1:] for spot in other if spot[0] == root):
                    before = sum(b - a for a, b in missing[m])
                    missing[m] = [p for part in missing[m] for p in _without(part, begin, end)]
                    weighted[m] += since.bytes * (before - sum(b - a for a, b in missing[m]))
            for root, begin, end in other:
                since.add(root, begin, end)
        distances[id(call)] = [
            everything.bytes - (end - begin) if lonely else int(total / max(1, end - begin))
            for (_, begin, end), total, lonely in zip(spots, weighted, alone)
        ]
    return distances


def _without(part: tuple[int, int], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields what is left of a range of bytes without those from ``begin`` to ``end``."""
    for low, high in ((part[0], min(part[1], begin)), (max(part[0], end), part[1])):
        if low < high:
            yield low, high


class _Union:
    """Ranges of bytes of several memories, and how many ``bytes`` they are together."""

    def __init__(self) -> None:
        self.bytes = 0
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def add(self, root: str, begin: int, end: int) -> None:
        """Adds the bytes from ``begin`` to ``end``."""
        apart: list[tuple[int, int]] = []
        for low, high in self._ranges.get(root, ()):
            if high < begin or end < low:
                apart.append((low, high))
            else:
                begin, end = min(begin, low), max(end, high)
                self.bytes -= high - low
        self._ranges[root] = [*apart, (begin, end)]
        self.bytes += end - begin
