"""``mirror``: one triangle of the blocks of a symmetric result is computed, and stored twice."""

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from loopwright.ir.errors import ScheduleError
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.parser import parse_nest, parse_prim
from loopwright.ir.loop.verify import verify_nest
from loopwright.ir.schedule.apply import apply_schedule
from loopwright.ir.schedule.steps import (
    Schedule,
    cache_write,
    compute_at,
    cut,
    fuse,
    mirror,
    pack,
    parallel,
    reorder,
    split,
    unroll,
    vectorize,
)
from prims import run_nest


def product(size=6, depth=5, follows="(t[i, j] * s[j]) + c[i, j]", value="x[k, i] * x[k, j]"):
    """A product of an array with itself, and a map of it that is not symmetric."""
    return f"""
prim @f(x: float32[{depth}, {size}], s: float32[{size}], c: float32[{size}, {size}])
 -> out: float32[{size}, {size}] {{
  t[i, j]: float32[{size}, {size}] = sum(k: {depth}) {value}
  out[i, j] = {follows}
}}"""


def blocks(size, depth, tile=(2, 1, 2), pieces=1):
    """Square blocks: ``tile`` is rows of a register tile, tiles side by side, and their width."""
    rows, tiles, width = tile
    block = tiles * width
    count = -(-size // block)
    inner = -(-depth // pieces)
    deep = ("k.0",) if pieces > 1 else ()
    return [
        split("j", (count, tiles, width)),
        split("i", (count, block // rows, rows)),
        split("k", (-(-depth // inner), inner)),
        reorder("j.0", "i.0", *deep, "i.1", "j.1", "k.1", "i.2", "j.2")
        if deep
        else reorder("j.0", "i.0", "i.1", "j.1", "k.0", "k.1", "i.2", "j.2"),
        cache_write("t", "registers", "j.1"),
        compute_at("out", "i.0" if pieces > 1 else "j.1"),
        mirror("t", "i.0"),
    ]


def inputs_of(size, depth):
    rng = np.random.default_rng(size)
    shapes = {"x": (depth, size), "s": (size,), "c": (size, size)}
    return {n: rng.integers(-9, 9, shape).astype(np.float32) for n, shape in shapes.items()}


def test_a_block_above_the_diagonal_is_stored_twice():
    nest = apply_schedule(parse_prim(product(4, 3)), Schedule.of(*blocks(4, 3)))
    verify_nest(nest)
    assert str(parse_nest(str(nest))) == str(nest)
    expected = """
      for j.0 in 2:
        for i.0 in 2:
          if index(2 * i.0 - 2 * j.0) <= 0:
            stack t.block: float32[2, 2]
            registers t.acc: float32[2, 2]
            for i.2 in 2:
              for j.2 in 2:
                t.acc[i.2, j.2] = 0.0
            for k.1 in 3:
              for i.2 in 2:
                for j.2 in 2:
                  t.acc[i.2, j.2] += x[k.1, 2 * i.0 + i.2] * x[k.1, 2 * j.0 + j.2]
            if index(2 * i.0 - 2 * j.0) < 0:
              for i.2 in 2:
                for j.2 in 2:
                  t.block[i.2, j.2] = t.acc[i.2, j.2]
            for i.2 in 2:
              for j.2 in 2:
                out[2 * i.0 + i.2, 2 * j.0 + j.2] = (t.acc[i.2, j.2] * s[2 * j.0 + j.2]) + c[2 * i.0 + i.2, 2 * j.0 + j.2]
            if index(2 * i.0 - 2 * j.0) < 0:
              stack t.image: float32[2, 2]
              unroll t.row in 2:
                vectorize t.column in 2:
                  t.image[t.row, t.column] = t.block[t.column, t.row]
              for t.row in 2:
                vectorize t.column in 2:
                  out[2 * j.0 + t.row, 2 * i.0 + t.column] = (t.image[t.row, t.column] * s[2 * i.0 + t.column]) + c[2 * j.0 + t.row, 2 * i.0 + t.column]
    """  # noqa: E501
    assert dedent("\n".join(str(nest).splitlines()[1:-1])) == dedent(expected).strip("\n").rstrip()


@settings(max_examples=60)
@given(
    size=st.integers(2, 40),
    depth=st.integers(1, 5),
    tile=st.sampled_from(
        [(1, 1, 1), (2, 1, 4), (4, 2, 2), (3, 2, 3), (2, 3, 2), (4, 1, 16), (9, 2, 9), (8, 4, 8)]
    ),
    pieces=st.sampled_from([1, 2]),
    follows=st.sampled_from(
        ["(t[i, j] * s[j]) + c[i, j]", "s[i] - (t[i, j] * 2.0)", "t[i, j] + 0.0"]
    ),
    value=st.sampled_from(
        ["x[k, i] * x[k, j]", "abs(x[k, i] - x[k, j])", "(s[i] + x[k, j]) * (x[k, i] + s[j])"]
    ),
)
def test_mirroring_changes_nothing(size, depth, tile, pieces, follows, value):
    assume(pieces <= depth)
    prim = parse_prim(product(size, depth, follows, value))
    try:
        nest = apply_schedule(prim, Schedule.of(*blocks(size, depth, tile, pieces)))
    except ScheduleError as error:
        assert "is not symmetric" in error.message and value.startswith("(s[i]")
        return
    verify_nest(nest)
    inputs = inputs_of(size, depth)
    found, expected = run_nest(nest, inputs)["out"], evaluate_prim(prim, inputs)["out"]
    np.testing.assert_array_equal(found, expected)


def test_the_result_of_the_product_itself_and_more_than_one_result():
    prim = parse_prim("""
        prim @f(x: float32[3, 9, 4], s: float32[9]) -> t: float32[3, 9, 9], out: float32[3, 9, 9] {
          t[b, i, j] = sum(k: 4) x[b, i, k] * x[b, j, k]
          out[b, i, j] = t[b, i, j] - s[i]
        }""")
    steps = [pack("x", "j", 2), *blocks(9, 4, (2, 2, 2))]
    steps = [*steps[:-1], fuse("j.0", "i.0"), parallel("j.0*i.0"), mirror("t", "j.0*i.0")]
    steps += [unroll("i.2"), vectorize("j.2")]
    steps[4] = reorder("b", "j.0", "i.0", "i.1", "j.1", "k.0", "k.1", "i.2", "j.2")
    nest = apply_schedule(prim, Schedule.of(*steps))
    verify_nest(nest)
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.integers(-9, 9, (3, 9, 4)).astype(np.float32),
        "s": rng.integers(-9, 9, 9).astype(np.float32),
    }
    found, expected = run_nest(nest, inputs), evaluate_prim(prim, inputs)
    for name in ("t", "out"):
        np.testing.assert_array_equal(found[name], expected[name])


SQUARES = [
    split("i", (3, 2)),
    split("j", (3, 2)),
    reorder("i.0", "j.0", "i.1", "j.1"),
    cache_write("t", "registers", "j.0"),
    mirror("t", "j.0"),
]


@pytest.mark.parametrize(
    "text, steps, message",
    [
        (product(value="x[k, i] * s[j]"), [mirror("t", "i")], "mirror: t is not symmetric"),
        (product(), [mirror("out", "i")], "mirror: out is not symmetric"),
        (product(), [mirror("t", "k")], "mirror: k walks neither i nor j"),
        (product(), [mirror("t", "z")], "mirror: no loop 'z' (the loops are i, j, k)"),
        (product(), [mirror("t", "i"), mirror("t", "j")], "mirror: a stage is mirrored already"),
        (product(), [cut("j", (3,)), mirror("t", "i")], "mirror: i or j is in pieces"),
        (product(), [*SQUARES, cut("j", (2,))], "mirror: i or j is in pieces"),
        (product(), [mirror("t", "i")], "mirror: the blocks in i are not squares"),
        (product(), [mirror("t", "i"), split("i", (3, 2))], "mirror: no stage shares the loop i"),
        (
            product(),
            [split("i", (2, 3)), split("j", (3, 2)), reorder("i.0", "j.0", "i.1", "j.1")]
            + [mirror("t", "j.0")],
            "mirror: the blocks in j.0 are not squares",
        ),
        (
            product(follows="u[i, j] + c[i, j]").replace(
                "  out[", "  u[i, j]: float32[6, 6] = t[i, j] - s[j]\n  out["
            ),
            [*SQUARES, compute_at("u", "j.0"), compute_at("out", "j.0")],
            "mirror: u would be computed for one side only",
        ),
        (
            product(),
            [*SQUARES, compute_at("out", "i.0")],
            "mirror: t is not computed in j.0",
        ),
        (
            """
            prim @f(x: float32[2, 6, 5]) -> t: float32[2, 6, 6] {
              t[b, i, j] = sum(k: 5) x[b, i, k] * x[b, j, k]
            }""",
            [*SQUARES[:2], reorder("i.0", "j.0", "b", "i.1", "j.1"), *SQUARES[3:]],
            "mirror: b is walked inside of a block",
        ),
    ],
)
def test_guards(text, steps, message):
    with pytest.raises(ScheduleError) as caught:
        apply_schedule(parse_prim(text), Schedule.of(*steps))
    assert caught.value.message.endswith(message)
