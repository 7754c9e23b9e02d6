"""Products of the rows that loops take move out of the loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from graphs import check_pass, parse
from loopwright.ir.graph.choices import Choices
from loopwright.ir.graph.limits import GraphLimits
from loopwright.ir.graph.passes.hoist_products import BEFORE, INSIDE, hoist_products


def loop(
    rows: int = 2, extent: str = "16i64", index: str = "subtract(15i64, %i)", source: str = "%x"
) -> str:
    return f"""fn (%x: Tensor[(16, {rows}, 8), float32], %w: Tensor[(8, 4), float32],
                  %s: Tensor[({rows}, 4), float32], %n: int64) {{
      %0 = for (%i < {extent}; %c = %s, %d = %x) {{
        %1 = {index};
        %2 = take({source}, %1, axis=0);
        %3 = nn.matmul(%2, %w);
        %4 = add(%3, %c);
        (%4, %d)
      }};
      %0.0
    }}"""


def unchanged(text: str) -> None:
    check_pass(hoist_products, before=text, after=text)


def test_any_row_is_a_row_of_the_product() -> None:
    check_pass(
        hoist_products,
        before=loop(),
        after="""fn (%x: Tensor[(16, 2, 8), float32], %w: Tensor[(8, 4), float32],
                     %s: Tensor[(2, 4), float32], %n: int64) {
          %r = reshape(%x, newshape=[32, 8]);
          %p = nn.matmul(%r, %w);
          %q = reshape(%p, newshape=[16, 2, 4]);
          %0 = for (%i < 16i64; %c = %s, %d = %x) {
            %1 = subtract(15i64, %i);
            %2 = take(%x, %1, axis=0);
            %3 = take(%q, %1, axis=0);
            %4 = add(%3, %c);
            (%4, %d)
          };
          %0.0
        }""",
    )


def test_vectors_from_the_right() -> None:
    check_pass(
        hoist_products,
        before="""fn (%x: Tensor[(16, 8), float32], %w: Tensor[(4, 8), float32],
                      %s: Tensor[(4), float32]) {
          %0 = for (%i < 16i64; %c = %s) {
            %1 = take(%x, %i, axis=0);
            %2 = nn.matmul(%w, %1);
            %3 = add(%2, %c);
            (%3,)
          };
          %0.0
        }""",
        after="""fn (%x: Tensor[(16, 8), float32], %w: Tensor[(4, 8), float32],
                     %s: Tensor[(4), float32]) {
          %t = transpose(%w, axes=[1, 0]);
          %p = nn.matmul(%x, %t);
          %0 = for (%i < 16i64; %c = %s) {
            %1 = take(%x, %i, axis=0);
            %2 = take(%p, %i, axis=0);
            %3 = add(%2, %c);
            (%3,)
          };
          %0.0
        }""",
    )


def test_loops_that_may_be_short_and_rows_that_change_stay() -> None:
    unchanged(loop(extent="%n"))  # of sixteen rows it may take none
    unchanged(loop(extent="4i64"))
    unchanged(loop(source="%d"))  # carried


def test_fewer_rows_stay_if_a_cache_holds_the_weights() -> None:
    unchanged(loop(rows=16))
    small = GraphLimits(cache_bytes=100)
    assert "for" not in str(hoist_products(parse(loop(rows=16)), limits=small)).split("matmul")[0]


def test_many_rows_stay_unless_it_was_measured() -> None:
    unchanged(loop(rows=64))
    choices = Choices({})
    hoist_products(parse(loop(rows=64)), choices)
    (site,) = choices.sites.values()
    assert site.about == "loop" and site.options == (INSIDE, BEFORE)
    module = parse(loop(rows=64))
    assert hoist_products(module, Choices({site.key: BEFORE})) is not module
    few = Choices({})
    hoist_products(parse(loop()), few)
    (site,) = few.sites.values()
    module = parse(loop())
    assert hoist_products(module, Choices({site.key: INSIDE})) is module


def upper(x: Any, y: Any) -> Any:
    out = np.zeros((x.shape[1], y.shape[1]))
    for i in range(x.shape[1]):
        out[i, i:] = out[i:, i] = x[:, i] @ y[:, i:]
    return out


def lower(x: Any, y: Any) -> Any:
    out, w = np.zeros((x.shape[1], y.shape[1])), np.exp(y.T)
    for i in range(x.shape[1] - 1):
        out[i + 1, : i + 1] = w[: i + 1] @ x[:, i + 1]
    return out


def band(x: Any, y: Any) -> Any:
    out = np.zeros((x.shape[1], y.shape[1]))
    for i in range(x.shape[1] - 2):
        out[i, i : i + 3] = x[:, i] @ y[:, i : i + 3]
    return out


@pytest.mark.parametrize("shape", [(0, 40), (5, 0), (7, 1), (33, 41), (6, 100)])
@pytest.mark.parametrize("function", [upper, lower, band])
def test_slices_of_weights(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(shape), rng.random(shape)
    if shape[0] > 6:
        x[2, 0], y[3, -1] = np.inf, np.nan  # what is multiplied in vain is not seen
    compiled = lw.compile(function)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(compiled(x, y), function(x, y), rtol=1e-12)
        np.testing.assert_allclose(compiled(x, x), function(x, x), rtol=1e-12)
    if shape[0] and shape[1] > 1:
        before, inside = compiled.lower(x, y).as_text("program").split("for %", 1)
        assert "matmul" in (inside if function is band else before)


def test_products_of_vectors_and_of_other_slices_stay() -> None:
    def dots(x: Any, v: Any) -> Any:
        out = np.zeros((x.shape[0], 3))
        for i in range(x.shape[0]):
            out[i] = x[i] @ v, x[i, :i] @ v[:i], x[i] @ x[:, i]
        return out

    for size in (0, 1, 70):
        x = np.random.default_rng(0).random((size, size))
        np.testing.assert_allclose(
            lw.compile(dots)(x, x[:, :1].ravel()), dots(x, x[:, :1].ravel()), rtol=1e-12
        )
