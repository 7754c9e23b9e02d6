"""Rows of random ONNX models: ``ai.onnx.ml``, and ``com.microsoft``, of which ONNX Runtime alone
knows what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_models import MODES, trees
from random_onnx import Drawing, Tensor, row, single

# -- ai.onnx.ml -------------------------------------------------------------------------------


@row("Scaler", "Normalizer", "LinearRegressor", "Imputer")
def _by_columns(d: Drawing, name: str) -> None:
    x = _table(d)
    width = x.shape[1]
    weights = [float(w) for w in d.rng.standard_normal(2 * width)]
    attributes: dict[str, Any] = {
        "Scaler": {"offset": weights[:width], "scale": weights[width:]},
        "Normalizer": {"norm": d.pick(("MAX", "L1", "L2"))},
        "LinearRegressor": {"coefficients": weights, "intercepts": weights[:2], "targets": 2},
        "Imputer": {"imputed_value_floats": weights[:width], "replaced_value_float": 0.0},
    }[name]
    d.emit(name, [x], domain="ai.onnx.ml", **attributes)


STEPS = ("NONE", "SOFTMAX", "LOGISTIC")
"""What is done to scores at the end."""


def _table(d: Drawing) -> Tensor:
    return d.some("f", 2, 2, fits=lambda t: t.dtype == np.float32 and 0 not in t.shape)


def _weights(d: Drawing, count: int) -> list[float]:
    return d.elements([count], "float32").tolist()


def _ml(d: Drawing, name: str, inputs: list[Tensor], outputs: int = 1, **attributes: Any) -> None:
    d.emit(name, inputs, outputs, "ai.onnx.ml", **attributes)


@row("FeatureVectorizer")
def _features(d: Drawing, name: str) -> None:
    x = _table(d)
    y = d.fresh([x.shape[0], d.between(1, 5)], "float32")
    _ml(d, name, [x, y], inputdimensions=[x.shape[1], y.shape[1]])


@row("OneHotEncoder", "LabelEncoder")
def _encoder(d: Drawing, name: str) -> None:
    x = d.some("i", 1, 3, fits=lambda t: t.dtype == np.int64)
    keys = d.rng.permutation(17)[: d.between(1, 6)] - 8
    if name == "OneHotEncoder":
        _ml(d, name, [x], cats_int64s=keys.tolist(), zeros=d.pick((None, 1)))
        return
    values: dict[str, Any] = {"values_int64s": (keys * 3).tolist(), "default_int64": 7}
    if d.chance(50):
        values = {"values_floats": _weights(d, len(keys)), "default_float": 0.5}
    _ml(d, name, [x], keys_int64s=keys.tolist(), **values)


@row("LinearClassifier")
def _linear_classifier(d: Drawing, name: str) -> None:
    x, classes = _table(d), d.between(2, 4)
    weights = {"coefficients": _weights(d, classes * x.shape[1])}
    weights["intercepts"] = _weights(d, classes)
    labels = list(range(3, 3 + classes))
    _ml(d, name, [x], 2, classlabels_ints=labels, post_transform=d.pick(STEPS), **weights)


@row("SVMRegressor", "SVMClassifier")
def _support_vectors(d: Drawing, name: str) -> None:
    x, supports, classes = _table(d), d.between(2, 6), d.between(2, 3)
    regressor = name == "SVMRegressor"
    ways = 1 if regressor else classes - 1
    rho = _weights(d, 1 if regressor else classes * ways // 2)
    first = d.between(1, supports - 1)
    counts = [first, supports - first] if classes == 2 else [1, first - 1, supports - first]
    more: dict[str, Any] = (
        {"n_supports": supports, "one_class": d.pick((None, 0, 1))}
        if regressor
        else {"vectors_per_class": counts, "classlabels_ints": [3, 5, 9][:classes]}
    )
    _ml(
        d, name, [x], 1 if regressor else 2, coefficients=_weights(d, ways * supports),
        support_vectors=_weights(d, supports * x.shape[1]), rho=rho,
        kernel_type=d.pick(("LINEAR", "RBF", "POLY", "SIGMOID")),
        kernel_params=[0.25, 0.5, d.pick((2.0, 3.0))], **more,
    )  # fmt: skip


@row("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def _forest(d: Drawing, name: str) -> None:
    # Of weights of two classes, ONNX Runtime gives 0 and 1 for their labels; with weights of one
    # class it has no softmax.
    x, targets = _table(d), d.pick((1, 3, 4))
    modes = MODES[:1] if d.chance(50) else MODES[:4]
    near = x.value + np.float32(0.01)  # no feature is at a test, where a rounding decides
    count, leaves = d.between(1, 5), d.between(1, 9)
    if name == "TreeEnsembleRegressor":
        forest = trees(d.rng, near, count, leaves, targets, modes)
        base = _weights(d, targets) if d.chance(40) else None
        how = d.pick(("SUM", "AVERAGE", "MIN", "MAX"))
        _ml(d, name, [x], **forest, n_targets=targets, base_values=base, aggregate_function=how)
        return
    forest = trees(d.rng, near, count, leaves, targets, modes, "class")
    labels = [2, 4, 8, 16][: max(2, targets)]
    step = "LOGISTIC" if targets == 1 else d.pick(STEPS)
    _ml(d, name, [x], 2, **forest, classlabels_int64s=labels, post_transform=step)


# -- com.microsoft ----------------------------------------------------------------------------


def _theirs(d: Drawing, name: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> None:
    d.emit(name, inputs, outputs, "com.microsoft", **attributes)


@row("BiasGelu", "FastGelu", "QuickGelu", "Gelu@")
def _gelu(d: Drawing, name: str) -> None:
    x = single(d, 1)
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


def _bytes(d: Drawing, shape: Any, dtype: Any, known: bool = True) -> list[Tensor]:
    """An array of bytes with its scale and zero point."""
    array = d.rng.integers(*(0, 255) if dtype == np.uint8 else (-127, 127), shape, dtype)
    x = d.known(array) if known else d.given(array)
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


@row("QLinearConcat", "QLinearSoftmax", "QGemm", "QLinearGlobalAveragePool")
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
    else:
        _theirs(d, name, [*_bytes(d, [1, 3, 4, m], np.uint8), *_bytes(d, [1], np.uint8)[1:]])


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


@row("MoE")
def _experts(d: Drawing, name: str) -> None:
    kind = d.pick(("relu", "gelu", "silu", "identity", "swiglu"))
    count, size, inside, rows = d.between(1, 5), d.between(1, 9), d.between(1, 9), d.between(1, 20)
    first = 2 * inside if kind == "swiglu" else inside
    x, router = d.fresh([rows, size], "float32"), d.fresh([rows, count], "float32")
    up, down = (d.fresh([count, *s], "float32") for s in ([first, size], [size, inside]))
    biases = [d.fresh([count, n], "float32") if d.chance(50) else None for n in (first, size)]
    more = {
        "activation_type": kind,
        "k": d.between(1, count),
        "swiglu_fusion": int(kind == "swiglu"),
    }
    normalize = d.pick((None, 0, 1))
    inputs = [x, router, up, biases[0], down, biases[1]]
    _theirs(d, name, inputs, normalize_routing_weights=normalize, **more)


@row("FusedConv", "QLinearConv", "QLinearAveragePool")
def _windows(d: Drawing, name: str) -> None:
    group, inside, outside = d.pick((1, 1, 2)), d.between(1, 4), d.between(1, 4)
    kernel = [d.between(1, 3), d.between(1, 3)]
    shape = [1, group * inside, d.between(3, 7), d.between(3, 7)]
    pads = [d.between(0, k - 1) for k in kernel * 2]
    window = {"kernel_shape": kernel, "strides": [d.between(1, 2)] * 2, "pads": pads}
    weights = [group * outside, inside, *kernel]
    if name == "FusedConv":
        inputs = [d.fresh(s, "float32") for s in (shape, weights, weights[:1])]
        how = d.pick(("Relu", "Tanh", "Sigmoid"))
        _theirs(d, name, inputs, group=group, activation=how, **window)
        return
    dtype = d.pick((np.uint8, np.int8))
    # What is constant is folded as floats, of which a rounding decides.
    x, y = _bytes(d, shape, dtype, known=False), _bytes(d, [1], dtype)[1:]
    if name == "QLinearAveragePool":
        count = d.pick((None, 0, 1))
        _theirs(d, name, [*x, *y], count_include_pad=count, **window)
        return
    w = _bytes(d, weights, d.pick((np.int8, dtype)))
    if d.chance(40):
        w[1] = d.known(d.rng.uniform(0.01, 0.1, weights[0]), np.float32)
        w[2] = d.known(np.full(weights[0], w[2].value), w[2].dtype)
    bias = [d.known(d.rng.integers(-99, 99, weights[0]), np.int32)] if d.chance(50) else []
    d.emit(name, [*x, *w, *y, *bias], group=group, **window)


@row("EmbedLayerNormalization", "QEmbedLayerNormalization")
def _embed(d: Drawing, name: str) -> None:
    batch, length, width = d.between(1, 3), d.between(1, 4), d.pick((4, 8))
    ids = d.known(d.rng.integers(0, 5, [batch, length]), np.int32)
    segments = d.known(d.rng.integers(0, 2, [batch, length]), np.int32) if d.chance(60) else None
    shapes = [[5, width], [6, width], [2, width], [width], [width]]
    if name == "EmbedLayerNormalization":
        parts: list[Any] = [d.fresh(s, "float32") for s in shapes]
    else:
        triples = [_bytes(d, s, np.uint8) for s in shapes]
        parts = [t[0] for t in triples]
    if segments is None:
        parts[2] = None
    mask = d.known(d.rng.integers(0, 2, [batch, length]), np.int32) if d.chance(40) else None
    if name == "QEmbedLayerNormalization":
        factors = [None if k == 2 and segments is None else t[1] for k, t in enumerate(triples)]
        zeros = [None if k == 2 and segments is None else t[2] for k, t in enumerate(triples)]
        _theirs(d, name, [ids, segments, *parts, mask, *factors, *zeros], 2)
        return
    _theirs(d, name, [ids, segments, *parts, mask], d.between(2, 3))


@row("GatherBlockQuantized")
def _gather_blocks(d: Drawing, name: str) -> None:
    size, blocks, bits = d.pick((16, 32)), d.between(1, 3), d.pick((4, 8))
    data = d.known(d.rng.integers(0, 256, [5, size * blocks * bits // 8]), np.uint8)
    ids = d.known(d.rng.integers(0, 5, d.shape(1, 2)), np.int64)
    scales = d.known(d.rng.uniform(0.01, 0.1, [5, blocks]), np.float32)
    zeros: list[Tensor] = []
    if d.chance(50):
        width = blocks if bits == 8 else (blocks + 1) // 2
        zeros = [d.known(d.rng.integers(0, 256, [5, width]), np.uint8)]
    _theirs(d, name, [data, ids, scales, *zeros], bits=bits, block_size=size)


@row("Attention@", "QAttention")
def _attention(d: Drawing, name: str) -> None:
    heads, size, batch, length = d.pick((1, 2)), d.pick((2, 4)), d.between(1, 2), d.between(1, 4)
    width, inside = heads * size, d.between(1, 6)
    shapes = [batch, length, inside], [inside, 3 * width]
    bias = d.fresh([3 * width], "float32")
    mask, more = None, {"num_heads": heads, "unidirectional": d.pick((None, 0, 1))}
    if d.chance(50):
        seen = d.rng.integers(0, 2, [batch, length]) | (np.arange(length) == 0)
        ends = d.rng.integers(1, length + 1, [batch])
        mask = d.known(d.pick((seen, ends)), np.int32)
    if name == "Attention@":
        x, w = (d.fresh(s, "float32") for s in shapes)
        more["scale"] = d.pick((None, 0.5))
        _theirs(d, "Attention", [x, w, bias, mask], **more)
        return
    x, w = _bytes(d, shapes[0], np.uint8), _bytes(d, shapes[1], np.int8)
    _theirs(d, name, [x[0], w[0], bias, x[1], w[1], mask, x[2], w[2]], **more)


@row("RotaryEmbedding@")
def _rotary(d: Drawing, name: str) -> None:
    heads, half, batch, length = d.between(1, 2), d.between(1, 4), d.between(1, 2), d.between(1, 4)
    x = d.fresh([batch, length, heads * half * 2], "float32")
    cos, sin = (d.known(f(d.elements([9, half], "float32"))) for f in (np.cos, np.sin))
    at = d.rng.integers(0, 9, [batch, length]) if d.chance(50) else [d.between(0, 9 - length)]
    inputs = [x, d.known(at, np.int64), cos, sin]
    _theirs(d, "RotaryEmbedding", inputs, interleaved=d.pick((None, 0, 1)))


@row("QuantizeLinear@", "DequantizeLinear@")
def _linear_codes(d: Drawing, name: str) -> None:
    dtype = d.pick((np.uint8, np.int8))
    shape = d.shape(1, 3)
    x = _bytes(d, shape, dtype)
    axis = d.axis(len(shape))
    if d.chance(40):
        x[1] = d.known(d.rng.uniform(0.01, 0.1, shape[axis]), np.float32)
        x[2] = d.known(np.full(shape[axis], x[2].value), dtype)
    first = x[0] if name == "DequantizeLinear@" else d.fresh(shape, "float32")
    _theirs(d, name.strip("@"), [first, *x[1:]], axis=axis)


@row("DynamicQuantizeLSTM")
def _bytes_lstm(d: Drawing, name: str) -> None:
    direction = d.pick(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, inside, hidden = (d.between(1, 4) for _ in range(4))
    x = d.fresh([steps, batch, inside], "float32")
    dtype = d.pick((np.uint8, np.int8))
    w, r = (_bytes(d, [ways, rows, 4 * hidden], dtype) for rows in (inside, hidden))
    shape = [ways, 4 * hidden] if d.chance(50) else [ways]
    for each in (w, r):
        each[1] = d.known(d.rng.uniform(0.005, 0.02, shape), np.float32)
        each[2] = d.known(np.full(shape, each[2].value), dtype)
    bias = d.fresh([ways, 8 * hidden], "float32") if d.chance(60) else None
    states = [None, None]
    if d.chance(40):
        states = [d.fresh([ways, batch, hidden], "float32") for _ in range(2)]
    inputs = [x, w[0], r[0], bias, None, *states, None, *w[1:], *r[1:]]
    _theirs(d, name, inputs, d.between(1, 3), hidden_size=hidden, direction=direction)
