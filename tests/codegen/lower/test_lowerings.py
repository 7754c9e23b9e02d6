"""The passes from a nest to what a target runs: what their pages say, and what is wrong is seen."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from loopwright.codegen.lower.carried import carry_sums
from loopwright.codegen.lower.lanes import Machine
from loopwright.codegen.lower.lowering import LOWERINGS, lowered
from loopwright.codegen.lower.meaning import interpret_vectors, verify_vectors
from loopwright.codegen.target import Target
from loopwright.ir.errors import InternalError, ScheduleError
from loopwright.ir.loop.nest import Nest
from loopwright.ir.loop.parser import parse_nest

AVX2 = Target(isa="x86-64-v3")
OPERANDS = {
    "start_sums": "(x: int32[20, 8], b: int32[8]) -> y: float32[8] {",
    "hold_tables": "(t: uint8[256], x: uint8[20]) -> y: uint8[20] {",
    "carry_sums": "(x: float32[8], y: float32[8, 4]) -> z: float32[4] {",
    "join_rows": "(x: float32[4, 8]) -> y: float32[4] {",
    "select_instructions": "() -> y: float32[1] {",
    "place_registers": "(x: float32[20]) -> y: float32[1] {",
    "split_vectors": "(x: float32[20]) -> y: float32[20], s: float32[1] {\n  s[0] = 0.0",
    "shuffle_blocks": "(x: float32[8, 8]) -> y: float32[8, 8], z: float32[4, 2] {",
    "roll_loops": "(x: float32[4, 16]) -> y: float32[4, 16] {",
    "join_stores": "(x: float32[16]) -> y: float32[16], z: float32[16] {",
}
"""The rest of the nest that stands on the page of a pass."""
MIDDLE = 44


def example(lowering) -> tuple[Nest, Nest]:
    """The nests before and after, as two columns of the page."""
    page = sys.modules[lowering.__module__].__doc__
    block = re.search(r"::\n\n((?:    .*\n)+)", page)
    assert block
    columns = [(line[:MIDDLE].replace("=>", ""), line[MIDDLE:]) for line in block[1].splitlines()]
    texts = []
    for column in zip(*columns, strict=True):
        lines = [line[2:] if line[:4].strip() == "" else f"  {line[4:]}" for line in column]
        body = "\n".join(line.rstrip() for line in lines if line.strip() and line.strip()[0] != "(")
        texts.append(f"prim @f{OPERANDS[lowering.__name__]}\n{body}\n}}")
    return parse_nest(texts[0]), parse_nest(texts[1])


@pytest.mark.parametrize("lowering", LOWERINGS, ids=lambda each: each.__name__)
def test_a_pass_does_what_its_page_says(lowering):
    before, after = example(lowering)
    verify_vectors(before)
    made = lowering(before, Machine.of(before, AVX2))
    assert str(made) == str(after)
    verify_vectors(made)
    assert parse_nest(str(made)) == made
    assert lowering(made, Machine.of(made, AVX2)) is made, "once more changes nothing"


CARRIED = """prim @f(x: float32[8], y: float32[8, 4]) -> z: float32[4] {
  stack t: float32[4]
  for k in 8:
    registers a: float32[4]
    vectorize j in 4:
      a[j] = 0.0
    vectorize j in 4:
      a[j] += x[k] * y[k, j]
    if index(k) == 0:
      vectorize j in 4:
        t[j] = a[j]
    else:
      vectorize j in 4:
        t[j] += a[j]
  vectorize j in 4:
    z[j] = t[j]
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("x[k] * y[k, j]", "x[k] * t[j]"),
        ("x[k] * y[k, j]", "a[j] * y[k, j]"),
        ("index(k) == 0", "index(k) == 1"),
        ("a[j] = 0.0", "a[j] = 1.0"),
        ("t[j] += a[j]", "t[j] += x[j]"),
        ("t[j] += a[j]", "t[j] max= a[j]"),
        ("t[j] = a[j]", "t[3 - j] = a[j]"),
        ("    registers a", "    t[0] = 1.0\n    registers a"),
        ("  stack t: float32[4]\n  for k", "  stack t: float32[400]\n  for k"),
    ],
)
def test_only_sums_that_nothing_else_sees_begin_in_front_of_a_loop(old, new):
    nest = parse_nest(CARRIED.replace(old, new) if old else CARRIED)
    made = carry_sums(nest, Machine.of(nest, AVX2))
    assert (made is nest) == bool(old)
    if not old:
        results = np.zeros((2, 4), "f")
        for each, z in zip((nest, made), results):
            given = {"x": np.arange(8, dtype="f"), "y": np.ones((8, 4), "f"), "z": z}
            interpret_vectors(each, given)
        np.testing.assert_array_equal(results, 28)


def test_lanes_run_at_once_and_vectors_one_after_the_other():
    """Each lane reads what the one before it wrote an iteration ago, not what it writes now."""
    text = """prim @f(x: float32[9]) -> y: float32[9] begins as x at 0 {
  vectorize j in 8 by [4, 4]HOW:
    y[j + 1] = y[j]
}
"""
    made = {}
    for how in ("", " together"):
        y = np.arange(9, dtype=np.float32)
        interpret_vectors(parse_nest(text.replace("HOW", how)), {"y": y})
        made[how] = y.tolist()
    assert made == {"": [0, 0, 1, 2, 3, 3, 5, 6, 7], " together": [0, 0, 1, 2, 3, 4, 5, 6, 7]}


def test_joined_lanes_have_a_total_each_and_are_joined_in_halves():
    """Four totals of two vectors, the last of which has an idle lane: a float32 sum that any other
    order rounds in another way."""
    nest = parse_nest("""prim @f(x: float32[7]) -> s: float32[1] {
  s[0] = 0.0
  reduce k in 7 by [4, 4]:
    s[0] += x[k]
}
""")
    verify_vectors(nest)
    x, s = np.array([1e8, 1, -1e8, 1, 2, 2, 4], np.float32), np.zeros(1, np.float32)
    interpret_vectors(nest, {"x": x, "s": s})
    one = np.float32(1e8) + np.float32(2), np.float32(-1e8) + np.float32(4)
    assert s[0] == (one[0] + one[1]) + np.float32(3 + 1)


WRONG = {
    "vectors of (8, 8) lanes do not hold 20 iterations": (
        "vectorize j in 20 by [8, 8]:\n y[j] = x[j]"
    ),
    "vectors of (8, 8, 4, 4) lanes do not hold 20 iterations": (
        "vectorize j in 20 by [8, 8, 4, 4]:\n y[j] = x[j]"
    ),
    "the lanes of a vector are a power of two": "vectorize j in 20 by [20]:\n y[j] = x[j]",
    "lanes are joined where they add to one element, and only there": (
        "y[0] = 0.0\nvectorize j in 20 by [8, 8, 4]:\n y[0] += x[j]"
    ),
    "a vector loop holds only stores and unrolled loops": (
        "vectorize j in 20 by [8, 8, 4]:\n for k in 2:\n  y[j] = x[j]"
    ),
    "acc is in registers, but which element is used is not a constant": (
        "registers acc: float32[20] by 8 of 0\nfor j in 20:\n acc[j] = x[j]"
    ),
    "acc is in registers along dimension 1, lanes are elsewhere": (
        "registers acc: float32[20, 2] by 2 of 1\n"
        "vectorize j in 20 by [8, 8, 4]:\n acc[j, 0] = x[j]"
    ),
    "these loops are not what transpose does": (
        "y[0] = 0.0\nunroll t in 2 by transpose:\n y[0] += x[t]"
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_the_verifier_says_what_is_wrong(message):
    lines = [re.sub("^ +", lambda pad: 2 * pad[0], line) for line in WRONG[message].split("\n")]
    body = "\n".join(f"  {line}" for line in lines)
    nest = parse_nest(f"prim @f(x: float32[20]) -> y: float32[20] {{\n{body}\n}}\n")
    with pytest.raises(InternalError) as error:
        verify_vectors(nest)
    assert str(error.value).split("\n")[0] == f"nest @f: {message}"


def test_what_has_no_lanes_is_refused():
    nest = parse_nest("""prim @f(x: int32[4, 4]) -> y: int32[4, 4] begins as x at 0 {
  vectorize i in 4:
    sort y[i, 0] in 4
}
""")
    with pytest.raises(ScheduleError, match="a vectorised loop holds only stores"):
        lowered(nest, AVX2)
