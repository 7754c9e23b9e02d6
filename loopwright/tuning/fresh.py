"""Compares builds in processes of their own: code, weights and arena lie in memory anew.

::

    builds -> files, as of f.lower(...).save -> a process each, which waits while the other runs
           -> seconds of whole calls, round by round

What a process happened to be given decides some percent of the time of its calls: which pages its
arrays have, and what its threads did before. Tuning leaves a process that has built and run much
else, so a build that was faster there has to be faster in a process that does nothing else.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autotune.measure.fork_server import worker_environment
from ..autotune.scratch import ScratchFolder
from ..codegen.saved_program import load_program, save_program
from .interleaved import MOST_ROUNDS
from .time_plan import SHARES

if TYPE_CHECKING:
    from ..driver.built import Built

Array = np.ndarray[Any, Any]

ANSWER_SECONDS = 30.0
"""Seconds until a process that does not answer is given up."""


def fresh_calls(
    builds: Sequence[Built], arrays: Sequence[Array], seconds: float
) -> tuple[tuple[float, ...], ...]:
    """Runs each build in a new process for about ``seconds`` in all, in alternating slices.

    Returns the seconds of a call of each, one for each round; OSError or RuntimeError if a process
    does not answer.
    """
    with ScratchFolder() as folder:
        np.savez(folder.path / "arrays.npz", *arrays)
        paths = [folder.path / f"{number}.lw" for number in range(len(builds))]
        for path, built in zip(paths, builds):
            parts = built.parts
            assert parts is not None
            made_of = parts.program, parts.kernels, parts.target, parts.threads
            save_program(path, *made_of, {})
        with _processes(paths) as processes:
            rounds: list[list[float]] = [[] for _ in builds]
            begun = time.monotonic()
            for count in range(MOST_ROUNDS):
                if count > SHARES.fresh_rounds and time.monotonic() - begun > seconds:
                    break
                for number in range(len(builds))[:: 1 if count % 2 == 0 else -1]:
                    rounds[number].append(_asked(processes[number], SHARES.fresh_slice))
    return tuple(tuple(times[1:]) for times in rounds)  # the first round touches all memory


@contextmanager
def _processes(paths: Sequence[Path]) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts a process for each file; they end with the block, or with this process."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for path in paths:
            command = [sys.executable, "-m", "loopwright.tuning.fresh", str(path)]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=worker_environment(),
            )
            processes.append(process)
        for process in processes:
            _asked(process, 0.0)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _asked(process: subprocess.Popen[str], seconds: float) -> float:
    """Lets a process run for some seconds; returns the seconds of a call."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    answered = bool(select.select([process.stdout], [], [], ANSWER_SECONDS + 100 * seconds)[0])
    answer = process.stdout.readline() if answered else ""
    if not answer:
        raise RuntimeError("a process of its own " + ("ended" if answered else "does not answer"))
    times: list[float] = json.loads(answer)
    return median(times[1:] or times)


def main(argv: Sequence[str]) -> int:
    """Runs the program of a file for as many seconds as each line of the input says, and answers
    with the seconds of all calls."""
    path = Path(argv[0])
    program = load_program(path, mapped=False).executable
    with np.load(path.parent / "arrays.npz") as held:
        arrays = [held[name] for name in held.files]
    for line in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + float(line)
        while len(times) < SHARES.fresh_calls or time.perf_counter() < end:
            begun = time.perf_counter()
            program(arrays)
            times.append(time.perf_counter() - begun)
        sys.stdout.write(f"{json.dumps(times)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
