"""All operators' samples on another architecture: ``python tests/fuzz/machine_run.py riscv64``.

Each sample is compiled for the target and run by an emulator (``helpers/other_machine.py``), many
in one program, and held against the reference. ``--features`` are rows of ``FEATURES`` in
``codegen/target.py``; ``--only`` is a regular expression of operators' names. With ``--schedules``
each sample runs under a random schedule of its space instead of the default one.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import compiled
import numpy as np
from emulated_samples import AT_ONCE, Sample, run_rounds
from loopwright.codegen.target import Target
from loopwright.ir.ops import all_operators
from other_machine import MACHINES


def _samples(given: argparse.Namespace, target: Target) -> Iterator[Sample]:
    for name in sorted(all_operators()):
        if not re.search(given.only, name):
            continue
        for number, sample in enumerate(compiled.prepared(name)):
            rng = np.random.default_rng([given.seed, number]) if given.schedules else None
            yield Sample(name, number, sample, target, rng)
        compiled.prepared.cache_clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=MACHINES)
    parser.add_argument("--features", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--schedules", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    target = Target(given.target, features=frozenset(filter(None, given.features.split(","))))
    begun, count, failed = time.monotonic(), 0, 0
    samples = _samples(given, target)
    while batch := [s for _, s in zip(range(AT_ONCE), samples)]:
        run_rounds(batch, target)
        count += len(batch)
        for sample in batch:
            if sample.error:
                failed += 1
                print(f"{sample.name} {sample.number}: {sample.error}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{given.target}: {count - failed} of {count} samples agree, {seconds:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
