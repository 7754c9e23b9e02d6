"""``lw.prim``: functions of tensor expressions, called like operators, and fused like them."""

import loopwright as lw
import numpy as np
import pytest
from loopwright import te
from loopwright.ir.errors import ScheduleError
from loopwright.schedule import Schedule, parallel, reorder, split, unroll, vectorize

n, m, d = map(lw.Dim, "nmd")


@lw.prim
def rms_norm(x: lw.f32[n, m], gain: lw.f32[m]):
    rows, row = x.shape
    mean = te.sum((rows,), row, lambda i, k: x[i, k] * x[i, k] / row)
    return te.map((rows, row), lambda i, j: x[i, j] / te.sqrt(mean[i] + 1e-6) * gain[j])


def numpys(x, gain):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6) * gain


def test_it_prints_as_a_primfunc_and_computes_on_arrays():
    assert "t0[i]: float32[n] = sum(k: m) (x[i, k] * x[i, k]) / float32(index(m))" in str(rms_norm)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(rms_norm(x, np.ones(3, np.float32)), numpys(x, 1), rtol=1e-5)


def test_neighbours_fuse_with_its_stages():
    def layer(x, gain):
        return np.maximum(rms_norm(x * 2, gain), 0)

    compiled = lw.compile(layer, dynamic={"x": {0: "n"}})
    rng = np.random.default_rng(0)
    for rows in (3, 0, 1, 9):
        x = rng.standard_normal((rows, 5), np.float32)
        gain = rng.standard_normal(5, np.float32)
        wanted = np.maximum(numpys(x * 2, gain), 0)
        np.testing.assert_allclose(compiled(x, gain), wanted, rtol=1e-4, atol=1e-5)
    assert compiled.cache_info().misses == 1
    text = compiled.lower(x, gain).as_text("program")
    assert text.count("call ") == 1


def test_a_contraction_takes_what_follows_along():
    @lw.prim
    def product(x: lw.f32[n, d], w: lw.f32[d, m]):
        shape = x.shape[0], w.shape[1]
        return te.sum(shape, x.shape[1], lambda i, j, k: x[i, k] * w[k, j])

    compiled = lw.compile(lambda x, w, b: np.tanh(product(x, w) + b))
    x, w, b = np.ones((4, 3), np.float32), np.ones((3, 5), np.float32), np.ones(5, np.float32)
    np.testing.assert_allclose(compiled(x, w, b), np.tanh(x @ w + b), rtol=1e-5)
    assert compiled.lower(x, w, b).as_text("program").count("call ") == 1


def test_a_schedule_makes_it_a_kernel_of_its_own():
    steps = [split("i", (4, 4)), split("j", (2, 8)), reorder("i.0", "j.0", "k", "i.1", "j.1")]
    more = [unroll("i.1"), vectorize("j.1"), parallel("i.0")]

    @lw.prim(schedule=Schedule.of(*steps, *more))
    def product(x: lw.f32[n, d], w: lw.f32[d, m]):
        shape = x.shape[0], w.shape[1]
        return te.sum(shape, x.shape[1], lambda i, j, k: x[i, k] * w[k, j])

    compiled = lw.compile(lambda x, w: product(x, w) + 1, dynamic={"x": {0: "i"}})
    for rows in (3, 0, 17):
        x, w = np.ones((rows, 3), np.float32), np.ones((3, 20), np.float32)
        np.testing.assert_allclose(compiled(x, w), x @ w + 1)
    text = compiled.lower(x, w).as_text("graph")
    assert "prim @product(" in text and "schedule @product {" in text


def test_places_conditions_and_several_results():
    @lw.prim
    def shifted(x: lw.f64[n]):
        (size,) = x.shape
        left = te.map(size, lambda i: te.where(i < size - 1, x[te.minimum(i + 1, size - 1)], 0.0))
        return left, te.max((), size, lambda k: abs(left[k] - 2 * x[k]))

    x = np.random.default_rng(0).standard_normal(7)
    wanted = np.append(x[1:], 0)
    for function in (shifted, lw.compile(lambda x: shifted(x))):
        left, most = function(x)
        np.testing.assert_allclose(left, wanted)
        np.testing.assert_allclose(most, np.abs(wanted - 2 * x).max())


def test_misuse_is_told():
    x, gain = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    with pytest.raises(lw.LoopwrightTypeError, match=r"gain is float32\[m\], not float32\[4\]"):
        lw.compile(lambda x, gain: rms_norm(x, gain))(x, gain)
    with pytest.raises(lw.LoopwrightTypeError, match=r"x is float32\[n, m\], not float64"):
        lw.compile(lambda x, gain: rms_norm(x, gain))(x.astype(np.float64), gain)
    with pytest.raises(lw.LoopwrightTypeError, match="a part of functions at the level of loops"):
        te.map(3, lambda i: i)
    with pytest.raises(lw.LoopwrightTypeError, match="the parameter x has no spec"):
        lw.prim(lambda x: x)(x)
    with pytest.raises(ScheduleError, match="no loop"):
        lw.prim(rms_norm.__wrapped__, schedule=Schedule.of(unroll("q")))(x, gain[:3])
