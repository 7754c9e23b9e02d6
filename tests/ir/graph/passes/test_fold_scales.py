"""Factors and summands around contractions go into constant weights, or behind the contraction."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.passes.fold_scales import fold_scales

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 1.5, shape).astype(np.float32)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_batch_normalisation_behind_a_convolution(padding, layout, groups) -> None:
    x, w = drawn(1, 6, 9, 8), drawn(12, 6 // groups, 3, 3)
    gamma, beta, mean, var = (drawn(12) for _ in range(4))
    axis = layout.index("C")
    if axis == 3:
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)

    def f(x):
        y = lw.nn.conv2d(x, w, padding=padding, groups=groups, data_layout=layout)
        return lw.nn.relu(lw.nn.batch_norm(y, gamma, beta, mean, var, axis=axis))

    compiled = lw.compile(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-4, atol=1e-4)
    text = compiled.lower(x).as_text("kernels")
    assert text.count("multiply(") == 0 and text.count("subtract(") == 0


def test_normalisation_in_primitives_before_and_after_a_product() -> None:
    x, w, c, d = drawn(4, 6), drawn(6, 8), drawn(6), drawn(8)

    def f(x):
        return (((x - c) / c + 2) @ w - d) * d / 3 + c[0]

    compiled = lw.compile(f)
    np.testing.assert_allclose(compiled(x), f(x), rtol=1e-4, atol=1e-4)
    text = compiled.lower(x).as_text("kernels")
    assert len(compiled.lower(x).built.kernels) == 1
    assert text.count("multiply(") == 0 and text.count(" = add(") + text.count(" add(") == 1


def test_a_summand_in_front_of_padding_stays() -> None:
    x, w, c = drawn(1, 3, 6, 6), drawn(4, 3, 3, 3), drawn(1, 3, 1, 1)
    f = lw.compile(lambda x: lw.nn.conv2d((x + c) * c, w, padding=1))
    expected = lw.nn.conv2d((x + c) * c, w, padding=1)
    np.testing.assert_allclose(f(x), expected, rtol=1e-4, atol=1e-4)


def test_scaled_queries_and_keys_are_scaled_as_scores() -> None:
    check_pass(
        fold_scales,
        before="""fn (%q: Tensor[(2, 8, 4), float32], %k: Tensor[(2, 8, 4), float32]) {
          %0 = multiply(%q, 0.5f);
          %1 = multiply(%k, 0.25f);
          %2 = transpose(%1, axes=[0, 2, 1]);
          nn.matmul(%0, %2)
        }""",
        after="""fn (%q: Tensor[(2, 8, 4), float32], %k: Tensor[(2, 8, 4), float32]) {
          %0 = transpose(%k, axes=[0, 2, 1]);
          %1 = nn.matmul(%q, %0);
          multiply(%1, 0.125f)
        }""",
    )


@pytest.mark.parametrize(
    "text",
    [
        # The product is needed unscaled, too.
        """fn (%x: Tensor[(4, 5), float32]) {
          %0 = nn.matmul(%x, meta[w]);
          %1 = multiply(%0, 2f);
          add(%0, %1)
        }""",
        # One summand is what an epilogue adds anyway.
        """fn (%x: Tensor[(4, 5), float32]) {
          %0 = nn.matmul(%x, meta[w]);
          add(%0, 2f)
        }""",
        # Rows are no channels.
        """fn (%x: Tensor[(6, 5), float32]) {
          %0 = nn.matmul(%x, meta[w]);
          multiply(%0, meta[rows])
        }""",
        # Sums of half floats without their scale could overflow. Integers wrap around.
        """fn (%x: Tensor[(4, 5), int32], %y: Tensor[(5, 4), int32]) {
          %0 = multiply(%x, 2);
          nn.matmul(%0, %y)
        }""",
    ],
)
def test_what_is_left(text: str) -> None:
    program = parse(text, constants={"w": drawn(5, 6), "rows": drawn(6, 1)})
    assert fold_scales(program) is program


def test_shared_weights_are_scaled_once() -> None:
    w, c = drawn(8, 8), drawn(8)
    program = lw.compile(lambda x: ((x @ w * c) @ w * c) @ w * c)
    x = drawn(3, 8)
    expected = ((x @ w * c) @ w * c) @ w * c
    np.testing.assert_allclose(program(x), expected, rtol=1e-4)
    assert len(program.lower(x).built.kernels) == 1


NARROW = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "float16": np.float16}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("dense", [False, True])
def test_scales_of_narrow_weights_move_behind_the_product(dtype, zero, dense) -> None:
    codes = RNG.integers(0, 100, (256, 300)).astype(NARROW[dtype])
    scales, x = drawn(300), drawn(3, 256)

    def f(x):
        w = lw.xp.astype(lw.xp.asarray(codes.T if dense else codes), np.float32)
        w = w - np.float32(zero) if zero else w
        return x @ (w * scales[:, None]).T if dense else x @ (w * scales)

    compiled = lw.compile(f)
    exact = x.astype("d") @ ((codes.astype("d") - zero) * scales)
    np.testing.assert_allclose(compiled(x), exact, rtol=1e-5, atol=1e-3)
    text = compiled.lower(x).as_text("kernels")
    assert f"(256, 300), {dtype}]" in text or f"(300, 256), {dtype}]" in text
    assert "t0[i, j] * x" in text


@pytest.mark.parametrize("scale", [np.inf, np.nan])
def test_scales_that_are_not_finite_stay_where_they_are(scale) -> None:
    codes, scales = RNG.integers(-5, 5, (256, 300)).astype(np.int8), drawn(300)
    scales[7], x = scale, drawn(3, 256)

    def f(x):
        return x @ (lw.xp.astype(lw.xp.asarray(codes), np.float32) * scales)

    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(lw.compile(f)(x), x @ (codes * scales), rtol=1e-4, atol=1e-3)
