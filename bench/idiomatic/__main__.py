"""Programs as people write them, without tuning: beside NumPy, and beside the same ones tuned.

    python -m bench.idiomatic                          untuned and NumPy, one thread
    python -m bench.idiomatic --tuned --budget 2s      and tuned
    python -m bench.idiomatic causal norms --rounds 3  families, or parts of names
    python -m bench.idiomatic --list                   which programs there are

Bars: no program slower than NumPy by more than 10 %, none more than 1.5x its tuned time, geometric
mean at most 1.08x. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from loopwright.autotune.budget import parse_budget

from ..libraries import LIBRARIES
from ..lock import MachineLock
from ..measure import Settings, measure
from ..process import ROOT, Worker
from ..row import Row, append, json_line
from . import PROGRAMS
from .table import meets_bars, summary_text, table_text

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    chosen = [w for w in PROGRAMS.values() if _is_named(w.name, w.family, args.names)]
    if args.list or not chosen:
        print("\n".join(f"{w.family:12} {w.name}" for w in chosen or PROGRAMS.values()))
        return 0 if args.list else 2
    libraries = ["untuned", *(["tuned"] if args.tuned else []), *args.against.split(",")]
    unknown = [n for n in libraries if n not in LIBRARIES]
    if unknown:
        print(f"bench: no library {unknown[0]}; there are {', '.join(LIBRARIES)}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / f"idiomatic-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    log = args.log or str(file.with_suffix(".log.jsonl"))
    budget = parse_budget(args.budget).seconds if args.tuned else None
    settings = Settings(args.rounds, args.seconds, log, budget)
    rows: list[Row] = []
    with ExitStack() as stack:
        workers = [Worker(name, args.threads) for name in libraries]
        for worker in workers:
            stack.callback(worker.close)
        lock = stack.enter_context(MachineLock())
        for workload in chosen:
            lock.between()
            rows.append(measure(workload, workers, args.threads, settings))
            append(file, json_line(rows[-1]))
            print(_progress(rows[-1]), file=sys.stderr)
    text = f"{table_text(rows)}\n\n{summary_text(rows)}\n"
    file.with_suffix(".md").write_text(text)
    print(text, end="")
    return 0 if meets_bars(rows) else 1


def _is_named(name: str, family: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name or part == family for part in parts)


def _progress(row: Row) -> str:
    times = [f"{name} {1e3 * s:.3g} ms" for name, s in row.seconds.items()]
    return "  ".join([row.workload, *times, *(f"{n}: {why}" for n, why in row.failed.items())])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.idiomatic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="a family, or a part of programs' names")
    parser.add_argument("--tuned", action="store_true", help="tune each program, too")
    parser.add_argument("--budget", default="2s", help="tuning time of each program (2s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="rounds each library gets (5)")
    parser.add_argument("--seconds", type=float, default=0.04, help="length of a round (0.04)")
    parser.add_argument("--against", default="numpy-haswell,numpy-skylakex", help="other libraries")
    parser.add_argument("--log", help="tuning log to use (else a new one)")
    parser.add_argument("--list", action="store_true", help="only say which programs there are")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
