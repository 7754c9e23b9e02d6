"""Is B faster than A? One statistic says so, and equals are told from chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loopwright.autotune.comparison import COMPARISON, compare
from loopwright.autotune.record import robust_seconds


def rounds(seed: int, count: int, true: float) -> np.ndarray:
    """Two candidates, the second ``true`` times faster; a quarter of the samples is disturbed."""
    rng = np.random.default_rng(seed)
    samples = 1 + np.abs(rng.normal(0, 0.03, (2, count)))
    hit = rng.random((2, count)) < 0.25
    samples[hit] *= 1 + rng.exponential(0.6, hit.sum())
    samples[1] /= true
    return samples


def verdicts(count: int, true: float) -> tuple[float, float]:
    """How often the second one is called faster, and slower."""
    found = [compare(rounds(seed, count, true)) for seed in range(200)]
    return float(np.mean([v.faster for v in found])), float(np.mean([v.slower for v in found]))


@pytest.mark.parametrize("count, most", [(4, 0.12), (8, 0.06), (24, 0.03)])
def test_equal_candidates_are_rarely_called_different(count: int, most: float) -> None:
    assert max(verdicts(count, 1.0)) <= most


@pytest.mark.parametrize("count, least", [(8, 0.6), (24, 0.9)])
def test_a_gain_of_three_percent_is_found_on_a_busy_machine(count: int, least: float) -> None:
    faster, slower = verdicts(count, 1.03)
    assert faster >= least and slower <= 0.01


def test_a_drift_that_meets_both_changes_nothing() -> None:
    drift = np.array([1.0, 1.0, 2.0, 2.1, 2.0, 1.0, 1.0, 1.1])
    assert compare([drift, 0.9 * drift]).faster
    assert compare([0.9 * drift, drift]).slower


def test_a_tie_goes_to_the_one_that_was_there_first() -> None:
    equal = compare([[1.0] * 6, [0.99] * 6])
    assert not equal.faster and not equal.slower and equal.best == 0
    apart = compare([[1.0] * 6, [0.98] * 6])
    assert apart.faster and apart.best == 1
    # Both calls are shorter than what the clock can tell apart.
    assert not compare([[3e-8] * 6, [2e-8] * 6]).faster


def test_the_time_is_that_of_a_record_and_the_verdict_is_always_the_same() -> None:
    samples = rounds(3, 9, 1.1)
    first, second = compare(samples), compare(samples)
    assert first.seconds.tolist() == [robust_seconds(tuple(s)) for s in samples]
    assert (first.drawn == second.drawn).all()
    assert compare([samples[0], samples[1][:5]]).drawn.shape == (2, COMPARISON.draws)


def test_the_numbers_are_settings() -> None:
    generous = replace(COMPARISON, tie=1.5)
    assert not compare([[1.0] * 4, [0.7] * 4], generous).faster
