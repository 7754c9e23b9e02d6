"""Every use in the table of NumPy's functions against NumPy, over dtypes, shapes and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError
from numpy_uses import assert_same, drawn, interpreted

from tools.numpy_table.page import PAGE, is_there, page, rows, without_row

CASES = 6
ROWS = [(name, row.uses_of(name)) for row in rows() for name in row.names if is_there(name)]


def check(text: str, case: int) -> None:
    """A use gives what it gives in NumPy; where NumPy raises an error, so do we."""
    function, arrays = drawn(text, case)
    with np.errstate(all="ignore"):
        try:
            want: Any = function(*(a.copy() for a in arrays))
        except ZeroDivisionError:  # which depends on values
            return
        except (ValueError, TypeError, IndexError):
            with pytest.raises(LoopwrightError):
                interpreted(function, arrays)
            return
    try:
        assert_same(interpreted(function, arrays), want)
    except Exception as error:
        operands = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        raise AssertionError(f"{text} on {operands}, case {case}: {error}") from error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "uses"), ROWS, ids=[name for name, _ in ROWS])
def test_a_row(name: str, uses: tuple[str, ...]) -> None:
    for text in uses:
        for case in range(CASES):
            check(text, case)


@pytest.mark.skipif(np.__version__ < "2.4", reason="it lists what that version has")
def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(), "python -m tools.numpy_table rewrites it"


def test_what_is_supported_has_a_row() -> None:
    assert not without_row()
