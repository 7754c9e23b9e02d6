"""Programs as textbooks write them, on one thread, beside plain Python and numba.

    python -m bench.textbook                    all of them
    python -m bench.textbook dijkstra strings   some, or a subject

Each is one function, unchanged for every peer; numba compiles it, and what it calls, in nopython
mode. NUMBA_PYTHON names the interpreter of an environment with numba, if it is not this one.
Bars: 94 % run as written and agree with Python; geometric mean 1.3x numba. The exit status is 1 if
one is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..npbench.__main__ import OURS, PATIENCE, Row
from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from . import programs
from .program import PROGRAMS
from .worker import PEERS

__all__ = ["main"]

LEAST_SHARE, LEAST_MEAN = 0.94, 1.3


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed."""
    args = _parser().parse_args(argv)
    wanted = {*args.names}
    items = [n for n, p in PROGRAMS.items() if not wanted or {n, p.subject} & wanted]
    numba = os.environ.get("NUMBA_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as scratch:
        workers: dict[str, Worker] = {}
        for name in PEERS:
            interpreter = numba if name == "numba" else sys.executable
            command = [interpreter, "-m", f"{__package__}.worker"]
            workers[name] = Worker(name, 1, command, {"LOOPWRIGHT_CACHE": f"{scratch}/cache"})
        return measure_rows(
            results_file(args.out, "textbook"),
            [*workers.values()],
            items,
            lambda name: _measured(name, workers, args, Path(scratch)),
            _table,
            _summary,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.textbook",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="programs or subjects (all)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds each peer gets (3)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round (0.1)")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


def _measured(
    name: str, workers: dict[str, Worker], args: argparse.Namespace, scratch: Path
) -> Row:
    row, expected = Row(name, "large"), str(scratch / f"{name}.npy")
    times: dict[str, list[float]] = {}
    for peer, worker in workers.items():
        write = peer == next(iter(PEERS))
        answer = worker.ask(PATIENCE, do="prepare", name=name, write=write, expected=expected)
        if "failed" in answer:
            row.failed[peer] = answer["failed"]
        else:
            row.first[peer] = answer["ready"]
    for _ in range(args.rounds):
        for peer in row.first:
            answer = workers[peer].ask(PATIENCE, do="round", seconds=args.seconds)
            if "failed" not in answer:
                times.setdefault(peer, []).append(answer["seconds"])
    row.seconds = {peer: statistics.median(each) for peer, each in times.items()}
    for worker in workers.values():
        worker.close()  # the next program is compiled cold
    return row


def _table(rows: Sequence[Row]) -> str:
    head = ["program", *(f"{n} ms" for n in PEERS), "numba / ours", "ours, first s", "numba, first"]
    lines = [f"| {' | '.join(head)} | refused |", "|---" * (len(head) + 1) + "|"]
    for row in rows:
        cells = [row.program, *(_text(row.seconds.get(n), 1e3) for n in PEERS)]
        cells += [
            _text(row.lead("numba")),
            _text(row.first.get(OURS)),
            _text(row.first.get("numba")),
        ]
        refused = (f"{n}: {why}" for n, why in row.failed.items())
        lines.append(f"| {' | '.join(cells)} | {'; '.join(refused).partition(chr(10))[0]} |")
    return "\n".join(lines)


def _text(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{unit * value:.3g}"


def _summary(rows: Sequence[Row]) -> tuple[str, bool]:
    ran = [row for row in rows if OURS in row.seconds]
    leads = [lead for row in ran if (lead := row.lead("numba")) is not None]
    mean = math.exp(statistics.fmean(map(math.log, leads))) if leads else 0.0
    text = f"{len(ran)} of {len(rows)} run as written and agree with Python, "
    text += f"numba runs {sum('numba' in row.seconds for row in rows)}; "
    text += f"geometric mean {mean:.2f}x numba of {len(leads)}, "
    text += f"faster on {sum(lead >= 1 for lead in leads)}"
    return text, len(ran) >= LEAST_SHARE * len(rows) and mean >= LEAST_MEAN


if __name__ == "__main__":
    assert programs  # they declare themselves
    sys.exit(main())
