"""Contractions of dequantised bytes are exact sums of products of integers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright import nn
from loopwright.codegen.target import Target
from loopwright.ir.graph.passes.multiply_integers import multiply_integers

BYTES = st.sampled_from([np.int8, np.uint8])
HAS_DOTS = Target.host().has_dots


@dataclass(frozen=True)
class Case:
    """A product or a convolution of bytes, and what they stand for."""

    text: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    out: int
    channel: int
    attrs: dict[str, Any]

    def contract(self, x: Any, w: Any) -> Any:
        if self.text == "matmul":
            return np.matmul(x, w)
        if self.text == "dense":
            return nn.dense(x, w)
        return nn.conv(x, w, **self.attrs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = st.integers(1, 9)
    text = draw(st.sampled_from(["matmul", "dense", "conv1d", "conv2d", "conv3d"]))
    if text in ("matmul", "dense"):
        m, n = draw(size), draw(size)
        k = draw(st.sampled_from([1, 3, 4, 17, 64, 300]))
        batch = draw(st.sampled_from([(), (2,)]))
        if text == "dense":
            return Case(text, ((*batch, m, k), (n, k)), 0, -1, {})
        batch_w = draw(st.sampled_from([(), batch]))
        return Case(text, ((*batch, m, k), (*batch_w, k, n)), len(batch_w) + 1, -1, {})
    rank = int(text[4])
    groups = draw(st.sampled_from([1, 1, 2]))
    channels, out = (groups * draw(st.integers(1, 5)) for _ in range(2))
    sizes = tuple(draw(st.integers(4, 7)) for _ in range(rank))
    window = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    last = draw(st.booleans())
    letters = {1: "W", 2: "HW", 3: "DHW"}[rank]
    x = (1, *sizes, channels) if last else (1, channels, *sizes)
    inputs = channels // groups
    w = (*window, inputs, out) if last else (out, inputs, *window)
    attrs = {
        "strides": draw(st.integers(1, 2)),
        "padding": tuple(draw(st.integers(0, 2)) for _ in range(2 * rank)),
        "dilation": draw(st.sampled_from([1, 1, 2])) if min(sizes) >= 5 else 1,
        "groups": groups,
        "data_layout": f"N{letters}C" if last else f"NC{letters}",
    }
    return Case(text, (x, w), len(w) - 1 if last else 0, -1 if last else 1, attrs)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@given(cases(), BYTES, BYTES, st.integers(0, 2**31), st.data())
@settings(max_examples=30, deadline=None)
def test_integers_are_contracted(
    case: Case, left: Any, right: Any, seed: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    x, w = (drawn(rng, s, t) for s, t in zip(case.shapes, (left, right), strict=True))
    channels = w.shape[case.out]
    many = data.draw(st.booleans(), "a scale for each channel")
    x_zero = left(0) if data.draw(st.booleans()) else drawn(rng, (), left)[()]
    plain = data.draw(st.booleans(), "weights have no zero points")
    zeros = np.zeros(channels, right) if plain else drawn(rng, (channels,), right)
    scales = rng.uniform(0.01, 0.1, channels).astype(np.float32)
    if not many:
        zeros, scales = zeros[0], scales[0]
    constant = data.draw(st.booleans(), "weights are constants")

    def f(x: Any, w: Any, x_zero: Any) -> Any:
        return case.contract(
            nn.dequantize(x, np.float32(0.5), x_zero), nn.dequantize(w, scales, zeros, case.out)
        )

    if constant:
        compiled = lw.compile(lambda x: f(x, w, x_zero))
        got, text = compiled(x), compiled.lower(x).as_text("kernels")
    else:
        compiled = lw.compile(f)
        got, text = compiled(x, w, x_zero), compiled.lower(x, w, x_zero).as_text("kernels")

    # Sums of centred integers are exact in float64.
    shape = [1] * w.ndim
    shape[case.out] = -1
    wide = w.astype(np.float64) - np.reshape(zeros.astype(np.float64), shape if many else ())
    sums = case.contract(x.astype(np.float64) - float(x_zero), wide)
    place = [1] * sums.ndim
    place[case.channel] = -1
    factor = np.float32(0.5) * (np.reshape(scales, place) if many else scales)
    expected = sums.astype(np.float32) * factor
    np.testing.assert_allclose(got, expected, rtol=2e-7, atol=0)  # two roundings at the most
    if case.attrs.get("groups", 1) == 1:
        assert not re.search(r": float32\[.* = sum\(", text), text


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("zero", [0, 7])
def test_machines_without_products_of_bytes_multiply_words(target: str, zero: int) -> None:
    rng = np.random.default_rng(3)
    x, w = drawn(rng, (1, 9, 9, 16), np.uint8), drawn(rng, (3, 3, 16, 24), np.int8)
    flat = drawn(rng, (40, 24), np.int8)

    def f(x: Any) -> Any:
        layout = {"data_layout": "NHWC", "padding": 1}
        y = nn.conv2d(nn.dequantize(x, 0.5, np.uint8(zero)), nn.dequantize(w, 0.25), **layout)
        y = nn.quantize(nn.relu(y), 8.0, np.uint8(zero))
        return nn.dense(nn.dequantize(y, 8.0, np.uint8(zero)), nn.dequantize(flat, 0.125))

    wanted = [w.astype(np.float64) * 0.25, (x.astype(np.float64) - zero) * 0.5]
    y = nn.conv2d(wanted[1], wanted[0], data_layout="NHWC", padding=1)
    whole = np.clip(np.rint(np.maximum(y, 0) / 8) + zero, 0, 255) - zero
    compiled = lw.compile(f, target=target)
    np.testing.assert_array_equal(compiled(x), (whole * 8) @ (flat.astype(np.float64) * 0.125).T)
    assert compiled.lower(x).as_text("loops").count("by madd") >= 2
    assert "pmaddwd" in compiled.lower(x).as_text("asm")


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("zero", "kind"), [(0, np.uint8), (255, np.uint8), (-128, np.int8)])
def test_windows_of_words_are_exact_in_tiles(
    zero: int, kind: Any, groups: int, target: str
) -> None:
    """Also of the greatest sums that bytes and zero points make."""
    rng = np.random.default_rng(zero % 7)
    channels = 128 * groups
    x, w = drawn(rng, (1, 15, 28, channels), kind), drawn(rng, (3, 3, 128, channels), np.int8)
    info = np.iinfo(kind)
    x[:, :6] = info.min + info.max - zero
    w[..., :8], w[..., 8:16] = 127, -128
    attrs = {"data_layout": "NHWC", "padding": (1, 0, 1, 1), "groups": groups}
    w_zero = np.int8(-128 if groups == 1 else 0)

    def f(x: Any) -> Any:
        return nn.conv2d(nn.dequantize(x, 0.5, kind(zero)), nn.dequantize(w, 0.25, w_zero), **attrs)

    exact = nn.conv2d(x.astype(np.float64) - zero, w.astype(np.float64) - w_zero, **attrs)
    compiled = lw.compile(f, target=target)
    np.testing.assert_array_equal(compiled(x), exact.astype(np.float32) * np.float32(0.125))
    assert "winograd_image" in compiled.lower(x).as_text("kernels")

    @partial(lw.compile, target=target)
    def of_integers(x: Any, zero: Any) -> Any:
        y = x.astype(np.int32) - zero.astype(np.int32)
        return nn.conv2d(y, w.astype(np.int32) - w_zero.astype(np.int32), **attrs)

    np.testing.assert_array_equal(of_integers(x, kind(zero)), exact)
    assert "winograd_image" in of_integers.lower(x, kind(zero)).as_text("kernels")


def test_tiles_of_words_end_in_what_follows_them() -> None:
    """A layer with channels first is a kernel that writes bytes, with channels last for the next
    product."""
    rng = np.random.default_rng(1)
    x, w = drawn(rng, (1, 64, 28, 28), np.uint8), drawn(rng, (64, 64, 3, 3), np.int8)
    last = drawn(rng, (128, 64, 1, 1), np.int8)

    def f(x: Any) -> Any:
        y = nn.conv2d(nn.dequantize(x, 0.5), nn.dequantize(w, 0.25), padding=1)
        y = nn.quantize(nn.relu(y), 64.0, np.uint8(0))
        return nn.conv2d(nn.dequantize(y, 64.0), nn.dequantize(last, 1.0))

    text = lw.compile(f, target="x86-64-v3").lower(x).as_text("kernels")
    (ends,) = re.findall(r"prim @winograd_result\S*\(.*-> out: (\S+)\[(.*)\] {", text)
    assert ends[0] == "int16" and ends[1].endswith(" 64")


@pytest.mark.parametrize(("channels", "tiled"), [(896, True), (928, False)])
def test_sums_that_tiles_would_not_hold_are_taken_term_by_term(channels: int, tiled: bool) -> None:
    x = np.full((1, 16, 16, channels), 255, np.uint8)
    w = np.full((3, 3, channels, 32), -128, np.int8)

    def f(x: Any) -> Any:
        y = nn.dequantize(x, 1.0)
        return nn.conv2d(y, nn.dequantize(w, 1.0, np.int8(127)), data_layout="NHWC")

    compiled = lw.compile(f, target="x86-64-v3")
    assert (compiled(x) == np.float32(9 * channels * 255 * -255)).all()
    assert ("winograd" in compiled.lower(x).as_text("kernels")) == tiled


@given(cases(), BYTES, BYTES, st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_integers_less_their_zero_points(case: Case, left: Any, right: Any, seed: int) -> None:
    """What ONNX calls MatMulInteger and ConvInteger."""
    rng = np.random.default_rng(seed)
    x, w = (drawn(rng, s, t) for s, t in zip(case.shapes, (left, right), strict=True))
    x_zero, w_zero = drawn(rng, (), left), drawn(rng, (), right)

    @lw.compile
    def f(x: Any, x_zero: Any) -> Any:
        a = x.astype(np.int32) - x_zero.astype(np.int32)
        return case.contract(a, w.astype(np.int32) - w_zero.astype(np.int32))

    wide = [v.astype(np.float64) - float(z) for v, z in ((x, x_zero), (w, w_zero))]
    got = f(x, x_zero)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, case.contract(*wide))


@pytest.mark.parametrize("zero", [1000, -40_000, 256, -1])
@pytest.mark.parametrize("target", [None, "x86-64-v3"])
def test_what_is_no_zero_point_is_subtracted_as_it_is(zero: int, target: str | None) -> None:
    """Differences are as large as int32 then, and borders are of what they are."""
    rng = np.random.default_rng(1)
    x, w = drawn(rng, (1, 5, 5, 8), np.uint8), drawn(rng, (3, 3, 8, 4), np.int8)
    grouped = drawn(rng, (3, 3, 1, 8), np.int8)

    def f(x: Any, conv: Any) -> Any:
        wide = x.astype(np.int32) - zero
        product = wide[0] @ w[0, 0].astype(np.int32)
        image = conv(wide, w.astype(np.int32), padding=1, data_layout="NHWC")
        each = conv(wide, grouped.astype(np.int32), padding=1, groups=8, data_layout="NHWC")
        return product, image, each

    def exact(a: Any, b: Any, **attrs: Any) -> Any:
        return nn.conv2d(a.astype(np.float64), b.astype(np.float64), **attrs)

    compiled = lw.compile(lambda x: f(x, nn.conv2d), target=target)
    for got, right in zip(compiled(x), f(x, exact), strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("relu", [False, True])
def test_a_result_is_requantised_within_one(relu: bool) -> None:
    rng = np.random.default_rng(5)
    x, w = drawn(rng, (40, 90), np.uint8), drawn(rng, (90, 50), np.int8)
    scales, bias = rng.uniform(0.001, 0.01, 50), rng.standard_normal(50)

    def f(x: Any, w: Any, scales: Any, bias: Any) -> Any:
        y = nn.dequantize(x, 0.02, np.uint8(120)) @ nn.dequantize(w, scales) + bias
        y = np.maximum(y, 0) if relu else y
        return nn.quantize(y, 0.03, np.uint8(30))

    given = w, scales.astype(np.float32), bias.astype(np.float32)
    compiled = lw.compile(lambda x: f(x, *given))
    y = (x.astype(np.float64) - 120) * 0.02 @ (w * scales) + bias
    exact = (np.maximum(y, 0) if relu else y) / 0.03 + 30
    got = compiled(x)
    assert got.dtype == np.uint8
    assert np.abs(got - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-3
    assert len(compiled.lower(x).built.kernels) == (1 if HAS_DOTS else 2)
    assert "divide(" not in compiled.lower(x).as_text("kernels")


def requantised(total: np.ndarray, factor: Any, zero: int, dtype: Any, least: int) -> np.ndarray:
    """Sums of integers times a factor, rounded, as bytes."""
    whole = np.rint(total.astype(np.float32) * np.asarray(factor, np.float32)).astype(np.int64)
    return np.clip(whole + zero, least, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("target", [None, "x86-64", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("scale", "zero", "relu"), [(0.5, 0, True), (2.0, 99, False), (1.0, 9, True)]
)
def test_a_bias_in_steps_of_the_sums_is_added_to_them(
    scale: float, zero: int, relu: bool, dtype: Any, target: str | None, rng: np.random.Generator
) -> None:
    """All scales are powers of two: products of them are exact, and so is the reference."""
    x, w = drawn(rng, (37, 64), np.uint8), drawn(rng, (64, 40), np.int8)
    steps = rng.integers(-9999, 9999, 40).astype(np.int32)
    scales = 2.0 ** rng.integers(-11, -9, 40).astype(np.float32)
    for at in (0, 31):  # with a zero point of x and without

        def layer(x: Any, at: int = at) -> Any:
            floats = nn.dequantize(x, np.float32(0.25), np.uint8(at))
            y = floats @ nn.dequantize(w, scales, np.zeros(40, np.int8), axis=1)
            y = y + nn.dequantize(steps, scales * np.float32(0.25), np.zeros(40, np.int32), axis=0)
            return nn.quantize(nn.relu(y) if relu else y, np.float32(scale), dtype(zero))

        f = lw.compile(layer, target=target)
        total = (x.astype(np.int64) - at) @ w.astype(np.int64) + steps
        least = max(zero, np.iinfo(dtype).min) if relu else np.iinfo(dtype).min
        wanted = requantised(total, scales * 0.25 / scale, zero, dtype, least)
        np.testing.assert_array_equal(f(x), wanted)
        kernels = f.lower(x).as_text("kernels")
        assert "float32[40] const, x3: float32" not in kernels, "no bias in floats"


def test_a_bias_between_steps_stays_a_float(rng: np.random.Generator) -> None:
    x, w = drawn(rng, (5, 16), np.uint8), drawn(rng, (16, 8), np.int8)
    bias = (rng.integers(-50, 50, 8) + 0.25).astype(np.float32)

    def layer(x: Any) -> Any:
        y = nn.dequantize(x, np.float32(1), np.uint8(0)) @ nn.dequantize(
            w, np.ones(8, np.float32), np.zeros(8, np.int8), axis=1
        )
        return y + bias

    total = x.astype(np.float32) @ w.astype(np.float32) + bias
    np.testing.assert_array_equal(lw.compile(layer)(x), total)


@pytest.mark.parametrize("zero", [0, 77, 255])
@pytest.mark.parametrize("scale", [1e-30, 2.0**-12, 2.0**-6, 1.0])
def test_what_is_beyond_bytes_becomes_the_last_of_them(
    scale: float, zero: int, rng: np.random.Generator
) -> None:
    """Also where quotients are beyond int32, which are not compared as integers."""
    x, w = drawn(rng, (9, 64), np.uint8), drawn(rng, (64, 33), np.int8)

    def layer(x: Any) -> Any:
        y = nn.dequantize(x, np.float32(1), np.uint8(0)) @ nn.dequantize(
            w, np.float32(0.5), np.int8(0)
        )
        return nn.quantize(y, np.float32(scale), np.uint8(zero))

    with np.errstate(over="ignore"):
        quotient = (x.astype(np.int64) @ w.astype(np.int64)) * (0.5 / scale)
    wanted = np.clip(np.rint(quotient) + zero, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(lw.compile(layer)(x), wanted)


@pytest.mark.parametrize("points", [(0, 0), (130, 130), (130, 9)])
def test_a_residual_is_rounded_twice(points: tuple[int, int], rng: np.random.Generator) -> None:
    x, w, z = (
        drawn(rng, (9, 64), np.uint8),
        drawn(rng, (64, 33), np.int8),
        drawn(rng, (9, 33), np.uint8),
    )
    scale = np.float32(0.25)

    def layer(x: Any, z: Any) -> Any:
        y = nn.dequantize(x, scale, np.uint8(3)) @ nn.dequantize(w, np.float32(2.0**-6), np.int8(0))
        y = nn.dequantize(nn.quantize(y, scale, np.uint8(points[0])), scale, np.uint8(points[1]))
        return nn.quantize(
            nn.relu(y + nn.dequantize(z, scale, np.uint8(5))), scale * 2, np.uint8(0)
        )

    total = (x.astype(np.int64) - 3) @ w.astype(np.int64)
    once = requantised(total, 2.0**-6, points[0], np.uint8, 0).astype(np.int64)
    twice = requantised(once - points[1] + z.astype(np.int64) - 5, 0.5, 0, np.uint8, 0)
    np.testing.assert_array_equal(lw.compile(layer)(x, z), twice)


def test_long_chains_meet_no_limit_of_python() -> None:
    """Of what is subtracted before a product, and of what is added before it is quantised."""
    links = "".join(f"  %{n} = subtract(%{n - 1 if n else 'x'}, 1f);\n" for n in range(3000))
    module = lw.parse(
        "def @main(%x: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32]) {\n"
        f"{links}  nn.matmul(%2999, %w)\n}}"
    )
    assert multiply_integers(module) is module
    links = "".join(f"  %{n} = add(%{n - 1 if n else 'q'}, 1f);\n" for n in range(3000))
    module = lw.parse(
        "def @main(%x: Tensor[(4, 4), uint8]) {\n  %q = nn.dequantize(%x, 0.5f, 3u8);\n"
        f"{links}  nn.quantize(%2999, 0.5f, 3u8)\n}}"
    )
    changed = multiply_integers(module)
    assert len(changed.main.body.bindings) < len(module.main.body.bindings) + 40


def test_what_is_quantised_again_stays() -> None:
    @lw.compile
    def f(x: Any) -> Any:
        y = nn.quantize(nn.dequantize(x, 0.1, np.uint8(4)), 0.1, np.uint8(4))
        return np.transpose(y)

    x = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(f(x), x.T)
    assert "quantize" not in str(f.lower(x).as_text("kernels"))
    assert "float" not in str(f.lower(x).as_text("kernels"))


def test_sums_that_int32_does_not_hold_stay_floats() -> None:
    """As sums of dequantised numbers have no such limit."""
    x, w = (np.full(shape, 255, np.uint8) for shape in ((1, 40_000), (40_000, 1)))
    f = lw.compile(lambda x: nn.dequantize(x, 1.0) @ nn.dequantize(w, 1.0))
    np.testing.assert_allclose(f(x), np.full((1, 1), 255.0**2 * 40_000), rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_large_weights_are_read_as_bytes(kind: Any, transposed: bool) -> None:
    """Whether they are multiplied with floats or with bytes."""
    rng = np.random.default_rng(7)
    x, w = drawn(rng, (3, 300), np.uint8), drawn(rng, (300, 200), np.int8)
    scales, zeros = rng.uniform(0.5, 1, 200).astype(np.float32), drawn(rng, (200,), np.int8)
    given, axis = (w.T.copy(), 0) if transposed else (w, 1)

    def f(x: Any) -> Any:
        weights = nn.dequantize(given, scales, zeros, axis)
        left = nn.dequantize(x, 1.0) if kind is np.uint8 else x
        return left @ (weights.T if transposed else weights)

    compiled = lw.compile(f)
    got, text = compiled(x.astype(kind)), compiled.lower(x.astype(kind)).as_text("kernels")
    bound = x.astype(np.float64) @ np.abs((w.astype(np.float64) - zeros) * scales)
    exact = x.astype(np.float64) @ ((w.astype(np.float64) - zeros) * scales)
    assert (np.abs(got - exact) <= np.float32(300 * 2.0**-23) * bound).all()
    widened = kind is np.uint8 and not HAS_DOTS
    assert re.search(rf"int{16 if widened else 8}\[\d+, \d+\] const", text)
    assert not re.search(r"float32\[\d+, \d+\] const", text)
    assert bool(re.search(r": int32\[.* = sum\(", text)) == (kind is np.uint8)


@pytest.mark.parametrize(
    ("x", "scale", "zero", "message"),
    [
        (np.zeros((2, 3), np.uint8), np.ones(2, np.float32), 0, "one for each index of axis -1"),
        (np.zeros((2, 3), np.uint8), 1.0, 300, "300"),
        (np.zeros((2, 3), np.float32), 1.0, 0, "integers"),
    ],
)
def test_bad_operands_are_explained(x: Any, scale: Any, zero: Any, message: str) -> None:
    with pytest.raises((lw.LoopwrightError, OverflowError), match=message):
        lw.compile(lambda x: nn.dequantize(x, scale, zero))(x)
