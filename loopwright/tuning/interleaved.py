"""Runs several builds of one function in interleaved rounds on the same arguments."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..autotune.workload import workload_of
from ..codegen.runtime import pool
from ..codegen.timed_program import timed_program
from ..driver.built import Built
from ..ir.dataclass import dataclass
from ..ir.errors import UnsupportedError

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")
_Sample: TypeAlias = Mapping[str, tuple[int, float]]

LEAST_ROUNDS = 4
MOST_ROUNDS = 101

LONG_ROUND = 0.1
FEWEST_ROUNDS = 2
"""Rounds that suffice if each takes at least ``LONG_ROUND`` seconds: longer ones vary less."""

MOST_WAIT, LOOK = 0.25, 5e-3
"""Seconds to wait for other threads of the process to sleep, and seconds between checks."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Times of one build: by workload, the seconds of a call in every round, and the calls per
    program run; ``places`` are those of the program's text. What is never run is left out."""

    seconds: Mapping[str, tuple[float, ...]]
    calls: Mapping[str, int]
    places: Mapping[str, int]

    def trips(self, workload: str) -> float:
        """Calls for each place of the program that calls a kernel: the iterations of its loops."""
        return self.calls.get(workload, 0) / max(1, self.places.get(workload, 1))


def least_calls(builds: int) -> int:
    """Fewest calls that a comparison of builds makes if calls are long, warming up included."""
    return builds * (1 + FEWEST_ROUNDS)


def kernel_rounds(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[Rounds, ...]:
    """Runs the builds for about ``seconds``, with the clock read between their kernels."""
    samplers = [_kernel_sampler(built, arrays) for built in builds]
    samples = _interleaved([sample for sample, _ in samplers], seconds)
    return tuple(_rounds(taken, places) for taken, (_, places) in zip(samples, samplers))


def _rounds(samples: Sequence[_Sample], places: Counter[str]) -> Rounds:
    """Returns what was seen in all samples; a call of the same arguments has the same calls."""
    calls = {w: count for w, (count, _) in samples[-1].items() if count}
    seconds = {w: tuple(s[w][1] / max(1, s[w][0]) for s in samples) for w in calls}
    return Rounds(seconds, calls, places)


def whole_calls(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[tuple[float, ...], ...]:
    """Runs the builds for about ``seconds``. Returns the seconds of every whole call of each.

    Builds with the same code run once in each round: their times are equal, whatever is measured.
    """
    distinct = {built.code_hash: built for built in reversed(builds)}

    def sampler(built: Built) -> Callable[[], float]:
        def sample() -> float:
            begun = time.perf_counter()
            built.call(arrays)
            return time.perf_counter() - begun

        return sample

    samples = dict(zip(distinct, _interleaved([*map(sampler, distinct.values())], seconds)))
    return tuple(tuple(samples[built.code_hash]) for built in builds)


def _interleaved(samplers: Sequence[Callable[[], _T]], seconds: float) -> list[list[_T]]:
    """Returns samples of each sampler from rounds that call each once: forwards, then backwards, so
    that a drift of the machine affects all alike. The first call of each is not counted.

    A program that follows itself finds more of its memory in the caches. Each of two does so in
    every other round; more than two are called twice in every round, and the second call counts.
    """
    _wait_for_threads()
    samples: list[list[_T]] = [[] for _ in samplers]
    with pool.awake():
        for sample in samplers:
            sample()
        begun = time.perf_counter()
        for count in range(MOST_ROUNDS):
            spent = time.perf_counter() - begun
            least = FEWEST_ROUNDS if spent > LONG_ROUND * count else LEAST_ROUNDS
            if count >= least and spent > seconds:
                break
            for number in range(len(samplers))[:: 1 if count % 2 == 0 else -1]:
                if len(samplers) > 2:
                    samplers[number]()
                samples[number].append(samplers[number]())
    return samples


def _wait_for_threads() -> None:
    """Waits until no thread of the process works. Those of NumPy's library spin for a while after a
    call (OpenBLAS's for 100 ms), and take a core from programs that use all of them."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < MOST_WAIT:
        before = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - before < LOOK / 2:
            return


def _kernel_sampler(
    built: Built, arrays: Sequence[Array]
) -> tuple[Callable[[], _Sample], Counter[str]]:
    """Returns a function that runs a build and returns calls and seconds of each workload, and in
    how many places the build calls it."""
    parts = built.parts
    if parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    program = timed_program(parts.program, parts.kernels, parts.target, parts.threads)
    hashes = {name: workload_of(prim).hash for name, prim in parts.prims.items()}
    workloads = [hashes[call.kernel] for call in program.calls]

    def sample() -> _Sample:
        times = program.run(arrays)
        sums: dict[str, tuple[int, float]] = {}
        for workload, count, seconds in zip(workloads, times.counts, times.seconds):
            calls, total = sums.get(workload, (0, 0.0))
            sums[workload] = calls + int(count), total + float(seconds)
        return sums

    return sample, Counter(workloads)
