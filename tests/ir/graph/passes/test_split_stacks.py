"""Stacks whose rows are picked are computed row by row, in loops and from one to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass
from loopwright.ir.graph.passes.split_stacks import split_stacks


def unchanged(text: str) -> None:
    check_pass(split_stacks, before=text, after=text)


def test_operators_on_stacks_are_operators_on_rows() -> None:
    check_pass(
        split_stacks,
        before="""fn (%a: Tensor[(4), float32], %b: Tensor[(4), float32],
                      %c: Tensor[(2, 1), float32], %d: Tensor[(1, 4), float32],
                      %e: Tensor[(4), float32]) {
          %0 = stack(%a, %b);
          %1 = multiply(%0, %c);
          %2 = add(%d, %1);
          %3 = maximum(%2, %e);
          %4 = strided_slice(%3, begin=[1, 0], end=[2, 4], strides=[1, 1]);
          sum(%4, axis=[0])
        }""",
        after="""fn (%a: Tensor[(4), float32], %b: Tensor[(4), float32],
                     %c: Tensor[(2, 1), float32], %d: Tensor[(1, 4), float32],
                     %e: Tensor[(4), float32]) {
          %0 = strided_slice(%c, begin=[1, 0], end=[2, 1], strides=[1, 1]);
          %1 = reshape(%0, newshape=[1]);
          %2 = multiply(%b, %1);
          %3 = reshape(%d, newshape=[4]);
          %4 = add(%3, %2);
          %5 = maximum(%4, %e);
          %6 = reshape(%5, newshape=[1, 4]);
          sum(%6, axis=[0])
        }""",
    )


def test_stacks_of_which_no_row_is_picked_stay() -> None:
    unchanged("""fn (%a: Tensor[(4), float32], %b: Tensor[(4), float32]) {
      %0 = stack(%a, %b);
      %1 = exp(%0);
      %2 = strided_slice(%1, begin=[0, 1], end=[1, 3], strides=[1, 1]);
      (%1, %2)
    }""")
    many = ", ".join(["%a"] * 9)
    unchanged(f"""fn (%a: Tensor[(4), float32]) {{
      %0 = stack({many});
      %1 = exp(%0);
      strided_slice(%1, begin=[0, 0], end=[1, 4], strides=[1, 1])
    }}""")


def pendulum(state: Any, steps: Any) -> Any:
    def slope(state: Any) -> Any:
        angle, speed = state
        return np.stack([speed, -np.sin(angle)])

    def step(_: Any, state: Any) -> Any:
        half = state + 0.05 * slope(state)
        return state + 0.1 * slope(half)

    return lw.fori_loop(0, steps, step, state)


def until(state: Any, steps: Any) -> Any:
    """It carries other values and picks in its condition, too."""

    def step(carry: Any) -> Any:
        state, taken, whole = carry
        x, y = state
        following = np.stack([x + 0.1 * y, y - 0.1 * x]) * np.array([[1.0], [0.9]])[:, 0]
        return following, taken + 1, whole + state.sum()

    state = np.stack([state[0, 0], state[1, 0]])
    return lw.while_loop(lambda c: (c[0][0] > -1) & (c[1] < steps), step, (state, 0, 0.0))


def in_a_branch(state: Any, steps: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        a, b = np.stack([state[1], state[0]]) * 0.5 + state
        return lw.cond(i % 2 == 0, lambda: np.stack([a, b]), lambda: state)

    return lw.fori_loop(0, steps, step, state)


@pytest.mark.parametrize("function", [pendulum, until, in_a_branch])
@pytest.mark.parametrize("width", [1, 7])
def test_numpy_agrees(function: Callable[..., Any], width: int) -> None:
    state = np.random.default_rng(0).normal(size=(2, width))
    got, expected = lw.compile(function)(state, 9), function(state, 9)
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_state_of_scalars_is_no_array() -> None:
    text = lw.compile(pendulum).lower(np.array([1.0, 0.0]), 5).as_text("program")
    loop = text[text.index("for ") : text.index("}", text.index("for "))]
    assert "float64[2]" not in loop
