"""Operators of ``com.microsoft`` against what ONNX Runtime's document says of them, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import helper
from onnx_models import model, value

RNG = np.random.default_rng(0)


def _f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + _erf(x / np.sqrt(2)))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _norm(x: np.ndarray, gamma: Any, beta: Any, epsilon: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def _attention(x: np.ndarray, w: np.ndarray, b: np.ndarray, mask: np.ndarray) -> np.ndarray:
    n, length, _ = x.shape
    q, k, v = (
        each.reshape(n, length, 2, -1).transpose(0, 2, 1, 3) for each in np.split(x @ w + b, 3, -1)
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(length, dtype=bool), scores, -10000)
    scores = scores + np.where(mask, 0, -10000)[:, None, None]
    return (_softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(n, length, -1)


def _quantised(y: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return np.clip(np.rint(y / np.float32(scale)) + zero, 0, 255).astype(np.uint8)


def _mixture(
    x: np.ndarray,
    router: np.ndarray,
    *layers: Any,
    k: int = 2,
    act: Callable[..., Any] = lambda y: np.maximum(y, 0),
    normalised: bool = True,
) -> np.ndarray:
    """Each token's ``k`` experts, one after the other; ``layers`` are weights and biases of all."""
    w1, b1, w2, b2, w3, b3 = [*layers, None, None][:6]
    rows, probabilities = x.reshape(-1, x.shape[-1]), _softmax(router)
    result = np.zeros_like(rows)
    for n, (row, weights) in enumerate(zip(rows, probabilities)):
        chosen = np.argsort(-weights, kind="stable")[:k]
        for e in chosen:
            y = w1[e] @ row + (0 if b1 is None else b1[e])
            other = () if w3 is None else (w3[e] @ row + (0 if b3 is None else b3[e]),)
            y = w2[e] @ act(y, *other) + (0 if b2 is None else b2[e])
            result[n] += y * weights[e] / (weights[chosen].sum() if normalised else 1)
    return result.reshape(x.shape)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _swiglu(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    g, x = np.minimum(g, 1.5), np.clip(x, -1.5, 1.5)
    return g / (1 + np.exp(-1.7 * g)) * (x + 1)


X, W, B = _f(2, 3, 8), _f(8, 24), _f(24)
MASK = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
Q1, Q2 = (RNG.integers(0, 255, (2, 6), dtype=np.uint8) for _ in range(2))
S1, S2, SY = np.float32(0.1), np.float32(0.05), np.float32(0.2)
Z1, Z2, ZY = np.uint8(100), np.uint8(128), np.uint8(90)
D1, D2 = (Q1.astype(np.float32) - 100) * S1, (Q2.astype(np.float32) - 128) * S2
_NIBBLES = RNG.integers(0, 16, (5, 32), dtype=np.uint8)
P4 = _NIBBLES[:, ::2] | _NIBBLES[:, 1::2] << 4
S4, Z4 = np.linspace(0.1, 1, 10, dtype=np.float32).reshape(5, 2), np.full((5, 2), 7, np.uint8)
IDS = np.array([[1, 4, 2], [0, 3, 3]])

WB, RB = (RNG.integers(-127, 128, (1, n, 16), dtype=np.int8) for n in (5, 4))


def _in_bytes(x: np.ndarray) -> np.ndarray:
    scale = (max(x.max(), 0) - min(x.min(), 0)) / 255 or 1
    zero = np.rint(-min(x.min(), 0) / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


def _lstm_of_bytes(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray, *_: Any) -> Any:
    h, c, outputs = np.zeros((2, 4)), np.zeros((2, 4)), []
    for row in (_in_bytes(x) @ (w[0] * 0.01) + b[0].reshape(2, 16).sum(0))[::-1]:
        i, o, f, g = np.split(row + _in_bytes(h) @ (r[0] * 0.02), 4, -1)
        i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs[::-1])[:, None]


TINY = np.float32(1e-3)
CASES: list[tuple[str, list[Any], dict[str, Any], Callable[..., Any]]] = [
    ("FusedMatMul", [_f(4, 2), _f(3, 4)], {"alpha": 0.5, "transA": 1, "transB": 1},
     lambda a, b: 0.5 * a.T @ b.T),
    ("FusedMatMul", [_f(4, 2, 3), _f(2, 3, 5)], {"transBatchA": 1},
     lambda a, b: a.transpose(1, 0, 2) @ b),
    ("FusedGemm", [_f(2, 4), _f(4, 3), _f(3)], {"alpha": 2.0, "activation": "Relu"},
     lambda a, b, c: np.maximum(2 * a @ b + c, 0)),
    ("FusedConv", [_f(1, 2, 4, 4), _f(3, 2, 1, 1), _f(3), _f(1, 3, 4, 4)],
     {"activation": "Clip", "activation_params": [0.0, 1.0], "kernel_shape": [1, 1]},
     lambda x, w, b, z: np.clip(
         np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + b[:, None, None] + z, 0, 1)),
    ("Gelu", [X], {}, _gelu),
    ("BiasGelu", [X, _f(8)], {}, lambda x, b: _gelu(x + b)),
    ("FastGelu", [X], {}, lambda x: x * (0.5 + 0.5 * np.tanh(
        np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("QuickGelu", [X], {}, lambda x: x / (1 + np.exp(-1.702 * x))),
    ("BiasSoftmax", [X, _f(1, 1, 8)], {"axis": 2, "is_inner_broadcast": 0},
     lambda x, b: _softmax(x + b)),
    ("SkipLayerNormalization", [X * TINY, _f(2, 3, 8) * TINY, _f(8), _f(8), _f(8) * TINY], {},
     lambda x, s, g, b, c: _norm(x + s + c, g, b, 1e-12)),
    ("SkipSimplifiedLayerNormalization", [X * TINY, _f(2, 3, 8) * TINY, _f(8)], {},
     lambda x, s, g: (x + s) / np.sqrt(((x + s) ** 2).mean(-1, keepdims=True) + 1e-12) * g),
    ("EmbedLayerNormalization", [IDS, IDS % 2, _f(5, 8), _f(6, 8), _f(2, 8), _f(8), _f(8)], {},
     lambda i, s, w, p, k, g, b: _norm(w[i] + p[:3] + k[s], g, b, 1e-12)),
    ("Attention", [X, W, B, MASK], {"num_heads": 2, "unidirectional": 1}, _attention),
    ("Attention", [X, W, B, np.array([2, 3], np.int32)], {"num_heads": 2, "unidirectional": 1},
     lambda x, w, b, m: _attention(x, w, b, MASK)),
    ("QLinearAdd", [Q1, S1, Z1, Q2, S2, Z2, SY, ZY], {}, lambda *_: _quantised(D1 + D2, SY, 90)),
    ("QLinearMul", [Q1, S1, Z1, Q2, S2, Z2, SY, ZY], {}, lambda *_: _quantised(D1 * D2, SY, 90)),
    ("QLinearSigmoid", [Q1, S1, Z1, S2, Z2], {},
     lambda *_: _quantised(1 / (1 + np.exp(-D1)), S2, 128)),
    ("QLinearLeakyRelu", [Q1, S1, Z1, SY, ZY], {"alpha": 0.5},
     lambda *_: _quantised(np.where(D1 >= 0, D1, D1 * 0.5), SY, 90)),
    ("QLinearSoftmax", [Q1, S1, Z1, S2, np.uint8(0)], {"axis": -1, "opset": 13},
     lambda *_: _quantised(_softmax(D1), S2, 0)),
    ("QLinearConcat", [SY, ZY, Q1, S1, Z1, Q2, S2, Z2], {"axis": 1},
     lambda *_: _quantised(np.concatenate((D1, D2), 1), SY, 90)),
    ("EmbedLayerNormalization", [IDS, None, _f(5, 8), _f(6, 8), None, _f(8), _f(8)], {},
     lambda i, s, w, p, k, g, b: _norm(w[i] + p[:3], g, b, 1e-12)),
    ("TransposeMatMul", [_f(4, 2), _f(4, 3)], {"transA": 1}, lambda a, b: a.T @ b),
    ("QEmbedLayerNormalization",
     [IDS, None, Q1.T, Q2.T, None, Q1[:, 0], Q2[:, 0], None, S1, S2, None, S1, S2,
      Z1, Z2, None, Z1, Z2], {},
     lambda i, *_: _norm(D1.T[i] + D2.T[:3], D1[:, 0], D2[:, 0], 1e-12)),
    ("GatherBlockQuantized", [P4, IDS, S4, None], {"block_size": 16}, lambda p, i, s, _: (
        ((_NIBBLES.reshape(5, 2, 16) - 8.0) * s[..., None]).reshape(5, 32)[i])),
    ("GatherBlockQuantized", [_NIBBLES, IDS, S4, Z4], {"block_size": 16, "bits": 8},
     lambda p, i, s, z: ((p.reshape(5, 2, 16) - z[..., None] * 1.0) * s[..., None])
     .reshape(5, 32)[i]),
    ("QLinearWhere", [Q1 > Q2, Q1, S1, Z1, Q2, S2, Z2, SY, ZY], {},
     lambda *_: _quantised(np.where(Q1 > Q2, D1, D2), SY, 90)),
    ("QLinearAveragePool", [Q1[None, None], S1, Z1, SY, ZY],
     {"kernel_shape": [2, 3], "strides": [1, 3]},
     lambda *_: _quantised(D1.reshape(1, 1, 2, 2, 3).mean((2, 4))[:, :, None], SY, 90)),
    ("QLinearAveragePool", [Q1[None, ..., None], S1, Z1, SY, ZY],
     {"kernel_shape": [2, 3], "strides": [1, 3], "channels_last": 1},
     lambda *_: _quantised(D1.reshape(1, 2, 2, 3).mean((1, 3))[:, None, :, None], SY, 90)),
    ("QGemm", [Q1, S1, Z1, Q2, S2, Z2, None, SY, ZY], {"transB": 1},
     lambda *_: _quantised(D1 @ D2.T, SY, 90)),
    ("DynamicQuantizeLSTM",
     [_f(3, 2, 5), WB, RB, _f(1, 32), None, None, None, None, np.float32([0.01]), np.int8([0]),
      np.float32([0.02]), np.int8([0])], {"hidden_size": 4, "direction": "reverse"},
     _lstm_of_bytes),
    ("MatMulIntegerToFloat", [Q1, Q2.T, S1, S2, Z1, Z2], {}, lambda *_: D1 @ D2.T),
    ("MoE", [X, _f(6, 4), _f(4, 16, 8), _f(4, 16), _f(4, 8, 16), _f(4, 8)], {},
     lambda x, r, *layers: _mixture(x, r, *layers, k=1, normalised=False)),
    ("MoE", [_f(6, 8), _f(6, 4), _f(4, 16, 8), None, _f(4, 8, 16), None, _f(4, 16, 8)],
     {"k": 2, "normalize_routing_weights": 1, "activation_type": "silu"},
     lambda x, r, *layers: _mixture(x, r, *layers, act=lambda y, z: _silu(y) * z)),
    ("MoE", [X, _f(6, 4), _f(4, 8, 16), _f(4, 16), _f(4, 16, 8), _f(4, 8)],
     {"k": 3, "normalize_routing_weights": 1},  # of earlier versions: rows are inputs
     lambda x, r, a, b, c, d: _mixture(x, r, a.swapaxes(1, 2), b, c.swapaxes(1, 2), d, k=3)),
    *[("MoE", [X, _f(6, 4), _f(4, 32, 8), _f(4, 32), _f(4, 8, 16), _f(4, 8)],
       {"k": 2, "normalize_routing_weights": 1, "activation_type": "swiglu",
        "swiglu_fusion": fusion, "swiglu_limit": 1.5, "activation_alpha": 1.7,
        "activation_beta": 1.0},
       lambda x, r, *layers, fusion=fusion: _mixture(x, r, *layers, act=lambda y: _swiglu(
           *((y[::2], y[1::2]) if fusion == 1 else np.split(y, 2))))) for fusion in (1, 2)],
]  # fmt: skip
"""Operator, inputs, attributes, and the result of the inputs."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_operator(case: tuple[str, list[Any], dict[str, Any], Callable[..., Any]]) -> None:
    op, given, attributes, expected = case
    names = [f"i{n}" if x is not None else "" for n, x in enumerate(given)]
    arrays = {name: np.asarray(x) for name, x in zip(names, given) if name}
    node = helper.make_node(op, names, ["y"], domain="com.microsoft", **attributes)
    proto = model([node], [value(n, x.shape, x.dtype) for n, x in arrays.items()], ["y"])
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = lw.from_onnx(proto).run(arrays)["y"]
    wanted = expected(*given)
    if found.dtype == np.uint8:  # a tie may be rounded to the other side
        assert np.abs(found.astype(int) - wanted).max() <= 1
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
