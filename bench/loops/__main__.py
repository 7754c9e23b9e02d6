"""Programs with loops and recursion, untuned and on one thread, beside numba, JAX, C and NumPy.

    python -m bench.loops                      all of them
    python -m bench.loops collatz sequences    some, or a family
    python -m bench.loops --steps              what an iteration costs, instead
    python -m bench.loops --list               which there are

Every peer is a process of its own, stopped while another runs; one that is not installed is a dash.
NUMBA_PYTHON names the interpreter of an environment with numba, if it is not this one. Results are
compared with those of plain Python before anything is timed.
Bars: at least as fast as the best of numba and JAX on 34, geometric mean 1.5x; scalar loops at most
2x the time of C at -O2 and 1.3x that of numba; loops over small arrays 20x NumPy. The exit status
is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ..lock import MachineLock
from ..process import ROOT, Worker
from . import programs, steps
from .peers import ORACLE, OURS, PEERS
from .program import PROGRAMS, Program
from .table import Row, summary, table

__all__ = ["main", "measure"]

FOLDER = ROOT / "build" / "loops"
DEFAULT = ",".join(name for name in PEERS if name != ORACLE)
_ROUND_PATIENCE = 60.0  # seconds
_HOPELESS = 20.0  # times ours: one call tells enough


def measure(program: Program, workers: Sequence[Worker], args: argparse.Namespace) -> Row:
    """Makes the program ready in every process, then measures them alternately."""
    row = Row(program.name, program.family, program.arrays)
    once: dict[str, float] = {}
    expected = _expected_file(program, args.folder)
    command = {"name": program.name, "size": program.large, "expected": str(expected)}
    if not expected.exists():
        oracle = _worker(ORACLE)
        answer = oracle.ask(PEERS[ORACLE].patience, do="prepare", write=True, **command)
        oracle.close()
        if "failed" in answer:
            row.failed[ORACLE] = answer["failed"]
            return row
    for worker in workers:
        name = worker.library
        answer = worker.ask(PEERS[name].patience, do="prepare", write=False, **command)
        if "failed" in answer:
            row.failed[name] = answer["failed"]
        else:
            once[name] = answer["once"]
            row.compile[name] = answer["ready"] - answer["once"]
    times: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for worker in workers:
            name = worker.library
            if name not in once or name in row.failed:
                continue
            if once[name] > _HOPELESS * once.get(OURS, 0.01) and once[name] > args.seconds:
                times[name] = [once[name]]
                continue
            answer = worker.ask(_ROUND_PATIENCE, do="round", seconds=args.seconds)
            if "failed" in answer:
                row.failed[name] = answer["failed"]
            else:
                times.setdefault(name, []).append(answer["seconds"])
    row.seconds = {n: statistics.median(t) for n, t in times.items() if n not in row.failed}
    return row


def _expected_file(program: Program, folder: Path) -> Path:
    """Where plain Python's results are kept: computing them takes longer than all else."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(inspect.getfile(program.plain)).read_bytes()
    return folder / f"{program.name}-{program.large}-{zlib.crc32(source):08x}.npz"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    chosen = [p for p in PROGRAMS.values() if not args.names or {p.name, p.family} & {*args.names}]
    if args.steps:
        with MachineLock():
            return steps.main()
    if args.list or not chosen:
        print("\n".join(f"{p.family:12} {p.name}" for p in chosen or PROGRAMS.values()))
        return 0 if args.list else 2
    names = args.peers.split(",")
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        print(f"bench: no peer {unknown[0]}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / f"loops-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    rows: list[Row] = []
    with ExitStack() as stack:
        workers = [_worker(name) for name in names]
        for worker in workers:
            stack.callback(worker.close)
        lock = stack.enter_context(MachineLock())
        for program in chosen:
            lock.between()
            rows.append(measure(program, workers, args))
            with file.open("a") as out:
                out.write(json.dumps(asdict(rows[-1])) + "\n")
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
    text, met = summary(rows)
    text = f"{table(rows)}\n\n{text}\n"
    file.with_suffix(".md").write_text(text)
    print(text, end="")
    return 0 if met else 1


def _worker(name: str) -> Worker:
    peer = PEERS[name]
    command = [peer.interpreter, "-m", f"{__package__}.worker"]
    return Worker(name, 1, command, peer.environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="programs, or families of them")
    parser.add_argument("--rounds", type=int, default=5, help="rounds each peer gets (5)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round (0.1)")
    parser.add_argument("--peers", default=DEFAULT, help=f"which ({DEFAULT}; python)")
    parser.add_argument("--steps", action="store_true", help="only say what iterations cost")
    parser.add_argument("--list", action="store_true", help="only say which programs there are")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where results are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    assert programs  # they declare themselves
    sys.exit(main())
