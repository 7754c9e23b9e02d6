"""Programs with loops, branches and functions under the clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from loopwright.background.tuning import UNKNOWN_TRIPS, expected_calls
from loopwright.codegen.module_text import ModuleText
from loopwright.codegen.target import Target
from loopwright.codegen.timed_program import timed_program
from loopwright.driver.built import Parts
from loopwright.inspect import recording as recording_module
from loopwright.inspect.kernel_calls import reuse_distances
from loopwright.inspect.recording import loop_iterations, recorded_program
from loopwright.ir.program.analysis import calls
from loopwright.ir.program.parser import parse_program


@dataclass(frozen=True)
class Written:
    """A kernel on int64 scalars, written by hand."""

    name: str
    lines: str
    params: int = 2

    @property
    def code(self) -> ModuleText:
        names = ", ".join([*(f"ptr %a{n}" for n in range(self.params)), "ptr %workspace"])
        read = "  %x = load i64, ptr %a0\n"
        return ModuleText.of(
            f"define void @{self.name}({names}) {{\n{read}{self.lines}\n  ret void\n}}\n"
        )


KERNELS = {
    "next": Written("next", "  %y = add i64 %x, 1\n  store i64 %y, ptr %a1"),
    "double": Written("double", "  %y = shl i64 %x, 1\n  store i64 %y, ptr %a1"),
    "below_nine": Written(
        "below_nine", "  %t = icmp slt i64 %x, 9\n  %b = zext i1 %t to i8\n  store i8 %b, ptr %a1"
    ),
    "is_odd": Written(
        "is_odd", "  %b = trunc i64 %x to i8\n  %o = and i8 %b, 1\n  store i8 %o, ptr %a1"
    ),
}

PROGRAM = parse_program(
    """
program @main(@in %x: int64[], @in %n: int64[], @out %y: int64[]) arena 192 bytes {
  copy @in %x, @out %y
  for %i: int64[] < %n {
    %odd = alloc bool[]                                    at 0
    call @is_odd(@in %i, @out %odd)
    if %odd {
      %a = alloc int64[]                                   at 64
      call @next(@in %y, @out %a)
      copy @in %a, @out %y
      free %a
    } else {
      %j = alloc int64[]                                   at 64
      call inline @next(@in %y, @out %j)
      copy @in %j, @out %y
      free %j
    }
    free %odd
  }
  %go = alloc bool[]                                       at 0
  while { call @below_nine(@in %y, @out %go) } %go do {
    %b = alloc int64[]                                     at 64
    call @double(@in %y, @out %b)
    copy @in %b, @out %y
    free %b
  }
  free %go
  %c = alloc int64[]                                       at 0
  %frame = alloc uint8[64]                                 at 64
  invoke @twice(@in %y, @out %c) frame %frame
  free %frame
  copy @in %c, @out %y
  free %c
}
function program @twice(@in %p: int64[], @out %q: int64[]) arena 64 bytes {
  %r = alloc int64[]                                       at 0
  call @next(@in %p, @out %r)
  call @next(@in %r, @out %q)
  free %r
}
"""
)

ARGS = [np.array(1), np.array(4)]


PARTS = Parts({}, KERNELS, PROGRAM, Target.host(), 1, ())


def test_calls_are_counted_and_their_times_summed_up() -> None:
    timed = timed_program(PROGRAM, KERNELS, Target.host(), 1)
    assert timed.executable(ARGS)[0] == 12  # 1 + 4, doubled once, and two more
    kernels = [call.kernel for call in timed.calls]
    assert kernels == ["is_odd", "next", "below_nine", "double", "next", "next"]
    for _ in range(2):
        times = timed.run(ARGS)
        assert times.counts.tolist() == [4, 2, 2, 1, 1, 1, 1, 1, 1]
        inside = times.seconds[: len(kernels)]
        loops = times.seconds[len(kernels) :]
        assert np.all(times.seconds >= 0) and loops[0] >= inside[:2].sum()
        assert loops[1] >= inside[2:4].sum() and loops[2] >= inside[4:].sum()
    times = timed.run([np.array(9), np.array(0)])
    assert times.counts.tolist() == [0, 0, 1, 0, 1, 1, 1, 1, 1]
    assert times.seconds[0] == 0


def test_iterations_are_counted_without_a_clock() -> None:
    assert loop_iterations(PARTS, ARGS).tolist() == [4, 1, 0]
    assert loop_iterations(PARTS, [np.array(-3), np.array(10_000)]).tolist() == [10_000, 0, 0]


def test_a_recording_keeps_each_call_and_loop() -> None:
    recording = recorded_program(PARTS).record(ARGS)
    places = recording.kernels[:, 0].tolist()
    assert places == [0, 0, 1, 0, 0, 1, 6, 2, 3, 2, 7, 4, 5, 8]
    begin, end = recording.kernels[:, 1], recording.kernels[:, 2]
    assert recording.begin <= begin.min() and end.max() <= recording.end
    assert np.all(begin <= end) and np.all(np.diff(end) >= 0)
    assert recording.missed == 0


def test_a_recording_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "MOST_EVENTS", 5)
    recording = recorded_program(PARTS).record(ARGS)
    assert len(recording.kernels) == 5 and recording.missed == 14 - 5


def test_what_a_loop_reads_again_is_near() -> None:
    kernels = [call.kernel for call in calls(PROGRAM)]
    distances = dict(zip(kernels, reuse_distances(PROGRAM), strict=True))
    # An iteration of the second loop touches %y, %go and %b; the whole program more.
    assert distances["below_nine"][0] <= 8 + 1 + 8
    assert max(distances["double"]) <= 17
    assert max(distances["is_odd"]) <= 8 + 1 + 8 + 8 + 8


def test_calls_are_expected_by_the_loops_around_them() -> None:
    expected = expected_calls(PROGRAM)
    unknown = UNKNOWN_TRIPS
    assert expected == {
        "is_odd": unknown,
        "next": unknown + 2,  # the inline one is not counted, those of the function once
        "below_nine": unknown,
        "double": unknown,
    }
    twelve = parse_program(str(PROGRAM).replace("int64[] < %n", "int64[] < 12"))
    assert expected_calls(twelve)["is_odd"] == 12
