"""Every use in the table of NumPy's functions against NumPy, over dtypes, shapes and arguments."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError

from tools.numpy_table.limits import differences, of_ufuncs, of_uses, seeded
from tools.numpy_table.page import PAGE, is_there, page, rows, without_row
from tools.numpy_table.uses import assert_same, drawn, interpreted

CASES = 4
TOGETHER = 24
PARTS = 12
ROWS = [(name, row.uses_of(name)) for row in rows() for name in row.names if is_there(name)]


def check(text: str, case: int) -> None:
    """A use gives what it gives in NumPy; where NumPy raises an error, so do we."""
    function, arrays = drawn(text, case)
    with np.errstate(all="ignore"):
        try:
            want: Any = function(*(a.copy() for a in arrays))
        except ZeroDivisionError:  # which depends on values
            return
        except (ValueError, TypeError, IndexError, OverflowError):
            with pytest.raises(LoopwrightError):
                interpreted(function, arrays)
                raise AssertionError(f"{text}, case {case}: NumPy raises, and we do not") from None
            return
    try:
        assert_same(interpreted(function, arrays), want)
    except Exception as error:
        operands = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        raise AssertionError(f"{text} on {operands}, case {case}: {error}") from error


def _defined(text: str) -> tuple[Any, list[Any], Any]:
    """Returns a use as a function, arrays for which NumPy gives a result, and that result."""
    for case in range(1, 99):
        function, arrays = drawn(text, case)
        try:
            with np.errstate(all="ignore"):
                return function, arrays, function(*(a.copy() for a in arrays))
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    raise AssertionError(f"{text}: NumPy raises an error for all arrays")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "uses"), ROWS, ids=[name for name, _ in ROWS])
def test_a_row(name: str, uses: tuple[str, ...]) -> None:
    for text in uses:
        for case in range(CASES):
            check(text, case)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(0, len(ROWS), TOGETHER))
def test_rows_compiled(first: int) -> None:
    """A use of each row in machine code, many in one function."""
    chosen = [_defined(uses[0]) for _, uses in ROWS[first : first + TOGETHER] if uses]

    def together(groups: Any) -> Any:
        return [f(*arrays) for (f, _, _), arrays in zip(chosen, groups, strict=True)]

    results = lw.compile(together)([arrays for _, arrays, _ in chosen])
    for got, (_, _, want) in zip(results, chosen, strict=True):
        assert_same(got, want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [of_ufuncs, of_uses])
@pytest.mark.parametrize("part", range(PARTS))
def test_types_and_values_at_the_limits(kind: Any, part: int) -> None:
    """A sample of ``python -m tools.numpy_table.limits``, always the same."""
    cases = list(kind(seeded(0, kind.__name__)))[part::PARTS]
    with np.errstate(all="ignore"):
        assert differences(cases) == []


@pytest.mark.skipif(np.__version__ < "2.4", reason="it lists what that version has")
def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(), "python -m tools.numpy_table rewrites it"


def test_what_is_supported_has_a_row() -> None:
    assert not without_row()
