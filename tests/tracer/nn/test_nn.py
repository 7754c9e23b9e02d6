"""``lw.nn`` compiled against itself on plain arrays, and against NumPy formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import nn
from loopwright.tracer.core import argument_conversion

R = np.random.default_rng(3)
X = R.normal(size=(2, 6)).astype(np.float32)
G, B = (R.normal(size=6).astype(np.float32) for _ in range(2))
IMAGE = R.normal(size=(2, 4, 7, 6)).astype(np.float32)
KERNEL = R.normal(size=(8, 4, 3, 3)).astype(np.float32)
MEAN, GAMMA, BETA = (R.normal(size=4).astype(np.float32) for _ in range(3))
VAR = np.abs(MEAN) + 0.5

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "relu": (nn.relu, (X,)),
    "relu int": (nn.relu, (np.arange(-3, 3),)),
    "gelu": (nn.gelu, (X,)),
    "gelu tanh": (lambda x: nn.gelu(x, approximate="tanh"), (X,)),
    "silu": (nn.silu, (X,)),
    "sigmoid": (nn.sigmoid, (X,)),
    "sigmoid of ints": (nn.sigmoid, (np.arange(-3, 3, dtype=np.int8),)),
    "erf": (nn.erf, (X,)),
    "rsqrt": (nn.rsqrt, (np.abs(X) + 1,)),
    "softmax": (nn.softmax, (X,)),
    "softmax axis": (lambda x: nn.softmax(x, axis=0), (X,)),
    "log_softmax": (nn.log_softmax, (X,)),
    "layer_norm": (nn.layer_norm, (X, G, B)),
    "layer_norm plain": (lambda x: nn.layer_norm(x), (X,)),
    "rms_norm": (nn.rms_norm, (X, G)),
    "batch_norm": (nn.batch_norm, (IMAGE, GAMMA, BETA, MEAN, VAR)),
    "batch_norm_training": (
        lambda x, g, b: np.concatenate([np.ravel(y) for y in nn.batch_norm_training(x, g, b)]),
        (IMAGE, GAMMA, BETA),
    ),
    "group_norm": (lambda x, g, b: nn.group_norm(x, 2, g, b), (IMAGE, GAMMA, BETA)),
    "instance_norm": (nn.instance_norm, (IMAGE, GAMMA, BETA)),
    "local_response_norm": (lambda x: nn.local_response_norm(x, 3, alpha=0.5), (IMAGE,)),
    "lp_normalize": (lambda x: nn.lp_normalize(x, 1, axis=1), (IMAGE,)),
    "lp_normalize 3": (lambda x: nn.lp_normalize(x, 3, epsilon=0.1), (np.abs(IMAGE),)),
    "matmul": (nn.matmul, (X, X.T.copy())),
    "dense": (nn.dense, (X, R.normal(size=(3, 6)), np.ones(3))),
    "conv2d": (nn.conv2d, (IMAGE, KERNEL)),
    "conv2d bias": (
        lambda x, w, b: nn.conv2d(x, w, b, padding=1),
        (IMAGE, KERNEL, R.normal(size=8)),
    ),
    "conv2d same": (lambda x, w: nn.conv2d(x, w, padding="same", dilation=2), (IMAGE, KERNEL)),
    "conv2d strides": (
        lambda x, w: nn.conv2d(x, w, strides=(2, 1), padding=(1, 0)),
        (IMAGE, KERNEL),
    ),
    "conv2d groups": (lambda x, w: nn.conv2d(x, w, groups=2), (IMAGE, KERNEL[:, :2])),
    "conv2d NHWC": (
        lambda x, w: nn.conv2d(x, w, data_layout="NHWC"),
        (IMAGE.transpose(0, 2, 3, 1).copy(), KERNEL.transpose(2, 3, 1, 0).copy()),
    ),
    "conv": (lambda x, w: nn.conv(x, w, strides=2, data_layout="NCHW"), (IMAGE, KERNEL)),
    "conv1d": (
        lambda x, w, b: nn.conv1d(x, w, b, padding=(1, 2), strides=2),
        (IMAGE[:, :, 0], KERNEL[..., 0], R.normal(size=8)),
    ),
    "conv1d same": (
        lambda x, w: nn.conv1d(x, w, padding="same", dilation=2, data_layout="NWC"),
        (IMAGE[:, 0], R.normal(size=(3, 6, 5))),
    ),
    "conv3d": (
        lambda x, w, b: nn.conv3d(x, w, b, padding=(1, 0, 1), groups=2),
        (R.normal(size=(1, 4, 3, 5, 4)), R.normal(size=(6, 2, 2, 3, 1)), np.ones(6)),
    ),
    "conv_transpose": (
        lambda x, w, b: nn.conv_transpose(x, w, b, strides=2, padding=1, output_padding=1),
        (IMAGE, KERNEL[:4, :3], np.arange(3)),
    ),
    "conv1d_transpose": (
        lambda x, w: nn.conv1d_transpose(x, w, strides=3),
        (IMAGE[:, :, 0], KERNEL[:4, 0]),
    ),
    "conv2d_transpose": (
        lambda x, w: nn.conv2d_transpose(x, w, data_layout="NHWC", dilation=(2, 1)),
        (IMAGE.transpose(0, 2, 3, 1).copy(), KERNEL[:4]),
    ),
    "conv3d_transpose": (
        lambda x, w: nn.conv3d_transpose(x, w, strides=(1, 2, 1), groups=2),
        (R.normal(size=(1, 4, 3, 2, 4)), R.normal(size=(4, 2, 2, 3, 1))),
    ),
    "max_pool": (lambda x: nn.max_pool(x, 3, padding="same", strides=1), (IMAGE,)),
    "max_pool1d": (lambda x: nn.max_pool1d(x, 2, ceil_mode=True), (IMAGE[0],)),
    "max_pool3d": (lambda x: nn.max_pool3d(x, (1, 2, 3)), (IMAGE[None],)),
    "avg_pool": (lambda x: nn.avg_pool(x, 2, layout="NWC", padding=(0, 1)), (IMAGE[0],)),
    "avg_pool1d": (lambda x: nn.avg_pool1d(x, 3, layout="NWC"), (IMAGE[0],)),
    "avg_pool3d": (lambda x: nn.avg_pool3d(x, 2, padding=1), (IMAGE[None],)),
    "sum_pool1d": (lambda x: nn.sum_pool1d(x, 3), (IMAGE[0],)),
    "sum_pool2d": (lambda x: nn.sum_pool2d(x, 3, padding=1), (IMAGE,)),
    "sum_pool3d": (lambda x: nn.sum_pool3d(x, 2), (IMAGE[None],)),
    "lp_pool": (lambda x: nn.lp_pool(x, 2, 3.0, padding=1), (IMAGE,)),
    "max_pool_with_indices": (
        lambda x: nn.max_pool_with_indices(x, 3, strides=2, padding=1)[0],
        (IMAGE,),
    ),
    "adaptive_avg_pool": (lambda x: nn.adaptive_avg_pool(x, (3, 4)), (IMAGE,)),
    "adaptive_max_pool": (lambda x: nn.adaptive_max_pool(x, 3), (IMAGE,)),
    "max_pool2d": (lambda x: nn.max_pool2d(x, 2), (IMAGE,)),
    "max_pool2d padded": (lambda x: nn.max_pool2d(x, 3, strides=2, padding=1), (IMAGE,)),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, (2, 3), strides=1), (IMAGE,)),
    "avg_pool2d padded": (
        lambda x: nn.avg_pool2d(x, 3, padding=1, count_include_pad=True),
        (IMAGE,),
    ),
    "global_avg_pool2d": (nn.global_avg_pool2d, (IMAGE,)),
    "global_max_pool2d": (nn.global_max_pool2d, (IMAGE,)),
    "lstm": (
        lambda x, w, r, b: nn.lstm(x, w, r, b, lengths=np.array([2, 4]), reverse=True)[0],
        (R.normal(size=(4, 2, 3)), R.normal(size=(20, 3)), R.normal(size=(20, 5)), np.ones(20)),
    ),
    "gru": (
        lambda x, w, r: nn.gru(x, w, r, h=np.ones((2, 5)), reset_after=False)[1],
        (R.normal(size=(4, 2, 3)), R.normal(size=(15, 3)), R.normal(size=(15, 5))),
    ),
    "rnn": (
        lambda x, w, r, b: nn.rnn(x, w, r, b, activation="leakyrelu", alpha=0.1, clip=0.5)[0],
        (R.normal(size=(4, 2, 3)), R.normal(size=(5, 3)), R.normal(size=(5, 5)), np.ones(5)),
    ),
    "top_k_indices": (lambda x: nn.top_k_indices(x, 3), (X,)),
    "quantize": (lambda x: nn.quantize(x, 0.1, np.uint8(9)), (X,)),
    "quantize columns": (lambda x, s: nn.quantize(x, s, 3, axis=0, dtype=np.int16), (X, VAR[:2])),
    "dequantize": (nn.dequantize, (np.arange(-9, 9, dtype=np.int8), 0.3, np.int8(-4))),
    "dequantize rows": (
        lambda x, s, z: nn.dequantize(x, s, z, axis=0),
        (np.arange(8, dtype=np.uint8).reshape(4, 2), VAR, np.uint8([0, 3, 9, 255])),
    ),
    "pad": (lambda x: nn.pad(x, 1, value=3), (X,)),
    "one_hot": (lambda i: nn.one_hot(i, 4), (np.array([3, 0, 2]),)),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_agrees_with_plain(name: str) -> None:
    function, args = CASES[name]
    plain = function(*args)
    compiled = lw.compile(lambda *xs: function(*xs))(*args)
    assert compiled.dtype == plain.dtype
    np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "scale", [0.0, np.inf, np.nan, np.float32([1, 0]), np.float32([np.nan, 1])]
)
def test_scales_that_say_nothing_are_refused(scale: Any) -> None:
    x = np.ones((3, 2), np.float32)
    with pytest.raises(lw.LoopwrightValueError, match=r"a scale is (0\.0|inf|nan)"):
        nn.quantize(x, scale)
    with pytest.raises(lw.LoopwrightValueError, match=r"a scale is (0\.0|inf|nan)"):
        lw.compile(lambda x: nn.quantize(x, scale))(x)
    if not np.isfinite(scale).all():
        with pytest.raises(lw.LoopwrightValueError, match=r"a scale is (inf|nan)"):
            nn.dequantize(x.astype(np.int8), scale)


def test_every_function_is_tried() -> None:
    tests = Path(__file__).parents[2].rglob("test_*.py")
    others = [path for path in tests if path != Path(__file__)]
    tried = " ".join([*CASES, *(path.read_text() for path in others)])
    by_hand = set(nn.__all__) - set(nn._DECLARED)  # operators are tried on their samples
    assert not [name for name in by_hand if name not in tried]


def test_softmax_by_its_formula() -> None:
    e = np.exp(X - X.max(-1, keepdims=True))
    np.testing.assert_allclose(nn.softmax(X), e / e.sum(-1, keepdims=True), rtol=1e-6)


def test_layer_norm_by_its_formula() -> None:
    centred = X - X.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * G + B
    np.testing.assert_allclose(nn.layer_norm(X, G, B), expected, rtol=1e-5, atol=1e-6)


def test_conv2d_by_its_formula() -> None:
    got = nn.conv2d(IMAGE, KERNEL, strides=2, padding=1)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    expected = np.einsum("nchwij,ocij->nohw", windows, KERNEL)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_layer_norm_of_symbolic_width() -> None:
    text = lw.compile(lambda x: nn.layer_norm(x)).trace(lw.f32[4, "n"]).as_text(spans=False)
    assert "full(shape=[n], fill_value=1.0)" in text


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_other_ranks_by_their_formula(rank: int) -> None:
    x = R.normal(size=(2, 4, 7, 6, 5)[: rank + 2])
    w = R.normal(size=(6, 2, 3, 2, 3)[: rank + 2])
    got = nn.conv(x, w, strides=2, dilation=2, padding=2, groups=2)
    spread = tuple(2 * size - 1 for size in w.shape[2:])
    axes = tuple(range(2, rank + 2))
    x = np.pad(x, ((0, 0), (0, 0), *((2, 2),) * rank))
    windows = np.lib.stride_tricks.sliding_window_view(x, spread, axis=axes)
    windows = windows[(..., *(slice(None, None, 2),) * rank)]
    windows = windows[(slice(None), slice(None), *(slice(None, None, 2),) * rank)]
    left, right = (np.einsum("nc...i,oci->no...", _flat(a, rank), _flat(b, rank))
                   for a, b in ((windows[:, :2], w[:3]), (windows[:, 2:], w[3:])))  # fmt: skip
    np.testing.assert_allclose(got, np.concatenate([left, right], axis=1), atol=1e-12)


def test_norms_of_groups_by_their_formula() -> None:
    x, gamma, beta = (a.astype(np.float64) for a in (IMAGE, GAMMA, BETA))
    blocks = x.reshape(2, 2, -1)
    spread = np.sqrt(blocks.var(2, keepdims=True) + 1e-5)
    unit = ((blocks - blocks.mean(2, keepdims=True)) / spread).reshape(x.shape)
    expected = unit * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(nn.group_norm(x, 2, gamma, beta), expected, atol=1e-12)
    spread = np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    unit = (x - x.mean((2, 3), keepdims=True)) / spread
    np.testing.assert_allclose(nn.instance_norm(x), unit, atol=1e-12)
    squares = np.pad(x * x, ((0, 0), (1, 2), (0, 0), (0, 0)))
    total = sum(squares[:, k : k + 4] for k in range(4))
    expected = x / (2 + 0.25 * total) ** 0.5
    np.testing.assert_allclose(nn.local_response_norm(x, 4, 1.0, 0.5, 2.0), expected, atol=1e-12)


def test_an_lstm_by_its_formula() -> None:
    x, w, r = R.normal(size=(6, 2, 3)), R.normal(size=(20, 3)), R.normal(size=(20, 5))
    bias = R.normal(size=20)
    h, c = np.zeros((2, 5)), np.zeros((2, 5))

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    for step in x:
        i, f, g, o = np.split(step @ w.T + h @ r.T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    for function in (nn.lstm, lw.compile(nn.lstm)):
        outputs, last_h, last_c = function(x, w, r, bias)
        np.testing.assert_allclose(outputs[-1], h, atol=1e-12)
        np.testing.assert_allclose(last_h, h, atol=1e-12)
        np.testing.assert_allclose(last_c, c, atol=1e-12)


def test_a_gru_by_its_formula() -> None:
    x, w, r = R.normal(size=(6, 2, 3)), R.normal(size=(15, 3)), R.normal(size=(15, 5))
    inner, outer = R.normal(size=15), R.normal(size=15)
    h = np.zeros((2, 5))
    for step in x:
        ours, theirs = np.split(step @ w.T + outer, 3, 1), np.split(h @ r.T + inner, 3, 1)
        reset, update = (1 / (1 + np.exp(-a - b)) for a, b in zip(ours[:2], theirs[:2]))
        h = (1 - update) * np.tanh(ours[2] + reset * theirs[2]) + update * h
    _, last = lw.compile(lambda x: nn.gru(x, w, r, outer, inner))(x)
    np.testing.assert_allclose(last, h, atol=1e-12)


def test_a_sequence_ends_where_its_length_says() -> None:
    x, w, r = R.normal(size=(6, 2, 3)), R.normal(size=(20, 3)), R.normal(size=(20, 5))
    for reverse in (False, True):
        both, h, c = nn.lstm(x, w, r, lengths=np.array([3, 6]), reverse=reverse)
        alone, h_alone, c_alone = nn.lstm(x[:3, :1], w, r, reverse=reverse)
        np.testing.assert_allclose(both[:3, :1], alone, atol=1e-12)
        np.testing.assert_allclose(both[3:, 0], 0)
        np.testing.assert_allclose(h[:1], h_alone, atol=1e-12)
        np.testing.assert_allclose(c[:1], c_alone, atol=1e-12)


def test_positions_of_the_greatest_elements() -> None:
    x = np.round(R.normal(size=(2, 3, 9, 8)) * 2)
    x[0, 0] = -np.inf
    x[0, 1, 4, 4] = np.nan

    def pooled(x: Any) -> Any:
        return nn.max_pool_with_indices(x, 3, strides=2, padding=1, dilation=2, ceil_mode=True)

    values, places = pooled(x)
    flat = np.take_along_axis(x.reshape(2, 3, -1), places.reshape(2, 3, -1), axis=2)
    np.testing.assert_array_equal(flat.reshape(values.shape), values)
    for array, expected in zip(lw.compile(pooled)(x), (values, places), strict=True):
        np.testing.assert_array_equal(array, expected)
    _, ties = nn.max_pool_with_indices(np.zeros((1, 1, 4, 4), np.uint8), 3, strides=1, padding=1)
    assert ties[0, 0].tolist() == [[0, 0, 1, 2], [0, 0, 1, 2], [4, 4, 5, 6], [8, 8, 9, 10]]


def test_adaptive_windows_by_their_formula() -> None:
    for count in (1, 2, 3, 4, 5):
        windows = [(i * 7 // count, -(-(i + 1) * 7 // count)) for i in range(count)]
        means = [IMAGE[:, :, a:b].mean(axis=2) for a, b in windows]
        np.testing.assert_allclose(
            nn.adaptive_avg_pool(IMAGE, (count, 6)), np.stack(means, axis=2), rtol=1e-5, atol=1e-6
        )
        greatest = [IMAGE[:, :, a:b].max(axis=2) for a, b in windows]
        got = nn.adaptive_max_pool(IMAGE, (count, 6))
        np.testing.assert_array_equal(got, np.stack(greatest, axis=2))


def _flat(x: Any, rank: int) -> Any:
    return x.reshape(*x.shape[:-rank], -1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.conv2d(IMAGE, KERNEL, padding="full"), "neither"),
        (lambda: nn.conv2d(IMAGE, KERNEL, padding=(1, 2, 3)), "padding is 1, 2 or 4 ints"),
        (lambda: nn.conv2d(IMAGE, KERNEL, strides=(1, 2, 3)), "strides is one int or two"),
        (lambda: nn.conv2d(IMAGE, KERNEL, padding="same", strides=2), "needs strides of 1"),
        (lambda: nn.conv2d(IMAGE, KERNEL[:, :3]), "channels"),
        (lambda: nn.conv1d(IMAGE, KERNEL), "needs the three axes NCW"),
        (lambda: nn.conv(X, KERNEL), "images have 3 to 5 axes, not 2"),
        (lambda: nn.conv(IMAGE, KERNEL, data_layout="CHW"), "is none of NCW, NWC, NCHW"),
        (lambda: nn.conv(IMAGE, KERNEL, padding=(1, 2, 3)), "padding is 1, 2 or 4 ints"),
    ],
)
def test_misuse(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        call()


def test_a_mistake_in_a_conversion_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ValueError from inside of a conversion was taken for an argument of another kind."""

    def broken(value: Any) -> int:
        return int("one")

    with monkeypatch.context() as patch:
        patch.setitem(argument_conversion.KINDS, "int", (broken, "an int"))
        with pytest.raises(ValueError, match="invalid literal") as caught:
            nn.softmax(X, axis=1)
    assert not isinstance(caught.value, lw.LoopwrightError)
    for axis in (1.5, "1", None, np.float32(1), [1], X):
        with pytest.raises(lw.LoopwrightTypeError):
            nn.log_softmax(X, axis=axis)
