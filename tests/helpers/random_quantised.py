"""Random layers on bytes as ONNX models: what ONNX says of them, and where we say otherwise.

A layer dequantises bytes, computes with floats (a row of ``KINDS``, then some of ``AFTER``), and
quantises the result, in one of the forms that quantisers write: QDQ, QLinear operators, or integer
products with dynamic scales. Its weights are constants, or inputs as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loopwright as lw
import numpy as np
from onnx import ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_models import model, value

__all__ = ["AFTER", "KINDS", "Layer", "draw_layer", "failure", "references"]

Array = np.ndarray[Any, Any]

NEAR = 1.0 + 1e-3
"""Quanta that a rounded quotient may be off: one, where it is half-way between two."""


@dataclass
class Layer:
    """A model under construction: nodes, constants, and inputs with their arrays."""

    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    output: str = ""
    text: str = ""
    names: int = 0

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def size(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def emit(self, op: str, *inputs: str, **attrs: Any) -> str:
        self.names += 1
        name = f"v{self.names}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        self.text += f" {op}"
        return name

    def constant(self, array: Any) -> str:
        self.names += 1
        self.constants[f"c{self.names}"] = np.asarray(array)
        return f"c{self.names}"

    def input(self, array: Array) -> str:
        self.names += 1
        self.feeds[f"x{self.names}"] = array
        return f"x{self.names}"

    def bytes(self, shape: tuple[int, ...], dtype: Any) -> Array:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)

    def points(self, dtype: Any, channels: int | None = None) -> tuple[str, str]:
        """A scale and a zero point, or those of so many channels."""
        shape = () if channels is None else (channels,)
        zero = self.bytes(shape, dtype) if self.pick(0, 1) else np.zeros(shape, dtype)
        scale = self.rng.uniform(0.002, 0.03, shape).astype(np.float32)
        return self.constant(scale), self.constant(zero)

    def dequantised(self, array: Array, axis: int | None = None, known: bool = False) -> str:
        """An input, or a constant, in bytes that are dequantised."""
        name = self.constant(array) if known else self.input(array)
        channels = None if axis is None else array.shape[axis]
        more = {} if axis is None else {"axis": axis}
        return self.emit("DequantizeLinear", name, *self.points(array.dtype, channels), **more)

    def dtype(self) -> Any:
        return self.pick(np.uint8, np.int8)


def _windows(d: Layer, rank: int) -> dict[str, Any]:
    return {
        "strides": [d.size(1, 2)] * rank,
        "pads": [d.size(0, 2) for _ in range(2 * rank)],
        "dilations": [d.pick(1, 1, 2)] * rank,
    }


def _conv(d: Layer) -> str:
    rank, groups = d.pick(1, 2, 2, 2, 3), d.pick(1, 1, 1, 2, 4)
    inputs, outputs = groups * d.size(1, 6), groups * d.size(1, 9)
    x = d.bytes((d.size(1, 2), inputs, *(d.size(5, 9) for _ in range(rank))), d.dtype())
    w = d.bytes((outputs, inputs // groups, *(d.size(1, 3) for _ in range(rank))), d.dtype())
    axis, known = d.pick(0, None), d.pick(True, True, False)
    windows = {**_windows(d, rank), "group": groups}
    if d.pick(0, 0, 1) and rank == 2:
        points = [*d.points(x.dtype), *d.points(w.dtype, outputs if axis == 0 else None)]
        y = d.points(x.dtype)
        inputs_ = [d.input(x), *points[:2], d.constant(w), *points[2:], *y]
        return d.emit("QLinearConv", *inputs_, **windows)
    return d.emit("Conv", d.dequantised(x), d.dequantised(w, axis, known), **windows)


def _conv_integer(d: Layer) -> str:
    x = d.bytes((1, d.size(1, 6), d.size(5, 9), d.size(5, 9)), d.dtype())
    w = d.bytes((d.size(1, 9), x.shape[1], d.size(1, 3), 2), d.dtype())
    zeros = [d.constant(d.bytes((), v.dtype)) for v in (x, w)]
    return d.emit("ConvInteger", d.input(x), d.constant(w), *zeros, **_windows(d, 2))


def _shapes(d: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    m, k, n = d.size(1, 9), d.pick(1, 3, 4, 30, 64, 200), d.size(1, 40)
    batch = d.pick((), (), (2,), (2, 3))
    return (*batch, m, k), (*d.pick((), batch), k, n)


def _matmul(d: Layer) -> str:
    left, right = _shapes(d)
    x, w = d.bytes(left, d.dtype()), d.bytes(right, d.dtype())
    axis = d.pick(None, 1) if w.ndim == 2 else None
    if d.pick(0, 0, 1):
        points = [*d.points(x.dtype), *d.points(w.dtype)]
        inputs = [d.input(x), *points[:2], d.constant(w), *points[2:], *d.points(x.dtype)]
        return d.emit("QLinearMatMul", *inputs)
    return d.emit("MatMul", d.dequantised(x), d.dequantised(w, axis, d.pick(True, False)))


def _matmul_integer(d: Layer) -> str:
    left, right = _shapes(d)
    x, w = d.bytes(left, d.dtype()), d.bytes(right, d.dtype())
    zeros = [d.constant(d.bytes((), v.dtype)) for v in (x, w)]
    return d.emit("MatMulInteger", d.input(x), d.constant(w), *zeros)


def _gemm(d: Layer) -> str:
    m, k, n = d.size(1, 9), d.pick(3, 30, 64), d.size(1, 40)
    x, w, bias = d.bytes((m, k), np.uint8), d.bytes((n, k), np.int8), d.size(-99, 99)
    added = d.constant(d.rng.standard_normal(n).astype(np.float32) * bias / 50)
    return d.emit("Gemm", d.dequantised(x), d.dequantised(w, 0, True), added, transB=1)


def _map(d: Layer) -> str:
    x = d.bytes((2, d.size(1, 5), d.size(4, 9), d.size(4, 9)), d.dtype())
    y = d.dequantised(x, d.pick(None, 1))
    window = {"kernel_shape": [d.size(2, 3)] * 2, "pads": [d.size(0, 1)] * 4}
    return d.emit("MaxPool", y, strides=[d.size(1, 2)] * 2, **window) if d.pick(0, 1) else y


def _requantised(d: Layer, y: str) -> str:
    """``y`` in bytes, moved, and in bytes with the same points or others."""
    dtype = d.dtype()
    points = before = d.points(dtype)
    for op in ("Identity", d.pick("Transpose", "Flatten", "Identity")):
        y = d.emit("QuantizeLinear", d.emit(op, y), *points)
        y = d.emit("DequantizeLinear", y, *points)
        points = d.pick(before, before, d.points(dtype))
    return y


KINDS: dict[str, Callable[[Layer], str]] = {
    "conv": _conv,
    "conv_integer": _conv_integer,
    "matmul": _matmul,
    "matmul_integer": _matmul_integer,
    "gemm": _gemm,
    "map": _map,
}

AFTER: dict[str, Callable[[Layer, str], str]] = {
    "relu": lambda d, y: d.emit("Relu", y),
    "add": lambda d, y: d.emit("Add", y, d.constant(np.float32(d.rng.normal()))),
    "double": lambda d, y: d.emit("Add", y, y),
    "scale": lambda d, y: d.emit("Mul", y, d.constant(np.float32(d.rng.uniform(0.5, 2)))),
    "clip": lambda d, y: d.emit("Clip", y, *(d.constant(np.float32(v)) for v in (0, 6))),
    "transpose": lambda d, y: d.emit("Transpose", y),
    "flatten": lambda d, y: d.emit("Flatten", y),
    "requantise": _requantised,
    "sigmoid": lambda d, y: d.emit("Sigmoid", y),
}


def draw_layer(seed: int) -> Layer:
    """Returns the layer of a seed."""
    d = Layer(np.random.default_rng(seed))
    y = KINDS[d.pick(*KINDS)](d)
    if d.nodes[-1].op_type not in ("QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger"):
        for _ in range(d.size(0, 3)):
            y = AFTER[d.pick(*AFTER)](d, y)
        if d.pick(0, 1, 1):
            dtype = d.dtype()
            scale = d.constant(np.float32(d.rng.uniform(0.01, 0.2)))
            y = d.emit("QuantizeLinear", y, scale, d.constant(d.bytes((), dtype)))
    d.output = y
    return d


def model_of(layer: Layer) -> ModelProto:
    inputs = [value(name, array.shape, array.dtype) for name, array in layer.feeds.items()]
    return model(layer.nodes, inputs, [layer.output], layer.constants, opset=21)


def references(layer: Layer) -> dict[str, Array]:
    """Returns what the standard's evaluator computes, and ONNX Runtime where it is there and takes
    the model."""
    made = model_of(layer)
    results = {"standard": ReferenceEvaluator(made).run(None, layer.feeds)[0]}
    try:
        import onnxruntime
    except ImportError:
        return results
    onnxruntime.set_default_logger_severity(4)
    try:
        providers = ["CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=providers)
        results["runtime"] = session.run(None, layer.feeds)[0]
    except Exception:
        pass
    return results


def failure(layer: Layer) -> str:
    """Returns where compiled code is off; an empty string if it is near one of the references."""
    made = lw.from_onnx(model_of(layer), threads=1)
    got = made(*(layer.feeds[name] for name in made.inputs))
    got = got[0] if isinstance(got, tuple) else got
    texts = [_difference(np.asarray(got), right, who) for who, right in references(layer).items()]
    return "" if not all(texts) else f"{layer.text.strip()}: {'; '.join(texts)}"


def _difference(got: Array, right: Array, who: str) -> str:
    if got.shape != right.shape or got.dtype != right.dtype:
        return f"{got.dtype}{got.shape}, not {right.dtype}{right.shape} ({who})"
    off = np.abs(got.astype(np.float64) - right.astype(np.float64))
    if got.dtype == np.int32:
        most = 0.0
    elif got.dtype.kind in "iu":
        most = NEAR
    else:
        most = 1e-4 * max(1.0, float(np.abs(right).max()))
    return f"off by {off.max()} ({who})" if off.size and off.max() > most else ""
