"""One spelling for all libraries: what workloads may use, in each library's words.

Arrays of every namespace understand ``+ - * / @`` and unary minus. Images are NCHW, kernels OIHW.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["Jax", "Loopwright", "Numpy", "Onnx", "Torch"]

_GELU = math.sqrt(2 / math.pi)


class Numpy:
    """NumPy as a user writes it, softmax and normalisation spelled out."""

    matmul = staticmethod(np.matmul)
    exp = staticmethod(np.exp)
    sqrt = staticmethod(np.sqrt)
    tanh = staticmethod(np.tanh)
    transpose = staticmethod(np.transpose)

    @staticmethod
    def sum(x: Any, axis: int) -> Any:
        return x.sum(axis=axis)

    @staticmethod
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    @staticmethod
    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        variance = x.var(axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * gamma + beta

    @staticmethod
    def gelu_tanh(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(np.float32(_GELU) * (x + np.float32(0.044715) * x * x * x)))

    @staticmethod
    def conv2d(x: Any, w: Any, *, padding: int) -> Any:
        n, c, height, width = x.shape
        out, _, kh, kw = w.shape
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = sliding_window_view(padded, (kh, kw), axis=(2, 3))  # [n, c, h, w, kh, kw]
        columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * kh * kw, -1)
        return (w.reshape(out, -1) @ columns).reshape(n, out, height, width)


class Loopwright(Numpy):
    """The same NumPy code where NumPy has the operator, ``lw.nn`` where it has not."""

    @staticmethod
    def softmax(x: Any) -> Any:
        import loopwright as lw

        return lw.nn.softmax(x)

    @staticmethod
    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        import loopwright as lw

        return lw.nn.layer_norm(x, gamma, beta)

    @staticmethod
    def conv2d(x: Any, w: Any, *, padding: int) -> Any:
        import loopwright as lw

        return lw.nn.conv2d(x, w, padding=padding)


class Torch:
    """Eager PyTorch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.matmul, self.exp, self.sqrt, self.tanh = (
            torch.matmul,
            torch.exp,
            torch.sqrt,
            torch.tanh,
        )

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(dim=axis)

    def transpose(self, x: Any) -> Any:
        return x.T

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, dim=-1)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta)

    def gelu_tanh(self, x: Any) -> Any:
        return self.torch.nn.functional.gelu(x, approximate="tanh")

    def conv2d(self, x: Any, w: Any, *, padding: int) -> Any:
        return self.torch.nn.functional.conv2d(x, w, padding=padding)


class Jax:
    """``jax.numpy`` and ``jax.nn`` under one ``jit``."""

    def __init__(self) -> None:
        import jax

        self.jax, np_ = jax, jax.numpy
        self.matmul, self.exp, self.sqrt, self.tanh = np_.matmul, np_.exp, np_.sqrt, np_.tanh
        self.transpose, self.softmax = np_.transpose, jax.nn.softmax

    def sum(self, x: Any, axis: int) -> Any:
        return x.sum(axis=axis)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.jax.nn.standardize(x, axis=-1, epsilon=1e-5) * gamma + beta

    def gelu_tanh(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=True)

    def conv2d(self, x: Any, w: Any, *, padding: int) -> Any:
        pads = [(padding, padding)] * 2
        return self.jax.lax.conv_general_dilated(x, w, (1, 1), pads)


class Onnx:
    """Records a workload as an ONNX model: its arrays are names of values in the graph."""

    def __init__(self) -> None:
        import onnx

        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def emit(self, kind: str, *inputs: Any, **attributes: Any) -> OnnxValue:
        """Append a node and give its output."""
        name = f"v{len(self.nodes)}"
        names = [i.name if isinstance(i, OnnxValue) else self.constant(i).name for i in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, names, [name], **attributes))
        return OnnxValue(self, name)

    def constant(self, value: Any, name: str | None = None) -> OnnxValue:
        """A weight; plain numbers become float32, arrays keep their dtype."""
        array = value if isinstance(value, np.ndarray) else np.float32(value)
        name = name or f"c{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.asarray(array), name))
        return OnnxValue(self, name)

    def model(self, inputs: dict[str, tuple[int, ...]], result: OnnxValue) -> bytes:
        """The serialised model; opset 20 has Gelu and LayerNormalization."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "workload",
            [helper.make_tensor_value_info(n, kind, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(result.name, kind, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return model.SerializeToString()

    def matmul(self, x: Any, w: Any) -> Any:
        return self.emit("MatMul", x, w)

    def exp(self, x: Any) -> Any:
        return self.emit("Exp", x)

    def sqrt(self, x: Any) -> Any:
        return self.emit("Sqrt", x)

    def tanh(self, x: Any) -> Any:
        return self.emit("Tanh", x)

    def transpose(self, x: Any) -> Any:
        return self.emit("Transpose", x, perm=[1, 0])

    def sum(self, x: Any, axis: int) -> Any:
        return self.emit("ReduceSum", x, np.array([axis]), keepdims=0)

    def softmax(self, x: Any) -> Any:
        return self.emit("Softmax", x, axis=-1)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.emit("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-5)

    def gelu_tanh(self, x: Any) -> Any:
        return self.emit("Gelu", x, approximate="tanh")

    def conv2d(self, x: Any, w: Any, *, padding: int) -> Any:
        return self.emit("Conv", x, w, pads=[padding] * 4)


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
