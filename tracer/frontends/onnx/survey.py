"""Lists everything in a model that is not supported, before anything is converted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import FunctionProto, GraphProto, NodeProto, defs

from ....ir.errors import LoopwrightValueError, UnsupportedError
from .places import label, plain
from .reader import Model, domain_of, opsets_of
from .table import row_of

_NODES_NAMED = 5
"""Nodes that are named for one operator or attribute."""
_MOST_NESTED = 50
"""Functions and inner graphs inside each other; deeper ones are a damaged file's."""

MOST_NODES = 1_000_000
"""Nodes of a model. A few functions that call each other twice stand for any number."""


def check(model: Model) -> None:
    """Raises UnsupportedError that lists every operator and attribute without a converter, and
    LoopwrightValueError for a model that is malformed or has too many nodes."""
    survey = _Survey(model)
    count = survey.graph(model.graph, 0)
    if count > MOST_NODES:
        raise LoopwrightValueError(
            f"{model.file} has {count} nodes, with those of each call of a function"
        )
    if not survey.problems:
        return
    notes = [
        f"{what}: {', '.join(nodes[:_NODES_NAMED])}"
        + (f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else "")
        for what, nodes in sorted(survey.problems.items())
    ]
    raise UnsupportedError(f"{model.file} uses what is not supported", notes=tuple(notes))


class _Survey:
    """The walk through a model. A function of the model is looked at once, but counts as often as
    it is called."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.problems: dict[str, list[str]] = {}
        self.sizes: dict[int, int] = {}

    def graph(self, graph: GraphProto, depth: int) -> int:
        """Returns the number of nodes of a graph, those of functions that it calls included."""
        constants = {each.name for each in graph.initializer}
        names = [each.name for each in graph.initializer]
        names += [each.name for each in graph.input if each.name not in constants]
        return self.nodes(graph.node, names, self.model.opsets, depth)

    def nodes(
        self,
        nodes: Iterable[NodeProto],
        names: Iterable[str],
        opsets: Mapping[str, int],
        depth: int,
    ) -> int:
        """Returns the number of nodes in a body that begins with the values ``names``."""
        if depth > _MOST_NESTED:
            raise LoopwrightValueError(
                f"{self.model.file} has functions or graphs inside each other without end"
            )
        count = 0
        outputs: list[str] = []
        for node in nodes:
            outputs += node.output
            count += self.node(node, opsets, depth)
        once: set[str] = set()
        for name in filter(None, (*names, *outputs)):
            if name in once:
                raise LoopwrightValueError(f"{self.model.file} has a value {plain(name)!r} twice")
            once.add(name)
        return count

    def node(self, node: NodeProto, opsets: Mapping[str, int], depth: int) -> int:
        """Returns the number of nodes for which one stands; notes what is not supported of it."""
        count = 1
        for attribute in node.attribute:
            for graph in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
                count += self.graph(graph, depth + 1)
        domain = domain_of(node)
        function = self.model.function_of(node)
        if function is not None:
            if id(function) not in self.sizes:
                self.sizes[id(function)] = self.nodes(
                    function.node, function.input, opsets_of(function), depth + 1
                )
            return count + self.sizes[id(function)]
        opset = opsets.get(domain)
        row = None if opset is None else row_of(domain, node.op_type, opset)
        if row is not None:
            for attribute in node.attribute:
                if attribute.name not in row.attributes:
                    self.note(f"attribute {plain(attribute.name)} of {node.op_type}", node)
        elif opset is None or not has_body(domain, node.op_type, opset):
            version = f" {opset}" if opset is not None else ", which the model does not import"
            name, where = plain(node.op_type), plain(domain) or "opset"
            self.note(f"operator {name} of {where}{version}", node)
        return count

    def note(self, problem: str, node: NodeProto) -> None:
        self.problems.setdefault(problem, []).append(label(node))


def has_body(domain: str, name: str, opset: int) -> bool:
    """True if the standard writes an operator in others, all of which have converters."""
    schema = schema_of(domain, name, opset)
    if schema is None:
        return False
    if schema.has_context_dependent_function:
        return True
    body = schema_body(schema)
    if body is None:
        return False
    opsets = opsets_of(body)
    return all(
        row_of(d := domain_of(n), n.op_type, opsets.get(d, opset)) is not None
        or has_body(d, n.op_type, opsets.get(d, opset))
        for n in body.node
    )


def schema_of(domain: str, name: str, opset: int) -> Any:
    """Returns what the standard says of an operator; None if it has no such operator."""
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def schema_body(schema: Any) -> FunctionProto | None:
    """Returns the function that an operator of the standard is, if it is always the same one."""
    return schema.function_body if schema.has_function else None
