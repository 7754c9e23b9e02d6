"""Measure the workloads: us untuned and tuned, NumPy, and every other library that is installed.

    python -m bench.run                        everything, one thread and all
    python -m bench.run matmul conv --threads 1 --budget 60s
    python -m bench.run chain --libraries untuned,numpy-haswell --rounds 3

Each library has a process of its own. For each workload all of them make ready, then they are
measured in turns, so that what disturbs the machine disturbs all alike; a library's figure is the
median of its rounds. A library that is missing, or cannot do a workload, is a dash.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopwright.codegen.machine import measured_machine
from loopwright.codegen.target import Target

from .libraries import LIBRARIES
from .report import Row, json_line, markdown
from .workloads import WORKLOADS, Workload, limit_seconds

__all__ = ["main", "measure"]

ROOT = Path(__file__).resolve().parents[1]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOOPWRIGHT_THREADS")


class Worker:
    """A library's process."""

    def __init__(self, library: str, threads: int) -> None:
        self.library = library
        environment = dict(os.environ, **LIBRARIES[library][1])
        environment.update({name: str(threads) for name in _THREAD_VARIABLES})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", library],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; a process that died has failed."""
        assert self._process.stdin and self._process.stdout
        try:
            print(json.dumps(command), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            return {"failed": f"its process ended with code {self._process.wait()}"}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def machine_lock() -> Iterator[None]:
    """One measurement at a time on this machine."""
    with open(Path(tempfile.gettempdir()) / "bench.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(
    workload: Workload,
    libraries: Sequence[str],
    threads: int,
    *,
    budget: str,
    log: str,
    rounds: int,
    seconds: float,
) -> Row:
    """All libraries on one workload."""
    target = Target.host()
    limit, by = limit_seconds(workload, measured_machine(target), target, threads)
    row = Row(workload.name, threads, limit, by)
    times: dict[str, list[float]] = {}
    with machine_lock():
        workers = [Worker(library, threads) for library in libraries]
        try:
            ready: list[Worker] = []
            for worker in workers:
                options = {"budget": budget, "log": log} if worker.library == "tuned" else {}
                answer = worker.ask(
                    do="prepare", workload=workload.name, threads=threads, options=options
                )
                if "failed" in answer:
                    row.failed[worker.library] = answer["failed"]
                    continue
                row.tuning_seconds += answer["tuning_seconds"]
                ready.append(worker)
            for _ in range(rounds):
                for worker in ready:
                    answer = worker.ask(do="round", seconds=seconds)
                    times.setdefault(worker.library, []).append(answer.get("seconds", float("inf")))
        finally:
            for worker in workers:
                worker.close()
    row.seconds = {library: statistics.median(taken) for library, taken in times.items()}
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 2 if it was not understood."""
    args = _parser().parse_args(argv)
    names = [n for n in WORKLOADS if not args.names or any(part in n for part in args.names)]
    libraries = args.libraries.split(",") if args.libraries else list(LIBRARIES)
    unknown = [n for n in libraries if n not in LIBRARIES]
    if unknown or not names:
        wrong = f"no library {unknown[0]}" if unknown else f"no workload like {args.names[0]}"
        known = ", ".join(LIBRARIES if unknown else WORKLOADS)
        print(f"bench: {wrong}; there are {known}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / time.strftime("%Y%m%d-%H%M%S")
    rows: list[Row] = []
    for threads in args.threads or sorted({1, Target.host().cores}):
        for name in names:
            row = measure(
                WORKLOADS[name],
                libraries,
                threads,
                budget=args.budget,
                log=args.log or f"{stem}.log.jsonl",
                rounds=args.rounds,
                seconds=args.seconds,
            )
            rows.append(row)
            with open(f"{stem}.jsonl", "a") as file:
                print(json_line(row), file=file)
            print(json_line(row), file=sys.stderr)
    table = markdown(rows, libraries)
    Path(f"{stem}.md").write_text(table + "\n")
    print(table)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="workloads with one of these in their name")
    parser.add_argument("--threads", type=int, action="append", help="again for several")
    parser.add_argument("--budget", default="20s", help="tuning time per workload (20s)")
    parser.add_argument("--log", help="tuning log to use (else a new one)")
    parser.add_argument("--libraries", help=f"some of {','.join(LIBRARIES)}")
    parser.add_argument("--rounds", type=int, default=7, help="turns each library gets (7)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a turn (0.1)")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
