"""Attention of ``com.microsoft`` against loops over its elements, in NumPy.

What is drawn here was compared with ONNX Runtime's CPU kernels as well: it says the same.
"""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import model, value


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def _run(op: str, given: list[Any], outputs: list[str], **attributes: Any) -> dict[str, Any]:
    names = [f"i{n}" if x is not None else "" for n, x in enumerate(given)]
    while not names[-1]:
        names.pop()
    arrays = {name: np.asarray(x) for name, x in zip(names, given) if name}
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
    proto = model([node], [value(n, x.shape, x.dtype) for n, x in arrays.items()], outputs)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    total = {"i6": arrays.pop("i6")} if op == "GroupQueryAttention" else {}
    return lw.from_onnx(proto, constants=total).run(arrays)


def _rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int) -> np.ndarray:
    """One vector of a head at one position."""
    half = len(cos)
    first, second = (x[0::2], x[1::2]) if interleaved else (x[:half], x[half:])
    pair = first * cos - second * sin, first * sin + second * cos
    return np.stack(pair, -1).reshape(-1) if interleaved else np.concatenate(pair)


@pytest.mark.parametrize("seed", range(12))
def test_group_query_attention(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    groups, each, size, batch = (int(rng.integers(1, high)) for high in (3, 4, 2, 4))
    heads, size = groups * each, 16 * size
    past = int(rng.integers(0, 6))
    new = int(rng.integers(1, 5)) if not past or batch == 1 else 1
    total, room = past + new, past + (3 if past and seed % 3 == 0 else 0)
    last = np.full(batch, total - 1, np.int32)
    if new == 1:  # the rows are of different lengths
        last[1:] = rng.integers(0, total, batch - 1)
    q, k, v = (floats(batch, new, n * size) for n in (heads, groups, groups))
    states = [floats(batch, groups, room, size) for _ in "kv"]
    waves = [floats(32, size // 2) for _ in "cs"] if seed % 2 else [None, None]
    added = floats(1, heads, new, total) if seed % 4 == 1 else None
    sink = floats(heads) if seed % 3 == 1 else None
    window, softcap = (2 if seed % 5 == 0 else -1), (1.5 if seed % 4 == 2 else 0.0)
    packed = [np.concatenate((q, k, v), -1), None, None] if seed % 4 == 3 else [q, k, v]
    found = _run(
        "GroupQueryAttention",
        [*packed, *states, last, np.array(total, np.int32), *waves, None, added, sink],
        ["y", "keys", "values"],
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=seed % 2,
        rotary_interleaved=seed // 2 % 2,
        local_window_size=window,
        softcap=softcap,
        smooth_softmax=int(seed % 3 == 2),
    )
    assert found["keys"].shape == (batch, groups, max(room, total), size)
    for b in range(batch):
        before = max(last[b] + 1 - new, 0)
        for h in range(heads):
            g = h // each
            keys, values = [states[n][b, g, :before] for n in (0, 1)]
            for s in range(new):
                key, query = k[b, s, g * size :][:size], q[b, s, h * size :][:size]
                if waves[0] is not None:
                    turn = waves[0][before + s], waves[1][before + s], seed // 2 % 2
                    key, query = _rotated(key, *turn), _rotated(query, *turn)
                keys = np.concatenate((keys, key[None]))
                values = np.concatenate((values, v[b, s, g * size :][None, :size]))
                scores = keys @ query / np.sqrt(size)
                scores = np.tanh(scores / softcap) * softcap if softcap else scores
                scores = scores if added is None else scores + added[0, h, s, : len(keys)]
                if window >= 0:
                    scores[: max(len(keys) - window, 0)] = -np.inf
                if sink is not None or seed % 3 == 2:
                    scores = np.append(scores, 0 if sink is None else sink[h])
                expected = _softmax(scores)[: len(keys)] @ values
                where = b, s, slice(h * size, (h + 1) * size)
                np.testing.assert_allclose(found["y"][where], expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found["keys"][b, g, : len(keys)], keys, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(found["values"][b, g, : len(values)], values)


def test_one_compile_of_group_query_attention_is_for_all_lengths() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((32, 8)).astype(np.float32) for _ in "cs"]
    nodes = [
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["long"]),
        helper.make_node("Cast", ["long"], ["total"], to=TensorProto.INT32),
        helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["place"]),
        helper.make_node("Cast", ["place"], ["last"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "keys", "values", "last", "total", "cos", "sin"],
            ["y", "new_keys", "new_values"],
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
            do_rotary=1,
        ),
    ]  # as exporters of language models write it
    shapes: dict[str, tuple[Any, ...]] = {
        "q": ("b", "s", 32),
        "k": ("b", "s", 16),
        "v": ("b", "s", 16),
        "keys": ("b", 1, "p", 16),
        "values": ("b", 1, "p", 16),
        "mask": ("b", "s + p"),
    }
    inputs = [
        helper.make_tensor_value_info(
            name, TensorProto.INT64 if name == "mask" else TensorProto.FLOAT, [None] * len(shape)
        )
        for name, shape in shapes.items()
    ]
    proto = model(
        nodes,
        inputs,
        ["y", "new_keys", "new_values"],
        dict(zip(("cos", "sin", "one"), (*tables, np.array([1])), strict=True)),
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    compiled = lw.from_onnx(proto, shapes=shapes)
    q, k, v = (rng.standard_normal((1, 9, n)).astype(np.float32) for n in (32, 16, 16))
    state = [np.zeros((1, 1, 0, 16), np.float32)] * 2
    whole = compiled(q, k, v, *state, np.ones((1, 9), np.int64))
    for first, end in ((0, 5), (5, 6), (6, 9)):
        part = slice(first, end)
        y, *state = compiled(q[:, part], k[:, part], v[:, part], *state, np.ones((1, end), int))
        np.testing.assert_allclose(y, whole[0][:, part], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(state[1], whole[2])
    with pytest.raises(lw.LoopwrightError, match="p \\+ s"):
        compiled(q, k, v, *state, np.ones((1, 3), np.int64))


@pytest.mark.parametrize("seed", range(8))
def test_multi_head_attention(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    batch, heads, size, new = (int(rng.integers(1, high)) for high in (4, 4, 6, 5))
    past = 3 if seed % 2 else 0
    length = new if past or seed % 4 == 0 else new + 2
    q, k, v = (floats(batch, n, heads * size) for n in (new, length, length))
    bias = floats(3 * heads * size) if seed % 3 == 0 else None
    states = [floats(batch, heads, past, size) for _ in "kv"] if past else [None, None]
    whole = length + past
    masks = (
        None,
        rng.integers(1, whole + 1, batch).astype(np.int32),
        np.maximum(rng.integers(0, 2, (batch, whole)), np.arange(whole) == 0).astype(np.int32),
        np.maximum(rng.integers(0, 2, (batch, new, whole)), np.arange(whole) == 0).astype(np.int32),
    )
    mask = masks[seed % 4]
    added = floats(1, 1, new, whole) if seed % 3 == 1 else None
    given = [q, k, v, bias, mask, added, *states]
    if seed == 4:  # packed: heads side by side
        given = [np.stack([x.reshape(batch, new, heads, size) for x in (q, k, v)], 3)]
        bias = mask = added = None
    causal = int(length == new and seed % 3 != 2)
    found = _run(
        "MultiHeadAttention", given, ["y", "keys", "values"], num_heads=heads, unidirectional=causal
    )
    if bias is not None:
        q, k, v = (x + its for x, its in zip((q, k, v), np.split(bias, 3)))
    for b in range(batch):
        for h in range(heads):
            its = slice(h * size, (h + 1) * size)
            keys, values = k[b, :, its], v[b, :, its]
            if past:
                keys, values = (
                    np.concatenate((states[n][b, h], x)) for n, x in ((0, keys), (1, values))
                )
            np.testing.assert_array_equal(found["keys"][b, h], keys)
            for s in range(new):
                scores = keys @ q[b, s, its] / np.sqrt(np.float32(size))
                if mask is not None:
                    row = mask[b] if mask.ndim < 3 else mask[b, s]
                    scores[np.arange(whole) >= row if mask.ndim == 1 else row == 0] -= 10000
                scores = scores if added is None else scores + added[0, 0, s]
                scores[past + s + 1 :] = -np.inf if causal else scores[past + s + 1 :]
                expected = _softmax(scores) @ values
                np.testing.assert_allclose(found["y"][b, s, its], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("by_rows", [False, True])
def test_rotary_embedding(interleaved: int, by_rows: bool) -> None:
    rng = np.random.default_rng(0)
    x, cos, sin = (rng.standard_normal(s).astype("f") for s in ((2, 3, 16), (9, 4), (9, 4)))
    positions = np.array([[4, 1, 8], [0, 2, 3]]) if by_rows else np.array([5])
    (found,) = _run(
        "RotaryEmbedding", [x, positions, cos, sin], ["y"], interleaved=interleaved
    ).values()
    for b, s, h in np.ndindex(2, 3, 2):
        p = positions[b, s] if by_rows else 5 + s
        its = b, s, slice(8 * h, 8 * h + 8)
        expected = _rotated(x[its], cos[p], sin[p], interleaved)
        np.testing.assert_allclose(found[its], expected, rtol=1e-5, atol=1e-6)


def test_quantised_attention_is_attention_of_the_numbers() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (2, 3, 8), np.uint8), rng.integers(-127, 128, (8, 24), np.int8)
    bias, scales = rng.standard_normal(24).astype("f"), np.linspace(0.01, 0.02, 24, dtype="f")
    mask = np.array([2, 3], np.int32)
    options: dict[str, Any] = {"num_heads": 2, "unidirectional": 1}
    given = [x, w, bias, np.float32(0.02), scales, mask, np.uint8(120), np.zeros(24, np.int8)]
    (found,) = _run("QAttention", given, ["y"], **options).values()
    numbers = [(x.astype("f") - 120) * np.float32(0.02), w * scales]
    (expected,) = _run("Attention", [*numbers, bias, mask], ["y"], **options).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attribute", [{"kv_cache_bit_width": 8}, {"qk_output": 1}])
def test_what_is_not_supported_is_told(attribute: dict[str, int]) -> None:
    x, last = np.ones((1, 1, 32), np.float32), np.zeros(1, np.int32)
    given = [x, x, x, None, None, last, np.array(1, np.int32)]
    with pytest.raises(lw.UnsupportedError, match=next(iter(attribute))):
        _run("GroupQueryAttention", given, ["y"], num_heads=2, kv_num_heads=2, **attribute)
