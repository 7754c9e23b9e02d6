"""Schedules by the ten thousand: ``python tests/fuzz/schedule_run.py --seeds 0:2500 --log LOG``.

Each seed draws a kernel and an instruction set, and runs the kernel under schedules from its space,
under mutated ones and under random ones; parallel loops run on each number of threads. Schedules
that are accepted must compute the right numbers. Runs happen in worker processes: one that crashes
or hangs is one failed case. The log has a line of JSON for each seed that is done and for each case
that failed; a run goes on where the log ends. ``--only SEED:CASE`` runs one case in this process
and shows it. At the end it prints how many schedules ran of each kind of kernel (a program of
``small_kernels`` or an operator), and how many were refused, wrong or an exception.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from select import select
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.steps import Schedule

TRIES = 15  # schedules drawn at most for each that is to be run

NOT_RUN = ("refused", "not verified", "large", "repeated")

Line = dict[str, Any]


def cases(seed: int, count: int, isas: Sequence[str], threads: Sequence[int]) -> Iterator[Line]:
    """What happens to the schedules of a seed: first {"case"}, then {"case", "outcome"} of each."""
    from mutated_schedules import schedules
    from schedule_trial import Trial
    from small_kernels import draw_kernel

    rng = random.Random(seed)
    kind, prim = draw_kernel(rng)
    target = Target.host().with_isa(rng.choice(isas))
    if rng.random() < 0.3:  # a machine of that level that has nothing beside it
        target = replace(target, features=frozenset())
    trial = Trial(prim, seed, target)
    run = 0
    for case, schedule in enumerate(schedules(prim, target, rng)):
        line: Line = {"seed": seed, "case": case, "isa": target.isa}
        line["features"] = sorted(target.features)
        line |= {"kind": kind, "kernel": prim.name, "schedule": schedule.to_json()}
        yield line
        nest = trial.nest(schedule)
        outcome = nest if isinstance(nest, str) else trial.run(nest, threads)
        wrong = outcome not in ("", *NOT_RUN)
        if wrong and not isinstance(nest, str):
            outcome = f"{outcome}; {trial.interpreted(nest)}"
        yield {**line, "outcome": outcome or "right", "wrong": wrong}
        run += outcome == "" or wrong
        if run == count or case == TRIES * count:
            break
    trial.close()


def work(given: argparse.Namespace) -> None:
    """A worker: seeds from the standard input, a line of JSON for each thing that happens."""
    for text in sys.stdin:
        outcomes: Counter[str] = Counter()
        for line in cases(int(text), given.count, given.isas, given.threads):
            if "outcome" in line:
                outcomes["wrong" if line["wrong"] else line["outcome"]] += 1
                if line["outcome"] not in NOT_RUN:
                    outcomes.update([line["isa"], f"of {line['kind']}"])
            if line.get("wrong", True):
                print(json.dumps(line), flush=True)
        print(json.dumps({"seed": int(text), "done": outcomes}), flush=True)


class Worker:
    """A process that runs seeds, one at a time."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        self.rest = b""

    def lines(self, seed: int, patience: float) -> Iterator[Line]:
        """What the worker says of a seed; a crash or a hang is an outcome of the case it was in,
        and ends the seed."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, *self.arguments, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed}\n".encode())
        current: Line = {"seed": seed}
        while "done" not in current:
            text = self._read(patience)
            if text is None:
                yield {**current, "outcome": self._end(), "wrong": True}
                return
            current = json.loads(text)
            if "outcome" in current or "done" in current:
                yield current

    def _read(self, patience: float) -> bytes | None:
        """The next line, None if none comes."""
        assert self.process is not None and self.process.stdout is not None
        while b"\n" not in self.rest:
            if not select([self.process.stdout], [], [], patience)[0]:
                return None
            data = self.process.stdout.read(1 << 16)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def _end(self) -> str:
        """What became of a worker that is silent."""
        assert self.process is not None
        try:
            outcome = f"ends with {self.process.wait(1)}"
        except subprocess.TimeoutExpired:
            outcome = "hangs"
            self.process.kill()
        self.close()
        return outcome

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None and self.process.stdout is not None
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
        self.process, self.rest = None, b""


def run(seeds: Sequence[int], arguments: Sequence[str], patience: float) -> Iterator[Line]:
    """The lines of all seeds."""
    worker = Worker(arguments)
    try:
        for seed in seeds:
            yield from worker.lines(seed, patience)
    finally:
        worker.close()


def show(seed: int, case: int, given: argparse.Namespace) -> None:
    """One case in this process, with its kernel and nest."""
    from loopwright.ir.schedule.apply import apply_schedule
    from small_kernels import draw_kernel

    kind, prim = draw_kernel(random.Random(seed))
    print(kind, prim)
    for line in cases(seed, given.count, given.isas, given.threads):
        if line["case"] == case and "outcome" not in line:
            schedule = Schedule.from_json(line["schedule"])
            print(schedule, line["isa"], flush=True)
            try:
                print(apply_schedule(prim, schedule), flush=True)
            except ScheduleError as error:
                print(error)
        elif line["case"] == case:
            print(line["outcome"])
            return


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="FIRST:LAST")
    parser.add_argument("--count", type=int, default=20, help="schedules run of each kernel")
    parser.add_argument("--isas", default=",".join(ISA_LEVELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds until a case hangs")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--only", help="SEED:CASE")
    parser.add_argument("--worker", action="store_true")
    given = parser.parse_args(arguments)
    given.isas = [isa for isa in given.isas.split(",") if _runs(isa)]
    given.threads = [int(n) for n in given.threads.split(",")]
    return given


def _runs(isa: str) -> bool:
    """Whether this machine runs code of a level."""
    return list(ISA_LEVELS).index(isa) <= list(ISA_LEVELS).index(Target.host().isa)


def main() -> None:
    given = parse(sys.argv[1:])
    if given.worker:
        work(given)
        return
    if given.only:
        seed, case = map(int, given.only.split(":"))
        show(seed, case, given)
        return
    known = given.log.read_text().splitlines() if given.log and given.log.exists() else []
    told = [json.loads(text) for text in known]
    first, last = map(int, given.seeds.split(":"))
    done = {line["seed"] for line in told}
    totals: Counter[str] = Counter()
    for line in told:
        totals.update(line.get("done", {"wrong": 1} if line.get("wrong") else {}))
    begun = time.perf_counter()
    for line in run([s for s in range(first, last) if s not in done], sys.argv[1:], given.patience):
        if given.log:
            with given.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
        if line.get("wrong"):
            named = {k: line.get(k) for k in ("seed", "case", "isa", "kernel", "outcome")}
            print(json.dumps(named), flush=True)
        totals.update(line.get("done", {}))
    of_kinds = Counter({k[3:]: n for k, n in totals.items() if k.startswith("of ")})
    print(*(f"{kind} {count}" for kind, count in of_kinds.most_common()), sep=", ")
    rest = {k: n for k, n in totals.items() if not k.startswith("of ")}
    print(f"{rest}, {len(of_kinds)} kinds, in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
