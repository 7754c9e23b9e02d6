"""Products and distances of one array with itself, of which a schedule may compute one half.

``python tests/fuzz/test_symmetric_products.py --seeds 0:10000`` runs many; ``--schedules`` gives
the kernels schedules sampled from their spaces instead of the default.

The programs run beside forbidden pages, on the ISA levels that this machine has, round robin, and
are compared with NumPy's results in float64. Where nothing behind the product tells rows from
columns, the result is symmetric to the last bit.
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
from loopwright.ir.dtype import dtype_of
from loopwright.ir.tolerance import tolerance
from page_borders import LEVELS, call_at_page_borders
from random_draw import RandomDraw

Array = np.ndarray[Any, Any]


def _last(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


# On arrays [..., n, k], the result being [..., n, n].
PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "x @ x.T": lambda x: x @ _last(x),
    "y.T @ y": lambda x: _last(_last(x) + 0) @ (_last(x) + 0),
    "transposed": lambda x: _last(x @ _last(x)),
    "einsum": lambda x: np.einsum("...ik,...jk->...ij", x, x),
    "inner": lambda x: np.inner(x, x) if x.ndim == 2 else x @ _last(x),
    "squares of differences": lambda x: (
        ((x[..., :, None, :] - x[..., None, :, :]) * (x[..., :, None, :] - x[..., None, :, :]))
        .sum(axis=-1, dtype=x.dtype)
    ),
    "greatest sum": lambda x: (x[..., :, None, :] + x[..., None, :, :]).max(axis=-1),
}  # fmt: skip

FRONTS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: x,
    "scaled": lambda x: 3 * x,
    "centred": lambda x: x - x[..., :1, :],
    "weighted": lambda x: x * (x[..., :1, :] + 2),
    "squares": lambda x: x * x,
}

# Of the product p and the array x; whether the result is symmetric.
ENDS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "nothing": (lambda p, x: p, True),
    "halved": (lambda p, x: p - p // 2 if x.dtype.kind in "iu" else p * x.dtype.type(0.5), True),
    "distances": (
        lambda p, x: (x * x)[..., :, None, 0] + (x * x)[..., None, :, 0] - 2 * p,
        True,
    ),
    "rows": (lambda p, x: p + x[..., :1], False),
    "columns": (lambda p, x: np.maximum(p, x[..., None, :, 0]) - x[..., None, :, 0], False),
    "triangle": (lambda p, x: np.tril(p), False),
    "both": (lambda p, x: (p, p - x[..., :1]), False),
    "cast": (lambda p, x: p.astype(np.float64) + 1, True),
    "sum": (lambda p, x: p.sum(axis=-1, dtype=p.dtype), False),
}


def draw(seed: int) -> tuple[str, Callable[[Any], Any], Array, bool]:
    """A program and what it is called, its input, and whether its result is symmetric."""
    choose = RandomDraw(seed)
    names = [choose.pick(tuple(table)) for table in (FRONTS, PRODUCTS, ENDS)]
    dtype = np.dtype(choose.pick(("float32",) * 4 + ("float64",) * 2 + ("int32", "int8", "int64")))
    size = choose.pick((2, 7, 16, 31, 33, 48, 64, 65, 96, 97, 100, 113, 130))
    depth = choose.pick((1, 2, 3, 8, 17, 40, 65, 130) if size > 40 else (1, 5, 64, 300, 1025))
    batch = choose.pick(((), (), (), (2,), (3,), (1, 2)))
    rng = np.random.default_rng(seed)
    exact = dtype.kind == "i" or choose.pick((True, False))
    array = (
        rng.integers(-3, 4, (*batch, size, depth))
        if exact
        else rng.standard_normal((*batch, size, depth))
    )
    array = array.astype(dtype)
    if dtype.kind == "f" and choose.between(0, 5) == 0:
        array.reshape(-1)[rng.integers(0, array.size, 3)] = (np.nan, np.inf, -np.inf)
    front, product, (end, symmetric) = (
        table[name] for table, name in zip((FRONTS, PRODUCTS, ENDS), names)
    )

    def program(x: Any) -> Any:
        y = front(x)
        return end(product(y), y)

    text = f"{', '.join(names)} of {dtype}{list(array.shape)}"
    return text, program, array, symmetric


def run_case(seed: int, isa: str, schedules: bool) -> str:
    """What is wrong with the program of a seed, or nothing; printed before it runs."""
    text, program, array, symmetric = draw(seed)
    print(f"  {text}", flush=True)
    try:
        found = call_at_page_borders(
            program, isa, (array,), at_start=bool(seed % 2), schedules=seed if schedules else None
        )
        with np.errstate(all="ignore"):
            native = program(array)
            wide = program(array.astype(np.float64)) if array.dtype.kind == "f" else native
        for ours, numpys, exact in zip(*map(as_tuple, (found, native, wide)), strict=True):
            compare(ours, numpys, exact, array)
            if symmetric:
                np.testing.assert_array_equal(ours, np.swapaxes(ours, -1, -2))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip()[:400]}"
    return ""


def as_tuple(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def compare(ours: Array, numpys: Array, exact: Array, given: Array) -> None:
    assert ours.dtype == numpys.dtype and ours.shape == numpys.shape
    scale = np.abs(exact[np.isfinite(exact)]).max(initial=1.0)
    computed = dtype_of((given if given.dtype.kind == "f" else numpys).dtype)
    rtol, atol = tolerance(computed, given.shape[-1] + 8, scale=float(scale) + 8)
    np.testing.assert_allclose(ours, exact, rtol=rtol, atol=atol)


@pytest.mark.parametrize("schedules", [False, True], ids=["default", "sampled"])
def test_products_of_an_array_with_itself(schedules):
    assert not run_isolated(Path(__file__), 0, 10, *["--schedules"] * schedules)


if __name__ == "__main__":
    run_script(Path(__file__), run_case, LEVELS)
