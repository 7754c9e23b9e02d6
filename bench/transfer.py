"""Quality of schedules chosen without measuring, on kernels that the model has not seen.

    python -m bench.collect --out unseen.jsonl --seed 1000 --tasks 40 --each 96 --tune 2
    python -m bench.transfer unseen.jsonl                    what ships, judged by these kernels
    python -m bench.transfer unseen.jsonl --no-race          without measuring anything

    python -m bench.transfer unseen.jsonl --no-race --again unseen_again.jsonl

Every kernel of the log is one that was tuned, and that the shipped model and logs do not have. Of
the model it says how well it ranks the schedules of chance among them:

- pairwise accuracy: the share of pairs in the right order; of all pairs, and of those 5 % apart;
- recall@30: the share of the 30 fastest that are among the 30 predicted to be fastest, of pools of
  200 drawn alternately from near the defaults and from the whole space, which is the share of the
  pool in Ansor's paper (Zheng et al., OSDI 2020: 5,000 test programs of 29 kernels). A space may
  have fewer schedules: then it is the fastest 15 %;
- top-1 and top-5: the speed of the best of the first so many predicted over that of the pool's
  fastest (TenSet, Zheng et al., NeurIPS 2021).

All are means over kernels. ``--again``, a log with the same schedules measured once more (the same
``bench.collect`` into another file), says how sure the answers are: how well the second measurement
foretells the first.

Then each kernel's best schedule is raced against what would be chosen for it

- at zero trials: the model's pick or the rules' default schedule, with what ships and no log;
- by the rules alone;
- with the log of all *other* kernels: a near shape's schedule, fitted;
- with the same kernel's log of another machine (``--foreign LOG``: one with its ISA masked).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from loopwright.autotune.log.lookup import shipped_logs
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import TOOLCHAIN
from loopwright.autotune.measure.measurer import NativeMeasurer, Workers
from loopwright.autotune.model.quality import ModelQuality
from loopwright.autotune.model.shipped import sample_logs, shipped_model
from loopwright.autotune.protocols import Candidate, FloatArray
from loopwright.autotune.record import MeasureRecord
from loopwright.autotune.selection.select import Chosen, choose_schedule
from loopwright.autotune.space.space import default_schedule
from loopwright.autotune.task import Task

from tools.samples import grouped, samples_of, task_of_records
from tools.shipping import quality_on

from .collect import CAREFUL
from .lock import MachineLock

__all__ = ["main", "unseen"]

LEAST = 20
"""Schedules of chance that a kernel must have for the ranking of them to say something."""
TOPS = (1, 5)
ROUNDS = 5
BARS = {"pairwise": 0.90, "best": 0.75, "recall": 0.75, "zero": 0.80, "near": 0.90, "foreign": 0.80}


@dataclass
class Shares:
    """Tuned time over that of a choice, for each kernel: 1 is as fast as tuned."""

    of: dict[str, float] = field(default_factory=dict[str, float])
    origins: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, name: str, share: float, origin: str) -> None:
        self.of[name] = share
        self.origins[origin] = self.origins.get(origin, 0) + 1

    def line(self, what: str, bar: float | None = None) -> str:
        if not self.of:
            return f"{what}: nothing to compare"
        values = np.array(list(self.of.values()))
        mean = math.exp(float(np.log(values).mean()))
        origins = ", ".join(f"{n} {o}" for o, n in sorted(self.origins.items()))
        text = f"{what}: {100 * mean:.1f} % of tuned speed"
        text += f" (bar {100 * bar:.0f} %)" if bar else ""
        return f"{text}, worst {100 * values.min():.0f} %, {len(values)} kernels: {origins}"


def unseen(log: TuningLog) -> dict[str, list[MeasureRecord]]:
    """The records of each task that what ships knows nothing of."""
    known = {r.workload.hash for path in sample_logs() for r in TuningLog(path)}
    known |= {r.workload.hash for shipped in shipped_logs() for r in TuningLog(shipped.path)}
    return {n: g for n, g in grouped(log).items() if g[0].workload.hash not in known}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Quality of the ranking of one kernel's schedules; ``tops`` are top-1 and top-5."""

    text: str
    quality: ModelQuality
    tops: tuple[float, ...]


def ranking(
    groups: Mapping[str, list[MeasureRecord]], again: TuningLog | None = None
) -> list[Ranking]:
    """Quality with which the shipped model, or else a second measurement, ranks the schedules of
    chance; those that were found by tuning (of seed 0) are all good ones, and left out."""
    model = shipped_model().model
    records = [r for g in groups.values() for r in g if r.seed != 0]
    found: list[Ranking] = []
    if again is not None:
        for group in grouped(records).values():
            both = _measured_twice(group, again)
            if len(both) >= LEAST:
                found.append(_ranked(group[0].workload.text, -both[:, 1], both[:, 0]))
    elif model is not None:
        for s in samples_of(records, LEAST).values():
            found.append(_ranked(s.task.workload.text, model.predict(s.features), s.costs))
    return found


def _measured_twice(group: Sequence[MeasureRecord], again: TuningLog) -> FloatArray:
    """float64[n, 2]: seconds of the schedules that ran both times."""
    second = _middles(again.of(group[0].workload.hash, group[0].target))
    pairs = [(cost, second[k]) for k, cost in _middles(group).items() if k in second]
    return np.array(pairs, np.float64).reshape(-1, 2)


def _middles(records: Sequence[MeasureRecord]) -> dict[str, float]:
    """Median time of the runs of each schedule that worked."""
    runs: dict[str, list[float]] = {}
    for record in records:
        if record.ok:
            runs.setdefault(record.schedule_key, []).append(record.cost)
    return {key: float(np.median(costs)) for key, costs in runs.items()}


def _ranked(text: str, predicted: FloatArray, costs: FloatArray) -> Ranking:
    order = np.argsort(-predicted, kind="stable")
    least = costs.min()
    tops = tuple(float(least / costs[order[:n]].min()) for n in TOPS)
    return Ranking(text, quality_on(predicted, costs), tops)


def _others(log: TuningLog, name: str) -> TuningLog:
    rest = TuningLog()
    for other, records in grouped(log).items():
        if other != name:
            rest.append(records)
    return rest


def _choices(task: Task, name: str, log: TuningLog, foreign: TuningLog | None) -> dict[str, Chosen]:
    target, threads = task.target, task.threads
    default, sketch = default_schedule(task.prim, target)
    found = {
        "rules": Chosen(default, "rules", sketch),
        "zero": choose_schedule(task.prim, target, threads, shipped_logs()),
    }
    near = choose_schedule(task.prim, target, threads, [_others(log, name)])
    if log.alike(task.workload)[1:]:
        found["near"] = near
    if foreign is not None and foreign.of(task.workload.hash):
        found["foreign"] = choose_schedule(task.prim, target, threads, [foreign])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.transfer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", help="kernels that were tuned, and are not in what ships")
    parser.add_argument("--foreign", metavar="LOG", help="the same kernels on another machine")
    parser.add_argument("--again", metavar="LOG", help="the same schedules measured once more")
    parser.add_argument("--no-race", action="store_true", help="only judge the model's ranking")
    parser.add_argument("--most", type=int, default=60, help="kernels to race (60)")
    parser.add_argument("--verbose", action="store_true", help="a line for each kernel")
    options = parser.parse_args(arguments)
    log = TuningLog(options.log)
    foreign = TuningLog(options.foreign) if options.foreign else None
    groups = unseen(log)
    say = sys.stdout.write
    say(f"{len(groups)} kernels that what ships does not know; {shipped_model()}\n")
    judged = ranking(groups)
    if judged:
        _tell_ranking("ranking", judged, options.verbose)
    if options.again:
        _tell_ranking("measured again", ranking(groups, TuningLog(options.again)), False)
    if options.no_race:
        return 0
    shares = {what: Shares() for what in ("rules", "zero", "near", "foreign")}
    asked: list[tuple[str, Task, MeasureRecord, dict[str, Chosen]]] = []
    for name, records in list(groups.items())[: options.most]:
        task = task_of_records(records)
        best = min((r for r in records if r.ok), key=lambda r: r.cost, default=None)
        if task is not None and best is not None:
            asked.append((name, task, best, _choices(task, name, log, foreign)))
    threads = max((task.threads for _, task, _, _ in asked), default=1)
    begun = time.monotonic()
    with Workers(max(threads, 2)) as workers, MachineLock() as lock:
        for name, task, best, choices in asked:
            times = _race(task, best, choices, workers)
            if times is None:
                continue
            fastest = min(times.values())
            for what, chosen in choices.items():
                shares[what].add(name, fastest / times[what], chosen.origin)
            if options.verbose:
                own = ", ".join(f"{w} {100 * fastest / t:.0f} %" for w, t in times.items())
                say(f"  {task.workload.text}: {fastest * 1e6:.4g} us; {own}\n")
            lock.between()
    say(shares["rules"].line("the rules' default") + "\n")
    say(shares["zero"].line("at zero trials", BARS["zero"]) + "\n")
    say(shares["near"].line("from near shapes", BARS["near"]) + "\n")
    if foreign is not None:
        say(shares["foreign"].line("from another machine", BARS["foreign"]) + "\n")
    say(f"raced in {time.monotonic() - begun:.0f} s\n")
    return 0


def _tell_ranking(what: str, judged: Sequence[Ranking], verbose: bool) -> None:
    if not judged:
        sys.stdout.write(f"{what}: no kernel has {LEAST} schedules of chance\n")
        return
    if verbose:
        for one in judged:
            sys.stdout.write(f"  {one.text}: {one.quality}, top-1 {one.tops[0]:.2f}\n")
    found = [one.quality for one in judged]
    pairs = float(np.nanmean([q.pairwise for q in found]))
    clear = float(np.nanmean([q.clear for q in found if q.clear is not None]))
    recall = float(np.mean([q.recall for q in found]))
    best = float(np.nanmean([math.nan if q.best is None else q.best for q in found]))
    tops = np.mean([one.tops for one in judged], axis=0)
    sizes = [q.candidates for q in found]
    sys.stdout.write(
        f"{what} of {len(judged)} kernels, {int(np.median(sizes))} schedules of most: "
        f"pairwise accuracy {pairs:.3f}, {clear:.3f} of pairs 5 % apart "
        f"(bar {BARS['pairwise']:.2f}), {best:.3f} of those in the best tenth (bar "
        f"{BARS['best']:.2f}), recall@30 {recall:.3f} (bar {BARS['recall']:.2f}), "
        f"top-1 {tops[0]:.3f}, top-5 {tops[1]:.3f}\n"
    )


def _race(
    task: Task, best: MeasureRecord, choices: Mapping[str, Chosen], workers: Workers
) -> dict[str, float] | None:
    """Seconds of the tuned schedule and of each choice, measured interleaved; None if one fails."""
    entrants = {"tuned": Candidate(best.schedule, best.sketch)}
    for what, chosen in choices.items():
        entrants[what] = Candidate(tuple(chosen.schedule.to_json()), chosen.sketch)
    distinct = list({c.key: c for c in entrants.values()}.values())
    with NativeMeasurer(task, TOOLCHAIN, CAREFUL, 0, workers) as measurer:
        records = measurer.race(distinct, ROUNDS)
    seconds = {r.schedule_key: r.cost for r in records if r.ok}
    if len(seconds) < len(distinct):
        return None
    return {what: seconds[c.key] for what, c in entrants.items()}


if __name__ == "__main__":
    sys.exit(main())
