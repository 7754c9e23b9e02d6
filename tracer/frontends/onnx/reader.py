"""Reading models: a path, bytes or a ModelProto become a checked ``Model``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, defs

from ....ir.dataclass import dataclass
from ....ir.dtype import Array
from ....ir.errors import LoopwrightTypeError, LoopwrightValueError, UnsupportedError
from .tensors import Folder, mapped
from .wire import without_weights


@dataclass(slots=True)
class Model:
    """A model file. ``opsets`` has the version of each domain, ``functions`` the model's own."""

    file: str
    """Name in messages."""
    graph: GraphProto
    opsets: dict[str, int]
    folder: Folder
    functions: dict[tuple[str, str, str], FunctionProto] = field(
        default_factory=dict[tuple[str, str, str], FunctionProto]
    )

    def function_of(self, node: NodeProto) -> FunctionProto | None:
        """Returns the model's own function that ``node`` calls, if it calls one."""
        return self.functions.get((domain_of(node), node.op_type, node.overload))


def domain_of(node: NodeProto) -> str:
    """Returns the domain of a node; ``ai.onnx`` is another name of the empty one."""
    return "" if node.domain == "ai.onnx" else node.domain


def opsets_of(proto: ModelProto | FunctionProto) -> dict[str, int]:
    """Returns the version of each domain that a model or function imports."""
    return {
        "" if each.domain == "ai.onnx" else each.domain: each.version for each in proto.opset_import
    }


def read_model(source: str | Path | bytes | ModelProto | Any) -> Model:
    """Reads a model. Raises LoopwrightValueError if it is damaged, FileNotFoundError if there is no
    file of this name."""
    file, folder = "<model>", None
    if isinstance(source, str | Path):
        path = Path(source)
        file, folder = path.name, path.parent
        source = mapped(path)
    elif isinstance(source, bytes | bytearray | memoryview):
        source = np.frombuffer(bytes(source), np.uint8)
    if isinstance(source, np.ndarray):
        proto = ModelProto()
        try:
            proto.ParseFromString(without_weights(source.data))
        except (DecodeError, LoopwrightValueError) as error:
            raise LoopwrightValueError(
                f"{file} is not an ONNX model, or is damaged: {error}"
            ) from None
        model_bytes: Array | None = source
    elif isinstance(source, ModelProto):
        proto, model_bytes = source, None
    else:
        raise LoopwrightTypeError(
            f"a path, bytes or an onnx.ModelProto is needed, not a {type(source).__name__}"
        )
    return _checked(proto, file, Folder(folder, model_bytes))


def _checked(proto: ModelProto, file: str, folder: Folder) -> Model:
    if not proto.HasField("graph") or not proto.graph.output:
        raise LoopwrightValueError(f"{file} has no graph with outputs: it is damaged, or no model")
    for graph in (proto.graph, *proto.functions):
        if not all(isinstance(text, str) for text in _texts(graph)):
            raise LoopwrightValueError(f"{file} is damaged: a name in it is not UTF-8")
    opsets = opsets_of(proto)
    version, newest = opsets.get("", 0), defs.onnx_opset_version()
    if not 0 <= version <= newest:
        raise UnsupportedError(
            f"{file} has opset {version}, and the package onnx here knows those up to {newest}",
            hint="pip install --upgrade onnx",
        )
    functions = {
        ("" if f.domain == "ai.onnx" else f.domain, f.name, f.overload): f for f in proto.functions
    }
    return Model(file, proto.graph, opsets, folder, functions)


def _texts(graph: GraphProto | FunctionProto) -> Iterator[Any]:
    """Yields all names in a graph; those that are not UTF-8 are bytes."""
    if isinstance(graph, GraphProto):
        yield graph.name
        yield from (each.name for each in (*graph.input, *graph.output, *graph.initializer))
    else:
        yield from (graph.name, graph.domain, *graph.input, *graph.output, *graph.attribute)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name, attribute.t.name)
            for inner in (attribute.g, *attribute.graphs):
                yield from _texts(inner)
