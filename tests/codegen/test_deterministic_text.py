"""The same schedule has the same code in every process, whatever the order of its sets is.

The hash of the code is the key under which a check is remembered, and what tells that two programs
are the same.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from loopwright.codegen.kernel import compile_kernel
from loopwright.codegen.target import Target
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.state import State
from loopwright.ir.schedule.steps import Schedule
from prims import KINDS, make_prim
from random_schedules import random_schedule

# Two buffers in registers are carried through one loop.
MEAN = """prim @mean(x0: float32[32, 64, 196]) -> out: float32[64] {
  t0[i]: float32[64] = sum(k: 32, r: 196) x0[k, i, r]
  out[i] = t0[i] / 6272.0
}
"""
MEAN_STEPS = [
    ["split", "i", [16, 4]],
    ["split", "r", [4, 64]],
    ["reorder", ["i.0", "k", "r.0", "i.1", "r.1"]],
    ["cache_write", "t0", "registers", "i.0"],
    ["compute_at", "out", "i.0"],
    ["rfactor", "t0", "r.1"],
    ["unroll", "i.1"],
    ["vectorize", "r.1"],
]


def digest() -> str:
    """The hash of the LLVM text of some kernels."""
    target = Target("x86-64-v4", cores=2)
    rng = random.Random(5)
    cases = [(parse_prim(MEAN), Schedule.from_json(MEAN_STEPS))]
    for kind in KINDS:
        prim = make_prim(kind, 8, 17, 20, dtype="float32")
        cases += [(prim, random_schedule(rng, State.of(prim))) for _ in range(8)]
    text = hashlib.sha256()
    for prim, schedule in cases:
        try:
            text.update(compile_kernel(prim, schedule, target).text.encode())
        except ScheduleError:
            continue
    return text.hexdigest()


def test_the_order_of_sets_does_not_show() -> None:
    helpers = Path(__file__).resolve().parents[1] / "helpers"
    digests = {
        subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(helpers)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "4", "5")
    }
    assert len(digests) == 1


if __name__ == "__main__":
    print(digest())
