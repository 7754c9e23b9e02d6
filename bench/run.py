"""Measure the workloads: us untuned and tuned, NumPy, and every other library that is installed.

    python -m bench.run                        everything, one thread and all
    python -m bench.run matmul conv --threads 1 --budget 60s
    python -m bench.run chain --libraries untuned,numpy-haswell --rounds 3
    python -m bench.run --random 40 --seed 7   other sizes, drawn from the same families
    python -m bench.run --resume FILE          go on with a run that was cut off

Each library has a process of its own. For each workload all of them make ready, then they are
measured alternately, so that what disturbs the machine disturbs all alike; a library's figure is
the median of its rounds. A library that is missing, or cannot do a workload, is a dash.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from loopwright.autotune.budget import parse_budget
from loopwright.codegen.machine import measured_machine
from loopwright.codegen.target import Target

from .allowance import Allowance
from .families import fixed_workloads, random_workloads
from .libraries import LIBRARIES
from .lock import MachineLock
from .measure import Settings, measure
from .plot import svg
from .process import Worker
from .report import markdown
from .row import Row, append, json_line, read
from .summary import bars_text, families_text
from .workload import Workload

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
_WHOLE = "18m"  # for tuning everything, which is to end within 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 2 if it was not understood."""
    parser = _parser()
    args = parser.parse_args(argv)
    every = random_workloads(args.random, args.seed) if args.random else fixed_workloads()
    chosen = [w for w in every if not args.names or _is_named(w, args.names)]
    libraries = args.libraries.split(",") if args.libraries else list(LIBRARIES)
    if args.untuned:
        libraries = [n for n in libraries if n != "tuned"]
    unknown = [n for n in libraries if n not in LIBRARIES]
    if unknown or not chosen:
        wrong = f"no library {unknown[0]}" if unknown else f"no workload like {args.names[0]}"
        known = ", ".join(LIBRARIES if unknown else [w.name for w in every])
        print(f"bench: {wrong}; there are {known}", file=sys.stderr)
        return 2
    threads = args.threads or _thread_counts()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.resume or args.out / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    done = read(file) if args.resume else []
    settings = _settings(args, chosen, threads, done, file)
    if not args.resume:
        append(file, json.dumps({"machine": asdict(measured_machine()), "command": sys.argv}))
    rows = list(done)
    for count in threads:
        known = {row.workload for row in done if row.threads == count}
        todo = [w for w in chosen if w.name not in known]
        rows += _measure_all(todo, libraries, count, settings, file)
    text = _report(rows, libraries)
    file.with_suffix(".md").write_text(text)
    for count in sorted({row.threads for row in rows}):
        file.with_suffix(f".{count}.svg").write_text(svg(rows, count))
    print(text, end="")
    return 0


def _report(rows: Sequence[Row], libraries: Sequence[str]) -> str:
    parts = [markdown(rows, libraries)]
    for count in sorted({row.threads for row in rows}):
        parts.append(f"On {count} thread{'s' * (count > 1)}:")
        parts.append(families_text([row for row in rows if row.threads == count]))
    return "\n\n".join([*parts, bars_text(rows)]) + "\n"


def _measure_all(
    todo: Sequence[Workload], libraries: Sequence[str], threads: int, settings: Settings, file: Path
) -> list[Row]:
    """The rows of one number of threads, each written to the file when it is there."""
    rows: list[Row] = []
    with ExitStack() as stack:
        workers = [Worker(library, threads) for library in libraries]
        for worker in workers:
            stack.callback(worker.close)
        lock = stack.enter_context(MachineLock())
        for workload in todo:
            lock.between()
            rows.append(measure(workload, workers, threads, settings))
            append(file, json_line(rows[-1]))
            print(_progress(rows[-1]), file=sys.stderr)
    return rows


def _progress(row: Row) -> str:
    times = "  ".join(f"{name} {1e3 * s:.3g}" for name, s in row.seconds.items())
    lead = row.lead() or row.lead("untuned")
    ahead = f"  {lead:.2f}x" if lead else ""
    return f"{row.workload} on {row.threads}: limit {1e3 * row.limit:.3g}  {times} ms{ahead}"


def _is_named(workload: Workload, parts: Sequence[str]) -> bool:
    return any(part in workload.name or part == workload.family for part in parts)


def _settings(
    args: argparse.Namespace,
    chosen: Sequence[Workload],
    threads: Sequence[int],
    done: Sequence[Row],
    file: Path,
) -> Settings:
    settings = Settings(args.rounds, args.seconds, args.log or f"{file.with_suffix('')}.log.jsonl")
    if args.budget is not None:
        return replace(settings, budget=_seconds(args.budget))
    needs = [w.need for w in chosen] * len(threads)
    if args.total_budget is None:
        # As much for each as it has when everything is measured.
        whole = sum(w.need for w in fixed_workloads()) * len(_thread_counts())
        total = _seconds(_WHOLE) * sum(needs) / whole
    else:
        total = _seconds(args.total_budget)
    left = max(0.0, total - sum(row.tuning for row in done))
    known = {(row.workload, row.threads) for row in done}
    to_come = [w.need for t in threads for w in chosen if (w.name, t) not in known]
    return replace(settings, allowance=Allowance(left, to_come))


def _thread_counts() -> list[int]:
    return sorted({1, Target.host().cores})


def _seconds(text: str) -> float:
    seconds = parse_budget(text).seconds
    if seconds is None:
        raise SystemExit(f"bench: the budget {text!r} is not a time")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="a family, or a part of workloads' names")
    parser.add_argument("--threads", type=int, action="append", help="again for several")
    parser.add_argument("--untuned", action="store_true", help="no tuning")
    parser.add_argument("--budget", help="tuning time of each workload, instead of a total")
    parser.add_argument(
        "--total-budget", help=f"tuning time of the run (of everything: {_WHOLE}), spread by need"
    )
    parser.add_argument("--log", help="tuning log to use (else a new one)")
    parser.add_argument("--random", type=int, metavar="N", help="N workloads of other sizes")
    parser.add_argument("--seed", type=int, default=0, help="which other sizes (0)")
    parser.add_argument("--libraries", help=f"some of {','.join(LIBRARIES)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    parser.add_argument(
        "--seconds", type=float, default=0.06, help="of each library in a round (0.06)"
    )
    parser.add_argument("--resume", type=Path, metavar="FILE", help="lines of an earlier run")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
