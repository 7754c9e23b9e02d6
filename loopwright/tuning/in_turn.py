"""Several builds of one function, run in turn on the same arguments with the clock in between."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..autotune.workload import workload_of
from ..codegen.timed_program import TimedProgram, timed_program
from ..ir.dims import as_int
from ..ir.errors import UnsupportedError
from ..ir.graph.nodes import Module
from ..ir.graph.types import TensorType
from ..pipeline import Built

__all__ = ["Rounds", "least_calls", "random_arrays", "run_in_turn", "whole_calls"]

Array = np.ndarray[Any, Any]
_T = TypeVar("_T")

LEAST_ROUNDS = 4
MOST_ROUNDS = 101

LONG_ROUND = 0.1
FEWEST_ROUNDS = 2
"""Rounds of at least so many seconds are telling: there need not be as many of them."""

MOST_WAIT, LOOK = 0.25, 5e-3
"""Seconds that a comparison waits for other threads of the process to sleep, and between looks."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What one build took: by workload, the seconds of a call of it in every round; ``calls`` says
    how often the program calls it."""

    seconds: Mapping[str, tuple[float, ...]]
    calls: Mapping[str, int]


def least_calls(builds: int) -> int:
    """Calls that a comparison of builds makes at least, if calls are long: it warms them up."""
    return builds * (1 + FEWEST_ROUNDS)


def run_in_turn(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[Rounds, ...]:
    """Run the builds in turn for about ``seconds``, and read the clock between their kernels."""
    made = [_Timed.of(built) for built in builds]
    _wait_for_threads()
    for one in made:
        one.program.run(arrays)
    for order in _orders(made, seconds):
        for one in order:
            one.note(one.program.run(arrays))
    return tuple(one.rounds() for one in made)


def whole_calls(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[tuple[float, ...], ...]:
    """Seconds of every whole call of the builds, run in turn for about ``seconds``.

    Builds that are the same code run once in each round: they take the same time, whatever is seen.
    """
    distinct: dict[str, Built] = {}
    for built in builds:
        distinct.setdefault(built.code_hash, built)
    found: dict[str, list[float]] = {code: [] for code in distinct}
    _wait_for_threads()
    for built in distinct.values():
        built.call(arrays)
    for order in _orders(list(distinct), seconds):
        for code in order:
            start = time.perf_counter()
            distinct[code].call(arrays)
            found[code].append(time.perf_counter() - start)
    return tuple(tuple(found[built.code_hash]) for built in builds)


def _wait_for_threads() -> None:
    """Wait until no thread of the process works. Those of NumPy's library go on looking for work
    after a call (OpenBLAS's for 100 ms), and take a core from programs that want all of them."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < MOST_WAIT:
        before = time.process_time()
        time.sleep(LOOK)
        if time.process_time() - before < LOOK / 2:
            return


def _orders(items: Sequence[_T], seconds: float) -> Iterator[Sequence[_T]]:
    """Forwards, backwards, and so on: whatever drifts meets all alike."""
    begun = time.perf_counter()
    for count in range(MOST_ROUNDS):
        gone = time.perf_counter() - begun
        least = FEWEST_ROUNDS if gone > LONG_ROUND * count else LEAST_ROUNDS
        if count >= least and gone > seconds:
            return
        yield items if count % 2 == 0 else items[::-1]


@dataclass(slots=True)
class _Timed:
    """A timed program, the workload of each of its calls, and what they took so far."""

    program: TimedProgram
    workloads: list[str]
    took: defaultdict[str, list[float]]

    @staticmethod
    def of(built: Built) -> _Timed:
        parts = built.parts
        if parts is None:
            raise UnsupportedError("this build does not say what it is made of")
        program = timed_program(parts.program, parts.kernels, parts.target, parts.threads)
        of_kernel = {name: workload_of(prim).hash for name, prim in parts.prims.items()}
        return _Timed(program, [of_kernel[c.kernel] for c in program.calls], defaultdict(list))

    def note(self, times: Array) -> None:
        sums: defaultdict[str, float] = defaultdict(float)
        for workload, seconds in zip(self.workloads, times):
            sums[workload] += float(seconds)
        calls = Counter(self.workloads)
        for workload, seconds in sums.items():
            self.took[workload].append(seconds / calls[workload])

    def rounds(self) -> Rounds:
        return Rounds({w: tuple(s) for w, s in self.took.items()}, Counter(self.workloads))


def random_arrays(module: Module, seed: int = 0) -> list[Array]:
    """An array for each parameter of ``main``, where the caller gave shapes only."""
    rng = np.random.default_rng(seed)
    made: list[Array] = []
    for param in module.main.params:
        assert isinstance(param.type, TensorType)
        shape, dtype = tuple(as_int(s) for s in param.type.shape), param.type.dtype
        if dtype.is_float:
            made.append(rng.standard_normal(shape).astype(dtype.numpy))
        else:
            made.append(rng.integers(0, 2 if dtype.is_bool else 100, shape).astype(dtype.numpy))
    return made
