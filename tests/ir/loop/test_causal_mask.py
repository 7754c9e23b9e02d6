"""Masks that are a comparison of their indices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopwright.ir.loop.causal_mask import causal_offset


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), offset=st.integers(-10, 10))
def test_every_causal_mask_is_seen(rows, columns, offset):
    mask = np.tri(rows, columns, offset, dtype=bool)
    found = causal_offset(mask)
    if mask.all() or not mask.any():
        assert found is None
    else:
        assert found is not None
        np.testing.assert_array_equal(np.tri(rows, columns, found, dtype=bool), mask)


@pytest.mark.parametrize(
    "mask",
    [
        np.tri(4, 4),
        ~np.tri(4, 4, dtype=bool),
        np.eye(4, dtype=bool),
        np.tri(4, 4, dtype=bool)[0],
        np.stack([np.tri(4, 4, dtype=bool)] * 2),
        np.zeros((0, 4), bool),
    ],
)
def test_other_masks_are_not(mask):
    assert causal_offset(mask) is None
