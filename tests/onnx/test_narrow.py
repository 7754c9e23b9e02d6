"""Elements of 8-bit floats and of less than 8 bits: casts as the standard's tables have them."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx_models import model, value

RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf
KINDS = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "float4_e2m1fn": TensorProto.FLOAT4E2M1,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int2": TensorProto.INT2,
    "uint2": TensorProto.UINT2,
}
LARGEST = dict(zip(KINDS, (448.0, 240.0, 57344.0, 57344.0), strict=False))


def model_of(
    nodes: NodeProto | list[NodeProto], dtypes: list[Any], outputs: list[str]
) -> ModelProto:
    """A model with inputs a, b, ... of these dtypes and of open shapes."""
    given = [value("abcd"[n], None, dtype) for n, dtype in enumerate(dtypes)]
    return model(nodes if isinstance(nodes, list) else [nodes], given, outputs, opset=25)


def run(proto: ModelProto, *arrays: Any) -> Any:
    """The results for traced inputs; those for known inputs are the same."""
    names = "abcd"[: len(arrays)]
    feeds = dict(zip(names, arrays, strict=True))
    made = lw.from_onnx(proto, shapes={n: a.shape for n, a in feeds.items()}).run(feeds)
    folded = lw.from_onnx(proto, constants=feeds).run({})
    for name, array in made.items():
        assert array.dtype == folded[name].dtype
        np.testing.assert_array_equal(array.view(np.uint8), folded[name].view(np.uint8))
    results = list(made.values())
    return results[0] if len(results) == 1 else results


def cast(x: Any, kind: int, **attributes: Any) -> Any:
    node = helper.make_node("Cast", ["a"], ["y"], to=kind, **attributes)
    return run(model_of(node, [x.dtype], ["y"]), x)


SPECIAL = np.array([0.0, -0.0, NAN, INF, -INF, 1e9, -1e9, 1.0, 0.3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", LARGEST)
def test_large_numbers_saturate_or_do_not(name: str, dtype: Any) -> None:
    narrow, top = getattr(ml_dtypes, name), LARGEST[name]
    rest = np.array([0.3], dtype).astype(narrow).astype(float)[0]
    saturated = np.array([0, -0.0, NAN, top, -top, top, -top, 1, rest])
    plain = [INF, -INF, INF, -INF] if name == "float8_e5m2" else [NAN] * 4
    x = SPECIAL.astype(dtype)
    for saturate, want in ((1, saturated), (0, np.array([0, -0.0, NAN, *plain, 1, rest]))):
        got = cast(x, KINDS[name], saturate=saturate)
        assert got.dtype == narrow
        np.testing.assert_array_equal(got.astype(float), want)
        if name.endswith("fnuz"):
            assert got.view(np.uint8)[1] == 0  # there is no -0
        else:
            assert got.view(np.uint8)[1] == 0x80


def test_integers_and_halves_saturate_beyond_their_own_range() -> None:
    np.testing.assert_array_equal(
        cast(np.array([-70000, 300, 70000]), KINDS["float8_e5m2"]).astype(float),
        [-57344, 320, 57344],
    )
    halves = np.array([65504, -INF], np.float16)
    np.testing.assert_array_equal(cast(halves, KINDS["float8_e4m3fn"]).astype(float), [448, -448])


LEAST, GREATEST = 2.0**-127, 2.0**127


@pytest.mark.parametrize(
    "mode,saturate,want",
    [
        ("up", 1, [LEAST, LEAST, LEAST, 2 * LEAST, 1, 2, 2, 2, GREATEST, GREATEST, NAN]),
        ("up", 0, [NAN, NAN, LEAST, 2 * LEAST, 1, 2, 2, 2, NAN, NAN, NAN]),
        ("nearest", 0, [NAN, NAN, LEAST, 2 * LEAST, 1, 1, 2, 2, NAN, NAN, NAN]),
        ("nearest", 1, [LEAST, LEAST, LEAST, 2 * LEAST, 1, 1, 2, 2, GREATEST, GREATEST, NAN]),
        ("down", 1, [LEAST, LEAST, LEAST, LEAST, 1, 1, 1, 1, GREATEST, GREATEST, NAN]),
    ],
)
def test_powers_of_two(mode: str, saturate: int, want: list[float]) -> None:
    beyond = 1.9 * GREATEST
    x = [0, LEAST / 2, LEAST, 1.5 * LEAST, 1, 1.25, 1.5, 1.75, beyond, INF, NAN]
    got = cast(np.float32(x), TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=mode)
    np.testing.assert_array_equal(got.astype(np.float64), want)


def test_a_round_mode_that_there_is_not() -> None:
    node = helper.make_node("Cast", ["a"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode="odd")
    with pytest.raises(lw.LoopwrightValueError, match="round_mode is 'odd'"):
        lw.from_onnx(model_of(node, [np.float32], ["y"]), shapes={"a": (2,)})


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_quantised_numbers_are_clipped_and_integers_wrap(name: str) -> None:
    narrow, info = getattr(ml_dtypes, name), ml_dtypes.iinfo(name)
    x = np.float32([-1e9, -9, -2.5, -0.5, 0.5, 1.5, 2.5, 9, 200, 1e9])
    node = helper.make_node("QuantizeLinear", ["a", "b", "c"], ["y"])
    dtypes = [np.float32, np.float32, narrow]
    zero = np.array(1, narrow)
    got = run(model_of(node, dtypes, ["y"]), x, np.float32(0.5), zero)
    want = np.clip(np.rint(x / 0.5) + 1, int(info.min), int(info.max))
    assert got.dtype == narrow
    np.testing.assert_array_equal(got.astype(float), want)
    wide = np.arange(-40, 40)
    np.testing.assert_array_equal(cast(wide, KINDS[name]), wide.astype(narrow))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn"])
def test_floats_are_quantised_with_zero_points_and_in_blocks(name: str) -> None:
    narrow = getattr(ml_dtypes, name)
    x = RNG.normal(size=(3, 4)).astype(np.float32) * 3
    scale = np.float32([[0.5, 2], [1, 0.25], [2, 1]])
    zero = np.array([[0, 1], [0.5, 0], [-1, 0]], narrow)
    dtypes = [np.float32, np.float32, narrow]
    attributes = {"axis": 1, "block_size": 2}
    wide = np.repeat(zero.astype(np.float32), 2, 1)
    node = helper.make_node("QuantizeLinear", ["a", "b", "c"], ["y"], **attributes)
    got = run(model_of(node, dtypes, ["y"]), x, scale, zero)
    want = (x / np.repeat(scale, 2, 1) + wide).astype(narrow)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    node = helper.make_node("DequantizeLinear", ["a", "b", "c"], ["y"], **attributes)
    back = run(model_of(node, [narrow, np.float32, narrow], ["y"]), got, scale, zero)
    want = (got.astype(np.float32) - wide) * np.repeat(scale, 2, 1)
    np.testing.assert_array_equal(back, want)


def test_scales_that_are_powers_of_two() -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32) * 9
    scale = np.float32([0.5, 2, 4]).astype(ml_dtypes.float8_e8m0fnu)
    wide = scale.astype(np.float32)[:, None]
    dtypes = [np.float32, scale.dtype, np.int8]
    node = helper.make_node("QuantizeLinear", ["a", "b", "c"], ["y"], axis=0)
    codes = run(model_of(node, dtypes, ["y"]), x, scale, np.zeros(3, np.int8))
    np.testing.assert_array_equal(codes, np.rint(x / wide).astype(np.int8))
    for narrow, zero in ((np.int8, [1, 0, -3]), (ml_dtypes.float8_e5m2, [0, 0, 0])):
        given = codes.astype(np.float32).astype(narrow), scale, np.array(zero).astype(narrow)
        inputs = ["a", "b", "c"]
        node = helper.make_node("DequantizeLinear", inputs, ["y"], axis=0, output_dtype=1)
        back = run(model_of(node, [a.dtype for a in given], ["y"]), *given)
        want = (given[0].astype(np.float32) - np.array(zero)[:, None]) * wide
        np.testing.assert_array_equal(back, want.astype(np.float32))
    node = helper.make_node("DequantizeLinear", ["a", "b"], ["y"], axis=0)
    with pytest.raises(lw.LoopwrightValueError, match="and it has no output_dtype"):
        lw.from_onnx(model_of(node, [np.int8, scale.dtype], ["y"]), shapes={"a": (3,), "b": (3,)})


@pytest.mark.parametrize(
    "source,target",
    [("bfloat16", "int16"), ("uint16", "bfloat16"), ("float8_e4m3fn", "uint8"), ("int4", "uint4"),
     ("float32", "int32"), ("int64", "float64"), ("int8", "uint8"), ("bool", "int8")],
)  # fmt: skip
def test_bits_are_read_as_those_of_another_dtype(source: str, target: str) -> None:
    size = 2 if source.endswith("16") else np.dtype(source).itemsize
    words = RNG.integers(0, 2 if source == "bool" else 16, 8 * size).astype(np.uint8).view(source)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    node = helper.make_node("BitCast", ["a"], ["y"], to=kind)
    given = [value("a", [len(words)], words.dtype)]
    got = run(model([node], given, ["y"], opset=26), words)
    np.testing.assert_array_equal(got.view(np.uint8), words.view(np.uint8))
    assert got.dtype == target


def test_an_output_dtype_is_that_of_the_zero_point() -> None:
    node = helper.make_node("QuantizeLinear", ["a", "b", "c"], ["y"], output_dtype=KINDS["int4"])
    dtypes = [np.float32, np.float32, np.int8]
    with pytest.raises(lw.LoopwrightValueError, match=r"output_dtype is int4, .* point int8"):
        lw.from_onnx(model_of(node, dtypes, ["y"]), shapes={"a": (2,), "b": (), "c": ()})


@pytest.mark.parametrize("dtype", ["int8", "float8_e5m2"])
@pytest.mark.parametrize("attributes", [{}, {"axis": 0, "block_size": 2}])
def test_a_zero_point_is_of_the_elements_dtype(dtype: str, attributes: dict[str, int]) -> None:
    node = helper.make_node("DequantizeLinear", ["a", "b", "c"], ["y"], **attributes)
    proto = model_of(node, [np.dtype(dtype), np.float32, np.uint8], ["y"])
    shape = (1,) if attributes else ()
    with pytest.raises(lw.LoopwrightValueError, match=f"zero point is uint8, .* {dtype}"):
        lw.from_onnx(proto, shapes={"a": (2,), "b": shape, "c": shape})


@pytest.mark.parametrize("name", KINDS)
def test_elements_are_moved(name: str) -> None:
    narrow = getattr(ml_dtypes, name)
    x = RNG.integers(0, 3, (3, 4)).astype(narrow)
    nodes = [
        helper.make_node("Transpose", ["a"], ["t"]),
        helper.make_node("Concat", ["t", "t"], ["c"], axis=1),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Flatten", ["c"], ["f"], axis=2),
        helper.make_node("Split", ["f"], ["p", "q"], axis=0, num_outputs=2),
        helper.make_node("Identity", ["q"], ["y"]),
        helper.make_node("Gather", ["t", "i"], ["z"], axis=0),
    ]
    proto = model_of(nodes, [narrow], ["y", "z"])
    proto.graph.initializer.append(helper.make_tensor("i", TensorProto.INT64, [2], [2, 0]))
    y, z = run(proto, x)
    assert y.dtype == z.dtype == narrow
    np.testing.assert_array_equal(y, np.concatenate([x.T, x.T], 1).reshape(-1, 1)[12:])
    np.testing.assert_array_equal(z, x.T[[2, 0]])


def test_packed_weights_are_dequantised() -> None:
    codes = RNG.integers(-8, 8, (4, 3))
    node = helper.make_node("DequantizeLinear", ["w", "b"], ["y"])
    proto = model_of(node, [], ["y"])
    weights = helper.make_tensor("w", KINDS["int4"], codes.shape, codes.reshape(-1))
    scale = helper.make_tensor("b", TensorProto.FLOAT, [], [0.5])
    proto.graph.initializer.extend([weights, scale])
    np.testing.assert_array_equal(run(proto), codes * np.float32(0.5))
