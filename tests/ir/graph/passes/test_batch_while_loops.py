"""Loops inside of independent iterations run in blocks of lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import assert_same_value, check_pass, parse, random_args
from loopwright.ir.graph.choices import Choices
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.limits import GraphLimits
from loopwright.ir.graph.nodes import For, Module
from loopwright.ir.graph.passes.batch_while_loops import ONE_BY_ONE, batch_while_loops
from loopwright.ir.graph.passes.lower_to_primitives import lower_to_primitives
from loopwright.ir.graph.verify import verify
from loopwright.ir.graph.walk import all_bindings


def program(
    step: str = "add(multiply(%c, %c), %x0)",
    condition: str = "less(multiply(%c, %c), 4f)",
    count: int = 70,
    update: str = "index_update(%rows, %3.0, %i, axes=[0])",
) -> str:
    return f"""fn (%x: Tensor[({count}), float32], %t: Tensor[(9), float32], %s: int64) {{
      %0 = full(shape=[{count}], fill_value=0, dtype="float32");
      %1 = for (%i < {count}i64; %rows = %0) {{
        %x0 = take(%x, %i, axis=0);
        %3 = while (%c = %x0, %d = 0f, %n = 0i64) {{
          %on = {condition};
          logical_and(%on, less(%n, 9i64))
        }} do {{
          %new = {step};
          (%new, %c, add(%n, 1i64))
        }};
        %u = {update};
        (%u,)
      }};
      %1.0
    }}"""


def extents(module: Module) -> list[int]:
    loops = [b.value for b in all_bindings(module.main) if isinstance(b.value, For)]
    return [int(loop.extent.value) for loop in loops]


def unchanged(text: str) -> None:
    check_pass(batch_while_loops, before=text, after=text)


STEPS = [
    "negative(%x0)",
    "take(%t, 2, axis=0)",
    "add(multiply(%c, %c), %x0)",
    "divide(1f, %c)",
    "log(%c)",
    'cast(%n, dtype="float32")',
    "multiply(%c, 1e30f)",
    "take(%t, floor_mod(%n, 4i64), axis=0)",
    "take(%t, cast(multiply(%c, 3f), dtype=\"int64\"), axis=0)",
    "add(%c, cast(%i, dtype=\"float32\"))",
    "add(%c, take(%t, %i, axis=0))",
    "add(%c, take(%t, %s, axis=0))",
    "where(less(%c, %d), add(%d, 0.5f), negative(%c))",
    "add(%d, cast(right_shift(floor_divide(%i, 2i64), 1i64), dtype=\"float32\"))",
]  # fmt: skip

CONDITIONS = [
    "less(multiply(%c, %c), 4f)",
    "less(%c, 0.3f)",
    "less(%n, floor_mod(%i, 8i64))",
    "greater(add(%c, %x0), %d)",
    "less(%n, %s)",
]


@pytest.mark.parametrize("seed", range(40))
def test_blocks_compute_what_iterations_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([32, 33, 64, 70, 95]))
    text = program(str(rng.choice(STEPS)), str(rng.choice(CONDITIONS)), count)
    before = lower_to_primitives(verify(parse(text)))
    after = verify(batch_while_loops(before))
    assert batch_while_loops(after) is after
    assert extents(after) == [-(-count // 32)]
    args = random_args(before, seed=seed)
    with np.errstate(all="ignore"):
        assert_same_value(evaluate(after, *args), evaluate(before, *args), rtol=0)


@pytest.mark.parametrize(
    "text",
    [
        program(count=31),
        program(step="cast(floor_divide(9i64, %n), dtype=\"float32\")"),
        program(step="cast(floor_divide(%n, 3i64), dtype=\"float32\")"),
        program(step="sum(%t, axis=None)"),
        program(condition="less(%x0, take(%rows, 0, axis=0))"),
        program(update="index_update(%rows, %3.0, 0i64, axes=[0])"),
        program(update='index_update(%rows, %3.0, %i, axes=[0], reduction="add")'),
        program(update="index_update(%rows, add(%3.0, sum(%rows, axis=None)), %i, axes=[0])"),
    ],
)  # fmt: skip
def test_other_loops_stay(text: str) -> None:
    unchanged(text)


def grid(update: str, row: str = "add(%s, 1i64)") -> str:
    """A loop over the columns of one row of a matrix, with a loop of scalars inside."""
    return f"""fn (%x: Tensor[(70), float32], %m: Tensor[(3, 2), float32], %s: int64) {{
      %0 = full(shape=[3, 70], fill_value=0, dtype="float32");
      %row = {row};
      %1 = for (%i < 70i64; %rows = %0) {{
        %2 = strided_slice(%m, begin=[1, 1], end=[2, 2], strides=[1, 1]);
        %step = reshape(%2, newshape=[]);
        %n = floor_mod(%i, 4i64);
        %3 = while (%c = take(%x, %i, axis=0)) {{
          less(%c, 100f)
        }} do {{
          (add(add(%c, 8f), abs(%step)),)
        }};
        %u = {update};
        (%u,)
      }};
      %1.0
    }}"""


@pytest.mark.parametrize("at", ["%row, %i, axes=[0, 1]", "%i, %row, axes=[1, 0]"])
@pytest.mark.parametrize("row", [-5, -3, -1, 0, 1, 2, 3])
def test_elements_of_a_row(at: str, row: int) -> None:
    before = lower_to_primitives(verify(parse(grid(f"index_update(%rows, %3.0, {at})"))))
    after = verify(batch_while_loops(before))
    assert extents(after) == [3]
    args = (*random_args(before)[:2], np.int64(row - 1))
    assert_same_value(evaluate(after, *args), evaluate(before, *args), rtol=0)


@pytest.mark.parametrize(
    "at", ["%i, %row, axes=[0, 1]", "%i, %i, axes=[0, 1]", "%n, %i, axes=[0, 1]", "%row, axes=[0]"]
)
def test_elements_elsewhere_are_written_one_by_one(at: str) -> None:
    unchanged(grid(f"index_update(%rows, %3.0, {at})"))


def test_short_vectors_do_not_pay() -> None:
    module = parse(program())
    assert batch_while_loops(module, None, GraphLimits(lanes=4)) is module
    assert batch_while_loops(module, None, GraphLimits(lanes=16)) is not module


def test_lanes_are_a_choice() -> None:
    choices = Choices({})
    module = parse(program(count=200))
    assert extents(batch_while_loops(module, choices)) == [7]
    (site,) = choices.sites.values()
    assert "%" not in site.text
    assert extents(batch_while_loops(module, Choices({site.key: "128 lanes"}))) == [2]
    assert batch_while_loops(module, Choices({site.key: ONE_BY_ONE})) is module


def test_searches_of_many_keys() -> None:
    import loopwright as lw
    from loopwright.codegen.target import Target

    def program(values: Any, keys: Any) -> Any:
        def place(key: Any) -> Any:
            def halve(state: Any) -> Any:
                low, high = state
                middle = (low + high) // 2
                right = values[middle] < key
                return np.where(right, middle + 1, low), np.where(right, high, middle)

            return lw.while_loop(lambda s: s[0] < s[1], halve, (0, len(values)))[0]

        return lw.map(place, keys)

    rng = np.random.default_rng(0)
    values, keys = np.sort(rng.random(50)), rng.random(70)
    wide = lw.compile(program, target=Target(isa="x86-64-v4"))  # it pays with vectors of eight
    assert "any(" in wide.lower(values, keys).as_text("kernels")
    found = lw.compile(program)(values, keys)
    np.testing.assert_array_equal(found, np.searchsorted(values, keys))
