"""Let functions return the new value of an input in the memory of that input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..dims import typical
from ..pass_context import optional
from . import nodes
from .analysis import Place, places, scopes
from .in_place import InPlaceRule
from .lifetimes import place_lifetimes
from .verify import MOST_REGISTER_BYTES

Origins: TypeAlias = "dict[str, frozenset[int]]"
"""The numbers of the inputs of which a root holds the value, or a new value, by root."""

Returned: TypeAlias = "dict[str, list[frozenset[int]]]"
"""The origins of each output, by function."""


@optional(level=2)
def return_in_place(program: nodes.Program, safe: InPlaceRule) -> nodes.Program:
    """Make one ``@inout`` parameter of an output and the input that it is the new value of: a
    function that calls itself does not copy the array that it changes in each call.

    Before::

        program @main(@in %x: int32[99], @in %n: bool[], @out %y: int32[99]) {
          invoke @f(@in %x, @in %n, @out %y) on stack
        }
        function program @f(@in %a: int32[99], @in %n: bool[], @out %b: int32[99]) {
          if %n {
            %c = alloc int32[99]
            copy @in %a, @out %c
            call @set(@inout %c)
            invoke @f(@in %c, @in %n, @out %b) on stack
            free %c
          } else {
            copy @in %a, @out %b
          }
        }

    After::

        program @main(@in %x: int32[99], @in %n: bool[], @out %y: int32[99]) {
          copy @in %x, @out %y
          invoke @f(@inout %y, @in %n) on stack
        }
        function program @f(@inout %a: int32[99], @in %n: bool[]) {
          %b = alloc int32[99]
          if %n {
            %c = alloc int32[99]
            copy @in %a, @out %c
            call @set(@inout %c)
            copy @in %c, @out %b
            free %c
            invoke @f(@inout %b, @in %n) on stack
          } else {
            copy @in %a, @out %b
          }
          copy @in %b, @out %a
          free %b
        }

    The copies between what is ``@inout`` and the function's own memory are left to ``coalesce``:
    they stay where the old value is needed. An output is the new value of an input if it is made of
    it on every path by copies, kernels that write a part of it or may write over a copy of it, and
    functions of which the same is true, which is assumed of each and refuted until nothing changes.
    """
    if not program.functions:
        return program
    pairs = {name: _pairs(origins) for name, origins in _returned(program, safe).items()}
    if not any(pairs.values()):
        return program
    functions = tuple(_function(f, pairs) for f in program.functions)
    body = tuple(_invoking(program.body, pairs))
    return place_lifetimes(replace(program, body=body, functions=functions))


def _returned(program: nodes.Program, safe: InPlaceRule) -> Returned:
    """The inputs that each output is the new value of, by the function."""
    returned: Returned = {
        f.name: [
            frozenset(n for n, i in enumerate(f.inputs) if (i.shape, i.dtype) == (o.shape, o.dtype))
            if typical(o.nbytes) > MOST_REGISTER_BYTES
            else frozenset()
            for o in f.outputs
        ]
        for f in program.functions
    }
    flows = [_Flow(scope, returned, safe) for scope in scopes(program)[1:]]
    while True:
        before = {**returned}
        for flow in flows:
            returned[flow.scope.name] = flow.returned()
        if returned == before:
            return returned


def _pairs(origins: Sequence[frozenset[int]]) -> dict[int, int]:
    """The input in whose memory each output is returned, by their numbers."""
    pairs: dict[int, int] = {}
    for output, inputs in enumerate(origins):
        if free := inputs - {*pairs.values()}:
            pairs[output] = min(free)
    return pairs


class _Flow:
    """Follows the values of a function's inputs to its outputs."""

    def __init__(self, scope: nodes.Program, returned: Returned, safe: InPlaceRule) -> None:
        self.scope = scope
        self.safe = safe
        self.inputs = {r.name for r in scope.inputs}
        self.by_function = returned
        self.places: dict[str, Place] = places(scope)

    def returned(self) -> list[frozenset[int]]:
        """The origins of the outputs, as far as they are not refuted."""
        begin: Origins = {r.name: frozenset([n]) for n, r in enumerate(self.scope.inputs)}
        end = self.body(self.scope.body, begin)
        before = self.by_function[self.scope.name]
        return [
            end.get(output.name, frozenset()) & origins
            for output, origins in zip(self.scope.outputs, before, strict=True)
        ]

    def body(self, body: Sequence[nodes.Instr], origins: Origins) -> Origins:
        """The origins behind some instructions."""
        for instr in body:
            origins = self.step(instr, dict(origins))
        return origins

    def step(self, instr: nodes.Instr, origins: Origins) -> Origins:
        match instr:
            case nodes.If(_, then, orelse):
                return _both(self.body(then, origins), self.body(orelse, origins))
            case nodes.While() | nodes.For():
                return self.loop(instr, origins)
            case nodes.Copy(source, target):
                self.write(target, self.origin(source, origins), origins)
            case nodes.Swap(one, other):
                origins[one], origins[other] = (origins.get(n, frozenset()) for n in (other, one))
            case nodes.Call() | nodes.Library():
                before = {**origins}
                for n, operand in enumerate(instr.operands):
                    if operand.access is nodes.Access.OUT:
                        self.write(operand.name, self.overwritten(instr, n, before), origins)
            case nodes.Invoke(function, operands):
                returned = self.by_function[function]
                given = [self.origin(o.name, origins) for o in operands]
                for operand, inputs in zip(operands[-len(returned) :], returned):
                    value = frozenset[int]().union(*(given[n] for n in inputs))
                    self.write(operand.name, value, origins)
            case _:
                pass
        return origins

    def loop(self, loop: nodes.While | nodes.For, origins: Origins) -> Origins:
        """The origins behind a loop: of what it carries, those behind every iteration."""
        head = loop.head if isinstance(loop, nodes.While) else ()
        while True:
            tested = self.body(head, origins)
            begin = _both(origins, self.body(loop.body, tested))
            if begin == origins:
                return tested
            origins = begin

    def overwritten(
        self, call: nodes.Call | nodes.Library, written: int, origins: Origins
    ) -> frozenset[int]:
        """The origins of what a kernel may write over with one of its results, but for inputs
        themselves: the caller may need their values."""
        value = frozenset[int]()
        if isinstance(call, nodes.Call):
            for read, operand in enumerate(call.operands):
                is_copy = self.places[operand.name].root not in self.inputs
                read_only = operand.access is nodes.Access.IN
                if is_copy and read_only and self.safe(call, read, written):
                    value |= self.origin(operand.name, origins)
        return value

    def is_whole(self, name: str) -> bool:
        return self.places[name] == self.places[self.places[name].root]

    def origin(self, name: str, origins: Origins) -> frozenset[int]:
        """The origins of what a name holds: those of a part are unknown."""
        whole = self.is_whole(name)
        return origins.get(self.places[name].root, frozenset()) if whole else frozenset()

    def write(self, name: str, value: frozenset[int], origins: Origins) -> None:
        if self.is_whole(name):
            origins[self.places[name].root] = value


def _both(one: Origins, other: Origins) -> Origins:
    """The origins on both of two paths."""
    return {root: one[root] & other[root] for root in one if root in other}


def _function(function: nodes.Program, pairs: Mapping[str, Mapping[int, int]]) -> nodes.Program:
    """A function whose outputs among ``pairs`` are memory of its own, which is copied to the input
    at the end."""
    mine = pairs[function.name]
    ends = [(function.outputs[output], function.inputs[n].name) for output, n in mine.items()]
    return replace(
        function,
        outputs=tuple(o for n, o in enumerate(function.outputs) if n not in mine),
        inout=tuple(i.name for n, i in enumerate(function.inputs) if n in mine.values()),
        body=(
            *(nodes.Alloc(region) for region, _ in ends),
            *_invoking(function.body, pairs),
            *(nodes.Copy(region.name, name) for region, name in ends),
        ),
    )


def _invoking(
    body: Sequence[nodes.Instr], pairs: Mapping[str, Mapping[int, int]]
) -> Iterator[nodes.Instr]:
    """The instructions of a body, which give functions copies of what they write."""
    for instr in body:
        if not isinstance(instr, nodes.Invoke):
            inside = [tuple(_invoking(b, pairs)) for b in nodes.nested_bodies(instr)]
            yield nodes.with_nested_bodies(instr, inside)
            continue
        operands = [*instr.operands]
        inputs = sum(o.access is nodes.Access.IN for o in operands)
        for output, n in pairs[instr.function].items():
            target = operands[inputs + output].name
            yield nodes.Copy(operands[n].name, target)
            operands[n] = nodes.Operand(nodes.Access.INOUT, target)
        kept = [o for n, o in enumerate(operands) if n - inputs not in pairs[instr.function]]
        yield replace(instr, operands=tuple(kept))
