"""Networks that others wrote, through ONNX and through torch, beside what runs them today.

    python -m bench.nets                               the six with bars, untuned, one thread
    python -m bench.nets --tuned --budget 5m           and tuned
    python -m bench.nets convnext llama --threads 2    others
    python -m bench.nets resnet50:qdq bert:dynamic     quantised by ONNX Runtime: int8
    python -m bench.nets --streams --threads 2         f.map and OpenVINO's throughput mode
    python -m bench.nets --list                        which there are

Batch 1, float32, random weights; every peer in a process of its own, stopped while another runs.
Bars: within 1e-4 of float64; untuned 1.05x the fastest peer in the geometric mean; tuned faster
than the fastest peer on each, 1.15x in the geometric mean. The exit status is 1 if one is missed.
Quantised ones are compared with ONNX Runtime's results, from which a quantum in each layer grows to
some per cent, and are to be 1.2x the fastest peer.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loopwright.autotune.budget import parse_budget

from ..peer_run import measure_rows, results_file
from ..process import ROOT, Worker
from .files import FOLDER, FORMS, files_of
from .peers import OURS, PEERS, STREAMS

__all__ = ["Row", "main", "summary", "table"]

CLOSE = 1e-4
UNTUNED_BAR, TUNED_BAR, INT8_BAR, STREAMS_BAR = 1.05, 1.15, 1.2, 1.0
WITH_BARS = ("resnet18", "resnet50", "mobilenetv2", "bert", "gpt2", "vit")
_PATIENCE = 300.0


@dataclass(slots=True)
class Row:
    """One network: by peer the seconds of a call (the median of the rounds) and of the first call
    with all that comes before it, how far the result is off, the peak memory in MB, and what
    failed."""

    net: str
    threads: int
    seconds: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def lead(self, ours: str) -> float | None:
        """Returns how many times as fast as the fastest peer we are."""
        peers = [s for name, s in self.seconds.items() if name not in OURS]
        return min(peers) / self.seconds[ours] if peers and ours in self.seconds else None


def measure(net: str, workers: Sequence[Worker], args: argparse.Namespace, log: str) -> Row:
    """Makes the network ready in every process, then measures them alternately."""
    row = Row(net, args.threads)
    model, arrays = files_of(net, args.folder)
    for worker in workers:
        tuned = worker.library.endswith("-tuned")
        budget = (parse_budget(args.budget).seconds or 0.0) if tuned else 0.0
        answer = worker.ask(
            _PATIENCE + 2 * budget,
            do="prepare",
            name=net,
            model=str(model),
            arrays=str(arrays),
            threads=args.threads,
            budget=budget,
            log=log,
        )
        if "failed" in answer:
            row.failed[worker.library] = answer["failed"]
        else:
            for name in ("ready", "wrong", "memory"):
                getattr(row, name)[worker.library] = answer[name]
    times: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for worker in workers:
            if worker.library not in row.failed:
                answer = worker.ask(_PATIENCE, do="round", seconds=args.seconds)
                if "failed" in answer:
                    row.failed[worker.library] = answer["failed"]
                else:
                    times.setdefault(worker.library, []).append(answer["seconds"])
    row.seconds = {n: statistics.median(t) for n, t in times.items() if n not in row.failed}
    for worker in workers:
        worker.close()  # the next network finds the memory free
    return row


def table(rows: Sequence[Row]) -> str:
    """Returns milliseconds per call, and how many times as fast as the fastest peer we are."""
    names = [n for n in PEERS if any(n in r.seconds or n in r.failed for r in rows)]
    ours = [n for n in names if n in OURS]
    lines = [f"| net | {' | '.join(names)} | {' | '.join(f'{n} x' for n in ours)} |"]
    lines.append("|---" * (1 + len(names) + len(ours)) + "|")
    for row in rows:
        times = [f"{1e3 * row.seconds[n]:.3g}" if n in row.seconds else "-" for n in names]
        leads = [f"{lead:.2f}" if (lead := row.lead(n)) else "-" for n in ours]
        lines.append(f"| {row.net} | {' | '.join(times + leads)} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> tuple[str, bool]:
    """Returns each bar with its figure, and whether all are met."""
    lines: list[str] = []
    met = True
    for name in OURS:
        leads = [lead for row in rows if (lead := row.lead(name)) is not None]
        if not leads:
            continue
        mean = math.exp(statistics.fmean(map(math.log, leads)))
        wrong = max(row.wrong[name] for row in rows if name in row.wrong)
        int8 = any(":" in row.net for row in rows)
        bar = (
            STREAMS_BAR
            if name in STREAMS
            else INT8_BAR
            if int8
            else TUNED_BAR
            if name.endswith("-tuned")
            else UNTUNED_BAR
        )
        good = mean >= bar and (int8 or wrong <= CLOSE)
        good &= min(leads) > 1 or not name.endswith("-tuned")
        met &= good
        lines.append(
            f"{name}: geometric mean {mean:.3f}x the fastest peer (bar {bar:g}), least "
            f"{min(leads):.3f}x, at most {wrong:.1e} off (bar {CLOSE:g}); "
            f"{'met' if good else 'MISSED'}"
        )
    for row in rows:
        met &= not any(name in OURS for name in row.failed)
        lines += [f"{row.net}: {name}: {why}" for name, why in row.failed.items()]
    return "\n".join(lines), met


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; 1 if a bar is missed, 2 if the line was not understood."""
    args = _parser().parse_args(argv)
    if args.list:
        from .models import NETS

        print("\n".join(NETS), f"each also as :{', :'.join(FORMS)}", sep="\n")
        return 0
    peers = args.peers or ",".join(n for n in PEERS if (n in STREAMS) == args.streams)
    names = [n for n in peers.split(",") if args.tuned or not n.endswith("-tuned")]
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        print(f"bench: no peer {unknown[0]}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    file = results_file(args.out, "nets")
    log = args.log or str(file.with_suffix(".log.jsonl"))
    command = [sys.executable, "-m", "bench.nets.worker"]
    workers = [Worker(name, args.threads, command, _variables(name, log)) for name in names]
    return measure_rows(
        file,
        workers,
        args.nets or WITH_BARS,
        lambda net: measure(net, workers, args, log),
        table,
        summary,
    )


def _variables(name: str, log: str) -> dict[str, str]:
    return (
        {"LOOPWRIGHT_LOG": log}
        if name in OURS and name.endswith("-tuned")
        else dict(PEERS[name].environment)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("nets", nargs="*", help="networks (those with bars)")
    parser.add_argument("--tuned", action="store_true", help="tune each network, too")
    parser.add_argument("--budget", default="5m", help="tuning time of each network (5m)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="rounds each peer gets (7)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round (0.5)")
    parser.add_argument("--peers", help="which, with commas between")
    parser.add_argument("--streams", action="store_true", help="16 calls, many at a time, as one")
    parser.add_argument("--log", help="tuning log to use (else a new one)")
    parser.add_argument("--list", action="store_true", help="only say which networks there are")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the models are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
