"""Order the calls to lower peak memory."""

from __future__ import annotations

from dataclasses import replace

from ..dims import typical
from ..pass_context import optional
from .analysis import accesses, has_control_flow, max_live_bytes, places, regions, set_sizes
from .lifetimes import place_lifetimes
from .nodes import Alias, Alloc, Call, Copy, Program

QUADRATIC_LIMIT = 2000
"""Calls up to which other orders are tried; the cost grows as their number times the number of
those that could come next."""


@optional(level=2)
def order_calls(program: Program) -> Program:
    """Reorder calls to consume results before others are computed, where that lowers peak memory.

    Before::

        program @main(@in %x: float32[4], @out %y: float32[1]) {
          %a = alloc float32[1000]
          call @f(@in %x, @out %a)
          %b = alloc float32[1000]
          call @g(@in %x, @out %b)
          %c = alloc float32[1]
          call @sum(@in %a, @out %c)
          free %a
          %d = alloc float32[1]
          call @sum(@in %b, @out %d)
          free %b
          call @add(@in %c, @in %d, @out %y)
          free %c
          free %d
        }

    After::

        program @main(@in %x: float32[4], @out %y: float32[1]) {
          %a = alloc float32[1000]
          call @f(@in %x, @out %a)
          %c = alloc float32[1]
          call @sum(@in %a, @out %c)
          free %a
          %b = alloc float32[1000]
          call @g(@in %x, @out %b)
          %d = alloc float32[1]
          call @sum(@in %b, @out %d)
          free %b
          call @add(@in %c, @in %d, @out %y)
          free %c
          free %d
        }

    Greedy: of the instructions whose operands are ready, the one that adds least to what is alive
    comes next. The new order is taken only if it needs less than the old one.
    """
    if has_control_flow(program) or set_sizes(program):
        return program
    while True:
        steps = [i for i in program.body if isinstance(i, Call | Copy)]
        if len(steps) > QUADRATIC_LIMIT:
            return program
        declared = [i for i in program.body if isinstance(i, Alloc | Alias)]
        ordered = [steps[k] for k in _Order(program, steps).order()]
        new = place_lifetimes(replace(program, body=(*declared, *ordered)))
        if max_live_bytes(new) >= max_live_bytes(program):
            return program
        program = new


class _Order:
    def __init__(self, program: Program, steps: list[Call | Copy]) -> None:
        where, by_name = places(program), regions(program)
        allocated = {i.region.name for i in program.body if isinstance(i, Alloc)}
        self.sizes = {name: typical(by_name[name].nbytes) for name in allocated}
        self.roots = [{where[name].root for name, _ in accesses(step)} for step in steps]
        self.uses: dict[str, int] = {}
        self.followers: list[list[int]] = [[] for _ in steps]
        self.waits = [0] * len(steps)
        writer: dict[str, int] = {}
        readers: dict[str, list[int]] = {}
        for k, step in enumerate(steps):
            before: set[int] = set()
            for name, access in accesses(step):
                root = where[name].root
                before |= {writer[root]} if root in writer else set()
                before |= set(readers.get(root, ())) if access.writes else set()
            for name, access in accesses(step):
                root = where[name].root
                if access.writes:
                    writer[root], readers[root] = k, []
                else:
                    readers.setdefault(root, []).append(k)
            for earlier in before - {k}:
                self.followers[earlier].append(k)
                self.waits[k] += 1
            for root in self.roots[k]:
                self.uses[root] = self.uses.get(root, 0) + 1
        self.live: set[str] = set()

    def order(self) -> list[int]:
        ready = [k for k, waits in enumerate(self.waits) if waits == 0]
        order: list[int] = []
        while ready:
            k = min(ready, key=lambda k: (self.growth(k), k))
            ready.remove(k)
            order.append(k)
            for root in self.roots[k]:
                self.live.add(root)
                self.uses[root] -= 1
                if self.uses[root] == 0:
                    self.live.discard(root)
            for follower in self.followers[k]:
                self.waits[follower] -= 1
                if self.waits[follower] == 0:
                    ready.append(follower)
        return order

    def growth(self, k: int) -> int:
        """Returns the bytes whose life begins with step ``k`` minus those that end with it."""
        grown = 0
        for root in self.roots[k]:
            size = self.sizes.get(root, 0)
            grown += size * (root not in self.live) - size * (self.uses[root] == 1)
        return grown
