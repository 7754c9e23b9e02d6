"""Measuring programs in the processes of all peers, alternately."""

from __future__ import annotations

import argparse
import inspect
import statistics
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from .peers import OURS, PEERS
from .program import Program
from .table import Row

__all__ = ["Suite", "add_options", "measure", "measure_all"]

_ROUND_PATIENCE = _ORACLE_PATIENCE = 60.0  # seconds
_HOPELESS = 20.0  # times ours: one call tells enough


@dataclass(frozen=True, slots=True)
class Suite:
    """The package whose ``programs`` are measured, the peer whose results all others are to have,
    and the functions that print rows, and bars and whether they are met."""

    package: str
    oracle: str
    table: Callable[[Sequence[Row]], str]
    summary: Callable[[Sequence[Row]], tuple[str, bool]]


def add_options(parser: argparse.ArgumentParser, peers: str, folder: Path) -> None:
    """Adds what all suites have: which programs and peers, and how long."""
    parser.add_argument("names", nargs="*", help="programs, or families of them")
    parser.add_argument("--rounds", type=int, default=5, help="rounds each peer gets (5)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round (0.1)")
    parser.add_argument("--peers", default=peers, help=f"which of {', '.join(PEERS)} ({peers})")
    parser.add_argument("--list", action="store_true", help="only say which programs there are")
    parser.add_argument("--folder", type=Path, default=folder, help="where results are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")


def measure_all(programs: Sequence[Program], args: argparse.Namespace, suite: Suite) -> int:
    """Measures programs, prints the table and writes it to a file; 1 if a bar is missed, 2 if a
    peer is unknown."""
    names = args.peers.split(",")
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        print(f"bench: no peer {unknown[0]}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    workers = [_worker(name) for name in names]
    return measure_rows(
        results_file(args.out, suite.package.rpartition(".")[2]),
        workers,
        programs,
        lambda program: measure(program, workers, args, suite),
        suite.table,
        suite.summary,
    )


def _worker(peer: str) -> Worker:
    command = [PEERS[peer].interpreter, "-m", f"{__package__}.worker"]
    return Worker(peer, 1, command, PEERS[peer].environment)


def measure(
    program: Program, workers: Sequence[Worker], args: argparse.Namespace, suite: Suite
) -> Row:
    """Makes the program ready in every process, then measures them alternately."""
    row = Row(program.name, program.family, program.arrays)
    once: dict[str, float] = {}
    expected = _expected_file(program, args.folder)
    command = {"name": program.name, "size": program.large, "expected": str(expected)}
    command["package"] = suite.package
    if not expected.exists():
        worker = _worker(suite.oracle)
        answer = worker.ask(_ORACLE_PATIENCE, do="prepare", write=True, **command)
        worker.close()
        if "failed" in answer:
            row.failed[suite.oracle] = answer["failed"]
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
