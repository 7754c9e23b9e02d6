"""``f.map`` and ``f.submit``: calls at the same time, their order, errors and arguments."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import loopwright as lw
import numpy as np
import pytest


@lw.compile(threads=2)
def scaled(x: Any, by: Any = 2.0) -> Any:
    return x * by


def test_results_come_in_the_order_of_their_arguments() -> None:
    batches = [np.full(4, n, np.float32) for n in range(50)]
    got = [*scaled.map(iter(batches))]
    assert [y.tolist() for y in got] == [[2.0 * n] * 4 for n in range(50)]
    x = batches[1]
    one, two, three = scaled.map([x, (x, 3.0), {"x": x, "by": 4.0}], streams=1)
    assert (one[0], two[0], three[0]) == (2, 3, 4)


def test_batches_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Any]:
        for n in range(10**9):
            taken.append(n)
            yield np.full(2, n, np.float32)

    results = scaled.map(endless(), streams=2)
    assert [float(next(results)[0]) for _ in range(3)] == [0, 2, 4]
    results.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert len(taken) < 12


def test_streams_run_at_the_same_time_on_a_share_of_the_threads() -> None:
    both = threading.Barrier(2, timeout=30)

    @lw.extern(results=lambda x: x)
    def met(x: Any) -> Any:
        both.wait()
        return x

    meeting = lw.compile(lambda x: met(x) + 1, threads=2)
    assert [float(y[0]) for y in meeting.map([np.zeros(1)] * 4, streams=2)] == [1] * 4


def test_an_error_comes_in_the_place_of_its_result() -> None:
    results = scaled.map([np.ones(2), (np.ones(2), np.ones(3))])
    assert next(results).tolist() == [2, 2]
    with pytest.raises(lw.LoopwrightTypeError, match="do not broadcast"):
        next(results)
    with pytest.raises(lw.LoopwrightValueError, match="streams=3: they share the 2 threads"):
        scaled.map([], streams=3)


def test_futures_are_awaited_in_programs_of_events() -> None:
    async def answers() -> list[Any]:
        waiting = [asyncio.wrap_future(scaled.submit(np.full(1, n))) for n in range(5)]
        return await asyncio.gather(*waiting)

    assert [float(y[0]) for y in asyncio.run(answers())] == [0, 2, 4, 6, 8]
