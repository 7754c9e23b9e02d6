"""Random programs by the thousand: ``python tests/fuzz/long_run.py --seeds 0:2000 --schedules``.

Prints each program that crashes, is wrong or compiles slowly, cut down to its smallest such part.
With ``--schedules`` the kernels take schedules sampled from their spaces instead of the default.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
import zlib
from pathlib import Path

import loopwright as lw
import numpy as np
from loopwright.autotune.selection.select import Chosen
from loopwright.autotune.space.space import ScheduleSpace, default_schedule
from loopwright.codegen.target import Target
from loopwright.driver import pipeline
from loopwright.ir.loop.prim import PrimFunc

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from random_draw import RandomDraw
from random_programs import Program, check
from random_steps import draw_program


def sampled(prim: PrimFunc, target: Target, threads: int, logs: object) -> Chosen:
    """A schedule drawn from the kernel's space, the same whenever it is asked for."""
    space = ScheduleSpace(prim, target)
    rng = np.random.default_rng(zlib.crc32(str(prim).encode()))
    rows = space.sample(1, rng)
    if not len(rows):
        schedule, sketch = default_schedule(prim, target)
        return Chosen(schedule, "rules", sketch)
    return Chosen(space.schedule(rows[0]), "exact", space.sketch_name(rows[0]))


def failure(program: Program, threads: int | None) -> str:
    """What is wrong with a program, or nothing."""
    try:
        check(program, lw.compile(program, threads=threads))
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else ""
        return f"{type(error).__name__}: {text}"
    return ""


def smaller(program: Program, threads: int | None) -> Program:
    """The first values that fail alone, and of the steps only those they need."""
    first = len(program.inputs)
    for last in range(first, first + len(program.steps)):
        cut = pruned(Program(program.inputs, program.steps, [last], program.seed))
        if failure(cut, threads):
            return cut
    return program


def pruned(program: Program) -> Program:
    needed = set(program.outputs)
    count = len(program.inputs)
    for number in range(count + len(program.steps) - 1, count - 1, -1):
        if number in needed:
            needed |= set(program.steps[number - count].operands)
    order = sorted(needed)
    names = {old: new for new, old in enumerate(order)}
    return Program(
        [program.inputs[i] for i in order if i < count],
        [
            type(s)(s.text, tuple(names[o] for o in s.operands), s.run, s.rounds)
            for s in (program.steps[i - count] for i in order if i >= count)
        ],
        [names[o] for o in program.outputs],
        program.seed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--schedules", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--slow", type=float, default=1.0, help="seconds of a slow compile")
    parser.add_argument("--most", type=int, default=12)
    given = parser.parse_args()
    if given.schedules:
        pipeline.choose_schedule = sampled
    warnings.simplefilter("error")
    low, high = map(int, given.seeds.split(":"))
    wrong, spent = 0, 0.0
    begun = time.perf_counter()
    for seed in range(low, high):
        program = draw_program(RandomDraw(seed), given.most)
        started = time.process_time()
        found = failure(program, given.threads)
        taken = time.process_time() - started
        spent += taken
        if taken > given.slow:
            print(f"seed {seed}: slow, {taken:.2f} s\n{program}\n", flush=True)
        if found:
            wrong += 1
            cut = smaller(program, given.threads)
            print(f"seed {seed}: {found}\n{cut}\n  {failure(cut, given.threads)}\n", flush=True)
    count = high - low
    took = time.perf_counter() - begun
    print(f"{count} programs, {wrong} wrong, {took:.0f} s, {1e3 * spent / count:.0f} ms to compile")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        traceback.print_exc()
