"""Lists everything in a model that is not supported, before anything is converted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import FunctionProto, NodeProto, defs

from ....ir.errors import LoopwrightValueError, UnsupportedError
from .places import label
from .reader import Model, domain_of, opsets_of
from .table import row_of

__all__ = ["check", "schema_body"]

_NODES_NAMED = 5
"""Nodes that are named for one operator or attribute."""
_MOST_NESTED = 50
"""Functions and inner graphs inside each other; deeper ones are a damaged file's."""


def check(model: Model) -> None:
    """Raises UnsupportedError that lists every operator and attribute without a converter."""
    problems: dict[str, list[str]] = {}
    _look(model, model.graph.node, model.opsets, problems, 0)
    if not problems:
        return
    notes = [
        f"{what}: {', '.join(nodes[:_NODES_NAMED])}"
        + (f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else "")
        for what, nodes in sorted(problems.items())
    ]
    raise UnsupportedError(f"{model.file} uses what is not supported", notes=tuple(notes))


def _look(
    model: Model,
    nodes: Iterable[NodeProto],
    opsets: Mapping[str, int],
    problems: dict[str, list[str]],
    depth: int,
) -> None:
    if depth > _MOST_NESTED:
        raise LoopwrightValueError(
            f"{model.file} has functions or graphs inside each other without end"
        )
    for node in nodes:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                _look(model, graph.node, opsets, problems, depth + 1)
        domain = domain_of(node)
        function = model.function_of(node)
        if function is not None:
            _look(model, function.node, opsets_of(function), problems, depth + 1)
            continue
        opset = opsets.get(domain)
        row = None if opset is None else row_of(domain, node.op_type, opset)
        if row is not None:
            for attribute in node.attribute:
                if attribute.name not in row.attributes:
                    what = f"attribute {attribute.name} of {node.op_type}"
                    problems.setdefault(what, []).append(label(node))
            continue
        if opset is not None and has_body(domain, node.op_type, opset):
            continue
        version = f" {opset}" if opset is not None else ", which the model does not import"
        what = f"operator {node.op_type} of {domain or 'opset'}{version}"
        problems.setdefault(what, []).append(label(node))


def has_body(domain: str, name: str, opset: int) -> bool:
    """True if the standard writes an operator in others, all of which have converters."""
    if not defs.has(name, domain):
        return False
    try:
        schema = defs.get_schema(name, opset, domain)
    except defs.SchemaError:
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


def schema_body(schema: defs.OpSchema) -> FunctionProto | None:
    """Returns the function that an operator of the standard is, if it is always the same one."""
    if not schema.has_function:
        return None
    function = schema.function_body
    return function if isinstance(function, FunctionProto) else FunctionProto.FromString(function)
