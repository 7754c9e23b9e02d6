"""What the tests of messages share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import loopwright as lw
import pytest


@pytest.fixture
def message() -> Callable[..., str]:
    """``message(function, *args)``: what calling the compiled function raises, as text; keywords
    are options of ``lw.compile``.

    Numbers of lines become ``#``, and of the path of a test file only its name stays.
    """

    def raised(function: Callable[..., Any], *args: Any, **options: Any) -> str:
        with pytest.raises(lw.LoopwrightError) as caught:
            lw.compile(function, **options)(*args)
        text = re.sub(r"[\w/.]*?(test_\w+\.py):\d+", r"\1:#", str(caught.value))
        text = re.sub(r"(?m)^ +\|", "      |", text)
        return re.sub(r"(?m)^ +\d+ \|", "    # |", text)

    return raised
