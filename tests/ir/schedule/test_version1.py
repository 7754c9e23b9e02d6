"""Schedules that leave the copy of a packed operand unsaid mean for ever what they once meant."""

import pytest
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.schedule.apply import apply_schedule, completed
from loopwright.ir.schedule.steps import (
    Schedule,
    fuse,
    pack,
    pack_grouped,
    parallel,
    reorder,
    split,
    unroll,
    vectorize,
)

CONTIGUOUS = "prim @f(x: float32[{}, 40]) -> out: float32[40] {{ out[i] = x[0, i] }}"
STRIDED = "prim @f(x: float32[40, {}]) -> out: float32[40] {{ out[i] = x[i, 0] }}"
LANES, PANELS, ROWS, COLUMNS = "x.packed.i", "x.packed.o", "x.packed.0", "x.packed.1"
GROUPED = pack_grouped("x", "j", 4, "i", 2)


@pytest.mark.parametrize(
    ("text", "step", "unsaid"),
    [
        (
            CONTIGUOUS.format(16),
            pack("x", "i", 8),
            [reorder(ROWS, PANELS, LANES), vectorize(LANES)],
        ),
        (
            CONTIGUOUS.format(1000),
            pack("x", "i", 8),
            [
                split(ROWS, (63, 16)),
                reorder(f"{ROWS}.0", PANELS, f"{ROWS}.1", LANES),
                vectorize(LANES),
                fuse(f"{ROWS}.0", PANELS),
                parallel(f"{ROWS}.0*{PANELS}"),
            ],
        ),
        (
            STRIDED.format(5),
            pack("x", "i", 8),
            [reorder(PANELS, COLUMNS, LANES), unroll(COLUMNS), vectorize(LANES)],
        ),
        (
            STRIDED.format(20),
            pack("x", "i", 8),
            [
                split(COLUMNS, (2, 16)),
                reorder(PANELS, f"{COLUMNS}.0", f"{COLUMNS}.1", LANES),
                unroll(f"{COLUMNS}.1"),
                vectorize(LANES),
            ],
        ),
        (
            "prim @f(x: int8[4, 8]) -> out: int8[4, 8] { out[i, j] = x[i, j] }",
            GROUPED,
            [reorder(ROWS, PANELS, LANES, "x.packed.g"), vectorize(LANES), unroll("x.packed.g")],
        ),
    ],
)
def test_what_the_first_version_left_unsaid_is_frozen(text, step, unsaid):
    prim = parse_prim(text)
    whole = completed(prim, Schedule.of(step))
    assert whole.steps == (step, *unsaid)
    assert completed(prim, whole) == whole
    assert str(apply_schedule(prim, whole)) == str(apply_schedule(prim, Schedule.of(step)))
    assert Schedule.from_json(whole.to_json()) == whole


def test_a_schedule_that_says_how_the_copy_runs_says_all():
    """Neither threads nor blocks of rows are added, though the operand is large."""
    prim = parse_prim(CONTIGUOUS.format(1000))
    schedule = Schedule.of(pack("x", "i", 8), split(LANES, (2, 4)), vectorize(f"{LANES}.1"))
    assert completed(prim, schedule) == schedule
    assert str(apply_schedule(prim, schedule)).splitlines()[2:6] == [
        "  for x.packed.o in 5:",
        "    for x.packed.0 in 1000:",
        "      for x.packed.i.0 in 2:",
        "        vectorize x.packed.i.1 in 4:",
    ]


def test_constants_have_no_copy():
    prim = parse_prim(CONTIGUOUS.format(1000).replace("40])", "40] const)"))
    assert completed(prim, Schedule.of(pack("x", "i", 8))) == Schedule.of(pack("x", "i", 8))


def test_a_refused_step_on_the_copy_is_named():
    prim = parse_prim(CONTIGUOUS.format(16))
    with pytest.raises(ScheduleError, match=r"step 1, unroll\('x.packed.i.1'\): unroll: no loop"):
        apply_schedule(prim, Schedule.of(pack("x", "i", 8), unroll(f"{LANES}.1")))
