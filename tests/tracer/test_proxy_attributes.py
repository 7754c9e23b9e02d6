"""Every attribute of NumPy's arrays, on traced ones: of the same kind, or an error at the line."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.tracer import Proxy

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if not n.startswith("__")])
def test_an_attribute_is_of_the_kind_that_numpy_has(name: str) -> None:
    seen: list[Any] = []

    @lw.compile
    def f(x: Any) -> Any:
        seen.append(getattr(x, name))
        return x

    try:
        f.trace(ARRAY)
    except lw.LoopwrightError as error:
        assert isinstance(error, AttributeError)
        assert error.span is not None and "test_proxy_attributes.py" in error.span.file
        return
    assert callable(seen[0]) == callable(getattr(ARRAY, name))


def test_a_proxy_has_no_name_of_its_own_where_numpy_has_one() -> None:
    assert not set(Proxy.__slots__) & set(dir(np.ndarray))


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_the_trace_of_a_matrix(offset: int) -> None:
    f = lw.compile(lambda x: x.trace(offset))
    np.testing.assert_allclose(f(ARRAY), ARRAY.trace(offset))
