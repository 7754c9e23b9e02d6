"""Rows of random ONNX models: operators that have no row of their own, as the standard's own test
cases write them; control flow, sequences, and what only ONNX Runtime knows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import random_onnx_networks  # noqa: F401  its rows
import random_onnx_nodes  # noqa: F401  its rows
from onnx import TensorProto, helper
from onnx_backend import cases, data_of, model_of
from random_onnx import DOMAINS, ROWS, Drawing, Tensor, Unfit, row

__all__ = ["WITH_ROWS", "enter_cases"]

WITH_ROWS = frozenset(ROWS)
"""Operators that have rows elsewhere."""


@functools.cache
def _cases() -> dict[str, list[Any]]:
    """Returns the test cases of one node each, by operator."""
    found: dict[str, list[Any]] = {}
    for case in cases(("node",)):
        graph = model_of(case).graph
        if len(graph.node) == 1 and not graph.initializer:
            found.setdefault(graph.node[0].op_type, []).append(case)
    return found


def enter_cases(names: set[str]) -> None:
    """Enters rows for the operators among ``names`` that have none."""
    for name in sorted(names & _cases().keys() - ROWS.keys()):
        row(name)(_case)


def _case(d: Drawing, name: str) -> None:
    """A node of a test case: on its inputs, on others, or on values of their dtype and shape."""
    case = d.pick(_cases()[name])
    model = model_of(case)
    node = model.graph.node[0]
    opsets = {each.domain: each.version for each in model.opset_import}
    domain = "" if node.domain == "ai.onnx" else node.domain
    now = DOMAINS.get(domain, d.opset)
    try:
        versions = {
            onnx.defs.get_schema(name, n, domain).since_version for n in (now, opsets[domain])
        }
    except onnx.defs.SchemaError:
        raise Unfit from None
    if len(versions) > 1:
        raise Unfit
    arrays = dict(zip((i.name for i in model.graph.input), next(data_of(case, model))[0]))
    inputs: list[Tensor | None] = []
    for each in node.input:
        array = arrays.get(each)
        if (each and not isinstance(array, np.ndarray)) or (
            each and array.dtype.kind not in "fiub"
        ):
            raise Unfit
        inputs.append(_input(d, array) if each else None)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    d.emit(name, inputs, len(node.output), domain, **attributes)


def _input(d: Drawing, array: Any) -> Tensor:
    same = [t for t in d.tensors.values() if t.dtype == array.dtype and t.shape == array.shape]
    if same and d.chance(50):
        return d.pick(same)
    if array.dtype.kind == "f" and array.size > 1 and d.chance(60):
        return d.fresh(array.shape, array.dtype)
    if array.dtype.kind in "iu" or d.chance(50):  # code may depend on them
        return d.known(array)
    name = f"x{len(d.tensors)}"
    d.feeds[name] = array
    return d._add(Tensor(name, array, (array, array)))


# -- control flow and sequences ---------------------------------------------------------------


def _graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def _info(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


STEPS = ("Add", "Mul", "Sub", "Max", "Min")


def _single(d: Drawing, low: int = 0) -> Tensor:
    return d.some("f", low, fits=lambda t: t.dtype == np.float32 and t.value.size > 0)


@row("If")
def _if(d: Drawing, name: str) -> None:
    x = _single(d)
    y = d.partner(x)
    shape = np.broadcast_shapes(x.shape, y.shape)
    n = len(d.nodes)
    graphs = [
        _graph([helper.make_node(d.pick(STEPS), [x.name, y.name], [f"b{n}_{k}"])], [], [
            _info(f"b{n}_{k}", shape)])
        for k in range(2)
    ]  # fmt: skip
    condition = d.some("b", 0, 0) if d.chance(50) else d.fresh([], "bool")
    d.emit(name, [condition], captured=[x, y], then_branch=graphs[0], else_branch=graphs[1])


@row("Loop")
def _loop(d: Drawing, name: str) -> None:
    x, n = _single(d), len(d.nodes)
    y = d.known(d.elements(x.shape, "float32") * 0.5)
    nodes = [
        helper.make_node(d.pick(STEPS), ["s", y.name], [f"t{n}"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Identity", [f"t{n}"], ["o"]),
    ]
    inputs = [_info("i", [], TensorProto.INT64), _info("c", [], TensorProto.BOOL)]
    outputs = [_info("d", [], TensorProto.BOOL), _info(f"t{n}", x.shape), _info("o", x.shape)]
    body = _graph(nodes, [*inputs, _info("s", x.shape)], outputs)
    counts = d.known(d.between(0, 4), np.int64), d.known(True)
    d.emit(name, [*counts, x], 2, captured=[y], body=body)


@row("Scan")
def _scan(d: Drawing, name: str) -> None:
    x, n = _single(d, 1), len(d.nodes)
    if d.opset < 9:
        raise Unfit
    state = d.fresh(x.shape[1:], "float32")
    nodes = [
        helper.make_node(d.pick(STEPS), ["s", "e"], [f"t{n}"]),
        helper.make_node(d.pick(("Relu", "Tanh", "Neg")), [f"t{n}"], ["o"]),
    ]
    shape = x.shape[1:]
    body = _graph(nodes, [_info("s", shape), _info("e", shape)], [
        _info(f"t{n}", shape), _info("o", shape)])  # fmt: skip
    back = [d.between(0, 1)]
    d.emit(name, [state, x], 2, body=body, num_scan_inputs=1, scan_input_directions=back)


@row("SequenceConstruct", "SequenceAt", "SequenceErase", "SequenceInsert", "SequenceEmpty",
     "SequenceLength", "ConcatFromSequence", "SplitToSequence")  # fmt: skip
def _sequence(d: Drawing, name: str) -> None:
    """A sequence of a value and its partners, changed and read."""
    x, n = _single(d, 1), len(d.nodes)
    if d.opset < 11:
        raise Unfit
    many = [x, *(d.fresh(x.shape, "float32") for _ in range(d.between(0, 2)))]
    at = d.known(d.between(0, len(many) - 1), np.int64)
    names = [f"q{n}_{k}" for k in range(4)]
    nodes = [helper.make_node("SequenceConstruct", [t.name for t in many], [names[0]])]
    if name == "SequenceEmpty":
        nodes = [helper.make_node("SequenceEmpty", [], [names[1]], dtype=1)]
        nodes.append(helper.make_node("SequenceInsert", [names[1], x.name], [names[0]]))
        at, many = d.known(0, np.int64), [x]
    elif name == "SplitToSequence":
        nodes = [helper.make_node(name, [x.name], [names[0]], axis=0, keepdims=d.between(0, 1))]
        at = d.known(d.between(0, x.shape[0] - 1), np.int64)
    last, inside = names[0], [*many, at]
    if name == "SequenceInsert":
        nodes.append(helper.make_node(name, [last, x.name, at.name], [names[1]]))
        last = names[1]
    elif name == "SequenceErase":
        nodes.append(helper.make_node("SequenceInsert", [last, x.name], [names[1]]))
        nodes.append(helper.make_node(name, [names[1], at.name], [names[2]]))
        last = names[2]
    result = f"v{len(d.tensors)}"
    if name == "SequenceLength":
        nodes.append(helper.make_node(name, [last], [result]))
    elif name == "ConcatFromSequence":
        new, axis = d.between(0, 1), d.between(0, x.rank - 1)
        nodes.append(helper.make_node(name, [last], [result], axis=axis, new_axis=new))
    else:
        nodes.append(helper.make_node("SequenceAt", [last, at.name], [result]))
    d.emit_nodes(nodes, inside, [result])


@row("GlobalLpPool")
def _global_lp(d: Drawing, name: str) -> None:
    d.emit(name, [d.fresh([1, 2, d.between(1, 5), d.between(1, 5)], "float32")], p=d.pick((1, 2)))


# -- ai.onnx.ml -------------------------------------------------------------------------------


@row("Scaler", "Normalizer", "LinearRegressor", "Imputer")
def _ml(d: Drawing, name: str) -> None:
    x = d.some("f", 2, 2, fits=lambda t: t.dtype == np.float32 and 0 not in t.shape)
    width = x.shape[1]
    weights = [float(w) for w in d.rng.standard_normal(2 * width)]
    attributes: dict[str, Any] = {
        "Scaler": {"offset": weights[:width], "scale": weights[width:]},
        "Normalizer": {"norm": d.pick(("MAX", "L1", "L2"))},
        "LinearRegressor": {"coefficients": weights, "intercepts": weights[:2], "targets": 2},
        "Imputer": {"imputed_value_floats": weights[:width], "replaced_value_float": 0.0},
    }[name]
    d.emit(name, [x], domain="ai.onnx.ml", **attributes)


# -- com.microsoft ----------------------------------------------------------------------------


def _theirs(d: Drawing, name: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> None:
    d.emit(name, inputs, outputs, "com.microsoft", **attributes)


@row("BiasGelu", "FastGelu", "QuickGelu", "Gelu@")
def _gelu(d: Drawing, name: str) -> None:
    x = _single(d, 1)
    bias = [d.fresh(x.shape[-1:], "float32")]
    more = {"alpha": d.pick((None, 1.0))} if name == "QuickGelu" else {}
    bias = bias if name == "BiasGelu" or (name == "FastGelu" and d.chance(50)) else []
    _theirs(d, name.strip("@"), [x, *bias], **more)


@row("FusedMatMul", "TransposeMatMul")
def _fused(d: Drawing, name: str) -> None:
    left, right = d.between(0, 1), d.between(0, 1)
    m, k, n = (d.between(1, 6) for _ in range(3))
    batch = [d.between(1, 3)] * d.between(0, 2)
    a = d.fresh([*batch, k, m] if left else [*batch, m, k], "float32")
    b = d.fresh([*batch, n, k] if right else [*batch, k, n], "float32")
    _theirs(d, name, [a, b], transA=left, transB=right, alpha=d.pick((None, 0.5)))


@row("FusedGemm")
def _fused_gemm(d: Drawing, name: str) -> None:
    m, k, n = (d.between(1, 6) for _ in range(3))
    a, b, c = (d.fresh(s, "float32") for s in ([m, k], [k, n], [n]))
    _theirs(d, name, [a, b, c], activation=d.pick(("Relu", "Tanh", "Sigmoid", "LeakyRelu")))


@row("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization")
def _skip(d: Drawing, name: str) -> None:
    x = d.fresh([d.between(1, 2), d.between(1, 4), d.between(1, 9)], "float32")
    scale = d.fresh(x.shape[-1:], "float32")
    if name == "SimplifiedLayerNormalization":
        d.emit(name, [x, scale], axis=-1)
        return
    bias = [d.fresh(x.shape[-1:], "float32") for _ in range(d.between(0, 1))]
    _theirs(d, name, [x, d.fresh(x.shape, "float32"), scale, *bias], epsilon=d.pick((None, 1e-2)))


def _bytes(d: Drawing, shape: Any, dtype: Any) -> list[Tensor]:
    """An array of bytes with its scale and zero point."""
    x = d.known(d.rng.integers(*(0, 255) if dtype == np.uint8 else (-127, 127), shape), dtype)
    zero = d.known(d.between(100, 140) if dtype == np.uint8 else d.between(-9, 9), dtype)
    return [x, d.known(d.rng.uniform(0.01, 0.1), np.float32), zero]


@row("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearWhere")
def _qlinear(d: Drawing, name: str) -> None:
    shape, dtype = d.shape(1, 3), d.pick((np.uint8, np.int8))
    a, b, y = (_bytes(d, shape, dtype) for _ in range(3))
    if name == "QLinearWhere":
        _theirs(d, name, [d.fresh(shape, "bool"), *a, *b, *y[1:]])
    else:
        two = name in ("QLinearAdd", "QLinearMul")
        more = {"alpha": 0.2} if name == "QLinearLeakyRelu" else {}
        _theirs(d, name, [*a, *(b if two else []), *y[1:]], **more)


@row("QLinearConcat", "QLinearSoftmax", "QGemm", "QLinearGlobalAveragePool", "QLinearConv@")
def _qlinear_shaped(d: Drawing, name: str) -> None:
    dtype = d.pick((np.uint8, np.int8))
    m, k, n = (d.between(1, 6) for _ in range(3))
    a, b = _bytes(d, [m, k], dtype), _bytes(d, [m, k], dtype)
    y = _bytes(d, [1], dtype)[1:]
    if name == "QLinearConcat":
        _theirs(d, name, [*y, *a, *b], axis=d.between(0, 1))
    elif name == "QLinearSoftmax":
        y = [d.known(1 / 256, np.float32), d.known(0 if dtype == np.uint8 else -128, dtype)]
        _theirs(d, name, [*a, *y], opset=13, axis=-1)
    elif name == "QGemm":
        _theirs(d, name, [*a, *_bytes(d, [k, n], dtype), None, *y])
    elif name == "QLinearGlobalAveragePool":
        _theirs(d, name, [*_bytes(d, [1, 3, 4, m], np.uint8), *_bytes(d, [1], np.uint8)[1:]])
    else:
        raise Unfit


@row("MatMulIntegerToFloat", "DynamicQuantizeMatMul")
def _to_float(d: Drawing, name: str) -> None:
    m, k, n = (d.between(1, 8) for _ in range(3))
    b = _bytes(d, [k, n], np.int8)
    if name == "DynamicQuantizeMatMul":
        _theirs(d, name, [d.fresh([m, k], "float32"), *b])
        return
    a = _bytes(d, [m, k], np.uint8)
    _theirs(d, name, [a[0], b[0], a[1], b[1], a[2], b[2]])


@row("MatMulNBits")
def _nbits(d: Drawing, name: str) -> None:
    size, blocks, n, bits = d.pick((16, 32)), d.between(1, 3), d.between(1, 9), d.pick((4, 8))
    k = size * blocks
    b = d.known(d.rng.integers(0, 256, [n, blocks, size * bits // 8]), np.uint8)
    scales = d.known(d.rng.uniform(0.01, 0.1, n * blocks), np.float32)
    x = d.fresh([d.between(1, 3), k], "float32")
    _theirs(d, name, [x, b, scales], K=k, N=n, bits=bits, block_size=size)


@row("MultiHeadAttention", "GroupQueryAttention")
def _heads(d: Drawing, name: str) -> None:
    heads, size = d.pick((1, 2, 4)), d.pick((4, 8, 16))
    batch, length = d.between(1, 2), d.between(1, 5)
    kept = heads if name == "MultiHeadAttention" else d.pick([h for h in (1, 2, 4) if h <= heads])
    q = d.fresh([batch, length, heads * size], "float32")
    k, v = (d.fresh([batch, length, kept * size], "float32") for _ in range(2))
    if name == "MultiHeadAttention":
        _theirs(d, name, [q, k, v], num_heads=heads, unidirectional=d.pick((None, 0, 1)))
        return
    ends = d.known([length - 1] * batch, np.int32), d.known(length, np.int32)
    more = {"num_heads": heads, "kv_num_heads": kept, "softcap": d.pick((None, 2.0))}
    _theirs(d, name, [q, k, v, None, None, *ends], 3, **more)
