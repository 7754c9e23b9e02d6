"""The compiler in one file (examples/auto_loopwright.py) computes what NumPy does at all levels."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import auto_loopwright as auto

pytest.importorskip("xgboost")


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def deviation(x: Any) -> Any:
    centred = x - x.sum(axis=-1, keepdims=True) / 24.0
    return (centred * centred).sum(axis=-1, keepdims=True) / 24.0


CASES: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (layer, ((8, 6), (6, 32), (32,))),
    (layer, ((7, 5), (5, 3), (3,))),
    (softmax, ((6, 32),)),
    (deviation, ((9, 24),)),
    (lambda x, y: x @ y @ y, ((4, 16), (16, 16))),
    (lambda x, y: 2 * (x - y) / (y * y + 1), ((3, 4, 8), (4, 1))),
]


def drawn(shapes: tuple[tuple[int, ...], ...], rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_graph_nest_and_code_mean_what_numpy_computes(case: int, rng: np.random.Generator) -> None:
    function, shapes = CASES[case]
    arrays = drawn(shapes, rng)
    expected = function(*(a.astype(np.float64) for a in arrays))
    compiled = auto.compile(function)
    near = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(auto.evaluate(compiled.graph(*shapes), arrays), expected, **near)
    np.testing.assert_allclose(compiled(*arrays), expected, **near)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_any_schedule_of_the_space_is_right(case: int, rng: np.random.Generator) -> None:
    function, shapes = CASES[case]
    for call in auto.compile(function).kernels(*shapes):
        space = auto.Space(call.kernel)
        names = [name for name, _ in call.kernel.buffers]
        arrays = drawn(tuple(shape for _, shape in call.kernel.buffers), rng)
        expected = auto.reference(call.kernel, dict(zip(names, arrays))).copy()
        rows = space.mutate(space.sample(6, rng), rng)
        for row in [*space.default, *rows[:3]]:
            schedule = space.schedule(row)
            assert auto.from_json(auto.to_json(schedule)) == schedule
            nest = auto.apply_schedule(call.kernel, schedule)
            for native in (True, False):
                arrays[-1][...] = np.nan
                if native:
                    auto.Code(nest)(*arrays)
                else:
                    auto.interpret(nest, dict(zip(names, arrays)))
                np.testing.assert_allclose(arrays[-1], expected, rtol=1e-5, atol=1e-5)


def test_operators_share_kernels_as_far_as_they_can() -> None:
    kernels = [str(c.kernel) for c in auto.compile(layer).kernels((8, 6), (6, 32), (32,))]
    assert kernels == [
        "kernel(x0: float32[8, 6], x1: float32[6, 32], x2: float32[32], x3: float32[], "
        "out: float32[8, 32]) over {'i': 8, 'j': 32, 'k': 6} {\n"
        "  t = matmul(k: 6) multiply(x0[i, k], x1[k, j])\n"
        "  out[i, j] = maximum(add(t, x2[j]), x3[])\n}"
    ]
    assert len(auto.compile(softmax).kernels((6, 32))) == 4
    assert len(auto.compile(deviation).kernels((9, 24))) == 3


def test_tuning_is_kept_in_the_log(tmp_path: Path, rng: np.random.Generator) -> None:
    log = tmp_path / "log.jsonl"
    arrays = drawn(((32, 32), (32, 64), (64,)), rng)
    compiled = auto.compile(layer, log=log)
    compiled.tune(*arrays, trials=20)
    (call,) = compiled.kernels(*(a.shape for a in arrays))
    lines = log.read_text().splitlines()
    assert len(lines) == len({*lines}) == 20
    with log.open("a") as file:
        file.write('{"kernel": "torn')
    again = auto.compile(layer, log=log)
    best = again.log.best(call.kernel)
    assert best is not None and best == compiled.schedule(call.kernel)
    np.testing.assert_allclose(again(*arrays), layer(*arrays), rtol=1e-5, atol=1e-5)


def test_what_it_cannot_do_is_said(rng: np.random.Generator) -> None:
    x = drawn(((4, 6),), rng)[0]
    with pytest.raises(TypeError, match=r"inner sizes differ: \(4, 6\) @ \(4, 6\)"):
        auto.compile(lambda x: x @ x)(x)
    with pytest.raises(TypeError, match=r"np.sin \(__call__\) is none of add"):
        auto.compile(np.sin)(x)
    kernel = auto.compile(lambda x: x + 1).kernels((4, 6))[0].kernel
    with pytest.raises(auto.ScheduleError, match="does not divide"):
        auto.apply_schedule(kernel, [auto.Split("j", 4)])


def test_its_examples_run() -> None:
    assert doctest.testmod(auto).failed == 0
