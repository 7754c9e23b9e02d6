"""The programs of NPBench as they are written, on one thread, beside NumPy, numba and JAX.

    python -m bench.npbench DIR                 all programs of a checkout, at the sizes S and M
    python -m bench.npbench DIR cholesky lu     some
    python -m bench.npbench DIR --sizes S

DIR is a checkout of github.com/spcl/npbench. Our function is that of the file for NumPy; numba and
JAX have files of their own there. NUMBA_PYTHON names the interpreter of an environment with numba
and JAX, if it is not this one. Every peer is a process of its own, stopped while another runs, and
every call has fresh arguments. Outcomes are compared with NumPy's before anything is timed.
Bars: all but one run and agree; over the best of the peers geometric mean 2x, even on 48 of 54,
none below 0.7x. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from . import programs
from .worker import PEERS

__all__ = ["main"]

OURS = "loopwright"
PATIENCE = 120.0  # seconds
LEAST_MEAN, LEAST_EVEN, LEAST = 2.0, 48 / 54, 0.7


@dataclass(slots=True)
class Row:
    """One program at one size: by peer the seconds of a call (the median of the rounds) and those
    of the first one; and why there are none."""

    program: str
    size: str
    seconds: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def lead(self, *peers: str) -> float | None:
        """Returns the seconds of the fastest of ``peers`` over ours; None if either is missing."""
        theirs = [self.seconds[p] for p in peers if p in self.seconds]
        return min(theirs) / self.seconds[OURS] if theirs and OURS in self.seconds else None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed."""
    args = _parser().parse_args(argv)
    chosen = args.programs or programs.names(args.folder)
    items = [(name, size) for size in args.sizes.split(",") for name in chosen]
    python = os.environ.get("NUMBA_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as scratch:
        workers: dict[str, Worker] = {}
        for name in args.peers.split(","):
            interpreter = python if name in ("numba", "jax") else sys.executable
            command = [interpreter, "-m", f"{__package__}.worker"]
            workers[name] = Worker(name, 1, command, {"LOOPWRIGHT_CACHE": f"{scratch}/cache"})
        return measure_rows(
            results_file(args.out, "npbench"),
            [*workers.values()],
            items,
            lambda item: _measured(*item, workers, args, Path(scratch)),
            _table,
            _summary,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.npbench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a checkout of NPBench")
    parser.add_argument("programs", nargs="*", help="names of programs (all)")
    parser.add_argument("--sizes", default="S,M", help="which sizes, of S, M, L, paper (S,M)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds each peer gets (3)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a round (0.2)")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


def _measured(
    name: str, size: str, workers: dict[str, Worker], args: argparse.Namespace, scratch: Path
) -> Row:
    row = Row(name, size)
    expected = scratch / f"{name}-{size}.npz"
    command = {"folder": str(args.folder.resolve()), "name": name, "size": size}
    for peer in sorted(workers, key=lambda n: n != "numpy"):
        answer = workers[peer].ask(
            PATIENCE, do="prepare", write=peer == "numpy", expected=str(expected), **command
        )
        if "failed" in answer:
            row.failed[peer] = answer["failed"]
        else:
            row.first[peer] = answer["ready"]
    times: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for peer in row.first:
            answer = workers[peer].ask(PATIENCE, do="round", seconds=args.seconds)
            if "failed" in answer:
                row.failed[peer] = answer["failed"]
            else:
                times.setdefault(peer, []).append(answer["seconds"])
    row.seconds = {n: statistics.median(t) for n, t in times.items() if n not in row.failed}
    for worker in workers.values():
        worker.close()  # the next program is compiled cold
    return row


def _table(rows: Sequence[Row]) -> str:
    names = [n for n in PEERS if any(n in r.seconds or n in r.failed for r in rows)]
    peers = [n for n in names if n != OURS]
    head = ["program", *(f"{n} ms" for n in names), "best / ours", "first call s", "refused"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [f"{row.program} {row.size}", *(_text(row.seconds.get(n), 1e3) for n in names)]
        cells += [_text(row.lead(*peers)), _text(row.first.get(OURS))]
        cells.append(row.failed.get(OURS, "").partition("\n")[0])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _text(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{unit * value:.3g}"


def _summary(rows: Sequence[Row]) -> tuple[str, bool]:
    ran = [r for r in rows if OURS in r.seconds]
    peers = [n for n in PEERS if n != OURS]
    lines = [f"{len(ran)} of {len(rows)} run and agree with NumPy"]
    met = len({r.program for r in rows} - {r.program for r in ran}) <= 1
    for rivals in (peers, *([n] for n in peers)):
        leads = [lead for r in ran if (lead := r.lead(*rivals)) is not None]
        if not leads:
            continue
        mean = math.exp(statistics.fmean(map(math.log, leads)))
        even = sum(lead >= 1 for lead in leads)
        worst = min(leads)
        lines.append(
            f"over {' '.join(rivals)}: geometric mean {mean:.2f}x of {len(leads)}, even or better "
            f"on {even}, least {worst:.2f}x"
        )
        if rivals is peers:
            met &= mean >= LEAST_MEAN and even >= LEAST_EVEN * len(rows) and worst >= LEAST
    return "\n".join(lines), met


if __name__ == "__main__":
    raise SystemExit(main())
