"""Lowers one operator to its tensor expression, and to a PrimFunc of a single stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InternalError
from ..graph.operator import Operator
from ..graph.types import TensorType, Type
from ..loop.expr import Expr, IndexLike, Read, read, walk
from ..loop.nest import Stmt, expressions, statements
from ..loop.prim import Buffer
from ..loop.procedure import Procedure, procedure
from ..loop.tensor import Map, Reduction, Statements, Tensor
from .scatter import copied


def apply_compute(
    op: Operator, inputs: Sequence[Tensor], attrs: Mapping[str, Any], out_type: Type
) -> Map | Reduction | Statements:
    """Returns the tensor expression of a primitive operator on ``inputs``; ``attrs`` are complete.

    Raises InternalError if the operator is not a primitive, or if its expression does not have the
    shape and dtype that its type rule gave.
    """
    if op.compute is None or not isinstance(out_type, TensorType):
        raise InternalError(f"{op.name} is not a primitive operator; lower it first")
    result = op.compute(inputs, attrs, out_type)
    if result.shape != out_type.shape or result.dtype != out_type.dtype:
        got = TensorType(result.shape, result.dtype)
        raise InternalError(f"{op.name} computes {got} where its type rule says {out_type}")
    return result


def placeholder(buffer: Buffer) -> Tensor:
    """Returns the tensor whose elements are read from ``buffer``."""

    def element(*indices: IndexLike) -> Expr:
        return read(buffer.name, indices, buffer.dtype)

    return Tensor(buffer.shape, buffer.dtype, element)


def procedure_of(
    name: str, params: tuple[Buffer, ...], result: Statements, given: Mapping[str, Tensor]
) -> Procedure:
    """Returns the procedure that writes ``result`` to a buffer called ``out``; ``given`` holds the
    tensors of the parameters.

    What the result begins as is copied by statements if it is computed in this group, or if the
    other statements read it.
    """
    out = Buffer("out", result.shape, result.dtype)
    body = result.body(out.name)
    if result.begins_as is None:
        return procedure(name, params, (out,), result.workspace, body)
    start = next((p for p, tensor in given.items() if tensor is result.begins_as), None)
    if start is None or start in _buffers_read(body):
        copy = copied(out.name, result.begins_as)
        return procedure(name, params, (out,), result.workspace, (*copy, *body))
    return procedure(name, params, (out,), result.workspace, body, ((out.name, start),))


def _buffers_read(body: Sequence[Stmt]) -> set[str]:
    exprs = [e for stmt in statements(tuple(body)) for e in expressions(stmt)]
    return {node.buffer for e in exprs for node in walk(e) if isinstance(node, Read)}
