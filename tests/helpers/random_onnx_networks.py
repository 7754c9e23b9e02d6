"""Rows of random ONNX models: what networks are made of, and quantised operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_onnx import Drawing, Tensor, Unfit, row

# -- networks ---------------------------------------------------------------------------------


def _image(d: Drawing, channels: int, spatial: int, least: int = 1, *, wide: bool = True) -> Tensor:
    shape = [d.pick((1, 1, 2)), channels, *(d.between(least, least + 6) for _ in range(spatial))]
    return d.fresh(shape, "float64" if wide and d.chance(10) else "float32")


def _window(d: Drawing, spatial: int, *, dilated: bool) -> dict[str, Any]:
    kernel = [d.pick((1, 2, 3)) for _ in range(spatial)]
    window: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(60):
        window["strides"] = [d.pick((1, 1, 2, 3)) for _ in range(spatial)]
    if dilated and d.chance(40):
        window["dilations"] = [d.pick((1, 2)) for _ in range(spatial)]
    if d.chance(60):
        window["pads"] = [d.between(0, k - 1) for k in kernel * 2]
    elif d.chance(40) and "dilations" not in window:
        window["auto_pad"] = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    return window


@row("Conv", "ConvTranspose")
def _conv(d: Drawing, name: str) -> None:
    spatial = d.pick((1, 2, 2, 2, 3))
    group = d.pick((1, 1, 1, 2, 3))
    inside, outside = d.pick((1, 2, 4)), d.pick((1, 2, 3, 8))
    window = _window(d, spatial, dilated=True)
    kernel = window["kernel_shape"]
    x = _image(d, group * inside, spatial, 5 if name == "Conv" else 2)
    if name == "Conv":
        weight = d.fresh([group * outside, inside, *kernel], x.dtype)
    else:
        weight = d.fresh([group * inside, outside, *kernel], x.dtype)
        window.pop("auto_pad", None)
        strides = window.get("strides")
        if strides and d.chance(30):
            window["output_padding"] = [d.between(0, s - 1) for s in strides]
    if d.chance(30):
        del window["kernel_shape"]
    inputs = [x, weight] + ([d.fresh([group * outside], x.dtype)] if d.chance(50) else [])
    d.emit(name, inputs, group=None if group == 1 and d.chance(50) else group, **window)


@row("MaxPool", "AveragePool", "LpPool")
def _pool(d: Drawing, name: str) -> None:
    spatial = d.pick((1, 2, 2, 2, 3))
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]
    window = _window(d, spatial, dilated=d.opset >= since)
    if d.opset >= (18 if name == "LpPool" else 10) and "auto_pad" not in window:
        window["ceil_mode"] = d.pick((None, 0, 1))
    if name == "AveragePool":
        window["count_include_pad"] = d.pick((None, 0, 1))
    if name == "LpPool":
        window["p"] = d.pick((None, 1, 2))
    outputs = 2 if name == "MaxPool" and d.opset >= 8 and d.chance(15) else 1
    d.emit(name, [_image(d, d.between(1, 5), spatial, 5)], outputs, **window)


@row("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(d: Drawing, name: str) -> None:
    d.emit(name, [_image(d, d.between(1, 5), d.between(1, 3))])


@row("BatchNormalization")
def _batch_norm(d: Drawing, name: str) -> None:
    x = d.some("f", 2, fits=lambda t: t.dtype == np.float32)
    scale, bias, mean = (d.fresh([x.shape[1]], x.dtype) for _ in range(3))
    variance = d.known(d.rng.uniform(0.3, 2, [x.shape[1]]), x.dtype)
    d.emit(name, [x, scale, bias, mean, variance], epsilon=d.pick((None, 1e-3)))


@row("InstanceNormalization")
def _instance_norm(d: Drawing, name: str) -> None:
    x = _image(d, d.between(1, 4), d.between(1, 3), 2, wide=False)
    scale, bias = (d.fresh([x.shape[1]], x.dtype) for _ in range(2))
    d.emit(name, [x, scale, bias], epsilon=d.pick((None, 1e-2)))


@row("GroupNormalization")
def _group_norm(d: Drawing, name: str) -> None:
    groups = d.between(1, 3)
    x = _image(d, groups * d.between(1, 3), 2, 2, wide=False)
    count = groups if d.opset < 21 else x.shape[1]
    scale, bias = (d.fresh([count], x.dtype) for _ in range(2))
    d.emit(name, [x, scale, bias], num_groups=groups, epsilon=d.pick((None, 1e-2)))


@row("LayerNormalization", "RMSNormalization")
def _layer_norm(d: Drawing, name: str) -> None:
    x = d.some("f", 1, fits=lambda t: t.dtype == np.float32 and 0 not in t.shape)
    axis = d.pick((None, d.axis(x.rank)))
    shape = list(x.shape[-1 if axis is None else axis :])
    inputs = [x, d.fresh(shape, x.dtype)]
    if name == "LayerNormalization" and d.chance(60):
        inputs.append(d.fresh(shape, x.dtype))
    d.emit(name, inputs, axis=axis, epsilon=d.pick((None, 1e-2)))


@row("LRN")
def _lrn(d: Drawing, name: str) -> None:
    x = _image(d, d.between(2, 7), 2, wide=False)
    d.emit(name, [x], size=d.pick((1, 3, 5)), alpha=d.pick((None, 0.1)), bias=d.pick((None, 2.0)))


@row("MeanVarianceNormalization")
def _mvn(d: Drawing, name: str) -> None:
    d.emit(name, [_image(d, d.between(1, 4), 2, 2)])


@row("LpNormalization")
def _lp_norm(d: Drawing, name: str) -> None:
    x = d.some("f", 1)
    d.emit(name, [x], axis=d.pick((None, d.axis(x.rank))), p=d.pick((None, 1, 2)))


@row("Softmax", "LogSoftmax", "Hardmax")
def _softmax(d: Drawing, name: str) -> None:
    x = d.some("f", 1, fits=lambda t: 0 not in t.shape)
    if d.opset < 13:  # of the matrix that x is, which the evaluator does not know
        d.emit(name, [x], axis=x.rank - 1)
        return
    d.emit(
        name,
        [x],
        axis=d.pick((None, d.axis(x.rank) if d.opset >= 11 else d.between(1, x.rank - 1))),
    )


@row("LSTM", "GRU", "RNN")
def _recurrent(d: Drawing, name: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    direction = d.pick((None, "forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    length, batch, inside, hidden = (
        d.between(1, 4),
        d.between(1, 3),
        d.between(1, 5),
        d.between(1, 5),
    )
    x = d.fresh([length, batch, inside], "float32")
    inputs: list[Tensor | None] = [
        x,
        d.fresh([ways, gates * hidden, inside], "float32"),
        d.fresh([ways, gates * hidden, hidden], "float32"),
    ]
    if d.chance(60):
        inputs.append(d.fresh([ways, 2 * gates * hidden], "float32"))
        if d.chance(40):
            inputs += [None, d.fresh([ways, batch, hidden], "float32")]
    more = {"linear_before_reset": d.pick((None, 0, 1))} if name == "GRU" else {}
    outputs = d.pick((1, 2, 3)) if name == "LSTM" else d.pick((1, 2))
    d.emit(name, inputs, outputs, hidden_size=hidden, direction=direction, **more)


@row("Resize")
def _resize(d: Drawing, name: str) -> None:
    if d.opset < 11:
        raise Unfit
    x = _image(d, d.between(1, 2), 2, 2, wide=False)
    mode = d.pick(("nearest", "linear", "cubic"))
    how = d.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    nearest = d.pick((None, "floor", "ceil", "round_prefer_ceil")) if mode == "nearest" else None
    roi = None if d.opset >= 13 else d.known(np.zeros(0), np.float32)
    if d.chance(50):
        scales = d.known([1, 1, d.pick((0.5, 1.5, 2)), d.pick((0.75, 1, 2))], np.float32)
        inputs: list[Tensor | None] = [x, roi, scales]
    else:
        sizes = [*x.shape[:2], d.between(1, 9), d.between(1, 9)]
        none = None if d.opset >= 13 else d.known(np.zeros(0), np.float32)
        inputs = [x, roi, none, d.known(sizes, np.int64)]
    d.emit(name, inputs, mode=mode, coordinate_transformation_mode=how, nearest_mode=nearest)


@row("GridSample")
def _grid_sample(d: Drawing, name: str) -> None:
    x = d.fresh([d.between(1, 2), d.between(1, 3), d.between(2, 6), d.between(2, 6)], "float32")
    grid = d.known(
        d.rng.uniform(-1.2, 1.2, [x.shape[0], d.between(1, 4), d.between(1, 4), 2]), np.float32
    )
    mode = d.pick(
        ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    )
    # Of cubic mode, the evaluator moves what is behind the border as a whole.
    beside = ("zeros", "reflection") if mode.endswith("cubic") else ("border", "reflection")
    padding = d.pick((None, *beside))
    d.emit(name, [x, grid], mode=mode, padding_mode=padding, align_corners=d.pick((None, 0, 1)))


@row("Attention")
def _attention(d: Drawing, name: str) -> None:
    batch, heads, shared = d.between(1, 2), d.pick((1, 2, 4)), d.pick((1, 2))
    queries, keys, size = d.between(1, 6), d.between(1, 6), d.pick((1, 2, 4, 8))
    q = d.fresh([batch, heads * shared, queries, size], "float32")
    k, v = (d.fresh([batch, heads, keys, size], "float32") for _ in range(2))
    inputs = [q, k, v]
    if d.chance(40):
        inputs.append(d.fresh([queries, keys], "float32"))
    d.emit(
        name,
        inputs,
        is_causal=d.pick((None, 0, 1)),
        scale=d.pick((None, 0.5)),
        softcap=d.pick((None, 2.0)),
    )


# -- quantised --------------------------------------------------------------------------------


def _point(d: Drawing, dtype: Any) -> Tensor:
    return d.known(0 if np.dtype(dtype).kind == "i" else 128, dtype)


@row("QuantizeLinear")
def _quantize(d: Drawing, name: str) -> None:
    x = d.some("f", fits=lambda t: t.dtype == np.float32)
    d.emit(name, [x, d.known(0.037, np.float32), _point(d, d.pick((np.uint8, np.int8)))])


@row("DequantizeLinear")
def _dequantize(d: Drawing, name: str) -> None:
    x = d.some("iu", fits=lambda t: t.dtype.itemsize == 1)
    d.emit(name, [x, d.known(0.25, np.float32), d.known(3, x.dtype)])


@row("DynamicQuantizeLinear")
def _dynamic(d: Drawing, name: str) -> None:
    d.emit(name, [d.some("f", fits=lambda t: t.dtype == np.float32 and t.value.any())], 3)


@row("MatMulInteger")
def _matmul_integer(d: Drawing, name: str) -> None:
    x = d.some("iu", 2, 3, fits=lambda t: t.dtype.itemsize == 1)
    y = d.fresh([x.shape[-1], d.pick((1, 4, 9))], d.pick((np.uint8, np.int8)))
    points = [d.known(2, x.dtype), d.known(1, y.dtype)]
    d.emit(name, [x, y, *points[: d.between(0, 2)]])


@row("QLinearMatMul")
def _qlinear_matmul(d: Drawing, name: str) -> None:
    x = d.some("iu", 2, 2, fits=lambda t: t.dtype.itemsize == 1 and 0 not in t.shape)
    y = d.fresh([x.shape[-1], d.pick((1, 4, 9))], x.dtype)
    scales = [d.known(s, np.float32) for s in (0.02, 0.03, 0.11)]
    points = [d.known(2, x.dtype) for _ in range(3)]
    inputs = [t for pair in zip(scales, points) for t in pair]
    d.emit(name, [x, *inputs[:2], y, *inputs[2:]])


@row("ConvInteger")
def _conv_integer(d: Drawing, name: str) -> None:
    x = d.fresh([1, 2, d.between(3, 6), d.between(3, 6)], np.uint8)
    d.emit(name, [x, d.fresh([3, 2, 2, 3], d.pick((np.uint8, np.int8))), d.known(2, np.uint8)])
