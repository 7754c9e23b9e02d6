"""Training steps of six models, forward, backward and update, beside torch, inductor and JAX.

    python -m bench.training                              all on one thread
    python -m bench.training --models gpt,lstm --threads 2
    python -m bench.training --peers ours,backend,eager

Float32, the same weights and data, plain descent; every peer in a process of its own, stopped while
another runs. JAX is that of the Python that ``NUMBA_PYTHON`` names, else of this one. The bars: the
losses of two steps within 1e-4 of each other; the gradient by ``torch.compile`` with our backend
within 1.1 times ``lw.value_and_grad``. The exit status is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from .models import MODELS
from .peers import OURS, PEERS

__all__ = ["Row", "main", "summary", "table"]

CLOSE = 1e-4
BACKEND_BAR = 1.1
_PATIENCE = 600.0
_PARTS = ("step", "gradient", "forward")


@dataclass(slots=True)
class Row:
    """One model: by peer and part the seconds of a call (the median of the rounds); by peer those
    of the first step with compiling, the peak memory in MB after the first steps, their losses,
    and what failed."""

    model: str
    threads: int
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """Returns how many times the step of the fastest peer that is not us ``peer`` takes."""
        others = [s["step"] for n, s in self.seconds.items() if n not in OURS and "step" in s]
        mine = self.seconds.get(peer, {}).get("step")
        return mine / min(others) if others and mine else None

    def spread(self) -> float:
        """Returns how far the losses of the peers are apart in a step, relative to the greatest."""
        steps = list(zip(*self.losses.values()))
        return max((max(s) - min(s) for s in steps), default=0.0) / max(map(max, steps), default=1)


def measure(model: str, workers: Sequence[Worker], args: argparse.Namespace) -> Row:
    """Makes each part of the model ready in every process, then measures them alternately."""
    row = Row(model, args.threads)
    for part in _PARTS:
        times: dict[str, list[float]] = {}
        for worker in workers:
            peer = worker.library
            if peer in row.failed:
                continue
            job = {"do": "prepare", "name": model, "part": part, "threads": args.threads}
            answer = worker.ask(_PATIENCE, **job)
            if "failed" in answer:
                row.failed[peer] = answer["failed"]
            elif part == "step":
                for name in ("ready", "memory", "losses"):
                    getattr(row, name)[peer] = answer[name]
        for _ in range(args.rounds):
            for worker in workers:
                peer = worker.library
                if peer in row.failed:
                    continue
                answer = worker.ask(_PATIENCE, do="round", seconds=args.seconds)
                if "failed" in answer:
                    row.failed[peer] = answer["failed"]
                else:
                    times.setdefault(peer, []).append(answer["seconds"])
        for peer, each in times.items():
            row.seconds.setdefault(peer, {})[part] = statistics.median(each)
    for worker in workers:
        worker.close()  # the next model finds the memory free
    return row


def table(rows: Sequence[Row]) -> str:
    """Returns a line for each model and peer."""
    lines = [
        "| model | peer | step ms | x fastest peer | gradient ms | forward ms | gradient / forward "
        "| peak MB | first step s |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        for peer, seconds in row.seconds.items():
            ms = [f"{1e3 * seconds[p]:.3g}" if p in seconds else "-" for p in _PARTS]
            cost = "-"
            if "forward" in seconds:
                cost = f"{seconds['gradient'] / seconds['forward']:.2f}"
            ratio = f"{r:.2f}" if (r := row.ratio(peer)) else "-"
            memory, ready = f"{row.memory[peer]:.0f}", f"{row.ready[peer]:.1f}"
            cells = [row.model, peer, ms[0], ratio, *ms[1:], cost, memory, ready]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(rows: Sequence[Row]) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    lines: list[str] = []
    for name in OURS:
        ratios = [r for row in rows if (r := row.ratio(name)) is not None]
        if ratios:
            lines.append(
                f"{name}: geometric mean {_mean(ratios):.3f}x the time of the fastest peer, "
                f"most {max(ratios):.3f}x"
            )
    met = True
    both = [row.seconds for row in rows if all("gradient" in row.seconds.get(n, {}) for n in OURS)]
    if both:
        ratios = [s["backend"]["gradient"] / s["ours"]["gradient"] for s in both]
        met = max(ratios) <= BACKEND_BAR
        lines.append(
            f"backend: geometric mean {_mean(ratios):.3f}x the gradient of ours, most "
            f"{max(ratios):.3f}x (bar {BACKEND_BAR:g}); {'met' if met else 'MISSED'}"
        )
    spread = max(row.spread() for row in rows)
    close = spread <= CLOSE
    lines.append(
        f"losses at most {spread:.1e} apart (bar {CLOSE:g}); {'met' if close else 'MISSED'}"
    )
    for row in rows:
        met &= not any(name in OURS for name in row.failed)
        lines += [f"{row.model}: {name}: {why}" for name, why in row.failed.items()]
    return "\n".join(lines), met and close


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    peers, models = args.peers.split(","), args.models.split(",")
    for kind, names, table_ in (("peer", peers, PEERS), ("model", models, MODELS)):
        unknown = [n for n in names if n not in table_]
        if unknown:
            print(f"bench: no {kind} {unknown[0]}; there are {', '.join(table_)}", file=sys.stderr)
            return 2
    workers: list[Worker] = []
    for name in peers:
        python = os.environ.get("NUMBA_PYTHON", sys.executable) if name == "jax" else sys.executable
        command = [python, "-m", "bench.training.worker"]
        workers.append(Worker(name, args.threads, command, PEERS[name].environment))
    file = results_file(args.out, "training")
    return measure_rows(
        file, workers, models, lambda model: measure(model, workers, args), table, summary
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", default=",".join(MODELS), help="which, with commas between")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, with commas between")
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2))
    parser.add_argument("--rounds", type=int, default=5, help="rounds each peer gets (5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round (0.5)")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
