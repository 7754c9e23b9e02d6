"""The way through a model: nodes in order, each converted at its place.

A name of the model stands for a value (``table.Value``): known now, or traced. A node whose inputs
are all known is computed at once, outside of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
)

from ....ir.dtype import INT64, dtype_of
from ....ir.errors import InternalError, LoopwrightError, LoopwrightValueError, UnsupportedError
from ....ir.graph.types import TensorType
from ....ir.progress_line import report
from ...core.emitting import lift
from ...core.error_context import Operand, locate, notes_of
from ...core.proxy import Proxy
from ...core.trace import Trace, untraced
from .places import Places, label
from .reader import Model, domain_of, opsets_of
from .sizes import MOVES, arithmetic, array_of_sizes, as_numbers
from .survey import schema_body, schema_of
from .table import Branch, Node, Row, Value, is_sizes, row_of
from .tensors import array_of

_MISTAKES = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, MemoryError)
"""Exceptions of NumPy and Python where a node's inputs and attributes do not fit each other. A
sequence lacks the attributes of an array."""

_LONGEST_MESSAGE = 500

_MANY = 256
"""Elements of an array that no node needs to know while it is converted."""

_ATTRIBUTES = {
    AttributeProto.FLOAT: lambda a: a.f,
    AttributeProto.INT: lambda a: a.i,
    AttributeProto.STRING: lambda a: _text(a.s),
    AttributeProto.FLOATS: lambda a: tuple(a.floats),
    AttributeProto.INTS: lambda a: tuple(a.ints),
    AttributeProto.STRINGS: lambda a: tuple(map(_text, a.strings)),
    AttributeProto.TYPE_PROTO: lambda a: a.tp,
}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


class Walk:
    """The conversion of one model on ``trace``."""

    def __init__(self, model: Model, trace: Trace, places: Places) -> None:
        self.model = model
        self.trace = trace
        self.places = places

    def graph(self, graph: GraphProto, names: Mapping[str, Value]) -> list[Value]:
        """Returns the outputs of a graph; ``names`` are the values it sees: its inputs, and those
        of the graphs around it."""
        inside = {**names, **self.initializers(graph)}
        self.nodes(graph.node, inside, self.model.opsets)
        return [self._named(output.name, inside, "an output") for output in graph.output]

    def initializers(self, graph: GraphProto) -> dict[str, Value]:
        """Returns the constants of a graph by name."""
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise UnsupportedError(f"sparse initializers are not supported: {name}")
        return {each.name: self._constant(each) for each in graph.initializer}

    def _constant(self, tensor: TensorProto) -> Value:
        array = array_of(tensor, self.model.folder)
        self.trace.name_array(array, tensor.name)
        return array

    def nodes(
        self, nodes: Iterable[NodeProto], names: dict[str, Value], opsets: Mapping[str, int]
    ) -> None:
        """Converts nodes one after the other; ``names`` gains their outputs."""
        rows = list(nodes)
        for number, node in enumerate(rows):
            report(number, len(rows), "nodes")
            outer, span = self.trace.span, self.places.span(node)
            self.trace.span = span or outer
            try:
                self._node(node, names, opsets)
            finally:
                self.trace.span = outer

    def _node(self, node: NodeProto, names: dict[str, Value], opsets: Mapping[str, int]) -> None:
        inputs: list[Value] = []
        try:
            inputs += [self._named(n, names, "an input") if n else None for n in node.input]
            results = _kept_in_bfloat16(node, inputs, self._results(node, inputs, names, opsets))
        except LoopwrightError as error:
            raise self._explained(error, node, inputs) from error.__cause__
        except _MISTAKES as error:
            mistake = LoopwrightValueError(_first_line(error))
            raise self._explained(mistake, node, inputs) from error
        for name, value in zip(node.output, results, strict=False):
            if name and value is not None:
                names[name] = value
        missing = [name for name in node.output if name and name not in names]
        if missing:
            mistake = UnsupportedError(f"its output {missing[0]!r} is not supported")
            raise self._explained(mistake, node, inputs)

    def _explained(
        self, error: LoopwrightError, node: NodeProto, inputs: Sequence[Value]
    ) -> LoopwrightError:
        """``error`` with the place of the node and the types of its inputs."""
        if isinstance(error, InternalError) or getattr(error, "of_node", False):
            return error
        vars(error)["of_node"] = True
        operands = [
            Operand(name, _type(value))
            for name, value in zip(node.input, inputs, strict=False)
            if name
        ]
        message = error.message  # of a damaged file it may show 100,000 sizes
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]}..."
        error.message = f"{node.op_type} {label(node)!r}: {message}"
        error.args = (error.message,)
        locate(error, self.trace)
        error.notes = error.notes or notes_of(operands)
        return error

    def _named(self, name: str, names: Mapping[str, Value], what: str) -> Value:
        try:
            return names[name]
        except KeyError:
            raise LoopwrightValueError(
                f"{what} is {name!r}, which no node before it computes: the nodes are out of order,"
                " or depend on each other in a circle"
            ) from None

    def _results(
        self,
        node: NodeProto,
        inputs: list[Value],
        names: Mapping[str, Value],
        opsets: Mapping[str, int],
    ) -> Sequence[Value]:
        domain = domain_of(node)
        function = self.model.function_of(node)
        if function is not None:
            return self._call(function, node, inputs)
        opset = opsets.get(domain, 1 if domain else defs.onnx_opset_version())
        row = row_of(domain, node.op_type, opset)
        if row is None:
            body, defaults = self._body(node, inputs, opset)
            return self._call(body, node, inputs, defaults)
        return self._converted(row, node, inputs, names, opset)

    def _converted(
        self,
        row: Row,
        node: NodeProto,
        inputs: list[Value],
        names: Mapping[str, Value],
        opset: int,
    ) -> Sequence[Value]:
        given_attributes = self._attributes(node, names)
        wanted = tuple(bool(name) for name in node.output)
        given = [*inputs]
        while given and given[-1] is None:
            given.pop()
        if len(given) < row.least or (row.most is not None and len(given) > row.most):
            raise LoopwrightValueError(f"it has {len(given)} inputs")
        if any(value is None for value in given[: row.least]):
            raise LoopwrightValueError("an input is missing that it needs")
        attributes = {n: a for n, a in given_attributes.items() if n not in row.ignores}
        missing = row.required - attributes.keys()
        if missing:
            raise LoopwrightValueError(f"it needs the attribute {min(missing)}")
        if any(map(is_sizes, inputs)):
            given, result = _with_sizes(row, node.op_type, given, attributes)
            if result is not None:
                return [_normal(result)]
        # With nothing to trace, NumPy computes; a branch may use traced values from around it.
        traced = any(_is_traced(v) or is_sizes(v) for v in given) or any(
            map(callable, attributes.values())
        )
        traced = traced or (row.deferred and given[0].size >= _MANY)
        if row.takes_node:
            about = Node(
                label(node), node.op_type, domain_of(node), opset, wanted, given_attributes
            )
            given.insert(0, about)
        with nullcontext() if traced else untraced(), np.errstate(all="ignore"):
            result = row.function(*given, **attributes)
        results = result if isinstance(result, tuple) else (result,)
        return [_normal(value) for value in results]

    def _attributes(self, node: NodeProto, names: Mapping[str, Value]) -> dict[str, Any]:
        return {a.name: self._attribute(a, names) for a in node.attribute}

    def _attribute(self, attribute: AttributeProto, names: Mapping[str, Value]) -> Any:
        if attribute.type in _ATTRIBUTES:
            return _ATTRIBUTES[attribute.type](attribute)
        if attribute.type == AttributeProto.TENSOR:
            return self._constant(attribute.t)
        if attribute.type == AttributeProto.GRAPH:
            return self._branch(attribute.g, names)
        kind = AttributeProto.AttributeType.Name(attribute.type).lower()
        raise UnsupportedError(f"its attribute {attribute.name} is of type {kind}")

    def _branch(self, graph: GraphProto, names: Mapping[str, Value]) -> Branch:
        def branch(*inputs: Value) -> tuple[Value, ...]:
            if len(inputs) != len(graph.input):
                raise LoopwrightValueError(
                    f"its graph {graph.name!r} takes {len(graph.input)} inputs, not {len(inputs)}"
                )
            given = {each.name: value for each, value in zip(graph.input, inputs, strict=True)}
            return tuple(self.graph(graph, {**names, **given}))

        return branch

    def _body(
        self, node: NodeProto, inputs: list[Value], opset: int
    ) -> tuple[FunctionProto, list[AttributeProto]]:
        """Returns the function with which the standard defines the operator of ``node``, and the
        defaults of its attributes."""
        domain = domain_of(node)
        schema = schema_of(domain, node.op_type, opset)
        if schema is not None:
            body = schema_body(schema)
            defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
            if body is not None:
                return body, defaults
            types = [_proto_type(value).SerializeToString() for value in inputs]
            if schema.has_context_dependent_function:
                data = schema.get_context_dependent_function(node.SerializeToString(), types)
                return FunctionProto.FromString(data), defaults
        raise UnsupportedError(f"the operator is not supported in {domain or 'opset'} {opset}")

    def _call(
        self,
        function: FunctionProto,
        node: NodeProto,
        inputs: list[Value],
        defaults: Iterable[AttributeProto] = (),
    ) -> list[Value]:
        """Returns the outputs of a function, written in place of ``node``; ``defaults`` are values
        of attributes that neither the node nor the function gives."""
        if len(inputs) > len(function.input):
            raise LoopwrightValueError(f"function {function.name} takes fewer inputs")
        absent = [None] * (len(function.input) - len(inputs))
        inside: dict[str, Value] = dict(zip(function.input, [*inputs, *absent], strict=True))
        given = {a.name: a for a in (*defaults, *function.attribute_proto, *node.attribute)}
        nodes = [_substituted(each, given) for each in function.node]
        # A function of the standard may name only its own domain.
        self.nodes(nodes, inside, {**self.model.opsets, **opsets_of(function)})
        return [inside.get(name) for name in function.output]


_CHOOSE_DTYPE = frozenset({"to", "dtype", "output_dtype"})
"""Attributes that say which dtype the results have."""


def _kept_in_bfloat16(
    node: NodeProto, inputs: Sequence[Value], results: Sequence[Value]
) -> list[Value]:
    """Returns results in the dtype of operands in bfloat16: NumPy's promotion, which converters
    use, knows nothing of it and computes in float32."""
    arrays = [v for v in inputs if type(v) in (Proxy, np.ndarray)]
    floats = [v.dtype for v in arrays if v.dtype.kind not in "biuOSU"]
    chosen = node.op_type == "CastLike" or any(a.name in _CHOOSE_DTYPE for a in node.attribute)
    if chosen or {dtype.name for dtype in floats} != {"bfloat16"}:
        return [*results]
    alone = node.op_type == "LayerNormalization"  # its mean and deviation are float32
    return [
        v.astype(floats[0])
        if type(v) is Proxy and v.dtype == np.float32 and not (alone and n)
        else v
        for n, v in enumerate(results)
    ]


def _with_sizes(
    row: Row, name: str, given: Sequence[Value], attributes: dict[str, Any]
) -> tuple[list[Value], Value]:
    """Returns the inputs for the converter of an operator that is given arrays of sizes, or what
    the operator computes of them."""
    if not any(map(_is_traced, given)):
        result = arithmetic(name, given, attributes)
        if result is not None:
            return [], result
        if name in MOVES and not any(
            map(is_sizes, (given[at] for at in row.sizes if at < len(given)))
        ):
            return [*given], None
    kept = [at for at in row.sizes if at < len(given) and is_sizes(given[at])]
    made = [
        as_numbers(value) if is_sizes(value) and at not in kept else value
        for at, value in enumerate(given)
    ]
    if kept and 0 not in row.sizes:
        made[0] = lift(made[0])
    return made, None


def _substituted(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """Returns a node of a function in which references to the function's attributes are replaced;
    those that the call does not give are left out."""
    graphs = any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute)
    if not graphs and not any(a.ref_attr_name for a in node.attribute):
        return node
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in given:
                made.attribute.add().CopyFrom(given[attribute.ref_attr_name])
                made.attribute[-1].name = attribute.name
            continue
        copy = made.attribute.add()
        copy.CopyFrom(attribute)
        for graph in [copy.g] * copy.HasField("g") + list(copy.graphs):
            inner = [_substituted(each, given) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return made


def _normal(value: Any) -> Value:
    """Returns a converter's result as a Value: whatever NumPy computed is a read-only array."""
    if value is None or type(value) is Proxy:
        return value
    if isinstance(value, list):  # a sequence
        return [_normal(each) for each in value]
    array = np.asarray(value)
    array = array_of_sizes(array) if array.dtype == object else array
    array.flags.writeable = False
    return array


def _is_traced(value: Value) -> bool:
    return any(map(_is_traced, value)) if isinstance(value, list) else type(value) is Proxy


def _type(value: Value) -> TensorType | None:
    if value is None or isinstance(value, list):
        return None
    if type(value) is Proxy:
        return value.type
    try:
        dtype = INT64 if is_sizes(value) else dtype_of(value.dtype)
        return TensorType(tuple(value.shape), dtype)
    except TypeError:
        return None


def _proto_type(value: Value) -> Any:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_proto_type(value[0] if value else None))
    if value is None:
        return TypeProto()
    code = helper.np_dtype_to_tensor_dtype(np.dtype(np.int64) if is_sizes(value) else value.dtype)
    return helper.make_tensor_type_proto(code, tuple(value.shape))


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if text and not isinstance(error, LookupError) else f"{type(error).__name__} {text}"
