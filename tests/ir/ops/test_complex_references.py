"""NumPy references of operators on complex numbers, beside the code that is made for them."""

from __future__ import annotations

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.operator import REQUIRED, all_operators
from loopwright.ir.graph.pairs.table import PAIR_RULES
from loopwright.tracer.nn.apply import apply

Z = np.array([[0.7 - 0.3j, -1.2 + 0.4j, 0.1 + 2.5j], [-0.4 - 0.9j, 1.5 + 0.0j, 0.3 + 0.2j]])

VIEWS = {"reverse", "squeeze", "strided_slice", "transpose"}
"""Operators that the tracer makes of views."""


def _takes_one_array(name: str) -> bool:
    """True for an operator that needs one operand and no attribute."""
    operator = all_operators()[name]
    return len(operator.params) == 1 and all(a.default is not REQUIRED for a in operator.attrs)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", sorted(filter(_takes_one_array, PAIR_RULES.keys() - VIEWS)))
def test_references_of_functions_of_one_operand(name: str, dtype: type) -> None:
    function = lw.compile(lambda z: apply(name, z))
    z = Z.astype(dtype)
    expected = evaluate(function.trace(z).module, z)
    result = function(z)
    assert np.asarray(expected).dtype == result.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == np.complex64 else 1e-12)
