"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper


def value(name: str, shape: Sequence[int | str] | None, dtype: Any = np.float32) -> ValueInfoProto:
    """An input or output of a model."""
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 17,
) -> ModelProto:
    """A model of ``nodes``, whose outputs have no types."""
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
