"""docs/dtypes.md: its tables are what the compiler has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.codegen.elementary import FUNCTIONS, error_bound
from loopwright.ir.dtype import dtype_names, dtype_of

PAGE = (Path(__file__).parents[2] / "docs" / "dtypes.md").read_text()


def table(title: str) -> list[list[str]]:
    """The rows of the table under a heading, without the code quotes."""
    part = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[c.strip().replace("`", "") for c in line.strip("|").split("|")] for line in lines[2:]]


def test_every_dtype_is_listed() -> None:
    rows, shorter = table("The dtypes"), table("Shorter dtypes")
    pytest.importorskip("ml_dtypes")
    assert {row[0] for row in rows + shorter} == {*dtype_names().split(", ")}
    for name, bits, computed, _ in shorter:
        assert (str(dtype_of(name).bits), dtype_of(name).computed.name) == (bits, computed)
    for name, short, size, *_ in rows:
        dtype = dtype_of(name)
        assert (short, int(size)) == (f"lw.{dtype.short}", dtype.bytes)
        assert getattr(lw, dtype.short).of is dtype


def test_examples_of_promotion_are_those_of_numpy_and_ours() -> None:
    rows = table("Promotion")
    assert len(rows) > 5
    names = {"np": np, "x8": np.ones(2, np.int8), "x16": np.ones(2, np.float16)}
    names |= {"x32": np.ones(2, np.float32), "n64": np.ones(2, np.int64)}
    for code, dtype in rows:
        used = [name for name in names if name != "np" and re.search(rf"\b{name}\b", code)]
        arrays = [names[name] for name in used]
        function: Any = eval(f"lambda {', '.join(used)}: {code}", {"np": np})
        assert function(*arrays).dtype == dtype, code
        assert lw.compile(function)(*arrays).dtype == dtype, code


def test_error_bounds_are_those_of_the_code() -> None:
    stated: dict[str, tuple[str, str]] = {}
    for functions, single, double in table("Error bounds"):
        for name in functions.split(", "):
            stated[name] = single, double
    assert {*stated} == {*FUNCTIONS}
    for name, bounds in stated.items():
        for text, dtype in zip(bounds, ("float32", "float64"), strict=True):
            assert float(text) == error_bound(name, dtype), (name, dtype)
