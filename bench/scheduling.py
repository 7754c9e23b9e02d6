"""The task scheduler beside round robin: three programs of several kernels, for equal budgets.

    python -m bench.scheduling                        from recorded slices
    python -m bench.scheduling --live --budget 10s    tuned both ways, here
    python -m bench.scheduling --record mlp --turns 4 record anew, into bench/landscapes

Once every kernel has been tuned to the end, the order of the time slices no longer matters. The
bench therefore compares the time of the program after a part of the time that all recorded slices
took, which is the same on every machine. A kernel that gets more slices than were recorded gains
nothing from them, which puts a scheduler that concentrates on few kernels at a disadvantage.

``--live`` tunes each program twice from an empty log, with the same seed. The programs of the two
logs are then built and run interleaved: ``gain`` is the speedup of the program that was tuned by
expected gain, with its 95 % confidence interval by bootstrap over rounds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import loopwright as lw
import numpy as np
from loopwright.autotune.comparison import compare as compare_rounds
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN, machine_floor, tasks_of
from loopwright.autotune.program import program_tuner
from loopwright.autotune.program.native_tuning import tune_tasks
from loopwright.autotune.program.scheduler import TaskScheduler, TaskState
from loopwright.autotune.record import robust_seconds
from loopwright.autotune.request import TuneRequest
from loopwright.autotune.settings import DEFAULT_SETTINGS, TuneSettings
from loopwright.autotune.task import Task
from loopwright.codegen.machine import known_machine
from loopwright.codegen.target import Target
from loopwright.driver.built import Built
from loopwright.driver.pipeline import build, called_kernels
from loopwright.inspect.tasks import list_tasks
from loopwright.tuning.interleaved import whole_calls

__all__ = ["LANDSCAPES", "PROGRAMS", "Recorded", "compare", "landscape", "simulate"]

Array = np.ndarray[Any, Any]
Program = tuple[Callable[..., Any], tuple[Array, ...]]


class RoundRobin(TaskScheduler):
    """Every task in its turn: the order that ``TaskScheduler`` is held against."""

    def next(self) -> int | None:
        """The open task with the fewest slices so far."""
        open_ = [i for i, s in enumerate(self.states) if not s.exhausted]
        return min(open_, key=lambda i: len(self.states[i].slices), default=None)


SCHEDULERS: Mapping[str, type[TaskScheduler]] = {
    "expected gain": TaskScheduler,
    "round robin": RoundRobin,
}
LANDSCAPES = Path(__file__).parent / "landscapes"
SHARES = (0.15, 0.25, 0.4, 0.6)


def _random(*shape: int) -> Array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return values / np.float32(np.sqrt(shape[-1]))


def _mlp() -> Program:
    """Layers of very different sizes."""
    sizes = (1024, 2048, 256, 128, 64, 32, 10)
    *weights, last = (_random(a, b) for a, b in pairwise(sizes))

    def mlp(x: Array) -> Array:
        for w in weights:
            x = lw.nn.layer_norm(np.maximum(x @ w + 1, 0))
        return lw.nn.softmax(x @ last)

    return mlp, (_random(64, 1024),)


def _residual() -> Program:
    """Three stages of two blocks: some twenty kernels, several of them called often."""
    stem, head = _random(32, 3, 3, 3), _random(128, 100)
    stages: list[tuple[Array, Array, Array | None, Array, Array]] = []
    for before, after in ((32, 32), (32, 64), (64, 128)):
        down = _random(after, before, 1, 1) if before != after else None
        first, *same = (_random(after, c, 3, 3) for c in (before, after, after, after))
        stages.append((first, same[0], down, same[1], same[2]))

    def residual(x: Array) -> Array:
        x = np.maximum(lw.nn.conv2d(x, stem, padding=1, strides=2), 0)
        for a, b, down, c, d in stages:
            step = 1 if down is None else 2
            y = np.maximum(lw.nn.conv2d(x, a, padding=1, strides=step), 0)
            x = x if down is None else lw.nn.conv2d(x, down, strides=step)
            x = np.maximum(lw.nn.conv2d(y, b, padding=1) + x, 0)
            y = np.maximum(lw.nn.conv2d(x, c, padding=1), 0)
            x = np.maximum(lw.nn.conv2d(y, d, padding=1) + x, 0)
        return lw.nn.softmax(x.mean(axis=(2, 3)) @ head)

    return residual, (_random(1, 3, 64, 64),)


def _transformer() -> Program:
    """A block with a table of words before it and all words to choose from behind it."""
    wide = 192
    wq, wk, wv, wo = (_random(wide, wide) for _ in range(4))
    up, back = _random(wide, 4 * wide), _random(4 * wide, wide)
    words, out = _random(2000, wide), _random(wide, 2000)

    def transformer(text: Array) -> Array:
        x = lw.xp.take(words, text, axis=0)
        h = lw.nn.layer_norm(x)
        q, k, v = (np.swapaxes((h @ w).reshape(64, 6, 32), 0, 1) for w in (wq, wk, wv))
        scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.2)
        heads = np.swapaxes(lw.nn.softmax(scores) @ v, 0, 1).reshape(64, wide)
        x = x + heads @ wo
        x = x + lw.nn.gelu(lw.nn.layer_norm(x) @ up) @ back
        return lw.nn.softmax(lw.nn.layer_norm(x) @ out)

    return transformer, (np.random.default_rng(0).integers(0, 2000, 64),)


PROGRAMS = {"mlp": _mlp, "residual": _residual, "transformer": _transformer}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A kernel as the scheduler knows it beforehand, the seconds of its default schedule, and for
    every slice the seconds it took and those of the best schedule after it."""

    name: str
    weight: float
    work: float
    floor: float
    place: float
    first: float
    turns: tuple[tuple[float, float], ...]

    def after(self, turns: int) -> tuple[float, float]:
        """Seconds that slice number ``slices`` took, and of the best schedule after it."""
        return self.turns[min(turns, len(self.turns) - 1)]


def landscape(name: str) -> tuple[Recorded, ...]:
    """The recorded kernels of a program."""
    data: Mapping[str, Any] = json.loads((LANDSCAPES / f"{name}.json").read_text())
    return tuple(
        Recorded(**{**task, "turns": tuple((a, b) for a, b in task["turns"])})
        for task in data["tasks"]
    )


def simulate(
    kernels: Sequence[Recorded],
    make: Callable[[Sequence[TaskState]], TaskScheduler],
    seconds: float,
) -> float:
    """Seconds of the program after ``seconds`` of recorded slices in the order of a scheduler."""
    states = [TaskState(k.weight, k.floor, k.work, place=k.place) for k in kernels]
    scheduler, spent = make(states), 0.0
    while spent < seconds and (index := scheduler.next()) is not None:
        kernel, state = kernels[index], states[index]
        took, best = kernel.after(len(state.slices))
        state.start = kernel.first
        state.after_slice(took, best)
        spent += took
    return sum(k.weight * min(s.best, k.first) for k, s in zip(kernels, states))


def simulated(name: str) -> Iterator[str]:
    """Lines of a table: what each order comes to after a part of the time."""
    kernels = landscape(name)
    everything = sum(took for k in kernels for took, _ in k.turns)
    for share in SHARES:
        totals = [simulate(kernels, make, share * everything) for make in SCHEDULERS.values()]
        gain, turn = (f"{t * 1e6:.1f}" for t in totals)
        yield (
            f"{name:<12} {100 * share:3.0f} % of {everything:.0f} s   expected gain {gain} us, "
            f"round robin {turn} us   {totals[1] / totals[0]:.3f}x"
        )


def _tasks(untuned: Built, arrays: Sequence[Array], threads: int) -> list[Task]:
    """The program's tasks with what is known of each before it is tuned."""
    assert untuned.source is not None
    target = Target.host()
    machine = known_machine(target)
    place = {t.workload: t.seconds for t in list_tasks(untuned, arrays, 0.3)}
    return [
        replace(t, seconds=place[t.workload.hash], floor=machine_floor(t, machine))
        for t in tasks_of(called_kernels(untuned.source.lowered), target, threads)
    ]


def _program(name: str, threads: int) -> tuple[Any, tuple[Array, ...], Built, list[Task]]:
    function, arrays = PROGRAMS[name]()
    module = lw.compile(function).trace(*arrays).module
    untuned = build(module, threads=threads)
    return module, arrays, untuned, _tasks(untuned, arrays, threads)


def compare(name: str, budget: str, threads: int, seed: int = 0) -> Iterator[str]:
    """Tune a program both ways; lines of a table as they are known."""
    module, arrays, untuned, tasks = _program(name, threads)
    builds = [untuned]
    with tempfile.TemporaryDirectory() as folder:
        for label, scheduler in SCHEDULERS.items():
            log = Path(folder) / f"{label}.jsonl"
            with mock.patch.object(program_tuner, "TaskScheduler", scheduler):
                result = tune_tasks(
                    tasks, TOOLCHAIN, TuningLog(log), TuneRequest(budget, seed=seed)
                )
            turns = " ".join(str(t.trials) for t in result.tasks)
            yield f"{name:<12} {label:<14} {result.trials} candidates ({turns})"
            builds.append(build(module, log=log, threads=threads))
        rounds = whole_calls(builds, arrays, 2.0)
    first, gain, turn = (f"{robust_seconds(t) * 1e6:.1f}" for t in rounds)
    low, middle, high = _ratio(rounds[2], rounds[1])
    yield (
        f"{name:<12} untuned {first} us, expected gain {gain} us, round robin {turn} us   "
        f"gain {middle:.3f}x ({low:.3f} to {high:.3f})"
    )


def _ratio(old: Sequence[float], new: Sequence[float]) -> tuple[float, float, float]:
    """How many times faster ``new`` is: the middle and both ends of 95 % of redrawn rounds."""
    before, after = compare_rounds([old, new]).drawn
    low, middle, high = np.quantile(before / after, (0.025, 0.5, 0.975))
    return float(low), float(middle), float(high)


def record(name: str, turns: int, threads: int, seed: int) -> None:
    """Give every kernel ``slices`` time slices, and keep the best after each."""
    _, _, _, tasks = _program(name, threads)
    kept: list[TaskState] = []

    def everyone(states: Sequence[TaskState], settings: TuneSettings) -> TaskScheduler:
        kept.extend(states)
        return RoundRobin(states, settings)

    limit = f"{turns * DEFAULT_SETTINGS.scheduler_batch * len(tasks)} trials"
    with mock.patch.object(program_tuner, "TaskScheduler", everyone):
        tune_tasks(tasks, TOOLCHAIN, TuningLog(), TuneRequest(limit, seed=seed))
    lines = [
        json.dumps(
            {
                "name": task.name,
                "weight": task.weight,
                "work": float(f"{state.work:.4g}"),
                "floor": float(f"{task.floor:.4g}"),
                "place": float(f"{task.seconds:.4g}"),
                "first": float(f"{state.start:.4g}"),
                "turns": [[round(took, 2), float(f"{best:.4g}")] for took, best in state.slices],
            }
        )
        for task, state in zip(tasks, kept)
    ]
    text = f'{{"program": "{name}", "tasks": [\n  ' + ",\n  ".join(lines) + "\n]}\n"
    (LANDSCAPES / f"{name}.json").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.scheduling", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)} (all)")
    parser.add_argument("--live", action="store_true", help="tune here, both ways")
    parser.add_argument("--record", action="store_true", help="record slices anew")
    parser.add_argument("--turns", type=int, default=4, help="to record, of each kernel (4)")
    parser.add_argument("--budget", default="10s", help="of each of the two, live (10s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.programs or PROGRAMS:
        if args.record:
            record(name, args.turns, args.threads, args.seed)
            continue
        live = args.live
        for line in (
            compare(name, args.budget, args.threads, args.seed) if live else simulated(name)
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
