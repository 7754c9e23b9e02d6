"""Graphs in parts: PyTorch runs what is not supported, the rest is compiled around it.

::

    level -1   operators that PyTorch runs on the inputs of the graph
    level  0   a compiled part
    level  1   operators that PyTorch runs on its results
    level  2   a compiled part, and so on

A node has the lowest level that its operands allow, so there are as few parts as there can be. A
view, and what follows from weights alone, is computed where it is read: by PyTorch on memory that
lies as PyTorch would have laid it, or inside of a part, where weights are constants. Random numbers
are drawn, and custom operators called, in the order of the graph. Tensors cross the borders of
parts without copies.
"""

from __future__ import annotations

import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from ....ir.dataclass import dataclass
from .control import HIGHER_ORDER
from .importer import unsupported
from .nodes import is_foreign, is_view, storage_order_of, tensors_in

Compile: TypeAlias = Callable[[fx.GraphModule, frozenset[int], int], Callable[[list[Any]], Any]]
"""Returns what runs a part: of its graph, the positions of weights among its inputs, its number."""

LEAST_OPERATORS = 2
"""Operators that a part must have: PyTorch runs one alone as fast, and nothing is to be fused."""

_LAST = sys.maxsize
"""The level of what is computed for the results, and of writes to inputs. As it is odd, PyTorch
runs it."""


@dataclass(frozen=True, slots=True, eq=False)
class Divided:
    """A graph whose parts are modules that run compiled code: how many there are, the operators
    that PyTorch runs and all that there are, and the tensors that cross borders."""

    graph: fx.GraphModule
    parts: int
    left: int
    operators: int
    exchanged: int

    def __str__(self) -> str:
        return (
            f"PyTorch runs {self.left} of {self.operators} operators, and Loopwright the others; "
            f"parts: {self.parts}, tensors exchanged: {self.exchanged}"
        )


def divide(
    graph: fx.GraphModule, refused: Iterable[fx.Node], weights: frozenset[int], compile: Compile
) -> Divided | None:
    """Returns ``graph`` in parts that ``compile`` compiles, None if no part has enough operators.

    ``refused`` are nodes that PyTorch must run besides those that are not supported; ``weights``
    are the positions of inputs that seldom change.
    """
    copied = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    copied.output(copied.graph_copy(graph.graph, copies))
    whole = fx.GraphModule(graph, copied)
    left = _left_to_torch(whole) | {copies[node] for node in refused}
    inputs = copied.find_nodes(op="placeholder")
    movable = _movable(copied, left, {inputs[p] for p in weights})
    levels = _levels(copied, left, movable)
    while more := _alone(levels, movable) | _misplaced(levels):
        left |= more
        levels = _levels(copied, left, movable)
    by_level: dict[int, dict[fx.Node, int | None]] = defaultdict(dict)
    for node in sorted(levels, key=levels.__getitem__):
        copied.output_node().prepend(node)
        by_level[levels[node]][node] = None
    computing = [node for node in levels if _computes(node) and node not in movable]
    native = [nodes for level, nodes in by_level.items() if level % 2 == 0]
    if not native:
        return None
    ran = sum(levels[node] % 2 for node in computing)
    fuse_by_partitions(whole, native, "part_", always_return_tuple=True)
    positions = {node: n for n, node in enumerate(inputs)}
    exchanged: set[fx.Node] = set()
    calls = copied.find_nodes(op="call_module")
    for number, call in enumerate(calls):
        part: Any = whole.get_submodule(str(call.target))
        body = next(node for node in part.graph.nodes if node.op != "placeholder")
        for node in part.graph.find_nodes(op="placeholder"):
            body.prepend(node)
        frozen = (n for n, node in enumerate(call.args) if positions.get(node) in weights)  # type: ignore[arg-type]
        run = compile(part, frozenset(frozen), number)
        setattr(whole, str(call.target), _Part(run))
        exchanged.update(node for node in call.all_input_nodes if node not in positions)
        exchanged.update(node for node in call.users if set(node.users) != {copied.output_node()})
    return Divided(whole, len(calls), ran, len(computing), len(exchanged))


class _Part(torch.nn.Module):
    """A compiled part in the place of its graph."""

    def __init__(self, run: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, *args: Any) -> Any:
        return self.run(list(args))


def _value(node: fx.Node) -> Any:
    return node.meta.get("val")


def _computes(node: fx.Node) -> bool:
    """True for nodes that compute tensors."""
    chosen = node.op != "call_function" or node.target is operator.getitem
    return not chosen and any(True for _ in tensors_in(_value(node)))


def _left_to_torch(graph: fx.GraphModule) -> set[fx.Node]:
    """Returns the nodes that PyTorch runs: those not supported, those that read or return tensors
    of foreign dtypes or sizes that data decides, and computations of numbers."""
    bad = {node for node, _ in unsupported(graph)}
    for node in graph.graph.find_nodes(op="get_attr"):
        body = getattr(graph, str(node.target), None)
        if isinstance(body, fx.GraphModule) and any(True for _ in unsupported(body)):
            bad.update(node.users)
    left: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        values = [_value(n) for n in (node, *node.all_input_nodes)]
        is_number = not any(True for _ in tensors_in(values[0]))
        if (
            node in bad
            or is_number
            or any(map(is_foreign, tensors_in(values)))
            or any(value is not None and free_unbacked_symbols(value) for value in values)
        ):
            left.add(node)
    return left


def _movable(graph: fx.Graph, left: set[fx.Node], weights: set[fx.Node]) -> set[fx.Node]:
    """Returns views and what follows from weights alone, after giving each reader its copy."""
    constant, movable = set(weights), set[fx.Node]()
    for node in graph.nodes:
        if node in left or node.op in ("placeholder", "output"):
            continue
        if all(n in constant for n in node.all_input_nodes) and not _keeps_order(node):
            constant.add(node)
            movable.add(node)
        elif is_view(node):
            movable.add(node)
    for node in reversed(list(graph.nodes)):
        for reader in list(node.users)[1:] if node in movable else ():
            with graph.inserting_after(node):
                copy = graph.node_copy(node, lambda n: n)
            reader.replace_input_with(node, copy)
            movable.add(copy)
    return movable


def _keeps_order(node: fx.Node) -> bool:
    """True for nodes that may draw random numbers, or do what their results do not show."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    named = target.namespace in ("aten", "prims")
    return not named or torch.Tag.nondeterministic_seeded in target.tags or node.is_impure()


def _levels(graph: fx.Graph, left: set[fx.Node], movable: set[fx.Node]) -> dict[fx.Node, int]:
    """Returns the levels of all nodes but inputs and the output: odd where PyTorch runs them."""
    levels: dict[fx.Node, int] = {}
    ordered = -1
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        level = max((levels.get(n, -1) for n in node.all_input_nodes), default=-1)
        keeps_order = _keeps_order(node)
        if keeps_order:
            level = max(level, ordered)
        if node.target is not operator.getitem and node not in movable:
            level += (level % 2 == 1) != (node in left)
        if keeps_order:
            ordered = level
        levels[node] = level
    for node in reversed(levels):
        mutable = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        if mutable:
            levels[node] = _LAST
        elif node in movable:
            levels[node] = min((levels.get(reader, _LAST) for reader in node.users), default=_LAST)
    return levels


def _alone(levels: Mapping[fx.Node, int], movable: set[fx.Node]) -> set[fx.Node]:
    """Returns the operators of parts that have too few of them."""
    parts: dict[int, list[fx.Node]] = defaultdict(list)
    loops: set[int] = set()
    for node, level in levels.items():
        if level % 2 == 0 and _computes(node) and node not in movable:
            parts[level].append(node)
            if str(node.target) in HIGHER_ORDER:
                loops.add(level)
    few = (n for level, n in parts.items() if len(n) < LEAST_OPERATORS and level not in loops)
    return {node for nodes in few for node in nodes}


def _misplaced(levels: Mapping[fx.Node, int]) -> set[fx.Node]:
    """Returns what a part would compute for an operator of PyTorch and not hand over with PyTorch's
    strides, as these have gaps or an offset."""
    nodes: set[fx.Node] = set()
    for node, level in levels.items():
        value = _value(node)
        if level % 2 or not isinstance(value, torch.Tensor):
            continue
        if all(levels.get(reader, 0) % 2 == 0 for reader in node.users):
            continue
        if value.storage_offset() != 0 or storage_order_of(value) is None:
            producer: Any = node.args[0] if node.target is operator.getitem else node
            nodes.add(producer)
    return nodes


def same_refusals(graph: fx.GraphModule, refused: fx.Node) -> Sequence[fx.Node]:
    """Returns the nodes that are refused if ``refused`` is: with the same operator, the same
    arguments, and operands of the same dtypes and ranks."""
    key = _call_key(refused)
    return [node for node in graph.graph.nodes if node is refused or _call_key(node) == key]


def _call_key(node: fx.Node) -> tuple[Any, str]:
    def kind(operand: fx.Node) -> Any:
        return [(t.dtype, t.ndim) for t in tensors_in(_value(operand))]

    given = fx.map_arg((node.args, node.kwargs), kind)  # type: ignore[arg-type]
    return node.target, str(given)
