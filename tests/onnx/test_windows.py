"""Attributes of windows that the standard's own tests leave out, against loops in NumPy."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from onnx import TensorProto, helper

R = np.random.default_rng(11)


def run(op: str, arrays: list[Any], opset: int, **attributes: Any) -> Any:
    """The result of a model of one node."""
    names = [f"x{n}" for n in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return lw.from_onnx(model)(*arrays)


def test_the_greatest_of_regions() -> None:
    x = R.normal(size=(2, 3, 9, 8)).astype(np.float32)
    rois = np.float32([[0, 1, 2, 6, 8], [1, 0, 0, 3, 3], [1, 2, 4, 9, 12]])
    got = run("MaxRoiPool", [x, rois], 22, pooled_shape=[2, 3], spatial_scale=0.75)
    expected = np.zeros((3, 3, 2, 3), np.float32)
    for n, (batch, *corners) in enumerate(rois):
        # Halves go up, as ONNX Runtime has it: 1.5 and 4.5 are 2 and 5.
        left, top, right, bottom = np.floor(np.float32(corners) * 0.75 + 0.5).astype(int)
        height, width = max(bottom - top + 1, 1) / 2, max(right - left + 1, 1) / 3
        for i in range(2):
            for j in range(3):
                rows = slice(top + int(i * height), top + int(np.ceil((i + 1) * height)))
                columns = slice(left + int(j * width), left + int(np.ceil((j + 1) * width)))
                part = x[int(batch), :, rows, columns]
                expected[n, :, i, j] = part.max((1, 2)) if part.size else 0
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_transposed_convolution_of_the_same_size(auto_pad: str, stride: int) -> None:
    x, w = (R.normal(size=s).astype(np.float32) for s in ((1, 2, 5), (2, 3, 4)))
    got = run("ConvTranspose", [x, w], 11, auto_pad=auto_pad, strides=[stride])
    whole = np.zeros((1, 3, 4 * stride + 4))
    for i in range(5):
        whole[:, :, i * stride : i * stride + 4] += np.einsum("nc,cok->nok", x[:, :, i], w)
    assert got.shape[2] == 5 * stride
    rest = whole.shape[2] - 5 * stride
    begin = rest // 2 if auto_pad == "SAME_UPPER" else rest - rest // 2
    np.testing.assert_allclose(got, whole[:, :, begin : begin + 5 * stride], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [0, 1])
def test_positions_count_all_images(order: int) -> None:
    x = R.permutation(2 * 3 * 6 * 4).reshape(2, 3, 6, 4).astype(np.float32)
    names = ["y", "i"]
    node = helper.make_node("MaxPool", ["x"], names, kernel_shape=[2, 2], storage_order=order)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("i", TensorProto.INT64, None),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
    y, i = lw.from_onnx(model)(x)
    flat = x.swapaxes(2, 3).ravel() if order else x.ravel()
    np.testing.assert_array_equal(flat[i], y)
