"""argmax and argmin of long rows: only the piece that holds the extreme is searched."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from compiled import lower, operator_module, run_kernel, run_module
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.graph.limits import DEFAULT_LIMITS, GraphLimits
from loopwright.ir.ops import get

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]


def found(
    name: str,
    x: np.ndarray,
    attrs: dict[str, object],
    isa: str = HOST.isa,
    limits: GraphLimits = DEFAULT_LIMITS,
) -> np.ndarray:
    module = lower(operator_module(get(name), (x,), attrs), limits)
    return np.asarray(run_module(module, (x,), HOST.with_isa(isa), run_kernel))


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(
    "shape, axis", [((16_385,), None), ((2, 17_408), 1), ((515, 17), 0), ((2, 1024, 16), 1)]
)
def test_the_first_extreme_is_found_in_any_piece(
    shape: tuple[int, ...], axis: int | None, isa: str
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, shape).astype(np.float32)
    np.testing.assert_array_equal(found("argmax", x, {"axis": axis}, isa), np.argmax(x, axis))
    x.reshape(-1)[-1] = -11.0
    np.testing.assert_array_equal(found("argmin", x, {"axis": axis}, isa), np.argmin(x, axis))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_ties_and_broken_numbers(data: st.DataObject) -> None:
    """Pieces are short here, so that every place of them is met."""
    limits = GraphLimits(
        arg_row=8, arg_row_piece=4, longest_column=8, arg_column_piece=4, narrowest=2
    )
    name = data.draw(st.sampled_from(["argmax", "argmin"]))
    shape, axis = data.draw(st.sampled_from([((13,), 0), ((3, 12), 1), ((14, 3), 0)]))
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    values = st.lists(st.sampled_from(special), min_size=42, max_size=42)
    x = np.array(data.draw(values), np.float32)[: int(np.prod(shape))].reshape(shape)
    whole = x.astype(np.int32) if data.draw(st.booleans()) and np.isfinite(x).all() else x
    reference = getattr(np, name)
    np.testing.assert_array_equal(
        found(name, whole, {"axis": axis, "keepdims": True}, limits=limits),
        reference(whole, axis, keepdims=True),
    )


def test_a_long_row_is_read_once() -> None:
    traced = lw.compile(lambda x: np.argmax(x)).trace(lw.f32[1 << 20])
    prims = kernels_of(lower_module(traced.module)).values()
    whole = [p.name for p in prims for s in p.stages if s.reduce_axes and len(s.axes) == 1]
    large = [p for p in prims if any(b.size == 1 << 20 for b in p.params)]
    assert len(whole) == 1 and len(large) == 2, "the extremes, and one piece that is picked"
