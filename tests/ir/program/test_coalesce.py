"""Copies of programs with control flow: which go, which become swaps, and which stay."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.ir.program.analysis import walk
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.nodes import Copy, Program, Swap
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.verify import verify


def _set(index, target):
    target[int(index) % target.size] = index + 1


def _life(source, target):
    target[...] = -1  # what is in place shows
    target[...] = np.roll(source, 1) + 1


KERNELS = {
    "map": writing(lambda *xs: sum(xs) + 1),
    "other": _life,
    "set": _set,
    "pick": writing(lambda x, i: x[int(i) % x.size]),
    "zeros": writing(lambda: 0),
    "even": writing(lambda i: i % 2 == 0),
}
HEAD = "program @main(@in %x: int64[100], @in %n: int64[], @out %y: int64[100])"


def safe(call, read, written, begin=0):
    return call.kernel == "map"


def _optimised(body: str, head: str = HEAD) -> Program:
    """The program after all passes, which gives the same results."""
    before = verify(parse_program(f"{head} {{ {body} }}"))
    after = verify(optimise(before, safe))
    assert optimise(after, safe) is after
    for n in (0, 1, 5):
        inputs = [np.arange(100), np.array(n)]
        for got, wanted in zip(
            interpret(after, inputs, KERNELS), interpret(before, inputs, KERNELS), strict=True
        ):
            np.testing.assert_array_equal(got, wanted)
    return after


def _moves(program: Program) -> list[str]:
    return [str(i) for i in walk(program.body) if isinstance(i, Copy | Swap)]


@pytest.mark.parametrize(
    ("body", "moves"),
    [
        # i = i + 1: in place, and in a register, which is copied at the end.
        (
            """copy @in %x, @out %y %c = alloc int64[] copy @in %n, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[] call @map(@in %c, @in %i, @out %a) copy @in %a, @out %c free %a
               }
               call @set(@in %c, @inout %y) free %c""",
            ["copy @in %x, @out %y", "copy @in %n, @out %c"],
        ),
        # x = x * a + b on an array: in place, in the memory of the result.
        (
            """%c = alloc int64[100] copy @in %x, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[100] call @map(@in %c, @out %a) copy @in %a, @out %c free %a
               }
               copy @in %c, @out %y free %c""",
            ["copy @in %x, @out %y"],
        ),
        # A kernel that cannot work in place: two buffers change places.
        (
            """%c = alloc int64[100] copy @in %x, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[100] call @other(@in %c, @out %a) copy @in %a, @out %c free %a
               }
               copy @in %c, @out %y free %c""",
            ["copy @in %x, @out %c", "swap %a, %c", "copy @in %c, @out %y"],
        ),
        # An initial value that is computed is computed where it is carried.
        (
            """%z = alloc int64[100] call @zeros(@out %z)
               %c = alloc int64[100] copy @in %z, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[100] call @map(@in %c, @out %a) copy @in %a, @out %c free %a
               }
               copy @in %c, @out %y free %c free %z""",
            [],
        ),
        # One that is read later is not.
        (
            """%z = alloc int64[100] call @zeros(@out %z)
               %c = alloc int64[100] copy @in %z, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[100] call @map(@in %c, @out %a) copy @in %a, @out %c free %a
               }
               call @map(@in %c, @in %z, @out %y) free %c free %z""",
            ["copy @in %z, @out %y"],
        ),
        # An array that is updated in one place, and read before: no copy, whatever the order.
        (
            """%z = alloc int64[100] call @zeros(@out %z)
               %c = alloc int64[100] copy @in %z, @out %c
               for %i: int64[] < %n {
                 %a = alloc int64[100] copy @in %c, @out %a
                 %p = alloc int64[] call @pick(@in %c, @in %i, @out %p)
                 call @set(@in %i, @inout %a)
                 %q = alloc int64[] call @pick(@in %c, @in %p, @out %q)
                 call @set(@in %q, @inout %a) free %p free %q
                 copy @in %a, @out %c free %a
               }
               copy @in %c, @out %y free %c free %z""",
            [],
        ),
        # ... through loops and branches that update or leave it.
        (
            """%z = alloc int64[100] call @zeros(@out %z)
               %c = alloc int64[100] copy @in %z, @out %c
               for %i: int64[] < %n {
                 %d = alloc int64[100] copy @in %c, @out %d
                 for %j: int64[] < %n {
                   %p = alloc bool[] call @even(@in %j, @out %p)
                   %r = alloc int64[100]
                   if %p {
                     %a = alloc int64[100] copy @in %d, @out %a call @set(@in %j, @inout %a)
                     copy @in %a, @out %r free %a
                   } else { copy @in %d, @out %r }
                   copy @in %r, @out %d free %r free %p
                 }
                 copy @in %d, @out %c free %d
               }
               copy @in %c, @out %y free %c free %z""",
            [],
        ),
        # (a, b) -> (b, f(a, b)) on arrays moves no bytes.
        (
            """%a = alloc int64[100] copy @in %x, @out %a %b = alloc int64[100]
               copy @in %x, @out %b
               for %i: int64[] < %n {
                 %s = alloc int64[100] call @map(@in %a, @in %b, @out %s)
                 %t = alloc int64[100] copy @in %b, @out %t
                 copy @in %s, @out %b copy @in %t, @out %a free %s free %t
               }
               copy @in %a, @out %y free %a free %b""",
            [
                "copy @in %x, @out %a",
                "copy @in %x, @out %b",
                "swap %b, %a",
                "swap %s, %b",
                "copy @in %a, @out %y",
            ],
        ),
    ],
)
def test_copies_in_loops(body: str, moves: list[str]) -> None:
    assert _moves(_optimised(body)) == moves


def test_scalars_are_in_registers_and_arrays_in_the_arena() -> None:
    program = _optimised(
        """%c = alloc int64[] copy @in %n, @out %c
           for %i: int64[] < 3 {
             %a = alloc int64[100] call @zeros(@out %a)
             %p = alloc int64[] call @pick(@in %a, @in %i, @out %p) free %a
             call @map(@in %c, @in %p, @inout %c) free %p
           }
           copy @in %x, @out %y call @set(@in %c, @inout %y) free %c""".replace(
            "@in %c, @in %p, @inout %c", "@inout %c, @in %p, @inout %c"
        )
    )
    assert str(program).splitlines()[1:8] == [
        "  %c = alloc int64[]                                       in registers",
        "  copy @in %n, @out %c",
        "  for %i: int64[] < 3 {",
        "    %a = alloc int64[100]                                    at 0",
        "    call @zeros(@out %a)",
        "    %p = alloc int64[]                                       in registers",
        "    call @pick(@in %a, @in %i, @out %p)",
    ]


def test_branches_share_memory() -> None:
    program = _optimised(
        """%p = alloc bool[] call @even(@in %n, @out %p)
           if %p {
             %a = alloc int64[100] call @other(@in %x, @out %a) call @other(@in %a, @out %y) free %a
           } else {
             %b = alloc int64[100] call @other(@in %x, @out %b) call @map(@in %b, @in %x, @out %y)
             free %b
           }
           free %p"""
    )
    assert program.arena == 832


def test_frames_lie_in_the_arena_of_the_caller() -> None:
    text = f"""{HEAD} {{
      %a = alloc int64[100]
      invoke @f(@in %x, @out %a) on stack
      invoke @f(@in %a, @out %y) on stack
      free %a
    }}
    function program @g(@in %x: int64[100], @out %y: int64[100]) {{
      %a = alloc int64[100]
      call @other(@in %x, @out %a)
      call @other(@in %a, @out %y)
      free %a
    }}
    function program @f(@in %x: int64[100], @out %y: int64[100]) {{
      %a = alloc int64[100]
      invoke @g(@in %x, @out %a) on stack
      call @map(@in %a, @in %x, @out %y)
      free %a
    }}"""
    program = verify(optimise(verify(parse_program(text)), safe))
    assert [f.arena for f in program.functions] == [832, 832]
    assert program.arena == 2 * 832
    assert "invoke @f(@in %x, @out %a) frame %f.frame\n" in str(program)
    x = np.arange(100)
    for given in (program, parse_program(text)):
        (y,) = interpret(given, [x, np.array(0)], KERNELS)
        np.testing.assert_array_equal(y, _twice(_twice(x)))
    assert optimise(program, safe) is program


def _twice(x: np.ndarray) -> np.ndarray:
    return np.roll(x, 2) + 2 + x + 1


def test_an_insertion_in_each_step_is_linear() -> None:
    """Bytes that are copied in a loop of a million steps: none."""
    program = optimise(
        parse_program(
            """program @main(@in %x: int64[1000000], @out %y: int64[1000000]) {
              %c = alloc int64[1000000] copy @in %x, @out %c
              for %i: int64[] < 1000000 {
                %a = alloc int64[1000000] copy @in %c, @out %a
                call @set(@in %i, @inout %a)
                copy @in %a, @out %c free %a
              }
              copy @in %c, @out %y free %c
            }"""
        ),
        safe,
    )
    assert str(program) == (
        "program @main(@in %x: int64[1000000], @out %y: int64[1000000]) arena 0 bytes {\n"
        "  copy @in %x, @out %y\n"
        "  for %i: int64[] < 1000000 {\n"
        "    call @set(@in %i, @inout %y)\n"
        "  }\n"
        "}\n"
    )
