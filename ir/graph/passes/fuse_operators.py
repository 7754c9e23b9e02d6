"""Gather operators into groups, each of which will be one kernel.

Before::

    def @main(%x: Tensor[(8, 4), float32], %b: Tensor[(4), float32]) -> Tensor[(8, 4), float32] {
      %0 = add(%x, %b);
      maximum(%0, 0f)
    }

After::

    def @main(%x: Tensor[(8, 4), float32], %b: Tensor[(4), float32]) -> Tensor[(8, 4), float32] {
      @add_maximum(%x, %b)
    }

    def @add_maximum(
      %x: Tensor[(8, 4), float32],
      %b: Tensor[(4), float32],
      primitive=True, pattern=1
    ) -> Tensor[(8, 4), float32] {
      %0 = add(%x, %b);
      maximum(%0, 0f)
    }

The method is Relay's ("Relay: A New IR for Machine Learning Frameworks", 2018): an operator joins
its post-dominator, and what lies between the two, if the rules of ``fusion/rules.py`` allow the
whole. Then neighbours are joined whose values are of one shape, even if several of them are needed
outside: each is written once and not read again; and so are groups that read the same array. Groups
that do the same share one function. If all that keeps more alive at one time than the operators
would one by one, groups stay apart which would hold more bytes than they save. Long chains of
elementwise operators are cut into groups before all that (``fusion/segments.py``).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ...dataclass import dataclass
from ..choices import Choices, Site
from ..fusion.attention import find_chain
from ..fusion.emit import GroupTable, emit_block, segments
from ..fusion.graph import Graph, build_graph
from ..fusion.groups import EXIT, Groups, post_dominators
from ..fusion.rules import MOST_OPERATORS, OpenJoins, may_fuse
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Binding, Block, Function, Module
from ..operator import Pattern
from ..walk import nested_blocks, with_nested_blocks


def fuse_operators(
    module: Module, choices: Choices | None = None, limits: GraphLimits = DEFAULT_LIMITS
) -> Module:
    """Every operator call moves into a group function; what remains are calls, tuples, branches
    and loops. Each block has groups of its own: nothing moves into a loop or out of one.

    A group is a Function with the attributes ``primitive`` and ``pattern`` (the greatest pattern in
    it). Expects what ``lower_to_primitives`` gives. ``choices`` may keep groups apart, ``limits``
    describe the machine.
    """
    fuser = _Fuser(GroupTable(module.functions), choices, limits)
    changed = module
    for name, function in module.functions.items():
        if isinstance(function, Function) and not function.attrs.get("primitive"):
            changed = changed.with_function(name, fuser.function(function))
    if changed is module:
        return module
    return changed.with_functions({**changed.functions, **fuser.table.functions})


@dataclass(frozen=True, slots=True)
class _Fuser:
    """Fuses the blocks of functions; equal groups of all of them share a function of ``table``."""

    table: GroupTable
    choices: Choices | None
    limits: GraphLimits

    def function(self, function: Function) -> Function:
        return function.with_body(self.block(function.body))

    def block(self, block: Block) -> Block:
        block = self.nested(block)
        graph = build_graph(block, self.limits)
        if all(node.pattern is None for node in graph.nodes) and not graph.views:
            return block
        alone = Groups(graph).peak()
        groups, sites = self.groups(graph)
        if groups.peak() > alone:
            thrifty, other_sites = self.groups(graph, alone)
            if thrifty.peak() < groups.peak():
                groups, sites = thrifty, other_sites
        if self.choices is not None:
            self.choices.sites = sites
        return emit_block(block, graph, groups, self.table)

    def groups(self, graph: Graph, most: float = inf) -> tuple[Groups, dict[str, Site]]:
        """Returns groups for a block, none of which lifts the peak above ``most`` bytes by more
        than it saves, and the choice points met so far."""
        choices = self.choices and replace(self.choices, sites=dict(self.choices.sites))
        groups, open_joins = Groups(graph, most), OpenJoins(graph, choices)
        if parts := segments(graph):
            for segment in parts:
                groups.unite(segment)
            groups.sort()  # not all values that leave a segment lead to one end
        _join_chains(graph, groups, open_joins)
        _join_post_dominators(graph, groups, open_joins)
        groups.sort()
        _join_neighbours(graph, groups, open_joins)
        _join_siblings(graph, groups, open_joins)
        return groups, choices.sites if choices else {}

    def nested(self, block: Block) -> Block:
        """``block`` with the blocks and functions inside of it fused."""
        bindings: list[Binding] = []
        for binding in block.bindings:
            inside = nested_blocks(binding.value)
            value = with_nested_blocks(binding.value, [self.block(b) for b in inside])
            bindings.append(binding if value is binding.value else Binding(binding.var, value))
        if all(a is b for a, b in zip(bindings, block.bindings)):
            return block
        return Block(tuple(bindings), block.result)


def _join_chains(graph: Graph, groups: Groups, open_joins: OpenJoins) -> None:
    """Contractions with a softmax between them: what is between has no other use."""
    contractions = [n.index for n in graph.nodes if n.pattern == Pattern.CONTRACTION]
    if len(contractions) < 2:
        return
    above = post_dominators(graph)
    for first in contractions:
        members = find_chain(graph, above, first)
        if members is None:
            continue
        ordered = sorted(members)
        if not open_joins.stays_open(first, max(members), ordered, groups.outputs(ordered)):
            groups.join(members)


def _join_post_dominators(graph: Graph, groups: Groups, open_joins: OpenJoins) -> None:
    """Contractions first, since what follows them is best done while their tile is in registers;
    then reductions, with what follows them; then the rest."""
    above = post_dominators(graph)
    for wanted in (Pattern.CONTRACTION, Pattern.REDUCTION):
        for node in graph.nodes:
            if node.pattern != wanted:
                continue
            index = node.index
            while above[index] != EXIT and _join(graph, groups, index, above[index], open_joins):
                index = above[index]
    for node in graph.nodes:
        if node.pattern is not None and above[node.index] != EXIT:
            _join(graph, groups, node.index, above[node.index], open_joins)


def _join(graph: Graph, groups: Groups, start: int, end: int, open_joins: OpenJoins) -> bool:
    """Puts ``start``, ``end`` and all nodes on the paths between them into one group."""
    if groups.find(start) == groups.find(end):
        return True
    if (between := graph.paths(start, end, MOST_OPERATORS)) is None:
        return False
    members = groups.union(between)
    outputs = groups.outputs(members)
    if not may_fuse(graph, members, outputs=outputs) or groups.crowd(members, outputs):
        return False
    is_site = open_joins.is_site(groups.members(start), groups.members(end))
    if is_site and open_joins.stays_open(start, end, members, outputs):
        return False
    # No circle without segments: whatever reads a member leads to ``end``, so it is a member.
    return groups.join(between)


def _join_neighbours(graph: Graph, groups: Groups, open_joins: OpenJoins) -> None:
    """Lets a group join those whose values it reads, if all that leaves the two has one shape."""
    for node in graph.nodes:
        if node.pattern is None or node.pattern == Pattern.OPAQUE:
            continue
        for source in node.sources:
            if groups.find(source) == groups.find(node.index):
                continue
            members = groups.union((source, node.index))
            outputs = groups.outputs(members)
            if not may_fuse(graph, members, outputs=outputs) or groups.crowd(members, outputs):
                continue
            if not open_joins.stays_open(source, node.index, members, outputs):
                groups.merge((source, node.index))


def _join_siblings(graph: Graph, groups: Groups, open_joins: OpenJoins) -> None:
    """Lets groups join that walk over the same array, so that it is read once for both."""
    last_reader: dict[Atom, int] = {}
    for node in graph.nodes:
        if node.pattern is None or node.pattern > Pattern.REDUCTION:
            continue
        for edge in node.edges:
            whole = not edge.chain and (
                node.pattern == Pattern.REDUCTION or edge.shape == node.shape
            )
            if not whole or edge.root is None:
                continue
            other = last_reader.get(edge.root)
            last_reader[edge.root] = node.index
            if other is None or groups.find(other) == groups.find(node.index):
                continue
            members = groups.union((other, node.index))
            heavy = any(graph.nodes[m].pattern == Pattern.CONTRACTION for m in members)
            outputs = groups.outputs(members)
            if heavy or not may_fuse(graph, members, outputs=outputs):
                continue
            if groups.crowd(members, outputs):
                continue
            if not open_joins.stays_open(other, node.index, members, outputs):
                groups.merge((other, node.index))
