"""The script that measures calls, forks and wakes runs and tells plausible figures."""

from __future__ import annotations

from loopwright.codegen.runtime import pool

from bench.overheads import overheads


def test_every_row_has_a_figure() -> None:
    before = pool.get_threads()
    found = {name: figure for name, figure, _ in overheads(threads=2, rounds=2)}
    assert [*found] == [
        "call",
        "call with its own threads",
        "call with a list of 20",
        "call with dicts of 8",
        "call with dicts of 20",
        "call with 20 in and out",
        "call of a method",
        "call with three sizes",
        "numpy.add",
        "fork and join",
        "wake",
        "alone",
        "idle, per second",
        "result of 64 MB",
    ]
    assert 0 < found["call"] < 1000
    assert found["result of 64 MB"] < 100, "page faults: results are not recycled"
    assert pool.get_threads() == before
