"""A token of a decoder of the shape of GPT-2 small, with a cache of keys and values.

    python -m bench.decode                       at contexts of 1 to 1024, two threads
    python -m bench.decode --threads 1           one thread
    python -m bench.decode --peers ours,eager --positions 0,1023

``ours`` is a native call for each token, ``ours-loop`` one for 16 tokens, ``ours-bfloat16`` to
``ours-int4`` calls with narrower weights, each beside the limit of its own bytes. Every peer is a
process of its own, stopped while another runs. The limit is the bytes of weights and cache that a
token reads over the bandwidth, which is measured between the rounds. Bars: within 10 % of the limit
on two threads, faster than every peer, no memory asked for per token. The exit status is 1 if one
is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from examples.decoder import KINDS

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from .limit import bandwidth, token_bytes
from .peers import OURS, PEERS, SIZES, expected

__all__ = ["Row", "main", "summary", "table"]

FOLDER = ROOT / "build" / "decode"
LEAST_SHARE = 0.9
BAR_THREADS = 2
_PATIENCE = 300.0


@dataclass(slots=True)
class Row:
    """One position: the bytes of a token, the bandwidth in bytes per second, and by peer the
    seconds of a token (the median of the rounds), of the first one with all that comes before it,
    how often a call asks for memory, and what failed."""

    position: int
    nbytes: int
    bandwidth: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """The seconds that a token takes at least."""
        return self.nbytes / self.bandwidth

    def share(self, peer: str) -> float:
        """Returns the limit of the peer's weights as a share of what it takes."""
        least, most = (token_bytes(SIZES, self.position, k) for k in (PEERS[peer].kind, "float32"))
        return self.limit * least / most / self.seconds[peer]


def measure(position: int, workers: Sequence[Worker], args: argparse.Namespace) -> Row:
    """Measures all peers at a position alternately, the bandwidth with them."""
    row = Row(position, token_bytes(SIZES, position))
    args.folder.mkdir(parents=True, exist_ok=True)
    paths = {k: args.folder / f"scores-{k}-{position}.npy" for k in KINDS}
    for kind in {PEERS[worker.library].kind for worker in workers}:
        if not paths[kind].exists():
            np.save(paths[kind], expected(position, kind))
    tokens: dict[str, int] = {}
    for worker in workers:
        path = str(paths[PEERS[worker.library].kind])
        command = {"position": position, "expected": path, "threads": args.threads}
        answer = worker.ask(_PATIENCE, do="prepare", **command)
        if "failed" in answer:
            row.failed[worker.library] = answer["failed"]
            continue
        tokens[worker.library] = answer["tokens"]
        row.ready[worker.library] = answer["ready"]
        if answer["asked"] is not None:
            row.asked[worker.library] = answer["asked"]
    times: dict[str, list[float]] = {name: [] for name in tokens}
    for _ in range(args.rounds):
        row.bandwidth = max(row.bandwidth, bandwidth(args.threads))
        for worker in workers:
            if worker.library in times and worker.library not in row.failed:
                answer = worker.ask(_PATIENCE, do="round", seconds=args.seconds)
                if "failed" in answer:
                    row.failed[worker.library] = answer["failed"]
                else:
                    count = tokens[worker.library]
                    times[worker.library].append(answer["seconds"] / count)
    row.seconds = {n: statistics.median(t) for n, t in times.items() if t}
    return row


def table(rows: Sequence[Row]) -> str:
    """Returns milliseconds per token by position and peer, and our share of the limit."""
    names = [n for n in PEERS if any(n in r.seconds for r in rows)]
    ours = [n for n in names if n in OURS]
    heads = ["context", "MB", "GB/s", "limit", *names, *(f"{n} of the limit" for n in ours)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [str(row.position + 1), f"{row.nbytes / 1e6:.0f}", f"{row.bandwidth / 1e9:.1f}"]
        cells.append(f"{1e3 * row.limit:.2f}")
        cells += [f"{1e3 * row.seconds[n]:.2f}" if n in row.seconds else "-" for n in names]
        cells += [f"{100 * row.share(n):.0f} %" if n in row.seconds else "-" for n in ours]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row], threads: int) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    lines: list[str] = []
    met = True

    def bar(text: str, good: bool) -> None:
        nonlocal met
        lines.append(f"{text}; {'MET' if good else 'MISSED'}")
        met &= good

    for name in OURS:
        ours = [row for row in rows if name in row.seconds]
        if not ours:
            continue
        least = min(ours, key=lambda row: row.share(name))
        text = f"{name}: {100 * least.share(name):.0f} % of the limit or more"
        if threads == BAR_THREADS:
            bar(text, least.share(name) >= LEAST_SHARE)
        else:
            lines.append(text)
        leads = {
            peer: min(r.seconds[peer] / r.seconds[name] for r in ours if peer in r.seconds)
            for peer in PEERS
            if peer not in OURS and any(peer in r.seconds for r in ours)
        }
        if leads:
            text = ", ".join(f"{peer} {lead:.2f}x" for peer, lead in leads.items())
            bar(f"{name}: time of others at least {text}", min(leads.values()) > 1)
        asked = max((row.asked[name] for row in ours if name in row.asked), default=None)
        if asked is not None:
            bar(f"{name}: {asked:g} requests of memory per call", asked == 0)
    for row in rows:
        lines += [f"{row.position + 1}: {name}: {why}" for name, why in row.failed.items()]
        met &= not any(name in OURS for name in row.failed)
    return "\n".join(lines), met


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    names = args.peers.split(",")
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        print(f"bench: no peer {unknown[0]}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "bench.decode.worker"]
    workers = [Worker(n, args.threads, command, dict(PEERS[n].environment)) for n in names]
    return measure_rows(
        results_file(args.out, "decode"),
        workers,
        map(int, args.positions.split(",")),
        lambda position: measure(position, workers, args),
        table,
        lambda rows: summary(rows, args.threads),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.decode",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--threads", type=int, default=BAR_THREADS)
    parser.add_argument("--positions", default="0,127,511,1023", help="of the token (some)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds each peer gets (5)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a round (0.3)")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, with commas between")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where results are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
