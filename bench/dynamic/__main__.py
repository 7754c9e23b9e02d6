"""Programs with symbolic sizes: one compile for all, beside one for each and beside others.

    python -m bench.dynamic                          the programs with bars, untuned, one thread
    python -m bench.dynamic mlp bert --threads 2     some; bert is BERT-base at 16 lengths
    python -m bench.dynamic --tuned --budget 20s     and tuned: once for the range, and at each size
    python -m bench.dynamic --only-check             compare with NumPy, and no more

Every peer is a process of its own, stopped while another runs. Results are compared with NumPy's in
float64 at 60 sizes, the empty one included. Bars: no recompilation; at each of 12 sizes within 15 %
of the specialised code (7 % in the geometric mean), 1.3x as fast as the fastest peer; BERT ahead at
14 lengths; compile time at most 2x the specialised one; a call with three symbols in 3 us. The exit
status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from loopwright.autotune.budget import parse_budget

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from .peers import DYNAMIC, PEERS
from .programs import PROGRAMS, Program, Sizes
from .table import Row, summary, table

__all__ = ["main"]

FOLDER = ROOT / "build" / "dynamic"
WITH_BARS = ("mlp", "encoder", "softmax_norm", "convolutions")
_PATIENCE = 120.0


def expected_of(program: Program, sizes: Sizes, folder: Path) -> Path:
    """Returns the file of the result in float64; it is written if there is none yet."""
    path = folder / program.name / f"{'-'.join(map(str, sizes))}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if program.function is None:
            from .torch_side import wide_result

            np.save(path, wide_result(program, program.input(sizes)))
        else:
            with np.errstate(all="ignore"):  # means of no elements
                np.save(path, program.expected(program.input(sizes)).astype(np.float32))
    return path


class Measuring:
    """The processes of the peers, asked for one program after the other."""

    def __init__(self, args: argparse.Namespace, workers: Sequence[Worker], log: str) -> None:
        self.args, self.workers, self.log = args, workers, log

    def prepare(self, worker: Worker, program: Program, sizes: Sizes) -> dict[str, Any]:
        tuned = worker.library.endswith("-tuned")
        budget = (parse_budget(self.args.budget).seconds or 0.0) if tuned else 0.0
        return worker.ask(
            _PATIENCE + 3 * budget,
            do="prepare",
            name=program.name,
            sizes=sizes,
            expected=str(expected_of(program, sizes, self.args.folder)),
            threads=self.args.threads,
            budget=budget,
            log=self.log if tuned else "",
        )

    def row(self, program: Program) -> Row:
        """Returns the measured program: first all sizes are checked, then some timed."""
        row = Row(program.name)
        for worker in self.workers:
            if worker.library == DYNAMIC[0]:
                self.check(worker, program, row)
        for sizes in () if self.args.only_check else program.timed[:: self.args.every]:
            row.sizes.append(" x ".join(map(str, sizes)))
            self.time(program, sizes, row)
            print(table([row]).splitlines()[-1], file=sys.stderr, flush=True)
        for worker in self.workers:
            worker.close()  # the next program finds the memory free
        return row

    def check(self, worker: Worker, program: Program, row: Row) -> None:
        # The typical size first: what it takes is the time of compiling.
        for sizes in [program.timed[len(program.timed) // 2], *program.checked]:
            answer = self.prepare(worker, program, sizes)
            row.checked += 1
            if "failed" in answer:
                row.wrong.append(f"{sizes}: {answer['failed']}")
            else:
                row.ready.setdefault(worker.library, answer["ready"])
                row.compiles[worker.library] = answer["compiles"]
            if len(row.wrong) > 3 and len(row.wrong) == row.checked:
                return  # it does not run at all

    def time(self, program: Program, sizes: Sizes, row: Row) -> None:
        times: dict[str, list[float]] = {}
        for worker in self.workers:
            answer = self.prepare(worker, program, sizes)
            if "failed" in answer:
                row.failed[worker.library] = answer["failed"]
                continue
            times[worker.library] = []
            if len(row.sizes) == 1 or not worker.library.startswith("dynamic"):
                row.ready.setdefault(worker.library, answer["ready"])
            row.compiles[worker.library] = answer["compiles"]
            row.tuning[worker.library] = answer["tuning"]
        for _ in range(self.args.rounds):
            for worker in self.workers:
                if worker.library in times:
                    answer = worker.ask(_PATIENCE, do="round", seconds=self.args.seconds)
                    if "failed" in answer:
                        row.failed[worker.library] = answer["failed"]
                    else:
                        times[worker.library].append(answer["seconds"])
        for worker in self.workers:
            found = times.get(worker.library)
            so_far = row.seconds.setdefault(worker.library, [None] * (len(row.sizes) - 1))
            so_far.append(statistics.median(found) if found else None)


def call_overhead() -> float:
    """Returns the seconds of a call with three symbols that computes next to nothing."""
    import loopwright as lw

    axes: Any = {"x": {0: "n"}, "y": {0: "m"}, "z": {0: "k"}}
    f = lw.compile(lambda x, y, z: x.sum() + y.sum() + z.sum(), dynamic=axes, threads=1)
    x, y, z = (np.ones(n, np.float32) for n in (2, 3, 4))
    f(x, y, z)
    times: list[float] = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(100):
            f(x, y, z)
        times.append((time.perf_counter() - start) / 100)
    return min(times)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    names = [n for n in args.peers.split(",") if args.tuned or not n.endswith("-tuned")]
    unknown = [n for n in names if n not in PEERS] + [p for p in args.names if p not in PROGRAMS]
    if unknown:
        print(
            f"bench: no {unknown[0]}; there are {', '.join([*PEERS, *PROGRAMS])}", file=sys.stderr
        )
        return 2
    if args.only_check:
        names = [DYNAMIC[0]]
    file = results_file(args.out, "dynamic")
    command = [sys.executable, "-m", "bench.dynamic.worker"]
    workers = [Worker(n, args.threads, command, dict(PEERS[n].environment)) for n in names]
    measuring = Measuring(args, workers, str(file.with_suffix(".log.jsonl")))
    timed = bool({*names} & {*DYNAMIC}) and not args.only_check
    return measure_rows(
        file,
        workers,
        [PROGRAMS[name] for name in args.names or WITH_BARS],
        measuring.row,
        table,
        lambda rows: summary(rows, call_overhead() if timed else None),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dynamic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help=f"programs ({', '.join(WITH_BARS)})")
    parser.add_argument("--tuned", action="store_true", help="tune, too")
    parser.add_argument("--budget", default="20s", help="tuning time of one size (20s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="rounds each peer gets (5)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round (0.1)")
    parser.add_argument("--every", type=int, default=1, help="time every n-th size only (1)")
    parser.add_argument("--only-check", action="store_true", help="compare results, and no more")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, with commas between")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where results are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
