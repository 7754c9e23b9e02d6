"""Proofs about sizes: what is proved, what is disproved, what stays open."""

from __future__ import annotations

import pytest
from loopwright.ir.dim_proofs import prove
from loopwright.ir.dims import floordiv, int_min, mod, size, symbol

N, M, I = size("n"), size("m", 1), symbol("i")


def test_ranges_may_be_expressions() -> None:
    assert prove(8 * floordiv(N, 8) + I, "<", N, {"i": (0, mod(N, 8) - 1)})
    assert prove(floordiv(I * M + symbol("j"), M), "==", I, {"j": (0, M - 1)})
    assert prove(I * M + symbol("j"), "<", N * M, {"i": (0, N - 1), "j": (0, M - 1)})


def test_given_facts_are_used() -> None:
    assert prove(N, "<=", M) is None
    assert prove(N, "<=", M, given=[(N, "<", M)]) is True
    assert prove(N, "<=", M, given=[(N, ">", M)]) is False


def test_unknown_relation() -> None:
    with pytest.raises(ValueError, match="unknown relation '=<'"):
        prove(3, "=<", 4)


def test_products_of_sizes_count_as_sizes() -> None:
    n, m, (a, b, c) = size("n", 4), size("m", 4), map(symbol, "abc")
    blocks = floordiv(n * floordiv(m, 2), 64)
    pieces, few = floordiv(blocks + 15, 16), floordiv(floordiv(blocks + 15, 16) + 127, 128)
    ranges = {
        "a": (0, few - 1),
        "b": (0, int_min(pieces - 128 * a, 128) - 1),
        "c": (0, int_min(blocks - 2048 * a - 16 * b, 16) - 1),
    }
    place = 64 * (2048 * a + 16 * b + c) + 63
    assert prove(place, "<", n * floordiv(m, 2), ranges)
    assert prove(place, "<", n * floordiv(m, 2) - 1, ranges) is None
    assert prove(n * n, ">=", 16)
