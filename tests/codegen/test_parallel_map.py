"""A map on several threads."""

from __future__ import annotations

import pytest
from loopwright.codegen.parallel_map import parallel_map


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_results_come_in_the_order_of_the_items(count):
    assert parallel_map(lambda n: n * n, range(count)) == [n * n for n in range(count)]


def test_an_error_in_a_thread_is_an_error_of_the_call():
    def fail(n):
        if n >= 7:
            raise ValueError(f"no {n}")
        return n

    with pytest.raises(ValueError, match="no "):
        parallel_map(fail, range(100))
