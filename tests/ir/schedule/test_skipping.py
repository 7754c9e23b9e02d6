"""``skip``: what is masked throughout is not computed, and what follows from that is known."""

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import Schedule, compute_at, reorder, skip, split
from prims import run_nest


def sums(test="index(l) <= index(i)", value="x[l]", outside="0.0", rows=9, length=7):
    """Sums of what a mask leaves of a row, a block of rows and a piece of the row at a time."""
    return f"""
prim @f(x: float32[{length}]) -> out: float32[{rows}, {length}] {{
  t[i, l]: float32[{rows}, {length}] = where({test}, {value}, {outside})
  out[i, l] = t[i, l] * 2.0
}}"""


STEPS = [
    split("i", (3, 3)),
    split("l", (4, 2)),
    reorder("i.0", "l.0", "i.1", "l.1"),
    compute_at("out", "l.0"),
]


def test_a_turn_beyond_the_diagonal_is_known():
    nest = apply_schedule(parse_prim(sums(length=8)), Schedule.of(*STEPS, skip("t", "l.0")))
    verify_nest(nest)
    expected = """
      for i.0 in 3:
        for l.0 in 4:
          if index(-3 * i.0 + 2 * l.0 - 2) <= 0:
            stack t: float32[3, 2]
            for i.1 in 3:
              for l.1 in 2:
                t[i.1, l.1] = where(index(2 * l.0 + l.1) <= index(3 * i.0 + i.1), x[2 * l.0 + l.1], 0.0)
            for i.1 in 3:
              for l.1 in 2:
                out[3 * i.0 + i.1, 2 * l.0 + l.1] = t[i.1, l.1] * 2.0
          else:
            for i.1 in 3:
              for l.1 in 2:
                out[3 * i.0 + i.1, 2 * l.0 + l.1] = 0.0
    """  # noqa: E501
    assert dedent("\n".join(str(nest).splitlines()[1:-1])) == dedent(expected).strip("\n").rstrip()


@settings(max_examples=60)
@given(
    rows=st.integers(1, 9),
    length=st.integers(1, 9),
    slope=st.sampled_from([-2, -1, 0, 1, 2]),
    other=st.sampled_from([-1, 1, 2]),
    offset=st.integers(-9, 9),
)
def test_skipping_changes_nothing(rows, length, slope, other, offset):
    test = f"index({other} * l) <= index({slope} * i + {offset})"
    prim = parse_prim(sums(test, outside="3.0", rows=rows, length=length))
    steps = [
        split("i", (-(-rows // 3), 3)),
        split("l", (-(-length // 2), 2)),
        *STEPS[2:],
        skip("t", "l.0"),
    ]
    try:
        nest = apply_schedule(prim, Schedule.of(*steps))
    except ScheduleError as error:
        assert "is not masked by a comparison of indices" in error.message
        return
    verify_nest(nest)
    inputs = {"x": np.arange(length, dtype=np.float32)}
    found, expected = run_nest(nest, inputs)["out"], evaluate_prim(prim, inputs)["out"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "text, steps, message",
    [
        (sums(), [skip("out", "i")], "skip: out is not masked by a comparison of indices"),
        (
            sums(test="x[l] <= 1.0"),
            [skip("t", "i")],
            "skip: t is not masked by a comparison of indices",
        ),
        (
            sums(outside="x[0]"),
            [skip("t", "i")],
            "skip: t is not masked by a comparison of indices",
        ),
        (sums(), [skip("t", "z")], "skip: no loop 'z' (the loops are i, l)"),
        (sums(), [skip("t", "i"), skip("t", "i")], "skip: iterations of i are skipped already"),
        (
            sums().replace("t[i, l] * 2.0", "t[i, l] + x[l]"),
            [*STEPS, skip("t", "l.0")],
            "skip: out is needed although t is masked",
        ),
    ],
)
def test_guards(text, steps, message):
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(parse_prim(text), Schedule.of(*steps))
    assert caught.value.message.endswith(message)
