"""Programs with symbolic sizes from end to end, beside NumPy in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 2, 7, 8, 33, 100)

rng = np.random.default_rng(15)
W1 = (rng.random((30, 48)) - 0.5).astype(np.float32)
W2 = (rng.random((48, 10)) - 0.5).astype(np.float32)


def _softmax(y: Array) -> Array:
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def classify(x: Any) -> Any:
    h = np.maximum(x @ W1, 0)
    centred = h - h.mean(-1, keepdims=True)
    h = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return h, _softmax(h @ W2)


def _check(program: Any, function: Any, *args: Array) -> None:
    results, wanted = program(*args), function(*(a.astype(np.float64) for a in args))
    for got, want in zip(results, wanted, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_one_program_serves_all_sizes() -> None:
    lowered = lw.compile(classify).lower(lw.f32["n", 30])
    assert "for n in 0..2147483647 arena" in lowered.as_text("program")
    program = lowered.compile()
    for n in SIZES:
        _check(program, classify, rng.random((n, 30), np.float32))


def test_a_function_that_names_an_axis_is_compiled_once() -> None:
    f = lw.compile(classify, dynamic={"x": {0: "n"}})
    for n in SIZES:
        _check(f, classify, rng.random((n, 30), np.float32))
    assert "1 compiled" in str(f.cache_info())


def test_sizes_may_be_expressions() -> None:
    def gram(x: Any, y: Any) -> Any:
        return (x @ y.T + 1, x[:, 1:] * 2, np.concatenate([x, y]))

    lowered = lw.compile(gram).lower(lw.f32["n", 16], lw.f32["2 * n + 1", 16])
    program = lowered.compile()
    for n in (0, 1, 5, 40):
        x, y = rng.random((n, 16), np.float32), rng.random((2 * n + 1, 16), np.float32)
        _check(program, gram, x, y)


def test_a_saved_program_serves_all_sizes(tmp_path: Path) -> None:
    lw.compile(classify).lower(lw.f32["n", 30]).save(tmp_path / "classify.lw")
    loaded = lw.load(tmp_path / "classify.lw")
    for n in SIZES:
        _check(loaded, classify, rng.random((n, 30), np.float32))
    with pytest.raises(lw.LoopwrightTypeError, match="was compiled for float32"):
        loaded(np.zeros((3, 31), np.float32))


def test_rows_of_an_argument_are_updated() -> None:
    def shift(x: Any, d: Any) -> None:
        x[1:] = x[:-1] + d[1:]

    program = lw.compile(shift).lower(lw.f32["n", 7], lw.f32["n", 7]).compile()
    for n in (1, 2, 33, 1000):
        x, d = rng.random((n, 7), np.float32), rng.random((n, 7), np.float32)
        wanted = x.copy()
        shift(wanted, d)
        program(x, d)
        np.testing.assert_allclose(x, wanted, rtol=1e-6)


def test_libraries_are_called_with_the_shapes_of_the_call() -> None:
    def inverse(a: Any) -> Any:
        return (np.linalg.inv(a + np.eye(4, dtype=np.float32) * 5),)

    program = lw.compile(inverse).lower(lw.f32["n", 4, 4]).compile()
    for n in SIZES:
        _check(program, inverse, rng.random((n, 4, 4), np.float32))
