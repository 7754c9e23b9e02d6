"""NumPy references of operators on complex numbers, beside the code that is made for them."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.ops.pairs.table import PAIR_RULES
from loopwright.tracer.nn.apply import apply

Z = np.array([0.7 - 0.3j, -1.2 + 0.4j, 0.1 + 2.5j, -0.4 - 0.9j, 1.5 + 0.0j])

VIEWS = {"reverse", "squeeze", "strided_slice", "transpose"}
"""Operators that the tracer makes of views."""


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", sorted(PAIR_RULES.keys() - VIEWS))
def test_references_of_functions_of_one_operand(name: str, dtype: type) -> None:
    function = lw.compile(lambda z: apply(name, z))
    z = Z.astype(dtype)
    try:
        module = function.trace(z).module
    except (LoopwrightError, TypeError):
        pytest.skip(f"{name} takes more than one operand")
    expected = evaluate(module, z)
    result = function(z)
    assert np.asarray(expected).dtype == result.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == np.complex64 else 1e-12)
