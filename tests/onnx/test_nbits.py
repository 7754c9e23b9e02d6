"""``MatMulNBits`` against what ONNX Runtime's document says of it, in NumPy."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model, value

RNG = np.random.default_rng(0)


def drawn(k: int, n: int, block: int, bits: int) -> dict[str, np.ndarray]:
    """Codes (n, k), scales and zero points (n, blocks)."""
    blocks = -(-k // block)
    codes = RNG.integers(0, 1 << bits, (n, blocks * block)).astype(np.uint8)
    scales = RNG.uniform(0.5, 1.5, (n, blocks)).astype(np.float32)
    zeros = RNG.integers(0, 1 << bits, (n, blocks)).astype(np.uint8)
    return {"codes": codes, "scales": scales, "zeros": zeros}


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    count = 8 // bits
    rest = -codes.shape[1] % count
    parts = np.pad(codes, ((0, 0), (0, rest))).reshape(len(codes), -1, count)
    return (parts << (np.arange(count) * bits).astype(np.uint8)).sum(-1).astype(np.uint8)


def run(x: np.ndarray, constants: dict[str, np.ndarray], **attributes: Any) -> Any:
    names = ["a", *(n if n in constants else "" for n in ("B", "scales", "zeros", "g_idx", "bias"))]
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **attributes)
    proto = model([node], [value("a", x.shape, x.dtype)], ["y"], constants)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return lw.from_onnx(proto).run({"a": x})["y"]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("k", [96, 80])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("level", [0, 4])
def test_products(bits: int, k: int, zeros: bool, level: int) -> None:
    n, block = 24, 32
    made = drawn(k, n, block, bits)
    x = RNG.standard_normal((2, 3, k)).astype(np.float32)
    bias = RNG.standard_normal(n).astype(np.float32)
    blobs = packed(made["codes"], bits).reshape(n, -1, block * bits // 8)
    constants = {"B": blobs, "scales": made["scales"].reshape(-1), "bias": bias}
    if zeros:
        constants["zeros"] = packed(made["zeros"], bits).reshape(-1)
    points = made["zeros"].astype("d") if zeros else np.full(made["zeros"].shape, 2.0 ** (bits - 1))
    w = (made["codes"] - points.repeat(block, 1)) * made["scales"].repeat(block, 1)
    exact = x.astype("d") @ w[:, :k].T + bias
    got = run(x, constants, K=k, N=n, bits=bits, block_size=block, accuracy_level=level)
    allowed = 1e-5 if level == 0 else 0.02
    np.testing.assert_allclose(got, exact, rtol=0, atol=allowed * np.abs(exact).max())


def test_blocks_that_do_not_fit_are_refused() -> None:
    made = drawn(64, 8, 32, 4)
    x, blobs = np.ones((1, 64), np.float32), packed(made["codes"], 4).reshape(8, 2, 16)
    whole = {"B": blobs, "scales": made["scales"]}
    with pytest.raises(LoopwrightError, match="scales has 15 elements"):
        run(x, {**whole, "scales": made["scales"].reshape(-1)[:15]}, K=64, N=8, block_size=32)
    with pytest.raises(LoopwrightError, match="bytes for 64 codes"):
        run(x, {**whole, "B": blobs[:, :1]}, K=64, N=8, block_size=32)
    with pytest.raises(LoopwrightError, match="scales are finite"):
        run(x, {**whole, "scales": made["scales"] * np.float32(np.inf)}, K=64, N=8, block_size=32)
    with pytest.raises(LoopwrightError, match="g_idx"):
        order = {"g_idx": np.arange(64, dtype=np.int32)[::-1] // 32}
        run(x, {**whole, **order}, K=64, N=8, block_size=32)


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT4", "UINT4"])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocked_dequantised_weights_stay_codes(kind: str, zeros: bool, transposed: bool) -> None:
    k, n, block = 256, 48, 32
    bits = int(kind[-1])
    low = -(1 << bits - 1) if kind[0] == "I" else 0
    codes = RNG.integers(low, low + (1 << bits), (k, n))
    scales = RNG.uniform(0.5, 1.5, (k // block, n)).astype(np.float32)
    points = RNG.integers(low, low + (1 << bits), scales.shape)
    arrays = [each.T if transposed else each for each in (codes, scales, points)]
    dtype = getattr(TensorProto, kind)
    given = [
        helper.make_tensor("W", dtype, arrays[0].shape, arrays[0].ravel().tolist()),
        numpy_helper.from_array(np.ascontiguousarray(arrays[1]), "s"),
        helper.make_tensor("Z", dtype, arrays[2].shape, arrays[2].ravel().tolist()),
    ]
    names = ["W", "s", *(["Z"] if zeros else [])]
    options = {"axis": int(transposed), "block_size": block}
    nodes = [helper.make_node("DequantizeLinear", names, ["w"], **options)]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["w"], ["t"]))
    nodes.append(helper.make_node("MatMul", ["a", "t" if transposed else "w"], ["y"]))
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", [value("a", (2, k))], outputs, given)
    module = lw.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    x = RNG.standard_normal((2, k)).astype(np.float32)
    w = (codes - (points.repeat(block, 0) if zeros else 0)) * scales.repeat(block, 0).astype("d")
    exact = x.astype("d") @ w
    np.testing.assert_allclose(module(x), exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    assert f"({k * bits // 8}, {n}), uint8]" in module.lower().as_text("kernels")
