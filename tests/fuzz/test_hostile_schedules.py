"""Well-formed schedules with huge numbers in them: each is refused, or compiles soon and is right.

Long: ``python tests/fuzz/test_hostile_schedules.py SEED COUNT``.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from compiled import run_kernel
from hostile_schedules import hostile_schedule
from loopwright.autotune.measure.inputs import make_inputs
from loopwright.autotune.measure.reference import Reference
from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.objects import object_code
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule.state import State
from prims import KINDS, make_prim

SIZES = (3, 17, 64, 500, 4096)
SECONDS = 4.0  # of processor time, on cores that others keep busy; alone it is 2
BYTES = 200 << 20
MOST_WORK = 1 << 24


def try_one(seed: int) -> str:
    """What became of a schedule: ok, or why it was refused. AssertionError if that is bad."""
    rng = random.Random(seed)
    target = Target.host()
    while True:
        sizes = [rng.choice(SIZES) for _ in range(3)]
        if np.prod(sizes) < MOST_WORK:
            break
    prim = make_prim(rng.choice([*KINDS]), *sizes, dtype=rng.choice(["float32", "int32"]))
    schedule = hostile_schedule(rng, State.of(prim))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    try:
        kernel = compile_kernel(prim, schedule, target)
        object_code(kernel.text, target)
    except ScheduleError as error:
        verdict = error.message
    else:
        verdict = "ok"
    seconds = time.process_time() - begun
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert seconds < SECONDS, f"{seed}: {seconds:.1f} s\n{prim}\n{schedule}"
    assert taken < BYTES, f"{seed}: {taken >> 20} MB\n{prim}\n{schedule}"
    if verdict == "ok":
        inputs = make_inputs(prim, seed)
        found = run_kernel(kernel, target, inputs)
        checked = Reference(prim, inputs).check(dict(zip(prim.outputs, found, strict=True)))
        assert checked.right, f"{seed}: {checked.reason}\n{prim}\n{schedule}"
    return verdict


@pytest.mark.parametrize("block", range(2))
def test_huge_numbers_are_refused_or_harmless(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        try_one(seed)


if __name__ == "__main__":
    start, count = int(sys.argv[1]), int(sys.argv[2])
    failed = 0
    for seed in range(start, start + count):
        try:
            try_one(seed)
        except AssertionError as error:
            failed += 1
            print(error, flush=True)
    print(f"{count} schedules, {failed} failures")
    sys.exit(failed > 0)
