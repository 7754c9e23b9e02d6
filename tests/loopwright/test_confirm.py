"""What is faster alone and slower in its program is rolled back, for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.program.program_tuner import ProgramResult, TaskResult
from loopwright.autotune.record import MeasureRecord, target_key
from loopwright.autotune.selection.select import Chosen
from loopwright.autotune.workload import workload_of
from loopwright.codegen.target import Target
from loopwright.driver.built import Built
from loopwright.driver.pipeline import build, rebuilt
from loopwright.ir.schedule.steps import Schedule, split
from loopwright.tuning import comparing, graph_choices, in_place, interleaved, last_comparison
from loopwright.tuning import tune as tuning
from loopwright.tuning.at_sizes import random_arrays
from loopwright.tuning.in_place import Kept, keep_faster, with_runners_up
from loopwright.tuning.interleaved import Rounds, kernel_rounds, whole_calls

X = np.random.default_rng(0).random((64, 512), np.float32)


@lw.compile
def net(x):
    return np.tanh(x @ np.ones((512, 64), np.float32)) + 1


MODULE = net.trace(X).module
W, V = np.ones((512, 96), np.float32), np.ones((96, 32), np.float32)
TWO = lw.compile(lambda x: np.maximum(x @ W - 70, 0) @ V + 1).trace(X).module


def made(log: Path) -> Built:
    return build(MODULE, log=log, threads=1)


def planted(built: Built, schedule: Schedule, seconds: float, log: Path) -> None:
    """A record that calls a schedule fast."""
    assert built.parts is not None
    (prim,) = built.parts.prims.values()
    record = MeasureRecord(
        workload_of(prim),
        target_key(Target.host(), 1),
        tuple(schedule.to_json()),
        "planted/1",
        (seconds,) * 3,
    )
    TuningLog(log).append(record)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Schedule], float]], None]:
    """``timed(seconds)`` has kernels take in the program what is said of their schedules."""

    def say(seconds: Callable[[Schedule], float]) -> None:
        def kernels(built: Built) -> dict[str, float]:
            if built.parts is None:  # plain NumPy
                return {"": 1.0}
            prims = built.parts.prims
            return {
                workload_of(prims[n]).hash: seconds(c.schedule) for n, c in built.chosen.items()
            }

        def by_kernel(builds: Sequence[Built], *_: object) -> tuple[Rounds, ...]:
            each = [*map(kernels, builds)]
            once = [Counter([*k]) for k in each]
            return tuple(
                Rounds({w: (s,) * 6 for w, s in k.items()}, c, c) for k, c in zip(each, once)
            )

        def whole(builds: Sequence[Built], *_: object) -> tuple[tuple[float, ...], ...]:
            return tuple((1e-5 + sum(kernels(built).values()),) * 6 for built in builds)

        for module in (in_place, graph_choices, last_comparison, tuning):
            monkeypatch.setattr(module, "kernel_rounds", by_kernel, raising=False)
            monkeypatch.setattr(module, "whole_calls", whole, raising=False)

    return say


def confirm(before: Built, log: Path, seconds: float = 0.2, **options: Any) -> Kept:
    """What is kept of what the log now gives, with the decisions in the log."""
    kept = keep_faster(before, [made(log)], [X], seconds, "main", **options)
    TuningLog(log).append(kept.decisions)
    return kept


def plain_is_slow(schedule: Schedule) -> float:
    """Without steps nothing is vectorised."""
    return 1e-4 if schedule.steps else 8e-4


def test_a_slow_schedule_that_looked_fast_alone_is_rolled_back(tmp_path: Path, timed) -> None:
    timed(plain_is_slow)
    log = tmp_path / "log"
    before = made(log)
    (rules,) = before.chosen.values()
    planted(before, rules.schedule, 2e-4, log)
    planted(before, Schedule(), 1e-6, log)  # nothing vectorised: many times slower
    assert [c.sketch for c in made(log).chosen.values()] == ["planted/1"]
    ended = confirm(before, log)
    (verdict,) = ended.verdicts.values()
    assert verdict.speedup < 0.5 and not ended.won
    (chosen,) = made(log).chosen.values()
    assert chosen.schedule == rules.schedule  # in every later build
    assert [c.schedule for c in ended.built.chosen.values()] == [rules.schedule]
    (decision,) = TuningLog(log).decisions
    assert decision.taken == 0 and decision.winner.cost < decision.losers[0].cost


def test_what_is_faster_in_place_is_confirmed(tmp_path: Path, timed) -> None:
    timed(plain_is_slow)
    log = tmp_path / "log"
    rules = made(log)
    (chosen,) = rules.chosen.values()
    planted(rules, Schedule(), 2e-4, log)
    before = made(log)
    planted(before, chosen.schedule, 1e-6, log)
    ended = confirm(before, log)
    assert len(ended.won) == len(ended.verdicts) == 1
    assert ended.after < ended.before
    (decision,) = TuningLog(log).decisions
    assert decision.taken == 1


def test_whole_calls_are_left_out_where_there_is_no_time_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timed
) -> None:
    timed(plain_is_slow)
    monkeypatch.setattr(in_place, "whole_calls", None)
    log = tmp_path / "log"
    before = made(log)
    planted(before, Schedule(), 1e-6, log)
    ended = confirm(before, log, fits=lambda calls: False)
    assert not ended.won and not ended.calls
    # The kernels' own times: those of the schedule from before, which is what is left.
    assert ended.before == ended.after == pytest.approx(1e-4)


def two_kernels(first: Schedule | None, second: Schedule | None) -> Built:
    """A program of two kernels, with these schedules or (None) the default ones."""
    built = build(TWO, threads=1)
    assert built.parts is not None
    given = zip(built.parts.prims.values(), (first, second), strict=True)
    chosen = {workload_of(p).hash: Chosen(s, "rules", "") for p, s in given if s is not None}
    return rebuilt(built, chosen)


def test_each_kernel_is_kept_as_it_is_faster(timed) -> None:
    timed(plain_is_slow)
    base, other = two_kernels(Schedule(), None), two_kernels(None, Schedule())
    kept = keep_faster(base, [other], [X], 0.1)
    first, second = base.kernels
    assert kept.won == {first} and kept.verdicts.keys() == {first, second}
    assert kept.built.code_hash == two_kernels(None, None).code_hash
    assert [d.taken for d in kept.decisions] == [int(n in kept.won) for n in kept.verdicts]


def test_of_several_builds_the_fastest_way_is_kept_and_the_others_are_losers(timed) -> None:
    unrolled = Schedule((split("i", [32, 2]),))
    cost = {
        two_kernels(None, None).chosen[n].schedule: 1e-4 for n in two_kernels(None, None).kernels
    }
    timed(lambda schedule: cost.get(schedule, 3e-4 if schedule.steps == unrolled.steps else 8e-4))
    base, first = two_kernels(Schedule(), Schedule()), two_kernels(unrolled, unrolled)
    second = two_kernels(None, Schedule())
    kept = keep_faster(base, [first, second], [X], 0.1)
    assert kept.won == set(base.kernels) == kept.verdicts.keys()
    assert kept.built.code_hash == two_kernels(None, unrolled).code_hash
    by_both = {len(d.options): d for d in kept.decisions}
    assert by_both.keys() == {2, 3}  # only one kernel has a third schedule
    for decision in kept.decisions:
        assert decision.winner.cost == min(o.cost for o in decision.options)


def test_next_best_schedules_are_tried_while_there_is_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = made(log)
    (rules,) = first.chosen.values()
    others = [Schedule((split("i", [64 // n, n]),)) for n in (2, 4, 8, 16)]
    planted(first, Schedule(), 1e-6, log)
    for number, schedule in enumerate(others):
        planted(first, schedule, (1.04 + 0.04 * number) * 1e-6, log)
    planted(first, rules.schedule, 1.1e-6, log)
    last = made(log)
    builds = with_runners_up(last, first, TuningLog(log), lambda: True)
    tried = [c.schedule for b in builds for c in b.chosen.values()]
    assert tried == [Schedule(), *others[:3]]  # neither the first one's, nor one 16 % slower
    assert with_runners_up(last, first, TuningLog(log), lambda: False) == [last]


def test_kernels_that_make_the_whole_slower_are_not_kept(
    timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(plain_is_slow)
    monkeypatch.setattr(in_place, "whole_calls", lambda *_: ((1e-3,) * 6, (2e-3,) * 6))
    base, other = two_kernels(Schedule(), None), two_kernels(None, None)
    kept = keep_faster(base, [other], [X], 0.1)
    assert kept.built is base and not kept.won
    assert kept.before == kept.after == pytest.approx(1e-3)


def test_builds_of_the_same_code_run_once_in_a_round() -> None:
    built = build(MODULE, threads=1)
    runs: list[int] = []

    def counted(number: int, code: str) -> Built:
        def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            runs.append(number)
            return built.call(arrays)

        return replace(built, call=call, code_hash=code)

    same, again, other = whole_calls([counted(0, "a"), counted(1, "a"), counted(2, "b")], [X], 0.0)
    assert same == again and len(other) == len(same) and set(runs) == {0, 2}


@pytest.mark.parametrize("codes", ["ab", "abc"])
def test_of_more_than_two_builds_each_follows_itself(codes: str) -> None:
    """Else those in the middle of a round would never find their memory in the caches."""
    built = build(MODULE, threads=1)
    runs: list[str] = []

    def counted(code: str) -> Built:
        def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            runs.append(code)
            return built.call(arrays)

        return replace(built, call=call, code_hash=code)

    samples = whole_calls([*map(counted, codes)], [X], 0.0)
    order = "".join(runs)[len(codes) :]
    assert order.startswith("baab" if len(codes) == 2 else "ccbbaaaabbcc")
    assert len(order) == sum(map(len, samples)) * (1 if len(codes) == 2 else 2)


def test_nothing_new_needs_no_decision(tmp_path: Path) -> None:
    before = made(tmp_path / "log")
    ended = confirm(before, tmp_path / "log")
    assert not ended.verdicts and not ended.decisions
    assert not (tmp_path / "log").exists()


def test_interleaved_builds_are_timed_by_workload() -> None:
    built = build(MODULE, threads=1)
    one, other = kernel_rounds([built, built], [X], 0.01)
    assert one.seconds.keys() == other.seconds.keys() and len(one.seconds) == 1
    (times,) = one.seconds.values()
    assert len(times) >= 4 and min(times) > 0
    assert [len(t) >= 4 for t in whole_calls([built, built], [X], 0.01)] == [True, True]


def test_specs_get_arrays() -> None:
    module = lw.compile(lambda x, i: np.take(x, i, axis=0)).trace(lw.f32[8, 4], lw.i64[3]).module
    x, i = random_arrays(module, {})
    assert (x.shape, x.dtype, i.shape, i.dtype) == ((8, 4), np.float32, (3,), np.int64)


@pytest.mark.parametrize("slower", [False, True])
def test_tuning_ends_with_what_is_built(
    slower: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timed
) -> None:
    """The search finds a schedule without steps; ``slower``: than the rules', in the program."""
    timed(lambda schedule: 1e-4 if bool(schedule.steps) is slower else 8e-4)
    compared: list[int] = []

    def search(tasks, toolchain, log, request, *_):
        results = []
        for task in tasks:
            record = MeasureRecord(task.workload, task.key, (), "planted/1", (1e-9,) * 3)
            log.append(record)
            results.append(TaskResult(task, record, 2e-9, 1e-9, 1, {}))
        return ProgramResult(tuple(results), 0.0, request.limits, "budget")

    def spy(before, others, arrays, *rest, **options):
        compared.append(id(arrays[0]))
        return keep_faster(before, others, arrays, *rest, **options)

    monkeypatch.setattr(tuning, "tune_tasks", search)
    monkeypatch.setattr(comparing, "keep_faster", spy)
    f = lw.compile(net.function, log=tmp_path / "log", threads=1)
    report = f.tune(X, budget=None, trials=2)
    assert compared == [id(X)]  # the caller's own arguments
    assert not report.skipped
    assert report.in_program is not None and "whole call" in str(report)
    assert bool(report.in_program.rolled_back) is slower
    built = f.lower(X).built
    (chosen,) = built.chosen.values()
    assert bool(chosen.schedule.steps) is slower
    (kernel,) = report.tasks
    assert kernel.rolled_back is slower
    # In the program, not the nanoseconds that the search saw; the call is the first line.
    assert (kernel.before, kernel.after) == ((1e-4, 1e-4) if slower else (8e-4, 1e-4))
    assert str(report).startswith("  whole call")
    assert kernel.line().endswith("rolled back") is slower


@pytest.mark.parametrize("busy, waited", [(0.0, 0.005), (0.1, 0.105), (60.0, 0.25)])
def test_a_comparison_waits_for_threads_that_work_but_not_for_ever(busy, waited, monkeypatch):
    """``busy``: seconds for which another thread of the process works."""
    now = 0.0

    class Clock:
        @staticmethod
        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        @staticmethod
        def perf_counter() -> float:
            return now

        @staticmethod
        def process_time() -> float:
            return min(now, busy)

    monkeypatch.setattr(interleaved, "time", Clock)
    interleaved._wait_for_threads()
    assert now == pytest.approx(waited, abs=0.0051)
