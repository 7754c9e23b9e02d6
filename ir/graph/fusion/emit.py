"""Write the groups that fusion found as functions, and the block that calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ...dims import Symbol
from ...loop.symmetry import symmetric_axes
from ..builder import Builder
from ..nodes import Atom, Binding, Block, Call, Constant, Function, GlobalVar, TupleGetItem
from ..operator import Pattern
from ..structural import atom_key, canonical_text
from ..types import TupleType, bind_sizes
from ..walk import free_sizes, with_sizes
from .graph import Edge, Graph, Node, is_big_constant, operator_of
from .groups import Groups
from .rules import MOST_OPERATORS
from .to_prim import group_to_prim

_NAMED_OPERATORS = 6
"""Operators that a group's name spells out."""


class GroupTable:
    """The group functions made so far; the same function for groups that do the same."""

    def __init__(self, taken: Collection[str]) -> None:
        self.functions: dict[str, Function] = {}
        self._taken = set(taken)
        self._by_text: dict[str, GlobalVar] = {}

    def add(self, function: Function, operators: Sequence[str]) -> GlobalVar:
        """Returns the global variable under which ``function`` is called."""
        text = canonical_text(_with_plain_sizes(function))
        earlier = self._by_text.get(text)
        if earlier is not None:
            return earlier
        base = name = _group_name(operators)
        count = 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        self.functions[name] = function
        self._by_text[text] = GlobalVar(name, function.type)
        return self._by_text[text]


def _with_plain_sizes(function: Function) -> Function:
    """``function`` with its sizes named by their order, if a call's operands say what they are."""
    sizes = function.sizes
    if not sizes:
        return function
    given = tuple(p.type for p in function.params)
    if sizes.keys() - (bind_sizes(given, given) or {}).keys():
        return function
    plain = (Symbol(f"n{n}", s.low, s.high).expr for n, s in enumerate(sizes.values()))
    return with_sizes(function, dict(zip(sizes, plain)))


def _group_name(operators: Sequence[str]) -> str:
    short = [re.sub(r"\W", "_", name.rpartition(".")[2]) for name in operators]
    if len(short) > _NAMED_OPERATORS:
        short = [*short[: _NAMED_OPERATORS - 1], f"{len(short) - _NAMED_OPERATORS + 1}_more"]
    return "_".join(short)


def emit_block(block: Block, graph: Graph, groups: Groups, table: GroupTable) -> Block:
    """``block`` with each group replaced by a call of its function."""
    builder = Builder()
    for members in groups.all():
        first = graph.nodes[members[0]]
        if first.pattern is None:
            builder.bindings.append(first.binding)
        else:
            _emit_group(builder, graph, members, groups.outputs(members), table)
    return builder.block(block.result)


def _emit_group(
    builder: Builder,
    graph: Graph,
    members: Sequence[int],
    outputs: Sequence[int],
    table: GroupTable,
) -> None:
    nodes = [graph.nodes[m] for m in members]
    body = _GroupBody(graph, readings_of(graph, members, partial(_is_symmetric, graph)))
    for node in nodes:
        body.node(node)
    results = [body.results[graph.nodes[o].binding.var] for o in outputs or members[-1:]]
    attrs = {"primitive": True, "pattern": int(max(n.op.pattern for n in nodes))}
    span = nodes[-1].binding.var.span
    result = results[0] if len(results) == 1 else body.builder.make_tuple(results, span=span)
    function = body.builder.function(result, attrs=attrs, span=span)
    # What the group is about: index maps are named only where nothing else is in it.
    working = [n.op.name for n in nodes if n.op.cost and n.pattern != 2] or body.names
    target = table.add(function, working)
    free = tuple(size.expr for size in free_sizes(function))
    call = Call(target, tuple(body.arguments), {"sizes": free} if free else {}, span)
    if len(outputs) == 1:
        builder.bindings.append(Binding(graph.nodes[outputs[0]].binding.var, call))
        return
    group = builder.bind(call, result.type)
    assert isinstance(group.type, TupleType)
    for index, output in enumerate(outputs):
        var = graph.nodes[output].binding.var
        builder.bindings.append(Binding(var, TupleGetItem(group, index, var.span)))


def _is_symmetric(graph: Graph, contraction: Node) -> bool:
    """True if a contraction of one array with itself gives the same with two axes exchanged.

    Not if it widens bytes: machines multiply these by instructions that take the two sides in
    different orders, and gain more by that than by half of the work.
    """
    alone = _GroupBody(graph, {})
    alone.node(contraction)
    result = alone.results[contraction.binding.var]
    prim = group_to_prim("alone", alone.builder.function(result, attrs={}))
    widened = {p.dtype for p in prim.params} != {prim.output_buffers[0].dtype}
    return not widened and any(symmetric_axes(stage) is not None for stage in prim.stages)


class _GroupBody:
    """The function of a group while it grows: what comes from outside becomes a parameter."""

    def __init__(self, graph: Graph, readings: Mapping[tuple[int, int], Reading]) -> None:
        self.graph = graph
        self.builder = Builder()
        self.arguments: list[Atom] = []
        self.results: dict[Atom, Atom] = {}  # the value of a member -> what it is inside
        self.names: list[str] = []  # of the operators, in order
        self._readings = readings
        self._inside: dict[tuple[Reading, object], Atom] = {}

    def node(self, node: Node) -> None:
        """Copies a member; its operands must have been copied before."""
        args = [
            self._operand(arg, self._readings.get((node.index, position), SHARED))
            for position, arg in enumerate(node.call.args)
        ]
        self.results[node.binding.var] = self._copy(node.binding, args)

    def _operand(self, atom: Atom, reading: Reading) -> Atom:
        """Returns the atom inside of the group that stands for ``atom``, after its index maps."""
        if isinstance(atom, GlobalVar) or atom in self.results:
            return self.results.get(atom, atom)
        root, chain = self.graph.resolve(atom)
        value: Atom | None = None
        if root is not None:
            computed = root in self.results
            reading = SHARED if computed else reading
            value = self.results[root] if computed else self._outside(root, reading)
        for view in chain:
            copy = self._inside.get((reading, view.var))
            if copy is None:
                args = [] if value is None else [value]
                copy = self._inside[reading, view.var] = self._copy(view, args)
            value = copy
        assert value is not None
        return value

    def _outside(self, atom: Atom, reading: Reading) -> Atom:
        """Returns a parameter for ``atom``, or ``atom`` itself if it is a scalar constant."""
        if isinstance(atom, Constant) and not is_big_constant(atom):
            return atom
        key = reading, atom_key(atom) if isinstance(atom, Constant) else atom
        if key not in self._inside:
            name = "" if atom.name.isdigit() else atom.name
            self.arguments.append(atom)
            name = name or f"p{len(self.arguments) - 1}"
            self._inside[key] = self.builder.param(name, atom.type)
        return self._inside[key]

    def _copy(self, binding: Binding, args: Sequence[Atom]) -> Atom:
        call = binding.value
        assert isinstance(call, Call)
        self.names.append(operator_of(binding).name)
        self.builder.span = binding.var.span
        name = None if binding.var.name.isdigit() else binding.var.name
        return self.builder.bind(replace(call, args=tuple(args)), binding.var.type, name=name)


Reading: TypeAlias = tuple[object, ...]
"""Equal for two operands that may share a parameter if they are the same array."""

SHARED: Reading = ()

_HEAVY = (Pattern.REDUCTION, Pattern.CONTRACTION)


def readings_of(
    graph: Graph, members: Sequence[int], is_symmetric: Callable[[Node], bool]
) -> Mapping[tuple[int, int], Reading]:
    """The reading of every operand of a contraction in a group, and of what maps in front of it
    read, by node and position; all others are SHARED.

    ``is_symmetric`` says of a contraction of one array with itself whether its result is."""
    below: set[int] = set()  # reductions and contractions, and what depends on them
    for member in members:
        node = graph.nodes[member]
        if node.pattern in _HEAVY or below.intersection(node.sources):
            below.add(member)
    readings: dict[tuple[int, int], Reading] = {}
    inside = set(members) - below
    contractions = [m for m in members if graph.nodes[m].pattern == Pattern.CONTRACTION]
    for member in contractions:
        node = graph.nodes[member]
        with_itself = len(node.edges) > 1 and len({edge.root for edge in node.edges}) == 1
        if len(contractions) == 1 and with_itself and is_symmetric(node):
            both: Reading = (node.index, "both")
            readings.update({(member, n): both for n in range(len(node.edges))})
            continue
        for position, edge in enumerate(node.edges):
            readings[member, position] = _reading(node, position, edge)
            for front in _in_front(graph, edge, inside):
                for number, source in enumerate(graph.nodes[front].edges):
                    readings[front, number] = _reading(node, position, source)
    return readings


def _in_front(graph: Graph, edge: Edge, inside: set[int]) -> set[int]:
    """Returns the maps of the group that an operand of a contraction is made by."""
    walked: set[int] = set()
    work = [edge.source]
    while work:
        index = work.pop()
        if index is not None and index in inside and index not in walked:
            walked.add(index)
            work += graph.nodes[index].sources
    return walked


def _reading(contraction: Node, position: int, edge: Edge) -> Reading:
    """Operands of a contraction with the same letters are walked alike: ``ij,ij->i``."""
    equation = contraction.call.attrs.get("equation")
    letters: Sequence[str] = []
    if isinstance(equation, str):
        letters = equation.partition("->")[0].split(",")
    alike: object = letters[position] if position < len(letters) else position
    views: tuple[Atom, ...] = tuple(view.var for view in edge.chain)
    return (contraction.index, alike, views)


_ALIGNED = (Pattern.ELEMENTWISE, Pattern.BROADCAST)


def segments(graph: Graph) -> list[list[int]]:
    """Returns the segments of all regions that are larger than a group may be otherwise."""
    segments: list[list[int]] = []
    for region in _regions(graph):
        if len(region) > MOST_OPERATORS:
            segments += _cut(graph, region)
    return segments


def _regions(graph: Graph) -> list[list[int]]:
    """Returns the regions, each in program order.

    A node's level is how many steps out of a region lead to it, at most: what is connected and of
    one level has nothing of another level in between.
    """
    levels: list[int] = []
    parent = [*range(len(graph.nodes))]

    def find(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for node in graph.nodes:
        near = [s for s in node.sources if _is_near(graph.nodes[s], node)]
        levels.append(max([levels[s] + (s not in near) for s in node.sources], default=0))
        for source in near:
            if levels[source] == levels[node.index]:
                parent[find(source)] = find(node.index)
    regions: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.pattern in _ALIGNED:
            regions.setdefault(find(node.index), []).append(node.index)
    return [*regions.values()]


def _is_near(source: Node, node: Node) -> bool:
    """True if ``node`` reads ``source`` only at the index that it computes."""
    if source.pattern not in _ALIGNED or node.pattern not in _ALIGNED:
        return False
    read = [e for e in node.edges if e.source == source.index]
    return all(not e.chain and e.shape == node.shape for e in read)


def _cut(graph: Graph, region: Sequence[int]) -> list[list[int]]:
    """Cuts a region in program order into segments of half to all of what one may hold, each time
    at the place that the fewest values cross."""
    parts: list[list[int]] = []
    start = 0
    while start < len(region):
        end = _longest(graph, region, start)
        if end < len(region):
            crossing = _crossing(graph, region, start, end)
            earliest = start + (end - start + 1) // 2
            end = min(range(end, earliest - 1, -1), key=lambda at: crossing[at - start])
        parts.append([*region[start:end]])
        start = end
    return parts


def _longest(graph: Graph, region: Sequence[int], start: int) -> int:
    """Returns the end of the longest segment that begins at ``start``."""
    total = 0.0
    for place in range(start, len(region)):
        total += max(1.0, graph.nodes[region[place]].cost)
        if total > graph.limits.segment_cost:
            return max(place, start + 1)
    return len(region)


def _crossing(graph: Graph, region: Sequence[int], start: int, end: int) -> list[int]:
    """Counts values of the segment from ``start`` that are read behind each place to ``end``."""
    place_of = {node: place for place, node in enumerate(region)}
    count = [0] * (end - start + 2)
    for place in range(start, end):
        node = graph.nodes[region[place]]
        last = max((place_of.get(user, place) for user in node.users), default=place)
        count[place + 1 - start] += 1
        count[min(last, end) + 1 - start] -= 1
    for at in range(1, len(count)):
        count[at] += count[at - 1]
    return count
