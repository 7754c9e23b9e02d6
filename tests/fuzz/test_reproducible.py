"""``precision="reproducible"``: a row has the same bits whatever is beside it and runs it."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.sum_order import plain_schedule
from loopwright.driver.pipeline import kernels_of, lower_module, preferences_of, target_of
from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.steps import Schedule, rfactor, split
from page_borders import HOST, LEVELS
from reproducible_trial import MODE, Way, trial, trial_of_text

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_have_the_same_bits(seed: int) -> None:
    first, last = LEVELS[0], LEVELS[-1]
    ways = [Way(1, last, 2, 1), Way(7, first, 1, seed % 2), Way(64, last, 4, 2)]
    assert not trial(seed, ways)


def test_schedules_do_not_choose_functions() -> None:
    """Exponentials of a fused softmax are other functions in standard precision."""
    assert not trial(103, [Way(64, LEVELS[-1], 1, 1)])


def test_text_for_avx512_gives_the_same_bits() -> None:
    assert not trial_of_text(8)


@pytest.mark.parametrize("name", ["cumsum", "softmax"])
def test_a_single_long_row_is_one_of_many(name: str) -> None:
    def run(x):
        return np.cumsum(x, axis=1) if name == "cumsum" else lw.nn.softmax(x, axis=1)

    rows = RNG.standard_normal((9, 3000 if name == "cumsum" else 40_000)).astype(np.float32)
    compiled = lw.compile(run, precision=MODE)
    assert np.array_equal(compiled(rows)[:1], compiled(rows[:1]))


def test_another_order_of_terms_is_refused() -> None:
    arrays = [np.ones(s, np.float32) for s in ((4, 64), (64, 8))]
    target = target_of(HOST, MODE)
    module = lower_module(
        lw.compile(lambda x, w: x @ w).trace(*arrays).module, preferences_of(MODE, target)
    )
    (prim,) = kernels_of(module).values()
    other = Schedule((split("k", (8, 8)), rfactor("out", "k.1")))
    compile_kernel(prim, plain_schedule(prim), target)
    compile_kernel(prim, other, HOST)
    with pytest.raises(ScheduleError, match="order"):
        compile_kernel(prim, other, target)
