"""Elements that are only moved: compiled code on every ISA level gives exactly NumPy's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import compiled
import loopwright as lw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
DTYPES = ("int8", "bool", "uint16", "float32", "int32", "float64")
Array = np.ndarray[Any, Any]

MOVES: dict[str, Callable[[Array, int, int], Array]] = {
    "transpose": lambda x, n, m: np.transpose(
        x, np.argsort([n, m, n * m][: x.ndim], kind="stable")
    ),
    "reversed axes": lambda x, n, m: x.T,
    "swapped": lambda x, n, m: np.swapaxes(x, n % x.ndim, m % x.ndim),
    "flat transpose": lambda x, n, m: x.T.reshape(-1),
    "flip": lambda x, n, m: np.flip(x, n % x.ndim),
    "roll": lambda x, n, m: np.roll(x, n, m % x.ndim),
    "flat roll": lambda x, n, m: np.roll(x, n),
    "pad": lambda x, n, m: np.pad(x, [(n % 5, m % 3)] * x.ndim),
    "edge": lambda x, n, m: np.pad(x, [(n % 5, m % 3)] * x.ndim, mode="edge"),
    "reflect": lambda x, n, m: np.pad(x, [(n, m)] * x.ndim, mode="reflect"),
    "padded transpose": lambda x, n, m: np.pad(x.T, [(n % 5, m % 3)] * x.ndim),
    "joined": lambda x, n, m: np.concatenate([x, np.flip(x, m % x.ndim), x], n % x.ndim),
    "stacked": lambda x, n, m: np.stack([x, x[::-1]], n % (x.ndim + 1)),
    "every other": lambda x, n, m: x[..., n % 3 :: 1 + m % 3],
    "backwards": lambda x, n, m: x[..., :: -1 - m % 3],
    "tiled": lambda x, n, m: np.tile(x, (1 + n % 3, 1 + m % 4)),
    "repeated": lambda x, n, m: np.repeat(x, 1 + n % 4, m % x.ndim),
    "parts": lambda x, n, m: np.concatenate([x[..., n % 3 :], x[..., : n % 3], x.T.T], -1),
}


def moved(name: str, x: Array, n: int, m: int, isa: str, choose: compiled.Chooser | None) -> Any:
    traced = lw.compile(lambda x: MOVES[name](x, n, m)).trace(x)
    return compiled.run_module(
        compiled.lower(traced.module), [x], HOST.with_isa(isa), choose=choose
    )


@settings(max_examples=90, deadline=None)
@given(
    isa=st.sampled_from(LEVELS),
    name=st.sampled_from(sorted(MOVES)),
    shape=st.lists(st.integers(2, 40), min_size=1, max_size=3),
    dtype=st.sampled_from(DTYPES),
    n=st.integers(0, 20),
    m=st.integers(0, 20),
    seed=st.none() | st.integers(0, 2**32 - 1),
)
def test_moved_elements_are_those_of_numpy(isa, name, shape, dtype, n, m, seed):
    count = int(np.prod(shape))
    x = (np.arange(count) * 7 % 251).astype(dtype).reshape(shape)

    def choose(prim: PrimFunc) -> Schedule:
        space = ScheduleSpace(prim, HOST.with_isa(isa))
        rows = space.sample(1, np.random.default_rng(seed))
        return space.schedule(rows[0]) if len(rows) else Schedule()

    found = moved(name, x, n, m, isa, None if seed is None else choose)
    np.testing.assert_array_equal(found, MOVES[name](x, n, m))


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(131, 70), (64, 64), (33, 3), (3, 200), (5, 17, 18)])
def test_transposes_with_blocks_that_end_anywhere(isa, dtype, shape):
    x = (np.arange(int(np.prod(shape))) * 7 % 251).astype(dtype).reshape(shape)
    np.testing.assert_array_equal(moved("reversed axes", x, 0, 0, isa, None), x.T)
