"""No kernel runs in each call on constants only, and what was folded has NumPy's values."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Call, Constant, GlobalVar
from loopwright.ir.graph.pipeline import default_pipeline

PROGRAMS = {
    "eye": lambda x: x @ lw.xp.eye(96, dtype=lw.xp.float32),
    "identity": lambda x: (x @ np.identity(96, np.float32) * 2, lw.xp.eye(3)),
    "positions": lambda x: x + np.sin(_angles()),
    "decay": lambda x: x * 0.5 ** _ramp(96),
    "window": lambda x: x * _hann(),
    "powers": lambda x: x @ (_ramp(96)[:, None] / 96) ** _ramp(4),
    "toeplitz": lambda x: x[:, :40] @ np.exp(-abs(_differences()) / 7),
    "mask": lambda x: np.where(_differences() > 3, x[:, :1], x[:, 1:2] * 2),
    "large": lambda x: np.where(lw.xp.arange(300)[:, None] > lw.xp.arange(700), x[0, 0], -1e9),
    "gathered": lambda x: x[:, (lw.xp.arange(48) * 37) % 96],
    "counted": lambda x: x * lw.xp.sum(lw.xp.arange(70000) % 3),
}


def _angles() -> Any:
    return _ramp(40)[:, None] * 10000.0 ** (_ramp(96) / -96)


def _hann() -> Any:
    return 0.5 - 0.5 * np.cos(2 * np.pi * _ramp(96) / 95)


def _differences() -> Any:
    return _ramp(40)[:, None] - _ramp(96)


def _ramp(size: int) -> Any:
    return lw.xp.arange(size, dtype=lw.xp.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_kernel_reads_constants_only(name: str) -> None:
    x = np.random.default_rng(3).standard_normal((40, 96)).astype(np.float32)
    module = lw.compile(PROGRAMS[name]).trace(x).module
    lowered = module
    for one in default_pipeline():
        lowered = one(lowered)
    calls = [b.value for b in lowered.main.body.bindings]
    assert not [
        str(call.op)
        for call in calls
        if isinstance(call, Call)
        and isinstance(call.op, GlobalVar)
        and all(isinstance(a, Constant) for a in call.args)
    ]
    used = {
        call.op.name for call in calls if isinstance(call, Call) and isinstance(call.op, GlobalVar)
    }
    assert {*lowered.functions} == {"main", *used}
    before, after = evaluate(module, x), evaluate(lowered, x)
    compiled = lw.compile(PROGRAMS[name], threads=1)(x)
    for expected, folded, made in zip(
        _leaves(before), _leaves(after), _leaves(compiled), strict=True
    ):
        np.testing.assert_allclose(folded, expected, rtol=2e-6, atol=2e-5)
        np.testing.assert_allclose(made, expected, rtol=2e-5, atol=2e-4)


def _leaves(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple) else [result]


def test_a_big_and_cheap_result_is_made_in_place() -> None:
    f = lw.compile(lambda x: (x, lw.xp.zeros((400, 400)), np.exp(_ramp(100_000) / 1e5)), threads=1)
    x = np.ones(3, np.float32)
    first, second = f(x), f(x)
    second[1][...] = 7
    np.testing.assert_array_equal(first[1], 0)
    np.testing.assert_array_equal(f(x)[1], 0)
    np.testing.assert_allclose(first[2], np.exp(np.arange(100_000) / 1e5), rtol=1e-6)
    assert "exp" not in f.lower(x).as_text("kernels").split("@main")[1].split("def ")[0]
