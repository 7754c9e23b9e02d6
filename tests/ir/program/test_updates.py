"""Which results are computed in the memory of the inputs that they update."""

from __future__ import annotations

import numpy as np
import pytest
from kernels_in_numpy import writing
from loopwright.ir.errors import InternalError
from loopwright.ir.program.interpret import interpret
from loopwright.ir.program.parser import parse_program
from loopwright.ir.program.pipeline import optimise
from loopwright.ir.program.updates import update_in_place
from loopwright.ir.program.verify import verify

KERNELS = {
    "add": writing(lambda a, b: a + b),
    "double": writing(lambda a: 2 * a),
    "flip": writing(lambda a: a[::-1].copy()),
    "row": writing(lambda a: a[1] + 1),
    "last": writing(lambda a: a[3] + 1),
    "poke": lambda a: a.__setitem__((1, 2), a[1, 2] + 7),
}


def safe(call, read, written, begin=0):
    return {"add": 0, "double": 0, "row": 4, "last": 12}.get(call.kernel) == begin


def reads(call, operand):
    return {"row": (4, 8), "last": (12, 16)}.get(call.kernel)


HEAD = "program @main(@in %x: float32[4, 4], @in %y: float32[4, 4], @out"


def updated(text: str) -> list[bool]:
    """Which updates are in place; what the program means is the same in both ways of running it."""
    program = optimise(verify(parse_program(text)), safe, reads)
    verify(program)
    arrays = [np.arange(16, dtype=np.float32).reshape(4, 4), -np.ones((4, 4), np.float32)]
    results = interpret(program, arrays, KERNELS)
    wanted = [a.copy() for a in arrays]
    inputs = {r.name: a for r, a in zip(program.inputs, wanted, strict=True)}
    named = {r.name: a for r, a in zip(program.outputs, results, strict=True)}
    for update in program.updates:
        window = update.window or ()
        key = tuple(slice(b, b + (n - 1) * s + 1, s) for b, s, n in window)
        inputs[update.target][key] = named[update.source]
    interpret(program, arrays, KERNELS, update=True)
    for got, want in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return [u.in_place for u in program.updates]


def test_an_elementwise_update() -> None:
    body = "call @add(@in %x, @in %y, @out %o) update %x with %o"
    assert updated(f"{HEAD} %o: float32[4, 4]) {{ {body} }}") == [True]


def test_a_kernel_that_reads_other_elements() -> None:
    assert updated(
        f"{HEAD} %o: float32[4, 4]) {{ call @flip(@in %x, @out %o) update %x with %o }}"
    ) == [False]


def test_what_is_read_later() -> None:
    outs = "%s: float32[4, 4], @out %o: float32[4, 4]"
    body = "call @add(@in %x, @in %y, @out %o) call @flip(@in %x, @out %s) update %x with %o"
    assert updated(f"{HEAD} {outs}) {{ {body} }}") == [False]
    body = "call @flip(@in %x, @out %s) call @add(@in %x, @in %y, @out %o) update %x with %o"
    assert updated(f"{HEAD} {outs}) {{ {body} }}") == [True]


def test_two_inputs_that_change_places() -> None:
    outs = "%p: float32[4, 4], @out %q: float32[4, 4]"
    body = "copy @in %y, @out %p copy @in %x, @out %q update %x with %p update %y with %q"
    assert updated(f"{HEAD} {outs}) {{ {body} }}") == [False, True]


def test_a_value_on_the_way_is_not_put_into_the_output_too_early() -> None:
    """%t would be computed in the memory of %o, which is that of %x, before %x was read."""
    body = (
        "%t = alloc float32[4, 4] call @flip(@in %y, @out %t) call @double(@in %x, @out %s) "
        "call @add(@in %t, @in %x, @out %o) free %t update %x with %o"
    )
    text = f"{HEAD} %s: float32[4, 4], @out %o: float32[4, 4]) {{ {body} }}"
    assert updated(text) == [True]


def test_slices() -> None:
    one, two = "%o: float32[1, 4]", "%o: float32[1, 4], @out %p: float32[1, 4]"
    row = "call @row(@in %x, @out %o)"
    assert updated(f"{HEAD} {one}) {{ {row} update %x[1:2, 0:4] with %o }}") == [True]
    assert updated(f"{HEAD} {one}) {{ {row} update %x[2:3, 0:4] with %o }}") == [True]  # apart
    rows = f"{row} call @last(@in %x, @out %p) "
    both = "update %x[1:2, 0:4] with %o update %x[3:4, 0:4] with %p"
    assert updated(f"{HEAD} {two}) {{ {rows} {both} }}") == [True, True]
    same = "update %x[1:2, 0:4] with %o update %x[1:2, 0:4] with %p"
    assert updated(f"{HEAD} {two}) {{ {rows} {same} }}") == [False, False]


def test_the_pass_changes_nothing_twice() -> None:
    body = "call @add(@in %x, @in %y, @out %o) update %x with %o"
    program = optimise(parse_program(f"{HEAD} %o: float32[4, 4]) {{ {body} }}"), safe, reads)
    assert update_in_place(program, safe, reads) is program
    plain = parse_program(f"{HEAD} %o: float32[4, 4]) {{ call @add(@in %x, @in %y, @out %o) }}")
    assert update_in_place(plain, safe, reads) is plain


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("update %o with %o", "%o is not an input, or %o is not an output"),
        ("update %x[0:2, 0:4] with %o", r"float32\[4, 4\] is not a window of float32\[4, 4\]"),
        ("update %x[1:5, 0:4] with %o", "is not a window of"),
        ("update %x[0:4] with %o", "is not a window of"),
        ("update %x with %o update %y with %o", "not with the last outputs"),
        ("update %x[0:7:2, 0:4] with %o in place", "is not a window of"),
    ],
)
def test_what_is_no_update(update: str, message: str) -> None:
    text = f"{HEAD} %o: float32[4, 4]) {{ call @add(@in %x, @in %y, @out %o) {update} }}"
    with pytest.raises(InternalError, match=message):
        verify(parse_program(text))


def test_an_output_that_begins_as_its_input() -> None:
    poke = "call @poke(@inout %o)"
    for body in (poke, f"for %i: int64[] < 3 {{ {poke} }}", f"{poke} {poke}"):
        text = f"{HEAD} %o: float32[4, 4]) {{ copy @in %x, @out %o {body} update %x with %o }}"
        assert updated(text) == [True]
    other = f"{HEAD} %o: float32[4, 4]) {{ copy @in %y, @out %o {poke} update %x with %o }}"
    assert updated(other) == [True]  # a copy of something else is one


def test_an_input_that_a_loop_reads_while_it_writes_the_output() -> None:
    loop = "for %i: int64[] < 3 { call @poke(@inout %o) call @add(@in %x, @in %y, @out %p) }"
    text = f"{HEAD} %p: float32[4, 4], @out %o: float32[4, 4]) {{ copy @in %x, @out %o {loop}"
    assert updated(f"{text} update %x with %o }}") == [False]
    before = "for %i: int64[] < 3 { call @add(@in %x, @in %y, @out %p) }"
    text = f"{HEAD} %p: float32[4, 4], @out %o: float32[4, 4]) {{ {before} copy @in %x, @out %o"
    assert updated(f"{text} call @poke(@inout %o) update %x with %o }}") == [True]


KERNELS["set"] = lambda i, target: target.reshape(-1).__setitem__(int(i) % 16, int(i) + 7)
LOOP = """%c = alloc float32[4, 4] copy @in %x, @out %c
  for %i: int64[] < {} {{
    %a = alloc float32[4, 4] copy @in %c, @out %a call @set(@in %i, @inout %a)
    copy @in %a, @out %c free %a
  }}"""
END = "copy @in %c, @out %o free %c update %x with %o"


@pytest.mark.parametrize("trips", [0, 3])
def test_an_argument_is_updated_in_a_loop(trips: int) -> None:
    assert updated(f"{HEAD} %o: float32[4, 4]) {{ {LOOP.format(trips)} {END} }}") == [True]


def test_an_argument_that_is_read_after_the_loop() -> None:
    outs = "%s: float32[4, 4], @out %o: float32[4, 4]"
    late = "call @flip(@in %x, @out %s)"
    assert updated(f"{HEAD} {outs}) {{ {LOOP.format(3)} {late} {END} }}") == [True]
    assert updated(f"{HEAD} {outs}) {{ {late} {LOOP.format(3)} {END} }}") == [True]


def test_an_argument_that_is_read_in_the_next_iteration() -> None:
    body = """call @double(@in %y, @out %o)
      for %i: int64[] < 2 { call @add(@in %x, @in %y, @out %o) } update %x with %o"""
    assert updated(f"{HEAD} %o: float32[4, 4]) {{ {body} }}") == [False]
