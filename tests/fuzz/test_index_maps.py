"""Index maps (tile, reshape, broadcast, diagonal, flip, slices, pad, concatenate) under consumers.

``python tests/fuzz/test_index_maps.py --seeds 0:10000`` runs many; ``--schedules`` gives the
kernels schedules sampled from their spaces instead of the default.

The programs run on the ISA levels that this machine has, round robin. Their arrays end where a page
ends that is followed by one that cannot be read, or begin where one begins that follows such a
page; a read outside of them ends the process, which is why programs run in a child process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import compiled
import loopwright as lw
import numpy as np
import pytest
from isolated import run_isolated, run_script
from page_borders import HOST, LEVELS, call_at_page_borders
from random_draw import RandomDraw
from random_programs import Array, Program, check
from random_steps import draw_index_maps


def failure(program: Program, isa: str, seed: int, schedules: bool) -> str:
    """What is wrong with a program on an ISA level, or nothing."""

    def call(*inputs: Array) -> Any:
        return call_at_page_borders(
            program,
            isa,
            inputs,
            at_start=bool(seed % 2),
            schedules=seed if schedules else None,
        )

    try:
        check(program, call)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def run_case(seed: int, isa: str, schedules: bool) -> str:
    """What is wrong with the program of a seed, or nothing; printed before it runs."""
    program = draw_index_maps(RandomDraw(seed))
    print("  " + repr(program).replace("\n", "\n  "), flush=True)
    return failure(program, isa, seed, schedules)


@pytest.mark.parametrize("schedules", [False, True], ids=["default", "sampled"])
def test_index_maps_under_every_consumer(schedules):
    assert not run_isolated(Path(__file__), 0, 40, *["--schedules"] * schedules)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("rows, columns", [(16, 33), (16, 9), (33, 5), (64, 13)])
def test_tiles_under_sums_and_products(isa, rows, columns, rng):
    """An unrolled loop over ``j`` does not walk neighbours in ``y[i, j % 9]``."""
    y = rng.integers(-9, 9, (rows, columns)).astype(np.float32)
    x = rng.integers(-9, 9, (7, rows)).astype(np.float32)

    def consumers(x: Any, y: Any) -> tuple[Any, ...]:
        tiled = np.tile(y, 2)
        spread = np.broadcast_to(y[:, None], (rows, 3, columns)).reshape(rows * 3, columns)
        return tiled.sum(axis=0), tiled.max(axis=0), x @ tiled, spread.sum(axis=1)

    module = compiled.lower(lw.compile(consumers).trace(x, y).module)
    found = compiled.run_module(module, (x, y), HOST.with_isa(isa))
    for ours, numpys in zip(found, consumers(x, y), strict=True):
        np.testing.assert_array_equal(ours, numpys)


if __name__ == "__main__":
    run_script(Path(__file__), run_case, LEVELS)
