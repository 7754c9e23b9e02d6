"""Values cast to every type, vectors of every length: nothing is written behind a result.

``python tests/fuzz/test_casts.py --seeds 0:10000`` runs many.

LLVM rewrites masked loads and stores, above all those of values that are truncated or extended on
the way. Operands lie at the border of a page, with canaries around what is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import numpy as np
import pytest
from isolated import run_isolated, run_script
from page_borders import LEVELS, call_at_page_borders
from random_draw import RandomDraw

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float32", "float64",
)  # fmt: skip
Cast = Callable[[Any, Any], Any]
FORMS: dict[str, Cast] = {
    "cast": lambda x, to: x.astype(to),
    "cast, both kept": lambda x, to: (x.astype(to), x + x),
    "rows": lambda x, to: np.tile(x, 3).reshape(3, -1).astype(to),
    "columns": lambda x, to: np.tile(x, 5).reshape(5, -1).T.astype(to),
    "every second": lambda x, to: x[::2].astype(to),
    "backwards": lambda x, to: x[::-1].astype(to),
    "compared": lambda x, to: (x > x[::-1]).astype(to),
    "chosen": lambda x, to: np.where(x > x[::-1], x, x[:1]).astype(to),
    "padded": lambda x, to: np.pad(x.astype(to), 1),
    "sum of rows": lambda x, to: np.tile(x, 3).reshape(3, -1).sum(axis=0).astype(to),
    "sum of columns": lambda x, to: np.tile(x, 3).reshape(3, -1).sum(axis=1).astype(to),
    "product": lambda x, to: (x[:, None] @ x[None, :]).astype(to),
    "widened": lambda x, to: x.astype(to).astype(np.float64),
    "narrowed twice": lambda x, to: x.astype(np.int16).astype(to),
}


def run_form(form: str, isa: str, x: Any, to: str, seed: int = 0, schedules: bool = False) -> str:
    """What is wrong with a cast, or nothing."""

    def cast(x: Any) -> Any:
        return FORMS[form](x, to)

    try:
        found = call_at_page_borders(
            cast, isa, [x], at_start=bool(seed % 2), schedules=seed if schedules else None
        )
        wanted = cast(x)
        both = isinstance(wanted, tuple)
        for ours, numpys in zip(found if both else [found], wanted if both else [wanted]):
            np.testing.assert_array_equal(ours, numpys)
            assert ours.dtype == numpys.dtype
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip()[:300]}"
    return ""


def run_case(seed: int, isa: str, schedules: bool) -> str:
    draw = RandomDraw(seed)
    form = draw.pick(sorted(FORMS))
    source, to = draw.pick(DTYPES), draw.pick(DTYPES)
    lanes = 64 // np.dtype(draw.pick((source, to))).itemsize
    length = draw.pick((0, lanes)) + draw.between(1, lanes)
    print(f"  {form}: {source} to {to}, {length} elements", flush=True)
    x = (np.arange(length) * 7 % 11).astype(source)  # fits every type
    return run_form(form, isa, x, to, seed, schedules)


def test_casts_of_all_lengths():
    assert not run_isolated(Path(__file__), 0, 60)


WIDER = [(a, b) for a in DTYPES for b in DTYPES if np.dtype(a).itemsize > np.dtype(b).itemsize]


@pytest.mark.parametrize("source, to", [p for p in WIDER if p[0] in ("int32", "int64", "float64")])
def test_one_lane_left_over_does_not_write_behind_it(source, to):
    lanes = 64 // np.dtype(source).itemsize
    x = (np.arange(lanes + 1) * 7 % 11).astype(source)
    assert not run_form("cast", LEVELS[-1], x, to)


if __name__ == "__main__":
    run_script(Path(__file__), run_case, LEVELS)
