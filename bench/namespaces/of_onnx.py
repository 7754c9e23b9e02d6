"""Records a workload as an ONNX model, which ONNX Runtime, OpenVINO and TVM then run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Onnx", "OnnxValue"]

OPSET = 23  # the first with Attention and RMSNormalization


class OnnxValue:
    """A value of the graph being recorded."""

    def __init__(self, graph: Onnx, name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> OnnxValue:
        return self.graph.emit("Add", self, other)

    def __mul__(self, other: Any) -> OnnxValue:
        return self.graph.emit("Mul", self, other)

    def __sub__(self, other: Any) -> OnnxValue:
        return self.graph.emit("Sub", self, other)

    def __truediv__(self, other: Any) -> OnnxValue:
        return self.graph.emit("Div", self, other)

    def __neg__(self) -> OnnxValue:
        return self.graph.emit("Neg", self)


class Onnx:
    """Its arrays are names of values in the graph.

    ``fused`` uses the operators for attention and RMS norm, which not every importer knows;
    without it they are spelled in simpler ones.
    """

    def __init__(self, *, fused: bool) -> None:
        self._fused = fused
        self.has_choice = False  # whether there was one between operators
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def _choose(self) -> bool:
        self.has_choice = True
        return self._fused

    def emit(self, kind: str, *inputs: Any, **attributes: Any) -> OnnxValue:
        """Append a node and give its output."""
        name = f"v{len(self.nodes)}"
        names = [i.name if isinstance(i, OnnxValue) else self.constant(i).name for i in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return OnnxValue(self, name)

    def constant(self, value: Any, name: str | None = None) -> OnnxValue:
        """A weight; plain numbers become float32, arrays keep their dtype."""
        array = value if isinstance(value, np.ndarray) else np.float32(value)
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return OnnxValue(self, name)

    def model(
        self, inputs: Mapping[str, tuple[tuple[int, ...], str]], result: OnnxValue, dtype: str
    ) -> bytes:
        """The serialised model of inputs with shapes and dtypes, and a result of a dtype."""
        given = [helper.make_tensor_value_info(n, _kind(d), s) for n, (s, d) in inputs.items()]
        out = helper.make_tensor_value_info(result.name, _kind(dtype), None)
        graph = helper.make_graph(self.nodes, "workload", given, [out], self.weights)
        opset = helper.make_opsetid("", OPSET if self._fused else 18)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        return model.SerializeToString()

    def matmul(self, x: Any, w: Any) -> Any:
        return self.emit("MatMul", x, w)

    def matmul_int32(self, x: Any, w: Any) -> Any:
        if self._choose():
            # The fast kernels of ONNX Runtime take bytes without sign on the left: x + 128, with
            # 128 as the zero point.
            unsigned = self.emit("Cast", x, to=TensorProto.UINT8)
            middle = np.array(128, np.uint8)
            return self.emit("MatMulInteger", self.emit("BitwiseXor", unsigned, middle), w, middle)
        return self.emit("MatMulInteger", x, w)

    def function(self, name: str, *operands: Any) -> Any:
        own = getattr(self, name, None)
        kind = {"power": "Pow", "rint": "Round"}.get(name, name.capitalize())
        return own(*operands) if own else self.emit(kind, *operands)

    def exp(self, x: Any) -> Any:
        return self.emit("Exp", x)

    def sqrt(self, x: Any) -> Any:
        return self.emit("Sqrt", x)

    def tanh(self, x: Any) -> Any:
        return self.emit("Tanh", x)

    def relu(self, x: Any) -> Any:
        return self.emit("Relu", x)

    def sigmoid(self, x: Any) -> Any:
        return self.emit("Sigmoid", x)

    def silu(self, x: Any) -> Any:
        return x * self.sigmoid(x)

    def transpose(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.emit("Transpose", x, perm=list(axes))

    def copy(self, x: Any) -> Any:
        return x  # results are contiguous

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.emit("Reshape", x, _ints(shape))

    def take(self, x: Any, index: Any, axis: int) -> Any:
        return self.emit("Gather", x, index, axis=axis)

    def pad(self, x: Any, widths: Any) -> Any:
        return self.emit("Pad", x, _ints([b for b, _ in widths] + [e for _, e in widths]))

    def concat(self, parts: Any, axis: int) -> Any:
        return self.emit("Concat", *parts, axis=axis)

    def slice(self, x: Any, begin: tuple[int, ...], end: tuple[int, ...]) -> Any:
        return self.emit("Slice", x, _ints(begin), _ints(end))

    def sum(self, x: Any, axis: tuple[int, ...]) -> Any:
        return self.emit("ReduceSum", x, _ints(axis), keepdims=0)

    def mean(self, x: Any, axis: tuple[int, ...]) -> Any:
        return self.emit("ReduceMean", x, _ints(axis), keepdims=0)

    def max(self, x: Any, axis: tuple[int, ...]) -> Any:
        return self.emit("ReduceMax", x, _ints(axis), keepdims=0)

    def argmax(self, x: Any, axis: int) -> Any:
        return self.emit("ArgMax", x, axis=axis, keepdims=0)

    def gelu_tanh(self, x: Any) -> Any:
        if self._choose():
            return self.emit("Gelu", x, approximate="tanh")
        cube = self.emit("Mul", self.emit("Mul", x, x), x)
        inner = (x + cube * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (self.tanh(inner) + 1.0)

    def gelu(self, x: Any) -> Any:
        if self._choose():
            return self.emit("Gelu", x)
        return x * 0.5 * (self.emit("Erf", x * math.sqrt(0.5)) + 1.0)

    def softmax(self, x: Any, axis: int = -1) -> Any:
        return self.emit("Softmax", x, axis=axis)

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return self.emit("LogSoftmax", x, axis=axis)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.emit("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-5)

    def rms_norm(self, x: Any, gamma: Any) -> Any:
        if self._choose():
            return self.emit("RMSNormalization", x, gamma, axis=-1, epsilon=1e-5)
        mean = self.emit("ReduceMean", x * x, _ints((-1,)), keepdims=1)
        return x / self.sqrt(mean + 1e-5) * gamma

    def conv2d(
        self, x: Any, w: Any, *, padding: int, stride: int = 1, dilation: int = 1, groups: int = 1
    ) -> Any:
        steps = {"strides": [stride] * 2, "dilations": [dilation] * 2, "group": groups}
        return self.emit("Conv", x, w, pads=[padding] * 4, **steps)

    def max_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.emit("MaxPool", x, **sizes)

    def avg_pool(self, x: Any, *, kernel: int, stride: int, padding: int) -> Any:
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.emit("AveragePool", x, **sizes)

    def global_avg_pool(self, x: Any) -> Any:
        return self.emit("GlobalAveragePool", x)

    def global_max_pool(self, x: Any) -> Any:
        return self.emit("GlobalMaxPool", x)

    def attention(
        self, q: Any, k: Any, v: Any, *, causal: bool, shape: tuple[int, int, int, int]
    ) -> Any:
        heads, queries, keys, depth = shape
        if self._choose():
            wide = [
                self.reshape(x, (1, heads, n, depth))
                for x, n in ((q, queries), (k, keys), (v, keys))
            ]
            result = self.emit("Attention", *wide, is_causal=int(causal))
            return self.reshape(result, (heads, queries, depth))
        scores = self.matmul(q, self.transpose(k, (0, 2, 1))) * (1 / math.sqrt(depth))
        if causal:
            above = np.where(np.tri(queries, dtype=bool), 0, -np.inf).astype(np.float32)
            scores = scores + above
        return self.matmul(self.softmax(scores), v)


def _ints(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _kind(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
