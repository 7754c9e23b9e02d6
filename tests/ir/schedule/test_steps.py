"""Schedules as data: text, JSON, and data that is no schedule."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopwright.ir.errors import ScheduleError
from loopwright.ir.schedule import steps
from loopwright.ir.schedule.schedule import primitives
from loopwright.ir.schedule.steps import Schedule, Step, reorder, split, vectorize

NAMES = st.text(min_size=1, max_size=12)
INTS = st.integers(0, 2**40 - 1)
ARGUMENTS = {
    "name": NAMES,
    "int": INTS,
    "names": st.lists(NAMES, max_size=5).map(tuple),
    "ints": st.lists(INTS, min_size=1, max_size=5).map(tuple),
}


@st.composite
def any_step(draw):
    name = draw(st.sampled_from(sorted(primitives())))
    return Step(name, tuple(draw(ARGUMENTS[kind]) for kind in primitives()[name].kinds))


@given(st.lists(any_step(), max_size=6))
def test_json_and_text_bring_a_schedule_back(found):
    schedule = Schedule(tuple(found))
    assert Schedule.from_json(json.loads(json.dumps(schedule.to_json()))) == schedule
    names = {name: getattr(steps, name) for name in primitives()}
    assert eval(str(schedule), {"Schedule": Schedule, **names}) == schedule


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(JSON)
def test_other_data_is_refused_or_is_a_schedule(data):
    try:
        schedule = Schedule.from_json(data)
    except ScheduleError:
        return
    assert schedule.to_json() == data


@given(st.lists(any_step(), min_size=1, max_size=3), st.data())
def test_a_step_with_one_wrong_argument_is_refused(found, data):
    written = Schedule(tuple(found)).to_json()
    step = data.draw(st.sampled_from(written))
    step[data.draw(st.integers(0, len(step) - 1))] = data.draw(
        st.sampled_from([None, True, -1, 2**40, 1.5, {}, [None], [True], ["x", 1], [-1]])
    )
    with pytest.raises(ScheduleError):
        Schedule.from_json(written)


@pytest.mark.parametrize(
    "data, message",
    [
        ({}, "a schedule is a list of steps, not dict"),
        (None, "a schedule is a list of steps, not NoneType"),
        (["split"], "'split' is not a schedule step"),
        ([[]], "[] is not a schedule step"),
        ([["run", "rm"]], "['run', 'rm'] is not a schedule step"),
        ([[["split"], "i"]], "[['split'], 'i'] is not a schedule step"),
        ([["split", "i"]], "split takes 2 arguments, not 1"),
        ([["split", "i", [1, True]]], "split: [1, True] is not of the kind ints"),
        ([["split", "i", [1, -2]]], "split: [1, -2] is not of the kind ints"),
        ([["split", "i", []]], "split: [] is not of the kind ints"),
        ([["reorder", "i"]], "reorder: 'i' is not of the kind names"),
        ([["pack", "w", "j", 1.0]], "pack: 1.0 is not of the kind int"),
        ([["vectorize", "x" * 200]], f"vectorize: '{'x' * 79} is not of the kind name"),
    ],
)
def test_what_is_wrong_is_said(data, message):
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_json(data)
    assert caught.value.message == message


def test_the_text():
    schedule = Schedule.of(split("i", (4, 8)), reorder("i.0", "i.1"), vectorize("i.1"))
    assert str(schedule) == (
        "Schedule.of(\n"
        "    split('i', (4, 8)),\n"
        "    reorder('i.0', 'i.1'),\n"
        "    vectorize('i.1'),\n"
        ")"
    )
    assert str(Schedule()) == "Schedule()"
